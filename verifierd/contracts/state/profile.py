"""A session's own habits, which decide what of the contracts holds for it.

Outputs may be rewritten by a hook before the agent sees them, the harness may add lines of its own, and others may
write in the same tree. Each is recognised from what the session shows.
"""

from collections.abc import Sequence

from verifierd.contracts.calls import Call, Part
from verifierd.types import Step

__all__ = ("Profile",)


class Profile:
    """What is known of how this session's observations come about.

    Attributes:
        rewritten: True once an output was seen that a hook rewrote: the texts of commands are no longer judged.
    """

    def __init__(self) -> None:
        self.rewritten = False

    def observe(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """Learn from a step."""
