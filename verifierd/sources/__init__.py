"""Sources turn bytes into records. `open_source` knows which one a path needs."""

from collections.abc import Callable
from pathlib import Path

from verifierd.errors import SourceError
from verifierd.sources.archive import GzipSource
from verifierd.sources.base import LineSource
from verifierd.sources.file import FileSource
from verifierd.sources.splitter import MAX_LINE_BYTES
from verifierd.sources.stdin import StdinSource
from verifierd.types import Position

__all__ = ("MAX_LINE_BYTES", "LineSource", "open_source")

_SUFFIXES: dict[str, Callable[..., LineSource]] = {
    ".gz": GzipSource,
}
_UNREADABLE = {
    ".zst": "zstd -d",
    ".xz": "xz -d",
    ".bz2": "bzip2 -d",
    ".zip": "unzip",
}


def open_source(
    path: str | Path, position: Position | None = None, *, max_line_bytes: int = MAX_LINE_BYTES
) -> LineSource:
    """The source for a path: `-` is standard input, `.gz` is read once, everything else is followed.

    Nothing is opened yet; the first `read` is what fails on a missing file.

    Args:
        path: A file, or `-`.
        position: Where to go on, as committed before; None to start at the beginning.
        max_line_bytes: Longer lines are skipped.

    Raises:
        SourceError: The file is packed in a way that is not read.
    """
    if str(path) == "-":
        return StdinSource(max_line_bytes=max_line_bytes)
    suffix = Path(path).suffix
    if suffix in _UNREADABLE:
        raise SourceError(
            f"{path}: {suffix} archives are not read (only .gz is)",
            hint=f"unpack it first: {_UNREADABLE[suffix]} {path}",
        )
    return _SUFFIXES.get(suffix, FileSource)(Path(path), position, max_line_bytes=max_line_bytes)
