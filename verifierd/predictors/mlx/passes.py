"""Forward passes over a prompt cache: prefill, score a draft, decode. All arrays are MLX's, on the thread's stream.

Shapes: B rows, S tokens, D hidden size, N vocabulary.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mlx.core as mx
import msgspec
import numpy as np
from mlx_lm.generate import BatchGenerator, generate_step
from mlx_lm.models.cache import ArraysCache, KVCache, make_prompt_cache
from numpy.typing import NDArray

__all__ = ("Network", "Scored", "Snapshot", "greedy", "mergeable", "merged", "prefill", "row", "score", "stream")

Cache = list[Any]
Stopped = Callable[[], None]
"""Raises if the work is no longer wanted; asked between chunks."""


class Scored(msgspec.Struct, frozen=True):
    """What the model says of each token of a draft, in nats.

    Attributes:
        greedy: The token that the model would have taken there.
        surprisal: -log p of the draft's token.
        entropy: Mean of -log p over the distribution.
        varentropy: Variance of -log p over the distribution.
        top: -log p of the greedy token.
    """

    greedy: list[int]
    surprisal: list[float]
    entropy: list[float]
    varentropy: list[float]
    top: list[float]

    def agreed(self, draft: Sequence[int]) -> int:
        """How many leading tokens of the draft are the greedy ones."""
        return next(
            (place for place, pair in enumerate(zip(self.greedy, draft, strict=True)) if pair[0] != pair[1]), len(draft)
        )


class Network:
    """A language model as body and head, so that logits are computed where they are wanted and nowhere else.

    mlx-lm's models compute the logits of every token that they are given. Body and head are found by mlx-lm's naming;
    where putting them together does not give the model's own logits (a scaled or capped head), the model is used whole.

    Args:
        model: A model of mlx-lm.
        chunk: Tokens of a pass, over all rows.
        logit_chunk: Positions whose logits are held at once: 4 bytes x vocabulary each, and a few copies.
    """

    def __init__(self, model: Any, *, chunk: int = 512, logit_chunk: int = 128) -> None:
        self.model = model
        inner = getattr(model, "language_model", model)
        body = getattr(inner, "model", None)
        head = getattr(inner, "lm_head", None) or getattr(getattr(body, "embed_tokens", None), "as_linear", None)
        self.split = body is not None and head is not None and _same(model, body, head)
        self.chunk = chunk if self.split else min(chunk, logit_chunk)
        self.logit_chunk = logit_chunk
        self._body: Any = body if self.split else model
        self._head: Any = head if self.split else None
        self._weight = _weight(head) if self.split else None

    def cache(self) -> Cache:
        """An empty prompt cache."""
        made: Cache = make_prompt_cache(self.model)
        return made

    def body(self, tokens: mx.array, cache: Cache) -> mx.array:
        """Hidden states (B, S, D) of tokens (B, S), or their logits where the model is used whole."""
        states: mx.array = self._body(tokens, cache=cache)
        return states

    def head(self, hidden: mx.array) -> mx.array:
        """Logits (..., N) of hidden states."""
        if self._head is None:
            return hidden
        if self._weight is not None:
            mx.eval(hidden)
            return mx.array(np.array(hidden, copy=False) @ self._weight.T)
        logits: mx.array = self._head(hidden)
        return logits


def prefill(
    network: Network,
    tokens: Sequence[Sequence[int]],
    cache: Cache,
    *,
    stopped: Stopped,
    done: Callable[[int], None] = lambda _count: None,
) -> None:
    """Take tokens into a cache, without logits.

    Args:
        network: The model.
        tokens: One row each, as the cache has rows.
        cache: Is changed.
        stopped: Asked before each chunk.
        done: Told how many tokens of a row the cache has taken, after each chunk.
    """
    for part in _parts(tokens, cache, network.chunk):
        stopped()
        network.body(part, cache)
        mx.eval([layer.state for layer in cache])
        mx.clear_cache()
        done(part.shape[1])


def score(
    network: Network, leads: Sequence[Sequence[int]], drafts: Sequence[Sequence[int]], cache: Cache, *, stopped: Stopped
) -> list[Scored]:
    """Take leads and drafts into a cache and say, for each token of a draft, what the model made of it.

    Args:
        network: The model.
        leads: What stands before each draft and is not in the cache: one token at least, as it predicts the first.
        drafts: One a row. The last token is not taken in: nothing after it is predicted.
        cache: Is changed; it then holds each lead and draft but the draft's last token.
        stopped: Asked before each chunk.
    """
    rows = [[*lead, *draft[:-1]] for lead, draft in zip(leads, drafts, strict=True)]
    hidden: list[list[mx.array]] = [[] for _ in rows]
    found = [Scored([], [], [], [], []) for _ in rows]
    begin = 0
    for part in _parts(rows, cache, network.chunk):
        stopped()
        states = network.body(part, cache)
        end = begin + part.shape[1]
        for row, (lead, tokens) in enumerate(zip(leads, rows, strict=True)):
            first, last = max(begin, len(lead) - 1), min(end, len(tokens))
            if first >= last:
                continue
            hidden[row].append(states[row, first - begin : last - begin])
        mx.eval([layer.state for layer in cache], hidden)
        if not network.split:  # these are logits: they must not pile up
            _reduce(network, hidden, drafts, found)
        mx.clear_cache()
        begin = end
    stopped()
    _reduce(network, hidden, drafts, found)
    return found


def greedy(
    network: Network,
    prompts: Sequence[Sequence[int]],
    caches: Sequence[Cache],
    *,
    most: Sequence[int],
    ends: frozenset[int],
    stopped: Stopped,
) -> list[list[int]]:
    """Plain greedy decoding by mlx-lm, in one batch where there are several prompts and their caches allow.

    Args:
        network: The model.
        prompts: What is not yet in the caches; one token at least.
        caches: Are changed.
        most: Tokens to decode for each.
        ends: Tokens that end an answer.
        stopped: Asked before each token.

    Returns:
        For each prompt at most so many tokens; the last is one of `ends` unless that many came before.
    """
    if len(prompts) == 1 or not all(map(mergeable, caches)):
        return [
            list(_decoded(network, prompt, cache, most=limit, ends=ends, stopped=stopped))
            for prompt, cache, limit in zip(prompts, caches, most, strict=True)
        ]
    generator = BatchGenerator(
        network.model,
        stop_tokens=[[end] for end in ends],
        prefill_step_size=network.chunk,
        completion_batch_size=len(prompts),
        prefill_batch_size=len(prompts),
        stream=stream(),
    )
    try:
        numbers = generator.insert([list(prompt) for prompt in prompts], list(most), [list(cache) for cache in caches])
        decoded: dict[int, list[int]] = {number: [] for number in numbers}
        while found := generator.next_generated():
            stopped()
            for response in found:
                decoded[response.uid].append(response.token)
    finally:
        generator.close()
    return [decoded[number] for number in numbers]


def _decoded(
    network: Network, prompt: Sequence[int], cache: Cache, *, most: int, ends: frozenset[int], stopped: Stopped
) -> Iterator[int]:
    stopped()
    for token, _ in generate_step(
        mx.array(list(prompt)),
        network.model,
        max_tokens=most,
        prompt_cache=cache,
        prefill_step_size=network.chunk,
        stream=stream(),
    ):
        yield int(token)
        if token in ends:
            return
        stopped()


def stream() -> mx.Stream:
    """The stream that passes run on, so that they see each other's results in order."""
    return mx.default_stream(mx.default_device())


