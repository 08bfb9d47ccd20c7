"""The console's figures, and what they are made from."""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from math import sqrt
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import msgspec

from verifierd import __version__, views
from verifierd.calibration import rate
from verifierd.http.events import Events
from verifierd.labels import Truth
from verifierd.store import FileState
from verifierd.types import Step, VerdictKind

__all__ = ("Console", "Estimate", "Facts", "estimate", "summary")

P = ParamSpec("P")
T = TypeVar("T")

_EXACT = 2000  # of so many cases on the exact interval takes too long, and Wilson's is as good
_Z = 1.959964


class Looks(Protocol):
    """What the console wants of `store`."""

    truth: Truth

    def look(self, function: Callable[Concatenate[Any, P], T], *arguments: P.args, **named: P.kwargs) -> Awaitable[T]:
        """What a function of `views` finds."""

    async def source_of(self, verdict_id: str) -> tuple[Step, FileState | None] | None:
        """The step that a verdict is on, and what is known of its file."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Who judges now; alpha is the share of clean trajectories that may alarm, None where nothing was calibrated."""

    policy: str
    predictor: str
    model: str | None
    quotes: str
    alpha: float | None = None


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """What the console is made of.

    Attributes:
        store: What was committed.
        events: What happens.
        facts: Who judges now.
        text: Makes a text fit to be shown, with at most so many characters.
        unknown: How often each type of record was met that no adapter knows, by format.
    """

    store: Looks
    events: Events
    facts: Callable[[], Facts]
    text: Callable[[str, int | None], str]
    unknown: Callable[[], Mapping[str, Mapping[str, int]]]


class Estimate(msgspec.Struct, frozen=True):
    """A share with its 95 % interval; None where there is nothing to share."""

    value: float | None
    low: float | None
    high: float | None
    n: int


async def summary(console: Console) -> dict[str, Any]:
    """All figures at once."""
    counts = await console.store.look(views.counts)
    false, runs = await console.store.look(views.budget)
    truth, facts = console.store.truth, console.facts()
    realised = estimate(false, runs)
    abstained = counts["verdicts"][VerdictKind.ABSTAIN]
    return {
        **counts,
        "rates": {
            **_rates(truth),
            "abstention": estimate(abstained, sum(counts["verdicts"].values())),
            "pending": truth.pending,
        },
        "budget": {
            "alpha": facts.alpha,
            "false_alarms": false,
            "trajectories": runs,
            "realised": realised,
            "ratio": realised.value / facts.alpha if facts.alpha and realised.value is not None else None,
        },
        "version": __version__,
        "policy": facts.policy,
        "predictor": facts.predictor,
        "model": facts.model,
        "quotes": facts.quotes,
    }


def _rates(truth: Truth) -> dict[str, Any]:
    """False positives among the labelled on path, false negatives among the labelled off path."""
    by_label: dict[str, dict[bool, int]] = {}
    for (kind, label, _), count in truth.tally.items():
        flagged = by_label.setdefault(label, {True: 0, False: 0})
        flagged[kind is VerdictKind.OFF_PATH] += count
    good = by_label.get("on_path", {True: 0, False: 0})
    bad = by_label.get("off_path", {True: 0, False: 0})
    return {
        "fpr": estimate(good[True], good[True] + good[False]),
        "fnr": estimate(bad[False], bad[True] + bad[False]),
        "labelled": sum(count for flagged in by_label.values() for count in flagged.values()),
    }


@lru_cache(256)
def estimate(count: int, total: int) -> Estimate:
    """A share with its interval: Clopper-Pearson's, for many cases Wilson's."""
    if not total:
        return Estimate(None, None, None, 0)
    if total <= _EXACT:
        exact = rate(count, total)
        return Estimate(count / total, exact.low, exact.high, total)
    share, spread = count / total, _Z**2 / total
    centre = (share + spread / 2) / (1 + spread)
    half = _Z * sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    return Estimate(share, max(0.0, centre - half), min(1.0, centre + half), total)
