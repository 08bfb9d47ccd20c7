"""Records rollouts as Codex 0.12x writes them: `exec_command` with a header of text, polls, patches."""

import shlex
from typing import Any

import msgspec

from verifierd.replay.bash import BashStep, RealBash
from verifierd.replay.record.files import patch_files
from verifierd.replay.record.invention import Invention
from verifierd.replay.record.script import Batch, Move, Part, Script, batches

__all__ = ("record",)

_VERSION = "0.125.0"
_MODEL = "gpt-5.5"


def record(script: Script, invention: Invention) -> dict[str, list[Any]]:
    """One rollout a trajectory; every command is a shell of its own, started in the project."""
    files: dict[str, list[Any]] = {}
    for part in script.parts:
        with RealBash(project=part.project, fresh=True) as bash:
            rollout = _Rollout(part, invention, bash)
            rollout.play()
        started = rollout.lines[0]["timestamp"][:19].replace(":", "-")
        files[f"{script.name}/rollout-{started}-{rollout.id}.jsonl"] = rollout.lines
    return files


class _Rollout:
    def __init__(self, part: Part, invention: Invention, bash: RealBash) -> None:
        self.id = invention.uuid()
        self.lines: list[dict[str, Any]] = []
        self._part = part
        self._invention = invention
        self._bash = bash
        self._cwd = bash.run(part.setup).cwd
        self._turn: str | None = None

    def play(self) -> None:
        """The whole session."""
        meta = {
            "id": self.id,
            "timestamp": self._invention.time(),
            "cwd": self._cwd,
            "originator": "codex-tui",
            "cli_version": _VERSION,
            "source": "cli",
            "model_provider": "openai",
        }
        self._add("session_meta", meta)
        self._message("user", f"<environment_context>\n  <cwd>{self._cwd}</cwd>\n</environment_context>")
        for batch in batches(self._part.moves):
            match batch:
                case (Move(user=str(text)),):
                    self._prompt(text)
                case (Move(say=str(text)),):
                    self._add("event_msg", {"type": "agent_message", "message": text})
                    self._message("assistant", text)
                case (Move(behind=str(command)),):
                    self._bash.run(command)
                case (Move(patch=str(patch)),):
                    self._patch(patch)
                case (Move(run=str(command), slow=True),):
                    self._run_slowly(command)
                case _:
                    self._run(batch)
        self._complete()

    def _prompt(self, text: str) -> None:
        self._complete()
        self._turn = self._invention.uuid()
        self._add("event_msg", {"type": "task_started", "turn_id": self._turn}, seconds=20)
        context = {
            "turn_id": self._turn,
            "cwd": self._cwd,
            "approval_policy": "on-request",
            "sandbox_policy": {"type": "workspace-write", "network_access": False},
            "model": _MODEL,
            "summary": "none",
        }
        self._add("turn_context", context)
        self._message("user", text)
        self._add("event_msg", {"type": "user_message", "message": text, "images": []})

    def _complete(self) -> None:
        if self._turn is not None:
            self._add("event_msg", {"type": "task_complete", "turn_id": self._turn})

    def _run(self, batch: Batch) -> None:
        """All calls, then the ends in the order of completion (here backwards), then all answers in call order."""
        calls = [(self._exec(move.run), move.run) for move in batch if move.run is not None]
        steps: dict[str, BashStep] = {}
        for call_id, command in reversed(calls):
            steps[call_id] = self._shell(command)
            self._end(call_id, command, steps[call_id], process=self._process())
        for call_id, _ in calls:
            self._answer(call_id, steps[call_id])

    def _run_slowly(self, command: str) -> None:
        """The first answer comes before the command ends and is empty; a poll gets the text."""
        process = self._process()
        call_id = self._exec(command)
        self._output(call_id, self._header(1.0) + f"Process running with session ID {process}\n" + self._body(""))
        poll_id = self._invention.token("call_", 24)
        given = {"session_id": process, "chars": "", "yield_time_ms": 5000}
        self._function_call("write_stdin", given, poll_id)
        step = self._shell(command)
        self._end(call_id, command, step, process=process)
        self._answer(poll_id, step)

    def _patch(self, patch: str) -> None:
        call_id = self._invention.token("call_", 24)
        call = {"type": "custom_tool_call", "status": "completed", "call_id": call_id, "name": "apply_patch"}
        self._add("response_item", {**call, "input": patch})
        changes = patch_files(self._bash, patch, self._cwd)
        marks = {"add": "A", "update": "M"}
        names = "".join(f"{marks[change['type']]} {name}\n" for name, change in changes.items())
        text = f"Success. Updated the following files:\n{names}"
        end = {
            "type": "patch_apply_end",
            "call_id": call_id,
            "turn_id": self._turn,
            "stdout": text,
            "stderr": "",
            "success": True,
            "changes": {f"{self._cwd}/{name}": change for name, change in changes.items()},
            "status": "completed",
        }
        self._add("event_msg", end)
        output = msgspec.json.encode({"output": text, "metadata": {"exit_code": 0, "duration_seconds": 0.0}}).decode()
        self._add("response_item", {"type": "custom_tool_call_output", "call_id": call_id, "output": output})

    def _shell(self, command: str) -> BashStep:
        step = self._bash.run(command)
        if step.cwd != self._cwd:  # the next call names its directory itself
            self._bash.run(f"cd {shlex.quote(self._cwd)}")
        return step

    def _process(self) -> int:
        return self._invention.number(10000, 99999)

    def _exec(self, command: str) -> str:
        call_id = self._invention.token("call_", 24)
        given = {"cmd": command, "workdir": self._cwd, "yield_time_ms": 1000, "max_output_tokens": 12000}
        self._function_call("exec_command", given, call_id)
        return call_id

    def _function_call(self, name: str, given: dict[str, Any], call_id: str) -> None:
        arguments = msgspec.json.encode(given).decode()
        self._add("response_item", {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id})

    def _end(self, call_id: str, command: str, step: BashStep, *, process: int) -> None:
        end = {
            "type": "exec_command_end",
            "call_id": call_id,
            "process_id": str(process),
            "turn_id": self._turn,
            "command": ["bash", "-lc", command],
            "cwd": self._cwd,
            "source": "unified_exec_startup",
            "stdout": "",
            "stderr": "",
            "aggregated_output": step.text,
            "exit_code": step.exit_code,
            "duration": {"secs": 0, "nanos": self._invention.number(1_000_000, 90_000_000)},
            "formatted_output": "",
            "status": "failed" if step.exit_code else "completed",
        }
        self._add("event_msg", end)

    def _answer(self, call_id: str, step: BashStep) -> None:
        status = f"Process exited with code {step.exit_code}\n"
        self._output(call_id, self._header(0.05) + status + self._body(step.text))

    def _header(self, seconds: float) -> str:
        wall = seconds + self._invention.number(0, 99) / 10_000
        return f"Chunk ID: {self._invention.hex(6)}\nWall time: {wall:.4f} seconds\n"

    def _body(self, text: str) -> str:
        return f"Original token count: {(len(text) + 3) // 4}\nOutput:\n{text}"

    def _output(self, call_id: str, output: str) -> None:
        self._add("response_item", {"type": "function_call_output", "call_id": call_id, "output": output})

    def _message(self, role: str, text: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        self._add("response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]})

    def _add(self, kind: str, payload: dict[str, Any], *, seconds: float = 0.5) -> None:
        self.lines.append({"timestamp": self._invention.time(seconds), "type": kind, "payload": payload})
