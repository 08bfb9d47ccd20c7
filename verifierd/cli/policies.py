"""`verifierd policies`: the bundled policies, and one of them in words."""

import click
from rich.table import Table
from rich.text import Text

from verifierd import policy
from verifierd.cli.view import console

__all__ = ("command",)


@click.group("policies", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List the bundled policies, or explain one with `show NAME`."""
    if context.invoked_subcommand is not None:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("policy", no_wrap=True)
    table.add_column("predictors", no_wrap=True)
    table.add_column("what it does")
    for name in policy.names():
        found = policy.load(name)
        table.add_row(Text(name), Text(",".join(found.predictors)), Text(found.description))
    console().print(table)


@command.command()
@click.argument("name")
def show(name: str) -> None:
    """Say in words what a policy (a bundled name or a TOML file) does."""
    found = policy.load(name)
    asking = found.asking
    chain = ", then ".join(found.predictors)
    text = "with" if asking.predicted_text else "without"
    echo = "with" if asking.screen else "without"
    for row in (
        f"{found.id}: {found.description or 'not described'}",
        f"  asks the predictors {chain}, until {100 * found.ask_below:g} % of the text is checked",
        f"  compares after taking off: {', '.join(found.normalisers) or 'nothing'}",
        f"  says on_path if at least {100 * found.min_coverage:g} % of the text was checked, and nothing contradicted",
        "  says off_path if something certain is contradicted",
        "  abstains, with a reason, on all else",
        f"  raises an alarm after more than {found.alarm_after} contradictions in one trajectory",
        f"  takes the commands' shell to be: {found.shell_profile}",
        f"  asks a model for at most {asking.max_tokens:,} tokens, {text} a text, within {asking.deadline:g} s",
        f"    with history {asking.history}, wrapper {asking.wrapper}, commands as {asking.action}, {echo} their echo",
    ):
        click.echo(row)
