"""Benign changes: what might as well have come, and must not alarm."""

import json
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

from verifierd.replay.edits import Case, Edit, Kind, decoded, lines, reads, shuffled, whole
from verifierd.replay.spans import PIDS, TEMPORARY, shifted, timestamps
from verifierd.scoring.contracts import uncoloured

__all__ = ("BENIGN",)


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


def _timestamps(case: Case, draw: random.Random) -> Iterator[Edit]:
    """All times are later by the same; none if the history fixes one of them."""
    found = timestamps(case.text)
    if not found or _copied(case) or any(case.knows(case.text[slice(*span)]) for span in found):
        return
    new = shifted(case.text, draw.randrange(1, 60))
    if new is not None:
        yield whole(case, new)


def _renamed(case: Case, draw: random.Random, pattern: re.Pattern[str]) -> Iterator[Edit]:
    """Every value that a pattern's group finds is another one of its length, the same wherever it stands."""
    if _copied(case):
        return
    values = {match["value"] for match in pattern.finditer(case.text)}
    fresh = sorted(value for value in values if not case.knows(value))
    if not fresh:
        return
    new = {value: _redrawn(value, draw) for value in fresh}
    yield whole(case, re.sub("|".join(map(re.escape, fresh)), lambda match: new[match.group()], case.text))


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
    return _renamed(case, draw, PIDS)


def _temp_names(case: Case, draw: random.Random) -> Iterator[Edit]:
    """The random part of temporary names is another one."""
    return _renamed(case, draw, TEMPORARY)


def _colours(case: Case, draw: random.Random) -> Iterator[Edit]:
    """A line is coloured; or all colours are gone."""
    if "\x1b[" in case.text and (plain := uncoloured(case.step).value):
        yield whole(case, plain)
    inked = [place for place in lines(case.text) if case.text[slice(*place)].strip()]
    for start, end in shuffled(inked, draw):
        line = case.text[start:end].rstrip()
        yield Edit(start, start + len(line), f"\x1b[{draw.randrange(31, 37)}m{line}\x1b[0m")


_LISTING = re.compile(
    r"(?:cd [^;&|\n]{1,400}&& ?)?(?P<name>find|grep|rg|ls)\s(?P<rest>[^;&|\n<>$`]{0,1000})(?: ?2>/dev/null)?"
)


def _listing_order(case: Case, draw: random.Random) -> Iterator[Edit]:
    """What a program lists in the order in which it reads a directory comes in another; a folder stays in one piece."""
    match = _LISTING.fullmatch((case.step.action.command or "").strip())
    if match is None or case.step.succeeded is False:
        return
    words = match["rest"].split()
    options = [word for word in words if word.startswith("-")]
    letters = {letter for word in options if not word.startswith("--") for letter in word[1:]}
    name = match["name"]
    if name == "find":
        starts = 0
        while starts < len(words) and not words[starts].startswith(("-", "(", "!", "\\")):
            starts += 1
        wrong = starts > 1 or any(
            word.startswith(("-exec", "-ok", "-print0", "-printf", "-ls", "-depth")) for word in options
        )
    elif name == "ls":
        wrong = "U" not in letters or bool(letters - set("U1aA"))
    else:
        paths = len(words) - len(options)
        wrong = (
            (name == "grep" and not letters & {"r", "R"} and "--recursive" not in options)
            or bool(letters & set("hABCzZ0e"))
            or any(
                word.startswith(("--sort", "--no-filename", "--json", "--heading", "--context", "-C"))
                for word in options
            )
            or paths > 2
        )
    listed = case.text.rstrip("\n").split("\n")
    if wrong or len(listed) < 2 or not all(listed):
        return
    groups: dict[str, list[str]] = {}
    for line in listed:
        path = line if name in {"find", "ls"} else line.partition(":")[0]
        if name in {"grep", "rg"} and ("/" not in path and "." not in path):
            return  # no file's name stands before it
        groups.setdefault(path, []).append(line)
    places: dict[str, float] = {}

    def place(path: str) -> tuple[float, ...]:
        parts = path.rstrip("/").split("/")
        return tuple(places.setdefault("/".join(parts[: n + 1]), draw.random()) for n in range(len(parts)))

    new = "\n".join(line for path in sorted(groups, key=place) for line in groups[path])
    yield Edit(0, len(case.text.rstrip("\n")), new)


BENIGN: Mapping[str, Kind] = {
    "white_space": _white_space,
    "key_order": _key_order,
    "timestamps": _timestamps,
    "pids": _pids,
    "temp_names": _temp_names,
    "colours": _colours,
    "listing_order": _listing_order,
}
"""What must not alarm: by name, in the order in which it is reported."""
