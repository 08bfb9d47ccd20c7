"""Applies contracts to a step: which rules concern it, what they say here, and what that means for its observation."""

import string
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from verifierd.contracts.calls import Call, Part, parts, tool_call
from verifierd.contracts.checks import escaped, pattern
from verifierd.contracts.compose import compose
from verifierd.contracts.document import Family, Program, Rule
from verifierd.contracts.facts import FACTS
from verifierd.contracts.facts.base import Finding
from verifierd.contracts.state.effects import effects, written
from verifierd.contracts.state.profile import Profile, foreign
from verifierd.contracts.state.session import Session
from verifierd.errors import ContractError
from verifierd.types import Check, Constraint, History, Step

__all__ = ("Contracts",)

_LIVE = 256
_PATTERNS = frozenset(
    {Check.ABSENT, Check.EVERY_LINE, Check.SOME_LINE, Check.FIRST_LINE, Check.NUMBERED, Check.KNOWN_LINES,
     Check.NAMES, Check.NOT_NAMES}
)  # fmt: skip
"""Checks whose `text` is a pattern."""
_GROUPS = {Check.NUMBERED: "line", Check.KNOWN_LINES: "line", Check.NAMES: "name", Check.NOT_NAMES: "name"}
"""The group that a pattern of these checks must have."""
_LONGEST = 20_000
_FORMAT = string.Formatter()


class Contracts:
    """The contracts of some documents, with what is known of each trajectory that is live.

    Args:
        families: The documents by name.

    Raises:
        ContractError: Two rules share an id, a fact is unknown, or a pattern cannot be read.
    """

    def __init__(self, families: Mapping[str, Family]) -> None:
        self.programs: dict[str, Program] = {}
        self.rules: dict[str, Rule] = {}
        self._by_program: dict[str, list[Rule]] = {}
        self._by_tool: dict[str, list[Rule]] = {}
        self._by_prefix: dict[str, list[Rule]] = {}
        for name, family in families.items():
            for program in family.program:
                self.programs.update(dict.fromkeys((program.name, *program.aliases), program))
            for rule in family.rule:
                self._add(rule, name)
        self._live: OrderedDict[tuple[tuple[str, str], int], Session] = OrderedDict()
        self._last: tuple[Step, list[Part]] | None = None  # a step is read when it is predicted, and when it happened

    def _add(self, rule: Rule, family: str) -> None:
        place = f"policies/contracts/{family}.toml, rule `{rule.id}`"
        if rule.id in self.rules:
            raise ContractError(f"{place}: another rule has this id", hint="Give each rule an id of its own.")
        if rule.fact is not None and rule.fact not in FACTS:
            raise ContractError(f"{place}: no fact `{rule.fact}`", hint="Known facts: " + ", ".join(sorted(FACTS)))
        _judge(rule, place)
        self.rules[rule.id] = rule
        for program in rule.programs:
            self._by_program.setdefault(program, []).append(rule)
        for tool in rule.tools:
            if tool.endswith("*"):
                self._by_prefix.setdefault(tool[:-1], []).append(rule)
            else:
                self._by_tool.setdefault(tool, []).append(rule)

    def session(self, history: History) -> Session:
        """What is known after the steps of a history."""
        key = (history.key, history.run)
        session = self._live.get(key)
        if session is None or session.total > history.total:
            session = self._live[key] = Session()
            session.total = history.dropped
        self._live.move_to_end(key)
        if len(self._live) > _LIVE:
            self._live.popitem(last=False)
        for step in history.since(session.total):
            self.observe(session, step)
        return session

    def observe(self, session: Session, step: Step) -> None:
        """Tell a session of a step that happened."""
        session.observe(step, *self.read(session.profile, step))

    def read(self, profile: Profile, step: Step) -> tuple[list[Part], list[Call]]:
        """The parts of a step's command line and everything that it calls, as far as this session's can be told."""
        if step.action.command is None:
            return [], [tool_call(step)]
        read = self._parts(step) if profile.reads(step) else []
        return read, [stage for part in read for stage in part.stages if stage is not None]

    def _parts(self, step: Step) -> list[Part]:
        if self._last is None or self._last[0] is not step:
            self._last = step, parts(step, self.programs)
        return self._last[1]

    def constraints(self, session: Session, step: Step) -> list[Constraint]:
        """What the observation of a step must obey, after what the session has shown.

        Never looks at the observation.
        """
        session.expect(step)
        if step.action.command is None:
            call = tool_call(step)
            rules = self._by_tool.get(step.tool, []) + [
                rule for prefix, rules in self._by_prefix.items() if step.tool.startswith(prefix) for rule in rules
            ]
            return _tolerant(self._said(rules, call, session), "<system-reminder>")
        profile = session.profile
        if profile.rewritten:
            return []
        read, called = self.read(profile, step)
        found = [self._of_part(part, session) for part in read]
        return _tolerant(compose(read, found, self.programs), foreign(called))

    def _of_part(self, part: Part, session: Session) -> list[list[Constraint]]:
        """What the rules say of each stage of a pipeline; what it may change is noted for what comes after it."""
        before, own = session.earlier, effects(part)
        result: list[list[Constraint]] = []
        for number, call in enumerate(part.stages):
            rules = self._by_program.get(call.name, []) if call is not None and session.profile.applies(call) else []
            if call is None or not rules:
                result.append([])
                continue
            session.earlier = before | written(call.command)  # a file is opened before the program runs
            for other in own[:number] + own[number + 1 :]:
                session.earlier |= other
            result.append(self._said(rules, call, session))
        session.earlier = before
        for one in own:
            session.earlier |= one
        return result

    def _said(self, rules: Sequence[Rule], call: Call, session: Session) -> list[Constraint]:
        """What the rules say of one call."""
        result: list[Constraint] = []
        for rule in rules:
            if _concerns(rule, call):
                findings: Iterable[Finding] = FACTS[rule.fact](call, session) if rule.fact else (Finding(),)
                for finding in findings:
                    constraint = _constraint(rule, call, finding)
                    if constraint is not None:
                        result.append(constraint)
        return result


