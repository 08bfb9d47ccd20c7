"""Puzzles and functions: which answers count."""

import copy
import inspect
import json
import time
from itertools import chain, combinations, permutations

import pytest

from verifierd.replay.bench.exercises import FUNCTIONS, PUZZLES, answered, program
from verifierd.replay.bench.sandbox import lock, run

RIGHT = {
    "sum": ("31, 42, 79", "79 + 42 + 31 = 152", "42, 31, 79"),
    "line": ("Dan, Eve, Ada, Ben, Cleo", "Dan Eve Ada Ben Cleo"),
    "digits": ("123654", "321654", "3 2 1 6 5 4"),
    "jugs": (
        "fill 5, pour 5 3, empty 3, pour 5 3, fill 5, pour 5 3",
        "Fill 3; pour 3 5; fill 3; pour 3 5; empty 5; pour 3 5; fill 3; pour 3 5;",
    ),
    "liars": ("Sven", "Sven, Sven"),
}
WRONG = {
    "sum": ("152", "", "76, 76", "31, 42, 80", "31, 42", "1" * 5000),
    "line": ("Dan, Eve, Cleo, Ada, Ben", "Dan", "", "Eve, Dan, Ada, Ben, Cleo", "Dan, Dan, Eve, Ada, Ben, Cleo"),
    "digits": ("123456", "123654.5", "12365", "", "six", "111111"),
    "jugs": ("fill 5", "4", "", "fill 4", "pour 5 5", "fill 5, pour 5 3, drink 3", "fill", "pour 3"),
    "liars": ("Rosa", "Sven, Tara", "", "Nobody", "Rosa, Sven, Tara"),
}


@pytest.mark.parametrize("puzzle", PUZZLES)
def test_puzzles(puzzle: str) -> None:
    """Each answer that fits is right; others are not."""
    for answer in RIGHT[puzzle]:
        assert PUZZLES[puzzle].right(answer), answer
    for answer in WRONG[puzzle]:
        assert not PUZZLES[puzzle].right(answer), answer


def test_puzzles_can_be_solved() -> None:
    """Trying all answers finds those that are known, and where the question says `the`, no others."""
    numbers = (17, 23, 31, 42, 58, 64, 79)
    sums = chain.from_iterable(combinations(numbers, size) for size in range(1, 8))
    assert (31, 42, 79) in {chosen for chosen in sums if PUZZLES["sum"].right(", ".join(map(str, chosen)))}
    names = permutations(("Ada", "Ben", "Cleo", "Dan", "Eve"))
    assert [order for order in names if PUZZLES["line"].right(" ".join(order))] == [
        ("Dan", "Eve", "Ada", "Ben", "Cleo")
    ]
    digits = map("".join, permutations("123456"))
    assert [number for number in digits if PUZZLES["digits"].right(number)] == ["123654", "321654"]
    liars = chain.from_iterable(combinations(("Rosa", "Sven", "Tara"), size) for size in range(4))
    assert [told for told in liars if PUZZLES["liars"].right(" ".join(told))] == [("Sven",)]


def test_the_last_answer_counts() -> None:
    """However it is marked; a reply without such a line has none."""
    assert answered("Answer: 1\nNo, wait.\nAnswer: 2\n") == "2"
    assert answered("**Answer:** 12, 13.") == "12, 13"
    assert answered("### Answer: `fill 5`") == "fill 5"
    assert answered("ANSWER:") == ""
    assert answered("The answer: 3") is None
    assert answered("3") is None


def test_the_last_block_counts() -> None:
    """Of several blocks the last that defines the function; without blocks all of the reply."""
    reply = "```python\ndef f(): 1\n```\n\n```py\ndef f(): 2\n```\nas in\n```\nf()\n```\n"
    assert program(reply, "f") == "def f(): 2\n"
    assert program("def f():\n    return 1", "f") == "def f():\n    return 1"
    assert program(reply, "g") is None
    assert program("", "f") is None


@pytest.mark.parametrize(
    "reply", ["\n" * 100_000, "```\n" * 50_000, "answer" * 20_000, "* " * 60_000, "answer:" + " " * 99_999]
)
def test_odd_replies_take_no_time(reply: str) -> None:
    """Reading one is linear."""
    begun = time.process_time()
    answered(reply)
    program(reply, "f")
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    """The description names the function; its own solution, run as a model's would be, answers each case the same."""
    function = FUNCTIONS[name]
    assert function.name.startswith(f"{name}(")
    before = copy.deepcopy(function.cases)
    expected = [function.solution(*copy.deepcopy(arguments)) for arguments in function.cases]
    assert len({json.dumps(value) for value in expected}) > 3
    assert function.cases == before
    if lock()[0]:
        code = f"import itertools\n{inspect.getsource(function.solution)}"
        ran = run(code, function.solution.__name__, function.cases, seconds=20)
        assert [case.value for case in ran.cases] == expected


def test_solutions() -> None:
    """A few that are known."""
    assert FUNCTIONS["roman"].solution(1987) == "MCMLXXXVII"
    assert FUNCTIONS["merge_ranges"].solution([[7, 9], [1, 2], [3, 4]]) == [[1, 4], [7, 9]]
    assert FUNCTIONS["first_open"].solution("((())") == 0
    assert FUNCTIONS["fewest_coins"].solution(63, [1, 10, 21, 25]) == 3
