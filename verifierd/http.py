"""The admin endpoint: metrics, health and recent verdicts, for this machine alone unless somebody says otherwise.

    GET /               what there is
    GET /livez          the process answers
    GET /readyz         it has looked at all sources once; else 503
    GET /metrics        Prometheus or OpenMetrics text
    GET /api/verdicts   recent verdicts, newest first: ?limit=100&verdict=off_path&after=SEQ
    GET /api/alarms     open alarms, then those that somebody acknowledged, newest first: ?limit=100
    POST /api/alarms/ID/ack   acknowledge one: {"by": "...", "note": "..."}; the first one counts
    GET /api/labels     what was said of a step, oldest first: ?id=ID
    POST /api/labels    say what is true of one: {"id": "...", "label": "on_path|off_path|unsure|undo", "by": "...",
                        "note": "..."}; 202 if the id's verdict is yet to come
    POST /-/reload      read the settings and the policy again: all of it, or 409 and nothing

A web page must not reach it: requests are checked for a Host that is ours, and anything but reading needs the token, a
JSON body and no foreign Origin. It knows no sink: it is handed what it shows.
"""

import asyncio
import contextlib
import hmac
import ipaddress
import os
import re
import secrets
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import anyio
import msgspec
import uvicorn
from anyio import to_thread
from anyio.abc import TaskStatus
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from verifierd.errors import ConfigError, LabelError, StateError, VerifierdError
from verifierd.labels import Label, Outcome, Saying, Truth, answer, holds, shown
from verifierd.metrics import Metrics
from verifierd.sanitize import plain
from verifierd.store import StoredAlarm
from verifierd.types import Verdict, VerdictKind

__all__ = ("Alarms", "Labels", "RecentVerdicts", "announce", "app", "serve", "token")

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Host names under which we are spoken to."""

_BODY = 64 * 1024  # bytes of a request's body
_HEAD = 16 * 1024  # bytes of a request's head
_CONNECTIONS = 128  # beyond these the next one is closed at once, so that files can still be opened
_PATIENCE = 10.0  # seconds for a request to arrive
_GRACE = 2  # seconds for answers under way when we stop
_LIMIT = 100  # verdicts in an answer
_MOST = 1000
_WHO = 200  # characters of a person's name
_NOTE = 2000

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAFE = ("GET", "HEAD")
_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::[0-9]{1,5})?")
_TOKEN = re.compile(r"[0-9a-f]{64}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe in its place must not hold us up


class RecentVerdicts(Protocol):
    """What the endpoint wants of `sinks.recent`."""

    def list(self, limit: int, verdict: VerdictKind | None = None, after: int | None = None) -> Sequence[Verdict]:
        """The newest verdicts first."""


class Alarms(Protocol):
    """What the endpoint wants of `store`."""

    async def alarms(self, limit: int = 1000) -> Sequence[StoredAlarm]:
        """Open ones first, then newest first."""

    async def open_alarms(self) -> int:
        """How many are open."""

    async def acknowledge(self, alarm: str, *, by: str = "", note: str = "") -> StoredAlarm | None:
        """The alarm, acknowledged now or before; None if there is none."""


class Labels(Protocol):
    """What the endpoint wants of `store`, too."""

    truth: Truth

    async def label(self, said: Saying, source: str = "person") -> Outcome:
        """Keep it; a `LabelError` says why it was not."""

    async def labels(self, identity: str) -> Sequence[Label]:
        """All that was said of a step; a `LabelError` says which id is not known."""


class _Acknowledgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of an acknowledgement."""

    by: str = ""
    note: str = ""


Readiness = Callable[[], tuple[bool, Mapping[str, object]]]
Reload = Callable[[], Awaitable[Mapping[str, object]]]


