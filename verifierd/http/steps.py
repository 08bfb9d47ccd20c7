"""What became of one call: for whoever made it and wants to know, at once, what its observation is worth."""

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import anyio
import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from verifierd import views
from verifierd.errors import StateError
from verifierd.http.answers import number, respond
from verifierd.types import Alarm, Signal, VerdictKind

__all__ = ("Calls", "step_routes")

P = ParamSpec("P")
T = TypeVar("T")

_NAME = 512  # characters of a session's name, and of a call's id
_PATIENCE = 30.0  # seconds
_WAITING = 32  # who may wait at once; others are answered as things are
_EVERY = 0.1  # seconds between two looks


class Calls(Protocol):
    """What the endpoint wants of `store`."""

    def look(self, function: Callable[Concatenate[Any, P], T], *arguments: P.args, **named: P.kwargs) -> Awaitable[T]:
        """What a function of `views` finds."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What of a verdict's line is told."""

    verdict_id: str
    step_id: str
    trajectory: str
    step: int
    tool: str
    verdict: VerdictKind
    reason: str
    detail: str = ""
    coverage: float = 0.0
    signals: tuple[Signal, ...] = ()
    alarm: Alarm | None = None


def step_routes(calls: Calls | None) -> list[Route]:
    """`/api/steps`."""
    if calls is None:
        return []
    waiting = anyio.CapacityLimiter(_WAITING)

    async def step(request: Request) -> Response:
        query = request.query_params
        session = query.get("session", "")
        call = query.get("call_id") or number(query.get("step"), "step") or ""
        if not (0 < len(session) <= _NAME and 0 < len(str(call)) <= _NAME):
            raise HTTPException(
                400, "which step? ?session= takes a session's name, call_id= the log's id of a call, or step= a number"
            )
        until = anyio.current_time() + _seconds(query.get("wait", "0"))
        try:
            line, seen = await calls.look(views.called, session, call)
            if line is None and waiting.available_tokens:
                async with waiting:
                    while line is None and anyio.current_time() < until and not await request.is_disconnected():
                        await anyio.sleep(_EVERY)
                        line, seen = await calls.look(views.called, session, call, seen)
        except StateError as error:
            if not error.temporary:
                raise
            line = None  # whoever asks has no time for another try
        return respond(200, {"step": None if line is None else msgspec.json.decode(line, type=Judged)})

    return [Route("/api/steps", step)]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:  # so that `nan` is refused, too
        raise HTTPException(400, "wait is a number of seconds")
    return min(seconds, _PATIENCE)
