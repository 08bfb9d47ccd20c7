"""Replies held to a grammar, by llguidance: of the tokens that may come next, the model takes the likeliest."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from verifierd.errors import PredictorError

__all__ = ("Grammars", "Processor")

Processor = Callable[[mx.array, mx.array], mx.array]
"""Of the tokens so far, and of the logits (1, N) of the next, new logits."""


class Grammars:
    """Grammars over the tokens of one model.

    Args:
        tokenizer: mlx-lm's wrapper.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: Any = None  # made when first needed: it takes seconds

    def processor(self, grammar: str) -> Processor:
        """What holds one reply to a grammar.

        Raises:
            PredictorError: The grammar is wrong, or llguidance is not to be had or cannot take the tokenizer.
        """
        try:
            from llguidance import LLMatcher  # noqa: PLC0415 - few replies are held to a grammar
            from llguidance.hf import from_tokenizer  # noqa: PLC0415 - as above

            if self._known is None:
                self._known = from_tokenizer(
                    self._tokenizer._tokenizer,  # noqa: SLF001 - it takes no wrapper
                    eos_token=sorted(self._tokenizer.eos_token_ids),
                )
        except (ImportError, ValueError) as error:
            raise PredictorError(
                f"replies cannot be held to a grammar here: {error}",
                hint="It takes `pip install llguidance`, and a model with a fast tokenizer.",
            ) from error
        matcher = LLMatcher(self._known, LLMatcher.grammar_from_lark(grammar), log_level=0)
        if matcher.is_error():
            raise PredictorError(
                f"the grammar is wrong: {' '.join(matcher.get_error().split())}",
                hint="Write it in Lark's notation, as llguidance reads it.",
            )
        begun = False

        def held(tokens: mx.array, logits: mx.array) -> mx.array:
            nonlocal begun
            if begun:
                matcher.consume_token(int(tokens[-1]))
            begun = True
            # Bytes, one of each token: 0 where it may not come. A model's head may be wider than its vocabulary.
            may = np.frombuffer(matcher.compute_logit_bias(), dtype=np.uint8)[: logits.shape[-1]] > 0
            mask = np.zeros(logits.shape[-1], dtype=np.bool_)
            mask[: len(may)] = may
            return mx.where(mx.array(mask), logits, -mx.inf)

        return held
