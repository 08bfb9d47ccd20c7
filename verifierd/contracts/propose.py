"""Proposes rules from clean sessions: what each program's and tool's outputs had in common. People review them."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from verifierd.contracts.calls import Call, parts, tool_call
from verifierd.contracts.checks import check, escaped
from verifierd.contracts.document import LEAST_POWER, Program
from verifierd.contracts.measure import Measured, Observations, judged, session_of, upper_bound
from verifierd.contracts.shapes import Shape, encode, learn, merge
from verifierd.contracts.tails import visible
from verifierd.sanitize import Sanitizer
from verifierd.types import Check, Constraint, Step

__all__ = ("Proposal", "propose")

_LEAST_STEPS = 5
_LEAST_SESSIONS = 3
_LEAST_POWER_OF_BOUNDS = 0.1
"""A bound covers nothing, but what is much longer contradicts it."""
_MOST_BROKEN = 0.02
_DRAWS = 5
_COMMON = 0.98
"""Share of outputs that hold a line before it is tried as a constant one."""
_MOST_LINES = 200
_LONGEST = 200
_LONGEST_EXAMPLE = 400
_LIMITS = ("-n", "-m", "-L", "-l", "-c", "--lines", "--limit", "--max-count", "--max", "--count", "--head", "--tail")
_LIMIT_FIELDS = re.compile(r"(?i)(?:^|_|\b)(?:head_)?(?:limit|max|top|count|num)(?:$|_)|(?:limit|results|count)$")
_FIELD = re.compile(r"[A-Za-z_]\w{0,39}")
_SHAPES: Mapping[str, str] = {
    "numbers": r"^\s*-?\d+(?:\.\d+)?\s*$",
    "lines that begin with a hash": r"^[*+ ]*[0-9a-f]{7,40}\b",
    "places (`path:line:`)": r"^(?:[A-Za-z]:)?[^\s:]+:\d+:",
    "lines that begin with their number": r"^\s*\d+(?:[:\t→|]| )",
    "paths": r"^[~.\w@-]*(?:[/\\][~.\w@+ -]+)+[/\\]?$",
    "`key: value`": r"^\s*[\w .-]{1,60}: ",
    "`key=value`": r"^[\w.-]{1,80}=",
    "JSON": r'^\s*[\[\]{}"]',
    "a unified diff": (
        r"^(?:diff |index |--- |\+\+\+ |@@|[ +-]|new file|deleted file|old mode|new mode|similarity|rename |copy |\\"
        r"|Binary)"
    ),
    "URLs": r"^https?://\S+$",
    "columns divided by tabs": r"\t",
    "single words": r"^\S+$",
}
"""Shapes of lines; the last ones are so loose that their power decides."""

_BLANK = frozenset({Check.EMPTY, Check.EQUALS})
"""Checks that a blank output supports, too."""
_SANITIZER = Sanitizer(b"")

_Case = tuple[Step, Call]


class _Candidate(NamedTuple):
    """What might hold.

    Attributes:
        says, check, text: As a document has them.
        fill: What it says of one call; None where it says nothing.
        high, needs: As a document has them.
        fact: What a fact would have to derive; empty if the document alone can say it.
    """

    says: str
    check: Check
    text: str
    fill: Callable[[_Case], Constraint | None]
    high: str = ""
    needs: tuple[str, ...] = ()
    fact: str = ""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that held on the logs, for review.

    Attributes:
        id: A name for it.
        name: The program or tool.
        tool: True for an agent's tool.
        says, check, text, high, needs: What it would say, as a document has it.
        fact: What a fact would have to derive first; empty if the document alone can say it.
        steps, sessions, violated: Its support.
        broken: Sessions that violate it; each counts once, as its steps depend on each other.
        bound: One-sided 95 % upper bound of the share of sessions that violate it (Clopper-Pearson).
        power: Share of other sessions' observations of the same tool that violate it.
        obeys: A step that obeys.
        breaks: An observation of another session that does not.
    """

    id: str
    name: str
    tool: bool
    says: str
    check: Check
    text: str
    high: str
    needs: tuple[str, ...]
    fact: str
    steps: int
    sessions: int
    violated: int
    broken: int
    bound: float
    power: float
    obeys: Step
    breaks: str

    def toml(self, clean: Callable[[str], str]) -> str:
        """The rule as a fragment of a document; `clean` redacts what is quoted from the log.

        What needs a fact that nobody has written yet is commented out.
        """
        counts = f"steps = {self.steps}, sessions = {self.sessions}, violated = {self.violated}"
        lines = [
            "[[rule]]",
            f"id = {_toml(self.id)}",
            f"says = {_toml(self.says)}",
            f"{'tools' if self.tool else 'programs'} = [{_toml(self.name)}]",
            *([f"needs = [{', '.join(map(_toml, self.needs))}]"] if self.needs else []),
            f"check = {_toml(self.check.value)}",
            *([f"text = {_toml(self.text)}"] if self.text else []),
            *([f"high = {_toml(self.high)}"] if self.high else []),
            'given = "success"',
            "deciding = false",
            f"support = {{ {counts}, power = {self.power:.2f} }}",
            "",
            "[[rule.examples]]",
            *self._action(clean),
            f"obeys = {_toml(_shortened(clean(visible(self.obeys)), self.check))}",
            f"breaks = {_toml(_shortened(clean(self.breaks), self.check))}",
        ]
        held = f"# held in {self.sessions - self.broken} of {self.sessions} sessions"
        head = [f"{held}; with 95 % confidence fewer than {self.bound:.1%} break it"]
        if self.fact:
            head.append(f"# needs a fact that derives {self.fact}")
            lines = [f"# {line}".rstrip() for line in lines]
        return "\n".join(head + lines)

    def _action(self, clean: Callable[[str], str]) -> list[str]:
        action = self.obeys.action
        if action.command is not None:
            return [f"command = {_toml(clean(action.command))}"]
        fields = {name: value for name, value in action.fields.items() if value is not None}
        return [f"tool = {_toml(self.name)}", *([f"input = {_inline(fields, clean)}"] if fields else [])]


