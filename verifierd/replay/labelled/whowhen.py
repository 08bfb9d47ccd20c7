"""Who&When runs: agents that talk with each other, and few of which touch anything.

What touches the world is a terminal that runs the code of an earlier message, a web surfer that says in one message
what it did and what it then saw, and a file surfer that shows what it was asked to open. All else is talk:
instructions, plans, summaries, a terminal that found no code to run.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from verifierd.replay.labelled.base import Call, Label, Trace
from verifierd.types import Action

__all__ = ("judged", "second", "trace")

_TERMINALS = ("Computer_terminal", "ComputerTerminal")
_RAN = re.compile(r"exitcode: (-?\d{1,9}) \(|The script ran, then exited with Unix exit code: (-?\d{1,9})\n")
_SCREEN = "Here is a screenshot of "
_PAGE = "Address: "


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: str | None = None
    name: str | None = None

    @property
    def speaker(self) -> str:
        return self.name or self.role

    @property
    def text(self) -> str:
        return self.content or ""


class _Raw(msgspec.Struct, frozen=True):
    history: list[_Message]


def trace(raw: dict[str, Any]) -> Trace:
    """What the agents did to the world, and what it answered.

    Raises:
        msgspec.ValidationError: The case has another shape.
    """
    history = msgspec.convert(raw, _Raw).history
    calls = []
    code: tuple[int, str] | None = None
    for position, message in enumerate(history):
        if message.speaker in _TERMINALS:
            calls += _run(message, position, code)
            code = None
            continue
        if blocks := _blocks(message.text):
            code = position, blocks
        if message.speaker == "WebSurfer":
            calls += _surfed(message, position)
        elif message.speaker == "FileSurfer" and message.text.startswith(_PAGE):
            calls.append(
                Call(
                    position=position,
                    observed=position,
                    action=Action(tool=message.speaker, input=_instruction(history, position)),
                    domain="web",
                    observation=message.text,
                )
            )
    return Trace(calls=calls, length=len(history))


def judged(label: Label, length: int) -> frozenset[int] | None:  # noqa: ARG001 - as the other sets
    """The decisive step alone: nobody says that the others are right."""
    return frozenset(step - label.step_base for step in label.bad_steps)


def second(label: Label) -> frozenset[int]:
    """The step that the other set of labels calls the root cause."""
    step = label.agentrx_root_cause_step_1based
    return frozenset() if step is None else frozenset({step - 1})


def _run(message: _Message, position: int, code: tuple[int, str] | None) -> list[Call]:
    """The run of the code that was last shown, if the terminal ran it."""
    ran = _RAN.match(message.text)
    if ran is None or code is None:
        return []
    return [
        Call(
            position=code[0],
            observed=position,
            action=Action(tool=message.speaker, input=code[1]),
            domain="terminal",
            observation=message.text,
            exit_code=int(ran[1] or ran[2]),
        )
    ]


def _surfed(message: _Message, position: int) -> list[Call]:
    """What the surfer says that it did, and the page from there on; without a page it only talks."""
    done, mark, page = message.text.partition(_SCREEN)
    if not mark:
        return []
    return [
        Call(
            position=position,
            observed=position,
            action=Action(tool=message.speaker, input=done.rstrip()),
            domain="web",
            observation=mark + page,
        )
    ]


def _instruction(history: Sequence[_Message], position: int) -> str:
    """What the file surfer was last asked for: the log does not tell what it then did."""
    asked = (message.text for message in reversed(history[:position]) if message.speaker.endswith("(-> FileSurfer)"))
    return next(asked, "")


def _blocks(text: str) -> str:
    """The fenced code of a message, fences and languages included; empty if there is none."""
    kept: list[str] = []
    block: list[str] | None = None
    for line in text.splitlines():
        if block is None:
            language = line.rpartition("```")[2].strip()
            if "```" in line and (not language or language.isidentifier()):
                block = [f"```{language}"]
        else:
            block.append(line)
            if line.strip().startswith("```"):
                kept += block
                block = None
    return "\n".join(kept)
