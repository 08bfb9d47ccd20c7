"""Codex rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<uuid>.jsonl`.

The `response_item` lines hold the calls and what the model was shown; the end items of commands add the exit status,
the end of long-running commands, and the commands that code mode ran. `README.md` says how they are joined.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from verifierd.adapters.base import LineAdapter, Recent, unload
from verifierd.adapters.calls import Call, Calls, Outcome
from verifierd.adapters.codex_output import (
    Output,
    command_line,
    directory,
    elision,
    file_session,
    local_path,
    output_kind,
    read_output,
    status,
)
from verifierd.adapters.parse import arguments, plain
from verifierd.stages import Counts
from verifierd.types import Action, ObservationKind, Origin, Step

__all__ = ("Codex",)

_OPEN = 4096
_RUNNING = 64
_NESTED = 64
_HELD = 262_144  # characters of a long-running command's output that are kept until it ends

_SHELLS = frozenset({"container.exec", "exec_command", "local_shell", "shell", "shell_command"})
_POLLS = frozenset({"wait", "wait_agent", "write_stdin"})
_TERMINAL = _SHELLS | {"write_stdin"}
_PROGRAMS = _TERMINAL | {"apply_patch"}
_SCRIPT = "exec"
_EVENTS = frozenset({
    "exec_command_end", "item_completed", "task_started", "turn_aborted", "user_message",
})  # fmt: skip
_IGNORED_LINES = frozenset({"compacted", "token_usage_record", "world_state"})
_IGNORED_ITEMS = frozenset({"compaction", "compaction_summary", "context_compaction", "ghost_snapshot", "reasoning"})


class _Item(msgspec.Struct):
    type: str | None = None
    id: Any = None
    command: Any = None
    cwd: Any = None
    exit_code: Any = None
    aggregated_output: Any = None


class _Payload(msgspec.Struct):
    type: str | None = None
    id: Any = None
    call_id: Any = None
    name: Any = None
    namespace: Any = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    output: Any = None
    role: Any = None
    cwd: Any = None
    turn_id: Any = None
    cli_version: Any = None
    command: Any = None
    exit_code: Any = None
    aggregated_output: Any = None
    started_at_ms: Any = None
    completed_at_ms: Any = None
    item: _Item | None = None


class _Line(msgspec.Struct):
    type: str | None = None
    timestamp: str | None = None
    payload: _Payload | None = None


class _End(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The end item of a command."""

    offset: int
    text: str | None = None
    exit_code: int | None = None
    elided: str | None = None
    at: str | None = None


