"""Carries out one constraint on an observation: the vocabulary of contracts.

Patterns are RE2's (`re2`), which take time linear in the text whatever pattern and text are, so that neither a hostile
observation nor a pattern out of an agent's command can blow up.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import re2

from verifierd.contracts.shapes import judge
from verifierd.contracts.summaries import disagreement
from verifierd.contracts.tails import LONGEST
from verifierd.types import Check, Constraint

__all__ = ("Outcome", "check", "escaped", "pattern")

_PLAIN_PREFIX = re.compile(r"\^(?:\\s\*)?\(\?P<line>\\d\+\)(?:\(\?:[^()*+?{]*\)|\[[^]]*\]|\\t)(?:\(\?P<text>\.\*\)\$)?")

_MOST_LINES = 5_000
_MOST_SPANS = 20
_KILLED = frozenset({124, 129, 130, 137, 143})
"""Statuses of what somebody else ended: a limit of time, a signal."""
_NOT_RUN = frozenset({126, 127})
"""Statuses of a program that could not be run."""
_NUMBER = re.compile(r"\s*(-?\d{1,18})\s*")

Span = tuple[int, int]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a constraint found.

    Attributes:
        applied: False if it was out of force: not its status, its markers not found, diagnostics in its scope.
        violated: It was in force and does not hold.
        spans: The characters that it pins, where it holds; those that violate it, where not (empty if it is
            something missing).
        found: What was found instead, in words.
    """

    applied: bool = True
    violated: bool = False
    spans: tuple[Span, ...] = ()
    found: str = ""


class Line(msgspec.Struct, frozen=True):
    """A line of a scope: where it starts, and what it says without its end."""

    start: int
    text: str

    @property
    def span(self) -> Span:
        """Its characters."""
        return self.start, self.start + len(self.text)


class Scope(msgspec.Struct, frozen=True):
    """What a constraint is about.

    Attributes:
        start: Its first character in the observation.
        text: The whole, from there.
        lines: Its lines, without blank ones at its edges.
        status: The exit status, None if it is not known.
        failed: Whether the step failed, None if not known.
    """

    start: int
    text: str
    lines: Sequence[Line]
    status: int | None
    failed: bool | None


_OUT = Outcome(applied=False)
_HELD = Outcome()


