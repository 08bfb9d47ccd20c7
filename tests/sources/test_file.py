"""A followed file gives each line once, and its position survives what happens to files."""

import os
import socket
from pathlib import Path

import pytest

from verifierd.errors import SourceError
from verifierd.sources.file import ANCHOR, HEAD, Facts, FileSource, Sight, fingerprint, resume
from verifierd.types import Position, Record


async def drain(source: FileSource, *, records: int = 1000, size: int = 1 << 20) -> list[Record]:
    out: list[Record] = []
    while batch := await source.read(records=records, size=size):
        out.extend(batch)
    return out


async def lines(source: FileSource) -> list[bytes]:
    return [record.data for record in await drain(source)]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def numbered(start: int, stop: int) -> bytes:
    return b"".join(b'{"n":%d}\n' % n for n in range(start, stop))


def numbers(start: int, stop: int) -> list[bytes]:
    return [b'{"n":%d}' % n for n in range(start, stop)]


@pytest.mark.anyio
async def test_a_line_is_given_when_its_end_arrives(tmp_path: Path) -> None:
    """Written byte by byte, with a read after each byte, a file gives exactly its lines with their offsets."""
    path = tmp_path / "a.jsonl"
    path.touch()
    source = FileSource(path)
    text = '{"a":"😀é"}\r\n\n{"b":1}\n'.encode()
    given = []
    for cut in range(len(text)):
        append(path, text[cut : cut + 1])
        given += await drain(source)
    assert [(r.origin.offset, r.end, r.data) for r in given] == [
        (0, 16, '{"a":"😀é"}'.encode()),
        (17, 25, b'{"b":1}'),
    ]
    assert given[0].origin.path == str(path)


@pytest.mark.anyio
async def test_batches_keep_to_their_bounds(tmp_path: Path) -> None:
    """A read gives at most the records asked for, stops near the size asked for, and at least one record."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(numbered(0, 10))
    source = FileSource(path)
    assert len(await source.read(records=3, size=1 << 20)) == 3
    assert len(await source.read(records=100, size=1)) == 1
    assert source.backlog == 6 * len(b'{"n":4}\n')
    assert len(await drain(source)) == 6
    assert source.backlog == 0


@pytest.mark.anyio
async def test_lines_longer_than_a_chunk_come_whole(tmp_path: Path) -> None:
    """A line of many read chunks between short ones is given unharmed."""
    path = tmp_path / "a.jsonl"
    long = b'"' + bytes(range(97, 123)) * 40_000 + b'"'
    path.write_bytes(b"1\n" + long + b"\n2\n")
    assert await lines(FileSource(path)) == [b"1", long, b"2"]


@pytest.mark.anyio
async def test_a_line_over_the_limit_is_reported_and_passed(tmp_path: Path) -> None:
    """20 MB in one line become a record without data; the next line is given; also if it was unterminated at first."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n" + b"x" * 20_000_000)
    source = FileSource(path, max_line_bytes=1000)
    assert await lines(source) == [b"1"]
    tail = await source.tail()
    assert tail is not None
    assert (tail.problem, tail.origin.offset, tail.end) == ("too_long", 2, 20_000_002)
    append(path, b"x\n2\n")
    given = await drain(source)
    assert [(r.problem, r.data) for r in given] == [("too_long", b""), (None, b"2")]
    resumed = FileSource(path, source.position(given[0].end))
    assert await lines(resumed) == [b"2"]


@pytest.mark.anyio
async def test_lines_that_the_tail_was_first_to_see_are_read(tmp_path: Path) -> None:
    """Lines added between the last read and a look at the tail are given by the next read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n2")
    source = FileSource(path)
    assert await lines(source) == [b"1"]
    append(path, b"2\n3\n")
    assert await source.tail() is None
    assert await lines(source) == [b"22", b"3"]


@pytest.mark.anyio
async def test_an_endless_line_that_is_cut_is_looked_at_again(tmp_path: Path) -> None:
    """Where a line over the limit is truncated away, what is written in its place is read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n" + b"x" * 5000)
    source = FileSource(path, max_line_bytes=1000)
    assert await lines(source) == [b"1"]
    os.truncate(path, 2)
    append(path, b"2\n")
    assert await lines(source) == [b"2"]
    assert source.generation == 0


