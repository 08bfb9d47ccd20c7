"""Records the native format: interleaved trajectories of shell commands and file tools, one step a line."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from verifierd.errors import FormatError
from verifierd.replay.bash import BashStep, RealBash
from verifierd.replay.record.files import edit_file, read_file, search_files, write_file
from verifierd.replay.record.invention import Invention
from verifierd.replay.record.script import Move, Part, Script, batches

__all__ = ("record",)

_FILE_TOOLS = {"Read": read_file, "Write": write_file, "Edit": edit_file, "Grep": search_files}


def record(script: Script, invention: Invention) -> dict[str, list[Any]]:
    """One file; each trajectory has a home and a shell of its own, whose variables and functions last."""
    lines: list[Any] = []
    with ExitStack() as stack:
        running = [
            _steps(part, stack.enter_context(RealBash(project=part.project)), invention) for part in script.parts
        ]
        while running:
            steps = invention.choose(running)
            line = next(steps, None)
            if line is None:
                running.remove(steps)
            else:
                lines.append(line)
    return {f"{script.name}.jsonl": lines}


def _steps(part: Part, bash: RealBash, invention: Invention) -> Iterator[dict[str, Any]]:
    cwd = bash.run(part.setup).cwd
    answers: dict[str, BashStep] = {}
    number = 0
    for batch in batches(part.moves):
        first = number + 1
        for move in batch:
            if move.behind is not None:
                bash.run(move.behind)
                continue
            number += 1
            if move.run is None:
                yield _line(part, number, invention, cwd) | _used(bash, move)
                continue
            done = bash.run(move.run)
            if move.stale and move.run not in answers:
                raise FormatError(
                    f"`{part.name}` has a stale answer to `{move.run}`, which did not run before",
                    hint="A stale move repeats a command of the same trajectory.",
                )
            shown = answers[move.run] if move.stale else done
            answers[move.run] = done
            line = _line(part, number, invention, cwd)
            line |= {"action": move.run, "observation": shown.text, "exit_code": shown.exit_code}
            if len(batch) > 1:
                line["batch"] = f"{part.name}-{first}"
            if move.label is not None:
                line |= {"label": "off_path", "label_kind": move.label}
            yield line
            cwd = done.cwd


def _line(part: Part, number: int, invention: Invention, cwd: str) -> dict[str, Any]:
    line = {"trajectory": part.name, "step": number, "timestamp": invention.time(4), "cwd": cwd}
    return line | {"domain": part.domain} if part.domain else line


def _used(bash: RealBash, move: Move) -> dict[str, Any]:
    """A file tool's call and answer."""
    if move.tool not in _FILE_TOOLS:
        raise FormatError(
            f"the native format has no move of `{move.tool}`", hint=f"It has {', '.join(_FILE_TOOLS)} and `run`."
        )
    answer = _FILE_TOOLS[move.tool](bash, move.input)
    return {"action": {"tool": move.tool, "input": move.input}, "observation": answer.content}
