"""Claude Code transcripts: `~/.claude/projects/<slug>/<session>.jsonl` and the files of its sub-agents.

One line is one block of the conversation. A call and its result meet by the call's id, whatever stands between them
and whichever comes first. `README.md` says which fields are read and how kinds are decided.
"""

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, Literal

import msgspec

from verifierd.adapters.base import LineAdapter, Recent, join_blocks, unload
from verifierd.adapters.calls import Call, Calls, Outcome
from verifierd.adapters.parse import FAILURES, plain
from verifierd.stages import Counts
from verifierd.types import Action, ObservationKind, Origin, Step

__all__ = ("ClaudeCode",)

_OPEN = 4096
_THREADS = 4096
_ORPHANS = 32
_ORPHAN_CHARACTERS = 262_144

_IGNORED = frozenset({
    "agent-name", "agent-setting", "ai-title", "attachment", "custom-title", "file-history-snapshot", "last-prompt",
    "mode", "permission-mode", "pr-link", "progress", "queue-operation", "summary", "system", "tag",
})  # fmt: skip

_SHELLS = frozenset({"Bash", "PowerShell"})
_POLLS = frozenset({"AgentOutputTool", "BashOutput", "KillBash", "KillShell", "TaskOutput", "TaskStop"})
_DOMAINS = {"WebSearch": "search", "WebFetch": "web"} | dict.fromkeys(_SHELLS, "terminal")
_DOMAINS |= dict.fromkeys(("BashOutput", "KillBash", "KillShell"), "terminal")

_DENIED = re.compile(
    r"The user doesn't want to (?:proceed|take this action)|Claude requested permissions? to |"
    r"Permission (?:to use|for this action)|User rejected|This command requires approval|"
    r"This \w+ command (?:contains|requires) .{0,200}approval|"
    r".{0,300} was blocked\. For security, Claude Code|"
    r".{0,120} temporarily unavailable, so auto mode cannot determine|"
    r"PreToolUse:\S* (?:hook error|hook blocking)|Operation stopped by hook",
    re.DOTALL,
)
_REFUSED_ARGUMENTS = ("<tool_use_error>", "InputValidationError", "MCP error -32602", "Error: No such tool available")
_TAIL = 64  # longer than any filler or mark
_PATH = 4096
_OUTSIDE = frozenset({"WebFetch", "WebSearch"})
_LISTS = frozenset({"Glob", "Grep", "LS"})
_STOPPED = "[Request interrupted by user"
_LAUNCHED = ("Command running in background with ID", "Command was manually backgrounded", "Async agent launched")
_STATUS = re.compile(r"Exit code (\d{1,10})(?:\n|\Z)")
_SILENCE = re.compile(r"\(\w+ completed with no output\)|\(no (?:content|output)\)|Tool ran without output")
_RERUN = re.compile(r"\[rerun: b\d+\]\s*")
_CWD_RESET = "Shell cwd was reset to "
_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"
_CUT = re.compile(r"\.\.\. \[\d+ (?:characters|lines) truncated\] \.\.\.")
_LIST_CUT = "(Results are truncated. Consider using a more specific path or pattern.)"


class _Block(msgspec.Struct, gc=False):
    type: Any = None
    id: Any = None
    name: Any = None
    input: Any = None
    text: Any = None
    tool_use_id: Any = None
    content: Any = None
    is_error: Any = None


class _Message(msgspec.Struct):
    id: Any = None
    content: list[_Block] | str | None = None


class _Line(msgspec.Struct, rename="camel"):
    type: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    timestamp: str | None = None
    cwd: str | None = None
    version: str | None = None
    message: _Message | None = None
    tool_use_result: msgspec.Raw = msgspec.Raw()


class _Detail(msgspec.Struct, rename="camel"):
    """What matters of `toolUseResult`."""

    interrupted: Any = None
    background_task_id: Any = None
    return_code_interpretation: Any = None


