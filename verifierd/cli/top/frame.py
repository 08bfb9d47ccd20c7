"""Draws the board: so many lines of so many cells, legible without colour."""

import io
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from verifierd.cli.explain import Explanation, policy_of
from verifierd.cli.top.board import Board, Card, List
from verifierd.cli.top.shapes import Alarm, Estimate, Row, Said, Summary, Trajectory
from verifierd.cli.view import MARKS, STYLES, counted, one_line, short
from verifierd.labels import Label
from verifierd.store import Acknowledgement, StoredAlarm
from verifierd.types import VerdictKind

__all__ = ("VITALS", "frame", "once")

BACKLOG = "verifierd_source_backlog_bytes"
OLDEST = "verifierd_source_oldest_unverified_timestamp_seconds"
LAG = "verifierd_event_loop_lag_seconds"
VITALS = (BACKLOG, OLDEST, LAG)
"""The series that are shown."""

_ONCE = 20  # rows of each list that are printed where nobody can scroll
_TOOL = 12  # cells of a tool's name
_KEYS = {
    "board": "enter open  tab list  / filter  a acknowledge  ? help  q quit",
    "steps": "enter look  n/p next off path  o/f/u label  z undo  / filter  esc back",
    "card": "arrows scroll, other steps  o/f/u label  z undo  a acknowledge  esc back",
    "help": "any key goes back",
}
_HELP = """\
arrows, j k     choose; in a step scroll, left and right to those beside it
page, home end  further
tab             trajectories or verdicts
enter           open a trajectory, look at a step
esc             back; on the board: no filter any more
n p             next and last step that is off path
/               filter by name and action; in a trajectory by all its words
o f u           label the step: really off path, false alarm, unsure
z               take the last label of the step back
a               acknowledge the trajectory's alarm
q               leave; the daemon goes on

✓ on path   ✗ off path   · not decided   ! an alarm that is open
FP  flagged, of the steps labelled on path
FN  not flagged, of the steps labelled off path"""


def frame(board: Board, width: int, height: int, *, now: float | None = None) -> list[Text]:
    """The whole screen, `height` lines.

    Args:
        board: What is shown.
        width: Of the terminal, in cells.
        height: Of the terminal.
        now: Seconds since the epoch.
    """
    now = time.time() if now is None else now
    head = _head(board, now)
    room = max(2, height - len(head) - 1)
    match board.view:
        case "help":
            body = [Text(line) for line in _HELP.split("\n")]
        case "card" if board.card is not None:
            body = _card(board, board.card, width, room)
        case "steps":
            body = _steps(board, width, room, now)
        case _:
            body = _lists(board, width, room, now)
    body = body[:room] + [Text()] * (room - len(body))
    lines = [*head, *body, _foot(board)]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines[:height]


def once(board: Board, width: int, *, now: float | None = None) -> list[Text]:
    """The board as a text to be kept: what would be seen first, and no key."""
    now = time.time() if now is None else now
    lines = _head(board, now)
    for title, rows in (
        (_title(board), [_trajectory(row, width, now) for row in board.trajectories.rows[:_ONCE]]),
        ("last verdicts", [_verdict(row, board.names, width) for row in board.verdicts.rows[:_ONCE]]),
    ):
        lines += [Text(), Text(title, style="bold"), *(rows or [Text("none", style="dim")])]
    for line in lines:
        line.rstrip()
    return lines


def _head(board: Board, now: float) -> list[Text]:
    summary = board.summary
    state = Text("connecting", style="yellow") if summary is None else Text("● live", style="green")
    if board.trouble:
        state = Text(f"✗ {one_line(board.trouble)}", style="bold red")
    if summary is None:
        return [Text.assemble(("verifierd ", "bold"), state), Text(), Text(), Text()]
    model = f"model {summary['model']}" if summary["model"] else "no model"
    who = f"  {one_line(model)}  {summary['predictor']}  {summary['policy']}"
    first = Text.assemble((f"verifierd {summary['version']} ", "bold"), state, (who, "dim"))
    second = Text("verdicts  ", style="cyan")
    counts = summary["verdicts"]
    for kind, count in zip(VerdictKind, (counts["on_path"], counts["off_path"], counts["abstain"]), strict=True):
        name = "not decided" if kind is VerdictKind.ABSTAIN else kind.value.replace("_", " ")
        second.append(f"{MARKS[kind]} {count:,} {name}   ", style=STYLES[kind] if count else "dim")
    alarms = summary["alarms_open"]
    second.append(counted(alarms, "open alarm"), style="bold red" if alarms else "dim")
    rates = summary["rates"]
    third = Text.assemble(("rates     ", "cyan"), f"FP {_estimate(rates['fpr'])}  FN {_estimate(rates['fnr'])}")
    third.append(f"  abstain {_estimate(rates['abstention'], count=False)}")
    return [first, second, third, _fourth(board, summary, now)]


