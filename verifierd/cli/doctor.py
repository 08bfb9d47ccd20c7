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
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal

import anyio
import click
import msgspec
from rich.text import Text

from verifierd import __version__, log
from verifierd.bundled import root
from verifierd.cli.view import console, counted, indented
from verifierd.config import Config, ModelConfig, agent_folders, default_state
from verifierd.errors import PredictorError
from verifierd.paths import expanded
from verifierd.predictors import PredictorSettings, memory, open_predictor
from verifierd.predictors.memory import OVERRIDE
from verifierd.sources.directory import Watcher
from verifierd.stages import Predictor
from verifierd.types import Action, History, Origin, Prediction, Step

__all__ = ("command",)

_DEFAULT_SIZE = " (20 GB; with 64K tokens of context it takes about 27 GB of memory)"

_STYLES = {"ok": "green", "note": "yellow", "bad": "bold red"}


class _Finding(msgspec.Struct, frozen=True):
    """One thing looked at. `bad` means that the main job does not work; `note` that something optional does not."""

    level: Literal["ok", "note", "bad"]
    what: str
    remedy: str = ""
    more: Sequence[str] = ()


@click.command("doctor")
@click.option("--model", metavar="NAME|DIR", help="The language model to look at, instead of Qwen-AgentWorld.")
@click.option(
    "--load", "loads", is_flag=True, help="Load the model and show how it begins to answer in each wrapper; minutes."
)
@click.option(OVERRIDE, "memory_override", is_flag=True, help="Load the model even if it seems not to fit.")
def command(*, model: str | None, loads: bool, memory_override: bool) -> None:
    """Say what works on this machine, what does not, and how to mend it. Exits with 1 if the main job does not.

    Nothing is downloaded. With --model, or --load, a model that cannot be used is a failure, too.
    """
    log.setup(level="error")
    settings = ModelConfig(name=model, memory_override=memory_override)
    language = partial(_language_model, settings, loads=loads, required=loads or model is not None)
    screen = console()
    worst = 0
    for check in (_python, _shell, language, _logs, _state, _port, _promtool):
        for finding in check():
            worst = max(worst, finding.level == "bad")
            indented(screen, finding.what, Text(f"{finding.level:>5}  ", _STYLES[finding.level]))
            for line in finding.more:
                indented(screen, line, Text(" " * 9), style="dim")
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
    predicted = anyio.run(_predict, _steps((("echo sound > body", ""), ("cat body", "sound\n"))))
    if predicted == "sound\n":
        yield _Finding("ok", f"the virtual shell predicts (bashkit {installed}, certified)")
    else:
        yield _Finding("bad", f"the virtual shell does not predict: {predicted!r}", "Please report this.")


def _steps(commands: Sequence[tuple[str, str]]) -> list[Step]:
    """Steps of a session that ran these commands and saw that."""
    return [
        Step(
            format="native",
            trajectory="doctor",
            index=index,
            action=Action(tool="bash", input=text, command=text),
            observation=seen,
            origin=Origin(path="doctor", offset=0),
            cwd="/home/user/doctor",
        )
        for index, (text, seen) in enumerate(commands, 1)
    ]


async def _predict(steps: list[Step]) -> str | None:
    prediction = await _predicted(open_predictor("shell", PredictorSettings()), steps)
    return prediction.text if prediction.text is not None else prediction.detail


async def _predicted(predictor: Predictor, steps: Sequence[Step]) -> Prediction:
    """What it predicts for the last step."""
    try:
        history = History(steps[0].key)
        for step in steps[:-1]:
            history.append(step)
        return await predictor.predict(history, steps[-1])
    finally:
        await predictor.aclose()


def _language_model(settings: ModelConfig, *, loads: bool, required: bool) -> Iterator[_Finding]:
    if importlib.util.find_spec("mlx_lm") is None:
        yield _Finding(
            "bad" if required else "note",
            "mlx-lm is not installed: no language model in this process",
            "It exists for Apple silicon and Linux; elsewhere the embedded predictors do the main job.",
        )
        return
    try:
        from verifierd.predictors.mlx import survey  # noqa: PLC0415 - loads the engine

        yield _Finding("ok", f"mlx-lm {importlib.metadata.version('mlx-lm')} computes on {survey.device()}")
        yield _tiny_prediction()
    except (PredictorError, ImportError) as error:
        yield _Finding("bad" if required else "note", f"mlx-lm does not work: {error}", getattr(error, "hint", ""))
        return
    try:
        yield from _named_model(settings, loads=loads)
    except PredictorError as error:
        size = "" if settings.name else _DEFAULT_SIZE
        yield _Finding("bad" if required else "note", error.message, error.hint + size, _lines(survey.metal()))


def _lines(text: str) -> list[str]:
    return [text] if text else []


def _tiny_prediction() -> _Finding:
    """The whole way through a model that is always at hand."""
    settings = ModelConfig(name="tiny", context_tokens=16_384, cache_bytes=64 * 1024**2)
    predictor = open_predictor("mlx", PredictorSettings(model=settings))
    prediction = anyio.run(_predicted, predictor, _steps((("echo sound > body", ""), ("cat body", "sound\n"))))
    if prediction.likelihood is None:
        return _Finding("bad", f"the tiny model does not predict: {prediction.detail}", "Please report this.")
    return _Finding("ok", f"a tiny random model predicts ({prediction.tokens.scored} tokens looked at)")


def _named_model(settings: ModelConfig, *, loads: bool) -> Iterator[_Finding]:
    from verifierd.predictors.mlx import loading, survey  # noqa: PLC0415 - loads the engine

    found = loading.find(settings.name or loading.DEFAULT, revision=settings.revision, download=False)
    needed = loading.fit(found, settings)
    yield _Finding("ok", f"the model {found.label} is here: {found.folder}")
    table = [*memory.lines(needed), *_lines(survey.metal())]
    try:
        loading.check_fit(needed, settings)
    except PredictorError as error:
        yield _Finding("note", error.message, error.hint, table)
    else:
        yield _Finding(
            "ok",
            f"it needs about {needed.total / 1e9:.1f} GB at {settings.context_tokens:,} tokens of context",
            "",
            table,
        )
    yield _Finding("ok", survey.switch(found))
    yield _Finding("ok", survey.caches(found))
    if loads:
        steps = _steps((("pwd", "/home/user/doctor\n"), ("echo sound > body", ""), ("cat body", "sound\n")))
        yield _Finding(
            "ok",
            "loaded; asked for the output of `cat body`, which is `sound`, it begins in each wrapper:",
            "The policy's `asking.wrapper` should be one that it keeps to.",
            [f"{wrapper:>6}  {text}" for wrapper, text in survey.beginnings(found, settings, steps)],
        )


def _logs() -> Iterator[_Finding]:
    for folder in agent_folders():
        path = expanded(folder)
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
