"""A label file that anyone can write, one JSON object a line, and labels that logs carry themselves.

    {"id": STEP_ID, "label": "off_path"}
    {"trajectory": NAME, "step": 3, "label": "off_path", "truth": "agent", "kind": "typo", "by": "me", "note": "..."}
    {"trajectory": NAME, "label": "clean"}

`label` is `on_path`, `off_path`, `unsure` (the step is not judged), or `undo`, which takes the step's newest label
back. An id may be the beginning of one, as a daemon takes it. The last label of a step wins; what the log itself says
counts as said first, and can only be overruled. `truth` is `environment` unless it says `agent`. Steps that no line
names are not judged where a line names another step of their trajectory, but for those of a trajectory that is called
`clean`: they are on path.
"""

import bisect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from verifierd.errors import FormatError
from verifierd.labels import SHORTEST
from verifierd.replay.labelled.base import TRUTHS, Marked, Tell, Truth
from verifierd.replay.labelled.lines import objects
from verifierd.replay.runs import Run
from verifierd.sanitize import plain
from verifierd.types import Step, VerdictKind

__all__ = ("StepLabel", "marked", "marked_by_logs", "read_labels")


_WORDS: dict[VerdictKind | None, Literal["on_path", "off_path"]] = {
    VerdictKind.ON_PATH: "on_path",
    VerdictKind.OFF_PATH: "off_path",
}
"""What logs may say of a step."""


