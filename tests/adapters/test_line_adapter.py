"""What all adapters have in common."""

import pytest

from verifierd.adapters import FORMATS, open_adapter
from verifierd.adapters.base import Recent, join_blocks
from verifierd.errors import StateError
from verifierd.types import Origin, Record


def _record(data: bytes, problem: str | None = None) -> Record:
    return Record(origin=Origin(path="f", offset=0), end=len(data) + 1, data=data, problem=problem)


@pytest.mark.parametrize("name", FORMATS)
def test_a_line_that_the_source_gave_up_on_is_counted(name: str) -> None:
    """A record with a problem is quarantined under that reason and never parsed."""
    adapter = open_adapter(name, path="f")
    assert list(adapter.feed(_record(b"", "too_long"))) == []
    assert adapter.counts.records == 1
    assert adapter.counts.quarantined == {"too_long": 1}


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_unknown_record_types_are_counted_under_harmless_names(name: str) -> None:
    """Names are made safe, cut, and bounded in number."""
    adapter = open_adapter(name, path="f")
    adapter.feed(_record(b'{"type": "Big <b>New</b>", "payload": {}}'))
    adapter.feed(_record(b'{"type": "' + b"x" * 99 + b'", "payload": {}}'))
    adapter.feed(_record(b'{"payload": {}}'))
    assert adapter.counts.unknown == {"big__b_new_/b_": 1, "x" * 40: 1, "untyped": 1}
    for number in range(100):
        adapter.feed(_record(b'{"type": "new-%d", "payload": {}}' % number))
    assert len(adapter.counts.unknown) == 50
    assert adapter.counts.unknown["other"] == 54


@pytest.mark.parametrize("name", FORMATS)
def test_a_state_of_another_version_is_refused(name: str) -> None:
    """A state that cannot be read raises with a remedy, and leaves no half-loaded adapter in use."""
    adapter = open_adapter(name, path="f")
    state = adapter.dump().replace(b'"version":1', b'"version":2', 1)
    for bad in (state, b"", b"\xff"):
        with pytest.raises(StateError, match="state"):
            adapter.load(bad)


def test_recent_remembers_a_bounded_number_of_ids() -> None:
    """The oldest is forgotten first, and a dump restores the order."""
    recent = Recent(limit=3)
    assert [recent.add(name) for name in ("a", "b", "a", "c", "d")] == [True, True, False, True, True]
    restored = Recent(limit=3)
    restored.load(recent.dump())
    assert [name in restored for name in ("a", "b", "c", "d")] == [False, True, True, True]
    restored.add("e")
    assert "b" not in restored


def test_blocks_are_joined_line_by_line() -> None:
    """Texts are joined with one line break; what is no text is named in brackets."""
    blocks = [{"type": "text", "text": "a\n"}, {"text": "b"}, "c", {"type": "image", "source": {}}, 7, {"n": 1}]
    assert join_blocks(blocks) == "a\nb\nc\n[image]"
    assert join_blocks([{"type": "input_image", "image_url": "data:"}]) == "[image]"