class _Ones(dict[str, str]):
    """A value for every name."""

    def __missing__(self, name: str) -> str:
        return "1"


def _is_template(text: str) -> bool:
    """Is a text one whose blanks can be filled in?"""
    try:
        return all(
            name is None or (name.isidentifier() and not spec and conversion is None)
            for _, name, spec, conversion in _FORMAT.parse(text)
        )
    except ValueError:
        return False


def _judge(rule: Rule, place: str) -> None:
    """Make sure that a rule concerns something, and that its texts, bounds and pattern can be filled in.

    Raises:
        ContractError: It does not, or they cannot, or the pattern lacks the group that its check needs.
    """
    if not rule.programs and not rule.tools:
        raise ContractError(f"{place}: it concerns nothing", hint="Name its `programs` or its `tools`.")
    for key, templates in (("says", (rule.says,)), ("text", (rule.text,)), ("texts", rule.texts)):
        if not all(map(_is_template, templates)):
            raise ContractError(f"{place}: `{key}` has a brace that names nothing", hint="Double it: `{{`, `}}`.")
    for key, bound in (("low", rule.low), ("high", rule.high)):
        if isinstance(bound, str) and not (_is_template(bound) and _filled(bound, _Ones(), literal=True).isdigit()):
            raise ContractError(f"{place}: `{key}` is no number", hint="Give a number, or a `{name}` of the fact.")
    if rule.check in _PATTERNS:
        _judge_pattern(rule, place)


def _judge_pattern(rule: Rule, place: str) -> None:
    compiled = pattern(_filled(rule.text, _Ones(), literal=False))
    if compiled is None:
        raise ContractError(f"{place}: `text` is no pattern", hint="Patterns are in RE2 syntax.")
    group = _GROUPS.get(rule.check)
    if rule.text and group is not None and group not in compiled.groupindex:
        hint = f"Put `(?P<{group}>...)` around what the check is about."
        raise ContractError(f"{place}: the pattern has no group `{group}`", hint=hint)


def _tolerant(constraints: list[Constraint], lines: str) -> list[Constraint]:
    """The constraints, out of force where they are violated and one of these lines stands in their scope."""
    if not lines:
        return constraints
    return [
        msgspec.structs.replace(
            constraint, tolerates=f"{constraint.tolerates}|{lines}" if constraint.tolerates else lines
        )
        for constraint in constraints
    ]


def _concerns(rule: Rule, call: Call) -> bool:
    if rule.piped is not None and rule.piped is not call.piped:
        return False
    if any(not call.given(*needed.split("|")) for needed in rule.needs) or call.given(*rule.without):
        return False
    if rule.operands is not None and not rule.operands[0] <= len(call.operands) <= rule.operands[1]:
        return False
    return all(call.input.get(name) == value for name, value in rule.inputs.items())


def _constraint(rule: Rule, call: Call, finding: Finding) -> Constraint | None:
    """A rule with its blanks filled in; None if there is nothing to fill one with, or it would be too long."""
    values = {name: str(value) for name, value in call.input.items() if isinstance(value, str | int)}
    values.update(finding.values)
    literal = rule.check not in _PATTERNS
    try:
        text = finding.text if finding.text is not None else _filled(rule.text, values, literal=literal)
        texts = finding.texts
        if texts is None:
            texts = tuple(_filled(text, values, literal=True) for text in rule.texts)
        low = finding.low if finding.low is not None else _number(rule.low, values)
        high = finding.high if finding.high is not None else _number(rule.high, values)
        detail = _filled(rule.says, {name: value[:80] for name, value in values.items()}, literal=True)
    except (KeyError, ValueError):
        return None
    if len(text) + sum(map(len, texts)) > _LONGEST:
        return None
    return Constraint(
        rule=rule.id,
        check=rule.check,
        detail=detail,
        text=text,
        texts=texts,
        known=dict(finding.known or {}),
        whole=rule.whole,
        low=low,
        high=high,
        given=rule.given,
        tolerates=finding.tolerates,
        deciding=rule.deciding,
        power=rule.support.power or 0.0,
    )


def _filled(template: str, values: Mapping[str, str], *, literal: bool) -> str:
    """A text with its `{names}` filled in; `{{` and `}}` stand for braces.

    Raises:
        KeyError: A value is missing.
    """
    if "{" not in template:
        return template
    filled: list[str] = []
    for before, name, _, _ in _FORMAT.parse(template):
        filled.append(before)
        if name is not None:
            filled.append(values[name] if literal else escaped(values[name]))
    return "".join(filled)


def _number(value: int | str | None, values: Mapping[str, Any]) -> int | None:
    if isinstance(value, str):
        return int(_filled(value, values, literal=True))
    return value
