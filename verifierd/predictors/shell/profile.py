"""What kind of shell the logged commands ran in, as far as the log shows it, and what may be decided there."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from bashkit import ScriptAnalysis

from verifierd.predictors.shell.mentions import QUOTED_HEREDOC

__all__ = ("Profile", "refuse_portable")

# How the shells put their name before an error. The set is closed: whatever else stands there is a contradiction.
_BASH = (
    "bash: line {n}: ",
    "bash: ",
    "-bash: ",
    "/bin/bash: line {n}: ",
    "/bin/bash: ",
    "/usr/bin/bash: line {n}: ",
    "/usr/bin/bash: ",
)
_OURS = re.compile(r"^bash: line (\d+): ", re.MULTILINE)
_FOREIGN = re.compile(r"^(?:(?:/usr)?(?:/bin/)?(?:zsh|sh|dash|ash|ksh|fish):|fish: |\(eval\):\d+: )", re.MULTILINE)
_WINDOWS = re.compile(r"^(?:[A-Za-z]:[\\/]|/[a-z]/|\\\\)")
_APPLE = ("/Users/", "/private/", "/Volumes/", "/opt/homebrew/")
# A hook between agent and shell that rewrites commands; what ran is not what the log says.
_REWRITTEN = re.compile(r"^(?:ok \S|FAILED: )", re.MULTILINE)
_REWRITER = re.compile(r"(?:^|[;&|]\s*)rtk\s")


class Profile:
    """The shell of one trajectory: `bash` (GNU tools, one `bash -c` a step with state carried over) or `portable`.

    In a portable shell nothing is known but what bash and zsh, GNU and BSD tools have in common.

    Args:
        name: `auto` to infer it, or `bash` or `portable` to fix it.
        format: The log's format; only `native` recordings are taken for `bash`.
    """

    def __init__(self, name: str, format: str) -> None:
        self.native = format == "native"
        self.portable = name == "portable" or (name == "auto" and not self.native)
        # Whether it was said that one shell, or the like of it, serves all steps.
        self.lasts = name == "bash"
        self.trims = format == "claude_code"
        self.windows = False
        self.rewritten = False
        self.prefix: str | None = None
        # Whether sorting is known to follow the C locale.
        self.collated = False
        # Whether errors are known to stand where they were written, and not after the output.
        self.ordered = False
        self._fixed = name != "auto"

    def see(self, command: str | None, observation: str | None, cwd: str | None) -> None:
        """Take in what a step tells about the shell."""
        if cwd is not None:
            self.place(cwd)
        if command is not None and _REWRITER.search(command):
            self.rewritten = True
        if observation is None or self._fixed:
            return
        if _FOREIGN.search(observation):
            self.portable = True
        if not self.native and _REWRITTEN.match(observation):
            self.rewritten = True

    def place(self, cwd: str) -> None:
        """Take in where a command runs; only bash has no drive letters, and only GNU has no /Users."""
        if _WINDOWS.match(cwd):
            self.windows = True
        if not self._fixed and cwd.startswith(_APPLE):
            self.portable = True

    def learn_prefix(self, errors: str, observed: str) -> None:
        """If the text with errors equals the observation under one known prefix alone, that one is it."""
        fits = [prefix for prefix, text in self._spellings(errors) if text.rstrip() == observed.rstrip()]
        if len(fits) == 1:
            self.prefix = fits[0]

    def learn_order(self, observed: str) -> None:
        """A sorted output in which a capital comes before an earlier letter of the alphabet shows the C locale's order.

        Up to that letter both lines are alike, so that nothing else can have put them into this order.
        """
        lines = observed.splitlines()
        if not self.collated and lines == sorted(lines):
            self.collated = any(_only_by_code(line, after) for line, after in pairwise(lines))

    def forget(self) -> None:
        """A contradiction: what was inferred may be wrong."""
        self.prefix = None
        self.collated = self.ordered = False

    def spell(self, text: str, *, errors: bool) -> str | None:
        """Text as this shell prints it; None while the prefix of its errors was never seen."""
        if errors and _OURS.search(text):
            if self.prefix is None:
                return None
            text = _spell(text, self.prefix)
        if self.trims:
            text = re.sub(r"\A(?:[^\S\n]*\n)+", "", text).rstrip()
        return text

    def matches(self, text: str, observed: str, *, errors: bool) -> bool:
        """Whether the observation is the text in this shell's spelling, or in any known one while that is open."""
        if self.trims:
            text, observed = text.strip("\n"), observed.strip("\n")
        if errors and self.prefix is None and _OURS.search(text):
            return any(spelt.rstrip() == observed.rstrip() for _, spelt in self._spellings(text))
        if observed and not observed.strip() and not errors:
            # Some logs drop the last newline, but none adds one.
            return text == observed
        spelt = _spell(text, self.prefix) if errors and self.prefix is not None else text
        return spelt.rstrip() == observed.rstrip()

    def _spellings(self, text: str) -> Iterator[tuple[str, str]]:
        for prefix in _BASH:
            yield prefix, _spell(text, prefix)


