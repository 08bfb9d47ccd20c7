"""The report of a replay: what it holds of the verdicts, and what it says."""

import re
from typing import Any

import anyio
import msgspec

from verifierd.policy import Policy, load
from verifierd.replay.findings import MOST, Findings, Read, report
from verifierd.replay.summary import Summary
from verifierd.types import Alarm, ObservationKind, Origin, Seconds, Signal, Verdict, VerdictKind

HOSTILE = "</script><script>alert(1)</script>\x1b[2J\u202e\ud800<b>"
KEY = "AKIA" + "Q3EGZ7XW2M5TLKJD"


def verdict(step: int, kind: str = "off_path", reason: str = "contradiction", **changes: Any) -> Verdict:
    """A verdict."""
    values: dict[str, Any] = {
        "verdict_id": f"{step:032x}",
        "step_id": f"{step:032x}",
        "trajectory": "t",
        "step": step,
        "tool": "bash",
        "domain": "terminal",
        "verdict": VerdictKind(kind),
        "reason": reason,
        "coverage": 1.0,
        "action": "wc -l notes.txt",
        "predicted": "2 notes.txt",
        "observed": "9 notes.txt",
        "signals": (Signal(name="contradiction", value=1.0, span=(0, 1), detail="expected “2”, observed “9”"),),
        "predictor": "shell",
        "policy": "p",
        "origin": Origin(path="log.jsonl", offset=7),
        "time": "",
        "seconds": Seconds(total=0.25),
    }
    return Verdict(**{**values, **changes})


def alarm(statistic: float = 1.0) -> Alarm:
    """An alarm that is raised at this very step."""
    return Alarm(statistic=statistic, threshold=0.0, raised=True, new=True, first_bad=2)


def found(*verdicts: Verdict) -> Findings:
    """What is held of them."""
    findings = Findings()
    anyio.run(findings.emit, verdicts)
    return findings


def made(*verdicts: Verdict, policy: Policy | None = None, read: Read | None = None) -> str:
    """The page of these verdicts."""
    summary = Summary()
    anyio.run(summary.emit, verdicts)
    return report(
        summary.document(wall=2.0),
        found(*verdicts),
        read or Read(named=1, files=1, lost={}),
        policy=policy or load("default"),
        predictor="shell,contracts",
        command="verifierd replay x",
        date="2026-01-02",
    )


def text(page: str) -> str:
    """What a reader sees of it, in one line."""
    body = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", body))


def test_it_says_all() -> None:
    """What was judged, by whom, verdicts and reasons, coverage by tool, times, alarms, and the step side by side."""
    page = made(
        verdict(3, alarm=alarm()),
        verdict(4, "on_path", "as_predicted", signals=()),
        verdict(5, "abstain", "not_env", coverage=0.0, tool="poll", observation_kind=ObservationKind.POLL, signals=()),
    )

    for words in (
        "verifierd judged 3 steps of 1 trajectory.",
        "Steps 3 of 1 trajectory; 1 is no answer of the environment, and not judged",
        "Off path 1 33.3 % of steps; reality departed",
        "Alarms 1 trajectories that alarmed",
        "predictors shell,contracts model none policy default@",
        "t in log.jsonl 3 2 1, above 0 00000000000000000000000000000003",
        "1. Alarm: contradiction",
        "from log.jsonl, at byte 7",
        "Action wc -l notes.txt Predicted 2 notes.txt Observed 9 notes.txt Reasons something that follows",
        "contradiction (certain, and contradicted): expected “2”, observed “9”",
        "abstained: not env the observation is not the environment&#39;s answer 1 33.3 %",
        "poll a look at a command that runs 1",
        "bash 2 1 1 0 100 % N 2 100 % 0 %",
        "poll 1 0 0 1 - - -",
        "half of the steps took at most 250 ms 95 % 250 ms 99 % 250 ms the whole replay 2.0 s",
        "No model was asked: no tokens.",
        "2026-01-02 Command verifierd replay x",
    ):
        assert words in text(page)
    assert re.findall(r"<mark[^>]*>([^<]*)</mark>", page) == ["9"]
    assert not any(words in text(page) for words in ("could not be read", "left out", "no interval", "redacted"))


