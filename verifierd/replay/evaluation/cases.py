"""What is evaluated: trajectories with what is known of their steps, and which changes are injected into them."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from verifierd.replay.inject import BENIGN, FAULTS, Injected, Pool, difference, drawn, inject
from verifierd.replay.labelled import Labelled, Marked, Overlay, Truth
from verifierd.replay.runs import Run, whole
from verifierd.types import History, ObservationKind, Step, VerdictKind

__all__ = ("CLEAN", "LABELLED", "Altered", "Cases", "Injection", "Subject", "of_runs", "of_sets")

CLEAN = "clean"
"""The kind of an observation as it was logged, where nothing is known against it."""

LABELLED = "labelled"
"""The kind of one that a label calls off path without saying how."""


class Injection(msgspec.Struct, frozen=True, kw_only=True):
    """Which changes are injected.

    Attributes:
        kinds: Names in `FAULTS` and `BENIGN`.
        rate: The share of eligible steps that is changed, drawn for each kind.
        seed: Draws steps and changes.
    """

    kinds: tuple[str, ...] = (*FAULTS, *BENIGN)
    rate: float = 1.0
    seed: int = 0


class Altered(msgspec.Struct, frozen=True, kw_only=True):
    """A step with another observation than was logged.

    Attributes:
        step: The step as it would have been logged.
        kind: The kind of change.
        benign: It must not alarm.
        known: Does what was altered stand in the history, so that it could be told?
        span: Where it differs; None if only the status does.
    """

    step: Step
    kind: str
    benign: bool
    known: bool
    span: tuple[int, int] | None


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A trajectory, what is known of it, and what is to be put into its steps.

    Attributes:
        run: Its steps.
        environment: Truth of observations: place in `run.steps` -> is it off path? What is not named is not counted.
        agent: Truth of actions: place -> was it an error? Likewise.
        kinds: Kinds of what is off path, by place, where a label says so.
        marked: The labels as they were given.
        overlays: Observations to put in place of the logged ones, by place.
    """

    run: Run
    environment: dict[int, bool]
    agent: dict[int, bool]
    kinds: dict[int, str]
    marked: Sequence[Marked]
    overlays: dict[int, list[Overlay]]

    @property
    def clean(self) -> bool:
        """Is no observation of it known to be off path?"""
        return not any(self.environment.values())

    def kind(self, place: int) -> str:
        """What is known of an observation as it was logged: `clean`, or how it is off path."""
        return self.kinds.get(place, LABELLED) if self.environment.get(place) else CLEAN


class Cases(msgspec.Struct, frozen=True, kw_only=True):
    """All that is evaluated.

    Attributes:
        subjects: The trajectories.
        injection: What is injected; None for nothing.
        pool: What other trajectories saw, to borrow from.
    """

    subjects: Sequence[Subject]
    injection: Injection | None
    pool: Pool

    @property
    def steps(self) -> int:
        """Steps of all trajectories."""
        return sum(len(subject.run.steps) for subject in self.subjects)

    @property
    def expected(self) -> int:
        """About how many observations will be judged: of the kinds of changes a step is eligible for half or so."""
        kinds = 0.0 if self.injection is None else len(self.injection.kinds) * self.injection.rate / 2
        overlays = sum(len(found) for subject in self.subjects for found in subject.overlays.values())
        return round(self.steps * (1 + kinds)) + overlays

    def altered(self, subject: Subject, place: int, history: History) -> Iterator[Altered]:
        """The other observations that a step gets, in a fixed order.

        Changes are injected where all of the trajectory, and the step itself, count as clean.
        """
        step = subject.run.steps[place]
        for overlay in subject.overlays.get(place, ()):
            span, known = difference(step, overlay.observation, history)
            yield Altered(
                step=msgspec.structs.replace(step, observation=overlay.observation),
                kind=overlay.kind,
                benign=overlay.benign,
                known=known,
                span=span,
            )
        if self.injection is None or not subject.clean or place not in subject.environment:
            return
        for kind in self.injection.kinds:
            if drawn(kind, step, self.injection.rate, seed=self.injection.seed):
                found = inject(kind, step, history, self.pool, seed=self.injection.seed)
                if found is not None:
                    yield _altered(found)


