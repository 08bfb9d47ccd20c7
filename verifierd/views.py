"""What the console shows of the database: trajectories with what became of them, their steps, one verdict.

Of each run of a trajectory `activity` keeps the sums, and `placed` which run each verdict belongs to, so that a list of
thousands reads a page of rows and no verdict. The functions here are called by the store: those that change something
within its transactions, the others on a connection that only reads. What they give is ready for JSON documents.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from verifierd import labels
from verifierd.errors import LabelError
from verifierd.times import iso
from verifierd.types import Verdict, VerdictKind, digest

__all__ = (
    "FILL",
    "TABLES",
    "Found",
    "Place",
    "Row",
    "add",
    "alarm",
    "budget",
    "called",
    "counts",
    "find",
    "key",
    "quarantine",
    "raised",
    "rows",
    "steps",
    "tidy",
    "trajectories",
)

_ACTION = 200  # characters of an action in a list
_KINDS = tuple(kind.value for kind in VerdictKind)

TABLES = (
    """CREATE TABLE activity (
        id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, format TEXT NOT NULL, trajectory NOT NULL,
        run INTEGER NOT NULL, name NOT NULL, on_path INTEGER NOT NULL, off_path INTEGER NOT NULL,
        abstain INTEGER NOT NULL, coverage REAL NOT NULL, first REAL NOT NULL, last REAL NOT NULL,
        last_seq INTEGER NOT NULL)""",
    "CREATE INDEX activity_last ON activity (last_seq)",
    """CREATE TABLE placed (
        seq INTEGER PRIMARY KEY, place INTEGER NOT NULL, verdict TEXT NOT NULL, tool NOT NULL,
        coverage REAL NOT NULL)""",
    "CREATE INDEX placed_place ON placed (place)",
    """CREATE TRIGGER verdict_gone AFTER DELETE ON verdicts BEGIN
        UPDATE activity SET on_path = on_path - (OLD.verdict = 'on_path'),
            off_path = off_path - (OLD.verdict = 'off_path'), abstain = abstain - (OLD.verdict = 'abstain'),
            coverage = coverage - (SELECT coverage FROM placed WHERE seq = OLD.seq)
            WHERE id = (SELECT place FROM placed WHERE seq = OLD.seq);
        DELETE FROM placed WHERE seq = OLD.seq;
        END""",
    # Labels that people gave are few; those that a log carries itself may be many.
    "CREATE INDEX labels_said ON labels (step_id) WHERE source <> 'data' AND undone IS NULL AND step_id IS NOT NULL",
)

_FILL = (
    """INSERT INTO activity SELECT NULL, {key} AS found, coalesce(format, ''),
        coalesce(steps.trajectory, verdicts.trajectory), coalesce(steps.run, 0), max(verdicts.trajectory), 0, 0, 0, 0,
        min(verdicts.time), max(verdicts.time), max(seq) FROM {known} GROUP BY found""",
    """INSERT INTO placed SELECT seq, (SELECT id FROM activity WHERE activity.key = {key}), verdict,
        coalesce(json_extract({line}, '$.tool'), ''), coalesce(json_extract({line}, '$.coverage'), 0) FROM {known}""",
    """UPDATE activity SET (on_path, off_path, abstain, coverage) = (SELECT total(verdict = 'on_path'),
        total(verdict = 'off_path'), total(verdict = 'abstain'), total(coverage) FROM placed WHERE place = activity.id)
    """,
)
FILL = [
    sql.format(
        key="place_key(coalesce(format, ''), coalesce(steps.trajectory, verdicts.trajectory), coalesce(steps.run, 0))",
        line="iif(json_valid(CAST(line AS TEXT)), CAST(line AS TEXT), '{}')",
        known="""verdicts LEFT JOIN steps ON steps.id = (SELECT s.id FROM steps AS s
            WHERE s.step_id = verdicts.step_id ORDER BY s.run DESC LIMIT 1)""",
    )
    for sql in _FILL
]
"""What fills the tables from verdicts that were there before them; `place_key` is `key` as a function of SQL."""

_TOUCH = """INSERT INTO activity VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
    on_path = on_path + excluded.on_path, off_path = off_path + excluded.off_path,
    abstain = abstain + excluded.abstain, coverage = coverage + excluded.coverage, last = excluded.last,
    last_seq = excluded.last_seq RETURNING id"""
_ADD = "INSERT INTO placed VALUES (?, ?, ?, ?, ?)"

# What stands behind the last `/` of a name is a sub-agent where what is before it is a session; else part of a name.
_IS_AGENT = """EXISTS (SELECT 1 FROM trajectories AS session WHERE session.format = activity.format AND
    session.trajectory = substr(activity.trajectory, 1,
    length(rtrim(activity.trajectory, replace(activity.trajectory, '/', ''))) - 1))"""
_TRAJECTORY = f"""SELECT id, key, activity.format, name, activity.run, on_path, off_path, abstain, coverage, first,
    last, last_seq, {_IS_AGENT}, verdict_id, step, first_bad, statistic, threshold, time, acknowledged, who, note
    FROM activity LEFT JOIN alarms ON alarms.format = activity.format AND alarms.trajectory = activity.trajectory
    AND alarms.run = activity.run"""  # noqa: S608 - the words are ours
# From the labels on: they are few.
_LABELLED = """SELECT place, count(DISTINCT labels.step_id) FROM labels
    CROSS JOIN verdicts ON verdicts.step_id = labels.step_id CROSS JOIN placed ON placed.seq = verdicts.seq
    WHERE source <> 'data' AND undone IS NULL AND labels.step_id IS NOT NULL
    AND place IN (SELECT value FROM json_each(?)) GROUP BY place"""
_SAID = """(SELECT label FROM labels WHERE labels.step_id = verdicts.step_id AND undone IS NULL AND source {} 'data'
    ORDER BY id DESC LIMIT 1)"""
_HOLDS = f"coalesce({_SAID.format('<>')}, {_SAID.format('=')})"
_ROW, _NEW, _FALSE = (
    sql.format(label=_HOLDS)
    for sql in (
        "SELECT seq, line, {label} FROM placed JOIN verdicts USING (seq)",
        """SELECT seq, key, line, {label} FROM verdicts JOIN placed USING (seq) JOIN activity ON activity.id = place
            WHERE seq > ? ORDER BY seq LIMIT ?""",
        "SELECT count(*) FROM alarms CROSS JOIN verdicts USING (verdict_id) WHERE {label} = 'on_path'",
    )
)
_ONE = """SELECT seq, step_id, line, place, key FROM verdicts LEFT JOIN placed USING (seq)
    LEFT JOIN activity ON activity.id = place"""
_NEIGHBOUR = (
    "SELECT verdict_id FROM placed JOIN verdicts USING (seq) WHERE place = ? AND seq {} ? ORDER BY seq {} LIMIT 1"
)
_RAISED = f"{_TRAJECTORY} WHERE verdict_id = ?"
_QUARANTINE = (
    """SELECT id, path, "offset", length, reason, time FROM quarantine WHERE id < ? ORDER BY id DESC LIMIT ?"""
)
# Of a session and its sub-agents the newest steps, the last one first. Sorted once more at the end, or filtered here,
# many bodies would be read before the first step comes.
_CALLED = """SELECT step_id, trajectory, body FROM (
    SELECT steps.id AS number FROM trajectories CROSS JOIN steps USING (format, trajectory, run)
    WHERE (trajectory = ?1 OR (trajectory > ?1 || '/' AND trajectory < ?1 || '0')) AND steps.id > ?2
    ORDER BY steps.id DESC LIMIT 1000) CROSS JOIN steps ON steps.id = number"""
_LINE_OF = "SELECT line FROM verdicts WHERE step_id = ? ORDER BY seq DESC LIMIT 1"

_LAST = 1 << 62


class Place(NamedTuple):
    """A run of a trajectory, its name as the database binds it, and its key."""

    key: str
    format: str
    trajectory: str | bytes
    run: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A step as lists show it: the beginning of its action, the names of its signals, the label that holds for it.

    `alarm` is true where the trajectory alarmed.
    """

    seq: int
    verdict_id: str
    step_id: str
    step: int
    tool: str
    verdict: str
    reason: str
    coverage: float
    action: str
    signals: tuple[str, ...]
    alarm: bool
    label: str | None
    time: str


