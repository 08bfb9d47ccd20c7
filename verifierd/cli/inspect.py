"""`verifierd inspect`: what is in logs, without predicting anything."""

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import click
import msgspec
from rich.table import Table
from rich.text import Text

from verifierd.cli.inputs import expand_inputs
from verifierd.cli.options import format_option, json_option
from verifierd.cli.view import console
from verifierd.errors import FormatError, SourceError
from verifierd.replay.survey import survey, total
from verifierd.sanitize import plain

__all__ = ("command",)


@click.command("inspect")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@format_option
@json_option
def command(paths: tuple[str, ...], format_name: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Say what is in logs (files, folders, globs, or - for standard input): formats, trajectories, steps, kinds."""
    found: list[dict[str, Any]] = []
    failed = 0
    for path in expand_inputs(paths):
        try:
            found.append(anyio.run(partial(survey, path, format=format_name or "auto")))
        except (SourceError, FormatError) as error:
            failed += 1
            click.echo(f"verifierd: {error.message}\n  {error.hint}", err=True)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode({"files": found, "total": total(found)}) + b"\n")
    else:
        _show(found)
    if not found:
        sys.exit(1)


def _show(found: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("file", overflow="fold")
    table.add_column("format", no_wrap=True)
    for name in ("trajectories", "steps", "shell", "calls", "paired"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("not judged, unread")
    for file in [*found, {"path": "total", "format": "", **total(found)}] if len(found) > 1 else found:
        table.add_row(
            Text(plain(file["path"])),
            Text(" ".join(filter(None, (file["format"], plain(str(file.get("version") or "")))))),
            *(str(file.get(key, 0)) for key in ("trajectories", "steps", "shell_steps", "calls", "paired")),
            Text(_rest(file), style="dim"),
        )
    console().print(table)


def _rest(file: Mapping[str, Any]) -> str:
    kinds = {kind: count for kind, count in file.get("by_kind", {}).items() if kind != "env"}
    unknown = sum(file.get("unknown_records", {}).values())
    parts = [f"{kind} {count}" for kind, count in kinds.items()]
    parts += [f"{count} lines {reason}" for reason, count in file.get("quarantined", {}).items()]
    if unknown:
        parts.append(f"{unknown} other records")
    return ", ".join(parts)
