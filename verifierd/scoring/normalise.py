"""Takes off what says nothing: terminal colours, redraws, trailing blanks, the echoed command line.

A normaliser only ever *removes* characters, so that a place in what remains maps back to the place in the original:
`Text` is the original with the slices that are kept. Each takes time linear in the text, whatever the text is, and
taking it off twice takes off no more.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence

from verifierd.types import Step

__all__ = ("HIDING", "NORMALISERS", "Text", "normalise")

_BLANKS = " \t\r"
_ANSI = re.compile(
    # One cut short goes as far as it came, so that no escape is left for its neighbours to complete. Sequences that
    # carry words (titles, links) stay: an agent reads them, so they must be able to contradict a prediction.
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]?"  # CSI: colours, cursor
    r"|\][0-9;?]{0,64}(?:\x07|\x1b\\)"  # OSC without words: a query of the terminal's colours
    r"|[()][0AB])?"  # character sets
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
        result = NORMALISERS[name](result, step)
    return result


def _ansi(text: Text, _step: Step) -> Text:
    if "\x1b" not in text.value:
        return text
    return text.without([match.span() for match in _ANSI.finditer(text.value)])


def _redraw(text: Text, _step: Step) -> Text:
    """A line that a carriage return draws anew keeps only its last version."""
    if "\r" not in text.value:
        return text
    cuts = []
    start = 0
    for line in text.value.split("\n"):
        last = line.rstrip(_BLANKS).rfind("\r")
        if last >= 0:
            cuts.append((start, start + last + 1))
        start += len(line) + 1
    return text.without(cuts)


def _trailing_blanks(text: Text, _step: Step) -> Text:
    value = text.value
    if not value.endswith(tuple(_BLANKS)) and not any(f"{blank}\n" in value for blank in _BLANKS):
        return text
    cuts = []
    start = 0
    for line in value.split("\n"):
        end = start + len(line)
        bare = start + len(line.rstrip(_BLANKS))
        if bare < end:
            cuts.append((bare, end))
        start = end + 1
    return text.without(cuts)


def _blank_edges(text: Text, _step: Step) -> Text:
    """Blank lines before the first visible character, all white space after the last; indentation stays."""
    value = text.value
    end = len(value.rstrip())
    start = min(end, value.rfind("\n", 0, len(value) - len(value.lstrip())) + 1)
    return text.without([(first, last) for first, last in ((0, start), (end, len(value))) if first < last])


def _echoed_command(text: Text, step: Step) -> Text:
    """A terminal shows the command line again before its output; some logs keep that line (`$ ls`)."""
    command = (step.action.command or "").strip()
    if not command or "\n" in command:
        return text
    echo = f"$ {command}"
    value = text.value
    end = 0
    while value.startswith(echo, end):
        stop = value.find("\n", end) + 1 or len(value)
        if value[end:stop].rstrip() != echo:
            break
        end = stop
    return text.without([(0, end)] if end else [])


NORMALISERS: dict[str, Callable[[Text, Step], Text]] = {
    "ansi": _ansi,
    "redraw": _redraw,
    "trailing-blanks": _trailing_blanks,
    "blank-edges": _blank_edges,
    "echoed-command": _echoed_command,
}

HIDING = frozenset({"redraw"})
"""Those that take off text which an agent reads though a person does not see it: for guesses, never for certainty."""
