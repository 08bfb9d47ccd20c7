"""Verdicts as events of the log."""

import msgspec
import pytest
from structlog.testing import capture_logs

from verifierd.sinks.events import Events
from verifierd.types import Alarm, Origin, Signal, Verdict, VerdictKind


def verdict(kind: VerdictKind) -> Verdict:
    return Verdict(
        verdict_id="v1",
        step_id="s1",
        trajectory="t",
        step=3,
        tool="bash",
        domain="terminal",
        verdict=kind,
        reason="contradiction",
        signals=(Signal(name="contradiction", value=1.0, detail="expected a"),),
        alarm=Alarm(statistic=1, threshold=0, raised=True),
        action="cat " + "x" * 500,
        observed="the whole observation",
        predictor="shell",
        policy="default",
        origin=Origin(path="a.jsonl", offset=7),
        time="2026-01-01T00:00:00Z",
    )


@pytest.mark.anyio
async def test_off_path_is_one_event_each() -> None:
    """An off-path step is told at once, with where and why, without its observation."""
    events = Events(clock=lambda: 0.0)
    with capture_logs() as logs:
        await events.emit([verdict(VerdictKind.OFF_PATH)])

    (event,) = logs
    assert event["event"] == "step_off_path"
    assert event["log_level"] == "warning"
    assert (event["trajectory"], event["step"], event["verdict_id"]) == ("t", 3, "v1")
    assert (event["path"], event["offset"]) == ("a.jsonl", 7)
    assert event["detail"] == "expected a"
    assert event["alarm"] is True
    assert len(event["action"]) == 200
    assert "the whole observation" not in str(event)


@pytest.mark.anyio
async def test_an_alarm_is_one_event() -> None:
    """At the step at which it is new an alarm is told with its evidence and where to look, whatever the verdict."""
    events = Events(clock=lambda: 0.0)
    new = Alarm(statistic=31.0, threshold=20.0, raised=True, new=True, first_bad=2)
    undecided = msgspec.structs.replace(verdict(VerdictKind.ABSTAIN), alarm=new)
    later = msgspec.structs.replace(undecided, alarm=msgspec.structs.replace(new, new=False))
    with capture_logs() as logs:
        await events.emit([undecided, later])

    (event,) = logs
    assert (event["event"], event["log_level"]) == ("alarm_raised", "warning")
    assert (event["trajectory"], event["step"], event["first_bad"]) == ("t", 3, 2)
    assert (event["statistic"], event["threshold"], event["verdict_id"]) == (31.0, 20.0, "v1")


@pytest.mark.anyio
async def test_the_rest_is_counted() -> None:
    """Other steps are summed up once in a while, and what is left is told at the end."""
    now = 0.0
    events = Events(every=60, clock=lambda: now)
    with capture_logs() as logs:
        await events.emit([verdict(VerdictKind.ON_PATH)] * 5)
        now = 59.0
        await events.emit([verdict(VerdictKind.ABSTAIN)])
        early = list(logs)
        now = 60.0
        await events.emit([verdict(VerdictKind.ON_PATH)])
        await events.emit([verdict(VerdictKind.ABSTAIN)])
        await events.aclose()
        await events.aclose()

    assert early == []
    assert [(e["event"], e["on_path"], e["off_path"], e["abstain"]) for e in logs] == [
        ("steps_verified", 6, 0, 1),
        ("steps_verified", 0, 0, 1),
    ]
