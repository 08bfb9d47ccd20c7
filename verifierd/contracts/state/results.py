"""The shapes of the JSON that each tool of a session returned."""

from verifierd.types import Step

__all__ = ("Results",)


class Results:
    """Shapes by tool."""

    def observe(self, step: Step) -> None:
        """Learn the shape of a result."""
