"""From what holds for each part of a command line to what holds for the whole observation.

The outputs of the parts follow each other. Literal lines (`echo "--- log ---"`) divide them, so that what is known of
one part can be checked between its neighbours' marks; parts that print nothing do not stand in the way.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from verifierd.contracts.calls import Call, Part
from verifierd.contracts.document import Program
from verifierd.types import Check, Constraint

__all__ = ("compose",)

_SOMEWHERE = frozenset({Check.CONTAINS, Check.SOME_LINE, Check.AGREES, Check.NAMES})
"""Hold for an observation as soon as they hold for a part of it."""
_KEPT = {
    "same": frozenset(Check) - {Check.STATUS},
    "subset": frozenset(
        {Check.EVERY_LINE, Check.ABSENT, Check.NOT_NAMES, Check.LINES, Check.SORTED, Check.UNIQUE, Check.EMPTY}
    ),
    "each": frozenset({Check.LINES, Check.EMPTY}),
    "reorder": frozenset({Check.EVERY_LINE, Check.ABSENT, Check.NOT_NAMES, Check.LINES, Check.EMPTY}),
}
"""What still holds after a filter."""
_KEPT["last"] = _KEPT["subset"] | {Check.AGREES, Check.SOME_LINE}
_PLAIN = frozenset({".", "source", "echo", "printf", "pwd", "date"})
"""Programs that print no summary of their own or of others."""
_TERSE = frozenset(
    f"git {name}"
    for name in (
        "blame", "branch", "cat-file", "config", "describe", "diff", "diff-tree", "for-each-ref", "grep", "log",
        "ls-files", "ls-tree", "merge-base", "reflog", "remote", "rev-list", "rev-parse", "shortlog", "show", "stash",
        "status", "tag",
    )
) | {"egrep", "fgrep", "git", "gofmt", "gh", "grep", "rg"}  # fmt: skip
"""Programs that write nothing but what looks like a diagnostic to standard error, though they may when they succeed."""
_REFUSED = r"^(?:\(eval\)|(?:[\w.:/ -]*/)?-?(?:ba|z|da|k)?sh(?:\.exe)?)(?::|\[)"
"""A shell's own diagnostics: it may refuse a whole line, or leave off in the middle of it."""
_MARKER = re.compile(r"[^\n]{2,200}")


class _Segment(NamedTuple):
    """Parts between two marks, or one that is such a mark."""

    after: str | None
    before: str | None
    parts: list[int]
    mark: bool = False


def compose(
    parts: Sequence[Part],
    found: Sequence[Sequence[Sequence[Constraint]]],
    programs: Mapping[str, Program],
) -> list[Constraint]:
    """What the observation of a whole command line must obey.

    Args:
        parts: Its pipelines.
        found: For each part, for each of its stages, what that stage's own output must obey.
        programs: How programs are read, by name.

    Returns:
        The constraints, with scope, condition and tolerance set.
    """
    alone = len(parts) == 1
    found = [
        [_own(call, constraints) for call, constraints in zip(part.stages, stages, strict=True)]
        for part, stages in zip(parts, found, strict=True)
    ]
    own = [_piped(part, stages, programs, alone=alone) for part, stages in zip(parts, found, strict=True)]
    for index, part in enumerate(parts[1:]):
        if part.link == "||":  # what is before it is expected to fail
            own[index] = [constraint for constraint in own[index] if constraint.given != "success"]
    result = [*_status(parts, found)]
    segments = _segments(parts, own)
    for segment in segments:
        result += _segment(segment, parts, own, programs)
    return result


def _own(call: Call | None, constraints: Sequence[Constraint]) -> Sequence[Constraint]:
    """What a program's output obeys; one that runs it may add lines and has a status of its own."""
    if call is None or not call.wrapped:
        return constraints
    return [constraint for constraint in constraints if constraint.check in _SOMEWHERE]


def _piped(
    part: Part, stages: Sequence[Sequence[Constraint]], programs: Mapping[str, Program], *, alone: bool
) -> list[Constraint]:
    """What a pipeline's output obeys: that of its last stage, and of those before it as far as filters keep it."""
    if not part.shown:
        return []
    kept: list[Constraint] = []
    for number, stage in enumerate(stages):
        call = part.stages[number]
        program = programs.get(call.name) if call is not None else None
        through = None
        if program is not None and call is not None and call.piped and not call.given(*program.unless):
            through = program.filter if len(call.operands) <= program.words else None
        if number and _loud(part, number - 1, programs):
            kept = _interspersed(kept)
        kept = _filtered(kept, through, call) if through is not None and call is not None else []
        last = number == len(stages) - 1
        for constraint in stage:
            if constraint.check is Check.STATUS:
                continue
            succeeds = last and part.succeeds
            if not _told(constraint, alone=alone and last and not part.negated, succeeds=succeeds):
                continue
            if _sums(call, programs) and not _explained(constraint, call, succeeds=succeeds):
                continue
            kept.append(_conditioned(constraint, last=last, succeeds=succeeds))
    if any(_loud(part, number, programs) for number in range(len(stages) - 1)):
        return _interspersed(kept)
    return kept


