"""A label file that is followed: what its lines do, damage, rewriting, and a process that ends anywhere."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.helpers import jsonl
from tests.test_labels import OFF, ON, data, tally, verdict
from verifierd.errors import SourceError, StateError
from verifierd.labelfile import LabelFile
from verifierd.labels import FORMAT, Saying
from verifierd.metrics import Metrics
from verifierd.sources import open_source
from verifierd.store import Commit, Store

ONE, TWO, THREE = verdict(1), verdict(2, OFF), verdict(3)
A = {"id": ONE.step_id, "label": "off_path", "by": "ada", "note": "seen"}
B = {"id": TWO.verdict_id[:10], "label": "on_path"}


def count(metrics: Metrics, name: str, **labels: str) -> float:
    """A series' value."""
    return metrics.registry.get_sample_value(f"verifierd_{name}", labels) or 0.0


@asynccontextmanager
async def following(path: Path, state: Path | None = None) -> AsyncIterator[tuple[LabelFile, Store, Metrics]]:
    """A file over a store with three verdicts, taken up where it was left."""
    metrics = Metrics()
    async with Store(state) as store:
        await store.commit(Commit(verdicts=[ONE, TWO, THREE]))
        known = await store.file(str(path))
        file = LabelFile(open_source(path, known.position if known is not None else None), store, metrics)
        yield file, store, metrics
        await file.source.aclose()


@pytest.mark.anyio
async def test_lines_become_labels(tmp_path: Path) -> None:
    """Each line counts once, moves the truth, and may change, undo or come before its verdict."""
    path = tmp_path / "labels.jsonl"
    path.write_bytes(jsonl(A, B, {"id": verdict(4).step_id, "label": "off_path", "time": "2026-01-01T00:00:00+01:00"}))
    async with following(path) as (file, store, metrics):
        await file.follow()
        assert await tally(store) == {(ON, "off_path", "file"): 1, (OFF, "on_path", "file"): 1}
        assert (count(metrics, "false_positives"), count(metrics, "false_negatives")) == (1, 1)
        assert (count(metrics, "labels_pending"), count(metrics, "label_events_total", action="added")) == (1, 3)
        ((label),) = await store.labels(ONE.step_id)
        assert (label.by, label.note, label.source) == ("ada", "seen", "file")
        with path.open("ab") as more:
            more.write(jsonl({**B, "label": "unsure"}, {**B, "label": "undo"}, {**A, "label": "on_path"}))
        await file.follow()
        assert await tally(store) == {(ON, "on_path", "file"): 1, (OFF, "on_path", "file"): 1}
        assert count(metrics, "label_events_total", action="undone") == 1
        assert count(metrics, "label_events_total", action="changed") == 2
        assert count(metrics, "source_records_total", format=FORMAT, result="ok") == 6


@pytest.mark.anyio
async def test_damaged_lines_are_noted_and_the_rest_goes_on(tmp_path: Path) -> None:
    """No line is fatal: what cannot be read, or kept, is quarantined and counted."""
    path = tmp_path / "labels.jsonl"
    wrong = [
        b"{\n",
        b"\xff\n",
        jsonl({"id": ONE.step_id, "label": "wrong"}),
        jsonl({**A, "notes": "a typing error must not cost the note"}),
        jsonl({**A, "time": "2026-01-01T00:00:00"}),
        b"[" * 60_000 + b"\n",
        jsonl({"id": "01234567", "label": "off_path"}),
        jsonl({"id": THREE.step_id, "label": "undo"}),
        b"\n",
    ]
    path.write_bytes(b"".join(wrong) + jsonl(A))
    async with following(path) as (file, store, metrics):
        await file.follow()
        assert await tally(store) == {(ON, "off_path", "file"): 1}
        noted = await store.quarantined()
        assert [line.reason for line in noted] == [
            *("not_json", "not_json", "bad_shape", "bad_shape", "bad_shape", "bad_shape"),
            *("refused", "refused"),
        ]
        assert [path.read_bytes()[line.offset :][: line.length] for line in noted] == wrong[:8]
        assert count(metrics, "label_events_total", action="refused") == 2
        assert count(metrics, "source_records_total", format=FORMAT, result="not_json") == 2
        assert count(metrics, "source_records_total", format=FORMAT, result="bad_shape") == 4


