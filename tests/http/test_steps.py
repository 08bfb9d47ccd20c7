"""What became of one call, as an agent's hook asks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette

from verifierd.http.steps import step_routes
from verifierd.store import Commit, Store, StoredStep, TrajectoryState
from verifierd.types import Action, Origin, Signal, Step, Verdict, VerdictKind

TEXT = "it said toolu_2 and \ud800"


def step(call_id: str, index: int = 1, trajectory: str = "session", observation: str = "text\n") -> Step:
    return Step(
        format="claude_code",
        trajectory=trajectory,
        index=index,
        action=Action(tool="Bash", command="cat a"),
        observation=observation,
        call_id=call_id,
        origin=Origin(path="a.jsonl", offset=index),
    )


def judged(of: Step, kind: VerdictKind = VerdictKind.OFF_PATH, policy: str = "default") -> Verdict:
    return Verdict(
        verdict_id=f"{policy}-{of.step_id}",
        step_id=of.step_id,
        trajectory=of.trajectory,
        step=of.index,
        tool=of.tool,
        domain="terminal",
        verdict=kind,
        reason="contradiction",
        signals=(Signal(name="contradiction", value=1.0, detail="expected b"),),
        observed=of.observation,
        predictor="shell",
        policy=policy,
        origin=of.origin,
        time="2026-01-01T00:00:00Z",
    )


async def keep(store: Store, *steps: Step, verdicts: list[Verdict] | None = None, run: int = 0) -> None:
    await store.commit(
        Commit(
            steps=[StoredStep(step=one, run=run, ordinal=one.index) for one in steps],
            verdicts=[judged(one) for one in steps] if verdicts is None else verdicts,
            trajectories=[TrajectoryState(format=one.format, trajectory=one.trajectory, run=run) for one in steps],
            render=lambda verdict: (
                b'{"verdict_id":"%s","step_id":"%s","trajectory":"t","step":%d,"tool":"Bash",'
                b'"verdict":"%s","reason":"contradiction","signals":[{"name":"n","value":1.0,"detail":"d"}]}\n'
                % (verdict.verdict_id.encode(), verdict.step_id.encode(), verdict.step, verdict.verdict.encode())
            ),
        )
    )


@asynccontextmanager
async def asking(store: Store) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(Starlette(routes=step_routes(store)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def asked(client: httpx2.AsyncClient, call_id: str, session: str = "session", **more: str) -> Any:
    answer = await client.get("/api/steps", params={"session": session, "call_id": call_id, **more})
    assert answer.status_code == 200
    return answer.json()["step"]


@pytest.mark.anyio
async def test_a_call_is_found_by_its_id_alone() -> None:
    """Not by what its text says, be that Unicode or not, nor in another session; sub-agents are the session's."""
    async with Store() as store, asking(store) as client:
        steps = [step("toolu_1", 1, observation=TEXT), step("toolu_2", 2), step("toolu_3", 1, "session/agent")]
        await keep(store, *steps, step("toolu_4", 1, "session2"), step("toolu_5", 1, "session/agent2"))

        for number, one in enumerate(steps, 1):
            found = await asked(client, f"toolu_{number}")
            assert (found["step_id"], found["verdict"]) == (one.step_id, "off_path")
            assert found["signals"][0]["detail"] == "d"
            assert "observed" not in found
        assert await asked(client, "toolu_4") is None
        assert await asked(client, "toolu_4", session="session2") is not None
        assert await asked(client, "toolu") is None
        assert await asked(client, "toolu_1", session="ses%") is None


@pytest.mark.anyio
async def test_a_step_is_found_by_its_number() -> None:
    """Where a log has no ids of calls; those of sub-agents have numbers of their own."""
    async with Store() as store, asking(store) as client:
        steps = [step("toolu_1", 1), step("toolu_2", 2)]
        await keep(store, *steps, step("toolu_3", 2, "session/agent"), step("toolu_4", 3, "session/agent"))

        assert (await asked(client, "", step="2"))["step_id"] == steps[1].step_id
        assert await asked(client, "", step="3") is None


@pytest.mark.anyio
async def test_the_last_verdict_counts() -> None:
    """A step that another policy judged later has that verdict."""
    async with Store() as store, asking(store) as client:
        one = step("toolu_1")
        await keep(store, one)
        await keep(store, verdicts=[judged(one, VerdictKind.ON_PATH, "strict")])

        assert (await asked(client, "toolu_1"))["verdict"] == "on_path"


@pytest.mark.anyio
async def test_it_waits_for_what_is_to_come() -> None:
    """A call that nobody has read yet is waited for, as long as was asked; other calls do not end that."""
    async with Store() as store, asking(store) as client, anyio.create_task_group() as tasks:

        async def later() -> None:
            await anyio.sleep(0.05)
            await keep(store, step("toolu_1"))
            await anyio.sleep(0.15)
            await keep(store, step("toolu_2", 2))

        tasks.start_soon(later)
        assert (await asked(client, "toolu_2", wait="20"))["step"] == 2
        assert await asked(client, "toolu_3", wait="0.15") is None


@pytest.mark.anyio
async def test_wrong_questions() -> None:
    """A question without a session, a call or a time that makes sense is refused."""
    async with Store() as store, asking(store) as client:
        for query in ("", "?session=a", "?call_id=b", f"?session=a&call_id={'x' * 513}", "?session=a&call_id=b&wait=x"):
            assert (await client.get(f"/api/steps{query}")).status_code == 400
        assert (await client.get("/api/steps?session=a&call_id=b&wait=-1")).status_code == 400
