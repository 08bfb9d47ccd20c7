"""From scores to alarms: p-values against clean runs, evidence over a trajectory, the level at which to alarm.

    score -> p-value -> e-values -> e-SR statistic / growth -> compared with the level -> alarm

A calibration is learnt once, on trajectories believed clean, and frozen: it never learns from what it judges. One part
of them gives the reference scores and the growth of the statistic, the other the level, by split conformal over each
trajectory's maximum. So a new clean trajectory alarms with probability alpha at most, however its steps hang together
and however poor the predictor is: that only costs detection. Steps that abstain change nothing.

`observe` judges a live step; `evaluate_all` does the same sums for many trajectories at once.
"""

import hashlib
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = (
    "EPSILONS",
    "Bucket",
    "Calibration",
    "Evidence",
    "Growth",
    "Judged",
    "Outcomes",
    "Rate",
    "Reference",
    "Scored",
    "Sizes",
    "Table",
    "Trajectory",
    "advance",
    "calibrate",
    "draw",
    "e_values",
    "evaluate",
    "evaluate_all",
    "fit",
    "observe",
    "p_conservative",
    "p_smoothed",
    "rank",
    "rate",
    "required",
    "tabulate",
)

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7)
"""Exponents of the power e-values: small ones bet on few very odd steps, large ones on many slightly odd ones."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

_CAP = 1e300
"""Evidence ends here: beyond it says nothing more, and an infinity would not survive being stored as JSON."""

_FOLDS = 5
_ENOUGH = 20
"""Fewer trajectories say nothing of the growth."""

_MARGIN = 1.25
"""How much steeper, as a power of the length, the correction is than the growth that it corrects. Less makes false
alarms gather in the longest quarter of recorded trajectories, more costs detection."""

_HORIZON = 32
"""The statistic restarts after so many steps at the latest: a clean trajectory that is a little odd throughout gathers
evidence exponentially, and what is fitted to short ones would not hold it back in a long one."""

_ROUNDING = 1e-9
"""What two ways to sum may differ by, relatively: equal evidence must never count as more."""


class Scored(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is needed of one judged step.

    Attributes:
        tool, domain: Scores are compared with those of the same tool and domain.
        score: Higher is worse; None if the step abstained.
        deterministic: Is the score evidence of a certain predictor? Such scores are mostly tied and get conservative
            p-values, against others of their kind only.
    """

    tool: str
    domain: str
    score: float | None
    deterministic: bool = False


class Trajectory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Judged steps in their order; step `i` of `steps` has index `i + 1`.

    Attributes:
        id: What names it, unique.
        steps: The steps, abstentions included.
        group: Trajectories of one group never end up in two parts; empty for a group of its own.
    """

    id: str
    steps: tuple[Scored, ...]
    group: str = ""


class Bucket(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The clean scores, ascending, of one tool, domain and kind of evidence."""

    tool: str
    domain: str
    deterministic: bool
    scores: tuple[float, ...]


class Reference(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True, rename="kebab"):
    """Clean scores to compare with.

    Attributes:
        buckets: By tool, domain and kind.
        least: A bucket of fewer scores backs off: to the tool's, then the domain's, then all of the kind.
    """

    buckets: tuple[Bucket, ...] = ()
    least: int = 30

    @cached_property
    def _merged(self) -> dict[tuple[bool, str | None, str | None], tuple[float, ...]]:
        parts: dict[tuple[bool, str | None, str | None], list[float]] = {}
        for bucket in self.buckets:
            for tool in (bucket.tool, None):
                for domain in (bucket.domain, None):
                    parts.setdefault((bucket.deterministic, tool, domain), []).extend(bucket.scores)
        return {key: tuple(sorted(scores)) for key, scores in parts.items()}

    def find(self, tool: str, domain: str, *, deterministic: bool = False, least: int = 0) -> tuple[float, ...]:
        """The scores, ascending, to compare one of this tool and domain with; empty if there is none of its kind.

        A caller that needs more of them than `least` of its own says so.
        """
        found: tuple[float, ...] = ()
        for key in ((tool, domain), (tool, None), (None, domain), (None, None)):
            found = self._merged.get((deterministic, *key), ())
            if len(found) >= max(self.least, least):
                break
        return found


