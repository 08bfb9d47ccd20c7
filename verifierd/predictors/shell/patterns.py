"""Reads POSIX regular expressions into their features."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from verifierd.commandline.reading import Unread

__all__ = ("pattern",)


class _Piece(msgspec.Struct, frozen=True):
    """A piece of a regular expression.

    Kinds: `plain`, `escaped`, `dot`, `set`, `class` (word edges and the like), `back`, `repeat`, `anchor`, `end`, `(`,
    `)`, `|`, and `group` for what was between parentheses.
    """

    kind: str
    text: str = ""


_SET = r"(?P<set>\[\^?\]?(?:\[:[a-z]+:\]|[^\[\]])*\])|\\(?P<class>[<>bBwWsS])|\\(?P<back>[1-9])"
_BASIC = re.compile(
    rf"{_SET}|\\(?P<op>[(){{}}|+?])|(?P<escaped>\\[.*^$/\[\]\\\"'&-])|(?P<mark>[.*^$])|(?P<plain>[^\\\[.*^$])"
)
_EXTENDED = re.compile(
    rf"{_SET}|(?P<op>[(){{}}|+?])|(?P<escaped>\\[.*^$/\[\]\\\"'&(){{}}|+?-])|(?P<mark>[.*^$])"
    r"|(?P<plain>[^\\\[.*^$(){}|+?])"
)
_INTERVAL = re.compile(r"\d+(?:,\d*)?")
_MARKS = {".": "dot", "*": "repeat", "^": "anchor", "$": "end", "+": "repeat", "?": "repeat"}
# What nothing can be repeated after, and no branch may end after.
_OPENERS = frozenset({"start", "(", "|", "anchor"})
_NAMES = {"dot": ".", "anchor": "^", "end": "$", "back": "\\1", "escaped": "\\.", "(": "( )"}


def pattern(text: str, *, extended: bool = False) -> set[str]:
    """Features of a regular expression (basic or extended), ASCII only.

    `|` is told apart by whether two of its branches can begin at the same place, because engines then differ in which
    they prefer.

    Raises:
        Unread: It is not well formed, or has a form on which engines differ.
    """
    if not text.isascii() or "\n" in text:
        raise Unread("regular expression beyond ASCII")
    pieces = list(_pieces(text, extended=extended))
    found: set[str] = set()
    groups: list[list[_Piece]] = [[]]
    last = "start"
    for at, piece in enumerate(pieces):
        _check(piece, last, pieces[at + 1].kind if at + 1 < len(pieces) else "")
        found |= _features(piece)
        if piece.kind == "(":
            groups.append([])
        elif piece.kind == ")":
            if len(groups) == 1:
                raise Unread("closing parenthesis in a regular expression")
            found |= _alternatives(groups.pop())
            groups[-1].append(_Piece("group"))
        else:
            groups[-1].append(piece)
        last = piece.kind
    if len(groups) > 1 or last == "|":
        raise Unread("open group in a regular expression")
    return found | _alternatives(groups[0])


def _pieces(text: str, *, extended: bool) -> Iterator[_Piece]:
    lexer, closing = (_EXTENDED, "}") if extended else (_BASIC, r"\}")
    at = 0
    while at < len(text):
        match = lexer.match(text, at)
        if not match:
            raise Unread("regular expression")
        at = match.end()
        kind, part = match.lastgroup or "", match[match.lastgroup or 0]
        if part == "{" and kind == "op":
            interval = _INTERVAL.match(text, at)
            if not interval or not text.startswith(closing, interval.end()):
                raise Unread("brace in a regular expression")
            at = interval.end() + len(closing)
            yield _Piece("repeat", "{n}" if "," not in interval[0] else "{n,m}")
        elif part == "}" and kind == "op":
            raise Unread("brace in a regular expression")
        elif kind in {"mark", "op"}:
            yield _Piece(_MARKS.get(part, part), part)
        else:
            yield _Piece(kind, part)


def _check(piece: _Piece, last: str, following: str) -> None:
    """Refuse what engines read in different ways."""
    if piece.kind == "repeat" and (last in _OPENERS or last == "repeat"):
        raise Unread("repetition of nothing, or of a repetition")
    if piece.kind == "anchor" and last not in {"start", "(", "|"}:
        raise Unread("^ within a regular expression")
    if piece.kind == "end" and following not in {"", ")", "|"}:
        raise Unread("$ within a regular expression")
    if piece.kind in {"|", ")"} and last in _OPENERS:
        raise Unread("empty branch in a regular expression")


def _features(piece: _Piece) -> set[str]:
    if piece.kind == "set":
        return _bracket(piece.text)
    if piece.kind == "repeat":
        return {piece.text}
    if piece.kind == "class":
        return {f"\\{piece.text}"}
    return {_NAMES[piece.kind]} if piece.kind in _NAMES else set()


def _bracket(text: str) -> set[str]:
    inside = text[2:-1] if text[1] == "^" else text[1:-1]
    found = {"[^ ]" if text[1] == "^" else "[ ]"}
    if "\\" in inside:
        raise Unread("backslash in a bracket expression")
    found |= {f"[{name}]" for name in re.findall(r"\[:[a-z]+:\]", inside)}
    ranges = re.findall(r"(.)-(.)", re.sub(r"\[:[a-z]+:\]", "", inside))
    for pair in ranges:
        if not any(all(map(test, pair)) for test in (str.isdigit, str.islower, str.isupper)):
            raise Unread("range in a bracket expression")
    return found | ({"[a-z]"} if ranges else set())


def _alternatives(pieces: Sequence[_Piece]) -> set[str]:
    """The feature of a group's alternatives: none, apart, or overlapping."""
    branches: list[list[_Piece]] = [[]]
    for piece in pieces:
        if piece.kind == "|":
            branches.append([])
        elif piece.kind != "anchor":
            branches[-1].append(piece)
    if len(branches) == 1:
        return set()
    for branch in branches:
        fixed = branch and branch[0].kind in {"plain", "escaped"}
        if not fixed or (len(branch) > 1 and branch[1].kind == "repeat"):
            return {"| overlapping"}
    literal = all(piece.kind in {"plain", "escaped"} for branch in branches for piece in branch)
    heads = ["".join(piece.text for piece in (branch if literal else branch[:1])).lower() for branch in branches]
    for at, one in enumerate(heads):
        if any(one.startswith(other) or other.startswith(one) for other in heads[at + 1 :]):
            return {"| overlapping"}
    return {"|"}