class _Result(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A result as the log has it; kept only if it came before its call."""

    text: str
    is_error: bool | None = None
    detailed: bool = False
    interrupted: bool = False
    background: bool = False
    interpreted: bool = False
    at: str | None = None


class _Thread(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One trajectory of the file: how many calls and turns it has had, and the calls of its latest message."""

    calls: int = 0
    turn: int = 0
    message: str | None = None
    members: list[str] = msgspec.field(default_factory=list)


class _State(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    counts: Counts
    seen: bytes
    threads: dict[str, _Thread]
    calls: Calls
    orphans: dict[str, _Result]


class ClaudeCode(LineAdapter[_Line]):
    """Reads one transcript.

    Args:
        path: The file; its stem names the trajectory of lines that name none.
    """

    format = "claude_code"

    def __init__(self, *, path: str) -> None:
        super().__init__(_Line, path=path)
        self._stem = PurePath(path).name.split(".", 1)[0] or "session"
        self._seen = Recent()
        self._threads: dict[str, _Thread] = {}
        self._calls = Calls()
        self._orphans: dict[str, _Result] = {}

    def settle(self) -> Iterable[Step]:
        """Nothing is held for siblings: a call's neighbours are known when its result comes."""
        return ()

    def finish(self) -> Iterable[Step]:
        """Open calls become `interrupted` if a person stopped the agent, else `missing`."""
        self._orphans.clear()
        return [self._abandon(call_id) for call_id in list(self._calls.open)]

    def dump(self) -> bytes:
        """Counts, ids seen, open calls, early results."""
        return msgspec.json.encode(
            _State(
                counts=self.counts,
                seen=self._seen.dump(),
                threads=self._threads,
                calls=self._calls,
                orphans=self._orphans,
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
        self._threads = loaded.threads
        self._calls = loaded.calls
        self._orphans = loaded.orphans

    def _read(self, line: _Line, origin: Origin) -> Iterable[Step]:
        if line.version is not None:
            self.counts.version = line.version
        kind = line.type
        if kind == "assistant":
            message = line.message
            if message is not None and isinstance(message.content, list):
                return self._read_calls(line, message.id, message.content, origin)
        elif kind == "user":
            return self._read_user(line, origin)
        elif kind not in _IGNORED:
            self._unknown(kind)
        return ()

    def _read_calls(self, line: _Line, message: object, blocks: list[_Block], origin: Origin) -> Iterable[Step]:
        steps: list[Step] = []
        repeated = False
        for block in blocks:
            if block.type != "tool_use":
                continue
            call_id = block.id
            if not isinstance(call_id, str) or not call_id:
                self._quarantine("bad_shape")
            elif call_id in self._calls.open or call_id in self._seen:
                repeated = True
            else:
                self._open(line, message, call_id, block, origin)
                early = self._orphans.pop(call_id, None)
                if early is not None:
                    steps.append(self._close(call_id, early, origin))
                elif len(self._calls.open) > _OPEN:
                    steps.append(self._abandon(next(iter(self._calls.open))))
        self.counts.duplicates += repeated
        return steps

    def _open(self, line: _Line, message: object, call_id: str, block: _Block, origin: Origin) -> None:
        self.counts.calls += 1
        name = self._trajectory(line)
        thread = self._thread(name)
        thread.calls += 1
        call = Call(
            trajectory=name,
            index=thread.calls,
            offset=origin.offset,
            cwd=line.cwd,
            turn=str(thread.turn),
            called_at=line.timestamp,
        )
        beside: list[str] = []
        if isinstance(message, str) and message == thread.message:
            # Calls of the same message that were answered before this one was written did not run beside it.
            beside = [member for member in thread.members if member in self._calls.open]
            call.batch = message
            for member in beside:
                self._calls.open[member].batch = message
        thread.message = message if isinstance(message, str) else None
        thread.members = [*beside, call_id]
        self._calls.add(call_id, call, _action(block), beside=beside)

    def _read_user(self, line: _Line, origin: Origin) -> Iterable[Step]:
        content = line.message.content if line.message is not None else None
        steps: list[Step] = []
        spoken: list[str] = []
        if isinstance(content, str):
            spoken.append(content)
        elif content is not None:
            alone = len(content) == 1
            repeated = False
            for block in content:
                if block.type == "tool_result":
                    raw = line.tool_use_result if alone or _only_result(content) else None
                    repeated |= self._read_result(block, raw, line.timestamp, origin, steps)
                elif block.type == "text" and isinstance(block.text, str):
                    spoken.append(block.text)
                elif block.type == "image":
                    spoken.append("")
            self.counts.duplicates += repeated
        if spoken and not line.is_meta and not line.is_compact_summary:
            self._read_words(line, spoken, steps)
        return steps

    def _read_result(
        self, block: _Block, raw: msgspec.Raw | None, at: str | None, origin: Origin, steps: list[Step]
    ) -> bool:
        """Read one result; True if it repeats one."""
        call_id = block.tool_use_id
        if not isinstance(call_id, str) or not call_id:
            self._quarantine("bad_shape")
        elif call_id in self._calls.open:
            shell = self._calls.actions[call_id].tool in _SHELLS
            steps.append(self._close(call_id, _result(block, raw if shell else None, at), origin))
        elif call_id in self._seen:
            return True
        else:
            self._hold(call_id, _result(block, raw, at))
        return False

    def _read_words(self, line: _Line, spoken: list[str], steps: list[Step]) -> None:
        """A person spoke: a new turn begins, and calls that were stopped before will get no result any more."""
        if line.uuid is not None and not self._seen.add(line.uuid):
            self.counts.duplicates += 1
            return
        name = self._trajectory(line)
        self._thread(name).turn += 1
        stopped = any(text.startswith(_STOPPED) for text in spoken)
        for call_id, call in list(self._calls.open.items()):
            if call.trajectory == name:
                if call.interrupted and not stopped:
                    steps.append(self._abandon(call_id))
                call.interrupted = call.interrupted or stopped

    def _close(self, call_id: str, result: _Result, origin: Origin) -> Step:
        self._seen.add(call_id)
        self.counts.paired += 1
        return self._step(call_id, _outcome(self._calls.actions[call_id], result), origin)

    def _abandon(self, call_id: str) -> Step:
        self._seen.add(call_id)
        call = self._calls.open[call_id]
        kind = ObservationKind.INTERRUPTED if call.interrupted else ObservationKind.MISSING
        return self._step(call_id, Outcome(kind=kind), Origin(path=self.path, offset=call.offset))

    def _step(self, call_id: str, outcome: Outcome, origin: Origin) -> Step:
        tool = self._calls.actions[call_id].tool
        domain = "mcp" if tool.startswith("mcp__") else _DOMAINS.get(tool, "swe")
        return self._calls.step(call_id, outcome, format=self.format, domain=domain, origin=origin)

    def _hold(self, call_id: str, result: _Result) -> None:
        """Keep a result that came before its call, a few of them."""
        self._orphans[call_id] = result
        size = sum(len(orphan.text) for orphan in self._orphans.values())
        while self._orphans and (len(self._orphans) > _ORPHANS or size > _ORPHAN_CHARACTERS):
            size -= len(self._orphans.pop(next(iter(self._orphans))).text)

    def _trajectory(self, line: _Line) -> str:
        session = line.session_id or self._stem
        if line.agent_id:
            return f"{session}/{line.agent_id}"
        if line.is_sidechain:
            # Before 2.0 sub-agents wrote into the main file and had no id.
            return f"{session}/{self._stem.removeprefix('agent-') if self._stem.startswith('agent-') else 'sidechain'}"
        return session

    def _thread(self, name: str) -> _Thread:
        thread = self._threads.get(name)
        if thread is None:
            if len(self._threads) >= _THREADS:
                del self._threads[next(iter(self._threads))]
            thread = self._threads[name] = _Thread()
        return thread


def _action(block: _Block) -> Action:
    tool = block.name if isinstance(block.name, str) and block.name else "unnamed"
    given = plain(block.input)
    command = given.get("command") if tool in _SHELLS and isinstance(given, dict) else None
    return Action(tool=tool, input=given, command=command if isinstance(command, str) else None)


def _only_result(content: list[_Block]) -> bool:
    """True if a line's `toolUseResult` can belong to one result only."""
    return [block.type for block in content].count("tool_result") == 1


def _result(block: _Block, raw: msgspec.Raw | None, at: str | None) -> _Result:
    content = block.content
    result = _Result(
        text=content if isinstance(content, str) else join_blocks(content) if isinstance(content, list) else "",
        is_error=block.is_error if isinstance(block.is_error, bool) else None,
        at=at,
    )
    if raw is not None and bytes(memoryview(raw)[:1]) == b"{":
        try:
            detail = _DETAIL.decode(raw)
        except FAILURES:
            return result
        result.detailed = True
        result.interrupted = detail.interrupted is True
        result.background = detail.background_task_id is not None
        result.interpreted = detail.return_code_interpretation is not None
    return result


def _outcome(action: Action, result: _Result) -> Outcome:
    kind = _kind(action, result)
    text = result.text
    exit_code: int | None = None
    elided: str | None = None
    if kind is ObservationKind.STUB:
        elided = "persisted-output"
    elif kind in {ObservationKind.ENV, ObservationKind.INTERRUPTED, ObservationKind.POLL}:
        if action.tool in _SHELLS:
            status = _STATUS.match(text) if result.is_error else None
            if status is not None:
                exit_code = int(status[1])
                text = text[status.end() :]
            elif result.detailed and not result.is_error and not result.interpreted and not result.interrupted:
                exit_code = 0
        text = _without_tails(action.tool, text)
        elided = _elision(action.tool, text)
        if kind is ObservationKind.ENV and exit_code and text.startswith("Command timed out after"):
            kind = ObservationKind.INTERRUPTED
    return Outcome(
        text=text, kind=kind, exit_code=exit_code, is_error=result.is_error, elided=elided, observed_at=result.at
    )


def _kind(action: Action, result: _Result) -> ObservationKind:  # noqa: PLR0911 - a decision list
    text = result.text
    if text.startswith(_STOPPED):
        return ObservationKind.INTERRUPTED
    if result.is_error is not False:
        if text.startswith(_REFUSED_ARGUMENTS):
            return ObservationKind.HARNESS_ERROR
        if result.is_error and _DENIED.match(text):
            return ObservationKind.POLICY_DENIED
    if text.startswith("<persisted-output>\nOutput too large"):
        return ObservationKind.STUB
    if action.tool in _POLLS:
        return ObservationKind.POLL
    if result.interrupted:
        return ObservationKind.INTERRUPTED
    wanted = isinstance(action.input, dict) and action.input.get("run_in_background") is True
    if not result.is_error and (result.background or wanted or _is_launch(action.tool, text)):
        return ObservationKind.STILL_RUNNING
    return ObservationKind.ENV


def _is_launch(tool: str, text: str) -> bool:
    return text.startswith(_LAUNCHED) and (tool in _SHELLS or tool in {"Agent", "Task"})


def _without_tails(tool: str, text: str) -> str:
    """The observation without what the harness put behind it."""
    if tool in _SHELLS:
        while (shorter := _without_shell_tail(text)) is not None:
            text = shorter
    elif text[-_TAIL:].rstrip().endswith(_REMINDER_END) and tool not in _OUTSIDE and not tool.startswith("mcp__"):
        # Text from outside that ends like this would be an injection, not the harness: it stays where that can be.
        while (bare := text.rstrip()).endswith(_REMINDER_END):
            at = bare.rfind(_REMINDER)
            if at <= 0 or bare[at - 1] != "\n":
                break
            text = bare[:at].rstrip("\n")
    return "" if len(text) < _TAIL and _SILENCE.fullmatch(text.strip()) else text


def _without_shell_tail(text: str) -> str | None:
    """The text without the last of its tails; None if it has none."""
    at = text.rfind("[rerun: b", max(0, len(text) - _TAIL))
    if at >= 0 and _RERUN.fullmatch(text, at):
        return text[:at].rstrip()
    at = text.rfind(_CWD_RESET, max(0, len(text) - _PATH))
    if at >= 0 and "\n" not in text[at:].rstrip("\n") and (at == 0 or text[at - 1] == "\n"):
        return text[:at].rstrip("\n")
    return None


def _elision(tool: str, text: str) -> str | None:
    if "truncated] ..." in text and _CUT.search(text):
        return "truncated"
    if tool in _LISTS and text[-100:].rstrip().endswith(_LIST_CUT):
        return "results truncated"
    return None


_DETAIL = msgspec.json.Decoder(_Detail)
