"""The numbered cases of the endpoint: names and pages (112), tokens (113), floods (114)."""

import json
import socket
from pathlib import Path

import anyio
import pytest

from tests.helpers import Live, echo, jsonl
from tests.http.test_console import KEY, desk
from tests.test_http import BEARER, JSON, TOKEN, raw
from tests.test_views import judge, step
from verifierd import http
from verifierd.config import HttpConfig
from verifierd.sinks import hub as module

CHANGES = ("/api/labels", "/api/alarms/x/ack")
PAGES = (
    "/",
    "/livez",
    "/readyz",
    "/metrics",
    "/console/",
    "/api/session",
    "/api/verdicts",
    "/api/alarms",
    "/api/summary",
    "/api/trajectories",
    "/api/quarantine",
    "/api/unknown",
    "/nowhere",
)


@pytest.mark.anyio
async def test_112_only_names_of_this_machine(tmp_path: Path) -> None:
    """We bind loopback, answer to its names in any case, and to no other name, on every page of the console's API."""
    assert HttpConfig().host == "127.0.0.1"
    async with desk(tmp_path) as one:
        for path in PAGES:
            for host, ours in {
                "localhost": True,
                "LocalHost:9847": True,
                "127.0.0.1": True,
                "[::1]:1": True,
                "evil.example": False,
                "localhost.evil.example": False,
                "127.0.0.1.nip.io": False,
                "": False,
            }.items():
                answer = await one.client.get(path, headers={"Host": host})
                assert (answer.status_code != 400) == ours, (path, host)
            bare = await raw(one.client, b"GET %s HTTP/1.0\r\n\r\n" % path.encode())
            assert b" 400 " in bare.splitlines()[0], path


@pytest.mark.anyio
async def test_113_changes_need_the_token_and_no_page_gets_at_it(tmp_path: Path) -> None:
    """No answer invites other origins; each change needs the token, JSON and no foreign page; no answer repeats it."""
    async with desk(tmp_path) as one:
        for path in PAGES:
            answer = await one.client.get(f"{path}?token={TOKEN}", headers={"Origin": "http://evil.example"})
            assert not [name for name in answer.headers if name.startswith("access-control")], path
            assert answer.headers["cross-origin-resource-policy"] == "same-origin", path
            assert TOKEN not in answer.text + str(answer.headers), path
        for path in CHANGES:
            for headers, status in (
                (JSON, 401),
                ({**JSON, "Authorization": "Bearer " + "0" * 64}, 401),
                ({**JSON, "Authorization": f"Basic {TOKEN}"}, 401),
                ({**JSON, **BEARER, "Origin": "http://evil.example"}, 403),
                ({**JSON, **BEARER, "Sec-Fetch-Site": "cross-site"}, 403),
                ({**BEARER, "Content-Type": "text/plain"}, 415),
                ({**BEARER, "Content-Type": "application/x-www-form-urlencoded"}, 415),
            ):
                answer = await one.client.post(f"{path}?token={TOKEN}", content=b"{}", headers=headers)
                assert answer.status_code == status, (path, headers)
                assert TOKEN not in answer.text
        for body in (b"", b"[]", b'{"token": 5}', json.dumps({"token": KEY}).encode()):
            answer = await one.client.post("/api/session", content=body, headers=JSON)
            assert answer.status_code in (400, 401)
            assert "zK8mQ" not in answer.text
        foreign = await one.client.post(
            "/api/session", json={"token": TOKEN}, headers={"Origin": "http://evil.example"}
        )
        assert (foreign.status_code, foreign.headers.get("set-cookie")) == (403, None)


def test_114_floods_do_not_stop_tailing(tmp_path: Path) -> None:
    """While hundreds of connections send nothing, half a request or too much, verdicts come as ever."""
    log = tmp_path / "a.jsonl"
    log.write_bytes(jsonl(*echo("t", 2)))
    with Live(tmp_path / "state", log, "--port", "0") as daemon:
        daemon.wait(lambda: len(daemon.steps) == 2)
        port = int(daemon.url.rsplit(":", 1)[1])
        loris = []
        for number in range(400):
            connection = socket.create_connection(("127.0.0.1", port))
            loris.append(connection)
            try:
                connection.sendall((b"", b"GET /livez HTT", b"GET / HTTP/1.1\r\nX: " + b"x" * 60_000)[number % 3])
            except OSError:  # it was closed at once
                continue
        with log.open("ab") as file:
            file.write(jsonl(*echo("t", 3, first=3)))
        daemon.wait(lambda: len(daemon.steps) == 5, seconds=10)
        for connection in loris:
            connection.close()
        daemon.wait(lambda: _answers(port))
        assert daemon.stop() == 0


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return b" 200 " in connection.recv(100)
    except OSError:
        return False


@pytest.mark.anyio
async def test_114_bodies_and_heads_are_bounded(tmp_path: Path) -> None:
    """Also for a session, which needs no token yet, and for a body that does not say how long it is."""
    async with desk(tmp_path) as one:
        large = b'{"token": "' + b"x" * 100_000 + b'"}'
        assert (await one.client.post("/api/session", content=large, headers=JSON)).status_code == 413

        async def pieces() -> object:
            for _ in range(20):
                yield b"x" * 10_000

        answer = await one.client.post("/api/session", content=pieces(), headers=JSON)  # type: ignore[arg-type]
        assert answer.status_code == 413
        head = b"GET /api/summary HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"x" * 100_000
        answer_bytes = await raw(one.client, head)
        assert answer_bytes == b"" or answer_bytes.startswith(b"HTTP/1.1 4")


@pytest.mark.anyio
async def test_114_who_reads_nothing_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that is opened and never read holds neither memory nor its place."""
    monkeypatch.setattr("verifierd.http.server._PATIENCE", 0.1)
    monkeypatch.setattr(module, "_EVERY", 0.0)
    async with desk(tmp_path) as one:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", one.client.base_url.port))
            deaf.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with anyio.fail_after(20):
                while not one.hub.pieces or one.hub.full or _listeners(one.hub):
                    one.hub.tell("label", {"text": "x" * 500_000})
                    await anyio.sleep(0.02)


def _listeners(hub: module.Hub) -> int:
    return len(hub._listeners)


@pytest.mark.anyio
async def test_a_stream_survives_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is quiet because nothing happens is left alone."""
    monkeypatch.setattr("verifierd.http.server._PATIENCE", 0.05)
    async with desk(tmp_path) as one, one.client.stream("GET", "/api/events") as stream:
        await anyio.sleep(0.3)
        await one.hub.emit(await judge(one.store, [step("t", 1)]))
        async for piece in stream.aiter_text():
            if "event: verdict" in piece:
                break


def test_sessions_compare_in_constant_time() -> None:
    """However much of a token is right, the comparison is `hmac`'s."""
    sessions = http.guard.Sessions(TOKEN)
    assert sessions.opens(TOKEN)
    assert not sessions.opens(TOKEN[:-1])
    assert not sessions.opens("ü" * 64)
    assert not sessions.opens("\ud83d")
