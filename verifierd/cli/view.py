"""What a person sees on the terminal: cards of off-path steps, lines of others, and tables.

Everything shown has gone through `sanitize`; it is put on the screen as `Text`, never as markup.
"""

import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

from verifierd.scoring.difference import differences
from verifierd.types import Alarm, Verdict, VerdictKind

__all__ = (
    "alarm_line",
    "bar",
    "card",
    "comparison",
    "console",
    "counted",
    "indented",
    "line",
    "numbers",
    "one_line",
    "print_json",
    "print_line",
    "share",
    "short",
    "summary_table",
)

STYLES = {VerdictKind.ON_PATH: "green", VerdictKind.OFF_PATH: "bold red", VerdictKind.ABSTAIN: "dim"}
MARKS = {VerdictKind.ON_PATH: "✓", VerdictKind.OFF_PATH: "✗", VerdictKind.ABSTAIN: "·"}
_MOST_LINES = 24
_MOST_SIGNALS = 4
_MOST_TOOLS = 12
_CONTEXT = 2
_ACTION = 60
_NAME = 20
_TOOL = 32


def console(*, stderr: bool = False) -> Console:
    """A console that colours and wraps only on a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, soft_wrap=not stream.isatty())


def bar(*more: ProgressColumn) -> Progress:
    """A progress bar on standard error, with more columns at its end; none unless that is a terminal."""
    screen = Console(stderr=True, highlight=False)
    return Progress(
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.description}"),
        *more,
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")
    sys.stdout.buffer.flush()  # so that a reader who left shows here and not at the very end


def line(verdict: Verdict) -> Text:
    """One step on one line; print it with `print_line`."""
    text = Text(f"{MARKS[verdict.verdict]} ", style=STYLES[verdict.verdict])
    text.append(f"{short(verdict.trajectory)} #{verdict.step}", style="cyan")
    if verdict.verdict is VerdictKind.ABSTAIN:
        text.append(f"  {verdict.reason}", style="dim")
    action = one_line(verdict.action)
    said = ""
    if verdict.verdict is VerdictKind.ABSTAIN and verdict.model is not None:
        said = next((signal.detail for signal in verdict.signals if signal.name == "suspect"), verdict.detail)
    if said and len(action) > _ACTION:
        action = f"{action[:_ACTION]}…"
    text.append(f"  {action}")
    text.append(f"  {one_line(said)}" if said else "", style="dim")
    return text


def alarm_line(verdict: Verdict, alarm: Alarm) -> Text:
    """That a trajectory alarmed at this step, why, and where to look."""
    text = Text("! alarm  ", style="bold red")
    text.append(f"{short(verdict.trajectory)} #{verdict.step}", style="bold cyan")
    text.append(f"  evidence {alarm.statistic:.4g} is above {alarm.threshold:.4g}")
    if alarm.first_bad:
        text.append(f"; it seems to go wrong at #{alarm.first_bad}")
    return text.append(f"  (verifierd explain {verdict.verdict_id[:12]})\n", style="dim")


def print_line(screen: Console, text: Text) -> None:
    """A text that is cut at the edge of a terminal, and whole elsewhere."""
    if screen.soft_wrap:
        screen.print(text)
    else:
        screen.print(text, no_wrap=True, overflow="ellipsis")


def indented(screen: Console, text: str, lead: Text, *, style: str = "") -> None:
    """Print a text behind a lead; on a terminal its further rows begin below its first."""
    rows = [Text(text)] if screen.soft_wrap else Text(text).wrap(screen, max(20, screen.width - len(lead)))
    for row in rows:
        row.stylize(style)
        screen.print(Text.assemble(lead, row))
        lead = Text(" " * len(lead))


def short(trajectory: str) -> str:
    """A trajectory's name with long parts, such as those of a UUID, cut."""
    parts = (part if len(part) <= _NAME else f"{part[:8]}…" for part in trajectory.split("/"))
    return one_line("/".join(parts))


def numbers(steps: Iterable[int]) -> str:
    """`#2, #4 to #7`: in order, whatever the order they came in."""
    runs: list[list[int]] = []
    for step in sorted(steps):
        if runs and step == runs[-1][1] + 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])
    return ", ".join(f"#{first}" if first == last else f"#{first} to #{last}" for first, last in runs)


def card(verdict: Verdict) -> Text:
    """An off-path step: where, what was asked, predicted against observed, why."""
    rows = [
        Text.assemble(
            ("✗ off path  ", STYLES[VerdictKind.OFF_PATH]),
            (f"{one_line(verdict.trajectory)} #{verdict.step}", "bold cyan"),
            (f"  {one_line(verdict.tool)}", "dim"),
        ),
        Text(f"in {one_line(verdict.origin.path)}, at byte {verdict.origin.offset}", style="dim"),
        _action(verdict),
    ]
    if verdict.predicted is not None and verdict.predicted != verdict.observed:
        rows += _diff(verdict.predicted, verdict.observed)
    for signal in verdict.signals[:_MOST_SIGNALS]:
        reason = Text(f"{signal.name}: ", style="red")
        reason.append(one_line(signal.detail))
        if signal.span is not None:
            reason.append(f"  (characters {signal.span[0]} to {signal.span[1]})", style="dim")
        rows.append(reason)
    rows.append(Text(f"verdict {verdict.verdict_id}", style="dim"))
    return Text("\n  ").join(rows).append("\n")


def one_line(text: str) -> str:
    """The text with its line breaks made visible."""
    return text.replace("\n", "⏎")


