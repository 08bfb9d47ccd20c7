"""The state of a git repository, as far as the session itself made or saw it, and what its git has shown to print.

A session never owns its repository: people, hooks and other agents may commit and switch as well. So what is known of
a work tree lasts only while every step is one that surely leaves its branch and its history alone, and only within a
turn of the conversation.
"""

import re
from collections.abc import Sequence

import msgspec

from verifierd.contracts.calls import Call, Part
from verifierd.contracts.state.changes import Changes
from verifierd.contracts.state.effects import Effect, at_a_glance, beside, effect
from verifierd.contracts.tails import visible
from verifierd.types import Step

__all__ = ("Repository", "Tree")

_TREES = 8
_LOG = 50
_BRANCH = re.compile(r"^On branch (\S+)$", re.MULTILINE)
_COMMIT = re.compile(r"^\[(\S+|[^\[\]\n]{1,40})(?: \([^()\n]{1,40}\))? ([0-9a-f]{4,64})\] (.*)$", re.MULTILINE)
_LOG_LINE = re.compile(r"[0-9a-f]{4,64} .*")
_NAME = re.compile(r"\S{1,250}")
_MEDIUM = re.compile(r"^commit [0-9a-f]{7,64}\b[^\n]*\n(?:Merge: [^\n]*\n)?Author: ", re.MULTILINE)
_ENGLISH = re.compile(
    r"^(?:On branch \S+|nothing to commit, |nothing added to commit|no changes added to commit|Changes not staged for"
    r"|Changes to be committed:|Untracked files:|Already up to date\.|Everything up-to-date|Switched to )",
    re.MULTILINE,
)
_LOOK = 20_000


class Tree(msgspec.Struct):
    """What is known of one work tree, seen from one directory.

    Attributes:
        branch: The current branch.
        log: The lines with which `git log --oneline` begins.
    """

    branch: str | None = None
    log: tuple[str, ...] = ()


