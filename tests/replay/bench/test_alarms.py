"""The suite `alarms`: tables read, figures that can be recomputed, and the budget on recorded scores."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from verifierd.composition import Choice
from verifierd.errors import ConfigError, StateError
from verifierd.replay.bench.alarms import alarms, read
from verifierd.replay.bench.figures import value
from verifierd.replay.bench.suite import Measured, Request, load
from verifierd.replay.statistics import Interval

RECORDED = Path(__file__).parents[4] / "shared/labelled/evaluator_scores/hotpotqa_w_scores_compressed.csv.gz"


def measured(**more: Any) -> Measured:
    """The quick look, with other parameters or another request."""
    parameters = {**load("alarms").smoke, "seeds": 3, "fault-seeds": 1} | more.pop("parameters", {})
    return alarms(
        Request(
            **{"parameters": parameters, "choice": Choice(), "runs": None, "seed": 0, "say": lambda _line: None} | more
        )
    )


def rows(*steps: tuple[str, int, float | str, str]) -> str:
    """A table as e-valuator has it."""
    return "uq_problem_idx,num_steps,judge_probability,solved\n" + "".join(
        f"{','.join(map(str, step))}\n" for step in steps
    )


def test_the_generated_set_is_marked() -> None:
    """Its figures are called what they are, and the same come again."""
    found = measured()

    assert "generated" in found.warning
    assert found.results.keys() >= {"far_per_step", "far_e_sr", "tpr_e_sr", "far_max", "tpr_max", "far_e_sr_q4"}
    assert found.results == measured().results
    assert value(found.results["far_per_step"]) > value(found.results["far_e_sr"])


def test_figures_can_be_recomputed(tmp_path: Path) -> None:
    """The table has a row a trajectory, and of each deal a letter."""
    for name in ("table.csv", "table.csv.gz"):
        found = measured(out=tmp_path / name)
    with gzip.open(tmp_path / "table.csv.gz", "rt") as lines:
        table = list(csv.DictReader(lines))

    assert (tmp_path / "table.csv").read_bytes() == gzip.decompress((tmp_path / "table.csv.gz").read_bytes())
    for rule in ("e_sr", "max", "per_step"):
        for clean, name in (("1", "far"), ("0", "tpr")):
            letters = [row[rule] for row in table if row["clean"] == clean]
            shares = [
                sum(row[deal] == "A" for row in letters) / sum(row[deal] in "A." for row in letters)
                for deal in range(3)
            ]
            assert value(found.results[f"{name}_{rule}"]) == pytest.approx(sum(shares) / 3)
    assert [sum(row["e_sr"][0] == part for row in table) for part in "rl"] == [150, 150]


def test_a_table_that_cannot_be_written(tmp_path: Path) -> None:
    """Is an error that names it."""
    with pytest.raises(StateError, match="cannot be written"):
        measured(out=tmp_path / "none" / "table.csv")


def test_columns_and_formats(tmp_path: Path) -> None:
    """Probabilities of being right are turned round; steps come in any order, attempts under one name apart."""
    table, lines = tmp_path / "a.csv.gz", tmp_path / "b.jsonl"
    table.write_bytes(
        gzip.compress(
            rows(
                ("a", 2, 0.5, "True"), ("a", 1, 0.9, "True"), ("b", 1, 0.1, "False"), ("b", 2, "", "False"),
                ("c", 1, 0.3, "True"), ("c", 1, 0.4, "True"),
            ).encode()
        )
    )  # fmt: skip
    lines.write_text(
        "".join(
            json.dumps({"trajectory": "t", "step": step, "score": step / 2, "clean": True}) + "\n" for step in (1, 2)
        )
    )

    found, clean = read(table)
    (other,), truth = read(lines)

    assert [(one.id, [step.score for step in one.steps]) for one in found] == [
        ("a", [-0.9, -0.5]), ("b", [-0.1, None]), ("c", [-0.3]), ("c#1", [-0.4]),
    ]  # fmt: skip
    assert clean == [True, False, True, True]
    assert ([step.score for step in other.steps], truth) == ([0.5, 1.0], [True])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "no column says the trajectory, step, score, clean"),
        (rows(("a", 1, "much", "True")), "row 1: could not convert"),
        (rows(("a", 1, 0.5, "perhaps")), "neither true nor false"),
        (rows(("a", 1, 0.5, "True")), "has 1 clean trajectories and 0 others"),
        ("{\n", "line 1"),
    ],
)
def test_what_is_no_table(tmp_path: Path, text: str, says: str) -> None:
    """Is an error with the place."""
    path = tmp_path / "a.csv"
    path.write_text(text)

    with pytest.raises(ConfigError, match=says):
        measured(data=path)


def test_a_missing_table(tmp_path: Path) -> None:
    """Is an error, too, and so is a damaged one."""
    damaged = tmp_path / "damaged.csv.gz"
    damaged.write_bytes(gzip.compress(b"score\n" * 100)[:15] + b"\xff" * 20)
    for path in (tmp_path / "none.csv", damaged):
        with pytest.raises(ConfigError, match="cannot be read"):
            measured(data=path)


def test_a_small_table_gives_smaller_parts(tmp_path: Path) -> None:
    """And it is said."""
    path = tmp_path / "a.csv"
    path.write_text(
        rows(*((f"t{n}", step, (n * 7 + step) % 10 / 10, str(n % 4 > 0)) for n in range(120) for step in (1, 2, 3)))
    )

    assert "only 90 clean trajectories: 30 are the reference" in measured(data=path).warning


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"alpha": 1.0}, {"trim": 0.5}, {"faults": [0.0]}, {"what": 1}])
def test_impossible_parameters(wrong: dict[str, Any]) -> None:
    """Are refused."""
    with pytest.raises(ConfigError, match="parameters"):
        measured(parameters=wrong)


@pytest.mark.shared
@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded scores are not here")
def test_the_budget_holds_on_recorded_scores() -> None:
    """Real scores, strongly tied: alpha is kept, at any length twice of it at most, and more faults are found."""
    found = measured(data=RECORDED, parameters={"seeds": 20}).results

    assert isinstance(found["far_e_sr"], Interval)
    assert 0.04 <= value(found["far_e_sr"]) <= 0.06
    assert value(found["tpr_e_sr"]) >= value(found["tpr_max"])
    assert value(found["far_e_sr_worst_quarter"]) <= 0.10
    assert 0.10 <= value(found["far_per_step"]) <= 0.17
    assert value(found["far_e_sr_faults5"]) <= value(found["far_e_sr_faults5_trimmed"]) <= 0.07
