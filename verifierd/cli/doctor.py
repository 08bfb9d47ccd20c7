"""`verifierd doctor`: what works on this machine, what does not, and how to mend it."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import socket
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import anyio
import click
import msgspec
from rich.text import Text

from verifierd import __version__
from verifierd.bundled import root
from verifierd.cli.view import console, counted, indented
from verifierd.config import Config, agent_folders, default_state
from verifierd.predictors import PredictorSettings, open_predictor
from verifierd.sources.directory import Watcher
from verifierd.types import Action, History, Origin, Step

__all__ = ("command",)

_STYLES = {"ok": "green", "note": "yellow", "bad": "bold red"}


class _Finding(msgspec.Struct, frozen=True):
    """One thing looked at. `bad` means that the main job does not work; `note` that something optional does not."""

    level: Literal["ok", "note", "bad"]
    what: str
    remedy: str = ""


@click.command("doctor")
def command() -> None:
    """Say what works on this machine, what does not, and how to mend it. Exits with 1 if the main job does not."""
    screen = console()
    worst = 0
    for check in (_python, _shell, _models, _logs, _state, _port, _promtool):
        for finding in check():
            worst = max(worst, finding.level == "bad")
            indented(screen, finding.what, Text(f"{finding.level:>5}  ", _STYLES[finding.level]))
            if finding.remedy:
                indented(screen, finding.remedy, Text(" " * 7), style="dim")
    sys.exit(worst)


def _python() -> Iterator[_Finding]:
    yield _Finding("ok", f"verifierd {__version__}, Python {platform.python_version()}, {platform.platform()}")


def _shell() -> Iterator[_Finding]:
    try:
        installed = importlib.metadata.version("bashkit")
    except importlib.metadata.PackageNotFoundError:
        yield _Finding("bad", "bashkit is not installed: no virtual shell", "Install verifierd again, with pip.")
        return
    certified = tomllib.loads((root("policies") / "shell" / "gnu.toml").read_text())["bashkit"]
    if installed != certified:
        yield _Finding(
            "bad",
            f"bashkit {installed} is installed, but the certified one is {certified}",
            f"pip install bashkit=={certified}; or certify this one: python -m verifierd.replay.certify",
        )
        return
    steps = [
        Step(
            format="native",
            trajectory="doctor",
            index=index,
            action=Action(tool="bash", input=text, command=text),
            observation=seen,
            origin=Origin(path="doctor", offset=0),
            cwd="/home/user/doctor",
        )
        for index, (text, seen) in enumerate((("echo sound > body", ""), ("cat body", "sound\n")), 1)
    ]
    predicted = anyio.run(_predict, steps)
    if predicted == "sound\n":
        yield _Finding("ok", f"the virtual shell predicts (bashkit {installed}, certified)")
    else:
        yield _Finding("bad", f"the virtual shell does not predict: {predicted!r}", "Please report this.")


async def _predict(steps: list[Step]) -> str | None:
    predictor = open_predictor("shell", PredictorSettings())
    try:
        history = History(steps[0].key)
        history.append(steps[0])
        prediction = await predictor.predict(history, steps[1])
    finally:
        await predictor.aclose()
    return prediction.text if prediction.text is not None else prediction.detail


def _models() -> Iterator[_Finding]:
    if importlib.util.find_spec("mlx_lm") is None:
        yield _Finding(
            "note",
            "mlx-lm is not installed: no language model in this process",
            "It exists for Apple silicon and Linux; elsewhere the embedded predictors do the main job.",
        )
        return
    where = "Apple silicon" if sys.platform == "darwin" else "the CPU, which is slow"
    yield _Finding("ok", f"mlx-lm {importlib.metadata.version('mlx-lm')} is installed, for {where}")


def _logs() -> Iterator[_Finding]:
    for folder in agent_folders():
        path = Path(folder).expanduser()
        if not path.is_dir():
            yield _Finding("note", f"{folder}: no such folder, so that agent has not run here")
        elif not os.access(path, os.R_OK | os.X_OK):
            yield _Finding(
                "bad",
                f"{folder}: may not be read",
                "Run as its owner; on macOS allow the terminal Full Disk Access.",
            )
        else:
            sighting = Watcher((str(path),)).look()
            yield _Finding("ok", f"{folder}: {counted(len(sighting.ready), 'log')}")
            for _, error in sighting.troubles:
                if error is not None:
                    yield _Finding("note", error.message, error.hint)


def _state() -> Iterator[_Finding]:
    path = default_state()
    nearest = next(parent for parent in (path, *path.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        yield _Finding("bad", f"{path}: cannot be written: {error.strerror}", "Name another place with --state DIR.")
        return
    free = shutil.disk_usage(nearest).free / 1024**3
    yield _Finding("ok" if free > 3 else "note", f"{path}: state goes here; {free:.0f} GiB are free")


def _port() -> Iterator[_Finding]:
    http = Config().http
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((http.host, http.port))
        except OSError as error:
            yield _Finding(
                "note",
                f"{http.host}:{http.port}: cannot be bound: {error.strerror}; perhaps verifierd runs already",
                "Name another port with --port.",
            )
            return
    yield _Finding("ok", f"{http.host}:{http.port} is free for metrics")


def _promtool() -> Iterator[_Finding]:
    if shutil.which("promtool"):
        yield _Finding("ok", "promtool is here to check metrics and rules")
    else:
        yield _Finding("note", "promtool is not here; only the tests of metrics use it", "It comes with Prometheus.")
