"""Rates, ranks and their intervals, with cases that hang together resampled together.

The cluster bootstrap draws whole groups (a trajectory, a session, a task) with replacement; intervals are the 2.5th and
97.5th percentiles. Where every case came out alike the bootstrap would claim certainty: there the interval is the exact
binomial (Clopper-Pearson) one. Cases of one group alone have no interval, and neither has a figure that never varies.
"""

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = (
    "NOTHING",
    "Bools",
    "Estimate",
    "Floats",
    "Groups",
    "Interval",
    "auroc",
    "detected",
    "mcnemar",
    "precision_at",
    "roc",
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_RESAMPLES = 1000
_BINS = 128
_TAIL = 0.1  # of the good, where most bins are
_TAILS = 0.025


class Interval(msgspec.Struct, frozen=True):
    """A figure with its 95 % interval, of so many observations."""

    value: float
    low: float
    high: float
    n: int


class Estimate(msgspec.Struct, frozen=True):
    """A figure with its 95 % interval, of so many observations.

    The value is None where there was nothing to measure, the interval where nothing can be said of it.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int


NOTHING = Estimate(None, None, None, 0)


class Groups:
    """Which cases hang together, and the draws of their bootstrap.

    Args:
        names: The group of each case.
        seed: Fixes the draws: figures of the same cases have the same draws, so that differences are paired.
    """

    def __init__(self, names: Sequence[str], *, seed: int = 0) -> None:
        known = {name: number for number, name in enumerate(sorted(set(names)))}
        self.count = len(known)
        self._of = np.array([known[name] for name in names], dtype=np.intp)
        draw = np.random.default_rng(seed)
        even = np.full(self.count, 1 / self.count) if self.count else np.zeros(0)
        drawn = draw.multinomial(self.count, even, size=_RESAMPLES) if self.count else np.zeros((_RESAMPLES, 0))
        self._weights = drawn.astype(np.float32)  # whole numbers, and so are the sums: exact below 2 ** 24

    def sums(self, values: Floats | Bools, where: Bools | None = None) -> tuple[float, Floats]:
        """The sum over the cases, or over those `where`, and over those of each draw."""
        of, chosen = (self._of, values) if where is None else (self._of[where], values[where])
        by_group = np.bincount(of, weights=chosen, minlength=self.count).astype(np.float32)
        return float(by_group.sum()), (self._weights @ by_group).astype(np.float64)

    def share(self, hits: Bools | Floats, where: Bools | None = None) -> Estimate:
        """How many of the cases, or of those `where`, are hits; some may be so in part."""
        counted = np.ones(len(hits), dtype=np.bool_) if where is None else where
        total, totals = self.sums(counted)
        if not total:
            return NOTHING
        found, founds = self.sums(hits, counted)
        if found in (0.0, total):
            return self._alike(found / total, counted)
        with np.errstate(invalid="ignore"):
            return self._estimate(found / total, founds / totals, counted)

    def mean_of_shares(self, shares: Sequence[tuple[Bools, Bools]]) -> Estimate:
        """The unweighted mean of several shares, each as its hits and the cases where they count; `n` counts cases."""
        values, draws = [], []
        union = np.zeros(len(self._of), dtype=np.bool_)
        for hits, where in shares:
            total, totals = self.sums(where)
            found, founds = self.sums(hits, where)
            if total:
                values.append(found / total)
                union |= where
                with np.errstate(invalid="ignore"):
                    draws.append(founds / totals)
        if not values:
            return NOTHING
        if set(values) <= {0.0} or set(values) <= {1.0}:
            return self._alike(values[0], union)
        drawn = np.array(draws)
        counted = np.isfinite(drawn)
        sums, counts = np.where(counted, drawn, 0.0).sum(axis=0), counted.sum(axis=0)
        with np.errstate(invalid="ignore"):
            return self._estimate(float(np.mean(values)), sums / counts, union)

    def difference(self, one: Bools, other: Bools, where: Bools | None = None) -> Estimate:
        """The share of the one minus that of the other, on the same cases."""
        counted = np.ones(len(one), dtype=np.bool_) if where is None else where
        total, totals = self.sums(counted)
        if not total:
            return NOTHING
        if not (one ^ other)[counted].any():
            equal = self._alike(0.0, counted)
            return Estimate(0.0, None if equal.high is None else -equal.high, equal.high, equal.n)
        gain, gains = self.sums(one.astype(np.float64) - other.astype(np.float64), counted)
        with np.errstate(invalid="ignore"):
            return self._estimate(gain / total, gains / totals, counted)

    def ranked(self, scores: Floats, bad: Bools, *, where: Bools | None = None) -> tuple[Estimate, Estimate, Estimate]:
        """AUROC, and the share of the bad above a level that at most 1 % and 5 % of the good exceed.

        For the intervals, not for the figures, scores are put into bins, most of them among the largest of the good.
        """
        counted = np.ones(len(bad), dtype=np.bool_) if where is None else where
        good = counted & ~bad
        faulty = counted & bad
        if not good.any() or not faulty.any():
            return NOTHING, NOTHING, NOTHING
        levels = _levels(scores[counted], scores[good])
        histograms = []
        for chosen in (good, faulty):
            binned = np.searchsorted(levels, scores[chosen], side="right")
            places = self._of[chosen] * (levels.size + 1) + binned
            by_group = np.bincount(places, minlength=self.count * (levels.size + 1)).astype(np.float32)
            histograms.append((self._weights @ by_group.reshape(self.count, -1)).astype(np.float64))
        true, false = histograms
        found, faults = scores[counted], bad[counted]
        with np.errstate(invalid="ignore", divide="ignore"):
            return (
                self._estimate(auroc(found, faults), _areas(true, false), counted),
                self._estimate(detected(found, faults, 0.01), _above(true, false, 0.01), counted),
                self._estimate(detected(found, faults, 0.05), _above(true, false, 0.05), counted),
            )

    def of(self, values: Sequence[tuple[float, Floats]], combine: Callable[..., Floats], counted: Bools) -> Estimate:
        """A figure made of several sums, such as a precision of two rates; `combine` takes arrays of their draws."""
        with np.errstate(invalid="ignore", divide="ignore"):
            value = float(combine(*(np.array([total]) for total, _ in values))[0])
            draws = combine(*(draws for _, draws in values))
        return self._estimate(value, draws, counted) if math.isfinite(value) else NOTHING

    def _alike(self, value: float, counted: Bools) -> Estimate:
        """All or none of the cases: the exact binomial interval, as if they were independent."""
        n = int(counted.sum())
        if not self._several(counted):
            return Estimate(value, None, None, n)
        least = _TAILS ** (1 / n)
        return Estimate(value, least, 1.0, n) if value else Estimate(value, 0.0, 1 - least, n)

    def _estimate(self, value: float, draws: Floats, counted: Bools) -> Estimate:
        n = int(counted.sum())
        draws = draws[np.isfinite(draws)]
        if not draws.size or not self._several(counted):
            return Estimate(value, None, None, n)
        low, high = np.quantile(draws, (0.025, 0.975))
        return Estimate(value, float(low), float(high), n) if low < high else Estimate(value, None, None, n)

    def _several(self, counted: Bools) -> bool:
        """Are they of more than one group?"""
        of = self._of[counted]
        return bool((of != of[0]).any())


def auroc(found: Floats, faulty: Bools) -> float:
    """How often a fault scores higher than a true observation, ties counted half."""
    _, places, counts = np.unique(found, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[places]
    faults, true = int(faulty.sum()), int((~faulty).sum())
    return float((ranks[faulty].sum() - faults * (faults + 1) / 2) / (faults * true))


def detected(found: Floats, faulty: Bools, rate: float) -> float:
    """The share of faults above a level that no more than such a share of true observations exceeds."""
    true = np.sort(found[~faulty])[::-1]
    return float(np.mean(found[faulty] > true[math.floor(rate * true.size + 1e-9)]))


def roc(scores: Floats, bad: Bools, *, points: int = 200) -> list[tuple[float, float]]:
    """False and true positive rates as the level falls, from (0, 0) to (1, 1); at most so many points."""
    if not bad.any() or bad.all():
        return []
    levels = np.unique(scores)[::-1]
    good, faulty = np.sort(scores[~bad]), np.sort(scores[bad])
    fpr = 1 - np.searchsorted(good, levels, side="left") / good.size
    tpr = 1 - np.searchsorted(faulty, levels, side="left") / faulty.size
    kept = np.unique(np.linspace(0, levels.size - 1, min(points, levels.size)).round().astype(int))
    return [(0.0, 0.0), *((float(fpr[place]), float(tpr[place])) for place in kept)]


def mcnemar(one: Bools, other: Bools) -> float:
    """The exact two-sided p-value that two judges of the same cases differ by chance only (McNemar).

    Cases are counted as independent; the paired bootstrap of `Groups.difference` does not need that.
    """
    first, second = int((one & ~other).sum()), int((other & ~one).sum())
    n, least = first + second, min(first, second)
    if not n:
        return 1.0
    logs = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(least + 1)]
    return min(1.0, 2 * math.fsum(math.exp(value - n * math.log(2)) for value in logs))


def precision_at(prevalence: float, recall: Floats, fpr: Floats) -> Floats:
    """The share of alarms that are right where so many steps are bad."""
    right = prevalence * recall
    return np.asarray(right / (right + (1 - prevalence) * fpr), dtype=np.float64)


def _levels(every: Floats, good: Floats) -> Floats:
    """Levels between which scores are told apart: all of them if they are few."""
    levels = np.unique(every)
    if levels.size <= _BINS:
        return levels
    ranks, tail = np.linspace(0, 1, _BINS), np.linspace(1 - _TAIL, 1, _BINS)
    return np.unique(
        np.concatenate([np.quantile(every, ranks, method="lower"), np.quantile(good, tail, method="lower")])
    )


def _areas(good: Floats, bad: Floats) -> Floats:
    """AUROC of each row of histograms."""
    below = np.cumsum(good, axis=1) - good / 2
    return np.asarray((bad * below).sum(axis=1) / (bad.sum(axis=1) * good.sum(axis=1)), dtype=np.float64)


def _above(good: Floats, bad: Floats, rate: float) -> Floats:
    """The share of the bad in bins above which at most such a share of the good lies."""
    reached = np.cumsum(good[:, ::-1], axis=1)[:, ::-1] / good.sum(axis=1, keepdims=True)  # good in this bin and above
    allowed = reached <= rate + 1e-9
    return np.asarray((bad * allowed).sum(axis=1) / bad.sum(axis=1), dtype=np.float64)
