"""Verdicts as signed requests, taken by a real server."""

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from verifierd.errors import ConfigError
from verifierd.sinks.outbox import Due, Later, Refused
from verifierd.sinks.webhook import Webhook, key

DUE = Due(7, "v7", b'{"verdict_id":"v7","verdict":"off_path"}')


class Got(dict[str, str]):
    """A request's headers, and its body."""

    body: bytes = b""


@asynccontextmanager
async def server(answer: Callable[[int], bytes | None]) -> AsyncIterator[tuple[str, list[Got]]]:
    """A server that says to its nth request what it is told to; None for nothing at all."""
    requests: list[Got] = []

    async def talk(stream: SocketStream) -> None:
        async with stream:
            data = b""
            while b"\r\n\r\n" not in data:
                data += await stream.receive()
            head, _, body = data.partition(b"\r\n\r\n")
            fields = (line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
            got = Got((name.lower(), value) for name, value in fields)
            while len(body) < int(got["content-length"]):
                body += await stream.receive()
            got.body = body
            requests.append(got)
            if (said := answer(len(requests))) is None:
                await anyio.sleep_forever()
                return
            await stream.send(said)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, talk)
        port = listener.extra(SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}/hook?key=abc", requests
        tasks.cancel_scope.cancel()


def status(code: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {code} x", "Content-Length: 0", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.anyio
async def test_a_receiver_can_check_it() -> None:
    """The signature is over id, time and body, so that neither can be changed nor an old request sent again."""
    async with server(lambda _: status(204)) as (url, requests):
        hook = Webhook(url, b"secret", clock=lambda: 1_700_000_000.5)
        await hook.deliver(DUE)
        await hook.aclose()

    (got,) = requests
    assert got.body == DUE.line
    assert (got["webhook-id"], got["webhook-timestamp"]) == ("v7", "1700000000")
    expected = hmac.new(b"secret", b"v7.1700000000." + DUE.line, hashlib.sha256).digest()
    assert got["webhook-signature"] == "v1," + base64.b64encode(expected).decode()
    assert got["content-type"] == "application/json"


@pytest.mark.anyio
@pytest.mark.parametrize("code", [301, 401, 403, 404, 408, 410, 429, 500, 503])
async def test_trouble_that_may_pass_is_tried_again(code: int) -> None:
    """Also what a person has to mend, such as a wrong address or secret; no redirect is followed."""
    async with server(lambda _: status(code, "Location: http://127.0.0.1:1/", "Retry-After: 17")) as (url, requests):
        hook = Webhook(url, b"secret")
        with pytest.raises(Later) as raised:
            await hook.deliver(DUE)
        await hook.aclose()

    assert len(requests) == 1
    assert raised.value.pause == 17


@pytest.mark.anyio
@pytest.mark.parametrize("code", [400, 409, 413, 422])
async def test_what_another_try_would_not_change_is_refused(code: int) -> None:
    """An answer about this one request ends it."""
    async with server(lambda _: status(code)) as (url, _requests):
        hook = Webhook(url, b"secret")
        with pytest.raises(Refused, match=str(code)):
            await hook.deliver(DUE)
        await hook.aclose()


@pytest.mark.anyio
async def test_silence_and_endless_answers_end_in_time() -> None:
    """A receiver that says nothing is asked again later; one that says too much is not read to its end."""
    endless = b"HTTP/1.1 200 x\r\nContent-Length: 9000000000\r\n\r\n" + b"x" * 100_000
    async with server(lambda number: None if number == 1 else endless) as (url, requests):
        hook = Webhook(url, b"secret", seconds=0.2)
        with pytest.raises(Later, match=r"no (answer|connection)"):
            await hook.deliver(DUE)
        await hook.deliver(DUE)
        await hook.aclose()

    assert len(requests) == 2


@pytest.mark.anyio
async def test_nobody_there() -> None:
    """A receiver that is away, or whose name nobody knows, is tried again; the error shows no secret of the address."""
    for url in ("http://127.0.0.1:9/hook?key=abc", "http://host.invalid/hook?key=abc"):
        hook = Webhook(url, b"secret", seconds=2)
        with pytest.raises(Later) as raised:
            await hook.deliver(DUE)
        await hook.aclose()
        assert "abc" not in f"{raised.value} {hook.target}"


def test_what_is_no_address_is_said_at_the_start() -> None:
    """Names of hosts have rules that the configuration does not know."""
    with pytest.raises(ConfigError, match="Invalid IDNA hostname"):
        Webhook("https://é..example/", b"secret")


def test_secrets() -> None:
    """A secret is a text, or bytes in Base64 behind `whsec_`; an empty or a broken one is none."""
    assert key(" text\n") == b"text"
    assert key("whsec_" + base64.b64encode(b"\x00\x01bytes").decode()) == b"\x00\x01bytes"
    for wrong in ("", " ", "whsec_", "whsec_!!!"):
        with pytest.raises(ValueError, match=r"secret is empty|no Base64"):
            key(wrong)
