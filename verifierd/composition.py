"""Puts the stages together: the one place where names of policies and predictors become running parts."""

import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import structlog
from anyio import to_thread

from verifierd import policy as policies
from verifierd.adapters import detect, open_adapter
from verifierd.config import ModelConfig
from verifierd.metrics import Metrics
from verifierd.pipeline import Judge, Pipeline, Shadow
from verifierd.predictors import MODELS, PredictorSettings, chained, members, open_predictor
from verifierd.sanitize import Quotes, Sanitizer
from verifierd.scoring import open_scorers
from verifierd.scoring.contracts import contracts
from verifierd.stages import Predictor, Sink
from verifierd.store import Store

__all__ = ("Choice", "asks_model", "at_once", "chain_of", "exchange", "judge_alone", "judging")

_CALIBRATE = "Its alarms are as rare as promised only after another `verifierd calibrate`."
_log = structlog.get_logger(component="composition")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Who judges, and how.

    Attributes:
        policy: A bundled policy's name or a file.
        predictor: The chain that replaces the policy's, or None; a model that is named is then not asked unless it
            is in it.
        predictions: The file of the predictor `recorded`.
        model: The language model, and what it may use.
        say: Told what loading a model needs and does.
        quotes: How much of a transcript verdicts quote; None for what the policy says.
        limit: Judge no more steps than this.
    """

    policy: str = "default"
    predictor: str | None = None
    predictions: Path | None = None
    model: ModelConfig = ModelConfig()
    say: Callable[[str], None] = lambda _line: None
    quotes: Quotes | None = None
    limit: int | None = None


def at_once(choice: Choice) -> int:
    """How many files it is worth reading at once: as many as a model takes trajectories in one pass, else one.

    Raises:
        PolicyError: The policy is missing or wrong.
    """
    return choice.model.batch if asks_model(choice) else 1


def asks_model(choice: Choice) -> bool:
    """Whether a language model is among those asked.

    Raises:
        PolicyError: The policy is missing or wrong.
    """
    return any(name.strip() in MODELS for name in chain_of(choice, policies.load(choice.policy)).split(","))


def chain_of(choice: Choice, policy: policies.Policy) -> str:
    """Who is asked: who was named, else the policy's predictors and, where a model was named, the model."""
    if choice.predictor:
        return choice.predictor
    named = choice.model.name is not None or choice.model.base_url is not None
    if not named or set(MODELS) & set(policy.predictors):
        return ",".join(policy.predictors)
    return ",".join((*policy.predictors, "mlx" if choice.model.base_url is None else "openai"))


@asynccontextmanager
async def judging(
    choice: Choice,
    *,
    store: Store,
    sinks: Sequence[Sink],
    metrics: Metrics,
    sanitizer: Sanitizer,
    patient: bool = False,
    shadow: Shadow | None = None,
) -> AsyncIterator[Pipeline]:
    """A pipeline ready to run; its predictor is closed at the end.

    Args:
        choice: Who judges.
        store: Where everything is committed.
        sinks: Where verdicts go.
        metrics: What is counted.
        sanitizer: What verdicts pass through.
        patient: Wait for a model however long it takes, so that verdicts do not depend on the machine's speed.
        shadow: As of `Pipeline`.

    Raises:
        PolicyError: The policy is missing or wrong.
        PredictorError: A predictor is unknown or cannot start here.
    """
    judge = await _opened(choice, sanitizer, patient=patient)
    pipeline = Pipeline(
        store=store,
        judge=judge,
        sinks=sinks,
        metrics=metrics,
        open_adapter=lambda name, path: open_adapter(name, path=path),
        detect=detect,
        limit=choice.limit,
        shadow=shadow,
    )
    try:
        yield pipeline
    finally:
        await _close(_of(pipeline).members.values())


@asynccontextmanager
async def judge_alone(choice: Choice) -> AsyncIterator[Judge]:
    """What judges, without a pipeline around it, patient with a model as a replay is; it is closed at the end.

    Raises:
        PolicyError: The policy is missing or wrong.
        PredictorError: A predictor is unknown or cannot start here.
    """
    judge = await _opened(choice, Sanitizer(b"alone"), patient=True)
    try:
        yield judge
    finally:
        await _close(judge.members.values())


