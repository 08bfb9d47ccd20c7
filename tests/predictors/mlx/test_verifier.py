"""A prediction with the observation as draft is what greedy decoding gives, and leaves the cache that it should."""

import copy
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache

from tests.helpers import ran
from tests.predictors.mlx import small
from verifierd.predictors import tiny
from verifierd.predictors.mlx.verifier import Outcome, Verifier
from verifierd.types import Step

CASES = 132
"""Of each model with each history: 528 in all."""

CAP = 14
"""Tokens of a prediction."""

CHUNK = 12
"""Tokens of a pass, over all rows: four of each in a batch of three."""

ROOM = {"tiny": 230_000, "tiny-attention": 460_000}
"""Bytes for the caches: of three trajectories not all can stay."""

TIE = 1e-3
"""Where the two highest logits are closer than this, either may win: a pass over many tokens rounds otherwise."""

TOLERANCE = 2e-3
"""Of logits, whose spread is about 2.5."""

KINDS = (
    "none", "first", "middle", "border", "last", "ends early", "goes on", "beyond the cap", "empty", "unrelated",
)  # fmt: skip
"""Where the observation first differs from the greedy answer: nowhere, or at some token of it, or at its end."""


class _Asked:
    """A trajectory's next action with all that plain mlx-lm makes of it, from a prompt computed anew."""

    def __init__(self, model: Any, prompts: Path, past: list[Step], command: str, history: Any) -> None:
        self.past = past
        self.command = command
        self.step = ran(command)
        self.model = model
        self.prompt = small.conversation(prompts, small.job(past, self.step), history=history)
        self.cache = make_prompt_cache(model)
        # With the history `template` what stays computed ends before the think block, which the past has not.
        self.lead = 0 if history == "stable" else len(small.tokenizer().encode("<think>\n\n</think>\n\n"))
        shared = len(self.prompt) - max(1, self.lead)
        small.computed(model, self.prompt[: shared - 1], self.cache)
        self.unanswered = small.computed(model, [self.prompt[shared - 1]], self.cache)
        if rest := self.prompt[shared:-1]:
            small.computed(model, rest, self.cache)
        self.answer = small.decoded(model, self.prompt[-1], self.cache, most=CAP, ends=small.template().ends)
        self.tokens = [token for token, _ in self.answer]
        self.ended = self.tokens[-1] in small.template().ends
        self.said = self.tokens[:-1] if self.ended else self.tokens

    def after(self, ids: list[int]) -> Any:
        """The logits that follow, once this was answered."""
        return small.computed(self.model, [self.prompt[-1], *ids], copy.deepcopy(self.cache))


def _places(kind: str, asked: _Asked, width: int) -> Sequence[int]:
    """Where the greedy answer can be changed so that it first differs at a place of this kind.

    Args:
        kind: See `KINDS`.
        asked: What has this answer.
        width: Tokens of each row in a pass.
    """
    count = len(asked.said)
    end = [count]
    places: dict[str, Sequence[int]] = {
        "none": end if asked.ended else [],
        "first": range(min(count, 1)),
        "middle": range(1, count - 1),
        "border": [place for place in range(count) if (place + asked.lead + 1) % width < 3],
        "last": range(max(count - 1, 0), count),
        "ends early": range(1, count),
        "goes on": end if asked.ended else [],
        "beyond the cap": [] if asked.ended else end,
    }
    return places.get(kind, [0])


def _observation(kind: str, asked: _Asked, width: int, draw: random.Random) -> str | None:
    """The greedy answer changed at such a place; None if there is none, or if the text would be trimmed."""
    places = _places(kind, asked, width)
    if not places:
        return None
    place = draw.choice(places)
    kept = small.template().decode(asked.said[:place])
    letters = small.WRITTEN[:-2]
    tail = "".join(draw.choices(letters, k=draw.choice([0, 1, 3, 11, 12, 13, 25])))
    match kind:
        case "none" | "ends early":
            text = kept
        case "beyond the cap":
            text = kept + tail
        case "empty":
            text = ""
        case "unrelated":
            text = "".join(draw.choices(letters, k=draw.randrange(1, 40)))
        case _:
            came = small.template().decode(asked.said[place : place + 1])
            text = kept + draw.choice([letter for letter in letters if letter != came]) + tail
    return text if text == text.strip() else None


def _choose(asked: _Asked, width: int, kinds: Counter[str], draw: random.Random) -> str:
    """An observation of the kind that came least so far of those that are possible here."""
    for kind in sorted(KINDS, key=lambda kind: (kinds[kind], draw.random())):
        text = _observation(kind, asked, width, draw)
        if text is not None:
            kinds[kind] += 1
            return text
    raise AssertionError


