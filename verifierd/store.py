"""What survives a restart, in one SQLite database: positions, steps, verdicts, alarms and labels.

A commit is one transaction. So a position never runs ahead of the verdicts of the steps before it, nor behind them,
wherever the process is killed. The store knows nothing of formats, predictors or policies: what those keep in it are
bytes.
"""

import asyncio
import fcntl
import json
import os
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, TypeVarTuple

import anyio
import msgspec

from verifierd import labels, views
from verifierd.errors import LabelError, StateError
from verifierd.labels import Label, LabelLine, Outcome, Saying, Tally, Truth
from verifierd.types import Alarm, Position, Step, Verdict, VerdictKind

__all__ = (
    "DATABASE",
    "SCHEMA",
    "Acknowledgement",
    "Commit",
    "FileState",
    "Pruned",
    "Quarantined",
    "Raised",
    "Store",
    "StoredAlarm",
    "StoredStep",
    "StoredVerdict",
    "TrajectoryState",
    "held",
)

T = TypeVar("T")
Args = TypeVarTuple("Args")
P = ParamSpec("P")

DATABASE = "verifierd.db"
SCHEMA = 5

_REPAIR = "verifierd state check says what is damaged, state repair saves what it can, state reset starts anew"

_LOOK_SECONDS = 5.0  # that one look may take
_LOOK_STEPS = 10_000  # of SQLite's machine, between two looks at the clock

# Rows that one transaction deletes, and pages that one vacuums: commits go on in between.
_PRUNE_ROWS = 500
_VACUUM_PAGES = 2000

# Blobs stand last in their tables, so that looking at the other columns does not read them. Names from logs and disks
# have no type, as they may be bytes (see `_bind`). Inode numbers are texts: they may have 64 bits without a sign.
_TRAJECTORIES = """CREATE TABLE trajectories (
    format TEXT NOT NULL, trajectory NOT NULL, run INTEGER NOT NULL, total INTEGER NOT NULL,
    updated REAL NOT NULL, memory BLOB NOT NULL, PRIMARY KEY (format, trajectory, run))"""
_ALARMS = """CREATE TABLE alarms (
    verdict_id TEXT PRIMARY KEY, format TEXT NOT NULL, trajectory NOT NULL, run INTEGER NOT NULL, step INTEGER NOT NULL,
    first_bad INTEGER NOT NULL, statistic REAL NOT NULL, threshold REAL NOT NULL, time REAL NOT NULL,
    acknowledged REAL, who TEXT, note TEXT, UNIQUE (format, trajectory, run)) WITHOUT ROWID"""
