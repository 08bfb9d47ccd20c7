"""Verdicts -> one HTML file: what `verifierd replay --report` writes.

Only what is shown is held: counts, the worst steps off path and the strongest alarms, so that the log may be long.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from verifierd.policy import Policy
from verifierd.replay.report.charts import Bars, bars
from verifierd.replay.report.costs import times, tokens
from verifierd.replay.report.figures import Figure, count, percent, total
from verifierd.replay.report.page import (
    Case,
    Cell,
    Chart,
    Named,
    Part,
    Prose,
    Section,
    Table,
    Tile,
    Tiles,
    page,
    pieces,
)
from verifierd.replay.words import KINDS, REASONS, SIGNALS, VERDICTS, spoken
from verifierd.sanitize import Sanitizer
from verifierd.types import Alarm, ObservationKind, Signal, Verdict, VerdictKind

__all__ = ("MOST", "Findings", "Read", "report")

MOST = 30
"""Steps off path that are shown."""

_ALARMS = 100  # rows of the table of alarms
_OPEN = 12  # tools that are drawn

_UNQUOTED = "not quoted, as the policy wants it"

Document = Mapping[str, Any]


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, as far as verdicts do not tell.

    Attributes:
        named: How many files were to be read.
        files: How many of them were.
        lost: Lines that could not be read, by reason.
        limit: Judging ended after so many steps; None if there was no limit.
    """

    named: int
    files: int
    lost: Mapping[str, int]
    limit: int | None = None


