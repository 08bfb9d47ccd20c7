"""What can be said of a model before anything is predicted with it. `verifierd doctor` shows it."""

import importlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import get_args

import mlx.core as mx
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache

from verifierd.config import ModelConfig
from verifierd.errors import PredictorError
from verifierd.policy import Asking
from verifierd.predictors import prompt
from verifierd.predictors.mlx.loading import Found, load, load_tokenizer, metal_limit
from verifierd.predictors.mlx.passes import Network, greedy
from verifierd.predictors.mlx.template import ChatTemplate
from verifierd.types import Step

__all__ = ("beginnings", "caches", "device", "metal", "switch")

_SHOWN = 24
"""Tokens of an answer's beginning."""


def device() -> str:
    """Where MLX computes, in words."""
    name = str(mx.device_info().get("device_name", "unknown"))
    if mx.default_device() == mx.Device(mx.cpu):
        return f"the CPU ({name}), which is slow"
    return f"the GPU ({name})"


def metal() -> str:
    """What Metal may hold, and how that is changed; empty where there is no Metal."""
    limit = metal_limit()
    if limit is None:
        return ""
    return f"Metal may hold {limit / 1e9:.1f} GB (wired limit); `sudo sysctl iogpu.wired_limit_mb=N` raises it"


def switch(found: Found) -> str:
    """Whether the chat template has a switch for thinking.

    Raises:
        PredictorError: The template is unsuitable, or there is none.
    """
    template = ChatTemplate(load_tokenizer(found), found.name)
    ends = "ends in an empty think block" if template.thinking else "has no switch for thinking and needs none"
    return f"its chat template {ends}"


def caches(found: Found) -> str:
    """Which kinds of caches its layers have, without loading weights.

    Raises:
        PredictorError: This mlx-lm does not know the model's class.
    """
    try:
        module = importlib.import_module(f"mlx_lm.models.{_module_name(found.config['model_type'])}")
        model = module.Model(module.ModelArgs.from_dict(dict(found.config)))  # arrays are lazy: nothing is computed
    except Exception as error:
        raise PredictorError(
            f"{found.folder}: mlx-lm cannot build this model: {type(error).__name__}: {error}",
            hint="Its kind is unknown to this mlx-lm, or config.json is damaged: upgrade mlx-lm, or download it again.",
        ) from error
    layers = make_prompt_cache(model)
    counts = Counter(type(layer).__name__ for layer in layers)
    kinds = ", ".join(f"{count} {name}" for name, count in counts.items())
    trims = "can be trimmed" if can_trim_prompt_cache(layers) else "cannot be trimmed, so snapshots are kept"
    return f"its caches: {kinds}; {trims}"


def beginnings(found: Found, settings: ModelConfig, steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """How the model begins its answer to the last step, greedily, in each wrapper.

    Raises:
        PredictorError: The model cannot be used.
    """
    loaded = load(found, settings, lambda _line: None)
    template = ChatTemplate(loaded.tokenizer, found.name)
    network = Network(loaded.model, chunk=settings.chunk_tokens, logit_chunk=settings.logit_tokens)
    for wrapper in get_args(Asking.__annotations__["wrapper"]):
        form = prompt.Form(wrapper=wrapper)
        tokens = template.opening(prompt.system_prompt(steps[0].domain, None, form))
        for number, step in enumerate(steps, 1):
            tokens += [*template.encode(prompt.user_turn(step, number, form)).ids, *template.answer]
            if number < len(steps):
                answer = prompt.before(step, form) + prompt.observation(step) + prompt.after(form)
                tokens += [*template.encode(answer).ids, *template.closing]
        (answered,) = greedy(
            network, [tokens], [network.cache()], most=[_SHOWN], ends=template.ends, stopped=lambda: None
        )
        yield wrapper, repr(template.decode(answered))


def _module_name(model_type: str) -> str:
    from mlx_lm.utils import MODEL_REMAPPING  # noqa: PLC0415 - beside its only use

    return str(MODEL_REMAPPING.get(model_type, model_type))
