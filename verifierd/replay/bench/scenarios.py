"""Random terminal scenarios: commands drawn by seed, their truth by running them in this machine's real bash.

    python -m verifierd.replay.bench.scenarios --seed 0 --steps 50 --out scenario.jsonl

writes one in the native format. `replay/suites/data/scenarios.txt` holds what commands are made of. A scenario begins
in an empty folder, so that all that can be known was shown: unlike the certification's cases, each of which tries one
command in a tree that no observation shows.
"""

import argparse
import random
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from verifierd.bundled import root
from verifierd.errors import ConfigError
from verifierd.replay.bash import RealBash
from verifierd.replay.cases import WORDS
from verifierd.types import Action, Origin, Step

__all__ = ("Scenario", "commands", "main", "play")

_NEEDED = ("awk", "bash", "comm", "cut", "diff", "find", "git", "grep", "join", "paste", "rev", "sed", "sort", "xargs")
_LEVELS = ("INFO", "WARN", "ERROR")
_SORTS = ("txt", "csv", "log")
_PLACE = "/home/user/proj"
_SECTION = re.compile(r"\[(\w+) (\d+)\]")
_MARK = re.compile(r"«([^»]+)»")
_FIRST = "first:"


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What was run.

    Attributes:
        steps: The steps with their true observations.
        stable: Of each, whether a second run in another empty home printed the same, and so it can be asked for.
    """

    steps: tuple[Step, ...]
    stable: tuple[bool, ...]


class _Section(msgspec.Struct, frozen=True):
    name: str
    weight: int
    first: str | None
    lines: tuple[str, ...]


def commands(seed: str, count: int) -> list[str]:
    """The commands of a scenario; the seed alone decides them."""
    world = _World(random.Random(seed))  # noqa: S311 - nothing secret
    sections = _sections()
    weights = [section.weight for section in sections]
    begun: set[str] = set()
    drawn: list[str] = []
    while len(drawn) < count:
        section = sections[0] if not drawn else world.draw.choices(sections, weights)[0]
        line = world.draw.choice(section.lines)
        if section.first is not None and section.name not in begun:
            line = section.first
        command = world.filled(line)
        if command is not None:
            begun.add(section.name)
            drawn.append(command)
    return drawn


@cache
def _sections() -> tuple[_Section, ...]:
    text = (root("replay") / "suites" / "data" / "scenarios.txt").read_text(encoding="utf-8")
    found: list[_Section] = []
    for line in text.splitlines():
        if match := _SECTION.fullmatch(line):
            found.append(_Section(match[1], int(match[2]), None, ()))
        elif line and found:
            last = found[-1]
            if line.startswith(_FIRST):
                found[-1] = msgspec.structs.replace(last, first=line.removeprefix(_FIRST))
            else:
                found[-1] = msgspec.structs.replace(last, lines=(*last.lines, line))
    return tuple(found)


class _World:
    """What the commands so far have made, roughly: bash has the last word, and an error is an observation, too.

    Args:
        draw: Decides.
    """

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self._have: dict[str, list[str]] = {kind: [] for kind in (*_SORTS, "dir", "var", "fun", "tracked")}
        self._count = 0

    def filled(self, line: str) -> str | None:
        """A line as a command; None, and nothing has changed, where something that it names is not there."""
        marks = dict.fromkeys(_MARK.findall(line))
        chosen: dict[str, str] = {}
        for mark in marks:
            if not mark.startswith("+"):
                value = self._old(mark, set(chosen.values()))
                if value is None:
                    return None
                chosen[mark] = value
        if "+tracked" in marks:
            fresh = [file for file in self._files if file not in self._have["tracked"]]
            if not fresh:
                return None
            chosen["+tracked"] = self.draw.choice(fresh)
        for mark in marks:
            if mark.startswith("+"):
                chosen[mark] = self._new(mark[1:], chosen)
        if "-file" in chosen:
            self._have[_sort(chosen["-file"])].remove(chosen["-file"])
        return _MARK.sub(lambda match: chosen[match[1]], line).replace("⏎", "\n")

    @property
    def _files(self) -> list[str]:
        return [file for sort in _SORTS for file in self._have[sort]]

    def _old(self, mark: str, taken: set[str]) -> str | None:
        """What a mark stands for that is there, or that needs nothing to be there."""
        kind = mark.rstrip("0123456789").removeprefix("-")
        if kind in _MADE:
            return _MADE[kind](self.draw)
        there = self._files if kind == "file" else self._have[kind]
        left = [one for one in there if one not in taken]
        return self.draw.choice(left) if left else None

    def _new(self, kind: str, chosen: Mapping[str, str]) -> str:
        if kind == "tracked":
            name = chosen["+tracked"]
        else:
            kind = _sort(chosen.get("file") or chosen["-file"]) if kind == "same" else kind
            self._count += 1
            name = f"{self.draw.choice(WORDS)}{self._count}"
            if kind in _SORTS:
                folder = f"{self.draw.choice(self._have['dir'])}/" if self._have["dir"] and self._rarely() else ""
                name = f"{folder}{name}.{kind}"
        self._have[kind].append(name)
        return name

    def _rarely(self) -> bool:
        return self.draw.random() < 0.3


def _sort(file: str) -> str:
    return file.rpartition(".")[2]


def _words(draw: random.Random) -> list[str]:
    return draw.choices(WORDS, k=draw.randint(3, 8))


def _rows(draw: random.Random) -> list[str]:
    return [f"{word},{draw.randint(1, 99)}" for word in draw.sample(WORDS, draw.randint(3, 6))]


def _lines(draw: random.Random) -> list[str]:
    return [f"{draw.choice(_LEVELS)} {draw.choice(WORDS)} code={draw.randint(1, 9)}" for _ in range(draw.randint(4, 8))]


_MADE: Mapping[str, Callable[[random.Random], str]] = {
    "word": lambda draw: draw.choice(WORDS),
    "letter": lambda draw: draw.choice(WORDS)[0],
    "level": lambda draw: draw.choice(_LEVELS),
    "digit": lambda draw: str(draw.randint(3, 9)),
    "number": lambda draw: str(draw.randint(10, 60)),
    "words": lambda draw: " ".join(_words(draw)),
    "txt-lines": lambda draw: "\n".join(_words(draw)),
    "csv-lines": lambda draw: "\n".join(_rows(draw)),
    "csv-escaped": lambda draw: r"\n".join(_rows(draw)),
    "log-lines": lambda draw: "\n".join(_lines(draw)),
}


def play(name: str, seed: str, count: int) -> Scenario:
    """Draw a scenario and run it, twice.

    Args:
        name: Of the trajectory.
        seed: The same seed gives the same commands, and with the same programs the same observations.
        count: Steps.

    Raises:
        ConfigError: A program that it needs is not here.
    """
    if missing := [program for program in _NEEDED if shutil.which(program) is None]:
        raise ConfigError(
            f"scenarios need {', '.join(missing)}, not found here", hint="Install it, or measure on --data FILE."
        )
    drawn = commands(seed, count)
    one, other = _run(name, drawn), _run(name, drawn)
    return Scenario(
        steps=tuple(one), stable=tuple(a.observation == b.observation for a, b in zip(one, other, strict=True))
    )


def _run(name: str, drawn: Sequence[str]) -> list[Step]:
    steps = []
    with RealBash() as bash:
        cwd = _PLACE
        for number, command in enumerate(drawn, 1):
            done = bash.run(command)
            steps.append(
                Step(
                    format="native",
                    trajectory=name,
                    index=number,
                    action=Action(tool="bash", input=command, command=command),
                    observation=done.text,
                    exit_code=done.exit_code,
                    cwd=cwd,
                    origin=Origin(path="bash", offset=number),
                )
            )
            cwd = done.cwd
    return steps


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m verifierd.replay.bench.scenarios", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    options = parser.parse_args(arguments)
    scenario = play(f"random-{options.seed}", str(options.seed), options.steps)
    lines = (
        {
            "trajectory": step.trajectory,
            "step": step.index,
            "cwd": step.cwd,
            "action": step.action.input,
            "observation": step.observation,
            "exit_code": step.exit_code,
        }
        for step in scenario.steps
    )
    options.out.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
