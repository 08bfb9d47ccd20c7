"""What steps cost -> tables that several reports have."""

from collections.abc import Mapping

from verifierd.replay.report.figures import milliseconds
from verifierd.replay.report.page import Cell, Named, Part, Prose, Table

__all__ = ("times", "tokens")

_TOKENS = {
    "prompt": "of the prompt",
    "cached": "of the prompt that had been computed before",
    "scored": "of the real observation that the model was asked about",
    "generated": "decoded",
    "computed": "passed through the model",
    "new": "of the trajectory that came up for the first time",
}


def times(seconds: Mapping[str, float], *, caption: str, whole: str) -> Table:
    """Percentiles of the seconds that a step took (`p50`, `p95`, `p99`), and the seconds of the whole (`wall`)."""
    steps = (("p50", "half of the steps took at most"), ("p95", "95 %"), ("p99", "99 %"))
    rows = [[name, milliseconds(seconds[key])] for key, name in steps]
    return Table(caption=caption, head=("What", "Time"), rows=[*rows, [whole, f"{seconds['wall']:,.1f} s"]])


def tokens(found: Mapping[str, float], *, caption: str, head: str) -> Part:
    """Numbers of tokens by sort."""
    if not any(found.values()):
        return Prose(text="No model was asked: no tokens.")
    rows: list[list[Cell]] = [[Named(name=name, about=_TOKENS.get(name, "")), n] for name, n in found.items()]
    return Table(caption=caption, head=("Tokens", head), rows=rows)
