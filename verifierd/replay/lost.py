"""`write_lost` in a shell: what a later look would have shown, had one write that was told to be done not happened.

The few commands whose effect on files can be told by their words are followed twice, with the write and without it.
Only where the first way shows what was really observed is the second one an edit, so nothing unknown is made up.
"""

import posixpath
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Literal

import msgspec

from verifierd.commandline.reading import Command, Compound, Unread, Word, read
from verifierd.contracts.state.effects import Effect, at_a_glance
from verifierd.replay.edits import Case, Edit, shuffled, whole
from verifierd.types import Action, Step

__all__ = ("lost_writes",)

_LONGEST = 20_000
_FAR = 400  # steps
_NEAR = 20  # writes
_WRITES = re.compile(r">|\b(?:tee|sed|mkdir|rmdir|touch|rm|mv|cp)\b")
_LOOKS = re.compile(r"(?:\A|&&|;|\n)\s*(?:cat|head|tail|wc|grep|sed|ls)(?:\s[^|]*)?\Z")
_SUBSTITUTION = re.compile(
    r"s(?P<by>[/|#,])(?P<old>[\w =:\-'\"(),+#]{1,200})(?P=by)(?P<new>[\w =:\-'\"(),.+#]{0,200})(?P=by)(?P<flags>g?)"
)
_RUN = re.compile(r"(?:\A|(?<=[;&|]))\s*(?:python3?|bash|sh|node|gcc|\.)(?:\s+|(?=/))[\w./-]+")  # it is not written
_FORMAT = re.compile(r"(?:[^%\\]|%s|\\[nt\\])*")
_LITERAL = re.compile(r"[\w =:,#'\"-]+")
_HARMLESS = frozenset(
    " : [ basename cat cd cut diff dirname du echo expr false file find grep head ls md5sum nl printf pwd readlink seq "  # noqa: SIM905
    "sha256sum sort stat tail test tr true type uniq wc which whoami".split()
)


class _Node(msgspec.Struct, frozen=True):
    """What is known of a path.

    Attributes:
        text: A file's content; None for a folder, and where it is unknown.
        whole: False if something unknown stands before the text.
        folder: It is one.
        there: False if it does not exist.
    """

    text: str | None = None
    whole: bool = True
    folder: bool = False
    there: bool = True


_Kind = Literal["write", "append", "touch", "folder", "remove", "move", "copy", "edit"]
_Where = Literal["lines", "first", "each"]


class _Change(msgspec.Struct, frozen=True):
    """What a command does to a path.

    Attributes:
        kind: What.
        path: To which.
        text: What is written; None if that is unknown.
        other: Where it is moved or copied to.
        old: What the text takes the place of,
        where: at its first place, at the first in each line, or everywhere.
    """

    kind: _Kind
    path: str
    text: str | None = None
    other: str = ""
    old: str = ""
    where: _Where = "first"


_NEEDING = frozenset({"remove", "move", "copy", "edit"})
_GONE = _Node(there=False)
_FOLDER = _Node(folder=True)


class _Unclear(Exception):  # noqa: N818 - it is caught here
    """It is not known what a command does."""


class _Impossible(Exception):  # noqa: N818 - it is caught here
    """A later command would have failed without the write, and its report says otherwise."""


def lost_writes(case: Case, draw: random.Random) -> Iterator[Edit]:
    """What the step would have shown without one of the writes before it."""
    command, cwd = case.step.action.command, case.step.cwd
    if command is None or cwd is None or not _LOOKS.search(command):
        return
    look = _look(command, cwd)
    if look is None:
        return
    past = case.history[-_FAR:]
    near = [n for n, step in enumerate(past) if any(_meets(look, change) for change in _changes(step) or ())]
    for n in shuffled(near[-_NEAR:], draw):
        with suppress(_Impossible):
            kept, other = _followed(past, n, lost=False), _followed(past, n, lost=True)
            edit = _listed(look, case, kept, other) if look.program == "ls" else _shown(look, case, kept, other)
            if edit is not None and not (look.program == "ls" and _dark(past[n + 1 :])):
                yield edit


# What is done


