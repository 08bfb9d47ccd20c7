"""Rows of AgentWorldBench."""

import json
from pathlib import Path
from typing import Any

import pytest

from verifierd.errors import ConfigError
from verifierd.replay.bench.asking import shortened
from verifierd.replay.bench.awb.data import asking, cases, steps, told
from verifierd.stages import Message

KEYS = '```json\n[{"keystrokes": "ls\\n", "duration": 0.1}]\n```'


def row(turn: int = 2, **more: Any) -> dict[str, Any]:
    """A row in the official layout."""
    last = f"### Turn {turn}\n**Action:**\n{KEYS}"
    return {
        "task": "world/terminal",
        "id": 5,
        "prompt": [
            *(f"### Turn {number}\n**Action:**\nlook" for number in range(1, turn)),
            f"{last}\n\nPlease answer.",
        ],
        "response": [f"**Environment Observation:**\nout {number}" for number in range(1, turn + 1)],
        "current_prompt": last,
        "system_str": "Be a terminal.",
        "turn_idx": turn,
        "total_turns": 9,
    } | more


def written(path: Path, *rows: dict[str, Any]) -> Path:
    """A file of rows."""
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


def test_messages_are_those_of_the_official_evaluation(tmp_path: Path) -> None:
    """The row's own system prompt, the turns before as they were, and the last prompt with what asks for the answer."""
    (case,) = cases(written(tmp_path / "a.jsonl", row()))
    found = told(case)
    assert (case.name, case.domain, case.group, case.depth) == ("terminal/5/2", "terminal", "terminal/5", 1)
    assert asking(found) == [
        Message("system", "Be a terminal."),
        Message("user", "### Turn 1\n**Action:**\nlook"),
        Message("assistant", "**Environment Observation:**\nout 1"),
        Message("user", f"### Turn 2\n**Action:**\n{KEYS}\n\nPlease answer."),
    ]
    assert found.action == f"### Turn 2\n**Action:**\n{KEYS}"


def test_what_a_row_may_lack(tmp_path: Path) -> None:
    """A system prompt, the bare action, lists of one."""
    bare = row(1, system_str="", current_prompt="", prompt="ask", response="told", id="x", task="web")
    (case,) = cases(written(tmp_path / "a.jsonl", bare))
    found = told(case)
    assert case.name == "web/x/1"
    assert asking(found) == [Message("user", "ask")]
    assert (found.action, found.truth) == ("ask", "told")


def test_what_is_no_character(tmp_path: Path) -> None:
    """Half of a pair of surrogates, as the standard library writes and reads it, becomes a mark that can be sent."""
    (case,) = cases(written(tmp_path / "a.jsonl", row(1, prompt=["ask \ud800"], current_prompt="")))
    assert told(case).asked == "ask \ufffd"


def test_a_row_as_steps(tmp_path: Path) -> None:
    """Typed lines are a command, a call in JSON has its tool, a text stays one; the marker is off."""
    call = '**Action:**\n```json\n{"name": "get", "arguments": {"id": 3}}\n```'
    (one, other) = cases(written(tmp_path / "a.jsonl", row(), row(1, task="mcp", prompt=[call], current_prompt=call)))
    history, step = steps(one, told(one))
    assert [past.action.input for past in history] == ["look"]
    assert (step.action.command, step.observation, step.index, step.domain) == ("ls", "out 2", 2, "terminal")
    _, step = steps(other, told(other))
    assert (step.action.tool, step.action.input) == ("get", {"id": 3})


def test_a_folder_gives_its_files(tmp_path: Path) -> None:
    """Those called `*_test.jsonl` in order; rows of one name are told apart, and some are drawn by the seed."""
    written(tmp_path / "web_test.jsonl", *(row(number, task="web") for number in range(1, 6)))
    written(tmp_path / "os_test.jsonl", row(task="os"), row(task="os"))
    written(tmp_path / "other.jsonl", row())
    names = [case.name for case in cases(tmp_path)]
    assert names == ["os/5/2", "os/5/2#2", *(f"web/5/{number}" for number in range(1, 6))]
    drawn = [case.name for case in cases(tmp_path, most=2, seed=1)]
    assert drawn == [case.name for case in cases(tmp_path, most=2, seed=1)]
    assert [name.partition("/")[0] for name in drawn] == ["os", "os", "web", "web"]


def test_wrong_rows_are_told_with_their_place(tmp_path: Path) -> None:
    """The file, the line, and what is wrong."""
    file = written(tmp_path / "a.jsonl", row(), row(1, prompt=[]))
    with pytest.raises(ConfigError, match=r"a\.jsonl:2: `turn_idx` is 1, but 0 prompts"):
        cases(file)
    file.write_text('\n{"task": 3}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"a\.jsonl:2: "):
        cases(file)
    written(file, row(1, failed=0, total_score=3, quality=1e308))
    with pytest.raises(ConfigError, match=r"a\.jsonl:1: Expected `float` <= .*quality"):
        cases(file)
    file.write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no rows"):
        cases(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        cases(tmp_path / "none.jsonl")


def test_a_talk_is_shortened() -> None:
    """System prompt and question stay, with their middles left out; the oldest turns go."""
    talk = [Message("system", "s" * 500), *[Message("user", "u" * 60), Message("assistant", "a" * 60)] * 5]
    found = shortened([*talk, Message("user", "?")], 450)
    assert [message.role for message in found] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert sum(len(message.content) for message in found) <= 450
    assert "left out" in found[0].content
