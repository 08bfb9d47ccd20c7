"""In whatever order things come, a cache holds the conversation as the tokenizer would write it anew."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import mlx.core as mx
import numpy as np
import pytest

from tests.helpers import ran
from tests.predictors.mlx import small
from verifierd.predictors import prompt
from verifierd.predictors.mlx.strand import Job, Strand
from verifierd.predictors.mlx.verifier import Outcome, Verifier
from verifierd.types import ObservationKind, Step

HISTORIES = pytest.mark.parametrize("history", ["stable", "template"])
LEAD = len(small.tokenizer().encode("<think>\n\n</think>\n\n"))
"""Tokens before an answer that the past does not have with the history `template`."""

How = Literal["stable", "template"]


class _StopError(Exception):
    """Raised where nobody waits any more."""


def _after(calls: int) -> Callable[[], None]:
    """Something that raises when it has been called so often."""
    left = [calls]

    def stopped() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise _StopError

    return stopped


def _strand(verifier: Verifier, key: tuple[object, ...] = ("t",)) -> Strand:
    return verifier._strands[key]


def _held(verifier: Verifier, key: tuple[object, ...] = ("t",)) -> list[int]:
    """The conversation as far as it is computed or about to be."""
    strand = _strand(verifier, key)
    tokens = small.entries(strand.layers)
    assert len(tokens) == strand.computed
    return [*tokens, *strand.pending]


def _check(
    verifier: Verifier, job: Job, outcome: Outcome, prompts: Path, history: How, *, longest: int = 10**6
) -> None:
    """The cache holds what it should, and the draft was scored against exactly that."""
    key = job.key
    asked = small.conversation(prompts, job, history=history, first=outcome.dropped, longest=longest)
    lead = 0 if history == "stable" else LEAD
    draft = outcome.draft.ids
    if outcome.scored is None:
        assert _held(verifier, key) == asked[: len(asked) - lead]
        return
    assert _held(verifier, key) == ([*asked, *draft] if history == "stable" else asked[:-lead])
    assert outcome.tokens.prompt == len(asked)
    logits = small.Ledger()(mx.array([[*asked, *draft[:-1]]]))[0, len(asked) - 1 :]
    log = np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
    np.testing.assert_allclose(outcome.scored.surprisal, -log[range(len(draft)), draft], atol=1e-3)


def _turns(count: int, *, size: int = 8, seed: int = 0) -> list[Step]:
    draw = random.Random(seed)
    return [
        ran(f"run {number}", "".join(draw.choices("abc \n", k=draw.randrange(size))) + str(number))
        for number in range(count)
    ]


@HISTORIES
@pytest.mark.parametrize("seed", range(6))
def test_any_order(seed: int, history: How, prompts: Path) -> None:
    """Asked again with another observation, not asked, cancelled, evicted, cut: the next answer is as from scratch."""
    draw = random.Random(seed)
    verifier = small.verifier(small.Ledger(), prompts, history=history, context=1000, max_tokens=4, decode=True)
    past: list[Step] = []
    step = ran("run 0", "0")
    moved = 0
    for number in range(1, 80):
        match draw.choice(["go on", "go on", "another answer", "another action", "cancel", "skip", "forget", "long"]):
            case "go on":
                past = [*past, step]
                step = ran(f"run {number}", "x" * draw.randrange(30))
            case "another answer":
                step = ran(step.action.text, "y" * draw.randrange(30))
            case "another action":
                step = ran(f"run {number} again", step.observation)
            case "cancel":
                with suppress(_StopError):
                    verifier.run([small.job(past, step)], _after(draw.randrange(5)))
            case "skip":
                past = [*past, *(ran(f"skip {number} {more}", "z" * draw.randrange(9)) for more in range(2))]
            case "forget":
                verifier.forget(("t",))
            case "long":
                step = ran(step.action.text, "long" * 100)
        # The history holds what the window may need, or hardly anything.
        asked = small.job(past, step, held=min(len(past), draw.choice([len(past)] * 5 + [2])))
        (outcome,) = verifier.run([asked])
        _check(verifier, small.job(past, step), outcome, prompts, history, longest=250)
        assert outcome.tokens.prompt + outcome.tokens.scored <= 1000
        assert outcome.tokens.new >= 0
        assert outcome.tokens.computed >= 0
        assert outcome.tokens.cached >= 0
        moved += outcome.dropped > 0
    assert moved


@HISTORIES
def test_window(history: How, prompts: Path) -> None:
    """The conversation stays within the context; the oldest turns go, as many as the window says."""
    verifier = small.verifier(small.Ledger(), prompts, history=history, context=600)
    write = small.renderer(prompts, history=history, longest=150)
    steps = _turns(40)
    opening = len(write.opening("terminal"))
    sizes: list[int] = []
    for number, step in enumerate(steps):
        asked = small.job(steps[:number], step)
        (outcome,) = verifier.run([asked])
        _check(verifier, asked, outcome, prompts, history)
        assert outcome.dropped == prompt.window(sizes, 600 - 2 * 150 - opening)
        assert outcome.tokens.prompt + outcome.tokens.scored <= 600
        sizes.append(len(write.action(step, number)) + len(write.answered(step)))
    assert outcome.dropped > 20


@HISTORIES
def test_cancelled_anywhere(history: How, prompts: Path) -> None:
    """Wherever work is cancelled, it is taken up again as if it had not been."""
    steps = [[ran(f"run {row} {number}", "abc " * 9) for number in range(3)] for row in range(2)]
    counts = []
    for rows in ([0], [0, 1]):
        jobs = [small.job(steps[row][:2], steps[row][2], key=(row,)) for row in rows]
        before = [small.job(steps[row][:1], steps[row][1], key=(row,)) for row in rows]
        for count in range(1000):
            verifier = small.verifier(small.Ledger(), prompts, history=history, max_tokens=8, decode=True, chunk=24)
            verifier.run(before)
            try:
                verifier.run(jobs, _after(count))
            except _StopError:
                for row in rows:
                    assert _strand(verifier, (row,)).pending  # nothing is half done
            else:
                break
            for job, outcome in zip(jobs, verifier.run(jobs), strict=True):
                _check(verifier, job, outcome, prompts, history)
        counts.append(count)
    assert min(counts) > 10


def test_reality_differs_from_draft(prompts: Path) -> None:
    """What was drafted is undone where the history says that something else came."""
    for past in (ran("ls", "real"), ran("ls", "", observation_kind=ObservationKind.INTERRUPTED)):
        verifier = small.verifier(small.Ledger(), prompts)
        verifier.run([small.job([], ran("ls", "drafted"))])
        asked = small.job([past], ran("pwd", "/w"))
        (outcome,) = verifier.run([asked])
        _check(verifier, asked, outcome, prompts, "stable")


def test_draft_is_kept(prompts: Path) -> None:
    """What was drafted and really came is not computed again."""
    verifier = small.verifier(small.Ledger(), prompts)
    step, following = ran("ls", "a\nb"), ran("pwd", "/w")
    verifier.run([small.job([], step)])
    had = _strand(verifier).computed
    (outcome,) = verifier.run([small.job([step], following)])

    assert outcome.tokens.cached == had
    assert had + outcome.tokens.computed == _strand(verifier).computed


def test_alternates_of_a_step(prompts: Path) -> None:
    """Another observation of the same action costs that observation, and is judged as if it were the first."""
    verifier = small.verifier(small.Ledger(), prompts, max_tokens=8, decode=True)
    past = _turns(5)
    for observation in ("real", "fault", "", "real", "a longer fault"):
        asked = small.job(past, ran("ls", observation))
        (outcome,) = verifier.run([asked])
        _check(verifier, asked, outcome, prompts, "stable")
        if observation != "real" or outcome.tokens.cached:
            assert outcome.tokens.computed == len(outcome.draft.ids)


@HISTORIES
def test_computed_tokens(history: How, prompts: Path) -> None:
    """With the history `stable` a step costs its own tokens, however long the trajectory is; each is new once."""
    verifier = small.verifier(small.Ledger(), prompts, history=history, context=100_000, chunk=512)
    steps = _turns(80, size=40)
    outcomes = [verifier.run([small.job(steps[:number], step)])[0] for number, step in enumerate(steps)]
    new = [outcome.tokens.new for outcome in outcomes]
    ratios = [outcome.tokens.computed / outcome.tokens.new for outcome in outcomes]

    last = outcomes[-1]
    asides = 0 if history == "stable" else 79 * LEAD  # the think blocks of the past, which are no longer in the prompt
    assert sum(new) - asides == last.tokens.prompt + last.tokens.scored
    if history == "stable":
        assert sum(outcome.tokens.computed for outcome in outcomes) <= 1.1 * sum(new)
        assert max(ratios[-20:]) <= 1.1
    else:
        assert max(ratios[-20:]) > 1.1


def test_skipped_steps(prompts: Path) -> None:
    """Steps that the model was not asked about are computed with the next one that it is."""
    verifier = small.verifier(small.Ledger(), prompts)
    steps = _turns(7)
    verifier.run([small.job([], steps[0])])
    asked = small.job(steps[:6], steps[6])
    (outcome,) = verifier.run([asked])

    _check(verifier, asked, outcome, prompts, "stable")
    assert outcome.tokens.computed == outcome.tokens.new


def test_eviction(prompts: Path) -> None:
    """The caches keep within their bytes between predictions, the newest stay, and what went is no new token."""
    steps = _turns(6)
    spacious, narrow = (small.verifier(small.Ledger(), prompts, cache_bytes=size) for size in (10**9, 8000))
    for number, step in enumerate(steps):
        for row in range(3):
            asked = small.job(steps[:number], step, key=(row,))
            (free,), (bound,) = spacious.run([asked]), narrow.run([asked])
            assert bound.tokens.new == free.tokens.new
            assert bound.scored is not None
            assert free.scored is not None
            assert bound.scored.greedy == free.scored.greedy
            assert narrow.nbytes <= 8000
    held = [_strand(narrow, (row,)).cache is not None for row in range(3)]

    assert held[-1]
    assert not all(held)


def test_dropped_history(prompts: Path) -> None:
    """Where the steps behind the conversation are no longer held, it begins anew with those that are."""
    steps = _turns(12)
    for held in range(6):
        verifier = small.verifier(small.Ledger(), prompts)
        verifier.run([small.job(steps[:4], steps[4])])
        verifier.forget(("t",))
        asked = small.job(steps[:10], steps[10], held=held)
        (outcome,) = verifier.run([asked])
        _check(verifier, asked, outcome, prompts, "stable")
        assert outcome.dropped == 10 - held
        assert 0 < outcome.tokens.new <= outcome.tokens.computed + outcome.tokens.cached


def test_other_trajectories_in_a_batch(prompts: Path) -> None:
    """Rows of a batch, long and short, do not mix."""
    verifier = small.verifier(small.Ledger(), prompts, max_tokens=8, decode=True)
    steps = [_turns(6, seed=row) for row in range(4)]
    for number in (0, 3, 4, 5):
        jobs = [
            small.job(steps[row][: max(0, number - row)], steps[row][max(0, number - row)], key=(row,))
            for row in range(4)
        ]
        for job, outcome in zip(jobs, verifier.run(jobs), strict=True):
            _check(verifier, job, outcome, prompts, "stable")


def test_long_observation(prompts: Path) -> None:
    """Of an observation too long to be judged the middle is left out, and the conversation goes on."""
    verifier = small.verifier(small.Ledger(), prompts, context=400)
    long = ran("cat", "line\n" * 500)
    asked = small.job([], long)
    (outcome,) = verifier.run([asked])
    following = small.job([long], ran("pwd", "/w"))
    (after,) = verifier.run([following])

    assert outcome.scored is None
    assert outcome.greedy == []
    assert "characters left out" in small.template().decode(_held(verifier))
    assert after.tokens.prompt < 300
