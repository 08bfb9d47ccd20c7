"""`verifierd inspect`: what is in logs."""

import json
import os
from pathlib import Path

from tests.helpers import claude, echo, jsonl, native, verifierd


def test_the_json_is_the_contracts(tmp_path: Path) -> None:
    """A file has every key of the contract, and the total adds the files up."""
    calls = [("toolu_01", "ls", "a\n"), ("toolu_02", "pwd", "/home/user\n")]
    open_call = claude("s", [*calls, ("toolu_03", "sleep 9", "")])[:-1]
    (tmp_path / "c.jsonl").write_bytes(jsonl(*open_call, {"type": "mystery", "sessionId": "s", "uuid": "x"}))
    (tmp_path / "n.jsonl").write_bytes(jsonl(*echo("t", 2), native("u", 1, "x", "", observation_kind="poll")) + b"{\n")
    done = verifierd("inspect", "--json", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert set(document) == {"files", "total"}
    keys = {
        "path", "format", "version", "trajectories", "steps", "calls", "paired", "by_kind", "by_tool",
        "unknown_records", "quarantined",
    }  # fmt: skip
    transcript, steps = document["files"]
    assert keys <= set(transcript)
    assert (transcript["path"], transcript["format"], transcript["version"]) == (
        str(tmp_path / "c.jsonl"), "claude_code", "2.1.30",
    )  # fmt: skip
    assert (transcript["steps"], transcript["calls"], transcript["paired"]) == (3, 3, 2)
    assert transcript["by_kind"] == {"env": 2, "missing": 1}
    assert transcript["by_tool"] == {"Bash": 3}
    assert transcript["unknown_records"] == {"mystery": 1}
    assert (steps["format"], steps["trajectories"], steps["by_kind"]) == ("native", 2, {"env": 2, "poll": 1})
    assert steps["quarantined"] == {"not_json": 1}
    assert document["total"]["files"] == 2
    assert (document["total"]["steps"], document["total"]["calls"], document["total"]["paired"]) == (6, 6, 5)
    assert document["total"]["by_kind"] == {"env": 4, "missing": 1, "poll": 1}


def test_a_person_reads_a_few_lines_a_file(tmp_path: Path) -> None:
    """The path stands whole on a line of its own; the numbers follow with their words."""
    folder = tmp_path / ("deep" * 20)
    folder.mkdir()
    path = folder / "a.jsonl"
    path.write_bytes(jsonl(*echo("t", 2), native("t", 3, "sleep 9", "", observation_kind="still_running")) + b"{\n")
    done = verifierd("inspect", path, env={"COLUMNS": "80"})
    assert done.stdout.splitlines() == [
        str(path),
        "    native, 1 trajectory, 3 steps (3 shell), 3 of 3 calls paired",
        "    tools: bash 3",
        "    not judged: still_running 1",
        "    unread lines: not_json 1",
        "    others: step 3: a command was left running",
    ]


def test_a_session_s_habits_are_shown(tmp_path: Path) -> None:
    """Each with its reason, in words and in JSON; the contract's keys stay."""
    path = tmp_path / "c.jsonl"
    path.write_bytes(jsonl(*claude("s", [("toolu_01", "git add a", "ok \u2713 1 file changed, 1 insertion(+)\n")])))

    assert "    rewritten: step 1: `git` printed" in verifierd("inspect", path).stdout
    profile = json.loads(verifierd("inspect", "--json", path).stdout)["files"][0]["profile"]

    assert [(habit["habit"], habit["trajectories"]) for habit in profile] == [("rewritten", 1)]


def test_several_files_are_added_up(tmp_path: Path) -> None:
    """After two files and more comes their total."""
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_bytes(jsonl(*echo(name, 2)))
    lines = verifierd("inspect", tmp_path).stdout.splitlines()
    assert lines[-3:-1] == ["2 files", "    all, 2 trajectories, 4 steps (4 shell), 4 of 4 calls paired"]


def test_standard_input_is_inspected(tmp_path: Path) -> None:
    """`-` is a file like others."""
    del tmp_path
    done = verifierd("inspect", "-", "--json", stdin=jsonl(*echo("t", 2)))
    assert json.loads(done.stdout)["files"][0]["path"] == "-"


def test_hostile_names_are_shown_harmlessly(tmp_path: Path) -> None:
    """Escapes in a file's name do not reach the terminal, nor does a line break in it fake a line."""
    path = tmp_path / "a\x1b[2J\nfake.jsonl"
    path.write_bytes(jsonl(native("t", 1, "x", "y", tool="evil\x1b[2J")))
    done = verifierd("inspect", path, tmp_path / "none\x1b[2J.jsonl")
    assert "\x1b" not in done.stdout + done.stderr
    assert not any(line.startswith("fake") for line in done.stdout.splitlines())


def test_secrets_and_odd_bytes_in_names_are_not_shown(tmp_path: Path) -> None:
    """Names of files, tools and record types go through the sanitiser, in words and in JSON."""
    key = "AKIA" + "QWERTYUIOPASDFGH"
    folder = tmp_path / key
    folder.mkdir()
    path = os.path.join(os.fsencode(folder), b"a\xff.jsonl")  # noqa: PTH118 - a name that is no text
    try:
        Path(os.fsdecode(path)).write_bytes(jsonl(native("t", 1, "x", "y", tool=f"evil {key}\x9b"), {"event": key}))
    except OSError:  # macOS takes no such name
        (folder / "a.jsonl").write_bytes(jsonl(native("t", 1, "x", "y", tool=f"evil {key}\x9b"), {"event": key}))
    for arguments in (["--json"], []):
        done = verifierd("inspect", folder, *arguments)
        assert done.returncode == 0
        assert key not in done.stdout + done.stderr
        assert "\x9b" not in done.stdout
        assert "evil [redacted:aws:" in done.stdout
