"""What a recording makes up: ids and times."""

import random
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

__all__ = ("Invention",)

T = TypeVar("T")

_START = datetime(2026, 1, 12, 9, 0, tzinfo=UTC)
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789"


class Invention:
    """Gives the same ids, times and choices, in the same order, for the same seed.

    Args:
        seed: Any text.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible on purpose, guards nothing
        self._now = _START

    def time(self, seconds: float = 1.0) -> str:
        """Let about so many seconds go by; the time then, in UTC with milliseconds."""
        self._now += timedelta(milliseconds=round(seconds * self._random.uniform(500, 1500)))
        return self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def uuid(self) -> str:
        """A random UUID."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def token(self, prefix: str, length: int) -> str:
        """An id as APIs give them: a prefix and letters."""
        return prefix + "".join(self._random.choices(_LETTERS, k=length))

    def hex(self, length: int) -> str:
        """So many hexadecimal digits."""
        return f"{self._random.getrandbits(4 * length):0{length}x}"

    def number(self, low: int, high: int) -> int:
        """An integer from low to high."""
        return self._random.randint(low, high)

    def choose(self, among: Sequence[T]) -> T:
        """One of several."""
        return among[self._random.randrange(len(among))]
