"""`verifierd bench`: what predictors cost and can do, suite by suite."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from verifierd import log
from verifierd.cli.options import Judging, json_option, judging_options, reworded
from verifierd.cli.view import console, print_json
from verifierd.errors import ConfigError
from verifierd.replay.bench.figures import holds, value
from verifierd.replay.bench.suite import Known, Report, Size, Suite, load, measure, names
from verifierd.replay.statistics import Interval

__all__ = ("command",)

_THOUSAND = 1000


@click.command("bench")
@click.argument("suites", nargs=-1, metavar="SUITE...")
@click.option("--list", "listed", is_flag=True, help="List the suites.")
@click.option(
    "--size", type=click.Choice(["smoke", "full"]), default="full", show_default=True, help="A quick look, or all."
)
@click.option("--runs", type=click.IntRange(1), metavar="N", help="How often a comparison is repeated.")
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="FILE", help="Measure on this file, where a suite reads one."
)
@click.option(
    "--fail-if", "conditions", multiple=True, metavar="EXPR", help="Exit with 1 if it holds: decode_over_verify<4."
)
@click.option("--judge-url", metavar="URL", help="Have answers judged by a server that speaks OpenAI's protocol.")
@click.option("--judge-model", metavar="NAME", help="The judge, as its server knows it.")
@click.option(
    "--judge-key-env", metavar="NAME", help="The environment variable that holds the key of the judge's server."
)
@judging_options
@json_option
def command(
    *,
    suites: tuple[str, ...],
    listed: bool,
    size: Size,
    runs: int | None,
    data: Path | None,
    conditions: tuple[str, ...],
    judge_url: str | None,
    judge_model: str | None,
    judge_key_env: str | None,
    judging: Judging,
    as_json: bool,
) -> None:
    """Run benchmarks: bundled suites, or TOML files of one's own, and print their figures.

    With --json one document for one suite, a list for several.
    """
    log.setup(level="error")
    if listed:
        _list([load(name) for name in names()], as_json=as_json)
        return
    if not suites:
        raise click.UsageError(f"name a suite; known ones: {', '.join(names())}")
    chosen = [_load(name) for name in suites]
    judge = {"judge-url": judge_url, "judge-model": judge_model, "judge-key-env": judge_key_env}
    given = {name: value for name, value in judge.items() if value is not None}
    reports = []
    for suite in chosen:
        choice = judging.choice(predictor=suite.predictor or None)
        report = measure(
            suite,
            choice,
            size=size,
            runs=runs,
            seed=judging.seed,
            say=choice.say,
            data=data,
            out=judging.out,
            given=given,
        )
        reports.append(report)
        if not as_json:
            _show(suite, report)
    if as_json:
        print_json(reports[0] if len(reports) == 1 else reports)
    held = [condition for condition in conditions for report in reports if holds(condition, report.results)]
    for condition in held:
        click.echo(f"verifierd: {condition}", err=True)
    if held:
        sys.exit(1)


reworded(command, out="Write the rows behind the figures to this file, where a suite has some.")


def _load(name: str) -> Suite:
    try:
        return load(name)
    except ConfigError as error:
        raise click.UsageError(f"{error.message}. {error.hint}") from error


def _list(suites: Sequence[Suite], *, as_json: bool) -> None:
    if as_json:
        print_json(
            [{"suite": suite.name, "description": suite.description, "predictor": suite.predictor} for suite in suites]
        )
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("suite", no_wrap=True)
    table.add_column("predictor", no_wrap=True)
    table.add_column("what it measures")
    for suite in suites:
        table.add_row(Text(suite.name), Text(suite.predictor), Text(suite.description))
    console().print(table)


def _show(suite: Suite, report: Report) -> None:
    screen = console()
    screen.print(Text(f"{suite.name} ({report.size}): {suite.description}", style="bold"))
    screen.print(Text(f"{report.predictor or 'no predictor'}, {report.model or 'no model'}; {_host(report.host)}"))
    if report.warning:
        screen.print(Text(report.warning, style="bold yellow"))
    screen.print()
    widest = max(map(len, report.results), default=0)
    for name, figure in report.results.items():
        known = suite.figures.get(name, Known(says=""))
        row = Text(f"{name:{widest}}  ")
        row.append(f"{_number(value(figure))}{known.unit and f' {known.unit}'}", style="bold")
        if isinstance(figure, Interval):
            row.append(f"  ({_number(figure.low)} to {_number(figure.high)}, n {figure.n})")
        if known.wanted:
            met = holds(f"{name} {known.wanted}", report.results)
            row.append(f"  wanted {known.wanted}", style="green" if met else "bold red")
        if known.published is not None:
            row.append(f"  published {_number(known.published)}")
        screen.print(row)
        if known.says:
            says = f"{known.says} ({known.source})" if known.source else known.says
            screen.print(Text(f"    {says}", style="dim"))


def _number(value: float) -> str:
    """Three digits that count, and all of a count."""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= _THOUSAND else f"{value:.3g}"


def _host(host: dict[str, Any]) -> str:
    device = host.get("device") or host["machine"]
    return f"{device}, {host['cpus']} cores, load {host['load_average'] or 0:.1f}"
