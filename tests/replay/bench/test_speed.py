"""The suite `speed` on the tiny models, as small as can be: shapes and counts, never times."""

import math

import msgspec
import pytest

from verifierd.composition import Choice
from verifierd.config import ModelConfig
from verifierd.errors import ConfigError
from verifierd.replay.bench.figures import value
from verifierd.replay.bench.suite import load, measure
from verifierd.replay.statistics import Interval

pytest.importorskip("mlx_lm")

NAMES = (
    "decode_over_verify",
    "verify_over_forward",
    "computed_over_new_stable",
    "computed_over_new_template",
    "batch8_over_singles",
    "cache_bytes",
)
SMALL = {
    "runs": 2,
    "opening": 16,
    "history": 64,
    "observation": 6,
    "long-observation": 12,
    "steps": 6,
    "batch": 2,
    "batch-turns": 1,
}
"""Two trajectories in a pass, not the document's eight, which is where nearly all of the time would go."""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["tiny", "tiny-attention"])
def test_every_figure_is_there(model: str) -> None:
    """Both kinds of caches give the figures of the contract; what is counted meets its bounds."""
    suite = msgspec.structs.replace(load("speed"), smoke=SMALL)

    report = measure(suite, Choice(model=ModelConfig(name=model)), size="smoke", runs=1)

    assert suite.full["batch"] == 8
    found = {name.replace("batch2", "batch8") for name in report.results}
    assert found >= {*NAMES, *suite.figures}
    assert all(math.isfinite(value(figure)) and value(figure) > 0 for figure in report.results.values())
    for figure in report.results.values():
        if isinstance(figure, Interval):
            assert figure.low <= figure.value <= figure.high
            assert figure.n >= 1
    assert value(report.results["computed_over_new_stable_worst"]) <= 1.1
    assert value(report.results["computed_over_new_template"]) > value(report.results["computed_over_new_stable"])
    assert value(report.results["cache_bytes"]) <= value(report.results["cache_budget_bytes"])
    assert report.model is not None
    assert report.model.startswith(f"{model}@")
    assert "random weights" in report.model
    assert "random weights" in report.warning
    assert {"device", "mlx", "mlx_lm", "cpus", "system"} <= report.host.keys()


def test_it_measures_its_own_predictor_only() -> None:
    """Another predictor is refused before anything is loaded."""
    with pytest.raises(ConfigError, match="`shell`"):
        measure(load("speed"), Choice(predictor="shell"))


def test_wrong_parameters_are_told() -> None:
    """A document's misspelt parameter is named."""
    with pytest.raises(ConfigError, match="observaton"):
        measure(msgspec.structs.replace(load("speed"), smoke={**SMALL, "observaton": 1}), Choice(), size="smoke")
