"""The console's answers over a real connection, on a real store."""

import gzip
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
import pytest

from tests.test_http import BEARER, TOKEN, raw, served
from tests.test_views import ABSTAIN, OFF, ON, judge, step, verdict
from verifierd import http, views
from verifierd.adapters import open_adapter
from verifierd.http.figures import estimate
from verifierd.labels import Saying
from verifierd.metrics import Metrics
from verifierd.sanitize import Sanitizer
from verifierd.sinks.hub import Hub
from verifierd.sinks.recent import Recent
from verifierd.store import Commit, Quarantined, Store, StoredStep
from verifierd.types import Origin, Record, Step

KEY = "sk-" + "ant-api03-" + "zK8mQ2vX7pL4"
SAME = {"Sec-Fetch-Site": "same-origin"}


class Desk:
    """A client of an endpoint with a console, and what is behind it."""

    def __init__(self, client: httpx2.AsyncClient, store: Store, hub: Hub) -> None:
        self.client, self.store, self.hub = client, store, hub

    async def get(self, path: str, status: int = 200, **headers: str) -> Any:
        answer = await self.client.get(path, headers=headers)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        return answer.json()


@asynccontextmanager
async def desk(
    folder: Path,
    *,
    private: bool = False,
    quotes: str = "short",
    alpha: float | None = None,
    unknown: Mapping[str, Mapping[str, int]] | None = None,
    limit: int = 8,
) -> AsyncIterator[Desk]:
    async with Store(folder / "state") as store, anyio.create_task_group() as tasks:
        hub = Hub(store, limit=limit)
        facts = http.Facts(policy="default@1", predictor="shell", model=None, quotes=quotes, alpha=alpha)
        console = http.Console(
            store=store,
            events=hub,
            facts=lambda: facts,
            text=Sanitizer(b"salt").text,
            unknown=lambda: unknown or {},
        )
        app = http.app(
            metrics=Metrics(),
            recent=Recent(),
            readiness=lambda: (True, {}),
            token=TOKEN,
            ended=folder / "ended",
            alarms=store,
            labels=store,
            console=console,
            private=private,
        )

        async def figures() -> dict[str, Any]:
            return await http.summary(console)

        tasks.start_soon(hub.run, figures)
        async with served(app) as client:
            yield Desk(client, store, hub)
            await hub.aclose()
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_the_summary_counts_and_estimates(tmp_path: Path) -> None:
    """Rates are of what was labelled, with intervals; the budget is used up by alarms that were false."""
    async with desk(tmp_path, alpha=0.05) as one:
        found = await one.get("/api/summary")
        assert found["rates"]["fpr"] == {"value": None, "low": None, "high": None, "n": 0}
        assert found["budget"]["ratio"] is None
        steps = [step("t", n) for n in (1, 2, 3, 4)]
        await judge(one.store, steps, [ON, OFF, ABSTAIN, OFF], alarm=True)
        for of, label in zip(steps, ("off_path", "on_path", "off_path", "on_path"), strict=True):
            await one.store.label(Saying(id=of.step_id, label=label))  # type: ignore[arg-type]
        found = await one.get("/api/summary")

    assert found["verdicts"] == {"on_path": 1, "off_path": 2, "abstain": 1}
    assert (found["rates"]["fpr"]["value"], found["rates"]["fpr"]["n"]) == (1.0, 2)
    assert (found["rates"]["fnr"]["value"], found["rates"]["labelled"], found["rates"]["pending"]) == (1.0, 4, 0)
    assert found["rates"]["abstention"]["value"] == 0.25
    assert found["budget"] == {
        "alpha": 0.05,
        "false_alarms": 1,
        "trajectories": 1,
        "realised": msgspec.to_builtins(estimate(1, 1)),
        "ratio": 20.0,
    }
    assert (found["alarms_open"], found["seq"], found["policy"], found["model"]) == (1, 4, "default@1", None)


def test_estimates_hold_for_many_cases() -> None:
    """Where the exact interval gives way to the quick one the two agree."""
    exact, quick = estimate(40, 2000), estimate(41, 2001)
    assert exact.low == pytest.approx(quick.low, abs=1e-3)
    assert exact.high == pytest.approx(quick.high, abs=1e-3)


