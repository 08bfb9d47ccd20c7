"""The thread that the model lives in, with a queue: the streams of mlx-lm belong to the thread that made them.

Whatever waits when a pass ends goes into the next one together, at most one step of each trajectory; talks have their
turn where no step waits. Nothing here blocks an event loop: a step is handed in, and its prediction comes back to the
loop that waits for it.
"""

import asyncio
import atexit
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import anyio
import structlog

from verifierd.errors import PredictorError
from verifierd.predictors.mlx.strand import Job
from verifierd.predictors.mlx.talk import Talk
from verifierd.stages import Reply
from verifierd.types import Prediction

__all__ = ("Engine", "OutOfMemory", "Runner", "Unwanted")

_LOOK_SECONDS = 0.05
"""How often it is looked whether the thread has got ready, or has ended."""

_END_SECONDS = 20.0
"""How long a pass may take to its next chunk when the engine is closed; then it is left to itself."""

_log = structlog.get_logger(component="mlx")


class Unwanted(Exception):  # noqa: N818 - no error, but the end of what nobody waits for
    """Nobody waits for the prediction any more."""


class OutOfMemory(Exception):  # noqa: N818 - as the system calls it
    """The model could not get memory; what was computed has been let go of."""


class Runner(Protocol):
    """What the thread runs. It is made, used and let go of on that thread only."""

    def run(self, jobs: Sequence[Job], stopped: Callable[[], None]) -> list[Prediction]:
        """Predict a step of each of several trajectories; `stopped` raises if nobody waits any more."""

    def reply(self, talk: Talk, stopped: Callable[[], None]) -> Reply:
        """Talk, on a cache of its own; `stopped` as above."""

    def forget(self, key: tuple[object, ...] | None = None) -> None:
        """Let go of what was computed for a trajectory, or for all."""


class _Ticket:
    """A job or a talk in the queue, and who waits for it."""

    def __init__(self, work: Job | Talk) -> None:
        self.work = work
        self.unwanted = False
        self.found: Prediction | Reply | None = None
        self.error: BaseException | None = None
        self.done = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @property
    def kept(self) -> tuple[object, ...] | None:
        """The trajectory whose cache it changes; None if it leaves no trace."""
        return self.work.key if isinstance(self.work, Job) and self.work.keep else None

    def deliver(self, found: Prediction | Reply | None, error: BaseException | None = None) -> None:
        """Wake up who waits, from the model's thread, without waiting for it: its loop may end at any moment."""
        self.found, self.error = found, error
        if not self.unwanted:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.done.set)


