"""`verifierd contracts`: the rules with their support, and what clean logs say of them."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import click
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from verifierd.cli.inputs import Troubles, expand_inputs, spare
from verifierd.cli.options import format_option, json_option
from verifierd.cli.view import bar, console, counted, indented, print_json
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.errors import SourceError, StateError, VerifierdError
from verifierd.replay.mining import fragment, mine, proposal_row, rules, trajectories
from verifierd.sanitize import plain
from verifierd.types import Step

__all__ = ("command",)

_WIDEST = 32
_MOST_VIOLATIONS = 5
_MEANING = (
    "<: with 95 % confidence fewer than this share of steps, or of sessions, break the rule; those with a power below"
    " 0.5 add nothing to what is covered"
)


@click.group("contracts")
def command() -> None:
    """What every real step must obey: list the rules, or measure them on clean logs and look for new ones."""


@command.command("list")
@click.argument("rule", required=False)
@click.option("--family", metavar="NAME", help="Only the rules of this document.")
@json_option
def list_(rule: str | None, family: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """List the rules with their support, or show one RULE with its examples."""
    Contracts(bundled())  # refuses documents that could not be applied
    if family is not None and family not in bundled():
        raise click.BadParameter(
            f"no document is called `{plain(family)}`; known ones: {', '.join(bundled())}", param_hint="--family"
        )
    rows = [row for row in rules() if family in (None, row["family"])]
    if rule is not None:
        rows = [row for row in rows if row["rule"] == rule]
        if not rows:
            raise click.UsageError(f"no rule is called `{plain(rule)}`; `verifierd contracts list` names them all")
    if as_json:
        print_json({"rules": rows})
    elif rule is not None:
        _show(rows[0])
    else:
        _list(rows)


def _show(row: Mapping[str, Any]) -> None:
    (found,) = (rule for rule in bundled()[row["family"]].rule if rule.id == row["rule"])
    click.echo(f"{found.id}: {found.says}")
    click.echo(f"  concerns {', '.join(row['concerns'])}; check `{found.check.value}`; given {found.given}")
    click.echo(f"  {'decides' if found.deciding else 'does not decide: a violation is shown as unusual only'}")
    click.echo(f"  {_support(row)}")
    click.echo(f"  policies/contracts/{row['family']}.toml")
    for example in found.examples:
        action = example.command if example.command is not None else f"{example.tool} {example.input}"
        past = [f"{step.command or step.tool} -> {step.observation}" for step in example.history]
        for name, text in (
            *(("before", step) for step in past),
            ("action", action),
            ("obeys", example.obeys),
            ("breaks", example.breaks),
        ):
            click.echo(f"\n  {name}")
            for line in text.rstrip("\n").split("\n"):
                click.echo(f"    {plain(line)}" if line else "    (nothing)" if not text.strip() else "")


def _support(row: Mapping[str, Any]) -> str:
    if not row["steps"]:
        return "not measured: it was in force in no step of the logs that were there"
    power = "not measured" if row["power"] is None else f"{row['power']:.2f}"
    return (
        f"held in {row['steps'] - row['violated']:,} of {counted(row['steps'], 'step')}"
        f" of {counted(row['sessions'], 'session')} (broken by < {_share(row['bound'])} of steps,"
        f" < {_share(row['session_bound'])} of sessions); power {power}"
    )


def _list(rows: Sequence[Mapping[str, Any]]) -> None:
    screen = console()
    screen.print(_line("rule", ("steps", "broken", "<", "sessions", "<", "power"), "", style="dim"))
    family = None
    for row in rows:
        if row["family"] != family:
            family = row["family"]
            screen.print(Text(family, style="bold"))
        screen.print(_line(f"  {row['rule']}", _figures(row), "" if row["deciding"] else "does not decide"))
        indented(screen, row["says"], Text("      "), style="dim")
    screen.print(Text(f"\n{counted(len(rows), 'rule')}; {_MEANING}", style="dim"))


def _figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    if not row["steps"]:
        return ("0", "", "", "", "", "")
    return (
        f"{row['steps']:,}",
        f"{row['violated']:,}",
        _share(row["bound"]),
        f"{row['sessions']:,}",
        _share(row["session_bound"]),
        "" if row["power"] is None else f"{row['power']:.2f}",
    )


def _line(name: str, figures: Sequence[str], remark: str, *, style: str = "") -> Text:
    """A row that fits 100 columns: the name, figures below each other, a remark."""
    if len(name) > _WIDEST:
        name = f"{name[: _WIDEST - 1]}…"
    cells = "".join(f"{figure:>{width}}" for figure, width in zip(figures, (7, 8, 9, 10, 9, 7), strict=True))
    return Text(f"{name:<{_WIDEST}}{cells}  {remark}".rstrip(), style=style)


def _share(bound: float) -> str:
    return f"{bound:.2%}" if bound < 0.01 else f"{bound:.1%}"


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

    Nothing is added to the policies: proposals are for people to review. Exits with 1 if something could not be read,
    or nothing was found; that rules were broken is a result like any other.
    """
    troubles = Troubles()
    files = expand_inputs(paths, troubles)
    spare(files, out)
    with bar() as progress:
        steps = anyio.run(_read, files, format_name or "auto", progress, troubles)
        if not steps:
            raise SourceError("no step was found in these logs", hint="`verifierd inspect` says what is in them.")
        task = progress.add_task("measuring", total=sum(map(len, steps)))
        rows, proposals = mine(steps, seed=seed, on=lambda done: progress.update(task, advance=done))
    fragments = [fragment(proposal) for proposal in proposals]
    if out is not None:
        _write(out, fragments)
    if as_json:
        print_json(
            {
                "trajectories": len(steps),
                "steps": sum(map(len, steps)),
                "rules": rows,
                "proposals": [proposal_row(proposal) for proposal in proposals],
            }
        )
    else:
        screen = console()
        screen.print(f"{counted(sum(map(len, steps)), 'step')} of {counted(len(steps), 'trajectory')}\n")
        _mined(screen, rows)
        end = f", in {plain(str(out))}" if out is not None else ""
        screen.print(Text(f"\n{counted(len(proposals), 'proposal')} for review{end}", style="bold"))
        for text in fragments if out is None else ():
            screen.print(Text(f"\n{text}"))
    if troubles.unread:
        sys.exit(1)


