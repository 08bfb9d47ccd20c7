"""Documents of suites."""

from pathlib import Path

import msgspec
import pytest

from verifierd.composition import Choice
from verifierd.config import ModelConfig
from verifierd.errors import ConfigError
from verifierd.replay.bench import suite as suites
from verifierd.replay.bench.suite import Measured, Request, load, measure, names


def test_the_bundled_suites_are_whole() -> None:
    """Each is called by its file's name, has an engine, and conditions that can be read."""
    assert "speed" in names()
    for name in names():
        found = load(name)
        assert found.name == name
        assert found.engine in suites.ENGINES
        assert found.description
        for known in found.figures.values():
            assert known.says
            assert not known.wanted or known.wanted.split()[0] in ("<", "<=", ">", ">=")
            assert known.published is None or known.source


def test_an_unknown_suite_is_told_with_the_known_ones() -> None:
    """The hint lists them."""
    with pytest.raises(ConfigError, match="no suite") as caught:
        load("nope")
    assert "speed" in caught.value.hint


def test_a_document_of_ones_own(tmp_path: Path) -> None:
    """A path is read; what is wrong in it is said with its place."""
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\ndescription = "d"\nengine = "speed"\n[smoke]\n[full]\n')
    assert load(str(file)).name == "mine"
    good = file.read_text()
    for old, new, problem in (
        ('"speed"', '"warp"', "`engine` is `warp`"),
        ('"mine"', '"../mine"', r"`name` is `\.\./mine`"),
        ("[full]", '[full]\n[figures.ratio]\nsays = "s"\nwanted = "four"', "`wanted` is `four`"),
        ("[full]", "[full]\n[figures.ratio]\nsays = 3", r"figures\.ratio\.says"),
    ):
        file.write_text(good.replace(old, new))
        with pytest.raises(ConfigError, match=problem) as caught:
            load(str(file))
        assert "replay/suites/README.md" in caught.value.hint
    file.write_text(good.replace('"speed"', '"roles"').replace("[full]", "[full]\nmax-tokens = 0"))
    with pytest.raises(ConfigError, match=r"`mine`, parameters of size full: `max-tokens`") as caught:
        measure(load(str(file)), Choice(predictor="shell"))
    assert "replay/suites/README.md" in caught.value.hint
    with pytest.raises(ConfigError, match="cannot read"):
        load(str(tmp_path / "other.toml"))


def test_an_engine_gets_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters of the size, and the suite's model unless another was named; the report is what the contract says."""
    asked: list[Request] = []

    def engine(request: Request) -> Measured:
        asked.append(request)
        return Measured(model="m@1", results={"ratio": 2.0}, host={"device": "abacus"}, warning="w")

    monkeypatch.setitem(suites.ENGINES, "speed", engine)
    document = msgspec.structs.replace(load("speed"), figures={"ratio": suites.Known(says="s", published=3.0)})

    report = measure(document, Choice(), size="smoke", runs=2, seed=5)
    measure(document, Choice(predictor="mlx", model=ModelConfig(name="other")))

    first, second = asked
    assert first.parameters == document.smoke
    assert second.parameters == document.full
    assert (first.choice.model.name, second.choice.model.name) == ("tiny", "other")
    assert (first.runs, first.seed, second.runs) == (2, 5, None)
    encoded = msgspec.to_builtins(report)
    assert encoded.keys() >= {"suite", "predictor", "model", "results", "published", "host"}
    assert encoded["published"] == {"ratio": 3.0}
    assert encoded["host"]["device"] == "abacus"
    assert encoded["host"]["cpus"]