def propose(
    trajectories: Sequence[Sequence[Step]],
    programs: Mapping[str, Program],
    *,
    known: Mapping[tuple[str, Check], Measured] | None = None,
    seed: int = 0,
    text: Callable[[Step], str] = visible,
) -> Iterator[Proposal]:
    """What the outputs of each program and tool had in common, most support first.

    Only steps that went well and that are one call alone are looked at, so that output and call surely belong together.

    Args:
        trajectories: Clean sessions, each one's steps in order.
        programs: How programs are read.
        known: Where rules that there are already were in force, by program or tool and check: what they say of more
            than half of the steps is not proposed again.
        seed: Draws other sessions' observations.
        text: What is looked at of an observation.
    """
    pool = Observations(trajectories, seed, text=text)
    cases, before = _cases(trajectories, programs, text)
    ids: Counter[str] = Counter()
    for (name, _), found in sorted(cases.items(), key=lambda item: -len(item[1])):
        if len(found) < _LEAST_STEPS or len({session_of(step) for step, _ in found}) < _LEAST_SESSIONS:
            continue
        outputs = [text(step) for step, _ in found]
        proposals: dict[Check, Proposal] = {}
        for candidate in _candidates(name, found, outputs, before):
            if _is_known(known or {}, name, candidate.check, found):
                continue
            proposal = _supported(name, candidate, found, outputs, pool)
            kept = proposals.get(candidate.check)
            if proposal is not None and (kept is None or proposal.power > kept.power):
                proposals[candidate.check] = proposal  # of several shapes the one that says most
        for proposal in proposals.values():
            ids[proposal.id] += 1
            again = f"-{ids[proposal.id]}" if ids[proposal.id] > 1 else ""
            yield msgspec.structs.replace(proposal, id=proposal.id + again)


