"""The endpoint as one application: its simple routes, and all others put together behind the guard."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from verifierd.http.answers import HEADERS, limit, number, respond
from verifierd.http.changes import Alarms, Labels, Reload, alarm_routes, label_routes, reload_route
from verifierd.http.console import console_routes
from verifierd.http.figures import Console
from verifierd.http.guard import LOOPBACK, Guard, Sessions
from verifierd.http.session import session_route
from verifierd.http.static import static_routes
from verifierd.http.steps import step_routes
from verifierd.metrics import Metrics
from verifierd.types import Verdict, VerdictKind

__all__ = ("RecentVerdicts", "app")


class RecentVerdicts(Protocol):
    """What the endpoint wants of `sinks.recent`."""

    def list(self, limit: int, verdict: VerdictKind | None = None, after: int | None = None) -> Sequence[Verdict]:
        """The newest verdicts first."""


Readiness = Callable[[], tuple[bool, Mapping[str, object]]]


def app(
    *,
    metrics: Metrics,
    recent: RecentVerdicts,
    readiness: Readiness,
    token: str,
    ended: Path | None = None,
    alarms: Alarms | None = None,
    labels: Labels | None = None,
    reload: Reload | None = None,
    console: Console | None = None,
    allowed_hosts: Sequence[str] = (),
    private: bool = False,
) -> Starlette:
    """The endpoint as an ASGI application.

    Args:
        metrics: What `/metrics` shows.
        recent: What `/api/verdicts` shows; sanitised already.
        readiness: Says whether we are ready, and some facts for people.
        token: What changes need as `Authorization: Bearer`.
        ended: The file that keeps which sessions of browsers were ended; None for none.
        alarms: What `/api/alarms` shows and changes.
        labels: What `/api/labels` shows and changes.
        reload: Reads settings and policy again, and says what is in use; a `VerifierdError` says why it was not done.
        console: What the console shows.
        allowed_hosts: Names, beside the loopback ones, under which we may be addressed; IPv6 in brackets.
        private: Ask for the token on reading, too; health and the console's own files stay open.
    """
    scrapes = anyio.CapacityLimiter(1)  # a scrape is the same for all; more at once would only be slower

    async def index(_: Request) -> Response:
        return respond(200, "\n".join(["verifierd", *(route.path for route in routes), ""]), "text/plain")

    async def live(_: Request) -> Response:
        return respond(200, {"live": True})

    async def ready(_: Request) -> Response:
        ok, facts = readiness()
        return respond(200 if ok else 503, {"ready": ok, **facts})

    async def scrape(request: Request) -> Response:
        accept = request.headers.get("accept", "")
        content_type, body = await to_thread.run_sync(metrics.render, accept, limiter=scrapes)
        return Response(body, headers={**HEADERS, "Content-Type": content_type})

    async def verdicts(request: Request) -> Response:
        query = request.query_params
        kind = query.get("verdict")
        if kind is not None and kind not in list(VerdictKind):
            raise HTTPException(400, f"verdict is one of {', '.join(VerdictKind)}")
        found = recent.list(
            limit(query.get("limit")),
            VerdictKind(kind) if kind is not None else None,
            number(query.get("after"), "after"),
        )
        return await to_thread.run_sync(respond, 200, {"verdicts": found})  # megabytes, at worst

    def tell(event: str, said: Mapping[str, object]) -> None:
        if console is not None:
            console.events.tell(event, said)

    sessions = Sessions(token, ended=ended)
    routes = [
        Route("/", index),
        Route("/livez", live),
        Route("/readyz", ready),
        Route("/metrics", scrape),
        Route("/api/verdicts", verdicts),
        *alarm_routes(alarms, metrics, tell),
        *label_routes(labels, metrics, tell),
        *reload_route(reload),
        session_route(sessions),
        *static_routes(),
        *console_routes(console),
        *step_routes(None if console is None else console.store),
    ]
    hosts = frozenset(host.lower() for host in (*LOOPBACK, *allowed_hosts))
    application = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=hosts, sessions=sessions, private=private)],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    application.router.redirect_slashes = False  # a redirect would repeat the Host it was sent
    return application


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return respond(error.status_code, {"error": error.detail}, headers=error.headers)


async def _failed(_: Request, __: Exception) -> Response:
    return respond(500, {"error": "internal error"})  # what it was is in the log
