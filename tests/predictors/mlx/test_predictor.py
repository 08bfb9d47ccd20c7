"""The predictor as a whole, with the tiny model."""

import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import msgspec
import pytest

pytest.importorskip("mlx_lm")

from tests.helpers import ran
from verifierd.config import ModelConfig
from verifierd.errors import PredictorError
from verifierd.policy import DOMAINS, Asking
from verifierd.predictors.mlx import MlxPredictor
from verifierd.stages import Asked, Chat, Message
from verifierd.types import Abstain, History, Step

pytestmark = pytest.mark.anyio

Make = Callable[..., MlxPredictor]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a predictor whose system prompts are short."""
    for domain in DOMAINS:
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "system_prompt.txt").write_text("Answer as the machine would.")
    settings = ModelConfig(name="tiny", prompts=str(tmp_path), context_tokens=4096, cache_bytes=10**8, chunk_tokens=64)
    return lambda **asking: MlxPredictor(settings, msgspec.convert(asking, Asking))


@pytest.fixture
async def predictor(make: Make) -> AsyncIterator[MlxPredictor]:
    """One that is closed at the end."""
    made = make()
    yield made
    await made.aclose()


def _step(trajectory: str = "t", index: int = 1, observation: str = "abc\n") -> Step:
    return ran("x", observation, trajectory=trajectory, index=index)


async def test_the_steps_of_a_trajectory(predictor: MlxPredictor) -> None:
    """Each is predicted after the real ones before it, at the cost of its own tokens from the second on."""
    history = History(("native", "t"))
    for index in range(1, 4):
        step = _step(index=index, observation=f"line {index}\n")
        found = await predictor.predict(history, step)
        assert found.abstain is None
        assert found.likelihood is not None
        assert found.model == predictor.model
        assert found.tokens.scored > 0
        if index > 1:
            assert found.tokens.computed <= 1.1 * found.tokens.new
        history.append(step)


async def test_a_step_that_never_was(make: Make) -> None:
    """Is predicted, and the real steps cost and are what they would be without it."""
    found = []
    for shadows in (False, True):
        predictor = make()
        history = History(("native", "t"))
        for index in range(1, 4):
            step = _step(index=index, observation=f"line {index}\n")
            found.append(await predictor.predict(history, step))
            if shadows:
                other = await predictor.predict(history, _step(index=index, observation="no\n"), keep=False)
                assert other.likelihood is not None
            history.append(step)
        await predictor.aclose()
    assert found[:3] == found[3:]


async def test_a_deadline_that_passes(make: Make) -> None:
    """The step abstains, the loop has run meanwhile, and the model goes on with the next one."""
    predictor = make(deadline=0.001)
    turns = 0
    async with anyio.create_task_group() as tasks:

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await anyio.sleep(0.0001)

        tasks.start_soon(count)
        found = await predictor.predict(History(("native", "t")), _step())
        tasks.cancel_scope.cancel()
    assert (found.abstain, found.detail) == (Abstain.TIMEOUT, "no answer within 0.001 s")
    assert turns
    predictor._deadline = 60
    assert (await predictor.predict(History(("native", "t")), _step())).likelihood is not None
    await predictor.aclose()


async def test_many_at_once(predictor: MlxPredictor) -> None:
    """Steps of several trajectories that wait together are each answered for their own."""
    found: dict[str, int] = {}

    async def ask(trajectory: str) -> None:
        prediction = await predictor.predict(
            History(("native", trajectory)), _step(trajectory, observation=trajectory * 9)
        )
        assert prediction.likelihood is not None
        found[trajectory] = len(prediction.likelihood.surprisal)

    async with anyio.create_task_group() as tasks:
        for trajectory in "abcd":
            tasks.start_soon(ask, trajectory)
    assert found == dict.fromkeys("abcd", 10)


async def test_it_is_talked_to_between_steps(make: Make) -> None:
    """Steps are what they would be without, whenever it is talked to; one that is closed says so."""
    talk = [Message("user", "Is this so?")]
    found = []
    for talks in (False, True):
        predictor = make()
        assert isinstance(predictor, Chat)
        history = History(("native", "t"))
        async with anyio.create_task_group() as tasks:
            for index in range(1, 4):
                if talks:
                    tasks.start_soon(predictor.chat, talk, Asked(max_tokens=4))
                step = _step(index=index, observation=f"line {index}\n")
                found.append(await predictor.predict(history, step))
                history.append(step)
        if talks:
            assert (await predictor.chat(talk, Asked(max_tokens=4))).model == predictor.model
            with pytest.raises(PredictorError, match="exceed 4,096"):
                await predictor.chat(talk, Asked(max_tokens=4096))
        await predictor.aclose()
        with pytest.raises(PredictorError, match="the predictor is closed"):
            await predictor.chat(talk, Asked(max_tokens=4))
    assert found[:3] == found[3:]


async def test_a_closed_one(make: Make) -> None:
    """Abstains and says so; also for what waited when it was closed."""
    predictor = make()
    details = []

    async def ask() -> None:
        found = await predictor.predict(History(("native", "t")), _step(observation="word " * 300))
        details.append((found.abstain, found.detail))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.sleep(0.01)
        await predictor.aclose()
    await ask()
    assert details == [(Abstain.PREDICTOR_ERROR, "the predictor is closed")] * 2


async def test_a_pass_that_fails(predictor: MlxPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, or a lack of memory, is an abstention with its words; then all goes on."""
    errors: list[Exception] = [RuntimeError("[malloc] Unable to allocate 9 bytes."), ValueError("odd")]

    def fail(*_arguments: object, **_options: object) -> object:
        raise errors.pop(0)

    assert (await predictor.predict(History(("native", "t")), _step())).likelihood is not None
    with monkeypatch.context() as patch:
        patch.setattr("verifierd.predictors.mlx.passes.score", fail)
        memory = await predictor.predict(History(("native", "t")), _step())
        other = await predictor.predict(History(("native", "t")), _step())
    assert memory.detail == "out of memory: [malloc] Unable to allocate 9 bytes."
    assert other.detail == "ValueError: odd"
    assert {memory.abstain, other.abstain} == {Abstain.PREDICTOR_ERROR}
    assert (await predictor.predict(History(("native", "t")), _step())).likelihood is not None


def test_the_import_leaves_the_process_as_it_is() -> None:
    """mlx-lm would set the limit of open files; and nothing is printed."""
    code = "import resource, verifierd.predictors.mlx; print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE)]
    assert done.stderr == ""
