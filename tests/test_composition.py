"""The stages put together by name."""

from pathlib import Path

import msgspec
import pytest

from tests.helpers import Keep, agrees, counter, jsonl, native, ran, reading
from verifierd.composition import Choice, at_once, exchange, judging
from verifierd.config import ModelConfig
from verifierd.errors import PolicyError, PredictorError
from verifierd.metrics import Metrics
from verifierd.pipeline import Pipeline
from verifierd.predictors.chain import Chain
from verifierd.sanitize import Sanitizer
from verifierd.stages import Predictor
from verifierd.store import Store
from verifierd.types import History, Verdict

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


@pytest.mark.parametrize(
    ("predictor", "model", "asked"),
    [
        (None, ModelConfig(), "shell,contracts"),
        (None, ModelConfig(name="m", base_url="http://127.0.0.1:1"), "shell,contracts,openai"),
        ("shell", ModelConfig(name="m", base_url="http://127.0.0.1:1"), "shell"),
    ],
)
async def test_a_server_is_asked_where_one_is_named(predictor: str | None, model: ModelConfig, asked: str) -> None:
    """Its model comes last, unless others are named."""
    async with Store(None) as store:
        choice = Choice(predictor=predictor, model=model)
        async with judging(choice, store=store, sinks=[], metrics=Metrics(), sanitizer=Sanitizer(b"x")) as pipeline:
            assert pipeline.judge.predictor.name == asked
            assert at_once(choice) == (model.batch if "openai" in asked else 1)


async def test_a_server_without_a_model_is_an_error(tmp_path: Path) -> None:
    """A server has a model for each name."""
    with pytest.raises(PredictorError, match="needs a server and a model"):
        await judged(tmp_path / "none", Choice(model=ModelConfig(base_url="http://127.0.0.1:1")))


async def test_an_exchange_keeps_what_did_not_change(tmp_path: Path) -> None:
    """Predictors made of the same settings go on, others are opened anew, and those left over are closed."""
    own = tmp_path / "mine.toml"
    own.write_text('name = "mine"\nshell-profile = "bash"\n')
    path = tmp_path / "a.jsonl"
    lines = counter("t", 6)
    async with Store(None) as store:
        kept = Keep()
        choice = Choice(predictor="shell,contracts")
        async with judging(choice, store=store, sinks=[kept], metrics=Metrics(), sanitizer=Sanitizer(b"x")) as pipeline:
            path.write_bytes(jsonl(*lines[:3]))
            opened = reading(path)
            await pipeline.pump(opened)
            before = _open(pipeline)
            await exchange(pipeline, Choice(predictor="shell", policy="strict", quotes="off"))
            same = _open(pipeline)
            await exchange(pipeline, Choice(predictor="shell", policy=str(own)))
            other = _open(pipeline)
            with path.open("ab") as file:
                file.write(jsonl(*lines[3:]))
            while await pipeline.pump(opened):
                pass
            assert set(before) == {"shell", "contracts"}
            assert same == {"shell": before["shell"]}
            assert other["shell"] is not before["shell"]
            closed = await before["shell"].predict(History(("", "")), ran("pwd"))
            assert closed.detail == "the predictor is closed"
    assert agrees((verdict.step, verdict.verdict.value) for verdict in kept.verdicts)
    assert kept.verdicts[-1].policy.startswith("mine@")


async def test_an_exchange_that_fails_changes_nothing(tmp_path: Path) -> None:
    """Neither a policy nor a predictor that is wrong takes the place of what was there."""
    (tmp_path / "bad.jsonl").write_text("no prediction\n")
    async with (
        Store(None) as store,
        judging(Choice(), store=store, sinks=[], metrics=Metrics(), sanitizer=Sanitizer(b"x")) as pipeline,
    ):
        before, judge = _open(pipeline), pipeline.judge
        for wrong, error in (
            (Choice(policy="nonsense"), PolicyError),
            (Choice(predictor="nonsense"), PredictorError),
            (Choice(predictor="scripted,recorded", predictions=tmp_path / "bad.jsonl"), PredictorError),
        ):
            with pytest.raises(error):
                await exchange(pipeline, wrong)
        assert pipeline.judge is judge
        assert _open(pipeline) == before


def _open(pipeline: Pipeline) -> dict[str, Predictor]:
    """The predictors of a pipeline by name."""
    predictor = pipeline.judge.predictor
    return {one.name: one for one in (predictor.predictors if isinstance(predictor, Chain) else (predictor,))}
