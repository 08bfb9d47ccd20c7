"""The child process that holds the virtual shells: `python -m verifierd.predictors.shell.worker`.

A script can kill the virtual shell (`eval` that calls itself overflows its stack), so it lives here, with limits, and
its death costs one prediction. It speaks length-prefixed msgpack over its standard input and output, one answer to a
question, and it ends with its input.
"""

import contextlib
import resource
import sys
import time
from collections import OrderedDict
from typing import BinaryIO

import msgspec

from verifierd.predictors.shell.envelope import Envelope
from verifierd.predictors.shell.profile import Profile
from verifierd.predictors.shell.sight import HEADER, Answer, Question, Sight
from verifierd.predictors.shell.world import KINDS, World
from verifierd.predictors.shell.worlds import Session
from verifierd.types import Abstain

__all__ = ("main",)

_ADDRESS_SPACE = 1 << 30
# Each virtual shell keeps three descriptors of its event loop, of nothing outside; and a few for the rest.
_FILES_PER_SESSION = 3 * len(KINDS)
_FILES = 96
# Of processor time for one question; the parent's deadline comes first unless the parent is gone.
_CPU_SECONDS = 10
_SESSIONS = 128
# Characters taken in by all sessions together, a measure of what they hold.
_CHARACTERS = 32 << 20


class _Desk:
    """The sessions, the least recently used one thrown out first."""

    def __init__(self, envelope: Envelope, limit: int) -> None:
        self._envelope = envelope
        self._limit = limit
        self._spare: list[World] = []
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        # What one session of a log shows of its shell holds for the log's others.
        self._lasting: set[str] = set()

    def answer(self, question: Question) -> Answer:
        session = self._sessions.get(question.session)
        first = next(iter((*question.past, question.step)), None)
        if question.at == 0 and (
            session is None or session.at != 0 or (first is not None and not session.follows(first))
        ):
            session = self._open(question)
        if session is None or session.at != question.at:
            return Answer(known=False)
        self._sessions.move_to_end(question.session)
        answer = Answer()
        for sight in (*question.past, *([question.step] if question.step else ())):
            at = session.at
            try:
                answer = _ask(session, sight, predict=sight is question.step)
            except MemoryError:
                # Best to start over in a new process, which the parent sees to.
                raise
            except Exception as problem:  # noqa: BLE001 - whatever a hostile command breaks must cost one step alone
                session = self._open(question)
                session.at = at + (sight is not question.step)
                answer = Answer(abstain=Abstain.PREDICTOR_ERROR, detail=f"{type(problem).__name__}: {problem}"[:200])
            if not answer.known:
                break
        self._evict()
        return answer

    def restock(self) -> None:
        """Make one more world beforehand, so that the first step of a trajectory does not wait for all of them."""
        if len(self._spare) < len(KINDS):
            self._spare.append(World(len(self._spare)))

    def _open(self, question: Question) -> Session:
        worlds, self._spare = self._spare, []
        format_ = next((sight.format for sight in (*question.past, question.step) if sight is not None), "")
        session = Session(self._envelope, Profile(question.profile, format_), worlds, self._lasting)
        self._sessions[question.session] = session
        return session

    def _evict(self) -> None:
        held = sum(session.weight for session in self._sessions.values())
        while len(self._sessions) > self._limit or (held > _CHARACTERS and len(self._sessions) > 1):
            _, session = self._sessions.popitem(last=False)
            held -= session.weight


def _ask(session: Session, sight: Sight | None, *, predict: bool) -> Answer:
    if sight is None:
        session.skip()
        return Answer()
    if not session.follows(sight):
        return Answer(known=False)
    if predict:
        return session.predict(sight)
    session.observe(sight)
    return Answer()


def main() -> None:
    """Answer questions until the input ends. The first message is the envelope's document."""
    limit = _confine()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    document = _receive(source)
    if document is None:
        return
    desk = _Desk(Envelope.load(document.decode()), limit)
    decoder = msgspec.msgpack.Decoder(Question)
    encoder = msgspec.msgpack.Encoder()
    while (message := _receive(source)) is not None:
        _allow_cpu()
        data = encoder.encode(desk.answer(decoder.decode(message)))
        sink.write(len(data).to_bytes(HEADER, "big") + data)
        sink.flush()
        desk.restock()


def _receive(source: BinaryIO) -> bytes | None:
    header = source.read(HEADER)
    if len(header) < HEADER:
        return None
    size = int.from_bytes(header, "big")
    data = source.read(size)
    return data if len(data) == size else None


def _confine() -> int:
    """Set limits; returns how many sessions fit into them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _FILES + _SESSIONS * _FILES_PER_SESSION
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, files)]
    for kind, limit in [*limits, (resource.RLIMIT_AS, _ADDRESS_SPACE)]:
        # macOS refuses a limit on the address space.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (limit, limit))
    return max(1, (files - _FILES) // _FILES_PER_SESSION)


def _allow_cpu() -> None:
    """An orphan in an endless loop ends by itself."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + _CPU_SECONDS, hard))


if __name__ == "__main__":
    main()
