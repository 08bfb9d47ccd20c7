"""Reads the little languages that commands take as arguments into their features.

As in `reading`, what is not fully understood raises `Unread`. Each function returns the set of features that a program
uses; the document says which of them were certified.
"""

import re
from collections.abc import Callable, Sequence

from verifierd.commandline.reading import Unread
from verifierd.predictors.shell.patterns import pattern

__all__ = ("awk", "bc", "expr", "find", "jq", "printf", "sed", "test", "tr")

# --- sed

_ADDRESS = re.compile(r"\d+~\d+|\d+|\$|\+\d+|/(?P<re>(?:\\.|\[\^?\]?[^\]]*\]|[^\\/\[\n])+)/(?P<flag>I?)")
_SUBSTITUTE_FLAGS = re.compile(r"(?:[gpI]|[1-9])*")
_REPLACEMENT = re.compile(r"\\(?:(?P<group>[1-9])|(?P<escape>[nt&/\\.*\[\]|\"'-])|.)|(?P<whole>&)|[^\\&\n]", re.DOTALL)


_SKIP = re.compile(r"[\s;]*")
_COMMAND = re.compile(r"\s*(!?)\s*(\S)")
_COMMAND_END = re.compile(r"[ \t]*(?=[;\n}]|$)")
_TRANSLATION = re.compile(r"/([A-Za-z0-9 _]+)/([A-Za-z0-9 _]+)/")
_ADDED_TEXT = re.compile(r"(?:\\\n|\\| ) ?([A-Za-z0-9_#][^\\\n]*)(?:\n|$)")


def sed(program: str, *, extended: bool = False) -> set[str]:
    """Features of a sed script: each command with the kind of its addresses, regular expressions, replacements."""
    if not program.isascii():
        raise Unread("sed script beyond ASCII")
    return _Sed(program, extended=extended).read()


class _Sed:
    def __init__(self, program: str, *, extended: bool) -> None:
        self.program = program
        self.extended = extended
        self.at = 0
        self.found: set[str] = set()

    def read(self) -> set[str]:
        depth = count = 0
        while True:
            self.take(_SKIP)
            if self.at >= len(self.program):
                break
            if self.program[self.at] == "}":
                depth -= 1
                self.at += 1
                continue
            count += 1
            shape = self.address()
            rest = self.take(_COMMAND)
            if not rest:
                raise Unread("sed command")
            self.found.add(f"{shape}{rest[1]}{rest[2]}")
            if rest[2] == "{":
                depth += 1
            else:
                self.command(rest[2])
        if depth:
            raise Unread("sed braces")
        return self.found | ({"several commands"} if count > 1 else set())

    def take(self, form: re.Pattern[str]) -> re.Match[str] | None:
        match = form.match(self.program, self.at)
        if match:
            self.at = match.end()
        return match

    def address(self) -> str:
        """The kind of the addresses here: `N`, `$`, `/`, `N,$`, ..."""
        shape = ""
        while match := self.take(_ADDRESS):
            if match["re"]:
                self.found |= {f"re {feature}" for feature in pattern(match["re"], extended=self.extended)}
                shape += f"/{match['flag']}"
            else:
                shape += re.sub(r"\d+", "N", match[0])
            if not self.program.startswith(",", self.at):
                break
            self.at += 1
            shape += ","
        if shape.endswith(",") or shape.startswith("+"):
            raise Unread("sed address")
        return shape

    def command(self, letter: str) -> None:
        """The rest of a command after its letter."""
        if letter in "aic":
            if not self.take(_ADDED_TEXT):
                raise Unread(f"sed {letter}")
            return
        if letter == "s":
            self.substitution()
        elif letter == "y":
            sets = self.take(_TRANSLATION)
            if not sets or len(sets[1]) != len(sets[2]):
                raise Unread("sed y")
        elif letter not in "pdq=nNgGhHxDP":
            raise Unread(f"sed {letter}")
        if not self.take(_COMMAND_END):
            raise Unread("sed command's end")

    def substitution(self) -> None:
        mark = self.program[self.at : self.at + 1]
        if mark not in set("/|#,:@!_%") or (mark == "|" and self.extended):
            raise Unread("sed delimiter")
        m = re.escape(mark)
        part = rf"((?:\\.|\[\^?\]?(?:\[:[a-z]+:\]|[^\]\n])*\]|[^\\\n\[{m}])*)"
        match = self.take(re.compile(rf"{m}{part}{m}((?:\\.|[^\\\n{m}])*){m}"))
        if not match or not match[1]:
            raise Unread("sed s")
        if mark != "/":
            if f"\\{mark}" in match[0]:
                raise Unread("escaped sed delimiter")
            self.found.add("s delimiter")
        self.found |= {f"re {feature}" for feature in pattern(match[1], extended=self.extended)}
        for piece in _REPLACEMENT.finditer(match[2]):
            self.replacement(piece)
        flags = self.take(_SUBSTITUTE_FLAGS)
        if flags and flags[0]:
            self.found.add("s flags " + "".join(sorted(re.sub(r"\d", "N", flags[0]))))

    def replacement(self, piece: re.Match[str]) -> None:
        if piece["group"]:
            self.found.add("s \\1")
        elif piece["escape"]:
            self.found.add("s \\n" if piece["escape"] in "nt" else "s \\&")
        elif piece["whole"]:
            self.found.add("s &")
        elif piece[0].startswith("\\"):
            raise Unread("sed replacement")


