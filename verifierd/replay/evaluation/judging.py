"""Cases -> rows: a judge's verdict on each observation, and what the controls say of it.

A step is predicted once, from its true history. Each altered observation is a case of its own: judged after that same
history, with what the judge remembered then, and forgotten. Where a model scored the very observation it is asked again
for the altered one, and keeps nothing of it.
"""

import math
import time
from collections.abc import Callable, Sequence

import msgspec
import structlog

from verifierd.composition import Choice, at_once, judge_alone
from verifierd.contracts.measure import tool_of
from verifierd.pipeline import Judge
from verifierd.policy import Memory, decide
from verifierd.predictors import talker
from verifierd.replay.evaluation import controls
from verifierd.replay.evaluation.cases import Altered, Cases, Subject
from verifierd.replay.runner import together
from verifierd.sanitize import Sanitizer, plain
from verifierd.scoring.classes import Content, runtime
from verifierd.stages import Predictor
from verifierd.types import (
    FAILURES,
    Abstain,
    History,
    ObservationKind,
    Prediction,
    Score,
    Seconds,
    Step,
    Tokens,
    Verdict,
    VerdictKind,
    digest,
)

__all__ = ("Evaluated", "Mistake", "Row", "Track", "evaluated")

_KEPT = 40  # mistakes of each sort
_QUOTE = 2000
_HINTS = frozenset({"stale", "foreign", "injection"})
_log = structlog.get_logger(component="eval")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One case and what was made of it.

    Attributes:
        case: Its identity: the same for every judge.
        group: What is resampled together.
        step_id: The step as it was logged; labels may name it.
        trajectory, step: Where it is.
        kind: `clean`, or how the observation was altered.
        altered: The observation is not the logged one.
        bad: Is the observation off path? None if nobody knows.
        agent_erred: Was the action an error? None if nobody says.
        known: Does what was altered stand in the history, so that it could be told? None where nothing was altered.
        tool, domain, length, content: Strata: shells are one tool, the length is in characters, and the content is the
            class of what was altered, or of most of the observation: by the texts alone, so the same for every judge.
        verdict, reason, coverage: What was decided.
        p_value: How odd the calibration finds it; None before calibration, and where nothing was scored.
        suspicion: Orders cases: 2 for a contradiction, else how odd a model found what nothing pinned, 0.5 where
            nobody knows, times the share that nothing pinned.
        hinted: A signal that decides nothing says stale, foreign or injection.
        alarmed: The trajectory has alarmed at this step or before.
        failed: How the simulator failed; None if it did not.
        exact: Was the whole predicted, and came so? None if the whole was not predicted.
        controls: What each of `controls.CONTROLS` says; None where it was not asked.
        seconds, tokens: What it cost; of an altered observation without the prediction.
    """

    case: str
    group: str
    step_id: str
    trajectory: str
    step: int
    kind: str
    altered: bool
    bad: bool | None
    agent_erred: bool | None
    known: bool | None
    tool: str
    domain: str
    length: int
    content: str
    verdict: VerdictKind
    reason: str
    coverage: float
    p_value: float | None
    suspicion: float
    hinted: bool
    alarmed: bool
    failed: Abstain | None
    exact: bool | None
    controls: tuple[float | None, ...]
    seconds: float
    tokens: Tokens


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a trajectory as it was logged.

    Attributes:
        subject: The trajectory and its labels.
        alarm: Index of the step at which it alarmed, 0 if it did not.
        off_path: Indexes of its off-path steps.
        suspicions: Suspicion by index of the steps that were judged.
        steps: How many were judged.
    """

    subject: Subject
    alarm: int
    off_path: tuple[int, ...]
    suspicions: dict[int, float]
    steps: int


class Mistake(msgspec.Struct, frozen=True, kw_only=True):
    """A false alarm or a missed fault, fit to be shown.

    Attributes:
        row: The case.
        cost: How bad it is: the surer, the worse.
        action, predicted, observed: The step; `predicted` is a text or what had to hold, one thing a line.
        spans: Characters of `observed` that decided.
        altered: Characters of `observed` that were altered; None if nobody says.
        reasons: Why, in words.
        verdict: The verdict's id.
    """

    row: Row
    cost: float
    action: str
    predicted: str
    observed: str
    spans: tuple[tuple[int, int], ...]
    altered: tuple[int, int] | None
    reasons: tuple[str, ...]
    verdict: str


