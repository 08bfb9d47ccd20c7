"""Adding up what a judge said."""

import pytest

from tests.helpers import ran
from verifierd.replay.bench.asking import Outcome
from verifierd.replay.bench.awb.scores import Judged, answers, recalled, summary
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.figures import Results, value
from verifierd.replay.statistics import Interval
from verifierd.types import History


def judged(domain: str, group: str, total: float, *, failed: bool = False) -> Judged:
    """A row whose format was scored 5, and the rest somehow."""
    return Judged(
        domain=domain,
        group=f"{domain}/{group}",
        failed=failed,
        scores={"total_score": total, "format": 5.0, "quality": 0.0},
    )


def _values(found: Results) -> dict[str, float]:
    return {name: round(value(figure), 6) for name, figure in found.items()}


def test_the_official_sums() -> None:
    """Means of what is valid and above 0: over all rows, by domain, and over domains."""
    rows = [
        judged("web", "1", 4.0),
        judged("web", "1", 3.0),
        judged("web", "2", 2.6),
        judged("os", "3", 1.8),
        judged("os", "4", 5.0, failed=True),
        judged("os", "5", 0.0),
    ]
    found = summary(rows)
    assert _values(found) == {
        "score_micro": 46.25,  # (4 + 3 + 2.6 + 1.8) / 4 = 2.85
        "score_macro": 37.5,  # 3.2 and 1.8: 55 and 20
        "score_micro_all": round((13.4 / 6 - 1) / 4 * 100, 6),
        "score_web": 55.0,
        "format_web": 100.0,
        "score_os": 20.0,
        "format_os": 100.0,
        "judge_failed": round(1 / 6, 6),
        "judge_failed_web": 0.0,
        "judge_failed_os": round(1 / 3, 6),
    }
    micro = found["score_micro"]
    assert isinstance(micro, Interval)
    assert micro.low < 46.25 < micro.high
    assert micro.n == 4
    assert isinstance(found["judge_failed_web"], Interval)


def test_nothing_valid_gives_no_score() -> None:
    """Only the failures are counted."""
    assert _values(summary([judged("web", "1", 0.0, failed=True)])) == {"judge_failed": 1.0, "judge_failed_web": 1.0}
    assert summary([]) == {}


def test_words_are_recalled_by_class() -> None:
    """What the history shows, what nobody showed, and what only a run can tell."""
    history = History(("native", "t"))
    history.append(ran("echo pear > fruit.txt"))
    step = ran("cat fruit.txt; uname; date +%T", "pear\nLinux\n14:07:52", index=2)
    assert recalled("pear Minix 11:11:11", step, history) == {
        "words_deterministic": 1,
        "said_deterministic": 1,
        "words_pre_existing": 1,
        "words_runtime": 1,
    }


def test_answers_are_counted() -> None:
    """Outcomes as shares of all rows, agreement too; proportions have intervals, seconds a median and a 95th."""
    rows = [
        Row(
            case=f"web/{number}/1",
            group=f"web/{number}",
            outcome=Outcome.ANSWERED if number else Outcome.EMPTY,
            exact=number > 1,
            without_echo=number > 1,
            normalised=number > 0,
            scores={"words_deterministic": 2.0, "said_deterministic": float(number > 2)},
            seconds=float(number),
        )
        for number in range(4)
    ]
    found = answers(rows)
    assert (value(found["answered"]), value(found["empty"]), value(found["failed"])) == (0.75, 0.25, 0.0)
    assert (value(found["exact"]), value(found["exact_web"]), value(found["normalised"])) == (0.5, 0.5, 0.75)
    assert value(found["recalled_deterministic"]) == pytest.approx(1 / 8)
    assert value(found["seconds_median"]) == 2.0
    assert value(found["seconds_p95"]) == pytest.approx(2.9)
    shares = ("answered", "empty", "failed", "exact", "exact_web", "normalised", "recalled_deterministic")
    assert all(isinstance(found[name], Interval) for name in shares)
    assert "recalled_runtime" not in found
