"""Reads the words of a shell command: quotes, expansions, wildcards, arithmetic.

The part of `reading` that knows no commands. What it does not fully understand raises `Unread`.
"""

import re
from collections.abc import Callable
from enum import Enum
from typing import ClassVar

import msgspec

__all__ = ("Mode", "Parts", "Unread", "Word", "WordReader")


class Unread(Exception):  # noqa: N818 - it is an answer, not an error
    """The script has a form that this reader does not know; the text says which."""


class Mode(Enum):
    """Where a word stands, which decides what its wildcards do, and whether its expansions are split."""

    PLAIN = "plain"
    PATTERN = "pattern"
    VALUE = "value"


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """One word of a command.

    Attributes:
        text: Its value, or None if it depends on expansion.
        head: The literal text before the first expansion.
        holes: The literal text, with a NUL for each expansion.
        quoted: True if any of it was quoted or escaped.
        names: The parameters that it expands (`x`, `1`, `@`, ...).
        globs: True if it holds an unquoted wildcard.
        substitutes: True if it holds a command substitution.
        source: The command whose output it takes, if that is the last thing a substitution runs.
        body: The here-document that a substitution copies, if the word is nothing else (`"$(cat <<'EOF' ...)"`).
        splits: True if it may become several words, or none.
    """

    text: str | None
    head: str
    holes: str = ""
    quoted: bool = False
    names: tuple[str, ...] = ()
    globs: bool = False
    substitutes: bool = False
    source: str | None = None
    body: str | None = None
    splits: bool = False


class Parts(msgspec.Struct, kw_only=True):
    """What a word, a quoted text or an expansion is made of; a piece that is None is not known.

    `all` tells that it may become several words even in quotes; the rest is as in `Word`.
    """

    pieces: list[str | None] = msgspec.field(default_factory=list)
    names: list[str] = msgspec.field(default_factory=list)
    quoted: bool = False
    globs: bool = False
    splits: bool = False
    substitutes: bool = False
    source: str | None = None
    body: str | None = None
    all: bool = False

    def add(self, other: "Parts") -> None:
        """Append an expansion; whether it splits is for the caller to say."""
        self.pieces += other.pieces
        self.names += other.names
        self.all = self.all or other.all
        if other.substitutes:
            self.substitutes, self.source, self.body = True, other.source, other.body

    def word(self) -> Word:
        """The word of these parts."""
        hole = self.pieces.index(None) if None in self.pieces else len(self.pieces)
        literal = [piece for piece in self.pieces if piece is not None]
        return Word(
            text="".join(literal) if hole == len(self.pieces) else None,
            head="".join(literal[:hole]),
            holes="".join("\0" if piece is None else piece for piece in self.pieces),
            quoted=self.quoted,
            names=tuple(self.names),
            globs=self.globs,
            substitutes=self.substitutes,
            source=self.source,
            body=self.body if self.pieces == [None] else None,
            splits=self.splits,
        )


_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=^\-\u0080-\U0010ffff]+")
_QUOTED_PLAIN = re.compile(r'[^"\\$`]+')
_SINGLE = re.compile(r"'([^']*)'")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\[nt\\'])*)'")
_PARAMETER = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!_-])")
_BRACED = re.compile(
    r"\$\{(?P<length>\#)?(?P<name>[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*\#?])"
    r"(?P<index>\[(?:[@*]|-?[0-9]+|\$?[A-Za-z_][A-Za-z0-9_]*)\])?"
)
_BRACED_OP = re.compile(r":[-=+?]|[-=+?]|%%|%|\#\#|\#|//|/[#%]|/|\^\^|\^|,,|,|:")
_BRACED_TEXT = re.compile(r"[A-Za-z0-9_./:@+,=*?!;~ \-]*")
_BRACED_SLICE = re.compile(r"( ?-?[0-9]+|\$?[A-Za-z_]\w*)(?::(-?[0-9]+|\$?[A-Za-z_]\w*))?\}")
_BRACE_LIST = re.compile(r"\{[A-Za-z0-9_./\-]*(?:,[A-Za-z0-9_./\-]*)+\}")
_BRACE_RANGE = re.compile(r"\{(?:[0-9]+\.\.[0-9]+(?:\.\.[0-9]+)?|[a-z]\.\.[a-z]|[A-Z]\.\.[A-Z])\}")
_BRACKET_GLOB = re.compile(r"\[[!^]?[A-Za-z0-9_.\-]+\]")
_ARITH = re.compile(
    r"(?P<space>[ \t]+)|(?P<number>(?:0|[1-9][0-9]*)(?![0-9A-Za-z_#.]))"
    r"|(?P<octal>0[0-9]+|0[xX][0-9a-fA-F]+|[0-9]+\#[0-9a-zA-Z]+)"
    r"|\$?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<index>\[(?:[0-9]+|\$?[A-Za-z_]\w*)\])?|\$\{(?P<braced>[A-Za-z_]\w*)\}"
    r"|\$(?P<position>[0-9#?])|\$\{\#(?P<count>[A-Za-z_]\w*)(?:\[[@*]\])?\}"
    r"|(?P<op>\*\*|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%]=|[-+*/%<>!~&|^?:=,])"
)
_STATUS = "status of the step before"
_INNER_NAME = re.compile(r"\s*([A-Za-z_]\w*)")


