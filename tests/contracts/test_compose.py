"""From the parts of a command line to its whole observation."""

import pytest

from tests.helpers import ran
from verifierd.contracts.checks import check
from verifierd.contracts.document import Family, Program, Rule
from verifierd.contracts.engine import Contracts
from verifierd.contracts.state.session import Session
from verifierd.types import Check, Constraint

FAMILY = Family(
    about="made up",
    program=(
        Program(name="echo", quiet=True),
        Program(name="head", filter="subset", quiet=True),
        Program(name="sort", filter="reorder", quiet=True),
        Program(name="cat", filter="same", quiet=True),
        Program(name="cut", values=("-c", "-f"), filter="each", quiet=True),
        Program(name="mkdir", quiet=True),
        Program(name="num", quiet=True),
        Program(name="hash", quiet=True),
        Program(name="tail", values=("-n",), filter="last", quiet=True),
        Program(name="nice", runs=0),
        Program(name="timeout", runs=1),
        Program(name="mypy", summary=True),
        Program(name="ends", summary=True),
    ),
    rule=(
        Rule(id="echo", says="echo", programs=("echo",), fact="echoed", check=Check.EQUALS),
        Rule(id="limit", says="limit", programs=("head",), fact="line-limit", check=Check.LINES),
        Rule(id="head-ok", says="ok", programs=("head", "true"), check=Check.STATUS, low=0, high=0),
        Rule(id="silent", says="silent", programs=("mkdir",), check=Check.EMPTY, given="success"),
        Rule(
            id="num", says="numbers", programs=("num", "loud"), check=Check.EVERY_LINE, text=r"^\d+$", given="success"
        ),
        Rule(id="num-most", says="two", programs=("num",), check=Check.LINES, high=2, low=2),
        Rule(id="hash", says="hashes", programs=("hash",), check=Check.EVERY_LINE, text=r"^[a-f]+$"),
        Rule(id="summary", says="summary", programs=("tests",), check=Check.SOME_LINE, text=r"passed"),
        Rule(id="types", says="types", programs=("mypy",), check=Check.AGREES, text="mypy"),
        Rule(id="all", says="all", programs=("mypy",), check=Check.EVERY_LINE, text=r":"),
        Rule(id="mute", says="mute", programs=("ends",), check=Check.EMPTY, given="success"),
        Rule(id="end", says="end", programs=("ends",), check=Check.SOME_LINE, text=r"^end", high=2),
        Rule(id="error", says="error", programs=("tests",), check=Check.SOME_LINE, text=r"failed", given="failure"),
    ),
)
CONTRACTS = Contracts({"made-up": FAMILY})


def _constraints(command: str) -> list[Constraint]:
    return CONTRACTS.constraints(Session(), ran(command))


def _violated(command: str, observation: str, status: int = 0) -> set[str]:
    return {
        constraint.rule
        for constraint in _constraints(command)
        if check(constraint, observation, status=status, succeeded=status == 0).violated
    }


@pytest.mark.parametrize(
    ("command", "obeys", "breaks", "rules"),
    [
        ("echo hi", "hi\n", "ho\n", {"echo"}),
        ("num", "1\n2\n", "x\ny\n", {"num"}),
        (
            "echo == a ==; num; echo == b ==; hash",
            "== a ==\n1\n2\n== b ==\nab\n",
            "== a ==\n1\n2\n== b ==\n12\n",
            {"hash"},
        ),
        (
            "echo == a ==; num; echo == b ==; hash",
            "== a ==\n1\n2\n== b ==\nab\n",
            "== a ==\nx\n2\n== b ==\nab\n",
            {"num"},
        ),
        ("echo == a ==; num; echo == b ==; hash", "== a ==\n1\n2\n== b ==\nab\n", "1\n2\n== b ==\nab\n", {"echo"}),
        ("mkdir a && num", "1\n2\n", "a\n2\n", {"num"}),
        ("mkdir a && mkdir b", "", "x", {"silent"}),
        ("num && hash", "1\n2\nab\n", "1\n2\n?\n", {"num+hash"}),
        ("num | head -1", "1\n", "1\n2\n", {"limit"}),
        ("num | sort | cat", "1\n2\n", "1\nx\n", {"num"}),
        ("num && num", "1\n2\n3\n4\n", "1\n2\n3\n4\n5\n", {"num-most"}),
        ("unknown; tests", "a\n1 passed\n", "a\n", {"summary"}),
        ("unknown && echo done", "a\ndone\n", "a\ndone!\n", {"echo"}),
        ("(mkdir a; num)", "1\n2\n", "x\n1\n", {"num"}),
    ],
)
def test_parts_of_a_whole(command: str, obeys: str, breaks: str, rules: set[str]) -> None:
    """What is known of a part is checked where that part's output must stand."""
    assert _violated(command, obeys) == set()
    assert _violated(command, breaks) == rules


@pytest.mark.parametrize(
    ("command", "observation"),
    [
        ("num; unknown", "x\n"),
        ("num || hash", "?\n"),
        ("num > f", "x\n"),
        ("num | unknown", "x\n"),
        ("unknown || echo no", "x\n"),
        ("for i in 1 2; do num; done", "x\n"),
        ("num | wc", "x\n"),
        ("loud; num", "1\nloud: cannot\n2\n"),
        ("unknown | head -1", "unknown: cannot\nx\n"),
    ],
)
def test_what_cannot_be_told(command: str, observation: str) -> None:
    """Outputs of unknown programs, of parts that may not run and that go elsewhere forbid nothing."""
    assert _violated(command, observation) == set()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("num | head -1", 0),
        ("unknown; num | head", 0),
        ("unknown || true", 0),
        ("true && true", 0),
        ("! true", None),
        ("unknown && true", None),
        ("true && unknown", None),
        ("true; unknown", None),
        ("true || unknown", 0),
        ("set -e; unknown; true", None),
    ],
)
def test_certain_status(command: str, status: int | None) -> None:
    """The status of a list follows from its parts as the shell defines it, or is not claimed."""
    found = [constraint.low for constraint in _constraints(command) if constraint.check is Check.STATUS]

    assert found == ([] if status is None else [status])


