"""Facts about agents' tools: when they speak, and when they keep silent."""

from typing import Any

import msgspec
import pytest

from verifierd.contracts.calls import Call
from verifierd.contracts.facts.tools import FACTS
from verifierd.contracts.state.session import Session
from verifierd.types import Action, Origin, Step


def _step(tool: str, fields: dict[str, Any], observation: str, *, turn: str = "1") -> Step:
    return Step(
        format="native",
        trajectory="tools",
        index=1,
        action=Action(tool=tool, input=fields),
        observation=observation,
        turn=turn,
        origin=Origin(path="-", offset=0),
    )


def _said(fact: str, tool: str, fields: dict[str, Any], *earlier: Step, turn: str = "1") -> list[str | None]:
    session = Session()
    for step in earlier:
        session.observe(step, [], [])
    session.expect(_step(tool, fields, "", turn=turn))
    return [
        finding.text if finding.text is not None else finding.values.get("number")
        for finding in FACTS[fact](Call(name=tool, tool=True, input=fields), session)
    ]


CREATED = [_step("TaskCreate", {"subject": "one"}, "Task #4 created successfully: one")]


def test_the_next_task_is_one_more() -> None:
    """In the same turn, after a task of this session."""
    assert _said("next-task", "TaskCreate", {"subject": "two"}, *CREATED) == ["5"]
    assert _said("next-task", "TaskCreate", {"subject": "two"}) == []


def test_the_next_task_is_open_after_others_had_their_say() -> None:
    """A person may have resumed another list; another agent may have made a task."""
    agent = _step("Agent", {"prompt": "go"}, "done")

    assert _said("next-task", "TaskCreate", {"subject": "two"}, *CREATED, turn="2") == []
    assert _said("next-task", "TaskCreate", {"subject": "two"}, *CREATED, agent) == []


def test_input_is_repeated_unless_the_session_shows_otherwise() -> None:
    """A version that no longer repeats it is not held to it."""
    silent = _step("TaskCreate", {"subject": "one"}, "Created.")

    assert _said("repeated-input", "TaskCreate", {"subject": "two"}) == ["two"]
    assert _said("repeated-input", "TaskCreate", {"subject": "two"}, silent) == []
    assert _said("repeated-input", "Skill", {"skill": "/review"}) == ["review"]


def test_an_acknowledgement_needs_two_that_agree() -> None:
    """The same words each time, as this session has them."""
    first, other = _step("TodoWrite", {}, "Todos have been modified."), _step("TodoWrite", {}, "Saved.")

    assert _said("acknowledged", "TodoWrite", {}, first, first) == ["Todos have been modified."]
    assert _said("acknowledged", "TodoWrite", {}, first) == []
    assert _said("acknowledged", "TodoWrite", {}, first, other) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"sql": "SELECT a FROM b"},
        {"query": "select a from b"},
        {"query": "{ user { name } }"},
        {"path": "a.json"},
        {"name": "config.json"},
        {"where": "https://example.org/a"},
        {"filter": {"a": 1}},
    ],
)
def test_no_shape_where_the_input_decides_on_it(fields: dict[str, Any]) -> None:
    """Queries, files and addresses may return anything."""
    earlier = [_step("get", fields, '{"a": 1, "b": 2}')] * 4

    assert _said("result-shape", "get", fields, *earlier) == []


def test_a_shape_is_said_after_three_results() -> None:
    """For a tool whose input only picks one of many things of the same kind."""
    earlier = [_step("get_user", {"user_id": f"u_{number}"}, f'{{"id": "u_{number}"}}') for number in range(3)]

    (shape,) = _said("result-shape", "get_user", {"user_id": "u_9"}, *earlier)
    (identifier,) = _said("result-identifier", "get_user", {"user_id": "u_9"}, *earlier)

    assert msgspec.json.decode(shape or "")["keys"].keys() == {"id"}
    assert msgspec.json.decode(identifier or "") == {"at": ["id"], "value": "u_9"}