class Found(NamedTuple):
    """One verdict: its line, what was said of its step, its run's key, and the verdicts before and after it there."""

    line: bytes
    said: list[labels.Label]
    trajectory: str | None
    before: str | None
    after: str | None


class _Signal(msgspec.Struct, frozen=True):
    name: str


class _Alarm(msgspec.Struct, frozen=True):
    new: bool = False


class _Line(msgspec.Struct, frozen=True):
    """What of a verdict's line a list wants."""

    verdict_id: str
    step_id: str
    step: int
    tool: str
    verdict: str
    reason: str
    time: str
    coverage: float = 0.0
    action: str = ""
    signals: tuple[_Signal, ...] = ()
    alarm: _Alarm | None = None


class _Texts(_Line, frozen=True):
    """And what a search looks through."""

    detail: str = ""
    observed: str = ""
    predicted: str | None = None


class _Call(msgspec.Struct, frozen=True):
    """What of a step tells which call it was."""

    index: int
    call_id: str | None = None


_decode = msgspec.json.Decoder(_Line).decode
_decode_texts = msgspec.json.Decoder(_Texts).decode
_decode_call = msgspec.msgpack.Decoder(_Call).decode


def key(format: str, trajectory: str | bytes, run: int) -> str:
    """What a run of a trajectory is called in addresses."""
    name = trajectory.decode("utf-8", "surrogatepass") if isinstance(trajectory, bytes) else trajectory
    return digest(format, name, str(run))


