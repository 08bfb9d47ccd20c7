"""From the paths of a command line to files."""

from collections.abc import Sequence
from pathlib import Path

from verifierd.sources.directory import expand, nothing_found

__all__ = ("expand_inputs",)


def expand_inputs(paths: Sequence[str]) -> list[Path | None]:
    """The files that paths, folders and globs stand for; None for `-`, standard input.

    Raises:
        SourceError: A path does not exist, or there is no log in any of them.
    """
    files = [None if str(path) == "-" else path for path in expand(paths)]
    if not files:
        raise nothing_found(paths)
    return files
