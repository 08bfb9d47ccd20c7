"""Proposes rules from clean sessions: what each program's and tool's outputs had in common. People review them."""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from verifierd.contracts.calls import Call, parts, tool_call
from verifierd.contracts.checks import check
from verifierd.contracts.document import Program
from verifierd.contracts.measure import upper_bound
from verifierd.contracts.tails import visible
from verifierd.types import Check, Constraint, ObservationKind, Step

__all__ = ("Proposal", "propose")

_LEAST_STEPS = 5
_LEAST_SESSIONS = 3
_LEAST_POWER = 0.5
_DRAWS = 5
_SHAPES: Mapping[str, str] = {
    "numbers": r"^\s*-?\d+\s*$",
    "lines that begin with a hash": r"^[0-9a-f]{7,40}\b",
    "places (`path:line:`)": r"^[^\s:]+:\d+:",
    "numbered lines": r"^\s*\d+[:\t→ ]",
    "paths": r"^[~.\w@-]*(?:[/\\][~.\w@+-]+)+/?$",
    "`key: value`": r"^\s*[\w .-]+: ",
    "JSON": r"^\s*[\[\]{}\"]",
    "a unified diff": r"^(?:diff |index |--- |\+\+\+ |@@|[ +-]|new file|deleted file|similarity|rename |\\|Binary)",
    "URLs": r"^https?://\S+$",
}


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that held on the logs, for review.

    Attributes:
        name: The program or tool.
        tool: True for an agent's tool.
        says: One sentence.
        check, text: What it would say.
        steps, sessions, violated: Its support.
        bound: One-sided 95 % upper bound of the share of sessions that violate it (Clopper-Pearson; a session counts
            once, as its steps depend on each other).
        power: Share of other sessions' observations of the same tool that violate it.
        example: A step that obeys.
    """

    name: str
    tool: bool
    says: str
    check: Check
    text: str
    steps: int
    sessions: int
    violated: int
    bound: float
    power: float
    example: Step

    def toml(self, clean: Callable[[str], str]) -> str:
        """The rule as a fragment of a document; `clean` redacts what is quoted from the log."""
        counts = f"steps = {self.steps}, sessions = {self.sessions}, violated = {self.violated}"
        lines = [
            "[[rule]]",
            f"id = {_toml('proposed-' + self.name.replace(' ', '-').lower() + '-' + self.check.value)}",
            f"says = {_toml(self.says)}",
            f"{'tools' if self.tool else 'programs'} = [{_toml(self.name)}]",
            f"check = {_toml(self.check.value)}",
            *([f"text = {_toml(self.text)}"] if self.text else []),
            'given = "success"',
            "deciding = false # review first",
            f"support = {{ {counts}, power = {self.power:.2f} }}",
            "",
            "[[rule.examples]]",
        ]
        if self.example.action.command is not None:
            lines.append(f"command = {_toml(clean(self.example.action.command)[:200])}")
        else:
            lines.append(f"tool = {_toml(self.name)}")
        lines += [f"obeys = {_toml(clean(self.example.observation)[:200])}", 'breaks = "" # write one']
        return "\n".join(lines)


def propose(
    trajectories: Sequence[Sequence[Step]], programs: Mapping[str, Program], *, seed: int = 0
) -> Iterator[Proposal]:
    """What the outputs of each program and tool had in common, most support first.

    Only steps that went well and that are one call alone are looked at, so that output and call surely belong together.

    Args:
        trajectories: Clean sessions, each one's steps in order.
        programs: How programs are read.
        seed: Draws other sessions' observations.
    """
    found: dict[tuple[str, bool], list[tuple[Step, Call]]] = {}
    pool: dict[bool, list[Step]] = {True: [], False: []}
    for steps in trajectories:
        for step in steps:
            if step.observation_kind is not ObservationKind.ENV or step.elided is not None or not step.succeeded:
                continue
            pool[step.action.command is None].append(step)
            if (call := _alone(step, programs)) is not None:
                found.setdefault((call.name, call.tool), []).append((step, call))
    draw = random.Random(seed)  # noqa: S311 - a seeded draw, no secret
    for (name, tool), cases in sorted(found.items(), key=lambda item: -len(item[1])):
        sessions = {step.key for step, _ in cases}
        if len(cases) < _LEAST_STEPS or len(sessions) < _LEAST_SESSIONS:
            continue
        others = [step for step in pool[tool] if not tool or step.tool == name]
        for candidate in _candidates(name, [step for step, _ in cases]):
            proposal = _supported(name, candidate, cases, others, draw)
            if proposal is not None:
                yield proposal


def _alone(step: Step, programs: Mapping[str, Program]) -> Call | None:
    """The only call of a step, moves before it aside."""
    if step.action.command is None:
        return tool_call(step)
    speaking = [part for part in parts(step, programs) if part.stages[0] is None or part.stages[0].name != "cd"]
    if len(speaking) != 1 or len(speaking[0].stages) != 1 or not speaking[0].succeeds or not speaking[0].shown:
        return None
    return speaking[0].stages[0]


def _candidates(name: str, steps: Sequence[Step]) -> Iterator[tuple[str, Constraint]]:
    """What might hold: silence, one of the known shapes, the first line of the first output."""
    yield f"`{name}` prints nothing if it succeeds", Constraint(rule="", check=Check.EMPTY)
    for shape, text in _SHAPES.items():
        yield f"`{name}` prints {shape}", Constraint(rule="", check=Check.EVERY_LINE, text=text)
    first = next((visible(step).strip().split("\n")[0] for step in steps if visible(step).strip()), "")
    words = first.split()[:3]
    for count in range(len(words), 0, -1):
        start = " ".join(words[:count])
        if len(start) >= 3 and first.startswith(start):
            yield f"what `{name}` prints begins with {start!r}", Constraint(rule="", check=Check.STARTS, text=start)


def _supported(
    name: str,
    candidate: tuple[str, Constraint],
    cases: Sequence[tuple[Step, Call]],
    others: Sequence[Step],
    draw: random.Random,
) -> Proposal | None:
    """The candidate with its support; None if it failed in more than a few sessions, or says next to nothing."""
    says, constraint = candidate
    broken: set[tuple[str, str]] = set()
    sessions: set[tuple[str, str]] = set()
    violated = drawn = refused = 0
    example: Step | None = None
    for step, _ in cases:
        sessions.add(step.key)
        text = visible(step)
        if check(constraint, text, status=step.exit_code, succeeded=True).violated:
            violated += 1
            broken.add(step.key)
            if violated * 50 > len(cases):
                return None
            continue
        if example is None and (text.strip() or constraint.check is Check.EMPTY):
            example = step
        for other in draw.choices(others, k=_DRAWS) if others else ():
            if other.key != step.key:
                drawn += 1
                refused += check(constraint, visible(other), status=0, succeeded=True).violated
    power = refused / drawn if drawn else 0.0
    if example is None or power < _LEAST_POWER:
        return None
    return Proposal(
        name=name,
        tool=example.action.command is None,
        says=says,
        check=constraint.check,
        text=constraint.text,
        steps=len(cases),
        sessions=len(sessions),
        violated=violated,
        bound=upper_bound(len(broken), len(sessions)),
        power=power,
        example=example,
    )


def _toml(text: str) -> str:
    """A text as a TOML string; JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
