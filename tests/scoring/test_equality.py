"""Texts that say the same in another order, or with other runtime content."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifierd.scoring.equality import EQUALITIES, equal, unordered
from verifierd.types import Action, History, Origin, Step

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
HOLDERS = st.dictionaries(st.text(max_size=6), JSON, min_size=1, max_size=4)


def _step(command: str | None = "make") -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=1,
        action=Action(tool="bash" if command else "mcp__a__b", input=command or "", command=command),
        observation="",
        origin=Origin(path="t.jsonl", offset=0),
    )


def _equal(name: str, one: str, two: str, command: str | None = "make") -> bool:
    return EQUALITIES[name](one, two, _step(command))


def _shuffled(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, dict):
        keys = data.draw(st.permutations(list(value)))
        return {key: _shuffled(value[key], data) for key in keys}
    return [_shuffled(item, data) for item in value] if isinstance(value, list) else value


class TestJsonOrder:
    """JSON whose keys come in another order."""

    @given(value=HOLDERS, data=st.data())
    def test_any_order_is_the_same(self, value: Any, data: st.DataObject) -> None:
        """Keys in another order, at any depth, with other white space between the parts, say the same."""
        one = json.dumps(value)
        two = json.dumps(_shuffled(value, data), indent=data.draw(st.sampled_from([None, 1, 2])))

        assert _equal("json-order", one, two)

    @given(value=HOLDERS, data=st.data())
    def test_one_visible_character_is_a_difference(self, value: Any, data: st.DataObject) -> None:
        """No single character that can be seen may read otherwise, even where the value would be the same."""
        one = json.dumps(_shuffled(value, data))
        places = [index for index, char in enumerate(one) if not char.isspace()]
        place = data.draw(st.sampled_from(places))
        other = data.draw(st.characters(exclude_categories=["Z", "C"]).filter(lambda char: char != one[place]))

        assert not _equal("json-order", json.dumps(value), one[:place] + other + one[place + 1 :])

    @pytest.mark.parametrize(
        ("one", "two"),
        [
            ("[1, 2]", "[2, 1]"),
            ('{"a": 1.0}', '{"a": 1.00}'),
            ('{"a": 1e5}', '{"a": 1E5}'),
            ('{"a": 1234567890123456789012}', '{"a": 1234567890123456789021}'),
            ('{"a": true, "b": 1}', '{"a": 1, "b": true}'),
            ('{"a": "x y"}', '{"a": "xy "}'),
            ('{"a": 1}', "{'a': 1}"),
            ("a\nb", "b\na"),
            ("1", " 1"),
        ],
    )
    def test_what_differs(self, one: str, two: str) -> None:
        """Order of items, spelling of numbers, and what is no JSON."""
        assert not _equal("json-order", one, two)

    def test_line_by_line(self) -> None:
        """A JSON value a line: each may have its keys in another order, but lines keep theirs."""
        one = '{"a":1,"b":2}\n{"c":3,"d":4}'

        assert _equal("json-order", one, '{"b":2,"a":1}\n{"c":3,"d":4}')
        assert not _equal("json-order", one, '{"c":3,"d":4}\n{"a":1,"b":2}')

    @pytest.mark.parametrize("unit", ["[", '{"a":', '"', "\\", "[1,", "{}"])
    def test_hostile(self, unit: str) -> None:
        """Deep and broken texts are no JSON, and cost no more than others."""
        text = "[" + unit * 100_000

        assert not _equal("json-order", text, text[:-1] + "x")


class TestUnorderedLines:
    """The order in which a folder is read."""

    @pytest.mark.parametrize(
        ("command", "kind"),
        [
            ("find . -name '*.py'", "lines"),
            ("cd src && find . -type f 2>/dev/null", "lines"),
            ("find . -type f | grep -v test", "lines"),
            ("grep -rn TODO src", "files"),
            ("grep -rl TODO src", "lines"),
            ("rg TODO", "files"),
            ("ls -U", "lines"),
            ("ls -f", "lines"),
            ("ls --sort=none", "lines"),
            ("du -a", "lines"),
            ("env", "lines"),
            ("ls", None),
            ("ls -la", None),
            ("find . | sort", None),
            ("find . | head -3", None),
            ("find . | nl", None),
            ("find . -exec cat {} +", None),
            ("find . > list", None),
            ("find .; echo done", None),
            ("echo start && find .", None),
            ("grep TODO a b", None),
            ("grep -rn -A2 TODO src", None),
            ("find . | grep -n x", None),
            ("rg --sort path TODO", None),
            ("for d in a b; do find $d; done", None),
            ("echo find", None),
            ("find . | $PAGER", None),
            ("f() { find .; }; f", None),
            ("find '", None),
            ("", None),
        ],
    )
    def test_decided_by_the_command(self, command: str, kind: str | None) -> None:
        """Only a command that alone prints, and lists in no order of its own, says nothing by its order."""
        assert unordered(_step(command)) == kind

    def test_no_shell(self) -> None:
        """A tool that is no shell orders as it likes."""
        assert unordered(_step(None)) is None

    @given(lines=st.lists(st.sampled_from(["./a", "./b", "./b/c", ""]), max_size=8), data=st.data())
    def test_as_a_multiset(self, lines: list[str], data: st.DataObject) -> None:
        """The same lines, each as often, are equal; one more or less is not."""
        other = data.draw(st.permutations(lines))

        assert _equal("unordered-lines", "\n".join(lines), "\n".join(other), "find .")
        assert not _equal("unordered-lines", "\n".join([*lines, "./a"]), "\n".join([*other, "./b"]), "find .")
        assert not _equal("unordered-lines", "\n".join([*lines, "x"]), "\n".join(["x", "x", *other]), "find .")

    def test_lines_of_one_file_keep_their_order(self) -> None:
        """Of a search only the files may come in another order."""
        one = "a.py:1:x\na.py:9:x\nb.py:2:x"

        assert _equal("unordered-lines", one, "b.py:2:x\na.py:1:x\na.py:9:x", "grep -rn x .")
        assert not _equal("unordered-lines", one, "a.py:9:x\na.py:1:x\nb.py:2:x", "grep -rn x .")


class TestTruncation:
    """What a harness cut out of a long observation."""

    @pytest.mark.parametrize(
        ("expected", "observed", "same"),
        [
            ("one\ntwo\nthree\n", "one\n... [4 characters truncated] ...\nthree\n", True),
            ("one\ntwo\nthree\n", "one\n\u20263 tokens truncated\u2026three\n", True),
            ("one\ntwo\nthree", "on<response clipped>", True),
            ("one\ntwo\nthree", "[... omitted 2 of 3 lines ...]\nthree", True),
            ("one\ntwo\nthree\n", "onx\n... [4 characters truncated] ...\nthree\n", False),
            ("one\ntwo\nthree\n", "one\n... [4 characters truncated] ...\nthrex\n", False),
            ("one", "one\n... [4 characters truncated] ...\none", False),
            ("one", "... [4 characters truncated] ...", False),
            ("one", "one", False),
        ],
    )
    def test_the_visible_part_counts(self, expected: str, observed: str, *, same: bool) -> None:
        """What was left must stand at the beginning and the end of what was predicted, without overlapping."""
        assert same == _equal("truncation", expected, observed)


class TestEqual:
    """All comparisons together."""

    def test_names_what_was_needed(self) -> None:
        """Equal texts need nothing; runtime content is known by its form only, and may be reordered, too."""
        names = list(EQUALITIES)

        assert equal("a", "a", _step(), (), names) == ([], 0)
        assert equal("took 3s", "took 41s", _step(), (), names) == (["runtime"], 3)
        assert equal('{"a":1,"b":2}', '{"b":2,"a":1}', _step(), (), names) == (["json-order"], 0)
        assert equal("./b 3 days ago\n./a", "./a\n./b 4 days ago", _step("find . -x"), (), names) == (
            ["runtime", "unordered-lines"],
            10,
        )
        assert equal("took 3s", "took 3 apples", _step(), (), names) is None

    def test_what_the_history_fixes_must_match(self) -> None:
        """A literal that an earlier observation shows is no runtime content."""
        history = History(("native", "t"))
        history.append(_step())
        history.append(Step(**{**_fields(_step()), "observation": "took 3s", "index": 2}))

        assert equal("took 3s", "took 41s", _step(), history, ["runtime"]) is None
        assert equal("took 4s", "took 41s", _step(), history, ["runtime"]) == (["runtime"], 3)


def _fields(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in step.__struct_fields__}
