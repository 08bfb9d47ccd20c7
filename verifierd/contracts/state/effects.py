"""What programs and agents' tools may change, beside what they print: one table for all that is known of a session."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Flag, auto

from verifierd.commandline.reading import Command
from verifierd.contracts.calls import Call, Part
from verifierd.types import Action

__all__ = ("WRITING", "Effect", "at_a_glance", "beside", "effect", "effects", "written")


class Effect(Flag):
    """What may be changed."""

    NOTHING = 0
    NAMES = auto()
    """The paths that are named come or go, or their modes change."""
    TEXTS = auto()
    """The files that are named read otherwise."""
    UNNAMED = auto()
    """Files are written that are not named."""
    STAGED = auto()
    """What is staged in a repository."""
    HISTORY = auto()
    """The branches, commits, tags, remotes or settings of a repository."""
    FILES = NAMES | TEXTS
    ANY_FILE = FILES | UNNAMED
    ANYTHING = ANY_FILE | STAGED | HISTORY


_TOOLS: Mapping[str, Effect] = {
    **dict.fromkeys(
        ("Glob", "Grep", "LS", "ListMcpResourcesTool", "Read", "ReadMcpResourceTool", "Skill", "TaskCreate", "TaskGet",
         "TaskList", "TaskUpdate", "TodoRead", "TodoWrite", "ToolSearch", "WebFetch", "WebSearch", "update_plan",
         "view_image"),
        Effect.NOTHING,
    ),
    **dict.fromkeys(("Edit", "MultiEdit", "NotebookEdit", "Write"), Effect.FILES),
    "apply_patch": Effect.ANY_FILE,  # they are named within
}  # fmt: skip
"""Agents' tools; any other may change anything."""
_PROGRAMS: Mapping[str, Effect] = {
    **dict.fromkeys(
        (":", "=", "[", "basename", "cat", "cd", "cmp", "column", "comm", "cut", "date", "df", "diff", "dirname", "du",
         "echo", "egrep", "export", "false", "fgrep", "file", "fold", "grep", "head", "hostname", "id", "jq", "ls",
         "md5sum", "nl", "od", "popd", "printenv", "printf", "ps", "pushd", "pwd", "readlink", "realpath", "rg", "seq",
         "sha256sum", "sleep", "stat", "tail", "test", "tr", "true", "type", "uname", "unset", "wc", "which",
         "whoami"),
        Effect.NOTHING,
    ),
    **dict.fromkeys(
        (f"git {name}" for name in (
            "blame", "cat-file", "check-ignore", "describe", "diff", "for-each-ref", "grep", "log", "ls-files",
            "ls-remote", "ls-tree", "merge-base", "name-rev", "reflog", "rev-list", "rev-parse", "shortlog", "show",
            "show-ref", "status")),
        Effect.NOTHING,
    ),
    **dict.fromkeys(("chmod", "mkdir", "touch"), Effect.NAMES),
    **dict.fromkeys(("cp", "ln", "mv", "rm", "rmdir", "tee", "truncate"), Effect.FILES),
    **dict.fromkeys(
        ("cargo fmt", "eslint", "gofmt", "goimports", "golangci-lint", "mypy", "prettier", "ruff", "tsc"),
        Effect.ANY_FILE,
    ),
    # What they build or test may run git.
    **dict.fromkeys(
        ("cargo build", "cargo check", "cargo clippy", "cargo test", "go build", "go test", "go vet", "jest", "pytest",
         "vitest"),
        Effect.ANY_FILE | Effect.HISTORY,
    ),
    "git add": Effect.STAGED,
    **dict.fromkeys(
        ("git branch", "git config", "git fetch", "git remote", "git symbolic-ref", "git tag"), Effect.HISTORY
    ),
    **dict.fromkeys(("git mv", "git rm"), Effect.ANY_FILE | Effect.STAGED),
    "git push": Effect.ANY_FILE,  # its hooks
}  # fmt: skip
"""Programs by name; any other may change anything. `_looked` knows some forms that change less."""
_ASKS_BRANCH = ("--show-current", "-a", "-r", "--list", "-v", "-vv", "--merged", "--contains")
_ASKS_CONFIG = ("--get", "--get-all", "--get-regexp", "-l", "--list")
_GH = frozenset({"api", "auth", "issue", "label", "pr", "release", "repo", "run", "search", "workflow"})
_GH_LOCAL = frozenset({"checkout", "clone", "create", "develop", "download", "fork", "merge", "sync"})
_FIND_ACTS = ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls")
_SED_OPTIONS = frozenset({"-n", "-E", "-r", "-s", "-u", "-z", "--quiet", "--silent", "--regexp-extended"})
_SED_WRITES = re.compile(r"[wWe]")
_SED_PRINTS = re.compile(r"(?:(?:\d+|\$|/[^/]*/)(?:,(?:\d+|\$|/[^/]*/))?[pd];?)+")
_AWK_WRITES = re.compile(r">|\||system|close")
WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
"""Redirections that may write to a file."""

