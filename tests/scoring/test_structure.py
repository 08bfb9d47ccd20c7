"""Keys of a JSON observation that changed, are missing or were added."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifierd.scoring.structure import changes, structure
from verifierd.types import Action, History, Origin, Prediction, Step

SCALARS = st.integers(-9, 9) | st.text('ab"\\{}[],:é\u2028', max_size=5) | st.none()
HOLDERS = st.dictionaries(
    st.text('ab"\\.', max_size=3),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


def _step(observation: str) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=1,
        action=Action(tool="mcp__a__b", input={}),
        observation=observation,
        origin=Origin(path="t.jsonl", offset=0),
    )


def _told(expected: str, observed: str) -> list[tuple[str, str]]:
    found = changes(expected, observed)
    assert found is not None
    return [(change.words, observed[change.start : change.end]) for change in found[0]]


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


class TestChanges:
    """The differences of two texts."""

    @pytest.mark.parametrize(
        ("expected", "observed", "told"),
        [
            ('{"a": 1}', '{"a": 2}', [("`$.a`: expected 1, observed 2", "2")]),
            ('{"a": 1, "b": 2}', '{"a": 1}', [("`$.b` is missing; expected 2", "")]),
            ('{"a": 1}', '{"a": 1, "c": [3]}', [("`$.c` was not expected: [3]", '"c": [3]')]),
            ('{"a": {"b": [1, 2]}}', '{"a": {"b": [1, 3]}}', [("`$.a.b[1]`: expected 2, observed 3", "3")]),
            ("[1, 2, 3]", "[1, 3]", [("`$[1]` is missing; expected 2", "")]),
            ('{"x y": "a"}', '{"x y": "b"}', [('`$["x y"]`: expected "a", observed "b"', '"b"')]),
            ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', []),
            ('{"a": {"x": 1}}', '{"a": []}', [('`$.a`: expected {"x":1}, observed []', "[]")]),
            (
                '{"name": 1}',
                '{"nane": 1}',
                [("`$.nane` was not expected: 1", '"nane": 1'), ("`$.name` is missing; expected 1", "")],
            ),
        ],
    )
    def test_words_and_places(self, expected: str, observed: str, told: list[tuple[str, str]]) -> None:
        """Each difference is told with its path, and its span holds the value that came."""
        assert told == _told(expected, observed)

    @given(one=HOLDERS, two=HOLDERS, indent=st.sampled_from([None, 2]))
    def test_spans_hold_what_came(self, one: Any, two: Any, indent: int | None) -> None:
        """The characters of a changed or added value are that value; a missing one has none."""
        observed = json.dumps(two, indent=indent, ensure_ascii=False)

        found = changes(json.dumps(one), observed)

        assert found is not None
        assert bool(found[0]) == (one != two)
        assert 0 <= found[1] <= 1
        for change in found[0]:
            text = observed[change.start : change.end]
            if change.kind == "missing":
                assert text == ""
                assert _at(one, change.path) == change.expected
            else:
                held = (
                    json.loads(f"{{{text}}}") if change.kind == "added" and isinstance(change.path[-1], str) else None
                )
                value = held[change.path[-1]] if held is not None else json.loads(text)
                assert value == change.observed == _at(two, change.path)

    @pytest.mark.parametrize(("one", "two"), [("x", "{}"), ("{}", "x"), ("1", "2"), ('"a"', '"b"'), ("", "")])
    def test_no_json(self, one: str, two: str) -> None:
        """Only objects and lists have a structure."""
        assert changes(one, two) is None

    @pytest.mark.parametrize("unit", ["[", '{"a":', '[{"a":1},', "1,", '"\\"",'])
    def test_hostile(self, unit: str) -> None:
        """Deep, broken and long texts are read in time linear in them, or not at all."""
        text = "[" + unit * (300_000 // len(unit))

        assert changes("[1]", text) is None
        assert changes("[1]", text.rstrip(",") + "]") is None or unit.endswith(",")

    def test_many_changes(self) -> None:
        """At most twenty are told; the share counts all."""
        found = changes(json.dumps(list(range(100))), json.dumps(list(range(100, 200))))

        assert found is not None
        assert len(found[0]) == 20
        assert found[1] == 1.0


class TestStructure:
    """The scorer."""

    def test_signals(self) -> None:
        """It tells by signals and decides nothing."""
        step = _step('{"a": 2, "b": 3}')

        score = structure(History(step.key), step, Prediction(predictor="p", text='{"a": 1, "b": 3}'))

        assert score.value == 0.5
        assert not score.violated
        assert score.coverage == 0.0
        assert [(signal.name, signal.span) for signal in score.signals] == [("json_changed", (6, 7))]

    @pytest.mark.parametrize("text", [None, "words"])
    def test_nothing_to_compare(self, text: str | None) -> None:
        """Without JSON on both sides there is no score, and a reason."""
        step = _step("{}")

        score = structure(History(step.key), step, Prediction(predictor="p", text=text))

        assert score.value is None
        assert score.reason

    @pytest.mark.parametrize("certain", [True, False])
    def test_values_of_one_form(self, *, certain: bool) -> None:
        """Another port is no difference to a guess."""
        step = _step('{"port": 63794, "ok": true}')

        prediction = Prediction(predictor="p", text='{"ok": true, "port": 63793}', certain=certain)
        score = structure(History(step.key), step, prediction)

        assert bool(score.signals) is certain