class Findings:
    """Implements `Sink`: holds of all verdicts what the report shows.

    The worst steps are those at which a trajectory alarmed, then what is certain, then what a model found unlikely;
    among these the least likely on clean trajectories, and the furthest from what was expected, first. Names break
    ties, so that what is held does not depend on which file came first.
    """

    def __init__(self) -> None:
        self.reasons: Counter[tuple[VerdictKind, str]] = Counter()
        self.alarmed = 0
        self._worst: list[tuple[tuple[Any, ...], Verdict]] = []
        self._alarms: list[tuple[tuple[Any, ...], Verdict]] = []
        self._sanitizer = Sanitizer(b"report")

    @property
    def worst(self) -> list[Verdict]:
        """The worst steps off path, at most `MOST`."""
        return [verdict for _, verdict in self._worst]

    @property
    def alarms(self) -> list[Verdict]:
        """The verdicts at which trajectories alarmed, the strongest evidence first, without their texts."""
        return [verdict for _, verdict in self._alarms]

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Look at them."""
        for verdict in verdicts:
            self.reasons[verdict.verdict, verdict.reason] += 1
            alarm = verdict.alarm if verdict.alarm is not None and verdict.alarm.new else None
            if alarm is not None:
                self.alarmed += 1
                over = alarm.statistic - alarm.threshold
                _keep(self._alarms, (-over, *_place(verdict)), verdict, _ALARMS, self._named)
            if verdict.verdict is VerdictKind.OFF_PATH:
                guessed = verdict.reason == "surprise"
                rank = alarm is None, guessed, verdict.p_value or 0.0, -(verdict.score or 0.0)
                _keep(self._worst, (*rank, *_place(verdict)), verdict, MOST, self._quoted)

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _quoted(self, verdict: Verdict) -> Verdict:
        return self._sanitizer.verdict(verdict, "short")

    def _named(self, verdict: Verdict) -> Verdict:
        return self._sanitizer.verdict(verdict, "off")


def report(
    document: Document, findings: Findings, read: Read, *, policy: Policy, predictor: str, command: str, date: str
) -> str:
    """The HTML.

    Args:
        document: The figures, as `Summary.document` has them.
        findings: What else was seen of the same verdicts.
        read: What was read.
        policy: Who decided.
        predictor: Who was asked, in turn.
        command: What was called, to be repeated.
        date: When.
    """
    sections = [
        _result(document, findings, read, policy, predictor),
        _alarms(findings, policy),
        _off_path(document, findings, policy),
        _reasons(document, findings),
        _tools(document),
        _cost(document),
    ]
    return page("What verifierd found in recorded trajectories", sections, facts=[("Made", date), ("Command", command)])


def _keep(
    kept: list[tuple[tuple[Any, ...], Verdict]],
    key: tuple[Any, ...],
    verdict: Verdict,
    most: int,
    cut: Callable[[Verdict], Verdict],
) -> None:
    """Add a verdict, cut, if it is among the first ones by its key."""
    if len(kept) < most or key < kept[-1][0]:
        insort(kept, (key, cut(verdict)), key=itemgetter(0))
        del kept[most:]


def _place(verdict: Verdict) -> tuple[Any, ...]:
    return verdict.trajectory, verdict.step, verdict.verdict_id


def _result(document: Document, findings: Findings, read: Read, policy: Policy, predictor: str) -> Section:
    steps, verdicts = document["steps"], document["verdicts"]
    env = document["by_kind"].get(ObservationKind.ENV.value, 0)
    other = steps - env
    tiles = [
        Tile(
            name="Steps",
            figure=total(steps),
            about=f"of {_many(document['trajectories'], 'trajectory', 'trajectories')}"
            + (f"; {_many(other, 'is', 'are')} no answer of the environment, and not judged" if other else ""),
        ),
        *(
            Tile(
                name=words.capitalize(),
                figure=total(verdicts[kind]),
                about=f"{_share(verdicts[kind], steps)}; {about}",
            )
            for kind, words, about in (
                ("off_path", "off path", "reality departed from what had to come"),
                ("on_path", "on path", "what could be known was checked, and reality agrees"),
                ("abstain", "abstained", "not decided, which is no pass"),
            )
        ),
        Tile(
            name="Alarms",
            figure=total(findings.alarmed),
            about="trajectories that alarmed, at most once each" if policy.alarms else "this policy never alarms",
        ),
    ]
    made = policy.calibration
    calibrated = "nothing: not calibrated, so only what is certain can be off path or alarm"
    if made is not None:
        calibrated = f"{percent(made.learnt.alpha)} of clean trajectories"
        if made.learnt.level is None:
            calibrated = "nothing: there were too few trajectories for an alarm level"
    named, done = read.named, read.files
    rows: list[list[Cell]] = [
        ["predictors", predictor],
        ["model", document["model"] or "none"],
        ["policy", policy.id],
        ["calibrated for alarms on", calibrated],
        ["files", count(done) if named == done else f"{count(done)} of {count(named)}"],
    ]
    if read.limit is not None:
        rows.append(["limit", f"no more than {_many(read.limit, 'step', 'steps')}"])
    return Section(
        title="Result",
        lead=f"verifierd judged {_many(steps, 'step', 'steps')} of"
        f" {_many(document['trajectories'], 'trajectory', 'trajectories')}.",
        careful="It knows no truth: off path says that reality departed from what was expected. How often that is right"
        " `verifierd eval` measures.",
        parts=[
            *_warnings(document, read),
            Tiles(tiles=tiles),
            Table(caption="What was judged, by whom", head=("What", "Which"), rows=rows),
        ],
        inner=False,
    )


def _warnings(document: Document, read: Read) -> list[Part]:
    steps, found = document["steps"], []
    named, done = read.named, read.files
    if done < named and read.limit is None:
        found.append(f"{_many(named - done, 'file', 'files')} of {count(named)} could not be read, nor judged.")
    if read.lost:
        lost = ", ".join(f"{spoken(reason)} {count(n)}" for reason, n in read.lost.items())
        found.append(f"{_many(sum(read.lost.values()), 'line', 'lines')} could not be read, nor judged: {lost}.")
    if not steps:
        found.append("There is no step in what was read.")
    elif document["verdicts"]["abstain"] == steps:
        found.append("Nothing was decided: everything abstains. That nothing is off path is silence, and no pass.")
    return [Prose(text=text, warning=True) for text in found]


def _alarms(findings: Findings, policy: Policy) -> Section:
    shown = findings.alarms
    rows: list[list[Cell]] = []
    for verdict in shown:
        alarm = verdict.alarm
        assert alarm is not None
        rows.append(
            [
                Named(name=verdict.trajectory, about=f"in {verdict.origin.path}"),
                verdict.step,
                alarm.first_bad or None,
                _evidence(alarm),
                verdict.verdict_id,
            ]
        )
    none = "No trajectory alarmed." if policy.alarms else "This policy only measures and never alarms."
    head = ("Trajectory", "alarmed at step", "seems to go wrong at", "evidence", "verdict")
    left = findings.alarmed - len(shown)
    calibrated = policy.calibration is not None and policy.calibration.learnt.level is not None
    return Section(
        title="Trajectories that alarmed",
        lead="A trajectory alarms at most once, when the evidence of its steps together is more than the policy's level"
        f"{'' if calibrated else '; before calibration, evidence is how often something certain was contradicted'}.",
        careful=f"The strongest {count(len(shown))} are shown, {_many(left, 'is', 'are')} left out." if left else "",
        parts=[Table(caption="Alarms, the strongest evidence first", head=head, rows=rows)]
        if rows
        else [Prose(text=none)],
        inner=True,
    )


def _evidence(alarm: Alarm) -> str:
    if alarm.new and alarm.statistic <= alarm.threshold:
        return (
            f"something certain was contradicted; the rest, {alarm.statistic:.4g}, is not above {alarm.threshold:.4g}"
        )
    over = "above" if alarm.statistic > alarm.threshold else "not above"
    return f"{alarm.statistic:.4g}, {over} {alarm.threshold:.4g}"


def _off_path(document: Document, findings: Findings, policy: Policy) -> Section:
    shown = findings.worst
    left = document["verdicts"]["off_path"] - len(shown)
    parts: list[Part] = [_case(number, verdict, policy) for number, verdict in enumerate(shown, 1)]
    most = (
        f"The {count(len(shown))} most serious; {_many(left, 'is', 'are')} left out, and `--out FILE` has them all. "
        if left
        else ""
    )
    return Section(
        title="Steps off path",
        lead=f"{most}First those at which a trajectory alarmed, then what is certain, then what a model found unlikely."
        " Highlighted is what decided, and ▾ is where something is missing."
        if shown
        else "Where reality departed from what was expected, with the places that decided.",
        careful="Texts are of the transcripts: cut, with secrets taken out and control characters made visible."
        if shown
        else "",
        parts=parts or [Prose(text="There is none.")],
        inner=True,
    )


def _case(number: int, verdict: Verdict, policy: Policy) -> Case:
    alarm = verdict.alarm
    new = alarm is not None and alarm.new
    facts = [
        ("trajectory", verdict.trajectory),
        ("step", count(verdict.step)),
        ("tool", verdict.tool),
        ("coverage", percent(verdict.coverage)),
    ]
    if verdict.p_value is not None:
        facts.append(("p-value", f"{verdict.p_value:.3g}"))
    if alarm is not None:
        facts.append(("evidence", _evidence(alarm)))
    facts += [
        ("predicted by", verdict.predictor if verdict.model is None else f"{verdict.predictor} ({verdict.model})"),
        ("from", f"{verdict.origin.path}, at byte {verdict.origin.offset}"),
        ("verdict", verdict.verdict_id),
    ]
    quoted = policy.quotes != "off"
    spans = [signal.span for signal in verdict.signals if signal.span is not None]
    return Case(
        title=f"{number}. {'Alarm' if new else 'Off path'}: {spoken(verdict.reason)}",
        facts=facts,
        action=verdict.action if quoted else _UNQUOTED,
        predicted=_UNQUOTED
        if not quoted
        else "no whole text, only parts of it; the reasons say which"
        if verdict.predicted is None
        else verdict.predicted,
        observed=pieces(verdict.observed if quoted else _UNQUOTED, spans, None),
        reasons=[REASONS.get(verdict.reason, spoken(verdict.reason)), *map(_signal, verdict.signals)],
    )


def _signal(signal: Signal) -> str:
    meaning = SIGNALS.get(signal.name, "")
    return f"{spoken(signal.name)}{f' ({meaning})' if meaning else ''}{f': {signal.detail}' if signal.detail else ''}"


def _reasons(document: Document, findings: Findings) -> Section:
    steps = document["steps"]
    found = sorted(findings.reasons.items(), key=lambda item: (list(VERDICTS).index(item[0][0]), -item[1], item[0][1]))
    names = [f"{VERDICTS[verdict]}: {spoken(reason)}" for (verdict, reason), _ in found]
    figures = [Figure(value=n / steps) for _, n in found]
    table = Table(
        caption="Verdicts and their reasons",
        head=("Verdict", "steps", "share"),
        rows=[
            [Named(name=name, about=REASONS.get(reason, "")), n, figure]
            for name, ((_, reason), n), figure in zip(names, found, figures, strict=True)
        ],
    )
    chart = Chart(
        title="Share of all steps by verdict and reason",
        drawing=bars(names, [Bars(name="share", figures=figures)], "share of all steps"),
        table=table,
    )
    others = [(kind, n) for kind, n in document["by_kind"].items() if kind != ObservationKind.ENV]
    beside = Table(
        caption="What was not judged",
        head=("The observation is", "steps"),
        rows=[[Named(name=spoken(kind), about=KINDS[kind]), n] for kind, n in others],
    )
    return Section(
        title="Verdicts and reasons",
        lead="How often each verdict was given, and why.",
        careful="Abstaining is an answer of its own, and never a pass." if found else "",
        parts=[*([chart] if found else []), *([beside] if others else [])],
        inner=True,
    )


def _tools(document: Document) -> Section:
    counts, covered = document["by_tool"], document["coverage"]["by_tool"]
    names = sorted(counts, key=lambda name: (-counts[name]["steps"], name))
    rows = [_tool(name, counts[name], covered[name]) for name in names]
    drawn = [name for name in names if covered[name]["steps"]][:_OPEN]
    head = ("Tool", "steps", "off path", "on path", "abstained", "checked", "mean coverage", "exit status checked")
    table = Table(caption="By tool, most steps first", head=head, rows=rows[:_OPEN])
    rest = Table(caption=f"The other {count(len(rows) - _OPEN)} tools", head=head, rows=rows[_OPEN:], folded=True)
    drawing = bars(
        drawn,
        [
            Bars(name="checked", figures=[_checked(covered[name]) for name in drawn]),
            Bars(name="mean coverage", figures=[Figure(value=covered[name]["mean"]) for name in drawn]),
        ],
        "share",
    )
    return Section(
        title="By tool",
        lead="“Checked” is the share of the environment's answers of which at least something was pinned and compared;"
        " mean coverage is the share of their characters.",
        careful="What nobody checked cannot be off path: where coverage is low, silence means little.",
        parts=[
            Chart(title="What was checked, by tool", drawing=drawing, table=table) if drawn else table,
            *([rest] if rest.rows else []),
        ],
        inner=True,
    )


def _tool(name: str, counts: Document, covered: Document) -> list[Cell]:
    env = covered["steps"]
    return [
        name,
        counts["steps"],
        *(counts[kind] for kind in VERDICTS),
        _checked(covered),
        Figure(value=covered["mean"] if env else None),
        Figure(value=covered["status_checked"] / env if env else None),
    ]


def _checked(covered: Document) -> Figure:
    env = covered["steps"]
    return Figure(value=covered["above_zero"] / env if env else None, n=env)


def _cost(document: Document) -> Section:
    asked = document["asked"]
    about = f", of {_many(asked, 'step', 'steps')} that a model was asked about" if asked else ""
    return Section(
        title="Cost",
        lead="What a step costs: the time to predict and score it, and the tokens of a model.",
        careful="Times are of this machine.",
        parts=[
            times(document["seconds"], caption="Time", whole="the whole replay"),
            tokens(document["tokens"], caption=f"Tokens in all{about}", head="In all"),
        ],
        inner=True,
    )


def _share(n: int, of: int) -> str:
    return f"{percent(n / of)} of steps" if of else "of no step"


def _many(n: int, one: str, more: str) -> str:
    return f"{count(n)} {one if n == 1 else more}"
