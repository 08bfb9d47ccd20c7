"""The suite `scores`: its sums on cases known in advance, what it reads, and what it refuses."""

import csv
import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import verifierd
from verifierd.composition import Choice
from verifierd.errors import ConfigError, StateError
from verifierd.fusion import STATISTICS
from verifierd.replay.bench.figures import value
from verifierd.replay.bench.suite import Report, load, measure
from verifierd.replay.statistics import Interval, auroc, detected


def _measure(data: Path | None = None, **choice: Any) -> Report:
    return measure(load("scores"), Choice(**choice), size="smoke", runs=2, data=data)


def _columns(draw: random.Random, size: int, odd: int | None, *, pieces: bool = True) -> list[list[Any]]:
    """Tokens of which one may be very surprising."""
    entropy = [draw.expovariate(1.0) for _ in range(size)]
    surprisal = [nats / 2 + draw.expovariate(1.0) + 20.0 * (place == odd) for place, nats in enumerate(entropy)]
    columns = [surprisal, entropy, [nats * 2 for nats in entropy], [nats / 2 for nats in entropy]]
    return [*columns, [f"w{draw.randrange(9)} " for _ in range(size)]] if pieces else columns


def _file(path: Path, *, trajectories: int = 8, odd: bool = True, pieces: bool = True) -> Path:
    draw = random.Random(5)
    lines = []
    for trajectory in range(trajectories):
        for index in range(3):
            size = draw.randrange(2, 9)
            line = {
                "t": f"t{trajectory}",
                "i": index,
                "real": _columns(draw, size, None, pieces=pieces),
                "c": {"Swap it": _columns(draw, size, draw.randrange(size) if odd else None, pieces=pieces)},
            }
            lines.append(json.dumps(line))
    path.write_bytes(gzip.compress("\n".join(lines).encode()) if path.suffix == ".gz" else "\n".join(lines).encode())
    return path


def test_without_a_file_a_generated_set_is_called_one() -> None:
    """Every statistic and every control but that of texts has its figure; the same seed gives the same."""
    report = _measure()

    assert "generated" in report.warning
    assert report.host["data"] == "generated"
    assert report.model is None
    names = {f"auroc_{name.replace('-', '_')}" for name in (*STATISTICS, "unfitted", "fused")}
    assert names | {"tpr5_fused", "tpr1_fused", "auroc_fused_over_first"} <= report.results.keys()
    assert set(load("scores").figures) <= report.results.keys()
    assert "auroc_zlib" not in report.results
    for figure in report.results.values():
        if isinstance(figure, Interval):
            assert figure.low <= figure.value <= figure.high
            assert figure.n == 2
    assert value(report.results["auroc_fused"]) > value(report.results["auroc_first"])
    assert _measure().results == report.results


@pytest.mark.parametrize(("name", "pieces"), [("a.jsonl.gz", True), ("a.jsonl", False)])
def test_a_file_of_ones_own(tmp_path: Path, name: str, *, pieces: bool) -> None:
    """Packed or not; texts give one control more. What is plain to see is found, by kind as well."""
    report = _measure(_file(tmp_path / name, pieces=pieces))

    assert report.warning == ""
    assert report.host["data"] == name
    assert value(report.results["auroc_fused"]) > 0.95
    assert value(report.results["auroc_fused_of_swap_it"]) == value(report.results["auroc_fused"])
    assert [report.results[count] for count in ("faults", "true_observations", "trajectories")] == [24, 24, 8]
    assert ("auroc_zlib" in report.results) is pieces


def test_where_there_is_nothing_to_find_nothing_is_found(tmp_path: Path) -> None:
    """A fusion fitted to noise does no better on other trajectories than a coin."""
    report = _measure(_file(tmp_path / "a.jsonl", trajectories=60, odd=False))

    assert 0.4 < value(report.results["auroc_fused"]) < 0.6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", ":1:"),
        ("[1", ":1:"),
        ('{"t": "a", "i": 0, "real": [[1.0], [1.0], [1.0]], "c": {}}', "expected lists"),
        ('{"t": "a", "i": 0, "real": [[1.0], [1.0], [1.0], [1.0, 2.0]], "c": {}}', "equal length"),
        ('{"t": "a", "i": 0, "real": [[], [], [], []], "c": {}}', "not empty"),
        ('{"t": "a", "i": 0, "real": [["x"], [1.0], [1.0], [1.0]], "c": {}}', "`real`"),
        ('{"t": "a", "i": 0, "real": [[1.0], [1.0], [1.0], [1.0]], "c": {}}', "1 trajectories"),
        ("", "0 trajectories"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """With its line, and what was expected."""
    file = tmp_path / "a.jsonl"
    file.write_text(text)

    with pytest.raises(ConfigError, match=words):
        _measure(file)


def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    """It is missing, a folder, or not packed as its name says."""
    packed = tmp_path / "a.jsonl.gz"
    packed.write_text("{}")
    for path in (tmp_path / "missing", tmp_path, packed):
        with pytest.raises(ConfigError, match="cannot be read"):
            _measure(path)


def test_faults_are_needed(tmp_path: Path) -> None:
    """Without them nothing can be fitted, nor said."""
    line = '{"t": "%d", "i": 0, "real": [[1.0], [1.0], [1.0], [1.0]], "c": {}}'
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(line % number for number in range(9)))

    with pytest.raises(ConfigError, match="too little"):
        _measure(file)


