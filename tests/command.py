"""The real command, in a process of its own that need not import first.

Such a process is forked from a server that only has imported what commands are made of, which is most of what a short
one takes. On macOS, where libraries do not survive a fork, it starts from nothing, as everywhere where Python itself is
set up otherwise.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from verifierd.cli import main

__all__ = ("Command", "run")

_PROCESSES = (
    multiprocessing.get_context("forkserver") if sys.platform == "linux" else multiprocessing.get_context("spawn")
)
_PROCESSES.set_forkserver_preload(
    [__name__, *(f"verifierd.cli.{name}" for name in ("bench", "calibrate", "contracts", "doctor", "eval", "run"))]
)


class Command:
    """A running `verifierd`; as `subprocess.Popen`, as far as it goes.

    Args:
        arguments: What follows its name.
        stdin: The file that it reads.
        stdout: The file that it writes, as `stderr`.
        env: Its environment.
    """

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        stdin: str | Path = os.devnull,
        stdout: str | Path = os.devnull,
        stderr: str | Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        given = ([*map(str, arguments)], (stdin, stdout, stderr), dict(os.environ if env is None else env), Path.cwd())
        self._process = _PROCESSES.Process(target=_command, args=given)
        self._process.start()
        self.pid = self._process.pid or 0
        self.kill, self.terminate = self._process.kill, self._process.terminate

    def poll(self) -> int | None:
        """How it ended, if it did."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended; `subprocess.TimeoutExpired` if it did not within that many seconds."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("verifierd", timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)


def run(
    arguments: Sequence[str], stdin: bytes, env: Mapping[str, str], timeout: float
) -> "subprocess.CompletedProcess[bytes]":
    """What a command says and how it ends.

    Raises:
        subprocess.TimeoutExpired: It took longer than `timeout` seconds; it is killed.
    """
    given = {**os.environ, **env}
    if any(name.startswith("PYTHON") for name in env):
        program = [sys.executable, "-m", "verifierd", *arguments]
        return subprocess.run(program, input=stdin, capture_output=True, env=given, timeout=timeout, check=False)
    with tempfile.TemporaryDirectory() as folder:
        asked, said, told = (Path(folder, name) for name in ("stdin", "stdout", "stderr"))
        asked.write_bytes(stdin)
        command = Command(arguments, stdin=asked, stdout=said, stderr=told, env=given)
        try:
            return subprocess.CompletedProcess(arguments, command.wait(timeout), said.read_bytes(), told.read_bytes())
        finally:
            command.kill()


def _command(arguments: Sequence[str], streams: Sequence[str | Path], env: Mapping[str, str], folder: Path) -> None:
    for number, stream in enumerate(streams):
        os.dup2(os.open(stream, os.O_RDWR | os.O_CREAT), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - the server's was closed
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.argv = ["verifierd", *arguments]
    main()
