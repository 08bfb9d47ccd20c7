"""The line of a log that a step came from, read where the step says that it stood, and made fit to be shown."""

import gzip
import json
import os
import stat
from collections.abc import Callable
from typing import Any, Literal

import anyio
import msgspec
from anyio import to_thread
from msgspec.structs import replace

from verifierd.adapters.parse import parse
from verifierd.sanitize import SHORT
from verifierd.store import FileState
from verifierd.types import Step

__all__ = ("Shown", "shown_record")

_LINE = 2 * 1024**2  # bytes of a line that is shown at all
_BEFORE = 64 * 1024**2  # bytes of an archive that are unpacked before it
_TEXT = 20_000  # characters of one text in it
_WHOLE = 200_000  # characters
_PARTS = 20_000  # texts, numbers and the like
_PATH = 4096
_SEEN = 200  # characters by which an observation is known
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC

_limiter = anyio.CapacityLimiter(2)

Text = Callable[[str, int | None], str]
State = Literal["ok", "changed", "gone", "unreadable", "too_long", "hidden", "forgotten"]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it stands in its log now.

    Attributes:
        state: `ok`; `changed` if something else stands there; `gone` with its file; `unreadable`; `too_long` to be
            shown; `hidden` where nothing is to be quoted; `forgotten` where the step is not kept any more.
        note: The same in words.
        path, offset: Where.
        length: Bytes of the line, where it was found.
        text: The record, as JSON made readable; None where there is none to show.
    """

    state: State
    note: str = ""
    path: str | None = None
    offset: int | None = None
    length: int | None = None
    text: str | None = None


class _NotThereError(Exception):
    """What was found in place of the line."""

    def __init__(self, state: State, note: str) -> None:
        super().__init__(note)
        self.state = state
        self.note = note


async def shown_record(step: Step, file: FileState | None, *, quotes: str, text: Text) -> Shown:
    """The record that completed a step.

    Args:
        step: The step, as it was kept.
        file: What is known of its file, if anything.
        quotes: How much may be quoted: `off`, `short` or `full`.
        text: Makes a text fit to be shown, and cuts it.
    """
    there = Shown(state="ok", path=text(step.origin.path, _PATH), offset=step.origin.offset)
    if quotes == "off":
        return replace(there, state="hidden", note="The policy quotes nothing of a log.")
    try:
        line = await to_thread.run_sync(_read, step, file, limiter=_limiter)
        limit = SHORT if quotes == "short" else _TEXT
        shown = await to_thread.run_sync(_render, line, step, limit, text, limiter=_limiter)
    except _NotThereError as error:
        return replace(there, state=error.state, note=error.note)
    return replace(there, length=len(line), text=shown)


def _read(step: Step, file: FileState | None) -> bytes:
    """The bytes of the line."""
    origin = step.origin
    if origin.path == "-":
        raise _NotThereError("gone", "It came by standard input, which cannot be read again.")
    try:
        descriptor = os.open(origin.path, _OPEN)
    except FileNotFoundError:
        raise _NotThereError("gone", "The log is not there any more.") from None
    except (OSError, ValueError) as error:
        raise _NotThereError("unreadable", "The log cannot be opened.") from error
    try:
        with os.fdopen(descriptor, "rb") as log:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _NotThereError("changed", "What is there now is no plain file.")
            if file is not None and file.position.dev and (status.st_dev, status.st_ino) != _inode(file):
                raise _NotThereError("changed", "Another file is there now.")
            if log.peek(2)[:2] == b"\x1f\x8b":
                with gzip.open(log) as unpacked:
                    return _line(unpacked, origin.offset, packed=True)
            return _line(log, origin.offset)
    except (OSError, EOFError) as error:
        raise _NotThereError("unreadable", "The log cannot be read.") from error


def _inode(file: FileState) -> tuple[int, int]:
    return file.position.dev, file.position.ino


def _line(log: Any, offset: int, *, packed: bool = False) -> bytes:
    if packed and offset > _BEFORE:
        raise _NotThereError("too_long", "It stands too far inside an archive to be shown here.")
    before = max(0, offset - 1)
    log.seek(before)
    found: bytes = log.read(offset - before + _LINE + 1)
    if offset and found[:1] != b"\n":
        raise _NotThereError("changed", "The log was rewritten: no line begins there now.")
    line, end, _ = found[offset - before :].partition(b"\n")
    if not end and len(line) > _LINE:
        raise _NotThereError("too_long", f"The line is longer than {_LINE // 1024**2} MiB.")
    return line


def _render(line: bytes, step: Step, limit: int, text: Text) -> str:
    """Readable JSON. Texts are made fit one by one: escapes would hide from what looks for secrets."""
    found = parse(line).objects
    if not found:
        raise _NotThereError("changed", "The log was rewritten: no record stands there now.")
    maker = _Maker(step, limit, text)
    made = [maker.make(one) for one in found]
    if not maker.known:
        raise _NotThereError("changed", "The log was rewritten: another record stands there now.")
    whole = json.dumps(made[0] if len(made) == 1 else made, ensure_ascii=False, indent=2)
    return text(whole, _WHOLE)


class _Maker:
    """Makes what a record holds fit to be shown, and sees whether it is the step's."""

    def __init__(self, step: Step, limit: int, text: Text) -> None:
        self._text = text
        self._limit = limit
        self._left = _PARTS
        self._call = step.call_id
        self._seen = step.observation.strip()[:_SEEN]
        self.known = not self._call and not self._seen

    def make(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            return "…"
        match value:
            case str():
                if not self.known:
                    self.known = value == self._call or (bool(self._seen) and self._seen in value)
                return self._text(value, self._limit)
            case dict():
                return {self._text(str(name), self._limit): self.make(of) for name, of in value.items()}
            case list():
                return [self.make(of) for of in value]
            case _:
                return value
