"""Which paths surely exist: what is learned, and what makes it forgotten."""

from typing import Any

import pytest

from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.state.paths import Paths
from verifierd.contracts.state.profile import Profile
from verifierd.types import Action, Origin, Step

CONTRACTS = Contracts(bundled())


def _step(
    command: str | None,
    *,
    tool: str = "Bash",
    fields: dict[str, Any] | None = None,
    exit_code: int = 0,
    turn: str = "1",
    siblings: tuple[Action, ...] | None = (),
    observation: str = "",
) -> Step:
    return Step(
        format="native",
        trajectory="paths",
        index=1,
        action=Action(tool=tool, input=fields or {}, command=command),
        observation=observation,
        exit_code=exit_code if command is not None else None,
        cwd="/work/p",
        turn=turn,
        siblings=siblings,
        origin=Origin(path="-", offset=0),
    )


def _after(*steps: Step | str) -> Paths:
    paths = Paths()
    for step in steps:
        happened = _step(step) if isinstance(step, str) else step
        paths.observe(happened, *CONTRACTS.read(Profile(), happened))
    return paths


@pytest.mark.parametrize(
    ("command", "path", "exists"),
    [
        ("mkdir -p a/b", "/work/p/a/b", True),
        ("touch a && ls", "/work/p/a", True),
        ("cd a && touch b", "/work/p/a/b", True),
        ("echo x > a", "/work/p/a", True),
        ("rm -rf a", "/work/p/a", False),
        ("touch a; rm a", "/work/p/a", False),
        ("rm a || touch b", "/work/p/b", None),
        ("rm *.c", "/work/p/a.c", None),
        ("rm $X", "/work/p/a", None),
        ("touch a; ./build", "/work/p/a", None),
        ("touch $(cat list)", "/work/p/a", None),
        ("rm -i a", "/work/p/a", None),
    ],
)
def test_a_command_that_went_well_made_or_removed(command: str, path: str, exists: bool | None) -> None:  # noqa: FBT001
    """Only where it surely ran, on words that are spelt out, and nothing unknown ran after it."""
    assert _after(command).exists(path) is exists


def test_a_tool_wrote_a_file() -> None:
    """If it says so."""
    fields = {"file_path": "/work/p/a.py", "content": ""}

    written = _step(None, tool="Write", fields=fields, observation="File created successfully at: /work/p/a.py")
    assert _after(written).exists("/work/p/a.py") is True
    assert _after(_step(None, tool="Write", fields=fields, observation="no")).exists("/work/p/a.py") is None


@pytest.mark.parametrize(
    "later",
    [
        _step("make"),
        _step("rm b", exit_code=1),
        _step("ls", turn="2"),
        _step(None, tool="Agent"),
        _step("ls", siblings=None),
        _step("ls", siblings=(Action(tool="Bash", command="rm a"),)),
        _step("rm -r a"),
    ],
)
def test_what_may_have_been_changed_is_forgotten(later: Step) -> None:
    """By programs, people, agents and parallel actions, and by the session itself."""
    assert _after("mkdir -p a/b", later).exists("/work/p/a/b") is None


def test_reading_forgets_nothing() -> None:
    """Neither by tools nor by programs."""
    read = _step(None, tool="Read", fields={"file_path": "/work/p/x"})

    assert _after("mkdir a", "ls -la && git status 2>/dev/null", read).exists("/work/p/a") is True


def test_work_in_the_background_ends_all_certainty() -> None:
    """What it does later is not seen."""
    behind = _step("sleep 9", fields={"command": "sleep 9", "run_in_background": True})

    assert _after(behind, "mkdir a").exists("/work/p/a") is None


def test_a_name_in_another_case_is_the_same_file_to_some() -> None:
    """So the last word on it counts, and nothing is said of the other spelling."""
    paths = _after("rm Makefile", "touch makefile")

    assert paths.exists("/work/p/Makefile") is None
    assert paths.exists("/work/p/makefile") is True


def test_names_within_a_directory() -> None:
    """Only those right in it."""
    assert dict(_after("mkdir -p a/b c", "rm d").within("/work/p")) == {"c": True, "d": False}
