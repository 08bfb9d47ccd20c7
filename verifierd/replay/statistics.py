"""Rates, ranks and their intervals, with cases that hang together resampled together.

The cluster bootstrap draws whole groups (a trajectory, a session, a task) with replacement; intervals are the 2.5th and
97.5th percentiles. Where every case came out alike the bootstrap would claim certainty: there the interval is the exact
binomial (Clopper-Pearson) one.
"""

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from verifierd.calibration import rate as binomial

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
_BINS = 512


class Interval(msgspec.Struct, frozen=True):
    """A figure with its 95 % interval, of so many observations."""

    value: float
    low: float
    high: float
    n: int


class Estimate(msgspec.Struct, frozen=True):
    """A figure with its 95 % interval, of so many observations; None where there was nothing to measure."""

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
        self._weights = draw.multinomial(self.count, even, size=_RESAMPLES).astype(np.float64) if self.count else None

    def sums(self, values: Floats | Bools, where: Bools | None = None) -> tuple[float, Floats]:
        """The sum over the cases, and over those of each draw."""
        if self._weights is None:
            return 0.0, np.zeros(_RESAMPLES)
        chosen = values.astype(np.float64) if where is None else np.where(where, values, 0.0)
        by_group = np.bincount(self._of, weights=chosen, minlength=self.count)
        return float(by_group.sum()), self._weights @ by_group

    def share(self, hits: Bools, where: Bools | None = None) -> Estimate:
        """How many of the cases, or of those `where`, are hits."""
        counted = np.ones(len(hits), dtype=np.bool_) if where is None else where
        total, totals = self.sums(counted)
        if not total:
            return NOTHING
        found, founds = self.sums(hits, counted)
        if found in (0.0, total):
            exact = binomial(int(found), int(total))
            return Estimate(found / total, exact.low, exact.high, int(total))
        with np.errstate(invalid="ignore"):
            return self._estimate(found / total, founds / totals, int(total))

    def mean_of_shares(self, shares: Sequence[tuple[Bools, Bools]]) -> Estimate:
        """The unweighted mean of several shares, each as its hits and the cases where they count; `n` counts cases."""
        values, draws, n = [], [], 0
        for hits, where in shares:
            total, totals = self.sums(where)
            found, founds = self.sums(hits, where)
            if total:
                values.append(found / total)
                n += int(total)
                with np.errstate(invalid="ignore"):
                    draws.append(founds / totals)
        if not values:
            return NOTHING
        if set(values) <= {0.0} or set(values) <= {1.0}:
            exact = binomial(n if values[0] else 0, n)
            return Estimate(values[0], exact.low, exact.high, n)
        drawn = np.array(draws)
        counted = np.isfinite(drawn)
        sums, counts = np.where(counted, drawn, 0.0).sum(axis=0), counted.sum(axis=0)
        with np.errstate(invalid="ignore"):
            return self._estimate(float(np.mean(values)), sums / counts, n)

    def difference(self, one: Bools, other: Bools, where: Bools | None = None) -> Estimate:
        """The share of the one minus that of the other, on the same cases."""
        counted = np.ones(len(one), dtype=np.bool_) if where is None else where
        total, totals = self.sums(counted)
        if not total:
            return NOTHING
        gain, gains = self.sums(one.astype(np.float64) - other.astype(np.float64), counted)
        with np.errstate(invalid="ignore"):
            return self._estimate(gain / total, gains / totals, int(total))

    def ranked(self, scores: Floats, bad: Bools, *, where: Bools | None = None) -> tuple[Estimate, Estimate, Estimate]:
        """AUROC, and the share of the bad above a level that at most 1 % and 5 % of the good exceed.

        Scores are put into at most 512 bins of equal size for it, those that are equal always into one.
        """
        counted = np.ones(len(bad), dtype=np.bool_) if where is None else where
        good = counted & ~bad
        faulty = counted & bad
        if self._weights is None or not good.any() or not faulty.any():
            return NOTHING, NOTHING, NOTHING
        binned = _binned(scores)
        bins = int(binned.max()) + 1
        histograms = []
        for chosen in (good, faulty):
            places = self._of[chosen] * bins + binned[chosen]
            by_group = np.bincount(places, minlength=self.count * bins).reshape(self.count, bins).astype(np.float64)
            histograms.append(np.vstack([by_group.sum(axis=0), self._weights @ by_group]))
        true, false = histograms
        n = int(good.sum() + faulty.sum())
        with np.errstate(invalid="ignore", divide="ignore"):
            found = (_areas(true, false), _above(true, false, 0.01), _above(true, false, 0.05))
        return tuple(self._estimate(float(values[0]), values[1:], n) for values in found)  # type: ignore[return-value]

    def of(self, values: Sequence[tuple[float, Floats]], combine: Callable[..., Floats], n: int) -> Estimate:
        """A figure made of several sums, such as a precision of two rates; `combine` takes arrays of their draws."""
        with np.errstate(invalid="ignore", divide="ignore"):
            value = float(combine(*(np.array([total]) for total, _ in values))[0])
            return (
                self._estimate(value, combine(*(draws for _, draws in values)), n) if math.isfinite(value) else NOTHING
            )

    def _estimate(self, value: float, draws: Floats, n: int) -> Estimate:
        draws = draws[np.isfinite(draws)]
        if self.count < 2 or not draws.size:
            return Estimate(value, None, None, n)
        low, high = np.quantile(draws, (0.025, 0.975))
        return Estimate(value, float(low), float(high), n)


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


def _binned(scores: Floats) -> NDArray[np.intp]:
    levels = np.unique(scores)
    if levels.size > _BINS:
        levels = np.unique(np.quantile(scores, np.linspace(0, 1, _BINS), method="lower"))
    return np.asarray(np.searchsorted(levels, scores, side="right") - 1, dtype=np.intp)


def _areas(good: Floats, bad: Floats) -> Floats:
    """AUROC of each row of histograms."""
    below = np.cumsum(good, axis=1) - good / 2
    return np.asarray((bad * below).sum(axis=1) / (bad.sum(axis=1) * good.sum(axis=1)), dtype=np.float64)


def _above(good: Floats, bad: Floats, rate: float) -> Floats:
    """The share of the bad in bins above which at most such a share of the good lies."""
    reached = np.cumsum(good[:, ::-1], axis=1)[:, ::-1] / good.sum(axis=1, keepdims=True)  # good in this bin and above
    allowed = reached <= rate + 1e-9
    return np.asarray((bad * allowed).sum(axis=1) / bad.sum(axis=1), dtype=np.float64)
