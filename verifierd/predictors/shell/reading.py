"""Reads a command line into simple commands and the language features that it uses.

This is a reader for an allow-list, not a shell: whatever it does not fully understand raises `Unread`. It never
guesses, so a script that it reads has no feature that is not in `Script.features`.
"""

import re

import msgspec

__all__ = ("Command", "Redirect", "Script", "Unread", "Word", "read")


class Unread(Exception):  # noqa: N818 - it is an answer, not an error
    """The script has a form that this reader does not know; the text says which."""


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
    splits: bool = False


class Redirect(msgspec.Struct, frozen=True, kw_only=True):
    """A redirection: file descriptor, operator, target (None for here-documents), and which compound it is of, if any."""

    fd: int
    op: str
    target: Word | None
    compound: int | None = None


class Command(msgspec.Struct, kw_only=True):
    """One simple command, with where it stands.

    Attributes:
        name: Its first word; None for a bare assignment.
        args: The words after it.
        assigned: Names assigned by the words before it, with their values.
        redirects: Its redirections.
        piped: True if its standard input comes from a pipe or a redirection of its own.
        fed: True if what encloses it has such an input.
        after: The command that its standard output is piped into, as far as that is a simple one.
        into_pipe: True if its standard output goes into a pipe.
        before: The command whose output is piped into it.
        captured: True inside a command substitution.
        depth: How many loops, branches, groups and functions enclose it.
        function: The function whose body holds it, or None.
    """

    name: Word | None
    args: list[Word]
    assigned: dict[str, Word]
    redirects: list[Redirect]
    piped: bool = False
    fed: bool = False
    after: "Command | None" = None
    into_pipe: bool = False
    before: "Command | None" = None
    captured: bool = False
    depth: int = 0
    function: str | None = None


class Script(msgspec.Struct, kw_only=True):
    """What a command line says.

    Attributes:
        commands: Every simple command, nested ones included, in order of appearance.
        features: The language features that it uses.
        functions: Functions that it defines.
        names: Parameters that it expands.
        bound: The words that each name is given, in loops and assignments; None for one that cannot be told.
        arithmetic: True if an arithmetic expression assigns.
    """

    commands: list[Command] = msgspec.field(default_factory=list)
    features: set[str] = msgspec.field(default_factory=set)
    functions: set[str] = msgspec.field(default_factory=set)
    names: set[str] = msgspec.field(default_factory=set)
    bound: dict[str, list[Word | None]] = msgspec.field(default_factory=dict)
    arithmetic: bool = False


class _Expansion(msgspec.Struct, kw_only=True):
    """What a `$...` or a quoted text contributes to a word; a piece that is None is not known."""

    pieces: list[str | None] = msgspec.field(default_factory=list)
    names: list[str] = msgspec.field(default_factory=list)
    substitutes: bool = False
    source: str | None = None
    all: bool = False


