"""Facts about what git and gh print: the forms of their lines, and what a session knows of its repository.

An option that is not listed here puts a rule out of force: it may change the form. Forms that configuration may change
(external diff programs, default formats, languages) have two rules each: one that only tells, and one that decides once
the session has shown the form.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from verifierd.contracts.calls import Call
from verifierd.contracts.facts.base import Fact, Finding
from verifierd.contracts.state.changes import Status, looks_elsewhere
from verifierd.contracts.state.effects import Effect
from verifierd.contracts.state.repository import Tree
from verifierd.contracts.state.session import Session

__all__ = ("FACTS",)

_HASH = "[0-9a-f]{4,64}"
_COLOR = r"\x1b\["
_SIGNED = r"^(?:gpg: |Good \"git\" signature|Could not verify|No signature|No principal|Primary key |\s+Subkey )"
_PATCH = (
    r"^(?:[ +\-@\\]|index [0-9a-f]|(?:new|old) mode |new file mode |deleted file mode |mode |similarity index "
    r"|dissimilarity index |(?:rename|copy) (?:from|to) |Binary files |\* Unmerged path |Submodule |warning: )"
)
_FILE = r"^diff --(?:git|cc|combined) "
_STAT = (
    r"^ ?\S.* \| +(?:\d+\b|Bin\b|Unmerged\b)|^ ?\d+ files? changed\b"
    r"|^ ?(?:create|delete|rename|copy|rewrite) |^ ?mode change |^ ?\.\.\.$|^ ?\S.* => .* \|"
)
_SUMMARY = r"^ ?\d+ files? changed\b"
_NUMSTAT = r"^(?:\d+|-)\t(?:\d+|-)\t"
_NAME_STATUS = r"^[ACDMRTUXB]\d{0,3}\t"
_PATHS = r"^(?:\".*\"|[^\s:\"|<>*?;`]+(?: [^\s:\"|<>*?;`]+)*)$"
_SHORT_STATUS = r"^(?: ?[MTADRCU?!m]{1,2} \S|[MTADRCU?!m]  \S|## \S)"
_STATUS = (
    r"^(?:  |\t|On branch |HEAD detached |Not currently on any branch|Your branch |and have \d|nothing to commit"
    r"|nothing added to commit|no changes added to commit|Changes to be committed:|Changes not staged for commit:"
    r"|Untracked files|Unmerged paths:|Ignored files:|You have |You are |All conflicts fixed|No commits yet"
    r"|Initial commit|Last commands? done|Next commands? to do|No commands |Submodule|It took |Your stash |See "
    r"|interactive rebase in progress|rebase in progress|but the results |No changes|Changes to be committed"
    r"|Untracked cache|You should |# |warning: )"
)
_MEDIUM = (
    r"^(?:commit [0-9a-f]|Merge: |Author: |AuthorDate: |Date: |Commit: |CommitDate: |Reflog|    |Notes|Tagger: |tag )"
)

_PATCH_OPTIONS = frozenset(
    {"-p", "-u", "--patch", "-U", "--unified", "-w", "-b", "--ignore-all-space", "--ignore-space-change",
     "--ignore-space-at-eol", "--ignore-blank-lines", "--ignore-cr-at-eol", "-W", "--function-context", "--minimal",
     "--patience", "--histogram", "--diff-algorithm", "-a", "--text", "--full-index", "--no-ext-diff", "--no-textconv",
     "--inter-hunk-context", "--indent-heuristic", "--no-prefix", "--src-prefix", "--dst-prefix"}
)  # fmt: skip
_DIFF_OPTIONS = _PATCH_OPTIONS | frozenset(
    {"--cached", "--staged", "-M", "-C", "--find-renames", "--find-copies", "--no-renames", "--no-color", "--color",
     "--diff-filter", "-R", "--merge-base", "--abbrev", "--relative", "--no-relative", "--ignore-submodules", "-S",
     "-G", "--pickaxe-regex", "--exit-code", "--ours", "--theirs", "--base", "-1", "-2", "-3", "--no-pager"}
)  # fmt: skip
_LOG_OPTIONS = frozenset(
    {"-n", "--max-count", "--skip", "--since", "--after", "--until", "--before", "--author", "--committer", "--grep",
     "-i", "--invert-grep", "--all-match", "--regexp-ignore-case", "-E", "-F", "-P", "--all", "--branches", "--tags",
     "--remotes", "--no-merges", "--merges", "--first-parent", "--reverse", "--follow", "--date", "--decorate",
     "--no-decorate", "--no-color", "--topo-order", "--date-order", "--author-date-order", "--ancestry-path",
     "--abbrev-commit", "--no-abbrev-commit", "--abbrev", "--full-history", "--simplify-merges", "--dense", "--sparse",
     "--cherry-pick", "--right-only", "--left-only", "--no-patch", "-s", "-S", "-G", "--pickaxe-regex", "--diff-filter",
     "--no-show-signature", "--no-notes", "-g", "--walk-reflogs", "--exclude", "-M", "-C", "--find-renames",
     "--no-pager", "--no-ext-diff", "-m", "--glob"}
)  # fmt: skip
_HEADERS = frozenset({"--oneline", "--format", "--pretty"})
_DIFF_MODES: Mapping[str, str] = {
    "--stat": _STAT,
    "--shortstat": _SUMMARY,
    "--numstat": _NUMSTAT,
    "--name-only": _PATHS,
    "--name-status": _NAME_STATUS,
}
_STATUS_OPTIONS = frozenset(
    {"-u", "--untracked-files", "--no-renames", "--renames", "--find-renames", "--ignored", "--show-stash",
     "--ahead-behind", "--no-ahead-behind", "--ignore-submodules", "--no-column", "-a", "-l", "-n", "-o"}
)  # fmt: skip
_SHORT_OPTIONS = frozenset({"-s", "--short", "--porcelain", "-b", "--branch"})
_SAFE_SETTINGS = ("core.quotepath=", "core.pager=", "color.ui=false", "color.ui=never", "user.", "advice.", "safe.")
_COMMIT_STOPS = (
    "-q", "--quiet", "--dry-run", "--porcelain", "--short", "--long", "-z", "-v", "--verbose", "-e", "--edit",
    "--fixup", "--squash", "-C", "-c", "--reuse-message", "--reedit-message", "-i", "-p", "--patch", "--interactive",
)  # fmt: skip
_REVISION = re.compile(r"(?:HEAD|@)(?:[~^][0-9~^]*)?")
_COMMIT_NAME = re.compile(r"[0-9a-f]{7,64}(?:[~^][0-9~^]*)?")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_@+,=~% /.\[\]()-]+")
_PLACEHOLDER = re.compile(r"%(?:C\([a-z ,0-9]*\)|C(?:red|green|blue|reset)|x[0-9a-fA-F]{2}|[ac][a-zA-Z]|G\?|[A-Za-z%])")
_PLACEHOLDERS: Mapping[str, str] = {
    **dict.fromkeys(("%H", "%T"), r"[0-9a-f]{40,64}"),
    **dict.fromkeys(("%h", "%t"), _HASH),
    **dict.fromkeys(("%P", "%p"), r"[0-9a-f ]*"),
    **dict.fromkeys(("%ai", "%ci"), r"\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}"),
    **dict.fromkeys(("%as", "%cs"), r"\d{4,}-\d\d-\d\d"),
    **dict.fromkeys(("%aI", "%cI"), r"\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)"),
    **dict.fromkeys(("%at", "%ct"), r"-?\d+"),
    **dict.fromkeys(
        ("%s", "%f", "%d", "%D", "%an", "%aN", "%ae", "%aE", "%al", "%ad", "%aD", "%ar", "%ah", "%cn", "%cN", "%ce",
         "%cE", "%cl", "%cd", "%cD", "%cr", "%ch"), ".*"),
    "%G?": "[A-Z]",
    "%%": "%",
}  # fmt: skip


def _either(*patterns: str) -> str:
    """Any of these, or a line with colours, which nobody asked for but `color.ui=always` adds."""
    return "|".join((*patterns, _COLOR))


def _bare(call: Call) -> bool:
    """Is nothing set for this one run that may change its form, and is every word spelt out as far as it matters?"""
    words = [word.text for word in call.command.args] if call.command is not None else []
    subcommand = call.name.partition(" ")[2]
    for index, word in enumerate(words):
        if word == subcommand:
            return True
        if word is None or word.startswith("--config-env"):
            return False
        setting = words[index + 1] if index + 1 < len(words) else None
        if word == "-c" and not (setting or "").lower().startswith(_SAFE_SETTINGS):
            return False
    return False


def _within(call: Call, *allowed: Iterable[str], numbers: bool = False) -> bool:
    known = frozenset[str]().union(*allowed)
    return _bare(call) and all(name in known or (numbers and name[1:].isdigit()) for name in call.options)


def _only(allowed: Iterable[str] = (), needs: Iterable[str] = (), *, most: int | None = None, first: str = "") -> Fact:
    """A fact that finds nothing of its own: the call has no other options and as many operands."""
    allowed, needs = frozenset(allowed), frozenset(needs)

    def found(call: Call, _session: Session) -> Iterable[Finding]:
        operands = call.operands
        if first:
            if operands[:1] != (first,):
                return
            operands = operands[1:]
        if _within(call, allowed, needs) and (not needs or call.given(*needs)):
            if most is not None and len(operands) > most:
                return
            yield Finding()

    return found


def _seen(evidence: str, fact: Fact) -> tuple[Fact, Fact]:
    """A fact once the session has shown something, and the same as long as it has not."""

    def after(call: Call, session: Session) -> Iterable[Finding]:
        return fact(call, session) if evidence in session.repository.shown else ()

    def before(call: Call, session: Session) -> Iterable[Finding]:
        return fact(call, session) if evidence not in session.repository.shown else ()

    return after, before


def _paths(call: Call) -> list[str] | None:
    """The paths after `--`, without what a pattern of them could mean; None if there are none or one is unclear."""
    words = [word.text for word in call.command.args] if call.command is not None else []
    if "--" not in words:
        return None
    found: list[str] = []
    for word in words[words.index("--") + 1 :]:
        path = (word or "").replace("\\", "/")
        while path.startswith("./"):
            path = path[2:]
        path = path.rstrip("/")
        if not path or path == "." or ".." in path.split("/") or path.startswith(("/", "~")) or path[1:2] == ":":
            return None
        if not _PLAIN_PATH.fullmatch(path) or "[" in path:
            return None
        found.append(path)
    return found if found and not call.globs else None


def _patch_pattern(call: Call) -> str:
    paths = _paths(call)
    if not paths or call.given("--relative"):
        return _either(_PATCH, _FILE)
    named = "|".join(re.escape(path) for path in paths)
    return _either(_PATCH, rf"{_FILE}.*(?:^|[/ ])(?:{named})(?:/| |$)")


def _mode(call: Call) -> str | None:
    """The form that a diff is asked for: an option's name, `-p`, or None for any other or several."""
    modes = [name for name in (*_DIFF_MODES, "--summary") if name in call.options]
    patch = call.given("-p", "-u", "--patch", "-U", "--unified")
    if not modes:
        return "-p"
    if modes == ["--stat", "--summary"]:
        return "--stat"
    return modes[0] if len(modes) == 1 and not patch and modes[0] in _DIFF_MODES else None


