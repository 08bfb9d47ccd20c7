"""The state of a git repository, as far as the session itself made it."""

from collections.abc import Sequence

from verifierd.contracts.calls import Call, Part
from verifierd.types import Step

__all__ = ("Repository",)


class Repository:
    """Partial knowledge of a repository."""

    def observe(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """Learn from what a step showed or did, and forget what it may have changed."""
