"""What a step calls: one tool, or the parts of a command line, each with what becomes of its output and status."""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from verifierd.commandline.reading import Command, Compound, Pipeline, Redirect, Unread, Word, read
from verifierd.contracts.document import Program
from verifierd.types import Step

__all__ = ("Call", "Part", "parts", "path_in", "tool_call")

_ENDS = frozenset({"exec", "exit", "return", "trap"})
# Run another program as it is; `time` and `nohup` do, too, but say something themselves.
_PREFIXES = frozenset({"command", "builtin", "env", "sudo"})
_MOST = 200


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a program of the shell, or one call of an agent's tool.

    Attributes:
        name: The program, with its subcommand where it has them (`git log`), or the tool.
        tool: True for an agent's tool.
        options: Each option given, with its values in order; None for a value that is not spelt out. `-la` is `-l` and
            `-a`; `--x=1` is `--x` with "1"; a number such as `-5` is itself.
        operands: The words that are no options; None for one that is not spelt out.
        globs: True if a word holds a wildcard.
        input: A tool's input.
        cwd: Where it runs, as far as that is known.
        piped: True if its standard input is a pipe.
        document: The here-document or here-string that it reads, if that is spelt out.
        targets: The files that its output goes to instead of the terminal.
        command: The simple command as it was read; None for a tool.
        wrapped: The programs that run it (`uv run pytest`), which may print lines of their own.
    """

    name: str
    tool: bool = False
    options: Mapping[str, tuple[str | None, ...]] = {}
    operands: tuple[str | None, ...] = ()
    globs: bool = False
    input: Mapping[str, Any] = {}
    cwd: str | None = None
    piped: bool = False
    document: str | None = None
    targets: tuple[str, ...] = ()
    command: Command | None = None
    wrapped: tuple[str, ...] = ()

    def value(self, *names: str) -> str | None:
        """The last value given to one of these options, if it is spelt out."""
        for name in names:
            if values := self.options.get(name):
                return values[-1]
        return None

    def given(self, *names: str) -> bool:
        """Was one of these options given?"""
        return any(name in self.options for name in names)

    @property
    def numbers(self) -> list[str]:
        """The options that are a number, such as `-5`, without their dash."""
        return [name[1:] for name in self.options if name[1:].isdigit()]

    def path(self, word: str) -> str:
        """The path that a word means where the call runs."""
        return path_in(self.cwd, word)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline of a command line.

    Attributes:
        link: How it follows what is before it: `;`, `&&` or `||`.
        stages: Its programs; None for one that cannot be told.
        runs: `always`, `success` if it surely ran in a step that went well, else `maybe`.
        succeeds: True if it surely went well in a step that did.
        negated: True after `!`.
        shown: What becomes of the last stage's standard output: is it in the observation?
        errors: Where each stage's standard error goes: `shown`, `piped` with its output, or `dropped`.
    """

    link: str = ";"
    stages: tuple[Call | None, ...] = ()
    runs: Literal["always", "success", "maybe"] = "always"
    succeeds: bool = False
    negated: bool = False
    shown: bool = True
    errors: tuple[Literal["shown", "piped", "dropped"], ...] = ()


class _Place(msgspec.Struct):
    """Where the next command runs, and whether it surely does."""

    cwd: str | None
    ended: bool = False


def path_in(cwd: str | None, word: str) -> str:
    """The path that a word means in a directory, with `/` between names; links are not looked at."""
    word = word.replace("\\", "/")
    if len(word) > 1 and word[1] == ":":
        return posixpath.normpath(word)
    if word.startswith("~") or cwd is None:
        return posixpath.normpath(word)
    return posixpath.normpath(posixpath.join(cwd.replace("\\", "/"), word))


def tool_call(step: Step) -> Call:
    """The call of an agent's tool; an input that is a text is its field `text`."""
    given = step.action.input
    return Call(name=step.tool, tool=True, input={"text": given} if isinstance(given, str) else given, cwd=step.cwd)


def parts(step: Step, programs: Mapping[str, Program]) -> list[Part]:
    """The parts of a step's command line, in order; empty if it cannot be read.

    Args:
        step: What was asked.
        programs: How programs are read, by name and alias.
    """
    command = step.action.command
    if command is None or "powershell" in step.tool.lower() or len(command) > 100_000:
        return []
    if step.format == "codex" and step.cwd is not None and step.cwd[1:2] == ":":
        return []  # its shell on Windows is PowerShell
    try:
        script = read(command.replace("\r\n", "\n"))
    except Unread:
        return []
    if script.functions or len(script.commands) > _MOST:
        return []
    place = _Place(step.cwd)
    return _listed(script.pipelines, place, programs, outer="always", last=True)


