"""Cuts a stream of bytes into lines, in constant memory whatever the lines are like."""

from verifierd.types import Origin, Record

__all__ = ("MAX_LINE_BYTES", "Splitter")

MAX_LINE_BYTES = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


class Splitter:
    r"""Collects chunks and gives the lines that they complete.

    Only `\n` ends a line: the other characters that Unicode calls line ends may stand raw inside a JSON string. A
    `\r` before it is dropped from the data and counted in the offsets; so is a byte order mark at offset 0. Lines of
    nothing but white space are no records. A line above the limit is not kept; it becomes a record without data.

    Args:
        path: What the records' origins name.
        offset: Where the first chunk starts in the stream.
        max_line_bytes: The longest line given, without its line end.
    """

    def __init__(self, path: str, offset: int = 0, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.start = offset
        self._path = path
        self._max = max_line_bytes
        self._held: list[bytes] = []
        self._length = 0

    @property
    def offset(self) -> int:
        """Where the next chunk is expected to start. `start` is where the line that it goes on with starts."""
        return self.start + self._length

    def feed(self, chunk: bytes) -> list[Record]:
        """The records of the lines that end in this chunk."""
        records = []
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._hold(piece)
            end = self.offset + 1
            if record := self._record(end, terminated=True):
                records.append(record)
            self._restart(end)
        self._hold(rest)
        return records

    def tail(self) -> Record | None:
        """What was fed after the last line end, as if it ended here; None if that is nothing or white space."""
        return self._record(self.offset, terminated=False)

    def forget(self) -> None:
        """Let go of an unfinished line, to be fed again from `offset`, which is its start.

        A line already known to be too long is not worth that: for it `offset` stays where it is.
        """
        if not self._too_long:
            self._restart(self.start)

    @property
    def _too_long(self) -> bool:
        return self._length > self._max + 1  # one more for a carriage return

    def _hold(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._too_long:
            self._held.clear()
        elif piece:
            self._held.append(piece)

    def _record(self, end: int, *, terminated: bool) -> Record | None:
        origin = Origin(path=self._path, offset=self.start)
        data = b"".join(self._held)
        if terminated:
            data = data.removesuffix(b"\r")
        if self._too_long or len(data) > self._max:
            return Record(origin=origin, end=end, data=b"", problem="too_long")
        if self.start == 0:
            data = data.removeprefix(_BOM)
        if not data or data.isspace():
            return None
        return Record(origin=origin, end=end, data=data)

    def _restart(self, start: int) -> None:
        self.start = start
        self._length = 0
        self._held.clear()
