"""Reads a command line into simple commands and the language features that it uses.

This is a reader for an allow-list, not a shell: whatever it does not fully understand raises `Unread`. It never
guesses, so a script that it reads has no feature that is not in `Script.features`.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from verifierd.commandline.words import Mode, Unread, Word, WordReader

__all__ = ("Command", "Compound", "Pipeline", "Redirect", "Script", "Unread", "Word", "read")


class Redirect(msgspec.Struct, kw_only=True):
    """A redirection.

    Attributes:
        fd: The file descriptor, 0 to 2.
        op: The operator.
        target: The file, or the descriptor's number after `>&`; None for here-documents.
        body: What a here-document says, or None if that depends on expansion.
        compound: Which compound command it is of; None if it is the simple command's own.
    """

    fd: int
    op: str
    target: Word | None
    body: str | None = None
    compound: int | None = None


class Command(msgspec.Struct, kw_only=True):
    """One simple command, with where it stands.

    Attributes:
        name: Its first word; None for a bare assignment.
        args: The words after it, but for assignments of `export` and its like.
        assigned: Names that it assigns, with their values.
        redirects: Its redirections, and those of the compound commands around it.
        piped: True if its standard input comes from a pipe or a redirection of its own.
        fed: True if what encloses it has such an input.
        before, after: The simple commands that pipe into it, and that it pipes into.
        into_pipe: True if its standard output goes into a pipe.
        captured: True inside a command substitution.
        function: The function whose body holds it, or None.
    """

    name: Word | None = None
    args: list[Word] = msgspec.field(default_factory=list)
    assigned: dict[str, Word] = msgspec.field(default_factory=dict)
    redirects: list[Redirect] = msgspec.field(default_factory=list)
    piped: bool = False
    fed: bool = False
    before: "Command | None" = None
    after: "Command | None" = None
    into_pipe: bool = False
    captured: bool = False
    function: str | None = None


class Compound(msgspec.Struct, kw_only=True):
    """A compound command.

    Attributes:
        kind: How it opens: `(`, `{`, `if`, `while`, `until`, `for`, `case`, `((`; `function` for a definition.
        body: What a subshell or a group runs; empty for the others, whose parts may run any number of times.
        redirects: Its own redirections.
    """

    kind: str
    body: list["Pipeline"] = msgspec.field(default_factory=list)
    redirects: list[Redirect] = msgspec.field(default_factory=list)


class Pipeline(msgspec.Struct, kw_only=True):
    """Commands joined by `|`, and how they follow what is before them.

    Attributes:
        link: `&&`, `||`, or `;` for a new list, the first one included.
        negated: True after `!`.
        stages: The commands, first to last.
    """

    link: str = ";"
    negated: bool = False
    stages: list[Command | Compound] = msgspec.field(default_factory=list)


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line says.

    Attributes:
        pipelines: What it runs at the top, in order.
        commands: Every simple command, nested ones included, in order of appearance.
        features: The language features that it uses.
        functions: Functions that it defines.
        names: Parameters that it expands.
        bound: The words that each name is given, in loops and assignments; None for one that cannot be told.
        computes: True if an arithmetic expression assigns.
    """

    pipelines: list[Pipeline]
    commands: list[Command]
    features: set[str]
    functions: set[str]
    names: set[str]
    bound: dict[str, list[Word | None]]
    computes: bool


class _Here(NamedTuple):
    """A here-document that was announced: end word, whether its body is literal, whether tabs are stripped, of whom."""

    end: str
    literal: bool
    strip: bool
    redirect: Redirect


