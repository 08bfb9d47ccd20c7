"""Homes in paths."""

from pathlib import Path

import pytest

from verifierd.paths import expanded


def test_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home of who runs it is found; where there is none, and within a path, `~` is a name."""
    monkeypatch.setenv("HOME", str(tmp_path))

    assert expanded("~/a") == expanded(Path("~/a")) == tmp_path / "a"
    assert expanded("~no-such-user/a") == Path("~no-such-user/a")
    assert expanded("a/~/b") == Path("a/~/b")
