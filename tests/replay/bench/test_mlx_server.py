"""Suites against mlx-lm's own server on loopback, by a plain client of OpenAI's protocol."""

from pathlib import Path
from typing import Any

import pytest

from tests.predictors.test_openai import mlx_server  # noqa: F401 - a fixture
from verifierd.bundled import root
from verifierd.composition import Choice
from verifierd.config import ModelConfig
from verifierd.replay.bench.asking import Outcome
from verifierd.replay.bench.suite import load, measure


@pytest.mark.parametrize(
    ("suite", "limit", "asked"),
    [("plausible", 1, 1), ("generalist", 1, 1), ("thinking-tax", 1, 2), ("agentworldbench", 2, 2)],
)
def test_suites_through_a_real_server(
    mlx_server: tuple[str, str],  # noqa: F811
    suite: str,
    limit: int,
    asked: int,
) -> None:
    """They run from end to end, the server as the judge, too; a random model fails each as a model fails."""
    url, model = mlx_server
    choice = Choice(predictor="openai", model=ModelConfig(name=model, base_url=url), limit=limit)
    more: dict[str, Any] = {}
    if suite == "agentworldbench":
        rows = Path(str(root("replay"))) / "suites" / "data" / suite / "mcp_test.jsonl"
        more = {"data": rows, "given": {"judge-url": url, "judge-model": model}}

    found = measure(load(suite), choice, size="smoke", **more)

    assert len(found.rows) == asked
    assert found.model == model
    if suite == "agentworldbench":  # the judge's words cannot be read
        assert [row.outcome for row in found.rows][1:] == [Outcome.FAILED]
    answers = [row for row in found.rows if not row.case.startswith("judge:")]
    assert all(row.outcome is not Outcome.FAILED for row in answers)
    assert all(row.generated_tokens and row.seconds for row in answers)
