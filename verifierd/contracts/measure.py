"""How well contracts hold on clean sessions, and what they would see: support, violations, power."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from verifierd.contracts.checks import check
from verifierd.contracts.engine import Contracts
from verifierd.contracts.tails import visible
from verifierd.types import Constraint, History, ObservationKind, Step

__all__ = ("Measured", "Violation", "measure", "support", "upper_bound")

_DRAWS = 3


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
        steps: Steps on which it was in force.
        sessions: The trajectories that these come from, with the number of steps of each.
        violations: The steps that violated it.
        drawn: Observations of the same tool from other trajectories that were put in place.
        refused: How many of these violated it.
    """

    steps: int = 0
    sessions: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)
    violations: list[Violation] = msgspec.field(default_factory=list)
    drawn: int = 0
    refused: int = 0

    @property
    def power(self) -> float | None:
        """Share of other trajectories' observations of the same tool that violate the rule; None if none was drawn."""
        return self.refused / self.drawn if self.drawn else None


def measure(contracts: Contracts, trajectories: Sequence[Sequence[Step]], *, seed: int = 0) -> dict[str, Measured]:
    """Apply the rules to trajectories that are taken to be clean.

    Args:
        contracts: The rules.
        trajectories: Each one's steps in order.
        seed: Draws the other trajectories' observations.

    Returns:
        What was found, by rule; rules that were never in force are left out.
    """
    pool = _Pool(trajectories, seed)
    result: dict[str, Measured] = {}
    for steps in trajectories:
        history = History(steps[0].key) if steps else History(("", ""))
        for step in steps:
            if step.observation_kind is ObservationKind.ENV and step.elided is None:
                for constraint in contracts.constraints(contracts.session(history), step):
                    _apply(constraint, step, pool, result)
            history.append(step)
    return result


def _apply(constraint: Constraint, step: Step, pool: "_Pool", result: dict[str, Measured]) -> None:
    outcome = check(constraint, visible(step), status=step.exit_code, succeeded=step.succeeded)
    if not outcome.applied:
        return
    measured = result.setdefault(constraint.rule, Measured())
    measured.steps += 1
    measured.sessions[step.key] = measured.sessions.get(step.key, 0) + 1
    if outcome.violated:
        measured.violations.append(
            Violation(rule=constraint.rule, step=step, found=outcome.found, constraint=constraint)
        )
        return
    for other in pool.others(step):
        swapped = check(constraint, other, status=step.exit_code, succeeded=step.succeeded)
        measured.drawn += 1
        measured.refused += swapped.violated


class _Pool:
    """Observations by tool, to draw those of other trajectories from."""

    def __init__(self, trajectories: Sequence[Sequence[Step]], seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a seeded draw, no secret
        self._by_tool: dict[str, list[tuple[tuple[str, str], str]]] = {}
        for steps in trajectories:
            for step in steps:
                if step.observation_kind is ObservationKind.ENV and step.elided is None:
                    self._by_tool.setdefault(_tool(step), []).append((step.key, visible(step)))

    def others(self, step: Step) -> Iterator[str]:
        """Some observations of the same tool from other trajectories."""
        found = self._by_tool.get(_tool(step), [])
        for _ in range(_DRAWS):
            for _ in range(20):
                key, text = self._random.choice(found)
                if key != step.key:
                    yield text
                    break


def _tool(step: Step) -> str:
    """Shells are one tool, whatever the agents call them."""
    return "shell" if step.action.command is not None else step.tool


def upper_bound(violated: int, cases: int, *, level: float = 0.95) -> float:
    """The exact one-sided upper bound of a share (Clopper-Pearson), by bisection of the binomial tail.

    Args:
        violated: How many of the cases violate.
        cases: How many there are; they must not depend on each other, so count sessions, not steps.
        level: The confidence.
    """
    if cases == 0 or violated >= cases:
        return 1.0
    low, high = violated / cases, 1.0
    for _ in range(60):
        share = (low + high) / 2
        tail = sum(math.comb(cases, k) * share**k * (1 - share) ** (cases - k) for k in range(violated + 1))
        low, high = (share, high) if tail > 1 - level else (low, share)
    return high


def support(measured: Mapping[str, Measured]) -> dict[str, str]:
    """What a document's `support` says, by rule."""
    return {
        rule: f"{{ steps = {m.steps}, sessions = {len(m.sessions)}, violated = {len(m.violations)}"
        + (f", power = {m.power:.2f}" if m.power is not None else "")
        + " }"
        for rule, m in sorted(measured.items())
    }