def diff_patch(call: Call, _session: Session) -> Iterable[Finding]:
    """The lines of a unified diff, of the paths that were asked for."""
    if _within(call, _DIFF_OPTIONS) and _mode(call) == "-p":
        yield Finding(text=_patch_pattern(call))


def _diff(mode: str) -> Fact:
    def found(call: Call, _session: Session) -> Iterable[Finding]:
        if _within(call, _DIFF_OPTIONS, _DIFF_MODES, {"--summary"}) and _mode(call) == mode:
            yield Finding(text=_either(_DIFF_MODES[mode]))

    return found


def _header(call: Call) -> str | None:
    """The form of a log's entries: `--oneline`, `medium`, or a format."""
    given = [name for name in call.options if name in _HEADERS]
    if not given:
        return "medium"
    if len(given) > 1:
        return None
    if given == ["--oneline"]:
        return "--oneline"
    value = call.value(given[0])
    if value == "oneline":
        return "--oneline"
    return value if value is None or "%" in value else None


def _one_line(call: Call) -> bool:
    return _within(call, _LOG_OPTIONS, _HEADERS, numbers=True) and _header(call) == "--oneline"


def log_oneline(call: Call, _session: Session) -> Iterable[Finding]:
    """One line for each commit, which begins with its name."""
    if _one_line(call):
        yield Finding(text=_either(rf"^{_HASH}(?:\s|$)", _SIGNED))


