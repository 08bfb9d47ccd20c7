"""What an answer held to the grammar can be, asked of llguidance itself."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from verifierd.policy import Asking
from verifierd.predictors import prompt
from verifierd.replay.bench.grammar import observation
from verifierd.replay.bench.sequences import read
from verifierd.scoring.simulator import role_break
from verifierd.types import Action, History, Origin, Prediction, Step

llguidance = pytest.importorskip("llguidance")
mx = pytest.importorskip("mlx.core")

from tests.predictors.mlx import small  # noqa: E402 - as above
from verifierd.predictors.mlx.grammar import Grammars  # noqa: E402 - as above

BARE = Asking(wrapper="none")


def _bash(command: str, **fields: Any) -> Action:
    return Action(tool="Bash", input={"command": command, **fields} if fields else command, command=command)


LS = _bash("ls -la src", description="List the sources", timeout=5)
CALLS = [
    LS,
    _bash("ls"),
    _bash("cd src && python3 -c \"\nprint('a\\tb', [1, 2], {})\n\""),
    Action(tool="Read", input={"file_path": "/w/a.py", "limit": 5}),
    Action(tool="mcp__files__write", input={"path": "C:\\temp\\new.json", "content": '{"a": "é 🦊"}\n'}),
    Action(tool="TaskList", input={}),
]


def _step(action: Action) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=1,
        action=action,
        observation="",
        origin=Origin(path="t.jsonl", offset=0),
    )


@cache
def _tokens() -> Any:
    from llguidance.hf import from_tokenizer  # noqa: PLC0415 - it may not be there

    return from_tokenizer(small.tokenizer()._tokenizer, eos_token=sorted(small.tokenizer().eos_token_ids))


def _may_say(text: str, step: Step, asking: Asking = BARE, *, most: int = 3000) -> bool:
    grammar = llguidance.LLMatcher.grammar_from_lark(observation(step, asking, most=most))
    matcher = llguidance.LLMatcher(_tokens(), grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    tokens = _tokens().tokenize_bytes(text.encode())
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


def _breaks(text: str, step: Step) -> bool:
    prediction = Prediction(predictor="x", text=prompt.parse(text))
    return role_break(History(step.key), step, prediction).abstain is not None


def _forms(action: Action) -> Iterator[str]:
    """Ways to spell a call."""
    name, given = json.dumps(action.tool), json.dumps(action.input)
    yield f'{{"tool": {name}, "input": {given}}}'
    yield f'{{"name": {name}, "arguments": {json.dumps(given)}}}\n'
    yield f'{{"type": "tool_use", "id": "toolu_01AbC", "name": {name}, "input": {given}}}'
    yield f'[{{"id": "call_1", "type": "function", "function": {{"name": {name}, "arguments": {json.dumps(given)}}}}}]'
    yield f'<tool_call>\n{{"name": {name}, "arguments": {given}}}\n</tool_call>'
    yield f'```json\n{{"action": {name}, "action_input": {given}}}\n```'
    yield f"Action: {action.tool}\nAction Input: {given}"
    yield f"{action.tool}\nInvoke with parameters: {given}"
    yield f"Tool {action.tool}, arguments {json.dumps(given)}"
    yield repr({"tool": action.tool, "args": action.input})


@pytest.mark.slow
@pytest.mark.parametrize("action", CALLS, ids=lambda action: action.text[:12])
def test_calls(action: Action) -> None:
    """However a call is spelt, if it breaks the role it cannot be said, wherever the marker stands."""
    step = _step(action)
    found = 0
    for text in _forms(action):
        for spelt in (text, f"\n {text}\n\n", f"**Environment Observation:**\n{text}", f"\x1c{text}"):
            if _breaks(spelt, step):
                found += 1
                assert not _may_say(spelt, step), spelt
    assert found > 20


@pytest.mark.parametrize(
    "text",
    [
        "\n <tool_call>\n",
        "<function=bash>",
        "<|im_start|>assistant",
        "Action: ls",
        "**Action:** ls",
        "ls -la src",
        "$ ls -la src",
        "  ls -la src \n",
        '{"command": "ls"}',
        '[{"keystrokes": "ls\\n", "duration": 1}]',
        '```json\n[{"name": "bash", "arguments": {}}]\n```',
        '```{"parameters": {}, "function": "ls"}```',
    ],
)
def test_role_breaks(text: str) -> None:
    """Neither can the other ways to fall out of the role."""
    assert _breaks(text, _step(LS))
    assert not _may_say(text, _step(LS))


@pytest.mark.parametrize(
    "text",
    [
        "<think>The user wants",
        "a </think> b",
        "x <think> y",
        "x <predicted_observation>y",
        "x\n</predicted_observation>",
    ],
)
def test_marks_within(text: str) -> None:
    """A text that would be read as a thought, or as a part of the answer, cannot be said either."""
    assert not _may_say(text, _step(LS))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "total 4\n-rw-r--r-- 1 user user 12 Jan  1 00:00 tool.py\n",
        "bash: ls -la src: command not found",
        "ls: cannot access 'src': No such file or directory",
        '{"name": "pkg", "version": "1.0", "scripts": {"test": "x"}}',
        '{"status": "ok", "items": [1, 2, {"id": 3}]}',
        "[1, 2]",
        "[]",
        "{broken",
        "```\ncode\n```",
        "Actions: 3",
        "né 🦊 \x1b[31mred\x1b[0m\t",
    ],
)
def test_observations(text: str) -> None:
    """What may be an observation can be said."""
    assert not _breaks(text, _step(LS))
    assert _may_say(text, _step(LS))


def test_true_observations() -> None:
    """Of the suite's own sequences each true observation can be said as the policy's form has it."""
    asking = Asking()
    count = 0
    for steps in read(None, "roles.jsonl").values():
        for step in steps:
            form = prompt.Form(wrapper="marker")
            text = f"{prompt.before(step, form)}{prompt.observation(step)}{prompt.after(form)}"
            assert _may_say(text, step, asking), text
            count += 1
    assert count >= 10


@pytest.mark.parametrize(
    ("wrapper", "right", "wrong"),
    [
        ("none", "one", "<predicted_observation>\none\n</predicted_observation>"),
        ("marker", "**Environment Observation:**\none", "one"),
        ("marker", "**Environment Observation:**", ""),
        ("tags", "<predicted_observation>\none\n</predicted_observation>", "<predicted_observation>\none"),
    ],
)
def test_wrappers(wrapper: Any, right: str, wrong: str) -> None:
    """An answer has the form that the policy asks for."""
    step, asking = _step(LS), Asking(wrapper=wrapper)
    assert _may_say(right, step, asking)
    assert not _may_say(wrong, step, asking)
    assert prompt.parse(right) in ("one", "")


def test_a_screen() -> None:
    """Where the command that was typed is part of the screen, it can be said; a call still cannot."""
    asking = Asking(wrapper="none", screen=True)
    assert _may_say("$ ls -la src", _step(LS), asking)
    assert _may_say("$ ls -la src\ntotal 0", _step(LS), asking)
    assert not _may_say('{"command": "ls -la src"}', _step(LS), asking)


def test_its_length() -> None:
    """An observation has so many characters at most, not bytes."""
    assert _may_say("é" * 10, _step(LS), most=10)
    assert not _may_say("é" * 11, _step(LS), most=10)


@pytest.mark.parametrize(
    "action",
    [
        _bash("x" * 100_000),
        _bash("echo \ud800 /a.*b[c]{2}|$^ \"'\\ / \0 \x7f"),
        _bash(" "),
        _bash(""),
        Action(tool="", input=""),
        Action(tool="many", input={f"key{number}": f"value {number}" for number in range(100)}),
        Action(tool="deep", input=json.loads("[" * 50 + "]" * 50)),
    ],
    ids=["long", "odd", "blank", "empty", "nothing", "many", "deep"],
)
def test_odd_actions(action: Action) -> None:
    """Make a grammar, too."""
    assert _may_say("one", _step(action))
    assert not _may_say("<think>", _step(action))


@pytest.mark.parametrize("wish", [*_forms(LS), "ls -la src", "<think>\nWell", "Action: ls -la src", '{"command": "x"}'])
def test_a_model_that_wants_out(wish: str) -> None:
    """Of what it may say it takes what it likes best, and whatever that comes to is no role break."""
    step = _step(LS)
    for seed in range(2):
        held = Grammars(small.tokenizer()).processor(observation(step, BARE, most=60))
        wanted = small.tokenizer().encode(wish, add_special_tokens=False)
        mx.random.seed(seed)
        said: list[int] = []
        while len(said) < 80:
            logits = mx.random.normal((1, small.VOCABULARY))
            if wanted[: len(said)] == said:
                logits[0, wanted[len(said)] if len(said) < len(wanted) else small.tokenizer().eos_token_id] += 50
            token = int(mx.argmax(held(mx.array([0, *said]), logits)[0]))
            if token in small.tokenizer().eos_token_ids:
                break
            said.append(token)
        text = small.tokenizer().decode(said)
        assert len(said) < 80
        assert not _breaks(text, step), text
