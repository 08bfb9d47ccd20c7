"""What test runners, compilers and linters say at the end, against the exit status and against themselves.

Only summaries that a tool prints in a fixed form are read, and only what follows from them: a count of failures above
zero goes with a failed step, parts add up to a stated total, and as many failures are listed as are counted.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from verifierd.contracts.listings import LISTINGS

__all__ = ("TOOLS", "disagreement")

_COUNT = re.compile(r"(\d{1,9}) ([a-z]+)")
_BAD = frozenset({"failed", "error", "errors"})
_PYTEST = re.compile(
    r"^=* ?((?:\d{1,9} (?:subtests )?[a-z]+(?:, )?)+) in [\d.]+s(?: \(\d+(?:\.\d+)?[\d:days, ]*\))?(?: =+)?$",
    re.MULTILINE,
)
_PYTEST_COLLECTED = re.compile(r"^(?:collecting \.\.\. )?collected (\d{1,9}) items?\b", re.MULTILINE)
_PYTEST_LISTED = re.compile(
    r"(FAILED|ERROR) \S{1,1000}(?:::|\.\w)|(SUBFAILED)[(\[ ]|(?:SKIPPED|XFAIL|XPASS|PASSED|RERUN|SUBPASSED)\b"
)
_PYTEST_HEADER = re.compile(r"=+ short test summary info =+")
_CARGO_STARTED = re.compile(r"^running (\d{1,9}) tests?$", re.MULTILINE)
_CARGO = re.compile(
    r"^test result: (ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored; (\d{1,9}) measured;",
    re.MULTILINE,
)
_CARGO_LISTED = re.compile(r"^failures:\n((?:    \S.*\n){1,5000})\n\Z", re.MULTILINE)
_JEST = re.compile(r"^(?:Tests|Test Suites): +((?:\d{1,9} [a-z]+, )*)(\d{1,9}) total$", re.MULTILINE)
_VITEST = re.compile(r"^ *(?:Tests|Test Files) +((?:\d{1,9} [a-z]+(?: \| )?)+) \((\d{1,9})\)$", re.MULTILINE)
_VITEST_HEADER = re.compile(r"^\u23af+ Failed Tests (\d{1,9}) \u23af+$", re.MULTILINE)
_UNITTEST = re.compile(r"^Ran (\d{1,9}) tests? in [\d.]+s\n+(OK|FAILED)\b(.*)$", re.MULTILINE)
_UNITTEST_LISTED = re.compile(r"^={70}\n(FAIL|ERROR): ", re.MULTILINE)
_UNITTEST_COUNT = re.compile(r"(?:\(|, )(failures|errors)=(\d{1,9})")
_GO = re.compile(
    r"^(?:(?P<bad>FAIL\t\S+(?:\t[\d.]+s| \[(?:build|setup) failed\]))|(?P<good>ok  \t\S+\t(?:[\d.]+s|\(cached\))).*)$",
    re.MULTILINE,
)
_GO_LISTED = re.compile(r"^--- FAIL: \S+ \([\d.]+s\)$", re.MULTILINE)
_NODE = re.compile(r"^[#\u2139] (tests|pass|fail|cancelled|skipped|todo) (\d{1,9})$", re.MULTILINE)
_BUN = re.compile(r"^ *(\d{1,9}) fail$", re.MULTILINE)
_MYPY = re.compile(
    r"^(?:Success: no issues found in|Found (\d{1,9}) errors? in (\d{1,9}) files? \((?:checked|errors prevented)) ?",
    re.MULTILINE,
)
_MYPY_LISTED = re.compile(r"^([^:\n]+):(?:\d+:){0,4} error: ", re.MULTILINE)
_RUFF = re.compile(
    r"^(?:All checks passed!|Found (\d{1,9}) errors?(?: \((\d{1,9}) fixed, (\d{1,9}) remaining\))?\.)$", re.MULTILINE
)
_RUFF_LISTED = re.compile(
    r"^(?:[A-Z]{1,6}\d{3,4} |\S+:\d+:\d+: (?:[A-Z]{1,6}\d{3,4}|[Ss]yntaxError:) |invalid-syntax: )", re.MULTILINE
)
_TSC = re.compile(
    r"^Found (\d{1,9}) errors?(?: in (?:\d{1,9} files\.|the same file, starting at: .*|\S+:\d+))$", re.MULTILINE
)
_TSC_LISTED = re.compile(r"^(?:\S.*:\d+:\d+ - )?error TS\d+: ", re.MULTILINE)
_ESLINT = re.compile(r"^\u2716 (\d{1,9}) problems? \((\d{1,9}) errors?, (\d{1,9}) warnings?\)$", re.MULTILINE)
_ESLINT_LISTED = re.compile(r"^ +\d+:\d+ +(error|warning) ", re.MULTILINE)
_GOLANGCI = re.compile(r"^(\d{1,9}) issues(?:\.$|:\n((?:\* [\w-]+: \d{1,9}(?:\n|\Z))+))", re.MULTILINE)
_TSC_ERROR = re.compile(r"^(?:\S.*(?:\(\d+,\d+\):|:\d+:\d+ -) )?error TS\d+: .*$", re.MULTILINE)
_CARGO_FAILED = re.compile(
    r"^error: (?:could not compile `.*|aborting due to .*|\d{1,9} targets? failed:?)$", re.MULTILINE
)
_MAKE = re.compile(r"^g?make: \*\*\* (?:\[.*\] Error \d+|.*  Stop\.)$", re.MULTILINE)
_NPM = re.compile(r"^npm (?:ERR!|error) code \S+$", re.MULTILINE)
_LINTER = re.compile(r": (\d{1,9})$", re.MULTILINE)

_Summary = tuple[tuple[int, int], bool | None, str]
"""Its characters, whether it tells of failures (None if that is open), and what is wrong with it in itself."""


def _differ(listed: int, stated: int, what: str) -> str:
    return "" if listed == stated else f"{listed} {what} listed, {stated} counted"


def _sections(pattern: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each summary with what stands before it, back to the one before."""
    end = 0
    for match in pattern.finditer(text):
        yield match, text[end : match.start()]
        end = match.end()


