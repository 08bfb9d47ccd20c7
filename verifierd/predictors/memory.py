"""How much memory a model will take, from its `config.json` and the sizes of its weight files, before any is loaded.

Pure arithmetic on shapes; knows no MLX. The terms, each per pass of `batch` trajectories:

weights             The files' bytes: mlx-lm keeps them as they are stored.
KV cache            Layers that attend x 2 x KV heads x head size x bytes, for each token (a sliding layer: window and
                    chunk); and one such layer more, since a cache grows by making a longer copy.
recurrent state     Gated-DeltaNet: value heads x both head sizes in 32 bits, and the convolution's last inputs;
                    whatever the length.
snapshots           What cannot be trimmed and so is copied: recurrent states and sliding windows.
kept caches         What the budget leaves for trajectories that are not in the pass.
attention scores    Heads x chunk x context, once, and the causal mask at a byte each, where MLX has no fused kernel:
                    Metal fuses passes of more than 8 tokens for head sizes 64, 80 and 128 only, the CPU none. This,
                    not the KV cache, is most of what grows with the context (head size 256: 64 KiB a token at chunk
                    2048 and 16 heads). Newer chips and releases of MLX fuse 256 in some passes: there it is an upper
                    bound.
activations         The buffers of one layer, elementwise operations in place, times `LAYERS_IN_FLIGHT`. A mixture of
                    experts gathers each token once per chosen expert: before the experts, after them, and put back in
                    order. Gated-DeltaNet: projections, joined with the convolution's state, convolved, q and k
                    normalised, v made contiguous, the output, its gate and their product.
logits              Logit chunk x vocabulary x (the logits, and two 32-bit arrays: log-probabilities and a product for
                    entropy and varentropy). Added, as MLX encodes ahead while the last layers still run.
allowance           `ALLOWANCE`.

MLX keeps freed buffers for reuse, but not where the next chunk needs larger ones, as scores over a longer context do.
So the engine has to call `mx.clear_cache()` between chunks, as mlx-lm does; without it the sum over all chunks stays.

Against peaks that people reported for mlx-lm, in GB (chunk 2048 unless said; without logits, snapshots and allowance;
weights taken as 4.5 bits for each parameter):

    Qwen3.6-35B-A3B 4-bit at 8K, 64K, 192K                   21.7, 26.7, 38.0          here 21.7, 26.9, 38.7
    Qwen3.8-27B 4-bit at 128K, chunks 2048, 1024, 512, 256   39.8, 32.3, 28.5, 26.5    here 39.0, 31.7, 28.0, 26.2

They are in ml-explore/mlx-lm, issue 1480 and pull request 1781.
"""

import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from verifierd.errors import PredictorError

__all__ = ("ALLOWANCE", "LAYERS_IN_FLIGHT", "OVERRIDE", "Estimate", "Term", "available", "estimate", "fits", "lines")

OVERRIDE = "--memory-override"
"""The flag that loads a model although it seems not to fit."""

ALLOWANCE = 500_000_000
"""For what no shape tells: the interpreter, a tokenizer of 250,000 entries, kernels, page rounding, the daemon."""

LAYERS_IN_FLIGHT = 3
"""MLX encodes ahead of the device and keeps the buffers of what is not done: 3 to 4 layers in the reports above."""

FUSED = frozenset({64, 80, 128})
UNFUSED_BELOW = 9
"""Shorter passes take the vector kernel, which keeps no scores."""

