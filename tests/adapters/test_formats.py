"""Which format a file is in."""

import json

import pytest

from verifierd.adapters import FORMATS, detect, open_adapter
from verifierd.errors import FormatError

UUID = "0b5c9d52-91a4-4be5-9d4e-3c9a1d0f7a11"


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_opens(name: str) -> None:
    """The table's names are true."""
    assert open_adapter(name, path="x.jsonl").format == name


def test_an_unknown_format_is_answered_with_the_known_ones() -> None:
    """The hint lists what can be named."""
    with pytest.raises(FormatError, match="toml") as caught:
        open_adapter("toml", path="x.jsonl")
    assert "native, claude_code, codex" in caught.value.hint


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        ([{"trajectory": "t", "action": "ls", "observation": ""}], "a.jsonl", "native"),
        ([{"trajectory": "t", "event": "initial", "observation": "$ "}], "a.jsonl", "native"),
        ([{"type": "session_meta", "payload": {"id": "x"}}], "a.jsonl", "codex"),
        ([{"timestamp": "t", "type": "response_item", "payload": {}}], "b.jsonl", "codex"),
        (
            [{"parentUuid": None, "type": "user", "sessionId": "s", "message": {"content": "hi"}}],
            "a.jsonl",
            "claude_code",
        ),
        ([{"type": "summary", "summary": "s", "leafUuid": "u"}], "a.jsonl", "claude_code"),
        ([{"type": "queue-operation", "operation": "enqueue", "sessionId": "s"}], "a.jsonl", "claude_code"),
        ([{"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}], "a.jsonl", "claude_code"),
        # A rarer line could be another program's; the name confirms it, but never decides alone.
        ([{"type": "brand-new", "sessionId": "s"}], "a.jsonl", None),
        ([{"type": "brand-new", "sessionId": "s"}], f"{UUID}.jsonl", "claude_code"),
        ([{"type": "brand_new", "payload": {}}], "a.jsonl", None),
        ([{"type": "brand_new", "payload": {}}], f"rollout-2026-01-02T03-04-05-{UUID}.jsonl.gz", "codex"),
        ([{"hello": 1}], f"{UUID}.jsonl", None),
        ([{"type": "system", "subtype": "init", "session_id": "s"}], "stream.jsonl", None),
        ([{"type": "item.started", "item": {"id": "item_0"}}], "exec.jsonl", None),
        ([], f"{UUID}.jsonl", None),
        # A later line decides where the first does not.
        ([{"type": "brand-new", "sessionId": "s"}, {"trajectory": "t", "action": "ls"}], "a.jsonl", "native"),
    ],
)
def test_the_shape_of_the_lines_decides(lines: list[object], path: str, expected: str | None) -> None:
    """Formats are told by what their lines look like; what is undecidable stays open."""
    assert detect([json.dumps(line).encode() for line in lines], path) == expected


def test_damaged_first_lines_do_not_hide_the_format() -> None:
    """NUL runs and cut records before the first whole one are passed over."""
    lines = [b"\x00" * 64, b"not json", b'{"type":"us{"parentUuid":null,"type":"user","sessionId":"s"}']
    assert detect(lines, "a.jsonl") == "claude_code"
