"""The exit status, and success against error: `error_flip`."""

from verifierd.types import Abstain, History, Prediction, Score, Signal, Step

__all__ = ("error_flip",)


def error_flip(_history: History, step: Step, prediction: Prediction) -> Score:
    """Predicted success and got an error, or the reverse; another non-zero status is a `status` signal.

    Only the log's own exit status counts. It adds nothing to coverage, but a certain one can be contradicted; a guess
    that differs abstains as `uncalibrated`, as a guessed text does.
    """
    if prediction.exit_code is None or step.exit_code is None:
        return Score(name="error_flip", reason="no exit status on one side")
    if prediction.exit_code == step.exit_code:
        return Score(name="error_flip", value=0.0, status_checked=prediction.certain)
    flipped = (prediction.exit_code == 0) != (step.exit_code == 0)
    return Score(
        name="error_flip",
        value=1.0,
        violated=prediction.certain,
        status_checked=prediction.certain,
        abstain=None if prediction.certain else Abstain.UNCALIBRATED,
        signals=(
            Signal(
                name="error_flip" if flipped else "status",
                value=1.0,
                detail=f"expected exit status {prediction.exit_code}, observed {step.exit_code}",
            ),
        ),
    )
