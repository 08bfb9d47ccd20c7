"""Benign changes: what might as well have come, and must not alarm."""

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from verifierd.replay.edits import Case, Edit, Kind, decoded, lines, reads, replaced, shuffled, whole
from verifierd.scoring.contracts import uncoloured
from verifierd.scoring.equality import unordered

__all__ = ("BENIGN",)

_TRIES = 30  # by chance what is drawn may be what stood there


def _white_space(case: Case, draw: random.Random) -> Iterator[Edit]:
    """Trailing blanks, the final newline, carriage returns; neither indentation nor blanks within a line."""
    text = case.text
    bare = text.rstrip("\r\n")
    ends = [bare if text != bare else f"{text}\n", f"{text}\n\n"]
    if bare:
        blanks = draw.choice((" ", "  ", "\t"))
        crlf = text.replace("\r\n", "\n").replace("\n", "\r\n")
        ends += [text.replace("\n", f"{blanks}\n"), crlf, f"{bare}{blanks}{text[len(bare) :]}"]
    for new in shuffled(ends, draw):
        yield whole(case, new)


_DIGIT = re.compile(r"[0-9]")
_STYLES = [(indent, commas) for indent in (None, 2, 4, "\t", 1) for commas in ((", ", ": "), (",", ":"), (",", ": "))]
_SERVICES = re.compile(r"(?:^|[;&|(]\s{0,4})(?:gh|curl|kubectl|aws|gcloud|az|docker|http)\s")


def _key_order(case: Case, draw: random.Random) -> Iterator[Edit]:
    """The keys of JSON objects come in another order, in the same layout; not in a file's content."""
    command = case.step.action.command
    if reads(case.step) or (command is not None and not _SERVICES.search(command)):
        return
    text = case.text.strip()
    value = decoded(text)
    if value is None:
        return
    start = case.text.index(text)
    for indent, separators in _STYLES:
        for plain in (False, True):

            def dump(
                value: object, *, indent: int | str | None = indent, separators: Any = separators, plain: bool = plain
            ) -> str:
                return json.dumps(value, indent=indent, separators=separators, ensure_ascii=plain)

            if dump(value) == text:
                yield Edit(start, start + len(text), dump(_reordered(value, draw)))
                return


def _reordered(value: Any, draw: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        turn = draw.randrange(1, len(keys)) if len(keys) > 1 else 0
        return {key: _reordered(value[key], draw) for key in keys[turn:] + keys[:turn]}
    return [_reordered(item, draw) for item in value] if isinstance(value, list) else value


_CLOCK = re.compile(
    r"(?:(?<=\dT)|(?<![\w:.+-]))(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?![\d:])"
    r"|(?<=[A-Z][a-z]{2} [ \d]\d )(?:[01]\d|2[0-3]):[0-5]\d(?![\w:])"  # a listing's
)


def _timestamps(case: Case, draw: random.Random) -> Iterator[Edit]:
    """All times of day are later by the same, within their day; none if the history fixes one of them."""
    if _copied(case):
        return
    found = case.passing("time-", "clock")
    every = [match.span() for match in _CLOCK.finditer(case.text)]
    inside = [any(start <= first and last <= end for start, end in found) for first, last in every]
    if not every or not all(inside):
        return
    for minutes in shuffled(range(1, 60), draw):
        later = {case.text[start:end]: _later(case.text[start:end], minutes) for start, end in every}
        if all(later.values()):
            yield whole(case, replaced(case.text, every, later.__getitem__))


def _later(clock: str, minutes: int) -> str:
    """A time of day so much later; empty if it is of the next day."""
    hour, minute = divmod(int(clock[:2]) * 60 + int(clock[3:5]) + minutes, 60)
    return f"{hour:02}:{minute:02}{clock[5:]}" if hour < 24 else ""


def _redrawn_values(case: Case, draw: random.Random, *rules: str) -> Iterator[Edit]:
    """Every value that some rules find is another one of its form, the same wherever it stands."""
    spans = [] if _copied(case) else case.passing(*rules)
    values = sorted({case.text[start:end] for start, end in spans})
    for _ in range(_TRIES if values else 0):
        new = {old: _redrawn(old, draw) for old in values}
        yield whole(case, replaced(case.text, spans, new.__getitem__))


def _redrawn(value: str, draw: random.Random) -> str:
    """Each letter is another one of its sort; a number does not begin with 0."""
    sorts = ("123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    letters = []
    for letter in value:
        sort = next((sort for sort in sorts if letter in sort or (letter == "0" and sort[0] == "1")), letter)
        letters.append(draw.choice(sort))
    return "".join(letters)


def _copied(case: Case) -> bool:
    """Does the observation repeat text that stands still, a file's or the command's own?"""
    command = case.step.action.command
    return reads(case.step) or (
        command is not None and re.search(r"\b(?:echo|printf|cat|sed|grep|rg)\b", command) is not None
    )


def _pids(case: Case, draw: random.Random) -> Iterator[Edit]:
    """Process numbers are others."""
    return _redrawn_values(case, draw, "pid", "job", "killed", "ps-", "goroutine", "sanitizer")


def _temp_names(case: Case, draw: random.Random) -> Iterator[Edit]:
    """The random part of temporary names is another one."""
    return _redrawn_values(case, draw, "temp-", "build-folder")


def _durations(case: Case, draw: random.Random) -> Iterator[Edit]:
    """What took some time took another; units stay."""
    spans = [] if _copied(case) else case.passing("duration")
    for _ in range(_TRIES if spans else 0):
        yield whole(case, replaced(case.text, spans, lambda old: _DIGIT.sub(lambda _: draw.choice("123456789"), old)))


def _colours(case: Case, draw: random.Random) -> Iterator[Edit]:
    """A line is coloured; or all colours are gone."""
    if "\x1b[" in case.text and (plain := uncoloured(case.step).value):
        yield whole(case, plain)
    inked = [place for place in lines(case.text) if case.text[slice(*place)].strip()]
    for start, end in shuffled(inked, draw):
        line = case.text[start:end].rstrip()
        yield Edit(start, start + len(line), f"\x1b[{draw.randrange(31, 37)}m{line}\x1b[0m")


def _listing_order(case: Case, draw: random.Random) -> Iterator[Edit]:
    """What a program lists as it reads folders comes in another order; a folder and a file's lines stay together."""
    kind = unordered(case.step)
    listed = case.text.rstrip("\n").split("\n")
    if kind is None or case.step.succeeded is False or len(listed) < 2 or not all(listed):
        return
    groups: dict[str, list[str]] = {}
    for line in listed:
        groups.setdefault(line.partition(":")[0] if kind == "files" else line, []).append(line)
    for _ in range(_TRIES):
        paths = _read_again(list(groups), draw)
        yield Edit(0, len("\n".join(listed)), "\n".join(line for path in paths for line in groups[path]))


def _read_again(paths: Sequence[str], draw: random.Random) -> list[str]:
    """Paths in the order of another walk through their folders."""
    places: dict[str, float] = {}

    def place(path: str) -> tuple[float, ...]:
        names = path.rstrip("/").split("/")
        return tuple(places.setdefault("/".join(names[: n + 1]), draw.random()) for n in range(len(names)))

    return sorted(paths, key=place)


BENIGN: Mapping[str, Kind] = {
    "white_space": _white_space,
    "key_order": _key_order,
    "timestamps": _timestamps,
    "pids": _pids,
    "temp_names": _temp_names,
    "durations": _durations,
    "colours": _colours,
    "listing_order": _listing_order,
}
"""What must not alarm: by name, in the order in which it is reported."""
