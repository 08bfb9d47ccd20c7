"""Puzzles and functions for the suite `generalist`: programs tell whether an answer is right."""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

__all__ = ("FUNCTIONS", "PUZZLES", "Function", "Puzzle", "answered", "program")


class Puzzle(msgspec.Struct, frozen=True, kw_only=True):
    """A question whose answer is checked.

    Attributes:
        question: The question; how to answer is said by `answered`.
        right: Is this the answer, or one of them?
    """

    question: str
    right: Callable[[str], bool]


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function to write.

    Attributes:
        name: What it must be called, with its parameters.
        task: What it does.
        solution: One that does it.
        cases: Arguments of calls.
    """

    name: str
    task: str
    solution: Callable[..., Any]
    cases: Sequence[tuple[Any, ...]]


_LINE = re.compile(r"^[ \t>#*_-]*answer[ \t*_]*:(.*)$", re.IGNORECASE | re.MULTILINE)
_BLOCK = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


def answered(reply: str) -> str | None:
    """What stands in a reply's last line `Answer: ...`; None if there is no such line."""
    lines = _LINE.findall(reply)
    return lines[-1].strip(" \t*_`.") if lines else None


def program(reply: str, function: str) -> str | None:
    """The code of a reply: of its blocks the last that defines the function, or all of it if it has no block."""
    blocks = _BLOCK.findall(reply) or [reply]
    return next((block for block in reversed(blocks) if re.search(rf"\bdef {function}\b", block)), None)


_NUMBERS = (17, 23, 31, 42, 58, 64, 79)
_SUM = 152


def _sums(answer: str) -> bool:
    chosen = re.findall(r"\d+", answer.partition("=")[0])
    known = set(chosen) <= set(map(str, _NUMBERS))
    return known and len(set(chosen)) == len(chosen) and sum(map(int, chosen)) == _SUM


def _stands(answer: str) -> bool:
    order = re.findall(r"[A-Z]\w*", answer)
    if sorted(order) != ["Ada", "Ben", "Cleo", "Dan", "Eve"]:
        return False
    place = {name: number for number, name in enumerate(order)}
    return (
        place["Ben"] == place["Ada"] + 1
        and place["Dan"] == 0
        and place["Eve"] < place["Ada"]
        and abs(place["Cleo"] - place["Eve"]) > 1
    )


def _divides(answer: str) -> bool:
    digits = "".join(answer.split())
    return sorted(digits) == list("123456") and all(int(digits[:size]) % size == 0 for size in range(1, 7))


def _pours(answer: str) -> bool:
    jugs = {"3": 0, "5": 0}
    moves = [move.split() for move in re.split(r"[,;]", answer.lower().strip(" ,;"))]
    for move in moves:
        match move:
            case ["fill", jug] if jug in jugs:
                jugs[jug] = int(jug)
            case ["empty", jug] if jug in jugs:
                jugs[jug] = 0
            case ["pour", one, other] if {one, other} == jugs.keys():
                poured = min(jugs[one], int(other) - jugs[other])
                jugs[one] -= poured
                jugs[other] += poured
            case _:
                return False
    return jugs["5"] == 4


def _tells(answer: str) -> bool:
    named = set(re.findall(r"[A-Z]\w*", answer))
    rosa, sven, tara = (name in named for name in ("Rosa", "Sven", "Tara"))
    return named <= {"Rosa", "Sven", "Tara"} and (rosa, sven, tara) == (not sven, not tara, not (rosa or sven))


