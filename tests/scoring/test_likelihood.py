"""How likely a model found what came."""

import msgspec
import pytest

from verifierd.scoring.likelihood import likelihood
from verifierd.types import Abstain, Action, History, Likelihood, Origin, Prediction, Score, Signal, Step

STEP = Step(
    format="native",
    trajectory="t",
    index=1,
    action=Action(tool="bash", input="ls", command="ls"),
    observation="ab cd\n",
    origin=Origin(path="t.jsonl", offset=0),
)


def _score(found: Likelihood | None, *, text: str | None = None, failed: Abstain | None = None) -> Score:
    prediction = Prediction(predictor="x", likelihood=found, text=text, failed=failed)
    return likelihood(History(STEP.key), STEP, prediction)


def _found(agreed: int, expected: str | None, *, starts: tuple[int, ...] = (0, 2)) -> Likelihood:
    """Two tokens, `ab` and ` cd`, and the end."""
    return Likelihood(starts=starts, surprisal=(1.0, 2.0, 6.0), agreed=agreed, expected=expected)


def test_without_a_model_there_is_nothing_to_say() -> None:
    """A prediction by rule has no likelihood."""
    assert _score(None) == Score(name="likelihood", reason="no model was asked")


@pytest.mark.parametrize(
    ("agreed", "expected", "span", "surprisal", "words"),
    [
        (0, "x", (0, 2), 1.0, "expected “x” here"),
        (1, " ce", (2, 5), 2.0, "expected “ ce” here"),
        (1, "", (2, 5), 2.0, "expected the end of the output here"),
        (2, " e", (5, 5), 6.0, "expected “ e” here"),
    ],
)
def test_the_first_difference_is_suspect(
    agreed: int, expected: str, span: tuple[int, int], surprisal: float, words: str
) -> None:
    """The signal says where, what was expected, and how surprising what came was; it never counts as checked."""
    score = _score(_found(agreed, expected))

    assert (score.value, score.abstain, score.coverage, score.violated) == (3.0, Abstain.UNCALIBRATED, 0.0, False)
    (signal,) = score.signals
    assert (signal.name, signal.value, signal.span) == ("suspect", surprisal, span)
    assert words in signal.detail


@pytest.mark.parametrize("agreed", [0, 2])
def test_a_place_that_is_not_known_is_not_told(agreed: int) -> None:
    """Some tokenizers cannot say where in the text a token begins."""
    (signal,) = _score(_found(agreed, "x", starts=())).signals

    assert signal.span is None


def test_an_empty_observation_has_a_place() -> None:
    """Where nothing came, the difference is at its end."""
    found = Likelihood(surprisal=(4.0,), expected="x")
    (signal,) = likelihood(History(STEP.key), STEP, Prediction(predictor="x", likelihood=found)).signals

    assert isinstance(signal, Signal)
    assert signal.span == (5, 5)


def test_other_tokens_may_spell_the_same() -> None:
    """Without an expected token there is no difference to show, but no agreement either."""
    assert _score(_found(1, None)) == Score(name="likelihood", value=3.0, abstain=Abstain.UNCALIBRATED)


@pytest.mark.parametrize(("text", "failed"), [("ab cd\n", None), (None, Abstain.ROLE_BREAK)])
def test_others_judge_a_text_and_a_failure(text: str | None, failed: Abstain | None) -> None:
    """The mean surprisal is still told."""
    assert _score(_found(1, "x"), text=text, failed=failed) == Score(name="likelihood", value=3.0)


def test_what_the_log_cut_says_nothing() -> None:
    """A mark in place of the output, and the end after it, are the log's."""
    step = msgspec.structs.replace(STEP, elided="truncated")
    prediction = Prediction(predictor="x", likelihood=_found(2, "x"))

    assert likelihood(History(STEP.key), step, prediction) == Score(
        name="likelihood", reason="the log cut the observation (truncated)"
    )