def _compare(outcome: Outcome, asked: _Asked) -> bool:
    """Is it the greedy answer? Says if a tie cut the comparison short."""
    for place, (token, margin) in enumerate(asked.answer):
        if margin < TIE:
            return True
        assert outcome.greedy[place : place + 1] == [token], (place, margin)
    assert len(outcome.greedy) == len(asked.answer)
    assert outcome.ended == asked.ended
    return False


class _Counted(Verifier):
    """Remembers how many steps each pass had that merged caches, and what was held when it began."""

    merged: Sequence[tuple[int, int]] = ()

    def _ask_together(self, works: Any, stopped: Any) -> None:
        self.merged = [*self.merged, (len(works), self.nbytes)]
        super()._ask_together(works, stopped)

    def limit(self, cache_bytes: int) -> None:
        """From now on."""
        self._limits = msgspec.structs.replace(self._limits, cache_bytes=cache_bytes)

    @classmethod
    def of(cls, plain: Verifier) -> "_Counted":
        """The same, counting."""
        return cls(plain._network, plain._renderer, plain._ends, plain._limits)


def _next(verifier: Verifier, key: tuple[object, ...]) -> Any:
    """The logits that follow all that a trajectory's cache holds or is about to take in; None if it was evicted."""
    strand = verifier._strands[key]
    if strand.cache is None:
        return None
    return small.computed(verifier._network.model, strand.pending, copy.deepcopy(strand.cache))


