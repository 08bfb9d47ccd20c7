"""`foreign`: the observation answers another action. A hint, never a verdict.

It compares with the trajectory itself: which tool answers how, and what was answered to what. So it needs no model and
knows no tool beforehand, but sees nothing in a trajectory's first steps.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from verifierd.contracts.checks import pattern
from verifierd.scoring.echo import echoes
from verifierd.scoring.injection import readable
from verifierd.types import Action, History, ObservationKind, Prediction, Score, Signal, Step

__all__ = ("foreign", "objects")

_WINDOW = 150
_SHORTEST = 20  # characters; shorter answers repeat by chance
_HEAD = 240
_LONGEST = 2000  # characters of an action that are looked at


def foreign(history: History, step: Step, _prediction: Prediction) -> Score:
    """Is it what was given, or of another object, or another action's answer, or of another tool's form?

    On 4,872 clean steps of real sessions 0.1 % give this hint, of swapped ones most; README.md has the figures.
    """
    if step.observation_kind is not ObservationKind.ENV or not step.observation.strip():
        return Score(name="foreign", reason="nothing came back")
    past = [other for other in history[-_WINDOW:] if other.observation_kind is ObservationKind.ENV]
    signals = (*_given(step), *_named(step), *_repeated(past[:-1], step), *_shaped(past, step))
    return Score(name="foreign", signals=signals)


def _given(step: Step) -> Iterator[Signal]:
    """It is the input itself, as JSON; with the tool's name it is the whole call, and `echoed_call` decides."""
    text, given = step.observation.strip(), step.action.input
    if not given or not text.startswith("{") or len(text) > 2 * len(step.action.text) + _HEAD:
        return
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return
    if isinstance(value, dict) and given in (value, *value.values()) and not echoes(step.action, text):
        yield Signal(name="foreign", value=1.0, span=(0, len(step.observation)), detail="is what was given, no result")


_FIELD = re.compile(r"(?:\A|_)(?:id|number|key|sha|email|code)\Z")
_NAMED = re.compile(r"[#\w][\w.@#-]{1,60}")


def _named(step: Step) -> Iterator[Signal]:
    """A field that the action gave comes back with another value."""
    head = step.observation[: 4 * _HEAD]
    for name, value in step.action.fields.items():
        if not isinstance(value, str) or not _FIELD.search(name) or not _NAMED.fullmatch(value):
            continue
        if value in step.observation:
            continue
        found = re.search(
            rf"""(?:["']|^[ -]{{0,4}}){re.escape(name)}["']?: ["']?([#\w][\w.@#-]{{1,60}})""", head, re.MULTILINE
        )
        if found is not None:
            detail = f"`{name}` is “{found[1]}”; “{value}” was asked for"
            yield Signal(name="foreign", value=1.0, span=found.span(1), detail=detail)
            return


def _repeated(past: Sequence[Step], step: Step) -> Iterator[Signal]:
    """An earlier action, about something else, got this very answer; the one just before is `stale`'s matter."""
    text = step.observation.strip()
    if len(text) < _SHORTEST:
        return
    size = len(step.observation)
    same = [
        other for other in past if abs(len(other.observation) - size) < _SHORTEST and other.observation.strip() == text
    ]
    mine = _asked(step.action)
    if not same or any(_asked(other.action) == mine for other in same):
        return  # so this tool answers always
    before = same[-1]
    if objects(before.action) & objects(step.action) or before.action == step.action:
        return
    detail = f"is what step {before.index} (`{_asked(before.action)}`) was answered"
    yield Signal(name="foreign", value=0.9, span=(0, len(step.observation)), detail=detail)


def _shaped(past: Sequence[Step], step: Step) -> Iterator[Signal]:
    """It begins as another tool's answers do here, and as none of this tool's."""
    mine, shape = _asked(step.action), _shape(step.observation[:_HEAD])
    own = 0
    others: Counter[str] = Counter()
    for other in past:
        name = _asked(other.action)
        if _shape(other.observation[:_HEAD]) != shape:
            own += name == mine
        elif name == mine:
            return
        else:
            others[name] += 1
    if own < 2 or others.total() < 3:
        return
    name, count = others.most_common(1)[0]
    if count >= 0.8 * others.total():
        start = len(step.observation) - len(step.observation.lstrip())
        end = step.observation.find("\n", start)
        detail = f"begins as the answers of `{name}` do here ({count} of them), and none of `{mine}`"
        yield Signal(name="foreign", value=0.7, span=(start, end if end > 0 else len(step.observation)), detail=detail)


_START = re.compile(r"\s*(?:cd\s+\S+\s*(?:&&|;|\n)\s*)?(?:\w+=\S*\s+)*(\S+)(?:\s+([a-z][\w-]*))?")
_WITH_SUBCOMMANDS = frozenset(
    {"brew", "bun", "cargo", "docker", "gh", "git", "go", "kubectl", "mise", "npm", "npx", "pip", "rtk", "uv"}
)


def _asked(action: Action) -> str:
    """The tool, or the first program of a command line with its subcommand."""
    return action.tool if action.command is None else _program(action.command[:_HEAD])


@lru_cache(maxsize=4096)
def _program(command: str) -> str:
    found = _START.match(command)
    if found is None:
        return "shell"
    return f"{found[1]} {found[2]}" if found[1] in _WITH_SUBCOMMANDS and found[2] else found[1]


_OBJECT = r"[\w@#~/\\-]*[./#_\d][\w./@#-]{2,}|[\w-]{12,}"


def objects(action: Action) -> set[str]:
    """The paths and identifiers that an action names."""
    if action.command is not None:
        texts = [action.command[:_LONGEST]]
    elif isinstance(action.input, str):
        texts = [action.input[:_LONGEST]]
    else:
        texts = [value for value in action.input.values() if isinstance(value, str) and len(value) <= _LONGEST // 4]
    return {re.split(r"[/\\]", word)[-1] for text in texts for word in pattern(_OBJECT).findall(readable(text))}


_JSON = re.compile(r'\s*(\[?\s*\{)\s*"(\w+)"\s*:(?:\s*"[^"\n]{0,80}"|[^"{}\[\]]{0,40})?,?\s*(?:"(\w+)"\s*:)?')
_VARYING = re.compile(r"\d+|\S*[/\\]\S*|'[^'\n]*'|\"[^\"\n]*\"|“[^”\n]*”|`[^`\n]*`")


@lru_cache(maxsize=8192)
def _shape(head: str) -> str:
    """How a text begins: the first keys of JSON, or the first four words without what varies."""
    if found := _JSON.match(head):
        return f"{found[1][0]}{found[2]},{found[3]}"
    line = head.strip().partition("\n")[0]
    return " ".join(_VARYING.sub("_", line).split()[:4])
