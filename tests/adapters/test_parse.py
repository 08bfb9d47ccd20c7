"""The ladder from bytes to JSON objects."""

import msgspec
import pytest

from verifierd.adapters.parse import arguments, fit, parse, plain


@pytest.mark.parametrize(
    ("data", "objects", "damage"),
    [
        (b'{"a": 1}', [{"a": 1}], None),
        (b"", [], None),
        (b"   ", [], None),
        (b'\xef\xbb\xbf{"a": 1}', [{"a": 1}], "repaired"),
        (b'\x00\x00\x00{"a": 1}', [{"a": 1}], "repaired"),
        (b'{"a": 1}\x00\x00', [{"a": 1}], "repaired"),
        (b"\x00" * 400, [], "nul"),
        (b'{"a": "\xff\xfe"}', [{"a": "\ufffd\ufffd"}], "repaired"),
        (b'{"a": "\\ud83d\\ude00 \\ud800"}', [{"a": "\U0001f600 \ufffd"}], "repaired"),
        (b'{"a": NaN, "b": -Infinity, "c": 1e999}', [{"a": None, "b": None, "c": None}], "repaired"),
        (b'{"a": "tab\there"}', [{"a": "tab\there"}], "repaired"),
        (b'{"a": 1}{"b": 2}', [{"a": 1}, {"b": 2}], "glued"),
        (b'{"a": 1} \x00 {"b": 2}', [{"a": 1}, {"b": 2}], "glued"),
        (b'{"type": "user", "text": "cut he{"type":"user","text":"whole"}', [{"type": "user", "text": "whole"}], "cut"),
        (b'{"a": 1}{"b": ', [{"a": 1}], "cut"),
        (b'garbage {"parentUuid":null,"x":[1]}', [{"parentUuid": None, "x": [1]}], "cut"),
        # What stands whole inside of a cut record is offered too; as no record looks like it, nothing comes of it.
        (b'{"timestamp":"t","payload":{"type":"x","n":1}', [{"type": "x", "n": 1}], "cut"),
        (b'{"timestamp":"t","payload":{"type":"x","n":1},"more":', [], "not_json"),
        (b"not json at all", [], "not_json"),
        (b'{"a": ', [], "not_json"),
        (b"[1, 2]", [], "not_object"),
        (b'"text"', [], "not_object"),
        (b"NaN", [], "not_object"),
        (b"[" * 50_000 + b"]" * 50_000, [], "too_deep"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, [], "too_deep"),
        (b'{"a": ' + b"9" * 9000 + b"}", [], "not_json"),
    ],
)
def test_every_line_yields_what_is_whole_on_it(
    data: bytes, objects: list[dict[str, object]], damage: str | None
) -> None:
    """Whole objects are recovered from damaged lines, and the damage is named."""
    assert parse(data) == (objects, damage)


def test_a_hostile_line_of_false_beginnings_ends() -> None:
    """The search for records gives up after a bounded number of beginnings."""
    assert parse(b'{"type":' * 20_000).damage in {"not_json", "too_deep"}


def test_lost_says_whether_anything_is_gone() -> None:
    """Repaired and glued lines lost nothing; cut ones did."""
    assert [parse(line).lost for line in (b"{}", b"\x00{}", b"{}{}", b"{}{", b"x")] == [False, False, False, True, True]


def test_arguments_are_an_object_or_nothing() -> None:
    """Broken JSON, other types and absurd values are not taken for arguments."""
    assert arguments('{"cmd": "ls"}') == {"cmd": "ls"}
    broken = ('{"cmd": "ls', "[1]", "", "[" * 5000, '{"n": ' + "9" * 30 + "}", '{"a": "\\ud800"}')
    assert [arguments(text) for text in broken] == [None] * len(broken)


def test_plain_keeps_texts_and_objects_and_tames_the_rest() -> None:
    """What no encoder takes becomes text; what is no input at all becomes empty."""
    assert plain("ls") == "ls"
    assert plain({"a": [{"b": 1}, None, True, 1.5]}) == {"a": [{"b": 1}, None, True, 1.5]}
    assert plain({"n": 1 << 70}) == '{"n": 1180591620717411303424}'
    assert plain([1, 2]) == plain(None) == plain(3) == ""
    nested: dict[str, object] = {}
    for _ in range(150):
        nested = {"a": nested}
    assert isinstance(plain(nested), str)


def test_fit_drops_fields_of_a_wrong_type() -> None:
    """One bad field does not cost the others."""

    class Line(msgspec.Struct):
        name: str | None = None
        size: int = 0

    assert fit(Line, {"name": 3, "size": 7, "more": 1}) == Line(name=None, size=7)