def _altered(found: Injected) -> Altered:
    return Altered(
        step=found.step,
        kind=found.kind,
        benign=found.label is VerdictKind.ON_PATH,
        known=found.known,
        span=found.span,
    )


def of_runs(found: Iterable[Run], marked: Iterable[Marked], injection: Injection | None) -> Cases:
    """Cases of agents' logs.

    Args:
        found: The trajectories. Where nobody says otherwise their observations are taken to be true.
        marked: What labels say of some of them; of one trajectory those of each truth together.
        injection: What is injected.
    """
    labels: dict[int, list[Marked]] = {}
    for one in marked:
        labels.setdefault(id(one.run), []).append(one)  # several runs may bear one name
    return _cases((_subject(run, labels.get(id(run), ())) for run in found), injection)


def of_sets(sets: Sequence[Labelled], injection: Injection | None, *, limit: int | None = None) -> Cases:
    """Cases of labelled sets. A trajectory of several sets, as one that another alters, is there once.

    Args:
        sets: The sets.
        injection: What is injected.
        limit: As many whole trajectories are taken as have no more steps than this, at least one.
    """
    overlays = [overlay for one in sets for overlay in one.overlays]
    names: dict[int, tuple[str, ...]] = {}
    labels: dict[tuple[str, ...], dict[Truth, Marked]] = {}
    for marked in [*(marked for one in sets for marked in one.marked), *(overlay.marked for overlay in overlays)]:
        if id(marked) not in names:
            name = names[id(marked)] = (*marked.run.key, *(step.step_id for step in marked.run.steps))
            labels.setdefault(name, {}).setdefault(marked.truth, marked)
    subjects = {name: _subject(next(iter(by.values())).run, [*by.values()]) for name, by in labels.items()}
    for overlay in overlays:
        subject = subjects[names[id(overlay.marked)]]
        place = next(place for place, step in enumerate(subject.run.steps) if step.index == overlay.step)
        others = subject.overlays.setdefault(place, [])
        if all((other.kind, other.observation) != (overlay.kind, overlay.observation) for other in others):
            others.append(overlay)
    within = {id(run) for run in whole([subject.run for subject in subjects.values()], limit)}
    return _cases((subject for subject in subjects.values() if id(subject.run) in within), injection)


def _cases(subjects: Iterable[Subject], injection: Injection | None) -> Cases:
    kept = list(subjects)
    pool = Pool(step for subject in kept if injection is not None and subject.clean for step in subject.run.steps)
    return Cases(subjects=kept, injection=injection, pool=pool)


def _subject(run: Run, marked: Sequence[Marked]) -> Subject:
    """Observations count as true unless a label says otherwise; actions only where a label says something."""
    judged = [
        place
        for place, step in enumerate(run.steps)
        if step.observation_kind is ObservationKind.ENV and place not in run.copied
    ]
    subject = Subject(
        run=run,
        environment=dict.fromkeys(judged, False),
        agent={},
        kinds={},
        marked=marked,
        overlays={},
    )
    for one in marked:
        for place in judged:
            _mark(subject, one, place)
    return subject


def _mark(subject: Subject, marked: Marked, place: int) -> None:
    index = subject.run.steps[place].index
    bad = index in marked.bad
    told = bad or marked.judged is None or index in marked.judged
    if marked.truth is Truth.AGENT:
        if bad or (told and marked.outcome != "failed_outcome"):  # of a failed run nobody knows which steps were good
            subject.agent[place] = bad
        return
    if told:
        subject.environment[place] = bad
    else:
        subject.environment.pop(place, None)
    if bad and index in marked.kinds:
        subject.kinds[place] = marked.kinds[index]
