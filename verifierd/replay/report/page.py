"""Sections of prose, tables, charts and cases -> one HTML file that asks nothing of a network.

Whatever is shown goes through the sanitizer and is escaped on its way into the page, whoever brings it. Scripts run
only if their hash is named at the top: should a text ever get out of its place, it could not run.
"""

import base64
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from verifierd.replay.report.charts import Drawing
from verifierd.replay.report.figures import Figure, count, number
from verifierd.sanitize import Sanitizer

__all__ = (
    "Case",
    "Cell",
    "Chart",
    "Named",
    "Part",
    "Piece",
    "Prose",
    "Section",
    "Table",
    "Tile",
    "Tiles",
    "page",
    "pieces",
)

_TEXT = 4000
"""Characters of one text on the page; what is quoted of a transcript has been cut before."""


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A cell with a remark in small print."""

    name: str
    about: str


Cell = str | int | float | Figure | Named | None


class Prose(msgspec.Struct, frozen=True, kw_only=True):
    """A paragraph; `warning` makes it stand out."""

    text: str
    warning: bool = False
    kind: ClassVar[str] = "prose"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under a head; the first cell of a row names it.

    Attributes:
        caption: What it shows.
        head: Of the columns.
        rows: As long as the head.
        folded: Shown only when asked for, and in print.
    """

    caption: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    folded: bool = False
    kind: ClassVar[str] = "table"


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing, with the table that says the same."""

    title: str
    drawing: Drawing
    table: Table
    kind: ClassVar[str] = "chart"


class Tile(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that one should see first: what it is called, and what of what it is."""

    name: str
    figure: Figure
    about: str


class Tiles(msgspec.Struct, frozen=True, kw_only=True):
    """A row of them."""

    tiles: Sequence[Tile]
    kind: ClassVar[str] = "tiles"


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Some characters of what is quoted: did they decide, were they altered? An empty piece marks a place."""

    text: str
    decided: bool = False
    altered: bool = False


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One step: what was done, what was expected and what came, side by side.

    Attributes:
        title: What is wrong with it.
        facts: Names and values about it.
        action, predicted: Texts.
        observed: What came, with the places that matter marked.
        reasons: Why it was decided so.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    action: str
    predicted: str
    observed: Sequence[Piece]
    reasons: Sequence[str]
    kind: ClassVar[str] = "case"


Part = Prose | Table | Chart | Tiles | Case


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the report with a heading.

    Attributes:
        title: Its heading.
        lead: What its figures mean.
        careful: What to be careful about; may be empty.
        parts: What it shows.
        inner: It belongs to the section before it that is not.
    """

    title: str
    lead: str
    careful: str = ""
    parts: Sequence[Part] = ()
    inner: bool = False


def page(title: str, sections: Sequence[Section], *, facts: Sequence[tuple[str, str]] = ()) -> str:
    """The HTML of a report.

    Args:
        title: Of the page.
        sections: In their order.
        facts: Names and values at the foot: the command, the date.
    """
    env = _environment()
    own = _source(env, "page.js")
    scripts = (str(get_plotlyjs()), own) if any(_draws(section) for section in sections) else (own,)
    return env.get_template("page.html.j2").render(
        title=title,
        sections=sections,
        facts=facts,
        style=Markup(_source(env, "page.css")),  # noqa: S704 - our own file
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - ours and plotly's own
        hashes=" ".join(f"'sha256-{_hash(script)}'" for script in scripts),
    )


def pieces(text: str, decided: Sequence[tuple[int, int]], altered: tuple[int, int] | None) -> tuple[Piece, ...]:
    """A text, cut wherever something that matters begins or ends.

    Args:
        text: What is quoted.
        decided: Characters of it that decided, an empty range for a place where something is missing.
        altered: Characters of it that were altered, likewise; None if none were.
    """
    ranges = [*decided, *([] if altered is None else [altered])]
    edges = sorted({0, len(text), *(min(max(0, edge), len(text)) for ends in ranges for edge in ends)})
    found = []
    for start, end in zip(edges, [*edges[1:], len(text)], strict=True):
        here = start, start
        if here in decided or here == altered:
            found.append(Piece(text="", decided=here in decided, altered=here == altered))
        if start < end:
            found.append(
                Piece(
                    text=text[start:end],
                    decided=any(low <= start and end <= high for low, high in decided),
                    altered=altered is not None and altered[0] <= start and end <= altered[1],
                )
            )
    return tuple(found)


def _draws(section: Section) -> bool:
    return any(part.kind == "chart" for part in section.parts)


def _environment() -> Environment:
    env = Environment(
        loader=PackageLoader("verifierd.replay.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown(Sanitizer(b"report")),
    )
    env.tests["figure"] = lambda cell: isinstance(cell, Figure)
    env.tests["named"] = lambda cell: isinstance(cell, Named)
    env.filters["cell"] = _cell
    env.filters["count"] = count
    return env


def _shown(sanitizer: Sanitizer) -> Callable[[Any], Any]:
    """What becomes of each value on its way into the page."""

    def shown(value: object) -> object:
        return value if isinstance(value, Markup) else sanitizer.text(str(value), _TEXT)

    return shown


def _cell(value: str | float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return count(value)
    return number(value) if isinstance(value, float) else value


def _source(env: Environment, name: str) -> str:
    assert env.loader is not None
    return env.loader.get_source(env, name)[0]


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