def test_what_is_held_is_bounded_and_the_worst() -> None:
    """Alarms, then what is certain, then what is least likely; the order of arrival decides nothing."""
    certain = [verdict(number) for number in range(1, MOST)]
    odd = [verdict(100 + number, reason="surprise", p_value=number / 1000) for number in range(3)]
    alarmed = verdict(200, alarm=alarm(), observed="x" * 100_000, predicted=None)
    every = [*odd, alarmed, *certain]
    forwards, backwards = found(*every), found(*reversed(every))

    assert [one.step for one in forwards.worst] == [200, *range(1, MOST)]
    assert forwards.worst == backwards.worst
    assert max(len(one.observed) for one in forwards.worst) < 3000
    assert [one.step for one in found(*odd, *certain[:1]).worst] == [1, 100, 101, 102]
    assert f"The {MOST} most serious; 3 are left out" in text(made(*every))


def test_the_strongest_alarms_are_listed() -> None:
    """Of very many the rest is counted; none of their texts is held."""
    findings = found(*(verdict(n, trajectory=f"t{n}", alarm=alarm(n)) for n in range(1, 111)))

    assert [one.step for one in findings.alarms[:3]] == [110, 109, 108]
    assert (findings.alarmed, len(findings.alarms)) == (110, 100)
    assert not any(one.observed or one.action for one in findings.alarms)


def test_certainty_alarms_by_itself() -> None:
    """Where a calibrated level was not reached, it is not said to be."""
    certain = Alarm(statistic=0.5, threshold=20.0, raised=True, new=True, first_bad=1)

    assert "something certain was contradicted; the rest, 0.5, is not above 20" in text(made(verdict(1, alarm=certain)))


def test_silence_and_losses_are_told() -> None:
    """That all abstains is no pass, and what could not be read stands at the top."""
    silent = text(
        made(verdict(1, "abstain", "unpredictable"), read=Read(named=3, files=2, lost={"not_json": 2, "too_long": 1}))
    )

    assert (
        "1 file of 3 could not be read, nor judged. 3 lines could not be read, nor judged: not json 2, too long 1"
        in silent
    )
    assert "Nothing was decided: everything abstains. That nothing is off path is silence, and no pass." in silent
    assert "No trajectory alarmed." in silent
    assert "There is no step in what was read." in text(made())
    assert "could not be read" not in text(made(verdict(1), read=Read(named=3, files=2, lost={}, limit=1)))


def test_the_policy_is_respected() -> None:
    """One that quotes nothing or never alarms is not made to; what it does without calibration is told."""
    policy = msgspec.structs.replace(load("default"), quotes="off", alarms=False)
    page = text(made(verdict(1, action="", observed="", predicted=None, signals=()), policy=policy))

    assert "Action not quoted, as the policy wants it Predicted not quoted, as the policy wants it" in page
    assert "nothing came" not in page
    assert "This policy only measures and never alarms." in page
    assert "not calibrated, so only what is certain" in page


def test_missing_text_has_its_place() -> None:
    """Where something that was certain is missing a mark stands, also where nothing came at all."""
    gone = Signal(name="contradiction", value=1.0, span=(0, 0))
    page = made(verdict(1, observed="", signals=(gone,)), verdict(2, observed="b", predicted="ab", signals=(gone,)))

    assert re.findall(r"(<mark[^>]*></mark>)(<i>nothing came</i>|b)", page) == [
        ('<mark class="decided " title="decided"></mark>', rest) for rest in ("<i>nothing came</i>", "b")
    ]


def test_hostile_texts_do_nothing() -> None:
    """Of names and texts of transcripts no tag, escape, lone surrogate or secret arrives as such."""
    bad = f"{HOSTILE} {KEY}"
    names = dict.fromkeys(
        ("trajectory", "tool", "reason", "predictor", "model", "action", "predicted", "observed"), bad
    )
    signal = Signal(name=bad, value=1.0, span=(3, 40), detail=bad)
    page = made(
        verdict(1, alarm=alarm(), signals=(signal,), origin=Origin(path=bad, offset=0), **names),
        read=Read(named=1, files=1, lost={bad: 1}),
    )
    before = page[: page.index("plotly.js v")]

    page.encode()
    assert page.count("<script>") == 2
    assert not any(mark in before for mark in ("\x1b", "\u202e", "\ud800", "<b>", KEY))
