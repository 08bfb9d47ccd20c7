"""Which characters count where something was guessed."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifierd.policy import Policy, Rules
from verifierd.scoring import open_scorers
from verifierd.scoring.counting import counted, counting, unheeded
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


class TestUnheeded:
    """The spans whose class does not count."""

    def test_is_the_rest(self) -> None:
        """What only a run can tell does not count where it is not named; all counts where all is named."""
        step = _step("at 2026-01-02T03:04:05Z done")
        prediction = Prediction(predictor="x")

        assert unheeded(History(step.key), step, prediction, ALL[:2]) == [(3, 23)]
        assert unheeded(History(step.key), step, prediction, ALL) == []

    def test_what_a_model_cannot_know(self) -> None:
        """Where its entropy is high the content is pre-existing."""
        step = _step("some words")
        unsure = Prediction(predictor="x", likelihood=_likelihood(step.observation, 1.0, entropy=3.0))

        assert unheeded(History(step.key), step, unsure, ("deterministic",)) == [(0, 10)]
        assert unheeded(History(step.key), step, unsure, ("pre-existing",)) == []


class TestCounted:
    """Likelihoods without some tokens."""

    FOUND = Likelihood(
        starts=(0, 4, 8),
        surprisal=(1.0, 2.0, 3.0, 4.0),
        entropy=(5.0, 6.0, 7.0, 8.0),
        varentropy=(),
        top=(9.0, 10.0, 11.0, 12.0),
    )

    @pytest.mark.parametrize(
        ("spans", "kept"),
        [
            ([], (1.0, 2.0, 3.0, 4.0)),
            ([(4, 8)], (1.0, 3.0, 4.0)),
            ([(3, 5)], (3.0, 4.0)),
            ([(0, 1), (9, 10)], (2.0, 4.0)),
            ([(0, 99)], (4.0,)),
        ],
    )
    def test_tokens_that_touch_a_span_go(self, spans: list[tuple[int, int]], kept: tuple[float, ...]) -> None:
        """And with them their entropies; the end of the answer always stays."""
        found = counted(self.FOUND, spans)

        assert found.surprisal == kept
        assert found.entropy == tuple(value + 4 for value in kept)
        assert found.varentropy == ()

    def test_without_places_all_stay(self) -> None:
        """It is not known which tokens to leave out."""
        found = msgspec.structs.replace(self.FOUND, starts=())

        assert counted(found, [(0, 99)]) == found


@given(st.lists(st.integers(0, 60), max_size=8), st.lists(st.integers(0, 60), unique=True, max_size=12))
def test_counted_drops_what_touches(starts: list[int], edges: list[int]) -> None:
    """The same as looking at each token and each span."""
    starts, edges = sorted({0, *starts}), sorted(edges)
    spans = list(zip(edges[::2], edges[1::2], strict=False))
    bounds = [*starts, 1000]
    found = Likelihood(starts=tuple(starts), surprisal=tuple(float(place) for place in range(len(bounds))))

    left = [
        float(place)
        for place in range(len(starts))
        if not any(start < bounds[place + 1] and bounds[place] < end for start, end in spans)
    ]
    assert counted(found, spans).surprisal == (*left, float(len(starts)))


@pytest.mark.parametrize(
    ("place", "stays"),
    [((2, 5), False), ((3, 4), False), ((1, 3), True), ((5, 5), True), ((3, 3), False), (None, True)],
)
def test_signals_in_a_span_go(place: tuple[int, int] | None, *, stays: bool) -> None:
    """What reaches out of it stays, and so does what has no place."""
    score = Score(name="s", signals=(Signal(name="suspect", value=1.0, span=place),))

    assert bool(counting(score, [(0, 1), (2, 5), (7, 9)]).signals) is stays


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
