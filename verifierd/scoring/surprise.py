"""How surprised a model was by the observation: one fused score, and the places that it would not have written."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from verifierd.fusion import Fusion
from verifierd.scoring.classes import Content
from verifierd.scoring.counting import counted, idle
from verifierd.types import Abstain, History, Likelihood, Prediction, Score, Signal, Step

__all__ = ("CERTAIN", "Surprise")

CERTAIN = 0.98
"""The probability from which on a model is called nearly certain of a token."""

_NATS = -math.log(CERTAIN)
_MOST = 10
"""Places shown of one observation, the most surprising ones."""


class Surprise:
    """The fused score of a model's likelihood; higher is worse, and below nought is usual.

    Until it is known how surprised the model is by what is true, the score says nothing: a difference is `suspect`,
    and the step abstains as `uncalibrated`. Where that is known, what the model was nearly certain of and came is
    covered. Where the whole text was predicted, the texts are compared instead.

    Args:
        fusion: What makes one score of the tokens.
        calibrated: Is it known for such a step?
        classes: The kinds of content that count for such a step.
    """

    def __init__(
        self,
        fusion: Fusion,
        *,
        calibrated: Callable[[Step], bool],
        classes: Callable[[Step], Collection[str]] = lambda _step: tuple(Content),
    ) -> None:
        self._fusion = fusion
        self._calibrated = calibrated
        self._classes = classes

    def __call__(self, history: History, step: Step, prediction: Prediction) -> Score:
        found = prediction.likelihood
        if found is None:
            return Score(name="surprise", reason="no model was asked")
        if step.elided is not None:
            # Neither the mark of the cut nor the end after it is the environment's.
            return Score(name="surprise", reason=f"the log cut the observation ({step.elided})")
        if prediction.failed is not None:
            return Score(name="surprise", reason="the model failed")
        gone = idle(history, step, found, self._classes(step))
        calibrated = self._calibrated(step)
        guessed = prediction.text is None
        places = _Places(found, step, gone)
        return Score(
            name="surprise",
            value=self._fusion.score(counted(found, gone)),
            coverage=places.covered() if calibrated else 0.0,
            abstain=Abstain.UNCALIBRATED if guessed and not calibrated else None,
            signals=(*places.suspect(), *places.surprising()) if guessed else (),
        )


class _Places:
    """Where in the observation the tokens stand."""

    def __init__(self, found: Likelihood, step: Step, gone: NDArray[np.bool_]) -> None:
        self._found = found
        self._gone = gone  # what of them does not count
        self._start = len(step.observation) - len(step.observation.lstrip())
        self._end = max(self._start, len(step.observation.rstrip()))
        self._bounds = (*found.starts, self._end)
        self._known = len(self._bounds) == len(found.surprisal)

    def _span(self, first: int, last: int) -> tuple[int, int] | None:
        """From one token through another."""
        return (self._bounds[first], self._bounds[min(last + 1, len(self._bounds) - 1)]) if self._known else None

    def covered(self) -> float:
        """The share of the trimmed observation's characters whose tokens the model was nearly certain of."""
        if not self._known:
            return 0.0
        came = _array(self._found.surprisal) <= _NATS
        if self._end == self._start:
            return float(came[-1])
        widths = np.diff(np.clip(_array(self._bounds), self._start, self._end))
        return min(1.0, max(0.0, float(widths @ came[:-1]) / (self._end - self._start)))

    def suspect(self) -> Iterator[Signal]:
        """The first token that the model would not have given."""
        found = self._found
        if found.expected is None or self._gone[found.agreed]:
            return
        surprisal = found.surprisal[found.agreed]
        expected = f"“{found.expected}”" if found.expected else "the end of the output"
        yield Signal(
            name="suspect",
            value=surprisal,
            span=self._span(found.agreed, found.agreed),
            detail=f"the model expected {expected} here; it found what came {surprisal:.1f} nats surprising",
        )

    def surprising(self) -> list[Signal]:
        """Tokens in place of which the model was nearly certain of others; neighbours are told together."""
        surprisal, top = _array(self._found.surprisal), _array(self._found.top)
        if surprisal.size != top.size:
            return []
        places = np.flatnonzero((top <= _NATS) & (surprisal > _NATS) & ~self._gone)
        breaks = np.flatnonzero(np.diff(places) > 1) + 1
        runs = [(run[0], run[-1], float(surprisal[run].max())) for run in np.split(places, breaks) if run.size]
        shown = sorted(sorted(runs, key=lambda run: -run[2])[:_MOST])
        return [
            Signal(
                name="surprise",
                value=worst,
                span=self._span(first, last),
                detail="the model was nearly certain of something else here; "
                f"it found what came {worst:.1f} nats surprising",
            )
            for first, last, worst in shown
        ]


def _array(values: Sequence[float]) -> NDArray[np.float64]:
    return np.fromiter(values, dtype=np.float64, count=len(values))
