"""The stages put together by name."""

from pathlib import Path

import msgspec
import pytest

from tests.helpers import Keep, jsonl, native, reading
from verifierd.composition import Choice, at_once, judging
from verifierd.config import ModelConfig
from verifierd.errors import PolicyError, PredictorError
from verifierd.metrics import Metrics
from verifierd.sanitize import Sanitizer
from verifierd.store import Store
from verifierd.types import Verdict

pytestmark = pytest.mark.anyio


async def judged(path: Path, choice: Choice) -> list[Verdict]:
    """The verdicts on a file."""
    kept = Keep()
    async with (
        Store(None) as store,
        judging(choice, store=store, sinks=[kept], metrics=Metrics(), sanitizer=Sanitizer(b"x")) as pipeline,
    ):
        opened = reading(path)
        while await pipeline.pump(opened):
            pass
        await pipeline.finish(opened)
    return kept.verdicts


async def test_names_become_running_parts(tmp_path: Path) -> None:
    """The policy names the predictors; a choice replaces them; both stand in the verdict."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(native("t", 1, "echo a", "a\n", exit_code=0)))
    (usual,) = await judged(path, Choice())
    (other,) = await judged(path, Choice(predictor="scripted", policy="strict"))
    assert (usual.predictor, usual.verdict, usual.policy.split("@")[0]) == ("shell", "on_path", "default")
    assert (other.predictor, other.verdict, other.policy.split("@")[0]) == ("scripted", "abstain", "strict")
    assert usual.step_id == other.step_id
    assert usual.verdict_id != other.verdict_id


@pytest.mark.parametrize(("quotes", "length"), [("off", 0), ("short", 2000), ("full", 5000)])
async def test_quotes_are_as_long_as_chosen(tmp_path: Path, quotes: str, length: int) -> None:
    """What leaves of a transcript is nothing, a piece, or all; secrets never."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(native("t", 1, "cat f", "a b " * 1250)))
    (verdict,) = await judged(path, Choice(predictor="scripted", quotes=quotes))  # type: ignore[arg-type]
    assert length <= len(verdict.observed) <= length + 100


async def test_the_policy_says_what_to_quote(tmp_path: Path) -> None:
    """What was chosen goes before it."""
    path, mine = tmp_path / "a.jsonl", tmp_path / "mine.toml"
    path.write_bytes(jsonl(native("t", 1, "cat f", "a b")))
    mine.write_text('name = "mine"\nquotes = "off"\n')
    (silent,) = await judged(path, Choice(predictor="scripted", policy=str(mine)))
    (told,) = await judged(path, Choice(predictor="scripted", policy=str(mine), quotes="short"))
    assert (silent.observed, told.observed) == ("", "a b")


async def test_unknown_names_are_errors(tmp_path: Path) -> None:
    """A policy or a predictor that nobody knows is refused with the list of known ones."""
    with pytest.raises(PolicyError):
        await judged(tmp_path / "none", Choice(policy="nonsense"))
    with pytest.raises(PredictorError) as refused:
        await judged(tmp_path / "none", Choice(predictor="nonsense"))
    assert "shell" in refused.value.hint


@pytest.mark.parametrize(
    ("predictor", "files"), [(None, 1), ("shell,contracts", 1), ("mlx", 5), ("shell, contracts, mlx", 5)]
)
def test_a_model_is_given_several_files(predictor: str | None, files: int) -> None:
    """As many as it takes in one pass; where none is asked, one file after the other is as fast."""
    assert at_once(Choice(predictor=predictor, model=ModelConfig(batch=5))) == files


def test_a_policy_may_ask_a_model(tmp_path: Path) -> None:
    """What the policy names counts where nothing replaces it."""
    (tmp_path / "mine.toml").write_text('name = "mine"\npredictors = ["shell", "mlx"]\n')
    mine = Choice(policy=str(tmp_path / "mine.toml"), model=ModelConfig(batch=3))
    assert at_once(mine) == 3
    assert at_once(msgspec.structs.replace(mine, predictor="shell")) == 1
