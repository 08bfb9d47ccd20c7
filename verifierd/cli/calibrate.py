"""`verifierd calibrate`: thresholds from clean trajectories -> a policy file."""

import sys
import time
from pathlib import Path
from typing import Any

import anyio
import click
from rich.progress import TimeRemainingColumn
from rich.text import Text

from verifierd import log
from verifierd.calibration import Rate, required
from verifierd.cli.inputs import Troubles, expand_inputs, spare
from verifierd.cli.options import Judging, Share, json_option, judging_options, report_option, reworded
from verifierd.cli.outputs import asked, now, write
from verifierd.cli.view import bar, console, counted, print_json
from verifierd.config import names_file
from verifierd.errors import StateError
from verifierd.replay.calibrate import Learnt, Options, calibrated, toml
from verifierd.replay.runs import Group, Run, runs

__all__ = ("command",)


class _Share(Share):
    """A number above 0 and below 1."""

    def __init__(self) -> None:
        super().__init__(0, 1, min_open=True, max_open=True)


@click.command("calibrate")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--alpha", type=_Share(), default=0.05, show_default=True, metavar="A", help="Share of clean runs that may alarm."
)
@click.option(
    "--step-alpha",
    type=_Share(),
    default=0.001,
    show_default=True,
    metavar="A",
    help="Share of clean steps that may be off path.",
)
@click.option(
    "--delta",
    type=_Share(),
    metavar="D",
    help="Have the share keep to --alpha for all but this share of calibrations, not on average.",
)
@click.option(
    "--trim",
    type=Share(0, 0.5, max_open=True),
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Drop this share of the trajectories, the oddest: where a few may not be clean.",
)
@click.option(
    "--group",
    type=click.Choice(["session", "file"]),
    default="session",
    show_default=True,
    help="What hangs together, and so ends up in one part: a session with its sub-agents, or a file.",
)
@report_option
@judging_options
@json_option
def command(
    *,
    paths: tuple[str, ...],
    alpha: float,
    step_alpha: float,
    delta: float | None,
    trim: float,
    group: Group,
    page: Path | None,
    judging: Judging,
    as_json: bool,
) -> None:
    """Learn from clean trajectories (files, folders, globs, or -) how odd clean steps are; write a policy.

    Trajectories with a step that is labelled off path, or that contradicts something certain, are left out. With too
    few for an alarm level the policy is written all the same, and the result is INCONCLUSIVE.
    """
    log.setup(level="error")
    if judging.out is None:
        raise click.UsageError("name the policy file to write: --out mine.toml")
    troubles = Troubles()
    files = expand_inputs(paths, troubles)
    spare([*files, judging.predictions], judging.out, page=page)
    if page is not None:
        write(page)  # what is wrong with it shows before the work
    options = Options(alpha=alpha, step_alpha=step_alpha, delta=delta, trim=trim, seed=judging.seed)
    began = time.perf_counter()

    async def work() -> tuple[list[Run], Learnt | None]:
        found = await runs(files, format=judging.format_name or "auto", group=group, limit=judging.limit, tell=troubles)
        if not found:
            return found, None
        return found, await _learnt(found, judging, options)

    _, learnt = anyio.run(work)
    if learnt is None:
        click.echo("verifierd: there is no trajectory to learn from; no policy was written", err=True)
        sys.exit(1)
    _write(judging.out, toml(learnt.policy))
    warning = _inconclusive(learnt) if learnt.missing else ""
    if page is not None:
        from verifierd.replay.thresholds import report  # noqa: PLC0415 - loads what draws

        write(page, report(learnt, warning=warning, command=asked(), date=learnt.made.date).encode())
    if as_json:
        print_json(_document(learnt, judging.out, time.perf_counter() - began))
    else:
        console().print(*_lines(learnt, judging.out), sep="\n")
    if warning:
        click.echo(f"verifierd: {warning}", err=True)
    if troubles.unread:
        sys.exit(1)


reworded(
    command,
    out="The policy file to write; an existing one is replaced.",
    limit="Take whole trajectories of at most N steps in all.",
)


async def _learnt(found: list[Run], judging: Judging, options: Options) -> Learnt:
    assert judging.out is not None
    with bar(TimeRemainingColumn()) as progress:
        task = progress.add_task("", total=sum(len(run.steps) for run in found if not run.labelled))

        def advance(steps: int) -> None:
            progress.update(task, advance=steps, description=counted(int(progress.tasks[0].completed), "step"))

        return await calibrated(
            found,
            judging.choice(),
            options,
            name=judging.out.stem,
            date=now(),
            on=advance,
        )


