"""Summaries of test runners and linters against the exit status and themselves."""

import pytest

from verifierd.contracts.summaries import TOOLS, disagreement

GOOD = [
    ("pytest", "=== 4 passed, 1 skipped in 0.12s ===\n"),
    ("unittest", "Ran 3 tests in 0.001s\n\nOK\n"),
    ("cargo test", "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s"),
    ("jest", "Tests:       1 skipped, 4 passed, 5 total\n"),
    ("vitest", "      Tests  2 passed | 1 skipped (3)\n"),
    ("bun test", " 3 pass\n 0 fail\n"),
    ("mypy", "Success: no issues found in 3 source files\n"),
    ("ruff", "All checks passed!\n"),
    ("eslint", "\u2716 2 problems (0 errors, 2 warnings)\n"),
    ("golangci-lint", "0 issues.\n"),
]

BAD = [
    ("pytest", "=== 1 failed, 4 passed in 0.12s ===\n"),
    ("pytest", "=== 4 passed, 2 errors in 0.12s ===\n"),
    ("unittest", "Ran 3 tests in 0.001s\n\nFAILED (failures=1)\n"),
    ("cargo test", "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s"),
    ("jest", "Tests:       1 failed, 4 passed, 5 total\n"),
    ("vitest", "      Tests  1 failed | 1 passed (2)\n"),
    ("go test", "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.com/a\t0.3s\nFAIL\n"),
    ("bun test", " 2 pass\n 1 fail\n"),
    ("mypy", "Found 1 error in 1 file (checked 3 source files)\n"),
    ("ruff", "Found 2 errors.\n"),
    ("tsc", "Found 3 errors in 2 files.\n"),
    ("eslint", "\u2716 2 problems (1 error, 1 warning)\n"),
    ("golangci-lint", "2 issues:\n* revive: 2\n"),
    ("tsc", "a.ts(1,7): error TS2322: x\n"),
    ("cargo", "error: could not compile `a` (lib) due to 1 previous error\n"),
    ("make", "make: *** [Makefile:2: a] Error 1\n"),
    ("make", "make: *** No rule to make target 'a'.  Stop.\n"),
    ("npm", "npm error code E404\n"),
    ("npm", "npm ERR! code E404\n"),
    ("node", "# tests 2\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 0\n# todo 0\n"),
]


@pytest.mark.parametrize(("tool", "text"), GOOD)
def test_success_agrees(tool: str, text: str) -> None:
    """A summary without failures is found, and agrees with success; of most tools it says nothing of a failure."""
    assert disagreement(tool, text, failed=False)[:2] == (True, "")
    assert (disagreement(tool, text, failed=True)[1] == "") is (tool not in {"mypy", "ruff", "unittest"})


@pytest.mark.parametrize(("tool", "text"), BAD)
def test_failures_contradict_success(tool: str, text: str) -> None:
    """A summary that tells of failures contradicts an exit status of success, and says where."""
    found, wrong, spans = disagreement(tool, text, failed=False)

    assert found
    assert wrong
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert disagreement(tool, text, failed=True)[1] == ""
    assert disagreement(tool, text, failed=None)[1] == ""


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("jest", "Tests:       4 passed, 5 total\n"),
        ("vitest", "      Tests  2 passed (3)\n"),
        ("cargo test", "test result: ok. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out"),
        ("cargo test", "running 3 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"),
        ("node", "# tests 3\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 0\n# todo 0\n"),
        ("ruff", "Found 5 errors (2 fixed, 2 remaining).\n"),
        ("eslint", "\u2716 4 problems (1 error, 2 warnings)\n"),
        ("golangci-lint", "3 issues:\n* revive: 1\n* nilerr: 1\n"),
        ("task", "Tests:       4 passed, 5 total\n"),
    ],
)
def test_parts_that_do_not_add_up(tool: str, text: str) -> None:
    """A total that is not the sum of its parts is wrong whatever the status."""
    assert disagreement(tool, text, failed=None)[1]


_INFO = "=== short test summary info ===\n"
_FAILURES = (
    "failures:\n    a\n    b\n\ntest result: FAILED. 1 passed; {} failed; 0 ignored; 0 measured; 0 filtered out\n"
)
_HEADED = (
    "{line}\nFAIL: test_a (t.T)\n{line}\nERROR: test_b (t.T)\nRan 3 tests in 0.1s\n\nFAILED (failures={}, errors=1{})\n"
)

