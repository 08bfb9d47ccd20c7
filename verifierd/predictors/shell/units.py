"""Breaks a script into the units that are certified: language features, commands with their options, program features.

A unit is a readable string, `KIND SUBJECT: WHAT`, that stands for a small equivalence class of scripts. The document
of certified units is a list of those that matched real bash every time; see policies/shell/README.md.
"""

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from verifierd.predictors.shell import programs
from verifierd.predictors.shell.reading import Command, Script, Unread, Word, read

__all__ = ("Units", "units")


class Units(msgspec.Struct, kw_only=True):
    """What a script consists of.

    Attributes:
        script: The script as read.
        used: Its units.
        unordered: True if a part of the output comes in an order that the machine's file system chooses.
        sorted: True if a part of the output is in an order that the locale chooses.
        mixes: True if one command may write output and errors whose order is not known.
        shows_errors: True if errors are sent to where output goes.
    """

    script: Script
    used: set[str] = msgspec.field(default_factory=set)
    unordered: bool = False
    sorted: bool = False
    mixes: bool = False
    shows_errors: bool = False


class _Spec(msgspec.Struct, frozen=True):
    """How a command reads its words: options that take a value, whether it reads standard input when no file is named,
    what its operands are (`path`, `data`, `number`), from which number of operands on it is all the same."""

    valued: str = ""
    stdin: bool = False
    operands: str = "path"
    many: int = 2
    prints: bool = True


_READER = _Spec(stdin=True)
_WRITER = _Spec(prints=False)
_PLAIN = _Spec(operands="data")
_SPECS: Mapping[str, _Spec] = {
    "[": _PLAIN,
    "[[": _PLAIN,
    "awk": _Spec("Fv", stdin=True),
    "base64": _Spec("w", stdin=True),
    "basename": _Spec("s", many=3),
    "bc": _READER,
    "break": _Spec(operands="number", prints=False),
    "cat": _READER,
    "cd": _Spec(prints=False),
    "chmod": _Spec(prints=False),
    "cmp": _Spec(many=3),
    "comm": _Spec(many=3),
    "continue": _Spec(operands="number", prints=False),
    "cp": _Spec("t", many=3, prints=False),
    "cut": _Spec("bcdf", stdin=True),
    "diff": _Spec("U", many=3),
    "dirname": _Spec(),
    "echo": _PLAIN,
    "exit": _Spec(operands="number", prints=False),
    "expand": _Spec("t", stdin=True),
    "export": _Spec(operands="name", prints=False),
    "expr": _PLAIN,
    "false": _PLAIN,
    "find": _Spec(),
    "fold": _Spec("w", stdin=True),
    "grep": _Spec("eABCm", stdin=True),
    "head": _Spec("nc", stdin=True),
    "join": _Spec("t12jo", many=3),
    "jq": _READER,
    "let": _PLAIN,
    "ln": _Spec("t", many=3, prints=False),
    "local": _Spec(operands="name", prints=False),
    "ls": _Spec(),
    "md5sum": _READER,
    "mkdir": _Spec("m", prints=False),
    "mv": _Spec("t", many=3, prints=False),
    "nl": _Spec("bw", stdin=True),
    "od": _Spec("ANtw", stdin=True),
    "paste": _Spec("d", stdin=True),
    "printf": _PLAIN,
    "pwd": _PLAIN,
    "read": _Spec("", operands="name", prints=False),
    "readlink": _Spec(),
    "realpath": _Spec(),
    "return": _Spec(operands="number", prints=False),
    "rev": _READER,
    "rm": _WRITER,
    "rmdir": _WRITER,
    "sed": _Spec("e", stdin=True),
    "seq": _Spec("s", operands="number", many=4),
    "set": _Spec("o", operands="data", prints=False),
    "sha1sum": _READER,
    "sha256sum": _READER,
    "shift": _Spec(operands="number", prints=False),
    "sort": _Spec("kt", stdin=True),
    "split": _Spec("lb", many=3, prints=False),
    "stat": _Spec("c"),
    "tac": _READER,
    "tail": _Spec("nc", stdin=True),
    "tar": _Spec("fC"),
    "tee": _Spec(many=3),
    "test": _PLAIN,
    "touch": _WRITER,
    "tr": _Spec(stdin=True, operands="data", many=3),
    "true": _PLAIN,
    "type": _Spec(operands="data"),
    "uniq": _Spec("fsw", stdin=True),
    "unset": _Spec("", operands="name", prints=False),
    "wc": _READER,
    "xargs": _Spec("nIL", stdin=True, operands="data"),
    ":": _PLAIN,
}

