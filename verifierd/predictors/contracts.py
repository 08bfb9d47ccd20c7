"""`contracts`: what must, may and cannot appear in an observation, by rules that are documents."""

from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.stages import Predictor
from verifierd.types import Abstain, History, Prediction, Step

__all__ = ("ContractsPredictor",)


class ContractsPredictor(Predictor):
    """Predicts parts: constraints on the observation of a command or a tool, given the history.

    Raises:
        ContractError: A bundled document is wrong.
    """

    name = "contracts"
    model = None

    def __init__(self) -> None:
        self._contracts = Contracts(bundled())

    async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:  # noqa: ARG002 - the protocol's signature
        """What is known of the observation."""
        constraints = self._contracts.constraints(self._contracts.session(history), step)
        if not constraints:
            return Prediction(predictor=self.name, abstain=Abstain.UNPREDICTABLE, detail="no contract concerns it")
        return Prediction(predictor=self.name, certain=True, constraints=tuple(constraints))

    async def aclose(self) -> None:
        """Nothing is held."""