LISTED = [
    ("pytest", f"{_INFO}FAILED t.py::a - x\nERROR t.py::b\n1 failed, 1 error in 0.1s\n", True),
    ("pytest", f"{_INFO}FAILED t.py::a - x\nERROR t.py::b\n2 failed, 1 error in 0.1s\n", False),
    ("pytest", f"{_INFO}FAILED t.py::a - x\nERROR t.py::b\n1 failed, 2 errors in 0.1s\n", False),
    ("pytest", f"{_INFO}FAILED t.py::a - x\n!!! stopping !!!\n=== 2 failed in 0.1s ===\n", False),
    (
        "pytest",
        f"{_INFO}FAILED t.py::a - x\nSUBFAILED(i=1) t.py::T::b - y\n2 failed, 1 subtests passed in 0.1s\n",
        True,
    ),
    ("pytest", f"{_INFO}SKIPPED [1] t.py:3: no\n3 failed, 1 skipped in 0.1s\n", True),  # -rs: only those
    ("pytest", f"{_INFO}FAILED t.py::a - x\ny\nFAILED z.py::z\n1 failed in 0.1s\n", True),  # a message of two lines
    ("pytest", "FAILED t.py::a - x\n3 failed in 0.1s\n", True),  # cut
    ("pytest", "collected 2 items\n\n3 passed in 0.1s\n", False),
    ("pytest", "collected 3 items\n\n3 passed in 0.1s\n", True),
    ("cargo test", _FAILURES.format(2), True),
    ("cargo test", _FAILURES.format(3), False),
    ("unittest", _HEADED.format(1, "", line="=" * 70), True),
    ("unittest", _HEADED.format(1, ", expected failures=2", line="=" * 70), True),
    ("unittest", _HEADED.format(2, "", line="=" * 70), False),
    ("vitest", "\u23af\u23af Failed Tests 1 \u23af\u23af\n      Tests  1 failed | 1 passed (2)\n", True),
    ("vitest", "\u23af\u23af Failed Tests 2 \u23af\u23af\n      Tests  1 failed | 1 passed (2)\n", False),
    ("go test", "--- FAIL: TestA (0.00s)\nFAIL\texample.com/a\t0.3s\nok  \texample.com/b\t0.1s\nFAIL\n", True),
    ("go test", "ok  \texample.com/b\t0.1s\n--- FAIL: TestA (0.00s)\nok  \texample.com/a\t0.3s\n", False),
    ("mypy", "a.py:1: error: x  [x]\na.py:2:3: error: y\nFound 2 errors in 1 file (checked 2 source files)\n", True),
    ("mypy", "a.py:1: error: x  [x]\nb.py:2:3: error: y\nFound 2 errors in 1 file (checked 2 source files)\n", False),
    ("mypy", "a.py:1: error: x  [x]\nFound 2 errors in 1 file (checked 2 source files)\n", False),
    ("mypy", '{"file": "a.py"}\nFound 2 errors in 1 file (checked 2 source files)\n', True),
    ("ruff", "F401 [*] unused\n --> a.py:1:8\nFound 1 error.\n", True),
    ("ruff", "a.py:1:8: F401 [*] unused\na.py:2:1: E501 long\nFound 1 error.\n", False),
    ("ruff", "3\tF401\t[*] unused-import\nFound 3 errors.\n", True),
    ("tsc", "a.ts:1:7 - error TS2322: x\n\nFound 1 error in a.ts:1\n", True),
    ("tsc", "a.ts:1:7 - error TS2322: x\n\nFound 2 errors in the same file, starting at: a.ts:1\n", False),
    ("eslint", "  1:12  error    x  r\n  2:1   warning  y  r\n\n\u2716 2 problems (1 error, 1 warning)\n", True),
    ("eslint", "  1:12  error    x  r\n\n\u2716 2 problems (1 error, 1 warning)\n", False),
]


@pytest.mark.parametrize(("tool", "text", "right"), LISTED)
def test_as_many_are_listed_as_are_counted(tool: str, text: str, *, right: bool) -> None:
    """Where the whole output is seen, names and numbers go together; what may be left out is not missed."""
    assert (disagreement(tool, text, failed=True, whole=True)[1] == "") is right


@pytest.mark.parametrize(("tool", "text", "right"), LISTED)
def test_a_list_that_was_cut_is_not_counted(tool: str, text: str, *, right: bool) -> None:
    """Of a part of the output, only lists that are whole in themselves count."""
    if tool not in {"pytest", "cargo test"} or "collected" in text:
        right = True
    assert (disagreement(tool, text, failed=None)[1] == "") is right


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("make", "make: [Makefile:4: b] Error 1 (ignored)\nmake[1]: *** [Makefile:2: a] Error 1\n"),
        ("ruff", "Found 3 errors (3 fixed, 0 remaining).\n"),
        ("vitest", "      Tests  1 skipped | 1 passed (2)\n"),
        ("eslint", "\u2716 2 problems (0 errors, 2 warnings)\n"),
    ],
)
def test_what_is_open(tool: str, text: str) -> None:
    """Failures that were ignored or mended, and warnings, go with either status."""
    assert disagreement(tool, text, failed=False)[1] == ""
    assert disagreement(tool, text, failed=True)[1] == ""


def test_a_run_that_ends_early() -> None:
    """After the first failure some tests may not have run, and are no part of the sum."""
    assert disagreement("vitest", "      Tests  1 failed | 1 passed (5)\n", failed=True)[1] == ""
    assert disagreement("vitest", "      Tests  2 failed | 4 passed (5)\n", failed=True)[1] != ""


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("text", ["", "nothing to see\n", "1 2 3 " * 20_000, "=" * 50_000, "9 " * 30_000 + "passed in"])
def test_no_summary(tool: str, text: str) -> None:
    """Other text has none, however long it is."""
    assert disagreement(tool, text, failed=False) == (False, "", ())