def add(db: sqlite3.Connection, verdicts: Iterable[tuple[Place, Verdict]], now: float) -> None:
    """Count new verdicts, given in the order of `seq`."""
    runs: dict[Place, list[Verdict]] = {}
    for place, verdict in verdicts:
        runs.setdefault(place, []).append(verdict)
    for place, of in runs.items():
        kinds = [sum(verdict.verdict == kind for verdict in of) for kind in _KINDS]
        name = _bound(of[-1].trajectory)
        sums = (*kinds, sum(verdict.coverage for verdict in of), now, now, of[-1].seq)
        ((number,),) = db.execute(_TOUCH, (*place, name, *sums)).fetchall()
        db.executemany(
            _ADD,
            ((verdict.seq, number, verdict.verdict.value, _bound(verdict.tool), verdict.coverage) for verdict in of),
        )


def tidy(db: sqlite3.Connection) -> None:
    """Forget runs of which no verdict is left."""
    db.execute("DELETE FROM activity WHERE on_path + off_path + abstain = 0")


def trajectories(
    db: sqlite3.Connection,
    *,
    limit: int,
    after: int | None = None,
    q: str = "",
    agent: str = "",
    verdict: str | None = None,
    alarm: bool = False,
) -> dict[str, Any]:
    """Runs of trajectories, those judged last first.

    Args:
        db: Where.
        limit: How many.
        after: What `next` of the page before was.
        q: Only those with this in their name.
        agent: Only those of this format, or of sub-agents of this name.
        verdict: Only those with such a verdict.
        alarm: Only those with an open alarm.
    """
    arguments: list[int | str]
    where, arguments = ["last_seq < ?"], [_LAST if after is None else after]
    if q:
        where.append("name LIKE ? ESCAPE '!'")
        arguments.append(f"%{_pattern(q)}%")
    if agent:
        where.append(f"(activity.format = ? OR name LIKE ? ESCAPE '!' AND {_IS_AGENT})")
        arguments += [agent, f"%/{_pattern(agent)}"]
    if verdict in _KINDS:
        where.append(f"{verdict} > 0")
    if alarm:
        where.append("verdict_id IS NOT NULL AND acknowledged IS NULL")
    sql = f"{_TRAJECTORY} WHERE {' AND '.join(where)} ORDER BY last_seq DESC LIMIT ?"
    found = db.execute(sql, (*arguments, limit)).fetchall()
    labelled = dict(db.execute(_LABELLED, (json.dumps([row[0] for row in found]),)).fetchall())
    return {
        "trajectories": [_trajectory(row, labelled.get(row[0], 0)) for row in found],
        "next": found[-1][11] if len(found) == limit else None,
    }


