"""What was committed is there, whole and once, whatever happens to the process."""

import os
import random
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec
import pytest

from verifierd.errors import StateError
from verifierd.labels import Label, Saying
from verifierd.store import (
    DATABASE,
    SCHEMA,
    Acknowledgement,
    Commit,
    FileState,
    Quarantined,
    Raised,
    Store,
    StoredStep,
    TrajectoryState,
)
from verifierd.types import Action, Alarm, Origin, Position, Step, Verdict, VerdictKind

ROOT = Path(__file__).parents[1]


def step(index: int, *, trajectory: str = "t", call: str | None = None, observation: str = "ok\n") -> Step:
    return Step(
        format="native",
        trajectory=trajectory,
        index=index,
        action=Action(tool="bash", command=f"echo {index}"),
        observation=observation,
        call_id=call,
        unique=call is not None,
        origin=Origin(path="a.jsonl", offset=index),
    )


def verdict(of: Step, *, policy: str = "p", kind: VerdictKind = VerdictKind.ON_PATH) -> Verdict:
    return Verdict(
        verdict_id=f"{of.step_id}-{policy}",
        step_id=of.step_id,
        trajectory=of.trajectory,
        step=of.index,
        tool=of.tool,
        domain=of.domain,
        verdict=kind,
        reason="",
        predictor="shell",
        policy=policy,
        origin=of.origin,
        time="2026-01-01T00:00:00Z",
    )


def kept(steps: Sequence[Step]) -> list[StoredStep]:
    return [StoredStep(step=s, run=0, ordinal=number) for number, s in enumerate(steps, 1)]


@pytest.mark.anyio
async def test_a_commit_comes_back_after_reopening(tmp_path: Path) -> None:
    """Steps, verdicts with their numbers, states and quarantine survive closing, and the numbers go on."""
    position = Position(
        offset=10,
        dev=1,
        ino=(1 << 64) - 1,
        head_size=3,
        head_hash="h",
        anchor_hash="a",
        size=12,
        mtime_ns=7,
        generation=2,
    )
    file = FileState(path="a.jsonl", format="native", position=position, state=b"\0half")
    trajectory = TrajectoryState(format="native", trajectory="t", run=1, total=2, memory=b"m")
    steps = [step(1), step(2)]
    async with Store(tmp_path / "state", clock=lambda: 5.0) as store:
        fresh = await store.commit(
            Commit(
                steps=kept(steps),
                verdicts=[verdict(s) for s in steps],
                trajectories=[trajectory],
                file=file,
                quarantine=[Quarantined(path="a.jsonl", offset=3, length=4, reason="not_json")],
            )
        )
        assert [v.seq for v in fresh] == [1, 2]
    async with Store(tmp_path / "state") as store:
        assert await store.file("a.jsonl") == msgspec.structs.replace(file, last_seen=5.0)
        assert await store.files() == [msgspec.structs.replace(file, last_seen=5.0)]
        assert await store.file("b.jsonl") is None
        assert await store.trajectory(("native", "t")) == msgspec.structs.replace(trajectory, updated=5.0)
        assert await store.trajectory(("codex", "t")) is None
        assert await store.history(("native", "t"), 0) == (2, steps)
        assert [q.reason for q in await store.quarantined()] == ["not_json"]
        assert [v.verdict_id for v in await store.recent(9)] == [v.verdict_id for v in reversed(fresh)]
        again = await store.commit(Commit(verdicts=[verdict(step(3))]))
        assert [v.seq for v in again] == [3]
        await store.forget("a.jsonl")
        assert await store.files() == []


@pytest.mark.anyio
async def test_a_verdict_is_kept_once() -> None:
    """A verdict id that is there already is dropped and costs no number; another policy's is another verdict."""
    async with Store() as store:
        first = verdict(step(1))
        assert [v.seq for v in await store.commit(Commit(verdicts=[first, first]))] == [1]
        assert await store.commit(Commit(verdicts=[first])) == []
        other = await store.commit(Commit(verdicts=[first, verdict(step(1), policy="q")]))
        assert [(v.seq, v.policy) for v in other] == [(2, "q")]
        assert await store.last_seq() == 2


