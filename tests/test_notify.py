"""What a service manager is told, and what becomes of a service that hangs."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.helpers import Live, echo, jsonl
from verifierd.composition import Choice
from verifierd.config import Config, SourceConfig
from verifierd.daemon import Daemon
from verifierd.notify import Manager, mind


class Ear:
    """A service manager's end of the socket."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(30)

    def next(self) -> list[str]:
        """The lines of one message."""
        return self.socket.recv(4096).decode().splitlines()

    def until(self, line: str) -> list[list[str]]:
        """All messages up to the one that has this line."""
        heard = [self.next()]
        while line not in heard[-1]:
            heard.append(self.next())
        return heard

    def rest(self) -> list[list[str]]:
        """What is there already."""
        heard = []
        self.socket.setblocking(False)
        try:
            while True:
                heard.append(self.next())
        except BlockingIOError:
            return heard


@pytest.fixture(name="ear")
def _ear(tmp_path: Path) -> Iterator[Ear]:
    found = Ear(str(tmp_path / "notify"))
    yield found
    found.socket.close()


def manager(ear: Ear, **more: str) -> Manager:
    """A manager that listens there."""
    return Manager({"NOTIFY_SOCKET": ear.socket.getsockname(), **more})


def test_each_message_is_one_that_systemd_knows(ear: Ear) -> None:
    """As sd_notify(3) has them, a reload with the time of its beginning."""
    told = manager(ear, WATCHDOG_USEC="1000000")
    told.starting(2)
    told.ready()
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    told.reloading()
    told.reloaded()
    told.alive()
    told.stopping(1.5)

    heard = ear.rest()

    assert [message for message in heard if message[0] != "RELOADING=1"] == [
        ["STATUS=starting", "EXTEND_TIMEOUT_USEC=2000000"],
        ["READY=1"],
        ["READY=1"],
        ["WATCHDOG=1"],
        ["STOPPING=1", "STATUS=finishing what is in flight", "EXTEND_TIMEOUT_USEC=1500000"],
    ]
    name, _, since = heard[2][1].partition("=")
    assert (heard[2][0], name) == ("RELOADING=1", "MONOTONIC_USEC")
    assert 0 <= int(since) - before < 10_000_000


def test_a_reload_before_readiness_does_not_make_ready(ear: Ear) -> None:
    """Only the first look at all sources does."""
    told = manager(ear)
    told.reloading()
    told.reloaded()

    assert ear.rest() == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has sockets without a place")
def test_a_socket_without_a_place() -> None:
    """`@name` is one of the abstract name space."""
    ear = Ear(f"\0verifierd-test-{os.getpid()}")
    with ear.socket:
        Manager({"NOTIFY_SOCKET": f"@verifierd-test-{os.getpid()}"}).ready()

        assert ear.next() == ["READY=1"]


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all", "/" + "x" * 300, "@" + "x" * 300, "vsock:2:1"])
def test_nobody_to_tell_is_no_trouble(address: str) -> None:
    """Telling never fails."""
    Manager({"NOTIFY_SOCKET": address}).ready()


def test_a_full_socket_holds_nothing_up(ear: Ear) -> None:
    """Messages that nobody takes are dropped."""
    told = manager(ear)
    for _ in range(5000):
        told.ready()

    assert 0 < len(ear.rest()) < 5000


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "٣"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_who_wants_signs_of_life(environ: dict[str, str], seconds: float | None) -> None:
    """A watchdog is meant for this process, or there is none."""
    assert Manager(environ).watchdog == seconds