class Growth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """How the statistic grows with the number of scored steps on clean runs, so that long and short ones compare.

    Attributes:
        exponent: It is divided by the number of steps to this power.
        horizon: After so many steps it starts anew: the calibration saw no longer trajectory, or 32.
    """

    exponent: float = 2.0
    horizon: int = 1

    def at(self, scored: int, restarts: int = 0) -> float:
        """What the statistic is divided by at the `scored`-th step since the last of the restarts.

        After the k-th restart 10 k (k + 1) times as much is asked for. The chance that clean evidence exceeds x falls
        as 1/x, so all that follows the first horizon, however long, adds a tenth of its false alarms at most.
        """
        growth: float = scored**self.exponent
        return growth * max(1, 10 * restarts * (restarts + 1))


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has gathered in one trajectory; all that must be stored to go on later.

    Attributes:
        scored: Steps scored since the last restart.
        restarts: How often the statistic started anew.
        sums: The e-SR statistic by exponent.
        suffix: Log of the largest product of the e-values from some step up to the last.
        start: Index of that step: where things went wrong, if they did.
        odd: Was there an odd step? Without one there is no alarm.
        statistic: The evidence now, corrected for length; 0 before the first odd step.
        maximum: The largest it ever was.
        alarm: Index of the step at which it first exceeded the level; 0 if it did not.
        first_bad: `start` as it was then.
    """

    scored: int = 0
    restarts: int = 0
    sums: tuple[float, ...] = (0.0,) * len(EPSILONS)
    suffix: float = 0.0
    start: int = 0
    odd: bool = False
    statistic: float = 0.0
    maximum: float = 0.0
    alarm: int = 0
    first_bad: int = 0


class Judged(msgspec.Struct, frozen=True):
    """One step against the reference.

    Attributes:
        p: Its p-value, ties broken at random, which evidence is made of; None if it abstained or there is nothing to
            compare with.
        conservative: The share of clean steps that are so odd or odder, among as many as can tell `step_alpha`, be
            they of other tools.
        suspect: Is the step by itself as odd as `step_alpha` of the clean ones at most?
        odd: Is it odd enough to take part in an alarm?
    """

    p: float | None = None
    conservative: float | None = None
    suspect: bool = False
    odd: bool = False


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """A share with its exact (Clopper-Pearson) 95 % interval."""

    count: int
    total: int
    low: float
    high: float


class Sizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """How much a calibration rests on.

    Attributes:
        trajectories, groups, steps: With at least one score; steps are scored ones.
        reference, level: Trajectories in each part, after trimming.
        trimmed: Trajectories that were dropped as too odd to be clean.
    """

    trajectories: int
    groups: int
    steps: int
    reference: int
    level: int
    trimmed: int = 0


class Calibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What was learnt from clean trajectories.

    Attributes:
        alpha: Share of clean trajectories that may alarm.
        step_alpha: Share of clean steps that may be suspect.
        delta: If given, the share exceeds alpha with this probability at most; else alpha holds on average.
        trim: Share of the oddest trajectories that was dropped from each part.
        seed: Of the split.
        reference: The clean scores.
        growth: The growth of the statistic.
        level: An alarm is evidence above this; None if there were too few trajectories: INCONCLUSIVE.
        missing: How many trajectories more are needed then.
        step_level: Pooled over tools, a likelihood's score above this is suspect; None if there are too few.
        sizes: What all this rests on.
        alarms: False alarms as they came out for each fifth with the others as calibration; None if not tried.
        suspects: Likewise the suspect steps.
    """

    alpha: float
    step_alpha: float
    delta: float | None = None
    trim: float
    seed: int
    reference: Reference
    growth: Growth
    level: float | None = None
    missing: int
    step_level: float | None = None
    sizes: Sizes
    alarms: Rate | None = None
    suspects: Rate | None = None

    def __post_init__(self) -> None:
        # JSON, of which hashes are made, writes what is not finite as it writes what is absent.
        if not all(number is None or math.isfinite(number) for number in (self.delta, self.level, self.step_level)):
            raise ValueError("`delta`, `level` and `step-level` must be finite, or absent")