@pytest.mark.anyio
async def test_the_line_is_rendered_with_its_number() -> None:
    """`render` sees the number that the verdict gets, and its bytes are kept as they are."""
    async with Store() as store:
        await store.commit(
            Commit(
                verdicts=[verdict(step(1)), verdict(step(2), kind=VerdictKind.OFF_PATH)],
                render=lambda v: b"%d %s\n" % (v.seq, v.verdict.value.encode()),
            )
        )
        assert await store.lines(0, 10) == [(1, b"1 on_path\n"), (2, b"2 off_path\n")]
        assert await store.lines(1, 10) == [(2, b"2 off_path\n")]
        assert await store.lines(0, 1) == [(1, b"1 on_path\n")]
        assert [v.seq for v in await store.recent(5, VerdictKind.OFF_PATH)] == [2]
        found = await store.verdict(verdict(step(2)).verdict_id)
        assert found is not None
        assert found.line == b"2 off_path\n"
        assert await store.verdict("none") is None
        assert await store.counts() == {VerdictKind.ON_PATH: 1, VerdictKind.OFF_PATH: 1, VerdictKind.ABSTAIN: 0}


@pytest.mark.anyio
async def test_a_commit_that_fails_leaves_nothing() -> None:
    """Where rendering raises, steps, states and numbers are as before, and the next commit works."""

    def broken(_verdict: Verdict) -> bytes:
        raise ZeroDivisionError

    batch = Commit(
        steps=kept([step(1)]),
        verdicts=[verdict(step(1))],
        file=FileState(path="a", format="native", position=Position(offset=1)),
    )
    async with Store() as store:
        with pytest.raises(ZeroDivisionError):
            await store.commit(msgspec.structs.replace(batch, render=broken))
        assert await store.file("a") is None
        assert await store.known([step(1)]) == {}
        assert [v.seq for v in await store.commit(batch)] == [1]


@pytest.mark.anyio
async def test_known_steps_and_copies() -> None:
    """A step is known with its last run if it is kept, and as a copy if its call is kept as another step."""
    mine = step(1, call="c1")
    copied = msgspec.structs.replace(mine, trajectory="resumed", index=7)
    new, anonymous = step(2, call="c2"), step(1, trajectory="u")
    async with Store() as store:
        await store.commit(Commit(steps=kept([mine])))
        assert await store.known([mine, copied, new, anonymous]) == {mine.step_id: 0, copied.step_id: None}
        assert await store.known([]) == {}
        await store.commit(Commit(steps=kept([mine])))
        assert await store.history(mine.key, 0) == (1, [mine])
        await store.commit(Commit(steps=[StoredStep(step=s, run=3, ordinal=1) for s in (mine, copied)]))
        assert await store.known([mine, copied]) == {mine.step_id: 3, copied.step_id: 3}
        assert await store.history(mine.key, 3) == (1, [mine])


@pytest.mark.anyio
async def test_history_is_the_end_of_a_run() -> None:
    """A history holds the last steps of its run, up to so many characters, and says how many there were."""
    steps = [step(n, observation="x" * 100) for n in range(1, 11)]
    other = [StoredStep(step=step(n, observation="y"), run=1, ordinal=n) for n in (1, 2)]
    async with Store() as store:
        await store.commit(Commit(steps=[*kept(steps), *other]))
        assert await store.history(("native", "t"), 0) == (10, steps)
        assert await store.history(("native", "t"), 0, 330) == (10, steps[-3:])
        assert await store.history(("native", "t"), 0, 1) == (10, steps[-1:])
        assert await store.history(("native", "t"), 1) == (2, [s.step for s in other])
        assert await store.history(("native", "none"), 0) == (0, [])


