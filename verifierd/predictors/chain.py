"""Several predictors asked in turn, until one predicts."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from verifierd.stages import Predictor
from verifierd.types import History, Prediction, Step

__all__ = ("Chain",)


class Chain:
    """Gives the first prediction that is no abstention; else the first abstention, whose reason weighs most.

    Args:
        predictors: In the order in which they are asked.
    """

    def __init__(self, predictors: Sequence[Predictor]) -> None:
        self._predictors = tuple(predictors)
        self.name = ",".join(predictor.name for predictor in predictors)
        self.model = next((predictor.model for predictor in predictors if predictor.model), None)

    async def predict(self, history: History, step: Step) -> Prediction:
        """Ask in turn."""
        first: Prediction | None = None
        for predictor in self._predictors:
            prediction = await predictor.predict(history, step)
            if prediction.abstain is None:
                return prediction
            first = first or prediction
        assert first is not None, "a chain has at least one predictor"
        return first

    async def aclose(self) -> None:
        """Close all, the others too if one fails."""
        async with AsyncExitStack() as stack:
            for predictor in self._predictors:
                stack.push_async_callback(predictor.aclose)