def _pytest(text: str, *, whole: bool) -> list[_Summary]:
    found = list(_PYTEST.finditer(text))
    result: list[_Summary] = []
    for match in found[-1:]:
        counts = {word: int(count) for count, word in _COUNT.findall(match[1])}
        errors = counts.get("error", 0) + counts.get("errors", 0)
        failed = counts.get("failed", 0)
        wrong = _pytest_listed(text[: match.start()], failed, errors)
        collected = _PYTEST_COLLECTED.search(text)
        if not wrong and whole and len(found) == 1 and collected and counts.get("passed", 0) > int(collected[1]):
            wrong = f"{counts['passed']} passed, {collected[1]} collected"
        result.append((match.span(), bool(failed or errors), wrong))
    return result


def _pytest_listed(before: str, failed: int, errors: int) -> str:
    """Do the lines right before the last one list as many? They may be told not to list a kind at all (`-r`)."""
    counts = {"FAILED": 0, "ERROR": 0}
    for line in reversed(before.splitlines()):
        if match := _PYTEST_LISTED.match(line):
            kind = match[1] or ("FAILED" if match[2] else "")
            counts[kind] = counts.get(kind, 0) + 1
        elif _PYTEST_HEADER.fullmatch(line):
            listed, named = counts["FAILED"], counts["ERROR"]
            return (listed and _differ(listed, failed, "failed")) or (named and _differ(named, errors, "errors")) or ""
        elif not line.startswith("!!!"):
            break  # a message of several lines, or not all of them
    return ""


def _cargo(text: str, *, whole: bool) -> list[_Summary]:
    del whole
    result: list[_Summary] = []
    for match, before in _sections(_CARGO, text):
        passed, failed, ignored, measured = (int(match[number]) for number in range(2, 6))
        wrong = "" if (failed > 0) == (match[1] == "FAILED") else f"{match[1]} beside {failed} failed"
        listed = _CARGO_LISTED.search(before)
        if not wrong and listed:
            wrong = _differ(listed[1].count("\n"), failed, "failures")
        started = _CARGO_STARTED.findall(before)
        added = passed + failed + ignored + measured
        if not wrong and len(started) == 1 and int(started[0]) != added:
            wrong = f"the parts add up to {added}, not to {started[0]}"
        result.append((match.span(), failed > 0, wrong))
    return result


