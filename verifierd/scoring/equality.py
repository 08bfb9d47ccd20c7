"""Texts that say the same though no slice of them can be taken off: another order, another value of the same form.

Each comparison is for what `normalise` leaves of two texts, and takes time linear in them. None makes a difference
vanish that could mean something where the prediction was certain, except those in `LOOSE`, which serve guesses only.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec
import numpy as np

from verifierd.commandline.reading import Command, Unread, read
from verifierd.scoring.classes import masked
from verifierd.types import History, Step

__all__ = ("EQUALITIES", "LOOSE", "MARK", "equal", "unordered")

_LONGEST = 2_000_000
_LONGEST_COMMAND = 4_000
MARK = re.compile(
    r"\.\.\. \[\d{1,12} (?:characters|lines|chars) truncated\] \.\.\."
    r"|\[\.\.\. omitted \d{1,12} of \d{1,12} lines \.\.\.\]"
    r"|\[\.\.\. Observation truncated due to length \.\.\.\]|<response clipped>(?:<NOTE>[^<]{0,400}</NOTE>)?"
    r"|\u2026\d{1,12} (?:chars|tokens|lines|characters) truncated\u2026|\.{3} ?\(?output truncated\)?"
)
"""What harnesses write where they took something out."""

_DECODER = msgspec.json.Decoder(float_hook=lambda text: f"\0{text}")  # as it is written: 1.0 is not 1.00
_SILENT = frozenset({"cd", "export", "mkdir", "set", "true", ":"})
_PASSING = {"grep": "nmABC", "cut": "", "cat": "nbsAETv"}
"""Programs that pass lines on one by one, and their options that do not."""


def equal(
    expected: str, observed: str, step: Step, history: History | Sequence[Step], names: Sequence[str]
) -> tuple[list[str], int] | None:
    """Do two texts say the same by the named comparisons?

    Args:
        expected: What was predicted, normalised.
        observed: What came, normalised.
        step: Whom it answers.
        history: The steps before it.
        names: Names in `EQUALITIES`.

    Returns:
        The names of the comparisons that were needed, and how many characters of what came are known by their form
        only; None if the texts differ.
    """
    if expected == observed:
        return [], 0
    if max(len(expected), len(observed)) > _LONGEST:
        return None
    others = [name for name in names if name != "runtime"]
    if (found := _first(others, expected, observed, step)) is not None:
        return [found], 0
    if "runtime" not in names:
        return None
    return _by_form(others, expected, observed, step, history)


def _by_form(
    names: Sequence[str], expected: str, observed: str, step: Step, history: Sequence[Step]
) -> tuple[list[str], int] | None:
    # Names of forms stand in for what only a run can tell.
    one, (two, formal) = masked(expected, step, history)[0], masked(observed, step, history)
    if one == two:
        return ["runtime"], formal
    if (one, two) != (expected, observed) and (found := _first(names, one, two, step)) is not None:
        return ["runtime", found], formal
    return None


def _first(names: Sequence[str], expected: str, observed: str, step: Step) -> str | None:
    return next((name for name in names if EQUALITIES[name](expected, observed, step)), None)


def _json_order(expected: str, observed: str, _step: Step) -> bool:
    """JSON with its keys, or the white space between its parts, in another order; also line by line.

    Both must have the same characters otherwise, so that no number or string may be spelled in another way.
    """
    bare = observed.lstrip()[:1]
    if bare not in ("{", "[") or expected.lstrip()[:1] != bare or not _same_characters(expected, observed):
        return False
    if (one := _sorted(expected)) is not None:
        return one == _sorted(observed)
    left, right = expected.split("\n"), observed.split("\n")
    return len(left) == len(right) and all(
        one == two or ((value := _sorted(one)) is not None and value == _sorted(two))
        for one, two in zip(left, right, strict=True)
    )


def _sorted(text: str) -> bytes | None:
    """A JSON object or list with its keys in order; None for all else."""
    try:
        value = _DECODER.decode(text.strip())
        return msgspec.json.encode(value, order="sorted") if isinstance(value, dict | list) else None
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _same_characters(one: str, two: str) -> bool:
    """Do they have the same characters, each as often, white space aside?"""
    counts = [
        np.bincount(np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8), minlength=256)
        for text in (one, two)
    ]
    for blank in b" \t\r\n":
        counts[0][blank] = counts[1][blank] = 0
    return bool((counts[0] == counts[1]).all())


def _unordered_lines(expected: str, observed: str, step: Step) -> bool:
    """The same lines in another order, where the command lists in the order in which a folder is read."""
    kind = unordered(step)
    if kind is None:
        return False
    left, right = expected.split("\n"), observed.split("\n")
    if Counter(left) != Counter(right):
        return False
    return kind == "lines" or _by_file(left) == _by_file(right)


def _by_file(lines: Sequence[str]) -> dict[str, list[str]]:
    """The lines of each file, which keep their order: what stands before the first colon names it."""
    files: dict[str, list[str]] = {}
    for line in lines:
        files.setdefault(line.partition(":")[0], []).append(line)
    return files


def unordered(step: Step) -> Literal["lines", "files"] | None:
    """Does an action list in no order of its own? `files` if the lines of each file keep theirs.

    Decided by the command: it must be the only one that prints, and what it pipes into must pass lines on one by one.
    """
    command = step.action.command
    return None if command is None or len(command) > _LONGEST_COMMAND else _unordered(command)


@lru_cache(maxsize=1024)
def _unordered(command: str) -> Literal["lines", "files"] | None:
    if not any(name in command for name in _LISTERS):
        return None
    try:
        script = read(command)
    except (Unread, RecursionError):
        return None
    if not script.pipelines or script.functions:
        return None
    *before, last = script.pipelines
    first, *rest = last.stages
    if not all(_is_silent(pipeline.stages) for pipeline in before):
        return None
    if not isinstance(first, Command) or first.captured:
        return None
    lister = _LISTERS.get(_name(first))
    kind = lister(_words(first)) if lister is not None else None
    passed = all(isinstance(stage, Command) and _passes(stage) for stage in rest)
    return kind if passed and not any(redirect.fd == 1 for redirect in first.redirects) else None


def _is_silent(stages: Sequence[Any]) -> bool:
    return len(stages) == 1 and isinstance(stages[0], Command) and (_name(stages[0]) or "set") in _SILENT


def _passes(command: Command) -> bool:
    forbidden = _PASSING.get(_name(command))
    words = _words(command)
    return forbidden is not None and not any(
        word.startswith("--") or (word.startswith("-") and set(word) & set(forbidden)) for word in words
    )


def _name(command: Command) -> str:
    return (command.name.text or "?") if command.name is not None else ""


def _words(command: Command) -> list[str]:
    return [word.text if word.text is not None else word.head for word in command.args]


def _has(words: Sequence[str], letters: str, *long: str) -> bool:
    """Is one of the options given, as a letter in a bundle or in full?"""
    short = any(re.fullmatch(r"-[A-Za-z0-9]+", word) and set(word) & set(letters) for word in words)
    return short or any(word.partition("=")[0] in long for word in words)


def _find(words: Sequence[str]) -> Literal["lines", "files"] | None:
    acting = {"-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fls", "-print0"}
    return None if acting & set(words) else "lines"


def _ls(words: Sequence[str]) -> Literal["lines", "files"] | None:
    if _has(words, "RCxm", "--recursive", "--format"):
        return None
    return "lines" if _has(words, "Uf") or "--sort=none" in words else None


def _grep(words: Sequence[str]) -> Literal["lines", "files"] | None:
    context = _has(words, "ABCzm", "--context", "--after-context", "--before-context", "--null", "--null-data")
    if context or not _has(words, "rR", "--recursive", "--dereference-recursive"):
        return None
    names = _has(words, "lLch", "--files-with-matches", "--files-without-match", "--count", "--no-filename")
    return "lines" if names else "files"


def _rg(words: Sequence[str]) -> Literal["lines", "files"] | None:
    sorts = any(word.startswith(("--sort", "--json", "--heading", "-p", "--pretty")) for word in words)
    context = _has(words, "ABCm0", "--context", "--after-context", "--before-context", "--null", "--threads", "-j1")
    return None if sorts or context else "files"


def _du(words: Sequence[str]) -> Literal["lines", "files"] | None:
    return None if _has(words, "0", "--null") else "lines"


def _env(words: Sequence[str]) -> Literal["lines", "files"] | None:
    return None if words else "lines"


_LISTERS: dict[str, Callable[[Sequence[str]], Literal["lines", "files"] | None]] = {
    "find": _find,
    "ls": _ls,
    "grep": _grep,
    "egrep": _grep,
    "fgrep": _grep,
    "rg": _rg,
    "fd": _du,
    "du": _du,
    "env": _env,
    "printenv": _env,
}


def _truncation(expected: str, observed: str, _step: Step) -> bool:
    """What a harness left of a long observation stands in what was predicted, at its beginning and its end."""
    if "truncated" not in observed and "omitted" not in observed and "clipped" not in observed:
        return False
    first, *rest = MARK.split(observed)
    if not rest or not (first.strip() or rest[-1].strip()) or MARK.search(expected):
        return False
    if not expected.startswith(first.rstrip("\n")):
        return False
    at = len(first.rstrip("\n"))
    for piece in rest[:-1]:
        found = expected.find(piece.strip("\n"), at)
        if found < 0:
            return False
        at = found + len(piece.strip("\n"))
    whole, last = expected.rstrip("\n"), rest[-1].strip("\n")
    return whole.endswith(last) and len(whole) - len(last) >= at


def _runtime(expected: str, observed: str, step: Step) -> bool:
    return masked(expected, step)[0] == masked(observed, step)[0]


EQUALITIES: dict[str, Callable[[str, str, Step], bool]] = {
    "truncation": _truncation,
    "json-order": _json_order,
    "unordered-lines": _unordered_lines,
    "runtime": _runtime,
}

LOOSE = frozenset({"truncation", "runtime"})
"""Those that forgive what a certain prediction would contradict."""