@pytest.mark.anyio
async def test_texts_that_are_no_unicode_are_kept(tmp_path: Path) -> None:
    """Lone surrogates in observations, trajectories and file names come back as they were."""
    bad = step(1, trajectory="t\ud83d", observation="cut \ud83d")
    file = FileState(path=os.fsdecode(b"caf\xe9.jsonl"), format="native", position=Position(offset=1))
    async with Store(tmp_path) as store:
        await store.commit(
            Commit(
                steps=kept([bad]),
                verdicts=[verdict(bad)],
                render=lambda _verdict: b"{}\n",
                trajectories=[TrajectoryState(format="native", trajectory=bad.trajectory, total=1)],
                file=file,
            )
        )
        assert await store.history(bad.key, 0) == (1, [bad])
        assert await store.known([bad]) == {bad.step_id: 0}
        assert (await store.recent(1))[0].trajectory == "t\ud83d"
        state = await store.trajectory(bad.key)
        assert state is not None
        assert state.trajectory == "t\ud83d"
        assert [f.path for f in await store.files()] == [file.path]


@pytest.mark.anyio
async def test_labels_of_the_log_itself_do_not_hold_up_retention(tmp_path: Path) -> None:
    """A log that labels all its steps must not fill the disk: such labels go with their steps."""
    steps = [step(n) for n in range(1, 11)]
    labels = [Label(step_id=s.step_id, label="on_path", source="data") for s in steps]
    async with Store(tmp_path, clock=lambda: 0.0) as store:
        await store.commit(Commit(steps=kept(steps), verdicts=[verdict(s) for s in steps], labels=labels))
        await store.label(Saying(id=steps[0].step_id, label="off_path"))
        gone = await store.prune(max_age_seconds=500, max_bytes=1 << 40, now=1000.0)
        assert (gone.steps, gone.verdicts) == (9, 9)
        assert len(await store.labels(steps[0].step_id)) == 2
        assert await store.labels(steps[1].step_id) == []


@pytest.mark.anyio
async def test_a_commit_is_finished_though_its_caller_is_cancelled(tmp_path: Path) -> None:
    """Cancelling the caller cannot split what belongs together, nor lose it."""
    async with Store(tmp_path) as store:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.commit(Commit(verdicts=[verdict(step(1))]))
        assert await store.last_seq() == 1


@pytest.mark.anyio
async def test_everything_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """Folders are 0700 and files 0600, with no umask and with a strange one; a loose file is tightened."""
    for number, mask in enumerate((0o000, 0o022, 0o377)):
        directory = tmp_path / f"{number}" / "deep" / "state"
        before = os.umask(mask)
        try:
            async with Store(directory) as store:
                await store.commit(Commit(verdicts=[verdict(step(1))]))
                names = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
        finally:
            os.umask(before)
        assert names == dict.fromkeys((DATABASE, DATABASE + "-wal", DATABASE + "-shm", "lock"), 0o600)
        for path in (directory, directory.parent, directory.parent.parent):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
    (directory / DATABASE).chmod(0o644)
    async with Store(directory):
        assert stat.S_IMODE((directory / DATABASE).stat().st_mode) == 0o600


@pytest.mark.anyio
async def test_a_folder_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    """Somebody else could exchange the database in it."""
    directory = tmp_path / "open"
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(StateError, match="everybody may write") as caught:
        await Store(directory).open()
    assert str(directory) in caught.value.message
    assert list(directory.iterdir()) == []


@pytest.mark.anyio
async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Where a file is in the way the error names the path and is final."""
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "state"):
        with pytest.raises(StateError, match="cannot be used") as caught:
            await Store(directory).open()
        assert str(tmp_path / "file") in caught.value.message
        assert caught.value.exit_code == 78


@pytest.mark.anyio
async def test_a_link_in_place_of_the_database_is_refused(tmp_path: Path) -> None:
    """The database and the lock are never followed through a symbolic link."""
    (tmp_path / "elsewhere").touch()
    (tmp_path / DATABASE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match=DATABASE):
        await Store(tmp_path).open()


_HOLDER = """
import anyio, sys
from pathlib import Path
from verifierd.store import Store

