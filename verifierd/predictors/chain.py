"""Several predictors asked in turn, until one predicts the whole."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec

from verifierd.stages import Predictor
from verifierd.types import History, Prediction, Step

__all__ = ("Chain",)


class Chain:
    """Gives the first whole prediction, with the constraints of the partial ones before it.

    Where there is none, the constraints are the prediction; else the first abstention, whose reason weighs most.

    Args:
        predictors: In the order in which they are asked.
    """

    def __init__(self, predictors: Sequence[Predictor]) -> None:
        self._predictors = tuple(predictors)
        self.name = ",".join(predictor.name for predictor in predictors)
        self.model = next((predictor.model for predictor in predictors if predictor.model), None)

    async def predict(self, history: History, step: Step) -> Prediction:
        """Ask in turn."""
        abstained: Prediction | None = None
        partial: Prediction | None = None
        for predictor in self._predictors:
            prediction = await predictor.predict(history, step)
            if prediction.abstain is not None:
                abstained = abstained or prediction
            elif prediction.text is None:
                partial = _joined(partial, prediction)
            else:
                return prediction if partial is None else _joined(prediction, partial)
        if partial is None:
            assert abstained is not None, "a chain has at least one predictor"
            return abstained
        # Where the constraints pin nothing, what the first one lacked is the reason.
        return msgspec.structs.replace(partial, detail=abstained.detail) if abstained else partial

    async def aclose(self) -> None:
        """Close all, the others too if one fails."""
        async with AsyncExitStack() as stack:
            for predictor in self._predictors:
                stack.push_async_callback(predictor.aclose)


def _joined(first: Prediction | None, second: Prediction) -> Prediction:
    if first is None:
        return second
    return msgspec.structs.replace(
        first,
        predictor=f"{first.predictor},{second.predictor}",
        constraints=(*first.constraints, *second.constraints),
    )
