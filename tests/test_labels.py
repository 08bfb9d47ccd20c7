"""Labels: which one holds, which wait, and what they do to the truth of verdicts."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from verifierd.errors import LabelError
from verifierd.labels import Label, Saying, answer, holds
from verifierd.metrics import Metrics
from verifierd.store import Commit, Store
from verifierd.types import Origin, Verdict, VerdictKind, digest

ON, OFF, OPEN = VerdictKind.ON_PATH, VerdictKind.OFF_PATH, VerdictKind.ABSTAIN


def verdict(step: int, kind: VerdictKind = ON, *, policy: str = "p") -> Verdict:
    """A verdict of a policy on a step."""
    step_id = digest("step", str(step))
    return Verdict(
        verdict_id=digest(step_id, policy),
        step_id=step_id,
        trajectory="t",
        step=step,
        tool="bash",
        domain="terminal",
        verdict=kind,
        reason="",
        predictor="shell",
        policy=policy,
        origin=Origin(path="a.jsonl", offset=step),
        time="2026-01-01T00:00:00Z",
    )


def say(of: Verdict | str, label: str, **more: Any) -> Saying:
    """What somebody says of a step."""
    identity = of if isinstance(of, str) else of.step_id
    return msgspec.convert({"id": identity, "label": label, **more}, Saying)


def data(of: Verdict, label: str) -> Label:
    """What the log itself says of a step."""
    return Label(step_id=of.step_id, label=label, source="data")


async def tally(store: Store) -> Mapping[tuple[VerdictKind, str, str], int]:
    """What is known of the truth, which is the same whether kept along or counted anew."""
    assert store.truth.tally == await store.truths()
    return store.truth.tally


def errors(store: Store) -> tuple[float, float]:
    """False positives and false negatives as a scrape shows them."""
    metrics = Metrics()
    metrics.truth(store.truth)
    value = metrics.registry.get_sample_value
    return value("verifierd_false_positives") or 0.0, value("verifierd_false_negatives") or 0.0


@pytest.mark.anyio
async def test_a_late_label_moves_the_truth_of_all_verdicts_on_its_step() -> None:
    """The label is the step's, so it holds for each policy's verdict, by whichever id it was given."""
    first, other = verdict(1, OFF), verdict(1, OPEN, policy="q")
    async with Store() as store:
        await store.commit(Commit(verdicts=[first, other, verdict(2)]))
        assert await tally(store) == {}
        done = await store.label(say(other.verdict_id, "on_path", by="ada\x1b", note="a\nb"))
        assert (done.action, done.before, done.pending) == ("added", None, False)
        assert (done.said.by, done.said.note, done.said.source) == ("ada\\x1b", "a\\nb", "person")
        assert done.verdict is not None
        assert done.verdict.verdict_id == other.verdict_id
        assert await tally(store) == {(OFF, "on_path", "person"): 1, (OPEN, "on_path", "person"): 1}
        assert errors(store) == (1, 0)


@pytest.mark.anyio
async def test_the_last_label_holds_whoever_said_it() -> None:
    """Log, person and file overrule one another in their order, and every label stays in the history."""
    it = verdict(1)
    async with Store() as store:
        await store.commit(Commit(verdicts=[it], labels=[data(it, "off_path")]))
        assert errors(store) == (0, 1)
        assert (await store.label(say(it, "on_path"))).action == "changed"
        assert await tally(store) == {(ON, "on_path", "person"): 1}
        assert errors(store) == (0, 0)
        done = await store.label(say(it, "unsure"), "file")
        assert done.before is not None
        assert (done.before.label, done.before.source) == ("on_path", "person")
        assert await tally(store) == {(ON, "unsure", "file"): 1}
        said = await store.labels(it.step_id)
        assert [(label.label, label.source) for label in said] == [
            ("off_path", "data"),
            ("on_path", "person"),
            ("unsure", "file"),
        ]
        assert holds(said) == said[-1]


@pytest.mark.anyio
async def test_an_undo_brings_back_what_held_before() -> None:
    """One label after the other is taken back and stays in the history; what the log itself says cannot be."""
    it = verdict(1)
    now = [10.0]
    async with Store(clock=lambda: now[0]) as store:
        await store.commit(Commit(verdicts=[it], labels=[data(it, "off_path")]))
        for label in ("on_path", "unsure"):
            await store.label(say(it, label))
        now[0] = 20.0
        done = await store.label(say(it, "undo"))
        assert (done.action, done.said.label, done.said.undone) == ("undone", "unsure", 20.0)
        assert done.now is not None
        assert done.now.label == "on_path"
        assert await tally(store) == {(ON, "on_path", "person"): 1}
        await store.label(say(it, "undo"))
        assert await tally(store) == {(ON, "off_path", "data"): 1}
        with pytest.raises(LabelError, match="no label that could be undone"):
            await store.label(say(it, "undo"))
        said = await store.labels(it.step_id)
        assert [(label.label, label.undone) for label in said] == [
            ("off_path", None),
            ("on_path", 20.0),
            ("unsure", 20.0),
        ]
        assert holds(said) == said[0]


@pytest.mark.anyio
async def test_a_label_waits_for_its_verdict(tmp_path: Path) -> None:
    """A whole id that nobody knows waits, over a restart, too, and counts from the commit that brings its verdict."""
    one, two, three = verdict(1, OFF), verdict(2), verdict(3)
    async with Store(tmp_path) as store:
        done = await store.label(say(one.verdict_id.upper(), "on_path"))
        assert (done.pending, done.verdict, done.action) == (True, None, "added")
        assert (await store.label(say(two.step_id, "off_path"))).pending
        assert (await store.label(say(three.step_id, "off_path"))).pending
        assert (await store.label(say(three.step_id, "undo"))).now is None
        assert (store.truth.pending, await tally(store)) == (2, {})
        with pytest.raises(LabelError, match="no label that could be undone"):
            await store.label(say(digest("nobody"), "undo"))
    async with Store(tmp_path) as store:
        assert store.truth.pending == 2
        # What the log itself says was there before anybody could speak of it.
        await store.commit(Commit(verdicts=[one, verdict(4)], labels=[data(one, "off_path")]))
        assert (store.truth.pending, await tally(store)) == (1, {(OFF, "on_path", "person"): 1})
        await store.commit(Commit(verdicts=[two, three]))
        assert store.truth.pending == 0
        assert await tally(store) == {(OFF, "on_path", "person"): 1, (ON, "off_path", "person"): 1}
        assert errors(store) == (1, 1)
        assert [label.undone is not None for label in await store.labels(three.verdict_id)] == [True]


@pytest.mark.anyio
async def test_the_truth_is_the_same_before_and_after_a_restart(tmp_path: Path) -> None:
    """After labels that were late, changed, undone and waited for, the gauges are what a fresh start counts."""
    verdicts = [verdict(n, kind) for n, kind in enumerate((ON, OFF, OPEN, OFF, ON), 1)]
    async with Store(tmp_path) as store:
        await store.label(say(verdicts[4], "off_path"))
        await store.commit(Commit(verdicts=verdicts, labels=[data(verdicts[0], "on_path")]))
        for of, label in ((0, "off_path"), (1, "on_path"), (2, "off_path"), (2, "unsure"), (3, "on_path"), (3, "undo")):
            await store.label(say(verdicts[of], label))
        before, gauges = await tally(store), errors(store)
    async with Store(tmp_path) as store:
        assert await tally(store) == before
        assert errors(store) == gauges == (1, 2)


@pytest.mark.anyio
async def test_ids_that_mean_nothing_or_too_much_are_refused() -> None:
    """The beginning of one id is enough; of none, of several or of too few characters it is refused, with a remedy."""
    alike = [
        msgspec.structs.replace(verdict(n), step_id=f"abcdef12{n:024x}", verdict_id=f"{n}" * 32) for n in (1, 2, 3)
    ]
    async with Store() as store:
        await store.commit(Commit(verdicts=alike))
        done = await store.label(say("11111111", "off_path"))
        assert done.said.step_id == alike[0].step_id
        assert (await store.label(say(alike[1].step_id[:32], "off_path"))).said.step_id == alike[1].step_id
        assert [label.label for label in await store.labels("  22222222".strip())] == ["off_path"]
        with pytest.raises(LabelError, match="several steps") as caught:
            await store.label(say("abcdef12", "off_path"))
        assert all(of.step_id in caught.value.hint for of in alike)
        for wrong, message in (
            ("1111111", "too short"),
            ("0123456789", "no verdict or step has an id that begins with `0123456789`"),
            ("", "is no id"),
            ("a'b\x1b", "is no id"),
            ("\ud800", "is no id"),
        ):
            with pytest.raises(LabelError, match=message) as refused:
                await store.label(say(wrong, "off_path"))
            assert "characters of it" in refused.value.hint
            assert refused.value.missing == message.startswith("no verdict")
        assert sum((await tally(store)).values()) == 2
        assert store.truth.pending == 0


@pytest.mark.anyio
async def test_a_time_that_is_given_is_kept_unless_it_is_to_come() -> None:
    """A file may say of yesterday; nobody can say anything tomorrow, or in a year that no calendar shows."""
    it = verdict(1)
    async with Store(clock=lambda: 1000.0) as store:
        await store.commit(Commit(verdicts=[it]))
        for seconds in (500, 2000):
            await store.label(say(it, "off_path", time=datetime.fromtimestamp(seconds, UTC)))
        first = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
        done = await store.label(say(it, "off_path", time=first))
        assert [label.time for label in await store.labels(it.step_id)] == [500.0, 1000.0, 0.0]
        assert answer(done)["label"]["time"] == "1970-01-01T00:00:00.000Z"


@pytest.mark.anyio
async def test_retention_keeps_what_labels_need_and_no_more() -> None:
    """A label keeps its step; one that was taken back does not; what waits goes when it has waited that long."""
    now = [0.0]
    labelled, undone, plain = verdict(1), verdict(2), verdict(3)
    async with Store(clock=lambda: now[0]) as store:
        await store.commit(Commit(verdicts=[labelled, undone, plain]))
        for of, label in ((labelled, "off_path"), (undone, "off_path"), (undone, "undo"), (verdict(9), "off_path")):
            await store.label(say(of, label))
        now[0] = 1000.0
        await store.label(say(verdict(8), "off_path", time="1970-01-01T00:00:01Z"))
        gone = await store.prune(max_age_seconds=500, max_bytes=1 << 40, now=1000.0)
        assert gone.verdicts == 2
        assert (store.truth.pending, await tally(store)) == (1, {(ON, "off_path", "person"): 1})
        assert await store.labels(undone.step_id) == []
        assert len(await store.labels(verdict(8).step_id)) == 1
        assert await store.labels(verdict(9).step_id) == []