@pytest.mark.anyio
async def test_lists_and_pages(tmp_path: Path) -> None:
    """Trajectories and their steps come by pages and filters; a verdict comes whole, with what was said of it."""
    steps = [step("t", n) for n in (1, 2, 3)]
    async with desk(tmp_path) as one:
        await judge(one.store, steps, [ON, OFF, ON])
        await judge(one.store, [step("u", 1, "codex")])
        page = await one.get("/api/trajectories?limit=1")
        assert [found["trajectory"] for found in page["trajectories"]] == ["u"]
        page = await one.get(f"/api/trajectories?limit=1&after={page['next']}")
        (run,) = page["trajectories"]
        assert (await one.get("/api/trajectories?agent=codex&verdict=&q="))["trajectories"][0]["trajectory"] == "u"
        found = await one.get(f"/api/trajectories/{run['id']}/steps?verdict=off_path")
        assert [row["step"] for row in found["steps"]] == [2]
        said = await one.client.post(
            "/api/labels", json={"id": steps[1].step_id, "label": "on_path", "note": "fine"}, headers=BEARER
        )
        assert said.status_code == 200
        for identity in (found["steps"][0]["verdict_id"], steps[1].step_id, steps[1].step_id[:12]):
            whole = await one.get(f"/api/verdicts/{identity}")
            assert (whole["step"], whole["surprise"], whole["trajectory_id"]) == (2, None, run["id"])
            assert (whole["label"]["label"], whole["labels"][0]["note"]) == ("on_path", "fine")
            assert whole["neighbours"]["before"].endswith(steps[0].step_id)


@pytest.mark.anyio
async def test_questions_that_make_no_sense(tmp_path: Path) -> None:
    """They are refused with a word of why, and a path from outside finds nothing."""
    async with desk(tmp_path) as one:
        for path, status in {
            "/api/trajectories?limit=x": 400,
            "/api/trajectories?verdict=bad": 400,
            "/api/trajectories?alarm=all": 400,
            "/api/trajectories/none/steps": 404,
            "/api/trajectories/none/steps?after=-1": 400,
            "/api/verdicts/00000000": 404,
            "/api/verdicts/..%2f..%2fetc%2fpasswd": 404,
            "/api/verdicts/%00": 400,
            "/api/verdicts/x/record": 400,
            "/api/quarantine?after=x": 400,
            "/api/events?after=x": 400,
        }.items():
            assert "error" in await one.get(path, status), path


@pytest.mark.anyio
async def test_what_could_not_be_read_is_listed(tmp_path: Path) -> None:
    """Lines with their place, whose path is made fit to be shown; unknown records by format."""
    line = Quarantined(path=f"/logs/{KEY}\x1b[1m.jsonl", offset=5, length=7, reason="not_json")
    async with desk(tmp_path, unknown={"codex": {"odd": 3}}) as one:
        await one.store.commit(Commit(quarantine=[line]))
        found = await one.get("/api/quarantine")
        assert found["next"] is None
        (shown,) = found["lines"]
        assert (shown["offset"], shown["length"], shown["reason"]) == (5, 7, "not_json")
        assert "zK8mQ" not in shown["path"]
        assert "\x1b" not in shown["path"]
        assert await one.get("/api/unknown") == {"formats": {"codex": {"odd": 3}}}


def logged(path: Path, *lines: bytes, packed: bool = False) -> list[Step]:
    """Write a native log, and its steps."""
    data = b"".join(line + b"\n" for line in lines)
    path.write_bytes(gzip.compress(data) if packed else data)
    adapter = open_adapter("native", path=str(path))
    offset = 0
    steps: list[Step] = []
    for line in lines:
        record = Record(origin=Origin(path=str(path), offset=offset), end=offset + len(line) + 1, data=line)
        steps += adapter.feed(record)
        offset = record.end
    return [*steps, *adapter.finish()]


def native(step: int, observation: str) -> bytes:
    line = {"trajectory": "t", "step": step, "action": f"cat {step}", "observation": observation, "exit_code": 0}
    return json.dumps(line).encode()