def log_format(call: Call, _session: Session) -> Iterable[Finding]:
    """The lines of a format that is spelt out."""
    header = _header(call)
    if header and _within(call, _LOG_OPTIONS, _HEADERS, numbers=True) and "%" in header:
        lines = _translated(header)
        if lines:
            yield Finding(text=_either(*lines, _SIGNED))


def _translated(form: str) -> list[str]:
    """A pattern for each line of a format; empty if it has one that cannot be told or that anything matches."""
    form = form.partition(":")[2] if form.startswith(("format:", "tformat:")) else form
    result: list[str] = []
    for line in form.replace("%n", "\n").split("\n"):
        pattern, at = "", 0
        for match in _PLACEHOLDER.finditer(line):
            literal = line[at : match.start()]
            known = _placeholder(match[0])
            if "%" in literal or known is None:
                return []
            pattern += re.escape(literal) + known
            at = match.end()
        rest = line[at:]
        if "%" in rest or "{" in line:
            return []
        pattern += re.escape(rest)
        if not pattern.strip():
            continue
        if not re.sub(r"\.\*|\\ ", "", pattern):
            return []
        result.append(rf"^{pattern}\s*$".replace("\\ ", " "))
    return result


def _placeholder(text: str) -> str | None:
    if text.startswith("%C"):
        return r"(?:\x1b\[[0-9;]*m)*"
    if text.startswith("%x"):
        code = ord(bytes.fromhex(text[2:]))
        return rf"\x{{{code:x}}}" if code >= ord("\t") and code != ord("\n") and code < 128 else None
    return _PLACEHOLDERS.get(text)


