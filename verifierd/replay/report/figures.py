"""Numbers -> words. Rounding never makes a rate look perfect: only what is exactly 0 or 1 reads `0 %` or `100 %`."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

__all__ = ("Figure", "Unit", "count", "figure", "milliseconds", "number", "percent", "points", "total")

Unit = Literal["share", "points", "rank", "plain"]

_NONE = "-"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with its 95 % interval, fit for a table's cell.

    Attributes:
        value: What was measured; None where there was nothing to measure.
        low, high: The interval; None if there is none.
        n: Of how many cases, or kinds.
        unit: How it reads: a share in percent, a difference of two shares in percentage points, a rank statistic such
            as AUROC between 0 and 1, or a plain number.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    unit: Unit = "share"

    @property
    def known(self) -> bool:
        """Was there anything to measure?"""
        return self.value is not None

    @property
    def text(self) -> str:
        """The value alone."""
        if self.value is None:
            return _NONE
        return {"share": percent, "points": points, "rank": _rank, "plain": number}[self.unit](self.value)

    @property
    def interval(self) -> str:
        """The interval alone; empty if there is none, also where no draw differed from another, which says nothing."""
        if self.low is None or self.high is None or self.low == self.high:
            return ""
        one, other = (Figure(value=end, unit=self.unit).text for end in (self.low, self.high))
        return f"{one.removesuffix(' %').removesuffix(' points')} to {other}"

    def __str__(self) -> str:
        """Value, interval and count in one line."""
        beside = [part for part in (self.interval, "" if self.n is None else f"N {count(self.n)}") if part]
        return f"{self.text} ({'; '.join(beside)})" if beside and self.known else self.text


def figure(found: Mapping[str, Any] | None, unit: Unit = "share") -> Figure:
    """A figure of an estimate as JSON has it: `value`, `low`, `high` and `n`."""
    if found is None:
        return Figure(value=None, unit=unit)
    return Figure(value=found["value"], low=found.get("low"), high=found.get("high"), n=found.get("n"), unit=unit)


def total(of: int) -> Figure:
    """A number of things, as a figure."""
    return Figure(value=of, unit="plain")


def percent(share: float) -> str:
    """A share in percent: `12.3 %`, `0.012 %`, `99.97 %`."""
    return f"{_rounded(100 * share)} %"


def points(difference: float) -> str:
    """A difference of two shares, in percentage points: `+1.2 points`."""
    text = _rounded(100 * abs(difference))
    return f"{'' if not difference else '+' if difference > 0 else '−'}{text} points"  # noqa: RUF001 - a minus


def number(value: float) -> str:
    """A number of any size, to three digits."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def count(value: int) -> str:
    """How many."""
    return f"{value:,}"


def milliseconds(seconds: float) -> str:
    """A time of less than a few seconds."""
    return f"{1000 * seconds:,.3g} ms"


def _rank(value: float) -> str:
    return f"{value:.3f}"


def _rounded(value: float) -> str:
    """To one decimal; to more where that would read as nothing, or as all."""
    if value == int(value):
        return f"{value:.0f}"
    if (least := min(abs(value), abs(100 - value))) < 0.1:
        digits = 1 - math.floor(math.log10(least)) if least > 1e-9 else 1
        return f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return f"{value:.1f}"
