"""The command as a whole: help, exit codes, and bad input that is told in one message, never in a traceback."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import echo, jsonl, read_verdicts, verifierd

HEAVY = ("anyio", "bashkit", "mlx", "msgspec", "prometheus_client", "rich", "starlette", "structlog", "uvicorn")

Make = Callable[[Path], str]


def log_file(folder: Path, data: bytes) -> str:
    """A log of that content."""
    path = folder / "a.jsonl"
    path.write_bytes(data)
    return str(path)


def loop(folder: Path) -> str:
    """A symbolic link to itself: nobody may read it, root included."""
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    return str(folder / "loop.jsonl")


def archive(folder: Path) -> str:
    """A log packed in a way that is not read."""
    (folder / "a.jsonl.zst").write_bytes(b"(\xb5/\xfd")
    return str(folder / "a.jsonl.zst")


def empty_folder(folder: Path) -> str:
    """A folder without logs."""
    (folder / "empty").mkdir()
    (folder / "empty" / "notes.txt").write_text("no log")
    return str(folder / "empty")


UNREADABLE: dict[str, tuple[Make, str]] = {
    "missing": (lambda folder: str(folder / "nowhere.jsonl"), "nowhere.jsonl: does not exist"),
    "link loop": (loop, "loop.jsonl: is a symbolic link that leads back to itself"),
    "no logs": (empty_folder, "no agent logs in"),
    "empty": (lambda folder: log_file(folder, b""), "a.jsonl: is empty"),
    "blank": (lambda folder: log_file(folder, b"\n  \n\n"), "a.jsonl: is empty"),
    "unknown format": (lambda folder: log_file(folder, b"dear diary\n"), "a.jsonl: is in no format"),
    "other json": (lambda folder: log_file(folder, b'{"price": 3}\n[1]\n'), "a.jsonl: is in no format"),
    "archive": (archive, "zst archives are not read"),
}

MISNAMED = ("missing", "link loop", "no logs", "archive")
"""Those of them where the very path is wrong; an empty or foreign file among others is no failure."""

GOOD = [jsonl(line) for line in echo("t", 3)]
DAMAGED: dict[str, tuple[bytes, str]] = {
    "broken line": (GOOD[0] + b'{"trajectory": "t", "step": \n' + GOOD[1] + GOOD[2], "not_json"),
    "half at the end": (b"".join(GOOD) + b'{"trajectory": "t", "st', "torn_tail"),
    "invalid UTF-8": (GOOD[0] + b'{"trajectory": "\xff\xfe", "act\n' + GOOD[1] + GOOD[2], "not_"),
    "NUL runs": (GOOD[0] + b"\0" * 5000 + b"\n" + GOOD[1] + GOOD[2], ""),
    "no object": (GOOD[0] + b"[1, 2]\n" + GOOD[1] + GOOD[2], "not_object"),
    "wrong type": (GOOD[0] + b'{"trajectory": "t", "action": 3}\n' + GOOD[1] + GOOD[2], "bad_shape"),
    "deep nesting": (GOOD[0] + b"[" * 100_000 + b"\n" + GOOD[1] + GOOD[2], ""),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_cannot_be_read_is_told_and_the_rest_goes_on(tmp_path: Path, kind: str) -> None:
    """One message with place and remedy; the good file beside it is judged all the same."""
    make, message = UNREADABLE[kind]
    (tmp_path / "good.jsonl").write_bytes(b"".join(GOOD))
    both = verifierd("replay", "--json", make(tmp_path), tmp_path / "good.jsonl")
    assert message in both.stderr
    assert both.stderr.count("verifierd: ") == 1
    assert len(both.stderr.splitlines()) == 2, "message and remedy"
    assert json.loads(both.stdout)["steps"] == 3
    assert both.returncode == (1 if kind in MISNAMED else 0)


def test_inspect_tells_what_cannot_be_read_and_goes_on(tmp_path: Path) -> None:
    """Of many bad inputs each has its message, and the good one among them its count."""
    bad = []
    for kind, (make, _) in UNREADABLE.items():
        (tmp_path / kind).mkdir()
        bad.append(make(tmp_path / kind))
    (tmp_path / "good.jsonl").write_bytes(b"".join(GOOD))
    done = verifierd("inspect", "--json", *bad, tmp_path / "good.jsonl")
    assert done.returncode == 1
    assert json.loads(done.stdout)["total"]["steps"] == 3
    assert all(message in done.stderr for _, message in UNREADABLE.values())
    assert done.stderr.count("verifierd: ") == len(bad)


@pytest.mark.parametrize(("command", "kind"), [("replay", "missing"), ("replay", "empty"), ("inspect", "no logs")])
def test_nothing_read_is_a_failure(tmp_path: Path, command: str, kind: str) -> None:
    """Where nothing at all could be read the exit code is 1, and standard output stays empty."""
    make, message = UNREADABLE[kind]
    alone = verifierd(command, make(tmp_path))
    assert (alone.returncode, alone.stdout) == (1, "")
    assert message in alone.stderr


@pytest.mark.parametrize("kind", ["missing", "archive"])
def test_a_run_tells_what_cannot_be_read_and_goes_on(tmp_path: Path, kind: str) -> None:
    """`run --once` judges the good file beside a bad path, names the bad one, and says so by its exit code."""
    make, message = UNREADABLE[kind]
    (tmp_path / "good.jsonl").write_bytes(b"".join(GOOD))
    both = verifierd("run", "--once", make(tmp_path), tmp_path / "good.jsonl", "--state", tmp_path / "state")
    assert both.returncode == 1
    assert message in both.stderr
    assert len(read_verdicts(tmp_path / "state" / "verdicts.jsonl")) == 3


@pytest.mark.parametrize("kind", ["link loop", "no logs"])
def test_a_run_with_nothing_to_read_fails(tmp_path: Path, kind: str) -> None:
    """`run --once` on nothing but a bad path is one message and exit code 1."""
    make, message = UNREADABLE[kind]
    alone = verifierd("run", "--once", make(tmp_path), "--state", tmp_path / "state")
    assert alone.returncode == 1
    assert message in alone.stderr
    assert len(alone.stderr.splitlines()) == 2, "message and remedy"


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_in_a_log_is_counted_and_the_rest_is_judged(tmp_path: Path, kind: str) -> None:
    """Bad lines are quarantined with a reason that `inspect` names; the good steps around them have their verdicts."""
    data, reason = DAMAGED[kind]
    path = log_file(tmp_path, data)
    seen = verifierd("inspect", "--json", path)
    total = json.loads(seen.stdout)["total"]
    assert (seen.returncode, total["steps"]) == (0, 3)
    assert any(reason in name for name in total["quarantined"]) or not reason
    ran = verifierd("run", "--once", path, "--state", tmp_path / "state")
    assert ran.returncode == 0
    assert len(read_verdicts(tmp_path / "state" / "verdicts.jsonl")) == 3


def test_lone_surrogates_are_read_and_shown(tmp_path: Path) -> None:
    """Half a character in a name or a text stops nothing, and what is written is UTF-8."""
    line = b'{"trajectory": "\\ud800", "step": 1, "action": "echo \\udfff", "observation": "\\ud83d\\n"}\n'
    path = log_file(tmp_path, line + GOOD[0])
    done = verifierd("replay", path, "--list", "all", "--out", tmp_path / "out.jsonl")
    assert done.returncode == 0
    assert len(read_verdicts(tmp_path / "out.jsonl")) == 2
    (tmp_path / "out.jsonl").read_bytes().decode("utf-8")
    assert verifierd("run", "--once", path, "--state", tmp_path / "state").returncode == 0


def test_a_line_of_twenty_megabytes_is_passed_over(tmp_path: Path) -> None:
    """A line over `max-line-bytes` is counted; the steps around it are judged."""
    path = log_file(tmp_path, GOOD[0] + b'{"x": "' + b"y" * 20_000_000 + b'"}\n' + GOOD[1] + GOOD[2])
    config = tmp_path / "c.toml"
    config.write_text(f'max-line-bytes = 4096\n[[sources]]\npaths = ["{path}"]\nfrom = "beginning"\n')
    ran = verifierd("run", "--once", "--config", config, "--state", tmp_path / "state")
    assert ran.returncode == 0
    assert len(read_verdicts(tmp_path / "state" / "verdicts.jsonl")) == 3
    seen = json.loads(verifierd("inspect", "--json", path).stdout)["total"]
    assert (seen["steps"], seen["quarantined"]) == (3, {"too_long": 1})


def test_a_trajectory_without_a_shell_abstains(tmp_path: Path) -> None:
    """Steps of other tools are recorded and not decided, without complaint."""
    steps = [
        {"trajectory": "t", "step": n, "action": {"tool": "browser", "input": {"url": "x"}}, "observation": "page"}
        for n in (1, 2)
    ]
    done = verifierd("replay", "--json", log_file(tmp_path, jsonl(*steps)))
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert document["verdicts"] == {"on_path": 0, "off_path": 0, "abstain": 2}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "--once", "LOG", "--from", "nonsense"], 2, "`nonsense` is not `beginning`, `end` or a duration"),
        (["run", "--from", "nonsense"], 2, "`nonsense` is not `beginning`, `end` or a duration"),
        (["run", "--once", "LOG", "--port", "70000"], 2, "--port"),
        (["run", "--once", "LOG", "--policy", "nonsense"], 78, "no policy is called `nonsense`"),
        (["run", "--once", "LOG", "--policy", "./nowhere.toml"], 78, "cannot read the policy"),
        (["run", "--config", "nowhere.toml"], 78, "nowhere.toml: cannot read the configuration"),
        (["replay", "LOG", "--policy", "nonsense"], 78, "Bundled policies: default, mcp, shadow, strict"),
        (["replay", "LOG", "--predictor", "nonsense"], 2, "no predictor is called `nonsense`"),
        (["replay", "LOG", "--predictor", "shell,oracle"], 2, "no predictor is called `oracle`"),
        (["replay", "LOG", "--predictor", "recorded"], 1, "--predictions"),
        (["replay", "LOG", "--predictor", "recorded", "--predictions", "none.jsonl"], 1, "none.jsonl: cannot read"),
        (["replay", "LOG", "--format", "nonsense"], 2, "no format is called `nonsense`"),
        (["inspect", "LOG", "--format", "nonsense"], 2, "known ones: auto, native, claude_code, codex"),
        (["replay", "LOG", "--limit", "0"], 2, "--limit"),
        (["replay", "LOG", "--list", "nonsense"], 2, "off_path"),
        (["run", "--once", "LOG", "--out", "LOG"], 2, "is one of the inputs"),
        (["replay", "LOG", "--out", "LOG"], 2, "is one of the inputs"),
        (["replay", "LOG", "--report", "LOG"], 2, "is one of the inputs"),
        (["replay", "-", "--predictions", "LOG", "--out", "LOG"], 2, "is one of the inputs"),
        (["replay", "-", "--policy", "LOG", "--out", "LOG"], 2, "is one of the inputs"),
        (["replay", "LOG", "--out", "both", "--report", "both"], 2, "both is what --out names"),
        (["replay", "LOG", "--report", "/nowhere/a.html"], 78, "/nowhere/a.html: cannot be written"),
        (["replay", "LOG", "--out", "/nowhere/out.jsonl"], 78, "--out FILE"),
        (["replay"], 2, "PATH"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["replay", "--nonsense"], 2, "No such option"),
        (["policies", "show", "nonsense"], 78, "no policy is called `nonsense`"),
    ],
)
def test_wrong_arguments_are_told_in_one_message(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    """Usage is 2, a bad setting 78, a failure 1; the message names the thing and what could be said instead."""
    path = log_file(tmp_path, b"".join(GOOD))
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    done = verifierd(*(path if argument == "LOG" else argument for argument in arguments), env=home)
    assert done.returncode == code
    assert message in " ".join(done.stderr.split())
    assert done.stdout == ""
    assert Path(path).read_bytes() == b"".join(GOOD)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("polcy = 'default'\n", "Did you mean `policy`?"),
        ("grace = 'soon'\n", "Expected `float`, got `str` - at `$.grace`"),
        ("grace = \n", "not TOML"),
        ("policy = 'nonsense'\n[[sources]]\npaths = ['a.jsonl']\n", "no policy is called `nonsense`"),
        ("predictor = 'nonsense'\n", "`predictor` is `nonsense`, which is not known"),
        ("[shadow]\nkinds = ['stale', 'nonsense']\n", "`shadow.kinds` is `nonsense`, which is not known"),
        ("[[sources]]\npaths = ['a.jsonl']\nformat = 'nonsense'\n", "`sources.format` is `nonsense`"),
        ("[[sources]]\npaths = ['a.jsonl']\nfrom = 'nonsense'\n", "`nonsense` is not `beginning`"),
        ("[http]\nhost = '0.0.0.0'\n[[sources]]\npaths = ['a.jsonl']\n", "can be reached from other machines"),
    ],
)
def test_a_wrong_configuration_is_told_in_one_message(tmp_path: Path, text: str, message: str) -> None:
    """A bad key, type, value or name in the settings is exit code 78, with place and remedy."""
    log_file(tmp_path, b"".join(GOOD))
    config = tmp_path / "c.toml"
    config.write_text(text)
    done = verifierd("run", "--config", config, "--state", tmp_path / "state")
    assert done.returncode == 78
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 2 or "started" in done.stderr


def test_nothing_to_watch_is_told(tmp_path: Path) -> None:
    """Without a path, a configuration or an agent's folder there is nothing to do."""
    home = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": ""}
    done = verifierd("run", env=home)
    assert done.returncode == 78
    assert "nothing to watch" in done.stderr


