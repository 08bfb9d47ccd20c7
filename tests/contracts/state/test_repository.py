"""What a session learns of its repository, and when it forgets that."""

import msgspec
import pytest

from tests.helpers import ran
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.state.repository import Tree
from verifierd.contracts.state.session import Session
from verifierd.types import Action

CWD = "/home/user/project"
CONTRACTS = Contracts(bundled())
COMMIT = ("git add -A && git commit -m 'Fix it'", "[main 1a2b3c4] Fix it\n 1 file changed, 1 insertion(+)\n")


def _observe(session: Session, command: str, observation: str, **fields: object) -> None:
    step = ran(command, observation, index=session.total + 1, cwd=CWD)
    CONTRACTS.observe(session, msgspec.structs.replace(step, **fields))


def _tree(session: Session) -> Tree | None:
    return session.repository.tree(CWD)


@pytest.mark.parametrize(
    ("command", "observation", "branch"),
    [
        ("git status", "On branch fix/one\nnothing to commit, working tree clean\n", "fix/one"),
        ("git status -sb", "## fix/one...origin/fix/one [ahead 1]\n M a\n", "fix/one"),
        ("git rev-parse --abbrev-ref HEAD", "fix/one\n", "fix/one"),
        ("git checkout -b fix/one", "Switched to a new branch 'fix/one'\n", "fix/one"),
        ("git commit -am x", "[fix/one 1a2b3c4] x\n 1 file changed\n", "fix/one"),
        ("git commit -am x", "[detached HEAD 1a2b3c4] x\n 1 file changed\n", None),
    ],
)
def test_the_branch_is_learnt(command: str, observation: str, branch: str | None) -> None:
    """Whatever names the current branch teaches it."""
    session = Session()

    _observe(session, command, observation)

    tree = _tree(session)
    assert tree is not None
    assert tree.branch == branch


def test_commits_are_listed_newest_first() -> None:
    """A commit comes before what the log showed, and an amended one in place of the last."""
    session = Session()
    _observe(session, "git log --oneline -2", "5d6e7f8 Make it\n0000001 Begin\n")
    _observe(session, *COMMIT)
    _observe(session, "git commit --amend --no-edit", "[main 9a8b7c6] Fix it\n 1 file changed\n")

    tree = _tree(session)

    assert tree is not None
    assert tree.log == ("9a8b7c6 Fix it", "5d6e7f8 Make it", "0000001 Begin")


@pytest.mark.parametrize(
    "command",
    ["git rebase main", "git pull", "git checkout main", "git reset --hard HEAD~1", "./release.sh", "make", "$tool x"],
)
def test_what_may_move_head_is_forgotten(command: str) -> None:
    """After anything that may have moved HEAD nothing is known."""
    session = Session()
    _observe(session, *COMMIT)

    _observe(session, command, "")

    assert _tree(session) is None


def test_queries_and_edits_keep_what_is_known() -> None:
    """Reading, editing and staging leave branch and history alone."""
    session = Session()
    _observe(session, *COMMIT)
    _observe(session, "cd src && git diff --stat | head -3; ls", "")
    _observe(session, "", "done", action=Action(tool="Edit", input={}), exit_code=None)

    assert _tree(session) is not None


def test_a_new_turn_forgets() -> None:
    """People do things of their own between turns."""
    session = Session()
    _observe(session, *COMMIT, turn="1")
    assert _tree(session) is not None

    _observe(session, "ls", "a\n", turn="2")

    assert _tree(session) is None


def test_an_action_in_parallel_forgets() -> None:
    """What runs at the same time may commit before or after."""
    session = Session()
    _observe(session, *COMMIT, batch="b", siblings=(Action(tool="Bash", command="git rebase main"),))

    assert _tree(session) is None


def test_an_agent_in_the_background_keeps_all_unknown() -> None:
    """Once something runs beside the session, nothing is known any more."""
    session = Session()
    _observe(session, "", "started", action=Action(tool="Task", input={"run_in_background": True}), exit_code=None)
    _observe(session, *COMMIT)

    assert _tree(session) is None


def test_forms_are_seen() -> None:
    """What git was seen to print is remembered, unless a wrapper shortens it."""
    session = Session()
    _observe(session, "git status", "On branch main\nnothing to commit, working tree clean\n")

    assert session.repository.shown >= {"english", "itself"}

    _observe(session, "rtk git status", "main...origin/main\n")

    assert not session.repository.shown


def test_work_trees_are_bounded() -> None:
    """A session with many directories keeps few of them."""
    session = Session()
    for number in range(50):
        _observe(session, "git status", "On branch main\n", cwd=f"/home/user/{number}")

    assert sum(session.repository.tree(f"/home/user/{number}") is not None for number in range(50)) <= 10