async def main():
    async with Store(Path(sys.argv[1])):
        print("open", flush=True)
        await anyio.sleep(60)

anyio.run(main)
"""


@pytest.mark.anyio
async def test_one_daemon_at_a_time(tmp_path: Path) -> None:
    """A second process is refused for now, with the first one's number; when that is killed, it is let in."""
    holder = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", _HOLDER, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(StateError, match=f"process {holder.pid}") as caught:
            await Store(tmp_path).open()
        assert caught.value.exit_code == 75
        holder.kill()
        holder.wait()
    async with Store(tmp_path) as store:
        assert await store.last_seq() == 0
        with pytest.raises(StateError, match="another verifierd"):
            await Store(tmp_path).open()


@pytest.mark.anyio
async def test_a_damaged_database_is_never_started_from_zero(tmp_path: Path) -> None:
    """Bytes that are no database, NUL bytes and broken pages are an error with the remedy, and stay as they are."""
    async with Store(tmp_path) as store:
        steps = [step(n, observation="x" * 1000) for n in range(200)]
        await store.commit(Commit(steps=kept(steps), verdicts=[verdict(s) for s in steps]))
    path = tmp_path / DATABASE
    sound = path.read_bytes()
    middle = bytearray(sound)
    middle[4096:] = b"\xff" * (len(sound) - 4096)
    for damaged in (b"not a database" * 100, bytes(len(sound)), bytes(middle)):
        path.write_bytes(damaged)
        with pytest.raises(StateError, match="is damaged") as caught:
            async with Store(tmp_path) as store:
                await store.known(steps)
        assert str(path) in caught.value.message
        assert "state check" in caught.value.hint
        assert caught.value.exit_code == 78
        assert path.read_bytes() == damaged
    path.write_bytes(sound)
    async with Store(tmp_path) as store:
        assert await store.check() == []
        assert len(await store.known(steps)) == 200


@pytest.mark.anyio
async def test_a_database_of_another_version_or_program_is_refused(tmp_path: Path) -> None:
    """A newer schema, and tables that are not ours, are not touched."""
    async with Store(tmp_path / "newer"):
        pass
    with sqlite3.connect(tmp_path / "newer" / DATABASE) as db:
        db.execute("UPDATE meta SET value = 99")
    db.close()
    with pytest.raises(StateError, match="newer verifierd \\(schema 99"):
        await Store(tmp_path / "newer").open()
    (tmp_path / "other").mkdir()
    with sqlite3.connect(tmp_path / "other" / DATABASE) as db:
        db.execute("CREATE TABLE notes (text)")
    db.close()
    with pytest.raises(StateError, match="another program"):
        await Store(tmp_path / "other").open()


def raised(of: Step, *, run: int = 0) -> Raised:
    """An alarm at a step."""
    alarm = Alarm(statistic=3.5, threshold=2.0, raised=True, new=True, first_bad=1)
    return Raised(key=of.key, run=run, verdict_id=verdict(of).verdict_id, step=of.index, alarm=alarm)


