"""The cases of certification."""

import random
import re

from verifierd.replay.cases import cases, tree


def test_cases_depend_on_the_seed_alone() -> None:
    """The same seed gives the same cases, so a document can be made again; another gives others."""
    first = [case.command for case in cases(3)]
    assert first == [case.command for case in cases(3)]
    assert first != [case.command for case in cases(4)]


def test_every_line_of_the_document_becomes_a_plain_command() -> None:
    """No mark of the document's own language is left in a command, and no letter unfilled."""
    for case in cases(3):
        assert not re.search("[«»⟦⟧¦⏎①②③]", case.command), case.command
        assert "{?" not in case.command, case.command
        assert not re.search(r"(?<!\$)\{[fgenlwucstjodDkmMWVxyzN]\}", case.command), case.command


def test_options_are_spelled_in_several_ways() -> None:
    """Of a set of options, bundled and separate forms are both tried, and values both attached and not."""
    commands = {case.command for case in cases(3)}
    assert any(command.startswith("sort -nr") for command in commands)
    assert any(command.startswith("sort -n -r") for command in commands)
    assert any(re.match(r"head -n\d", command) for command in commands)
    assert any(re.match(r"head -n \d", command) for command in commands)


def test_a_tree_holds_what_its_letters_say() -> None:
    """The letters stand for things that are there, except for those that stand for what is missing."""
    found, letters = tree(random.Random(1))
    for letter in "fgenlwucstjx":
        assert isinstance(found[letters[letter]], str), letter
    assert found[letters["e"]] == ""
    assert not str(found[letters["n"]]).endswith("\n")
    assert letters["m"] not in found
    assert found[letters["k"]] is None
