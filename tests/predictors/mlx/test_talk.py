"""Talking to the tiny model: what it is asked, what it says, what it costs, and what it leaves alone."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import mlx.core as mx
import msgspec
import pytest

pytest.importorskip("mlx_lm")

from mlx_lm.generate import generate_step
from mlx_lm.sample_utils import make_sampler

from tests.predictors.mlx import small
from verifierd.errors import PredictorError
from verifierd.predictors.mlx.grammar import Grammars
from verifierd.predictors.mlx.passes import Network
from verifierd.predictors.mlx.talk import Talk, reply
from verifierd.stages import Asked, Message, Reply

TALK = (Message("system", "Be short."), Message("user", "Is this so? Say <|im_end|> too."))


def _reply(
    *messages: Message, model: Any = None, stopped: Callable[[], None] = lambda: None, **asked: Any
) -> tuple[Reply, Any]:
    model = model or small.writer("tiny")
    talk = Talk(messages=messages or TALK, asked=Asked(**{"max_tokens": 40} | asked))
    network = Network(model, chunk=512, logit_chunk=512)
    tokenizer, template = small.tokenizer(), small.template()
    found = reply(network, tokenizer, template, _grammars(), talk, context=400, model="m@1", stopped=stopped)
    return found, model


@cache
def _grammars() -> Grammars:
    return Grammars(small.tokenizer())


def _plainly(ids: Sequence[int], model: Any, *, most: int = 40, **sampling: Any) -> list[int]:
    """What mlx-lm generates after these tokens."""
    mx.random.seed(sampling.pop("seed", 0))
    said = []
    stream = mx.default_stream(mx.default_device())
    sampler = make_sampler(**sampling)
    for token, _ in generate_step(mx.array(list(ids)), model, max_tokens=most, sampler=sampler, stream=stream):
        said.append(int(token))
        if said[-1] in small.template().ends:
            break
    return said


def test_the_prompt() -> None:
    """Is what the model's own chat template writes, with the switch, but text that spells a mark stays text."""
    messages = [Message("system", "S"), Message("user", "U"), Message("assistant", "A"), Message("user", " V\n")]
    for thinking in (False, True):
        ids, opened = small.template().talk(messages, thinking=thinking)
        expected = small.tokenizer().apply_chat_template(
            [msgspec.structs.asdict(message) for message in messages],
            tokenize=True,
            add_generation_prompt=True,
            enable_thinking=thinking,
        )
        assert ids == expected
        assert opened == thinking
    ids, _ = small.template().talk([Message("user", "a <|im_end|> b")], thinking=False)
    assert ids.count(small.template().end) == 1
    assert "a <|im_end|> b" in small.template().decode(ids)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "top_p": 0.9, "top_k": 20, "seed": 7}])
def test_the_reply(sampling: dict[str, Any]) -> None:
    """Is what mlx-lm generates with this sampling and seed, to its end or to the cap; the same each time."""
    found, model = _reply(**sampling)
    ids, _ = small.template().talk(TALK, thinking=False)
    said = _plainly(ids, model, **{{"temperature": "temp"}.get(name, name): value for name, value in sampling.items()})
    ended = said[-1] in small.template().ends
    assert found.text == small.template().decode(said[:-1] if ended else said)
    assert (found.thought, found.finish) == ("", "stop" if ended else "length")
    assert (found.prompt_tokens, found.generated_tokens) == (len(ids), len(said))
    assert 0 < found.first_token_seconds <= found.seconds
    assert found.model == "m@1"
    again, _ = _reply(**sampling)
    assert again.text == found.text


def test_seeds_differ() -> None:
    """Another seed, another reply."""
    texts = {_reply(temperature=1.0, seed=seed)[0].text for seed in range(4)}
    assert len(texts) > 1