def _filtered(kept: Sequence[Constraint], through: str, call: Call) -> list[Constraint]:
    """What of some lines still holds for those of them that a filter passes on."""
    result: list[Constraint] = []
    for constraint in kept:
        if constraint.check not in _KEPT[through]:
            continue
        if constraint.check is Check.LINES and through != "same":
            result.append(msgspec.structs.replace(constraint, low=None))
        elif constraint.check is Check.AGREES and through != "same":
            result.append(msgspec.structs.replace(constraint, whole=False))
        elif constraint.check is not Check.SOME_LINE or through == "same" or _reaches(call, constraint.high):
            result.append(constraint)
    return result


def _reaches(call: Call, lines: int | None) -> bool:
    """Does `tail` pass on as many of the last lines?"""
    count = call.value("-n", "--lines") or next(iter(call.numbers), "10")
    return lines is not None and count.isdecimal() and len(count) < 10 and int(count) >= lines


def _interspersed(constraints: Iterable[Constraint]) -> list[Constraint]:
    """What holds although lines of others stand between a program's own."""
    return [
        msgspec.structs.replace(constraint, whole=False) if constraint.check is Check.AGREES else constraint
        for constraint in constraints
        if constraint.check in _SOMEWHERE
    ]


def _told(constraint: Constraint, *, alone: bool, succeeds: bool) -> bool:
    """Is it this stage whose failure or success the step's status tells, where a constraint asks for that?"""
    if constraint.given == "failure":
        return alone
    if constraint.check is Check.SOME_LINE and constraint.high is not None:
        return True
    return succeeds or constraint.given == "any" or constraint.check not in {Check.FIRST_LINE, Check.SOME_LINE}


def _explained(constraint: Constraint, call: Call | None, *, succeeds: bool) -> bool:
    """Does a constraint hold for a program that prints anything if it fails, unless it surely did not?"""
    if constraint.check is Check.SOME_LINE and constraint.high is not None:
        return succeeds or call is None or "timeout" not in call.wrapped  # ended before it came to its last lines
    return succeeds or constraint.given != "success" or constraint.check in _SOMEWHERE


def _conditioned(constraint: Constraint, *, last: bool, succeeds: bool) -> Constraint:
    """A stage's constraint with the condition that the whole step's status can tell."""
    if constraint.check is Check.AGREES:
        return msgspec.structs.replace(constraint, whole=True, high=0 if succeeds else None, given="any")
    if constraint.check is Check.SOME_LINE and constraint.high is not None:
        return constraint  # a step that failed may have been ended
    low = constraint.low
    if constraint.check is Check.LINES and constraint.given == "success" and not succeeds:
        low = None  # a program that fails may print nothing
    # A pipe hides the status of all but its last stage; what it was is for the tolerance to see.
    return msgspec.structs.replace(constraint, low=low, given=constraint.given if last else "any")


def _loud(part: Part, number: int, programs: Mapping[str, Program]) -> bool:
    """Is what a stage that feeds another writes to standard error shown, and can that be anything?"""
    call = part.stages[number]
    if part.errors[number] != "shown":
        return False
    if call is None:
        return True
    program = programs.get(call.name)
    return call.name not in _TERSE and not (program is not None and program.quiet)


def _segments(parts: Sequence[Part], own: Sequence[Sequence[Constraint]]) -> list[_Segment]:
    """The parts between the literal lines that surely stand there, each of them once."""
    marks = [_mark(part, constraints) for part, constraints in zip(parts, own, strict=True)]
    names = [mark for mark in marks if mark is not None]
    segments: list[_Segment] = []
    inside: list[int] = []
    after: str | None = None
    for index, mark in enumerate(marks):
        if mark is None or names.count(mark) > 1:
            inside.append(index)
            continue
        segments += [_Segment(after, mark, inside), _Segment(None, None, [index], mark=len(marks) > 1)]
        inside, after = [], mark
    segments.append(_Segment(after, None, inside))
    return segments


def _mark(part: Part, constraints: Sequence[Constraint]) -> str | None:
    if part.runs == "maybe" or len(constraints) != 1 or constraints[0].check is not Check.EQUALS:
        return None
    text = constraints[0].text.strip("\n")
    return text if _MARKER.fullmatch(text) and text == text.strip() else None


