"""The vocabulary: each check on text that obeys, that violates, and that puts it out of force."""

from typing import Any

import pytest

from verifierd.contracts.checks import Outcome, check
from verifierd.contracts.tails import LONGEST
from verifierd.types import Check, Constraint


def _check(kind: Check, observation: str, *, status: int | None = 0, **fields: Any) -> Outcome:
    succeeded = None if status is None else status == 0
    return check(Constraint(rule="r", check=kind, **fields), observation, status=status, succeeded=succeeded)


NUMBERED = r"^\s*(?P<line>\d+)\t(?P<text>.*)$"

HOLDS = [
    (Check.EQUALS, "a\nb\n", {"text": "a\nb"}, "a\nb"),
    (Check.EQUALS, "\n b \n", {"texts": ("x", " b")}, " b"),
    (Check.EMPTY, " \n\n", {}, ""),
    (Check.CONTAINS, "a foo b", {"text": "foo"}, "foo"),
    (Check.CONTAINS, "foobar\nfoo \n", {"text": "foo", "whole": True}, "foo"),
    (Check.STARTS, "\nfoo bar", {"texts": ("x", "foo")}, "foo"),
    (Check.ENDS, "foo bar\n\n", {"text": "bar\n"}, "bar"),
    (Check.ABSENT, "a\nb", {"text": "^c"}, None),
    (Check.EVERY_LINE, "1:a\n\n22:b\r\n", {"text": r"^\d+:"}, "1:a22:b"),
    (Check.SOME_LINE, "x\nOn branch main\n", {"text": "^On branch "}, "On branch main"),
    (Check.FIRST_LINE, "\ntotal 8\nx", {"text": r"^total \d+$"}, "total 8"),
    (Check.LINES, "a\nb\n\n", {"low": 1, "high": 2}, None),
    (Check.NUMBER, "      12\n", {"low": 12, "high": 12}, "      12"),
    (Check.NUMBERED, "  7\ta\n  8\t\n", {"text": NUMBERED, "low": 7}, "  7\ta  8"),
    (Check.KNOWN_LINES, "  7\ta\n  8\tb\n", {"text": NUMBERED, "known": {8: "b"}}, "  8\tb"),
    (Check.KNOWN_LINES, "x\ny\nz\n", {"low": 4, "known": {5: "y", 9: "q"}}, "y"),
    (Check.SORTED, "a\nb\nb\n", {}, None),
    (Check.SORTED, "b\na\n", {"text": "reverse"}, None),
    (Check.UNIQUE, "a\nb\na\n", {"text": "adjacent"}, None),
    (Check.UNIQUE, "a\nb\n", {}, None),
    (Check.NAMES, "b.py\na.py\n", {"texts": ("a.py",)}, "a.py"),
    (Check.NAMES, "Docs\n", {"texts": ("docs",)}, "Docs"),
    (Check.NAMES, " M x/a.py\n", {"text": r"^.. (?P<name>.*)$", "texts": ("x/a.py",)}, "x/a.py"),
    (Check.NOT_NAMES, "A.py\n", {"texts": ("a.py",)}, None),
    (Check.NOT_NAMES, "ab.py\n", {"texts": ("a.py",)}, None),
    (Check.STATUS, "", {"low": 0, "high": 0}, None),
]

BREAKS = [
    (Check.EQUALS, "a\nc\n", {"text": "a\nb"}, "a\nc"),
    (Check.EQUALS, "", {"text": "a"}, ""),
    (Check.EMPTY, "x\n", {}, "x"),
    (Check.CONTAINS, "foobar", {"text": "foo", "whole": True}, None),
    (Check.STARTS, "bar", {"text": "foo"}, "bar"),
    (Check.ENDS, "bar", {"text": "foo"}, "bar"),
    (Check.ABSENT, "a\ncc\n", {"text": "^c"}, "cc"),
    (Check.EVERY_LINE, "1:a\nfoo\n", {"text": r"^\d+:"}, "foo"),
    (Check.SOME_LINE, "x", {"text": "^On branch "}, None),
    (Check.FIRST_LINE, "x\ntotal 8", {"text": r"^total \d+$"}, "x"),
    (Check.FIRST_LINE, "", {"text": "x"}, None),
    (Check.LINES, "a\nb\nc\n", {"high": 2}, "c"),
    (Check.LINES, "a\n", {"low": 2}, None),
    (Check.NUMBER, "1a", {}, "1a"),
    (Check.NUMBER, "13", {"high": 12}, "13"),
    (Check.NUMBERED, "  7\ta\n  9\tb\n", {"text": NUMBERED, "low": 7}, "  9\tb"),
    (Check.NUMBERED, "  8\ta\n", {"text": NUMBERED, "low": 7}, "  8\ta"),
    (Check.KNOWN_LINES, "  8\tc\n", {"text": NUMBERED, "known": {8: "b"}}, "c"),
    (Check.SORTED, "b\na\n", {}, "a"),
    (Check.UNIQUE, "a\na\n", {"text": "adjacent"}, "a"),
    (Check.UNIQUE, "a\nb\na\n", {}, "a"),
    (Check.NAMES, "b.py\n", {"texts": ("a.py",)}, None),
    (Check.NOT_NAMES, "a.py\n", {"texts": ("a.py",)}, "a.py"),
    (Check.STATUS, "", {"low": 1}, None),
]


