"""`echoed_call`: the call came back instead of its result; whoever answered fell out of its role.

No environment answers so, whatever was asked, so this decides without a prediction. How the call is spelt does not
matter: what was given is taken out of the text, and only words may be left that are said of calls.
"""

import html
import itertools
import json
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from verifierd.types import Action, History, ObservationKind, Prediction, Score, Signal, Step

__all__ = ("CALLS", "FORM", "echoed_call", "echoes", "spoken")

_WRAPPING = 600  # characters that a spelling may add to the call,
_SWELLING = 12  # and make of each of its own: `\ud83d\ude00`
_MOST = 500  # values of an input; pieces of a text
_HEAD = 200

CALLS = frozenset(
    "action args arguments cmd command function input invoke keystrokes kwargs parameter parameters params recipient "  # noqa: SIM905 - a list of words
    "tool".split()
)
"""What is said of calls, and hardly of anything else."""

FORM = frozenset(
    "antml assistant bash begin block body bot call calls code content end exec execute false fn id index json lang "  # noqa: SIM905
    "language message method name none null operation output python request role run server sh shell start string "
    "terminal text to true type use using value version with xml yaml 0 1".split()
)
"""What may stand beside it."""

_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\WA-Za-z_]+")
_IDENTITY = re.compile(r"\b(?:call|toolu|tooluse|chatcmpl|fc)[_-][\w.:-]+")
_BREAK = re.compile(r"\\+[nrt\s]")
_CALLED = re.compile(r"action|arg|cmd|command|function|input|invoke|keystrokes|param|recipient|tool|\(", re.IGNORECASE)


def echoed_call(_history: History, step: Step, prediction: Prediction) -> Score:
    """Is the observation nothing but the call? Not where a rule expected that very text."""
    text = step.observation
    if step.observation_kind is not ObservationKind.ENV or not text.strip():
        return Score(name="echoed_call", reason="nothing came back")
    expected = prediction.certain and prediction.text is not None and prediction.text.strip() == text.strip()
    if expected or not echoes(step.action, text):
        return Score(name="echoed_call", value=0.0)
    signal = Signal(name="echoed_call", value=1.0, span=(0, len(text)), detail="is the call itself, not its result")
    return Score(name="echoed_call", value=1.0, violated=True, signals=(signal,))


def echoes(action: Action, text: str) -> bool:
    """Is a text nothing but the call, in whatever spelling?

    Of a shell tool the whole command must stand in it, and a word that is said of calls. Of another tool its name must,
    too, and all of its input: what was given alone is an answer that a tool may well give.
    """
    values, keys = spoken(action)
    if not _may_be(action, text, values, CALLS | FORM | keys):
        return False
    read = [*itertools.islice(_pieces(text, values.union(_names(action))), _MOST + 1)]
    return len(read) <= _MOST and any(_is_call(action, text, [*map(_plain, pieces)]) for pieces in (read, [text]))


def spoken(action: Action) -> tuple[set[str], set[str]]:
    """All values of a call, and the words of the keys of its input."""
    values = {*_leaves(action.input), _plain(action.command or "")} - {""}
    return values, {part for key in _keys(action.input) for part in _parts(key)}


def _names(action: Action) -> tuple[str, str]:
    """What a tool is called, with its server and without."""
    return _plain(action.tool), _plain(action.tool.rpartition("__")[2])


def _is_call(action: Action, text: str, pieces: list[str]) -> bool:
    values, keys = spoken(action)
    # A shell's description or time limit may be there or not.
    given = values if action.command is None else {_plain(action.command)}
    names = _names(action)
    taken = set()
    for word in sorted({*values, *names} - {""}, key=lambda word: (-len(word), word)):  # one may stand in another
        if _taken(word, pieces):
            taken.add(word)
        elif word in given:
            return False
    named = next((name for name in names if name in taken), None)
    left = {part for piece in pieces for part in _parts(_IDENTITY.sub(" ", piece))}
    if not left <= CALLS | FORM | keys:
        return False
    if action.command is not None:
        return bool(given and left & CALLS)
    if named is None:
        return False
    said = (left & CALLS) - keys
    called = re.search(rf"(?<!\w){re.escape(named)}\s?\(", text) is not None
    return called or (bool(said) and (bool(given) or len(said | left & {"name"}) > 1))


def _may_be(action: Action, text: str, given: AbstractSet[str], known: AbstractSet[str]) -> bool:
    """Is it about as long as the call, and is its first word one of a call? Tells most answers apart at once."""
    size = sum(map(len, given))
    most = _SWELLING * (size + len(action.tool)) + _WRAPPING
    if len(given) > _MOST or not size // 4 <= len(text) <= most or not _CALLED.search(text):
        return False
    first = _PART.search(_IDENTITY.sub(" ", text[:_HEAD]))
    begins = (action.tool, *(value[:_HEAD] for value in given))
    return first is not None and first[0].lower() in set(known).union(*map(_parts, begins))


def _leaves(value: Any) -> Iterator[str]:
    """The texts and numbers of an input."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield _plain(str(value))


def _plain(text: str) -> str:
    """Without line breaks, quoted ones included, and indentation: lines may have been wrapped."""
    return " ".join(_BREAK.sub(" ", text).split())


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _keys(item)


def _pieces(text: str, given: AbstractSet[str]) -> Iterator[str]:
    """The keys and values of the JSON in a text and what stands around it; the text itself if there is none.

    Arguments may be JSON in JSON; what was given is a piece of its own, be it JSON.
    """
    for opens, closes in ("{}", "[]"):
        start, end = text.find(opens), text.rfind(closes) + 1
        if not 0 <= start < end:
            continue
        try:
            value = json.loads(text[start:end], strict=False)
        except (ValueError, RecursionError):
            continue
        yield from (text[:start], text[end:])
        for piece in (*_keys(value), *_leaves(value)):
            yield from (piece,) if piece in given or piece == text else _pieces(piece, given)
        return
    yield text


def _taken(value: str, pieces: list[str]) -> bool:
    """Does a value stand in the pieces, in words of its own? It is taken out of all of them."""
    found = False
    for spelt in dict.fromkeys(_spellings(value)):
        for index, piece in enumerate(pieces):
            if spelt in piece:
                pieces[index], taken = _without(piece, spelt)
                found = found or taken
    return found


def _without(text: str, word: str) -> tuple[str, bool]:
    kept, last, at = [], 0, text.find(word)
    while at >= 0:
        end = at + len(word)
        inside = (word[0].isalnum() and text[at - 1 : at].isalnum()) or (
            word[-1].isalnum() and text[end : end + 1].isalnum()
        )
        if not inside:
            kept.append(text[last:at])
            last = end
        at = text.find(word, end)
    return " ".join([*kept, text[last:]]), bool(kept)


def _spellings(value: str) -> Iterator[str]:
    """How a text may be written: as it is, and in the strings of JSON, of JSON in JSON, of Python and of markup."""
    once = json.dumps(value)[1:-1]
    plain = json.dumps(value, ensure_ascii=False)[1:-1]
    yield from (value, once, plain, json.dumps(once)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1])
    python = repr(value)[1:-1]
    yield from (python, python.replace("\\'", "'").replace("'", "\\'"))
    yield from (html.escape(value), html.escape(value, quote=False))


def _parts(text: str) -> set[str]:
    """The words of a text and of its names, in lower case."""
    return {part.lower() for part in _PART.findall(text)}
