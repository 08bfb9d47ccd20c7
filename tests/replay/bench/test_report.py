"""The HTML report of suites and of runs compared."""

import re
from html import unescape
from typing import Any

import pytest

from verifierd.replay.bench.asking import Outcome
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.compare import Compared, compared, named
from verifierd.replay.bench.figures import Results
from verifierd.replay.bench.report import of_runs, of_suites
from verifierd.replay.bench.suite import Known, Report, Suite, load, names
from verifierd.replay.statistics import Interval

_HALF = Interval(0.5, 0.3, 0.7, 20)


def _suite(**figures: Known) -> Suite:
    return Suite(name="small", description="As small as can be.", engine="roles", smoke={}, full={}, figures=figures)


def _report(results: Results, **more: Any) -> Report:
    usual: dict[str, Any] = {"suite": "small", "predictor": "mlx", "model": "m@1", "size": "full", "seed": 0}
    usual |= {"published": {}, "host": {"cpus": 2}, "warning": ""}
    return Report(**usual | {"results": results} | more)


def _page(suite: Suite, report: Report) -> str:
    return of_suites([(suite, report)], command="verifierd bench small", date="2026-01-01")


def _text(html: str) -> str:
    """What is read, scripts and tags aside."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(script|style).*?</\1>", "", html))).split())


def test_claims_stand_beside_measurements() -> None:
    """With their source, the verdict and its rule."""
    known = Known(says="all of them", published=1.0, source="the brief", wanted=">= 1")
    report = _report({"exact": _HALF}, published={"exact": 1.0, "gone": 2.0}, claims={"exact": "does not hold"})
    text = _text(_page(_suite(exact=known, gone=known), report))

    assert "small: exact all of them (the brief) 100 % 50 % 30 to 70 % N 20 does not hold" in text
    assert "The rule:" in text
    assert "small: gone all of them (the brief) 2 - not comparable" in text
    assert "verifierd bench small" in text


def test_each_kind_of_figure_has_its_picture() -> None:
    """Shares, times, ratios and what belongs to depth or size; bare numbers stand in the table alone."""
    results: Results = {
        "exact": _HALF,
        "answer_seconds_median": Interval(2.0, 1.0, 3.0, 20),
        "decode_over_verify": Interval(5.0, 4.0, 6.0, 9),
        "tokens_ratio": Interval(5.0, 4.0, 6.0, 9),
        "depth_1_5_exact": _HALF,
        "depth_6_10_exact": Interval(0.4, 0.2, 0.6, 20),
        "truncated_256": Interval(0.9, 0.8, 1.0, 20),
        "truncated_1024": _HALF,
        "divergence_step_1": _HALF,
        "divergence_step_2": _HALF,
        "alone_7": _HALF,
        "steps": 20,
    }
    html = _page(_suite(), _report(results))
    titles = re.findall(r"<figcaption>(.*?)</figcaption>", html)

    assert sorted(titles) == ["Ratios", "Shares", "Shares by depth", "Shares by size", "Shares by step", "Times"]
    assert "alone 7" in _text(html)
    assert all(name in _text(html) for name in results)


def test_wrong_answers_are_quoted() -> None:
    """A few of each kind, as text; what is right or unknown is left out."""
    rows = [
        Row(case="right", outcome=Outcome.ANSWERED, exact=True),
        Row(case="unknown", outcome=Outcome.ABSTAINED),
        *(Row(case=f"wrong-{n}", outcome=Outcome.ANSWERED, exact=False, said="<b>no</b>\n") for n in range(9)),
        Row(case="broken", outcome=Outcome.ROLE_BREAK, detail="an action", said="a" * 5000),
    ]
    html = _page(_suite(), _report({"exact": _HALF}, rows=rows))
    text = _text(html)

    assert "<b>no</b>" not in html
    assert "<b>no</b>" in text
    assert "wrong-2" in text
    assert "wrong-3" not in text
    assert "broken pass 1 role break an action" in text
    assert "a" * 300 not in text
    assert "right pass" not in text
    assert "unknown pass" not in text


def test_warnings_stand_out() -> None:
    """Before any figure."""
    html = _page(_suite(), _report({"exact": _HALF}, warning="scaled down"))
    assert 'class="warning" role="note">scaled down' in html


def test_runs_are_compared() -> None:
    """Who was asked, both on the same cases, and their differences with p-values."""
    one = [Row(case=f"{n}", group=f"{n}", outcome=Outcome.ANSWERED, exact=n < 3, seconds=1.0) for n in range(12)]
    other = [Row(case=f"{n}", group=f"{n}", outcome=Outcome.ANSWERED, exact=True, seconds=2.0 + n) for n in range(12)]
    document = Compared(
        suite="roles",
        size="full",
        runs=named([("one.jsonl", "mlx", "m@1", one), ("other.jsonl", "mlx", "m@2", other)]),
        results=compared([one, other]),
    )
    html = of_runs(document, command="verifierd bench --compare", date="2026-01-01")
    text = _text(html)

    assert "b mlx m@2 12 other.jsonl" in text
    assert "exact: b minus a +75 points" in text
    assert "0.0039" in text
    assert "seconds: b minus a 6.5" in text
    assert re.findall(r"<figcaption>(.*?)</figcaption>", html) == [
        "Shares, by run",
        "Times, by run",
        "Differences of shares",
    ]


@pytest.mark.parametrize("name", names())
def test_every_suite_can_be_reported(name: str) -> None:
    """Whatever figures its document knows, measured or not."""
    suite = load(name)
    results: Results = dict.fromkeys(suite.figures, _HALF)
    published = {name: known.published for name, known in suite.figures.items() if known.published is not None}
    assert suite.description.split()[0] in _page(suite, _report(results, suite=name, published=published))
    assert _page(suite, _report({}, suite=name, published=published))
