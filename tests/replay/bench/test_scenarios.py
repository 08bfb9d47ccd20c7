"""Random terminal scenarios: what is drawn, what bash makes of it, and the service of the second domain."""

import json
import re
from pathlib import Path

import pytest

from verifierd.bundled import root
from verifierd.errors import ConfigError
from verifierd.replay.bench import scenarios, service
from verifierd.replay.bench.scenarios import commands, main, play
from verifierd.replay.bench.sequences import read

DOCUMENT = (root("replay") / "suites" / "data" / "scenarios.txt").read_text(encoding="utf-8")


def test_the_seed_decides() -> None:
    """The same seed draws the same commands, a longer scenario begins as a shorter one, another seed differs."""
    assert commands("a", 50) == commands("a", 50)
    assert commands("a", 50)[:10] == commands("a", 10)
    assert commands("a", 10) != commands("b", 10)


def test_every_line_of_the_document_is_drawn() -> None:
    """No line names what can never be there, and no mark is left unfilled."""
    drawn = [command for seed in range(500) for command in commands(str(seed), 50)]
    assert not any("«" in command or "⏎" in command for command in drawn)
    together = "\0".join(drawn)
    lines = [
        line.removeprefix("first:")
        for line in DOCUMENT.splitlines()
        if line and not line.startswith("#") and not re.fullmatch(r"\[\w+ \d+\]", line)
    ]
    assert len(lines) > 150
    for line in lines:
        pattern = "[^\0]+?".join(map(re.escape, re.split("«[^»]+»", line.replace("⏎", "\n"))))
        assert re.search(f"(?:^|\0){pattern}(?:\0|$)", together), line


def test_the_truth_is_bash() -> None:
    """A scenario is run in a real shell, twice, and both runs agree; it has failures, silence and state in it."""
    found = play("mine", "4", 30)
    assert all(found.stable)
    assert [step.index for step in found.steps] == [*range(1, 31)]
    assert {step.trajectory for step in found.steps} == {"mine"}
    assert any(step.exit_code for step in found.steps)
    assert any(not step.observation for step in found.steps)
    assert all(str(Path.home()) not in step.observation or str(Path.home()) == "/" for step in found.steps)


def test_what_changes_from_run_to_run_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that prints something else the second time cannot be asked for."""
    monkeypatch.setattr(scenarios, "commands", lambda _seed, _count: ["echo same", "echo $RANDOM$RANDOM", "pwd"])
    assert play("mine", "0", 3).stable == (True, False, True)


def test_a_missing_program_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git, say, nothing is run."""
    monkeypatch.setattr(scenarios, "_NEEDED", ("bash", "no-such-program"))
    with pytest.raises(ConfigError, match="no-such-program"):
        play("mine", "0", 3)


def test_scenarios_are_written_down(tmp_path: Path) -> None:
    """The command writes what the suite reads from --data."""
    file = tmp_path / "scenario.jsonl"
    assert main(["--seed", "7", "--steps", "6", "--out", str(file)]) == 0
    (steps,) = read(file).values()
    assert [step.action.text for step in steps] == commands("7", 6)
    assert [step.observation for step in steps] == [step.observation for step in play("x", "7", 6).steps]


def test_the_service_keeps_its_state() -> None:
    """What was created is there until it is deleted, sums agree, and a call that is refused changes nothing."""
    stock = service.Stock()

    def call(tool: str, **arguments: object) -> dict[str, object]:
        found = json.loads(stock.call(tool, arguments))
        assert isinstance(found, dict)
        return found

    assert call("create_item", name="a", count=5, shelf="north")["id"] == "item-101"
    assert call("create_item", name="b", count=1, shelf="south")["id"] == "item-102"
    assert "error" in call("create_item", name="a", count=1, shelf="north")
    assert call("move_stock", source="item-101", target="item-102", count=4)["to"] == {"item-102": 5}
    assert "error" in call("move_stock", source="item-101", target="item-102", count=4)
    assert call("get_item", id="item-101") == {
        "id": "item-101",
        "name": "a",
        "count": 1,
        "shelf": "north",
        "version": 2,
    }
    assert "error" in call("update_item", id="item-101", count=-1)
    assert call("update_item", id="item-101", shelf="east")["version"] == 3
    assert call("sum_counts") == {"east": 1, "south": 5}
    assert call("list_items", below=5)["total"] == 1
    assert call("delete_item", id="item-102") == {"deleted": "item-102", "left": 1}
    assert "error" in call("get_item", id="item-102")
    assert "error" in call("rename_item", id="item-101")


def test_calls_are_drawn_by_seed() -> None:
    """The same seed draws the same calls; those at the beginning, alike in all, show what each tool answers."""
    one, other = service.steps("a", "1", 40), service.steps("a", "2", 40)
    assert one == service.steps("a", "1", 40)
    shown = service.shown()
    assert one[:shown] == other[:shown]
    assert one[shown:] != other[shown:]
    assert {step.domain for step in one} == {"mcp"}
    codes = r'"code": "(\w+)"'
    told = {code for step in one[:shown] for code in re.findall(codes, step.observation)}
    met = {code for step in (*one, *other) for code in re.findall(codes, step.observation)}
    assert met <= told
    tools = {step.action.tool for step in one[:shown]}
    assert {step.action.tool for step in (*one, *other)} <= tools
