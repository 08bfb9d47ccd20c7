"""What observations teach, command by command."""

import pytest
from bashkit import Bash

from verifierd.predictors.shell.anchor import Absent, Content, Lesson, Listing, Made, Place, Tree, Value, lessons

CWD = "/w/p"


def taught(
    command: str, observation: str, exit_code: int | None = 0, *, cwd: str | None = CWD, exact: bool = True
) -> list[Lesson]:
    return lessons(Bash().analyze(command), command, cwd, observation, exit_code, exact=exact)


@pytest.mark.parametrize(
    ("command", "observation", "expected"),
    [
        ("cat a.txt", "x\n", Content("/w/p/a.txt", "x\n", exact=True)),
        ("cat '/w/a b'", "", Content("/w/a b", "", exact=True)),
        ("cd sub && cat a.txt", "x\n", Content("/w/p/sub/a.txt", "x\n", exact=True)),
        ("ls", "a\nb\n", Listing("/w/p", ("a", "b"), hidden=False)),
        ("ls -a ..", ".\n..\n.x\na\n", Listing("/w", (".x", "a"), hidden=True)),
        ("ls -1 sub", "", Listing("/w/p/sub", (), hidden=False)),
        ("find . -type f | sort", "./a\n./d/b\n", Tree("/w/p", ("/w/p/a", "/w/p/d/b"))),
        ("mkdir new", "", Made("/w/p/new")),
        ("mkdir new && touch new/a", "", Made("/w/p/new")),
        ("pwd", "/real\n", Place("/real")),
        ("echo $HOME", "/home/me\n", Value("HOME", "/home/me")),
        ('echo "${LANG}"', "C.UTF-8\n", Value("LANG", "C.UTF-8")),
        ("echo ~", "/home/me\n", Value("HOME", "/home/me")),
        ("printenv USER", "me\n", Value("USER", "me")),
    ],
)
def test_success_teaches(command: str, observation: str, expected: Lesson) -> None:
    """Plain readers, listings, new directories and printed values each teach one fact."""
    assert taught(command, observation) == [expected]


@pytest.mark.parametrize(
    ("command", "observation", "exit_code"),
    [
        ("cat a.txt b.txt", "x\n", 0),
        ("cat a.txt | head -1", "x\n", 0),
        ("cat -n a.txt", "     1\tx\n", 0),
        ("cat $F", "x\n", 0),
        ("cat a.txt", "cat: a.txt: Permission denied\n", None),
        ("ls a.txt", "a.txt\n", 0),
        ("ls -l", "total 0\n", 0),
        ("ls", "a\tb\n", 0),
        ("find . -type f", "./a\x1bb\n", 0),
        ("ls", "ls: cannot open directory '.': Permission denied\n", None),
        ("mkdir -p a/b", "", 0),
        ("mkdir a", "", None),
        ("mkdir {a,b}", "", 0),
        ("mkdir a; touch a/b", "", 0),
        ("mkdir a && mv b a/", "", 0),
        ("mkdir a || true", "", 0),
        ("echo $HOME and more", "/h and more\n", 0),
        ("echo $X", "two words\n", 0),
        ("find . -type f | sort", "elsewhere\n", 0),
        ("cp a b", "", 0),
    ],
)
def test_what_teaches_nothing(command: str, observation: str, exit_code: int | None) -> None:
    """Anything whose text is not the whole of one plain fact teaches nothing."""
    assert taught(command, observation, exit_code) == []


def test_a_missing_path() -> None:
    """One command about one path that fails with no such file teaches that nothing is there."""
    assert taught("cat a.txt", "cat: a.txt: No such file or directory\n", 1) == [Absent("/w/p/a.txt", followed=True)]
    assert taught("ls x/y", "ls: cannot access 'x/y': No such file or directory\n", 2) == [
        Absent("/w/p/x/y", followed=False)
    ]
    assert taught("cat a b", "cat: b: No such file or directory\n", 1) == [Absent("/w/p/b", followed=True)]
    assert taught("cat a b", "hi\ncat: b: No such file or directory\n", 1) == []
    both = "diff: a: No such file or directory\ndiff: b: No such file or directory\n"
    assert {lesson.path for lesson in taught("diff a b", both, 2) if isinstance(lesson, Absent)} == {"/w/p/a", "/w/p/b"}
    assert taught("cat a.txt", "cat: a.txt: Permission denied\n", 1) == []
    assert taught("make x", "make: x: No such file or directory\n", 2) == []


def test_unknown_directory() -> None:
    """Without a working directory only absolute paths teach."""
    assert taught("cat a.txt", "x\n", cwd=None) == []
    assert taught("cat /a.txt", "x\n", cwd=None) == [Content("/a.txt", "x\n", exact=True)]


def test_trimmed_log() -> None:
    """Where the log trims observations, the content is known only up to its ends."""
    assert taught("cat a.txt", "x", exact=False) == [Content("/w/p/a.txt", "x", exact=False)]
