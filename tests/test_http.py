"""The admin endpoint over a real connection: who may ask what, what comes back, how it starts and stops."""

import os
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from verifierd import http
from verifierd.errors import ConfigError, StateError, VerifierdError
from verifierd.labels import Saying
from verifierd.metrics import Metrics
from verifierd.sanitize import Sanitizer
from verifierd.sinks.recent import Recent
from verifierd.store import Commit, Raised, Store
from verifierd.types import Alarm, Origin, Record, Verdict, VerdictKind

TOKEN = "0123456789abcdef" * 4
KEY = "sk-" + "ant-api03-" + "zK8mQ2vX7pL4"
JSON = {"Content-Type": "application/json"}
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def verdict(seq: int, kind: str = "on_path", **changed: object) -> Verdict:
    fields: dict[str, object] = {
        "seq": seq,
        "verdict_id": f"v{seq}",
        "step_id": f"s{seq}",
        "trajectory": "t",
        "step": seq,
        "tool": "bash",
        "domain": "terminal",
        "verdict": VerdictKind(kind),
        "reason": "exact",
        "predictor": "shell",
        "policy": "default",
        "origin": Origin(path="a.jsonl", offset=0),
        "time": "2026-01-01T00:00:00Z",
    }
    return Verdict(**(fields | changed))  # type: ignore[arg-type]


def application(
    *,
    metrics: Metrics | None = None,
    recent: http.RecentVerdicts | None = None,
    readiness: Callable[[], tuple[bool, Mapping[str, object]]] = lambda: (True, {}),
    private: bool = False,
    allowed_hosts: Sequence[str] = (),
    alarms: http.Alarms | None = None,
    labels: http.Labels | None = None,
    reload: Callable[[], Awaitable[Mapping[str, object]]] | None = None,
) -> Starlette:
    return http.app(
        metrics=metrics or Metrics(),
        recent=recent or Recent(),
        readiness=readiness,
        token=TOKEN,
        alarms=alarms,
        labels=labels,
        reload=reload,
        private=private,
        allowed_hosts=allowed_hosts,
    )


