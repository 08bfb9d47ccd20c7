"""What the virtual shell is trusted with: an allow-list, certified against real bash.

`units` breaks a command line into units; the document (policies/shell/gnu.toml) lists the units and the error messages
in which the virtual shell matched real bash every time. What is not listed is refused: before running, by its units,
and after running, by its error messages and by hints that something escaped the units.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

from bashkit import ScriptAnalysis

from verifierd.commandline.reading import Command, Script, Unread, read
from verifierd.errors import PolicyError
from verifierd.predictors.shell import programs
from verifierd.predictors.shell.streams import is_sorted_anywhere
from verifierd.predictors.shell.units import Units, units

__all__ = ("READERS", "Envelope", "template")

# Output near one of the virtual shell's limits may have been cut silently.
_NEAR_LIMIT = 500_000
_QUOTED = re.compile(r"\u2018[^\u2019]*\u2019|'[^']*'|`[^`']*'|\"[^\"]*\"")
# Commands whose view of a character depends on the locale, or on the make of the tool.
_BY_CHARACTER = frozenset(
    {"awk", "column", "cut", "expand", "fold", "grep", "head", "jq", "od", "rev", "sed", "tail", "tr", "wc"}
)
# Commands that change neither files nor the shell, whatever their options.
_READERS_WORDS = (
    "[ [[ : basename base64 cat cmp comm column cut date df diff dirname du echo expand expr false file "
    "fold free getconf grep groups head hostname id join ls lsof md5sum nl nproc od paste printenv ps pwd "
    "readlink realpath rev rg sha1sum sha256sum seq stat strings tac tail test tr true type uname "
    "uptime wc whereis which who whoami"
)
READERS = frozenset(_READERS_WORDS.split())
_GIT_READERS = frozenset(
    {"blame", "describe", "diff", "grep", "log", "ls-files", "ls-tree", "rev-parse", "shortlog", "show", "status"}
)
_GIT_QUERIES = frozenset(
    {("branch",), ("branch", "-a"), ("branch", "--show-current"), ("remote", "-v"), ("stash", "list")}
)
_WRITES = re.compile(r"-(?:o|-output|-in-place|i|-compress-program|delete|exec|execdir|ok|okdir|fprint\w*|fls)")


class Envelope:
    """Which scripts, and which of their outcomes, the virtual shell may decide.

    Args:
        certified: The units; None certifies all that is understood, as the generator needs.
        messages: The templates of error messages; None as above.
    """

    def __init__(self, certified: Collection[str] | None, messages: Collection[str] | None) -> None:
        self._certified = None if certified is None else frozenset(certified)
        self._messages = None if messages is None else frozenset(messages)
        self._read = lru_cache(maxsize=256)(_units)

    @classmethod
    def load(cls, text: str) -> "Envelope":
        """Read the document.

        Raises:
            PolicyError: It is no such document.
        """
        try:
            document = tomllib.loads(text)
            forms = document["units"].pop("command")
            certified = {f"{kind}: {unit}" for kind, group in document["units"].items() for unit in group}
            certified |= {f"command: {form} | {shape}" for form, shapes in forms.items() for shape in shapes}
            messages = {f"{name}: {text}" for name, group in document["messages"].items() for text in group}
        except (tomllib.TOMLDecodeError, KeyError, AttributeError, TypeError) as error:
            raise PolicyError(f"the shell's document cannot be read: {error}") from error
        return cls(certified, messages)

    def refuse_command(
        self,
        analysis: ScriptAnalysis,
        command: str,
        *,
        functions: Collection[str] = (),
        values: Mapping[str, str] | None = None,
    ) -> str | None:
        """Before running: None if every unit of the script is certified, else the reason in words.

        Args:
            analysis: The virtual shell's own analysis of the script.
            command: The script.
            functions: Functions defined by earlier steps; a call of any other unknown name is refused.
            values: Variables set by earlier steps, as far as known; `$x` as a file name is refused without.
        """
        if analysis.truncated or analysis.has_dynamic_commands:
            return "the virtual shell cannot see all of it"
        taken = self._take(command, functions, values)
        if isinstance(taken, str):
            return taken
        if self._certified is not None and not taken.used <= self._certified:
            return f"not certified: {min(taken.used - self._certified)}"
        return None

    def repair(self, stderr: str, cwd: str) -> str:
        """The virtual shell's wording of errors turned into GNU's; lines that are not known stay as they are."""
        if not stderr:
            return stderr
        return "".join(_repair(line, cwd) for line in stderr.splitlines(keepends=True))

    def refuse_output(
        self,
        analysis: ScriptAnalysis,
        command: str,
        stdout: str,
        stderr: str,
        *,
        values: Mapping[str, str] | None = None,
        collated: bool = False,
        look: Callable[[str], str | None] | None = None,
    ) -> str | None:
        """After running, with repaired errors: None if the outcome can be trusted, else the reason in words.

        Args:
            analysis: As above; a name in it that is no command is taken for an earlier function.
            command: As above.
            values: As above.
            stdout: What the script wrote.
            stderr: Its errors, repaired.
            collated: True if the session is known to sort in the C locale's order.
            look: The text of a file after the script, by its path as the script has it; None if it is not known. Only
                with it can `diff`, `comm` and `join` be trusted.
        """
        return self.refuse_outcome(
            command, stdout, stderr, functions=analysis.command_names, values=values, collated=collated, look=look
        )

    def refuse_outcome(
        self,
        command: str,
        stdout: str,
        stderr: str,
        *,
        functions: Collection[str] = (),
        values: Mapping[str, str] | None = None,
        collated: bool = False,
        look: Callable[[str], str | None] | None = None,
    ) -> str | None:
        """As `refuse_output`, without an analysis."""
        taken = self._take(command, functions, values)
        if isinstance(taken, str):
            return taken
        return (
            self._refuse_errors(taken, stderr)
            or _refuse_files(taken, look)
            or self._refuse_form(taken, stdout, stderr, collated=collated)
        )

    def certifies(self, keys: Collection[str]) -> bool:
        """True if all of these units, and templates as `message: ...`, are certified."""
        if self._certified is None or self._messages is None:
            return True
        return all(
            key.removeprefix("message: ") in self._messages if key.startswith("message: ") else key in self._certified
            for key in keys
        )

    def is_read_only(self, analysis: ScriptAnalysis, command: str) -> bool:
        """True if the script surely changes no file and no shell state, whatever it prints."""
        try:
            script = read(command)
        except Unread:
            return False
        if analysis.truncated or script.functions or script.bound or script.computes:
            return False
        return all(_only_reads(item) for item in script.commands)

    def _take(self, command: str, functions: Collection[str], values: Mapping[str, str] | None) -> Units | str:
        return self._read(command, frozenset(functions), None if values is None else frozenset(values.items()))

    def _refuse_errors(self, taken: Units, stderr: str) -> str | None:
        if stderr and not stderr.endswith("\n"):
            return "error message without an end"
        for line in stderr.splitlines():
            if any(line.startswith(start) and line.endswith(end) for start, end in taken.hides):
                return "message that does not say enough"
            if not self._is_certified(line):
                return f"message not certified: {line[:80]}"
        return None

    def _refuse_form(self, taken: Units, stdout: str, stderr: str, *, collated: bool) -> str | None:
        names = _names(taken.script)
        checks = (
            (stdout and stderr and taken.mixes, "order of output and errors"),
            (not stdout and taken.needs_output, "status cannot be told"),
            (stdout.count("\n") > 1 and taken.unordered, "order of a directory walk"),
            (taken.sorted and not collated and not _same_in_any_locale(stdout, taken), "order depends on the locale"),
            (not set(taken.never).isdisjoint(stdout.splitlines()), "a link in the way"),
            (any(re.search(form, stdout) for form in taken.odd), "form of a number depends on the tool"),
            (len(stdout) > _NEAR_LIMIT or "\0" in stdout or "\ufffd" in stdout, "output is near a limit or binary"),
            (not stdout.isascii() and not names.isdisjoint(_BY_CHARACTER), "characters beyond ASCII"),
        )
        reason = next((reason for failed, reason in checks if failed), None)
        return reason or (self._refuse_shown_errors(names, stdout) if taken.shows_errors else None)

    def _refuse_shown_errors(self, names: set[str], stdout: str) -> str | None:
        """Errors sent into the output bypass `repair`, so each must be right as it is, and alone."""
        lines = stdout.splitlines()
        errors = [line for line in lines if line.partition(":")[0] in {"bash", *names}]
        if errors and len(errors) != len(lines):
            return "order of output and errors"
        if all(_repair(line, "\0") == line and self._is_certified(line) for line in errors):
            return None
        return "message not certified, in the output"

    def _is_certified(self, line: str) -> bool:
        return self._messages is None or template(line) in self._messages


def _refuse_files(taken: Units, look: Callable[[str], str | None] | None) -> str | None:
    for path in taken.whole:
        text = look(path) if look is not None else None
        if text is None or (text and not text.endswith("\n")):
            return "file that may not end with a newline"
        if path in taken.ordered and text.splitlines() != sorted(text.splitlines()):
            return "file that is not sorted"
    return None


def template(line: str) -> str:
    """The kind of an error message: names, paths and line numbers after the first replaced."""
    line = _QUOTED.sub(lambda m: f"{m[0][0]}P{m[0][-1]}", line)
    name, _, rest = line.partition(": ")
    if name == "bash":
        place, _, rest = rest.partition(": ")
        name = f"bash: {place}" if place == "line 1" else f"bash: {re.sub(r'[0-9]+', 'N', place)}"
        builtin, _, more = rest.partition(": ")
        if builtin in {"cd", "export", "local", "read", "exit", "return", "shift", "unset", "[", "test", "printf"}:
            name, rest = f"{name}: {builtin}", more
    before, colon, message = rest.rpartition(": ")
    if before.startswith("cannot read: "):
        rest = f"cannot read: P: {message}"
    elif colon and not before.startswith(("cannot ", "failed ", "-r ")):
        rest = f"P: {message}"
    return f"{name}: {rest}"


def _units(command: str, functions: frozenset[str], values: frozenset[tuple[str, str]] | None) -> Units | str:
    try:
        return units(command, functions=functions, values=dict(values or ()))
    except Unread as reason:
        return str(reason)


_REPAIRS = (
    (re.compile(r"^(mkdir: cannot create directory )'(.*)':"), "\\1\u2018\\2\u2019:"),
    (re.compile(r"^cp: cannot copy '"), "cp: cannot stat '"),
    (re.compile(r"^mv: cannot move '(.*)': io error: not found$"), r"mv: cannot stat '\1': No such file or directory"),
    (
        re.compile(r"^(head|tail): (?!cannot|error)(.*): No such file or directory$"),
        r"\1: cannot open '\2' for reading: No such file or directory",
    ),
    (re.compile(r"^sort: (?!cannot)(.*): No such file"), r"sort: cannot read: \1: No such file"),
)


def _repair(line: str, cwd: str) -> str:
    end = "\n" if line.endswith("\n") else ""
    text = line.removesuffix("\n")
    for command in ("wc", "sort"):
        text = text.replace(f"{command}: {cwd}/", f"{command}: ", 1) if text.startswith(f"{command}: {cwd}/") else text
    for wrong, right in _REPAIRS:
        text = wrong.sub(right, text)
    return text + end


def _names(script: Script) -> set[str]:
    return {command.name.text for command in script.commands if command.name is not None and command.name.text}


def _only_reads(command: Command) -> bool:
    for redirect in command.redirects:
        target = redirect.target
        if redirect.op in {">", ">>", "&>", "&>>", ">|"} and (target is None or target.text != "/dev/null"):
            return False
    name = command.name.text if command.name is not None else None
    words = [word.text for word in command.args]
    if name is None:
        return False
    if words in (["--version"], ["--help"]) and name not in {"source", "."}:
        return True
    return _READERS_WITH[name](words) if name in _READERS_WITH else name in READERS


def _git_only_reads(words: list[str | None]) -> bool:
    return bool(words) and (words[0] in _GIT_READERS or tuple(words) in _GIT_QUERIES)


def _printf_only_reads(words: list[str | None]) -> bool:
    return bool(words) and not (words[0] or "-").startswith("-")


def _has_no_writing_option(words: list[str | None]) -> bool:
    return not any(word is None or _WRITES.match(word) for word in words)


def _sed_only_reads(words: list[str | None]) -> bool:
    """Whether a sed script can write or run nothing; told by its letters, not by its meaning."""
    if not _has_no_writing_option(words):
        return False
    scripts = [re.sub(r"/[^/]*/", "", word) for word in words if word is not None and not word.startswith("-")]
    return not any(re.search(r"[wWe]", script) for script in scripts)


def _awk_only_reads(words: list[str | None]) -> bool:
    """Whether the program is one that is understood, which those that write or run something are not."""
    for before, word in zip([None, *words], words, strict=False):
        if word is None:
            return False
        if not word.startswith("-") and before not in {"-F", "-v"}:
            try:
                return bool(programs.awk(word))
            except Unread:
                return False
    return False


# Commands that only read if their words are of the right kind.
_READERS_WITH: Mapping[str, Callable[[list[str | None]], bool]] = {
    "awk": _awk_only_reads,
    "command": lambda words: words[:1] in (["-v"], ["-V"]),
    "find": _has_no_writing_option,
    "git": _git_only_reads,
    "jq": _has_no_writing_option,
    "printf": _printf_only_reads,
    "sed": _sed_only_reads,
    "sort": _has_no_writing_option,
    "tree": _has_no_writing_option,
    "uniq": lambda words: len(words) < 2,
}


def _same_in_any_locale(stdout: str, taken: Units) -> bool:
    """Whether the lines of the output would be in the same order in any common locale."""
    parts = re.split(r"(?:^|\n\n)[^\n]*:\n", stdout) if taken.blocks else [stdout]
    return all(is_sorted_anywhere(sorted(set(part.splitlines()))) for part in parts)
