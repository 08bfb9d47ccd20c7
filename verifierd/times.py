"""Times as documents have them."""

from datetime import UTC, datetime
from functools import lru_cache

__all__ = ("iso",)


def iso(seconds: float) -> str:
    """A time since the epoch, to the millisecond: `2026-11-30T12:00:00.000Z`."""
    whole = int(seconds // 1)
    second, milli = divmod(whole * 1000 + round((seconds - whole) * 1e6) // 1000, 1000)
    return f"{_second(second)}.{milli:03}Z"


@lru_cache(4096)  # each page of a list has hundreds, and most of them again and again
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().removesuffix("+00:00")
