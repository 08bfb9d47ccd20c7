"""Files that suites read and write: text, packed by gzip where the name ends so."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from verifierd.errors import ConfigError, StateError

__all__ = ("unpacked", "write")

_BYTES = 1 << 30
"""No table of steps is larger, unpacked."""


def unpacked(path: Path) -> bytes:
    """What a file holds.

    Raises:
        ConfigError: It cannot be read, or is too large.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(
            f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="`replay/suites/README.md` says what the suite reads.",
        ) from error
    if len(content) > _BYTES:
        raise ConfigError(f"{path}: is larger than {_BYTES:,} bytes")
    return content


def write(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV; the same rows give the same bytes.

    Raises:
        StateError: The file cannot be written.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    content = text.getvalue().encode(errors="replace")
    try:
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    except OSError as error:
        raise StateError(
            f"{path}: cannot be written: {error.strerror or error}", hint="Name another file after --out."
        ) from error