@pytest.mark.anyio
async def test_signs_of_life_stop_while_a_part_shows_none(ear: Ear) -> None:
    """The status comes once; a sign only while every part was at work lately, which is asked for half the time."""
    told = manager(ear, WATCHDOG_USEC="40000")
    asked: list[float] = []
    enough = anyio.Event()

    def stale(seconds: float) -> list[str]:
        asked.append(seconds)
        if len(asked) == 9:
            enough.set()
        return ["tailer"] if 3 < len(asked) <= 6 else []

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: mind(told, stale=stale, status=lambda: "fine"))
        await enough.wait()
        tasks.cancel_scope.cancel()

    heard = ear.rest()

    assert set(asked) == {0.02}
    assert heard[0] == ["STATUS=fine"]
    assert 1 <= heard.count(["WATCHDOG=1"]) <= len(asked) - 3


def test_a_process_that_hangs_ends_itself_where_no_manager_looks() -> None:
    """With a watchdog and no socket: a traceback that shows where, and a code that has it started again."""
    code = """
import time, anyio
from verifierd.notify import Manager, mind
def stuck():
    time.sleep(60)
async def main():
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: mind(Manager(), stale=lambda _: [], status=str))
        await anyio.sleep(.3)
        print("well", flush=True)
        stuck()
anyio.run(main)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "WATCHDOG_USEC": "500000", "NOTIFY_SOCKET": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert done.returncode == 1
    assert done.stdout == "well\n"
    assert "Timeout" in done.stderr
    assert "in stuck" in done.stderr


def test_a_process_that_is_well_or_ends_is_left_alone() -> None:
    """Signs of life put the end off, and a stop needs no more of them."""
    code = """
import time, anyio
from verifierd.notify import Manager, mind
async def main():
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: mind(Manager(), stale=lambda _: [], status=str))
        await anyio.sleep(.6)
        tasks.cancel_scope.cancel()
anyio.run(main)
time.sleep(.6)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "WATCHDOG_USEC": "400000", "NOTIFY_SOCKET": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_daemon_tells_its_manager(tmp_path: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready after its first look, signs of life, each reload whether it succeeds or not, and its stop."""
    monkeypatch.setenv("NOTIFY_SOCKET", ear.socket.getsockname())
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 2)))
    config = tmp_path / "verifierd.toml"
    config.write_text('[[sources]]\npaths = ["a.jsonl"]\nfrom = "beginning"\n')
    with Live(tmp_path / "state", "--config", config, "--port", "0") as live:
        start = ear.until("READY=1")
        assert start[0] == ["STATUS=starting", "EXTEND_TIMEOUT_USEC=600000000"]
        assert live.get("/readyz")[0] == 200
        live.wait(lambda: len(live.steps) == 2)
        ear.until("WATCHDOG=1")
        for text, event in (("grace = 5.0\n", "reloaded"), ("grace = no\n", "reload_failed")):
            config.write_text(text + '[[sources]]\npaths = ["a.jsonl"]\nfrom = "beginning"\n')
            live.process.send_signal(signal.SIGHUP)
            assert any(message[0] == "RELOADING=1" for message in ear.until("READY=1"))
            live.wait(lambda event=event: bool(live.events(event)))  # type: ignore[misc]  # bound in the loop
        assert live.stop() == 0
    end = ear.until("STOPPING=1")[-1]

    assert end[2] == "EXTEND_TIMEOUT_USEC=65000000", "its grace of five seconds, and a minute to close"


@pytest.mark.anyio
async def test_a_daemon_knows_which_part_hangs(tmp_path: Path) -> None:
    """A tailer that does not look although it should, and a store that does not answer; waiting workers are neither."""
    config = Config(sources=(SourceConfig(paths=(str(tmp_path),)),))
    daemon = Daemon(config, Choice(), state=tmp_path / "state", out=tmp_path / "out.jsonl")
    now = time.monotonic()
    daemon._answered = now

    assert daemon._stale(30) == []
    daemon._groups[0].looked = now
    assert daemon._stale(30) == []
    daemon._groups[0].looked = now - 40
    assert daemon._stale(30) == ["tailer"]
    daemon._answered = now - 40
    assert daemon._stale(30) == ["tailer", "store"]
