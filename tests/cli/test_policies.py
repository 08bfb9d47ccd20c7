"""`verifierd policies`: the bundled ones, and one in words."""

from pathlib import Path

from tests.helpers import verifierd
from verifierd import policy


def test_all_bundled_policies_are_listed() -> None:
    """Each has a line with its name and its predictors."""
    lines = verifierd("policies").stdout.splitlines()
    for name in policy.names():
        assert any(line.split()[:2] == [name, ",".join(policy.load(name).predictors)] for line in lines)


def test_one_is_told_in_words(tmp_path: Path) -> None:
    """A bundled policy and one's own file are explained alike."""
    bundled = verifierd("policies", "show", "strict").stdout
    assert bundled.startswith(f"{policy.load('strict').id}: ")
    assert "at least 100 % of the text" in bundled
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nnormalisers = []\nalarm-after = 2\nmin-coverage = 0.005\n'
        "ask-below = 0.5\n[asking]\nmax-tokens = 300\n"
    )
    own = verifierd("policies", "show", tmp_path / "mine.toml").stdout
    assert "compares after taking off: nothing" in own
    assert "after more than 2 contradictions" in own
    assert "at least 0.5 % of the text" in own
    assert "until 50 % of the text is checked" in own
    assert "at most 300 tokens" in own
