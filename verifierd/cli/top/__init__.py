"""`verifierd top`: what the console shows, in a terminal, for people on ssh."""

import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import click
from rich.console import Console, Group
from rich.live import Live

from verifierd.cli.label import user
from verifierd.cli.top.board import Act, Board, Card
from verifierd.cli.top.feed import Access, Event, Feed, at, in_state
from verifierd.cli.top.frame import VITALS, frame, once
from verifierd.cli.top.keys import pressed, raw
from verifierd.cli.top.shapes import Labelled, Row, Steps, Summary, Trajectories
from verifierd.cli.view import console, print_line
from verifierd.config import default_state
from verifierd.errors import VerifierdError
from verifierd.paths import expanded
from verifierd.sanitize import plain

__all__ = ("command",)

_TRAJECTORIES = 200  # at first; more are asked for when the end of the list comes near
_MOST = 1000  # that the daemon gives
_STEPS = 1000  # of one page
_FIRST = 100  # verdicts that are asked for at the start
_SECOND = 1.0
_VITALS_SECONDS = 5.0
_FIRST_SECONDS = 5.0  # for these, where they are printed once
_AGAIN_SECONDS = 2.0  # between two tries to reach a daemon
_WIDE = 160  # cells of a line that goes to a file
_TOLD = {"on_path": "really on path", "off_path": "really off path", "unsure": "unsure"}


@click.command("top")
@click.option("--state", type=click.Path(path_type=Path), metavar="DIR", help="State folder of `verifierd run`.")
@click.option("--url", metavar="URL", help="Address of a daemon, such as http://127.0.0.1:9847.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --url: the daemon's token, for labels, or where reading needs it.",
)
@click.option("--once", "at_once", is_flag=True, help="Print it once, as text; so it is where there is no terminal.")
def command(*, state: Path | None, url: str | None, token_file: Path | None, at_once: bool) -> None:
    """Watch a running daemon: trajectories and alarms, the last verdicts, error rates, the budget of false alarms.

    Enter opens a trajectory and shows a step; o, f and u label it: really off path, false alarm, unsure. ? tells all
    keys.
    """
    if url is not None and state is not None:
        raise click.UsageError("name --state or --url, not both")
    if token_file is not None and url is None:
        raise click.UsageError("--token-file goes with --url; a state folder has its own")
    where = expanded(state or default_state())
    access = partial(at, url, token_file) if url is not None else partial(in_state, where)
    screen = console()
    if at_once or not screen.is_terminal or screen.is_dumb_terminal or not sys.stdin.isatty():
        anyio.run(_print, access, screen)
    else:
        anyio.run(_watch, access, screen)


async def _print(access: Callable[[], Access], screen: Console) -> None:
    """The board as it is now."""
    board = Board()
    async with Feed(access) as feed:
        watch = _Watch(board, feed)
        await watch.refresh()
        await watch.look()
        with anyio.move_on_after(_FIRST_SECONDS):
            seq = board.summary["seq"] if board.summary is not None else 0
            if seq:
                async for event in feed.events(max(0, seq - _FIRST)):
                    watch.take(event)
                    if event.seq is not None and event.seq >= seq:
                        break
    for line in once(board, screen.width if screen.is_terminal else _WIDE):
        print_line(screen, line)


async def _watch(access: Callable[[], Access], screen: Console) -> None:
    """The board as it changes, until somebody leaves."""
    board = Board()
    terminal = sys.stdin.fileno()
    async with Feed(access) as feed:
        watch = _Watch(board, feed)
        await watch.refresh()  # what is wrong at the very start is an error
        with (
            anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals,
            raw(terminal),
            Live(console=screen, screen=True, auto_refresh=False) as live,
        ):

            async def signalled(scope: anyio.CancelScope) -> None:
                async for _ in signals:
                    scope.cancel()  # in order, so that the terminal is left as it was

            def draw() -> None:
                width, height = screen.size
                live.update(Group(*frame(board, width, height)), refresh=True)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch.listen)
                tasks.start_soon(watch.keep_fresh)
                tasks.start_soon(watch.drawn, draw)
                tasks.start_soon(signalled, tasks.cancel_scope)
                async for key in pressed(terminal):
                    act = board.press(key)
                    watch.stir()
                    if act is not None:
                        if act.what == "quit":
                            break
                        await watch.do(act)
                        watch.stir()
                tasks.cancel_scope.cancel()


