"""What a run's rows say: the judge's scores as the official evaluation adds them up, and what needs no judge."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import msgspec
import numpy as np

from verifierd.calibration import rate
from verifierd.replay.bench.asking import Outcome
from verifierd.replay.bench.awb.reading import DIMENSIONS
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.figures import Figure, Results, median
from verifierd.replay.statistics import Bools, Floats, Groups, Interval
from verifierd.scoring.classes import Content, runtime
from verifierd.types import History, Step

__all__ = ("Judged", "answers", "recalled", "summary")

_WORD = re.compile(r"[^\s\"'`,;()\[\]{}<>|=]+")
_TOTAL = "total_score"
_OUTCOMES = {
    outcome: "role_breaks" if outcome is Outcome.ROLE_BREAK else outcome.value
    for outcome in Outcome
    if outcome is not Outcome.ABSTAINED  # a model that is talked to never does
}


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge said of a row.

    Attributes:
        domain, group: The row's.
        failed: It has no scores.
        scores: Of each dimension and `total_score`, 1 to 5, or 0 where there is none.
    """

    domain: str
    group: str
    failed: bool
    scores: Mapping[str, float]


def summary(rows: Sequence[Judged]) -> Results:
    """Scores from 0 to 100, with intervals over trajectories.

    As in the official evaluation a score is the mean of what was given, 1 to 5, as `(mean - 1) / 4 * 100`; rows that
    failed, and scores of 0, are left out. `score_micro` is its "Overall", the mean over all rows; `score_macro` is the
    mean of the domains, which the authors publish. In `score_micro_all` what failed counts as the worst.
    """
    if not rows:
        return {}
    groups = Groups([row.group for row in rows])
    domains = {domain: _where(rows, domain) for domain in sorted({row.domain for row in rows})}
    valid = np.array([not row.failed for row in rows])
    totals = np.array([row.scores.get(_TOTAL, 0.0) for row in rows], np.float64)
    counted = valid & (totals != 0)
    results: Results = {}
    if counted.any():
        results["score_micro"] = _mean(groups, totals, [counted])
        results["score_macro"] = _mean(groups, totals, [counted & where for where in domains.values()])
        results["score_micro_all"] = _mean(groups, np.where(counted, totals, 1.0), [np.ones(len(rows), np.bool_)])
    for domain, where in domains.items():
        for name in (_TOTAL, *DIMENSIONS):
            given = np.array([row.scores.get(name, 0.0) for row in rows], np.float64)
            kept = valid & where & (given != 0)
            if kept.any():
                results[f"score_{domain}" if name == _TOTAL else f"{name}_{domain}"] = _mean(groups, given, [kept])
    results["judge_failed"] = _share(groups, ~valid)
    for domain, where in domains.items():
        results[f"judge_failed_{domain}"] = _share(groups, ~valid, where)
    return results


def answers(rows: Sequence[Row]) -> Results:
    """What needs no judge: outcomes, agreement with the truth, in all and by domain and class, and what it cost."""
    if not rows:
        return {}
    groups = Groups([row.group for row in rows])
    results: Results = {}
    for outcome, name in _OUTCOMES.items():
        results[name] = _share(groups, np.array([row.outcome is outcome for row in rows]))
    domains = {domain: np.array([_domain(row) == domain for row in rows]) for domain in sorted(set(map(_domain, rows)))}
    for name in ("exact", "without_echo", "normalised"):
        results[name] = _share(groups, np.array([bool(getattr(row, name)) for row in rows]))
    for domain, where in domains.items():
        results[f"exact_{domain}"] = _share(groups, np.array([bool(row.exact) for row in rows]), where)
    for content in Content:
        said, shown = (np.array([row.scores.get(key, 0.0) for row in rows]) for key in _keys(content))
        if shown.any():
            (found, founds), (total, totals) = groups.sums(said), groups.sums(shown)
            with np.errstate(invalid="ignore"):
                share = _interval(found / total, founds / totals, int(total))
            exact = rate(int(found), int(total))
            results[f"recalled_{_name(content)}"] = (
                share if isinstance(share, Interval) else Interval(share, exact.low, exact.high, int(total))
            )
    return results | _costs(rows)


