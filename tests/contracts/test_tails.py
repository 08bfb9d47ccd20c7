"""What harnesses append to an observation or take out of it."""

import pytest

from verifierd.contracts.tails import LONGEST, cut, visible
from verifierd.types import Action, Origin, Step

REMINDER = "<system-reminder>Mind this.</system-reminder>"


def _step(observation: str, tool: str = "Bash", elided: str | None = None) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=1,
        action=Action(tool=tool, command="ls" if tool == "Bash" else None),
        observation=observation,
        elided=elided,
        origin=Origin(path="-", offset=0),
    )


@pytest.mark.parametrize(
    ("tool", "observation", "left"),
    [
        ("Bash", "a\nShell cwd was reset to /home/user", "a"),
        ("Bash", "a [rerun: b12]", "a "),
        ("Bash", "a\n[rerun: b1]\nShell cwd was reset to /x\n", "a"),
        ("Bash", "(Bash completed with no output)", ""),
        ("Bash", "a\n[The command completed with exit code 0.]", "a"),
        ("Bash", f"a\n{REMINDER}", f"a\n{REMINDER}"),
        ("Read", f"a\n\n{REMINDER}\n{REMINDER}\n", "a\n"),
        ("Read", REMINDER, REMINDER),
        ("Read", f"{REMINDER}\n1\ta", f"{REMINDER}\n1\ta"),
        ("WebFetch", f"a\n{REMINDER}", f"a\n{REMINDER}"),
        ("Bash", "a\n", "a\n"),
    ],
)
def test_only_the_harness_own_tails_are_taken_off(tool: str, observation: str, left: str) -> None:
    """What remains is a prefix; what the environment or a page said stays."""
    assert visible(_step(observation, tool)) == left


def test_many_tails_are_all_taken_off() -> None:
    """Up to more than any harness appends."""
    assert visible(_step("a" + "\n[rerun: b1]" * 400)) == "a"
    assert visible(_step("a" + f"\n{REMINDER}" * 400, "Read")) == "a"
    assert visible(_step("a" + "\n[rerun: b1]" * 20_000)) != "a"


def test_blanks_before_a_tail_may_be_many() -> None:
    """More than are looked at at once; all of a blank observation may be."""
    assert visible(_step("a\n[rerun: b1]" + " \n" * 9_000)) == "a"
    assert visible(_step("\n" * 20_000)) == "\n" * 20_000


def test_the_tails_of_what_is_too_long_stay() -> None:
    """Nobody looks at it."""
    text = "a" * LONGEST + "\n[rerun: b1]"

    assert visible(_step(text)) is text


@pytest.mark.parametrize(
    ("observation", "gone"),
    [
        ("a\n\n... [1234 characters truncated] ...\n\nb", True),
        ("a\n[... omitted 3 of 9 lines ...]\nb", True),
        ("<persisted-output>\nOutput too large", True),
        ("a ... [1234 characters truncated] ...", False),
        ("a\n...\nb", False),
    ],
)
def test_a_cut_is_seen_by_its_mark(observation: str, gone: bool) -> None:  # noqa: FBT001 - a parameter
    """A mark on a line of its own says so, as does the log."""
    assert cut(_step(observation)) is gone
    assert cut(_step("a", elided="truncated"))
