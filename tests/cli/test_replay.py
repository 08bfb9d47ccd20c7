"""`verifierd replay`: what it prints, for people and for programs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import agrees, claude, codex, counter, echo, jsonl, native, read_verdicts, verifierd, wrong_once
from verifierd.policy import DOMAINS
from verifierd.types import Abstain, VerdictKind


def write(path: Path, *lines: object) -> Path:
    """A log of these lines."""
    path.write_bytes(jsonl(*lines))
    return path


def test_the_json_is_the_contracts(tmp_path: Path) -> None:
    """Every key of the contract, with its type; nothing but the document on standard output."""
    log = write(
        tmp_path / "a.jsonl",
        *wrong_once(counter("t", 8), 6, "9 notes.txt\n"),
        native("t", 9, "sleep 9", "", observation_kind="interrupted"),
    )
    done = verifierd("replay", log, "--json", "--predictor", "shell", "--seed", "1")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert set(document) == {
        "trajectories", "steps", "by_kind", "verdicts", "coverage", "reasons", "by_tool", "model", "asked", "tokens",
        "seconds",
    }  # fmt: skip
    assert (document["trajectories"], document["steps"]) == (1, 9)
    assert document["by_kind"] == {"env": 8, "interrupted": 1}
    assert set(document["verdicts"]) == {"on_path", "off_path", "abstain"}
    assert sum(document["verdicts"].values()) == 9
    assert document["verdicts"]["off_path"] == 1
    coverage = document["coverage"]
    assert set(coverage) == {"steps_above_zero", "mean", "by_tool"}
    assert isinstance(coverage["steps_above_zero"], int)
    assert 0 < coverage["mean"] <= 1
    assert {name: type(value) for name, value in coverage["by_tool"]["bash"].items()} == {
        "steps": int, "above_zero": int, "mean": float, "status_checked": int,
    }  # fmt: skip
    assert coverage["by_tool"]["bash"]["steps"] == 8
    assert document["reasons"]["not_env"] == 1
    assert set(document["reasons"]) <= set(Abstain)
    assert set(document["by_tool"]["bash"]) == {"steps", *VerdictKind}
    assert document["tokens"] == dict.fromkeys(("prompt", "cached", "scored", "generated", "computed", "new"), 0)
    assert (document["model"], document["asked"]) == (None, 0)
    assert {name: type(value) for name, value in document["seconds"].items()} == dict.fromkeys(
        ("wall", "p50", "p95", "p99"), float
    )
    assert "off path" in done.stderr


def test_an_off_path_step_is_shown_as_a_card(tmp_path: Path) -> None:
    """Where it stands, what was asked, predicted against observed, why; then the summary. No line ends in blanks."""
    log = write(tmp_path / "a.jsonl", *wrong_once(counter("t", 8), 6, "9 notes.txt\n"))
    done = verifierd("replay", log)
    lines = done.stdout.splitlines()
    assert lines[:6] == [
        "✗ off path  t #6  bash",
        lines[1],
        "  $ wc -l notes.txt",
        "  predicted │ 2 notes.txt",
        "   observed │ 9 notes.txt",
        "  contradiction: expected “2”, observed “9”  (characters 0 to 1)",
    ]
    assert lines[1].startswith(f"  in {log}, at byte ")
    assert any(line.startswith("8 steps of 1 trajectory in ") for line in lines)
    assert ["✗", "off", "path", "1", "12", "%"] in [line.split() for line in lines]
    assert any(line.split() == ["tool", "steps", "on", "path", "off", "path", "abstain", "checked"] for line in lines)
    assert all(line == line.rstrip() for line in lines)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(("listed", "shown"), [("off_path", "✗"), ("abstain", "·"), ("all", "✓·✗")])
def test_the_list_is_what_was_asked_for(tmp_path: Path, listed: str, shown: str) -> None:
    """`--list` chooses which steps are shown; the summary is always there."""
    lines = [*echo("t", 2), native("t", 3, "date", "today\n"), native("t", 4, "echo x", "y\n", exit_code=0)]
    done = verifierd("replay", write(tmp_path / "a.jsonl", *lines), "--list", listed)
    steps = done.stdout.split("4 steps of")[0]
    assert {mark for mark in "✓·✗" if f"{mark} " in steps} == set(shown)


def test_verdicts_go_to_a_file(tmp_path: Path) -> None:
    """`--out` holds one line a step, in order; an old file is replaced, and it is its owner's alone."""
    log = write(tmp_path / "a.jsonl", *counter("t", 6))
    out = tmp_path / "out.jsonl"
    out.write_text("old\n")
    for _ in range(2):
        assert verifierd("replay", log, "--out", out, "--json").returncode == 0
        found = read_verdicts(out)
        assert [(v["schema"], v["seq"], v["step"]) for v in found] == [(1, n, n) for n in range(1, 7)]
    assert agrees((v["step"], v["verdict"]) for v in found)
    assert found[0]["origin"] == {"path": str(log), "offset": 0}
    assert out.stat().st_mode & 0o777 == 0o600