_SYSTEM = re.compile(
    r"/+(?:bin|boot|dev|etc|lib\w*|media|mnt|opt|proc|root|run|sbin|srv|sys|usr|var)?(?:/|$)|/+[^/]+/*$"
)
_CHARACTER = frozenset(",:;|/ =-_.\t+@#")
_KEY = re.compile(r"\d+(?:\.\d+)?[bdfhnrV]*(?:,\d+(?:\.\d+)?[bdfhnrV]*)?")
_LIST = re.compile(r"\d+(?:-\d*)?|-\d+")
_MODE = re.compile(r"[ugoa]*\+x|[0-7]{3}")
# Names that mean something to the shell or to programs; giving them a value, or reading one, changes more than text.
_SPECIAL = re.compile(
    r"(?:BASH|LC_|LANG|LD_|GREP_|LS_|GIT_|PYTHON|TAR_|POSIX|XDG_|AWK)\w*|PATH|IFS|PS[0-4]|ENV|RANDOM|SRANDOM|SECONDS|LINENO|EPOCH\w+"
    r"|UID|EUID|PPID|SHELL\w*|SHLVL|TZ|TERM|COLUMNS|LINES|HOSTNAME|HOSTTYPE|OSTYPE|MACHTYPE|FUNCNAME|GROUPS|DIRSTACK|OPT\w+|REPLY"
    r"|PIPESTATUS|CDPATH|GLOBIGNORE|FIGNORE|HIST\w*|MAIL\w*|TMOUT|TMPDIR|COMP_\w+|PROMPT_\w+|PWD|OLDPWD|HOME|USER|LOGNAME|BLOCK\w*|QUOTING_STYLE|"
    r"TIME\w*|DEBUG|READLINE_\w+|MAPFILE|COPROC|INPUTRC|EDITOR|VISUAL|PAGER|TABSIZE|BC_\w+|JQ_\w+|EXECIGNORE|_"
)
_READABLE = frozenset({"HOME", "PWD", "OLDPWD", "USER"})
# Sources of a substitution whose words are never options.
_NUMBERS_OR_PATHS = frozenset({"seq", "find", "pwd"})
_TAKES_ALL = frozenset({"head", "cat", "tail", None})


def units(text: str, *, functions: Collection[str] = (), values: Mapping[str, str] | None = None) -> Units:
    """The units of a script.

    Args:
        text: The script.
        functions: Functions that were defined before.
        values: Variables that have a value already.

    Raises:
        Unread: Something in it is not understood; the text says what.
    """
    return _Taker(read(text), frozenset(functions), values or {}).take()


