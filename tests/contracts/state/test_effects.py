"""What programs and tools may change."""

import pytest

from tests.helpers import ran
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.state.effects import Effect, at_a_glance, beside, effects
from verifierd.contracts.state.profile import Profile
from verifierd.types import Action

CONTRACTS = Contracts(bundled())


def _changed(command: str) -> list[Effect]:
    return effects(CONTRACTS.read(Profile(), ran(command))[0][0])


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("cat a.py", Effect.NOTHING),
        ("cat a.py 2>/dev/null", Effect.NOTHING),
        ("X=1", Effect.NOTHING),
        ("sed -n '1,5p;/class View/p' a.py", Effect.NOTHING),
        ("awk '{print $1}' a", Effect.NOTHING),
        ("find . -name '*.py'", Effect.NOTHING),
        ("gh pr view 3", Effect.NOTHING),
        ("git branch", Effect.NOTHING),
        ("git branch --show-current", Effect.NOTHING),
        ("git config --get user.name", Effect.NOTHING),
        ("git remote -v", Effect.NOTHING),
        ("git stash list", Effect.NOTHING),
        ("git symbolic-ref --short HEAD", Effect.NOTHING),
        ("git tag", Effect.NOTHING),
        ("mkdir -p a", Effect.NAMES),
        ("touch a", Effect.NAMES),
        ("mv a b", Effect.FILES),
        ("cat a > b", Effect.FILES),
        ("cat a 2> $x", Effect.ANY_FILE),
        ("sed -i s/a/b/ c", Effect.FILES),
        ("ruff format .", Effect.ANY_FILE),
        ("git push", Effect.ANY_FILE),
        ("git add -A", Effect.STAGED),
        ("git rm a", Effect.ANY_FILE | Effect.STAGED),
        ("git branch topic", Effect.HISTORY),
        ("git branch -D topic", Effect.HISTORY),
        ("git config user.name x", Effect.HISTORY),
        ("git remote add x y", Effect.HISTORY),
        ("git reflog expire --all", Effect.HISTORY),
        ("git tag v1", Effect.HISTORY),
        ("pytest", Effect.ANY_FILE | Effect.HISTORY),
        ("git commit -m x", Effect.ANYTHING),
        ("git checkout main", Effect.ANYTHING),
        ("git stash", Effect.ANYTHING),
        ("git diff --output=a", Effect.ANYTHING),
        ("gh pr checkout 3", Effect.ANYTHING),
        ("gh pr close 3 -d", Effect.ANYTHING),
        ("find . -delete", Effect.ANYTHING),
        ("sed 'w b' a", Effect.ANYTHING),
        ("awk '{print > \"b\"}' a", Effect.ANYTHING),
        ("sort -o a b", Effect.ANYTHING),
        ("uniq a b", Effect.ANYTHING),
        ("echo $(rm a)", Effect.ANYTHING),
        ("cat <<E\n$(rm a)\nE", Effect.ANYTHING),
        ("unheard-of", Effect.ANYTHING),
        ("for x in a; do ls; done", Effect.ANYTHING),
    ],
)
def test_what_a_program_may_change(command: str, changed: Effect) -> None:
    """By its name, its words and where its output goes; anything, where these do not tell."""
    assert _changed(command) == [changed]


def test_each_stage_of_a_pipeline_counts() -> None:
    """As they run side by side."""
    assert _changed("cat a | tee b | head") == [Effect.NOTHING, Effect.FILES, Effect.NOTHING]


@pytest.mark.parametrize(
    "command",
    ["find . -name '*.py' | sort", "rg -n 'a|b' src; git status", "tree | uniq -c", 'grep "x;y" a', "ls | head 2>&1",
     "sed -n '1,5p' a.py 2>/dev/null && git log -3", "git log --grep merge"],
)  # fmt: skip
def test_a_glance_tells_what_changes_nothing(command: str) -> None:
    """Listings, searches and queries, whatever they look for."""
    assert at_a_glance(Action(tool="Bash", command=command)) == Effect.NOTHING


@pytest.mark.parametrize(
    "command",
    ["find . -delete", "sort -o a b", "uniq a b", "rg 'a' && rm b", 'rg "$(rm b)"', "grep 'a' b > c", "make fmt; ls",
     "git diff --output=a", "git add -A && git commit -m x"],
)  # fmt: skip
def test_when_in_doubt_at_a_glance_anything_is_written(command: str) -> None:
    """Any word that is not known."""
    assert at_a_glance(Action(tool="Bash", command=command)) & Effect.UNNAMED


@pytest.mark.parametrize(
    ("action", "changed"),
    [
        (Action(tool="Read"), Effect.NOTHING),
        (Action(tool="Edit"), Effect.FILES),
        (Action(tool="Task"), Effect.ANYTHING),
        (Action(tool="write_stdin"), Effect.ANYTHING),
        (Action(tool="Bash", command="mkdir a && git add a"), Effect.NAMES | Effect.STAGED),
        (Action(tool="Bash", command="git branch x"), Effect.HISTORY),
        (Action(tool="Bash", command="./build"), Effect.ANYTHING & ~Effect.HISTORY),
        (Action(tool="Bash", command="cd x &&\ngit -C y commit -m z"), Effect.ANYTHING),
        (Action(tool="Bash", command="x" * 30_000), Effect.ANYTHING),
    ],
)
def test_what_an_action_may_change(action: Action, changed: Effect) -> None:
    """A tool is known by its name; what names neither git nor what runs it leaves branch and history alone."""
    assert at_a_glance(action) == changed


def test_what_runs_beside() -> None:
    """All of a batch together; anything while it is not known."""
    assert beside(()) == Effect.NOTHING
    assert beside((Action(tool="Read"), Action(tool="Edit"))) == Effect.FILES
    assert beside(None) == Effect.ANYTHING