def _cases(
    trajectories: Sequence[Sequence[Step]], programs: Mapping[str, Program], text: Callable[[Step], str]
) -> tuple[dict[tuple[str, bool], list[_Case]], dict[int, str]]:
    """The steps of each program and tool; and by a step's identity what the same call printed before."""
    found: dict[tuple[str, bool], list[_Case]] = {}
    before: dict[int, str] = {}
    for steps in trajectories:
        last: dict[tuple[str, str, str | None], str] = {}
        for step in steps:
            if not judged(step) or not step.succeeded:
                continue
            same = (step.tool, step.action.text, step.cwd)
            if same in last:
                before[id(step)] = last[same]
            last[same] = text(step)
            if (call := _alone(step, programs)) is not None and _is_public(call.name):
                found.setdefault((call.name, call.tool), []).append((step, call))
    return found, before


def _alone(step: Step, programs: Mapping[str, Program]) -> Call | None:
    """The only call of a step, moves before it aside."""
    if step.action.command is None:
        return tool_call(step)
    speaking = [part for part in parts(step, programs) if part.stages[0] is None or part.stages[0].name != "cd"]
    if len(speaking) != 1 or len(speaking[0].stages) != 1 or not speaking[0].succeeds or not speaking[0].shown:
        return None
    call = speaking[0].stages[0]
    return None if call is None or call.name == "=" else call


def _is_known(known: Mapping[tuple[str, Check], Measured], name: str, check: Check, cases: Sequence[_Case]) -> bool:
    measured = known.get((name, check))
    if measured is None:
        return False
    steps = {id(step) for step in measured.on}
    return 2 * sum(id(step) in steps for step, _ in cases) > len(cases)


def _candidates(
    name: str, cases: Sequence[_Case], outputs: Sequence[str], before: Mapping[int, str]
) -> Iterator[_Candidate]:
    """What might hold, from the strictest to the loosest; most do not, and are told by their support."""
    yield _fixed(f"`{name}` prints nothing if it succeeds", Check.EMPTY)
    spoken = [output for output in outputs if output.strip()]
    if len(spoken) < _LEAST_STEPS:
        return
    yield from _constants(name, spoken)
    for shape, pattern in _SHAPES.items():
        yield _fixed(f"`{name}` prints {shape}", Check.EVERY_LINE, pattern)
    yield from _json(name, spoken)
    yield from _limits(name, cases)
    yield from _echoes(name, cases, outputs)
    if sum(id(step) in before for step, _ in cases) >= _LEAST_STEPS:

        def again(case: _Case) -> Constraint | None:
            last = before.get(id(case[0]))
            return None if last is None else Constraint(rule="", check=Check.EQUALS, text=last)

        yield _Candidate(
            _braced(f"`{name}` prints what it printed for the same call before"),
            Check.EQUALS,
            "{last}",
            again,
            fact="{last}, the last output of the same call in the session, where nothing can have changed it since",
        )


def _fixed(says: str, check: Check, text: str = "") -> _Candidate:
    """A candidate that says the same of every call."""
    constraint = Constraint(rule="", check=check, text=text)
    return _Candidate(_braced(says), check, _braced(text), lambda _case: constraint)


def _of_input(field: str, make: Callable[[object], Constraint | None]) -> Callable[[_Case], Constraint | None]:
    return lambda case: make(case[1].input.get(field))


def _of_option(option: str, make: Callable[[object], Constraint | None]) -> Callable[[_Case], Constraint | None]:
    return lambda case: make(case[1].value(option))


def _is_public(text: str) -> bool:
    """May a text of the log stand in a rule: no secret, and nothing that hides?"""
    return _SANITIZER.text(text) == text


