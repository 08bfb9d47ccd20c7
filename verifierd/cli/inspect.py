"""`verifierd inspect`: what is in logs, without predicting anything."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import click
from rich.console import Console
from rich.text import Text

from verifierd.cli.inputs import Troubles, expand_inputs
from verifierd.cli.options import format_option, json_option
from verifierd.cli.view import console, counted, indented, print_json
from verifierd.errors import FormatError, SourceError
from verifierd.replay.survey import survey, total

__all__ = ("command",)

_MOST_TOOLS = 8


@click.command("inspect")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@format_option
@json_option
def command(paths: tuple[str, ...], format_name: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Say what is in logs (files, folders, globs, or - for standard input): formats, trajectories, steps, kinds.

    Exits with 1 if something could not be read, or nothing was found.
    """
    troubles = Troubles()
    screen = None if as_json else console()
    found = anyio.run(_survey, expand_inputs(paths, troubles), format_name or "auto", screen, troubles)
    if as_json:
        print_json({"files": found, "total": total(found)})
    elif screen is not None and len(found) > 1:
        _show(screen, f"{len(found):,} files", {**total(found), "format": "all"})
    if troubles.unread or not found:
        sys.exit(1)


async def _survey(
    files: Sequence[Path | None], format: str, screen: Console | None, tell: Troubles
) -> list[dict[str, Any]]:
    """Each file that can be understood; shown as soon as it is known."""
    found: list[dict[str, Any]] = []
    for path in files:
        try:
            file = await survey(path, format=format)
        except (SourceError, FormatError) as error:
            tell(error)
        else:
            found.append(file)
            if screen is not None:
                _show(screen, file["path"], file)
    return found


def _show(screen: Console, name: str, file: Mapping[str, Any]) -> None:
    """A file in a few lines: numbers stay beside their words, however narrow the screen is."""
    kinds = {kind: count for kind, count in file["by_kind"].items() if kind != "env"}
    head = [
        " ".join(filter(None, (file["format"], file.get("version")))),
        counted(file["trajectories"], "trajectory"),
        f"{counted(file['steps'], 'step')} ({file['shell_steps']:,} shell)",
        f"{file['paired']:,} of {counted(file['calls'], 'call')} paired",
    ]
    screen.print(Text(name, style="bold", overflow="fold"))
    _row(screen, ", ".join(head))
    for title, counts in (
        ("tools", _first(file["by_tool"])),
        ("not judged", kinds),
        ("unread lines", file["quarantined"]),
        ("records of unknown type", _first(file["unknown_records"])),
    ):
        if counts:
            _row(screen, f"{title}: {', '.join(f'{key} {count:,}' for key, count in counts.items())}")
    for habit in file.get("profile", ()):
        among = f" ({counted(habit['trajectories'], 'trajectory')})" if file["trajectories"] > 1 else ""
        _row(screen, f"{habit['habit']}{among}: {habit['evidence']}")


def _row(screen: Console, text: str) -> None:
    indented(screen, text, Text("    "), style="dim")


def _first(counts: Mapping[str, int]) -> dict[str, int]:
    """The largest counts, the others added up."""
    largest = sorted(counts.items(), key=lambda item: -item[1])
    others = sum(count for _, count in largest[_MOST_TOOLS:])
    return {**dict(largest[:_MOST_TOOLS]), **({"others": others} if others else {})}
