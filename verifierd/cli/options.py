"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

__all__ = ("format_option", "json_option", "judging_options")

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

format_option: _Decorator = click.option(
    "--format",
    "format_name",
    default=None,
    metavar="auto|NAME",
    help="Read the logs as this format; `auto` decides on their shape.",
)

json_option: _Decorator = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on standard output, everything else on standard error."
)

_JUDGING: tuple[_Decorator, ...] = (
    click.option("--predictor", metavar="NAME[,NAME...]", help="Who predicts; several are asked in turn."),
    click.option(
        "--predictions",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The JSONL file that the predictor `recorded` answers from.",
    ),
    click.option("--policy", metavar="NAME|FILE", help="A bundled policy or a TOML file."),
    click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write verdicts to this JSONL file."),
    format_option,
    click.option("--limit", type=click.IntRange(1), metavar="N", help="Judge no more than N steps."),
    click.option("--seed", type=int, default=0, metavar="N", help="Seed of whatever is random."),
)


def judging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that judges steps."""
    for option in reversed(_JUDGING):
        command = option(command)
    return command
