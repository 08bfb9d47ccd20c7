"""The shape of a result: of JSON its kinds and the keys that are always there, and what it repeats of its input.

Shapes are learned from results and checked against others. They are loose on purpose: a tool may leave out or add some
keys, and an error looks like nothing that came before it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

__all__ = ("Shape", "decoded", "encode", "judge", "learn", "merge", "refuses")

_DEEPEST = 2
_MOST_KEYS = 30
_MOST_ITEMS = 20
_LONGEST = 400_000
_LONGEST_ERROR = 600
_ERROR = re.compile(
    r"(?i)\b(?:errors?|errno|fail(?:ed|s|ure)?|exceptions?|traceback|invalid|not|no|none|denied|unauthori[sz]ed"
    r"|forbidden|time(?:d )?out|cannot|can't|couldn't|doesn't|isn't|unable|rate limit|too (?:many|large|long)"
    r"|unavailable|missing|required|unknown|refused|rejected|interrupted|cancell?ed|abort(?:ed)?|truncated"
    r"|exceed(?:s|ed)?|empty|already|expired|disconnected|closed|skipped|blocked|warning)\b"
)
_NOTHING = frozenset({"[]", "{}", "null", "None", "undefined"})
_ERROR_KEYS = frozenset({"error", "errors", "iserror", "error_message", "errormessage", "exception", "fault"})
_MESSAGE_KEYS = frozenset({"message", "detail", "details", "msg", "reason", "title", "description"})


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What results of one kind have in common.

    Attributes:
        kinds: `object`, `list` or `scalar`; null fits any.
        keys: The keys that every object had, with what is common to their values.
        items: What is common to a list's items, if there were any.
        at: Keys that lead to a value of the result, from the outside in.
        value: What that value must be; None if there is nothing to repeat.
        says: What must stand in the text, whatever its form; None if nothing.
    """

    kinds: tuple[str, ...] = ()
    keys: dict[str, "Shape"] = {}
    items: "Shape | None" = None
    at: tuple[str, ...] = ()
    value: str | None = None
    says: str | None = None


def decoded(text: str) -> dict[str, Any] | list[Any] | None:
    """A JSON object or list; None for any other text, and for one too large or too deep to look at."""
    bare = text.strip()
    if not bare.startswith(("{", "[")) or len(bare) > _LONGEST:
        return None
    try:
        value = msgspec.json.decode(bare)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return value if isinstance(value, dict | list) else None


def learn(text: str) -> Shape | None:
    """The shape of one result; None if it is no JSON object or list."""
    value = decoded(text)
    return None if value is None else _shape(value, _DEEPEST)


def _shape(value: object, depth: int) -> Shape:
    if isinstance(value, dict):
        if not depth or len(value) > _MOST_KEYS:
            return Shape(kinds=("object",))
        return Shape(kinds=("object",), keys={key: _shape(inner, depth - 1) for key, inner in value.items()})
    if isinstance(value, list):
        items = [item for item in value[:_MOST_ITEMS] if item is not None] if depth else []
        shape: Shape | None = None
        for item in items:
            shape = merge(shape, _shape(item, depth - 1))
        return Shape(kinds=("list",), items=shape)
    return Shape(kinds=() if value is None else ("scalar",))


def merge(first: Shape | None, second: Shape | None) -> Shape | None:
    """What two shapes have in common."""
    if first is None or second is None:
        return first or second
    if "object" in first.kinds and "object" in second.kinds:
        keys = {key: merge(inner, second.keys[key]) or inner for key, inner in first.keys.items() if key in second.keys}
    else:
        keys = first.keys or second.keys
    return Shape(kinds=tuple(sorted({*first.kinds, *second.kinds})), keys=keys, items=merge(first.items, second.items))


def encode(shape: Shape) -> str:
    """A shape as JSON, for a constraint's text."""
    return msgspec.json.encode(shape).decode()


