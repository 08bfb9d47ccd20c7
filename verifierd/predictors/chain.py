"""Several predictors asked in turn, while something of the observation is left unchecked."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import msgspec

from verifierd.stages import Predictor
from verifierd.types import Abstain, History, Prediction, Step

__all__ = ("Chain",)

_FAILURES = (Abstain.ROLE_BREAK, Abstain.TRUNCATED, Abstain.TIMEOUT, Abstain.PREDICTOR_ERROR)


class Chain:
    """Gives the first whole prediction, with the constraints of the partial ones before it.

    Where there is none, the partial ones together are the prediction; else the first abstention, whose reason weighs
    most, unless a later predictor failed.

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
        self._predictors = tuple(predictors)
        self._covered = covered
        self._ask_below = ask_below
        self.name = ",".join(predictor.name for predictor in predictors)
        self.model = next((predictor.model for predictor in predictors if predictor.model), None)

    async def predict(self, history: History, step: Step) -> Prediction:
        """Ask in turn."""
        abstained: Prediction | None = None
        partial: Prediction | None = None
        for predictor in self._predictors:
            if partial is not None and self._covered(history, step, partial) >= self._ask_below:
                break
            prediction = await predictor.predict(history, step)
            if prediction.abstain is not None:
                if abstained is None or prediction.abstain in _FAILURES:
                    abstained = prediction
            elif prediction.text is None:
                partial = _joined(partial, prediction)
            else:
                return _joined(partial, prediction)
        if partial is None:
            assert abstained is not None, "a chain has at least one predictor"
            return abstained
        if abstained is None:
            return partial
        # Where the parts pin nothing, what another one lacked is the reason.
        failed = abstained.abstain if abstained.abstain in _FAILURES else partial.failed
        return msgspec.structs.replace(partial, detail=abstained.detail or partial.detail, failed=failed)

    async def aclose(self) -> None:
        """Close all, the others too if one fails."""
        async with AsyncExitStack() as stack:
            for predictor in self._predictors:
                stack.push_async_callback(predictor.aclose)


def _joined(first: Prediction | None, second: Prediction) -> Prediction:
    """What two know, of whom the second was asked because the first knew only parts."""
    if first is None:
        return second
    return msgspec.structs.replace(
        second,
        predictor=f"{first.predictor},{second.predictor}",
        constraints=(*first.constraints, *second.constraints),
    )
