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
        text = text[: match.start()]
    return "" if text.strip() in _EMPTY else text
