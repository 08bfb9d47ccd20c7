"""`verifierd contracts`: the rules with their support, and what clean logs say of them."""

from pathlib import Path
from typing import Any

import anyio
import click
from rich.table import Table
from rich.text import Text

from verifierd.cli import tell
from verifierd.cli.inputs import expand_inputs
from verifierd.cli.options import format_option, json_option
from verifierd.cli.view import console, counted, print_json
from verifierd.contracts.document import bundled
from verifierd.errors import SourceError, StateError
from verifierd.replay.mining import mine, rules, trajectories
from verifierd.sanitize import Sanitizer, plain

__all__ = ("command",)


@click.group("contracts")
def command() -> None:
    """What every real step must obey: list the rules, or measure them on clean logs and look for new ones."""


@command.command("list")
@click.argument("rule", required=False)
@json_option
def list_(rule: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """List the rules with their support, or show one RULE with its examples."""
    rows = rules()
    if rule is not None:
        rows = [row for row in rows if row["rule"] == rule]
        if not rows:
            raise click.UsageError(f"no rule is called `{rule}`; `verifierd contracts list` names them all")
    if as_json:
        print_json({"rules": rows})
    elif rule is not None:
        _show(rows[0])
    else:
        _list(rows)


def _show(row: dict[str, Any]) -> None:
    (found,) = (rule for rule in bundled()[row["family"]].rule if rule.id == row["rule"])
    click.echo(f"{found.id}: {found.says}")
    click.echo(f"  concerns {', '.join(row['concerns'])}; check `{found.check.value}`; given {found.given}")
    click.echo(f"  {'decides' if found.deciding else 'only lowers the score'}; {_support(row)}")
    click.echo(f"  policies/contracts/{row['family']}.toml")
    for example in found.examples:
        action = example.command if example.command is not None else f"{example.tool} {example.input}"
        for name, text in (("action", action), ("obeys", example.obeys), ("breaks", example.breaks)):
            click.echo(f"\n  {name}")
            for line in text.rstrip("\n").split("\n"):
                click.echo(f"    {plain(line)}")


def _support(row: dict[str, Any]) -> str:
    power = "not measured" if row["power"] is None else f"{row['power']:.2f}"
    return (
        f"held in {row['steps'] - row['violated']} of {row['steps']} steps of {row['sessions']} sessions; power {power}"
    )


def _list(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("rule", no_wrap=True)
    for name in ("steps", "sessions", "broken", "power"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("what it says")
    family = None
    for row in rows:
        if row["family"] != family:
            family = row["family"]
            table.add_row(Text(family, style="bold"))
        table.add_row(
            Text(f"  {row['rule']}", style="" if row["deciding"] else "dim"),
            str(row["steps"]),
            str(row["sessions"]),
            str(row["violated"]),
            "" if row["power"] is None else f"{row['power']:.2f}",
            Text(row["says"]),
        )
    screen = console()
    screen.print(table)
    screen.print(f"{len(rows)} rules; those with power below 0.5 cover nothing but can contradict", style="dim")


@command.command("mine")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws other sessions' observations.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the proposals there, for review.")
@format_option
@json_option
def mine_(
    paths: tuple[str, ...],
    seed: int,
    out: Path | None,
    format_name: str | None,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> None:
    """Measure the rules on clean logs (files, folders, globs), say where they failed, and propose new ones.

    Nothing is added to the policies: proposals are for people to review.
    """
    steps = anyio.run(_read, paths, format_name or "auto")
    if not steps:
        raise SourceError("no step was found in these logs", hint="`verifierd inspect` says what is in them.")
    rows, proposals = mine(steps, seed=seed)
    clean = Sanitizer(b"mine").text
    fragments = [proposal.toml(clean) for proposal in proposals]
    if out is not None:
        try:
            out.write_text("\n\n".join(fragments) + "\n", encoding="utf-8")
        except OSError as error:
            raise StateError(f"{out}: {error.strerror or error}", hint="Name another file after --out.") from error
    if as_json:
        print_json(
            {
                "rules": rows,
                "proposals": [_json(proposal, toml) for proposal, toml in zip(proposals, fragments, strict=True)],
            }
        )
        return
    _mined(rows)
    click.echo(f"\n{counted(len(proposals), 'proposal')} for review" + (f", in {out}" if out else ""))
    if out is None:
        for fragment in fragments:
            click.echo("\n" + fragment)


async def _read(paths: tuple[str, ...], format: str) -> Any:
    return await trajectories(expand_inputs(paths, tell), format=format, tell=tell)


def _json(proposal: Any, toml: str) -> dict[str, Any]:
    names = ("name", "tool", "says", "check", "text", "steps", "sessions", "violated", "bound", "power")
    return {**{name: getattr(proposal, name) for name in names}, "toml": toml}


def _mined(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("rule")
    for name in ("steps", "sessions", "broken", "sessions <", "power"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["rule"],
            str(row["steps"]),
            str(row["sessions"]),
            str(row["violated"]),
            f"{row['bound']:.1%}",
            "" if row["power"] is None else f"{row['power']:.2f}",
        )
    screen = console()
    screen.print(table)
    screen.print("sessions <: with 95 % confidence fewer than this share of sessions break the rule", style="dim")
    for row in rows:
        for broken in row["violations"]:
            screen.print(Text(f"\n{row['rule']} broken in {broken['path']}, step {broken['step']}"))
            screen.print(Text(f"  {broken['says']}; {broken['found']}"))