@pytest.mark.parametrize(("kind", "observation", "fields", "pinned"), HOLDS)
def test_what_holds(kind: Check, observation: str, fields: dict[str, Any], pinned: str | None) -> None:
    """It is in force, not violated, and says which characters it pins: none for bounds and order."""
    outcome = _check(kind, observation, **fields)

    assert outcome.applied
    assert not outcome.violated
    assert "".join(observation[start:end].rstrip("\t") for start, end in outcome.spans) == (pinned or "")


@pytest.mark.parametrize(("kind", "observation", "fields", "blamed"), BREAKS)
def test_what_breaks(kind: Check, observation: str, fields: dict[str, Any], blamed: str | None) -> None:
    """The characters that violate are named, or that something is missing; in words, too."""
    outcome = _check(kind, observation, **fields)

    assert outcome.violated
    assert "".join(observation[start:end] for start, end in outcome.spans) == (blamed or "")
    assert outcome.found


@pytest.mark.parametrize(
    ("given", "status", "applied"),
    [
        ("success", 0, True),
        ("success", 1, False),
        ("success", None, False),
        ("failure", 1, True),
        ("failure", 0, False),
    ],
)
def test_condition(given: str, status: int | None, *, applied: bool) -> None:
    """What holds for success says nothing of a failure, nor of a status that is not known."""
    assert _check(Check.EMPTY, "", status=status, given=given).applied is applied


class TestScope:
    """Only what stands between the marks."""

    TEXT = "a\n--1--\nb\n--2--\nc\n"

    @pytest.mark.parametrize(
        ("after", "before", "text"),
        [(None, "--1--", "a"), ("--1--", "--2--", "b"), ("--2--", None, "c"), (None, None, "a\n--1--\nb\n--2--\nc")],
    )
    def test_between_marks(self, after: str | None, before: str | None, text: str) -> None:
        """Marks are whole lines, and not part of the scope."""
        outcome = _check(Check.EQUALS, self.TEXT, text=text, after=after, before=before)

        assert not outcome.violated
        assert [self.TEXT[start:end] for start, end in outcome.spans] == [text]

    @pytest.mark.parametrize("text", ["a\nb\n", "--1--\na\n--1--\n", "x--1--\n"])
    def test_a_mark_that_is_not_there_once(self, text: str) -> None:
        """A mark that is missing, or there twice, puts the constraint out of force."""
        assert not _check(Check.EMPTY, text, after="--1--").applied

    def test_tolerated_lines(self) -> None:
        """A diagnostic of another program in the scope forgives a violation, and nothing else does."""
        assert not _check(Check.EVERY_LINE, "1\nls: no\n", text=r"^\d$", tolerates="^ls: ").applied
        assert _check(Check.EVERY_LINE, "1\nx\n", text=r"^\d$", tolerates="^ls: ").violated


@pytest.mark.parametrize("text", ["(a+)+$", "(a|a)*b", "(.*)(.*)(.*)(.*)(.*)x$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_hostile_patterns_end(text: str) -> None:
    """A pattern that would blow up a backtracking engine is answered on a long line."""
    assert _check(Check.EVERY_LINE, "a" * 50_000 + "!", text=text).violated


def test_what_is_no_pattern_is_out_of_force() -> None:
    """RE2 refuses look-around and back references; such a rule says nothing."""
    assert not _check(Check.EVERY_LINE, "a", text=r"(?=a)(a)\1").applied


def test_many_lines() -> None:
    """Beyond some thousand lines nothing is checked."""
    assert not _check(Check.SORTED, "b\na\n" * 3000).applied


def test_of_a_very_long_output_only_the_status_is_checked() -> None:
    """Whether in few lines or in many; diagnostics still keep a status out of force."""
    failed = Constraint(rule="r", check=Check.STATUS, low=0, high=0, tolerates="^bash: ")

    for text in ("a" * (LONGEST + 1), "a\n" * LONGEST):
        assert not check(Constraint(rule="r", check=Check.EMPTY), text, status=0, succeeded=True).applied
        assert check(failed, text, status=1, succeeded=False).violated
        assert not check(failed, f"{text}\nbash: no\n", status=1, succeeded=False).applied
    assert check(Constraint(rule="r", check=Check.EMPTY), "a\n" * 5_000, status=0, succeeded=True).violated
    assert not check(Constraint(rule="r", check=Check.EMPTY), "a\n" * 5_001, status=0, succeeded=True).applied
