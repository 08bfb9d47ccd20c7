"""The last verdicts, in memory, for the admin endpoint. What went off path is kept longest."""

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice

import msgspec

from verifierd.store import StoredVerdict
from verifierd.types import Verdict, VerdictKind

__all__ = ("Recent",)


class Recent:
    """A ring of verdicts, and one of its own for those off path, so that the many do not push out the few.

    Args:
        size: Verdicts kept that are not off path.
        flagged: Verdicts kept that are.
        max_bytes: Characters of quotes kept in all; beyond them the oldest go, those off path last.
    """

    def __init__(self, size: int = 1000, flagged: int = 1000, *, max_bytes: int = 64 * 1024**2) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._others = _Ring(size)
        self._flagged = _Ring(flagged)

    def preload(self, stored: Iterable[StoredVerdict]) -> None:
        """Take up what the store holds, given newest first, before anything is emitted.

        Lines that cannot be read any more are left out.
        """
        for entry in reversed(list(stored)):
            try:
                self._add(msgspec.json.decode(entry.line, type=Verdict))
            except msgspec.DecodeError:
                continue

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Keep."""
        for verdict in verdicts:
            self._add(verdict)

    async def aclose(self) -> None:
        """Nothing is held open."""

    def list(self, limit: int, verdict: VerdictKind | None = None, after: int | None = None) -> Sequence[Verdict]:
        """The newest verdicts first.

        Args:
            limit: No more than this many.
            verdict: Only this kind.
            after: Only those with a larger `seq`.
        """
        newest = merge(reversed(self._others.held), reversed(self._flagged.held), key=lambda v: -v.seq)
        wanted = (v for v in newest if (verdict is None or v.verdict is verdict) and (after is None or v.seq > after))
        return tuple(islice(wanted, limit))

    def _add(self, verdict: Verdict) -> None:
        ring = self._flagged if verdict.verdict is VerdictKind.OFF_PATH else self._others
        ring.held.append(verdict)
        self._bytes += _weight(verdict)
        if len(ring.held) > ring.size:
            self._drop(ring)
        while self._bytes > self._max_bytes and (self._others.held or self._flagged.held):
            self._drop(self._others if self._others.held else self._flagged)

    def _drop(self, ring: "_Ring") -> None:
        self._bytes -= _weight(ring.held.popleft())


class _Ring:
    """Verdicts, oldest first, and how many there may be."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: deque[Verdict] = deque()


def _weight(verdict: Verdict) -> int:
    return len(verdict.action) + len(verdict.predicted or "") + len(verdict.observed)