@pytest.mark.anyio
async def test_an_endless_line_that_is_another_one_is_looked_at_again(tmp_path: Path) -> None:
    """It was longer than a line may be; what the file begins with now, though no shorter, is not what it was."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * 1200)
    source = FileSource(path, max_line_bytes=1000)
    assert await lines(source) == []

    path.write_bytes(b"x" * 500 + b"\n" + b"x" * 800)
    assert await lines(source) == [b"x" * 500]
    await source.aclose()


@pytest.mark.anyio
async def test_the_tail_is_given_on_demand(tmp_path: Path) -> None:
    """The unterminated rest is held back by read, given by tail, and passed over only once it is accepted."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n")
    source = FileSource(path)
    await drain(source)
    assert await source.tail() is None
    append(path, b'{"n":')
    assert await lines(source) == []
    first = await source.tail()
    assert first is not None
    assert first.data == b'{"n":'
    append(path, b"2}")
    second = await source.tail()
    assert second is not None
    assert second.data == b'{"n":2}'
    source.accept(second)
    with pytest.raises(ValueError, match="gave last"):
        source.accept(first)
    position = source.position(second.end)
    append(path, b"\n3\n")
    assert await lines(source) == [b"3"]
    assert await lines(FileSource(path, position)) == [b"3"]


@pytest.mark.anyio
async def test_no_tail_before_the_lines_are_read(tmp_path: Path) -> None:
    """While complete lines are unread there is no tail."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n2")
    source = FileSource(path)
    assert await source.tail() is None
    assert await lines(source) == [b"1"]
    assert await source.tail() is not None


@pytest.mark.anyio
@pytest.mark.parametrize("count", [1, 30, 400])
async def test_reading_goes_on_from_any_position(tmp_path: Path, count: int) -> None:
    """From the position of each record, a new source gives exactly the records after it."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(numbered(0, count))
    source = FileSource(path)
    given = await drain(source)
    for index, record in enumerate(given):
        position = source.position(record.end)
        assert position.offset == record.end
        resumed = FileSource(path, position)
        assert await lines(resumed) == numbers(index + 1, count)
        assert resumed.sight is Sight.SAME


@pytest.mark.anyio
async def test_the_position_never_runs_ahead(tmp_path: Path) -> None:
    """For an end that is not that of a record given, the position last asked for is repeated."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(numbered(0, 5))
    source = FileSource(path)
    assert source.position(8).offset == 0
    given = await drain(source)
    assert source.position(given[1].end).offset == given[1].end
    assert source.position(given[1].end + 1).offset == given[1].end
    assert source.position(given[0].end).offset == given[1].end


@pytest.mark.anyio
async def test_ends_that_nobody_commits_are_bounded(tmp_path: Path) -> None:
    """A reader that never commits does not make the source remember every record."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n" * 20_000)
    source = FileSource(path)
    given = await drain(source)
    assert len(source._ends) < 10_000
    assert source.position(given[0].end).offset == 0
    assert source.position(given[-1].end).offset == given[-1].end


@pytest.mark.anyio
async def test_a_partial_line_across_a_restart_is_completed_once(tmp_path: Path) -> None:
    """Half a line is no part of the position, and comes whole after a restart."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'1\n{"n"')
    source = FileSource(path)
    (record,) = await drain(source)
    position = source.position(record.end)
    append(path, b":2}\n")
    assert await lines(FileSource(path, position)) == [b'{"n":2}']


@pytest.mark.anyio
async def test_a_truncated_file_starts_over(tmp_path: Path) -> None:
    """Cut to nothing and written anew, a file is read from 0 as one next generation, without an error in between."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(numbered(0, 5))
    source = FileSource(path)
    old = await drain(source)
    os.truncate(path, 0)
    assert await lines(source) == []
    assert await lines(source) == []
    assert source.generation == 1
    append(path, numbered(7, 8))
    assert await lines(source) == numbers(7, 8)
    assert source.generation == 1
    position = source.position(old[-1].end)
    assert (position.offset, position.generation) == (0, 1)


@pytest.mark.anyio
@pytest.mark.parametrize("extra", [0, 50])
async def test_copytruncate_that_regrew_is_seen_by_its_anchor(tmp_path: Path, extra: int) -> None:
    """Same inode, same head, at least the old size: only the bytes before the offset differ, and all is read again."""
    path = tmp_path / "a.jsonl"
    head = b"h" * (HEAD + ANCHOR) + b"\n"
    path.write_bytes(head + numbered(0, 100))
    source = FileSource(path)
    given = await drain(source)
    position = source.position(given[-1].end)
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(head + numbered(100, 300)[: len(numbered(0, 100)) + extra])
    for reader in (source, FileSource(path, position)):
        assert len(await drain(reader)) > 80
        assert reader.generation == 1
        assert reader.sight is Sight.REWRITTEN


