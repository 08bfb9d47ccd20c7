"""Sets are known by their content; what is damaged is told, and the rest is read."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import echo, jsonl
from tests.replay.labelled.conftest import MakeSet
from tests.replay.labelled.test_agentdojo import RAW as DOJO
from tests.replay.labelled.test_tau import RAW as TAU
from verifierd.errors import FormatError, SourceError, VerifierdError
from verifierd.replay.labelled import Labelled, Marked, is_set, read_set


def case(name: str, raw: Any = DOJO) -> dict[str, Any]:
    """A line of cases."""
    return {"case_id": name, "raw": raw}


def label(name: str, **more: Any) -> dict[str, Any]:
    """A line of labels."""
    return {
        "case_id": name, "group": "g", "trajectory_label": "clean", "label_kind": "observation_injected", **more
    }  # fmt: skip


def test_a_set_is_no_log(make_set: MakeSet, tmp_path: Path) -> None:
    """The folder or its file, whatever they are called; agent logs, other folders and nothing are none."""
    folder = make_set([case("a")], [label("a")])
    (folder / "other.jsonl").write_bytes(gzip.decompress((folder / "cases.jsonl.gz").read_bytes()))
    log = tmp_path / "cases.jsonl"
    log.write_bytes(jsonl(*echo("t", 2)))

    assert is_set(folder)
    assert is_set(folder / "cases.jsonl.gz")
    assert is_set(folder / "other.jsonl")
    assert len(read_set(folder / "other.jsonl").marked) == 1
    assert not any(map(is_set, (log, tmp_path, tmp_path / "none", folder / "labels.jsonl")))
    with pytest.raises(FormatError, match=r"cases\.jsonl: is no labelled set"):
        read_set(log)
    with pytest.raises(SourceError, match="holds no labelled set"):
        read_set(tmp_path / "none")


def test_shapes_may_be_mixed(make_set: MakeSet) -> None:
    """Each case is read by its own shape, in the order of the file."""
    folder = make_set([case("a"), case("b", TAU)], [label("b", label_kind="outcome_only"), label("a")])

    found = read_set(folder)

    assert found.name == "some"
    assert [marked.run.key[1] for marked in found.marked] == ["a", "b"]
    assert [len(marked.run.steps) for marked in found.marked] == [3, 2]


@pytest.mark.parametrize(
    ("cases", "labels", "told"),
    [
        (["{"], [], r"cases\.jsonl\.gz:2: the line is not one JSON object"),
        ([case("b")], [], r"cases\.jsonl\.gz:2: case b has no label in labels\.jsonl"),
        ([case("a")], [], r"cases\.jsonl\.gz:2: case a stands here a second time"),
        ([case("b", {"acts": []})], [label("b")], r"cases\.jsonl\.gz:2: case b has no shape that is known"),
        ([case("b", {"steps": [{"tool": 1}]})], [label("b")], r"case b cannot be read: .*\$\.steps\[0\]\.tool"),
        ([case("b")], [label("b", label_kind="mood")], "case b label_kind 'mood' is not known"),
        ([case("b")], [label("b", bad_steps=[3])], "case b the label names entry 3, but the case's 3 entries"),
        ([case("b")], [label("b", bad_steps=[0], step_base=1)], "case b the label names entry 0"),
        ([], [label("b")], r"cases\.jsonl\.gz: has no case for 1 labels, as for b"),
        ([], [label("a")], r"labels\.jsonl:2: case a has another label before"),
        ([], [label("b", bad_steps="all")], r"labels\.jsonl:2: Expected `array`"),
    ],
)
def test_damage_is_told(make_set: MakeSet, cases: list[Any], labels: list[Any], told: str) -> None:
    """File and line are named, there is a remedy, and the other case is read."""
    errors: list[VerifierdError] = []
    folder = make_set([case("a"), *cases], [label("a"), *labels])

    found = read_set(folder, tell=errors.append)

    assert [marked.run.key[1] for marked in found.marked] == ["a"]
    (error,) = errors
    assert error.hint
    with pytest.raises(FormatError, match=told):
        raise FormatError(error.message)


def test_labels_lie_beside(make_set: MakeSet) -> None:
    """Without them there is no truth, and with no case left no set."""
    folder = make_set([case("a")], [label("b")])
    with pytest.raises(FormatError, match="no case in it can be read"):
        read_set(folder)
    (folder / "labels.jsonl").unlink()
    with pytest.raises(SourceError, match=r"has no labels\.jsonl beside it"):
        read_set(folder)


def test_names_cannot_act(make_set: MakeSet) -> None:
    """What a case is called is shown without characters that act on a terminal."""
    errors: list[VerifierdError] = []
    read_set(make_set([case("a"), case("\x1b[2J")], [label("a")]), tell=errors.append)

    assert "\x1b" not in errors[0].message


@pytest.fixture(scope="module")
def published(shared: Path) -> dict[str, Labelled]:
    """The team's sets, of which nothing may be told."""
    told: list[VerifierdError] = []
    names = (
        "agentdojo_gt", "agentrx_tau_retail", "tau_airline_gpt4o", "agentprocessbench_hotpotqa", "whowhen",
        "fault_overlays",
    )  # fmt: skip
    if not (shared / "labelled").is_dir():
        pytest.skip("the labelled sets are not here")
    found = {name: read_set(shared / "labelled" / name, tell=told.append) for name in names}

    assert told == []
    return found


def outcomes(marked: list[Marked]) -> dict[str, int]:
    """How many trajectories there are of each outcome."""
    return dict(Counter(one.outcome for one in marked))


@pytest.mark.shared
def test_published_sets_are_whole(published: dict[str, Labelled]) -> None:
    """Cases, and how they are labelled, are as many as the sets' own description says."""
    assert {name: outcomes(found.marked) for name, found in published.items() if not found.overlays} == {
        "agentdojo_gt": {"clean": 64, "off_path": 235},
        "agentrx_tau_retail": {"clean": 47, "off_path": 19},
        "tau_airline_gpt4o": {"clean": 55, "failed_outcome": 77},
        "agentprocessbench_hotpotqa": {"clean": 103, "off_path": 67},
        "whowhen": {"off_path": 119},
    }
    assert Counter(overlay.benign for overlay in published["fault_overlays"].overlays) == {False: 492, True: 164}


@pytest.mark.shared
def test_published_labels_find_their_steps(published: dict[str, Labelled]) -> None:
    """Steps, those that are bad, and bad entries that are no step; the two label sets agree as seldom as known."""
    found = {
        name: (
            sum(len(one.run.steps) for one in labelled.marked),
            sum(len(one.bad) for one in labelled.marked),
            sum(one.unplaced for one in labelled.marked),
        )
        for name, labelled in published.items()
    }
    twice = [one for one in published["whowhen"].marked if one.second]

    assert found == {
        "agentdojo_gt": (999, 323, 0),
        "agentrx_tau_retail": (535, 15, 11),
        "tau_airline_gpt4o": (731, 0, 0),
        "agentprocessbench_hotpotqa": (328, 61, 71),
        "whowhen": (523, 66, 53),
        "fault_overlays": (820, 0, 0),
    }
    assert (len(twice), sum(one.first_bad in one.second for one in twice)) == (28, 9)
