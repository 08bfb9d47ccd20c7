"""Records sessions as Claude Code 2.1 writes them: one file for the main agent, one for each sub-agent."""

import shlex
from typing import Any

from verifierd.replay.bash import RealBash
from verifierd.replay.record.files import Answer, edit_file, read_file, search_files, write_file
from verifierd.replay.record.invention import Invention
from verifierd.replay.record.script import Batch, Move, Part, Script, batches

__all__ = ("record",)

_VERSION = "2.1.30"
_MODEL = "claude-sonnet-4-5-20250929"
_TOOLS = {"Read": read_file, "Write": write_file, "Edit": edit_file, "Grep": search_files}


def record(script: Script, invention: Invention) -> dict[str, list[Any]]:
    """A folder for the project, a file for the session; every command is a shell of its own, the directory lasts."""
    files: dict[str, list[Any]] = {}
    for part in script.parts:
        with RealBash(project=part.project, fresh=True) as bash:
            cwd = bash.run(part.setup).cwd
            session = _Session(part, invention, bash, cwd)
            session.play()
        folder = f"{script.name}/{cwd.replace('/', '-')}/{session.id}"
        files[f"{folder}.jsonl"] = session.log.lines
        for log in session.agents:
            files[f"{folder}/subagents/agent-{log.agent}.jsonl"] = log.lines
    return files


class _Log:
    """One file in the making. A line's parent is the line before it unless said otherwise."""

    def __init__(self, agent: str | None = None) -> None:
        self.agent = agent
        self.lines: list[dict[str, Any]] = []
        self.last: str | None = None


class _Session:
    def __init__(self, part: Part, invention: Invention, bash: RealBash, cwd: str) -> None:
        self.id = invention.uuid()
        self.log = _Log()
        self.agents: list[_Log] = []
        self._part = part
        self._invention = invention
        self._bash = bash
        self._cwd = cwd
        self._message: str | None = None

    def play(self) -> None:
        """The whole session, below a summary of an earlier one."""
        title = {"type": "summary", "summary": self._part.name, "leafUuid": self._invention.uuid()}
        self.log.lines.append(title)
        for batch in batches(self._part.moves):
            self._play(self.log, batch)

    def _play(self, log: _Log, batch: Batch) -> None:
        match batch:
            case (Move(user=str(text)),):
                self._prompt(log, text)
            case (Move(say=str(text)),):
                self._answer(log, {"type": "text", "text": text})
            case (Move(behind=str(command)),):
                self._bash.run(command)
            case _:
                self._call(log, batch)

    def _prompt(self, log: _Log, text: str) -> None:
        self._message = None
        uuid = self._invention.uuid()
        time = self._invention.time(20)
        if log.agent is None:
            snapshot = {"messageId": uuid, "trackedFileBackups": {}, "timestamp": time}
            log.lines.append(
                {"type": "file-history-snapshot", "messageId": uuid, "snapshot": snapshot, "isSnapshotUpdate": False}
            )
        self._add(log, {"type": "user", "message": {"role": "user", "content": text}}, uuid=uuid, time=time)

    def _answer(self, log: _Log, block: dict[str, Any]) -> str:
        """A line for one block of the model's message; blocks of one message share its id."""
        self._message = self._message or self._invention.token("msg_01", 22)
        message = {
            "model": _MODEL,
            "id": self._message,
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 12, "output_tokens": 3, "service_tier": "standard"},
        }
        return self._add(log, {"type": "assistant", "message": message})

    def _call(self, log: _Log, batch: Batch) -> None:
        """Issue all calls, then answer them, the last one first: results do not come in the order of the calls."""
        calls = []
        for move in batch:
            call_id = self._invention.token("toolu_01", 22)
            given = move.input if move.run is None else {"command": move.run, "description": move.note}
            name = "Bash" if move.run is not None else move.tool
            line = self._answer(log, {"type": "tool_use", "id": call_id, "name": name, "input": given})
            calls.append((move, call_id, line))
        self._message = None
        for move, call_id, line in reversed(calls):
            answer = self._perform(move)
            result: dict[str, Any] = {"tool_use_id": call_id, "type": "tool_result", "content": answer.content}
            if answer.is_error is not None:
                result["is_error"] = answer.is_error
            body: dict[str, Any] = {
                "type": "user",
                "message": {"role": "user", "content": [result]},
                "sourceToolAssistantUUID": line,
            }
            if log.agent is None:  # sub-agents' files have no fuller copy
                body["toolUseResult"] = answer.result
            self._add(log, body, parent=line)

    def _perform(self, move: Move) -> Answer:
        if move.run is not None:
            return self._shell(move.run)
        if move.tool == "Task":
            return self._delegate(move)
        assert move.tool is not None
        return _TOOLS[move.tool](self._bash, move.input)

    def _shell(self, command: str) -> Answer:
        step = self._bash.run(command)
        self._cwd = step.cwd
        text = step.text.removesuffix("\n")
        if step.exit_code:
            text = f"Exit code {step.exit_code}\n{text}".removesuffix("\n")
            return Answer(content=text, result=f"Error: {text}", is_error=True)
        result = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
        return Answer(content=text, result=result, is_error=False)

    def _delegate(self, move: Move) -> Answer:
        log = _Log(self._invention.hex(7))
        self.agents.append(log)
        here = self._cwd
        self._prompt(log, move.input["prompt"])
        for batch in batches(move.moves):
            self._play(log, batch)
        report = {"type": "text", "text": move.answer}
        self._answer(log, report)
        self._message = None
        if self._cwd != here:  # a sub-agent's directory is its own
            self._shell(f"cd {shlex.quote(here)}")
        farewell = f"agentId: {log.agent} (for resuming to continue this agent's work if needed)"
        result = {
            "status": "completed",
            "prompt": move.input["prompt"],
            "agentId": log.agent,
            "content": [report],
            "totalDurationMs": self._invention.number(9000, 30000),
            "totalTokens": self._invention.number(9000, 30000),
            "totalToolUseCount": sum(len(batch) for batch in batches(move.moves)),
        }
        return Answer(content=[report, {"type": "text", "text": farewell}], result=result)

    def _add(
        self,
        log: _Log,
        body: dict[str, Any],
        *,
        parent: str | None = None,
        uuid: str | None = None,
        time: str | None = None,
    ) -> str:
        line = {
            "parentUuid": parent or log.last,
            "isSidechain": log.agent is not None,
            "userType": "external",
            "cwd": self._cwd,
            "sessionId": self.id,
            "version": _VERSION,
            "gitBranch": self._part.branch,
        }
        if log.agent is not None:
            line["agentId"] = log.agent
        log.last = uuid or self._invention.uuid()
        log.lines.append({**line, **body, "uuid": log.last, "timestamp": time or self._invention.time()})
        return log.last
