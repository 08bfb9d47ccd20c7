"""Distances between prediction and reality, each pure and one measure a file."""

from functools import cache

from verifierd.fusion import DEFAULT
from verifierd.policy import Policy
from verifierd.scoring.contracts import contracts
from verifierd.scoring.counting import counting
from verifierd.scoring.echo import echoed_call
from verifierd.scoring.foreign import foreign
from verifierd.scoring.injection import injection
from verifierd.scoring.repeat import stale
from verifierd.scoring.simulator import failure, role_break
from verifierd.scoring.status import error_flip
from verifierd.scoring.structure import structure
from verifierd.scoring.surprise import Surprise
from verifierd.scoring.text import Normalised
from verifierd.stages import Scorer
from verifierd.types import History, Prediction, Score, Step

__all__ = ("open_scorers",)


def open_scorers(policy: Policy) -> tuple[Scorer, ...]:
    """The scorers of a policy, in the order in which their evidence is told; each follows the rules of the step."""
    comparing = cache(Normalised)

    def normalised(history: History, step: Step, prediction: Prediction) -> Score:
        rules = policy.rules(step)
        names, classes = rules.normalisers or (), rules.classes or ()
        # What only a run can tell is compared by its form unless it counts.
        score = comparing(names if "runtime" in classes else (*names, "runtime"))(history, step, prediction)
        return score if prediction.certain else counting(score, history, step, prediction, classes)

    judged = Surprise(
        policy.surprise or DEFAULT,
        calibrated=policy.calibrated_for,
        classes=lambda step: policy.rules(step).classes or (),
    )

    def surprise(history: History, step: Step, prediction: Prediction) -> Score:
        if prediction.likelihood is not None and not policy.rules(step).surprise:
            return Score(name="surprise", reason="the policy counts no surprise here")
        return judged(history, step, prediction)

    decisive = (failure, role_break, error_flip, echoed_call, normalised, structure, contracts)
    return (*decisive, surprise, stale, foreign, injection)