class Table(msgspec.Struct, frozen=True, eq=False):
    """Many trajectories as columns; one entry per scored step, those of a trajectory side by side.

    Attributes:
        lengths: Steps of each trajectory, abstentions included.
        groups: Number of each trajectory's group.
        names: The groups.
        kinds: (deterministic, tool, domain).
        row: Number of the step's trajectory, ascending.
        index: The step's index in it.
        score: Its score.
        kind: Its place in `kinds`.
        u: Its random number.
    """

    lengths: Integers
    groups: Integers
    names: tuple[str, ...]
    kinds: tuple[tuple[bool, str, str], ...]
    row: Integers
    index: Integers
    score: Floats
    kind: Integers
    u: Floats

    def take(self, trajectories: Integers) -> "Table":
        """Some of the trajectories, renumbered in the order given."""
        starts = np.searchsorted(self.row, trajectories, "left")
        counts = np.searchsorted(self.row, trajectories, "right") - starts
        row = np.repeat(np.arange(len(trajectories)), counts)
        ends = np.cumsum(counts)
        steps = np.arange(len(row)) - np.repeat(ends - counts, counts) + np.repeat(starts, counts)
        return Table(
            self.lengths[trajectories],
            self.groups[trajectories],
            self.names,
            self.kinds,
            row,
            self.index[steps],
            self.score[steps],
            self.kind[steps],
            self.u[steps],
        )


class Outcomes(msgspec.Struct, frozen=True, eq=False):
    """What became of the trajectories of a table, and of its scored steps.

    Attributes:
        maximum: Each trajectory's largest evidence.
        alarm: Index of the step at which it alarmed, or 0.
        p: Each scored step's p-value; NaN if there is nothing to compare with.
        suspect: Is the step suspect?
    """

    maximum: Floats
    alarm: Integers
    p: Floats
    suspect: Booleans


def draw(trajectory: str, index: int) -> float:
    """A number between 0 and 1, both exclusive: as if random, yet the same for the same step wherever and whenever."""
    hashed = hashlib.blake2b(f"{trajectory}\0{index}".encode(errors="surrogatepass"), digest_size=8).digest()
    return ((int.from_bytes(hashed, "big") >> 12) + 0.5) / 2**52


def p_smoothed(score: float, reference: Sequence[float], u: float) -> float:
    """The share of the reference (ascending) that is as odd, ties broken by `u`: uniform for a clean score."""
    above = len(reference) - bisect_right(reference, score)
    equal = len(reference) - above - bisect_left(reference, score)
    return (above + u * (1 + equal)) / (len(reference) + 1)


def p_conservative(score: float, reference: Sequence[float]) -> float:
    """The share of the reference (ascending) that is at least as odd: never too small, and no coin decides ties."""
    return (1 + len(reference) - bisect_left(reference, score)) / (len(reference) + 1)


def e_values(p: float) -> tuple[float, ...]:
    """How much each bet on small p-values pays. If p is uniform, or larger, each is at most 1 on average."""
    return tuple(min(_CAP, epsilon * p ** (epsilon - 1)) for epsilon in EPSILONS)


def advance(
    evidence: Evidence,
    index: int,
    p: float | None,
    *,
    growth: Growth,
    level: float | None = None,
    odd: bool = False,
) -> Evidence:
    """Take in the p-value of one step. Pure, in constant time; None leaves all as it is.

    Args:
        evidence: What had gathered before.
        index: The step's index in its trajectory.
        p: Its p-value.
        growth: The calibration's.
        level: The calibration's.
        odd: Is the step odd enough to take part in an alarm?

    Returns:
        What has gathered now.
    """
    if p is None:
        return evidence
    scored, restarts, sums = evidence.scored + 1, evidence.restarts, evidence.sums
    if scored > growth.horizon:
        scored, restarts, sums = 1, restarts + 1, (0.0,) * len(EPSILONS)
    values = e_values(p)
    sums = tuple(min(_CAP, (1 + total) * value) for total, value in zip(sums, values, strict=True))
    fresh = evidence.suffix <= 0  # what came before this step only takes from the product
    suffix = math.log(sum(values) / len(values)) + (0.0 if fresh else evidence.suffix)
    start = index if fresh else evidence.start
    odd = odd or evidence.odd
    statistic = sum(sums) / len(sums) / growth.at(scored, restarts) if odd else 0.0
    raised = not evidence.alarm and _exceeds(statistic, level)
    return Evidence(
        scored=scored,
        restarts=restarts,
        sums=sums,
        suffix=suffix,
        start=start,
        odd=odd,
        statistic=statistic,
        maximum=max(evidence.maximum, statistic),
        alarm=index if raised else evidence.alarm,
        first_bad=start if raised else evidence.first_bad,
    )