@asynccontextmanager
async def served(app: Starlette, host: str = "127.0.0.1") -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the running endpoint."""
    async with anyio.create_task_group() as tasks:
        port = await tasks.start(http.serve, app, host, 0)
        name = f"[{host}]" if ":" in host else host
        async with httpx2.AsyncClient(base_url=f"http://{name}:{port}", trust_env=False) as client:
            yield client
        tasks.cancel_scope.cancel()


async def raw(client: httpx2.AsyncClient, request: bytes) -> bytes:
    """What comes back for bytes that no client would send."""
    async with await anyio.connect_tcp(str(client.base_url.host), client.base_url.port or 0) as stream:
        await stream.send(request)
        answer = b""
        with anyio.fail_after(5):
            while b"\r\n\r\n" not in answer:
                try:
                    answer += await stream.receive()
                except anyio.EndOfStream:
                    break
    return answer


@pytest.mark.anyio
async def test_routes() -> None:
    """Each route answers a GET and a HEAD, with headers that keep pages and caches out."""
    async with served(application()) as client:
        for path in ("/", "/livez", "/readyz", "/metrics", "/api/verdicts"):
            answer = await client.get(path)
            assert answer.status_code == 200, path
            assert answer.headers["content-security-policy"].startswith("default-src 'none'")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cache-control"] == "no-store"
            assert "server" not in answer.headers
            assert not [name for name in answer.headers if name.startswith("access-control")]
            assert (await client.head(path)).content == b""
        assert (await client.get("/")).headers["content-type"].startswith("text/plain")
        assert "/metrics" in (await client.get("/")).text.split()


@pytest.mark.anyio
async def test_readiness() -> None:
    """Until it is ready the endpoint says 503 with the facts; being alive is another matter."""
    async with served(application(readiness=lambda: (False, {"scanned": False}))) as client:
        answer = await client.get("/readyz")

        assert answer.status_code == 503
        assert answer.json() == {"ready": False, "scanned": False}
        assert (await client.get("/livez")).json() == {"live": True}


@pytest.mark.anyio
async def test_verdicts() -> None:
    """Recent verdicts come newest first, by kind, after a number, and not all at once."""
    recent = Recent()
    await recent.emit([verdict(n, "off_path" if n % 2 else "on_path") for n in range(1, 301)])
    async with served(application(recent=recent)) as client:

        async def seqs(query: str) -> list[int]:
            answer = await client.get(f"/api/verdicts{query}")
            assert answer.headers["content-type"] == "application/json"
            return [v["seq"] for v in answer.json()["verdicts"]]

        assert await seqs("") == list(range(300, 200, -1))
        assert await seqs("?limit=2") == [300, 299]
        assert await seqs("?limit=2&verdict=off_path") == [299, 297]
        assert await seqs("?after=298") == [300, 299]


@pytest.mark.anyio
@pytest.mark.parametrize("query", ["verdict=bad", "limit=-1", "limit=x", "after=1e9", "limit=" + "9" * 40, "after="])
async def test_bad_query(query: str) -> None:
    """A query that makes no sense is refused with a word of why."""
    async with served(application()) as client:
        answer = await client.get(f"/api/verdicts?{query}")

    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}


@pytest.mark.anyio
async def test_secrets_never_come_out() -> None:
    """A key planted in every text of a verdict, and what acts on terminals, is in no answer; HTML is data."""
    evil = f"<script>alert(1)</script> {KEY} \x1b]52;c;Zm9v\x07 \u202e PASSWORD=hunter2"
    recent = Recent()
    planted = verdict(
        1,
        "off_path",
        action=evil,
        predicted=evil,
        observed=evil,
        reason=evil,
        tool=evil,
        trajectory=evil,
        domain=evil,
        origin=Origin(path=evil, offset=0),
    )
    await recent.emit([Sanitizer(b"salt").verdict(planted, "full")])
    async with served(application(recent=recent)) as client:
        answers = [await client.get(path) for path in ("/", "/readyz", "/metrics", "/api/verdicts", f"/{KEY}")]

    for answer in answers:
        assert b"zK8mQ" not in answer.content
        assert b"hunter2" not in answer.content
        assert "\u202e" not in answer.text
        assert b"u001b" not in answer.content
        assert not answer.headers["content-type"].startswith("text/html")
    assert "<script>" in answers[3].json()["verdicts"][0]["observed"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:9", "box.lan"]
)
async def test_hosts_that_are_ours(host: str) -> None:
    """We may be addressed by the names of this machine, in any case and with any port."""
    async with served(application(allowed_hosts=["Box.lan"])) as client:
        assert (await client.get("/livez", headers={"Host": host})).status_code == 200


@pytest.mark.anyio
@pytest.mark.parametrize(
    "host",
    ["evil.example", "", "localhost.evil.example", "evil@localhost", "localhost:x", "[::1", "::1", "127.0.0.1.", "a b"],
)
async def test_hosts_that_are_not(host: str) -> None:
    """A page whose own name was made to point here is refused, as is a Host that is none."""
    async with served(application()) as client:
        answer = await raw(client, f"GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "request_line", [b"GET /livez HTTP/1.1", b"GET /livez HTTP/1.0", b"GET http://localhost/livez HTTP/1.0"]
)
async def test_no_host(request_line: bytes) -> None:
    """A request without a Host is refused."""
    async with served(application()) as client:
        assert b" 400 " in (await raw(client, request_line + b"\r\n\r\n")).split(b"\r\n")[0]


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/api/labels", "/livez"])
async def test_changes_need_the_token(method: str, path: str) -> None:
    """Without the token nobody learns so much as which paths exist."""
    async with served(application()) as client:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": "Bearer"},
        ):
            answer = await client.request(method, path, headers={**JSON, **headers})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert TOKEN not in answer.text


@pytest.mark.anyio
async def test_token_in_the_address_is_no_token() -> None:
    """Addresses end up in logs and histories."""
    async with served(application()) as client:
        assert (await client.post(f"/api/labels?token={TOKEN}", headers=JSON)).status_code == 401


@pytest.mark.anyio
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_foreign_pages_change_nothing(headers: dict[str, str]) -> None:
    """Not even with the token."""
    async with served(application()) as client:
        assert (await client.post("/api/labels", headers={**JSON, **BEARER, **headers})).status_code == 403


@pytest.mark.anyio
async def test_changes_that_are_let_through() -> None:
    """With token, JSON and our own Origin a request reaches the routes, and 404 and 405 are told."""
    async with served(application()) as client:
        own = {**JSON, **BEARER, "Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
        nowhere = await client.post("/api/nothing", headers=own, content=b"{}")
        wrong = await client.post("/livez", headers={**own, "Content-Type": "application/json; charset=utf-8"})

    assert (nowhere.status_code, nowhere.json()) == (404, {"error": "Not Found"})
    assert (wrong.status_code, wrong.json()) == (405, {"error": "Method Not Allowed"})
    assert sorted(wrong.headers["allow"].split(", ")) == ["GET", "HEAD"]


@asynccontextmanager
async def alarmed(**more: Any) -> AsyncIterator[tuple[httpx2.AsyncClient, Metrics]]:
    """An endpoint over a store with two alarms, of the verdicts v1 and v2."""
    metrics = Metrics()
    alarm = Alarm(statistic=3.5, threshold=2.0, raised=True, new=True, first_bad=1)
    async with Store(clock=lambda: 60.0) as store:
        raised = [Raised(key=("native", f"t{n}"), run=0, verdict_id=f"v{n}", step=4, alarm=alarm) for n in (1, 2)]
        await store.commit(Commit(verdicts=[verdict(1), verdict(2)], alarms=raised))
        async with served(application(metrics=metrics, alarms=store, **more)) as client:
            yield client, metrics


@pytest.mark.anyio
async def test_alarms_are_listed_and_acknowledged() -> None:
    """Open ones first; the first acknowledgement counts, needs the token, and moves the gauge."""
    async with alarmed() as (client, metrics):
        listed = (await client.get("/api/alarms")).json()
        refused = await client.post("/api/alarms/v2/ack", headers=JSON, content=b"{}")
        done = await client.post(
            "/api/alarms/v2/ack", headers={**JSON, **BEARER}, content=b'{"by": "ada\\u001b", "note": "a drill"}'
        )
        again = await client.post("/api/alarms/v2/ack", headers={**JSON, **BEARER})
        after = (await client.get("/api/alarms?limit=1")).json()
        scrape = (await client.get("/metrics")).text

    assert [alarm["id"] for alarm in listed["alarms"]] == ["v2", "v1"]
    assert listed["open"] == 2
    assert listed["alarms"][0] == {
        "id": "v2",
        "format": "native",
        "trajectory": "t",
        "run": 0,
        "step": 4,
        "first_bad": 1,
        "statistic": 3.5,
        "threshold": 2.0,
        "time": "1970-01-01T00:01:00.000Z",
        "acknowledged": None,
    }
    assert refused.status_code == 401
    assert done.status_code == 200
    assert done.json()["acknowledged"] == {
        "time": "1970-01-01T00:01:00.000Z",
        "by": "ada\\x1b",
        "note": "a drill",
    }
    assert again.json() == done.json()
    assert (after["open"], [alarm["id"] for alarm in after["alarms"]]) == (1, ["v1"])
    assert "verifierd_alarms_open 1.0" in scrape
    assert metrics.registry.get_sample_value("verifierd_alarms_open") == 1


@pytest.mark.anyio
async def test_acknowledgements_that_make_no_sense() -> None:
    """An unknown alarm, a body of another shape and another method are refused, and nothing changes."""
    async with alarmed() as (client, _):
        headers = {**JSON, **BEARER}
        assert (await client.post("/api/alarms/v9/ack", headers=headers)).status_code == 404
        for body in (b"[]", b'{"by": 1}', b'{"who": "ada"}', b"{"):
            answer = await client.post("/api/alarms/v1/ack", headers=headers, content=body)
            assert answer.status_code == 400
            assert '{"by": "name"' in answer.json()["error"]
        assert (await client.get("/api/alarms/v1/ack")).status_code == 405
        assert (await client.get("/api/alarms?limit=x")).status_code == 400
        assert (await client.get("/api/alarms")).json()["open"] == 2


@pytest.mark.anyio
async def test_labels_are_taken_and_shown() -> None:
    """A label moves the next scrape, may wait for its verdict, be changed and undone, and its history is shown."""
    metrics = Metrics()
    known, unknown = "a" * 32, "b" * 32
    async with Store(clock=lambda: 60.0) as store:
        await store.commit(Commit(verdicts=[verdict(1, "off_path", step_id=known, verdict_id="c" * 32)]))
        async with served(application(metrics=metrics, labels=store)) as client:

            async def say(identity: str, label: str, **more: str) -> httpx2.Response:
                said = {"id": identity, "label": label, **more}
                return await client.post("/api/labels", headers={**JSON, **BEARER}, json=said)

            done = await say("cccccccc", "on_path", by="ada\u001b", note="seen")
            assert done.status_code == 200
            label = {
                "label": "on_path",
                "source": "person",
                "by": "ada\\x1b",
                "note": "seen",
                "time": "1970-01-01T00:01:00.000Z",
                "undone": None,
            }
            assert done.json() == {
                "id": "cccccccc",
                "step_id": known,
                "action": "added",
                "pending": False,
                "label": label,
                "before": None,
                "verdict": {"verdict_id": "c" * 32, "verdict": "off_path", "trajectory": "t", "step": 1},
            }
            scrape = (await client.get("/metrics")).text
            assert 'verifierd_labelled_verdicts{label="on_path",source="person",verdict="off_path"} 1.0' in scrape
            assert "verifierd_false_positives 1.0" in scrape
            assert (await say(known, "unsure")).json()["before"] == label
            assert "verifierd_false_positives 0.0" in (await client.get("/metrics")).text
            assert (await say(known, "undo")).json()["label"] == label
            assert "verifierd_false_positives 1.0" in (await client.get("/metrics")).text
            later = await say(unknown, "off_path")
            assert (later.status_code, later.json()["pending"], later.json()["verdict"]) == (202, True, None)
            assert "verifierd_labels_pending 1.0" in (await client.get("/metrics")).text
            told = (await client.get("/api/labels?id=AAAAAAAA")).json()
            assert (told["step_id"], told["label"]) == (known, label)
            assert [(one["label"], one["undone"] is None) for one in told["labels"]] == [
                ("on_path", True),
                ("unsure", False),
            ]
            waiting = (await client.get(f"/api/labels?id={unknown}")).json()
            assert (waiting["step_id"], waiting["label"]["label"]) == (None, "off_path")
            nothing = (await client.get(f"/api/labels?id={'d' * 32}")).json()
            assert (nothing["label"], nothing["labels"]) == (None, [])


@pytest.mark.anyio
async def test_labels_that_make_no_sense() -> None:
    """A wrong body, an id that means nothing or too much, and an undo of nothing are refused and counted."""
    metrics = Metrics()
    async with Store() as store:
        await store.commit(Commit(verdicts=[verdict(n, step_id=f"{'a' * 31}{n}") for n in (1, 2)]))
        async with served(application(metrics=metrics, labels=store)) as client:
            headers = {**JSON, **BEARER}
            for body in (
                b"",
                b"[]",
                b"{}",
                b'{"id": 1, "label": "on_path"}',
                b'{"id": "x", "label": "maybe"}',
                b"\xff",
            ):
                answer = await client.post("/api/labels", headers=headers, content=body)
                assert answer.status_code == 400
                assert "on_path|off_path|unsure|undo" in answer.json()["error"]
            for identity, label, status, message in (
                ("0123456789", "on_path", 404, "begins with `0123456789`"),
                ("a" * 10, "on_path", 400, "several steps"),
                ("<script>\u001b", "on_path", 400, "is no id"),
                ("a" * 31 + "1", "undo", 400, "no label that could be undone"),
            ):
                said = {"id": identity, "label": label}
                answer = await client.post("/api/labels", headers=headers, json=said)
                assert (answer.status_code, message in answer.json()["error"]) == (status, True)
                assert answer.json()["hint"]
            assert (await client.get("/api/labels")).status_code == 400
            assert (await client.get("/api/labels?id=0123456789")).status_code == 404
            assert (await client.post("/api/labels", headers=JSON, content=b"{}")).status_code == 401
        assert metrics.registry.get_sample_value("verifierd_label_events_total", {"action": "refused"}) == 10
        assert await store.truths() == {}


@pytest.mark.anyio
async def test_reload_says_what_is_in_use_or_why_not() -> None:
    """With the token the settings are read again; a refusal is a 409 with its reason and its remedy."""
    refusal: list[VerifierdError] = []

    async def reload() -> Mapping[str, object]:
        if refusal:
            raise refusal[0]
        return {"policy": "default@1"}

    async with served(application(reload=reload)) as client:
        headers = {**JSON, **BEARER}
        assert (await client.post("/-/reload", headers=JSON)).status_code == 401
        assert (await client.get("/-/reload")).status_code == 405
        done = await client.post("/-/reload", headers=headers)
        refusal.append(ConfigError("a.toml: unknown field `x\n`", hint="did you mean `y`?"))
        refused = await client.post("/-/reload", headers=headers)
        index = await client.get("/")

    assert (done.status_code, done.json()) == (200, {"policy": "default@1"})
    assert refused.status_code == 409
    assert refused.json() == {"error": "a.toml: unknown field `x\\n`", "hint": "did you mean `y`?"}
    assert "/-/reload" in index.text


@pytest.mark.anyio
async def test_body_must_be_json_and_small() -> None:
    """What a form could send is refused, and so is too much, announced or not."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 10_000

    async def swallow(request: Any) -> Any:
        await request.body()

    app = application()
    app.add_route("/swallow", swallow, methods=["POST"])
    async with served(app) as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            assert (await client.post("/x", headers={**BEARER, "Content-Type": kind})).status_code == 415
        assert (await client.post("/x", headers={**JSON, **BEARER}, content=b"x" * 100_000)).status_code == 413
        assert (await client.post("/swallow", headers={**JSON, **BEARER}, content=endless())).status_code == 413


