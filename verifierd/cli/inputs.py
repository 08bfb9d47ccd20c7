"""From the paths of a command line to files."""

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from verifierd.cli import tell
from verifierd.errors import SourceError, VerifierdError
from verifierd.sources.base import look
from verifierd.sources.directory import Watcher, nothing_found

__all__ = ("Troubles", "expand_inputs", "spare")


class Troubles:
    """Tells errors, and remembers whether something could not be read.

    Attributes:
        unread: True once a source was missing or could not be read.
    """

    def __init__(self) -> None:
        self.unread = False

    def __call__(self, error: VerifierdError) -> None:
        """Tell an error after which the command goes on."""
        self.unread = self.unread or isinstance(error, SourceError)
        tell(error)


def spare(files: Sequence[Path | None], out: Path | None, *, option: str = "--out") -> None:
    """Refuse to replace what is to be read.

    Raises:
        BadParameter: `out`, which was named after the option, is one of the files.
    """
    if out is not None and any(path is not None and out.exists() and out.samefile(path) for path in files):
        raise click.BadParameter(f"{out} is one of the inputs; name another file", param_hint=option)


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
