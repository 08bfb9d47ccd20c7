"""The suite `generalist`, with answerers that are right, wrong, or fail."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.replay.bench.answerers import FAILURES, Answerer, asked_party
from verifierd.composition import Choice
from verifierd.config import ModelConfig
from verifierd.errors import ConfigError, PredictorError
from verifierd.policy import Asking
from verifierd.replay.bench import sandbox
from verifierd.replay.bench.asking import Outcome, Party
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.exercises import FUNCTIONS
from verifierd.replay.bench.figures import value
from verifierd.replay.bench.generalist import Generalist
from verifierd.replay.bench.suite import Request, load, measure
from verifierd.replay.statistics import Interval
from verifierd.stages import Message

locked = pytest.mark.skipif(bool(sandbox.lock()[1]), reason=f"nothing locks code in here: {sandbox.lock()[1]}")

SOLVED = {
    "exactly 152": "Answer: 31, 42, 79",
    "stand in a line": "Answer: Dan, Eve, Ada, Ben, Cleo",
    "six digits": "So:\n\n**Answer:** 321654",
    "jugs": "Answer: fill 5, pour 5 3, empty 3, pour 5 3, fill 5, pour 5 3",
    "Rosa": "Answer: Sven",
} | {
    f"function `{name}(": "```python\nimport itertools\n"
    f"{inspect.getsource(function.solution).replace(f'def {function.solution.__name__}(', f'def {name}(')}```"
    for name, function in FUNCTIONS.items()
}


def _solve(messages: Sequence[Message]) -> tuple[str, str, str]:
    assert [message.role for message in messages] == ["system", "user"]
    return next(text for mark, text in SOLVED.items() if mark in messages[1].content), "", "stop"


def _says(text: str) -> Callable[[Sequence[Message]], tuple[str, str, str]]:
    return lambda _: (text, "", "stop")


def _engine(size: str = "full", **given: Any) -> Generalist:
    document = load("generalist")
    parameters = (document.full if size == "full" else document.smoke) | given
    return Generalist(Request(parameters=parameters, choice=Choice(), runs=None, seed=0, say=lambda _: None))


def _rows(rule: Any, **given: Any) -> tuple[Generalist, list[Row]]:
    engine = _engine(**given)
    party = asked_party(Answerer(rule))

    async def work() -> list[Row]:
        return [row for job in engine.jobs for row in await engine.run(job, party)]

    return engine, anyio.run(work)


@locked
def test_all_right() -> None:
    """Five puzzles and four functions, three times each, as was published."""
    engine, rows = _rows(_solve)
    results = engine.figures(rows)

    assert [row.detail for row in rows if row.detail] == []
    for name, count in (("puzzles", 15), ("functions", 12)):
        found = results[name]
        assert isinstance(found, Interval)
        assert (found.value, found.n) == (1.0, count)
        assert found.low < 1
    assert results["steps"] == 27
    assert isinstance(results["function_roman"], Interval)
    assert "role_breaks_without_echo" not in results
    assert {row.outcome for row in rows} == {Outcome.ANSWERED}


@locked
@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("def roman(number): return 'I' * number", "roman(4): not the answer"),
        ("def roman(number): return open('/etc/passwd').read()", "roman(1): PermissionError"),
        ("def roman(number): return number / 0", "roman(1): ZeroDivisionError"),
        ("def roman(number):\n  while True: pass", "it ran longer than 1 s"),
        ("def roman(number): return", "roman(1): not the answer"),
        ("import os\ndef roman(number): os._exit(0)", "it ended early"),
        ("def roman(", "roman(1): SyntaxError"),
        ("def latin(number): return 'I'", "no function `roman`"),
    ],
)
def test_wrong_code(code: str, detail: str) -> None:
    """Is an answer, and a wrong one; what is wrong is said."""
    _, rows = _rows(_says(f"```python\n{code}\n```"), puzzles=[], functions=["roman"], runs=1, seconds=1)
    assert rows[0].outcome is Outcome.ANSWERED
    assert rows[0].exact is False
    assert rows[0].detail.startswith(detail)


def test_wrong_answers() -> None:
    """A puzzle's is wrong, or is not given in the form that was asked for."""
    _, rows = _rows(_says("Answer: 31, 42"), puzzles=["sum"], functions=[], runs=1)
    assert (rows[0].exact, rows[0].detail) == (False, "not the answer")
    _, rows = _rows(_says("31, 42, 79"), puzzles=["sum"], functions=[], runs=1)
    assert (rows[0].exact, rows[0].detail) == (False, "no line `Answer: ...`")


