"""Runs foreign code in a process that can compute, and nothing else.

`sandbox.py` starts this file alone, as `python -I -S`; so it imports nothing of the package. The job stands on standard
input, as JSON. Standard output gets lines of JSON: first how the process is locked in, or why it cannot be; last what
the code answered. Whatever code may want is imported at the start. Then the process gives up for good all that reaches
beyond it (files, the network, other processes, signals) and tries whether that is so; only then the code runs.
"""

import ctypes
import errno
import importlib
import json
import os
import platform
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

__all__ = ()

_MODULES = (
    "abc", "array", "bisect", "calendar", "cmath", "collections", "collections.abc", "contextlib", "copy",
    "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "heapq", "itertools", "math", "numbers",
    "operator", "queue", "random", "re", "statistics", "string", "textwrap", "time", "traceback", "types", "typing",
    "unicodedata", "_strptime",
)  # fmt: skip
"""What code can import: nothing can be read any more once it runs."""

_MEMORY = 512 << 20
_FILES = 16
_NAMED = 1

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ALLOWED: dict[str, tuple[int, int]] = {
    "read": (0, 63), "write": (1, 64), "fstat": (5, 80), "lseek": (8, 62),
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216),
    "madvise": (28, 233), "rt_sigreturn": (15, 139), "restart_syscall": (219, 128), "futex": (202, 98),
    "sched_yield": (24, 124), "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "gettimeofday": (96, 169), "getrusage": (98, 165), "sysinfo": (99, 179),
    "getpid": (39, 172), "gettid": (186, 178), "getrandom": (318, 278), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
"""System calls and their numbers on x86_64 and aarch64. None takes a path or an address, or reaches another process."""

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_KILL, _ALLOW, _DENY = 0x80000000, 0x7FFF0000, 0x00050000 | errno.EPERM
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2


def _main() -> None:
    """Read the job, lock, run."""
    job = json.load(sys.stdin)
    for name in _MODULES:
        importlib.import_module(name)
    try:
        _limit(job["seconds"])
        kind = _lock()
        _try_to_leave()
    except (OSError, AttributeError, ValueError) as error:
        _say({"refused": str(error)})
        return
    _say({"locked": kind})
    _say({"answers": _answers(job["code"], job["function"], job["cases"])})


def _lock() -> str:
    """Give up all that reaches beyond this process; the name of what sees to it.

    Raises:
        OSError: It cannot be done here.
    """
    if sys.platform == "darwin":
        message = ctypes.c_char_p()
        if ctypes.CDLL(None).sandbox_init(b"pure-computation", ctypes.c_uint64(_NAMED), ctypes.byref(message)):
            raise OSError(f"sandbox_init: {(message.value or b'').decode(errors='replace')}")
        return "sandbox_init"
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in _AUDIT:
        raise OSError(f"no way is known to lock a process in on {sys.platform} {machine}")
    rules = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _AUDIT[machine]), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    for numbers in _ALLOWED.values():
        rules += [(_EQUAL, 0, 1, numbers[machine == "aarch64"]), (_RETURN, 0, 0, _ALLOW)]
    rules.append((_RETURN, 0, 0, _DENY))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(rules), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), ctypes.c_ulong(0)),
        (_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.byref(program)),
    ):
        if libc.prctl(*arguments, ctypes.c_ulong(0), ctypes.c_ulong(0)):
            raise OSError(f"seccomp: {os.strerror(ctypes.get_errno())}")
    return "seccomp"


def _limit(seconds: int) -> None:
    """Bounds that hold even if the lock did not: the kernel ends the process a second after its time at the latest."""
    for kind, most in (
        (resource.RLIMIT_CPU, seconds + 1),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _FILES),
        *([(resource.RLIMIT_AS, _MEMORY)] if sys.platform.startswith("linux") else []),  # macOS takes none that holds
    ):
        hard = resource.getrlimit(kind)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))
    signal.alarm(seconds + 1)


def _try_to_leave() -> None:
    """Try what must not be possible.

    Raises:
        OSError: It is.
    """
    ways: dict[str, Callable[[], Any]] = {
        "read a file": lambda: os.close(os.open(__file__, os.O_RDONLY)),
        "list a folder": lambda: os.listdir("/"),  # noqa: PTH208 - nothing is to be between
        "open a socket": lambda: socket.socket().close(),
        "start a process": _fork,
    }
    for name, way in ways.items():
        try:
            way()
        except PermissionError:
            continue
        raise OSError(f"it can still {name}")


def _fork() -> None:
    if not os.fork():
        os._exit(0)


def _answers(code: str, function: str, cases: list[list[Any]]) -> list[dict[str, Any]]:
    """What the function that the code defines answers in each case, or its error."""
    names: dict[str, Any] = {"__name__": "answer"}
    try:
        exec(compile(code, "answer", "exec"), names)  # noqa: S102 - this is what all of it is for
        called = names[function]
    except BaseException as error:  # noqa: BLE001 - also of `exit()`
        return [{"error": _told(error)}] * len(cases)
    answers: list[dict[str, Any]] = []
    for arguments in cases:
        try:
            answers.append({"value": json.loads(json.dumps(called(*arguments), allow_nan=False))})
        except BaseException as error:  # noqa: BLE001 - as above
            answers.append({"error": _told(error)})
    return answers


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _say(line: object) -> None:
    # Foreign code may have printed half a line, and may have replaced `sys.stdout`.
    os.write(1, f"\n{json.dumps(line)}\n".encode())


if __name__ == "__main__":
    _main()
    os._exit(0)