class Repository:
    """Partial knowledge of the work trees of a session.

    Attributes:
        shown: What this git was seen to print: `english` messages, a unified `patch`, log entries of the `medium` form,
            log lines that are `undecorated`, or any of its own forms (`itself`), so that no wrapper shortens them.
            Languages, external diff programs and default formats are configured, and stay what they are.
        changes: What is not committed.
    """

    def __init__(self) -> None:
        self.shown: set[str] = set()
        self.changes = Changes()
        self._trees: dict[str, Tree] = {}
        self._turn: str | None = None
        self._wrapped = self._shared = False

    def tree(self, cwd: str | None) -> Tree | None:
        """What is known of the work tree at a directory."""
        return self._trees.get(cwd) if cwd is not None else None

    def observe(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """Learn from what a step showed or did, and forget what it may have changed."""
        self.changes.observe(step, parts, calls)
        if step.turn != self._turn:
            self._trees.clear()
            self._turn = step.turn
        if step.action.fields.get("run_in_background") and at_a_glance(step.action) & Effect.HISTORY:
            self._shared = True  # from now on, anything may happen at any time
        if step.action.command is None:
            if at_a_glance(step.action) & Effect.HISTORY:
                self._trees.clear()
            return
        self._wrapped = self._wrapped or any(call.name == "rtk" for call in calls)
        if self._wrapped:
            self.shown.clear()  # what shortens outputs may do so unasked
        elif any(call.name.startswith("git ") for call in calls):
            self._show(visible(step)[:_LOOK], calls)
        known = bool(calls) and all(stage is not None for part in parts for stage in part.stages)
        if self._shared or not known or beside(step.siblings) & Effect.HISTORY:
            self._trees.clear()
        else:
            self._follow(step, parts, calls)

    def _show(self, text: str, calls: Sequence[Call]) -> None:
        names = {call.name for call in calls}
        if "english" not in self.shown and _ENGLISH.search(text):
            self.shown.add("english")
        if names & {"git diff"} and (text.startswith("diff --git ") or "\ndiff --git " in text):
            self.shown.add("patch")
        if names & {"git log", "git show"} and _MEDIUM.search(text):
            self.shown.add("medium")
        if self.shown & {"english", "patch", "medium"} or ("git commit" in names and _COMMIT.search(text)):
            self.shown.add("itself")

    def _follow(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """What a step of known calls did and showed."""
        moving = [call for call in calls if effect(call) & Effect.HISTORY]
        if not moving:
            self._read(step, parts, calls)
            return
        committed = moving[0] if len(moving) == 1 and moving[0].name == "git commit" else None
        before = self._trees.get(committed.cwd) if committed is not None and committed.cwd is not None else None
        self._trees.clear()
        if committed is not None and committed.cwd is not None and step.succeeded is not False:
            tree = _after(committed, before or Tree(), visible(step))
            if tree is not None:
                self._trees[committed.cwd] = tree
        elif len(calls) == 1 and step.succeeded:
            self._switch(calls[0])

    def _switch(self, call: Call) -> None:
        made = call.value("-b", "-B") if call.name == "git checkout" else call.value("-c", "-C", "--create")
        if call.name in {"git checkout", "git switch"} and made and call.cwd is not None and _NAME.fullmatch(made):
            self._trees[call.cwd] = Tree(branch=made)

    def _read(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """What queries showed."""
        text = visible(step)
        if step.succeeded is False or step.elided is not None or len(text) > _LOOK:
            return
        queries = [call for call in calls if call.name == "git status"]
        others = {call.name for call in calls} - {"git status", "git log", "cd", "pwd", "git add", "echo"}
        if len(queries) == 1 and not others:
            found = _BRANCH.findall(text) or _short_branches(text)
            if len(found) == 1:
                self._at(queries[0].cwd).branch = found[0]
        if len(parts) == 1 and len(calls) == 1 and parts[0].shown:
            self._answer(calls[0], text.strip())

    def _answer(self, call: Call, text: str) -> None:
        if call.name == "git rev-parse" and call.given("--abbrev-ref") and call.operands == ("HEAD",):
            self._at(call.cwd).branch = text if _NAME.fullmatch(text) and text != "HEAD" else None
        elif call.name == "git log" and call.given("--oneline") and not call.operands and _plain(call):
            lines = [line.rstrip() for line in text.split("\n")]
            known = all(_LOG_LINE.fullmatch(line) for line in lines) and " (HEAD" not in lines[0]
            if known:
                self.shown.add("undecorated")
            self._at(call.cwd).log = tuple(lines[:_LOG]) if known else ()

    def _at(self, cwd: str | None) -> Tree:
        if cwd is None:
            return Tree()
        tree = self._trees.pop(cwd, None) or Tree()
        self._trees[cwd] = tree
        while len(self._trees) > _TREES:
            del self._trees[next(iter(self._trees))]
        return tree


def _short_branches(text: str) -> list[str]:
    """The branches that `git status -b` names."""
    heads = [line[3:].partition("...")[0] for line in text.split("\n") if line.startswith("## ")]
    return [head for head in heads if _NAME.fullmatch(head)]


def _plain(call: Call) -> bool:
    """Does `git log` begin at HEAD and list everything, in the one-line form?"""
    return all(name in {"--oneline", "-n", "--max-count"} or name[1:].isdigit() for name in call.options)


def _after(commit: Call, before: Tree, text: str) -> Tree | None:
    """What is known after a commit; None if it does not show that there was one."""
    found = _COMMIT.findall(text[:_LOOK])
    if len(found) != 1 or commit.given("--dry-run", "-q", "--quiet"):
        return None
    branch, name, subject = found[0]
    log = before.log[1:] if commit.given("--amend") else before.log
    if subject.startswith("Merge"):
        log = ()  # what a merge brings in comes between, by its date
    return Tree(
        branch=branch if _NAME.fullmatch(branch) else None,
        log=(f"{name} {subject}".rstrip(), *log)[:_LOG],
    )
