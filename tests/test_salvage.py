"""What is saved of a damaged database."""

import os
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import anyio
import msgspec
import pytest

from verifierd import views
from verifierd.errors import StateError
from verifierd.labels import Label
from verifierd.salvage import Salvaged, examine, salvage
from verifierd.store import DATABASE, SCHEMA, Commit, FileState, Store, StoredStep
from verifierd.types import Action, Origin, Position, Step, Verdict, VerdictKind

COUNT = 1200
PAGE = 4096


def step(index: int) -> Step:
    """One whose body takes a page of its own now and then."""
    return Step(
        format="native",
        trajectory=f"t{index % 7}",
        index=index,
        action=Action(tool="bash", command=f"echo {index}"),
        observation="x" * (9000 if index % 50 == 0 else 200),
        origin=Origin(path="a.jsonl", offset=index),
    )


def verdict(of: Step) -> Verdict:
    """A verdict on it."""
    return Verdict(
        verdict_id=f"v{of.step_id}",
        step_id=of.step_id,
        trajectory=of.trajectory,
        step=of.index,
        tool=of.tool,
        domain=of.domain,
        verdict=VerdictKind.ON_PATH,
        reason="",
        predictor="shell",
        policy="p",
        origin=of.origin,
        time="2026-01-01T00:00:00Z",
    )


async def fill(directory: Path, count: int = COUNT) -> bytes:
    """A database with so many steps, and what its verdict file holds."""
    position = Position(
        offset=1, dev=1, ino=1, head_size=1, head_hash="h", anchor_hash="a", size=1, mtime_ns=1, generation=0
    )
    file = FileState(path="a.jsonl", format="native", position=position)
    steps = [step(index) for index in range(1, count + 1)]
    async with Store(directory) as store:
        for start in range(0, count, 100):
            some = steps[start : start + 100]
            await store.commit(
                Commit(
                    steps=[StoredStep(step=s, run=0, ordinal=s.index) for s in some],
                    verdicts=[verdict(s) for s in some],
                    labels=[Label(step_id=s.step_id, label="on_path", source="data") for s in some[:3]],
                    file=file,
                )
            )
        return b"".join(line for _, line in await store.lines(0, count))


def destroy(path: Path, pages: Sequence[int]) -> None:
    """Write over whole pages, counted from 0."""
    with path.open("r+b") as file:
        for page in pages:
            file.seek(page * PAGE)
            file.write(random.Random(page).randbytes(PAGE))


def leaves(path: Path, table: str) -> list[int]:
    """The pages that hold rows of a table, by the first byte of each page and where its rows lie."""
    with closing(sqlite3.connect(path)) as db:
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    data = path.read_bytes()

    def below(page: int) -> list[int]:
        at = (page - 1) * PAGE
        cells = int.from_bytes(data[at + 3 : at + 5], "big")
        if data[at] == 0x0D:
            return [page - 1]
        pointers = [int.from_bytes(data[at + 12 + 2 * n : at + 14 + 2 * n], "big") for n in range(cells)]
        children = [int.from_bytes(data[at + pointer : at + pointer + 4], "big") for pointer in pointers]
        return [leaf for child in [*children, int.from_bytes(data[at + 8 : at + 12], "big")] for leaf in below(child)]

    return below(root)


async def saved(directory: Path, *lines: Path) -> Salvaged:
    """Salvage, and make sure that the store takes what comes of it for whole."""
    done = await anyio.to_thread.run_sync(salvage, directory, lines)
    assert examine(directory / DATABASE).problems == ()
    async with Store(directory) as store:
        assert await store.check() == []
        fresh = await store.commit(Commit(verdicts=[verdict(step(COUNT + 1))]))
        assert [v.seq for v in fresh] == [COUNT + 1], "no number is given twice"
    assert (directory / DATABASE).stat().st_mode & 0o777 == 0o600
    return done


@pytest.mark.anyio
async def test_a_sound_database_is_found_sound(tmp_path: Path) -> None:
    """With its schema, its rows and the time that it spans."""
    await fill(tmp_path, 10)
    found = examine(tmp_path / DATABASE)

    assert found.problems == ()
    assert found.schema == SCHEMA
    assert (found.rows["steps"], found.rows["verdicts"], found.rows["files"]) == (10, 10, 1)
    assert found.since is not None
    assert found.until is not None
    assert found.since <= found.until


