"""Reads the little languages that commands take as arguments into their features.

As in `reading`, what is not fully understood raises `Unread`. Each function returns the set of features that a program
uses; the document says which of them were certified.
"""

import re
from collections.abc import Callable, Sequence

from verifierd.predictors.shell.reading import Unread

__all__ = ("awk", "bc", "expr", "find", "jq", "pattern", "printf", "sed", "test", "tr")

_BASIC = re.compile(
    r"(?P<set>\[\^?\]?(?:\[:[a-z]+:\]|[^\[\]])*\])|\\(?P<op>[(){}|+?])|\\(?P<class>[<>bBwWsS])|\\(?P<back>[1-9])"
    r"|(?P<escaped>\\[.*^$/\[\]\\\"'&-])|(?P<mark>[.*^$])|(?P<plain>[^\\\[.*^$])"
)
_EXTENDED = re.compile(
    r"(?P<set>\[\^?\]?(?:\[:[a-z]+:\]|[^\[\]])*\])|(?P<op>[(){}|+?])|\\(?P<class>[<>bBwWsS])|\\(?P<back>[1-9])"
    r"|(?P<escaped>\\[.*^$/\[\]\\\"'&(){}|+?-])|(?P<mark>[.*^$])|(?P<plain>[^\\\[.*^$(){}|+?])"
)
_INTERVAL = re.compile(r"\d+(?:,\d*)?")


def pattern(text: str, *, extended: bool = False) -> set[str]:
    """Features of a POSIX regular expression (basic or extended), ASCII only.

    `|` is told apart by whether two of its branches can begin at the same place, because engines then differ in which
    they prefer.
    """
    if not text.isascii() or "\n" in text:
        raise Unread("regular expression beyond ASCII")
    lexer = _EXTENDED if extended else _BASIC
    found: set[str] = set()
    at, groups, last = 0, 0, "start"
    branches: list[list[tuple[str, str]]] = [[]]
    while at < len(text):
        match = lexer.match(text, at)
        if not match:
            raise Unread("regular expression")
        at = match.end()
        kind, token = match.lastgroup or "", match[match.lastgroup or 0]
        if kind == "op" and token == "{":
            closing = "}" if extended else r"\}"
            interval = _INTERVAL.match(text, at)
            if not interval or not text.startswith(closing, interval.end()):
                raise Unread("brace in a regular expression")
            at = interval.end() + len(closing)
            found.add("{n}" if "," not in interval[0] else "{n,m}")
            kind = "repeat"
        elif (kind == "op" and token in "+?") or (kind == "mark" and token == "*"):
            found.add(token)
            kind = "repeat"
        elif kind == "op" and token == "}":
            raise Unread("brace in a regular expression")
        elif kind == "mark" and token == "^":
            if last not in {"start", "(", "|"}:
                raise Unread("^ within a regular expression")
            found.add("^")
            kind = "anchor"
        elif kind == "mark" and token == "$":
            rest = text[at:].lstrip("\\")
            if rest and rest[0] not in ")|":
                raise Unread("$ within a regular expression")
            found.add("$")
            kind = "end"
        elif kind == "op":
            groups += (token == "(") - (token == ")")
            if groups < 0 or (token in "|)" and last in {"start", "(", "|", "anchor"}):
                raise Unread("empty branch in a regular expression")
            found |= {"( )"} if token == "(" else set()
            if token == "(":
                branches.append([])
            elif token == ")":
                found |= _alternatives(branches.pop())
                branches[-1].append(("group", ""))
            else:
                branches[-1].append(("|", ""))
            kind = token
        elif kind == "set":
            found |= _bracket(token)
        elif kind == "class":
            found.add(f"\\{token}")
        elif kind == "back":
            found.add("\\1")
        elif kind == "escaped":
            found.add("\\.")
        elif kind == "mark":
            found.add(".")
        if kind == "repeat":
            if last in {"start", "(", "|", "anchor", "repeat"}:
                raise Unread("repetition of nothing, or of a repetition")
            branches[-1].append(("repeat", ""))
        elif kind not in {"(", ")", "|"}:
            branches[-1].append((kind, token))
        last = kind
    if groups or last == "|":
        raise Unread("open group in a regular expression")
    return found | _alternatives(branches[0])