@pytest.mark.slow
@pytest.mark.parametrize("history", ["stable", "template"])
@pytest.mark.parametrize("name", tiny.NAMES)
def test_greedy_decoding(name: str, history: Literal["stable", "template"], prompts: Path) -> None:
    """Wherever an observation leaves the greedy answer, prediction and cache are as without a draft."""
    draw = random.Random(f"{name} {history}")
    model = small.writer(name)
    kinds: Counter[str] = Counter()
    ties = evicted = cases = batches = 0
    while cases < CASES:
        rows = range(draw.choice([1, 3]))
        verifier = _Counted.of(
            small.verifier(model, prompts, history=history, chunk=CHUNK, max_tokens=CAP, decode=True)
        )
        pasts: list[list[Step]] = [[] for _ in rows]
        for number in range(2):
            asked = [
                _Asked(model, prompts, pasts[row], f"run {draw.choice('abc')}{row}{number}", history) for row in rows
            ]
            for _ in range(8):
                steps = [ran(one.command, _choose(one, CHUNK // len(rows), kinds, draw)) for one in asked]
                if draw.random() < 0.15:
                    verifier.forget((0,))
                # A copy of three caches fits into the larger one only.
                verifier.limit(draw.choice([1, 16]) * ROOM[name])
                outcomes = verifier.run([small.job(pasts[row], steps[row], key=(row,)) for row in rows])
                for row, one in enumerate(asked):
                    ties += _compare(outcomes[row], one)
                    cases += 1
                    logits = _next(verifier, (row,))
                    if logits is None:
                        evicted += 1
                        continue
                    expected = one.after(outcomes[row].draft.ids) if history == "stable" else one.unanswered
                    np.testing.assert_allclose(logits, expected, atol=TOLERANCE, rtol=0)
            for row in rows:
                pasts[row] = [*pasts[row], steps[row]]
        batches += len(verifier.merged)
    assert ties <= 0.1 * cases
    assert all(kinds[kind] >= 5 for kind in KINDS)
    assert evicted
    assert batches


def test_other_kinds_of_caches(prompts: Path) -> None:
    """Trajectories whose caches can neither be cut back nor batched are predicted one by one, from copies."""
    model = small.Rotating(small.writer("tiny-attention"))
    verifier = small.verifier(model, prompts, max_tokens=CAP, decode=True)
    for observation in ("A", "SOMETHING ELSE", "A"):
        jobs = [small.job([ran("ls", "B")], ran(f"run {row}", observation), key=(row,)) for row in range(2)]
        outcomes = verifier.run(jobs)
        for job, outcome in zip(jobs, outcomes, strict=True):
            (alone,) = small.verifier(model, prompts, max_tokens=CAP, decode=True).run([job])
            assert outcome.greedy == alone.greedy
            assert outcome.scored is not None
            assert alone.scored is not None
            np.testing.assert_allclose(outcome.scored.surprisal, alone.scored.surprisal, atol=TOLERANCE)
            (again,) = verifier.run([job])
            assert again.greedy == alone.greedy


def _together(prompts: Path, cache_bytes: int) -> tuple[_Counted, list[Outcome]]:
    """Four trajectories asked about at once, after four others."""
    made = _Counted.of(small.verifier(small.Ledger(), prompts, cache_bytes=cache_bytes))
    for name in "abcd":
        made.run([small.job((), ran("one", "x\n"), key=(name,))])
    steps = [ran("one two three " * count, "x y\n") for count in (1, 2, 3, 4)]
    return made, made.run([small.job((), step, key=(str(number),)) for number, step in enumerate(steps)])


def test_a_batch_copies_no_more_than_its_share(prompts: Path) -> None:
    """Steps whose caches would take too much together are asked about in smaller groups, and get the same answers."""
    free, expected = _together(prompts, 10**9)
    assert [count for count, _ in free.merged] == [4]
    largest = max(strand.nbytes for strand in free._strands.values())
    for rows in range(5):
        made, found = _together(prompts, 4 * rows * largest)
        assert [outcome.greedy for outcome in found] == [outcome.greedy for outcome in expected]
        assert [outcome.scored for outcome in found] == [outcome.scored for outcome in expected]
        assert [count for count, _ in made.merged] == [[], [], [2, 2], [3], [4]][rows]
        assert all(held + count * 0.9 * largest <= 4 * rows * largest for count, held in made.merged)


def _caches(verifier: Verifier) -> dict[object, tuple[int, int, list[int], int]]:
    """Of each trajectory, the one used longest ago first: what is held, computed, pending and seen."""
    return {
        key: (strand.nbytes, strand.computed, list(strand.pending), strand.seen)
        for key, strand in verifier._strands.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("history", ["stable", "template"])
@pytest.mark.parametrize("name", ["tiny", "tiny-attention", "rotating"])
def test_what_is_not_kept_leaves_no_trace(name: str, history: Literal["stable", "template"], prompts: Path) -> None:
    """Real steps are predicted as without it, to the last figure and at the same cost, evictions included."""
    model = small.Rotating(small.writer("tiny-attention")) if name == "rotating" else small.writer(name)

    def made() -> Verifier:
        return small.verifier(
            model, prompts, history=history, context=1200, cache_bytes=ROOM["tiny"], max_tokens=CAP, decode=True
        )

    alone, other = made(), made()
    draw = random.Random(1)
    pasts: dict[int, list[Step]] = {row: [] for row in range(4)}
    known = (0, 1, 2)

    def aside() -> None:
        row = draw.choice([*known, 3])  # the fourth has no real step until the end
        step = ran(draw.choice(["run", "look"]), "ANOTHER " * draw.randrange(20))
        before = _caches(other), other.nbytes, set(other._openings)
        job = msgspec.structs.replace(small.job(pasts[row], step, key=(row,)), keep=False)
        (outcome,) = other.run([job])
        assert (_caches(other), other.nbytes, set(other._openings)) == before
        (expected,) = made().run([job])
        assert outcome.greedy == expected.greedy
        assert outcome.scored is not None
        assert expected.scored is not None
        np.testing.assert_allclose(outcome.scored.surprisal, expected.scored.surprisal, atol=TOLERANCE)

    for number in range(9):
        rows = draw.sample(known, draw.choice([1, 1, 2])) if number < 8 else [3]
        steps = {row: ran("run", f"LINE {number} " * draw.randrange(1, 12)) for row in rows}
        aside()
        jobs = [small.job(pasts[row], steps[row], key=(row,)) for row in rows]
        assert other.run(jobs) == alone.run(jobs)
        for row in rows:  # the same step once more, as something else
            step = msgspec.structs.replace(steps[row], observation="SOMETHING ELSE")
            other.run([msgspec.structs.replace(small.job(pasts[row], step, key=(row,)), keep=False)])
        assert _caches(other) == _caches(alone)
        for row in rows:
            pasts[row].append(steps[row])
    assert any(strand.cache is None for strand in other._strands.values())


def test_what_is_not_kept_and_not_waited_for(prompts: Path) -> None:
    """Ends at the next chunk, and leaves no trace either."""
    verifier = small.verifier(small.Ledger(), prompts)
    verifier.run([small.job((), ran("one", "x\n"))])
    before = _caches(verifier)
    left = 2

    def stopped() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise InterruptedError

    job = msgspec.structs.replace(small.job((), ran("one", "x y z\n" * 20)), keep=False)
    with pytest.raises(InterruptedError):
        verifier.run([job], stopped)
    assert _caches(verifier) == before
    assert small.entries(verifier._strands[("t",)].layers)
