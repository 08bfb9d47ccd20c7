"""What the results of each tool of a session had in common: shape, and what they repeated of their input."""

import itertools
import re
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from verifierd.contracts.shapes import Shape, decoded, learn, merge, refuses
from verifierd.types import Step

__all__ = ("Lesson", "Past", "Results", "kind")

_LIVE = 64
_RECENT = 3
_HEAD = 4_000
_ENOUGH = 3
_DIFFERENT = 2
_LONGEST = 200
_LEFT = 24
_MOST_PLACES = 1_000
_IDENTIFIER = re.compile(r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:id|uuid|number|slug)$")
_AGENTS = ("Agent", "Task", "Team", "SendMessage", "Workflow")
_LISTS = frozenset({"TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop", "TaskUpdate"})
_CHOICES = frozenset(
    {"action", "command", "operation", "method", "type", "mode", "output_mode", "outputMode", "format", "kind", "op"}
)


class Past(msgspec.Struct, frozen=True):
    """The head of an earlier result, the short texts among its input, and when it was.

    `others` counts the calls before it that may have set other agents to work.
    """

    input: Mapping[str, str]
    text: str
    turn: str | None
    others: int


class Lesson(msgspec.Struct):
    """What the successful results of one kind of call had in common.

    Attributes:
        count: How many there were.
        json: How many of these were JSON objects or lists.
        shape: What their JSON has in common.
        values: Some of the values of each input field that is a short text or a number.
        paths: Where a result held the value of an input field, every time.
        left: What stood before the value of an input field in texts that were no JSON, every time.
    """

    count: int = 0
    json: int = 0
    shape: Shape | None = None
    values: dict[str, set[str]] = msgspec.field(default_factory=dict)
    paths: dict[str, set[tuple[str, ...]]] = msgspec.field(default_factory=dict)
    left: dict[str, str | None] = msgspec.field(default_factory=dict)

    @property
    def shaped(self) -> Shape | None:
        """The shape, once there were enough results and all of them were JSON."""
        return self.shape if self.count >= _ENOUGH and self.json == self.count else None

    def echo(self, field: str) -> Sequence[tuple[str, ...]]:
        """Where the next result must hold the value of an input field; empty if that is not known."""
        if not self.shaped or len(self.values.get(field, ())) < _DIFFERENT or not _IDENTIFIER.search(field):
            return ()
        return sorted(path for path in self.paths.get(field, ()) if path[-1] == field or path[-1] == "id")

    def before(self, field: str) -> str | None:
        """What the next text must hold before the value of an input field; None if that is not known."""
        if self.json or self.count < _ENOUGH or len(self.values.get(field, ())) < _DIFFERENT:
            return None
        return self.left.get(field)


class Results:
    """Lessons by kind of call, and the last results by tool.

    Attributes:
        others: How many calls may have set other agents to work.
    """

    def __init__(self) -> None:
        self._lessons: OrderedDict[str, Lesson] = OrderedDict()
        self._recent: OrderedDict[str, deque[Past]] = OrderedDict()
        self.others = 0

    def observe(self, step: Step) -> None:
        """Learn from a result."""
        self.others += step.tool.startswith(_AGENTS) and step.tool not in _LISTS
        if step.action.command is not None or step.elided is not None or step.is_error:
            return
        fields = dict(texts(step.action.fields))
        recent = self._recent.setdefault(step.tool, deque(maxlen=_RECENT))
        recent.append(Past(fields, step.observation[:_HEAD], step.turn, self.others))
        self._recent.move_to_end(step.tool)
        if len(self._recent) > _LIVE:
            self._recent.popitem(last=False)
        if refuses(step.observation):
            return
        name = kind(step.tool, step.action.fields)
        lesson = self._lessons.setdefault(name, Lesson())
        self._lessons.move_to_end(name)
        if len(self._lessons) > _LIVE:
            self._lessons.popitem(last=False)
        _learn(lesson, fields, step.observation)

    def lesson(self, tool: str, fields: Mapping[str, Any]) -> Lesson | None:
        """What is known of calls of this kind."""
        return self._lessons.get(kind(tool, fields))

    def recent(self, tool: str) -> Sequence[Past]:
        """The last results of a tool that were no errors, oldest first."""
        return tuple(self._recent.get(tool, ()))


def kind(tool: str, fields: Mapping[str, Any]) -> str:
    """Calls of one kind are of one tool, have the same input fields and make the same choice among its actions."""
    choices = [f"{name}={value}" for name, value in sorted(fields.items()) if name in _CHOICES and len(str(value)) < 30]
    return "\0".join([tool, *sorted(fields)[:20], *choices])


def texts(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The input fields that are short texts or numbers."""
    for name, value in list(fields.items())[:20]:
        if isinstance(value, str | int) and not isinstance(value, bool) and 0 < len(text := str(value)) <= _LONGEST:
            yield name, text


def _learn(lesson: Lesson, fields: Mapping[str, str], observation: str) -> None:
    first = lesson.count == 0
    lesson.count += 1
    value = decoded(observation)
    places: dict[str, set[tuple[str, ...]]] = {}
    if value is not None:
        lesson.json += 1
        lesson.shape = merge(lesson.shape, learn(observation))
        for text, path in itertools.islice(_places(value), _MOST_PLACES):
            places.setdefault(text, set()).add(path)
    for name, text in fields.items():
        known = lesson.values.setdefault(name, set())
        if len(known) < 2 * _DIFFERENT:
            known.add(text)
        found = places.get(text, set())
        lesson.paths[name] = found if first else lesson.paths.get(name, set()) & found
        left = _left(observation, text) if value is None else None
        lesson.left[name] = left if first or lesson.left.get(name) == left else None


def _places(value: object) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The texts and numbers that an object, or one within it, holds, with the keys that lead to them."""
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from ((str(held), (key, deeper)) for deeper, held in inner.items() if _is_plain(held))
        elif _is_plain(inner):
            yield str(inner), (key,)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _left(observation: str, text: str) -> str | None:
    """What stands before a value on the first line; None if it does not stand there, or first in it."""
    line = observation[:_HEAD].strip().partition("\n")[0]
    at = line.find(text) if len(text) >= 3 else -1
    left = line[max(0, at - _LEFT) : at] if at >= 0 else ""
    return left if len(left.strip()) >= 3 else None
