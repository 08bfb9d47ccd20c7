"""`verifierd top`: the daemon in a terminal, by keys, and as a text."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from tests.helpers import Live, counter, jsonl, native, verifierd, wrong_once
from verifierd.cli import _verifierd
from verifierd.cli.top.board import Act, Board, List
from verifierd.cli.top.feed import Feed, at, in_state
from verifierd.cli.top.frame import frame, once
from verifierd.cli.top.keys import names
from verifierd.errors import VerifierdError

EVIL = "echo '\x1b]0;owned\x07 \x1b[2J [bold]x[/bold] \u202e \u2028 sk-ant-" + "api03-zK8mQ2vX7pL4'"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A daemon that judged 8 steps, of which the sixth is off path, and a hostile one."""
    folder = tmp_path_factory.mktemp("top")
    lines = [*wrong_once(counter("t", 8), 6, "9 notes.txt\n"), native("evil/\x1b[31m", 1, f"./x {EVIL}", EVIL)]
    (folder / "a.jsonl").write_bytes(jsonl(*lines))
    with Live(folder / "state", folder / "a.jsonl", "--port", "0") as daemon:
        daemon.wait(lambda: len(daemon.steps) == 9)
        yield daemon
        assert daemon.stop() == 0


class Terminal:
    """The command in a terminal of its own."""

    def __init__(self, *arguments: str | Path, columns: int = 80, lines: int = 24) -> None:
        self.pid, self.file = pty.fork()
        if not self.pid:
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, "-m", "verifierd", "top", *map(str, arguments)])
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.shown = b""

    def wait(self, text: str, seconds: float = 30) -> None:
        """Wait until it stands on the screen; what was shown until then is not looked at again."""
        end = time.monotonic() + seconds
        while (found := re.sub(rb"\x1b\[[0-9;]*m", b"", self.shown).find(text.encode())) < 0:
            assert time.monotonic() < end, self.shown.decode("utf-8", "replace")
            if select.select([self.file], [], [], 0.1)[0]:
                self.shown += os.read(self.file, 65536)
        assert found >= 0
        self.shown = b""

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self.file, keys.encode())

    def end(self) -> tuple[int, bytes]:
        """Its exit code, and what it wrote at last."""
        last = self.shown
        while True:
            try:
                data = os.read(self.file, 65536)
            except OSError:
                break
            if not data:
                break
            last += data
        _, status = os.waitpid(self.pid, 0)
        os.close(self.file)
        return os.waitstatus_to_exitcode(status), last


def run(*arguments: str | Path) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(_verifierd, ["top", *map(str, arguments)])


def test_once_is_a_text(live: Live) -> None:
    """Where there is no terminal the figures, trajectories and last verdicts are printed, and nothing acts or leaks."""
    told = verifierd("top", "--state", live.out.parent)
    assert (told.returncode, told.stderr) == (0, "")
    lines = told.stdout.splitlines()
    assert lines[0].startswith("verifierd ")
    assert "● live" in lines[0]
    assert "✗ 1 off path" in lines[1]
    assert "1 open alarm" in lines[1]
    assert "trajectories (2)" in lines
    assert any(line.startswith("! t ") for line in lines)
    assert any("✗ t #6 alarm" in line and "contradiction  wc -l notes.txt" in line for line in lines)
    assert any("#1 bash" in line and "[bold]x[/bold]" in line for line in lines)
    assert "\\x1b]0;owned" in told.stdout
    for gone in ("\x1b", "\x07", "\u202e", "zK8mQ"):
        assert gone not in told.stdout
    assert "contradiction  wc -l notes.txt" in run("--once", "--url", live.url).stdout


