"""Does what others published hold for what was measured? The rule, and its words."""

from typing import Literal

from verifierd.replay.bench.figures import Figure, value
from verifierd.replay.statistics import Interval

__all__ = ("RULE", "Claim", "claim", "is_share")

Claim = Literal["holds", "does not hold", "too few", "not measured", "not comparable"]

_WIDE = 0.35
_NEAR = 0.05
_LEAST = 6

RULE = (
    "The rule: a published figure holds if the 95 % interval of the measured one contains it, or lies wholly on its"
    f" better side. Where it is contained, but the interval is wider than {100 * _WIDE:.0f} points (a share) or than"
    f" the figure itself, there are too few cases to tell, as there are where they are fewer than {_LEAST}. A figure"
    f" without an interval holds if it is no more than {100 * _NEAR:.0f} % worse. Nothing is compared at size smoke,"
    " with random weights, or where a suite stands under a warning."
)


def claim(published: float, figure: Figure | None, *, wanted: str = "", unit: str = "", comparable: bool) -> Claim:
    """What is to be said of a published figure.

    Args:
        published: It.
        figure: What was measured; None if nothing was.
        wanted: A condition such as `>= 4`, which tells the better side; without one less is better for times, more
            for rates of time, and elsewhere no side is.
        unit: What it is counted in.
        comparable: It was measured as the published one was.
    """
    if figure is None:
        return "not measured"
    if not comparable:
        return "not comparable"
    better = 0
    if wanted.startswith(">") or unit.endswith("/s"):
        better = 1
    elif wanted.startswith("<") or unit in ("s", "ms"):
        better = -1
    if not isinstance(figure, Interval):
        worse = better * (published - figure) if better else abs(published - figure)
        return "holds" if worse <= _NEAR * abs(published) else "does not hold"
    share = is_share(figure) and not unit
    if figure.n < _LEAST:
        return "too few"
    if figure.low <= published <= figure.high:
        wide = figure.high - figure.low > (_WIDE if share else abs(value(figure)))
        return "too few" if wide else "holds"
    return "holds" if better * (figure.value - published) > 0 else "does not hold"


def is_share(figure: Figure) -> bool:
    """Is it a share of cases? Ratios and ranks between 0 and 1 pass for one, too."""
    return isinstance(figure, Interval) and figure.low >= 0 and figure.high <= 1