@pytest.mark.anyio
async def test_alarms_are_kept_once_and_can_be_acknowledged(tmp_path: Path) -> None:
    """A run keeps its first alarm; the first acknowledgement counts; open ones come first; all survive a restart."""
    steps = [step(n, trajectory=name) for name in ("t", "u\ud83d") for n in (1, 2)]
    now = 10.0
    async with Store(tmp_path, clock=lambda: now) as store:
        shown = [msgspec.structs.replace(verdict(of), trajectory=of.trajectory[0]) for of in steps]
        await store.commit(
            Commit(
                steps=[StoredStep(step=of, run=0, ordinal=of.index) for of in steps],
                verdicts=shown,
                alarms=[raised(steps[0]), raised(steps[1]), raised(steps[2])],
            )
        )
        assert await store.open_alarms() == 2
        assert [(alarm.id, alarm.trajectory) for alarm in await store.alarms()] == [
            (shown[2].verdict_id, "u"),  # as its verdicts show it
            (shown[0].verdict_id, "t"),
        ]
        now = 11.0
        first = await store.acknowledge(shown[2].verdict_id, by="ada", note="a drill")
        again = await store.acknowledge(shown[2].verdict_id, by="bob")
        assert first == again
        assert first is not None
        assert first.acknowledged == Acknowledgement(time=11.0, by="ada", note="a drill")
        assert await store.acknowledge("none") is None
    async with Store(tmp_path) as store:
        assert [alarm.acknowledged is None for alarm in await store.alarms()] == [True, False]
        assert len(await store.alarms(1)) == await store.open_alarms() == 1
        of = await store.alarm_of(steps[1].step_id)  # a later step of the run that alarmed
        assert of is not None
        assert (of.step, of.first_bad, of.statistic, of.threshold, of.time) == (1, 1, 3.5, 2.0, 10.0)
        assert await store.alarm_of("none") is None


@pytest.mark.anyio
async def test_an_alarm_is_kept_as_long_as_its_verdict() -> None:
    """Retention deletes alarms with their verdicts; a labelled step keeps both."""
    now = 0.0
    async with Store(clock=lambda: now) as store:
        old, labelled = step(1), step(1, trajectory="u")
        both = [StoredStep(step=of, run=0, ordinal=1) for of in (old, labelled)]
        alarms = [raised(old), raised(labelled)]
        await store.commit(Commit(steps=both, verdicts=[verdict(old), verdict(labelled)], alarms=alarms))
        await store.label(Saying(id=labelled.step_id, label="off_path"))
        await store.prune(max_age_seconds=10, max_bytes=1 << 40, now=100.0)
        assert [alarm.trajectory for alarm in await store.alarms()] == ["u"]


@pytest.mark.anyio
async def test_each_run_has_its_own_state() -> None:
    """The state of a trajectory is that of its newest run, unless another one is asked for."""
    async with Store() as store:
        states = [TrajectoryState(format="native", trajectory="t", run=run, memory=b"%d" % run) for run in (1, 0)]
        await store.commit(Commit(trajectories=states))
        found = [await store.trajectory(("native", "t"), run) for run in (None, 0, 1, 2)]
        assert [None if state is None else (state.run, state.memory) for state in found] == [
            (1, b"1"),
            (0, b"0"),
            (1, b"1"),
            None,
        ]


@pytest.mark.anyio
async def test_verdicts_are_found_by_the_beginning_of_an_id() -> None:
    """Of a verdict or of its step; what begins otherwise, wildcards included, is not found."""
    async with Store() as store:
        made = [
            msgspec.structs.replace(verdict(step(n)), verdict_id=name, step_id=f"s{name}")
            for n, name in enumerate(("ab1", "ab2", "b%", "b_1"), 1)
        ]
        await store.commit(Commit(verdicts=made))
        for prefix, found in (("ab", [1, 2]), ("ab2", [2]), ("sab", [1, 2]), ("sb", [3, 4]), ("%", []), ("b_", [4])):
            assert [kept.seq for kept in await store.find(prefix)] == found
        assert [kept.seq for kept in await store.find("", 3)] == [1, 2, 3]


