"""Who listens hears all of it once, in order, also after being away; who is too slow is let go."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.test_views import judge, step
from verifierd import views
from verifierd.sinks import hub as module
from verifierd.sinks.hub import Hub, Listener
from verifierd.store import Store
from verifierd.types import VerdictKind


async def figures() -> dict[str, Any]:
    return {"figures": True}


@asynccontextmanager
async def running(folder: Path, **options: int) -> AsyncIterator[tuple[Store, Hub]]:
    async with Store(folder) as store, anyio.create_task_group() as tasks:
        hub = Hub(store, **options)
        tasks.start_soon(hub.run, figures)
        await anyio.sleep(0.05)
        yield store, hub
        tasks.cancel_scope.cancel()


async def go(store: Store, hub: Hub, first: int, count: int = 1, trajectory: str = "t", **how: Any) -> None:
    await hub.emit(await judge(store, [step(trajectory, n) for n in range(first, first + count)], **how))


def told(data: bytes) -> list[tuple[str, Any]]:
    found = []
    for block in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
            assert "id" not in fields or int(fields["id"]) == found[-1][1]["seq"]
    return found


async def heard(listener: Listener, count: int, kinds: Sequence[str] = ("verdict",)) -> list[Any]:
    """The next so many events of some kinds."""
    found: list[Any] = []
    with anyio.fail_after(10):
        while len(found) < count:
            found += [said for event, said in told(await listener.next()) if event in kinds]
    return found


@pytest.mark.anyio
async def test_all_is_heard_once_and_in_order(tmp_path: Path) -> None:
    """Two who listen hear the same; a verdict comes as a row with its run's key."""
    async with running(tmp_path) as (store, hub):
        await go(store, hub, 1)
        with hub.listen() as one, hub.listen() as other:
            await go(store, hub, 2, 3)
            await go(store, hub, 5)
            for listener in (one, other):
                found = await heard(listener, 4)
                assert [said["step"] for said in found] == [2, 3, 4, 5]
                assert {said["trajectory_id"] for said in found} == {views.key("native", "t", 0)}


@pytest.mark.anyio
async def test_an_event_is_a_line(tmp_path: Path) -> None:
    """Also for readers that end lines where texts do, whatever a name holds."""
    async with running(tmp_path) as (_, hub):
        with hub.listen() as listener:
            hub.tell("label", {"note": "a\u2028b\u2029c\x85d"})
            (said,) = await heard(listener, 1, ["label"])
        assert said == {"note": "a\u2028b\u2029c\x85d"}


@pytest.mark.anyio
async def test_who_was_away_hears_what_was_missed(tmp_path: Path) -> None:
    """From a number on nothing is missing and nothing comes twice, though verdicts go on meanwhile."""
    async with running(tmp_path) as (store, hub):
        await go(store, hub, 1, 450)
        with hub.listen(after=3) as listener:
            await go(store, hub, 451, 50)
            assert [said["seq"] for said in await heard(listener, 497)] == list(range(4, 501))


@pytest.mark.anyio
async def test_who_missed_too_much_is_told_to_look_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is who comes with a number of another database, and who listens while a backlog is judged."""
    monkeypatch.setattr(module, "_MISSED", 10)
    async with running(tmp_path) as (store, hub):
        await go(store, hub, 1, 20)
        for after in (2, 500):
            with hub.listen(after=after) as listener:
                assert await heard(listener, 1, ("reset", "verdict")) == [{"seq": 20}]
        with hub.listen() as listener:
            await go(store, hub, 21, 30)
            assert await heard(listener, 1, ("reset", "verdict")) == [{"seq": 50}]


@pytest.mark.anyio
async def test_alarms_labels_and_figures_are_told(tmp_path: Path) -> None:
    """An alarm follows its verdict and comes again when acknowledged; after anything come the figures."""
    async with running(tmp_path) as (store, hub):
        with hub.listen() as listener:
            await go(store, hub, 1, kinds=[VerdictKind.OFF_PATH], alarm=True)
            row, raised, summed = await heard(listener, 3, ("verdict", "alarm", "summary"))
            assert row["alarm"]
            assert (raised["id"], raised["acknowledged"]) == (row["verdict_id"], None)
            assert summed == {"figures": True}
            await store.acknowledge(row["verdict_id"], by="me")
            hub.tell("alarm", {"id": row["verdict_id"]})
            hub.tell("label", {"id": "x"})
            again, label = await heard(listener, 2, ("alarm", "label"))
            assert again["acknowledged"]["by"] == "me"
            assert again["trajectory_id"] == row["trajectory_id"]
            assert label == {"id": "x"}


@pytest.mark.anyio
async def test_who_is_too_slow_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for the slow is bounded; who comes back with his number hears all the same."""
    monkeypatch.setattr(module, "_PIECES", 2)
    async with running(tmp_path) as (store, hub):
        with hub.listen() as slow, hub.listen() as quick:
            for n in range(1, 6):
                await go(store, hub, n)
                await heard(quick, 1)
            assert await slow.next() == b""
            assert len(hub.pieces) <= 2
        with hub.listen(after=0) as back:
            assert [said["seq"] for said in await heard(back, 5)] == [1, 2, 3, 4, 5]


@pytest.mark.anyio
async def test_nobody_listens_and_only_so_many_may(tmp_path: Path) -> None:
    """Without listeners nothing is read or kept; beyond the limit the hub says that it is full."""
    async with running(tmp_path, limit=1) as (store, hub):
        await go(store, hub, 1, 5)
        hub.tell("label", {"id": "x"})
        await anyio.sleep(0.02)
        assert (hub.seq, list(hub.pieces)) == (5, [])
        with hub.listen():
            assert hub.full
        assert not hub.full


@pytest.mark.anyio
async def test_at_the_end_all_are_let_go(tmp_path: Path) -> None:
    """Those who wait get nothing more, at once."""
    async with running(tmp_path) as (_, hub):
        with hub.listen() as listener, anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hub.aclose)
                assert await listener.next() == b""