def _exceeds(statistic: float, level: float | None) -> bool:
    return level is not None and statistic > level * (1 + _ROUNDING)


def observe(
    calibration: Calibration, evidence: Evidence, trajectory: str, index: int, step: Scored
) -> tuple[Evidence, Judged]:
    """Judge one step of a trajectory and take it in. Pure.

    Args:
        calibration: What was learnt from clean trajectories.
        evidence: What had gathered in this one; `Evidence()` at its start.
        trajectory: Its id.
        index: The step's index in it.
        step: The step.

    Returns:
        What has gathered now, and what the step is by itself.
    """
    reference = calibration.reference.find(step.tool, step.domain, deterministic=step.deterministic)
    if step.score is None or math.isnan(step.score) or not reference:
        return evidence, Judged()
    conservative = p_conservative(step.score, reference)
    p = conservative if step.deterministic else p_smoothed(step.score, reference, draw(trajectory, index))
    wide = calibration.reference.find(
        step.tool, step.domain, deterministic=step.deterministic, least=_enough(calibration)
    )
    alone = p_conservative(step.score, wide)
    judged = Judged(
        p,
        conservative=alone,
        suspect=alone <= calibration.step_alpha,
        odd=bool(_odd(p, conservative, calibration)),
    )
    return advance(evidence, index, p, growth=calibration.growth, level=calibration.level, odd=judged.odd), judged


def evaluate(calibration: Calibration, trajectory: Trajectory) -> Evidence:
    """What has gathered at the end of a trajectory: `maximum`, `alarm` and `first_bad` among it."""
    evidence = Evidence()
    for index, step in enumerate(trajectory.steps, 1):
        evidence, _ = observe(calibration, evidence, trajectory.id, index, step)
    return evidence


def _odd(p: Any, conservative: Any, calibration: Calibration) -> Any:
    """Odd enough for an alarm; never a step as good as the better half of the clean ones, whatever the coin said."""
    return (p <= max(calibration.alpha, calibration.step_alpha)) & (conservative <= 0.5)


def _enough(calibration: Calibration) -> int:
    """So many clean scores can tell a share of `step_alpha`: fewer have no p-value so small."""
    return math.ceil(1 / calibration.step_alpha) - 1


def required(alpha: float, delta: float | None = None) -> int:
    """How many clean trajectories a level needs at least."""
    need = 1 / alpha - 1 if delta is None else math.log(delta) / math.log1p(-alpha)
    return max(1, math.ceil(need - _ROUNDING))


def rank(count: int, alpha: float, delta: float | None = None) -> int | None:
    """Which of `count` clean maxima, counted from the smallest as 1, is the level; None if there are too few.

    Without `delta` a clean trajectory exceeds it with probability alpha at most, on average over calibrations. With
    `delta`, all but that share of calibrations keep to alpha.
    """
    if count < required(alpha, delta):
        return None
    if delta is None:
        return math.ceil((1 - alpha) * (count + 1) - _ROUNDING)
    below = _binomial(count, 1 - alpha)  # the chance that at most k maxima lie below the true quantile
    return int(np.searchsorted(below, 1 - delta - _ROUNDING)) + 1


def rate(count: int, total: int, confidence: float = 0.95) -> Rate:
    """A share with its exact (Clopper-Pearson) interval."""
    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else _solve(total, count - 1, 1 - tail)
    high = 1.0 if count == total else _solve(total, count, tail)
    return Rate(count, total, low, high)