def app(
    *,
    metrics: Metrics,
    recent: RecentVerdicts,
    readiness: Readiness,
    token: str,
    alarms: Alarms | None = None,
    labels: Labels | None = None,
    reload: Reload | None = None,
    allowed_hosts: Sequence[str] = (),
    private: bool = False,
) -> Starlette:
    """The endpoint as an ASGI application.

    Args:
        metrics: What `/metrics` shows.
        recent: What `/api/verdicts` shows; sanitised already.
        readiness: Says whether we are ready, and some facts for people.
        token: What changes need as `Authorization: Bearer`.
        alarms: What `/api/alarms` shows and changes.
        labels: What `/api/labels` shows and changes.
        reload: Reads settings and policy again, and says what is in use; a `VerifierdError` says why it was not done.
        allowed_hosts: Names, beside the loopback ones, under which we may be addressed; IPv6 in brackets.
        private: Ask for the token on reading, too; health stays open.
    """
    scrapes = anyio.CapacityLimiter(1)  # a scrape is the same for all; more at once would only be slower

    async def index(_: Request) -> Response:
        return _answer(200, "\n".join(["verifierd", *(route.path for route in routes), ""]), "text/plain")

    async def live(_: Request) -> Response:
        return _answer(200, {"live": True})

    async def ready(_: Request) -> Response:
        ok, facts = readiness()
        return _answer(200 if ok else 503, {"ready": ok, **facts})

    async def scrape(request: Request) -> Response:
        accept = request.headers.get("accept", "")
        content_type, body = await to_thread.run_sync(metrics.render, accept, limiter=scrapes)
        return Response(body, headers={**_HEADERS, "Content-Type": content_type})

    async def verdicts(request: Request) -> Response:
        query = request.query_params
        kind = query.get("verdict")
        if kind is not None and kind not in list(VerdictKind):
            raise HTTPException(400, f"verdict is one of {', '.join(VerdictKind)}")
        found = recent.list(
            min(_number(query.get("limit"), "limit") or _LIMIT, _MOST),
            VerdictKind(kind) if kind is not None else None,
            _number(query.get("after"), "after"),
        )
        return await to_thread.run_sync(_answer, 200, {"verdicts": found})  # megabytes, at worst

    routes = [
        Route("/", index),
        Route("/livez", live),
        Route("/readyz", ready),
        Route("/metrics", scrape),
        Route("/api/verdicts", verdicts),
    ]
    routes += [*_alarm_routes(alarms, metrics), *_label_routes(labels, metrics), *_reload_route(reload)]
    hosts = frozenset(host.lower() for host in (*LOOPBACK, *allowed_hosts))
    application = Starlette(
        routes=routes,
        middleware=[Middleware(_Guard, hosts=hosts, token=token, private=private)],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    application.router.redirect_slashes = False  # a redirect would repeat the Host it was sent
    return application


def _alarm_routes(alarms: Alarms | None, metrics: Metrics) -> list[Route]:
    if alarms is None:
        return []

    async def list_alarms(request: Request) -> Response:
        found = await alarms.alarms(min(_number(request.query_params.get("limit"), "limit") or _LIMIT, _MOST))
        return _answer(200, {"open": await alarms.open_alarms(), "alarms": [_shown(alarm) for alarm in found]})

    async def acknowledge(request: Request) -> Response:
        try:
            said = msgspec.json.decode(await request.body() or b"{}", type=_Acknowledgement)
        except msgspec.DecodeError as error:
            raise HTTPException(400, f'a body such as {{"by": "name", "note": "text"}} is needed: {error}') from error
        alarm = await alarms.acknowledge(
            request.path_params["alarm"], by=plain(said.by[:_WHO]), note=plain(said.note[:_NOTE])
        )
        if alarm is None:
            raise HTTPException(404, "no such alarm")
        metrics.alarms_open.set(await alarms.open_alarms())
        return _answer(200, _shown(alarm))

    return [
        Route("/api/alarms", list_alarms),
        Route("/api/alarms/{alarm}/ack", acknowledge, methods=["POST"]),
    ]


def _label_routes(labels: Labels | None, metrics: Metrics) -> list[Route]:
    if labels is None:
        return []

    async def list_labels(request: Request) -> Response:
        if not (identity := request.query_params.get("id", "").strip().lower()):
            raise HTTPException(400, "which step? ?id= takes a verdict's or a step's id, or its beginning")
        try:
            found = await labels.labels(identity)
        except LabelError as error:
            return _unlabelled(error)
        now = holds(found)
        return _answer(
            200,
            {
                "id": identity,
                "step_id": found[0].step_id if found else None,
                "label": now and shown(now),
                "labels": [shown(label) for label in found],
            },
        )

    async def label(request: Request) -> Response:
        try:
            said = msgspec.json.decode(await request.body(), type=Saying)
        except msgspec.DecodeError as error:
            metrics.labelled(None)
            raise HTTPException(
                400,
                'a body such as {"id": "...", "label": "on_path|off_path|unsure|undo", "by": "name", "note": "text"}'
                f" is needed: {plain(str(error))}",
            ) from error
        try:
            done = await labels.label(said)
        except LabelError as error:
            metrics.labelled(None)
            return _unlabelled(error)
        metrics.labelled(done)
        metrics.truth(labels.truth)
        return _answer(202 if done.pending else 200, answer(done))

    return [Route("/api/labels", list_labels), Route("/api/labels", label, methods=["POST"])]


def _unlabelled(error: LabelError) -> Response:
    return _answer(404 if error.missing else 400, {"error": plain(error.message), "hint": plain(error.hint)})


def _reload_route(reload: Reload | None) -> list[Route]:
    if reload is None:
        return []

    async def read_again(_: Request) -> Response:
        try:
            return _answer(200, await reload())
        except VerifierdError as error:
            return _answer(409, {"error": plain(error.message), "hint": plain(error.hint)})

    return [Route("/-/reload", read_again, methods=["POST"])]


class _Guard:
    """Lets through what may come in."""

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str], token: str, private: bool) -> None:
        self._app = app
        self._hosts = hosts
        self._token = token.encode()
        self._private = private

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        try:
            self._check(scope, headers)
        except HTTPException as refusal:
            await _answer(refusal.status_code, {"error": refusal.detail}, headers=refusal.headers)(scope, receive, send)
            return
        await self._app(scope, _limited(receive), send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host", "").lower()
        name = _HOST.fullmatch(host)
        if name is None or name[1] not in self._hosts:  # a page whose own name was made to point here
            raise HTTPException(400, "unknown host")
        reading = scope["method"] in _SAFE
        if not reading:
            origin = headers.get("origin")
            if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
                raise HTTPException(403, "foreign origin")
            if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
                raise HTTPException(403, "foreign site")
        if not reading or (self._private and scope["path"] not in ("/livez", "/readyz")):
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token):
                raise HTTPException(401, "token needed", headers={"WWW-Authenticate": "Bearer"})
        if not reading:
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                raise HTTPException(415, "application/json needed")
            size = headers.get("content-length", "0")
            if not size.isdecimal() or int(size) > _BODY:
                raise HTTPException(413, "body too large")


