"""Where two texts differ, as spans of the second."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from verifierd.scoring.difference import differences, distance, spread, unpaired

LINES = st.sampled_from(
    ["a\n", "b\n", "ab\n", "\n", "a", "b", "x\r\n", "\u2028", "\x85y", "\x0bz\x1c", "\ud800", "e\u0301\n"]
)
TEXTS = st.lists(LINES, max_size=25).map("".join) | st.text(max_size=60)


def _mended(expected: str, observed: str) -> str:
    """`observed` with each difference replaced by what was expected there."""
    parts = []
    last = 0
    for found in differences(expected, observed):
        parts += [observed[last : found.start], found.expected]
        last = found.end
    return "".join([*parts, observed[last:]])


@given(expected=TEXTS, observed=TEXTS)
def test_putting_what_was_expected_in_the_spans_gives_the_expected_text(expected: str, observed: str) -> None:
    """Fewer than 20 differences are all of them: put right, they turn one text into the other."""
    if len(differences(expected, observed)) < 20:
        assert expected == _mended(expected, observed)


@given(expected=TEXTS, observed=TEXTS)
def test_spans_are_in_order_and_within_the_text(expected: str, observed: str) -> None:
    """Spans ascend, do not overlap, lie in the text, are at most 20, and each says something."""
    found = differences(expected, observed)

    assert len(found) <= 20
    assert bool(found) == (expected != observed)
    assert all(0 <= one.start <= one.end <= len(observed) for one in found)
    assert all(one.end > one.start or one.expected for one in found)
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))


@given(expected=TEXTS.filter(bool), data=st.data())
@example(expected="a\na\nb\n", data=None)
def test_one_changed_character_is_one_span_of_it(expected: str, data: st.DataObject | None) -> None:
    """Whatever surrounds it, repeated lines too, one exchanged character is reported as exactly itself."""
    place = 2 if data is None else data.draw(st.integers(0, len(expected) - 1))
    other = "b" if data is None else data.draw(st.characters().filter(lambda char: char != expected[place]))
    if "\n" in (other, expected[place]):
        return  # that joins or splits lines
    observed = expected[:place] + other + expected[place + 1 :]

    [found] = differences(expected, observed)

    assert (place, place + 1, expected[place]) == (found.start, found.end, found.expected)


@pytest.mark.parametrize(
    ("expected", "observed", "spans"),
    [
        ("a\nb\nc\n", "a\nc\n", [(2, 2, "b\n")]),
        ("a\nc\n", "a\nb\nc\n", [(2, 4, "")]),
        ("", "new\n", [(0, 4, "")]),
        ("old\n", "", [(0, 0, "old\n")]),
        ("1\nsame\n3\n", "x\nsame\ny\n", [(0, 1, "1"), (7, 8, "3")]),
        ("total 12\n", "total 13\n", [(7, 8, "2")]),
        ("end", "end\n", [(3, 4, "")]),
    ],
)
def test_spans(expected: str, observed: str, spans: list[tuple[int, int, str]]) -> None:
    """Lines are aligned, and each changed run is narrowed to its characters."""
    assert spans == [(found.start, found.end, found.expected) for found in differences(expected, observed)]


def test_at_most_twenty() -> None:
    """Of many differences the first twenty are reported."""
    expected = "".join(f"{number}\nsame\n" for number in range(50))
    observed = "".join(f"x{number}\nsame\n" for number in range(50))

    found = differences(expected, observed)

    assert len(found) == 20
    assert (found[0].start, found[0].end) == (0, 1)


def test_very_many_lines() -> None:
    """Beyond 4,000 changed lines all is one difference; a change between equal lines is exact at any length."""
    lines = [f"{number}\n" for number in range(20_000)]
    changed = ["x" + line for line in lines]
    once = [*lines[:9_000], "here\n", *lines[9_001:]]

    [everything] = differences("".join(lines), "".join(changed))
    assert everything.start == 0
    assert "".join(changed)[everything.end :] == "19999\n"
    [found] = differences("".join(lines), "".join(once))
    assert "".join(once)[found.start : found.end] == "here"
    assert found.expected == "9000"


class TestDistance:
    """0.0 for equal texts, 1.0 for nothing in common."""

    @given(expected=TEXTS, observed=TEXTS)
    def test_is_zero_only_for_equal_texts(self, expected: str, observed: str) -> None:
        """It lies between 0 and 1, is 0 for equal texts only, and does not depend on who is first."""
        value = distance(expected, observed)

        assert 0.0 <= value <= 1.0
        assert (value == 0.0) == (expected == observed)
        assert value == distance(observed, expected)

    def test_long_texts_by_lines(self) -> None:
        """Beyond 4,000 characters lines count: one changed line of 1,000 is a thousandth."""
        lines = [f"line {number}\n" for number in range(1_000)]

        assert distance("".join(lines), "".join(["x\n", *lines[1:]])) == pytest.approx(0.001)

    def test_long_texts_that_differ_after_the_compared_lines(self) -> None:
        """A difference that the measure does not reach is still more than none."""
        text = "a\n" * 5_000

        assert 0.0 < distance(text, text + "b\n") < 0.001


@given(before=st.text(max_size=9), was=st.text(max_size=9), now=st.text(max_size=9), after=st.text(max_size=9))
def test_spread_is_no_more_than_what_was_exchanged(before: str, was: str, now: str, after: str) -> None:
    """What lies between the common beginning and end is at most the exchanged part; nothing for equal texts."""
    found = spread(before + was + after, before + now + after)

    assert found <= len(was) + len(now)
    assert (found == 0) == (was == now)


class TestUnpaired:
    """Lines whose order says nothing."""

    @given(lines=st.lists(st.sampled_from(["a", "b", "", "x\x0by"]), max_size=9), data=st.data())
    def test_no_order_is_a_difference(self, lines: list[str], data: st.DataObject) -> None:
        """The same lines, each as often, do not differ."""
        assert unpaired("\n".join(lines), "\n".join(data.draw(st.permutations(lines)))) == []

    @given(expected=TEXTS, observed=TEXTS)
    def test_spans_lie_in_the_text(self, expected: str, observed: str) -> None:
        """Each is within the text that came, and texts whose lines differ have one."""
        found = unpaired(expected, observed)

        assert all(0 <= one.start <= one.end <= len(observed) for one in found)
        assert bool(found) == (sorted(expected.split("\n")) != sorted(observed.split("\n")))

    def test_pairs(self) -> None:
        """What came in place of what is missing is narrowed to what differs; the rest that is missing comes last."""
        found = unpaired("one\ntwo\nten\nsix", "ten\ntwx\none")

        assert [(one.start, one.end, one.expected) for one in found] == [(6, 7, "o"), (11, 11, "six\n")]
