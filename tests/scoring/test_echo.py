"""The call that comes back instead of its result."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from verifierd.policy import Memory, Policy, decide
from verifierd.scoring import open_scorers
from verifierd.scoring.echo import echoed_call, echoes
from verifierd.types import (
    Abstain,
    Action,
    History,
    ObservationKind,
    Origin,
    Prediction,
    Score,
    Seconds,
    Step,
    Verdict,
    VerdictKind,
)

UNKNOWN = Prediction(predictor="x", abstain=Abstain.UNPREDICTABLE)
LINES = "cd src && python3 -c \"\nprint('a\\tb', [1, 2], {})\n\""


def _bash(command: str, **fields: Any) -> Action:
    return Action(tool="Bash", input={"command": command, **fields} if fields else command, command=command)


READ = Action(tool="Read", input={"file_path": "/w/a.py", "limit": 5})
WRITE = Action(tool="mcp__files__write", input={"path": "C:\\temp\\new.json", "content": '{"a": "é"}\n'})
CALLS = [_bash("ls"), _bash("ls -la src", description="List the sources", timeout=5), _bash(LINES), READ, WRITE]


def _step(action: Action, observation: str, kind: ObservationKind = ObservationKind.ENV) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=1,
        action=action,
        observation=observation,
        observation_kind=kind,
        origin=Origin(path="t.jsonl", offset=0),
    )


def _judged(step: Step, prediction: Prediction) -> Verdict:
    history, policy = History(step.key), Policy(name="p")
    scores = [scorer(history, step, prediction) for scorer in open_scorers(policy)]
    return decide(policy, Memory(), step, prediction, scores, predictor="", model=None, time="", seconds=Seconds())[1]


@pytest.mark.parametrize("action", CALLS)
@pytest.mark.parametrize(
    "form",
    [
        '{{"tool": {name}, "input": {input}}}',
        '{{"name": {name}, "arguments": {input}}}\n',
        '{{"name": {name}, "arguments": {quoted}}}',
        '{{"type": "tool_use", "id": "toolu_01AbC", "name": {name}, "input": {input}}}',
        '[{{"id": "call_1", "type": "function", "function": {{"name": {name}, "arguments": {quoted}}}}}]',
        '<tool_call>\n{{"name": {name}, "arguments": {input}}}\n</tool_call>',
        '```json\n{{"action": {name}, "action_input": {input}}}\n```',
        "Action: {tool}\nAction Input: {input}",
        "{python}",
    ],
)
def test_the_call_itself(action: Action, form: str) -> None:
    """However it is spelt, the call is no answer: the step is off the path, whatever the prediction."""
    given = json.dumps(action.input)
    text = form.format(
        name=json.dumps(action.tool),
        tool=action.tool,
        input=given,
        quoted=json.dumps(given),
        python=repr({"tool": action.tool, "args": action.input}),
    )
    verdict = _judged(_step(action, text), UNKNOWN)

    assert (verdict.verdict, verdict.reason, verdict.coverage) == (VerdictKind.OFF_PATH, "echoed_call", 0.0)
    assert verdict.signals[0].span == (0, len(text))


@pytest.mark.parametrize(
    "text",
    [
        "<function=Read>\n<parameter=file_path>\n/w/a.py\n</parameter>\n<parameter=limit>5</parameter>\n</function>",
        "tool: Read\ninput:\n  file_path: /w/a.py\n  limit: 5\n",
        "Read(file_path='/w/a.py', limit=5)",
        'Read({"file_path": "/w/a.py", "limit": 5})',
    ],
)
def test_calls_without_json(text: str) -> None:
    """Markup, YAML and calls of functions are told as well."""
    assert echoes(READ, text)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (_bash("ls -la src"), "ls -la src"),  # a terminal's echo
        (_bash("ls -la src"), '{"command": "ls -la"}'),
        (_bash("ls -la src"), '{"command": "ls -la src", "output": "total 4"}'),
        (_bash("ls"), "bash: ls: command not found"),
        (_bash("cat call.json"), '{"tool": "Bash", "input": "ls"}'),
        (_bash("true"), "{}"),
        (READ, '{"file_path": "/w/a.py", "limit": 5}'),
        (READ, '{"tool": "Read", "input": {"file_path": "/w/a.py"}}'),
        (READ, '{"tool": "Read", "input": {"file_path": "/w/a.py", "limit": 50}}'),
        (READ, '{"tool": "Read", "input": {"file_path": "/w/a.py", "limit": 5}, "result": "ok"}'),
        (READ, '{"tool": "Write", "input": {"file_path": "/w/a.py", "limit": 5}}'),
        (Action(tool="echo", input={"text": "hi"}), "echo: hi"),
        (Action(tool="search", input={"query": "x"}), '{"search": {"query": "x"}}'),
        (Action(tool="status", input={}), '{"name": "status"}'),
        (Action(tool="click", input={"action": "click"}), '{"action": "click"}'),
        (Action(tool="", input=""), "tool"),
    ],
)
def test_answers(action: Action, text: str) -> None:
    """A part of the call, the call with something more, or what was given alone may be an answer."""
    assert not echoes(action, text)


def test_a_call_without_input() -> None:
    """The name alone is an answer; as a call it is none."""
    action = Action(tool="TaskList", input={})

    assert echoes(action, '{"tool": "TaskList", "input": {}}')
    assert echoes(action, '{"name": "TaskList", "arguments": {}}')
    assert not echoes(action, '{"tool": "TaskList"}')


def test_what_was_to_be_expected() -> None:
    """Where a rule expects that very text, nothing is wrong; a model that expects it is in its wrong role, too."""
    step = _step(_bash("ls"), '{"command": "ls"}')
    sure = Prediction(predictor="x", text='{"command": "ls"}\n', certain=True)
    guess = Prediction(predictor="x", text='{"command": "ls"}')

    assert echoed_call(History(step.key), step, sure) == Score(name="echoed_call", value=0.0)
    assert echoed_call(History(step.key), step, guess).violated


def test_nothing_to_look_at() -> None:
    """An empty observation, and one that is not the environment's, is not looked at."""
    none = Score(name="echoed_call", reason="nothing came back")
    refused = _step(_bash("ls"), '{"command": "ls"}', ObservationKind.POLICY_DENIED)

    assert echoed_call(History(refused.key), refused, UNKNOWN) == none
    assert echoed_call(History(refused.key), _step(_bash("ls"), " \n"), UNKNOWN) == none


@example(command="0", tool="0:2", plain=True)
@given(command=st.text(max_size=60), tool=st.text(max_size=60), plain=st.booleans())
def test_any_call_is_told(command: str, tool: str, *, plain: bool) -> None:
    """Whatever was asked, as JSON it is told."""
    action = Action(tool=tool, input={"command": command}, command=command)
    text = json.dumps({"tool": tool, "input": {"command": command}}, ensure_ascii=plain)

    assert echoes(action, text) or not command.strip()


@given(st.recursive(st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner)))
def test_any_text_can_be_read(value: Any) -> None:
    """Whatever came back, it is read or not, without an error."""
    text = json.dumps(value) + "{" * 3 + "command["

    assert echoes(_bash("ls"), text) in (True, False)
    assert not echoes(_bash("ls"), "[" * 100_000 + "command")
