"""What the log shows of the shell, and what is decided in a shell that may be any."""

import pytest
from bashkit import Bash

from verifierd.predictors.shell.profile import Profile, refuse_portable

ERROR = "bash: line 1: nope: command not found\n"


def test_formats() -> None:
    """Native recordings are taken for bash; a coding agent's shell may be any, unless it is said."""
    assert not Profile("auto", "native").portable
    assert Profile("auto", "claude_code").portable
    assert Profile("auto", "codex").portable
    assert not Profile("bash", "codex").portable
    assert Profile("portable", "native").portable


@pytest.mark.parametrize(
    ("observation", "cwd"),
    [
        ("zsh:1: no matches found: *.x\n", "/home/me"),
        ("(eval):1: no matches found: *.x\n", "/home/me"),
        ("sh: 1: nope: not found\n", "/home/me"),
        ("", "/Users/me/work"),
    ],
)
def test_signs_of_another_shell(observation: str, cwd: str) -> None:
    """An error of zsh or sh, or a directory of macOS, makes a recording portable."""
    profile = Profile("auto", "native")
    profile.see("echo x", observation, cwd)
    assert profile.portable


def test_fixed_profile_stays() -> None:
    """A profile that was asked for does not change."""
    profile = Profile("bash", "native")
    profile.see("x", "zsh:1: command not found: x\n", "/Users/me")
    assert not profile.portable


@pytest.mark.parametrize("prefix", ["bash: ", "bash: line 1: ", "-bash: ", "/bin/bash: line 1: ", "/usr/bin/bash: "])
def test_prefix_is_learnt(prefix: str) -> None:
    """The prefix of errors is unknown until one is seen, and then used with the right line."""
    profile = Profile("auto", "native")
    assert profile.spell(ERROR, errors=True) is None
    profile.learn_prefix(ERROR, f"{prefix}nope: command not found\n")
    assert profile.spell("x\n" + ERROR, errors=True) == f"x\n{prefix}nope: command not found\n"
    profile.forget()
    assert profile.spell(ERROR, errors=True) is None


@pytest.mark.parametrize(
    "observed",
    ["bosh: line 1: nope: command not found\n", "bash: line 2: nope: command not found\n", "bash: line 1: nope\n", ""],
)
def test_corruption_is_no_prefix(observed: str) -> None:
    """What is not one of the known prefixes before the very same text is never learnt, and never matches."""
    profile = Profile("auto", "native")
    profile.learn_prefix(ERROR, observed)
    assert profile.prefix is None
    assert not profile.matches(ERROR, observed, errors=True)


def test_known_prefix_is_strict() -> None:
    """Once a prefix is known, another known one no longer matches."""
    profile = Profile("auto", "native")
    assert profile.matches(ERROR, "bash: nope: command not found\n", errors=True)
    profile.learn_prefix(ERROR, ERROR)
    assert not profile.matches(ERROR, "bash: nope: command not found\n", errors=True)


def test_output_is_no_error() -> None:
    """Text that the command wrote to its output is spelt as it is, even if it looks like an error."""
    assert Profile("auto", "native").spell(ERROR, errors=False) == ERROR


def test_trimming() -> None:
    """Claude Code drops blank lines at the start and blanks at the end; native logs do not."""
    assert Profile("auto", "claude_code").spell("\n \n  a\n\n", errors=False) == "  a"
    assert Profile("auto", "native").spell("\na\n\n", errors=False) == "\na\n\n"


def test_rewritten_commands() -> None:
    """A hook that rewrites commands shows in its wording, or by name, and never in a native recording."""
    for command, observation in (("git add .", "ok ✓ 4 files changed"), ("rtk ls", ""), ("make", "FAILED: x")):
        profile = Profile("auto", "claude_code")
        profile.see(command, observation, "/home/me")
        assert profile.rewritten
    profile = Profile("auto", "native")
    profile.see("make", "ok then\n", "/home/me")
    assert not profile.rewritten


def test_windows() -> None:
    """Drive letters mean Windows."""
    for cwd in ("C:\\work", "d:/work", "/d/work"):
        profile = Profile("auto", "claude_code")
        profile.see("echo x", "x", cwd)
        assert profile.windows


def test_order_of_the_c_locale() -> None:
    """Only an upper-case name sorted before an earlier lower-case letter shows the C locale."""
    for text, shown in (
        ("README\nabc\n", True),
        ("Abc\nxyz\n", False),
        ("abc\nxyz\n", False),
        ("abc\nREADME\n", False),
        ("./src/README\n./src/abc\n", True),
        ("src/README\nlib/abc\n", False),
        ("a/X\nb/a\n", False),
    ):
        profile = Profile("auto", "native")
        profile.learn_order(text)
        assert profile.collated is shown


@pytest.mark.parametrize(
    "command",
    [
        "echo hello world",
        "echo 'it costs $5'",
        'echo "plain words"',
        "printf '%s\\n' a b",
        "mkdir -p a/b && touch a/b/c",
        "cat a.txt",
        "cd /tmp/x && cat a.txt",
        "cat > f <<'EOF'\nany $thing `at` all\nEOF",
        "head -n 3 a.txt",
        "tail -5 a.txt",
        "cp a b; mv b c",
        "test -f a.txt",
        "cat a.txt 2>/dev/null",
        "true | cat",
    ],
)
def test_portable(command: str) -> None:
    """Literal words and the plainest tools do the same everywhere."""
    assert refuse_portable(Bash().analyze(command), command) is None


@pytest.mark.parametrize(
    "command",
    [
        "echo $X",
        "echo *.txt",
        "echo a\\nb",
        "echo 'a\\tb'",
        "echo -n x",
        "echo -e x",
        "echo =ls",
        "echo {a,b}",
        "echo ~",
        "echo hi!",
        "printf '%d\\n' 3",
        "ls",
        "wc -l a.txt",
        "grep x a.txt",
        "sed -n 1p a.txt",
        "sort a.txt",
        "rm a.txt",
        "cat -n a.txt",
        "mkdir a -m 700",
        "f() { echo x; }; f",
        "X=1 cat a",
        "cat a &",
        "(cat a)",
        "cat <<EOF\n$X\nEOF",
        "cat a # why",
        "cd -",
        "head -c 3 a.txt",
        "head a b c",
    ],
)
def test_not_portable(command: str) -> None:
    """Expansions, options and tools that differ between systems are refused."""
    assert refuse_portable(Bash().analyze(command), command) is not None
