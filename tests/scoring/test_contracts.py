"""What the observation must obey, part by part."""

import pytest

from tests.helpers import ran
from verifierd.scoring.contracts import contracts
from verifierd.types import Check, Constraint, History, Prediction, Score


def _score(observation: str, *constraints: Constraint, status: int = 0, elided: str | None = None) -> Score:
    step = ran("ls", observation, exit_code=status, elided=elided)
    return contracts(History(step.key), step, Prediction(predictor="contracts", certain=True, constraints=constraints))


def _contains(text: str, *, power: float = 0.9, deciding: bool = True) -> Constraint:
    return Constraint(rule="says", check=Check.CONTAINS, text=text, power=power, deciding=deciding, detail="it says so")


def test_coverage_is_the_share_of_pinned_characters() -> None:
    """Spans that overlap count once, blanks at the edges not at all."""
    score = _score("\n0123456789\n", _contains("234"), _contains("45"))

    assert (score.coverage, score.value, score.violated) == (0.4, 0.0, False)


def test_a_weak_rule_pins_nothing() -> None:
    """What half of all other observations obey as well is no knowledge; it can still be contradicted."""
    assert _score("abc", _contains("abc", power=0.49)).coverage == 0.0
    assert _score("abc", _contains("x", power=0.0)).violated


def test_an_empty_observation() -> None:
    """Predicted empty and empty is covered in full; nothing else covers an empty one."""
    assert _score("", Constraint(rule="silent", check=Check.EMPTY, power=0.9)).coverage == 1.0
    assert _score("", Constraint(rule="bound", check=Check.LINES, high=3, power=0.9)).coverage == 0.0


def test_a_violation_is_told() -> None:
    """The signal has the span, what was expected and found, and the rule."""
    bound = Constraint(rule="bound", check=Check.LINES, high=1, detail="at most 1 line")

    score = _score("a\nb\n", bound)

    assert score.violated
    (signal,) = score.signals
    assert (signal.name, signal.span) == ("contradiction", (2, 3))
    assert signal.detail == "at most 1 line; 2 lines [bound]"


def test_a_rule_that_does_not_decide() -> None:
    """It is only unusual: seen, counted in the value, never a contradiction."""
    score = _score("a", _contains("x", deciding=False))

    assert (score.violated, score.value) == (False, 1.0)
    assert [signal.name for signal in score.signals] == ["unusual"]


def test_the_exit_status() -> None:
    """A certain status was checked whether it holds or not; success against failure is a flip."""
    zero = Constraint(rule="ok", check=Check.STATUS, low=0, high=0, detail="it cannot fail")

    assert _score("", zero).status_checked
    flipped = _score("", zero, status=2)
    assert (flipped.status_checked, flipped.violated) == (True, True)
    assert [signal.name for signal in flipped.signals] == ["error_flip"]


def test_what_is_not_judged() -> None:
    """Without constraints, and where the log cut the observation, nothing is said."""
    assert _score("a") == Score(name="contracts", reason="no constraints")
    assert not _score("a", _contains("x"), elided="middle").violated


@pytest.mark.parametrize("end", [" \n", "\r\n", "\t \n"])
@pytest.mark.parametrize(
    "constraint",
    [
        Constraint(rule="r", check=Check.EVERY_LINE, text="[ab]$", power=0.9),
        Constraint(rule="r", check=Check.EQUALS, text="a\nb\n", power=0.9),
        Constraint(rule="r", check=Check.CONTAINS, text="a\nb", power=0.9),
        Constraint(rule="r", check=Check.KNOWN_LINES, known={1: "a", 2: "b"}, power=0.9),
    ],
)
def test_blanks_at_the_ends_of_lines(constraint: Constraint, end: str) -> None:
    """They break nothing and cover nothing, whether they came or were expected."""
    score = _score(f"a{end}b{end}", constraint)

    assert not score.violated
    assert score.coverage == _score("a\nb\n", constraint).coverage > 0


def test_another_line_with_blanks_is_another_line() -> None:
    """Blanks excuse nothing else."""
    assert _score("a \nx \n", Constraint(rule="r", check=Check.EVERY_LINE, text="[ab]$")).violated
