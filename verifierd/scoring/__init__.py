"""Distances between prediction and reality, each pure and one measure a file."""

from verifierd.policy import Policy
from verifierd.scoring.contracts import contracts
from verifierd.scoring.likelihood import likelihood
from verifierd.scoring.repeat import stale
from verifierd.scoring.simulator import failure, role_break
from verifierd.scoring.status import error_flip
from verifierd.scoring.text import Normalised
from verifierd.stages import Scorer

__all__ = ("open_scorers",)


def open_scorers(policy: Policy) -> tuple[Scorer, ...]:
    """The scorers of a policy, in the order in which their evidence is told."""
    return (failure, role_break, error_flip, Normalised(policy.normalisers), contracts, likelihood, stale)
