"""Verdicts as input of a program: one start for each, without a shell, for a limited time."""

from collections.abc import Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryFile
from typing import BinaryIO

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream, Process

from verifierd.paths import expanded
from verifierd.processes import kill_group
from verifierd.sanitize import plain
from verifierd.sinks.outbox import Due, Later, Refused

__all__ = ("Command",)

_TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h
_HEARD = 8192  # bytes of what it complains about; secrets in them are taken out before they are cut
_SAID = 500  # characters of it that are told


class Command:
    """Starts a program for each verdict, with the verdict's line of the JSONL on its standard input.

    Exit status 0 means taken, 75 try again later, any other one not taken. What takes too long is killed with all that
    it started, and was not taken.

    Args:
        words: The program and its arguments, passed as they are; nothing of a verdict is ever among them.
        seconds: That it may take.
    """

    kind = "command"

    def __init__(self, words: Sequence[str], *, seconds: float = 10.0) -> None:
        self._words = [str(expanded(words[0])) if words[0].startswith("~") else words[0], *words[1:]]
        self._seconds = seconds
        self.target = plain(self._words[0])

    async def deliver(self, due: Due) -> None:
        """Run it once."""
        try:
            # A file, as a pipe would stay open for as long as something that it left behind does not read it.
            with await to_thread.run_sync(_file, due.line + b"\n") as line:
                process = await anyio.open_process(
                    self._words, stdin=line, stdout=DEVNULL, stderr=PIPE, start_new_session=True
                )
        except OSError as error:
            raise Later(f"cannot be started: {error.strerror or error}") from error
        said = bytearray()
        try:
            with anyio.move_on_after(self._seconds) as time:
                await _wait(process, said)
        finally:
            await _end(process)
        if time.cancelled_caught:
            raise Refused(f"did not end within {self._seconds:g} s")
        if status := process.returncode:
            why = f"exit status {status}: {plain(said.decode('utf-8', 'replace').strip())[:_SAID]}".removesuffix(": ")
            raise Later(why) if status == _TRY_AGAIN else Refused(why)

    async def aclose(self) -> None:
        """Nothing is held."""


def _file(data: bytes) -> BinaryIO:
    """A file without a name that reads so."""
    file: BinaryIO = TemporaryFile(buffering=0)  # noqa: SIM115 - closed by who asked
    file.write(data)
    file.seek(0)
    return file


async def _wait(process: Process, said: bytearray) -> None:
    """Wait for its end, and keep the beginning of what it complains about."""
    assert process.stderr is not None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_listen, process.stderr, said)
        await process.wait()
        tasks.cancel_scope.deadline = anyio.current_time() + 0.1  # what it left behind may hold its pipe open


async def _listen(stream: ByteReceiveStream, said: bytearray) -> None:
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            said += (await stream.receive())[: _HEARD - len(said)]


async def _end(process: Process) -> None:
    """Make sure that it has ended, also where we are cancelled ourselves."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            kill_group(process.pid)
            await process.wait()
        await process.aclose()
