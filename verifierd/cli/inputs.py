"""From the paths of a command line to files."""

from collections.abc import Callable, Iterable, Sequence
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


def spare(files: Iterable[Path | None], *outs: Path | None, page: Path | None = None) -> None:
    """Refuse to replace what is to be read, or one output by another.

    Args:
        files: What is to be read.
        outs: What was named after `--out`.
        page: What was named after `--report`.

    Raises:
        BadParameter: An output is one of the files, or the page is one of the others.
    """
    there = [path for path in files if path is not None and path.exists()]
    for option, out in (*(("--out", out) for out in outs), ("--report", page)):
        if out is not None and out.exists() and any(out.samefile(path) for path in there):
            raise click.BadParameter(f"{out} is one of the inputs; name another file", param_hint=option)
    if page is not None and any(out is not None and page.resolve() == out.resolve() for out in outs):
        raise click.BadParameter(f"{page} is what --out names; name another file", param_hint="--report")


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
