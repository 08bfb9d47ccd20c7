"""The verdict file has every line of the store once, in order, whatever was done to it."""

import os
import resource
import stat
from pathlib import Path

import msgspec
import pytest

from verifierd.errors import StateError
from verifierd.sinks.jsonl import JsonlSink
from verifierd.store import Commit, Store
from verifierd.types import Origin, Verdict, VerdictKind


def verdicts(start: int, stop: int, *, policy: str = "p") -> list[Verdict]:
    return [
        Verdict(
            verdict_id=f"{policy}{n}",
            step_id=f"s{n}",
            trajectory="t",
            step=n,
            tool="bash",
            domain="terminal",
            verdict=VerdictKind.ON_PATH,
            reason="",
            predictor="shell",
            policy=policy,
            origin=Origin(path="a", offset=n),
            time="2026-01-01T00:00:00Z",
        )
        for n in range(start, stop)
    ]


async def add(store: Store, start: int, stop: int, *, policy: str = "p") -> list[Verdict]:
    return await store.commit(Commit(verdicts=verdicts(start, stop, policy=policy)))


def seqs(path: Path) -> list[int]:
    data = path.read_bytes()
    assert not data or data.endswith(b"\n")
    return [msgspec.json.decode(line, type=Verdict).seq for line in data.splitlines()]


def steps(path: Path) -> list[int]:
    return [msgspec.json.decode(line, type=Verdict).step for line in path.read_bytes().splitlines()]


async def opened(path: Path, store: Store, *, max_bytes: int | None = None) -> JsonlSink:
    sink = JsonlSink(path, store, max_bytes=max_bytes)
    await sink.open()
    return sink


async def repaired(path: Path, store: Store) -> list[int]:
    await (await opened(path, store)).aclose()
    return seqs(path)


@pytest.mark.anyio
async def test_lines_are_the_stores_bytes(tmp_path: Path) -> None:
    """What is emitted is in the file at once, byte for byte as the store has it, and nobody else may read it."""
    path = tmp_path / "verdicts.jsonl"
    before = os.umask(0)
    try:
        async with Store() as store:
            sink = await opened(path, store)
            await sink.emit(await add(store, 1, 4))
            assert path.read_bytes() == b"".join(line for _, line in await store.lines(0, 10))
            await sink.emit(await add(store, 4, 6))
            assert seqs(path) == [1, 2, 3, 4, 5]
            await sink.emit([])
            await sink.aclose()
            await sink.aclose()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert seqs(path) == [1, 2, 3, 4, 5]


@pytest.mark.anyio
async def test_a_file_torn_at_any_byte_is_repaired(tmp_path: Path) -> None:
    """Cut anywhere, the file has all lines once after opening, as it had before."""
    path = tmp_path / "verdicts.jsonl"
    async with Store() as store:
        await add(store, 1, 4)
        assert await repaired(path, store) == [1, 2, 3]
        whole = path.read_bytes()
        for size in range(0, len(whole), 29):
            path.write_bytes(whole[:size])
            assert await repaired(path, store) == [1, 2, 3]
            assert path.read_bytes() == whole
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.anyio
async def test_garbage_behind_the_last_line_goes(tmp_path: Path) -> None:
    """Half a line, NUL bytes as a power failure leaves them, and foreign lines at the end are cut off."""
    path = tmp_path / "verdicts.jsonl"
    async with Store() as store:
        await add(store, 1, 3)
        await repaired(path, store)
        whole = path.read_bytes()
        await add(store, 3, 4)
        for garbage in (b'{"seq": 3, "verd', bytes(100_000), b"note to self\n", b"{}\n", b"\xff\n", b"\n"):
            path.write_bytes(whole + garbage)
            assert await repaired(path, store) == [1, 2, 3]


@pytest.mark.anyio
async def test_many_missing_lines_are_added(tmp_path: Path) -> None:
    """A file far behind, or deleted, is brought up from the store."""
    path = tmp_path / "verdicts.jsonl"
    async with Store() as store:
        await add(store, 1, 2)
        await repaired(path, store)
        await add(store, 2, 2501)
        assert await repaired(path, store) == list(range(1, 2501))
        path.unlink()
        assert await repaired(path, store) == list(range(1, 2501))


@pytest.mark.anyio
async def test_a_file_ahead_of_the_store_has_no_line_twice(tmp_path: Path) -> None:
    """Lines that the database lost are cut off; judged anew they come back, once each, whatever their order."""
    path = tmp_path / "verdicts.jsonl"
    async with Store() as ahead:
        await add(ahead, 1, 200)
        await repaired(path, ahead)
    async with Store() as store:
        await add(store, 1, 101)
        sink = await opened(path, store)
        assert seqs(path) == list(range(1, 101))
        await sink.emit(await add(store, 150, 200))
        await sink.emit(await add(store, 101, 150))
        await sink.aclose()
    assert seqs(path) == list(range(1, 200))
    assert sorted(steps(path)) == list(range(1, 200))


@pytest.mark.anyio
async def test_a_file_of_another_database_is_set_aside(tmp_path: Path) -> None:
    """After the state was reset, or in a foreign file, nothing is lost and nothing is mixed."""
    path = tmp_path / "verdicts.jsonl"
    async with Store() as old:
        await add(old, 1, 6, policy="old")
        await repaired(path, old)
    before = path.read_bytes()
    async with Store() as empty:
        assert await repaired(path, empty) == []
    assert (tmp_path / "verdicts.jsonl.old-1").read_bytes() == before
    path.write_bytes(before)
    async with Store() as store:
        await add(store, 1, 9)
        assert await repaired(path, store) == list(range(1, 9))
        assert (tmp_path / "verdicts.jsonl.old-2").read_bytes() == before
        path.write_bytes(b"my notes\n")
        assert await repaired(path, store) == list(range(1, 9))
        assert (tmp_path / "verdicts.jsonl.old-3").read_bytes() == b"my notes\n"


