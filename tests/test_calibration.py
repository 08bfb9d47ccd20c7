"""What is promised of calibrated alarms: on exchangeable scores exactly, on recorded ones within their bounds."""

import csv
import gzip
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifierd.calibration import (
    Bucket,
    Calibration,
    Evidence,
    Growth,
    Reference,
    Scored,
    Table,
    Trajectory,
    _deal,
    _halves,
    advance,
    calibrate,
    draw,
    e_values,
    evaluate,
    evaluate_all,
    fit,
    observe,
    p_conservative,
    p_smoothed,
    rank,
    rate,
    required,
    tabulate,
)

RECORDED = Path(__file__).parents[2] / "shared/labelled/evaluator_scores/hotpotqa_w_scores_compressed.csv.gz"

tied = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=12)
"""Scores of which many are equal, in an order that says nothing: each may be taken for the new one."""

probabilities = st.floats(1e-6, 1, allow_nan=False)
maybe = st.none() | probabilities


def _each_as_new(scores: Sequence[float]) -> list[tuple[float, list[float]]]:
    return [(score, sorted([*scores[:place], *scores[place + 1 :]])) for place, score in enumerate(scores)]


def _advance(evidence: Evidence, ps: Sequence[float | None], growth: Growth, level: float = 20.0) -> Evidence:
    first = evidence.scored + evidence.restarts * growth.horizon + 1
    for index, p in enumerate(ps, first):
        evidence = advance(evidence, index, p, growth=growth, level=level, odd=p is not None and p <= 0.05)
    return evidence


def _made(
    count: int, steps: tuple[int, int], seed: int, *, shift: float = 0.0, digits: int = 1, name: str = "made"
) -> list[Trajectory]:
    """Trajectories with scores as if drawn from one law, rounded so that many are equal."""
    random = np.random.default_rng(seed)
    return [
        Trajectory(
            f"{name}-{number}",
            tuple(
                Scored("bash", "terminal", float(score))
                for score in np.round(random.normal(shift, 1, random.integers(*steps)), digits)
            ),
        )
        for number in range(count)
    ]


@given(tied, st.floats(0, 1))
def test_smoothed_p_values_are_uniform(scores: list[float], x: float) -> None:
    """Whichever of exchangeable scores is the new one, ties or not: p <= x with probability x."""
    below = []
    for score, others in _each_as_new(scores):
        low, high = p_smoothed(score, others, 0.0), p_smoothed(score, others, 1.0)
        below.append(min(1.0, max(0.0, (x - low) / (high - low))))

    assert math.fsum(below) / len(below) == pytest.approx(x)


@given(tied, st.floats(0, 1))
def test_conservative_p_values_are_never_too_small(scores: list[float], x: float) -> None:
    """They are at most x with probability x at most, and no coin is thrown."""
    share = sum(p_conservative(score, others) <= x for score, others in _each_as_new(scores)) / len(scores)

    assert share <= x + 1e-12


@settings(deadline=None)
@given(tied)
def test_bets_do_not_pay_on_clean_scores(scores: list[float]) -> None:
    """On average over exchangeable scores each e-value is at most 1, with either p-value."""
    coins = (np.arange(100) + 0.5) / 100  # midpoints: below the mean, the payment being convex
    smoothed = [e_values(p_smoothed(s, others, float(u))) for s, others in _each_as_new(scores) for u in coins]
    conservative = [e_values(p_conservative(s, others)) for s, others in _each_as_new(scores)]

    assert (np.mean(smoothed, axis=0) <= 1 + 1e-9).all()
    assert (np.mean(conservative, axis=0) <= 1 + 1e-9).all()


def test_random_numbers_are_the_same_everywhere() -> None:
    """They depend on the trajectory's id and the step only, are spread evenly, and never 0 or 1."""
    numbers = np.sort([draw("some/trajectory", index) for index in range(4000)])
    distance = np.abs(numbers - (np.arange(4000) + 0.5) / 4000).max()

    assert draw("a", 1) == 0.8028205869559716
    assert draw("a", 1) != draw("a", 2) != draw("b", 2)
    assert 0 < numbers[0] < numbers[-1] < 1
    assert distance < 1.63 / math.sqrt(4000)  # Kolmogorov-Smirnov at 1 %