_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE files (
        path PRIMARY KEY, format TEXT NOT NULL, "offset" INTEGER NOT NULL, dev TEXT NOT NULL, ino TEXT NOT NULL,
        head_size INTEGER NOT NULL, head_hash TEXT NOT NULL, anchor_hash TEXT NOT NULL, size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL, generation INTEGER NOT NULL, last_seen REAL NOT NULL, state BLOB NOT NULL)""",
    _TRAJECTORIES,
    """CREATE TABLE steps (
        id INTEGER PRIMARY KEY, step_id TEXT NOT NULL, copy_id TEXT, format TEXT NOT NULL, trajectory NOT NULL,
        run INTEGER NOT NULL, ordinal INTEGER NOT NULL, time REAL NOT NULL, body BLOB NOT NULL,
        UNIQUE (step_id, run))""",
    "CREATE INDEX steps_copy ON steps (copy_id) WHERE copy_id IS NOT NULL",
    "CREATE INDEX steps_trajectory ON steps (format, trajectory, run, ordinal)",
    """CREATE TABLE verdicts (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, verdict_id TEXT NOT NULL UNIQUE, step_id TEXT NOT NULL,
        trajectory NOT NULL, verdict TEXT NOT NULL, time REAL NOT NULL, line BLOB NOT NULL)""",
    "CREATE INDEX verdicts_step ON verdicts (step_id)",
    "CREATE INDEX verdicts_verdict ON verdicts (verdict)",
    _ALARMS,
    *labels.TABLES,
    """CREATE TABLE quarantine (
        id INTEGER PRIMARY KEY, path NOT NULL, "offset" INTEGER NOT NULL, length INTEGER NOT NULL,
        reason TEXT NOT NULL, time REAL NOT NULL)""",
    *views.TABLES,
)

# What brings a database of each older schema up to the next one.
_UPGRADES = {
    1: (
        # It kept the memory of one run only, as the last field of a MessagePack map.
        "ALTER TABLE trajectories RENAME TO old",
        _TRAJECTORIES,
        """INSERT INTO trajectories SELECT format, trajectory, run, total, updated,
            substr(memory, instr(memory, x'A66D656D6F7279') + 7) FROM old""",
        "DROP TABLE old",
        _ALARMS,
    ),
    2: (
        # It kept neither who labels nor what was taken back, and labels for steps that are known alone.
        "DROP INDEX labels_step",
        "ALTER TABLE labels RENAME TO old",
        """CREATE TABLE labels (
            id INTEGER PRIMARY KEY, target TEXT NOT NULL, step_id TEXT, label TEXT NOT NULL, source TEXT NOT NULL,
            who TEXT NOT NULL, note TEXT NOT NULL, time REAL NOT NULL, undone REAL)""",
        *labels.TABLES[1:],
        """INSERT INTO labels SELECT id, step_id, step_id, label, iif(source = 'data', 'data', 'person'), '',
            iif(typeof(note) = 'text', note, quote(note)), time, NULL FROM old""",
        "DROP TABLE old",
    ),
    3: (*views.TABLES, *views.FILL),  # it knew of no verdict which run it belongs to
    4: (  # it knew when a label was said, not when it came
        "ALTER TABLE labels ADD COLUMN came REAL NOT NULL DEFAULT 0",
        "UPDATE labels SET came = time",
    ),
}

_SET_FILE = """INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET
    format = excluded.format, "offset" = excluded."offset", dev = excluded.dev, ino = excluded.ino,
    head_size = excluded.head_size, head_hash = excluded.head_hash, anchor_hash = excluded.anchor_hash,
    size = excluded.size, mtime_ns = excluded.mtime_ns, generation = excluded.generation,
    last_seen = excluded.last_seen, state = excluded.state"""
_SET_TRAJECTORY = """INSERT INTO trajectories VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (format, trajectory, run)
    DO UPDATE SET total = excluded.total, updated = excluded.updated, memory = excluded.memory"""
_TRAJECTORY = """SELECT format, trajectory, run, total, memory, updated FROM trajectories
    WHERE format = ? AND trajectory = ? AND run = ifnull(?, run) ORDER BY run DESC LIMIT 1"""
_ADD_STEP = "INSERT OR IGNORE INTO steps VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_VERDICT = "INSERT OR IGNORE INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?)"
_ADD_ALARM = "INSERT OR IGNORE INTO alarms VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)"
_ADD_QUARANTINED = "INSERT INTO quarantine VALUES (NULL, ?, ?, ?, ?, ?)"
_KNOWN_STEPS = "SELECT step_id, max(run) FROM steps WHERE step_id IN (SELECT value FROM json_each(?)) GROUP BY step_id"
_KINDS_OF = "SELECT verdict, count(*) FROM verdicts WHERE step_id = ? GROUP BY verdict"
_KNOWN_COPIES = "SELECT copy_id, step_id FROM steps WHERE copy_id IN (SELECT value FROM json_each(?))"
_HISTORY = "SELECT ordinal, body FROM steps WHERE format = ? AND trajectory = ? AND run = ? ORDER BY ordinal DESC"
_VERDICT = "SELECT seq, verdict_id, step_id, trajectory, verdict, time, line FROM verdicts"
_FOUND = f"""{_VERDICT} WHERE (verdict_id >= ?1 AND verdict_id < ?2) OR (step_id >= ?1 AND step_id < ?2)
    ORDER BY seq LIMIT ?3"""
_STEP_OF = """SELECT body FROM verdicts JOIN steps USING (step_id) WHERE verdict_id = ? ORDER BY run DESC LIMIT 1"""
# The trajectory's name as its verdicts show it, which is fit to be shown.
_ALARM = """SELECT alarms.verdict_id, alarms.format, verdicts.trajectory, alarms.run, step, first_bad, statistic,
    threshold, alarms.time, acknowledged, who, note FROM alarms JOIN verdicts USING (verdict_id)"""
_ALARM_OF = f"""{_ALARM} JOIN steps ON steps.format = alarms.format AND steps.trajectory = alarms.trajectory
    AND steps.run = alarms.run WHERE steps.step_id = ? ORDER BY alarms.time DESC LIMIT 1"""
_ACKNOWLEDGE = "UPDATE alarms SET acknowledged = ?, who = ?, note = ? WHERE verdict_id = ? AND acknowledged IS NULL"

# Rows are in the order of their time. The first row that is young enough bounds what is old.
_BOUND = "SELECT {key} FROM {table} WHERE time >= ? ORDER BY {key} LIMIT 1"
_PRUNE = """DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {key} < ? AND NOT EXISTS (
    SELECT 1 FROM labels WHERE labels.step_id = {table}.step_id AND source <> 'data' AND undone IS NULL)
    ORDER BY {key} LIMIT ?)"""
_PRUNED = {
    "steps": [sql.format(table="steps", key="id") for sql in (_BOUND, _PRUNE)],
    "verdicts": [sql.format(table="verdicts", key="seq") for sql in (_BOUND, _PRUNE)],
}
_PRUNE_LABELS = """DELETE FROM labels WHERE (step_id IS NULL AND came < ?)
    OR ((source = 'data' OR undone IS NOT NULL) AND step_id NOT IN (SELECT step_id FROM verdicts))"""
_PRUNE_ALARMS = "DELETE FROM alarms WHERE verdict_id NOT IN (SELECT verdict_id FROM verdicts)"
_PRUNE_TRAJECTORIES = """DELETE FROM trajectories WHERE updated < ? AND NOT EXISTS (SELECT 1 FROM steps
    WHERE steps.format = trajectories.format AND steps.trajectory = trajectories.trajectory)"""


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a file was read for good, and what its adapter must know to go on.

    Attributes:
        path: The file as its source names it.
        format: The adapter's name.
        position: Where to go on.
        state: What the adapter dumped.
        last_seen: When this was committed, in seconds since the epoch; the store sets it.
    """

    path: str
    format: str
    position: Position
    state: bytes = b""
    last_seen: float = 0.0


