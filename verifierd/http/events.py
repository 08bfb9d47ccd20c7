"""Server-sent events: one stream for each who listens, which goes on where the last one broke off."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from verifierd.http.answers import HEADERS, number

__all__ = ("Events", "Listener", "event_stream")

_BEAT_SECONDS = 15.0
_BEAT = b": still here\n\n"
_HELLO = b"retry: 2000\n\n"


class Listener(Protocol):
    """One who listens."""

    async def next(self) -> bytes:
        """What comes next, ready to be sent; nothing if there will be no more."""


class Events(Protocol):
    """What the endpoint wants of `sinks.hub`."""

    @property
    def full(self) -> bool:
        """Whether nobody more can listen."""

    def listen(self, after: int | None) -> AbstractContextManager[Listener]:
        """Listen, from a `seq` on or from now on."""

    def tell(self, event: str, said: Mapping[str, object]) -> None:
        """Pass something on that no verdict says."""


def event_stream(events: Events) -> Callable[[Request], Awaitable[Response]]:
    """`/api/events`."""

    async def stream(request: Request) -> Response:
        last = request.headers.get("last-event-id") or request.query_params.get("after")
        after = number(last or None, "after")
        if events.full:
            raise HTTPException(503, "too many listen already", headers={"Retry-After": "5"})
        return _Stream(events, after)

    return stream


class _Stream(Response):
    """An answer that ends when who asked goes away, is too slow, or we stop."""

    def __init__(self, events: Events, after: int | None) -> None:
        headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Connection": "close"}
        super().__init__(headers={**HEADERS, **headers})
        del self.headers["content-length"]
        self._events = events
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            with self._events.listen(self._after) as listener:
                await _pass_on(listener, receive, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _pass_on(listener: Listener, receive: Receive, send: Send) -> None:
    async def leave(scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave, tasks.cancel_scope)
        await send({"type": "http.response.body", "body": _HELLO, "more_body": True})
        while True:
            data = _BEAT
            with anyio.move_on_after(_BEAT_SECONDS):
                data = await listener.next()
            if not data:
                break
            await send({"type": "http.response.body", "body": data, "more_body": True})
        tasks.cancel_scope.cancel()
