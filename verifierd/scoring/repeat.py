"""`stale`: the observation repeats an earlier one though another thing was asked, or the state changed since.

A hint, never a verdict.
"""

import re
from collections.abc import Sequence

from verifierd.scoring.foreign import objects
from verifierd.types import History, ObservationKind, Prediction, Score, Signal, Step

__all__ = ("stale",)

_WINDOW = 150
_SHORT = 250  # characters of one line


def stale(history: History, step: Step, _prediction: Prediction) -> Score:
    """Does a non-empty observation equal the previous step's, which asked something else, or an outdated answer?

    On clean real sessions this is wrong often enough to be only a hint; README.md has the figures.
    """
    if not history or step.observation_kind is not ObservationKind.ENV:
        return Score(name="stale", reason="nothing before it")
    if not step.observation.strip():
        return Score(name="stale")
    detail = _repeats(history[-_WINDOW:], step) or _outdated(history[-_WINDOW:], step)
    if not detail:
        return Score(name="stale")
    return Score(
        name="stale", signals=(Signal(name="stale", value=1.0, span=(0, len(step.observation)), detail=detail),)
    )


def _repeats(past: Sequence[Step], step: Step) -> str:
    """The step before was answered so, and no other: some tools say the same whatever they are asked."""
    before = past[-1]
    if not _same(before, step) or before.action == step.action:
        return ""
    if any(_same(other, step) for other in past[:-1]) or not _tells(before, step):
        return ""
    return f"repeats the observation of step {before.index}, which asked something else"


def _tells(before: Step, step: Step) -> bool:
    """Does an answer that both got say more than that a tool did, or found nothing of, what it was told?"""
    text = step.observation.strip()
    if step.action.command is not None or before.tool != step.tool or "\n" in text or len(text) > _SHORT:
        return True
    return any(name in text for name in objects(before.action) - objects(step.action))


def _outdated(past: Sequence[Step], step: Step) -> str:
    """The same action was answered so before something was written that should show."""
    for index in range(len(past) - 1, -1, -1):
        before = past[index]
        if before.action != step.action or before.observation_kind is not ObservationKind.ENV:
            continue
        if before.cwd != step.cwd or not _same(before, step):
            return ""
        written = [path for other in past[index + 1 :] if (path := _written(other))]
        shown = next((path for path in written if path in step.action.text), None)
        if shown is not None:
            return f"is what step {before.index} was answered, though {shown} was written since"
        if written and (before.succeeded is False or _DIFF.search(step.action.command or "")):
            return f"is what step {before.index} was answered, though files were written since"
        return ""
    return ""


_DIFF = re.compile(r"\bgit diff(?: --?[\w=-]+)*\s*(?:\Z|[|;&])")
_TEXTS = ("content", "new_string", "new_str", "edits", "new_source", "file_text")


def _written(step: Step) -> str:
    """The name of the file that a step wrote with a tool for it; empty if there is none."""
    fields = step.action.fields
    if step.succeeded is False or not any(name in fields for name in _TEXTS):
        return ""
    path = next((fields[name] for name in ("file_path", "path", "notebook_path") if name in fields), "")
    return re.split(r"[/\\]", path)[-1] if isinstance(path, str) else ""


def _same(past: Step, step: Step) -> bool:
    return past.observation_kind is ObservationKind.ENV and past.observation == step.observation
