"""One score of a likelihood's statistics: finite, pure, readable; fitted, and as shipped."""

import math
import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifierd.config import convert
from verifierd.errors import ConfigError
from verifierd.fusion import DEFAULT, LEVELS, STATISTICS, Fusion, Term, fit, measure, quantiles
from verifierd.types import Likelihood

TWO = Likelihood(
    surprisal=(1.0, 4.0, 0.5), entropy=(2.0, 1.0, 0.5), varentropy=(1.0, 3.0, 0.0), top=(1.0, math.log(2), 0.5)
)
"""The likeliest token, a quite surprising one where the model was half sure of another, and the likeliest end."""


def test_statistics_are_what_their_names_say() -> None:
    """Of three tokens, by hand."""
    expected = {
        "mean": 5.5 / 3,
        "max": 4.0,
        "sum": 5.5,
        "sum-sqrt": 5.5 / math.sqrt(3),
        "excess-max": 3.0,
        "excess-sum": 3.0,
        "curvature": (5.5 - 3.5) / math.sqrt(4.0 + 27.0),
        "z-max": 3.0 / 2.0,
        "contrast-mean": (4.0 - math.log(2)) / 2 / 3,
        "contrast-max": (4.0 - math.log(2)) / 2,
        "first": 1.0,
        "first-entropy": 2.0,
        "last": 0.5,
        "last-contrast": 0.0,
        "entropy": 3.5 / 3,
        "varentropy": 4.0 / 3,
        "top": (math.exp(-1) + 0.5 + math.exp(-0.5)) / 3,
        "log-length": math.log(3),
    }

    assert measure(TWO) == pytest.approx(expected)
    assert STATISTICS.keys() == expected.keys()


def test_a_score_is_the_sum_of_what_is_told() -> None:
    """Fitted: intercept and contributions, which anybody can recompute from the document."""
    fusion = Fusion(intercept=-1.0, terms={"max": Term(weight=2.0, mean=1.0, scale=0.5), "curvature": Term(weight=1.0)})

    assert fusion.fitted
    assert fusion.contributions(TWO) == pytest.approx(
        {"max": 4.0 * (math.log(5.0) - 1.0), "curvature": math.log1p(2.0 / math.sqrt(31.0))}
    )
    assert fusion.score(TWO) == pytest.approx(-1.0 + sum(fusion.contributions(TWO).values()))


def test_unfitted_the_oddest_statistic_decides() -> None:
    """Each on the scale of how rare it is among true observations."""
    table = tuple(float(number) for number in range(8))
    fusion = Fusion(quantiles={"max": table, "mean": table})

    assert not fusion.fitted
    told = fusion.contributions(TWO)
    assert told["max"] == pytest.approx(-math.log(1 - LEVELS[4]))
    assert told["mean"] < told["max"]
    assert fusion.score(TWO) == told["max"]


def test_beyond_what_was_seen_the_order_goes_on() -> None:
    """Two observations odder than all before, or plainer, are still told apart."""
    fusion = Fusion(quantiles={"mean": tuple(1.0 + number for number in range(8))})
    scores = [fusion.score(Likelihood(surprisal=(value,))) for value in (0.0, 0.5, 1.0, 4.5, 8.0, 9.0, 900.0)]

    assert scores == sorted(set(scores))


def test_what_a_server_does_not_tell_adds_nothing() -> None:
    """With surprisals alone the statistics of entropies are left out, not made up."""
    bare = Likelihood(surprisal=(1.0, 4.0, 0.5))
    fusion = Fusion(terms={"max": Term(weight=1.0), "entropy": Term(weight=1.0)})

    assert fusion.contributions(bare).keys() == {"max"}
    assert DEFAULT.score(bare) <= DEFAULT.score(TWO)
    assert DEFAULT.score(Likelihood()) == 0.0


def test_the_shipped_fusion_ranks() -> None:
    """It is unfitted, and finds surprising what is."""
    plain = Likelihood(surprisal=(0.1, 0.1), entropy=(0.3, 0.3), varentropy=(1.0, 1.0), top=(0.1, 0.1))
    odd = msgspec.structs.replace(plain, surprisal=(9.0, 7.0))

    assert not DEFAULT.fitted
    assert DEFAULT.score(odd) > DEFAULT.score(TWO) > DEFAULT.score(plain)


def test_quantiles_are_of_true_observations() -> None:
    """A fusion of one's own, unfitted."""
    clean = [Likelihood(surprisal=(float(number),)) for number in range(101)]

    assert quantiles(clean, ["max"]).quantiles == {"max": tuple(100 * level for level in LEVELS)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[terms.mean]\nweight = nan",
        "[terms.mean]\nweight = 1.0\nscale = 0.0",
        "[terms.meen]\nweight = 1.0",
        "[terms.mean]\nwait = 1.0",
        "intercept = inf\n[terms.mean]\nweight = 1.0",
        "[quantiles]\nmean = [1.0, 2.0]",
        "[quantiles]\nmean = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 7.0]",
        "[quantiles]\nmean = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]\n[terms.max]\nweight = 1.0",
    ],
)
def test_a_wrong_document_is_refused(text: str) -> None:
    """Unknown names, impossible numbers, and neither or both kinds."""
    with pytest.raises(ConfigError):
        convert(text, "mine.toml", Fusion)


def _drawn(draw: random.Random, odd: float) -> Likelihood:
    """Some tokens, with surprisals of a mean of `odd`."""
    size = draw.randrange(1, 30)
    entropy = [draw.expovariate(1.0) for _ in range(size)]
    return Likelihood(
        surprisal=tuple(draw.expovariate(1.0 / odd) for _ in range(size)),
        entropy=tuple(entropy),
        varentropy=tuple(value * 2 for value in entropy),
        top=tuple(value / 2 for value in entropy),
    )


