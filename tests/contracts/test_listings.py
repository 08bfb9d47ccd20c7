"""Listings that say how long they are."""

import pytest

from verifierd.contracts.listings import LISTINGS

STAT = (
    " src/a.py | 3 ++-\n x.bin    | Bin 0 -> 9 bytes\n b        | 0\n 3 files changed, 2 insertions(+), 1 deletion(-)\n"
)


def _wrong(tool: str, text: str, *, whole: bool = True) -> list[str]:
    return [wrong for _, _, wrong in LISTINGS[tool](text, whole=whole)]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        (STAT, 1),
        (STAT.strip(), 1),
        (f"commit 1\n\n    x | 3\n\n{STAT}\ncommit 2\n\n{STAT}", 2),
        (" a | 900 ++++--\n b |   2 +-\n 2 files changed, 601 insertions(+), 301 deletions(-)\n", 1),
        (" a => b | 0\n 1 file changed, 0 insertions(+), 0 deletions(-)\n rename a => b (100%)\n", 1),
        (" a | Unmerged\n b | 2 +-\n c | Unmerged\n 1 file changed, 1 insertion(+), 1 deletion(-)\n", 1),
        (" a | Bin\n 1 file changed, 0 insertions(+), 0 deletions(-)\n", 1),
        (f"1a2b3c4 Align | 3\n{STAT}1a2b3c5 And | 3\n{STAT}", 2),
        ("[main 1a2b3c4] x\n 3 files changed, 2 insertions(+)\n", 0),
        ("", 0),
    ],
)
def test_a_total_of_git_is_the_sum_of_its_lines(text: str, blocks: int) -> None:
    """Scaled bars say nothing of the numbers; a total without a list says nothing at all."""
    assert _wrong("git stat", text) == [""] * blocks


@pytest.mark.parametrize(
    "text",
    [
        STAT.replace(" b        | 0\n", ""),
        STAT.replace("3 ++-", "4 ++-"),
        STAT.replace("++-", "+--"),
        STAT.replace("3 files", "4 files"),
        STAT.replace("2 insertions(+), 1 deletion(-)", "3 insertions(+)"),
    ],
)
def test_a_total_of_git_betrays_a_change(text: str) -> None:
    """A line dropped, a number changed, a bar redrawn; nothing is said where a filter may have dropped lines."""
    assert any(_wrong("git stat", text))
    assert _wrong("git stat", text, whole=False) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Found 2 files\na.py\nb.py", [""]),
        ("Found 2 files\na.py", ["1 files are listed, not 2"]),
        ("Found 1 file\na.py\nb.py\n", ["2 files are listed, not 1"]),
        ("Found 2 files limit: 2\na.py\nb.py", []),
        ("Found 200 files\na.py\n(Results are truncated. Consider using a more specific path or pattern.)", []),
        ("a.py:3\nb.py:1\n\nFound 4 total occurrences across 2 files.", [""]),
        ("a.py:3\nb.py:2\n\nFound 4 total occurrences across 2 files.", ["5 occurrences in 2 files are listed"]),
        ("a.py:3\n\nFound 4 total occurrences across 2 files. with pagination = limit: 1", []),
        ("No files found", []),
    ],
)
def test_a_search_counts_what_it_lists(text: str, wrong: list[str]) -> None:
    """Unless it says that it shows only some of it."""
    assert _wrong("Grep", text) == wrong
