"""`verifierd bench`: what predictors cost and can do, suite by suite; and runs compared."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource
from rich.progress import TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from verifierd import log
from verifierd.cli.inputs import spare
from verifierd.cli.options import Judging, json_option, judging_options, report_option, reworded
from verifierd.cli.outputs import asked, now, write
from verifierd.cli.view import bar, console, print_json
from verifierd.errors import ConfigError
from verifierd.replay.bench.asking import Sampling
from verifierd.replay.bench.book import read
from verifierd.replay.bench.compare import Compared, alike, compared, named
from verifierd.replay.bench.figures import Figure, holds, value
from verifierd.replay.bench.suite import UNASKED, Known, Report, Size, Suite, load, measure, names
from verifierd.replay.statistics import Interval

__all__ = ("command",)

_THOUSAND = 1000
_PLACE = "{suite}"

_LISTING = frozenset({"listed", "as_json"})
_COMPARING = frozenset({"suites", "compare", "conditions", "page", "as_json"})

_OF_ANSWERS = ("limit", "sampling")
_OF_MODELS = ("predictor", "model", "base_url", "prompts", "memory_override", "policy")
_OF_THREE = ("against", "of")


@click.command("bench")
@click.argument("suites", nargs=-1, metavar="SUITE...")
@click.option("--list", "listed", is_flag=True, help="List the suites.")
@click.option("--compare", is_flag=True, help="Compare runs of one suite: name their files, written by --out.")
@click.option(
    "--size", type=click.Choice(["smoke", "full"]), default="full", show_default=True, help="A quick look, or all."
)
@click.option("--runs", type=click.IntRange(1), metavar="N", help="How often each case, or comparison, is repeated.")
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="PATH", help="Measure on this file or folder, where a suite can."
)
@click.option(
    "--sampling",
    type=click.Choice(["greedy", "card"]),
    default="greedy",
    show_default=True,
    help="Take the likeliest token, or draw as the models' cards say: temperature 0.6, top-p 0.95, top-k 20.",
)
@click.option("--of", metavar="SUITE", help="The suite that `three-way` runs.")
@click.option("--against", multiple=True, metavar="MODEL", help="Another model that `three-way` asks; repeatable.")
@click.option(
    "--fail-if", "conditions", multiple=True, metavar="EXPR", help="Exit with 1 if it holds: decode_over_verify<4."
)
@click.option("--judge-url", metavar="URL", help="Have answers judged by a server that speaks OpenAI's protocol.")
@click.option("--judge-model", metavar="NAME", help="The judge, as its server knows it.")
@click.option(
    "--judge-key-env", metavar="NAME", help="The environment variable that holds the key of the judge's server."
)
@report_option
@judging_options
@json_option
def command(
    *,
    suites: tuple[str, ...],
    listed: bool,
    compare: bool,
    size: Size,
    runs: int | None,
    data: Path | None,
    sampling: Sampling,
    of: str | None,
    against: tuple[str, ...],
    conditions: tuple[str, ...],
    judge_url: str | None,
    judge_model: str | None,
    judge_key_env: str | None,
    page: Path | None,
    judging: Judging,
    as_json: bool,
) -> None:
    """Run benchmarks: bundled suites, or TOML files of one's own, and print their figures.

    With --json one document for one suite, a list for several. With --out a run that was ended goes on where it was,
    if the same command is given again; for several suites name a folder, or a file with {suite} in its name.
    """
    log.setup(level="error")
    if listed:
        _only(_LISTING, "--list")
        _list([load(name) for name in names()], as_json=as_json)
        return
    for condition in conditions:
        holds(condition, {condition.partition("<")[0].partition(">")[0].strip(): 0.0})
    if compare:
        _only(_COMPARING, "--compare")
        _compare([Path(name) for name in suites], conditions, page, as_json=as_json)
        return
    if not suites:
        raise click.UsageError(f"name a suite; known ones: {', '.join(names())}")
    chosen = [_load(name) for name in suites]
    for suite in chosen:
        _refuse(suite)
    outs = _outs(judging.out, chosen)
    _spare([data, *judging.inputs], outs, page)
    given: dict[str, Any] = {
        "judge-url": judge_url,
        "judge-model": judge_model,
        "judge-key-env": judge_key_env,
        "suite": of,
        "models": [name for name in (judging.model, *against) if name is not None] if against else None,
    }
    run = partial(
        measure,
        size=size,
        runs=runs,
        seed=judging.seed,
        data=data,
        sampling=sampling,
        given={name: value for name, value in given.items() if value is not None},
    )
    reports = []
    for suite, out in zip(chosen, outs, strict=True):
        reports.append(_measured(run, suite, judging, out))
        if not as_json:
            _show(suite, reports[-1])
    if page is not None:
        from verifierd.replay.bench.report import of_suites  # noqa: PLC0415 - loads what draws

        text = of_suites(list(zip(chosen, reports, strict=True)), command=asked(), date=now())
        write(page, text.encode(errors="replace"))
    if as_json:
        documents = [msgspec.structs.replace(report, rows=()) for report in reports]
        print_json(documents[0] if len(documents) == 1 else documents)
    _fail([report.results for report in reports], conditions)


reworded(
    command,
    out="Write the answers, or the rows behind the figures, to this file; a run that was ended goes on in it.",
    limit="Do no more than the first N jobs of a suite.",
    format_name="Not for suites: they read the native format, or their own.",
)


def _measured(run: Callable[..., Report], suite: Suite, judging: Judging, out: Path | None) -> Report:
    """Run a suite, with a bar that tells how long it may still take."""
    choice = judging.choice(predictor=suite.predictor or None)
    with bar(TimeRemainingColumn()) as progress:
        task = progress.add_task(suite.name, total=None)

        def on(done: int, total: int) -> None:
            progress.update(task, advance=done, total=total)

        return run(suite, choice, say=choice.say, out=out, on=on)


def _compare(paths: Sequence[Path], conditions: Sequence[str], page: Path | None, *, as_json: bool) -> None:
    _spare(paths, [], page)
    found = [(path, *read(path)) for path in paths]
    alike([(str(path), about) for path, about, _ in found])
    document = Compared(
        suite=found[0][1].suite,
        size=found[0][1].size,
        runs=named([(str(path), about.predictor, about.model, rows) for path, about, rows in found]),
        results=compared([rows for *_, rows in found]),
    )
    if page is not None:
        from verifierd.replay.bench.report import of_runs  # noqa: PLC0415 - loads what draws

        write(page, of_runs(document, command=asked(), date=now()).encode(errors="replace"))
    if as_json:
        print_json(document)
    else:
        screen = console()
        screen.print(Text(f"{document.suite} ({document.size}), {len(paths)} runs", style="bold"))
        for run in document.runs:
            who = f"{run.predictor}, {run.model or 'no model'}"
            screen.print(Text(f"{run.run}  {run.file}: {who}, {run.rows:,} answers"))
        screen.print()
        _figures(document.results, {})
    _fail([document.results], conditions)


def _fail(results: Sequence[Mapping[str, Figure]], conditions: Sequence[str]) -> None:
    """Exit with 1 if a condition holds where its figure was measured; it must be somewhere."""
    held = []
    for condition in conditions:
        figure = condition.partition("<")[0].partition(">")[0].strip()
        there = [found for found in results if figure in found] or results[:1]
        held += [condition for found in there if holds(condition, found)]
    for condition in held:
        click.echo(f"verifierd: {condition}", err=True)
    if held:
        sys.exit(1)


def _options(context: click.Context) -> dict[str, str]:
    """What was given on the command line, by name, and how it is written."""
    return {
        parameter.name: parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        and (parameter.name != "suites" or context.params["suites"])
    }


def _only(allowed: frozenset[str], what: str) -> None:
    for name, option in _options(click.get_current_context()).items():
        if name not in allowed:
            raise click.UsageError(f"{'a suite' if name == 'suites' else f'`{option}`'} does not go with {what}")


def _refuse(suite: Suite) -> None:
    """Refuse options that a suite has no use for, so that none is ignored."""
    given = _options(click.get_current_context())
    useless = {"format_name"}
    if suite.engine in UNASKED:
        useless.update(_OF_ANSWERS)
    if suite.engine == "speed":
        useless.add("out")
    if not suite.predictor:
        useless.update(name for name in _OF_MODELS if name != "predictor" or suite.engine != "scores")
    if suite.engine != "three-way":
        useless.update(_OF_THREE)
    for name in useless:
        if name in given:
            raise click.UsageError(f"`{given[name]}` is of no use to the suite `{suite.name}`")
    if suite.engine == "three-way" and "model" in given and "against" not in given:
        raise click.UsageError("`three-way` compares models: name the others after --against")


def _outs(out: Path | None, suites: Sequence[Suite]) -> list[Path | None]:
    """Where the rows of each suite go: into the folder, or the file with the suite in its name.

    Raises:
        UsageError: Several suites would go into one file.
    """
    if out is None:
        return [None] * len(suites)
    places: list[Path | None]
    if out.is_dir():
        places = [out / f"{suite.name}{'.csv' if suite.engine in UNASKED else '.jsonl'}" for suite in suites]
    else:
        places = [out.with_name(out.name.replace(_PLACE, suite.name)) for suite in suites]
    if len(set(places)) < len(places):
        raise click.UsageError(
            f"several suites, each named once, need a folder after --out, or `{_PLACE}` in the file's name"
        )
    return places


def _spare(inputs: Sequence[Path | None], outs: Sequence[Path | None], page: Path | None) -> None:
    """Refuse to replace what is to be read, or one output by another, before the work."""
    spare(inputs, *outs, page=page)
    if page is not None:
        write(page)


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
    _figures(report.results, suite.figures, report.claims)


def _figures(
    results: Mapping[str, Figure], figures: Mapping[str, Known], claims: Mapping[str, str] | None = None
) -> None:
    screen = console()
    widest = max(map(len, results), default=0)
    for name, figure in results.items():
        known = figures.get(name, Known(says=""))
        row = Text(f"{name:{widest}}  ")
        row.append(f"{_number(value(figure))}{known.unit and f' {known.unit}'}", style="bold")
        if isinstance(figure, Interval):
            row.append(f"  ({_number(figure.low)} to {_number(figure.high)}, n {figure.n})")
        if known.wanted:
            met = holds(f"{name} {known.wanted}", results)
            row.append(f"  wanted {known.wanted}", style="green" if met else "bold red")
        if known.published is not None:
            row.append(f"  published {_number(known.published)}")
            row.append(f": {claims[name]}" if claims and name in claims else "")
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
