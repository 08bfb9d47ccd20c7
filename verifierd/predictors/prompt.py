"""How a world model is asked: system prompts, turns, the window over the history, and reading an answer.

Pure text: no tokenizer, no model. `policies/prompts/README.md` describes the forms.

The text of logs is foreign. It is never used as a template, and only as strings of JSON where it stands in JSON. That a
token of the chat template, spelt out in it, stays text is the matter of whoever makes tokens of it.
"""

import json
import re
from collections import deque
from collections.abc import Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

import msgspec

from verifierd.bundled import root
from verifierd.errors import PredictorError
from verifierd.policy import DOMAINS
from verifierd.types import ObservationKind, Step

__all__ = (
    "Form",
    "Window",
    "after",
    "before",
    "begins",
    "divided",
    "elide",
    "observation",
    "parse",
    "system_prompt",
    "thought",
    "user_turn",
    "window",
)


_SHELL_DOMAINS = ("terminal", "swe")
_SCREEN_DOMAINS = ("web", "os", "android")
_FILE = "system_prompt.txt"
_MARKER = "**Environment Observation:**"
_OPEN, _CLOSE = "<predicted_observation>", "</predicted_observation>"
_BEGIN = {"none": "", "marker": _MARKER, "tags": _OPEN}
_WAIT = 60.0
"""Seconds that keystrokes are given: agents' harnesses wait until a command has ended."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_THINK = re.compile(r"(</?think>)")

_ASKS = {
    "none": "Answer with the observation alone.",
    "marker": f"Begin every answer with the line `{_MARKER}`; then comes the observation alone.",
    "tags": f"Answer with exactly one block, {_OPEN} before the observation and {_CLOSE} after it, each on a line of "
    "its own. Outside the block stands nothing.",
}
_ASKS_SCREEN = (
    "The observation of a shell command is a screen: first the line `$ ` and the command as it was typed, then its "
    "output. It ends with the output; no new prompt follows."
)


_SLOTS = {
    "{tool_definitions}": "The tools are those that the actions name; their arguments show their parameters.",
    "{demonstrations}": "",
}
"""What official prompts leave open. No log holds the definitions of its tools."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How turns are written. Which form a model reads best is a matter of measurement.

    Attributes:
        wrapper: What stands around an observation: nothing, a marker line before it, or a pair of tags.
        action: A shell command as a JSON list of keystrokes, or as a tool call in two lines.
        screen: An observation of a shell command begins with the command's echo.
    """

    wrapper: Literal["none", "marker", "tags"] = "marker"
    action: Literal["keystrokes", "command"] = "keystrokes"
    screen: bool = False


def system_prompt(domain: str, folder: Path | None, form: Form | None = None) -> str:
    """The system prompt of a domain, and what the form asks of answers; `terminal` for a domain nobody knows.

    Args:
        domain: The step's domain.
        folder: A checkout of Qwen-AgentWorld, or its folder `prompts`; None for the bundled prompts.
        form: The form of the turns.

    Raises:
        PredictorError: The file is missing, empty, or cannot be read.
    """
    # A name from a log is a path here only if it is one of ours.
    domain = domain if domain in DOMAINS else "terminal"
    form = form or Form()
    asks = [_ASKS[form.wrapper], *([_ASKS_SCREEN] if form.screen and domain in _SHELL_DOMAINS else [])]
    return "\n\n".join([_prompt_text(domain, folder), " ".join(asks)])


def _prompt_text(domain: str, folder: Path | None) -> str:
    place: Traversable
    if folder is None:
        place = root("policies") / "prompts" / domain / _FILE
        hint = "The installation is incomplete; install verifierd again."
    else:
        nested = folder / "prompts" / domain / _FILE
        place = nested if nested.is_file() else folder / domain / _FILE
        hint = (
            f"Name a checkout of Qwen-AgentWorld, or its folder `prompts`, after --prompts: it holds {domain}/{_FILE}. "
            "Without --prompts the bundled prompts are used."
        )
    try:
        text = place.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise PredictorError(f"{place}: cannot read the system prompt: {error.strerror or error}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise PredictorError(f"{place}: the system prompt is not UTF-8 text", hint=hint) from error
    if not text:
        raise PredictorError(f"{place}: the system prompt is empty", hint=hint)
    for slot, filling in _SLOTS.items():
        text = text.replace(slot, filling)
    return text.strip()


def user_turn(step: Step, number: int, form: Form) -> str:
    """The action of a step.

    Args:
        step: The step.
        number: The step's number in its trajectory, from 1.
        form: How it is written.
    """
    lines = []
    if number == 1 and step.domain == "terminal" and step.cwd and step.cwd.isprintable():
        lines += ["**Current State:**", f"Current working directory: {step.cwd}", ""]
    command = _command(step)
    if command is not None and form.action == "command":
        lines += ["Action: execute_bash", f"Command: {command}"]
    elif step.domain in _SCREEN_DOMAINS and isinstance(step.action.input, str) and step.action.input.strip():
        lines = [f"### Turn {number}", "**Action:**", step.action.input]
    else:
        lines = [f"### Turn {number}", *lines, "**Action:**", "```json", _as_json(step, command), "```"]
    return _encodable("\n".join(lines)).strip()


def _command(step: Step) -> str | None:
    return step.action.command if step.domain in _SHELL_DOMAINS or step.domain not in DOMAINS else None


def _as_json(step: Step, command: str | None) -> str:
    fields = step.action.fields
    value: object = {"name": step.tool, "arguments": step.action.input}
    if command is not None:
        value = [{"keystrokes": f"{command}\n", "duration": _WAIT}]
    elif step.domain in _SHELL_DOMAINS and isinstance(fields.get("keystrokes"), str):
        value = [fields]
    elif step.domain in _SCREEN_DOMAINS and ("action_type" in fields or "action" in fields):
        value = fields
    return json.dumps(value, ensure_ascii=False, indent=2)


def observation(step: Step) -> str:
    """The observation as it is written in a turn: without white space at its ends, as chat templates trim it.

    What is no answer of the environment is written as it came, or as a note where nothing came.
    """
    text = _encodable(step.observation.strip())
    if not text and step.observation_kind is not ObservationKind.ENV:
        return f"[no output: {step.observation_kind.value.replace('_', ' ')}]"
    return text


def _encodable(text: str) -> str:
    """The text without halves of surrogate pairs, which no tokenizer can encode. Its length stays."""
    return _SURROGATE.sub("\ufffd", text)


def before(step: Step, form: Form) -> str:
    """What stands before the observation in an answer.

    Before an empty observation it has no line end, so that a whole answer never has white space at its ends.
    """
    lines = list(filter(None, [_BEGIN[form.wrapper]]))
    command = _command(step)
    if form.screen and command is not None and step.observation_kind is ObservationKind.ENV:
        echo = _encodable(f"$ {command.strip()}".rstrip())
        if not f"{observation(step)}\n".startswith(f"{echo}\n"):  # some logs hold it already
            lines = [*lines, echo]
    text = "\n".join(lines)
    return f"{text}\n" if text and observation(step) else text


def after(form: Form) -> str:
    """What stands after the observation in an answer."""
    return f"\n{_CLOSE}" if form.wrapper == "tags" else ""


def begins(output: str, form: Form) -> bool:
    """Does an answer begin as the form asks?"""
    return output.lstrip().startswith(_BEGIN[form.wrapper])


def parse(output: str) -> str:
    """The observation in what a model wrote: no thoughts, the last block in tags or else all, without the marker."""
    text = _split(output)[1]
    if _CLOSE in text:
        text = text.rpartition(_CLOSE)[0]
    text = text.rpartition(_OPEN)[2].partition(_CLOSE)[0]
    return text.strip().removeprefix(_MARKER).strip()


def thought(output: str) -> bool:
    """Did a model think, or begin to? An empty block is no thought."""
    return bool(_split(output)[0].strip())


def divided(output: str, *, opened: bool = False) -> tuple[str, str]:
    """Thought and answer in what a model said when it was talked to.

    Args:
        output: What it said.
        opened: Its prompt ended within a thought. Where only a thought's end is found, its prompt did, too.
    """
    begun = output.lstrip().startswith("<think>")
    before, closed, rest = output.partition("</think>")
    if not closed and not begun and not opened:
        return "", output
    return before.strip().removeprefix("<think>").strip(), rest.lstrip("\n")


def _split(output: str) -> tuple[str, str]:
    """Thoughts and the rest. A thought may have been opened in the prompt, or be cut."""
    thoughts: list[str] = []
    rest: list[str] = []
    thinking = False
    for piece in _THINK.split(output):
        if piece == "<think>":
            thinking = True
        elif piece == "</think>":
            if not thinking:
                thoughts += rest
                rest = []
            thinking = False
        else:
            (thoughts if thinking else rest).append(piece)
    if thinking:  # what was asked for may yet follow
        thoughts[-1], opened, asked = thoughts[-1].partition(_OPEN)
        rest.append(opened + asked)
    return "".join(thoughts), "".join(rest)


def elide(text: str, limit: int) -> str:
    """The text, its middle left out if it is longer than `limit` characters, with a line that says how much.

    The result is no longer than `limit`, unless the line alone is.
    """
    if len(text) <= limit:
        return text
    room = max(0, limit - len(_left_out(len(text))))
    head, tail = text[: room - room // 2], text[len(text) - room // 2 :]
    return head + _left_out(len(text) - room) + tail


def _left_out(count: int) -> str:
    return f"\n[... {count} characters left out ...]\n"


class Window:
    """Which turns of a trajectory a prompt still holds.

    Once the turns held exceed the budget, the oldest are dropped until they use at most half of it. So turns are
    dropped seldom and many at once, and what was computed of a prompt stays its prefix for long. The newest turn is
    always held.

    Args:
        budget: Tokens of all turns together.

    Attributes:
        first: Index of the first turn held.
        dropped_tokens: Tokens of the turns dropped.
    """

    def __init__(self, budget: int) -> None:
        self.first = 0
        self.dropped_tokens = 0
        self._budget = budget
        self._held: deque[int] = deque()
        self._size = 0

    def add(self, size: int) -> None:
        """Add the next turn, with its number of tokens."""
        self._held.append(size)
        self._size += size
        if self._size <= self._budget:
            return
        while len(self._held) > 1 and self._size > self._budget // 2:
            oldest = self._held.popleft()
            self._size -= oldest
            self.dropped_tokens += oldest
            self.first += 1


def window(sizes: Sequence[int], budget: int) -> int:
    """Index of the first turn held, given the tokens of each turn, oldest first."""
    held = Window(budget)
    for size in sizes:
        held.add(size)
    return held.first
