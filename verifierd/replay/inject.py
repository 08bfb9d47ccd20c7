"""Seeded faults: what a step would look like had its environment lied. Pure: a step in, an altered step out."""

import random
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from verifierd.types import ObservationKind, Step

__all__ = ("FAULTS", "Fault", "inject")

_NUMBER = re.compile(r"\d+")

Fault = Callable[[Step, Sequence[Step], Sequence[Step], random.Random], Step | None]
"""(step, steps before it, steps to borrow from, draw) -> the altered step; None if it cannot be altered so."""


def inject(kind: str, step: Step, history: Sequence[Step], others: Sequence[Step], *, seed: int) -> Step | None:
    """A step with one fault.

    Args:
        kind: One of `FAULTS`.
        step: A clean step.
        history: The steps before it.
        others: Steps of other trajectories, of the same tool.
        seed: Together with kind and step it fixes what is drawn.

    Returns:
        The altered step; None if this kind of fault is impossible here, or would change nothing but white space.

    Raises:
        KeyError: There is no such kind.
    """
    draw = random.Random(f"{seed}/{kind}/{step.step_id}")  # noqa: S311 - a seeded draw, no secret
    altered = FAULTS[kind](
        step, [past for past in history if past.observation_kind is ObservationKind.ENV], others, draw
    )
    if altered is None:
        return None
    same_text = altered.observation.split() == step.observation.split()
    return None if same_text and altered.succeeded == step.succeeded else altered


def _with(step: Step, observation: str) -> Step:
    return msgspec.structs.replace(step, observation=observation)


def _another_step(step: Step, history: Sequence[Step], _others: Sequence[Step], draw: random.Random) -> Step | None:
    """The observation of another step of the same trajectory, not the one before."""
    return _with(step, draw.choice(history[:-1]).observation) if len(history) > 1 else None


def _another_session(step: Step, _history: Sequence[Step], others: Sequence[Step], draw: random.Random) -> Step | None:
    """The observation of the same tool in another trajectory."""
    return _with(step, draw.choice(others).observation) if others else None


def _stale(step: Step, history: Sequence[Step], _others: Sequence[Step], _draw: random.Random) -> Step | None:
    """The observation of the step before, again."""
    return _with(step, history[-1].observation) if history else None


def _line_dropped(step: Step, _history: Sequence[Step], _others: Sequence[Step], draw: random.Random) -> Step | None:
    """One line that is not blank is missing."""
    lines = step.observation.splitlines(keepends=True)
    inked = [index for index, line in enumerate(lines) if line.strip()]
    if len(inked) < 2:
        return None
    index = draw.choice(inked)
    return _with(step, "".join(lines[:index] + lines[index + 1 :]))


def _number_changed(step: Step, _history: Sequence[Step], _others: Sequence[Step], draw: random.Random) -> Step | None:
    """One digit of one number is another one."""
    numbers = list(_NUMBER.finditer(step.observation))
    if not numbers:
        return None
    at = draw.randrange(*draw.choice(numbers).span())
    digit = draw.choice([letter for letter in "0123456789" if letter != step.observation[at]])
    return _with(step, step.observation[:at] + digit + step.observation[at + 1 :])


def _empty(step: Step, _history: Sequence[Step], _others: Sequence[Step], _draw: random.Random) -> Step | None:
    """Nothing came back."""
    return _with(step, "") if step.observation.strip() else None


def _error_flip(step: Step, _history: Sequence[Step], _others: Sequence[Step], _draw: random.Random) -> Step | None:
    """Success is reported as failure, or the reverse; the text stays."""
    if step.exit_code is not None:
        failed = step.exit_code == 0
        return msgspec.structs.replace(step, exit_code=int(failed), is_error=failed)
    return None if step.action.command is not None else msgspec.structs.replace(step, is_error=not step.is_error)


FAULTS: Mapping[str, Fault] = {
    "another_session": _another_session,
    "another_step": _another_step,
    "stale": _stale,
    "line_dropped": _line_dropped,
    "number_changed": _number_changed,
    "empty": _empty,
    "error_flip": _error_flip,
}
"""By name, in the order in which they are reported."""
