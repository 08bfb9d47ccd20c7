"""Standard input is read as it comes."""

import io
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from verifierd.sources import open_source
from verifierd.sources.stdin import StdinSource

_READER = """
import anyio
from verifierd.sources import open_source

async def main():
    source = open_source("-")
    while batch := await source.read(records=10, size=1000):
        for record in batch:
            print(record.origin.path, record.origin.offset, record.end, record.data.decode(), flush=True)
    tail = await source.tail()
    print("tail", tail and tail.data.decode(), source.position(3).offset)

anyio.run(main)
"""


def test_a_real_pipe_and_a_real_file_are_read_to_their_end(tmp_path: Path) -> None:
    """Lines come with their offsets, the unterminated last one as the tail, from a pipe and from a redirected file."""
    text = "1\r\n22\n\n3"
    (tmp_path / "in").write_bytes(text.encode())
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _READER]
    piped = subprocess.run(command, input=text.encode(), capture_output=True, check=True, cwd=root)
    with (tmp_path / "in").open("rb") as file:
        redirected = subprocess.run(command, stdin=file, capture_output=True, check=True, cwd=root)
    assert piped.stdout.decode().splitlines() == ["- 0 3 1", "- 3 6 22", "tail 3 3"]
    assert redirected.stdout == piped.stdout


@pytest.mark.anyio
async def test_a_line_is_given_while_the_pipe_stays_open() -> None:
    """A line is not held back until more comes, and waiting for one can be cancelled."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream:
        source = StdinSource(stream)
        os.write(writer, b"1\n2")
        assert [r.data for r in await source.read(records=9, size=999)] == [b"1"]
        assert await source.tail() is None
        with anyio.move_on_after(0.1) as scope:
            await source.read(records=9, size=999)
        assert scope.cancelled_caught
        os.close(writer)
        assert await source.read(records=9, size=999) == []
        tail = await source.tail()
        assert tail is not None
        assert tail.data == b"2"
        source.accept(tail)
        assert await source.tail() is None


@pytest.mark.anyio
async def test_a_stream_without_a_descriptor_is_read_too() -> None:
    """A stream in memory, as test runners put in place of standard input, works."""
    source = StdinSource(io.BytesIO(b"1\n" + b"x" * 50 + b"\n3\n"), max_line_bytes=10)
    given = await source.read(records=9, size=999)
    assert [(r.data, r.problem) for r in given] == [(b"1", None), (b"", "too_long"), (b"3", None)]
    assert source.position(given[-1].end).offset == 55
    assert await source.read(records=9, size=999) == []
    assert not source.changed()


def test_a_dash_is_standard_input() -> None:
    """The opener takes `-` for standard input and everything else for a file."""
    assert open_source("-").path == "-"
    assert open_source("a.jsonl").path == "a.jsonl"
