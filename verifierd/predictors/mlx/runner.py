"""What the model's thread runs: steps in, predictions out."""

from collections.abc import Callable, Sequence
from typing import Any

from verifierd.config import ModelConfig
from verifierd.errors import PredictorError
from verifierd.paths import expanded
from verifierd.policy import DOMAINS, Asking
from verifierd.predictors import prompt
from verifierd.predictors.mlx.grammar import Grammars
from verifierd.predictors.mlx.loading import Loaded
from verifierd.predictors.mlx.passes import Network, Scored
from verifierd.predictors.mlx.strand import Draft, Job, Renderer
from verifierd.predictors.mlx.talk import Talk, reply
from verifierd.predictors.mlx.template import ChatTemplate
from verifierd.predictors.mlx.verifier import Limits, Outcome, Verifier
from verifierd.stages import Reply
from verifierd.types import Abstain, Likelihood, Prediction, Step

__all__ = ("ModelRunner", "written")

_LOOK_AHEAD = 64
"""Tokens of what came that are compared with one that was expected: it may spell what several do."""

_THOUGHT = ("<think>", "</think>")

_PART_OF_A_CHARACTER = "\ufffd"
"""How tokenizers write bytes that are no whole character."""


def written(tokenizer: Any, name: str, settings: ModelConfig, asking: Asking) -> tuple[ChatTemplate, Renderer]:
    """How conversations with a model are written.

    Args:
        tokenizer: mlx-lm's wrapper.
        name: The model's, for errors.
        settings: What it may use.
        asking: How it is asked.

    Raises:
        PredictorError: The chat template or the prompts are unsuitable.
    """
    template = ChatTemplate(tokenizer, name)
    renderer = Renderer(
        template,
        _form(asking),
        history=asking.history,
        prompts=None if settings.prompts is None else expanded(settings.prompts),
        longest=settings.turn_tokens,
    )
    for domain in DOMAINS:
        if (size := len(renderer.opening(domain))) > settings.turn_tokens:
            raise PredictorError(
                f"the system prompt of `{domain}` takes {size:,} tokens, more than a quarter of "
                f"{settings.context_tokens:,}",
                hint="Raise `context-tokens` in the configuration's table [model].",
            )
    return template, renderer


