"""What a step calls, and what becomes of it."""

import pytest

from tests.helpers import ran
from verifierd.contracts.calls import Call, Part, parts, path_in
from verifierd.contracts.document import Program

PROGRAMS = {
    "git": Program(name="git", subcommands=True, values=("-C", "-c")),
    "git log": Program(name="git log", values=("-n",)),
    "head": Program(name="head", values=("-n",)),
    "find": Program(name="find", values=("-name", "-type")),
    "timeout": Program(name="timeout", values=("-k",), runs=1),
    "python": Program(name="python", values=("-W",), runs="-m"),
    "uv": Program(name="uv", subcommands=True),
    "uv run": Program(name="uv run", values=("--with",), runs=0),
    "mise": Program(name="mise", subcommands=True),
    "mise x": Program(name="mise x", runs="--"),
    "pytest": Program(name="pytest", values=("-k",), summary=True),
    "ruff": Program(name="ruff", subcommands=True, summary=True),
}


def _parts(command: str, *, tool: str = "Bash", cwd: str | None = "/w") -> list[Part]:
    return parts(ran(command, tool=tool, cwd=cwd), PROGRAMS)


def _call(command: str) -> Call:
    (part,) = _parts(command)
    (call,) = part.stages
    assert call is not None
    return call


class TestCall:
    """One program with its words."""

    def test_options(self) -> None:
        """Short ones are taken apart, values are found in either place, numbers stand for themselves."""
        call = _call("ls -la --color=auto -5 -- -x")

        assert call.options == {"-l": (), "-a": (), "--color": ("auto",), "-5": ()}
        assert call.operands == ("-x",)
        assert _call("head -n5 f").value("-n") == "5"
        assert _call("head -n 5 f").operands == ("f",)

    def test_long_options_with_one_dash(self) -> None:
        """A program that has them has no clusters of short ones."""
        call = _call("find . -name '*.py' -print -type f")

        assert call.options == {"-name": ("*.py",), "-print": (), "-type": ("f",)}
        assert call.operands == (".",)
        assert not call.globs

    def test_subcommands(self) -> None:
        """`git -C x log` is `git log`, run in x."""
        call = _call("git -C sub -c a=b log -n 3")

        assert (call.name, call.cwd, call.value("-n")) == ("git log", "/w/sub", "3")

    @pytest.mark.parametrize(
        ("command", "name", "operands"),
        [
            ("timeout 5 pytest a", "pytest", ("a",)),
            ("timeout -k 1 5 pytest -k x a", "pytest", ("a",)),
            ("python -W error -m pytest a", "pytest", ("a",)),
            ("python -mpytest a", "pytest", ("a",)),
            ("uv run --with x pytest a", "pytest", ("a",)),
            ("uv run -- pytest a", "pytest", ("a",)),
            ("uv run python -m pytest a", "pytest", ("a",)),
            ("uv run pytest@8 a", "pytest", ("a",)),
            ("mise x node@20 -- timeout 5 pytest a", "pytest", ("a",)),
            ("uv run ruff check a", "ruff check", ("a",)),
        ],
    )
    def test_a_program_that_another_runs(self, command: str, name: str, operands: tuple[str, ...]) -> None:
        """What runs a program whose summary is known is passed over, however many they are."""
        call = _call(command)

        assert (call.name, call.operands) == (name, operands)
        assert call.wrapped

    def test_the_programs_that_run_it(self) -> None:
        """They are told in their order."""
        assert _call("uv run timeout 5 python -m pytest").wrapped == ("uv run", "timeout", "python")

    @pytest.mark.parametrize(
        ("command", "name"),
        [
            ("timeout 5 cat f", "timeout"),
            ("timeout $x pytest", "timeout"),
            ("python a.py -m pytest", "python"),
            ("python -c x -m pytest", "python"),
            ("python -m", "python"),
            ("uv run $x", "uv run"),
            ("uv run --with x", "uv run"),
            ("mise x node@20", "mise x"),
            ("uv sync pytest", "uv sync"),
        ],
    )
    def test_what_cannot_be_seen_through(self, command: str, name: str) -> None:
        """Other programs are left where they are, as their outputs could be mixed."""
        call = _call(command)

        assert (call.name, call.wrapped) == (name, ())

    def test_names(self) -> None:
        """A program is known by its last name, behind prefixes that run it as it is."""
        assert _call("/usr/bin/ls").name == "ls"
        assert _call("sudo ls").name == "ls"
        assert _call("time ls").name == "time"
        assert _call("C:/x/git.exe status").name == "git status"

    def test_the_words_behind_a_prefix(self) -> None:
        """The simple command is that of the program which is run."""
        command = _call("command echo a b").command

        assert command is not None
        assert [word.text for word in command.args] == ["a", "b"]

    def test_what_is_not_spelt_out(self) -> None:
        """An expansion leaves a word unknown; a program that is one cannot be told."""
        assert _call("ls $x a").operands == (None, "a")
        assert _parts("$x a")[0].stages == (None,)

    def test_documents_and_targets(self) -> None:
        """A here-document is its input; redirections are where its output goes."""
        call = _call("cat > f <<'E'\nhi\nE\n")

        assert (call.document, call.targets, call.piped) == ("hi\n", ("f",), False)


