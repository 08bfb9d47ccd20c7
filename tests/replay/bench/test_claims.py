"""Whether published figures hold."""

import pytest

from verifierd.replay.bench.claims import Claim, claim
from verifierd.replay.bench.figures import Figure
from verifierd.replay.statistics import Interval


@pytest.mark.parametrize(
    ("published", "figure", "wanted", "unit", "found"),
    [
        (1.0, None, "", "", "not measured"),
        (0.0, Interval(0.0, 0.0, 0.07, 48), "<= 0", "", "holds"),
        (0.0, Interval(0.06, 0.01, 0.17, 48), "<= 0", "", "does not hold"),
        (1.0, Interval(1.0, 0.66, 1.0, 9), ">= 1", "", "holds"),
        (1.0, Interval(1.0, 0.29, 1.0, 3), ">= 1", "", "too few"),
        (1.0, Interval(0.0, 0.0, 0.46, 6), ">= 1", "", "does not hold"),
        (0.73, Interval(0.8, 0.8, 0.8, 1), "", "", "too few"),
        (0.3, Interval(0.1, 0.05, 0.2, 90), "<= 0.5", "", "holds"),
        (0.3, Interval(0.1, 0.05, 0.2, 90), ">= 0", "", "does not hold"),
        (0.3, Interval(0.1, 0.05, 0.2, 90), "", "", "does not hold"),
        (0.5, Interval(0.4, 0.3, 0.45, 50), "", "s", "holds"),
        (0.5, Interval(0.6, 0.55, 0.7, 50), "", "s", "does not hold"),
        (0.5, Interval(0.5, 0.4, 0.6, 5), "", "s", "too few"),
        (50.0, Interval(60.0, 20.0, 90.0, 50), "", "tokens", "too few"),
        (100.0, 96.0, "", "t/s", "holds"),
        (100.0, 94.0, "", "t/s", "does not hold"),
        (100.0, 150.0, "", "tokens/s", "holds"),
        (100.0, 150.0, "", "", "does not hold"),
        (5.0, 3.0, "<= 6", "GB", "holds"),
    ],
)
def test_the_rule(published: float, figure: Figure | None, wanted: str, unit: str, found: Claim) -> None:
    """The interval decides, the better side holds, and few cases decide nothing."""
    assert claim(published, figure, wanted=wanted, unit=unit, comparable=True) == found


def test_unlike_is_not_compared() -> None:
    """Whatever the figures are."""
    assert claim(1.0, Interval(1.0, 0.9, 1.0, 50), comparable=False) == "not comparable"
