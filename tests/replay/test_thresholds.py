"""The report of a calibration: what was learnt, whether it keeps its promise, and what was left out."""

import random
import re
from typing import Any

import msgspec
import pytest

from verifierd.calibration import Scored, Trajectory, calibrate
from verifierd.policy import Calibrated, load
from verifierd.replay.calibrate import Learnt
from verifierd.replay.thresholds import report

HOSTILE = "</script><script>alert(1)</script>\x1b[2J\u202e<b>"


def learnt(count: int, *, tool: str = "Bash", **changes: Any) -> Learnt:
    """What so many trajectories teach, of which one step each is certain and the others surprise a model a little."""
    draw = random.Random(1)
    judged = tuple(
        Trajectory(
            f"t{number}",
            (
                Scored(tool, "terminal", 0.0, deterministic=True),
                *(Scored(tool, "terminal", round(draw.gauss(), 4)) for _ in range(6)),
                Scored(tool, "terminal", None),
            ),
        )
        for number in range(count)
    )
    found = calibrate(judged, alpha=0.1, step_alpha=0.05, seed=1)
    policy = load("default")
    made = Calibrated(
        date="2026-01-02", predictor="shell,mlx", model="m", policy=policy.id, measure=policy.measure, learnt=found
    )
    values: dict[str, Any] = {
        "policy": msgspec.structs.replace(
            policy, name="mine", calibration=msgspec.structs.replace(made, hash=made.digest)
        ),
        "trajectories": count + 9,
        "labelled": 2,
        "contradicted": 3,
        "fitting": 4,
        "unscored": 0,
        "clean": 0,
        "faulty": 0,
        "judged": judged,
        "missing": found.missing,
    }
    return Learnt(**{**values, **changes})


def text(page: str) -> str:
    """What a reader sees of it, in one line."""
    body = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", body))


@pytest.fixture(name="enough", scope="module")
def _enough() -> Learnt:
    return learnt(60)


def test_it_says_all(enough: Learnt) -> None:
    """Nominal against realised rates with intervals, scores by bucket, and where each trajectory went."""
    page = text(report(enough, warning="", command="verifierd calibrate x", date="2026-01-02"))

    for words in (
        "What mine was calibrated on",
        "Learnt from 60 clean trajectories that have a score, of 60 groups",
        "Steps with a score 420 of 480",
        "where at most 10 % may",
        "predictors shell,mlx model m evidence above which it alarms 0.",
        "labelled off path left out: somebody says that a step is not clean 2",
        "contradicted left out: something certain was contradicted, so they are not clean 3",
        "for the reference how odd clean steps are 30",
        "Bash terminal certain 30 0 0 0",
        "Bash terminal a model&#39;s surprise 180",
        "A model&#39;s surprise at clean steps: the share of each tool&#39;s scores in each range",
        "2026-01-02 Command verifierd calibrate x",
    ):
        assert words in page
    assert re.search(r"trajectories that alarm 10 % [\d.]+ % [\d.]+ to [\d.]+ % N 60", page)
    assert re.search(r"steps that are off path 5 % [\d.]+ % [\d.]+ to [\d.]+ % N 420", page)


def test_every_score_is_in_the_histogram(enough: Learnt) -> None:
    """The largest and the smallest, too."""
    page = report(enough, warning="", command="", date="")
    table = page[page.index("<caption>The same in numbers") :].partition("</table>")[0]

    assert sum(map(int, re.findall(r'<td class="number">(\d+)</td>', table))) == 180


def test_too_few_are_told() -> None:
    """What is missing stands at the top, and nothing is drawn of what was not measured."""
    page = text(report(learnt(3), warning="INCONCLUSIVE: no alarm level.", command="", date=""))

    assert "INCONCLUSIVE: no alarm level." in page
    assert "evidence above which it alarms none" in page
    assert "few" in page
    assert "There were too few trajectories, or scores, to try it." in page


def test_hostile_names_do_nothing() -> None:
    """Tools are named by logs."""
    page = report(learnt(30, tool=HOSTILE), warning="", command=HOSTILE, date="")
    before = page[: page.index("plotly.js v")]

    assert page.count("<script>") == 2
    assert not any(mark in before for mark in ("\x1b", "\u202e", "<b>"))
