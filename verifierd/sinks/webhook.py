"""Verdicts as signed requests of HTTP, as standardwebhooks.com describes them.

    POST URL
    webhook-id: the verdict's id: what comes twice has it twice
    webhook-timestamp: seconds since the epoch, of this try
    webhook-signature: v1,BASE64(HMAC-SHA256(secret, "ID.TIMESTAMP.BODY"))

The body is the verdict's line of the JSONL.
"""

import base64
import binascii
import hmac
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import anyio

from verifierd import __version__
from verifierd.errors import ConfigError
from verifierd.sanitize import plain
from verifierd.sinks.outbox import Due, Later, Refused

if TYPE_CHECKING:
    import httpx2

__all__ = ("Webhook", "key", "signature")

_ANSWER = 64 * 1024  # bytes of an answer that are read, so that the connection can be used again
_REFUSALS = frozenset({400, 405, 409, 411, 413, 415, 422})
"""Answers that another try would not change: of this verdict, not of the address or the key."""


class Webhook:
    """Posts each verdict. It follows no redirect, and believes nothing of an answer but its status.

    Args:
        url: Where to.
        secret: What signs.
        seconds: That a receiver has for one request, all in all.
        clock: Seconds since the epoch.

    Raises:
        ConfigError: That is no address.
    """

    kind = "webhook"

    def __init__(
        self, url: str, secret: bytes, *, seconds: float = 10.0, clock: Callable[[], float] = time.time
    ) -> None:
        import httpx2  # noqa: PLC0415 - takes a while, and most have no webhook

        try:
            self._url = httpx2.URL(url)
        except httpx2.InvalidURL as error:
            raise ConfigError(
                f"`webhook` of a [[notify]]: {plain(str(error))}",
                hint="Name an address such as https://example.org/hook.",
            ) from error
        self._key = secret
        self._seconds = seconds
        self._clock = clock
        # What follows the host is often a secret of its own.
        self.target = plain(f"{self._url.scheme}://{self._url.host}")
        self._client: httpx2.AsyncClient = httpx2.AsyncClient(
            timeout=seconds,
            headers={"User-Agent": f"verifierd/{__version__}", "Content-Type": "application/json"},
            # No proxy stands before this machine itself.
            trust_env=self._url.host not in ("localhost", "127.0.0.1", "::1"),
        )

    async def deliver(self, due: Due) -> None:
        """Post one."""
        import httpx2  # noqa: PLC0415 - as above

        when = str(int(self._clock()))
        headers = {
            "webhook-id": due.verdict_id,
            "webhook-timestamp": when,
            "webhook-signature": signature(self._key, due.verdict_id, when, due.line),
        }
        status, pause = 0, 0.0
        try:
            with anyio.move_on_after(self._seconds):
                status, pause = await self._post(due.line, headers)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise Later(f"no connection: {plain(str(error)) or type(error).__name__}") from error
        if not status:
            raise Later(f"no answer within {self._seconds:g} s")
        if status in _REFUSALS:
            raise Refused(f"the answer is {status}")
        if not 200 <= status < 300:
            raise Later(f"the answer is {status}", pause=pause)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, float]:
        """The answer's status, and after how many seconds it wants to be asked again."""
        async with self._client.stream("POST", self._url, content=body, headers=headers) as answer:
            size = 0
            async for piece in answer.aiter_raw():
                size += len(piece)
                if size > _ANSWER:
                    break
            return answer.status_code, _pause(answer)


def key(secret: str) -> bytes:
    """The bytes that sign: what `whsec_` is followed by, from Base64; else the text itself.

    Raises:
        ValueError: It is no Base64, or is empty.
    """
    text = secret.strip()
    if not text.startswith("whsec_"):
        found = text.encode()
    else:
        try:
            found = base64.b64decode(text.removeprefix("whsec_"), validate=True)
        except binascii.Error as error:
            raise ValueError("what stands behind `whsec_` is no Base64") from error
    if not found:
        raise ValueError("the secret is empty")
    return found


def signature(secret: bytes, identity: str, when: str, body: bytes) -> str:
    """The header by which a receiver knows that a request is ours, whole, and of that time."""
    signed = hmac.digest(secret, f"{identity}.{when}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(signed).decode()}"


def _pause(answer: "httpx2.Response") -> float:
    said = answer.headers.get("retry-after", "").strip()
    return float(said) if said.isdecimal() and len(said) < 6 else 0.0
