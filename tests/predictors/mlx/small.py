"""Models that cost next to nothing, and what tests ask of them."""

import copy
import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx_lm.generate import generate_step
from mlx_lm.models import cache as untyped
from mlx_lm.tokenizer_utils import load as load_tokenizer

from verifierd.predictors import prompt, tiny
from verifierd.predictors.mlx.passes import Network
from verifierd.predictors.mlx.strand import Job, Renderer
from verifierd.predictors.mlx.template import ChatTemplate
from verifierd.predictors.mlx.verifier import Limits, Verifier
from verifierd.types import Step

kinds: Any = untyped

FORM = prompt.Form(wrapper="none", action="command")

WRITTEN = "ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789.:=ĠĊ"
"""What the models of `writer` write: no two of these letters are one token together, but for two spaces."""


@cache
def tokenizer() -> Any:
    """The tiny models' tokenizer without the thousands of placeholders that make their logits cost something."""
    source = tiny.ready("tiny")
    content = json.loads((source / "tokenizer.json").read_text())
    vocabulary = content["model"]["vocab"]
    words = [word for word in vocabulary if not word.startswith("<|unused_")]
    content["model"]["vocab"] = {word: number for number, word in enumerate(words)}
    for number, mark in enumerate(content["added_tokens"], len(words)):
        mark["id"] = number
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tokenizer.json").write_text(json.dumps(content))
        (folder / "tokenizer_config.json").write_text((source / "tokenizer_config.json").read_text())
        ends = [len(words) + tiny.SPECIAL.index(mark) for mark in (tiny.END_OF_TURN, "<|endoftext|>")]
        return load_tokenizer(folder, eos_token_ids=ends)


VOCABULARY = 256 + len(tiny.MERGES) + len(tiny.MARKS)


@cache
def loaded(name: str) -> Any:
    """A tiny model's first two layers, one of each kind, with the vocabulary of `tokenizer`."""
    model: Any = mlx_lm.load(str(tiny.ready(name)))[0]
    inner = getattr(model, "language_model", model)
    inner.model.layers = inner.model.layers[:2]
    for part in (inner.model.embed_tokens, inner.lm_head):
        marks = len(tiny.MARKS)
        part.weight = mx.concatenate([part.weight[: VOCABULARY - marks], part.weight[-marks:]])
    return model


@cache
def writer(name: str) -> Any:
    """The same model, that writes readable text and comes to an end, so that what it says is the text of a draft."""
    model = copy.deepcopy(loaded(name))
    inner = getattr(model, "language_model", model)
    head = np.array(inner.lm_head.weight)
    head[:, 0] = -12.0
    head[tokenizer().convert_tokens_to_ids(list(WRITTEN)), 0] = 0.0
    head[tokenizer().eos_token_id, 0] = 0.4
    inner.lm_head.weight = mx.array(head)
    return model


@cache
def template() -> ChatTemplate:
    """The chat template of the tiny models."""
    return ChatTemplate(tokenizer(), "tiny")


