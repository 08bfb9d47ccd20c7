"""Passes over a cache give what the whole model gives, and their statistics are those of its distribution."""

import copy
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from tests.predictors.mlx import small
from verifierd.predictors import tiny
from verifierd.predictors.mlx import passes
from verifierd.predictors.mlx.passes import Network, Snapshot

MODELS = ("ledger", *tiny.NAMES, "capped", "rotating")
DRAW = np.random.default_rng(0)
LEAD = DRAW.integers(0, 250, 7).tolist()
DRAFT = DRAW.integers(0, 250, 40).tolist()

ROWS, LENGTH = 64, 24
"""Sequences that are sampled in the test: of each D is one number, so its variance has the standard error .18."""


class _Capped:
    """A model with a capped head, as some families have: body and head alone do not give its logits."""

    def __init__(self, inner: Any) -> None:
        self.layers = inner.layers
        self.model = inner.model
        self.lm_head = inner.lm_head
        self._inner = inner

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        return 4.0 * mx.tanh(self._inner(tokens, cache=cache) / 4.0)


@cache
def _model(name: str) -> Any:
    match name:
        case "ledger":
            return small.Ledger()
        case "capped":
            return _Capped(small.loaded("tiny-attention"))
        case "rotating":
            return small.Rotating(small.loaded("tiny-attention"))
    return small.loaded(name)


def _go_on() -> None:
    """Nobody stops."""


def _score(network: Network, lead: Sequence[int], draft: Sequence[int], held: list[Any] | None = None) -> passes.Scored:
    return passes.score(network, [lead], [draft], network.cache() if held is None else held, stopped=_go_on)[0]


def _reference(logits: np.ndarray[Any, Any], draft: Sequence[int]) -> dict[str, list[float]]:
    """The statistics as their definitions say, in double precision."""
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    entropy = -(np.exp(log) * log).sum(axis=-1)
    varentropy = (np.exp(log) * (-log - entropy[:, None]) ** 2).sum(axis=-1)
    found = {
        "greedy": logits.argmax(axis=-1),
        "surprisal": -log[np.arange(len(log)), list(draft)],
        "entropy": entropy,
        "varentropy": varentropy,
        "top": -log.max(axis=-1),
    }
    return {name: values.tolist() for name, values in found.items()}


def _assert_like(found: Any, expected: dict[str, list[float]], tolerance: float) -> None:
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(found, name), values, atol=tolerance, rtol=tolerance, err_msg=name)


@pytest.mark.parametrize("chunk", [1, 7, 16, 64])
@pytest.mark.parametrize("name", [name for name in MODELS if name != "rotating"])  # which sees what its chunk holds
def test_score(name: str, chunk: int) -> None:
    """The statistics of a draft are those of the model's own logits, however the passes are cut."""
    model = _model(name)
    network = Network(model, chunk=chunk, logit_chunk=5)
    logits = np.array(model(mx.array([[*LEAD, *DRAFT]]), cache=network.cache()))[0, len(LEAD) - 1 : -1]

    scored = _score(network, LEAD, DRAFT)

    assert network.split == (name != "capped")
    _assert_like(scored, _reference(logits, DRAFT), 1e-3)


@pytest.mark.parametrize("kernel", [passes._statistics_by_mlx, passes._statistics_by_numpy])
@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0, 100.0])
def test_statistics(kernel: Any, spread: float) -> None:
    """On a GPU and on a CPU the statistics are right, be a distribution flat, sharp, or one sure token."""
    logits = (DRAW.normal(size=(9, 32_768)) * spread + 50.0).astype(np.float32)
    draft = DRAW.integers(0, 32_768, 9).tolist()

    found = dict(zip(passes.Scored.__struct_fields__, kernel(mx.array(logits), draft), strict=True))
    expected = _reference(logits, draft)

    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=2e-3, rtol=1e-4, err_msg=name)


def test_full_vocabulary() -> None:
    """So it is in half precision, too, with the vocabulary that costs as much as a real one."""
    logits = mx.array(DRAW.normal(size=(3, 32_768)) * 3).astype(mx.bfloat16)
    draft = [1, 2, 3]

    found = dict(zip(passes.Scored.__struct_fields__, passes._statistics(logits, draft), strict=True))

    for name, values in _reference(np.array(logits.astype(mx.float32)), draft).items():
        np.testing.assert_allclose(found[name], values, atol=2e-3, rtol=1e-4, err_msg=name)


def test_agreed() -> None:
    """A draft agrees up to the first token that is not the greedy one."""
    scored = passes.Scored([5, 6, 7], [], [], [], [])

    assert [scored.agreed(draft) for draft in ([5, 6, 7], [5, 6, 8], [5, 7, 7], [4, 6, 7])] == [3, 2, 1, 0]


@pytest.mark.parametrize("name", ["ledger", *tiny.NAMES])
def test_rows(name: str) -> None:
    """Rows of unlike length are scored in a batch as one by one, and their caches can be told apart afterwards."""
    network = Network(_model(name), chunk=12, logit_chunk=5)
    prompts = [LEAD[:1], LEAD, [*LEAD, *DRAFT], DRAFT[:9]]
    drafts = [DRAFT[:30], DRAFT[5:6], DRAFT[20:29], LEAD]
    singles = [network.cache() for _ in prompts]
    for prompt, held in zip(prompts, singles, strict=True):
        passes.prefill(network, [prompt], held, stopped=_go_on)
    batch = passes.merged(copy.deepcopy(singles))
    leads = [[1], [2, 3], [4], [5]]

    together = passes.score(network, leads, drafts, batch, stopped=_go_on)

    for number, (lead, draft, held) in enumerate(zip(leads, drafts, singles, strict=True)):
        alone = _score(network, lead, draft, held)
        for field in ("surprisal", "entropy", "varentropy", "top"):
            np.testing.assert_allclose(getattr(together[number], field), getattr(alone, field), atol=2e-3)
        np.testing.assert_allclose(
            small.computed(network.model, [9], passes.row(batch, number)),
            small.computed(network.model, [9], held),
            atol=2e-3,
        )


