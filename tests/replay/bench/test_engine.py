"""The suite `engine`: the sums by a model whose times are known, and the plumbing by the tiny one and a server."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from tests.replay.bench.answerers import FAILURES, Answerer, asked_party
from tests.replay.bench.server import Said, Server
from verifierd.composition import Choice
from verifierd.config import ModelConfig
from verifierd.errors import ConfigError, PredictorError
from verifierd.policy import DOMAINS
from verifierd.replay.bench.asking import Outcome
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.engine import Speeds
from verifierd.replay.bench.figures import Results, value
from verifierd.replay.bench.suite import Request, load, measure
from verifierd.replay.statistics import Interval
from verifierd.stages import Asked, Message, Reply

SMALL: dict[str, Any] = {"runs": 2, "tokens": 16, "contexts": [200, 400, 1600], "prefix": 900}
_CHARACTERS = 4


class Timed(Answerer):
    """A model of known speed that computes what it has not heard before, at 1,000 tokens a second.

    Args:
        counts: Says how many tokens a talk has.
    """

    name = "timed"

    def __init__(self, *, counts: bool = True) -> None:
        super().__init__(lambda _: ("1\n2\n3", "", "length"))
        self._counts = counts
        self._heard: list[Sequence[Message]] = []
        self.prompts: list[int] = []

    async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:
        """The same words each time; the rate falls from 100 tokens a second to half of it at 2,000 tokens."""
        tokens = sum(len(message.content) for message in messages) // _CHARACTERS
        self.prompts.append(tokens)
        known = max((_shared(messages, heard) for heard in self._heard), default=0) // _CHARACTERS
        self._heard.append(messages)
        first = (tokens - known + 50) / 1000
        rate = 100 / (1 + tokens / 2000)
        return Reply(
            text="1\n2\n3",
            thought="",
            finish="length",
            prompt_tokens=tokens if self._counts else None,
            generated_tokens=asked.max_tokens,
            seconds=first + (asked.max_tokens - 1) / rate,
            first_token_seconds=first,
            model="timed",
        )


def _shared(one: Sequence[Message], other: Sequence[Message]) -> int:
    total = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        total += len(mine.content)
    return total


def _engine(**more: Any) -> Speeds:
    return Speeds(Request(parameters=SMALL | more, choice=Choice(), runs=None, seed=0, say=print, size="smoke"))


def _rows(engine: Speeds, answerer: Answerer) -> list[Row]:
    async def all_jobs() -> list[Row]:
        return [row for job in engine.jobs for row in await engine.run(job, asked_party(answerer))]

    return anyio.run(all_jobs)


def _values(results: Results) -> dict[str, float]:
    return {name: value(figure) for name, figure in results.items()}


def test_times_and_rates_come_out() -> None:
    """Contexts are about as long as they were to be; rates and what is left of them are those of the model."""
    engine = _engine()
    figures = _values(engine.figures(_rows(engine, Timed())))

    for length in SMALL["contexts"]:
        assert figures[f"context_tokens_{length}"] == pytest.approx(length, rel=0.08)
        found = figures[f"context_tokens_{length}"]
        assert figures[f"decode_rate_{length}"] == pytest.approx(100 / (1 + found / 2000))
    least, most = (figures[f"decode_rate_{length}"] for length in (200, 1600))
    assert figures["decode_kept"] == pytest.approx(most / least, rel=0.02)
    assert figures["decode_rate"] > figures["decode_rate_200"]
    assert figures["first_token_seconds_median"] < figures["first_token_seconds_median_1600"]
    assert not [name for name in figures if "memory" in name]
    assert "scaled down" in engine.warning


def test_a_shared_beginning_is_reused() -> None:
    """The first question is new to the model however often the suite is run; of the second only its end is."""
    answerer = Timed()
    for _ in range(2):
        engine = _engine()
        rows = _rows(engine, answerer)
        figures = _values(engine.figures(rows))
        assert figures["prefix_tokens"] == pytest.approx(900, rel=0.05)
        assert figures["prefix_first_seconds_median"] > 0.85
        assert figures["prefix_second_seconds_median"] < 0.15
        assert figures["prefix_reuse"] > 6
        assert {row.detail.rpartition("; ")[2] for row in rows} == {
            "no peak memory: a server does not tell its clients"
        }


def test_a_server_that_does_not_count() -> None:
    """Lengths are then guessed, from three characters a token, and not shown."""
    answerer = Timed(counts=False)
    engine = _engine()
    figures = engine.figures(_rows(engine, answerer))
    assert not [name for name in figures if name.startswith("context_tokens") or name == "prefix_tokens"]
    assert max(answerer.prompts) == pytest.approx(1600 * 3 / _CHARACTERS, rel=0.08)
    assert "decode_rate_1600" in figures


@pytest.mark.parametrize("outcome", FAILURES)
def test_failures_are_told_apart(outcome: str) -> None:
    """Whatever a model says is called what it is; a rate is measured all the same where it says enough."""
    rule = FAILURES[outcome]
    if outcome == "role_break":
        rule = lambda messages: (messages[-1].content, "", "stop")  # noqa: E731 - the command stands alone here
    engine = _engine()
    rows = _rows(engine, Answerer(rule))
    assert {row.outcome for row in rows} == {Outcome(outcome)}
    figures = _values(engine.figures(rows))
    for name, kind in (("role_breaks", "role_break"), ("truncated",) * 2, ("thought",) * 2, ("empty",) * 2):
        assert figures[name] == (kind == outcome)
    assert ("decode_rate" in figures) == (outcome in ("role_break", "truncated", "thought"))


def test_a_failing_model_ends_nothing() -> None:
    """Where a talk fails once the suite has begun, it has failed; nothing is measured of it."""
    answerer = Timed()
    engine = _engine()
    heard = 0

    async def failing(messages: Sequence[Message], asked: Asked) -> Reply:
        nonlocal heard
        heard += 1
        if heard > 4:
            raise PredictorError("too long")
        return await Timed.chat(answerer, messages, asked)

    answerer.chat = failing  # type: ignore[method-assign] # from the fifth talk on
    rows = _rows(engine, answerer)
    failed = [row for row in rows if row.outcome is Outcome.FAILED]
    assert failed
    assert all("too long" in row.detail for row in failed)
    figures = _values(engine.figures(rows))
    assert figures["failed"] == len(failed) / len(rows)
    assert "decode_kept" not in figures
    assert "prefix_reuse" not in figures


def test_a_server_is_measured_from_outside(tmp_path: Path) -> None:
    """Through a server that repeats itself: one talk at a time, no memory, and what was done is not done again."""

    def say(_messages: Sequence[dict[str, str]], _times: int) -> Said:
        return Said("1\n2\n3", finish="length")

    suite = msgspec.structs.replace(load("engine"), smoke=SMALL | {"runs": 1})
    with Server(say) as server:
        choice = Choice(predictor="openai", model=ModelConfig(name="m", base_url=server.url))
        report = measure(suite, choice, size="smoke", out=tmp_path / "run")
        asked = len(server.asked)
        measure(suite, choice, size="smoke", out=tmp_path / "run")
        assert len(server.asked) == asked
    assert value(report.results["truncated"]) == 1
    assert value(report.results["prefix_reuse"]) > 0
    assert not [name for name in report.results if "memory" in name or "decode" in name]  # it says 3 tokens
    longest = max(len(json.dumps(body["messages"])) for body in server.asked)
    assert longest < 1600 * 8 * 3  # it says 7 tokens of every talk, and is not believed


def test_the_tiny_model_shows_its_memory(tmp_path: Path) -> None:
    """In process the memory is known, and a second question computes no more than its own end."""
    pytest.importorskip("mlx_lm")
    for domain in DOMAINS:  # so that the random model has less to read
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "system_prompt.txt").write_text("Print.")
    small = {"runs": 1, "tokens": 8, "contexts": [200, 300], "prefix": 500}
    suite = msgspec.structs.replace(load("engine"), smoke=small)
    choice = Choice(model=ModelConfig(name="tiny", prompts=str(tmp_path)))
    report = measure(suite, choice, size="smoke", out=tmp_path / "run")
    figures = _values(report.results)

    assert figures["peak_memory_bytes_300"] > figures["peak_memory_bytes_200"] > 0
    assert figures["peak_memory_growth_bytes"] == pytest.approx(
        figures["peak_memory_bytes_300"] - figures["peak_memory_bytes_200"]
    )
    assert figures["prefix_tokens"] == pytest.approx(500, rel=0.2)
    assert figures["prefix_second_computed_tokens"] < figures["prefix_first_computed_tokens"]
    assert all(math.isfinite(figure) for figure in figures.values())
    for figure in report.results.values():
        assert not isinstance(figure, Interval) or figure.low <= figure.value <= figure.high
    assert "random weights" in (report.model or "")


def test_every_figure_is_explained() -> None:
    """What the document knows is measured at the full size, but for what is known in process only."""
    suite = load("engine")
    contexts = suite.full["contexts"]
    assert (min(contexts), max(contexts), suite.full["prefix"]) == (4000, 64000, 13000)
    engine = Speeds(
        Request(parameters=suite.full | {"runs": 1}, choice=Choice(), runs=None, seed=0, say=print, size="full")
    )
    results = engine.figures(_rows(engine, Timed()))
    missing = suite.figures.keys() - results.keys()
    assert all("memory" in name or "computed" in name for name in missing)
    assert results.keys() <= suite.figures.keys()
    assert not engine.warning


def test_the_shell_has_no_such_times() -> None:
    """Who only predicts is refused."""
    with pytest.raises(PredictorError, match="cannot be talked to"):
        measure(load("engine"), Choice(predictor="shell"), size="smoke")


@pytest.mark.parametrize("wrong", [{"contexts": [100]}, {"tokens": 2}, {"prefix": 0}, {"runs": 0}, {"cap": 1}])
def test_wrong_parameters_are_told(wrong: dict[str, Any]) -> None:
    """A document's mistakes are named before anybody is asked."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        _engine(**wrong)