def recalled(answer: str, step: Step, history: History) -> dict[str, float]:
    """By content class, how many words the truth has, and how many of them an answer says.

    A word that only a run can tell is of the class `runtime`; one that the action or an earlier observation shows is
    `deterministic`; the rest is `pre-existing`.
    """
    truth = step.observation
    free, _ = runtime(truth, step, history)
    shown = {word for past in history for text in (past.action.text, past.observation) for word in _WORD.findall(text)}
    shown.update(_WORD.findall(step.action.text))
    left = Counter(_WORD.findall(answer))
    counts: Counter[str] = Counter()
    place = 0
    for word in _WORD.finditer(truth):
        while place < len(free) and free[place][1] <= word.start():
            place += 1
        if place < len(free) and free[place][0] < word.end():
            content = Content.RUNTIME
        else:
            content = Content.DETERMINISTIC if word[0] in shown else Content.PRE_EXISTING
        said, there = _keys(content)
        counts[there] += 1
        if left[word[0]]:
            left[word[0]] -= 1
            counts[said] += 1
    return {name: float(count) for name, count in counts.items()}


def _keys(content: Content) -> tuple[str, str]:
    return f"said_{_name(content)}", f"words_{_name(content)}"


def _name(content: Content) -> str:
    return content.value.replace("-", "_")


def _costs(rows: Sequence[Row]) -> Results:
    results: Results = {}
    values: dict[str, Iterable[float | None]] = {
        "seconds": (row.seconds or None for row in rows),
        "first_token_seconds": (row.first_token_seconds for row in rows),
        "prompt_tokens": (row.prompt_tokens for row in rows),
        "generated_tokens": (row.generated_tokens for row in rows),
    }
    for name, given in values.items():
        if known := [float(value) for value in given if value is not None]:
            results[f"{name}_median"] = median(known)
            results[f"{name}_p95"] = float(np.quantile(known, 0.95))
    return results


def _share(groups: Groups, hits: Bools, where: Bools | None = None) -> Interval:
    """Of the rows, or of some; where all are of one trajectory, as if they were independent."""
    found = groups.share(hits, where)
    assert found.value is not None
    if found.low is None or found.high is None:
        exact = rate(round(found.value * found.n), found.n)
        return Interval(found.value, exact.low, exact.high, found.n)
    return Interval(found.value, found.low, found.high, found.n)


def _mean(groups: Groups, given: Floats, parts: Sequence[Bools]) -> Figure:
    """The mean, over parts, of the means in each, from 0 to 100; a part without anything is left out."""
    kept = [part for part in parts if part.any()]
    value = fmean(given[part].mean() for part in kept)
    with np.errstate(invalid="ignore"):
        drawn = np.array([groups.sums(given, part)[1] / groups.sums(part)[1] for part in kept])
        there = np.isfinite(drawn)
        draws = np.where(there, drawn, 0.0).sum(axis=0) / there.sum(axis=0)
    return _interval(_scaled(value), _scaled(draws), sum(int(part.sum()) for part in kept))


def _scaled(value: Any) -> Any:
    return (value - 1) / 4 * 100


def _interval(value: float, draws: Floats, n: int) -> Figure:
    """With where 95 % of the draws lie, unless they are all the same, as those of one trajectory are."""
    low, high = np.quantile(draws[np.isfinite(draws)], (0.025, 0.975))
    return Interval(value, float(low), float(high), n) if low < high else value


def _where(rows: Sequence[Judged], domain: str) -> Bools:
    return np.array([row.domain == domain for row in rows])


def _domain(row: Row) -> str:
    return row.group.partition("/")[0]
