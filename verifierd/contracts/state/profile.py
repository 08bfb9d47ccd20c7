"""A session's own habits, which decide what of the contracts holds for it.

A hook may rewrite commands before they run, a name may stand for another program, the harness may speak another
language, and others may write in the same tree. Each is recognised from what the session shows; what a rewriter's first
output would violate is kept out of force by `foreign`, since nothing can have been shown before it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from verifierd.contracts.calls import Call, Part
from verifierd.contracts.checks import pattern
from verifierd.contracts.tails import cut
from verifierd.types import ObservationKind, Step

__all__ = ("Profile", "foreign", "shell")

Shell = Literal["posix", "powershell", "cmd"]

_REWRITERS = frozenset({"rtk", "tokf", "lean-ctx"})
"""Programs that run another one and shorten its output; their hooks do so unseen."""
_REWRITER = re.compile(r"(?:Usage|full (?:output|diff)|\bsee)[ :~\w/.-]{0,40}(?:\brtk|\btokf|\blean-ctx)\b")
_FAMILIES: dict[str, str] = {
    "git": (
        r"^ok(?: ✓.*| \(.*\)| [0-9a-f]{7}| \d+ files? .*| fetched.*)?$|^FAILED: git |^📌 |^--- Changes ---$"
        r"|^[+~?✅📝❓] ?(?:Staged|Modified|Untracked): \d+ files|^\* \S+\.\.\.\S+/\S+|^clean — nothing to commit$"
        r"|^Clean working tree$|^\s+\.\.\. \+\d+ more$|^\s+\[\+\d+ lines omitted\]$|^[0-9a-f]{7,12} .{60,}\.\.\.$"
        r"|^[0-9a-f]{7,12} .* \(.* ago\) <.*>|^---END---$"
    ),
    "gh": r"^ok(?: ✓.*)?$|^FAILED: gh |^[📋🔀🏃🐛] ",
    "ls": r"^[📊📁] ?\d+ files?|^Summary: \d+ files|^\(empty\)$",
    "cat": r"^Usage: rtk ",
    "find": r"^(?:📁 )?\d+F \d+D:|^0 for '",
    "grep": r"^(?:🔍 )?\d+ (?:matches )?(?:in \d+F:|for ')|^(?:📄|\[file\]) .* \(\d+\):$",
    "wc": r"^\d+L \d+W \d+B",
}
"""The lines of rewriters, by the program that they ran: none of these is a line of that program's own."""
_ALIKE = {"rg": "grep", "head": "cat", "tail": "cat", "tree": "ls"}
_OTHERS: dict[str, str] = {
    "ls": r"^\.[r-][w-][x-][r-][w-][x-][r-][w-][x-]|^[^\w/]*[\x{e000}-\x{f8ff}\x{f0000}-\x{ffffd}] ",
    "cat": r"^─+[┬─]─+$|^ +1 +│ ",
    "grep": r"^(?:ugrep|rg|ripgrep): ",
    "find": r"^\[fd error\]: |^bfs: ",
}
"""The lines of programs that a name is often an alias of."""
_TRANSLATED: dict[str, str] = {
    "git": (
        r"^(?:Auf Branch|Sur la branche|En la rama|No ramo|Sul branch"
        r"|\x{41d}\x{430} \x{432}\x{435}\x{442}\x{43a}\x{435}"
        r"|位于分支|ブランチ|현재 브랜치|Op branch"
        r"|Na gałęzi|På grenen|On the branch) "
    ),
    "ls": r"^(?:insgesamt|totale|итого|合計|总用量|总计|합계|totaal|razem|totalt) \d",
}
_ALIAS = re.compile(
    r"^(?:alias )?([\w.-]{1,40})(?:=['\"]?|: aliased to | is aliased to [`'\"]?| is an alias for )([\w./-]{1,80})"
    r"|^([\w.-]{1,40}) is a (?:shell )?function",
    re.MULTILINE,
)
_SHELL_ERRORS: dict[Shell, re.Pattern[str]] = {
    "powershell": re.compile(r"CommandNotFoundException|is not recognized as (?:the|a) name of a cmdlet"),
    "cmd": re.compile(r"is not recognized as an internal or external command"),
}
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_MODIFIED = re.compile(
    r"has been (?:unexpectedly )?modified since |modified,? either by the user or by a linter"
    r"|user modified your proposed changes|Another git process seems to be running|/index\.lock': File exists"
)
_AGENTS = frozenset({"Agent", "Task", "TeamCreate", "spawn_agent"})
_PRINTING = frozenset({"git show", "git grep", "git cat-file"})
_HEAD = 20_000


