"""Which characters count where something was guessed."""

import itertools
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifierd.policy import Policy, Rules
from verifierd.scoring import open_scorers
from verifierd.scoring.classes import runtime
from verifierd.scoring.counting import counted, counting, heeded, idle
from verifierd.types import Action, History, Likelihood, Origin, Prediction, Score, Signal, Step

ALL = ("deterministic", "pre-existing", "runtime")
SURE, SURPRISED = 0.001, 9.0


def _step(observation: str, *, tool: str = "bash", domain: str = "terminal") -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=1,
        action=Action(tool=tool, input="date", command="date"),
        domain=domain,
        observation=observation,
        origin=Origin(path="t.jsonl", offset=0),
    )


def _likelihood(observation: str, surprisal: float, *, entropy: float = 0.1) -> Likelihood:
    """A token for each word, all as surprising, and an end that is not."""
    starts = [0, *(place for place, char in enumerate(observation) if char in " \n")]
    count = len(starts)
    return Likelihood(
        starts=tuple(starts),
        surprisal=(*[surprisal] * count, SURE),
        entropy=(*[entropy] * count, entropy),
        varentropy=(*[0.1] * count, 0.1),
        top=(*[SURE] * count, SURE),
        agreed=0,
        expected="x",
    )


def _scores(policy: Policy, step: Step, prediction: Prediction) -> dict[str, Score]:
    history = History(step.key)
    return {score.name: score for score in [score(history, step, prediction) for score in open_scorers(policy)]}


def _policy(**keys: Any) -> Policy:
    return msgspec.convert({"name": "p", **keys}, Policy)


class TestIdle:
    """The tokens whose content does not count."""

    TEXT = "at 2026-01-02T03:04:05Z done"

    @pytest.mark.parametrize(
        ("kinds", "gone"),
        [
            (ALL, [False, False, False, False]),
            (ALL[:2], [False, True, False, False]),
            (("deterministic",), [False, True, True, False]),
            (("pre-existing",), [True, True, False, False]),
            (("runtime",), [True, False, True, False]),
            ((), [True, True, True, False]),
        ],
    )
    def test_each_class(self, kinds: tuple[str, ...], gone: list[bool]) -> None:
        """A word that the model knew, a time, a word that it could not know, and the end, which always counts."""
        step = _step(self.TEXT)
        found = msgspec.structs.replace(_likelihood(self.TEXT, 1.0), entropy=(0.1, 0.1, 3.0, 3.0))

        assert idle(History(step.key), step, found, kinds).tolist() == gone

    def test_what_the_history_fixes(self) -> None:
        """A time that was shown counts, though the model does not know it."""
        step, history = _step(self.TEXT), History(("native", "t"))
        history.append(_step("it is 2026-01-02T03:04:05Z"))
        found = msgspec.structs.replace(_likelihood(self.TEXT, 1.0), entropy=(0.1, 3.0, 3.0, 3.0))

        assert idle(history, step, found, ("deterministic",)).tolist() == [False, False, True, False]

    def test_without_places_all_counts(self) -> None:
        """It is not known which tokens to leave out."""
        step = _step(self.TEXT)
        found = msgspec.structs.replace(_likelihood(self.TEXT, 1.0), starts=())

        assert not idle(History(step.key), step, found, ()).any()


class TestCounted:
    """Likelihoods without some tokens."""

    FOUND = Likelihood(
        starts=(0, 4, 8),
        surprisal=(1.0, 2.0, 3.0, 4.0),
        entropy=(5.0, 6.0, 7.0, 8.0),
        varentropy=(),
        top=(9.0, 10.0, 11.0, 12.0),
    )

    def test_idle_tokens_go(self) -> None:
        """And with them their entropies; what a server did not tell stays untold."""
        found = counted(self.FOUND, np.array([False, True, False, False]))

        assert found == Likelihood(surprisal=(1.0, 3.0, 4.0), entropy=(5.0, 7.0, 8.0), top=(9.0, 11.0, 12.0))

    def test_all_may_count(self) -> None:
        """Then nothing changes."""
        assert counted(self.FOUND, np.zeros(4, np.bool_)) == self.FOUND

    def test_both_at_once(self) -> None:
        """What a prediction's model found of what counts; without a model nothing."""
        step = _step(TestIdle.TEXT)
        found = _likelihood(step.observation, 1.0)

        assert heeded(History(step.key), step, Prediction(predictor="x"), ALL) is None
        left = heeded(History(step.key), step, Prediction(predictor="x", likelihood=found), ALL[:2])
        assert left is not None
        assert len(left.surprisal) == len(found.surprisal) - 1


