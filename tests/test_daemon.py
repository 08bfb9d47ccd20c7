"""The daemon as a whole: mostly the real process, over real files."""

import fcntl
import json
import os
import pty
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from tests.helpers import Live, agrees, counter, echo, jsonl, native, read_verdicts, verifierd, wrong_once
from verifierd.composition import Choice
from verifierd.config import Config, HttpConfig, SourceConfig
from verifierd.daemon import Daemon, Started
from verifierd.store import Store
from verifierd.types import Verdict

DAY = 86400


def append(path: Path, data: bytes) -> None:
    """Write at the end of a file, as agents do."""
    with path.open("ab") as file:
        file.write(data)


def outcome(path: Path) -> list[tuple[str, int, str, str]]:
    """What a verdict file says, without when and how fast."""
    return sorted((v["trajectory"], v["step"], v["verdict"], v["reason"]) for v in read_verdicts(path))


def test_a_second_run_adds_no_verdict(tmp_path: Path) -> None:
    """`run --once` twice over the same files: the second finds nothing new and leaves the verdict file alone."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*counter("t", 10)))
    state = tmp_path / "state"
    first = verifierd("run", "--once", tmp_path / "a.jsonl", "--state", state)
    before = (state / "verdicts.jsonl").read_bytes()
    second = verifierd("run", "--once", tmp_path / "a.jsonl", "--state", state)
    assert (first.returncode, second.returncode) == (0, 0)
    assert len(before.splitlines()) == 10
    assert (state / "verdicts.jsonl").read_bytes() == before
    assert second.stdout == "no new step\n"


def test_what_was_appended_is_judged_by_the_next_run(tmp_path: Path) -> None:
    """The next `run --once` judges the new steps, from the history of the old ones."""
    lines = counter("t", 10)
    (tmp_path / "a.jsonl").write_bytes(jsonl(*lines[:5]))
    state = tmp_path / "state"
    verifierd("run", "--once", tmp_path / "a.jsonl", "--state", state)
    append(tmp_path / "a.jsonl", jsonl(*lines[5:]))
    verifierd("run", "--once", tmp_path / "a.jsonl", "--state", state)
    found = read_verdicts(state / "verdicts.jsonl")
    assert [(v["seq"], v["step"]) for v in found] == [(n, n) for n in range(1, 11)]
    assert agrees((v["step"], v["verdict"]) for v in found)


@pytest.mark.slow
def test_a_kill_at_any_moment_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Killed again and again amid 1,600 steps, the verdicts are those of an undisturbed run, each step once."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in range(4):
        lines = wrong_once(counter(f"t{name}", 400), 100 + name * 2, "1234 notes.txt\n")
        (logs / f"{name}.jsonl").write_bytes(jsonl(*lines))
    assert verifierd("run", "--once", logs, "--state", tmp_path / "calm").returncode == 0
    command: list[str | Path] = ["run", "--once", logs, "--state", tmp_path / "killed"]
    chance = random.Random(5)
    kills = 0
    for _ in range(4):
        start: list[str | Path] = [sys.executable, "-m", "verifierd", *command]
        process = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.3, 0.9))
        process.kill()
        kills += process.wait() == -signal.SIGKILL
    last = verifierd(*command)
    assert last.returncode == 0
    assert kills
    found = read_verdicts(tmp_path / "killed" / "verdicts.jsonl")
    assert [v["seq"] for v in found] == list(range(1, 1601))
    assert outcome(tmp_path / "killed" / "verdicts.jsonl") == outcome(tmp_path / "calm" / "verdicts.jsonl")
    assert len({v["step_id"] for v in found}) == 1600


def test_it_follows_files_and_serves_while_it_runs(tmp_path: Path) -> None:
    """Appended lines, halves of lines and new files are judged; the endpoint answers; SIGTERM ends with 0."""
    logs = tmp_path / "logs"
    logs.mkdir()
    lines = counter("t", 6)
    (logs / "a.jsonl").write_bytes(jsonl(*lines[:2]))
    with Live(tmp_path / "state", logs, "--port", "0") as daemon:
        daemon.wait(lambda: len(daemon.steps) == 2)
        half = jsonl(lines[2])
        append(logs / "a.jsonl", half[:20])
        (logs / "b.jsonl").write_bytes(jsonl(*echo("new", 1)))
        daemon.wait(lambda: ("new", 1) in daemon.steps)
        assert ("t", 3) not in daemon.steps
        append(logs / "a.jsonl", half[20:] + jsonl(*lines[3:]))
        daemon.wait(lambda: len(daemon.steps) == 7)
        assert daemon.get("/livez") == (200, '{"live":true}')
        assert daemon.get("/readyz")[0] == 200
        scrape = daemon.get("/metrics")[1]
        assert 'verifierd_source_records_total{format="native",result="ok"} 7.0' in scrape
        for measured in ("state_free_bytes", "state_database_bytes"):
            assert re.search(rf"^verifierd_{measured} [1-9]", scrape, re.MULTILINE)
        served = json.loads(daemon.get("/api/verdicts?limit=3")[1])["verdicts"]
        assert len(served) == 3
        assert served[0]["seq"] == 7
        assert daemon.stop() == 0
    assert [step for name, step in daemon.steps if name == "t"] == [1, 2, 3, 4, 5, 6]
    assert agrees((v["step"], v["verdict"]) for v in read_verdicts(daemon.out) if v["trajectory"] == "t")


def test_a_file_rewritten_while_it_runs_is_read_anew(tmp_path: Path) -> None:
    """A file that another one replaces is judged from its own start."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*counter("t", 4)))
    with Live(tmp_path / "state", path, "--port", "0") as daemon:
        daemon.wait(lambda: len(daemon.steps) == 4)
        draft = tmp_path / "draft"
        draft.write_bytes(jsonl(*counter("t", 4, word="other"), *counter("t", 5)[4:]))
        draft.replace(path)
        daemon.wait(lambda: len(daemon.steps) == 6)
        assert daemon.stop() == 0
    found = read_verdicts(daemon.out)
    assert [v["step"] for v in found] == [1, 2, 3, 4, 3, 5]  # steps that are the same are not judged again
    assert agrees((v["step"], v["verdict"]) for v in found)


