"""AgentProcessBench's HotpotQA runs: a model asks a search engine; people judged each of its turns."""

from collections.abc import Iterator
from typing import Any

import msgspec

from verifierd.replay.labelled.base import Label, Trace
from verifierd.replay.labelled.messages import Message, calls_in

__all__ = ("judged", "trace")


class _Metric(msgspec.Struct, frozen=True):
    status: str | None = None


class _Raw(msgspec.Struct, frozen=True):
    messages: list[Message]
    tool_metrics: dict[str, list[_Metric]] = {}


def trace(raw: dict[str, Any]) -> Trace:
    """The calls; whether one failed is what the log's own measurements of the tools say, in the order of the calls.

    Raises:
        msgspec.ValidationError: The case has another shape.
    """
    case = msgspec.convert(raw, _Raw)
    calls = calls_in(case.messages, domain="search")
    measured: dict[str, Iterator[_Metric]] = {tool: iter(metrics) for tool, metrics in case.tool_metrics.items()}
    for call in calls:
        metric = next(measured.get(call.action.tool, iter(())), _Metric())
        call.is_error = {"error": True, "success": False}.get(metric.status or "")
    return Trace(calls=calls, length=len(case.messages))


def judged(label: Label, length: int) -> frozenset[int] | None:  # noqa: ARG001 - as the other sets
    """The turns that people found right or wrong; not the neutral ones."""
    return frozenset(step - label.step_base for step, found in label.step_labels.items() if found)
