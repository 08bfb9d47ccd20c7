"""Tells whoever manages this service how it is, and lets nobody take it for well when it is not.

systemd is told by messages on its socket, `NOTIFY_SOCKET`. Where `WATCHDOG_USEC` says how long the service may show no
sign of life, each sign is one more message; without a socket (launchd, containers) the process ends itself, with a
traceback of every thread on standard error, for its manager to start it again. Without these variables nothing is done.
"""

import faulthandler
import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import anyio
import structlog

__all__ = ("Manager", "mind")

_STATUS_SECONDS = 60.0
_log = structlog.get_logger(component="notify")


class Manager:
    """The service's manager, or nobody. Telling it something never fails and never waits.

    Args:
        environ: Where the manager says what it wants to be told.

    Attributes:
        watchdog: Seconds without a sign of life after which the service is ended; None if nobody looks.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # `@` stands for the NUL of a socket without a place in the file system.
        self._address = {"/": address, "@": "\0" + address[1:]}.get(address[:1])
        self._is_ready = False
        self.watchdog = _watchdog(environ)

    def starting(self, seconds: float) -> None:
        """The start may take so long."""
        self._tell("STATUS=starting", _extended(seconds))

    def ready(self) -> None:
        """All sources were looked at once, and the endpoint is served."""
        self._is_ready = True
        self._tell("READY=1")

    def reloading(self) -> None:
        """Settings are read again; `reloaded` ends that."""
        if self._is_ready:
            self._tell("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def reloaded(self) -> None:
        """Settings were read again, or stayed as they were."""
        if self._is_ready:
            self._tell("READY=1")

    def stopping(self, seconds: float) -> None:
        """The service stops, which may take so long."""
        self._tell("STOPPING=1", "STATUS=finishing what is in flight", _extended(seconds))

    def status(self, text: str) -> None:
        """How things are, in one line."""
        self._tell(f"STATUS={text}")

    def alive(self) -> None:
        """A sign of life: the next one is due within `watchdog` seconds."""
        if self._address is not None:
            self._tell("WATCHDOG=1")
        elif self.watchdog is not None:
            # A thread that needs no lock of the interpreter; each call begins its time anew.
            faulthandler.dump_traceback_later(self.watchdog, exit=True)

    def let_go(self) -> None:
        """No further sign of life is due."""
        if self._address is None and self.watchdog is not None:
            faulthandler.cancel_dump_traceback_later()

    def _tell(self, *lines: str) -> None:
        if self._address is None:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messages:
            messages.setblocking(False)
            messages.sendto("\n".join(lines).encode(), self._address)


async def mind(manager: Manager, *, stale: Callable[[float], Sequence[str]], status: Callable[[], str]) -> None:
    """Tell a manager each minute how things are, and give signs of life while there are any; until cancelled.

    Args:
        manager: Who is told.
        stale: Which parts have shown no sign of life for so many seconds.
        status: How things are, in one line.
    """
    limit = math.inf if manager.watchdog is None else manager.watchdog / 2
    pause = min(_STATUS_SECONDS, limit / 2)
    told, late, missing = -math.inf, 0.0, list[str]()
    if manager.watchdog is not None:
        faulthandler.enable()  # systemd ends a service that hangs by a signal that then shows where
    try:
        while True:
            began = time.monotonic()
            if began - told >= _STATUS_SECONDS - pause / 2:
                told = began
                manager.status(status())
            if manager.watchdog is not None:
                before, missing = missing, [*stale(limit), *(["event loop"] if late > limit else [])]
                if not missing:
                    manager.alive()
                if missing and not before:
                    _log.error("no_sign_of_life", parts=missing, seconds=limit)
                elif before and not missing:
                    _log.info("signs_of_life_again", parts=before)
            await anyio.sleep(pause)
            late = time.monotonic() - began - pause
    finally:
        manager.let_go()


def _watchdog(environ: Mapping[str, str]) -> float | None:
    """Seconds, if it is this process that is looked at."""
    text = environ.get("WATCHDOG_USEC", "")
    if not (text.isascii() and text.isdecimal() and int(text)):
        return None
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(text) / 1e6


def _extended(seconds: float) -> str:
    return f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}"
