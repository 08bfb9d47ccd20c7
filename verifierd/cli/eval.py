"""`verifierd eval`: false positives and false negatives against labels and injected faults."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.progress import TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from verifierd import log
from verifierd.cli.inputs import Troubles, expand_inputs, spare
from verifierd.cli.options import Judging, json_option, judging_options, reworded
from verifierd.cli.view import bar, console, counted, one_line, print_json
from verifierd.composition import Choice
from verifierd.errors import ConfigError, StateError
from verifierd.predictors import PREDICTORS
from verifierd.replay.bench.figures import holds
from verifierd.replay.evaluation.cases import Cases, Injection, of_runs, of_sets
from verifierd.replay.evaluation.judging import Evaluated, evaluated
from verifierd.replay.evaluation.table import LEAST, compared, document
from verifierd.replay.inject import BENIGN, FAULTS
from verifierd.replay.labelled import is_set, marked, marked_by_logs, read_labels, read_set
from verifierd.replay.runs import runs
from verifierd.replay.statistics import Estimate

__all__ = ("command",)

_KINDS = (*FAULTS, *BENIGN)
_MOST_TOOLS = 8
_WIDTH = 160


def _kinds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names of changes, joined by commas, or `all`."""
    if value is None or value == "all":
        return None if value is None else _KINDS
    names = tuple(name.strip() for name in value.split(","))
    if unknown := [name for name in names if name not in _KINDS]:
        raise click.BadParameter(f"no change is called `{', '.join(unknown)}`; known ones: all, {', '.join(_KINDS)}")
    return names


@click.command("eval")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Labels as JSON lines: trajectory and step, or a step's or verdict's id, and the label.",
)
@click.option(
    "--inject", "kinds", callback=_kinds, metavar="KINDS|all", help="Put seeded faults and benign changes into steps."
)
@click.option(
    "--rate",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    metavar="R",
    help="The share of eligible steps that is changed, drawn for each kind.",
)
@click.option(
    "--compare",
    "others",
    multiple=True,
    metavar="NAME",
    help="Judge the same cases by another chain of predictors or another policy, too, and compare in pairs.",
)
@click.option(
    "--report", "page", type=click.Path(path_type=Path), metavar="FILE.html", help="Write a report with pictures."
)
@click.option("--fail-if", "conditions", multiple=True, metavar="EXPR", help="Exit with 1 if it holds: step_fpr>0.02.")
@judging_options
@json_option
def command(
    *,
    paths: tuple[str, ...],
    labels: Path | None,
    kinds: tuple[str, ...] | None,
    rate: float,
    others: tuple[str, ...],
    page: Path | None,
    conditions: tuple[str, ...],
    judging: Judging,
    as_json: bool,
) -> None:
    """Measure false positives and false negatives on agents' logs, or on folders of labelled sets.

    What is true comes from labels (in a set, in the logs, or in --labels) and from what --inject puts in. Steps about
    which nobody says anything are taken to be clean.

    Exits with 1 if something could not be read, or nothing was found.
    """
    log.setup(level="error")
    troubles = Troubles()
    injection = None if kinds is None else Injection(kinds=kinds, rate=rate, seed=judging.seed)
    cases = anyio.run(_cases, paths, labels, injection, judging, troubles)
    choices = [judging.choice(), *(_other(judging.choice(), name) for name in others)]
    found = _judged(cases, choices, judging.seed)
    said = None if injection is None else msgspec.to_builtins(injection)
    documents = [document(one, seed=judging.seed, injection=said) for one in found]
    differences = compared(found, seed=judging.seed)
    if judging.out is not None:
        _write(judging.out, b"".join(msgspec.json.encode(row) + b"\n" for one in found for row in one.rows))
    if page is not None:
        _write(page, _page(documents, found, differences))
    if as_json:
        print_json(documents[0] | ({"others": documents[1:], "compared": differences} if others else {}))
    else:
        screen = console()
        if not screen.is_terminal:
            screen.width = _WIDTH  # nothing is cut in a file
        for one in documents:
            _show(screen, one)
        for difference in differences:
            _show_difference(screen, difference)
    figures = _figures(documents[0])
    held = [condition for condition in conditions if holds(condition, figures)]
    for condition in held:
        click.echo(f"verifierd: {condition}", err=True)
    if troubles.unread or held:
        sys.exit(1)