def log_limit(call: Call, _session: Session) -> Iterable[Finding]:
    """How many lines a log of one line for each commit may have."""
    if not _one_line(call) or call.given("--show-signature"):
        return
    limit = _limit(call)
    if limit is not None:
        yield Finding(high=limit, values={"count": str(limit)})


def _limit(call: Call) -> int | None:
    numbers = call.numbers
    value = call.value("-n", "--max-count")
    if value is not None:
        numbers.append(value)
    elif call.given("-n", "--max-count"):
        return None
    return max(map(int, numbers)) if numbers and all(n.isdigit() and len(n) < 7 for n in numbers) else None


def log_medium(call: Call, _session: Session) -> Iterable[Finding]:
    """The lines of a log's entries, with what follows each."""
    allowed = (_LOG_OPTIONS, _PATCH_OPTIONS, _DIFF_MODES, {"--summary"})
    if call.name == "git show" and not _commits(call):
        return
    if not _within(call, *allowed, numbers=True) or _header(call) != "medium" or call.given("-g", "--walk-reflogs"):
        return
    mode = _mode(call)
    if mode is None:
        return
    if mode != "-p":
        yield Finding(text=_either(_MEDIUM, _SIGNED, _DIFF_MODES[mode]))
    elif call.given("-s", "--no-patch") or (
        call.name == "git log" and not call.given("-p", "-u", "--patch", "-U", "--unified")
    ):
        yield Finding(text=_either(_MEDIUM, _SIGNED))
    else:
        yield Finding(text=_either(_MEDIUM, _SIGNED, _PATCH, _FILE))


def _commits(call: Call) -> bool:
    """Does `git show` surely show commits? A tag or a blob has another form; neither has a list of changed files."""
    words = [word.text for word in call.command.args] if call.command is not None else []
    paths = len(words) - words.index("--") - 1 if "--" in words else 0
    revisions = call.operands[: len(call.operands) - paths]
    named = bool(paths) or _mode(call) not in {None, "-p"} or call.given("-s", "--no-patch")
    return all(
        word is not None and (_REVISION.fullmatch(word) or (named and _COMMIT_NAME.fullmatch(word)))
        for word in revisions
    )


def stat_total(call: Call, _session: Session) -> Iterable[Finding]:
    """Changed files with their sum, all of them, in the usual width."""
    if _within(call, _LOG_OPTIONS, _DIFF_OPTIONS, _HEADERS, {"--stat", "--summary"}, numbers=True) and (
        _mode(call) == "--stat" and call.value("--stat") is None
    ):
        yield Finding()


def show_stat(call: Call, _session: Session) -> Iterable[Finding]:
    """The changed files that `git show` lists for commits whose entry has a form of its own."""
    if not _within(call, _LOG_OPTIONS, _HEADERS, _DIFF_MODES, numbers=True) or _mode(call) in {None, "-p"}:
        return
    header = _header(call)
    mode = _DIFF_MODES[_mode(call) or ""]
    if header == "--oneline":
        yield Finding(text=_either(rf"^{_HASH}(?:\s|$)", _SIGNED, mode))
    elif header is not None and header != "medium" and (lines := _translated(header)):
        yield Finding(text=_either(*lines, _SIGNED, mode))


def status_short(call: Call, _session: Session) -> Iterable[Finding]:
    """A short status: two letters and a path."""
    if not _within(call, _STATUS_OPTIONS, _SHORT_OPTIONS) or not call.given("-s", "--short", "--porcelain"):
        return
    if call.value("--porcelain") in {None, "v1", "1"}:
        yield Finding(text=_either(_SHORT_STATUS))


def status_long(call: Call, _session: Session) -> Iterable[Finding]:
    """A long status; the short one is among its lines, since `status.short` may be set."""
    if _within(call, _STATUS_OPTIONS, {"--long"}):
        yield Finding(text=_either(_STATUS, _SHORT_STATUS))


# --- commits