def _constants(name: str, outputs: Sequence[str]) -> Iterator[_Candidate]:
    """The first line, how it begins, and lines that nearly all outputs hold."""
    enough = _COMMON * len(outputs)
    firsts = Counter(output.strip().split("\n", 1)[0].strip()[:_LONGEST] for output in outputs)
    line, count = firsts.most_common(1)[0]
    if count >= enough and _is_public(line):
        yield _fixed(f"the first line of `{name}` is “{line}”", Check.FIRST_LINE, rf"^\s*{escaped(line)}\s*$")
    for words in (3, 2, 1):
        begins = Counter(" ".join(first.split(" ")[:words]) for first in firsts.elements())
        start, count = begins.most_common(1)[0]
        if count >= enough and len(start) >= 3 and _is_public(start):
            yield _fixed(f"what `{name}` prints begins with “{start}”", Check.STARTS, start)
            break
    held = Counter(
        line
        for output in outputs
        for line in {line.strip() for line in output.split("\n", _MOST_LINES)[:_MOST_LINES]}
        if 3 <= len(line) <= _LONGEST and any(letter.isalnum() for letter in line)
    )
    for line, count in held.most_common(3):
        if count >= enough and _is_public(line):
            yield _fixed(f"`{name}` prints the line “{line}”", Check.SOME_LINE, rf"^\s*{escaped(line)}\s*$")


def _json(name: str, outputs: Sequence[str]) -> Iterator[_Candidate]:
    """The shape of JSON results, if nearly all outputs are."""
    shape: Shape | None = None
    learned = 0
    for output in outputs:
        one = learn(output)
        learned += one is not None
        shape = merge(shape, one)
    if shape is not None and learned >= _COMMON * len(outputs) and _is_public(encode(shape)):
        keys = ", ".join(f"`{key}`" for key in list(shape.keys)[:5])
        says = f"`{name}` answers in JSON" + (f" with {keys}" if keys else "")
        yield _fixed(says, Check.SCHEMA, encode(shape))


def _limits(name: str, cases: Sequence[_Case]) -> Iterator[_Candidate]:
    """At most so many lines as an option, or a field of the input, says."""

    def limited(number: object) -> Constraint | None:
        if isinstance(number, bool) or not str(number).isdigit() or len(str(number)) > 6:
            return None
        return Constraint(rule="", check=Check.LINES, high=int(str(number)))

    for field in _fields(cases, int):
        if _LIMIT_FIELDS.search(field):
            yield _Candidate(
                f"at most {{{field}}} lines were asked for",
                Check.LINES,
                "",
                _of_input(field, limited),
                high=f"{{{field}}}",
            )
    for option in _LIMITS:
        if sum(case[1].given(option) for case in cases) >= _LEAST_STEPS:
            yield _Candidate(
                _braced(f"`{name} {option}` prints at most so many lines"),
                Check.LINES,
                "",
                _of_option(option, limited),
                high="{count}",
                needs=(option,),
                fact=f"{{count}}, the number given to {option}",
            )


def _echoes(name: str, cases: Sequence[_Case], outputs: Sequence[str]) -> Iterator[_Candidate]:
    """A field of the input, or the last word of the command, stands in the output."""

    def held(value: object) -> Constraint | None:
        if not isinstance(value, str) or not 3 <= len(value) <= _LONGEST or "\n" in value:
            return None
        return Constraint(rule="", check=Check.CONTAINS, text=value)

    for field in _fields(cases, str):
        values = [(case[1].input.get(field), output) for case, output in zip(cases, outputs, strict=True)]
        if sum(isinstance(value, str) and value in output for value, output in values) >= _LEAST_STEPS:
            yield _Candidate(
                f"the result holds the {field} of the input, {{{field}}}",
                Check.CONTAINS,
                f"{{{field}}}",
                _of_input(field, held),
            )
    if not cases[0][1].tool:
        yield _Candidate(
            _braced(f"what `{name}` prints holds its last word"),
            Check.CONTAINS,
            "{word}",
            lambda case: held(case[1].operands[-1] if case[1].operands else None),
            fact="{word}, the last word that is no option",
        )


def _fields(cases: Sequence[_Case], kind: type) -> list[str]:
    """Fields of the input that enough calls give, and that a document can name."""
    counts = Counter(field for _, call in cases for field, value in call.input.items() if isinstance(value, kind))
    return [field for field, count in counts.items() if count >= _LEAST_STEPS and _FIELD.fullmatch(field)]