def _only_by_code(line: str, after: str) -> bool:
    one, other = next(((a, b) for a, b in zip(line, after, strict=False) if a != b), ("", ""))
    return "A" <= one <= "Z" and "a" <= other <= "z" and one.lower() > other


def _spell(text: str, prefix: str) -> str:
    return _OURS.sub(lambda found: prefix.format(n=found[1]), text)


_SINGLE = re.compile(r"'[^']*'")
_DOUBLE = re.compile(r'"([^"$`\\!]*)"')
# Expansions, globs, history, zsh's `=command`, comments, escapes, background jobs, subshells.
_UNEVEN = re.compile(r"[$`*?\[\]{}~!\\#()%^]|(?<!&)&(?![&>])(?<!>&)|(?:^|\s)=|<<")


def refuse_portable(analysis: ScriptAnalysis, command: str) -> str | None:
    """None if a command does the same under bash and zsh, with GNU and BSD tools; else the reason in words."""
    bare = QUOTED_HEREDOC.sub(r" \3", command)
    if "'" not in _SINGLE.sub("", bare):
        bare = _SINGLE.sub("q", bare)
    bare = _DOUBLE.sub("q", bare)
    if _UNEVEN.search(bare) or '"' in bare or "'" in bare:
        return "shells differ on an expansion"
    if analysis.functions or analysis.has_command_substitution or any(r.path is None for r in analysis.redirects):
        return "shells differ on an expansion"
    for part in analysis.commands:
        if part.name is None or part.assignments or None in part.args:
            return "shells differ on an expansion"
        if not _portable(part.name, [word for word in part.args if word is not None]):
            return f"tools differ on {part.name}"
    return None


def _portable(name: str, words: list[str]) -> bool:
    """Whether a tool does the same everywhere with these words."""
    plain = not any(word.startswith("-") for word in words)
    check = _TOOLS.get(name)
    return check is not None and check(words, plain)


def _echo(words: list[str], plain: bool) -> bool:  # noqa: FBT001 - of the table below
    return plain and not any("\\" in word for word in words)


def _printf(words: list[str], plain: bool) -> bool:  # noqa: FBT001 - as above
    return bool(words) and plain and (words[0] == "%s\\n" or not re.search(r"[%\\]", words[0]))


def _mkdir(words: list[str], plain: bool) -> bool:  # noqa: FBT001 - as above
    return plain or (words[0] == "-p" and not any(word.startswith("-") for word in words[1:]))


def _ends(words: list[str], plain: bool) -> bool:  # noqa: FBT001 - as above
    if words[:1] == ["-n"] and len(words) > 1:
        words = [f"-{words[1]}", *words[2:]]
    count = words[0] if words else ""
    return len(words) <= 2 and (plain or bool(re.fullmatch(r"-\d+", count)))


_TOOLS: dict[str, Callable[[list[str], bool], bool]] = {
    "cat": lambda _, plain: plain,
    "cd": lambda words, plain: plain and len(words) == 1,
    "cp": lambda _, plain: plain,
    "echo": _echo,
    "false": lambda _words, _plain: True,
    "head": _ends,
    "mkdir": _mkdir,
    "mv": lambda _, plain: plain,
    "printf": _printf,
    "pwd": lambda words, _: not words,
    "tail": _ends,
    "test": lambda words, _: bool(words) and words[0] in {"-d", "-e", "-f"},
    "touch": lambda _, plain: plain,
    "true": lambda _words, _plain: True,
}
