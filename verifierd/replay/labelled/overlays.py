"""Fault overlays: one observation of a clean case replaced, by a fault or by a change that must not alarm."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from verifierd.errors import FormatError, VerifierdError
from verifierd.replay.labelled.base import Marked, Overlay, Tell
from verifierd.replay.labelled.lines import objects
from verifierd.sanitize import plain

__all__ = ("read",)


class _Line(msgspec.Struct, frozen=True):
    base_set: str
    base_case_id: str
    step: Annotated[int, msgspec.Meta(ge=0)]
    kind: str
    benign: bool
    original: str
    observation: str
    step_base: Literal[0, 1] = 0


def read(file: Path, base: Callable[[str], Mapping[str, Marked]], tell: Tell) -> list[Overlay]:
    """The overlays of a file; one that does not fit onto its base is told and left out.

    Args:
        file: The overlays, a line each.
        base: The trajectories of a set by their case; asked once for each set. If it cannot be read, that is told, too.
        tell: Told what is left out.

    Raises:
        SourceError: The file cannot be read.
    """
    bases: dict[str, Mapping[str, Marked] | None] = {}
    found: list[Overlay] = []
    lost: Counter[str] = Counter()
    for line in objects(file, tell):
        try:
            given = msgspec.convert(line.value, _Line)
            if given.base_set not in bases:
                bases[given.base_set] = _told(base, given.base_set, tell)
            if (cases := bases[given.base_set]) is None:
                lost[given.base_set] += 1
            else:
                found.append(_overlay(given, cases.get(given.base_case_id)))
        except (msgspec.ValidationError, _UnfitError) as error:
            tell(
                FormatError(
                    f"{line.place}: the overlay is left out: {plain(str(error))}",
                    hint="Overlays fit the very cases that they were made from. Fetch both again.",
                )
            )
    for name, count in lost.items():
        tell(
            FormatError(
                f"{file}: {count} overlays of {plain(name)} are left out", hint="Fetch the set that they alter."
            )
        )
    return found


def _told(base: Callable[[str], Mapping[str, Marked]], name: str, tell: Tell) -> Mapping[str, Marked] | None:
    """A set that is altered; None if it cannot be read, which is told."""
    try:
        return base(name)
    except VerifierdError as error:
        tell(error)
        return None


class _UnfitError(Exception):
    """An overlay does not fit onto what it is to alter."""


def _overlay(given: _Line, marked: Marked | None) -> Overlay:
    if marked is None:
        raise _UnfitError(f"{given.base_set} has no case {given.base_case_id}")
    if marked.outcome != "clean":
        raise _UnfitError(f"case {given.base_case_id} is not clean")
    place = given.step - given.step_base
    step = next((step for step in marked.run.steps if marked.observed[step.index] == place), None)
    if step is None:
        raise _UnfitError(f"entry {given.step} of case {given.base_case_id} is no observation")
    if step.observation != given.original:
        raise _UnfitError(f"entry {given.step} of case {given.base_case_id} is not the original that it names")
    return Overlay(marked=marked, step=step.index, kind=given.kind, benign=given.benign, observation=given.observation)
