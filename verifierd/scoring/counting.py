"""Which characters of an observation count where something was guessed: those of the classes that a policy names."""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import TypeVar

import msgspec

from verifierd.scoring.classes import Content, classes
from verifierd.types import History, Likelihood, Prediction, Score, Step

__all__ = ("counted", "counting", "heeded", "touched", "unheeded")

Span = tuple[int, int]
_Item = TypeVar("_Item")


def unheeded(history: History, step: Step, prediction: Prediction, kinds: Collection[str]) -> list[Span]:
    """The spans of the observation whose class is none of `kinds`, in order."""
    if len(set(kinds)) == len(Content):
        return []
    found = classes(step.observation, step, history, prediction)
    return [(span.start, span.end) for span in found if span.content not in kinds]


def heeded(history: History, step: Step, prediction: Prediction, kinds: Collection[str]) -> Likelihood | None:
    """The likelihood of what counts; None if no model was asked."""
    found = prediction.likelihood
    return None if found is None else counted(found, unheeded(history, step, prediction, kinds))


def touched(found: Likelihood, spans: Sequence[Span]) -> list[bool]:
    """Of each token of the observation: does it share a character with one of some spans, ascending and disjoint?

    The last token reaches as far as the last span. Where the tokens' places are not known, none does.
    """
    starts = found.starts
    if len(starts) != len(found.surprisal) - 1:
        return [False] * (len(found.surprisal) - 1)
    shared = []
    place = 0
    for number, start in enumerate(starts):
        while place < len(spans) and spans[place][1] <= start:
            place += 1
        last = number + 1 == len(starts)
        shared.append(place < len(spans) and (last or spans[place][0] < starts[number + 1]))
    return shared


def counted(found: Likelihood, spans: Sequence[Span]) -> Likelihood:
    """A likelihood without the tokens that are `touched`; what follows the observation always counts.

    The places of those left are not told: they are no longer side by side.
    """
    gone = touched(found, spans)
    if not any(gone):
        return found
    return Likelihood(
        surprisal=_without(found.surprisal, gone),
        entropy=_without(found.entropy, gone),
        varentropy=_without(found.varentropy, gone),
        top=_without(found.top, gone),
    )


def counting(score: Score, spans: Sequence[Span]) -> Score:
    """A score without the signals whose place lies in one of some spans, ascending and disjoint.

    Where something is missing at the edge of a span it may be missing of what stands beside it.
    """
    starts = [start for start, _ in spans]

    def inside(place: Span) -> bool:
        start, end = spans[bisect_right(starts, place[0]) - 1] if starts and starts[0] <= place[0] else (0, -1)
        return place[1] <= end and (place[0] < place[1] or start < place[0] < end)

    signals = tuple(signal for signal in score.signals if signal.span is None or not inside(signal.span))
    return score if len(signals) == len(score.signals) else msgspec.structs.replace(score, signals=signals)


def _without(values: Sequence[_Item], gone: Sequence[bool]) -> tuple[_Item, ...]:
    """Some of the lists are empty: what a server does not tell."""
    if len(values) <= len(gone):
        return tuple(values)
    return (*(value for value, idle in zip(values[:-1], gone, strict=True) if not idle), values[-1])
