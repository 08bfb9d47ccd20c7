"""From the paths of a command line to files."""

from collections.abc import Callable, Sequence
from pathlib import Path

from verifierd.errors import SourceError
from verifierd.sources.base import look
from verifierd.sources.directory import Watcher, nothing_found

__all__ = ("expand_inputs",)


def expand_inputs(paths: Sequence[str], tell: Callable[[SourceError], None]) -> list[Path | None]:
    """The files that paths, folders and globs stand for, each once, in their order; None for `-`, standard input.

    What is missing or may not be read is told, and the rest goes on.

    Raises:
        SourceError: There is nothing to read at all.
    """
    files: dict[object, Path | None] = {}
    troubles: list[SourceError] = []
    for path in paths:
        if path == "-":
            files["-"] = None
            continue
        sighting = Watcher((path,)).look()
        for found in sighting.ready:
            stamp = look(str(found))
            files.setdefault(found if stamp is None else stamp[:2], found)
        troubles += [error for _, error in sighting.troubles if error is not None]
        if not sighting.ready and not sighting.troubles:
            troubles.append(nothing_found([path]))
    if not files:
        *others, last = troubles
        for error in others:
            tell(error)
        raise last
    for error in troubles:
        tell(error)
    return list(files.values())