def _write(out: Path, fragments: Sequence[str]) -> None:
    try:
        out.write_text("\n\n".join(['about = "Proposed from logs; review each."', *fragments]) + "\n", encoding="utf-8")
    except OSError as error:
        raise StateError(f"{out}: {error.strerror or error}", hint="Name another file after --out.") from error


async def _read(
    files: Sequence[Path | None], format: str, progress: Progress, tell: Callable[[VerifierdError], None]
) -> list[list[Step]]:
    task = progress.add_task("reading", total=len(files))
    return await trajectories(files, format=format, on=lambda _path: progress.update(task, advance=1), tell=tell)


def _mined(screen: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Each rule that was in force, then what its document says otherwise, then where it was broken."""
    seen = [row for row in rows if row["steps"]]
    alone = [row for row in seen if row["family"] is not None]
    together = [row for row in seen if row["family"] is None]
    screen.print(_line("rule", ("steps", "broken", "<", "sessions", "<", "power"), "", style="dim"))
    for row in [*alone, *(row for row in together if row["violated"])]:
        screen.print(_line(row["rule"], _figures(row), "differs" if row["agrees"] is False else ""))
    own = [row for row in rows if row["family"] is not None]
    rest = f"{len(own) - len(alone)} of {counted(len(own), 'rule')} were in force nowhere"
    if together:
        rest += f"; several rules were checked together in {counted(sum(row['steps'] for row in together), 'step')}"
    screen.print(Text(f"\n{rest}; {_MEANING}", style="dim"))
    for row in alone:
        if row["disagreement"]:
            screen.print(Text.assemble((f"\n{row['rule']} ", "bold"), f"differs from {row['family']}.toml"))
            indented(screen, row["disagreement"], Text("  "))
    for row in seen:
        for broken in row["violations"][:_MOST_VIOLATIONS]:
            screen.print(Text.assemble((f"\n{row['rule']} ", "bold"), f"broken in {broken['path']}"))
            indented(screen, f"{broken['trajectory']} #{broken['step']}: {broken['action']}", Text("  "))
            indented(screen, f"{broken['says']}; {broken['found']}", Text("  "))
        if len(row["violations"]) > _MOST_VIOLATIONS:
            more = len(row["violations"]) - _MOST_VIOLATIONS
            screen.print(Text(f"  … and {more:,} more; --json has them all", style="dim"))
