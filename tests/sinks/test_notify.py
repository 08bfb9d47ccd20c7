"""`[[notify]]` of a configuration, by the real daemon."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from tests.helpers import Live, echo, jsonl, verifierd, wrong_once
from verifierd.config import NotifyConfig
from verifierd.errors import ConfigError
from verifierd.metrics import Metrics
from verifierd.sinks.notify import open_outbox
from verifierd.store import Store

APPEND = """
import os, sys
try:
    os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT), sys.stdin.buffer.read())
except IsADirectoryError:
    sys.exit(75)
"""


def settings(folder: Path, out: Path, *more: str) -> Path:
    """A configuration by which a program adds each verdict to a file."""
    path = folder / "verifierd.toml"
    command = json.dumps([sys.executable, "-c", APPEND, str(out)])
    path.write_text("\n".join(["[[notify]]", f"command = {command}", *more, "[http]", "port = 0", ""]))
    return path


def told(out: Path) -> list[int]:
    """The steps that were told."""
    return sorted(json.loads(line)["step"] for line in out.read_bytes().splitlines()) if out.exists() else []


def test_once_tells_before_it_ends(tmp_path: Path) -> None:
    """`run --once` tells what it judged, as far as that is asked for, and once each."""
    log, out = tmp_path / "log.jsonl", tmp_path / "out"
    log.write_bytes(jsonl(*wrong_once(echo("t", 4), 3, "another\n")))
    config = settings(tmp_path, out)
    for _ in range(2):
        done = verifierd("run", log, "--once", "--config", config, "--state", tmp_path / "state")
        assert done.returncode == 0

    assert told(out) == [3]


def test_the_daemon_tells_while_it_runs_and_after_a_kill(tmp_path: Path) -> None:
    """A verdict is told as it comes; what a program would not take before a kill is told after it."""
    log, out = tmp_path / "log.jsonl", tmp_path / "out"
    log.write_bytes(jsonl(*echo("t", 2)))
    config = settings(tmp_path, out, 'on = ["on_path"]')
    state = tmp_path / "state"
    with Live(state, log, "--config", config) as live:
        live.wait(lambda: told(out) == [1, 2])
        delivered = 'verifierd_notifications_total{kind="command",result="delivered"} 2.0'
        live.wait(lambda: delivered in live.get("/metrics")[1])
        out.unlink()
        out.mkdir()  # so that the program wants to be asked again
        with log.open("ab") as file:
            file.write(jsonl(*echo("t", 1, first=3)))
        live.wait(lambda: bool(live.events("notify_retried")))
        live.process.kill()
        live.process.wait()
    out.rmdir()
    with log.open("ab") as file:
        file.write(jsonl(*echo("t", 2, first=4)))
    with Live(state, log, "--config", config) as live:
        live.wait(lambda: told(out) == [3, 4, 5])
        assert live.stop() == 0


def test_the_secret_is_made_once_and_is_private(tmp_path: Path) -> None:
    """A webhook without a secret of its own is signed with one that only its owner may read."""
    log, config = tmp_path / "log.jsonl", tmp_path / "verifierd.toml"
    log.write_bytes(jsonl(*echo("t", 1)))
    config.write_text('grace = 0\n[[notify]]\nwebhook = "http://127.0.0.1:9/"\non = ["on_path"]\n')
    secret = tmp_path / "state" / "webhook-secret"
    found = []
    for _ in range(2):
        assert verifierd("run", log, "--once", "--config", config, "--state", tmp_path / "state").returncode == 0
        found.append(secret.read_text())

    assert found[0] == found[1] != ""
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


@pytest.mark.anyio
async def test_a_secret_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing starts, so that nobody believes in signatures that nobody can check."""
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    config = NotifyConfig(webhook="https://example.org/hook", secret_env="HOOK_SECRET")
    async with Store() as store:
        with pytest.raises(ConfigError, match="HOOK_SECRET is not set"):
            await open_outbox(config, store=store, metrics=Metrics(), secret=lambda: b"install")
        monkeypatch.setitem(os.environ, "HOOK_SECRET", "whsec_!")
        with pytest.raises(ConfigError, match="no Base64"):
            await open_outbox(config, store=store, metrics=Metrics(), secret=lambda: b"install")
