"""What a real observation teaches, read off the command and its answer alone."""

import posixpath
import re
import shlex

import msgspec
from bashkit import ScriptAnalysis

from verifierd.predictors.shell.mentions import skeleton

__all__ = ("Absent", "Content", "Lesson", "Listing", "Made", "Place", "Tree", "Value", "lessons")


class Content(msgspec.Struct, frozen=True):
    """A file holds this text; `exact` is False if the log may have trimmed it."""

    path: str
    text: str
    exact: bool


class Listing(msgspec.Struct, frozen=True):
    """A directory holds these names and no others; hidden ones only if `hidden`."""

    path: str
    names: tuple[str, ...]
    hidden: bool


class Tree(msgspec.Struct, frozen=True):
    """The files at and below a directory are these and no others."""

    path: str
    files: tuple[str, ...]


class Made(msgspec.Struct, frozen=True):
    """A directory was created, so nothing is in it."""

    path: str


class Absent(msgspec.Struct, frozen=True):
    """There is nothing at a path, or, if `followed`, a link that leads nowhere."""

    path: str
    followed: bool


class Value(msgspec.Struct, frozen=True):
    """A variable has this value."""

    name: str
    text: str


class Place(msgspec.Struct, frozen=True):
    """The shell is in this directory."""

    path: str


Lesson = Content | Listing | Tree | Made | Absent | Value | Place

_LEADING_CD = re.compile(r"\s*cd\s+([\w./@+-]+)\s*&&\s*")
_WORD = r"""(?:[\w./@+,:=-]+|'[^'\n]*'|"[^"$`\\\n]*")"""
_CAT = re.compile(rf"\s*cat\s+(?!-)({_WORD})\s*")
_LS = re.compile(rf"\s*ls(?:\s+-(1|a|A|1a|a1|1A|A1))?(?:\s+(?!-)({_WORD}))?\s*")
_FIND = re.compile(rf"\s*find\s+({_WORD})\s+-type\s+f(?:\s*\|\s*sort)?\s*")
_VALUE = re.compile(r'\s*echo\s+"?(?:\$\{?([A-Za-z_]\w*)\}?|(~))"?\s*')
_PRINTED = re.compile(r"\s*printenv\s+([A-Za-z_]\w*)\s*")
_MISSING = re.compile(r"[^\n]*: No such file or directory")
# Where not every command may have been run, or its status may be hidden.
_BRANCHES = re.compile(r"[;|\n(){}]|(?<!&)&(?!&)")
_FILLERS = frozenset({"echo", "mkdir", "printf", "touch", "true"})
_NO_FOLLOWERS = frozenset({"cd", "ls", "mv", "rm"})
_LOOKERS = frozenset({
    "cat", "cd", "cp", "cut", "diff", "grep", "head", "ls", "mv", "rm", "sed", "sort", "stat", "tail", "uniq", "wc"
})  # fmt: skip


def lessons(
    analysis: ScriptAnalysis, command: str, cwd: str | None, observation: str, exit_code: int | None, *, exact: bool
) -> list[Lesson]:
    """What an observation teaches about files, variables and the working directory.

    Args:
        analysis: The virtual shell's reading of the command.
        command: The command line.
        cwd: The directory it ran in, None if unknown; relative paths teach nothing then.
        observation: What came back.
        exit_code: Its status; None counts as success unless the observation reads like an error.
        exact: False if the log trims observations.
    """
    ahead = _LEADING_CD.match(command)
    if ahead is not None:
        cwd = _resolve(cwd, ahead[1])
        command = command[ahead.end() :]
    if exit_code not in (0, None):
        return _failure(analysis, cwd, observation)
    if any(part.name == "mkdir" for part in analysis.commands):
        done = exit_code == 0 and not observation.strip() and not _BRANCHES.search(skeleton(command))
        return _made(analysis, cwd) if done else []
    if found := _CAT.fullmatch(command):
        path = _resolve(cwd, _unquote(found[1]))
        taught: list[Lesson] = [Content(path, observation, exact)] if path else []
        return taught if _no_error("cat", observation, exit_code) else []
    if found := _LS.fullmatch(command):
        return _listing(found, cwd, observation, exit_code)
    if found := _FIND.fullmatch(command):
        return _tree(_unquote(found[1]), cwd, observation, exit_code)
    return _printed(command, observation)