reworded(
    command,
    out="Write a row for each case and judge to this JSONL file.",
    limit="Take as many whole trajectories as have no more than N steps.",
    seed="Draws what is injected, and the bootstrap.",
)


def _other(choice: Choice, name: str) -> Choice:
    """Who judges the same by another chain, where all names are predictors', else by another policy."""
    if {part.strip() for part in name.split(",")} <= set(PREDICTORS):
        return msgspec.structs.replace(choice, predictor=name)
    return msgspec.structs.replace(choice, policy=name)


def _judged(cases: Cases, choices: Sequence[Choice], seed: int) -> list[Evaluated]:
    with bar(TimeRemainingColumn()) as progress:
        task = progress.add_task(counted(cases.steps, "step"), total=cases.steps * len(choices))

        async def judge(choice: Choice) -> Evaluated:
            return await evaluated(cases, choice, seed=seed, on=lambda steps: progress.update(task, advance=steps))

        return [anyio.run(judge, choice) for choice in choices]


def _page(documents: Sequence[dict[str, Any]], found: Sequence[Evaluated], differences: list[dict[str, Any]]) -> bytes:
    from verifierd.replay.evaluation.report import report  # noqa: PLC0415 - loads what draws

    asked = shlex.join(["verifierd", *sys.argv[1:]])
    date = datetime.now(UTC).date().isoformat()
    return report(list(zip(documents, found, strict=True)), differences, command=asked, date=date).encode()


async def _cases(
    paths: Sequence[str], labels: Path | None, injection: Injection | None, judging: Judging, troubles: Troubles
) -> Cases:
    sets = [Path(path) for path in paths if path != "-" and is_set(Path(path))]
    if sets and len(sets) < len(paths):
        raise click.UsageError("labelled sets and agents' logs are evaluated apart: name either")
    if sets:
        if labels is not None:
            raise click.UsageError("a labelled set brings its labels along: leave --labels away")
        cases = of_sets([read_set(path, tell=troubles) for path in sets], injection)
    else:
        files = expand_inputs(paths, troubles)
        spare(files, judging.out)
        found = await runs(files, format=judging.format_name or "auto", limit=judging.limit, tell=troubles)
        known = marked_by_logs(found)
        if labels is not None:
            said, unmatched = marked(found, read_labels(labels))
            known = [*known, *said]
            if unmatched:
                troubles(
                    ConfigError(
                        f"{labels}: {counted(len(unmatched), 'label')} of steps that are not in these logs",
                        hint="Name the logs that they are of, or the trajectory as `verifierd inspect` shows it.",
                    )
                )
        cases = of_runs(found, known, injection)
    if not cases.subjects:
        raise ConfigError(
            "there is no trajectory in what was named", hint="verifierd inspect PATH shows what is there."
        )
    if injection is None and not any(subject.marked or subject.overlays for subject in cases.subjects):
        raise click.UsageError("nothing is known of these steps: add --inject all, or --labels FILE")
    return cases


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror or error}", hint="Name another file.") from error


def _figures(found: Mapping[str, Any]) -> dict[str, float]:
    """The figures that a condition may name."""
    figures = {name: value.value for name, value in found.items() if isinstance(value, Estimate)}
    figures |= {f"recall_{kind}": row["recall"].value for kind, row in found["by_kind"].items()}
    figures |= {f"fpr_{kind}": row["fpr"].value for kind, row in found["by_benign"].items()}
    figures["trajectory_far"] = found["alarms"]["false"].value
    return {name: value for name, value in figures.items() if value is not None}