@pytest.mark.anyio
async def test_reading_beside_a_daemon_changes_nothing(tmp_path: Path) -> None:
    """A second, read-only store sees what was committed so far, cannot change it, and makes no database."""
    with pytest.raises(StateError, match=r"verifierd\.db: does not exist"):
        await Store(tmp_path, read_only=True).open()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - as it must not block
    async with Store(tmp_path) as store, Store(tmp_path, read_only=True) as reader:
        await store.commit(Commit(steps=kept([step(1)]), verdicts=[verdict(step(1))]))
        assert [found.seq for found in await reader.recent(9)] == [1]
        with pytest.raises(StateError):
            await reader.forget("a.jsonl")
        await store.commit(Commit(verdicts=[verdict(step(2))]))
        assert [found.seq for found in await reader.recent(9)] == [2, 1]
    async with Store(tmp_path, read_only=True) as reader:  # also while no daemon runs
        assert [found.seq for found in await reader.recent(9)] == [2, 1]


def as_third_schema(db: sqlite3.Connection) -> None:
    """Make a database one as the third schema had it."""
    db.execute("UPDATE meta SET value = 3 WHERE key = 'schema'")
    db.execute("DROP TRIGGER verdict_gone")
    db.execute("DROP INDEX labels_said")
    db.execute("DROP TABLE placed")
    db.execute("DROP TABLE activity")
    db.execute("ALTER TABLE labels DROP COLUMN came")


def as_second_schema(db: sqlite3.Connection) -> None:
    """Make a database, but for its labels, one as the second schema had it."""
    as_third_schema(db)
    db.execute("UPDATE meta SET value = 2 WHERE key = 'schema'")
    db.execute("DROP TABLE labels")
    db.execute("DROP TABLE label_lines")
    db.execute(
        "CREATE TABLE labels (id INTEGER PRIMARY KEY, step_id TEXT NOT NULL, label TEXT NOT NULL,"
        " source TEXT NOT NULL, note TEXT NOT NULL, time REAL NOT NULL)"
    )
    db.execute("CREATE INDEX labels_step ON labels (step_id)")


@pytest.mark.anyio
async def test_a_database_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    """Nothing of it is lost, the trajectories' memory included; a reader asks for a start of the daemon first."""
    async with Store(tmp_path) as store:
        await store.commit(Commit(steps=kept([step(1)]), verdicts=[verdict(step(1))]))
    old = {"run": 2, "memory": {"decided": 3}}
    with sqlite3.connect(tmp_path / DATABASE) as db:
        as_second_schema(db)
        db.execute("UPDATE meta SET value = 1 WHERE key = 'schema'")
        db.execute("DROP TABLE alarms")
        db.execute("DROP TABLE trajectories")
        db.execute(
            "CREATE TABLE trajectories (format TEXT NOT NULL, trajectory NOT NULL, run INTEGER NOT NULL,"
            " total INTEGER NOT NULL, updated REAL NOT NULL, memory BLOB NOT NULL, PRIMARY KEY (format, trajectory))"
        )
        db.execute("INSERT INTO trajectories VALUES ('native', 't', 2, 7, 5.0, ?)", (msgspec.msgpack.encode(old),))
    db.close()
    with pytest.raises(StateError, match="older verifierd \\(schema 1") as refused:
        await Store(tmp_path, read_only=True).open()
    assert "start `verifierd run` once" in refused.value.hint
    for _ in range(2):
        async with Store(tmp_path) as store:
            state = await store.trajectory(("native", "t"))
            assert state is not None
            assert (state.run, state.total, state.updated) == (2, 7, 5.0)
            assert msgspec.msgpack.decode(state.memory) == old["memory"]
            assert [found.seq for found in await store.recent(9)] == [1]
            assert await store.alarms() == []
    with sqlite3.connect(tmp_path / DATABASE) as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() == (SCHEMA,)
    db.close()


