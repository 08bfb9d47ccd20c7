"""Listings that say how long they are: the changed files of `git --stat`, the files that a search found.

A total that is not the sum of what is listed was changed, or a line was dropped.
"""

import re
from collections.abc import Callable, Mapping, Sequence

__all__ = ("LISTINGS",)

_STAT = re.compile(r" ?(\S.*?) +\| +(?:(\d{1,9})(?: (\+*)(-*))?|Bin(?: .*)?)")
_UNMERGED = re.compile(r" ?\S.* +\| +Unmerged")
"""In no total."""
_ENTRY = re.compile(r"[0-9a-f]{7,40} ")
_TOTAL = re.compile(r" ?(\d{1,9}) files? changed(?:, (\d{1,9}) insertions?\(\+\))?(?:, (\d{1,9}) deletions?\(-\))?")
_FOUND = re.compile(r"Found (\d{1,9}) files?")
_OCCURRENCES = re.compile(r"Found (\d{1,9}) total occurrences? across (\d{1,9}) files?\.")
_COUNTED = re.compile(r".+:(\d{1,9})|(\d{1,9})")
_CUT = re.compile(r"truncated|pagination|limit:|offset:")

_Listing = tuple[tuple[int, int], bool | None, str]
"""As of a summary: its characters, None for whether it tells of failures, and what is wrong with it."""


def _git_stat(text: str, *, whole: bool) -> list[_Listing]:
    """Each block of changed files, if nothing but git wrote the text and no filter dropped a line."""
    result: list[_Listing] = []
    block: list[re.Match[str]] = []
    at = start = 0
    for line in text.split("\n") if whole else ():
        bare = line.removesuffix("\r")
        if line[:1] != " " and (at or _ENTRY.match(line)):
            block = []  # a subject, or what git says; agents' harnesses trim only the first line of all
        elif (file := _STAT.fullmatch(bare)) is not None:
            start = start if block else at
            block.append(file)
        elif not _UNMERGED.fullmatch(bare):
            total = _TOTAL.fullmatch(bare)
            if total is not None and block:
                result.append(((start, at + len(bare)), None, _misadded(block, total)))
            block = []
        at += len(line) + 1
    return result


def _misadded(block: Sequence[re.Match[str]], total: re.Match[str]) -> str:
    """What is wrong with the total of a block; empty if nothing is."""
    files, added, deleted = (int(number or 0) for number in total.groups())
    if len(block) != files:
        return f"{len(block)} files are listed, not {files}"
    lines = [(int(file[2] or 0), len(file[3] or ""), len(file[4] or "")) for file in block]
    if sum(number for number, _, _ in lines) != added + deleted:
        return f"the changes add up to {sum(number for number, _, _ in lines)}, not to {added + deleted}"
    drawn = sum(plus for _, plus, _ in lines), sum(minus for _, _, minus in lines)
    if all(number == plus + minus for number, plus, minus in lines) and drawn != (added, deleted):
        return f"{drawn[0]} insertions and {drawn[1]} deletions are drawn"
    return ""


def _grep_tool(text: str, *, whole: bool) -> list[_Listing]:
    """The files that Claude Code's `Grep` lists or counts, if it shows all of them."""
    del whole  # a tool's result is its own
    lines = [line.removesuffix("\r") for line in text.strip("\n").split("\n")]
    if _CUT.search(lines[0]) or any(_CUT.search(line) for line in lines[-2:]):
        return []
    span = (0, len(text.rstrip()))
    if (found := _FOUND.fullmatch(lines[0])) is not None:
        count = sum(1 for line in lines[1:] if line.strip())
        return [(span, None, "" if count == int(found[1]) else f"{count} files are listed, not {found[1]}")]
    if (found := _OCCURRENCES.fullmatch(lines[-1])) is not None:
        counts = [int(match[1] or match[2]) for line in lines[:-1] if (match := _COUNTED.fullmatch(line)) is not None]
        if (sum(counts), len(counts)) != (int(found[1]), int(found[2])):
            return [(span, None, f"{sum(counts)} occurrences in {len(counts)} files are listed")]
        return [(span, None, "")]
    return []


LISTINGS: Mapping[str, Callable[..., list[_Listing]]] = {"git stat": _git_stat, "Grep": _grep_tool}
"""Whose listings can be read."""
