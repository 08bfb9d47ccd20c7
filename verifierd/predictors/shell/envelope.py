"""What the virtual shell is trusted with: an allow-list, certified against real bash (first draft)."""

import re
import tomllib

from bashkit import ScriptAnalysis

__all__ = ("Envelope",)

_VARYING = re.compile(
    r"\bdate\b|\bmktemp\b|RANDOM\b|\$\$|\bSECONDS\b|PPID|BASHPID|\buname\b|\bhostname\b|\bps\b"
    r"|\bls\s+(-\w+\s+)*-\w*[lstciuSapFA]|\bsleep\b|\btime\b|\bdu\b|\bdf\b|stat\s.*%[^ansFa]|/proc|/sys|/dev/(?!null)"
    r"|\bSHELL\b|\bshuf\b|-mtime|-newer|\$0\b|LINENO|\bPATH\b|\benv\b|\bprintenv\b|\bexport\s*$|\bset\s*$|declare -p"
    r"|\b(cp|mv|rm|mkdir)\s.*-\w*v|&\s*$|\btrap\b|\beval\b"
)
_LIMIT = re.compile(
    r"parse error|syntax error|[Uu]sage:|missing|unrecognized|invalid|not yet implemented|unexpected|limit|execution error"
    r"|truncated|Permission denied|omitting|try '--help|unsupported|not supported|sandbox|bashkit|io error|panicked"
)
_READERS = frozenset(
    "pwd cat head tail wc ls grep find sort uniq cut tr paste rev tac nl fold comm join diff echo printf test [ [[ true"
    " false seq expr bc readlink basename dirname md5sum sha256sum base64 jq whoami id stat file which type du df date".split()
)


class Envelope:
    """Which commands, and which of their outputs, the virtual shell may decide."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    @classmethod
    def load(cls, text: str) -> "Envelope":
        """Read the document (TOML)."""
        return cls(frozenset(tomllib.loads(text)["commands"]["names"]))

    def refuse_command(self, analysis: ScriptAnalysis, command: str) -> str | None:
        """Before running: None if all of it is certified, else the reason in words."""
        unknown = [n for n in analysis.command_names if n not in self._names and n not in analysis.functions]
        if unknown:
            return f"unknown command {unknown[0]}"
        if analysis.has_dynamic_commands or analysis.truncated:
            return "dynamic command"
        if _VARYING.search(command):
            return "varies from run to run"
        if re.match(r"\s*(echo|printf).*\$\?", command):
            return "status of the step before"
        return None

    def repair(self, stderr: str, cwd: str) -> str:
        """The virtual shell's wording of errors turned into GNU's."""
        return "".join(self._repair_line(line, cwd) for line in stderr.splitlines(keepends=True))

    def refuse_output(self, analysis: ScriptAnalysis, command: str, stdout: str, stderr: str) -> str | None:
        """After running, with repaired errors: None if the output can be trusted, else the reason in words."""
        if _LIMIT.search(stderr) or ("2>" in command and _LIMIT.search(stdout)):
            return "message not certified"
        if stdout and stderr and (len(analysis.command_names) == 1 or analysis.has_command_substitution):
            return "order of output and errors"
        if stderr and re.search(r"\bls\b(\s+\S+){2,}", command):
            return "order of output and errors"
        walks = "find" in analysis.command_names or re.search(r"grep\s+(-\w+\s+)*-\w*[rR]", command)
        if walks and stdout.count("\n") > 1 and not re.search(r"\|\s*(sort|wc)\b", command):
            return "order of a directory walk"
        return None

    def is_read_only(self, analysis: ScriptAnalysis, command: str) -> bool:
        """True if the script surely changes no file and no shell state."""
        if analysis.is_opaque or analysis.has_dynamic_commands or analysis.functions:
            return False
        if any(r.is_write and r.path != "/dev/null" for r in analysis.redirects) or "-exec" in command:
            return False
        return all(c.name in _READERS and not c.assignments for c in analysis.commands) and "-delete" not in command

    def may_write_unseen(self, analysis: ScriptAnalysis, command: str) -> bool:
        """True if the script may write what the virtual shell did not see."""
        return self.refuse_command(analysis, command) is not None and not self.is_read_only(analysis, command)

    @staticmethod
    def _repair_line(line: str, cwd: str) -> str:
        line = re.sub(r"^(mkdir: cannot create directory )'(.*)':", r"\1‘\2’:", line)
        line = re.sub(r"^cp: cannot copy '", "cp: cannot stat '", line)
        line = re.sub(
            r"^mv: cannot move '(.*)': io error: not found$", r"mv: cannot stat '\1': No such file or directory", line
        )
        line = re.sub(
            r"^(head|tail): (?!cannot)(.*): No such file or directory$",
            r"\1: cannot open '\2' for reading: No such file or directory",
            line,
        )
        line = re.sub(r"^(wc|sort): " + re.escape(cwd) + r"/(.*): No such", r"\1: \2: No such", line)
        return re.sub(r"^sort: (?!cannot)(.*): No such file", r"sort: cannot read: \1: No such file", line)
