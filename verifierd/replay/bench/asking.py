"""Whom a suite asks, and what came back: an answer, or one of the ways to fail.

A model is talked to in the same words by which it predicts; whoever cannot be talked to, as `shell`, predicts. Both
give an `Answer`, told apart by the same rules.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from verifierd.composition import Choice, judge_alone
from verifierd.errors import PredictorError
from verifierd.paths import expanded
from verifierd.policy import Asking, load
from verifierd.predictors import prompt
from verifierd.scoring.simulator import role_break
from verifierd.scoring.text import Normalised
from verifierd.stages import Asked, Chat, Message, Predictor, Reply
from verifierd.types import Abstain, History, Prediction, Step

__all__ = (
    "Answer",
    "Grammar",
    "Match",
    "Outcome",
    "Party",
    "Sampling",
    "asked_by",
    "forgiven",
    "matched",
    "party",
    "shortened",
    "simulating",
    "without_echo",
)

Sampling = Literal["greedy", "card"]
"""The likeliest token, or as the model's card says: temperature 0.6, top-p 0.95, top-k 20, with a seed."""

Grammar = Callable[[Step, Asking], str]
"""Of a step, and of how a model is asked, the grammar of an answer that says what would be observed."""


class Outcome(StrEnum):
    """What an answer is."""

    ANSWERED = "answered"
    ABSTAINED = "abstained"
    ROLE_BREAK = "role_break"
    TRUNCATED = "truncated"
    THOUGHT = "thought"  # though thinking was off
    EMPTY = "empty"
    FAILED = "failed"
    UNANSWERED = "unanswered"  # cut before the answer began, of a model that was to think first


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back.

    Attributes:
        outcome: What it is.
        text: The observation, or the answer, that it holds; empty where there is none.
        raw: All that was said, thoughts aside.
        thought: What was thought before.
        detail: More of the outcome, in words.
        prompt_tokens, generated_tokens: What it cost; None where nobody says.
        seconds: Until it was there.
        first_token_seconds: Until its first token was there; None where there are no tokens.
    """

    outcome: Outcome
    text: str = ""
    raw: str = ""
    thought: str = ""
    detail: str = ""
    prompt_tokens: int | None = None
    generated_tokens: int | None = None
    seconds: float = 0.0
    first_token_seconds: float | None = None


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer compares with the truth.

    Attributes:
        exact: Equal character by character, but for white space at the ends.
        without_echo: The same, an echo of the command line taken off both sides.
        normalised: Equal by the policy's normalisers.
    """

    exact: bool
    without_echo: bool
    normalised: bool


class Party:
    """Who is asked.

    Args:
        predictor: The predictor, or the chain.
        asking: How a model is asked.
        prompts: A folder of system prompts; None for the bundled ones.
        grammar: What a model's answer to a step is held to; None for nothing.

    Attributes:
        name: The chain.
        model: The model with its revision; None if there is none.
        chat: The model, if it is asked by talking to it; None if the predictor predicts.
    """

    def __init__(
        self, predictor: Predictor, asking: Asking, prompts: str | None, grammar: Grammar | None = None
    ) -> None:
        self.name = predictor.name
        self.model = predictor.model
        self.chat: Chat | None = predictor if isinstance(predictor, Chat) else None
        self._predictor = predictor
        self._asking = asking
        self._prompts = None if prompts is None else expanded(prompts)
        self._grammar = grammar

    def held(self, grammar: Grammar) -> "Party":
        """The same, held to a grammar where it says what would be observed."""
        prompts = None if self._prompts is None else str(self._prompts)
        return Party(self._predictor, self._asking, prompts, grammar)

    async def observe(self, history: History, step: Step, asked: Asked, *, characters: int = 0) -> Answer:
        """What would be observed.

        Args:
            history: The steps before it, true or made up.
            step: The action; its observation is not looked at.
            asked: How a model is asked.
            characters: Most of a talk with a model, for a quick look; 0 for no bound.
        """
        if self.chat is not None:
            if self._grammar is not None:
                asked = msgspec.structs.replace(asked, grammar=self._grammar(step, self._asking))
            messages = simulating(history, step, self._asking, self._prompts)
            messages = shortened(messages, characters) if characters else messages
            return self.read(await self.talk(messages, asked), step, asked)
        unknown = msgspec.structs.replace(step, observation="")
        return _predicted(await self._predictor.predict(history, unknown), unknown)

    async def talk(self, messages: Sequence[Message], asked: Asked) -> Reply:
        """The model's reply.

        Raises:
            PredictorError: There is no model, or it failed for good.
        """
        return await self.speaker().chat(messages, asked)

    def speaker(self) -> Chat:
        """The model.

        Raises:
            PredictorError: There is none that can be talked to.
        """
        if self.chat is None:
            raise PredictorError(
                f"`{self.name}` cannot be talked to", hint="This suite needs a model: --predictor mlx, or openai."
            )
        return self.chat

    async def predict(self, history: History, step: Step) -> Prediction:
        """What the predictor makes of a step in its own way, which keeps what it computed for the next one.

        Args:
            history: The steps before it.
            step: The step with its observation, which a predictor may say the likelihood of.
        """
        return await self._predictor.predict(history, step)

    def read(self, reply: Reply, step: Step, asked: Asked) -> Answer:
        """What a reply is, of a model that was to say what a step's observation is."""
        text = prompt.parse(reply.text)
        outcome, detail = _outcome(reply, asked)
        if outcome is Outcome.TRUNCATED and asked.thinking and not text:
            outcome = Outcome.UNANSWERED
        if outcome is Outcome.ANSWERED and _breaks(text, step):
            outcome, detail = Outcome.ROLE_BREAK, "an action, not an observation"
        return _answer(reply, outcome, text, detail)