def test_help_loads_nothing_heavy() -> None:
    """The list of commands needs none of their modules."""
    script = (
        "import sys\nfrom verifierd.cli import main\nsys.argv = ['verifierd', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)
    for command in ("run", "replay", "explain", "inspect", "doctor", "config", "policies"):
        assert f"  {command} " in done.stdout


@pytest.mark.parametrize("command", ["run", "replay", "explain", "inspect", "doctor", "config", "policies"])
def test_every_command_explains_itself(command: str) -> None:
    """`--help` and `-h` of each command print its usage."""
    done = verifierd(command, "-h")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: verifierd {command}")
    assert done.stderr == ""


def test_the_version_is_printed() -> None:
    """`--version` names program and version."""
    done = verifierd("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("verifierd, version ")


@pytest.mark.parametrize("arguments", [["inspect"], ["replay", "--list", "all"], ["replay", "--json"]])
def test_a_reader_who_leaves_is_no_error(tmp_path: Path, arguments: list[str]) -> None:
    """`| head -1` ends the command without a word."""
    for n in range(60):
        (tmp_path / f"{n}.jsonl").write_bytes(jsonl(*echo(f"t{n}", 3)))
    shell = f'"{sys.executable}" -m verifierd {" ".join(arguments)} --format native "{tmp_path}" | head -c 1'
    done = subprocess.run(["sh", "-c", shell], capture_output=True, check=False)
    assert (len(done.stdout), done.stderr) == (1, b"")


@pytest.mark.parametrize("arguments", [["replay", "--json"], ["inspect"]])
def test_a_closed_output_is_no_error(tmp_path: Path, arguments: list[str]) -> None:
    """With standard output closed from the start there is nobody to print for."""
    path = log_file(tmp_path, b"".join(GOOD))
    shell = f'"{sys.executable}" -m verifierd {" ".join(arguments)} "{path}" >&-'
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")  # noqa: PTH110 - a device
@pytest.mark.parametrize("arguments", [["replay", "--json"], ["inspect"], ["inspect", "--help"]])
def test_a_full_disk_is_told(tmp_path: Path, arguments: list[str]) -> None:
    """Output that cannot be written is one message and exit code 1."""
    path = log_file(tmp_path, b"".join(GOOD))
    shell = f'"{sys.executable}" -m verifierd {" ".join(arguments)} "{path}" >/dev/full'
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "verifierd: output: No space left on device\n")


def test_a_terminal_that_lacks_characters_is_no_error(tmp_path: Path) -> None:
    """In an encoding without ticks and crosses they become question marks."""
    path = log_file(tmp_path, b"".join(GOOD))
    done = verifierd("replay", "--list", "all", path, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "? t #1" in done.stdout