class TrajectoryState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run of a trajectory stands.

    Attributes:
        format, trajectory: Its key.
        run: How often it had started over under the same name.
        total: Steps of the run.
        memory: What else its keeper must know.
        updated: When this was committed, in seconds since the epoch; the store sets it.
    """

    format: str
    trajectory: str
    run: int = 0
    total: int = 0
    memory: bytes = b""
    updated: float = 0.0


class StoredStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step and its place: the `ordinal`-th (from 1) of a run of its trajectory."""

    step: Step
    run: int
    ordinal: int


class Raised(msgspec.Struct, frozen=True, kw_only=True):
    """An alarm to keep: the verdict at which a run of a trajectory (format, trajectory) alarmed."""

    key: tuple[str, str]
    run: int
    verdict_id: str
    step: int
    alarm: Alarm


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """That somebody knows of an alarm: when (seconds since the epoch), who, and what they say."""

    time: float
    by: str = ""
    note: str = ""


class StoredAlarm(msgspec.Struct, frozen=True, kw_only=True):
    """An alarm as it is kept.

    Attributes:
        id: The `verdict_id` of the step at which it was raised.
        format, trajectory, run: What alarmed; the name is as verdicts show it.
        step: Index of that step.
        first_bad: Index of the step where things went wrong, as far as the evidence tells.
        statistic, threshold: The evidence, and what it was above.
        time: When, in seconds since the epoch.
        acknowledged: Who knows of it; None while it is open.
    """

    id: str
    format: str
    trajectory: str
    run: int
    step: int
    first_bad: int
    statistic: float
    threshold: float
    time: float
    acknowledged: Acknowledgement | None = None


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """A line that could not be read. Its content is not kept."""

    path: str
    offset: int
    length: int
    reason: str


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes durable together.

    Attributes:
        steps: Steps to keep; those already kept are left as they are.
        verdicts: Verdicts to keep; one whose `verdict_id` is already kept is dropped.
        alarms: Alarms of these verdicts to keep; a run that has alarmed keeps its first one.
        render: The JSONL line of a verdict, line end included. It is called when `seq` is known, in the store's thread.
        labels: What the log itself says of these steps; their time is set.
        trajectories: States to set.
        file: State to set.
        quarantine: Lines to note.
    """

    steps: Sequence[StoredStep] = ()
    verdicts: Sequence[Verdict] = ()
    alarms: Sequence[Raised] = ()
    render: Callable[[Verdict], bytes] = lambda verdict: msgspec.json.encode(verdict) + b"\n"
    labels: Sequence[Label] = ()
    trajectories: Sequence[TrajectoryState] = ()
    file: FileState | None = None
    quarantine: Sequence[Quarantined] = ()


class StoredVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict as it is kept: what it is looked up by, and its JSONL line."""

    seq: int
    verdict_id: str
    step_id: str
    trajectory: str
    verdict: VerdictKind
    time: float
    line: bytes


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """How much retention removed: rows, and bytes given back to the file system."""

    steps: int = 0
    verdicts: int = 0
    trajectories: int = 0
    quarantined: int = 0
    files: int = 0
    freed_bytes: int = 0