def test_parallel_siblings_at_the_end_are_judged_once_the_file_is_idle(tmp_path: Path) -> None:
    """A batch whose file stays silent does not wait for ever."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*(native("t", n, f"echo {n}", f"{n}\n", batch="b") for n in (1, 2))))
    with Live(tmp_path / "state", path, "--port", "0") as daemon:
        daemon.wait(lambda: len(daemon.steps) == 2)
        assert daemon.stop() == 0


def test_it_is_ready_where_there_is_nothing_to_read(tmp_path: Path) -> None:
    """An empty folder is searched and then ready; a file in it that comes later is judged."""
    (tmp_path / "logs").mkdir()
    with Live(tmp_path / "state", tmp_path / "logs", "--port", "0") as daemon:
        daemon.wait(lambda: daemon.get("/readyz")[0] == 200)
        (tmp_path / "logs" / "a.jsonl").write_bytes(jsonl(*echo("t", 1)))
        daemon.wait(lambda: daemon.steps == [("t", 1)])
        assert daemon.stop() == 0


def test_a_missing_path_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon says what is missing, goes on with the rest, and takes the file up when it is there.

    That an agent was never used here is no trouble.
    """
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("a", 1)))
    paths = (tmp_path / "a.jsonl", tmp_path / "codex" / "sessions", tmp_path / "later.jsonl")
    with Live(tmp_path / "state", *paths, "--port", "0") as daemon:
        daemon.wait(lambda: daemon.steps == [("a", 1)])
        assert [event["path"] for event in daemon.events("agent_awaited")] == [str(paths[1])]
        (trouble,) = daemon.events("source_trouble")
        assert "later.jsonl: does not exist" in trouble["error"]
        (tmp_path / "later.jsonl").write_bytes(jsonl(*echo("later", 1)))
        daemon.wait(lambda: ("later", 1) in daemon.steps)
        assert daemon.stop() == 0


def test_its_own_verdicts_are_not_read_as_steps(tmp_path: Path) -> None:
    """A verdict file inside a watched folder is left out, or verdicts would feed on themselves."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.jsonl").write_bytes(jsonl(*echo("t", 3)))
    state = tmp_path / "state"
    for _ in range(2):
        done = verifierd("run", "--once", logs, "--state", state, "--out", logs / "out.jsonl")
        assert done.returncode == 0
    assert len(read_verdicts(logs / "out.jsonl")) == 3
    quiet = verifierd("inspect", logs / "out.jsonl")
    assert "0 steps" in quiet.stdout


def test_a_taken_port_is_said_in_one_message(tmp_path: Path) -> None:
    """Where something else listens the daemon says so, with the remedy, and exits as badly configured."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 1)))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = verifierd("run", tmp_path / "a.jsonl", "--state", tmp_path / "state", "--port", str(port))
    assert done.returncode == 78
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port 0" in done.stderr