class _Says:
    """A model that says given tokens, whatever it is asked."""

    def __init__(self, text: str) -> None:
        self.tokens: list[int] = small.tokenizer().encode(text, add_special_tokens=False)
        self.layers = [None]
        self.seen: list[int] = []
        self._asked = 0

    def __call__(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:  # noqa: ARG002 - as models
        """Logits: the next of the tokens, after the last of the prompt."""
        self.seen.append(tokens.shape[1])
        logits = mx.zeros((1, tokens.shape[1], small.VOCABULARY))
        if tokens.shape[1] == 1:
            logits[0, 0, self.tokens[min(self._asked, len(self.tokens) - 1)]] = 9.0
            self._asked += 1
        return logits

    def make_cache(self) -> list[Any]:
        """An empty cache."""
        return [small.kinds.ArraysCache(1)]


@pytest.mark.parametrize(
    ("said", "thinking", "text", "thought", "finish"),
    [
        ("yes<|im_end|>", False, "yes", "", "stop"),
        ("hm, well\n</think>\n\nyes<|im_end|>", True, "yes", "hm, well", "stop"),
        ("hm, well, and then again, hm, well, and then again, hm", True, "", "hm, well, and th", "length"),
        ("<think>\nhm\n</think>\n\nyes<|im_end|>", False, "yes", "hm", "stop"),
        ("hm\n</think>\n\nyes<|im_end|>", False, "yes", "hm", "stop"),
        ("<|im_end|>", False, "", "", "stop"),
        ("hm<|im_end|>", True, "", "hm", "stop"),
    ],
)
def test_thoughts(said: str, *, thinking: bool, text: str, thought: str, finish: str) -> None:
    """Are no part of the answer, also where there should be none; where the cap cuts one there is no answer."""
    found, _ = _reply(model=_Says(said), thinking=thinking, max_tokens=16)
    assert (found.text, found.finish) == (text, finish)
    assert found.thought.startswith(thought)
    assert bool(found.thought) == bool(thought)


def test_a_short_question_costs_one_prefill() -> None:
    """And a pass for each token of the reply, but for one that mlx-lm looks ahead."""
    model = _Says("yes and more")
    found, _ = _reply(model=model, max_tokens=4)
    assert found.generated_tokens == 4
    assert found.prompt_tokens is not None
    assert model.seen[:2] == [found.prompt_tokens - 1, 1]
    assert set(model.seen[2:]) == {1}
    assert len(model.seen) <= 2 + 4


@pytest.mark.parametrize(
    ("grammar", "expected"),
    [
        ('start: "yes" | "no"', r"yes|no"),
        ("start: /[0-9]{3,5}-[a-f]{2}/", r"[0-9]{3,5}-[a-f]{2}"),
        ('start: %json {"enum": ["on path", "né 🦊"]}', r'"(on path|né 🦊)"'),
        ('start: ""', ""),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_grammar(grammar: str, expected: str, temperature: float) -> None:
    """Holds the reply, which ends where nothing may follow; without one the model says something else."""
    found, _ = _reply(grammar=grammar, temperature=temperature)
    assert re.fullmatch(expected, found.text)
    assert found.finish == "stop"
    free, _ = _reply(temperature=temperature)
    assert not re.fullmatch(expected, free.text)


def test_a_grammar_chooses_the_likeliest() -> None:
    """Where what the model would say is allowed, it is said; where the cap cuts it, that shows."""
    free, _ = _reply()
    held, _ = _reply(grammar="start: /(.|\\n)*/")
    assert held.text == free.text
    cut, _ = _reply(grammar="start: /[0-9]{30}/", max_tokens=10)
    assert re.fullmatch("[0-9]{10}", cut.text)
    assert cut.finish == "length"


def test_a_wrong_grammar() -> None:
    """Is an error that says where."""
    with pytest.raises(PredictorError, match=r"the grammar is wrong: .*nonsense"):
        _reply(grammar="start: nonsense")


def test_what_cannot_be_said() -> None:
    """A talk beyond the context, and one that the template does not take, are errors that say so."""
    with pytest.raises(PredictorError, match=r"a talk of \d+ tokens and a reply of up to 390 exceed 400"):
        _reply(max_tokens=390)
    with pytest.raises(PredictorError, match="a system message must be the first"):
        _reply(Message("user", "U"), Message("system", "S"))


def test_nobody_waits() -> None:
    """The reply ends at the next token."""
    left = 20

    def stopped() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        _reply(model=_Says("A" * 100), max_tokens=100, stopped=stopped)


@pytest.mark.parametrize(
    "asked",
    [
        {"max_tokens": 0},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_p": 0.0},
        {"seed": -1},
        {"grammar": "x", "thinking": True},
    ],
)
def test_what_cannot_be_asked(asked: dict[str, Any]) -> None:
    """Is refused at once."""
    with pytest.raises(ValueError, match="must be"):
        Asked(**{"max_tokens": 1} | asked)
