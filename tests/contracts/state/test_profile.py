"""A session's habits: recognised early, with a reason, and with what they switch off."""

from typing import Any

import pytest

from verifierd.contracts.checks import check
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.state.profile import Profile, shell
from verifierd.types import Action, History, ObservationKind, Origin, Step

CONTRACTS = Contracts(bundled())


def _step(command: str | None, observation: str = "", *, tool: str = "Bash", **more: Any) -> Step:
    fields: dict[str, Any] = {
        "format": "claude_code", "trajectory": "t", "index": 1, "cwd": "/home/user",
        "origin": Origin(path="-", offset=0),
        "exit_code": None if command is None else 0,
    }  # fmt: skip
    given = more.pop("input", {})
    return Step(action=Action(tool=tool, command=command, input=given), observation=observation, **{**fields, **more})


def _profile(*steps: Step) -> Profile:
    profile = Profile()
    for step in steps:
        profile.observe(step, *CONTRACTS.read(profile, step))
    return profile


@pytest.mark.parametrize(
    ("command", "observation"),
    [
        ("rtk git log", "x"),
        ("git add a", "ok ✓ 1 file changed, 2 insertions(+)"),
        ("git add a", "ok 1 file changed, 2 insertions(+)"),
        ("git commit -m x", "ok abc1234"),
        ("git status", "* main...origin/main\n~ Modified: 1 files\n   a"),
        ("cat -A a", "error: unexpected argument\n\nUsage: rtk read [OPTIONS] <FILE>"),
        ("git diff", "a | 2 +-\n\n--- Changes ---\n\na"),
    ],
)
def test_a_rewriter_is_recognised_by_one_step(command: str, observation: str) -> None:
    """Its name, or one line that the program never writes, is enough; commands are then no longer judged."""
    profile = _profile(_step(command, observation))

    assert profile.rewritten
    assert profile.evidence["rewritten"].startswith("step 1: ")


@pytest.mark.parametrize(
    ("command", "observation"),
    [
        ("git status", "On branch main\nnothing to commit, working tree clean"),
        ("git add a && echo ok", "ok"),
        ("cat notes.md", "ok ✓ 1 file changed"),
        ("npm test", "FAILED: 2/15 tests"),
        ("git show HEAD:notes.md", "--- Changes ---"),
        ("git log --oneline", "abc1234 Shorten it"),
    ],
)
def test_what_programs_print_themselves_is_no_rewriting(command: str, observation: str) -> None:
    """Neither their own output nor a text that they show."""
    assert not _profile(_step(command, observation)).rewritten


def test_the_first_rewritten_output_raises_no_alarm() -> None:
    """Before anything was shown, a rewriter's line puts what it violates out of force; another line does not."""
    contracts = Contracts(bundled())
    step = _step("git commit -m 'Add it'")
    constraints = contracts.constraints(contracts.session(History(step.key)), step)

    def violated(text: str) -> bool:
        return any(check(one, text, status=0, succeeded=True).violated for one in constraints)

    assert constraints
    assert not violated("ok ✓ abc1234")
    assert violated("something else")


def test_an_alias_switches_its_program_off() -> None:
    """By what it lists, or by what the shell says of the name; options alone are no other program."""
    listed = _profile(_step("ls -l", ".rw-r--r-- 1.2k user  3 Jan 10:00 a"))
    asked = _profile(_step("type cat ls", "cat is an alias for bat\nls is an alias for ls --color=auto"))

    assert listed.replaced == {"ls"}
    assert asked.replaced == {"cat"}
    _, calls = CONTRACTS.read(listed, _step("ls"))
    assert not listed.applies(calls[0])


def test_another_language_is_recognised() -> None:
    """The words of `git` are not compared then."""
    assert _profile(_step("git status", "Auf Branch main\n")).translated
    assert _profile(_step("git status", "\u041d\u0430 \u0432\u0435\u0442\u043a\u0435 main\n")).translated


def test_only_a_posix_shell_is_read() -> None:
    """PowerShell is told from the tool, the runner, the platform or its errors."""
    assert shell(_step("ls", tool="PowerShell")) == "powershell"
    assert shell(_step("ls", input={"command": ["C:\\x\\pwsh.exe", "-Command", "ls"]})) == "powershell"
    assert shell(_step("ls", format="codex", cwd="C:\\x")) == "powershell"
    assert shell(_step("ls", format="codex", cwd="C:\\x", input={"shell": "/bin/bash"})) == "posix"
    assert shell(_step("ls", cwd="C:\\x")) == "posix"
    assert not _profile(_step("lsx", "lsx: ... (CommandNotFoundException)")).reads(_step("ls"))


@pytest.mark.parametrize(
    "step",
    [
        _step(None, "<tool_use_error>File has been modified since read", tool="Edit",
              observation_kind=ObservationKind.HARNESS_ERROR),
        _step(None, tool="Agent", observation_kind=ObservationKind.STILL_RUNNING),
        _step("npm run dev", observation_kind=ObservationKind.STILL_RUNNING),
        _step("ls", trajectory="s/agent"),
    ],
)  # fmt: skip
def test_other_writers_are_recognised(step: Step) -> None:
    """A refused edit, an agent or a program in the background, being a sub-agent."""
    profile = _profile(step)

    assert not profile.alone
    assert profile.evidence["others"]


def test_alone_is_the_rule_and_a_turn_disturbs() -> None:
    """A person who speaks may have edited; a file that holds the words of a refusal says nothing."""
    words = _step(None, "has been modified since read", tool="Read", turn="1")
    profile = _profile(words)
    before = profile.disturbed
    profile.observe(_step("ls", turn="2"), (), ())

    assert profile.alone
    assert profile.disturbed == before + 1


def test_forms_of_output_are_recognised() -> None:
    """Colours, cuts, drives."""
    profile = _profile(_step("ls", "\x1b[1ma\x1b[0m", cwd="D:\\x"), _step("ls", "a\n... [9 lines truncated] ..."))

    assert (profile.coloured, profile.truncated, profile.windows) == (True, True, True)
    assert set(profile.evidence) == {"coloured", "truncated", "windows"}
