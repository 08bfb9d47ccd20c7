"""Whole files through the pipeline, once."""

from pathlib import Path

import pytest

from tests.helpers import Keep, agrees, counter, echo, jsonl, native, read_verdicts
from verifierd.composition import Choice
from verifierd.errors import ConfigError, FormatError, SourceError, StateError, VerifierdError
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