def steps(
    db: sqlite3.Connection,
    trajectory: str,
    *,
    limit: int,
    after: int = 0,
    verdict: str | None = None,
    tool: str = "",
    q: str = "",
) -> dict[str, Any] | None:
    """The steps of a run, oldest first; None if there is no such run.

    Args:
        db: Where.
        trajectory: The run's key.
        limit: How many.
        after: What `next` of the page before was.
        verdict: Only those with this verdict.
        tool: Only those of this tool.
        q: Only those with this in what their verdict quotes, whatever its case.
    """
    run = db.execute(f"{_TRAJECTORY} WHERE key = ?", (trajectory,)).fetchone()
    if run is None:
        return None
    where, arguments = ["place = ?", "seq > ?"], [run[0], after]
    if verdict is not None:
        where.append("placed.verdict = ?")
        arguments.append(verdict)
    if tool:
        where.append("placed.tool = ?")
        arguments.append(tool)
    found: list[Row] = []
    wanted = q.casefold()
    for seq, line, label in db.execute(f"{_ROW} WHERE {' AND '.join(where)} ORDER BY seq", arguments):
        if (row := _row(seq, line, label, wanted)) is not None:
            found.append(row)
            if len(found) == limit:
                break
    labelled = dict(db.execute(_LABELLED, (json.dumps([run[0]]),)).fetchall())
    return {
        "trajectory": _trajectory(run, labelled.get(run[0], 0)),
        "steps": found,
        "next": found[-1].seq if len(found) == limit else None,
    }


def rows(db: sqlite3.Connection, after: int, limit: int) -> list[tuple[str, Row]]:
    """The steps judged after a `seq`, in order, each with its run's key."""
    found = ((trajectory, _row(seq, line, label)) for seq, trajectory, line, label in db.execute(_NEW, (after, limit)))
    return [(trajectory, row) for trajectory, row in found if row is not None]


def find(db: sqlite3.Connection, identity: str) -> Found | None:
    """The verdict of that id, or the last one on the step that an id, or its beginning, means; None if there is none.

    Raises:
        LabelError: It is the beginning of several steps' ids, or none at all.
    """
    one = db.execute(f"{_ONE} WHERE verdict_id = ?", (identity,)).fetchone()
    if one is None:
        try:
            step_id = labels.resolve(db, identity)
        except LabelError as error:
            if error.missing:
                return None
            raise
        one = db.execute(f"{_ONE} WHERE step_id = ? ORDER BY seq DESC LIMIT 1", (step_id,)).fetchone()
    if one is None:
        return None
    seq, step_id, line, place, trajectory = one
    before, after = (
        db.execute(_NEIGHBOUR.format(*way), (place, seq)).fetchone() or (None,) for way in (("<", "DESC"), (">", "ASC"))
    )
    return Found(line, labels.history(db, step_id), trajectory, before[0], after[0])


def called(db: sqlite3.Connection, session: str, call: str | int, after: int = 0) -> tuple[bytes | None, int]:
    """The last verdict's line on a call of a session, and up to which step was looked.

    Args:
        db: Where.
        session: The trajectory's name, without a sub-agent's.
        call: The log's id of the call, of the session or its sub-agents; or the step's number in the session.
        after: Up to which step was looked before: only later ones are.
    """
    ((last,),) = db.execute("SELECT ifnull(max(id), 0) FROM steps").fetchall()
    if last > after:
        text = call.encode("utf-8", "replace") if isinstance(call, str) else None
        for step_id, trajectory, body in db.execute(_CALLED, (session, after)):
            if text is not None and text not in body:
                continue
            # Where a text is no Unicode it is JSON, as `store` has it.
            step = msgspec.convert(json.loads(body), _Call) if body.startswith(b"{") else _decode_call(body)
            meant = step.call_id == call if text is not None else (step.index == call and trajectory == session)
            if meant and (found := db.execute(_LINE_OF, (step_id,)).fetchone()):
                return found[0], last
    return None, last


def raised(db: sqlite3.Connection, verdict_id: str) -> dict[str, Any] | None:
    """The alarm that was raised at a verdict, with its run's key; None if none was."""
    row = db.execute(_RAISED, (verdict_id,)).fetchone()
    return None if row is None else {**_trajectory(row, 0)["alarm"], "trajectory_id": row[1]}