def test_others_can_recompute(tmp_path: Path) -> None:
    """The rows behind the figures hold what they were made of."""
    out = tmp_path / "rows.csv.gz"

    report = measure(load("scores"), Choice(), size="smoke", runs=1, data=_file(tmp_path / "a.jsonl"), out=out)

    rows = list(csv.DictReader(gzip.decompress(out.read_bytes()).decode().splitlines()))
    faulty = np.array([row["fault"] != "" for row in rows])
    assert (len(rows), rows[0]["trajectory"], rows[0]["step"], rows[1]["fault"]) == (48, "t0", "0", "Swap it")
    for column in ("first", "unfitted"):
        assert auroc(np.array([float(row[column]) for row in rows]), faulty) == report.results[f"auroc_{column}"]
    assert auroc(np.array([float(row["fused_0"]) for row in rows]), faulty) == value(report.results["auroc_fused"])

    with pytest.raises(StateError, match="cannot be written"):
        measure(load("scores"), Choice(), size="smoke", runs=1, out=tmp_path)


def test_nobody_predicts() -> None:
    """A predictor that was named is refused."""
    with pytest.raises(ConfigError, match="asks no predictor"):
        _measure(predictor="shell")


def test_data_is_for_suites_that_read_some(tmp_path: Path) -> None:
    """Another one refuses it."""
    pytest.importorskip("mlx_lm")
    with pytest.raises(ConfigError, match="reads no data"):
        measure(load("speed"), Choice(), size="smoke", data=tmp_path)


def test_the_command_prints_them(tmp_path: Path) -> None:
    """As a table and as the contract's document."""
    file = _file(tmp_path / "a.jsonl")
    arguments = ("bench", "scores", "--data", str(file), "--size", "smoke", "--runs", "1")

    table = verifierd(*arguments).stdout
    document = json.loads(verifierd(*arguments, "--json").stdout)

    assert "no predictor, no model" in table
    assert "wanted > 0" in table
    assert document["results"]["auroc_fused"].keys() == {"value", "low", "high", "n"}
    assert document["published"]["auroc_fused"] == 0.862


_FLAGS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30).filter(
    lambda rows: 0 < sum(faulty for _, faulty in rows) < len(rows)
)


@given(_FLAGS, st.floats(0.0, 0.99))
def test_rates_are_what_they_are_called(rows: list[tuple[int, bool]], rate: float) -> None:
    """The area by pairs, ties half; the best level with no more false alarms than allowed."""
    found, faulty = (np.array(column) for column in zip(*rows, strict=True))
    found = found.astype(np.float64)
    true, faults = found[~faulty], found[faulty]

    pairs = [(fault > one) + (fault == one) / 2 for fault in faults for one in true]
    assert auroc(found, faulty) == pytest.approx(sum(pairs) / len(pairs))
    allowed = [(faults > level).mean() for level in found if (true > level).sum() <= rate * true.size + 1e-9]
    assert detected(found, faulty, rate) == max(allowed)


@pytest.mark.shared
@pytest.mark.parametrize(("name", "area", "found"), [("qwen2.5-coder-0.5b", 0.84, 0.5), ("smollm2-135m", 0.77, 0.28)])
def test_recorded_statistics_of_two_models(shared: Path, name: str, area: float, found: float) -> None:
    """More than the first token alone, on two deals; the bars are for the mean over twenty."""
    file = shared / "recorded" / "likelihood" / f"{name}.jsonl.gz"
    if not file.is_file():
        pytest.skip("no recorded statistics here")

    results = _measure(file).results

    assert value(results["auroc_fused"]) >= area
    assert value(results["tpr5_fused"]) >= found
    assert value(results["auroc_fused_over_first"]) > 0
