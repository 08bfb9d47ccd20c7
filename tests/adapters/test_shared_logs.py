"""The calls of every shared log, against the table of its sources."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from verifierd.adapters import detect, open_adapter
from verifierd.stages import Adapter
from verifierd.types import Origin, Record, Step

pytestmark = pytest.mark.shared


def _rows(table: Path) -> Iterator[list[str]]:
    for line in table.read_text(encoding="utf-8").splitlines():
        if line.startswith(("| `claude_code/", "| `codex/")):
            yield [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]


def _read(path: Path, *, restart: bool = False) -> tuple[Adapter, list[Step]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = data.split(b"\n")
    name = detect(lines[:50], str(path))
    assert name == ("codex" if "codex" in path.parts else "claude_code")
    adapter = open_adapter(name, path=str(path))
    steps: list[Step] = []
    at = 0
    for line in lines:
        end = at + len(line) + 1
        if line:
            steps.extend(adapter.feed(Record(origin=Origin(path=str(path), offset=at), end=end, data=line)))
            if restart:
                state = adapter.dump()
                adapter = open_adapter(name, path=str(path))
                adapter.load(state)
        at = end
    return adapter, [*steps, *adapter.finish()]


def test_samples_have_the_calls_of_their_table(shared: Path) -> None:
    """Calls and paired calls of each sample are those that its collectors counted."""
    folder = shared / "trajectories"
    found, expected = {}, {}
    for row in _rows(folder / "SOURCES.md"):
        stated = re.match(r"(\d+) calls / (\d+) paired", row[4])
        assert stated is not None
        counts = _read(folder / row[0])[0].counts
        found[row[0]] = (counts.calls, counts.paired)
        expected[row[0]] = (int(stated[1]), int(stated[2]))
    assert len(expected) > 30
    assert found == expected


def test_real_sessions_have_the_steps_of_their_table(shared: Path) -> None:
    """Calls and shell steps of each session are those that its collectors counted."""
    folder = shared / "trajectories" / "bulk"
    found, expected = {}, {}
    for row in _rows(folder / "SOURCES.md"):
        adapter, steps = _read(folder / row[0])
        found[row[0]] = (sum(step.action.command is not None for step in steps), adapter.counts.calls)
        expected[row[0]] = (int(row[9]), int(row[10]))
        assert not adapter.counts.quarantined
        assert not adapter.counts.unknown
    assert len(expected) > 70
    assert found == expected


def test_restarts_change_nothing_on_real_logs(shared: Path) -> None:
    """Reading with a restart after each line yields the same steps."""
    folder = shared / "trajectories"
    for path in [*folder.glob("codex/*.jsonl"), *folder.glob("claude_code/*.jsonl")]:
        straight, restarted = _read(path), _read(path, restart=True)
        assert restarted[1] == straight[1]
        assert restarted[0].counts == straight[0].counts