_LONGEST_GLANCE = 20_000
_LONGEST_SPLIT = 5_000
_DROPPED = re.compile(r"[0-9&]?>>?[ ]?(?:/dev/null|&[12])")
_SEPARATORS = re.compile(r"&&|\|\||[;|\n&]")
_SED_RANGE = re.compile(r"\d{1,7}(?:,(?:\d{1,7}|\$))?p")
_ACTS = re.compile(r"-(?:delete|exec|execdir|ok|okdir|fprint|fls)|\bsort\b[^\n;&|]* -\w*o|\buniq\b +[^\n|&;-]")
_LISTERS = re.compile(r"((?:^|[|;&\n])\s*)(?:find|sort|tree|uniq)\b")
_SOUGHT = re.compile(r"(\b(?:rg|e?grep)\b[^'\"\n|;&]*)(?:'[^']*'|\"[^\"$`\\]*\")")
"""A pattern that is searched for, in quotes: what it holds is no command."""
_RUNS = re.compile(r"\b(?:git|gh|make|sh|bash|zsh|rtk)\b")
_MOVES = re.compile(
    r"\b(?:am|bisect|branch|checkout|cherry-pick|commit|merge|pull|rebase|reset|revert|stash|switch|worktree|update-ref)\b"
)


def effect(call: Call) -> Effect:
    """What one run of a program may change, but for the files that its output is redirected to."""
    known = _looked(call)
    if known is not None:
        return known
    return _PROGRAMS.get(call.name, _PROGRAMS.get(call.name.partition(" ")[0], Effect.ANYTHING))


def written(command: Command | None) -> Effect:
    """What the redirections of a command may change."""
    for redirect in command.redirects if command is not None else ():
        text = redirect.target.text if redirect.target is not None else None
        if redirect.op in WRITING and (text is None or not text.startswith("/dev/")):
            return Effect.FILES if text is not None else Effect.ANY_FILE
    return Effect.NOTHING


def effects(part: Part) -> list[Effect]:
    """What each stage of a pipeline may change, with its redirections and substitutions."""
    return [
        Effect.ANYTHING
        if stage is None or _substitutes(stage.command)
        else effect(stage) | written(stage.command)
        for stage in part.stages
    ]  # fmt: skip


def beside(siblings: Sequence[Action] | None) -> Effect:
    """What the other actions of a batch may change; None while they are not all known."""
    return _union(map(at_a_glance, siblings)) if siblings is not None else Effect.ANYTHING


def at_a_glance(action: Action) -> Effect:
    """What an action may change, as far as its tool or the words of its command line tell."""
    command = action.command
    if command is None:
        return _TOOLS.get(action.tool, Effect.ANYTHING)
    if len(command) >= _LONGEST_GLANCE:
        return Effect.ANYTHING
    found = _split(command) if len(command) <= _LONGEST_SPLIT else None
    if found is not None:
        return found
    moves = _RUNS.search(command) and _MOVES.search(command)
    return Effect.ANYTHING if moves else Effect.ANYTHING & ~Effect.HISTORY


