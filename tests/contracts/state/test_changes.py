"""What a session knows of its changes that are not committed, and when it forgets that."""

import msgspec
import pytest

from tests.helpers import ran
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.state.changes import Status
from verifierd.contracts.state.session import Session
from verifierd.types import Action, Step

CWD = "/home/user/project"
CONTRACTS = Contracts(bundled())
LISTED = ("git status --short", " M src/a.py\nM  src/b.py\n?? new/\n")


def _observe(session: Session, *steps: tuple[str, str] | Step, **fields: object) -> None:
    for one in steps:
        step = ran(*one, index=session.total + 1, cwd=CWD) if isinstance(one, tuple) else one
        CONTRACTS.observe(session, msgspec.structs.replace(step, **fields))


def _edit(path: str, old: str, new: str) -> Step:
    path = f"{CWD}/{path}"
    action = Action(tool="Edit", input={"file_path": path, "old_string": old, "new_string": new})
    return msgspec.structs.replace(ran("", f"The file {path} has been updated.", cwd=CWD), action=action)


def _patch(text: str) -> Step:
    return msgspec.structs.replace(ran("", "Done", cwd=CWD), action=Action(tool="apply_patch", input=text))


def _status(*steps: tuple[str, str] | Step, cwd: str = CWD) -> Status:
    session = Session()
    _observe(session, *steps)
    return session.repository.changes.status(cwd)


@pytest.mark.parametrize(
    ("command", "observation", "must", "may"),
    [
        ("git status -sb", "## main\n M a\nMM b\n?? c\n", {"a": True}, {"a", "b"}),
        ("git status -s", "R  a -> b\n D d\n m sub\n", {"d": True}, {"a", "b", "d", "sub"}),
        ("git status -s", "D  a\n?? a\n", {}, {"a"}),
        ("git status -s && git diff", " M a\ndiff --git a/b b/b\n", {"a": True}, {"a"}),
        (
            "git status",
            "On branch x\nChanges to be committed:\n\tnew file:   a\nChanges not staged for commit:\n\tmodified:   b\n",
            {"a": False, "b": True},
            {"a", "b"},
        ),
        ("git status", "On branch x\nnothing to commit, working tree clean\n", {}, set()),
        ("git status", "Auf Branch x\n\tge\u00e4ndert:       b\n", {}, None),
        ("git status -s", "\x1b[31m M\x1b[m a\n", {}, None),
        ("git status -s", ' M "a\\303\\244"\n M b\n', {"b": True}, None),
        ("git status -s src", " M src/a\n", {}, None),
        ("git status -s | head -1", " M src/a\n", {}, None),
        ("git status -s; git log --name-status", " M src/a\n", {"src/a": True}, {"src/a"}),
        ("git status -s; cat list", " M src/a\n", {}, None),
        ("GIT_DIR=x git status -s", " M src/a\n", {}, None),
    ],
)
def test_a_status_is_learnt(command: str, observation: str, must: dict[str, bool], may: set[str] | None) -> None:
    """What must be listed from now on, whether it is not staged, and what may; nothing if that cannot be told."""
    status = _status((command, observation))

    assert status == Status(must, may)


@pytest.mark.parametrize(
    ("step", "must"),
    [
        (("cat src/a.py", "x"), {"src/a.py": True, "src/b.py": False}),
        (("rg -n 'a|b; rm' src | head", "x"), {"src/a.py": True, "src/b.py": False}),
        (("git add -A", ""), {"src/a.py": False, "src/b.py": False}),
        (("rm src/a.py", ""), {"src/b.py": False}),
        (("echo x > src/a.py", ""), {"src/b.py": False}),
        (_edit("src/a.py", "x", "y"), {"src/b.py": False}),
        (("pytest -q", "1 passed in 0.1s\n"), {}),
        (("git commit -m x", "[main 1a2b3c4] x\n"), {}),
        (("git stash", ""), {}),
        (("./release.sh", ""), {}),
        (("cat $(make-it)", ""), {}),
        (("rm -r src.d", ""), {}),
        (_edit(".gitignore", "x", "y"), {}),
        (_patch("no patch"), {}),
    ],
)
def test_a_change_stays_until_it_may_be_taken_back(step: tuple[str, str] | Step, must: dict[str, bool]) -> None:
    """What only reads changes nothing; how a file differs that was changed before the session is not known."""
    assert _status(LISTED, step).must == must


