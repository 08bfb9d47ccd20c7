"""The JSON objects of a file of lines, plain or in gzip: a damaged line is told and passed over."""

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple

from verifierd.adapters.parse import parse
from verifierd.errors import FormatError, SourceError
from verifierd.replay.labelled.base import Tell
from verifierd.types import Origin

__all__ = ("Line", "objects")

_BYTES = 64 << 20
"""No line of a set is longer."""


class Line(NamedTuple):
    """An object, and where it stands.

    Attributes:
        value: The object.
        place: `file:line`, for people.
        origin: The file, and the byte offset of the line.
    """

    value: dict[str, Any]
    place: str
    origin: Origin


def objects(path: Path, tell: Tell) -> Iterator[Line]:
    """The objects of a file, in order.

    Args:
        path: The file; `.gz` is unpacked.
        tell: Told which lines hold no object, and where a damaged archive ends.

    Raises:
        SourceError: The file cannot be opened.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from _objects(file, path, tell)
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read: {error.strerror or error}", hint="Name a file that exists and may be read."
        ) from error


def _objects(file: BufferedIOBase, path: Path, tell: Tell) -> Iterator[Line]:
    offset = number = 0
    while True:
        try:
            data = file.readline(_BYTES + 1)
            size, whole = len(data), len(data) <= _BYTES
            while data and not data.endswith(b"\n") and (rest := file.readline(_BYTES)):
                size, whole, data = size + len(rest), False, rest
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            tell(
                SourceError(
                    f"{path}: the archive is damaged after line {number}: {error}",
                    hint="What stands before was read. Fetch the file again.",
                )
            )
            return
        if not data:
            return
        number += 1
        place, origin = f"{path}:{number}", Origin(path=str(path), offset=offset)
        offset += size
        if not whole:
            tell(FormatError(f"{place}: the line is longer than {_BYTES:,} bytes, and is left out"))
            continue
        found = parse(data.rstrip(b"\r\n"))
        if found.lost or len(found.objects) > 1:
            tell(
                FormatError(
                    f"{place}: the line is not one JSON object ({found.damage}), and is left out",
                    hint="Each line holds one whole object.",
                )
            )
            continue
        for value in found.objects:
            yield Line(value, place, origin)