def refuses(text: str) -> bool:
    """May a text be the words of an error, a refusal or an empty result, which have no shape of their own?"""
    bare = text.strip()
    if not bare.startswith(("{", "[")):
        return _ERROR.search(bare[:_LONGEST_ERROR]) is not None
    value = decoded(bare)
    if not isinstance(value, dict):
        return False
    if any(key.lower() in _ERROR_KEYS and inner for key, inner in value.items()):
        return True
    if any(value.get(key) is False for key in ("success", "ok", "found")):
        return True
    if str(value.get("status", "")).lower() in {"error", "failed", "failure", "not_found"}:
        return True
    small = len(value) <= 5 and not any(isinstance(inner, dict) for inner in value.values())
    return small and any(key.lower() in _MESSAGE_KEYS for key in value)


def judge(shape: str, text: str) -> tuple[bool, str, Sequence[tuple[int, int]]]:
    """Has a text this shape?

    Args:
        shape: The shape, as `encode` gives it.
        text: The text, without blanks around it.

    Returns:
        Whether this can be told, what is wrong (empty if nothing is), and the characters that say so.
    """
    try:
        wanted = msgspec.json.decode(shape, type=Shape)
    except (msgspec.DecodeError, RecursionError):
        return False, "", ()
    if wanted.says is not None:
        return _said(wanted.says, text)
    value = decoded(text)
    if value is None:
        problem = "it is not JSON" if text else "nothing was returned"
        told = len(text) <= _LONGEST and not _cut(text)
    else:
        problem = _differs(wanted, value, "the result") or _wrong(wanted, value)
        told = bool(value) or not problem
    if not problem:
        return True, "", _places(wanted.value, text)
    if not told or refuses(text):
        return False, "", ()
    return True, problem, [(0, min(len(text), 200))] if text else ()


def _said(wanted: str, text: str) -> tuple[bool, str, Sequence[tuple[int, int]]]:
    at = text.find(wanted)
    if at >= 0:
        return True, "", [(at, at + len(wanted))]
    if text in _NOTHING or refuses(text):
        return False, "", ()
    return True, f"“{wanted[:80]}” is missing", ()


def _cut(text: str) -> bool:
    """May the harness have cut a long JSON text?"""
    return len(text) > 1000 and text.startswith(("{", "["))


def _differs(wanted: Shape, value: object, place: str) -> str:
    """Why a value has not a shape, in words; empty if it has."""
    if value is None or not wanted.kinds:
        return ""
    kind = "object" if isinstance(value, dict) else "list" if isinstance(value, list) else "scalar"
    if kind not in wanted.kinds:
        return f"{place} is of another kind: {kind}"
    if isinstance(value, dict):
        missing = [key for key in wanted.keys if key not in value]
        if 2 * len(missing) > len(wanted.keys):
            return f"{place} has no `{missing[0]}`"
        inner = ((f"`{key}`", wanted.keys[key], value[key]) for key in wanted.keys if key in value)
        return next((problem for name, shape, held in inner if (problem := _differs(shape, held, name))), "")
    if isinstance(value, list) and wanted.items is not None:
        items = wanted.items
        return next(
            (problem for item in value[:_MOST_ITEMS] if (problem := _differs(items, item, f"an item of {place}"))), ""
        )
    return ""


def _wrong(wanted: Shape, value: object) -> str:
    """Why a result does not repeat a value, in words; empty if it does, or need not."""
    found = _at(value, wanted.at)
    if wanted.value is None or found == wanted.value:
        return ""
    return f"`{'.'.join(wanted.at)}` is {str(found)[:80]}, not {wanted.value[:80]}"


def _at(value: object, keys: Sequence[str]) -> str | None:
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def _places(value: str | None, text: str) -> list[tuple[int, int]]:
    """The characters that a check pins: the value that is repeated, else the whole."""
    if value is None:
        return [(0, len(text))]
    at = text.find(value)
    return [(at, at + len(value))] if at >= 0 else []
