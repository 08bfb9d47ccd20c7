"""Takes off what says nothing: terminal colours, redraws, trailing blanks, the echoed command line.

A normaliser only ever *removes* characters, so that a place in what remains maps back to the place in the original:
`Text` is the original with the slices that are kept.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence

from verifierd.types import Step

__all__ = ("NORMALISERS", "Text", "normalise")

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor
    r"|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|[PX^_][^\x1b]{0,4096}\x1b\\"  # DCS, SOS, PM, APC
    r"|[ -/]{0,8}[0-~])"
)
_TRAILING = re.compile(r"[ \t\r]+(?=\n)|[ \t\r]+\Z")
_LEADING_LINES = re.compile(r"\A(?:[ \t\r]*\n)+")
_FINAL_LINES = re.compile(r"\s+\Z")


class Text:
    """A text with some slices taken off.

    Args:
        original: The whole.
        kept: Start and end of each slice that remains, ascending and disjoint.
    """

    def __init__(self, original: str, kept: Sequence[tuple[int, int]] | None = None) -> None:
        self.original = original
        self.kept = [(0, len(original))] if kept is None else [(start, end) for start, end in kept if end > start]
        self.value = original if kept is None else "".join(original[start:end] for start, end in self.kept)
        self._starts: list[int] | None = None

    def without(self, cuts: Sequence[tuple[int, int]]) -> "Text":
        """This text without the slices of `value` given, ascending and disjoint."""
        if not cuts:
            return self
        kept: list[tuple[int, int]] = []
        place = 0  # in value
        queue = [*cuts, (len(self.value), len(self.value))]
        index = 0
        for start, end in self.kept:
            length = end - start
            done = 0
            while done < length:
                cut_start, cut_end = queue[index]
                if cut_end <= place + done and index < len(queue) - 1:
                    index += 1
                    continue
                if cut_start > place + done:
                    stop = min(length, cut_start - place)
                    kept.append((start + done, start + stop))
                    done = stop
                else:
                    done = min(length, cut_end - place) if cut_end > place + done else length
            place += length
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


def _cut(pattern: re.Pattern[str]) -> Callable[[Text, Step], Text]:
    def apply(text: Text, _step: Step) -> Text:
        return text.without([match.span() for match in pattern.finditer(text.value)])

    return apply


def _ansi(text: Text, _step: Step) -> Text:
    if "\x1b" not in text.value:
        return text
    return text.without([match.span() for match in _ANSI.finditer(text.value)])


def _redraw(text: Text, _step: Step) -> Text:
    """A line that a carriage return draws anew shows only its last version."""
    if "\r" not in text.value:
        return text
    cuts = []
    start = 0
    for line in text.value.split("\n"):
        last = line.rstrip("\r").rfind("\r")
        if last >= 0:
            cuts.append((start, start + last + 1))
        start += len(line) + 1
    return text.without(cuts)


def _blank_edges(text: Text, _step: Step) -> Text:
    cuts = []
    if leading := _LEADING_LINES.match(text.value):
        cuts.append(leading.span())
    trailing = len(text.value.rstrip())
    if trailing < len(text.value):
        cuts = [(0, len(text.value))] if trailing == 0 else [*cuts, (trailing, len(text.value))]
    return text.without(cuts)


def _echoed_command(text: Text, step: Step) -> Text:
    """A terminal shows the command line again before its output; some logs keep that line (`$ ls`)."""
    command = step.action.command
    if not command or "\n" in command:
        return text
    line, newline, _ = text.value.partition("\n")
    bare = line.rstrip()
    if bare == f"$ {command.strip()}" or (bare.endswith(f"$ {command.strip()}") and "@" in bare.split("$")[0]):
        return text.without([(0, len(line) + len(newline))])
    return text


NORMALISERS: dict[str, Callable[[Text, Step], Text]] = {
    "ansi": _ansi,
    "redraw": _redraw,
    "trailing-blanks": _cut(_TRAILING),
    "blank-edges": _blank_edges,
    "echoed-command": _echoed_command,
}
