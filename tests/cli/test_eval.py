"""`verifierd eval`: what it prints and writes, and what it refuses."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.helpers import counter, echo, jsonl, native, verifierd, wrong_once
from verifierd.cli import _verifierd


@pytest.fixture(name="log")
def _log(tmp_path: Path) -> Path:
    """A log of three trajectories."""
    return write(tmp_path / "a.jsonl", *counter("t", 8), *echo("u", 4), *echo("v", 4))


def write(path: Path, *lines: object) -> Path:
    """A file of these lines."""
    path.write_bytes(jsonl(*lines))
    return path


def called(*arguments: str | Path, stdin: bytes = b"") -> Result:
    """The command within this process, by contracts alone if nothing else is said: both save time."""
    chain = () if "--predictor" in arguments else ("--predictor", "contracts")
    return CliRunner().invoke(_verifierd, ["eval", *map(str, arguments), *chain], input=stdin, catch_exceptions=False)


def evaluated(*arguments: str | Path, stdin: bytes = b"") -> dict[str, Any]:
    """The document of an evaluation that went well."""
    done = called(*arguments, "--json", stdin=stdin)
    assert (done.exit_code, done.stderr) == (0, ""), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def untimed(found: dict[str, Any]) -> dict[str, Any]:
    """A document without what depends on the machine."""
    return {name: value for name, value in found.items() if name != "seconds"}


def test_the_json_is_the_contracts(log: Path) -> None:
    """Every figure of the contract with value, interval and count."""
    found = evaluated(log, "--inject", "all", "--predictor", "shell", "--seed", "1")

    for name in ("step_fpr", "step_fnr", "benign_fpr", "abstention", "auroc", "recall", "precision"):
        assert set(found[name]) == {"value", "low", "high", "n"}, name
    assert (found["step_fpr"]["value"], found["step_fpr"]["n"]) == (0.0, 16)
    assert found["benign_fpr"]["value"] == 0.0
    assert found["by_kind"]["empty"]["recall"]["n"] == found["by_kind"]["empty"]["n"] > 0
    assert set(found["controls"]) == {"error_regex", "seen_before", "zlib", "action_support", "judge"}
    assert found["controls"]["judge"]["reason"] == "no model in the chain can be asked"
    assert found["injection"] == {"kinds": found["injection"]["kinds"], "rate": 1.0, "seed": 1}
    assert found["cases"] == sum(one["n"] for one in [*found["by_kind"].values(), *found["by_benign"].values()])


def test_the_same_seed_gives_the_same_table(log: Path, tmp_path: Path) -> None:
    """In another process with another order of hashes, too; and another predictor sees the same faults."""
    arguments = ("--inject", "all", "--seed", "3", "--rate", "0.5")
    one = evaluated(log, *arguments, "--out", tmp_path / "1.jsonl")
    done = verifierd("eval", log, *arguments, "--predictor", "contracts", "--json", env={"PYTHONHASHSEED": "7"})
    assert untimed(json.loads(done.stdout)) == untimed(one)

    evaluated(log, *arguments, "--predictor", "shell", "--out", tmp_path / "2.jsonl")
    cases = [
        [json.loads(line)["case"] for line in (tmp_path / f"{name}.jsonl").read_bytes().splitlines()] for name in "12"
    ]
    assert cases[0] == cases[1]
    assert len(cases[0]) > 16


def test_labels_in_a_file(tmp_path: Path) -> None:
    """By name and index, by step id and by verdict id; `unsure` counts nowhere; what fits nowhere is told."""
    log = write(tmp_path / "a.jsonl", *wrong_once(counter("t", 8), 6, "9 notes.txt\n"), *echo("u", 4))
    verifierd("replay", log, "--out", tmp_path / "verdicts.jsonl")
    ids = {
        (one["trajectory"], one["step"]): one
        for one in map(json.loads, (tmp_path / "verdicts.jsonl").read_bytes().splitlines())
    }
    labels = write(
        tmp_path / "labels.jsonl",
        {"trajectory": "t", "step": 6, "label": "off_path", "kind": "drift"},
        {"id": ids["t", 4]["step_id"], "label": "on_path"},
        {"id": ids["u", 1]["verdict_id"], "label": "on_path"},
        {"id": ids["u", 2]["step_id"], "label": "unsure"},
        {"id": "0" * 32, "label": "on_path"},
        {"what": "is this"},
    )
    done = called(log, "--labels", labels, "--predictor", "shell,contracts", "--json")
    found = json.loads(done.stdout)

    assert done.exit_code == 0
    assert f"{labels}: 1 label of no step that is in these logs, the first one in {labels}:5" in done.stderr
    assert f"{labels}:6: the label is left out" in done.stderr
    assert (found["clean"], found["cases"]) == (2, 1)
    assert found["by_kind"]["drift"]["recall"]["value"] == 1.0
    assert found["delay"]["off_path"] == {"n": 1, "median": 0.0, "max": 0}


def test_a_table_for_people(log: Path) -> None:
    """Piped it is plain and whole: false alarms first, each kind, the controls; no line ends in blanks."""
    done = called(log, "--inject", "all")
    lines = done.stdout.splitlines()

    assert (done.exit_code, done.stderr) == (0, "")
    assert lines[0].startswith("contracts, no model, policy default@")
    assert lines[1].startswith("16 clean steps of 3 trajectories, ")
    assert any(re.match(r"false alarms on clean steps +0 % \(0 to 21\) of 16$", line) for line in lines)
    assert any(line.startswith("role_break ") for line in lines)
    assert "judge: no model in the chain can be asked" in lines
    assert all(line == line.rstrip() for line in lines)
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("width", [80, 100])
def test_nothing_is_cut_on_a_terminal(log: Path, width: int) -> None:
    """No line is wider than the screen, and none ends in an ellipsis."""
    code = (
        "import sys, rich.console as c; from verifierd.cli import main; import verifierd.cli.eval as e;"
        f"e.console = lambda: c.Console(width={width}, force_terminal=True, color_system=None, highlight=False);"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "eval", log, "--inject", "all"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()

    assert max(map(len, lines)) <= width
    assert "…" not in done.stdout
    assert ("error regex" in next(line for line in lines if line.startswith("fault"))) == (width == 100)


def test_who_has_nothing_to_say_says_so(tmp_path: Path) -> None:
    """Where every step abstains no rate of false alarms stands alone."""
    log = write(
        tmp_path / "a.jsonl",
        *[native("t", n, {"tool": "weather", "input": {"n": n}}, f"rain {n}") for n in range(1, 9)],
    )
    done = called(log, "--inject", "all")
    found = evaluated(log, "--inject", "all")

    assert "they abstain on every clean one" in done.stdout
    assert (found["coverage"]["mean"], found["abstention"]["value"]) == (0.0, 1.0)
    assert found["by_kind"]["another_step"]["recall"]["value"] == 0.0


def test_nothing_to_judge_is_said(tmp_path: Path) -> None:
    """A log whose steps the environment never answered has no figures, and is no error."""
    log = write(tmp_path / "a.jsonl", native("t", 1, "sleep 9", "", observation_kind="interrupted"))
    done = called(log, "--inject", "all")

    assert done.exit_code == 0
    assert "There was nothing to judge" in done.stdout
    assert evaluated(log, "--inject", "all")["step_fpr"]["value"] is None


def test_several_judges(log: Path, tmp_path: Path) -> None:
    """Further chains and policies on the same cases, with paired differences; each row of --out says whose it is."""
    out = tmp_path / "rows.jsonl"
    found = evaluated(log, "--inject", "empty,stale", "--compare", "shell", "--compare", "strict", "--out", out)

    assert [one["predictor"] for one in (found, *found["others"])] == ["contracts", "shell", "contracts"]
    assert found["others"][1]["policy"].startswith("strict@")
    assert [one["cases"] for one in found["compared"]] == [found["compared"][0]["cases"]] * 2
    judges = [(row["predictor"], row["policy"]) for row in map(json.loads, out.read_bytes().splitlines())]
    cases = found["compared"][0]["cases"]
    assert Counter(judges) == {(one["predictor"], one["policy"]): cases for one in (found, *found["others"])}
    told = called(log, "--inject", "empty,stale", "--compare", "shell").stdout
    assert "shell by default@" in told
    assert "faults seen, all kinds together" in told


def test_conditions(log: Path) -> None:
    """A condition that holds fails the command, once all is printed; one that could not be measured does, too."""
    arguments = (log, "--inject", "empty,white_space", "--predictor", "shell")
    false = (
        "step_fpr>0",
        "recall_empty<0.1",
        "fpr_white_space>0",
        "abstention>=1",
        "trajectory_far>0",
        "step_p95_ms<0",
    )
    assert called(*arguments, *failing(*false)).exit_code == 0

    held = called(*arguments, *failing("precision_at_1>0.5", "step_fpr>0", "recall_empty>0.1"), "--json")
    assert (held.exit_code, held.stderr) == (1, "verifierd: precision_at_1>0.5\nverifierd: recall_empty>0.1\n")
    assert json.loads(held.stdout)["recall"]["value"] is None  # 16 cases are too few

    unmeasured = called(*arguments, *failing("recall_nonsense<0.5"))
    assert (unmeasured.exit_code, "there was nothing to measure it on" in unmeasured.stderr) == (78, True)
    for condition in ("step_fprr>0.1", "step_fpr=0.1", "step_fpr>x"):
        refused = called(*arguments, *failing(condition))
        assert (refused.exit_code, refused.stdout) == (78, ""), condition


def failing(*conditions: str) -> list[str]:
    """Options that name conditions."""
    return [part for condition in conditions for part in ("--fail-if", condition)]


def test_every_figure_that_the_hint_names_can_be_a_condition(tmp_path: Path) -> None:
    """Where it was measured; all but those of a model, the calibration and rare kinds are here."""
    log = write(tmp_path / "a.jsonl", *echo("t", 30), *echo("u", 30))
    labels = write(
        tmp_path / "labels.jsonl",
        {"trajectory": "u", "label": "clean", "truth": "agent"},
        {"trajectory": "u", "step": 3, "label": "off_path", "truth": "agent"},
    )
    hint = called(log, "--inject", "all", *failing("x<1")).stderr.partition("one of: ")[2]
    names = set(re.findall(r"[a-z_0-9]+[A-Z]*", hint)) - {"simulator_failed", "recall_KIND", "fpr_KIND"}
    conditions = failing(*(f"{name}<-1" for name in {*names, "recall_empty", "fpr_white_space"}))
    done = called(log, "--inject", "empty,another_session,stale,white_space", "--labels", labels, *conditions)

    assert len(names) > 20
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_kind_that_is_named_twice_is_injected_once(log: Path) -> None:
    """Cases counted twice would make the intervals too narrow."""
    once, twice = (json.loads(called(log, "--inject", kinds, "--json").stdout) for kinds in ("empty", "empty,empty"))

    assert once["by_kind"] == twice["by_kind"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "nothing is known of these steps"),
        (("--inject", "nonsense"), 2, "no change is called `nonsense`"),
        (("--inject", "all", "--rate", "0"), 2, "--rate"),
        (("--inject", "all", "--rate", "nan"), 2, "nan is no number"),
        (("--inject", "all", "--labels", "missing.jsonl"), 1, "missing.jsonl"),
        (("--inject", "all", "--compare", "nobody"), 78, "no policy is called `nobody`"),
        (("--inject", "all", "--compare", "shell,nobody"), 1, "no predictor is called `nobody`"),
        (("--labels", "/dev/null"), 2, "nothing is known of these steps: /dev/null has no label of one"),
        (("--inject", "all", "--out", "."), 78, "cannot be written"),
    ],
)
def test_what_is_refused(log: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    """With its reason, and before anything is judged."""
    done = called(log, *arguments)

    assert (done.exit_code, words in done.stderr) == (code, True), done.stderr
    assert done.stdout == ""


def test_inputs_are_spared(log: Path, tmp_path: Path) -> None:
    """Neither output may be an input, be it a log, the labels or a file of a set, or the other output."""
    labels = write(tmp_path / "labels.jsonl", {"trajectory": "t", "label": "clean"})
    folder = a_set(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(log)
    before = log.read_bytes(), labels.read_bytes()
    for inputs in (
        (log, "--labels", labels, "--out", link),
        (log, "--labels", labels, "--report", log),
        (log, "--labels", labels, "--out", labels),
        (log, "--labels", labels, "--out", tmp_path / "new", "--report", tmp_path / "new"),
        (folder, "--out", folder / "labels.jsonl"),
        (folder / "cases.jsonl", "--report", folder / "cases.jsonl"),
    ):
        assert called(*inputs).exit_code == 2, inputs
    assert (log.read_bytes(), labels.read_bytes()) == before
    assert not (tmp_path / "new").exists()


def a_set(tmp_path: Path) -> Path:
    """A labelled set of two cases."""
    folder = tmp_path / "some"
    folder.mkdir()
    case = {
        "messages": [
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "found"},
        ]
    }
    write(folder / "cases.jsonl", *[{"case_id": name, "raw": case} for name in "ab"])
    label = {
        "trajectory_label": "off_path",
        "label_kind": "agent_error_ternary",
        "bad_steps": [0],
        "step_labels": {"0": -1},
    }
    write(folder / "labels.jsonl", *[{"case_id": name, "group": name, **label} for name in "ab"])
    return folder


def test_a_labelled_set(tmp_path: Path, log: Path) -> None:
    """It brings its labels along: errors of the agent, apart from the environment; options for logs are refused."""
    folder = a_set(tmp_path)
    found = evaluated(folder)

    assert (found["agent"]["errors"], found["clean"], found["cases"]) == (2, 2, 0)
    assert evaluated(folder, folder, "--limit", "1")["trajectories"] == 1
    assert "errors of the agent" in called(folder).stdout
    for arguments in ((folder, log), (folder, "--labels", folder / "labels.jsonl"), (folder, "--format", "native")):
        assert called(*arguments).exit_code == 2


def test_what_cannot_be_read(tmp_path: Path, log: Path) -> None:
    """An empty file holds no trajectory; a missing one is told, and the rest is evaluated."""
    empty = write(tmp_path / "empty.jsonl")
    nothing = called(empty, "--inject", "all")
    assert (nothing.exit_code, "no trajectory" in nothing.stderr) == (1, True)

    done = called(tmp_path / "missing.jsonl", log, "--inject", "empty", "--json")
    assert (done.exit_code, json.loads(done.stdout)["clean"]) == (1, 16)
    assert "missing.jsonl" in done.stderr


def test_standard_input_and_a_limit(log: Path) -> None:
    """`-` is read as a log; a limit takes whole trajectories; a format may be named."""
    found = evaluated("-", "--inject", "empty", "--limit", "13", "--format", "native", stdin=log.read_bytes())

    assert (found["trajectories"], found["clean"]) == (2, 12)


def test_hostile_names_and_texts(tmp_path: Path) -> None:
    """Lone surrogates, escapes and keys in names, tools, kinds and observations break neither files nor screen."""
    key = "sk-ant-api03-" + "a1B2" * 24
    log = tmp_path / "a.jsonl"
    lines = [
        *wrong_once(counter("t\ud800\x1b[2J", 8), 6, f"{key}\n"),
        {**native("t\ud800\x1b[2J", 9, "", "\ud800" * 9), "action": {"tool": "x\udfff\u202e", "input": {}}},
    ]
    log.write_bytes(jsonl(*lines))
    labels = write(
        tmp_path / "labels.jsonl",
        {"trajectory": "t\ud800\x1b[2J", "step": 6, "label": "off_path", "kind": "\x1b\ud800"},
    )
    out = tmp_path / "rows.jsonl"
    for more in (("--json",), ("--inject", "all")):
        done = called(log, "--labels", labels, "--out", out, *more)
        assert done.exit_code == 0, done.stderr
        assert "\x1b" not in done.stdout
        assert key not in done.stdout + out.read_text()
        assert all(json.loads(line) for line in out.read_bytes().splitlines())
