"""Breaks a script into the units that are certified: language features, commands with their options, program features.

A unit is a readable string, `KIND SUBJECT: WHAT`, that stands for a small equivalence class of scripts. The document
of certified units is a list of those that matched real bash every time; see policies/shell/README.md.
"""

import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatch

import msgspec

from verifierd.predictors.shell import programs
from verifierd.predictors.shell.reading import Command, Script, Unread, Word, read

__all__ = ("Units", "is_sorted_anywhere", "units")


class Units(msgspec.Struct, kw_only=True):
    """What a script consists of.

    Attributes:
        script: The script as read.
        used: Its units.
        unordered: True if a part of the output comes in an order that the machine's file system chooses.
        sorted: True if a part of the output is in an order that the locale chooses.
        blocks: True if that part is in blocks with a heading each, as of `ls -R`.
        needs_output: True if only an output shows that the status is right.
        hides: Beginnings and ends of error messages that do not say enough to be trusted here.
        never: Lines that only the virtual shell would print.
        mixes: True if one command may write output and errors whose order is not known.
        shows_errors: True if errors are sent to where output goes.
    """

    script: Script
    used: set[str] = msgspec.field(default_factory=set)
    unordered: bool = False
    sorted: bool = False
    blocks: bool = False
    needs_output: bool = False
    hides: tuple[tuple[str, str], ...] = ()
    never: tuple[str, ...] = ()
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
# Where the virtual shell says of a path through a file that it is missing.
_VAGUE_INSIDE = {
    "base64": "base64: ",
    "cd": "bash: line ",
    "expand": "expand: ",
    "fold": "fold: ",
    "rm": "rm: ",
    "rmdir": "rmdir: ",
}
# Where it gives up at the first error.
_STOPS_AT_ERRORS = frozenset({"mkdir", "od", "wc"})
# A name with a suffix is taken for a file's; a directory's size is the file system's own.
_FILE_NAME = re.compile(r".*\w\.\w+")
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
        self.outputs()
        if script.functions or "shell: call of a function" in result.used:
            self.hide("bash: ")  # in functions, bash has another name for itself
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
        if name not in _SPECS and name in self.functions:
            self.use("shell: call of a function")
            for word in command.args:
                self.plain(word, command)
            if name not in self.result.script.functions:
                self.result.mixes = self.result.sorted = True
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
        if re.fullmatch(r"0+", text):
            return "0"
        if re.fullmatch(r"\d{1,6}", text):
            return "N"
        if re.fullmatch(r"[+-]\d{1,6}", text) and name in {"head", "tail"}:
            return f"{text[0]}N"
        if len(text) == 1 and text in _CHARACTER and (name, option) in {
            ("cut", "d"), ("sort", "t"), ("paste", "d"), ("join", "t"), ("awk", "F"), ("seq", "s"),
        }:  # fmt: skip
            return "C"
        raise Unread(f"value of {name} {option}")

    def hide(self, start: str, end: str = "") -> None:
        self.result.hides += ((start, end),)

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
        several = len(operands) > 1 or any(word.splits for word in operands)
        if name in _VAGUE_INSIDE and (several or any("/" in word.holes.rstrip("/") for word in operands)):
            self.hide(_VAGUE_INSIDE[name], "No such file or directory")
        if name in _STOPS_AT_ERRORS and several:
            self.hide(f"{name}: ")
        if name == "wc" and not operands and any(redirect.op == "<" for redirect in command.redirects):
            flags = [*flags, "<"]  # its columns are as wide as the file is large
        self.shapes(name, flags, operands, spec)
        if spec.stdin and not nested and (not operands or "-" in flags):
            self.needs_input(name, command)
        if spec.prints and several:
            self.result.mixes = True

    def shapes(self, name: str, flags: Sequence[str], operands: Sequence[Word], spec: _Spec) -> None:
        count = len(operands)
        if any(word.holes.endswith("/") for word in operands):
            flags = [*flags, "x/"]
        if any(word.holes.endswith("/.") for word in operands):
            flags = [*flags, "x/."]
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

    def outputs(self) -> None:
        """Refuse output into a file where it matters when the file is made: the virtual shell makes it last."""
        commands = self.result.script.commands
        compounds: dict[int, list[Command]] = {}
        for command in commands:
            for redirect in command.redirects:
                if redirect.compound is not None:
                    compounds.setdefault(redirect.compound, []).append(command)
        for command in commands:
            for redirect in command.redirects:
                target = redirect.target
                if redirect.fd != 1 or redirect.op == ">&" or target is None or target.text == "/dev/null":
                    continue
                company = compounds[redirect.compound] if redirect.compound is not None else _pipeline(command)
                for other in company:
                    self.early(other, target)

    def early(self, command: Command, target: Word) -> None:
        """Refuse a command that could see the file that its output, or its pipeline's, goes to."""
        name = (command.name.text if command.name else None) or ":"
        spec = _SPECS.get(name)
        if spec is None or name == "cd":
            raise Unread("output into a file around a change of directory")
        walks = name in {"find", "ls", "tar"} or (name == "grep" and bool(_option_letters(command) & {"r", "R"}))
        if walks and not target.head.startswith("/"):
            raise Unread("output into a file that the command may see")
        words = command.args if spec.operands == "path" else []
        inputs = [r.target for r in command.redirects if r.fd == 0 and r.target is not None]
        for word in [*words, *inputs]:
            if word.holes == target.holes or (word.names and set(word.names) & set(target.names)):
                raise Unread("output into a file that the command reads")
            if "\0" in word.holes and not word.names and fnmatch(target.holes, word.holes.replace("\0", "*")):
                raise Unread("output into a file that the command reads")

    def redirects(self, command: Command) -> None:
        has_file = False
        own = [r for r in command.redirects if r.compound is None]
        if len({r.fd for r in own}) < len(own):
            raise Unread("two redirections of one descriptor")
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
            if redirect.op == "<":
                self.hide("bash: ", "Is a directory")
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
        features = programs.test([word.text for word in args])
        if "-s" in features and not _FILE_NAME.fullmatch(args[-1].text or ""):
            raise Unread("size of what may be a directory")
        self.program("test", features)
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
        many = any(word.text == "+" for word in args)

        def nested(words: Sequence[str | None]) -> None:
            if words[0] is None:
                raise Unread("find -exec")
            inner.append(words[0])
            self.nested(str(words[0]), words[1:], several=many)

        features = programs.find([word.text for word in args], nested)
        self.program("find", features)
        self.use(f"command: find | {len(starts)}")
        self.result.mixes = True
        silent = inner and all(not _SPECS[name].prints or name == "sed" for name in inner)
        if not silent and "-delete" not in features:
            self.walk(command)

    def nested(self, name: str, words: Sequence[str | None], *, several: bool) -> None:
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
        args = [
            Word(text=None, head="x", holes="x\0", splits=several)
            if w == "{}"
            else Word(text=w, head=w or "", holes=w or "")
            for w in words
        ]
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
        if args[0].text == "grep":
            if flags or {"-c", "-L", "-q"} & {word.text for word in args} or "?" in self.result.script.names:
                raise Unread("status of xargs")
            self.result.needs_output = True
        words = [word.text for word in args[1:]]
        self.nested(args[0].text, [*words, "{}"] if "{}" not in words else words, several="-I {}" not in flags)
        self.result.mixes = True

    def _copy(self, name: str, args: list[Word], command: Command) -> None:
        spec = _SPECS[name]
        flags, operands = self.options(name, args, spec)
        if {"-u", "--update"} & set(flags):
            raise Unread(f"{name} by age")
        paths = [posixpath.normpath(word.text or word.holes) for word in operands]
        target = paths[-1] if paths else ""
        for path in paths[:-1]:
            if (
                path == target
                or target.startswith(f"{path}/")
                or (posixpath.dirname(path) or ".") == target
                or path in {".", ".."}
            ):
                raise Unread(f"{name} onto itself")
            if name != "ln" and posixpath.basename(path) == posixpath.basename(target) and len(paths) > 2:  # noqa: PLR2004
                raise Unread(f"{name} onto itself")
        if len(set(paths)) < len(paths):
            raise Unread(f"{name} of the same twice")
        if len(paths) > 2 or (paths and "/" in paths[-1]) or any(word.splits for word in operands):  # noqa: PLR2004
            # The virtual shell does not say whether the source or the target's directory is missing.
            self.hide(f"{name}: cannot")
        self.operands(name, flags, operands, command, spec)

    def _cp(self, args: list[Word], command: Command) -> None:
        self._copy("cp", args, command)

    def _mv(self, args: list[Word], command: Command) -> None:
        self._copy("mv", args, command)

    def _ln(self, args: list[Word], command: Command) -> None:
        self._copy("ln", args, command)

    def _ls(self, args: list[Word], command: Command) -> None:
        flags, operands = self.options("ls", args, _SPECS["ls"])
        if {"-t", "-S", "-l", "-s", "-i", "-c", "-u", "-U", "-f", "-o", "-g", "-n", "-X", "-Z"} & set(flags):
            raise Unread("ls of what differs from run to run")
        if len(operands) > 1 or any(word.splits for word in operands):
            self.hide("ls: ")
            literal = [word.text for word in operands if word.text is not None]
            if len(operands) > 1 and (len(literal) < len(operands) or not is_sorted_anywhere(literal)):
                raise Unread("ls of several in an order of its own")
            flags += ["glob"] if not literal else []
        if "-d" not in flags:
            self.result.never += tuple(
                word.text for word in operands if word.text is not None and word.text.endswith("/")
            )
        self.result.blocks = self.result.blocks or "-R" in flags
        self.operands("ls", flags, operands, command, _SPECS["ls"])
        self.result.sorted = True

    def _sort(self, args: list[Word], command: Command) -> None:
        flags, operands = self.options("sort", args, _SPECS["sort"])
        if {"-R", "-M", "-h", "-V", "--random-sort"} & set(flags):
            raise Unread("sort of what differs from run to run")
        self.operands("sort", flags, operands, command, _SPECS["sort"])
        self.result.sorted = True

    def _stat(self, args: list[Word], command: Command) -> None:
        flags, operands = self.options("stat", args, _SPECS["stat"])
        if any("%s" in flag for flag in flags) and not all(_FILE_NAME.fullmatch(word.text or "") for word in operands):
            raise Unread("size of what may be a directory")
        self.operands("stat", flags, operands, command, _SPECS["stat"])

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
        if mode.isdigit() and mode[0] == "6" and not all(_FILE_NAME.fullmatch(word.text or "") for word in args):
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


def _option_letters(command: Command) -> set[str]:
    return {letter for word in command.args if word.head.startswith("-") for letter in word.head}


def _pipeline(command: Command) -> list[Command]:
    """A command and those that pipe into it, as far as they are simple ones."""
    found = [command]
    while found[-1].before is not None:
        found.append(found[-1].before)
    return found


def is_sorted_anywhere(lines: Sequence[str]) -> bool:
    """Whether lines are in ascending order in any common locale."""
    return list(lines) == sorted(lines) == sorted(lines, key=_letters) == sorted(lines, key=_marks_first)


def _letters(line: str) -> tuple[str, str]:
    """A collation that ignores case and marks at first."""
    return "".join(c for c in line.lower() if c.isalnum()), line.swapcase()


def _marks_first(line: str) -> list[tuple[int, str]]:
    """A collation that ignores case, with marks before digits before letters."""
    return [(c.isalnum() + c.isalpha(), c) for c in line.lower()]


def _first(item: str) -> int:
    return int(item.strip("-").split("-")[0])


def _by_letter(flag: str) -> tuple[bool, bool, str]:
    """Keys of sort, and scripts of sed, keep their order among themselves."""
    return flag == "late", not flag.startswith("-"), "" if flag.startswith("-k") else flag