_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HERE_PLAIN = re.compile(r"[^\\$`]+")
_ARRAY = re.compile(r"([A-Za-z_]\w*)(\+?)=\(")
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\[[0-9A-Za-z_]+\])?(\+?)=")
_REDIRECT = re.compile(r"([0-9]?)(<<<|<<-|<<|&>>|&>|>>|>&|>\||<&|<>|>|<)")
_DESCRIPTOR = re.compile(r"([12])(?=[\s;&|)]|$)")
_HERE_WORD = re.compile(r"[ \t]*(?:'([A-Za-z_][\w.-]*)'|\"([A-Za-z_][\w.-]*)\"|([A-Za-z_][\w-]*))")
_OPERATOR = re.compile(r"&&|\|\||;;&?|;&|\|&|[;&|\n()]")
_FUNCTION = re.compile(
    r"(?:function[ \t]+([A-Za-z_][\w-]*)[ \t]*(?:\([ \t]*\))?|([A-Za-z_][\w-]*)[ \t]*\([ \t]*\))(?=[ \t\n]*\{)"
)
_WORD_AHEAD = re.compile(r"(?:[a-z]+|[{}!]|\[\[|\]\])(?=[\s;&|()<>]|$)")
_CONDITION_LINK = re.compile(r"&&|\|\||!(?=[ \t])|[()]")
_CONDITION_TEST = re.compile(r"(-[a-zA-Z]{1,2}|==?|!=|<|>|=~)(?=[ \t])")
_CONDITION_REGEX = re.compile(
    r"(?:[A-Za-z0-9_.^$+*?,@:/\-]|\[[\^]?[A-Za-z0-9_.\-]+\]|\((?=[^?])|\)|\||\\\.|\{[0-9]+(?:,[0-9]*)?\})+(?=[ \t])"
)
_RESERVED = frozenset(
    [
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "in",
        "select",
        "time",
        "coproc",
    ]
)
_DECLARING = frozenset({"local", "export", "declare", "readonly"})


def read(text: str) -> Script:
    """Read a command line.

    Raises:
        Unread: It has a form that is not known here.
    """
    if "\r" in text or "\0" in text:
        raise Unread("carriage return or NUL")
    reader = _Reader(text)
    try:
        pipelines = reader.listing()
    except RecursionError:
        raise Unread("too deep") from None
    if reader.heres:
        raise Unread("here-document without an end")
    return reader.script(pipelines)


