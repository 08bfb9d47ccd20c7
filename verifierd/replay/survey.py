"""What is in a log, without predicting anything: the work of `verifierd inspect`."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from verifierd.adapters import FORMATS, detect, open_adapter
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.state.profile import Profile
from verifierd.errors import FormatError
from verifierd.pipeline import closed
from verifierd.sanitize import plain
from verifierd.sources import open_source
from verifierd.stages import Adapter, Source
from verifierd.types import Record, Step

__all__ = ("names_in", "not_understood", "steps_of", "survey", "total")

_HEAD = 64
_SIZE = 256 * 1024
_PROFILES = 1000


async def survey(path: Path | None, *, format: str = "auto") -> dict[str, Any]:
    """One file of the JSON that `inspect` prints, fit to be shown; None is standard input.

    Raises:
        SourceError: The file cannot be read.
        FormatError: Its format is not known.
    """
    counts = _Counts()
    name, adapter = await _read(path, format, counts.add)
    return {
        "path": plain(name),
        "format": adapter.format,
        "version": None if adapter.counts.version is None else plain(adapter.counts.version),
        **counts.document(adapter),
    }


async def steps_of(path: Path | None, *, format: str = "auto") -> list[Step]:
    """All steps of one file; None is standard input.

    Raises:
        SourceError: The file cannot be read.
        FormatError: Its format is not known.
    """
    steps: list[Step] = []
    await _read(path, format, steps.extend)
    return steps


async def names_in(path: Path, *, format: str = "auto") -> set[tuple[str, ...]]:
    """What another file may know the steps of this one by: trajectories, and calls that a resumed session copies.

    Raises:
        SourceError: The file cannot be read.
        FormatError: Its format is not known.
    """
    names: set[tuple[str, ...]] = set()

    def add(steps: Iterable[Step]) -> None:
        for step in steps:
            names.add(step.key)
            if (copy_id := step.copy_id) is not None:
                names.add((copy_id,))

    await _read(path, format, add)
    return names


async def _read(path: Path | None, format: str, add: Callable[[Iterable[Step]], None]) -> tuple[str, Adapter]:
    """Hand on the steps of a file; its name and its adapter."""
    source = open_source("-" if path is None else path)
    adapter: Adapter | None = None if format == "auto" else open_adapter(format, path=source.path)
    head: list[Record] = []
    empty = True
    try:
        async for record in _records(source):
            head.append(record)
            if adapter is None:
                empty = empty and not record.data.strip() and record.problem is None
                name = detect([record.data], source.path)
                if name is None:
                    head = head[-_HEAD:]  # as many as the pipeline holds until it knows the format
                    continue
                adapter = open_adapter(name, path=source.path)
            for held in head:
                add(adapter.feed(held))
            head.clear()
    finally:
        await source.aclose()
    if adapter is None:
        raise not_understood(source.path, empty=empty)
    add(adapter.finish())
    return source.path, adapter


async def _records(source: Source) -> AsyncIterator[Record]:
    """All there is, the unterminated end included."""
    while records := await source.read(records=256, size=_SIZE):
        for record in records:
            yield record
    if (tail := await source.tail()) is not None:
        source.accept(tail)
        yield closed(tail)


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


def not_understood(path: str, *, empty: bool) -> FormatError:
    """What to say of a file in which no step was found because its format is not known."""
    if empty:
        return FormatError(f"{path}: is empty", hint="There is nothing to read in it yet.")
    return FormatError(
        f"{path}: is in no format that verifierd knows",
        hint=f"If it is an agent's log, name its format: --format {'|'.join(FORMATS)}.",
    )


def _shown(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by names that logs chose, largest first; names that look alike when they are shown are one."""
    shown: Counter[str] = Counter()
    for name, count in counts.items():
        shown[plain(name)] += count
    return dict(shown.most_common())


class _Counts:
    def __init__(self) -> None:
        self._contracts = Contracts(bundled())
        self._profiles: dict[str, Profile] = {}
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
            if step.trajectory in self._profiles or len(self._profiles) < _PROFILES:
                profile = self._profiles.setdefault(step.trajectory, Profile())
                profile.observe(step, *self._contracts.read(profile, step))

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
            "by_tool": _shown(self._tools),
            "unknown_records": _shown(counts.unknown),
            "quarantined": dict(counts.quarantined),
            "profile": self._habits(),
        }

    def _habits(self) -> list[dict[str, Any]]:
        """Each habit with the number of trajectories that have it and the first one's reason."""
        seen: dict[str, dict[str, Any]] = {}
        for profile in self._profiles.values():
            for habit, sentence in profile.evidence.items():
                found = seen.setdefault(habit, {"habit": habit, "trajectories": 0, "evidence": plain(sentence)})
                found["trajectories"] += 1
        return sorted(seen.values(), key=lambda found: str(found["habit"]))