def _summed(pattern: re.Pattern[str]) -> Callable[[str], list[_Summary]]:
    """Parts and their total: `2 failed, 3 passed, 5 total`."""

    def read(text: str) -> list[_Summary]:
        result: list[_Summary] = []
        for match in pattern.finditer(text):
            counts = [(int(count), word) for count, word in _COUNT.findall(match[1])]
            added = sum(count for count, _ in counts)
            failed = any(count and word in _BAD for count, word in counts)
            left = failed and added < int(match[2])  # a run that ends with its first failure (`--bail`)
            wrong = "" if added == int(match[2]) or left else f"the parts add up to {added}, not to {match[2]}"
            result.append((match.span(), failed, wrong))
        return result

    return read


def _jest(text: str, *, whole: bool) -> list[_Summary]:
    del whole
    return _summed(_JEST)(text)


def _vitest(text: str, *, whole: bool) -> list[_Summary]:
    result = _summed(_VITEST)(text)
    headed = _VITEST_HEADER.findall(text)
    if whole and len(headed) == 1:
        for index, (span, failed, wrong) in enumerate(result):
            summary = text[slice(*span)]
            stated = re.search(r"(\d{1,9}) failed", summary)
            if summary.lstrip().startswith("Tests ") and not wrong and stated:
                result[index] = span, failed, _differ(int(headed[0]), int(stated[1]), "failed")
    return result


def _unittest(text: str, *, whole: bool) -> list[_Summary]:
    result: list[_Summary] = []
    for match, before in list(_sections(_UNITTEST, text))[-1:]:
        counts = {word: int(count) for word, count in _UNITTEST_COUNT.findall(match[3])}
        wrong = ""
        listed = _UNITTEST_LISTED.findall(before)
        if whole and listed:
            wrong = _differ(listed.count("FAIL"), counts.get("failures", 0), "failures") or _differ(
                listed.count("ERROR"), counts.get("errors", 0), "errors"
            )
        result.append((match.span(), match[2] == "FAILED", wrong))
    return result


def _go(text: str, *, whole: bool) -> list[_Summary]:
    result: list[_Summary] = []
    for match, before in _sections(_GO, text):
        wrong = ""
        if whole and match["good"]:
            listed = _GO_LISTED.search(before)
            wrong = f"“{listed[0]}” in a package that is ok" if listed else ""
        result.append((match.span(), match["bad"] is not None, wrong))
    return result


def _node(text: str, *, whole: bool) -> list[_Summary]:
    del whole
    matches = list(_NODE.finditer(text))[-6:]
    counts = {match[1]: int(match[2]) for match in matches}
    if len(counts) != 6 or matches[0][1] != "tests":
        return []
    total = counts.pop("tests")
    added = sum(counts.values())
    wrong = "" if added == total else f"the parts add up to {added}, not to {total}"
    return [((matches[0].start(), matches[-1].end()), counts["fail"] + counts["cancelled"] > 0, wrong)]


def _bun(text: str, *, whole: bool) -> list[_Summary]:
    del whole
    return [(match.span(), int(match[1]) > 0, "") for match in list(_BUN.finditer(text))[-1:]]


def _mypy(text: str, *, whole: bool) -> list[_Summary]:
    result: list[_Summary] = []
    for match, before in _sections(_MYPY, text):
        wrong = ""
        names = _MYPY_LISTED.findall(before)
        if whole and names:
            wrong = _differ(len(names), int(match[1] or 0), "errors")
            if match[1] and not wrong:
                wrong = _differ(len(set(names)), int(match[2]), "files")
        result.append((match.span(), match[1] is not None and int(match[1]) > 0, wrong))
    return result[-1:]


def _ruff(text: str, *, whole: bool) -> list[_Summary]:
    result: list[_Summary] = []
    for match, before in _sections(_RUFF, text):
        stated, fixed = int(match[1] or 0), int(match[2] or 0)
        remaining = int(match[3]) if match[3] else stated
        wrong = "" if fixed + remaining == stated else f"{fixed} and {remaining} are not {stated}"
        listed = len(_RUFF_LISTED.findall(before))
        if whole and listed and not wrong:
            wrong = _differ(listed, remaining, "errors")
        result.append((match.span(), None if fixed and not remaining else remaining > 0, wrong))
    return result[-1:]


