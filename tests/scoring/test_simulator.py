"""The simulator that speaks for the agent instead of the environment."""

import pytest

from verifierd.scoring.simulator import failure, role_break
from verifierd.types import Abstain, Action, History, Origin, Prediction, Score, Step


def _score(predicted: str | None, *, observed: str = "file\n", command: str = "ls -la", certain: bool = False) -> Score:
    step = Step(
        format="native",
        trajectory="t",
        index=1,
        action=Action(tool="bash", input=command, command=command),
        observation=observed,
        origin=Origin(path="t.jsonl", offset=0),
    )
    return role_break(History(step.key), step, Prediction(predictor="x", text=predicted, certain=certain))


@pytest.mark.parametrize(
    "text",
    [
        "<think>The user wants",
        "\n <tool_call>\n",
        "<function=bash>",
        "<|im_start|>assistant",
        "Action: ls",
        "**Action:** ls",
        '{"tool": "bash", "input": {"command": "ls"}}',
        '[{"name": "bash", "arguments": {}}]',
        '```json\n{"name": "bash", "arguments": {"command": "ls"}}\n```',
        '{"command": "ls"}',
        "ls -la",
        "$ ls -la\n",
    ],
)
def test_the_agents_side_of_the_talk(text: str) -> None:
    """A thought, a turn marker, a call or the command itself is no observation: the step abstains."""
    score = _score(text)

    assert score.abstain is Abstain.ROLE_BREAK
    assert not score.violated
    assert score.coverage == 0.0
    assert [signal.name for signal in score.signals] == ["role_break"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "total 4\n",
        "thinking of <think>",
        '{"status": "ok"}',
        '{"name": "x"}',
        "[1, 2]",
        "[]",
        "{broken",
        "```\ncode\n```",
        "ls -la: not found",
        "[" * 100_000,
        '{"a":' * 100_000,
        '["\ud800"]',
        '{"tool": "\ud800',
    ],
)
def test_an_observation(text: str) -> None:
    """What may be an observation is left to the other scorers, however it is nested or broken."""
    assert _score(text) == Score(name="role_break", value=0.0)


@pytest.mark.parametrize("text", ["<think>", '{"command": "ls"}', "ls -la"])
def test_what_the_environment_said_is_an_observation(text: str) -> None:
    """A prediction of exactly what came breaks no role, whatever it looks like."""
    assert _score(f"{text}\n", observed=text) == Score(name="role_break", value=0.0)


def test_short_commands_are_no_echo() -> None:
    """`ls` may be the content of a file; only commands of four characters and more are taken for an echo."""
    assert _score("ls", command="ls").abstain is None


def test_a_rule_breaks_no_role() -> None:
    """A prediction by rule, or one without a text, is not asked."""
    assert _score("<think>", certain=True) == Score(name="role_break", reason="no model's text")
    assert _score(None) == Score(name="role_break", reason="no model's text")


@pytest.mark.parametrize("failed", [None, Abstain.ROLE_BREAK, Abstain.TIMEOUT])
def test_a_failure_is_told(failed: Abstain | None) -> None:
    """What a predictor says of itself is a signal of that name, and the reason where nothing else decides."""
    step = Step(
        format="native",
        trajectory="t",
        index=1,
        action=Action(tool="bash", input="ls", command="ls"),
        observation="a\n",
        origin=Origin(path="t.jsonl", offset=0),
    )
    score = failure(History(step.key), step, Prediction(predictor="x", failed=failed, detail="why"))

    assert score.abstain == failed
    assert [(signal.name, signal.detail) for signal in score.signals] == ([(failed, "why")] if failed else [])
    assert (score.coverage, score.violated) == (0.0, False)