def _listed(
    pipelines: Sequence[Pipeline],
    place: _Place,
    programs: Mapping[str, Program],
    *,
    outer: Literal["always", "success", "maybe"],
    last: bool,
) -> list[Part]:
    """The parts of a list. `outer` says whether the list runs, `last` whether its status is the step's."""
    starts = [index for index, pipeline in enumerate(pipelines) if pipeline.link == ";"]
    result: list[Part] = []
    for index, pipeline in enumerate(pipelines):
        start = max(first for first in starts if first <= index)
        end = next((first for first in starts if first > index), len(pipelines))
        links = {other.link for other in pipelines[start + 1 : end]}
        final = last and end == len(pipelines)
        runs: Literal["always", "success", "maybe"]
        if place.ended:
            runs = "maybe"
        elif index == start:
            runs = outer
        else:
            runs = "success" if final and links == {"&&"} and outer != "maybe" else "maybe"
        succeeds = final and links <= {"&&"} and runs != "maybe" and not pipeline.negated
        result += _part(pipeline, place, programs, runs=runs, succeeds=succeeds)
    return result


def _part(
    pipeline: Pipeline,
    place: _Place,
    programs: Mapping[str, Program],
    *,
    runs: Literal["always", "success", "maybe"],
    succeeds: bool,
) -> list[Part]:
    stages = pipeline.stages
    only = stages[0]
    if len(stages) == 1 and isinstance(only, Compound) and only.body and not only.redirects and not pipeline.negated:
        inner = _Place(place.cwd, place.ended)
        found = _listed(only.body, inner, programs, outer=runs, last=succeeds)
        if only.kind == "{":
            place.cwd, place.ended = inner.cwd, inner.ended
        return [msgspec.structs.replace(part, link=pipeline.link) if part is found[0] else part for part in found]
    calls: list[Call | None] = []
    errors: list[Literal["shown", "piped", "dropped"]] = []
    shown = True
    for number, stage in enumerate(stages):
        ends = number == len(stages) - 1
        calls.append(_call(stage, place, programs, piped=number > 0) if isinstance(stage, Command) else None)
        out, err = _streams(stage.redirects, piped=not ends)
        errors.append(err)
        shown = out == "shown"
    part = Part(
        link=pipeline.link,
        stages=tuple(calls),
        runs=runs,
        succeeds=succeeds,
        negated=pipeline.negated,
        shown=shown,
        errors=tuple(errors),
    )
    _follow(part, place)
    return [part]


def _follow(part: Part, place: _Place) -> None:
    """What a part changes for those after it."""
    if len(part.stages) > 1:
        return
    call = part.stages[0]
    if call is None:
        place.cwd = None
        return
    if call.name in {"cd", "pushd"}:
        word = call.operands[0] if len(call.operands) == 1 else None
        place.cwd = call.path(word) if word is not None and word != "-" and not call.globs else None
    elif call.name == "popd":
        place.cwd = None
    elif call.name in _ENDS or (call.name == "set" and call.options):
        place.ended = True


def _streams(
    redirects: Sequence[Redirect], *, piped: bool
) -> tuple[Literal["shown", "piped", "dropped"], Literal["shown", "piped", "dropped"]]:
    """Where standard output and standard error go."""
    out: Literal["shown", "piped", "dropped"] = "piped" if piped else "shown"
    err: Literal["shown", "piped", "dropped"] = "shown"
    for redirect in redirects:
        if redirect.op == ">&" and redirect.target is not None:
            if (redirect.fd, redirect.target.text) == (2, "1"):
                err = out
            elif (redirect.fd, redirect.target.text) == (1, "2"):
                out = err
        elif redirect.op in {"&>", "&>>"}:
            out = err = "dropped"
        elif redirect.op in {">", ">>", ">|"}:
            if redirect.fd == 1:
                out = "dropped"
            elif redirect.fd == 2:
                err = "dropped"
    return out, err


def _call(command: Command, place: _Place, programs: Mapping[str, Program], *, piped: bool) -> Call | None:
    if command.name is None and command.assigned:
        return Call(name="=", cwd=place.cwd, command=command)
    if command.name is None or command.name.text is None or command.name.globs:
        return None
    words = [command.name, *command.args]
    while len(words) > 1 and words[0].text in _PREFIXES and (words[1].text or "-").isidentifier():
        words = words[1:]
    wrapped: tuple[str, ...] = ()
    while (inner := _inner(words, programs)) is not None:
        wrapped = (*wrapped, _program(words, programs, None)[0])
        words = inner
    if words[0] is not command.name:
        command = msgspec.structs.replace(command, name=words[0], args=words[1:])
    if words[0].text is None:
        return None
    name, rest, program, cwd = _program(words, programs, place.cwd)
    options, operands = _options(rest, program.values if program else ())
    heres = [redirect for redirect in command.redirects if redirect.fd == 0]
    document = None
    if heres and heres[-1].op in {"<<", "<<-"}:
        document = heres[-1].body
    elif heres and heres[-1].op == "<<<" and heres[-1].target is not None and heres[-1].target.text is not None:
        document = heres[-1].target.text + "\n"
    return Call(
        name=name,
        options=options,
        operands=operands,
        globs=any(word.globs for word in rest),
        cwd=cwd,
        piped=piped and not heres,
        document=document,
        targets=tuple(
            redirect.target.text
            for redirect in command.redirects
            if redirect.fd == 1
            and redirect.op in {">", ">>", ">|", "&>", "&>>"}
            and redirect.target is not None
            and redirect.target.text is not None
            and redirect.target.text != "/dev/null"
        ),
        command=command,
        wrapped=wrapped,
    )