def message(call: Call) -> str | None:
    """The text of the first `-m`, or of the here-document that `-F -` reads; None if there is none or it is unclear."""
    words = call.command.args if call.command is not None else []
    for index, word in enumerate(words):
        text = word.text
        if text is None:
            if word.head.startswith(("-m", "--message=")):
                return None
            continue
        if text.startswith("--message="):
            return text.partition("=")[2]
        if text == "--message" or re.fullmatch(r"-[asneqv]*m", text):
            following = words[index + 1] if index + 1 < len(words) else None
            return (following.text if following.text is not None else following.body) if following else None
        if re.fullmatch(r"-[asne]*m.+", text, re.DOTALL):
            return text[text.index("m") + 1 :]
    return call.document if call.value("-F", "--file") == "-" else None


def subject(text: str) -> str:
    """The first paragraph of a message on one line, as git shows it."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line.strip():
            lines.append(line.strip())
        elif lines:
            break
    return " ".join(lines)


def commit_subject(call: Call, session: Session) -> Iterable[Finding]:
    """The line `[branch name] subject`; hooks may change the message, mostly by a prefix."""
    if not _bare(call) or call.given(*_COMMIT_STOPS):
        return
    text = message(call)
    said = subject(text) if text is not None else ""
    if text is None and call.given("--amend") and call.given("--no-edit"):
        tree = _tree(call, session)
        said = tree.log[0].partition(" ")[2] if tree is not None and tree.log else ""
    if said.startswith("#"):
        said = ""  # `commit.cleanup` may take it for a comment
    if len(said) < 1000:
        yield Finding(values={"subject": said})


# --- what the session knows


def _tree(call: Call, session: Session) -> Tree | None:
    return session.repository.tree(call.cwd) if session.keeps(Effect.HISTORY) else None


def _branch(fact: Fact) -> Fact:
    """A fact about a call whose repository's branch is known."""

    def found(call: Call, session: Session) -> Iterable[Finding]:
        tree = _tree(call, session)
        if tree is not None and tree.branch is not None:
            for _ in fact(call, session):
                yield Finding(values={"branch": tree.branch})

    return found


def _commits_here(call: Call, _session: Session) -> Iterable[Finding]:
    if _bare(call) and not call.given(*_COMMIT_STOPS):
        yield Finding()


def _shows_branch(call: Call, _session: Session) -> Iterable[Finding]:
    if _within(call, _STATUS_OPTIONS, {"--long"}):
        yield Finding()


def known_log(call: Call, session: Session) -> Iterable[Finding]:
    """The commits that a log begins with."""
    tree = _tree(call, session)
    allowed = {"--oneline", "-n", "--max-count", "--no-decorate", "--no-color"}
    if tree is None or not tree.log or call.operands not in {(), ("HEAD",)}:
        return
    if not _within(call, allowed, numbers=True) or not call.given("--oneline"):
        return
    limit = _limit(call)
    if (limit is None and call.given("-n", "--max-count")) or limit == 0:
        return
    lines = tree.log[:limit]
    if "undecorated" in session.repository.shown:
        yield Finding(known=dict(enumerate(lines, 1)), text="")


def log_begins(call: Call, session: Session) -> Iterable[Finding]:
    """The commit that a log begins with, whatever decorates it."""
    tree = _tree(call, session)
    if tree is None or not tree.log or call.operands not in {(), ("HEAD",)} or not call.given("--oneline"):
        return
    if not _within(call, {"--oneline", "-n", "--max-count", "--decorate", "--no-decorate"}, numbers=True):
        return
    if _limit(call) != 0:
        name, _, said = tree.log[0].partition(" ")
        yield Finding(values={"name": name, "subject": said})


def known_head(call: Call, session: Session) -> Iterable[Finding]:
    """The name of HEAD."""
    tree = _tree(call, session)
    if tree is not None and tree.log and _within(call, {"--short", "--verify"}) and call.operands == ("HEAD",):
        yield Finding(values={"name": tree.log[0].partition(" ")[0][:7]})


# --- what is not committed

_DIFF_PLAIN = frozenset({
    "-p", "-u", "--patch", "-U", "--unified", "-M", "--find-renames", "--no-renames", "--no-color", "--no-ext-diff",
    "--no-textconv", "--minimal", "--patience", "--histogram", "--exit-code", "--summary",
})  # fmt: skip
"""Options with which a diff leaves out no file."""
_MOST_CHANGES = 8
_MOST_NAMED = 500
_LONGEST_SHOWN = 40
"""Longer names may be shortened in a `--stat`."""
_CHANGED_PATH = re.compile(r"[\w.+@/-]{1,200}")
_HEADINGS: Mapping[str, str] = {
    "-p": r"^diff --(?:git|cc|combined) .*[ /]{}$",
    "--stat": r"(?:^ ?|/){} +\|",
    "--name-only": r"(?:^|/){}$",
    "--name-status": r"(?:\t|/){}$",
    "--numstat": r"(?:\t|/){}$",
}
"""How each form of a diff names a file."""


