"""Who may come in: requests to a name of ours, no foreign page, and for changes only who holds the token."""

import hmac
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from verifierd.http.answers import respond
from verifierd.http.token import keep, kept

__all__ = ("COOKIE", "LOOPBACK", "SESSION", "Guard", "Sessions", "cookie")

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Host names under which we are spoken to."""

COOKIE = "verifierd_session"
SESSION = "/api/session"

_BODY = 64 * 1024  # bytes of a request's body
_SAFE = ("GET", "HEAD")
_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::[0-9]{1,5})?")
_SAID = r"[0-9]{1,12}\.[0-9a-f]{32}"
_VALUE = re.compile(rf"({_SAID})\.([0-9a-f]{{64}})")
_ENDED = 10_000


class Sessions:
    """Sessions of browsers, which hold a cookie made from the token, and never the token.

    Args:
        token: The token.
        ended: The file that keeps which sessions were ended, for the next start; None for none.
        clock: Seconds since the epoch.

    Attributes:
        seconds: How long one lasts.

    Raises:
        StateError: The file cannot be used.
    """

    seconds = 7 * 86400

    def __init__(self, token: str, *, ended: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._token = token.encode()
        self._clock = clock
        self._file = ended
        # Of a value, what was signed: nobody can make a session of that.
        known = [] if ended is None else kept(ended)
        self._ended = dict.fromkeys(said for said in known if re.fullmatch(_SAID, said))

    def opens(self, token: str) -> bool:
        """Whether it is the token; in constant time."""
        return hmac.compare_digest(token.strip().encode("utf-8", "replace"), self._token)

    def make(self) -> str:
        """The cookie's value for a new session."""
        said = f"{int(self._clock()) + self.seconds}.{secrets.token_hex(16)}"
        return f"{said}.{self._sign(said)}"

    def holds(self, value: str) -> bool:
        """Whether it is the value of a session that lasts."""
        parts = _VALUE.fullmatch(value)
        if parts is None or not hmac.compare_digest(parts[2], self._sign(parts[1])):
            return False
        return parts[1] not in self._ended and self._lasts(parts[1])

    def end(self, value: str) -> None:
        """Let a session last no longer.

        Raises:
            StateError: It has ended, but would last again after a restart.
        """
        if not self.holds(value):
            return
        self._ended[value.rpartition(".")[0]] = None
        self._ended = dict.fromkeys([said for said in self._ended if self._lasts(said)][-_ENDED:])
        if self._file is not None:
            keep(self._file, self._ended)

    def _lasts(self, said: str) -> bool:
        return int(said.partition(".")[0]) > self._clock()

    def _sign(self, said: str) -> str:
        return hmac.digest(self._token, b"verifierd session " + said.encode(), "sha256").hex()


class Guard:
    """Lets through what may come in.

    A cookie counts only where the browser says that the page is ours: cookies are shared by all ports of a host.

    Args:
        app: What is guarded.
        hosts: The names under which we may be addressed.
        sessions: Who holds the token.
        private: Ask for it on reading, too.
    """

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str], sessions: Sessions, private: bool) -> None:
        self._app = app
        self._hosts = hosts
        self._sessions = sessions
        self._private = private

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        try:
            self._check(scope, headers)
        except HTTPException as refusal:
            await respond(refusal.status_code, {"error": refusal.detail}, headers=refusal.headers)(scope, receive, send)
            return
        with suppress(ClientDisconnect):  # before the body's end: nobody is there to be answered
            await self._app(scope, _limited(receive), send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host", "").lower()
        name = _HOST.fullmatch(host)
        if name is None or name[1] not in self._hosts:  # a page whose own name was made to point here
            raise HTTPException(400, "unknown host")
        reading, path = scope["method"] in _SAFE, scope["path"]
        ours = headers.get("origin", f"http://{host}").lower() in (f"http://{host}", f"https://{host}")
        near = headers.get("sec-fetch-site", "none") in ("same-origin", "none")
        if not reading:
            if not ours:
                raise HTTPException(403, "foreign origin")
            if not near:
                raise HTTPException(403, "foreign site")
        if path != SESSION and (not reading or (self._private and not _is_open(path))):
            scheme, _, given = headers.get("authorization", "").partition(" ")
            known = scheme.lower() == "bearer" and self._sessions.opens(given)
            if not known and not (ours and near and self._has_session(headers, reading=reading)):
                raise HTTPException(401, "token needed", headers={"WWW-Authenticate": "Bearer"})
        if not reading and (scope["method"], path) != ("DELETE", SESSION):
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise HTTPException(415, "application/json needed")
        _check_length(headers)

    def _has_session(self, headers: Headers, *, reading: bool) -> bool:
        if not reading and "origin" not in headers and "sec-fetch-site" not in headers:
            return False  # a browser says at least one of them
        return self._sessions.holds(cookie(headers))


def _check_length(headers: Headers) -> None:
    if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may go by the other one than we do
        raise HTTPException(400, "two lengths")
    size = headers.get("content-length", "0")
    if not size.isdecimal() or int(size) > _BODY:
        raise HTTPException(413, "body too large")


def cookie(headers: Headers) -> str:
    """The session's value that a browser sent, or nothing."""
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _is_open(path: str) -> bool:
    """Whether nothing is to be seen there that is not in every copy of this program."""
    return path in ("/livez", "/readyz", "/console") or path.startswith("/console/")


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