def test_a_second_daemon_on_one_state_is_refused(tmp_path: Path) -> None:
    """The state directory is one daemon's: another one exits with 75, to be tried again later."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 1)))
    with Live(tmp_path / "state", tmp_path / "a.jsonl", "--port", "0") as daemon:
        done = verifierd("run", "--once", tmp_path / "a.jsonl", "--state", tmp_path / "state")
        assert done.returncode == 75
        assert "another verifierd uses it" in done.stderr
        assert str(daemon.process.pid) in done.stderr
        assert daemon.stop() == 0


def test_a_state_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A state directory that cannot be made is one message and exit code 78."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 1)))
    (tmp_path / "file").touch()
    done = verifierd("run", "--once", tmp_path / "a.jsonl", "--state", tmp_path / "file" / "state")
    assert done.returncode == 78
    assert "--state DIR" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_state_is_said(tmp_path: Path) -> None:
    """A state directory without write permission is one message and exit code 78."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 1)))
    state = tmp_path / "state"
    state.mkdir(mode=0o500)
    done = verifierd("run", "--once", tmp_path / "a.jsonl", "--state", state)
    assert done.returncode == 78
    assert "--state DIR" in done.stderr


def test_old_sessions_are_skipped_and_counted(tmp_path: Path) -> None:
    """With `--from 24h` files untouched for longer get no verdict, until they change."""
    for name, age in (("new", 0), ("old", 2 * DAY), ("older", 9 * DAY)):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(jsonl(*echo(name, 2)))
        os.utime(path, (time.time() - age,) * 2)
    arguments = ("run", "--once", tmp_path, "--state", tmp_path / "state", "--from", "24h")
    done = verifierd(*arguments)
    out = tmp_path / "state" / "verdicts.jsonl"
    assert {v["trajectory"] for v in read_verdicts(out)} == {"new"}
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [event["files"] for event in events if event["event"] == "sessions_skipped"] == [2]
    append(tmp_path / "old.jsonl", jsonl(*echo("old", 1, first=3)))
    verifierd(*arguments)
    assert {v["trajectory"] for v in read_verdicts(out)} == {"new", "old"}


def test_the_newest_session_is_read_first(tmp_path: Path) -> None:
    """Of many sessions the first verdicts are on those that changed last."""
    for age in range(24):
        path = tmp_path / f"{age:02}.jsonl"
        path.write_bytes(jsonl(*echo(f"{age:02}", 3)))
        os.utime(path, (time.time() - 60 * age,) * 2)
    verifierd("run", "--once", tmp_path, "--state", tmp_path / "state")
    found = read_verdicts(tmp_path / "state" / "verdicts.jsonl")
    assert len(found) == 72
    assert int(found[0]["trajectory"]) < 8  # as many are read at a time
    assert int(found[-1]["trajectory"]) >= 16


def test_from_end_judges_only_what_comes(tmp_path: Path) -> None:
    """What was there at the start is context; the first new step is judged from it."""
    path = tmp_path / "a.jsonl"
    lines = counter("t", 6)
    path.write_bytes(jsonl(*lines[:5]))
    with Live(tmp_path / "state", path, "--port", "0", "--from", "end") as daemon:
        daemon.wait(lambda: daemon.get("/readyz")[0] == 200)
        append(path, jsonl(lines[5]))
        daemon.wait(lambda: bool(daemon.steps))
        assert daemon.stop() == 0
    (verdict,) = read_verdicts(daemon.out)
    assert (verdict["step"], verdict["verdict"]) == (6, "on_path")


def test_standard_input_is_watched_to_its_end(tmp_path: Path) -> None:
    """`run -` judges what a pipe brings and ends with it; without --once, too."""
    data = jsonl(*counter("t", 4))
    for number, once in enumerate((["--once"], [])):
        done = verifierd("run", "-", *once, "--state", tmp_path / f"s{number}", "--port", "0", stdin=data)
        assert done.returncode == 0
        assert len(read_verdicts(tmp_path / f"s{number}" / "verdicts.jsonl")) == 4


