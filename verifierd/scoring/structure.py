"""`structure`: which keys of a JSON observation changed, are missing or were added. It shows, and decides nothing."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from verifierd.contracts.shapes import decoded
from verifierd.contracts.tails import visible
from verifierd.scoring.classes import masked
from verifierd.types import History, Prediction, Score, Signal, Step

__all__ = ("Change", "changes", "structure")

_MOST = 20
_DEEPEST = 60
_LONGEST_VALUE = 60
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^\s,:"{}\[\]]+|[{}\[\]]', re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z_$][\w$-]*")

_Path = tuple[str | int, ...]


class Change(NamedTuple):
    """One difference between two JSON texts.

    Attributes:
        kind: `changed`, `missing` or `added`.
        path: Keys and indices that lead there.
        start, end: The value that came, with its key where that was added; the end of what holds it if it is missing.
        expected, observed: The two values; None where there is none.
    """

    kind: str
    path: _Path
    start: int
    end: int
    expected: Any
    observed: Any

    @property
    def words(self) -> str:
        """The difference for people."""
        place = _written(self.path)
        if self.kind == "missing":
            return f"{place} is missing; expected {_short(self.expected)}"
        if self.kind == "added":
            return f"{place} was not expected: {_short(self.observed)}"
        return f"{place}: expected {_short(self.expected)}, observed {_short(self.observed)}"


def structure(history: History, step: Step, prediction: Prediction) -> Score:
    """The share of values that differ, where prediction and observation are JSON objects or lists both.

    Where it is a guess, another value of the same form is not told if only a run can tell it.
    """
    if prediction.text is None:
        return Score(name="structure", reason="no predicted text")
    found = changes(prediction.text, visible(step))
    if found is None:
        return Score(name="structure", reason="not JSON on both sides")
    listed, share = found
    told = [change for change in listed if prediction.certain or not _of_one_form(change, step, history)]
    return Score(
        name="structure",
        value=share if told else 0.0,
        signals=tuple(
            Signal(name=f"json_{change.kind}", value=1.0, span=(change.start, change.end), detail=change.words)
            for change in told
        ),
    )


def _of_one_form(change: Change, step: Step, history: History) -> bool:
    if change.kind != "changed" or isinstance(change.expected, dict | list):
        return False
    key = next((part for part in reversed(change.path) if isinstance(part, str)), "")
    texts = [f'"{key}": {_json(value)}' for value in (change.expected, change.observed)]
    one, two = (masked(text, step, history)[0] for text in texts)
    return one == two


def changes(expected: str, observed: str) -> tuple[list[Change], float] | None:
    """What differs between two JSON texts, at most 20 changes in the order of the second text, and which share differs.

    Lists are compared item by item, but for equal items at both ends. None if one text is no JSON object or list, or
    too large or too deep to be looked at.
    """
    if expected == observed:
        return None if decoded(observed) is None else ([], 0.0)
    one, two = decoded(expected), decoded(observed)
    if one is None or two is None:
        return None
    differing = list(_differing(one, two, (), 0))
    if not differing:
        return [], 0.0
    leaves = max(_leaves(one), _leaves(two))
    share = sum(max(_leaves(was), _leaves(now)) for _, _, was, now in differing) / leaves
    wanted = {path[:-1] if kind == "missing" else path for kind, path, _, _ in differing[:_MOST]}
    places = _places(observed, wanted)
    listed = []
    for kind, path, was, now in differing[:_MOST]:
        key, start, end = places.get(path[:-1] if kind == "missing" else path, (0, 0, len(observed)))
        if kind == "missing":
            start = end = max(start, end - 1)
        elif kind == "added":
            start = key
        listed.append(Change(kind, path, start, end, was, now))
    return sorted(listed, key=lambda change: (change.start, change.end)), min(1.0, share)


def _differing(one: Any, two: Any, path: _Path, depth: int) -> Iterator[tuple[str, _Path, Any, Any]]:
    if type(one) is type(two) and one == two:
        return
    if depth < _DEEPEST and isinstance(one, dict) and isinstance(two, dict):
        for key, value in one.items():
            if key in two:
                yield from _differing(value, two[key], (*path, key), depth + 1)
            else:
                yield "missing", (*path, key), value, None
        for key, value in two.items():
            if key not in one:
                yield "added", (*path, key), None, value
    elif depth < _DEEPEST and isinstance(one, list) and isinstance(two, list):
        yield from _items(one, two, path, depth)
    else:
        yield "changed", path, one, two


def _items(one: list[Any], two: list[Any], path: _Path, depth: int) -> Iterator[tuple[str, _Path, Any, Any]]:
    most = min(len(one), len(two))
    head = next((index for index in range(most) if one[index] != two[index]), most)
    tail = next((index for index in range(most - head) if one[-1 - index] != two[-1 - index]), most - head)
    left, right = one[head : len(one) - tail], two[head : len(two) - tail]
    for index in range(max(len(left), len(right))):
        place = (*path, head + index)
        if index >= len(right):
            yield "missing", place, left[index], None
        elif index >= len(left):
            yield "added", place, None, right[index]
        else:
            yield from _differing(left[index], right[index], place, depth + 1)


def _leaves(value: Any) -> int:
    """How many values something holds that hold no others; counted without recursion."""
    count = 0
    held = [value]
    while held:
        item = held.pop()
        if isinstance(item, dict | list) and item:
            held.extend(item.values() if isinstance(item, dict) else item)
        else:
            count += 1
    return count


class _Open:
    """An object or list that is being read: where it began, and what is read next in it."""

    def __init__(self, path: _Path | None, start: int, *, keyed: bool, key_at: int) -> None:
        self.path = path
        self.start = start
        self.keyed = keyed
        self.key_at = key_at
        self.key: str | None = None
        self.at = 0
        self.index = 0

    def next(self, start: int) -> tuple[_Path | None, int]:
        """The path of the value that comes now, and where it begins with its key."""
        step: str | int = self.index
        if self.keyed:
            step, start = self.key or "", self.at
        self.index += 1
        self.key = None
        return None if self.path is None else (*self.path, step), start


def _places(text: str, wanted: set[_Path]) -> dict[_Path, tuple[int, int, int]]:
    """Where some values of a JSON text stand: the start of the key, and start and end of the value."""
    # Only paths that lead to something wanted are built, so that deep texts cost no more than flat ones.
    leading = {path[:length] for path in wanted for length in range(len(path) + 1)}
    found: dict[_Path, tuple[int, int, int]] = {}
    stack: list[_Open] = []
    for match in _TOKEN.finditer(text):
        word, start, end = match[0], match.start(), match.end()
        if word in ("}", "]"):
            closed = stack.pop()
            if closed.path in wanted:
                found[closed.path] = closed.key_at, closed.start, end
            if len(found) == len(wanted):
                break
            continue
        top = stack[-1] if stack else None
        if top is not None and top.keyed and top.key is None:
            top.key = msgspec.json.decode(word) if top.path is not None else word
            top.at = start
            continue
        path, key_at = top.next(start) if top is not None else ((), start)
        if path not in leading:
            path = None
        if word in ("{", "["):
            stack.append(_Open(path, start, keyed=word == "{", key_at=key_at))
        elif path in wanted:
            found[path] = key_at, start, end
    return found


def _written(path: _Path) -> str:
    """A path as people write it: `$.items[2].name`."""
    parts = [
        f"[{part}]" if isinstance(part, int) else f".{part}" if _PLAIN.fullmatch(part) else f"[{_short(part)}]"
        for part in path
    ]
    return f"`${''.join(parts)}`"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")


def _short(value: Any) -> str:
    text = _json(value)
    return f"{text[:_LONGEST_VALUE]}…" if len(text) > _LONGEST_VALUE else text
