"""What a session knows of the changes that are not committed: what git must list, and what alone it may.

Git's own answers are the truth; from there on only what the session itself wrote counts. A commit, another turn,
another agent and whatever may write without saying where end what is known.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from verifierd.contracts.calls import Call, Part, path_in
from verifierd.contracts.state.effects import Effect, at_a_glance, beside, effect
from verifierd.contracts.state.files import patch_text, patched
from verifierd.contracts.tails import cut, visible
from verifierd.types import ObservationKind, Step

__all__ = ("Changes", "Status", "looks_elsewhere")

_MOST_BASES = 12
_MOST_PATHS = 2_000
_MOST_ANSWERS = 50
_LONGEST = 20_000
_ASKING = frozenset({"git branch", "git diff", "git log", "git show"})
"""Queries whose answers stay the same as long as no tracked file is written."""
_UNLIKE = frozenset({"git branch", "git diff", "git log", "git rev-parse", "git show", "git status"})
"""Queries none of whose first lines looks like one of a short status."""
_OTHERS = ("GIT_", "--git-dir", "--work-tree")
"""How a call is told to look at another work tree than the one it runs in."""
_TIMELY = re.compile(r"relative|human|%[ac]r|\b(?:since|until|after|before)\b|@\{")
_ELSEWHERE = re.compile(r"origin/|upstream/|Your branch|\bago\b")
_SHORT = re.compile(r"([ MTADRCUm?!]{2}) (.+)")
_LONG = re.compile(r"\t([a-z ]+): +(.+?)(?: \(.*\))?")
_ENGLISH = ("On branch ", "HEAD detached ")
_FILE = re.compile(r"\.[A-Za-z]{1,5}$")
_MADE = re.compile(r"golden|snap|testdata|fixture|generated|\.(?:json|lock|mod|sum|ipynb)$")
"""Paths of what tests, builds and filters write themselves."""
_HEADER = re.compile(r"diff --git a/(.+) b/\1")
_CREATED = re.compile(r" (?:create|mode change \d+ =>) mode \d+ (.+)| mode change \d+ => \d+ (.+)")
_STAT = re.compile(r" (\S+) +\| +(?:\d+ [+-]*|Bin .*)")
_NAME = re.compile(r"[\w.+@/-]{1,200}")
_WORD = re.compile(r"\w+")
_IMPORT = re.compile(r"\s*(?:import|from|use|using|#include|require|export \{|const .*require\(|\"[\w./-]+\"$)")
_SETTINGS = frozenset({".gitignore", ".gitattributes", ".gitmodules", "exclude"})


class Status(msgspec.Struct):
    """What `git status` must and may list, asked in one directory; paths are as it shows them.

    Attributes:
        must: Paths that are changed, and whether that is surely not staged.
        may: All tracked paths that can be changed; None if there may be others.
        about: Names of files that the session wrote, and of the directories that lead to them, one of which may be a
            submodule: a link may lead to the work tree, so how git shows them is not certain.
    """

    must: dict[str, bool] = {}
    may: set[str] | None = None
    about: set[str] = set()


class Changes:
    """What was changed since the last commit.

    Attributes:
        turn: The turn of the last step.
    """

    def __init__(self) -> None:
        self.turn: str | None = None
        self._seen: dict[str, Status] = {}
        self._tracked: dict[str, set[str]] = {}
        self._edited: dict[str, bool] = {}
        self._nets: dict[str, list[Counter[str]]] = {}
        self._answers: dict[str, str] = {}

    def status(self, cwd: str) -> Status:
        """What is known of the tracked files, asked in a directory."""
        seen = self._seen.get(cwd) or Status()
        tracked = self._tracked.get(cwd, set())
        must = dict(seen.must)
        about: set[str] = set()
        for path, staged in self._edited.items():
            name = _relative(path, cwd)
            for shown in _leading(name):  # a submodule is changed with its files
                must.pop(shown, None)
            about.update(part for part in path.split("/") if part)
            if path in tracked and self._differs(path) and not _MADE.search(path):
                must[name] = not staged
        return Status(must, seen.may, about)

    def edited(self, cwd: str) -> list[str]:
        """Files below a directory that the session changed, though git may ignore them."""
        return [
            name
            for path in self._edited
            if self._differs(path) and not (name := _relative(path, cwd)).startswith("../")
        ]

    def answer(self, call: Call) -> str | None:
        """What the same query printed, if nothing was written since."""
        key = _question(call)
        return self._answers.get(key) if key is not None else None

    def observe(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """Learn from what a step wrote or showed, and forget what it may have changed."""
        if step.turn != self.turn:
            self._disturb()
            self.turn = step.turn
        if step.observation_kind in {ObservationKind.POLICY_DENIED, ObservationKind.HARNESS_ERROR}:
            return
        if beside(step.siblings) & Effect.UNNAMED:  # the others tell themselves what they wrote
            self._disturb()
        if step.action.command is not None:
            self._shell(step, parts, calls)
        elif step.tool == "apply_patch" or at_a_glance(step.action) == Effect.FILES:
            self._answers.clear()
            self._written(step)
        elif at_a_glance(step.action):
            self._disturb()

    # --- what is written

    def _disturb(self) -> None:
        """Anything may have been written, committed or taken back."""
        self._seen.clear()
        self._edited.clear()
        self._answers.clear()
        self._mark()

    def _mark(self) -> None:
        """What the files say now may be what is committed, or staged, from now on."""
        for path, nets in list(self._nets.items()):
            if len(nets) > _MOST_BASES:
                self._nets[path] = []
            elif nets and any(nets[-1].values()):
                nets.append(Counter())

    def _differs(self, path: str) -> bool:
        """Does a file read otherwise than whenever it may have been committed?"""
        nets = self._nets.get(path)
        return bool(nets) and all(any(net.values()) for net in nets or ())

    def _touch(self, path: str, net: Counter[str] | None) -> None:
        """A file was changed; None for a change that is not known."""
        if posixpath.basename(path) in _SETTINGS or "/.git/" in path:
            self._disturb()
            return
        if len(self._nets) >= _MOST_PATHS:
            self._nets.clear()
        nets = self._nets.setdefault(path, [Counter()])
        if net is None:
            self._nets[path] = []
        for known in nets:
            known.update(net or {})
        self._edited[path] = False

    def _written(self, step: Step) -> None:
        """What an agent's tool wrote."""
        told = step.observation_kind is ObservationKind.ENV and step.elided is None
        if told and step.succeeded is False and step.tool != "apply_patch":
            return  # refused
        fields = step.action.fields
        text = patch_text(step.action.input) if step.tool == "apply_patch" else None
        name = fields.get("file_path", fields.get("notebook_path"))
        if step.tool == "apply_patch":
            self._patch(step.cwd, text, sure=bool(told and step.succeeded))
        elif not isinstance(name, str):
            self._disturb()
        else:
            path = path_in(step.cwd, name)
            self._touch(path, _net(fields) if told and name in step.observation and step.tool != "Write" else None)

    def _patch(self, cwd: str | None, text: str | None, *, sure: bool) -> None:
        files = patched(text) if text is not None and sure and cwd is not None else None
        if files is None:
            self._disturb()
            return
        for file in files:
            path = path_in(cwd, file.path)
            known = file.kind == "M" and file.to is None
            old = "\n".join(line for hunk in file.hunks for line in hunk.old)
            new = "\n".join(line for hunk in file.hunks for line in hunk.new)
            self._touch(path, _counted(old, new) if known else None)
            if file.to is not None:
                self._touch(path_in(cwd, file.to), None)

    def _shell(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        if step.action.fields.get("run_in_background") or step.observation_kind is not ObservationKind.ENV:
            self._disturb()
            return
        command = step.action.command or ""
        if not calls or any(None in part.stages for part in parts) or re.search(r"\$\(|`|[<>]\(", command):
            self._disturb()
            return
        for call in calls:
            self._ran(call, step)
        if step.succeeded and not cut(step) and len(step.observation) < _LONGEST and "\x1b" not in step.observation:
            self._shown(step, parts)

    def _ran(self, call: Call, step: Step) -> None:
        """What a program may have written."""
        changed = effect(call)
        if call.name == "apply_patch":
            self._answers.clear()
            self._patch(call.cwd, call.document or (call.operands or (None,))[-1], sure=bool(step.succeeded))
        elif changed == Effect.STAGED:
            self._answers.clear()
            self._stage()
            if call.given("-N", "--intent-to-add"):
                self._seen.clear()
        elif changed & Effect.STAGED:
            self._disturb()
            if call.name != "git commit":
                self._tracked.clear()
        elif changed & Effect.UNNAMED:  # at most the form of a text is taken back
            self._answers.clear()
            self._open()
        elif changed & Effect.FILES and call.name != "mkdir":  # directories alone are nothing to git
            self._answers.clear()
            self._named(call)
        elif changed:
            self._answers.clear()
        self._redirected(call)

    def _stage(self) -> None:
        """Some of the changes may be staged from now on."""
        self._mark()
        for status in self._seen.values():
            status.must = dict.fromkeys(status.must, False)
        self._edited = dict.fromkeys(self._edited, True)

    def _open(self) -> None:
        """Any file may be written, and those that were may be formatted."""
        self._seen.clear()

    def _named(self, call: Call) -> None:
        """Any of its words may name what was written."""
        words = call.operands[1:] if call.name in {"sed", "chmod"} else call.operands
        files = [word for word in words if word is not None and _FILE.search(word)]
        recursive = call.given("-r", "-R", "-a", "--recursive", "-t", "--target-directory")
        if call.cwd is None or call.globs or len(files) < len(words) or recursive:
            self._disturb()  # directories, with whatever is in them
            return
        for word in files:
            self._touch(call.path(word), None)

    def _redirected(self, call: Call) -> None:
        for redirect in call.command.redirects if call.command is not None else ():
            text = redirect.target.text if redirect.target is not None else None
            if redirect.fd == 0 or redirect.op == ">&" or (text or "").startswith("/dev/"):
                continue
            self._answers.clear()
            if text is None or call.cwd is None:
                self._disturb()
            else:
                self._touch(call.path(text), None)

    # --- what is shown

    def _shown(self, step: Step, parts: Sequence[Part]) -> None:
        speaking = [
            part for part in parts if part.stages[0] is not None and part.stages[0].name not in {"cd", "git add"}
        ]
        if not speaking or len(speaking[0].stages) != 1 or not speaking[0].shown or speaking[0].runs == "maybe":
            return
        call = speaking[0].stages[0]
        if call is None or call.cwd is None or call.targets or looks_elsewhere(call):
            return
        text = visible(step)
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        if len(speaking) > 1:
            later = {call.name for part in speaking[1:] for call in part.stages if call is not None}
            if later <= _UNLIKE and call.name == "git status" and call.given("-s", "--short") and _whole(call):
                end = next((at for at, line in enumerate(lines) if not _is_short(line)), len(lines))
                self._listed(call.cwd, lines[:end])
            return
        key = _question(call)
        if key is not None and not ((call.name != "git diff") and _ELSEWHERE.search(text)):
            while len(self._answers) >= _MOST_ANSWERS:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = text
        if call.name == "git status" and _whole(call) and _readable(lines):
            self._listed(call.cwd, lines)
        tracked = self._tracked.setdefault(call.cwd, set())
        named = {path_in(call.cwd, name) for name in _tracked(call, lines)} if len(tracked) < _MOST_PATHS else set()
        tracked |= named
        if call.name == "git diff":
            self._dirty(named)

    def _listed(self, cwd: str, lines: Sequence[str]) -> None:
        """All changes were shown."""
        found: dict[str, str] = {}
        for name, code in _entries(lines):
            found.setdefault(name, code)  # what is taken out of the index may stand there twice
        if len(found) > _MOST_PATHS:
            return
        whole = all(_NAME.fullmatch(name) for name in found)
        must = {name: code[1] in "MD" for name, code in found.items() if code in {" M", "M ", " D", "A "}}
        tracked = {name for name, code in found.items() if code not in {"??", "!!"}}
        must = {name: unstaged for name, unstaged in must.items() if _NAME.fullmatch(name)}
        self._seen = {cwd: Status(must, tracked if whole else None)}
        paths = {path_in(cwd, name) for name in tracked}
        new = {path_in(cwd, name) for name, code in found.items() if code == "??"}
        known = self._tracked.get(cwd, set())
        self._tracked[cwd] = {path for path in known if new.isdisjoint(_leading(path))} | paths
        self._dirty(paths)
        for path in list(self._nets):
            if path in self._tracked[cwd] and _relative(path, cwd) not in found:
                self._nets[path] = [Counter()]  # as it is committed
        self._edited.clear()

    def _dirty(self, paths: Iterable[str]) -> None:
        """These were changed before the session touched them: how they differ is not known."""
        for path in paths:
            if len(self._nets) < _MOST_PATHS:
                self._nets.setdefault(path, [])


def _question(call: Call) -> str | None:
    """A query that nothing but what is written can change the answer of; None for any other call."""
    if call.name not in _ASKING or call.cwd is None or call.globs or call.command is None or call.targets:
        return None
    if effect(call):
        return None
    words = [word.text for word in call.command.args]
    if None in words or any(_TIMELY.search(word or "") for word in words) or call.command.redirects:
        return None
    return "\0".join((call.cwd, *(word or "" for word in words)))


def _whole(call: Call) -> bool:
    """Does `git status` list all changes, with paths from where it runs?"""
    return not call.operands and set(call.options) <= {"-s", "--short", "-b", "--branch", "--long"}


def _readable(lines: Sequence[str]) -> bool:
    """Is a status a short one, or in English?"""
    return lines[0].startswith(_ENGLISH) or all(not line or _is_short(line) for line in lines)


def _is_short(line: str) -> bool:
    return line.startswith("## ") or _SHORT.fullmatch(line) is not None


def looks_elsewhere(call: Call) -> bool:
    """Is a call told to look at another work tree than the one it runs in?"""
    command = call.command
    return command is None or any(
        (word or "").startswith(_OTHERS) for word in (*command.assigned, *(word.text for word in command.args))
    )


def _entries(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The paths that a status lists, each with its two letters."""
    staged = False
    for line in lines:
        if line.startswith("Changes to be committed"):
            staged = True
        elif line.startswith(("Changes not staged", "Unmerged", "Untracked")):
            staged = False
        elif (match := _SHORT.fullmatch(line)) is not None:
            code, name = match.groups()
            for part in name.split(" -> "):
                yield part, code
        elif (match := _LONG.fullmatch(line)) is not None:
            letter = {"modified": "M", "new file": "A", "deleted": "D"}.get(match[1], "R")
            for part in match[2].split(" -> "):
                yield part, f"{letter} " if staged else f" {letter}"


def _tracked(call: Call, lines: Sequence[str]) -> Iterator[str]:
    """The tracked paths that an answer names, as if it had been asked at the top of the work tree."""
    if call.name in {"git diff", "git show", "git log"} and not call.given("--no-index", "--relative"):
        for line in lines:
            match = _HEADER.fullmatch(line) or _STAT.fullmatch(line)
            if match is not None and not match[1].startswith("..."):
                yield match[1]
        if call.name == "git diff" and call.given("--name-only"):
            yield from filter(_NAME.fullmatch, lines)
    elif call.name == "git commit":
        for line in lines:
            if (match := _CREATED.fullmatch(line)) is not None:
                yield match[1] or match[2]
    elif call.name == "git ls-files" and not call.given("-o", "--others", "-i", "--ignored"):
        yield from filter(_NAME.fullmatch, lines)


def _relative(path: str, cwd: str) -> str:
    return (
        posixpath.relpath(path, cwd)
        if path.startswith("/") and cwd.startswith("/")
        else (path.removeprefix(cwd.replace("\\", "/").rstrip("/") + "/"))
    )


def _leading(path: str) -> Iterator[str]:
    """A path, and the directories that lead to it."""
    while path and path != posixpath.dirname(path):
        yield path
        path = posixpath.dirname(path)


def _net(fields: Mapping[str, object]) -> Counter[str] | None:
    """What an edit changed; None if that is not known."""
    edits = fields.get("edits", [fields])
    if not isinstance(edits, list) or len(edits) > 100:
        return None
    result: Counter[str] = Counter()
    for edit in edits:
        old, new = (edit.get("old_string"), edit.get("new_string")) if isinstance(edit, dict) else (None, None)
        if not isinstance(old, str) or not isinstance(new, str) or not old or edit.get("replace_all"):
            return None
        result.update(_counted(old, new))
    return result


def _counted(old: str, new: str) -> Counter[str]:
    """How often each word was added, less how often it was taken away.

    Form, order and imports do not count: a formatter behind the agent's back may take those back.
    """
    result: Counter[str] = Counter()
    for text, sign in ((old, -1), (new, 1)):
        for line in text.split("\n"):
            if not _IMPORT.match(line):
                for word in _WORD.findall(line):
                    result[word] += sign
    return result