def test_rows_without_tokens() -> None:
    """A row that has nothing to prefill waits for those that have."""
    network = Network(small.Ledger(), chunk=6)
    singles = [network.cache() for _ in range(3)]
    for held, size in zip(singles, (3, 5, 1), strict=True):
        passes.prefill(network, [LEAD[:size]], held, stopped=_go_on)
    batch = passes.merged(singles)
    passes.prefill(network, [[], DRAFT, DRAFT[:2]], batch, stopped=_go_on)

    rows = [small.entries(passes.row(batch, number)) for number in range(3)]
    assert rows == [LEAD[:3], [*LEAD[:5], *DRAFT], [*LEAD[:1], *DRAFT[:2]]]


@pytest.mark.parametrize("name", MODELS)
def test_snapshot(name: str) -> None:
    """A cache goes on, comes back and branches, and none of the three knows of the others."""
    model = _model(name)
    network = Network(model, chunk=16)
    held = network.cache()
    passes.prefill(network, [LEAD], held, stopped=_go_on)
    expected = small.computed(model, [1, 2], copy.deepcopy(held))
    snapshot = Snapshot(held)
    branch = snapshot.branch(held)
    for tokens in (DRAFT, DRAFT[:3]):
        passes.prefill(network, [tokens], held, stopped=_go_on)
        snapshot.restore(held)
    other = snapshot.branch(held)
    small.computed(model, DRAFT, held)

    for one in (branch, other):
        np.testing.assert_allclose(small.computed(model, [1, 2], one), expected, atol=1e-3)
    snapshot.restore(held)
    np.testing.assert_allclose(small.computed(model, [1, 2], held), expected, atol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_greedy(name: str) -> None:
    """Several prompts are decoded as each alone, up to the end or to each one's cap."""
    network = Network(_model(name), chunk=16)
    prompts = [LEAD, DRAFT, DRAFT[:3]]
    ends = frozenset(range(0, 300, 17))
    most = [12, 5, 9]

    def decode(rows: Sequence[int]) -> list[list[int]]:
        caches = [network.cache() for _ in rows]
        return passes.greedy(
            network, [prompts[row] for row in rows], caches, most=[most[row] for row in rows], ends=ends, stopped=_go_on
        )

    together = decode([0, 1, 2])

    assert together == [decode([row])[0] for row in range(3)]
    for tokens, limit in zip(together, most, strict=True):
        assert len(tokens) == limit or tokens[-1] in ends
        assert not ends & set(tokens[:-1])


def _sampled(name: str, rows: int, length: int, seed: int) -> np.ndarray[Any, Any]:
    """D of texts of a length that the model itself wrote at temperature 1, out of its whole vocabulary."""
    model = small.loaded(name)
    network = Network(model, chunk=4096)
    draw = np.random.default_rng(seed)
    held = passes.merged([network.cache() for _ in range(rows)])
    last = draw.integers(32, 127, (rows, 1))
    leads = last.tolist()
    drafts: list[list[int]] = [[] for _ in range(rows)]
    for _ in range(length):
        logits = np.array(model(mx.array(last), cache=held))[:, -1].astype(np.float64)
        last = (logits + draw.gumbel(size=logits.shape)).argmax(axis=-1)[:, None]
        for draft, token in zip(drafts, last[:, 0].tolist(), strict=True):
            draft.append(token)
    held = passes.merged([network.cache() for _ in range(rows)])
    scored = passes.score(network, leads, drafts, held, stopped=_go_on)
    return np.array([(sum(s.surprisal) - sum(s.entropy)) / sum(s.varentropy) ** 0.5 for s in scored])


@pytest.mark.parametrize("name", tiny.NAMES)
def test_own_text(name: str) -> None:
    """Of what the model itself writes, D has mean 0 and variance 1, within three standard errors of a small sample.

    `python -m tests.predictors.mlx.test_passes` takes one that is large enough to tell a tenth; minutes.
    """
    found = _sampled(name, ROWS, LENGTH, seed=1)

    assert abs(found.mean()) < 3 * ROWS**-0.5
    assert abs(found.var() - 1) < 3 * (2 / ROWS) ** 0.5


def _own_text(rows: int = 4096, batch: int = 256, length: int = 64) -> None:
    """Print mean and variance of D with their standard errors, over enough samples to tell .1 from nothing."""
    for name in tiny.NAMES:
        found = np.concatenate([_sampled(name, batch, length, seed) for seed in range(rows // batch)])
        variance = found.var()
        error = float(np.var((found - found.mean()) ** 2) / rows) ** 0.5
        spread = (variance / rows) ** 0.5
        line = f"{name}: mean {found.mean():+.3f} (se {spread:.3f}), variance {variance:.3f} (se {error:.3f})"
        sys.stdout.write(f"{line}\n")
        assert abs(found.mean()) < 0.1
        assert 0.9 <= variance <= 1.1


if __name__ == "__main__":
    _own_text()