@given(st.lists(maybe, max_size=40), st.integers(0, 40), st.integers(1, 10))
def test_evidence_survives_a_restart(ps: list[float | None], cut: int, horizon: int) -> None:
    """Stored and restored midway it goes on as if nothing had happened, bit for bit."""
    growth = Growth(2.0, horizon)
    whole = halfway = Evidence()
    for index, p in enumerate(ps, 1):
        if index == cut:
            halfway = msgspec.json.decode(msgspec.json.encode(halfway), type=Evidence)
        odd = p is not None and p <= 0.05
        whole = advance(whole, index, p, growth=growth, level=3.0, odd=odd)
        halfway = advance(halfway, index, p, growth=growth, level=3.0, odd=odd)

    assert halfway == whole


@given(st.lists(probabilities, min_size=1, max_size=30))
def test_the_largest_suffix_product_is_kept(ps: list[float]) -> None:
    """The product and its first step are those that trying all steps finds."""
    evidence = _advance(Evidence(), ps, Growth(2.0, 1000))
    logs = [math.log(sum(e_values(p)) / len(e_values(p))) for p in ps]
    products = [math.fsum(logs[start:]) for start in range(len(logs))]

    assert evidence.suffix == pytest.approx(max(products), abs=1e-9)
    assert products[evidence.start - 1] == pytest.approx(max(products), abs=1e-9)


def test_an_alarm_says_where_it_began() -> None:
    """Ten ordinary steps, then odd ones: the alarm comes soon, names the first of them, and stands."""
    evidence = _advance(Evidence(), [0.6] * 10 + [0.002] * 6 + [0.9] * 3, Growth(2.0, 1000))

    assert evidence.first_bad == 11
    assert 11 < evidence.alarm <= 16
    assert evidence.maximum > evidence.statistic


@given(st.lists(probabilities, max_size=10))
def test_abstentions_change_nothing(ps: list[float]) -> None:
    """Nor do 500 of them alarm."""
    before = _advance(Evidence(), ps, Growth(2.0, 5))
    after = _advance(before, [None] * 500, Growth(2.0, 5))

    assert after is before


def test_evidence_stays_finite() -> None:
    """However long and however odd a trajectory is, what is stored is a number."""
    evidence = _advance(Evidence(), [1e-16] * 2000, Growth(2.0, 10_000))

    assert math.isfinite(evidence.maximum)
    assert math.isfinite(evidence.statistic)


def test_long_trajectories_must_show_more() -> None:
    """Beyond the horizon the statistic starts anew, and each time more is asked for."""
    growth = Growth(2.0, 4)
    evidence = _advance(Evidence(), [0.01] * 5, growth)

    assert (evidence.scored, evidence.restarts) == (1, 1)
    assert [growth.at(1, restarts) for restarts in range(4)] == [1, 20, 60, 120]
    assert growth.at(3) == 9


@pytest.mark.parametrize(
    ("count", "alpha", "place"), [(18, 0.05, None), (19, 0.05, 19), (150, 0.05, 144), (98, 0.01, None), (9, 0.1, 9)]
)
def test_the_level_is_an_order_statistic(count: int, alpha: float, place: int | None) -> None:
    """It is the ceil((1 - alpha)(N + 1))-th smallest maximum, if there are so many."""
    assert rank(count, alpha) == place


@settings(deadline=None)
@given(st.integers(1, 300), st.floats(0.01, 0.3), st.floats(0.01, 0.3))
def test_the_level_with_confidence_is_the_smallest_that_serves(count: int, alpha: float, delta: float) -> None:
    """The chance that so many clean maxima lie below the true quantile is at most delta, and no smaller rank has it."""

    def chance(least: int) -> float:
        return math.fsum(math.comb(count, k) * (1 - alpha) ** k * alpha ** (count - k) for k in range(least, count + 1))

    place = rank(count, alpha, delta)

    if place is None:
        assert count < required(alpha, delta)
        assert chance(count) > delta - 1e-6
    else:
        assert chance(place) <= delta + 1e-6
        assert place == 1 or chance(place - 1) > delta - 1e-6


def test_intervals_are_exact() -> None:
    """They are those of Clopper and Pearson."""
    found = rate(5, 100)

    assert (round(found.low, 4), round(found.high, 4)) == (0.0164, 0.1128)
    assert (rate(0, 20).low, round(rate(0, 20).high, 4)) == (0, 0.1684)
    assert (round(rate(20, 20).low, 4), rate(20, 20).high) == (0.8316, 1)


