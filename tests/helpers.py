"""Builders that several tests share: lines of the native format, a pipeline of real parts, the real command."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from tests.command import Command, run
from verifierd.adapters import detect, open_adapter
from verifierd.metrics import Metrics
from verifierd.pipeline import Judge, Pipeline, Reading, Shadow
from verifierd.policy import Policy, load
from verifierd.predictors.scripted import ScriptedPredictor
from verifierd.predictors.shell import ShellPredictor
from verifierd.sanitize import Sanitizer
from verifierd.scoring import open_scorers
from verifierd.sources import open_source
from verifierd.stages import Adapter, Predictor, Sink
from verifierd.store import Store
from verifierd.types import Abstain, Action, History, Origin, Prediction, Step, Verdict

__all__ = (
    "Bench",
    "Keep",
    "Live",
    "agrees",
    "bench",
    "claude",
    "codex",
    "counter",
    "decided",
    "echo",
    "guess",
    "jsonl",
    "native",
    "ran",
    "read_verdicts",
    "reading",
    "verifierd",
    "wrong_once",
)


def native(trajectory: str, step: int, action: str | dict[str, Any], observation: str, **more: Any) -> dict[str, Any]:
    """A line of the native format."""
    return {"trajectory": trajectory, "step": step, "action": action, "observation": observation, **more}


def echo(trajectory: str, count: int, *, first: int = 1) -> list[dict[str, Any]]:
    """Steps that the shell predicts in full: `echo word-N`."""
    return [
        native(trajectory, n, f"echo word-{n}", f"word-{n}\n", exit_code=0, cwd="/home/user")
        for n in range(first, first + count)
    ]


def counter(trajectory: str, count: int, *, word: str = "line") -> list[dict[str, Any]]:
    """Steps whose observations depend on all before: in a new folder a file grows, and its lines are counted.

    Steps 1 and 2 make the folder and enter it; then each odd step adds a line, and each even one counts them.
    """
    lines = [
        native(trajectory, 1, "mkdir -p work", "", exit_code=0, cwd="/home/user"),
        native(trajectory, 2, "cd work", "", exit_code=0, cwd="/home/user"),
    ]
    for n in range(3, count + 1):
        add = f"echo {word}-{n} {'>' if n == 3 else '>>'} notes.txt"
        action, observation = (add, "") if n % 2 else ("wc -l notes.txt", f"{n // 2 - 1} notes.txt\n")
        lines.append(native(trajectory, n, action, observation, exit_code=0, cwd="/home/user/work"))
    return lines[:count]


def agrees(found: Iterable[tuple[int, str]]) -> bool:
    """Whether steps of `counter`, with their verdicts, went as they must: each count was predicted from what was done.

    What the shell makes of the steps that add a line is not this function's matter, so long as none is off path.
    """
    return all(kind == "on_path" or (kind == "abstain" and step % 2 == 1) for step, kind in found)


def wrong_once(lines: Sequence[dict[str, Any]], step: int, observation: str) -> list[dict[str, Any]]:
    """The same lines, but for one observation."""
    return [{**line, "observation": observation} if line["step"] == step else line for line in lines]


def jsonl(*values: object) -> bytes:
    """Complete lines."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def claude(session: str, calls: Sequence[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """A Claude Code transcript of (call id, command, output)."""
    lines: list[dict[str, Any]] = []
    common = {"sessionId": session, "cwd": "/home/user", "version": "2.1.30", "isSidechain": False}
    for number, (call_id, command, output) in enumerate(calls, 1):
        use = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": False}
        lines.append(
            {
                **common,
                "type": "assistant",
                "uuid": f"{session}-a{number}",
                "parentUuid": None,
                "timestamp": f"2026-01-12T09:00:{number:02}.000Z",
                "message": {"role": "assistant", "id": f"msg_{number}", "content": [use], "stop_reason": "tool_use"},
            }
        )
        lines.append(
            {
                **common,
                "type": "user",
                "uuid": f"{session}-u{number}",
                "parentUuid": f"{session}-a{number}",
                "timestamp": f"2026-01-12T09:01:{number:02}.000Z",
                "message": {"role": "user", "content": [result]},
            }
        )
    return lines


def codex(session: str, calls: Sequence[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """A Codex rollout of (call id, command, output)."""
    when = "2026-01-12T09:00:00.000Z"
    lines: list[dict[str, Any]] = [
        {"timestamp": when, "type": "session_meta", "payload": {"id": session, "cwd": "/home/user", "cli_version": "1"}}
    ]
    for call_id, command, output in calls:
        arguments = json.dumps({"cmd": command})
        call = {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": call_id}
        text = f"Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n{output}"
        result = {"type": "function_call_output", "call_id": call_id, "output": text}
        lines.append({"timestamp": when, "type": "response_item", "payload": call})
        lines.append({"timestamp": when, "type": "response_item", "payload": result})
    return lines


class Keep:
    """A sink that keeps."""

    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        self.verdicts.extend(verdicts)

    async def aclose(self) -> None:
        """Nothing is held."""


class Bench:
    """A pipeline of real parts, and what a test wants to see of it."""

    def __init__(self, pipeline: Pipeline, store: Store, kept: Keep, metrics: Metrics) -> None:
        self.pipeline = pipeline
        self.store = store
        self.kept = kept
        self.metrics = metrics

    @property
    def verdicts(self) -> list[Verdict]:
        return self.kept.verdicts

    @property
    def agree(self) -> bool:
        """Whether the steps of `counter` were judged as they must be."""
        return bool(self.verdicts) and agrees((verdict.step, verdict.verdict.value) for verdict in self.verdicts)

    @property
    def order(self) -> list[tuple[str, int]]:
        """Trajectory and step of the verdicts, in the order in which they were committed."""
        return [(verdict.trajectory, verdict.step) for verdict in self.verdicts]

    def count(self, name: str, **labels: str) -> float:
        """A metric's value."""
        return self.metrics.registry.get_sample_value(f"verifierd_{name}", labels) or 0.0

    async def drain(self, path: Path, *, format: str = "auto", judge_from: int = 0, finish: bool = False) -> Reading:
        """Read a file from its start to its end, once."""
        opened = reading(path, format=format, judge_from=judge_from)
        await self.follow(opened)
        if finish:
            await self.pipeline.finish(opened)
            await opened.source.aclose()
        return opened

    async def follow(self, opened: Reading) -> None:
        """Read what is there."""
        while await self.pipeline.pump(opened):
            pass


