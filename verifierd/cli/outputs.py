"""Files that a command writes beside what it prints."""

from pathlib import Path

from verifierd.errors import StateError

__all__ = ("write",)


def write(path: Path, data: bytes | None = None) -> None:
    """Write a file; without data only make sure that it can be written.

    Raises:
        StateError: It cannot.
    """
    try:
        with path.open("ab" if data is None else "wb") as file:
            file.write(data or b"")
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror or error}", hint="Name another file.") from error
