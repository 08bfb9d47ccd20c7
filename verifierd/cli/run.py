"""`verifierd run`: the daemon."""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import click
import msgspec
import structlog
from rich.console import Console
from rich.text import Text

from verifierd import log
from verifierd.cli.config import require_known
from verifierd.cli.inputs import spare
from verifierd.cli.options import Judging, json_option, judging_options
from verifierd.cli.view import alarm_line, card, console, line, numbers, print_json, print_line, short, summary_table
from verifierd.composition import Choice
from verifierd.config import Config, SourceConfig, default_state, duration, read, with_sources
from verifierd.daemon import Daemon, Started
from verifierd.errors import ConfigError
from verifierd.logfile import open_log
from verifierd.paths import expanded
from verifierd.replay.shadow import Injector
from verifierd.replay.summary import Summary
from verifierd.sanitize import plain
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
@click.option(
    "--log-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the log there instead of on standard error; at 10 MB it becomes FILE.1.",
)
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
    log_file: Path | None,
    judging: Judging,
    as_json: bool,
) -> None:
    """Watch agents' logs and judge each step as it happens.

    Without PATH the sources of the configuration are watched, else the agents' own folders; with PATH (files, folders,
    globs) these alone, from their beginning.
    """
    spare([config, *judging.inputs, *(expanded(path) for path in paths)], judging.out)
    written = read(config)
    watched = with_sources(written).sources

    def settled(given: Config) -> tuple[Config, Choice]:
        require_known(given, str(config))
        if given.sources == written.sources:  # agents' folders that came or went since are no change
            given = msgspec.structs.replace(given, sources=watched)
        given = _overridden(given, paths, start, port, judging.format_name)
        return given, judging.choice(
            policy=given.policy, predictor=given.predictor, model=given.model, quotes=given.quotes
        )

    settings, choice = settled(written)
    if not settings.sources:
        raise ConfigError(
            "nothing to watch: no PATH, no sources in the configuration, and no agent's folder exists here",
            hint="Name a log: verifierd run PATH, or the folder where your agent writes its sessions.",
        )
    where = expanded(state or Path(settings.state.dir or default_state()))
    summary = Summary()
    screen = console(stderr=True)
    stream = None if log_file is None else open_log(log_file)
    log.setup(level=settings.log.level, json=settings.log.json, stream=stream)
    sinks: list[Sink] = [summary, _Screen(screen) if screen.is_terminal else Events()]
    daemon = Daemon(
        settings,
        choice,
        state=where,
        out=judging.out or where / "verdicts.jsonl",
        sinks=sinks,
        on_started=lambda started: _welcome(screen, started, log_file, once=once),
        again=lambda: settled(read(config)),
        shadow=Injector(settings.shadow) if settings.shadow.share else None,
    )
    wall, failed = anyio.run(_timed, daemon, once)
    document = summary.document(wall=wall)
    if as_json:
        print_json(document)
    elif document["steps"]:
        console().print(summary_table(document))
    else:
        click.echo("no new step")
    if once and failed:
        sys.exit(1)


class _Screen:
    """Shows steps on the terminal as they are judged.

    Steps off path are cards, those on path a line each; steps that were not decided in a row are one line together,
    since on real sessions they are most.
    """

    def __init__(self, screen: Console) -> None:
        self._screen = screen

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Show them; a terminal that has gone is no reason to stop."""
        with suppress(OSError):
            self._show(verdicts)

    def _show(self, verdicts: Sequence[Verdict]) -> None:
        undecided: dict[str, list[Verdict]] = {}
        for verdict in verdicts:
            alarm = verdict.alarm if verdict.alarm is not None and verdict.alarm.new else None
            if verdict.verdict is VerdictKind.ABSTAIN:
                undecided.setdefault(verdict.trajectory, []).append(verdict)
                if alarm is None:
                    continue
            self._tell(undecided.pop(verdict.trajectory, []))
            if verdict.verdict is VerdictKind.OFF_PATH:
                self._screen.print(card(verdict))
            elif verdict.verdict is VerdictKind.ON_PATH:
                print_line(self._screen, line(verdict))
            if alarm is not None:
                self._screen.print(alarm_line(verdict, alarm))
        for rest in undecided.values():
            self._tell(rest)

    async def aclose(self) -> None:
        """Nothing is held."""

    def _tell(self, undecided: Sequence[Verdict]) -> None:
        if len(undecided) == 1:
            print_line(self._screen, line(undecided[0]))
        elif undecided:
            reasons = Counter(verdict.reason for verdict in undecided)
            text = Text("· ", style="dim")
            steps = numbers(verdict.step for verdict in undecided)
            text.append(f"{short(undecided[0].trajectory)} {steps}", style="cyan")
            text.append("  " + ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()))
            print_line(self._screen, text)


async def _timed(daemon: Daemon, once: bool) -> tuple[float, int]:  # noqa: FBT001 - anyio.run passes by position
    """Seconds it took, and how many paths could not be read."""
    began = anyio.current_time()
    failed = await daemon.run(once=once)
    return anyio.current_time() - began, failed


def _overridden(
    settings: Config, paths: tuple[str, ...], start: str | None, port: int | None, format_name: str | None
) -> Config:
    """The settings with what the command line says instead."""
    try:
        if paths:
            # The state knows files by their path, and the next run may start elsewhere.
            whole = tuple(path if path == "-" else str(expanded(path).absolute()) for path in paths)
            settings = msgspec.structs.replace(settings, sources=(SourceConfig(paths=whole, start="beginning"),))
        elif start is not None:
            duration(start)
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


def _welcome(screen: Console, started: Started, log_file: Path | None, *, once: bool) -> None:
    if not screen.is_terminal:
        structlog.get_logger(component="daemon").info(
            "started",
            url=started.url,
            verdicts=str(started.verdicts),
            kept=started.kept,
            state=str(started.state),
            watched=list(started.watched),
        )
        return
    kept = f"  ({started.kept:,} from before)" if started.kept else ""
    for name, value in (
        ("watching", ", ".join(started.watched)),
        ("verdicts", f"{started.verdicts}{kept}"),
        ("console", f"{started.url}/console/" if started.url else None),
        ("metrics", f"{started.url}/metrics" if started.url else None),
        ("recent", f"{started.url}/api/verdicts" if started.url else None),
        ("state", str(started.state)),
        ("log", "here" if log_file is None else str(log_file)),
    ):
        if value is not None:
            screen.print(Text.assemble((f"{name:>9}  ", "dim"), plain(value)), soft_wrap=True)
    screen.print(Text("" if once else "           stop with Ctrl-C\n", style="dim"))
