"""What a model's answer and a judge's reply hold, by the official evaluation's rules: a pure function each."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

__all__ = ("DIMENSIONS", "Grade", "extracted", "graded", "unmarked")

DIMENSIONS = ("format", "factuality", "consistency", "realism", "quality")
"""What a judge gives 1 to 5 for."""

_ANSWER, _VERDICT = "predicted_observation", "final_evaluation"
_MARKER = "**Environment Observation:**"
_NOTHING = "No output"
_THINK = re.compile(r"</?think>", re.IGNORECASE)
_OUTSIDE = re.compile(r'["{}]')
_STRING = re.compile(r'(?:[^"\\]|\\.)*+"', re.DOTALL)
_OPENINGS = 20
"""Braces that nothing closes, after which no further one is tried: each costs a pass over the reply."""
_DEEPEST = 500
"""Braces within braces, beyond which nothing is an object."""

_HIGHEST = 5
_LOWEST = -1000
"""Whatever a judge writes: a score is kept as it came where it is too low, but it must remain a number to add up."""


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge said of an answer.

    Attributes:
        scores: By dimension, 1 to 5; 0 where the judge left it out or wrote no number.
        total: The mean of those above 0; 0 if there are none.
        problem: Why there are no scores; empty if there are.
    """

    scores: dict[str, int] = {}
    total: float = 0.0
    problem: str = ""


def extracted(said: str) -> str:
    """The observation in what a model said: without thoughts, the last block in tags, else all of it."""
    text = _without_thoughts(said, _ANSWER)
    block = _last_block(text, _ANSWER)
    return (text.strip() or _NOTHING) if block is None else block


def unmarked(text: str) -> str:
    """An observation without the marker before it; one that does not begin with the marker loses it wherever it is."""
    return (text[len(_MARKER) :] if text.startswith(_MARKER) else text.replace(_MARKER, "")).strip()


def graded(reply: str) -> Grade:
    """The scores in a judge's reply: in its last block in tags, else anywhere; slips in its JSON are mended."""
    text = _without_thoughts(reply.strip(), _VERDICT)
    if not text:
        return Grade(problem="the judge said nothing")
    text = _last_block(text, _VERDICT) or text
    found = _fenced(text) or _preferred(list(_objects(text))) or _last_object(text)
    if found is None:
        return Grade(problem="the judge's reply holds no JSON object")
    try:
        scores = _scores(_decoded(found))
    except (ValueError, OverflowError, RecursionError) as error:
        return Grade(problem=f"the judge's JSON cannot be read: {error}")
    if scores is None:
        return Grade(problem="the judge's JSON holds no scores")
    counted = [score for score in scores.values() if score > 0]
    return Grade(scores=scores, total=sum(counted) / len(counted) if counted else 0.0)


def _without_thoughts(text: str, tag: str) -> str:
    """What stands outside thoughts.

    An opening mark goes with the first closing one behind it that is still free. What a closing mark alone ends began
    with the text; what an opening mark alone begins ends at the tag, else with the text.
    """
    marks = list(_THINK.finditer(text))
    if not marks:
        return text
    ends = [mark.end() for mark in marks if mark[0][1] == "/"]
    gone: list[tuple[int, int]] = []
    for start in (mark.start() for mark in marks if mark[0][1] != "/"):
        while ends and ends[0] <= start:
            gone.append((0, ends.pop(0)))
        if ends:
            gone.append((start, ends.pop(0)))
        else:
            asked = re.compile(f"<{tag}>", re.IGNORECASE).search(text, start)
            gone.append((start, len(text) if asked is None else asked.start()))
    gone += [(0, end) for end in ends]
    kept, last = [], 0
    for start, end in sorted(gone):
        kept.append(text[last:start])  # empty where they overlap
        last = max(last, end)
    return "".join([*kept, text[last:]]).strip()


def _last_block(text: str, tag: str) -> str | None:
    """What the last opening tag begins, to its closing tag or to the end; None if there is no opening tag."""
    begun = list(re.finditer(f"<{tag}>", text, re.IGNORECASE))
    if not begun:
        return None
    rest = text[begun[-1].end() :]
    closed = re.search(f"</{tag}>", rest, re.IGNORECASE)
    return (rest if closed is None else rest[: closed.start()]).strip()


def _fenced(text: str) -> str | None:
    """The object in the last fenced block, rather one with scores."""
    pieces = text.split("```")
    closed = pieces[1::2] if len(pieces) % 2 else pieces[1:-1:2]
    blocks = (piece.removeprefix("json").strip() for piece in closed)
    return _preferred([block for block in blocks if block.startswith("{") and block.endswith("}")])


def _preferred(objects: list[str]) -> str | None:
    """The last one with scores, else the last."""
    return next((item for item in reversed(objects) if '"scores"' in item), objects[-1] if objects else None)


def _objects(text: str) -> Iterator[str]:
    """Whatever stands in braces that match, one behind the other."""
    start, failed = text.find("{"), 0
    while start >= 0 and failed < _OPENINGS:
        end = _closing(text, start)
        if end is None:
            failed += 1
            start = text.find("{", start + 1)
        else:
            yield text[start:end]
            start = text.find("{", end)


def _closing(text: str, start: int) -> int | None:
    """Where the object that begins at a brace ends; braces in strings do not count."""
    depth, place = 0, start
    while mark := _OUTSIDE.search(text, place):
        place = mark.end()
        if mark[0] == '"':
            rest = _STRING.match(text, place)
            if rest is None:
                return None
            place = rest.end()
        else:
            depth += 1 if mark[0] == "{" else -1
            if not depth:
                return place
            if depth > _DEEPEST:
                return None
    return None


def _last_object(text: str) -> str | None:
    """What stands before the last closing brace, back to the opening one that matches it."""
    end = text.rfind("}")
    depth, quoted = 0, False
    for place in range(end, -1, -1):
        character = text[place]
        if character == '"' and text[place - 1 : place] != "\\":
            quoted = not quoted
        if not quoted and character in "{}":
            depth += 1 if character == "}" else -1
            if not depth:
                return text[place : end + 1]
    return None


def _decoded(found: str) -> dict[str, Any]:
    """The object, slips mended: a comma before a closing bracket, single quotes or none around a key."""
    mended = re.sub(r",(?=\s*[}\]])", "", found)
    mended = re.sub(r"'(\w+)'(?=\s*:)", r'"\1"', mended)
    mended = re.sub(r"([{,])\s*(\w+)\s*:", r'\1"\2":', mended)
    try:
        value = json.loads(mended)
    except json.JSONDecodeError:
        scores = re.search(r'"scores"\s*:\s*(\{[^}]+\})', mended)
        if scores is None:
            raise
        value = {"scores": json.loads(scores[1])}
    return value if isinstance(value, dict) else {}


def _scores(value: dict[str, Any]) -> dict[str, int] | None:
    given = value.get("scores")
    if not isinstance(given, dict):
        return None
    found = {name: _number(given.get(name)) for name in DIMENSIONS}
    return {name: max(_LOWEST, min(_HIGHEST, score)) for name, score in found.items()}


def _number(value: Any) -> int:
    """A score as a number or a text such as `4/5`; 0 for all else."""
    if isinstance(value, str):
        try:
            return int(value.split("/")[0])
        except ValueError:
            return 0
    return round(value) if isinstance(value, int | float) else 0