class _Running(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A command that outlived its first output."""

    session: str
    text: str = ""
    elided: str | None = None
    exited: bool = False
    exit_code: int | None = None
    at: str | None = None
    end: _End | None = None

    def add(self, output: Output) -> None:
        """Take up one more part of the output."""
        self.text += output.text
        self.elided = self.elided or output.elided
        if len(self.text) > _HELD:
            self.text, self.elided = self.text[:_HELD], "too long to hold"


class _Nested(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A command that a script of code mode ran, held until the script is over."""

    step: Step
    started: int | None = None
    completed: int | None = None


class _State(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    counts: Counts
    seen: bytes
    session: str | None
    cwd: str | None
    turn: int
    turn_id: str | None
    index: int
    ends_logged: bool
    calls: Calls
    ends: dict[str, _End]
    answered: list[str]
    running: dict[str, _Running]
    nested: list[_Nested]


class Codex(LineAdapter[_Line]):
    """Reads one rollout.

    Args:
        path: The file; its name gives the session if no line does.
    """

    format = "codex"

    def __init__(self, *, path: str) -> None:
        super().__init__(_Line, path=path)
        self._seen = Recent()
        self._session: str | None = None
        self._cwd: str | None = None
        self._turn = 0
        self._turn_id: str | None = None
        self._index = 0
        self._ends_logged = False
        self._calls = Calls()
        self._ends: dict[str, _End] = {}
        self._answered: list[str] = []
        self._running: dict[str, _Running] = {}
        self._nested: list[_Nested] = []

    def settle(self) -> Iterable[Step]:
        """Commands whose end is known become steps, though the model has not been shown their output yet."""
        self._answered = [*self._answered, *self._ends][-_OPEN:]
        return self._release()

    def finish(self) -> Iterable[Step]:
        """What is still open becomes a step by what is known of it."""
        steps = self._release()
        steps.extend(self._abandon(call_id) for call_id in list(self._calls.open))
        self._answered = []
        return steps

    def dump(self) -> bytes:
        """Everything that a later line may refer to."""
        return msgspec.json.encode(
            _State(
                counts=self.counts,
                seen=self._seen.dump(),
                session=self._session,
                cwd=self._cwd,
                turn=self._turn,
                turn_id=self._turn_id,
                index=self._index,
                ends_logged=self._ends_logged,
                calls=self._calls,
                ends=self._ends,
                answered=self._answered,
                running=self._running,
                nested=self._nested,
            )
        )

    def load(self, state: bytes) -> None:
        """Take up a dumped state.

        Raises:
            StateError: It is not one of this version.
        """
        loaded = unload(state, _State)
        self.counts = loaded.counts
        self._seen.load(loaded.seen)
        self._session = loaded.session
        self._cwd = loaded.cwd
        self._turn = loaded.turn
        self._turn_id = loaded.turn_id
        self._index = loaded.index
        self._ends_logged = loaded.ends_logged
        self._calls = loaded.calls
        self._ends = loaded.ends
        self._answered = loaded.answered
        self._running = loaded.running
        self._nested = loaded.nested

    def _read(self, line: _Line, origin: Origin) -> Iterable[Step]:
        kind, payload = line.type, line.payload
        if kind in _IGNORED_LINES:
            return ()
        if payload is None:
            self._unknown(kind)
        elif kind == "response_item":
            return self._read_item(payload, line.timestamp, origin)
        elif kind == "event_msg":
            if payload.type in _EVENTS:
                return self._read_event(payload, line.timestamp, origin)
        elif kind == "turn_context":
            self._cwd = payload.cwd if isinstance(payload.cwd, str) else self._cwd
            return self._begin_turn(payload.turn_id)
        elif kind == "session_meta":
            self._read_session(payload)
        else:
            self._unknown(kind)
        return ()

    def _read_session(self, payload: _Payload) -> None:
        if self._session is not None:
            return  # a fork repeats the session that it came from
        if isinstance(payload.id, str):
            self._session = payload.id
        if isinstance(payload.cwd, str):
            self._cwd = payload.cwd
        if isinstance(payload.cli_version, str):
            self.counts.version = payload.cli_version

    def _read_item(self, payload: _Payload, at: str | None, origin: Origin) -> Iterable[Step]:
        kind = payload.type or ""
        if kind.endswith("_call"):
            return self._open(kind, payload, at, origin)
        if kind.endswith("_output"):
            return self._read_output(payload, at, origin)
        if kind == "message":
            self._turn += payload.role == "user"
        elif kind not in _IGNORED_ITEMS:
            self._unknown(f"response_item/{kind}")
        return ()

    def _read_event(self, payload: _Payload, at: str | None, origin: Origin) -> Iterable[Step]:
        kind, item = payload.type, payload.item
        if kind == "exec_command_end":
            item = _Item(
                id=payload.call_id,
                command=payload.command,
                cwd=payload.cwd,
                exit_code=payload.exit_code,
                aggregated_output=payload.aggregated_output,
            )
            return self._read_end(item, payload, at, origin)
        if kind == "item_completed":
            if item is not None and item.type == "CommandExecution":
                return self._read_end(item, payload, at, origin)
            self._turn += item is not None and item.type == "UserMessage"
        elif kind == "task_started":
            return self._begin_turn(payload.turn_id)
        elif kind == "user_message":
            self._turn += 1
        else:  # turn_aborted
            for call_id, call in self._calls.open.items():
                call.interrupted = call.interrupted or call_id not in self._running
        return ()

    def _begin_turn(self, turn_id: object) -> Iterable[Step]:
        """A new turn: what the last one left unanswered stays so. Only commands that run on are kept."""
        if not isinstance(turn_id, str) or turn_id == self._turn_id:
            return ()
        self._turn_id = turn_id
        self._turn += 1
        steps = self._release()
        steps.extend(self._abandon(call_id) for call_id in list(self._calls.open) if call_id not in self._running)
        return steps

    def _open(self, kind: str, payload: _Payload, at: str | None, origin: Origin) -> Iterable[Step]:
        call_id, calls = payload.call_id, self._calls
        answerable = isinstance(call_id, str) and bool(call_id)
        if not answerable:
            # Searches and the like run at the model's side: the log never holds what came back.
            call_id = payload.id if isinstance(payload.id, str) and payload.id else f"unnamed-{self._index + 1}"
        if call_id in calls.open or call_id in self._seen:
            self.counts.duplicates += 1
            return ()
        self.counts.calls += 1
        self._index += 1
        action = _action(kind, payload)
        call = Call(
            trajectory=self._trajectory,
            index=self._index,
            offset=origin.offset,
            cwd=self._directory(action),
            turn=str(self._turn),
            called_at=at,
        )
        if not answerable:
            calls.add(call_id, call, action)
            return (self._abandon(call_id),)
        if not calls.open:
            calls.add(call_id, call, action)
            return ()
        # Codex asks the model again only when all calls are answered: what is open now was issued together.
        beside = [peer for peer in calls.open if peer not in self._running]
        if beside:
            first = calls.open[beside[0]]
            call.batch = first.batch = first.batch or beside[0]
        calls.add(call_id, call, action, beside=beside, during=() if action.tool in _POLLS else tuple(self._running))
        return (self._abandon(next(iter(calls.open))),) if len(calls.open) > _OPEN else ()

    def _read_output(self, payload: _Payload, at: str | None, origin: Origin) -> Iterable[Step]:
        call_id = payload.call_id
        if not isinstance(call_id, str):
            self._quarantine("bad_shape")
        elif call_id in self._calls.open and call_id not in self._running:
            self._seen.add(call_id)
            self.counts.paired += 1
            return self._answer(call_id, read_output(payload.output), at, origin)
        elif call_id in self._answered:
            self._answered.remove(call_id)
            self.counts.paired += 1
        elif call_id in self._seen:
            self.counts.duplicates += 1
        else:
            self._unknown("orphan_output")
        return ()

    def _answer(self, call_id: str, output: Output, at: str | None, origin: Origin) -> list[Step]:
        action = self._calls.actions[call_id]
        tool = action.tool
        steps: list[Step] = []
        kind = output_kind(tool, output, runs_programs=tool in _PROGRAMS)
        end = self._ends.pop(call_id, None)
        if tool == _SCRIPT:
            steps.extend(self._release_nested(known=True))
        if tool in _POLLS:
            self._poll(action, output, at, origin, steps)
            kind = ObservationKind.POLL if kind is not ObservationKind.HARNESS_ERROR else kind
        elif output.session is not None:
            running = self._running[call_id] = _Running(session=output.session, at=at, end=end)
            running.add(output)
            self._complete(call_id, origin, steps)
            if len(self._running) > _RUNNING:
                steps.append(self._abandon(next(iter(self._running))))
            return steps
        text, elided, exit_code = output.text, output.elided, output.exit_code
        if end is not None and kind is ObservationKind.ENV:
            exit_code = end.exit_code if exit_code is None else exit_code
            if elided is not None and end.text is not None and end.elided is None:
                text, elided = end.text, None
        outcome = Outcome(text=text, kind=kind, exit_code=exit_code, elided=elided, observed_at=at)
        steps.append(self._step(call_id, outcome, origin))
        return steps

    def _poll(self, action: Action, output: Output, at: str | None, origin: Origin, steps: list[Step]) -> None:
        """A later part of a long-running command's output."""
        session = str(_field(action, "session_id"))
        call_id = next((name for name, running in self._running.items() if running.session == session), None)
        if call_id is not None and output.headed:
            if _field(action, "chars"):
                self._calls.open[call_id].crowded = True  # what was typed decides what comes back
            running = self._running[call_id]
            running.at = at
            running.add(output)
            if output.exit_code is not None:
                running.exited, running.exit_code = True, output.exit_code
                self._complete(call_id, origin, steps)

    def _read_end(self, item: _Item, payload: _Payload, at: str | None, origin: Origin) -> Iterable[Step]:
        call_id = item.id
        if not isinstance(call_id, str):
            self._quarantine("bad_shape")
            return ()
        self._ends_logged = True
        steps: list[Step] = []
        if call_id in self._running:
            self._running[call_id].end = _end(item, at, origin)
            self._complete(call_id, origin, steps)
        elif call_id in self._calls.open:
            self._ends[call_id] = _end(item, at, origin)
        elif call_id.startswith("exec-") and self._seen.add(call_id):
            self._nest(call_id, item, payload, _end(item, at, origin), steps)
        return steps

    def _complete(self, call_id: str, origin: Origin, steps: list[Step]) -> None:
        """End a long-running command once a whole copy of its output is there, or none can be hoped for."""
        running = self._running[call_id]
        whole = (running.exited and running.elided is None) or (running.end is not None and running.end.elided is None)
        if whole or (running.exited and (running.end is not None or not self._ends_logged)):
            steps.append(self._end_running(call_id, origin))

    def _end_running(self, call_id: str, origin: Origin) -> Step:
        running = self._running.pop(call_id)
        text, elided, exit_code, at = running.text, running.elided, running.exit_code, running.at
        end = running.end
        if end is not None:
            exit_code = end.exit_code if end.exit_code is not None else exit_code
            at = at if running.exited else end.at
            if end.text is not None and (not running.exited or (elided is not None and end.elided is None)):
                text, elided = end.text, end.elided
        return self._step(call_id, Outcome(text=text, exit_code=exit_code, elided=elided, observed_at=at), origin)

    def _nest(self, call_id: str, item: _Item, payload: _Payload, end: _End, steps: list[Step]) -> None:
        """A command of code mode. Only its place in the file ties it to the script that ran it."""
        outer = next((name for name in reversed(self._calls.open) if self._calls.actions[name].tool == _SCRIPT), None)
        command = command_line(item.command)
        self._index += 1
        step = Step(
            format=self.format,
            trajectory=self._trajectory,
            index=self._index,
            action=Action(tool="exec_command", input="" if command is None else {"cmd": command}, command=command),
            observation=end.text or "",
            exit_code=end.exit_code,
            cwd=local_path(item.cwd) or self._cwd,
            turn=str(self._turn),
            batch=outer,
            call_id=call_id,
            unique=True,
            observed_at=end.at,
            elided=end.elided,
            origin=Origin(path=self.path, offset=end.offset),
        )
        if outer is None:
            steps.append(step)
            return
        if len(self._nested) >= _NESTED:
            steps.extend(self._release_nested(known=False))
        self._nested.append(
            _Nested(step=step, started=status(payload.started_at_ms), completed=status(payload.completed_at_ms))
        )

    def _release(self) -> list[Step]:
        """The steps of all commands whose end the log has stated."""
        steps = self._release_nested(known=False)
        steps.extend(self._abandon(call_id) for call_id in list(self._ends))
        for call_id, running in list(self._running.items()):
            if running.exited or running.end is not None:
                steps.append(self._end_running(call_id, self._origin_of(call_id)))
        return steps

    def _release_nested(self, *, known: bool) -> list[Step]:
        """The commands of a script; those whose times overlap, or are not told, ran beside each other."""
        held, self._nested = self._nested, []
        steps: list[Step] = []
        for one in held:
            siblings = tuple(other.step.action for other in held if other is not one and _overlap(one, other))
            steps.append(msgspec.structs.replace(one.step, siblings=siblings if known else None))
        return steps

    def _abandon(self, call_id: str) -> Step:
        """Wait no longer for the output of a call: it becomes a step by what is known of it."""
        self._seen.add(call_id)
        origin = self._origin_of(call_id)
        running, end = self._running.pop(call_id, None), self._ends.pop(call_id, None)
        if running is not None:
            outcome = Outcome(
                text=running.text, kind=ObservationKind.STILL_RUNNING, elided=running.elided, observed_at=running.at
            )
        elif end is not None:
            # The harness did not live to show it to the model, but the environment has answered.
            origin = Origin(path=self.path, offset=end.offset)
            outcome = Outcome(text=end.text or "", exit_code=end.exit_code, elided=end.elided, observed_at=end.at)
        else:
            stopped = self._calls.open[call_id].interrupted
            outcome = Outcome(kind=ObservationKind.INTERRUPTED if stopped else ObservationKind.MISSING)
        return self._step(call_id, outcome, origin)

    def _step(self, call_id: str, outcome: Outcome, origin: Origin) -> Step:
        tool = self._calls.actions[call_id].tool
        domain = "mcp" if tool.startswith("mcp__") else "terminal" if tool in _TERMINAL else "swe"
        domain = "search" if tool == "web_search" else domain
        return self._calls.step(call_id, outcome, format=self.format, domain=domain, origin=origin)

    def _origin_of(self, call_id: str) -> Origin:
        return Origin(path=self.path, offset=self._calls.open[call_id].offset)

    def _directory(self, action: Action) -> str | None:
        if action.tool not in _SHELLS:
            return self._cwd
        return directory(_field(action, "workdir") or _field(action, "working_directory"), self._cwd)

    @property
    def _trajectory(self) -> str:
        if self._session is None:
            self._session = file_session(self.path)
        return self._session


def _action(kind: str, payload: _Payload) -> Action:
    name = payload.name if isinstance(payload.name, str) and payload.name else kind.removesuffix("_call")
    tool = f"{payload.namespace}{name}" if isinstance(payload.namespace, str) else name
    given = payload.arguments if payload.arguments is not None else payload.input
    if isinstance(given, str):
        given = (arguments(given) if kind == "function_call" else None) or given
    else:
        given = plain(payload.action if given is None else given)
    command = None
    if tool in _SHELLS and isinstance(given, dict):
        command = command_line(given.get("cmd", given.get("command")))
    return Action(tool=tool, input=given, command=command)


def _end(item: _Item, at: str | None, origin: Origin) -> _End:
    text = item.aggregated_output if isinstance(item.aggregated_output, str) else None
    return _End(
        offset=origin.offset,
        text=text if text is None else text[:_HELD],
        exit_code=status(item.exit_code),
        elided="absent" if text is None else elision(text, item=True),
        at=at,
    )


def _field(action: Action, name: str) -> Any:
    """A field of the input of an action, None if it has none."""
    return action.input.get(name) if isinstance(action.input, dict) else None


def _overlap(one: _Nested, other: _Nested) -> bool:
    """False only if the log says that one was over before the other began."""
    if one.started is None or one.completed is None or other.started is None or other.completed is None:
        return True
    return one.completed >= other.started and other.completed >= one.started
