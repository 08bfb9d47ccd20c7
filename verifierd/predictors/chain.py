"""Several predictors asked in turn, while something of the observation is left unchecked."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import msgspec

from verifierd.stages import Predictor
from verifierd.types import FAILURES, History, Prediction, Step

__all__ = ("Chain",)


class Chain:
    """Gives the first whole prediction, with the constraints of the partial ones before it.

    Where there is none, the partial ones together are the prediction. Where all abstain, the first one's reason is
    told, unless one failed or a model was asked: that tells more. What the model cost is told in any case.

    Args:
        predictors: In the order in which they are asked.
        covered: The share of the observation that a partial prediction checks, 0 to 1.
        ask_below: The share from which on no further predictor is asked.
    """

    def __init__(
        self,
        predictors: Sequence[Predictor],
        *,
        covered: Callable[[History, Step, Prediction], float] = lambda _history, _step, _prediction: 0.0,
        ask_below: float = 1.0,
    ) -> None:
        self.predictors = tuple(predictors)
        self._covered = covered
        self._ask_below = ask_below
        self.name = ",".join(predictor.name for predictor in predictors)
        self.model = next((predictor.model for predictor in predictors if predictor.model), None)

    async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:
        """Ask in turn."""
        abstained: Prediction | None = None
        partial: Prediction | None = None
        for predictor in self.predictors:
            if partial is not None and self._covered(history, step, partial) >= self._ask_below:
                break
            prediction = await predictor.predict(history, step, keep=keep)
            if prediction.abstain is not None:
                abstained = _heavier(abstained, prediction)
                continue
            partial = _joined(partial, prediction)
            if prediction.text is not None:
                break
        if partial is None:
            assert abstained is not None, "a chain has at least one predictor"
            return abstained
        if abstained is None or partial.text is not None:
            return partial
        return _paid(_excused(partial, abstained), abstained)

    async def aclose(self) -> None:
        """Close all, the others too if one fails."""
        async with AsyncExitStack() as stack:
            for predictor in self.predictors:
                stack.push_async_callback(predictor.aclose)


def _heavier(first: Prediction | None, second: Prediction) -> Prediction:
    """Which of two abstentions tells more."""
    if first is None:
        return second
    failed = second.abstain in FAILURES
    model = second.model is not None and first.abstain not in FAILURES
    chosen, other = (second, first) if failed or model else (first, second)
    return _paid(chosen, other)


def _joined(first: Prediction | None, second: Prediction) -> Prediction:
    """What two know, of whom the second was asked because the first knew only parts."""
    if first is None:
        return second
    return _paid(
        msgspec.structs.replace(
            second,
            predictor=f"{first.predictor},{second.predictor}",
            constraints=(*first.constraints, *second.constraints),
            likelihood=second.likelihood or first.likelihood,
            failed=second.failed or first.failed,
            detail=second.detail or first.detail,
        ),
        first,
    )


def _excused(partial: Prediction, abstained: Prediction) -> Prediction:
    """A partial prediction that says what another predictor lacked: that is the reason where the parts pin nothing."""
    if partial.failed is not None:
        return partial
    if abstained.abstain in FAILURES:
        return msgspec.structs.replace(partial, detail=abstained.detail, failed=abstained.abstain)
    if partial.likelihood is not None:
        return partial  # a model did answer, and its signals say what
    return msgspec.structs.replace(partial, detail=abstained.detail or partial.detail)


def _paid(prediction: Prediction, other: Prediction) -> Prediction:
    """The same with the other's model and its cost, if it has none itself."""
    if other.model is None or prediction.model is not None:
        return prediction
    return msgspec.structs.replace(prediction, model=other.model, tokens=other.tokens)