@lru_cache(maxsize=4096)
def pattern(text: str) -> Any:
    """A compiled pattern; None if RE2 does not know its syntax."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(text, options)
    except re2.error:
        return None


def escaped(text: str) -> str:
    """A text as a pattern of itself."""
    return "".join(
        letter if letter.isalnum() or letter in "_ " or ord(letter) > 127 else f"\\x{{{ord(letter):x}}}"
        for letter in text
    )


def check(constraint: Constraint, observation: str, *, status: int | None, succeeded: bool | None) -> Outcome:
    """Does the observation obey?

    Args:
        constraint: What must hold.
        observation: The text, without what the harness added.
        status: The exit status, None if it is not known.
        succeeded: Whether the step went well, None if that is not known.
    """
    if constraint.given != "any" and succeeded is not (constraint.given == "success"):
        return _OUT
    if constraint.check is Check.STATUS:
        return _status(constraint, observation, status)
    scope = _scope(constraint, observation, status=status, succeeded=succeeded)
    if scope is None:
        return _OUT
    outcome = _CHECKS[constraint.check](constraint, scope)
    if outcome.violated and constraint.tolerates:
        tolerated = pattern(constraint.tolerates)
        if tolerated is not None and any(tolerated.search(line.text) for line in scope.lines):
            return _OUT  # a line that another program may have written
    return outcome


def _scope(constraint: Constraint, observation: str, *, status: int | None, succeeded: bool | None) -> Scope | None:
    """The text between the markers; None if one of them does not stand there exactly once, or it is too long."""
    if len(observation) > LONGEST:
        return None
    start, end = 0, len(observation)
    if constraint.after is not None:
        found = _once(constraint.after, observation, 0)
        if found is None:
            return None
        start = min(found[1] + 1, len(observation))
    if constraint.before is not None:
        found = _once(constraint.before, observation, start)
        if found is None:
            return None
        end = found[0]
    text = observation[start:end]
    if text.count("\n") > _MOST_LINES and text.strip().count("\n") >= _MOST_LINES:
        return None
    return Scope(start, text, _lines(text, start), status, None if succeeded is None else not succeeded)


def _once(marker: str, observation: str, start: int) -> Span | None:
    """Where a line reads so, if exactly one does."""
    places: list[Span] = []
    at = observation.find(marker, start)
    while at >= 0 and len(places) < 2:
        end = at + len(marker)
        if at == 0 or observation[at - 1] == "\n":
            line_end = observation.find("\n", end)
            line_end = len(observation) if line_end < 0 else line_end
            if not observation[end:line_end].strip():
                places.append((at, line_end))
        at = observation.find(marker, end or end + 1)
    return places[0] if len(places) == 1 else None


@lru_cache(maxsize=4)  # many constraints are about the same text
def _lines(text: str, start: int) -> tuple[Line, ...]:
    """The lines, without blank ones before the first and after the last that are not."""
    kept = text.rstrip()
    skipped = len(kept) - len(kept.lstrip())
    at = kept.rfind("\n", 0, skipped) + 1
    if not kept:
        return ()
    lines: list[Line] = []
    end = text.find("\n", len(kept))  # a blank at a line's end may be all that it says, as after a line's number
    for line in text[at : end if end >= 0 else len(text)].split("\n"):
        lines.append(Line(start + at, line.removesuffix("\r")))
        at += len(line) + 1
    return tuple(lines)


def _bad(spans: Sequence[Span], found: str) -> Outcome:
    return Outcome(violated=True, spans=tuple(spans[:_MOST_SPANS]), found=found)


def _quoted(text: str) -> str:
    text = text.strip()
    return f"“{text[:80]}…”" if len(text) > 80 else f"“{text}”"


def _whole(scope: Scope) -> Span:
    if not scope.lines:
        return scope.start, scope.start
    return scope.lines[0].start, scope.lines[-1].start + len(scope.lines[-1].text.rstrip())


def _bare(scope: Scope) -> str:
    start, end = _whole(scope)
    return scope.text[start - scope.start : end - scope.start].replace("\r\n", "\n")


def _equals(constraint: Constraint, scope: Scope) -> Outcome:
    bare = _bare(scope)
    if any(bare == text.strip("\n").rstrip() for text in constraint.texts or (constraint.text,)):
        return Outcome(spans=(_whole(scope),))
    return _bad([_whole(scope)], f"observed {_quoted(bare)}" if bare else "nothing was printed")


def _empty(constraint: Constraint, scope: Scope) -> Outcome:
    if constraint.given == "failure" and scope.status in _KILLED | _NOT_RUN:
        return _OUT
    if not scope.lines:
        return Outcome(spans=((scope.start, scope.start),))
    return _bad([_whole(scope)], f"observed {_quoted(scope.lines[0].text)}")


def _contains(constraint: Constraint, scope: Scope) -> Outcome:
    text = constraint.text.strip("\n") if constraint.whole else constraint.text
    at = scope.text.find(text)
    while at >= 0:
        end = at + len(text)
        # What was printed before may have left its last line open.
        if not constraint.whole or scope.text[end : end + 1] in {"", "\n", "\r", " ", "\t"}:
            return Outcome(spans=((scope.start + at, scope.start + end),))
        at = scope.text.find(text, at + 1)
    if "\r" in scope.text and "\n" in text:
        return _OUT  # the ends of its lines may read otherwise
    return _bad([], f"{_quoted(text)} is missing")


def _starts(constraint: Constraint, scope: Scope) -> Outcome:
    start, end = _whole(scope)
    bare = scope.text[start - scope.start : end - scope.start]
    for text in constraint.texts or (constraint.text,):
        if bare.startswith(text):
            return Outcome(spans=((start, start + len(text)),))
    return _bad([(start, min(end, start + 80))], f"it begins with {_quoted(bare[:80])}")


def _ends(constraint: Constraint, scope: Scope) -> Outcome:
    start, end = _whole(scope)
    bare = scope.text[start - scope.start : end - scope.start]
    for text in constraint.texts or (constraint.text,):
        if bare.endswith(text.rstrip("\n")):
            return Outcome(spans=((end - len(text.rstrip("\n")), end),))
    return _bad([(max(start, end - 80), end)], f"it ends with {_quoted(bare[-80:])}")


def _matched(constraint: Constraint, scope: Scope) -> list[tuple[Line, Any]] | None:
    compiled = pattern(constraint.text)
    if compiled is None:
        return None
    return [(line, compiled.search(line.text)) for line in scope.lines if line.text.strip()]


def _absent(constraint: Constraint, scope: Scope) -> Outcome:
    matched = _matched(constraint, scope)
    if matched is None:
        return _OUT
    wrong = [line for line, match in matched if match]
    return _bad([line.span for line in wrong], f"observed {_quoted(wrong[0].text)}") if wrong else _HELD


def _every_line(constraint: Constraint, scope: Scope) -> Outcome:
    matched = _matched(constraint, scope)
    if matched is None:
        return _OUT
    wrong = [line for line, match in matched if not match]
    if wrong:
        return _bad([line.span for line in wrong], f"observed {_quoted(wrong[0].text)}")
    return Outcome(spans=tuple(line.span for line, _ in matched))


def _some_line(constraint: Constraint, scope: Scope) -> Outcome:
    matched = _matched(constraint, scope)
    if matched is None:
        return _OUT
    for line, match in matched:
        if match:
            return Outcome(spans=(line.span,))
    return _bad([], "there is no such line")


def _first_line(constraint: Constraint, scope: Scope) -> Outcome:
    matched = _matched(constraint, scope)
    if matched is None:
        return _OUT
    if matched and matched[0][1]:
        return Outcome(spans=(matched[0][0].span,))
    return _bad(
        [line.span for line, _ in matched[:1]],
        f"observed {_quoted(matched[0][0].text)}" if matched else "nothing was printed",
    )


def _count(constraint: Constraint, scope: Scope) -> Outcome:
    count = len(scope.lines)
    if constraint.low is not None and count < constraint.low:
        return _bad([], f"{count} lines")
    if constraint.high is not None and count > constraint.high:
        return _bad([line.span for line in scope.lines[constraint.high :]], f"{count} lines")
    return _HELD


def _number(constraint: Constraint, scope: Scope) -> Outcome:
    match = _NUMBER.fullmatch(_bare(scope))
    if match and _within(constraint, int(match[1])):
        return Outcome(spans=(_whole(scope),))
    return _bad([_whole(scope)], f"observed {_quoted(_bare(scope))}")


def _within(constraint: Constraint, number: int) -> bool:
    return (constraint.low is None or number >= constraint.low) and (
        constraint.high is None or number <= constraint.high
    )


def _numbered_lines(constraint: Constraint, scope: Scope) -> Iterable[tuple[Line, int | None, int, str]]:
    """Each line with its number, where its text starts, and its text."""
    if constraint.text and pattern(constraint.text) is not None:
        return _numbers(constraint.text, scope.text, scope.start)
    return ((line, number, line.start, line.text) for number, line in enumerate(scope.lines, constraint.low or 1))


@lru_cache(maxsize=64)
def _number_prefix(text: str) -> Any:
    """The pattern of a line that begins with its number.

    RE2's wrapper takes 6 microseconds a line, most of what a long file costs, where `re` takes one. So a pattern of a
    form in which `re` has nothing to try twice is left to it: blanks, digits, and one of some fixed texts.
    """
    if _PLAIN_PREFIX.fullmatch(text):
        return re.compile(text, re.ASCII)
    return pattern(text)


@lru_cache(maxsize=4)  # several rules read the same numbers
def _numbers(text: str, scope: str, start: int) -> Sequence[tuple[Line, int | None, int, str]]:
    numbers = _number_prefix(text)
    groups = numbers.groupindex
    result: list[tuple[Line, int | None, int, str]] = []
    for line in _lines(scope, start):
        match = numbers.search(line.text)
        if match is None:
            result.append((line, None, line.start, line.text))
        else:
            first, last = match.span(groups["line"])
            at = match.start(groups["text"]) if "text" in groups else last
            digits = line.text[first:last]
            result.append((line, int(digits) if len(digits) < 10 else None, line.start + at, line.text[at:]))
    return result


def _numbered(constraint: Constraint, scope: Scope) -> Outcome:
    expected = constraint.low
    spans: list[Span] = []
    for line, number, _, _ in _numbered_lines(constraint, scope):
        if number is None or (expected is not None and number != expected):
            return _bad([line.span], f"observed {_quoted(line.text)}, expected line {expected}")
        spans.append(line.span)
        expected = number + 1
    return Outcome(applied=bool(spans), spans=tuple(spans))  # an empty file, or none of its lines, has no numbers


def _known_lines(constraint: Constraint, scope: Scope) -> Outcome:
    wrong: list[Span] = []
    first = ""
    spans: list[Span] = []
    for line, number, start, text in _numbered_lines(constraint, scope):
        known = constraint.known.get(number) if number is not None else None
        if known is None:
            continue
        if text.rstrip() == known.rstrip():
            spans.append(line.span)
        else:
            first = first or f"line {number} reads {_quoted(text)}, not {_quoted(known)}"
            wrong.append((start, start + len(text)))
    if wrong:
        return _bad(wrong, first)
    return Outcome(applied=bool(spans), spans=tuple(spans))


def _sorted(constraint: Constraint, scope: Scope) -> Outcome:
    lines = list(scope.lines)
    for before, line in itertools.pairwise(lines):
        ordered = before.text >= line.text if constraint.text == "reverse" else before.text <= line.text
        if not ordered:
            return _bad([line.span], f"{_quoted(line.text)} follows {_quoted(before.text)}")
    return _HELD


def _unique(constraint: Constraint, scope: Scope) -> Outcome:
    seen: set[str] = set()
    for line in scope.lines:
        if line.text in seen:
            return _bad([line.span], f"{_quoted(line.text)} stands there twice")
        if constraint.text == "adjacent":
            seen.clear()
        seen.add(line.text)
    return _HELD


def _named(constraint: Constraint, scope: Scope) -> dict[str, Span]:
    compiled = pattern(constraint.text) if constraint.text else None
    names: dict[str, Span] = {}
    for line in scope.lines:
        if compiled is None:
            names.setdefault(line.text.strip(), line.span)
            continue
        group = compiled.groupindex["name"]
        for match in compiled.finditer(line.text):
            names.setdefault(match.group(group), (line.start + match.start(group), line.start + match.end(group)))
    return names


def _names(constraint: Constraint, scope: Scope) -> Outcome:
    # Some disks take `docs` for the `Docs` that is there.
    names = {name.casefold(): span for name, span in _named(constraint, scope).items()}
    missing = [name for name in constraint.texts if name.casefold() not in names]
    if missing:
        return _bad([], f"{_quoted(missing[0])} is missing")
    return Outcome(spans=tuple(names[name.casefold()] for name in constraint.texts))


def _not_names(constraint: Constraint, scope: Scope) -> Outcome:
    names = _named(constraint, scope)
    wrong = [name for name in constraint.texts if name in names]
    return _bad([names[name] for name in wrong], f"observed {_quoted(wrong[0])}") if wrong else _HELD


def _schema(constraint: Constraint, scope: Scope) -> Outcome:
    return _placed(scope, judge(constraint.text, _bare(scope)))


def _agrees(constraint: Constraint, scope: Scope) -> Outcome:
    failed: bool | None = None  # the exit status may be another program's
    if constraint.high == 0 and scope.failed is False:
        failed = False
    elif constraint.low == 1 and scope.status in {1, 2}:  # others tell of crashes and signals
        failed = True
    return _placed(scope, disagreement(constraint.text, _bare(scope), failed=failed, whole=constraint.whole))


def _placed(scope: Scope, found: tuple[bool, str, Sequence[Span]]) -> Outcome:
    """What was found in the bare text, at its place in the observation."""
    applied, problem, spans = found
    offset = _whole(scope)[0]
    placed = tuple((start + offset, end + offset) for start, end in spans)
    if problem:
        return _bad(placed, problem)
    return Outcome(applied=applied, spans=placed)


def _status(constraint: Constraint, observation: str, status: int | None) -> Outcome:
    if status is None or status in _KILLED:
        return _OUT
    if _within(constraint, status):
        return _HELD
    if constraint.tolerates:
        tolerated = pattern(f"(?m:{constraint.tolerates})")
        if tolerated is not None and tolerated.search(observation.replace("\r\n", "\n")):
            return _OUT
    return _bad([], f"observed exit status {status}")


_CHECKS: dict[Check, Callable[[Constraint, Scope], Outcome]] = {
    Check.EQUALS: _equals,
    Check.EMPTY: _empty,
    Check.CONTAINS: _contains,
    Check.STARTS: _starts,
    Check.ENDS: _ends,
    Check.ABSENT: _absent,
    Check.EVERY_LINE: _every_line,
    Check.SOME_LINE: _some_line,
    Check.FIRST_LINE: _first_line,
    Check.LINES: _count,
    Check.NUMBER: _number,
    Check.NUMBERED: _numbered,
    Check.KNOWN_LINES: _known_lines,
    Check.SORTED: _sorted,
    Check.UNIQUE: _unique,
    Check.NAMES: _names,
    Check.NOT_NAMES: _not_names,
    Check.SCHEMA: _schema,
    Check.AGREES: _agrees,
}