def _changes(step: Step) -> tuple[_Change, ...] | None:
    """What a step did to files; None if that cannot be told."""
    action = step.action
    if step.succeeded is False:
        return None
    if action.command is not None:
        return _changes_of(action.command, step.cwd) if step.cwd and len(action.command) <= _LONGEST else None
    path, text, old = (action.fields.get(name) for name in ("file_path", "content", "old_string"))
    new = action.fields.get("new_string")
    if isinstance(path, str) and isinstance(text, str):
        return (_Change("write", posixpath.normpath(path), text),)
    if isinstance(path, str) and isinstance(old, str) and isinstance(new, str):
        every: _Where = "each" if action.fields.get("replace_all") else "first"
        return (_Change("edit", posixpath.normpath(path), new, old=old, where=every),)
    return None if at_a_glance(action) & Effect.ANY_FILE else ()


@lru_cache(maxsize=4096)
def _changes_of(command: str, cwd: str) -> tuple[_Change, ...] | None:
    if not _WRITES.search(command):
        return None if at_a_glance(Action(tool="bash", command=command)) & Effect.ANY_FILE else ()
    found: list[_Change] = []
    try:
        for pipeline in read(command.replace("\r\n", "\n")).pipelines:
            stages = [stage for stage in pipeline.stages if isinstance(stage, Command)]
            if pipeline.negated or pipeline.link == "||" or len(stages) != len(pipeline.stages):
                return None
            if _name(stages[0]) == "cd":
                cwd = _entered(stages[0], cwd)
            found += _written(stages, cwd)
    except (Unread, _Unclear):
        return None
    return tuple(found)


def _written(stages: Sequence[Command], cwd: str) -> Iterator[_Change]:
    """What one pipeline does to files.

    Raises:
        _Unclear: That is not known.
    """
    last = stages[-1]
    name, args = _name(last), _spelt(last.args)
    if any(_name(stage) not in _HARMLESS or _outputs(stage) for stage in stages[:-1]):
        raise _Unclear
    outputs = _outputs(last)
    if name == "tee":
        here = [redirect.body for redirect in last.redirects]
        text = here[0] if here else _printed(stages[0]) if len(stages) == 2 else None
        kind: _Kind = "append" if "-a" in args else "write"
        yield from (_Change(kind, _path(cwd, word), text) for word in args if word != "-a")
        return
    text = _printed(last) if len(stages) == 1 else None
    yield from (_Change("append" if op == ">>" else "write", _path(cwd, word), text) for op, word in outputs)
    if name == "sed":
        yield from _substituted(args, cwd)
    elif name not in _HARMLESS:
        yield from _managed(name, args, cwd)
    elif name == "find" and any(word.startswith(("-exec", "-delete", "-ok", "-fprint")) for word in args):
        raise _Unclear


def _managed(name: str, args: Sequence[str], cwd: str) -> Iterator[_Change]:
    """What a program does to the names that it is given."""
    options = {letter for word in args if word.startswith("-") for letter in word[1:]}
    names = [word for word in args if not word.startswith("-")]
    if name == "mkdir" and options <= {"p"}:
        for word in names:
            steps = word.rstrip("/").split("/") if options and not word.startswith("/") else [word]
            yield from (_Change("folder", _path(cwd, "/".join(steps[: n + 1]))) for n in range(len(steps)))
    elif name == "touch" and not options:
        yield from (_Change("touch", _path(cwd, word)) for word in names)
    elif name in ("rm", "rmdir") and options <= set("rRv"):
        yield from (_Change("remove", _path(cwd, word)) for word in names)
    elif name in ("mv", "cp") and not options and len(names) == 2:
        yield _Change("move" if name == "mv" else "copy", _path(cwd, names[0]), other=_path(cwd, names[1]))
    else:
        raise _Unclear


def _substituted(args: Sequence[str], cwd: str) -> Iterator[_Change]:
    """`sed -i 's/old/new/' file`, where both are plain words."""
    if "-i" not in args:
        if any(word.startswith(("-i", "--in")) for word in args):
            raise _Unclear
        return
    words = [word for word in args if word not in ("-i", "-e")]
    found = _SUBSTITUTION.fullmatch(words[0]) if len(words) >= 2 else None
    if found is None:
        raise _Unclear
    where: _Where = "each" if found["flags"] else "lines"
    for word in words[1:]:
        yield _Change("edit", _path(cwd, word), found["new"], old=found["old"], where=where)