async def keep(store: Store, steps: list[Step]) -> list[str]:
    """Judge steps; the ids of their verdicts."""
    await store.commit(
        Commit(
            steps=[StoredStep(step=of, run=0, ordinal=of.index) for of in steps],
            verdicts=[verdict(of) for of in steps],
        )
    )
    return [f"v-{of.step_id}" for of in steps]


@pytest.mark.anyio
@pytest.mark.parametrize("packed", [False, True])
async def test_a_record_is_shown_as_it_stands(tmp_path: Path, packed: bool) -> None:  # noqa: FBT001
    """The line of a step, also of an archive, as readable JSON without secrets, though escapes hide them."""
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    evil = f"first\n{KEY}\x1b]52;c;Zm9v\x07\u202e <script> " + "x" * 9000
    lines = logged(path, native(1, "one"), native(2, evil), native(3, "password=hunter2"), packed=packed)
    async with desk(tmp_path) as one:
        first, second, third = await keep(one.store, lines)
        found = await one.get(f"/api/verdicts/{first}/record")
        assert (found["state"], found["offset"], found["path"]) == ("ok", 0, str(path))
        assert json.loads(found["text"])["observation"] == "one"
        found = await one.get(f"/api/verdicts/{second}/record")
        assert "zK8mQ" not in found["text"]
        assert not {"\x1b", "\x07", "\u202e"} & set(found["text"])
        assert "<script>" in found["text"]
        assert len(found["text"]) < 4000
        assert "hunter2" not in (await one.get(f"/api/verdicts/{third}/record"))["text"]


@pytest.mark.anyio
async def test_a_record_that_is_not_there_any_more(tmp_path: Path) -> None:
    """Whether the log was rewritten, replaced or removed, it is said, and nothing else is shown in its place."""
    path = tmp_path / "a.jsonl"
    steps = logged(path, native(1, "one"), native(2, "two"))
    async with desk(tmp_path) as one:
        _, second = await keep(one.store, steps)

        async def state() -> Any:
            found = await one.get(f"/api/verdicts/{second}/record")
            assert (found["text"] is None) == (found["state"] != "ok")
            assert found["note"] or found["state"] == "ok"
            return found["state"]

        assert await state() == "ok"
        path.write_bytes(native(1, "one") + b"\n" + native(2, "three") + b"\n")
        assert await state() == "changed"
        path.write_bytes(b"x" * 500)
        assert await state() == "changed"
        path.write_bytes(native(1, "one") + b"\n" + b"x" * (3 * 1024**2))
        assert await state() == "too_long"
        path.unlink()
        assert await state() == "gone"
        path.symlink_to(path)
        assert await state() == "unreadable"
        path.unlink()
        path.mkdir()
        assert await state() in ("changed", "unreadable")


@pytest.mark.anyio
async def test_a_policy_that_quotes_nothing_shows_no_record(tmp_path: Path) -> None:
    """Nor is one shown whose step is not kept."""
    steps = logged(tmp_path / "a.jsonl", native(1, "one"))
    async with desk(tmp_path, quotes="off") as one:
        (identity,) = await keep(one.store, steps)
        found = await one.get(f"/api/verdicts/{identity}/record")
        assert (found["state"], found["text"]) == ("hidden", None)
        await one.store.commit(Commit(verdicts=[verdict(step("lost", 1))]))
        found = await one.get(f"/api/verdicts/v-{step('lost', 1).step_id}/record")
        assert (found["state"], found["text"]) == ("forgotten", None)


async def read(stream: Any, count: int) -> list[dict[str, str]]:
    """The next so many events of a stream."""
    found: list[dict[str, str]] = []
    text = ""
    with anyio.fail_after(10):
        async for piece in stream:
            text += piece
            *blocks, text = text.split("\n\n")
            for block in blocks:
                fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
                if "event" in fields:
                    found.append(fields)
            if len(found) >= count:
                return found
    return found


