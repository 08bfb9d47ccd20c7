"""Takes off what says nothing: terminal colours, redraws, trailing blanks, prompts, a harness's own words.

A normaliser only ever *removes* characters, so that a place in what remains maps back to the place in the original:
`Text` is the original with the slices that are kept. Each takes time linear in the text, whatever the text is, and
taking it off twice takes off no more.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
import re2

from verifierd.contracts.tails import visible
from verifierd.types import Step

__all__ = ("HIDING", "NORMALISERS", "Cut", "Text", "both", "normalise")

Cut = tuple[int, int]
"""Start and end of what goes."""

_BLANKS = " \t\r"
_ANSI = re.compile(
    # One cut short goes as far as it came, so that no escape is left for its neighbours to complete. Sequences that
    # carry words (titles, links) stay: an agent reads them, so they must be able to contradict a prediction.
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]?"  # CSI: colours, cursor
    r"|\][0-9;?]{0,64}(?:\x07|\x1b\\)"  # OSC without words: a query of the terminal's colours
    r"|[()][0AB])?"  # character sets
)
_PROMPT = re.compile(r"[A-Za-z_][\w.-]{0,31}@[A-Za-z0-9][A-Za-z0-9.-]{0,63}:[~/][^\s$#%]{0,255} ?[$#%](?: |\Z)")
_LONGEST_PROMPT = 400
_NUMBERED = re.compile(r"[ \t]{0,12}(\d{1,9})(?:\u2192|\t)")
_ROOT = (
    rb"(?m)(?:^|[^\w./\\~-])"
    rb"(?:((?:/private)?/var/folders/[\w+]{1,4}/[\w+]{1,48})/[TC0]/|((?:/private)?/var|/private)/tmp/"
    rb"|((?:/(?:home|Users)/[\w.-]{1,64}|/root|[A-Za-z]:[\\/]Users[\\/][\w.-]{1,64}|/(?:mnt/)?[a-z]/Users/[\w.-]{1,64}"
    rb"|~)+)[/\\])"
)


class Text:
    """A text with some slices taken off.

    Args:
        original: The whole.
        kept: Start and end of each slice that remains, ascending and disjoint.
    """

    def __init__(self, original: str, kept: Sequence[tuple[int, int]] | None = None) -> None:
        self.original = original
        self.kept = [(0, len(original))] if kept is None else kept
        self.value = original if kept is None else "".join([original[start:end] for start, end in kept])
        self._starts: list[int] | None = None

    def without(self, cuts: Sequence[tuple[int, int]]) -> "Text":
        """This text without the slices of `value` given, ascending and disjoint."""
        if not cuts:
            return self
        if len(self.kept) == 1:  # nearly always, and fast
            first, last = self.kept[0]
            starts, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), last - first]
            pieces = zip(starts, ends, strict=True)
            return Text(self.original, [(first + start, first + end) for start, end in pieces if start < end])
        kept: list[tuple[int, int]] = []
        slices = iter(self.kept)
        first, last = next(slices, (0, 0))
        offset = first  # from places in `value` to places in the original, within this slice
        edges = [0, *(edge for cut in cuts for edge in cut), len(self.value)]
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            done = start
            while done < end:
                while offset + done >= last:
                    gone = last
                    first, last = next(slices)
                    offset += first - gone
                stop = min(offset + end, last)
                kept.append((offset + done, stop))
                done = stop - offset
        return Text(self.original, kept)

    def place(self, index: int) -> int:
        """Where in the original the character `index` of `value` stands; the end for one past the last."""
        if not self.kept:
            return 0
        if self._starts is None:
            self._starts = []
            total = 0
            for start, end in self.kept:
                self._starts.append(total)
                total += end - start
        which = bisect_right(self._starts, index) - 1
        start, end = self.kept[which]
        return min(start + index - self._starts[which], end)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """A slice of `value` as a slice of the original."""
        first = self.place(start)
        return (first, self.place(end - 1) + 1) if end > start else (first, first)


def normalise(text: str, step: Step, names: Sequence[str]) -> Text:
    """`text` without what the named normalisers take off, in their order.

    Raises:
        KeyError: A name is not in `NORMALISERS`.
    """
    result = Text(text)
    for name in names:
        result = result.without(NORMALISERS[name](result.value, step))
    return result


def both(expected: str, observed: str, step: Step, names: Sequence[str]) -> tuple[Text, Text, list[str]]:
    """Two texts without what the named normalisers take off, and the names of those that treated them differently.

    A prompt goes only where the other side has none: where both have one, it is part of what was predicted.
    """
    left, right = Text(expected), Text(observed)
    needed: list[str] = []
    for name in names:
        cuts = NORMALISERS[name](left.value, step), NORMALISERS[name](right.value, step)
        if not any(cuts) or (name == "prompts" and all(cuts)):
            continue
        if _removed(left.value, cuts[0]) != _removed(right.value, cuts[1]):
            needed.append(name)
        left, right = left.without(cuts[0]), right.without(cuts[1])
    return left, right, needed


def _removed(text: str, cuts: Sequence[Cut]) -> list[tuple[int, str]]:
    """What goes, and where in what remains it stood."""
    removed = []
    gone = 0
    for start, end in cuts:
        removed.append((start - gone, text[start:end]))
        gone += end - start
    return removed


def _ansi(text: str, _step: Step) -> list[Cut]:
    return [match.span() for match in _ANSI.finditer(text)] if "\x1b" in text else []


def _redraw(text: str, _step: Step) -> list[Cut]:
    """A line that a carriage return draws anew keeps only its last version."""
    if "\r" not in text:
        return []
    cuts = []
    start = 0
    for line in text.split("\n"):
        last = line.rstrip(_BLANKS).rfind("\r")
        if last >= 0:
            cuts.append((start, start + last + 1))
        start += len(line) + 1
    return cuts


def _trailing_blanks(text: str, _step: Step) -> list[Cut]:
    if not text.endswith(tuple(_BLANKS)) and not any(f"{blank}\n" in text for blank in _BLANKS):
        return []
    cuts = []
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        bare = start + len(line.rstrip(_BLANKS))
        if bare < end:
            cuts.append((bare, end))
        start = end + 1
    return cuts


def _blank_edges(text: str, _step: Step) -> list[Cut]:
    """Blank lines at both ends; the first line that says something keeps its indentation."""
    end = len(text.rstrip())
    start = min(end, text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1)
    return [(first, last) for first, last in ((0, start), (end, len(text))) if first < last]


def _echoed_command(text: str, step: Step) -> list[Cut]:
    """A terminal shows the command line again before its output; some logs keep that line (`$ ls`)."""
    command = (step.action.command or "").strip()
    if not command or "\n" in command:
        return []
    echo = f"$ {command}"
    end = 0
    while text.startswith(echo, end):
        stop = text.find("\n", end) + 1 or len(text)
        if text[end:stop].rstrip() != echo:
            break
        end = stop
    return [(0, end)] if end else []


def _prompts(text: str, step: Step) -> list[Cut]:
    """`user@host:path$ command` before the output, and such a prompt, waiting, after it."""
    if "@" not in text:
        return []
    command = (step.action.command or "").strip()
    end = 0
    while command and "\n" not in command and (match := _PROMPT.match(text, end)):
        stop = text.find("\n", end) + 1 or len(text)
        if text[match.end() : stop].strip() != command:
            break
        end = stop
    bare = len(text)
    while True:
        last = len(text[max(0, bare - _LONGEST_PROMPT) : bare].rstrip()) + max(0, bare - _LONGEST_PROMPT)
        start = text.rfind("\n", max(0, last - _LONGEST_PROMPT), last) + 1
        match = _PROMPT.match(text, start, last)
        if start < end or not match or match.end() < last or (start == 0 and last > _LONGEST_PROMPT):
            break
        bare = start
    return [cut for cut in ((0, end), (bare, len(text))) if cut[0] < cut[1]]


def _harness(text: str, step: Step) -> list[Cut]:
    """What the agent's harness put after the observation, or in place of an empty one."""
    end = len(visible(msgspec.structs.replace(step, observation=text)))
    return [(end, len(text))] if end < len(text) else []