def test_a_report_is_written(tmp_path: Path) -> None:
    """`--report` makes one file that stands alone; damage shows in it, and a run that cannot begin leaves none."""
    log = write(tmp_path / "a.jsonl", *wrong_once(counter("t", 8), 6, "9 notes.txt\n"))
    log.write_bytes(log.read_bytes() + b"{broken\n")
    page = tmp_path / "a.html"
    options = ("--json", "--report", page)

    assert verifierd("replay", log, *options, "--policy", "./none.toml").returncode == 78
    assert not page.exists()
    assert json.loads(verifierd("replay", log, *options).stdout)["steps"] == 8
    found = page.read_text(encoding="utf-8")
    assert "verifierd judged 8 steps of 1 trajectory." in found
    assert "1. Alarm: contradiction" in found
    assert re.search(r'<mark class="decided "[^>]*>9</mark> notes.txt', found)
    assert "1 line could not be read, nor judged: not json 1." in found
    assert f"replay {log} --json --report {page}" in found


def test_another_policy_decides_otherwise(tmp_path: Path) -> None:
    """Colours are taken off by the default policy; the strict one compares them."""
    log = write(tmp_path / "a.jsonl", native("t", 1, "echo hello", "\x1b[32mhello\x1b[0m\n", exit_code=0))
    found = {}
    for policy in ("default", "strict"):
        done = verifierd("replay", log, "--json", "--policy", policy, "--out", tmp_path / "out.jsonl")
        found[policy] = json.loads(done.stdout)["verdicts"]
        assert read_verdicts(tmp_path / "out.jsonl")[0]["policy"].startswith(f"{policy}@")
    assert found["default"]["on_path"] == 1
    assert found["strict"]["off_path"] == 1


def test_a_policy_of_ones_own_decides(tmp_path: Path) -> None:
    """A policy file is read; its name and hash are in the verdicts."""
    log = write(tmp_path / "a.jsonl", *echo("t", 1))
    (tmp_path / "mine.toml").write_text('name = "mine"\npredictors = ["scripted"]\n')
    verifierd("replay", log, "--policy", tmp_path / "mine.toml", "--out", tmp_path / "out.jsonl")
    (verdict,) = read_verdicts(tmp_path / "out.jsonl")
    assert (verdict["predictor"], verdict["verdict"]) == ("scripted", "abstain")
    assert verdict["policy"].startswith("mine@")


def test_recorded_predictions_are_judged(tmp_path: Path) -> None:
    """Of a model's recorded texts a right one passes; a role break and a truncated one are the simulator's failures."""
    log = write(
        tmp_path / "a.jsonl",
        *(native("t", n, f"cat file{n}", f"content {n}\nand more\n", exit_code=0) for n in range(1, 7)),
    )
    predictions: list[dict[str, Any]] = [
        {"text": "content 1\nand more\n", "model": "m"},
        {"text": '{"tool": "bash", "input": "cat file2"}'},
        {"text": "content 3\nan", "truncated": True},
        {"text": "something else\n"},
        {"text": "something else\n", "certain": True},
    ]
    write(tmp_path / "p.jsonl", *({"trajectory": "t", "step": n, **p} for n, p in enumerate(predictions, 1)))
    done = verifierd(
        "replay", log, "--json", "--predictor", "recorded", "--predictions", tmp_path / "p.jsonl",
        "--out", tmp_path / "out.jsonl",
    )  # fmt: skip
    assert done.returncode == 0
    found = [(v["verdict"], v["reason"]) for v in read_verdicts(tmp_path / "out.jsonl")]
    assert found == [
        ("on_path", "as_predicted"),
        ("abstain", "role_break"),
        ("abstain", "truncated"),
        ("abstain", "uncalibrated"),
        ("off_path", "contradiction"),
        ("abstain", "unpredictable"),
    ]


def test_a_chain_asks_in_turn(tmp_path: Path) -> None:
    """Where the shell abstains the recorded text is taken."""
    log = write(tmp_path / "a.jsonl", *echo("t", 1), native("t", 2, "date", "now\n", exit_code=0))
    write(tmp_path / "p.jsonl", {"trajectory": "t", "step": 2, "text": "now\n"})
    verifierd(
        "replay", log, "--predictor", "shell,recorded", "--predictions", tmp_path / "p.jsonl",
        "--out", tmp_path / "out.jsonl",
    )  # fmt: skip
    assert [(v["predictor"], v["verdict"]) for v in read_verdicts(tmp_path / "out.jsonl")] == [
        ("shell", "on_path"),
        ("recorded", "on_path"),
    ]