def test_a_step_is_found_and_labelled_by_keys(live: Live) -> None:
    """Down, enter, back to the step off path, its card; the label moves the metrics; leaving restores the screen."""
    terminal = Terminal("--state", live.out.parent)
    terminal.wait("trajectories (2)")
    terminal.press("\x1b[B\r")
    terminal.wait("alarm at #6, it seems to go wrong at #6")
    terminal.press("p\r")
    terminal.wait("predicted │ 2 notes.txt")
    terminal.press("f")
    terminal.wait("the step is now: really on path")
    assert (
        'verifierd_labelled_verdicts{label="on_path",source="person",verdict="off_path"} 1.0' in live.get("/metrics")[1]
    )
    terminal.press("\x1b")
    terminal.wait("[false alarm]")
    terminal.press("z")
    terminal.wait("the step is now: not labelled")
    terminal.press("a")
    terminal.wait("acknowledged by")
    terminal.press("/grep\r")
    terminal.wait("nothing matches the filter")
    terminal.press("q")
    code, last = terminal.end()
    assert code == 0
    assert b"\x1b[?1049l" in last
    assert b"\x1b[?25h" in last


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(live: Live, number: int) -> None:
    """Whoever ends it gets the screen, the cursor and the line mode back."""
    terminal = Terminal("--state", live.out.parent, columns=40, lines=10)
    before = termios.tcgetattr(terminal.file)
    terminal.wait("last verdicts")
    assert termios.tcgetattr(terminal.file)[3] != before[3]
    os.kill(terminal.pid, number)
    terminal.wait("\x1b[?1049l")
    code, _ = terminal.end()
    assert code == 0


