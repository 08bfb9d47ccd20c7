"""tau-bench runs: an agent, a simulated customer who only talks, and real tools on a database."""

from typing import Any

import msgspec

from verifierd.replay.labelled.base import Label, Trace
from verifierd.replay.labelled.messages import Message, calls_in

__all__ = ("judged", "trace")


class _Raw(msgspec.Struct, frozen=True):
    traj: list[Message]


def trace(raw: dict[str, Any]) -> Trace:
    """The calls of the conversation.

    Raises:
        msgspec.ValidationError: The case has another shape.
    """
    messages = msgspec.convert(raw, _Raw).traj
    return Trace(calls=calls_in(messages, domain="mcp"), length=len(messages))


def judged(label: Label, length: int) -> frozenset[int] | None:  # noqa: ARG001 - as the other sets
    """All entries; none of a run that failed nobody knows where."""
    return frozenset() if label.trajectory_label == "failed_outcome" else None
