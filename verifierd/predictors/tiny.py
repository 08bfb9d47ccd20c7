"""Random models of a few megabytes that load and run like real ones, for tests and for measuring speed.

What they say means nothing: `verifierd_tiny` in `config.json` tells them from a real model.
"""

import copy
import hashlib
import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from verifierd import __version__
from verifierd.errors import PredictorError

__all__ = ("NAMES", "build", "ready")

HIDDEN: Final = 32
"""Small, or the logits of a whole vocabulary would take most of the time, which they do not in a large model."""

VOCABULARY: Final = 32_768

SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
THINK: Final = ("<think>", "</think>")
MARKS: Final = (*SPECIAL, *THINK)
END_OF_TURN: Final = "<|im_end|>"

MERGES: Final = (
    "Ġ Ġ", "ĠĠ ĠĠ", "ĠĠĠĠ ĠĠĠĠ", "Ġ t", "h e", "Ġt he", "i n", "r e", "o n", "e r", "a t", "e n", "o r", "e s", "i s",
    "a n", "l e", "in g", "e d", "Ġ a", "s t", "o t", "0 0", "/ /", "- -", "t o",
)  # fmt: skip
"""A few, so that a text has several spellings in tokens, as with a real vocabulary."""

TEMPLATE: Final = """\
{%- set turns = namespace(asked=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set turns.asked = loop.index0 %}{% endif %}
{%- endfor %}
{%- if turns.asked < 0 %}{{ raise_exception('no user message') }}{% endif %}
{%- for message in messages %}
    {%- set content = message.content | trim %}
    {%- if message.role == 'system' and not loop.first %}
        {{- raise_exception('a system message must be the first') }}
    {%- elif message.role not in ('system', 'user', 'assistant') %}
        {{- raise_exception('unknown role: ' + message.role) }}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- set thought = (message.reasoning_content or '') | trim %}
        {%- if not thought and '</think>' in content %}
            {%- set thought = content.split('</think>')[0].split('<think>')[-1] | trim %}
            {%- set content = content.split('</think>')[-1] | trim %}
        {%- endif %}
        {%- if loop.index0 > turns.asked %}
            {{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}
        {%- endif %}
    {%- endif %}
    {{- content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n<think>\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
"""ChatML as the Qwen3.5 family renders it, without tools and images."""

COMMON: Final[dict[str, Any]] = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 64,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 262_144,
    "tie_word_embeddings": False,
    "vocab_size": VOCABULARY,
}

CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "tiny": {
        "model_type": "qwen3_5_moe",
        "text_config": COMMON
        | {
            "model_type": "qwen3_5_moe_text",
            "full_attention_interval": 2,
            "linear_num_key_heads": 1,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 32,
            "linear_value_head_dim": 16,
            "linear_conv_kernel_dim": 4,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000_000.0, "partial_rotary_factor": 0.25},
        },
    },
    "tiny-attention": COMMON | {"model_type": "qwen3", "rope_theta": 1_000_000.0},
}

NAMES: Final = tuple(CONFIGS)

CONSTANT: Final = 4.0
"""What channel 0 of the residual stream always holds: a bias for the logits, where the head has none."""

SHARPNESS: Final = 2.5
"""The spread of the logits: an entropy of a few nats, neither one sure token nor all alike."""


def ready(name: str) -> Path:
    """The folder of a tiny model in the user's cache, built first if it is not there.

    Raises:
        PredictorError: No tiny model has that name, or the cache cannot be written.
    """
    _config(name)
    folder = _cache() / "verifierd" / f"tiny-{_recipe()}" / name
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as place:
            built = build(name, Path(place) / name)
            try:
                built.rename(folder)
            except OSError:
                if not folder.is_dir():  # otherwise another process was faster, and built the same
                    raise
    except OSError as error:
        raise PredictorError(f"the model `{name}` cannot be written to {folder.parent}: {error}") from error
    return folder


def build(name: str, folder: Path, *, seed: int = 0) -> Path:
    """Write a model of random weights to `folder`, in the layout of a published checkpoint.

    Raises:
        PredictorError: No tiny model has that name.
    """
    config = _config(name)
    vocabulary = _vocabulary()
    stop = vocabulary[END_OF_TURN]
    folder.mkdir(parents=True, exist_ok=True)
    _save(folder / "config.json", config | {"eos_token_id": stop, "dtype": "float32", "verifierd_tiny": True})
    _save(
        folder / "generation_config.json",
        {"eos_token_id": [stop, vocabulary["<|endoftext|>"]], "pad_token_id": vocabulary["<|endoftext|>"]},
    )
    _save_tokenizer(folder, vocabulary)
    _save_weights(folder / "model.safetensors", config, vocabulary, seed)
    return folder


def _config(name: str) -> dict[str, Any]:
    if name not in CONFIGS:
        raise PredictorError(f"no tiny model is called `{name}`", hint=f"Known: {', '.join(NAMES)}.")
    return copy.deepcopy(CONFIGS[name])  # the model class writes into what it reads


def _cache() -> Path:
    """Where this user's programs keep what they can make again."""
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named)
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def _recipe() -> str:
    """A short name for this version and for all that the result depends on."""
    return hashlib.sha256(__version__.encode() + Path(__file__).read_bytes()).hexdigest()[:12]


