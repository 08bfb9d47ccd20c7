"""Finding and loading a model, and what is wrong with those that cannot be used."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("mlx_lm")

from tests.helpers import echo, jsonl, verifierd
from verifierd.config import ModelConfig
from verifierd.errors import PredictorError
from verifierd.policy import Asking
from verifierd.predictors import tiny
from verifierd.predictors.mlx import MlxPredictor
from verifierd.predictors.mlx.loading import DEFAULT, find, fit, load

WEIGHTS = "model.safetensors"
OFFLINE = {"HF_HUB_OFFLINE": "1"}
Change = Callable[[Path], object]


def _settings(folder: Path, *, context: int = 12_288, override: bool = False) -> ModelConfig:
    return ModelConfig(name=str(folder), context_tokens=context, cache_bytes=10**8, memory_override=override)


def _config(**changes: object) -> Change:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def _template(old: str, new: str) -> Change:
    def change(folder: Path) -> None:
        file = folder / "tokenizer_config.json"
        config = json.loads(file.read_text())
        assert old in config["chat_template"]
        config["chat_template"] = config["chat_template"].replace(old, new)
        file.write_text(json.dumps(config))

    return change


def _no_template(folder: Path) -> None:
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text())
    del config["chat_template"]
    file.write_text(json.dumps(config))


def _shards(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "model-00001-of-00002.safetensors")
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": dict(zip("ab", names, strict=True))})
    )


def _torn(folder: Path) -> None:
    weights = folder / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1000])


DAMAGES: dict[str, tuple[Change, str, str]] = {
    "no config": (lambda folder: (folder / "config.json").unlink(), "config.json: cannot be read", "holds no model"),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), "config.json: no JSON", "again"),
    "no object": (lambda folder: (folder / "config.json").write_text("[]"), "config.json: no JSON object", "again"),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), "weight files are missing: model*", "incomplete"),
    "a shard": (_shards, "weight files are missing: model-00002-of-00002.safetensors", "incomplete"),
    "torn": (_torn, f"{WEIGHTS}: the weights are cut off: ", "Download it again"),
    "empty": (lambda folder: (folder / WEIGHTS).write_bytes(b""), f"{WEIGHTS}: no safetensors file", "again"),
    "no weight file": (lambda folder: (folder / WEIGHTS).write_bytes(b"x" * 99), f"{WEIGHTS}: no safetensors", "again"),
    "unknown type": (_config(model_type="no_such_model"), "ValueError: Model type no_such", "upgrade"),
    "no type": (lambda folder: (folder / "config.json").write_text("{}"), "config.json: has no `model_type`", "is no"),
    "tokenizer": (lambda folder: (folder / "tokenizer.json").write_text("{}"), "cannot be loaded: KeyError", "damaged"),
    "no template": (_no_template, "its tokenizer has no chat template", "instruction-tuned"),
    "ignores": (_template("enable_thinking is false", "false"), "ignores `enable_thinking`", "original chat_template"),
    "inverse": (_template("is false", "is true"), "leaves thinking on with the switch off", "original chat_template"),
    "numbers": (_template("{{- content +", "{{- content + loop.index|string +"), "does not compose", "one after the"),
    "fails": (_template("{{- content +", "{{- raise_exception('no') +"), "fails on a conversation: no", "takes system"),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound model in a folder."""
    return tiny.build("tiny", tmp_path_factory.mktemp("model") / "sound")


@pytest.mark.parametrize(("change", "message", "remedy"), DAMAGES.values(), ids=DAMAGES)
def test_a_model_that_cannot_be_used(whole: Path, tmp_path: Path, change: Change, message: str, remedy: str) -> None:
    """The error names the model, what is wrong with it, and what to do."""
    folder = tmp_path / "damaged"
    shutil.copytree(whole, folder)
    change(folder)
    with pytest.raises(PredictorError) as caught:
        MlxPredictor(_settings(folder), Asking())
    assert message in str(caught.value)
    assert "damaged" in str(caught.value)
    assert remedy in caught.value.hint


