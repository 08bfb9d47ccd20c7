"""The suite `three-way`: several models on the same cases."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.replay.bench.server import Server
from verifierd.composition import Choice
from verifierd.errors import ConfigError
from verifierd.replay.bench.book import read
from verifierd.replay.bench.figures import value
from verifierd.replay.bench.suite import Report, load, measure

_SAID = "**Environment Observation:**\nx"
_NOTHING = "<predicted_observation></predicted_observation>"


def _measure(models: Sequence[Any], *, suite: str = "roles", **more: Any) -> Report:
    return measure(
        load("three-way"),
        Choice(predictor="openai"),
        size="smoke",
        given={"suite": suite, "models": list(models)},
        **more,
    )


def test_models_and_their_differences(tmp_path: Path) -> None:
    """Each model's figures under its letter, rows in files of their own, and nobody is asked twice."""
    with Server(lambda _messages, _times: _SAID) as server, Server(lambda _messages, _times: _NOTHING) as other:
        models = [
            {"model": "one", "base-url": server.url},
            {"model": "", "predictor": "contracts"},
            {"model": "two", "base-url": other.url},
        ]
        told: list[tuple[int, int]] = []
        found = _measure(models, out=tmp_path / "run.jsonl", on=lambda *more: told.append(more))
        asked = len(server.asked), len(other.asked)
        again = _measure(models, out=tmp_path / "run.jsonl")
        assert (len(server.asked), len(other.asked)) == asked

    assert found.model == "a: one; b: contracts; c: two"
    assert value(found.results["a_exact"]) == value(found.results["b_exact"]) == 0
    assert value(found.results["c_exact"]) > 0  # of commands that print nothing
    assert value(found.results["c_minus_a_exact"]) == value(found.results["c_exact"])
    assert value(found.results["b_minus_a_exact"]) == 0
    assert value(found.results["b_minus_a_exact_mcnemar"]) == 1
    assert {name for name in found.results if "exact" in name} == {name for name in again.results if "exact" in name}
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["run-1.jsonl", "run-2.jsonl", "run-3.jsonl"]
    assert [read(file)[0].model for file in files] == ["one", None, "two"]
    assert sum(done for done, _ in told) == told[-1][1]


@pytest.mark.parametrize(
    ("models", "suite", "problem"),
    [
        (["one"], "roles", "two models"),
        (["one", "two"], "speed", "no answers"),
        (["one", "two"], "three-way", "no answers"),
        (["one", "two"], "nope", "no suite"),
        ([1, "two"], "roles", "parameters"),
        ([{"model": "one", "colour": "red"}, "two"], "roles", "colour"),
    ],
)
def test_what_cannot_be_compared_is_refused(models: Sequence[Any], suite: str, problem: str) -> None:
    """Before anybody is asked."""
    with pytest.raises(ConfigError, match=problem):
        _measure(models, suite=suite)


def test_parameters_of_the_suite_stand_in_its_table() -> None:
    """Elsewhere they are refused, not ignored."""
    with pytest.raises(ConfigError, match="`runs` is none"):
        measure(load("three-way"), Choice(predictor="shell"), size="smoke", given={"models": ["one", "two"], "runs": 3})
    with pytest.raises(ConfigError, match="colour"):
        measure(
            load("three-way"),
            Choice(predictor="shell"),
            size="smoke",
            given={"models": ["a", "b"], "roles": {"colour": 3}},
        )


def test_data_is_refused_where_the_suite_reads_none(tmp_path: Path) -> None:
    """As without `three-way`."""
    with pytest.raises(ConfigError, match="reads no data"):
        _measure(["one", "two"], suite="plausible", data=tmp_path)