class WordReader:
    """A place in a text, and how to read words from there. Who reads commands extends it with `substitution`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.features: set[str] = set()
        self.names: set[str] = set()
        self.bound: dict[str, list[Word | None]] = {}
        self.computes = False  # whether an arithmetic expression assigns
        self.ran = False  # whether `$?` speaks of a command of this script

    def substitution(self) -> tuple[str | None, str | None]:
        """Read `$( ... )` after its opening.

        Returns:
            The name of its last command, if that is known, and the here-document that it does nothing but copy.
        """
        raise NotImplementedError

    def use(self, feature: str) -> None:
        """Note a feature."""
        self.features.add(feature)

    def bind(self, name: str, value: Word | None) -> None:
        """Note a value that a name is given; None if it cannot be told."""
        self.bound.setdefault(name, []).append(value)

    def take(self, form: re.Pattern[str]) -> re.Match[str] | None:
        """Match here and move on, or stay."""
        match = form.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    # --- words

    def word(self, mode: Mode = Mode.PLAIN) -> Word:
        """The word here."""
        start = self.at
        parts = Parts()
        if self.text.startswith("~", self.at):
            self.tilde(parts)
        while self.at < len(self.text):
            if match := self.take(_PLAIN):
                parts.pieces.append(match[0])
                continue
            char = self.text[self.at]
            reader = self._readers.get(char)
            if reader is None or (char == "#" and self.at == start):
                break
            reader(self, parts, mode)
        if self.at == start:
            raise Unread(f"{self.text[start : start + 10]!r} where a word should be")
        if self.text.startswith(("<(", ">("), self.at):
            raise Unread("process substitution")
        return parts.word()

    def tilde(self, parts: Parts) -> None:
        """`~` at a word's beginning."""
        if self.text[self.at + 1 : self.at + 2] not in {"", "/", " ", "\n", ";", "&", ")", "|"}:
            raise Unread("~user")
        self.use("~")
        self.names.add("HOME")
        parts.names.append("HOME")
        parts.pieces.append(None)
        self.at += 1

    def single(self, parts: Parts, _mode: Mode) -> None:
        """A text in single quotes."""
        match = self.take(_SINGLE)
        if not match:
            raise Unread("quote without an end")
        parts.quoted = True
        parts.pieces.append(match[1])
        self.use("'...'")

    def double(self, parts: Parts, _mode: Mode) -> None:
        """A text in double quotes."""
        self.at += 1
        self.use('"..."')
        inner = self.quoted(_QUOTED_PLAIN, '"')
        parts.add(inner)
        parts.quoted = True
        parts.splits = parts.splits or "@" in inner.names or inner.all

    def escape(self, parts: Parts, _mode: Mode) -> None:
        """A backslash and a character."""
        if self.at + 1 >= len(self.text):
            raise Unread("backslash at the end")
        self.at += 2
        if self.text[self.at - 1] != "\n":
            parts.quoted = True
            parts.pieces.append(self.text[self.at - 1])
            self.use("\\x")

    def expand(self, parts: Parts, mode: Mode) -> None:
        """An expansion outside quotes."""
        if match := self.take(_ANSI):
            self.use("$'...'")
            parts.quoted = True
            parts.pieces.append(re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), match[1]))
            return
        found = self.dollar(in_quotes=False, splitting=mode is Mode.PLAIN)
        parts.add(found)
        if None in found.pieces and mode is Mode.PLAIN and found.names != ["(("]:
            parts.splits = True

    def wildcard(self, parts: Parts, mode: Mode) -> None:
        """`*`, `?` or a bracket; a bracket before a blank is a command's name."""
        kind = "pattern" if mode is Mode.PATTERN else "glob"
        if self.text[self.at] != "[":
            text = self.text[self.at]
            self.at += 1
            self.use(f"{kind} {text}")
        elif not parts.pieces and self.text[self.at + 1 : self.at + 2] in {" ", "\t"}:
            self.at += 1
            parts.pieces.append("[")
            return
        else:
            match = self.take(_BRACKET_GLOB)
            if not match:
                raise Unread("bracket pattern")
            text = match[0]
            self.use(f"{kind} [{'!' if text[1] in '!^' else ''}]")
        if mode is Mode.PLAIN:
            parts.globs = parts.splits = True
            parts.pieces.append(None)
        else:
            parts.pieces.append(text)

    def brace(self, parts: Parts, mode: Mode) -> None:
        """A brace expansion, as what its first word begins with and a hole; or `{}`, which is literal."""
        if mode is not Mode.PLAIN:
            raise Unread("brace in a pattern or assignment")
        if match := self.take(_BRACE_LIST) or self.take(_BRACE_RANGE):
            self.use("{a,b}" if "," in match[0] else "{a..b}")
            if not parts.pieces:
                if re.search(r"[{,]-", match[0]):
                    raise Unread("option in a brace")
                parts.pieces.append(match[0][1] if match[0][1] not in ",}" else "")
            parts.pieces.append(None)
            parts.splits = True
        elif self.text.startswith("{}", self.at):
            self.at += 2
            parts.pieces.append("{}")
        else:
            raise Unread("brace")

    def itself(self, parts: Parts, _mode: Mode) -> None:
        """A character that stands for itself within a word."""
        parts.pieces.append(self.text[self.at])
        self.at += 1

    _readers: ClassVar[dict[str, Callable[["WordReader", Parts, Mode], None]]] = {
        "'": single,
        '"': double,
        "\\": escape,
        "$": expand,
        **dict.fromkeys("*?[", wildcard),
        "{": brace,
        **dict.fromkeys("]~}!#", itself),
    }

    def quoted(self, plain: re.Pattern[str], end: str | None) -> Parts:
        """Text in double quotes, or the body of a here-document (`end` None)."""
        special = "$`\\" if end is None else '$`"\\'
        result = Parts()
        while True:
            if match := self.take(plain):
                result.pieces.append(match[0])
            if self.at >= len(self.text):
                if end is None:
                    return result
                raise Unread("quote without an end")
            char = self.text[self.at]
            if char == end:
                self.at += 1
                return result
            if char == "\\":
                follower = self.text[self.at + 1 : self.at + 2]
                self.at += 2
                if follower != "\n":
                    result.pieces.append(follower if follower and follower in special else f"\\{follower}")
            elif char == "`":
                raise Unread("backquotes")
            else:
                result.add(self.dollar(in_quotes=True, splitting=False))

    # --- expansions

    def dollar(self, *, in_quotes: bool, splitting: bool) -> Parts:
        """An expansion, or a `$` that stands for itself."""
        text = self.text
        if text.startswith("$((", self.at):
            self.at += 3
            self.use("$(( ))")
            self.arithmetic("))")
            return Parts(pieces=[None], names=["(("])
        if text.startswith("$(", self.at):
            self.at += 2
            self.use("$( ) unquoted" if splitting else "$( )")
            source, body = self.substitution()
            return Parts(pieces=[None], substitutes=True, source=source, body=body)
        if text.startswith("${", self.at):
            name, every = self.braced('"' if in_quotes else "")
        elif match := self.take(_PARAMETER):
            name, every = match[1], False
            self.parameter(name, '"$' if in_quotes else "$")
        else:
            follower = text[self.at + 1 : self.at + 2]
            if follower in {"'", '"', "[", "`"} and not (in_quotes and follower == '"'):
                raise Unread(f"${follower}")
            self.at += 1
            return Parts(pieces=["$"])
        if splitting:
            self.use("word splitting")
        return Parts(pieces=[None], names=[name], all=every)

    def parameter(self, name: str, form: str) -> None:
        """Note a parameter's use, as `$x`, `$1` or `$?`."""
        if name in {"$", "!", "-", "_", "0"}:
            raise Unread(f"${name}")
        self.refer(name)
        self.use(f"{form}{'x' if name[0].isalpha() or name[0] == '_' else '1' if name.isdigit() else name}")

    def refer(self, name: str) -> None:
        """Note that a parameter's value matters."""
        if name == "?" and not self.ran:
            raise Unread(_STATUS)
        self.names.add(name)

    def braced(self, quotes: str) -> tuple[str, bool]:
        """`${...}`: the parameter, and whether it may become several words even in quotes."""
        match = self.take(_BRACED)
        if not match:
            raise Unread("${ }")
        name, index = match["name"], match["index"] or ""
        self.refer(name)
        shown = re.sub(r"-?[0-9]+", "0", re.sub(r"\$?[A-Za-z_]\w*", "i", index))
        form = f"{quotes}${{{match['length'] or ''}{'x' if name[0].isalpha() or name[0] == '_' else name}{shown}"
        every = "@" in form
        if not self.text.startswith("}", self.at):
            if match["length"]:
                raise Unread("${# }")
            form += self.operation(name)
        self.at += 1
        self.use(form + "}")
        return name, every

    def operation(self, name: str) -> str:
        """What follows the parameter in `${x...}`, up to the brace."""
        op = self.take(_BRACED_OP)
        if not op:
            raise Unread("${ }")
        if op[0] == ":":
            return self.slice()
        if op[0] in {"=", ":="}:
            self.bind(name, None)
        text = self.take(_BRACED_TEXT)
        assert text is not None
        if op[0][0] in "%#/^,":
            for mark in set("*?").intersection(text[0]):
                self.use(f"${{ }} pattern {mark}")
        elif inner := self.take(_PARAMETER):
            self.parameter(inner[1], "${ }$")
        if not self.text.startswith("}", self.at):
            raise Unread("${ } with more than plain text")
        return f"{op[0]}{'w' if text[0] else ''}"

    def slice(self) -> str:
        """`${x:1:2}` after its first colon."""
        part = self.take(_BRACED_SLICE)
        if not part:
            raise Unread("${x: }")
        self.at -= 1  # the pattern took the brace
        sign = "-" if part[1].startswith(" ") else ""
        length = "" if not part[2] else ":-n" if part[2].startswith("-") else ":n"
        return f":{sign}n{length}"

    # --- arithmetic

    def arithmetic(self, end: str) -> None:
        """An arithmetic expression up to its end, which is consumed."""
        depth = 0
        last = ""
        while depth or not self.text.startswith(end, self.at):
            if self.text.startswith("(", self.at):
                depth += 1
                self.at += 1
                last = "("
            elif depth and self.text.startswith(")", self.at):
                depth -= 1
                self.at += 1
                last = ")"
            elif match := self.take(_ARITH):
                last = self.operand(match) or last
                if match["op"]:
                    self.compute(match["op"], last)
            else:
                raise Unread("arithmetic")
        self.at += len(end)

    def operand(self, match: re.Match[str]) -> str | None:
        """Note a number's form, or a parameter, whose name is returned."""
        if match["octal"]:
            self.use("(( 010 or 0x10")
        name = match["name"] or match["braced"] or match["position"] or match["count"]
        if name:
            self.refer(name)
        return name

    def compute(self, op: str, last: str) -> None:
        """Note an operator, and what it assigns."""
        self.use(f"(( {op}")
        if op in {"++", "--"} or (op.endswith("=") and op not in {"==", "!=", "<=", ">="}):
            self.computes = True
            self.bind(last, None)
            ahead = _INNER_NAME.match(self.text, self.at)
            if op in {"++", "--"} and ahead:
                self.bind(ahead[1], None)
