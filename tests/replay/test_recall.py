"""How many faults are seen, and how many benign changes alarm."""

from pathlib import Path

import pytest

from verifierd.replay.mining import trajectories
from verifierd.replay.recall import measured, table


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
    steps = await trajectories([log])

    cases = await measured(steps, chain="contracts")
    few = await measured(steps, chain="contracts", kinds=("stale",), rate=0.5)

    clean = cases.rate("verifierd", "clean")
    assert (clean.value, clean.cases) == (0.0, 9)
    swapped = cases.rate("verifierd", "another_session")
    assert (swapped.value, swapped.low, swapped.high) == (1.0, 1.0, 1.0)
    assert cases.rate("verifierd", "no such kind").value is None
    assert "| another_session | 9 | 100%" in table(cases)
    assert cases.rate("verdict changed", "white_space").value == 0.0
    assert cases.rate("verifierd", "empty").cases == 9
    assert few.rate("verifierd", "empty").cases == 0
    assert 0 < few.rate("verifierd", "stale").cases < 6
