"""How much memory a model takes, told before it is loaded."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from verifierd.errors import PredictorError
from verifierd.predictors.memory import ALLOWANCE, OVERRIDE, Estimate, Term, available, estimate, fits, lines

GB = 1_000_000_000

AGENTWORLD: dict[str, Any] = {
    "model_type": "qwen3_5_moe",
    "text_config": {
        "model_type": "qwen3_5_moe_text",
        "dtype": "bfloat16",
        "hidden_size": 2048,
        "num_hidden_layers": 40,
        "full_attention_interval": 4,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "vocab_size": 248_320,
    },
}

HYBRID_27B: dict[str, Any] = {
    "model_type": "qwen3_5",
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "intermediate_size": 17_408,
    "vocab_size": 248_320,
}

DENSE: dict[str, Any] = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "vocab_size": 151_936,
    "sliding_window": 4096,
}

SLIDING: dict[str, Any] = DENSE | {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    "sliding_window": 1024,
}


def _estimate(
    config: dict[str, Any],
    *,
    weights: int = GB,
    context: int = 4096,
    chunk: int = 2048,
    logit_chunk: int = 256,
    snapshots: int = 2,
    budget: int | None = None,
    batch: int = 1,
    fused: bool = True,
) -> Estimate:
    return estimate(
        config,
        weights,
        context=context,
        chunk=chunk,
        logit_chunk=logit_chunk,
        snapshots=snapshots,
        trajectories_cache_bytes=budget,
        batch=batch,
        fused=fused,
    )


def _terms(found: Estimate) -> dict[str, Term]:
    return {term.name: term for term in found.terms}


def _peak(config: dict[str, Any], weights: float, *, context: int, chunk: int = 2048) -> float:
    """What mlx-lm would report: no logits before the last token, no snapshots, the process itself not counted."""
    found = _estimate(config, weights=round(weights * GB), context=context, chunk=chunk, logit_chunk=0, snapshots=0)
    return (found.total - ALLOWANCE) / GB


def test_agentworld_at_64k_and_4k() -> None:
    """With 20 GB of weights 27 GB were seen at 64K, 5 GB more than at 4K."""
    long, short = (_estimate(AGENTWORLD, weights=20 * GB, context=context) for context in (65_536, 4096))

    assert long.total / GB == pytest.approx(27, abs=2)
    assert (long.total - short.total) / GB == pytest.approx(5, abs=1)
    assert _peak(AGENTWORLD, 20, context=65_536) == pytest.approx(27, abs=0.5)


def test_the_terms_of_agentworld_follow_from_its_shape() -> None:
    """Each part is what the arithmetic by hand gives."""
    terms = _terms(_estimate(AGENTWORLD, weights=20 * GB, context=65_536))
    state = 32 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 32 * 128) * 2

    assert [*terms] == [
        "weights",
        "KV cache",
        "recurrent state",
        "snapshots",
        "kept caches",
        "attention scores",
        "activations",
        "logits",
        "allowance",
    ]
    assert terms["KV cache"].bytes == (10 + 1) * 65_536 * 2 * 2 * 256 * 2
    assert terms["recurrent state"].bytes == 30 * state
    assert terms["snapshots"].bytes == 2 * 30 * state
    assert terms["attention scores"].bytes == 2048 * 65_536 * (16 * 2 + 1)
    assert terms["logits"].bytes == 256 * 248_320 * 10


@pytest.mark.parametrize(("context", "peak"), [(8, 21.7), (32, 23.8), (64, 26.7), (130, 32.5), (192, 38.0)])
def test_reported_peaks_of_a_mixture_of_experts(context: int, peak: float) -> None:
    """Peaks that others saw with a model of AgentWorld's shape at 4 bits are met within 3 %."""
    assert _peak(AGENTWORLD, 19.5, context=context * 1024) == pytest.approx(peak, rel=0.03)


@pytest.mark.parametrize(("chunk", "peak"), [(2048, 39.78), (1024, 32.26), (512, 28.54), (256, 26.52)])
def test_reported_peaks_by_chunk(chunk: int, peak: float) -> None:
    """Peaks that others saw with a dense hybrid of 27B at 128K are met within 3 %, whatever the chunk."""
    assert _peak(HYBRID_27B, 15.1, context=131_072, chunk=chunk) == pytest.approx(peak, rel=0.03)


def test_nested_and_flat_configurations_are_the_same() -> None:
    """Text models carry at the top what others nest, and the nested value wins."""
    flat = AGENTWORLD["text_config"] | {"model_type": "qwen3_5_moe"}

    assert _estimate(flat) == _estimate(AGENTWORLD | {"hidden_size": 1})


