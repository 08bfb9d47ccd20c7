"""Files that a command writes beside what it prints."""

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from verifierd.errors import StateError

__all__ = ("asked", "now", "write")


def asked() -> str:
    """The command line, to be repeated."""
    return shlex.join(["verifierd", *sys.argv[1:]])


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def write(path: Path, data: bytes | None = None) -> None:
    """Write a file; without data only make sure that it can be written, and leave no empty one behind.

    Raises:
        StateError: It cannot.
    """
    try:
        new = not path.exists()
        with path.open("ab" if data is None else "wb") as file:
            file.write(data or b"")
        if new and data is None:
            path.unlink()
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror or error}", hint="Name another file.") from error
