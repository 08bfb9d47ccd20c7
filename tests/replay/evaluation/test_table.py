"""Rows -> figures: what counts for which, against plain counting."""

from typing import Any

import msgspec
import pytest

from tests.helpers import echo, native, ran
from tests.replay.evaluation.conftest import Judge, Logged
from verifierd.replay.evaluation.cases import Injection, Subject, of_runs
from verifierd.replay.evaluation.judging import Evaluated, Row, Track
from verifierd.replay.evaluation.table import Columns, compared, document
from verifierd.replay.labelled import Marked, StepLabel, Truth, marked
from verifierd.replay.runs import Run
from verifierd.replay.statistics import NOTHING
from verifierd.types import Tokens, VerdictKind

ON, OFF, NONE = VerdictKind.ON_PATH, VerdictKind.OFF_PATH, VerdictKind.ABSTAIN


def row(number: int, verdict: VerdictKind, **more: Any) -> Row:
    """A clean step, if nothing else is said; every tenth is of another group."""
    given: dict[str, Any] = {
        "case": f"{number}-{more.get('kind', '')}",
        "group": f"g{number % 10}",
        "step_id": f"s{number}",
        "trajectory": f"t{number % 10}",
        "step": number,
        "kind": "clean",
        "altered": False,
        "bad": False,
        "agent_erred": None,
        "known": None,
        "tool": "shell",
        "domain": "terminal",
        "length": 10,
        "content": "deterministic",
        "verdict": verdict,
        "reason": "unpredictable" if verdict is NONE else "contradiction" if verdict is OFF else "as_predicted",
        "coverage": 0.0 if verdict is NONE else 1.0,
        "p_value": None,
        "suspicion": {OFF: 2.0, ON: 0.0, NONE: 0.5}[verdict],
        "hinted": False,
        "alarmed": False,
        "failed": None,
        "exact": None,
        "controls": (0.0, 0.0, 0.5, 1.0, None),
        "seconds": 0.001,
        "tokens": Tokens(),
    }
    return Row(**given | more)


def fault(number: int, kind: str, verdict: VerdictKind, **more: Any) -> Row:
    """An altered observation that is off path."""
    return row(number, verdict, kind=kind, altered=True, bad=True, known=number % 2 == 0, **more)


def benign(number: int, verdict: VerdictKind) -> Row:
    """An altered observation that is on path."""
    return row(number, verdict, kind="white_space", altered=True, known=False)


def evaluated(rows: list[Row], tracks: list[Track] | None = None) -> Evaluated:
    """What a judge made of cases."""
    return Evaluated(
        predictor="p",
        model=None,
        policy="default@0",
        alpha=None,
        judge="nobody to ask",
        rows=rows,
        tracks=tracks or [],
        mistakes=[],
        seconds=1.0,
    )


ROWS = [
    *[row(n, OFF if n == 3 else NONE if n % 2 else ON) for n in range(40)],
    row(40, OFF, bad=None),  # nobody knows
    *[fault(n, "stale", OFF if n < 30 else NONE if n < 35 else ON) for n in range(40)],
    *[fault(n, "empty", OFF if n % 4 == 0 else NONE) for n in range(20)],
    *[fault(n, "outdated", ON) for n in range(19)],
    *[benign(n, OFF if n == 4 else ON if n % 2 == 0 else NONE) for n in range(40)],
]


def test_each_rate_has_its_denominator() -> None:
    """False alarms count on untouched clean steps alone, benign changes apart; abstentions are misses of all faults."""
    found = document(evaluated(ROWS))

    assert (found["cases"], found["steps"], found["clean"]) == (79 + 40, 41, 40)
    assert (found["step_fpr"].value, found["step_fpr"].n) == (1 / 40, 40)
    assert (found["step_fpr_decided"].value, found["step_fpr_decided"].n) == (1 / 21, 21)
    assert (found["benign_fpr"].value, found["benign_fpr"].n) == (1 / 40, 40)
    assert (found["step_fnr"].value, found["step_fnr"].n) == ((79 - 35) / 79, 79)
    assert (found["step_fnr_decided"].value, found["step_fnr_decided"].n) == ((5 + 19) / (35 + 24), 59)
    assert (found["abstention"].value, found["abstention"].n) == (19 / 40, 40)
    assert found["confusion"]["off_path"] == {"on_path": 24, "off_path": 35, "abstain": 20}
    assert found["confusion"]["on_path"] == {"on_path": 20 + 19, "off_path": 2, "abstain": 19 + 20}
    assert found["precision"].value == 35 / 37
    # Of those of the 21 decided steps the one of step 4 alarmed, and that of the false alarm abstains.
    assert (found["benign_changed"].value, found["benign_changed"].n) == (2 / 21, 21)
    assert found["reasons"] == {"unpredictable": 19}


