"""The rows of AgentWorldBench, one a turn, and what they ask; `replay/suites/README.md` shows their layout.

A file may hold 100 MB and more, most of it histories. Only where each row stands is kept; its texts are read again when
they are needed.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from verifierd.adapters.parse import FAILURES, parse
from verifierd.errors import ConfigError
from verifierd.replay.bench.awb.reading import DIMENSIONS, unmarked
from verifierd.sanitize import plain
from verifierd.stages import Message
from verifierd.types import Action, History, Origin, Step

__all__ = ("Case", "Told", "asking", "cases", "steps", "told")

_README = "`replay/suites/README.md` says what the suite reads."
_ACTION = re.compile(r"\*\*Action:\*\*\s*(.*)", re.DOTALL)
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n```", re.DOTALL)
_SHELLS = ("terminal", "swe")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A row, and where it stands.

    Attributes:
        name: Domain, id and turn.
        domain: The last part of its task.
        group: Rows of one group are turns of one trajectory.
        depth: Turns before it.
        turns: How many turns it holds.
        path, line, offset, size: Its place.
        generated: What a model said, where the row carries it.
        failed, scores: What a judge said, where the row carries it: 0 is a success; `total_score` and dimensions.
    """

    name: str
    domain: str
    group: str
    depth: int
    turns: int
    path: Path
    line: int
    offset: int
    size: int
    generated: str | None = None
    failed: float | None = None
    scores: Mapping[str, float] = {}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a row says.

    Attributes:
        system: The system prompt; empty if there is none.
        turns: The actions so far with what they returned.
        asked: The action whose observation is asked for.
        action: The same for the judge, without what asks for it.
        truth: What it returned.
    """

    system: str
    turns: Sequence[tuple[str, str]]
    asked: str
    action: str
    truth: str


_Score = Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]
"""From 1 to 5, or 0 for none; what else somebody wrote must at least be a number to add up."""


class _Row(msgspec.Struct, frozen=True):
    """A line: unknown fields are left out."""

    task: str = "mcp"
    id: int | str = ""
    prompt: list[str] | str = []
    response: list[str] | str = []
    current_prompt: str | None = None
    system_str: str | None = None
    turn_idx: int = 1
    gen: str | None = None
    failed: float | None = None
    total_score: _Score = 0
    format: _Score = 0
    factuality: _Score = 0
    consistency: _Score = 0
    realism: _Score = 0
    quality: _Score = 0


_decoder = msgspec.json.Decoder(_Row)


def cases(path: Path, *, most: int = 0, seed: int = 0) -> list[Case]:
    """The rows of a file, or of a folder's files `*_test.jsonl`.

    Args:
        path: The file or folder.
        most: No more rows of each domain than this, drawn at random; 0 for all.
        seed: Of the draw.

    Raises:
        ConfigError: There are none, or one cannot be read.
    """
    files = sorted(path.glob("*_test.jsonl")) if path.is_dir() else [path]
    found: list[Case] = []
    names: Counter[str] = Counter()
    for file in files:
        for case in _of(file):
            names[case.name] += 1
            again = f"#{names[case.name]}" if names[case.name] > 1 else ""
            found.append(msgspec.structs.replace(case, name=f"{case.name}{again}"))
    if not found:
        raise ConfigError(
            f"{path}: holds no rows of AgentWorldBench",
            hint="Name after --data the folder with its files such as terminal_test.jsonl, or one file.",
        )
    if any(case.failed is not None for case in found):  # as the official evaluation has it, what was not judged failed
        return [case if case.failed is not None else msgspec.structs.replace(case, failed=1.0) for case in found]
    for case in found:
        if not 0 <= case.depth < case.turns:
            raise ConfigError(
                f"{case.path}:{case.line}: `turn_idx` is {case.depth + 1}, but {case.turns} prompts have a response",
                hint=_README,
            )
    return _drawn(found, most, seed) if most else found


def told(case: Case) -> Told:
    """What a row says.

    Raises:
        ConfigError: Its file has changed.
    """
    try:
        with case.path.open("rb") as file:
            file.seek(case.offset)
            row = _decode(file.read(case.size))
    except (OSError, *FAILURES) as error:
        raise ConfigError(f"{case.path}: changed while it was measured on: {error}", hint="Run it again.") from error
    prompts, responses, last = _listed(row.prompt), _listed(row.response), row.turn_idx - 1
    return Told(
        system=row.system_str or "",
        turns=list(zip(prompts[:last], responses[:last], strict=True)),
        asked=prompts[last],
        action=row.current_prompt or prompts[last],
        truth=responses[last],
    )


def asking(row: Told) -> list[Message]:
    """The talk in which a model is asked."""
    messages = [Message("system", row.system)] if row.system else []
    for action, observation in row.turns:
        messages += [Message("user", action), Message("assistant", observation)]
    return [*messages, Message("user", row.asked)]


def steps(case: Case, row: Told) -> tuple[History, Step]:
    """The row as steps, for what is measured of steps."""
    history = History(("agentworldbench", case.group))
    for number, (action, observation) in enumerate(row.turns, 1):
        history.append(_step(case, number, action, observation))
    return history, _step(case, len(row.turns) + 1, row.action, row.truth)


def _of(file: Path) -> list[Case]:
    found, offset = [], 0
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    found.append(_case(file, number, offset, line))
                offset += len(line)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}", hint=_README) from error
    return found


def _case(file: Path, number: int, offset: int, line: bytes) -> Case:
    try:
        row = _decode(line)
    except FAILURES as error:
        raise ConfigError(f"{file}:{number}: {error}", hint=_README) from error
    judged = row.failed is not None or row.total_score != 0
    domain = re.sub(r"[^a-z0-9]+", "_", row.task.rpartition("/")[2].lower()) or "mcp"
    group = f"{domain}/{plain(str(row.id))}"
    return Case(
        name=f"{group}/{row.turn_idx}",
        domain=domain,
        group=group,
        depth=row.turn_idx - 1,
        turns=min(len(_listed(row.prompt)), len(_listed(row.response))),
        path=file,
        line=number,
        offset=offset,
        size=len(line),
        generated=row.gen,
        failed=(1.0 if row.failed is None else row.failed) if judged else None,
        scores={name: getattr(row, name) for name in (*DIMENSIONS, "total_score")} if judged else {},
    )


def _decode(line: bytes) -> _Row:
    """A row; where a text holds what is no character, such as half of a pair of surrogates, a mark stands for it.

    Raises:
        DecodeError, RecursionError: It is none.
    """
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        found = parse(line)
        if found.damage != "repaired":
            raise
    return msgspec.convert(found.objects[0], _Row)


def _drawn(found: Sequence[Case], most: int, seed: int) -> list[Case]:
    """Some of each domain, in their order."""
    kept: set[str] = set()
    for domain in sorted({case.domain for case in found}):
        names = [case.name for case in found if case.domain == domain]
        kept.update(random.Random(f"{seed}/{domain}").sample(names, min(most, len(names))))  # noqa: S311 - no secret
    return [case for case in found if case.name in kept]


def _listed(texts: list[str] | str) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _step(case: Case, number: int, action: str, observation: str) -> Step:
    return Step(
        format="agentworldbench",
        trajectory=case.group,
        index=number,
        action=_action(action, case.domain),
        observation=unmarked(observation),
        domain=case.domain,
        origin=Origin(path=case.path.name, offset=case.offset),
    )


def _action(text: str, domain: str) -> Action:
    """The action in a prompt: keystrokes that type whole lines are a command; else a call in JSON, or a text."""
    found = _ACTION.search(text)
    body = text if found is None else found[1]
    fenced = _FENCED.search(body)
    try:
        value = json.loads(fenced[1] if fenced else body)
    except (ValueError, RecursionError):
        return Action(tool=domain, input=body.strip())
    if isinstance(value, dict):
        arguments = value.get("arguments", value)
        return Action(tool=str(value.get("name", domain)), input=arguments if isinstance(arguments, dict) else value)
    keys = [item.get("keystrokes") for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    typed = "".join(key for key in keys if isinstance(key, str))
    command = typed.strip() if domain in _SHELLS and typed.endswith("\n") else None
    return Action(tool=domain, input=body.strip(), command=command)
