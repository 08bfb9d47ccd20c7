"""Lines come out the same however the bytes come in."""

import tracemalloc
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from verifierd.sources.splitter import Splitter
from verifierd.types import Origin, Record


def record(offset: int, end: int, data: bytes, problem: str | None = None) -> Record:
    return Record(origin=Origin(path="x", offset=offset), end=end, data=data, problem=problem)


def test_a_line_split_at_any_byte_comes_out_whole() -> None:
    """A cut inside a 4-byte character, or between CR and LF, changes neither data nor offsets."""
    text = '{"a":"😀"}\r\n{"b":"é"}\n'.encode()
    for cut in range(len(text) + 1):
        splitter = Splitter("x")
        records = splitter.feed(text[:cut]) + splitter.feed(text[cut:])
        assert records == [record(0, 14, '{"a":"😀"}'.encode()), record(14, 25, '{"b":"é"}'.encode())]


@given(st.binary(max_size=60).map(lambda data: data.replace(b"x", b"\n")), st.lists(st.integers(0, 60), max_size=8))
def test_chunking_never_matters(data: bytes, cuts: list[int]) -> None:
    """Any bytes in any chunks give the records of the bytes in one chunk, and the same tail."""
    whole = Splitter("x", max_line_bytes=10)
    pieces = Splitter("x", max_line_bytes=10)
    expected = whole.feed(data)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    records = [r for a, b in pairwise(edges) for r in pieces.feed(data[a:b])]
    assert records == expected
    assert pieces.tail() == whole.tail()
    assert pieces.offset == len(data)


def test_blank_lines_are_no_records() -> None:
    """Empty lines and lines of white space are passed over, and counted in the offsets."""
    assert Splitter("x").feed(b"\n\r\n  \t\na\n\n") == [record(7, 9, b"a")]


def test_only_a_line_feed_ends_a_line() -> None:
    """The other line ends of Unicode, NUL bytes and a lone CR are data."""
    line = "\x00\x00{\u2028\u2029\x85\x0b\x0c\r}".encode()
    assert Splitter("x").feed(line + b"\n") == [record(0, len(line) + 1, line)]


def test_a_byte_order_mark_is_dropped_at_the_start_only() -> None:
    """The mark is no part of the first line's data; elsewhere it is data."""
    bom = b"\xef\xbb\xbf"
    assert [r.data for r in Splitter("x").feed(bom + b"a\n" + bom + b"b\n")] == [b"a", bom + b"b"]
    assert [r.data for r in Splitter("x", 9).feed(bom + b"a\n")] == [bom + b"a"]


def test_the_limit_counts_the_line_without_its_end() -> None:
    """A line of exactly the limit is given, with LF or CRLF; one byte more is reported with its offsets."""
    splitter = Splitter("x", max_line_bytes=4)
    assert splitter.feed(b"abcd\nabcd\r\nabcde\nabcde\r\nok\n") == [
        record(0, 5, b"abcd"),
        record(5, 11, b"abcd"),
        record(11, 17, b"", "too_long"),
        record(17, 24, b"", "too_long"),
        record(24, 27, b"ok"),
    ]


def test_a_huge_line_is_skipped_in_constant_memory() -> None:
    """100 MB without a line end keep no more than the limit, and become one record when the end comes."""
    splitter = Splitter("x", max_line_bytes=1000)
    chunk = b"x" * 100_000
    tracemalloc.start()
    for _ in range(1000):
        assert splitter.feed(chunk) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert splitter.tail() == record(0, 100_000_000, b"", "too_long")
    assert splitter.feed(b"\nok\n") == [
        record(0, 100_000_001, b"", "too_long"),
        record(100_000_001, 100_000_004, b"ok"),
    ]
