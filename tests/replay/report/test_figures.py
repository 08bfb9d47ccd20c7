"""Figures in words."""

import pytest

from verifierd.replay.report.figures import Figure, figure, number, percent, points


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.5, "50 %"),
        (0.123, "12.3 %"),
        (0.0004, "0.04 %"),
        (0.0000123, "0.0012 %"),
        (0.9999, "99.99 %"),
        (0.99987, "99.987 %"),
        (1 / 3, "33.3 %"),
        (1 - 1e-15, "100 %"),
    ],
)
def test_rounding_never_makes_a_rate_perfect(share: float, text: str) -> None:
    """Only what is exactly nothing, or all, reads so."""
    assert percent(share) == text


def test_differences_have_a_sign() -> None:
    """A difference says which way it goes, and a rounded one is not nothing."""
    assert [points(0.1), points(-0.0123), points(0.0), points(-0.0001)] == [
        "+10 points",
        "\N{MINUS SIGN}1.2 points",
        "0 points",
        "\N{MINUS SIGN}0.01 points",
    ]


def test_numbers_keep_three_digits() -> None:
    """Large ones keep all before the point."""
    assert [number(3.0), number(0.12345), number(12_345.6)] == ["3", "0.123", "12,346"]


def test_a_figure_says_its_interval_and_count() -> None:
    """As an estimate has them; the unit is said once."""
    assert str(figure({"value": 0.25, "low": 0.1, "high": 0.4, "n": 1200})) == "25 % (10 to 40 %; N 1,200)"
    assert str(figure({"value": 0.5, "low": 0.25, "high": 0.75, "n": 9}, "rank")) == "0.500 (0.250 to 0.750; N 9)"


def test_nothing_measured_is_no_number() -> None:
    """Where there was nothing to measure, or no estimate at all, a dash stands."""
    assert str(figure({"value": None, "low": None, "high": None, "n": 0})) == "-"
    assert not figure(None).known


def test_an_interval_without_width_is_none() -> None:
    """Where no draw differed from another the bootstrap would claim certainty, so nothing is said."""
    assert Figure(value=0.0, low=0.0, high=0.0, n=3).interval == ""