class Ledger:
    """A model whose cache is nothing but what it was given: the tokens, as keys, and their sum, as a recurrent state.

    So a test reads from a cache what was computed, exactly and at once.
    """

    def __init__(self) -> None:
        self.layers = [None, None]
        self._weights = mx.random.normal((4, VOCABULARY), key=mx.random.key(0))

    def __call__(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        """Logits."""
        return self.lm_head(self.model(tokens, cache=cache))

    def model(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        """The body: waves of the sum of all tokens so far."""
        total, ledger = cache or self.make_cache()
        values = tokens.astype(mx.float32)
        mask = total.make_mask(tokens.shape[1])
        kept = values if mask is None else mx.where(mask, values, 0)
        before = mx.zeros((tokens.shape[0], 1)) if total[0] is None else total[0]
        total[0] = before + mx.sum(kept, axis=1, keepdims=True)
        total.advance(tokens.shape[1])
        ledger.update_and_fetch(values[:, None, :, None], values[:, None, :, None])
        sums = before + mx.cumsum(kept, axis=1)
        return mx.sin(sums[..., None] * mx.array([0.1, 0.7, 1.3, 2.9]))

    def lm_head(self, hidden: mx.array) -> mx.array:
        """The head."""
        return hidden @ self._weights

    def make_cache(self) -> list[Any]:
        """An empty cache."""
        return [kinds.ArraysCache(1), kinds.KVCache()]


class Rotating:
    """A model that attends to the last tokens only; its cache cannot be cut back, nor be put into a batch here."""

    def __init__(self, inner: Any) -> None:
        self.layers = inner.layers
        self.model = inner.model
        self.lm_head = inner.lm_head
        self._inner = inner

    def __call__(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        """Logits."""
        logits: mx.array = self._inner(tokens, cache=cache)
        return logits

    def make_cache(self) -> list[Any]:
        """An empty cache."""
        return [kinds.RotatingKVCache(max_size=64) for _ in self.layers]


def entries(cache: list[Any]) -> list[int]:
    """The tokens in a ledger's cache, of which the sum must be that of its recurrent state."""
    total, ledger = cache
    tokens = [int(token) for token in ledger.keys[0, 0, : ledger.offset, 0].tolist()]
    assert total[0].item() == sum(tokens)
    return tokens


def renderer(
    prompts: Path,
    *,
    history: Literal["stable", "template"] = "stable",
    longest: int = 400,
    form: prompt.Form = FORM,
) -> Renderer:
    """A renderer for a tiny model."""
    return Renderer(template(), form, history=history, prompts=prompts, longest=longest)


def verifier(
    model: Any,
    prompts: Path,
    *,
    history: Literal["stable", "template"] = "stable",
    form: prompt.Form = FORM,
    chunk: int = 16,
    context: int = 2000,
    cache_bytes: int = 10**9,
    max_tokens: int = 16,
    decode: bool = False,
) -> Verifier:
    """A verifier with small limits."""
    limits = Limits(context=context, cache_bytes=cache_bytes, max_tokens=max_tokens, decode=decode)
    return Verifier(
        Network(model, chunk=chunk, logit_chunk=8),
        renderer(prompts, history=history, longest=limits.longest, form=form),
        template().ends,
        limits,
    )


def job(history: Sequence[Step], step: Step, *, held: int | None = None, key: tuple[object, ...] = ("t",)) -> Job:
    """A job whose history holds the newest steps, all of them if not said otherwise."""
    kept = history if held is None else history[len(history) - held :]
    return Job(key=key, history=tuple(kept), total=len(history), step=step)


def conversation(
    prompts: Path,
    job: Job,
    *,
    history: Literal["stable", "template"],
    form: prompt.Form = FORM,
    first: int = 0,
    longest: int = 10**6,
) -> list[int]:
    """What a model is to answer, as its tokenizer and its own chat template write it.

    With the history `stable`, past answers begin with an empty think block, which is all the difference.
    """
    messages = [{"role": "system", "content": prompt.system_prompt(job.step.domain, prompts, form)}]
    for number in range(first, job.total):
        past = job.at(number)
        answer = prompt.before(past, form) + prompt.observation(past) + prompt.after(form)
        if len(tokenizer().encode(answer)) >= longest:
            answer = prompt.elide(answer, longest // 4)
        messages += [
            {"role": "user", "content": prompt.user_turn(past, number + 1, form)},
            {"role": "assistant", "content": answer},
        ]
    messages.append({"role": "user", "content": prompt.user_turn(job.step, job.total + 1, form)})
    text = tokenizer().apply_chat_template(messages, tokenize=False, add_generation_prompt=True, enable_thinking=False)
    if history == "stable":
        begin = "<|im_start|>assistant\n"
        empty = "<think>\n\n</think>\n\n"
        text = text.replace(begin + empty, begin).replace(begin, begin + empty)
    ids: list[int] = tokenizer().encode(text, add_special_tokens=False)
    return ids


def computed(model: Any, tokens: Sequence[int], cache: list[Any]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The logits that follow the tokens, which the cache takes in; in one pass of the whole model."""
    return np.array(model(mx.array([list(tokens)]), cache=cache)[0, -1].astype(mx.float32))


def decoded(model: Any, last: int, cache: list[Any], *, most: int, ends: frozenset[int]) -> list[tuple[int, float]]:
    """Plain greedy decoding by mlx-lm: each token, and how far its logit was above the second."""
    found = []
    for token, logits in generate_step(
        mx.array([last]),
        model,
        max_tokens=most,
        prompt_cache=copy.deepcopy(cache),
        stream=mx.default_stream(mx.default_device()),
    ):
        second, first = np.partition(np.array(logits), -2)[-2:]
        found.append((int(token), float(first - second)))
        if token in ends:
            break
    return found