@pytest.mark.anyio
async def test_only_what_stood_on_a_bad_page_is_lost(tmp_path: Path) -> None:
    """Rows before and behind two holes in the steps are there; positions go, so that logs are read again."""
    await fill(tmp_path)
    pages = leaves(tmp_path / DATABASE, "steps")
    destroy(tmp_path / DATABASE, [pages[3], pages[len(pages) // 2]])
    assert examine(tmp_path / DATABASE).problems

    done = await saved(tmp_path)

    per_page = COUNT / len(pages)
    assert done.lost == ("steps",)
    assert COUNT - 4 * per_page <= done.rows["steps"] < COUNT
    assert done.rows["verdicts"] == COUNT
    assert (done.positions_dropped, done.rows["files"]) == (True, 0)
    assert done.old == tmp_path / f"{DATABASE}.damaged-1"
    assert examine(done.old).problems


@pytest.mark.anyio
async def test_lost_verdicts_come_back_from_the_verdict_file(tmp_path: Path) -> None:
    """Every one, with its number and its line; what the console shows of trajectories is made anew."""
    lines = await fill(tmp_path)
    older, newer = tmp_path / "v.jsonl.1", tmp_path / "v.jsonl"
    older.write_bytes(lines[: len(lines) // 2 + 7])
    newer.write_bytes(lines[len(lines) // 2 + 7 :] + b'{"seq": "no"}\n\xff\n{"torn')
    pages = leaves(tmp_path / DATABASE, "verdicts")
    destroy(tmp_path / DATABASE, pages[1:5])

    done = await saved(tmp_path, older, newer)

    assert done.rows["verdicts"] == COUNT
    assert done.verdicts_from_lines > 0
    async with Store(tmp_path) as store:
        assert b"".join(line for _, line in await store.lines(0, COUNT)) == lines
        found = await store.look(views.trajectories, limit=100)
    assert sum(sum(each["verdicts"].values()) for each in found["trajectories"]) == COUNT + 1


@pytest.mark.anyio
async def test_nothing_readable_leaves_the_verdict_file(tmp_path: Path) -> None:
    """Where even the schema is gone a new database is made of its lines."""
    lines = await fill(tmp_path)
    file = tmp_path / "v.jsonl"
    file.write_bytes(lines)
    destroy(tmp_path / DATABASE, [0])

    done = await saved(tmp_path, file)

    assert (done.verdicts_from_lines, done.rows["verdicts"], done.rows["steps"]) == (COUNT, COUNT, 0)
    assert {"steps", "labels", "files"} <= set(done.lost)


@pytest.mark.anyio
async def test_a_file_of_another_database_is_left_out(tmp_path: Path) -> None:
    """Its numbers stand for other verdicts here."""
    await fill(tmp_path)
    foreign = verdict(step(5000))
    file = tmp_path / "v.jsonl"
    file.write_bytes(
        b"".join(
            msgspec.json.encode(msgspec.structs.replace(foreign, seq=seq, verdict_id=f"f{seq}")) + b"\n"
            for seq in (COUNT + 50, 7)
        )
    )
    destroy(tmp_path / DATABASE, leaves(tmp_path / DATABASE, "steps")[:1])

    done = await saved(tmp_path, file)

    assert (done.verdicts_from_lines, done.rows["verdicts"]) == (0, COUNT)


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(6))
async def test_random_damage_never_stands_in_the_way(tmp_path: Path, seed: int) -> None:
    """Whatever pages are hit, a sound database comes of it, and what was not hit is in it."""
    lines = await fill(tmp_path)
    file = tmp_path / "v.jsonl"
    file.write_bytes(lines)
    size = (tmp_path / DATABASE).stat().st_size // PAGE
    generator = random.Random(seed)
    destroy(tmp_path / DATABASE, generator.sample(range(1, size), size // 20))

    done = await saved(tmp_path, file)

    assert done.rows["verdicts"] == COUNT
    assert done.rows["steps"] <= COUNT


@pytest.mark.anyio
async def test_a_database_that_was_cut_off_is_read_to_its_end(tmp_path: Path) -> None:
    """As a full disk or a copy that broke off leaves it."""
    await fill(tmp_path)
    path = tmp_path / DATABASE
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size * 2 // 3)

    done = await anyio.to_thread.run_sync(salvage, tmp_path, ())

    assert 0 < done.rows["steps"] < COUNT


@pytest.mark.anyio
async def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    """Its rows may mean something else."""
    await fill(tmp_path, 10)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as db:
        db.execute("UPDATE meta SET value = 99 WHERE key = 'schema'")
        db.commit()
    before = (tmp_path / DATABASE).read_bytes()

    with pytest.raises(StateError, match="newer verifierd"):
        salvage(tmp_path, ())

    assert (tmp_path / DATABASE).read_bytes() == before
    assert not {name for name in os.listdir(tmp_path) if "damaged" in name or "draft" in name}  # noqa: PTH208