def _solve(total: int, count: int, chance: float) -> float:
    """The share at which at most `count` of `total` has this chance."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _binomial(total, middle)[count] > chance else (low, middle)
    return (low + high) / 2


def _binomial(total: int, share: float) -> Floats:
    """The chances of at most 0, 1, ..., total successes."""
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])
    k = np.arange(total + 1)
    logs = factorials[-1] - factorials - factorials[::-1] + k * math.log(share) + (total - k) * math.log1p(-share)
    return np.cumsum(np.exp(logs))


def tabulate(trajectories: Iterable[Trajectory]) -> Table:
    """Trajectories as columns."""
    kinds: dict[tuple[bool, str, str], int] = {}
    groups: dict[str, int] = {}
    lengths: list[int] = []
    members: list[int] = []
    rows: list[int] = []
    indexes: list[int] = []
    scores: list[float] = []
    codes: list[int] = []
    draws: list[float] = []
    for row, trajectory in enumerate(trajectories):
        lengths.append(len(trajectory.steps))
        members.append(groups.setdefault(trajectory.group or f"\0{trajectory.id}", len(groups)))
        for index, step in enumerate(trajectory.steps, 1):
            if step.score is None or math.isnan(step.score):
                continue
            rows.append(row)
            indexes.append(index)
            scores.append(step.score)
            codes.append(kinds.setdefault((step.deterministic, step.tool, step.domain), len(kinds)))
            draws.append(draw(trajectory.id, index))
    return Table(
        lengths=np.array(lengths, np.int64),
        groups=np.array(members, np.int64),
        names=tuple(groups),
        kinds=tuple(kinds),
        row=np.array(rows, np.int64),
        index=np.array(indexes, np.int64),
        score=np.array(scores, np.float64),
        kind=np.array(codes, np.int64),
        u=np.array(draws, np.float64),
    )


def evaluate_all(calibration: Calibration, table: Table) -> Outcomes:
    """What `evaluate` gives, for all trajectories of a table."""
    p, conservative = _p_values(calibration.reference, table)
    scored = ~np.isnan(p)
    statistic = _statistic(p, _odd(p, conservative, calibration), table, calibration.growth)
    maximum = np.zeros(len(table.lengths))
    np.maximum.at(maximum, table.row[scored], statistic[scored])
    alarm = np.full(len(table.lengths), np.iinfo(np.int64).max)
    if calibration.level is not None:
        above = scored & (statistic > calibration.level * (1 + _ROUNDING))
        np.minimum.at(alarm, table.row[above], table.index[above])
    alarm[alarm == np.iinfo(np.int64).max] = 0
    alone = _p_values(calibration.reference, table, _enough(calibration))[1]
    return Outcomes(maximum, alarm, p, scored & (alone <= calibration.step_alpha))


def _p_values(reference: Reference, table: Table, least: int = 0) -> tuple[Floats, Floats]:
    """The p-values of all steps, and the conservative ones."""
    p, conservative = np.full(len(table.score), np.nan), np.full(len(table.score), np.nan)
    for kind, (deterministic, tool, domain) in enumerate(table.kinds):
        steps = np.flatnonzero(table.kind == kind)
        clean = np.array(reference.find(tool, domain, deterministic=deterministic, least=least))
        if not len(clean):
            continue
        score = table.score[steps]
        above = len(clean) - np.searchsorted(clean, score, "right")
        at_least = len(clean) - np.searchsorted(clean, score, "left")
        conservative[steps] = (1 + at_least) / (len(clean) + 1)
        smoothed = (above + table.u[steps] * (1 + at_least - above)) / (len(clean) + 1)
        p[steps] = conservative[steps] if deterministic else smoothed
    return p, conservative


def _statistic(p: Floats, odd: Booleans, table: Table, growth: Growth) -> Floats:
    """The evidence after each step, corrected for length; NaN where there is no p-value."""
    steps = np.flatnonzero(~np.isnan(p))
    rows, starts, counts = np.unique(table.row[steps], return_index=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    starts, counts = starts[order], counts[order]
    exponents = np.array(EPSILONS)
    values = np.minimum(_CAP, exponents * p[steps, None] ** (exponents - 1))
    odd = odd[steps]
    sums, seen = np.zeros((len(rows), len(EPSILONS))), np.zeros(len(rows), np.bool_)
    statistic = np.full(len(p), np.nan)
    # Step by step, over all trajectories that are still running: the longest come first.
    for done in range(int(counts[0]) if len(counts) else 0):
        running = int(np.searchsorted(-counts, -done, "left"))
        now = starts[:running] + done
        restarts, scored = divmod(done, growth.horizon)
        if not scored:
            sums[:] = 0
        sums[:running] = np.minimum(_CAP, (1 + sums[:running]) * values[now])
        seen[:running] |= odd[now]
        total = sums[:running].sum(1) / len(EPSILONS) / growth.at(scored + 1, restarts)
        statistic[steps[now]] = np.where(seen[:running], total, 0.0)
    return statistic


def calibrate(
    trajectories: Sequence[Trajectory],
    *,
    alpha: float = 0.05,
    step_alpha: float = 0.01,
    delta: float | None = None,
    trim: float = 0.0,
    seed: int = 0,
    least: int = 30,
    most: int = 4096,
) -> Calibration:
    """Learn from trajectories believed clean. Pure: the same arguments give the same result.

    Args:
        trajectories: The more, the better; those without any score count for nothing.
        alpha: Share of clean trajectories that may alarm.
        step_alpha: Share of clean steps that may be suspect.
        delta: Probability with which the share may exceed alpha; None for a share that holds on average.
        trim: Share of the trajectories, the oddest of each part, to drop as probably not clean.
        seed: Of the split, by group, into two halves.
        least: Buckets with fewer scores back off.
        most: Of a bucket with more scores as many are drawn.

    Returns:
        The calibration; its `level` is None if the trajectories were too few.
    """
    table = tabulate(trajectories)
    table = table.take(np.unique(table.row))
    learn = partial(fit, alpha=alpha, step_alpha=step_alpha, delta=delta, trim=trim, seed=seed, least=least, most=most)
    places = _deal(table, seed)
    whole = learn(table, *_halves(places))
    alarms = suspects = steps = total = 0
    for fold in range(_FOLDS):
        part, rest = (
            table.take(np.flatnonzero(chosen)) for chosen in (places % _FOLDS == fold, places % _FOLDS != fold)
        )
        tried = learn(rest, *_halves(_deal(rest, seed)))
        if tried.level is None:
            continue
        outcomes = evaluate_all(tried, part)
        alarms, total = alarms + int((outcomes.alarm > 0).sum()), total + len(part.lengths)
        suspects, steps = suspects + int(outcomes.suspect.sum()), steps + len(part.score)
    if not total:
        return whole
    return msgspec.structs.replace(whole, alarms=rate(alarms, total), suspects=rate(suspects, steps))


def _deal(table: Table, seed: int) -> Integers:
    """A number for each trajectory: the place of its group in an order that only the seed and the names decide."""
    hashed = [hashlib.blake2b(f"{seed}\0{name}".encode(errors="surrogatepass")).digest() for name in table.names]
    place = np.empty(len(hashed), np.int64)
    present = np.unique(table.groups)
    place[sorted(present, key=lambda group: hashed[group])] = np.arange(len(present))
    return place[table.groups]


def _halves(places: Integers) -> tuple[Integers, Integers]:
    """The trajectories of whole groups, as near to half as these allow; and the rest."""
    if not len(places):
        return places, places
    first = int(np.argmin(abs(np.cumsum(np.bincount(places)) - len(places) / 2)))
    return np.flatnonzero(places <= first), np.flatnonzero(places > first)


def fit(
    table: Table,
    reference: Integers,
    level: Integers,
    *,
    alpha: float = 0.05,
    step_alpha: float = 0.01,
    delta: float | None = None,
    trim: float = 0.0,
    seed: int = 0,
    least: int = 30,
    most: int = 4096,
) -> Calibration:
    """The same with the two parts given, as numbers of trajectories in the table, and without trying it out."""
    if not (0 < alpha < 1 and 0 < step_alpha < 1 and (delta is None or 0 < delta < 1)):
        raise ValueError("`alpha`, `step_alpha` and `delta` must be above 0 and below 1")
    if not 0 <= trim < 0.5:
        raise ValueError("`trim` must be at least 0 and below 0.5")
    given = table.take(np.concatenate([reference, level]))
    parts = table.take(reference), table.take(level)
    learnt, growth = _learn(parts[0], seed, least, most)
    if trim:
        maxima = _maxima(_crossed(parts[0], seed, least, most), parts[0], growth)
        parts = _trimmed(parts[0], maxima, trim), parts[1]
        learnt, growth = _learn(parts[0], seed, least, most)
        maxima = _maxima(_p_values(learnt, parts[1])[0], parts[1], growth)
        parts = parts[0], _trimmed(parts[1], maxima, trim)
    pooled = np.sort(np.concatenate([part.score[~_certain(part)] for part in parts]))
    place = rank(len(pooled), step_alpha)
    found = Calibration(
        alpha=alpha,
        step_alpha=step_alpha,
        delta=delta,
        trim=trim,
        seed=seed,
        reference=learnt,
        growth=growth,
        level=None,
        missing=0,
        step_level=None if place is None else float(pooled[place - 1]),
        sizes=Sizes(
            trajectories=len(given.lengths),
            groups=len(np.unique(given.groups)),
            steps=len(given.score),
            reference=len(parts[0].lengths),
            level=len(parts[1].lengths),
            trimmed=len(given.lengths) - len(parts[0].lengths) - len(parts[1].lengths),
        ),
    )
    maxima = np.sort(evaluate_all(found, parts[1]).maximum)
    place = rank(len(maxima), alpha, delta)
    if place is None:
        missing = required(alpha, delta) - len(maxima)
        return msgspec.structs.replace(found, missing=2 * missing)  # half of those to come go to the other part
    return msgspec.structs.replace(found, level=float(maxima[place - 1]))


def _certain(table: Table) -> Booleans:
    return np.array([deterministic for deterministic, _, _ in table.kinds], np.bool_)[table.kind]


def _learn(part: Table, seed: int, least: int, most: int) -> tuple[Reference, Growth]:
    return _reference(part, seed, least, most), _growth(_crossed(part, seed, least, most), part)


def _reference(table: Table, seed: int, least: int, most: int) -> Reference:
    buckets = []
    for kind, (deterministic, tool, domain) in enumerate(table.kinds):
        scores = table.score[table.kind == kind]
        if len(scores) > most:
            scores = np.random.default_rng(seed).choice(scores, most, replace=False)
        if len(scores):
            buckets.append(Bucket(tool, domain, deterministic, tuple(np.sort(scores).tolist())))
    return Reference(tuple(buckets), least)


def _crossed(part: Table, seed: int, least: int, most: int) -> Floats:
    """The p-values of the reference's own steps, each fifth against the others: as a new trajectory would get them."""
    folds = _deal(part, seed) % _FOLDS
    p = np.full(len(part.score), np.nan)
    for fold in np.unique(folds):
        reference = _reference(part.take(np.flatnonzero(folds != fold)), seed, least, most)
        p[folds[part.row] == fold] = _p_values(reference, part.take(np.flatnonzero(folds == fold)))[0]
    return p