def _bracket(text: str) -> set[str]:
    inside = text[2:-1] if text[1] == "^" else text[1:-1]
    found = {"[^ ]" if text[1] == "^" else "[ ]"}
    if "\\" in inside:
        raise Unread("backslash in a bracket expression")
    found |= {f"[{name}]" for name in re.findall(r"\[:[a-z]+:\]", inside)}
    ranges = re.findall(r"(.)-(.)", re.sub(r"\[:[a-z]+:\]", "", inside))
    for low, high in ranges:
        if not (
            (low.isdigit() and high.isdigit())
            or (low.islower() and high.islower())
            or (low.isupper() and high.isupper())
        ):
            raise Unread("range in a bracket expression")
    return found | ({"[a-z]"} if ranges else set())


def _alternatives(tokens: Sequence[tuple[str, str]]) -> set[str]:
    """The feature of a group's alternatives: none, apart, or overlapping."""
    branches: list[list[tuple[str, str]]] = [[]]
    for kind, token in tokens:
        if kind == "|":
            branches.append([])
        else:
            branches[-1].append((kind, token))
    if len(branches) == 1:
        return set()
    heads: list[str] = []
    for branch in branches:
        body = branch[1:] if branch and branch[0][0] == "anchor" else branch
        if not body or body[0][0] not in {"plain", "escaped"} or (len(body) > 1 and body[1][0] == "repeat"):
            return {"| overlapping"}
        literal = "".join(token if kind in {"plain", "escaped"} else "\0" for kind, token in body).lower()
        heads.append(literal)
    literal_only = not any("\0" in head for head in heads)
    for i, one in enumerate(heads):
        for other in heads[i + 1 :]:
            same = one.startswith(other) or other.startswith(one) if literal_only else one[0] == other[0]
            if same:
                return {"| overlapping"}
    return {"|"}


# --- sed

_ADDRESS = re.compile(r"\d+~\d+|\d+|\$|\+\d+|/(?P<re>(?:\\.|\[\^?\]?[^\]]*\]|[^\\/\[\n])+)/(?P<flag>I?)")
_SUBSTITUTE_FLAGS = re.compile(r"(?:[gpI]|[1-9])*")
_REPLACEMENT = re.compile(r"\\(?:(?P<group>[1-9])|(?P<escape>[nt&/\\.*\[\]|\"'-])|.)|(?P<whole>&)|[^\\&\n]", re.DOTALL)


def sed(program: str, *, extended: bool = False) -> set[str]:
    """Features of a sed script: each command with the kind of its addresses, regular expressions, replacements."""
    if not program.isascii():
        raise Unread("sed script beyond ASCII")
    found: set[str] = set()
    at = depth = count = 0
    while True:
        skip = re.compile(r"[\s;]*").match(program, at)
        assert skip
        at = skip.end()
        if at >= len(program):
            break
        if program[at] == "}":
            depth -= 1
            at += 1
            continue
        count += 1
        shape = ""
        while match := _ADDRESS.match(program, at):
            at = match.end()
            if match["re"]:
                found |= {f"re {f}" for f in pattern(match["re"], extended=extended)}
            shape += "/" + match["flag"] if match["re"] else re.sub(r"\d+", "N", match[0])
            if not program.startswith(",", at):
                break
            at += 1
            shape += ","
        shape = shape if not shape.endswith(",") else "?"
        rest = re.compile(r"\s*(!?)\s*(\S)").match(program, at)
        if not rest or "?" in shape or shape.startswith("+"):
            raise Unread("sed address")
        at = rest.end()
        shape += rest[1]
        letter = rest[2]
        if letter == "{":
            depth += 1
            found.add(f"{shape}{{")
            continue
        if letter == "s":
            at, used = _substitution(program, at, extended=extended)
            found |= used
        elif letter == "y":
            match = re.compile(r"/([A-Za-z0-9 _]+)/([A-Za-z0-9 _]+)/").match(program, at)
            if not match or len(match[1]) != len(match[2]):
                raise Unread("sed y")
            at = match.end()
        elif letter in "aic":
            match = re.compile(r"(?:\\\n|\\| ) ?([A-Za-z0-9_#][^\\\n]*)(?:\n|$)").match(program, at)
            if not match:
                raise Unread(f"sed {letter}")
            at = match.end()
        elif letter not in "pdq=nNgGhHxDP":
            raise Unread(f"sed {letter}")
        found.add(shape + letter)
        end = re.compile(r"[ \t]*(?=[;\n}]|$)").match(program, at)
        if not end and letter not in "aic":
            raise Unread("sed command's end")
        at = end.end() if end else at
    if depth:
        raise Unread("sed braces")
    return found | ({"several commands"} if count > 1 else set())