SHOWN = ("git show --stat", "commit 1\n\n src/a.py | 2 +-\n src/t.json | 2 +-\n 2 files changed\n")
PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n one\n-two\n+three\n*** End Patch"


@pytest.mark.parametrize(
    ("steps", "must"),
    [
        ([SHOWN, _edit("src/a.py", "x", "y")], {"src/a.py": True}),
        ([SHOWN, _patch(PATCH)], {"src/a.py": True}),
        ([SHOWN, _edit("src/a.py", "x", "y"), ("pytest", "1 passed in 1s\n")], {"src/a.py": True}),
        ([SHOWN, _edit("src/a.py", "x", "y"), _edit("src/a.py", "y", "x")], {}),
        ([SHOWN, _edit("src/a.py", "x, y", "x,\n  y")], {}),
        ([SHOWN, _edit("src/a.py", "x", "import z\nx")], {}),
        ([SHOWN, _edit("src/t.json", "x", "y")], {}),
        ([SHOWN, _edit("src/b.py", "x", "y")], {}),
        ([SHOWN, _edit("src/a.py", "x", "y"), ("git commit -am x", "[main 1a2b3c4] x\n")], {}),
        (
            [
                SHOWN,
                _edit("src/a.py", "x", "y"),
                ("git commit -am x", "[main 1a2b3c4] x\n"),
                _edit("src/a.py", "y", "x"),
            ],
            {},
        ),
        (
            [
                SHOWN,
                _edit("src/a.py", "x", "y"),
                ("git commit -am x", "[main 1a2b3c4] x\n"),
                _edit("src/a.py", "y", "z"),
            ],
            {"src/a.py": True},
        ),
        ([SHOWN, _edit("src/a.py", "x", "y"), ("git rm -q --cached src/a.py", ""), _edit("src/a.py", "x", "y")], {}),
        ([LISTED, _edit("new/a.py", "x", "y")], {"src/a.py": True, "src/b.py": False}),
    ],
)
def test_what_the_session_edits_is_changed(steps: list[tuple[str, str] | Step], must: dict[str, bool]) -> None:
    """A tracked file whose words differ from whenever it may have been committed; tools may take back form."""
    assert _status(*steps).must == must


def test_names_of_files_that_were_written_may_be_listed() -> None:
    """So may the directories above: one may be a submodule, or be reached by a link."""
    assert {"src", "new.py"} <= _status(LISTED, _edit("src/new.py", "x", "y")).about


def test_another_turn_ends_what_is_known() -> None:
    """Anybody may have changed anything; what a file differs by is measured from both."""
    session = Session()
    _observe(session, SHOWN, _edit("src/a.py", "x", "y"), turn="1")
    _observe(session, _edit("src/a.py", "y", "x"), turn="2")

    assert session.repository.changes.status(CWD).must == {}
    assert session.repository.changes.edited(CWD) == []


def test_an_answer_is_kept_while_nothing_is_written() -> None:
    """The same question, and only in a form whose answer time does not change."""
    session = Session()
    _observe(session, ("git diff --stat", " a | 2 +-\n"), ("git log --since=yesterday", "commit 1\n"), ("ls", "a\n"))

    (diff,), (log,), (other,) = (
        CONTRACTS.read(session.profile, ran(line, "", cwd=CWD))[1]
        for line in ("git diff --stat", "git log --since=yesterday", "git diff --stat -M")
    )
    assert session.repository.changes.answer(diff) == " a | 2 +-\n"
    assert session.repository.changes.answer(log) is None
    assert session.repository.changes.answer(other) is None

    _observe(session, ("git add a", ""))

    assert session.repository.changes.answer(diff) is None
