"""tau-bench runs: what the agent does wrong with a tool is a step's label, what it says wrong is not."""

from typing import Any

from tests.replay.labelled.conftest import Read
from verifierd.replay.labelled import Truth


def call(name: str, arguments: str, id: str = "a") -> dict[str, Any]:
    """An assistant's turn with a call."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}],
    }


RAW: dict[str, Any] = {
    "task_id": 1,
    "trial": 0,
    "traj": [
        {"role": "system", "content": "Be kind.", "index": 1},
        {"role": "user", "content": "Cancel my order.", "index": 2},
        {**call("find_user", '{"name": "Ann"}'), "index": 3},
        {"role": "tool", "tool_call_id": "a", "name": "find_user", "content": "ann_1", "index": 4},
        {"role": "assistant", "content": "It is cancelled.", "index": 5},
        {**call("cancel_order", "{order"), "index": 6},
        {"role": "tool", "tool_call_id": "a", "name": "cancel_order", "content": "Error: no such order", "index": 7},
    ],
}


def test_bases_are_subtracted(read: Read) -> None:
    """Positions count from 0 whatever the set's own numbers do; the first failure of a step gives its kind."""
    found = read(
        RAW,
        bad_steps=[5, 6],
        first_bad_step=5,
        step_base=1,
        failures=[
            {"step_number": 5, "failure_category": "Misinterpretation"},
            {"step_number": 6, "failure_category": "Invalid Invocation"},
        ],
    )

    assert found.truth is Truth.AGENT
    assert found.bad == {2}
    assert (found.first_bad, found.unplaced) == (4, 1)
    assert found.kinds == {2: "Invalid Invocation"}
    assert found.positions == {1: 2, 2: 5}
    assert found.observed == {1: 3, 2: 6}
    assert found.judged is None


def test_a_label_on_the_answer_is_the_steps(read: Read) -> None:
    """It marks the step whose observation stands there."""
    found = read(RAW, bad_steps=[3], step_base=0)

    assert found.bad == {1}
    assert (found.first_bad, found.unplaced) == (3, 0)


def test_a_failed_outcome_says_nothing_of_the_steps(read: Read) -> None:
    """None is judged; of a run that went well all are."""
    found = read(RAW, trajectory_label="failed_outcome", label_kind="outcome_only")

    assert (found.outcome, found.bad, found.judged) == ("failed_outcome", frozenset(), frozenset())


def test_what_an_agent_spells_wrong_stays_a_text(read: Read) -> None:
    """Arguments that are no JSON object are kept as they are; no flag is made up for an error that is only told."""
    _first, second = read(RAW, trajectory_label="clean", label_kind="outcome_only").run.steps

    assert second.action.input == "{order"
    assert (second.observation, second.is_error, second.exit_code) == ("Error: no such order", None, None)
