"""Serves an application on this machine: what may bind, how many may connect, how long a request may take."""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import anyio
import structlog
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from verifierd.errors import ConfigError
from verifierd.http.answers import EVENTS

__all__ = ("serve",)

_CONNECTIONS = 128  # beside streams; those beyond wait to be taken, so that files can still be opened
_WAITING = 2048  # may wait; most systems allow fewer
_HEAD = 16 * 1024  # bytes of a request's head
_PATIENCE = 10.0  # seconds for a request to arrive, and for its answer to be taken off us
_PAUSE = 1.0  # seconds after a connection could not be taken
_GRACE = 2  # seconds for answers under way when we stop

_log = structlog.get_logger(component="http")


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
            listener.listen(_WAITING)
            listener.setblocking(False)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                hint="Is verifierd already running? Choose another port, or --port 0 for any free one.",
            ) from error
        yield listener


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to the daemon, says when it is ready, and takes as many connections as it may."""

    def __init__(self, app: ASGIApp, *, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",  # of what is no HTTP whoever connects could fill the log
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=_GRACE,
                h11_max_incomplete_event_size=_HEAD,
            )
        )
        self._ready = ready
        self._room = asyncio.Semaphore(_CONNECTIONS)
        self._taking = anyio.CancelScope()

    async def run_until_told(self, listener: socket.socket) -> None:
        """Serve until `should_exit`; a cancellation must not interrupt the way out, which is bounded itself."""
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as self._tasks:
                await self.serve(sockets=[listener])

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup([])
        for listener in sockets or ():
            self._tasks.start_soon(self._take, listener)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more, and end."""
        self._taking.cancel()
        await super().shutdown(sockets)

    async def _take(self, listener: socket.socket) -> None:
        """Take connections while there is room for them; the system keeps the others until there is."""
        loop = asyncio.get_running_loop()
        make = partial(
            _Connection, self.config, self.server_state, self.lifespan.state, loop, release=self._room.release
        )
        with self._taking:
            async with anyio.create_task_group() as greeting:
                while True:
                    await self._room.acquire()
                    try:
                        connection, _ = await loop.sock_accept(listener)
                    except OSError as error:
                        self._room.release()
                        _log.warning("connection_not_taken", error=error.strerror or str(error))
                        await anyio.sleep(_PAUSE)
                    else:
                        greeting.start_soon(loop.connect_accepted_socket, make, connection)


class _Connection(H11Protocol):
    """A connection that is closed if no request comes in time, if one does not end, or if nobody takes the answer.

    Args:
        release: Called once it is no more one of the many: when it is lost or has become a stream of events, which is
            its last answer. Whoever opens streams bounds their number.
    """

    _timer: asyncio.TimerHandle | None = None
    _stuck = False

    def __init__(self, *arguments: Any, release: Callable[[], None]) -> None:
        super().__init__(*arguments)
        self._release: Callable[[], None] | None = release

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, and not for ever."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(_PATIENCE, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._make_room()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take a request; one for events makes this a stream."""
        super().handle_events()
        if self._is_busy and self.scope["path"] == EVENTS:
            self.cycle.keep_alive = False
            self._make_room()

    def _make_room(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None

    @property
    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _look(self) -> None:
        stuck = self.flow.write_paused or (self._is_busy and self.cycle.more_body)
        if stuck and self._stuck:
            self.transport.abort()
        elif not self._is_busy:
            self.transport.close()
        self._stuck = stuck
        self._timer = self.loop.call_later(_PATIENCE, self._look)
