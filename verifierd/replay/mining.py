"""Reads clean logs whole, to measure contracts on them and to propose new ones: `verifierd contracts mine`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from verifierd.contracts.document import LEAST_POWER, Family, Rule, bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.measure import Measured, disagreement, measure, upper_bound
from verifierd.contracts.propose import Proposal, propose
from verifierd.errors import FormatError, SourceError, VerifierdError
from verifierd.replay.survey import steps_of
from verifierd.sanitize import Sanitizer, plain
from verifierd.scoring.contracts import uncoloured
from verifierd.types import Check, Step

__all__ = ("fragment", "mine", "proposal_row", "rule_row", "rules", "trajectories")

_SANITIZER = Sanitizer(b"mine")
_QUOTE = 400


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


def rules(families: Mapping[str, Family] | None = None) -> list[dict[str, Any]]:
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
            **_support(rule),
            "covers": (rule.support.power or 0.0) >= LEAST_POWER,
        }
        for name, family in documents.items()
        for rule in family.rule
    ]


def _support(rule: Rule) -> dict[str, Any]:
    """A document's support with the bounds that follow; of its violations each may be another session's."""
    said = rule.support
    return {
        "steps": said.steps,
        "sessions": said.sessions,
        "violated": said.violated,
        "power": said.power,
        "bound": upper_bound(said.violated, said.steps) if said.steps else None,
        "session_bound": upper_bound(min(said.violated, said.sessions), said.sessions) if said.sessions else None,
    }


def mine(
    steps: Sequence[Sequence[Step]], *, seed: int = 0, on: Callable[[int], None] = lambda _steps: None
) -> tuple[list[dict[str, Any]], list[Proposal]]:
    """How the bundled rules did on clean sessions, and what else held on them.

    Args:
        steps: Trajectories taken to be clean.
        seed: Draws other sessions' observations.
        on: Told how many steps of a trajectory are done, after each.

    Returns:
        A row for each rule, those first that are a document's own, and proposals.
    """
    contracts = Contracts(bundled())
    measured = measure(contracts, steps, seed=seed, text=_uncoloured, on=on)
    families = {rule.id: name for name, family in bundled().items() for rule in family.rule}
    rows = [
        rule_row(rule.id, measured.get(rule.id, Measured()), rule, families[rule.id])
        for rule in contracts.rules.values()
    ]
    rows += [rule_row(name, found) for name, found in sorted(measured.items()) if name not in contracts.rules]
    known = _known(contracts, measured)
    return rows, list(propose(steps, contracts.programs, known=known, seed=seed, text=_uncoloured))


def _uncoloured(step: Step) -> str:
    return uncoloured(step).value


def _known(contracts: Contracts, measured: Mapping[str, Measured]) -> dict[tuple[str, Check], Measured]:
    """Where rules were in force, by the programs and tools that they concern and what they check."""
    known: dict[tuple[str, Check], Measured] = {}
    for name, found in measured.items():
        for rule in filter(None, map(contracts.rules.get, name.split("+"))):
            for concerned in (*rule.programs, *rule.tools):
                known.setdefault((concerned, rule.check), Measured()).on.extend(found.on)
    return known


def rule_row(name: str, found: Measured, rule: Rule | None = None, family: str | None = None) -> dict[str, Any]:
    """One rule's measurement as JSON; what is quoted is redacted.

    Args:
        name: The rule, or several that were checked together (`one+other`).
        found: What was measured.
        rule: As the document has it; None for several together.
        family: The document.
    """
    problem = disagreement(rule, found) if rule is not None and found.steps else None
    return {
        "rule": name,
        "family": family,
        "deciding": None if rule is None else rule.deciding,
        "steps": found.steps,
        "sessions": len(found.sessions),
        "violated": len(found.violations),
        "sessions_violated": found.broken,
        "bound": upper_bound(len(found.violations), found.steps) if found.steps else None,
        "session_bound": upper_bound(found.broken, len(found.sessions)) if found.steps else None,
        "power": found.power,
        "document": None if rule is None else _support(rule),
        "agrees": None if problem is None else not problem,
        "disagreement": problem or None,
        "violations": [
            {
                "path": plain(violation.step.origin.path),
                "trajectory": plain(violation.step.trajectory),
                "step": violation.step.index,
                "action": _quoted(violation.step.action.text),
                "says": _quoted(violation.constraint.detail),
                "found": _quoted(violation.found),
            }
            for violation in found.violations
        ],
    }


def proposal_row(proposal: Proposal) -> dict[str, Any]:
    """A proposal as JSON, with its fragment; what is quoted is redacted."""
    names = (
        "id", "name", "tool", "says", "check", "text", "high", "needs", "fact",
        "steps", "sessions", "violated", "broken", "bound", "power",
    )  # fmt: skip
    row = {name: getattr(proposal, name) for name in names}
    row["sessions_violated"] = row.pop("broken")
    row["session_bound"] = row.pop("bound")
    return {**row, "toml": fragment(proposal)}


def fragment(proposal: Proposal) -> str:
    """A proposal as TOML; what is quoted is redacted."""
    return proposal.toml(_SANITIZER.text)


def _quoted(text: str) -> str:
    return plain(_SANITIZER.text(text, _QUOTE))