def test_a_dense_model() -> None:
    """All of a fused attention model's memory grows with KV; nothing is copied for a snapshot."""
    short, long = (_terms(_estimate(DENSE, context=context)) for context in (4096, 8192))

    assert short["KV cache"].bytes == (28 + 1) * 4096 * 2 * 8 * 128 * 2
    assert {name for name in short if short[name] != long[name]} == {"KV cache"}
    assert short["recurrent state"].bytes == short["snapshots"].bytes == short["attention scores"].bytes == 0
    assert "fused" in short["attention scores"].detail
    assert "trimmed" in short["snapshots"].detail


def test_without_fused_kernels_scores_are_kept() -> None:
    """On a CPU, and for a head size that Metal does not fuse."""
    cpu = _terms(_estimate(DENSE, fused=False))["attention scores"].bytes
    odd = _terms(_estimate(DENSE | {"head_dim": 96}))["attention scores"].bytes

    assert cpu == odd == 2048 * 4096 * (16 * 2 + 1)


def test_short_passes_keep_no_scores() -> None:
    """Passes of few tokens take the kernel for decoding."""
    assert _terms(_estimate(AGENTWORLD, chunk=8))["attention scores"].bytes == 0


def test_numbers_of_32_bits_take_twice_as_much() -> None:
    """A model that computes in 32 bits says so in its configuration."""
    narrow, wide = (_terms(_estimate(DENSE | {"torch_dtype": dtype})) for dtype in ("bfloat16", "float32"))

    for name in ("KV cache", "activations"):
        assert wide[name].bytes == 2 * narrow[name].bytes


def test_sliding_layers_keep_a_window_and_a_chunk() -> None:
    """They stop growing, but a snapshot has to copy them."""
    terms = _terms(_estimate(SLIDING, context=65_536, snapshots=1))
    token = 2 * 8 * 128 * 2

    assert terms["KV cache"].bytes == (2 * 65_536 + 3 * (1024 + 2048)) * token
    assert terms["snapshots"].bytes == 3 * (1024 + 2048) * token
    assert "sliding (1024)" in terms["KV cache"].detail


def test_a_window_by_pattern() -> None:
    """Every so many layers one sees all, as in gemma 3."""
    config = SLIDING | {"model_type": "gemma3_text", "layer_types": None, "sliding_window_pattern": 2}

    assert _terms(_estimate(config))["KV cache"].detail.startswith("2 attention layers")


def test_a_window_that_is_not_used_saves_nothing() -> None:
    """Without layers that are named sliding, all keep every token."""
    assert _terms(_estimate(DENSE))["KV cache"].detail.startswith("28 attention layers")


def test_experts_that_each_token_visits() -> None:
    """Mixtures gather a token once per chosen expert, under either name of the counts."""
    one, two = (
        _terms(_estimate(DENSE | {"num_local_experts": 8, "experts_per_token": chosen}))["activations"]
        for chosen in (1, 2)
    )

    assert two.bytes - one.bytes == 3 * 2048 * (3 * 1024 + 2 * 3072) * 2
    assert "2 of 8 experts" in two.detail


def test_a_batch_is_a_copy_of_its_members() -> None:
    """Per trajectory terms grow with the batch, and the caches that were merged stay."""
    one, four = (_terms(_estimate(AGENTWORLD, batch=batch)) for batch in (1, 4))

    for name in ("KV cache", "recurrent state", "attention scores", "activations", "logits"):
        assert four[name].bytes == 4 * one[name].bytes
    assert one["kept caches"].bytes == 0
    assert four["kept caches"].bytes == 4 * (10 * 4096 * 2048 + one["recurrent state"].bytes)


def test_a_budget_counts_the_live_caches_once() -> None:
    """What the budget allows beyond the pass's own cache and the snapshots is added, and no more."""
    budget = 4 * GB
    terms = _terms(_estimate(AGENTWORLD, budget=budget))
    counted = 10 * 4096 * 2048 + terms["recurrent state"].bytes + terms["snapshots"].bytes

    assert terms["kept caches"].bytes == budget - counted
    assert _terms(_estimate(AGENTWORLD, budget=1))["kept caches"].bytes == 0


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "novel", "hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8},
        DENSE | {"model_type": "novel", "layer_types": ["sliding_attention"] * 28, "full_attention_interval": 4},
        DENSE | {"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64},
        {},
        {"text_config": "none", "hidden_size": "big", "num_hidden_layers": -1, "num_attention_heads": True},
    ],
)
def test_an_unknown_shape_gives_an_upper_bound_and_says_so(config: dict[str, Any]) -> None:
    """Every layer is counted as full attention without fused kernels, missing numbers as large ones."""
    terms = _terms(_estimate(config))

    assert "is not known here" in terms["KV cache"].detail
    assert terms["attention scores"].bytes > 0
    assert terms["recurrent state"].bytes == 0
    if config.get("head_dim"):
        assert terms["KV cache"].bytes >= _terms(_estimate(DENSE))["KV cache"].bytes


