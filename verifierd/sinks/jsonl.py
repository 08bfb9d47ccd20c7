"""The verdict JSONL: a projection of the store into a file that people and programs follow.

The store is the truth. The file holds the store's lines in the order of `seq`; what a crash, a full disk or a person
does to it is repaired from the store, and no line is ever in it twice.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import msgspec
from anyio import to_thread

from verifierd.errors import StateError
from verifierd.store import Store
from verifierd.types import Verdict

__all__ = ("JsonlSink",)

T = TypeVar("T")
Args = TypeVarTuple("Args")

_BATCH = 1000
_BLOCK = 64 * 1024

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TEMPORARY = (*_NO_ROOM, errno.EIO, errno.EMFILE, errno.ENFILE)


class _Line(msgspec.Struct, frozen=True):
    """What is needed of a line to find its place: `end` is the offset behind it."""

    seq: int
    verdict_id: str
    end: int = 0


class JsonlSink:
    """Appends to the file every line that the store has and the file has not.

    When it is opened the file is brought in line with the store: a torn last line is cut off; lines that the store
    lost in a power failure are cut off, as they will be judged anew; lines that the file lacks are added. A file that
    belongs to another database is set aside as `NAME.old-N`. If the file is deleted, cut or moved away later, the
    sink goes on with the next line, in a new file if need be.

    Args:
        path: The file; made with mode 0600.
        store: Where the lines are.
        max_bytes: When the file would grow beyond this it becomes `NAME.1`, in place of the one before; None: never.
    """

    def __init__(self, path: Path, store: Store, *, max_bytes: int | None = None) -> None:
        self.path = path
        self._store = store
        self._max_bytes = max_bytes
        self._descriptor: int | None = None
        self._size = 0
        self._seq = 0

    async def open(self) -> None:
        """Open the file and repair it.

        Raises:
            StateError: It cannot be written, is no plain file, or is another user's symbolic link.
        """
        last = await self._store.last_seq()
        line = await self._try(self._last_line, last)
        if line is not None and await self._is_ours(line):
            await self._try(self._cut, line.end)
        else:
            await self._try(self._set_aside)
            line = await self._try(self._last_rotated_line, last)
        self._seq = line.seq if line is not None and await self._is_ours(line) else 0
        await self._catch_up()

    async def emit(self, verdicts: Sequence[Verdict]) -> None:  # noqa: ARG002 (the store has their lines)
        """Append the lines that the store got since the last call, these verdicts' among them.

        Raises:
            StateError: The file cannot be written. The next call writes what is missing.
        """
        await self._catch_up()

    async def aclose(self) -> None:
        """Append what is missing, have it written to the disk, and close the file."""
        if self._descriptor is not None:
            try:
                await self._catch_up()
            finally:
                await self._try(self._close)

    async def _catch_up(self) -> None:
        while rows := await self._store.lines(self._seq, _BATCH):
            await self._try(self._append, rows)

    async def _is_ours(self, line: _Line) -> bool:
        """Whether the store that wrote a line is this one, as far as it remembers."""
        kept = await self._store.lines(line.seq - 1, 1)
        if not kept or kept[0][0] != line.seq:
            return True  # pruned
        return (known := _parse(kept[0][1])) is not None and known.verdict_id == line.verdict_id

    async def _try(self, function: Callable[[*Args], T], *arguments: *Args) -> T:
        """Call a function in a worker thread; all that touch the file are called so, one at a time."""
        try:
            return await to_thread.run_sync(function, *arguments)
        except OSError as error:
            raise _refusal(self.path, error) from error

    def _append(self, rows: Sequence[tuple[int, bytes]]) -> None:
        self._follow()
        lines: list[bytes] = []
        size = self._size
        for index, (_, line) in enumerate(rows):
            if self._max_bytes is not None and size and size + len(line) > self._max_bytes:
                self._write(b"".join(lines), rows[index - 1][0] if index else self._seq)
                self._rotate()
                lines, size = [], 0
            lines.append(line)
            size += len(line)
        self._write(b"".join(lines), rows[-1][0])

    def _write(self, data: bytes, seq: int) -> None:
        """Write whole lines, the last of which has this `seq`; all or nothing."""
        descriptor = self._follow()
        written = 0
        try:
            while written < len(data):
                written += os.write(descriptor, data[written:])
        except OSError:
            if written:
                os.ftruncate(descriptor, self._size)  # the disk may stay full: leave no torn line
            raise
        self._size += written
        self._seq = seq

    def _follow(self) -> int:
        """A descriptor of the file that is now under the path; what is in it ends with a line."""
        if self._descriptor is not None:
            status = os.fstat(self._descriptor)
            try:
                same = os.path.samestat(status, self.path.stat())
            except FileNotFoundError:
                same = False
            if same and status.st_size == self._size:
                return self._descriptor
            self._close()
        descriptor = self._descriptor = self._open()
        size = os.fstat(descriptor).st_size
        self._size = _whole(descriptor, size)
        if self._size != size:
            os.ftruncate(descriptor, self._size)
        return descriptor

    def _open(self) -> int:
        path = self.path
        if path.is_symlink():
            if path.lstat().st_uid != os.geteuid():
                raise StateError(f"{path}: is a symbolic link of another user", hint="choose another --out FILE")
            path = path.resolve()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise StateError(f"{path}: is not a plain file", hint="choose another --out FILE")
        return descriptor

    def _close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _last_line(self, last: int) -> _Line | None:
        """The last line of the file whose `seq` is not beyond `last`."""
        return _last(self._follow(), self._size, last)

    def _last_rotated_line(self, last: int) -> _Line | None:
        try:
            with self._rotated.open("rb") as file:
                return _last(file.fileno(), os.fstat(file.fileno()).st_size, last)
        except FileNotFoundError:
            return None

    def _cut(self, end: int) -> None:
        descriptor = self._follow()
        if end < self._size:
            os.ftruncate(descriptor, end)
            self._size = end

    def _set_aside(self) -> None:
        if self._size:
            names = (self.path.with_name(f"{self.path.name}.old-{number}") for number in count(1))
            self._close()
            self.path.rename(next(name for name in names if not name.exists()))
            self._follow()

    @property
    def _rotated(self) -> Path:
        return self.path.with_name(self.path.name + ".1")

    def _rotate(self) -> None:
        self._close()
        self.path.replace(self._rotated)


def _last(descriptor: int, size: int, seq: int) -> _Line | None:
    for data, end in _backwards(descriptor, size):
        line = _parse(data)
        if line is not None and line.seq <= seq:
            return _Line(line.seq, line.verdict_id, end)
    return None


def _backwards(descriptor: int, end: int) -> Iterator[tuple[bytes, int]]:
    """The lines before an offset, last first, each with the offset behind it."""
    held, start, stop = b"", end, 0
    while start or stop:
        cut = held.rfind(b"\n", 0, max(0, stop - 1)) + 1
        if cut == 0 and start:
            block = os.pread(descriptor, min(start, _BLOCK), max(0, start - _BLOCK))
            held, start, stop = block + held[:stop], max(0, start - _BLOCK), stop + len(block)
            continue
        yield held[cut:stop], start + stop
        stop = cut


def _whole(descriptor: int, size: int) -> int:
    """The offset behind the last line end."""
    while size:
        start = max(0, size - _BLOCK)
        if end := os.pread(descriptor, size - start, start).rfind(b"\n") + 1:
            return start + end
        size = start
    return 0


def _parse(data: bytes) -> _Line | None:
    try:
        return msgspec.json.decode(data, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _refusal(path: Path, error: OSError) -> StateError:
    return StateError(
        f"{path}: cannot be written: {error.strerror}",
        hint="free some space" if error.errno in _NO_ROOM else "check the folder, or choose another --out FILE",
        temporary=error.errno in _TEMPORARY,
    )