class Evaluated(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge made of all cases.

    Attributes:
        predictor, model, policy: Who judged; the policy with its hash.
        alpha: The rate of trajectory alarms that it was calibrated for; None before calibration.
        judge: Why no model was asked as a judge; empty if one was.
        rows: The cases, in order.
        tracks: The trajectories, in order.
        mistakes: The worst ones, worst first, false alarms and missed faults each.
        seconds: All that it took.
    """

    predictor: str
    model: str | None
    policy: str
    alpha: float | None
    judge: str
    rows: list[Row]
    tracks: list[Track]
    mistakes: list[Mistake]
    seconds: float


async def evaluated(
    cases: Cases, choice: Choice, *, seed: int = 0, on: Callable[[int], None] = lambda _steps: None
) -> Evaluated:
    """Judge all cases with the parts that a choice names.

    Args:
        cases: The cases.
        choice: Who judges.
        seed: Draws whom the control `judge` is asked about.
        on: Told how many steps are done, after each.

    Raises:
        PolicyError: The policy is missing or wrong.
        PredictorError: A predictor is unknown or cannot start here.
    """
    began = time.perf_counter()
    async with judge_alone(choice) as judge:
        chat = talker(judge.predictor)
        bench = _Bench(
            cases=cases,
            judge=judge,
            support=controls.Support(subject.run for subject in cases.subjects),
            asked=None if chat is None else controls.Judge(chat, cases.expected, seed),
            worst=_Worst(Sanitizer(b"eval")),
        )
        works = [_Work(number, subject, bench) for number, subject in enumerate(cases.subjects)]
        waiting = iter(works)

        async def work() -> None:
            for one in waiting:
                await one.judged(on)

        await together(work, at_once(choice))
    made = judge.policy.calibration
    return Evaluated(
        predictor=judge.predictor.name,
        model=judge.predictor.model,
        policy=judge.policy.id,
        alpha=None if made is None else made.learnt.alpha,
        judge="" if chat is not None else "no model in the chain can be asked",
        rows=[row for one in works for row in one.rows],
        tracks=[one.track() for one in works],
        mistakes=bench.worst.listed(),
        seconds=time.perf_counter() - began,
    )


class _Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One observation judged.

    Attributes:
        place: Of its step in the trajectory.
        step: The step, with this observation.
        altered: How it was altered; None if it is the logged one.
        prediction, scores, verdict: What was made of it.
        memory: What is remembered of the trajectory then.
        seconds: What that took.
    """

    place: int
    step: Step
    altered: Altered | None
    prediction: Prediction
    scores: Sequence[Score]
    verdict: Verdict
    memory: Memory
    seconds: float


class _Worst:
    """Keeps the worst mistakes of each sort."""

    def __init__(self, sanitizer: Sanitizer) -> None:
        self._sanitizer = sanitizer
        self._kept: dict[str, dict[tuple[float, str], Mistake]] = {}

    def look(self, row: Row, judged: _Judged) -> None:
        """Keep the case if it is among the worst."""
        if row.bad is None:
            return
        wrong = row.verdict is VerdictKind.ON_PATH if row.bad else row.verdict is VerdictKind.OFF_PATH
        if not wrong:
            return
        cost = row.coverage + bool(row.known) if row.bad else 1.0 + row.suspicion
        kept = self._kept.setdefault(row.kind, {})
        # Ties are broken by the case, so that what is kept does not depend on which trajectory came first.
        least = min(kept) if len(kept) == _KEPT else None
        if (cost, row.case) in kept or (least is not None and (cost, row.case) < least):
            return
        if least is not None:
            del kept[least]
        kept[cost, row.case] = self._mistake(row, cost, judged)

    def listed(self) -> list[Mistake]:
        """The worst first."""
        every = [mistake for kept in self._kept.values() for mistake in kept.values()]
        return sorted(every, key=lambda mistake: (mistake.row.bad is True, -mistake.cost, mistake.row.case))

    def _mistake(self, row: Row, cost: float, judged: _Judged) -> Mistake:
        step, verdict, text = judged.step, judged.verdict, self._sanitizer.text
        spans = [signal.span for signal in verdict.signals if signal.span is not None]
        changed = None if judged.altered is None else judged.altered.span
        places = spans if changed is None else [changed, *spans]  # the first one is in the middle of what is quoted
        observed, shown = self._sanitizer.quote(step.observation, places, _QUOTE)
        altered = None if changed is None else shown[0]
        predicted = judged.prediction.text
        if predicted is None:
            predicted = "\n".join(one.detail or one.rule for one in judged.prediction.constraints)
        return Mistake(
            row=row,
            cost=cost,
            action=text(step.action.text, _QUOTE),
            predicted=text(predicted, _QUOTE),
            observed=observed,
            spans=tuple(span for span in shown[len(places) - len(spans) :] if span is not None),
            altered=altered,
            reasons=tuple(text(f"{signal.name}: {signal.detail}", _QUOTE) for signal in verdict.signals),
            verdict=verdict.verdict_id,
        )


class _Bench(msgspec.Struct, frozen=True, kw_only=True):
    """What all trajectories share."""

    cases: Cases
    judge: Judge
    support: controls.Support
    asked: controls.Judge | None
    worst: _Worst


class _Work:
    """One trajectory."""

    def __init__(self, number: int, subject: Subject, bench: _Bench) -> None:
        self.rows: list[Row] = []
        self._number = number
        self._subject = subject
        self._bench = bench
        self._name = plain("/".join(subject.run.key))
        self._begin()
        self._alarm = 0
        self._off_path: list[int] = []
        self._suspicions: dict[int, float] = {}

    def _begin(self) -> None:
        """Know nothing yet; nor, once all is judged, any more: there may be many trajectories."""
        self._history = History(self._subject.run.key, run=self._number)
        self._memory = Memory()
        self._past = controls.Past()

    async def judged(self, on: Callable[[int], None]) -> None:
        """Judge each step as it was logged, and what it may have been instead."""
        run = self._subject.run
        for place, step in enumerate(run.steps):
            if step.observation_kind is ObservationKind.ENV and place not in run.copied:
                await self._step(place, step)
            self._history.append(step)
            self._past.append(step)
            on(1)
        self._begin()

    async def _step(self, place: int, step: Step) -> None:
        before = self._memory
        began = time.perf_counter()
        prediction = await self._predicted(step)
        judged = self._decided(before, place, step, None, prediction, time.perf_counter() - began)
        self._memory = judged.memory
        row = await self._row(judged)
        self._suspicions[step.index] = row.suspicion
        if row.verdict is VerdictKind.OFF_PATH:
            self._off_path.append(step.index)
        if judged.verdict.alarm is not None and judged.verdict.alarm.new:
            self._alarm = step.index
        # What a model says of the observation itself, and whether it is asked at all, is another thing for another
        # observation. Where others predict all of it, or there is no model, the prediction is the same.
        again = self._bench.judge.predictor.model is not None and (
            prediction.model is not None or prediction.text is None
        )
        for altered in self._bench.cases.altered(self._subject, place, self._history):
            other = await self._predicted(altered.step, keep=False) if again else prediction
            await self._row(self._decided(before, place, altered.step, altered, other, 0.0))

    async def _predicted(self, step: Step, *, keep: bool = True) -> Prediction:
        predictor = self._bench.judge.predictor
        try:
            return await predictor.predict(self._history, step, keep=keep)
        except Exception as error:  # noqa: BLE001 - as in the pipeline, a failure costs one step
            return _failed(predictor, step, error)

    def _decided(  # noqa: PLR0917 - what `_Judged` is made of
        self, memory: Memory, place: int, step: Step, altered: Altered | None, prediction: Prediction, seconds: float
    ) -> _Judged:
        judge = self._bench.judge
        began = time.perf_counter()
        scores: list[Score] = []
        try:
            scores = [scorer(self._history, step, prediction) for scorer in judge.scorers]
        except Exception as error:  # noqa: BLE001 - likewise
            prediction = _failed(judge.predictor, step, error)
        memory, verdict = decide(
            judge.policy,
            memory,
            step,
            prediction,
            scores,
            predictor=judge.predictor.name,
            model=judge.predictor.model,
            time="",
            seconds=Seconds(),
        )
        return _Judged(
            place=place,
            step=step,
            altered=altered,
            prediction=prediction,
            scores=scores,
            verdict=verdict,
            memory=memory,
            seconds=seconds + time.perf_counter() - began,
        )

    async def _row(self, judged: _Judged) -> Row:
        """The case's row, which is kept."""
        altered, prediction, verdict, place = judged.altered, judged.prediction, judged.verdict, judged.place
        run, past = self._subject.run, self._past
        logged = run.steps[place]
        kind = self._subject.kind(place) if altered is None else altered.kind
        case = digest(logged.step_id, kind, "" if altered is None else judged.step.observation)
        names = {signal.name for signal in verdict.signals}
        whole = [score.value for score in judged.scores if score.name == "normalised" and score.value is not None]
        asked = self._bench.asked
        row = Row(
            case=case,
            group=plain(run.group),
            step_id=logged.step_id,
            trajectory=self._name,
            step=logged.index,
            kind=plain(kind),
            altered=altered is not None,
            bad=self._subject.environment.get(place) if altered is None else not altered.benign,
            agent_erred=self._subject.agent.get(place) if altered is None else None,
            known=None if altered is None else altered.known,
            tool=plain(tool_of(logged)),
            domain=plain(logged.domain),
            length=len(logged.observation),
            content=self._content(judged),
            verdict=verdict.verdict,
            reason=verdict.reason,
            coverage=verdict.coverage,
            p_value=verdict.p_value,
            suspicion=_suspicion(judged.scores, verdict.coverage),
            hinted=not _HINTS.isdisjoint(names),
            alarmed=judged.memory.alarmed,
            failed=next((failure for failure in FAILURES if failure == verdict.reason or failure in names), None),
            exact=whole[0] == 0.0 if whole and prediction.text is not None else None,
            controls=(
                controls.error_words(judged.step),
                past.seen(judged.step),
                past.novelty(judged.step),
                self._bench.support.surprisal(run.group, self._history[-1] if self._history else None, logged),
                None if asked is None else await asked(case, self._history, judged.step),
            ),
            seconds=judged.seconds,
            tokens=prediction.tokens,
        )
        self._bench.worst.look(row, judged)
        self.rows.append(row)
        return row

    def _content(self, judged: _Judged) -> str:
        if judged.altered is not None:
            return (Content.DETERMINISTIC if judged.altered.known else Content.PRE_EXISTING).value
        step = judged.step
        total = sum(len(line.strip()) for line in step.observation.splitlines())
        if not total:
            return "empty"
        passing = sum(end - start for start, end, _ in runtime(step.observation, step, self._history)[0])
        shown = self._past.shown(step)
        sizes = {
            Content.DETERMINISTIC: shown,
            Content.RUNTIME: passing,
            Content.PRE_EXISTING: total - shown - passing,
        }
        return max(sizes, key=lambda content: sizes[content]).value

    def track(self) -> Track:
        """What became of it."""
        return Track(
            subject=self._subject,
            alarm=self._alarm,
            off_path=tuple(self._off_path),
            suspicions=self._suspicions,
            steps=len(self._suspicions),
        )


def _failed(predictor: Predictor, step: Step, error: Exception) -> Prediction:
    _log.error("step_failed", predictor=predictor.name, trajectory=step.trajectory, step=step.index, exc_info=error)
    return Prediction(predictor=predictor.name, abstain=Abstain.PREDICTOR_ERROR, detail=repr(error))


def _suspicion(scores: Sequence[Score], coverage: float) -> float:
    if any(score.violated for score in scores):
        return 2.0
    surprise = next((score.value for score in scores if score.name == "surprise" and score.value is not None), None)
    if surprise is None or math.isnan(surprise):
        odd = 0.5
    elif math.isinf(surprise):
        odd = float(surprise > 0)
    else:
        odd = 0.5 + surprise / (2.0 * (1.0 + abs(surprise)))
    return (1.0 - coverage) * odd
