"""A browser's session: the token in exchange for a cookie that scripts cannot read."""

import anyio
import msgspec
from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from verifierd.errors import StateError
from verifierd.http.answers import respond
from verifierd.http.guard import COOKIE, SESSION, Sessions, cookie
from verifierd.sanitize import plain

__all__ = ("session_route",)


class _Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str


def session_route(sessions: Sessions) -> Route:
    """`/api/session`."""
    writing = anyio.CapacityLimiter(1)

    def baked(request: Request, value: str, seconds: int) -> dict[str, str]:
        secure = "; Secure" if request.url.scheme == "https" else ""
        return {"Set-Cookie": f"{COOKIE}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{secure}"}

    async def session(request: Request) -> Response:
        if request.method == "DELETE":
            status, said = 200, dict[str, object](session=False)
            try:
                await to_thread.run_sync(sessions.end, cookie(request.headers), limiter=writing)
            except StateError as error:
                status, said = 503, {"error": plain(error.message), "hint": plain(error.hint)}
            return respond(status, said, headers=baked(request, "", 0))
        if request.method != "POST":
            return respond(200, {"session": sessions.holds(cookie(request.headers))})
        try:
            login = msgspec.json.decode(await request.body(), type=_Login)
        except msgspec.DecodeError as error:  # whose words might repeat what was sent
            raise HTTPException(400, 'a body such as {"token": "..."} is needed') from error
        if not sessions.opens(login.token):
            raise HTTPException(401, "that is not the token", headers={"WWW-Authenticate": "Bearer"})
        return respond(200, {"session": True}, headers=baked(request, sessions.make(), sessions.seconds))

    return Route(SESSION, session, methods=["GET", "POST", "DELETE"])
