"""What is refused of redirections and orders: where it matters who writes first, or what a file system decides."""

import re
from collections.abc import Sequence
from fnmatch import fnmatch

from verifierd.commandline.reading import Command, Redirect, Script
from verifierd.commandline.words import Unread, Word
from verifierd.predictors.shell.operands import Operands, check_path
from verifierd.predictors.shell.specs import SPECS

__all__ = ("check_outputs", "check_redirects", "check_walk", "is_sorted_anywhere")

# Stages that pass error messages on as they are.
_PASS_ON = frozenset({"head", "cat", "tail"})
_WALK = "order of a directory walk"


def check_redirects(command: Command, operands: Operands) -> bool:
    """Refuse redirections that are not understood; True if errors go where output goes.

    Raises:
        Unread: One is not.
    """
    own = [redirect for redirect in command.redirects if redirect.compound is None]
    if len({redirect.fd for redirect in own}) < len(own):
        raise Unread("two redirections of one descriptor")
    shows_errors = False
    for redirect in command.redirects:
        target = redirect.target
        if target is None or redirect.op == "<<<":
            continue
        if redirect.op == ">&":
            shows_errors = _check_duplicate(redirect, command) or shows_errors
            continue
        if target.text is not None:
            check_path(target.text)
        elif not target.head:
            operands.check(target, command)
        if redirect.op in {"&>", "&>>"} or redirect.fd == 2:
            if target.text != "/dev/null":
                raise Unread("errors into a file")
        elif redirect.op not in {">", ">>", "<", ">|"}:
            raise Unread(f"redirection {redirect.op}")
    return shows_errors


def _check_duplicate(redirect: Redirect, command: Command) -> bool:
    """`2>&1` or `>&2`; True for the former."""
    assert redirect.target is not None
    if (redirect.fd, redirect.target.text) == (1, "2"):
        return False
    if (redirect.fd, redirect.target.text) != (2, "1"):
        raise Unread("duplicated descriptor")
    before = command.redirects[: command.redirects.index(redirect)]
    files = [other.target for other in before if other.fd == 1 and other.op != ">&"]
    if files and all(target is not None and target.text != "/dev/null" for target in files):
        raise Unread("errors into a file")
    after = command.after.name.text if command.after and command.after.name else None
    if command.captured or (command.into_pipe and after not in _PASS_ON):
        raise Unread("errors into a pipe")
    return True


def check_outputs(script: Script) -> None:
    """Refuse output into a file where it matters when the file is made: the virtual shell makes it last.

    Raises:
        Unread: It matters.
    """
    compounds: dict[int, list[Command]] = {}
    for command in script.commands:
        for redirect in command.redirects:
            if redirect.compound is not None:
                compounds.setdefault(redirect.compound, []).append(command)
    for command in script.commands:
        for redirect in command.redirects:
            target = redirect.target
            if redirect.fd == 1 and redirect.op != ">&" and target is not None and target.text != "/dev/null":
                company = _pipeline(command) if redirect.compound is None else compounds[redirect.compound]
                for other in company:
                    _check_sees(other, target)


def _check_sees(command: Command, target: Word) -> None:
    """Refuse a command that could see the file that its output, or its pipeline's, goes to."""
    name = (command.name.text if command.name else None) or ":"
    spec = SPECS.get(name)
    if spec is None or name == "cd":
        raise Unread("output into a file around a change of directory")
    letters = {letter for word in command.args if word.head.startswith("-") for letter in word.head}
    walks = name in {"find", "ls", "tar"} or (name == "grep" and bool(letters & {"r", "R"}))
    if walks and not target.head.startswith("/"):
        raise Unread("output into a file that the command may see")
    words = command.args if spec.operands == "path" else []
    inputs = [redirect.target for redirect in command.redirects if redirect.fd == 0 and redirect.target is not None]
    for word in [*words, *inputs]:
        same = word.holes == target.holes or not set(word.names).isdisjoint(target.names)
        matches = "\0" in word.holes and not word.names and fnmatch(target.holes, word.holes.replace("\0", "*"))
        if same or matches:
            raise Unread("output into a file that the command reads")


def _pipeline(command: Command) -> list[Command]:
    """A command and those that pipe into it, as far as they are simple ones."""
    found = [command]
    while found[-1].before is not None:
        found.append(found[-1].before)
    return found


def check_walk(command: Command) -> bool:
    """For a command whose output comes in the file system's order: False if it is sorted or counted at once.

    True means that it shows, which is fine for a single line.

    Raises:
        Unread: Something else depends on the order.
    """
    if command.captured or command.function:
        raise Unread(_WALK)
    stage: Command | None = command
    while stage is not None and stage.into_pipe:
        stage = stage.after
        name = stage.name.text if stage is not None and stage.name is not None else None
        words = [word.text or "" for word in stage.args] if stage is not None else []
        if _settles_order(name, words):
            return False
        if name == "xargs":
            break
        if name not in {"grep", "cut"} or any(re.match(r"-\w*[nmABC]", word) for word in words):
            raise Unread(_WALK)
    if stage is None or any(redirect.fd == 1 and redirect.op != ">&" for redirect in stage.redirects):
        raise Unread(_WALK)
    return True


def _settles_order(name: str | None, words: Sequence[str]) -> bool:
    if name == "sort":
        return not any(re.match(r"-\w*[uks]", word) for word in words)
    if name == "wc":
        return all(word.startswith("-") for word in words)
    return name == "grep" and "-c" in words


def is_sorted_anywhere(lines: Sequence[str]) -> bool:
    """Whether lines are in ascending order in any common locale."""
    return list(lines) == sorted(lines) == sorted(lines, key=_letters) == sorted(lines, key=_marks_first)


def _letters(line: str) -> tuple[str, str]:
    """A collation that ignores case and marks at first."""
    return "".join(c for c in line.lower() if c.isalnum()), line.swapcase()


def _marks_first(line: str) -> list[tuple[int, str]]:
    """A collation that ignores case, with marks before digits before letters."""
    return [(c.isalnum() + c.isalpha(), c) for c in line.lower()]