def test_small_buckets_back_off() -> None:
    """First to the tool, then to the domain, then to all, and never to evidence of the other kind."""
    reference = Reference(
        (
            Bucket("bash", "terminal", False, (1.0, 2.0)),
            Bucket("bash", "swe", False, (3.0,)),
            Bucket("read", "terminal", False, (4.0, 5.0)),
            Bucket("read", "terminal", True, (0.0,)),
        ),
        least=3,
    )

    assert reference.find("bash", "terminal") == (1, 2, 3)
    assert reference.find("read", "terminal") == (1, 2, 4, 5)
    assert reference.find("read", "mcp") == (1, 2, 3, 4, 5)
    assert reference.find("read", "terminal", deterministic=True) == (0,)
    assert Reference().find("bash", "terminal") == ()


def test_too_few_trajectories_are_inconclusive() -> None:
    """There is no level then, no alarm, and the number that is missing."""
    found = calibrate(_made(30, (3, 8), 1))
    more = calibrate(_made(30 + found.missing, (3, 8), 1))

    assert (found.level, found.missing) == (None, 8)
    assert more.level is not None
    assert evaluate(found, _made(1, (5, 6), 2, shift=9.0)[0]).alarm == 0
    assert calibrate([]).level is None


@given(st.lists(st.integers(0, 8), min_size=1, max_size=30), st.integers(0, 5))
def test_groups_stay_together(groups: list[int], seed: int) -> None:
    """No group has trajectories in both parts."""
    table = tabulate(Trajectory(str(n), (Scored("t", "d", 0.0),), str(group)) for n, group in enumerate(groups))
    first, second = (set(table.groups[part].tolist()) for part in _halves(_deal(table, seed)))

    assert not first & second
    assert len(first | second) == len(set(groups))


@cache
def _of_both_kinds() -> Calibration:
    """Every third step is deterministic."""
    clean = [
        Trajectory(
            some.id,
            tuple(msgspec.structs.replace(step, deterministic=n % 3 == 0) for n, step in enumerate(some.steps)),
        )
        for some in _made(60, (2, 9), 3, digits=0)
    ]
    return fit(tabulate(clean), np.arange(30), np.arange(30, 60), step_alpha=0.1, least=5)


scored = st.builds(
    Scored,
    st.sampled_from(["bash", "read"]),
    st.sampled_from(["terminal", "swe"]),
    st.none() | st.integers(-2, 6).map(float),
    st.booleans(),
)


@settings(deadline=None)
@given(st.lists(st.lists(scored, max_size=12), min_size=1, max_size=8), st.sampled_from([None, 0.5, 4.0]))
def test_both_ways_to_evaluate_agree(steps: list[list[Scored]], level: float | None) -> None:
    """Step by step and many at once give the same maxima, alarms and suspects."""
    learnt = _of_both_kinds()
    calibration = msgspec.structs.replace(learnt, level=level)
    trajectories = [Trajectory(str(number), tuple(some)) for number, some in enumerate(steps)]
    outcomes = evaluate_all(calibration, tabulate(trajectories))
    single = [evaluate(calibration, trajectory) for trajectory in trajectories]
    suspects = 0
    for trajectory in trajectories:
        evidence = Evidence()
        for index, step in enumerate(trajectory.steps, 1):
            evidence, judged = observe(calibration, evidence, trajectory.id, index, step)
            suspects += judged.suspect

    assert outcomes.maximum == pytest.approx([evidence.maximum for evidence in single])
    assert outcomes.alarm.tolist() == [evidence.alarm for evidence in single]
    assert outcomes.suspect.sum() == suspects


def test_calibrations_are_reproducible() -> None:
    """The same trajectories give the same calibration, and it survives being stored."""
    found, again = (calibrate(_made(120, (2, 9), 4), trim=0.02, delta=0.1, alpha=0.1) for _ in range(2))

    assert found == again
    assert msgspec.json.decode(msgspec.json.encode(found), type=Calibration) == found
    assert found.sizes.trimmed == 2
    assert found.sizes.reference + found.sizes.level + found.sizes.trimmed == found.sizes.trajectories == 120


@pytest.mark.parametrize("name", ["delta", "level", "step_level"])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_absent_is_not_infinite(name: str, number: float) -> None:
    """A hash cannot tell the two apart, so such a number would pass for what was learnt."""
    with pytest.raises(ValueError, match="must be finite"):
        msgspec.structs.replace(calibrate(_made(5, (2, 3), 4)), **{name: number})


def test_perfect_matches_never_alarm() -> None:
    """Even where nearly all clean steps match, and the coins fall badly."""
    clean = [
        Trajectory(f"clean-{n}", tuple(Scored("bash", "terminal", float(n % 50 == step)) for step in range(6)))
        for n in range(200)
    ]
    calibration = calibrate(clean)
    perfect = [Trajectory(f"perfect-{n}", (Scored("bash", "terminal", 0.0),) * 500) for n in range(40)]

    assert calibration.level is not None
    assert not evaluate_all(calibration, tabulate(perfect)).alarm.any()


