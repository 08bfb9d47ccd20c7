"""Facts about literal output, lines, silence and certain statuses."""

import pytest

from tests.helpers import ran
from verifierd.contracts.calls import Call, parts
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.facts.base import Finding
from verifierd.contracts.facts.text import FACTS
from verifierd.contracts.state.session import Session

PROGRAMS = Contracts(bundled()).programs


def _found(fact: str, command: str) -> list[Finding]:
    call = parts(ran(command), PROGRAMS)[-1].stages[-1]
    assert isinstance(call, Call)
    return list(FACTS[fact](call, Session()))


@pytest.mark.parametrize(
    ("fact", "command", "text"),
    [
        ("echoed", "echo a  'b  c'", "a b  c"),
        ("echoed", "echo '==='", "==="),
        ("printed", r"printf '%s=%d\n' a 1 b 2", "a=1\nb=2"),
        ("counted", "seq 2 3 9", "2\n5\n8"),
    ],
)
def test_literal_output(fact: str, command: str, text: str) -> None:
    """What is spelt out is printed so."""
    assert [finding.text for finding in _found(fact, command)] == [text]


@pytest.mark.parametrize(
    ("fact", "command"),
    [
        ("echoed", "echo $x"),
        ("echoed", "echo *.py"),
        ("echoed", "echo 'done!'"),
        ("echoed", r"echo 'a\nb'"),
        ("echoed", "echo -n a"),
        ("echoed", "echo a >&2"),
        ("printed", "printf '%s' a"),
        ("printed", r"printf '%05d\n' 1"),
        ("printed", r"printf '---\n'"),
        ("counted", "seq 5 1"),
        ("line-limit", "tail -n +3 f"),
        ("line-limit", "tail -r f"),
        ("line-limit", "head a b"),
        ("line-limit", "head -n 1 src/*.py"),
        ("line-limit", "tail -n 1 {a,b}.py"),
        ("line-limit", "tail -n 1 $files"),
        ("printed-limit", "sed -n '3,$p' f"),
        ("printed-limit", "sed -n /x/p f"),
        ("numbered", "nl f"),
        ("numbered", "cat f | sed -n 3,4p"),
        ("one-count", "ls | wc"),
        ("silent", "mkdir $(x)"),
        ("silent", "cd -"),
        ("silent", "export -p"),
        ("cannot-fail", "ls | head -n -5"),
        ("cannot-fail", "ls | head -0"),
        ("cannot-fail", "ls | sort f"),
        ("cannot-fail", "ls | sed -n 0p"),
        ("cannot-fail", "ls | sed 's/(/x/;q5'"),
        ("plain-words", "echo =x"),
        ("exit-code", "exit $x"),
    ],
)
def test_what_is_not_said(fact: str, command: str) -> None:
    """Where shells or systems differ, or something is not spelt out, nothing is claimed."""
    assert _found(fact, command) == []


@pytest.mark.parametrize(
    ("fact", "command", "low", "high"),
    [
        ("line-limit", "head f", None, 10),
        ("line-limit", "tail -n3 f", None, 3),
        ("line-limit", 'head -n 4 "$f"', None, 4),
        ("printed-limit", "sed -n '2,4p;9p' f", None, 4),
        ("numbered", "nl -ba f", 1, None),
        ("numbered", "nl -ba f | sed -n 7,9p", 7, None),
        ("numbered", "nl -ba f | head -3", 1, None),
        ("one-count", "ls | wc -l", None, None),
        ("silent", "export A=b", None, None),
        ("silent", "A=b", None, None),
        ("cannot-fail", "x | tail -n +3", None, None),
        ("cannot-fail", "x | sort -rn", None, None),
        ("cannot-fail", "x | sed 's/^/  /'", None, None),
        ("exit-code", "exit 3", 3, 3),
    ],
)
def test_what_is_said(fact: str, command: str, low: int | None, high: int | None) -> None:
    """Bounds, first numbers and certain statuses follow from the words."""
    assert [(finding.low, finding.high) for finding in _found(fact, command)] == [(low, high)]
