"""What a labelled trajectory is, and how calls and labels of a case are put together to one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from verifierd.errors import FormatError, VerifierdError
from verifierd.replay.runs import Run
from verifierd.types import Action, ObservationKind, Origin, Step

__all__ = ("TRUTHS", "Call", "Label", "Labelled", "Marked", "Outcome", "Overlay", "Tell", "Trace", "Truth", "assemble")

Outcome = Literal["clean", "off_path", "failed_outcome", "unknown"]
"""What a label says of a whole trajectory; `failed_outcome`: it failed, and nobody knows where."""

Tell = Callable[[VerifierdError], None]
"""Told what is damaged, and therefore left out."""

_FORMAT = "labelled"
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class Truth(StrEnum):
    """What a label is the truth about. The two are never pooled."""

    ENVIRONMENT = "environment"
    AGENT = "agent"


TRUTHS = {
    "observation_injected": Truth.ENVIRONMENT,
    "observation_fault": Truth.ENVIRONMENT,
    "agent_error": Truth.AGENT,
    "agent_error_ternary": Truth.AGENT,
    "rogue_action": Truth.AGENT,
    "outcome_only": Truth.AGENT,
}
"""Kind of label -> what it is about."""


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """One labelled trajectory. Native positions count the set's own entries from 0.

    Attributes:
        run: The trajectory; its group is the set's: what belongs to one task or question.
        truth: What the labels are about.
        outcome: What the label of the whole trajectory says.
        bad: Index of each step that is off path.
        judged: Index of each step that carries a label at all; None for all of them.
        first_bad: Native position of the first bad entry, None if there is none.
        positions: Step index -> native position of its action.
        observed: Step index -> native position of its observation: the same where one entry holds both.
        kinds: Step index -> what kind of fault a bad step has, where the label says so.
        second: Native positions that a second label, made by others, finds decisive.
        unplaced: Bad native entries that are no call of a tool, so that no step carries them.
        length: Native entries in all.
    """

    run: Run
    truth: Truth
    outcome: Outcome
    bad: frozenset[int] = frozenset()
    judged: frozenset[int] | None = None
    first_bad: int | None = None
    positions: dict[int, int]
    observed: dict[int, int]
    kinds: dict[int, str] = {}
    second: frozenset[int] = frozenset()
    unplaced: int = 0
    length: int


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """One observation of a clean trajectory replaced. What follows it does not react, and is not to be scored.

    Attributes:
        marked: The clean trajectory.
        step: Index of the altered step.
        kind: Name of the fault, or of the benign change.
        benign: The change must not alarm.
        observation: What stands there instead.
    """

    marked: Marked
    step: int
    kind: str
    benign: bool
    observation: str


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """A labelled set.

    Attributes:
        name: Name of its folder.
        marked: Its trajectories; of overlays the clean ones that they alter, each once.
        overlays: Its altered observations.
    """

    name: str
    marked: list[Marked]
    overlays: list[Overlay] = []


class Call(msgspec.Struct, kw_only=True):
    """A call of a tool as a case has it.

    Attributes:
        position: Native position of the action.
        observed: Native position of the observation, None while there is none.
        id: The log's id of the call.
        observation: What came back, None while nothing did.
        action, domain, exit_code, is_error: As in `Step`.
        batch: Shared by the calls of one turn; None for a call alone.
    """

    position: int
    action: Action
    domain: str
    observed: int | None = None
    id: str | None = None
    observation: str | None = None
    exit_code: int | None = None
    is_error: bool | None = None
    batch: str | None = None


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a case: its calls in order, and how many native entries it has."""

    calls: Sequence[Call]
    length: int


