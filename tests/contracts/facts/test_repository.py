"""What git and gh must print for a given command line."""

import pytest

from tests.helpers import ran
from verifierd.contracts.checks import check
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.facts.repository import subject
from verifierd.types import Action, Constraint, History, Step

FAMILIES = {name: family for name, family in bundled().items() if name in {"git", "gh"}}


def _constraints(command: str, *history: tuple[str, str]) -> list[Constraint]:
    contracts = Contracts(FAMILIES)
    past = History(("native", "t"))
    for line, observation in history:
        past.append(_step(line, observation, len(past) + 1))
    return contracts.constraints(contracts.session(past), _step(command, "", len(past) + 1))


def _step(command: str, observation: str, index: int) -> Step:
    return ran(command, observation, index=index, cwd="/home/user/project")


def _violated(constraints: list[Constraint], observation: str) -> set[str]:
    return {c.rule for c in constraints if check(c, observation, status=0, succeeded=True).violated}


@pytest.mark.parametrize(
    "command",
    [
        "git -c log.showRoot=x log --oneline --graph -3",
        "git log --oneline --graph",
        "git log --oneline --stat --left-right",
        "git log --format=%b",
        "git log --format='%<(20)%an %s'",
        "git log --format=%s",
        "git diff --word-diff",
        "git diff -z --name-only",
        "git -c diff.noprefix=true diff",
        "git status --porcelain=v2",
        "git status -z",
        "git show HEAD:a.py",
        "git show v1.0",
        "git add -v .",
        "git commit --quiet -m x",
        "git commit --fixup HEAD",
        "git rev-parse --git-dir",
        "git rev-parse HEAD:a",
        "git push 2>/dev/null",
        "git checkout -- a.py",
        "gh api repos/a/b/actions/jobs/1/logs",
        "gh api repos/a/b -H 'Accept: application/vnd.github.raw'",
        "gh api repos/a/b --jq '.[].name'",
        "gh pr view 3 --json title -q .title",
        "gh pr create --web",
    ],
)
def test_nothing_is_said_of_forms_that_are_not_known(command: str) -> None:
    """An option that may change the form puts the rules out of force."""
    assert _constraints(command) == []


@pytest.mark.parametrize(
    ("command", "observation"),
    [
        ("git log --oneline -3", "\x1b[33m1a2b3c4\x1b[m Fix it\n"),
        ("git log -n 2 --pretty=oneline", "9a8b7c6d5e4f9a8b7c6d5e4f9a8b7c6d5e4f9a8b Fix it\n"),
        ("git log -1 --format='%h|%ad|%s%n%H'", f"1a2b3c4|Mon Jan 1|Fix {{it}}\n{'a' * 40}\n"),
        ("git log -1 --format='%C(auto)%h%x09%s'", "1a2b3c4\tFix it\n"),
        (
            "git diff",
            "diff --cc a\nindex 1a2b3c4,5d6e7f8..0000000\n--- a/a\n+++ b/a\n@@@ -1,2 -1,2 +1,3 @@@\n++<<<<<<< ours\n",
        ),
        ("git diff -- ./src/", "diff --git i/lib/src/a.py w/lib/src/a.py\nold mode 100644\nnew mode 100755\n"),
        ("git diff -- src/a.py", "diff --git src/a.py src/a.py\n"),
        (
            "git diff --stat",
            "a b.txt | 2 +-\n .../x.py | Bin 0 -> 3 bytes\n 2 files changed, 1 insertion(+), 1 deletion(-)\n",
        ),
        ("git status -s", "M a.py\n"),
        (
            "git status",
            "interactive rebase in progress; onto 1a2b3c4\nLast command done (1 command done):\n   pick 1a2b3c4 x\n",
        ),
        ("git commit -m 'fix: x' -m body", "[main (root-commit) 1a2b3c4] ABC-1 fix: x\n"),
        ("git commit -F - <<'E'\n\nfix:\n x\n\nbody\nE\n", "[main 1a2b3c4] fix: x\n"),
        ("git commit -am \"$(cat <<'E'\nfix (a|b) {c}\nE\n)\"", "[detached HEAD 1a2b3c4] fix (a|b) {c}\n"),
        ("git switch main", "Your branch is up to date with 'origin/main'.\nZu Branch 'main' gewechselt\n"),
        ("git -c core.quotepath=false diff --name-only", "docs/\u00fc b.md\n"),
        ("git rev-parse --short HEAD main", "1a2b3c4\n1a2b3c4\n"),
        ("gh pr list --json number,title", '[{"number":1,"title":"{x}"}]\n'),
        ("gh issue list --json number", "[]\n"),
        ("gh api repos/a/b/pulls --jq '[.[] | {a: (.b | length)}]'", '[{"a":1}]\n'),
    ],
)
def test_what_git_may_print_is_obeyed(command: str, observation: str) -> None:
    """A rule speaks of the call, and accepts what tool and configuration may make of it."""
    constraints = _constraints(command)

    assert constraints
    assert not _violated(constraints, observation)


@pytest.mark.parametrize(
    ("command", "observation"),
    [
        ("git log --oneline -1", "1a2b3c4 a\n5d6e7f8 b\n"),
        ("git log -1 --format='%h|%s'", "1a2b3c4 Fix it\n"),
        ("git diff -- src", "diff --git a/resrc/a b/resrc/a\n"),
        ("git commit -m 'Fix it'", "[main 1a2b3c4] Make it\n"),
        ("git rev-parse HEAD", "HEAD\n"),
        ("gh pr view --json title,body", '{"title":"x","number":3}\n'),
        ("gh api repos/a/b/pulls --jq '.[] | {id}'", "1\n"),
    ],
)
def test_what_git_cannot_print_is_refused(command: str, observation: str) -> None:
    """What does not follow from the command line violates a rule."""
    assert _violated(_constraints(command), observation)