def _split(command: str) -> Effect | None:
    """What the programs of a command line may change that write nothing; None if it may hold others."""
    if any(word in command for word in ("--output", "--ext-diff")):
        return None
    if not _ACTS.search(command):
        command = _LISTERS.sub(r"\1ls", _SOUGHT.sub(r"\1x", command))
    command = _DROPPED.sub(" ", command)
    if any(mark in command for mark in (">", "$(", "`", "<(", "<<")):
        return None
    result = Effect.NOTHING
    for part in _SEPARATORS.split(command):
        words = part.split()
        if not words:
            continue
        if words[0] == "sed":
            reads = len(words) > 2 and words[1] == "-n" and _SED_RANGE.fullmatch(words[2].strip("'\"")) is not None
            known = Effect.NOTHING if reads else Effect.ANYTHING
        else:
            known = _PROGRAMS.get(" ".join(words[: 1 + (words[0] == "git")]), Effect.ANYTHING)
        if known & Effect.ANY_FILE and known != Effect.NAMES:
            return None
        result |= known
    return result


def _union(found: Iterable[Effect]) -> Effect:
    result = Effect.NOTHING
    for one in found:
        result |= one
    return result


def _substitutes(command: Command | None) -> bool:
    """Does a word of it run another command?"""
    if command is None:
        return False
    words = [command.name, *command.args, *command.assigned.values(), *(r.target for r in command.redirects)]
    return any(word is not None and word.substitutes for word in words) or any(
        redirect.op in {"<<", "<<-"} and redirect.body is None for redirect in command.redirects
    )


def _looked(call: Call) -> Effect | None:
    """What a program may change of which that hangs on its words; None for any other."""
    program, _, subcommand = call.name.partition(" ")
    if program == "git":
        return _git(call, subcommand)
    if program not in _READS:
        return None
    if program == "sed" and call.given("-i", "--in-place"):
        return Effect.FILES
    return Effect.NOTHING if _READS[program](call) else Effect.ANYTHING


def _lists(call: Call) -> bool:
    return not call.given("-o", "--output")


def _one_file(call: Call) -> bool:
    return len(call.operands) < 2


def _finds(call: Call) -> bool:
    return not call.given(*_FIND_ACTS) and not {*_FIND_ACTS} & {*call.operands}


def _asks_remotely(call: Call) -> bool:
    words = [*call.name.split()[1:], *call.operands]
    known = bool(words) and words[0] in _GH and None not in words and _GH_LOCAL.isdisjoint(words)
    return known and not call.given("-d", "--delete-branch")


def _edits_stream(call: Call) -> bool:
    script = call.operands[0] if call.operands and set(call.options) <= _SED_OPTIONS else None
    return script is not None and not (_SED_WRITES.search(script) and not _SED_PRINTS.fullmatch(script))


def _scans(call: Call) -> bool:
    # Any word may be the script: `-F` and `-v` take the one after them.
    words = (*call.operands, *itertools.chain.from_iterable(call.options.values()))
    plain = bool(words) and not call.given("-f", "-i", "--file", "--include")
    return plain and not any(word is None or _AWK_WRITES.search(word) for word in words)


_READS: Mapping[str, Callable[[Call], bool]] = {
    **dict.fromkeys(("awk", "gawk", "mawk"), _scans),
    **dict.fromkeys(("base64", "sort", "tree"), _lists),
    **dict.fromkeys(("uniq", "xxd"), _one_file),
    "find": _finds,
    "gh": _asks_remotely,
    "sed": _edits_stream,
}
"""Programs that change nothing if their words say so."""


def _git(call: Call, subcommand: str) -> Effect | None:
    """What git may change where its words tell; None for what its subcommand alone tells."""
    asks = False
    if call.given("--output", "--ext-diff"):
        return Effect.ANYTHING
    if subcommand == "branch":
        asks = (call.given(*_ASKS_BRANCH) and not call.operands) or not (call.options or call.operands)
    elif subcommand == "config":
        asks = call.given(*_ASKS_CONFIG) or (len(call.operands) == 1 and not call.options)
    elif subcommand == "remote":
        asks = call.operands[:1] in {(), ("get-url",), ("show",)}
    elif subcommand == "tag":
        asks = call.given("-l", "--list", "--contains", "--points-at") or not (call.options or call.operands)
    elif subcommand == "symbolic-ref":
        asks = len(call.operands) == 1 and set(call.options) <= {"--short", "-q", "--quiet"}
    elif subcommand in {"stash", "worktree"}:
        asks = call.operands[:1] == ("list",)
    elif subcommand == "reflog" and call.operands[:1] in {("expire",), ("delete",), ("drop",)}:
        return Effect.HISTORY
    return Effect.NOTHING if asks else None
