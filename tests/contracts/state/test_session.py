"""What is as the last step left it, for a step that comes next and for each call of it."""

import msgspec
import pytest

from tests.helpers import ran
from verifierd.contracts.checks import check
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.state.effects import Effect
from verifierd.contracts.state.session import Session
from verifierd.contracts.tails import LONGEST
from verifierd.types import Action, Step

CONTRACTS = Contracts(bundled())
READ = ("cat -n a.py", "     1\tx\n")
CLEAN = ("git status", "On branch main\nnothing to commit, working tree clean\n")
DIRTY = ("git status --short", " M a.py\n")
LOG = ("git log --oneline -2", "abc1234 One\nabc1235 Two\n")


def _session(*steps: tuple[str, str]) -> Session:
    session = Session()
    for number, (command, observation) in enumerate(steps, 1):
        CONTRACTS.observe(session, ran(command, observation, index=number))
    return session


def _violated(session: Session, step: Step) -> list[str]:
    return [
        constraint.rule
        for constraint in CONTRACTS.constraints(session, step)
        if check(constraint, step.observation, status=step.exit_code, succeeded=step.succeeded).violated
    ]


@pytest.mark.parametrize(
    ("before", "command", "observation"),
    [
        (CLEAN, "git checkout -b topic && git commit -m x", "Switched to a new branch 'topic'\n[topic abc1234] x\n"),
        (CLEAN, "git switch -c feat; git status", "Switched to a new branch 'feat'\nOn branch feat\nnothing to commit"),
        (CLEAN, "git checkout -q x; git branch --show-current", "x\n"),
        (CLEAN, "echo q > f && git status --short", " M f\n"),
        (DIRTY, "git add a.py && git diff --stat", ""),
        (DIRTY, "git commit -qam x && git status --short", ""),
        (DIRTY, "python gen.py; git status --short", ""),
        (LOG, "git commit -qm new && git log --oneline -2", "fff1234 New\nabc1234 One\n"),
        (READ, "mv b.py a.py && cat a.py", "y\n"),
        (READ, "cp b.py a.py && cat -n a.py", "     1\ty\n"),
        (READ, "jq . b > a.py; cat a.py", "y\n"),
        (READ, "printf 'y\\n' > a.py; cat -n a.py", "     1\ty\n"),
        (READ, "echo y | tee a.py | cat -n a.py", "     1\ty\n"),
        (("touch a.py", ""), "rm a.py; ls", "b.py\n"),
        (("touch a.py", ""), "make clean && ls", "b.py\n"),
        (("mkdir a", ""), "mv a c; ls", "c\n"),
        (("rm a.py", ""), "git checkout a.py; cat a.py", "x\n"),
        (("rm a.py", ""), "echo y > a.py; cat a.py", "y\n"),
        (("rm err.log", ""), "ls 2> err.log", "err.log\n"),
    ],
)
def test_what_a_command_line_changed_before_is_not_held_against_it(
    before: tuple[str, str], command: str, observation: str
) -> None:
    """A call meets what the parts before it, and those at its side, have made of things."""
    assert _violated(_session(before), ran(command, observation, index=2)) == []


@pytest.mark.parametrize(
    ("before", "command", "observation"),
    [
        (CLEAN, "git add -A && git commit -m x", "[topic abc1234] x\n"),
        (READ, "cd . && cat -n a.py", "     1\ty\n"),
        (READ, "mkdir -p out; cat -n a.py", "     1\ty\n"),
        (("rm a.py", ""), "git status -s; cat a.py", "x\n"),
    ],
)
def test_what_it_left_alone_is(before: tuple[str, str], command: str, observation: str) -> None:
    """Parts that do not touch what a rule is about do not stand in its way."""
    assert _violated(_session(before), ran(command, observation, index=2))


def test_what_runs_beside_a_step_counts() -> None:
    """So does another turn of the conversation."""
    session = _session(READ)
    step = ran("cat -n a.py", "", index=2)

    session.expect(step)
    assert session.keeps(Effect.ANYTHING)

    session.expect(msgspec.structs.replace(step, siblings=(Action(tool="Edit"),)))
    assert not session.keeps(Effect.TEXTS)
    assert session.keeps(Effect.HISTORY)

    session.expect(msgspec.structs.replace(step, turn="2"))
    assert not session.keeps(Effect.HISTORY)


def test_nothing_is_learned_of_what_is_too_long() -> None:
    """It is no more than a step that the log cut."""
    session = _session(("cat -n a.py", "     1\tx\n" + " " * LONGEST))

    assert session.total == 1
    assert session.files.known("/home/user/a.py") == {}
