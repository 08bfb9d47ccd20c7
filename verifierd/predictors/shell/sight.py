"""A step as the worker sees it: what it did to the machine, stripped of all that the virtual shell can't use."""

from datetime import datetime
from typing import Any

import msgspec

from verifierd.types import Action, ObservationKind, Step

__all__ = ("HEADER", "PROFILES", "Answer", "Effect", "Question", "Sight", "sight_of")

PROFILES = ("auto", "bash", "portable")
# Bytes of the length before each message on the pipe.
HEADER = 4

# Longer texts teach nothing: the virtual shell has limits of its own, and the pipe should stay short.
_COMMAND = 32_768
_OBSERVATION = 1 << 20
# Tools of coding agents that change nothing on the machine that a command could see.
_LOOKING = frozenset({
    "AskUserQuestion", "BashOutput", "EnterPlanMode", "ExitPlanMode", "Glob", "Grep", "LS", "NotebookRead", "Read",
    "TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskUpdate", "TodoRead", "TodoWrite", "ToolSearch", "WebFetch",
    "WebSearch", "tool_search_call", "update_plan", "view_image", "web_search_call",
})  # fmt: skip
_WRITING = frozenset({"Edit", "MultiEdit", "Write"})


class Effect(msgspec.Struct, frozen=True, array_like=True):
    """What an action does.

    Attributes:
        kind: `shell`, `none`, `write` or `any`.
        command: The command line of `shell`; None if it is no text or too long to run.
        path: The file of `write`.
    """

    kind: str
    command: str | None = None
    path: str | None = None


class Sight(msgspec.Struct, frozen=True, array_like=True):
    """One step for the worker. `observation`, `exit_code` and `failed` are absent when it is to be predicted.

    Attributes:
        format: The log's format.
        effect: What was done.
        kind: The observation's kind.
        cwd: The directory it ran in.
        turn: The turn it belongs to.
        siblings: What else was asked in parallel; None if not all is known.
        observation: What came back; None if it was cut, too long, or no text.
        exit_code: The exit status.
        failed: The harness said that it failed.
        source: The log, for what its sessions have in common.
        began, ended: When it was called and answered, in seconds; absent if the log does not say it.
    """

    format: str
    effect: Effect
    kind: ObservationKind
    cwd: str | None
    turn: str | None
    siblings: tuple[Effect, ...] | None
    observation: str | None = None
    exit_code: int | None = None
    failed: bool = False
    source: str = ""
    began: float | None = None
    ended: float | None = None


class Question(msgspec.Struct, frozen=True, array_like=True):
    """What the parent asks.

    Attributes:
        session: Number of the session.
        at: How many steps the session must have taken in; 0 opens it anew.
        profile: Name of the profile for a new session.
        past: Steps to take in; None for a step of which nothing is known.
        step: The step to predict then, if any.
    """

    session: int
    at: int
    profile: str
    past: tuple[Sight | None, ...]
    step: Sight | None = None


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What the worker says.

    Attributes:
        known: False if it holds no such session at that point; it did nothing then.
        text: The predicted observation.
        exit_code: The predicted status.
        abstain: Why there is no prediction.
        detail: The reason in words.
    """

    known: bool = True
    text: str | None = None
    exit_code: int | None = None
    abstain: str | None = None
    detail: str = ""


def sight_of(step: Step, *, observed: bool) -> Sight:
    """The step for the worker; with what was observed only where it is history."""
    sight = Sight(
        format=step.format,
        effect=_effect(step.action),
        kind=step.observation_kind,
        cwd=_text(step.cwd, 4096),
        turn=_text(step.turn, 4096),
        siblings=None if step.siblings is None else tuple(_effect(action) for action in step.siblings),
        source=step.origin.path.encode("utf-8", "backslashreplace").decode(),  # a name need be no Unicode
        began=_seconds(step.called_at),
    )
    if not observed:
        return sight
    return msgspec.structs.replace(
        sight,
        observation=None if step.elided else _text(step.observation, _OBSERVATION),
        exit_code=step.exit_code,
        failed=bool(step.is_error) or step.exit_code not in {0, None},
        ended=_seconds(step.observed_at),
    )


def _effect(action: Action) -> Effect:
    if action.command is not None:
        command = _text(action.command, _COMMAND)
        return Effect("shell", command if command and "\0" not in command else None)
    if action.tool in _LOOKING:
        return Effect("none")
    fields: dict[str, Any] = action.input if isinstance(action.input, dict) else {}
    path = _text(fields.get("file_path"), 4096)
    if path is None or not path.startswith("/") or "\0" in path:
        return Effect("any")
    return Effect("write", path=path) if action.tool in _WRITING else Effect("any")


def _seconds(time: str | None) -> float | None:
    try:
        return datetime.fromisoformat(time).timestamp() if time is not None else None
    except (ValueError, OverflowError, OSError):
        return None


def _text(value: object, limit: int) -> str | None:
    """The text if it can be encoded and is not too long."""
    if not isinstance(value, str) or len(value) > limit:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value
