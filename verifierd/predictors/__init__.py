"""Who can predict: one literal table, opened lazily, so that `--help` loads no engine."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from verifierd.config import ModelConfig
from verifierd.errors import PredictorError
from verifierd.policy import Asking
from verifierd.stages import Chat, Predictor
from verifierd.types import History, Prediction, Step

__all__ = ("MODELS", "PREDICTORS", "PredictorSettings", "chained", "members", "open_predictor", "talker")


class PredictorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the predictors of a chain may need to know.

    Attributes:
        shell_profile: `auto`, or the kind of shell that the commands ran in.
        predictions: The file of `recorded`.
        model: The model of `mlx` or `openai`, and what it may use.
        asking: How it is asked.
        say: Told what loading a model needs and does.
        covered: The share of an observation that a prediction checks; 1 keeps a chain from asking further.
        ask_below: The share below which a chain asks its next predictor.
    """

    shell_profile: str = "auto"
    predictions: Path | None = None
    model: ModelConfig = ModelConfig()
    asking: Asking = Asking()
    say: Callable[[str], None] = lambda _line: None
    covered: Callable[[History, Step, Prediction], float] = lambda _history, _step, _prediction: 0.0
    ask_below: float = 1.0


def open_predictor(chain: str, settings: PredictorSettings) -> Predictor:
    """The predictor, or the chain, that a name such as `shell` or `recorded,shell` stands for.

    Raises:
        PredictorError: A name is unknown, or a predictor cannot start here.
    """
    return chained([PREDICTORS[name](settings) for name in members(chain)], settings)


def members(chain: str) -> list[str]:
    """The names in a chain.

    Raises:
        PredictorError: One is unknown, or there is none.
    """
    names = [name.strip() for name in chain.split(",") if name.strip()]
    unknown = [name for name in names if name not in PREDICTORS]
    if unknown or not names:
        raise PredictorError(
            f"no predictor is called `{', '.join(unknown) or chain}`",
            hint=f"Known predictors: {', '.join(PREDICTORS)}; join several by commas to ask them in turn.",
        )
    return names


def chained(predictors: Sequence[Predictor], settings: PredictorSettings) -> Predictor:
    """One predictor itself, several as a chain."""
    if len(predictors) == 1:
        return predictors[0]
    from verifierd.predictors.chain import Chain  # noqa: PLC0415 - only where several are named

    return Chain(predictors, covered=settings.covered, ask_below=settings.ask_below)


def talker(predictor: Predictor) -> Chat | None:
    """Who of a chain, or of one, can be talked to: the first that can."""
    from verifierd.predictors.chain import Chain  # noqa: PLC0415 - as above

    asked = predictor.predictors if isinstance(predictor, Chain) else (predictor,)
    return next((one for one in asked if isinstance(one, Chat)), None)


def _shell(settings: PredictorSettings) -> Predictor:
    from verifierd.predictors.shell import ShellPredictor  # noqa: PLC0415 - the engine loads only where it is used

    return ShellPredictor(profile=settings.shell_profile)


def _contracts(_settings: PredictorSettings) -> Predictor:
    from verifierd.predictors.contracts import ContractsPredictor  # noqa: PLC0415 - as above

    return ContractsPredictor()


def _mlx(settings: PredictorSettings) -> Predictor:
    try:
        from verifierd.predictors.mlx import MlxPredictor  # noqa: PLC0415 - as above
    except ImportError as error:
        raise PredictorError(
            f"the predictor `mlx` cannot run here: {error}",
            hint="mlx-lm needs Apple silicon or Linux: pip install mlx-lm, on Linux with mlx[cpu] or mlx[cuda12].",
        ) from error
    return MlxPredictor(settings.model, settings.asking, say=settings.say)


def _openai(settings: PredictorSettings) -> Predictor:
    from verifierd.predictors.openai import OpenAIPredictor  # noqa: PLC0415 - as above

    return OpenAIPredictor(settings.model, settings.asking)


def _recorded(settings: PredictorSettings) -> Predictor:
    from verifierd.predictors.recorded import RecordedPredictor  # noqa: PLC0415 - as above

    if settings.predictions is None:
        raise PredictorError(
            "the predictor `recorded` needs a file of predictions", hint="Name it after --predictions."
        )
    return RecordedPredictor(settings.predictions)


def _scripted(_settings: PredictorSettings) -> Predictor:
    from verifierd.predictors.scripted import ScriptedPredictor  # noqa: PLC0415 - as above

    return ScriptedPredictor()


PREDICTORS: dict[str, Callable[[PredictorSettings], Predictor]] = {
    "shell": _shell,
    "contracts": _contracts,
    "mlx": _mlx,
    "openai": _openai,
    "recorded": _recorded,
    "scripted": _scripted,
}

MODELS = ("mlx", "openai")
"""Those that ask a language model, and take steps of several trajectories at once."""
