"""`verifierd bench`: the list, the contract of `--json`, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.helpers import verifierd

SUITE = """
name = "small"
description = "As small as can be."
engine = "speed"
model = "tiny-attention"
[smoke]
runs = 1
opening = 8
history = 24
observation = 4
long-observation = 5
steps = 3
batch = 2
batch-turns = 1
[full]
[figures.decode_over_verify]
says = "decoding over verifying"
wanted = ">= 4"
published = 6.5
source = "an idle machine"
"""


def test_the_suites_are_listed() -> None:
    """For people and for programs."""
    assert "speed" in verifierd("bench", "--list").stdout
    rows = json.loads(verifierd("bench", "--list", "--json").stdout)
    assert {"suite", "description", "predictor"} <= rows[0].keys()


def test_unknown_suites_are_a_wrong_use() -> None:
    """Exit code 2, and the known ones are named; so they are where none is given."""
    for arguments in (["nope"], []):
        done = verifierd("bench", *arguments)
        assert done.returncode == 2
        assert "speed" in done.stderr


def test_another_predictor_is_refused() -> None:
    """`speed` measures one predictor."""
    done = verifierd("bench", "speed", "--predictor", "shell")
    assert done.returncode == 78
    assert "mlx" in done.stderr


def test_the_contract_and_the_table(tmp_path: Path) -> None:
    """One document on standard output; a condition that holds fails; a random model is called one everywhere."""
    pytest.importorskip("mlx_lm")
    file = tmp_path / "small.toml"
    file.write_text(SUITE)

    done = verifierd("bench", file, "--size", "smoke", "--json", "--fail-if", "cache_bytes>0")

    assert done.returncode == 1
    assert "cache_bytes>0" in done.stderr
    document = json.loads(done.stdout)
    assert document.keys() >= {"suite", "predictor", "model", "results", "published", "host"}
    assert (document["suite"], document["predictor"]) == ("small", "mlx")
    assert "random weights" in document["model"]
    assert document["published"] == {"decode_over_verify": 6.5}
    assert document["results"]["decode_over_verify"].keys() == {"value", "low", "high", "n"}
    assert isinstance(document["results"]["cache_bytes"], int)

    table = verifierd("bench", file, "--size", "smoke").stdout
    assert "random weights" in table
    assert "wanted >= 4" in table
    assert "published 6.5" in table
