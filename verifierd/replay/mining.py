"""Reads clean logs whole, to measure contracts on them and to propose new ones: `verifierd contracts mine`."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from verifierd.contracts.document import Family, bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.measure import Measured, measure, upper_bound
from verifierd.contracts.propose import Proposal, propose
from verifierd.errors import FormatError, SourceError, VerifierdError
from verifierd.replay.survey import steps_of
from verifierd.sanitize import Sanitizer, plain
from verifierd.types import Step

__all__ = ("mine", "rule_row", "rules", "trajectories")


async def trajectories(
    paths: Iterable[Path | None],
    *,
    format: str = "auto",
    on: Callable[[Path | None], None] = lambda _path: None,
    tell: Callable[[VerifierdError], None] = lambda _error: None,
) -> list[list[Step]]:
    """The steps of every trajectory in some files, each in the order of its log.

    Args:
        paths: The files; None is standard input.
        format: A format's name, or `auto`.
        on: Told each file that is done.
        tell: Told why a file is skipped.
    """
    found: dict[tuple[Path | None, tuple[str, str]], list[Step]] = {}
    for path in paths:
        try:
            for step in await steps_of(path, format=format):
                found.setdefault((path, step.key), []).append(step)
        except (SourceError, FormatError) as error:
            tell(error)
        on(path)
    return list(found.values())


def rules(families: dict[str, Family] | None = None) -> list[dict[str, Any]]:
    """Every rule of the documents with its support, as JSON."""
    documents = families if families is not None else bundled()
    return [
        {
            "rule": rule.id,
            "family": name,
            "says": rule.says,
            "check": rule.check.value,
            "concerns": [*rule.programs, *rule.tools],
            "deciding": rule.deciding,
            "steps": rule.support.steps,
            "sessions": rule.support.sessions,
            "violated": rule.support.violated,
            "power": rule.support.power,
            "covers": (rule.support.power or 0.0) >= 0.5,
        }
        for name, family in documents.items()
        for rule in family.rule
    ]


def mine(steps: Sequence[Sequence[Step]], *, seed: int = 0) -> tuple[list[dict[str, Any]], list[Proposal]]:
    """How the bundled rules did on clean sessions, and what else held on them.

    Args:
        steps: Trajectories taken to be clean.
        seed: Draws other sessions' observations.

    Returns:
        A row for each rule that was in force, and proposals.
    """
    contracts = Contracts(bundled())
    measured = measure(contracts, steps, seed=seed)
    rows = [rule_row(rule, found) for rule, found in sorted(measured.items())]
    return rows, list(propose(steps, contracts.programs, seed=seed))


def rule_row(rule: str, found: Measured) -> dict[str, Any]:
    """One rule's measurement as JSON; what is quoted is redacted."""
    clean = Sanitizer(b"mine").text
    broken = {violation.step.key for violation in found.violations}
    return {
        "rule": rule,
        "steps": found.steps,
        "sessions": len(found.sessions),
        "violated": len(found.violations),
        "sessions_violated": len(broken),
        "bound": upper_bound(len(broken), len(found.sessions)),
        "power": found.power,
        "violations": [
            {
                "path": plain(violation.step.origin.path),
                "trajectory": plain(violation.step.trajectory),
                "step": violation.step.index,
                "says": plain(clean(violation.constraint.detail)),
                "found": plain(clean(violation.found)),
            }
            for violation in found.violations
        ],
    }
