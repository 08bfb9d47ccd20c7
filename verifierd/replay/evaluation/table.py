"""Rows -> figures with intervals: the JSON of `verifierd eval`.

Its top level is about the environment's divergence; `agent` and `simulator` are the two other truths.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verifierd.calibration import rate as binomial
from verifierd.replay.evaluation.controls import CONTROLS, FLAGS
from verifierd.replay.evaluation.judging import Evaluated, Row, Track
from verifierd.replay.inject import BENIGN, FAULTS
from verifierd.replay.labelled import Truth
from verifierd.replay.statistics import NOTHING, Bools, Estimate, Floats, Groups, mcnemar, precision_at, roc
from verifierd.types import FAILURES, Tokens, VerdictKind

__all__ = ("LEAST", "PREVALENCES", "Columns", "compared", "document")

LEAST = 20
"""A kind with fewer cases is listed, and does not count for the overall recall."""

PREVALENCES = (0.01, 0.08)
"""Shares of bad steps that precision is corrected for: about those of the field's two surveys of real traces."""

TOLERANCES = (0, 1, 3, 5)
_LENGTHS = ((0, "0"), (100, "1 to 100"), (1000, "101 to 1,000"), (10_000, "1,001 to 10,000"), (math.inf, "over 10,000"))
_LONG = 100
_NOMINAL = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


class Columns:
    """Rows as columns, with the groups of their bootstrap.

    Args:
        rows: The cases.
        seed: Of the bootstrap.
    """

    def __init__(self, rows: Sequence[Row], *, seed: int = 0) -> None:
        self.rows = rows
        self.groups = Groups([row.group for row in rows], seed=seed)
        self._kinds, self._kind = _coded([row.kind for row in rows])
        self.altered = self._of(lambda row: row.altered)
        self.bad = self._of(lambda row: row.bad is True)
        self.good = self._of(lambda row: row.bad is False)
        self.off_path = self._of(lambda row: row.verdict is VerdictKind.OFF_PATH)
        self.abstained = self._of(lambda row: row.verdict is VerdictKind.ABSTAIN)
        self.suspicion = np.array([row.suspicion for row in rows], dtype=np.float64)
        self.known = self._of(lambda row: row.known is True)
        self.hinted = self._of(lambda row: row.hinted)
        self.clean = self.good & ~self.altered
        self.benign = self.good & self.altered

    def _of(self, ask: Callable[[Row], bool]) -> Bools:
        return np.array([ask(row) for row in self.rows], dtype=np.bool_)

    def where(self, ask: Callable[[Row], bool]) -> Bools:
        """The cases for which something holds."""
        return self._of(ask)

    def kinds(self, among: Bools) -> list[str]:
        """Kinds of some of the cases, those that we inject in the order of their lists."""
        order = {kind: number for number, kind in enumerate((*FAULTS, *BENIGN))}
        there = [self._kinds[code] for code in np.unique(self._kind[among])]
        return sorted(there, key=lambda kind: (order.get(kind, -1), kind))

    def kind(self, name: str) -> Bools:
        """The cases of a kind."""
        return np.equal(self._kind, self._kinds.index(name))

    def control(self, number: int) -> tuple[Floats, Bools]:
        """What a control says, and where it says something."""
        values = [row.controls[number] for row in self.rows]
        told = np.array([value is not None for value in values], dtype=np.bool_)
        return np.array([0.0 if value is None else value for value in values], dtype=np.float64), told


def _coded(names: Sequence[str]) -> tuple[list[str], NDArray[np.intp]]:
    """The names that there are, and which one stands at each place."""
    known = sorted(set(names))
    codes = {name: code for code, name in enumerate(known)}
    return known, np.array([codes[name] for name in names], dtype=np.intp)


