"""Distances between prediction and reality, each pure and one measure a file."""

from verifierd.fusion import DEFAULT
from verifierd.policy import Policy
from verifierd.scoring.contracts import contracts
from verifierd.scoring.repeat import stale
from verifierd.scoring.simulator import failure, role_break
from verifierd.scoring.status import error_flip
from verifierd.scoring.surprise import Surprise
from verifierd.scoring.text import Normalised
from verifierd.stages import Scorer
from verifierd.types import Step

__all__ = ("open_scorers",)


def open_scorers(policy: Policy) -> tuple[Scorer, ...]:
    """The scorers of a policy, in the order in which their evidence is told."""

    def calibrated(step: Step) -> bool:
        return policy.calibration is not None and policy.rules(step).surprise is not False

    surprise = Surprise(policy.surprise or DEFAULT, calibrated=calibrated)
    return (failure, role_break, error_flip, Normalised(policy.normalisers), contracts, surprise, stale)
