"""Runs commands in the machine's real bash, in a throw-away home, one `bash -c` a step.

This is where certification and recorded samples get their truth from. It is no sandbox: run only commands of this
project's own making. Started as root, it runs the commands as `nobody`, so that permission errors are real.
"""

import os
import selectors
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from verifierd.processes import kill_group

__all__ = ("BashStep", "RealBash")

_NOBODY = 65534

# Read by bash before its command and undone at once, so that line numbers, `$?` and child shells are as without it.
# The state of the step before comes from the file `old`; this step's is written as the shell exits.
_PROLOGUE = """\
unset BASH_ENV
{restore}
trap '. "{epilogue}" 2>/dev/null' EXIT
true
"""
_RESTORE = '. "{old}" 2>/dev/null'
_EPILOGUE = """\
pwd >"{new}.cwd"
{save}
"""
_SAVE = """\
declare -p | grep -vE '^declare -[a-zA-Z]*r' >"{new}"
declare -f >>"{new}\"
"""
_READ = 65536


class BashStep(msgspec.Struct, frozen=True, kw_only=True):
    """What one command did.

    Attributes:
        text: Standard output and errors in the order of writing, real paths replaced by the shown ones.
        exit_code: The status; 128 + n after signal n.
        cwd: The directory after the command, as shown.
        timed_out: True if the command was killed for its time.
        truncated: True if it was killed for the size of its output.
    """

    text: str
    exit_code: int
    cwd: str
    timed_out: bool = False
    truncated: bool = False


class RealBash:
    """A shell session: directory, variables and functions are carried from step to step.

    Options (`set`, `shopt`), aliases, traps and `$?` are not carried: each step is a bash of its own, as agents'
    harnesses do it.

    Args:
        home: The path shown for the throw-away home directory; commands may use it too. None shows the real path.
        project: The directory below home to start in.
        fresh: Carry the directory only.
        timeout: Seconds a command may take.
        limit: Characters of output a command may write.
    """

    def __init__(
        self,
        *,
        home: str | None = "/home/user",
        project: str = "proj",
        fresh: bool = False,
        timeout: float = 10.0,
        limit: int = 1_000_000,
    ) -> None:
        self._shown = home
        self._project = project
        self._fresh = fresh
        self._timeout = timeout
        self._limit = limit
        self._as_nobody = os.geteuid() == 0
        self._step = 0

    def __enter__(self) -> Self:
        self._base = Path(tempfile.mkdtemp(prefix="bash-")).resolve()
        self._base.chmod(0o755)
        self._state = self._base / "state"
        self.home = self._base / "home"
        self.project = self.home / self._project
        self.project.mkdir(parents=True)
        self._state.mkdir()
        self._cwd = str(self.project)
        self._old = ""
        self.own(self._base)
        return self

    def __exit__(self, *exc: object) -> None:
        self._clear(self._base)

    @staticmethod
    def _clear(top: Path) -> None:
        for folder, folders, _ in os.walk(top):
            for name in folders:
                path = Path(folder, name)
                if not path.is_symlink():
                    path.chmod(0o755)
        shutil.rmtree(top)

    def reset(self) -> None:
        """Start over in an empty home, with no variables or functions."""
        self._clear(self.home)
        self.project.mkdir(parents=True)
        self._cwd = str(self.project)
        self._old = ""
        self.own(self.home)

    def own(self, path: Path) -> None:
        """Give a file or tree that the caller made to the user who runs the commands."""
        if self._as_nobody:
            os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)
            for folder, folders, files in os.walk(path):
                for name in (*folders, *files):
                    os.chown(Path(folder, name), _NOBODY, _NOBODY, follow_symlinks=False)

    def run(self, command: str) -> BashStep:
        """Run one command; a command that ends by time or size has no effect on the carried state."""
        self._step += 1
        new = self._state / str(self._step)
        prologue, epilogue = self._state / "prologue", self._state / "epilogue"
        restore = _RESTORE.format(old=self._old) if self._old else ""
        prologue.write_text(_PROLOGUE.format(restore=restore, epilogue=epilogue), encoding="utf-8")
        save = "" if self._fresh else _SAVE.format(new=new)
        epilogue.write_text(_EPILOGUE.format(new=new, save=save), encoding="utf-8")
        cwd = self._cwd if Path(self._cwd).is_dir() else str(self.home)
        env = {
            "HOME": str(self.home),
            "USER": "user",
            "LOGNAME": "user",
            "LANG": "C.UTF-8",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "BASH_ENV": str(prologue),
        }
        with subprocess.Popen(  # noqa: S603 - running shell commands is what this is for
            ["bash", "-c", self._hide(command)],  # noqa: S607 - the name that errors begin with
            executable="/bin/bash",
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            umask=0o022,
            start_new_session=True,
            user=_NOBODY if self._as_nobody else None,
            group=_NOBODY if self._as_nobody else None,
            extra_groups=[] if self._as_nobody else None,
        ) as process:
            data, timed_out, truncated = self._read(process)
        ended = not timed_out and not truncated
        saved = Path(f"{new}.cwd")
        if ended and saved.exists():
            self._cwd = saved.read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
            if new.exists():
                self._old = str(new)
        code = process.returncode
        return BashStep(
            text=self._show(data.decode("utf-8", "replace")),
            exit_code=code if code >= 0 else 128 - code,
            cwd=self._show(self._cwd),
            timed_out=timed_out,
            truncated=truncated,
        )

    def _read(self, process: subprocess.Popen[bytes]) -> tuple[bytes, bool, bool]:
        """All the process writes; it and what it left running are killed on time-out, overflow and at the end."""
        assert process.stdout is not None
        end = time.monotonic() + self._timeout
        data = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while (left := end - time.monotonic()) > 0 and len(data) <= self._limit:
                if not selector.select(min(left, 0.05)):
                    if process.poll() is not None:  # it ended, but a child holds the pipe open
                        break
                    continue
                chunk = os.read(process.stdout.fileno(), _READ)
                if not chunk:
                    break
                data += chunk
        timed_out, truncated = left <= 0, len(data) > self._limit
        if not timed_out and not truncated:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(left, 0.05))
            timed_out = process.returncode is None
        kill_group(process.pid)
        process.wait()
        return bytes(data[: self._limit]), timed_out, truncated

    def _hide(self, command: str) -> str:
        return command if self._shown is None else command.replace(self._shown, str(self.home))

    def _show(self, text: str) -> str:
        return text if self._shown is None else text.replace(str(self.home), self._shown)