def test_realised_rates_are_reported() -> None:
    """Each fifth was tried with the others as calibration."""
    found = calibrate(_made(400, (2, 12), 5), alpha=0.1, step_alpha=0.05)

    assert found.alarms is not None
    assert found.suspects is not None
    assert found.alarms.total == 400
    assert 0.05 <= found.alarms.count / 400 <= 0.15
    assert found.alarms.low < found.alarms.count / 400 < found.alarms.high
    assert found.suspects.count <= 0.06 * found.suspects.total


@pytest.mark.parametrize("steps", [(2, 11), (5, 61)])
def test_the_budget_holds_on_clean_trajectories(steps: tuple[int, int]) -> None:
    """On average over calibrations alpha of the clean ones alarm, of those with 500 steps no more."""
    alarms, long = [], []
    for seed in range(12):
        table = tabulate(_made(500, steps, seed))
        learnt = fit(table, np.arange(150), np.arange(150, 300), alpha=0.05)
        alarms.append((evaluate_all(learnt, table.take(np.arange(300, 500))).alarm > 0).mean())
        long.append((evaluate_all(learnt, tabulate(_made(40, (500, 501), seed, name="long"))).alarm > 0).mean())

    assert 0.03 <= np.mean(alarms) <= 0.062
    assert np.mean(long) <= 0.075  # 480 trajectories, and twelve calibrations


def _recorded() -> tuple[Table, np.ndarray]:
    scores: dict[str, list[float]] = {}
    solved: dict[str, bool] = {}
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            scores.setdefault(row["uq_problem_idx"], []).append(-float(row["judge_probability"]))
            solved[row["uq_problem_idx"]] = row["solved"] == "True"
    table = tabulate(
        Trajectory(name, tuple(Scored("search", "search", score) for score in some)) for name, some in scores.items()
    )
    return table, np.array(list(solved.values()))


@pytest.mark.shared
@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded scores are not here")
def test_the_budget_holds_on_recorded_scores() -> None:
    """Real scores, strongly tied: alpha is kept, at every length twice of it at most, and more faults are found."""
    table, clean = _recorded()
    faulty = table.take(np.flatnonzero(~clean))
    rates = []
    for seed in range(30):
        chosen = np.random.default_rng(seed).permutation(np.flatnonzero(clean))
        part = table.take(chosen)
        learnt = fit(part, np.arange(150), np.arange(150, 300), alpha=0.05, step_alpha=0.05)
        fresh = part.take(np.arange(300, len(chosen)))
        alarms = evaluate_all(learnt, fresh).alarm > 0
        quarter = np.searchsorted(np.quantile(fresh.lengths, [0.25, 0.5, 0.75]), fresh.lengths)
        largest = np.full(len(chosen), -np.inf)
        np.maximum.at(largest, part.row, part.score)
        level = np.sort(largest[150:300])[143]
        found = np.full(len(faulty.lengths), -np.inf)
        np.maximum.at(found, faulty.row, faulty.score)
        rates.append(
            [
                alarms.mean(),
                (evaluate_all(learnt, faulty).alarm > 0).mean(),
                (found > level).mean(),
                *(alarms[quarter == number].mean() for number in range(4)),
            ]
        )
    false_alarms, detected, by_maximum, *quarters = np.mean(rates, axis=0)

    assert 0.04 <= false_alarms <= 0.06
    assert detected >= by_maximum
    assert max(quarters) <= 0.10


def test_a_tool_with_few_scores_can_be_suspect() -> None:
    """Where a tool's own clean scores cannot tell a share so small, those of all tools do."""
    clean = [
        Trajectory(
            id=f"{tool}-{number}", steps=tuple(Scored(tool, "terminal", draw(f"{tool}{number}", n)) for n in range(5))
        )
        for tool, count in (("common", 400), ("rare", 60))
        for number in range(count)
    ]
    learnt = calibrate(clean, step_alpha=0.005)
    own = learnt.reference.find("rare", "terminal")

    _, odd = observe(learnt, Evidence(), "t", 1, Scored("rare", "terminal", 9.0))
    _, usual = observe(learnt, Evidence(), "t", 1, Scored("rare", "terminal", 0.5))

    assert 30 <= len(own) < 199
    assert odd.suspect
    assert not usual.suspect