@pytest.mark.anyio
async def test_the_last_record_replaced_in_place_is_seen(tmp_path: Path) -> None:
    """A tail that was cut and written longer (a tombstone) makes the file start over."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(numbered(0, 50))
    source = FileSource(path)
    await drain(source)
    os.truncate(path, path.stat().st_size - len(b'{"n":49}\n'))
    append(path, b'{"n":49,"gone":true}\n')
    assert (await lines(source))[-1] == b'{"n":49,"gone":true}'
    assert source.generation == 1


@pytest.mark.anyio
async def test_half_a_line_that_was_rewritten_is_not_glued(tmp_path: Path) -> None:
    """What was seen of an unterminated line is forgotten: the line that is given is the one in the file."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\nold half")
    source = FileSource(path)
    assert await lines(source) == [b"1"]
    os.truncate(path, 2)
    append(path, b"a longer new line\n")
    assert await lines(source) == [b"a longer new line"]
    assert source.generation == 0


@pytest.mark.anyio
async def test_an_atomic_rewrite_carries_the_offset(tmp_path: Path) -> None:
    """A new inode with the same beginning is the same log: only what was added is read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(numbered(0, 100))
    source = FileSource(path)
    given = await drain(source)
    position = source.position(given[-1].end)
    other = tmp_path / "new"
    other.write_bytes(numbered(0, 102))
    other.replace(path)
    for reader in (source, FileSource(path, position)):
        assert await lines(reader) == numbers(100, 102)
        assert (reader.generation, reader.sight) == (0, Sight.REPLACED)


@pytest.mark.anyio
async def test_another_file_under_the_same_path_starts_over(tmp_path: Path) -> None:
    """A new inode, or the same one, with another head is read from 0."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(numbered(0, 3))
    source = FileSource(path)
    await drain(source)
    path.unlink()
    path.write_bytes(numbered(5, 9))
    assert await lines(source) == numbers(5, 9)
    assert (source.generation, source.sight) == (1, Sight.RECREATED)


@pytest.mark.anyio
async def test_a_renamed_file_is_read_to_its_end_first(tmp_path: Path) -> None:
    """With a backlog, the file that was opened is finished before the one that took its path is begun."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(numbered(0, 60_000))
    source = FileSource(path)
    given = list(await source.read(records=10, size=1 << 20))
    path.rename(tmp_path / "a.jsonl.1")
    path.write_bytes(b'{"other":1}\n')
    given += await drain(source)
    assert [r.data for r in given] == [*numbers(0, 60_000), b'{"other":1}']
    assert source.generation == 1


@pytest.mark.anyio
async def test_a_deleted_file_is_an_error_and_its_return_is_read(tmp_path: Path) -> None:
    """Reading a file that is gone says so; when it is back, reading goes on."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n")
    source = FileSource(path)
    await drain(source)
    path.unlink()
    assert source.changed()
    with pytest.raises(SourceError, match=r"a\.jsonl: does not exist"):
        await source.read(records=1, size=1)
    path.write_bytes(b"1\n2\n")
    assert await lines(source) == [b"2"]


@pytest.mark.anyio
async def test_changed_is_true_exactly_after_a_change(tmp_path: Path) -> None:
    """An unread file has changed, a read one has not, an appended one has."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n")
    source = FileSource(path)
    assert source.changed()
    await drain(source)
    assert not source.changed()
    append(path, b"2\n")
    assert source.changed()


@pytest.mark.anyio
async def test_an_idle_source_holds_no_descriptor(tmp_path: Path) -> None:
    """After its end was read a file is not open; nor after aclose, from which reading goes on all the same."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(numbered(0, 60_000))
    before = open_descriptors()
    source = FileSource(path)
    first = await source.read(records=1, size=1)
    assert open_descriptors() == before + 1
    await source.aclose()
    assert open_descriptors() == before
    assert len(first) + len(await drain(source)) == 60_000
    assert open_descriptors() == before


