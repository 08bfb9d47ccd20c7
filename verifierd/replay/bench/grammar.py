"""A grammar of observations: what falls out of a simulator's role cannot be said.

It excludes what `scoring.simulator.role_break` finds, and a little more: where that reads a text as JSON, this looks
for the keys of a call anywhere in a text that begins like JSON.
"""

from collections.abc import Iterable
from typing import Final

from verifierd.policy import Asking
from verifierd.scoring.echo import CALLS, FORM, spoken
from verifierd.types import Step

__all__ = ("observation",)

_LONG: Final = 4000
"""Characters of a call beyond which its echo is not excluded: the grammar would be as long, and so would the echo."""

_SHORTEST: Final = 4
"""Characters of a command that is taken for an echo when it comes back alone."""

_MARKER: Final = "**Environment Observation:**"
_OPEN, _CLOSE = "<predicted_observation>", "</predicted_observation>"
_AROUND: Final = {
    "none": "BODY",
    "marker": f'"{_MARKER}" ("\\n" BODY)?',
    "tags": f'"{_OPEN}\\n" BODY "\\n{_CLOSE}"',
}

_ANY: Final = r"(?s:.*)"
_SPACE: Final = r"[\s\x1c-\x1f]"  # what Python takes off a text's ends
_LEAD: Final = rf"{_SPACE}*(\*\*Environment Observation:\*\*)?{_SPACE}*"
_TURNS: Final = rf"{_LEAD}(<think>|<tool_call>|<function=|<\|im_start\|>|\*{{0,2}}Action:){_ANY}"
_IDENTITY: Final = r"(call|toolu|tooluse|chatcmpl|fc)[_-][\w.:-]+"
_MARKUP: Final = "<>&\"'"
_TAGS: Final = rf"{_ANY}<\/?(think|predicted_observation)>{_ANY}"


def observation(step: Step, asking: Asking, *, most: int) -> str:
    """The grammar of an answer that says what a step's observation is, in Lark's notation as llguidance reads it.

    Args:
        step: The step; its observation is not looked at.
        asking: What stands around an observation.
        most: Most characters of the observation.
    """
    excluded = [_TURNS, _TAGS, *_calls()]
    if not asking.screen:  # there, the command that was typed is part of what is seen
        excluded += _alone(step)
    terms = [rf"/(?s:.{{0,{most}}})/", *(f"~/{one}/" for one in excluded), *_echoes(step)]
    # One expression for all of it: where the observation ends is for no lexer to guess.
    return f"start: ANSWER\nANSWER: {_AROUND[asking.wrapper]}\nBODY: {' & '.join(terms)}\n"


def _calls() -> Iterable[str]:
    """JSON with the keys of a call."""
    begins = rf"{_LEAD}(```(json)?{_SPACE}*)?[{{\[]{_ANY}"
    name, argument = _key("name", "function", "action"), _key("arguments", "input", "parameters")
    yield f"{begins}{_key('tool', 'action_type', 'command', 'keystrokes')}{_ANY}"
    yield f"{begins}({name}{_ANY}{argument}|{argument}{_ANY}{name}){_ANY}"


def _key(*names: str) -> str:
    return rf'"({"|".join(names)})"{_SPACE}*:'


def _alone(step: Step) -> Iterable[str]:
    """The command, as it was given or after a prompt."""
    command = step.action.text.strip()
    if _SHORTEST <= len(command) <= _LONG:
        yield rf"{_LEAD}(\$ )?{_literal(command)}{_SPACE}*"


def _echoes(step: Step) -> Iterable[str]:
    """The call in other spellings: nothing but what was given and words of calls, of each at least one."""
    action = step.action
    values, keys = spoken(action)
    if len(action.tool) + sum(map(len, values)) > _LONG:
        return
    shell = action.command is not None
    spelt = {_spelt(value) for value in (*values, action.tool)} - {""}
    words = "|".join(sorted(_literal(word) for word in CALLS | FORM | keys))
    pieces = "|".join([r"[\W_]", r"\\+[nrt]", f"(?i:{words})", _IDENTITY, *sorted(spelt)])
    needed = _spelt(action.command or action.tool)
    called = "|".join([*sorted(CALLS), *([] if shell else [r"\("])])
    parts = (f"{_LEAD}({pieces})*", f"{_ANY}({needed}){_ANY}", f"{_ANY}(?i:{called}){_ANY}")
    yield f"({' | '.join(f'~/{part}/' for part in parts)})"


def _spelt(value: str) -> str:
    """A value as it is, within a string of JSON, of JSON in JSON, or of markup, however its words are wrapped."""
    return rf"({_SPACE}|\\+[nrt])+".join("".join(map(_sign, _valid(word))) for word in value.split())


def _sign(sign: str) -> str:
    if sign.isascii() and sign.isalnum():
        return sign
    if not sign.isascii():
        return rf"({_literal(sign)}|(\\+u[0-9a-fA-F]{{4}}){{1,2}})"
    return rf"(\\*{_literal(sign)}{r'|&#?[0-9a-z]+;' if sign in _MARKUP else ''})"


def _literal(text: str) -> str:
    return "".join(sign if sign.isascii() and sign.isalnum() else rf"\x{{{ord(sign):x}}}" for sign in _valid(text))


def _valid(text: str) -> str:
    """Without halves of surrogate pairs, which no answer can hold."""
    return text.encode(errors="replace").decode()
