"""Where two texts differ, as spans of the second; tight on small changes, linear in hostile cases."""

from collections import Counter

import msgspec
from rapidfuzz.distance import Indel

__all__ = ("Difference", "differences", "distance", "spread", "unpaired")

_MOST_LINES = 4_000
_MOST_SPANS = 20


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One place where observed departs from expected.

    Attributes:
        start, end: The observed characters; empty if expected text is missing there.
        expected: The text that stood there instead.
    """

    start: int
    end: int
    expected: str


def differences(expected: str, observed: str) -> list[Difference]:
    """The places where `observed` departs from `expected`, at most 20, in order.

    A change within one line is narrowed to the characters between the common beginning and end. Otherwise lines are
    aligned, and each changed run of them is narrowed so; beyond 4,000 lines all that changed is one difference, which
    stays linear.
    """
    if expected == observed:
        return []
    whole = _narrow(expected, observed, 0)
    if "\n" not in whole.expected and "\n" not in observed[whole.start : whole.end]:
        return [whole]
    # Equal lines at both ends need no alignment, and could only lead it astray.
    begin = observed.rfind("\n", 0, whole.start) + 1
    rest = len(observed) - (observed.find("\n", whole.end) + 1 or len(observed))
    left = expected[begin : len(expected) - rest].splitlines(keepends=True)
    right = observed[begin : len(observed) - rest].splitlines(keepends=True)
    if len(left) > _MOST_LINES or len(right) > _MOST_LINES:
        return [whole]
    left_at = _starts(left, begin)
    right_at = _starts(right, begin)
    found: list[Difference] = []
    for left_start, left_end, right_start, right_end in _changed_runs(left, right)[:_MOST_SPANS]:
        was = expected[left_at[left_start] : left_at[left_end]]
        now = observed[right_at[right_start] : right_at[right_end]]
        found.append(_narrow(was, now, right_at[right_start]))
    return found


def unpaired(expected: str, observed: str) -> list[Difference]:
    """As `differences` for lines whose order says nothing: those that the other text has not, or has less often.

    Lines that came are compared with lines that are missing in order; the rest of the missing ones is one difference
    at the end.
    """
    spare = Counter(expected.split("\n"))
    extra: list[tuple[int, str]] = []
    place = 0
    for line in observed.split("\n"):
        if spare[line] > 0:
            spare[line] -= 1
        else:
            extra.append((place, line))
        place += len(line) + 1
    missing: list[str] = []
    for line in expected.split("\n"):
        if spare[line] > 0:
            spare[line] -= 1
            missing.append(line)
    found = [
        _narrow(missing[number] if number < len(missing) else "", line, at)
        for number, (at, line) in enumerate(extra[:_MOST_SPANS])
    ]
    rest = "".join([f"{line}\n" for line in missing[len(extra) :]])
    if rest and len(found) < _MOST_SPANS:
        found.append(Difference(start=len(observed), end=len(observed), expected=rest))
    return found


def spread(expected: str, observed: str) -> int:
    """How many characters, of both together, lie between the texts' common beginning and their common end."""
    whole = _narrow(expected, observed, 0)
    return len(whole.expected) + whole.end - whole.start


def distance(expected: str, observed: str) -> float:
    """0.0 for equal texts up to 1.0 for texts with nothing in common, by lines where they are long."""
    if expected == observed:
        return 0.0
    if len(expected) + len(observed) <= 4_000:
        return Indel.normalized_distance(expected, observed)
    left, right = expected.splitlines(), observed.splitlines()
    return max(Indel.normalized_distance(left[:_MOST_LINES], right[:_MOST_LINES]), 1e-6)


def _changed_runs(left: list[str], right: list[str]) -> list[tuple[int, int, int, int]]:
    """Runs of lines that were replaced, dropped or added, neighbours joined."""
    runs: list[list[int]] = []
    for code in Indel.opcodes(left, right):
        if code.tag == "equal":
            continue
        if runs and runs[-1][1] == code.src_start and runs[-1][3] == code.dest_start:
            runs[-1][1], runs[-1][3] = code.src_end, code.dest_end
        else:
            runs.append([code.src_start, code.src_end, code.dest_start, code.dest_end])
    return [(a, b, c, d) for a, b, c, d in runs]


def _narrow(expected: str, observed: str, offset: int) -> Difference:
    most = min(len(expected), len(observed))
    head = _common(expected, observed, most)
    tail = _common(expected[::-1], observed[::-1], most - head)
    return Difference(
        start=offset + head,
        end=offset + len(observed) - tail,
        expected=expected[head : len(expected) - tail],
    )


def _common(left: str, right: str, most: int) -> int:
    """Length of the common prefix, at most `most`; by halving, so long texts cost few comparisons."""
    if left[:most] == right[:most]:
        return most
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _starts(lines: list[str], begin: int) -> list[int]:
    starts = [begin]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts
