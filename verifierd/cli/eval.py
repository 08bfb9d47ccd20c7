"""`verifierd eval`: false positives and false negatives against labels and injected faults."""

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
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
from verifierd.cli.options import Judging, Share, json_option, judging_options, report_option, reworded
from verifierd.cli.outputs import asked, now, write
from verifierd.cli.view import bar, console, counted, one_line, print_json
from verifierd.composition import Choice, chain_of
from verifierd.errors import ConfigError, SourceError
from verifierd.policy import Policy, load
from verifierd.predictors import PREDICTORS
from verifierd.replay.bench.figures import holds
from verifierd.replay.evaluation.cases import Cases, Injection, of_runs, of_sets
from verifierd.replay.evaluation.judging import Evaluated, evaluated
from verifierd.replay.evaluation.table import LEAST, compared, document
from verifierd.replay.inject import BENIGN, FAULTS
from verifierd.replay.labelled import is_set, marked, read_labels, read_set
from verifierd.replay.runs import Run, runs
from verifierd.replay.statistics import Estimate
from verifierd.types import Step, digest

__all__ = ("command",)

_KINDS = (*FAULTS, *BENIGN)
_MOST_TOOLS = 8
_LABEL = 37
_WIDTH = 160
_WIDE = 100
_MOST = 0.5
_LONG = 0.01


def _kinds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Names of changes, joined by commas, or `all`."""
    if value is None or value == "all":
        return None if value is None else _KINDS
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))  # each once: cases are counted
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
    type=Share(0, 1, min_open=True),
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
@report_option
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="EXPR",
    help="Exit with 1 if it holds of the first judge: step_fpr>0.02, recall_stale<0.5.",
)
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

    What is true comes from labels (in a set, in the logs, or in --labels) and from what --inject puts in. Trajectories
    about which nobody says anything are taken to be clean; where some steps are labelled the others are not judged.

    Exits with 1 if something could not be read, nothing was found, or a condition of --fail-if holds.
    """
    log.setup(level="error")
    troubles = Troubles()
    choices = [judging.choice(), *(_other(judging.choice(), name) for name in others)]
    policies = [load(choice.policy) for choice in choices]  # what is wrong with one shows before the work
    _check(conditions)
    injection = None if kinds is None else Injection(kinds=kinds, rate=rate, seed=judging.seed)
    cases = _cases(
        _Named(
            paths=paths,
            labels=labels,
            injection=injection,
            judging=judging,
            page=page,
            ids=_verdict_ids(choices, policies),
            troubles=troubles,
        )
    )
    for path in filter(None, (judging.out, page)):
        write(path)  # likewise
    found = _judged(cases, choices, judging.seed)
    said = None if injection is None else msgspec.to_builtins(injection)
    documents = [document(one, seed=judging.seed, injection=said) for one in found]
    differences = compared(found, seed=judging.seed)
    if as_json:
        print_json(documents[0] | ({"others": documents[1:], "compared": differences} if others else {}))
    else:
        _print(documents, differences)
    if judging.out is not None:
        write(judging.out, b"".join(map(_rows, found)))
    if page is not None:
        write(page, _page(documents, found, differences))
    held = [condition for condition in conditions if _held(condition, documents[0])]
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
    """Who judges the same by another chain, where one of the names is a predictor's, else by another policy."""
    if not PREDICTORS.keys().isdisjoint(part.strip() for part in name.split(",")):
        return msgspec.structs.replace(choice, predictor=name)
    return msgspec.structs.replace(choice, policy=name)


def _verdict_ids(choices: Sequence[Choice], policies: Sequence[Policy]) -> Callable[[Step], list[str]]:
    """Ids of the verdicts that these judges give a step, as far as no model is among them."""
    judges = [(policy.id, chain_of(choice, policy)) for choice, policy in zip(choices, policies, strict=True)]
    return lambda step: [digest(step.step_id, policy, chain, "") for policy, chain in judges]


def _judged(cases: Cases, choices: Sequence[Choice], seed: int) -> list[Evaluated]:
    found: list[Evaluated] = []
    with bar(TimeRemainingColumn()) as progress:
        task = progress.add_task(counted(cases.steps, "step"), total=cases.steps * len(choices))

        async def judge() -> None:  # gives nothing back: asyncio would write out all of it, only to throw it away
            for choice in choices:
                done = await evaluated(cases, choice, seed=seed, on=lambda steps: progress.update(task, advance=steps))
                found.append(done)

        anyio.run(judge)
    return found


def _rows(found: Evaluated) -> bytes:
    """What a judge made of each case, and who that is, as JSON lines."""
    judge = {"predictor": found.predictor, "model": found.model, "policy": found.policy}
    return b"".join(msgspec.json.encode(judge | msgspec.structs.asdict(row)) + b"\n" for row in found.rows)


def _page(documents: Sequence[dict[str, Any]], found: Sequence[Evaluated], differences: list[dict[str, Any]]) -> bytes:
    from verifierd.replay.evaluation.report import report  # noqa: PLC0415 - loads what draws

    return report(list(zip(documents, found, strict=True)), differences, command=asked(), date=now()).encode()


class _Named(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says is to be read; `ids` are further ids of a step that labels may name."""

    paths: Sequence[str]
    labels: Path | None
    injection: Injection | None
    judging: Judging
    page: Path | None
    ids: Callable[[Step], list[str]]
    troubles: Troubles


def _cases(named: _Named) -> Cases:
    sets = [Path(path) for path in named.paths if path != "-" and is_set(Path(path))]
    if sets and len(sets) < len(named.paths):
        raise click.UsageError("labelled sets and agents' logs are evaluated apart: name either")
    cases = _of_sets(sets, named) if sets else _of_logs(named)
    if not cases.subjects:
        raise SourceError(
            "there is no trajectory in what was named", hint="verifierd inspect PATH shows what is there."
        )
    if named.injection is None and not any(subject.marked or subject.overlays for subject in cases.subjects):
        told = "add --inject all, or --labels FILE" if named.labels is None else f"{named.labels} has no label of one"
        raise click.UsageError(f"nothing is known of these steps: {told}")
    return cases


def _of_sets(sets: Sequence[Path], named: _Named) -> Cases:
    if named.labels is not None:
        raise click.UsageError("a labelled set brings its labels along: leave --labels away")
    if named.judging.format_name is not None:
        raise click.UsageError("a labelled set is no log of an agent: leave --format away")
    folders = [path if path.is_dir() else path.parent for path in sets]
    judged = [file for folder in folders for file in folder.iterdir()]
    spare([*judged, *named.judging.inputs], named.judging.out, page=named.page)
    return of_sets([read_set(path, tell=named.troubles) for path in sets], named.injection, limit=named.judging.limit)


def _of_logs(named: _Named) -> Cases:
    files = expand_inputs(named.paths, named.troubles)
    spare([*files, *named.judging.inputs, named.labels], named.judging.out, page=named.page)
    labels = [] if named.labels is None else read_labels(named.labels, tell=named.troubles)
    found: list[Run] = []

    async def read() -> None:
        format_name, limit = named.judging.format_name or "auto", named.judging.limit
        found.extend(await runs(files, format=format_name, limit=limit, tell=named.troubles))

    anyio.run(read)
    known, unmatched = marked(found, labels, ids=named.ids)
    if unmatched:
        count, first = counted(len(unmatched), "label"), unmatched[0].place
        named.troubles(
            ConfigError(
                f"{named.labels}: {count} of no step that is in these logs, the first one in {first}",
                hint="Name the logs that they are of. A step's id always tells which one is meant (--out FILE has it); "
                "a name that several trajectories bear does not, nor a verdict's id of another policy or model.",
            )
        )
    return of_runs(found, known, named.injection)


_FIGURES = (
    "step_fpr",
    "step_fpr_decided",
    "step_fnr",
    "step_fnr_decided",
    "benign_fpr",
    "benign_changed",
    "hinted",
    "precision",
    "recall",
    "recall_if_known",
    "auroc",
    "tpr_at_fpr_1",
    "tpr_at_fpr_5",
    "abstention",
)
"""Figures of the document that a condition may name as they are."""

_DERIVED: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
    "precision_at_1": lambda found: found["precision_at"]["0.01"].value,
    "precision_at_8": lambda found: found["precision_at"]["0.08"].value,
    "recall_over_decided": lambda found: found["recall_over_decided"],
    "coverage": lambda found: found["coverage"]["mean"],
    "trajectory_far": lambda found: found["alarms"]["false"].value,
    "simulator_failed": lambda found: found["simulator"]["failed"].value,
    "agent_fpr": lambda found: None if found["agent"] is None else found["agent"]["step_fpr"].value,
    "agent_recall": lambda found: None if found["agent"] is None else found["agent"]["recall"].value,
    "agent_auroc": lambda found: None if found["agent"] is None else found["agent"]["auroc"].value,
    "step_p95_ms": lambda found: 1000 * found["seconds"]["p95"],
}
"""Others; and `recall_KIND` and `fpr_KIND`, whose kinds show only in the end."""


def _name(condition: str) -> str:
    return condition.partition("<")[0].partition(">")[0].strip()


def _check(conditions: Sequence[str]) -> None:
    """Refuse what is no condition, before the work.

    Raises:
        ConfigError: One is none, or names no figure.
    """
    known = dict.fromkeys((*_FIGURES, *_DERIVED, "recall_KIND", "fpr_KIND"), 0.0)
    for condition in conditions:
        name = _name(condition)
        holds(condition, known | ({name: 0.0} if name.startswith(("recall_", "fpr_")) else {}))


def _held(condition: str, found: Mapping[str, Any]) -> bool:
    """Does a condition hold?

    Raises:
        ConfigError: Its figure was not measured: that is no good news.
    """
    figures = {name: found[name].value for name in _FIGURES}
    figures |= {name: figure(found) for name, figure in _DERIVED.items()}
    figures |= {f"recall_{_key(kind)}": row["recall"].value for kind, row in found["by_kind"].items()}
    figures |= {f"fpr_{_key(kind)}": row["fpr"].value for kind, row in found["by_benign"].items()}
    measured = {name: value for name, value in figures.items() if value is not None}
    if _name(condition) not in measured:
        raise ConfigError(
            f"`{condition}`: there was nothing to measure it on", hint=f"Measured were: {', '.join(measured)}."
        )
    return holds(condition, measured)


def _key(kind: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "_", kind.lower())


# --- what a person sees


def _print(documents: Sequence[Mapping[str, Any]], differences: Sequence[Mapping[str, Any]]) -> None:
    screen = console()
    if not screen.is_terminal:
        screen.width = _WIDTH  # nothing is cut in a file
    for one in documents:
        _show(screen, one)
    for difference in differences:
        _show_difference(screen, difference)


def _show(screen: Console, found: Mapping[str, Any]) -> None:
    title = f"{found['predictor']}, {found['model'] or 'no model'}, policy {found['policy']}"
    screen.print(Text(one_line(title), style="bold"))
    counts = f"{counted(found['clean'], 'clean step')} of {counted(found['trajectories'], 'trajectory')}"
    faults, benign = sum(found["confusion"]["off_path"].values()), found["benign_fpr"].n
    screen.print(Text(f"{counts}, {counted(faults, 'fault')}, {counted(benign, 'benign change')}\n", style="dim"))
    screen.print(Group(*_headline(found)), "")
    wide = screen.width >= _WIDE
    if found["by_kind"]:
        screen.print(_kind_table(found, wide=wide), "")
    if found["by_benign"]:
        screen.print(_benign_table(found), "")
    if found["by_tool"]:
        screen.print(*_tool_table(found, wide=wide), "", sep="\n")
    if found["by_kind"]:
        screen.print(*_control_table(found["controls"], found, "faults", "clean steps"), "", sep="\n")
    if found["agent"] is not None:
        screen.print(*_agent(found["agent"]), "", sep="\n")
    _footer(screen, found)


def _headline(found: Mapping[str, Any]) -> list[Text]:
    rows = [
        ("false alarms on clean steps", found["step_fpr"], ""),
        ("false alarms on benign changes", found["benign_fpr"], ""),
        ("faults seen", found["recall"], ""),
        ("faults seen that could be known", found["recall_if_known"], ""),
        ("clean steps not decided", found["abstention"], ""),
        ("clean steps with a hint", found["hinted"], "stale, foreign or injection, which decide nothing"),
        ("clean trajectories that alarm", found["alarms"]["false"], _alpha(found)),
    ]
    rows += [
        (f"right alarms if {100 * float(share):g} % of steps are bad", one, "")
        for share, one in found["precision_at"].items()
    ]
    said = [_row(*row) for row in rows if row[1].value is not None]
    abstained = found["abstention"].value
    if not found["steps"]:
        words = "There was nothing to judge: the environment answered none of these steps."
        said.append(Text(words, style="bold yellow"))
    elif abstained == 1:
        words = "These predictors have nothing to say about these steps: they abstain on every clean one."
        said.append(Text(words, style="bold yellow"))
    elif abstained is not None and abstained > _MOST:
        words = "These predictors have nothing to say about most of these steps: few false alarms are no merit there."
        said.append(Text(words, style="yellow"))
    if found["recall"].value is None:
        return said
    words = f"""Faults seen: the mean over kinds with {LEAST} cases or more; who abstains has not seen it. It \
could be known where what was altered, or its line, stands in the history. In brackets: 95 % intervals."""
    return [*said, Text(words, style="dim")]


def _row(name: str, figure: Estimate, note: str) -> Text:
    return Text.assemble(f"{name:{_LABEL}} ", (_shown(figure, n=True), "bold"), (f"  {note}" if note else "", "dim"))


def _alpha(found: Mapping[str, Any]) -> str:
    alpha = found["alarms"]["alpha"]
    return "not calibrated" if alpha is None else f"alpha {alpha:g}"


def _kind_table(found: Mapping[str, Any], *, wide: bool) -> RenderableType:
    more = ("hint", "AUROC", "error regex") if wide else ()
    table = _table("fault", "cases", "seen", "if known", "abstained", *more)
    for kind, row in found["by_kind"].items():
        ranks = (_number(row["auroc"]), _number(row["controls"]["error_regex"])) if wide else ()
        hint = (_shown(row["hinted"], interval=False),) if wide else ()
        table.add_row(
            Text(one_line(kind), style="" if row["counted"] else "dim"),
            f"{row['n']:,}",
            _shown(row["recall"]),
            _shown(row["recall_if_known"]),
            _shown(row["abstention"], interval=False),
            *hint,
            *ranks,
        )
    return table


def _benign_table(found: Mapping[str, Any]) -> RenderableType:
    table = _table("benign change", "cases", "alarms", "verdict changed")
    for kind, row in found["by_benign"].items():
        table.add_row(Text(one_line(kind)), f"{row['n']:,}", _shown(row["fpr"]), _shown(row["changed"]))
    return table


def _tool_table(found: Mapping[str, Any], *, wide: bool) -> list[RenderableType]:
    table = _table("tool", "clean", "false alarms", "faults", "seen", *(("abstained",) if wide else ()))
    for tool, row in list(found["by_tool"].items())[:_MOST_TOOLS]:
        table.add_row(
            Text(one_line(tool)),
            f"{row['steps']:,}",
            _shown(row["fpr"]),
            f"{row['faults']:,}",
            _shown(row["recall"]),
            *((_shown(row["abstention"], interval=False),) if wide else ()),
        )
    more = len(found["by_tool"]) - _MOST_TOOLS
    return [table, Text(f"and {counted(more, 'other')}", style="dim")] if more > 0 else [table]


def _control_table(controls: Mapping[str, Any], found: Mapping[str, Any], bad: str, good: str) -> list[RenderableType]:
    """What scores rank, as a table; what says yes or no, or nothing, in words below it."""
    table = _table("score", "AUROC", "seen at 1 % false alarms", "at 5 %")
    words: list[RenderableType] = []
    for name, row in {"verifierd": found, **controls}.items():
        spoken = name.replace("_", " ")
        if "auroc" not in row:
            words.append(Text(f"{spoken}: {row['reason']}", style="dim"))
            continue
        ranks = [_shown(row["tpr_at_fpr_1"]), _shown(row["tpr_at_fpr_5"])]
        if "recall" in row and name != "verifierd":
            hits = [
                f"{_shown(row[key], interval=False)} of the {those}"
                for key, those in (("recall", bad), ("fpr", good))
                if row[key].value is not None
            ]
            words.append(Text(f"{spoken} flags {' and '.join(hits)}", style="dim"))
            ranks = ["-", "-"]
        if row["auroc"].value is not None:
            table.add_row(Text(spoken), _number(row["auroc"]), *ranks)
    return [table, *words] if table.row_count else words


def _agent(found: Mapping[str, Any]) -> list[RenderableType]:
    rows: list[RenderableType] = [
        Text("errors of the agent: another truth, the environment may answer them as expected", style="bold"),
        Text(_errors(found), style="dim"),
        *(
            _row(name, figure, "")
            for name, figure in (("seen", found["recall"]), ("false alarms", found["step_fpr"]))
            if figure.value is not None
        ),
    ]
    tolerance = found["tolerance"]
    for steps, figure in tolerance.get("found", {}).items():
        note = f"a step drawn at random: {_percent(tolerance['at_random'][steps])} %"
        rows.append(_row("first error found" if steps == "0" else f"  give or take {steps}", figure, note))
    return [*rows, *_control_table(found["controls"], found, "errors", "other steps")]


def _errors(found: Mapping[str, Any]) -> str:
    words = f"{counted(found['errors'], 'error')} in {counted(found['steps'], 'labelled step')}"
    if not found["unplaced"]:
        return words
    return f"{words}, and {counted(found['unplaced'], 'error')} where no tool was called, which no step can show"


def _footer(screen: Console, found: Mapping[str, Any]) -> None:
    seconds, simulator = found["seconds"], found["simulator"]
    half, most = (f"{1000 * seconds[rank]:.{0 if seconds[rank] > _LONG else 1}f}" for rank in ("p50", "p95"))
    price = f"{half} ms a step (95 %: {most} ms)"
    if found["model"] is not None:
        price += f", {found['tokens']['computed']:.0f} tokens computed a step"
        asked = f"failed on {_shown(simulator['failed'], n=True)} steps"
        failed = asked if simulator["asked"] else "was asked about no clean step"
        price += f"; the model {failed}"
    screen.print(Text(f"{price}; {seconds['wall']:.0f} s in all\n", style="dim"))


def _show_difference(screen: Console, found: Mapping[str, Any]) -> None:
    one, other = (f"{found[side]['predictor']} by {found[side]['policy']}" for side in ("one", "other"))
    screen.print(Text(f"{one_line(other)} against {one_line(one)}, on the same {found['cases']:,} cases", style="bold"))
    table = _table("", "difference in points")
    for name, words in (
        ("step_fpr", "false alarms on clean steps"),
        ("benign_fpr", "false alarms on benign changes"),
        ("recall", "faults seen, all kinds together"),
        ("abstention", "clean steps not decided"),
    ):
        table.add_row(words, _points(found[name]))
    for kind, figure in found["by_kind"].items():
        table.add_row(Text(f"  {one_line(kind)}"), _points(figure))
    screen.print(table)
    screen.print(Text(f"as many right and wrong by chance: p = {found['mcnemar']:.3g} (McNemar)\n", style="dim"))


def _table(name: str, *names: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(name, overflow="fold")
    for other in names:
        table.add_column(other, justify="right", no_wrap=True)
    return table


def _shown(figure: Estimate, *, interval: bool = True, n: bool = False) -> str:
    if figure.value is None:
        return "-"
    text = f"{_percent(figure.value)} %"
    if interval and figure.low is not None and figure.high is not None:
        text += f" ({_percent(figure.low)} to {_percent(figure.high)})"
    return f"{text} of {figure.n:,}" if n else text


def _percent(share: float) -> str:
    """In percent, without decimals where two digits count; few are not none, and most are not all."""
    value = 100 * share
    least = min(value, 100 - value)
    if least < 1e-9:
        return f"{value:.0f}"
    small = value < 50
    digits = small - math.floor(math.log10(least)) if least < 1 else int(value < 10)
    return f"{value:.{digits}f}"


def _number(figure: Estimate) -> str:
    return "-" if figure.value is None else f"{figure.value:.3f}"


def _points(figure: Estimate) -> str:
    if figure.value is None:
        return "-"
    text = f"{100 * figure.value:+.2f}"
    if figure.low is None or figure.high is None:
        return text
    return f"{text} ({100 * figure.low:+.2f} to {100 * figure.high:+.2f})"
