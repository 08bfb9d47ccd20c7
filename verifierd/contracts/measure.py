"""How well contracts hold on clean sessions, and what they would see: support, violations, power."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from verifierd.contracts.checks import check
from verifierd.contracts.document import Rule
from verifierd.contracts.engine import Contracts
from verifierd.contracts.tails import cut, visible
from verifierd.types import Constraint, History, ObservationKind, Step

__all__ = (
    "Measured",
    "Observations",
    "Violation",
    "disagreement",
    "judged",
    "lower_bound",
    "measure",
    "session_of",
    "support",
    "tool_of",
    "upper_bound",
)

_DRAWS = 3
_TRIES = 20
_LEAST_HELD = 0.99

Session = tuple[str, str]


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A clean step that broke a rule.

    Attributes:
        rule: The rule.
        step: The step.
        found: What was found instead, in words.
        constraint: What the rule said there.
    """

    rule: str
    step: Step
    found: str
    constraint: Constraint


class Measured(msgspec.Struct, kw_only=True):
    """One rule on clean sessions.

    Attributes:
        steps: How often it was in force.
        sessions: The sessions that these come from, with the number of steps of each.
        violations: The steps that violated it.
        drawn: Observations of the same tool from other sessions that were put in place.
        refused: How many of these violated it.
        on: The steps on which it was in force.
    """

    steps: int = 0
    sessions: dict[Session, int] = msgspec.field(default_factory=dict)
    violations: list[Violation] = msgspec.field(default_factory=list)
    drawn: int = 0
    refused: int = 0
    on: list[Step] = msgspec.field(default_factory=list)

    @property
    def power(self) -> float | None:
        """Share of other sessions' observations of the same tool that violate the rule; None if none was drawn."""
        return self.refused / self.drawn if self.drawn else None

    @property
    def broken(self) -> int:
        """How many sessions violate it; each counts once, as its steps depend on each other."""
        return len({session_of(violation.step) for violation in self.violations})


