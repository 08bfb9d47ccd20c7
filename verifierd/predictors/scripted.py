"""The shipped fake: answers as it was told. For tests, and to measure everything but the predictor."""

from collections.abc import Callable

from verifierd.types import Abstain, History, Prediction, Step

__all__ = ("ScriptedPredictor",)


class ScriptedPredictor:
    """Predicts what a function says.

    Args:
        script: Gets history and step, returns the prediction; without one every step is an abstention.
    """

    name = "scripted"
    model: str | None = None

    def __init__(self, script: Callable[[History, Step], Prediction] | None = None) -> None:
        self._script = script

    async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:  # noqa: ARG002 - the protocol's signature
        """The scripted answer."""
        if self._script is None:
            return Prediction(predictor=self.name, abstain=Abstain.UNPREDICTABLE, detail="nothing was scripted")
        return self._script(history, step)

    async def aclose(self) -> None:
        """Nothing is held."""