def test_a_failing_program_may_say_so() -> None:
    """What holds whatever the status is forgives the diagnostic of a quiet program that failed."""
    assert _violated("num | sort --bad", "sort: unrecognized option '--bad'\n", 2) == set()


def test_a_failure_is_only_a_single_programs_own() -> None:
    """What a failing program must say is not asked of a line in which another may have failed."""
    assert _violated("tests", "1 passed\n", 1) == {"error"}
    assert _violated("num; tests", "1 passed\n", 1) == set()


def test_a_mark_that_is_there_twice_divides_nothing() -> None:
    """The same text echoed twice must stand there, but says nothing of what is between."""
    assert _violated("echo ==; num; echo ==; hash", "==\nab\n==\n1\n") == set()
    assert _violated("echo ==; num; echo ==; hash", "x\n") == {"echo", "echo+num+hash"}


ONE = "a.py:1: error: x\nFound 1 error in 1 file (checked 3 source files)\n"
TWO = "a.py:1: error: x\nFound 2 errors in 1 file (checked 3 source files)\n"


@pytest.mark.parametrize(
    "command", ["mypy", "mkdir x && mypy", "nice mypy", "echo == a ==; mypy", "mypy && mypy", ". env && mypy"]
)
def test_a_summary_against_the_status(command: str) -> None:
    """Where a program must have gone well, its summary tells of no failures."""
    mark = "== a ==\n" if "==" in command else ""

    assert "types" in _violated(command, mark + ONE)
    assert "types" not in _violated(command, mark + ONE, 1)


@pytest.mark.parametrize(
    "command",
    [
        "mypy; true", "mypy || true", "mypy | cat", "mypy | tail", "! mypy", "mypy; mypy", "cat log && mypy",
        "mypy > f; tail f", "mypy &", "if mypy; then echo; fi",
    ],
)  # fmt: skip
def test_a_status_that_is_hidden(command: str) -> None:
    """A summary may tell of failures where another program's status is seen, or another's text."""
    assert "types" not in _violated(command, ONE)


CLEAN = "Success: no issues found in 3 source files\n"


@pytest.mark.parametrize(
    ("command", "told"),
    [("mypy", True), ("mkdir x && mypy", True), ("mypy && true", False), ("mypy && mypy", False), ("mypy; x", False)],
)
def test_a_summary_against_a_failure(command: str, *, told: bool) -> None:
    """One that tells of no failures goes with none of the last program, where nothing else can have failed."""
    assert ("types" in _violated(command, CLEAN, 1)) is told
    assert "types" not in _violated(command, CLEAN, 139)


@pytest.mark.parametrize(
    ("command", "counted"),
    [
        ("mypy", True),
        ("mypy 2>&1 | cat", True),
        ("mypy; mkdir x", True),
        ("mypy | tail -5", False),
        ("mypy | head -5", False),
        ("mypy; unknown", False),
        ("mypy | cat", False),  # what it writes to standard error may stand between
    ],
)
def test_a_list_that_is_whole(command: str, *, counted: bool) -> None:
    """What is listed is counted only where all of the output is there, and nothing else."""
    assert ("types" in _violated(command, TWO, 1)) is counted


def test_a_program_that_fails_says_anything() -> None:
    """What a program with a summary prints if it goes well is not asked of one that may have failed."""
    assert _violated("ends", "x\n") == {"end", "mute"}
    assert "mute" not in _violated("ends; mkdir x", "x\n")
    assert "mute" not in _violated("ends | cat", "x\n")


def test_what_another_program_runs() -> None:
    """It may print lines of its own: only what must stand somewhere holds."""
    assert _violated("mypy", "x\n", 1) == {"all"}
    assert _violated("nice mypy", "x\n", 1) == set()
    assert _violated("nice ends", "x\n") == {"end"}


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("ends", {"end"}),
        ("ends 2>&1 | tail -2", {"end"}),
        ("ends 2>&1 | tail -n 20 | tail", {"end"}),
        ("ends 2>&1 | tail -1", set()),
        ("ends 2>&1 | tail -n +2", set()),
        ("ends 2>&1 | head -5", set()),
        ("ends 2>&1 | tail; true", {"end"}),
        ("timeout 5 ends", {"end"}),
        ("timeout 5 ends 2>&1 | tail", set()),
    ],
)
def test_the_last_lines(command: str, rules: set[str]) -> None:
    """`tail` keeps what must stand at the end, if it keeps enough lines."""
    assert _violated(command, "a\n") - {"mute"} == rules
    assert _violated(command, "end\n") - {"mute"} == set()


@pytest.mark.parametrize(
    ("command", "observation", "violated"),
    [
        ("num | cut -c 1", "a\nb\n", set()),
        ("num | cut -c 1", "1\n2\n3\n", {"num-most"}),
        ("num | cut -f 1 a.txt", "1\n2\n3\n", set()),
        ("mkdir a | cut -c 1", "a\n", {"silent"}),
    ],
)
def test_a_part_of_each_line_keeps_their_number(command: str, observation: str, violated: set[str]) -> None:
    """What a line says is cut, and a line at an edge may be blank from then on."""
    assert _violated(command, observation) == violated