def test_a_daemon_that_went_is_found_again(tmp_path: Path) -> None:
    """While it is away that is said; it may come back at another address."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*counter("first", 4)))
    with Live(tmp_path / "state", tmp_path / "a.jsonl", "--port", "0") as daemon:
        daemon.wait(lambda: len(daemon.steps) == 4)
        terminal = Terminal("--state", tmp_path / "state")
        terminal.wait("first")
        assert daemon.stop() == 0
    terminal.wait("✗ away, trying again")
    (tmp_path / "a.jsonl").write_bytes(jsonl(*counter("first", 4), *counter("second", 4)))
    with Live(tmp_path / "state", tmp_path / "a.jsonl", "--port", "0"):
        terminal.wait("second")
        terminal.wait("● live")
        terminal.press("q")
        assert terminal.end()[0] == 0


def test_without_a_daemon_that_is_said(tmp_path: Path) -> None:
    """With what to do; so are an address that does not answer, and options that contradict each other."""
    told = run("--state", tmp_path)
    assert told.exit_code == 75
    assert "no daemon uses it" in told.stderr
    assert "verifierd run" in told.stderr
    told = run("--url", "http://127.0.0.1:1")
    assert told.exit_code == 75
    assert "http://127.0.0.1:1: does not answer" in told.stderr
    assert run("--url", "nonsense").exit_code == 75
    for wrong in (["--url", "http://127.0.0.1:1", "--state", "x"], ["--token-file", "x"]):
        assert run(*wrong).exit_code == 2
    told = run("--url", "http://127.0.0.1:1", "--token-file", tmp_path / "none")
    assert told.exit_code == 78
    assert "none: cannot be read" in told.stderr


class _Stranger(BaseHTTPRequestHandler):
    """Notes who asks, and answers what verifierd never would."""

    seen: ClassVar[list[str | None]] = []
    answers = (b"[]", b"{}", b"\xff", b'{"version": "\x1b[2J"}')

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answers[len(self.seen) % len(self.answers)])

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_a_stranger_is_not_trusted(live: Live) -> None:
    """An address gets no token that is not meant for it; answers of another kind are told, changes refused here."""
    with HTTPServer(("127.0.0.1", 0), _Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        for _ in range(4):
            told = run("--url", url)
            assert told.exit_code == 1
            assert "not one of verifierd" in told.stderr
            assert "\x1b" not in told.stderr
        server.shutdown()
    assert set(_Stranger.seen) == {None}

    async def label() -> None:
        async with Feed(lambda: at(live.url, None)) as feed:
            with pytest.raises(VerifierdError, match="changes need the token"):
                await feed.say("/api/labels", {"id": "0" * 32, "label": "unsure"}, dict)

    anyio.run(label)


def test_events_are_resumed(live: Live) -> None:
    """What came after a number is told first, each with its own; texts are fit to be shown."""

    async def listen() -> list[int | None]:
        found = []
        async with Feed(lambda: in_state(live.out.parent)) as feed:
            with anyio.fail_after(10):
                async for event in feed.events(6):
                    found.append(event.seq)
                    if event.seq == 9:
                        break
        return found

    assert anyio.run(listen) == [7, 8, 9]


@pytest.mark.parametrize(
    ("data", "keys", "rest"),
    [
        (b"jq", ["j", "q"], b""),
        (b"\x1b[A\x1bOB\x1b[5~\x1b[H", ["up", "down", "page up", "home"], b""),
        (b"\r\n\t\x7f\x03", ["enter", "enter", "tab", "erase", "q"], b""),
        (b"a\x1b[", ["a"], b"\x1b["),
        (b"\x1b", [], b"\x1b"),
        (b"\x1b[99;5u\x1b[200~x", ["x"], b""),
        ("ü\u202e\x00".encode(), ["ü"], b""),
        (b"\xff\xfe", [], b""),
    ],
)
def test_keys(data: bytes, keys: list[str], rest: bytes) -> None:
    """Sequences of terminals are one key each; what has only begun is waited for, what is unknown passed over."""
    assert names(data) == (keys, rest)


def test_a_lone_escape_is_a_key() -> None:
    """Once nothing follows it."""
    assert names(b"\x1b", whole=True) == (["escape"], b"")
    assert names(b"\x1b[", whole=True) == (["escape", "["], b"")


def row(seq: int, **more: Any) -> Any:
    """A step as the daemon lists it."""
    fields = {"seq": seq, "verdict_id": f"v{seq}", "step_id": f"s{seq}", "step": seq, "tool": "bash"}
    said = {
        "verdict": "on_path",
        "reason": "as_predicted",
        "coverage": 1.0,
        "action": "ls",
        "signals": [],
        "alarm": False,
    }
    return {**fields, **said, "label": None, "trajectory_id": "a", **more}


def trajectory(name: str, **more: Any) -> Any:
    """A trajectory as the daemon lists it."""
    counts = {"on_path": 3, "off_path": 0, "abstain": 1}
    fields = {"id": name, "format": "native", "trajectory": name, "run": 0, "agent": "", "steps": 4, "verdicts": counts}
    times = {"first": "2026-01-12T09:00:00Z", "last": "2026-01-12T09:00:00Z"}
    return {**fields, **times, "coverage": 0.5, "alarm": None, "labels": 0, **more}


def filled(names: int = 50) -> Board:
    """A board with much on it, some of it hostile and wide."""
    board = Board()
    share: Any = {"value": 0.3333, "low": 0.1234, "high": 0.98765, "n": 123456}
    summary: Any = {
        "version": "0.1.0",
        "verdicts": {"on_path": 1234567, "off_path": 12345, "abstain": 1234567},
        "rates": {"fpr": share, "fnr": share, "abstention": share, "labelled": 3, "pending": 0},
        "budget": {"alpha": 0.05, "realised": share, "ratio": 6.7},
        "alarms_open": 12,
        "trajectories": names,
        "policy": "default@0123456789ab",
        "predictor": "shell,contracts,mlx",
        "model": "日本語" * 20,
        "quarantined": 7,
        "seq": 99,
    }
    board.summary = summary
    board.found([trajectory("名前" * 30 + str(n)) for n in range(names)])
    for n in range(30):
        board.judged(row(n, action="[red]x[/red]\n" + "漢字" * 80, tool="mcp__" + "t" * 50, label="unsure"))
    board.opened = trajectory("t" * 200)
    board.steps.put([row(n, verdict="off_path", signals=["contradiction"] * 3, alarm=True) for n in range(500)])
    return board


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (200, 60), (10, 3), (1, 1)])
@pytest.mark.parametrize("view", ["board", "steps", "help"])
def test_every_view_fits(view: str, width: int, height: int) -> None:
    """Each is as high as the terminal and no wider, whatever the names; the chosen row is seen."""
    board = filled()
    board.go(view)  # type: ignore[arg-type]
    for _ in range(3):
        lines = frame(board, width, height)
        assert len(lines) == height
        assert all(cell_len(line.plain) <= width for line in lines)
        assert not any("\n" in line.plain for line in lines)
        if height >= 24 and view != "help":
            assert sum(line.plain.startswith("> ") for line in lines) == 1
        board.press("page down")


def test_nothing_yet() -> None:
    """Before the first answer and before the first step the screen says so, as does the text."""
    board = Board()
    assert "connecting" in frame(board, 80, 24)[0].plain
    assert "waiting for the daemon" in "\n".join(line.plain for line in frame(board, 80, 24))
    board.summary = filled().summary
    assert "nothing yet" in "\n".join(line.plain for line in frame(board, 80, 24))
    assert "none" in [line.plain for line in once(board, 80)]


def test_the_chosen_row_stays_chosen() -> None:
    """Others come before it and go; who looks at the newest goes on doing so."""
    rows: List[Any] = List(lambda row: row["verdict_id"])
    rows.put([row(2), row(1)])
    rows.put([row(3), row(2), row(1)])
    assert rows.chosen == row(3)
    rows.move(1)
    rows.put([row(5), row(4), row(3), row(2)])
    assert rows.chosen == row(2)
    rows.put([])
    assert rows.chosen is None
    steps: List[Any] = List(lambda row: row["verdict_id"], newest_last=True)
    steps.put([row(1), row(2)])
    assert steps.chosen == row(2)
    steps.put([row(1), row(2), row(3)])
    assert steps.chosen == row(3)
    steps.move(-1)
    steps.put([row(1), row(2), row(3), row(4)])
    assert steps.chosen == row(2)


def test_keys_do_what_they_say() -> None:
    """On the board, in a trajectory, while a filter is typed, and where there is nothing to be done."""
    board = filled()
    assert board.press("o") is None
    assert "labels belong to steps" in board.note
    assert board.press("a") is None
    assert "no open alarm" in board.note
    assert board.press("down") is None
    assert board.press("enter") == Act("open", board.trajectories.rows[1]["id"])
    assert board.press("tab") is None
    assert board.press("o") == Act("label", "v29", "off_path")
    assert board.press("enter") == Act("card", "v29")
    for key in "/aq":
        assert board.press(key) is None
    assert board.typed == "aq"
    board.press("erase")
    assert board.press("enter") == Act("search")
    assert board.filters["board"] == "a"
    assert board.press("escape") == Act("search")
    assert board.press("escape") is None
    board.go("steps")
    board.press("home")
    assert board.press("z") == Act("label", "v0", "undo")
    board.opened = trajectory("t", alarm={"id": "v3", "acknowledged": None})
    assert board.press("a") == Act("acknowledge", "v3")
    for key, view in (("?", "help"), ("x", "steps"), ("escape", "board")):
        board.press(key)
        assert board.view == view
    assert board.press("q") == Act("quit")


def test_it_reads_no_keys_where_input_is_no_terminal(live: Live) -> None:
    """With input from elsewhere, or on a terminal that cannot move its cursor, it prints once and ends."""
    master, slave = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "verifierd", "top", "--state", live.out.parent],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm"},
        timeout=60,
        check=False,
    )
    os.close(slave)
    os.close(master)
    assert (done.returncode, done.stderr) == (0, b"")
