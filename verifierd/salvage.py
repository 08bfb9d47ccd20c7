"""Looks at a database that may be damaged, and saves what can be read of it.

Whatever its schema is, tables are read row by row. Where a page cannot be read, rows are searched for behind it, and
read backwards to it: what is lost is what stood on it. Verdicts that are lost are taken from the verdict files, whose
lines hold all of them.
"""

# ruff: noqa: S608 - the names in statements are plain words of the schema

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from itertools import count
from pathlib import Path

import anyio
import msgspec

from verifierd import views
from verifierd.errors import StateError
from verifierd.store import DATABASE, SCHEMA, Store
from verifierd.types import VerdictKind

__all__ = ("Examined", "Salvaged", "examine", "salvage")

_PARTS = ("", "-wal", "-shm")
_NEEDED = frozenset({"meta", "files", "trajectories", "steps", "verdicts"})
_POSITIONS = frozenset({"files", "trajectories", "steps", "verdicts"})
"""Where one of these lost something, a position may stand behind a step that is no longer there."""
_DERIVED = frozenset({"activity", "placed"})
"""Tables that are filled from the others."""
_FAR = 1 << 62  # no row is numbered beyond
_MESSAGES = 20

_TABLES = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"
_REST = "SELECT sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
_ADD_VERDICT = """INSERT OR IGNORE INTO verdicts (seq, verdict_id, step_id, trajectory, verdict, time, line)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
_ELSE = "SELECT 1 FROM verdicts WHERE seq = ? AND verdict_id <> ?"


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a database.

    Attributes:
        schema: Its version; None if it does not say.
        rows: How many each table has, of those that can be read.
        since, until: When the first and the last verdict was given, in seconds since the epoch.
        problems: What SQLite finds wrong, at most 20 messages; nothing if it is sound.
    """

    schema: int | None = None
    rows: Mapping[str, int] = {}
    since: float | None = None
    until: float | None = None
    problems: tuple[str, ...] = ()