class Observations:
    """Observations by tool, to draw those of other sessions from.

    Args:
        trajectories: Each one's steps in order.
        seed: Draws.
        text: What is looked at of an observation.
    """

    def __init__(
        self, trajectories: Sequence[Sequence[Step]], seed: int, *, text: Callable[[Step], str] = visible
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a seeded draw, no secret
        self._text = text
        self._by_tool: dict[str, list[Step]] = {}
        for steps in trajectories:
            for step in steps:
                if judged(step):
                    self._by_tool.setdefault(tool_of(step), []).append(step)

    def others(self, step: Step, count: int = _DRAWS) -> Iterator[str]:
        """Some observations of the same tool from other sessions; fewer where there are hardly any others."""
        found = self._by_tool.get(tool_of(step), [])
        session = session_of(step)
        for _ in range(count if found else 0):
            for _ in range(_TRIES):
                other = self._random.choice(found)
                if session_of(other) != session:
                    yield self._text(other)
                    break


def session_of(step: Step) -> Session:
    """The session of a step; its sub-agents belong to it, as they see and do the same things."""
    return step.format, step.trajectory.partition("/")[0]


def tool_of(step: Step) -> str:
    """The tool; shells are one, whatever the agents call them."""
    return "shell" if step.action.command is not None else step.tool


def judged(step: Step) -> bool:
    """Is a step one that contracts are applied to, and is its observation whole?"""
    return step.observation_kind is ObservationKind.ENV and not cut(step)


def measure(
    contracts: Contracts,
    trajectories: Sequence[Sequence[Step]],
    *,
    seed: int = 0,
    text: Callable[[Step], str] = visible,
    on: Callable[[int], None] = lambda _steps: None,
) -> dict[str, Measured]:
    """Apply the rules to trajectories that are taken to be clean.

    Args:
        contracts: The rules.
        trajectories: Each one's steps in order.
        seed: Draws the other sessions' observations.
        text: What is looked at of an observation.
        on: Told how many steps of a trajectory are done, after each.

    Returns:
        What was found, by rule; rules that were never in force are left out. Where outputs of several parts of a
        command line follow each other, their rules stand together under a name of their own, `one+other`.
    """
    pool = Observations(trajectories, seed, text=text)
    result: dict[str, Measured] = {}
    for steps in trajectories:
        history = History(steps[0].key) if steps else History(("", ""))
        for step in steps:
            if judged(step):
                constraints = contracts.constraints(contracts.session(history), step)
                observation = text(step) if constraints else ""
                for constraint in constraints:
                    _apply(constraint, step, observation, pool, result)
            history.append(step)
        on(len(steps))
    return result


def _apply(
    constraint: Constraint, step: Step, observation: str, pool: Observations, result: dict[str, Measured]
) -> None:
    outcome = check(constraint, observation, status=step.exit_code, succeeded=step.succeeded)
    if not outcome.applied:
        return
    measured = result.setdefault(constraint.rule, Measured())
    session = session_of(step)
    measured.steps += 1
    measured.sessions[session] = measured.sessions.get(session, 0) + 1
    measured.on.append(step)
    if outcome.violated:
        measured.violations.append(
            Violation(rule=constraint.rule, step=step, found=outcome.found, constraint=constraint)
        )
        return
    for other in pool.others(step):
        swapped = check(constraint, other, status=step.exit_code, succeeded=step.succeeded)
        measured.drawn += 1
        measured.refused += swapped.violated


def upper_bound(violated: int, cases: int, *, level: float = 0.95) -> float:
    """The exact one-sided upper bound of a share (Clopper-Pearson), by bisection of the binomial tail.

    Args:
        violated: How many of the cases violate.
        cases: How many there are; they must not depend on each other, so count sessions rather than steps.
        level: The confidence.
    """
    if cases == 0 or violated >= cases:
        return 1.0
    low, high = violated / cases, 1.0
    for _ in range(50):
        share = (low + high) / 2
        low, high = (share, high) if _at_most(violated, cases, share) > 1 - level else (low, share)
    return high


def lower_bound(violated: int, cases: int, *, level: float = 0.95) -> float:
    """The exact one-sided lower bound of a share; see `upper_bound`."""
    return 1 - upper_bound(cases - violated, cases, level=level)


def _at_most(count: int, cases: int, share: float) -> float:
    """The probability that no more than so many of the cases hit; by logarithms, as the binomials get huge."""
    if share >= 1:
        return float(count >= cases)
    hit, miss, ways = math.log(share), math.log1p(-share), math.lgamma(cases + 1)
    few = 2 * count < cases
    total = math.fsum(
        math.exp(ways - math.lgamma(k + 1) - math.lgamma(cases - k + 1) + k * hit + (cases - k) * miss)
        for k in (range(count + 1) if few else range(count + 1, cases + 1))
    )
    return total if few else 1 - total


def _interval(power: float, sessions: int) -> tuple[float, float]:
    """Bounds of a power as if each session had been one draw."""
    refused = round(power * sessions)
    return lower_bound(refused, sessions), upper_bound(refused, sessions)


def disagreement(rule: Rule, found: Measured) -> str:
    """Where a measurement contradicts what a document says of its rule, in words; empty if it does not.

    What is within chance, by session and at 95 %, does not contradict.
    """
    said, sessions = rule.support, len(found.sessions)
    held = found.steps - len(found.violations)
    if rule.deciding and held < _LEAST_HELD * found.steps:
        return f"it decides, but held in {held} of {found.steps} steps only"
    if said.power is None or not said.steps:
        return "the document has no measured support"
    if lower_bound(found.broken, sessions) > upper_bound(min(said.violated, said.sessions), said.sessions):
        return (
            f"broken in {found.broken} of {sessions} sessions, in the document's {said.violated} of {said.steps} steps"
        )
    if found.power is not None:
        here, there = _interval(found.power, sessions), _interval(said.power, said.sessions)
        if here[0] > there[1] or there[0] > here[1]:
            return f"its power is {found.power:.2f} here, {said.power:.2f} in the document"
    return ""


def support(measured: Mapping[str, Measured]) -> dict[str, str]:
    """What a document's `support` says, by rule."""
    return {
        rule: f"{{ steps = {m.steps}, sessions = {len(m.sessions)}, violated = {len(m.violations)}"
        + (f", power = {m.power:.2f}" if m.power is not None else "")
        + " }"
        for rule, m in sorted(measured.items())
    }
