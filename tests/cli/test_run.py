"""`verifierd run` as a person meets it; what the daemon does is in `tests/test_daemon.py`."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import counter, echo, jsonl, native, read_verdicts, verifierd, wrong_once


def on_terminal(*arguments: str | Path) -> str:
    """What the command shows on a terminal of 80 columns, on both its outputs; colours stay in."""
    reader, writer = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "verifierd", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=writer,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"},
    )
    os.close(writer)
    shown = b""
    while True:
        try:
            chunk = os.read(reader, 65536)
        except OSError:  # Linux says so that the other side has closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(reader)
    assert process.wait(30) == 0, shown
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_shows_places_steps_and_a_summary(tmp_path: Path) -> None:
    """Where verdicts and state are; a line for a step on path, a card for one off it, one line for many undecided."""
    lines = wrong_once(counter("t", 6), 6, "9 notes.txt\n")
    lines += [native("u", n, f"date +%{n}", f"{n}\n") for n in range(1, 9)]
    (tmp_path / "a.jsonl").write_bytes(jsonl(*lines))
    shown = on_terminal("run", "--once", tmp_path / "a.jsonl", "--state", tmp_path / "state")
    assert "\x1b[" in shown, "coloured"
    plain = "".join(part.partition("m")[2] if n else part for n, part in enumerate(shown.split("\x1b[")))
    rows = plain.splitlines()
    assert f" verdicts  {tmp_path}/state/verdicts.jsonl" in rows
    assert f"    state  {tmp_path}/state" in rows
    assert "✓ t #4  wc -l notes.txt" in rows
    assert "✗ off path  t #6  bash" in rows
    assert any(row.startswith("! alarm  t #6  evidence 1 is above 0; it seems to go wrong at #6") for row in rows)
    assert any(row.startswith("· u #") and "unpredictable" in row for row in rows)
    assert sum(row.startswith("· u #") for row in rows) < 8
    assert any(row.startswith("14 steps of 2 trajectories in ") for row in rows)


def test_a_second_run_says_what_is_there_from_before(tmp_path: Path) -> None:
    """Nothing is judged twice, so that a person should not wonder at an empty screen."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 3)))
    arguments = ("run", "--once", tmp_path / "a.jsonl", "--state", tmp_path / "state")
    assert "from before" not in on_terminal(*arguments)
    shown = on_terminal(*arguments)
    assert "verdicts.jsonl  (3 from before)" in shown
    assert "no new step" in shown


def test_a_long_command_is_cut_at_the_edge_of_the_terminal(tmp_path: Path) -> None:
    """A step is one row, however long its command is."""
    word = "word" * 50
    (tmp_path / "a.jsonl").write_bytes(jsonl(native("t", 1, f"echo {word}", f"{word}\n", exit_code=0)))
    shown = on_terminal("replay", "--list", "all", tmp_path / "a.jsonl")
    assert "…" in shown
    assert word not in shown


def test_a_pipe_gets_events_and_the_summary(tmp_path: Path) -> None:
    """Elsewhere than on a terminal the log is JSON: where things are, each step off path, and counts."""
    lines = wrong_once(counter("t", 6), 6, "9 notes.txt\n")
    (tmp_path / "a.jsonl").write_bytes(jsonl(*lines))
    done = verifierd("run", "--once", tmp_path / "a.jsonl", "--state", tmp_path / "state")
    events = {event["event"]: event for event in map(json.loads, done.stderr.splitlines())}
    assert events["started"]["verdicts"] == str(tmp_path / "state" / "verdicts.jsonl")
    assert events["started"]["watched"] == [str(tmp_path / "a.jsonl")]
    assert (events["step_off_path"]["trajectory"], events["step_off_path"]["step"]) == ("t", 6)
    assert events["steps_verified"]["off_path"] == 1
    assert done.stdout.startswith("6 steps of 1 trajectory in ")
    assert "\x1b" not in done.stdout + done.stderr


def test_the_json_is_the_summary(tmp_path: Path) -> None:
    """With --json standard output is one document of the shape that `replay` prints."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 3)))
    done = verifierd("run", "--once", "--json", tmp_path / "a.jsonl", "--state", tmp_path / "state")
    document = json.loads(done.stdout)
    assert (document["steps"], document["verdicts"]["on_path"]) == (3, 3)


def test_relative_paths_mean_the_same_file_from_everywhere(tmp_path: Path) -> None:
    """The state knows files by their whole path: another working directory adds no verdict."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 3)))
    for folder, name in (
        (tmp_path, "a.jsonl"),
        (tmp_path / "sub", "../a.jsonl"),
        (tmp_path, str(tmp_path / "a.jsonl")),
    ):
        subprocess.run(
            [sys.executable, "-m", "verifierd", "run", "--once", name, "--state", tmp_path / "state"],
            cwd=folder,
            capture_output=True,
            check=True,
        )
    assert len(read_verdicts(tmp_path / "state" / "verdicts.jsonl")) == 3


def test_the_configuration_says_what_is_watched(tmp_path: Path) -> None:
    """Sources, policy, quotes and state come from the file; its relative paths start where it stands."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_bytes(jsonl(*echo("t", 2)))
    (tmp_path / "logs" / "b.jsonl").write_bytes(jsonl(*echo("left out", 2)))
    config = tmp_path / "c.toml"
    config.write_text(
        'policy = "strict"\nquotes = "off"\n[state]\ndir = "kept"\n'
        '[[sources]]\npaths = ["logs"]\nexclude = ["b.*"]\nfrom = "beginning"\n'
    )
    assert verifierd("run", "--once", "--config", config).returncode == 0
    found = read_verdicts(tmp_path / "kept" / "verdicts.jsonl")
    assert [(v["trajectory"], v["step"]) for v in found] == [("t", 1), ("t", 2)]
    assert found[0]["policy"].startswith("strict@")
    assert "word-1" not in (tmp_path / "kept" / "verdicts.jsonl").read_text()


def test_the_agents_own_folders_are_watched_without_a_path(tmp_path: Path) -> None:
    """Where the agents keep their sessions is looked up, and moved by their own variables."""
    folder = tmp_path / "codex" / "sessions" / "2026"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_bytes(jsonl(*echo("t", 2)))
    home = {"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "codex"), "CLAUDE_CONFIG_DIR": str(tmp_path / "none")}
    done = verifierd("run", "--once", "--state", tmp_path / "state", env=home)
    assert done.returncode == 0
    assert len(read_verdicts(tmp_path / "state" / "verdicts.jsonl")) == 2


def test_a_model_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """The refusal names the flag that loads it all the same."""
    pytest.importorskip("mlx_lm")
    log = tmp_path / "a.jsonl"
    log.write_bytes(jsonl(*echo("t", 1)))
    config = tmp_path / "verifierd.toml"
    config.write_text(
        f'[model]\nname = "tiny"\ncontext-tokens = 1000000000\n[[sources]]\npaths = ["{log}"]\nfrom = "beginning"\n'
    )
    options = ("run", "--once", "--config", config, "--state", tmp_path / "state")

    refused = verifierd(*options)
    loaded = verifierd(*options, "--memory-override", "--out", tmp_path / "out.jsonl")

    assert refused.returncode != 0
    assert "--memory-override" in refused.stderr
    assert loaded.returncode == 0, loaded.stderr
    assert [v["verdict"] for v in read_verdicts(tmp_path / "out.jsonl")] == ["on_path"]
