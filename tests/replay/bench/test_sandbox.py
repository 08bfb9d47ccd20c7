"""Code that tries to get out, for real."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from verifierd.replay.bench import sandbox
from verifierd.replay.bench.sandbox import Case, Ran, lock, run

pytestmark = pytest.mark.skipif(bool(lock()[1]), reason=f"nothing locks code in here: {lock()[1]}")


def _run(body: str, *arguments: Any, seconds: int = 20) -> Ran:
    """The answer of a function of these lines."""
    lines = "\n    ".join(body.splitlines())
    return run(f"def one(*given):\n    {lines}\n", "one", [arguments], seconds=seconds)


def _error(body: str, *arguments: Any) -> str:
    return _errors([body], *arguments)[0]


def _errors(bodies: Sequence[str], *arguments: Any) -> list[str]:
    """The errors of several bodies in one process, each given the same arguments."""
    code = "".join(
        f"def body{place}(*given):\n" + "".join(f"    {line}\n" for line in body.splitlines())
        for place, body in enumerate(bodies)
    )
    code += "def one(place, *given):\n    return globals()[f'body{place}'](*given)\n"
    ran = run(code, "one", [(place, *arguments) for place in range(len(bodies))], seconds=20)
    assert ran.lock
    assert not ran.problem
    return [case.error for case in ran.cases]


def _denied(*bodies: str, given: Any = None) -> bool:
    """Does the kernel refuse each?"""
    return all("Errno 1]" in error for error in _errors(bodies, given))


def test_what_it_is_for() -> None:
    """A function is called with each case's arguments; what JSON cannot tell, and what it raises, is an error."""
    code = "import math\n\ndef half(number):\n    return number // 2, math.isqrt(number)\n"

    ran = run(code, "half", [(9,), (4,), ("a",), ()], seconds=20)

    assert ran.lock == lock()[0]
    assert ran.cases[:2] == (Case(value=[4, 3]), Case(value=[2, 2]))
    assert ran.cases[2].error.startswith("TypeError: unsupported operand")
    assert ran.cases[3].error.startswith("TypeError: half() missing")
    assert "not JSON serializable" in _error("return object()")
    assert "not JSON compliant" in _error("return float('nan')")
    assert _error("exit()") == "NameError: name 'exit' is not defined"
    assert _error("raise SystemExit(3)") == "SystemExit: 3"


@pytest.mark.parametrize(
    ("code", "error"),
    [("def one(:", "SyntaxError"), ("import nope", "ModuleNotFoundError"), ("two = 2", "KeyError: 'one'"), ("\0", "")],
)
def test_code_without_the_function(code: str, error: str) -> None:
    """Is an error of each case."""
    ran = run(code, "one", [(1,), (2,)], seconds=20)
    assert len(ran.cases) == 2
    assert all(error in case.error and case.error for case in ran.cases)


def test_the_home_directory(tmp_path: Path) -> None:
    """It cannot be read, and neither can any other file, also where Python itself lies."""
    secret = tmp_path / "secret.txt"
    secret.write_text("hush")
    for place in (secret, Path.home() / ".bashrc", Path("/etc/passwd"), Path(os.__file__), tmp_path, Path.home()):
        assert _denied(
            "return open(given[0]).read()",
            "import os\nreturn os.stat(given[0]).st_size",
            "import os\nreturn os.listdir(given[0])",
            "import os\nreturn os.chdir(given[0])",
            "import os\nreturn os.readlink(given[0])",
            given=str(place),
        )


def test_nothing_is_written(tmp_path: Path) -> None:
    """No file is made, changed or removed."""
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    assert _denied(
        "return open(given[0] + 'new', 'w').write('x')",
        "return open(given[0], 'a').write('x')",
        "import os\nreturn os.remove(given[0])",
        "import os\nreturn os.rename(given[0], given[0] + 'new')",
        "import os\nreturn os.symlink(given[0], given[0] + 'new')",
        "import os\nreturn os.mkdir(given[0] + 'new')",
        "import os\nreturn os.truncate(given[0], 0)",
        given=str(kept),
    )
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]
    assert kept.read_text() == "as it was"


def test_the_network() -> None:
    """No socket can be made, of any kind; a listener next door hears nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        assert _denied(
            "import socket\nreturn socket.socket().connect(('127.0.0.1', given[0]))",
            "import socket\nreturn socket.socket(socket.AF_INET6)",
            "import socket\nreturn socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
            "import socket\nreturn socket.socket(socket.AF_UNIX)",
            "import socket\nreturn socket.socketpair()",
            given=server.getsockname()[1],
        )
        with pytest.raises(TimeoutError):
            server.accept()


def test_processes() -> None:
    """None can be started, none signalled, and no thread begun."""
    assert _denied(
        "import os\nreturn os.fork()",
        "import os\nreturn os.execv('/bin/true', ['true'])",
        "import os\nreturn os.kill(os.getpid() - 1, 0)",
        "import os\nreturn os.kill(given[0], 9)",
        given=os.getpid(),
    )
    assert _error("import threading\nthreading.Thread(target=print).start()") == "RuntimeError: can't start new thread"
    assert "ModuleNotFoundError" in _error("import subprocess")


def test_secrets_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is empty, this process's cannot be read, and nothing inherited is open."""
    monkeypatch.setenv("VERIFIERD_SECRET", "hush")
    found = _run("import os\nreturn sorted(os.environ)").cases[0].value
    assert "VERIFIERD_SECRET" not in found
    assert "Errno 1]" in _error("return open(f'/proc/{given[0]}/environ').read()", os.getpid())
    with open(os.devnull) as other:  # noqa: PTH123 - a file that is open while it runs
        os.set_inheritable(other.fileno(), True)
        assert "Errno 9]" in _error("import os\nreturn os.read(given[0], 1)", max(other.fileno(), 3))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="calls by number")
