"""What a command names: paths, patterns, variables. Read off the text, generously: a name too many does no harm."""

import posixpath
import re
from collections.abc import Callable, Container, Iterator
from itertools import takewhile

from bashkit import ScriptAnalysis

__all__ = (
    "ANY",
    "PATTERN_FIRST",
    "QUOTED_HEREDOC",
    "absolute",
    "folders_made",
    "folders_named",
    "hints",
    "names_controls",
    "path_shapes",
    "paths_named",
    "patterns_named",
    "references",
    "settled_targets",
    "skeleton",
    "variables_named",
    "write_targets",
)

ANY = "\1"
"""Stands for a made-up name in a pattern."""

QUOTED_HEREDOC = re.compile(r"<<-?\s*(['\"])(\w+)\1([^\n]*)\n.*?\n?\s*^\2$", re.DOTALL | re.MULTILINE)
"""A here-document whose text is taken as it stands; group 3 is the rest of its first line."""

_LONGEST_NAME = 255
_HINTS = 24
_PATTERNS = 8
_PATH = re.compile(r"(?=.*\w)[\w ./@~+,:=%-]{1,255}")
PATTERN_FIRST = frozenset({"awk", "grep", "jq", "sed"})
"""Tools whose first word is no path."""
# Tools of whose later words some are none.
_PATTERN_TOOLS = frozenset({"cut", "find", "sort", "xargs"})
# Tools none of whose words are.
_NO_PATHS = frozenset({"basename", "dirname", "echo", "expr", "printf", "seq", "tr"})
_ABOVE = re.compile(r"(?<![\w./])(?:\.\./)*\.\.(?![\w.])")
_RAW = re.compile(r"[\w.+@~-]*(?:/[\w.+@~-]+)+|[\w+-]*\.[\w.+-]+")
_WORD = re.compile(r"[A-Za-z_][\w.+-]*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_GLOB = re.compile(r"[^\s'\"|;&<>()=]*[*?\[][^\s'\"|;&<>()]*")
_ENDING = re.compile(r"\.(\w{1,5})\b")
_BRACES = re.compile(r"[\w./+,-]*\{[\w./+,-]+\}[\w./+,{}-]*")
_REFERENCE = re.compile(r"\$\{?[#!]?([A-Za-z_]\w*)")
# Where a bare word may be a variable.
_BARE = re.compile(r"\(\(|\blet\b|\bprintenv\b|-[velgn][qtet]\b|\bdeclare\b|-v\s|\bexport\b|\breadonly\b|\$\[")
_QUOTED = re.compile(r"'([^'\n]+)'|\"([^\"\n]+)\"")
_LITERAL = re.compile(r"'[^']*'|\"(?:[^\"$`\\]|\$(?!\())*\"")
# A name that no other part of a script looks like, and no glob.
_ODD_PATH = re.compile(r"(?=.*\w)[^/]{1,255}")
# Where an error may have been hidden.
_HIDES = re.compile(r"2>|&>")
_MOVES = frozenset({"cd", "popd", "pushd"})
# Where not every command may have been run.
_BRANCHES = re.compile(r"[|(){}]|(?<!&)&(?!&)|\b(?:if|for|while|until|case|test)\b|\[|\bgrep\b")
_WRITERS = frozenset({"touch", "mkdir", "rmdir", "cp", "mv", "ln", "tee", "rm", "split", "tar", "sed", "chmod"})
_FOLDER_TOOLS = frozenset({"cd", "find", "ls", "mkdir", "pushd", "rmdir"})
# Names that are directories more often than not.
_FOLDERS = frozenset(
    "app apps assets backup bin build cache conf config content core data dist doc docs etc examples fixtures home"  # noqa: SIM905 - a list of words
    " images include lib libs log logs media migrations modules new node_modules old out output packages pkg public"
    " resources results scripts server shared site spec src static styles target templates test tests tmp tools types"
    " utils var vendor views web".split()
)
_LANGUAGE = frozenset({
    "case", "do", "done", "echo", "elif", "else", "esac", "export", "fi", "for", "function", "if", "in", "local",
    "printf", "read", "return", "then", "until", "while",
})  # fmt: skip


def absolute(word: str, cwd: str | None) -> str:
    """The path that a word means in a directory; links and `~` are not looked at."""
    return posixpath.normpath(posixpath.join(cwd or "/", word))


def references(command: str) -> set[str]:
    """The variables that a command refers to by `$`."""
    return set(_REFERENCE.findall(command))


def variables_named(command: str) -> set[str]:
    """The variables whose value a command may depend on."""
    names = references(command)
    if _BARE.search(command):
        names.update(_NAME.findall(command))
    if re.search(r"\bcd\s+-", command) or "~-" in command:
        names.add("OLDPWD")
    return names


def hints(command: str) -> list[str]:
    """Words and phrases that a command may search for in files."""
    phrases = [first or second for first, second in _QUOTED.findall(command)]
    words = [*phrases, *re.findall(r"[^\s'\"|;&<>()]+", command), *_WORD.findall(command)]
    return [word for word in dict.fromkeys(words) if len(word) < _LONGEST_NAME // 4 and "\n" not in word][:_HINTS]


def settled_targets(analysis: ScriptAnalysis, command: str, cwd: str | None) -> set[str]:
    """Paths that a command leaves in a form that does not hang on what was there, provided all of it went well."""
    if _BRANCHES.search(skeleton(command)) or _HIDES.search(command):
        return set()
    stays = _MOVES.isdisjoint(analysis.command_names)
    made = {r.path for r in analysis.redirects if r.mode == "write" and r.path and stays}
    gone: set[str] = set()
    # Relative paths mean something else after `cd`.
    for part in takewhile(lambda part: part.name not in _MOVES, analysis.commands):
        if part.name in {"mkdir", "rm"} or (part.name == "rmdir" and "-p" not in part.args):
            words = made if part.name == "mkdir" else gone
            words.update(word for word in part.args if word and not word.startswith("-") and _PATH.fullmatch(word))
    made, gone = ({absolute(word, cwd) for word in words} for words in (made, gone))
    # What something was made in is a directory, then.
    return made | gone | {path[:end] for path in made for end, letter in enumerate(path) if letter == "/" and end}


def skeleton(command: str) -> str:
    """A command without what is quoted in it, to look for the shell's own signs in.

    Quotes with an expansion stay; all do where they nest, or something is escaped.
    """
    bare = QUOTED_HEREDOC.sub(r" \3", command)
    if re.search(r"[\\'\"]", _LITERAL.sub("", bare)):
        return bare
    return _LITERAL.sub(lambda match: match[0] if match[0][0] == '"' and "$" in match[0] else "''", bare)


def paths_named(analysis: ScriptAnalysis, text: str, expand: Callable[[str], list[str]]) -> set[str]:
    """Everything in a command that may be a path, as it is written.

    Args:
        analysis: The virtual shell's reading of the command.
        text: The command, with the variables that are known filled in.
        expand: Braces expanded as the shell does.
    """
    words = {r.path for r in analysis.redirects if r.path}
    computed = any(r.path is None for r in analysis.redirects)
    for part in analysis.commands:
        if part.name in _NO_PATHS:
            continue
        computed = computed or None in part.args or part.name is None
        named = [word for word in part.args if word and not word.startswith("-")]
        named = named[part.name in PATTERN_FIRST :]
        words.update(word for word in named if _PATH.fullmatch(word))
        if part.name not in _PATTERN_TOOLS:
            words.update(
                word for word in named if _ODD_PATH.fullmatch(word) and word.isprintable() and not _GLOB.fullmatch(word)
            )
    if not computed and "xargs" not in analysis.command_names:
        # What a script says when it is written down names no path yet.
        text = QUOTED_HEREDOC.sub(r" \3", text)
    words.update(word for word in _RAW.findall(text) if not re.fullmatch(r"\.+|[0-9.]+", word))
    words.update(_ABOVE.findall(text))
    if computed:
        words.update(word for word in _WORD.findall(text) if word not in _LANGUAGE)
    # Something in the directories before a glob, so that they are taken for directories.
    words.update(f"{before}/0q" for before in map(_before_glob, _GLOB.findall(text)) if before)
    for braces in _BRACES.findall(text):
        words.update(word for word in expand(braces) if _PATH.fullmatch(word))
    return {word for word in words if len(word) <= _LONGEST_NAME and word not in {"/dev/null", "."}}


def names_controls(analysis: ScriptAnalysis) -> bool:
    """Whether a path in a command has a control character, which the virtual shell can hold in none."""
    words = [r.path for r in analysis.redirects]
    for part in analysis.commands:
        if part.name not in _NO_PATHS | _PATTERN_TOOLS:
            words += part.args[-1:] if part.name in PATTERN_FIRST else part.args
    return any(word and not word.isprintable() and re.search(r"\w", word) for word in words)


def path_shapes(analysis: ScriptAnalysis, folders: Container[str] | None, cwd: str | None) -> dict[str, str]:
    """What some paths must be if they are anything; else is too far-fetched to reckon with.

    Args:
        analysis: The virtual shell's reading of the command.
        folders: Paths that were made or entered as directories at some time, and may be that again; None if there may
            be others that nobody showed.
        cwd: Where it runs.
    """
    shapes = {
        r.path: "file"
        for r in analysis.redirects
        if folders is not None
        and r.path
        and r.is_write
        and posixpath.basename(r.path) not in _FOLDERS
        and absolute(r.path, cwd) not in folders
    }
    for part in analysis.commands:
        if part.name == "mkdir" and "-p" in part.args:
            shapes.update((word, "folder") for word in part.args if word)
    return shapes


def patterns_named(text: str) -> list[str]:
    """Names that the command's globs and file endings match, with `ANY` in them."""
    globs = [_matching(glob) for glob in _GLOB.findall(text) if glob not in {"[", "[["}]
    endings = [f"{ANY}.{ending}" for ending in dict.fromkeys(_ENDING.findall(text))]
    return globs[:_PATTERNS] + endings[:_PATTERNS]


def folders_made(analysis: ScriptAnalysis, cwd: str | None) -> Iterator[str]:
    """The directories that `mkdir -p` makes or finds, those on the way included, as far as they are below `cwd`."""
    for part in analysis.commands:
        if part.name == "mkdir" and any(word and re.fullmatch(r"-\w*p\w*|--parents", word) for word in part.args):
            for word in part.args:
                if word and not word.startswith("-") and cwd is not None:
                    path = absolute(word, cwd)
                    while path.startswith(f"{cwd}/"):
                        yield path
                        path = posixpath.dirname(path)


def folders_named(analysis: ScriptAnalysis, cwd: str | None) -> Iterator[str]:
    """What a command makes, enters or lists as directories, and what it may take for such."""
    for part in analysis.commands:
        if part.name in _FOLDER_TOOLS and cwd is not None:
            yield from (absolute(word, cwd) for word in part.args if word)


def write_targets(analysis: ScriptAnalysis, cwd: str | None, *, folders: bool = True) -> Iterator[str]:
    """The paths that a command writes, as far as they are spelt out; without `folders` not those `mkdir` makes."""
    words = [r.path for r in analysis.redirects if r.is_write and r.path != "/dev/null"]
    for part in analysis.commands:
        if part.name in _WRITERS and (folders or part.name != "mkdir"):
            words += [word for word in part.args if word and not word.startswith("-") and _PATH.fullmatch(word)]
    for word in words:
        if word is not None and (word.startswith("/") or cwd is not None):
            yield absolute(word, cwd)


def _before_glob(glob: str) -> str:
    """The directories of a glob that are spelt out."""
    parts = glob.split("/")
    plain = next((place for place, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts))
    return "/".join(parts[:plain])


def _matching(glob: str) -> str:
    name = posixpath.basename(glob.rstrip("/"))
    name = re.sub(r"\[[!^][^\]]*\]", "q", name)
    name = re.sub(r"\[(.)[^\]]*\]", r"\1", name)
    return name.replace("*", ANY).replace("?", "q")