def _made(analysis: ScriptAnalysis, cwd: str | None) -> list[Lesson]:
    """All commands were run, one after the other, and went well, and none of them brought anything from elsewhere."""
    if any(part.name not in _FILLERS for part in analysis.commands):
        return []
    paths: list[str | None] = []
    for part in analysis.commands:
        plain = not any(word is None or word.startswith("-") or "{" in word for word in part.args)
        if part.name == "mkdir" and plain:
            paths += [_resolve(cwd, word) for word in part.args if word]
    return [Made(path) for path in paths if path is not None]


def _printed(command: str, observation: str) -> list[Lesson]:
    text = observation.removesuffix("\n")
    if found := _VALUE.fullmatch(command) or _PRINTED.fullmatch(command):
        # Words are split and joined by one blank on their way through `echo`, so only plain values are as printed.
        return [Value(found[1] or "HOME", text)] if re.fullmatch(r"[\w./:@+,=-]+", text) else []
    return [Place(text)] if command.strip() == "pwd" and re.fullmatch(r"/[^\n]*", text) else []


def _listing(found: re.Match[str], cwd: str | None, observation: str, exit_code: int | None) -> list[Lesson]:
    word = _unquote(found[2]) if found[2] else "."
    path = _resolve(cwd, word)
    names = observation.split("\n")
    if names and not names[-1]:
        names.pop()
    # `ls FILE` prints the name as it was given.
    if path is None or names == [word] or not _no_error("ls", observation, exit_code):
        return []
    # The virtual shell can hold no name with a control character.
    if any(not name or "/" in name or not name.isprintable() for name in names):
        return []
    hidden = "a" in (found[1] or "").lower()
    return [Listing(path, tuple(name for name in names if name not in {".", ".."}), hidden)]


def _tree(word: str, cwd: str | None, observation: str, exit_code: int | None) -> list[Lesson]:
    path = _resolve(cwd, word)
    lines = observation.splitlines()
    start = word.rstrip("/") + "/"
    if path is None or not _no_error("find", observation, exit_code):
        return []
    if not all(line.startswith(start) and "//" not in line and line.isprintable() for line in lines):
        return []
    return [Tree(path, tuple(posixpath.normpath(posixpath.join(path, line[len(start) :])) for line in lines))]


def _failure(analysis: ScriptAnalysis, cwd: str | None, observation: str) -> list[Lesson]:
    """One command about some paths, and all that it says is that they are missing."""
    if len(analysis.commands) != 1 or any(r.is_write or r.path is None for r in analysis.redirects):
        return []
    part, lines = analysis.commands[0], observation.splitlines()
    if part.name not in _LOOKERS or None in part.args or not all(map(_MISSING.fullmatch, lines)):
        return []
    words = {word for word in (*part.args, *(r.path for r in analysis.redirects)) if word and not word.startswith("-")}
    taught: list[Lesson] = []
    for line in lines:
        named = [word for word in words if re.search(rf"(?<![\w./-]){re.escape(word)}(?![\w./-])", line)]
        path = _resolve(cwd, named[0]) if len(named) == 1 else None
        if path is not None:
            taught.append(Absent(path, part.name not in _NO_FOLLOWERS))
    return taught


def _no_error(tool: str, observation: str, exit_code: int | None) -> bool:
    return exit_code == 0 or not observation.startswith(f"{tool}: ")


def _unquote(word: str) -> str:
    try:
        return "".join(shlex.split(word))
    except ValueError:
        return word


def _resolve(cwd: str | None, word: str) -> str | None:
    if word.startswith("/"):
        return posixpath.normpath(word)
    if cwd is None or word.startswith("~") or not word:
        return None
    return posixpath.normpath(posixpath.join(cwd, word))
