"""The calls whose observations are still to come, and who ran beside whom."""

from collections.abc import Iterable

import msgspec

from verifierd.types import Action, ObservationKind, Origin, Step

__all__ = ("Call", "Calls", "Outcome")

_CROWD = 64  # with more neighbours than this nobody can say what happened; listing them all would be quadratic


class Call(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An open call.

    Attributes:
        trajectory, index, cwd, turn, called_at: As in `Step`.
        offset: Where the line of the call starts.
        batch: Name of the batch that it was issued in, if others were issued with it.
        peers: Ids of the calls that were open at the same time in the same batch.
        crowded: True if more ran beside it than `peers` tells.
        interrupted: True if a person stopped the agent while it was open.
    """

    trajectory: str
    index: int
    offset: int = 0
    cwd: str | None = None
    turn: str | None = None
    called_at: str | None = None
    batch: str | None = None
    peers: list[str] = msgspec.field(default_factory=list)
    crowded: bool = False
    interrupted: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came back from a call: fields of `Step` that only the result knows."""

    text: str = ""
    kind: ObservationKind = ObservationKind.ENV
    exit_code: int | None = None
    is_error: bool | None = None
    elided: str | None = None
    observed_at: str | None = None


class Calls(msgspec.Struct, kw_only=True):
    """The table of open calls; it is part of an adapter's state.

    Attributes:
        open: The open calls by id, oldest first.
        actions: What the open calls, and those that open calls name as peers, asked for.
        uses: How many open calls name a call as a peer.
    """

    open: dict[str, Call] = msgspec.field(default_factory=dict)
    actions: dict[str, Action] = msgspec.field(default_factory=dict)
    uses: dict[str, int] = msgspec.field(default_factory=dict)

    def add(
        self, call_id: str, call: Call, action: Action, *, beside: Iterable[str] = (), during: Iterable[str] = ()
    ) -> None:
        """Open a call.

        Args:
            call_id: Its id; no open call has it.
            call: The call.
            action: What it asks for.
            beside: Open calls that it was issued together with.
            during: Open calls of long life that were running already. It names them as peers; how much runs beside
                them in the course of time is not kept.
        """
        self.open[call_id] = call
        self.actions[call_id] = action
        for peer_id in during:
            self.open[peer_id].crowded = True
            if len(call.peers) < _CROWD:
                call.peers.append(peer_id)
                self.uses[peer_id] = self.uses.get(peer_id, 0) + 1
        for peer_id in beside:
            peer = self.open[peer_id]
            if len(call.peers) >= _CROWD or len(peer.peers) >= _CROWD:
                call.crowded = peer.crowded = True
                continue
            call.peers.append(peer_id)
            peer.peers.append(call_id)
            self.uses[peer_id] = self.uses.get(peer_id, 0) + 1
            self.uses[call_id] = self.uses.get(call_id, 0) + 1

    def close(self, call_id: str) -> tuple[Call, Action, tuple[Action, ...] | None]:
        """Take a call out.

        Returns:
            The call, its action, and the actions that ran beside it: None if they are not all known.
        """
        call = self.open.pop(call_id)
        action = self.actions[call_id]
        siblings = None if call.crowded else tuple(self.actions[peer] for peer in call.peers)
        for peer in call.peers:
            self.uses[peer] -= 1
            if not self.uses[peer]:
                del self.uses[peer]
                if peer not in self.open:
                    del self.actions[peer]
        if call_id not in self.uses:
            del self.actions[call_id]
        return call, action, siblings

    def step(self, call_id: str, outcome: Outcome, *, format: str, domain: str, origin: Origin) -> Step:
        """Close a call with what came back from it."""
        call, action, siblings = self.close(call_id)
        return Step(
            format=format,
            trajectory=call.trajectory,
            index=call.index,
            action=action,
            observation=outcome.text,
            observation_kind=outcome.kind,
            domain=domain,
            exit_code=outcome.exit_code,
            is_error=outcome.is_error,
            cwd=call.cwd,
            turn=call.turn,
            batch=call.batch,
            siblings=siblings,
            call_id=call_id,
            unique=_is_unique(call_id),
            called_at=call.called_at,
            observed_at=outcome.observed_at,
            elided=outcome.elided,
            origin=origin,
        )


def _is_unique(call_id: str) -> bool:
    """True for ids that a model server or Codex drew at random; hand-made ones such as `toolu_01` are short."""
    return len(call_id) >= 20 and call_id.startswith(("toolu_", "call_", "exec-"))
