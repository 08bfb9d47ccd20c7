"""Patterns of `grep`, `rg` and the like in RE2's syntax, so that what they print can be checked.

A translation accepts every line that the original can have accepted, whatever the locale, the implementation and what a
harness trims off: where these differ it accepts more. Where one can no longer tell, there is no translation. Reading is
one pass over the pattern, and RE2 itself takes linear time, so that a hostile pattern costs nothing.
"""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from verifierd.contracts.checks import pattern

__all__ = ("Dialect", "Translated", "literal", "translate", "union")

Dialect = Literal["basic", "extended", "rust"]

_LONGEST = 1_000
_INTERVAL = re.compile(r"\d{1,3}(?:,\d{0,3})?\}")
_BASIC_INTERVAL = re.compile(r"(\d{1,3}(?:,\d{0,3})?)\\\}")
_COUNTS = frozenset("0123456789,")
_FOREIGN = r"\x{80}-\x{10ffff}"
_INSIDE = {
    "d": r"0-9" + _FOREIGN,
    "w": r"\w" + _FOREIGN,
    "s": r"\s\x{b}" + _FOREIGN,
}
"""What `\\d` and its like hold at most: Rust's hold letters of all scripts."""
_NAMED = re.compile(r"\[:(\^?[a-z]{4,6}):\]")
_SETS = frozenset({"&&", "--", "~~"})
_COLLATED = frozenset({"[:", "[.", "[="})
_NAMES = frozenset(
    (
        "alnum",
        "alpha",
        "blank",
        "cntrl",
        "digit",
        "graph",
        "lower",
        "print",
        "punct",
        "space",
        "upper",
        "word",
        "xdigit",
    )
)


