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
    ("golangci-lint", "2 issues:\n"),
]


@pytest.mark.parametrize(("tool", "text"), GOOD)
def test_success_agrees(tool: str, text: str) -> None:
    """A summary without failures is found, and agrees with success; it says nothing of a failure."""
    assert disagreement(tool, text, failed=False)[:2] == (True, "")
    assert disagreement(tool, text, failed=True)[:2] == (True, "")


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
    ],
)
def test_parts_that_do_not_add_up(tool: str, text: str) -> None:
    """A total that is not the sum of its parts is wrong whatever the status."""
    assert disagreement(tool, text, failed=None)[1]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("text", ["", "nothing to see\n", "1 2 3 " * 20_000, "=" * 50_000, "9 " * 30_000 + "passed in"])
def test_no_summary(tool: str, text: str) -> None:
    """Other text has none, however long it is."""
    assert disagreement(tool, text, failed=False) == (False, "", ())
