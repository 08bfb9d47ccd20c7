"""A followed file against a model of it, under any order of writes, rewrites, reads and restarts."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from verifierd.sources.file import FileSource
from verifierd.types import Position

_BYTES = st.lists(st.sampled_from([b"a", b"bb", b"\r", b"\n", b"\n", b"x" * 30]), max_size=8).map(b"".join)


class Model(RuleBasedStateMachine):
    """What must hold: once all is read, the lines given of this generation are the complete lines of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "a.jsonl"
        self.clock = 1_000_000_000

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(data=_BYTES)
    def start(self, data: bytes) -> None:
        self.path.write_bytes(data)
        self.source = FileSource(self.path, max_line_bytes=50)
        self.given: dict[int, bytes | None] = {}
        self.generation = 0
        self.committed = Position()
        self.kept: dict[int, bytes | None] = {}
        self.pass_time()

    def pass_time(self) -> None:
        """Two changes within one tick of the file system's clock that keep the size cannot be told apart."""
        self.clock += 1_000_000_000
        os.utime(self.path, ns=(self.clock, self.clock))

    @rule(data=_BYTES)
    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)
        self.pass_time()

    @rule(share=st.floats(0, 1))
    def cut(self, share: float) -> None:
        os.truncate(self.path, int(self.path.stat().st_size * share))
        self.pass_time()

    @rule(data=_BYTES)
    def write_anew(self, data: bytes) -> None:
        with self.path.open("r+b") as file:
            file.truncate(0)
            file.write(data)
        self.pass_time()

    @rule(data=_BYTES, keep=st.booleans())
    def replace(self, data: bytes, keep: bool) -> None:  # noqa: FBT001
        other = self.path.with_suffix(".new")
        other.write_bytes(self.path.read_bytes() + data if keep else data)
        other.replace(self.path)
        self.pass_time()

    @rule(records=st.integers(1, 4), commit=st.booleans())
    def read(self, records: int, commit: bool) -> None:  # noqa: FBT001
        while not self.source._pending and self.source._fill(1):
            pass
        if self.source.generation != self.generation:
            self.generation = self.source.generation
            self.given = {}
        end = None
        for _ in range(min(records, len(self.source._pending))):
            record = self.source._pending.popleft()
            assert record.origin.offset not in self.given
            self.given[record.origin.offset] = None if record.problem else record.data
            end = record.end
        if commit and end is not None:
            self.committed = self.source.position(end)
            assert self.committed.offset == end
            self.kept = dict(self.given)

    @rule()
    def restart(self) -> None:
        self.source._close()
        self.source = FileSource(self.path, self.committed, max_line_bytes=50)
        self.generation = self.source.generation
        self.given = {offset: data for offset, data in self.kept.items() if offset < self.committed.offset}

    @invariant()
    def nothing_is_open_at_the_end(self) -> None:
        if hasattr(self, "source") and self.source._ended:
            assert self.source._descriptor is None

    @rule()
    def read_all(self) -> None:
        while self.source._pending or self.source.changed() or not self.source._ended:
            self.read(4, commit=False)
        expected: dict[int, bytes | None] = {}
        offset = 0
        *lines, _ = self.path.read_bytes().split(b"\n")
        for line in lines:
            data = line.removesuffix(b"\r")
            if len(data) > 50:
                expected[offset] = None
            elif data.strip():
                expected[offset] = data
            offset += len(line) + 1
        assert self.given == expected


def test_lines_of_a_file_that_anything_happens_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens, what was given is what is there; chunks of a few bytes meet every edge."""
    monkeypatch.setattr("verifierd.sources.file.CHUNK", 7)
    run_state_machine_as_test(Model, settings=settings(max_examples=80, stateful_step_count=30, deadline=None))