PUZZLES: dict[str, Puzzle] = {
    "sum": Puzzle(
        question=f"Choose some of the numbers {', '.join(map(str, _NUMBERS))}, each at most once, whose sum is exactly "
        f"{_SUM}. Answer with the chosen numbers, separated by commas.",
        right=_sums,
    ),
    "line": Puzzle(
        question="Ada, Ben, Cleo, Dan and Eve stand in a line. Dan is first. Ben stands right behind Ada. Eve stands "
        "somewhere before Ada. Cleo and Eve are not next to each other. Answer with the names from first to last, "
        "separated by commas.",
        right=_stands,
    ),
    "digits": Puzzle(
        question="Find a number of six digits that has each of the digits 1 to 6 once, so that its first two digits "
        "are a number divisible by 2, its first three one divisible by 3, its first four one divisible by 4, its "
        "first five one divisible by 5, and all six one divisible by 6. Answer with the number.",
        right=_divides,
    ),
    "jugs": Puzzle(
        question="There are two empty jugs, of 3 and of 5 litres, and a tap. Get exactly 4 litres into the jug of 5. "
        "Answer with the moves, separated by commas; each is `fill N`, `empty N` or `pour N M`, where N and M are 3 "
        "or 5, and pouring goes on until the one is empty or the other full.",
        right=_pours,
    ),
    "liars": Puzzle(
        question="Each of Rosa, Sven and Tara either always tells the truth or always lies. Rosa says: Sven lies. Sven "
        "says: Tara lies. Tara says: Rosa and Sven both lie. Answer with the names of those who tell the truth, "
        "separated by commas.",
        right=_tells,
    ),
}


def _merged(ranges: list[list[int]]) -> list[list[int]]:
    merged: list[list[int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return merged


def _roman(number: int) -> str:
    signs = (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X")
    text = ""
    for value, sign in (*signs, (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
        text += sign * (number // value)
        number %= value
    return text


def _first_open(text: str) -> int:
    open_: list[tuple[int, str]] = []
    for place, sign in enumerate(text):
        if sign in "([{":
            open_.append((place, sign))
        elif sign in ")]}" and (not open_ or open_.pop()[1] + sign not in ("()", "[]", "{}")):
            return place
    return open_[0][0] if open_ else -1


def _fewest(amount: int, coins: list[int]) -> int:
    fewest = [0, *itertools.repeat(amount + 1, amount)]
    for reached in range(1, amount + 1):
        fewest[reached] = min((fewest[reached - coin] + 1 for coin in coins if coin <= reached), default=amount + 1)
    return fewest[amount] if fewest[amount] <= amount else -1


FUNCTIONS: dict[str, Function] = {
    "merge_ranges": Function(
        name="merge_ranges(ranges)",
        task="takes a list of pairs of whole numbers, each the first and the last number of a range, in any order. It "
        "returns the fewest ranges that hold the same numbers, as a list of pairs in ascending order: ranges that "
        "overlap or follow on one another without a gap become one.",
        solution=_merged,
        cases=[
            ([],),
            ([[5, 5]],),
            ([[1, 3], [2, 6], [8, 10]],),
            ([[1, 2], [3, 4]],),
            ([[1, 2], [4, 5]],),
            ([[7, 9], [1, 20], [3, 4]],),
            ([[-3, -1], [0, 0], [5, 8], [6, 6], [9, 9]],),
        ],
    ),
    "roman": Function(
        name="roman(number)",
        task="returns a whole number from 1 to 3999 as a Roman numeral, in capital letters and the usual short form "
        "(4 is IV, 90 is XC).",
        solution=_roman,
        cases=[(number,) for number in (1, 4, 9, 14, 40, 90, 400, 944, 1987, 2026, 3999)],
    ),
    "first_open": Function(
        name="first_open(text)",
        task="checks the brackets `()`, `[]` and `{}` of a text; other characters do not matter. It returns the index "
        "of the first closing bracket that does not close the bracket opened last; if there is none, the index of the "
        "first opening bracket that is never closed; -1 if there is neither.",
        solution=_first_open,
        cases=[(text,) for text in ("", "a(b)c", "([{}])", "(]", "())", "x[(y)", "{[()]}(", "((())", "a)b(", "[({)}]")],
    ),
    "fewest_coins": Function(
        name="fewest_coins(amount, coins)",
        task="returns with how few coins an amount can be paid exactly, each coin of the list `coins` as often as one "
        "likes; -1 if it cannot be paid. The amount is at least 0, coins are positive whole numbers.",
        solution=_fewest,
        cases=[
            (0, [1, 2]),
            (11, [1, 2, 5]),
            (6, [1, 3, 4]),
            (3, [2]),
            (7, []),
            (63, [1, 10, 21, 25]),
            (100, [7, 12, 31]),
            (1000, [3, 90, 251]),
        ],
    ),
}
