"""Whole files through the pipeline, once."""

from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import Keep, agrees, claude, counter, echo, jsonl, native, read_verdicts
from verifierd.composition import Choice
from verifierd.config import ModelConfig
from verifierd.errors import ConfigError, FormatError, SourceError, StateError, VerifierdError
from verifierd.policy import DOMAINS
from verifierd.replay.runner import replay

pytestmark = pytest.mark.anyio


async def test_files_are_read_in_order_each_to_its_end(tmp_path: Path) -> None:
    """Verdicts come file by file, batches that only the end closes included; progress ends at the file's size."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*counter("a", 6)))
    (tmp_path / "b.jsonl").write_bytes(jsonl(*(native("b", n, f"echo {n}", f"{n}\n", batch="x") for n in (1, 2))))
    kept, progress = Keep(), dict[str, int]()
    files = [tmp_path / "b.jsonl", tmp_path / "a.jsonl"]
    readings = await replay(files, Choice(), sinks=[kept], on=progress.__setitem__)
    assert [v.trajectory for v in kept.verdicts] == ["b", "b", *"aaaaaa"]
    assert agrees((v.step, v.verdict.value) for v in kept.verdicts)
    assert [reading.source.path for reading in readings] == [str(path) for path in files]
    assert progress == {str(path): path.stat().st_size for path in files}


async def test_what_cannot_be_read_is_told_and_skipped(tmp_path: Path) -> None:
    """A missing, an empty and an unknown file do not keep the good one from being judged."""
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "prose.jsonl").write_bytes(b"dear diary\n")
    (tmp_path / "good.jsonl").write_bytes(jsonl(*echo("t", 2)))
    told: list[VerifierdError] = []
    kept = Keep()
    names = ["none", "empty", "prose", "good"]
    readings = await replay(
        [tmp_path / f"{name}.jsonl" for name in names], Choice(predictor="scripted"), sinks=[kept], tell=told.append
    )
    assert [type(error) for error in told] == [SourceError, FormatError, FormatError]
    assert [error.message.split(": ", 1)[1] for error in told][1] == "is empty"
    assert len(readings) == 1
    assert len(kept.verdicts) == 2


async def test_an_old_verdict_file_is_replaced(tmp_path: Path) -> None:
    """`out` holds this replay's verdicts alone; a folder in its place is an error that names it."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 2)))
    out = tmp_path / "out.jsonl"
    for _ in range(2):
        await replay([tmp_path / "a.jsonl"], Choice(predictor="scripted"), sinks=[], out=out)
        assert [v["seq"] for v in read_verdicts(out)] == [1, 2]
    with pytest.raises(StateError, match="cannot be replaced"):
        await replay([tmp_path / "a.jsonl"], Choice(predictor="scripted"), sinks=[], out=tmp_path)


async def test_the_limit_goes_over_all_files(tmp_path: Path) -> None:
    """Once it is reached no further file is opened, and the one it ended in is no unknown format."""
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_bytes(jsonl(*echo(name, 5)))
    kept, told = Keep(), list[VerifierdError]()
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "none.jsonl"]
    await replay(files, Choice(predictor="scripted", limit=7), sinks=[kept], tell=told.append)
    assert [(v.trajectory, v.step) for v in kept.verdicts] == [
        *(("a", n) for n in range(1, 6)),
        ("b", 1),
        ("b", 2),
    ]
    assert told == []


async def test_a_wrong_choice_is_an_error(tmp_path: Path) -> None:
    """An unknown policy ends it before anything is read."""
    with pytest.raises(ConfigError, match="nonsense"):
        await replay([tmp_path / "none.jsonl"], Choice(policy="nonsense"), sinks=[])


def _asking(tmp_path: Path, batch: int, **more: Any) -> Choice:
    """A tiny model with short prompts, asked about each step."""
    pytest.importorskip("mlx_lm")
    for domain in DOMAINS:
        (tmp_path / "prompts" / domain).mkdir(parents=True, exist_ok=True)
        (tmp_path / "prompts" / domain / "system_prompt.txt").write_text("You are a terminal.\n")
    (tmp_path / "patient.toml").write_text(
        'name = "patient"\npredictors = ["contracts", "mlx"]\n[asking]\ndeadline = 300.0\n'
    )
    model = ModelConfig(
        name="tiny", prompts=str(tmp_path / "prompts"), context_tokens=4096, cache_bytes=16_000_000, batch=batch
    )
    return Choice(policy=str(tmp_path / "patient.toml"), model=model, **more)


