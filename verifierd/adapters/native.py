"""The native trajectory format: one step a line, trajectories may interleave (the design's "Native trajectory JSONL").

A line is read strictly: one field of a wrong type and the line is quarantined as `bad_shape`.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from verifierd.adapters.base import LineAdapter, unload
from verifierd.adapters.parse import FAILURES, plain
from verifierd.stages import Counts
from verifierd.types import Action, ObservationKind, Origin, Step, VerdictKind

__all__ = ("Native",)

_SHELLS = frozenset({
    "bash", "dash", "execute_bash", "fish", "ksh", "powershell", "pwsh", "sh", "shell", "terminal", "zsh",
})  # fmt: skip
_TRAJECTORIES = 4096
_BATCH = 256
_SILENT = frozenset({ObservationKind.MISSING, ObservationKind.STILL_RUNNING, ObservationKind.INTERRUPTED})

_Index = Annotated[int, msgspec.Meta(ge=1, lt=1 << 53)]
_Status = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 32)]


class _Action(msgspec.Struct):
    tool: str
    input: str | dict[str, Any] = ""


class _Line(msgspec.Struct):
    trajectory: str
    action: str | _Action | None = None
    observation: str | None = None
    event: str | None = None
    step: _Index | None = None
    tool: str | None = None
    cwd: str | None = None
    exit_code: _Status | None = None
    domain: Literal["terminal", "swe", "mcp", "search", "web", "os", "android"] | None = None
    observation_kind: ObservationKind | None = None
    timestamp: str | None = None
    agent: str | None = None
    batch: str | int | None = None
    label: Literal["on_path", "off_path"] | None = None
    label_kind: str | None = None


class _State(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    counts: Counts
    steps: dict[str, int]
    held: dict[str, list[Step]]


class Native(LineAdapter[_Line]):
    """Reads one file of steps.

    The steps of a batch are held until a line of the same trajectory shows that the batch is complete.

    Args:
        path: The file.
    """

    format = "native"

    def __init__(self, *, path: str) -> None:
        super().__init__(_Line, path=path)
        self._steps: dict[str, int] = {}
        self._held: dict[str, list[Step]] = {}

    def settle(self) -> Iterable[Step]:
        """The steps of all batches that are held; more of a batch may yet come."""
        return self._release_all(known=False)

    def finish(self) -> Iterable[Step]:
        """The steps of all batches that are held, each with its siblings: a native line is a whole step."""
        return self._release_all(known=True)

    def dump(self) -> bytes:
        """Counts, the number of the last step of each trajectory, the batches that are held."""
        return msgspec.json.encode(_State(counts=self.counts, steps=self._steps, held=self._held))

    def load(self, state: bytes) -> None:
        """Take up a dumped state.

        Raises:
            StateError: It is not one of this version.
        """
        loaded = unload(state, _State)
        self.counts = loaded.counts
        self._steps = loaded.steps
        self._held = loaded.held

    def _accept(self, value: dict[str, Any]) -> _Line | None:
        try:
            return msgspec.convert(value, _Line)
        except FAILURES:
            self._quarantine("bad_shape")
            return None

    def _read(self, line: _Line, origin: Origin) -> Iterable[Step]:
        if line.event is not None:
            if line.event != "initial":
                self._unknown(f"event/{line.event}")
            return ()  # the first screen is what the first step's observation shows anyway
        step = self._step(line, origin)
        if step is None:
            self._quarantine("bad_shape")
            return ()
        self.counts.calls += 1
        self.counts.paired += step.observation_kind is not ObservationKind.MISSING
        held = self._held.get(step.trajectory)
        before: list[Step] = []
        if held is not None and (held[0].batch != step.batch or len(held) >= _BATCH):
            before = self._release(step.trajectory, known=held[0].batch != step.batch)
        if step.batch is None:
            return [*before, step]
        if step.trajectory not in self._held and len(self._held) >= _TRAJECTORIES:
            before.extend(self._release(next(iter(self._held)), known=False))
        self._held.setdefault(step.trajectory, []).append(step)
        return before

    def _release_all(self, *, known: bool) -> list[Step]:
        return [step for trajectory in list(self._held) for step in self._release(trajectory, known=known)]

    def _release(self, trajectory: str, *, known: bool = True) -> list[Step]:
        """Let the batch that a trajectory holds go, each step with the others as its siblings."""
        held = self._held.pop(trajectory)
        return [
            msgspec.structs.replace(
                step, siblings=tuple(other.action for other in held if other is not step) if known else None
            )
            for step in held
        ]

    def _step(self, line: _Line, origin: Origin) -> Step | None:
        """The step that a line is, None if something essential is missing."""
        kind = line.observation_kind or ObservationKind.ENV
        action = _action(line)
        if action is None or (line.observation is None and kind not in _SILENT) or not line.trajectory:
            return None
        trajectory = f"{line.trajectory}/{line.agent}" if line.agent else line.trajectory
        index = line.step if line.step is not None else self._steps.get(trajectory, 0) + 1
        self._steps.pop(trajectory, None)
        self._steps[trajectory] = index
        if len(self._steps) > _TRAJECTORIES:
            del self._steps[next(iter(self._steps))]
        return Step(
            format=self.format,
            trajectory=trajectory,
            index=index,
            action=action,
            observation=line.observation or "",
            observation_kind=kind,
            domain=line.domain or "terminal",
            exit_code=line.exit_code,
            cwd=line.cwd,
            batch=None if line.batch is None else str(line.batch),
            observed_at=line.timestamp,
            label=None if line.label is None else VerdictKind(line.label),
            label_kind=line.label_kind,
            origin=origin,
        )


def _action(line: _Line) -> Action | None:
    if isinstance(line.action, _Action):
        tool, given = line.action.tool, plain(line.action.input)
    elif line.action is not None:
        tool, given = line.tool or "bash", line.action
    else:
        return None
    command: Any = None
    if tool.lower() in _SHELLS:
        command = given.get("command", given.get("cmd")) if isinstance(given, dict) else given
    return Action(tool=tool, input=given, command=command if isinstance(command, str) else None)
