"""Learns from clean trajectories how odd clean steps are, and makes a policy of it: `verifierd calibrate`.

Each step is predicted once, by the parts that a replay is judged with. Where a model is asked, a third of the groups
goes to the fusion of its statistics, which is fitted to faults injected there; the others are scored with it.
"""

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import structlog
import tomli_w

from verifierd.calibration import Scored, Trajectory, calibrate
from verifierd.composition import Choice, at_once, judge_alone
from verifierd.fusion import Fusion, fit
from verifierd.pipeline import Judge
from verifierd.policy import Calibrated, Policy, scored_step
from verifierd.replay.inject import FAULTS, Pool, inject
from verifierd.replay.runner import together
from verifierd.replay.runs import Run
from verifierd.scoring import open_scorers
from verifierd.scoring.counting import heeded
from verifierd.stages import Predictor, Scorer
from verifierd.types import Abstain, History, Likelihood, ObservationKind, Prediction, Score, Step

__all__ = ("Learnt", "Options", "calibrated", "learn", "toml")

_FAULTS = 3
"""Faults of a step, each of another kind; each costs a pass of the model."""

_SHARE = 3
"""One group of so many is for the fusion."""

_GROUPS = 12
"""Of fewer groups none is spared for the fusion."""

_ENOUGH = 30
"""Fewer true observations, or faults, fit no fusion."""

