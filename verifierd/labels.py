"""Labels: what people, files and logs say of steps, and what holds of all that was said.

Nothing that was said is deleted while its step is kept: an undo marks what it takes back. Of what a step's labels say
the last one that was not taken back holds, whoever said it; what the log itself says counts as said first. A label
for an id that no verdict has yet waits for that verdict.

The functions here are called by the store, within its thread and its transactions.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from verifierd.errors import LabelError
from verifierd.sanitize import plain
from verifierd.times import iso
from verifierd.types import Verdict, VerdictKind

__all__ = (
    "FORMAT",
    "LABELS",
    "SHORTEST",
    "SOURCES",
    "TABLES",
    "UNDO",
    "Label",
    "LabelLine",
    "Outcome",
    "Saying",
    "Tally",
    "Truth",
    "add",
    "answer",
    "history",
    "holds",
    "is_new",
    "pending",
    "resolve",
    "say",
    "settle",
    "shown",
    "tally",
)

LABELS = ("on_path", "off_path", "unsure")
UNDO = "undo"
SOURCES = ("data", "person", "file")
"""Who says it: the log itself; a person by the command line, the endpoint or the console; a file that is followed."""

FORMAT = "labels"
"""What the state of a followed label file is kept as, beside the formats of logs."""

SHORTEST = 8
"""Characters that the beginning of an id must have to stand for it."""

_ID = re.compile(r"[0-9a-z_-]{1,80}")
_WHOLE = re.compile(r"[0-9a-f]{32}")
_CANDIDATES = 5
_WHO = 200  # characters
_NOTE = 2000

TABLES = (
    # `time` is when it was said, which may be long ago, `came` when it came here: from then on it waits.
    """CREATE TABLE labels (
        id INTEGER PRIMARY KEY, target TEXT NOT NULL, step_id TEXT, label TEXT NOT NULL, source TEXT NOT NULL,
        who TEXT NOT NULL, note TEXT NOT NULL, time REAL NOT NULL, undone REAL, came REAL NOT NULL)""",
    "CREATE INDEX labels_step ON labels (step_id) WHERE step_id IS NOT NULL",
    "CREATE INDEX labels_waiting ON labels (target) WHERE step_id IS NULL",
    # How often a line of a file was taken, and how often it was met since the file was last read from its start.
    # Kept for good, as a file may be read again at any time: some 60 bytes for each line that people wrote.
    """CREATE TABLE label_lines (
        path NOT NULL, digest BLOB NOT NULL, taken INTEGER NOT NULL, generation INTEGER NOT NULL,
        met INTEGER NOT NULL, PRIMARY KEY (path, digest)) WITHOUT ROWID""",
)

_ADD = "INSERT INTO labels VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, NULL, ?)"
_LAST = (
    "AND undone IS NULL AND source {} 'data' ORDER BY id DESC LIMIT 1"  # in the order of an index, so without a sort
)
_OTHERS, _DATA = _LAST.format("<>"), _LAST.format("=")
_ROW = "SELECT target, step_id, label, source, who, note, time, undone, id FROM labels"
_OF = {True: "step_id = ?", False: "step_id IS NULL AND target = ?"}
_UNDO = "UPDATE labels SET undone = ? WHERE id = ?"
_PENDING = "SELECT count(*) FROM labels WHERE step_id IS NULL AND undone IS NULL"
_WAITING = "SELECT id, target FROM labels WHERE step_id IS NULL AND target IN (SELECT value FROM json_each(?))"
_EXACT = "SELECT step_id FROM verdicts WHERE verdict_id = ?1 OR step_id = ?1 LIMIT 1"
_BEGINNING = """SELECT step_id FROM verdicts WHERE verdict_id >= ?1 AND verdict_id < ?2
    UNION SELECT step_id FROM verdicts WHERE step_id >= ?1 AND step_id < ?2 LIMIT ?3"""
_JUDGED = "SELECT line, time FROM verdicts WHERE step_id = ? ORDER BY seq DESC LIMIT 1"
# From the labels to the verdicts, never the other way: most verdicts have no label.
_TALLY = """SELECT verdict, label, source, count(*) FROM labels CROSS JOIN verdicts USING (step_id)
    WHERE {steps} labels.id = coalesce(
        (SELECT id FROM labels AS said WHERE said.step_id = labels.step_id {others}),
        (SELECT id FROM labels AS said WHERE said.step_id = labels.step_id {data}))
    GROUP BY verdict, label, source"""
_TALLY_ALL = _TALLY.format(steps="", others=_OTHERS, data=_DATA)
_TALLY_SOME = _TALLY.format(steps="labels.step_id IN (SELECT value FROM json_each(?)) AND", others=_OTHERS, data=_DATA)
_MEET = """INSERT INTO label_lines VALUES (?, ?, 0, ?, 1) ON CONFLICT (path, digest) DO UPDATE SET
    met = CASE generation WHEN excluded.generation THEN met + 1 ELSE 1 END, generation = excluded.generation
    RETURNING met, taken"""
_TAKE = "UPDATE label_lines SET taken = met WHERE path = ? AND digest = ?"

Tally = dict[tuple[VerdictKind, str, str], int]
"""How many verdicts there are of each kind, by the label that holds for their step and its source."""


class Saying(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody says, as a request's body or a file's line has it.

    Attributes:
        id: Of a verdict or a step, or its beginning.
        label: The truth, or `undo` to take back what was said last.
        by: Who says it.
        note: Why.
        time: When it was said, with its zone, since 1970; now, if it is missing.
    """

    id: str
    label: Literal["on_path", "off_path", "unsure", "undo"]
    by: str = ""
    note: str = ""
    time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """What was said of a step.

    Labels of the source `data` are pruned with their steps; others keep them.

    Attributes:
        step_id: The step; None while its verdict is waited for.
        label: One of `LABELS`.
        source: One of `SOURCES`.
        target: The id that was given for the step.
        by, note: Who said it, and why; fit to be shown.
        time: When, in seconds since the epoch.
        undone: When it was taken back.
    """

    step_id: str | None
    label: str
    source: str
    target: str = ""
    by: str = ""
    note: str = ""
    time: float = 0.0
    undone: float | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of something that was said.

    Attributes:
        action: What happened to the truth.
        said: The label that was added, or taken back.
        before, now: What held before, and what holds now; None is no label.
        verdict: The last verdict on the step; None while it is waited for.
        verdict_time: When that was committed, in seconds since the epoch.
    """

    action: Literal["added", "changed", "undone"]
    said: Label
    before: Label | None
    now: Label | None
    verdict: Verdict | None
    verdict_time: float = 0.0

    @property
    def pending(self) -> bool:
        """Whether the verdict is waited for."""
        return self.said.step_id is None


class LabelLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a label file: where it stands, its digest, and what it says or why it cannot be read."""

    offset: int
    length: int
    digest: bytes = b""
    said: Saying | None = None
    problem: str = ""


