"""What agents' harnesses append to an observation, which no environment said."""

import re

from verifierd.types import Step

__all__ = ("visible",)

_TAIL = re.compile(
    r"(?:\n?Shell cwd was reset to [^\n]*|\n?\[rerun: b\d+\]|\n?<system-reminder>.*?</system-reminder>)\s*\Z",
    re.DOTALL,
)
_EMPTY = frozenset({"(Bash completed with no output)", "Tool ran without output or errors"})


def visible(step: Step) -> str:
    """An observation without its harness's tails: a prefix of it, so that places stay."""
    text = step.observation
    while match := _TAIL.search(text):
        if step.action.command is None and not text[: match.start()].strip():
            break  # all that the tool says: the file is empty, or shorter than asked for
        text = text[: match.start()]
    return "" if text.strip() in _EMPTY else text