def test_a_limit_ends_the_daemon(tmp_path: Path) -> None:
    """With --limit the daemon stops by itself, and the next run judges the steps left out."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*counter("t", 9)))
    state = tmp_path / "state"
    first = verifierd("run", tmp_path / "a.jsonl", "--state", state, "--port", "0", "--limit", "4")
    assert first.returncode == 0
    assert len(read_verdicts(state / "verdicts.jsonl")) == 4
    verifierd("run", "--once", tmp_path / "a.jsonl", "--state", state)
    assert [v["step"] for v in read_verdicts(state / "verdicts.jsonl")] == list(range(1, 10))


def test_the_state_is_its_owners_alone(tmp_path: Path) -> None:
    """Folder 0700, and every file in it 0600: it holds transcripts and a token."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 1)))
    state = tmp_path / "state"
    verifierd("run", "--once", tmp_path / "a.jsonl", "--state", state)
    assert state.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in state.iterdir()} == {0o600}


POLICY = 'name = "mine"\npredictors = ["shell"]\nmin-coverage = {}\n'
CONFIG = 'policy = "mine.toml"\n[[sources]]\npaths = ["a.jsonl"]\nfrom = "beginning"\n[http]\nport = 0\n'


class _Reloadable(Live):
    """A daemon with a configuration and a policy in files of their own, beside a log of steps that it predicts."""

    def __init__(self, folder: Path) -> None:
        self.policy, self.config, self.source = folder / "mine.toml", folder / "verifierd.toml", folder / "a.jsonl"
        self.policy.write_text(POLICY.format(0.5))
        self.config.write_text(CONFIG)
        self.source.write_bytes(b"")
        super().__init__(folder / "state", "--config", self.config)

    def judged(self, step: int) -> str:
        """The policy that judged a step, added now."""
        append(self.source, jsonl(*echo("t", 1, first=step)))
        self.wait(lambda: ("t", step) in self.steps)
        return str(next(v["policy"] for v in read_verdicts(self.out) if v["step"] == step))

    def gauge(self, name: str) -> float:
        """The value of a series."""
        row = next(row for row in self.get("/metrics")[1].splitlines() if row.startswith(f"verifierd_{name} "))
        return float(row.split()[1])


def test_a_reload_takes_up_a_changed_policy(tmp_path: Path) -> None:
    """By SIGHUP and by HTTP what comes next is judged by the new policy, while nothing is read twice."""
    with _Reloadable(tmp_path) as daemon:
        first = daemon.judged(1)
        began = daemon.gauge("config_last_reload_success_timestamp_seconds")
        assert daemon.gauge("config_last_reload_successful") == 1
        assert began > 0
        daemon.policy.write_text(POLICY.format(0.25))
        assert daemon.judged(2) == first  # nobody has asked for it yet
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait(lambda: bool(daemon.events("reloaded")))
        second = daemon.judged(3)
        assert second != first
        assert daemon.events("reloaded")[0]["policy"] == second
        assert daemon.gauge("config_last_reload_success_timestamp_seconds") > began
        daemon.policy.write_text(POLICY.format(0.125))
        daemon.config.write_text('quotes = "off"\npredictor = "shell,contracts"\n' + CONFIG)
        code, answer = daemon.post("/-/reload")
        assert code == 200
        assert json.loads(answer)["predictor"] == "shell,contracts"
        assert daemon.judged(4) == json.loads(answer)["policy"] != second
        assert daemon.stop() == 0
    found = read_verdicts(daemon.out)
    assert [v["step"] for v in found] == [1, 2, 3, 4]
    assert {v["verdict"] for v in found} == {"on_path"}
    assert [bool(v["observed"]) for v in found] == [True, True, True, False]


