"""The parent's end of the worker: start it, ask it, kill it."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from verifierd.predictors.shell.sight import HEADER, Answer, Question
from verifierd.processes import kill_group

__all__ = ("WorkerDied", "WorkerHung", "WorkerProcess")

_WORKER = "verifierd.predictors.shell.worker"
# Spawning includes an interpreter's start on a busy machine.
_START_SECONDS = 30.0
_STILLBORN = 3
_LARGEST = 64 << 20


class WorkerDied(Exception):  # noqa: N818 - it is an event, told to the caller alone
    """The worker ended while it was asked."""


class WorkerHung(Exception):  # noqa: N818 - as above
    """The worker did not answer within the deadline; it was killed."""


class WorkerProcess:
    """One disposable child. Not for concurrent use; after any failure, cancellation included, it is gone.

    Args:
        document: The envelope's document, which the child needs.
        command: How to start the child.
    """

    def __init__(self, document: str, command: Sequence[str] = (sys.executable, "-m", _WORKER)) -> None:
        self.epoch = 0
        # Children in a row that never answered; such a worker is broken, not its question.
        self._stillborn = 0
        self._answered = False
        self._document = document.encode()
        self._command = tuple(command)
        self._process: Process | None = None
        self._answers: BufferedByteReceiveStream | None = None

    async def ask(self, question: Question, *, deadline: float) -> Answer:
        """Ask and wait at most `deadline` seconds for the answer.

        Raises:
            WorkerDied: It crashed.
            WorkerHung: It took too long.
            OSError: It cannot be started.
        """
        if self._stillborn >= _STILLBORN:
            raise OSError("the shell's worker does not start")
        try:
            if self._process is not None and self._process.returncode is not None:
                # It ended while nobody asked, which is nobody's fault.
                await self.aclose()
            if self._process is None:
                with anyio.fail_after(_START_SECONDS):
                    await self._start()
            with anyio.fail_after(deadline):
                answer = await self._exchange(msgspec.msgpack.encode(question))
            self._stillborn, self._answered = 0, True
        except TimeoutError:
            await self.aclose()
            raise WorkerHung from None
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self.aclose()
            raise WorkerDied from None
        except msgspec.MsgspecError:
            await self.aclose()
            raise WorkerDied from None
        except BaseException:
            # Cancelled between question and answer: the next answer would be taken for another question's.
            await self.aclose()
            raise
        return answer

    async def aclose(self) -> None:
        """Kill the child and everything it started, and wait for it."""
        process, self._process, self._answers = self._process, None, None
        if process is None:
            return
        self.epoch += 1
        self._stillborn += not self._answered
        self._answered = False
        with anyio.CancelScope(shield=True):
            kill_group(process.pid)
            await process.aclose()

    async def _start(self) -> None:
        # The package is found where this one was, and nothing else of the environment is passed on.
        home = str(Path(__file__).parents[3])
        self._process = await anyio.open_process(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # A fixed order of sets: the same history gives the same prediction in any process.
            env={"PYTHONPATH": home, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._answers = BufferedByteReceiveStream(self._process.stdout)
        await self._send(self._document)

    async def _exchange(self, message: bytes) -> Answer:
        await self._send(message)
        assert self._answers is not None
        size = int.from_bytes(await self._answers.receive_exactly(HEADER), "big")
        if size > _LARGEST:
            raise msgspec.DecodeError("an answer of absurd size")
        return msgspec.msgpack.decode(await self._answers.receive_exactly(size), type=Answer)

    async def _send(self, message: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        await self._process.stdin.send(len(message).to_bytes(HEADER, "big") + message)
