"""What the console shows of the database: sums that stay true, pages, filters, and a look that holds nobody up."""

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from tests.test_store import as_third_schema
from verifierd import views
from verifierd.errors import LabelError, StateError
from verifierd.labels import Saying
from verifierd.store import DATABASE, Commit, Quarantined, Raised, Store, StoredStep, TrajectoryState
from verifierd.types import Action, Alarm, Origin, Signal, Step, Verdict, VerdictKind

ON, OFF, ABSTAIN = VerdictKind
_ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n WHERE x < 0"


def step(trajectory: str, index: int, format: str = "native") -> Step:
    return Step(
        format=format,
        trajectory=trajectory,
        index=index,
        action=Action(tool="bash", command=f"cat {index}"),
        observation=f"{index}\n",
        origin=Origin(path="a.jsonl", offset=index),
    )


def verdict(of: Step, kind: VerdictKind = ON, **changed: object) -> Verdict:
    fields: dict[str, object] = {
        "verdict_id": f"v-{of.step_id}",
        "step_id": of.step_id,
        "trajectory": of.trajectory,
        "step": of.index,
        "tool": of.tool,
        "domain": "terminal",
        "verdict": kind,
        "reason": "exact",
        "coverage": 1.0 if kind is ON else 0.5,
        "action": of.action.text,
        "observed": of.observation,
        "predictor": "shell",
        "policy": "default",
        "origin": of.origin,
        "time": "2026-01-01T00:00:00.000Z",
    }
    return Verdict(**(fields | changed))  # type: ignore[arg-type]


async def judge(
    store: Store,
    steps: Sequence[Step],
    kinds: Sequence[VerdictKind] | None = None,
    *,
    run: int = 0,
    alarm: bool = False,
) -> list[Verdict]:
    """Commit steps with their verdicts; with `alarm`, the last one raises one."""
    raised = Alarm(statistic=9.0, threshold=5.0, raised=True, new=True, first_bad=steps[-1].index)
    verdicts = [verdict(of, kind) for of, kind in zip(steps, kinds or [ON] * len(steps), strict=True)]
    if alarm:
        verdicts[-1] = msgspec.structs.replace(verdicts[-1], alarm=raised)
    last = verdicts[-1]
    return await store.commit(
        Commit(
            steps=[StoredStep(step=of, run=run, ordinal=of.index) for of in steps],
            verdicts=verdicts,
            trajectories=[
                TrajectoryState(format=form, trajectory=name, run=run) for form, name in {s.key for s in steps}
            ],
            alarms=[Raised(key=steps[-1].key, run=run, verdict_id=last.verdict_id, step=last.step, alarm=raised)]
            if alarm
            else [],
        )
    )


async def names(store: Store, **query: Any) -> list[str]:
    found = await store.look(views.trajectories, limit=100, **query)
    return [one["trajectory"] for one in found["trajectories"]]


@pytest.mark.anyio
async def test_runs_are_listed_with_what_became_of_them(tmp_path: Path) -> None:
    """A run's sums grow with its verdicts, other runs of its name have their own, and the last one judged is first."""
    async with Store(tmp_path, clock=lambda: 0.0) as store:
        await judge(store, [step("a", 1), step("a", 2)], [ON, OFF], alarm=True)
        await judge(store, [step("b", 1, "claude_code"), step("c/d", 1, "claude_code")])
        await judge(store, [step("b/helper", 1, "claude_code")])
        await judge(store, [step("a", 3)], [ABSTAIN])
        await judge(store, [step("a", 4)], run=1)
        found = await store.look(views.trajectories, limit=9)

        assert [(one["trajectory"], one["run"], one["steps"]) for one in found["trajectories"]] == [
            ("a", 1, 1),
            ("a", 0, 3),
            ("b/helper", 0, 1),
            ("c/d", 0, 1),
            ("b", 0, 1),
        ]
        assert found["next"] is None
        one = found["trajectories"][1]
        assert one["verdicts"] == {"on_path": 1, "off_path": 1, "abstain": 1}
        assert one["coverage"] == pytest.approx(2 / 3, abs=1e-4)
        assert one["id"] == views.key("native", "a", 0)
        assert one["first"] == one["last"] == "1970-01-01T00:00:00.000Z"
        assert one["alarm"]["first_bad"] == 2
        assert one["alarm"]["acknowledged"] is None
        assert one["agent"] == ""
        assert [one["agent"] for one in found["trajectories"][2:]] == ["helper", "", ""]  # there is no session `c`
        assert await store.look(views.counts) == {
            "verdicts": {"on_path": 5, "off_path": 1, "abstain": 1},
            "trajectories": 5,
            "alarms_open": 1,
            "quarantined": 0,
            "seq": 7,
        }


