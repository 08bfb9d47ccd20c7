"""Several predictors asked in turn."""

import pytest

from verifierd.predictors.chain import Chain
from verifierd.predictors.scripted import ScriptedPredictor
from verifierd.types import Abstain, Action, Check, Constraint, History, Origin, Prediction, Step

STEP = Step(
    format="native",
    trajectory="t",
    index=1,
    action=Action(tool="bash", input="ls", command="ls"),
    observation="",
    origin=Origin(path="t.jsonl", offset=0),
)

pytestmark = pytest.mark.anyio


class _Member(ScriptedPredictor):
    """Answers the same each time, and remembers what was done to it."""

    def __init__(self, name: str, prediction: Prediction, model: str | None = None) -> None:
        super().__init__(self._answer)
        self.name = name
        self.model = model
        self.asked = 0
        self.closed = False
        self._prediction = prediction

    def _answer(self, _history: History, _step: Step) -> Prediction:
        self.asked += 1
        return self._prediction

    async def aclose(self) -> None:
        self.closed = True


def _no(name: str, abstain: Abstain) -> _Member:
    return _Member(name, Prediction(predictor=name, abstain=abstain, detail=f"{name} cannot"))


def _yes(name: str, model: str | None = None) -> _Member:
    return _Member(name, Prediction(predictor=name, text=name), model)


async def test_the_first_that_predicts_is_the_last_asked() -> None:
    """Those that abstain are passed over; those after the first prediction are not asked."""
    members = [_no("a", Abstain.RACY), _yes("b"), _yes("c")]

    prediction = await Chain(members).predict(History(STEP.key), STEP)

    assert prediction == Prediction(predictor="b", text="b")
    assert [member.asked for member in members] == [1, 1, 0]


async def test_an_empty_text_is_a_prediction() -> None:
    """A predicted empty observation ends the asking."""
    member = _Member("a", Prediction(predictor="a", text=""))

    assert (await Chain([member, _yes("b")]).predict(History(STEP.key), STEP)).text == ""


async def test_the_first_reason_stands_if_all_abstain() -> None:
    """Where nobody predicts, the reason is that of the first asked."""
    chain = Chain([_no("a", Abstain.RACY), _no("b", Abstain.TIMEOUT)])

    prediction = await chain.predict(History(STEP.key), STEP)

    assert (prediction.predictor, prediction.abstain, prediction.detail) == ("a", Abstain.RACY, "a cannot")


async def test_name_and_model() -> None:
    """A chain is called by its members' names; its model is the first that there is."""
    chain = Chain([_yes("a"), _yes("b", "model-b"), _yes("c", "model-c")])

    assert chain.name == "a,b,c"
    assert chain.model == "model-b"
    assert Chain([_yes("a")]).model is None


async def test_close_reaches_every_member() -> None:
    """Closing a chain closes all of it, also those never asked."""
    members = [_yes("a"), _yes("b")]

    await Chain(members).aclose()

    assert [member.closed for member in members] == [True, True]


def _part(name: str) -> _Member:
    constraint = Constraint(rule=f"{name}-rule", check=Check.EMPTY)
    return _Member(name, Prediction(predictor=name, certain=True, constraints=(constraint,)))


async def test_a_partial_prediction_is_joined_by_the_whole_one() -> None:
    """Constraints are kept, and the asking goes on until somebody predicts the whole."""
    members = [_no("a", Abstain.RACY), _part("b"), _yes("c"), _yes("d")]

    prediction = await Chain(members).predict(History(STEP.key), STEP)

    assert (prediction.predictor, prediction.text) == ("c,b", "c")
    assert [constraint.rule for constraint in prediction.constraints] == ["b-rule"]
    assert [member.asked for member in members] == [1, 1, 1, 0]


async def test_partial_predictions_add_up() -> None:
    """Without a whole prediction the parts are it; what the first one lacked is kept as the reason."""
    prediction = await Chain([_no("a", Abstain.RACY), _part("b"), _part("c")]).predict(History(STEP.key), STEP)

    assert [constraint.rule for constraint in prediction.constraints] == ["b-rule", "c-rule"]
    assert prediction.abstain is None
    assert prediction.detail == "a cannot"