def _program(
    words: list[Word], programs: Mapping[str, Program], cwd: str | None
) -> tuple[str, list[Word], Program | None, str | None]:
    """The name with its subcommand, the words after it, how it is read, and where it runs."""
    name = (words[0].text or "").replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".exe")
    program = programs.get(name)
    if program is None:
        return name, words[1:], None, cwd
    if not program.subcommands:
        return program.name, words[1:], program, cwd
    name, rest, cwd = _subcommand(program.name, words[1:], program, cwd)
    return name, rest, programs.get(name, program), cwd


def _inner(words: list[Word], programs: Mapping[str, Program]) -> list[Word] | None:
    """The words of the program that these run, if it is one whose summary can be told."""
    _, rest, outer, _ = _program(words, programs, None)
    if outer is None or outer.runs is None:
        return None
    begin = _begin(rest, outer)
    if begin is None or not rest[begin:] or rest[begin].text is None or rest[begin].globs:
        return None
    first = rest[begin]
    name = first.text or ""
    if isinstance(outer.runs, str) and outer.runs != "--":
        name = name.removeprefix(outer.runs)  # `-mpytest`
    bare = name.partition("@")[0] or name  # `jest@29`
    inner = [msgspec.structs.replace(first, text=bare), *rest[begin + 1 :]]
    _, _, program, _ = _program(inner, programs, None)
    return inner if program is not None and (program.summary or program.runs is not None) else None


def _begin(words: Sequence[Word], outer: Program) -> int | None:
    """Where the program that another runs begins; None if it cannot be told."""
    option = outer.runs if isinstance(outer.runs, str) and outer.runs != "--" else None
    index = operands = 0
    while index < len(words):
        text = words[index].text
        if text is None or (option is not None and not text.startswith("-")):
            return None  # a script, whose words follow
        if text == outer.runs or (text == "--" and outer.runs == 0):
            return index + 1
        if operands == outer.runs and not text.startswith("-"):
            return index
        if option is not None and text.startswith(option):
            return index
        if text.startswith("-"):
            index += 2 if text in outer.values else 1
        else:
            index += 1
            operands += 1
    return None


def _subcommand(name: str, words: list[Word], program: Program, cwd: str | None) -> tuple[str, list[Word], str | None]:
    """The name with its subcommand, the words after it, and where it runs (`git -C`)."""
    index = 0
    while index < len(words):
        text = words[index].text
        if text is None:
            return name, words, cwd
        if not text.startswith("-"):
            return f"{name} {text}", words[index + 1 :], cwd
        if text == "-C" and index + 1 < len(words) and name == "git":
            folder = words[index + 1].text
            cwd = path_in(cwd, folder) if folder is not None else None
        index += 2 if text in program.values else 1
    return name, words, cwd


def _options(
    words: Sequence[Word], values: Sequence[str]
) -> tuple[dict[str, tuple[str | None, ...]], tuple[str | None, ...]]:
    """Options with their values, and operands; a number such as `-5` is an option of its own."""
    options: dict[str, tuple[str | None, ...]] = {}
    operands: list[str | None] = []
    index = 0
    while index < len(words):
        word = words[index]
        text = word.text
        index += 1
        if text is None and (word.head.startswith("--") and "=" in word.head):
            _add(options, word.head.partition("=")[0], None)
        elif text is None or not text.startswith("-") or text == "-":
            operands.append(text)
        elif text == "--":
            operands += [word.text for word in words[index:]]
            break
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            if equals:
                _add(options, name, value)
            elif name in values:
                _add(options, name, words[index].text if index < len(words) else None)
                index += 1
            else:
                _add(options, name)
        elif text[1:].isdigit():
            _add(options, text)
        elif text in values:  # also a long one with a single dash: `-run`, `-name`
            _add(options, text, words[index].text if index < len(words) else None)
            index += 1
        else:
            index += _short(text, words[index:], values, options)
    return options, tuple(operands)


def _short(text: str, rest: Sequence[Word], values: Sequence[str], options: dict[str, tuple[str | None, ...]]) -> int:
    """Short options in one word (`-la`, `-n5`), or a long one with a single dash; how many words more it took."""
    if any(len(value) > 2 and not value.startswith("--") for value in values):
        name, equals, value = text.partition("=")
        _add(options, name, *([value] if equals else []))  # programs that have `-name` have no `-na`
        return 0
    for place, letter in enumerate(text[1:], 1):
        name = f"-{letter}"
        if name in values:
            if text[place + 1 :]:
                _add(options, name, text[place + 1 :])
                return 0
            _add(options, name, rest[0].text if rest else None)
            return 1
        _add(options, name)
    return 0


def _add(options: dict[str, tuple[str | None, ...]], name: str, *values: str | None) -> None:
    options[name] = (*options.get(name, ()), *values)
