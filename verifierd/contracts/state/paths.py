"""Which paths surely exist and which surely do not, as far as the session itself made or removed them."""

from collections.abc import Sequence

from verifierd.contracts.calls import Call, Part
from verifierd.types import Step

__all__ = ("Paths",)


class Paths:
    """What exists."""

    def observe(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """Learn from what a step made, removed or showed, and forget what it may have changed."""
