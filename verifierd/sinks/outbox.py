"""Passes verdicts on to the world outside, at least once each, in their order, however long it is away.

A verdict only wakes the outbox: what is due is read from the store, and how far everything was delivered is kept
there. So no verdict waits for a receiver, nothing is queued in memory, and after a restart delivery goes on where it
stood; what was under way then is delivered again, under the same verdict id.
"""

import json
import random
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import anyio
import structlog

from verifierd.errors import StateError
from verifierd.store import Store
from verifierd.types import Verdict

__all__ = ("Courier", "Due", "Later", "Outbox", "Refused")

_ROWS = 32  # verdicts read at once; each may be megabytes
_SPAN = 10_000  # verdicts looked at in one read
_LONGEST_PAUSE = 300.0
_log = structlog.get_logger(component="notify")

_DUE = """SELECT seq, verdict_id, line FROM verdicts NOT INDEXED WHERE seq > ? AND seq <= ?
    AND (verdict IN (SELECT value FROM json_each(?)) OR (? AND verdict_id IN (SELECT verdict_id FROM alarms)))
    ORDER BY seq LIMIT ?"""


class Due(NamedTuple):
    """A verdict to be delivered: its id, by which a receiver knows it again, and its line without the line end."""

    seq: int
    verdict_id: str
    line: bytes


class Later(Exception):  # noqa: N818 - what is to be done about it, not that something is wrong
    """It could not be delivered now: try again, after `pause` seconds if the receiver said so."""

    def __init__(self, why: str, *, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = pause


class Refused(Exception):  # noqa: N818 - as above
    """It came to the receiver, and never will be taken."""


class Courier(Protocol):
    """One way out."""

    kind: str
    target: str
    """Where to, for people; fit to be shown, and without secrets."""

    async def deliver(self, due: Due) -> None:
        """Deliver one, or raise `Later` or `Refused`. It may be cancelled at any time."""

    async def aclose(self) -> None:
        """Close what is open."""


class Outbox:
    """A sink that delivers, in `run`, the verdicts that somebody wants to hear of.

    Args:
        store: Where verdicts are, and how far they were delivered.
        courier: How they are delivered.
        name: Under which the store keeps how far; a name it does not know begins with the next verdict.
        on: What is delivered: kinds of verdicts, and `alarm` for those at which a trajectory alarmed.
        parallel: How many may be under way at once.
        count: Called with `delivered`, `retried` or `refused`.
        pause: Seconds before a second try; each further pause is twice as long, up to five minutes.
    """

    def __init__(
        self,
        store: Store,
        courier: Courier,
        *,
        name: str,
        on: Collection[str],
        parallel: int = 1,
        count: Callable[[str], None] = lambda _result: None,
        pause: float = 1.0,
    ) -> None:
        self._store = store
        self._courier = courier
        self._name = name
        self._kinds = json.dumps(sorted(set(on) - {"alarm"}))
        self._alarms = "alarm" in on
        self._parallel = parallel
        self._count = count
        self._pause = pause
        self._at = 0  # everything up to there is delivered, or of no interest
        self._kept = 0  # as far as the store knows
        self._stir = anyio.Event()
        self._stir.set()

    async def open(self) -> None:
        """Find out how far everything was delivered.

        Raises:
            StateError: The store cannot be used.
        """
        known = await self._store.mark(self._name)
        if known is None:
            known = await self._store.last_seq()
            await self._store.set_mark(self._name, known)
        self._at = self._kept = known

    async def emit(self, verdicts: Sequence[Verdict]) -> None:  # noqa: ARG002 (the store has them)
        """Note that there is something new."""
        self._stir.set()

    async def aclose(self) -> None:
        """Let go of the receiver. What is not delivered yet is so after the next start."""
        with suppress(StateError):  # then some verdicts of no interest are looked at once more
            await self._keep()
        await self._courier.aclose()

    async def run(self) -> None:
        """Deliver; never returns."""
        while True:
            await self._stir.wait()
            self._stir = anyio.Event()
            try:
                await self.flush()
            except StateError as error:
                _log.error("notify_stalled", target=self._courier.target, error=error.message, hint=error.hint)
                await anyio.sleep(self._pause)
                self._stir.set()

    async def finish(self, seconds: float) -> None:
        """Deliver what can be delivered in that time; the rest waits for the next start."""
        with anyio.move_on_after(seconds):
            try:
                await self.flush()
            except StateError as error:
                _log.error("notify_stalled", target=self._courier.target, error=error.message, hint=error.hint)

    async def flush(self) -> None:
        """Deliver all that is due now, however long it takes.

        Raises:
            StateError: The store cannot be used.
        """
        newest = await self._store.last_seq()
        while self._at < newest:
            until = min(newest, self._at + _SPAN)
            found = await self._store.look(_due, self._at, until, self._kinds, self._alarms)
            for start in range(0, len(found), self._parallel):
                group = found[start : start + self._parallel]
                async with anyio.create_task_group() as tasks:
                    for due in group:
                        tasks.start_soon(self._deliver, due)
                self._at = group[-1].seq
                await self._keep()
            if len(found) < _ROWS:
                self._at = until

    async def _keep(self) -> None:
        if self._at > self._kept:
            await self._store.set_mark(self._name, self._at)
            self._kept = self._at

    async def _deliver(self, due: Due) -> None:
        tries = 0
        while True:
            try:
                await self._courier.deliver(due)
            except Later as error:
                pause = min(_LONGEST_PAUSE, self._pause * 2.0 ** min(tries, 16)) * random.uniform(0.5, 1.0)  # noqa: S311
                pause = min(_LONGEST_PAUSE, max(error.pause, pause))
                tries += 1
                self._count("retried")
                _log.warning(
                    "notify_retried",
                    target=self._courier.target,
                    verdict_id=due.verdict_id,
                    tries=tries,
                    retry_seconds=round(pause, 1),
                    error=str(error),
                )
                await anyio.sleep(pause)
            except Refused as error:
                self._count("refused")
                _log.error(
                    "notify_refused",
                    target=self._courier.target,
                    verdict_id=due.verdict_id,
                    error=str(error),
                    hint="it is not tried again; the verdict itself is kept",
                )
                return
            else:
                self._count("delivered")
                if tries:
                    _log.info("notify_recovered", target=self._courier.target, tries=tries)
                return


def _due(db: sqlite3.Connection, after: int, until: int, kinds: str, alarms: bool) -> list[Due]:  # noqa: FBT001 (by look)
    rows = db.execute(_DUE, (after, until, kinds, alarms, _ROWS))
    return [Due(seq, verdict_id, line.rstrip(b"\n")) for seq, verdict_id, line in rows]