LARGEST = {"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "vocab_size": 262_144}
"""What is taken for a number that the configuration lacks: a dense model of 70B, the largest common vocabulary."""

HYBRID = frozenset({"qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"})
KNOWN = HYBRID | frozenset(
    {
        "gemma3_text",
        "gpt_oss",
        "llama",
        "mistral",
        "mixtral",
        "olmo3",
        "phi3",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
    }
)
"""Model types whose caches and layers were read in mlx-lm; for others the upper bound is taken."""


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the estimate.

    Attributes:
        name: What takes the memory.
        bytes: How much.
        detail: The factors, and what had to be assumed.
    """

    name: str
    bytes: int
    detail: str = ""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """All terms."""

    terms: tuple[Term, ...]

    @property
    def total(self) -> int:
        """Their sum."""
        return sum(term.bytes for term in self.terms)


class _Attention(msgspec.Struct, frozen=True, kw_only=True):
    layers: int
    heads: int
    kv_heads: int
    width: int
    window: int | None = None

    def keys(self, context: int, chunk: int) -> int:
        """How many tokens one layer keeps."""
        # mlx-lm's rotating cache joins a chunk to the window before it attends.
        return context if self.window is None else min(context, self.window + chunk)

    @property
    def per_token(self) -> int:
        """Numbers that one layer keeps of one token."""
        return 2 * self.kv_heads * self.width


class _Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What the arithmetic needs to know of a model."""

    hidden: int
    vocabulary: int
    itemsize: int
    full: _Attention
    sliding: _Attention
    gated: bool
    linear_layers: int
    state: int  # bytes of one layer's recurrent and convolution state
    linear_width: int  # numbers per token within a DeltaNet layer
    mlp_width: int  # numbers per token within the largest feed-forward block
    mlp: str
    assumed: str  # what the configuration left open


def estimate(
    config: Mapping[str, Any],
    weight_bytes: int,
    *,
    context: int,
    chunk: int,
    logit_chunk: int,
    snapshots: int,
    trajectories_cache_bytes: int | None,
    batch: int,
    fused: bool = True,
) -> Estimate:
    """The memory at the fullest moment: the last chunk of the longest context.

    Args:
        config: The model's `config.json`; a nested `text_config` counts before the outer level.
        weight_bytes: The sum of the sizes of its weight files.
        context: Tokens of the longest history, the observation included.
        chunk: Tokens of one trajectory in one pass.
        logit_chunk: Positions of one trajectory whose logits exist at once.
        snapshots: How many copies of untrimmable state are kept in all.
        trajectories_cache_bytes: The budget of all kept caches; None if only the pass's own are kept.
        batch: Trajectories in one pass.
        fused: Whether the device has fused attention kernels; MLX's CPU backend has none.
    """
    shape = _shape(config)
    chunk = min(chunk, context)
    layers = (shape.full, shape.sliding)
    note = f"; {shape.assumed}" if shape.assumed else ""

    kept = [part.layers * part.keys(context, chunk) * part.per_token * shape.itemsize for part in layers]
    grown = max(
        (part.keys(context, chunk) * part.per_token * shape.itemsize for part in layers if part.layers), default=0
    )
    state = shape.linear_layers * shape.state
    copied = state + kept[1]
    own = sum(kept) + state

    # A batch is merged into a cache of its own; its members' caches stay.
    beside, kept_by = (0, "none beside those above") if batch == 1 else (batch * own, "the members', now merged")
    if trajectories_cache_bytes is not None:
        counted = snapshots * copied + (own if batch == 1 else 0)
        beside = max(beside, trajectories_cache_bytes - counted)
        kept_by = f"of a budget of {trajectories_cache_bytes:,} bytes, what is not counted above"

    scores, scored = _scores(layers, context=context, chunk=chunk, itemsize=shape.itemsize, fused=fused and not note)
    attention = max((_attention_width(part, gated=shape.gated) for part in layers if part.layers), default=0)
    width = max(attention, shape.linear_width if shape.linear_layers else 0) + 2 * shape.hidden + shape.mlp_width
    logit_chunk = min(logit_chunk, chunk)

    return Estimate(
        terms=(
            Term(name="weights", bytes=weight_bytes, detail="as stored"),
            Term(
                name="KV cache",
                bytes=batch * (sum(kept) + grown),
                detail=f"{_times(batch)}{_kinds(shape)}; {context:,} tokens, and one layer's copy while it grows{note}",
            ),
            Term(
                name="recurrent state",
                bytes=batch * state,
                detail=f"{_times(batch)}{shape.linear_layers} layers x {shape.state:,} bytes, whatever the length",
            ),
            Term(
                name="snapshots",
                bytes=snapshots * copied,
                detail=f"{snapshots} x {copied:,} bytes" if copied else "none needed: every cache can be trimmed",
            ),
            Term(name="kept caches", bytes=beside, detail=kept_by),
            Term(name="attention scores", bytes=batch * scores, detail=f"{_times(batch)}{scored}"),
            Term(
                name="activations",
                bytes=batch * LAYERS_IN_FLIGHT * chunk * width * shape.itemsize,
                detail=f"{_times(batch)}{LAYERS_IN_FLIGHT} layers in flight x {chunk:,} tokens x {width:,} numbers"
                f", {shape.mlp}",
            ),
            Term(
                name="logits",
                bytes=batch * logit_chunk * shape.vocabulary * (shape.itemsize + 2 * 4),
                detail=f"{_times(batch)}{logit_chunk:,} positions x {shape.vocabulary:,} entries"
                f" x {shape.itemsize + 8} bytes",
            ),
            Term(name="allowance", bytes=ALLOWANCE, detail="interpreter, tokenizer, kernels, page rounding"),
        )
    )


def _times(batch: int) -> str:
    return f"{batch} trajectories x " if batch > 1 else ""


def _kinds(shape: _Shape) -> str:
    """The layers that attend, in words."""
    parts = [
        f"{part.layers} {name} layers x {part.per_token * shape.itemsize:,} bytes a token"
        for name, part in (("attention", shape.full), (f"sliding ({shape.sliding.window})", shape.sliding))
        if part.layers
    ]
    return " + ".join(parts) or "no attention layer"


def _scores(layers: tuple[_Attention, ...], *, context: int, chunk: int, itemsize: int, fused: bool) -> tuple[int, str]:
    """The largest score matrix of one layer; the others follow in the same buffer."""
    largest, detail = 0, "none: fused kernels keep no scores"
    for part in layers:
        if not part.layers or (fused and (part.width in FUSED or chunk < UNFUSED_BELOW)):
            continue
        keys = part.keys(context, chunk)
        size = chunk * keys * (part.heads * itemsize + 1)
        if size > largest:
            largest = size
            why = f"no fused kernel for head size {part.width}" if fused else "no fused kernel counted on"
            detail = f"{part.heads} heads x {chunk:,} x {keys:,} tokens x {itemsize} bytes, and the mask; {why}"
    return largest, detail


def _attention_width(part: _Attention, *, gated: bool) -> int:
    """Numbers per token: q (and its gate), k, v; q and k normalised and rotated; the output, again in token order."""
    query, key = part.heads * part.width, part.kv_heads * part.width
    return query + 2 * key + 2 * (query + key) + 2 * query + (2 * query if gated else 0)


class _Fields:
    """The configuration's numbers; remembers which had to be assumed."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        inner = next(
            (value for key in ("text_config", "language_config") if isinstance(value := config.get(key), Mapping)), {}
        )
        self.values: dict[str, Any] = {**config, **inner}
        self.missing: list[str] = []

    def number(self, *names: str) -> int | None:
        """The first that is a whole number, not negative."""
        for name in names:
            value = self.values.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                return value
        return None

    def required(self, name: str, otherwise: int | None = None) -> int:
        """A number above 0; else a large one, and a note."""
        if value := self.number(name):
            return value
        self.missing.append(name)
        return LARGEST[name] if otherwise is None else otherwise


def _shape(config: Mapping[str, Any]) -> _Shape:
    fields = _Fields(config)
    hidden = fields.required("hidden_size")
    layers = fields.required("num_hidden_layers")
    heads = fields.required("num_attention_heads")
    vocabulary = fields.required("vocab_size")
    model = str(fields.values.get("model_type"))
    known = model in KNOWN
    dtype = fields.values.get("dtype") or fields.values.get("torch_dtype")
    itemsize = 4 if str(dtype).endswith("float32") else 2

    if fields.number("kv_lora_rank"):
        # Counted as if its latent were unpacked; mlx-lm keeps less.
        width = (fields.number("qk_nope_head_dim") or 0) + (fields.number("qk_rope_head_dim") or 0)
        kv_heads = heads
    else:
        width = fields.number("head_dim") or 0
        kv_heads = fields.number("num_key_value_heads") or heads
    width = width or math.ceil(hidden / heads)

    kinds = _layer_kinds(fields, layers, hybrid=model in HYBRID) if known else ["full"] * layers
    linear, sliding = kinds.count("linear"), kinds.count("sliding")
    state, linear_width = _delta_net(fields, itemsize) if linear else (0, 0)
    mlp_width, mlp = _feed_forward(fields, hidden)

    assumed = []
    if not known:
        assumed.append(f"model type `{model}` is not known here: every layer counted as full, unfused attention")
    if fields.missing:
        assumed.append(f"not in the configuration, taken as large: {', '.join(fields.missing)}")
    return _Shape(
        hidden=hidden,
        vocabulary=vocabulary,
        itemsize=itemsize,
        full=_Attention(layers=layers - linear - sliding, heads=heads, kv_heads=kv_heads, width=width),
        sliding=_Attention(
            layers=sliding, heads=heads, kv_heads=kv_heads, width=width, window=fields.number("sliding_window")
        ),
        gated=model in HYBRID,
        linear_layers=linear,
        state=state,
        linear_width=linear_width,
        mlp_width=mlp_width,
        mlp=mlp,
        assumed="; ".join(assumed),
    )


def _layer_kinds(fields: _Fields, layers: int, *, hybrid: bool) -> list[str]:
    """`full`, `sliding` or `linear` for each layer, as mlx-lm builds them."""
    if hybrid:
        # mlx-lm goes by the interval and reads no list.
        interval = fields.number("full_attention_interval") or 4
        return ["full" if (index + 1) % interval == 0 else "linear" for index in range(layers)]
    if not fields.number("sliding_window"):
        return ["full"] * layers
    listed = fields.values.get("layer_types")
    if isinstance(listed, list | tuple) and len(listed) == layers:
        return ["sliding" if kind == "sliding_attention" else "full" for kind in listed]
    if pattern := fields.number("sliding_window_pattern"):
        return ["full" if (index + 1) % pattern == 0 else "sliding" for index in range(layers)]
    # Such as qwen2 and mistral, whose window mlx-lm does not use.
    return ["full"] * layers


def _delta_net(fields: _Fields, itemsize: int) -> tuple[int, int]:
    """Bytes of one layer's state, and numbers per token while it runs."""
    key_heads = fields.required("linear_num_key_heads", 16)
    value_heads = fields.required("linear_num_value_heads", 64)
    key_width = fields.required("linear_key_head_dim", 192)
    value_width = fields.required("linear_value_head_dim", 128)
    kernel = fields.required("linear_conv_kernel_dim", 4)
    keys, values = key_heads * key_width, value_heads * value_width
    convolved = 2 * keys + values
    state = value_heads * key_width * value_width * 4 + (kernel - 1) * convolved * itemsize
    return state, 3 * convolved + 2 * keys + 4 * values + 4 * value_heads


def _feed_forward(fields: _Fields, hidden: int) -> tuple[int, str]:
    """Numbers per token in the largest kind of feed-forward block, and the kind in words."""
    experts = fields.number("num_experts", "num_local_experts", "n_routed_experts") or 0
    dense = fields.number("intermediate_size") or 0
    if not experts:
        dense = dense or fields.required("intermediate_size", 4 * hidden)
        return 2 * dense + 2 * hidden, f"dense {dense:,}"
    chosen = fields.number("num_experts_per_tok", "experts_per_token") or fields.required(
        "num_experts_per_tok", experts
    )
    size = fields.number("moe_intermediate_size") or dense or fields.required("moe_intermediate_size", 4 * hidden)
    shared = fields.number("shared_expert_intermediate_size")
    if shared is None:
        shared = (fields.number("n_shared_experts") or 0) * size
    routed = chosen * (3 * hidden + 2 * size) + 3 * experts  # 3: scores, and their order in 32 bits
    return max(routed + 2 * shared, 2 * dense) + 3 * hidden, f"{chosen} of {experts} experts of {size:,}"


def available(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still use; None where the system does not say.

    Linux: the least of what is available in the machine and what each enclosing control group leaves. macOS: the
    machine's memory, since there the limit that counts is Metal's, which the caller knows.

    Args:
        root: Where `proc` and `sys` are.
    """
    if not (root / "proc" / "meminfo").exists():
        return _physical() if sys.platform == "darwin" else None
    limits = [*_machine(root), *_control_groups(root)]
    return min(limits, default=None)


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdecimal() else None


def _machine(root: Path) -> list[int]:
    words = [line.split() for line in _read(root / "proc" / "meminfo").splitlines()]
    return [int(line[1]) * 1024 for line in words if len(line) > 1 and line[0] == "MemAvailable:"]


def _control_groups(root: Path) -> list[int]:
    """What each group from ours to the root leaves; version 2 and version 1."""
    found = []
    mount = root / "sys" / "fs" / "cgroup"
    for line in _read(root / "proc" / "self" / "cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            base, limit, usage = mount, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit, usage = mount / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # In a container the path may be the host's: what does not exist is passed over; the mount is always asked.
        group = Path(path.lstrip("/"))
        for place in (base / group, *(base / parent for parent in group.parents)):
            bound, used = _number(place / limit), _number(place / usage)
            if bound is not None and used is not None:
                found.append(max(0, bound - max(0, used - _reclaimable(place))))
    return found


def _reclaimable(place: Path) -> int:
    """File pages that the group gives up first: they count as used, yet are no hindrance."""
    stat = dict(line.split() for line in _read(place / "memory.stat").splitlines() if line.count(" ") == 1)
    return int(stat.get("total_inactive_file", stat.get("inactive_file", "0")))


def fits(needed: Estimate, available: int | None, *, metal_limit: int | None = None, override: bool = False) -> None:
    """Refuse a model that will not fit; say nothing where no limit is known.

    Args:
        needed: The estimate.
        available: What the process may use.
        metal_limit: Metal's recommended working set on macOS.
        override: Load anyway.

    Raises:
        PredictorError: The estimate is above one of the limits.
    """
    over_metal = metal_limit is not None and needed.total > metal_limit
    over_memory = available is not None and needed.total > available
    if override or not (over_metal or over_memory):
        return
    limits = []
    if available is not None:
        limits.append(f"{_gb(available)} GB are available")
    if metal_limit is not None:
        limits.append(f"Metal may hold {_gb(metal_limit)} GB")
    parts = " + ".join(f"{term.name} {_gb(term.bytes)}" for term in needed.terms if term.bytes)
    remedies = ["lower `context-tokens` or `cache-bytes`", "take a smaller model"]
    if over_metal and not over_memory:
        remedies.append(
            f"raise Metal's limit by `sudo sysctl iogpu.wired_limit_mb={math.ceil(needed.total / 2**20)}`"
            " (until the next restart)"
        )
    remedies.append(f"load it anyway by {OVERRIDE}")
    raise PredictorError(
        f"the model needs about {_gb(needed.total)} GB, but {' and '.join(limits)}: {parts}",
        hint=f"Either {', or '.join(remedies)}.",
    )


def lines(needed: Estimate) -> list[str]:
    """The terms as a table for people, the total last."""
    rows = [*needed.terms, Term(name="total", bytes=needed.total)]
    wide = max(len(row.name) for row in rows)
    return [f"{row.name:{wide}}  {_gb(row.bytes):>7} GB  {row.detail}".rstrip() for row in rows]


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f}"
