"""Names to predictors."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from verifierd.errors import PredictorError
from verifierd.predictors import PREDICTORS, PredictorSettings, open_predictor, talker
from verifierd.predictors.chain import Chain
from verifierd.predictors.scripted import ScriptedPredictor
from verifierd.stages import Asked, Message, Reply


def test_one_name_is_that_predictor() -> None:
    """A single name opens the predictor itself, blanks and stray commas aside."""
    assert isinstance(open_predictor(" scripted ,", PredictorSettings()), ScriptedPredictor)


def test_several_names_are_a_chain(tmp_path: Path) -> None:
    """Names joined by commas open a chain in their order."""
    path = tmp_path / "predictions.jsonl"
    path.write_text('{"trajectory": "t", "step": 1, "text": "a", "model": "m"}\n')

    chain = open_predictor("recorded, scripted", PredictorSettings(predictions=path))

    assert isinstance(chain, Chain)
    assert chain.name == "recorded,scripted"
    assert chain.model == "m"


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        ("oracle", "no predictor is called `oracle`"),
        ("scripted,oracle,seer", "no predictor is called `oracle, seer`"),
        ("", "no predictor is called ``"),
        (",", "no predictor is called `,`"),
        ("Scripted", "no predictor is called `Scripted`"),
    ],
)
def test_an_unknown_name_lists_the_known_ones(chain: str, message: str) -> None:
    """The error names every unknown one, the hint every known one."""
    with pytest.raises(PredictorError) as caught:
        open_predictor(chain, PredictorSettings())

    assert str(caught.value) == message
    assert all(name in caught.value.hint for name in PREDICTORS)


def test_recorded_needs_its_file() -> None:
    """`recorded` without a file says which option is missing."""
    with pytest.raises(PredictorError) as caught:
        open_predictor("recorded", PredictorSettings())

    assert str(caught.value) == "the predictor `recorded` needs a file of predictions"
    assert caught.value.hint == "Name it after --predictions."


def test_who_of_a_chain_can_be_talked_to() -> None:
    """The first that can, or nobody."""

    class Talker(ScriptedPredictor):
        async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:
            raise NotImplementedError

    one, other = Talker(), Talker()

    assert talker(one) is one
    assert talker(Chain([ScriptedPredictor(), one, other])) is one
    assert talker(ScriptedPredictor()) is None
    assert talker(Chain([ScriptedPredictor()])) is None
