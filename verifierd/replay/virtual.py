"""The virtual shell in a child process, one case at a time, so that its crash or hang is an answer too."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Self

import msgspec
from bashkit import Bash, BashError

__all__ = ("VirtualBash", "VirtualStep")

_SECONDS = 3.0


class VirtualStep(msgspec.Struct, frozen=True, kw_only=True):
    """What one command did in the virtual shell.

    Attributes:
        stdout, stderr: What it wrote; `text` is both in the order of writing.
        exit_code: Its status.
        cwd: The directory after it.
        tree: Every path of the project after it: its text, None for a directory, `-> x` for a link.
        modes: The permission bits of files and directories.
        opaque: True if the virtual shell's own analysis says that it cannot see everything.
        broken: Why there is no answer, or None.
    """

    stdout: str = ""
    stderr: str = ""
    text: str = ""
    exit_code: int = -1
    cwd: str = ""
    tree: dict[str, str | None] = msgspec.field(default_factory=dict)
    modes: dict[str, int] = msgspec.field(default_factory=dict)
    opaque: bool = False
    broken: str | None = None


class VirtualBash:
    """Runs commands in fresh virtual shells."""

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    def run(self, command: str, tree: Mapping[str, str | None], project: str = "/home/user/proj") -> VirtualStep:
        """Run one command in a project with these paths (None is a directory, `-> x` a link); home is above it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(
                json.dumps({"command": command, "tree": tree, "project": project}).encode() + b"\n"
            )
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            self._stop()
            self._start()
            return VirtualStep(broken="the virtual shell crashed")
        return msgspec.json.decode(answer, type=VirtualStep)

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "verifierd.replay.virtual"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def _stop(self) -> None:
        self._process.kill()
        self._process.communicate()


def _answer(command: str, tree: Mapping[str, str | None], project: str) -> VirtualStep:
    bash = Bash(
        username="user", cwd=project, env={"HOME": project.rpartition("/")[0], "USER": "user"}, timeout_seconds=_SECONDS
    )
    files = bash.fs()
    files.mkdir(project, recursive=True)
    for path, text in tree.items():
        full = f"{project}/{path}"
        if text is None:
            files.mkdir(full, recursive=True)
        elif text.startswith("-> "):
            files.symlink(text[3:], full)
        else:
            files.mkdir(full.rpartition("/")[0], recursive=True)
            files.write_file(full, text.encode())
    chunks: list[str] = []
    try:
        analysis = bash.analyze(command)
        result = bash.execute_sync(command, on_output=lambda out, err: chunks.append(out + err))
    except (BashError, OSError, RuntimeError) as error:
        return VirtualStep(broken=str(error)[:200])
    stderr = result.stderr or ""
    broken = result.error if result.error and result.error not in stderr else None
    text = "".join(chunks)
    if len(text) != len(result.stdout) + len(stderr):
        text = result.stdout + stderr
    after: dict[str, str | None] = {}
    modes: dict[str, int] = {}
    _collect(files, project, len(project) + 1, after, modes)
    return VirtualStep(
        stdout=result.stdout,
        stderr=stderr,
        text=text,
        exit_code=result.exit_code,
        cwd=bash.shell_state().cwd,
        tree=after,
        modes=modes,
        opaque=analysis.truncated or analysis.has_dynamic_commands,
        broken=broken,
    )


def _collect(files: Any, folder: str, cut: int, after: dict[str, str | None], modes: dict[str, int]) -> None:
    for entry in files.read_dir(folder):
        path = f"{folder}/{entry['name']}"
        short = path[cut:]
        kind = entry["metadata"]["file_type"]
        if kind == "symlink":
            after[short] = f"-> {files.read_link(path)}"
            continue
        modes[short] = entry["metadata"]["mode"] & 0o777
        if kind == "directory":
            after[short] = None
            _collect(files, path, cut, after, modes)
        else:
            after[short] = files.read_file(path).decode("utf-8", "replace")


def _serve() -> None:
    for line in sys.stdin.buffer:
        question = json.loads(line)
        answer = _answer(question["command"], question["tree"], question["project"])
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
