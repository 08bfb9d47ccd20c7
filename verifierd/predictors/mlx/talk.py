"""Talking to the model, beside the steps: plain generation by mlx-lm, with a cache that is thrown away."""

import time
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import msgspec
from mlx_lm.generate import stream_generate
from mlx_lm.sample_utils import make_sampler

from verifierd.errors import PredictorError
from verifierd.predictors import prompt
from verifierd.predictors.mlx.grammar import Grammars
from verifierd.predictors.mlx.passes import Network, Stopped, stream
from verifierd.predictors.mlx.template import ChatTemplate
from verifierd.stages import Asked, Message, Reply

__all__ = ("Talk", "reply")


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the model.

    Attributes:
        messages: What was said so far.
        asked: How the reply is to be made.
    """

    messages: Sequence[Message]
    asked: Asked


def reply(
    network: Network,
    tokenizer: Any,
    template: ChatTemplate,
    grammars: Grammars,
    talk: Talk,
    *,
    context: int,
    model: str,
    stopped: Stopped,
) -> Reply:
    """The model's reply.

    Args:
        network: The model.
        tokenizer: mlx-lm's wrapper.
        template: Its chat template.
        grammars: What holds replies to a grammar.
        talk: What is asked.
        context: Most tokens of prompt and reply.
        model: The model's name.
        stopped: Raises if nobody waits any more; asked between chunks and tokens.

    Raises:
        PredictorError: The talk does not fit the context, the chat template does not take it, or the grammar is wrong.
    """
    asked = talk.asked
    begun = time.perf_counter()
    ids, opened = template.talk(talk.messages, thinking=asked.thinking)
    if len(ids) + asked.max_tokens > context:
        raise PredictorError(
            f"a talk of {len(ids):,} tokens and a reply of up to {asked.max_tokens:,} exceed {context:,}",
            hint="Raise `context-tokens` in the configuration's table [model], or ask for a shorter reply.",
        )
    processors = [] if asked.grammar is None else [grammars.processor(asked.grammar)]
    mx.random.seed(asked.seed)
    first = 0.0
    said: list[int] = []
    finish = None
    for response in stream_generate(
        network.model,
        tokenizer,
        ids,
        max_tokens=asked.max_tokens,
        sampler=make_sampler(asked.temperature, top_p=asked.top_p, top_k=asked.top_k),
        logits_processors=processors,
        prefill_step_size=network.chunk,
        prompt_progress_callback=lambda *_: stopped(),
        stream=stream(),
    ):
        stopped()
        first = first or time.perf_counter() - begun
        finish = response.finish_reason
        said.append(response.token)
    generated = len(said)
    if finish == "stop":
        said.pop()  # the end of the turn
    thought, text = prompt.divided(template.decode(said), opened=opened)
    return Reply(
        text=text,
        thought=thought,
        finish="stop" if finish == "stop" else "length",
        prompt_tokens=len(ids),
        generated_tokens=generated,
        seconds=time.perf_counter() - begun,
        first_token_seconds=first,
        model=model,
    )
