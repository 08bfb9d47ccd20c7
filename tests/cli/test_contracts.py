"""`verifierd contracts`: the rules with their support, and what clean logs say of them."""

import json
import tomllib
from pathlib import Path

from tests.helpers import verifierd
from verifierd.contracts.document import bundled
from verifierd.types import Check

LOG = "".join(
    json.dumps({
        "trajectory": f"t{t}", "step": n, "cwd": "/w", "action": action, "observation": text, "exit_code": 0,
    }) + "\n"
    for t in range(4)
    for n, (action, text) in enumerate(
        [("echo hello", "hello\n" if t else "goodbye\n"), ("count", f"{t}\n"), ("count", "12\n"), ("ls", "a\nb c\n")], 1
    )
)  # fmt: skip


def test_every_rule_is_listed() -> None:
    """Each has a row, and the JSON says the same."""
    ids = [rule.id for family in bundled().values() for rule in family.rule]

    shown = verifierd("contracts", "list").stdout
    listed = json.loads(verifierd("contracts", "list", "--json").stdout)["rules"]

    assert all(name in shown for name in ids)
    assert [row["rule"] for row in listed] == ids
    assert {"says", "steps", "sessions", "violated", "power", "deciding", "concerns"} <= listed[0].keys()


def test_one_rule_with_its_examples() -> None:
    """What it says, whom it concerns, and an observation of both kinds."""
    shown = verifierd("contracts", "list", "head-limit").stdout

    assert shown.startswith("head-limit: ")
    assert "concerns head, tail" in shown
    assert "obeys" in shown
    assert "breaks" in shown


def test_an_unknown_rule_is_a_usage_error() -> None:
    """It is named, with the remedy."""
    done = verifierd("contracts", "list", "no-such-rule")

    assert done.returncode == 2

    assert "no-such-rule" in done.stderr
    assert "contracts list" in done.stderr


def test_mining_says_where_rules_failed_and_proposes(tmp_path: Path) -> None:
    """A violation is told with file and step; proposals are TOML for review, and nothing else is written."""
    log, out = tmp_path / "log.jsonl", tmp_path / "proposals.toml"
    log.write_text(LOG, encoding="utf-8")

    shown = verifierd("contracts", "mine", log, "--out", out)
    mined = json.loads(verifierd("contracts", "mine", log, "--json").stdout)

    assert "echo-text broken in" in shown.stdout
    (echo,) = (row for row in mined["rules"] if row["rule"] == "echo-text")
    assert (echo["steps"], echo["sessions"], echo["violated"]) == (4, 4, 1)
    assert [violation["step"] for violation in echo["violations"]] == [1]
    proposed = tomllib.loads(out.read_text(encoding="utf-8"))["rule"]
    assert any(rule["programs"] == ["count"] and rule["check"] == "every-line" for rule in proposed)
    assert not any(rule["deciding"] for rule in proposed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "proposals.toml"]


def test_nothing_to_mine(tmp_path: Path) -> None:
    """A log without steps, and one that is not there, are told."""
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")

    assert "no step" in verifierd("contracts", "mine", tmp_path / "empty.jsonl").stderr
    assert "nowhere" in verifierd("contracts", "mine", tmp_path / "nowhere").stderr


def test_the_reference_names_every_check() -> None:
    """Who writes contracts finds each check and each key."""
    text = (Path(__file__).parents[2] / "policies" / "contracts" / "README.md").read_text(encoding="utf-8")

    assert [check.value for check in Check if f"`{check.value}`" not in text] == []