@pytest.mark.anyio
async def test_a_database_of_the_second_schema_keeps_its_labels(tmp_path: Path) -> None:
    """What people and logs said is there after the upgrade, and counts as before."""
    first, second = step(1), step(2)
    async with Store(tmp_path) as store:
        await store.commit(Commit(steps=kept([first, second]), verdicts=[verdict(first), verdict(second)]))
    with sqlite3.connect(tmp_path / DATABASE) as db:
        as_second_schema(db)
        rows = [
            (first.step_id, "on_path", "data", "kind"),
            (first.step_id, "off_path", "person", "seen"),
            (second.step_id, "off_path", "cli", b"\xed\xa0\x80"),
        ]
        db.executemany("INSERT INTO labels VALUES (NULL, ?, ?, ?, ?, 5.0)", rows)
    db.close()
    async with Store(tmp_path) as store:
        assert await store.truths() == {(VerdictKind.ON_PATH, "off_path", "person"): 2}
        told = [(label.label, label.source, label.note, label.time) for label in await store.labels(first.step_id)]
        assert told == [("on_path", "data", "kind", 5.0), ("off_path", "person", "seen", 5.0)]
        assert [label.note for label in await store.labels(second.step_id)] == ["X'EDA080'"]
        await store.label(Saying(id=first.step_id, label="undo"))
        assert store.truth.tally[VerdictKind.ON_PATH, "on_path", "data"] == 1


@pytest.mark.anyio
async def test_a_full_disk_is_a_temporary_error(tmp_path: Path) -> None:
    """Where the database cannot grow the commit fails as a whole, and works once there is room."""
    big = Commit(steps=kept([step(n, observation=str(n) * 5000) for n in range(1, 200)]), verdicts=[verdict(step(1))])
    async with Store(tmp_path) as store:
        await store._run(store._all, "PRAGMA max_page_count = 60")
        with pytest.raises(StateError, match="disk is full") as caught:
            await store.commit(big)
        assert caught.value.exit_code == 75
        assert await store.last_seq() == 0
        await store._run(store._all, "PRAGMA max_page_count = 100000")
        assert [v.seq for v in await store.commit(big)] == [1]


@pytest.mark.anyio
async def test_a_store_that_is_not_open_says_so() -> None:
    """Calls before opening and after closing are an error; closing twice is none."""
    store = Store()
    with pytest.raises(StateError, match="not open"):
        await store.known([])
    await store.open()
    await store.aclose()
    await store.aclose()
    with pytest.raises(StateError, match="not open"):
        await store.known([])


@pytest.mark.anyio
async def test_old_rows_are_pruned_and_labelled_ones_stay(tmp_path: Path) -> None:
    """Retention by age deletes what is older, but for labelled steps and their verdicts; numbers are never reused."""
    now = [0.0]
    old = [step(n, observation="x" * 2000) for n in range(1, 1201)]
    new = [step(n, observation="x") for n in range(1201, 1211)]
    there, gone_odd = tmp_path / "there.jsonl", tmp_path / os.fsdecode(b"caf\xe9.jsonl")
    there.touch()

    def read(path: Path) -> Commit:
        return Commit(file=FileState(path=str(path), format="native", position=Position(offset=1)))

    async with Store(tmp_path, clock=lambda: now[0]) as store:
        await store.commit(read(there))
        await store.commit(read(gone_odd))
        await store.commit(
            Commit(
                steps=kept(old),
                verdicts=[verdict(s) for s in old],
                trajectories=[TrajectoryState(format="native", trajectory="gone", total=1)],
                quarantine=[Quarantined(path="a", offset=0, length=1, reason="not_json")],
            )
        )
        await store.label(Saying(id=old[5].step_id, label="off_path"))
        now[0] = 1000.0
        await store.commit(Commit(steps=kept(new), verdicts=[verdict(s) for s in new]))
        await store.commit(read(tmp_path / "young.jsonl"))
        gone = await store.prune(max_age_seconds=500, max_bytes=1 << 40, now=1000.0)
        assert (gone.steps, gone.verdicts, gone.trajectories, gone.quarantined, gone.files) == (1199, 1199, 1, 1, 1)
        assert [Path(file.path).name for file in await store.files()] == ["there.jsonl", "young.jsonl"]
        assert gone.freed_bytes > 2_000_000
        assert (tmp_path / DATABASE).stat().st_size < 300_000
        assert await store.known([*old, *new]) == {s.step_id: 0 for s in [old[5], *new]}
        assert len(await store.lines(0, 100)) == 11
        again = await store.prune(max_age_seconds=0, max_bytes=1 << 40, now=2000.0)
        assert (again.steps, again.verdicts) == (10, 10)
        assert [v.seq for v in await store.commit(Commit(verdicts=[verdict(step(9999))]))] == [1211]
        assert await store.check() == []


