"""Runs code that a model wrote, and sees to it that it can do nothing but compute.

The code runs in a process of its own (`jail.py`), without an environment, in an empty folder, locked in by the kernel:
by seccomp on Linux, by the sandbox of macOS. Where neither is to be had it is not run. It cannot read or write files,
reach the network, start or signal processes, import more than a list of modules, print more than 64 KiB, or outlive its
time. On Linux its memory is bounded, too.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from verifierd.processes import kill_group

__all__ = ("Case", "Ran", "lock", "run")

_JAIL = Path(__file__).with_name("jail.py")
_START = 60.0
"""Seconds until a process must be locked in, on a busy machine."""

_PRINTED = 64 << 10


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a function answered.

    Attributes:
        value: The answer, as JSON tells it: a tuple is a list.
        error: The exception it raised instead; empty if it did not.
    """

    value: Any = None
    error: str = ""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a piece of code.

    Attributes:
        lock: What kept it in; empty if it was not run.
        refused: Why it was not run.
        problem: What befell all of it, such as its time limit.
        cases: What it answered; empty if there was a problem.
    """

    lock: str = ""
    refused: str = ""
    problem: str = ""
    cases: tuple[Case, ...] = ()


@cache
def lock() -> tuple[str, str]:
    """What keeps code in here, and else why nothing does; one of the two is empty."""
    ran = run("def one():\n    return 1\n", "one", [()], seconds=10)
    return ran.lock, "" if ran.lock else ran.refused


def run(code: str, function: str, cases: Sequence[Sequence[Any]], *, seconds: int) -> Ran:
    """Call a function that code defines, in a process that is locked in.

    Args:
        code: Python.
        function: The function's name.
        cases: The arguments of each call, of what JSON has.
        seconds: For all of it; then it is killed.
    """
    job = {"code": code, "function": function, "cases": cases, "seconds": seconds}
    try:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryDirectory() as folder:
            given.write(json.dumps(job).encode())
            given.seek(0)
            process = subprocess.Popen(  # noqa: S603 - our own file; what it is given is the point
                [sys.executable, "-I", "-S", "-B", str(_JAIL)],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={},
                start_new_session=True,
            )
            assert process.stdout is not None
            with process.stdout as pipe:
                try:
                    said, problem = _listen(pipe.fileno(), seconds)
                finally:
                    kill_group(process.pid)
                    status = process.wait()
    except OSError as error:  # no room, no process, no file more
        return Ran(refused=f"no process can be started: {error.strerror or error}")
    return _read(said, problem or (f"ended by {signal.Signals(-status).name}" if status < 0 else ""), len(cases))


def _listen(pipe: int, seconds: int) -> tuple[bytes, str]:
    """What is printed until the end, and what cut it short."""
    said = b""
    until = time.monotonic() + _START
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while selector.select(until - time.monotonic()):
            chunk = os.read(pipe, _PRINTED)
            if not chunk:
                return said, ""
            if not said:  # its time begins when it is locked in
                until = time.monotonic() + seconds
            said += chunk
            if len(said) > _PRINTED:
                return said, f"it printed more than {_PRINTED >> 10} KiB"
    return said, f"it ran longer than {seconds} s" if said else "it did not start in time"


def _read(said: bytes, problem: str, cases: int) -> Ran:
    """The first line says how it is locked in; only the last is of what the code did, and may say anything."""
    lines = said.split(b"\n")
    first = _object(next(filter(None, lines), b""))
    if not isinstance(kind := first.get("locked"), str):
        return Ran(refused=str(first.get("refused") or problem or "it could not be locked in"))
    answers = _object(next(filter(None, reversed(lines)))).get("answers")
    try:
        found = msgspec.convert(answers, tuple[Case, ...])
    except msgspec.ValidationError:
        found = ()
    if problem or len(found) != cases:
        return Ran(lock=kind, problem=problem or "it ended early")
    return Ran(lock=kind, cases=found)


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
