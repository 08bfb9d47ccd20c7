"""What all sources have in common: lines are split in a worker thread, a bounded batch at a time."""

import errno
import os
import stat
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from verifierd.errors import SourceError
from verifierd.types import Position, Record

__all__ = ("CHUNK", "LineSource", "Stamp", "look", "open_regular", "refusal", "stamp")

CHUNK = 256 * 1024

Stamp = tuple[int, int, int, int]

_KINDS = (
    (stat.S_ISDIR, "a folder", "name a file in it; `run` and `replay` also take folders and look for logs in them"),
    (stat.S_ISFIFO, "a named pipe", "pipe it in instead: cat PIPE | verifierd replay -"),
    (stat.S_ISSOCK, "a socket", "name a plain file"),
    (stat.S_ISCHR, "a device", "name a plain file, or - for standard input"),
    (stat.S_ISBLK, "a device", "name a plain file"),
)


class LineSource(ABC):
    """A `Source` of lines. One task reads it.

    Attributes:
        path: What the records' origins name.
        generation: Grows when the stream starts over because it is another one than before. Records of one `read`
            are all of the generation that stands when it returns.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.generation = 0
        self._pending: deque[Record] = deque()

    async def read(self, *, records: int, size: int) -> Sequence[Record]:
        """The next complete lines, in order: at most `records`, about `size` bytes; none when nothing is new.

        Raises:
            SourceError: The stream cannot be read (any more). It may be tried again; nothing is lost by that.
        """
        while not self._pending and await to_thread.run_sync(self._fill, size):
            pass
        batch: list[Record] = []
        while self._pending and len(batch) < records and size > 0:
            batch.append(self._pending.popleft())
            size -= len(batch[-1].data)
        return batch

    @abstractmethod
    def _fill(self, size: int) -> bool:
        """Read until something is pending or about `size` bytes have gone by; False if nothing more is there now."""

    @abstractmethod
    async def tail(self) -> Record | None:
        """The unterminated rest of the stream, if all before it has been read and it is more than white space.

        Whether half a line or a whole one that lacks its line end cannot be known from here: take it only if it is
        complete in itself, and then call `accept`.
        """

    @abstractmethod
    def accept(self, tail: Record) -> None:
        """Go on reading behind the record that `tail` gave."""

    @abstractmethod
    def position(self, end: int) -> Position:
        """What to commit once every record up to byte offset `end` (a record's `end`) is done with.

        For an `end` that was not given lately, or was given before the stream started over, it is the position asked
        for last: never one that skips anything.
        """

    @abstractmethod
    def changed(self) -> bool:
        """Whether the stream looks other than at the last read; cheap."""

    @property
    @abstractmethod
    def backlog(self) -> int:
        """Bytes not yet given, as of the last read."""

    @abstractmethod
    async def aclose(self) -> None:
        """Let go of the stream. It may be read again afterwards, if it can be opened again."""


def stamp(status: os.stat_result) -> Stamp:
    """Device, inode, size and modification time: what differs when a file has changed."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def look(path: str) -> Stamp | None:
    """The stamp of what a path leads to; None if that cannot be told."""
    try:
        return stamp(os.stat(path))  # noqa: PTH116 (asked of thousands of files a second)
    except OSError:
        return None


def open_regular(path: str) -> int:
    """A descriptor of a plain file; never blocks, not even on a pipe that nobody writes to.

    Raises:
        SourceError: It is missing, may not be read, or is no plain file.
    """
    try:
        _require_regular(path, Path(path).stat())  # a device must not even be opened
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise refusal(path, error) from error
    try:
        _require_regular(path, os.fstat(descriptor))  # it may have been exchanged in between
    except SourceError:
        os.close(descriptor)
        raise
    return descriptor


def refusal(path: str, error: OSError) -> SourceError:
    """The error of the operating system about an input, in words that say what to do."""
    reason = error.strerror or str(error)
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return SourceError(f"{path}: does not exist", hint="check the spelling; globs need quotes")
        case errno.EACCES:
            return SourceError(f"{path}: may not be read", hint="run as the user whose agent writes it, or chmod u+r")
        case errno.EPERM:
            return SourceError(
                f"{path}: the system forbids reading it",
                hint="on macOS allow your terminal under Privacy & Security, Full Disk Access",
            )
        case errno.ELOOP:
            return SourceError(f"{path}: is a symbolic link that leads back to itself", hint="name the file itself")
        case errno.EMFILE | errno.ENFILE:
            return SourceError(f"{path}: too many open files", hint="raise the limit: ulimit -n 4096")
    return SourceError(f"{path}: cannot be read: {reason}", hint="it is tried again while the daemon runs")


def _require_regular(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        for test, kind, hint in _KINDS:
            if test(status.st_mode):
                raise SourceError(f"{path}: is {kind}, not a plain file", hint=hint)
        raise SourceError(f"{path}: is not a plain file", hint="name a plain file")
