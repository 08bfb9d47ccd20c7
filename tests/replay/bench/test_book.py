"""Runs in files: written at once, taken up where they ended, and nobody else's replaced."""

import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from verifierd.errors import ConfigError, StateError
from verifierd.replay.bench.asking import Outcome
from verifierd.replay.bench.book import About, Book, Row, read


def _about(**more: Any) -> About:
    usual: dict[str, Any] = {
        "suite": "roles",
        "size": "full",
        "predictor": "mlx",
        "model": "m@1",
        "policy": "default@1",
        "prompts": "p",
        "sampling": "greedy",
        "seed": 0,
        "runs": 0,
        "parameters": {"max-tokens": 5, "rate": 1.0, "chosen": ("a", "b")},
        "verifierd": "1",
        "date": "2026-01-01",
        "host": {},
    }
    return About(**usual | more)


def _row(case: str, **more: Any) -> Row:
    return Row(case=case, outcome=Outcome.ANSWERED, **more)


def test_a_run_goes_on(tmp_path: Path) -> None:
    """Done jobs are known again, whatever the day and the machine; rows come in the order that is asked for."""
    file = tmp_path / "run.jsonl"
    with Book(file, _about()) as book:
        book.add("one", [_row("1", exact=True, said="a\nb"), _row("2", scores={"form": 1.0})])
    assert not file.stat().st_mode & 0o077
    with Book(file, _about(date="2027-01-01", host={"cpus": 9})) as book:
        assert book.done.keys() == {"one"}
        book.add("two", [_row("3")])
    with Book(file, _about()) as book:
        assert [row.case for row in book.rows(["two", "one", "three"])] == ["3", "1", "2"]
        assert book.rows(["one"])[0] == _row("1", exact=True, said="a\nb")

    about, rows = read(file)
    assert about.model == "m@1"
    assert about.parameters["chosen"] == ["a", "b"]
    assert len(rows) == 3


@pytest.mark.parametrize("kept", [0, 1])
def test_a_line_that_a_kill_cut_is_dropped(tmp_path: Path, kept: int) -> None:
    """Wherever it was cut; the rest goes on, also where the first line was cut."""
    file = tmp_path / "run.jsonl"
    with Book(file, _about()) as book:
        book.add("one", [_row("1")])
    lines = file.read_bytes().splitlines(keepends=True)
    for length in range(1, len(lines[kept])):
        file.write_bytes(b"".join(lines[:kept]) + lines[kept][:length])
        with Book(file, _about()) as book:
            assert not book.done
            book.add("two", [_row("2")])
        assert [row.case for row in read(file)[1]] == ["2"]


@pytest.mark.parametrize(
    ("field", "other"),
    [("model", "m@2"), ("seed", 1), ("parameters", {"max-tokens": 6}), ("sampling", "card"), ("data", "d")],
)
def test_another_run_is_refused(tmp_path: Path, field: str, other: Any) -> None:
    """The error says in what it differs, and the file stays as it was."""
    file = tmp_path / "run.jsonl"
    with Book(file, _about()) as book:
        book.add("one", [_row("1")])
    before = file.read_bytes()
    with pytest.raises(ConfigError, match=f"differs in {field}") as caught:
        Book(file, _about(**{field: other}))
    assert str(file) in caught.value.message
    assert "--out" in caught.value.hint
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [b"precious", b"precious\n", b'{"a": 1}\n', b"\x00\xff", b'{"suite": "x"}\n'])
def test_a_file_that_is_no_run_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    """Whether or not it has a whole line."""
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(ConfigError):
        Book(file, _about())
    with pytest.raises(ConfigError):
        read(file)
    assert file.read_bytes() == content


def test_a_broken_line_is_told_with_its_number(tmp_path: Path) -> None:
    """Nothing is passed over in the middle."""
    file = tmp_path / "run.jsonl"
    with Book(file, _about()) as book:
        book.add("one", [_row("1")])
    file.write_bytes(file.read_bytes() + b"{]\n")
    with pytest.raises(ConfigError, match=r"run\.jsonl:3"):
        Book(file, _about())


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    """The second is told, and the first goes on."""
    file = tmp_path / "run.jsonl"
    with Book(file, _about()) as book:
        with pytest.raises(StateError, match="another run"):
            Book(file, _about())
        book.add("one", [_row("1")])
    assert len(read(file)[1]) == 1


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A folder that is not there, a folder, a device."""
    for place in (tmp_path / "missing" / "run.jsonl", tmp_path, Path("/dev/null")):
        with pytest.raises(StateError) as caught:
            Book(place, _about())
        assert str(place) in caught.value.message


def test_nothing_is_kept_without_a_file() -> None:
    """But in memory."""
    with Book(None, _about()) as book:
        book.add("one", [_row("1")])
        assert book.rows(["one"])


@pytest.fixture
def small() -> Iterator[int]:
    """No file of this process may grow beyond so many bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    yield 2000
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, before)


def _fill(file: Path) -> None:
    with Book(file, _about()) as book:
        for number in range(100):
            book.add(f"job-{number}", [_row(f"{number}", said="x" * 100)])


def test_a_full_disk_is_told_and_loses_no_whole_line(tmp_path: Path, small: int) -> None:
    """The run goes on with what was kept once there is room."""
    file = tmp_path / "run.jsonl"
    with pytest.raises(StateError, match=r"run\.jsonl"):
        _fill(file)
    assert file.stat().st_size <= small
    kept = len(read(file)[1])
    assert kept > 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (10 * small, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    with Book(file, _about()) as book:
        assert len(book.done) == kept
        book.add("last", [_row("last")])
    assert len(read(file)[1]) == kept + 1


def test_what_is_no_character_is_written_too(tmp_path: Path) -> None:
    """Half a pair of surrogates, as JSON may bring it, ends no run."""
    file = tmp_path / "run.jsonl"
    with Book(file, _about()) as book:
        book.add("one", [_row("1", said="a\ud800b", scores={"x": 1.5})])
    assert read(file)[1] == [_row("1", said="a?b", scores={"x": 1.5})]
    assert msgspec.json.decode(file.read_bytes().splitlines()[1])["job"] == "one"
