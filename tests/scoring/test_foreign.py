"""An observation that answers another action."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifierd.scoring.foreign import foreign, objects
from verifierd.types import Action, History, Origin, Prediction, Score, Step

PREDICTION = Prediction(predictor="x")


def _step(index: int, action: Action, observation: str) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=index,
        action=action,
        observation=observation,
        origin=Origin(path="t.jsonl", offset=0),
    )


def _bash(command: str) -> Action:
    return Action(tool="bash", input=command, command=command)


def _tool(tool: str, **fields: Any) -> Action:
    return Action(tool=tool, input=fields)


def _score(step: Step, past: list[Step]) -> Score:
    history = History(step.key)
    for other in past:
        history.append(other)
    return foreign(history, step, PREDICTION)


@pytest.mark.parametrize(
    "observation", ['{"file_path": "/w/a.py"}\n', '{"file_path": "/w/a.py"}', '{"echo": {"file_path": "/w/a.py"}}']
)
def test_what_was_given(observation: str) -> None:
    """The input comes back as JSON instead of an answer; with the tool's name it is `echoed_call`'s matter."""
    step = _step(1, _tool("Read", file_path="/w/a.py"), observation)
    called = _step(1, step.action, '{"name": "Read", "arguments": {"file_path": "/w/a.py"}}')

    assert [signal.detail for signal in _score(step, []).signals] == ["is what was given, no result"]
    assert not _score(called, []).signals


def test_an_answer_that_holds_what_was_given() -> None:
    """One field of the call among others is an answer."""
    step = _step(1, _tool("add", name="x", size="3"), '{"name": "x", "size": "3", "id": "7"}')

    assert not _score(step, []).signals


def test_another_object() -> None:
    """A field that the action gave comes back with another value."""
    text = json.dumps({"status": "open", "order_id": "#W22"})
    score = _score(_step(1, _tool("get_order", order_id="#W11"), text), [])

    assert [signal.detail for signal in score.signals] == ["`order_id` is “#W22”; “#W11” was asked for"]
    span = score.signals[0].span
    assert span is not None
    assert text[slice(*span)] == "#W22"
    assert not score.violated


@pytest.mark.parametrize(
    "text",
    [
        '{"order_id": "#W11", "status": "open"}',
        '{"id": "9"}',
        "order #W11 of user order_id: #W22",
        "no order\n",
        '{"note": "order_id"}',
    ],
)
def test_the_object_that_was_asked_for(text: str) -> None:
    """What holds the value that was given, or does not repeat the field, is no other object."""
    assert not _score(_step(1, _tool("get_order", order_id="#W11"), text), []).signals


def test_values_that_may_differ() -> None:
    """A query or a text is not what an answer must repeat."""
    step = _step(1, _tool("search", query="shoes", title="Lunch"), '{"query": "boots", "title": "Dinner"}')

    assert not _score(step, []).signals


PAST = [
    _step(1, _bash("cat src/main.py"), "import os\nprint(os.name)\n"),
    _step(2, _bash("git status"), "On branch main\n"),
]


def test_another_actions_answer() -> None:
    """An earlier answer to something else comes back."""
    score = _score(_step(3, _bash("wc -l README.md"), "import os\nprint(os.name)\n"), PAST)

    assert [signal.detail for signal in score.signals] == ["is what step 1 (`cat`) was answered"]
    assert score.signals[0].span == (0, 25)


@pytest.mark.parametrize(
    ("command", "observation"),
    [
        ("head -5 src/main.py", "import os\nprint(os.name)\n"),  # the same file
        ("cat copy.py", "import os\nprint(os.name)\n"),  # the same program: it may be a copy
        ("git diff", "On branch main\n"),  # the step before: a matter of `stale`
        ("ls", "two\n"),
    ],
)
def test_answers_that_may_repeat(command: str, observation: str) -> None:
    """The same file, the same program, the step before, a new text: none is foreign."""
    assert not _score(_step(3, _bash(command), observation), PAST).signals


def test_another_tools_form() -> None:
    """It begins as only another tool's answers do here."""
    past = [
        *(_step(n, _tool("Edit", file_path=f"/w/{n}"), f"The file /w/{n} has been updated.") for n in range(1, 4)),
        *(_step(n, _tool("Grep", pattern=f"p{n}"), f"Found {n} files\n/w/a.py") for n in range(4, 7)),
    ]
    seen = _score(_step(7, _tool("Grep", pattern="q"), "The file /w/9 has been updated."), past)

    assert [signal.detail for signal in seen.signals] == [
        "begins as the answers of `Edit` do here (3 of them), and none of `Grep`"
    ]
    assert not _score(_step(7, _tool("Grep", pattern="q"), "Found 9 files\n"), past).signals
    assert not _score(_step(7, _tool("Glob", pattern="q"), "The file /w/9 has been updated."), past).signals


def test_forms_of_json() -> None:
    """JSON is told apart by its first keys."""
    past = [
        *(_step(n, _tool("users", n=n), f'{{"name": "n{n}", "mail": "m"}}') for n in range(1, 4)),
        *(_step(n, _tool("orders", n=n), f'[{{"total": {n}, "items": []}}]') for n in range(4, 7)),
    ]

    assert _score(_step(7, _tool("orders", n=9), '{"name": "z", "mail": "q"}'), past).signals
    assert not _score(_step(7, _tool("orders", n=9), '[{"total": 0, "items": [1]}]'), past).signals


def test_nothing_to_look_at() -> None:
    """An empty observation answers anything."""
    assert _score(_step(1, _bash("true"), " \n"), []) == Score(name="foreign", reason="nothing came back")


def test_objects_of_an_action() -> None:
    """Paths by their last part, and identifiers; neither options nor long texts."""
    assert objects(_bash("sed -n 1,5p src/main.py")) >= {"main.py"}
    assert objects(_tool("t", id="A-123", text="word " * 200)) == {"A-123"}


@given(st.text(max_size=100), st.text(max_size=100))
def test_any_text_can_be_compared(text: str, other: str) -> None:
    """Whatever came back, spans lie within it."""
    past = [_step(n, _bash(other or "x"), other) for n in range(1, 6)]
    score = _score(_step(6, _tool("t", id=text), text + other), past)

    assert all(s.span is not None and 0 <= s.span[0] <= s.span[1] <= len(text + other) for s in score.signals)
