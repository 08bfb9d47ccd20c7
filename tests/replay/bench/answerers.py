"""Models that answer by a rule: whoever simulates well, and whoever fails in one way or another."""

from collections.abc import Callable, Sequence

from verifierd.policy import Asking
from verifierd.replay.bench.asking import Party
from verifierd.stages import Asked, Message, Reply
from verifierd.types import Abstain, History, Prediction, Step

__all__ = ("FAILURES", "Answerer", "asked_party", "last_command")


class Answerer:
    """A model that is talked to: its rule makes a reply of what was said.

    Args:
        rule: Gets the talk, returns the reply's text, its thought, and how it ended.
    """

    name = "answerer"
    model: str | None = "answerer@1"

    def __init__(self, rule: Callable[[Sequence[Message]], tuple[str, str, str]]) -> None:
        self._rule = rule
        self.talks: list[Sequence[Message]] = []

    async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:  # noqa: ARG002 - the protocol's signature
        """It is talked to, and predicts nothing."""
        return Prediction(predictor=self.name, abstain=Abstain.UNPREDICTABLE)

    async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:
        """What the rule says."""
        self.talks.append(messages)
        text, thought, finish = self._rule(messages)
        assert asked.max_tokens >= 1
        return Reply(
            text=text,
            thought=thought,
            finish="length" if finish == "length" else "stop",
            prompt_tokens=sum(len(message.content) for message in messages),
            generated_tokens=len(text),
            seconds=0.25,
            first_token_seconds=0.125,
            model="answerer",
        )

    async def aclose(self) -> None:
        """Nothing is held."""


def asked_party(answerer: Answerer) -> Party:
    """Someone to ask."""
    return Party(answerer, Asking(), None)


def last_command(messages: Sequence[Message]) -> str:
    """The action that was asked for, as it stands in the talk."""
    return messages[-1].content.partition("```json\n")[2].removesuffix("\n```")


FAILURES: dict[str, Callable[[Sequence[Message]], tuple[str, str, str]]] = {
    "role_break": lambda messages: (last_command(messages), "", "stop"),
    "truncated": lambda _: ("**Environment Observation:**\nline\nli", "", "length"),
    "thought": lambda _: ("**Environment Observation:**\nx", "Let me see.", "stop"),
    "empty": lambda _: ("", "", "stop"),
}
"""Ways to fail, by the outcome that each must be called."""