_WIDTH = 120
_log = structlog.get_logger(component="calibrate")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a calibration; see `verifierd.calibration.calibrate`."""

    alpha: float = 0.05
    step_alpha: float = 0.001
    delta: float | None = None
    trim: float = 0.0
    seed: int = 0


class Learnt(msgspec.Struct, frozen=True, kw_only=True):
    """A calibrated policy, and what became of the trajectories.

    Attributes:
        policy: The policy, its calibration included.
        trajectories: All that were read.
        labelled: Left out, since a step is labelled off path.
        contradicted: Left out, since a step contradicts something certain.
        fitting: Taken for the fusion; 0 if none was fitted.
        unscored: Of the others, those in which every step abstained.
        clean, faulty: True observations and faults that the fusion was fitted to.
        judged: The trajectories that gave thresholds, with their scores.
        missing: How many clean trajectories more an alarm level needs; 0 if there is one.
    """

    policy: Policy
    trajectories: int
    labelled: int
    contradicted: int
    fitting: int
    unscored: int
    clean: int
    faulty: int
    judged: tuple[Trajectory, ...]
    missing: int

    @property
    def steps(self) -> int:
        """Steps of the trajectories that gave thresholds."""
        return sum(len(trajectory.steps) for trajectory in self.judged)

    @property
    def scored(self) -> int:
        """Those of them that have a score."""
        return sum(step.score is not None for trajectory in self.judged for step in trajectory.steps)

    @property
    def made(self) -> Calibrated:
        """The calibration."""
        assert self.policy.calibration is not None
        return self.policy.calibration


async def calibrated(
    found: Sequence[Run],
    choice: Choice,
    options: Options,
    *,
    name: str,
    date: str,
    on: Callable[[int], None] = lambda _steps: None,
) -> Learnt:
    """Learn from trajectories with the parts that a choice names; see `learn`.

    Raises:
        PolicyError: The policy is missing or wrong.
        PredictorError: A predictor is unknown or cannot start here.
    """
    async with judge_alone(choice) as judge:
        learnt = await learn(found, judge, options, name=name, date=date, workers=at_once(choice), on=on)
    if choice.predictor is None:
        return learnt
    chain = tuple(part.strip() for part in choice.predictor.split(","))
    return msgspec.structs.replace(learnt, policy=msgspec.structs.replace(learnt.policy, predictors=chain))


async def learn(
    found: Sequence[Run],
    judge: Judge,
    options: Options,
    *,
    name: str,
    date: str,
    workers: int = 1,
    on: Callable[[int], None] = lambda _steps: None,
) -> Learnt:
    """Learn from trajectories that are mostly clean.

    Args:
        found: The trajectories.
        judge: Who predicts and measures.
        options: What is asked.
        name: What the new policy is called.
        date: When, ISO-8601.
        workers: How many trajectories are predicted at once.
        on: Told how many steps are done, after each.
    """
    policy = msgspec.structs.replace(judge.policy, calibration=None)
    kept = [run for run in found if not run.labelled]
    spared = _spared(kept, options.seed) if judge.predictor.model is not None else set()
    pool = Pool(step for run in kept if run.group in spared for step in run.steps)
    guess = _Guess(judge.predictor, policy, options.seed, pool)
    works = [_Work(number, run) for number, run in enumerate(kept)]
    waiting = iter(works)

    async def work() -> None:
        for one in waiting:
            await one.predict(guess, faults=one.run.group in spared, on=on)

    await together(work, workers)
    clean = [one for one in works if not one.contradicted]
    fusion = _fusion([one for one in clean if one.run.group in spared])
    if fusion is None:
        spared = set()
    else:
        policy = msgspec.structs.replace(policy, surprise=fusion)
    scorers = open_scorers(policy)
    judged = [one.scored(policy, scorers) for one in clean if one.run.group not in spared]
    learnt = calibrate(
        judged,
        alpha=options.alpha,
        step_alpha=options.step_alpha,
        delta=options.delta,
        trim=options.trim,
        seed=options.seed,
    )
    fitted = [one for one in clean if one.run.group in spared]
    made = Calibrated(
        date=date,
        predictor=judge.predictor.name,
        model=judge.predictor.model,
        policy=policy.id,
        measure=policy.measure,
        learnt=learnt,
    )
    return Learnt(
        policy=msgspec.structs.replace(
            policy,
            name=name,
            description=f"{judge.policy.name}, calibrated on {learnt.sizes.trajectories:,} trajectories.",
            calibration=msgspec.structs.replace(made, hash=made.digest),
        ),
        trajectories=len(found),
        labelled=len(found) - len(kept),
        contradicted=len(works) - len(clean),
        fitting=len(fitted),
        unscored=len(judged) - learnt.sizes.trajectories,
        clean=sum(len(one.true) for one in fitted),
        faulty=sum(len(one.faulty) for one in fitted),
        judged=tuple(judged),
        # A share of those to come goes to the fusion, too.
        missing=learnt.missing if not spared else -(-learnt.missing * _SHARE // (_SHARE - 1)),
    )


def _spared(kept: Iterable[Run], seed: int) -> set[str]:
    """The groups for the fusion; only the seed and the names decide."""
    groups = {run.group for run in kept}
    if len(groups) < _GROUPS:
        return set()
    order = sorted(groups, key=lambda group: hashlib.blake2b(f"{seed}\0fusion\0{group}".encode()).digest())
    return set(order[: len(order) // _SHARE])


class _Guess:
    """Who predicts, and what faults are made of."""

    def __init__(self, predictor: Predictor, policy: Policy, seed: int, pool: Pool) -> None:
        self._predictor = predictor
        self._policy = policy
        self._scorers = open_scorers(policy)
        self._seed = seed
        self._pool = pool

    async def of(self, history: History, step: Step) -> tuple[Prediction, Likelihood | None, bool]:
        """The prediction, the likelihood if it counts, and whether something certain is contradicted."""
        try:
            prediction = await self._predictor.predict(history, step)
        except Exception as error:  # noqa: BLE001 - as in the pipeline, a failure costs one step
            _log.error("step_failed", trajectory=step.trajectory, step=step.index, exc_info=error)
            prediction = Prediction(predictor=self._predictor.name, abstain=Abstain.PREDICTOR_ERROR, detail=repr(error))
        scores = _measured(self._scorers, history, step, prediction)
        likelihood = None
        if any(score.name == "surprise" and score.value is not None for score in scores):
            likelihood = heeded(history, step, prediction, self._policy.rules(step).classes or ())
        return prediction, likelihood, any(score.violated for score in scores)

    async def altered(self, history: History, step: Step) -> list[Likelihood]:
        """Those of a few faults of a step."""
        draw = random.Random(f"{self._seed}/faults/{step.step_id}")  # noqa: S311 - a seeded draw, no secret
        found: list[Likelihood] = []
        for kind in draw.sample(sorted(FAULTS), len(FAULTS)):
            altered = inject(kind, step, history, self._pool, seed=self._seed)
            if altered is None or altered.span is None:  # that only the status changed no token tells
                continue
            _, likelihood, _ = await self.of(history, altered.step)
            if likelihood is not None:
                found.append(likelihood)
            if len(found) == _FAULTS:
                break
        return found


class _Work:
    """One trajectory, predicted once.

    Attributes:
        run: The trajectory.
        contradicted: Something certain is contradicted in it; the rest was not predicted.
        true, faulty: Likelihoods of true observations, and of altered ones.
    """

    def __init__(self, number: int, run: Run) -> None:
        self.run = run
        self.contradicted = False
        self.true: list[Likelihood] = []
        self.faulty: list[Likelihood] = []
        self._number = number
        self._predictions: list[Prediction | None] = []

    async def predict(self, guess: _Guess, *, faults: bool, on: Callable[[int], None]) -> None:
        """Predict each step, and with `faults` some altered ones."""
        history = History(self.run.key, run=self._number)
        for place, step in enumerate(self.run.steps):
            prediction = None
            if step.observation_kind is ObservationKind.ENV and place not in self.run.copied:
                prediction, likelihood, self.contradicted = await guess.of(history, step)
                if self.contradicted:
                    on(len(self.run.steps) - place)
                    return
                if faults and likelihood is not None:
                    self.true.append(likelihood)
                    self.faulty += await guess.altered(history, step)
            self._predictions.append(prediction)
            history.append(step)
            on(1)

    def scored(self, policy: Policy, scorers: Sequence[Scorer]) -> Trajectory:
        """What a policy makes of the predictions."""
        history = History(self.run.key, run=self._number)
        steps = []
        for step, prediction in zip(self.run.steps, self._predictions, strict=True):
            if prediction is None:
                steps.append(Scored(tool=step.tool, domain=step.domain, score=None))
            else:
                steps.append(scored_step(policy, step, _measured(scorers, history, step, prediction)))
            history.append(step)
        return Trajectory("/".join(self.run.key), tuple(map(_written, steps)), self.run.group)


def _measured(scorers: Sequence[Scorer], history: History, step: Step, prediction: Prediction) -> list[Score]:
    try:
        return [scorer(history, step, prediction) for scorer in scorers]
    except Exception as error:  # noqa: BLE001 - as in the pipeline, a failure costs one step
        _log.error("step_failed", trajectory=step.trajectory, step=step.index, exc_info=error)
        return []


def _written(step: Scored) -> Scored:
    """With names that a file can hold: they come from logs."""
    tool, domain = (name.encode(errors="replace").decode() for name in (step.tool, step.domain))
    return msgspec.structs.replace(step, tool=tool, domain=domain)


def _fusion(works: Sequence[_Work]) -> Fusion | None:
    """What tells faults from true observations; None if there are too few of them."""
    true = [(likelihood, one.run.group) for one in works for likelihood in one.true]
    faulty = [(likelihood, one.run.group) for one in works for likelihood in one.faulty]
    if min(len(true), len(faulty)) < _ENOUGH:
        return None
    try:
        return fit(
            [likelihood for likelihood, _ in true],
            [likelihood for likelihood, _ in faulty],
            [group for _, group in true],
            [group for _, group in faulty],
        )
    except ValueError as error:
        _log.warning("not_fitted", error=str(error))
        return None


_LIST = re.compile(r"\[\n((?: +[-+.\w\"]+,\n)+)\]")
_TERM = re.compile(r"\[surprise\.terms\.([\w-]+)\]\nweight = (\S+)\nmean = (\S+)\nscale = (\S+)\n+")


def toml(policy: Policy) -> str:
    """A policy as a document: lists in few lines, and each statistic's weight on one."""
    document = _told(msgspec.to_builtins(policy))
    for last in ("surprise", "calibration"):  # what is long stands at the end
        if last in document:
            document[last] = document.pop(last)
    text = tomli_w.dumps(document)
    terms = [f"{name} = {{ weight = {w}, mean = {m}, scale = {s} }}\n" for name, w, m, s in _TERM.findall(text)]
    text = _LIST.sub(lambda found: _packed(found[1].replace(",", "").split()), text)
    if terms:
        first = _TERM.search(text)
        assert first is not None
        rest = _TERM.sub("", text[first.start() :])
        text = f"{text[: first.start()]}[surprise.terms]\n{''.join(terms)}\n{rest}"
    return (
        f"# By `verifierd calibrate`. A hash guards the table [calibration]: calibrate anew, do not edit it.\n\n{text}"
    )


def _told(value: Any) -> Any:
    """Without what says nothing: TOML has no None. Empty rules stay, as the hash of the policy counts them."""
    if isinstance(value, dict):
        return {key: _told(inner) for key, inner in value.items() if inner is not None}
    return [_told(inner) for inner in value] if isinstance(value, list | tuple) else value


def _packed(items: Sequence[str]) -> str:
    """A list in as few lines as it needs."""
    line = ", ".join(items)
    if len(line) <= _WIDTH - 20:
        return f"[{line}]"
    lines, row = [], "   "
    for item in items:
        if len(row) + len(item) + 2 > _WIDTH:
            lines.append(row)
            row = "   "
        row += f" {item},"
    return "[\n" + "\n".join((*lines, row)) + "\n]"
