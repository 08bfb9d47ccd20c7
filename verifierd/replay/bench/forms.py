"""What the outputs of commands look like whose content nobody can know: a form a command."""

import re
from collections.abc import Mapping, Sequence

import msgspec

__all__ = ("FORMS", "Form")

_MODE = r"[-dlcbps][-rwxsStT]{9}[.+@]?"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_SIZE = r"\d+(?:\.\d+)?[BKMGTPE]?i?"
_MEMORY = r"\d+(?:\.\d+)?(?:[KMGT]i?|B)?"


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """What a command prints.

    Attributes:
        command: The command.
        head: The lines that it begins with, in order, as patterns of whole lines.
        line: What every further line is.
        least: So many further lines there are at least.
        most: At most.
        holds: Patterns of lines that are among them.
        before: What the history shows, so that the command cannot fail: a command and its output.
    """

    command: str
    head: tuple[str, ...] = ()
    line: str = r"(?!)"
    least: int = 0
    most: int = 10_000
    holds: tuple[str, ...] = ()
    before: tuple[str, str] | None = None

    def wrong(self, text: str) -> str:
        """What is not of the form, in words; empty if all is."""
        lines = text.strip("\n").splitlines()
        for number, pattern in enumerate(self.head):
            if number >= len(lines) or not re.fullmatch(pattern, lines[number].rstrip()):
                return f"line {number + 1} is not as `{self.command}` begins"
        rest = lines[len(self.head) :]
        for number, found in enumerate(rest, len(self.head) + 1):
            if not re.fullmatch(self.line, found.rstrip()):
                return f"line {number} is none that `{self.command}` prints"
        if not self.least <= len(rest) <= self.most:
            return f"{len(rest)} lines, where `{self.command}` prints {self.least} to {self.most}"
        return next((f"no line `{pattern}`" for pattern in self.holds if not _any(pattern, lines)), "")


def _any(pattern: str, lines: Sequence[str]) -> bool:
    return any(re.fullmatch(pattern, line.rstrip()) for line in lines)


_REPOSITORY = ("git rev-parse --is-inside-work-tree", "true\n")

FORMS: Mapping[str, Form] = {
    "ls": Form(
        command="ls -la",
        head=(r"total \d+(?:\.\d+)?[KMGT]?",),
        line=rf"{_MODE}\s+\d+ +\S+ +\S+ +(?:\d+, +)?{_SIZE} +{_MONTH} +\d\d? +(?:\d\d:\d\d|\d{{4}}) .+",
        least=2,
        holds=(r"d.* \.", r"d.* \.\."),
    ),
    "git": Form(
        command="git log --oneline -5",
        line=r"[0-9a-f]{7,40} (?:\([^)]+\) )?\S.*",
        least=1,
        most=5,
        before=_REPOSITORY,
    ),
    "ps": Form(
        command="ps aux",
        head=(r"USER +PID +%CPU +%MEM +VSZ +RSS +TTY +STAT +START +TIME +COMMAND",),
        line=r"\S+ +\d+ +\d+(?:\.\d)? +\d+(?:\.\d)? +\d+ +\d+ +\S+ +[A-Z][A-Zsl<N+]* +\S+ +\d+:\d\d(?:[:.]\d\d)? +\S.*",
        least=1,
    ),
    "status": Form(
        command="git status",
        head=(r"On branch \S+|HEAD detached (?:at|from) \S+",),
        line=(
            r"|\s+\S.*|Your (?:branch|stash) .*|and have .*|You (?:are|have) .*|No commits yet|nothing .*|no changes .*"
            r"|(?:Changes|Untracked files|Unmerged paths).*:|All conflicts fixed.*|(?:Last|Next) commands? .*"
        ),
        least=1,
        holds=(r"nothing to commit.*|Changes .*:|Untracked files:|no changes added to commit.*|Unmerged paths:",),
        before=_REPOSITORY,
    ),
    "df": Form(
        command="df -h",
        head=(r"Filesystem +Size +Used +Avail +Use% +Mounted on",),
        line=rf"\S+ +{_SIZE} +{_SIZE} +{_SIZE} +(?:\d+%|-) +/.*",
        least=1,
        holds=(r".* /",),
    ),
    "free": Form(
        command="free -m",
        head=(
            r" +total +used +free +shared +buff/cache +available",
            rf"Mem: +{_MEMORY}(?: +{_MEMORY}){{5}}",
        ),
        line=rf"Swap: +{_MEMORY} +{_MEMORY} +{_MEMORY}",
        least=1,
        most=1,
    ),
    "uname": Form(
        command="uname -a", line=r"Linux \S+ \d+\.\d+\S* #\S+ .*(?:x86_64|aarch64|arm\S*).*", least=1, most=1
    ),
    "date": Form(
        command="date", line=rf"{_DAY} (?:{_MONTH} +\d\d?|\d\d? {_MONTH}) .*\d\d:\d\d:\d\d.*", least=1, most=1
    ),
    "env": Form(
        command="env", line=r"[A-Za-z_][A-Za-z0-9_]*=.*", least=2, holds=(r"PATH=.*/bin.*", r"(?:HOME|PWD)=/.*")
    ),
    "id": Form(
        command="id",
        line=r"uid=\d+(?:\(\S+\))? gid=\d+(?:\(\S+\))?(?: groups=\d+\S*)?(?: context=\S+)?",
        least=1,
        most=1,
    ),
    "uptime": Form(
        command="uptime",
        line=r" *\d\d?:\d\d(?::\d\d)? +up .+, +\d+ users?, +load averages?: \d+\.\d+,? \d+\.\d+,? \d+\.\d+",
        least=1,
        most=1,
    ),
    "du": Form(command="du -sh /etc /var/log", line=rf"{_SIZE}\s+/(?:etc|var/log)|du: cannot .*", least=2),
}
"""The commands, by the names that the suite's document has for them."""
