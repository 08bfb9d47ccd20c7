"""HotpotQA runs: three kinds of labels on turns, and the log's own measurements."""

from typing import Any

from tests.replay.labelled.conftest import Read
from tests.replay.labelled.test_tau import call
from verifierd.replay.labelled import Truth

RAW: dict[str, Any] = {
    "question": "Who?",
    "messages": [
        {"role": "user", "content": "Who?"},
        call("search", '{"query_list": ["who"]}', "a"),
        {"role": "tool", "tool_call_id": "a", "name": "search", "content": '{"result": []}'},
        call("search", "{}", "b"),
        {"role": "tool", "tool_call_id": "b", "name": "search", "content": '{"error": "missing query_list"}'},
        call("search", '{"query_list": ["whom"]}', "c"),
        {"role": "tool", "tool_call_id": "c", "name": "search", "content": '{"result": [[]]}'},
        {"role": "assistant", "content": "<answer>Nobody</answer>"},
    ],
    "tool_metrics": {"search": [{"status": "success"}, {"status": "error"}]},
}


def test_neutral_turns_are_not_judged(read: Read) -> None:
    """Right and wrong ones are; a wrong answer is no step, and counted."""
    found = read(
        RAW,
        label_kind="agent_error_ternary",
        step_labels={"1": 1, "3": -1, "5": 0, "7": -1},
        bad_steps=[3, 7],
        first_bad_step=3,
    )

    assert found.truth is Truth.AGENT
    assert found.bad == {2}
    assert found.judged == frozenset({1, 2})
    assert (found.first_bad, found.unplaced) == (3, 1)
    assert found.positions == {1: 1, 2: 3, 3: 5}


def test_the_logs_own_flag_is_kept(read: Read) -> None:
    """A call that was not measured has none."""
    found = read(RAW, label_kind="agent_error_ternary", trajectory_label="clean")

    assert [step.is_error for step in found.run.steps] == [False, True, None]
    assert {step.domain for step in found.run.steps} == {"search"}