def _tsc(text: str, *, whole: bool) -> list[_Summary]:
    result: list[_Summary] = []
    for match, before in _sections(_TSC, text):
        listed = len(_TSC_LISTED.findall(before))
        wrong = _differ(listed, int(match[1]), "errors") if whole and listed else ""
        result.append((match.span(), int(match[1]) > 0, wrong))
    if not result and (errors := list(_TSC_ERROR.finditer(text))):
        return [(errors[-1].span(), True, "")]
    return result[-1:]


def _eslint(text: str, *, whole: bool) -> list[_Summary]:
    result: list[_Summary] = []
    for match, before in _sections(_ESLINT, text):
        total, errors, warnings = (int(match[number]) for number in range(1, 4))
        wrong = "" if errors + warnings == total else f"{errors} and {warnings} are not {total}"
        listed = _ESLINT_LISTED.findall(before)
        if whole and listed and not wrong:
            wrong = _differ(listed.count("error"), errors, "errors") or _differ(
                listed.count("warning"), warnings, "warnings"
            )
        result.append((match.span(), True if errors else None, wrong))
    return result[-1:]


def _golangci(text: str, *, whole: bool) -> list[_Summary]:
    del whole
    result: list[_Summary] = []
    for match in _GOLANGCI.finditer(text):
        stated = int(match[1])
        wrong = _differ(sum(map(int, _LINTER.findall(match[2]))), stated, "issues") if match[2] else ""
        result.append(((match.start(), match.end()), stated > 0, wrong))
    return result[-1:]


def _failing(pattern: re.Pattern[str]) -> Callable[..., list[_Summary]]:
    """A line that only a program prints that fails."""

    def read(text: str, *, whole: bool) -> list[_Summary]:
        del whole
        return [(match.span(), True, "") for match in list(pattern.finditer(text))[-1:]]

    return read


def _task(text: str, *, whole: bool) -> list[_Summary]:
    """Whatever a task runs: only forms that nothing else has, and what they say of themselves."""
    del whole
    found = [summary for read in _UNMISTAKABLE for summary in read(text, whole=False)]
    return [(span, None, wrong) for span, _, wrong in sorted(found)]


_UNMISTAKABLE = (_pytest, _cargo, _jest, _vitest, _node, _eslint, _golangci)

TOOLS: Mapping[str, Callable[..., list[_Summary]]] = {
    "pytest": _pytest,
    "unittest": _unittest,
    "cargo test": _cargo,
    "jest": _jest,
    "vitest": _vitest,
    "go test": _go,
    "node": _node,
    "bun test": _bun,
    "mypy": _mypy,
    "ruff": _ruff,
    "tsc": _tsc,
    "eslint": _eslint,
    "golangci-lint": _golangci,
    "cargo": _failing(_CARGO_FAILED),
    "make": _failing(_MAKE),
    "npm": _failing(_NPM),
    "task": _task,
    **LISTINGS,
}
"""Whose summaries can be read."""
_CERTAIN = frozenset({"mypy", "ruff", "unittest"})
"""Tools that fail for nothing but what they sum up."""


def disagreement(
    tool: str, text: str, *, failed: bool | None, whole: bool = False
) -> tuple[bool, str, Sequence[tuple[int, int]]]:
    """Does a summary contradict the exit status or itself?

    Args:
        tool: Whose summary it is, one of `TOOLS`.
        text: The output, without colours.
        failed: Whether the program failed; None if not known. A summary without failures says nothing of most failed
            programs, which may have failed for another reason (coverage, warnings).
        whole: Whether this is all that the tool printed, and nothing else that it might have.

    Returns:
        Whether a summary was found, what is wrong with it (empty if nothing is), and the characters that say so.
    """
    found = TOOLS[tool](text, whole=whole)
    for span, bad, wrong in found:
        if wrong:
            return True, wrong, (span,)
        if bad and failed is False:
            return True, "the summary tells of failures, the exit status of none", (span,)
        if bad is False and failed and tool in _CERTAIN:
            return True, "the summary tells of no failures, the exit status of one", (span,)
    return bool(found), "", tuple(span for span, _, _ in found)
