"""`mlx`: a language world model through mlx-lm, in process, thinking off, capped.

It reads the trajectory and says how likely each token of what came was. Nothing is decoded where the real observation
is what greedy decoding would have given. `README.md` beside this file says how.
"""

import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import anyio

from verifierd.config import ModelConfig
from verifierd.errors import PredictorError
from verifierd.policy import Asking
from verifierd.stages import Asked, Message, Reply
from verifierd.types import Abstain, History, Prediction, Step

__all__ = ("MlxPredictor",)


@contextmanager
def _limits_kept() -> Iterator[None]:
    """mlx-lm sets the whole process's limit of open files while it is imported, and the hard one is gone for good."""
    setrlimit = resource.setrlimit
    resource.setrlimit = lambda *_: None
    try:
        yield
    finally:
        resource.setrlimit = setrlimit


with _limits_kept():
    from verifierd.predictors.mlx.engine import Engine, OutOfMemory, Unwanted
    from verifierd.predictors.mlx.loading import DEFAULT, find, load
    from verifierd.predictors.mlx.runner import ModelRunner, written
    from verifierd.predictors.mlx.strand import Job
    from verifierd.predictors.mlx.talk import Talk


class MlxPredictor:
    """Predicts with a model of mlx-lm, which is found and loaded on a thread of its own.

    Args:
        settings: Which model, and what it may use.
        asking: How it is asked.
        say: Told what loading needs and does.

    Raises:
        PredictorError: The model is missing, damaged, does not fit into memory, or its chat template is unsuitable.
    """

    name = "mlx"

    def __init__(
        self, settings: ModelConfig, asking: Asking, *, say: Callable[[str], None] = lambda _line: None
    ) -> None:
        self.model: str | None = None
        self._deadline = asking.deadline

        def ready() -> ModelRunner:
            found = find(settings.name or DEFAULT, revision=settings.revision)
            self.model = found.label
            loaded = load(
                found, settings, say, suits=lambda tokenizer: written(tokenizer, found.name, settings, asking)
            )
            return ModelRunner(loaded, settings, asking)

        self._engine = Engine(ready, batch=settings.batch)

    async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:
        """What the model makes of the step, or an abstention with its reason."""
        job = Job(key=(*history.key, history.run), history=tuple(history), total=history.total, step=step, keep=keep)
        try:
            with anyio.move_on_after(self._deadline):
                return await self._engine.ask(job)
        except Unwanted:
            return self._abstain(Abstain.PREDICTOR_ERROR, "the predictor is closed")
        except OutOfMemory as error:
            return self._abstain(Abstain.PREDICTOR_ERROR, f"out of memory: {error}")
        except Exception as error:  # noqa: BLE001 - a model's failure costs a step; the thread logged it
            return self._abstain(Abstain.PREDICTOR_ERROR, f"{type(error).__name__}: {error}")
        return self._abstain(Abstain.TIMEOUT, f"no answer within {self._deadline:g} s")

    async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:
        """The model's reply, made between passes; what is computed for steps stays as it is.

        Raises:
            PredictorError: The talk does not fit the context, the chat template does not take it, the grammar is wrong,
                or the model failed.
        """
        try:
            return await self._engine.talk(Talk(messages=tuple(messages), asked=asked))
        except PredictorError:
            raise
        except Unwanted as error:
            raise PredictorError(f"{self.model}: the predictor is closed") from error
        except Exception as error:
            raise PredictorError(
                f"{self.model}: no reply: {type(error).__name__}: {error}",
                hint="A shorter talk, or smaller `cache-bytes` in the configuration's table [model], may help."
                if isinstance(error, OutOfMemory)
                else "The log has the traceback.",
            ) from error

    async def aclose(self) -> None:
        """End the model's thread at its next chunk."""
        await self._engine.aclose()

    def _abstain(self, reason: Abstain, detail: str) -> Prediction:
        return Prediction(predictor=self.name, abstain=reason, detail=detail, model=self.model)
