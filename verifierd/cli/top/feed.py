"""What a daemon tells over HTTP: pages that are asked for, and events as they happen."""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import httpx2
import msgspec

from verifierd.cli.top.shapes import Document, Labelled, Row, Summary
from verifierd.errors import StateError, VerifierdError
from verifierd.sanitize import Sanitizer
from verifierd.types import Verdict

__all__ = ("Access", "Event", "Feed", "at", "in_state")

T = TypeVar("T")

_SECONDS = 10.0  # for an answer
_SILENCE = 40.0  # of a stream, whose daemon says every 15 seconds that it is there
_PIECE = 4 * 1024**2  # characters of one event
_clean = Sanitizer(os.urandom(16))  # it may be anybody's daemon


class Access(NamedTuple):
    """Where a daemon serves, and what it takes for changes, if that is known."""

    url: str
    token: str | None


class Event(NamedTuple):
    """Something that happened: a `verdict` (`Row`), a `label` (`Labelled`), a `summary` (`Summary`) or another one.

    `seq` is given for those that can be resumed after.
    """

    name: str
    said: Any
    seq: int | None = None


_EVENTS: dict[str, type[Any]] = {"verdict": Row, "label": Labelled, "summary": Summary}


def in_state(where: Path) -> Access:
    """How to reach the daemon that uses a state folder.

    Raises:
        StateError: None does, or it may not be known who.
    """
    try:
        url = (where / "endpoint").read_text(encoding="ascii").strip()
        return Access(url, (where / "token").read_text(encoding="ascii").strip())
    except FileNotFoundError as error:
        raise StateError(
            f"{where}: no daemon uses it",
            hint="Start one by `verifierd run`, or name its state folder by --state, or its address by --url.",
            temporary=True,
        ) from error
    except (OSError, UnicodeError) as error:
        raise StateError(
            f"{where}: cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="Be the user whom the daemon belongs to.",
        ) from error


def at(url: str, token: Path | None) -> Access:
    """How to reach a daemon by its address. No token is sent there unless its file is named.

    Raises:
        StateError: The file cannot be read.
    """
    try:
        return Access(url.rstrip("/"), None if token is None else token.read_text(encoding="ascii").strip())
    except (OSError, UnicodeError) as error:
        raise StateError(
            f"{token}: cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="Name a copy of the file `token` of the daemon's state folder.",
        ) from error


class Feed:
    """A daemon, as seen from here. All texts that it gives are fit to be shown.

    Args:
        access: Says how to reach it; asked each time, for a daemon may come back elsewhere.
    """

    def __init__(self, access: Callable[[], Access]) -> None:
        self._access = access

    async def __aenter__(self) -> Self:
        self._client = httpx2.AsyncClient(trust_env=False, timeout=_SECONDS)  # no proxy: mostly it is this machine
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def page(self, path: str, shape: type[T], **query: object) -> T:
        """A JSON document of that shape.

        Raises:
            VerifierdError: There is no answer, or a refusal.
        """
        return _shaped(_decoded(await self._ask("GET", path, query=query)), shape)

    async def verdict(self, identity: str) -> tuple[Verdict, Document]:
        """A whole verdict, and what is said of it.

        Raises:
            VerifierdError: There is no answer, or a refusal.
        """
        document = _decoded(await self._ask("GET", f"/api/verdicts/{identity}"))
        document.pop("surprise", None)  # which is not shown here, and is null where a verdict has none
        return _clean.verdict(_shaped(document, Verdict), "full"), _shaped(document, Document)

    async def figures(self, *series: str) -> dict[str, float]:
        """Values of series without labels, of a scrape.

        Raises:
            VerifierdError: There is no answer, or a refusal.
        """
        lines = (line.partition(" ") for line in (await self._ask("GET", "/metrics")).decode().splitlines())
        found = {name: value for name, _, value in lines if name in series}
        with contextlib.suppress(ValueError):
            return {name: float(value) for name, value in found.items()}
        return {}

    async def say(self, path: str, said: Mapping[str, object], shape: type[T]) -> T:
        """Change something; what came of it.

        Raises:
            VerifierdError: There is no answer, or a refusal.
        """
        return _shaped(_decoded(await self._ask("POST", path, body=msgspec.json.encode(said))), shape)

    async def events(self, after: int) -> AsyncIterator[Event]:
        """What happened after a `seq`, and then what happens, until the daemon ends it.

        Raises:
            VerifierdError: There is no answer, or a refusal.
        """
        access = self._access()
        try:
            async with self._client.stream(
                "GET",
                f"{access.url}/api/events",
                params={"after": after},
                headers=_headers(access),
                timeout=httpx2.Timeout(_SECONDS, read=_SILENCE),
            ) as reply:
                if reply.status_code != httpx2.codes.OK:
                    raise _refused(reply.status_code, await reply.aread())
                async for event in _events(reply.aiter_lines()):
                    yield event
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _silent(access, error) from error

    async def _ask(
        self, method: str, path: str, *, query: Mapping[str, object] | None = None, body: bytes | None = None
    ) -> bytes:
        access = self._access()
        if body is not None and access.token is None:
            raise VerifierdError("changes need the token", hint="Name its file by --token-file.")
        known = {name: str(value) for name, value in (query or {}).items() if value not in (None, "")}
        try:
            reply = await self._client.request(
                method, access.url + path, params=known, content=body, headers=_headers(access)
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _silent(access, error) from error
        if not reply.is_success:
            raise _refused(reply.status_code, reply.content)
        return reply.content


def _headers(access: Access) -> dict[str, str]:
    token = {} if access.token is None else {"Authorization": f"Bearer {access.token}"}
    return {"Content-Type": "application/json", **token}


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    """Server-sent events, as far as we need them."""
    fields: dict[str, str] = {}
    size = 0
    async for line in lines:
        size += len(line)
        if size > _PIECE:
            raise _odd("an event without end")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if "data" in fields:
            name, seq = fields.get("event", ""), fields.get("id", "")
            said: Any = _shaped(_decoded(fields["data"]), _EVENTS.get(name, dict))
            yield Event(name, said, int(seq) if seq.isdecimal() else None)
        fields, size = {}, 0


def _shaped(document: dict[str, Any], shape: type[T]) -> T:
    try:
        return msgspec.convert(document, shape)
    except msgspec.ValidationError as error:
        raise _odd(error) from error


def _decoded(reply: bytes | str) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(reply, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _odd(error) from error
    fit: dict[str, Any] = _fit(document)
    return fit


def _fit(value: Any) -> Any:
    match value:
        case str():
            return _clean.text(value)
        case dict():
            return {_clean.text(name): _fit(of) for name, of in value.items()}
        case list():
            return [_fit(of) for of in value]
        case _:
            return value


def _refused(status: int, reply: bytes) -> VerifierdError:
    said: dict[str, Any] = {}
    with contextlib.suppress(VerifierdError):
        said = _decoded(reply)
    hint = str(said.get("hint", ""))
    if status == httpx2.codes.UNAUTHORIZED:
        hint = "Name the file with the daemon's token by --token-file."
    return VerifierdError(str(said.get("error", f"the daemon answers {status}")), hint=hint)


def _silent(access: Access, error: Exception) -> StateError:
    return StateError(
        f"{access.url}: does not answer: {error or type(error).__name__}",
        hint="Is the daemon running? `verifierd run` starts one.",
        temporary=True,
    )


def _odd(error: object) -> VerifierdError:
    return VerifierdError(f"the answer is not one of verifierd: {error}", hint="Look at the address.")