def test_a_reload_that_fails_changes_nothing(tmp_path: Path) -> None:
    """A policy, a configuration or a predictor that is wrong is named, in the log and over HTTP; the old ones go on."""
    with _Reloadable(tmp_path) as daemon:
        first = daemon.judged(1)
        daemon.policy.write_text(POLICY.format(0.25) + "min-coverge = 1\n")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait(lambda: bool(daemon.events("reload_failed")))
        (event,) = daemon.events("reload_failed")
        assert "mine.toml" in event["error"]
        assert "min-coverage" in event["hint"]
        assert daemon.gauge("config_last_reload_successful") == 0
        began = daemon.gauge("config_last_reload_success_timestamp_seconds")
        daemon.policy.write_text(POLICY.format(0.25))
        for change, told in (
            ('predictor = "oracle"\n', "oracle"),
            ('predictor = "recorded"\n', "needs a file of predictions"),
            ("max-line-byte = 5\n", "max-line-byte"),
        ):
            daemon.config.write_text(change + CONFIG)
            code, answer = daemon.post("/-/reload")
            assert code == 409
            assert told in json.loads(answer)["error"]
        assert daemon.judged(2) == first
        daemon.config.write_text(CONFIG)
        assert daemon.post("/-/reload")[0] == 200
        assert daemon.gauge("config_last_reload_successful") == 1
        assert daemon.gauge("config_last_reload_success_timestamp_seconds") > began
        assert daemon.judged(3) != first
        assert daemon.stop() == 0


def test_what_needs_a_restart_is_named(tmp_path: Path) -> None:
    """Settings that are in use from the start are refused by their keys, and what else changed stays out, too."""
    with _Reloadable(tmp_path) as daemon:
        first = daemon.judged(1)
        daemon.policy.write_text(POLICY.format(0.25))
        changed = CONFIG.replace("a.jsonl", "b.jsonl").replace("port = 0", "port = 1")
        daemon.config.write_text(f"max-line-bytes = 5000\n{changed}[state]\nretention-days = 3\n")
        code, answer = daemon.post("/-/reload")
        assert code == 409
        error = json.loads(answer)["error"]
        assert error.endswith(": sources, max-line-bytes, http.port, state.retention-days")
        assert daemon.judged(2) == first
        assert daemon.stop() == 0


def test_agents_folders_that_come_later_do_not_stand_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no source is named, a folder that has come to be since the start is no change of the settings."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    (tmp_path / "claude" / "projects").mkdir(parents=True)
    with Live(tmp_path / "state", "--port", "0") as daemon:
        (tmp_path / "codex" / "sessions").mkdir(parents=True)
        assert daemon.post("/-/reload")[0] == 200
        assert daemon.stop() == 0


def test_a_daemon_ends_with_its_terminal(tmp_path: Path) -> None:
    """The hang-up of the terminal that it was started in is no wish for a reload: nobody could stop it any more."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 1)))
    ours, theirs = pty.openpty()
    arguments = ("run", tmp_path / "a.jsonl", "--state", tmp_path / "state", "--port", "0")
    process = subprocess.Popen(
        [sys.executable, "-m", "verifierd", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - there is one thread
    )
    os.close(theirs)
    shown = b""
    while b"stop with Ctrl-C" not in shown:
        shown += os.read(ours, 65536)
    process.send_signal(signal.SIGHUP)  # the terminal is still there: a reload
    while b"reloaded" not in shown:
        shown += os.read(ours, 65536)
    os.close(ours)
    assert process.wait(30) in (0, 1)  # its summary can no longer be written
    assert len(read_verdicts(tmp_path / "state" / "verdicts.jsonl")) == 1


def test_alarms_survive_a_restart_and_are_acknowledged_once(tmp_path: Path) -> None:
    """A trajectory alarms once, though the daemon is killed after it; who knows of it is remembered."""
    path = tmp_path / "a.jsonl"
    lines = wrong_once(wrong_once(counter("t", 12), 6, "9 notes.txt\n"), 10, "99 notes.txt\n")
    path.write_bytes(jsonl(*lines[:7]))
    with Live(tmp_path / "state", path, "--port", "0") as daemon:
        daemon.wait(lambda: len(daemon.steps) == 7 and bool(daemon.events("alarm_raised")))
        assert "verifierd_alarms_open 1.0" in daemon.get("/metrics")[1]
        (alarm,) = json.loads(daemon.get("/api/alarms")[1])["alarms"]
        assert (alarm["trajectory"], alarm["step"], alarm["first_bad"]) == ("t", 6, 6)
        daemon.process.kill()
    with Live(tmp_path / "state", path, "--port", "0") as daemon:
        append(path, jsonl(*lines[7:]))
        daemon.wait(lambda: len(daemon.steps) == 12)
        assert json.loads(daemon.get("/api/alarms")[1]) == {"open": 1, "alarms": [alarm]}
        metrics = daemon.get("/metrics")[1]
        assert "verifierd_alarms_open 1.0" in metrics
        assert "verifierd_alarms_total 0.0" in metrics
        assert daemon.post(f"/api/alarms/{alarm['id']}/ack", b'{"by": "ada"}')[0] == 200
        assert "verifierd_alarms_open 0.0" in daemon.get("/metrics")[1]
        assert daemon.events("alarm_raised") == []
        assert daemon.stop() == 0
    with Live(tmp_path / "state", path, "--port", "0") as daemon:
        kept = json.loads(daemon.get("/api/alarms")[1])
        assert (kept["open"], kept["alarms"][0]["acknowledged"]["by"]) == (0, "ada")
        assert daemon.stop() == 0


class _Slow:
    """A sink that takes its time, so that a stop finds steps in flight."""

    def __init__(self, enough: int = 0) -> None:
        self.seen: list[int] = []
        self.began = anyio.Event()
        self.ended = anyio.Event()
        self._enough = enough

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        self.began.set()
        await anyio.sleep(0.2)
        self.seen.extend(verdict.step for verdict in verdicts)
        if len(self.seen) == self._enough:
            self.ended.set()

    async def aclose(self) -> None:
        """Nothing is held."""


@pytest.mark.anyio
async def test_a_stop_finishes_what_is_in_flight(tmp_path: Path) -> None:
    """On SIGTERM the chunk being judged is committed and passed on before everything closes."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*echo("t", 50)))
    slow = _Slow()
    places: list[Started] = []
    daemon = Daemon(
        Config(sources=(SourceConfig(paths=(str(path),), start="beginning"),), http=HttpConfig(port=0)),
        Choice(predictor="scripted"),
        state=tmp_path / "state",
        out=tmp_path / "out.jsonl",
        sinks=[slow],
        on_started=places.append,
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon.run)
        await slow.began.wait()
        os.kill(os.getpid(), signal.SIGTERM)
    assert places[0].url is not None
    written = [v["step"] for v in read_verdicts(tmp_path / "out.jsonl")]
    assert slow.seen == written
    assert written == list(range(1, len(written) + 1))