def test_rare_kinds_are_listed_and_do_not_count() -> None:
    """The overall recall weighs kinds with 20 cases or more alike; so does that of what could be known."""
    found = document(evaluated(ROWS))

    kinds = found["by_kind"]
    assert {kind: (one["n"], one["counted"], one["recall"].value) for kind, one in kinds.items()} == {
        "stale": (40, True, 30 / 40),
        "outdated": (19, False, 0.0),
        "empty": (20, True, 5 / 20),
    }
    assert (found["recall"].value, found["recall"].n) == ((30 / 40 + 5 / 20) / 2, 60)
    assert (found["recall_if_known"].value, found["recall_if_known"].n) == (15 / 20, 20)
    assert kinds["empty"]["recall_if_known"].value == 5 / 10
    assert found["recall_over_decided"] == pytest.approx(0.5 / (21 / 40))
    blind = document(evaluated([*ROWS[:40], *(fault(n, "stale", NONE) for n in range(20))]))
    assert (blind["recall"].value, blind["recall_over_decided"]) == (0.0, 0.0)
    assert found["abstention_cost"]["faults_abstained"].value == 20 / 79
    assert found["abstention_cost"]["of_misses"].value == 20 / 44


def test_precision_is_for_a_share_of_bad_steps() -> None:
    """Not for the share that was injected; where nothing alarmed falsely its interval says that something might."""
    found = document(evaluated(ROWS))
    recall, fpr = 35 / 79, 1 / 40
    assert found["precision_at"]["0.01"].value == pytest.approx(0.01 * recall / (0.01 * recall + 0.99 * fpr))

    rows = [one if one.bad or one.verdict is not OFF else msgspec.structs.replace(one, verdict=ON) for one in ROWS]
    perfect = document(evaluated(rows))["precision_at"]["0.08"]
    assert perfect.value == 1.0
    assert perfect.low < 0.5


def test_ranks_set_faults_against_untouched_steps() -> None:
    """Benign changes are not among the good ones, and each kind stands against the same clean steps."""
    found = document(evaluated(ROWS))

    assert found["auroc"].n == 79 + 40
    assert found["by_kind"]["empty"]["auroc"].n == 20 + 40
    assert found["by_kind"]["outdated"]["auroc"].value == pytest.approx((20 * 0.5) / 40)
    assert found["histogram"]["clean"][-1] == 1
    assert sum(found["histogram"]["faulty"]) == 79
    assert found["roc"][-1] == (1.0, 1.0)


def test_controls_stand_beside() -> None:
    """Yes or no has rates of its own; who was not asked says why."""
    rows = [msgspec.structs.replace(one, controls=(float(one.bad is True), 0.0, 0.1, 2.0, None)) for one in ROWS]
    found = document(evaluated(rows))["controls"]

    assert found["error_regex"]["auroc"].value == 1.0
    assert (found["error_regex"]["recall"].value, found["error_regex"]["fpr"].value) == (1.0, 0.0)
    assert found["zlib"]["auroc"].value == 0.5
    assert "recall" not in found["zlib"]
    assert found["judge"] == {"value": None, "reason": "nobody to ask"}


def test_strata_hold_what_they_say() -> None:
    """By tool and by length, the commonest tool first; sizes add up."""
    rows = [msgspec.structs.replace(one, tool="Read", length=5000) if one.step % 4 == 0 else one for one in ROWS]
    found = document(evaluated(rows))

    assert list(found["by_tool"]) == ["shell", "Read"]
    assert sum(one["steps"] for one in found["by_tool"].values()) == 40
    assert sum(one["faults"] for one in found["by_tool"].values()) == 79
    assert found["by_tool"]["Read"]["fpr"].n == 10
    assert all(
        {"precision", "auroc", "tpr_at_fpr_1", "tpr_at_fpr_5"} <= one.keys() for one in found["by_tool"].values()
    )
    assert found["by_tool"]["Read"]["by_kind"]["empty"].value == 1.0
    assert list(found["by_length"]) == ["1 to 100", "1,001 to 10,000"]


def test_nothing_measured_is_null() -> None:
    """Without cases every figure is null, and nothing fails."""
    found = document(evaluated([]))

    assert found["step_fpr"] == found["recall"] == found["auroc"] == found["precision_at"]["0.01"] == NOTHING
    assert (found["by_kind"], found["by_tool"], found["agent"], found["calibration"]) == ({}, {}, None, None)
    assert msgspec.json.decode(msgspec.json.encode(found))["step_fpr"]["value"] is None


def test_calibration_counts_p_values_of_clean_steps() -> None:
    """How often a clean step's p-value is at most the nominal rate."""
    rows = [msgspec.structs.replace(one, p_value=(one.step + 1) / 40 if one.step < 40 else None) for one in ROWS]
    found = {one["nominal"]: one["realised"].value for one in document(evaluated(rows))["calibration"]}

    assert (found[0.05], found[0.1], found[0.5]) == (2 / 40, 4 / 40, 20 / 40)


def subject(name: str, count: int, bad: dict[int, bool], *labels: Marked) -> Subject:
    """A trajectory of so many steps."""
    steps = [ran("x", trajectory=name, index=index) for index in range(1, count + 1)]
    run = Run(key=("native", name), group=name, steps=steps)
    return Subject(run=run, environment=bad, agent={}, kinds={}, marked=labels, overlays={})


