"""Parts predicted by rule."""

import pytest

from tests.helpers import ran
from verifierd.predictors.contracts import ContractsPredictor
from verifierd.types import Abstain, Check, History, Step

pytestmark = pytest.mark.anyio


def _step(index: int, command: str, observation: str = "") -> Step:
    return ran(command, observation, index=index)


async def test_it_predicts_parts() -> None:
    """A command that rules concern gets constraints, and no whole text."""
    step = _step(1, "echo hello; unknown | head -3")

    prediction = await ContractsPredictor().predict(History(step.key), step)

    assert (prediction.abstain, prediction.text, prediction.certain) == (None, None, True)
    assert {Check.CONTAINS, Check.STATUS} <= {constraint.check for constraint in prediction.constraints}


async def test_it_abstains_where_no_rule_concerns_the_step() -> None:
    """What no contract knows is unpredictable, and said to be so."""
    step = _step(1, "some-program --unheard-of")

    prediction = await ContractsPredictor().predict(History(step.key), step)

    assert prediction.abstain is Abstain.UNPREDICTABLE
    assert prediction.detail == "no contract concerns it"


async def test_it_never_looks_at_the_observation() -> None:
    """Whatever came back, the prediction is the same."""
    histories = History(("native", "t"))
    histories.append(_step(1, "printf 'a\\nb\\n' > f"))
    first, second = (_step(2, "cat f; echo done", text) for text in ("a\nb\ndone\n", "something else"))

    assert await ContractsPredictor().predict(histories, first) == await ContractsPredictor().predict(histories, second)


async def test_state_is_a_cache() -> None:
    """A predictor that saw the history step by step says what one says that sees it at once."""
    steps = [_step(1, "git status", "On branch main\nnothing to commit, working tree clean\n"), _step(2, "git status")]
    followed = ContractsPredictor()
    history = History(steps[0].key)
    for step in steps[:-1]:
        await followed.predict(history, step)
        history.append(step)

    assert await followed.predict(history, steps[-1]) == await ContractsPredictor().predict(history, steps[-1])