class _Failure(msgspec.Struct, frozen=True):
    step_number: _Count
    failure_category: str = ""


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `labels.jsonl`; its steps are native positions counted from `step_base`.

    Attributes:
        case_id: The case.
        group: What belongs to one task or question.
        trajectory_label: What it says of the whole.
        label_kind: A name in `TRUTHS`.
        bad_steps, first_bad_step: What is bad.
        step_base: What the first entry's number is.
        changed_steps: Entries that differ from the clean twin's.
        step_labels: Entry -> 1 right, 0 neutral, -1 wrong.
        attack: How a text was injected.
        failures: Each failure with its category.
        agentrx_root_cause_step_1based: The step that others found decisive.
    """

    case_id: str
    group: str
    trajectory_label: Outcome = "unknown"
    label_kind: str
    bad_steps: list[_Count] = []
    first_bad_step: _Count | None = None
    step_base: Literal[0, 1] = 0
    changed_steps: list[_Count] = []
    step_labels: dict[int, int] = {}
    attack: str | None = None
    failures: list[_Failure] = []
    agentrx_root_cause_step_1based: _Count | None = None


def assemble(
    trace: Trace,
    label: Label,
    origin: Origin,
    *,
    judged: frozenset[int] | None = None,
    second: frozenset[int] = frozenset(),
) -> Marked:
    """The labelled trajectory that a case's calls and its label make.

    A label on an entry that holds a call's action or its observation is the label of that step.

    Args:
        trace: The calls.
        label: The label.
        origin: The line of the case.
        judged: Native positions that carry a label at all; None for all of them.
        second: As in `Marked`.

    Raises:
        FormatError: The label names a kind that is not known, or an entry that is not there.
    """
    truth = TRUTHS.get(label.label_kind)
    if truth is None:
        raise FormatError(
            f"label_kind {label.label_kind!r} is not known", hint=f"Known kinds of labels: {', '.join(TRUTHS)}."
        )
    bad = [step - label.step_base for step in label.bad_steps]
    first = min(bad, default=None) if label.first_bad_step is None else label.first_bad_step - label.step_base
    for position in [*bad, *second, *([] if first is None else [first])]:
        if not 0 <= position < trace.length:
            raise FormatError(
                f"the label names entry {position + label.step_base}, but the case's {trace.length} entries are "
                f"counted from {label.step_base}",
                hint="Correct the number, or step_base.",
            )
    steps = _steps(trace, label.case_id, origin)
    positions = {step.index: call.position for step, call in zip(steps, trace.calls, strict=True)}
    observed = {
        step.index: call.position if call.observed is None else call.observed
        for step, call in zip(steps, trace.calls, strict=True)
    }
    carried = {index: {position, observed[index]} for index, position in positions.items()}
    return Marked(
        run=Run(key=(_FORMAT, label.case_id), group=label.group, steps=steps),
        truth=truth,
        outcome=label.trajectory_label,
        bad=_holding(carried, bad),
        judged=None if judged is None else _holding(carried, judged),
        first_bad=first,
        positions=positions,
        observed=observed,
        kinds={
            index: kind
            for position in sorted(set(bad), reverse=True)  # of two failures in one step the first names it
            if (kind := _kind(label, position))
            for index in _holding(carried, [position])
        },
        second=second,
        unplaced=len(set(bad).difference(*carried.values())),
        length=trace.length,
    )


def _holding(carried: Mapping[int, set[int]], positions: Iterable[int]) -> frozenset[int]:
    """The steps whose action or observation stands at one of the positions."""
    wanted = set(positions)
    return frozenset(index for index, places in carried.items() if not places.isdisjoint(wanted))


def _kind(label: Label, position: int) -> str:
    categories = (f.failure_category for f in label.failures if f.step_number - label.step_base == position)
    return next(categories, label.attack or "")


def _steps(trace: Trace, trajectory: str, origin: Origin) -> list[Step]:
    batches: dict[str, list[Call]] = {}
    for call in trace.calls:
        if call.batch is not None:
            batches.setdefault(call.batch, []).append(call)
    return [
        Step(
            format=_FORMAT,
            trajectory=trajectory,
            index=index,
            action=call.action,
            observation=call.observation or "",
            observation_kind=ObservationKind.MISSING if call.observation is None else ObservationKind.ENV,
            domain=call.domain,
            exit_code=call.exit_code,
            is_error=call.is_error,
            batch=call.batch,
            siblings=tuple(other.action for other in batches.get(call.batch or "", ()) if other is not call),
            call_id=call.id,
            origin=origin,
        )
        for index, call in enumerate(trace.calls, 1)
    ]