def _printed(command: Command) -> str | None:
    """What a command prints, if its words tell."""
    name = _name(command)
    if name in ("cat", "") and not command.args:
        bodies = [redirect.body for redirect in command.redirects if redirect.op in ("<<", "<<-")]
        return bodies[0] if bodies else None if name else ""
    args = _spelt(command.args)
    if name == "echo" and not (args and re.fullmatch("-[neE]+", args[0])):
        return " ".join(args) + "\n"
    if name == "echo" and args[0] == "-n":
        return " ".join(args[1:])
    if name == "printf" and args:
        return _formatted(args[0], args[1:])
    if name == "seq" and len(args) in (1, 2) and all(word.isdecimal() and len(word) < 5 for word in args):
        return "".join(f"{number}\n" for number in range(int(["1", *args][-2]), int(args[-1]) + 1))
    return None


def _formatted(form: str, values: Sequence[str]) -> str | None:
    """What `printf` prints, if all its directives are `%s`."""
    if not _FORMAT.fullmatch(form):
        return None
    form = re.sub(r"\\([nt\\])", lambda found: {"n": "\n", "t": "\t"}.get(found[1], "\\"), form)
    count = form.count("%s")
    if not count:
        return None if values else form
    filled = [*values, *[""] * (-len(values) % count)] or [""] * count
    return "".join(_filled(form, filled[n : n + count]) for n in range(0, len(filled), count))


def _filled(form: str, values: Sequence[str]) -> str:
    first, *rest = form.split("%s")
    return first + "".join(value + text for value, text in zip(values, rest, strict=True))


def _name(command: Command) -> str:
    if command.name is None:
        return ""
    if command.name.text is None:
        raise _Unclear
    return command.name.text


def _spelt(words: Sequence[Word]) -> list[str]:
    texts = [None if word.globs else word.text for word in words]
    if None in texts:
        raise _Unclear
    return [text for text in texts if text is not None]


def _outputs(command: Command) -> list[tuple[str, str]]:
    """The files that its standard output goes to."""
    found = []
    for redirect in command.redirects:
        text = redirect.target.text if redirect.target is not None else None
        if redirect.op in ("<<", "<<-", "<<<", "<") or text == "/dev/null" or (redirect.op == ">&"):
            continue
        if text is None or redirect.fd != 1 or redirect.op not in (">", ">>"):
            raise _Unclear
        found.append((redirect.op, text))
    return found


def _entered(command: Command, cwd: str) -> str:
    words = _spelt(command.args)
    if len(words) != 1 or words[0].startswith("-"):
        raise _Unclear
    return _path(cwd, words[0])


def _path(cwd: str, word: str) -> str:
    return posixpath.normpath(posixpath.join(cwd, word))


# What follows


def _followed(past: Sequence[Step], at: int, *, lost: bool) -> dict[str, _Node]:
    """What is known of paths in the end.

    Args:
        past: What happened.
        at: The write that may be lost.
        lost: It is.

    Raises:
        _Impossible: What was done later and went well could not have.
    """
    nodes: dict[str, _Node] = {}
    for n, step in enumerate(past):
        changes = _changes(step)
        if changes is None:
            said = _RUN.sub(" ", step.action.text)
            for path in [path for path in nodes if posixpath.basename(path) in said]:
                del nodes[path]
        elif n == at and lost:
            for change in changes:
                path = change.other or change.path
                makes = change.kind not in ("edit", "remove")
                if makes and path not in nodes and not _mentioned(posixpath.basename(path), past[:n]):
                    nodes[path] = _Node("", whole=False) if change.kind == "append" else _GONE
        else:
            for change in changes:
                _apply(nodes, change)
        if n < at:
            _learn(nodes, step)
    return nodes


def _mentioned(name: str, past: Sequence[Step]) -> bool:
    word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    return any(word.search(step.action.text) or word.search(step.observation) for step in past)


def _learn(nodes: dict[str, _Node], step: Step) -> None:
    """A file that is shown whole is known."""
    command = step.action.command
    look = _look(command, step.cwd) if command and step.cwd and _LOOKS.search(command) else None
    if look is not None and look.program == "cat" and not look.options and step.exit_code == 0:
        nodes[look.path] = _Node(step.observation)


def _apply(nodes: dict[str, _Node], change: _Change) -> None:
    path, made = change.path, change.other or change.path
    now = nodes.get(path)
    if nodes.get(posixpath.dirname(made)) is _GONE or (now is _GONE and change.kind in _NEEDING):
        raise _Impossible
    match change.kind:
        case "folder":
            nodes[path] = _FOLDER
        case "touch":
            nodes[path] = _Node("") if now is _GONE else now or _Node()
        case "write":
            nodes[path] = _Node(change.text)
        case "append":
            nodes[path] = _appended(now, change.text)
        case "edit":
            nodes[path] = _edited(now, change)
        case _:
            _moved(nodes, change)


