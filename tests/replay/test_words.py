"""Words for identifiers: all there, and the same on every page."""

import re
from importlib import resources

import pytest

from verifierd.replay.words import KINDS, REASONS, SIGNALS, VERDICTS
from verifierd.types import Abstain, ObservationKind, VerdictKind

CONSOLE = (resources.files("verifierd") / "console" / "words.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "words"), [("VERDICTS", VERDICTS), ("REASONS", REASONS), ("KINDS", KINDS), ("SIGNALS", SIGNALS)]
)
def test_the_console_says_the_same(name: str, words: dict[str, str]) -> None:
    """A verdict reads alike in the console, in `explain` and in a report."""
    block = re.search(rf"export const {name} = \{{(.+?)\}}", CONSOLE, re.DOTALL)

    assert block is not None
    assert dict(re.findall(r'(\w+): "([^"]*)"', block[1])) == words


def test_nothing_is_without_words() -> None:
    """Every verdict, every reason to abstain, and everything that is not judged."""
    assert set(VERDICTS) == set(VerdictKind)
    assert set(Abstain) <= set(REASONS)
    assert set(KINDS) == set(ObservationKind) - {ObservationKind.ENV}
