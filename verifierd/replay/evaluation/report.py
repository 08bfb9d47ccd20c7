"""Figures and rows -> one HTML file: what `verifierd eval --report` writes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from verifierd.replay.evaluation.judging import Evaluated, Mistake
from verifierd.replay.evaluation.sections import CHANCE, RATES, all_of_one, headline
from verifierd.replay.report.charts import Bars, Curve, bars, curves
from verifierd.replay.report.figures import Figure, count, figure, milliseconds, percent
from verifierd.replay.report.page import Case, Cell, Chart, Part, Prose, Section, Table, page, pieces
from verifierd.replay.words import spoken

__all__ = ("MOST", "report", "worst")

MOST = 10
"""Mistakes that are shown."""

_OF_A_KIND = 2
_INTERVALS = (
    "Intervals hold the true figure in 95 of 100 such measurements; for them whole groups (a session, a task, a file)"
    " are drawn anew, because steps of one session are alike. N is the number of cases."
)


def report(
    judges: Sequence[tuple[Mapping[str, Any], Evaluated]],
    compared: Sequence[Mapping[str, Any]],
    *,
    command: str,
    date: str,
) -> str:
    """The HTML.

    Args:
        judges: Of each judge the figures (`table.document`) and what it made of the cases; the first is the one that
            others are compared with.
        compared: Paired differences of each further judge from the first (`table.compared`).
        command: What was called, to be repeated.
        date: When.
    """
    documents = [msgspec.to_builtins(it) for it, _ in judges]
    names = _names(documents)
    sections: list[Section] = []
    if len(judges) > 1:
        sections.append(_comparison(documents, names, [msgspec.to_builtins(pair) for pair in compared]))
    for name, it, (_, found) in zip(names, documents, judges, strict=True):
        title = "Result" if len(judges) == 1 else f"Judge: {name}"
        sections.append(Section(title=title, lead=_judged(it), careful=_INTERVALS, parts=[*headline(it), _who(it)]))
        sections += [*all_of_one(it), _mistakes(found)]
    return page(
        "How well verifierd told faults from clean steps",
        sections,
        facts=[("Made", date), ("Command", command)],
    )


def worst(found: Sequence[Mistake], most: int = MOST) -> list[Mistake]:
    """The most expensive mistakes, false alarms first, at most two of a kind."""
    taken: Counter[tuple[bool, str]] = Counter()
    chosen = []
    for mistake in sorted(found, key=lambda one: (one.row.bad is True, -one.cost, one.row.case)):
        sort = mistake.row.bad is True, mistake.row.kind
        taken[sort] += 1
        if taken[sort] <= _OF_A_KIND:
            chosen.append(mistake)
    return chosen[:most]


def _names(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """What tells the judges apart."""
    chains = [it["predictor"] if it["model"] is None else f"{it['predictor']} ({it['model']})" for it in documents]
    policies = [it["policy"] for it in documents]
    if len(set(policies)) > 1:
        chains = [f"{chain}, {policy}" for chain, policy in zip(chains, policies, strict=True)]
    twice = Counter(chains)
    return [name if twice[name] == 1 else f"{name} #{number}" for number, name in enumerate(chains, 1)]


def _judged(it: Mapping[str, Any]) -> str:
    """One sentence on what was judged."""
    words = (
        f"verifierd judged {_many(it['steps'], 'step')} of {_many(it['trajectories'], 'trajectory', 'trajectories')}"
    )
    words += f" as logged; {count(it['clean'])} of them are held to be clean."
    if it["cases"]:
        words += f" {_many(it['cases'], 'observation is', 'observations are')} faulty, or harmlessly changed."
    return words


def _many(n: int, one: str, more: str | None = None) -> str:
    return f"{count(n)} {one if n == 1 else more or f'{one}s'}"


def _who(it: Mapping[str, Any]) -> Table:
    injection = it["injection"]
    alpha = it["alarms"]["alpha"]
    rows: list[list[Cell]] = [
        ["predictors", it["predictor"]],
        ["model", it["model"] or "none"],
        ["policy", it["policy"]],
        [
            "calibrated for alarms on",
            "nothing: not calibrated" if alpha is None else f"{percent(alpha)} of trajectories",
        ],
        ["groups", f"{count(it['groups'])}{'' if it['groups'] > 1 else ': too few for most intervals'}"],
    ]
    if injection:
        kinds, rate, seed = injection["kinds"], injection["rate"], injection["seed"]
        rows.append(["injected", f"{len(kinds)} kinds of change into {percent(rate)} of eligible steps, seed {seed}"])
    else:
        rows.append(["injected", "nothing: faults are those of the labels"])
    return Table(caption="What was judged, by whom", head=("What", "Which"), rows=rows)


def _mistakes(found: Evaluated) -> Section:
    shown = worst(found.mistakes)
    none = (
        "There is none: no clean or harmlessly changed observation was called off path, and no fault on path."
        " Faults on which it abstained are counted under Abstention."
    )
    parts: list[Part] = [_case(number, mistake) for number, mistake in enumerate(shown, 1)]
    return Section(
        title="The most expensive mistakes",
        lead="Wrong verdicts that cost most, false alarms first, then faults that were called on path, the surest"
        f" first; at most {_OF_A_KIND} of a kind. Highlighted is what decided, underlined with a wave what was altered,"
        " and ▾ is where something is missing.",
        careful="Texts are of the transcripts: cut, with secrets taken out and control characters made visible."
        if shown
        else "",
        parts=parts or [Prose(text=none)],
        inner=True,
    )


def _case(number: int, mistake: Mistake) -> Case:
    row = mistake.row
    title = f"Missed fault: {spoken(row.kind)}" if row.bad else f"False alarm: {spoken(row.kind)}"
    facts = [
        ("trajectory", row.trajectory),
        ("step", count(row.step)),
        ("tool", row.tool),
        ("reason", spoken(row.reason)),
        ("coverage", percent(row.coverage)),
        ("verdict", mistake.verdict),
    ]
    if row.p_value is not None:
        facts.insert(5, ("p-value", f"{row.p_value:.3g}"))
    if row.known is not None:
        facts.append(("could be known from the history", "yes" if row.known else "no"))
    return Case(
        title=f"{number}. {title}",
        facts=facts,
        action=mistake.action,
        predicted=mistake.predicted or "nothing that can be quoted",
        observed=pieces(mistake.observed, mistake.spans, mistake.altered),
        reasons=mistake.reasons,
    )


def _comparison(
    documents: Sequence[Mapping[str, Any]], names: Sequence[str], compared: Sequence[Mapping[str, Any]]
) -> Section:
    keys = (
        ("step_fpr", "false alarms on clean steps"),
        ("benign_fpr", "false alarms on harmless changes"),
        ("recall", "faults found (mean over kinds)"),
        ("recall_if_known", "faults found that could be known (mean over kinds)"),
        ("abstention", "abstention"),
    )
    rows: list[list[Cell]] = [[words, *(figure(it[key]) for it in documents)] for key, words in keys]
    rows.append(["AUROC", *(figure(it["auroc"], "rank") for it in documents)])
    rows.append(["median time of a step", *(milliseconds(it["seconds"]["p50"]) for it in documents)])
    side = Table(caption="Judges side by side", head=("Figure", *names), rows=rows)
    parts: list[Part] = [side]
    lines = [Curve(name=name, points=it["roc"]) for name, it in zip(names, documents, strict=True) if it["roc"]]
    if lines:
        ranks = Table(
            caption="Faults found at fixed rates of false alarms",
            head=("Judge", "AUROC", "at 1 % FPR", "at 5 % FPR"),
            rows=[
                [
                    name,
                    figure(it["auroc"], "rank"),
                    figure(it["tpr_at_fpr_1"]),
                    figure(it["tpr_at_fpr_5"]),
                ]
                for name, it in zip(names, documents, strict=True)
            ],
        )
        title = "ROC of all judges; up and to the left is better"
        parts.append(Chart(title=title, drawing=curves([*lines, CHANCE], *RATES), table=ranks))
    for name, pair in zip(names[1:], compared, strict=True):
        parts += _pair(names[0], name, pair)
    return Section(
        title="Judges compared",
        lead=f"{len(names)} judges on the same cases. Differences are paired: each case is judged by both, and the"
        " interval is of the difference, so it may exclude 0 where the intervals of the two overlap.",
        careful=_INTERVALS,
        parts=parts,
    )


def _pair(first: str, other: str, pair: Mapping[str, Any]) -> list[Part]:
    def points(key: str) -> Figure:
        return figure(pair[key], "points")

    rows: list[list[Cell]] = [
        ["false alarms on clean steps", points("step_fpr")],
        ["false alarms on harmless changes", points("benign_fpr")],
        ["faults found (of all cases, not averaged over kinds)", points("recall")],
        ["abstention on clean steps", points("abstention")],
        ["how often luck alone would make them differ as much (McNemar's p-value)", f"{pair['mcnemar']:.2g}"],
    ]
    caption = f"{other} minus {first}, on the same {count(pair['cases'])} cases"
    kinds = pair["by_kind"]
    figures = [figure(found, "points") for found in kinds.values()]
    table = Table(
        caption="Faults found by kind: difference",
        head=("Kind", f"{other} minus {first}"),
        rows=[[spoken(kind), one] for kind, one in zip(kinds, figures, strict=True)],
    )
    if not kinds:
        return [Table(caption=caption, head=("Figure", "Difference"), rows=rows)]
    drawing = bars(
        [spoken(kind) for kind in kinds], [Bars(name="difference", figures=figures)], "difference, with 95 % intervals"
    )
    return [
        Table(caption=caption, head=("Figure", "Difference"), rows=rows),
        Chart(title=f"Faults found by kind: {other} minus {first}", drawing=drawing, table=table),
    ]
