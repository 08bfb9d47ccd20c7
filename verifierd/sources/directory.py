"""Finds log files under files, folders and globs, once (`expand`) or for as long as it runs (`Watcher`).

Files are polled, on every system: file events miss appends to a file that stays open (macOS) and changes on network
volumes.
"""

import fnmatch
import glob
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from stat import S_ISDIR

import anyio
import msgspec
from anyio import to_thread

from verifierd.errors import SourceError
from verifierd.sources.base import Stamp, look, refusal

__all__ = ("SUFFIXES", "Sighting", "Watcher", "expand", "nothing_found")

SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")

# Files that agents keep beside their sessions, and that are none.
_NO_SESSIONS = (
    "*/workflows/*/journal.jsonl",
    "*/.claude/history.jsonl",
    "*/.codex/history.jsonl",
    "*/.codex/session_index.jsonl",
)

# Seconds between two looks: for a file that just changed, doubling to one that is idle, and one idle for _LONG.
_SHORTEST = 0.25
_IDLE = 2.0
_IDLE_LONG = 5.0
_LONG = 3600.0

# Seconds for which the listing of a folder is believed if its modification time has not changed, and by how much it
# must be older than the listing: within one tick of the file system's clock a second change would not show.
_RELIST = 30.0
_GRANULARITY = 2.0

_Report = Callable[[str, SourceError], None]
_Listings = dict[str, "_Listing"]


def expand(paths: Sequence[str], exclude: Sequence[str] = ()) -> list[Path]:
    """The log files that files, folders and globs stand for, in the order of the paths, sorted within each.

    A file that is named is taken whatever it is called. Folders are searched to any depth for names that end in one
    of `SUFFIXES`; hidden files and folders in them are passed over, and so are known files that hold no session. A
    file that is reached twice, by links or by overlapping globs, is given once. `~` is expanded; `-` stays.

    Args:
        paths: Files, folders and globs, in which `**` is any depth.
        exclude: Globs for whole paths or names that are not wanted, of files or of folders, however they are reached.

    Raises:
        SourceError: A path does not exist, or it or a folder under it cannot be read. A glob that matches nothing
            and a folder without logs are no error: see `nothing_found`.
    """
    unwanted = _matcher(exclude)
    found: dict[tuple[int, int], Path] = {}
    for path in paths:
        if path == "-":
            found[-1, 0] = Path(path)
            continue
        for name in sorted(_find(path, unwanted, _raise)):
            if identity := _identity(name):
                found.setdefault(identity, Path(name))
    return list(found.values())


def nothing_found(paths: Sequence[str]) -> SourceError:
    """What to raise where `expand` found nothing at all."""
    return SourceError(
        f"no agent logs in {', '.join(paths) or 'nothing'}",
        hint=f"looked for names that end in {', '.join(SUFFIXES)}; a file of another name can be named itself",
    )


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """What one look at the watched files found.

    Attributes:
        ready: Files to read: new ones, changed ones and ones to try again, sorted.
        vanished: Files that are no longer there.
        troubles: Paths that began to fail, or to fail differently, with the error; None for one that recovered.
    """

    ready: tuple[Path, ...] = ()
    vanished: tuple[Path, ...] = ()
    troubles: tuple[tuple[Path, SourceError | None], ...] = ()