def _moved(nodes: dict[str, _Node], change: _Change) -> None:
    path, to = change.path, change.other
    now = nodes.get(path)
    if to:
        into = nodes.get(to) is _FOLDER
        nodes[posixpath.join(to, posixpath.basename(path)) if into else to] = now if now and not now.folder else _Node()
    if change.kind != "copy":
        for under in [other for other in nodes if other.startswith(f"{path}/")]:
            nodes[under] = _GONE
        nodes[path] = _GONE


def _appended(now: _Node | None, text: str | None) -> _Node:
    if text is None:
        return _Node()
    if now is _GONE:
        return _Node(text)
    if now is None or now.text is None:
        return _Node(text, whole=False)
    return _Node(now.text + text, whole=now.whole)


def _edited(now: _Node | None, change: _Change) -> _Node:
    if now is None or now.text is None or change.text is None or not now.whole:
        return _Node()
    text, old, new = now.text, change.old, change.text
    if change.where == "lines":
        return _Node("".join(line.replace(old, new, 1) for line in text.splitlines(keepends=True)))
    return _Node(text.replace(old, new, -1 if change.where == "each" else 1))


# What is shown


class _Look(msgspec.Struct, frozen=True):
    """A command that shows a file or a folder.

    Attributes:
        program: Its name.
        word, path: What it shows, as spelt and in full.
        options: The letters of its options.
        value: The first and the last of the lines, from 0 for the last so many of them; or what is searched.
    """

    program: str
    word: str
    path: str
    options: frozenset[str] = frozenset()
    value: str = ""


@lru_cache(maxsize=4096)
def _look(command: str, cwd: str) -> _Look | None:
    """The one thing that a command line shows; None if it does something else."""
    if len(command) > _LONGEST:
        return None
    try:
        *before, last = read(command.replace("\r\n", "\n")).pipelines
        for pipeline in before:
            stage = pipeline.stages[0]
            if len(pipeline.stages) > 1 or not isinstance(stage, Command) or _name(stage) != "cd":
                return None
            cwd = _entered(stage, cwd)
        stage = last.stages[0]
        if len(last.stages) > 1 or last.negated or isinstance(stage, Compound) or stage.redirects:
            return None
        return _looked(_name(stage), _spelt(stage.args), cwd)
    except (Unread, _Unclear, TypeError, ValueError):
        return None


def _looked(name: str, args: list[str], cwd: str) -> _Look | None:
    value = ""
    if name in ("head", "tail"):
        found = re.fullmatch(r"(?:-n ?|-)(\d{1,5}) (.+)", " ".join(args))
        count, args = (found[1], [found[2]]) if found and len(args) in (2, 3) else ("10", args)
        if count == "0":
            return None
        value = f"1,{count}" if name == "head" else f"0,{count}"
    elif name == "sed":
        found = re.fullmatch(r"(\d+)(?:,(\d+))?p", args[1]) if len(args) == 3 and args[0] == "-n" else None
        if found is None or found[1] == "0":
            return None
        value, args = f"{found[1]},{found[2] or found[1]}", args[2:]
    options = frozenset(letter for word in args if word.startswith("-") for letter in word[1:])
    words = [word for word in args if not word.startswith("-")]
    if name == "grep":
        if len(words) != 2 or not _LITERAL.fullmatch(words[0]):
            return None
        value, *words = words
    if name == "ls" and not words:
        words = ["."]
    if name not in _OPTIONS or not options <= _OPTIONS[name] or len(words) != 1 or (name == "wc" and not options):
        return None
    return _Look(name, words[0], _path(cwd, words[0]), options, value)


def _meets(look: _Look, change: _Change) -> bool:
    """May a change show in a look?"""
    for path in (change.path, change.other):
        if path and (path == look.path or look.path.startswith(f"{path}/")):
            return True
        if look.program == "ls" and path and posixpath.dirname(path) == look.path:
            return True
    return False


def _dark(past: Sequence[Step]) -> bool:
    """May something unknown have made or removed files?"""
    return any(_changes(step) is None for step in past)