@pytest.mark.anyio
async def test_private() -> None:
    """Where other machines can reach it, reading needs the token too; health does not."""
    async with served(application(private=True)) as client:
        for path in ("/", "/metrics", "/api/verdicts", "/nothing"):
            assert (await client.get(path)).status_code == 401
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/metrics", headers=BEARER)).status_code == 200


@pytest.mark.anyio
async def test_no_redirects() -> None:
    """A path with a slash too many is not found, and its Host not repeated."""
    async with served(application()) as client:
        answer = await client.get("/metrics/")

    assert (answer.status_code, answer.json()) == (404, {"error": "Not Found"})


@pytest.mark.anyio
async def test_failure_tells_nothing() -> None:
    """What went wrong inside is for the log; the answer has our headers all the same."""

    def broken() -> tuple[bool, Mapping[str, object]]:
        raise RuntimeError(KEY)

    async with served(application(readiness=broken)) as client:
        answer = await client.get("/readyz")

    assert (answer.status_code, answer.json()) == (500, {"error": "internal error"})
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.anyio
async def test_scrape_in_both_formats() -> None:
    """Prometheus' text by default, OpenMetrics where asked for."""
    async with served(application()) as client:
        plain = await client.get("/metrics")
        new = await client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert new.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert new.text.endswith("# EOF\n")


