"""The HTML of reports: it stands alone, holds everything, and nothing that it quotes acts."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser

import pytest

from verifierd.replay.report.charts import Bars, bars
from verifierd.replay.report.figures import Figure
from verifierd.replay.report.page import Case, Chart, Named, Piece, Prose, Section, Table, Tile, Tiles, page, pieces

ATTACKS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style></textarea></title><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "{{ 7 * 7 }}{% raw %}",
    "<!--",
    "\x1b[31mred\x1b]8;;https://example.org\x07link",
    "\u202eevil\u2066\u200b",
    "\ud800 alone \udfff",
    "x" * 1_000_000,
    "<b>\n" * 100_000,
)


class Read(HTMLParser):
    """What a browser would make of a page, roughly: tags, attributes, scripts and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.text = ""
        self._within: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in {"script", "style"}:
            self._within = tag
            if tag == "script":
                self.scripts.append((dict(attrs).get("type"), ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == self._within:
            self._within = None

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = kind, text + data
        elif self._within is None:
            self.text += data

    @property
    def policy(self) -> str:
        """The content security policy."""
        return next(str(attrs["content"]) for _, attrs in self.tags if "http-equiv" in attrs)


def _every_part(text: str) -> Sequence[Section]:
    """One of each, with a text wherever one goes."""
    value = Figure(value=0.5, low=0.25, high=0.75, n=4)
    table = Table(caption=text, head=(text, text), rows=[[text, value], [Named(name=text, about=text), None]])
    parts = (
        Prose(text=text, warning=True),
        Tiles(tiles=[Tile(name=text, figure=value, about=text)]),
        Chart(title=text, drawing=bars([text], [Bars(name=text, figures=[value])], text), table=table),
        Table(caption=text, head=(text,), rows=[], folded=True),
        Case(
            title=text,
            facts=[(text, text)],
            action=text,
            predicted=text,
            observed=[*pieces(text, [(0, 3)], (1, 4)), Piece(text="", altered=True)],
            reasons=[text],
        ),
    )
    return [Section(title=text, lead=text, careful=text, parts=parts), Section(title=text, lead=text, inner=True)]


def _tags(read: Read) -> list[str]:
    """All but those around pieces, of which a shorter text has fewer."""
    return [tag for tag, _ in read.tags if tag != "mark"]


@pytest.fixture(name="harmless", scope="module")
def _harmless() -> list[str]:
    """The tags of a page whose texts do no harm."""
    return _tags(Read(page("harmless", _every_part("harmless"), facts=[("harmless", "harmless")])))


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_what_is_quoted_never_acts(text: str, harmless: list[str]) -> None:
    """Wherever it stands, it is text: no tag, handler, script, control or direction of its own."""
    attacked = page(text, _every_part(text), facts=[(text, text)])
    read = Read(attacked)

    assert _tags(read) == harmless
    assert not [name for _, attrs in read.tags for name in attrs if name.startswith("on")]
    shown = attacked[: attacked.index("plotly.js v")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)
    assert len(attacked.encode()) < 6_000_000


def test_it_asks_nothing_of_a_network() -> None:
    """No address is loaded, and the page forbids it; only the scripts that it carries may run."""
    read = Read(page("Report", _every_part("x")))
    run = [text for kind, text in read.scripts if kind is None]
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in run]

    assert len(run) == 2
    assert f"script-src {' '.join(hashes)};" in read.policy
    assert read.policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    places = [str(attrs[name]) for _, attrs in read.tags for name in ("src", "href") if name in attrs]
    assert [place for place in places if not place.startswith(("#", "data:,"))] == []


def test_plotly_comes_only_where_something_is_drawn() -> None:
    """A report without charts is small."""
    assert len(page("Report", [Section(title="One", lead="Nothing is drawn.")])) < 20_000


def test_a_drawing_is_data() -> None:
    """It stands in the page as JSON, and reads back as it was, its labels too."""
    drawing = bars(["</script>"], [Bars(name="n", figures=[Figure(value=0.5)])], "share")
    chart = Chart(title="Chart", drawing=drawing, table=Table(caption="Table", head=("Kind",), rows=[["a"]]))
    read = Read(page("Report", [Section(title="One", lead="A chart.", parts=[chart])]))

    assert [json.loads(text) for kind, text in read.scripts if kind == "application/json"] == [drawing]


def test_nothing_stands_only_in_a_picture() -> None:
    """Each chart names the table that says the same, and the table is there."""
    read = Read(page("Report", _every_part("x")))
    pictures = [attrs for tag, attrs in read.tags if attrs.get("role") == "img"]

    assert len(pictures) == 1
    assert "The table “x” says the same." in str(pictures[0]["aria-label"])
    assert len([tag for tag, _ in read.tags if tag == "table"]) == 2


def test_links_lead_somewhere() -> None:
    """Every link within the page has its target."""
    read = Read(page("Report", _every_part("x")))
    targets = {attrs["id"] for _, attrs in read.tags if "id" in attrs}

    assert {str(attrs["href"])[1:] for tag, attrs in read.tags if tag == "a"} <= targets


def test_secrets_stay_out() -> None:
    """Whoever builds a section, the sanitizer has the last word."""
    key = "AKIA" + "Q3EGZ7XW2M5TLKJD"

    assert key not in page("Report", [Section(title="One", lead=f"export AWS_ACCESS_KEY_ID={key}")])


@pytest.mark.parametrize(
    ("decided", "altered", "found"),
    [
        ([], None, [("abcdef", "")]),
        ([(1, 3)], None, [("a", ""), ("bc", "d"), ("def", "")]),
        ([(0, 3)], (2, 6), [("ab", "d"), ("c", "da"), ("def", "a")]),
        ([(0, 2), (1, 3)], None, [("a", "d"), ("b", "d"), ("c", "d"), ("def", "")]),
        ([], (3, 3), [("abc", ""), ("", "a"), ("def", "")]),
        ([], (6, 6), [("abcdef", ""), ("", "a")]),
        ([(4, 99)], (-5, 1), [("a", "a"), ("bcd", ""), ("ef", "d")]),
    ],
)
def test_pieces_are_marked(
    decided: list[tuple[int, int]], altered: tuple[int, int] | None, found: list[tuple[str, str]]
) -> None:
    """A text falls apart where what decided or was altered begins and ends; nothing is lost."""
    marks = [(one.text, "d" * one.decided + "a" * one.altered) for one in pieces("abcdef", decided, altered)]

    assert marks == found


def test_an_empty_observation_is_said_to_be_one() -> None:
    """It is not just a blank space."""
    case = Case(title="1", facts=(), action="true", predicted="", observed=pieces("", (), None), reasons=())

    assert "nothing came" in Read(page("Report", [Section(title="One", lead="x", parts=[case])])).text