class _Watch:
    """Keeps a board up to date, and does what keys ask for."""

    def __init__(self, board: Board, feed: Feed) -> None:
        self._board = board
        self._feed = feed
        self._stirred = anyio.Event()
        self._news = True  # something happened since the lists were read

    def stir(self) -> None:
        """Something is to be drawn."""
        self._stirred.set()

    async def drawn(self, draw: Callable[[], None]) -> None:
        """Draw when something changes, and each second, for times pass."""
        while True:
            draw()
            with anyio.move_on_after(_SECOND):
                await self._stirred.wait()
            self._stirred = anyio.Event()

    async def refresh(self) -> None:
        """Read the figures and the lists anew.

        Raises:
            VerifierdError: There is no answer.
        """
        board = self._board
        board.summary = await self._feed.page("/api/summary", Summary)
        rows = board.trajectories
        limit = min(_MOST, _TRAJECTORIES if rows.at < _TRAJECTORIES // 2 else len(rows.rows) + _TRAJECTORIES)
        found = await self._feed.page("/api/trajectories", Trajectories, limit=limit, q=board.filters["board"])
        board.found(found["trajectories"])
        if board.view in ("steps", "card") and board.opened is not None:
            await self._steps(board.opened["id"])
        board.trouble = ""

    async def look(self) -> None:
        """Read the vitals.

        Raises:
            VerifierdError: There is no answer.
        """
        self._board.vitals = await self._feed.figures(*VITALS)

    async def keep_fresh(self) -> None:
        """Read anew what has changed, at most once a second."""
        since = 0.0
        while True:
            try:
                if self._news:
                    self._news = False
                    await self.refresh()
                if anyio.current_time() - since >= _VITALS_SECONDS:
                    since = anyio.current_time()
                    await self.look()
            except VerifierdError as error:
                self._failed(error)
            self.stir()
            await anyio.sleep(_SECOND)

    async def listen(self) -> None:
        """Take what happens; where a stream breaks off, go on from there."""
        board = self._board
        seq = max(0, (board.summary["seq"] if board.summary is not None else 0) - _FIRST)
        while True:
            try:
                async for event in self._feed.events(seq):
                    board.trouble = ""
                    seq = event.seq if event.seq is not None else seq
                    self.take(event)
                    self.stir()
            except VerifierdError as error:
                self._failed(error)
                self.stir()
            self._news = True
            await anyio.sleep(_AGAIN_SECONDS)

    def take(self, event: Event) -> None:
        """Show what happened."""
        board, said = self._board, event.said
        self._news = True
        match event.name:
            case "verdict":
                board.judged(said)
            case "label":
                board.labelled(said["step_id"], said["label"] and said["label"]["label"])
            case "summary":
                board.summary = said
            case "reset":
                board.forget()

    async def do(self, act: Act) -> None:
        """What a key asked for; a refusal is shown."""
        board = self._board
        try:
            match act.what:
                case "open":
                    board.filters["steps"] = ""
                    board.steps.put([])
                    await self._steps(act.of)
                    board.steps.at = max(0, len(board.steps.rows) - 1)
                    board.go("steps")
                case "card":
                    board.card = await self._card(act.of)
                    board.go("card")
                case "label":
                    done = await self._feed.say(
                        "/api/labels", {"id": act.of, "label": act.label, "by": plain(user())}, Labelled
                    )
                    self.take(Event("label", done))
                    holds = done["label"]
                    now = _TOLD.get(holds["label"], holds["label"]) if holds is not None else "not labelled"
                    board.note = f"the step is now: {now}" + ("" if act.label == "undo" else "   (z takes it back)")
                    await self._again()
                case "acknowledge":
                    await self._feed.say(f"/api/alarms/{act.of}/ack", {"by": plain(user())}, dict)
                    board.note = "acknowledged"
                    await self._again()
                case "search":
                    board.steps.put([])
                    await self.refresh()
        except VerifierdError as error:
            board.note = f"{error.message}. {error.hint}"

    async def _again(self) -> None:
        """Show what a change made of what is looked at."""
        await self.refresh()
        if self._board.view == "card" and self._board.card is not None:
            self._board.card = await self._card(self._board.card.verdict.verdict_id)

    async def _steps(self, trajectory: str) -> None:
        """The steps of a trajectory that are not listed yet, page by page."""
        board = self._board
        found: list[Row] = list(board.steps.rows)
        while True:
            after = found[-1]["seq"] if found else None
            page = await self._feed.page(
                f"/api/trajectories/{trajectory}/steps", Steps, limit=_STEPS, after=after, q=board.filters["steps"]
            )
            found += page["steps"]
            if page["next"] is None:
                break
        board.opened = page["trajectory"]
        board.steps.put(found)

    async def _card(self, identity: str) -> Card:
        verdict, document = await self._feed.verdict(identity)
        alarm = None
        if document["trajectory_id"] is not None:
            page = await self._feed.page(f"/api/trajectories/{document['trajectory_id']}/steps", Steps, limit=1)
            alarm = page["trajectory"]["alarm"]
        return Card(verdict, document, alarm)

    def _failed(self, error: VerifierdError) -> None:
        self._board.trouble = f"away, trying again: {error.message}"
