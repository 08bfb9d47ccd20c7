"""`verifierd run`: the daemon."""

import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import click
import msgspec
from rich.console import Console
from rich.text import Text

from verifierd import log
from verifierd.cli.options import json_option, judging_options
from verifierd.cli.view import card, console, line, summary_table
from verifierd.composition import Choice
from verifierd.config import Config, SourceConfig, default_state, load
from verifierd.daemon import Daemon, Started
from verifierd.errors import ConfigError
from verifierd.replay.summary import Summary
from verifierd.sinks.events import Events
from verifierd.stages import Sink
from verifierd.types import Verdict, VerdictKind

__all__ = ("command",)


@click.command("run")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option("--once", is_flag=True, help="Judge what is there and exit.")
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings; see `verifierd config init`."
)
@click.option("--state", type=click.Path(path_type=Path), metavar="DIR", help="Database, lock, token and verdicts.")
@click.option("--from", "start", metavar="beginning|end|DURATION", help="Which sessions to read; 24h without PATH.")
@click.option("--port", type=click.IntRange(0, 65535), help="Of the admin endpoint; 0 takes a free one.")
@judging_options
@json_option
def command(
    *,
    paths: tuple[str, ...],
    once: bool,
    config: Path | None,
    state: Path | None,
    start: str | None,
    port: int | None,
    predictor: str | None,
    predictions: Path | None,
    policy: str | None,
    out: Path | None,
    format_name: str | None,
    limit: int | None,
    seed: int,  # noqa: ARG001 - of the contract; nothing here is random yet
    as_json: bool,
) -> None:
    """Watch agents' logs and judge each step as it happens.

    Without PATH the sources of the configuration are watched, else the agents' own folders; with PATH (files, folders,
    globs) these alone, from their beginning.
    """
    settings = load(config)
    settings = _overridden(settings, paths, start, port, format_name)
    if not settings.sources:
        raise ConfigError(
            "nothing to watch: no PATH, no sources in the configuration, and no agent's folder exists here",
            hint="Name a log: verifierd run PATH, or the folder where your agent writes its sessions.",
        )
    where = (state or Path(settings.state.dir or default_state())).expanduser()
    summary = Summary()
    screen = console(stderr=True)
    log.setup(level=settings.log.level, json=settings.log.json)
    sinks: list[Sink] = [summary, _Screen(screen) if screen.is_terminal else Events()]
    daemon = Daemon(
        settings,
        Choice(
            policy=policy or settings.policy,
            predictor=predictor or settings.predictor,
            predictions=predictions,
            quotes=settings.quotes,
            limit=limit,
        ),
        state=where,
        out=out or where / "verdicts.jsonl",
        sinks=sinks,
        on_started=lambda started: _welcome(screen, started, once=once),
    )
    began = anyio.run(_timed, daemon, once)
    document = summary.document(wall=began)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")
    elif document["steps"]:
        console().print(summary_table(document))
    elif once:
        click.echo("no new step")


class _Screen:
    """Shows steps on the terminal as they are judged: off-path ones as cards, others as one line a trajectory."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            self._screen.print(card(verdict) if verdict.verdict is VerdictKind.OFF_PATH else line(verdict))

    async def aclose(self) -> None:
        """Nothing is held."""


async def _timed(daemon: Daemon, once: bool) -> float:  # noqa: FBT001 - anyio.run passes by position
    began = anyio.current_time()
    await daemon.run(once=once)
    return anyio.current_time() - began


def _overridden(
    settings: Config, paths: tuple[str, ...], start: str | None, port: int | None, format_name: str | None
) -> Config:
    """The settings with what the command line says instead."""
    try:
        if paths:
            settings = msgspec.structs.replace(settings, sources=(SourceConfig(paths=paths, start="beginning"),))
        changes = {key: value for key, value in (("start", start), ("format", format_name)) if value is not None}
        if changes:
            settings = msgspec.structs.replace(
                settings, sources=tuple(msgspec.structs.replace(source, **changes) for source in settings.sources)
            )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--from") from error
    if port is not None:
        settings = msgspec.structs.replace(settings, http=msgspec.structs.replace(settings.http, port=port))
    return settings


def _welcome(screen: Console, started: Started, *, once: bool) -> None:
    if not screen.is_terminal:
        return
    for name, value in (
        ("watching", ", ".join(started.watched)),
        ("verdicts", str(started.verdicts)),
        ("metrics", f"{started.url}/metrics" if started.url else None),
        ("recent", f"{started.url}/api/verdicts" if started.url else None),
        ("state", str(started.state)),
        ("log", "here, on standard error"),
    ):
        if value is not None:
            screen.print(Text.assemble((f"{name:>9} ", "dim"), value))
    screen.print(Text("stops with Ctrl-C" if not once else "", style="dim"))
