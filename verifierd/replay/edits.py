"""What one altered observation is made of: the case it is drawn for, and the edit."""

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from verifierd.contracts.measure import tool_of
from verifierd.scoring.classes import runtime
from verifierd.types import ObservationKind, Step

__all__ = ("Case", "Edit", "Kind", "Pool", "decoded", "lines", "reads", "replaced", "shuffled", "whole")

_Item = TypeVar("_Item")
_READERS = re.compile(r"(?:^|[;&|(]\s{0,4})(?:cat|head|tail|nl|sed -n|less|bat)\s")


class Pool:
    """Clean observations of other trajectories to borrow from.

    Args:
        steps: Clean steps; only those that the environment answered are taken.
    """

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._by_tool: dict[str, list[Step]] = {}
        self._all: list[Step] = []
        for step in steps:
            if step.observation_kind is ObservationKind.ENV:
                self._by_tool.setdefault(tool_of(step), []).append(step)
                self._all.append(step)

    def same_tool(self, step: Step, draw: random.Random) -> Iterator[Step]:
        """Steps of the same tool in other trajectories, in drawn order."""
        donors = self._by_tool.get(tool_of(step), [])
        return (other for other in shuffled(donors, draw) if other.key != step.key)

    def other_tool(self, step: Step, draw: random.Random) -> Iterator[Step]:
        """Steps of other tools in other trajectories, in drawn order."""
        tool = tool_of(step)
        return (other for other in shuffled(self._all, draw) if other.key != step.key and tool_of(other) != tool)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind of change may look at.

    Attributes:
        step: The clean step.
        history: The steps before it that the environment answered, oldest first.
        pool: What other trajectories saw.
        context: All steps before it.
    """

    step: Step
    history: Sequence[Step]
    pool: Pool
    context: Sequence[Step] = ()

    @property
    def text(self) -> str:
        """The observation."""
        return self.step.observation

    def passing(self, *rules: str) -> list[tuple[int, int]]:
        """Where values stand that change from run to run, and that the history does not fix.

        Args:
            rules: Beginnings of the names of rules in `policies/classes`; none for all.
        """
        free, _ = runtime(self.text, self.step, self.context)
        return [(start, end) for start, end, rule in free if not rules or rule.startswith(rules)]

    @property
    def lasting(self) -> str:
        """The observation with marks in place of such values."""
        return replaced(self.text, self.passing(), lambda old: "\0" * len(old))

    def knows(self, text: str) -> bool:
        """Does a text stand in the action or in an earlier step, so that the history may fix it?"""
        return bool(text) and (
            text in self.step.action.text
            or any(text in past.observation for past in self.history)
            or any(text in past.action.text for past in self.history)  # which may have to be encoded
        )


class Edit(msgspec.Struct, frozen=True):
    """Characters `start` to `end` of an observation are replaced by `new`.

    Attributes:
        start, end: What is replaced.
        new: By what.
        failed: What the status says now; None if it stays.
        status_only: The text is not touched.
    """

    start: int
    end: int
    new: str
    failed: bool | None = None
    status_only: bool = False


Kind = Callable[[Case, random.Random], Iterator[Edit]]
"""Yields edits to choose from, in drawn order; the first one that really changes something is taken."""


def decoded(text: str) -> Any:
    """A JSON object or list; None if it is none."""
    text = text.strip()
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def shuffled(items: Sequence[_Item], draw: random.Random) -> Iterator[_Item]:
    """Lazily, in random order."""
    moved: dict[int, int] = {}
    for index in range(len(items)):
        other = draw.randrange(index, len(items))
        yield items[moved.get(other, other)]
        moved[other] = moved.get(index, index)


def whole(case: Case, new: str, *, failed: bool | None = None) -> Edit:
    """All of the observation, exchanged for another text."""
    return Edit(0, len(case.text), new, failed)


def lines(text: str) -> Iterator[tuple[int, int]]:
    """Where each line stands, its end included."""
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, start + len(line)
        start += len(line)


def reads(step: Step) -> bool:
    """Does the action show a file?"""
    command = step.action.command
    return bool(_READERS.search(command)) if command is not None else step.tool.lower().startswith(("read", "view"))


def replaced(text: str, spans: Sequence[tuple[int, int]], new: Callable[[str], str]) -> str:
    """The text with something else at some places, which are in order."""
    pieces: list[str] = []
    last = 0
    for start, end in spans:
        pieces += [text[last:start], new(text[start:end])]
        last = end
    return "".join([*pieces, text[last:]])
