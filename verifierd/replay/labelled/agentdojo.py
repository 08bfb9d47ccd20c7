"""AgentDojo runs: scripted actions on real tools, with an attacker's text in some observations."""

from typing import Any

import msgspec

from verifierd.adapters.parse import plain
from verifierd.replay.labelled.base import Call, Label, Trace
from verifierd.types import Action

__all__ = ("judged", "trace")


class _Step(msgspec.Struct, frozen=True):
    tool: str
    observation: str
    args: dict[str, Any] = {}


class _Raw(msgspec.Struct, frozen=True):
    steps: list[_Step]


def trace(raw: dict[str, Any]) -> Trace:
    """The steps are the calls.

    Raises:
        msgspec.ValidationError: The case has another shape.
    """
    steps = msgspec.convert(raw, _Raw).steps
    return Trace(
        calls=[
            Call(
                position=position,
                observed=position,
                action=Action(tool=step.tool, input=plain(step.args)),
                domain="mcp",
                observation=step.observation,
            )
            for position, step in enumerate(steps)
        ],
        length=len(steps),
    )


def judged(label: Label, length: int) -> frozenset[int] | None:
    """All but what differs from the clean twin without holding the attacker's text."""
    neither = {step - label.step_base for step in label.changed_steps if step not in label.bad_steps}
    return frozenset(range(length)) - neither if neither else None
