"""The embedded predictor: replays the agent's commands in a virtual shell and speaks only where the answer is certain.

It never touches the real file system or the network. Read `README.md` beside this file for how it knows what it knows.
"""

import math
from collections import OrderedDict

import anyio
import msgspec

from verifierd import bundled
from verifierd.errors import PredictorError
from verifierd.predictors.shell.process import WorkerDied, WorkerHung, WorkerProcess
from verifierd.predictors.shell.sight import PROFILES, Answer, Question, sight_of
from verifierd.types import Abstain, History, Prediction, Step, digest

__all__ = ("ShellPredictor",)

# How often a history is gone through for one step: each crash of the virtual shell costs one.
_ATTEMPTS = 4
# Steps that are taken in at once.
_CHUNK = 16
_TRAJECTORIES = 4096


class _Seat(msgspec.Struct, kw_only=True):
    """What the parent knows of a session: its number, the worker it lives in, what it took in, what killed it.

    `start` and `total` count steps of the history; the session began with the step after `start`.
    """

    number: int = 0
    epoch: int = -1
    start: int = 0
    total: int = 0
    poison: set[str] = msgspec.field(default_factory=set)


class ShellPredictor:
    """Predicts shell commands whose whole output and status follow from the history.

    Args:
        profile: `auto` to infer the kind of shell, `bash` for GNU bash with state carried over from step to step, or
            `portable` to decide only what bash and zsh, GNU and BSD have in common.
        deadline: Seconds that one step may take before the worker is killed and the step given up.
        document: The allow-list; the bundled `policies/shell/gnu.toml` if None.

    Raises:
        PredictorError: The profile's name is unknown.
    """

    name = "shell"
    model: str | None = None

    def __init__(self, *, profile: str = "auto", deadline: float = 2.0, document: str | None = None) -> None:
        if profile not in PROFILES:
            raise PredictorError(
                f"no shell profile is called `{profile}`", hint=f"Known profiles: {', '.join(PROFILES)}."
            )
        if document is None:
            document = (bundled.root("policies") / "shell" / "gnu.toml").read_text(encoding="utf-8")
        self._profile = profile
        self._deadline = deadline if math.isfinite(deadline) else 2.0
        self._worker = WorkerProcess(document)
        self._lock = anyio.Lock()
        self._seats: OrderedDict[tuple[tuple[str, str], int], _Seat] = OrderedDict()
        self._numbers = 0
        self._closed = False

    async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:  # noqa: ARG002 - the protocol's signature
        """The whole observation and the status, or an abstention with its reason."""
        async with self._lock:
            if self._closed:
                return _abstain(Abstain.PREDICTOR_ERROR, "the predictor is closed")
            try:
                answer = await self._predict(history, step)
            except OSError as problem:
                return _abstain(Abstain.PREDICTOR_ERROR, f"the worker cannot be started: {problem}")
        if answer.text is None:
            return _abstain(Abstain(answer.abstain or Abstain.UNPREDICTABLE), answer.detail)
        return Prediction(predictor=self.name, text=answer.text, exit_code=answer.exit_code, certain=True)

    async def aclose(self) -> None:
        """Kill the worker. Later predictions are abstentions."""
        self._closed = True
        await self._worker.aclose()

    async def _predict(self, history: History, step: Step) -> Answer:
        seat = self._seat(history)
        if _poison(step) in seat.poison:
            return Answer(abstain=Abstain.PREDICTOR_ERROR, detail="this very command broke the virtual shell before")
        failure = Answer(abstain=Abstain.PREDICTOR_ERROR, detail="the virtual shell keeps failing on the history")
        chunk = _CHUNK
        for _ in range(_ATTEMPTS):
            asked: list[Step] = []
            try:
                answer = Answer()
                steps = self._behind(seat, history, step)
                while answer.known and len(steps) >= chunk:
                    asked, steps = steps[:chunk], steps[chunk:]
                    answer = await self._ask(seat, asked, None)
                if answer.known:
                    asked = [*steps, step]
                    answer = await self._ask(seat, steps, step)
                if answer.known:
                    return answer
                # The worker gave the session up, or it had gone on with another step.
                seat.epoch = -1
            except (WorkerDied, WorkerHung) as problem:
                failure = _failure(problem)
                if len(asked) > 1:
                    # Once more, one by one, to see which step it was.
                    chunk = 1
                    continue
                seat.poison.add(_poison(asked[0]))
                if asked[0] is step:
                    break
        return failure

    def _behind(self, seat: _Seat, history: History, step: Step) -> list[Step]:
        """The steps that the session has not taken in; siblings of a parallel batch wait until the batch is over."""
        if seat.epoch != self._worker.epoch or not history.dropped <= seat.total <= history.total:
            self._numbers += 1
            seat.number, seat.epoch = self._numbers, self._worker.epoch
            seat.start = seat.total = history.dropped
        steps = list(history.since(seat.total))
        while step.batch is not None and steps and steps[-1].batch == step.batch:
            steps.pop()
        return steps

    async def _ask(self, seat: _Seat, steps: list[Step], step: Step | None) -> Answer:
        """Have the session take in some steps, and predict one."""
        past = tuple(None if _poison(one) in seat.poison else sight_of(one, observed=True) for one in steps)
        ahead = sight_of(step, observed=False) if step is not None else None
        question = Question(seat.number, seat.total - seat.start, self._profile, past, ahead)
        answer = await self._worker.ask(question, deadline=self._deadline)
        if answer.known:
            seat.total += len(steps)
        return answer

    def _seat(self, history: History) -> _Seat:
        key = (history.key, history.run)
        seat = self._seats.get(key)
        if seat is None:
            seat = self._seats[key] = _Seat(number=0)
            if len(self._seats) > _TRAJECTORIES:
                self._seats.popitem(last=False)
        self._seats.move_to_end(key)
        return seat


def _abstain(reason: Abstain, detail: str) -> Prediction:
    return Prediction(predictor=ShellPredictor.name, abstain=reason, detail=detail)


def _failure(problem: WorkerDied | WorkerHung) -> Answer:
    if isinstance(problem, WorkerHung):
        return Answer(abstain=Abstain.TIMEOUT, detail="the virtual shell took too long")
    return Answer(abstain=Abstain.PREDICTOR_ERROR, detail="the virtual shell crashed")


def _poison(step: Step) -> str:
    """Names a step that must not be tried again; where a step is read again, so is its name."""
    return digest(step.tool, step.action.text, step.cwd or "")
