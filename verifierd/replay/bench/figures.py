"""Figures and their intervals; paired timing."""

import gc
import math
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from verifierd.errors import ConfigError
from verifierd.replay.statistics import Estimate, Interval

__all__ = ("Figure", "Results", "estimated", "holds", "median", "over_seeds", "paired", "seconds", "value")


Figure = float | int | Interval
Results = dict[str, Figure]

_CONDITION = re.compile(r"\s*([a-z0-9_]+)\s*(<=|>=|<|>)\s*([-+0-9.e]+)\s*")


def value(figure: Figure) -> float:
    """The figure itself."""
    return figure.value if isinstance(figure, Interval) else figure


def estimated(found: Estimate) -> Figure | None:
    """The figure: without an interval where there can be none; None where there was nothing to measure."""
    if found.value is None or found.low is None or found.high is None:
        return found.value
    return Interval(found.value, found.low, found.high, found.n)


def median(values: Sequence[float]) -> Interval:
    """The median, with its distribution-free interval: order statistics, the binomial's tails below 2.5 % each.

    With fewer than six values no such interval reaches 95 %; it is then from the least to the largest.
    """
    ordered = sorted(values)
    n = len(ordered)
    skipped, tail = 0, 0.5**n
    while tail <= 0.025 and skipped < (n - 1) // 2:
        skipped += 1
        tail += math.comb(n, skipped) * 0.5**n
    skipped = max(0, skipped - 1)
    return Interval(statistics.median(ordered), ordered[skipped], ordered[n - 1 - skipped], n)


def over_seeds(values: Sequence[float]) -> Interval:
    """The mean, and where 95 % of the values lie."""
    low, high = np.quantile(values, (0.025, 0.975))
    return Interval(statistics.fmean(values), float(low), float(high), len(values))


def seconds(work: Callable[[], object]) -> float:
    """How long it takes, without the collection of other work's garbage."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began
    finally:
        if collecting:
            gc.enable()


def paired(
    one: Callable[[], object], other: Callable[[], object], runs: int, *, warm: int = 1
) -> tuple[list[float], list[float]]:
    """Seconds of two pieces of work, taken in turn and in changing order, so that what slows the machine slows both.

    Args:
        one: The one.
        other: The other.
        runs: Pairs.
        warm: Pairs before that are not counted.
    """
    taken: tuple[list[float], list[float]] = [], []
    for run in range(-warm, runs):
        for side in (0, 1) if run % 2 else (1, 0):
            passed = seconds((one, other)[side])
            if run >= 0:
                taken[side].append(passed)
    return taken


def holds(condition: str, results: Mapping[str, Figure]) -> bool:
    """Does a condition such as `decode_over_verify<4` hold for the results?

    Raises:
        ConfigError: It is no condition, or names no figure.
    """
    found = _CONDITION.fullmatch(condition)
    if found is None or found[1] not in results:
        raise ConfigError(
            f"`{condition}` is no condition on these figures",
            hint=f"Write NAME<NUMBER, <=, > or >=; NAME is one of: {', '.join(results)}.",
        )
    try:
        limit = float(found[3])
    except ValueError as error:
        raise ConfigError(f"`{condition}`: `{found[3]}` is no number") from error
    measured = value(results[found[1]])
    match found[2]:
        case "<":
            return measured < limit
        case "<=":
            return measured <= limit
        case ">":
            return measured > limit
        case _:
            return measured >= limit
