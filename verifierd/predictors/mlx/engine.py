"""The thread that the model lives in, with a queue: the streams of mlx-lm belong to the thread that made them.

Whatever waits when a pass ends goes into the next one together, at most one step of each trajectory. Nothing here
blocks an event loop: a step is handed in, and its prediction comes back to the loop that waits for it.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import anyio
import structlog
from anyio import from_thread, to_thread
from anyio.lowlevel import EventLoopToken, current_token

from verifierd.predictors.mlx.strand import Job
from verifierd.types import Prediction

__all__ = ("Engine", "OutOfMemory", "Runner", "Unwanted")

_log = structlog.get_logger(component="mlx")


class Unwanted(Exception):  # noqa: N818 - no error, but the end of what nobody waits for
    """Nobody waits for the prediction any more."""


class OutOfMemory(Exception):  # noqa: N818 - as the system calls it
    """The model could not get memory; what was computed has been let go of."""


class Runner(Protocol):
    """What the thread runs. It is made, used and let go of on that thread only."""

    def run(self, jobs: Sequence[Job], stopped: Callable[[], None]) -> list[Prediction]:
        """Predict a step of each of several trajectories; `stopped` raises if nobody waits any more."""

    def forget(self, key: tuple[object, ...] | None = None) -> None:
        """Let go of what was computed for a trajectory, or for all."""


class _Ticket:
    """A job in the queue, and who waits for it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.unwanted = False
        self.prediction: Prediction | None = None
        self.error: BaseException | None = None
        self.done = anyio.Event()
        self._token: EventLoopToken = current_token()

    def deliver(self, prediction: Prediction | None, error: BaseException | None = None) -> None:
        """Wake up who waits, on the model's thread; whoever is gone is left alone."""
        self.prediction, self.error = prediction, error
        if not self.unwanted:
            with suppress(anyio.RunFinishedError):
                from_thread.run_sync(self.done.set, token=self._token)


class Engine:
    """Runs jobs on a thread of its own.

    Args:
        load: Makes the runner; called on the thread.
        batch: Most jobs of one pass.

    Raises:
        BaseException: Whatever `load` raised.
    """

    def __init__(self, load: Callable[[], Runner], *, batch: int) -> None:
        self._batch = batch
        self._waiting: deque[_Ticket] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self._loaded = threading.Event()
        self._failure: BaseException | None = None
        # A pass that does not end must not keep the process from ending.
        self._thread = threading.Thread(target=self._live, args=(load,), name="verifierd-model", daemon=True)
        self._thread.start()
        self._loaded.wait()
        if self._failure is not None:
            raise self._failure

    async def ask(self, job: Job) -> Prediction:
        """The prediction for a job. A caller that is cancelled is not waited for: the pass ends at its next chunk.

        Raises:
            Unwanted: The engine is being closed.
            OutOfMemory: There was not enough memory.
            Exception: The model failed.
        """
        ticket = _Ticket(job)
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
        assert ticket.prediction is not None
        return ticket.prediction

    async def aclose(self) -> None:
        """End the thread at the next chunk; whoever still waits gets `Unwanted`."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        await to_thread.run_sync(self._thread.join, abandon_on_cancel=True)

    def _live(self, load: Callable[[], Runner]) -> None:
        try:
            runner = load()
        except BaseException as error:  # noqa: BLE001 - it is raised where the engine is made
            self._failure = error
            return
        finally:
            self._loaded.set()
        while tickets := self._next():
            self._run(runner, tickets)
        for ticket in self._waiting:
            ticket.deliver(None, Unwanted())

    def _next(self) -> list[_Ticket]:
        """What goes into the next pass; nothing once the engine is being closed."""
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
                if ticket.job.key in taken:
                    later.append(ticket)
                else:
                    taken[ticket.job.key] = ticket
            self._waiting.extendleft(reversed(later))
            return list(taken.values())

    def _run(self, runner: Runner, tickets: Sequence[_Ticket]) -> None:
        def stopped() -> None:
            if self._closing or all(ticket.unwanted for ticket in tickets):
                raise Unwanted

        try:
            predictions = runner.run([ticket.job for ticket in tickets], stopped)
        except Unwanted as error:
            for ticket in tickets:
                ticket.deliver(None, error)
        except Exception as error:  # noqa: BLE001 - a failure costs steps, never the thread
            self._fail(runner, tickets, error)
        else:
            for ticket, prediction in zip(tickets, predictions, strict=True):
                ticket.deliver(prediction)

    def _fail(self, runner: Runner, tickets: Sequence[_Ticket], error: Exception) -> None:
        """What a failed pass computed is in doubt; where it was of several steps, each gets a pass of its own."""
        out_of_memory = _out_of_memory(error)
        for ticket in tickets:
            runner.forget(ticket.job.key)
        if out_of_memory:
            runner.forget()
        if len(tickets) > 1:
            for ticket in tickets:
                self._run(runner, [ticket])
            return
        _log.error("prediction_failed", trajectory=tickets[0].job.key[1], exc_info=error)
        tickets[0].deliver(None, OutOfMemory(str(error)) if out_of_memory else error)


def _out_of_memory(error: Exception) -> bool:
    """MLX has no exception of its own for it."""
    words = str(error).lower()
    return (
        isinstance(error, MemoryError)
        or "bad_alloc" in words
        or ("memory" in words and "alloc" in words)
        or "out of memory" in words
    )
