"""What answers have in common: their headers, numbers in queries, times."""

import re
from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from verifierd.errors import LabelError
from verifierd.sanitize import plain
from verifierd.store import StoredAlarm
from verifierd.views import alarm

__all__ = ("EVENTS", "HEADERS", "limit", "number", "respond", "shown_alarm", "unlabelled")

EVENTS = "/api/events"
"""The path under which a connection is a stream."""

_LIMIT = 100  # entries in an answer, unless others are asked for
_MOST = 1000

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def respond(
    status: int, content: object, media_type: str = "application/json", *, headers: Mapping[str, str] | None = None
) -> Response:
    """A text, or a JSON document."""
    body = content if isinstance(content, str) else msgspec.json.encode(content)
    return Response(body, status, {**HEADERS, **(headers or {})}, media_type)


def number(text: str | None, name: str) -> int | None:
    """A number of a query.

    Raises:
        HTTPException: It is none.
    """
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise HTTPException(400, f"{name} is a number")
    return int(text)


def limit(text: str | None) -> int:
    """How many entries a query asks for, within reason."""
    return min(number(text, "limit") or _LIMIT, _MOST)


def shown_alarm(found: StoredAlarm) -> dict[str, object]:
    """An alarm as documents have it."""
    known = found.acknowledged
    fields = {
        "id": found.id,
        "format": found.format,
        "trajectory": found.trajectory,
        "run": found.run,
        "step": found.step,
        "first_bad": found.first_bad,
        "statistic": found.statistic,
        "threshold": found.threshold,
    }
    return alarm(fields, found.time, None if known is None else (known.time, known.by, known.note))


def unlabelled(error: LabelError) -> Response:
    """Why nothing is known of an id, or was said of its step."""
    return respond(404 if error.missing else 400, {"error": plain(error.message), "hint": plain(error.hint)})
