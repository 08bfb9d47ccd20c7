"""Puts the stages together: the one place where names of policies and predictors become running parts."""

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from verifierd import policy as policies
from verifierd.adapters import detect, open_adapter
from verifierd.config import ModelConfig
from verifierd.metrics import Metrics
from verifierd.pipeline import Pipeline
from verifierd.predictors import MODELS, PredictorSettings, open_predictor
from verifierd.sanitize import Quotes, Sanitizer
from verifierd.scoring import open_scorers
from verifierd.scoring.contracts import contracts
from verifierd.stages import Sink
from verifierd.store import Store

__all__ = ("Choice", "at_once", "judging")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Who judges, and how.

    Attributes:
        policy: A bundled policy's name or a file.
        predictor: The chain that replaces the policy's, or None; a model that is named is then not asked unless it
            is in it.
        predictions: The file of the predictor `recorded`.
        model: The language model, and what it may use.
        say: Told what loading a model needs and does.
        quotes: How much of a transcript verdicts quote.
        limit: Judge no more steps than this.
    """

    policy: str = "default"
    predictor: str | None = None
    predictions: Path | None = None
    model: ModelConfig = ModelConfig()
    say: Callable[[str], None] = lambda _line: None
    quotes: Quotes = "short"
    limit: int | None = None


def at_once(choice: Choice) -> int:
    """How many files it is worth reading at once: as many as a model takes trajectories in one pass, else one.

    Raises:
        PolicyError: The policy is missing or wrong.
    """
    chain = _chain(choice, policies.load(choice.policy))
    return choice.model.batch if any(name.strip() in MODELS for name in chain.split(",")) else 1


def _chain(choice: Choice, policy: policies.Policy) -> str:
    """Who is asked: who was named, else the policy's predictors and, where a model was named, the model."""
    if choice.predictor:
        return choice.predictor
    if choice.model.name is None or set(MODELS) & set(policy.predictors):
        return ",".join(policy.predictors)
    return ",".join((*policy.predictors, "mlx"))


@asynccontextmanager
async def judging(
    choice: Choice,
    *,
    store: Store,
    sinks: Sequence[Sink],
    metrics: Metrics,
    sanitizer: Sanitizer,
    patient: bool = False,
) -> AsyncIterator[Pipeline]:
    """A pipeline ready to run; its predictor is closed at the end.

    Args:
        choice: Who judges.
        store: Where everything is committed.
        sinks: Where verdicts go.
        metrics: What is counted.
        sanitizer: What verdicts pass through.
        patient: Wait for a model however long it takes, so that verdicts do not depend on the machine's speed.

    Raises:
        PolicyError: The policy is missing or wrong.
        PredictorError: A predictor is unknown or cannot start here.
    """
    policy = policies.load(choice.policy)
    scorers = open_scorers(policy)
    asking = msgspec.structs.replace(policy.asking, deadline=math.inf) if patient else policy.asking
    predictor = open_predictor(
        _chain(choice, policy),
        PredictorSettings(
            shell_profile=policy.shell_profile,
            predictions=choice.predictions,
            model=choice.model,
            asking=asking,
            say=choice.say,
            # What a chain has so far has no text, and of the other scorers only the one of texts covers anything.
            covered=lambda history, step, prediction: contracts(history, step, prediction).coverage,
            ask_below=policy.ask_below,
        ),
    )
    try:
        yield Pipeline(
            store=store,
            predictor=predictor,
            scorers=scorers,
            policy=policy,
            sinks=sinks,
            metrics=metrics,
            open_adapter=lambda name, path: open_adapter(name, path=path),
            detect=detect,
            sanitise=lambda verdict: sanitizer.verdict(verdict, choice.quotes),
            limit=choice.limit,
        )
    finally:
        await predictor.aclose()