class Truth(msgspec.Struct, frozen=True):
    """What is known of the truth of verdicts, and how many labels wait for theirs."""

    tally: Mapping[tuple[VerdictKind, str, str], int]
    pending: int = 0


def add(db: sqlite3.Connection, labels: Iterable[Label], now: float) -> None:
    """Keep what logs themselves say of steps."""
    db.executemany(_ADD, ((of.step_id, of.step_id, of.label, of.source, "", _note(of.note), now, now) for of in labels))


def say(db: sqlite3.Connection, said: Saying, source: str, now: float) -> Outcome:
    """Keep what somebody says, or take back what was said last.

    Raises:
        LabelError: The id is none, is unknown or is that of several steps, or there is nothing to take back.
    """
    target = said.id.strip().lower()
    step_id = resolve(db, target)
    key = target if step_id is None else step_id
    before = _holds(db, step_id, key)
    action: Literal["added", "changed", "undone"] = "added" if before is None else "changed"
    if said.label == UNDO:
        action = "undone"
        row = db.execute(f"{_ROW} WHERE {_OF[step_id is not None]} {_OTHERS}", (key,)).fetchone()
        if row is None:
            raise LabelError(
                f"`{key}` has no label that could be undone", hint="What the log itself says can only be overruled."
            )
        db.execute(_UNDO, (now, row[-1]))
        label = msgspec.structs.replace(_label(row), undone=now)
    else:
        label = Label(
            step_id=step_id,
            label=said.label,
            source=source,
            target=target,
            by=plain(said.by)[:_WHO],
            note=_note(said.note),
            # Not to come, and not so long ago that no calendar has it in every zone.
            time=now if said.time is None else max(0.0, min(said.time.timestamp(), now)),
        )
        db.execute(_ADD, (target, step_id, label.label, source, label.by, label.note, label.time, now))
    line, judged = db.execute(_JUDGED, (step_id,)).fetchone() or (None, 0.0)
    return Outcome(
        action=action,
        said=label,
        before=before,
        now=_holds(db, step_id, key),
        verdict=None if line is None else msgspec.json.decode(line, type=Verdict),
        verdict_time=judged,
    )