@pytest.mark.anyio
async def test_runs_are_filtered_and_paged(tmp_path: Path) -> None:
    """By a part of the name, whatever signs it holds, by agent, verdict and open alarm; pages join without a gap."""
    async with Store(tmp_path) as store:
        await judge(store, [step("100%_done", 1)], [OFF], alarm=True)
        await judge(store, [step("100 done", 1, "codex")])
        await judge(store, [step("100 done/helper", 1, "codex")])
        for number in range(5):
            await judge(store, [step(f"t{number}", 1)], [ABSTAIN])

        assert await names(store, q="100%") == ["100%_done"]
        assert await names(store, q="DONE") == ["100 done/helper", "100 done", "100%_done"]
        assert await names(store, agent="codex") == ["100 done/helper", "100 done"]
        assert await names(store, agent="helper") == ["100 done/helper"]
        assert await names(store, verdict="off_path") == await names(store, alarm=True) == ["100%_done"]
        await store.acknowledge(f"v-{step('100%_done', 1).step_id}")
        assert await names(store, alarm=True) == []
        pages, after = [], None
        while True:
            page = await store.look(views.trajectories, limit=3, after=after)
            pages.append([one["trajectory"] for one in page["trajectories"]])
            if (after := page["next"]) is None:
                break
        assert pages == [["t4", "t3", "t2"], ["t1", "t0", "100 done/helper"], ["100 done", "100%_done"]]


@pytest.mark.anyio
async def test_steps_are_listed_filtered_and_paged(tmp_path: Path) -> None:
    """Oldest first, by verdict, tool and text, with the label that holds; an unknown run is none."""
    steps = [step("t", n) for n in range(1, 8)]
    key = views.key("native", "t", 0)
    async with Store(tmp_path) as store:
        await judge(store, steps, [OFF if n % 3 == 0 else ON for n in range(1, 8)], alarm=True)
        await judge(store, [step("other", 1)])
        await store.label(Saying(id=steps[2].step_id, label="on_path"))

        async def listed(**query: Any) -> list[int]:
            found = await store.look(views.steps, key, **({"limit": 100} | query))
            assert found is not None
            return [row.step for row in found["steps"]]

        assert await listed() == [1, 2, 3, 4, 5, 6, 7]
        assert await listed(verdict="off_path") == [3, 6]
        assert await listed(tool="bash", q="CAT 5") == [5]
        assert await listed(tool="sh") == await listed(q="nowhere") == []
        page = await store.look(views.steps, key, limit=3)
        assert page is not None
        assert await listed(limit=3, after=page["next"]) == [4, 5, 6]
        assert page["trajectory"]["labels"] == 1
        assert [(row.label, row.alarm) for row in page["steps"]] == [(None, False), (None, False), ("on_path", False)]
        assert await store.look(views.steps, "nowhere", limit=1) is None


@pytest.mark.anyio
async def test_a_row_is_short(tmp_path: Path) -> None:
    """Of a long action there is the beginning, of many signals each name once."""
    of = step("t", 1)
    signals = tuple(Signal(name=name, value=1.0) for name in ("stale", "foreign", "stale"))
    async with Store(tmp_path) as store:
        await store.commit(Commit(verdicts=[verdict(of, action="x" * 5000, signals=signals, tool="sh")]))
        ((key, row),) = await store.look(views.rows, 0, 10)

        assert key == views.key("", "t", 0)  # nobody said of which run it is
        assert (len(row.action), row.signals, row.tool) == (200, ("stale", "foreign"), "sh")
        assert await store.look(views.rows, 1, 10) == []


@pytest.mark.anyio
async def test_a_verdict_is_found_with_its_neighbours(tmp_path: Path) -> None:
    """By its id, its step's id or the beginning of one; neighbours are those of its run."""
    steps = [step("t", n) for n in (1, 2, 3)]
    async with Store(tmp_path) as store:
        for of in steps:
            await judge(store, [of])
            await judge(store, [step("other", of.index)])
        await store.label(Saying(id=steps[1].step_id, label="off_path", note="seen"))
        for identity in (f"v-{steps[1].step_id}", steps[1].step_id, steps[1].step_id[:20]):
            found = await store.look(views.find, identity)
            assert found is not None
            assert found.trajectory == views.key("native", "t", 0)
            assert (found.before, found.after) == (f"v-{steps[0].step_id}", f"v-{steps[2].step_id}")
            assert [label.note for label in found.said] == ["seen"]
        assert await store.look(views.find, "0" * 32) is None
        assert await store.look(views.find, "0" * 8) is None
        with pytest.raises(LabelError):
            await store.look(views.find, "../etc")


