"""What files read, line by line, as far as the session showed it and nothing can have changed it since."""

from collections.abc import Sequence

from verifierd.contracts.calls import Call, Part
from verifierd.types import Step

__all__ = ("Files",)


class Files:
    """Partial knowledge of files."""

    def observe(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """Learn from what a step showed or wrote, and forget what it may have changed."""
