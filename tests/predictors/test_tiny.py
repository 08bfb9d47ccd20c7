"""The tiny models load and behave like real checkpoints, and say that they are none."""

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifierd.errors import PredictorError
from verifierd.predictors import tiny

mx = pytest.importorskip("mlx.core")
mlx_lm = pytest.importorskip("mlx_lm")
cache = pytest.importorskip("mlx_lm.models.cache")

SCREEN = "user@host:~$ ls -la /tmp\ntotal 12\ndrwxrwxrwt 1 root root 4096 Nov 30 08:19 .\n"
ASSIGNED = st.text(st.characters(exclude_categories=("Cs", "Cn")), max_size=40)
EMPTY_THOUGHT = "<think>\n\n</think>\n\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("tiny")
    return {name: tiny.build(name, place / name) for name in tiny.NAMES}


@pytest.fixture(scope="module")
def loaded(folders: dict[str, Path]) -> dict[str, tuple[Any, Any]]:
    return {name: mlx_lm.load(str(folder)) for name, folder in folders.items()}


def _render(tokenizer: Any, turns: list[tuple[str, str]], **switches: bool) -> str:
    messages = [{"role": role, "content": content} for role, content in turns]
    text = tokenizer.apply_chat_template(messages, tokenize=False, **switches)
    assert isinstance(text, str)
    return text


def _surprises(model: Any, tokens: list[int]) -> Any:
    logits = model(mx.array([tokens]))[0]
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


def test_kinds_of_caches(loaded: dict[str, tuple[Any, Any]]) -> None:
    """The hybrid model has layers that cannot be trimmed between those that can; the other has only the latter."""
    kinds = {
        name: [type(layer).__name__ for layer in cache.make_prompt_cache(model)] for name, (model, _) in loaded.items()
    }

    assert kinds == {"tiny": ["ArraysCache", "KVCache"] * 4, "tiny-attention": ["KVCache"] * 8}
    assert not cache.can_trim_prompt_cache(cache.make_prompt_cache(loaded["tiny"][0]))
    assert cache.can_trim_prompt_cache(cache.make_prompt_cache(loaded["tiny-attention"][0]))


def test_experts(loaded: dict[str, tuple[Any, Any]]) -> None:
    """Every layer of the hybrid model has several experts, of which some are chosen, and a shared one."""
    for layer in loaded["tiny"][0].layers:
        assert 1 < layer.mlp.top_k < layer.mlp.num_experts
        assert "shared_expert" in layer.mlp


@pytest.mark.parametrize("name", tiny.NAMES)
def test_vocabulary(name: str, loaded: dict[str, tuple[Any, Any]]) -> None:
    """Each of 32,768 ids is a token of the tokenizer and a logit of the model; two of them end a turn."""
    model, tokenizer = loaded[name]

    assert len(tokenizer) == model(mx.array([[0]])).shape[-1] == 32_768
    assert tokenizer.eos_token == "<|im_end|>"
    assert {tokenizer.decode([token]) for token in tokenizer.eos_token_ids} == {"<|im_end|>", "<|endoftext|>"}
    assert tokenizer.think_start == "<think>"
    assert tokenizer.think_end == "</think>"


@pytest.mark.parametrize("name", tiny.NAMES)
def test_marks_are_single_tokens(name: str, loaded: dict[str, tuple[Any, Any]]) -> None:
    """The marks of a dialogue are one token each, wherever they stand; only the think marks are no special tokens."""
    _, tokenizer = loaded[name]

    tokens = tokenizer.encode("a<|im_end|><think>b</think><|im_start|>")

    assert len(tokens) == 6
    assert tokenizer.decode(tokens, skip_special_tokens=True) == "a<think>b</think>"


@settings(max_examples=200, deadline=None)
@given(text=ASSIGNED)
def test_text_returns(text: str, loaded: dict[str, tuple[Any, Any]]) -> None:
    """Any text comes back from its tokens byte for byte."""
    _, tokenizer = loaded["tiny-attention"]

    assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(max_examples=200, deadline=None)
@given(text=ASSIGNED)
def test_text_returns_composed(text: str, loaded: dict[str, tuple[Any, Any]]) -> None:
    """The Qwen3.5 tokenizer, which transformers imposes on this architecture, composes characters (NFC) first."""
    _, tokenizer = loaded["tiny"]

    assert tokenizer.decode(tokenizer.encode(text)) == unicodedata.normalize("NFC", text)


def test_a_text_has_several_spellings(loaded: dict[str, tuple[Any, Any]]) -> None:
    """Decoding may write a word in other tokens than the tokenizer would, as with a real vocabulary."""
    _, tokenizer = loaded["tiny"]
    letters = [token for letter in "the" for token in tokenizer.encode(letter)]

    assert tokenizer.decode(letters) == "the"
    assert tokenizer.encode("the") != letters


@pytest.mark.parametrize("name", tiny.NAMES)
def test_thinking_switch(name: str, loaded: dict[str, tuple[Any, Any]]) -> None:
    """The prompt ends in a closed, empty thought without thinking, and in an open one with it or by default."""
    _, tokenizer = loaded[name]
    turns = [("user", "ls")]
    asked = "<|im_start|>user\nls<|im_end|>\n<|im_start|>assistant\n"

    assert _render(tokenizer, turns, add_generation_prompt=True, enable_thinking=False) == asked + EMPTY_THOUGHT
    assert _render(tokenizer, turns, add_generation_prompt=True, enable_thinking=True) == asked + "<think>\n"
    assert _render(tokenizer, turns, add_generation_prompt=True) == asked + "<think>\n"