def _shown(look: _Look, case: Case, kept: Mapping[str, _Node], other: Mapping[str, _Node]) -> Edit | None:
    """The text of a file without the write, if with it the text is what was observed."""
    now, then = kept.get(look.path), other.get(look.path)
    if now is None or then is None or now == then:
        return None
    text = case.text
    if not now.whole and now.text is not None:
        return _beneath(look, case, now.text, then)
    expected, found = _printout(look, now), _printout(look, then)
    if expected is None or found is None or expected[0].rstrip("\n") != text.rstrip("\n"):
        return None
    new = found[0] if text.endswith("\n") or not text else found[0].rstrip("\n")
    return whole(case, new, failed=None if expected[1] == found[1] else found[1])


def _beneath(look: _Look, case: Case, tail: str, then: _Node) -> Edit | None:
    """What was appended to an unknown text is missing."""
    text = case.text if case.text.endswith("\n") else f"{case.text}\n"
    left = then.text if then.there else ""
    if look.program != "cat" or look.options or left is None or not text.endswith(tail):
        return None
    head = text[: len(text) - len(tail)]
    if head.endswith("\n"):
        return whole(case, head + left)
    # Nothing stood there before, and nothing had been said of the file.
    return None if head or left else whole(case, _missing(look), failed=True)


def _printout(look: _Look, node: _Node) -> tuple[str, bool] | None:
    """What a look at a file prints, and whether it fails."""
    if not node.there:
        return _missing(look), True
    if node.text is None or not node.whole or (node.text and not node.text.endswith("\n")):
        return None
    lines = node.text.splitlines(keepends=True)
    if look.program == "grep":
        found = _searched(look, lines)
        return (f"{len(found)}\n" if "c" in look.options else "".join(found)), not found
    if look.program == "wc":
        return f"{len(lines)} {look.word}\n", False
    if look.program == "cat":
        return "".join(f"{n:6}\t{line}" if look.options else line for n, line in enumerate(lines, 1)), False
    low, high = (int(word) for word in look.value.split(","))
    return "".join(lines[low - 1 : max(low, high)] if low > 0 else lines[max(0, len(lines) - high) :]), False


def _searched(look: _Look, lines: Sequence[str]) -> list[str]:
    sought = look.value.lower() if "i" in look.options else look.value
    found = []
    for n, line in enumerate(lines, 1):
        if (sought in (line.lower() if "i" in look.options else line)) != ("v" in look.options):
            found.append(f"{n}:{line}" if "n" in look.options else line)
    return found


def _missing(look: _Look) -> str:
    return _MISSING[look.program].format(look.word) + ": No such file or directory\n"


def _listed(look: _Look, case: Case, kept: Mapping[str, _Node], other: Mapping[str, _Node]) -> Edit | None:
    """A listing without the write: what was made is not there, what was removed still is."""
    if (now := kept.get(look.path)) is not None and now.there and other.get(look.path) is _GONE:
        return None if case.step.succeeded is False else whole(case, _missing(look), failed=True)
    listed = case.text.splitlines()
    names = {name.rstrip("/") for name in listed}
    changed = list(listed)
    for path in sorted(kept.keys() & other.keys()):
        name = posixpath.basename(path)
        if posixpath.dirname(path) != look.path or kept[path].there == other[path].there:
            continue
        if (name in names) != kept[path].there and not (name.startswith(".") and not look.options & {"a", "A"}):
            return None
        if kept[path].there:
            changed = [line for line in changed if line.rstrip("/") != name]
        elif listed == sorted(listed) and not (name.startswith(".") and not look.options & {"a", "A"}):
            changed = sorted([*changed, f"{name}/" if other[path].folder and "p" in look.options else name])
    if changed == listed or case.step.succeeded is False:
        return None
    return whole(case, "".join(f"{line}\n" for line in changed))


_MISSING = {
    "cat": "cat: {0}",
    "head": "head: cannot open '{0}' for reading",
    "tail": "tail: cannot open '{0}' for reading",
    "wc": "wc: {0}",
    "grep": "grep: {0}",
    "sed": "sed: can't read {0}",
    "ls": "ls: cannot access '{0}'",
}
_OPTIONS: Mapping[str, frozenset[str]] = {
    "cat": frozenset("n"),
    "head": frozenset(),
    "tail": frozenset(),
    "wc": frozenset("l"),
    "grep": frozenset("inFvc"),
    "sed": frozenset(),
    "ls": frozenset("aA1p"),
}
