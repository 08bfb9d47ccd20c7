"""Facts about names: what a listing's lines may be, and where nothing is said."""

import pytest
import re2

from tests.helpers import ran
from verifierd.contracts.calls import Call
from verifierd.contracts.checks import check
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.facts.names import FACTS
from verifierd.contracts.state.profile import Profile
from verifierd.contracts.state.session import Session
from verifierd.types import Check, Constraint, Step

CONTRACTS = Contracts(bundled())


def _step(command: str) -> Step:
    return ran(command, cwd="/work/p")


def _calls(step: Step) -> list[Call]:
    return CONTRACTS.read(Profile(), step)[1]


def _text(fact: str, command: str) -> str | None:
    step = _step(command)
    found = list(FACTS[fact](_calls(step)[-1], Session()))
    return (found[0].text or str(dict(found[0].values))) if found else None


def _fits(fact: str, command: str, line: str) -> bool:
    text = _text(fact, command)
    assert text is not None
    return re2.search(text, line) is not None


@pytest.mark.parametrize(
    ("command", "good", "bad"),
    [
        ("find src -type f", "src/a/b.c", "lib/b.c"),
        ("find src/ -name '*.c'", "src//b.c", "srcs/b.c"),
        ("find", "./a", "a"),
        ("find -L . -maxdepth 2", "./a/b", "./a/b/c"),
        ("find ~/.config 'a b'", "/home/ada/.config/x", "/home/ada/.cache/x"),
        ("find $HOME/x", "/home/ada/x/y", "/home/ada/y"),
        ("time find a -print", "a", "b"),
        ("find src", "find: src/x: Permission denied", "x"),
    ],
)
def test_results_lie_below_a_starting_point(command: str, good: str, bad: str) -> None:
    """As it is spelt, with either number of slashes, no deeper than asked for."""
    assert _fits("found-below", command, good)
    assert not _fits("found-below", command, bad)


@pytest.mark.parametrize(
    "command",
    [
        "find . -exec echo {} +",
        "find . -printf '%f'",
        "find . -print0",
        "find . -ls",
        "find $X -name a",
        "find . -name a $MORE",
        "find . -maxdepth $N",
        "ls | find",
    ],
)
def test_nothing_is_said_of_other_searches(command: str) -> None:
    """Those that print something else, or look who knows where."""
    assert _text("found-below", command) is None
    assert _text("found-names", command) is None


@pytest.mark.parametrize(
    ("command", "good", "bad"),
    [
        ("find . -name '*.go'", "./a/b.go", "./a/b.gone"),
        ("find . -iname 'read?e*'", "./README.md", "./REDME"),
        ("find . -type f \\( -name a -o -name b \\) -not -path './x/*'", "./b", "./c"),
        ("find . -name node_modules -prune -o -name '*.ts' -print", "./a.ts", "./a.js"),
    ],
)
def test_results_have_a_name_as_asked_for(command: str, good: str, bad: str) -> None:
    """Of any alternative."""
    assert _fits("found-names", command, good)
    assert not _fits("found-names", command, bad)


@pytest.mark.parametrize(
    "command",
    [
        "find . -type d -o -name a",
        "find . ! -name a",
        "find . -not \\( -name a \\)",
        "find . -name '[ab]'",
        "find . -type f",
        "find . \\( -name a -o \\( -type d -name b \\) \\)",
    ],
)
def test_no_name_is_asked_for(command: str) -> None:
    """By every alternative, in a form that is understood."""
    assert _text("found-names", command) is None


@pytest.mark.parametrize(
    ("command", "good", "bad"),
    [
        ("ls", "a.c", "src/a.c"),
        ("ls -aF src", "bin/", "src/bin/"),
        ("ls src lib", "src:", "src/a:"),
        ("ls src/a.c", "src/a.c", "src/b.c"),
        ("ls ~/bin", "/home/ada/bin", "/home/ada/etc"),
    ],
)
def test_lines_of_ls_are_names_or_its_words(command: str, good: str, bad: str) -> None:
    """Without a slash within, for a directory."""
    assert _fits("listed-names", command, good)
    assert not _fits("listed-names", command, bad)


@pytest.mark.parametrize("command", ["ls -R", "ls -i", "ls -m", "ls --format=commas", "ls */", "ls $X", 'ls "$(pwd)"'])
def test_other_forms_of_ls_are_left_alone(command: str) -> None:
    """Their lines are something else, or their words are not known."""
    assert _text("listed-names", command) is None


