"""Overlays fit the clean cases that they were made from, or are left out."""

from pathlib import Path
from typing import Any

import pytest

from tests.replay.labelled.conftest import MakeSet, lines
from tests.replay.labelled.test_tau import RAW
from verifierd.errors import FormatError, VerifierdError
from verifierd.replay.labelled import is_set, read_set

GOOD: dict[str, Any] = {
    "case_id": "some/c/stale@4",
    "base_set": "some",
    "base_case_id": "c",
    "step": 4,
    "step_base": 1,
    "kind": "stale",
    "benign": False,
    "original": "ann_1",
    "observation": "bob_2",
}


@pytest.fixture
def overlaid(make_set: MakeSet, tmp_path: Path) -> Path:
    """A folder for overlays beside the set `some`, which has a clean case and a failed one."""
    label = {"group": "g", "label_kind": "outcome_only"}
    make_set(
        [{"case_id": "c", "raw": RAW}, {"case_id": "f", "raw": RAW}],
        [
            {"case_id": "c", "trajectory_label": "clean", **label},
            {"case_id": "f", "trajectory_label": "failed_outcome", **label},
        ],
    )
    folder = tmp_path / "faults"
    folder.mkdir()
    return folder


def test_an_observation_is_replaced(overlaid: Path) -> None:
    """A case that several overlays alter is there once."""
    benign = {**GOOD, "kind": "whitespace", "benign": True, "observation": "ann_1\n"}
    (overlaid / "overlays.jsonl").write_bytes(lines([GOOD, benign]))

    found = read_set(overlaid)
    stale, space = found.overlays

    assert is_set(overlaid)
    assert (found.name, len(found.marked)) == ("faults", 1)
    assert (stale.step, stale.kind, stale.benign, stale.observation) == (1, "stale", False, "bob_2")
    assert (space.step, space.benign) == (1, True)
    assert stale.marked is space.marked is found.marked[0]
    assert stale.marked.run.steps[0].observation == "ann_1"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"original": "ann_7"}, "entry 4 of case c is not the original"),
        ({"step": 3}, "entry 3 of case c is no observation"),
        ({"base_case_id": "x"}, "some has no case x"),
        ({"base_case_id": "f"}, "case f is not clean"),
        ({"benign": "no"}, "Expected `bool`"),
    ],
)
def test_what_does_not_fit_is_left_out(overlaid: Path, change: dict[str, Any], told: str) -> None:
    """The rest goes on, and the line is named."""
    errors: list[VerifierdError] = []
    (overlaid / "overlays.jsonl").write_bytes(lines([{**GOOD, **change}, GOOD]))

    assert len(read_set(overlaid, tell=errors.append).overlays) == 1
    (error,) = errors
    assert "overlays.jsonl:1: " in error.message
    assert told in error.message


@pytest.mark.parametrize("name", ["none", "../some", "..", "", "faults"])
def test_sets_that_cannot_be_altered(overlaid: Path, name: str) -> None:
    """A missing set, a place elsewhere, or overlays themselves are told once, with how many overlays that costs."""
    errors: list[VerifierdError] = []
    (overlaid / "overlays.jsonl").write_bytes(lines([{**GOOD, "base_set": name}, {**GOOD, "base_set": name}, GOOD]))

    assert len(read_set(overlaid, tell=errors.append).overlays) == 1
    assert len(errors) == 2
    assert "2 overlays" in errors[1].message


def test_bases_may_lie_elsewhere(overlaid: Path, tmp_path: Path) -> None:
    """A folder of sets is named; without it they are siblings."""
    away = tmp_path / "away"
    away.mkdir()
    (away / "overlays.jsonl").write_bytes(lines([GOOD]))
    away = away.rename(overlaid / "away")

    assert len(read_set(away / "overlays.jsonl", bases=tmp_path).overlays) == 1
    with pytest.raises(FormatError, match="no case in it can be read"):
        read_set(away)