def test_a_model_is_asked_about_what_the_others_leave_open(tmp_path: Path) -> None:
    """Who names a model has it asked last; what it costs and that it is a random one is told wherever it is named."""
    pytest.importorskip("mlx_lm")
    for domain in DOMAINS:
        (tmp_path / "prompts" / domain).mkdir(parents=True)
        (tmp_path / "prompts" / domain / "system_prompt.txt").write_text("You are a terminal.\n")
    log = write(tmp_path / "a.jsonl", *echo("t", 2), native("t", 3, "frobnicate", "done\n", exit_code=0))
    options = ("--model", "tiny", "--prompts", tmp_path / "prompts", "--out", tmp_path / "out.jsonl")

    done = verifierd("replay", log, *options, "--list", "all")

    assert done.returncode == 0, done.stderr
    *_, name = (verdict["model"] for verdict in read_verdicts(tmp_path / "out.jsonl"))
    assert [(v["predictor"], v["model"]) for v in read_verdicts(tmp_path / "out.jsonl")] == [
        ("shell", None),
        ("shell", None),
        ("mlx", name),
    ]
    assert name.startswith("tiny@")
    assert name.endswith("(random weights)")
    assert f"asked {name} about 1 step, " in done.stdout
    assert re.search(r"^· t #3  (role_break|uncalibrated)  frobnicate  the model ", done.stdout, re.MULTILINE)
    assert f"{name} needs about" in done.stderr
    document = json.loads(verifierd("replay", log, *options, "--json").stdout)
    (tokens,) = (v["tokens"] for v in read_verdicts(tmp_path / "out.jsonl") if v["model"])
    assert (document["model"], document["asked"], document["tokens"]) == (name, 1, tokens)
    assert tokens["computed"] < 1000  # the bundled prompts would be longer
    assert tokens["generated"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "./none"), "./none: no folder with a model"),
        (("--model", "tiny", "--prompts", "./none"), "none"),
        (("--predictor", "shell,nonsense", "--model", "tiny"), "no predictor is called `nonsense`"),
    ],
)
def test_a_model_that_cannot_be_had_ends_it(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    """Before anything is judged, with what is wrong and no traceback."""
    pytest.importorskip("mlx_lm")
    done = verifierd("replay", write(tmp_path / "a.jsonl", *echo("t", 2)), *options)
    assert done.returncode in (1, 2, 78)
    assert done.stdout == ""
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_limit_is_kept(tmp_path: Path) -> None:
    """`--limit` judges that many steps over all files."""
    for name in "ab":
        write(tmp_path / f"{name}.jsonl", *echo(name, 5))
    done = verifierd("replay", tmp_path, "--json", "--limit", "7")
    assert json.loads(done.stdout)["steps"] == 7


def test_standard_input_is_read(tmp_path: Path) -> None:
    """`-` is a log, too, an unterminated last line included."""
    del tmp_path
    done = verifierd("replay", "-", "--json", stdin=jsonl(*echo("t", 3)).rstrip(b"\n"))
    assert json.loads(done.stdout)["steps"] == 3


def test_formats_meet_in_one_folder(tmp_path: Path) -> None:
    """Native, Claude Code and Codex logs in one folder are told apart by their shape."""
    write(tmp_path / "n.jsonl", *echo("t", 2))
    write(tmp_path / "c.jsonl", *claude("s", [("toolu_01", "echo a", "a"), ("toolu_02", "pwd", "/home/user")]))
    write(tmp_path / "x.jsonl", *codex("r", [("call_1", "echo b", "b\n")]))
    document = json.loads(verifierd("replay", tmp_path, "--json").stdout)
    assert (document["trajectories"], document["steps"]) == (3, 5)
    assert {name: counts["steps"] for name, counts in document["by_tool"].items()} == {
        "bash": 2,
        "Bash": 2,
        "exec_command": 1,
    }


def test_hostile_text_is_shown_harmlessly(tmp_path: Path) -> None:
    """Escapes, markup and line breaks in names, commands and outputs reach the screen as visible text only."""
    nasty = "\x1b]0;owned\x07[bold red]x[/bold red]\u202e"
    log = write(
        tmp_path / "a.jsonl",
        native(f"t{nasty}\nfake line", 1, "echo hello", f"{nasty}\n", exit_code=0),
        native(f"t{nasty}\nfake line", 2, f"date {nasty}", "x\n", tool=f"tool{nasty}"),
    )
    done = verifierd("replay", log, "--list", "all")
    assert done.returncode == 0
    assert not set("\x1b\x07\u202e") & set(done.stdout)
    assert "[bold red]x[/bold red]" in done.stdout
    assert not any(line.startswith("fake line") for line in done.stdout.splitlines())


def test_an_unreadable_file_among_many_does_not_hide_the_rest(tmp_path: Path) -> None:
    """A folder with an empty file and a diary is judged; the two are told."""
    write(tmp_path / "a.jsonl", *echo("t", 2))
    (tmp_path / "b.jsonl").touch()
    (tmp_path / "c.jsonl").write_text("dear diary\n")
    done = verifierd("replay", tmp_path, "--json")
    assert (done.returncode, json.loads(done.stdout)["steps"]) == (0, 2)
    assert "b.jsonl: is empty" in done.stderr
    assert "c.jsonl: is in no format" in done.stderr