class Translated(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern in RE2's syntax.

    Attributes:
        branches: Its alternatives, each with whether it is bound to the line's start; it may hold no `^` of its own.
        exact: It accepts no other lines than the original, so that lines which it accepts can be ruled out.
        plain: It means the same as a basic and as an extended pattern.
    """

    branches: tuple[tuple[bool, str], ...]
    exact: bool = True
    plain: bool = True

    def after(self, prefix: str) -> str:
        """A pattern of lines that begin with `prefix` (a pattern) and go on with what this one accepts."""
        return "|".join(f"^(?:{prefix}){'' if bound else '.*'}(?:{text})" for bound, text in self.branches)

    def whole(self, prefix: str) -> str:
        """A pattern of lines that are nothing but `prefix` (a pattern) and a match of this one."""
        return "|".join(f"^(?:{prefix})(?:{text})$" for _, text in self.branches)

    def somewhere(self) -> str:
        """A pattern of lines that this one accepts."""
        return "|".join(f"^(?:{text})" if bound else f"(?:{text})" for bound, text in self.branches)

    def folded(self) -> "Translated":
        """The same for letters of either case."""
        branches = tuple((bound, f"(?i:{text})") for bound, text in self.branches)
        return msgspec.structs.replace(self, branches=branches, exact=False)

    def accepts(self, line: str) -> bool:
        """May the original accept this line?"""
        compiled = pattern(self.somewhere())
        return compiled is None or compiled.search(line) is not None


def _loose(atom: str) -> str:
    """An atom that may be a blank, which harnesses take off at the edges of an output."""
    return f"(?:{atom}|^|$)"


def _char(letter: str) -> str:
    if letter in " \t":
        return _loose(" " if letter == " " else "\\t")
    if ord(letter) > 127:
        return "(?:.*)"  # a locale may take it for several, or for its other case
    return letter if letter.isalnum() or letter == "_" else f"\\x{{{ord(letter):x}}}"


def _readable(text: str) -> bool:
    return 0 < len(text) <= _LONGEST and text.replace("\t", "").isprintable()


def literal(text: str) -> Translated | None:
    """A text that stands for itself (`grep -F`)."""
    if not _readable(text):
        return None
    exact = text.isascii() and " " not in text and "\t" not in text
    return Translated(branches=((False, "".join(map(_char, text))),), exact=exact)


def union(found: Sequence[Translated | None]) -> Translated | None:
    """Any of several patterns; None if one of them could not be translated, or there is none."""
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    return Translated(
        branches=tuple(branch for one in known for branch in one.branches),
        exact=all(one.exact for one in known),
        plain=all(one.plain for one in known),
    )


def translate(text: str, dialect: Dialect) -> Translated | None:
    """A pattern in RE2's syntax; None where what it means is not certain, or RE2 does not know it.

    Args:
        text: The pattern as the program got it.
        dialect: `basic` and `extended` as `grep` and `grep -E` read them, `rust` as `rg` does.
    """
    if not _readable(text):
        return None
    reader = _Reader(text, dialect)
    try:
        branches = reader.read()
    except _Unknown:
        return None
    # As others pass for `grep`, lines are ruled out only by what all of them read alike.
    exact = reader.exact and (reader.plain or dialect != "basic") and "\\|" not in text
    found = Translated(branches=branches, exact=exact, plain=reader.plain)
    return found if pattern(found.after("")) is not None else None


class _Unknown(Exception):  # noqa: N818 - it is no error, and stays in here
    """What the pattern means is not certain."""


class _Reader:
    """Reads one pattern from left to right."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.basic = dialect == "basic"
        self.rust = dialect == "rust"
        self.at = 0
        self.depth = 0
        self.exact = self.plain = True
        self.folds = False
        self.out: list[str] = []
        self.branches: list[tuple[bool, str]] = []
        self.bound = False
        self.repeats = False  # may what was read last be repeated?
        self.repeated = -1  # where the last repetition ended

    def read(self) -> tuple[tuple[bool, str], ...]:
        """The alternatives.

        Raises:
            _Unknown: What the pattern means is not certain.
        """
        while self.at < len(self.text):
            self._next()
        if self.depth:
            raise _Unknown
        self._branch()
        return tuple(self.branches)

    def _next(self) -> None:
        letter = self.text[self.at]
        self.at += 1
        if letter == "\\":
            self._escape()
        elif letter == "[":
            self._class()
        elif letter == ".":
            self.exact = False
            self._atom(_loose(".") if self.rust else "(?:.?)")
        elif letter == "*":
            self._star()
        elif letter == "^":
            self._start()
        elif letter == "$":
            self._end()
        elif letter in "(){|+?":
            self.plain = False
            if self.basic:
                self._atom(_char(letter))
            else:
                self._operator(letter)
        elif letter == "}" and self.rust:
            raise _Unknown
        else:
            self.exact = self.exact and letter.isascii() and not letter.isspace()
            self._atom(_char(letter))

    def _atom(self, text: str) -> None:
        self.out.append(text)
        self.repeats = True

    def _first(self) -> bool:
        """Does a branch or a group begin here?"""
        return not self.out or self.out[-1] in {"(?:", "|"}

    def _operator(self, letter: str) -> None:
        if letter == "(":
            self._open()
        elif letter == ")":
            self._close()
        elif letter == "|":
            self._or()
        elif letter == "{":
            self._interval()
        else:
            self._repeat(letter)

    def _open(self) -> None:
        if self.text.startswith("?", self.at):
            rest = self.text[self.at :]
            if not self.rust:
                raise _Unknown
            if rest.startswith("?:"):
                self.at += 2
            elif rest.startswith("?i)") and self.at == 1:
                self.at += 3
                self.folds = True
                return
            else:
                raise _Unknown
        self.depth += 1
        self.out.append("(?:")
        self.repeats = False

    def _close(self) -> None:
        if not self.depth or self._first():
            raise _Unknown
        self.depth -= 1
        self._atom(")")

    def _or(self) -> None:
        if self.depth:
            if self._first():
                raise _Unknown
            self.out.append("|")
        else:
            self._branch()
        self.repeats = False

    def _branch(self) -> None:
        if not self.out and not self.bound:
            raise _Unknown  # an empty one accepts every line
        text = "".join(self.out)
        self.branches.append((self.bound, f"(?i:{text})" if self.folds else text))
        self.out, self.bound = [], False

    def _star(self) -> None:
        if self._first() and not self.rust:
            if not self.basic:
                raise _Unknown
            self.plain = False
            self._atom(_char("*"))
        else:
            self._repeat("*")

    def _repeat(self, letter: str) -> None:
        if not self.repeats:
            if self.rust and letter == "?" and self.repeated == self.at - 1:
                return  # a lazy one accepts the same lines
            raise _Unknown
        self._quantify(letter)

    def _quantify(self, text: str) -> None:
        self.out.append(text)
        self.repeats = False
        self.repeated = self.at

    def _interval(self) -> None:
        match = _INTERVAL.match(self.text, self.at)
        if match is None:
            if self.rust or not self.repeats or self.text[self.at : self.at + 1] in _COUNTS:
                raise _Unknown
            self._atom(_char("{"))
            return
        if not self.repeats:
            raise _Unknown
        self.at = match.end()
        self._quantify("{" + match[0])

    def _start(self) -> None:
        first = self._first()
        if self.basic and not first:
            self.plain = False
            self._atom(_char("^"))
            return
        self.exact = False  # a harness may have taken off blanks before it
        if first and not self.depth and not self.bound:
            self.bound = True
        else:
            self.out.append("(?:)")
        self.repeats = False

    def _end(self) -> None:
        rest = self.text[self.at :]
        ends = not rest or rest.startswith(("\\|", "\\)"))
        if self.basic and not ends:
            self.plain = False
            self._atom(_char("$"))
            return
        self.exact = False
        self.out.append("$")
        self.repeats = False

    def _escape(self) -> None:
        if self.at >= len(self.text):
            raise _Unknown
        letter = self.text[self.at]
        self.at += 1
        if self.basic and letter in "(){}|+?":
            self.plain = self.plain and letter == "|"  # as an extended one it is a `|` after what the first one accepts
            self._operator(letter) if letter not in "{}" else self._basic_interval(letter)
        elif letter.isascii() and not letter.isalnum() and letter not in "<>`'":
            self._atom(_char(letter))
            self.exact = self.exact and not letter.isspace()
        else:
            self.exact = False
            self._known(letter)

    def _known(self, letter: str) -> None:
        """What a letter after a backslash stands for."""
        own = "" if self.rust else letter  # some take it for the letter itself
        if letter in "dws":
            self._atom(_loose(f"[{own}{_INSIDE[letter]}]"))
        elif letter in "DWS":
            several = f"[{own}\\{letter}{_FOREIGN}]"  # a locale of bytes takes one letter for several
            self._atom(_loose(several) if self.rust else f"(?:{several}?)")
        elif letter == "t":
            self._atom(_loose(f"[{own}\\t]"))
        elif letter in "bB" or (letter in "<>`'" and not self.rust):
            self.out.append("(?:)")
            self.repeats = False
        elif letter in "123456789" and not self.rust:
            self.out.append("(?:.*)")
            self.repeats = False
        else:
            raise _Unknown

    def _basic_interval(self, letter: str) -> None:
        match = _BASIC_INTERVAL.match(self.text, self.at)
        if match is None or not self.repeats or letter == "}":
            raise _Unknown
        self.at = match.end()
        self._quantify(f"{{{match[1]}}}")

    def _class(self) -> None:
        """A class: as much as it can hold in any locale."""
        text = self.text
        negated = text.startswith("^", self.at)
        self.at += negated
        parts: list[str] = []
        first = True
        while True:
            if self.at >= len(text):
                raise _Unknown
            letter = text[self.at]
            if letter == "]" and not first:
                self.at += 1
                break
            if letter == "]" and self.rust:
                raise _Unknown
            first = False
            parts.append(self._member(negated=negated))
        inside = "".join(parts)
        whole = f"[^{inside}]" if negated else f"[{inside}]"
        compiled = pattern(whole)
        if compiled is None:
            raise _Unknown
        if not text.isascii() or negated or not self.rust or "\\" in inside:
            self.exact = False
        if compiled.search(" ") or compiled.search("\t"):
            self.exact = False
            whole = _loose(whole)
        # A locale of bytes takes a letter of another script for several.
        self._atom(f"(?:(?:{whole})?)" if negated and not self.rust else whole)

    def _member(self, *, negated: bool) -> str:
        """A letter, a range or a name inside a class."""
        text = self.text
        named = _NAMED.match(text, self.at)
        if named is not None:
            if named[1] not in _NAMES:
                raise _Unknown
            self.at = named.end()
            return named[0] if negated else named[0] + _FOREIGN
        if text[self.at : self.at + 2] in (_SETS if self.rust else _COLLATED) or (self.rust and text[self.at] == "["):
            raise _Unknown
        low = self._one(negated=negated)
        if len(low) != 1:
            return low
        if text.startswith("-", self.at) and text[self.at + 1 : self.at + 2] not in {"]", ""}:
            self.at += 1
            return self._range(low, negated=negated)
        if not low.isascii():
            if not self.rust:
                raise _Unknown
            return "" if negated else _FOREIGN
        return _inner(low)

    def _range(self, low: str, *, negated: bool) -> str:
        if self.text[self.at] == "[" or (self.rust and self.text[self.at] == "-"):
            raise _Unknown
        high = self._one(negated=negated)
        if len(high) != 1 or low > high or not (low + high).isascii():
            raise _Unknown
        span = f"{_inner(low)}-{_inner(high)}"
        if self.rust or (low.isdigit() and high.isdigit()):
            return span
        # Ranges follow the locale's order: only their ends are certain.
        return _inner(low) + _inner(high) if negated else f"{span}A-Za-z{_FOREIGN}"

    def _one(self, *, negated: bool) -> str:
        """One letter of a class, or what stands for several."""
        letter = self.text[self.at]
        self.at += 1
        if letter != "\\":
            return letter
        following = self.text[self.at : self.at + 1]
        if self.rust:
            self.at += 1
            return self._escaped(following, negated=negated)
        # A backslash is a letter here, except where an implementation knows `\w`, `\t` and the like.
        if not following.isalnum():
            return letter
        if negated or following not in "dwst":
            raise _Unknown
        self.at += 1
        return "\\x{5c}" + following + _INSIDE.get(following, "\\t")

    def _escaped(self, letter: str, *, negated: bool) -> str:
        """What Rust reads after a backslash in a class."""
        if letter == "t":
            return "\t"
        if letter in _INSIDE:
            return f"\\{letter}" if negated else _INSIDE[letter]
        if letter in {"D", "W", "S"} and not negated:
            return f"\\{letter}{_FOREIGN}"
        if not letter.isascii() or letter.isalnum() or not letter:
            raise _Unknown
        return letter


def _inner(letter: str) -> str:
    """A letter as a member of a class."""
    return letter if letter.isalnum() else f"\\x{{{ord(letter):x}}}"