def _supported(
    name: str, candidate: _Candidate, cases: Sequence[_Case], outputs: Sequence[str], pool: Observations
) -> Proposal | None:
    """The candidate with its support; None if it failed too often, was hardly in force, or says next to nothing."""
    applied = _applied(candidate, cases, outputs)
    if applied is None:
        return None
    held, broken = applied
    sessions = {session_of(step) for step, _, _ in held} | set(broken)
    drawn = refused = 0
    breaks: str | None = None
    for step, output, constraint in held:
        for other in pool.others(step, _DRAWS):
            drawn += 1
            if other != output and check(constraint, other, status=step.exit_code, succeeded=True).violated:
                refused += 1
                if breaks is None or 0 < len(other.strip()) < len(breaks):
                    breaks = other
    least = _LEAST_POWER_OF_BOUNDS if candidate.check is Check.LINES else LEAST_POWER
    if breaks is None or refused < least * drawn:
        return None
    obeys = min((step for step, _, _ in held), key=lambda step: len(step.action.text) + len(step.observation))
    return Proposal(
        id=_id(name, candidate.check),
        name=name,
        tool=obeys.action.command is None,
        says=candidate.says,
        check=candidate.check,
        text=candidate.text,
        high=candidate.high,
        needs=candidate.needs,
        fact=candidate.fact,
        steps=len(held) + len(broken),
        sessions=len(sessions),
        violated=len(broken),
        broken=len(set(broken)),
        bound=upper_bound(len(set(broken)), len(sessions)),
        power=refused / drawn,
        obeys=obeys,
        breaks=breaks,
    )


def _applied(
    candidate: _Candidate, cases: Sequence[_Case], outputs: Sequence[str]
) -> tuple[list[tuple[Step, str, Constraint]], list[tuple[str, str]]] | None:
    """Where it held, and the sessions of the steps that broke it; None if it broke too often, or has no support."""
    held: list[tuple[Step, str, Constraint]] = []
    broken: list[tuple[str, str]] = []
    most = int(_MOST_BROKEN * len(cases))
    for case, output in zip(cases, outputs, strict=True):
        constraint = candidate.fill(case)
        if constraint is None or not (output.strip() or candidate.check in _BLANK):
            continue
        outcome = check(constraint, output, status=case[0].exit_code, succeeded=True)
        if outcome.violated:
            broken.append(session_of(case[0]))
            if len(broken) > most:
                return None
        elif outcome.applied:
            held.append((case[0], output, constraint))
    steps = len(held) + len(broken)
    sessions = {session_of(step) for step, _, _ in held} | set(broken)
    if steps < _LEAST_STEPS or len(sessions) < _LEAST_SESSIONS or len(broken) > _MOST_BROKEN * steps:
        return None
    return held, broken


def _id(name: str, check: Check) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "tool"
    return f"proposed-{words}-{check.value}"


def _braced(text: str) -> str:
    """A literal text, or a pattern, as a document spells it: braces of its own are doubled."""
    return text.replace("{", "{{").replace("}", "}}")


def _shortened(text: str, check: Check) -> str:
    """As many whole lines as are enough for an example; what is about the whole text stays whole."""
    if check in {Check.SCHEMA, Check.EQUALS, Check.CONTAINS, Check.SOME_LINE} or len(text) <= _LONGEST_EXAMPLE:
        return text
    kept = text[:_LONGEST_EXAMPLE].rpartition("\n")[0]
    return f"{kept}\n" if kept.strip() else text


def _toml(text: str) -> str:
    """A text as a TOML string; JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _inline(value: object, clean: Callable[[str], str]) -> str:
    """A JSON value as TOML's inline form; null has none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        pairs = [
            f"{_toml(clean(str(key)))} = {_inline(inner, clean)}" for key, inner in value.items() if inner is not None
        ]
        return "{ " + ", ".join(pairs) + " }" if pairs else "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_inline(inner, clean) for inner in value if inner is not None) + "]"
    return _toml(clean(str(value)))
