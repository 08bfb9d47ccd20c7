"""Reads standard input, once."""

import io
import os
import select
import sys
from typing import BinaryIO

from verifierd.sources.base import CHUNK, LineSource
from verifierd.sources.splitter import MAX_LINE_BYTES, Splitter
from verifierd.types import Position, Record

__all__ = ("StdinSource",)

# Seconds for which a worker thread waits for input before it looks whether the reader was cancelled.
_PATIENCE = 0.25


class StdinSource(LineSource):
    """The lines of standard input. `read` waits for a line and gives nothing only at the end of the input.

    Its position is never resumed: what a pipe carried is gone.

    Args:
        stream: What to read instead.
        max_line_bytes: Longer lines are skipped: they become a record without data.
    """

    def __init__(self, stream: BinaryIO | None = None, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__("-")
        self._stream = stream or sys.stdin.buffer
        self._splitter = Splitter(self.path, max_line_bytes=max_line_bytes)
        self._ended = False
        try:
            self._descriptor: int | None = self._stream.fileno()
        except io.UnsupportedOperation:
            self._descriptor = None

    def changed(self) -> bool:
        """Whether the input has not ended."""
        return not self._ended

    @property
    def backlog(self) -> int:
        """Bytes of lines that were read and not yet given."""
        return self._splitter.start - self._pending[0].origin.offset if self._pending else 0

    def position(self, end: int) -> Position:
        """The offset alone: it says how far the input was read."""
        return Position(offset=end)

    async def tail(self) -> Record | None:
        """The last line, where the input ended without a line end."""
        return self._splitter.tail() if self._ended and not self._pending else None

    def accept(self, tail: Record) -> None:
        """Count the last line as read."""
        self._splitter = Splitter(self.path, tail.end)

    async def aclose(self) -> None:
        """Stop reading; the stream stays open, it is not ours."""
        self._ended = True

    def _fill(self, size: int) -> bool:
        while size > 0 and not self._ended:
            chunk = self._next()
            if chunk is None:
                return True
            self._ended = not chunk
            self._pending.extend(self._splitter.feed(chunk))
            if self._pending:
                break
            size -= len(chunk)
        return not self._ended

    def _next(self) -> bytes | None:
        """The next chunk, empty at the end; None if there is nothing yet."""
        if self._descriptor is None:
            return self._stream.read(CHUNK)
        ready, _, _ = select.select([self._descriptor], [], [], _PATIENCE)
        return os.read(self._descriptor, CHUNK) if ready else None
