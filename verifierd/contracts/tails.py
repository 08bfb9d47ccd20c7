"""What agents' harnesses append to an observation or take out of it, which no environment said."""

import re

from verifierd.types import Step

__all__ = ("LONGEST", "cut", "visible")

LONGEST = 500_000
"""Of a longer observation nothing is judged but the exit status, and nothing is learned."""

_LINE = re.compile(
    r"Shell cwd was reset to .{1,4096}|\[rerun: b\d{1,9}\]"
    # OpenHands and SWE-agent
    r"|\[The command completed with exit code -?\d{1,9}\.\]|\[Command finished with exit code -?\d{1,9}\]"
    r"|\[Python [Ii]nterpreter: .{1,4096}\]|\[Current working directory: .{1,4096}\]"
    r"|\(Open file: .{1,4096}\)|\(Current directory: .{1,4096}\)|bash-\$"
)
_RERUN = re.compile(r"\[rerun: b\d{1,9}\]\Z")
_LONGEST_TAIL = 4_200
_CHUNK = 4_096
_MOST = 500
_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"
_OUTSIDE = ("WebFetch", "WebSearch", "mcp__")
_EMPTY = re.compile(
    r"\(\w{1,40} completed with no output\)|\(no (?:content|output)\)|Tool ran without output(?: or errors)?"
    r"|Your command ran successfully and did not produce any output\."
)
_CUTS = re.compile(
    r"^(?:\.\.\. \[\d{1,12} (?:characters|lines) truncated\] \.\.\."
    r"|\[\.\.\. omitted \d{1,12} of \d{1,12} lines \.\.\.\]"
    r"|\[\.\.\. Observation truncated due to length \.\.\.\]|<response clipped>|<persisted-output>"
    r"|\.{3} ?\(?output truncated\)?)",
    re.MULTILINE,
)
_CUT_WORDS = ("truncated", "omitted", "<response clipped>", "<persisted-output>")
"""One of these stands in every such mark."""


def visible(step: Step) -> str:
    """An observation without its harness's tails: a prefix of it, so that places stay.

    Each tail is looked for from the end, nothing is read twice, and no more are taken off than a harness ever appends.
    """
    text = step.observation
    end = len(text)
    if end > LONGEST:
        return text
    for _ in range(_MOST):
        shorter = _shorter(text, end, step)
        if shorter is None:
            break
        if step.action.command is None and not text[:shorter].strip():
            break  # all that the tool says: the file is empty, or shorter than asked for
        end = shorter
    rest = text[:end] if end < len(text) else text
    return "" if len(rest) < 200 and _EMPTY.fullmatch(rest.strip()) else rest


def cut(step: Step) -> bool:
    """Was something taken out of an observation, so that it cannot be judged?"""
    if step.elided is not None:
        return True
    return any(word in step.observation for word in _CUT_WORDS) and _CUTS.search(step.observation) is not None


def _stripped(text: str, end: int) -> int:
    """Where a text ends without the blanks before a place; what is not blank is not copied."""
    while end:
        chunk = text[max(0, end - _CHUNK) : end]
        kept = len(chunk.rstrip())
        if kept:
            return end - len(chunk) + kept
        end -= len(chunk)
    return 0


def _shorter(text: str, end: int, step: Step) -> int | None:
    """Where the text ends without the last of its tails; None if it has none."""
    last = _stripped(text, end)
    start = text.rfind("\n", max(0, last - _LONGEST_TAIL), last) + 1
    if step.action.command is not None:
        if start < last <= start + _LONGEST_TAIL and _LINE.fullmatch(text, start, last):
            return max(0, start - 1)
        match = _RERUN.search(text, max(start, last - 20), last)  # it also follows the last line directly
        return match.start() if match else None
    if step.tool.startswith(_OUTSIDE) or not text.endswith(_REMINDER_END, 0, last):
        return None  # what a page says in the harness's name is the page's
    at = text.rfind(_REMINDER, 0, last)
    return at - 1 if at > 0 and text[at - 1] == "\n" else 0 if at == 0 else None