def shell(step: Step) -> Shell:
    """The shell that reads a step's command line, as far as the call says it."""
    fields = step.action.fields
    runner = fields.get("shell") or next(
        (value[0] for name in ("command", "cmd") if isinstance(value := fields.get(name), list) and value), None
    )
    name = runner.replace("\\", "/").rsplit("/", 1)[-1].lower().removesuffix(".exe") if isinstance(runner, str) else ""
    if name in {"powershell", "pwsh"} or "powershell" in step.tool.lower():
        return "powershell"
    if name == "cmd":
        return "cmd"
    if not name and step.format == "codex" and step.cwd is not None and _DRIVE.match(step.cwd):
        return "powershell"  # what Codex runs on Windows unless it is told otherwise
    return "posix"


def foreign(calls: Iterable[Call]) -> str:
    """The pattern of lines that none of these programs writes itself: those of rewriters, aliases, other languages.

    What is violated where such a line stands is out of force. Empty if there is none for them.
    """
    families = sorted({_family(call) for call in calls if not call.tool})
    found = [table[family] for family in families for table in (_FAMILIES, _OTHERS, _TRANSLATED) if family in table]
    return "|".join(found)


class Profile:
    """What is known of how this session's observations come about.

    Attributes:
        rewritten: A hook rewrites commands, or may: nothing is said of what a shell's commands print.
        replaced: Programs whose name stands for another one: no rule of theirs applies.
        translated: Programs speak another language than English: no rule of `git` and `ls` applies.
        shell: The shell of the latest command; the parts of another one than `posix` are not read.
        coloured: Outputs hold terminal codes: they are taken off before anything is checked.
        truncated: The log cut an output: such a step is not judged.
        windows: Paths have drives: for those who compare paths; switches nothing off by itself.
        alone: False once others may write in the same tree at any time: no closed-world conclusions from then on.
        disturbed: Grows whenever others may have written while the agent did not look: what is known is stale.
        evidence: Why, one sentence for each habit.
    """

    def __init__(self) -> None:
        self.rewritten = self.translated = self.coloured = self.truncated = self.windows = False
        self.alone = True
        self.shell: Shell = "posix"
        self.replaced: frozenset[str] = frozenset()
        self.disturbed = 0
        self.evidence: dict[str, str] = {}
        self._turn: str | None = None
        self._misread: Shell | None = None

    def reads(self, step: Step) -> bool:
        """Is a step's command line one that the contracts can read?"""
        return self._misread is None and shell(step) == "posix"

    def applies(self, call: Call) -> bool:
        """Do a program's rules hold for it in this session?"""
        family = call.name.split()[0] if call.name else ""
        return call.tool or (family not in self.replaced and not (self.translated and family in _TRANSLATED))

    def observe(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """Learn from a step."""
        del parts
        text = step.observation
        if step.turn != self._turn:
            self.disturbed += self._turn is not None
            self._turn = step.turn
        if cut(step):
            self.truncated = self._seen("truncated", step, "the log cut the output")
        if step.cwd is not None and _DRIVE.match(step.cwd):
            self.windows = self._seen("windows", step, "it runs in a folder of a drive")
        self._others(step, text)
        if step.action.command is None:
            return
        self.shell = shell(step)
        if self.shell != "posix":
            self._seen("shell", step, f"its command line is for {self.shell}")
        if "\x1b[" in text:
            self.coloured = self._seen("coloured", step, "the output holds terminal codes")
        self._programs(step, text[:_HEAD], calls)

    def _others(self, step: Step, text: str) -> None:
        """Who else writes."""
        if step.format != "native" and "/" in step.trajectory:
            self.alone = not self._seen("others", step, "this agent works for another one, beside it")
        if step.tool in _AGENTS:
            self.disturbed += 1
            if step.observation_kind is ObservationKind.STILL_RUNNING or step.action.fields.get("run_in_background"):
                self.alone = not self._seen("others", step, "another agent was started and works on")
        elif step.observation_kind is ObservationKind.STILL_RUNNING or step.action.fields.get("run_in_background"):
            self.disturbed += 1
            if step.format != "codex":  # there everything slow is polled to its end
                self.alone = not self._seen("others", step, "a command was left running")
        elif step.observation_kind is ObservationKind.POLL:
            self.disturbed += 1
        if step.observation_kind is ObservationKind.ENV and step.action.command is None and step.tool not in _WRITERS:
            return  # a file or a page that holds these words says nothing
        if _MODIFIED.search(text[:_HEAD]):
            self.disturbed += 1
            self.alone = not self._seen("others", step, "somebody else wrote to a file, or held the repository")

    def _programs(self, step: Step, text: str, calls: Sequence[Call]) -> None:
        """Which of its programs are what they seem."""
        names = {call.name.split()[0] for call in calls if call.name}
        if names & _REWRITERS:
            self.rewritten = self._seen(
                "rewritten", step, f"`{min(names & _REWRITERS)}` was called, whose hook is unseen"
            )
        elif _REWRITER.search(text) and names & _FAMILIES.keys() | _ALIKE.keys() & names:
            self.rewritten = self._seen("rewritten", step, "a rewriter names itself in the output")
        self._errors(step, text)
        if len(calls) == 1 and names & {"alias", "type", "which", "command", "whence"}:
            self._aliases(step, text)
        for call in calls:
            family = _family(call)
            name = call.name.split()[0]
            if _rewritten(call, step, text):
                self.rewritten = self._seen("rewritten", step, f"`{name}` printed a line that is not its own")
            if len(calls) == 1 and family in _OTHERS and step.succeeded and _found(_OTHERS[family], text):
                self._replace(step, name)
            if family in _TRANSLATED and _found(_TRANSLATED[family], text):
                self.translated = self._seen("translated", step, f"`{name}` speaks another language")

    def _errors(self, step: Step, text: str) -> None:
        command = step.action.command or ""
        for kind, error in _SHELL_ERRORS.items():
            if error.search(text) and kind not in command and "pwsh" not in command:
                self._misread = kind
                self._seen("shell", step, f"its errors are those of {kind}")

    def _aliases(self, step: Step, text: str) -> None:
        for match in _ALIAS.finditer(text):
            name = match[1] or match[3]
            if match[3] or (match[2] or "").rsplit("/", 1)[-1] != name:
                self._replace(step, name)

    def _replace(self, step: Step, name: str) -> None:
        if len(self.replaced) < 100:
            self.replaced |= {name}
            self._seen("replaced", step, f"`{name}` stands for another program")

    def _seen(self, habit: str, step: Step, sentence: str) -> bool:
        self.evidence.setdefault(habit, f"step {step.index}: {sentence}")
        return True


_WRITERS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})


def _family(call: Call) -> str:
    name = call.name.split()[0] if call.name else ""
    return _ALIKE.get(name, name)


def _rewritten(call: Call, step: Step, text: str) -> bool:
    """Did a rewriter speak? Not told where a text that others wrote may be printed: it may hold any line."""
    family = _family(call)
    if family not in _FAMILIES or family in {"cat", "grep"} or call.name in _PRINTING:
        return False
    return _found(_FAMILIES[family], text) and not (family == "git" and _echoes_ok(text, step))


def _found(lines: str, text: str) -> bool:
    compiled = pattern(f"(?m:{lines})")
    return compiled is not None and compiled.search(text) is not None


def _echoes_ok(text: str, step: Step) -> bool:
    """May the only line of a rewriter be one that the command itself prints?"""
    command = step.action.command or ""
    return "ok" in command and "✓" not in text and "FAILED: git" not in text and "--- Changes ---" not in text