@pytest.mark.anyio
async def test_events_come_as_they_happen_and_resume(tmp_path: Path) -> None:
    """Verdicts, labels and figures are told; a stream that broke off goes on after the last number."""
    async with desk(tmp_path) as one:
        await judge(one.store, [step("t", 1)])
        async with one.client.stream("GET", "/api/events", headers={"Last-Event-ID": "0"}) as stream:
            assert stream.headers["content-type"] == "text/event-stream"
            assert stream.headers["cache-control"] == "no-store"
            texts = stream.aiter_text()
            await one.hub.emit(await judge(one.store, [step("t", 2)]))
            found = await read(texts, 3)
            assert [event["event"] for event in found] == ["verdict", "verdict", "summary"]
            assert [event.get("id") for event in found] == ["1", "2", None]
            assert json.loads(found[0]["data"])["trajectory_id"] == views.key("native", "t", 0)
        async with one.client.stream("GET", "/api/events?after=1") as stream:
            texts = stream.aiter_text()
            assert (await read(texts, 1))[0]["id"] == "2"
            label = {"id": step("t", 2).step_id, "label": "off_path"}
            await one.client.post("/api/labels", json=label, headers=BEARER)
            (said, *_) = await read(texts, 1)
            assert said["event"] == "label"
            assert json.loads(said["data"])["label"]["label"] == "off_path"


@pytest.mark.anyio
async def test_only_so_many_may_listen(tmp_path: Path) -> None:
    """Beyond that one is asked to come back later, and who leaves makes room."""
    async with desk(tmp_path, limit=1) as one:
        async with one.client.stream("GET", "/api/events"):
            assert "error" in await one.get("/api/events", 503)
        with anyio.fail_after(5):
            while one.hub.full:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.01)
        assert (await one.client.head("/api/events")).status_code == 200