def simulating(history: Sequence[Step], step: Step, asking: Asking, prompts: Path | None) -> list[Message]:
    """The talk in which a model simulates the environment: the steps so far, and the action."""
    form = prompt.Form(wrapper=asking.wrapper, action=asking.action, screen=asking.screen)
    messages = [Message("system", prompt.system_prompt(step.domain, prompts, form))]
    for number, past in enumerate(history, 1):
        messages.append(Message("user", prompt.user_turn(past, number, form)))
        answer = f"{prompt.before(past, form)}{prompt.observation(past)}{prompt.after(form)}"
        messages.append(Message("assistant", answer))
    messages.append(Message("user", prompt.user_turn(step, len(history) + 1, form)))
    return messages


def shortened(messages: Sequence[Message], most: int) -> list[Message]:
    """A talk of about so many characters at most: the oldest turns are dropped, and of long messages the middles."""
    kept = [Message(message.role, prompt.elide(message.content, most // 3)) for message in messages]
    first = 1 if kept[0].role == "system" else 0
    while len(kept) > first + 1 and sum(len(message.content) for message in kept) > most:
        del kept[first : first + 2]
    return kept


def asked_by(sampling: Sampling, *, max_tokens: int, thinking: bool = False, seed: int = 0) -> Asked:
    """How a model is asked: greedily, or by its card."""
    if sampling == "greedy":
        return Asked(max_tokens=max_tokens, thinking=thinking, seed=seed)
    return Asked(max_tokens=max_tokens, thinking=thinking, temperature=0.6, top_p=0.95, top_k=20, seed=seed)


def forgiven(answer: Answer, step: Step) -> Answer:
    """The answer, which is no role break where it is what really came: a screen may show no more than the command."""
    if answer.outcome is Outcome.ROLE_BREAK and answer.text.strip() == step.observation.strip():
        return msgspec.structs.replace(answer, outcome=Outcome.ANSWERED, detail="")
    return answer


def matched(text: str, step: Step, history: History) -> Match:
    """An answer against the step's true observation."""
    one, other = text.strip(), step.observation.strip()
    prediction = Prediction(predictor="bench", text=text)
    normalised = _normalised()(history, step, prediction)
    return Match(
        exact=one == other,
        without_echo=without_echo(one, step) == without_echo(other, step),
        normalised=normalised.value == 0.0,
    )


@asynccontextmanager
async def party(choice: Choice) -> AsyncIterator[Party]:
    """Whom a choice names, until the end.

    Raises:
        PolicyError: The policy is missing or wrong.
        PredictorError: A predictor is unknown or cannot start here.
    """
    async with judge_alone(choice) as judge:
        yield Party(judge.predictor, judge.policy.asking, choice.model.prompts)


def _outcome(reply: Reply, asked: Asked) -> tuple[Outcome, str]:
    """What a reply is, whatever it was asked for."""
    if reply.thought and not asked.thinking:
        return Outcome.THOUGHT, "it thought, though thinking was off"
    if reply.finish == "length":
        within = " within a thought" if not reply.text else ""
        return Outcome.TRUNCATED, f"cut{within} after {asked.max_tokens} tokens"
    if not reply.text.strip():
        return Outcome.EMPTY, "nothing was said"
    return Outcome.ANSWERED, ""


def _answer(reply: Reply, outcome: Outcome, text: str, detail: str) -> Answer:
    return Answer(
        outcome=outcome,
        text=text,
        raw=reply.text,
        thought=reply.thought,
        detail=detail,
        prompt_tokens=reply.prompt_tokens,
        generated_tokens=reply.generated_tokens,
        seconds=reply.seconds,
        first_token_seconds=reply.first_token_seconds,
    )


_FAILURES = {
    Abstain.ROLE_BREAK: Outcome.ROLE_BREAK,
    Abstain.TRUNCATED: Outcome.TRUNCATED,
    Abstain.TIMEOUT: Outcome.FAILED,
    Abstain.PREDICTOR_ERROR: Outcome.FAILED,
}


def _predicted(prediction: Prediction, step: Step) -> Answer:
    failed = prediction.failed or (prediction.abstain if prediction.abstain in _FAILURES else None)
    if failed is not None:
        outcome = _FAILURES[failed]
    elif prediction.truncated:
        outcome = Outcome.TRUNCATED
    elif not prediction.certain and prompt.thought(prediction.text or ""):
        outcome = Outcome.THOUGHT
    elif role_break(History(step.key), step, prediction).abstain is not None:
        outcome = Outcome.ROLE_BREAK
    else:
        outcome = Outcome.ABSTAINED if prediction.text is None else Outcome.ANSWERED
    tokens = prediction.tokens
    return Answer(
        outcome=outcome,
        text=prediction.text or "",
        raw=prediction.text or "",
        detail=prediction.detail,
        prompt_tokens=tokens.prompt or None,
        generated_tokens=tokens.generated or None,
    )


def _breaks(text: str, step: Step) -> bool:
    unknown = msgspec.structs.replace(step, observation="")
    return role_break(History(step.key), unknown, Prediction(predictor="bench", text=text)).abstain is not None


def without_echo(text: str, step: Step) -> str:
    """The text without lines at its start that repeat the command as a terminal shows it."""
    command = step.action.text.strip()
    first, _, rest = text.partition("\n")
    return rest.strip() if command and first.rstrip().endswith(f"$ {command}") else text


@cache
def _normalised() -> Normalised:
    return Normalised((*load("default").normalisers, "runtime"))