# --- awk

_AWK = re.compile(
    r"(?P<space>[ \t]+|\\\n)|(?P<comment>\#[^\n]*)|(?P<newline>\n)"
    r'|(?P<string>"(?:[^"\\\n]|\\["\\nt/])*")|(?P<number>(?:0|[1-9]\d*)(?:\.\d+)?(?![\w.]))'
    r"|(?P<field>\$(?:\d+|NF|[a-z]\w*))|(?P<name>[A-Za-z_]\w*)(?P<call>\(?)"
    r"|(?P<op>\+\+|--|\+=|-=|\*=|/=|%=|\^=|==|!=|<=|>=|&&|\|\||!~|[-+*/%^<>=!~?:,;(){}\[\]]|\$(?=\())"
)
_AWK_WORDS_WORDS = (
    "BEGIN END NR NF FNR FS OFS ORS print printf if else for while do in break continue next exit delete "
    "length substr index split sub gsub match toupper tolower sprintf int sqrt FILENAME RSTART RLENGTH"
)
_AWK_WORDS = frozenset(_AWK_WORDS_WORDS.split())
_AWK_VALUES = {"number", "string", "field", "variable"}


_AWK_VARIABLES = frozenset({"NR", "NF", "FNR", "FILENAME", "OFS", "FS", "ORS", "RSTART", "RLENGTH"})
_AWK_REGEX = re.compile(r"/((?:\\.|\[\^?\]?[^\]]*\]|[^\\/\[\n])+)/")
_AWK_FORMAT = re.compile(r"[ \t]*\(?[ \t]*\"")
_AWK_PATTERN = re.compile(r"[ \t]*/")


def awk(program: str) -> set[str]:
    """Features of an awk program: words, operators, regular expressions, formats."""
    if not program.isascii():
        raise Unread("awk program beyond ASCII")
    return _Awk(program).read()


class _Awk:
    def __init__(self, program: str) -> None:
        self.program = program
        self.found: set[str] = set()
        self.at = 0
        self.last = "start"  # what stands before, to tell a division from a regular expression
        self.printing = False
        self.parens = 0

    def read(self) -> set[str]:
        readers = {"string": self.string, "number": self.number, "field": self.field, "name": self.name, "op": self.op}
        while self.at < len(self.program):
            if self.program[self.at] == "/" and self.last not in {*_AWK_VALUES, ")", "]"}:
                self.regex()
                continue
            match = _AWK.match(self.program, self.at)
            if not match:
                raise Unread("awk program")
            self.at = match.end()
            if match["newline"]:
                self.printing, self.last = False, ";"
                continue
            for kind, reader in readers.items():
                if match[kind]:
                    reader(match)
        return self.found

    def regex(self) -> None:
        match = _AWK_REGEX.match(self.program, self.at)
        if not match:
            raise Unread("awk regular expression")
        self.found |= {"/re/", *(f"re {feature}" for feature in pattern(match[1], extended=True))}
        self.at, self.last = match.end(), ")"

    def string(self, match: re.Match[str]) -> None:
        text = match["string"][1:-1]
        if self.last in {"printf", "printf(", "sprintf("}:
            self.found |= {f"printf {feature}" for feature in _formats(text)}
        elif self.last in {"~", "!~"} or ("%" in text and self.last == "("):
            raise Unread("awk string as a pattern")
        if "\\" in text:
            self.found.add("string escape")
        self.last = "string"

    def number(self, match: re.Match[str]) -> None:
        if "." in match["number"]:
            self.found.add("decimal")
        self.last = "number"

    def field(self, match: re.Match[str]) -> None:
        name = match["field"][1:]
        self.found.add("$0" if name == "0" else "$NF" if name == "NF" else "$N" if name.isdigit() else "$x")
        self.last = "field"

    def name(self, match: re.Match[str]) -> None:
        name, call = match["name"], match["call"]
        if name in _AWK_WORDS:
            self.word(name, match)
        elif call or not re.fullmatch(r"[A-Za-z]\w{0,20}", name) or (name.isupper() and len(name) > 2):
            raise Unread(f"awk {name}")
        else:
            self.last = "variable"
            if self.program.startswith("[", self.at):
                self.found.add("array")

    def word(self, name: str, match: re.Match[str]) -> None:
        """A reserved word, variable or function of awk's own."""
        self.found.add(name)
        if name in {"printf", "sprintf"} and not _AWK_FORMAT.match(self.program, match.start() + len(name)):
            raise Unread("awk format that is not a literal")
        if name in {"sub", "gsub"} and match["call"] and not _AWK_PATTERN.match(self.program, self.at):
            raise Unread("awk pattern that is not a literal")
        if name in {"print", "printf"}:
            self.printing, self.parens = True, 0
        self.parens += bool(match["call"])
        self.last = "variable" if name in _AWK_VARIABLES else name + match["call"]

    def op(self, match: re.Match[str]) -> None:
        op = match["op"]
        if op == ">" and self.printing and self.parens == 0:
            raise Unread("awk output to a file")
        if op[0] == "*" and self.program[: match.start()].endswith("*"):
            raise Unread("power in the notation of some awks")
        self.parens += (op == "(") - (op == ")")
        if op in {";", "}"}:
            self.printing = False
        if op not in {",", ";", "(", ")", "{", "}", "[", "]"}:
            self.found.add(op)
        self.last = op if op in {")", "]", "~", "!~", "("} else "op"