class Snapshot:
    """A cache at one moment, to come back to.

    Recurrent states (`ArraysCache`) cannot be trimmed, but each is a new array after every pass, so keeping the old
    one costs its bytes and no copy. Attention keys are only ever added to, so their number is enough. Of any other
    kind of layer, such as a rotating one, a copy is kept.
    """

    def __init__(self, cache: Cache) -> None:
        self._kept: list[Any] = [_kept(layer) for layer in cache]

    @classmethod
    def of_row(cls, cache: Cache, number: int, length: int) -> "Snapshot":
        """Of one row of a merged cache, which holds that many tokens."""
        made = cls([])
        made._kept = [
            [mx.contiguous(array[number : number + 1]) for array in layer.state[0]]
            if isinstance(layer, ArraysCache)
            else length
            for layer in cache
        ]
        mx.eval([kept for kept in made._kept if isinstance(kept, list)])
        return made

    @property
    def nbytes(self) -> int:
        """Bytes that are held beside the cache's own."""
        held = 0
        for kept in self._kept:
            if isinstance(kept, list):
                held += sum(array.nbytes for array in kept if array is not None)
            elif not isinstance(kept, int):
                held += kept.nbytes
        return held

    def restore(self, cache: Cache) -> None:
        """Bring the cache, which has gone on since, back to this moment."""
        for place, (layer, kept) in enumerate(zip(cache, self._kept, strict=True)):
            if isinstance(kept, list):
                layer.cache = list(kept)
            elif isinstance(kept, int):
                layer.trim(layer.size() - kept)
            else:
                cache[place] = copy.deepcopy(kept)

    def branch(self, cache: Cache) -> Cache:
        """A cache of its own as of this moment, that can go on without changing the other."""
        made: Cache = []
        for layer, kept in zip(cache, self._kept, strict=True):
            if isinstance(kept, list):
                arrays = ArraysCache(len(kept))
                arrays.cache = list(kept)
                made.append(arrays)
            elif isinstance(kept, int):
                keys = KVCache()
                if kept:
                    # Slices of exact length: writing goes to new arrays, never to the shared ones.
                    keys.keys, keys.values = layer.keys[..., :kept, :], layer.values[..., :kept, :]
                    keys.offset = kept
                made.append(keys)
            else:
                made.append(copy.deepcopy(kept))
        return made