def _fourth(board: Board, summary: Summary, now: float) -> Text:
    """What clean trajectories may alarm, and how far behind the daemon is."""
    budget, vitals = summary["budget"], board.vitals
    line = Text("budget    ", style="cyan")
    allowed = "no calibration" if budget["alpha"] is None else f"{100 * budget['alpha']:g} % allowed"
    over = budget["ratio"] is not None and budget["ratio"] > 1
    line.append(
        f"false alarms {_estimate(budget['realised'], count=False)}, {allowed}", style="bold red" if over else "default"
    )
    if BACKLOG in vitals:
        behind = now - vitals[OLDEST] if vitals.get(OLDEST) else 0.0
        late = f", loop {1000 * vitals[LAG]:.0f} ms late" if vitals.get(LAG, 0.0) >= 0.05 else ""
        line.append(f"   behind {_bytes(vitals[BACKLOG])}, {max(0.0, behind):.0f} s{late}", style="dim")
    if summary["quarantined"]:
        line.append(f"   {counted(summary['quarantined'], 'unreadable line')}", style="yellow")
    return line


def _foot(board: Board) -> Text:
    if board.typed is not None:
        return Text.assemble(("/", "bold"), board.typed, ("▏", "bold"), ("  enter: filter  esc: as before", "dim"))
    if board.note:
        return Text(one_line(board.note), style="bold yellow")
    return Text(_KEYS[board.view], style="dim")


def _lists(board: Board, width: int, room: int, now: float) -> list[Text]:
    upper = max(1, (room - 2) * 9 // 20)
    lower = max(1, room - 2 - upper)
    shown: tuple[tuple[List[Any], str, int, Callable[[Any], Text]], ...] = (
        (board.trajectories, _title(board), upper, lambda row: _trajectory(row, width - 2, now)),
        (board.verdicts, "last verdicts", lower, lambda row: _verdict(row, board.names, width - 2)),
    )
    lines: list[Text] = []
    for rows, title, height, line in shown:
        focus = board.list is rows
        lines.append(Text(title, style="bold underline" if focus else "bold"))
        start, seen = rows.window(height)
        body = [_chosen(line(row), chosen=focus and start + at == rows.at) for at, row in enumerate(seen)]
        if not body:
            body = [Text("  " + _nothing(board), style="dim")]
        lines += body + [Text()] * (height - len(body))
    return lines


def _steps(board: Board, width: int, room: int, now: float) -> list[Text]:
    opened = board.opened
    if opened is None:
        return []
    said = f"  {opened['format']}, {counted(opened['steps'], 'step')}, last {_age(opened['last'], now)} ago"
    if board.search:
        said += f", filter “{board.search}”: {len(board.steps.rows)}"
    lines = [Text.assemble((one_line(opened["trajectory"]), "bold underline"), (said, "dim"))]
    if (alarm := opened["alarm"]) is not None:
        lines.append(_alarm(alarm))
    start, seen = board.steps.window(room - len(lines))
    lines += [_chosen(_step(row, width - 2), chosen=start + at == board.steps.at) for at, row in enumerate(seen)]
    return lines if seen else [*lines, Text(f"  {_nothing(board)}", style="dim")]


def _card(board: Board, card: Card, width: int, room: int) -> list[Text]:
    screen = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=True,
        color_system="standard",
        highlight=False,
        legacy_windows=False,
    )
    labels = [_label(said, card.verdict.step_id) for said in card.document["labels"]]
    with screen.capture() as shown:
        Explanation(screen, card.verdict, policy_of(card.verdict), _stored(card.alarm), labels).show()
    lines = list(Text.from_ansi(shown.get()).split("\n"))
    board.scroll = max(0, min(board.scroll, len(lines) - room))
    return lines[board.scroll :]


def _chosen(line: Text, *, chosen: bool) -> Text:
    shown = Text.assemble("> " if chosen else "  ", line)
    if chosen:
        shown.stylize("reverse")
    return shown


