"""Seeded changes of one observation, for measuring: faults that must be seen, and benign changes that must not alarm.

Pure: a clean step with its history in, an altered step out, with the truth about it. Each change is a case of its own.
To add a kind, write a function that yields the edits to choose from, in the order in which it draws them, and name it
in `FAULTS` or `BENIGN`.
"""

import random
from collections.abc import Sequence

import msgspec
from rapidfuzz.distance import Postfix, Prefix

from verifierd.replay.benign import BENIGN
from verifierd.replay.edits import Case, Edit, Pool
from verifierd.replay.faults import FAULTS
from verifierd.scoring.classes import runtime
from verifierd.scoring.contracts import uncoloured
from verifierd.scoring.equality import equal
from verifierd.types import ObservationKind, Step, VerdictKind

__all__ = ("BENIGN", "FAULTS", "Injected", "Pool", "difference", "drawn", "eligible", "inject")

_WORD = 5
_FORGIVING = ("runtime", "json-order", "unordered-lines")


class Injected(msgspec.Struct, frozen=True, kw_only=True):
    """An altered step, and the truth about it.

    Attributes:
        step: The step as it would have been logged.
        label: `off_path` for a fault, `on_path` for a benign change.
        kind: Its name in `FAULTS` or `BENIGN`.
        span: Where the altered observation holds what is new; None if only the status changed.
        old, new: What stood there, and what stands there now.
        known: Does what was altered, or its line, stand in the action or in an earlier step? If not, nobody could have
            known it.
    """

    step: Step
    label: VerdictKind
    kind: str
    span: tuple[int, int] | None
    old: str
    new: str
    known: bool


def inject(
    kind: str, step: Step, history: Sequence[Step] = (), pool: Pool | None = None, *, seed: int
) -> Injected | None:
    """A step with one change of its observation.

    Args:
        kind: A name in `FAULTS` or `BENIGN`.
        step: A clean step.
        history: The steps before it.
        pool: Steps of other trajectories.
        seed: Together with kind and step it fixes what is drawn.

    Returns:
        The altered step; None if it is not eligible: this kind of change is impossible here, a fault would equal the
        original once normalised, or a benign change would change nothing at all.

    Raises:
        KeyError: There is no such kind.
    """
    benign = kind in BENIGN
    choose = BENIGN[kind] if benign else FAULTS[kind]
    past = [other for other in history if other.observation_kind is ObservationKind.ENV]
    case = Case(step=step, history=past, pool=pool or Pool(), context=history)
    draw = random.Random(f"{seed}/{kind}/{step.step_id}")  # noqa: S311 - a seeded draw, no secret
    for edit in choose(case, draw):
        altered = _applied(step, edit)
        if altered.observation == step.observation if benign else _same(altered, case):
            continue
        old = step.observation[edit.start : edit.end]
        return Injected(
            step=altered,
            label=VerdictKind.ON_PATH if benign else VerdictKind.OFF_PATH,
            kind=kind,
            span=None if edit.status_only else (edit.start, edit.start + len(edit.new)),
            old=old,
            new=edit.new,
            known=_known(case, edit),
        )
    return None


def difference(step: Step, observation: str, history: Sequence[Step]) -> tuple[tuple[int, int], bool]:
    """Where somebody else's alteration of a step stands in the altered observation, and whether it is `known`."""
    text = step.observation
    start = Prefix.similarity(text, observation)
    tail = min(Postfix.similarity(text, observation), len(text) - start, len(observation) - start)
    end = len(observation) - tail
    past = [other for other in history if other.observation_kind is ObservationKind.ENV]
    case = Case(step=step, history=past, pool=Pool(), context=history)
    return (start, end), _known(case, Edit(start, len(text) - tail, observation[start:end]))


def _known(case: Case, edit: Edit) -> bool:
    """Do the lines that are altered stand elsewhere, or the altered word, if it is long enough to be told apart?"""
    text = case.text
    start, end = text.rfind("\n", 0, edit.start) + 1, text.find("\n", edit.end)
    line, word = text[start : end if end >= 0 else None].strip(), text[edit.start : edit.end].strip()
    return case.knows(line) or (len(word) >= _WORD and case.knows(word))


def eligible(kind: str, step: Step, history: Sequence[Step] = (), pool: Pool | None = None) -> bool:
    """Can this kind of change be made here? Does not depend on a seed.

    Raises:
        KeyError: There is no such kind.
    """
    return inject(kind, step, history, pool, seed=0) is not None


def drawn(kind: str, step: Step, rate: float, *, seed: int) -> bool:
    """Is this step among the share `rate` of eligible ones that get this kind of change? Independent of all others."""
    return random.Random(f"{seed}/rate/{kind}/{step.step_id}").random() < rate  # noqa: S311 - as above


def _applied(step: Step, edit: Edit) -> Step:
    if not edit.status_only:
        text = step.observation
        step = msgspec.structs.replace(step, observation=text[: edit.start] + edit.new + text[edit.end :])
    if edit.failed is None:
        return step
    if step.exit_code is not None:
        return msgspec.structs.replace(step, exit_code=int(edit.failed), is_error=edit.failed)
    return msgspec.structs.replace(step, is_error=edit.failed)


def _same(altered: Step, case: Case) -> bool:
    """Equal but for what is no fault: white space, colours, orders, and values that change from run to run?"""
    if altered.succeeded != case.step.succeeded:
        return False
    one, other = uncoloured(case.step).value, uncoloured(altered).value
    if one.split() == other.split():
        return True
    # What is borrowed from the history is shown by it, but not therefore fixed.
    _, fixed = runtime(one, case.step, case.context)
    return equal(one.strip(), other.strip(), case.step, case.context if fixed else (), _FORGIVING) is not None