# --- what a person sees


def _show(screen: Console, found: Mapping[str, Any]) -> None:
    title = f"{found['predictor']}, {found['model'] or 'no model'}, policy {found['policy']}"
    screen.print(Text(one_line(title), style="bold"))
    counts = f"{counted(found['clean'], 'clean step')} of {counted(found['trajectories'], 'trajectory')}"
    faults, benign = sum(found["confusion"]["off_path"].values()), found["benign_fpr"].n
    screen.print(Text(f"{counts}, {counted(faults, 'fault')}, {counted(benign, 'benign change')}", style="dim"))
    screen.print(Group(*_headline(found)), "")
    if found["by_kind"]:
        screen.print(_kind_table(found), "")
    if found["by_benign"]:
        screen.print(_benign_table(found), "")
    if found["by_kind"]:
        screen.print(_tool_table(found), "")
        screen.print(_control_table(found["controls"], found), "")
    if found["agent"] is not None:
        screen.print(*_agent(found["agent"]), "", sep="\n")
    _footer(screen, found)


def _headline(found: Mapping[str, Any]) -> list[Text]:
    rows = [
        ("false alarms on clean steps", found["step_fpr"], "step_fpr"),
        ("false alarms on benign changes", found["benign_fpr"], "benign_fpr"),
        ("faults seen", found["recall"], f"mean over kinds with {LEAST} cases or more; abstentions are misses"),
        ("faults seen that could be known", found["recall_if_known"], "what was altered stands in the history"),
        ("clean steps not decided", found["abstention"], "abstention"),
        ("clean trajectories that alarm", found["alarms"]["false"], _alpha(found)),
    ]
    said = [Text.assemble(f"{name:32} ", (_shown(figure), "bold"), (f"  {note}", "dim")) for name, figure, note in rows]
    if found["coverage"]["above_zero"].value == 0:
        said.append(
            Text("These predictors have nothing to say about these steps: every one abstains.", style="bold yellow")
        )
    for prevalence, figure in found["precision_at"].items():
        note = f"precision where {float(prevalence):.0%} of steps are bad"
        said.append(Text.assemble(f"{note:32} ", (_shown(figure), "bold")))
    return said


def _alpha(found: Mapping[str, Any]) -> str:
    alpha = found["alarms"]["alpha"]
    return "not calibrated" if alpha is None else f"alpha {alpha:g}"


def _kind_table(found: Mapping[str, Any]) -> RenderableType:
    table = _table("fault", "cases", "seen", "if known", "abstained", "AUROC", "error regex")
    for kind, row in found["by_kind"].items():
        table.add_row(
            Text(one_line(kind), style="" if row["counted"] else "dim"),
            f"{row['n']:,}",
            _shown(row["recall"], n=False),
            _shown(row["recall_if_known"], n=False),
            _percent(row["abstention"].value),
            _number(row["auroc"]),
            _number(row["controls"]["error_regex"]),
        )
    return table


def _benign_table(found: Mapping[str, Any]) -> RenderableType:
    table = _table("benign change", "cases", "alarms")
    for kind, row in found["by_benign"].items():
        table.add_row(Text(one_line(kind)), f"{row['n']:,}", _shown(row["fpr"], n=False))
    return table


def _tool_table(found: Mapping[str, Any]) -> RenderableType:
    table = _table("tool", "clean", "false alarms", "faults", "seen", "abstained")
    for tool, row in list(found["by_tool"].items())[:_MOST_TOOLS]:
        table.add_row(
            Text(one_line(tool)),
            f"{row['steps']:,}",
            _shown(row["fpr"], n=False),
            f"{row['faults']:,}",
            _shown(row["recall"], n=False),
            _percent(row["abstention"].value),
        )
    if (more := len(found["by_tool"]) - _MOST_TOOLS) > 0:
        table.add_row(Text(f"and {counted(more, 'other')}", style="dim"))
    return table