@pytest.mark.anyio
async def test_false_alarms_are_counted(tmp_path: Path) -> None:
    """An alarm at a step that somebody labels on path was false, until that is taken back."""
    async with Store(tmp_path) as store:
        (found,) = await judge(store, [step("a", 1)], [OFF], alarm=True)
        await judge(store, [step("b", 1)], [OFF], alarm=True)
        assert await store.look(views.budget) == (0, 2)
        await store.label(Saying(id=found.step_id, label="on_path"))
        assert await store.look(views.budget) == (1, 2)
        await store.label(Saying(id=found.step_id, label="undo"))
        assert await store.look(views.budget) == (0, 2)
        alarm = await store.look(views.raised, found.verdict_id)
        assert alarm is not None
        assert alarm["trajectory_id"] == views.key("native", "a", 0)
        assert await store.look(views.raised, "none") is None


@pytest.mark.anyio
async def test_quarantined_lines_are_paged(tmp_path: Path) -> None:
    """The last one first."""
    lines = [Quarantined(path="a.jsonl", offset=n, length=1, reason="not_json") for n in range(3)]
    async with Store(tmp_path, clock=lambda: 1.0) as store:
        await store.commit(Commit(quarantine=lines))
        page, after = await store.look(views.quarantine, limit=2)
        assert page == [("a.jsonl", 2, 1, "not_json", 1.0), ("a.jsonl", 1, 1, "not_json", 1.0)]
        assert await store.look(views.quarantine, limit=2, after=after) == ([("a.jsonl", 0, 1, "not_json", 1.0)], None)


@pytest.mark.anyio
async def test_what_is_pruned_is_not_counted(tmp_path: Path) -> None:
    """Sums shrink with retention, and a run of which nothing is left is gone; a labelled step stays."""
    now = 0.0
    async with Store(tmp_path, clock=lambda: now) as store:
        (kept, *_) = await judge(store, [step("old", n) for n in (1, 2, 3)], [OFF, ON, ABSTAIN])
        await judge(store, [step("gone", 1)])
        await store.label(Saying(id=kept.step_id, label="off_path"))
        now = 100.0
        await judge(store, [step("new", 1)])
        await store.prune(max_age_seconds=50, max_bytes=1 << 40, now=now)

        found = (await store.look(views.trajectories, limit=9))["trajectories"]
        assert [(one["trajectory"], one["steps"], one["coverage"]) for one in found] == [
            ("new", 1, 1.0),
            ("old", 1, 0.5),
        ]
        assert found[1]["verdicts"] == {"on_path": 0, "off_path": 1, "abstain": 0}


@pytest.mark.anyio
async def test_an_older_database_is_filled_in(tmp_path: Path) -> None:
    """After the upgrade the lists say what they would have said all along."""
    async with Store(tmp_path, clock=lambda: 5.0) as store:
        await judge(store, [step("a", 1), step("a", 2)], [ON, OFF], alarm=True)
        await judge(store, [step("a", 3)], run=1)
        await judge(store, [step("b", 1)], [ABSTAIN])
        before = await store.look(views.trajectories, limit=9), await store.look(views.rows, 0, 9)
    with sqlite3.connect(tmp_path / DATABASE) as db:
        as_third_schema(db)
    db.close()
    async with Store(tmp_path, clock=lambda: 9.0) as store:
        assert (await store.look(views.trajectories, limit=9), await store.look(views.rows, 0, 9)) == before
        await judge(store, [step("a", 4)])
        assert (await store.look(views.trajectories, limit=1))["trajectories"][0]["steps"] == 3


@pytest.mark.anyio
async def test_looking_only_reads_and_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a look goes on there are commits, which it does not see; it cannot change anything, nor go on for ever."""
    loop, begun, committed = asyncio.get_running_loop(), anyio.Event(), threading.Event()

    def slow(db: sqlite3.Connection) -> tuple[int, int]:
        before = len(views.rows(db, 0, 9))
        loop.call_soon_threadsafe(begun.set)
        committed.wait(5)
        return before, len(views.rows(db, 0, 9))

    async def look() -> None:
        assert await store.look(slow) == (1, 1)

    async with Store(tmp_path) as store:
        await judge(store, [step("a", 1)])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            await begun.wait()
            await judge(store, [step("a", 2)])
            committed.set()
        assert len(await store.look(views.rows, 0, 9)) == 2
        with pytest.raises(StateError, match="readonly"):
            await store.look(lambda db: db.execute("DELETE FROM verdicts"))
        monkeypatch.setattr("verifierd.store._LOOK_SECONDS", -1.0)
        with pytest.raises(StateError, match="took too long"):
            await store.look(lambda db: db.execute(_ENDLESS).fetchall())
