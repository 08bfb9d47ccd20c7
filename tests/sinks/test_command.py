"""Verdicts as input of a real program."""

import os
import sys
import time
from pathlib import Path

import anyio
import pytest

from verifierd.sinks.command import Command
from verifierd.sinks.outbox import Due, Later, Refused

DUE = Due(7, "v7", b'{"verdict_id":"v7","action":"$(touch evil); `touch evil`"}')


def python(code: str, *arguments: str | Path, seconds: float = 20.0) -> Command:
    return Command([sys.executable, "-c", code, *map(str, arguments)], seconds=seconds)


@pytest.mark.anyio
async def test_it_gets_the_verdict_as_input_and_no_shell(tmp_path: Path) -> None:
    """The line comes on standard input; words are passed as they are, whatever a shell would make of them."""
    out = tmp_path / "out"
    code = "import sys; open(sys.argv[1], 'w').write(sys.argv[2] + sys.stdin.read())"
    await python(code, out, "$HOME; $(touch x)").deliver(DUE)

    assert out.read_text() == "$HOME; $(touch x)" + DUE.line.decode() + "\n"
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208 - not in an async function, says ASYNC240


@pytest.mark.anyio
async def test_statuses() -> None:
    """75 asks to be tried again, any other but 0 is a refusal, with what the program complained about."""
    with pytest.raises(Later):
        await python("raise SystemExit(75)").deliver(DUE)
    with pytest.raises(Refused, match=r"exit status 3: no \\x1b\[31mroom$"):
        await python("import sys; sys.stderr.write('no \\x1b[31mroom\\n'); sys.exit(3)").deliver(DUE)


@pytest.mark.anyio
async def test_a_missing_program_is_waited_for(tmp_path: Path) -> None:
    """It may be mended while we run."""
    with pytest.raises(Later, match="cannot be started: No such file"):
        await Command([str(tmp_path / "none")]).deliver(DUE)


@pytest.mark.anyio
async def test_what_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    """Nothing goes on behind it, and it is not tried again."""
    pids = tmp_path / "pids"
    code = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open(sys.argv[1] + "+", "w").write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + "+", sys.argv[1])
time.sleep(60)
"""
    with pytest.raises(Refused, match="did not end within"):
        await python(code, pids, seconds=1.5).deliver(DUE)

    for pid in map(int, pids.read_text().split()):
        end = time.monotonic() + 10
        while _lives(pid):
            assert time.monotonic() < end
            await anyio.sleep(0.02)


@pytest.mark.anyio
async def test_it_need_not_read_and_may_leave_others_behind() -> None:
    """A megabyte that nobody reads, and a child that keeps the pipes open, hold nothing up."""
    code = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3)"])
"""
    began = time.monotonic()
    await python(code).deliver(Due(8, "v8", b"x" * 1_000_000))
    assert time.monotonic() - began < 3


@pytest.mark.anyio
async def test_a_stop_ends_it(tmp_path: Path) -> None:
    """Where we are stopped, so is what we started."""
    file = tmp_path / "pid"
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(python(code, file).deliver, DUE)
        with anyio.fail_after(10):
            while not (file.exists() and file.read_text()):  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.02)
        tasks.cancel_scope.cancel()

    assert not _lives(int(file.read_text()))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(") ")[2][:1] != "Z"
