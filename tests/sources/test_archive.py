"""A compressed log is read once, as far as it can be."""

import gzip
from pathlib import Path

import pytest

from verifierd.errors import SourceError
from verifierd.sources import LineSource, open_source
from verifierd.types import Record


async def drain(source: LineSource) -> list[Record]:
    out: list[Record] = []
    while batch := await source.read(records=7, size=1 << 20):
        out.extend(batch)
    await source.aclose()
    return out


def numbered(start: int, stop: int) -> bytes:
    return b"".join(b'{"n":%d}\n' % n for n in range(start, stop))


@pytest.mark.anyio
async def test_members_padding_and_garbage(tmp_path: Path) -> None:
    """Concatenated members are one stream; NUL padding and bytes that are no archive are ignored behind them."""
    path = tmp_path / "a.jsonl.gz"
    two = gzip.compress(numbered(0, 3)) + bytes(600) + gzip.compress(numbered(3, 5))
    for rest in (b"", bytes(300_000), b"\0garbage", b"\x1f"):
        path.write_bytes(two + rest)
        given = await drain(open_source(path))
        assert b"".join(r.data + b"\n" for r in given) == numbered(0, 5)
        assert [r.problem for r in given] == [None] * 5
        assert given[4].origin.offset == len(numbered(0, 4))


@pytest.mark.anyio
async def test_a_bomb_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """100 MB of zeros in a small archive become one line over the limit."""
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(100):
            file.write(bytes(1_000_000))
        file.write(b"\n1\n")
    given = await drain(open_source(path, max_line_bytes=1000))
    assert [(r.problem, r.end) for r in given] == [("too_long", 100_000_001), (None, 100_000_003)]


@pytest.mark.anyio
async def test_a_damaged_archive_gives_what_can_be_read_and_says_so(tmp_path: Path) -> None:
    """Cut off or with broken bytes, an archive gives the lines before the damage, then a record of the problem."""
    path = tmp_path / "a.jsonl.gz"
    data = gzip.compress(numbered(0, 20_000))
    checksum = data[:-8] + bytes(4) + data[-4:]
    for bad, least in ((data[: len(data) // 2], 5000), (checksum, 15_000), (data[:-4], 19_999), (b"", 0)):
        path.write_bytes(bad)
        source = open_source(path)
        *good, problem = await drain(source)
        assert [r.data for r in good] == numbered(0, 20_000).split(b"\n")[: len(good)]
        assert len(good) >= least
        assert problem.problem == "damaged_archive"
        assert problem.data == b""
        assert await source.tail() is None
        assert await source.read(records=1, size=1) == []


@pytest.mark.anyio
async def test_an_archive_still_being_written_is_read_on(tmp_path: Path) -> None:
    """When a cut archive has grown whole, only the lines that were missing are given."""
    path = tmp_path / "a.jsonl.gz"
    data = gzip.compress(numbered(0, 20_000))
    path.write_bytes(data[: len(data) // 2])
    source = open_source(path)
    *first, problem = await drain(source)
    path.write_bytes(data)
    assert source.changed()
    second = await drain(source)
    assert b"".join(r.data + b"\n" for r in first + second) == numbered(0, 20_000)
    assert source.generation == 0
    assert problem.end == first[-1].end


@pytest.mark.anyio
async def test_reading_goes_on_from_a_position(tmp_path: Path) -> None:
    """From a position in the middle the rest is given, from that of the last record nothing, without unpacking."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(numbered(0, 50_000)))
    source = open_source(path)
    given = await drain(source)
    middle = source.position(given[24_999].end)
    assert middle.size == 0
    assert [r.data for r in await drain(open_source(path, middle))] == [r.data for r in given[25_000:]]
    finished = source.position(given[-1].end)
    assert finished.size == path.stat().st_size
    assert not open_source(path, finished).changed()
    assert await drain(open_source(path, finished)) == []


@pytest.mark.anyio
async def test_another_archive_under_the_same_path_starts_over(tmp_path: Path) -> None:
    """With another head the archive is read from 0, as the next generation."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(numbered(0, 3)))
    source = open_source(path)
    given = await drain(source)
    position = source.position(given[-1].end)
    path.write_bytes(gzip.compress(numbered(7, 9)))
    for reader in (source, open_source(path, position)):
        assert [r.data for r in await drain(reader)] == [b'{"n":7}', b'{"n":8}']
        assert reader.generation == 1


@pytest.mark.anyio
async def test_a_last_line_without_an_end_is_the_tail(tmp_path: Path) -> None:
    """The unterminated rest is given by tail, and committed once it is accepted."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"1\n2"))
    source = open_source(path)
    assert [r.data for r in await drain(source)] == [b"1"]
    tail = await source.tail()
    assert tail is not None
    assert (tail.data, tail.end) == (b"2", 3)
    source.accept(tail)
    assert await source.tail() is None
    assert source.position(tail.end).offset == 3


@pytest.mark.parametrize("suffix", [".zst", ".xz", ".bz2", ".zip"])
def test_other_archives_are_refused_with_the_remedy(suffix: str) -> None:
    """An archive of another kind is named, with the command that unpacks it."""
    with pytest.raises(SourceError, match=f"{suffix} archives are not read") as caught:
        open_source(f"log.jsonl{suffix}")
    assert f"log.jsonl{suffix}" in caught.value.hint


@pytest.mark.anyio
async def test_a_missing_archive_is_an_error(tmp_path: Path) -> None:
    """It is named, as for any file."""
    with pytest.raises(SourceError, match=r"none\.gz: does not exist"):
        await open_source(tmp_path / "none.gz").read(records=1, size=1)