@pytest.mark.anyio
async def test_reading_goes_on_where_it_was_committed(tmp_path: Path) -> None:
    """The next process takes only what was added, also to a last line that had no end."""
    path, state = tmp_path / "labels.jsonl", tmp_path / "state"
    path.write_bytes(jsonl(A)[:-1])
    async with following(path, state) as (file, store, _):
        await file.follow()
        assert await tally(store) == {}
        await file.follow()
        assert await tally(store) == {(ON, "off_path", "file"): 1}
    with path.open("ab") as more:
        more.write(b"\n" + jsonl(A, B)[:-4])
    async with following(path, state) as (file, store, _):
        for _again in range(3):
            await file.follow()
        assert len(await store.labels(ONE.step_id)) == 2
        assert await store.labels(TWO.step_id) == []
        kept = await store.file(str(path))
        assert kept is not None
        assert kept.format == FORMAT
        assert await store.quarantined() == []
    with path.open("ab") as more:
        more.write(jsonl(A, B)[-4:])
    async with following(path, state) as (file, store, _):
        await file.follow()
        assert len(await store.labels(TWO.step_id)) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("restart", [False, True])
async def test_a_file_that_was_rewritten_says_nothing_twice(tmp_path: Path, *, restart: bool) -> None:
    """Lines that were taken before are passed over, so that a person's later word stands; what is new is taken."""
    path, state = tmp_path / "labels.jsonl", tmp_path / "state"
    changed_mind = [A, {**A, "label": "on_path"}, A]
    path.write_bytes(jsonl(*changed_mind))
    async with following(path, state) as (file, store, _):
        await file.follow()
        assert [label.label for label in await store.labels(ONE.step_id)] == ["off_path", "on_path", "off_path"]
        await store.label(Saying(id=ONE.step_id, label="unsure"))
        if not restart:
            path.write_bytes(jsonl(B, *changed_mind))
            await file.follow()
            assert await tally(store) == {(ON, "unsure", "person"): 1, (OFF, "on_path", "file"): 1}
    path.write_bytes(jsonl(B, *changed_mind, {**A, "note": "again"}))
    async with following(path, state) as (file, store, _):
        await file.follow()
        assert len(await store.labels(ONE.step_id)) == 5
        assert await tally(store) == {(ON, "off_path", "file"): 1, (OFF, "on_path", "file"): 1}


@pytest.mark.anyio
async def test_a_file_that_comes_back_says_nothing_twice(tmp_path: Path) -> None:
    """However long it was away: retention forgets files that have gone, but for those of labels."""
    path, state = tmp_path / "labels.jsonl", tmp_path / "state"
    path.write_bytes(jsonl(A))
    async with following(path, state) as (file, store, _):
        await file.follow()
        await store.label(Saying(id=ONE.step_id, label="unsure"))
        path.unlink()
        await store.prune(max_age_seconds=0, max_bytes=1 << 40, now=1e11)
    path.write_bytes(jsonl(A))
    async with following(path, state) as (file, store, _):
        await file.follow()
        assert (await tally(store))[ON, "unsure", "person"] == 1


@pytest.mark.anyio
async def test_labels_that_could_not_be_kept_are_taken_later(tmp_path: Path) -> None:
    """A full disk costs no line: the same lines are committed once there is room."""
    path = tmp_path / "labels.jsonl"
    path.write_bytes(jsonl(*({**A, "note": f"{n}" * 1000} for n in range(100))))
    async with following(path, tmp_path / "state") as (file, store, metrics):
        ((pages,),) = await store._run(store._all, "PRAGMA page_count")
        await store._run(store._all, f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(StateError, match="disk is full"):
            await file.follow()
        assert await tally(store) == {}
        await store._run(store._all, "PRAGMA max_page_count = 100000")
        await file.follow()
        assert len(await store.labels(ONE.step_id)) == 100
        assert count(metrics, "source_records_total", format=FORMAT, result="ok") == 100


@pytest.mark.anyio
async def test_a_file_that_is_not_there_is_an_error_until_it_is(tmp_path: Path) -> None:
    """The caller learns of it and may try again."""
    path = tmp_path / "labels.jsonl"
    async with following(path) as (file, store, _):
        with pytest.raises(SourceError, match="does not exist"):
            await file.follow()
        path.write_text(json.dumps(A) + "\n")
        await file.follow()
        assert await tally(store) == {(ON, "off_path", "file"): 1}


@pytest.mark.anyio
async def test_what_the_log_says_comes_before_what_a_file_says(tmp_path: Path) -> None:
    """A file's label that waited for its verdict overrules the label that came with the verdict."""
    path = tmp_path / "labels.jsonl"
    path.write_bytes(jsonl({"id": verdict(4).step_id, "label": "on_path"}))
    async with following(path) as (file, store, _):
        await file.follow()
        await store.commit(Commit(verdicts=[verdict(4)], labels=[data(verdict(4), "off_path")]))
        assert await tally(store) == {(ON, "on_path", "file"): 1}
