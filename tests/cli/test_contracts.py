"""`verifierd contracts`: the rules with their support, and what clean logs say of them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.helpers import verifierd
from verifierd.contracts.document import bundled, parse

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


def test_a_document_that_cannot_be_applied_is_not_listed(tmp_path: Path) -> None:
    """An unknown fact is bad configuration here as it is for a replay."""
    checkout = Path(__file__).parents[2]
    for name in ("verifierd", "policies", "replay"):
        shutil.copytree(checkout / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(checkout / "pyproject.toml", tmp_path)
    rule = '[[rule]]\nid = "mine"\nsays = "x"\nprograms = ["ls"]\ncheck = "empty"\nfact = "no-such-fact"\n'
    (tmp_path / "policies/contracts/mine.toml").write_text(f'about = "Mine."\n{rule}', encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "verifierd", "contracts", "list"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 78
    assert "no-such-fact" in done.stderr


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
    proposed = parse(out.read_text(encoding="utf-8"), "proposals.toml").rule
    assert any(rule.programs == ("count",) and rule.check == "every-line" for rule in proposed)
    assert not any(rule.deciding for rule in proposed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "proposals.toml"]


def test_nothing_to_mine(tmp_path: Path) -> None:
    """A log without steps, one that is not there, and no log at all are told, and fail."""
    empty, log = tmp_path / "empty.jsonl", tmp_path / "log.jsonl"
    empty.write_text("", encoding="utf-8")
    log.write_text(LOG, encoding="utf-8")

    for path, message in ((empty, "no step"), (tmp_path / "nowhere", "nowhere")):
        done = verifierd("contracts", "mine", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr
    assert verifierd("contracts", "mine").returncode == 2
    done = verifierd("contracts", "mine", log, tmp_path / "nowhere")
    assert done.returncode == 1
    assert "for review" in done.stdout


def test_violations_are_no_failure(tmp_path: Path) -> None:
    """That a rule was broken is a result; where its document says otherwise is told."""
    log = tmp_path / "log.jsonl"
    log.write_text(LOG, encoding="utf-8")

    done = verifierd("contracts", "mine", log)

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "16 steps of 4 trajectories"
    row = next(line.split() for line in lines if line.startswith("echo-text "))
    assert row[:3] == ["echo-text", "4", "1"]
    assert row[-1] == "differs"
    assert "echo-text differs from text.toml" in lines
    assert "  it decides, but held in 3 of 4 steps only" in lines
    assert f"echo-text broken in {log}" in lines
    assert "  t0 #1: echo hello" in lines
    assert all(line == line.rstrip() for line in lines)
    assert not any(len(line) > 100 for line in lines[: lines.index("")] if str(log) not in line)


def test_the_same_seed_mines_the_same(tmp_path: Path) -> None:
    """Draws are seeded."""
    log = tmp_path / "log.jsonl"
    log.write_text(LOG, encoding="utf-8")

    first, again = (verifierd("contracts", "mine", log, "--json", "--seed", "7").stdout for _ in range(2))

    assert first == again


def test_inputs_are_spared(tmp_path: Path) -> None:
    """Proposals do not replace a log; where they cannot be written is told."""
    log = tmp_path / "log.jsonl"
    log.write_text(LOG, encoding="utf-8")

    done = verifierd("contracts", "mine", log, "--out", log)

    assert done.returncode == 2
    assert "is one of the inputs" in done.stderr
    assert log.read_text(encoding="utf-8") == LOG
    done = verifierd("contracts", "mine", log, "--out", tmp_path / "no" / "folder.toml")
    assert done.returncode == 78
    assert "Name another file" in done.stderr


def test_one_family() -> None:
    """The rules of one document; an unknown one is a usage error that names those there are."""
    rows = json.loads(verifierd("contracts", "list", "--family", "git", "--json").stdout)["rules"]
    done = verifierd("contracts", "list", "--family", "nonsense")

    assert [row["rule"] for row in rows] == [rule.id for rule in bundled()["git"].rule]
    assert done.returncode == 2
    assert "known ones: agent_tools, " in done.stderr


def test_the_list_fits() -> None:
    """Figures within 100 columns, no line ends in blanks, and what does not decide says so."""
    lines = verifierd("contracts", "list").stdout.splitlines()
    figures = [line for line in lines[:-1] if line.startswith("  ") and not line.startswith("   ")]

    assert len(figures) == sum(len(family.rule) for family in bundled().values())
    assert max(map(len, figures)) <= 100
    assert all(line == line.rstrip() for line in lines)
    undecided = [rule.id for family in bundled().values() for rule in family.rule if not rule.deciding]
    assert [line.split()[0] for line in figures if line.endswith("does not decide")] == undecided


def test_what_was_not_measured_says_so() -> None:
    """A rule without figures has none, and no bounds."""
    (name, *_) = (
        rule.id for family in bundled().values() for rule in family.rule if not rule.support.steps
    )  # fmt: skip

    assert "not measured" in verifierd("contracts", "list", name).stdout
    (row,) = json.loads(verifierd("contracts", "list", name, "--json").stdout)["rules"]
    assert (row["steps"], row["bound"], row["session_bound"]) == (0, None, None)
