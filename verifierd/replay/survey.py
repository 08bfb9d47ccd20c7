"""What is in a log, without predicting anything: the work of `verifierd inspect`."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from verifierd.adapters import detect, open_adapter
from verifierd.errors import FormatError, SourceError
from verifierd.sources import open_source
from verifierd.stages import Adapter
from verifierd.types import Record, Step

__all__ = ("survey", "total")

_HEAD = 64
_SIZE = 256 * 1024


async def survey(path: Path | None, *, format: str = "auto") -> dict[str, Any]:
    """One file of the JSON that `inspect` prints; None is standard input.

    Raises:
        SourceError: The file cannot be read.
        FormatError: Its format is not known.
    """
    source = open_source("-" if path is None else path)
    counts = _Counts()
    head: list[Record] = []
    adapter: Adapter | None = None if format == "auto" else open_adapter(format, path=source.path)
    try:
        while True:
            records = list(await source.read(records=256, size=_SIZE))
            ended = not records
            if ended and (rest := await source.tail()) is not None:
                source.accept(rest)
                records.append(rest)
            if adapter is None:
                head.extend(records)
                if len(head) < _HEAD and not ended:
                    continue
                records, head = head, []
                adapter = _adapter(records, source.path)
            for record in records:
                counts.add(adapter.feed(record))
            if ended:
                break
    finally:
        await source.aclose()
    counts.add(adapter.finish())
    return {
        "path": source.path,
        "format": adapter.format,
        "version": adapter.counts.version,
        **counts.document(adapter),
    }


def total(files: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """All files added up."""
    added: dict[str, Any] = {"files": 0}
    for file in files:
        added["files"] += 1
        for key, value in file.items():
            if isinstance(value, int):
                added[key] = added.get(key, 0) + value
            elif isinstance(value, dict):
                added[key] = dict(Counter(added.get(key, {})) + Counter(value))
    return added


def _adapter(records: list[Record], path: str) -> Adapter:
    name = detect([record.data for record in records], path)
    if name is None:
        if not any(record.data.strip() for record in records):
            raise FormatError(f"{path}: empty", hint="There is nothing to read in it yet.")
        raise FormatError(
            f"{path}: in no format that verifierd knows", hint="If it is an agent's log, name its format with --format."
        )
    return open_adapter(name, path=path)


class _Counts:
    def __init__(self) -> None:
        self._trajectories: set[str] = set()
        self._steps = 0
        self._kinds: Counter[str] = Counter()
        self._tools: Counter[str] = Counter()
        self._shell = 0

    def add(self, steps: Iterable[Step]) -> None:
        for step in steps:
            self._trajectories.add(step.trajectory)
            self._steps += 1
            self._kinds[step.observation_kind.value] += 1
            self._tools[step.tool] += 1
            self._shell += step.action.command is not None

    def document(self, adapter: Adapter) -> dict[str, Any]:
        counts = adapter.counts
        return {
            "trajectories": len(self._trajectories),
            "records": counts.records,
            "steps": self._steps,
            "shell_steps": self._shell,
            "calls": counts.calls,
            "paired": counts.paired,
            "duplicates": counts.duplicates,
            "salvaged": counts.salvaged,
            "by_kind": dict(self._kinds.most_common()),
            "by_tool": dict(self._tools.most_common()),
            "unknown_records": dict(counts.unknown),
            "quarantined": dict(counts.quarantined),
        }
