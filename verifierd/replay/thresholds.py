"""What was learnt from clean trajectories -> one HTML file: what `verifierd calibrate --report` writes."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from verifierd.calibration import Bucket, Rate
from verifierd.replay.calibrate import Learnt
from verifierd.replay.report.charts import Axis, Curve, columns, curves
from verifierd.replay.report.figures import Figure, count, number, percent, total
from verifierd.replay.report.page import Cell, Chart, Named, Part, Prose, Section, Table, Tile, Tiles, page

__all__ = ("report",)

_OPEN = 30  # buckets that are shown at once
_DRAWN = 4  # buckets whose scores are drawn
_COLUMNS = 12


def report(learnt: Learnt, *, warning: str, command: str, date: str) -> str:
    """The HTML.

    Args:
        learnt: The policy, and what became of the trajectories.
        warning: What is missing for an alarm level; empty if there is one.
        command: What was called, to be repeated.
        date: When.
    """
    sections = [_result(learnt, warning), _promised(learnt), _left_out(learnt), _scores(learnt)]
    return page(f"What {learnt.policy.name} was calibrated on", sections, facts=[("Made", date), ("Command", command)])


def _result(learnt: Learnt, warning: str) -> Section:
    made, found = learnt.made, learnt.made.learnt
    rows: list[list[Cell]] = [
        ["policy", learnt.policy.id],
        ["predictors", made.predictor],
        ["model", made.model or "none"],
        ["evidence above which it alarms", "none" if found.level is None else f"{found.level:.4g}"],
        ["surprise that few clean steps exceed", "-" if found.step_level is None else f"{found.step_level:.4g}"],
        ["hash of the calibration", made.hash],
    ]
    tiles = (
        Tile(name="Trajectories", figure=total(learnt.trajectories), about="read; what was left out is below"),
        Tile(
            name="Steps with a score",
            figure=total(learnt.scored),
            about=f"of {count(learnt.steps)}; a step without one abstains, and changes nothing",
        ),
        Tile(
            name="Clean trajectories that alarmed",
            figure=_figure(found.alarms),
            about=f"where at most {percent(found.alpha)} may",
        ),
        Tile(
            name="Clean steps that were off path",
            figure=_figure(found.suspects),
            about=f"where at most {percent(found.step_alpha)} may",
        ),
    )
    return Section(
        title="Result",
        lead=f"Learnt from {count(found.sizes.trajectories)} clean trajectories that have a score, of"
        f" {count(found.sizes.groups)} groups: how odd clean steps are, and from which evidence on to alarm.",
        careful="It holds for trajectories such as these, judged by the same predictors and model.",
        parts=[
            *([Prose(text=warning, warning=True)] if warning else []),
            Tiles(tiles=tiles),
            Table(caption="What was learnt, for whom", head=("What", "Which"), rows=rows),
        ],
    )


def _promised(learnt: Learnt) -> Section:
    found = learnt.made.learnt
    tried = [
        (name, promised, rate)
        for name, promised, rate in (
            ("trajectories that alarm", found.alpha, found.alarms),
            ("steps that are off path", found.step_alpha, found.suspects),
        )
        if rate is not None
    ]
    table = Table(
        caption="Promised and realised on clean ones",
        head=("What", "Promised at most", "Realised"),
        rows=[[name, percent(promised), _figure(rate)] for name, promised, rate in tried],
    )
    axes = Axis(title="promised", scale="deviate"), Axis(title="realised", scale="deviate")
    lines = [
        Curve(
            name=name,
            points=[(promised, rate.count / rate.total)],
            intervals=[(rate.low, rate.high)],
            style="points",
        )
        for name, promised, rate in tried
    ]
    diagonal = Curve(name="as promised", points=[(0, 0), (1, 1)], style="reference")
    chart = Chart(
        title="Promised against realised rates, both ends stretched; below the line is better",
        drawing=curves([*lines, diagonal], *axes),
        table=table,
    )
    few = Prose(text="There were too few trajectories, or scores, to try it.")
    return Section(
        title="Does it keep its promise?",
        lead="Each fifth of the trajectories was judged by what the others taught, so none was judged by itself.",
        careful="A rate may lie above the line by chance: look at the interval. Trajectories that contradict something"
        " certain were left out, so these are rates of what is left.",
        parts=[chart if tried else few],
        inner=True,
    )


def _left_out(learnt: Learnt) -> Section:
    sizes = learnt.made.learnt.sizes
    rows: list[list[Cell]] = [
        [Named(name=name, about=about), n]
        for name, about, n in (
            ("labelled off path", "left out: somebody says that a step is not clean", learnt.labelled),
            (
                "contradicted",
                "left out: something certain was contradicted, so they are not clean",
                learnt.contradicted,
            ),
            (
                "for the model's surprise",
                "its weights were fitted to these, and to faults put into them",
                learnt.fitting,
            ),
            ("without a score", "every step abstained, so there was nothing to learn", learnt.unscored),
            ("trimmed", "left out as the oddest", sizes.trimmed),
            ("for the reference", "how odd clean steps are", sizes.reference),
            ("for the level", "from which evidence on to alarm", sizes.level),
        )
    ]
    return Section(
        title="What became of the trajectories",
        lead=f"Of {count(learnt.trajectories)} that were read, each went one of these ways.",
        parts=[Table(caption="Trajectories", head=("What became of them", "trajectories"), rows=rows)],
        inner=True,
    )


def _scores(learnt: Learnt) -> Section:
    reference = learnt.made.learnt.reference
    buckets = sorted(reference.buckets, key=lambda bucket: (-len(bucket.scores), bucket.tool, bucket.domain))
    head = ("Tool", "domain", "evidence", "scores", "median", "95 % are at most", "largest")
    rows = [_bucket(bucket, reference.least) for bucket in buckets]
    parts: list[Part] = [*_drawn([bucket for bucket in buckets if not bucket.deterministic][:_DRAWN])]
    parts.append(Table(caption="Clean scores by tool and domain", head=head, rows=rows[:_OPEN]))
    if rows[_OPEN:]:
        rest = f"The other {count(len(rows) - _OPEN)}"
        parts.append(Table(caption=rest, head=head, rows=rows[_OPEN:], folded=True))
    return Section(
        title="How odd clean steps are",
        lead="A live step is compared with the clean scores of its tool and domain: the share of them that is as large"
        " or larger is its p-value.",
        careful=f"With fewer than {count(reference.least)} of them, marked “few”, those of the tool in all domains"
        " count, then those of the domain, then all.",
        parts=parts,
        inner=True,
    )


def _bucket(bucket: Bucket, least: int) -> list[Cell]:
    scores = bucket.scores
    few = "" if len(scores) >= least else "few"
    return [
        Named(name=bucket.tool, about=few) if few else bucket.tool,
        bucket.domain,
        "certain" if bucket.deterministic else "a model's surprise",
        len(scores),
        *(number(scores[min(len(scores) - 1, int(share * len(scores)))]) for share in (0.5, 0.95)),
        number(scores[-1]),
    ]


def _drawn(buckets: Sequence[Bucket]) -> Iterator[Chart]:
    """A histogram of scores that are not tied; those of certain evidence all are."""
    scores = [score for bucket in buckets for score in bucket.scores]
    if not scores or min(scores) == max(scores):
        return
    low, width = min(scores), (max(scores) - min(scores)) / _COLUMNS
    edges = [low + width * place for place in range(_COLUMNS + 1)]
    names = [f"{number(start)} to {number(end)}" for start, end in pairwise(edges)]
    counts = []
    for bucket in buckets:
        held = [0] * _COLUMNS
        for score in bucket.scores:
            held[min(_COLUMNS - 1, int((score - low) / width))] += 1
        counts.append(held)
    shown = [f"{bucket.tool}, {bucket.domain}" for bucket in buckets]
    shares = [[n / len(bucket.scores) for n in held] for bucket, held in zip(buckets, counts, strict=True)]
    yield Chart(
        title="A model's surprise at clean steps: the share of each tool's scores in each range",
        drawing=columns(names, list(zip(shown, shares, strict=True)), "score", "share"),
        table=Table(
            caption="The same in numbers",
            head=("Score", *shown),
            rows=[[name, *row] for name, row in zip(names, zip(*counts, strict=True), strict=True)],
        ),
    )


def _figure(rate: Rate | None) -> Figure:
    if rate is None:
        return Figure(value=None)
    return Figure(value=rate.count / rate.total, low=rate.low, high=rate.high, n=rate.total)
