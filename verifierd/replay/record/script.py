"""What a recording plays: a TOML document of trajectories and their moves."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from verifierd.errors import FormatError

__all__ = ("Batch", "Move", "Moves", "Part", "Script", "batches", "load_script")

_WORDS = {
    "native": ("run", "behind", "tool"),
    "claude_code": ("run", "behind", "tool", "user", "say"),
    "codex": ("run", "behind", "patch", "user", "say"),
}


class Move(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that happens: exactly one of `run`, `behind`, `tool`, `patch`, `user` and `say`.

    Attributes:
        run: The agent runs a shell command.
        behind: Somebody else runs a shell command, and the log does not show it.
        tool: The agent uses another tool: `Read`, `Write`, `Edit`, `Grep` or `Task`.
        patch: The agent applies a patch, in the notation of Codex.
        user: A person speaks.
        say: The agent speaks.
        input: What the tool is given.
        moves: What the sub-agent of a `Task` does.
        answer: What the sub-agent reports.
        note: The description that the agent gives with a command.
        slow: The command is logged as one that outlives its first answer and is polled.
        stale: The log shows what the same command answered the time before.
        label: The step is labelled off_path, of this kind.
    """

    run: str | None = None
    behind: str | None = None
    tool: Literal["Read", "Write", "Edit", "Grep", "Task"] | None = None
    patch: str | None = None
    user: str | None = None
    say: str | None = None
    input: dict[str, Any] = {}
    moves: tuple["str | Move | tuple[str | Move, ...]", ...] = ()
    answer: str = ""
    note: str = ""
    slow: bool = False
    stale: bool = False
    label: str | None = None

    @property
    def word(self) -> str:
        """Which of the six it is."""
        return ", ".join(word for word in _WORDS["claude_code"] + ("patch",) if getattr(self, word) is not None)


Batch = tuple[Move, ...]
Moves = tuple[str | Move | tuple[str | Move, ...], ...]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One trajectory.

    Attributes:
        name: Its name; the title of the session where ids are invented.
        project: The directory below the home in which it starts.
        setup: A shell command that prepares the place, unseen.
        branch: The git branch that the log claims.
        domain: What the steps are said to be, in the native format; empty for what they are if nothing is said.
        moves: In order; a list among them is a batch issued in parallel.
    """

    name: str
    project: str = "work"
    setup: str = ":"
    branch: str = ""
    domain: Literal["", "terminal", "swe"] = ""
    moves: Moves


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document.

    Attributes:
        name: The document's name, which also seeds what is invented.
        format: Of the log to write.
        parts: The trajectories (`[[trajectory]]`); in the native format they interleave in one file.
    """

    format: Literal["native", "claude_code", "codex"]
    parts: tuple[Part, ...] = msgspec.field(name="trajectory")
    name: str = ""


def load_script(data: bytes, *, name: str) -> Script:
    """Read a script.

    Raises:
        FormatError: It is no TOML, has an unknown field, or has a move that its format cannot log.
    """
    try:
        script = msgspec.structs.replace(msgspec.toml.decode(data, type=Script), name=name)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"the script `{name}` cannot be read: {error}", hint="See replay/README.md.") from error
    for part in script.parts:
        for move in _all(part.moves):
            if move.word not in _WORDS[script.format]:
                raise FormatError(
                    f"the script `{name}` has a move of `{move.word or 'nothing'}` in `{part.name}`",
                    hint=f"A move of a {script.format} script is one of: {', '.join(_WORDS[script.format])}.",
                )
    return script


def batches(moves: Moves) -> Iterator[Batch]:
    """The moves in order, each with those that go in parallel with it; a bare text is a command to run."""
    for entry in moves:
        group = entry if isinstance(entry, tuple) else (entry,)
        yield tuple(Move(run=move) if isinstance(move, str) else move for move in group)


def _all(moves: Moves) -> Iterator[Move]:
    for batch in batches(moves):
        for move in batch:
            yield move
            yield from _all(move.moves)
