"""Programs that reality does not have: who was told "command not found" once is told so again."""

import posixpath
import re
from collections.abc import Collection

import msgspec
from bashkit import ScriptAnalysis

from verifierd.predictors.shell.world import Outcome, World

__all__ = ("Unfound",)

_NOT_FOUND = re.compile(r"(?:^|: )([\w+-][\w.+-]*): command not found$", re.MULTILINE)
# Where programs may be put, or looked for.
_INSTALLS = re.compile(r"\bs?bin\b|PATH")
# What the virtual shell adds to the message.
_ADVICE = re.compile(r"(?<=: command not found)\. Did you mean: [^\n]*")
_TURNED = re.compile(r">&|&>")
_PIPED = re.compile(r"(?<!\|)\|(?!\|)|\$\(|`|<\(|>\(")


class Unfound:
    """The names that were not found, until something may have brought a program of that name.

    Attributes:
        names: Those that the virtual shell does not have either.
        lacking: Those that it has, so that it must not be asked.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.lacking: set[str] = set()

    def learn(self, analysis: ScriptAnalysis, observed: str, world: World) -> None:
        """Take in which of the command's names were not found."""
        for name in set(_NOT_FOUND.findall(observed)).intersection(analysis.command_names):
            ours = world.run(f"type {name}", ordered=False).exit_code == 0
            (self.lacking if ours else self.names).add(name)

    def forget(self, command: str | None = None, reach: Collection[str] = (), functions: Collection[str] = ()) -> None:
        """A command changed something, all if None: what it may have brought is no longer known to be missing."""
        everything = command is None or bool(_INSTALLS.search(command))
        brought = {posixpath.basename(path) for path in reach}.union(functions)
        for names in (self.names, self.lacking):
            names.difference_update(list(names) if everything else brought)

    def eludes(self, analysis: ScriptAnalysis, command: str) -> bool:
        """Whether what a command does about such a program cannot be told from the virtual shell."""
        named = self.names.intersection(analysis.command_names)
        return not self.lacking.isdisjoint(analysis.command_names) or bool(named and _TURNED.search(command))

    def without_advice(self, outcome: Outcome) -> Outcome:
        """The outcome, saying of a program that is not there what bash says."""
        if not self.names:
            return outcome
        merged, stderr = _ADVICE.sub("", outcome.merged), _ADVICE.sub("", outcome.stderr)
        return msgspec.structs.replace(outcome, merged=merged, stderr=stderr)

    def stand_in(self, command: str) -> str:
        """The command with a word of the shell for each of the names, so that the rest of it can be certified."""
        named = [name for name in self.names if name in command]
        for name in named:
            command = re.sub(rf"(?<![\w./$@+-]){re.escape(name)}(?![\w./@+=-])", "false", command)
        return command

    def errors_but_these(self, stderr: str, stdout: str, command: str) -> str:
        """The error messages without those of the names, which reality has borne out; all if the order may vary."""
        if not self.names or (stdout and _PIPED.search(command)):
            return stderr
        lines = stderr.splitlines(keepends=True)
        return "".join(line for line in lines if not self.names.intersection(_NOT_FOUND.findall(line.rstrip("\n"))))