def _kept(layer: Any) -> Any:
    """What brings a layer back: its arrays, its length, or a copy of it."""
    if type(layer) is ArraysCache:
        return list(layer.cache)
    return layer.size() if type(layer) is KVCache else copy.deepcopy(layer)


def merged(caches: Sequence[Cache]) -> Cache:
    """Caches of one row each as one of many rows; they are copied."""
    return [layers[0].merge(list(layers)) for layers in zip(*caches, strict=True)]


def row(cache: Cache, number: int) -> Cache:
    """One row of a merged cache as a cache of its own."""
    made = [layer.extract(number) for layer in cache]
    for layer in made:
        if isinstance(layer, ArraysCache):
            # A slice would keep the whole batch's array alive.
            layer.cache = [array if array is None else mx.contiguous(array) for array in layer.cache]
    mx.eval([layer.state for layer in made])
    return made


def mergeable(cache: Cache) -> bool:
    """Is a cache of the kinds that can be snapshot, branched and put together with others as rows of a batch?"""
    return all(type(layer) in (KVCache, ArraysCache) for layer in cache)


def _parts(tokens: Sequence[Sequence[int]], cache: Cache, chunk: int) -> Iterator[mx.array]:
    """Chunks (B, at most chunk / B) of rows; shorter rows are padded on the right and the caches told so."""
    lengths = [len(row) for row in tokens]
    longest = max(lengths)
    padding = [longest - length for length in lengths]
    if any(padding):
        for layer in cache:
            layer.prepare(lengths=lengths, right_padding=padding)
    rows = mx.array([[*row, *([0] * pad)] for row, pad in zip(tokens, padding, strict=True)], dtype=mx.uint32)
    width = max(1, chunk // len(tokens))
    for begin in range(0, longest, width):
        yield rows[:, begin : begin + width]
    if any(padding):
        for layer in cache:
            layer.finalize()


def _reduce(
    network: Network, hidden: list[list[mx.array]], drafts: Sequence[Sequence[int]], found: list[Scored]
) -> None:
    """Turn the hidden states collected so far into statistics, a few positions at a time."""
    for states, draft, scored in zip(hidden, drafts, found, strict=True):
        if not states:
            continue
        joined = states[0] if len(states) == 1 else mx.concatenate(states)
        states.clear()
        for begin in range(0, joined.shape[0], network.logit_chunk):
            part = joined[begin : begin + network.logit_chunk]
            done = len(scored.greedy)
            more = _statistics(network.head(part), draft[done : done + part.shape[0]])
            for held, added in zip(msgspec.structs.astuple(scored), more, strict=True):
                held.extend(added)


def _statistics(logits: mx.array, targets: Sequence[int]) -> list[list[Any]]:
    """Of logits (P, N) and P targets: greedy, surprisal, entropy, varentropy, top; each of P entries."""
    kernel = _statistics_by_numpy if mx.default_device() == mx.Device(mx.cpu) else _statistics_by_mlx
    return kernel(logits.astype(mx.float32), targets)


def _statistics_by_mlx(logits: mx.array, targets: Sequence[int]) -> list[list[Any]]:
    greedy = mx.argmax(logits, axis=-1)
    log = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    weighted = mx.exp(log) * log
    entropy = -mx.sum(weighted, axis=-1)
    varentropy = mx.maximum(mx.sum(weighted * log, axis=-1) - entropy * entropy, 0.0)
    picked = mx.stack([mx.array(list(targets)), greedy.astype(mx.int32)], axis=-1)
    surprisal, top = mx.split(-mx.take_along_axis(log, picked, axis=-1), 2, axis=-1)
    found = [greedy, surprisal[:, 0], entropy, varentropy, top[:, 0]]
    mx.eval(found)
    return [array.tolist() for array in found]  # type: ignore[misc] # of one dimension, so a list


def _statistics_by_numpy(logits: mx.array, targets: Sequence[int]) -> list[list[Any]]:
    """The same by numpy, on the very same memory: on a CPU MLX takes three times as long, half of what a pass takes.

    Row by row, so that what is at work stays in the processor's own cache.
    """
    mx.eval(logits)
    values = np.array(logits, copy=False)
    shifted, weights = np.empty_like(values[0]), np.empty_like(values[0])
    found: list[list[Any]] = [[], [], [], [], []]
    for logit, target in zip(values, targets, strict=True):
        greedy = int(logit.argmax())
        np.subtract(logit, logit[greedy], out=shifted)
        np.exp(shifted, out=weights)
        total = float(weights.sum())
        mean = float(weights @ shifted) / total
        np.multiply(weights, shifted, out=weights)
        square = float(weights @ shifted) / total
        normaliser = math.log(total)
        row = greedy, normaliser - float(shifted[target]), normaliser - mean, max(square - mean * mean, 0.0), normaliser
        for held, more in zip(found, row, strict=True):
            held.append(more)
    return found


def _weight(head: Any) -> NDArray[np.float32] | None:
    """The matrix (N, D) of a plain head in 32 bits on a CPU, on the very same memory; None for any other head.

    There MLX multiplies many rows fifty times slower than numpy: it took more than half of a pass.
    """
    layer = getattr(head, "__self__", head)  # an embedding's method, where the weights are tied
    plain = type(layer).__name__ in {"Linear", "Embedding"} and "bias" not in layer
    if not plain or layer.weight.dtype != mx.float32 or mx.default_device() != mx.Device(mx.cpu):
        return None
    mx.eval(layer.weight)
    return np.array(layer.weight, copy=False)


def _same(model: Any, body: Any, head: Any) -> bool:
    """Does the head of the body give the model's own logits?"""
    tokens = mx.array([[1, 2, 3]])
    try:
        return bool(mx.allclose(model(tokens), head(body(tokens)), atol=1e-3, rtol=1e-3))
    except (TypeError, ValueError, AttributeError):
        return False
