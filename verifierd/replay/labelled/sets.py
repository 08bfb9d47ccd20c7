"""Which labelled set a folder holds, and its trajectories."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from verifierd.errors import FormatError, SourceError, VerifierdError
from verifierd.replay.labelled import agentdojo, hotpotqa, overlays, tau, whowhen
from verifierd.replay.labelled.base import Label, Labelled, Marked, Tell, Trace, assemble
from verifierd.replay.labelled.lines import Line, objects
from verifierd.sanitize import plain

__all__ = ("is_set", "read_set")

_NAMES = ("cases.jsonl.gz", "cases.jsonl", "overlays.jsonl.gz", "overlays.jsonl")
_LABELS = ("labels.jsonl", "labels.jsonl.gz")
_HEAD = 16  # lines looked at to see what a file is


class _Shape(NamedTuple):
    """How cases of one shape are read.

    Attributes:
        trace: The calls of a raw case.
        judged: Native positions that a label judges at all.
        second: Native positions that other people's label finds decisive.
    """

    trace: Callable[[dict[str, Any]], Trace]
    judged: Callable[[Label, int], frozenset[int] | None]
    second: Callable[[Label], frozenset[int]] = lambda _label: frozenset()


_SHAPES = {
    "steps": _Shape(agentdojo.trace, agentdojo.judged),
    "traj": _Shape(tau.trace, tau.judged),
    "messages": _Shape(hotpotqa.trace, hotpotqa.judged),
    "history": _Shape(whowhen.trace, whowhen.judged, whowhen.second),
}
"""The field of a raw case that holds what happened -> how to read it."""


def is_set(path: Path) -> bool:
    """Is this a labelled set, its folder or its file? Nothing but the head of the file is read."""
    try:
        return _kind(_file(path)) is not None
    except VerifierdError:
        return False


def read_set(path: Path, *, bases: Path | None = None, tell: Tell = lambda _error: None) -> Labelled:
    """A labelled set. What is damaged is told and left out.

    Args:
        path: Its folder, or its file of cases or overlays; the labels of cases lie beside them.
        bases: The folder of the sets whose cases are overlaid; None for the set's own siblings.
        tell: Told what is left out, with file and line.

    Raises:
        SourceError: The file or its labels cannot be read.
        FormatError: It is no labelled set, or nothing in it can be read.
    """
    file = _file(path)
    name = plain(file.resolve().parent.name)
    match _kind(file):
        case "overlays":
            found = overlays.read(file, lambda base: _base(bases or file.resolve().parent.parent, base, tell), tell)
            clean = {overlay.marked.run.key: overlay.marked for overlay in found}
            labelled = Labelled(name=name, marked=list(clean.values()), overlays=found)
        case "cases":
            labelled = Labelled(name=name, marked=_marked(file, tell))
        case None:
            raise FormatError(
                f"{file}: is no labelled set",
                hint='A line of a set is {"case_id", "raw"} or an overlay with "base_case_id".',
            )
    if not labelled.marked:
        raise FormatError(f"{file}: no case in it can be read", hint="The lines above say why.")
    return labelled


def _file(path: Path) -> Path:
    """The file of cases or overlays that a path names.

    Raises:
        SourceError: There is none.
    """
    for file in [path / name for name in _NAMES] if path.is_dir() else [path]:
        if file.is_file():
            return file
    raise SourceError(
        f"{path}: holds no labelled set", hint=f"Name a folder with {_NAMES[0]} or {_NAMES[2]}, or such a file."
    )


def _kind(file: Path) -> str | None:
    """What the first lines of a file are: `cases`, `overlays`, or None for neither."""
    for line in itertools.islice(objects(file, lambda _error: None), _HEAD):
        if "base_case_id" in line.value:
            return "overlays"
        return "cases" if "case_id" in line.value and isinstance(line.value.get("raw"), dict) else None
    return None


def _base(folder: Path, name: str, tell: Tell) -> dict[str, Marked]:
    """The trajectories of a set that is overlaid, by their case.

    Raises:
        SourceError: There is no such set.
        FormatError: It has no cases.
    """
    if Path(name).name != name or name == "..":
        raise SourceError(f"base_set {plain(repr(name))} is no name of a folder", hint="Name a folder of cases.")
    file = _file(folder / name)
    if _kind(file) != "cases":
        raise FormatError(f"{file}: holds no cases to alter", hint="Overlays alter a set of cases.")
    return {marked.run.key[1]: marked for marked in _marked(file, tell)}


def _marked(file: Path, tell: Tell) -> list[Marked]:
    """The labelled cases of a file.

    Raises:
        SourceError: The file or its labels cannot be read.
    """
    labels = _labels(file, tell)
    found: dict[str, Marked] = {}
    met: set[str] = set()
    for line in objects(file, tell):
        name = line.value.get("case_id")
        if not isinstance(name, str) or name not in labels or name in met:
            problem = "stands here a second time" if name in met else f"has no label in {_LABELS[0]}"
            tell(FormatError(f"{line.place}: case {plain(str(name))} {problem}", hint="It is left out."))
            continue
        met.add(name)
        try:
            found[name] = _case(line, labels[name])
        except FormatError as error:
            tell(FormatError(f"{line.place}: case {plain(name)} {plain(error.message)}", hint=error.hint))
    if rest := labels.keys() - met:
        some = plain(min(rest))
        tell(FormatError(f"{file}: has no case for {len(rest)} labels, as for {some}", hint="They are left out."))
    return list(found.values())


def _case(line: Line, label: Label) -> Marked:
    """A case with its label.

    Raises:
        FormatError: The case has no shape that is known, or the label does not fit it.
    """
    raw = line.value.get("raw")
    shape = next((shape for key, shape in _SHAPES.items() if isinstance(raw, dict) and key in raw), None)
    if shape is None or not isinstance(raw, dict):
        raise FormatError("has no shape that is known", hint=f'"raw" has one of the fields {", ".join(_SHAPES)}.')
    try:
        trace = shape.trace(raw)
    except msgspec.ValidationError as error:
        raise FormatError(f"cannot be read: {error}", hint="It is left out. Fetch the set again.") from error
    return assemble(trace, label, line.origin, judged=shape.judged(label, trace.length), second=shape.second(label))


def _labels(file: Path, tell: Tell) -> dict[str, Label]:
    """The labels beside a file of cases, by case.

    Raises:
        SourceError: There are none, or they cannot be read.
    """
    beside = next((place for name in _LABELS if (place := file.parent / name).is_file()), None)
    if beside is None:
        raise SourceError(f"{file}: has no {_LABELS[0]} beside it", hint="The labels of a set lie in its folder.")
    found: dict[str, Label] = {}
    for line in objects(beside, tell):
        try:
            label = msgspec.convert(line.value, Label, str_keys=True)
        except msgspec.ValidationError as error:
            tell(FormatError(f"{line.place}: {plain(str(error))}", hint="This label is left out, and so is its case."))
            continue
        if label.case_id in found:
            tell(
                FormatError(
                    f"{line.place}: case {plain(label.case_id)} has another label before", hint="The last one counts."
                )
            )
        found[label.case_id] = label
    return found
