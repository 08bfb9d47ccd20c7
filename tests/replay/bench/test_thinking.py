"""The suites `thinking-tax` and `budget`, asked of models that answer by a rule and of the tiny one."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from tests.replay.bench.answerers import FAILURES, Answerer, asked_party
from verifierd.bundled import root
from verifierd.composition import Choice
from verifierd.config import ModelConfig
from verifierd.errors import ConfigError, PredictorError
from verifierd.replay.bench.asking import Outcome, Party
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.drive import Engine
from verifierd.replay.bench.figures import Results, value
from verifierd.replay.bench.sequences import read
from verifierd.replay.bench.suite import Request, Size, load, measure
from verifierd.replay.bench.thinking import Budget, ThinkingTax
from verifierd.replay.record import load_script, record
from verifierd.replay.statistics import Interval
from verifierd.stages import Asked, Message, Reply

ENGINES: dict[str, Any] = {"thinking-tax": ThinkingTax, "budget": Budget}
MARK = "**Environment Observation:**"


class Thinker(Answerer):
    """A model that thinks for so many tokens where it is told to and cut as it is told, and knows some answers.

    Args:
        thought: Tokens of a thought, by the action.
        knows: Is the answer to an action known, with thinking or without?
    """

    def __init__(self, thought: Callable[[str], int], knows: Callable[[str, bool], bool]) -> None:
        super().__init__(lambda _: ("", "", "stop"))
        self._thought, self._knows = thought, knows
        cases = read(None, "thinking-tax.jsonl").values()
        self._answers = {steps[-1].action.text: steps[-1].observation for steps in cases}
        self.asked: list[tuple[str, Asked]] = []

    async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:
        """What it says; a token is a word."""
        listed = json.loads(messages[-1].content.partition("```json\n")[2].removesuffix("\n```"))
        action = listed[0]["keystrokes"].removesuffix("\n")
        self.asked.append((action, asked))
        thought = ["hm"] * (self._thought(action) if asked.thinking else 0)
        answer = self._answers[action] if self._knows(action, asked.thinking) else "nobody knows"
        words = re.findall(r"\S+\s*", f"{MARK}\n{answer}")
        said = words[: max(0, asked.max_tokens - len(thought))]
        tokens = min(asked.max_tokens, len(thought) + len(words))
        return Reply(
            text="".join(said),
            thought=" ".join(thought[: asked.max_tokens]),
            finish="stop" if len(said) == len(words) else "length",
            prompt_tokens=10,
            generated_tokens=tokens,
            seconds=tokens / 100,
            first_token_seconds=0.01,
            model="thinker",
        )


def _request(name: str, *, size: Size = "smoke", data: Path | None = None, **more: Any) -> Request:
    suite = load(name)
    parameters = {**(suite.smoke if size == "smoke" else suite.full), "characters": 0, **more}
    return Request(parameters=parameters, choice=Choice(), runs=None, seed=0, say=print, size=size, data=data)


def _rows(engine: Engine, party: Party) -> list[Row]:
    async def all_jobs() -> list[Row]:
        return [row for job in engine.jobs for row in await engine.run(job, party)]

    return anyio.run(all_jobs)


def _values(results: Results) -> dict[str, float]:
    return {name: value(figure) for name, figure in results.items()}


@pytest.mark.slow
def test_the_truths_come_from_a_shell() -> None:
    """The recorded truths are what a real shell prints, but for those that nobody can know."""
    name = "thinking-tax"
    script = load_script((root("replay") / "scripts" / "suites" / f"{name}.toml").read_bytes(), name=name)
    kept = (root("replay") / "suites" / "data" / f"{name}.jsonl").read_text().splitlines()
    played = record(script)[f"{name}.jsonl"].decode().splitlines()
    for one, other in zip(map(json.loads, kept), map(json.loads, played), strict=True):
        if one["trajectory"].startswith("unknowable-") and one["observation"]:
            one["observation"] = other["observation"]
        assert one == other


def test_the_full_suites_ask_for_all_cases() -> None:
    """Eight known cases are asked for twice in each way; every recorded case is in the suite, and known to `budget`."""
    suite = load("thinking-tax").full
    cases = read(None, "thinking-tax.jsonl")
    assert (len(suite["known"]), suite["runs"]) == (8, 2)
    assert sorted(cases) == sorted(suite["known"] + suite["ambiguous"] + suite["unknowable"])
    assert all(steps[-1].observation.strip() for steps in cases.values())
    assert load("budget").full["cases"] == suite["known"] + suite["ambiguous"]
    assert (min(load("budget").full["caps"]), max(load("budget").full["caps"])) == (256, 12288)


@pytest.mark.parametrize("name", ENGINES)
def test_every_figure_is_explained(name: str) -> None:
    """What the documents know is measured, and what is published stands beside it."""
    engine = ENGINES[name](_request(name, size="full"))
    results = engine.figures(_rows(engine, asked_party(Thinker(lambda _: 30, lambda *_: True))))
    assert load(name).figures.keys() <= results.keys()
    assert not engine.warning
    for figure in results.values():
        assert not isinstance(figure, Interval) or figure.low <= figure.value <= figure.high


def test_what_thinking_costs_and_gains() -> None:
    """Tokens, seconds and hits of both ways and of their pairs come out as they were put in."""
    hard = {steps[-1].action.text for name, steps in read(None, "thinking-tax.jsonl").items() if "ambiguous" in name}
    thinker = Thinker(lambda action: 400 if action in hard else 40, lambda action, on: on or action not in hard)
    engine = ThinkingTax(_request("thinking-tax", size="full"))
    rows = _rows(engine, asked_party(thinker))
    results = engine.figures(rows)
    figures = _values(results)

    assert len(rows) == 2 * 2 * 26
    assert len({(row.case, row.run) for row in rows}) == len(rows)
    assert figures["thinking_exact"] == figures["direct_exact"] == figures["ambiguous_thinking_exact"] == 1
    assert figures["ambiguous_direct_exact"] == 0
    assert (figures["exact_gain"], figures["ambiguous_exact_gain"]) == (0, 1)
    assert figures["exact_mcnemar_p"] == 1
    assert figures["ambiguous_exact_mcnemar_p"] == pytest.approx(2 / 2**12)
    assert figures["tokens_more"] == pytest.approx(40)
    assert figures["ambiguous_tokens_more"] > 400  # what is known is longer than what is not
    assert figures["seconds_more"] == pytest.approx(0.4)
    assert figures["tokens_ratio"] == pytest.approx(figures["seconds_ratio"])
    assert figures["thinking_tokens_median"] == figures["direct_tokens_median"] + 40
    assert figures["thinking_tokens_max"] == max(
        row.generated_tokens or 0 for row in rows if row.case.endswith("/thinking") and row.case.startswith("known")
    )
    median = results["thinking_tokens_median"]
    assert isinstance(median, Interval)
    assert median.n == 8
    assert (figures["thinking_thoughts"], figures["direct_thought"]) == (1, 0)


def test_the_ways_take_turns() -> None:
    """Each case is asked in both ways at once, the first of them changing from run to run, and seeds differ by run."""
    thinker = Thinker(lambda _: 3, lambda *_: True)
    engine = ThinkingTax(_request("thinking-tax", known=["known-sum"], ambiguous=[], unknowable=[], runs=2))
    rows = _rows(engine, asked_party(thinker))
    assert [asked.thinking for _, asked in thinker.asked] == [False, True, True, False]
    assert [asked.seed for _, asked in thinker.asked] == [0, 0, 1, 1]
    assert [row.case for row in rows] == [f"known-sum/{mode}" for mode in ("direct", "thinking", "thinking", "direct")]


def test_cut_before_the_answer_is_an_outcome_of_its_own() -> None:
    """A cap within the thought, or behind the marker, leaves no answer; one within it cuts it; a wide one neither."""
    engine = Budget(_request("budget", caps=[64, 4, 10, 11], cases=["known-cat", "known-sort"]))
    rows = _rows(engine, asked_party(Thinker(lambda _: 8, lambda *_: True)))
    figures = _values(engine.figures(rows))
    told = [Outcome.UNANSWERED, Outcome.UNANSWERED, Outcome.TRUNCATED, Outcome.ANSWERED]
    assert [row.outcome for row in rows] == told * 2
    for cap, outcome in zip((4, 10, 11, 64), told, strict=True):
        for name in ("unanswered", "truncated", "answered"):
            assert figures[f"{name}_{cap}"] == (outcome == name)
        assert figures[f"exact_{cap}"] == (cap == 64)
    assert (figures["unanswered"], figures["truncated"]) == (0.5, 0.25)
    assert figures["needed_tokens_median"] == figures["needed_tokens_max"] == 8 + 2 + 3
    assert figures["thoughts"] == 1


def test_nothing_is_needed_where_nothing_ends() -> None:
    """Where even the largest cap cuts each answer, nobody knows how much is needed."""
    engine = Budget(_request("budget"))
    figures = engine.figures(_rows(engine, asked_party(Thinker(lambda _: 99, lambda *_: True))))
    assert not [name for name in figures if name.startswith("needed")]


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("outcome", [*FAILURES, "unanswered"])
def test_failures_are_told_apart(name: str, outcome: str) -> None:
    """Whoever breaks its role, is cut, thinks unasked, or says nothing is called so in both ways of asking."""
    unanswered: dict[str, Any] = {"unanswered": lambda _: ("", "Let me", "length")}
    engine = ENGINES[name](_request(name))
    rows = _rows(engine, asked_party(Answerer((FAILURES | unanswered)[outcome])))
    thinking = {row.outcome.value for row in rows if row.scores["thinking"]}
    direct = {row.outcome.value for row in rows if not row.scores["thinking"]}
    assert thinking == {"answered" if outcome == "thought" else outcome}
    assert direct == (set() if name == "budget" else {"thought" if outcome == "unanswered" else outcome})
    assert not any(row.exact for row in rows)
    figures = _values(engine.figures(rows))
    prefix = "" if name == "budget" else "thinking_"
    for figure, kind in (("role_breaks", "role_break"), ("truncated",) * 2, ("unanswered",) * 2, ("empty",) * 2):
        assert figures[prefix + figure] == (kind == outcome)


@pytest.mark.parametrize("name", ENGINES)
def test_a_failing_model_ends_nothing(name: str) -> None:
    """A question that the model or its server fails on has failed, costs nothing, and the next one is asked."""

    def rule(_messages: Sequence[Message]) -> tuple[str, str, str]:
        raise PredictorError("the server is gone")

    engine = ENGINES[name](_request(name))
    rows = _rows(engine, asked_party(Answerer(rule)))
    assert {(row.outcome, row.detail) for row in rows} == {(Outcome.FAILED, "the server is gone")}
    figures = _values(engine.figures(rows))
    assert figures["failed" if name == "budget" else "thinking_failed"] == 1
    assert not [name for name in figures if "tokens" in name or "seconds" in name]


@pytest.mark.parametrize("name", ENGINES)
def test_the_shell_does_not_think(name: str) -> None:
    """Who only predicts is refused, and told what is needed."""
    with pytest.raises(PredictorError, match="cannot be talked to") as caught:
        measure(load(name), Choice(predictor="shell"), size="smoke")
    assert "--predictor mlx" in caught.value.hint


def test_cases_of_ones_own(tmp_path: Path) -> None:
    """All trajectories of a file are cases, the last step of each is asked for, and its truth is not told."""
    mine = tmp_path / "mine.jsonl"
    lines = [
        {"trajectory": "t", "step": 1, "action": "echo a > x", "observation": "", "exit_code": 0},
        {"trajectory": "t", "step": 2, "action": "cat x", "observation": "a\n", "exit_code": 0},
    ]
    mine.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    answerer = Answerer(lambda _: (f"{MARK}\na", "", "stop"))
    rows = _rows(ThinkingTax(_request("thinking-tax", data=mine)), asked_party(answerer))
    assert [(row.case, row.exact, row.depth) for row in rows] == [("t/direct", True, 1), ("t/thinking", True, 1)]
    assert MARK not in answerer.talks[0][-1].content


@pytest.mark.parametrize(
    ("name", "wrong", "told"),
    [
        ("thinking-tax", {"known": ["known-cats"]}, "known-cats"),
        ("thinking-tax", {"runs": 0}, "runs"),
        ("thinking-tax", {"tokens": 3}, "tokens"),
        ("budget", {"caps": []}, "caps"),
        ("budget", {"caps": [0]}, "caps"),
        ("budget", {"cases": ["nobody"]}, "nobody"),
    ],
)
def test_wrong_parameters_are_told(name: str, wrong: dict[str, Any], told: str) -> None:
    """A document's mistakes are named before anybody is asked."""
    with pytest.raises(ConfigError, match=told):
        ENGINES[name](_request(name, **wrong))


@pytest.mark.parametrize("name", ENGINES)
def test_the_tiny_model_runs_it_and_goes_on(name: str, tmp_path: Path) -> None:
    """From end to end with a random model; a second run in the same file asks nothing and finds the same."""
    pytest.importorskip("mlx_lm")
    small: dict[str, Any] = {"characters": 90}
    small |= {"caps": [2, 4], "cases": ["known-sum"]} if name == "budget" else {"max-tokens": 4, "ambiguous": []}
    suite = load(name)
    suite = msgspec.structs.replace(suite, smoke=suite.smoke | small)
    choice = Choice(model=ModelConfig(name="tiny"))
    done: list[tuple[int, int]] = []

    report = measure(suite, choice, size="smoke", out=tmp_path / "run")
    again = measure(suite, choice, size="smoke", out=tmp_path / "run", on=lambda *told: done.append(told))

    assert again.results == report.results
    assert len(done) == 1
    assert "scaled down" in report.warning
    assert report.results
