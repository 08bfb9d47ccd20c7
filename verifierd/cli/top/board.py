"""What `verifierd top` shows now, and what keys make of it. Nothing here asks a daemon or draws."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from verifierd.cli.top.shapes import Alarm, Document, Row, Summary, Trajectory
from verifierd.types import Verdict

__all__ = ("LABELS", "Act", "Board", "Card", "List", "View")

T = TypeVar("T")
View = Literal["board", "steps", "card", "help"]

LABELS = {"o": "off_path", "f": "on_path", "u": "unsure", "z": "undo"}
"""Keys that label a step, as in the console."""

_PAGE = 10  # rows that a page key moves by, where it is not known how many are shown
_RECENT = 200  # verdicts that are kept
_TYPED = 200  # characters of a filter


class Act(NamedTuple):
    """Something to be done about a key: `quit`, `open`, `card`, `label`, `acknowledge` or `search`."""

    what: str
    of: str = ""
    label: str = ""


class Card(NamedTuple):
    """A verdict that is looked at: itself, what is said of it, the alarm of its trajectory."""

    verdict: Verdict
    document: Document
    alarm: Alarm | None


class List(Generic[T]):
    """Rows of which one is chosen; it stays the chosen one when others come.

    Args:
        key: By what a row is known again.
        newest_last: Where new rows come; who looks at the newest goes on doing so.
    """

    def __init__(self, key: Callable[[T], str], *, newest_last: bool = False) -> None:
        self.rows: list[T] = []
        self.at = 0
        self.page = _PAGE
        self._key = key
        self._newest_last = newest_last

    @property
    def chosen(self) -> T | None:
        """The chosen row."""
        return self.rows[self.at] if self.at < len(self.rows) else None

    def put(self, rows: Sequence[T]) -> None:
        """Show these."""
        before = self.chosen
        newest = len(self.rows) - 1 if self._newest_last else 0
        stays = before is not None and self.at != newest
        self.rows = list(rows)
        known = [self._key(row) for row in self.rows]
        if before is not None and stays and self._key(before) in known:
            self.at = known.index(self._key(before))
        elif not stays:
            self.at = len(self.rows) - 1 if self._newest_last else 0
        self.move(0)

    def move(self, by: int) -> None:
        """Choose another one, as far as there are any."""
        self.at = max(0, min(self.at + by, len(self.rows) - 1))

    def window(self, height: int) -> tuple[int, list[T]]:
        """The rows that are seen in so many lines, and the number of the first."""
        self.page = max(1, height - 1)
        start = max(0, min(self.at - height // 2, len(self.rows) - height))
        return start, self.rows[start : start + height]


class Board:
    """All that is shown.

    Attributes:
        summary: The daemon's figures; None before the first answer.
        vitals: Figures of its metrics, by their names.
        trouble: Why nothing comes at the moment.
        note: What a key did, or why it did not.
        trajectories, verdicts, steps: The lists; steps are those of `opened`.
        names: What the trajectories are called, by id.
        view, focus: What is looked at; `focus` is the list that keys move in on the board.
        typed: The filter that is being typed, if one is.
    """

    def __init__(self) -> None:
        self.summary: Summary | None = None
        self.vitals: dict[str, float] = {}
        self.trouble = ""
        self.note = ""
        self.trajectories: List[Trajectory] = List(lambda row: row["id"])
        self.verdicts: List[Row] = List(_verdict_id)
        self.steps: List[Row] = List(_verdict_id, newest_last=True)
        self.names: dict[str, str] = {}
        self.opened: Trajectory | None = None
        self.card: Card | None = None
        self.scroll = 0
        self.view: View = "board"
        self.focus: Literal["trajectories", "verdicts"] = "trajectories"
        self.typed: str | None = None
        self.filters = {"board": "", "steps": ""}
        self._recent: list[Row] = []  # verdicts, newest first, whether they match the filter or not
        self._under: list[View] = []  # what ESC leads back to

    @property
    def list(self) -> "List[Any]":
        """The list that keys move in."""
        if self.view == "steps":
            return self.steps
        return self.trajectories if self.focus == "trajectories" else self.verdicts

    @property
    def search(self) -> str:
        """The filter of what is looked at."""
        return self.filters.get(self.view, "")

    def found(self, rows: Sequence[Trajectory]) -> None:
        """Show these, and call verdicts by their names."""
        self.names |= {row["id"]: row["trajectory"] for row in rows}
        self.trajectories.put(rows)
        self._show()

    def judged(self, row: Row) -> None:
        """Add a verdict."""
        self._recent = [row, *(other for other in self._recent if other["seq"] != row["seq"])][:_RECENT]
        self._show()

    def labelled(self, step_id: str | None, label: str | None) -> None:
        """Show the label that holds for a step now."""
        for row in (*self._recent, *self.steps.rows):
            if row["step_id"] == step_id:
                row["label"] = label

    def forget(self) -> None:
        """Begin anew with the verdicts."""
        self._recent = []
        self._show()

    def _show(self) -> None:
        wanted = self.filters["board"].casefold()
        self.verdicts.put(
            [
                row
                for row in self._recent
                if any(
                    wanted in text.casefold()
                    for text in (row["action"], row["tool"], self.names.get(row.get("trajectory_id", ""), ""))
                )
            ]
        )

    def go(self, view: View) -> None:
        """Look at something else, from where ESC leads back."""
        if view != self.view:
            self._under.append(self.view)
            self.view = view
        self.scroll = 0

    def press(self, key: str) -> Act | None:
        """What a key does here is done; what needs the daemon is given back."""
        self.note = ""
        if self.typed is not None:
            return self._type(key)
        act: Act | None = None
        if key == "q":
            act = Act("quit")
        elif key in ("escape", "erase") or self.view == "help" or (key == "left" and self.view == "steps"):
            act = self._back()
        elif key == "?":
            self.go("help")
        elif key in LABELS:
            act = self._label(LABELS[key])
        elif key == "a":
            act = self._acknowledge()
        else:
            act = self._in_card(key) if self.view == "card" else self._in_list(key)
        return act

    def _in_list(self, key: str) -> Act | None:
        rows = self.list
        match key:
            case "/":
                self.typed = self.search
            case "tab" if self.view == "board":
                self.focus = "verdicts" if self.focus == "trajectories" else "trajectories"
            case "enter" | "right" if (row := rows.chosen) is not None:
                return Act("open", row["id"]) if rows is self.trajectories else Act("card", row["verdict_id"])
            case "n" | "p" if rows is not self.trajectories:
                _seek(rows, 1 if key == "n" else -1)
            case _:
                rows.move(_step(key, rows.page, len(rows.rows)))
        return None

    def _in_card(self, key: str) -> Act | None:
        if key in ("left", "right", "p", "n"):
            there = self.card and self.card.document["neighbours"]["before" if key in ("left", "p") else "after"]
            return Act("card", there) if there else None
        self.scroll = max(0, self.scroll + _step(key, self.steps.page, 1 << 30))
        return None

    def _back(self) -> Act | None:
        if self._under:
            self.view, self.scroll = self._under.pop(), 0
        elif self.search:
            self.filters[self.view] = ""
            return Act("search")
        return None

    def _type(self, key: str) -> Act | None:
        assert self.typed is not None
        match key:
            case "enter":
                self.filters[self.view], self.typed = self.typed.strip(), None
                return Act("search")
            case "escape":
                self.typed = None
            case "erase":
                self.typed = self.typed[:-1]
            case _ if len(key) == 1:
                self.typed = (self.typed + key)[:_TYPED]
        return None

    def _label(self, label: str) -> Act | None:
        if self.view == "card" and self.card is not None:
            return Act("label", self.card.verdict.verdict_id, label)
        row = self.list.chosen
        if self.list is self.trajectories or row is None:
            self.note = "labels belong to steps: choose one by tab, or open the trajectory by enter"
            return None
        return Act("label", row["verdict_id"], label)

    def _acknowledge(self) -> Act | None:
        alarm = None
        if self.view == "card":
            alarm = self.card and self.card.alarm
        elif self.view == "steps":
            alarm = self.opened and self.opened["alarm"]
        elif self.list is self.trajectories and self.trajectories.chosen is not None:
            alarm = self.trajectories.chosen["alarm"]
        if alarm and not alarm["acknowledged"]:
            return Act("acknowledge", alarm["id"])
        self.note = "there is no open alarm here"
        return None


def _verdict_id(row: Row) -> str:
    return row["verdict_id"]


def _seek(rows: List[Row], way: int) -> None:
    """Choose the next row, that way, which is off path."""
    at = rows.at + way
    while 0 <= at < len(rows.rows):
        if rows.rows[at]["verdict"] == "off_path":
            rows.at = at
            return
        at += way


def _step(key: str, page: int, count: int) -> int:
    """How far a key moves."""
    steps = {"down": 1, "j": 1, "up": -1, "k": -1, "page down": page, " ": page, "page up": -page}
    return {"home": -count, "g": -count, "end": count, "G": count}.get(key, steps.get(key, 0))