async def test_a_model_is_asked_about_several_files_at_once(tmp_path: Path) -> None:
    """The verdicts are those of one file after the other; `seq` counts up, each trajectory in its order."""
    files: list[Path | None] = []
    for name in "abc":
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(jsonl(*(native(name, n, f"frobnicate {name}", f"{name * n}\n") for n in (1, 2))))
        files.append(path)
    found = {}
    order = {}
    for batch in (1, 4):
        progress: list[str] = []
        out = tmp_path / "out.jsonl"
        readings = await replay(
            files,
            _asking(tmp_path, batch),
            sinks=[],
            out=out,
            on=lambda path, _end, progress=progress: progress.append(path),  # type: ignore[misc]
        )
        assert [reading.source.path for reading in readings] == [str(path) for path in files]
        verdicts = read_verdicts(out)
        assert [verdict["seq"] for verdict in verdicts] == list(range(1, 7))
        steps = defaultdict(list)
        for verdict in verdicts:
            steps[verdict["trajectory"]].append(verdict["step"])
        assert dict(steps) == {name: [1, 2] for name in "abc"}
        order[batch] = len(list(groupby(progress)))
        found[batch] = sorted(verdicts, key=lambda verdict: str(verdict["step_id"]))
    assert order[1] == len(files)
    assert order[4] > len(files)
    for one, other in zip(found[1], found[4], strict=True):
        for key in ("verdict_id", "verdict", "reason", "detail", "coverage", "predicted", "model"):
            assert one[key] == other[key]
        assert one["score"] == pytest.approx(other["score"], rel=1e-3)
        assert one["tokens"]["prompt"] == other["tokens"]["prompt"]
        assert [signal["name"] for signal in one["signals"]] == [signal["name"] for signal in other["signals"]]


async def test_a_resumed_session_follows_its_first_file(tmp_path: Path) -> None:
    """Files with a trajectory or a copied step in common are read in order, though others are read beside them."""
    calls = [(f"toolu_01ABCDEFGHJKLMNPQRSTUV{n:02}", f"frobnicate {n}", f"out {n}\n") for n in range(1, 5)]
    (tmp_path / "1.jsonl").write_bytes(jsonl(*claude("first", calls[:3])))
    (tmp_path / "2.jsonl").write_bytes(jsonl(*(native("n", n, f"frobnicate {n}", "") for n in (1, 2))))
    (tmp_path / "3.jsonl").write_bytes(jsonl(*claude("second", calls)))
    (tmp_path / "4.jsonl").write_bytes(jsonl(*(native("n", n, f"frobnicate {n}", "") for n in (3, 4))))
    kept, told = Keep(), list[VerifierdError]()
    files = [tmp_path / f"{name}.jsonl" for name in ("1", "2", "none", "3", "4")]
    readings = await replay(files, _asking(tmp_path, 4), sinks=[kept], tell=told.append)
    assert sorted((v.trajectory, v.step) for v in kept.verdicts) == [
        *(("first", n) for n in (1, 2, 3)),
        *(("n", n) for n in (1, 2, 3, 4)),
        ("second", 4),
    ]
    turns = {step: [v.tokens.prompt for v in kept.verdicts if (v.trajectory, v.step) == ("n", step)] for step in (2, 3)}
    assert turns[3] > turns[2]
    assert len(readings) == 4
    assert [type(error) for error in told] == [SourceError]


async def test_a_limit_takes_the_first_steps_though_a_model_is_asked(tmp_path: Path) -> None:
    """Which steps are judged does not depend on who is faster."""
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_bytes(jsonl(*echo(name, 3)))
    kept = Keep()
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    await replay(files, _asking(tmp_path, 4, limit=4), sinks=[kept])
    assert [(v.trajectory, v.step) for v in kept.verdicts] == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]


@pytest.mark.parametrize("error", [BrokenPipeError, SystemExit])
@pytest.mark.parametrize("at_once", [1, 4])
async def test_an_error_of_a_sink_ends_it_as_it_is(tmp_path: Path, error: type[BaseException], at_once: int) -> None:
    """Who reads what is printed may leave: that is told as what it is, whatever runs beside it."""

    class Leaves(Keep):
        async def emit(self, _verdicts: object) -> None:
            raise error

    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("a", 2)))
    choice = Choice(predictor="scripted") if at_once == 1 else _asking(tmp_path, at_once)
    with pytest.raises(error):
        await replay([tmp_path / "a.jsonl"], choice, sinks=[Leaves()])
