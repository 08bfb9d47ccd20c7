"""`stale`: the observation repeats the one before, though another thing was asked. A hint, never a verdict."""

from verifierd.types import History, ObservationKind, Prediction, Score, Signal, Step

__all__ = ("stale",)


def stale(history: History, step: Step, _prediction: Prediction) -> Score:
    """Does a non-empty observation equal the previous step's, whose action was another?

    On real sessions this is wrong often enough (6 of 909 recorded steps) to be only a hint.
    """
    if not history or step.observation_kind is not ObservationKind.ENV:
        return Score(name="stale", reason="nothing before it")
    before = history[-1]
    repeated = (
        before.observation_kind is ObservationKind.ENV
        and before.action.text != step.action.text
        and bool(step.observation.strip())
        and before.observation == step.observation
    )
    if not repeated:
        return Score(name="stale")
    return Score(
        name="stale",
        signals=(
            Signal(
                name="stale",
                value=1.0,
                span=(0, len(step.observation)),
                detail=f"repeats the observation of step {before.index}, which asked something else",
            ),
        ),
    )
