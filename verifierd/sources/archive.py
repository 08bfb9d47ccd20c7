"""Reads a compressed log, once, as it is; it is not followed."""

import os
import zlib
from collections.abc import Generator
from pathlib import Path

from anyio import to_thread

from verifierd.sources.base import CHUNK, LineSource, Stamp, look, open_regular, refusal, stamp
from verifierd.sources.file import HEAD, fingerprint
from verifierd.sources.splitter import MAX_LINE_BYTES, Splitter
from verifierd.types import Origin, Position, Record

__all__ = ("GzipSource",)

_MAGIC = b"\x1f\x8b"
# What decompresses in one call is lost if that call meets damage, so a call gets little.
_PIECE = 4096
_GZIP = zlib.MAX_WBITS | 16  # with gzip's header and checksum


class GzipSource(LineSource):
    """The lines of a `.gz` file; offsets count decompressed bytes.

    Of a damaged or unfinished archive comes what can be decompressed, then a record with the problem
    `damaged_archive`. Bytes that follow a complete archive and are no further one are ignored, as gzip does. If the
    file changes later (it was still being written) it is decompressed again and read on; if its head changed, it is
    read from 0 as the next generation.

    Args:
        path: The file.
        position: What was committed for it; None if it was never read.
        max_line_bytes: Longer lines are skipped: they become a record without data.
    """

    def __init__(self, path: Path, position: Position | None = None, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(str(path))
        self.generation = position.generation if position else 0
        self._max = max_line_bytes
        self._last = position or Position()
        self._splitter = Splitter(self.path, self._last.offset, max_line_bytes=max_line_bytes)
        self._head = self._last.head_size, self._last.head_hash
        self._read_to = self._last.offset  # the end of the last record split off
        self._stamp: Stamp = self._last.dev, self._last.ino, self._last.size, self._last.mtime_ns
        # Size and time are committed only with the last record, so they tell a finished archive from a begun one.
        self._ended = self._last.size > 0
        self._chunks: Generator[bytes, None, bool] | None = None
        self._left = 0

    def changed(self) -> bool:
        """Whether inode, size or modification time differ from when it was read, or the file has gone."""
        return look(self.path) != self._stamp

    @property
    def backlog(self) -> int:
        """Compressed bytes not yet read."""
        return self._left

    def position(self, end: int) -> Position:
        """What to commit once every record up to byte offset `end` (a record's `end`) is done with."""
        if self._last.offset <= end <= self._read_to:
            finished = self._ended and end == self._read_to
            dev, ino, size, mtime_ns = self._stamp
            self._last = Position(
                offset=end,
                dev=dev,
                ino=ino,
                head_size=self._head[0],
                head_hash=self._head[1],
                size=size if finished else 0,
                mtime_ns=mtime_ns if finished else 0,
                generation=self.generation,
            )
        return self._last

    async def tail(self) -> Record | None:
        """The last line, where the archive ended without a line end."""
        return self._splitter.tail() if self._ended and not self._pending else None

    def accept(self, tail: Record) -> None:
        """Count the last line as read."""
        self._splitter = Splitter(self.path, tail.end, max_line_bytes=self._max)
        self._read_to = tail.end

    async def aclose(self) -> None:
        """Close the file."""
        await to_thread.run_sync(self._close)

    def _fill(self, size: int) -> bool:
        if self._ended and not self.changed():
            return False
        if self._chunks is None:
            self._open()
        assert self._chunks is not None
        while size > 0:
            try:
                chunk = next(self._chunks)
            except StopIteration as end:
                self._chunks = None
                self._finish(damaged=not end.value)
                return False
            except OSError as error:
                self._close()
                raise refusal(self.path, error) from error
            self._take(self._splitter.feed(chunk))
            if self._pending:
                break
            size -= len(chunk)
        return True

    def _open(self) -> None:
        descriptor = open_regular(self.path)
        status = os.fstat(descriptor)
        head = os.pread(descriptor, HEAD, 0)
        known_size, known_hash = self._head
        if self._splitter.start and fingerprint(head[:known_size]) != known_hash:
            self.generation += 1
            self._last = Position(generation=self.generation)
            self._read_to = 0
        self._ended = False
        self._head = len(head), fingerprint(head)
        self._stamp = stamp(status)
        self._left = status.st_size
        self._splitter = Splitter(self.path, self._read_to, max_line_bytes=self._max)
        self._chunks = self._decompress(descriptor, skip=self._read_to)

    def _finish(self, *, damaged: bool) -> None:
        self._ended = True
        if damaged:
            origin = Origin(path=self.path, offset=self._read_to)
            # Half a line goes with the damage, and nothing behind it is ever committed: the file may yet be completed.
            self._splitter = Splitter(self.path, self._splitter.start, max_line_bytes=self._max)
            self._pending.append(Record(origin=origin, end=self._read_to, data=b"", problem="damaged_archive"))

    def _take(self, records: list[Record]) -> None:
        self._pending.extend(records)
        if records:
            self._read_to = records[-1].end

    def _close(self) -> None:
        if self._chunks is not None:
            self._chunks.close()
            self._chunks = None

    def _decompress(self, descriptor: int, *, skip: int) -> Generator[bytes, None, bool]:
        """The decompressed chunks after the first `skip` bytes. Returns whether the archive is whole."""
        with os.fdopen(descriptor, "rb") as file:
            whole = False
            inflate = zlib.decompressobj(_GZIP)
            data = b""
            while data or (data := file.read(_PIECE)):
                if whole:  # one member has ended: what follows is the next one, padding, or not ours
                    data = data.lstrip(b"\0")
                    if not data:
                        continue
                    if len(data) < len(_MAGIC):
                        data += file.read(_PIECE)
                    if not data.startswith(_MAGIC):
                        break
                    whole, inflate = False, zlib.decompressobj(_GZIP)
                try:
                    chunk = inflate.decompress(data, CHUNK)
                except zlib.error:
                    return False
                whole = inflate.eof
                data = inflate.unused_data if whole else inflate.unconsumed_tail
                self._left = os.fstat(file.fileno()).st_size - file.tell() + len(data)
                if len(chunk) > skip:
                    yield chunk[skip:]
                skip = max(0, skip - len(chunk))
            if not whole and (rest := inflate.flush()[skip:]):
                yield rest
            return whole
