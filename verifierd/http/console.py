"""What the console shows: trajectories, steps, verdicts. Its texts were made fit to be shown when they were kept."""

from collections.abc import Awaitable, Callable

import msgspec
from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from verifierd import views
from verifierd.errors import LabelError, StateError
from verifierd.http.answers import EVENTS, limit, number, respond, unlabelled
from verifierd.http.events import event_stream
from verifierd.http.figures import Console, summary
from verifierd.http.record import Shown, shown_record
from verifierd.labels import holds, shown
from verifierd.sanitize import plain
from verifierd.times import iso
from verifierd.types import VerdictKind

__all__ = ("console_routes",)

_PATH = 4096  # characters


def console_routes(console: Console | None) -> list[Route]:
    """What there is under `/api/` for the console."""
    if console is None:
        return []
    pages = _Pages(console)
    routes = {
        "/api/summary": pages.summary,
        "/api/trajectories": pages.trajectories,
        "/api/trajectories/{trajectory}/steps": pages.steps,
        "/api/verdicts/{verdict}": pages.verdict,
        "/api/verdicts/{verdict}/record": pages.record,
        "/api/quarantine": pages.quarantine,
        "/api/unknown": pages.unknown,
        EVENTS: event_stream(console.events),
    }
    return [Route(path, _patient(page)) for path, page in routes.items()]


class _Pages:
    """One answer each."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._store = console.store

    async def summary(self, _: Request) -> Response:
        return respond(200, await summary(self._console))

    async def trajectories(self, request: Request) -> Response:
        query = request.query_params
        if query.get("alarm") not in (None, "", "open"):
            raise HTTPException(400, "alarm is open, or left out")
        found = await self._store.look(
            views.trajectories,
            limit=limit(query.get("limit")),
            after=number(query.get("after"), "after"),
            q=query.get("q", ""),
            agent=query.get("agent", ""),
            verdict=_kind(query.get("verdict")),
            alarm=query.get("alarm") == "open",
        )
        return respond(200, found)

    async def steps(self, request: Request) -> Response:
        query = request.query_params
        found = await self._store.look(
            views.steps,
            request.path_params["trajectory"],
            limit=limit(query.get("limit")),
            after=number(query.get("after"), "after") or 0,
            verdict=_kind(query.get("verdict")),
            tool=query.get("tool", ""),
            q=query.get("q", ""),
        )
        if found is None:
            raise HTTPException(404, "no such trajectory")
        return respond(200, found)

    async def verdict(self, request: Request) -> Response:
        return await to_thread.run_sync(_whole, await self._found(request))  # megabytes, at worst

    async def record(self, request: Request) -> Response:
        found = await self._found(request)
        source = await self._store.source_of(msgspec.json.decode(found.line, type=_Named).verdict_id)
        if source is None:
            return respond(200, Shown(state="forgotten", note="The step is not kept any more, nor where it stood."))
        shown_now = await shown_record(*source, quotes=self._console.facts().quotes, text=self._console.text)
        return respond(200, shown_now)

    async def quarantine(self, request: Request) -> Response:
        query = request.query_params
        found, after = await self._store.look(
            views.quarantine, limit=limit(query.get("limit")), after=number(query.get("after"), "after")
        )
        lines = [
            {
                "path": self._console.text(_name(path), _PATH),
                "offset": offset,
                "length": length,
                "reason": plain(reason),
                "time": iso(when),
            }
            for path, offset, length, reason, when in found
        ]
        return respond(200, {"lines": lines, "next": after})

    async def unknown(self, _: Request) -> Response:
        return respond(200, {"formats": self._console.unknown()})

    async def _found(self, request: Request) -> views.Found:
        found = await self._store.look(views.find, request.path_params["verdict"].strip().lower())
        if found is None:
            raise HTTPException(404, "no such verdict")
        return found


def _patient(function: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """An id that means nothing, a busy database and a question that takes too long are no failures of ours."""

    async def asked(request: Request) -> Response:
        try:
            return await function(request)
        except LabelError as error:
            return unlabelled(error)
        except StateError as error:
            if not error.temporary:
                raise
            return respond(
                503, {"error": plain(error.message), "hint": plain(error.hint)}, headers={"Retry-After": "5"}
            )

    return asked


class _Named(msgspec.Struct, frozen=True):
    verdict_id: str


def _whole(found: views.Found) -> Response:
    line = msgspec.json.decode(found.line)
    now = holds(found.said)
    return respond(
        200,
        {
            **line,
            "surprise": line.get("surprise"),
            "trajectory_id": found.trajectory,
            "label": now and shown(now),
            "labels": [shown(label) for label in found.said],
            "neighbours": {"before": found.before, "after": found.after},
        },
    )


def _kind(text: str | None) -> str | None:
    if text in (None, ""):
        return None
    if text not in list(VerdictKind):
        raise HTTPException(400, f"verdict is one of {', '.join(VerdictKind)}")
    return text


def _name(path: object) -> str:
    return path.decode("utf-8", "surrogatepass") if isinstance(path, bytes) else str(path)
