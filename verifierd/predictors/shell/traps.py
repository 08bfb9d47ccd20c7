"""Where the worlds would agree and be wrong together: what the virtual shell does not see, or sees in its own way.

The envelope certifies commands on files that are all known; these are traps of state that is not.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from bashkit import ScriptAnalysis

from verifierd.predictors.shell.mentions import PATTERN_FIRST, absolute, names_controls, skeleton

__all__ = ("trap",)

_SPEECH = frozenset({None, "echo", "printf", "expr", "test", "[", "[[", "seq", "tr", "basename", "dirname"})
_REMOVERS = frozenset({"mv", "rm", "rmdir"})
_ARITHMETIC = re.compile(r"\(\(|\$\[|\blet\b|\bdeclare\b|\btypeset\b|\[\[.*-(?:eq|ne|lt|le|gt|ge)\b|\$\{\w+:")
# Bash takes a number with a leading zero for an octal one.
_OCTAL = re.compile(r"(?<![\w.#:-])[+-]?0\d+(?![\w.:-])")
_OCTAL_VALUE = re.compile(r"\s*[+-]?0\d+\s*")
_NAME = re.compile(r"[A-Za-z_]\w*")
# Tools of one name cut differently before the first character.
_BEFORE_FIRST = re.compile(r"\bsubstr\([^,)]+,\s*(?:-|0\b)")
_STACK = re.compile(r"\b(?:pushd|popd)\b")
_BEFORE = re.compile(r"\bcd\s+-|~-|OLDPWD")
_ABOVE = re.compile(r"(?<![\w.])\.\.(?![\w.])")
_UP = re.compile(r"(?:^|/)\.\.(?:/|$)")
_MODE = re.compile(r"(?:\[|\btest|&&|\|\||-[ao]|!)\s+-[GNOgkruwx]\s+(?:\"|')?([^\s\"';&|\]]+)")
_GLOB_BRACES = re.compile(r"[*?\]][^\s/;|&<>()]*\{[^\s{}]*(?:,|\.\.)|\{[^\s{}]*(?:,|\.\.)[^\s{}]*\}[^\s;|&<>()]*[*?\[]")
_GLOB_WAY = re.compile(r"[*?\]][^\s/;|&<>()]*/")


def trap(
    analysis: ScriptAnalysis,
    command: str,
    cwd: str | None,
    *,
    is_folder: Callable[[str], bool],
    is_fresh: Callable[[str], bool],
    has_mode: Callable[[str], bool],
    linked: bool,
    stacked: bool,
    variables: Mapping[str, str],
) -> str | None:
    """Why a command that the envelope admits is not to be trusted here, or None.

    Args:
        analysis: The virtual shell's reading of the command.
        command: Its text.
        cwd: Where it runs; None if that is unknown.
        is_folder: Whether a path is a directory in every world.
        is_fresh: Whether everything in a directory was made in this session.
        has_mode: Whether the session gave a path its mode.
        linked: Whether a symbolic link may have been made in this session.
        stacked: Whether the stack of directories was used in it.
        variables: What is known of the shell's variables.
    """
    bare = skeleton(command)
    furnished = cwd is None or not is_fresh(cwd)
    made = {absolute(word, cwd) for part in analysis.commands if part.name == "mkdir" for word in _operands(part.args)}
    for part in analysis.commands:
        words = _operands(part.args)
        found = _physical(part.name, words, part.args)
        if found is None and part.name not in _SPEECH:
            paths = {word: absolute(word, cwd) for word in words[part.name in PATTERN_FIRST :]}
            found = _way(part.name or "", paths, lambda path: path in made or is_folder(path), cwd, linked=linked)
        if found is not None:
            return found
    return next(
        (
            reason
            for holds, reason in (
                (names_controls(analysis), "a name with a control character"),
                ((stacked or _STACK.search(bare)) and _BEFORE.search(bare), "the directory before this one"),
                (
                    _ARITHMETIC.search(command) and (_OCTAL.search(command) or _has_octal(command, variables)),
                    "a number with a leading zero",
                ),
                (cwd is None and _ABOVE.search(bare), "what is above a directory that is not known"),
                (
                    any(not has_mode(absolute(word, cwd)) for word in _MODE.findall(command)),
                    "the mode of a file that was there",
                ),
                (_goes_home(analysis), "what is in a directory that nobody showed"),
                (
                    furnished and _GLOB_WAY.search(bare),
                    "what lies below the matches of a glob",
                ),
                (
                    furnished and _GLOB_BRACES.search(bare),
                    "what the globs of a brace expansion match",
                ),
                (
                    furnished
                    and any(_gathers(part.name, _operands(part.args), cwd, is_folder) for part in analysis.commands),
                    "how much is brought to what may be no directory",
                ),
            )
            if holds
        ),
        None,
    )


def _goes_home(analysis: ScriptAnalysis) -> bool:
    """Whether a script does something where `cd` without a path leads to."""
    strays = any(
        part.name in {"cd", "pushd"} and (not part.args or (part.args[0] or "~").startswith(("~", "-")))
        for part in analysis.commands
    )
    return strays and not set(analysis.command_names) <= {"cd", "pushd", "pwd", "echo", "true", ":"}


def _gathers(name: str | None, words: Sequence[str], cwd: str | None, is_folder: Callable[[str], bool]) -> bool:
    """Whether a command brings what a glob matches, be it one or several, to what is not surely a directory."""
    *sources, target = words or [""]
    return name in {"cp", "mv"} and any("*" in word for word in sources) and not is_folder(absolute(target, cwd))


def _physical(name: str | None, words: Sequence[str], args: Sequence[str | None]) -> str | None:
    """What depends on where a directory really is, on what a device is, or on whose tool it is."""
    if (name in {"pwd", "cd"} and "-P" in args) or name == "realpath" or (name == "readlink" and args != words):
        return "physical path"
    if name == "awk" and any(map(_BEFORE_FIRST.search, words)):
        return "characters before the first"
    return "size of a device" if name == "wc" and any(word.startswith("/dev/") for word in words) else None


def _way(
    name: str, paths: Mapping[str, str], is_folder: Callable[[str], bool], cwd: str | None, *, linked: bool
) -> str | None:
    """What the system finds on the way to a path, and the virtual shell does not look at."""
    for word, path in paths.items():
        if name != "mkdir" and len(word) > 1 and word.endswith("/") and not is_folder(path):
            return "a slash after what may be no directory"
        above = cwd is not None and f"{cwd}/".startswith(f"{path.rstrip('/')}/")
        if name in _REMOVERS and (above or (_UP.search(word) and "*" in word)):
            return "the directory it runs in goes away"
        if name not in {"cd", "mkdir"} and _UP.search(word) and (linked or not word.startswith("..")):
            return "what is above a link"
    return None


def _operands(args: Sequence[str | None]) -> list[str]:
    return [word for word in args if word and not word.startswith("-")]


def _has_octal(command: str, variables: Mapping[str, str]) -> bool:
    return any(_OCTAL_VALUE.fullmatch(variables.get(name, "")) for name in _NAME.findall(command))
