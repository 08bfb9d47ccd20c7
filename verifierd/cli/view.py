"""What a person sees on the terminal: cards of off-path steps, and tables.

Everything shown has gone through `sanitize`; it is put on the screen as `Text`, never as markup.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from verifierd.scoring.difference import differences
from verifierd.types import Verdict, VerdictKind

__all__ = ("card", "console", "line", "share", "summary_table")

STYLES = {VerdictKind.ON_PATH: "green", VerdictKind.OFF_PATH: "bold red", VerdictKind.ABSTAIN: "dim"}
_MARKS = {VerdictKind.ON_PATH: "✓", VerdictKind.OFF_PATH: "✗", VerdictKind.ABSTAIN: "·"}
_MOST_LINES = 24
_CONTEXT = 2


def console(*, stderr: bool = False) -> Console:
    """A console that colours only on a terminal."""
    return Console(stderr=stderr, highlight=False, soft_wrap=False)


def line(verdict: Verdict) -> Text:
    """One step on one line."""
    action = verdict.action.split("\n", 1)[0]
    text = Text(f"{_MARKS[verdict.verdict]} ", style=STYLES[verdict.verdict])
    text.append(f"{verdict.verdict.value.replace('_', ' '):9}", style=STYLES[verdict.verdict])
    text.append(f" {verdict.reason:15} ", style="dim")
    text.append(f"{verdict.trajectory} #{verdict.step} ", style="cyan")
    text.append(action)
    text.truncate(200, overflow="ellipsis")
    return text


def card(verdict: Verdict) -> RenderableType:
    """An off-path step: where, what was asked, predicted against observed, why."""
    head = Text("✗ off path ", style="bold red")
    head.append(f"{verdict.trajectory} #{verdict.step}", style="bold cyan")
    head.append(f"  {verdict.tool}  ", style="dim")
    head.append(f"{verdict.origin.path}:{verdict.origin.offset}", style="dim")
    parts: list[RenderableType] = [head, _action(verdict)]
    if verdict.predicted is not None and verdict.predicted != verdict.observed:
        parts.append(_diff(verdict.predicted, verdict.observed))
    for signal in verdict.signals[:4]:
        reason = Text(f"{signal.name} ", style="red")
        reason.append(signal.detail.replace("\n", "⏎"))
        if signal.span is not None:
            reason.append(f"  characters {signal.span[0]}-{signal.span[1]}", style="dim")
        parts.append(reason)
    parts.append(Text(f"verdict {verdict.verdict_id}", style="dim"))
    return Group(parts[0], *(Padding(part, (0, 0, 0, 2)) for part in parts[1:]), Text())


def _action(verdict: Verdict) -> Text:
    lines = verdict.action.split("\n")
    text = Text("$ ", style="bold")
    text.append(lines[0], style="bold")
    if len(lines) > 1:
        text.append(f"  (+{len(lines) - 1} lines)", style="dim")
    return text


def _diff(predicted: str, observed: str) -> Text:
    """Predicted against observed, changed lines side by side in red and green, the changed characters in reverse."""
    left, right = predicted.rstrip("\n").split("\n"), observed.rstrip("\n").split("\n")
    text = Text()
    shown = 0
    for group in difflib.SequenceMatcher(None, left, right, autojunk=False).get_grouped_opcodes(_CONTEXT):
        for tag, left_start, left_end, right_start, right_end in group:
            if tag == "equal":
                for same in left[left_start:left_end]:
                    text.append(f"            │ {same}\n", style="dim")
                    shown += 1
                continue
            was, now = "\n".join(left[left_start:left_end]), "\n".join(right[right_start:right_end])
            text.append(_side("predicted", was, [(d.start, d.end) for d in differences(now, was)], "red"))
            text.append(_side("observed", now, [(d.start, d.end) for d in differences(was, now)], "green"))
            shown += left_end - left_start + right_end - right_start
        if shown > _MOST_LINES:
            text.append("            … more differences below\n", style="dim")
            break
    text.rstrip()
    return text


def _side(name: str, block: str, changed: Sequence[tuple[int, int]], style: str) -> Text:
    if not block:
        return Text(f"{name:>11} │ (nothing)\n", style=f"{style} italic")
    body = Text(block, style=style)
    for start, end in changed:
        body.stylize(f"{style} reverse", start, end)
    text = Text()
    for number, row in enumerate(body.split("\n", allow_blank=True)):
        if number == _MOST_LINES:
            text.append(f"{'':>11} │ …\n", style="dim")
            break
        text.append(f"{name if number == 0 else '':>11} │ ", style=style)
        text.append(row)
        text.append("\n")
    return text


def summary_table(document: Mapping[str, Any]) -> RenderableType:
    """The summary of a replay, or of a state, as a person likes to read it."""
    steps = document["steps"]
    verdicts = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    verdicts.add_column(no_wrap=True)
    verdicts.add_column(justify="right")
    verdicts.add_column(justify="right")
    verdicts.add_column(overflow="fold")
    reasons = ", ".join(f"{name} {count}" for name, count in _largest(document["reasons"]))
    for kind in VerdictKind:
        count = document["verdicts"][kind.value]
        why = reasons if kind is VerdictKind.ABSTAIN else ""
        verdicts.add_row(
            Text(f"{_MARKS[kind]} {kind.value.replace('_', ' ')}", style=STYLES[kind]),
            str(count),
            share(count, steps),
            Text(why, style="dim"),
        )
    tools = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("tool", "steps", "on path", "off path", "abstain", "checked"):
        tools.add_column(name, justify="left" if name == "tool" else "right", no_wrap=name != "tool")
    for name, counts in sorted(document["by_tool"].items(), key=lambda item: -item[1]["steps"])[:12]:
        checked = document["coverage"]["by_tool"][name]
        tools.add_row(
            Text(name),
            *(str(counts[key]) for key in ("steps", "on_path", "off_path", "abstain")),
            share(checked["above_zero"], checked["steps"]),
        )
    return Group(verdicts, Text(), tools)


def share(part: float, whole: float) -> str:
    """A percentage, or a dash where there is nothing to divide by."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _largest(counts: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])