def _limited(receive: Receive) -> Receive:
    """Stops reading a body that says not how long it is and does not end."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > _BODY:
            raise HTTPException(413, "body too large")
        return message

    return limited


def _number(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise HTTPException(400, f"{name} is a number")
    return int(text)


def _shown(alarm: StoredAlarm) -> dict[str, object]:
    """An alarm with its times as verdicts have theirs."""
    known = alarm.acknowledged
    return {
        **msgspec.structs.asdict(alarm),
        "time": _time(alarm.time),
        "acknowledged": known and {**msgspec.structs.asdict(known), "time": _time(known.time)},
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _answer(
    status: int, content: object, media_type: str = "application/json", *, headers: Mapping[str, str] | None = None
) -> Response:
    body = content if isinstance(content, str) else msgspec.json.encode(content)
    return Response(body, status, {**_HEADERS, **(headers or {})}, media_type)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _answer(error.status_code, {"error": error.detail}, headers=error.headers)


async def _failed(_: Request, __: Exception) -> Response:
    return _answer(500, {"error": "internal error"})  # what it was is in the log


def token(path: Path) -> str:
    """The secret of a file; made on the first call: 32 random bytes in hexadecimal, readable by its owner alone.

    Raises:
        StateError: The file cannot be made or read, others may read it, or it holds no token.
    """
    try:
        try:
            descriptor = os.open(path, _READ)
        except FileNotFoundError:
            _create(path, secrets.token_hex(32))
            descriptor = os.open(path, _READ)
        with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
            status = os.fstat(descriptor)
            text = file.read(128).strip()
    except OSError as error:
        raise StateError(
            f"{path}: cannot keep a token: {error.strerror or error}",
            hint="Make the state directory writable for this user, or remove what is in the file's place.",
        ) from error
    if status.st_uid != os.geteuid() or status.st_mode & 0o077 or not stat.S_ISREG(status.st_mode):
        raise StateError(
            f"{path}: the token may be read by others (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"Remove {path}; a new token is made at the next start. To keep it: chmod 600 {path}",
        )
    if not _TOKEN.fullmatch(text):
        raise StateError(f"{path}: holds no token", hint=f"Remove {path}; a new one is made at the next start.")
    return text


def announce(path: Path, url: str) -> None:
    """Keep where we serve in a file, for commands of the same user.

    Raises:
        StateError: The file cannot be made.
    """
    try:
        path.unlink(missing_ok=True)
        _create(path, url)
    except OSError as error:
        raise StateError(
            f"{path}: cannot keep the endpoint's address: {error.strerror or error}",
            hint="Make the state directory writable for this user, or remove what is in the file's place.",
        ) from error


def _create(path: Path, text: str) -> None:
    """Write beside the place and link it there: whoever comes second finds the first one's file, and it is whole."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