def test_calls_past_python() -> None:
    """Machine code is as locked in as Python: the kernel refuses."""
    calls = ["ptrace(0, 0, 0, 0)", "unshare(0x10000000)", "chroot(b'/')", "syscall(425, 1, 0)", "vfork()", "dup(1)"]
    body = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    body += f"return [(libc.{'), (libc.'.join(f'{call}, ctypes.get_errno()' for call in calls)})]"
    assert _run(body).cases[0].value == [[-1, 1]] * len(calls)


@pytest.mark.parametrize("body", ["while True:\n    pass", "import time\ntime.sleep(60)", "return 9 ** 9 ** 9"])
def test_time(body: str) -> None:
    """It does not outlive its limit, whether it computes or sleeps, within Python or within one call."""
    begun = time.monotonic()
    ran = _run(body, seconds=1)
    assert ran.problem == "it ran longer than 1 s"
    assert ran.lock
    assert time.monotonic() - begun < 30


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="macOS lets a process choose")
def test_the_alarm_stays() -> None:
    """It cannot put off the signal by which the kernel ends it, if nobody else does."""
    assert _denied(
        "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)",
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)",
        "import signal\nsignal.pthread_sigmask(0, [14])",
    )


def test_it_ends_without_its_parent() -> None:
    """The kernel ends it a second after its time."""
    jail = Path(sandbox.__file__).with_name("jail.py")
    job = b'{"code": "while True: pass", "function": "one", "cases": [], "seconds": 1}'
    done = subprocess.run([sys.executable, "-I", "-S", jail], input=job, capture_output=True, check=False, timeout=30)
    assert done.returncode < 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="macOS bounds no memory")
def test_memory() -> None:
    """It is bounded; the rest of its cases still run."""
    ran = run("def one(size):\n    return len(bytes(size))\n", "one", [(1 << 30,), (5,)], seconds=20)
    assert ran.cases[0].error.startswith("MemoryError")
    assert ran.cases[1].value == 5


@pytest.mark.parametrize("body", ["return 'x' * (1 << 17)", "import os\nwhile True:\n    os.write(1, b'x' * 4096)"])
def test_much_output(body: str) -> None:
    """It is not read to its end."""
    assert _run(body).problem == "it printed more than 64 KiB"


def test_prints_do_no_harm() -> None:
    """What it prints is not taken for an answer, and neither is what it says itself of how it is locked in."""
    assert _run("print('half a line', end='')\nreturn 1").cases == (Case(value=1),)
    assert _run("import os\nos.write(1, b'half a line')\nreturn 1").cases == (Case(value=1),)
    forged = 'import os\nos.write(1, b\'\\n{"refused": "no"}\\n\')\nos._exit(0)'
    assert _run(forged) == Ran(lock=lock()[0], problem="it ended early")
    odd = 'import os\nos.write(1, b\'\\n{"answers": [{"value": 1}, 2]}\\n\')\nos._exit(0)'
    assert _run(odd).problem == "it ended early"


@pytest.mark.parametrize(
    ("body", "problem"),
    [("import os\nos._exit(3)", "it ended early"), ("import ctypes\nctypes.string_at(0)", "ended by SIGSEGV")],
)
def test_it_dies(body: str, problem: str) -> None:
    """That is told."""
    assert _run(body).problem == problem


def test_many_at_once() -> None:
    """Runs do not disturb each other."""
    found: list[Any] = [None] * 4

    def work(place: int) -> None:
        found[place] = _run("return given[0]", place).cases[0].value

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0, 1, 2, 3]


def test_no_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no folder can be made the code is not run."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert _run("return 1").refused == "no process can be started: No such file or directory"


def test_no_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the kernel does not lock it in, or the lock does not hold, the code is not run."""
    source = Path(sandbox.__file__).with_name("jail.py").read_text()
    for change, refused in (
        ('raise OSError("none")', "none"),
        ('return "a wish"', "it can still read a file"),
    ):
        jail = tmp_path / "jail.py"
        begins = source.index('    if sys.platform == "darwin":')
        jail.write_text(f"{source[:begins]}    {change}\n{source[begins:]}")
        monkeypatch.setattr(sandbox, "_JAIL", jail)
        mark = tmp_path / "ran"
        assert _run(f"open({str(mark)!r}, 'w')") == Ran(refused=refused)
        assert not mark.exists()
