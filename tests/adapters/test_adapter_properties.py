"""What holds for every adapter whatever the bytes."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifierd.adapters import FORMATS, detect, open_adapter
from verifierd.stages import Adapter, Counts
from verifierd.types import Origin, Record, Step

_IDS = st.sampled_from(["a", "b", "c", "d", "exec-1", "exec-2", "toolu_0123456789abcdefghij"])
_TEXTS = st.sampled_from([
    "x", "", "Exit code 2\nx", "<tool_use_error>x", "[Request interrupted by user", "aborted by user",
    "Wall time: 1 seconds\nProcess running with session ID 7\nOutput:\nx",
    "Wall time: 1 seconds\nProcess exited with code 1\nOutput:\ny",
    "Wall time: 1 seconds\nProcess exited with code 1\nOutput:\nhead…9 chars truncated…tail",
])  # fmt: skip


def _claude(draw: st.DrawFn) -> dict[str, Any]:
    block: dict[str, Any] = draw(
        st.one_of(
            st.builds(lambda i: {"type": "tool_use", "id": i, "name": "Bash", "input": {"command": i}}, _IDS),
            st.builds(lambda i, t: {"type": "tool_result", "tool_use_id": i, "content": t}, _IDS, _TEXTS),
            st.builds(lambda t: {"type": "text", "text": t}, _TEXTS),
        )
    )
    line = {
        "type": "assistant" if block["type"] == "tool_use" else "user",
        "sessionId": draw(st.sampled_from(["s", "t"])),
        "message": {"id": draw(st.sampled_from(["m", "n"])), "content": [block]},
    }
    return line | draw(st.sampled_from([{}, {"uuid": "u"}, {"agentId": "g"}, {"toolUseResult": {"stdout": "x"}}]))


def _codex(draw: st.DrawFn) -> dict[str, Any]:
    name, text = draw(_IDS), draw(_TEXTS)
    tool, given_ = draw(
        st.sampled_from([("exec_command", {"cmd": "ls"}), ("write_stdin", {"session_id": 7}), ("exec", {})])
    )
    call = {"type": "function_call", "name": tool, "call_id": name, "arguments": json.dumps(given_)}
    end = {"type": "CommandExecution", "id": name, "aggregated_output": text, "exit_code": 1, "command": ["ls"]}
    kind, payload = draw(
        st.sampled_from(
            [
                ("response_item", call),
                ("response_item", {"type": "function_call_output", "call_id": name, "output": text}),
                ("response_item", {"type": "message", "role": "user"}),
                ("event_msg", {"type": "item_completed", "item": end}),
                ("event_msg", {"type": "turn_aborted"}),
                ("event_msg", {"type": "task_started", "turn_id": draw(st.sampled_from("xyz"))}),
            ]
        )
    )
    return {"type": kind, "payload": payload}


def _native(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "trajectory": draw(st.sampled_from(["t", "u"])),
        "action": draw(_TEXTS),
        "observation": draw(_TEXTS),
        "batch": draw(st.sampled_from([None, 1, 2])),
    }


@st.composite
def _lines(draw: st.DrawFn, name: str) -> list[bytes]:
    make = {"claude_code": _claude, "codex": _codex, "native": _native}[name]
    return [json.dumps(make(draw)).encode() for _ in range(draw(st.integers(0, 14)))]


def _feed(adapter: Adapter, data: bytes, at: int) -> list[Step]:
    return list(adapter.feed(Record(origin=Origin(path="f", offset=at), end=at + 1, data=data)))


def _run(name: str, lines: Sequence[bytes], *, restart: bool, idle: Sequence[int]) -> tuple[list[Step], Counts]:
    adapter = open_adapter(name, path="f")
    steps: list[Step] = []
    for at, data in enumerate(lines):
        if restart:
            state = adapter.dump()
            adapter = open_adapter(name, path="f")
            adapter.load(state)
        steps += _feed(adapter, data, at)
        if at in idle:
            steps += adapter.settle()
    return [*steps, *adapter.finish()], adapter.counts


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None)
@given(data=st.data())
def test_a_restart_at_any_line_changes_nothing(name: str, data: st.DataObject) -> None:
    """Dumping and loading between all records yields exactly the same steps and counts as reading straight."""
    lines = data.draw(_lines(name))
    idle = data.draw(st.lists(st.integers(0, 14), max_size=2))
    assert _run(name, lines, restart=True, idle=idle) == _run(name, lines, restart=False, idle=idle)


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None)
@given(data=st.data())
def test_every_call_becomes_exactly_one_step(name: str, data: st.DataObject) -> None:
    """However calls, results, ends and turns are mixed, no call is told twice and none is forgotten."""
    steps, counts = _run(name, data.draw(_lines(name)), restart=False, idle=data.draw(st.lists(st.integers(0, 14))))
    ids = [step.call_id for step in steps if step.call_id is not None]
    assert len(ids) == len(set(ids))
    indices: dict[str, list[int]] = {}
    for step in steps:
        indices.setdefault(step.trajectory, []).append(step.index)
    for found in indices.values():
        assert sorted(found) == list(range(1, len(found) + 1))
    assert counts.paired <= counts.calls <= len(steps)


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None)
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_damaged_lines_never_raise(name: str, data: st.DataObject, seed: int) -> None:
    """Cut, mutated, doubled and glued lines are counted, and the adapter can still be dumped and read on."""
    rng = random.Random(seed)
    lines = [_damage(line, rng) for line in data.draw(_lines(name))]
    _run(name, lines, restart=True, idle=())
    detect(lines, "f.jsonl")


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None)
@given(lines=st.lists(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)), max_size=5))
def test_arbitrary_bytes_never_raise(name: str, lines: list[bytes]) -> None:
    """No line yields a step, each that is not blank is counted."""
    steps, counts = _run(name, lines, restart=True, idle=())
    assert steps == []
    assert counts.records == len(lines)
    assert detect(lines, "f.jsonl") is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None)
@given(data=st.data())
def test_wrong_types_never_raise(name: str, data: st.DataObject) -> None:
    """Any value in the place of any other leaves an adapter that still works."""
    lines = [json.loads(line) for line in data.draw(_lines(name))]
    for line in lines:
        place = line
        while isinstance(place, dict) and place:
            key = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
                place[key] = data.draw(_JSON)
                break
            place = place[key][0] if isinstance(place[key], list) and place[key] else place[key]
    _run(name, [json.dumps(line).encode() for line in lines], restart=True, idle=())


def _damage(line: bytes, rng: random.Random) -> bytes:
    kind = rng.randrange(6)
    at = rng.randrange(len(line) + 1)
    if kind == 0:
        return line[:at]
    if kind == 1:
        return line[:at] + line
    if kind == 2:
        return line + line
    if kind == 3:
        return line[:at] + bytes(rng.randrange(256) for _ in range(3)) + line[at + 3 :]
    if kind == 4:
        return line[:at] + b"\x00" * rng.randrange(40) + line[at:]
    return line