def _trajectory(row: Trajectory, width: int, now: float) -> Text:
    counts, alarm = row["verdicts"], row["alarm"]
    kind = "off_path" if counts["off_path"] else "on_path" if counts["on_path"] else "abstain"
    mark = Text("!", style="bold red") if alarm and not alarm["acknowledged"] else _mark(kind)
    figures = f"{counted(row['steps'], 'step'):>11}  "
    off = f"{counts['off_path']:>4,} off  "
    rest = f"{100 * row['coverage']:>3.0f} % checked  {_age(row['last'], now):>4}"
    labels = f"  {counted(row['labels'], 'label')}" if row["labels"] else ""
    name = Text(short(row["trajectory"]), style="cyan")
    name.truncate(max(8, width - len(figures + off + rest) - 3 - len(labels)), overflow="ellipsis", pad=True)
    return Text.assemble(
        mark, " ", name, (labels, "dim"), " ", figures, (off, "red" if counts["off_path"] else "dim"), (rest, "dim")
    )


def _verdict(row: Row, names: Mapping[str, str], width: int) -> Text:
    place = row.get("trajectory_id", "")
    name = Text(short(names.get(place, place[:8])), style="cyan")
    name.truncate(max(8, width // 5), overflow="ellipsis")
    return Text.assemble(_mark(row["verdict"]), " ", name, " ", _step(row, width, mark=False))


def _step(row: Row, width: int, *, mark: bool = True) -> Text:
    tool = Text(one_line(row["tool"]), style="dim")
    tool.truncate(_TOOL, overflow="ellipsis")
    line = Text.assemble(_mark(row["verdict"]), " ") if mark else Text()
    line.append(f"#{row['step']}", style="cyan")
    if row["alarm"]:
        line.append(" alarm", style="bold red")
    if row["label"]:
        line.append(f" [{_truth(row['label'], row['verdict'])}]", style="yellow")
    line.append(" ").append(tool).append("  ")
    why = ", ".join(row["signals"][:2]) if row["verdict"] == "off_path" else ""
    if why:
        line.append(f"{one_line(why)}  ", style="red")
    elif row["verdict"] == "abstain":
        line.append(f"{one_line(row['reason'])}  ", style="dim")
    return line.append(one_line(row["action"])[: 4 * width])


def _truth(label: str, verdict: str) -> str:
    if label == "on_path":
        return "false alarm" if verdict == "off_path" else "really on path"
    return "really off path" if label == "off_path" else label


def _alarm(alarm: Alarm) -> Text:
    line = Text(f"! alarm at #{alarm['step']}", style="bold red")
    if alarm["first_bad"]:
        line.append(f", it seems to go wrong at #{alarm['first_bad']}")
    if (known := alarm["acknowledged"]) is not None:
        line.append(f"; acknowledged by {one_line(known['by']) or 'somebody'}", style="dim")
    return line


def _mark(kind: str) -> Text:
    known = VerdictKind(kind) if kind in list(VerdictKind) else VerdictKind.ABSTAIN
    return Text(MARKS[known], style=STYLES[known])


def _title(board: Board) -> str:
    count = len(board.trajectories.rows)
    total = board.summary["trajectories"] if board.summary is not None else count
    title = f"trajectories ({count:,} of {total:,})" if count != total else f"trajectories ({count:,})"
    return f"{title}, filter “{board.filters['board']}”" if board.filters["board"] else title


def _nothing(board: Board) -> str:
    if board.summary is None:
        return "waiting for the daemon"
    return "nothing matches the filter" if board.search else "nothing yet: it shows once an agent has done a step"


def _estimate(estimate: Estimate, *, count: bool = True) -> str:
    value, low, high = estimate["value"], estimate["low"], estimate["high"]
    if value is None or low is None or high is None:
        return "-"
    of = f" of {estimate['n']:,}" if count else ""
    return f"{_percent(value)} %{of} ({_percent(low)} to {_percent(high)})"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.2g}"


def _age(then: str, now: float) -> str:
    seconds = max(0.0, now - _seconds(then))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _seconds(then: str) -> float:
    try:
        return datetime.fromisoformat(then).timestamp()
    except ValueError:
        return 0.0


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _label(said: Said, step_id: str) -> Label:
    return Label(
        step_id=step_id,
        label=said["label"],
        source=said["source"],
        by=said["by"],
        note=said["note"],
        time=_seconds(said["time"]),
        undone=_seconds(said["undone"]) if said["undone"] else None,
    )


def _stored(alarm: Alarm | None) -> StoredAlarm | None:
    if alarm is None:
        return None
    known = alarm["acknowledged"]
    return StoredAlarm(
        id=alarm["id"],
        format="",
        trajectory="",
        run=0,
        step=alarm["step"],
        first_bad=alarm["first_bad"],
        statistic=alarm["statistic"],
        threshold=alarm["threshold"],
        time=_seconds(alarm["time"]),
        acknowledged=known and Acknowledgement(time=_seconds(known["time"]), by=known["by"], note=known["note"]),
    )
