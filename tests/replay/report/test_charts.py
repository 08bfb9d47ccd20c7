"""What is handed to plotly."""

from collections.abc import Sequence

import plotly.graph_objects
import pytest

from verifierd.replay.report.charts import Axis, Bars, Curve, Drawing, bars, columns, curves
from verifierd.replay.report.figures import Figure

SHARE = Axis(title="x")
KNOWN = Figure(value=0.5, low=0.25, high=0.625, n=8)
NONE = Figure(value=None)

DRAWINGS = {
    "curves": curves(
        [
            Curve(name="one", points=[(0, 0), (0.5, 1)], intervals=[None, (0.5, 1)], style="marked"),
            Curve(name="two", points=[(0.5, 0.5)], style="points"),
            Curve(name="chance", points=[(0, 0), (1, 1)], style="reference"),
        ],
        SHARE,
        Axis(title="y", scale="deviate"),
    ),
    "plain": curves([Curve(name="one", points=[(0, 0.5), (5, 1)])], Axis(title="steps", scale="plain"), SHARE),
    "bars": bars(["a", "b"], [Bars(name="n", figures=[KNOWN, NONE])], "share", reference=0.05),
    "differences": bars(["a"], [Bars(name="n", figures=[Figure(value=-0.5, low=-1.0, high=0.5)])] * 2, "difference"),
    "columns": columns(["a", "b"], [("clean", [0.5, 0.5]), ("faulty", [0, 1])], "score", "share"),
}


@pytest.mark.parametrize("drawing", DRAWINGS.values(), ids=DRAWINGS)
def test_plotly_knows_every_word(drawing: Drawing) -> None:
    """Its own checks pass each trace and layout: nothing is misspelt."""
    plotly.graph_objects.Figure(drawing)


def _labels(drawing: Drawing) -> Sequence[str]:
    axes = [drawing["layout"][name] for name in ("xaxis", "yaxis")]
    return [
        *(trace["name"] for trace in drawing["data"]),
        *(text for trace in drawing["data"] for text in trace["text"]),
        *(axis["title"]["text"] for axis in axes if "title" in axis),
        *(text for axis in axes for text in axis.get("ticktext", ())),
    ]


@pytest.mark.parametrize(
    "label", ['<a href="https://example.org">x</a>', "<b>\x1b[31m", "\ud800\u202e<br>", "<i>" * 99_999], ids=range(4)
)
def test_labels_are_drawn_as_they_stand(label: str) -> None:
    """No tag of a name reaches plotly, which would make links of them, and no name is longer than a line."""
    for drawing in (
        curves([Curve(name=label, points=[(0, 0)])], Axis(title=label), SHARE),
        bars([label], [Bars(name=label, figures=[KNOWN])], label),
        columns([label], [(label, [1.0])], label, label),
    ):
        labels = _labels(drawing)
        assert not any("<" in text or "\x1b" in text or "\ud800" in text or "\u202e" in text for text in labels)
        assert max(map(len, labels)) < 1_000


def test_intervals_are_distances_from_the_value() -> None:
    """As plotly wants them; a row without an interval has none."""
    errors = DRAWINGS["bars"]["data"][0]["error_x"]

    assert errors["array"] == [0.125, None]
    assert errors["arrayminus"] == [0.25, None]


def test_a_deviate_axis_ends() -> None:
    """Rates of 0 and 1 would lie infinitely far away, and are drawn at the edge."""
    axis = Axis(title="x", scale="deviate")

    assert axis.place(0.0) == axis.place(0.0005) < axis.place(0.5) < axis.place(0.9995) == axis.place(1.0)
