"""Every rule's own examples: what obeys is accepted, what breaks is refused by that rule."""

import pytest

from verifierd.contracts.checks import check
from verifierd.contracts.document import Asked, Example, Rule, bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.tails import visible
from verifierd.types import Action, History, Origin, Step

CONTRACTS = Contracts(bundled())
CASES = [
    pytest.param(rule, example, id=f"{rule.id}-{number}")
    for rule in CONTRACTS.rules.values()
    for number, example in enumerate(rule.examples)
]


def _step(index: int, example: Asked, observation: str, exit_code: int) -> Step:
    shell = example.command is not None
    return Step(
        format="native",
        trajectory="example",
        index=index,
        action=Action(tool=example.tool, input=example.input, command=example.command),
        observation=observation,
        exit_code=exit_code if shell else None,
        is_error=bool(exit_code),
        cwd=example.cwd,
        origin=Origin(path="-", offset=index),
    )


def _violated(rule: Rule, example: Example, observation: str, exit_code: int) -> list[str]:
    history = History(("native", "example"))
    for index, past in enumerate(example.history, 1):
        history.append(_step(index, past, past.observation, past.exit_code))
    step = _step(len(history) + 1, example, observation, exit_code)
    contracts = Contracts(bundled())
    constraints = contracts.constraints(contracts.session(history), step)
    assert any(rule.id in constraint.rule.split("+") for constraint in constraints), "the rule says nothing here"
    return [
        constraint.rule
        for constraint in constraints
        if check(constraint, visible(step), status=step.exit_code, succeeded=step.succeeded).violated
    ]


@pytest.mark.parametrize(("rule", "example"), CASES)
def test_an_example_obeys_and_breaks_its_rule(rule: Rule, example: Example) -> None:
    """What obeys violates no rule at all; what breaks violates this one."""
    assert not _violated(rule, example, example.obeys, example.exit_code)

    code = example.exit_code if example.breaks_exit_code is None else example.breaks_exit_code
    broken = _violated(rule, example, example.breaks, code)

    assert any(rule.id in name.split("+") for name in broken)


def test_every_rule_has_an_example() -> None:
    """A rule that nobody can see at work is not shipped."""
    assert [rule.id for rule in CONTRACTS.rules.values() if not rule.examples] == []