def _segment(
    segment: _Segment, parts: Sequence[Part], own: Sequence[Sequence[Constraint]], programs: Mapping[str, Program]
) -> list[Constraint]:
    speaking = [index for index in segment.parts if not _silent(parts[index], own[index], programs)]
    sure = [index for index in segment.parts if parts[index].runs != "maybe"]
    marks = segment.mark or len(speaking) > 1
    last = segment.after is not None and segment.before is None
    shouted = last and _shouts(segment, parts, programs)
    others = [index for index in speaking if parts[index].stages[-1] is None or not _plain(parts[index])]
    result = [
        _scoped(constraint, segment, parts, [index], programs)
        for index in sure
        for constraint in _standing(
            _summed(
                own[index],
                [parts[other] for other in others if other != index],
                programs,
                shouted=shouted,
                final=index == len(parts) - 1,
            ),
            among_others=marks,
        )
    ]
    if segment.mark or shouted:
        return result
    whole: list[Constraint] = []
    if not speaking:
        empty = [c for index in segment.parts for c in own[index] if c.check is Check.EMPTY]
        if all(own[index] for index in segment.parts if _prints(parts[index])):
            whole = empty[-1:]
    elif len(speaking) > 1:
        whole = _together([own[index] for index in speaking])
    elif speaking[0] in sure:
        whole = [constraint for constraint in own[speaking[0]] if constraint.check not in _SOMEWHERE]
    return result + [_scoped(constraint, segment, parts, segment.parts, programs) for constraint in whole]


def _plain(part: Part) -> bool:
    return all(call is not None and call.name in _PLAIN for call in part.stages)


def _sums(call: Call | None, programs: Mapping[str, Program]) -> bool:
    """Does a program end with a summary, and say anything if it fails?"""
    program = programs.get(call.name) or programs.get(call.name.split()[0]) if call is not None else None
    return program is not None and program.summary


def _summed(
    constraints: Sequence[Constraint],
    others: Sequence[Part],
    programs: Mapping[str, Program],
    *,
    shouted: bool,
    final: bool,
) -> Iterator[Constraint]:
    """Summaries among what others print: those may be summaries, too, of what failed.

    `high` is 0 where a step that went well tells that the program did, `low` is 1 where one that failed tells that the
    program did if it ran at all.
    """
    succeeded = all(other.succeeds and len(other.stages) == 1 and _sums(other.stages[0], programs) for other in others)
    for constraint in constraints:
        if constraint.check is Check.AGREES:
            whole = constraint.whole and not others and not shouted
            high = constraint.high if succeeded else None
            low = 1 if final and high == 0 and not others else None
            yield msgspec.structs.replace(constraint, whole=whole, high=high, low=low)
        else:
            yield constraint


def _standing(constraints: Iterable[Constraint], *, among_others: bool) -> Iterator[Constraint]:
    """What must stand somewhere, wherever that is; a whole output is among those of others a part of them."""
    for constraint in constraints:
        if constraint.check is Check.SOME_LINE:
            yield msgspec.structs.replace(constraint, high=None)
        elif constraint.check in _SOMEWHERE:
            yield constraint
        elif constraint.check is Check.EQUALS and among_others and not constraint.texts:
            yield msgspec.structs.replace(constraint, check=Check.CONTAINS, whole=True)


def _shouts(segment: _Segment, parts: Sequence[Part], programs: Mapping[str, Program]) -> bool:
    """May a part outside a segment write anything to standard error, which some harnesses put at the very end?"""
    others = [part for index, part in enumerate(parts) if index not in segment.parts]
    return any(_loud(part, number, programs) for part in others for number in range(len(part.stages)))


def _prints(part: Part) -> bool:
    return part.shown or "shown" in part.errors


def _silent(part: Part, constraints: Sequence[Constraint], programs: Mapping[str, Program]) -> bool:
    """Does a part print nothing, diagnostics aside?"""
    if not part.shown and not any(_loud(part, number, programs) for number in range(len(part.stages))):
        return True
    return any(constraint.check is Check.EMPTY and constraint.given != "failure" for constraint in constraints)