def _substitution(program: str, at: int, *, extended: bool) -> tuple[int, set[str]]:
    mark = program[at : at + 1]
    if mark not in set("/|#,:@!_%"):
        raise Unread("sed delimiter")
    part = rf"((?:\\.|\[\^?\]?(?:\[:[a-z]+:\]|[^\]\n])*\]|[^\\\n\[{re.escape(mark)}])*)"
    replacement = rf"((?:\\.|[^\\\n{re.escape(mark)}])*)"
    m = re.escape(mark)
    match = re.compile(f"{m}{part}{m}{replacement}{m}").match(program, at)
    if not match or not match[1]:
        raise Unread("sed s")
    if mark != "/" and f"\\{mark}" in match[0]:
        raise Unread("escaped sed delimiter")
    if mark in "|" and extended:
        raise Unread("sed delimiter")
    found = {f"re {f}" for f in pattern(match[1], extended=extended)}
    found |= {"s delimiter"} if mark != "/" else set()
    for piece in _REPLACEMENT.finditer(match[2]):
        if piece["group"]:
            found.add("s \\1")
        elif piece["escape"]:
            found.add("s \\n" if piece["escape"] in "nt" else "s \\&")
        elif piece["whole"]:
            found.add("s &")
        elif piece[0].startswith("\\"):
            raise Unread("sed replacement")
    flags = _SUBSTITUTE_FLAGS.match(program, match.end())
    assert flags
    if flags[0]:
        found.add("s flags " + "".join(sorted(re.sub(r"\d", "N", flags[0]))))
    return flags.end(), found


# --- awk

_AWK = re.compile(
    r"(?P<space>[ \t]+|\\\n)|(?P<comment>\#[^\n]*)|(?P<newline>\n)"
    r'|(?P<string>"(?:[^"\\\n]|\\["\\nt/])*")|(?P<number>(?:0|[1-9]\d*)(?:\.\d+)?(?![\w.]))'
    r"|(?P<field>\$(?:\d+|NF|[a-z]\w*))|(?P<name>[A-Za-z_]\w*)(?P<call>\(?)"
    r"|(?P<op>\+\+|--|\+=|-=|\*=|/=|%=|\^=|==|!=|<=|>=|&&|\|\||!~|[-+*/%^<>=!~?:,;(){}\[\]]|\$(?=\())"
)
_AWK_WORDS = frozenset(
    "BEGIN END NR NF FNR FS OFS ORS print printf if else for while do in break continue next exit delete length substr "
    "index split sub gsub match toupper tolower sprintf int sqrt FILENAME RSTART RLENGTH".split()  # noqa: SIM905
)
_AWK_VALUES = {"number", "string", "field", "variable"}


