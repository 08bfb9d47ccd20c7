"""The exit status against the predicted one."""

import pytest

from verifierd.scoring.status import error_flip
from verifierd.types import Abstain, Action, History, Origin, Prediction, Score, Step


def _score(predicted: int | None, observed: int | None, *, certain: bool = True) -> Score:
    step = Step(
        format="native",
        trajectory="t",
        index=1,
        action=Action(tool="bash", input="ls", command="ls"),
        observation="",
        origin=Origin(path="t.jsonl", offset=0),
        exit_code=observed,
    )
    return error_flip(History(step.key), step, Prediction(predictor="x", text="", exit_code=predicted, certain=certain))


@pytest.mark.parametrize(("predicted", "observed"), [(None, 0), (0, None), (None, None)])
def test_unknown(predicted: int | None, observed: int | None) -> None:
    """Where either side has no status there is no score, and the reason is said."""
    assert _score(predicted, observed) == Score(name="error_flip", reason="no exit status on one side")


@pytest.mark.parametrize("status", [0, 1, 127])
def test_equal(status: int) -> None:
    """Equal statuses are 0.0 apart; they add nothing to coverage, but a certain one has been checked."""
    assert _score(status, status) == Score(name="error_flip", value=0.0, status_checked=True)
    assert _score(status, status, certain=False) == Score(name="error_flip", value=0.0)


@pytest.mark.parametrize(
    ("predicted", "observed", "name"),
    [(0, 1, "error_flip"), (2, 0, "error_flip"), (1, 2, "status"), (127, 1, "status")],
)
def test_certain_status_is_contradicted(predicted: int, observed: int, name: str) -> None:
    """Success against failure is a flip, another failure is not; both contradict a certain prediction."""
    score = _score(predicted, observed)

    assert score.violated
    assert score.abstain is None
    assert score.coverage == 0.0
    assert [signal.name for signal in score.signals] == [name]
    assert score.signals[0].detail == f"expected exit status {predicted}, observed {observed}"


def test_guessed_status_is_uncalibrated() -> None:
    """A guessed status that is wrong contradicts nothing, but the step is not passed either."""
    score = _score(0, 1, certain=False)

    assert not score.violated
    assert score.abstain is Abstain.UNCALIBRATED