@pytest.mark.parametrize("failure", ["truncated", "thought", "empty"])
def test_failures(failure: str) -> None:
    """Each is called what it is, of puzzles and functions, and nothing of it counts as right."""
    engine, rows = _rows(FAILURES[failure], size="smoke")
    assert {row.outcome for row in rows} == {Outcome(failure)}
    assert not any(row.exact for row in rows)
    results = engine.figures(rows)
    assert [name for name in ("role_breaks", "truncated", "thought", "empty", "failed") if value(results[name])] == [
        failure
    ]
    assert value(results["puzzles"]) == value(results["functions"]) == 0


@pytest.mark.parametrize(
    "said",
    [
        "**Environment Observation:**\nAnswer: 31, 42, 79",
        "<predicted_observation>\nAnswer: 31, 42, 79\n</predicted_observation>",
        '[{"keystrokes": "echo 31, 42, 79\\n", "duration": 1}]',
        "<tool_call>\n<function=solve>",
        "**Action:** echo",
    ],
)
def test_role_breaks(said: str) -> None:
    """An assistant that answers as an environment, or calls a tool, has fallen out of its role."""
    engine, rows = _rows(_says(said), size="smoke")
    assert {row.outcome for row in rows} == {Outcome.ROLE_BREAK}
    assert value(engine.figures(rows)["role_breaks"]) == 1


def test_a_model_that_fails() -> None:
    """Is an answer of its own; one that cannot be talked to ends the run at once."""

    def fail(_messages: Sequence[Message]) -> tuple[str, str, str]:
        raise PredictorError("gone")

    engine, rows = _rows(fail, size="smoke")
    assert {(row.outcome, row.detail) for row in rows} == {(Outcome.FAILED, "gone")}
    assert value(engine.figures(rows)["failed"]) == 1

    class Mute:
        name, model, aclose, predict = "mute", None, None, None

    with pytest.raises(PredictorError, match="cannot be talked to"):
        anyio.run(engine.run, engine.jobs[0], Party(Mute(), Asking(), None))  # type: ignore[arg-type]


def test_no_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Code is not run, and not counted as wrong."""
    jail = tmp_path / "jail.py"
    jail.write_text('print(\'{"refused": "none here"}\')')
    monkeypatch.setattr(sandbox, "_JAIL", jail)
    engine, rows = _rows(_solve, puzzles=["sum"], functions=["roman"], runs=1)
    assert (rows[1].outcome, rows[1].exact) == (Outcome.FAILED, None)
    assert rows[1].detail == "no sandbox here: none here"
    results = engine.figures(rows)
    assert "functions" not in results
    assert "puzzles" in results


@pytest.mark.parametrize(
    ("given", "says"),
    [({"puzzles": ["sudoku"]}, "sudoku"), ({"functions": ["sort"]}, "sort"), ({"runs": 0}, "runs"), ({"x": 1}, "x")],
)
def test_wrong_parameters(given: dict[str, Any], says: str) -> None:
    """Are told with what is known."""
    with pytest.raises(ConfigError, match=says):
        _engine(**given)


def test_from_end_to_end(tmp_path: Path) -> None:
    """The tiny model says nothing of sense; what kept its code in is told, and a second run has nothing left to do."""
    pytest.importorskip("mlx_lm")
    choice = Choice(predictor="mlx", model=ModelConfig(name="tiny"))
    given = {"max-tokens": 4, "puzzles": ["sum"], "functions": ["roman"]}
    report = measure(load("generalist"), choice, size="smoke", out=tmp_path / "run.jsonl", given=given)
    assert report.results["steps"] == 2
    assert report.host["sandbox"] == (sandbox.lock()[0] or f"none: {sandbox.lock()[1]}")
    assert report.published["puzzles"] == 1.0
    assert "cut after 4 tokens" in report.warning
    again = measure(load("generalist"), choice, size="smoke", out=tmp_path / "run.jsonl", given=given)
    assert again.results == report.results