def track(subject: Subject, alarm: int, *off_path: int, suspicions: dict[int, float] | None = None) -> Track:
    """What became of it."""
    steps = {step.index: 0.5 for step in subject.run.steps}
    return Track(subject=subject, alarm=alarm, off_path=off_path, suspicions=suspicions or steps, steps=len(steps))


def test_an_alarm_before_the_first_bad_step_finds_nothing() -> None:
    """It is no true alarm and has no delay; alarms of trajectories that are clean throughout are false ones."""
    tracks = [
        track(subject("a", 9, {3: True, 4: True}), 6, 5, 6),  # first bad step is 4
        track(subject("b", 9, {3: True}), 2, 2),
        track(subject("c", 2, {0: False, 1: False}), 0),
        track(subject("d", 3, {0: False, 1: False, 2: False}), 3, 3),
        track(subject("e", 9, {3: False}), 9, 9),  # of step 9 nobody says anything
    ]
    found = document(evaluated([], tracks))

    assert (found["alarms"]["true"].value, found["alarms"]["true"].n) == (0.5, 2)
    assert (found["alarms"]["false"].value, found["alarms"]["false"].n) == (0.5, 2)
    assert found["delay"]["trajectories"] == 2
    assert found["delay"]["alarm"] == {"n": 1, "median": 2.0, "max": 2}
    assert found["delay"]["off_path"] == {"n": 1, "median": 1.0, "max": 1}


def test_the_tolerance_curve() -> None:
    """The first off-path step is the guess, else the most suspicious one; of steps all alike each is one in part."""

    def label(first: int, second: frozenset[int] = frozenset()) -> Marked:
        run = Run(key=("native", "x"), group="x")
        places = {index: 2 * index for index in range(1, 11)}
        return Marked(
            run=run,
            truth=Truth.AGENT,
            outcome="off_path",
            first_bad=first,
            positions=places,
            observed=places,
            second=second,
            length=21,
        )

    tracks = [
        track(subject("a", 10, {}, label(8, frozenset({9}))), 0, 4, 9),  # guesses 4, at 8: exact
        track(subject("b", 10, {}, label(8)), 0, suspicions={n: float(n == 5) for n in range(1, 11)}),  # at 10
        track(subject("c", 10, {}, label(2)), 0),  # all alike: 1 of 10 is exact
    ]
    rows = [row(1, ON, agent_erred=False)]
    found = document(evaluated(rows, tracks))["agent"]["tolerance"]

    assert found["trajectories"] == 3
    assert [found["found"][key].value for key in ("0", "1", "3", "5")] == pytest.approx(
        [(1 + 0 + 0.1) / 3, (1 + 0 + 0.1) / 3, (1 + 1 + 0.2) / 3, (1 + 1 + 0.3) / 3]
    )
    assert found["at_random"]["0"] == pytest.approx(0.1)
    assert [found["second_labels"][key].value for key in ("0", "1")] == [0.0, 1.0]
    assert found["second_labels"]["0"].n == 1


def test_truths_are_never_pooled(logged: Logged, judge: Judge) -> None:
    """An error of the agent is a clean observation; a bad observation is no error of the agent."""
    lines = [*echo("t", 4), native("u", 1, "echo a", "b\n", exit_code=0), *echo("u", 3)[1:]]
    runs = logged(*lines)
    said = [
        StepLabel(trajectory="t", label="clean"),
        StepLabel(trajectory="t", step=2, label="off_path", truth=Truth.AGENT),
        StepLabel(trajectory="t", step=3, label="on_path", truth=Truth.AGENT),
        StepLabel(trajectory="u", step=1, label="off_path", kind="drift"),
    ]
    found = document(judge(of_runs(runs, marked(runs, said)[0], None), "shell"))

    assert found["confusion"] == {
        "off_path": {"on_path": 0, "off_path": 1, "abstain": 0},
        "on_path": {"on_path": 2, "off_path": 0, "abstain": 0},
    }
    assert found["agent"]["confusion"] == {
        "off_path": {"on_path": 1, "off_path": 0, "abstain": 0},
        "on_path": {"on_path": 1, "off_path": 0, "abstain": 0},
    }
    assert list(found["by_kind"]) == ["drift"]
    assert found["recall"] == NOTHING


def test_judges_are_compared_case_by_case(logged: Logged, judge: Judge) -> None:
    """Differences are those of the same cases; a judge against itself differs in nothing."""
    cases = of_runs(logged(*echo("t", 12), *echo("u", 12)), [], Injection(kinds=("empty", "white_space")))
    shell, contracts = judge(cases, "shell"), judge(cases, "contracts")

    (other,) = compared([contracts, shell])
    (same,) = compared([shell, shell])

    def recall(found: Evaluated) -> float:
        table = Columns(found.rows)
        value = table.groups.share(table.off_path, table.bad).value
        assert value is not None
        return value

    assert other["cases"] == len(shell.rows) == 72
    assert other["recall"].value == pytest.approx(recall(shell) - recall(contracts))
    assert other["by_kind"]["empty"].value == other["recall"].value
    assert (same["recall"].value, same["mcnemar"]) == (0.0, 1.0)