@pytest.mark.anyio
async def test_scrape_passes_promtool() -> None:
    """A live scrape after hostile input has no finding of Prometheus' own checker."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    metrics = Metrics()
    for name in ("native", "\ud800", 'x"}\n'):
        metrics.read(name, [Record(origin=Origin(path="a", offset=0), end=9, data=b"", problem=name)])
        metrics.verdict(verdict(1, "abstain", reason=name, predictor=name))
    metrics.committed(0.1, 1.0)
    async with Store() as store:
        await store.commit(Commit(verdicts=[verdict(1, step_id="a" * 32)]))
        metrics.labelled(await store.label(Saying(id="a" * 32, label="off_path")))
        metrics.truth(store.truth)
    async with served(application(metrics=metrics)) as client:
        scrape = await client.get("/metrics")

    # A process of the standard library: asyncio's would leave its watcher to this loop.
    checked = await anyio.to_thread.run_sync(
        lambda: subprocess.run([promtool, "check", "metrics"], input=scrape.content, capture_output=True, check=False)
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
    names = [family.name for family in text_string_to_metric_families(scrape.text)]
    assert len(names) == len(set(names))


@pytest.mark.anyio
async def test_ipv6() -> None:
    """The other loopback address serves as well."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    async with served(application(), "::1") as client:
        assert (await client.get("/livez")).status_code == 200


