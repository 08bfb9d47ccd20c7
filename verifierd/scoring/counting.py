"""Which characters of an observation count where something was guessed: those of the classes that a policy names."""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import compress

import msgspec
import numpy as np
from numpy.typing import NDArray

from verifierd.scoring.classes import HIGH_ENTROPY, Content, classes, runtime
from verifierd.types import History, Likelihood, Prediction, Score, Step

__all__ = ("counted", "counting", "heeded", "idle")

Span = tuple[int, int]
_USUAL = {Content.DETERMINISTIC, Content.PRE_EXISTING}


def idle(history: History, step: Step, found: Likelihood, kinds: Collection[str]) -> NDArray[np.bool_]:
    """Of each token: does it belong to content whose class is none of `kinds`?

    One that shares a character with what only a run can tell belongs to that; else one that the model could not know is
    pre-existing, unless the history fixes it. What follows the observation is never idle, nor is anything where the
    tokens' places are not known.
    """
    count = len(found.surprisal)
    if len(set(kinds)) == len(Content) or count < 2 or len(found.starts) != count - 1:
        return np.zeros(count, np.bool_)
    free, fixed = runtime(step.observation, step, history)
    bounds = np.array([*found.starts, max(len(step.observation), found.starts[-1])])
    loose = _touched(bounds, free)
    if set(kinds) >= _USUAL:  # no entropy decides between them
        return np.append(loose, False)
    unsure = np.zeros(count - 1, np.bool_)
    if len(found.entropy) == count:
        unsure = (np.array(found.entropy[:-1]) >= HIGH_ENTROPY) & ~loose & ~_touched(bounds, fixed)
    gone = np.zeros(count, np.bool_)
    for name, tokens in (("runtime", loose), ("pre-existing", unsure), ("deterministic", ~(loose | unsure))):
        if name not in kinds:
            gone[:-1] |= tokens
    return gone


def _touched(bounds: NDArray[np.int64], spans: Sequence[tuple[int, int, str]]) -> NDArray[np.bool_]:
    """Of each token: does it share a character with one of some spans, ascending and disjoint?"""
    if not spans:
        return np.zeros(len(bounds) - 1, np.bool_)
    starts, ends = np.array([(start, end) for start, end, _ in spans]).T
    after = np.searchsorted(ends, bounds[:-1], "right")  # the first span that ends behind the token's start
    return np.append(starts, np.iinfo(np.int64).max)[after] < bounds[1:]


def counted(found: Likelihood, gone: NDArray[np.bool_]) -> Likelihood:
    """A likelihood without the idle tokens; the places of those left are not told, as they are not side by side."""
    if not gone.any():
        return found
    kept = (~gone).tolist()

    def without(values: Sequence[float]) -> tuple[float, ...]:
        """Some of the lists are empty: what a server does not tell."""
        return tuple(compress(values, kept) if len(values) == len(kept) else values)

    return Likelihood(
        surprisal=without(found.surprisal),
        entropy=without(found.entropy),
        varentropy=without(found.varentropy),
        top=without(found.top),
    )


def heeded(history: History, step: Step, prediction: Prediction, kinds: Collection[str]) -> Likelihood | None:
    """The likelihood of what counts; None if no model was asked."""
    found = prediction.likelihood
    return None if found is None else counted(found, idle(history, step, found, kinds))


def counting(score: Score, history: History, step: Step, prediction: Prediction, kinds: Collection[str]) -> Score:
    """A score without the signals whose place lies in content whose class is none of `kinds`.

    Where something is missing at the edge of such content it may be missing of what stands beside it.
    """
    if not score.signals or len(set(kinds)) == len(Content):
        return score
    if set(kinds) >= _USUAL:
        spans = [(start, end) for start, end, _ in runtime(step.observation, step, history)[0]]
    else:
        found = classes(step.observation, step, history, prediction)
        spans = [(span.start, span.end) for span in found if span.content not in kinds]
    starts = [start for start, _ in spans]

    def inside(place: Span) -> bool:
        start, end = spans[bisect_right(starts, place[0]) - 1] if starts and starts[0] <= place[0] else (0, -1)
        return place[1] <= end and (place[0] < place[1] or start < place[0] < end)

    signals = tuple(signal for signal in score.signals if signal.span is None or not inside(signal.span))
    return score if len(signals) == len(score.signals) else msgspec.structs.replace(score, signals=signals)