@pytest.mark.anyio
async def test_a_file_still_being_read_is_not_taken_for_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow judging is, a batch is let go only once its file has been read to the end."""
    monkeypatch.setattr("verifierd.daemon._SETTLE_SECONDS", 0.02)  # a chunk takes ten times as long
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*(native("t", n, f"echo {n}", f"{n}\n", batch=f"b{(n + 1) // 2}") for n in range(1, 9))))
    slow = _Slow(enough=8)
    daemon = Daemon(
        Config(sources=(SourceConfig(paths=(str(path),), start="beginning"),), http=HttpConfig(enabled=False)),
        Choice(predictor="scripted"),
        state=tmp_path / "state",
        out=tmp_path / "out.jsonl",
        sinks=[slow],
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon.run)
        await slow.ended.wait()
        os.kill(os.getpid(), signal.SIGTERM)
    async with Store(tmp_path / "state") as store:
        _, steps = await store.history(("native", "t"), 0)
    assert [step.siblings is None for step in steps] == [False] * 6 + [True] * 2


@pytest.mark.anyio
async def test_once_ends_though_a_log_grows_without_end(tmp_path: Path) -> None:
    """What was there at the start is judged; what is added meanwhile is for the next run."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*echo("t", 3)))
    judged: list[int] = []

    class Writer:
        """A sink that adds a step to the log for each that was judged."""

        async def emit(self, verdicts: Sequence[Verdict]) -> None:
            judged.extend(verdict.step for verdict in verdicts)
            append(path, jsonl(*echo("t", 1, first=len(judged) + 3)))

        async def aclose(self) -> None:
            """Nothing is held."""

    daemon = Daemon(
        Config(sources=(SourceConfig(paths=(str(path),), start="beginning"),)),
        Choice(predictor="scripted"),
        state=tmp_path / "state",
        out=tmp_path / "out.jsonl",
        sinks=[Writer()],
    )
    with anyio.fail_after(20):
        assert await daemon.run(once=True) == 0
    assert judged[:3] == [1, 2, 3]


def promtool(scrape: str) -> str:
    """What Prometheus' own checker finds; nothing where it is not installed."""
    checker = shutil.which("promtool")
    if checker is None:
        return ""
    return subprocess.run(
        [checker, "check", "metrics"], input=scrape, capture_output=True, text=True, check=False
    ).stderr


