"""The console's files, as the package carries them. What is not among them at the start is not served."""

import hashlib
import mimetypes
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from verifierd.http.answers import HEADERS

__all__ = ("static_routes",)

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_TEXTS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


def static_routes() -> list[Route]:
    """`/console/`, if the package has a console."""
    folder = files("verifierd") / "console"
    if not folder.is_dir():
        return []
    contents = {name: file.read_bytes() for name, file in _all(folder)}
    known = {name: _headers(name, content) for name, content in contents.items()}

    async def page(request: Request) -> Response:
        name = request.path_params.get("name") or "index.html"
        if name not in known:
            raise HTTPException(404, "no such page")
        if request.headers.get("if-none-match") == known[name]["ETag"]:
            return Response(status_code=304, headers=known[name])
        return Response(contents[name], headers=known[name])

    async def enter(_: Request) -> Response:
        return Response(status_code=307, headers={**HEADERS, "Location": "/console/"})

    return [Route("/console", enter), Route("/console/{name:path}", page)]


def _all(folder: Traversable, prefix: str = "") -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _all(entry, f"{prefix}{entry.name}/")
        elif not entry.name.endswith((".py", ".pyc", ".md")):
            found.append((prefix + entry.name, entry))
    return found


def _headers(name: str, content: bytes) -> dict[str, str]:
    suffix = name[name.rfind(".") :]
    kind = _TEXTS.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return {
        **HEADERS,
        "Content-Security-Policy": _POLICY,
        "Cache-Control": "no-cache",
        "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        "Content-Type": f"{kind}; charset=utf-8" if suffix in _TEXTS else kind,
    }
