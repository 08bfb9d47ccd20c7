"""A small stock service in memory, called by tools: what the suite `second-domain` takes for the truth of `mcp`.

Nothing in it depends on time or chance: identifiers are counted, answers are JSON in one layout.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from verifierd.replay.cases import WORDS
from verifierd.types import Action, Origin, Step

__all__ = ("Stock", "shown", "steps")

_SHELVES = ("north", "south", "east")


class _Refused(Exception):  # noqa: N818 - an answer
    """What the service does not do.

    Args:
        code: The error's name.
        message: The error in words.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.answer = {"error": {"code": code, "message": message}}


class Stock:
    """Items with a count and a shelf."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, Any]] = {}
        self._made = 0
        self._tools: Mapping[str, Callable[..., Any]] = {
            "create_item": self._create,
            "get_item": self._get,
            "list_items": self._list,
            "update_item": self._update,
            "move_stock": self._move,
            "delete_item": self._delete,
            "sum_counts": self._sum,
        }

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What the service answers; a call that it refuses changes nothing."""
        try:
            answer = self._tools.get(tool, partial(_unknown, tool))(**arguments)
        except _Refused as refused:
            answer = refused.answer
        return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()

    @property
    def ids(self) -> list[str]:
        """The identifiers of all items."""
        return list(self._items)

    def _create(self, name: str, count: int, shelf: str) -> dict[str, Any]:
        if any(item["name"] == name for item in self._items.values()):
            raise _Refused("conflict", f"an item is called {name} already")
        self._check(count, shelf)
        self._made += 1
        identifier = f"item-{100 + self._made}"
        self._items[identifier] = {"id": identifier, "name": name, "count": count, "shelf": shelf, "version": 1}
        return self._items[identifier]

    def _get(self, id: str) -> dict[str, Any]:
        if id not in self._items:
            raise _Refused("not_found", f"there is no item {id}")
        return self._items[id]

    def _list(self, shelf: str | None = None, below: int | None = None) -> dict[str, Any]:
        found = [
            {"id": item["id"], "name": item["name"], "count": item["count"]}
            for item in self._items.values()
            if (shelf is None or item["shelf"] == shelf) and (below is None or item["count"] < below)
        ]
        return {"total": len(found), "items": found}

    def _update(self, id: str, count: int | None = None, shelf: str | None = None) -> dict[str, Any]:
        item = self._get(id)
        self._check(item["count"] if count is None else count, item["shelf"] if shelf is None else shelf)
        item["count"] = item["count"] if count is None else count
        item["shelf"] = item["shelf"] if shelf is None else shelf
        item["version"] += 1
        return item

    def _move(self, source: str, target: str, count: int) -> dict[str, Any]:
        one, other = self._get(source), self._get(target)
        if count > one["count"]:
            raise _Refused("too_few", f"{source} has {one['count']}, not {count}")
        for item, change in ((one, -count), (other, count)):
            item["count"] += change
            item["version"] += 1
        return {"moved": count, "from": {source: one["count"]}, "to": {target: other["count"]}}

    def _delete(self, id: str) -> dict[str, Any]:
        self._get(id)
        del self._items[id]
        return {"deleted": id, "left": len(self._items)}

    def _sum(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for item in self._items.values():
            sums[item["shelf"]] = sums.get(item["shelf"], 0) + item["count"]
        return {shelf: sums[shelf] for shelf in sorted(sums)}

    def _check(self, count: int, shelf: str) -> None:
        if count < 0:
            raise _Refused("invalid", f"count must not be negative, is {count}")
        if shelf not in _SHELVES:
            raise _Refused("invalid", f"shelf must be one of {', '.join(_SHELVES)}, is {shelf}")


def _unknown(tool: str, **_arguments: Any) -> None:
    raise _Refused("unknown_tool", f"no tool is called {tool}")


_OPENING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("create_item", {"name": "bolt", "count": 40, "shelf": "north"}),
    ("create_item", {"name": "washer", "count": 9, "shelf": "south"}),
    ("create_item", {"name": "bolt", "count": 1, "shelf": "east"}),
    ("create_item", {"name": "nail", "count": 5, "shelf": "attic"}),
    ("get_item", {"id": "item-102"}),
    ("get_item", {"id": "item-999"}),
    ("update_item", {"id": "item-102", "count": 12}),
    ("update_item", {"id": "item-102", "count": -1}),
    ("move_stock", {"source": "item-101", "target": "item-102", "count": 5}),
    ("move_stock", {"source": "item-101", "target": "item-102", "count": 500}),
    ("list_items", {"below": 20}),
    ("list_items", {"shelf": "east"}),
    ("sum_counts", {}),
    ("create_item", {"name": "tape", "count": 2, "shelf": "east"}),
    ("delete_item", {"id": "item-103"}),
    ("create_item", {"name": "glue", "count": 3, "shelf": "east"}),
    ("count_items", {}),
)


def shown() -> int:
    """How many of the first steps show the form of each answer, and so cannot be asked for."""
    return len(_OPENING)


def steps(name: str, seed: str, count: int) -> list[Step]:
    """The opening, and so many random calls, with their true answers.

    Args:
        name: Of the trajectory.
        seed: The same seed gives the same steps.
        count: Steps after the opening.
    """
    draw = random.Random(seed)  # noqa: S311 - nothing secret
    stock = Stock()
    found: list[Step] = []
    for number in range(len(_OPENING) + count):
        tool, arguments = _OPENING[number] if number < len(_OPENING) else _drawn(draw, stock)
        found.append(
            Step(
                format="native",
                trajectory=name,
                index=number + 1,
                action=Action(tool=tool, input=arguments),
                observation=stock.call(tool, arguments),
                domain="mcp",
                origin=Origin(path="service", offset=number + 1),
            )
        )
    return found


def _drawn(draw: random.Random, stock: Stock) -> tuple[str, dict[str, Any]]:
    """A call; one in six names an item that is not there, or asks for what is refused."""
    ids = [*stock.ids, f"item-{draw.randint(900, 999)}"] if draw.random() < 1 / 6 else stock.ids or ["item-100"]
    shelf = draw.choice((*_SHELVES, "cellar")) if draw.random() < 1 / 6 else draw.choice(_SHELVES)
    number = draw.randint(0, 60)
    source, target = draw.sample(ids, 2) if len(ids) > 1 else (ids[0], "item-100")
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("create_item", {"name": draw.choice(WORDS), "count": number, "shelf": shelf}),
        ("create_item", {"name": draw.choice(WORDS), "count": number + 1, "shelf": shelf}),
        ("get_item", {"id": draw.choice(ids)}),
        ("get_item", {"id": draw.choice(ids)}),
        ("list_items", {}),
        ("list_items", {"shelf": draw.choice(_SHELVES)}),
        ("list_items", {"below": number}),
        ("update_item", {"id": draw.choice(ids), "count": number - 5}),
        ("update_item", {"id": draw.choice(ids), "shelf": shelf}),
        ("move_stock", {"source": source, "target": target, "count": draw.randint(1, 30)}),
        ("delete_item", {"id": draw.choice(ids)}),
        ("sum_counts", {}),
    )
    return draw.choice(calls)
