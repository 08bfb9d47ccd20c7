"""The observation against a whole predicted text."""

import re
from collections.abc import Sequence

from verifierd.scoring.difference import Difference, differences, distance, spread
from verifierd.scoring.normalise import HIDING, Text, normalise
from verifierd.types import Abstain, History, Prediction, Score, Signal, Step

__all__ = ("Normalised",)


class Normalised:
    """Equal once both sides are normalised?

    A certain prediction that differs is contradicted. A guess that differs is only `suspect`, and abstains as
    `uncalibrated`: nobody has measured yet how often that guess is wrong.

    Args:
        normalisers: Names in `scoring.normalise.NORMALISERS`, applied to both sides in this order. Those in `HIDING`
            serve guesses only: what is certain is certain of every visible character.
    """

    def __init__(self, normalisers: Sequence[str]) -> None:
        self._all = tuple(normalisers)
        self._harmless = tuple(name for name in normalisers if name not in HIDING)

    def __call__(self, _history: History, step: Step, prediction: Prediction) -> Score:
        if prediction.text is None:
            return Score(name="normalised", reason="no predicted text")
        if step.elided is not None:
            # What the log cut cannot be compared; the visible part belongs to the partial predictions.
            return Score(name="normalised", reason=f"the log cut the observation ({step.elided})")
        if prediction.text == step.observation:
            return Score(name="normalised", value=0.0, coverage=1.0)
        names = self._harmless if prediction.certain else self._all
        expected = normalise(prediction.text, step, names)
        observed = normalise(step.observation, step, names)
        if expected.value == observed.value:
            # The strict figure stays visible: which matches needed normalising.
            return Score(name="normalised", value=0.0, coverage=1.0, signals=(_INEXACT,))
        if prediction.truncated and observed.value.startswith(expected.value.rstrip()):
            return Score(name="normalised", abstain=Abstain.TRUNCATED, reason="the token cap cut the prediction")
        if spread(prediction.text, step.observation) <= max(2, spread(expected.value, observed.value)):
            # The texts as they are differ in no more than the normalised ones: a change that completes an escape or
            # an echo must not grow by what is then taken off.
            expected, observed = Text(prediction.text), Text(step.observation)
        name = "contradiction" if prediction.certain else "suspect"
        return Score(
            name="normalised",
            value=distance(expected.value, observed.value),
            coverage=1.0 if prediction.certain else 0.0,
            violated=prediction.certain,
            abstain=None if prediction.certain else Abstain.UNCALIBRATED,
            signals=tuple(
                Signal(
                    name=name,
                    value=1.0,
                    span=observed.span(found.start, found.end),
                    detail=_words(found, observed.value),
                )
                for found in differences(expected.value, observed.value)
            ),
        )


_WORD = 40  # characters that a word is followed on either side
_WORD_END = re.compile(r"\w+\Z")
_WORD_START = re.compile(r"\w+")
_INEXACT = Signal(name="inexact", value=1.0, detail="equal only after normalising")


def _words(found: Difference, observed: str) -> str:
    """The difference for people: whole words, though the span is as tight as can be."""
    start, end = found.start, found.end
    if "\n" not in found.expected and "\n" not in observed[start:end]:
        before = _WORD_END.search(observed, max(0, start - _WORD), start)
        after = _WORD_START.match(observed, end, end + _WORD)
        start = before.start() if before else start
        end = after.end() if after else end
    expected = observed[start : found.start] + found.expected + observed[found.end : end]
    if not expected:
        return f"{_quote(observed[start:end])} was not expected"
    if start == end:
        return f"expected {_quote(expected)} here; it is missing"
    return f"expected {_quote(expected)}, observed {_quote(observed[start:end])}"


def _quote(text: str) -> str:
    text = text.strip("\n")
    if not text:
        return "a line break"
    return f"“{text[:80]}…”" if len(text) > 80 else f"“{text}”"
