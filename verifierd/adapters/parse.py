"""From the bytes of a line to the JSON objects in it, whatever happened to the line.

A ladder, cheapest step first: msgspec on the whole line; the standard library, which also takes NaN, lone surrogates
and control characters; at last the salvage of what a killed or racing writer left behind: runs of NUL bytes, a byte
order mark, records glued together (`}{`), a cut record with a whole one after it on the same line.

Nothing here raises on bad input, and what comes out can always be encoded again.
"""

import json
import math
import re
from typing import Any, NamedTuple, TypeVar

import msgspec

__all__ = ("FAILURES", "Parsed", "arguments", "fit", "parse", "plain")

T = TypeVar("T", bound=msgspec.Struct)

FAILURES = (msgspec.DecodeError, RecursionError)
"""What a msgspec decoder raises on input that it does not take."""

_RESTART = re.compile(r'\{"(?:parentUuid|timestamp|type|trajectory)"')
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SPACE = " \t\r\n\x00\ufeff"
_GAP = re.compile(f"[{_SPACE}]*")
_ATTEMPTS = 64  # a hostile line may hold as many false beginnings as it likes
_DEPTH = 100  # what is nested deeper may be decoded here and fail to be encoded under a taller stack
_WORD = 1 << 63  # larger integers do not fit into MessagePack


class Parsed(NamedTuple):
    """What was found on a line.

    Attributes:
        objects: The JSON objects, in order.
        damage: What was wrong with the line, None if nothing was: `repaired` (all of it is there), `glued` (several
            whole records), `cut` (something is lost), `not_json`, `not_object`, `too_deep`, `nul`.
    """

    objects: list[dict[str, Any]]
    damage: str | None = None

    @property
    def lost(self) -> bool:
        """True if something that was on the line could not be read."""
        return self.damage not in {None, "repaired", "glued"}


def parse(data: bytes) -> Parsed:
    """The objects on a line and what was wrong with it. A blank line holds none and nothing is wrong with it."""
    try:
        return _whole(msgspec.json.decode(data), None)
    except RecursionError:
        return Parsed([], "too_deep")
    except msgspec.DecodeError:
        pass
    text = data.decode("utf-8", "replace").strip(_SPACE)
    if not text:
        return Parsed([], "nul" if b"\x00" in data else None)
    try:
        return _whole(_clean(_DECODER.decode(text)), "repaired")
    except RecursionError:
        return Parsed([], "too_deep")
    except ValueError:
        return _salvage(text)


def arguments(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, or None if it is something else."""
    try:
        value = msgspec.json.decode(text)
    except FAILURES:
        return None
    return value if isinstance(value, dict) and _is_plain(value) else None


def fit(kind: type[T], value: dict[str, Any]) -> T:
    """A Struct made of the fields of an object that have the right type; the others keep their defaults."""
    try:
        return msgspec.convert(value, kind)
    except FAILURES:
        pass
    fitting: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in value:
            try:
                fitting[field.name] = msgspec.convert(value[field.encode_name], field.type)
            except FAILURES:
                continue
    return kind(**fitting)


def plain(value: object) -> str | dict[str, Any]:
    """A tool's input as any other part of the program can hold and encode it: the text or the object that it is.

    An object nested absurdly deep, or with a number of absurd size, becomes its text; all else becomes empty.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    if _is_plain(value):
        return value
    try:
        return json.dumps(value)
    except (ValueError, RecursionError):
        return ""


def _is_plain(value: dict[str, Any]) -> bool:
    for item in value.values():
        kind = type(item)
        if kind is str or kind is bool or item is None or kind is float:
            continue
        if kind is not int or not -_WORD <= item < _WORD:
            return _is_plain_within(value)
    return True


def _is_plain_within(value: dict[str, Any]) -> bool:
    level: list[object] = [value]
    for _ in range(_DEPTH):
        inner: list[object] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
            elif isinstance(item, int) and not -_WORD <= item < _WORD:
                return False
        if not inner:
            return True
        level = inner
    return False


def _whole(value: object, damage: str | None) -> Parsed:
    return Parsed([value], damage) if isinstance(value, dict) else Parsed([], "not_object")


def _salvage(text: str) -> Parsed:
    objects: list[dict[str, Any]] = []
    lost = False
    at = 0
    for _ in range(_ATTEMPTS):
        try:
            value, end = _DECODER.raw_decode(text, at)
            value, end = _clean(value), _end(text, end)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and (end == len(text) or text[end] == "{"):
            objects.append(value)
            at = end
            if at == len(text):
                break
            continue
        # Not a record, or only a part of one that is itself cut: look for where the next one starts.
        lost = True
        restart = _RESTART.search(text, at + 1)
        if restart is None:
            break
        at = restart.start()
    if not objects:
        return Parsed([], "not_json")
    return Parsed(objects, "cut" if lost or at < len(text) else "glued")


def _end(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return at if gap is None else gap.end()


def _clean(value: Any) -> Any:
    """The value without what no encoder takes: lone surrogates, infinities."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value


_DECODER = json.JSONDecoder(parse_constant=lambda _name: None, strict=False)
