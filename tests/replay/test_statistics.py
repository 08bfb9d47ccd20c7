"""Rates, ranks and their intervals, against plain loops over small data."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from verifierd.calibration import rate
from verifierd.replay.statistics import (
    NOTHING,
    Bools,
    Estimate,
    Floats,
    Groups,
    auroc,
    detected,
    mcnemar,
    precision_at,
    roc,
)

NAMES = ["a"] * 6 + ["b"] * 3 + ["c"] * 4 + ["d"] * 2 + ["e"] * 5
DRAW = random.Random(7)
HITS = np.array([DRAW.random() < 0.4 for _ in NAMES])
OTHER = np.array([DRAW.random() < 0.6 for _ in NAMES])
WHERE = np.array([DRAW.random() < 0.8 for _ in NAMES])
BAD = np.array([DRAW.random() < 0.5 for _ in NAMES])
SCORES = np.array([DRAW.choice([0.0, 0.3, 0.3, DRAW.random()]) for _ in NAMES])


def bools(*values: int) -> Bools:
    """Ones and zeros."""
    return np.array(values, dtype=np.bool_)


def resampled(names: Sequence[str], seed: int = 0) -> list[list[int]]:
    """The cases of each draw, a case as often as its group was drawn."""
    groups = sorted(set(names))
    draws = np.random.default_rng(seed).multinomial(len(groups), [1 / len(groups)] * len(groups), size=1000)
    cases = {group: [place for place, name in enumerate(names) if name == group] for group in groups}
    return [
        [case for group, times in zip(groups, draw, strict=True) for _ in range(times) for case in cases[group]]
        for draw in draws
    ]


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """The percentiles of those that could be measured."""
    kept = sorted(value for value in values if not math.isnan(value))
    low, high = np.quantile(kept, (0.025, 0.975))
    return float(low), float(high)


def mean(values: Sequence[float]) -> float:
    """NaN of nothing."""
    return sum(values) / len(values) if values else math.nan


def test_a_share_is_resampled_by_group() -> None:
    """Value, interval and count are those of a loop over draws of whole groups."""
    found = Groups(NAMES).share(HITS, WHERE)

    draws = [mean([float(HITS[case]) for case in draw if WHERE[case]]) for draw in resampled(NAMES)]
    assert (found.value, found.n) == (mean(HITS[WHERE].tolist()), int(WHERE.sum()))
    assert (found.low, found.high) == pytest.approx(bounds(draws))


def test_a_mean_of_shares_weighs_kinds_alike() -> None:
    """A kind with many cases counts as one with few; a draw without any case of a kind does without it."""
    kinds = [(HITS, bools(*[name == "a" for name in NAMES])), (OTHER, bools(*[name in "bcd" for name in NAMES]))]
    found = Groups(NAMES).mean_of_shares(kinds)

    def of(cases: Sequence[int]) -> float:
        shares = [mean([float(hits[case]) for case in cases if where[case]]) for hits, where in kinds]
        return mean([share for share in shares if not math.isnan(share)])

    assert found.value == pytest.approx(of(range(len(NAMES))))
    assert (found.low, found.high) == pytest.approx(bounds([of(draw) for draw in resampled(NAMES)]))
    assert found.n == 15


def test_a_difference_is_paired() -> None:
    """Both shares are of the same draw."""
    found = Groups(NAMES, seed=3).difference(HITS, OTHER, WHERE)

    draws = [
        mean([float(HITS[case]) - float(OTHER[case]) for case in draw if WHERE[case]]) for draw in resampled(NAMES, 3)
    ]
    assert found.value == pytest.approx(mean((HITS[WHERE] * 1.0 - OTHER[WHERE]).tolist()))
    assert (found.low, found.high) == pytest.approx(bounds(draws))


def test_ranks_are_resampled_by_group() -> None:
    """AUROC and detection rates of each draw are those of the plain functions."""
    found = Groups(NAMES).ranked(SCORES, BAD, where=WHERE)

    measures = (auroc, lambda scores, bad: detected(scores, bad, 0.01), lambda scores, bad: detected(scores, bad, 0.05))
    for estimate, measure in zip(found, measures, strict=True):

        def of(cases: Sequence[int], measure: object = measure) -> float:
            kept = [case for case in cases if WHERE[case]]
            scores, bad = SCORES[kept], BAD[kept]
            return math.nan if bad.all() or not bad.any() else float(measure(scores, bad))  # type: ignore[operator]

        low, high = bounds([of(draw) for draw in resampled(NAMES)])
        assert estimate.value == pytest.approx(of(range(len(NAMES))))
        assert (estimate.low, estimate.high) == ((None, None) if low == high else pytest.approx((low, high)))
        assert estimate.n == int(WHERE.sum())


def test_bins_change_intervals_of_many_scores_little() -> None:
    """The figures are exact, and lie within their intervals, where scores are continuous."""
    draw = np.random.default_rng(5)
    bad = draw.random(20_000) < 0.9
    scores = draw.normal(size=bad.size) + 1.5 * bad
    names = [f"g{number % 50}" for number in range(bad.size)]

    area, one, five = Groups(names).ranked(scores, bad)

    for estimate, exact in (
        (area, auroc(scores, bad)),
        (one, detected(scores, bad, 0.01)),
        (five, detected(scores, bad, 0.05)),
    ):
        assert estimate.value == exact
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < exact < estimate.high
        assert estimate.high - estimate.low < 0.15


@pytest.mark.parametrize("total", [2, 17, 708, 90_000])
def test_all_alike_have_the_exact_interval(total: int) -> None:
    """Where no case or every case is a hit the interval is that of Clopper and Pearson; so is that of no difference."""
    groups = Groups([f"g{number % 2}" for number in range(total)])
    none, every = np.zeros(total, dtype=np.bool_), np.ones(total, dtype=np.bool_)

    least, most = rate(0, total), rate(total, total)
    assert_near(groups.share(none), Estimate(0.0, 0.0, least.high, total))
    assert_near(groups.share(every), Estimate(1.0, most.low, 1.0, total))
    assert_near(groups.mean_of_shares([(none, every)]), Estimate(0.0, 0.0, least.high, total))
    assert_near(groups.difference(every, every), Estimate(0.0, -least.high, least.high, total))


def assert_near(found: Estimate, wanted: Estimate) -> None:
    """Equal but for rounding."""
    assert (found.value, found.low, found.high) == pytest.approx((wanted.value, wanted.low, wanted.high))
    assert found.n == wanted.n


def test_one_group_has_no_interval() -> None:
    """Nobody knows how groups differ who saw but one; that others exist, without such cases, changes nothing."""
    names = ["a", "a", "a", "b"]
    first = bools(1, 1, 1, 0)
    groups = Groups(names)

    for hits in (bools(1, 0, 0, 0), bools(0, 0, 0, 0), bools(1, 1, 1, 0)):
        found = groups.share(hits, first)
        assert (found.low, found.high, found.n) == (None, None, 3)
    area, *_ = groups.ranked(np.array([0.1, 0.2, 0.3, 0.0]), bools(0, 1, 1, 0), where=first)
    assert (area.value, area.low) == (1.0, None)
    assert groups.difference(first, first, first) == Estimate(0.0, None, None, 3)


def test_what_never_varies_has_no_interval() -> None:
    """A ranking that is perfect in every draw is no proof that it always will be."""
    area, one, _ = Groups(["a", "a", "b", "b"]).ranked(np.array([0.0, 1.0, 0.0, 1.0]), bools(0, 1, 0, 1))

    assert area == one == Estimate(1.0, None, None, 4)


def test_nothing_gives_nothing() -> None:
    """No case, no figure: neither an error nor a zero."""
    empty, none = Groups([]), np.zeros(0, dtype=np.bool_)
    some, off = Groups(["a", "b"]), bools(0, 0)

    assert empty.share(none) == empty.mean_of_shares([]) == empty.difference(none, none) == NOTHING
    assert empty.ranked(np.zeros(0), none) == (NOTHING,) * 3
    assert some.share(bools(1, 1), off) == some.difference(off, off, off) == NOTHING
    assert some.ranked(np.zeros(2), off) == (NOTHING,) * 3
    assert some.of([some.sums(off), some.sums(off)], lambda one, two: one / two, bools(1, 1)) == NOTHING


def test_partial_hits_count_in_part() -> None:
    """Half a hit is half a case."""
    found = Groups(["a", "b"]).share(np.array([0.5, 0.25]))

    assert (found.value, found.low, found.high) == pytest.approx((0.375, 0.25, 0.5))


def test_auroc_counts_ties_half() -> None:
    """It is the share of pairs in which the fault scores higher."""
    pairs = [(SCORES[one], SCORES[two]) for one in np.flatnonzero(BAD) for two in np.flatnonzero(~BAD)]

    assert auroc(SCORES, BAD) == pytest.approx(mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs]))


def test_detection_keeps_to_the_rate() -> None:
    """Of 100 true observations at most five are above the level of 5 %, and ties at the level are not."""
    true = [float(number) for number in range(100)]
    scores = np.array([*true, 94.0, 94.5, 95.0])
    faulty = bools(*[0] * 100, 1, 1, 1)

    assert detected(scores, faulty, 0.05) == pytest.approx(2 / 3)
    assert detected(scores, faulty, 0.0) == 0.0


def test_the_curve_runs_from_corner_to_corner() -> None:
    """Rates of both sides at each level, rising; none where one side is missing."""
    curve = roc(np.array([0.1, 0.4, 0.4, 0.9]), bools(0, 1, 0, 1))

    assert curve == [(0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0)]
    assert roc(np.array([0.1]), bools(0)) == roc(np.array([0.1]), bools(1)) == []
    many = roc(np.linspace(0, 1, 5000), np.arange(5000) % 2 == 1, points=50)
    assert len(many) == 51
    assert many == sorted(many)


def test_mcnemar_sums_the_binomial() -> None:
    """The p-value is twice the smaller tail of a fair coin over the cases on which the two differ, at most 1."""

    def exact(first: int, second: int) -> float:
        n, least = first + second, min(first, second)
        tail: float = sum(math.comb(n, k) for k in range(least + 1)) / 2.0**n
        return min(1.0, 2 * tail)

    for first, second in ((0, 0), (1, 0), (5, 5), (8, 1), (3, 14), (0, 40)):
        one = bools(*[1] * first, *[0] * second, 1, 0)
        other = bools(*[0] * first, *[1] * second, 1, 0)
        assert mcnemar(one, other) == pytest.approx(exact(first, second))
    assert mcnemar(np.ones(20_000, dtype=np.bool_), np.zeros(20_000, dtype=np.bool_)) == 0.0


def test_precision_depends_on_how_rare_bad_steps_are() -> None:
    """At 1 % of bad steps a recall of one half and 1 % of false alarms make one right alarm in three."""
    found: Floats = precision_at(0.01, np.array([0.5, 0.5, 0.0]), np.array([0.01, 0.0, 0.5]))

    assert found.tolist() == pytest.approx([0.005 / (0.005 + 0.0099), 1.0, 0.0])
