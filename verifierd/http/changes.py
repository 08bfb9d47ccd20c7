"""Routes that change something, and what was changed: alarms, labels, settings."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from verifierd.errors import LabelError, VerifierdError
from verifierd.http.answers import limit, respond, shown_alarm, unlabelled
from verifierd.labels import Label, Outcome, Saying, Truth, answer, holds, shown
from verifierd.metrics import Metrics
from verifierd.sanitize import plain
from verifierd.store import StoredAlarm

__all__ = ("Alarms", "Labels", "Reload", "Tell", "alarm_routes", "label_routes", "reload_route")

_WHO = 200  # characters of a person's name
_NOTE = 2000


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


Reload = Callable[[], Awaitable[Mapping[str, object]]]
Tell = Callable[[str, Mapping[str, object]], None]
"""Passes an event on to those who listen: its name and what it says."""


def alarm_routes(alarms: Alarms | None, metrics: Metrics, tell: Tell) -> list[Route]:
    """`/api/alarms`."""
    if alarms is None:
        return []

    async def list_alarms(request: Request) -> Response:
        found = await alarms.alarms(limit(request.query_params.get("limit")))
        return respond(200, {"open": await alarms.open_alarms(), "alarms": [shown_alarm(alarm) for alarm in found]})

    async def acknowledge(request: Request) -> Response:
        try:
            said = msgspec.json.decode(await request.body() or b"{}", type=_Acknowledgement)
        except msgspec.DecodeError as error:
            raise HTTPException(
                400, f'a body such as {{"by": "name", "note": "text"}} is needed: {plain(str(error))}'
            ) from error
        alarm = await alarms.acknowledge(
            request.path_params["alarm"], by=plain(said.by)[:_WHO], note=plain(said.note)[:_NOTE]
        )
        if alarm is None:
            raise HTTPException(404, "no such alarm")
        metrics.alarms_open.set(await alarms.open_alarms())
        tell("alarm", shown_alarm(alarm))
        return respond(200, shown_alarm(alarm))

    return [
        Route("/api/alarms", list_alarms),
        Route("/api/alarms/{alarm}/ack", acknowledge, methods=["POST"]),
    ]


def label_routes(labels: Labels | None, metrics: Metrics, tell: Tell) -> list[Route]:
    """`/api/labels`."""
    if labels is None:
        return []

    async def list_labels(request: Request) -> Response:
        if not (identity := request.query_params.get("id", "").strip().lower()):
            raise HTTPException(400, "which step? ?id= takes a verdict's or a step's id, or its beginning")
        try:
            found = await labels.labels(identity)
        except LabelError as error:
            return unlabelled(error)
        now = holds(found)
        return respond(
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
            return unlabelled(error)
        metrics.labelled(done)
        metrics.truth(labels.truth)
        tell("label", answer(done))
        return respond(202 if done.pending else 200, answer(done))

    return [Route("/api/labels", list_labels), Route("/api/labels", label, methods=["POST"])]


def reload_route(reload: Reload | None) -> list[Route]:
    """`/-/reload`."""
    if reload is None:
        return []

    async def read_again(_: Request) -> Response:
        try:
            return respond(200, await reload())
        except VerifierdError as error:
            return respond(409, {"error": plain(error.message), "hint": plain(error.hint)})

    return [Route("/-/reload", read_again, methods=["POST"])]