def document(found: Evaluated, *, seed: int = 0, injection: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All figures of one judge, as JSON.

    Args:
        found: What it made of the cases.
        seed: Of the bootstrap.
        injection: Kinds, rate and seed of what was injected, to be repeated in the document.
    """
    table = Columns(found.rows, seed=seed)
    clean, decided = int(table.clean.sum()), table.groups.share(~table.abstained, table.clean)
    recall, changed = _overall(table), _changed(table)
    return {
        "predictor": found.predictor,
        "model": found.model,
        "policy": found.policy,
        "injection": injection,
        "trajectories": len(found.tracks),
        "groups": table.groups.count,
        "steps": int((~table.altered).sum()),
        "cases": int((table.bad | table.benign).sum()),
        "clean": clean,
        "confusion": _confusion(table, table.bad, table.good),
        "step_fpr": table.groups.share(table.off_path, table.clean),
        "step_fpr_decided": table.groups.share(table.off_path, table.clean & ~table.abstained),
        "step_fnr": table.groups.share(~table.off_path, table.bad),
        "step_fnr_decided": table.groups.share(~table.off_path, table.bad & ~table.abstained),
        "benign_fpr": table.groups.share(table.off_path, table.benign),
        "benign_changed": table.groups.share(*changed),
        "hinted": table.groups.share(table.hinted, table.clean),
        "precision": table.groups.share(table.bad, table.off_path & (table.bad | table.good)),
        "precision_at": {f"{prevalence:g}": _precision(table, prevalence) for prevalence in PREVALENCES},
        "recall": recall,
        "recall_if_known": _overall(table, table.known),
        "recall_over_decided": None if recall.value is None or not decided.value else recall.value / decided.value,
        **_ranks(table, table.suspicion, table.bad, table.bad | table.clean),
        "by_kind": _by_kind(table),
        "by_benign": _by_benign(table, *changed),
        "by_tool": _strata(table, [row.tool for row in found.rows]),
        "by_domain": _strata(table, [row.domain for row in found.rows]),
        "by_length": _strata(table, [_length(row) for row in found.rows], [name for _, name in _LENGTHS]),
        "by_content": _strata(table, [row.content for row in found.rows]),
        "abstention": table.groups.share(table.abstained, table.clean),
        "abstention_cost": _cost(table),
        "reasons": _reasons(table),
        "controls": _controls(found, table, table.bad, table.clean),
        "alarms": _alarms(found),
        "calibration": _calibration(table),
        "delay": _delay(found.tracks),
        "agent": _agent(found, table, seed),
        "simulator": _simulator(table),
        "coverage": _coverage(table),
        "roc": roc(table.suspicion[table.bad | table.clean], table.bad[table.bad | table.clean]),
        "histogram": _histogram(table),
        **_price(found, table),
    }


def compared(judges: Sequence[Evaluated], *, seed: int = 0) -> list[dict[str, Any]]:
    """Each further judge against the first, on the same cases, which all judges have in the same order."""
    first, *others = judges
    one = Columns(first.rows, seed=seed)
    groups, counted = one.groups, one.bad | one.clean
    found = []
    for other in others:
        two = Columns(other.rows, seed=seed)
        found.append(
            {
                "one": {"predictor": first.predictor, "model": first.model, "policy": first.policy},
                "other": {"predictor": other.predictor, "model": other.model, "policy": other.policy},
                "cases": len(one.rows),
                "step_fpr": groups.difference(two.off_path, one.off_path, one.clean),
                "benign_fpr": groups.difference(two.off_path, one.off_path, one.benign),
                "recall": groups.difference(two.off_path, one.off_path, one.bad),
                "abstention": groups.difference(two.abstained, one.abstained, one.clean),
                "by_kind": {
                    kind: groups.difference(two.off_path, one.off_path, one.bad & one.kind(kind))
                    for kind in one.kinds(one.bad)
                },
                "mcnemar": mcnemar((one.off_path == one.bad)[counted], (two.off_path == two.bad)[counted]),
            }
        )
    return found


def _confusion(table: Columns, bad: Bools, good: Bools) -> dict[str, dict[str, int]]:
    verdicts = {kind.value: table.where(lambda row, kind=kind: row.verdict is kind) for kind in VerdictKind}  # type: ignore[misc]
    return {
        name: {verdict: int((truth & said).sum()) for verdict, said in verdicts.items()}
        for name, truth in (("off_path", bad), ("on_path", good))
    }


def _ranks(table: Columns, scores: Floats, bad: Bools, where: Bools) -> dict[str, Estimate]:
    area, one, five = table.groups.ranked(scores, bad, where=where)
    return {"auroc": area, "tpr_at_fpr_1": one, "tpr_at_fpr_5": five}


def _precision(table: Columns, prevalence: float) -> Estimate:
    def combine(hits: Floats, bad: Floats, alarms: Floats, good: Floats) -> Floats:
        return precision_at(prevalence, hits / bad, alarms / good)

    groups = table.groups
    sums = (
        groups.sums(table.off_path, table.bad),
        groups.sums(table.bad),
        groups.sums(table.off_path, table.clean),
        groups.sums(table.clean),
    )
    found = groups.of(sums, combine, table.bad | table.clean)
    recall, fpr = groups.share(table.off_path, table.bad), groups.share(table.off_path, table.clean)
    if found.value is None or fpr.value or fpr.high is None or recall.low is None:
        return found
    # That no clean step alarmed does not mean that none ever will.
    low = float(precision_at(prevalence, np.array([recall.low]), np.array([fpr.high]))[0])
    return Estimate(found.value, low, 1.0, found.n)


def _by_kind(table: Columns) -> dict[str, dict[str, Any]]:
    found = {}
    for kind in table.kinds(table.bad):
        chosen = table.bad & table.kind(kind)
        found[kind] = {
            "n": int(chosen.sum()),
            "counted": int(chosen.sum()) >= LEAST,
            "recall": table.groups.share(table.off_path, chosen),
            "recall_if_known": table.groups.share(table.off_path, chosen & table.known),
            "abstention": table.groups.share(table.abstained, chosen),
            "hinted": table.groups.share(table.hinted, chosen),
            **_ranks(table, table.suspicion, chosen, chosen | table.clean),
            "controls": {
                name: table.groups.ranked(scores, chosen, where=(chosen | table.clean) & told)[0]
                for number, name in enumerate(CONTROLS)
                for scores, told in [table.control(number)]
            },
        }
    return found


def _by_benign(table: Columns, changed: Bools, decided: Bools) -> dict[str, dict[str, Any]]:
    return {
        kind: {
            "n": int(chosen.sum()),
            "fpr": table.groups.share(table.off_path, chosen),
            "changed": table.groups.share(changed, chosen & decided),
            "hinted": table.groups.share(table.hinted, chosen),
        }
        for kind in table.kinds(table.benign)
        for chosen in [table.benign & table.kind(kind)]
    }


def _overall(table: Columns, among: Bools | None = None) -> Estimate:
    """The unweighted mean recall of the kinds that have enough cases."""
    counted = table.bad if among is None else table.bad & among
    chosen = [counted & table.kind(kind) for kind in table.kinds(counted)]
    return table.groups.mean_of_shares([(table.off_path, one) for one in chosen if int(one.sum()) >= LEAST])


def _strata(table: Columns, of: Sequence[str], order: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Figures by something that cases have, of most cases first: false alarms on clean ones, recall on the others."""
    names, codes = _coded(of)
    counted = table.bad | table.clean
    places = {name: (codes == code) & counted for code, name in enumerate(names)}
    sizes = {name: int(here.sum()) for name, here in places.items() if here.any()}
    found = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)) if order is None else order:
        if name not in sizes:
            continue
        bad, clean = places[name] & table.bad, places[name] & table.clean
        found[name] = {
            "steps": int(clean.sum()),
            "faults": int(bad.sum()),
            "fpr": table.groups.share(table.off_path, clean),
            "recall": table.groups.share(table.off_path, bad),
            "precision": table.groups.share(table.bad, table.off_path & (bad | clean)),
            "abstention": table.groups.share(table.abstained, clean),
            **_ranks(table, table.suspicion, bad, bad | clean),
            "by_kind": {kind: table.groups.share(table.off_path, bad & table.kind(kind)) for kind in table.kinds(bad)},
        }
    return found


