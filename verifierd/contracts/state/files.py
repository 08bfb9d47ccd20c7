"""What files read, line by line, as far as the session showed it and nothing can have changed it since.

Only what is sure is kept: an edit whose place is known shifts the lines after it, one whose place is not known makes
them forgotten, and so does whatever may write without saying where.
"""

import itertools
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from verifierd.contracts.calls import Call, Part, path_in
from verifierd.contracts.state.effects import WRITING, Effect, at_a_glance, beside, effect
from verifierd.contracts.tails import visible
from verifierd.types import ObservationKind, Step

__all__ = ("Files", "Hunk", "Window", "patch_text", "patched", "sed_range", "window")

_MOST_CHARACTERS = 4_000_000
_MOST_FILES = 1_000
_MOST_LINES = 20_000
_MOST_CHANGES = 100
"""More changes of one file at once are not followed."""
_LONGEST_LINE = 1_900
"""Longer lines are cut by those who show them."""
_READ_LIMIT = 2_000
"""Lines that Claude Code's Read shows if it is not told how many."""
_MOST_RUNS = 200
_AGENTS = frozenset({"Agent", "SendMessage", "Task", "TeamCreate", "spawn_agent"})
_EDITORS = frozenset({"file_editor", "str_replace_based_edit_tool", "str_replace_editor"})
_NUMBERED = re.compile(r"[ ]*(\d{1,7})(?:→|\t|$)(.*)")
_SED_RANGE = re.compile(r"(\d{1,7})(?:,(\d{1,7}|\$))?p")
_GREP_LINE = re.compile(r"(.{1,400}?):(\d{1,7}):(.*)")
_GREP_NUMBERED = re.compile(r"(\d{1,7})[:-](.*)")
_LINKED = frozenset({
    ".cursorrules", ".windsurfrules", "agent.md", "agents.md", "claude.md", "codex.md", "copilot-instructions.md",
    "gemini.md", "warp.md",
})  # fmt: skip
"""Instructions for agents: often one file that has all these names."""
_MOST_LINKS = 200
_CHANGED = re.compile(r"\bhas been (?:unexpectedly )?modified\b")
_SAID = 200  # characters of a refusal in which it says why
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of one file that a program prints.

    Attributes:
        path: The file.
        first: The number of the first one.
        last: The number of the last one, as far as the file reaches; None for its end.
        numbered: True if it prints their numbers, too.
    """

    path: str
    first: int = 1
    last: int | None = None
    numbered: bool = False


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a patch: lines that stand there, and what stands there afterwards."""

    old: tuple[str, ...]
    new: tuple[str, ...]


class Patched(msgspec.Struct, frozen=True, kw_only=True):
    """What a patch does to one file.

    Attributes:
        kind: `A` for added, `M` for changed, `D` for deleted.
        path: As the patch names it.
        to: Its new path, if it is moved.
        lines: What an added file says.
        hunks: The changes, in order.
    """

    kind: str
    path: str
    to: str | None = None
    lines: tuple[str, ...] = ()
    hunks: tuple[Hunk, ...] = ()


class _File(msgspec.Struct, kw_only=True):
    """Lines by number, a final line end making a last one that is empty.

    Attributes:
        lines: The known ones.
        whole: There are no others.
        edited: The agent wrote it since it was shown as a whole; a hook may have formatted it then.
    """

    lines: dict[int, str]
    whole: bool = False
    edited: bool = False

    @property
    def size(self) -> int:
        return sum(map(len, self.lines.values())) + 60 * len(self.lines)