def awk(program: str) -> set[str]:
    """Features of an awk program: words, operators, regular expressions, formats."""
    if not program.isascii():
        raise Unread("awk program beyond ASCII")
    found: set[str] = set()
    at, last, printing, parens = 0, "start", False, 0
    while at < len(program):
        if program[at] == "/" and last not in {*_AWK_VALUES, ")", "]"}:
            regex = re.compile(r"/((?:\\.|\[\^?\]?[^\]]*\]|[^\\/\[\n])+)/").match(program, at)
            if not regex:
                raise Unread("awk regular expression")
            found |= {"/re/", *(f"re {f}" for f in pattern(regex[1], extended=True))}
            at, last = regex.end(), ")"
            continue
        match = _AWK.match(program, at)
        if not match:
            raise Unread("awk program")
        at = match.end()
        if match["space"] or match["comment"]:
            continue
        if match["string"]:
            if last in {"printf", "printf(", "sprintf("}:
                found |= {f"printf {f}" for f in _formats(match["string"][1:-1])}
            elif last in {"~", "!~"} or "%" in match["string"] and last == "(":
                raise Unread("awk string as a pattern")
            found |= {"string escape"} if "\\" in match["string"] else set()
            last = "string"
        elif match["number"]:
            found |= {"decimal"} if "." in match["number"] else set()
            last = "number"
        elif match["field"]:
            field = match["field"][1:]
            found.add("$0" if field == "0" else "$NF" if field == "NF" else "$N" if field.isdigit() else "$x")
            last = "field"
        elif name := match["name"]:
            if name in _AWK_WORDS:
                found.add(name)
                if name in {"printf", "sprintf"}:
                    rest = re.compile(r"[ \t]*\(?[ \t]*\"").match(program, match.start() + len(name))
                    if not rest:
                        raise Unread("awk format that is not a literal")
                if name in {"print", "printf"}:
                    printing, parens = True, 0
                if name in {"sub", "gsub", "match", "split"} and match["call"]:
                    rest = re.compile(r"[ \t]*/" if name in {"sub", "gsub"} else r"").match(program, at)
                    if not rest:
                        raise Unread("awk pattern that is not a literal")
                last = name + match["call"]
                if name in {"NR", "NF", "FNR", "FILENAME", "OFS", "FS", "ORS", "RSTART", "RLENGTH"}:
                    last = "variable"
                parens += bool(match["call"])
            elif match["call"] or not re.fullmatch(r"[A-Za-z]\w{0,20}", name) or name.isupper() and len(name) > 2:
                raise Unread(f"awk {name}")
            else:
                last = "variable"
                if program.startswith("[", at):
                    found.add("array")
        elif match["newline"]:
            printing, last = False, ";"
        else:
            op = match["op"]
            if op == ">" and printing and parens == 0:
                raise Unread("awk output to a file")
            parens += (op == "(") - (op == ")")
            if op in {";", "}"}:
                printing = False
            if op not in {",", ";", "(", ")", "{", "}", "[", "]"}:
                found.add(op)
            last = op if op in {")", "]", "~", "!~", "("} else "op"
    return found


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
    if len(left) == 2 and left[0] in _UNARY:  # noqa: PLR2004 - operator and operand
        return found | {str(left[0])}
    if len(left) == 3 and left[1] in _BINARY and left[0] not in {"!", "(", *_UNARY}:  # noqa: PLR2004
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
        if word in {"-exec"}:
            end = next((i for i, w in enumerate(rest) if w in {";", "+"}), None)
            if end is None or end < 1 or "{}" not in rest[:end]:
                raise Unread("find -exec")
            nested(rest[:end])
            found.add(f"-exec {rest[end]}")
            rest = rest[end + 1 :]
        elif word in _FIND:
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
            r"(?P<class>\[:(?:upper|lower|digit|alpha|alnum|space|punct|blank):\])|(?P<range>a-z|A-Z|0-9|[a-z]-[a-z])|(?P<escape>\\[nt\\])|(?P<plain>[^\\\[\]-])|(?P<dash>-(?=$))"
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
    if len(words) != 3 or words[1] not in {"+", "-", "*", "/", "%", "<", ">", "=", "<=", ">=", "!="}:  # noqa: PLR2004
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
