"""What the adapters have in common: lines are decoded once, damage is salvaged and counted, never raised."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from verifierd.adapters.parse import FAILURES, fit, parse
from verifierd.errors import StateError
from verifierd.stages import Counts
from verifierd.types import Origin, Record, Step

__all__ = ("LineAdapter", "Recent", "join_blocks", "unload")

Line = TypeVar("Line", bound=msgspec.Struct)
State = TypeVar("State", bound=msgspec.Struct)

_NAMES = 50
_UNFIT = re.compile(r"[^a-z0-9_./-]")


class LineAdapter(ABC, Generic[Line]):
    """An adapter of a JSONL format. Subclasses name the Struct of a line and read it.

    The Struct holds only the fields that matter, so msgspec passes over the rest of a line without building it.

    Args:
        path: The file, as the source names it.
    """

    format: ClassVar[str]

    def __init__(self, line: type[Line], *, path: str) -> None:
        self.path = path
        self.counts = Counts()
        self._line = line
        self._decode = msgspec.json.Decoder(line).decode

    def feed(self, record: Record) -> Iterable[Step]:
        """The steps that this line completes. Never raises on bad input: what cannot be read is counted."""
        self.counts.records += 1
        if record.problem is not None:
            self._quarantine(record.problem)
            return ()
        try:
            line = self._decode(record.data)
        except FAILURES:
            return self._feed_damaged(record)
        return self._read(line, record.origin)

    @abstractmethod
    def _read(self, line: Line, origin: Origin) -> Iterable[Step]:
        """The steps that a decoded line completes."""

    def _accept(self, value: dict[str, Any]) -> Line | None:
        """A line made of an object that does not fit the Struct; None if nothing can be made of it."""
        return fit(self._line, value)

    def _feed_damaged(self, record: Record) -> Iterable[Step]:
        found = parse(record.data)
        if found.damage is not None and found.lost:
            self._quarantine(found.damage)
        if found.damage is not None:
            self.counts.salvaged += len(found.objects)
        steps: list[Step] = []
        for value in found.objects:
            line = self._accept(value)
            if line is not None:
                steps.extend(self._read(line, record.origin))
        return steps

    def _quarantine(self, reason: str) -> None:
        self.counts.quarantined[reason] = self.counts.quarantined.get(reason, 0) + 1

    def _unknown(self, name: object) -> None:
        """Count a record type that this adapter does not know; names come from the log and are made harmless."""
        word = _UNFIT.sub("_", str(name).lower()[:40]) if isinstance(name, str) and name else "untyped"
        unknown = self.counts.unknown
        if word not in unknown and len(unknown) >= _NAMES - 1:
            word = "other"
        unknown[word] = unknown.get(word, 0) + 1


class Recent:
    """The last so many ids that were seen, each as eight bytes, so that an endless log needs bounded memory.

    Args:
        limit: How many.
    """

    _SIZE = 8

    def __init__(self, limit: int = 16_384) -> None:
        self._limit = limit
        self._ids: dict[bytes, None] = {}

    def __contains__(self, name: str) -> bool:
        return self._hash(name) in self._ids

    def add(self, name: str) -> bool:
        """Remember an id; False if it was known."""
        key = self._hash(name)
        if key in self._ids:
            return False
        self._ids[key] = None
        if len(self._ids) > self._limit:
            del self._ids[next(iter(self._ids))]
        return True

    def dump(self) -> bytes:
        """The ids as one run of bytes, oldest first."""
        return b"".join(self._ids)

    def load(self, data: bytes) -> None:
        """Take up dumped ids."""
        self._ids = {data[at : at + self._SIZE]: None for at in range(0, len(data), self._SIZE)}

    def _hash(self, name: str) -> bytes:
        return blake2b(name.encode(), digest_size=self._SIZE).digest()


def unload(state: bytes, kind: type[State]) -> State:
    """A dumped state.

    Raises:
        StateError: Another version of this program wrote it.
    """
    try:
        return msgspec.json.decode(state, type=kind)
    except msgspec.DecodeError as error:
        raise StateError(
            f"the saved state of an adapter cannot be read: {error}", hint="`verifierd state reset` reads from scratch."
        ) from error


def join_blocks(blocks: Iterable[Any]) -> str:
    """The text of a list of content blocks; what is no text becomes its type in brackets, such as `[image]`."""
    whole = ""
    for block in blocks:
        text = _block_text(block)
        if text is not None:
            whole += text if not whole or whole.endswith("\n") else "\n" + text
    return whole


def _block_text(block: object) -> str | None:
    if not isinstance(block, dict):
        return block if isinstance(block, str) else None
    text, kind = block.get("text"), block.get("type")
    if isinstance(text, str):
        return text
    return f"[{kind.removeprefix('input_')}]" if isinstance(kind, str) else None