class TestParts:
    """Pipelines, and whether they surely run."""

    @pytest.mark.parametrize(
        ("command", "runs", "succeeds"),
        [
            ("a", ["always"], [True]),
            ("a && b", ["always", "success"], [True, True]),
            ("a || b", ["always", "maybe"], [False, False]),
            ("a; b", ["always", "always"], [False, True]),
            ("a && b; c", ["always", "maybe", "always"], [False, False, True]),
            ("set -e; a", ["always", "maybe"], [False, False]),
            ("exit 3; a", ["always", "maybe"], [False, False]),
            ("! a", ["always"], [False]),
            ("(a; b) && c", ["always", "always", "success"], [False, True, True]),
            ("a || (b; c)", ["always", "maybe", "maybe"], [False, False, False]),
            ("(exit 1); b", ["always", "always"], [False, True]),
            ("{ exit 1; }; b", ["always", "maybe"], [False, False]),
        ],
    )
    def test_what_surely_runs(self, command: str, runs: list[str], succeeds: list[bool]) -> None:
        """After `||`, `exit` or `set -e`, and after `&&` in a list whose status is not the step's, nothing is sure."""
        found = _parts(command)

        assert [part.runs for part in found] == runs
        assert [part.succeeds for part in found] == succeeds

    @pytest.mark.parametrize(
        ("command", "shown", "errors"),
        [
            ("a", True, ("shown",)),
            ("a > f", False, ("shown",)),
            ("a 2>/dev/null", True, ("dropped",)),
            ("a > f 2>&1", False, ("dropped",)),
            ("a 2>&1 > f", False, ("shown",)),
            ("a &> f", False, ("dropped",)),
            ("a 2>&1 | b", True, ("piped", "shown")),
            ("a | b 2>/dev/null", True, ("shown", "dropped")),
        ],
    )
    def test_where_output_goes(self, command: str, shown: bool, errors: tuple[str, ...]) -> None:  # noqa: FBT001
        """Redirections take effect from left to right."""
        (part,) = _parts(command)

        assert (part.shown, part.errors) == (shown, errors)

    def test_cd_is_followed(self) -> None:
        """Later parts run where an earlier one went; a subshell comes back."""
        found = _parts("cd a && (cd b; x); y; cd $z; u")

        assert [part.stages[0].cwd for part in found if part.stages[0]] == [
            "/w", "/w/a", "/w/a/b", "/w/a", "/w/a", None,
        ]  # fmt: skip

    @pytest.mark.parametrize("command", ["a &", "f() { a; }; f", "x" * 100_001])
    def test_what_cannot_be_told(self, command: str) -> None:
        """A command line that cannot be read has no parts."""
        assert _parts(command) == []

    def test_other_shells(self) -> None:
        """PowerShell's language is another one."""
        assert _parts("ls", tool="PowerShell") == []


@pytest.mark.parametrize(
    ("cwd", "word", "path"),
    [
        ("/a", "b/../c", "/a/c"),
        ("/a", "/b", "/b"),
        (None, "b", "b"),
        ("D:\\x", "y\\z", "D:/x/y/z"),
        ("/a", "D:\\x", "D:/x"),
        ("/a", "~/b", "~/b"),
    ],
)
def test_paths(cwd: str | None, word: str, path: str) -> None:
    """Paths of Windows are read too; a home directory stays one."""
    assert path_in(cwd, word) == path