def test_a_parallel_commit_leaves_the_log_open() -> None:
    """What runs at the same time may have committed."""
    contracts = Contracts(FAMILIES)
    past = History(("native", "t"))
    past.append(_step("git commit -am x", "[main 1a2b3c4] x\n", 1))
    step = _step("git log --oneline -1", "", 2)

    def rules(**fields: object) -> set[str]:
        values = {name: getattr(step, name) for name in step.__struct_fields__} | fields
        return {c.rule for c in contracts.constraints(contracts.session(past), Step(**values))}

    assert "git-log-begins" in rules()
    assert "git-log-begins" not in rules(batch="b", siblings=(Action(tool="Bash", command="git commit -am y"),))


def test_another_directory_is_another_repository() -> None:
    """What one directory showed says nothing of another."""
    history = ("git commit -am x", "[main 1a2b3c4] x\n")

    here = {c.rule for c in _constraints("git log --oneline -1", history)}
    there = {c.rule for c in _constraints("git -C ../other log --oneline -1", history)}

    assert here - there == {"git-log-begins"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Fix it\n\nBecause.\n", "Fix it"), ("\n\nFix\n  it  \n\nb", "Fix it"), ("", ""), ("a\tb", "a\tb")],
)
def test_subjects(text: str, expected: str) -> None:
    """A subject is the first paragraph on one line."""
    assert subject(text) == expected


CHANGED = ("git status --short", " M src/a.py\nM  src/b.py\n")
PATCH = "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n"
CHANGES = {"git-diff-clean", "git-diff-lists", "git-diff-only", "git-same-answer", "git-status-lists",
           "git-status-only"}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "observation"),
    [
        ("git status -sb", "## main...o/main\nM  src/a.py\n M src/b.py\n?? new.py\n"),
        ("git status", "On branch x\nChanges to be committed:\n\tmodified:   src/b.py\n\n\tmodified:   src/a.py\n"),
        ("git status --porcelain", " M lib/src/a.py\nM  lib/src/b.py\n"),
        ("git status -s", " M src/a.py\nR  src/old.py -> src/b.py\n"),
        ("git diff", PATCH),
        ("git diff --stat", " .../a.py | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n"),
        ("git diff --name-only HEAD", "lib/src/a.py\nlib/src/b.py\n"),
        ("git diff --name-status -- src", "M\tsrc/a.py\n"),
        ("git diff --numstat -- src/b.py", ""),
    ],
)
def test_what_is_changed_is_listed_in_any_form(command: str, observation: str) -> None:
    """Wherever git counts the path from; what is staged is no longer in a plain diff."""
    constraints = _constraints(command, ("git diff", PATCH), CHANGED)

    assert {c.rule for c in constraints} & CHANGES or not observation
    assert not _violated(constraints, observation) & CHANGES


@pytest.mark.parametrize(
    ("command", "observation", "rules"),
    [
        ("git status -s", " M src/a.py\n", {"git-status-lists"}),
        ("git status -s", " M src/a.py\nM  src/b.py\n M c.py\n", {"git-status-only"}),
        ("git diff -M", PATCH.replace("a.py", "c.py"), {"git-diff-lists", "git-diff-only"}),
        ("git diff --stat", " src/b.py | 2 +-\n", {"git-diff-lists"}),
        ("git diff HEAD --name-only", "src/a.py\n", {"git-diff-lists"}),
    ],
)
def test_what_is_changed_cannot_be_missing(command: str, observation: str, rules: set[str]) -> None:
    """Neither can another tracked file be listed."""
    assert _violated(_constraints(command, ("git diff", PATCH), CHANGED), observation) & CHANGES == rules


@pytest.mark.parametrize(
    "command",
    ["git status -s src", "git diff -w", "git diff main", "git diff --cached", "git diff --stat=40",
     "git diff src/a.py", "git diff --diff-filter=A",
     "GIT_DIR=x git status -s", "git --work-tree=x diff", "git -C lib status -s"],
)  # fmt: skip
def test_nothing_is_said_of_other_changes(command: str) -> None:
    """A part of them, another work tree, or what differs from elsewhere."""
    assert not {c.rule for c in _constraints(command, ("git diff", PATCH), CHANGED)} & CHANGES


@pytest.mark.parametrize(
    "command",
    [
        "git add -A && git commit -m x && git status -s",
        "git stash; git status -s",
        "./release.sh && git status -s",
        "git add src/a.py && git diff --stat",
        "git checkout src/a.py && git diff",
    ],
)
def test_nothing_is_said_of_changes_that_the_line_itself_may_end(command: str) -> None:
    """What stands before in the same command line comes first."""
    assert not {c.rule for c in _constraints(command, ("git diff", PATCH), CHANGED)} & CHANGES


@pytest.mark.parametrize("command", ["git status -s && git stash", "cat a; git diff"])
def test_changes_that_the_line_ends_later_are_listed(command: str) -> None:
    """Neither does what only reads stand in the way."""
    assert {c.rule for c in _constraints(command, ("git diff", PATCH), CHANGED)} & CHANGES


@pytest.mark.parametrize("command", ["git diff --stat=40", "git diff --stat --stat-count=3", "git show --stat -p"])
def test_totals_are_compared_where_all_files_are_listed(command: str) -> None:
    """Neither in another width, nor cut short, nor among a patch."""
    assert "git-stat-total" not in {c.rule for c in _constraints(command)}
