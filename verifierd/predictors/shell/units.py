"""Breaks a script into the units that are certified: language features, commands with their options, program features.

A unit is a readable string, `KIND: WHAT`, that stands for a small class of scripts. The document of certified units is
a list of those that matched real bash every time; see policies/shell/README.md.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

import msgspec

from verifierd.commandline.reading import Command, Script, read
from verifierd.commandline.words import Unread, Word
from verifierd.predictors.shell import programs
from verifierd.predictors.shell.operands import Operands
from verifierd.predictors.shell.options import options
from verifierd.predictors.shell.patterns import pattern
from verifierd.predictors.shell.specs import SPECS, Spec
from verifierd.predictors.shell.streams import check_outputs, check_redirects, check_walk, is_sorted_anywhere

__all__ = ("Units", "units")


class Units(msgspec.Struct, kw_only=True):
    """What a script consists of, and what its outcome must be held to.

    Attributes:
        script: The script as read.
        used: Its units.
        mixes: True if one command may write output and errors, whose order is not known.
        shows_errors: True if errors are sent to where output goes.
        unordered: True if a part of the output comes in an order that the machine's file system chooses.
        sorted: True if a part of the output is in an order that the locale chooses.
        blocks: True if that part is in blocks with a heading each, as of `ls -R`.
        odd: Forms of numbers in the output that depend on the make or version of a tool.
        needs_output: True if only an output shows that the status is right.
        hides: Beginnings and ends of error messages that do not say enough to be trusted here.
        never: Lines that only the virtual shell would print.
        whole: Files that must be known to end with a newline, or to be empty; in `ordered`, also to be sorted.
    """

    script: Script
    used: set[str] = msgspec.field(default_factory=set)
    mixes: bool = False
    shows_errors: bool = False
    unordered: bool = False
    sorted: bool = False
    blocks: bool = False
    odd: tuple[str, ...] = ()
    needs_output: bool = False
    hides: tuple[tuple[str, str], ...] = ()
    never: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    ordered: tuple[str, ...] = ()


# Names that mean something to the shell or to programs; giving them a value, or reading one, changes more than text.
_SPECIAL = re.compile(
    r"(?:BASH|LC_|LANG|LD_|GREP_|LS_|GIT_|PYTHON|TAR_|POSIX|XDG_|AWK|COMP_|PROMPT_|READLINE_|BC_|JQ_|EPOCH)\w*"
    r"|(?:SHELL|HIST|MAIL|BLOCK|TIME|OPT)\w*|PATH|IFS|PS[0-4]|ENV|RANDOM|SRANDOM|SECONDS|LINENO|UID|EUID|PPID|SHLVL|TZ"
    r"|TERM|COLUMNS|LINES|HOSTNAME|HOSTTYPE|OSTYPE|MACHTYPE|FUNCNAME|GROUPS|DIRSTACK|REPLY|PIPESTATUS|CDPATH|GLOBIGNORE"
    r"|FIGNORE|TMOUT|TMPDIR|PWD|OLDPWD|HOME|USER|LOGNAME|QUOTING_STYLE|DEBUG|MAPFILE|COPROC|INPUTRC|EDITOR|VISUAL|PAGER"
    r"|TABSIZE|EXECIGNORE|_"
)
_READABLE = frozenset({"HOME", "PWD", "OLDPWD", "USER"})
_NAME = re.compile(r"[A-Za-z_]\w*")
_INTEGER = re.compile(r"-?\d{1,6}")
_MODE = re.compile(r"[ugoa]*\+x|[0-7]{3}")
# A name with a suffix is taken for a file's; a directory's size is the file system's own, and 644 would close it.
_FILE_NAME = re.compile(r".*\w\.\w+")
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
_STOPS_AT_ERRORS = frozenset({"chmod", "mkdir", "od", "touch", "wc"})
# Options of ls and sort whose output differs from run to run, or from machine to machine.
_LS_VARYING_WORDS = "-t -S -l -s -i -c -u -U -f -o -g -n -X -Z -C -x -m"
_LS_VARYING = frozenset(_LS_VARYING_WORDS.split())
_SORT_VARYING = frozenset({"-R", "-M", "-h", "-V", "--random-sort"})
_SETTINGS = frozenset({"-e", "-u", "-eu", "-o pipefail", "-euo pipefail", "+e"})
_NESTED_WORDS = "rm cat wc grep ls echo head touch chmod sed cp mv basename"
_NESTED = frozenset(_NESTED_WORDS.split())
_SUMS = (["-sd+"], ["-sd+", "-"], ["-s", "-d+"], ["-sd", "+"])
# An awk program that reads nothing.
_ONLY_BEGIN = re.compile(r"\s*BEGIN\s*\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}\s*")
_ZERO_LED = re.compile(r"-?0\d+")


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
        self.script = script
        self.result = Units(script=script)
        self.functions = functions | script.functions
        self.words = Operands(script, values)

    def take(self) -> Units:
        script, result = self.script, self.result
        self.names()
        result.used |= {f"shell: {feature}" for feature in script.features}
        for command in script.commands:
            self.command(command)
            result.shows_errors = check_redirects(command, self.words) or result.shows_errors
            if any(redirect.op == "<" for redirect in command.redirects):
                self.hide("bash: ", "Is a directory")
        check_outputs(script)
        if script.functions or "shell: call of a function" in result.used:
            self.hide("bash: ")  # in functions, bash has another name for itself
        if any(command.name is not None and command.name.text == "cd" for command in script.commands):
            for name in ("wc", "sort"):
                self.hide(f"{name}: ")  # it names whole paths, and which part of them to drop is not known
        result.mixes = result.mixes or "pipe" in script.features or any(c.captured for c in script.commands)
        return result

    def names(self) -> None:
        """Refuse names of functions and variables that mean something, and numbers that bash takes for octal."""
        script = self.script
        for name in script.functions:
            if name in SPECS:
                raise Unread(f"function that is called {name}")
        for name in script.names | script.bound.keys():
            readable = name in _READABLE and name not in script.bound
            splits_lines = name == "IFS" and "assignment before read" in script.features
            if _SPECIAL.fullmatch(name) and not readable and not splits_lines:
                raise Unread(f"variable {name}")
        if any(feature.startswith(("$((", "((")) for feature in script.features):
            for word in (word for words in script.bound.values() for word in words if word is not None):
                if _ZERO_LED.fullmatch(word.text or ""):
                    raise Unread("number with a leading 0")

    def use(self, unit: str) -> None:
        self.result.used.add(unit)

    def program(self, name: str, features: Collection[str]) -> None:
        self.result.used |= {f"{name}: {feature}" for feature in features}

    def hide(self, start: str, end: str = "") -> None:
        self.result.hides += ((start, end),)

    def walk(self, command: Command) -> None:
        self.result.unordered = check_walk(command) or self.result.unordered

    # --- one command

    def command(self, command: Command) -> None:
        if command.name is None:
            return
        name = command.name.text
        if name is None or command.name.quoted:
            raise Unread("command by expansion, or quoted")
        if name not in SPECS and name in self.functions:
            self.use("shell: call of a function")
            for word in command.args:
                self.words.check(word, command)
            if name not in self.script.functions:
                self.result.mixes = self.result.sorted = True
            return
        self.invocation(name, command.args, command)

    def invocation(self, name: str, args: Sequence[Word], command: Command, *, nested: bool = False) -> None:
        if name not in SPECS:
            raise Unread(f"command {name}")
        reader = self._readers.get(name)
        if reader is not None:
            reader(self, name, list(args), command)
        else:
            flags, operands = options(name, args)
            self.operands(name, flags, operands, command, nested=nested)

    def operands(
        self,
        name: str,
        flags: Sequence[str],
        operands: Sequence[Word],
        command: Command,
        *,
        nested: bool = False,
        stdin: bool | None = None,
    ) -> None:
        """Check the operands, and use the unit of command, options, and number of operands."""
        spec = SPECS[name]
        reads = spec.stdin if stdin is None else stdin
        for word in operands:
            if word.text != "-" or "-" not in flags:
                self.operand(name, word, command, spec)
            if reads and not {"@", "*"}.isdisjoint(word.names):
                raise Unread(f"{name} of arguments that may be none")
        several = len(operands) > 1 or any(word.splits for word in operands)
        if name in _VAGUE_INSIDE and (several or any("/" in word.holes.rstrip("/") for word in operands)):
            self.hide(_VAGUE_INSIDE[name], "No such file or directory")
        if name in _STOPS_AT_ERRORS and several:
            self.hide(f"{name}: ")
        if name == "wc" and not operands and any(redirect.op == "<" for redirect in command.redirects):
            flags = [*flags, "<"]  # its columns are as wide as the file is large
        self.shapes(name, flags, operands, spec)
        if reads and not nested and not command.piped and (not operands or "-" in flags):
            raise Unread(f"{name} that reads standard input")
        if spec.prints and several:
            self.result.mixes = True

    def operand(self, name: str, word: Word, command: Command, spec: Spec) -> None:
        if spec.operands == "path":
            self.words.check(word, command)
        elif spec.operands == "number":
            computed = word.names[:1] in {("((",), ("?",), ("#",)} and word.holes == "\0"
            if not computed and not _INTEGER.fullmatch(word.text or ""):
                raise Unread(f"{name} of no number")
        elif spec.operands == "name" and (not _NAME.fullmatch(word.text or "") or _SPECIAL.fullmatch(word.text or "")):
            raise Unread(f"{name} of no plain name")

    def shapes(self, name: str, flags: Sequence[str], operands: Sequence[Word], spec: Spec) -> None:
        """Use the unit for each number of operands that there may be."""
        marks = [mark for mark in ("x/", "x/.") if any(word.holes.endswith(mark[1:]) for word in operands)]
        form = " ".join([name, *sorted([*flags, *marks], key=_by_letter)])
        count = len(operands)
        splits = any(word.splits for word in operands)
        for number in range(max(count, 1), max(spec.many, count) + 1) if splits else (count,):
            self.use(f"command: {form} | {number if number < spec.many else f'{spec.many}+'}")

    # --- commands of their own kind

    def nothing(self, name: str, _args: list[Word], _command: Command) -> None:
        """A command whose words do not matter, or whose features the reader knows."""
        if name != "[[":
            self.use(f"command: {name} | any")

    def declaration(self, name: str, args: list[Word], command: Command) -> None:
        if not args and not command.assigned:
            raise Unread(f"{name} that lists")
        flags, operands = options(name, args)
        self.operands(name, flags, operands, command)

    def echo(self, _name: str, args: list[Word], _command: Command) -> None:
        flags: list[str] = []
        while args and re.fullmatch(r"-[neE]+", args[0].text or "") and not args[0].quoted:
            flags.append(str(args.pop(0).text))
        for word in args:
            escaped = any("e" in flag for flag in flags) and re.search(r"\\(?![nt\\])", word.holes)
            if escaped or (any("e" in flag for flag in flags) and word.text is None):
                raise Unread("echo -e")
        if args and args[0].text is None and not args[0].head and any("\\" in word.holes for word in args):
            raise Unread("echo of what may be an option")
        self.use(f"command: {' '.join(['echo', *flags])} | any")

    def printf(self, _name: str, args: list[Word], _command: Command) -> None:
        if not args or args[0].text is None or args[0].text.startswith("-"):
            raise Unread("printf format")
        if any(word.splits for word in args[1:]):
            self.program("printf", {"words by expansion"})
        self.use("command: printf | any")
        self.program("printf", programs.printf(args[0].text, [word.text for word in args[1:]]))

    def test(self, name: str, args: list[Word], _command: Command) -> None:
        if name == "[" and (not args or args.pop().text != "]"):
            raise Unread("[ without ]")
        features = programs.test([word.text for word in args])
        if "-s" in features and not _FILE_NAME.fullmatch(args[-1].text or ""):
            raise Unread("size of what may be a directory")
        if any(word.splits for word in args):
            features.add("words by expansion")
        self.program("test", features)
        self.use("command: test | any")

    def settings(self, _name: str, args: list[Word], _command: Command) -> None:
        words = " ".join(word.text or "" for word in args)
        if words not in _SETTINGS:
            raise Unread("set")
        self.use(f"command: set {words} | 0")

    def kind(self, _name: str, args: list[Word], _command: Command) -> None:
        words = [word.text for word in args]
        if len(words) == 2 and words[0] == "-t" and words[1] in self.functions:
            self.use("command: type -t | function")
        elif len(words) == 1 and words[0] in {"cd", "export", "exit", "set", "shift", "unset"}:
            self.use("command: type | builtin")
        else:
            raise Unread("type of a program")

    def read(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        if not (command.piped or command.fed) or not operands:
            raise Unread("read from standard input")
        for word in operands:
            self.operand(name, word, command, SPECS[name])
            self.script.bound.setdefault(str(word.text), []).append(None)
        self.shapes(name, flags, operands, SPECS[name])

    def expr(self, _name: str, args: list[Word], _command: Command) -> None:
        self.program("expr", programs.expr([word.text for word in args]))
        self.use("command: expr | any")

    def bc(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        before = command.before
        if operands or flags not in ([], ["-l"]) or before is None or before.name is None:
            raise Unread("bc")
        source, words = before.name.text, [word.text for word in before.args]
        if source == "echo" and len(words) == 1 and words[0] is not None:
            self.program("bc", programs.bc(words[0]))
        elif source == "paste" and words in _SUMS:
            self.program("bc", {"+"})
        else:
            raise Unread("bc program")
        self.use(f"command: {' '.join(['bc', *flags])} | any")

    def tr(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        self.program(name, programs.tr([word.text for word in operands]))
        self.shapes(name, flags, operands, SPECS[name])
        if not command.piped:
            raise Unread("tr that reads standard input")

    # --- commands with a program among their words

    def sed(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        scripts, operands = _programs(name, args, flags, operands)
        extended = not {"-E", "-r"}.isdisjoint(flags)
        several = len(operands) > 1 or any(word.splits for word in operands)
        for script in scripts:
            features = programs.sed(script, extended=extended)
            if several and any(
                feature[-1:] in {"n", "N"} for feature in features if not feature.startswith(("s ", "re "))
            ):
                raise Unread("sed that reads on from one file to the next")
            self.program(name, {f"{'-E ' if extended and f.startswith('re ') else ''}{f}" for f in features})
        self.operands(name, flags, operands, command)

    def grep(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        patterns, operands = _programs(name, args, flags, operands)
        if "-P" in flags or {"-E", "-F"} <= set(flags):
            raise Unread("grep -P")
        dialect = "fixed" if "-F" in flags else "extended" if "-E" in flags else "basic"
        shown = "".join(f"{flag} " for flag in ("-o", "-w", "-x") if flag in flags)
        for text in patterns:
            if not text or not text.isascii() or "\n" in text:
                raise Unread("grep pattern")
            if dialect != "fixed":
                features = pattern(text, extended=dialect == "extended")
                self.program(name, {f"{shown}{dialect} {feature}" for feature in features})
        walks = not {"-r", "-R"}.isdisjoint(flags)
        if walks:
            self.walk(command)
            self.result.mixes = True
        self.operands(name, flags, operands, command, stdin=not walks)

    def awk(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        (program,), operands = _programs(name, (), flags, operands)
        features = programs.awk(program)
        self.program(name, features)
        self.result.odd += (r"\d{10}|\d[eE][-+]\d",)
        if {"for", "in"} <= features:
            self.walk(command)
        if any("=" in (word.text or "") for word in operands):
            raise Unread("awk assignment")
        self.operands(name, flags, operands, command, stdin=not _ONLY_BEGIN.fullmatch(program))

    def jq(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        (program,), operands = _programs(name, (), flags, operands)
        self.program(name, programs.jq(program))
        self.result.odd += (r"\d\.\d|\d[eE][-+]?\d|\d{16}",)
        self.operands(name, flags, operands, command)

    # --- commands about files

    def copy(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        if not {"-u", "--update"}.isdisjoint(flags):
            raise Unread(f"{name} by age")
        paths = [posixpath.normpath(word.text or word.holes) for word in operands]
        _check_apart(name, paths)
        if len(paths) > 2 or (paths and "/" in paths[-1]) or any(word.splits for word in operands):
            # The virtual shell does not say whether the source or the target's directory is missing.
            self.hide(f"{name}: cannot")
        self.operands(name, flags, operands, command)

    def compare(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        paths = tuple(word.text for word in operands if word.text is not None and word.text != "-")
        if len(paths) < len(operands) or any(c.name is not None and c.name.text == "cd" for c in self.script.commands):
            raise Unread(f"{name} of files that cannot be looked at")
        self.result.whole += paths
        if name != "diff":
            self.result.ordered += paths
        self.operands(name, flags, operands, command)

    def chmod(self, name: str, args: list[Word], command: Command) -> None:
        mode = (args.pop(0).text if args else None) or ""
        if not _MODE.fullmatch(mode) or (mode.isdigit() and mode[0] not in "67"):
            raise Unread("chmod mode")
        if mode.startswith("6") and not all(_FILE_NAME.fullmatch(word.text or "") for word in args):
            raise Unread("chmod of what may be a directory")
        self.operands(name, ["NNN" if mode.isdigit() else mode], args, command)

    def stat(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        if any("%s" in flag for flag in flags) and not all(_FILE_NAME.fullmatch(word.text or "") for word in operands):
            raise Unread("size of what may be a directory")
        self.operands(name, flags, operands, command)

    def ls(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        if not _LS_VARYING.isdisjoint(flags):
            raise Unread("ls of what differs from run to run")
        literal = [word.text for word in operands if word.text is not None]
        if len(operands) > 1 or len(literal) < len(operands):
            self.hide("ls: ")
            if len(operands) > 1 and (len(literal) < len(operands) or not is_sorted_anywhere(literal)):
                raise Unread("ls of several in an order of its own")
            flags += ["glob"] if not literal else []
        if "-d" not in flags:
            # So it shows a link to a file.
            self.result.never += tuple(text for text in literal if text.endswith("/"))
        self.result.blocks = self.result.blocks or "-R" in flags
        self.result.sorted = True
        self.operands(name, flags, operands, command)

    def sort(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        if not _SORT_VARYING.isdisjoint(flags):
            raise Unread("sort of what differs from run to run")
        self.result.sorted = True
        self.operands(name, flags, operands, command)

    def wc(self, name: str, args: list[Word], command: Command) -> None:
        flags, operands = options(name, args)
        if "-L" in flags:
            raise Unread("width of lines, which hangs on tabs")
        self.operands(name, flags, operands, command)

    def tar(self, name: str, args: list[Word], command: Command) -> None:
        if args and args[0].text and not args[0].text.startswith("-"):
            args[0] = Word(text=f"-{args[0].text}", head="-")
        flags, operands = options(name, args)
        if "-t" in flags:
            self.walk(command)
        tops = [posixpath.normpath(word.text or ".") for word in operands]
        if "-c" in flags and any(
            top.startswith((".", "/")) or (word.text or "").startswith(f"{top}/") for top in tops for word in args
        ):
            raise Unread("archive that may hold itself")
        self.operands(name, flags, operands, command)

    # --- commands that run commands

    def find(self, name: str, args: list[Word], command: Command) -> None:
        starts: list[Word] = []
        while args and not re.match(r"-|[()!]$", args[0].text or ("-" if starts else "x")):
            starts.append(args.pop(0))
        if len(starts) > 1 or any(word.text is None for word in args):
            raise Unread("find")
        for word in starts:
            self.words.check(word, command)
        inner: list[str] = []
        together = any(word.text == "+" for word in args)

        def nested(words: Sequence[str | None]) -> None:
            inner.append(str(words[0]))
            self.nested(inner[-1], words[1:], several=together)

        features = programs.find([word.text for word in args], nested)
        self.program(name, features)
        self.use(f"command: find | {len(starts)}")
        self.result.mixes = True
        if inner:
            self.cut_off(command)
        silent = inner and all(not SPECS[command].prints or command == "sed" for command in inner)
        if not silent and "-delete" not in features:
            self.walk(command)

    def xargs(self, name: str, args: list[Word], command: Command) -> None:
        own: list[Word] = []
        while args and (args[0].text or "").startswith("-"):
            own.append(args.pop(0))
            if own[-1].text in {"-n", "-I", "-L"} and args:
                own.append(args.pop(0))
        flags, _ = options(name, own)
        args = args or [Word(text="echo", head="echo")]
        if not command.piped or args[0].text is None:
            raise Unread("xargs without input or command")
        self.use(f"command: {' '.join([name, *sorted(flags)])} | any")
        words = [word.text for word in args[1:]]
        if args[0].text == "grep":
            if flags or {"-c", "-L", "-q"} & set(words) or "?" in self.script.names:
                raise Unread("status of xargs")
            self.result.needs_output = True
        self.cut_off(command)
        self.result.mixes = True
        self.nested(args[0].text, words if "{}" in words else [*words, "{}"], several="-I {}" not in flags)

    def cut_off(self, command: Command) -> None:
        """Refuse a command that would report how those that it runs end when `head` stops reading."""
        if command.after is not None and command.after.name is not None and command.after.name.text == "head":
            raise Unread("running commands whose output is cut off")

    def nested(self, name: str, words: Sequence[str | None], *, several: bool) -> None:
        """A command that find or xargs runs, for several files at a time or for one."""
        if name not in _NESTED:
            raise Unread(f"nested {name}")
        file = Word(text=None, head="x", holes="x\0", splits=several)
        args = [file if word == "{}" else Word(text=word, head=word or "", holes=word or "") for word in words]
        self.use(f"shell: nested {name}")
        inner = Command(name=Word(text=name, head=name), args=args, piped=True)
        self.invocation(name, args, inner, nested=True)

    _readers: ClassVar[dict[str, Callable[["_Taker", str, list[Word], Command], None]]] = {
        **dict.fromkeys((":", "[[", "false", "true"), nothing),
        **dict.fromkeys(("export", "local"), declaration),
        **dict.fromkeys(("[", "test"), test),
        **dict.fromkeys(("cp", "ln", "mv"), copy),
        **dict.fromkeys(("comm", "diff", "join"), compare),
        "awk": awk,
        "bc": bc,
        "chmod": chmod,
        "echo": echo,
        "expr": expr,
        "find": find,
        "grep": grep,
        "jq": jq,
        "ls": ls,
        "printf": printf,
        "read": read,
        "sed": sed,
        "set": settings,
        "sort": sort,
        "stat": stat,
        "tar": tar,
        "tr": tr,
        "type": kind,
        "wc": wc,
        "xargs": xargs,
    }


def _programs(
    name: str, args: Sequence[Word], flags: Sequence[str], operands: list[Word]
) -> tuple[list[str], list[Word]]:
    """The programs among a command's words, given by `-e` or as the first operand, and the operands that are left."""
    found = [word.text for before, word in pairwise(args) if before.text == "-e"]
    if not found and operands:
        found, operands = [operands[0].text], operands[1:]
    if len(found) != max(1, sum(flag.startswith("-e") for flag in flags)):
        raise Unread(f"{name} without a program, or with several")
    texts = [text for text in found if text is not None]
    if len(texts) < len(found):
        raise Unread(f"{name} program by expansion")
    return texts, operands


def _check_apart(name: str, paths: Sequence[str]) -> None:
    """Refuse a copy onto itself, or of one thing twice, whose outcome hangs on more than the names."""
    target = paths[-1] if paths else ""
    for path in paths[:-1]:
        inside = target.startswith(f"{path}/") or (posixpath.dirname(path) or ".") == target
        same_name = len(paths) > 2 and posixpath.basename(path) == posixpath.basename(target)
        if path in {target, ".", ".."} or inside or (name != "ln" and same_name):
            raise Unread(f"{name} onto itself")
    if len(set(paths)) < len(paths):
        raise Unread(f"{name} of the same twice")


def _by_letter(flag: str) -> tuple[bool, bool, str]:
    """Keys of sort keep their order among themselves, for it matters."""
    return flag == "late", not flag.startswith("-"), "" if flag.startswith("-k") else flag
