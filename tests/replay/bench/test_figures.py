"""Figures, intervals and conditions."""

import math
import random

import pytest

from verifierd.errors import ConfigError
from verifierd.replay.bench.figures import Results, holds, median, paired, value
from verifierd.replay.statistics import Interval


def test_few_values_span_the_interval() -> None:
    """Below six values the interval is from the least to the largest."""
    assert median([3.0, 1.0, 2.0]) == Interval(2.0, 1.0, 3.0, 3)
    assert median([5.0]) == Interval(5.0, 5.0, 5.0, 1)


@pytest.mark.parametrize(("count", "skipped"), [(6, 0), (8, 0), (9, 1), (12, 2), (15, 3), (25, 7)])
def test_more_values_leave_out_the_outermost(count: int, skipped: int) -> None:
    """As many as the binomial allows at 95 %: the tables of the sign test."""
    found = median([float(number) for number in range(count)])
    assert (found.low, found.high) == (skipped, count - 1 - skipped)


def test_the_interval_covers_the_median() -> None:
    """Drawn from a skewed distribution, 95 % of the intervals or more hold its median."""
    draw = random.Random(1)
    covered = 0
    for _ in range(1000):
        found = median([draw.expovariate(1.0) for _ in range(15)])
        covered += found.low <= math.log(2) <= found.high
    assert covered >= 950


def test_pairs_take_turns() -> None:
    """Both run equally often, the warm-up is not counted, and the order changes."""
    order: list[str] = []
    one, other = paired(lambda: order.append("a"), lambda: order.append("b"), 3, warm=1)
    assert len(one) == len(other) == 3
    assert sorted(order) == ["a"] * 4 + ["b"] * 4
    assert {"".join(order[place : place + 2]) for place in range(0, 8, 2)} == {"ab", "ba"}
    assert all(taken >= 0 for taken in (*one, *other))


def test_conditions_are_compared_with_the_value() -> None:
    """Of an interval the value counts."""
    results: Results = {"ratio": Interval(4.0, 3.0, 5.0, 7), "count": 12}
    assert value(results["ratio"]) == 4.0
    assert holds("ratio >= 4", results)
    assert not holds("ratio<4", results)
    assert holds("count>11.5", results)
    assert holds("count <= 1.2e1", results)


@pytest.mark.parametrize("condition", ["ratio", "other<1", "ratio=1", "ratio<1.2.3", ""])
def test_a_wrong_condition_is_told(condition: str) -> None:
    """What cannot be compared is an error that names the figures."""
    with pytest.raises(ConfigError):
        holds(condition, {"ratio": 1.0})
