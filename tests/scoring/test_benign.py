"""Benign changes of real observations never change a verdict on a decided step."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from verifierd import policy as policies
from verifierd.predictors.chain import Chain
from verifierd.predictors.contracts import ContractsPredictor
from verifierd.predictors.shell import ShellPredictor
from verifierd.replay.inject import BENIGN, inject
from verifierd.replay.survey import steps_of
from verifierd.scoring import open_scorers
from verifierd.types import History, ObservationKind, Prediction, Seconds, Step, Verdict, VerdictKind

SAMPLES = Path(__file__).parents[2] / "replay" / "trajectories"
FILES = sorted(path for path in SAMPLES.rglob("*.jsonl") if path.name != "off-path.jsonl")
ALL = msgspec.structs.replace(policies.load("default"), normalisers=get_args(policies.Normaliser))
VALUES = {"timestamps", "durations", "pids", "temp_names"}
"""Changes of values: what is certain of a value is contradicted by another one."""


def _verdict(policy: policies.Policy, history: History, step: Step, prediction: Prediction) -> Verdict:
    return policies.decide(
        policy,
        policies.Memory(),
        step,
        prediction,
        [score(history, step, prediction) for score in open_scorers(policy)],
        predictor="any",
        model=None,
        time="",
        seconds=Seconds(),
    )[1]


async def _cases(path: Path) -> AsyncIterator[tuple[History, Step]]:
    """Each judged step of a file with the steps before it."""
    histories: dict[tuple[str, str], History] = {}
    for step in await steps_of(path):
        history = histories.setdefault(step.key, History(step.key))
        if step.observation_kind is ObservationKind.ENV:
            yield history, step
        history.append(step)


def _altered(step: Step, history: History) -> Iterator[tuple[str, Step]]:
    for kind in BENIGN:
        for seed in range(2):
            changed = inject(kind, step, history, seed=seed)
            if changed is not None:
                yield kind, changed.step


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem[:24])
async def test_what_shell_and_contracts_decide(path: Path) -> None:
    """The verdict and its coverage class stay as they were, with the default policy."""
    policy = policies.load("default")
    chain = Chain([ShellPredictor(), ContractsPredictor()])
    tried = 0
    try:
        async for history, step in _cases(path):
            prediction = await chain.predict(history, step)
            verdict = _verdict(policy, history, step, prediction).verdict
            if verdict is VerdictKind.ABSTAIN:
                continue
            for kind, altered in _altered(step, history):
                found = _verdict(policy, history, altered, prediction)
                assert found.verdict is verdict, (kind, step.action.text, found.signals)
                tried += 1
    finally:
        await chain.aclose()

    assert tried


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("certain", [True, False])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem[:24])
async def test_what_was_predicted_whole(path: Path, *, certain: bool) -> None:
    """Whoever predicted the very observation is right of a benign change of it, too, and what it took is named."""
    async for history, step in _cases(path):
        prediction = Prediction(predictor="any", text=step.observation, certain=certain)
        for kind, altered in _altered(step, history):
            if step.elided is not None or (certain and kind in VALUES):
                continue
            found = _verdict(ALL, history, altered, prediction)

            assert found.verdict is VerdictKind.ON_PATH, (kind, step.action.text, found.signals)
            assert [signal.detail.partition(":")[0] for signal in found.signals if signal.name == "inexact"] == [
                "equal only after normalising"
            ]