@pytest.mark.anyio
async def test_offsets_pass_four_gigabytes(tmp_path: Path) -> None:
    """In a sparse file of 5 GB, resuming near the end is instant and exact."""
    path = tmp_path / "a.jsonl"
    far = 5 * 1024**3
    with path.open("wb") as file:
        file.write(b"1\n")
        file.seek(far)
        file.write(b"\n2\n")
    status = path.stat()
    position = Position(
        offset=far + 1,
        dev=status.st_dev,
        ino=status.st_ino,
        head_size=2,
        head_hash=fingerprint(b"1\n"),
        anchor_hash=fingerprint(bytes(ANCHOR - 1) + b"\n"),
    )
    (record,) = await drain(FileSource(path, position))
    assert (record.origin.offset, record.data) == (far + 1, b"2")


@pytest.mark.anyio
async def test_a_run_of_nul_bytes_is_one_bad_line(tmp_path: Path) -> None:
    """A writer that kept its offset over a truncation leaves NUL bytes: they are data of the line they precede."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(bytes(3000) + b'{"n":1}\n{"n":2}\n')
    assert await lines(FileSource(path)) == [bytes(3000) + b'{"n":1}', b'{"n":2}']
    short = await drain(FileSource(path, max_line_bytes=100))
    assert [(r.problem, r.data) for r in short] == [("too_long", b""), (None, b'{"n":2}')]


@pytest.mark.anyio
async def test_what_is_no_plain_file_is_refused_without_blocking(tmp_path: Path) -> None:
    """A named pipe, a socket, a device and a folder are named as such; nothing waits for a writer."""
    pipe, plug, folder = tmp_path / "p.jsonl", tmp_path / "s.jsonl", tmp_path / "d.jsonl"
    os.mkfifo(pipe)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(plug))
        for path, kind in (
            (pipe, "a named pipe"),
            (plug, "a socket"),
            (folder, "a folder"),
            (Path(os.devnull), "a device"),
            (tmp_path / "none", "does not exist"),
        ):
            with pytest.raises(SourceError, match=kind) as caught:
                await FileSource(path).read(records=1, size=1)
            assert str(path) in caught.value.message
            assert caught.value.hint


@pytest.mark.anyio
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_without_permission_is_an_error_until_it_has_it(tmp_path: Path) -> None:
    """An unreadable file says so; once it may be read, it is."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n")
    path.chmod(0)
    source = FileSource(path)
    with pytest.raises(SourceError, match="may not be read"):
        await source.read(records=1, size=1)
    path.chmod(0o600)
    assert await lines(source) == [b"1"]


@pytest.mark.anyio
async def test_a_symbolic_link_to_itself_is_an_error(tmp_path: Path) -> None:
    """A loop of links is named as one."""
    path = tmp_path / "a.jsonl"
    path.symlink_to(path)
    with pytest.raises(SourceError, match="leads back to itself"):
        await FileSource(path).read(records=1, size=1)


def facts(*, size: int = 2000, ino: int = 1, head: bytes = b"h" * HEAD, anchor: bytes = b"a" * ANCHOR) -> Facts:
    return Facts(dev=1, ino=ino, size=size, mtime_ns=0, head=head, anchor=anchor)


def test_the_resume_table() -> None:
    """Each row of the identity rule, decided from facts alone."""
    known = Position(
        offset=1500,
        dev=1,
        ino=1,
        head_size=1000,
        head_hash=fingerprint(b"h" * 1000),
        anchor_hash=fingerprint(b"a" * ANCHOR),
        generation=3,
    )
    rows = (
        (facts(), 1500, 3, Sight.SAME),
        (facts(ino=2), 1500, 3, Sight.REPLACED),
        (facts(anchor=b"b" * ANCHOR), 0, 4, Sight.REWRITTEN),
        (facts(ino=2, anchor=b"b" * ANCHOR), 0, 4, Sight.REWRITTEN),
        (facts(size=1400), 0, 4, Sight.REWRITTEN),
        (facts(head=b"g" * HEAD), 0, 4, Sight.RECREATED),
        (facts(ino=2, head=b"g" * HEAD), 0, 4, Sight.RECREATED),
        (facts(size=0, head=b"", anchor=b""), 0, 4, Sight.RECREATED),
    )
    for seen, offset, generation, sight in rows:
        decision = resume(known, seen)
        assert (decision.offset, decision.generation, decision.sight) == (offset, generation, sight)
    assert resume(None, facts()).sight is Sight.NEW
    assert resume(Position(generation=2), facts(head=b"x")).generation == 2
