"""A browser's session: the token in exchange for a cookie that scripts cannot read."""

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from verifierd.http.answers import respond
from verifierd.http.guard import COOKIE, SESSION, Sessions, cookie

__all__ = ("session_route",)


class _Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str


def session_route(sessions: Sessions) -> Route:
    """`/api/session`."""

    def baked(request: Request, value: str, seconds: int) -> dict[str, str]:
        secure = "; Secure" if request.url.scheme == "https" else ""
        return {"Set-Cookie": f"{COOKIE}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{secure}"}

    async def session(request: Request) -> Response:
        if request.method == "DELETE":
            sessions.end(cookie(request.headers))
            return respond(200, {"session": False}, headers=baked(request, "", 0))
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
