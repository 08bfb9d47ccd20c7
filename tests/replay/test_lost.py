"""Writes that were told to be done and do not show."""

import random

import pytest

from verifierd.replay.edits import Case, Pool
from verifierd.replay.lost import lost_writes
from verifierd.types import Action, Origin, Step


def _step(index: int, command: str, observation: str = "", code: int = 0) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=index,
        action=Action(tool="bash", input=command, command=command),
        observation=observation,
        exit_code=code,
        cwd="/w",
        origin=Origin(path="t.jsonl", offset=index),
    )


def _edits(past: list[Step], command: str, observation: str, code: int = 0) -> set[tuple[str, bool | None]]:
    step = _step(99, command, observation, code)
    case = Case(step=step, history=past, pool=Pool(), context=past)
    found = set()
    for edit in lost_writes(case, random.Random(1)):
        found.add((step.observation[: edit.start] + edit.new + step.observation[edit.end :], edit.failed))
    return found


NO_FILE = "No such file or directory\n"
WRITTEN = [_step(1, "printf 'one\\ntwo\\n' > a.txt"), _step(2, "cat a.txt", "one\ntwo\n")]


@pytest.mark.parametrize(
    "write",
    [
        "echo three >> a.txt",
        "echo three | tee -a a.txt",
        "cat >> a.txt <<'EOF'\nthree\nEOF",
        "cd /w && printf '%s\\n' three >>a.txt",
        "tee -a a.txt <<'EOF'\nthree\nEOF",
    ],
)
@pytest.mark.parametrize(
    ("look", "shown", "without"),
    [
        ("cat a.txt", "one\ntwo\nthree\n", ("one\ntwo\n", None)),
        ("cat a.txt", "one\ntwo\nthree", ("one\ntwo", None)),
        ("cd /w && cat a.txt", "one\ntwo\nthree\n", ("one\ntwo\n", None)),
        ("wc -l a.txt", "3 a.txt\n", ("2 a.txt\n", None)),
        ("tail -n 1 a.txt", "three\n", ("two\n", None)),
        ("tail -2 a.txt", "two\nthree\n", ("one\ntwo\n", None)),
        ("sed -n '2,3p' a.txt", "two\nthree\n", ("two\n", None)),
        ("grep -n t a.txt", "2:two\n3:three\n", ("2:two\n", None)),
        ("grep -c thr a.txt", "1\n", ("0\n", True)),
        ("grep thr a.txt", "three\n", ("", True)),
    ],
)
def test_what_was_appended(write: str, look: str, shown: str, without: tuple[str, bool | None]) -> None:
    """Lines that were appended are missing from whatever shows the file."""
    assert without in _edits([*WRITTEN, _step(3, write)], look, shown)


@pytest.mark.parametrize(
    ("write", "look", "shown", "without"),
    [
        ("echo new > a.txt", "cat a.txt", "new\n", ("one\ntwo\n", None)),
        ("sed -i 's/two/2/' a.txt", "cat a.txt", "one\n2\n", ("one\ntwo\n", None)),
        ("sed -i 's|o|0|g' a.txt", "head -1 a.txt", "0ne\n", ("one\n", None)),
        ("rm a.txt", "cat a.txt", f"cat: a.txt: {NO_FILE}", ("one\ntwo\n", False)),
        ("mv a.txt b.txt", "cat b.txt", "one\ntwo\n", (f"cat: b.txt: {NO_FILE}", True)),
        ("mv a.txt b.txt", "cat a.txt", f"cat: a.txt: {NO_FILE}", ("one\ntwo\n", False)),
        ("cp a.txt b.txt", "head b.txt", "one\ntwo\n", (f"head: cannot open 'b.txt' for reading: {NO_FILE}", True)),
        ("seq 2 3 > nums", "cat -n nums", "     1\t2\n     2\t3\n", (f"cat: nums: {NO_FILE}", True)),
        ("touch c", "ls", "a.txt\nc\n", ("a.txt\n", None)),
        ("mkdir -p d/e", "ls -p", "a.txt\nd/\n", ("a.txt\n", None)),
        ("mkdir -p d/e", "ls d", "e\n", (f"ls: cannot access 'd': {NO_FILE}", True)),
        ("rm a.txt", "ls -a", ".\n..\nb\n", (".\n..\na.txt\nb\n", None)),
    ],
)
def test_other_writes(write: str, look: str, shown: str, without: tuple[str, bool | None]) -> None:
    """A file reads as before, what was made is not there, what was removed still is."""
    failed = 1 if "No such file" in shown else 0

    assert without in _edits([*WRITTEN, _step(3, write)], look, shown, failed)


def test_what_stood_there_before() -> None:
    """Of a file that nobody showed only what was appended is missing."""
    past = [_step(1, "echo last >> log")]

    assert _edits(past, "cat log", "first\nlast\n") == {("first\n", None)}
    assert _edits(past, "cat log", "last\n") == {(f"cat: log: {NO_FILE}", True)}
    assert not _edits(past, "ls", "log\n")
    assert not _edits([_step(0, "git add log"), *past], "cat log", "last\n")


@pytest.mark.parametrize(
    ("past", "look", "shown"),
    [
        (WRITTEN, "cat a.txt", "one\ntwo\nthree\n"),  # somebody else wrote
        (WRITTEN, "cat b.txt", "one\ntwo\n"),
        (WRITTEN, "cat a.txt | sort", "one\ntwo\n"),
        (WRITTEN, "cat *.txt", "one\ntwo\n"),
        ([_step(1, "echo $X > a.txt")], "cat a.txt", "x\n"),
        ([_step(1, "echo x > a.txt", code=1)], "cat a.txt", "x\n"),
        ([_step(1, "[ -f b ] || echo x > a.txt")], "cat a.txt", "x\n"),
        ([_step(1, "for i in 1; do echo x > a.txt; done")], "cat a.txt", "x\n"),
        ([_step(1, "mkdir d"), _step(2, "echo x > d/a")], "ls d", "b\n"),
        ([_step(1, "touch c"), _step(2, "make")], "ls", "c\n"),  # who knows what it makes
        ([_step(1, "cat a.txt", "x\n"), _step(2, "echo x > a.txt")], "cat a.txt", "x\n"),
    ],
)
def test_what_does_not_follow(past: list[Step], look: str, shown: str) -> None:
    """Where it is not known what stood there, or what was done, nothing is made up."""
    assert not _edits(past, look, shown)


def test_a_later_write_that_needs_it() -> None:
    """A write that a later one could not have done without is not lost; one that stands by itself is."""
    made = [_step(1, "mkdir d"), _step(2, "echo x > d/a"), _step(3, "echo y >> d/a")]

    assert _edits(made, "cat d/a", "x\ny\n") == {("y\n", None), ("x\n", None)}
