"""A chat template taken apart, so that a growing conversation is rendered one turn at a time.

Rendering a whole conversation anew at each step costs time that grows with it, and the templates of the Qwen3.5
family drop the empty think block from turns of the past, so what was computed is no prefix of what comes next
(QwenLM/Qwen3.8 issue 48). The pieces between the messages are learnt once, from the template itself.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from verifierd.errors import PredictorError
from verifierd.stages import Message

__all__ = ("ChatTemplate", "Encoded")

_SENTINELS = ("SYSTEMtext", "USERone", "ANSWERone", "USERtwo", "ANSWERtwo", "USERthree")
_EMPTY_THOUGHT = re.compile(r"<think>\s*</think>\s*\Z")


class Encoded(msgspec.Struct, frozen=True):
    """A text as tokens.

    Attributes:
        ids: The tokens.
        starts: Where each begins, in characters of the text; empty if the tokenizer cannot say.
    """

    ids: list[int]
    starts: list[int]


class ChatTemplate:
    """Pieces of a conversation as tokens.

    A conversation is `opening(system)`, then for each turn the action and `answer` or `past_answer` before what the
    environment returned, and `closing` after it.

    Args:
        tokenizer: mlx-lm's wrapper around a Hugging Face tokenizer.
        model: The model's name, for errors.

    Attributes:
        thinking: Does the template have a switch for thinking? It is off in what is rendered here.

    Raises:
        PredictorError: There is no template, it ignores the switch, or it does not compose turn by turn.
    """

    def __init__(self, tokenizer: Any, model: str) -> None:
        self._tokenizer = tokenizer
        self._fast = tokenizer._tokenizer if tokenizer.is_fast else None  # noqa: SLF001 - the wrapper is not callable
        self._model = model
        if not tokenizer.has_chat_template:
            raise PredictorError(
                f"{model}: its tokenizer has no chat template",
                hint="Take an instruction-tuned checkpoint, or put a chat_template into its tokenizer_config.json.",
            )
        # A text that spells a special token must stay text: it would end the turn for the model.
        self._special = _alternatives(tokenizer)
        roles = ["system", *("assistant" if number % 2 else "user" for number in range(len(_SENTINELS) - 1))]
        dialogue = list(zip(roles, _SENTINELS, strict=True))
        off, on = self._render(dialogue, thinking=False), self._render(dialogue, thinking=True)
        self.thinking = off != on
        pieces = _split(off, _SENTINELS)
        head, first, answer, closing, answer_again, closing_again, last = pieces or [""] * 7
        if not pieces or (answer, closing) != (answer_again, closing_again):
            raise PredictorError(
                f"{model}: its chat template does not compose turn by turn",
                hint="verifierd needs one that renders system, user and assistant messages one after the other.",
            )
        self._check_switch(last)
        self._head, self._first = self._encode(head), self._encode(first)
        self.closing = self._encode(closing)
        """Tokens after an answer of the past, up to the next action."""
        self.past_answer = self._encode(answer)
        """Tokens between an action and its answer, as the template renders the past."""
        self.answer = self._encode(last)
        """Tokens between an action and the answer that is asked for, thinking off."""
        self.end = self.closing[0] if self.closing else -1
        """The token that ends an answer of the past."""
        if self.end not in tokenizer.eos_token_ids:
            raise PredictorError(
                f"{model}: its chat template does not end an answer with an end-of-turn token",
                hint="Check eos_token in its tokenizer_config.json against the chat template.",
            )
        self.ends = frozenset(tokenizer.eos_token_ids)
        """All tokens that end an answer when the model gives them."""

    def opening(self, system: str) -> list[int]:
        """The tokens up to the first action."""
        return [*self._head, *self.encode(system).ids, *self._first]

    def talk(self, messages: Sequence[Message], *, thinking: bool) -> tuple[list[int], bool]:
        """The tokens of a talk, up to the reply, and whether they end within a thought.

        Raises:
            PredictorError: The template does not take such messages.
        """
        sentinels = [f"MESSAGE{number}text" for number in range(len(messages))]
        roles = [message.role for message in messages]
        pieces = _split(self._render(list(zip(roles, sentinels, strict=True)), thinking=thinking), sentinels)
        if pieces is None:
            raise PredictorError(
                f"{self._model}: its chat template leaves out messages, or says them twice",
                hint="A talk begins with a system or a user message; then user and assistant take turns.",
            )
        ids = self._encode(pieces[0])
        for message, piece in zip(messages, pieces[1:], strict=True):
            ids += [*self.encode(message.content.strip()).ids, *self._encode(piece)]
        return ids, pieces[-1].rstrip().endswith("<think>")

    def encode(self, text: str) -> Encoded:
        """A message's content as tokens; nothing in it is taken for a special token."""
        ids: list[int] = []
        starts: list[int] = []
        known = True
        begin = 0
        # Cut behind the first character of whatever looks like a special token: neither part is one any more.
        cuts = [match.start() + 1 for match in self._special.finditer(text)] if self._special else []
        for end in (*cuts, len(text)):
            if begin == end:
                continue
            if self._fast is not None:
                found = self._fast(text[begin:end], add_special_tokens=False, return_offsets_mapping=True)
                ids += found["input_ids"]
                starts += [begin + start for start, _ in found["offset_mapping"]]
            else:
                ids += self._encode(text[begin:end])
                known = False
            begin = end
        return Encoded(ids, starts if known else [])

    def decode(self, ids: Sequence[int]) -> str:
        """Tokens as text, special ones too."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _render(self, dialogue: Sequence[tuple[str, str]], *, thinking: bool) -> str:
        messages = [{"role": role, "content": text} for role, text in dialogue]
        try:
            text: str = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=thinking
            )
        except Exception as error:  # a template is a program of its own and raises what it likes
            raise PredictorError(
                f"{self._model}: its chat template fails on a conversation: {error}",
                hint="verifierd needs a template that takes system, user and assistant messages.",
            ) from error
        return text

    def _check_switch(self, answer: str) -> None:
        """Thinking must be off in what is rendered, if the model knows thinking at all."""
        source = str(self._tokenizer.chat_template or "")
        thinks = self.thinking or "<think>" in source or self._tokenizer.has_thinking
        if thinks and not _EMPTY_THOUGHT.search(answer):
            reason = "ignores `enable_thinking`" if not self.thinking else "leaves thinking on with the switch off"
            raise PredictorError(
                f"{self._model}: its chat template {reason}; the prompt would end in “{answer[-40:]}”",
                hint="Take the checkpoint's original chat_template, which ends in an empty think block when it is off.",
            )


def _split(text: str, sentinels: Sequence[str]) -> list[str] | None:
    """What stands around the sentinels, or None if they are not there once each and in order."""
    pieces = []
    for sentinel in sentinels:
        before, found, text = text.partition(sentinel)
        if not found or sentinel in text:
            return None
        pieces.append(before)
    return [*pieces, text]


def _alternatives(tokenizer: Any) -> re.Pattern[str] | None:
    added = {str(token) for token in tokenizer.added_tokens_decoder.values()} | set(tokenizer.all_special_tokens)
    longest = sorted((token for token in added if len(token) > 1), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest))) if longest else None