def _growth(p: Floats, part: Table) -> Growth:
    """Fit the growth: by a margin steeper than that of the statistic's running maximum, in its upper tenth.

    The maximum itself grows about linearly, faster where odd trajectories stay odd. By the margin each doubling of the
    length adds less than half the false alarms of the one before: long trajectories alarm hardly more than short ones.
    """
    scored = ~np.isnan(p)
    row = part.row[scored]
    if not len(row):
        return Growth()
    counts = np.bincount(row, minlength=len(part.lengths))
    horizon = min(_HORIZON, int(counts.max()))
    values = _statistic(p, scored, part, Growth(0.0, horizon))[scored]
    position = np.arange(len(row)) - (np.cumsum(counts) - counts)[row] + 1
    points = []
    for length in (1, 2, 3, 4, 6, 8, 11, 16, 23, 32):
        lasting = counts >= length
        if lasting.sum() < _ENOUGH:
            break
        use = lasting[row] & (position <= length)
        maxima = np.zeros(len(counts))
        np.maximum.at(maxima, row[use], values[use])
        points.append((math.log(length), math.log(np.quantile(maxima[lasting], 0.9)), int(lasting.sum())))
    if len(points) < 2:
        return Growth(horizon=horizon)
    x, y, weight = np.array(points).T
    x, y = x - np.average(x, weights=weight), y - np.average(y, weights=weight)
    slope = float((weight * x * y).sum() / (weight * x * x).sum())
    return Growth(_MARGIN + min(3.0, max(0.0, slope)), horizon)


def _maxima(p: Floats, part: Table, growth: Growth) -> Floats:
    scored = ~np.isnan(p)
    maxima = np.zeros(len(part.lengths))
    np.maximum.at(maxima, part.row[scored], _statistic(p, scored, part, growth)[scored])
    return maxima


def _trimmed(part: Table, maxima: Floats, share: float) -> Table:
    """Without the given share of the trajectories, those of the largest maxima."""
    return part.take(np.sort(np.argsort(maxima, kind="stable")[: len(maxima) - int(share * len(maxima))]))
