"""Runs against each other, with sums done by hand."""

from typing import Any

import msgspec
import pytest

from verifierd.errors import ConfigError
from verifierd.replay.bench.asking import Outcome
from verifierd.replay.bench.book import About, Row
from verifierd.replay.bench.compare import alike, compared, named
from verifierd.replay.statistics import Interval


def _row(
    case: int, *, run: int = 0, exact: bool | None = None, outcome: Outcome = Outcome.ANSWERED, **more: Any
) -> Row:
    return Row(case=f"case-{case}", run=run, group=f"group-{case}", outcome=outcome, exact=exact, **more)


def test_pairs_are_of_the_same_case_and_pass() -> None:
    """In whatever order they stand; what one has not is counted, and left out."""
    one = [_row(1, exact=True), _row(1, run=1, exact=True), _row(2, exact=False)]
    other = [_row(2, exact=True), _row(1, exact=True), _row(3, exact=True)]
    found = compared([one, other])

    assert (found["pairs"], found["unpaired"]) == (2, 2)
    assert isinstance(found["a_exact"], Interval)
    assert (found["a_exact"].value, found["a_exact"].n) == (0.5, 2)
    difference = found["b_minus_a_exact"]
    assert isinstance(difference, Interval)
    assert (difference.value, difference.n) == (0.5, 2)


def test_mcnemar() -> None:
    """One that a alone gets right, five that b alone does: twice the chance of at most one head of six."""
    one = [_row(case, exact=case in (0, 6, 7)) for case in range(10)]
    other = [_row(case, exact=case in (1, 2, 3, 4, 5, 6, 7)) for case in range(10)]
    found = compared([one, other])

    assert found["b_minus_a_exact_mcnemar"] == pytest.approx(2 * 7 / 64)
    difference = found["b_minus_a_exact"]
    assert isinstance(difference, Interval)
    assert difference.value == pytest.approx(0.4)
    assert difference.low < 0.4 < difference.high


def test_each_two_of_several() -> None:
    """The later minus the earlier, each pair once."""
    runs = [[_row(case, exact=case < right) for case in range(12)] for right in (2, 6, 12)]
    found = compared(runs)

    differences = {name: figure for name, figure in found.items() if name.endswith("_exact") and "minus" in name}
    assert {name: round(12 * figure.value) for name, figure in differences.items() if isinstance(figure, Interval)} == {
        "b_minus_a_exact": 4,
        "c_minus_a_exact": 10,
        "c_minus_b_exact": 6,
    }


def test_costs_are_compared_where_both_are_known() -> None:
    """Means of differences; what never differs has no interval."""
    one = [_row(case, seconds=1.0, generated_tokens=10 + case) for case in range(12)] + [_row(12)]
    other = [_row(case, seconds=3.0 + case % 2, generated_tokens=11 + case) for case in range(12)] + [
        _row(12, seconds=1)
    ]
    found = compared([one, other])

    seconds = found["b_minus_a_seconds"]
    assert isinstance(seconds, Interval)
    assert (seconds.value, seconds.n) == (2.5, 12)
    assert 2 <= seconds.low < 2.5 < seconds.high <= 3
    assert found["b_minus_a_generated_tokens"] == 1.0
    assert "b_minus_a_first_token_seconds" not in found


def test_what_nobody_was_asked_is_left_out() -> None:
    """An abstention is not right where the other answered; a judge's row says nothing of the answer."""
    one = [_row(1, outcome=Outcome.ABSTAINED), _row(2, outcome=Outcome.ROLE_BREAK, exact=False)]
    other = [_row(1, exact=True), _row(2, exact=True)]
    judged = Row(case="judge:1", outcome=Outcome.ANSWERED, scores={"total_score": 3.0})
    found = compared([[*one, judged], [*other, msgspec.structs.replace(judged, scores={"total_score": 4.5})]])

    assert found["pairs"] == 3
    exact, breaks, score = (found[f"b_minus_a_{name}"] for name in ("exact", "role_breaks", "score_total_score"))
    assert isinstance(exact, Interval)
    assert (exact.value, exact.n) == (1.0, 2)
    assert isinstance(breaks, Interval)
    assert (breaks.value, breaks.n) == (-0.5, 2)
    assert score == 1.5
    assert not any("normalised" in name for name in found)


def test_nothing_in_common_is_an_error() -> None:
    """Rather than figures of nothing."""
    with pytest.raises(ConfigError, match="no case in common"):
        compared([[_row(1)], [_row(2)]])


def _about(**more: Any) -> About:
    usual: dict[str, Any] = {"suite": "roles", "size": "full", "predictor": "mlx", "model": "m@1", "policy": "p"}
    usual |= {"prompts": "p", "sampling": "greedy", "seed": 0, "runs": 0, "parameters": {}, "verifierd": "1"}
    return About(**usual | {"date": "d", "host": {}} | more)


def test_only_runs_of_the_same_cases_are_compared() -> None:
    """The model, and how it is asked, may differ."""
    alike([("one", _about()), ("other", _about(model="m@2", sampling="card", policy="q", prompts="r", verifierd="2"))])
    for unlike in ({"suite": "random"}, {"seed": 1}, {"parameters": {"a": 1}}, {"size": "smoke"}, {"data": "d"}):
        with pytest.raises(ConfigError, match=f"other: .* one; it differs in {next(iter(unlike))}"):
            alike([("one", _about()), ("other", _about(**unlike))])
    with pytest.raises(ConfigError, match="1 runs"):
        alike([("one", _about())])


def test_runs_have_letters() -> None:
    """In the order they are named in."""
    runs = named([("x", "mlx", "m", [_row(1)]), ("y", "shell", None, [])])
    assert [(run.run, run.file, run.rows) for run in runs] == [("a", "x", 1), ("b", "y", 0)]