class Store:
    """The database of a state directory; without a directory, a private temporary one.

    Its one connection is used by one thread, in the order of the calls. A call that was begun is finished even if its
    caller is cancelled. A second connection, in a thread of its own, answers what people look up, so that no commit
    waits for it. It can only read: SQLite before 3.51.3 may damage a database where two connections write or checkpoint
    at the same instant, and this one never does either.

    Args:
        directory: The state directory; made if it is missing. None for a database that vanishes when closed.
        clock: Seconds since the epoch.
        read_only: Only look into what is there, beside a daemon that may be at work.

    Every method but `aclose` raises `StateError` where the database cannot be used: temporary if the disk is full.

    Attributes:
        truth: What is known of the truth of the verdicts, as of the last change; not kept where only looked into.
    """

    def __init__(
        self, directory: Path | None = None, *, clock: Callable[[], float] = time.time, read_only: bool = False
    ) -> None:
        self.directory = directory
        self._read_only = read_only
        self._clock = clock
        self._thread: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None
        self._looking: ThreadPoolExecutor | None = None
        self._eye: sqlite3.Connection | None = None  # which `look` looks through
        self._lock: int | None = None
        self._seq = 0
        self.truth = Truth({})

    async def open(self) -> None:
        """Take the directory and open its database.

        Raises:
            StateError: The directory cannot be written or is not safe, another daemon has it, or the database is
                damaged, of a newer version, or none of ours.
        """
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="verifierd-store")
        try:
            await self._run(self._open)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Close the database and give the directory free. Closing twice is fine."""
        if self._looking is not None:
            looking, self._looking = self._looking, None
            with anyio.CancelScope(shield=True):
                await asyncio.wrap_future(looking.submit(self._shut))
            looking.shutdown()
        if self._thread is not None:
            await self._run(self._close)
            self._thread.shutdown()
            self._thread = None

    async def __aenter__(self) -> Self:
        """Open."""
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.aclose()

    async def commit(self, batch: Commit) -> list[Verdict]:
        """Make a batch durable, all of it or nothing. Gives the verdicts that were new, each with its `seq`."""
        return await self._run(self._commit, batch)

    async def known(self, steps: Sequence[Step]) -> dict[str, int | None]:
        """The `step_id` of those steps that are kept already, with the last run of their trajectory that has them.

        For a step whose call is kept as a step of another trajectory it is None.
        """
        return await self._run(self._known, steps)

    async def history(self, key: tuple[str, str], run: int, limit: int = 8_000_000) -> tuple[int, list[Step]]:
        """How many steps a run has had, and the last of them, oldest first, up to `limit` characters of text."""
        return await self._run(self._history, key, run, limit)

    async def trajectory(self, key: tuple[str, str], run: int | None = None) -> TrajectoryState | None:
        """The state of a run of a trajectory (format, trajectory), by default of its newest."""
        rows = await self._run(self._all, _TRAJECTORY, (key[0], _bind(key[1]), run))
        return _trajectory(rows[0]) if rows else None

    async def file(self, path: str) -> FileState | None:
        """The state of a file."""
        rows = await self._run(self._all, "SELECT * FROM files WHERE path = ?", (_bind(path),))
        return _file(rows[0]) if rows else None

    async def files(self) -> list[FileState]:
        """The states of all files, by path."""
        return [_file(row) for row in await self._run(self._all, "SELECT * FROM files ORDER BY path")]

    async def forget(self, path: str) -> None:
        """Drop the state of a file; its steps and verdicts stay."""
        await self._run(self._change, "DELETE FROM files WHERE path = ?", (_bind(path),))

    async def recent(self, limit: int, kind: VerdictKind | None = None) -> list[StoredVerdict]:
        """The last verdicts, newest first."""
        where = "" if kind is None else " WHERE verdict = ?"
        arguments = [limit] if kind is None else [kind.value, limit]
        rows = await self._run(self._all, f"{_VERDICT}{where} ORDER BY seq DESC LIMIT ?", arguments)
        return [_verdict(row) for row in rows]

    async def verdict(self, verdict_id: str) -> StoredVerdict | None:
        """The verdict of that id."""
        rows = await self._run(self._all, f"{_VERDICT} WHERE verdict_id = ?", (verdict_id,))
        return _verdict(rows[0]) if rows else None

    async def source_of(self, verdict_id: str) -> tuple[Step, FileState | None] | None:
        """The step that a verdict is on, and what is known of its file; None if the step is not kept."""

        def found(db: sqlite3.Connection) -> tuple[Step, FileState | None] | None:
            row = db.execute(_STEP_OF, (verdict_id,)).fetchone()
            if row is None:
                return None
            step = _decode(row[0])
            files = db.execute("SELECT * FROM files WHERE path = ?", (_bind(step.origin.path),)).fetchall()
            return step, _file(files[0]) if files else None

        return await self.look(found)

    async def find(self, prefix: str, limit: int = 100) -> list[StoredVerdict]:
        """The verdicts whose `verdict_id` or `step_id` begins so, oldest first."""
        rows = await self._run(self._all, _FOUND, (_bind(prefix), _bind(prefix + "\U0010ffff"), limit))
        return [_verdict(row) for row in rows]

    async def alarms(self, limit: int = 1000) -> list[StoredAlarm]:
        """The alarms, open ones first, then newest first."""
        order = "ORDER BY acknowledged IS NOT NULL, seq DESC LIMIT ?"
        return [_alarm(row) for row in await self._run(self._all, f"{_ALARM} {order}", (limit,))]

    async def alarm_of(self, step_id: str) -> StoredAlarm | None:
        """The alarm of the run that a step belongs to."""
        rows = await self._run(self._all, _ALARM_OF, (step_id,))
        return _alarm(rows[0]) if rows else None

    async def open_alarms(self) -> int:
        """How many alarms nobody has acknowledged."""
        ((count,),) = await self._run(self._all, "SELECT count(*) FROM alarms WHERE acknowledged IS NULL")
        return int(count)

    async def acknowledge(self, alarm: str, *, by: str = "", note: str = "") -> StoredAlarm | None:
        """Note that somebody knows of an alarm, unless it was noted before; the alarm, or None if there is none."""
        await self._run(self._change, _ACKNOWLEDGE, (self._clock(), _bind(by), _bind(note), alarm))
        rows = await self._run(self._all, f"{_ALARM} WHERE verdict_id = ?", (alarm,))
        return _alarm(rows[0]) if rows else None

    async def lines(self, after_seq: int, limit: int) -> list[tuple[int, bytes]]:
        """The JSONL lines after a `seq`, in order, each with its own `seq`."""
        sql = "SELECT seq, line FROM verdicts WHERE seq > ? ORDER BY seq LIMIT ?"
        return await self._run(self._all, sql, (after_seq, limit))

    async def last_seq(self) -> int:
        """The `seq` of the last verdict ever committed; 0 if there was none."""
        return await self._run(lambda: self._seq)

    async def mark(self, name: str) -> int | None:
        """The `seq` up to which somebody who follows the verdicts has come; None if nobody of that name has."""
        rows = await self._run(self._all, "SELECT value FROM meta WHERE key = ?", (f"mark:{name}",))
        return int(rows[0][0]) if rows else None

    async def set_mark(self, name: str, seq: int) -> None:
        """Note how far somebody has come."""
        await self._run(self._change, "INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"mark:{name}", seq))

    async def counts(self) -> dict[VerdictKind, int]:
        """How many verdicts of each kind are kept."""
        rows = await self._run(self._all, "SELECT verdict, count(*) FROM verdicts GROUP BY verdict")
        return dict.fromkeys(VerdictKind, 0) | {VerdictKind(kind): count for kind, count in rows}

    async def truths(self) -> Tally:
        """How many verdicts there are of each kind, by the label that holds and its source, counted anew."""
        return await self._run(lambda: labels.tally(self._db))

    async def quarantined(self) -> list[Quarantined]:
        """The lines that could not be read, in the order they were met."""
        rows = await self._run(self._all, 'SELECT path, "offset", length, reason FROM quarantine ORDER BY id')
        return [
            Quarantined(path=_text(path), offset=offset, length=length, reason=reason)
            for path, offset, length, reason in rows
        ]

    async def label(self, said: Saying, source: str = "person") -> Outcome:
        """Keep what somebody says of a step, or take back what was said last.

        Raises:
            LabelError: The id is unknown or that of several steps, or there is nothing to take back.
        """
        return await self._run(self._label, said, source)

    async def label_lines(self, lines: Sequence[LabelLine], file: FileState) -> list[Outcome | LabelError]:
        """Take what lines of a file say, with the file's new state, all of it or nothing.

        Lines that say nothing that can be kept are noted as quarantined, and those taken before the file was rewritten
        are passed over. Gives what came of the others.
        """
        return await self._run(self._label_lines, lines, file)

    async def labels(self, identity: str) -> list[Label]:
        """What was said of a step, oldest first, by an id of it or the beginning of one.

        Raises:
            LabelError: The id is unknown or that of several steps.
        """
        return await self._run(lambda: labels.history(self._db, identity))

    async def prune(self, *, max_age_seconds: float, max_bytes: int, now: float) -> Pruned:
        """Delete what is older than an age, then the oldest until the database holds at most so many bytes.

        Steps that somebody labelled stay, and so do their verdicts; a label waits for its verdict no longer than that
        age. How far a file was read is forgotten only once the file has gone: else it would be judged anew. Commits may
        happen in between.
        """
        before = await self._run(self._bytes)
        cut = now - max_age_seconds
        gone = dict.fromkeys(_PRUNED, 0)
        for table in _PRUNED:
            while count := await self._run(self._prune, table, cut):
                gone[table] += count
        while await self._run(self._bytes, True) > max_bytes:
            counts = {table: await self._run(self._prune, table, None) for table in _PRUNED}
            gone = {table: gone[table] + counts[table] for table in _PRUNED}
            if not any(counts.values()):
                break
        if await self._run(self._change, _PRUNE_LABELS, (cut,)):
            await self._run(self._know)
        await self._run(self._change, _PRUNE_ALARMS, ())
        await self._run(lambda: views.tidy(self._db))
        trajectories = await self._run(self._change, _PRUNE_TRAJECTORIES, (cut,))
        quarantined = await self._run(self._change, "DELETE FROM quarantine WHERE time < ?", (cut,))
        files = await self._run(self._prune_files, cut)
        while await self._run(self._vacuum):
            pass
        return Pruned(
            **gone,
            trajectories=trajectories,
            quarantined=quarantined,
            files=files,
            freed_bytes=max(0, before - await self._run(self._bytes)),
        )

    async def check(self) -> list[str]:
        """What SQLite finds wrong with the database; nothing if it is sound. Reads all of it."""
        found = [message for (message,) in await self._run(self._all, "PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    async def look(
        self, function: Callable[Concatenate[sqlite3.Connection, P], T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """What a function such as those of `views` finds, as of one moment; commits go on meanwhile.

        Raises:
            StateError: Also, as temporary, if it takes too long.
        """
        if self.directory is None or self._read_only:  # what is private to a connection has one connection
            return await self._run(lambda: function(self._db, *arguments, **named))
        if self._thread is None:
            raise StateError(f"{self._name}: is not open")
        if self._looking is None:
            self._looking = ThreadPoolExecutor(1, thread_name_prefix="verifierd-look")
        call = self._looking.submit(lambda: self._guarded(self._look, lambda db: function(db, *arguments, **named)))
        with anyio.CancelScope(shield=True):
            result = await asyncio.wrap_future(call)
        return result  # noqa: RET504 (as below)

    async def _run(self, function: Callable[[*Args], T], *arguments: *Args) -> T:
        if self._thread is None:
            raise StateError(f"{self._name}: is not open")
        call = self._thread.submit(lambda: self._guarded(function, *arguments))
        with anyio.CancelScope(shield=True):
            result = await asyncio.wrap_future(call)
        return result  # noqa: RET504 (mypy thinks that the scope may swallow an exception)

    # What follows runs in the thread of `look`.

    def _look(self, function: Callable[[sqlite3.Connection], T]) -> T:
        if self._eye is None:
            assert self.directory is not None
            path = (self.directory / DATABASE).absolute()
            self._eye = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
            self._eye.execute("PRAGMA query_only = ON")
        until = time.monotonic() + _LOOK_SECONDS
        self._eye.set_progress_handler(lambda: time.monotonic() > until, _LOOK_STEPS)
        self._eye.execute("BEGIN")
        try:
            return function(self._eye)
        finally:
            self._eye.rollback()  # a reader that lingers would keep the log from being cut

    def _shut(self) -> None:
        if self._eye is not None:
            self._eye.close()
            self._eye = None

    # What follows runs in the store's thread, but for the next three, which both threads use.

    def _guarded(self, function: Callable[[*Args], T], *arguments: *Args) -> T:
        try:
            return function(*arguments)
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    @property
    def _name(self) -> str:
        return "temporary database" if self.directory is None else str(self.directory / DATABASE)

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StateError(f"{self._name}: is not open")
        return self._connection

    def _refusal(self, error: sqlite3.Error) -> StateError:
        code = getattr(error, "sqlite_errorcode", None)
        match code & 0xFF if code is not None else None:
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return StateError(f"{self._name}: is damaged: {error}", hint=_REPAIR)
            case sqlite3.SQLITE_FULL:
                return StateError(f"{self._name}: the disk is full", hint="free some space", temporary=True)
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                return StateError(f"{self._name}: {error}", hint="check its owner, mode and file system")
            case sqlite3.SQLITE_INTERRUPT:
                return StateError(f"{self._name}: that took too long", hint="ask for less", temporary=True)
            case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return StateError(f"{self._name}: {error}", hint="is another program using it?", temporary=True)
        return StateError(f"{self._name}: {error}", hint=_REPAIR)

    def _open(self) -> None:
        if self._read_only:
            self._look_in()
            return
        if self.directory is None:
            self._connection = sqlite3.connect("", isolation_level=None)
            self._db.execute("PRAGMA journal_mode = MEMORY")
            self._db.execute("PRAGMA synchronous = OFF")
        else:
            _take_directory(self.directory)
            self._lock = _lock(self.directory / "lock")
            new = _make_private(self.directory / DATABASE)
            self._connection = sqlite3.connect(self.directory / DATABASE, isolation_level=None)
            if new:
                self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("PRAGMA wal_autocheckpoint = 4000")  # pages: a checkpoint waits for the disk
            self._db.execute("PRAGMA journal_size_limit = 67108864")
        self._settle_schema()
        rows = self._all("SELECT seq FROM sqlite_sequence WHERE name = 'verdicts'")
        self._seq = rows[0][0] if rows else 0
        self._know()

    def _look_in(self) -> None:
        """Open what is there and leave it as it is: no lock, no table, no checkpoint."""
        assert self.directory is not None, "a temporary database has nothing to look into"
        path = (self.directory / DATABASE).absolute()
        if not path.is_file():
            raise StateError(f"{path}: does not exist", hint="name the state folder of `verifierd run` by --state DIR")
        self._connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
        self._settle_schema()

    def _settle_schema(self) -> None:
        tables = {name for (name,) in self._all("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables and not self._read_only:
            with self._transaction() as db:
                for statement in _TABLES:
                    db.execute(statement)
                db.execute("INSERT INTO meta VALUES ('schema', ?)", (SCHEMA,))
            return
        found = self._all("SELECT value FROM meta WHERE key = 'schema'") if "meta" in tables else []
        if not found or not isinstance(found[0][0], int):
            raise StateError(f"{self._name}: is a database of another program", hint="choose another --state folder")
        if found[0][0] > SCHEMA:
            raise StateError(
                f"{self._name}: was written by a newer verifierd (schema {found[0][0]}, this one knows {SCHEMA})",
                hint="update verifierd, or choose another --state folder",
            )
        if found[0][0] < SCHEMA and self._read_only:
            raise StateError(
                f"{self._name}: was written by an older verifierd (schema {found[0][0]}, this one writes {SCHEMA})",
                hint="start `verifierd run` once with this version, which brings it up to date",
            )
        self._db.create_function("place_key", 3, views.key, deterministic=True)
        for schema in range(found[0][0], SCHEMA):
            with self._transaction() as db:
                for statement in _UPGRADES[schema]:
                    db.execute(statement)
                db.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (schema + 1,))

    def _close(self) -> None:
        try:
            if self._connection is not None:
                self._connection.close()
        finally:
            self._connection = None
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:  # SQLite ends it by itself if, say, the disk is full
                db.execute("ROLLBACK")
            raise

    def _all(self, sql: str, arguments: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, arguments).fetchall()

    def _change(self, sql: str, arguments: Sequence[object]) -> int:
        with self._transaction() as db:
            return db.execute(sql, arguments).rowcount

    def _commit(self, batch: Commit) -> list[Verdict]:
        now = self._clock()
        seq = self._seq
        fresh = []
        steps = {verdict.step_id for verdict in batch.verdicts}
        runs: dict[str, tuple[str, str, int]] = {}
        for kept in batch.steps:
            runs.setdefault(kept.step.step_id, (*kept.step.key, kept.run))
        with self._transaction() as db:
            before = labels.tally(db, steps)
            db.executemany(_ADD_STEP, (_step_row(kept, now) for kept in batch.steps))
            for verdict in batch.verdicts:
                numbered = msgspec.structs.replace(verdict, seq=seq + 1)
                row = (
                    numbered.seq,
                    numbered.verdict_id,
                    numbered.step_id,
                    _bind(numbered.trajectory),
                    numbered.verdict.value,
                    now,
                    batch.render(numbered),
                )
                if db.execute(_ADD_VERDICT, row).rowcount:
                    seq += 1
                    fresh.append(numbered)
            views.add(db, [(_place(runs.get(v.step_id, ("", v.trajectory, 0))), v) for v in fresh], now)
            db.executemany(_ADD_ALARM, (_alarm_row(raised, now) for raised in batch.alarms))
            labels.add(db, batch.labels, now)
            labels.settle(db, fresh)
            db.executemany(
                _SET_TRAJECTORY,
                ((t.format, _bind(t.trajectory), t.run, t.total, now, t.memory) for t in batch.trajectories),
            )
            db.executemany(
                _ADD_QUARANTINED, ((_bind(q.path), q.offset, q.length, q.reason, now) for q in batch.quarantine)
            )
            if batch.file is not None:
                db.execute(_SET_FILE, _file_row(batch.file, now))
            after = labels.tally(db, steps)
        self._seq = seq
        if before != after:
            self._learn(before, after)
        return fresh

    def _label(self, said: Saying, source: str) -> Outcome:
        with self._transaction() as db:
            done = labels.say(db, said, source, self._clock())
        self._follow([done])
        return done

    def _label_lines(self, lines: Sequence[LabelLine], file: FileState) -> list[Outcome | LabelError]:
        now, path = self._clock(), _bind(file.path)
        done: list[Outcome | LabelError] = []
        with self._transaction() as db:
            for line in lines:
                problem = line.problem
                if line.said is not None and labels.is_new(db, path, line.digest, file.position.generation):
                    try:
                        done.append(labels.say(db, line.said, "file", now))
                    except LabelError as error:
                        done.append(error)
                        problem = "refused"
                if problem:
                    db.execute(_ADD_QUARANTINED, (path, line.offset, line.length, problem, now))
            db.execute(_SET_FILE, _file_row(file, now))
        self._follow([what for what in done if isinstance(what, Outcome)])
        return done

    def _follow(self, done: Sequence[Outcome]) -> None:
        """What was said has moved the truth of the verdicts on its steps."""
        before: Counter[tuple[VerdictKind, str, str]] = Counter()
        after: Counter[tuple[VerdictKind, str, str]] = Counter()
        for what in done:
            for kind, count in self._all(_KINDS_OF, (what.said.step_id,)):
                if what.before is not None:
                    before[VerdictKind(kind), what.before.label, what.before.source] += count
                if what.now is not None:
                    after[VerdictKind(kind), what.now.label, what.now.source] += count
        self._learn(before, after)

    def _learn(self, before: Tally, after: Tally) -> None:
        """Of some verdicts the truth is another one than before; or labels wait that did not."""
        tally = Counter(self.truth.tally)
        tally.subtract(before)
        tally.update(after)
        self.truth = Truth({key: count for key, count in tally.items() if count}, labels.pending(self._db))

    def _know(self) -> None:
        """Count anew what is known of the truth."""
        self.truth = Truth(labels.tally(self._db), labels.pending(self._db))

    def _known(self, steps: Sequence[Step]) -> dict[str, int | None]:
        ids = [step.step_id for step in steps]
        known: dict[str, int | None] = dict(self._db.execute(_KNOWN_STEPS, (json.dumps(ids),)).fetchall())
        copies = [(copy_id, step_id) for step_id, step in zip(ids, steps, strict=True) if (copy_id := step.copy_id)]
        if copies:
            found = self._db.execute(_KNOWN_COPIES, (json.dumps([copy_id for copy_id, _ in copies]),))
            kept = {copy_id for copy_id, _owner in found}
            known.update((step_id, None) for copy_id, step_id in copies if copy_id in kept and step_id not in known)
        return known

    def _history(self, key: tuple[str, str], run: int, limit: int) -> tuple[int, list[Step]]:
        total = 0
        steps: list[Step] = []
        for ordinal, body in self._db.execute(_HISTORY, (key[0], _bind(key[1]), run)):
            total = max(total, ordinal)
            step = _decode(body)
            limit -= len(step.observation) + len(step.action.text)
            if limit < 0 and steps:
                break
            steps.append(step)
        return total, steps[::-1]

    def _prune(self, table: str, cut: float | None) -> int:
        """Delete some rows from before a time, or the oldest ones whatever their time; how many."""
        bound, delete = _PRUNED[table]
        rows = [] if cut is None else self._all(bound, (cut,))
        return self._change(delete, (rows[0][0] if rows else 1 << 62, _PRUNE_ROWS))

    def _prune_files(self, cut: float) -> int:
        """Forget files that have gone and of which nothing new was kept since a time; how many.

        Label files are few, and must not say anew what they said before, should they come back.
        """
        old = self._all("SELECT path FROM files WHERE last_seen < ? AND format <> ?", (cut, labels.FORMAT))
        gone = [row for row in old if _has_gone(_text(row[0]))]
        with self._transaction() as db:
            db.executemany("DELETE FROM files WHERE path = ?", gone)
        return len(gone)

    def _bytes(self, used: bool = False) -> int:  # noqa: FBT001, FBT002 (passed through a thread by position)
        pages, free, size = (self._pragma(name) for name in ("page_count", "freelist_count", "page_size"))
        return (pages - free if used else pages) * size

    def _vacuum(self) -> bool:
        self._all(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
        if more := self._pragma("freelist_count") > 0:
            return more
        self._all("PRAGMA wal_checkpoint(TRUNCATE)")
        return False

    def _pragma(self, name: str) -> int:
        ((value,),) = self._db.execute(f"PRAGMA {name}").fetchall()
        return int(value)


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a state directory as a daemon does, so that none can have it.

    Raises:
        StateError: A daemon has it, or it cannot be written or is not safe.
    """
    _take_directory(directory)
    descriptor = _lock(directory / "lock")
    try:
        yield
    finally:
        os.close(descriptor)


