"""The child process by itself, over its pipe."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from verifierd import bundled
from verifierd.predictors.shell.sight import HEADER, Answer, Effect, Question, Sight
from verifierd.types import ObservationKind

REPOSITORY = str(Path(__file__).parents[3])


class Child:
    """A worker and its pipe."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "verifierd.predictors.shell.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": REPOSITORY},
            cwd="/",
        )
        self.send((bundled.root("policies") / "shell" / "gnu.toml").read_bytes())

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(len(data).to_bytes(HEADER, "big") + data)
        self.process.stdin.flush()

    def ask(self, question: Question) -> Answer:
        assert self.process.stdout is not None
        self.send(msgspec.msgpack.encode(question))
        size = int.from_bytes(self.process.stdout.read(HEADER), "big")
        return msgspec.msgpack.decode(self.process.stdout.read(size), type=Answer)


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child()
    with child.process:
        yield child
        child.process.kill()


def sight(command: str, observation: str | None = None, exit_code: int | None = None) -> Sight:
    return Sight(
        "native", Effect("shell", command), ObservationKind.ENV, "/home/me/p", None, (), observation, exit_code
    )


def test_takes_in_and_predicts(child: Child) -> None:
    """One question takes in the past and predicts the next step."""
    answer = child.ask(Question(1, 0, "auto", (sight("echo hi > a.txt", "", 0),), sight("cat a.txt")))
    assert answer == Answer(text="hi\n", exit_code=0)


def test_goes_on_from_where_it_was(child: Child) -> None:
    """A session remembers; at the wrong point, or under an unknown number, it says so and does nothing."""
    assert child.ask(Question(1, 0, "auto", (), sight("echo hi > a.txt"))).text == ""
    assert child.ask(Question(1, 0, "auto", (sight("echo hi > a.txt", "", 0),), sight("cat a.txt"))).text == "hi\n"
    assert child.ask(Question(1, 1, "auto", (sight("cat a.txt", "hi\n", 0),), sight("cat a.txt"))).text == "hi\n"
    assert not child.ask(Question(1, 1, "auto", (), sight("cat a.txt"))).known
    assert not child.ask(Question(2, 5, "auto", (), sight("cat a.txt"))).known


def test_a_step_that_must_not_be_tried(child: Child) -> None:
    """After a step of which nothing is known, the state is unknown, and work goes on."""
    past = (sight("echo hi > a.txt", "", 0), None)
    assert child.ask(Question(1, 0, "auto", past, sight("cat a.txt"))).text is None
    assert child.ask(Question(1, 2, "auto", (sight("cat a.txt", "hi\n", 0),), sight("cat a.txt"))).text == "hi\n"


def test_sessions_are_bounded(child: Child) -> None:
    """The least recently used of too many sessions is given up; the others are held."""
    for number in range(1, 200):
        child.ask(Question(number, 0, "auto", (sight("echo hi > a.txt", "", 0),), sight("cat a.txt")))
    assert not child.ask(Question(1, 1, "auto", (), sight("cat a.txt"))).known
    assert child.ask(Question(199, 1, "auto", (), sight("cat a.txt"))).text == "hi\n"


def test_ends_with_its_input(child: Child) -> None:
    """When the parent closes the pipe, the child exits by itself with status 0."""
    assert child.process.stdin is not None
    child.process.stdin.close()
    assert child.process.wait(timeout=10) == 0


def test_cannot_write_files(child: Child) -> None:
    """The child is limited: no files can grow and no core is dumped."""
    child.ask(Question(1, 0, "auto", (), sight("echo hi")))
    limits = Path(f"/proc/{child.process.pid}/limits")
    if not limits.exists():
        pytest.skip("this system shows no limits of other processes")
    shown = {line[:26].strip(): line[26:].split()[:2] for line in limits.read_text().splitlines()}
    assert shown["Max file size"] == ["0", "0"]
    assert shown["Max core file size"] == ["0", "0"]
    assert shown["Max address space"] == [str(1 << 30)] * 2


def test_a_failure_costs_one_step(child: Child) -> None:
    """What breaks in the middle of a step is given up, predicted or taken in, and the session goes on behind it."""
    long = sight("echo x > " + "\u5b57" * 200, "", 0)
    assert child.ask(Question(1, 0, "auto", (), long)).abstain == "predictor_error"
    assert child.ask(Question(1, 0, "auto", (long, sight("echo hi > a.txt", "", 0)), sight("cat a.txt"))).text == "hi\n"
    assert child.ask(Question(1, 2, "auto", (sight("cat a.txt", "hi\n", 0),), sight("wc -l a.txt"))).text == "1 a.txt\n"