# --- jq

_JQ = re.compile(
    r"(?P<space>\s+)|(?P<path>\.[A-Za-z_]\w*)|(?P<index>\.?\[-?\d+\])|(?P<each>\.?\[\])|(?P<slice>\.?\[\d*:\d*\])"
    r'|(?P<string>"[^"\\]*")|(?P<number>\d+(?:\.\d+)?)|(?P<word>[a-z_]\w*)'
    r"|(?P<op>//|==|!=|<=|>=|[|,<>+\-*/%?:(){}\[\];.])"
)


def jq(program: str) -> set[str]:
    """Features of a jq filter."""
    if not program.isascii():
        raise Unread("jq filter beyond ASCII")
    found: set[str] = set()
    at = 0
    keyed = False
    while at < len(program):
        match = _JQ.match(program, at)
        if not match:
            raise Unread("jq filter")
        kind = match.lastgroup or ""
        at = match.end()
        follows = program[at:].lstrip()[:1]
        if kind == "word":
            keyed = follows == ":" or (program[: match.start()].rstrip()[-1:] in "{," and follows in {"}", ","})
            found.add("key" if keyed else match[0])
        elif kind == "op":
            found.add(match[0])
        elif kind != "space":
            found.add(kind)
    return found


# --- printf, test, find, tr, expr, bc

_FORMAT = re.compile(
    r"%(?P<spec>[-0+ #]*\d*(?:\.\d+)?[a-zA-Z])|(?P<percent>%%)|(?P<escape>\\[nt\\\"'])|(?P<plain>[^%\\])", re.DOTALL
)


def _formats(text: str) -> set[str]:
    found: set[str] = set()
    at = 0
    while at < len(text):
        match = _FORMAT.match(text, at)
        if not match:
            raise Unread("printf format")
        at = match.end()
        if match["spec"]:
            found.add("%" + re.sub(r"(?<!\.)0\d+|\.0\d+", "0N", re.sub(r"[1-9]\d*", "N", match["spec"])))
        elif match["percent"]:
            found.add("%%")
        elif match["escape"]:
            found.add("\\n")
    return found


def printf(form: str, args: Sequence[str | None]) -> set[str]:
    """Features of printf's format, and of how its arguments fit it."""
    found = _formats(form)
    specs = re.findall(r"%[-0+ #]*\d*(?:\.\d+)?([a-zA-Z])", form.replace("%%", ""))
    if len(args) > len(specs):
        found.add("format reused")
    elif len(args) < len(specs):
        found.add("arguments missing")
    for number, value in enumerate(args):
        spec = specs[number % len(specs)] if specs else ""
        if spec in {"d", "i", "x", "o", "u", "X", "f", "e", "g"}:
            if value is None:
                found.add("number by expansion")
            elif not re.fullmatch(
                r"-?(?:0|[1-9]\d{0,17})(?:\.\d+)?" if spec in "feg" else r"-?(?:0|[1-9]\d{0,17})", value
            ):
                raise Unread("printf number")
        elif spec == "s" and value is not None and not value.isascii() and re.search(r"%-?\d", form):
            raise Unread("printf width beyond ASCII")
        elif spec == "b":
            raise Unread("printf %b")
    return found