class StepLabel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody said of a step, or `clean` of a whole trajectory.

    Attributes:
        id: The step's id, or its beginning; else `trajectory` names it, with `step`, its index.
        label: What it is.
        truth: What the label is about.
        kind: What kind of fault.
        by, note, time: Who said so, why, and when; the order of the lines is what counts.
        place: `file:line`.
    """

    id: str | None = None
    trajectory: str | None = None
    step: Annotated[int, msgspec.Meta(ge=1)] | None = None
    label: Literal["on_path", "off_path", "unsure", "undo", "clean"]
    truth: Truth = Truth.ENVIRONMENT
    kind: str = ""
    by: str = ""
    note: str = ""
    time: str | float | None = None
    place: str = ""


def read_labels(path: Path, *, tell: Tell = lambda _error: None) -> list[StepLabel]:
    """The labels of a file, plain or in gzip. A line that is none is told and left out.

    Raises:
        SourceError: The file cannot be read.
    """
    found = []
    for line in objects(path, tell):
        try:
            label = msgspec.convert({**line.value, "place": line.place}, StepLabel)
            problem = _problem(label)
        except msgspec.ValidationError as error:
            problem = str(error)
        if problem is None:
            found.append(label)
            continue
        tell(
            FormatError(
                f"{line.place}: the label is left out: {plain(problem)}",
                hint='A label is {"id": ..., "label": "off_path"}, or has "trajectory" and "step" in place of "id".',
            )
        )
    return found


def _problem(label: StepLabel) -> str | None:
    if (label.id is None) == (label.trajectory is None):
        return "it names a step by `id`, or by `trajectory` and `step`"
    if label.id is not None and label.step is not None:
        return "`step` goes with `trajectory`, not with `id`"
    if (label.label == "clean") == (label.step is not None or label.id is not None):
        return "`clean` is said of a whole trajectory, all else of one step"
    return None


class _Said(msgspec.Struct):
    """What was said of one trajectory: of its steps by their place, newest last, and of the whole."""

    logged: dict[int, StepLabel] = msgspec.field(default_factory=dict)
    steps: dict[int, list[StepLabel]] = msgspec.field(default_factory=dict)
    clean: set[Truth] = msgspec.field(default_factory=set)

    def of(self, truth: Truth) -> dict[int, StepLabel]:
        """What holds of each step that something was said of."""
        found = {place: label for place, label in self.logged.items() if label.truth is truth}
        for place, labels in self.steps.items():
            if mine := [label for label in labels if label.truth is truth]:
                found[place] = mine[-1]
        return found


def marked(
    runs: Sequence[Run], labels: Iterable[StepLabel], *, ids: Callable[[Step], Iterable[str]] = lambda _step: ()
) -> tuple[list[Marked], list[StepLabel]]:
    """The trajectories that labels or their own logs speak of, one for each truth, and the labels of no step here.

    A name that several trajectories bear says nothing of any of them: only ids tell their steps apart.

    Args:
        runs: The trajectories.
        labels: What is said of them, beside what their logs say.
        ids: Other ids of a step that labels may name it by, such as those of its verdicts.
    """
    said = [_logged(run) for run in runs]
    by_id: dict[str, list[tuple[int, int]]] = {}
    by_name: dict[str, set[int]] = {}
    by_index: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for number, run in enumerate(runs):
        by_name.setdefault(run.key[1], set()).add(number)
        for place, step in enumerate(run.steps):
            for known in (step.step_id, *ids(step)):
                by_id.setdefault(known, []).append((number, place))
            by_index.setdefault((run.key[1], step.index), []).append((number, place))
    names = sorted(by_id)
    unmatched = []
    for label in labels:
        name = label.trajectory or ""
        if label.id is not None:
            places = by_id.get(_whole(label.id, names), [])
        elif label.step is not None and len(by_name.get(name, ())) == 1:
            places = by_index.get((name, label.step), [])
        else:
            places = []
        if label.label == "clean" and len(by_name.get(name, ())) == 1:
            said[min(by_name[name])].clean.add(label.truth)
        elif not places:
            unmatched.append(label)
        for number, place in places:
            _say(said[number].steps.setdefault(place, []), label)
    return [found for run, what in zip(runs, said, strict=True) for found in _each_truth(run, what)], unmatched


def _whole(given: str, known: Sequence[str]) -> str:
    """The one id that is given or begins so, as a daemon takes it; what is given where there is none, or several."""
    name = given.strip().lower()
    first = bisect.bisect_left(known, name)
    alike = [one for one in known[first : first + 2] if one.startswith(name)]
    return alike[0] if len(alike) == 1 and len(name) >= SHORTEST else name


def marked_by_logs(runs: Sequence[Run]) -> list[Marked]:
    """The trajectories whose logs say of some steps whether they are on path; the other steps are not judged."""
    return marked(runs, ())[0]


def _logged(run: Run) -> _Said:
    said = _Said()
    for place, step in enumerate(run.steps):
        if step.label in _WORDS:
            kind = step.label_kind or ""
            truth = TRUTHS.get(kind, Truth.ENVIRONMENT)
            said.logged[place] = StepLabel(label=_WORDS[step.label], truth=truth, kind=kind)
    return said


def _say(labels: list[StepLabel], label: StepLabel) -> None:
    if label.label != "undo":
        labels.append(label)
    elif labels:
        labels.pop()


def _each_truth(run: Run, said: _Said) -> list[Marked]:
    found = []
    spoken = {place for truth in Truth for place in said.of(truth)}
    for truth in Truth:
        last, clean = said.of(truth), truth in said.clean
        if not last and not clean:
            continue
        firm = {place: label for place, label in last.items() if label.label != "unsure"}
        judged = set(range(len(run.steps))) - (spoken - firm.keys()) if clean else set(firm)
        bad = {place for place, label in firm.items() if label.label == "off_path"}
        index = [step.index for step in run.steps]
        found.append(
            Marked(
                run=run,
                truth=truth,
                outcome="off_path" if bad else "clean" if clean else "unknown",
                bad=frozenset(index[place] for place in bad),
                judged=None if len(judged) == len(run.steps) else frozenset(index[place] for place in judged),
                first_bad=min(bad, default=None),
                positions={step: place for place, step in enumerate(index)},
                observed={step: place for place, step in enumerate(index)},
                kinds={index[place]: firm[place].kind for place in bad if firm[place].kind},
                length=len(run.steps),
            )
        )
    return found