class Files:
    """Partial knowledge of files.

    Attributes:
        doubtful: True once something read otherwise than it had to: others write here, too.
        turn: The turn of the last step.
    """

    def __init__(self) -> None:
        self.doubtful = False
        self.turn: str | None = None
        self._files: OrderedDict[str, _File] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._total = 0
        self._linked = dict.fromkeys(_LINKED, _LINKED)

    def known(self, path: str, *, edited: bool = False) -> Mapping[int, str]:
        """The lines of a file that surely read so now.

        Args:
            path: The file.
            edited: Ask for one that the agent wrote since it was shown as a whole, else for one that it did not.
        """
        file = None if self.doubtful else self._files.get(_key(path))
        return file.lines if file is not None and file.edited is edited else {}

    def under(self, folder: str, most: int) -> Iterator[tuple[str, Mapping[int, str]]]:
        """The files in a directory or below that the agent only read, those met last first, with their known lines."""
        prefix = _key(folder).rstrip("/") + "/"
        if not self.doubtful:
            found = (
                (path, file.lines)
                for path, file in reversed(self._files.items())
                if path.startswith(prefix) and not file.edited
            )
            yield from itertools.islice(found, most)

    def observe(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """Learn from what a step showed or wrote, and forget what it may have changed."""
        if step.turn != self.turn:
            self.forget_all()
            self.turn = step.turn
        if not step.succeeded and _CHANGED.search(step.observation, 0, _SAID) and (named := _named(step.action.fields)):
            self.forget(named)  # an editor refused, for others write here, too
        if step.observation_kind in {ObservationKind.POLICY_DENIED, ObservationKind.HARNESS_ERROR}:
            return
        if step.action.command is not None:
            self._shell(step, parts, calls)
        else:
            self._tool(step)
        if beside(step.siblings) & Effect.UNNAMED:  # the others tell themselves what they wrote
            self.forget_all()

    def forget_all(self) -> None:
        """Anything may have been written."""
        self._files.clear()
        self._sizes.clear()
        self._total = 0

    def forget(self, word: str) -> None:
        """A path may have been written: whatever has a name like its last one, in any spelling, is forgotten."""
        name = _last(word)
        if name in {"", ".", "..", "*", "~"}:
            self.forget_all()
            return
        names = self._linked.get(name, {name})
        for path in [path for path in self._files if not names.isdisjoint(path.casefold().split("/"))]:
            self._drop(path)

    def link(self, words: Sequence[str | None]) -> None:
        """Names became those of one file; None for one that is not known."""
        names = frozenset(_last(word) for word in words if word is not None)
        if None in words or len(self._linked) > _MOST_LINKS:
            self.doubtful = True
        elif len(names) > 1 and not names & {"", ".", ".."}:
            names = names.union(*(self._linked.get(name, ()) for name in names))
            self._linked |= dict.fromkeys(names, names)

    def learn(self, path: str, lines: Iterable[tuple[int, str]], *, whole: bool = False) -> None:
        """Lines were shown. Where they contradict what was known of the file, only they are known."""
        key = _key(path)
        shown = {number: text for number, text in lines if len(text) < _LONGEST_LINE}
        if not _absolute(key) or not shown or len(shown) > _MOST_LINES:
            return
        file = self._files.get(key)
        if file is not None and any(
            number in file.lines and file.lines[number].rstrip() != text.rstrip() for number, text in shown.items()
        ):
            self.doubtful = True
            file = None
        if file is None or whole:
            file = _File(lines=shown, whole=whole)
        else:
            file.lines.update(shown)
        self._keep(key, file)

    def write(self, path: str, text: str) -> None:
        """A file was written as a whole."""
        self.forget(path)
        lines = dict(enumerate(text.replace("\r\n", "\n").split("\n"), 1))
        if _absolute(_key(path)) and len(lines) <= _MOST_LINES:
            self._keep(_key(path), _File(lines=lines, whole=True, edited=True))

    def edit(self, path: str, old: str, new: str, *, everywhere: bool = False, drops_line: bool = False) -> None:
        """A text was replaced, which stood there exactly once, or everywhere.

        Args:
            path: The file.
            old: What stood there.
            new: What stands there now.
            everywhere: Every occurrence was replaced.
            drops_line: Where nothing replaces it, the line end after it goes, too, as Claude Code does it.
        """
        key = _key(path)
        file = self._files.get(key)
        self.forget(path)
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
        changed = _after(file, old, new, everywhere=everywhere, drops_line=drops_line) if file is not None else None
        if changed is not None and changed.lines:
            changed.edited = True
            self._keep(key, changed)

    def after(self, path: str, old: str, new: str, *, drops_line: bool = False) -> Mapping[int, str]:
        """The lines that would be known if a text were replaced now, in a file that the agent only read so far."""
        file = None if self.doubtful else self._files.get(_key(path))
        if file is None or file.edited:
            return {}
        changed = _after(file, old.replace("\r\n", "\n"), new.replace("\r\n", "\n"), drops_line=drops_line)
        return changed.lines if changed is not None else {}

    def patch(self, cwd: str | None, files: Iterable[Patched]) -> None:
        """A patch was applied."""
        for change in files:
            path = path_in(cwd, change.path)
            file = self._files.get(_key(path))
            self.forget(path)
            if change.to is not None:
                self.forget(change.to)
                path = path_in(cwd, change.to)
            if change.kind == "A":
                self.write(path, "".join(f"{line}\n" for line in change.lines))
            elif change.kind == "M" and file is not None and len(change.hunks) <= _MOST_CHANGES:
                for hunk in change.hunks:
                    old, new = "\n".join(hunk.old), "\n".join(hunk.new)
                    # Whole lines: a text inside one does not do.
                    placed = _replaced(file, old, new, lines=True) if hunk.old else None
                    if placed is None:
                        break
                    file = placed
                else:
                    if _absolute(_key(path)) and file.lines:
                        file.edited = True
                        self._keep(_key(path), file)

    def _keep(self, key: str, file: _File) -> None:
        self._files[key] = file
        self._files.move_to_end(key)
        size = file.size
        self._total += size - self._sizes.get(key, 0)
        self._sizes[key] = size
        while self._files and (self._total > _MOST_CHARACTERS or len(self._files) > _MOST_FILES):
            self._drop(next(iter(self._files)))

    def _drop(self, key: str) -> None:
        del self._files[key]
        self._total -= self._sizes.pop(key)

    def _tool(self, step: Step) -> None:
        """What an agent's tool showed or wrote."""
        tool, fields = step.tool, step.action.fields
        told = step.observation_kind is ObservationKind.ENV and step.elided is None
        if tool == "Read" and told and step.succeeded:
            self._read(step)
        elif tool == "Grep" and told and step.succeeded:
            self._grepped(step)
        elif tool in {"Edit", "MultiEdit", "Write"} | _EDITORS and (named := _named(fields)) is not None:
            self._edited(step, named)
        elif tool == "NotebookEdit" and isinstance(fields.get("notebook_path"), str):
            self.forget(fields["notebook_path"])
        elif tool == "apply_patch":
            self._patched(step, patch_text(step.action.input))
        elif at_a_glance(step.action) & Effect.ANY_FILE:
            self.forget_all()
            # An agent that runs on beside this one may write at any time.
            self.doubtful = self.doubtful or (tool in _AGENTS and (not told or bool(fields.get("run_in_background"))))

    def _read(self, step: Step) -> None:
        path = step.action.fields.get("file_path")
        if not isinstance(path, str):
            return
        lines = list(_numbered(visible(step).split("\n")))
        fields = step.action.fields
        whole = (
            fields.get("offset") is None
            and fields.get("limit") is None
            and 0 < len(lines) < _READ_LIMIT
            and lines[0][0] == 1
            and all(len(text) < _LONGEST_LINE for _, text in lines)
            and lines[-1][0] == len(lines)
        )
        self.learn(path_in(step.cwd, path), lines, whole=whole)

    def _grepped(self, step: Step) -> None:
        fields = step.action.fields
        if fields.get("output_mode") != "content" or fields.get("multiline") or fields.get("-o"):
            return
        where = fields.get("path")
        single = path_in(step.cwd, where) if isinstance(where, str) else None
        by_path: dict[str, list[tuple[int, str]]] = {}
        for line in visible(step).split("\n"):
            text = line.removesuffix("\r")
            if match := _GREP_LINE.fullmatch(text):
                path, number, said = match.groups()
                if len(path) > 2 and not path.isdigit():
                    by_path.setdefault(path_in(step.cwd, path), []).append((int(number), said))
            elif fields.get("-n") and single is not None and (match := _GREP_NUMBERED.fullmatch(text)):
                by_path.setdefault(single, []).append((int(match[1]), match[2]))
        for path, lines in by_path.items():
            kept = [(number, said) for number, said in lines if not said.lstrip().startswith("[Omitted")]
            if "." in path.rsplit("/", 1)[-1]:  # one that can be a file
                self.learn(path, kept)

    def _edited(self, step: Step, named: str) -> None:
        """Write, Edit, MultiEdit, and the editor of OpenHands and SWE-agent."""
        path, command = path_in(step.cwd, named), step.action.fields.get("command", "")
        told = step.observation_kind is ObservationKind.ENV
        if command == "view":
            if step.succeeded and told and step.elided is None:
                self._snippet(step, path)
            return
        if told and not step.succeeded:
            return  # refused
        if not told or named not in step.observation:
            self.forget(path)  # it may have written
            return
        self._wrote(step, path, command)
        if "modified on disk" in step.observation or "formatted" in step.observation:
            self.forget(path)
        if step.elided is None and "`cat -n`" in step.observation[:2000]:
            self._snippet(step, path)
            if (file := self._files.get(_key(path))) is not None:
                file.edited = True  # the snippet is what the editor wrote, before any hook saw it

    def _wrote(self, step: Step, path: str, command: object) -> None:
        """An editor did what it was asked for."""
        fields, tool = step.action.fields, step.tool
        text = fields.get("content", fields.get("file_text"))
        if (tool == "Write" or command == "create") and isinstance(text, str):
            self.write(path, text)
        elif tool in _EDITORS and command != "str_replace":
            self.forget(path)
        else:
            edits = fields.get("edits") if tool == "MultiEdit" else [fields]
            if not isinstance(edits, list) or len(edits) > _MOST_CHANGES:
                self.forget(path)
                return
            for edit in edits:
                self._one_edit(path, edit if isinstance(edit, dict) else {}, tool)

    def _one_edit(self, path: str, edit: Mapping[str, object], tool: str) -> None:
        """One replacement of an edit."""
        old = edit.get("old_string", edit.get("old_str"))
        new = edit.get("new_string", edit.get("new_str", ""))
        if not isinstance(old, str) or not isinstance(new, str):
            self.forget(path)
        elif not old:  # a new file, or the start of an empty one
            self.write(path, new)
        else:
            everywhere = bool(edit.get("replace_all"))
            self.edit(path, old, new, everywhere=everywhere, drops_line=tool not in _EDITORS)

    def _snippet(self, step: Step, path: str) -> None:
        """Numbered lines after a sentence that announces them."""
        lines = visible(step).split("\n")
        start = next((index for index, line in enumerate(lines) if _NUMBERED.fullmatch(line)), None)
        if start is not None:
            shown = list(_numbered(lines[start:]))
            if len(shown) > 1 and all(b[0] == a[0] + 1 for a, b in itertools.pairwise(shown)):
                self.learn(path, shown)

    def _patched(self, step: Step, text: str | None) -> None:
        files = patched(text) if text is not None else None
        if files is None or not step.succeeded or step.observation_kind is not ObservationKind.ENV:
            self.forget_all()
        else:
            self.patch(step.cwd, files)

    def _shell(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """What a command line may have written, and the lines of a file that it showed."""
        command = step.action.command or ""
        stages = [stage for part in parts for stage in part.stages]
        if not calls or None in stages:
            self.forget_all()
            return
        if any(mark in command for mark in ("$(", "`", "<(", ">(")) and any(map(_hidden, calls)):
            self.forget_all()
            return
        for part in parts:
            for call in part.stages:
                if call is not None:
                    self._ran(call, part, step)
        if step.exit_code == 0 and step.elided is None and step.observation_kind is ObservationKind.ENV:
            self._printed(step, parts)

    def _ran(self, call: Call, part: Part, step: Step) -> None:
        """Forget what a program may have written; learn what it surely wrote."""
        if call.name == "apply_patch" and part.runs != "maybe":
            self._patched(msgspec.structs.replace(step, cwd=call.cwd), call.document or (call.operands or (None,))[-1])
        elif (changed := effect(call)) & Effect.UNNAMED:
            self.forget_all()
        elif changed & Effect.TEXTS:
            self._named_targets(call)
            if call.name == "ln":
                self.link(call.operands)
        redirects = [] if call.command is None else [r for r in call.command.redirects if r.op in WRITING]
        for redirect in redirects:
            target = redirect.target.text if redirect.target is not None else None
            if target is None:
                self.forget_all()
            elif not target.startswith("/dev/"):
                self._redirected(call, part, step, redirect.op, target, alone=len(redirects) == 1)

    def _named_targets(self, call: Call) -> None:
        """Any of the words may name what was written."""
        if call.globs or None in call.operands:
            self.forget_all()
        for word in call.operands:
            if word:
                self.forget(word)

    def _redirected(self, call: Call, part: Part, step: Step, op: str, target: str, *, alone: bool) -> None:
        written = call.name == "cat" and not call.operands and not call.options and call.document is not None
        sure = step.exit_code == 0 and part.runs != "maybe" and len(part.stages) == 1 and alone
        path = call.path(target)
        if written and sure and op in {">", ">|"} and call.document is not None:
            self.write(path, call.document)
        else:
            self.forget(target)

    def _printed(self, step: Step, parts: Sequence[Part]) -> None:
        """Learn from a command line that prints nothing but lines of one file."""
        speaking = [part for part in parts if part.shown and part.stages[0] is not None
                    and part.stages[0].name not in {"cd", "mkdir", "touch", "export", "true"}]  # fmt: skip
        if len(speaking) != 1 or speaking[0].runs == "maybe" or not 1 <= len(speaking[0].stages) <= 2:
            return
        call = speaking[0].stages[0]
        found = window(call) if call is not None else None
        if found is None:
            return
        second = speaking[0].stages[1] if len(speaking[0].stages) == 2 else None
        if second is not None and not (found.numbered and sed_range(second) is not None and len(second.operands) == 1):
            return
        lines = visible(step).removesuffix("\n").split("\n")
        if found.numbered:
            self.learn(found.path, _numbered(lines))
        elif found.last is not None and len(lines) == found.last - found.first + 1:
            # All that was asked for, so that nobody can have trimmed blank lines at the start.
            self.learn(found.path, enumerate((line.removesuffix("\r") for line in lines), found.first))


def window(call: Call) -> Window | None:
    """The lines of one file that `cat`, `head`, `nl` or `sed -n` prints; None for anything else."""
    files = call.operands[1:] if call.name == "sed" else call.operands
    if call.globs or len(files) != 1 or files[0] is None or files[0] in {"", "-"}:
        return None
    given = set(call.options)
    lines: tuple[int, int | None] | None = None
    numbered = False
    if call.name == "cat" and given <= {"-n"}:
        lines, numbered = (1, None), "-n" in given
    elif call.name == "nl" and (given == {"-b", "-a"} or (given == {"-b"} and call.options["-b"] == ("a",))):
        lines, numbered = (1, None), True  # `-ba`, be it said that `-b` takes a value or not
    elif call.name == "sed":
        lines = sed_range(call)
    elif call.name == "head":
        lines = _head_range(call)
    if lines is None:
        return None
    return Window(path=call.path(files[0]), first=lines[0], last=lines[1], numbered=numbered)


def _head_range(call: Call) -> tuple[int, int] | None:
    """The lines that `head` prints, asked in whichever way."""
    given = set(call.options)
    wanted = call.value("-n", "--lines") if given else "10"
    if len(given) == 1 and next(iter(given))[1:].isdigit():
        wanted = next(iter(given))[1:]
    elif given - {"-n", "--lines"}:
        return None
    return (1, int(wanted)) if wanted is not None and wanted.isdigit() and 0 < len(wanted) < 6 else None


def sed_range(call: Call) -> tuple[int, int | None] | None:
    """The lines that `sed -n 'A,Bp'` prints, the last one None for `$`."""
    if call.name != "sed" or set(call.options) != {"-n"} or call.options["-n"] or not call.operands:
        return None
    match = _SED_RANGE.fullmatch(call.operands[0] or "")
    if match is None or int(match[1]) < 1:
        return None
    last = None if match[2] == "$" else int(match[2] or match[1])
    return (int(match[1]), last) if last is None or last >= int(match[1]) else None


def patch_text(given: object) -> str | None:
    """The patch that `apply_patch` was called with."""
    if isinstance(given, dict):
        given = next((given[name] for name in ("input", "patch", "text") if isinstance(given.get(name), str)), None)
    return given if isinstance(given, str) else None


def patched(text: str) -> list[Patched] | None:
    """What a patch of `apply_patch` does to each file; None if it cannot be read."""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    if len(lines) < 2 or lines[0].strip() != "*** Begin Patch" or lines[-1].strip() != "*** End Patch":
        return None
    result: list[Patched] = []
    body: list[str] = []
    head: tuple[str, str, str | None] | None = None
    for line in [*lines[1:-1], "*** End of Patch"]:
        start, colon, name = line.partition(": ")
        kind = {"*** Add File": "A", "*** Update File": "M", "*** Delete File": "D"}.get(start) if colon else None
        if kind is None and line != "*** End of Patch":
            if colon and start == "*** Move to" and head is not None:
                head = (head[0], head[1], name.strip())
            elif line != "*** End of File":
                body.append(line)
            continue
        if head is not None:
            result.append(_change(*head, body))
        elif any(line.strip() for line in body):
            return None
        head, body = (kind, name.strip(), None) if kind is not None else None, []
    return result


def _change(kind: str, path: str, to: str | None, body: Sequence[str]) -> Patched:
    if kind == "A":
        return Patched(kind=kind, path=path, to=to, lines=tuple(line[1:] for line in body if line.startswith("+")))
    hunks: list[Hunk] = []
    for starts, group in itertools.groupby(body, key=lambda line: line.startswith("@@")):
        lines = list(group)
        if not starts:
            hunks.append(
                Hunk(
                    old=tuple(line[1:] for line in lines if not line.startswith("+")),
                    new=tuple(line[1:] for line in lines if not line.startswith("-")),
                )
            )
    return Patched(kind=kind, path=path, to=to, hunks=tuple(hunks))


def _key(path: str) -> str:
    """One spelling for a path."""
    path = path.replace("\\", "/")
    if len(path) > 1 and path[1] == ":":
        return path[0].lower() + path[1:]
    return path.removeprefix("/private") if path.startswith("/private/") else path


def _last(word: str) -> str:
    """The last name of a path, in any spelling."""
    return word.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1].casefold()


def _absolute(key: str) -> bool:
    return key.startswith("/") or key[1:3] == ":/"


def _named(fields: Mapping[str, object]) -> str | None:
    path = fields.get("file_path", fields.get("path"))
    return path if isinstance(path, str) and path else None


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Numbers and texts of lines, up to the first that has no number."""
    for line in lines:
        match = _NUMBERED.fullmatch(line.removesuffix("\r"))
        if match is None:
            return
        yield int(match[1]), match[2]


def _hidden(call: Call) -> bool:
    """Is there a word that is not spelt out, behind which another command may hide?"""
    if call.command is None:
        return True
    words = [*call.command.args, *call.command.assigned.values()]
    return any(word.text is None for word in words)


def _text(file: _File) -> str:
    return "\n".join(file.lines[number] for number in sorted(file.lines))


def _runs(file: _File) -> list[tuple[int, list[str]]]:
    """Lines that follow each other: the number of the first one, and their texts."""
    runs: list[tuple[int, list[str]]] = []
    for number in sorted(file.lines):
        if runs and number == runs[-1][0] + len(runs[-1][1]):
            runs[-1][1].append(file.lines[number])
        else:
            runs.append((number, [file.lines[number]]))
    return runs


def _after(file: _File, old: str, new: str, *, everywhere: bool = False, drops_line: bool = False) -> _File | None:
    """What is known after an edit; None if nothing is."""
    if not old:
        return None
    if drops_line and not new and not old.endswith("\n"):
        # It goes only where one follows, which only a text known beyond `old` can tell.
        if not file.whole:
            return None
        if not everywhere and old + "\n" in _text(file):
            old += "\n"
    return _replaced(file, old, new, everywhere=everywhere)


def _replaced(file: _File, old: str, new: str, *, everywhere: bool = False, lines: bool = False) -> _File | None:
    """What is known after a replacement; None if nothing is.

    Args:
        file: What was known before.
        old: What stood there, exactly once unless `everywhere`.
        new: What stands there now.
        everywhere: Every occurrence was replaced.
        lines: Both are whole lines.
    """
    if everywhere:
        return _replaced_all(file, old, new)
    runs = _runs(file)
    if len(runs) > _MOST_RUNS:
        return None
    delta = new.count("\n") - old.count("\n")
    if lines:
        old, new = f"\n{old}\n", f"\n{new}\n"
    texts = [f"\n{text}\n" if lines else text for text in ("\n".join(run) for _, run in runs)]
    places = [index for index, text in enumerate(texts) if old in text]
    if len(places) == 1 and texts[places[0]].find(old, texts[places[0]].find(old) + 1) < 0:
        place = places[0]
        result: dict[int, str] = {}
        for index, (first, run) in enumerate(runs):
            if index == place:
                text = texts[index].replace(old, new, 1)
                result.update(enumerate((text[1:-1] if lines else text).split("\n"), first))
            else:
                result.update(enumerate(run, first + (delta if index > place else 0)))
        return _File(lines=result, whole=file.whole)
    plain = old.strip("\n").translate(_QUOTES)
    if places or file.whole or any(plain in text.translate(_QUOTES) for text in texts):
        return None
    return _elsewhere(runs, old.count("\n") + 1, delta)


def _replaced_all(file: _File, old: str, new: str) -> _File | None:
    """What is known after every occurrence was replaced; None if nothing is."""
    if file.whole:
        return _File(lines=dict(enumerate(_text(file).replace(old, new).split("\n"), 1)), whole=True)
    if "\n" in old or "\n" in new:
        return None
    return _File(lines={number: text.replace(old, new) for number, text in file.lines.items()})


def _elsewhere(runs: Sequence[tuple[int, Sequence[str]]], reach: int, delta: int) -> _File:
    """What is left where something was replaced outside of what is known, or across its edge."""
    kept: dict[int, str] = {}
    for first, run in runs:
        start = 0 if first == 1 else reach
        if delta and first != 1:
            break
        kept.update(enumerate(run[start : max(start, len(run) - reach)], first + start))
        if delta:
            break
    return _File(lines=kept)
