"""The figures of one judge -> sections of a report, in plain words: each says what its figures mean."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from verifierd.replay.evaluation.table import LEAST
from verifierd.replay.inject import BENIGN, FAULTS
from verifierd.replay.report.charts import Axis, Bars, Curve, bars, columns, curves
from verifierd.replay.report.costs import times, tokens
from verifierd.replay.report.figures import Figure, count, figure, percent
from verifierd.replay.report.page import Cell, Chart, Named, Part, Prose, Section, Table, Tile, Tiles
from verifierd.replay.words import REASONS, VERDICTS, spoken

__all__ = ("CHANCE", "RATES", "all_of_one", "headline")

Document = Mapping[str, Any]

RATES = (Axis(title="false-positive rate on clean steps"), Axis(title="faults found"))
"""The axes of a ROC curve."""

CHANCE = Curve(name="chance", points=[(0, 0), (1, 1)], style="reference")

_OPEN = 30  # rows of a table of strata that are shown at once
_WIDE = 6  # columns of a table of kinds
_LOOKED_AT = (0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # false-positive rates at which a curve is read

_CONTROLS = {
    "error_regex": "Does the observation hold a word that errors use (error, failed, denied, ...)?",
    "seen_before": "Did the very same observation come before in the trajectory?",
    "zlib": "How many new bytes does a compressor need for it, after what came before?",
    "action_support": "How rare is the action after the one before it, in other trajectories? It sees no observation.",
    "judge": "The same model, asked in words whether the observation is genuine.",
}

_CONTENT = {
    "deterministic": "stands in the action or the history",
    "pre-existing": "stands in neither: nobody showed it, or it had to be worked out",
    "runtime": "differs from run to run: times, process numbers, temporary names",
    "empty": "nothing came",
    "unknown": "nobody said what was altered",
}


def all_of_one(it: Document) -> list[Section]:
    """Everything about one judge, from the confusion matrices to what it cost."""
    sections = [_confusion(it), _curves(it), _histogram(it), _calibration(it), _alarms(it), _kinds(it)]
    sections += [_strata(it, name, *words) for name, words in _STRATA.items()]
    return [*sections, _controls(it), _abstention(it), _agent(it), _delay(it), _cost(it)]


def headline(it: Document) -> list[Part]:
    """The figures that one should see first, and in words where they mislead."""
    recall = figure(it["recall"])
    many = sum(kind["counted"] for kind in it["by_kind"].values())
    kinds = f"mean over the {many} kinds that have at least {LEAST} cases" if recall.known else _FEW
    known = figure(it["recall_if_known"])
    tiles = (
        Tile(
            name="False alarms on clean steps",
            figure=figure(it["step_fpr"]),
            about=f"step FPR: of {_cases(it['step_fpr'], 'step')} as logged, with nothing known against them,"
            " the share called off path",
        ),
        Tile(
            name="False alarms on harmless changes",
            figure=figure(it["benign_fpr"]),
            about=f"benign FPR: of {_cases(it['benign_fpr'], 'observation')} changed in ways that must not matter"
            " (white space, times, order), the share called off path",
        ),
        Tile(
            name="Faults found",
            figure=recall,
            about=f"recall, {kinds}; every fault on which it abstained counts as missed",
        ),
        Tile(
            name="Faults found that could be known",
            figure=known,
            about="the same, over faults that the history tells of: what was altered stands in the history"
            if known.known
            else _FEW,
        ),
        Tile(
            name="Abstention",
            figure=figure(it["abstention"]),
            about=f"of {_cases(it['abstention'], 'clean step')}, the share on which it said nothing",
        ),
    )
    return [*_warnings(it), Tiles(tiles=tiles), _more(it)]


_FEW = f"no kind of fault has {LEAST} cases, so there is no overall figure; see the kinds below"


def _cases(estimate: Mapping[str, Any], name: str) -> str:
    n = estimate["n"]
    return f"{count(n)} {name}{'' if n == 1 else 's'}"


def _warnings(it: Document) -> list[Part]:
    above, abstained = figure(it["coverage"]["above_zero"]), figure(it["abstention"])
    if not above.known:
        return [
            Prose(
                text="There is no clean step among the cases, so nothing can be said of false alarms on them.",
                warning=True,
            )
        ]
    if above.value == 0.0 and abstained.value == 1.0:
        words = (
            "These predictors have nothing to say about these steps: everything abstains. Coverage is 0: nothing of any"
            " observation was predicted. No false alarm here is silence, not skill."
        )
        return [Prose(text=words, warning=True)]
    if above.value == 0.0:
        words = (
            "Nothing of any clean observation was predicted (coverage 0). What was decided all the same rests on exit"
            " statuses, shapes, or a model's likelihood."
        )
        return [Prose(text=words, warning=True)]
    if abstained.value is not None and abstained.value > 0.5:
        words = (
            f"It says nothing of most clean steps ({abstained.text}): read false alarms as rates of all steps, and"
            " compare with the rates over decided steps below."
        )
        return [Prose(text=words, warning=True)]
    return []


def _more(it: Document) -> Table:
    rows: list[list[Cell]] = [
        [Named(name=name, about=about), figure(it[key])]
        for key, name, about in (
            ("step_fpr_decided", "False alarms on decided clean steps", "abstentions left out"),
            ("step_fnr", "Faults not found", "step FNR over all faults, not averaged over kinds; abstentions included"),
            ("step_fnr_decided", "Faults called on path", "among those on which it did not abstain"),
            (
                "hinted",
                "Clean steps with a hint",
                "a repeat, an answer to another action, or orders to the reader are suspected; it decides nothing",
            ),
            ("benign_changed", "Harmless changes that changed the verdict", "of steps that were decided as logged"),
            ("precision", "Precision here", "off-path verdicts that were right; depends on how many faults there are"),
        )
    ]
    rows += [
        [
            Named(
                name=f"Precision if {percent(float(share))} of steps were bad",
                about="the same rates, at a share of bad steps as surveys of real traces have found",
            ),
            figure(found),
        ]
        for share, found in it["precision_at"].items()
    ]
    rows += [
        [Named(name="AUROC", about="how often a fault looks more suspicious than a clean step"), _rank(it["auroc"])],
        [
            Named(
                name="Coverage above zero", about="clean steps of which at least something was predicted and checked"
            ),
            figure(it["coverage"]["above_zero"]),
        ],
        [
            Named(name="Mean coverage", about="share of an observation's characters that was predicted and checked"),
            Figure(value=it["coverage"]["mean"]),
        ],
    ]
    return Table(caption="More figures", head=("Figure", "Value"), rows=rows)


def _rank(estimate: Mapping[str, Any]) -> Figure:
    return figure(estimate, "rank")


def _matrix(found: Mapping[str, Mapping[str, int]], caption: str, names: Mapping[str, str]) -> Table:
    meant = {
        ("off_path", "off_path"): "found",
        ("off_path", "on_path"): "missed",
        ("on_path", "off_path"): "false alarm",
        ("on_path", "on_path"): "right",
    }
    rows: list[list[Cell]] = [
        [
            names[truth],
            *(
                Named(name=count(found[truth][said]), about=meant.get((truth, said), "said nothing"))
                for said in VERDICTS
            ),
            sum(found[truth].values()),
        ]
        for truth in ("off_path", "on_path")
    ]
    return Table(caption=caption, head=("Truth", *VERDICTS.values(), "all"), rows=rows)


def _confusion(it: Document) -> Section:
    parts: list[Part] = [
        _matrix(
            it["confusion"],
            "Environment: did the observation come as it should?",
            {"off_path": "fault", "on_path": "clean, or harmless change"},
        )
    ]
    agent = it["agent"]
    if agent is None:
        parts.append(Prose(text="Agent: nobody labelled these actions, so nothing is said of the agent's errors."))
    else:
        parts.append(
            _matrix(
                agent["confusion"],
                "Agent: was the action right?",
                {"off_path": "the action was an error", "on_path": "the action was right"},
            )
        )
    return Section(
        title="Verdicts against truth",
        lead="How often each verdict met each truth. There are three truths, and they are never added up: the"
        " environment answered what it could not have answered; the agent did something wrong;"
        " the simulator predicted wrongly.",
        careful="An error of the agent is often followed by a perfectly predictable observation, so it is on path.",
        parts=[*parts, _simulator(it["simulator"])],
        inner=True,
    )


def _simulator(found: Document) -> Table:
    rows: list[list[Cell]] = [
        ["whole observation predicted", found["whole"]],
        ["of these, another came (as compared after harmless differences)", figure(found["wrong"])],
        ["a model was asked, or a predictor failed", found["asked"]],
        ["of these, the simulator failed", figure(found["failed"])],
        *([f"failed: {REASONS[name]}", n] for name, n in found["failures"].items() if n),
        ["false alarms on clean steps", found["false_alarms"]],
    ]
    return Table(caption="Simulator: what it predicted of clean steps", head=("What", "Steps"), rows=rows)


def _curves(it: Document) -> Section:
    roc: list[tuple[float, float]] = [(fpr, tpr) for fpr, tpr in it["roc"]]
    ranks = Table(
        caption="Who ranks faults above clean steps",
        head=("Score", "AUROC", "faults found at 1 % FPR", "at 5 % FPR"),
        rows=[_ranked("verifierd", it), *(_ranked(spoken(name), one) for name, one in it["controls"].items())],
    )
    lead = (
        "If one were to call off path whatever looks more suspicious than a level, how many faults would be found at"
        " each rate of false alarms? AUROC sums it up: 1 is perfect, 0.5 is chance."
    )
    careful = (
        "Straight stretches are cases that look alike, mostly those on which it abstains. The daemon's own verdicts are"
        " not on this curve: they use fixed rules. The controls, simple things that anyone could do, stand beside it."
    )
    if not roc:
        missing = Prose(text="There are no faults, or no clean steps, so there is no curve.")
        return Section(title="ROC and DET curves", lead=lead, careful=careful, parts=[missing, ranks], inner=True)
    points = [
        Curve(name=spoken(name), points=[(one["fpr"]["value"], one["recall"]["value"])], style="points")
        for name, one in it["controls"].items()
        if one.get("fpr") is not None and one["fpr"]["value"] is not None and one["recall"]["value"] is not None
    ]
    read = Table(
        caption="The curve, read at some rates",
        head=("False-positive rate up to", "Faults found", "Faults missed"),
        rows=[
            [percent(rate), Figure(value=found), Figure(value=1 - found)]
            for rate in _LOOKED_AT
            for found in [max(tpr for fpr, tpr in roc if fpr <= rate)]
        ],
        folded=True,
    )
    missed = Axis(title="faults missed", scale="deviate")
    wrong = Axis(title=RATES[0].title, scale="deviate")
    det = curves([Curve(name="verifierd", points=[(fpr, 1 - tpr) for fpr, tpr in roc])], wrong, missed)
    return Section(
        title="ROC and DET curves",
        lead=lead,
        careful=careful,
        parts=[
            Chart(
                title="ROC: faults found against false alarms; up and to the left is better",
                drawing=curves([Curve(name="verifierd", points=roc), *points, CHANCE], *RATES),
                table=ranks,
            ),
            Chart(
                title="DET: faults missed against false alarms, both ends stretched; down and to the left is better;"
                " what is nearer to 0 or 100 % than 0.05 is drawn there",
                drawing=det,
                table=read,
            ),
        ],
        inner=True,
    )


def _ranked(name: str, found: Document) -> list[Cell]:
    if "auroc" not in found:
        return [Named(name=name, about=f"not measured: {found['reason']}"), None, None, None]
    return [name, _rank(found["auroc"]), figure(found["tpr_at_fpr_1"]), figure(found["tpr_at_fpr_5"])]


def _histogram(it: Document) -> Section:
    found = it["histogram"]
    bins = [
        (_bin(low, high), clean, faulty)
        for (low, high), clean, faulty in zip(pairwise(found["edges"]), found["clean"], found["faulty"], strict=True)
        if low < 1 or clean or faulty
    ]
    totals = max(1, sum(found["clean"])), max(1, sum(found["faulty"]))
    names = [name for name, _, _ in bins]
    shares = [[row[side] / totals[side - 1] for row in bins] for side in (1, 2)]
    return Section(
        title="Scores of clean and of faulty steps",
        lead="How suspicious clean and faulty observations look: 0 means that all of it was predicted and came so, 0.5"
        " that nothing is known, and on the far right something certain was contradicted.",
        careful="The better the two colours are apart, the better it tells faults from clean steps.",
        parts=[
            Chart(
                title="Suspicion: share of clean and of faulty observations in each range",
                drawing=columns(names, (("clean", shares[0]), ("faulty", shares[1])), "suspicion", "share"),
                table=Table(
                    caption="The same in numbers",
                    head=("Suspicion", "clean", "share", "faulty", "share"),
                    rows=[
                        [name, clean, Figure(value=clean / totals[0]), faulty, Figure(value=faulty / totals[1])]
                        for name, clean, faulty in bins
                    ],
                ),
            )
        ],
        inner=True,
    )


def _bin(low: float, high: float) -> str:
    if low >= 2:
        return "contradiction"
    return f"{low:.1f} to {high:.1f}" if low < 1 else "1 and more"


def _calibration(it: Document) -> Section:
    title = "Calibration"
    lead = (
        "A p-value of 0.01 should come up on one clean step in a hundred. Here is how often it did, for each nominal"
        " rate: above the line there are more false alarms than promised."
    )
    if it["calibration"] is None:
        text = (
            "Not calibrated: this policy has seen no clean trajectories, so no step has a p-value. Only what is certain"
            " can be off path. `verifierd calibrate` makes a policy that has them."
        )
        return Section(title=title, lead=lead, parts=[Prose(text=text)], inner=True)
    rows = it["calibration"]
    ends = [(f.low, f.high) if f.low is not None and f.high is not None else None for f in _each(rows, "realised")]
    realised = Curve(
        name="realised",
        points=[(row["nominal"], row["realised"]["value"]) for row in rows],
        intervals=ends,
        style="marked",
    )
    table = Table(
        caption="Nominal against realised",
        head=("Nominal rate", "Realised on clean steps"),
        rows=[[percent(row["nominal"]), figure(row["realised"])] for row in rows],
    )
    axes = (
        Axis(title="nominal rate", scale="deviate"),
        Axis(title="share of clean steps at or under it", scale="deviate"),
    )
    promised = Curve(name="as promised", points=[(row["nominal"], row["nominal"]) for row in rows], style="reference")
    return Section(
        title=title,
        lead=lead,
        careful="Only steps that were scored count. Small rates need many steps: look at the intervals.",
        parts=[
            Chart(
                title="Nominal against realised rate of p-values, both ends stretched",
                drawing=curves([realised, promised], *axes),
                table=table,
            )
        ],
        inner=True,
    )


def _each(rows: Iterable[Document], key: str) -> list[Figure]:
    return [figure(row[key]) for row in rows]


def _alarms(it: Document) -> Section:
    found = it["alarms"]
    alpha = found["alpha"]
    rows = [("all clean trajectories", found["false"])]
    rows += [(_steps(*part["steps"]), part["false"]) for part in found["by_length"]]
    rows.append(("over 100 steps", found["over_100_steps"]))
    names, figures = [name for name, _ in rows], [figure(one) for _, one in rows]
    table = Table(
        caption="Clean trajectories that alarmed",
        head=("Trajectories", "Alarmed"),
        rows=[[name, one] for name, one in zip(names, figures, strict=True)],
    )
    promise = (
        f"The policy was calibrated so that at most {percent(alpha)} of clean trajectories alarm, the dotted line."
        if alpha is not None
        else "The policy is not calibrated, so no rate was promised; only contradictions can raise an alarm."
    )
    chart = Chart(
        title="Clean trajectories that alarmed, by length",
        drawing=bars(names, [Bars(name="alarmed", figures=figures)], "share that alarmed", reference=alpha),
        table=table,
    )
    true = figure(found["true"])
    words = (
        f"Of the {count(true.n or 0)} trajectories in which something is known to be off path, {true.text} alarmed then"
        " or later."
        if true.known
        else "No trajectory as logged holds a step that is known to be off path."
    )
    parts: list[Part] = [Prose(text=promise), chart if figures[0].known else table, Prose(text=words)]
    return Section(
        title="Alarms of whole trajectories",
        lead="A daemon alarms at most once a trajectory. How many of those in which nothing is known to be wrong"
        " alarmed, and does that grow with their length?",
        careful="Trajectories count as independent here. Injected faults are cases of their own and raise no alarm.",
        parts=parts,
        inner=True,
    )


def _steps(low: int, high: int) -> str:
    return f"{count(low)} steps" if low == high else f"{count(low)} to {count(high)} steps"


def _about(kind: str) -> str:
    """What a kind of change is, as the function that makes it says."""
    made = FAULTS.get(kind) or BENIGN.get(kind)
    return ((made.__doc__ if made is not None else None) or "from the labelled set").split("\n")[0]


def _kinds(it: Document) -> Section:
    kinds, benign = it["by_kind"], it["by_benign"]
    names = [spoken(kind) + ("" if found["counted"] else " (few)") for kind, found in kinds.items()]
    table = Table(
        caption="Faults",
        head=("Kind", "cases", "found", "found if it could be known", "abstained", "hinted at", "AUROC"),
        rows=[
            [
                Named(name=name, about=_about(kind)),
                found["n"],
                figure(found["recall"]),
                figure(found["recall_if_known"]),
                figure(found["abstention"]),
                figure(found["hinted"]),
                _rank(found["auroc"]),
            ]
            for name, (kind, found) in zip(names, kinds.items(), strict=True)
        ],
    )
    drawing = bars(
        names,
        [
            Bars(name="found", figures=_each(kinds.values(), "recall")),
            Bars(name="found if it could be known", figures=_each(kinds.values(), "recall_if_known")),
        ],
        "share called off path",
    )
    harmless = Table(
        caption="Harmless changes: none of them should alarm",
        head=("Kind", "cases", "called off path", "verdict changed", "hinted at"),
        rows=[
            [
                Named(name=spoken(kind), about=_about(kind)),
                found["n"],
                *(figure(found[name]) for name in ("fpr", "changed", "hinted")),
            ]
            for kind, found in benign.items()
        ],
    )
    beside = Table(
        caption="AUROC of each kind, with the controls",
        head=("Kind", "verifierd", *map(spoken, it["controls"])),
        rows=[
            [spoken(kind), _rank(found["auroc"]), *(_rank(one) for one in found["controls"].values())]
            for kind, found in kinds.items()
        ],
        folded=True,
    )
    parts: list[Part] = [Chart(title="Faults found, by kind", drawing=drawing, table=table), beside] if kinds else []
    return Section(
        title="By kind of fault",
        lead="One observation is replaced by a faulty one, everything before it is as it was: how often was it called"
        " off path? “Could be known” keeps those whose altered text, or its line, stood in the action or before"
        " it.",
        careful=f"Kinds with fewer than {LEAST} cases, marked “few”, do not count for the overall figure.",
        parts=[*parts, harmless],
        inner=True,
    )


_RANKS = ("AUROC", "faults found at 1 % FPR", "at 5 % FPR")

_STRATA = {
    "by_tool": ("By tool", "Tool", "Which tools it can judge. All shells are one tool."),
    "by_domain": ("By domain", "Domain", "What sort of environment answered."),
    "by_length": ("By length", "Characters", "How long the observation as logged, or as altered, is."),
    "by_content": (
        "By content",
        "Content",
        "What most of a clean observation is made of, or what was altered of a faulty one: by the texts alone.",
    ),
}


def _strata(it: Document, key: str, title: str, name: str, lead: str) -> Section:
    found: Mapping[str, Document] = it[key]
    rows = [_stratum(stratum, figures, key) for stratum, figures in found.items()]
    head = (name, "clean steps", "faults", "false alarms", "faults found", "precision", "abstained", *_RANKS)
    parts: list[Part] = [Table(caption=title, head=head, rows=rows[:_OPEN])]
    if len(rows) > _OPEN:
        parts.append(Table(caption=f"The other {count(len(rows) - _OPEN)}", head=head, rows=rows[_OPEN:], folded=True))
    widest = [stratum for stratum, figures in found.items() if figures["by_kind"]][:_WIDE]
    kinds = [kind for kind in it["by_kind"] if any(kind in found[stratum]["by_kind"] for stratum in widest)]
    if len(widest) > 1 and kinds:
        parts.append(
            Table(
                caption=f"Faults found by kind, {title.lower()}",
                head=("Kind", *widest),
                rows=[[spoken(kind), *(_of_kind(found[one], kind) for one in widest)] for kind in kinds],
                folded=True,
            )
        )
    return Section(
        title=title,
        lead=lead,
        careful="Where everything abstains, no false alarm means nothing." if key == "by_tool" else "",
        parts=parts,
        inner=True,
    )


def _stratum(name: str, figures: Document, key: str) -> list[Cell]:
    about = _CONTENT.get(name, "") if key == "by_content" else ""
    if figures["abstention"]["value"] == 1.0:
        silent = "nothing is predicted here: every clean step abstains"
        about = f"{about}; {silent}" if about else silent
    return [
        Named(name=name, about=about) if about else name,
        figures["steps"],
        figures["faults"],
        *(figure(figures[one]) for one in ("fpr", "recall", "precision", "abstention")),
        _rank(figures["auroc"]),
        *(figure(figures[one]) for one in ("tpr_at_fpr_1", "tpr_at_fpr_5")),
    ]


def _of_kind(figures: Document, kind: str) -> Figure:
    return figure(figures["by_kind"].get(kind))


def _control_table(found: Document, controls: Document, caption: str, *, wrong: str) -> Table:
    rows: list[list[Cell]] = [
        [
            Named(name="verifierd", about="its verdicts; ranks by its suspicion"),
            _rank(found["auroc"]),
            figure(found["tpr_at_fpr_1"]),
            figure(found["tpr_at_fpr_5"]),
            figure(found["step_fpr"]),
            Figure(value=1 - found["step_fnr"]["value"], n=found["step_fnr"]["n"])
            if "step_fnr" in found and found["step_fnr"]["value"] is not None
            else figure(found["recall"]),
        ]
    ]
    for name, one in controls.items():
        about = _CONTROLS.get(name, "")
        if "auroc" not in one:
            about = f"{about} Not measured: {one['reason']}."
            rows.append([Named(name=spoken(name), about=about), None, None, None, None, None])
            continue
        rows.append(
            [
                Named(name=spoken(name), about=about),
                _rank(one["auroc"]),
                figure(one["tpr_at_fpr_1"]),
                figure(one["tpr_at_fpr_5"]),
                figure(one.get("fpr")),
                figure(one.get("recall")),
            ]
        )
    head = ("Who", "AUROC", f"{wrong} found at 1 % FPR", "at 5 % FPR", "FPR of its yes", f"{wrong} found by its yes")
    return Table(caption=caption, head=head, rows=rows)


def _controls(it: Document) -> Section:
    return Section(
        title="Controls",
        lead="What simple means make of the same cases. A verifier that does not beat them is not worth its cost.",
        careful="Faults found are of all faults here, not averaged over kinds as in the headline, so that rows can be"
        " compared. Controls that only rank have no yes.",
        parts=[_control_table(it, it["controls"], "verifierd and the controls on the same cases", wrong="faults")],
        inner=True,
    )


def _abstention(it: Document) -> Section:
    cost = it["abstention_cost"]
    reasons = Table(
        caption="Why clean steps were not decided",
        head=("Reason", "Steps"),
        rows=[[Named(name=spoken(name), about=REASONS.get(name, "")), n] for name, n in it["reasons"].items()],
    )
    rows: list[list[Cell]] = [
        ["clean steps on which it abstains", figure(it["abstention"])],
        ["faults on which it abstains", figure(cost["faults_abstained"])],
        ["misses that are abstentions, and not wrong verdicts", figure(cost["of_misses"])],
        ["abstentions on faults that could be known from the history", figure(cost["could_be_known"])],
    ]
    return Section(
        title="Abstention",
        lead="Saying nothing is an answer of its own and never looks like a pass. Here is how often, why, and what it"
        " cost: faults that nobody decided.",
        careful="The last row is what a better predictor could win; of faults that came with labels nobody knows.",
        parts=[Table(caption="How often, and at what cost", head=("What", "Share"), rows=rows), reasons],
        inner=True,
    )


def _agent(it: Document) -> Section:
    found = it["agent"]
    title = "Errors of the agent"
    lead = (
        "Labels that people gave to actions, against verdicts on the observations that followed: another question than"
        " the one verifierd answers, and never pooled with it."
    )
    if found is None:
        text = "Nobody labelled these actions."
        return Section(title=title, lead=lead, parts=[Prose(text=text)], inner=True)
    rows: list[list[Cell]] = [
        ["labelled steps", found["steps"]],
        ["of these errors", found["errors"]],
        [Named(name="labels that no step carries", about="they are about what the agent said"), found["unplaced"]],
        ["right actions called off path", figure(found["step_fpr"])],
        ["errors called off path", figure(found["recall"])],
        ["precision", figure(found["precision"])],
        ["abstention", figure(found["abstention"])],
    ]
    published = found["judge_of_its_size"]
    note = (
        f"For comparison, as published: {published['source']} finds {percent(published['recall'])} of such errors at a"
        f" false-positive rate of {percent(published['fpr'])}."
    )
    parts: list[Part] = [
        Table(caption="Verdicts against labels of actions", head=("What", "Value"), rows=rows),
        Prose(text=note),
        *_tolerance(found["tolerance"]),
        _control_table(found, found["controls"], "Controls, on the agent's errors", wrong="errors"),
    ]
    return Section(
        title=title,
        lead=lead,
        careful="People agree on the exact step in about a third of the cases, so exact hits cannot be many. Where"
        " nothing is off path the most suspicious step counts, and of equally suspicious ones each in part.",
        parts=parts,
        inner=True,
    )


def _tolerance(found: Document) -> list[Part]:
    if not found["trajectories"]:
        return [Prose(text="No trajectory has a first error with a place, so there is no tolerance curve.")]
    places = list(found["found"])
    second = found["second_labels"]
    head = ("Tolerance", "verifierd", "a step drawn at random", *(("a second person's label",) if second else ()))
    rows: list[list[Cell]] = [
        [
            {"0": "the very step", "1": "1 step"}.get(place, f"{place} steps"),
            figure(found["found"][place]),
            Figure(value=found["at_random"][place]),
            *([figure(second[place])] if second else []),
        ]
        for place in places
    ]
    found_by = {"verifierd": found["found"], "second label": second} if second else {"verifierd": found["found"]}
    lines = [
        Curve(
            name=name,
            points=[(float(place), one["value"]) for place, one in by_place.items()],
            intervals=[(one["low"], one["high"]) for one in by_place.values()],
            style="marked",
        )
        for name, by_place in found_by.items()
    ]
    lines.append(
        Curve(name="at random", points=[(float(place), found["at_random"][place]) for place in places], style="marked")
    )
    across = Axis(title="give or take so many of the log's own steps", scale="plain")
    return [
        Chart(
            title=f"How often the first error is found, in {count(found['trajectories'])} trajectories",
            drawing=curves(lines, across, Axis(title="found")),
            table=Table(caption="The first error found, give or take some steps", head=head, rows=rows),
        )
    ]


def _delay(it: Document) -> Section:
    found = it["delay"]
    parts: list[Part] = [
        Table(
            caption=f"Steps after the first bad one, in {count(found['trajectories'])} trajectories",
            head=("Until", "trajectories that got there", "median", "longest"),
            rows=[
                [name, found[key]["n"], found[key]["median"], found[key]["max"]]
                for key, name in (("off_path", "the first off-path step"), ("alarm", "the alarm"))
            ],
        )
    ]
    if not found["trajectories"]:
        parts = [Prose(text="No trajectory as logged holds a step that is known to be off path.")]
    return Section(
        title="Delay",
        lead="How many steps it took from the first bad observation of a trajectory to the alarm; 0 is at once.",
        careful="Only trajectories that got there count, so misses make it look shorter than it is."
        if found["trajectories"]
        else "",
        parts=parts,
        inner=True,
    )


def _cost(it: Document) -> Section:
    parts: list[Part] = [
        times(it["seconds"], caption="Time, steps as logged", whole="the whole evaluation"),
        tokens(
            {name: float(n) for name, n in it["tokens"].items()},
            caption="Tokens of a step as logged, on average",
            head="A step",
        ),
    ]
    return Section(
        title="Cost",
        lead="What a step costs: the time to predict and score it, and the tokens of a model.",
        careful="Times are of this machine, with the controls left out.",
        parts=parts,
        inner=True,
    )