@pytest.mark.anyio
async def test_streams_leave_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams do not count among the connections that are bounded (case 114); who takes nothing off us is cut off."""
    monkeypatch.setattr("verifierd.http.server._CONNECTIONS", 3)
    async with desk(tmp_path) as one:
        port = one.client.base_url.port or 0
        streams = []
        for _ in range(6):
            streams.append(await anyio.connect_tcp("127.0.0.1", port))
            await streams[-1].send(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in await streams[-1].receive()
        await one.get("/api/summary")
        for stream in streams:
            await stream.aclose()


@pytest.mark.anyio
async def test_a_stop_does_not_wait_for_streams(tmp_path: Path) -> None:
    """Those who listen are let go, and the endpoint is down at once."""
    with anyio.fail_after(10):
        async with desk(tmp_path) as one:
            stream = await anyio.connect_tcp("127.0.0.1", one.client.base_url.port or 0)
            await stream.send(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in await stream.receive()
            began = anyio.current_time()
        assert anyio.current_time() - began < 1.5  # else it waited for the grace time
        await stream.aclose()


@pytest.mark.anyio
async def test_a_session_counts_as_the_token(tmp_path: Path) -> None:
    """The token buys a cookie that no script sees and that is not the token; it ends when it is told to."""
    async with desk(tmp_path, private=True) as one:
        await one.get("/api/summary", 401)
        wrong = await one.client.post("/api/session", json={"token": "f" * 64})
        assert (wrong.status_code, wrong.headers.get("set-cookie")) == (401, None)
        answer = await one.client.post("/api/session", json={"token": TOKEN}, headers=SAME)
        baked = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(baked.split("; "))
        assert TOKEN not in baked
        await one.get("/api/summary")
        assert (await one.get("/api/session"))["session"]
        value = one.client.cookies["verifierd_session"]
        ended = await one.client.delete("/api/session", headers=SAME)
        assert "Max-Age=0" in ended.headers["set-cookie"]
        one.client.cookies.clear()
        await one.get("/api/summary", 401, Cookie=f"verifierd_session={value}")
    async with desk(tmp_path, private=True) as again:
        await again.get("/api/summary", 401, Cookie=f"verifierd_session={value}")


@pytest.mark.anyio
async def test_a_session_whose_end_cannot_be_kept(tmp_path: Path) -> None:
    """It ends, and who ended it is told that a restart would bring it back."""
    async with desk(tmp_path, private=True) as one:
        await one.client.post("/api/session", json={"token": TOKEN}, headers=SAME)
        (tmp_path / "ended").mkdir()
        value = one.client.cookies["verifierd_session"]
        ended = await one.client.delete("/api/session", headers=SAME)
        assert (ended.status_code, "Max-Age=0" in ended.headers["set-cookie"]) == (503, True)
        assert "cannot keep ended sessions" in ended.json()["error"]
        await one.get("/api/summary", 401, Cookie=f"verifierd_session={value}")


@pytest.mark.anyio
async def test_a_session_serves_our_own_page_alone(tmp_path: Path) -> None:
    """With the cookie a page of another port or site gets and changes nothing (cases 112 and 113)."""
    async with desk(tmp_path, private=True) as one:
        await judge(one.store, [step("t", 1)])
        await one.client.post("/api/session", json={"token": TOKEN})
        label = {"id": step("t", 1).step_id, "label": "on_path"}
        own = str(one.client.base_url).rstrip("/")
        for headers in (
            {},  # nobody says whose page it is
            {"Origin": "http://localhost:1"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "same-site"},
            {"Origin": own, "Sec-Fetch-Site": "cross-site"},
        ):
            answer = await one.client.post("/api/labels", json=label, headers=headers)
            assert answer.status_code in (401, 403), headers
        await one.get("/api/summary", 401, **{"Sec-Fetch-Site": "same-site"})
        await one.get("/api/summary", 401, Origin="http://localhost:1")
        for headers in ({"Origin": own}, SAME):
            assert (await one.client.post("/api/labels", json=label, headers=headers)).status_code == 200
        plain = await one.client.post(
            "/api/labels", content=json.dumps(label), headers={**SAME, "Content-Type": "text/plain"}
        )
        assert plain.status_code == 415
        assert "access-control-allow-origin" not in plain.headers


@pytest.mark.anyio
@pytest.mark.parametrize("value", ["", "x", "9" * 12 + "." + "0" * 32 + "." + "0" * 64, TOKEN])
async def test_a_made_up_session_is_none(tmp_path: Path, value: str) -> None:
    """Nobody who lacks the token can make one."""
    async with desk(tmp_path, private=True) as one:
        await one.get("/api/summary", 401, Cookie=f"verifierd_session={value}")


def test_a_session_does_not_last_for_ever(tmp_path: Path) -> None:
    """After a week the token is asked for again, and it is not kept any longer that a session was ended before."""
    now, ended = 1000.0, tmp_path / "ended"
    ended.touch(0o600)
    ended.write_bytes(b"\xff\n" + b"9" * 5000 + b".0\n")  # what is no session does no harm
    sessions = http.guard.Sessions(TOKEN, ended=ended, clock=lambda: now)
    value, other = sessions.make(), sessions.make()
    sessions.end(other)
    assert ended.read_text() == other.rpartition(".")[0] + "\n"  # what was signed, and not the signature
    assert ended.stat().st_mode & 0o777 == 0o600
    assert sessions.holds(value)
    now += sessions.seconds + 1
    assert not sessions.holds(value)
    later = sessions.make()
    sessions.end(later)
    assert ended.read_text() == later.rpartition(".")[0] + "\n"
    assert not http.guard.Sessions("0" * 64, clock=lambda: 1000.0).holds(value)


@pytest.mark.anyio
async def test_the_console_is_served_from_the_package_alone(tmp_path: Path) -> None:
    """Its files come with a strict policy, also without a token; what is none of them is not there."""
    async with desk(tmp_path, private=True) as one:
        page = await one.client.get("/console/")
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in policy
        assert "unsafe" not in policy
        again = await one.client.get("/console/index.html", headers={"If-None-Match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        enter = await one.client.get("/console")
        assert (enter.status_code, enter.headers["location"]) == (307, "/console/")
        for path in (
            b"/console/../app.py",
            b"/console/%2e%2e/app.py",
            b"/console/..%2fapp.py",
            b"/console//etc/passwd",
        ):
            answer = await raw(one.client, b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
            assert b" 404 " in answer.splitlines()[0] or b" 401 " in answer.splitlines()[0], path