def test_a_context_that_is_too_small(whole: Path) -> None:
    """A system prompt must leave room for turns."""
    with pytest.raises(PredictorError) as caught:
        MlxPredictor(_settings(whole, context=2048), Asking())
    assert "the system prompt of `terminal` takes" in str(caught.value)
    assert "context-tokens" in caught.value.hint


def test_a_model_that_does_not_fit(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused with the numbers before it is loaded, and loaded all the same where that is wished."""
    monkeypatch.setattr("verifierd.predictors.memory.available", lambda: 1_000_000)
    found = find(str(whole))
    said: list[str] = []
    with pytest.raises(PredictorError) as caught:
        load(found, _settings(whole), said.append)
    assert "the model needs about" in str(caught.value)
    assert "weights 0.01" in str(caught.value)
    assert "--memory-override" in caught.value.hint
    assert said[-1].lstrip().startswith("total")
    load(found, _settings(whole, override=True), said.append)
    assert said[-1] == "loaded"


def test_a_folder_is_found(whole: Path) -> None:
    """It is called by its name and a digest, which changes with its weights; a random model says that it is one."""
    found = find(str(whole))
    assert found.label == f"sound@{found.revision} (random weights)"
    assert found.weight_bytes == (whole / WEIGHTS).stat().st_size
    assert fit(found, _settings(whole)).total > found.weight_bytes
    assert find("tiny").name == "tiny"


@pytest.mark.parametrize("name", ["./none", "/none", "~/none"])
def test_a_folder_that_is_not_there(name: str) -> None:
    """A name that can only be a path is not looked for at the hub."""
    with pytest.raises(PredictorError, match=f"{name}: no folder with a model"):
        find(name)


@pytest.mark.parametrize("name", ["nobody/nothing", "no such name", "a/b/c"])
def test_a_model_of_the_hub_that_is_not_to_be_had(name: str) -> None:
    """Without a network, or with a name that none has: where it was looked for, and what to do."""
    log = jsonl(*echo("t", 2))
    done = verifierd("replay", "-", "--predictor", "mlx", "--model", name, stdin=log, env=OFFLINE)
    assert done.returncode == 1
    message, remedy = done.stderr.splitlines()
    assert message.startswith(f"verifierd: {name}: neither a folder here, nor to be had from the hub: ")
    assert "name its folder after --model" in remedy


def test_the_hub_is_not_asked_where_nothing_is_to_be_downloaded() -> None:
    """Then the command that fetches it is named."""
    with pytest.raises(PredictorError) as caught:
        find("nobody/nothing", download=False)
    assert str(caught.value) == "nobody/nothing: is not on this machine"
    assert caught.value.hint == "Fetch it: hf download nobody/nothing"
    assert "/" in DEFAULT


@pytest.mark.slow
def test_a_download_that_was_interrupted(whole: Path, tmp_path: Path) -> None:
    """Some files are here: they are not taken for a model; a whole one needs no network."""
    hub = tmp_path / "models--some--model"
    snapshot = hub / "snapshots" / ("0" * 40)
    shutil.copytree(whole, snapshot)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("0" * 40)
    log = jsonl(*echo("t", 1))

    def replay() -> tuple[int, str]:
        done = verifierd(
            "replay", "-", "--model", "some/model", "--predictor", "mlx", stdin=log,
            env=OFFLINE | {"HF_HUB_CACHE": str(tmp_path)},
        )  # fmt: skip
        return done.returncode, done.stderr

    assert replay()[0] == 0
    _shards(snapshot)
    code, errors = replay()
    assert code == 1
    assert "weight files are missing: model-00002-of-00002.safetensors" in errors


def test_a_damaged_model_on_the_command_line(whole: Path, tmp_path: Path) -> None:
    """Exit code 1, and two lines."""
    folder = tmp_path / "damaged"
    shutil.copytree(whole, folder)
    _torn(folder)
    done = verifierd("replay", "-", "--predictor", "mlx", "--model", folder, stdin=jsonl(*echo("t", 1)))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 2
    assert f"{folder / WEIGHTS}: the weights are cut off" in done.stderr
