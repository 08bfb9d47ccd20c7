"""Whether a command looks into text that nobody showed, rather than passing it on.

The worlds differ in what is unknown, but no handful of made-up texts has every property that a command may ask for:
where one only passes text on, they tell it from the known; where it looks into it, they may agree and be wrong.
"""

import re
from collections.abc import Container, Iterable, Sequence
from itertools import pairwise

from bashkit import ScriptAnalysis

from verifierd.predictors.shell.mentions import references, skeleton

__all__ = (
    "discerns",
    "files_read",
    "folders_looked_at",
    "hides_errors",
    "is_set_first",
    "is_simple",
    "reads_what_it_finds",
    "variables_weighed",
)

# What passes text on, or never sees any.
_PASSING = frozenset({
    ":", "cat", "cd", "chmod", "cp", "echo", "exit", "export", "false", "find", "ln", "local", "ls", "mkdir", "mv",
    "popd", "printf", "pushd", "pwd", "readlink", "return", "rm", "rmdir", "set", "shift", "tar", "tee", "touch",
    "true", "type",
})  # fmt: skip
# As far as words are concerned that come from a variable.
_SPEAKING = frozenset({":", "cat", "cd", "echo", "exit", "export", "false", "local", "printf", "pwd", "return", "true"})
# Functions made of these depend on nothing but their words and variables.
_SIMPLE = _SPEAKING - {"cat", "cd", "pwd"} | {"[", "expr", "shift", "test"}
_TYPES = frozenset({"-d", "-e", "-f", "-h", "-L", "-s"})
_PLAIN_FORMAT = re.compile(r"(?:[^%]|%s|%%)*")
_WEIGHING = re.compile(r"\[\[|\(\(|\$\[|=~|\bcase\b|\blet\b|\bselect\b|\$\{\w+[^\w}:]|\$\{\w+:[^-+=]|\$\{[#!]")
_ARITHMETIC = re.compile(r"\(\((.*?)\)\)|\$\[(.*?)\]|\blet\s+([^;&|\n]*)", re.DOTALL)
_BARE_TEST = re.compile(r"\[\[[^\n]*-(?:eq|ne|lt|le|gt|ge|v)\b|(?:\[|\btest)\s+(?:!\s+)?-v\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_HIDES = re.compile(r"2>|&>|>&|\s-\w*[qs]\w*\b|--(?:quiet|silent|no-messages)\b")
_LATER = re.compile(r"&&|\|\||\||\(|\b(?:then|else|do|while|until)\b")
_RIGHT = re.compile(r"\$\(\(.*?\)\)|\$\(.*?\)|\"[^\"]*\"|'[^']*'|[^\s;&|]*", re.DOTALL)
_GLOB = re.compile(r"[^\s'\"|;&<>()=]*[*?\[][^\s'\"|;&<>()]*")
# Where `*`, `?` and `[` are other signs, or patterns that no file is held against.
_NO_GLOBS = re.compile(r"\(\(.*?\)\)|\$\{[^}]*\}|\[\[.*?\]\]|\bcase\b.*?\besac\b|\$[?*]", re.DOTALL)
_LISTERS = frozenset({"du", "find", "ls", "tree"})
_RECURSIVE = re.compile(r"-\w*[rR]\w*|--(?:dereference-)?recursive")


def discerns(analysis: ScriptAnalysis, command: str) -> bool:
    """Whether a command's result may hang on a property of text that it reads, other than what the text is."""
    if _WEIGHING.search(skeleton(command)):
        return True
    return any(not _passes(part.name, part.args) for part in analysis.commands)


def _passes(name: str | None, args: Sequence[str | None]) -> bool:
    if name is None:  # an assignment
        return True
    if name in {"[", "test"}:
        words = [word for word in args if word not in {"!", "]"}]
        return len(words) == 2 and words[0] in _TYPES and words[1] is not None
    if name in {"head", "tail"}:
        # From the end that is known, or as many lines as there are made up at least.
        return not any(word is None or re.match(r"\+|-n?\+|-\w*c|--bytes|-n?\d\d", word) for word in args)
    if name == "find":
        started = [after for word, after in pairwise(args) if word in {"-exec", "-execdir"}]
        return all(tool in _PASSING for tool in started)
    if name == "printf":
        return bool(args) and args[0] is not None and _PLAIN_FORMAT.fullmatch(args[0]) is not None
    return name in _PASSING


def is_simple(analysis: ScriptAnalysis, functions: Container[str]) -> bool:
    """Whether what a function does hangs on its words and on variables alone."""
    return not analysis.redirects and all(
        part.name is None or part.name in _SIMPLE or part.name in functions for part in analysis.commands
    )


def hides_errors(analysis: ScriptAnalysis, command: str) -> bool:
    """Whether that a file is missing may not show."""
    return bool(_HIDES.search(command)) or not {"[", "test"}.isdisjoint(analysis.command_names) or "[[" in command


def variables_weighed(analysis: ScriptAnalysis, command: str) -> set[str]:
    """The variables whose value, from before the command, may decide what it does in more ways than by being said."""
    bare = skeleton(command)
    counted = {word for found in _ARITHMETIC.findall(command) for word in _WORD.findall("".join(found))}
    if _BARE_TEST.search(bare):
        counted.update(_WORD.findall(bare))
    names = references(command) | counted
    if re.search(r"(?<![\w/~.])~", bare):
        names.add("HOME")
    if not _WEIGHING.search(bare) and all(
        part.name is None or (part.name in _SPEAKING and (part.name != "printf" or _passes("printf", part.args)))
        for part in analysis.commands
    ):
        return set()
    return {name for name in names if not is_set_first(name, command)}


def is_set_first(name: str, command: str) -> bool:
    """Whether a command surely gives a variable a value of its own before it looks at it."""
    made = re.search(
        rf"(?P<bound>\bfor\s+\(*|\bread\s+(?:-\w+\s+)*(?:\w+\s+)*|\blocal\s+(?:\w+(?:=\S*)?\s+)*)?(?<![\w$\{{]){name}"
        rf"(?:(?P<is>=(?!=))|(?![\w\[=]))",
        command,
    )
    if made is None or not (made["bound"] or made["is"]):
        return False
    if not made["bound"] and _LATER.search(command[: made.start()]):
        return False
    used = re.search(rf"\$\{{?[#!]?{name}\b", command)
    if used is not None and used.start() < made.start():
        return False
    right = _RIGHT.match(command, made.end()) if made["is"] else None
    return right is None or not re.search(rf"\b{name}\b", right[0])


def files_read(analysis: ScriptAnalysis) -> set[str] | None:
    """The files, as they are written, that a command may look into; None if not all are spelt out."""
    words = [redirect.path for redirect in analysis.redirects]
    for part in analysis.commands:
        if part.name not in _SPEAKING | {"[", "basename", "dirname", "expr", "seq", "test", "tr"} or part.name == "cat":
            words += part.args
    spelt = {word for word in words if word is not None and not re.search(r"[*?\[{]", word)}
    return spelt if len(spelt) == len(set(words)) else None


def reads_what_it_finds(analysis: ScriptAnalysis) -> bool:
    """Whether a command looks into files that it does not name."""
    return any(r.path is None and not r.is_write for r in analysis.redirects) or any(
        not _passes(part.name, part.args)
        and (
            part.name in {"find", "xargs"}
            or any(word is None or re.search(r"[*?\[]", word) or _RECURSIVE.fullmatch(word) for word in part.args)
        )
        for part in analysis.commands
        if part.name not in {"[", "test"}
    )


def folders_looked_at(analysis: ScriptAnalysis, command: str) -> Iterable[str]:
    """The directories, as they are written, whose entries a command may look at."""
    for glob in _GLOB.findall(_NO_GLOBS.sub(" ", skeleton(command))):
        if re.fullmatch(r"\[+", glob) or "$" in glob:
            continue
        parts = glob.split("/")
        plain = next((place for place, part in enumerate(parts) if re.search(r"[*?\[]", part)), 0)
        yield "/".join(parts[:plain]) or ("/" if glob.startswith("/") else ".")
    for part in analysis.commands:
        words = [word for word in part.args if word and not word.startswith("-")]
        recurses = part.name in {"diff", "grep"} and any(word and _RECURSIVE.fullmatch(word) for word in part.args)
        if part.name in _LISTERS or recurses:
            yield from words[1 if part.name == "grep" else 0 :] or ["."]