def _write(path: Path, text: str) -> None:
    """Replace the file by a whole one."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StateError(
            f"{path}: cannot be written: {error.strerror or error}", hint="Name another file after --out."
        ) from error


def _document(learnt: Learnt, out: Path, wall: float) -> dict[str, Any]:
    made = learnt.made
    found = made.learnt
    return {
        "out": str(out),
        "policy": learnt.policy.id,
        "hash": made.hash,
        "date": made.date,
        "predictor": made.predictor,
        "model": made.model,
        "conclusive": found.level is not None,
        "missing": learnt.missing,
        "alpha": found.alpha,
        "step_alpha": found.step_alpha,
        "delta": found.delta,
        "trim": found.trim,
        "seed": found.seed,
        "level": found.level,
        "step_level": found.step_level,
        "trajectories": {
            "read": learnt.trajectories,
            "labelled": learnt.labelled,
            "contradicted": learnt.contradicted,
            "fusion": learnt.fitting,
            "unscored": learnt.unscored,
            "reference": found.sizes.reference,
            "level": found.sizes.level,
            "trimmed": found.sizes.trimmed,
        },
        "groups": found.sizes.groups,
        "steps": {"read": learnt.steps, "scored": learnt.scored},
        "fusion": {"clean": learnt.clean, "faults": learnt.faulty} if learnt.fitting else None,
        "alarms": _rate(found.alarms),
        "suspects": _rate(found.suspects),
        "seconds": {"wall": wall},
    }


def _rate(found: Rate | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"value": found.count / found.total, "low": found.low, "high": found.high, "n": found.total}


def _lines(learnt: Learnt, out: Path) -> list[Text]:
    made, found = learnt.made, learnt.made.learnt
    sizes = found.sizes
    left_out = [
        f"{number:,} {why}"
        for number, why in (
            (learnt.labelled, "labelled off path"),
            (learnt.contradicted, "with something certain contradicted"),
        )
        if number
    ]
    read = f"{counted(learnt.trajectories, 'trajectory')} read; left out: {', '.join(left_out) or 'none'}"
    scored = f"{learnt.scored:,} of {counted(learnt.steps, 'step')} have a score"
    rows = [read, f"predictors {made.predictor}, model {made.model or 'none'}; {scored}"]
    if learnt.fitting:
        rows.append(
            f"surprise fitted to {learnt.clean:,} true observations and {learnt.faulty:,} faults of "
            f"{counted(learnt.fitting, 'trajectory')}"
        )
    elif made.model is not None:
        rows.append("surprise not fitted: there are too few trajectories or scores; the shipped default serves")
    rows.append(
        f"reference {sizes.reference:,}, level {sizes.level:,}, trimmed {sizes.trimmed:,}, "
        f"without any score {learnt.unscored:,} trajectories"
    )
    if found.level is not None:
        kept = "" if found.delta is None else f", but for {found.delta:.3g} of calibrations"
        rows.append(f"alarm above {found.level:.4g}, for at most {found.alpha:.3g} of clean trajectories{kept}")
    for what, tried in (("trajectories alarmed", found.alarms), ("steps were off path", found.suspects)):
        if tried is not None:
            rows.append(
                f"tried on each fifth, learnt from the others: {tried.count:,} of {tried.total:,} {what} "
                f"({tried.low:.3f} to {tried.high:.3f})"
            )
    name = str(out) if names_file(str(out)) else f"./{out}"
    rows.append(f"wrote {learnt.policy.id}; use it: verifierd replay --policy {name} PATH...")
    return [Text(row) for row in rows]


def _inconclusive(learnt: Learnt) -> str:
    found = learnt.made.learnt
    needed = required(found.alpha, found.delta)
    return (
        f"INCONCLUSIVE: no alarm level. At --alpha {found.alpha:g} the part that gives it needs {needed:,} clean "
        f"trajectories with a score and has {found.sizes.level:,}; about {learnt.missing:,} more are missing in all. "
        f"{'Steps are calibrated; until' if learnt.scored else 'Until'} then what is certain alarms "
        "as before calibration."
    )
