"""Seeded faults, and how many of them are seen."""

from pathlib import Path

import pytest

from verifierd.replay.inject import FAULTS, inject
from verifierd.replay.mining import trajectories
from verifierd.replay.recall import measured, table
from verifierd.types import Action, Origin, Step


def _step(index: int, observation: str, *, exit_code: int = 0) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=index,
        action=Action(tool="bash", command=f"echo {index}"),
        observation=observation,
        exit_code=exit_code,
        cwd="/w",
        origin=Origin(path="t.jsonl", offset=index),
    )


HISTORY = [_step(1, "one\n"), _step(2, "two\n")]
STEP = _step(3, "first 12\nsecond\nthird\n")
OTHERS = [_step(9, "elsewhere\n")]


@pytest.mark.parametrize(
    ("kind", "observation"),
    [("another_session", "elsewhere\n"), ("another_step", "one\n"), ("stale", "two\n"), ("empty", "")],
)
def test_borrowed_observations(kind: str, observation: str) -> None:
    """The action stays; what came back is another's, or nothing."""
    altered = inject(kind, STEP, HISTORY, OTHERS, seed=1)

    assert altered is not None
    assert (altered.observation, altered.action) == (observation, STEP.action)


def test_small_changes() -> None:
    """One line is missing; one digit is another; success is told as failure with the same text."""
    dropped, number, flipped = (
        inject(kind, STEP, HISTORY, OTHERS, seed=1) for kind in ("line_dropped", "number_changed", "error_flip")
    )

    assert dropped is not None
    assert number is not None
    assert flipped is not None
    assert len(dropped.observation.splitlines()) == 2
    differing = [a for a, b in zip(number.observation, STEP.observation, strict=True) if a != b]
    assert len(differing) == 1
    assert differing[0].isdigit()
    assert (flipped.exit_code, flipped.observation) == (1, STEP.observation)


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_are_seeded_and_real(kind: str) -> None:
    """The same seed alters alike; what would change nothing is no fault."""
    assert inject(kind, STEP, HISTORY, OTHERS, seed=1) == inject(kind, STEP, HISTORY, OTHERS, seed=1)
    empty = _step(3, "")
    if kind in {"empty", "line_dropped", "number_changed"}:
        assert inject(kind, empty, HISTORY, OTHERS, seed=1) is None
    if kind == "stale":
        assert inject(kind, _step(3, "two \n"), HISTORY, OTHERS, seed=1) is None


@pytest.mark.anyio
async def test_recall_of_a_log(tmp_path: Path) -> None:
    """Each kind is counted with an interval by trajectory, beside the controls; a clean log has no false alarm."""
    log = tmp_path / "t.jsonl"
    lines = [
        f'{{"trajectory": "t{t}", "step": {n}, "cwd": "/w", "action": "echo word{t}{n}", '
        f'"observation": "word{t}{n}\\n", "exit_code": 0}}\n'
        for t in range(3)
        for n in range(1, 4)
    ]
    log.write_text("".join(lines), encoding="utf-8")

    cases = await measured(await trajectories([log]), chain="contracts")

    clean = cases.rate("verifierd", "clean")
    assert (clean.value, clean.cases) == (0.0, 9)
    swapped = cases.rate("verifierd", "another_session")
    assert (swapped.value, swapped.low, swapped.high) == (1.0, 1.0, 1.0)
    assert cases.rate("verifierd", "no such kind").value is None
    assert "| another_session | 9 | 100%" in table(cases)