_UNARY = frozenset("-f -d -e -s -z -n -L -h -r -w -x".split())  # noqa: SIM905
_BINARY = frozenset("= == != -eq -ne -lt -le -gt -ge".split())  # noqa: SIM905


def test(words: Sequence[str | None]) -> set[str]:
    """Features of the expression of `test` or `[`; a word that depends on expansion is None."""
    left = list(words)
    found: set[str] = set()
    if left[:1] == ["!"] and len(left) > 1:
        found.add("!")
        left = left[1:]
    if len(left) == 1 and left[0] not in {"!", "(", ")"}:
        return found | {"word"}
    if len(left) == 2 and left[0] in _UNARY:
        return found | {str(left[0])}
    if len(left) == 3 and left[1] in _BINARY and left[0] not in {"!", "(", *_UNARY}:
        if str(left[1])[1:] in {"eq", "ne", "lt", "le", "gt", "ge"}:
            for side in (left[0], left[2]):
                if side is not None and not re.fullmatch(r"-?\d{1,18}", side):
                    raise Unread("test of what is no number")
        return found | {str(left[1])}
    raise Unread("test expression")


_FIND = {"-name": "G", "-iname": "G", "-path": "G", "-type": "", "-maxdepth": "N", "-mindepth": "N"}
_FIND_PLAIN = frozenset("-empty -print -delete -o -or -a -and ! -not ( )".split())  # noqa: SIM905


def find(words: Sequence[str | None], nested: Callable[[Sequence[str | None]], None]) -> set[str]:
    """Features of find's expression; a command run by `-exec` is handed to `nested`."""
    found: set[str] = set()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "-exec":
            end = next((i for i, w in enumerate(rest) if w in {";", "+"}), None)
            if end is None or end < 1 or "{}" not in rest[:end]:
                raise Unread("find -exec")
            nested(rest[:end])
            found.add(f"-exec {rest[end]}")
            rest = rest[end + 1 :]
        elif word in _FIND:
            if word.endswith("depth") and not all(feature.endswith("depth N") for feature in found):
                raise Unread("find warns of -maxdepth after a test")
            value = rest.pop(0) if rest else None
            kind = _FIND[word]
            if value is None or not re.fullmatch({"G": r"[A-Za-z0-9_.*?/-]+", "N": r"\d", "": r"[fdl]"}[kind], value):
                raise Unread(f"find {word}")
            found.add(f"{word} {kind or value}")
        elif word in _FIND_PLAIN:
            found.add(str(word))
        else:
            raise Unread(f"find {word}")
    return found


def tr(sets: Sequence[str | None]) -> set[str]:
    """Features of tr's sets."""
    found: set[str] = set()
    for text in sets:
        if text is None or not text.isascii():
            raise Unread("tr set")
        at = 0
        lexer = re.compile(
            r"(?P<class>\[:(?:upper|lower|digit|alpha|alnum|space|punct|blank):\])|(?P<range>[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9])|(?P<escape>\\[nt\\])|(?P<plain>[^\\\[\]-])|(?P<dash>-(?=$))"
        )
        while at < len(text):
            match = lexer.match(text, at)
            if not match:
                raise Unread("tr set")
            at = match.end()
            if match.lastgroup != "plain":
                found.add(match["class"] or match["escape"] or str(match.lastgroup))
    return found


def expr(words: Sequence[str | None]) -> set[str]:
    """Features of an expr expression of two integers."""
    if len(words) != 3 or words[1] not in {"+", "-", "*", "/", "%", "<", ">", "=", "<=", ">=", "!="}:
        raise Unread("expr expression")
    if any(word is None or not re.fullmatch(r"-?\d{1,9}", word) for word in (words[0], words[2])):
        raise Unread("expr operand")
    return {str(words[1])}


def bc(program: str) -> set[str]:
    """Features of a bc program."""
    found: set[str] = set()
    for line in re.split(r"[;\n]", program):
        text = line.strip()
        if re.fullmatch(r"scale ?= ?[1-9]", text):
            found.add("scale")
        elif re.fullmatch(r"[\d+*() -]*", text) and "--" not in text:
            found |= set(re.findall(r"[+*(-]", text))
        elif re.fullmatch(r"\d+ ?/ ?\d+", text):
            found.add("/")
        else:
            raise Unread("bc program")
    return found