def _length(row: Row) -> str:
    return next(name for most, name in _LENGTHS if row.length <= most)


def _changed(table: Columns) -> tuple[Bools, Bools]:
    """Which verdicts differ from that on the step as logged, and the benign changes of steps that were decided."""
    logged = {row.step_id: row.verdict for row in table.rows if not row.altered}
    before = [logged[row.step_id] for row in table.rows]
    decided = np.array([verdict is not VerdictKind.ABSTAIN for verdict in before], dtype=np.bool_)
    changed = [row.verdict is not verdict for row, verdict in zip(table.rows, before, strict=True)]
    return np.array(changed, dtype=np.bool_), table.benign & decided


def _cost(table: Columns) -> dict[str, Any]:
    """What abstaining cost: the faults that nobody decided, and what part of the misses they are."""
    missed = table.bad & ~table.off_path
    return {
        "faults_abstained": table.groups.share(table.abstained, table.bad),
        "of_misses": table.groups.share(table.abstained, missed),
        "could_be_known": table.groups.share(table.known, table.bad & table.abstained),
    }


def _reasons(table: Columns) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for row, clean in zip(table.rows, table.clean, strict=True):
        if clean and row.verdict is VerdictKind.ABSTAIN:
            reasons[str(row.reason)] = reasons.get(str(row.reason), 0) + 1
    return dict(sorted(reasons.items(), key=lambda item: -item[1]))


