"""The cases of certification."""

import itertools
import random
import re

import pytest

from verifierd.replay.cases import cases, tree


@pytest.fixture(scope="module")
def commands() -> list[str]:
    """The commands of one seed."""
    return [case.command for case in cases(3)]


@pytest.mark.slow
def test_cases_depend_on_the_seed_alone(commands: list[str]) -> None:
    """The same seed gives the same cases, so a document can be made again; another gives others."""
    few = 300
    assert commands[:few] == [case.command for case in itertools.islice(cases(3), few)]
    assert commands[:few] != [case.command for case in itertools.islice(cases(4), few)]
    assert list(cases(3, 20)) == list(cases(3, 20))
    assert len(list(cases(3, 20))) == 20


def test_every_line_of_the_document_becomes_a_plain_command(commands: list[str]) -> None:
    """No mark of the document's own language is left in a command, and no letter unfilled."""
    for command in commands:
        assert not re.search("[«»⟦⟧¦⏎①②③]", command), command
        assert not re.search(r"(?<!\$)\{(?:\?|[fgenlwucstjodDkmMWVxyzN]\})", command), command


def test_options_are_spelled_in_several_ways(commands: list[str]) -> None:
    """Of a set of options, bundled and separate forms are both tried, and values both attached and not."""
    for form in ("sort -nr", "sort -n -r", r"head -n\d", r"head -n \d"):
        assert any(re.match(form, command) for command in commands), form


def test_a_tree_holds_what_its_letters_say() -> None:
    """The letters stand for things that are there, except for those that stand for what is missing."""
    found, letters = tree(random.Random(1))
    for letter in "fgenlwucstjx":
        assert isinstance(found[letters[letter]], str), letter
    assert found[letters["e"]] == ""
    assert not str(found[letters["n"]]).endswith("\n")
    assert letters["m"] not in found
    assert found[letters["k"]] is None