@pytest.mark.anyio
async def test_the_oldest_rows_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    """Retention by size deletes from the old end until it fits; what is labelled is kept even if it does not."""
    steps = [step(n, observation="x" * 2000) for n in range(1, 3001)]
    async with Store(tmp_path) as store:
        await store.commit(Commit(steps=kept(steps), verdicts=[verdict(steps[0])]))
        await store.label(Saying(id=steps[0].step_id, label="on_path"))
        gone = await store.prune(max_age_seconds=1e9, max_bytes=3_000_000, now=time.time())
        assert 1500 <= gone.steps <= 2500
        assert (tmp_path / DATABASE).stat().st_size <= 3_000_000
        known = await store.known(steps)
        assert steps[0].step_id in known
        assert steps[1].step_id not in known
        assert steps[-1].step_id in known
        gone = await store.prune(max_age_seconds=1e9, max_bytes=0, now=time.time())
        assert await store.known(steps) == {steps[0].step_id: 0}


_WRITER = """
import random, sys
from pathlib import Path
import anyio
from verifierd.sinks.jsonl import JsonlSink
from verifierd.store import Commit, FileState, Store, StoredStep, TrajectoryState
from verifierd.types import Position
sys.path.insert(0, "tests")
from test_store import step, verdict

async def main(directory, last):
    async with Store(directory) as store:
        sink = JsonlSink(directory / "verdicts.jsonl", store)
        await sink.open()
        print("open", flush=True)
        state = await store.file("a.jsonl")
        done = state.position.offset if state else 0
        while done < last:
            steps = [step(n) for n in range(done + 1, min(last, done + random.randint(1, 5)) + 1)]
            done = steps[-1].index
            fresh = await store.commit(Commit(
                steps=[StoredStep(step=s, run=0, ordinal=s.index) for s in steps],
                verdicts=[verdict(s) for s in steps],
                trajectories=[TrajectoryState(format="native", trajectory="t", total=done)],
                file=FileState(path="a.jsonl", format="native", position=Position(offset=done)),
            ))
            assert len(fresh) == len(steps)
            await sink.emit(fresh)
        await sink.aclose()

anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
"""


@pytest.mark.anyio
async def test_killed_anywhere_it_has_everything_once(tmp_path: Path) -> None:
    """A writer killed at random points and started again ends with each verdict once, in the database and the file."""
    last = 2000
    chance = random.Random(1)
    kills = 0
    while True:
        writer = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", _WRITER, str(tmp_path), str(last)], stdout=subprocess.PIPE, cwd=ROOT
        )
        with writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"open\n"
            if kills < 8:
                time.sleep(chance.random() * 0.05)  # noqa: ASYNC251
                writer.kill()
            killed = writer.wait() != 0
        kills += killed
        if not killed:
            break
        async with Store(tmp_path) as store:
            state = await store.file("a.jsonl")
            done = state.position.offset if state else 0
            trajectory = await store.trajectory(("native", "t"))
            assert (trajectory.total if trajectory else 0) == done
            assert await store.last_seq() == done
            assert (await store.history(("native", "t"), 0))[0] == done
    assert kills > 3
    lines = (tmp_path / "verdicts.jsonl").read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=Verdict).step for line in lines] == list(range(1, last + 1))
    async with Store(tmp_path) as store:
        assert [line.rstrip(b"\n") for _, line in await store.lines(0, last)] == lines
        assert await store.check() == []