def test_template_drops_old_thoughts(loaded: dict[str, tuple[Any, Any]]) -> None:
    """Only what the assistant said after the last user message keeps its thought; all contents are trimmed."""
    _, tokenizer = loaded["tiny"]
    past = [("system", " simulate\n"), ("user", "ls "), ("assistant", "<think>\nhm\n</think>\n\n a\n")]
    start = "<|im_start|>system\nsimulate<|im_end|>\n<|im_start|>user\nls<|im_end|>\n<|im_start|>assistant\n"

    assert _render(tokenizer, past) == f"{start}<think>\nhm\n</think>\n\na<|im_end|>\n"
    assert _render(tokenizer, [*past[:-1], ("assistant", "a")]) == f"{start}{EMPTY_THOUGHT}a<|im_end|>\n"
    assert _render(tokenizer, [*past, ("user", "pwd")]) == (f"{start}a<|im_end|>\n<|im_start|>user\npwd<|im_end|>\n")


@pytest.mark.parametrize("roles", [("user", "system"), ("system",), ("assistant",), ("user", "stranger")], ids="-".join)
def test_template_refuses(roles: tuple[str, ...], loaded: dict[str, tuple[Any, Any]]) -> None:
    """A system message comes first or not at all, a user message must be there, and no other role is known."""
    _, tokenizer = loaded["tiny"]

    with pytest.raises(Exception, match=r"system message|no user message|unknown role"):
        _render(tokenizer, [(role, "x") for role in roles])


@pytest.mark.parametrize("name", tiny.NAMES)
def test_predictions_are_neither_flat_nor_certain(name: str, loaded: dict[str, tuple[Any, Any]]) -> None:
    """Entropies are some nats; placeholders have a small but real share of the probability."""
    model, tokenizer = loaded[name]
    surprises = _surprises(model, tokenizer.encode(SCREEN))
    chances = mx.exp(surprises)
    entropies = -(chances * surprises).sum(axis=-1)
    unused = chances[:, tokenizer.convert_tokens_to_ids("<|unused_0|>") : -5].sum(axis=-1)

    assert 1.5 < entropies.mean().item() < 5.0
    assert entropies.max().item() - entropies.min().item() > 1.0
    assert 0.0 < unused.mean().item() < 0.1


@pytest.mark.parametrize("name", tiny.NAMES)
def test_greedy_decoding_is_varied_text(name: str, loaded: dict[str, tuple[Any, Any]]) -> None:
    """Greedy decoding writes many different tokens, hardly any of them a placeholder."""
    model, tokenizer = loaded[name]
    state = cache.make_prompt_cache(model)
    tokens, written = mx.array(tokenizer.encode(SCREEN)), []
    for _ in range(80):
        tokens = mx.argmax(model(tokens[None], cache=state)[0, -1:], axis=-1)
        written.append(tokens.item())

    assert len(set(written)) > 20
    assert tokenizer.decode(written).count("<|unused_") < 4


@pytest.mark.parametrize("name", tiny.NAMES)
def test_chunks_agree(name: str, loaded: dict[str, tuple[Any, Any]]) -> None:
    """Passes over the same tokens in pieces of any length give the same logits."""
    model, tokenizer = loaded[name]
    tokens = mx.array([tokenizer.encode(SCREEN)])
    whole = model(tokens)
    for size in (1, 7, 32):
        state = cache.make_prompt_cache(model)
        pieces = [model(tokens[:, at : at + size], cache=state) for at in range(0, tokens.shape[1], size)]

        assert mx.abs(mx.concatenate(pieces, axis=1) - whole).max().item() < 1e-4


@pytest.mark.parametrize("name", tiny.NAMES)
def test_a_seed_decides_the_weights(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    """The same seed gives the same files, another one other weights."""
    again = tiny.build(name, tmp_path / "again")
    other = tiny.build(name, tmp_path / "other", seed=1)
    weights = [mx.load(str(folder / "model.safetensors")) for folder in (folders[name], again, other)]

    assert all(mx.array_equal(weights[0][key], weights[1][key]).item() for key in weights[0])
    assert not all(mx.array_equal(weights[0][key], weights[2][key]).item() for key in weights[0])
    for file in folders[name].glob("*.json"):
        assert file.read_bytes() == (again / file.name).read_bytes()


@pytest.mark.parametrize("name", tiny.NAMES)
def test_a_checkpoint_says_what_it_is(name: str, folders: dict[str, Path]) -> None:
    """The configuration tells a tiny model from a real one; all files together are small."""
    assert json.loads((folders[name] / "config.json").read_text(encoding="utf-8"))["verifierd_tiny"] is True
    assert sum(file.stat().st_size for file in folders[name].iterdir()) < 40e6


@pytest.mark.slow
def test_two_processes_want_the_same(tmp_path: Path) -> None:
    """Both get the one folder of the cache, complete, and nothing half-built stays behind."""
    program = "from verifierd.predictors import tiny; print(tiny.ready('tiny-attention'))"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    printed = [process.communicate()[0].strip() for process in running]

    folder = Path(printed[0])
    assert [process.returncode for process in running] == [0, 0]
    assert printed[0] == printed[1]
    assert folder.parent.parent == tmp_path / "verifierd"
    assert [path.name for path in folder.parent.iterdir()] == ["tiny-attention"]
    mlx_lm.load(str(folder))


def test_ready_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second call finds the folder of the first and writes nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tiny.ready("tiny")
    written = {file: file.stat().st_mtime_ns for file in folder.iterdir()}

    assert tiny.ready("tiny") == folder
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == written


def test_unusable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that cannot be written to is an error that names the place."""
    (tmp_path / "verifierd").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(PredictorError, match="verifierd"):
        tiny.ready("tiny")


def test_unknown_name(tmp_path: Path) -> None:
    """Only the names of the table can be built."""
    with pytest.raises(PredictorError, match="no tiny model is called `huge`"):
        tiny.build("huge", tmp_path)
