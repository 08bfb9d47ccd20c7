"""Who is asked, and what an answer is called."""

import pytest

from tests.replay.bench.answerers import FAILURES, Answerer, asked_party
from verifierd.composition import Choice
from verifierd.errors import PredictorError
from verifierd.policy import Asking
from verifierd.predictors.scripted import ScriptedPredictor
from verifierd.replay.bench.asking import Outcome, Party, asked_by, matched, party, shortened, without_echo
from verifierd.stages import Asked, Message
from verifierd.types import Abstain, Action, History, Origin, Prediction, Step, Tokens

ASKED = Asked(max_tokens=50)


def _step(command: str, observation: str = "", index: int = 1) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=index,
        action=Action(tool="bash", input=command, command=command),
        observation=observation,
        origin=Origin(path="test", offset=index),
    )


STEP = _step("ls -la notes", "a.txt\n")


@pytest.mark.anyio
@pytest.mark.parametrize("outcome", FAILURES)
async def test_failures_of_a_model_are_told_apart(outcome: str) -> None:
    """A model that breaks its role, is cut, thinks, or says nothing is called so."""
    answer = await asked_party(Answerer(FAILURES[outcome])).observe(History(STEP.key), STEP, ASKED)

    assert answer.outcome.value == outcome
    assert answer.detail
    assert answer.generated_tokens is not None


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("said", "thinking", "outcome", "text"),
    [
        (("**Environment Observation:**\na.txt", "", "stop"), False, Outcome.ANSWERED, "a.txt"),
        (("<predicted_observation></predicted_observation>", "", "stop"), False, Outcome.ANSWERED, ""),
        (("a.txt", "It lists.", "stop"), True, Outcome.ANSWERED, "a.txt"),
        (("", "It li", "length"), True, Outcome.UNANSWERED, ""),
        (("a.t", "It lists.", "length"), True, Outcome.TRUNCATED, "a.t"),
        ((" \n", "It lists.", "stop"), True, Outcome.EMPTY, ""),
        (
            ('{"name": "bash", "arguments": {}}', "", "stop"),
            False,
            Outcome.ROLE_BREAK,
            '{"name": "bash", "arguments": {}}',
        ),
    ],
)
async def test_answers(said: tuple[str, str, str], *, thinking: bool, outcome: Outcome, text: str) -> None:
    """An observation that is empty is an answer, silence is none; a thought is fine where it was asked for."""
    asked = Asked(max_tokens=50, thinking=thinking)
    answer = await asked_party(Answerer(lambda _: said)).observe(History(STEP.key), STEP, asked)

    assert (answer.outcome, answer.text) == (outcome, text)


@pytest.mark.anyio
async def test_a_model_never_sees_the_truth() -> None:
    """The talk holds the history and the action, and nothing of what really came."""
    model = Answerer(lambda _: ("x", "", "stop"))
    history = History(STEP.key)
    history.append(_step("echo one", "one\n"))
    await asked_party(model).observe(history, _step("cat secret", "the truth\n", 2), ASKED)

    text = "\n".join(message.content for message in model.talks[0])
    assert "echo one" in text
    assert "one\n" in f"{text}\n"
    assert "cat secret" in text
    assert "the truth" not in text


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("prediction", "outcome"),
    [
        (Prediction(predictor="p", text="a.txt\n"), Outcome.ANSWERED),
        (Prediction(predictor="p", text=""), Outcome.ANSWERED),
        (Prediction(predictor="p", abstain=Abstain.UNPREDICTABLE), Outcome.ABSTAINED),
        (Prediction(predictor="p", abstain=Abstain.TIMEOUT), Outcome.FAILED),
        (Prediction(predictor="p", abstain=Abstain.PREDICTOR_ERROR), Outcome.FAILED),
        (Prediction(predictor="p", failed=Abstain.ROLE_BREAK), Outcome.ROLE_BREAK),
        (Prediction(predictor="p", text="ls -la notes"), Outcome.ROLE_BREAK),
        (Prediction(predictor="p", text="<think>hm</think>a.txt"), Outcome.THOUGHT),
        (Prediction(predictor="p", text="a.t", truncated=True), Outcome.TRUNCATED),
    ],
)
async def test_predictions_are_told_apart(prediction: Prediction, outcome: Outcome) -> None:
    """Whoever cannot be talked to predicts; the same names tell what came."""
    asked = Party(ScriptedPredictor(lambda _history, _step: prediction), Asking(), None)

    assert (await asked.observe(History(STEP.key), STEP, ASKED)).outcome is outcome


@pytest.mark.anyio
async def test_a_prediction_says_what_it_cost() -> None:
    """Tokens, as far as there are any."""
    prediction = Prediction(predictor="p", text="x", tokens=Tokens(prompt=7, generated=2))
    asked = Party(ScriptedPredictor(lambda _history, _step: prediction), Asking(), None)
    answer = await asked.observe(History(STEP.key), STEP, ASKED)

    assert (answer.prompt_tokens, answer.generated_tokens) == (7, 2)


@pytest.mark.anyio
async def test_who_is_no_model_cannot_be_talked_to() -> None:
    """The error names whom to take."""
    async with party(Choice(predictor="contracts")) as asked:
        assert asked.chat is None
        answer = await asked.observe(History(STEP.key), _step("echo hello"), ASKED)
        assert answer.outcome is Outcome.ABSTAINED
        with pytest.raises(PredictorError, match="cannot be talked to") as caught:
            await asked.talk([Message("user", "hello")], ASKED)
    assert "--predictor" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "exact", "without", "normalised"),
    [
        ("a.txt", True, True, True),
        ("$ ls -la notes\na.txt\n", False, True, True),
        ("b.txt", False, False, False),
    ],
)
def test_answers_against_the_truth(text: str, *, exact: bool, without: bool, normalised: bool) -> None:
    """White space at the ends does not count, an echo of the command only strictly."""
    found = matched(text, STEP, History(STEP.key))

    assert (found.exact, found.without_echo) == (exact, without)
    assert found.normalised is normalised


def test_an_echo_is_taken_off_the_start_alone() -> None:
    """As a terminal shows it: a prompt, and the command."""
    assert without_echo("user@host:~$ ls -la notes\na.txt", STEP) == "a.txt"
    assert without_echo("a.txt\n$ ls -la notes", STEP) == "a.txt\n$ ls -la notes"


def test_a_talk_is_shortened_from_its_oldest_turns() -> None:
    """The system prompt and the question stay."""
    talk = [Message("system", "s" * 10)]
    for turn in range(5):
        talk += [Message("user", f"{turn}" * 30), Message("assistant", "a" * 30)]
    talk.append(Message("user", "the question"))

    kept = shortened(talk, 150)

    assert sum(len(message.content) for message in kept) <= 150
    assert kept[0] == talk[0]
    assert kept[-1] == talk[-1]
    assert [message.role for message in kept[1:3]] == ["user", "assistant"]
    assert kept[-3].content == "4" * 30


def test_sampling() -> None:
    """Greedy, or as the card says."""
    greedy, card = asked_by("greedy", max_tokens=5, seed=3), asked_by("card", max_tokens=5, thinking=True, seed=3)

    assert (greedy.temperature, greedy.seed, greedy.thinking) == (0.0, 3, False)
    assert (card.temperature, card.top_p, card.top_k, card.thinking) == (0.6, 0.95, 20, True)
