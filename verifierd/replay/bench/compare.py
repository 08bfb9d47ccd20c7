"""Runs of one suite against each other, answer by answer: who is right where the other is not, and what it costs.

Runs are called `a`, `b`, `c` in the order they are named in. Only answers to the same case in the same pass count.
Intervals come from the bootstrap of whole groups, or of whole cases where groups are few; McNemar's exact p-value takes
passes for independent of each other, and is not corrected for the number of pairs or figures.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from string import ascii_lowercase

import msgspec
import numpy as np

from verifierd.errors import ConfigError
from verifierd.replay.bench.asking import Outcome
from verifierd.replay.bench.book import About, Row
from verifierd.replay.bench.figures import Figure, Results, estimated, median
from verifierd.replay.bench.sequences import FEW, share
from verifierd.replay.statistics import Bools, Estimate, Floats, Groups, Interval, mcnemar

__all__ = ("COSTS", "RATES", "Compared", "Named", "alike", "compared", "named")

JUDGED = "judge:"
"""Begins the case of a row that tells what a judge said of an answer."""

_MUST = ("suite", "size", "parameters", "data", "seed")


def _is(row: Row, outcome: Outcome) -> bool | None:
    return None if row.case.startswith(JUDGED) else row.outcome is outcome


RATES: Mapping[str, Callable[[Row], bool | None]] = {
    "exact": lambda row: row.exact,
    "without_echo": lambda row: row.without_echo,
    "normalised": lambda row: row.normalised,
    "role_breaks": lambda row: _is(row, Outcome.ROLE_BREAK),
    "answered": lambda row: _is(row, Outcome.ANSWERED),
}
"""What an answer is or is not; None where that is not asked, which counts as not where it is asked of the other."""

COSTS: Mapping[str, Callable[[Row], float | None]] = {
    "seconds": lambda row: row.seconds or None,
    "first_token_seconds": lambda row: row.first_token_seconds,
    "generated_tokens": lambda row: row.generated_tokens,
}


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a comparison.

    Attributes:
        run: Its letter.
        predictor, model: Who was asked.
        file: Where it stands; empty if nowhere.
        rows: How many answers it has.
    """

    run: str
    predictor: str
    model: str | None
    file: str = ""
    rows: int


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What `bench --compare --json` prints."""

    suite: str
    size: str
    runs: list[Named]
    results: Results


def alike(runs: Sequence[tuple[str, About]]) -> None:
    """See whether runs can be compared; each with its name.

    Raises:
        ConfigError: They are of different suites, sizes, parameters, data or seeds; or they are too few, or too many.
    """
    if not 1 < len(runs) <= len(ascii_lowercase):
        raise ConfigError(
            f"{len(runs)} runs cannot be compared",
            hint=f"Name two to {len(ascii_lowercase)} files that `verifierd bench SUITE --out FILE` wrote.",
        )
    (first, one), *others = runs
    for name, other in others:
        unlike = [key for key in _MUST if getattr(one, key) != getattr(other, key)]
        if unlike:
            raise ConfigError(
                f"{name}: is no run to compare with {first}; it differs in {', '.join(unlike)}",
                hint="Run the same suite with the same --size, --seed and --data, and another model.",
            )


def named(runs: Sequence[tuple[str, str, str | None, Sequence[Row]]]) -> list[Named]:
    """Runs under their letters: file, predictor, model and rows of each."""
    return [
        Named(run=letter, file=file, predictor=predictor, model=model, rows=len(rows))
        for letter, (file, predictor, model, rows) in zip(ascii_lowercase, runs, strict=False)
    ]


def compared(runs: Sequence[Sequence[Row]]) -> Results:
    """Each run on what all of them answered, and the differences of each two, the later minus the earlier.

    Raises:
        ConfigError: No case was answered in all of them.
    """
    answers = {letter: {(row.case, row.run): row for row in rows} for letter, rows in zip(ascii_lowercase, runs)}  # noqa: B905 - so many at most
    common = [key for key in next(iter(answers.values())) if all(key in rows for rows in answers.values())]
    if not common:
        raise ConfigError("the runs have no case in common", hint="Let each of them get further before comparing them.")
    results: Results = {"pairs": len(common)}
    if unpaired := sum(len(rows) for rows in answers.values()) - len(common) * len(answers):
        results["unpaired"] = unpaired
    paired = {letter: [rows[key] for key in common] for letter, rows in answers.items()}
    for letter, rows in paired.items():
        results |= {f"{letter}_{name}": figure for name, figure in _alone(rows)}
    for one, other in combinations(paired, 2):
        found = _differences(paired[one], paired[other])
        results |= {f"{other}_minus_{one}_{name}": figure for name, figure in found}
    return results


def _alone(rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
    for name, hit in RATES.items():
        hits = [hit(row) for row in rows]
        if any(one is not None for one in hits):
            yield name, share(rows, [bool(one) for one in hits])
    for name, cost in COSTS.items():
        costs = [known for row in rows if (known := cost(row)) is not None]
        if costs:
            yield f"{name}_median", median(costs)


def _differences(ones: Sequence[Row], others: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
    groups = [row.group for row in ones]
    if len(set(groups)) < FEW:
        groups = [row.case for row in ones]
    for name, hit in RATES.items():
        pairs = [(hit(one), hit(other)) for one, other in zip(ones, others, strict=True)]
        chosen = np.array([pair != (None, None) for pair in pairs])
        if not chosen.any():
            continue
        one, other = (np.array([bool(pair[side]) for pair in pairs])[chosen] for side in (0, 1))
        yield name, _difference(one, other, [group for group, here in zip(groups, chosen, strict=True) if here])
        yield f"{name}_mcnemar", mcnemar(one, other)
    for name, cost in {**COSTS, **_scores(ones, others)}.items():
        costs = [(cost(one), cost(other)) for one, other in zip(ones, others, strict=True)]
        taken = [None not in pair for pair in costs]
        gains = np.array([pair[1] - pair[0] for pair in costs if pair[0] is not None and pair[1] is not None])
        if gains.size:
            yield name, _mean(gains, [group for group, here in zip(groups, taken, strict=True) if here])


def _scores(ones: Sequence[Row], others: Sequence[Row]) -> dict[str, Callable[[Row], float | None]]:
    """What else was measured of both, and not the same of all."""
    names = {name for row in ones for name in row.scores} & {name for row in others for name in row.scores}

    def score(name: str) -> Callable[[Row], float | None]:
        return lambda row: row.scores.get(name)

    return {
        f"score_{name}": score(name)
        for name in sorted(names)
        if len({row.scores[name] for row in (*ones, *others) if name in row.scores}) > 1
    }


def _difference(one: Bools, other: Bools, groups: Sequence[str]) -> Figure:
    """Of shares. Where all pairs came out alike, the interval is that of a share of none or all of so many."""
    gains = set(other.astype(int) - one.astype(int))
    if len(gains) > 1:
        return _estimated(Groups(groups).difference(other, one))
    gain, slack = int(gains.pop()), 1 - 0.025 ** (1 / one.size)
    low, high = (-slack, slack) if gain == 0 else sorted((float(gain), gain * (1 - 2 * slack)))
    return Interval(float(gain), low, high, one.size)


def _mean(gains: Floats, groups: Sequence[str]) -> Figure:
    drawn = Groups(groups)
    every: Bools = np.ones(gains.size, dtype=np.bool_)
    return _estimated(drawn.of([drawn.sums(gains), drawn.sums(every)], lambda sums, counts: sums / counts, every))


def _estimated(found: Estimate) -> Figure:
    figure = estimated(found)
    assert figure is not None
    return figure
