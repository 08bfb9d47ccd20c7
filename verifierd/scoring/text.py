"""The observation against a whole predicted text."""

import re
from collections.abc import Callable, Sequence

from verifierd.scoring.difference import Difference, differences, distance, spread, unpaired
from verifierd.scoring.equality import EQUALITIES, LOOSE, equal, unordered
from verifierd.scoring.normalise import HIDING, NORMALISERS, Text, both
from verifierd.types import Abstain, History, Prediction, Score, Signal, Step

__all__ = ("Normalised",)


class Normalised:
    """Equal once both sides are normalised, or saying the same in another order or with other runtime content?

    A certain prediction that differs is contradicted. A guess that differs is only `suspect`, and abstains as
    `uncalibrated`: nobody has measured yet how often that guess is wrong.

    Args:
        normalisers: Names in `scoring.normalise.NORMALISERS`, applied to both sides in this order, and in
            `scoring.equality.EQUALITIES`, tried after them. Those in `HIDING` and `LOOSE` serve guesses only: what is
            certain is certain of every visible character.
    """

    def __init__(self, normalisers: Sequence[str]) -> None:
        # A prompt can only be told from what was predicted once the echo before it is gone.
        removing = tuple(sorted((name for name in normalisers if name in NORMALISERS), key=_after(normalisers)))
        comparing = tuple(name for name in normalisers if name in EQUALITIES)
        if unknown := set(normalisers) - {*removing, *comparing}:
            raise KeyError(*unknown)
        self._guess = removing, comparing
        self._certain = (
            tuple(name for name in removing if name not in HIDING),
            tuple(name for name in comparing if name not in LOOSE),
        )

    def __call__(self, history: History, step: Step, prediction: Prediction) -> Score:
        if prediction.text is None:
            return Score(name="normalised", reason="no predicted text")
        if step.elided is not None:
            return self._visible_part(step, prediction.text)
        if prediction.text == step.observation:
            return Score(name="normalised", value=0.0, coverage=1.0)
        removing, comparing = self._certain if prediction.certain else self._guess
        expected, observed, needed = both(prediction.text, step.observation, step, removing)
        if (found := equal(expected.value, observed.value, step, history, comparing)) is not None:
            names, formal = found
            return _equal([*needed, *names], 1.0 - min(1.0, formal / max(1, len(observed.value.strip()))))
        if prediction.truncated and observed.value.startswith(expected.value.rstrip()):
            return Score(name="normalised", abstain=Abstain.TRUNCATED, reason="the token cap cut the prediction")
        if spread(prediction.text, step.observation) <= max(2, spread(expected.value, observed.value)):
            # The texts as they are differ in no more than the normalised ones: a change that completes an escape or
            # an echo must not grow by what is then taken off.
            expected, observed = Text(prediction.text), Text(step.observation)
        free = "unordered-lines" in comparing and unordered(step) is not None
        return _different(expected, observed, prediction, unpaired if free else differences)

    def _visible_part(self, step: Step, predicted: str) -> Score:
        """Of what the log cut only what is left can be compared, and a difference may be the cut's doing."""
        removing, comparing = self._certain[0], self._guess[1]
        expected, observed, needed = both(predicted, step.observation, step, removing)
        names = [name for name in comparing if name == "truncation"]
        found = equal(expected.value, observed.value, step, (), names) if names else None
        if found is None:
            return Score(name="normalised", reason=f"the log cut the observation ({step.elided})")
        return _equal([*needed, *found[0]], 1.0)


def _after(names: Sequence[str]) -> Callable[[str], float]:
    """The order given, but that prompts go after an echoed command."""
    places = {name: float(place) for place, name in enumerate(names)}
    if "prompts" in places and "echoed-command" in places:
        places["prompts"] = max(places["prompts"], places["echoed-command"] + 0.5)
    return lambda name: places[name]


def _different(
    expected: Text, observed: Text, prediction: Prediction, differing: Callable[[str, str], list[Difference]]
) -> Score:
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
            for found in differing(expected.value, observed.value)
        ),
    )


def _equal(needed: Sequence[str], coverage: float) -> Score:
    """A match, and what it took: so the strict figure stays visible beside the lenient one."""
    detail = f"equal only after normalising: {', '.join(needed)}" if needed else "equal only after normalising"
    return Score(
        name="normalised",
        value=0.0,
        coverage=coverage,
        signals=(Signal(name="inexact", value=1.0, detail=detail),),
    )


_WORD = 40  # characters that a word is followed on either side
_WORD_END = re.compile(r"\w+\Z")
_WORD_START = re.compile(r"\w+")


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
