"""`contracts`: what the observation must obey, part by part."""

import re

import msgspec

from verifierd.contracts.checks import Outcome, check
from verifierd.contracts.document import LEAST_POWER
from verifierd.contracts.tails import LONGEST, cut, visible
from verifierd.scoring.normalise import NORMALISERS, Text, normalise
from verifierd.types import Check, Constraint, History, Prediction, Score, Signal, Step

__all__ = ("contracts", "uncoloured")


def contracts(_history: History, step: Step, prediction: Prediction) -> Score:
    """Which constraints hold, which are violated, and how much of the observation they pin.

    Characters count as covered where a constraint holds that observations of the same tool from other sessions violate
    at least half of the time; bounds, order and statuses cover nothing but can contradict.
    """
    if not prediction.constraints:
        return Score(name="contracts", reason="no constraints")
    if cut(step):
        return Score(name="contracts", reason="the log cut it")
    looked_at = uncoloured(step)
    text = looked_at.value
    bare = Text(text).without(NORMALISERS["trailing-blanks"](text, step))
    spans: list[tuple[int, int]] = []
    signals: list[Signal] = []
    violated = status_checked = False
    empty = False
    checked = 0
    for constraint in prediction.constraints:
        outcome = _checked(constraint, text, bare, step)
        if not outcome.applied:
            continue
        checked += 1
        status_checked = status_checked or constraint.check is Check.STATUS
        if outcome.violated:
            violated = violated or constraint.deciding
            places = tuple(looked_at.span(start, end) for start, end in outcome.spans)
            signals += _signals(constraint, places, outcome.found, step)
        elif constraint.power >= LEAST_POWER:
            spans += outcome.spans
            empty = empty or constraint.check is Check.EMPTY
    return Score(
        name="contracts",
        value=float(len(signals)) if checked else None,
        coverage=_share(bare, spans, empty=empty),
        violated=violated,
        status_checked=status_checked,
        signals=tuple(signals),
    )


def _checked(constraint: Constraint, text: str, bare: Text, step: Step) -> Outcome:
    """What a constraint says of a text; blanks and carriage returns at the ends of its lines break nothing."""
    outcome = check(constraint, text, status=step.exit_code, succeeded=step.succeeded)
    if bare.value == text or not (outcome.violated or (constraint.power >= LEAST_POWER and not outcome.spans)):
        return outcome
    forgiving = check(_bared(constraint), bare.value, status=step.exit_code, succeeded=step.succeeded)
    if not forgiving.applied or forgiving.violated:
        return outcome
    return msgspec.structs.replace(forgiving, spans=tuple(bare.span(*span) for span in forgiving.spans))


_LITERAL = frozenset({Check.EQUALS, Check.CONTAINS, Check.STARTS, Check.ENDS})


def _bared(constraint: Constraint) -> Constraint:
    """A constraint whose literal lines have no blanks at their ends either."""
    return msgspec.structs.replace(
        constraint,
        text=_LINE_END.sub("", constraint.text) if constraint.check in _LITERAL else constraint.text,
        texts=tuple(_LINE_END.sub("", text) for text in constraint.texts),
        known={number: text.rstrip(" \t\r") for number, text in constraint.known.items()},
    )


_LINE_END = re.compile(r"(?<![ \t\r])[ \t\r]+$", re.MULTILINE)  # from the first blank only: linear


def uncoloured(step: Step) -> Text:
    """What is looked at of an observation: neither its harness's tails nor colours."""
    # Nothing but the status is checked of what is longer.
    return normalise(visible(step), step, ("ansi",) if len(step.observation) <= LONGEST else ())


def _signals(constraint: Constraint, spans: tuple[tuple[int, int], ...], found: str, step: Step) -> list[Signal]:
    name = "contradiction" if constraint.deciding else "unusual"
    if (
        constraint.check is Check.STATUS
        and step.exit_code is not None
        and (constraint.low == 0) != (step.exit_code == 0)
    ):
        name = "error_flip"
    detail = (
        f"{constraint.detail}; {found} [{constraint.rule}]" if found else f"{constraint.detail} [{constraint.rule}]"
    )
    return [
        Signal(name=name, value=1.0, span=span, detail=detail if number == 0 else constraint.detail)
        for number, span in enumerate(spans or [None])
    ]


def _share(text: Text, spans: list[tuple[int, int]], *, empty: bool) -> float:
    """The share of the trimmed text's characters, blanks at the ends of lines aside, that lie in spans of the original.

    An empty one that was predicted empty has 1.
    """
    end = len(text.original.rstrip())
    start = len(text.original) - len(text.original.lstrip())
    kept = [(max(first, start), min(last, end)) for first, last in text.kept if max(first, start) < min(last, end)]
    if not kept:
        return 1.0 if empty else 0.0
    covered = number = 0
    reached = start
    for begin, last in sorted(spans):
        first = max(begin, reached)
        reached = max(last, reached)
        while number < len(kept) and kept[number][1] <= first:
            number += 1
        at = number
        while at < len(kept) and kept[at][0] < last:
            covered += max(0, min(kept[at][1], last) - max(kept[at][0], first))
            at += 1
    return covered / sum(last - first for first, last in kept)
