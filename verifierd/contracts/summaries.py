"""What test runners, compilers and linters say at the end, against the exit status and against itself.

Only summaries that a tool prints in a fixed form are read, and only what follows from them: a count of failures above
zero goes with a failed step, none with one that went well, and parts add up to a stated total.
"""

import re
from collections.abc import Callable, Mapping, Sequence

__all__ = ("TOOLS", "disagreement")

_COUNT = re.compile(r"(\d{1,9}) ([a-z]+)")
_PYTEST = re.compile(r"^=* ?((?:\d{1,9} [a-z]+(?:, )?)+) in [\d.]+s\b.*$", re.MULTILINE)
_CARGO = re.compile(
    r"^test result: (ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed; \d{1,9} ignored; \d{1,9} measured;", re.MULTILINE
)
_JEST = re.compile(r"^Tests: +((?:\d{1,9} [a-z]+, )*)(\d{1,9}) total$", re.MULTILINE)
_VITEST = re.compile(r"^ +Tests +((?:\d{1,9} [a-z]+(?: \| )?)+) \((\d{1,9})\)$", re.MULTILINE)
_UNITTEST = re.compile(r"^Ran \d{1,9} tests? in [\d.]+s\n+(OK|FAILED)\b.*$", re.MULTILINE)
_GO = re.compile(r"^(?:FAIL|FAIL\t.*|--- FAIL: .*)$", re.MULTILINE)
_BUN = re.compile(r"^ *(\d{1,9}) fail$", re.MULTILINE)
_MYPY = re.compile(r"^(?:Success: no issues found in|Found (\d{1,9}) errors? in) ", re.MULTILINE)
_RUFF = re.compile(r"^(?:All checks passed!|Found (\d{1,9}) errors?\.)$", re.MULTILINE)
_TSC = re.compile(r"^Found (\d{1,9}) errors?(?: in .*)?\.?$", re.MULTILINE)
_ESLINT = re.compile(r"^\u2716 \d{1,9} problems? \((\d{1,9}) errors?, \d{1,9} warnings?\)$", re.MULTILINE)
_GOLANGCI = re.compile(r"^(\d{1,9}) issues(?:\.|:)$", re.MULTILINE)
_BAD = frozenset({"failed", "error", "errors"})

_Summary = tuple[tuple[int, int], bool | None, str]
"""Its characters, whether it tells of failures (None if that is open), and what is wrong with it in itself."""


def _pytest(text: str) -> list[_Summary]:
    found = list(_PYTEST.finditer(text))[-1:]
    return [
        (match.span(), any(int(count) and word in _BAD for count, word in _COUNT.findall(match[1])), "")
        for match in found
    ]


def _cargo(text: str) -> list[_Summary]:
    result: list[_Summary] = []
    for match in _CARGO.finditer(text):
        failed = int(match[3]) > 0
        wrong = "" if failed == (match[1] == "FAILED") else f"{match[1]} beside {match[3]} failed"
        result.append((match.span(), failed, wrong))
    return result


def _summed(pattern: re.Pattern[str]) -> Callable[[str], list[_Summary]]:
    """Parts and their total: `2 failed, 3 passed, 5 total`."""

    def read(text: str) -> list[_Summary]:
        result: list[_Summary] = []
        for match in pattern.finditer(text):
            counts = [(int(count), word) for count, word in _COUNT.findall(match[1])]
            added = sum(count for count, _ in counts)
            wrong = "" if added == int(match[2]) else f"the parts add up to {added}, not to {match[2]}"
            result.append((match.span(), any(count and word in _BAD for count, word in counts), wrong))
        return result

    return read


def _unittest(text: str) -> list[_Summary]:
    return [(match.span(), match[1] == "FAILED", "") for match in list(_UNITTEST.finditer(text))[-1:]]


def _go(text: str) -> list[_Summary]:
    return [(match.span(), True, "") for match in list(_GO.finditer(text))[-1:] if match[0] != "--- FAIL: "]


def _counted(pattern: re.Pattern[str], *, warns: bool = False) -> Callable[[str], list[_Summary]]:
    """A number of errors, or a sentence without one; `warns` if none of them is not yet success."""

    def read(text: str) -> list[_Summary]:
        result: list[_Summary] = []
        for match in list(pattern.finditer(text))[-1:]:
            failed: bool | None = match[1] is not None and int(match[1]) > 0
            result.append((match.span(), None if warns and not failed else failed, ""))
        return result

    return read


TOOLS: Mapping[str, Callable[[str], list[_Summary]]] = {
    "pytest": _pytest,
    "unittest": _unittest,
    "cargo test": _cargo,
    "jest": _summed(_JEST),
    "vitest": _summed(_VITEST),
    "go test": _go,
    "bun test": _counted(_BUN),
    "mypy": _counted(_MYPY),
    "ruff": _counted(_RUFF),
    "tsc": _counted(_TSC),
    "eslint": _counted(_ESLINT, warns=True),
    "golangci-lint": _counted(_GOLANGCI),
}
"""Whose summaries can be read."""


def disagreement(tool: str, text: str, *, failed: bool | None) -> tuple[bool, str, Sequence[tuple[int, int]]]:
    """Does a summary contradict the exit status or itself?

    Args:
        tool: Whose summary it is, one of `TOOLS`.
        text: The output, without colours.
        failed: Whether the program failed; None if not known. A summary without failures says nothing of a failed
            program, which may have failed for another reason (coverage, warnings).

    Returns:
        Whether a summary was found, what is wrong with it (empty if nothing is), and the characters that say so.
    """
    found = TOOLS[tool](text)
    for span, bad, wrong in found:
        if wrong:
            return True, wrong, (span,)
        if bad and failed is False:
            return True, "the summary tells of failures, the exit status of none", (span,)
    return bool(found), "", tuple(span for span, _, _ in found)
