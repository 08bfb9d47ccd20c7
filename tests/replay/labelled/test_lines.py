"""Lines are read one by one, and a damaged one costs itself alone."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from verifierd.errors import SourceError, VerifierdError
from verifierd.replay.labelled import lines

BODY = b'{"a": 1}\n\n{"b": 2}{"c": 3}\n[4]\n{"d"\n{"e": "\xff"}'


def read(path: Path) -> tuple[list[tuple[dict[str, Any], int, int]], list[str]]:
    """Values with line and offset, and what was told."""
    errors: list[VerifierdError] = []
    found = [(o.value, int(o.place.rpartition(":")[2]), o.origin.offset) for o in lines.objects(path, errors.append)]
    return found, [error.message for error in errors]


def test_damaged_lines(tmp_path: Path) -> None:
    """Each is told with its place; blank ones are none."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(BODY)

    found, told = read(path)

    assert found == [({"a": 1}, 1, 0), ({"e": "\ufffd"}, 6, 36)]
    assert [message.split(": ")[0] for message in told] == [f"{path}:3", f"{path}:4", f"{path}:5"]


def test_damaged_archive(tmp_path: Path) -> None:
    """What stands before the damage is read; offsets are those of what was packed."""
    path = tmp_path / "x.jsonl.gz"
    packed = gzip.compress(BODY)
    path.write_bytes(packed)
    whole = read(path)
    path.write_bytes(packed[:-6])
    cut = read(path)
    path.write_bytes(b"no archive")

    assert whole[0] == [({"a": 1}, 1, 0), ({"e": "\ufffd"}, 6, 36)]
    assert cut[0][:1] == whole[0][:1]
    assert "archive is damaged after line" in cut[1][-1]
    assert read(path)[0] == []


def test_a_line_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is passed over, and the next one is read."""
    monkeypatch.setattr(lines, "_BYTES", 20)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": "%s"}\n{"b": 2}\n{"c": "%s"}' % (b"x" * 90, b"y" * 11))

    found, told = read(path)

    assert found == [({"b": 2}, 2, 100), ({"c": "y" * 11}, 3, 109)]
    assert "x.jsonl:1: the line is longer than 20 bytes" in told[0]


def test_no_such_file(tmp_path: Path) -> None:
    """Is an error that names it."""
    with pytest.raises(SourceError, match=r"none\.jsonl: cannot be read: No such file"):
        read(tmp_path / "none.jsonl")