class _Reader(WordReader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.commands: list[Command] = []
        self.functions: set[str] = set()
        self.heres: list[_Here] = []
        self.captured = 0
        self.function: str | None = None
        self.fed = 0  # enclosing compounds whose input is redirected or piped

    def script(self, pipelines: list[Pipeline]) -> Script:
        return Script(
            pipelines=pipelines,
            commands=self.commands,
            features=self.features,
            functions=self.functions,
            names=self.names,
            bound=self.bound,
            computes=self.computes,
        )

    # --- lists and pipelines

    def listing(self, *ends: str) -> list[Pipeline]:
        """Commands up to, not including, one of the end words (or `)`, or the end of the text)."""
        pipelines: list[Pipeline] = []
        while True:
            self.space()
            if self.ends(ends):
                return pipelines
            pipelines += self.and_or()
            self.blank()
            op = self.operator()
            if op in {";", "\n"}:
                self.at += 1
                self.use("; or newline")
                if op == "\n":
                    self.here_bodies()
            elif op == "&":
                raise Unread("background job")
            elif self.ends(ends):
                return pipelines
            else:
                raise Unread(f"{op or self.text[self.at : self.at + 10]!r} where a command should end")

    def and_or(self) -> list[Pipeline]:
        pipelines = [self.pipeline(";")]
        while True:
            self.blank()
            op = self.operator()
            if op not in {"&&", "||"}:
                return pipelines
            self.at += 2
            self.use(op)
            self.space()
            pipelines.append(self.pipeline(op))

    def pipeline(self, link: str) -> Pipeline:
        pipeline = Pipeline(link=link, negated=self.word_ahead() == "!")
        if pipeline.negated:
            self.at += 1
            self.blank()
            self.use("! pipeline")
        pipeline.stages.append(self.stage(None, first=True))
        while self.operator() == "|":
            self.at += 1
            self.use("pipe")
            self.space()
            pipeline.stages.append(self.stage(pipeline.stages[-1], first=False))
        if self.operator() == "|&":
            raise Unread("|&")
        return pipeline

    def stage(self, previous: Command | Compound | None, *, first: bool) -> Command | Compound:
        """One command of a pipeline, told of its neighbours."""
        start = len(self.commands)
        self.fed += not first
        stage = self.command()
        self.fed -= not first
        simple = stage if isinstance(stage, Command) else None
        before = previous if isinstance(previous, Command) else None
        if simple is not None and not first:
            simple.before, simple.piped = before, True
        if before is not None:
            before.after = simple
        self.ran = True
        self.blank()
        piping = self.operator() == "|"
        if simple is None and (piping or not first):
            self.use("pipe from compound" if piping else "pipe into compound")
        if piping:
            for inner in self.commands[start:]:
                if not inner.captured or self.captured:
                    inner.into_pipe = True
        return stage

    # --- commands

    def command(self) -> Command | Compound:
        """One command."""
        word = self.word_ahead()
        start = len(self.commands)
        compound = Compound(kind=word)
        compounds = {"if": self.if_, "while": self.while_, "until": self.until_, "for": self.for_, "case": self.case_}
        if self.text.startswith("((", self.at):
            self.at += 2
            self.use("(( ))")
            self.arithmetic("))")
            compound.kind = "(("
        elif self.text.startswith("(", self.at):
            compound.kind, compound.body = "(", self.enclosed("( subshell )", ")")
        elif word == "{":
            compound.body = self.enclosed("{ group }", "}")
        elif word in compounds:
            self.at += len(word)
            compounds[word]()
        elif match := None if word in _RESERVED else self.take(_FUNCTION):
            self.define(match)
            compound.kind = "function"
        else:
            return self.condition() if word == "[[" else self.simple()
        compound.redirects = self.compound_tail(self.commands[start:])
        return compound

    def enclosed(self, feature: str, end: str) -> list[Pipeline]:
        self.use(feature)
        self.at += 1
        start = len(self.commands)
        body = self.listing(end)
        if len(self.commands) == start and end == ")":
            raise Unread("empty subshell")
        self.at += 1
        return body

    def define(self, match: re.Match[str]) -> None:
        name = match[1] or match[2]
        self.use("function name" if match[1] else "name()")
        self.functions.add(name)
        outer = self.function, self.ran
        self.function, self.ran = name, False
        self.space()
        self.enclosed("{ group }", "}")
        self.function, self.ran = outer

    def if_(self) -> None:
        self.use("if")
        self.branch("then", "elif", "else", "fi")
        while self.word_ahead() == "elif":
            self.use("elif")
            self.at += len("elif")
            self.branch("then", "elif", "else", "fi")
        if self.word_ahead() == "else":
            self.use("else")
            self.at += len("else")
            self.listing("fi")
        self.expect("fi")

    def branch(self, word: str, *ends: str) -> None:
        """A list up to a word, and the list after it up to one of the ends."""
        self.listing(word)
        self.expect(word)
        self.listing(*ends)

    def while_(self) -> None:
        self.use("while")
        self.loop()

    def until_(self) -> None:
        self.use("until")
        self.loop()

    def loop(self) -> None:
        self.branch("do", "done")
        self.expect("done")

    def for_(self) -> None:
        self.blank()
        if self.text.startswith("((", self.at):
            self.use("for (( ))")
            self.at += 2
            for end in (";", ";", "))"):
                self.arithmetic(end)
        else:
            self.for_in()
        self.blank()
        if self.operator() in {";", "\n"}:
            self.at += 1
            self.here_bodies()
        self.space()
        self.expect("do")
        self.listing("done")
        self.expect("done")

    def for_in(self) -> None:
        match = self.take(_NAME)
        if not match:
            raise Unread("for without a name")
        self.space()
        if self.word_ahead() != "in":
            raise Unread("for without in")
        self.at += len("in")
        self.use("for in")
        self.blank()
        while not self.operator():
            self.bind(match[0], self.word())
            self.blank()

    def case_(self) -> None:
        self.use("case")
        self.blank()
        self.word(Mode.VALUE)
        self.space()
        self.expect("in")
        self.space()
        while self.word_ahead() != "esac":
            if self.text.startswith("(", self.at):
                self.at += 1
            self.blank()
            self.word(Mode.PATTERN)
            self.blank()
            while self.text.startswith("|", self.at):
                self.at += 1
                self.use("case a|b")
                self.blank()
                self.word(Mode.PATTERN)
                self.blank()
            self.expect(")")
            self.listing(";;", "esac")
            if self.text.startswith(";;", self.at):
                self.at += 2
            self.space()
        self.expect("esac")

    def condition(self) -> Command:
        """`[[ ... ]]`, returned as a command so that a pipeline may hold it."""
        self.at += 2
        self.use("[[ ]]")
        self.space()
        while not self.text.startswith("]]", self.at):
            if self.at >= len(self.text):
                raise Unread("[[ without ]]")
            if match := self.take(_CONDITION_LINK) or self.take(_CONDITION_TEST):
                self.use(f"[[ {match[0]}")
                if match[0] == "=~":
                    self.blank()
                    self.regex()
            else:
                self.word(Mode.PATTERN)
            self.space()
        self.at += 2
        command = self.place(Command(name=Word(text="[[", head="[[")))
        self.compound_tail([])
        return command

    def regex(self) -> None:
        """The right side of `=~`, unquoted and plain."""
        match = self.take(_CONDITION_REGEX)
        if not match:
            raise Unread("regular expression")
        if re.search(r"[*+?}][*+?{]|\$.", match[0]) or re.search(r".\^", re.sub(r"\[\^", "[", match[0])):
            raise Unread("regular expression")
        for mark in ("|", "(", "{"):
            if mark in match[0]:
                self.use(f"=~ {mark}")

    def compound_tail(self, inner: Sequence[Command]) -> list[Redirect]:
        """Redirections after a compound command."""
        redirects: list[Redirect] = []
        while True:
            self.blank()
            match = self.take(_REDIRECT)
            if not match:
                return redirects
            redirect = self.redirect(match)
            redirect.compound = self.at
            redirects.append(redirect)
            self.use("compound with redirection")
            for command in inner:
                command.redirects.append(redirect)
                command.fed = command.fed or redirect.fd == 0

    def simple(self) -> Command:
        command = Command()
        prefixed = False
        self.blank()
        while self.at < len(self.text):
            if match := self.take(_REDIRECT):
                redirect = self.redirect(match)
                command.redirects.append(redirect)
                command.piped = command.piped or redirect.fd == 0
            elif self.operator():
                break
            elif command.name is None:
                if not self.assignment(command):
                    command.name = self.word()
                    prefixed = bool(command.assigned)
            elif command.name.text not in _DECLARING or not self.assignment(command):
                command.args.append(self.word())
            self.blank()
        if command.name is None and not command.assigned and not command.redirects:
            raise Unread("empty command")
        if command.name is None and command.redirects:
            self.use("redirection without command")
        elif command.name is not None and prefixed:
            self.use(f"assignment before {command.name.text}")
        return self.place(command)

    def place(self, command: Command) -> Command:
        command.captured = self.captured > 0
        command.function = self.function
        command.fed = self.fed > 0
        self.commands.append(command)
        return command

    def assignment(self, command: Command) -> bool:
        """Read an assignment, if there is one here."""
        if match := self.take(_ARRAY):
            self.array(match)
            command.assigned[match[1]] = Word(text="", head="")
            return True
        match = self.take(_ASSIGN)
        if not match:
            return False
        if command.name is None:
            self.use(f"x{'[i]' if match[2] else ''}{match[3]}=")
        empty = self.at >= len(self.text) or self.text[self.at] in " \t\n;&|)"
        value = Word(text="", head="") if empty else self.word(Mode.VALUE)
        self.bind(match[1], None if match[3] else value)
        command.assigned[match[1]] = value
        return True

    def array(self, match: re.Match[str]) -> None:
        self.use("x=()" if not match[2] else "x+=()")
        self.space()
        while not self.text.startswith(")", self.at):
            if self.text.startswith("[", self.at):
                raise Unread("array with subscripts")
            self.bind(match[1], self.word())
            self.space()
        self.at += 1

    def substitution(self) -> tuple[str | None, str | None]:
        saved = self.heres, self.fed, self.ran
        self.heres, self.fed, self.ran = [], 0, False
        self.captured += 1
        start = len(self.commands)
        self.listing(")")
        self.captured -= 1
        self.heres, self.fed, self.ran = saved
        self.at += 1
        inner = self.commands[start:]
        source = inner[-1].name.text if inner and inner[-1].name is not None else None
        copies = source == "cat" and len(inner) == len(inner[0].redirects) == 1 and not inner[0].args
        return source, inner[0].redirects[0].body if copies else None

    # --- redirections

    def redirect(self, match: re.Match[str]) -> Redirect:
        op = match[2]
        fd = int(match[1]) if match[1] else 0 if op.startswith("<") else 1
        if fd > 2:
            raise Unread("file descriptor above 2")
        if op in {"<<", "<<-"}:
            redirect = Redirect(fd=fd, op=op, target=None)
            self.here(redirect)
            return redirect
        if op in {">&", "<&"}:
            duplicate = self.take(_DESCRIPTOR)
            if not duplicate or op == "<&":
                raise Unread(f"redirection {op}")
            self.use(f"{fd}>&{duplicate[1]}")
            return Redirect(fd=fd, op=op, target=Word(text=duplicate[1], head=duplicate[1]))
        self.blank()
        target = self.word()
        if target.globs:
            raise Unread("wildcard in a redirection")
        place = "" if op == "<<<" else "/dev/null" if target.text == "/dev/null" else "file"
        self.use(f"{match[1]}{op}{place}")
        return Redirect(fd=fd, op=op, target=target)

    def here(self, redirect: Redirect) -> None:
        """The announcement of a here-document."""
        match = self.take(_HERE_WORD)
        if not match:
            raise Unread("here-document's end word")
        literal = match[3] is None
        self.heres.append(_Here(match[1] or match[2] or match[3], literal, redirect.op == "<<-", redirect))
        self.use(f"{redirect.op}{'quoted' if literal else ''}")

    def here_bodies(self) -> None:
        """After a newline: the bodies of the here-documents that were announced."""
        for here in self.heres:
            line = re.compile(rf"^{chr(9) + '*' if here.strip else ''}{re.escape(here.end)}$", re.MULTILINE)
            match = line.search(self.text, self.at)
            if not match:
                raise Unread("here-document without an end")
            body = self.text[self.at : match.start()]
            if not here.literal:
                # Expansions inside see the body's end as the text's.
                whole, self.text = self.text, self.text[: match.start()]
                self.quoted(_HERE_PLAIN, None)
                self.text = whole
            if here.literal or not set(body) & set("\\$`"):
                if here.strip:
                    body = re.sub(r"^\t+", "", body, flags=re.MULTILINE)
                here.redirect.body = body
            self.at = min(match.end() + 1, len(self.text))
        self.heres = []

    # --- small things

    def blank(self) -> None:
        """Skip blanks, and a comment after one."""
        self.take(_BLANK)
        if self.text.startswith("#", self.at) and (self.at == 0 or self.text[self.at - 1] in " \t\n;"):
            self.take(_COMMENT)
            self.use("# comment")

    def space(self) -> None:
        """Skip blanks, comments and newlines, and what here-documents follow these."""
        self.blank()
        while self.text.startswith("\n", self.at):
            self.at += 1
            self.here_bodies()
            self.blank()

    def operator(self) -> str | None:
        match = _OPERATOR.match(self.text, self.at)
        return match[0] if match else None

    def word_ahead(self) -> str:
        """The plain word here if a blank or operator follows it, for reserved words."""
        match = _WORD_AHEAD.match(self.text, self.at)
        return match[0] if match else ""

    def ends(self, ends: tuple[str, ...]) -> bool:
        if self.at >= len(self.text):
            if ends:
                raise Unread(f"end of text before {ends[-1]!r}")
            return True
        return self.word_ahead() in ends or any(
            end in {")", ";;"} and self.text.startswith(end, self.at) for end in ends
        )

    def expect(self, word: str) -> None:
        if not self.text.startswith(word, self.at):
            raise Unread(f"{word!r} is missing")
        self.at += len(word)
