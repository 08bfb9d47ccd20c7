"""Figures of suites, or of runs compared -> one HTML file: what `verifierd bench --report` writes.

First what others published beside what was measured, by one rule; then each suite with its pictures, all its figures,
and some answers that were not right.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from verifierd.replay.bench.asking import Outcome
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.claims import RULE, is_share
from verifierd.replay.bench.compare import RATES, Compared
from verifierd.replay.bench.figures import Figure as Measured
from verifierd.replay.bench.figures import Results, value
from verifierd.replay.bench.suite import Known, Report, Suite
from verifierd.replay.report.charts import Axis, Bars, Curve, Drawing, bars, curves
from verifierd.replay.report.figures import Figure, Unit
from verifierd.replay.report.page import Cell, Chart, Part, Prose, Section, Table, page
from verifierd.replay.report.page import Named as About
from verifierd.replay.statistics import Interval

__all__ = ("of_runs", "of_suites")

_MOST_ROWS = 12
_MOST_BESIDE = 8
"""Rows of a table that stands open beside its picture."""

_OF_A_KIND = 3
_QUOTED = 240

_RUN = re.compile(r"([a-z])_(.+)")
_PAIR = re.compile(r"([a-z])_minus_([a-z])_(.+)")
_DEPTH = re.compile(r"depth_(\d+)_(\d+)_(.+)")
_NUMBERED = re.compile(r"(.+?)_(\d+)(k?)(_.+)?")

_INTERVALS = (
    "Intervals hold the true figure in 95 of 100 such measurements; N is what they are made of."
    " A median of fewer than six values has none such: it stands between the least and the largest."
)
_PAIRED = (
    "Differences are of answers to the same case in the same pass, the later run minus the earlier; where an interval"
    " holds 0, the two may be as good. McNemar's p-value says how often luck alone would make them differ as much; it"
    " takes passes for independent, which those of a greedy model are not, and is not corrected for looking often."
)


def of_suites(found: Sequence[tuple[Suite, Report]], *, command: str, date: str) -> str:
    """The HTML of suites with their reports.

    Args:
        found: In the order they were measured in.
        command: What was called, to be repeated.
        date: When.
    """
    sections = [_claims(found)] if any(report.published for _, report in found) else []
    for suite, report in found:
        sections += _suite(suite, report)
    return page("What predictors can do and cost", sections, facts=[("Made", date), ("Command", command)])


def of_runs(compared: Compared, *, command: str, date: str) -> str:
    """The HTML of runs that were compared."""
    who = Table(
        caption="Who was asked",
        head=("Run", "Predictor", "Model", "Answers", "File"),
        rows=[[run.run, run.predictor, run.model or "none", run.rows, run.file] for run in compared.runs],
    )
    section = Section(
        title=f"{compared.suite}: {len(compared.runs)} runs",
        lead=_PAIRED,
        careful=_INTERVALS,
        parts=[who, *_paired(compared.results), _everything(compared.results, {})],
    )
    return page(f"Runs of {compared.suite}, compared", [section], facts=[("Made", date), ("Command", command)])


def _claims(found: Sequence[tuple[Suite, Report]]) -> Section:
    rows: list[list[Cell]] = []
    for suite, report in found:
        for name, published in report.published.items():
            known = suite.figures[name]
            counted = f", {known.unit}" if known.unit else ""
            claimed = About(name=f"{suite.name}: {_words(name)}{counted}", about=f"{known.says} ({known.source})")
            measured = report.results.get(name)
            unit = "share" if measured is None and not known.unit else _unit(name, measured or 0, known)
            share = unit == "share" and 0 <= published <= 1
            rows.append(
                [
                    claimed,
                    Figure(value=published, unit="share" if share else "plain"),
                    Figure(value=None) if measured is None else _figure(measured, unit),
                    report.claims.get(name, "not comparable"),
                ]
            )
    return Section(
        title="What was published, and what was measured",
        lead="Each figure that others published, as far as these suites repeat it.",
        careful=RULE,
        parts=[
            Table(caption="Claims and their verdicts", head=("Claim", "Published", "Measured", "Verdict"), rows=rows)
        ],
    )


def _suite(suite: Suite, report: Report) -> Iterator[Section]:
    parts: list[Part] = [Prose(text=report.warning, warning=True)] if report.warning else []
    who: list[list[Cell]] = [
        ["predictor", report.predictor or "none"],
        ["model", report.model or "none"],
        ["size and seed", f"{report.size}, {report.seed}"],
    ]
    who += [[str(name), str(what)] for name, what in report.host.items()]
    three = suite.engine == "three-way"
    if three:
        parts.append(Prose(text=f"{report.model or 'nobody'}."))
    parts += _paired(report.results) if three else _pictures(report.results, suite.figures)
    parts.append(_everything(report.results, suite.figures))
    parts.append(Table(caption="Who was asked, and where", head=("What", "Which"), rows=who, folded=True))
    yield Section(
        title=suite.name,
        lead=suite.description,
        careful=f"{_INTERVALS} {_PAIRED}" if three else _INTERVALS,
        parts=parts,
    )
    if wrong := _wrong(report.rows):
        yield Section(
            title=f"{suite.name}: answers that are not right",
            lead=f"Some of them, at most {_OF_A_KIND} of a kind; with --out a file has all.",
            parts=[Table(caption="What came", head=("Case", "Outcome", "Truth", "Said"), rows=wrong)],
            inner=True,
        )


def _pictures(results: Results, known: Mapping[str, Known]) -> Iterator[Chart]:
    """Shares as bars, what belongs to a growing number as curves, times and other amounts as bars of their own."""
    kinds = {name: _kind(name, figure, known.get(name)) for name, figure in results.items()}
    lines = {name: place for name in results if kinds[name] and (place := _place(name)) is not None}
    families = Counter((place[0], place[1], kinds[name]) for name, place in lines.items())
    lines = {name: place for name, place in lines.items() if families[place[0], place[1], kinds[name]] > 1}
    for kind in dict.fromkeys(kinds.values()):
        rest = {name: results[name] for name in results if kinds[name] == kind and name not in lines}
        if kind and rest:
            yield _bars(_title(kind), {"": rest}, kind)
    for along, kind in dict.fromkeys((place[0], kinds[name]) for name, place in lines.items()):
        chosen = {name: place for name, place in lines.items() if (place[0], kinds[name]) == (along, kind)}
        yield _curves(along, kind, {name: (place[1], place[2], results[name]) for name, place in chosen.items()})


def _paired(results: Results) -> Iterator[Part]:
    """Runs side by side, and their differences."""
    pairs = {name: found for name in results if (found := _PAIR.fullmatch(name))}
    alone = {name: found for name in results if name not in pairs and (found := _RUN.fullmatch(name))}
    for kind in dict.fromkeys(_kind(found[2], results[name], None) for name, found in alone.items()):
        series: dict[str, Results] = {}
        for name, found in alone.items():
            if kind and _kind(found[2], results[name], None) == kind:
                series.setdefault(found[1], {})[found[2]] = results[name]
        if series:
            yield _bars(f"{_title(kind)}, by run", series, kind)
    rates: dict[str, Results] = {}
    rows: list[list[Cell]] = []
    for name, found in pairs.items():
        pair, what = f"{found[1]} minus {found[2]}", found[3]
        if what in RATES:
            rates.setdefault(pair, {})[what] = results[name]
        if not what.endswith("_mcnemar"):
            p = results.get(f"{name}_mcnemar")
            unit: Unit = "points" if what in RATES else "plain"
            rows.append([f"{_words(what)}: {pair}", _figure(results[name], unit), None if p is None else value(p)])
    if rates:
        yield _bars("Differences of shares", rates, "points")
    yield Table(caption="Differences in pairs", head=("What", "Difference", "McNemar's p"), rows=rows)


def _bars(title: str, series: Mapping[str, Results], kind: str) -> Chart:
    names = list(dict.fromkeys(name for found in series.values() for name in found))
    unit: Unit = "share" if kind == "share" else "points" if kind == "points" else "plain"
    drawn = [
        Bars(name=run, figures=[_figure(found[name], unit) if name in found else _NONE for name in names])
        for run, found in series.items()
    ]
    drawing = bars([_words(name) for name in names], drawn, _axis(kind))
    if unit == "plain":
        drawing["layout"]["xaxis"] = Axis(title=_axis(kind), scale="plain").drawn()
    table = Table(
        caption=f"{title}: figures",
        head=("Figure", *(run or "Measured" for run in series)),
        rows=[[_words(name), *(one.figures[place] for one in drawn)] for place, name in enumerate(names)],
        folded=len(names) > _MOST_BESIDE,
    )
    return Chart(title=title, drawing=drawing, table=table)


def _curves(along: str, kind: str, points: Mapping[str, tuple[str, float, Measured]]) -> Chart:
    families: dict[str, list[tuple[float, Measured]]] = {}
    for family, x, figure in points.values():
        families.setdefault(family, []).append((x, figure))
    lines = []
    for family, found in families.items():
        found.sort(key=lambda one: one[0])
        lines.append(
            Curve(
                name=_words(family),
                points=[(x, value(figure)) for x, figure in found],
                intervals=[(figure.low, figure.high) if isinstance(figure, Interval) else None for _, figure in found],
                style="marked",
            )
        )
    x_axis, y_axis = (
        Axis(title=along, scale="plain"),
        Axis(title=_axis(kind), scale="share" if kind == "share" else "plain"),
    )
    drawing: Drawing = curves(lines, x_axis, y_axis)
    unit: Unit = "share" if kind == "share" else "plain"
    table = Table(
        caption=f"{_title(kind)} by {along}: figures",
        head=("Figure", along, "Measured"),
        rows=[[_words(family), f"{x:g}", _figure(figure, unit)] for family, x, figure in points.values()],
        folded=len(points) > _MOST_BESIDE,
    )
    return Chart(title=f"{_title(kind)} by {along}", drawing=drawing, table=table)


def _everything(results: Results, known: Mapping[str, Known]) -> Table:
    rows: list[list[Cell]] = []
    for name, figure in results.items():
        about = known.get(name)
        rows.append(
            [
                name if about is None else About(name=name, about=about.says),
                _figure(figure, _unit(name, figure, about)),
                "" if about is None else about.unit,
            ]
        )
    return Table(caption="All figures", head=("Figure", "Measured", "Unit"), rows=rows, folded=True)


def _wrong(rows: Sequence[Row]) -> list[list[Cell]]:
    taken: Counter[str] = Counter()
    found: list[list[Cell]] = []
    for row in rows:
        if row.outcome is Outcome.ABSTAINED or (row.outcome is Outcome.ANSWERED and row.exact is not False):
            continue
        kind = "not exact" if row.outcome is Outcome.ANSWERED else row.outcome.value.replace("_", " ")
        taken[kind] += 1
        if taken[kind] <= _OF_A_KIND and len(found) < _MOST_ROWS:
            case = About(name=row.case, about=f"pass {row.run + 1}")
            found.append([case, About(name=kind, about=row.detail), _quoted(row.expected), _quoted(row.said)])
    return found


def _quoted(text: str) -> str:
    shown = text.strip("\n").replace("\n", "⏎")
    return f"{shown[:_QUOTED]}…" if len(shown) > _QUOTED else shown or "nothing"


_NONE = Figure(value=None)


def _figure(measured: Measured, unit: Unit) -> Figure:
    if not isinstance(measured, Interval):
        return Figure(value=measured, unit="plain" if isinstance(measured, int) else unit)
    return Figure(value=measured.value, low=measured.low, high=measured.high, n=measured.n, unit=unit)


def _unit(name: str, figure: Measured, known: Known | None) -> Unit:
    pair = _PAIR.fullmatch(name)
    if pair is not None:
        return "points" if pair[3] in RATES else "plain"
    return "share" if _kind(name, figure, known) == "share" else "plain"


def _kind(name: str, figure: Measured, known: Known | None) -> str:
    """What a figure is counted in: `share`, `ratio`, a unit; empty for bare numbers, which are not drawn."""
    if known is not None and known.unit:
        return known.unit
    if name.endswith("_ratio"):
        return "ratio"
    if unit := next((unit for part, unit in (("seconds", "s"), ("tokens", "tokens")) if part in name), ""):
        return unit
    if not isinstance(figure, Interval):
        return ""
    return "share" if is_share(figure) and "_over_" not in name and not name.startswith("auroc") else "ratio"


def _place(name: str) -> tuple[str, str, float] | None:
    """Of a figure that is one of a row: along what, which row, and where in it."""
    if found := _DEPTH.fullmatch(name):
        return "depth", found[3], float(found[2])
    if not (found := _NUMBERED.fullmatch(name)):
        return None
    row, number = f"{found[1]}{found[4] or ''}", float(found[2]) * (1024 if found[3] else 1)
    return ("step", row.removesuffix("_step"), number) if found[1].endswith("_step") else ("size", row, number)


def _title(kind: str) -> str:
    return {"share": "Shares", "ratio": "Ratios", "s": "Times", "tokens": "Tokens"}.get(kind, f"In {kind}")


def _axis(kind: str) -> str:
    return {"share": "share", "ratio": "ratio", "points": "difference", "s": "seconds"}.get(kind, kind)


def _words(name: str) -> str:
    return name.replace("_", " ")