def resolve(db: sqlite3.Connection, target: str) -> str | None:
    """The step that an id, or its beginning, means; None if it is a whole one that nobody knows yet.

    Raises:
        LabelError: It is none, is unknown, or is that of several steps.
    """
    ids = "An id is one of a verdict or a step, such as stand in verdicts.jsonl, or at least 8 characters of it."
    if not _ID.fullmatch(target):
        raise LabelError(f"`{plain(target)[:80]}` is no id", hint=ids)
    if (row := db.execute(_EXACT, (target,)).fetchone()) is not None:
        return str(row[0])
    if _WHOLE.fullmatch(target):
        return None
    if len(target) < SHORTEST:
        raise LabelError(f"`{target}` is too short for the beginning of an id", hint=ids)
    steps = sorted(step for (step,) in db.execute(_BEGINNING, (target, target + "\x7f", _CANDIDATES + 1)))
    if not steps:
        raise LabelError(f"no verdict or step has an id that begins with `{target}`", hint=ids, missing=True)
    if len(steps) > 1:
        more = ", ..." if len(steps) > _CANDIDATES else ""
        raise LabelError(
            f"several steps have an id that begins with `{target}`",
            hint=f"One of: {', '.join(steps[:_CANDIDATES])}{more}",
        )
    return str(steps[0])


def settle(db: sqlite3.Connection, verdicts: Sequence[Verdict]) -> None:
    """Give labels that waited for these verdicts their steps."""
    steps = {name: verdict.step_id for verdict in verdicts for name in (verdict.verdict_id, verdict.step_id)}
    waiting = db.execute(_WAITING, (json.dumps(list(steps)),)).fetchall()
    db.executemany("UPDATE labels SET step_id = ? WHERE id = ?", [(steps[target], key) for key, target in waiting])


def tally(db: sqlite3.Connection, steps: Iterable[str] | None = None) -> Tally:
    """The truth of all verdicts, or of those on some steps."""
    found = db.execute(_TALLY_ALL) if steps is None else db.execute(_TALLY_SOME, (json.dumps(list(steps)),))
    return {(VerdictKind(verdict), label, source): count for verdict, label, source, count in found}


def pending(db: sqlite3.Connection) -> int:
    """How many labels wait for their verdict."""
    return int(db.execute(_PENDING).fetchone()[0])


def history(db: sqlite3.Connection, target: str) -> list[Label]:
    """All that was said of a step, oldest first; what was taken back is marked.

    Raises:
        LabelError: As `resolve`.
    """
    step_id = resolve(db, target)
    where = _OF[step_id is not None]
    rows = db.execute(f"{_ROW} WHERE {where} ORDER BY source <> 'data', id", (target if step_id is None else step_id,))
    return [_label(row) for row in rows]


def holds(labels: Sequence[Label]) -> Label | None:
    """Which of all labels of a step holds, in the order of `history`."""
    return next((label for label in reversed(labels) if label.undone is None), None)


def is_new(db: sqlite3.Connection, path: str | bytes, digest: bytes, generation: int) -> bool:
    """Whether a line of a file is to be taken, and not one that was taken before the file was last rewritten."""
    ((met, taken),) = db.execute(_MEET, (path, digest, generation)).fetchall()
    if met > taken:
        db.execute(_TAKE, (path, digest))
    return bool(met > taken)


def shown(label: Label) -> dict[str, Any]:
    """A label as JSON documents have it."""
    return {
        "label": label.label,
        "source": label.source,
        "by": label.by,
        "note": label.note,
        "time": iso(label.time),
        "undone": None if label.undone is None else iso(label.undone),
    }


def answer(done: Outcome) -> dict[str, Any]:
    """What came of something that was said, as JSON documents have it."""
    verdict = done.verdict
    return {
        "id": done.said.target,
        "step_id": done.said.step_id,
        "action": done.action,
        "pending": done.pending,
        "label": done.now and shown(done.now),
        "before": done.before and shown(done.before),
        "verdict": verdict
        and {
            "verdict_id": verdict.verdict_id,
            "verdict": verdict.verdict,
            "trajectory": verdict.trajectory,
            "step": verdict.step,
        },
    }


def _holds(db: sqlite3.Connection, step_id: str | None, key: str) -> Label | None:
    for last in (_OTHERS, _DATA):
        row = db.execute(f"{_ROW} WHERE {_OF[step_id is not None]} {last}", (key,)).fetchone()
        if row is not None:
            return _label(row)
    return None


def _label(row: Sequence[Any]) -> Label:
    target, step_id, label, source, who, note, when, undone, _ = row
    return Label(
        step_id=step_id, label=label, source=source, target=target, by=who, note=note, time=when, undone=undone
    )


def _note(text: str) -> str:
    return plain(text)[:_NOTE]
