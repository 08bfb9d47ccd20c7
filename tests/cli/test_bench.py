"""`verifierd bench`: the list, the contract of `--json`, and what it refuses."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.helpers import verifierd
from verifierd.cli import _verifierd

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


def _called(*arguments: str | Path) -> Result:
    """The command within this process, which saves time."""
    return CliRunner().invoke(_verifierd, ["bench", *map(str, arguments)], catch_exceptions=False)


def test_the_suites_are_listed() -> None:
    """For people and for programs."""
    assert "speed" in _called("--list").stdout
    rows = json.loads(_called("--list", "--json").stdout)
    assert {"suite", "description", "predictor"} <= rows[0].keys()


def test_unknown_suites_are_a_wrong_use() -> None:
    """Exit code 2, and the known ones are named; so they are where none is given."""
    for arguments in (["nope"], []):
        done = _called(*arguments)
        assert done.exit_code == 2
        assert "speed" in done.stderr


def test_another_predictor_is_refused() -> None:
    """`speed` measures one predictor."""
    done = _called("speed", "--predictor", "shell")
    assert done.exit_code == 78
    assert "mlx" in done.stderr


def test_the_contract(tmp_path: Path) -> None:
    """One document on standard output; a condition that holds fails; a random model is called one."""
    pytest.importorskip("mlx_lm")
    file = tmp_path / "small.toml"
    file.write_text(SUITE)

    done = verifierd("bench", file, "--size", "smoke", "--json", "--fail-if", "cache_bytes>0")

    assert done.returncode == 1, done.stderr
    assert "cache_bytes>0" in done.stderr
    document = json.loads(done.stdout)
    assert document.keys() >= {"suite", "predictor", "model", "results", "published", "host"}
    assert (document["suite"], document["predictor"]) == ("small", "mlx")
    assert "random weights" in document["model"]
    assert "random weights" in document["warning"]
    assert document["published"] == {"decode_over_verify": 6.5}
    assert document["results"]["decode_over_verify"].keys() == {"value", "low", "high", "n"}
    assert isinstance(document["results"]["cache_bytes"], int)


def _shell(*arguments: str | Path) -> Result:
    """A suite at its smallest, by a predictor that needs no model and little time."""
    return _called(*arguments, "--size", "smoke", "--predictor", "contracts")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["roles", "--format", "native"], "--format"),
        (["roles", "--against", "m"], "--against"),
        (["roles", "--of", "random"], "--of"),
        (["speed", "--limit", "3"], "--limit"),
        (["speed", "--out", "rows.csv"], "--out"),
        (["scores", "--sampling", "card"], "--sampling"),
        (["alarms", "--model", "m"], "--model"),
        (["alarms", "--policy", "default"], "--policy"),
        (["three-way", "--model", "m"], "--against"),
        (["--list", "--runs", "3"], "--runs"),
        (["--list", "roles"], "a suite"),
        (["--compare", "a", "b", "--size", "smoke"], "--size"),
        (["--compare", "a", "b", "--out", "c"], "--out"),
        (["roles", "random", "--out", "one.jsonl"], "{suite}"),
        (["roles", "roles", "--out", "."], "named once"),
    ],
)
def test_options_without_use_are_refused(arguments: list[str], problem: str) -> None:
    """None is ignored silently."""
    done = _called(*arguments)
    assert done.exit_code == 2
    assert problem in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["roles", "--fail-if", "exact"], "no condition"),
        (["--compare", "missing.jsonl", "other.jsonl"], "missing.jsonl"),
        (["plausible", "--data", "."], "reads no data"),
        (["roles", "--data", "missing.jsonl"], "missing.jsonl"),
        (["roles", "--seed", "-1"], "--seed"),
    ],
)
def test_what_cannot_be_done_is_told(arguments: list[str], problem: str) -> None:
    """In one line and a hint, before anybody is asked."""
    done = _called(*arguments)
    assert done.exit_code not in (0, 2)
    assert problem in done.stderr


def test_the_table() -> None:
    """Says beside each figure what it means, what is wanted, and what was published."""
    table = _shell("roles").stdout
    assert "scaled down" in table
    assert "wanted <= 0" in table
    assert "published 0: not comparable" in table


def test_suites_write_into_a_folder_and_go_on(tmp_path: Path) -> None:
    """A file each, or one with the suite in its name; a list of documents, without the rows."""
    first = _shell("roles", "plausible", "--out", tmp_path, "--json")
    second = _shell("roles", "plausible", "--out", tmp_path / "{suite}.jsonl", "--json")

    assert sorted(file.name for file in tmp_path.iterdir()) == ["plausible.jsonl", "roles.jsonl"]
    one, other = (json.loads(done.stdout) for done in (first, second))
    assert [document["suite"] for document in one] == ["roles", "plausible"]
    assert [document["results"] for document in one] == [document["results"] for document in other]
    assert "rows" not in one[0]
    assert one[0]["claims"] == {"role_breaks": "not comparable"}

    conflict = _shell("roles", "--seed", "1", "--out", tmp_path / "roles.jsonl")
    assert conflict.exit_code == 78
    assert "differs in seed" in conflict.stderr


def test_the_first_jobs(tmp_path: Path) -> None:
    """--limit says so; --runs repeats."""
    done = _shell("roles", "--limit", "1", "--runs", "3", "--json", "--out", tmp_path / "run.jsonl")
    document = json.loads(done.stdout)
    assert document["results"]["steps"] == 6
    assert "the first 1 of 6 jobs" in document["warning"]


def test_a_condition_of_one_suite_alone() -> None:
    """Is tried where its figure was measured, and must be somewhere."""
    assert _shell("roles", "plausible", "--fail-if", "form>=0").exit_code == 1
    assert _shell("roles", "plausible", "--fail-if", "form<0").exit_code == 0
    assert _shell("roles", "--fail-if", "nothing<0").exit_code == 78


def test_runs_are_compared(tmp_path: Path) -> None:
    """As a table, as JSON and as a page; runs of other suites are refused."""
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file in files:
        _shell("roles", "--out", file)
    page = tmp_path / "page.html"

    table = _called("--compare", *files)
    done = _called("--compare", *files, "--json", "--report", page, "--fail-if", "b_minus_a_answered<1")

    assert "b_minus_a_answered_mcnemar" in table.stdout
    assert str(files[0]) in table.stdout
    document = json.loads(done.stdout)
    assert done.exit_code == 1
    assert [run["run"] for run in document["runs"]] == ["a", "b"]
    assert document["results"]["b_minus_a_answered"].keys() == {"value", "low", "high", "n"}
    assert "compared" in page.read_text(encoding="utf-8")

    _shell("plausible", "--out", tmp_path / "c.jsonl")
    refused = _called("--compare", files[0], tmp_path / "c.jsonl")
    assert refused.exit_code == 78
    assert "differs in suite" in refused.stderr
    assert _called("--compare", files[0]).exit_code == 78


def test_the_report(tmp_path: Path) -> None:
    """Is written beside the table, never over what is read or written otherwise."""
    page, rows = tmp_path / "page.html", tmp_path / "run.jsonl"
    done = _shell("roles", "--out", rows, "--report", page)
    assert "role_breaks" in done.stdout
    assert "What was published, and what was measured" in page.read_text(encoding="utf-8")

    both: tuple[tuple[str | Path, ...], ...] = (("--report", rows, "--out", rows), ("--report", rows, "--data", rows))
    for arguments in both:
        refused = _shell("roles", *arguments)
        assert refused.exit_code == 2
        assert "--report" in refused.stderr
    assert _called("roles", "--report", tmp_path / "missing" / "page.html").exit_code != 0


def test_three_way(tmp_path: Path) -> None:
    """Several models on one suite, as the command names them."""
    pytest.importorskip("mlx_lm")
    options = ("--model", "tiny", "--against", "tiny-attention", "--limit", "1", "--size", "smoke", "--json")
    done = _called("three-way", "--of", "plausible", *options, "--out", tmp_path / "run.jsonl")
    document = json.loads(done.stdout)
    assert [name.partition("@")[0] for name in document["model"].split("; ")] == ["a: tiny", "b: tiny-attention"]
    assert document["results"]["pairs"] == 1
    assert "b_minus_a_seconds" in document["results"]
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["run-1.jsonl", "run-2.jsonl"]