@pytest.mark.parametrize(
    ("command", "good", "bad"),
    [
        ("ls src/*.tsx", "src/a.tsx", "a.tsx"),
        ("ls -d */", "src/", "src"),
        ("ls a.md b*.md", "bc.md", "c.md"),
    ],
)
def test_lines_of_ls_are_what_its_wildcards_mean(command: str, good: str, bad: str) -> None:
    """Where no directory can be among them, or is shown itself."""
    assert _fits("listed-words", command, good)
    assert not _fits("listed-words", command, bad)


@pytest.mark.parametrize(
    "command",
    [
        "ls src/*",
        "ls src",
        "ls *.d",
        "ls {a,b}.md",
        "ls {a,b}/*.md",
        "ls -d *",
        "ls $X.md",
        "ls discord.py",
        "ls vendor/nats-io/nats.go",
    ],
)
def test_directories_are_listed_with_what_they_hold(command: str) -> None:
    """So nothing is said where there may be one; nor where a word may begin in several ways."""
    assert _text("listed-words", command) is None


@pytest.mark.parametrize(
    ("command", "good", "bad"),
    [
        ("wc -l a.c", "  12 a.c", "12 b.c"),
        ("wc a.c b.c", "  1  2  3 total", "total"),
        ("wc -l *.c", "12 x.c", "12 x.h"),
        ("du -sh src", "1,5M\tsrc", "1,5M\tsrc/a"),
        ("du src", "12\tsrc/a", "12\tlib"),
    ],
)
def test_counts_end_with_a_file(command: str, good: str, bad: str) -> None:
    """One of the command line's."""
    assert _fits("counted-files", command, good)
    assert not _fits("counted-files", command, bad)


def test_a_program_that_is_located_is_named() -> None:
    """One at a time."""
    assert _text("located-name", "which /usr/bin/python3") == "{'name': 'python3'}"
    assert _text("located-name", "command -v node") == "{'name': 'node'}"
    assert _text("located-name", "which a1 b1") is None


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("ls -p", "made/\nmain.go\n"),
        ("ls", "main.go  made  z.go\n"),
        ("ls", "\x1b[0m\x1b[01;34mmade\x1b[0m\nmain.go\n"),
        ("ls -lF", "drwxr-xr-x 2 ada staff 64 Jan  9 15:02 made/\n-rw-r--r-- 1 ada staff 0 Jan  9 15:02 main.go\n"),
    ],
)
@pytest.mark.parametrize("made", [True, False])
def test_names_are_found_however_they_are_shown(command: str, shown: str, *, made: bool) -> None:
    """With endings, in columns, coloured; what was made must be there, what was removed cannot."""
    session = Session()
    past = _step("mkdir made && touch main.go" if made else "rm -r made main.go")
    CONTRACTS.observe(session, past)
    step = _step(command)
    session.expect(step)

    fact, kind = ("made-names", Check.NAMES) if made else ("removed-names", Check.NOT_NAMES)
    (finding,) = FACTS[fact](_calls(step)[0], session)

    constraint = Constraint(rule="r", check=kind, text=finding.text or "", texts=finding.texts or ())
    assert set(constraint.texts) == {"made", "main.go"}
    assert check(constraint, shown, status=0, succeeded=True).violated is not made


@pytest.mark.parametrize("command", ["ls -l@", "ls -le", "ls -lai"])
def test_some_options_put_other_lines_between(command: str) -> None:
    """Attributes and access lists have lines of their own on macOS."""
    found = CONTRACTS.constraints(Session(), _step(command))

    assert "ls-long" not in [constraint.rule for constraint in found]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("stat src/a.py b.txt", ["src/a.py", "b.txt"]),
        ("stat -L src/a.py", ["src/a.py"]),
        ("stat -c %s src/a.py", []),
        ("stat -f %z src/a.py", []),
        ("stat --printf='%s' src/a.py", []),
        ("stat ~/src/a.py", []),
        ("stat src/*.py", []),
        ('stat "$FILE"', []),
    ],
)
def test_a_file_that_is_stated_is_named(command: str, words: list[str]) -> None:
    """Unless another form was asked for, or the shell spells the name."""
    found = [c.text for c in CONTRACTS.constraints(Session(), ran(command)) if c.rule == "stat-names"]
    assert found == words
