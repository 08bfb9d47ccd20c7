"""How surprised a model was by what came."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifierd.calibration import Scored, Trajectory, calibrate
from verifierd.fusion import DEFAULT, Fusion, Term
from verifierd.policy import Calibrated, Policy, Rules
from verifierd.scoring import open_scorers
from verifierd.scoring.surprise import CERTAIN, Surprise
from verifierd.types import Abstain, Action, History, Likelihood, Origin, Prediction, Score, Step

STEP = Step(
    format="native",
    trajectory="t",
    index=1,
    action=Action(tool="bash", input="ls", command="ls"),
    observation="ab cd\n",
    origin=Origin(path="t.jsonl", offset=0),
)
SURE = -math.log(0.99)
MEAN = Fusion(terms={"mean": Term(weight=1.0)})
"""The signed logarithm of the mean surprisal."""


def _score(
    found: Likelihood | None,
    *,
    calibrated: bool = False,
    step: Step = STEP,
    text: str | None = None,
    failed: Abstain | None = None,
) -> Score:
    prediction = Prediction(predictor="x", likelihood=found, text=text, failed=failed)
    return Surprise(MEAN, calibrated=lambda _step: calibrated)(History(step.key), step, prediction)


def _found(agreed: int, expected: str | None, *, starts: tuple[int, ...] = (0, 2)) -> Likelihood:
    """Two tokens, `ab` and ` cd`, and the end."""
    return Likelihood(starts=starts, surprisal=(1.0, 2.0, 6.0), agreed=agreed, expected=expected)


def _tokens(*surprisal: float, top: tuple[float, ...] | None = None, starts: tuple[int, ...] = (0, 2)) -> Likelihood:
    """Two tokens, of each of which the model gave its likeliest one a probability of .99, and the end."""
    tops = (SURE,) * len(surprisal) if top is None else top
    return Likelihood(starts=starts, surprisal=surprisal, top=tops, agreed=len(surprisal))


def test_without_a_model_there_is_nothing_to_say() -> None:
    """A prediction by rule has no likelihood."""
    assert _score(None) == Score(name="surprise", reason="no model was asked")


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

    assert score.value == pytest.approx(math.log(4))
    assert (score.abstain, score.coverage, score.violated) == (Abstain.UNCALIBRATED, 0.0, False)
    (signal,) = score.signals
    assert (signal.name, signal.value, signal.span) == ("suspect", surprisal, span)
    assert words in signal.detail


@pytest.mark.parametrize("agreed", [0, 2])
def test_a_place_that_is_not_known_is_not_told(agreed: int) -> None:
    """Some tokenizers cannot say where in the text a token begins; then nothing is covered, either."""
    (signal,) = _score(_found(agreed, "x", starts=())).signals

    assert signal.span is None
    assert _score(_tokens(SURE, SURE, SURE, starts=()), calibrated=True).coverage == 0.0


def test_an_empty_observation_has_a_place() -> None:
    """Where nothing came, the difference is at its end; it is covered if the model was nearly certain of the end."""
    (signal,) = _score(Likelihood(surprisal=(4.0,), expected="x")).signals
    assert signal.span == (5, 5)

    empty = msgspec.structs.replace(STEP, observation="\n")
    assert _score(_tokens(SURE, starts=()), calibrated=True, step=empty).coverage == 1.0
    assert _score(_tokens(4.0, starts=()), calibrated=True, step=empty).coverage == 0.0


def test_other_tokens_may_spell_the_same() -> None:
    """Without an expected token there is no difference to show, but no agreement either."""
    score = _score(_found(1, None))

    assert (score.abstain, score.signals) == (Abstain.UNCALIBRATED, ())


def test_others_judge_a_text() -> None:
    """The score is still told."""
    score = _score(_found(1, "x"), text="ab cd\n")

    assert score.value == pytest.approx(math.log(4))
    assert score.abstain is None
    assert score.signals == ()


def test_a_failed_model_says_nothing() -> None:
    """What a model found that fell out of its role is no evidence."""
    assert _score(_found(1, "x"), failed=Abstain.ROLE_BREAK) == Score(name="surprise", reason="the model failed")


def test_what_the_log_cut_is_not_judged() -> None:
    """The mark of the cut is the harness's, and the observation does not end where the log's text ends."""
    score = _score(_found(2, "x"), step=msgspec.structs.replace(STEP, elided="truncated"))

    assert score == Score(name="surprise", reason="the log cut the observation (truncated)")


@pytest.mark.parametrize(
    ("surprisal", "coverage"),
    [((SURE, SURE, 9.0), 1.0), ((SURE, 2.0, SURE), 2 / 5), ((0.1, 0.1, SURE), 0.0)],
)
def test_what_was_nearly_certain_and_came_is_covered(surprisal: tuple[float, ...], coverage: float) -> None:
    """By characters of the trimmed observation; the end has none."""
    score = _score(_tokens(*surprisal), calibrated=True)

    assert score.coverage == pytest.approx(coverage)
    assert score.abstain is None
    assert _score(_tokens(*surprisal)).coverage == 0.0


def test_white_space_at_the_edges_counts_for_nothing() -> None:
    """Tokens of a trimmed observation begin where its text begins."""
    step = msgspec.structs.replace(STEP, observation="\n\n ab cd \n")

    assert _score(_tokens(SURE, 5.0, SURE, starts=(3, 5)), calibrated=True, step=step).coverage == pytest.approx(0.4)


def test_another_value_than_the_certain_one_is_a_surprise() -> None:
    """Neighbouring tokens are told together, with the strongest of them; unsure ones are not told."""
    step = msgspec.structs.replace(STEP, observation="abcdefgh")
    found = _tokens(7.0, 9.0, SURE, 5.0, 6.0, top=(SURE, SURE, SURE, 1.0, SURE), starts=(0, 2, 4, 6))

    first, second = _score(found, step=step, calibrated=True).signals

    assert (first.name, first.value, first.span) == ("surprise", 9.0, (0, 4))
    assert (second.name, second.value, second.span) == ("surprise", 6.0, (8, 8))
    assert "nearly certain" in first.detail
    assert "9.0 nats" in first.detail


def test_only_the_greatest_surprises_are_shown() -> None:
    """In the order of the text."""
    surprisal = [value for place in range(30) for value in (5.0 + place, SURE)]
    found = _tokens(*surprisal, starts=tuple(range(59)))

    signals = _score(found, step=msgspec.structs.replace(STEP, observation="x" * 59)).signals

    assert [signal.value for signal in signals] == [25.0 + place for place in range(10)]


def test_the_policy_says_how_and_whether() -> None:
    """Its fusion, else the shipped one; without a calibration nothing counts."""
    found = Likelihood(surprisal=(1.0, 3.0), entropy=(1.0, 1.0), varentropy=(1.0, 1.0), top=(0.5, 0.5), starts=(0,))
    prediction = Prediction(predictor="x", likelihood=found)
    for fusion in (MEAN, None):
        policy = Policy(name="p", surprise=fusion, tools={"quiet": Rules(surprise=False)})
        scores = [scorer(History(STEP.key), STEP, prediction) for scorer in open_scorers(policy)]
        (score,) = [score for score in scores if score.name == "surprise"]
        assert score.value == (fusion or DEFAULT).score(found)
        assert score.abstain is Abstain.UNCALIBRATED


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_calibration_without_a_model_says_nothing_of_one(*, deterministic: bool) -> None:
    """It holds what rules found; how surprised a model is by what is true stays unknown."""
    learnt = calibrate([Trajectory("t", (Scored("bash", "terminal", 0.0, deterministic=deterministic),))])
    made = Calibrated(date="", predictor="shell", policy="p@0", learnt=learnt)
    prediction = Prediction(predictor="x", likelihood=_tokens(SURE, 9.0, SURE))

    scores = [
        scorer(History(STEP.key), STEP, prediction) for scorer in open_scorers(Policy(name="p", calibration=made))
    ]

    (score,) = [score for score in scores if score.name == "surprise"]
    assert (score.abstain is Abstain.UNCALIBRATED) is deterministic
    assert (score.coverage > 0.0) is not deterministic


_NATS = st.floats(min_value=0.0, max_value=1e308)


@given(st.lists(st.tuples(_NATS, _NATS, st.integers(-5, 50)), min_size=1, max_size=20), st.text(max_size=30))
def test_any_likelihood_is_scored(tokens: list[tuple[float, float, int]], observation: str) -> None:
    """Whatever a model's server says: a finite score, a share, and the same again."""
    surprisal, top, starts = zip(*tokens, strict=True)
    found = Likelihood(surprisal=surprisal, top=top, starts=tuple(sorted(starts[:-1])), agreed=0, expected="x")
    step = msgspec.structs.replace(STEP, observation=observation)

    score = _score(found, step=step, calibrated=True)

    assert score == _score(found, step=step, calibrated=True)
    assert score.value is not None
    assert math.isfinite(score.value)
    assert 0.0 <= score.coverage <= 1.0
    assert all(signal.value > -math.log(CERTAIN) for signal in score.signals if signal.name == "surprise")
