"""Text that nobody showed, looked into by commands of which the worlds might all make the same."""

import pytest
from bashkit import Bash

from verifierd import bundled
from verifierd.predictors.shell.envelope import Envelope
from verifierd.predictors.shell.profile import Profile
from verifierd.predictors.shell.sight import Effect, Sight
from verifierd.predictors.shell.taint import discerns, variables_weighed
from verifierd.predictors.shell.worlds import Session
from verifierd.types import ObservationKind

ENVELOPE = Envelope.load((bundled.root("policies") / "shell" / "gnu.toml").read_text())


def _ask(*steps: tuple[str, str, int] | str) -> str | None:
    """The prediction for the last command, after the others, which said what stands beside them or nothing."""
    session = Session(ENVELOPE, Profile("auto", "native"))
    text = None
    for step in steps:
        command, observation, code = step if isinstance(step, tuple) else (step, "", 0)
        sight = ("native", Effect("shell", command), ObservationKind.ENV, "/home/dev/proj", None, ())
        text = session.predict(Sight(*sight)).text
        session.observe(Sight(*sight, observation, code))
    return text


@pytest.mark.parametrize(
    "command",
    [
        'echo "$HOME" | grep -o dev',
        "echo $FOO | grep -c dev",
        "x=$(echo $HOME | grep -c dev); echo $x",
        'cat <<< "$HOME" | wc -l',
        "cat <<EOF | grep dev\n$HOME\nEOF",
        'echo "$HOME" > f; grep -c dev f',
        "echo ~ | grep -o dev",
        'for w in $HOME; do echo "$w" | grep -o dev; done',
        'echo "$HOME" | grep -q dev && echo y || echo n',
        'f() { echo "$1" | grep -o dev; }; f "$HOME"',
        'echo "$HOME" | tr / "\\n" | wc -l',
        'echo "$OLDPWD" | grep dev',
        "printf '%.2s\\n' \"$HOME\"",
        "echo ${HOME:0:2}",
        "echo ${HOME%%/*}",
        "test -d $HOME && echo dir",
        "[ -d ~/.ssh ] && echo y || echo n",
        "case $HOME in *dev*) echo y;; *) echo n;; esac",
        "[[ $HOME == *dev* ]] && echo y",
        '[ "$FOO" = a ] && echo y; FOO=b',
        "x=$FOO; echo $x | grep a",
        "echo $((FOO+1))",
        'for w in $OLDPWD; do echo "<$w>" | tr a-z A-Z; done',
    ],
)
def test_unknown_variables(command: str) -> None:
    """What a pipe, a test, a case, a pattern or a file makes of an unknown variable is not decided."""
    assert _ask(command) is None


@pytest.mark.parametrize(
    "command",
    [
        "grep -c '^d[e]v' f.txt",
        "awk 'NR>100' f.txt",
        "sed -n 100p f.txt",
        "tail -n +50 f.txt",
        "uniq -d f.txt",
        "cut -d: -f1 f.txt | grep -x root",
        "cat f.txt | grep -E '^[A-Z]+=' | wc -l",
        "cat f.txt > out; grep -c 'r[o]ot' out",
        "read l < f.txt; case $l in '#!'*) echo script;; *) echo none;; esac",
        "grep -rn 'T[O]DO' . | sort",
        "grep -c 'x[y]' {f,g}.txt",
        "echo x >> f.txt; tail -n 1 f.txt",
        "[ -x f.txt ] && echo x || echo nox",
    ],
)
def test_unknown_files(command: str) -> None:
    """A file of which only the name is known is not searched, counted or cut."""
    assert _ask(("ls", "f.txt\ng.txt\n", 0), command) is None


@pytest.mark.parametrize(
    "command", ["ls | grep '^READ'", "ls | grep -c '^R'", "[ -d .git ] && echo y || echo n", "test -d conf.d; echo $?"]
)
def test_unknown_names(command: str) -> None:
    """Nor are names searched for in a directory that nobody listed."""
    assert _ask(command) is None


@pytest.mark.parametrize(
    "steps",
    [
        ("x=0; [[ $HOME == *dev* ]] && x=1; true", "echo $x"),
        ("x=0; echo $HOME | grep -q dev && x=1; true", "echo $x"),
        ("echo a > f; echo $HOME | grep -q dev && echo b > f; true", "cat f"),
        ("x=$HOME", "echo $x | grep -o dev"),
        ("x=$(cat f.txt 2>/dev/null)", "[ ${#x} -gt 1000 ] && echo long || echo short"),
        ("f() { echo $HOME | grep -o dev; }", "f"),
        ("f() { cat secret.txt 2>/dev/null; echo end; }", "f"),
    ],
)
def test_what_followed_from_the_unknown(steps: tuple[str, str]) -> None:
    """What an earlier step made of the unknown is unknown, too."""
    assert _ask(*steps) is None


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("N=7; echo $N | grep -c 7", "1\n"),
        ("S=a_b; echo ${S%_*} ${#S}", "a 3\n"),
        ("i=0; while [ $i -lt 2 ]; do echo $i; i=$((i+1)); done", "0\n1\n"),
        ("for i in 1 2; do echo $i | tr 1 x; done", "x\n2\n"),
        ("echo hello | grep -o l | wc -l", "2\n"),
        ("case beta in b*) echo y;; *) echo n;; esac", "y\n"),
    ],
)
def test_what_is_known_stays_decided(command: str, text: str) -> None:
    """A value that the command gives by itself is known."""
    assert _ask(command) == text


def test_reading_a_command() -> None:
    """Passing text on is not looking into it, and a variable that is set first is not one from before."""
    for command, into in (("cat f | head -n 3", False), ("cat f | wc -l", True), ("find . -exec grep x {} +", True)):
        assert discerns(Bash().analyze(command), command) is into
    for command, names in (
        ("x=1; [ $x = 1 ]", set()),
        ("true && x=1; [ $x = 1 ]", {"x"}),
        ("x=$((x+1)); test $x", {"x"}),
    ):
        assert variables_weighed(Bash().analyze(command), command) == names