async def serve(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    allow_remote: bool = False,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; `task_status` is told the port once connections are taken.

    Args:
        app: What answers.
        host: A name or address of this machine.
        port: TCP port; 0 takes a free one.
        allow_remote: Permit an address that other machines can reach; the application should then be `private`.
        task_status: As `TaskGroup.start` passes it.

    Raises:
        ConfigError: The address is not ours, is taken, or reaches beyond this machine without `allow_remote`.
    """
    with _listening(host, port, allow_remote=allow_remote) as listener:
        server = _Server(app, ready=lambda: task_status.started(listener.getsockname()[1]))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run_until_told, listener)
            try:
                await anyio.sleep_forever()
            finally:
                server.should_exit = True


@contextlib.contextmanager
def _listening(host: str, port: int, *, allow_remote: bool) -> Iterator[socket.socket]:
    """A bound socket, closed at the end."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if not allow_remote and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
            raise ConfigError(
                f"{host}:{port} can be reached from other machines",
                hint="Bind 127.0.0.1, or set `allow-remote` and keep the token secret.",
            )
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{host}:{port}: no such address: {error}", hint="Bind 127.0.0.1.") from error
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_CONNECTIONS)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                hint="Is verifierd already running? Choose another port, or --port 0 for any free one.",
            ) from error
        yield listener


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to the daemon and says when it is ready."""

    def __init__(self, app: ASGIApp, *, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=_GRACE,
                h11_max_incomplete_event_size=_HEAD,
            )
        )
        self._ready = ready

    async def run_until_told(self, listener: socket.socket) -> None:
        """Serve until `should_exit`; a cancellation must not interrupt the way out, which is bounded itself."""
        with anyio.CancelScope(shield=True):
            await self.serve(sockets=[listener])

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self._ready()


class _Connection(H11Protocol):
    """A connection that is closed if there are too many, or if no request comes in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, or not."""
        super().connection_made(transport)
        if len(self.connections) > _CONNECTIONS:
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(_PATIENCE, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        self._timer = self.loop.call_later(_PATIENCE, self._look)
