"""Shapes of results: what is learned, what differs, and what cannot be told."""

import pytest

from verifierd.contracts.shapes import Shape, decoded, encode, judge, learn, merge, refuses

USER = '{"name": "Ada", "orders": [{"id": 1, "total": 2.5}], "zip": "1000"}'


def _learned(*texts: str) -> str:
    shape = None
    for text in texts:
        shape = merge(shape, learn(text))
    assert shape is not None
    return encode(shape)


def test_keys_that_are_always_there_are_learned() -> None:
    """What only some results have is no part of the shape."""
    shape = merge(learn('{"a": 1, "b": 2}'), learn('{"a": null, "c": 3}'))

    assert shape is not None
    assert set(shape.keys) == {"a"}
    assert shape.keys["a"].kinds == ("scalar",)


@pytest.mark.parametrize(
    "text",
    [
        USER,
        '{"zip": null, "orders": [], "name": "Eve", "more": {}}',
        '{"name": "Eve", "orders": [{"id": 2, "total": null}]}',
    ],
)
def test_a_result_of_the_same_shape_obeys(text: str) -> None:
    """Null, empty lists, further keys and a few missing ones are no difference."""
    assert judge(_learned(USER), text)[:2] == (True, "")


@pytest.mark.parametrize(
    "text",
    [
        '{"flights": [], "seats": 3}',
        '[{"name": "Ada"}]',
        '{"name": {"first": "Ada"}, "orders": [], "zip": "1"}',
        '{"name": "Ada", "orders": ["1"], "zip": "1"}',
        "total 8",
        "",
    ],
)
def test_another_shape_is_told(text: str) -> None:
    """Other keys, other kinds, no JSON at all."""
    applied, problem, _ = judge(_learned(USER), text)

    assert applied
    assert problem


@pytest.mark.parametrize(
    "text",
    [
        "Error: user not found",
        '{"error": "no such user"}',
        '{"success": false}',
        '{"message": "gone", "code": 404}',
        '{"name": "' + "x" * 2000,
        "{}",
    ],
)
def test_errors_and_cut_results_are_not_judged(text: str) -> None:
    """They have a form of their own."""
    assert judge(_learned(USER), text)[0] is False


def test_a_value_must_stand_in_its_place() -> None:
    """An identifier of the input, where earlier results held it."""
    shape = encode(Shape(at=("order", "id"), value="W7"))

    assert judge(shape, '{"order": {"id": "W7"}}') == (True, "", [(18, 20)])
    assert judge(shape, '{"order": {"id": "W8"}}')[1]
    assert judge(shape, '{"order": 3}')[1]


def test_words_must_stand_in_a_text() -> None:
    """Whatever its form is."""
    shape = encode(Shape(says="to: ada"))

    assert judge(shape, "sent to: ada.") == (True, "", [(5, 12)])
    assert judge(shape, "sent to: eve.")[1]
    assert judge(shape, "could not be sent: unknown")[0] is False


def test_hostile_json_is_no_json() -> None:
    """Too deep or too long to look at."""
    assert decoded("[" * 200_000) is None
    assert decoded("[" * 50_000 + "]" * 50_000) is None
    assert decoded('["' + "x" * 500_000 + '"]') is None
    assert judge("[" * 50_000, "{}") == (False, "", ())
    assert judge(_learned(USER), "[" * 90_000)[0] is False


def test_shapes_are_bounded() -> None:
    """Neither depth nor many keys make a shape large."""
    deep = '{"a": ' * 50 + "1" + "}" * 50
    wide = "{" + ",".join(f'"k{number}": 1' for number in range(5000)) + "}"

    assert len(_learned(deep, wide, deep)) < 2000


def test_an_error_is_recognised_by_its_words() -> None:
    """A plain sentence is none."""
    assert refuses("Request failed with status code 403")
    assert not refuses("Message sent to ada's inbox")
