"""Verdicts added up."""

from typing import Any

import msgspec
import pytest

from verifierd.replay.summary import Summary
from verifierd.types import ObservationKind, Origin, Seconds, Tokens, Verdict, VerdictKind

pytestmark = pytest.mark.anyio


def verdict(step: int, **changes: Any) -> Verdict:
    """A verdict."""
    values: dict[str, Any] = {
        "verdict_id": str(step),
        "step_id": str(step),
        "trajectory": "t",
        "step": step,
        "tool": "bash",
        "domain": "terminal",
        "verdict": VerdictKind.ON_PATH,
        "reason": "as_predicted",
        "coverage": 1.0,
        "status_checked": True,
        "predictor": "shell",
        "policy": "p",
        "origin": Origin(path="a", offset=0),
        "time": "",
        "seconds": Seconds(predict=0.0, total=step / 1000),
        "tokens": Tokens(prompt=2, cached=1),
    }
    return Verdict(**{**values, **changes})


async def test_counts_and_coverage() -> None:
    """Coverage is taken over `env` steps; the other kinds are counted and nothing else."""
    summary = Summary()
    await summary.emit([verdict(1), verdict(2, verdict=VerdictKind.OFF_PATH, coverage=0.5)])
    await summary.emit(
        [
            verdict(3, verdict=VerdictKind.ABSTAIN, reason="unpredictable", coverage=0.0, status_checked=False),
            verdict(
                4,
                verdict=VerdictKind.ABSTAIN,
                reason="not_env",
                coverage=0.0,
                observation_kind=ObservationKind.POLL,
                trajectory="u",
            ),
        ]
    )
    document = summary.document(wall=2.0)
    assert (document["trajectories"], document["steps"], summary.steps) == (2, 4, 4)
    assert document["by_kind"] == {"env": 3, "poll": 1}
    assert document["verdicts"] == {"on_path": 1, "off_path": 1, "abstain": 2}
    assert document["coverage"] == {
        "steps_above_zero": 2,
        "mean": 0.5,
        "by_tool": {"bash": {"steps": 3, "above_zero": 2, "mean": 0.5, "status_checked": 2}},
    }
    assert document["reasons"] == {"unpredictable": 1, "not_env": 1}
    assert document["by_tool"] == {"bash": {"steps": 4, "on_path": 1, "off_path": 1, "abstain": 2}}
    assert document["tokens"] == {"prompt": 8, "cached": 4, "scored": 0, "generated": 0, "computed": 0, "new": 0}
    assert document["seconds"]["wall"] == 2.0


async def test_percentiles_are_those_of_the_steps() -> None:
    """Of a hundred steps of 1 to 100 ms the percentiles are those."""
    summary = Summary()
    await summary.emit([verdict(n) for n in range(1, 101)])
    seconds = summary.document(wall=1.0)["seconds"]
    assert (seconds["p50"], seconds["p95"], seconds["p99"]) == (0.051, 0.096, 0.1)


async def test_nothing_judged_is_a_document_of_zeros() -> None:
    """Without a step every key is there, and it can be written as JSON."""
    document = Summary().document(wall=0.0)
    assert document["coverage"] == {"steps_above_zero": 0, "mean": 0.0, "by_tool": {}}
    assert document["seconds"] == {"wall": 0.0, "p50": 0.0, "p95": 0.0, "p99": 0.0}
    assert document["tokens"] == dict.fromkeys(("prompt", "cached", "scored", "generated", "computed", "new"), 0)
    assert (document["model"], document["asked"]) == (None, 0)
    msgspec.json.encode(document)


async def test_the_model_is_named_with_what_it_cost() -> None:
    """Steps that no model was asked about count neither tokens nor a model."""
    summary = Summary()
    asked = Tokens(prompt=90, cached=80, scored=7, computed=16, new=16)
    await summary.emit([verdict(1, tokens=Tokens()), *(verdict(n, model="m@1", tokens=asked) for n in (2, 3))])
    document = summary.document(wall=1.0)
    assert (document["model"], document["asked"]) == ("m@1", 2)
    assert document["tokens"] == {"prompt": 180, "cached": 160, "scored": 14, "generated": 0, "computed": 32, "new": 32}


async def test_memory_is_bounded() -> None:
    """A daemon's summary keeps a sample of the times, and as many tools and models as there can reasonably be."""
    summary = Summary()
    step = verdict(1)
    for n in range(200):
        await summary.emit([msgspec.structs.replace(step, seconds=Seconds(total=0.001 * (n % 100 + 1)))] * 1000)
    await summary.emit([msgspec.structs.replace(step, tool=f"tool-{n}") for n in range(3000)])
    document = summary.document(wall=1.0)
    assert document["steps"] == 203_000
    assert len(summary._seconds) <= 100_000
    assert len(document["by_tool"]) <= 1001
    await summary.emit([msgspec.structs.replace(step, model=f"model-{n}") for n in range(300)])
    assert summary.document(wall=1.0)["model"].count(", ") < 100
    assert document["by_tool"]["other"]["steps"] > 1900
    assert document["seconds"]["p50"] == pytest.approx(0.05, rel=0.1)