def _save(file: Path, value: dict[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")


def _alphabet() -> list[str]:
    """The letter that stands for each byte, in the order of the bytes (GPT-2's table)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(moved)) for byte in range(256)]


def _vocabulary() -> dict[str, int]:
    """Bytes, merged pairs, placeholders, and the marks of the dialogue last, as real vocabularies have them."""
    words = _alphabet() + [merge.replace(" ", "") for merge in MERGES]
    words += [f"<|unused_{number}|>" for number in range(VOCABULARY - len(words) - len(MARKS))]
    return {word: number for number, word in enumerate((*words, *MARKS))}


def _save_tokenizer(folder: Path, vocabulary: dict[str, int]) -> None:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    marks = [
        {
            "id": vocabulary[mark],
            "content": mark,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": mark in SPECIAL,
        }
        for mark in MARKS
    ]
    _save(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": marks,
            "normalizer": None,
            "pre_tokenizer": byte_level,
            "post_processor": byte_level,
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": "",
                "end_of_word_suffix": "",
                "fuse_unk": False,
                "byte_fallback": False,
                "vocab": {word: number for word, number in vocabulary.items() if word not in MARKS},
                "merges": [merge.split(" ") for merge in MERGES],
            },
        },
    )
    _save(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "TokenizersBackend",
            "bos_token": None,
            "eos_token": END_OF_TURN,
            "pad_token": "<|endoftext|>",
            "clean_up_tokenization_spaces": False,
            "model_max_length": 262_144,
            "chat_template": TEMPLATE,
        },
    )


def _save_weights(file: Path, config: dict[str, Any], vocabulary: dict[str, int], seed: int) -> None:
    try:
        import mlx.core as mx  # noqa: PLC0415 - slow to load, and not on every platform
        from mlx.utils import tree_flatten  # noqa: PLC0415 - as above

        module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    except ImportError as error:
        raise PredictorError(
            f"mlx-lm cannot be loaded: {error}", hint="Install mlx-lm, or choose another predictor."
        ) from error
    arrays: dict[str, Any] = dict(tree_flatten(module.Model(module.ModelArgs.from_dict(config)).parameters()))
    with mx.stream(mx.cpu):  # a GPU would draw other numbers
        keys = mx.random.split(mx.random.key(seed), len(arrays))
        weights = {
            name: _weights(name, arrays[name].shape, key, vocabulary)
            for name, key in zip(sorted(arrays), keys, strict=True)
        }
        mx.save_safetensors(str(file), weights, metadata={"format": "mlx"})


def _weights(name: str, shape: tuple[int, ...], key: Any, vocabulary: dict[str, int]) -> Any:
    """Random values that keep signals at about unit size from layer to layer."""
    import mlx.core as mx  # noqa: PLC0415 - as above

    part = name.removesuffix(".weight").rsplit(".", 1)[-1]
    fan_in = shape[1] if part == "conv1d" else shape[-1]
    value = mx.random.normal(shape, key=key) * fan_in**-0.5
    match part:
        case "A_log":  # from a memory of a few tokens to one of hundreds
            value = mx.linspace(-5.0, 0.0, shape[0])
        case "dt_bias":
            value = mx.zeros(shape)
        case "q_norm" | "k_norm":  # attention that looks at few places, so that the context counts
            value = mx.full(shape, 2.6)
        case "norm" | "input_layernorm" | "post_attention_layernorm":
            value = mx.ones(shape)
        case "embed_tokens":
            value *= HIDDEN**0.5
            value[:, 0] = CONSTANT
        case "lm_head":
            value *= SHARPNESS
            value[256 + len(MERGES) : -len(MARKS)] *= 0.5
            value[:, 0] = mx.array(_biases(vocabulary))
        case "o_proj" | "out_proj" | "down_proj":
            value *= 1.0 if part == "o_proj" else 3.0
            value[..., 0, :] = 0.0  # nothing writes to the constant channel
        case "gate":  # clear choices of experts, so that rounding seldom changes one
            value *= 3.0
        case _:
            pass
    return value


def _biases(vocabulary: dict[str, int]) -> list[float]:
    """The head's weights on the constant channel: readable text is likely, placeholders hardly ever come."""
    readable = {chr(code) for code in range(0x21, 0x7F)} | {"Ġ", "Ċ", END_OF_TURN}
    readable.update(merge.replace(" ", "") for merge in MERGES)
    return [0.0 if word in readable else -3.0 if len(word) == 1 else -12.0 for word in vocabulary]