class Engine:
    """Runs jobs on a thread of its own.

    Args:
        load: Makes the runner; called on the thread.
        batch: Most jobs of one pass.

    Raises:
        BaseException: Whatever `load` raised.
        asyncio.CancelledError: The task that makes the engine was cancelled meanwhile.
    """

    def __init__(self, load: Callable[[], Runner], *, batch: int) -> None:
        self._batch = batch
        self._waiting: deque[_Ticket] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self._loaded = threading.Event()
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        # A pass that does not end must not keep the process from ending.
        self._thread = threading.Thread(target=self._live, args=(load,), name="verifierd-model", daemon=True)
        self._thread.start()
        while not self._loaded.wait(_LOOK_SECONDS):
            # The loop stands still meanwhile, but the first Ctrl-C cancels its task: that must not wait for gigabytes.
            if _cancelled():
                self._closing = True
                atexit.register(self._ended.wait, _END_SECONDS)
                raise asyncio.CancelledError
        if self._failure is not None:
            raise self._failure

    async def ask(self, job: Job) -> Prediction:
        """The prediction for a job. A caller that is cancelled is not waited for: the pass ends at its next chunk.

        Raises:
            Unwanted: The engine is being closed.
            OutOfMemory: There was not enough memory.
            Exception: The model failed.
        """
        found = await self._answer(_Ticket(job))
        assert isinstance(found, Prediction)
        return found

    async def talk(self, talk: Talk) -> Reply:
        """The reply to a talk, once no step waits; otherwise as `ask`."""
        found = await self._answer(_Ticket(talk))
        assert isinstance(found, Reply)
        return found

    async def _answer(self, ticket: _Ticket) -> Prediction | Reply | None:
        with self._condition:
            if self._closing:
                raise Unwanted
            self._waiting.append(ticket)
            self._condition.notify()
        try:
            await ticket.done.wait()
        finally:
            ticket.unwanted = True
        if ticket.error is not None:
            raise ticket.error
        return ticket.found

    async def aclose(self) -> None:
        """End the thread at the next chunk; whoever still waits gets `Unwanted`."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        # Also where this is cancelled: an interpreter that ends under a running pass may crash.
        with anyio.move_on_after(_END_SECONDS, shield=True):
            while not self._ended.is_set():  # noqa: ASYNC110 - its end wakes nobody up
                await anyio.sleep(_LOOK_SECONDS)

    def _live(self, load: Callable[[], Runner]) -> None:
        try:
            self._serve(load)
        except Exception as error:  # noqa: BLE001 - a device that is lost fails also where caches are let go of
            _log.error("model_thread_failed", exc_info=error)
            self._abandon()
        self._ended.set()
        # What MLX keeps for a thread asks for Python when the thread ends, and aborts the process if the interpreter is
        # just ending, too. So the thread does not end before the process does.
        threading.Event().wait()

    def _serve(self, load: Callable[[], Runner]) -> None:
        try:
            runner = load()
        except BaseException as error:  # noqa: BLE001 - it is raised where the engine is made
            traceback.clear_frames(error.__traceback__)  # what was loaded is let go of here
            self._failure = error
            return
        finally:
            self._loaded.set()
        while not self._closing:
            if tickets := self._next():
                self._run(runner, tickets)
        self._abandon()
        runner.forget()

    def _abandon(self) -> None:
        """Whoever waits, or comes yet, waits for nothing."""
        with self._condition:
            self._closing = True
            for ticket in self._waiting:
                ticket.deliver(None, Unwanted())
            self._waiting.clear()

    def _next(self) -> list[_Ticket]:
        """What goes into the next pass; nothing if nobody waits any more, or the engine is being closed.

        What leaves no trace goes alone, once no step waits that does: its failure must cost no cache.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._closing)
            if self._closing:
                return []
            taken: dict[tuple[object, ...], _Ticket] = {}
            later: deque[_Ticket] = deque()
            while self._waiting and len(taken) < self._batch:
                ticket = self._waiting.popleft()
                if ticket.unwanted:
                    continue
                if ticket.kept is None or ticket.kept in taken:
                    later.append(ticket)
                else:
                    taken[ticket.kept] = ticket
            self._waiting.extendleft(reversed(later))
            if taken or not self._waiting:
                return list(taken.values())
            return [self._waiting.popleft()]

    def _run(self, runner: Runner, tickets: Sequence[_Ticket]) -> None:
        def stopped() -> None:
            if self._closing or all(ticket.unwanted for ticket in tickets):
                raise Unwanted

        failure: Exception | None = None
        try:
            found = _done(runner, [ticket.work for ticket in tickets], stopped)
        except Unwanted as error:
            for ticket in tickets:
                ticket.deliver(None, error)
        except Exception as error:  # noqa: BLE001 - a failure costs steps, never the thread
            failure = error
        else:
            for ticket, one in zip(tickets, found, strict=True):
                ticket.deliver(one)
        if failure is not None:
            self._fail(runner, tickets, failure)

    def _fail(self, runner: Runner, tickets: Sequence[_Ticket], error: Exception) -> None:
        """What a failed pass computed is in doubt; where it was of several steps, each gets a pass of its own."""
        out_of_memory = _out_of_memory(error)
        traceback.clear_frames(error.__traceback__)  # they hold the arrays of the pass
        kept = [ticket.kept for ticket in tickets if ticket.kept is not None]
        for key in kept:
            runner.forget(key)
        if kept and out_of_memory:
            runner.forget()
        if len(tickets) > 1:
            _log.warning("batch_failed", steps=len(tickets), error=f"{type(error).__name__}: {error}")
            for ticket in tickets:
                self._run(runner, [ticket])
            return
        work = tickets[0].work
        if isinstance(work, Job):
            _log.error("prediction_failed", trajectory=work.key[1], exc_info=error)
        elif not isinstance(error, PredictorError):  # that says all by itself
            _log.error("talk_failed", exc_info=error)
        tickets[0].deliver(None, OutOfMemory(str(error)) if out_of_memory else error)


def _done(runner: Runner, works: Sequence[Job | Talk], stopped: Callable[[], None]) -> Sequence[Prediction | Reply]:
    """Several jobs together, or one talk."""
    talks = [work for work in works if isinstance(work, Talk)]
    if talks:
        return [runner.reply(talk, stopped) for talk in talks]
    return runner.run([work for work in works if isinstance(work, Job)], stopped)


_NO_MEMORY = (
    "out of memory",  # CUDA
    "insufficient memory",  # Metal: [METAL] Command buffer execution failed: Insufficient Memory (...)
    "unable to allocate",  # MLX: [malloc] Unable to allocate N bytes.
    "malloc]",  # [metal::malloc] Attempting to allocate N bytes ..., [metal::malloc] Resource limit (N) exceeded.
    "bad_alloc",
)


def _out_of_memory(error: Exception) -> bool:
    """MLX has no exception of its own for it, but words, and they differ by device."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(sign in words for sign in _NO_MEMORY)


def _cancelled() -> bool:
    """Was the task that runs on this thread, if there is one, told to end?"""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop
        return False
    return task is not None and task.cancelling() > 0