def _control_table(controls: Mapping[str, Any], found: Mapping[str, Any]) -> RenderableType:
    table = _table("", "AUROC", "seen at 1 % false alarms", "at 5 %")
    rows = {"verifierd": found, **controls}
    for name, row in rows.items():
        if "auroc" in row:
            figures = (row["auroc"], row["tpr_at_fpr_1"], row["tpr_at_fpr_5"])
            table.add_row(
                Text(name.replace("_", " ")), _number(figures[0]), *(_shown(one, n=False) for one in figures[1:])
            )
        else:
            table.add_row(Text(name.replace("_", " "), style="dim"), Text(row["reason"], style="dim"))
    return table


def _agent(found: Mapping[str, Any]) -> list[RenderableType]:
    rows: list[RenderableType] = [
        Text("errors of the agent (another truth: the environment may answer them as expected)", style="bold"),
        Text(f"{counted(found['errors'], 'error')} in {counted(found['steps'], 'labelled step')}"),
    ]
    for name, key in (("seen", "recall"), ("false alarms", "step_fpr"), ("AUROC", "auroc")):
        rows.append(Text.assemble(f"{name:32} ", (_shown(found[key]), "bold")))
    tolerance = found["tolerance"]
    for steps, figure in tolerance.get("found", {}).items():
        note = f"first error found within {steps}"
        random = f"  at random {tolerance['at_random'][steps]:.0%}"
        rows.append(Text.assemble(f"{note:32} ", (_shown(figure), "bold"), (random, "dim")))
    rows.append(_control_table(found["controls"], found))
    return rows


def _footer(screen: Console, found: Mapping[str, Any]) -> None:
    seconds, simulator = found["seconds"], found["simulator"]
    price = f"{1000 * seconds['p50']:.2g} ms a step (95 %: {1000 * seconds['p95']:.2g} ms)"
    if found["model"] is not None:
        price += f", {found['tokens']['computed']:.0f} tokens computed a step"
        price += f"; the simulator failed on {_shown(simulator['failed'])} of the steps it was asked about"
    screen.print(Text(f"{price}; {seconds['wall']:.0f} s in all\n", style="dim"))


def _show_difference(screen: Console, found: Mapping[str, Any]) -> None:
    one, other = (f"{found[side]['predictor']} by {found[side]['policy']}" for side in ("one", "other"))
    screen.print(Text(f"{one_line(other)} against {one_line(one)}, on the same {found['cases']:,} cases", style="bold"))
    table = _table("", "difference in points")
    for name in ("step_fpr", "benign_fpr", "recall", "abstention"):
        table.add_row(name.replace("_", " "), _points(found[name]))
    for kind, figure in found["by_kind"].items():
        table.add_row(Text(f"  {one_line(kind)}"), _points(figure))
    screen.print(table)
    screen.print(Text(f"McNemar p = {found['mcnemar']:.3g}\n", style="dim"))


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def _shown(figure: Estimate, *, n: bool = True) -> str:
    if figure.value is None:
        return "-"
    text = _percent(figure.value)
    if figure.low is not None and figure.high is not None:
        text += f" ({_percent(figure.low)} to {_percent(figure.high)})"
    return f"{text}, n {figure.n:,}" if n else text


def _percent(value: float | None) -> str:
    """Of small shares two digits that count."""
    if value is None:
        return "-"
    return f"{value:.0%}" if value == 0 or value >= 0.1 else f"{100 * value:.2g}%"


def _number(figure: Estimate) -> str:
    return "-" if figure.value is None else f"{figure.value:.3f}"


def _points(figure: Estimate) -> str:
    if figure.value is None:
        return "-"
    text = f"{100 * figure.value:+.2f}"
    if figure.low is None or figure.high is None:
        return text
    return f"{text} ({100 * figure.low:+.2f} to {100 * figure.high:+.2f})"