class Salvaged(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a damaged database.

    Attributes:
        rows: How many each table has now.
        lost: Tables of which something could not be read.
        verdicts_from_lines: How many verdicts came from verdict files.
        positions_dropped: Whether logs are read again from their beginning, so that lost steps are judged anew.
        old: Where the damaged database is now.
    """

    rows: Mapping[str, int]
    lost: tuple[str, ...]
    verdicts_from_lines: int
    positions_dropped: bool
    old: Path


class _Schema(msgspec.Struct, frozen=True):
    """Its version, its tables by their names, and what comes once these are filled."""

    version: int
    tables: Mapping[str, str]
    rest: Sequence[str]


class _Line(msgspec.Struct, frozen=True):
    """What the database knows of a verdict beside its line."""

    seq: int
    verdict_id: str
    step_id: str
    trajectory: str
    verdict: str
    time: str


def examine(path: Path) -> Examined:
    """Look at a database, all of it, and leave it as it is. A daemon may be at work."""
    rows: dict[str, int] = {}
    schema, times, problems = None, (None, None), list[str]()
    try:
        with closing(_reader(path)) as db:
            problems = [str(text) for (text,) in db.execute(f"PRAGMA integrity_check({_MESSAGES})") if text != "ok"]
            for name in _tables(db):
                rows[name] = _count(db, name)
            schema = _version(db)
            times = db.execute("SELECT min(time), max(time) FROM verdicts").fetchone()
    except sqlite3.Error as error:
        problems.append(str(error))
    return Examined(schema=schema, rows=rows, since=times[0], until=times[1], problems=tuple(problems))


def salvage(directory: Path, lines: Sequence[Path]) -> Salvaged:
    """Put a new database in place of a damaged one, which is kept beside it. The directory must be `held`.

    Args:
        directory: The state directory.
        lines: Its verdict files, oldest first; missing ones are passed over.

    Raises:
        StateError: It cannot be written, or was written by a newer verifierd.
    """
    path, draft = directory / DATABASE, directory / f"{DATABASE}.draft"
    try:
        draft.unlink(missing_ok=True)
        with closing(_reader(path)) as old:
            old.execute("PRAGMA writable_schema = ON")  # else nothing is read of a file that was cut off
            made = _rebuilt(old, draft, lines)
        return msgspec.structs.replace(made, old=_exchange(path, draft))
    except (OSError, sqlite3.Error) as error:
        raise StateError(
            f"{path}: cannot be repaired: {error}", hint="free some space, or see `verifierd state reset`"
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def _rebuilt(old: sqlite3.Connection, path: Path, lines: Sequence[Path]) -> Salvaged:
    """Make a new database of what can be read; `old` in what comes back is not yet where the old one will be."""
    schema = _schema_of(old) or anyio.run(_current)
    tables = schema.tables
    lost = set()
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    with closing(sqlite3.connect(path, isolation_level=None)) as new:
        new.execute("PRAGMA auto_vacuum = INCREMENTAL")
        new.execute("PRAGMA journal_mode = MEMORY")  # without one nothing could be taken back
        new.execute("PRAGMA synchronous = OFF")
        new.execute("BEGIN")
        for statement in tables.values():
            new.execute(statement)
        for name in tables.keys() - _DERIVED:
            if not _copied(old, new, name):
                lost.add(name)
        new.execute("INSERT OR REPLACE INTO meta VALUES ('schema', ?)", (schema.version,))
        taken = sum(_taken(new, file) for file in lines)
        if dropped := bool(lost & _POSITIONS):
            new.execute("DELETE FROM files")
            if "verdicts" in lost:  # a step that is known is not judged again
                new.execute("DELETE FROM steps WHERE step_id NOT IN (SELECT step_id FROM verdicts)")
        if tables.keys() >= _DERIVED:
            new.create_function("place_key", 3, views.key, deterministic=True)
            for statement in views.FILL:
                new.execute(statement)
        for statement in schema.rest:
            new.execute(statement)
        with suppress(sqlite3.DatabaseError):  # no number is given twice, even if its verdict is lost
            (last,) = old.execute("SELECT seq FROM sqlite_sequence WHERE name = 'verdicts'").fetchone() or (0,)
            new.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'verdicts'", (last,))
        new.execute("COMMIT")
        rows = {name: _count(new, name) for name in sorted(tables)}
        if (found := new.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return Salvaged(rows=rows, lost=tuple(sorted(lost)), verdicts_from_lines=taken, positions_dropped=dropped, old=path)


def _schema_of(db: sqlite3.Connection) -> _Schema | None:
    """The schema of a database of ours; None if it cannot be read.

    Raises:
        StateError: It is of a newer version.
    """
    try:
        tables = _tables(db)
        rest = [sql for (sql,) in db.execute(_REST)]
        version = _version(db)
    except sqlite3.Error:
        return None
    if version is None or not tables.keys() >= _NEEDED:
        return None
    if version > SCHEMA:
        raise StateError(
            f"the database was written by a newer verifierd (schema {version}, this one knows {SCHEMA})",
            hint="update verifierd",
        )
    return _Schema(version, tables, rest)


async def _current() -> _Schema:
    """The schema that this version writes."""
    async with Store() as store:
        found = await store.look(_schema_of)
    assert found is not None, "it was made just now"
    return found


def _tables(db: sqlite3.Connection) -> dict[str, str]:
    """Our tables, and what makes each of them."""
    return {name: sql for name, sql in db.execute(_TABLES) if re.fullmatch("(?!sqlite_)[a-z_]+", name)}


def _version(db: sqlite3.Connection) -> int | None:
    found = db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    return found[0] if found and isinstance(found[0], int) else None


def _copied(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> bool:
    """Copy the rows of a table that can be read; whether all could."""
    complete = True
    names = [name for _, name, *_ in new.execute(f'PRAGMA table_info("{table}")')]
    try:
        there = {name for _, name, *_ in old.execute(f'PRAGMA table_info("{table}")')}
    except sqlite3.Error:
        there = set()
    columns = ", ".join(f'"{name}"' for name in names if name in there)
    if not columns:
        return False
    places = ", ".join("?" * len([name for name in names if name in there]))
    insert = f'INSERT OR IGNORE INTO "{table}" ({columns}) VALUES ({places})'
    for row in _rows(old, table, columns):
        if row is None:
            complete = False
            continue
        try:
            new.execute(insert, row)
        except sqlite3.IntegrityError:
            complete = False
    return complete


def _rows(db: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[object, ...] | None]:
    """The rows that can be read, some perhaps twice; None for each place where some cannot."""
    try:
        db.execute(f'SELECT rowid FROM "{table}" LIMIT 0')
    except sqlite3.OperationalError:
        return _sorted(db, table, columns)
    return _numbered(db, table, columns)


def _sorted(db: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[object, ...] | None]:
    """Those of a table whose rows have no numbers: from both ends to what cannot be read."""
    keys = [name for _, name, *_, key in db.execute(f'PRAGMA table_info("{table}")') if key]
    for order in ("ASC", "DESC"):
        by = ", ".join(f'"{name}" {order}' for name in keys)
        try:
            yield from db.execute(f'SELECT {columns} FROM "{table}" ORDER BY {by}')
        except sqlite3.DatabaseError:
            yield None
        else:
            return


def _numbered(db: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[object, ...] | None]:
    """Those of the other tables: on to each hole, then backwards to it from behind."""
    select = f'SELECT rowid, {columns} FROM "{table}" NOT INDEXED WHERE rowid > ? AND rowid <= ? ORDER BY rowid'
    at = -_FAR
    while at < _FAR:
        sound = True
        try:
            for number, *row in db.execute(select, (at, _FAR)):
                if not (sound := number > at):
                    break
                at = number
                yield tuple(row)
        except sqlite3.DatabaseError:
            sound = False
        if sound:
            return
        yield None
        behind = _behind(db, table, at)
        with suppress(sqlite3.DatabaseError):
            for _, *row in db.execute(f"{select} DESC", (at, behind)):
                yield tuple(row)
        at = behind


def _behind(db: sqlite3.Connection, table: str, at: int) -> int:
    """A number beyond `at` from which on rows can be read, or could if there were any; not far behind the hole."""
    at, step = max(at, 0), 1
    while step < _FAR:
        try:
            db.execute(f'SELECT rowid FROM "{table}" NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT 1', (at + step,))
        except sqlite3.DatabaseError:
            step *= 2
        else:
            return at + step
    return _FAR


def _taken(new: sqlite3.Connection, path: Path) -> int:
    """Take the verdicts that a database lacks from a file, unless the file is of another database; how many."""
    taken = 0
    new.execute("SAVEPOINT lines")
    try:
        with path.open("rb") as file:
            for text in file:
                try:
                    line = msgspec.json.decode(text, type=_Line)
                    when = datetime.fromisoformat(line.time).timestamp()
                    kind = VerdictKind(line.verdict)
                except (msgspec.MsgspecError, UnicodeError, ValueError):
                    continue
                row = (line.seq, line.verdict_id, line.step_id, line.trajectory, kind.value, when, text)
                taken += (added := new.execute(_ADD_VERDICT, row).rowcount)
                if not added and new.execute(_ELSE, (line.seq, line.verdict_id)).fetchone():
                    new.execute("ROLLBACK TO lines")
                    return 0
    except FileNotFoundError:
        return 0
    finally:
        new.execute("RELEASE lines")
    return taken


def _exchange(path: Path, new: Path) -> Path:
    """Put the new database in the old one's place; where the old one is then."""
    number = next(n for n in count(1) if not path.with_name(f"{path.name}.damaged-{n}").exists())
    kept = path.with_name(f"{path.name}.damaged-{number}")
    for part in _PARTS[1:]:  # these first: SQLite would take them for the new one's
        with suppress(FileNotFoundError):
            path.with_name(path.name + part).rename(f"{kept}{part}")
    kept.hardlink_to(path)
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return kept


def _count(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f'SELECT count(*) FROM "{table}" NOT INDEXED').fetchone()[0])


def _reader(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    db.execute("PRAGMA query_only = ON")
    return db