def _action(verdict: Verdict) -> Text:
    lines = verdict.action.split("\n")
    text = Text("$ ", style="bold")
    text.append(lines[0], style="bold")
    if len(lines) > 1:
        text.append(f"  (+{counted(len(lines) - 1, 'line')})", style="dim")
    return text


def comparison(verdict: Verdict) -> list[Text]:
    """Predicted against observed; where no whole text was predicted, what came, with the places that decided."""
    observed = verdict.observed
    if verdict.predicted is not None and verdict.predicted != observed:
        return _diff(verdict.predicted, observed)
    spans = sorted({signal.span for signal in verdict.signals if signal.span is not None})
    start = 0
    if spans and (above := observed[: spans[0][0]].split("\n")[:-1])[_CONTEXT:]:  # leave out what is far before them
        start = len("\n".join(above[:-_CONTEXT])) + 1
    rows = _side("observed", observed[start:].rstrip("\n"), [(a - start, b - start) for a, b in spans], "default")
    return [Text("          │ …", style="dim"), *rows] if start else rows


def _diff(predicted: str, observed: str) -> list[Text]:
    """Predicted against observed: changed lines one above the other, the changed characters in reverse."""
    left, right = predicted.rstrip("\n").split("\n"), observed.rstrip("\n").split("\n")
    rows: list[Text] = []
    for group in difflib.SequenceMatcher(None, left, right, autojunk=False).get_grouped_opcodes(_CONTEXT):
        for tag, left_start, left_end, right_start, right_end in group:
            if tag == "equal":
                rows += [Text(f"          │ {same}", style="dim") for same in left[left_start:left_end]]
                continue
            was, now = "\n".join(left[left_start:left_end]), "\n".join(right[right_start:right_end])
            rows += _side("predicted", was, [(d.start, d.end) for d in differences(now, was)], "red")
            rows += _side("observed", now, [(d.start, d.end) for d in differences(was, now)], "green")
        if len(rows) > _MOST_LINES:
            rows.append(Text("          … more differences below", style="dim"))
            break
    if not rows:
        rows.append(Text("          │ they differ in the line ends at the end only", style="dim"))
    return rows


def _side(name: str, block: str, changed: Sequence[tuple[int, int]], style: str) -> list[Text]:
    if not block:
        return [Text(f"{name:>9} │ (nothing)", style=f"{style} italic")]
    body = Text(block, style=style)
    for start, end in changed:
        body.stylize(f"{style} reverse", start, end)
    rows = []
    for number, row in enumerate(body.split("\n", allow_blank=True)):
        if number == _MOST_LINES:
            rows.append(Text("          │ …", style="dim"))
            break
        rows.append(Text(f"{name if number == 0 else '':>9} │ ", style=style).append(row))
    return rows


def summary_table(document: Mapping[str, Any]) -> RenderableType:
    """The summary of a replay, or of a run, as a person likes to read it."""
    steps = document["steps"]
    reasons = ", ".join(f"{name} {count}" for name, count in _largest(document["reasons"]))
    rows = [
        Text(
            f"{counted(steps, 'step')} of {counted(document['trajectories'], 'trajectory')}"
            f" in {document['seconds']['wall']:.1f} s",
            style="bold",
        )
    ]
    for kind in VerdictKind:
        count = document["verdicts"][kind.value]
        row = Text(f"{MARKS[kind]} {kind.value.replace('_', ' '):9}", style=STYLES[kind] if count else "dim")
        row.append(f"{count:>7,} {share(count, steps):>6}", style="default")
        if kind is VerdictKind.ABSTAIN and reasons:
            row.append(f"  {reasons}", style="dim")
        rows.append(row)
    if document["model"] is not None:
        asked = f"asked {document['model']} about {counted(document['asked'], 'step')}"
        computed = document["tokens"]["computed"]
        rows.append(Text(f"{asked}, {counted(computed, 'token')} computed" if computed else asked, style="dim"))
    return Group(*rows, Text(), _tools(document))


def _tools(document: Mapping[str, Any]) -> Table:
    tools = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    tools.add_column("tool", no_wrap=True, overflow="ellipsis", max_width=_TOOL)
    for name in ("steps", "on path", "off path", "abstain", "checked"):
        tools.add_column(name, justify="right", no_wrap=True)
    largest = sorted(document["by_tool"].items(), key=lambda item: -item[1]["steps"])
    for name, counts in largest[:_MOST_TOOLS]:
        checked = document["coverage"]["by_tool"][name]
        tools.add_row(
            Text(one_line(name)),
            *(f"{counts[key]:,}" for key in ("steps", "on_path", "off_path", "abstain")),
            share(checked["above_zero"], checked["steps"]),
        )
    if others := largest[_MOST_TOOLS:]:
        sums = (f"{sum(counts[key] for _, counts in others):,}" for key in ("steps", "on_path", "off_path", "abstain"))
        tools.add_row(Text(f"and {counted(len(others), 'other')}", style="dim"), *sums, "")
    return tools


def share(part: float, whole: float) -> str:
    """A percentage, or a dash where there is nothing to divide by; few are not none, and most are not all."""
    if not whole:
        return "-"
    percent = round(100 * part / whole)
    if part and not percent:
        return "<1 %"
    return ">99 %" if percent == 100 and part < whole else f"{percent} %"


def counted(count: int, noun: str) -> str:
    """`1 step`, `2 steps`, `2 trajectories`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def _largest(counts: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])
