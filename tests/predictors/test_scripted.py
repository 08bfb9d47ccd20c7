"""The shipped fake."""

import pytest

from verifierd.predictors.scripted import ScriptedPredictor
from verifierd.types import Abstain, Action, History, Origin, Prediction, Step

STEP = Step(
    format="native",
    trajectory="t",
    index=7,
    action=Action(tool="bash", input="ls", command="ls"),
    observation="",
    origin=Origin(path="t.jsonl", offset=0),
)

pytestmark = pytest.mark.anyio


async def test_without_a_script_it_abstains() -> None:
    """Nothing scripted is nothing predicted, with the reason in words."""
    predictor = ScriptedPredictor()

    prediction = await predictor.predict(History(STEP.key), STEP)
    await predictor.aclose()

    assert prediction == Prediction(predictor="scripted", abstain=Abstain.UNPREDICTABLE, detail="nothing was scripted")


async def test_the_script_sees_history_and_step() -> None:
    """The script is handed both and its answer is given unchanged."""
    history = History(STEP.key)
    history.append(STEP)
    predictor = ScriptedPredictor(
        lambda past, step: Prediction(predictor="mine", text=f"{len(past)} {step.index}", certain=True)
    )

    assert await predictor.predict(history, STEP) == Prediction(predictor="mine", text="1 7", certain=True)