def _together(own: Sequence[Sequence[Constraint]]) -> list[Constraint]:
    """What holds for outputs that follow each other without a mark: shapes of lines, and how many there are."""
    result: list[Constraint] = []
    shapes = [_line_shape(constraints) for constraints in own]
    if all(shape is not None for shape in shapes):
        known = [shape for shape in shapes if shape is not None]
        result.append(
            Constraint(
                rule="+".join(dict.fromkeys(shape.rule for shape in known)),
                check=Check.EVERY_LINE,
                text="|".join(f"(?:{shape.text})" for shape in known),
                detail="; or ".join(dict.fromkeys(shape.detail for shape in known)),
                given=_stricter(known),
                deciding=all(shape.deciding for shape in known),
                # What violates all of them, at the least.
                power=max(0.0, sum(shape.power for shape in known) - len(known) + 1),
            )
        )
    counts = [next((c for c in constraints if c.check is Check.LINES), None) for constraints in own]
    if all(count is not None and count.high is not None for count in counts):
        known = [count for count in counts if count is not None]
        result.append(
            Constraint(
                rule="+".join(dict.fromkeys(count.rule for count in known)),
                check=Check.LINES,
                high=sum(count.high or 0 for count in known),
                detail="; and ".join(dict.fromkeys(count.detail for count in known)),
                given=_stricter(known),
                deciding=all(count.deciding for count in known),
            )
        )
    return result


def _line_shape(constraints: Sequence[Constraint]) -> Constraint | None:
    shape = next((c for c in constraints if c.check is Check.EVERY_LINE), None)
    if shape is not None:
        return shape
    literal = next((c for c in constraints if c.check is Check.EQUALS and not c.texts), None)
    if literal is None:
        return None
    lines = [line for line in literal.text.split("\n") if line.strip()]
    return msgspec.structs.replace(
        literal, check=Check.EVERY_LINE, text="|".join(f"^{re.escape(line.rstrip())}\\s*$" for line in lines)
    )


def _stricter(constraints: Sequence[Constraint]) -> Literal["any", "success"]:
    return "success" if any(constraint.given == "success" for constraint in constraints) else "any"


def _scoped(
    constraint: Constraint,
    segment: _Segment,
    parts: Sequence[Part],
    indices: Sequence[int],
    programs: Mapping[str, Program],
) -> Constraint:
    """A constraint of a part as one of the observation: its place, its condition, what it passes over."""
    if constraint.check is Check.AGREES:  # the summary is the program's own, whatever else was said
        return msgspec.structs.replace(constraint, after=segment.after, before=segment.before)
    given = constraint.given
    if given == "any" and any(parts[index].runs == "success" for index in indices):
        given = "success"
    return msgspec.structs.replace(
        constraint,
        after=segment.after,
        before=segment.before,
        given=given,
        tolerates=_tolerated(parts, indices, programs, succeeded=given == "success"),
    )


def _tolerated(
    parts: Sequence[Part], indices: Sequence[int], programs: Mapping[str, Program], *, succeeded: bool
) -> str:
    """The pattern of diagnostics that may stand between.

    Where the step must have gone well, a quiet program that surely succeeded wrote none.
    """
    names: list[str] = []
    for index in indices:
        part = parts[index]
        for number, call in enumerate(part.stages):
            if part.errors[number] == "dropped" and call is not None:
                continue
            program = programs.get(call.name) if call is not None else None
            last = number == len(part.stages) - 1
            if call is None or program is None or not program.quiet or not (succeeded and part.succeeds and last):
                names.append(re.escape(call.name.split()[0]) if call is not None else r"[\w.-]+")
    if not names:
        return _REFUSED
    return (
        rf"{_speaking(names)}|{_REFUSED}"
        r"|(?i:^(?:fatal|error|err|warning|warn|hint|usage|note|traceback|panic|exception|failed|npm err!?|npm warn)\b)"
        r"|\(os error \d+\)$"  # Rust's, as of older `rg`, which does not name itself
    )


def _speaking(programs: Iterable[str]) -> str:
    """The pattern of diagnostics in which one of these programs, given as patterns, names itself."""
    return rf"^(?:.*/)?(?:{'|'.join(sorted(set(programs)))})(?:\.exe)?:(?:\d+:)? "


def _status(parts: Sequence[Part], found: Sequence[Sequence[Sequence[Constraint]]]) -> list[Constraint]:
    """The exit status, where it follows from the parts whatever the others do."""
    certain: Constraint | None = None
    for part, stages in zip(parts, found, strict=True):
        if part.runs != "always" and part.link == ";":
            return []
        own = next((c for c in stages[-1] if c.check is Check.STATUS), None) if not part.negated else None
        zero = certain is not None and certain.low == certain.high == 0
        if part.link == ";":
            certain = own
        elif part.link == "&&":
            certain = own if zero else None
        elif not zero:
            certain = own if own is not None and own.low == own.high == 0 else None
    if certain is None:
        return []
    last = parts[-1].stages[-1]
    own_words = f"|{_speaking([re.escape(last.name.split()[0])])}" if last is not None else ""
    return [msgspec.structs.replace(certain, tolerates=_REFUSED + own_words)]
