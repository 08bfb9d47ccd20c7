"""Calls in a list of chat messages of the OpenAI kind: an assistant's `tool_calls`, answered by `tool` messages."""

from collections.abc import Sequence

import msgspec

from verifierd.adapters.parse import arguments
from verifierd.replay.labelled.base import Call
from verifierd.types import Action

__all__ = ("Message", "calls_in")


class _Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str = ""


class _ToolCall(msgspec.Struct, frozen=True):
    function: _Function
    id: str | None = None


class Message(msgspec.Struct, frozen=True):
    """A message, as far as it matters here."""

    role: str
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None


def calls_in(messages: Sequence[Message], *, domain: str) -> list[Call]:
    """The calls, each with the answer of the same id; answers without an id come in the order of the calls.

    What is said between the calls is no part of them: whoever talks with the agent does not touch its environment.
    """
    found: list[Call] = []
    waiting: list[Call] = []
    for position, message in enumerate(messages):
        if message.tool_calls:
            waiting = [
                Call(
                    position=position,
                    action=Action(tool=asked.function.name, input=_input(asked.function.arguments)),
                    domain=domain,
                    id=asked.id,
                    batch=str(position) if len(message.tool_calls) > 1 else None,
                )
                for asked in message.tool_calls
            ]
            found.extend(waiting)
        elif message.role == "tool" and waiting:
            call = next((call for call in waiting if call.id == message.tool_call_id), waiting[0])
            waiting.remove(call)
            call.observed, call.observation = position, message.content or ""
    return found


def _input(text: str) -> str | dict[str, object]:
    """Arguments as the object that they spell; a model's slip leaves a text."""
    given = arguments(text)
    return text if given is None else given