@given(st.lists(st.sampled_from(["at ", "2026-01-02T03:04:05Z", " x", "y"]), max_size=12), st.data())
def test_tokens_belong_to_what_they_touch(pieces: list[str], data: st.DataObject) -> None:
    """However the model cuts the text into tokens: the same as looking at each token and each span."""
    text = "".join(pieces)
    starts = sorted(data.draw(st.sets(st.integers(0, max(0, len(text) - 1)), max_size=12)) | {0})
    step = _step(text)
    found = Likelihood(starts=tuple(starts), surprisal=(1.0,) * (len(starts) + 1))

    free, _ = runtime(text, step, ())
    touched = [
        any(start < after and before < end for start, end, _ in free)
        for before, after in itertools.pairwise([*starts, max(1, len(text))])
    ]
    assert idle(History(step.key), step, found, ALL[:2]).tolist() == [*touched, False]


@pytest.mark.parametrize(
    ("place", "stays"),
    [
        ((3, 23), False),
        ((4, 9), False),
        ((2, 9), True),
        ((23, 23), True),
        ((3, 3), True),
        ((9, 9), False),
        (None, True),
    ],
)
def test_signals_of_what_does_not_count_go(place: tuple[int, int] | None, *, stays: bool) -> None:
    """What reaches out of it stays, and so does what has no place."""
    score = Score(name="s", signals=(Signal(name="suspect", value=1.0, span=place),))
    step = _step(TestIdle.TEXT)
    guess = Prediction(predictor="x", text="y")

    assert bool(counting(score, History(step.key), step, guess, ALL[:2]).signals) is stays
    assert counting(score, History(step.key), step, guess, ALL) == score


class TestRules:
    """The scorers follow the rules of each step."""

    NOW, THEN = "at 2026-01-02T03:04:05Z\nall of it\nis done", "at 2026-09-08T07:06:05Z\nall of it\nis done"

    @pytest.mark.parametrize("rules", [{}, {"classes": ALL}, {"tools": {"bash": {"classes": ALL}}}])
    def test_texts(self, rules: dict[str, Any]) -> None:
        """Another time is no other text, unless the policy, or the tool's rules, let it count."""
        guess = Prediction(predictor="x", text=self.THEN)

        found = _scores(_policy(**rules), _step(self.NOW), guess)["normalised"]

        assert (found.value == 0.0) is (rules == {})
        assert bool([signal for signal in found.signals if signal.name == "suspect"]) is (rules != {})

    def test_only_what_counts_is_suspect(self) -> None:
        """Of two differences the one in what only a run can tell is not shown."""
        guess = Prediction(predictor="x", text=self.THEN.replace("done", "gone"))

        found = _scores(_policy(), _step(self.NOW), guess)["normalised"]

        assert [self.NOW[slice(*signal.span)] for signal in found.signals if signal.span] == ["d"]

    def test_normalisers(self) -> None:
        """A domain's normalisers go before the policy's."""
        certain = Prediction(predictor="x", text="a", certain=True)
        policy = _policy(normalisers=[], domains={"mcp": {"normalisers": ["blank-edges"]}})

        assert _scores(policy, _step("a\n"), certain)["normalised"].violated
        assert not _scores(policy, _step("a\n", domain="mcp"), certain)["normalised"].violated

    def test_certainty_counts_everywhere(self) -> None:
        """What is certain is compared in full, whatever the classes."""
        certain = Prediction(predictor="x", text=self.THEN, certain=True)

        assert _scores(_policy(classes=[]), _step(self.NOW), certain)["normalised"].violated

    def test_surprise_at_what_only_a_run_can_tell(self) -> None:
        """A surprising time makes no score, unless it counts."""
        step = _step(self.NOW)
        known = msgspec.structs.replace(
            _likelihood(self.NOW, SURE), surprisal=(SURE, SURPRISED, *[SURE] * 6), agreed=1, expected="x"
        )
        values = {}
        for name, classes in (("all", ALL), ("usual", ALL[:2])):
            score = _scores(_policy(classes=classes), step, Prediction(predictor="x", likelihood=known))["surprise"]
            assert bool(score.signals) is (name == "all")
            assert score.value is not None
            assert math.isfinite(score.value)
            values[name] = score.value

        assert values["usual"] < values["all"]

    def test_surprise_may_not_count(self) -> None:
        """Where the rules say so a model's surprise has neither score nor signals."""
        policy = msgspec.structs.replace(_policy(), tools={"quiet": Rules(surprise=False)})
        surprised = Prediction(predictor="x", likelihood=_likelihood("some words", SURPRISED))

        loud, quiet = (
            _scores(policy, _step("some words", tool=tool), surprised)["surprise"] for tool in ("b", "quiet")
        )

        assert loud.value is not None
        assert loud.signals
        assert quiet == Score(name="surprise", reason="the policy counts no surprise here")
