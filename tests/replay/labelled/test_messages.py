"""Calls in chat messages find their answers."""

from typing import Any

import msgspec

from tests.replay.labelled.conftest import Read
from verifierd.replay.labelled.messages import Message, calls_in
from verifierd.types import ObservationKind

TWO: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "a", "function": {"name": "add", "arguments": '{"n": 1}'}},
            {"id": "b", "function": {"name": "add", "arguments": '{"n": 2}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "b", "content": "two"},
    {"role": "tool", "tool_call_id": "a", "content": "one"},
]


def observations(messages: list[dict[str, Any]]) -> list[tuple[str | None, int | None]]:
    """What each call brought, and where."""
    calls = calls_in(msgspec.convert(messages, list[Message]), domain="mcp")
    return [(call.observation, call.observed) for call in calls]


def test_answers_are_found_by_id() -> None:
    """Without one they come in the order of the calls."""
    nameless = [{key: value for key, value in message.items() if key != "tool_call_id"} for message in TWO]

    assert observations(TWO) == [("one", 2), ("two", 1)]
    assert observations(nameless) == [("two", 1), ("one", 2)]


def test_calls_of_one_turn_are_a_batch(read: Read) -> None:
    """Each knows the others, and a label on the turn is the label of them all."""
    found = read({"traj": TWO}, bad_steps=[0])
    one, two = found.run.steps

    assert one.batch == two.batch is not None
    assert one.siblings == (two.action,)
    assert found.bad == {1, 2}


def test_a_call_without_an_answer(read: Read) -> None:
    """Its observation is missing, and it stands where the call does."""
    found = read({"traj": [TWO[0], TWO[2]]})

    assert [step.observation_kind for step in found.run.steps] == [ObservationKind.ENV, ObservationKind.MISSING]
    assert found.observed == {1: 1, 2: 0}
    assert observations([{"role": "tool", "content": "nobody asked"}]) == []