async def exchange(pipeline: Pipeline, choice: Choice) -> None:
    """Have a pipeline of `judging` go on as another choice says; if that fails nothing has changed.

    Predictors whose settings are what they were go on, with all that they have in memory. Steps being judged stay with
    the former ones, which are closed after them; this returns then.

    Raises:
        PolicyError: The policy is missing or wrong.
        PredictorError: A predictor is unknown or cannot start here.
    """
    former = _of(pipeline)
    judge = await _opened(choice, former.sanitizer, kept=former.members)
    try:
        await pipeline.exchange(judge)
    finally:
        await _close(member for name, member in former.members.items() if judge.members.get(name) is not member)


class _Member(msgspec.Struct, frozen=True):
    """A predictor, and the settings that it was made of."""

    predictor: Predictor
    made_of: object


class _Judge(Judge, frozen=True, kw_only=True):
    """What judges, and what else is needed to exchange it."""

    members: Mapping[str, _Member]
    sanitizer: Sanitizer


_NONE: Mapping[str, _Member] = {}


def _of(pipeline: Pipeline) -> _Judge:
    assert isinstance(pipeline.judge, _Judge), "it was made by `judging`"
    return pipeline.judge


async def _opened(
    choice: Choice, sanitizer: Sanitizer, *, patient: bool = False, kept: Mapping[str, _Member] = _NONE
) -> _Judge:
    """What judges by a choice, with those of the members kept that would be made of the same."""
    policy = policies.load(choice.policy)
    scorers = open_scorers(policy)
    asking = msgspec.structs.replace(policy.asking, deadline=math.inf) if patient else policy.asking
    settings = PredictorSettings(
        shell_profile=policy.shell_profile,
        predictions=choice.predictions,
        model=choice.model,
        asking=asking,
        say=choice.say,
        # What a chain has so far has no text, and of the other scorers only the one of texts covers anything.
        covered=lambda history, step, prediction: contracts(history, step, prediction).coverage,
        ask_below=policy.ask_below,
    )
    found: dict[str, _Member] = {}
    names = members(chain_of(choice, policy))
    try:
        for name in names:
            made_of = _made_of(name, settings)
            member = kept.get(name)
            if member is None or member.made_of != made_of:
                if kept:  # loading a model must not hold up the steps that are being judged
                    predictor = await to_thread.run_sync(open_predictor, name, settings)
                else:  # here an interrupt ends it
                    predictor = open_predictor(name, settings)
                member = _Member(predictor, made_of)
            found[name] = member
    except BaseException:
        await _close(member for name, member in found.items() if kept.get(name) is not member)
        raise
    predictor = chained([found[name].predictor for name in names], settings)
    if unlike := policy.unlike(predictor.name, predictor.model):
        _log.warning("calibration_unlike", policy=policy.id, unlike=unlike, hint=_CALIBRATE)
        choice.say(f"{policy.name}: its calibration is of another judge: {'; '.join(unlike)}. {_CALIBRATE}")
    return _Judge(
        predictor=predictor,
        scorers=scorers,
        policy=policy,
        sanitise=lambda verdict: sanitizer.verdict(verdict, choice.quotes or policy.quotes),
        members=found,
        sanitizer=sanitizer,
    )


def _made_of(name: str, settings: PredictorSettings) -> object:
    """What a predictor depends on."""
    match name:
        case "shell":
            return settings.shell_profile
        case "mlx" | "openai":
            return settings.model, settings.asking
        case "recorded":
            return object()  # its file may be another one under the same name
    return None


async def _close(unwanted: Iterable[_Member]) -> None:
    """Close predictors, the others too if one fails, whatever else ends meanwhile."""
    with anyio.CancelScope(shield=True):
        async with AsyncExitStack() as stack:
            for member in unwanted:
                stack.push_async_callback(member.predictor.aclose)