_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=^\-\u0080-\U0010ffff]+")
_QUOTED_PLAIN = re.compile(r'[^"\\$`]+')
_HERE_PLAIN = re.compile(r"[^\\$`]+")
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
_ARRAY = re.compile(r"([A-Za-z_]\w*)(\+?)=\(")
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\[[0-9A-Za-z_]+\])?(\+?)=")
_REDIRECT = re.compile(r"([0-9]?)(<<<|<<-|<<|&>>|&>|>>|>&|>\||<&|<>|>|<)")
_HERE_WORD = re.compile(r"[ \t]*(?:'([A-Za-z_][\w.-]*)'|\"([A-Za-z_][\w.-]*)\"|([A-Za-z_][\w-]*))")
_ARITH = re.compile(
    r"(?P<space>[ \t]+)|(?P<number>(?:0|[1-9][0-9]*)(?![0-9A-Za-z_#.]))|(?P<octal>0[0-9]+|0[xX][0-9a-fA-F]+|[0-9]+\#[0-9a-zA-Z]+)"
    r"|\$?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<index>\[(?:[0-9]+|\$?[A-Za-z_]\w*)\])?|\$\{(?P<braced>[A-Za-z_]\w*)\}"
    r"|\$(?P<position>[0-9#?])|\$\{\#(?P<count>[A-Za-z_]\w*)(?:\[[@*]\])?\}"
    r"|(?P<op>\*\*|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%]=|[-+*/%<>!~&|^?:=,])"
)
_OPERATOR = re.compile(r"&&|\|\||;;&?|;&|\|&|[;&|\n()]")
_FUNCTION = re.compile(
    r"(?:function[ \t]+([A-Za-z_][\w-]*)[ \t]*(?:\([ \t]*\))?|([A-Za-z_][\w-]*)[ \t]*\([ \t]*\))(?=[ \t\n]*\{)"
)
_RESERVED = frozenset(["if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in"])
_REFUSED_WORDS = frozenset(["select", "time", "coproc", "function"])
_STATUS = "status of the step before"


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.script = Script()
        self.heres: list[tuple[str, bool, bool]] = []
        self.depth = 0
        self.captured = 0
        self.function: str | None = None
        self.fed = 0  # enclosing compounds whose input is redirected or piped
        self.ran = False  # whether `$?` speaks of a command of this script

    # --- lists and pipelines

    def listing(self, *ends: str) -> None:
        """Commands up to, not including, one of the end words (or `)`, or the end of text)."""
        while True:
            self.space(lines=True)
            if self.ends(ends):
                return
            self.and_or()
            self.blank()
            op = self.operator()
            if op == "&":
                raise Unread("background job")
            if op in {";", "\n"}:
                self.at += 1
                self.use("; or newline")
                if op == "\n":
                    self.here_bodies()
                continue
            if self.ends(ends):
                return
            raise Unread(f"{op or self.text[self.at : self.at + 10]!r} where a command should end")

    def and_or(self) -> None:
        self.pipeline()
        while True:
            self.blank()
            op = self.operator()
            if op not in {"&&", "||"}:
                return
            self.at += 2
            self.use(op)
            self.space(lines=True)
            self.pipeline()

    def pipeline(self) -> None:
        if self.word_ahead() == "!":
            self.at += 1
            self.blank()
            self.use("! pipeline")
        last: Command | None = None
        stage = 0
        while True:
            first = len(self.script.commands)
            self.fed += stage > 0
            simple = self.command()
            self.fed -= stage > 0
            if stage and simple:
                simple.before, simple.piped = last, True
            if last is not None:
                last.after = simple
            last = simple
            self.ran = True
            self.blank()
            if self.operator() != "|":
                if self.operator() == "|&":
                    raise Unread("|&")
                if stage and simple is None:
                    self.use("pipe into compound")
                return
            if simple is None:
                self.use("pipe from compound")
            for inner in self.script.commands[first:]:
                if not inner.captured or self.captured:
                    inner.into_pipe = True
            self.at += 1
            self.use("pipe")
            self.space(lines=True)
            stage += 1

    # --- commands

    def command(self) -> Command | None:
        """One command; returned if it is a simple one."""
        word = self.word_ahead()
        if self.text.startswith("((", self.at):
            self.at += 2
            self.use("(( ))")
            self.arithmetic("))")
            self.compound_tail([])
            return None
        if self.text.startswith("(", self.at):
            self.enclosed("( subshell )", "(", ")")
            return None
        if word == "{":
            self.enclosed("{ group }", "{", "}")
            return None
        if word == "[[":
            return self.condition()
        if word in {"if", "while", "until", "for", "case"}:
            self.depth += 1
            first = len(self.script.commands)
            self.at += len(word)
            getattr(self, f"{word}_")() if word != "until" else self.while_("until")
            self.depth -= 1
            self.compound_tail(self.script.commands[first:])
            return None
        if word in _RESERVED or word in _REFUSED_WORDS - {"function"}:
            raise Unread(f"{word!r} here")
        if match := _FUNCTION.match(self.text, self.at):
            self.define(match)
            return None
        return self.simple()

    def enclosed(self, feature: str, start: str, end: str) -> None:
        self.use(feature)
        self.at += len(start)
        self.depth += 1
        first = len(self.script.commands)
        self.listing(end)
        if len(self.script.commands) == first and feature[0] == "(":
            raise Unread("empty subshell")
        self.at += 1
        self.depth -= 1
        self.compound_tail(self.script.commands[first:])

    def define(self, match: re.Match[str]) -> None:
        name = match[1] or match[2]
        self.use("function name" if match[1] else "name()")
        self.script.functions.add(name)
        outer = self.function, self.ran
        self.function, self.ran = name, False
        self.at = match.end()
        self.space(lines=True)
        self.enclosed("{ group }", "{", "}")
        self.function, self.ran = outer

    def if_(self) -> None:
        self.use("if")
        self.listing("then")
        self.expect("then")
        self.listing("elif", "else", "fi")
        while self.word_ahead() == "elif":
            self.use("elif")
            self.at += 4
            self.listing("then")
            self.expect("then")
            self.listing("elif", "else", "fi")
        if self.word_ahead() == "else":
            self.use("else")
            self.at += 4
            self.listing("fi")
        self.expect("fi")

    def while_(self, word: str = "while") -> None:
        self.use(word)
        self.listing("do")
        self.body()

    def for_(self) -> None:
        self.blank()
        if self.text.startswith("((", self.at):
            self.use("for (( ))")
            self.at += 2
            self.arithmetic(";")
            self.arithmetic(";")
            self.arithmetic("))")
        else:
            match = _NAME.match(self.text, self.at)
            if not match:
                raise Unread("for without a name")
            self.at = match.end()
            self.space(lines=True)
            if self.word_ahead() != "in":
                raise Unread("for without in")
            self.at += 2
            self.use("for in")
            self.blank()
            while not self.operator():
                self.bind(match[0], self.word())
                self.blank()
        self.blank()
        if self.operator() in {";", "\n"}:
            self.at += 1
            self.here_bodies()
        self.space(lines=True)
        self.body()

    def body(self) -> None:
        self.expect("do")
        self.listing("done")
        self.expect("done")

    def case_(self) -> None:
        self.use("case")
        self.blank()
        self.word(assignment=True)
        self.space(lines=True)
        self.expect("in")
        while True:
            self.space(lines=True)
            if self.word_ahead() == "esac":
                break
            if self.text.startswith("(", self.at):
                self.at += 1
            while True:
                self.blank()
                self.word(pattern=True, assignment=True)
                self.blank()
                if self.text.startswith("|", self.at):
                    self.at += 1
                    self.use("case a|b")
                    continue
                break
            self.expect(")")
            self.listing(";;", "esac")
            if self.text.startswith(";;", self.at):
                if self.text[self.at + 2 : self.at + 3] == "&":
                    raise Unread(";;&")
                self.at += 2
        self.expect("esac")

    def condition(self) -> Command:
        """`[[ ... ]]`, returned as a command so that a pipeline may hold it."""
        self.at += 2
        self.use("[[ ]]")
        while True:
            self.space(lines=True)
            if self.text.startswith("]]", self.at):
                self.at += 2
                break
            if match := re.compile(r"&&|\|\||!(?=[ \t])|[()]").match(self.text, self.at):
                self.at = match.end()
                self.use(f"[[ {match[0]}")
                continue
            if match := re.compile(r"(-[a-zA-Z]{1,2}|==?|!=|<|>|=~)(?=[ \t])").match(self.text, self.at):
                self.at = match.end()
                self.use(f"[[ {match[1]}")
                if match[1] == "=~":
                    self.blank()
                    self.regex()
                continue
            if self.at >= len(self.text):
                raise Unread("[[ without ]]")
            self.word(pattern=True, assignment=True)
        command = Command(name=Word(text="[[", head="[["), args=[], assigned={}, redirects=[])
        self.place(command)
        self.compound_tail([])
        return command

    def regex(self) -> None:
        """The right side of `=~`: unquoted, plain, or one quoted parameter."""
        match = re.compile(
            r"(?:[A-Za-z0-9_.^$+*?,@:/\-]|\[[\^]?[A-Za-z0-9_.\-]+\]|\((?=[^?])|\)|\||\\\.|\{[0-9]+(?:,[0-9]*)?\})+(?=[ \t])"
        ).match(self.text, self.at)
        if not match:
            raise Unread("regular expression")
        if re.search(r"[*+?}][*+?{]|\$.", match[0]) or re.search(r".\^", re.sub(r"\[\^", "[", match[0])):
            raise Unread("regular expression")
        for mark in ("|", "(", "{"):
            if mark in match[0]:
                self.use(f"=~ {mark}")
        self.at = match.end()

    def compound_tail(self, inner: "list[Command]") -> None:
        """Redirections after a compound command."""
        while True:
            self.blank()
            match = _REDIRECT.match(self.text, self.at)
            if not match:
                return
            redirect = msgspec.structs.replace(self.redirect(match), compound=self.at)
            self.use("compound with redirection")
            for command in inner:
                command.redirects.append(redirect)
                command.fed = command.fed or redirect.fd == 0

    def simple(self) -> Command:
        command = Command(name=None, args=[], assigned={}, redirects=[])
        prefixed = False
        while True:
            self.blank()
            if self.at >= len(self.text):
                break
            match = _REDIRECT.match(self.text, self.at)
            if match:
                redirect = self.redirect(match)
                command.redirects.append(redirect)
                if redirect.fd == 0:
                    command.piped = True
                continue
            if self.operator():
                break
            if command.name is None:
                if match := _ARRAY.match(self.text, self.at):
                    self.array(match, command)
                    continue
                if match := _ASSIGN.match(self.text, self.at):
                    self.use(f"x{'[i]' if match[2] else ''}{match[3]}=")
                    self.at = match.end()
                    empty = self.at >= len(self.text) or self.text[self.at] in " \t\n;&|)"
                    value = Word(text="", head="") if empty else self.word(assignment=True)
                    self.bind(match[1], None if match[3] else value)
                    command.assigned[match[1]] = value
                    continue
                command.name = self.word()
                prefixed = bool(command.assigned)
            elif command.name.text in {"local", "export", "declare", "readonly"} and (
                (match := _ARRAY.match(self.text, self.at)) or (match := _ASSIGN.match(self.text, self.at))
            ):
                if match.re is _ARRAY:
                    self.array(match, command)
                    continue
                self.at = match.end()
                empty = self.at >= len(self.text) or self.text[self.at] in " \t\n;&|)"
                value = Word(text="", head="") if empty else self.word(assignment=True)
                self.bind(match[1], None if match[3] else value)
                command.assigned[match[1]] = value
            else:
                command.args.append(self.word())
        if command.name is None and not command.assigned and not command.redirects:
            raise Unread("empty command")
        if command.name is None and command.redirects:
            self.use("redirection without command")
        elif command.name is not None and prefixed:
            self.use(f"assignment before {command.name.text}")
        self.place(command)
        return command

    def place(self, command: Command) -> None:
        command.captured = self.captured > 0
        command.depth = self.depth
        command.function = self.function
        command.fed = self.fed > 0
        self.script.commands.append(command)

    def array(self, match: re.Match[str], command: Command) -> None:
        self.use("x=()" if not match[2] else "x+=()")
        self.at = match.end()
        while True:
            self.space(lines=True)
            if self.text.startswith(")", self.at):
                self.at += 1
                break
            if self.text.startswith("[", self.at):
                raise Unread("array with subscripts")
            self.bind(match[1], self.word())
        command.assigned[match[1]] = Word(text="", head="")

    # --- redirections

    def redirect(self, match: re.Match[str]) -> Redirect:
        op = match[2]
        fd = int(match[1]) if match[1] else 0 if op.startswith("<") else 1
        if fd > 2:
            raise Unread("file descriptor above 2")
        self.at = match.end()
        if op in {"<<", "<<-"}:
            here = _HERE_WORD.match(self.text, self.at)
            if not here:
                raise Unread("here-document's end word")
            literal = here[3] is None
            self.at = here.end()
            self.heres.append((here[1] or here[2] or here[3], literal, op == "<<-"))
            self.use(f"{op}{'quoted' if literal else ''}")
            return Redirect(fd=fd, op=op, target=None)
        if op in {">&", "<&"}:
            duplicate = re.compile(r"([12])(?=[\s;&|)]|$)").match(self.text, self.at)
            if not duplicate or op == "<&":
                raise Unread(f"redirection {op}")
            self.at = duplicate.end()
            self.use(f"{fd}>&{duplicate[1]}")
            return Redirect(fd=fd, op=op, target=Word(text=duplicate[1], head=duplicate[1]))
        self.blank()
        target = self.word()
        if target.globs:
            raise Unread("wildcard in a redirection")
        null = "/dev/null" if target.text == "/dev/null" else "file"
        self.use(f"{match[1]}{op}{'' if op == '<<<' else null}")
        return Redirect(fd=fd, op=op, target=target)

    def here_bodies(self) -> None:
        """After a newline: the bodies of the here-documents that were announced."""
        for end, literal, strip in self.heres:
            lines = re.compile(rf"^{chr(9) + '*' if strip else ''}{re.escape(end)}$", re.MULTILINE)
            match = lines.search(self.text, self.at)
            if not match:
                raise Unread("here-document without an end")
            if not literal:
                stop, inner = match.start(), _Reader(self.text[: match.start()])
                inner.at, inner.script = self.at, self.script
                inner.captured, inner.depth, inner.function, inner.ran = (
                    self.captured,
                    self.depth,
                    self.function,
                    self.ran,
                )
                inner.quoted(_HERE_PLAIN, None)
                assert inner.at == stop
            self.at = min(match.end() + 1, len(self.text))
        self.heres = []

    # --- words

    def word(self, *, pattern: bool = False, assignment: bool = False) -> Word:
        """One word; in a `pattern` or an `assignment` wildcards and words do not split or match files."""
        start, text = self.at, self.text
        pieces: list[str | None] = []  # None stands for an expansion
        names: list[str] = []
        quoted = globs = splits = False
        source: str | None = None
        substitutes = False
        if text.startswith("~", self.at):
            if text[self.at + 1 : self.at + 2] not in {"", "/", " ", "\n", ";", "&", ")", "|"}:
                raise Unread("~user")
            self.use("~")
            self.script.names.add("HOME")
            names.append("HOME")
            pieces.append(None)
            self.at += 1
        while self.at < len(text):
            char = text[self.at]
            if match := _PLAIN.match(text, self.at):
                self.at = match.end()
                pieces.append(match[0])
            elif char == "'":
                match = _SINGLE.match(text, self.at)
                if not match:
                    raise Unread("quote without an end")
                self.at, quoted = match.end(), True
                pieces.append(match[1])
                self.use("'...'")
            elif char == '"':
                self.at += 1
                quoted = True
                self.use('"..."')
                inner = self.quoted(_QUOTED_PLAIN, '"')
                pieces += inner.pieces
                names += inner.names
                splits = splits or not {"@"}.isdisjoint(inner.names) or inner.all
                if inner.substitutes:
                    substitutes, source = True, inner.source
            elif char == "\\":
                if self.at + 1 >= len(text):
                    raise Unread("backslash at the end")
                self.at += 2
                if text[self.at - 1] != "\n":
                    quoted = True
                    pieces.append(text[self.at - 1])
                    self.use("\\x")
            elif char == "$" and (match := _ANSI.match(text, self.at)):
                self.use("$'...'")
                self.at, quoted = match.end(), True
                pieces.append(re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), match[1]))
            elif char == "$":
                found = self.dollar(in_quotes=False, assignment=assignment)
                pieces += found.pieces
                names += found.names
                if None in found.pieces:
                    splits = splits or not (assignment or found.names == ["(("])
                if found.substitutes:
                    substitutes, source = True, found.source
            elif char in "*?[" and (wild := self.wildcard(start, pattern=pattern)):
                if pattern or assignment or wild in {"[ ", "[[ "}:
                    pieces.append(wild.rstrip())
                else:
                    globs = splits = True
                    pieces.append(None)
            elif char == "{":
                pieces += self.brace(plain=pattern or assignment, first=not pieces)
                splits = splits or pieces[-1] is None
            elif char in "]~}!" or (char == "#" and self.at > start):
                self.at += 1
                pieces.append(char)
            else:
                break
        if self.at == start:
            raise Unread(f"{text[start : start + 10]!r} where a word should be")
        if text.startswith(("<(", ">("), self.at):
            raise Unread("process substitution")
        hole = pieces.index(None) if None in pieces else len(pieces)
        literal = [piece for piece in pieces if piece is not None]
        return Word(
            text="".join(literal) if hole == len(pieces) else None,
            head="".join(literal[:hole]),
            holes="".join("\0" if piece is None else piece for piece in pieces),
            quoted=quoted,
            names=tuple(names),
            globs=globs,
            substitutes=substitutes,
            source=source,
            splits=splits,
        )

    def wildcard(self, start: int, *, pattern: bool) -> str:
        """`*`, `?` or a bracket; a bracket that is a command's name comes back with a blank."""
        text = self.text
        if text[self.at] == "[":
            if self.at == start and text[self.at + 1 : self.at + 2] in {" ", "\t"}:
                self.at += 1
                return "[ "
            match = _BRACKET_GLOB.match(text, self.at)
            if not match:
                raise Unread("bracket pattern")
            self.at = match.end()
            self.use(f"{'pattern' if pattern else 'glob'} [{'!' if match[0][1] in '!^' else ''}]")
            return match[0]
        self.at += 1
        self.use(f"{'pattern' if pattern else 'glob'} {text[self.at - 1]}")
        return text[self.at - 1]

    def brace(self, *, plain: bool, first: bool) -> list[str | None]:
        """A brace expansion, as what its first word begins with and a hole; or `{}`, which is literal."""
        if plain:
            raise Unread("brace in a pattern or assignment")
        if match := _BRACE_LIST.match(self.text, self.at) or _BRACE_RANGE.match(self.text, self.at):
            self.use("{a,b}" if "," in match[0] else "{a..b}")
            self.at = match.end()
            if first and re.search(r"[{,]-", match[0]):
                raise Unread("option in a brace")
            return [match[0][1] if match[0][1] not in ",}" else "", None] if first else [None]
        if not self.text.startswith("{}", self.at):
            raise Unread("brace")
        self.at += 2
        return ["{}"]

    def quoted(self, plain: re.Pattern[str], end: str | None) -> "_Expansion":
        """Text in double quotes, or the body of a here-document (`end` None)."""
        text = self.text
        result = _Expansion()
        while True:
            if match := plain.match(text, self.at):
                result.pieces.append(match[0])
                self.at = match.end()
            if self.at >= len(text):
                if end is None:
                    break
                raise Unread("quote without an end")
            char = text[self.at]
            if char == end:
                self.at += 1
                break
            if char == "\\":
                follower = text[self.at + 1 : self.at + 2]
                self.at += 2
                special = "$`\\" if end is None else '$`"\\'
                if follower != "\n":
                    result.pieces.append(follower if follower and follower in special else f"\\{follower}")
                continue
            if char == "`":
                raise Unread("backquotes")
            found = self.dollar(in_quotes=True)
            result.pieces += found.pieces
            result.names += found.names
            result.all = result.all or found.all
            if found.substitutes:
                result.substitutes, result.source = True, found.source
        return result

    def dollar(self, *, in_quotes: bool, assignment: bool = False) -> "_Expansion":
        """An expansion, or a `$` that stands for itself."""
        text = self.text
        if text.startswith("$((", self.at):
            self.at += 3
            self.use("$(( ))")
            self.arithmetic("))")
            return _Expansion(pieces=[None], names=["(("])
        if text.startswith("$(", self.at):
            self.at += 2
            self.use("$( )" if in_quotes or assignment else "$( ) unquoted")
            saved = self.heres, self.fed, self.ran
            self.heres, self.fed, self.ran = [], 0, False
            self.captured += 1
            first = len(self.script.commands)
            self.listing(")")
            self.captured -= 1
            self.heres, self.fed, self.ran = saved
            self.at += 1
            inner = self.script.commands[first:]
            last = inner[-1].name if inner else None
            return _Expansion(pieces=[None], substitutes=True, source=last.text if last else None)
        if text.startswith("${", self.at):
            name, every = self.braced('"' if in_quotes else "")
            if not in_quotes and not assignment:
                self.use("word splitting")
            return _Expansion(pieces=[None], names=[name], all=every)
        match = _PARAMETER.match(text, self.at)
        if not match:
            follower = text[self.at + 1 : self.at + 2]
            if follower in {"'", '"', "[", "`"} and not (in_quotes and follower == '"'):
                raise Unread(f"${follower}")
            self.at += 1
            return _Expansion(pieces=["$"])
        self.at = match.end()
        self.parameter(match[1], '"$' if in_quotes else "$", split=not in_quotes and not assignment)
        return _Expansion(pieces=[None], names=[match[1]])

    def parameter(self, name: str, form: str, *, split: bool = False) -> None:
        if name in {"$", "!", "-", "_", "0"}:
            raise Unread(f"${name}")
        if name == "?" and not self.ran:
            raise Unread(_STATUS)
        self.script.names.add(name)
        self.use(f"{form}{'x' if name[0].isalpha() or name[0] == '_' else '1' if name.isdigit() else name}")
        if split:
            self.use("word splitting")

    def braced(self, quotes: str) -> tuple[str, bool]:
        """`${...}`: the parameter, and whether it may become several words even in quotes."""
        match = _BRACED.match(self.text, self.at)
        if not match:
            raise Unread("${ }")
        name, index = match["name"], match["index"] or ""
        self.at = match.end()
        shown = re.sub(r"-?[0-9]+", "0", re.sub(r"\$?[A-Za-z_]\w*", "i", index))
        form = f"{quotes}${{{match['length'] or ''}{'x' if name[0].isalpha() or name[0] == '_' else name}{shown}"
        self.script.names.add(name)
        if name == "?" and not self.ran:
            raise Unread(_STATUS)
        if self.text.startswith("}", self.at):
            self.at += 1
            self.use(form + "}")
            return name, "@" in form
        if match["length"]:
            raise Unread("${# }")
        op = _BRACED_OP.match(self.text, self.at)
        if not op:
            raise Unread("${ }")
        self.at = op.end()
        if op[0] == ":":
            part = _BRACED_SLICE.match(self.text, self.at)
            if not part:
                raise Unread("${x: }")
            self.at = part.end()
            sign = "-" if part[1].startswith(" ") else ""
            length = "" if not part[2] else ":-n" if part[2].startswith("-") else ":n"
            self.use(f"{form}:{sign}n{length}}}")
            return name, "@" in form
        if op[0] in {"=", ":="}:
            self.bind(name, None)
        text = _BRACED_TEXT.match(self.text, self.at)
        assert text
        self.at = text.end()
        for mark in "*?":
            if mark in text[0] and op[0][0] in "%#/^,":
                self.use(f"${{ }} pattern {mark}")
        if self.text.startswith("$", self.at) and op[0][0] in ":-=+?":
            inner = _PARAMETER.match(self.text, self.at)
            if not inner:
                raise Unread("${ } within ${ }")
            self.at = inner.end()
            self.parameter(inner[1], "${ }$")
        elif op[0][0] == "/" and self.text.startswith("\\/", self.at):
            raise Unread("escape in ${ / }")
        if not self.text.startswith("}", self.at):
            raise Unread("${ } with more than plain text")
        self.at += 1
        self.use(f"{form}{op[0]}{'w' if text[0] else ''}}}")
        return name, "@" in form

    def arithmetic(self, end: str) -> None:
        """An arithmetic expression up to its end, which is consumed."""
        depth = 0
        last = ""
        while True:
            if self.text.startswith("(", self.at):
                depth += 1
                self.at += 1
                last = "("
                continue
            if depth and self.text.startswith(")", self.at):
                depth -= 1
                self.at += 1
                last = ")"
                continue
            if not depth and self.text.startswith(end, self.at):
                self.at += len(end)
                return
            match = _ARITH.match(self.text, self.at)
            if not match:
                raise Unread("arithmetic")
            self.at = match.end()
            if match["octal"]:
                self.use("(( 010 or 0x10")
            if name := match["name"] or match["braced"] or match["position"] or match["count"]:
                if name == "?" and not self.ran:
                    raise Unread(_STATUS)
                self.script.names.add(name)
                last = name
            if op := match["op"]:
                self.use(f"(( {op}")
                if op in {"++", "--"} or (op.endswith("=") and op not in {"==", "!=", "<=", ">="}):
                    self.script.arithmetic = True
                    self.bind(last, None)
                    ahead = re.compile(r"\s*([A-Za-z_]\w*)").match(self.text, self.at)
                    if op in {"++", "--"} and ahead:
                        self.bind(ahead[1], None)

    # --- small things

    def bind(self, name: str, value: Word | None) -> None:
        self.script.bound.setdefault(name, []).append(value)

    def use(self, feature: str) -> None:
        self.script.features.add(feature)

    def blank(self) -> bool:
        if match := _BLANK.match(self.text, self.at):
            self.at = match.end()
        if self.text.startswith("#", self.at) and (self.at == 0 or self.text[self.at - 1] in " \t\n;"):
            match = _COMMENT.match(self.text, self.at)
            assert match
            self.at = match.end()
            self.use("# comment")
        return False

    def space(self, *, lines: bool) -> None:
        self.blank()
        while lines and self.text.startswith("\n", self.at):
            self.at += 1
            self.here_bodies()
            self.blank()

    def operator(self) -> str | None:
        match = _OPERATOR.match(self.text, self.at)
        return match[0] if match else None

    def word_ahead(self) -> str:
        """The plain word here if a blank or operator follows it, for reserved words."""
        match = re.compile(r"(?:[a-z]+|[{}!]|\[\[|\]\])(?=[\s;&|()<>]|$)").match(self.text, self.at)
        return match[0] if match else ""

    def ends(self, ends: tuple[str, ...]) -> bool:
        if self.at >= len(self.text):
            if ends:
                raise Unread(f"end of text before {ends[-1]!r}")
            return True
        if self.word_ahead() in ends:
            return True
        return any(e in {")", ";;"} and self.text.startswith(e, self.at) for e in ends)

    def expect(self, word: str) -> None:
        if not self.text.startswith(word, self.at):
            raise Unread(f"{word!r} is missing")
        self.at += len(word)


def read(text: str) -> Script:
    """Read a command line.

    Raises:
        Unread: It has a form that is not known here.
    """
    if "\r" in text or "\0" in text:
        raise Unread("carriage return or NUL")
    if "`" in text and "<<" not in text and "'" not in text:
        raise Unread("backquotes")
    reader = _Reader(text)
    try:
        reader.listing()
    except RecursionError:
        raise Unread("too deep") from None
    if reader.heres:
        raise Unread("here-document without an end")
    return reader.script
