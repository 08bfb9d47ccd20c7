"""The native format."""

import json
from typing import Any

import pytest

from verifierd.adapters.native import Native
from verifierd.types import ObservationKind, Origin, Record, Step, VerdictKind


def _read(lines: list[dict[str, Any]], *, end: bool = True) -> tuple[Native, list[Step]]:
    adapter = Native(path="f.jsonl")
    steps: list[Step] = []
    for number, line in enumerate(lines):
        data = json.dumps(line).encode()
        steps.extend(adapter.feed(Record(origin=Origin(path="f.jsonl", offset=number), end=number + 1, data=data)))
    if end:
        steps.extend(adapter.finish())
    return adapter, steps


def _line(**fields: Any) -> dict[str, Any]:
    return {"trajectory": "t", "action": "pwd", "observation": "/\n"} | fields


def test_a_line_is_a_step() -> None:
    """All fields reach the step; unknown ones are ignored."""
    line = _line(
        step=7, cwd="/", exit_code=0, timestamp="2026-01-01T00:00:00Z", label="off_path", label_kind="stale", x=1
    )
    adapter, [step] = _read([line])
    assert (step.trajectory, step.index, step.observation, step.exit_code) == ("t", 7, "/\n", 0)
    assert (step.action.tool, step.action.command, step.domain) == ("bash", "pwd", "terminal")
    assert (step.cwd, step.observed_at) == ("/", "2026-01-01T00:00:00Z")
    assert (step.label, step.label_kind) == (VerdictKind.OFF_PATH, "stale")
    assert (step.call_id, step.unique, step.siblings) == (None, False, ())
    assert (adapter.counts.calls, adapter.counts.paired) == (1, 1)


@pytest.mark.parametrize(
    ("fields", "tool", "command"),
    [
        ({"action": {"tool": "bash", "input": {"command": "ls"}}}, "bash", "ls"),
        ({"action": {"tool": "Shell", "input": "ls"}}, "Shell", "ls"),
        ({"action": {"tool": "sh", "input": {"script": "ls"}}}, "sh", None),
        ({"action": {"tool": "click", "input": {"x": 3}}}, "click", None),
        ({"action": "tap 3 4", "tool": "screen"}, "screen", None),
        ({"action": {"tool": "noop"}}, "noop", None),
    ],
)
def test_only_shells_have_a_command(fields: dict[str, Any], tool: str, command: str | None) -> None:
    """The command line is a text input, or the `command` of an object, of a tool that is a shell."""
    _, [step] = _read([_line(**fields)])
    assert (step.tool, step.action.command) == (tool, command)


def test_steps_without_a_number_are_counted_per_trajectory() -> None:
    """Trajectories may interleave, and an agent has its own."""
    lines = [_line(), _line(trajectory="u"), _line(), _line(agent="a"), _line(step=9), _line()]
    _, steps = _read(lines)
    assert [(s.trajectory, s.index) for s in steps] == [("t", 1), ("u", 1), ("t", 2), ("t/a", 1), ("t", 9), ("t", 10)]


def test_a_batch_is_held_until_it_is_complete() -> None:
    """Its steps come once another line of the trajectory shows its end, each with the others as siblings."""
    adapter, steps = _read(
        [
            _line(action="a", batch="b1"),
            _line(trajectory="u", action="z"),
            _line(action="b", batch="b1"),
            _line(action="c", batch="b2"),
        ],
        end=False,
    )
    assert [s.action.command for s in steps] == ["z", "a", "b"]
    assert [[a.command for a in s.siblings or ()] for s in steps] == [[], ["b"], ["a"]]
    assert [(s.action.command, s.batch, s.siblings) for s in adapter.finish()] == [("c", "b2", ())]
    assert list(adapter.finish()) == []


def test_a_batch_at_the_end_of_an_idle_file_may_grow() -> None:
    """Its steps are let go, but nobody knows all that ran beside them."""
    adapter, steps = _read([_line(batch="b1"), _line(batch="b1")], end=False)
    assert steps == []
    assert [s.siblings for s in adapter.settle()] == [None, None]


def test_a_batch_that_grows_without_end_is_let_go() -> None:
    """Beyond a bound the siblings are not known."""
    _, steps = _read([_line(batch=1) for _ in range(300)], end=False)
    assert len(steps) == 256
    assert {step.siblings for step in steps} == {None}


@pytest.mark.parametrize(
    "fields",
    [
        {"observation": 3},
        {"observation": None},
        {"action": None},
        {"action": 5},
        {"action": {"input": "no tool"}},
        {"trajectory": 1},
        {"trajectory": ""},
        {"step": 0},
        {"step": "1"},
        {"step": True},
        {"step": 1 << 60},
        {"exit_code": "0"},
        {"observation_kind": "dream"},
        {"domain": "moon"},
        {"label": "maybe"},
        {"cwd": ["/"]},
    ],
)
def test_a_wrong_type_quarantines_the_line(fields: dict[str, Any]) -> None:
    """Such a line is counted as `bad_shape` and the next one is read."""
    adapter, steps = _read([_line(**fields), _line()])
    assert len(steps) == 1
    assert adapter.counts.quarantined == {"bad_shape": 1}


def test_kinds_other_than_env_may_lack_an_observation() -> None:
    """A missing observation is told as such."""
    adapter, [step] = _read([_line(observation_kind="missing", observation=None)])
    assert (step.observation_kind, step.observation) == (ObservationKind.MISSING, "")
    assert (adapter.counts.calls, adapter.counts.paired) == (1, 0)


def test_events_are_no_steps() -> None:
    """The first screen is passed over; other events are counted by name."""
    adapter, steps = _read(
        [{"trajectory": "t", "event": "initial", "observation": "$ "}, {"trajectory": "t", "event": "Reset"}]
    )
    assert steps == []
    assert (adapter.counts.records, adapter.counts.unknown) == (2, {"event/reset": 1})


def test_a_damaged_line_is_salvaged() -> None:
    """Glued steps are both read."""
    adapter = Native(path="f")
    data = json.dumps(_line()).encode() * 2
    assert len(list(adapter.feed(Record(origin=Origin(path="f", offset=0), end=1, data=data)))) == 2
    assert adapter.counts.salvaged == 2