def _controls(found: Evaluated, table: Columns, bad: Bools, good: Bools) -> dict[str, Any]:
    """The same figures for what is simple; null with its reason where there is none."""
    result: dict[str, Any] = {}
    for number, name in enumerate(CONTROLS):
        scores, told = table.control(number)
        if not (told & (bad | good)).any():
            result[name] = {"value": None, "reason": found.judge or "nothing was asked"}
            continue
        figures: dict[str, Any] = _ranks(table, scores, bad, (bad | good) & told)
        if name in FLAGS:
            fired = scores > 0.5
            figures["fpr"] = table.groups.share(fired, good & told)
            figures["recall"] = table.groups.share(fired, bad & told)
        result[name] = figures
    return result


def _alarms(found: Evaluated) -> dict[str, Any]:
    """False alarms of trajectories that are known to be clean throughout, and alarms of those that are not clean."""
    judged = [track for track in found.tracks if track.steps]
    # Where labels leave steps out nobody knows what an alarm was about.
    clean = [track for track in judged if track.subject.clean and len(track.subject.environment) == track.steps]
    bad = [track for track in judged if not track.subject.clean]
    by_length = sorted(clean, key=lambda track: track.steps)
    quarters = [by_length[len(by_length) * q // 4 : len(by_length) * (q + 1) // 4] for q in range(4)]
    return {
        "alpha": found.alpha,
        "false": _alarmed(clean),
        "by_length": [{"steps": [part[0].steps, part[-1].steps], "false": _alarmed(part)} for part in quarters if part],
        "over_100_steps": _alarmed([track for track in clean if track.steps > _LONG]),
        "true": _alarmed(bad, since_bad=True),
    }


def _calibration(table: Columns) -> list[dict[str, Any]] | None:
    """The share of clean steps whose p-value is at most a nominal rate; None before calibration."""
    told = table.clean & table.where(lambda row: row.p_value is not None)
    if not told.any():
        return None
    p = np.array([1.0 if row.p_value is None else row.p_value for row in table.rows])
    return [{"nominal": rate, "realised": table.groups.share(p <= rate, told)} for rate in _NOMINAL]


def _alarmed(tracks: Sequence[Track], *, since_bad: bool = False) -> Estimate:
    """The share that alarmed; of bad ones an alarm counts from the first bad observation on."""
    if not tracks:
        return NOTHING
    return _exact(sum(track.alarm >= (_first_bad(track) if since_bad else 1) for track in tracks), len(tracks))


def _first_bad(track: Track) -> int:
    """Index of the first step whose observation is off path; 0 if there is none."""
    steps = track.subject.run.steps
    return min((steps[place].index for place, bad in track.subject.environment.items() if bad), default=0)


def _delay(tracks: Sequence[Track]) -> dict[str, Any]:
    """Steps from the first bad observation to the alarm, and to the first off-path step."""
    delays: dict[str, list[int]] = {"alarm": [], "off_path": []}
    bad = 0
    for track in tracks:
        first = _first_bad(track)
        if not first:
            continue
        bad += 1
        if track.alarm >= first:
            delays["alarm"].append(track.alarm - first)
        if later := [index for index in track.off_path if index >= first]:
            delays["off_path"].append(later[0] - first)
    return {
        "trajectories": bad,
        **{
            name: {
                "n": len(found),
                "median": float(np.median(found)) if found else None,
                "max": max(found, default=None),
            }
            for name, found in delays.items()
        },
    }


def _agent(found: Evaluated, table: Columns, seed: int) -> dict[str, Any] | None:
    """Against labels of actions; None where there are none."""
    bad = table.where(lambda row: row.agent_erred is True)
    good = table.where(lambda row: row.agent_erred is False)
    labels = [marked for track in found.tracks for marked in track.subject.marked if marked.truth is Truth.AGENT]
    if not (bad | good).any():
        return None
    return {
        "steps": int((bad | good).sum()),
        "errors": int(bad.sum()),
        "unplaced": sum(marked.unplaced for marked in labels),
        "confusion": _confusion(table, bad, good),
        "step_fpr": table.groups.share(table.off_path, good),
        "recall": table.groups.share(table.off_path, bad),
        "precision": table.groups.share(bad, table.off_path & (bad | good)),
        "abstention": table.groups.share(table.abstained, bad | good),
        **_ranks(table, table.suspicion, bad, bad | good),
        "controls": _controls(found, table, bad, good),
        "tolerance": _tolerance(found.tracks, seed),
        "judge_of_its_size": {"recall": 0.223, "fpr": 0.021, "source": "Qwen3-30B-A3B-Instruct on AgentProcessBench"},
    }


def _tolerance(tracks: Sequence[Track], seed: int) -> dict[str, Any]:
    """How often the first bad action is found, give or take so many of the log's own steps.

    Found is the first off-path step, else the most suspicious one; of several equally suspicious ones each counts in
    part, so that who has nothing to say does as well as chance. Beside it what a step drawn at random would find, and,
    where a second set of labels exists, what that finds.
    """
    asked = [
        (track, marked, marked.first_bad)
        for track in tracks
        for marked in [next((one for one in track.subject.marked if one.truth is Truth.AGENT), None)]
        if marked is not None and marked.first_bad is not None and track.suspicions
    ]
    if not asked:
        return {"trajectories": 0}
    groups = Groups([track.subject.run.group for track, _, _ in asked], seed=seed)
    second = np.array([bool(marked.second) for _, marked, _ in asked], dtype=np.bool_)
    found, chance, others = [], [], []
    for track, marked, first in asked:
        worst = max(track.suspicions.values())
        guesses = track.off_path[:1] or [index for index, value in track.suspicions.items() if value == worst]
        found.append([abs(marked.positions[index] - first) for index in guesses])
        chance.append([abs(marked.positions[index] - first) for index in track.suspicions])
        others.append([min((abs(place - first) for place in marked.second), default=math.inf)])

    def within(distances: Sequence[Sequence[float]], tolerance: int) -> Floats:
        return np.array([np.mean([one <= tolerance for one in each]) for each in distances], dtype=np.float64)

    return {
        "trajectories": len(asked),
        "found": {str(most): groups.share(within(found, most)) for most in TOLERANCES},
        "at_random": {str(most): float(within(chance, most).mean()) for most in TOLERANCES},
        "second_labels": {str(most): groups.share(within(others, most), second) for most in TOLERANCES}
        if second.any()
        else None,
    }


def _exact(count: int, total: int) -> Estimate:
    found = binomial(count, total)
    return Estimate(count / total, found.low, found.high, total)


def _simulator(table: Columns) -> dict[str, Any]:
    """How the predictor itself did on clean observations."""
    asked = table.clean & table.where(lambda row: row.tokens.prompt > 0 or row.failed is not None)
    whole = table.clean & table.where(lambda row: row.exact is not None)
    failed = table.where(lambda row: row.failed is not None)
    return {
        "asked": int(asked.sum()),
        "failed": table.groups.share(failed, asked),
        "failures": {
            failure.value: int((table.clean & table.where(lambda row, failure=failure: row.failed is failure)).sum())  # type: ignore[misc]
            for failure in FAILURES
        },
        "whole": int(whole.sum()),
        "wrong": table.groups.share(table.where(lambda row: row.exact is False), whole),
        "false_alarms": int((table.clean & table.off_path).sum()),
    }


def _coverage(table: Columns) -> dict[str, Any]:
    shares = np.array([row.coverage for row in table.rows], dtype=np.float64)[table.clean]
    return {
        "above_zero": table.groups.share(table.where(lambda row: row.coverage > 0), table.clean),
        "mean": float(shares.mean()) if shares.size else None,
    }


def _histogram(table: Columns) -> dict[str, Any]:
    """Suspicion of clean and of faulty observations, in tenths; the last bin holds contradictions."""
    edges = [*np.linspace(0, 1, 11).tolist(), 2.0, 2.1]
    return {
        "edges": edges,
        "clean": np.histogram(table.suspicion[table.clean], edges)[0].tolist(),
        "faulty": np.histogram(table.suspicion[table.bad], edges)[0].tolist(),
    }


def _price(found: Evaluated, table: Columns) -> dict[str, Any]:
    rows = [row for row in table.rows if not row.altered]
    taken = np.array([row.seconds for row in rows]) if rows else np.zeros(1)
    return {
        "tokens": {
            name: sum(getattr(row.tokens, name) for row in rows) / max(1, len(rows))
            for name in Tokens.__struct_fields__
        },
        "seconds": {
            "wall": found.seconds,
            **{f"p{rank}": float(np.percentile(taken, rank)) for rank in (50, 95, 99)},
        },
    }
