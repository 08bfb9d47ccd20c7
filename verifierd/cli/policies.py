"""`verifierd policies`: the bundled policies, and one of them in words."""

from collections.abc import Iterator, Sequence

import click
from rich.table import Table
from rich.text import Text

from verifierd import policy
from verifierd.calibration import Rate, required
from verifierd.cli.view import console, counted
from verifierd.fusion import Fusion
from verifierd.policy import Calibrated, Policy, Rules
from verifierd.sanitize import plain

__all__ = ("command",)

_CLASSES = {
    "deterministic": "what follows from the history",
    "pre-existing": "what depends on state that nobody showed",
    "runtime": "what only a run can tell",
}
_QUOTES = {"off": "nothing of", "short": "up to 2,000 characters each of", "full": "all of"}
_SHELLS = {
    "auto": "inferred from the trajectory",
    "bash": "bash with GNU programs, and lasting from step to step",
    "portable": "any; only what bash and zsh, GNU and BSD have in common is decided",
}


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
    click.echo(plain(f"{found.id}: {found.description or 'not described'}"))
    for title, rows in (
        ("asks", _asks(found)),
        ("compares", _compares(found)),
        ("decides", _decides(found)),
        *((f"in the domain {place}", _special(rules)) for place, rules in found.domains.items()),
        *((f"of the tool {place}", _special(rules)) for place, rules in found.tools.items()),
        ("alarms", _alarms(found)),
        ("calibration", _calibration(found, found.calibration)),
        ("surprise", _surprise(found.surprise)),
    ):
        click.echo(plain(title))
        for row in rows:
            click.echo(plain(f"  {row}"))


def _asks(found: Policy) -> Iterator[str]:
    asking = found.asking
    chain = ", then ".join(found.predictors)
    yield f"the predictors {chain}, until {100 * found.ask_below:g} % of the text is checked"
    yield f"taking the commands' shell to be: {_SHELLS[found.shell_profile]}"
    text = "with" if asking.predicted_text else "without"
    most = f"at most {asking.max_tokens:,} tokens"
    yield f"a model, if one is named, for {most}, {text} a text, within {asking.deadline:g} s"
    echo = "with" if asking.screen else "without"
    form = f"wrapper {asking.wrapper}, commands as {asking.action}, {echo} their echo"
    yield f"  with history {asking.history}, {form}"


def _compares(found: Policy) -> Iterator[str]:
    yield f"after taking off or forgiving: {', '.join(found.normalisers) or 'nothing'}"
    yield f"where something was guessed: {_counting(found.classes)}"


def _counting(classes: Sequence[str]) -> str:
    return ", and ".join(f"{_CLASSES[name]} ({name})" for name in classes) or "nothing"


def _decides(found: Policy) -> Iterator[str]:
    made = found.calibration
    yield f"on_path if at least {100 * found.min_coverage:g} % of the text was checked, and nothing contradicted"
    yield "off_path if something certain is contradicted"
    if made is not None:
        yield f"off_path if a step is as odd as {100 * made.learnt.step_alpha:g} % of clean steps at most"
    yield "else abstain, with a reason"
    yield f"verdicts quote {_QUOTES[found.quotes]} action, prediction and observation"


def _special(rules: Rules) -> Iterator[str]:
    if rules.normalisers is not None:
        yield f"takes off or forgives: {', '.join(rules.normalisers) or 'nothing'}"
    if rules.classes is not None:
        yield f"looks, where something was guessed, at: {_counting(rules.classes)}"
    if rules.min_coverage is not None:
        yield f"says on_path if at least {100 * rules.min_coverage:g} % of the text was checked"
    if rules.surprise is not None:
        yield "counts a model's surprise" if rules.surprise else "leaves a model's surprise out"
    if rules == Rules():
        yield "does as everywhere"


def _alarms(found: Policy) -> Iterator[str]:
    learnt = None if found.calibration is None else found.calibration.learnt
    if not found.alarms:
        yield "never: it only measures"
        return
    most = found.alarm_after
    number = f"more than {counted(most, 'contradiction')}" if most else "the first contradiction"
    first = f"after {number} of something certain in one trajectory"
    if learnt is not None and learnt.level is not None:
        yield first
        yield f"when the evidence of a trajectory exceeds {learnt.level:.4g}, and one of its steps is odd"
        return
    why = "not calibrated" if learnt is None else "its calibration is inconclusive"
    yield f"{first} ({why}: a model's surprise alone never alarms)"


def _calibration(found: Policy, made: Calibrated | None) -> Iterator[str]:
    if made is None:
        yield "none: `verifierd calibrate` learns one from clean trajectories"
        return
    learnt, sizes = made.learnt, made.learnt.sizes
    yield f"of {made.date}, hash {made.hash}"
    if made.measure != found.measure:
        yield "the policy was changed since in what makes its scores: calibrate anew"
    yield f"made with policy {made.policy}, predictors {made.predictor}, model {made.model or 'none'}"
    yield (
        f"from {counted(sizes.trajectories, 'clean trajectory')} of {counted(sizes.groups, 'group')} with "
        f"{counted(sizes.steps, 'scored step')}"
    )
    yield (
        f"of these {sizes.reference:,} for the reference, {sizes.level:,} for the level, "
        f"{sizes.trimmed:,} trimmed as too odd"
    )
    if learnt.level is None:
        needed = required(learnt.alpha, learnt.delta)
        yield (
            f"INCONCLUSIVE: no alarm level, which needs {needed:,} trajectories and has {sizes.level:,}; about "
            f"{learnt.missing:,} more are missing in all"
        )
    else:
        sure = "on average" if learnt.delta is None else f"in all but {100 * learnt.delta:g} % of calibrations"
        yield f"alarm level {learnt.level:.4g}: at most {100 * learnt.alpha:g} % of clean trajectories alarm, {sure}"
    if learnt.step_level is not None:
        yield f"step level {learnt.step_level:.4g}: {100 * learnt.step_alpha:g} % of clean steps score above it"
    yield from _rate("trajectories alarmed", learnt.alarms)
    yield from _rate("steps were off path", learnt.suspects)


def _rate(what: str, found: Rate | None) -> Iterator[str]:
    if found is None or not found.total:
        return
    yield (
        f"tried on others, {100 * found.count / found.total:.3g} % of the clean {what} "
        f"({found.count:,} of {found.total:,}; 95 % interval {100 * found.low:.3g} to {100 * found.high:.3g} %)"
    )


def _surprise(fusion: Fusion | None) -> Iterator[str]:
    if fusion is None:
        yield "the shipped score, fitted to no model: of each step the oddest statistic decides"
        return
    if not fusion.fitted:
        yield f"of each step the oddest statistic decides: {', '.join(fusion.quantiles)}"
        return
    yield f"fitted: {fusion.intercept:+.3g}, and for each statistic its weight times its distance from the usual"
    for name, term in sorted(fusion.terms.items(), key=lambda item: (-abs(item[1].weight), item[0])):
        yield f"{term.weight:+8.3f}  {name}"