class Watcher:
    """Says which files want reading. A file is given once, then not again before `done` or `failed` was said of it.

    Paths that do not exist yet are waited for. A file that vanishes is dropped; if it comes back it is new.

    Args:
        paths: Files, folders and globs, as for `expand`.
        exclude: As for `expand`.
        on_trouble: Told when a path begins to fail, and, with None, when it has recovered; once each.
        on_vanished: Told that a file has gone.
        on_look: Told after each look of `wait`: a sign of life.
        scan_seconds: How often folders are searched for new files.
        clock: Seconds that never go back.
        wall: Seconds since the epoch, as modification times are.
    """

    def __init__(
        self,
        paths: Sequence[str],
        exclude: Sequence[str] = (),
        *,
        on_trouble: Callable[[Path, SourceError | None], None] = lambda _path, _error: None,
        on_vanished: Callable[[Path], None] = lambda _path: None,
        on_look: Callable[[], None] = lambda: None,
        scan_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._paths = tuple(paths)
        self._unwanted = _matcher(exclude)
        self._on_trouble = on_trouble
        self._on_vanished = on_vanished
        self._on_look = on_look
        self._scan_seconds = scan_seconds
        self._clock = clock
        self._wall = wall
        self._next_scan = self._now = clock()
        self._date = wall()
        self._files: dict[str, _File] = {}
        self._owners: dict[tuple[int, int], str] = {}
        self._listings: _Listings = {}
        self._due: dict[int, list[_File]] = {}  # by tick; a handful of ticks ahead
        self._said: deque[tuple[str, Callable[[_File], None]]] = deque()
        self._failing: dict[str, str] = {}
        self._ready: set[Path] = set()
        self._vanished: list[Path] = []
        self._troubles: list[tuple[Path, SourceError | None]] = []
        self._wake = anyio.Event()

    def done(self, path: Path) -> None:
        """The file was read to its end: give it again when it changes."""
        self._say(path, self._rest)

    def touch(self, path: Path) -> None:
        """The file wants reading again at once, changed or not."""
        self._say(path, self._offer)

    def failed(self, path: Path, error: SourceError) -> None:
        """The file could not be read: say so once, and give it again after a while, ever more seldom."""

        def retry(file: _File) -> None:
            if isinstance(error.__cause__, FileNotFoundError):
                self._drop(file)
                return
            self._trouble(file.path, error)
            file.retry = True
            self._schedule(file)

        self._say(path, retry)

    async def wait(self) -> list[Path]:
        """Wait until at least one file wants reading; those that do, sorted."""
        while True:
            self._wake = anyio.Event()
            sighting = await to_thread.run_sync(self.look)
            self._on_look()
            for path, error in sighting.troubles:
                self._on_trouble(path, error)
            for path in sighting.vanished:
                self._on_vanished(path)
            if sighting.ready:
                return list(sighting.ready)
            with anyio.move_on_after(self._pause()):
                await self._wake.wait()

    def look(self) -> Sighting:
        """Search folders if it is time to, look at the files that are due, and say what is new since the last look."""
        self._now, self._date = self._clock(), self._wall()
        while self._said:
            name, act = self._said.popleft()
            if file := self._files.get(name):
                act(file)
        if self._now >= self._next_scan:
            self._next_scan = self._now + self._scan_seconds
            self._scan()
        tick = int(self._now / _SHORTEST)
        for due in sorted(when for when in self._due if when <= tick):
            for file in self._due.pop(due):
                if file.due == due:  # else it was offered or dropped meanwhile
                    self._poll(file)
        sighting = Sighting(
            ready=tuple(sorted(self._ready)), vanished=tuple(self._vanished), troubles=tuple(self._troubles)
        )
        self._ready, self._vanished, self._troubles = set(), [], []
        return sighting

    def _say(self, path: Path, act: Callable[["_File"], None]) -> None:
        # `look` may be running in its thread: what the reader says is taken up by the next one.
        self._said.append((str(path), act))
        self._wake.set()

    def _pause(self) -> float:
        ticks = [tick * _SHORTEST for tick in self._due]
        return max(0.0, min([self._next_scan, *ticks]) - self._clock())

    def _scan(self) -> None:
        failing = set()

        def report(path: str, error: SourceError) -> None:
            failing.add(path)
            self._trouble(path, error)

        for path in self._paths:
            for name in _find(path, self._unwanted, report, self._listings):
                if name not in self._files:
                    self._add(name)
        for path in [path for path in self._failing if path not in failing and path not in self._files]:
            self._recovered(path)
        for path in [path for path, listing in self._listings.items() if listing.expired(time.time())]:
            del self._listings[path]

    def _add(self, name: str) -> None:
        if (stamp := look(name)) is None:
            return
        identity = stamp[:2]
        if self._owners.setdefault(identity, name) != name:
            return  # another path of a file already watched
        self._files[name] = _File(name, stamp)
        self._offer(self._files[name])

    def _poll(self, file: "_File") -> None:
        try:
            status = os.stat(file.path)  # noqa: PTH116 (thousands a second)
        except (FileNotFoundError, NotADirectoryError):
            self._drop(file)
            return
        except OSError as error:
            self._trouble(file.path, refusal(file.path, error))
            self._schedule(file)
            return
        stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if file.retry or stamp != file.stamp:
            self._own(file, stamp)
            self._offer(file)
        else:
            self._recovered(file.path)
            self._schedule(file)

    def _offer(self, file: "_File") -> None:
        file.retry = False
        file.due = None
        self._ready.add(Path(file.path))

    def _rest(self, file: "_File") -> None:
        file.interval = 0.0
        self._recovered(file.path)
        self._schedule(file)

    def _schedule(self, file: "_File") -> None:
        longest = _IDLE_LONG if self._date - file.stamp[3] / 1e9 > _LONG else _IDLE
        file.interval = min(max(_SHORTEST, file.interval * 2), longest)
        file.due = int((self._now + file.interval) / _SHORTEST)
        self._due.setdefault(file.due, []).append(file)

    def _own(self, file: "_File", stamp: Stamp) -> None:
        if stamp[:2] != file.stamp[:2]:
            self._disown(file)
            self._owners[stamp[:2]] = file.path
        file.stamp = stamp

    def _disown(self, file: "_File") -> None:
        identity = file.stamp[:2]
        if self._owners.get(identity) == file.path:
            del self._owners[identity]

    def _drop(self, file: "_File") -> None:
        self._disown(file)
        file.due = None
        del self._files[file.path]
        self._failing.pop(file.path, None)
        self._vanished.append(Path(file.path))

    def _trouble(self, path: str, error: SourceError) -> None:
        if self._failing.get(path) != error.message:
            self._failing[path] = error.message
            self._troubles.append((Path(path), error))

    def _recovered(self, path: str) -> None:
        if self._failing.pop(path, None) is not None:
            self._troubles.append((Path(path), None))


class _Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A folder as it was listed. Its modification time tells that names came or went, but not what links lead to."""

    stamp: Stamp
    listed_at: float
    folders: tuple[str, ...]

    def holds(self, stamp: Stamp, now: float) -> bool:
        settled = self.listed_at - stamp[3] / 1e9 > _GRANULARITY
        return settled and stamp == self.stamp and not self.expired(now)

    def expired(self, now: float) -> bool:
        return not 0 <= now - self.listed_at < _RELIST


class _File:
    """A watched file: `due` at a tick, or not while a reader has it; to be given without a change if `retry`."""

    __slots__ = ("due", "interval", "path", "retry", "stamp")

    def __init__(self, path: str, stamp: Stamp) -> None:
        self.path = path
        self.stamp = stamp
        self.interval = 0.0
        self.due: int | None = None
        self.retry = False


def _find(
    path: str, unwanted: Callable[[str], bool], report: _Report, listings: _Listings | None = None
) -> Iterator[str]:
    """The wanted files that one file, folder or glob stands for."""
    path = os.path.expanduser(path)  # noqa: PTH111 (keeps a trailing **)
    if not glob.has_magic(path) or os.path.lexists(path):
        yield from _search(path, unwanted, report, listings)
        return
    parent, last = os.path.split(path)
    if last == "**":  # a folder to any depth is what a folder is anyway
        yield from _find(parent or ".", unwanted, report, listings)
        return
    for match in glob.iglob(path, recursive=True):  # noqa: PTH207 (Path.glob follows no links and sees hidden files)
        if last != "*" or os.path.isdir(match) or match.endswith(SUFFIXES):  # noqa: PTH112
            yield from _search(match, unwanted, report, listings)


def _search(path: str, unwanted: Callable[[str], bool], report: _Report, listings: _Listings | None) -> Iterator[str]:
    try:
        folder = S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116
    except OSError as error:
        report(path, refusal(path, error))
        return
    if folder:
        yield from _walk(path, unwanted, report, listings)
    elif not unwanted(path):
        yield path


def _walk(root: str, unwanted: Callable[[str], bool], report: _Report, listings: _Listings | None) -> Iterator[str]:
    """The wanted log files under a folder; with `listings`, only those of folders that may have changed since."""
    now = time.time()  # modification times are compared with it
    stack = [root]
    entered = set()
    while stack:
        folder = stack.pop()
        stamp = look(folder)
        if stamp is None or stamp[:2] in entered or unwanted(folder):
            continue  # gone, or a link that leads back
        entered.add(stamp[:2])
        if listings is not None and (known := listings.get(folder)) and known.holds(stamp, now):
            stack.extend(known.folders)
            continue
        folders = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    kind = _kind(entry)
                    if kind == "folder":
                        folders.append(entry.path)
                    elif kind == "log" and not unwanted(entry.path) and not _is_no_session(entry.path):
                        yield entry.path
        except FileNotFoundError:
            continue
        except OSError as error:
            report(folder, refusal(folder, error))
            continue
        stack.extend(folders)
        if listings is not None:
            listings[folder] = _Listing(stamp=stamp, listed_at=now, folders=tuple(folders))


def _kind(entry: os.DirEntry[str]) -> str | None:
    if entry.name[0] != ".":
        try:
            if entry.is_dir():
                return "folder"
            if entry.name.endswith(SUFFIXES) and entry.is_file():
                return "log"
        except OSError:  # a link to itself, or into a folder that may not be entered
            pass
    return None


def _identity(path: str) -> tuple[int, int] | None:
    stamp = look(path)
    return None if stamp is None else stamp[:2]


def _matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    if not patterns:
        return lambda _path: False
    expanded = (os.path.expanduser(pattern).rstrip("/") for pattern in patterns)  # noqa: PTH111
    matches = re.compile("|".join(map(fnmatch.translate, expanded))).match
    return lambda path: bool(matches(path) or matches(os.path.basename(path)))  # noqa: PTH119


_is_no_session = _matcher(_NO_SESSIONS)


def _raise(_path: str, error: SourceError) -> None:
    raise error
