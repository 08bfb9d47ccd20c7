"""What is in a log, without predicting."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import claude, echo, jsonl, native
from verifierd.errors import FormatError, SourceError
from verifierd.replay.survey import survey, total

pytestmark = pytest.mark.anyio


async def test_a_log_is_counted(tmp_path: Path) -> None:
    """Steps, shell steps, kinds, tools, damage."""
    path = tmp_path / "a.jsonl"
    lines = [*echo("t", 2), native("u", 1, "look", "page", tool="browser"), native("u", 1, "look", "page")]
    path.write_bytes(jsonl(*lines) + b"not json\n")
    found = await survey(path)
    assert (found["path"], found["format"], found["version"]) == (str(path), "native", None)
    assert (found["trajectories"], found["steps"], found["shell_steps"], found["records"]) == (2, 4, 3, 5)
    assert found["by_tool"] == {"bash": 3, "browser": 1}
    assert found["quarantined"] == {"not_json": 1}


async def test_an_unterminated_end_counts_as_the_pipeline_counts_it(tmp_path: Path) -> None:
    """A whole last line without its line end is a step; half of one is torn."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*echo("t", 2)).rstrip(b"\n"))
    assert (await survey(path))["steps"] == 2
    path.write_bytes(jsonl(*echo("t", 2))[:-9])
    found = await survey(path)
    assert (found["steps"], found["quarantined"]) == (1, {"torn_tail": 1})


async def test_a_known_format_behind_many_unknown_lines_is_found(tmp_path: Path) -> None:
    """As in the pipeline, what nobody understands does not hide what follows."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"prose\n" * 500 + jsonl(*echo("t", 2)))
    assert (await survey(path))["steps"] == 2


async def test_what_is_not_understood_says_why(tmp_path: Path) -> None:
    """Empty and unknown files are told apart; a missing one is a source's error."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n\n")
    with pytest.raises(FormatError, match="is empty"):
        await survey(path)
    path.write_bytes(b"prose\n")
    with pytest.raises(FormatError, match="is in no format"):
        await survey(path)
    with pytest.raises(FormatError, match="no format is called"):
        await survey(path, format="nonsense")
    with pytest.raises(SourceError, match="does not exist"):
        await survey(tmp_path / "none.jsonl")


async def test_a_named_format_is_taken_at_its_word(tmp_path: Path) -> None:
    """With a format's name nothing is guessed, and an empty file is a log without steps."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*claude("s", [("toolu_01", "ls", "a\n")])))
    found = await survey(path, format="native")
    assert (found["steps"], sum(found["quarantined"].values())) == (0, 2)
    path.write_bytes(b"")
    assert (await survey(path, format="native"))["steps"] == 0


async def test_standard_input_is_surveyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """None stands for standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(jsonl(*echo("t", 3)))))
    found = await survey(None)
    assert (found["path"], found["steps"]) == ("-", 3)


def test_totals_add_up_numbers_and_counts() -> None:
    """Numbers are added, counts key by key; what is neither stays out; no file is zero files."""
    files: list[dict[str, Any]] = [
        {"path": "a", "version": "1", "steps": 2, "by_kind": {"env": 2}, "quarantined": {}},
        {"path": "b", "version": None, "steps": 3, "by_kind": {"env": 1, "poll": 2}, "quarantined": {"torn_tail": 1}},
    ]
    assert total(files) == {
        "files": 2,
        "steps": 5,
        "by_kind": {"env": 3, "poll": 2},
        "quarantined": {"torn_tail": 1},
    }
    assert total([]) == {"files": 0}
