"""Builders of small made-up sets."""

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from verifierd.errors import VerifierdError
from verifierd.replay.labelled import Marked, read_set

MakeSet = Callable[..., Path]
Read = Callable[..., Marked]


def lines(values: Iterable[Any]) -> bytes:
    """A line each; a text is a line as it is."""
    return b"".join((value if isinstance(value, str) else json.dumps(value)).encode() + b"\n" for value in values)


@pytest.fixture
def make_set(tmp_path: Path) -> MakeSet:
    """Writes a set: its cases in gzip, its labels beside them; gives its folder."""

    def make(cases: Iterable[Any], labels: Iterable[Any], name: str = "some") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "cases.jsonl.gz").write_bytes(gzip.compress(lines(cases)))
        (folder / "labels.jsonl").write_bytes(lines(labels))
        return folder

    return make


@pytest.fixture
def read(make_set: MakeSet) -> Read:
    """Reads one case with its label, of which nothing may be told."""

    def read_one(raw: dict[str, Any], **label: Any) -> Marked:
        told: list[VerifierdError] = []
        given = {"case_id": "c", "group": "g", "trajectory_label": "off_path", "label_kind": "agent_error"} | label
        found = read_set(make_set([{"case_id": "c", "raw": raw}], [given]), tell=told.append)

        assert told == []
        assert found.overlays == []
        return found.marked[0]

    return read_one
