"""Whole trajectories of some files, told apart as the pipeline does, and what of them hangs together."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from verifierd.errors import FormatError, SourceError, VerifierdError
from verifierd.pipeline import numbered, strand_of
from verifierd.replay.survey import steps_of
from verifierd.types import Step, VerdictKind

__all__ = ("Group", "Run", "runs", "whole")

Group = Literal["session", "file"]


class Run(msgspec.Struct, kw_only=True):
    """One trajectory from its first step on.

    Attributes:
        key: Its key.
        group: Trajectories of one group hang together, and never end up in two parts.
        steps: Its steps.
        copied: Places of steps that an earlier one holds, too; they are history only.
    """

    key: tuple[str, str]
    group: str
    steps: list[Step] = msgspec.field(default_factory=list)
    copied: set[int] = msgspec.field(default_factory=set)

    @property
    def labelled(self) -> bool:
        """Is a step known to be off path?"""
        return any(step.label is VerdictKind.OFF_PATH for step in self.steps)


async def runs(
    paths: Iterable[Path | None],
    *,
    format: str = "auto",
    group: Group = "session",
    limit: int | None = None,
    tell: Callable[[VerifierdError], None] = lambda _error: None,
) -> list[Run]:
    """The trajectories of some files, told apart as the pipeline does.

    Args:
        paths: The files; None is standard input.
        format: A format's name, or `auto`.
        group: What hangs together: a session with its sub-agents, or a file. Sessions that share copied steps do.
        limit: As many whole trajectories are taken as have no more steps than this, at least one.
        tell: Told why a file is skipped.
    """
    found: list[Run] = []
    going: dict[tuple[str, ...], Run] = {}
    owners: dict[str, Run] = {}
    joined: dict[str, str] = {}
    for path in paths:
        try:
            steps = await steps_of(path, format=format)
        except (SourceError, FormatError) as error:
            tell(error)
            continue
        for step in steps:
            strand = strand_of(step)
            run = going.get(strand)
            if run is None or (numbered(step) and step.index == 1):
                session = f"{step.format} {step.trajectory.split('/')[0]}"
                name = str(path) if group == "file" else f"{session} of {path}" if numbered(step) else session
                run = going[strand] = Run(key=step.key, group=name)
                found.append(run)
            _add(run, step, owners, joined)
    for run in found:
        run.group = _leader(run.group, joined)
    return whole(found, limit)


def _add(run: Run, step: Step, owners: dict[str, Run], joined: dict[str, str]) -> None:
    """Add a step; one that an earlier trajectory has joins the groups of the two."""
    ids = [step.step_id] if step.copy_id is None else [step.step_id, step.copy_id]
    owner = next((owners[known] for known in ids if known in owners), None)
    if owner is run and owners.get(step.step_id) is run:
        return  # read twice
    if owner is not None and owner is not run:
        run.copied.add(len(run.steps))
        one, other = _leader(owner.group, joined), _leader(run.group, joined)
        if one != other:
            joined[other] = one
    for known in ids:
        owners.setdefault(known, run)
    run.steps.append(step)


def _leader(group: str, joined: dict[str, str]) -> str:
    while group in joined:
        group = joined[group]
    return group


def whole(found: list[Run], limit: int | None) -> list[Run]:
    """As many of the trajectories as have no more steps than a limit together, at least one; all without one."""
    if limit is None:
        return found
    taken = 0
    for number, run in enumerate(found):
        taken += len(run.steps)
        if taken > limit:
            return found[: max(1, number)]
    return found