class _Taker:
    def __init__(self, script: Script, functions: frozenset[str], values: Mapping[str, str]) -> None:
        self.result = Units(script=script)
        self.functions = functions | script.functions
        self.values = values
        self.sure: dict[str, bool] = {}

    def take(self) -> Units:
        script, result = self.result.script, self.result
        for name in script.functions:
            if name in _SPECS or len(name) == 1:
                raise Unread(f"function that is called {name}")
        for name in script.names | script.bound.keys():
            if (
                _SPECIAL.fullmatch(name)
                and not (name in _READABLE and name not in script.bound)
                and not (name == "IFS" and "assignment before read" in script.features)
            ):
                raise Unread(f"variable {name}")
        result.used |= {f"shell: {feature}" for feature in script.features}
        for command in script.commands:
            self.command(command)
            self.redirects(command)
        if "pipe" in script.features or any(c.captured for c in script.commands):
            result.mixes = True
        return result

    def use(self, unit: str) -> None:
        self.result.used.add(unit)

    # --- one command

    def command(self, command: Command) -> None:
        if command.name is None:
            return
        name = command.name.text
        if name is None:
            raise Unread("command by expansion")
        if name in self.functions:
            self.use("shell: call of a function")
            for word in command.args:
                self.plain(word, command)
            self.result.mixes = self.result.mixes or "pipe" in self.result.script.features
            return
        if command.name.quoted:
            raise Unread("quoted command")
        self.invocation(name, command.args, command)

    def invocation(self, name: str, args: Sequence[Word], command: Command, *, nested: bool = False) -> None:
        spec = _SPECS.get(name)
        if spec is None:
            raise Unread(f"command {name}")
        reader = getattr(self, f"_{ {'[': 'test', '[[': 'condition', ':': 'colon'}.get(name, name) }", None)
        if reader is not None:
            reader(list(args), command)
            return
        flags, operands = self.options(name, list(args), spec)
        self.operands(name, flags, operands, command, spec, nested=nested)

    def options(self, name: str, args: list[Word], spec: _Spec) -> tuple[list[str], list[Word]]:
        """Options in a normal form, and the operands."""
        flags: list[str] = []
        operands: list[Word] = []
        rest = list(args)
        late = False
        while rest:
            word = rest.pop(0)
            text = word.text
            if text is None or text == "" or not text.startswith("-"):
                if text is None and word.head.startswith("-"):
                    raise Unread(f"option of {name} by expansion")
                operands.append(word)
                continue
            late = late or bool(operands)
            if text == "--":
                flags.append("--")
                operands += rest
                break
            if text == "-":
                flags.append("-")
                operands.append(word)
                late = False
                continue
            if text.startswith("--"):
                option, has, value = text.partition("=")
                flags.append(f"{option}={self.value(name, option, value)}" if has else option)
            elif re.fullmatch(r"-\d+", text) and name in {"head", "tail", "diff"}:
                flags.append("-N")
            else:
                self.bundle(name, text, spec, rest, flags)
        if late:
            flags.append("late")
        return flags, operands

    def bundle(self, name: str, text: str, spec: _Spec, rest: list[Word], flags: list[str]) -> None:
        for at, letter in enumerate(text[1:], 1):
            if letter not in spec.valued or (name in {"sed", "awk"} and letter in "e" and name == "awk"):
                if f"-{letter}" in flags:
                    raise Unread(f"option of {name} given twice")
                flags.append(f"-{letter}")
                continue
            value = text[at + 1 :] or None
            if value is None:
                if not rest or rest[0].text is None:
                    raise Unread(f"value of {name} -{letter}")
                value = str(rest.pop(0).text)
            flags.append(f"-{letter} {self.value(name, letter, value)}")
            return

    def value(self, name: str, option: str, text: str) -> str:
        """The class of an option's value."""
        if option in {"n", "c"} and name == "stat":
            return text if re.fullmatch(r"(?:%[anFs]| |:)+", text) else self.unknown(f"stat format {text}")
        if name == "sort" and option == "k" and _KEY.fullmatch(text):
            return re.sub(r"\d+", "N", text)
        if name == "cut" and option in "bcf":
            items = text.split(",")
            if all(_LIST.fullmatch(item) for item in items) and sorted(items, key=_first) == items:
                return ",".join(sorted({re.sub(r"\d+", "N", item) for item in items}))
        if name == "grep" and option == "e":
            return "P"
        if name == "tar" and option in "fC":
            return self.path_text(text, "F")
        if name == "awk" and option == "v" and re.fullmatch(r"[a-z]\w*=[A-Za-z0-9_.,:/-]*", text):
            return "x=v"
        if name == "awk" and option == "F" and text == "\\t":
            return "C"
        if name == "sed" and option == "e":
            return "S"
        if name == "xargs" and option == "I" and text == "{}":
            return "{}"
        if name == "od":
            return text if text in {"n", "x1", "c"} else self.unknown("od format")
        if name == "set" and option == "o" and text in {"pipefail"}:
            return text
        if re.fullmatch(r"\d{1,6}", text):
            return "N"
        if re.fullmatch(r"[+-]\d{1,6}", text) and name in {"head", "tail"}:
            return f"{text[0]}N"
        if len(text) == 1 and text in _CHARACTER and (name, option) in {
            ("cut", "d"), ("sort", "t"), ("paste", "d"), ("join", "t"), ("awk", "F"), ("seq", "s"),
        }:  # fmt: skip
            return "C"
        raise Unread(f"value of {name} {option}")

    def unknown(self, what: str) -> str:
        raise Unread(what)

    def operands(
        self,
        name: str,
        flags: list[str],
        operands: Sequence[Word],
        command: Command,
        spec: _Spec,
        *,
        nested: bool = False,
    ) -> None:
        """Check the operands and use the unit of command, options, and number of operands."""
        for word in operands:
            if word.text == "-" and "-" in flags:
                continue
            if spec.operands == "path":
                self.plain(word, command)
            elif spec.operands == "number":
                if word.text is None and not self.is_number(word):
                    raise Unread(f"{name} of an expansion")
                if word.text is not None and not re.fullmatch(r"\d{1,6}|-\d{1,6}", word.text):
                    raise Unread(f"{name} of no number")
            elif spec.operands == "name" and (
                word.text is None or not re.fullmatch(r"[A-Za-z_]\w*", word.text) or _SPECIAL.fullmatch(word.text)
            ):
                raise Unread(f"{name} of no plain name")
        self.shapes(name, flags, operands, spec)
        if spec.stdin and not nested and (not operands or "-" in flags):
            self.needs_input(name, command)
        if spec.prints and (len(operands) > 1 or any(word.splits for word in operands)):
            self.result.mixes = True

    def shapes(self, name: str, flags: Sequence[str], operands: Sequence[Word], spec: _Spec) -> None:
        count = len(operands)
        shapes = {count}
        if any(word.splits for word in operands):
            shapes = set(range(max(count, 1), max(spec.many, count) + 1))
        form = " ".join([name, *sorted(flags, key=_by_letter)])
        for number in shapes:
            shown = str(number) if number < spec.many else f"{spec.many}+"
            self.use(f"command: {form} | {shown}")

    def needs_input(self, name: str, command: Command) -> None:
        if not command.piped:
            raise Unread(f"{name} that reads standard input")

    # --- words

    def plain(self, word: Word, command: Command) -> None:
        """Refuse a word that might be taken for an option, is empty, or names what belongs to the system."""
        if word.text is not None:
            self.path_text(word.text, "")
            return
        if word.head:
            if word.head.startswith("-"):
                raise Unread("option by expansion")
            if word.head.startswith("/"):
                self.path_text(word.head + "x/x", "")
            return
        if word.holes.startswith("\0") and (word.globs and not word.names and not word.substitutes):
            return
        if word.substitutes and word.source not in _NUMBERS_OR_PATHS:
            raise Unread("operand by substitution")
        for name in word.names[:1]:
            if not self.is_sure(name, command):
                raise Unread(f"operand ${name}")

    def path_text(self, text: str, shown: str) -> str:
        if text in {"/dev/null"}:
            return shown
        if (
            text == ""
            or "\n" in text
            or (text.startswith("/") and not text.startswith(("/tmp/", "/home/")) and _SYSTEM.match(text))
        ):  # noqa: S108
            raise Unread(f"path {text!r}")
        return shown

    def is_sure(self, name: str, command: Command | None, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a parameter surely has a value that is not empty and no option."""
        if name in {"HOME", "PWD", "OLDPWD"}:
            return True
        if name == "((" or name in seen:
            return False
        if name in {"@", "*"} or name.isdigit():
            return command is not None and command.function is not None
        words = self.result.script.bound.get(name)
        if not words:
            value = self.values.get(name, "-")
            return value != "" and not value.startswith("-")
        return all(self.is_sure_word(word, command, seen | {name}) for word in words)

    def is_sure_word(self, word: Word | None, command: Command | None, seen: frozenset[str]) -> bool:
        if word is None or word.text == "":
            return False
        if word.text is not None or word.head:
            return not (word.text or word.head).startswith("-")
        if word.globs and not word.names:
            return True
        if word.substitutes:
            return word.source in _NUMBERS_OR_PATHS
        return bool(word.names) and self.is_sure(word.names[0], command, seen)

    def is_number(self, word: Word) -> bool:
        return word.names[:1] in {("((",), ("?",), ("#",)} and word.holes == "\0"

    # --- redirections

    def redirects(self, command: Command) -> None:
        has_file = False
        for redirect in command.redirects:
            target = redirect.target
            if redirect.op == ">&":
                assert target is not None
                if redirect.fd == 2 and target.text == "1":  # noqa: PLR2004 - standard error
                    after = command.after.name.text if command.after and command.after.name else None
                    if has_file and not self.null_output(command):
                        raise Unread("errors into a file")
                    if command.captured or (command.into_pipe and after not in _TAKES_ALL - {None}):
                        raise Unread("errors into a pipe")
                    self.result.shows_errors = True
                elif redirect.fd != 1 or target.text != "2":
                    raise Unread("duplicated descriptor")
                continue
            if redirect.op in {"<<", "<<-", "<<<"}:
                continue
            assert target is not None
            if target.text is None and not target.head:
                self.plain(target, command)
            if target.text is not None:
                self.path_text(target.text, "")
            if redirect.op in {"&>", "&>>"} or redirect.fd == 2:  # noqa: PLR2004
                if target.text != "/dev/null":
                    raise Unread("errors into a file")
            elif redirect.op not in {">", ">>", "<", ">|"}:
                raise Unread(f"redirection {redirect.op}")
            elif redirect.fd == 1:
                has_file = True

    def null_output(self, command: Command) -> bool:
        return any(r.target is not None and r.target.text == "/dev/null" for r in command.redirects)

    # --- order

    def walk(self, command: Command) -> None:
        """A command whose output comes in the file system's order: fine if sorted or counted, else only one line."""
        stage: Command | None = command
        if command.captured or command.function:
            raise Unread("order of a directory walk")
        while stage is not None and stage.into_pipe:
            stage = stage.after
            name = stage.name.text if stage and stage.name else None
            words = [word.text for word in stage.args] if stage else []
            if name == "sort" and not any(w and re.match(r"-\w*[uks]", w) for w in words):
                return
            if name == "wc" and all(w is not None and w.startswith("-") for w in words):
                return
            if name == "grep" and "-c" in words:
                return
            if name in {"grep", "cut"} and not any(w and re.match(r"-\w*[nmABC]", w) for w in words):
                continue
            if name == "xargs":
                break
            raise Unread("order of a directory walk")
        if stage is not None and any(r.fd == 1 and r.op != ">&" for r in stage.redirects):
            raise Unread("order of a directory walk")
        self.result.unordered = True

    # --- commands with a language of their own

    def program(self, name: str, features: Collection[str]) -> None:
        self.result.used |= {f"{name}: {feature}" for feature in features}

    def _echo(self, args: list[Word], command: Command) -> None:
        flags: list[str] = []
        while args and args[0].text is not None and re.fullmatch(r"-[neE]+", args[0].text) and not args[0].quoted:
            flags.append(str(args.pop(0).text))
        if any("e" in flag for flag in flags):
            for word in args:
                if word.text is None or re.search(r"\\(?![nt\\])", word.text):
                    raise Unread("echo -e")
        self.use(f"command: {' '.join(['echo', *flags])} | any")

    def _printf(self, args: list[Word], command: Command) -> None:
        if not args or args[0].text is None or args[0].text.startswith("-"):
            raise Unread("printf format")
        if any(word.splits for word in args[1:]):
            self.program("printf", {"words by expansion"})
        self.use("command: printf | any")
        self.program("printf", programs.printf(args[0].text, [word.text for word in args[1:]]))

    def _test(self, args: list[Word], command: Command) -> None:
        assert command.name is not None
        if command.name.text == "[":
            if not args or args.pop().text != "]":
                raise Unread("[ without ]")
        self.program("test", programs.test([word.text for word in args]))
        if any(word.splits for word in args):
            self.program("test", {"words by expansion"})
        self.use("command: test | any")

    def _condition(self, args: list[Word], command: Command) -> None:
        """Its features are the reader's."""

    def _colon(self, args: list[Word], command: Command) -> None:
        self.use("command: : | any")

    def _true(self, args: list[Word], command: Command) -> None:
        self.use("command: true | any")

    def _false(self, args: list[Word], command: Command) -> None:
        self.use("command: false | any")

    def _set(self, args: list[Word], command: Command) -> None:
        words = [word.text for word in args]
        if words not in (["-e"], ["-u"], ["-eu"], ["-o", "pipefail"], ["-euo", "pipefail"], ["+e"]):
            raise Unread("set")
        self.use(f"command: set {' '.join(map(str, words))} | 0")

    def _expr(self, args: list[Word], command: Command) -> None:
        self.program("expr", programs.expr([word.text for word in args]))
        self.use("command: expr | any")

    def _bc(self, args: list[Word], command: Command) -> None:
        flags, operands = self.options("bc", args, _READER)
        before = command.before
        if operands or flags not in ([], ["-l"]) or before is None or before.name is None:
            raise Unread("bc")
        source, words = before.name.text, [word.text for word in before.args]
        if source == "echo" and len(words) == 1 and words[0] is not None:
            self.program("bc", programs.bc(words[0]))
        elif source == "paste" and words in (["-sd+"], ["-sd+", "-"], ["-s", "-d+"], ["-sd", "+"]):
            self.program("bc", {"+"})
        else:
            raise Unread("bc program")
        self.use(f"command: {' '.join(['bc', *flags])} | any")

    def _tr(self, args: list[Word], command: Command) -> None:
        flags, operands = self.options("tr", args, _SPECS["tr"])
        self.program("tr", programs.tr([word.text for word in operands]))
        self.shapes("tr", flags, operands, _SPECS["tr"])
        self.needs_input("tr", command)

    def _sed(self, args: list[Word], command: Command) -> None:
        flags, operands = self.options("sed", args, _SPECS["sed"])
        scripts = [str(w.text) for w, before in zip(args[1:], args, strict=False) if before.text == "-e"]
        if not scripts:
            if not operands or operands[0].text is None:
                raise Unread("sed script by expansion")
            scripts = [operands[0].text]
            operands = operands[1:]
        if len(scripts) != max(1, sum(flag.startswith("-e") for flag in flags)):
            raise Unread("sed -e")
        extended = "-E" in flags or "-r" in flags
        features = set().union(*(programs.sed(script, extended=extended) for script in scripts))
        self.program("sed", {f"{'-E ' if extended and f.startswith('re ') else ''}{f}" for f in features})
        if "-i" in flags and ({"p", "="} & {f[-1] for f in features} and "-n" not in flags):
            pass
        self.operands("sed", flags, operands, command, _SPECS["sed"])

    def _awk(self, args: list[Word], command: Command) -> None:
        flags, operands = self.options("awk", args, _SPECS["awk"])
        if not operands or operands[0].text is None:
            raise Unread("awk program by expansion")
        features = programs.awk(operands[0].text)
        self.program("awk", features)
        if {"for", "in"} <= features:
            self.walk(command)
        operands = operands[1:]
        if any("=" in (word.text or "") for word in operands):
            raise Unread("awk assignment")
        self.operands("awk", flags, operands, command, _SPECS["awk"])
        if features & {"BEGIN"} and not operands and not command.piped:
            raise Unread("awk that reads standard input")

    def _jq(self, args: list[Word], command: Command) -> None:
        flags, operands = self.options("jq", args, _SPECS["jq"])
        if not operands or operands[0].text is None:
            raise Unread("jq filter by expansion")
        self.program("jq", programs.jq(operands[0].text))
        self.operands("jq", flags, operands[1:], command, _SPECS["jq"])

    def _grep(self, args: list[Word], command: Command) -> None:
        spec = _SPECS["grep"]
        flags, operands = self.options("grep", args, spec)
        patterns = [str(w.text) for w, before in zip(args[1:], args, strict=False) if before.text == "-e"]
        if not patterns:
            if not operands or operands[0].text is None:
                raise Unread("grep pattern by expansion")
            patterns = [operands[0].text]
            operands = operands[1:]
        if len(patterns) != max(1, sum(flag.startswith("-e") for flag in flags)):
            raise Unread("grep -e")
        if "-P" in flags or ("-E" in flags and "-F" in flags):
            raise Unread("grep -P")
        dialect = "fixed" if "-F" in flags else "extended" if "-E" in flags else "basic"
        shown = "-o " if "-o" in flags else ""
        for text in patterns:
            if not text.isascii() or text == "" or "\n" in text:
                raise Unread("grep pattern")
            if dialect != "fixed":
                self.program(
                    "grep", {f"{shown}{dialect} {f}" for f in programs.pattern(text, extended=dialect == "extended")}
                )
        walks = {"-r", "-R"} & set(flags)
        if walks:
            self.walk(command)
            spec = _Spec(spec.valued)
        self.operands("grep", flags, operands, command, spec)
        if walks:
            self.result.mixes = True

    def _find(self, args: list[Word], command: Command) -> None:
        starts: list[Word] = []
        while args and args[0].text is not None and not re.match(r"-|[()!]$", args[0].text):
            starts.append(args.pop(0))
        if len(starts) > 1 or any(word.text is None for word in args):
            raise Unread("find")
        for word in starts:
            self.plain(word, command)
        inner: list[str] = []

        def nested(words: Sequence[str | None]) -> None:
            if words[0] is None:
                raise Unread("find -exec")
            inner.append(words[0])
            self.nested(str(words[0]), words[1:], command)

        features = programs.find([word.text for word in args], nested)
        self.program("find", features)
        self.use(f"command: find | {len(starts)}")
        self.result.mixes = True
        silent = inner and all(not _SPECS[name].prints or name == "sed" for name in inner)
        if not silent and "-delete" not in features:
            self.walk(command)

    def nested(self, name: str, words: Sequence[str | None], command: Command) -> None:
        """A command that find or xargs runs."""
        if name not in {
            "rm",
            "cat",
            "wc",
            "grep",
            "ls",
            "echo",
            "head",
            "touch",
            "chmod",
            "sed",
            "cp",
            "mv",
            "basename",
        }:
            raise Unread(f"nested {name}")
        args = [Word(text=None if w == "{}" else w, head="x" if w == "{}" else w or "") for w in words]
        self.use(f"shell: nested {name}")
        self.invocation(
            name,
            args,
            Command(name=Word(text=name, head=name), args=args, assigned={}, redirects=[], piped=True),
            nested=True,
        )

    def _xargs(self, args: list[Word], command: Command) -> None:
        own: list[Word] = []
        while args and args[0].text is not None and args[0].text.startswith("-"):
            own.append(args.pop(0))
            if own[-1].text in {"-n", "-I", "-L"} and args:
                own.append(args.pop(0))
        flags, _ = self.options("xargs", own, _SPECS["xargs"])
        self.needs_input("xargs", command)
        if not args or args[0].text is None:
            raise Unread("xargs without a command")
        self.use(f"command: {' '.join(['xargs', *sorted(flags)])} | any")
        words = [word.text for word in args[1:]]
        self.nested(args[0].text, [*words, "{}"] if "{}" not in words else words, command)
        self.result.mixes = True

    def _ls(self, args: list[Word], command: Command) -> None:
        flags, operands = self.options("ls", args, _SPECS["ls"])
        self.operands("ls", flags, operands, command, _SPECS["ls"])
        self.result.sorted = True

    def _sort(self, args: list[Word], command: Command) -> None:
        flags, operands = self.options("sort", args, _SPECS["sort"])
        self.operands("sort", flags, operands, command, _SPECS["sort"])
        self.result.sorted = True

    def _tar(self, args: list[Word], command: Command) -> None:
        if args and args[0].text and not args[0].text.startswith("-"):
            args[0] = Word(text=f"-{args[0].text}", head="-")
        flags, operands = self.options("tar", args, _SPECS["tar"])
        if "-t" in flags:
            self.walk(command)
        self.operands("tar", flags, operands, command, _SPECS["tar"])

    def _chmod(self, args: list[Word], command: Command) -> None:
        mode = args.pop(0).text if args else None
        if mode is None or not _MODE.fullmatch(mode):
            raise Unread("chmod mode")
        if mode.isdigit() and mode[0] not in "67":
            raise Unread("chmod that takes rights away")
        if mode.isdigit() and mode[0] == "6" and not all(re.fullmatch(r".*\w\.\w+", word.text or "") for word in args):
            raise Unread("chmod of what may be a directory")
        for word in args:
            self.plain(word, command)
        self.shapes("chmod", [mode if not mode.isdigit() else "NNN"], args, _SPECS["chmod"])

    def _read(self, args: list[Word], command: Command) -> None:
        flags, operands = self.options("read", args, _SPECS["read"])
        if not (command.piped or command.fed) or not operands:
            raise Unread("read from standard input")
        for word in operands:
            if word.text is None or not re.fullmatch(r"[A-Za-z_]\w*", word.text) or _SPECIAL.fullmatch(word.text):
                raise Unread("read into no plain name")
            self.result.script.bound.setdefault(word.text, []).append(None)
        self.shapes("read", flags, operands, _SPECS["read"])

    def _type(self, args: list[Word], command: Command) -> None:
        words = [word.text for word in args]
        if len(words) == 2 and words[0] == "-t" and words[1] in self.functions:
            self.use("command: type -t | function")
        elif len(words) == 1 and words[0] in {"cd", "export", "exit", "set", "shift", "unset"}:
            self.use("command: type | builtin")
        else:
            raise Unread("type of a program")

    def _let(self, args: list[Word], command: Command) -> None:
        raise Unread("let")


def _first(item: str) -> int:
    return int(item.strip("-").split("-")[0])


def _by_letter(flag: str) -> tuple[bool, bool, str]:
    """Keys of sort, and scripts of sed, keep their order among themselves."""
    return flag == "late", not flag.startswith("-"), "" if flag.startswith("-k") else flag