def _status(call: Call, session: Session) -> Status | None:
    """What is known of the changes where a call runs, if nobody else can have written."""
    changes = session.repository.changes
    if call.cwd is None or looks_elsewhere(call) or not session.profile.alone or not session.keeps(Effect.ANYTHING):
        return None
    return changes.status(call.cwd)


def _shown_name(name: str) -> str | None:
    """What surely stands at the end of a changed path, wherever git counts it from; None if it may be quoted."""
    while name.startswith("../"):
        name = name[3:]
    return name if _CHANGED_PATH.fullmatch(name) else None


def _asks_status(call: Call) -> bool:
    return _within(call, _STATUS_OPTIONS - {"-a", "-l", "-n", "-o"}, _SHORT_OPTIONS) and not call.operands


def status_lists(call: Call, session: Session) -> Iterable[Finding]:
    """The tracked files that are changed, each of which a status must name."""
    status = _status(call, session) if _asks_status(call) else None
    for name in list(status.must)[-_MOST_CHANGES:] if status is not None else ():
        if (shown := _shown_name(name)) is not None:
            yield Finding(values={"path": shown})


def status_edited(call: Call, session: Session) -> Iterable[Finding]:
    """The files that the session changed, though it has not shown that git knows them: they may be ignored."""
    if not _asks_status(call) or (status := _status(call, session)) is None or call.cwd is None:
        return
    for name in session.repository.changes.edited(call.cwd)[-_MOST_CHANGES:]:
        if name not in status.must and _shown_name(name) is not None:
            yield Finding(values={"path": name})


def status_only(call: Call, session: Session) -> Iterable[Finding]:
    """The lines of a short status where all files are known that can be changed; new files may always appear."""
    status = _status(call, session) if _asks_status(call) and call.given("-s", "--short", "--porcelain") else None
    if status is None or status.may is None or call.value("--porcelain") not in {None, "v1", "1"}:
        return
    if (named := _named(status)) is not None:
        yield Finding(text=_either(rf"^(?:[?!A]. |## )|^.. (?:.* -> )?(?:.*/)?(?:{named})(?: -> .*)?$"))


def _named(status: Status) -> str | None:
    """The pattern of how all paths end that may be listed; None if that cannot be told."""
    names = [_shown_name(name) for name in (*(status.may or ()), *status.about)]
    if status.may is None or len(names) > _MOST_NAMED or None in names:
        return None
    return "(?i:" + ("|".join(re.escape(name) for name in names if name is not None) or r"\x{0}") + ")"


def _diffed(call: Call, session: Session) -> tuple[Status, str] | None:
    """What is known of the changes that a diff is asked about, and its form."""
    mode = _mode(call)
    if mode is None or mode not in _HEADINGS or call.value("--stat") or not _within(call, _DIFF_PLAIN, _DIFF_MODES):
        return None
    paths = _paths(call)
    revisions = call.operands[: len(call.operands) - len(paths or ())]
    status = _status(call, session) if revisions in {(), ("HEAD",)} and not call.globs else None
    if status is None or call.cwd is None or (mode == "-p" and "patch" not in session.repository.shown):
        return None
    must = {name: unstaged for name, unstaged in status.must.items() if unstaged or revisions}
    if paths is not None:
        must = {name: True for name in must if any(name == path or name.startswith(f"{path}/") for path in paths)}
    return Status(must, status.may, status.about), mode


def diff_lists(call: Call, session: Session) -> Iterable[Finding]:
    """The changed files that a diff must name."""
    found = _diffed(call, session)
    for name in list(found[0].must)[-_MOST_CHANGES:] if found is not None else ():
        shown = _shown_name(name)
        if shown is None or found is None:
            continue
        if found[1] == "--stat":
            shown = shown.rpartition("/")[2]
        if len(shown) <= _LONGEST_SHOWN or found[1] != "--stat":
            yield Finding(text=_HEADINGS[found[1]].format(re.escape(shown)), values={"path": shown})


def diff_only(call: Call, session: Session) -> Iterable[Finding]:
    """The lines of a diff where all files are known that can be changed."""
    found = _diffed(call, session)
    if found is None or found[0].may is None or found[1] not in {"-p", "--name-only"}:
        return
    if call.operands[:1] == ("HEAD",):
        return  # what was added since is not known
    if (named := _named(found[0])) is not None:
        heading = _HEADINGS[found[1]].format(named)
        yield Finding(text=_either(heading, _PATCH) if found[1] == "-p" else _either(heading))