class ModelRunner:
    """A loaded model that predicts. It belongs to the thread that makes it.

    Args:
        loaded: The model.
        settings: What it may use.
        asking: How it is asked.

    Raises:
        PredictorError: The chat template or the prompts are unsuitable.
    """

    def __init__(self, loaded: Loaded, settings: ModelConfig, asking: Asking) -> None:
        self._model = loaded.found.label
        self._form = _form(asking)
        limits = Limits(
            context=settings.context_tokens,
            cache_bytes=settings.cache_bytes,
            max_tokens=asking.max_tokens,
            decode=asking.predicted_text,
        )
        self._tokenizer = loaded.tokenizer
        self._grammars = Grammars(loaded.tokenizer)
        self._template, renderer = written(loaded.tokenizer, loaded.found.name, settings, asking)
        self._network = Network(loaded.model, chunk=settings.chunk_tokens, logit_chunk=settings.logit_tokens)
        self._verifier = Verifier(self._network, renderer, self._template.ends, limits)
        self._cap = limits.max_tokens
        self._context = limits.context

    def run(self, jobs: Sequence[Job], stopped: Callable[[], None]) -> list[Prediction]:
        """Predict a step of each of several trajectories; `stopped` raises if nobody waits any more."""
        outcomes = self._verifier.run(jobs, stopped)
        return [self._prediction(job.step, outcome) for job, outcome in zip(jobs, outcomes, strict=True)]

    def reply(self, talk: Talk, stopped: Callable[[], None]) -> Reply:
        """Talk, on a cache of its own; `stopped` as above.

        Raises:
            PredictorError: As `talk.reply`.
        """
        return reply(
            self._network,
            self._tokenizer,
            self._template,
            self._grammars,
            talk,
            context=self._context,
            model=self._model,
            stopped=stopped,
        )

    def forget(self, key: tuple[object, ...] | None = None) -> None:
        """Let go of what was computed for a trajectory, or for all."""
        self._verifier.forget(key)

    def _prediction(self, step: Step, outcome: Outcome) -> Prediction:
        draft, scored = outcome.draft, outcome.scored
        if scored is None:
            return Prediction(
                predictor="mlx",
                abstain=Abstain.TOO_LONG,
                detail="the observation is longer than a quarter of the context",
                model=self._model,
                tokens=outcome.tokens,
            )
        agreed = scored.agreed(draft.ids)
        broken, expected = self._difference(step, draft, scored, agreed)
        text, truncated = self._text(step, outcome, agreed)
        # What agreed is the environment's text, whatever it spells.
        own = self._template.decode(outcome.greedy[agreed:])
        if prompt.thought(own) or own.startswith(_THOUGHT):
            broken, expected = "the model thinks, though thinking is off", None
        dropped = f"{outcome.dropped} older turns no longer fit the context" if outcome.dropped else ""
        return Prediction(
            predictor="mlx",
            text=None if broken else text,
            truncated=truncated,
            likelihood=_likelihood(draft, scored, agreed, expected),
            failed=Abstain.ROLE_BREAK if broken else None,
            detail=broken or dropped,
            model=self._model,
            tokens=outcome.tokens,
        )

    def _text(self, step: Step, outcome: Outcome, agreed: int) -> tuple[str | None, bool]:
        """The predicted observation as far as it is known to its end or to the cap, and whether the cap cut it."""
        draft = outcome.draft
        if _throughout(draft, agreed) and (agreed < self._cap or len(draft.ids) == self._cap):
            return step.observation, False
        if agreed >= self._cap:
            place = self._cap - draft.first
            cut = draft.starts[place] if 0 <= place < len(draft.starts) else None
            return (step.observation if cut is None else step.observation[:cut]), True
        if len(outcome.greedy) <= agreed + 1 and not outcome.ended:
            return None, False
        tokens = outcome.greedy[:-1] if outcome.ended else outcome.greedy
        return prompt.parse(self._template.decode(tokens)), not outcome.ended

    def _difference(self, step: Step, draft: Draft, scored: Scored, agreed: int) -> tuple[str, str | None]:
        """What broke the role, if something did, and the token that was expected at the first difference.

        A token that spells the beginning of what came is no difference: others may spell the rest.
        """
        if _throughout(draft, agreed):
            return "", None
        token = scored.greedy[agreed]
        ends = token in self._template.ends
        said = "" if ends else self._template.decode([token])
        if agreed >= draft.first:
            came = self._template.decode(draft.ids[agreed : min(draft.last, agreed + _LOOK_AHEAD)]).rstrip()
            rest = (
                self._template.decode(draft.ids[agreed:-1]) if agreed > draft.last else came + prompt.after(self._form)
            )
            return "", self._expected(said, came, rest, ends=ends)
        wrapper = prompt.before(step, self._form)
        begun = self._template.decode(draft.ids[:agreed]) + said
        if begun.startswith(wrapper.rstrip()):
            said = begun[len(wrapper.rstrip()) :].lstrip("\n")
            came = step.observation.strip()
            same = came.startswith(said.rstrip(_PART_OF_A_CHARACTER)) if said else not ends
            return "", None if same else said
        if wrapper.startswith(begun) and not ends:
            return "", None
        return f"the model would answer “{begun[:60]}”, which is no observation", None

    def _expected(self, said: str, came: str, rest: str, *, ends: bool) -> str | None:
        """What was expected in place of what came, if it shows; `rest` is that with the closing tag."""
        if ends:
            return "" if came else None  # what is left is a closing tag at most
        if not came and not said.strip():
            return None  # white space at the end is not compared
        return None if rest.startswith(said.rstrip(_PART_OF_A_CHARACTER)) else said


def _throughout(draft: Draft, agreed: int) -> bool:
    """Is the draft what greedy decoding gives? What is left of a closing tag is a matter of form."""
    return agreed > draft.last + 1 or agreed == len(draft.ids)


def _likelihood(draft: Draft, scored: Scored, agreed: int, expected: str | None) -> Likelihood:
    throughout = _throughout(draft, agreed)
    # Of a closing tag that began as it should and did not go on, the token where it ended says how the answer ended.
    end = draft.last if throughout else max(draft.last, agreed)

    def picked(values: Sequence[float]) -> tuple[float, ...]:
        return (*values[draft.first : draft.last], values[end])

    return Likelihood(
        starts=tuple(draft.starts),
        surprisal=picked(scored.surprisal),
        entropy=picked(scored.entropy),
        varentropy=picked(scored.varentropy),
        top=picked(scored.top),
        agreed=max(0, min(agreed, draft.last + throughout) - draft.first),
        expected=expected,
    )


def _form(asking: Asking) -> prompt.Form:
    return prompt.Form(wrapper=asking.wrapper, action=asking.action, screen=asking.screen)