def counts(db: sqlite3.Connection) -> dict[str, Any]:
    """How much there is: verdicts by kind, runs, open alarms, lines that could not be read, and the last `seq`."""
    *kinds, runs, last = db.execute(
        "SELECT total(on_path), total(off_path), total(abstain), count(*), max(last_seq) FROM activity"
    ).fetchone()
    ((alarms_open,),) = db.execute("SELECT count(*) FROM alarms WHERE acknowledged IS NULL").fetchall()
    ((quarantined,),) = db.execute("SELECT count(*) FROM quarantine").fetchall()
    return {
        "verdicts": {kind: int(count) for kind, count in zip(_KINDS, kinds, strict=True)},
        "trajectories": runs,
        "alarms_open": alarms_open,
        "quarantined": quarantined,
        "seq": last or 0,
    }


def budget(db: sqlite3.Connection) -> tuple[int, int]:
    """How many alarms were raised at steps that are labelled on path, and how many runs there are."""
    ((false,),) = db.execute(_FALSE).fetchall()
    ((runs,),) = db.execute("SELECT count(*) FROM activity").fetchall()
    return false, runs


def quarantine(
    db: sqlite3.Connection, *, limit: int, after: int | None = None
) -> tuple[list[tuple[Any, ...]], int | None]:
    """Lines that could not be read, the last ones first: (path, offset, length, reason, time); and what comes next.

    The paths are as the database binds them.
    """
    found = db.execute(_QUARANTINE, (_LAST if after is None else after, limit)).fetchall()
    return [row[1:] for row in found], found[-1][0] if len(found) == limit else None


def alarm(fields: Mapping[str, Any], when: float, acknowledged: tuple[float, Any, Any] | None) -> dict[str, Any]:
    """An alarm as documents have it."""
    known = None
    if acknowledged is not None:
        said, by, note = acknowledged
        known = {"time": iso(said), "by": _shown(by), "note": _shown(note)}
    return {**fields, "time": iso(when), "acknowledged": known}


def _trajectory(row: Sequence[Any], labelled: int) -> dict[str, Any]:
    _, trajectory, form, name, run, *kinds, coverage, first, last, _, is_agent, verdict_id = row[:14]
    step, first_bad, statistic, threshold, when, acknowledged, who, note = row[14:]
    name = _shown(name)
    count = sum(kinds)
    measured = {"id": verdict_id, "step": step, "first_bad": first_bad, "statistic": statistic, "threshold": threshold}
    return {
        "id": trajectory,
        "format": form,
        "trajectory": name,
        "run": run,
        "agent": name.rpartition("/")[2] if is_agent else "",
        "steps": count,
        "verdicts": dict(zip(_KINDS, kinds, strict=True)),
        "coverage": round(max(0.0, coverage) / count, 4) if count else 0.0,
        "first": iso(first),
        "last": iso(last),
        "alarm": verdict_id and alarm(measured, when, None if acknowledged is None else (acknowledged, who, note)),
        "labels": labelled,
    }


def _row(seq: int, line: bytes, label: str | None, wanted: str = "") -> Row | None:
    """A line as a list shows it; None for one that cannot be read, or in which `wanted` does not stand."""
    found: _Line
    try:
        if wanted:
            found = _decode_texts(line)
            texts = (found.action, found.reason, found.detail, found.observed, found.predicted or "", found.tool)
            if not any(wanted in text.casefold() for text in texts):
                return None
        else:
            found = _decode(line)
    except msgspec.DecodeError:
        return None
    return Row(
        seq=seq,
        verdict_id=found.verdict_id,
        step_id=found.step_id,
        step=found.step,
        tool=found.tool,
        verdict=found.verdict,
        reason=found.reason,
        coverage=found.coverage,
        action=found.action[:_ACTION],
        signals=tuple(dict.fromkeys(signal.name for signal in found.signals)),
        alarm=found.alarm is not None and found.alarm.new,
        label=label,
        time=found.time,
    )


def _pattern(text: str) -> str:
    for sign in "!%_":
        text = text.replace(sign, f"!{sign}")
    return text


def _bound(text: str) -> str:
    """Names of verdicts are fit to be shown; a half character in one is lost, and nothing else with it."""
    return text.encode("utf-8", "replace").decode()


def _shown(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