@pytest.mark.anyio
async def test_occupied_port() -> None:
    """A port that is taken is told with its address and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}") as caught:
            await http.serve(application(), "127.0.0.1", port)

    assert "--port 0" in caught.value.hint


@pytest.mark.anyio
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", ""])
async def test_other_machines_are_kept_out(host: str) -> None:
    """An address that others can reach needs to be wanted."""
    with pytest.raises(ConfigError):
        await http.serve(application(), host, 0)


@pytest.mark.anyio
async def test_other_machines_may_be_let_in() -> None:
    """And is bound if it is."""
    async with anyio.create_task_group() as tasks:

        async def serve(*, task_status: anyio.abc.TaskStatus[int]) -> None:
            await http.serve(application(), "0.0.0.0", 0, allow_remote=True, task_status=task_status)

        assert await tasks.start(serve) > 0
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_no_such_address() -> None:
    """A name that means nothing is a mistake in the settings."""
    with pytest.raises(ConfigError, match="no such address"):
        await http.serve(application(), "no such host", 0)


@pytest.mark.anyio
async def test_signals_are_left_alone() -> None:
    """Whoever handles signals goes on doing so while we serve."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with served(application()) as client:
        await client.get("/livez")

        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.anyio
async def test_stops_with_connections_open() -> None:
    """Neither an idle connection nor a half sent request holds up the end, and the port is free afterwards."""
    streams = []
    with anyio.fail_after(8):
        async with anyio.create_task_group() as tasks:
            port = await tasks.start(http.serve, application(), "127.0.0.1", 0)
            for request in (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /livez HTT"):
                streams.append(await anyio.connect_tcp("127.0.0.1", port))
                await streams[-1].send(request)
            assert b"200 OK" in await streams[0].receive()
            tasks.cancel_scope.cancel()
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await streams[1].receive()
    for stream in streams:
        await stream.aclose()
    with socket.create_server(("127.0.0.1", port)):
        pass


@pytest.mark.anyio
async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond wait until others have gone, and requests that do not come are not waited for."""
    monkeypatch.setattr("verifierd.http.server._CONNECTIONS", 3)
    monkeypatch.setattr("verifierd.http.server._PATIENCE", 0.3)
    async with served(application()) as client:
        port = client.base_url.port or 0
        silent = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(5)]
        with anyio.move_on_after(0.1) as waited:
            await client.get("/livez")
        assert waited.cancelled_caught
        for stream in silent:
            with anyio.fail_after(10), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()
            await stream.aclose()
        assert (await client.get("/livez")).status_code == 200


@pytest.mark.anyio
async def test_a_body_that_does_not_end_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever sends a byte now and then takes nobody's place; neither that nor who goes away is an error in the log."""
    monkeypatch.setattr("verifierd.http.server._PATIENCE", 0.1)
    head = (
        b"POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
    )
    async with served(application()) as client:
        port = client.base_url.port or 0
        async with await anyio.connect_tcp("127.0.0.1", port) as gone:
            await gone.send(head)
        slow = await anyio.connect_tcp("127.0.0.1", port)

        async def trickle() -> None:
            await slow.send(head)
            while True:
                await slow.send(b"{")
                with anyio.move_on_after(0.05):
                    await slow.receive()

        with anyio.fail_after(10), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await trickle()
        await slow.aclose()
        assert (await client.get("/livez")).status_code == 200
    assert not caplog.records


@pytest.mark.anyio
async def test_none_of_a_burst_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many more connections at once than are served at once are all answered, one after the other."""
    monkeypatch.setattr("verifierd.http.server._CONNECTIONS", 3)
    answers = []
    async with served(application()) as client, anyio.create_task_group() as burst:

        async def ask() -> None:
            answers.append(await raw(client, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"))

        for _ in range(50):
            burst.start_soon(ask)
    assert [answer.splitlines()[0] for answer in answers] == [b"HTTP/1.1 200 OK"] * 50


@pytest.mark.anyio
async def test_large_head_is_refused() -> None:
    """A request whose head does not end is not kept in memory."""
    async with served(application()) as client:
        answer = await raw(client, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


def test_token_is_made_once(tmp_path: Path) -> None:
    """The first call makes a file that only its owner may read, the second finds it; nothing else is left."""
    path = tmp_path / "token"
    old = os.umask(0)
    try:
        made = http.token(path)
    finally:
        os.umask(old)

    assert len(bytes.fromhex(made)) == 32
    assert http.token(path) == made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    assert http.token(tmp_path / "other") != made


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_token_that_others_may_read(tmp_path: Path, mode: int) -> None:
    """Loose permissions are refused, with what to do."""
    path = tmp_path / "token"
    http.token(path)
    path.chmod(mode)

    with pytest.raises(StateError, match=f"mode 0{mode:o}") as caught:
        http.token(path)
    assert f"chmod 600 {path}" in caught.value.hint


@pytest.mark.parametrize("content", ["", "short\n", "g" * 64, "\xff" * 64])
def test_token_that_is_none(tmp_path: Path, content: str) -> None:
    """A damaged file is not taken for a token."""
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(content, encoding="latin-1")

    with pytest.raises(StateError, match="holds no token"):
        http.token(path)


def test_token_in_an_odd_place(tmp_path: Path) -> None:
    """A link, a folder, a pipe or a missing folder in its place is an error, not a hang."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe", 0o600)

    for name in ("link", "folder", "pipe", "missing/token"):
        with pytest.raises(StateError):
            http.token(tmp_path / name)