def _line_numbers(text: str, step: Step) -> list[Cut]:
    """The numbers, one more each time, that a tool which shows files puts before lines; a shell's are its output."""
    if step.action.command is not None:
        return []
    cuts: list[Cut] = []
    start = number = 0
    for line in text.split("\n"):
        match = _NUMBERED.match(line)
        if match and (not cuts or int(match[1]) == number + 1):
            cuts.append((start, start + match.end()))
            number = int(match[1])
        elif match or line.strip():
            return []
        start += len(line) + 1
    return cuts


def _path_roots(text: str, _step: Step) -> list[Cut]:
    """Where somebody's home is, and what stands before the folder for temporary files; what stands there stays."""
    if "/" not in text and "\\" not in text:
        return []
    return [match.span(match.lastindex) for match in _root().finditer(text.encode("latin-1", "replace"))]


@cache
def _root() -> Any:
    """Faster than `re` by far, as most texts have no such path; over bytes, of which each character has one."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(_ROOT, options)


NORMALISERS: dict[str, Callable[[str, Step], list[Cut]]] = {
    "ansi": _ansi,
    "redraw": _redraw,
    "trailing-blanks": _trailing_blanks,
    "prompts": _prompts,
    "echoed-command": _echoed_command,
    "harness": _harness,
    "line-numbers": _line_numbers,
    "path-roots": _path_roots,
    "blank-edges": _blank_edges,
}
"""Each tells what it takes off a text: slices, ascending and disjoint."""

HIDING = frozenset({"redraw", "line-numbers", "path-roots"})
"""Those that take off text which an agent reads: for guesses, never for certainty."""
