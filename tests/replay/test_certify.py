"""Certification against the machine's bash."""

from collections import Counter
from pathlib import Path

import pytest

from verifierd.bundled import root
from verifierd.predictors.shell.envelope import Envelope
from verifierd.replay.cases import Case
from verifierd.replay.certify import Trial, judge, main, render, trials
from verifierd.replay.virtual import VirtualBash

OPEN = Envelope(None, None)


def tried(*keys: str, agrees: bool = True) -> Trial:
    """A trial with these units."""
    return Trial(case=Case(command="x", tree={}), keys=frozenset(keys), agrees=agrees)


def test_a_unit_needs_enough_matches() -> None:
    """Fewer matches than the minimum certify nothing."""
    certified, struck = judge([tried("a"), tried("a"), tried("a", "b")], minimum=3)
    assert certified == Counter({"a": 3})
    assert struck == {}


def test_a_miss_strikes_the_unit_with_the_worst_record() -> None:
    """Where a trial differs, the unit that differs most often goes, and its company stays."""
    missed = tried("common", "odd", agrees=False)
    certified, struck = judge([*[tried("common")] * 20, *[tried("common", "odd")] * 4, missed], minimum=4)
    assert certified == Counter({"common": 24})
    assert struck == {"odd": missed}


def test_a_miss_with_an_uncertified_unit_strikes_nothing() -> None:
    """A trial that the list would refuse anyway is no reason to shorten it."""
    certified, struck = judge([*[tried("a")] * 4, tried("a", "rare", agrees=False)], minimum=4)
    assert set(certified) == {"a"}
    assert struck == {}


def test_trials_compare_text_status_and_files() -> None:
    """A plain command agrees; one whose option the virtual shell ignores does not."""
    tree: dict[str, str | None] = {"a": "x\n", "d": None}
    plain, verbose = trials([Case(command="cp a b && cat b", tree=tree), Case(command="cp -v a b", tree=tree)], OPEN)
    assert plain.agrees
    assert {"command: cp | 2", "command: cat | 1", "shell: &&"} <= plain.keys
    assert not verbose.agrees
    assert "text" in verbose.difference


def test_a_crash_of_the_virtual_shell_is_an_answer() -> None:
    """The child may die; the next case gets a new one."""
    with VirtualBash() as virtual:
        assert virtual.run('e=\'eval "$e"\'; eval "$e"', {}).broken is not None
        assert virtual.run("echo ok", {}).stdout == "ok\n"


def test_the_written_document_loads_and_certifies() -> None:
    """What is rendered is read back as the same units and messages."""
    keys = {"shell: '...'": 5, "command: cat -n | 1": 7, "message: cat: P: No such file or directory": 4}
    text = render(Counter(keys), ["bash: 5"], 1, 16)
    assert Envelope.load(text).certifies(keys)
    assert not Envelope.load(text).certifies({"command: cat -A | 1"})


@pytest.mark.slow
def test_the_shipped_document_holds_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """Cases drawn anew, with a seed that certification did not use, show no certified difference."""
    path = Path(str(root("policies") / "shell" / "gnu.toml"))
    status = main(["--out", str(path), "--check", "--sample", "300", "--seed", "101"])
    assert (status, capsys.readouterr().out) == (0, "")
