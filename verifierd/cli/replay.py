"""`verifierd replay`: recorded trajectories -> verdicts and a summary."""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click
from rich.console import Console
from rich.progress import TimeRemainingColumn

from verifierd import log
from verifierd.cli import tell
from verifierd.cli.inputs import Troubles, expand_inputs, spare
from verifierd.cli.options import Judging, json_option, judging_options, report_option
from verifierd.cli.outputs import asked, now, write
from verifierd.cli.view import bar, card, console, counted, line, print_json, print_line, summary_table
from verifierd.composition import Choice, chain_of
from verifierd.errors import FormatError
from verifierd.pipeline import Reading
from verifierd.policy import load
from verifierd.replay.runner import replay
from verifierd.replay.summary import Summary
from verifierd.types import Verdict, VerdictKind

if TYPE_CHECKING:
    from verifierd.replay.findings import Findings

__all__ = ("command",)

_MOST_CARDS = 20


@click.command("replay")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--list",
    "listed",
    type=click.Choice(["off_path", "abstain", "all"]),
    default="off_path",
    show_default=True,
    help="Which steps to show.",
)
@report_option
@judging_options
@json_option
def command(
    *,
    paths: tuple[str, ...],
    listed: str,
    page: Path | None,
    judging: Judging,
    as_json: bool,
) -> None:
    """Judge recorded trajectories (files, folders, globs, or - for standard input) and sum up.

    Exits with 1 if something could not be read, or nothing was found.
    """
    log.setup(level="error")
    troubles = Troubles()
    files = expand_inputs(paths, troubles)
    spare([*files, *judging.inputs], judging.out, page=page)
    summary = Summary()
    target = console(stderr=as_json)
    shown = _Listing(target, listed)
    findings = None if page is None else _findings(page)
    began = time.perf_counter()
    with bar(TimeRemainingColumn()) as progress:
        sizes = {str(path): _size(path) for path in files if path is not None}
        task = progress.add_task("", total=sum(sizes.values()))
        done: dict[str, int] = {}

        def advance(path: str, end: int) -> None:
            end = min(end, sizes.get(path, 0))  # an archive holds more than its size
            progress.update(task, advance=end - done.get(path, 0), description=counted(summary.steps, "step"))
            done[path] = end

        if target.is_terminal:
            shown.screen = progress.console if as_json else target
        readings = anyio.run(
            lambda: replay(
                files,
                judging.choice(),
                sinks=(summary, shown, *([] if findings is None else [findings])),
                out=judging.out,
                format=judging.format_name or "auto",
                on=advance,
                tell=troubles,
            )
        )
    document = summary.document(wall=time.perf_counter() - began)
    if page is not None and findings is not None:
        write(page, _page(document, findings, files, readings, judging.choice()))
    if as_json:
        print_json(document)
    elif readings:
        shown.rest()
        target.print(summary_table(document))
    for reading in readings:
        _tell_unread(reading)
    if troubles.unread or not readings:
        sys.exit(1)


def _findings(page: Path) -> "Findings":
    from verifierd.replay.findings import Findings  # noqa: PLC0415 - loads what draws

    write(page)  # what is wrong with it shows before the work
    return Findings()


def _page(
    document: Mapping[str, Any],
    findings: "Findings",
    files: Sequence[Path | None],
    readings: Sequence[Reading],
    choice: Choice,
) -> bytes:
    from verifierd.replay.findings import Read, report  # noqa: PLC0415 - likewise

    lost: Counter[str] = Counter()
    for reading in readings:
        lost.update({} if reading.adapter is None else reading.adapter.counts.quarantined)
    policy = load(choice.policy)
    return report(
        document,
        findings,
        Read(named=len(files), files=len(readings), lost=lost, limit=choice.limit),
        policy=policy,
        predictor=chain_of(choice, policy),
        command=asked(),
        date=now(),
    ).encode()


def _tell_unread(reading: Reading) -> None:
    """Lines that were lost are counted, and never silently."""
    lost = reading.adapter.counts.quarantined if reading.adapter is not None else {}
    if lost:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in lost.items())
        path = reading.source.path
        tell(
            FormatError(
                f"{path}: {counted(sum(lost.values()), 'line')} could not be read: {reasons}",
                hint="The rest was judged. Mend these lines to have them judged, too.",
            )
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it has gone; reading it says so
        return 0


class _Listing:
    """Shows the steps asked for as they come; off-path ones as cards, at most 20 of them."""

    def __init__(self, screen: Console, listed: str) -> None:
        self.screen = screen
        self._listed = listed
        self._cards = 0
        self._unshown = 0

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            if verdict.verdict is VerdictKind.OFF_PATH:
                if self._listed != "abstain":
                    self._card(verdict)
            elif self._listed in ("all", verdict.verdict.value):
                print_line(self.screen, line(verdict))

    async def aclose(self) -> None:
        """Nothing is held."""

    def _card(self, verdict: Verdict) -> None:
        if self._cards < _MOST_CARDS:
            self._cards += 1
            self.screen.print(card(verdict))
        else:
            self._unshown += 1

    def rest(self) -> None:
        """Say how many were not shown."""
        if self._unshown:
            self.screen.print(f"… and {counted(self._unshown, 'more off-path step')}; --out FILE has them all\n")