def test_a_label_of_each_way_shows_in_the_next_scrape(tmp_path: Path) -> None:
    """By HTTP, by the command with a daemon and without, by a followed file; and so it is after a restart."""
    path, labels, config = tmp_path / "a.jsonl", tmp_path / "labels.jsonl", tmp_path / "verifierd.toml"
    path.write_bytes(jsonl(*wrong_once(counter("t", 8), 6, "9 notes.txt\n")))
    config.write_text('[labels]\nfiles = ["labels.jsonl"]\n')  # which is not there yet
    state = tmp_path / "state"
    arguments = (path, "--config", config, "--port", "0")

    def says(scrape: str, label: str, source: str, verdict: str, count: int) -> bool:
        labelled = f'{{label="{label}",source="{source}",verdict="{verdict}"}} {count}.0'
        return f"verifierd_labelled_verdicts{labelled}" in scrape

    with Live(state, *arguments) as daemon:
        daemon.wait(lambda: len(daemon.steps) == 8)
        ids = {v["step"]: v["step_id"] for v in read_verdicts(daemon.out)}
        assert daemon.post("/api/labels", jsonl({"id": ids[6], "label": "on_path"}))[0] == 200
        assert says(daemon.get("/metrics")[1], "on_path", "person", "off_path", 1)
        assert verifierd("label", ids[8], "off_path", "--state", state).returncode == 0
        assert says(daemon.get("/metrics")[1], "off_path", "person", "on_path", 1)
        append(labels, jsonl({"id": ids[4], "label": "off_path"}, {"id": ids[2], "label": "unsure"}) + b"{\n")
        daemon.wait(lambda: says(daemon.get("/metrics")[1], "off_path", "file", "on_path", 1))
        append(labels, jsonl({"id": ids[4], "label": "undo"}, {"id": ids[4], "label": "off_path"})[:-1])
        daemon.wait(lambda: 'label_events_total{action="added"} 5.0' in daemon.get("/metrics")[1])
        assert daemon.events("label_file_missing")[0]["path"] == str(labels)
        assert daemon.events("line_quarantined")[0]["reason"] == "not_json"
        first = daemon.get("/metrics")[1]
        assert promtool(first) == ""
        assert "verifierd_false_positives 1.0" in first
        assert "verifierd_false_negatives 2.0" in first
        assert daemon.stop() == 0
    assert verifierd("label", ids[8], "undo", "--state", state).returncode == 0
    with Live(state, *arguments) as daemon:
        daemon.wait(lambda: "verifierd_false_negatives 1.0" in daemon.get("/metrics")[1])
        # Not the false alarms, which are counted every few seconds only.
        names = ("labelled_verdicts", "false_positives", "false_negatives", "labels_pending")
        gauges = tuple(f"verifierd_{name}" for name in names)
        scrapes = [first, daemon.get("/metrics")[1]]
        before, after = [[row for row in one.splitlines() if row.startswith(gauges)] for one in scrapes]
        assert set(before) ^ set(after) == {
            'verifierd_labelled_verdicts{label="off_path",source="person",verdict="on_path"} 1.0',
            'verifierd_labelled_verdicts{label="off_path",source="person",verdict="on_path"} 0.0',
            "verifierd_false_negatives 2.0",
            "verifierd_false_negatives 1.0",
        }
        assert daemon.stop() == 0


@pytest.mark.anyio
async def test_once_reads_label_files_to_their_end(tmp_path: Path) -> None:
    """Also a last line without its end, and never as a log."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.jsonl").write_bytes(jsonl(*counter("t", 4)))
    labels, config, state = logs / "labels.jsonl", tmp_path / "verifierd.toml", tmp_path / "state"
    config.write_text('[labels]\nfiles = ["logs/labels.jsonl"]\n')  # which is not there yet
    command = ("run", "--once", logs, "--config", config, "--state", state)
    assert verifierd(*command).returncode == 0
    ids = {v["step"]: v["step_id"] for v in read_verdicts(state / "verdicts.jsonl")}
    labels.write_bytes(jsonl({"id": ids[4], "label": "off_path", "by": "ada"})[:-1])
    assert verifierd(*command).returncode == 0
    async with Store(state) as store:
        assert [(label.label, label.by) for label in await store.labels(ids[4])] == [("off_path", "ada")]
    # Followed for labels no longer, it is a file like others, and none that is understood.
    config.write_text("")
    assert verifierd(*command).returncode == 0
