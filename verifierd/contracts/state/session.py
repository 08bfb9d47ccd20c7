"""Everything that contracts know of one run of a trajectory."""

from collections.abc import Sequence

import msgspec

from verifierd.contracts.calls import Call, Part
from verifierd.contracts.state.effects import Effect, beside
from verifierd.contracts.state.files import Files
from verifierd.contracts.state.paths import Paths
from verifierd.contracts.state.profile import Profile
from verifierd.contracts.state.repository import Repository
from verifierd.contracts.state.results import Results
from verifierd.contracts.tails import LONGEST
from verifierd.types import Action, ObservationKind, Step

__all__ = ("Session",)


class Session:
    """Grows by one step at a time; bounded, and only ever asked about the step that comes next.

    Attributes:
        profile: The session's own habits: rewritten outputs, harness tails, other writers.
        files: What files read, line by line.
        paths: Which paths surely exist, and which surely do not.
        repository: Branch, commits, what is staged.
        results: The shapes of JSON results by tool.
        total: How many steps it has seen.
        turn: The turn of the step that comes next.
        siblings: The other actions of its batch; None while they are not all known.
        earlier: What the same command line may have changed before the call that is asked about, or may change at its
            side.
    """

    def __init__(self) -> None:
        self.profile = Profile()
        self.files = Files()
        self.paths = Paths()
        self.repository = Repository()
        self.results = Results()
        self.total = 0
        self.turn: str | None = None
        self.siblings: tuple[Action, ...] | None = ()
        self.earlier = Effect.NOTHING
        self._observed: str | None = None

    def expect(self, step: Step) -> None:
        """Take in where the step that comes next stands; its observation is not looked at."""
        self.turn, self.siblings, self.earlier = step.turn, step.siblings, Effect.NOTHING

    def keeps(self, effect: Effect) -> bool:
        """Is this surely as the last step left it? Another turn, and what runs before or beside, may change it."""
        return self.turn == self._observed and not (self.earlier | beside(self.siblings)) & effect

    def observe(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """Take in what really happened.

        Args:
            step: What was asked, and what came back.
            parts: The parts of its command line; empty for a tool, and for one that cannot be read.
            calls: Everything that it called; empty if it cannot be told.
        """
        self.total += 1
        if len(step.observation) > LONGEST:
            step = msgspec.structs.replace(step, observation="", elided="longest")
        self._observed = step.turn
        self.profile.observe(step, parts, calls)
        self.files.observe(step, parts, calls)
        self.paths.observe(step, parts, calls)
        self.repository.observe(step, parts, calls)
        if step.observation_kind is ObservationKind.ENV:
            self.results.observe(step)