def diff_clean(call: Call, session: Session) -> Iterable[Finding]:
    """A diff of a work tree in which nothing is changed."""
    found = _diffed(call, session)
    if found is not None and found[0].may == set() and not found[0].about and call.operands[:1] != ("HEAD",):
        yield Finding()


def same_answer(call: Call, session: Session) -> Iterable[Finding]:
    """What the same query printed, with nothing written since."""
    changes = session.repository.changes
    text = changes.answer(call) if session.profile.alone and session.keeps(Effect.ANYTHING) else None
    if text is not None and text.strip():
        yield Finding(text=text)


# --- where HEAD goes


def goes_to(call: Call, _session: Session) -> Iterable[Finding]:
    """The branch that `git checkout -b` or `git switch` names in its message, in any language."""
    if not _bare(call) or call.given("-q", "--quiet", "--detach", "-d") or _hides_errors(call):
        return
    made = call.value("-b", "-B") if call.name == "git checkout" else call.value("-c", "-C", "--create")
    if made is None and call.name == "git switch" and len(call.operands) == 1:
        made = call.operands[0]
    if made and not made.startswith(("-", "@")):
        yield Finding(values={"branch": made.removeprefix("refs/heads/")})


def _hides_errors(call: Call) -> bool:
    return call.command is None or any(redirect.fd == 2 and redirect.op != ">&" for redirect in call.command.redirects)


def _pushes(call: Call, _session: Session) -> Iterable[Finding]:
    if _bare(call) and not call.given("-q", "--quiet", "-n", "--dry-run", "--porcelain") and not _hides_errors(call):
        yield Finding()


def _adds(call: Call, _session: Session) -> Iterable[Finding]:
    stops = (
        "-v",
        "--verbose",
        "-n",
        "--dry-run",
        "-i",
        "--interactive",
        "-p",
        "--patch",
        "-e",
        "--edit",
        "--refresh",
        "--stat",
        "--numstat",
        "--summary",
    )
    if _bare(call) and not call.given(*stops):
        yield Finding()


# --- other queries


def _names(call: Call, _session: Session) -> Iterable[Finding]:
    """`git rev-parse` of revisions: their names."""
    plain = all(word is not None and not re.search(r"\.\.|^\^|:|-$", word) for word in call.operands)
    if plain and call.operands and _within(call, {"--short", "--verify"}):
        yield Finding()


def listed_files(call: Call, _session: Session) -> Iterable[Finding]:
    """Relative paths."""
    allowed = {
        "-c",
        "--cached",
        "-m",
        "--modified",
        "-o",
        "--others",
        "--exclude-standard",
        "-d",
        "--deleted",
        "--full-name",
    }
    if _within(call, allowed):
        yield Finding(text=_either(_PATHS))


# --- gh


def _plain_gh(*stops: str, action: str) -> Fact:
    def found(call: Call, _session: Session) -> Iterable[Finding]:
        if call.operands[:1] == (action,) and not call.given(*stops, "--web", "-w", "--help", "-h"):
            yield Finding()

    return found


def _filter(call: Call) -> str | None:
    return call.value("-q", "--jq")


def json_keys(call: Call, _session: Session) -> Iterable[Finding]:
    """One object, or an array of them, with the fields that were asked for, in whatever order."""
    fields = call.value("--json")
    if fields is None or call.given("-q", "--jq", "-t", "--template", "--web", "-w"):
        return
    keys = sorted({key.strip() for key in fields.split(",")})
    if len(keys) > 20 or not all(re.fullmatch(r"[A-Za-z]\w*", key) for key in keys):
        return
    inner = rf'\{{"(?:{"|".join(keys)})":(?:.*"(?:{"|".join(keys)})":){{{len(keys) - 1}}}.*\}}'
    action = call.operands[0] if call.operands else None
    if action == "list":
        yield Finding(text=rf"^\[(?:{inner})?\]$")
    elif action == "view":
        yield Finding(text=f"^{inner}$")


def api_json(call: Call, _session: Session) -> Iterable[Finding]:
    """What the REST interface returns, unfiltered."""
    stops = ("-q", "--jq", "-t", "--template", "-i", "--include", "--silent", "-H", "--header", "--verbose", "--input")
    path = call.operands[0] if call.operands else None
    if (
        path is None
        or call.given(*stops)
        or len(call.operands) != 1
        or call.value("-X", "--method") in {"DELETE", "PUT"}
    ):
        return
    path = path.lstrip("/").partition("?")[0]
    if not path.startswith(("repos/", "orgs/", "users/", "user")):
        return
    if not re.search(r"/(?:logs|dispatches|zipball|tarball|rerun|cancel|lock|markdown)\b", f"/{path}"):
        yield Finding(texts=("{", "["))


