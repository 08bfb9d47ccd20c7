"""What a session learns from the results of its tools."""

from verifierd.contracts.state.results import Results, kind
from verifierd.types import Action, Origin, Step


def _step(index: int, order: str, observation: str, *, tool: str = "get_order", is_error: bool = False) -> Step:
    return Step(
        format="native",
        trajectory="results",
        index=index,
        action=Action(tool=tool, input={"order_id": order}),
        observation=observation,
        is_error=is_error,
        origin=Origin(path="-", offset=index),
    )


def _observed(*pairs: tuple[str, str]) -> Results:
    results = Results()
    for index, (order, observation) in enumerate(pairs):
        results.observe(_step(index, order, observation))
    return results


def test_a_shape_needs_three_results() -> None:
    """Two are too few to say what is always there."""
    pairs = [(f"W{number}", f'{{"order_id": "W{number}"}}') for number in range(3)]

    two = _observed(*pairs[:2]).lesson("get_order", {"order_id": "W9"})
    three = _observed(*pairs).lesson("get_order", {"order_id": "W9"})

    assert two is not None
    assert two.shaped is None
    assert three is not None
    assert three.shaped is not None
    assert three.echo("order_id") == [("order_id",)]


def test_errors_teach_nothing() -> None:
    """Neither those that are flagged, nor those that say so."""
    results = _observed(("W1", "Error: no such order"))
    results.observe(_step(2, "W2", "{}", is_error=True))

    assert results.lesson("get_order", {"order_id": "W9"}) is None


def test_one_text_among_json_ends_the_shape() -> None:
    """Such a tool answers in more than one form."""
    lesson = _observed(("W1", '{"a": 1}'), ("W2", '{"a": 1}'), ("W3", '{"a": 1}'), ("W4", "shipped")).lesson(
        "get_order", {"order_id": "W9"}
    )

    assert lesson is not None
    assert lesson.shaped is None


def test_one_value_again_and_again_is_no_echo() -> None:
    """It may stand there whatever was asked."""
    lesson = _observed(*[("W1", '{"order_id": "W1"}')] * 4).lesson("get_order", {"order_id": "W9"})

    assert lesson is not None
    assert not lesson.echo("order_id")


def test_an_echo_that_failed_once_is_forgotten() -> None:
    """A result that names another order shows that it may."""
    lesson = _observed(("W1", '{"order_id": "W1"}'), ("W2", '{"order_id": "W7"}'), ("W3", '{"order_id": "W3"}')).lesson(
        "get_order", {"order_id": "W9"}
    )

    assert lesson is not None
    assert not lesson.echo("order_id")


def test_words_before_a_quoted_input_are_learned() -> None:
    """From texts only, and from their first line only."""
    lesson = _observed(*[(f"W{number}", f"Shipped order W{number}.") for number in range(3)]).lesson(
        "get_order", {"order_id": "W9"}
    )

    assert lesson is not None
    assert lesson.before("order_id") is None, "values of two letters are too short to find"

    longer = _observed(*[(f"W10{number}", f"Shipped order W10{number}.") for number in range(3)]).lesson(
        "get_order", {"order_id": "W9"}
    )
    assert longer is not None
    assert longer.before("order_id") == "Shipped order "


def test_kinds_differ_by_fields_and_choices() -> None:
    """Another action of the same tool answers in another way."""
    assert kind("t", {"action": "get", "id": "1"}) == kind("t", {"action": "get", "id": "2"})
    assert kind("t", {"action": "get"}) != kind("t", {"action": "list"})
    assert kind("t", {"id": "1"}) != kind("t", {"id": "1", "all": True})


def test_memory_is_bounded() -> None:
    """However many tools a session has."""
    results = Results()
    for number in range(500):
        results.observe(_step(number, "W1", '{"a": 1}', tool=f"tool{number}"))

    assert results.lesson("tool0", {"order_id": ""}) is None
    assert results.recent("tool0") == ()
    assert len(results.recent("tool499")) == 1
