"""Follows one growing file, by byte offsets, and sees when it is no longer the same file.

A file is known by what has been read of it: (device, inode), a digest of its head and a digest of the bytes just
before the offset. Each time it looks different, and each time it is opened, `resume` compares the three.
"""

import hashlib
import os
from enum import StrEnum
from itertools import takewhile
from pathlib import Path

import msgspec
from anyio import to_thread

from verifierd.errors import SourceError
from verifierd.sources.base import CHUNK, LineSource, look, open_regular, refusal, stamp
from verifierd.sources.splitter import MAX_LINE_BYTES, Splitter
from verifierd.types import Position, Record

__all__ = ("ANCHOR", "HEAD", "Facts", "FileSource", "Resume", "Sight", "fingerprint", "resume")

HEAD = 1024
ANCHOR = 256

# Ends of records given whose position nobody has asked for. A pipeline holds far fewer in flight; a reader that never
# commits must not grow.
_ENDS = 8192


class Sight(StrEnum):
    """What a file turned out to be, compared with what was known of it."""

    NEW = "new"
    SAME = "same"
    REPLACED = "replaced"
    REWRITTEN = "rewritten"
    RECREATED = "recreated"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a file looks like now.

    Attributes:
        dev, ino, size, mtime_ns: As `stat` says.
        head: Its first bytes, at most `HEAD`.
        anchor: The bytes just before the known position's offset, at most `ANCHOR`; fewer if the file ends earlier.
    """

    dev: int
    ino: int
    size: int
    mtime_ns: int
    head: bytes
    anchor: bytes


class Resume(msgspec.Struct, frozen=True, kw_only=True):
    """Where to read on."""

    offset: int
    generation: int
    sight: Sight


def resume(position: Position | None, facts: Facts) -> Resume:
    """Decide whether a file is the one that was read up to a position, and where to go on.

    ==================  =====  ==========================  ==================================================
    (dev, ino)          head   size >= offset and anchor   answer
    ==================  =====  ==========================  ==================================================
    same                same   same                        it grew: read on
    other               same   same                        rewritten by rename, or restored: read on
    any                 same   differ                      rewritten in place or cut: from 0, next generation
    any                 other  any                         another file: from 0, next generation
    ==================  =====  ==========================  ==================================================

    Nothing is known of a file of which nothing was read, so that is read from 0 without a new generation. What is
    read again is recognised downstream, step by step. Bytes that changed between the head and the anchor go unseen.
    """
    if position is None:
        return Resume(offset=0, generation=0, sight=Sight.NEW)
    if position.offset == 0:
        return Resume(offset=0, generation=position.generation, sight=Sight.SAME)
    if fingerprint(facts.head[: position.head_size]) != position.head_hash:
        return Resume(offset=0, generation=position.generation + 1, sight=Sight.RECREATED)
    if facts.size < position.offset or fingerprint(facts.anchor) != position.anchor_hash:
        return Resume(offset=0, generation=position.generation + 1, sight=Sight.REWRITTEN)
    known = (position.dev, position.ino) == (facts.dev, facts.ino)
    sight = Sight.SAME if known else Sight.REPLACED
    return Resume(offset=position.offset, generation=position.generation, sight=sight)


class FileSource(LineSource):
    """The complete lines of a plain file. An unterminated last line is held back until its line end is there.

    The file is open only while there is something to read, so thousands of idle ones cost no descriptor. What a
    writer adds between the last look and a rename of the file is therefore not seen.

    Args:
        path: The file.
        position: What was committed for it; None if it was never read.
        max_line_bytes: Longer lines are skipped: they become a record without data.
    """

    def __init__(self, path: Path, position: Position | None = None, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(str(path))
        self.generation = position.generation if position else 0
        self.sight: Sight | None = None
        self._max = max_line_bytes
        self._known = position
        self._last = position or Position()
        self._splitter = self._split_from(self._last.offset)
        self._descriptor: int | None = None
        self._ended = False  # all that was there at the last look has been split
        self._status: os.stat_result | None = None
        self._head = b""
        self._anchor = b""  # the bytes before the first line not yet split off
        self._recent = b""  # the bytes before the next chunk
        self._ends: dict[int, str] = {}
        self._tail: tuple[int, bytes] | None = None

    def changed(self) -> bool:
        """Whether inode, size or modification time differ from the last look, or the file has gone."""
        return self._status is None or look(self.path) != stamp(self._status)

    @property
    def backlog(self) -> int:
        """Bytes not yet given, as of the last look; lines split off but not given included."""
        start = self._pending[0].origin.offset if self._pending else self._splitter.offset
        return max(0, self._status.st_size - start) if self._status else 0

    def position(self, end: int) -> Position:
        """What to commit once every record up to byte offset `end` (a record's `end`) is done with."""
        if (anchor := self._ends.get(end)) is not None:
            for done in list(takewhile(lambda known: known <= end, self._ends)):
                del self._ends[done]
            self._last = self._position(end, anchor)
        return self._last

    async def tail(self) -> Record | None:
        """The unterminated rest of the file; None if there is none, or lines before it have not been read."""
        return None if self._pending else await to_thread.run_sync(self._probe)

    def accept(self, tail: Record) -> None:
        """Go on reading behind the record that `tail` gave last."""
        if self._tail is None or self._tail[0] != tail.end:
            raise ValueError("only the record that tail() gave last can be accepted")
        end, anchor = self._tail
        self._go_to(end, anchor)
        self._remember(end, anchor)

    async def aclose(self) -> None:
        """Close the file."""
        self._close()

    def _fill(self, size: int) -> bool:
        if self._ended and not self.changed():
            return False
        self._ended = False
        descriptor = self._look()
        while size > 0:
            chunk = self._pread(descriptor, CHUNK, self._splitter.offset)
            self._split(chunk)
            if len(chunk) < CHUNK:  # the end, for now
                self._close()
                self._ended = True
                return False
            if self._pending:
                return True
            size -= len(chunk)
        return True

    def _look(self) -> int:
        """Open the file if it is not, and go to where reading it must go on."""
        opened = self._descriptor is None
        descriptor = open_regular(self.path) if self._descriptor is None else self._descriptor
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        changed = self._status is None or stamp(status) != stamp(self._status)
        if changed:
            self._ended = False  # also where only the tail was asked for: the next `read` must look
        if opened or changed:
            offset = self._known.offset if self._known else 0
            facts = Facts(
                dev=status.st_dev,
                ino=status.st_ino,
                size=status.st_size,
                mtime_ns=status.st_mtime_ns,
                head=self._pread(descriptor, HEAD, 0),
                anchor=self._pread(descriptor, min(offset, ANCHOR), max(0, offset - ANCHOR)),
            )
            self._status = status
            self._resume(facts)
        return descriptor

    def _resume(self, facts: Facts) -> None:
        decision = resume(self._known, facts)
        self.sight = decision.sight
        self._splitter.forget()  # what was read of an unfinished line may have been rewritten
        if decision.generation != self.generation:
            self.generation = decision.generation
            self._tail = None
            self._ends.clear()
            self._last = Position(
                dev=facts.dev, ino=facts.ino, size=facts.size, mtime_ns=facts.mtime_ns, generation=self.generation
            )
            self._splitter = self._split_from(decision.offset)
        elif facts.size < self._splitter.offset or not facts.head.startswith(self._head):
            # An endless line was cut, or is another one.
            self._splitter = self._split_from(decision.offset)
        self._head = facts.head[: self._splitter.offset]
        self._anchor = facts.anchor if decision.offset else b""
        if self._splitter.offset == decision.offset:
            self._recent = self._anchor
        self._known = self._position(decision.offset, fingerprint(self._anchor))

    def _split(self, chunk: bytes) -> None:
        start = self._splitter.offset
        line = self._splitter.start
        for record in self._splitter.feed(chunk):
            self._remember(record.end, _before(self._recent, chunk, record.end - start))
            self._pending.append(record)
        if start <= len(self._head) < HEAD:
            self._head = (self._head[:start] + chunk)[:HEAD]
        if self._splitter.start != line:
            self._anchor = _before(self._recent, chunk, self._splitter.start - start)
            self._known = self._position(self._splitter.start, fingerprint(self._anchor))
        self._recent = _before(self._recent, chunk, len(chunk))

    def _close(self) -> None:
        """Close the file, and with it forget half a line: it may have been rewritten when it is looked at again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._splitter.forget()
        if self._splitter.start == self._splitter.offset:
            self._recent = self._anchor

    def _probe(self) -> Record | None:
        try:
            descriptor = self._look()
            probe = self._split_from(self._splitter.start)
            recent = self._anchor
            while chunk := self._pread(descriptor, CHUNK, probe.offset):
                if b"\n" in chunk:
                    return None
                probe.feed(chunk)
                recent = _before(recent, chunk, len(chunk))
            self._tail = (probe.offset, recent)
            return probe.tail()
        finally:
            self._close()

    def _pread(self, descriptor: int, size: int, offset: int) -> bytes:
        try:
            return os.pread(descriptor, size, offset)
        except OSError as error:
            self._close()
            raise refusal(self.path, error) from error

    def _split_from(self, offset: int) -> Splitter:
        return Splitter(self.path, offset, max_line_bytes=self._max)

    def _go_to(self, offset: int, anchor: bytes) -> None:
        self._splitter = self._split_from(offset)
        self._anchor = self._recent = anchor
        self._known = self._position(offset, fingerprint(anchor))

    def _remember(self, end: int, anchor: bytes) -> None:
        self._ends[end] = fingerprint(anchor)
        if len(self._ends) > _ENDS:
            del self._ends[next(iter(self._ends))]

    def _position(self, offset: int, anchor_hash: str) -> Position:
        if self._status is None:
            raise SourceError(f"{self.path}: has not been read")
        head = self._head[:offset]
        return Position(
            offset=offset,
            dev=self._status.st_dev,
            ino=self._status.st_ino,
            head_size=len(head),
            head_hash=fingerprint(head),
            anchor_hash=anchor_hash,
            size=self._status.st_size,
            mtime_ns=self._status.st_mtime_ns,
            generation=self.generation,
        )


def fingerprint(data: bytes) -> str:
    """A 128-bit digest of bytes, in hex."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _before(recent: bytes, chunk: bytes, end: int) -> bytes:
    """The bytes before `end` of a chunk, which `recent` preceded."""
    return chunk[end - ANCHOR : end] if end >= ANCHOR else (recent + chunk[:end])[-ANCHOR:]