def _auroc(clean: Sequence[float], faulty: Sequence[float]) -> float:
    return sum((fault > true) + (fault == true) / 2 for fault in faulty for true in clean) / len(clean) / len(faulty)


def _sets(seed: int) -> tuple[list[Likelihood], list[Likelihood]]:
    draw = random.Random(seed)
    return [_drawn(draw, 1.0) for _ in range(60)], [_drawn(draw, 2.0) for _ in range(150)]


@pytest.mark.parametrize("grouped", [False, True])
def test_a_fitted_fusion_separates(*, grouped: bool) -> None:
    """What it learnt of one set holds for another, better than any statistic alone that is not told of length."""
    clean, faulty = _sets(1)
    groups = ([str(n % 7) for n in range(60)], [str(n % 7) for n in range(150)]) if grouped else ([], [])

    fusion = fit(clean, faulty, *groups)

    clean, faulty = _sets(2)
    found = _auroc([fusion.score(one) for one in clean], [fusion.score(one) for one in faulty])
    assert found > 0.8
    assert found > _auroc([measure(one)["max"] for one in clean], [measure(one)["max"] for one in faulty])


def test_a_fit_is_readable_and_repeatable() -> None:
    """The same sets give the same document, which survives being written; twice the faults change nothing."""
    clean, faulty = _sets(1)
    fusion = fit(clean, faulty)

    assert fit(clean, faulty) == fusion
    assert msgspec.toml.decode(_toml(fusion), type=Fusion) == fusion
    again = fit(clean, faulty * 2)
    assert [term.weight for term in again.terms.values()] == pytest.approx(
        [term.weight for term in fusion.terms.values()], abs=1e-4
    )


def _toml(fusion: Fusion) -> str:
    lines = [f"intercept = {fusion.intercept!r}"]
    for name, term in fusion.terms.items():
        lines += [f"[terms.{name}]", *(f"{key} = {value!r}" for key, value in msgspec.structs.asdict(term).items())]
    return "\n".join(lines)


def test_one_token_never_speaks_for_the_truth() -> None:
    """Though faults of this set have smaller maxima and first tokens, their weights are not negative."""
    clean, faulty = _sets(1)
    fusion = fit(faulty, clean)

    for name in ("max", "excess-max", "z-max", "contrast-max", "first", "last", "last-contrast"):
        assert fusion.terms[name].weight >= 0.0
    assert min(term.weight for term in fusion.terms.values()) < 0.0


def test_statistics_that_are_missing_or_constant_are_left_out() -> None:
    """A model whose server tells no entropies is fitted to what it tells."""
    clean, faulty = ([Likelihood(surprisal=one.surprisal) for one in side] for side in _sets(1))

    assert fit(clean, faulty).terms.keys() == {"mean", "max", "sum", "sum-sqrt", "first", "last", "log-length"}


@pytest.mark.parametrize(
    ("clean", "faulty", "groups"),
    [([], [TWO], ()), ([TWO], [], ()), ([TWO], [TWO], ()), ([TWO], [TWO], (["a", "b"], ["a"]))],
)
def test_what_cannot_be_fitted_is_told(
    clean: list[Likelihood], faulty: list[Likelihood], groups: tuple[list[str], ...]
) -> None:
    """A class is missing, nothing differs, or the groups are not as many."""
    with pytest.raises(ValueError, match=r"missing|differs|group"):
        fit(clean, faulty, *groups)


def test_a_fit_with_perfect_separation_ends() -> None:
    """The penalty keeps the weights finite."""
    clean = [Likelihood(surprisal=(0.01 * number,)) for number in range(20)]
    faulty = [Likelihood(surprisal=(50.0 + number,)) for number in range(20)]

    fusion = fit(clean, faulty)

    assert max(map(fusion.score, clean)) < min(map(fusion.score, faulty))


_ANY = st.floats(allow_nan=False, allow_infinity=False)
_TOKENS = st.lists(st.tuples(_ANY, _ANY, _ANY, _ANY), min_size=1, max_size=30)
FITTED = fit(*_sets(3))


@given(_TOKENS)
def test_any_finite_input_has_a_finite_score(tokens: list[tuple[float, float, float, float]]) -> None:
    """Whatever numbers a server sends; and the same each time."""
    surprisal, entropy, varentropy, top = zip(*tokens, strict=True)
    found = Likelihood(surprisal=surprisal, entropy=entropy, varentropy=varentropy, top=top)

    for fusion in (DEFAULT, FITTED):
        assert math.isfinite(fusion.score(found))
        assert fusion.score(found) == fusion.score(msgspec.json.decode(msgspec.json.encode(found), type=Likelihood))


@given(st.lists(st.floats(), max_size=10), st.lists(st.floats(), max_size=10))
def test_not_even_what_is_no_number_upsets_a_score(surprisal: list[float], entropy: list[float]) -> None:
    """Nor do lists of unequal length."""
    found = Likelihood(surprisal=tuple(surprisal), entropy=tuple(entropy), varentropy=tuple(entropy))

    assert all(math.isfinite(fusion.score(found)) for fusion in (DEFAULT, FITTED))


@settings(max_examples=20)
@given(st.integers(1, 6), st.floats(0.0, 20.0), st.floats(0.0, 20.0))
def test_the_unfitted_score_grows_with_surprise(size: int, low: float, more: float) -> None:
    """Were every token more surprising, the score would be no lower."""
    one = (1.0,) * size
    plain, odd = (
        Likelihood(surprisal=(nats,) * size, entropy=one, varentropy=one, top=one) for nats in (low, low + more)
    )

    assert DEFAULT.score(plain) <= DEFAULT.score(odd)
