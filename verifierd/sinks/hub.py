"""Passes on what happens to those who listen, now or after they were away.

Nobody who listens holds a verdict up: a verdict only wakes the hub, which then reads from the store what is new, makes
one piece of bytes of it for all, and wakes the listeners in small groups with breaks between them. Who cannot keep up
is let go and may come back with the `seq` that he has: what was missed is read from the store.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import msgspec
import structlog

from verifierd import views
from verifierd.errors import StateError
from verifierd.sanitize import one_line
from verifierd.store import Store
from verifierd.types import Verdict

__all__ = ("Hub", "Listener")

_EVERY = 0.1  # seconds between two rounds
_ROWS = 200  # steps of one round
_MISSED = 1000  # steps that are told one by one; who missed more is told to look anew
_PIECES = 256
_BYTES = 4 * 1024**2  # of pieces that are kept for who is slow
_GROUP = 20  # listeners woken together
_BREAK = 0.08  # seconds between two groups: with writes of 100 us that is a fortieth of the loop's time
_SUMMARY_SECONDS = 1.0
_log = structlog.get_logger(component="hub")


class Hub:
    """A sink whose verdicts can be listened to.

    What a listener gets are server-sent events: `verdict` (a row of `views` with its run's key), `alarm`, `label`,
    `summary`, and `reset` where there is too much to tell: then what is shown is to be read anew.

    Args:
        store: Where verdicts are read from.
        limit: How many may listen.
    """

    def __init__(self, store: Store, *, limit: int = 1024) -> None:
        self._store = store
        self._limit = limit
        self._listeners: dict[Listener, None] = {}
        self._newest = 0  # the last `seq` there is
        self.seq = 0  # the last one that was passed on
        self.pieces: deque[bytes] = deque()
        self.first = 0  # the number of the first piece that is still held
        self._size = 0
        self._told: deque[tuple[str, Mapping[str, object]]] = deque(maxlen=_PIECES)
        self._stir = anyio.Event()
        self._summed = -_SUMMARY_SECONDS  # when the last summary was made
        self._owed = False  # a summary
        self.closed = False

    @property
    def full(self) -> bool:
        """Whether nobody more can listen."""
        return len(self._listeners) >= self._limit

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Note that there is something new."""
        self._newest = max(self._newest, verdicts[-1].seq)
        self._wake()

    async def aclose(self) -> None:
        """Let all go who listen."""
        self.closed = True
        for listener in self._listeners:
            listener.wake()

    def tell(self, event: str, said: Mapping[str, object]) -> None:
        """Pass something on that no verdict says; of an `alarm` only its `id` matters."""
        if self._listeners:
            self._told.append((event, said))
            self._wake()

    @contextmanager
    def listen(self, after: int | None = None) -> Iterator["Listener"]:
        """Listen, from a `seq` on or from now on."""
        listener = Listener(self, after)
        self._listeners[listener] = None
        try:
            yield listener
        finally:
            del self._listeners[listener]

    async def run(self, summary: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        """Pass on what happens; never returns."""
        self._newest = self.seq = max(self._newest, await self._store.last_seq())
        try:
            while True:
                with anyio.move_on_after(_SUMMARY_SECONDS if self._owed else None):
                    await self._stir.wait()
                self._stir = anyio.Event()
                try:
                    await self._round(summary)
                except StateError as error:
                    _log.error("events_failed", error=error.message, hint=error.hint)
                    await anyio.sleep(_SUMMARY_SECONDS)
                    self._stir.set()
        finally:
            await self.aclose()

    async def page(self, after: int, until: int) -> tuple[int, bytes]:
        """The steps after a `seq`, up to another one, and up to which they go in this piece."""
        if after > until or until - after > _MISSED:
            return until, _event("reset", {"seq": until}, until)
        rows = [row for row in await self._store.look(views.rows, after, _ROWS) if row[1].seq <= until]
        seq = rows[-1][1].seq if len(rows) == _ROWS else until
        told: list[bytes] = []
        for trajectory, row in rows:
            told.append(_event("verdict", {**msgspec.structs.asdict(row), "trajectory_id": trajectory}, row.seq))
            if row.alarm and (alarm := await self._store.look(views.raised, row.verdict_id)) is not None:
                told.append(_event("alarm", alarm))
        return seq, b"".join(told)

    async def _round(self, summary: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        if not self._listeners:
            self.seq, self._owed = self._newest, False
            self._told.clear()
            return
        found: list[bytes] = []
        seq = self.seq
        if seq < self._newest:
            seq, piece = await self.page(seq, self._newest)
            found.append(piece)
        while self._told:
            event, said = self._told.popleft()
            alarm = await self._store.look(views.raised, str(said["id"])) if event == "alarm" else None
            found.append(_event(event, said if alarm is None else alarm))
        self._owed = self._owed or bool(found)
        if self._owed and time.monotonic() - self._summed >= _SUMMARY_SECONDS:
            found.append(_event("summary", await summary()))
            self._summed, self._owed = time.monotonic(), False
        self._keep(b"".join(found), seq)
        if self.seq < self._newest:
            self._stir.set()
        await self._pass_on()

    def _keep(self, piece: bytes, seq: int) -> None:
        self.seq = seq
        if not piece:
            return
        self.pieces.append(piece)
        self._size += len(piece)
        while len(self.pieces) > _PIECES or (self._size > _BYTES and len(self.pieces) > 1):
            self._size -= len(self.pieces.popleft())
            self.first += 1

    async def _pass_on(self) -> None:
        waiting = list(self._listeners)
        for start in range(0, len(waiting), _GROUP):
            if start:
                await anyio.sleep(_BREAK)
            for listener in waiting[start : start + _GROUP]:
                listener.wake()
        await anyio.sleep(_EVERY)

    def _wake(self) -> None:
        if self._listeners:
            self._stir.set()
        else:
            self.seq = self._newest


class Listener:
    """One who listens; see `Hub.listen`."""

    def __init__(self, hub: Hub, after: int | None) -> None:
        self._hub = hub
        self._until = hub.seq
        self._after = hub.seq if after is None else after
        self._at = hub.first + len(hub.pieces)
        self._event = anyio.Event()

    async def next(self) -> bytes:
        """What comes next; nothing if there will be no more, or what comes next is not held any more."""
        hub = self._hub
        while self._after != self._until:
            self._after, piece = await hub.page(self._after, self._until)
            if piece:
                return piece
        while not hub.closed and self._at == hub.first + len(hub.pieces):
            self._event = anyio.Event()
            await self._event.wait()
        if hub.closed or self._at < hub.first:
            return b""
        pieces = list(hub.pieces)[self._at - hub.first :]
        self._at += len(pieces)
        return b"".join(pieces)

    def wake(self) -> None:
        """There is something new."""
        self._event.set()


def _event(name: str, said: Mapping[str, object], seq: int | None = None) -> bytes:
    number = b"" if seq is None else b"id: %d\n" % seq
    return b"%sevent: %s\ndata: %s\n\n" % (number, name.encode(), one_line(said))