def _take_directory(path: Path) -> None:
    """Make a directory that is ours alone, or make sure that not everybody can write to the one there is."""
    try:
        _make(path)
        status = path.stat()
    except OSError as error:
        raise _unusable(path, error) from error
    if status.st_mode & stat.S_IWOTH:
        raise StateError(
            f"{path}: everybody may write to it", hint=f"chmod 700 {path}, or choose another --state folder"
        )


def _make(path: Path) -> None:
    if path.is_dir():
        return
    if not path.parent.is_dir():
        _make(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        path.chmod(0o700)  # whatever the umask took


def _private_file(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(path, error) from error
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != 0o600:
        os.fchmod(descriptor, 0o600)
    return descriptor


def _make_private(path: Path) -> bool:
    """Make sure of a file; whether it is empty."""
    descriptor = _private_file(path)
    try:
        return os.fstat(descriptor).st_size == 0
    finally:
        os.close(descriptor)


def _lock(path: Path) -> int:
    """Hold a lock until the descriptor is closed, which the system does for a process that was killed."""
    descriptor = _private_file(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.read(descriptor, 20).decode("ascii", "replace").strip()
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise _unusable(path, error) from error
        raise StateError(
            f"{path.parent}: another verifierd uses it" + (f" (process {owner})" if owner else ""),
            hint="stop that one, or choose another --state folder",
            temporary=True,
        ) from error
    try:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:  # such as a pipe in its place, or a full disk
        os.close(descriptor)
        raise _unusable(path, error) from error
    return descriptor


def _unusable(path: Path, error: OSError) -> StateError:
    return StateError(
        f"{path}: cannot be used: {error.strerror}", hint="choose a folder that you may write to, by --state DIR"
    )


def _bind(text: str) -> str | bytes:
    """A text as SQLite takes it. Names from logs and disks may hold lone surrogates, which are no UTF-8."""
    return text if _is_unicode(text) else text.encode("utf-8", "surrogatepass")


def _text(value: object) -> str:
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else str(value)


def _has_gone(path: str) -> bool:
    """Whether there is nothing of that name; not where that cannot be seen."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False
    return False


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _step_row(kept: StoredStep, now: float) -> tuple[object, ...]:
    step = kept.step
    return (
        step.step_id,
        step.copy_id,
        step.format,
        _bind(step.trajectory),
        kept.run,
        kept.ordinal,
        now,
        _encode(step),
    )


def _place(run: tuple[str, str, int]) -> views.Place:
    form, trajectory, number = run
    return views.Place(views.key(*run), form, _bind(trajectory), number)


def _alarm_row(raised: Raised, now: float) -> tuple[object, ...]:
    (form, trajectory), alarm = raised.key, raised.alarm
    measured = (alarm.first_bad, alarm.statistic, alarm.threshold)
    return raised.verdict_id, form, _bind(trajectory), raised.run, raised.step, *measured, now


def _alarm(row: tuple[Any, ...]) -> StoredAlarm:
    identity, form, trajectory, run, step, first_bad, statistic, threshold, when, acknowledged, who, note = row
    known = acknowledged is not None
    return StoredAlarm(
        id=identity,
        format=form,
        trajectory=_text(trajectory),
        run=run,
        step=step,
        first_bad=first_bad,
        statistic=statistic,
        threshold=threshold,
        time=when,
        acknowledged=Acknowledgement(time=acknowledged, by=_text(who), note=_text(note)) if known else None,
    )


def _encode(step: Step) -> bytes:
    try:
        return msgspec.msgpack.encode(step)
    except UnicodeEncodeError:  # a lone surrogate in some text: JSON can escape it, and no MessagePack starts with {
        return json.dumps(msgspec.to_builtins(step)).encode()


def _decode(body: bytes) -> Step:
    if body.startswith(b"{"):
        return msgspec.convert(json.loads(body), Step)
    return msgspec.msgpack.decode(body, type=Step)


def _file_row(state: FileState, now: float) -> tuple[object, ...]:
    at = state.position
    identity = (str(at.dev), str(at.ino), at.head_size, at.head_hash, at.anchor_hash)
    looks = (at.size, at.mtime_ns, at.generation, now)
    return _bind(state.path), state.format, at.offset, *identity, *looks, state.state


def _file(row: tuple[Any, ...]) -> FileState:
    path, form, *place, last_seen, state = row
    position = msgspec.convert(dict(zip(Position.__struct_fields__, place, strict=True)), Position, strict=False)
    return FileState(path=_text(path), format=form, position=position, state=state, last_seen=last_seen)


def _trajectory(row: tuple[Any, ...]) -> TrajectoryState:
    form, trajectory, run, total, memory, updated = row
    return TrajectoryState(
        format=form, trajectory=_text(trajectory), run=run, total=total, memory=memory, updated=updated
    )


def _verdict(row: tuple[Any, ...]) -> StoredVerdict:
    seq, verdict_id, step_id, trajectory, verdict, when, line = row
    return StoredVerdict(
        seq=seq,
        verdict_id=verdict_id,
        step_id=step_id,
        trajectory=_text(trajectory),
        verdict=VerdictKind(verdict),
        time=when,
        line=line,
    )