def reading(path: Path, *, format: str = "auto", judge_from: int = 0) -> Reading:
    """A reading of a file from its start."""
    return Reading(open_source(path), format=format, judge_from=judge_from)


@asynccontextmanager
async def bench(
    *,
    state: Path | None = None,
    script: Callable[[History, Step], Prediction] | None = None,
    shell: bool = False,
    sinks: Sequence[Sink] = (),
    limit: int | None = None,
    policy: Policy | None = None,
    predictor: Predictor | None = None,
    shadow: Shadow | None = None,
) -> AsyncIterator[Bench]:
    """A pipeline over a real store, with the real shell, a scripted predictor or another one, and a policy."""
    kept, metrics = Keep(), Metrics()
    predictor = predictor or (ShellPredictor() if shell else ScriptedPredictor(script))
    policy = policy or load("default")
    salt = Sanitizer(b"test")

    def adapter(name: str, path: str) -> Adapter:
        return open_adapter(name, path=path)

    async with Store(state) as store:
        try:
            yield Bench(
                Pipeline(
                    store=store,
                    judge=Judge(
                        predictor=predictor,
                        scorers=open_scorers(policy),
                        policy=policy,
                        sanitise=lambda verdict: salt.verdict(verdict, "full"),
                    ),
                    sinks=(*sinks, kept),
                    metrics=metrics,
                    open_adapter=adapter,
                    detect=detect,
                    limit=limit,
                    shadow=shadow,
                ),
                store,
                kept,
                metrics,
            )
        finally:
            await predictor.aclose()


def decided(verdicts: Sequence[Verdict]) -> list[tuple[str, int, str, str]]:
    """What verdicts say, without when and how fast."""
    return sorted((v.trajectory, v.step, v.verdict.value, v.reason) for v in verdicts)


def read_verdicts(path: Path) -> list[dict[str, Any]]:
    """The lines of a verdict JSONL."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def verifierd(
    *arguments: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None, timeout: float = 60
) -> "subprocess.CompletedProcess[str]":
    """Run the real command in a home of its own, and make sure that it leaves no traceback."""
    done = run([*map(str, arguments)], stdin, env or {}, timeout)
    result = subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )
    assert "Traceback" not in result.stderr + result.stdout, result.stderr
    return result


def ran(command: str, observation: str = "", **more: Any) -> Step:
    """A step in which a shell ran a command line, and that went well."""
    fields: dict[str, Any] = {"format": "native", "trajectory": "t", "index": 1, "cwd": "/w", "exit_code": 0} | more
    fields.setdefault("origin", Origin(path=f"{fields['trajectory']}.jsonl", offset=fields["index"]))
    return Step(action=Action(tool=fields.pop("tool", "Bash"), command=command), observation=observation, **fields)


def guess(text: str | None, *, certain: bool = True, exit_code: int | None = None) -> Prediction:
    """A scripted prediction; None abstains."""
    if text is None:
        return Prediction(predictor="scripted", abstain=Abstain.UNPREDICTABLE)
    return Prediction(predictor="scripted", text=text, certain=certain, exit_code=exit_code)


class Live:
    """The real daemon, running in a process of its own.

    Args:
        state: Its state directory; standard error is kept beside it.
        arguments: Of `verifierd run`.
    """

    def __init__(self, state: Path, *arguments: str | Path) -> None:
        self.out = state / "verdicts.jsonl"
        self.log = state.with_name(state.name + ".log")
        self.log.write_bytes(b"")
        self.process = Command(["run", "--state", state, *arguments], stderr=self.log)

    def __enter__(self) -> Self:
        self.wait(lambda: self.process.poll() is not None or bool(self.events("started")))
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events of its log that have this name."""
        lines = self.log.read_bytes().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"\n")]
        return [event for event in found if event["event"] == name]

    @property
    def url(self) -> str:
        """Where it serves."""
        return str(self.events("started")[0]["url"])

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of an answer of its endpoint."""
        return self._ask(urllib.request.Request(self.url + path))

    def post(self, path: str, body: bytes = b"") -> tuple[int, str]:
        """Status and body of the answer to a change, with the token."""
        token = (self.out.parent / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        return self._ask(urllib.request.Request(self.url + path, body, headers, method="POST"))

    def _ask(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    @property
    def steps(self) -> list[tuple[str, int]]:
        """Trajectory and step of the verdicts so far."""
        if not self.out.exists():
            return []
        lines = self.out.read_bytes().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [(verdict["trajectory"], verdict["step"]) for verdict in found]

    def wait(self, ready: Callable[[], bool], seconds: float = 30) -> None:
        """Wait until something is so; fail with the daemon's log if it does not become so."""
        end = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.02)

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        self.process.terminate()
        return self.process.wait(30)
