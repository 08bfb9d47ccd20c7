"""The suite `constrained`, with answerers that need a grammar or fail, and with the tiny model for real."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from tests.replay.bench.answerers import FAILURES, Answerer, asked_party
from verifierd.composition import Choice
from verifierd.config import ModelConfig
from verifierd.errors import ConfigError, PredictorError
from verifierd.policy import Asking
from verifierd.replay.bench.asking import Outcome, Party
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.constrained import Constrained
from verifierd.replay.bench.figures import value
from verifierd.replay.bench.suite import Request, load, measure
from verifierd.replay.statistics import Interval
from verifierd.stages import Asked, Message, Reply


class Unruly(Answerer):
    """Answers with an action where nothing holds it, and with an observation where something does."""

    async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:
        """The reply, slower where it is held."""
        reply = await super().chat(messages, asked)
        if asked.grammar is None or "yes" in asked.grammar:
            return reply
        assert asked.grammar.startswith("start: ANSWER")
        assert "Observation" in asked.grammar
        text = "**Environment Observation:**\nwhatever"
        return msgspec.structs.replace(reply, text=text, seconds=0.5, generated_tokens=11)


def _request(**given: Any) -> Request:
    parameters = {**load("constrained").smoke, **given}
    return Request(parameters=parameters, choice=Choice(), runs=None, seed=0, say=print, size="smoke")


def _rows(engine: Constrained, party: Party) -> list[Row]:
    async def work() -> list[Row]:
        done: dict[str, Sequence[Row]] = {}
        async with engine.begun(party, done):
            for job in engine.jobs:
                done[job] = await engine.run(job, party)
        return [row for rows in done.values() for row in rows]

    return anyio.run(work)


def test_a_model_that_needs_holding() -> None:
    """The same steps are asked both ways, in turn; figures compare them in pairs."""
    engine = Constrained(_request(sequences=[{"trajectory": "roles-a", "runs": 2}, {"trajectory": "roles-b"}]))
    answerer = Unruly(lambda _: ('{"command": "ls"}', "", "stop"))
    rows = _rows(engine, asked_party(answerer))
    results = engine.figures(rows)

    assert engine.jobs[:3] == ["free/roles-a/0", "constrained/roles-a/0", "constrained/roles-a/1"]
    n = len(rows) // 2
    assert n == results["free_steps"] == results["constrained_steps"] == 6 + 6 + 8
    assert value(results["free_role_breaks"]) == 1
    assert value(results["constrained_role_breaks"]) == 0
    difference = results["role_breaks_difference"]
    assert difference == -1 or (isinstance(difference, Interval) and difference.value == -1 and difference.n == n)
    assert results["role_breaks_mcnemar_p"] == pytest.approx(2 * 0.5 ** (6 + 8))
    assert value(results["free_exact"]) == 0
    assert results["exact_mcnemar_p"] == 1
    assert value(results["constrained_token_seconds_median"]) == pytest.approx(0.375 / 10)
    assert value(results["free_token_seconds_median"]) == pytest.approx(0.125 / 16)
    assert value(results["token_seconds_ratio"]) == pytest.approx(0.0375 / (0.125 / 16))
    assert len({(row.case, row.run) for row in rows}) == len(rows)
    assert not any(isinstance(figure, float) and math.isnan(figure) for figure in results.values())


@pytest.mark.parametrize("failure", FAILURES)
def test_failures(failure: str) -> None:
    """Each is called what it is, free and held, and none is exact."""
    engine = Constrained(_request())
    rows = _rows(engine, asked_party(Answerer(FAILURES[failure])))
    results = engine.figures(rows)
    assert {row.outcome for row in rows if row.expected.strip()} == {Outcome(failure)}
    for kind in ("free", "constrained"):
        assert value(results[f"{kind}_{failure}{'s' if failure == 'role_break' else ''}"]) > 0.5
        assert value(results[f"{kind}_failed"]) == 0
    assert results["role_breaks_mcnemar_p"] == 1


def test_who_cannot_be_held() -> None:
    """That is an error at the start, not a failure of each answer; and nothing is tried where all is done."""

    class Server(Answerer):
        async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:
            if asked.grammar is not None:
                raise PredictorError("a reply cannot be held to a grammar")
            return await super().chat(messages, asked)

    engine = Constrained(_request())
    with pytest.raises(PredictorError, match="cannot be held"):
        _rows(engine, asked_party(Server(FAILURES["empty"])))

    class Mute:
        name, model, aclose, predict = "mute", None, None, None

    with pytest.raises(PredictorError, match="cannot be talked to"):
        _rows(engine, Party(Mute(), Asking(), None))  # type: ignore[arg-type]

    async def nothing_left() -> None:
        async with engine.begun(asked_party(Server(FAILURES["empty"])), dict.fromkeys(engine.jobs, ())):
            pass

    anyio.run(nothing_left)


@pytest.mark.parametrize("most", [0, "many", None])
def test_wrong_parameters(most: Any) -> None:
    """Are told; others are those of `roles`."""
    with pytest.raises(ConfigError, match="characters-of-observation"):
        Constrained(_request(**{"characters-of-observation": most}))
    with pytest.raises(ConfigError, match="nope"):
        Constrained(_request(nope=1))


def test_from_end_to_end(tmp_path: Path) -> None:
    """The tiny model, held, answers in the form that was asked for and comes to an end; freely it does neither."""
    pytest.importorskip("mlx_lm")
    pytest.importorskip("llguidance")
    lines = (Path(__file__).parents[3] / "replay" / "suites" / "data" / "roles.jsonl").read_text().splitlines()
    data = tmp_path / "two.jsonl"
    data.write_text("\n".join(line for line in lines if '"roles-a"' in line and '"step":1,' in line))
    choice = Choice(predictor="mlx", model=ModelConfig(name="tiny"))
    given = {"characters-of-observation": 3, "max-tokens": 60, "characters": 60}
    report = measure(load("constrained"), choice, size="smoke", data=data, out=tmp_path / "out.jsonl", given=given)

    assert report.results["constrained_steps"] == report.results["free_steps"] == 1
    rows = {row.case.rpartition("/")[2]: row for row in report.rows}
    assert rows["constrained"].outcome is Outcome.ANSWERED
    assert rows["constrained"].said.startswith("**Environment Observation:**")
    assert len(rows["constrained"].said) <= len("**Environment Observation:**\n") + 3
    assert rows["free"].outcome is not Outcome.ANSWERED or not rows["free"].said.startswith("**Env")
    assert value(report.results["constrained_role_breaks"]) == 0
    assert value(report.results["token_seconds_ratio"]) > 0