def jq_objects(call: Call, _session: Session) -> Iterable[Finding]:
    """Objects or arrays, one on each line, where the filter ends by building one."""
    text = _filter(call)
    if text is None or len(text) > 2000 or call.given("-t", "--template"):
        return
    last = _last_of(text.strip())
    if last is None:
        return
    if last.startswith("{") and last.endswith("}") and _closes(last):
        yield Finding(text=r"^\{.*\}$")
    elif last.startswith("[") and last.endswith("]") and _closes(last):
        yield Finding(text=r"^\[.*\]$")


def _last_of(text: str) -> str | None:
    """What follows the last `|` of a filter that stands in no bracket and no string; None if that cannot be told."""
    if "\\" in text or text.count('"') % 2:
        return None
    depth = start = 0
    for index, char, depth in _unquoted(text):
        if char == "|" and depth == 0:
            start = index + 1
    return text[start:].strip() if depth == 0 else None


def _closes(text: str) -> bool:
    """Does the bracket that a text begins with end with it?"""
    ends = (index for index, char, depth in _unquoted(text) if char in ")]}" and depth == 0)
    return next(ends, None) == len(text) - 1


def _unquoted(text: str) -> Iterator[tuple[int, str, int]]:
    """The characters outside of strings: where each stands, and how many brackets are open after it."""
    depth, quoted = 0, False
    for index, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif not quoted:
            depth += (char in "([{") - (char in ")]}")
            yield index, char, depth


_patch, _patch_new = _seen("patch", diff_patch)
_long, _long_new = _seen("english", status_long)
_entries, _entries_new = _seen("medium", log_medium)
_pushed, _pushed_new = _seen("english", _pushes)
_added, _added_new = _seen("itself", _adds)

FACTS: Mapping[str, Fact] = {
    "git-adds": _added,
    "git-adds-new": _added_new,
    "git-blame": _only({"-L", "-w", "-M", "-C", "-s"}),
    "git-branch-now": _only(needs={"--show-current"}, most=0),
    "git-branch-list": _only(
        {"-a", "--all", "-r", "--remotes", "--list", "-l", "--merged", "--no-merged", "--contains"}, most=0
    ),
    "git-commit-here": _branch(_commits_here),
    "git-commit-subject": commit_subject,
    "git-diff-clean": diff_clean,
    "git-diff-lists": diff_lists,
    "git-diff-names": _diff("--name-only"),
    "git-diff-name-status": _diff("--name-status"),
    "git-diff-numstat": _diff("--numstat"),
    "git-diff-only": diff_only,
    "git-diff-patch": _patch,
    "git-diff-patch-new": _patch_new,
    "git-diff-stat": _diff("--stat"),
    "git-diff-summary": _diff("--shortstat"),
    "git-entries": _entries,
    "git-entries-new": _entries_new,
    "git-files": listed_files,
    "git-goes-to": goes_to,
    "git-head-name": known_head,
    "git-known-branch": _branch(_only(needs={"--show-current"}, most=0)),
    "git-known-ref": _branch(_only(needs={"--abbrev-ref"}, most=0, first="HEAD")),
    "git-known-status": _branch(_shows_branch),
    "git-log-begins": log_begins,
    "git-log-format": log_format,
    "git-log-known": known_log,
    "git-log-limit": log_limit,
    "git-log-oneline": log_oneline,
    "git-merge-base": _only({"-a", "--all", "--fork-point"}),
    "git-names": _names,
    "git-pushes": _pushed,
    "git-pushes-new": _pushed_new,
    "git-remote-list": _only(needs={"-v", "--verbose"}, most=0),
    "git-same": same_answer,
    "git-show-stat": show_stat,
    "git-stat-total": stat_total,
    "git-stash-list": _only(most=0, first="list"),
    "git-status-edited": status_edited,
    "git-status-lists": status_lists,
    "git-status-long": _long,
    "git-status-long-new": _long_new,
    "git-status-only": status_only,
    "git-status-short": status_short,
    "git-toplevel": _only(needs={"--show-toplevel"}, most=0),
    "git-worktree-list": _only(most=0, first="list"),
    "gh-api-json": api_json,
    "gh-checks": _plain_gh("--json", "--watch", action="checks"),
    "gh-comment": _plain_gh("--delete-last", "--edit-last", action="comment"),
    "gh-create": _plain_gh("--dry-run", action="create"),
    "gh-diff": _plain_gh("--name-only", "--color", action="diff"),
    "gh-edit": _plain_gh(action="edit"),
    "gh-jq": jq_objects,
    "gh-json": json_keys,
    "gh-list": _plain_gh("--json", action="list"),
    "gh-view": _plain_gh("--json", "--comments", "-c", action="view"),
}
