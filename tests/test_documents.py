"""The documents in `policies/` load, and their reference is complete."""

import itertools
import re
import tomllib
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from verifierd import policy
from verifierd.calibration import Calibration
from verifierd.errors import PolicyError
from verifierd.policy import DOMAINS, Asking, Calibrated, ContentClass, Normaliser, Policy, Rules
from verifierd.scoring import open_scorers

FOLDER = Path(__file__).parents[1] / "policies"
DOCUMENTS = sorted(FOLDER.glob("*.toml"))
KEYS = sorted(field.encode_name for field in msgspec.structs.fields(Policy))
ASKING = sorted(field.encode_name for field in msgspec.structs.fields(Asking))
RULES = sorted(field.encode_name for field in msgspec.structs.fields(Rules))
LEARNT = {"surprise", "calibration"}
"""Tables that `verifierd calibrate` writes; no shipped policy has them."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_every_policy_loads(path: Path) -> None:
    """Each document is a policy called as its file is, with a description, and its scorers can be opened."""
    loaded = policy.load(str(path))

    assert loaded.name == path.stem
    assert loaded.description
    assert loaded == policy.load(path.stem)
    assert open_scorers(loaded)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_every_policy_says_all_there_is_to_say(path: Path) -> None:
    """Each document spells out every key, so that a copy of it is a complete start."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    assert set(document) == set(KEYS) - LEARNT
    assert sorted(document["asking"]) == ASKING


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
@pytest.mark.parametrize(
    ("typo", "key"),
    [
        ("min-coverge", "min-coverage"),
        ("min_coverage", "min-coverage"),
        ("normalizers", "normalisers"),
        ("predictor", "predictors"),
        ("alarmafter", "alarm-after"),
    ],
)
def test_unknown_keys_are_refused(tmp_path: Path, path: Path, typo: str, key: str) -> None:
    """A key that nobody knows is refused by name, and the nearest known one is offered."""
    copy = tmp_path / path.name
    copy.write_text(f"{typo} = 1\n{path.read_text(encoding='utf-8')}", encoding="utf-8")

    with pytest.raises(PolicyError) as caught:
        policy.load(str(copy))

    assert str(caught.value) == f"{copy}: Object contains unknown field `{typo}`"
    assert caught.value.hint == f"Did you mean `{key}`? Known keys there: {', '.join(KEYS)}."


def _reference() -> dict[str, tuple[str, str]]:
    """Key to type and default, as the table of the reference has them."""
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    return {row[0].strip("` "): (row[1], row[2].strip("` ")) for row in rows if len(row) == 4}


def _rows(head: str) -> list[str]:
    """The first cells of the table whose first head is given."""
    lines = iter((FOLDER / "README.md").read_text(encoding="utf-8").splitlines())
    rows = itertools.dropwhile(lambda line: not line.startswith(f"| {head} |"), lines)
    table = list(itertools.takewhile(lambda line: line.startswith("|"), rows))
    return [line.strip("| ").split(" | ")[0].strip("` ") for line in table[2:]]


def test_the_reference_names_every_key() -> None:
    """`policies/README.md` has a row for each key and for no other."""
    assert sorted(_reference()) == sorted([*KEYS, *(f"asking.{key}" for key in ASKING)])
    assert sorted(_rows("key of a rule")) == RULES


def test_the_reference_explains_what_was_learnt() -> None:
    """Each key of the table that `verifierd calibrate` writes is named in the table of its keys."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert "`learnt.missing`" in text  # beside the level that it stands for
    named = {"missing", *re.findall("[a-z-]+", " ".join(_rows("key of `calibration`")))}

    assert {field.encode_name for kind in (Calibrated, Calibration) for field in msgspec.structs.fields(kind)} <= named


@pytest.mark.parametrize(
    ("place", "field"),
    [
        pytest.param(place, field, id=f"{place}{field.encode_name}")
        for place, kind in (("", Policy), ("asking.", Asking))
        for field in msgspec.structs.fields(kind)
    ],
)
def test_the_reference_has_the_true_default(place: str, field: msgspec.structs.FieldInfo) -> None:
    """The default in the reference is the one in the code."""
    _, stated = _reference()[f"{place}{field.encode_name}"]

    if field.required:
        assert stated == "needed"
    elif field.default is None:
        assert stated == "none"
    elif isinstance(field.default, Asking):
        assert field.default == msgspec.convert(tomllib.loads(f"value = {stated}")["value"], Asking)
    else:
        default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        default = list(default) if isinstance(default, tuple) else default
        assert tomllib.loads(f"value = {stated}")["value"] == default


def test_the_reference_explains_every_word() -> None:
    """Each normaliser, each class of content, each domain and each bundled policy is explained."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")

    for word in (*policy.names(), *get_args(Normaliser), *get_args(ContentClass), *DOMAINS):
        assert f"`{word}`" in text
