"""Patterns of searches in RE2's syntax."""

import pytest

from verifierd.contracts.checks import pattern
from verifierd.contracts.facts.regex import Dialect, literal, translate, union


@pytest.mark.parametrize(
    ("text", "dialect", "accepted", "refused"),
    [
        ("ab*c", "basic", "xacx", "xaxc"),
        (r"foo\|^bar", "basic", "bar", "xbar"),
        (r"\(ab\)\{2\}", "basic", "abab", "ab"),
        ("a+(b)", "basic", "a+(b)", "aab"),
        ("a^b$c", "basic", "a^b$c", "abc"),
        ("*a", "basic", "*a", "a"),
        ("(ab|c)d?$", "extended", "xabd", "abx"),
        ("[]x]y", "extended", "]y", "y]"),
        ("[[:digit:]]{3}", "extended", "a123", "a12"),
        ("func() {", "basic", "func() {", "func()"),
        (r"func \w+\(", "rust", "func Größe(x)", "func (x)"),
        (r"(?i)todo|fixme", "rust", "ToDo", "do"),
        (r"a.*?b", "rust", "axxb", "ba"),
        (r"[^\s,]{2}z", "rust", "xyz", ",,z"),
        (r"\bname\b", "rust", "name", "nam"),
    ],
)
def test_a_translation_accepts_the_same_lines(text: str, dialect: Dialect, accepted: str, refused: str) -> None:
    """What the original accepts is accepted; what it clearly refuses is refused."""
    found = translate(text, dialect)

    assert found is not None
    assert found.accepts(accepted)
    assert not found.accepts(refused)


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("", "basic"),
        ("a\nb", "basic"),
        (r"a\nb", "rust"),
        (r"(?=a)b", "rust"),
        (r"\p{L}", "rust"),
        (r"[a&&b]", "rust"),
        ("(a", "rust"),
        ("a|", "extended"),
        ("a{,3}", "extended"),
        ("*a", "extended"),
        ("{a", "extended"),
        (r"a\{1", "basic"),
        ("[a", "basic"),
        ("a\\", "basic"),
        ("[[.a.]]", "basic"),
        ("a" * 2_000, "basic"),
        ("a{1000}" * 100, "rust"),
        ("\ud800", "rust"),
    ],
)
def test_what_is_not_certain_is_not_translated(text: str, dialect: Dialect) -> None:
    """There is no translation where a program might read the pattern otherwise, or RE2 cannot."""
    assert translate(text, dialect) is None


@pytest.mark.parametrize("line", ["foo ", "foo"])
def test_blanks_at_the_edges_may_be_missing(line: str) -> None:
    """Harnesses take blanks off the end of an output."""
    found = translate("foo $", "basic")

    assert found is not None
    assert found.accepts(line)


@pytest.mark.parametrize(
    ("text", "dialect", "exact"),
    [
        ("node_modules", "basic", True),
        ("a|b", "extended", True),
        (r"a\|b", "basic", False),
        ("a.b", "basic", False),
        ("^a", "basic", False),
        ("[a-z]", "extended", False),
    ],
)
def test_lines_are_ruled_out_by_exact_patterns(text: str, dialect: Dialect, *, exact: bool) -> None:
    """Only where all implementations and locales agree."""
    found = translate(text, dialect)

    assert found is not None
    assert found.exact is exact


def test_a_pattern_after_a_prefix() -> None:
    """One that is bound to the line's start follows the prefix directly."""
    found = union([translate("^def", "basic"), literal("a[0]")])

    assert found is not None
    compiled = pattern(found.after(r"\d+:"))
    assert [bool(compiled.search(line)) for line in ("3:def f", "3: def f", "3: a[0]", "def f")] == [
        True,
        False,
        True,
        False,
    ]


def test_a_pattern_of_which_one_is_unknown() -> None:
    """Nothing is known of the lines if one of several patterns cannot be told."""
    assert union([literal("a"), None]) is None
    assert union([]) is None


def test_case_may_be_folded() -> None:
    """Both cases are accepted, and the pattern is no longer exact."""
    found = literal("Name")

    assert found is not None
    assert not found.accepts("NAME")
    assert found.folded().accepts("NAME")
    assert not found.folded().exact


def test_a_whole_line() -> None:
    """Nothing but the prefix and a match."""
    found = translate("[0-9]+", "extended")

    assert found is not None
    compiled = pattern(found.whole("f:"))
    assert compiled.search("f:12")
    assert not compiled.search("f:12 passed")
