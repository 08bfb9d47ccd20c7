"""A log file for where nobody else rotates one: it is closed in time, and one before it is kept."""

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from verifierd.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ("open_log",)

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def open_log(path: Path, *, max_bytes: int = 10 * 1024**2) -> TextIO:
    """Takes whole lines; when they would be too many the file becomes `NAME.1`, in place of the one before.

    If the file is moved away or deleted, the next line begins a new one.

    Args:
        path: The file, which is its owner's alone; its folder is made if need be.
        max_bytes: How large it may become.

    Raises:
        ConfigError: It cannot be opened.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = _File(path, max_bytes)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written: {error.strerror or error}", hint="Name another file after --log-file."
        ) from error
    return io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[type-var]  # as `python -u` has it


class _File(io.RawIOBase):
    """The bytes of it; each write is some whole lines."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._descriptor: int | None = None
        self._follow()

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer") -> int:
        descriptor, added = self._follow(), len(memoryview(data))
        size = os.fstat(descriptor).st_size
        if size and size + added > self._max_bytes:
            self._path.replace(f"{self._path}.1")
            descriptor = self._follow()
        return os.write(descriptor, data)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        super().close()

    def _follow(self) -> int:
        """A descriptor of the file that is now under the path."""
        if self._descriptor is not None:
            try:
                if os.path.samestat(os.fstat(self._descriptor), self._path.lstat()):
                    return self._descriptor
            except FileNotFoundError:
                pass
            os.close(self._descriptor)
            self._descriptor = None
        self._descriptor = os.open(self._path, _FLAGS, 0o600)
        os.fchmod(self._descriptor, 0o600)
        return self._descriptor
