"""How far programs reach that the virtual shell cannot run: a pure script writes nothing, a compiler its output."""

import ast
import re
from collections.abc import Callable, Iterable, Sequence

from bashkit import ScriptAnalysis

from verifierd.predictors.shell.mentions import absolute, write_targets

__all__ = ("confined",)

_PYTHON = frozenset({"python", "python3"})
_COMPILERS = frozenset({"cc", "gcc", "g++", "clang", "clang++"})
_GIT = frozenset(
    "add blame branch commit config describe diff init log ls-files remote rev-parse shortlog show status tag".split()  # noqa: SIM905 - a list of words
)
# Modules that neither write files nor start programs.
_MODULES = frozenset(
    "__future__ abc array base64 bisect collections copy csv dataclasses datetime decimal difflib enum fractions"  # noqa: SIM905 - as above
    " functools hashlib heapq itertools json math operator pprint random re statistics string sys textwrap time types"
    " typing unicodedata uuid zlib".split()
)
_NAMES = frozenset({"__builtins__", "__import__", "breakpoint", "compile", "delattr", "eval", "exec", "globals"})
_MORE_NAMES = frozenset({"getattr", "locals", "setattr", "vars"})
_LITERAL = re.compile(r"[\w./@%+=:,-]+")


def confined(
    analysis: ScriptAnalysis,
    cwd: str | None,
    *,
    text: Callable[[str], str | None],
    ours: Callable[[str], bool],
    harmless: Callable[[str], bool],
) -> frozenset[str] | None:
    """The only paths that a command can have written, or None if it may have written anything.

    Args:
        analysis: The command.
        cwd: Where it ran.
        text: The text of a file, where it is known.
        ours: Whether the repository of a directory was made in this session, and so has no hooks of others.
        harmless: Whether a command by that name changes nothing, whatever its arguments.
    """
    if cwd is None or analysis.is_opaque or analysis.functions:
        return None
    paths: set[str] = set()
    for part in analysis.commands:
        args = part.args
        if part.name is None or any(arg is None for arg in args):
            return None
        words = [arg for arg in args if arg is not None]
        found = _reach(part.name, words, cwd, text, ours)
        if found is None and not harmless(part.name):
            return None
        paths.update(found or ())
    if any(redirect.is_write and redirect.path is None for redirect in analysis.redirects):
        return None
    return frozenset({*paths, *write_targets(analysis, cwd)})


def _reach(
    name: str, args: Sequence[str], cwd: str, text: Callable[[str], str | None], ours: Callable[[str], bool]
) -> Iterable[str] | None:
    if name in _PYTHON:
        return _python(args, cwd, text)
    if name in _COMPILERS:
        return _compiler(args, cwd)
    if name == "git" and args and args[0] in _GIT and (args[0] == "init" or ours(cwd)):
        # `git init DIR` makes its own, and output may go to a file.
        plain = all(arg.startswith("-") for arg in args[1:]) or args[0] != "init"
        return [f"{cwd}/.git"] if plain and not any(arg.startswith("--output") for arg in args) else None
    return None


def _python(args: Sequence[str], cwd: str, text: Callable[[str], str | None]) -> Iterable[str] | None:
    if len(args) >= 2 and args[0] == "-c":
        source: str | None = args[1]
    elif args and not args[0].startswith("-"):
        source = text(absolute(args[0], cwd))
    else:
        return None
    return () if source is not None and _is_pure(source) else None


def _compiler(args: Sequence[str], cwd: str) -> Iterable[str] | None:
    if "-c" in args or any(arg.startswith("-") and not _LITERAL.fullmatch(arg) for arg in args):
        return None
    out = "a.out"
    for place, arg in enumerate(args):
        if arg == "-o":
            out = args[place + 1] if place + 1 < len(args) else ""
        elif arg.startswith(("-o", "-M", "-save", "--save", "-f", "-x", "@")):
            return None
    return [absolute(out, cwd)] if _LITERAL.fullmatch(out) else None


def _is_pure(source: str) -> bool:
    """Whether a Python program can only compute, read and print; a program that does not compile does nothing."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(map(_is_harmless, ast.walk(tree)))


def _is_harmless(node: ast.AST) -> bool:  # noqa: PLR0911 - one line a kind of node
    match node:
        case ast.Import(names=names):
            return all(name.name in _MODULES for name in names)
        case ast.ImportFrom(module=module, level=level):
            return level == 0 and module in _MODULES
        case ast.Attribute(attr=attr):
            return not attr.startswith("__") and attr not in {"modules", "path", "meta_path", "save", "dump", "tofile"}
        case ast.Call(func=ast.Name(id="open"), args=[_], keywords=[]):
            return True
        case ast.Call(func=ast.Name(id="open")):
            return False
        case ast.Name(id=name):
            return name not in _NAMES | _MORE_NAMES and (not name.startswith("__") or name == "__name__")
    return True
