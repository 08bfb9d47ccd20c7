"""Numbers -> figures as plotly takes them. Colours of text and lines come from the page, so that they follow its theme.

Nothing of a transcript is drawn unescaped: plotly reads tags in labels, and would make links of them.
"""

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, Literal

import msgspec
from markupsafe import escape

from verifierd.replay.report.figures import Figure, percent
from verifierd.sanitize import plain

__all__ = ("Axis", "Bars", "Curve", "Drawing", "bars", "columns", "curves")

Drawing = dict[str, Any]
"""`data` and `layout` of a plotly figure, as JSON."""

_COLOURS = ("#3a86c8", "#d1641a", "#2a9d6f", "#9a6dd7", "#c2537f", "#87803a")  # at least 3 : 1 on white and on black
_GREY = "#8a8f98"
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_EDGE = 0.0005
"""Rates nearer to 0 or 1 than this are drawn at the edge of a normal-deviate scale, which goes on for ever."""

_TICKS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99, 0.999)
_LABEL = 40  # characters
_ROW, _FRAME = 22, 96  # pixels of a bar's row, and of all around them


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """What one direction means.

    Attributes:
        title: In words.
        scale: `share` from 0 to 1, in percent; `deviate` the same, stretched at both ends as DET curves are; `plain`.
    """

    title: str
    scale: Literal["share", "deviate", "plain"] = "share"

    def place(self, value: float) -> float:
        """Where a value is drawn."""
        if self.scale != "deviate":
            return value
        return NormalDist().inv_cdf(min(max(value, _EDGE), 1 - _EDGE))

    def drawn(self) -> dict[str, Any]:
        """As plotly takes it."""
        axis: dict[str, Any] = {
            "title": {"text": _text(self.title, 200), "font": {"size": 13}},
            "fixedrange": True,
            "zeroline": False,
        }
        if self.scale == "share":
            return axis | {"range": [-0.02, 1.02], "tickformat": ".0%"}
        if self.scale == "deviate":
            ends = [self.place(0) - 0.1, self.place(1) + 0.1]
            names = [f"{100 * tick:g}%" for tick in _TICKS]
            return axis | {"range": ends, "tickvals": [self.place(tick) for tick in _TICKS], "ticktext": names}
        return axis | {"rangemode": "tozero"}


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A line, or points that stand alone.

    Attributes:
        name: In the legend.
        points: Where it runs.
        intervals: Ends of each point's interval on the second axis, if it has them.
        style: `line`; `marked` with its points; `points` alone; `reference` for a thin grey line.
    """

    name: str
    points: Sequence[tuple[float, float]]
    intervals: Sequence[tuple[float, float] | None] = ()
    style: Literal["line", "marked", "points", "reference"] = "line"


class Bars(msgspec.Struct, frozen=True, kw_only=True):
    """Bars of one colour: a name and a figure for each row."""

    name: str
    figures: Sequence[Figure]


def curves(lines: Sequence[Curve], x: Axis, y: Axis, *, height: int = 400) -> Drawing:
    """Lines over two axes; colours and dashes tell them apart."""
    data, number = [], 0
    for line in lines:
        quiet = line.style == "reference"
        colour = _GREY if quiet else _COLOURS[number % len(_COLOURS)]
        trace = {
            "type": "scatter",
            "name": _text(line.name),
            "mode": {"points": "markers", "marked": "lines+markers"}.get(line.style, "lines"),
            "x": [x.place(point[0]) for point in line.points],
            "y": [y.place(point[1]) for point in line.points],
            "text": [f"{_said(x, point[0])}, {_said(y, point[1])}" for point in line.points],
            "hoverinfo": "skip" if quiet else "text",
            "line": {
                "color": colour,
                "width": 1.5 if quiet else 2.5,
                "dash": "dot" if quiet else _DASHES[number % len(_DASHES)],
            },
            "marker": {"color": colour, "size": 9, "symbol": number % 8},
        }
        if line.intervals:
            trace["error_y"] = _errors(
                [(y.place(point[1]), _placed(y, ends)) for point, ends in zip(line.points, line.intervals, strict=True)]
            )
        number += not quiet
        data.append(trace)
    return {"data": data, "layout": _layout(height) | {"xaxis": x.drawn(), "yaxis": y.drawn()}}


def bars(rows: Sequence[str], series: Sequence[Bars], title: str, *, reference: float | None = None) -> Drawing:
    """Bars from left to right with their intervals, the first row on top; shares, or differences of them.

    Args:
        rows: Their names.
        series: One or more bars a row.
        title: What is measured.
        reference: Where a dotted line is drawn across all.
    """
    places = list(range(len(rows)))
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": _text(one.name),
            "y": places,
            "x": [figure.value for figure in one.figures],
            "error_x": _errors(
                [(f.value, None if f.low is None or f.high is None else (f.low, f.high)) for f in one.figures]
            ),
            "text": [f"{_text(row)}: {figure}" for row, figure in zip(rows, one.figures, strict=True)],
            "textposition": "none",
            "hoverinfo": "text",
            "marker": {"color": _COLOURS[number % len(_COLOURS)]},
        }
        for number, one in enumerate(series)
    ]
    lows = [low for one in series for figure in one.figures if (low := figure.low or figure.value or 0.0) < 0]
    axis = Axis(title=title).drawn() | {"zeroline": bool(lows)}
    if lows:
        axis |= {"range": None, "autorange": True, "tickformat": "+.0%"}
    names = {"tickvals": places, "ticktext": [_text(row) for row in rows]}
    upright = {"autorange": "reversed", "fixedrange": True, "zeroline": False, "automargin": True, **names}
    layout = _layout(_FRAME + max(2, len(rows)) * (_ROW + 8 * (len(series) - 1)))
    layout |= {"xaxis": axis, "yaxis": upright, "bargap": 0.25}
    if reference is not None:
        line = {"color": _GREY, "width": 2, "dash": "dot"}
        ends = {"x0": reference, "x1": reference, "y0": 0, "y1": 1}
        layout["shapes"] = [{"type": "line", "xref": "x", "yref": "paper", "line": line, **ends}]
    return {"data": data, "layout": layout}


def columns(names: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], x: str, y: str) -> Drawing:
    """Columns side by side, as of a histogram: the share of each series that each column holds."""
    data = [
        {
            "type": "bar",
            "name": _text(name),
            "x": list(range(len(names))),
            "y": list(shares),
            "text": [
                f"{_text(name)}, {_text(column)}: {percent(share)}" for column, share in zip(names, shares, strict=True)
            ],
            "textposition": "none",
            "hoverinfo": "text",
            "marker": {
                "color": _COLOURS[number % len(_COLOURS)],
                "pattern": {
                    "shape": ("", "/", ".", "x")[number % 4],
                    "fillmode": "overlay",
                    "size": 6,
                    "solidity": 0.3,
                },
            },
        }
        for number, (name, shares) in enumerate(series)
    ]
    across = Axis(title=x, scale="plain").drawn() | {
        "range": [-0.6, len(names) - 0.4],
        "tickvals": list(range(len(names))),
        "ticktext": [_text(name) for name in names],
        "tickangle": -40,
        "automargin": True,
    }
    up = Axis(title=y, scale="plain").drawn() | {"tickformat": ".0%"}
    return {"data": data, "layout": _layout(360) | {"xaxis": across, "yaxis": up, "bargap": 0.15}}


def _layout(height: int) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": 64, "r": 16, "t": 40, "b": 56},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "dragmode": False,
    }


def _errors(rows: Sequence[tuple[float | None, tuple[float, float] | None]]) -> dict[str, Any]:
    """Distances from each value to its interval's ends; none where there is no interval."""
    ups, downs = [], []
    for value, ends in rows:
        known = value is not None and ends is not None
        ups.append(max(0.0, ends[1] - value) if known else None)  # type: ignore[index, operator]
        downs.append(max(0.0, value - ends[0]) if known else None)  # type: ignore[index, operator]
    return {"type": "data", "symmetric": False, "array": ups, "arrayminus": downs, "thickness": 1.5, "width": 0}


def _placed(axis: Axis, ends: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if ends is None else (axis.place(ends[0]), axis.place(ends[1]))


def _said(axis: Axis, value: float) -> str:
    return f"{value:g}" if axis.scale == "plain" else percent(value)


def _text(text: str, most: int = _LABEL) -> str:
    """A label that plotly draws as it stands."""
    shown = plain(text)
    return str(escape(shown if len(shown) <= most else f"{shown[: most - 1]}…"))
