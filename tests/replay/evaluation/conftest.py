"""Builders of small evaluations."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.helpers import jsonl
from verifierd.composition import Choice
from verifierd.replay.evaluation.cases import Cases
from verifierd.replay.evaluation.judging import Evaluated, evaluated
from verifierd.replay.runs import Run, runs

Logged = Callable[..., list[Run]]
Judge = Callable[..., Evaluated]


@pytest.fixture
def logged(tmp_path: Path) -> Logged:
    """The trajectories of a log of these lines."""

    def read(*lines: object, name: str = "log.jsonl") -> list[Run]:
        (tmp_path / name).write_bytes(jsonl(*lines))
        return anyio.run(runs, [tmp_path / name])

    return read


@pytest.fixture
def judge() -> Judge:
    """What a chain of predictors makes of cases."""

    def run(cases: Cases, predictor: str = "contracts", seed: int = 0) -> Evaluated:
        return anyio.run(lambda: evaluated(cases, Choice(predictor=predictor), seed=seed))

    return run