@pytest.mark.anyio
async def test_it_goes_on_after_deletion_truncation_and_rotation(tmp_path: Path) -> None:
    """What a person does to the file while it is written costs no later line, and repeats none."""
    path = tmp_path / "verdicts.jsonl"
    async with Store() as store:
        sink = await opened(path, store)
        await sink.emit(await add(store, 1, 3))
        path.unlink()
        await sink.emit(await add(store, 3, 5))
        assert seqs(path) == [3, 4]
        path.rename(tmp_path / "moved")
        await sink.emit(await add(store, 5, 6))
        assert seqs(path) == [5]
        assert seqs(tmp_path / "moved") == [3, 4]
        os.truncate(path, 0)
        await sink.emit(await add(store, 6, 8))
        assert seqs(path) == [6, 7]
        os.truncate(path, path.stat().st_size - 5)
        await sink.emit(await add(store, 8, 9))
        assert seqs(path) == [6, 8]
        path.unlink()
        path.write_bytes(b"")
        await sink.emit(await add(store, 9, 10))
        assert seqs(path) == [9]
        await sink.aclose()


@pytest.mark.anyio
async def test_rotation_by_size(tmp_path: Path) -> None:
    """The file never grows beyond its limit, the one before is kept, and a restart repeats nothing."""
    path, old = tmp_path / "verdicts.jsonl", tmp_path / "verdicts.jsonl.1"
    async with Store() as store:
        await add(store, 1, 11)
        ((_, line), *_) = await store.lines(0, 1)
        limit = len(line) * 4 + 20
        sink = await opened(path, store, max_bytes=limit)
        assert seqs(old) + seqs(path) == [5, 6, 7, 8, 9, 10]
        for n in range(11, 18):
            await sink.emit(await add(store, n, n + 1))
            assert path.stat().st_size <= limit
            assert old.stat().st_size <= limit
        await sink.aclose()
        last = seqs(old) + seqs(path)
        assert last == list(range(last[0], 18))
        path.unlink()
        sink = await opened(path, store, max_bytes=limit)
        assert seqs(path)[0] == seqs(old)[-1] + 1
        assert seqs(path)[-1] == 17
        await sink.aclose()


@pytest.mark.anyio
async def test_a_line_above_the_limit_has_a_file_of_its_own(tmp_path: Path) -> None:
    """A limit smaller than a line still loses none."""
    path = tmp_path / "verdicts.jsonl"
    async with Store() as store:
        sink = await opened(path, store, max_bytes=10)
        for n in range(1, 4):
            await sink.emit(await add(store, n, n + 1))
            assert seqs(path) == [n]
        await sink.aclose()


@pytest.mark.anyio
async def test_pruned_lines_stay_in_the_file(tmp_path: Path) -> None:
    """The file is not repaired towards a store that has forgotten old lines, and goes on behind its last one."""
    path = tmp_path / "verdicts.jsonl"
    async with Store(clock=lambda: 0.0) as store:
        await add(store, 1, 5)
        await repaired(path, store)
        await store.prune(max_age_seconds=0, max_bytes=1 << 40, now=1.0)
        await add(store, 5, 7)
        assert await repaired(path, store) == [1, 2, 3, 4, 5, 6]


@pytest.mark.anyio
async def test_no_room_is_a_temporary_error(tmp_path: Path) -> None:
    """Where the file cannot grow the error says so, no torn line is left, and nothing is missing later."""
    path = tmp_path / "verdicts.jsonl"
    async with Store() as store:
        sink = await opened(path, store)
        await sink.emit(await add(store, 1, 3))
        fresh = await add(store, 3, 100)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 1000, hard))
        try:
            with pytest.raises(StateError, match=r"verdicts\.jsonl: cannot be written") as caught:
                await sink.emit(fresh)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.exit_code == 75
        assert isinstance(caught.value.__cause__, OSError)
        assert seqs(path) == [1, 2]
        await sink.emit([])
        assert seqs(path) == list(range(1, 100))
        await sink.aclose()


@pytest.mark.anyio
async def test_what_is_no_plain_file_of_ours_is_refused(tmp_path: Path) -> None:
    """A named pipe, a folder and a missing folder are named; nothing blocks."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    async with Store() as store:
        for name in ("pipe", "folder", "none/verdicts.jsonl"):
            with pytest.raises(StateError, match=name) as caught:
                await opened(tmp_path / name, store)
            assert caught.value.exit_code == 78


@pytest.mark.anyio
async def test_links(tmp_path: Path) -> None:
    """Our own symbolic link is followed; another user's is refused and its target left alone."""
    target, link = tmp_path / "target", tmp_path / "verdicts.jsonl"
    link.symlink_to(target)
    async with Store() as store:
        await add(store, 1, 3)
        assert await repaired(link, store) == [1, 2]
        assert link.is_symlink()
        if os.geteuid() == 0:
            os.lchown(link, 12345, 12345)
            before = target.read_bytes()
            with pytest.raises(StateError, match="link of another user"):
                await opened(link, store)
            assert target.read_bytes() == before
