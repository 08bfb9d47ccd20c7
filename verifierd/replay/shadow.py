"""Shadow injection: faults put into copies of what a daemon just found on path, to see how many it would miss.

It is a live estimate of false negatives, by kind of fault, without labels. It gives no verdicts to anybody, and takes
nothing from the real ones: histories are copies, memory is a value, and a model is asked without a trace.
"""

import random
from collections import OrderedDict

import anyio.lowlevel
import msgspec

from verifierd.config import ShadowConfig
from verifierd.pipeline import Judge, Shadowed
from verifierd.policy import decide
from verifierd.predictors.chain import Chain
from verifierd.replay.inject import FAULTS, Pool, inject
from verifierd.types import History, ObservationKind, Prediction, Seconds, Step, Verdict, VerdictKind

__all__ = ("Injector",)

_POOL = 256  # steps to borrow from
_LONGEST = 20_000  # characters of each
_HISTORIES = 16


class Injector:
    """Picks steps, and judges them with a fault.

    Args:
        settings: How many, and with which faults; the kinds are known ones.
    """

    def __init__(self, settings: ShadowConfig) -> None:
        self._kinds = tuple(FAULTS) if settings.kinds == "all" else settings.kinds
        self._share = settings.share
        self._seed = settings.seed
        self._draw = random.Random(settings.seed)  # noqa: S311 - a seeded draw, no secret
        self._clean: list[Step] = []  # each clean step so far is among them with the same chance
        self._seen = 0
        self._pool: Pool | None = None
        self._histories: OrderedDict[tuple[object, ...], History] = OrderedDict()

    def picks(self, step: Step, verdict: Verdict) -> bool:
        """Is it a clean step, found on path and among the share? What is clean may be borrowed from later."""
        clean = verdict.verdict is not VerdictKind.OFF_PATH and step.label is not VerdictKind.OFF_PATH
        if not clean or step.observation_kind is not ObservationKind.ENV:
            return False
        if len(step.observation) + len(step.action.text) <= _LONGEST:
            self._gather(step)
        return verdict.verdict is VerdictKind.ON_PATH and self._drawn("picked", verdict.step_id).random() < self._share

    async def judge(self, case: Shadowed) -> tuple[str, VerdictKind] | None:
        """Put in one of the faults that are possible, all alike likely, and decide as the real step was decided.

        The prediction is the real one, but for what a model says of the observation. A model that was not asked, as
        others had checked enough of the real observation, is not asked about the altered one.

        Returns:
            The kind of fault and the verdict; None if no fault is possible.
        """
        history = self._followed(case.history)
        draw = self._drawn("kind", case.step.step_id)
        if self._pool is None:
            self._pool = Pool(self._clean)
        for kind in draw.sample(self._kinds, len(self._kinds)):  # the first that is possible
            injected = inject(kind, case.step, history, self._pool, seed=self._seed)
            await anyio.lowlevel.checkpoint()
            if injected is not None:
                return kind, await _judged(case, history, injected.step)
        return None

    def _gather(self, step: Step) -> None:
        self._seen += 1
        place = len(self._clean) if len(self._clean) < _POOL else self._draw.randrange(self._seen)
        if place < _POOL:
            self._clean[place : place + 1] = [step]
            self._pool = None

    def _followed(self, history: History) -> History:
        """The same history in an object of our own that grows with it: what scorers read of it is read once."""
        key = (*history.key, history.run)
        own = self._histories.get(key)
        if own is not None and history.dropped <= own.total <= history.total:
            for step in history.since(own.total):
                own.append(step)
        if own is None or (own.dropped, own.total) != (history.dropped, history.total):
            own = self._histories[key] = history
        self._histories.move_to_end(key)
        if len(self._histories) > _HISTORIES:
            self._histories.popitem(last=False)
        return own

    def _drawn(self, what: str, step_id: str) -> random.Random:
        return random.Random(f"{self._seed}/{what}/{step_id}")  # noqa: S311 - as above


async def _judged(case: Shadowed, history: History, altered: Step) -> VerdictKind:
    judge = case.judge
    prediction = await _predicted(judge, history, altered, case.prediction)
    _, verdict = decide(
        judge.policy,
        case.memory,
        altered,
        prediction,
        [scorer(history, altered, prediction) for scorer in judge.scorers],
        predictor=judge.predictor.name,
        model=judge.predictor.model,
        time="",
        seconds=Seconds(),
    )
    return verdict.verdict


async def _predicted(judge: Judge, history: History, altered: Step, prediction: Prediction) -> Prediction:
    """The prediction, with what a model says of another observation if it said something of the real one."""
    if prediction.likelihood is None:
        return prediction
    chain = judge.predictor
    # The others do not look at the observation, and what they hold of the trajectory may go further by now.
    members = chain.predictors if isinstance(chain, Chain) else (chain,)
    names = prediction.predictor.split(",")
    model = next(member for member in members if member.model is not None and member.name in names)
    said = await model.predict(history, altered, keep=False)
    if prediction.certain or model.name != names[-1]:  # the text is another's
        return msgspec.structs.replace(prediction, likelihood=said.likelihood)
    return msgspec.structs.replace(
        said, constraints=prediction.constraints, abstain=None if prediction.constraints else said.abstain
    )
