"""Labels that people write, and that logs carry, find their steps; the last word counts."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.helpers import echo, jsonl
from tests.replay.labelled.conftest import lines
from verifierd.errors import SourceError, VerifierdError
from verifierd.replay.labelled import Marked, StepLabel, Truth, marked, marked_by_logs, read_labels
from verifierd.replay.runs import Run, runs

pytestmark = pytest.mark.anyio


async def runs_of(tmp_path: Path, *logged: dict[str, Any]) -> list[Run]:
    """The trajectories of a native log."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(jsonl(*logged))
    return await runs([path])


def said(*labels: dict[str, Any]) -> list[StepLabel]:
    """Labels as if read."""
    return msgspec.convert(labels, list[StepLabel])


def about(name: str, step: int, label: str, **more: Any) -> dict[str, Any]:
    """A label of a step by its number."""
    return {"trajectory": name, "step": step, "label": label, **more}


def summary(found: list[Marked]) -> list[tuple[str, set[int], set[int] | None, str]]:
    """Truth, bad and judged steps, and the outcome."""
    return [(m.truth.value, set(m.bad), m.judged if m.judged is None else set(m.judged), m.outcome) for m in found]


async def test_a_file_of_labels(tmp_path: Path) -> None:
    """What is no label is told with file, line and remedy; the rest is read."""
    path = tmp_path / "labels.jsonl"
    good = about("t", 1, "off_path", truth="agent", kind="typo", by="me", note="see log")
    bad = [
        "oops",
        about("t", 0, "on_path"),
        about("t", 1, "wrong"),
        {"label": "on_path"},
        {"id": "x", "step": 1, "label": "on_path"},
        {"trajectory": "t", "label": "off_path"},
        about("t", 1, "clean"),
        about("t", 1, "on_path", knd="typo"),
    ]
    path.write_bytes(lines([good, *bad, {"id": "x", "label": "unsure", "time": 3.5}]))
    errors: list[VerifierdError] = []

    first, last = read_labels(path, tell=errors.append)

    assert (first.truth, first.kind, first.by, first.note) == (Truth.AGENT, "typo", "me", "see log")
    assert (first.place, last.place) == (f"{path}:1", f"{path}:10")
    assert [error.message.split(": ")[0] for error in errors] == [f"{path}:{number}" for number in range(2, 10)]
    assert all(error.hint for error in errors)
    with pytest.raises(SourceError, match="cannot be read"):
        read_labels(tmp_path / "none.jsonl")


async def test_steps_are_found_by_id_or_number(tmp_path: Path) -> None:
    """Those that no label names are not judged; a label of no step that is here comes back."""
    found = await runs_of(tmp_path, *echo("t", 3), *echo("u", 2))
    labels = said(
        {"id": found[0].steps[1].step_id, "label": "off_path", "kind": "stale"},
        about("t", 3, "on_path"),
        about("t", 9, "off_path"),
        {"id": "0" * 32, "label": "off_path"},
        {"trajectory": "v", "label": "clean"},
    )

    judged, unmatched = marked(found, labels)

    assert summary(judged) == [("environment", {2}, {2, 3}, "off_path")]
    assert judged[0].run is found[0]
    assert (judged[0].first_bad, judged[0].positions, judged[0].length) == (1, {1: 0, 2: 1, 3: 2}, 3)
    assert judged[0].kinds == {2: "stale"}
    assert unmatched == labels[2:]


async def test_an_id_is_given_as_a_daemon_takes_it(tmp_path: Path) -> None:
    """In capitals or not, and by its beginning, if that is long enough and of one step alone."""
    found = await runs_of(tmp_path, *echo("t", 4))
    names = [step.step_id for step in found[0].steps]
    twins = {names[2]: ["aaaaaaaab"], names[3]: ["aaaaaaaac"]}
    labels = said(
        {"id": f" {names[0][:8].upper()} ", "label": "off_path"},
        {"id": names[1], "label": "on_path"},
        {"id": "aaaaaaaac", "label": "on_path"},
        {"id": "aaaaaaaa", "label": "off_path"},
        {"id": names[2][:7], "label": "off_path"},
        {"id": "", "label": "off_path"},
    )

    judged, unmatched = marked(found, labels, ids=lambda step: twins.get(step.step_id, []))

    assert summary(judged) == [("environment", {1}, {1, 2, 4}, "off_path")]
    assert unmatched == labels[3:]


async def test_the_last_label_wins(tmp_path: Path) -> None:
    """Unsure is not judged, and undo brings back what was said before."""
    found = await runs_of(tmp_path, *echo("t", 4))

    judged, unmatched = marked(
        found,
        said(
            about("t", 1, "off_path"),
            about("t", 1, "on_path"),
            about("t", 2, "off_path"),
            about("t", 2, "unsure"),
            about("t", 3, "off_path"),
            about("t", 3, "on_path"),
            about("t", 3, "undo"),
            about("t", 4, "undo"),
        ),
    )

    assert summary(judged) == [("environment", {3}, {1, 3}, "off_path")]
    assert unmatched == []


async def test_clean_is_said_of_the_rest(tmp_path: Path) -> None:
    """All steps that nobody names are on path then; an unsure one still is not judged."""
    found = await runs_of(tmp_path, *echo("t", 3), *echo("u", 2))

    judged, _unmatched = marked(
        found,
        said(about("t", 2, "unsure"), {"trajectory": "t", "label": "clean"}, {"trajectory": "u", "label": "clean"}),
    )

    assert summary(judged) == [("environment", set(), {1, 3}, "clean"), ("environment", set(), None, "clean")]


async def test_truths_are_kept_apart(tmp_path: Path) -> None:
    """A trajectory with labels of both is there once for each, and neither sees the other's steps."""
    found = await runs_of(tmp_path, *echo("t", 3))

    judged, _unmatched = marked(
        found,
        said({"trajectory": "t", "label": "clean"}, about("t", 3, "off_path", truth="agent")),
    )

    assert summary(judged) == [("environment", set(), {1, 2}, "clean"), ("agent", {3}, {3}, "off_path")]


async def test_a_name_of_several_says_nothing(tmp_path: Path) -> None:
    """A trajectory that started over under its name is told apart by the ids of its steps alone."""
    changed = [{**line, "observation": "other\n"} for line in echo("t", 2)]
    found = await runs_of(tmp_path, *echo("t", 2), *changed)
    labels = said(about("t", 2, "off_path"), {"trajectory": "t", "label": "clean"})

    judged, unmatched = marked(found, [*labels, *said({"id": found[1].steps[1].step_id, "label": "off_path"})])

    assert len(found) == 2
    assert unmatched == labels
    assert [one.run for one in judged] == [found[1]]


async def test_labels_of_the_log_count(tmp_path: Path) -> None:
    """The kind tells the truth that a label is about; trajectories without labels are left out."""
    first, second, third = echo("t", 3)
    found = await runs_of(
        tmp_path,
        {**first, "label": "on_path"},
        {**second, "label": "off_path", "label_kind": "stale"},
        third,
        *echo("u", 1),
        *[{**line, "label": "off_path", "label_kind": "rogue_action"} for line in echo("v", 1)],
    )

    judged = marked_by_logs(found)

    assert summary(judged) == [
        ("environment", {2}, {1, 2}, "off_path"),
        ("agent", {1}, None, "off_path"),
    ]
    assert judged[0].kinds == {2: "stale"}
