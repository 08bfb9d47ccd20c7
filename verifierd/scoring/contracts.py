"""`contracts`: what the observation must obey, part by part."""

from verifierd.contracts.checks import check
from verifierd.contracts.document import LEAST_POWER
from verifierd.contracts.tails import LONGEST, cut, visible
from verifierd.scoring.normalise import Text, normalise
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
    spans: list[tuple[int, int]] = []
    signals: list[Signal] = []
    violated = status_checked = False
    empty = False
    checked = 0
    for constraint in prediction.constraints:
        outcome = check(constraint, text, status=step.exit_code, succeeded=step.succeeded)
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
        coverage=_share(text, spans, empty=empty),
        violated=violated,
        status_checked=status_checked,
        signals=tuple(signals),
    )


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


def _share(text: str, spans: list[tuple[int, int]], *, empty: bool) -> float:
    """The share of the trimmed text's characters that lie in spans; an empty one that was predicted empty has 1."""
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if end <= start:
        return 1.0 if empty else 0.0
    covered = 0
    last = start
    for first, stop in sorted(spans):
        covered += max(0, min(stop, end) - max(first, last))
        last = max(last, min(stop, end))
    return covered / (end - start)
