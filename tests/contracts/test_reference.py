"""The documents load, and `policies/contracts/README.md` is a complete reference of them."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from verifierd.contracts.checks import pattern
from verifierd.contracts.document import Example, Family, Past, Program, Rule, Support, bundled, parse
from verifierd.contracts.engine import Contracts
from verifierd.contracts.facts import FACTS
from verifierd.errors import ContractError
from verifierd.types import Check

FOLDER = Path(__file__).parents[2] / "policies" / "contracts"
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(FOLDER.glob("*.toml"))


def rows() -> Iterator[tuple[list[str], str]]:
    """The names that each row of a table explains, and what it says."""
    for line in TEXT.splitlines():
        cells = re.split(r"(?<!\\) \| ", line.strip("| "))
        if line.startswith("| `") and len(cells) == 2:
            yield re.findall(r"`([^`]+)`", cells[0]), cells[1]


EXPLAINED = {name: said for names, said in rows() for name in names}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_every_document_parses(path: Path) -> None:
    """Each is a family with a sentence about it, and is among the bundled ones."""
    family = parse(path.read_text(encoding="utf-8"), path.name)

    assert family.about
    assert family == bundled()[path.stem]


def test_all_documents_go_together() -> None:
    """No two rules share a name, every fact is known, every pattern can be read."""
    assert Contracts(bundled()).rules.keys() == {rule.id for family in bundled().values() for rule in family.rule}


@pytest.mark.parametrize("check", Check)
def test_every_check_is_explained(check: Check) -> None:
    """Who writes contracts finds what each check says."""
    assert EXPLAINED[check.value]


@pytest.mark.parametrize("fact", FACTS)
def test_every_fact_is_explained(fact: str) -> None:
    """Each has a line of its own."""
    assert EXPLAINED[fact]


def test_no_fact_is_explained_that_is_not_there() -> None:
    """The tables of facts hold nothing else."""
    tables = TEXT.split("## Facts")[1].split("\n## ")[0]
    named = re.findall(r"^\| `([^`]+)` \|", tables, re.MULTILINE)

    assert sorted(named) == sorted(FACTS)


@pytest.mark.parametrize("struct", [Family, Program, Rule, Example, Past, Support], ids=lambda struct: struct.__name__)
def test_every_key_is_explained(struct: type[msgspec.Struct]) -> None:
    """Each key of each table of a document is named."""
    assert [key.encode_name for key in msgspec.structs.fields(struct) if f"`{key.encode_name}`" not in TEXT] == []


def test_the_example_of_the_reference_is_a_document() -> None:
    """What one reads there can be copied."""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", TEXT, re.MULTILINE)
    text = 'about = "copied"\n' + "\n".join(block.replace("\n    ", "\n").removeprefix("    ") for block in blocks)

    family = parse(text, "copied")

    assert [rule.id for rule in family.rule] == ["head-limit"]
    assert [program.name for program in family.program] == ["head"]


def test_what_facts_give_is_true() -> None:
    """A name in braces that a rule uses is one that the reference gives to its fact, or a field of the tool's input."""
    for family in bundled().values():
        for rule in family.rule:
            if rule.fact is None:
                continue
            text = " ".join((rule.says, rule.text, *rule.texts, str(rule.low), str(rule.high)))
            used = set(re.findall(r"(?<!\{)\{([a-z]+)\}(?!\})", text))

            assert used <= set(re.findall(r"\{(\w+)\}", EXPLAINED[rule.fact])), rule.id


def test_patterns_of_the_documents_can_be_read() -> None:
    """A pattern with its blanks filled in compiles."""
    for family in bundled().values():
        for rule in family.rule:
            if rule.check in {Check.EVERY_LINE, Check.SOME_LINE, Check.FIRST_LINE, Check.ABSENT}:
                filled = re.sub(r"(?<!\{)\{\w+\}(?!\})", "x", rule.text).replace("{{", "{").replace("}}", "}")

                assert pattern(filled) is not None, rule.id


@pytest.mark.parametrize(
    ("given", "problem", "remedy"),
    [
        ("tools = ['Read']\ntext = '(?={file_path})'", "`text` is no pattern", "RE2"),
        ("tools = ['Read']\ntext = '('", "`text` is no pattern", "RE2"),
        ("programs = ['ls']\ntext = '[0-9]{7'", "`text` has a brace", "{{"),
        ("programs = ['ls']\ntext = '[0-9]{7}'", "`text` has a brace", "{{"),
        ("programs = ['ls']\ncheck = 'names'\ntext = '(.*)'", "no group `name`", "(?P<name>...)"),
        ("programs = ['nl']\ncheck = 'numbered'\ntext = '(.*)'", "no group `line`", "(?P<line>...)"),
        ("programs = ['ls']\nlow = 'abc'", "`low` is no number", "Give a number"),
        ("programs = ['ls']\nhigh = '{count'", "`high` is no number", "Give a number"),
        ("text = 'a'", "it concerns nothing", "`programs`"),
        ("programs = ['ls']\nfact = 'unheard-of'", "no fact `unheard-of`", "Known facts"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(given: str, problem: str, remedy: str) -> None:
    """When it is loaded, with its document, its name and what to do."""
    check = "" if "check" in given else "check = 'every-line'\n"
    family = parse(f"about = 'x'\n[[rule]]\nid = 'mine'\nsays = 'b'\n{check}{given}", "own.toml")

    with pytest.raises(ContractError) as caught:
        Contracts({"own": family})

    assert "policies/contracts/own.toml, rule `mine`: " in str(caught.value)
    assert problem in str(caught.value)
    assert remedy in caught.value.hint


def test_a_document_is_utf_8() -> None:
    """Any other is refused by name."""
    with pytest.raises(ContractError, match=r"own\.toml: it is not UTF-8"):
        parse('about = "é"'.encode("latin-1"), "own.toml")


@pytest.mark.parametrize(
    "text",
    [
        'about = "x"\nrules = []',
        'about = "x"\n[[rule]]\nid = "a"\nsays = "b"\ncheck = "nonsense"',
        'about = "x"\n[[rule]]\nid = "a"\nsays = "b"\ncheck = "empty"\nprogramms = ["ls"]',
        "about =",
    ],
)
def test_what_is_no_document_says_where_to_read(text: str) -> None:
    """The reference is named."""
    with pytest.raises(ContractError) as caught:
        parse(text, "mine.toml")

    assert "mine.toml" in str(caught.value)
    assert "policies/contracts/README.md" in caught.value.hint