def test_missing_numbers_are_named() -> None:
    """A known type whose configuration lacks a number is counted large, and the number is named."""
    config = {key: value for key, value in DENSE.items() if key not in {"hidden_size", "vocab_size"}}

    detail = _terms(_estimate(config))["KV cache"].detail

    assert "taken as large: hidden_size, vocab_size" in detail
    assert _estimate(config).total > _estimate(DENSE).total


def test_caches_of_real_models_have_the_bytes_that_were_told() -> None:
    """mlx-lm's own caches, filled by a pass, are as large as the estimate says."""
    core = pytest.importorskip("mlx.core")
    module = pytest.importorskip("mlx_lm.models.qwen3_5")
    config = AGENTWORLD["text_config"] | {
        "model_type": "qwen3_5_moe",
        "dtype": "float32",
        "hidden_size": 64,
        "num_hidden_layers": 8,
        "head_dim": 32,
        "linear_num_key_heads": 1,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
        "vocab_size": 256,
    }
    model = module.Model(module.ModelArgs.from_dict(dict(config)))
    cache = importlib.import_module("mlx_lm.models.cache").make_prompt_cache(model)

    core.eval(model(core.zeros((1, 256), dtype=core.int32), cache=cache))

    terms = _terms(_estimate(config, context=256, chunk=256))
    # A cache grows in steps of 256 tokens; one layer is told twice.
    assert sum(part.nbytes for part in cache if part.is_trimmable()) == terms["KV cache"].bytes // 3 * 2
    assert sum(part.nbytes for part in cache if not part.is_trimmable()) == terms["recurrent state"].bytes


NEEDED = Estimate(
    terms=(Term(name="weights", bytes=20 * GB), Term(name="logits", bytes=0), Term(name="KV cache", bytes=7 * GB))
)


@pytest.mark.parametrize(("memory", "metal"), [(None, None), (27 * GB, None), (None, 27 * GB), (64 * GB, 48 * GB)])
def test_what_fits_is_let_through(memory: int | None, metal: int | None) -> None:
    """Up to the last byte, and where no limit is known."""
    fits(NEEDED, memory, metal_limit=metal)


def test_too_little_memory_is_refused_with_the_numbers() -> None:
    """The message names each part in GB, the hint what to do."""
    with pytest.raises(PredictorError) as caught:
        fits(NEEDED, 24 * GB)

    assert caught.value.message == (
        "the model needs about 27.00 GB, but 24.00 GB are available: weights 20.00 + KV cache 7.00"
    )
    assert "`context-tokens`" in caught.value.hint
    assert "`cache-bytes`" in caught.value.hint
    assert OVERRIDE in caught.value.hint
    assert "sysctl" not in caught.value.hint


def test_metals_limit_can_be_raised() -> None:
    """A model that fits the machine but not Metal's working set gets the setting, in MiB rounded up."""
    with pytest.raises(PredictorError, match=r"32\.00 GB are available and Metal may hold 24\.00 GB") as caught:
        fits(NEEDED, 32 * GB, metal_limit=24 * GB)

    assert "`sudo sysctl iogpu.wired_limit_mb=25750`" in caught.value.hint
    assert OVERRIDE in caught.value.hint


def test_metals_limit_is_not_raised_above_the_machine() -> None:
    """Where memory itself is too small, the limit is no remedy."""
    with pytest.raises(PredictorError) as caught:
        fits(NEEDED, 26 * GB, metal_limit=24 * GB)

    assert "sysctl" not in caught.value.hint


def test_a_person_may_override() -> None:
    """Then nothing is refused."""
    fits(NEEDED, GB, metal_limit=GB, override=True)


def test_the_table() -> None:
    """A line for each term, also an empty one, and the total."""
    assert lines(NEEDED) == [
        "weights     20.00 GB",
        "logits       0.00 GB",
        "KV cache     7.00 GB",
        "total       27.00 GB",
    ]


def _system(root: Path, files: dict[str, str]) -> Path:
    """A system with 8 GiB available, in the control group that `files` tell."""
    for name, text in {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   8388608 kB\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8 * 2**30),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 8 * 2**30),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/memory.max": "5000\n",
                "sys/fs/cgroup/a/memory.current": "3000\n",
                "sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 1500\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/b/memory.current": "3000\n",
            },
            3500,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/\n2:hugetlb,memory:/host/only\nbroken\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "5000\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "6000\n",
                "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 400\ninactive_file 1\n",
            },
            0,
        ),
    ],
)
def test_memory_that_the_process_may_use(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    """The least of the machine's and each control group's, file pages that can be given back not counted as used."""
    assert available(_system(tmp_path, files)) == expected


def test_memory_here() -> None:
    """On this machine the answer is a number of bytes, or that it is not known."""
    found = available()

    assert found is None or found > 0
