"""Support, violations, power and exact bounds."""

import pytest

from verifierd.contracts.document import Family, Program, Rule
from verifierd.contracts.engine import Contracts
from verifierd.contracts.measure import measure, support, upper_bound
from verifierd.contracts.propose import propose
from verifierd.types import Action, Check, Origin, Step

FAMILY = Family(
    about="made up",
    program=(Program(name="num", quiet=True),),
    rule=(Rule(id="num", says="numbers", programs=("num",), check=Check.EVERY_LINE, text=r"^\d+$"),),
)


def session(name: str, *steps: tuple[str, str]) -> list[Step]:
    """A session of shell steps that went well."""
    return [
        Step(
            format="native",
            trajectory=name,
            index=index,
            action=Action(tool="bash", command=command),
            observation=observation,
            exit_code=0,
            cwd="/w",
            origin=Origin(path=f"{name}.jsonl", offset=index),
        )
        for index, (command, observation) in enumerate(steps, 1)
    ]


SESSIONS = [session(f"s{number}", ("num", f"{number}\n"), ("num", "x\n" if number == 0 else "7\n"), ("ls", "a\nb\n"))
            for number in range(4)]  # fmt: skip


def test_support() -> None:
    """Each step in force counts; what violates is named; others' observations measure the power."""
    (found,) = measure(Contracts({"made-up": FAMILY}), SESSIONS).values()

    assert (found.steps, len(found.sessions)) == (8, 4)
    assert [violation.step.key for violation in found.violations] == [("native", "s0")]
    assert found.drawn > 0
    assert found.power == found.refused / found.drawn
    assert support({"num": found})["num"].startswith("{ steps = 8, sessions = 4, violated = 1, power = ")


def test_the_same_seed_draws_the_same() -> None:
    """A figure can be taken again."""
    contracts = Contracts({"made-up": FAMILY})

    assert measure(contracts, SESSIONS, seed=3)["num"].refused == measure(contracts, SESSIONS, seed=3)["num"].refused


@pytest.mark.parametrize(
    ("violated", "cases", "bound"), [(0, 29, 0.0982), (0, 299, 0.00997), (1, 10, 0.3942), (5, 5, 1.0), (0, 0, 1.0)]
)
def test_exact_bounds(violated: int, cases: int, bound: float) -> None:
    """Clopper-Pearson's one-sided bounds, as tables have them (0 of n: 1 - 0.05^(1/n))."""
    assert upper_bound(violated, cases) == pytest.approx(bound, abs=1e-4)


def test_proposals() -> None:
    """What held for a program in enough sessions, and not for others, is proposed with its support; never added."""
    sessions = [
        session(f"s{number}", ("count", f"{number}\n"), ("count", "12\n"), ("ls", "a\nb\n"), ("cat f", "text\n"))
        for number in range(4)
    ]

    proposals = {(proposal.name, proposal.check): proposal for proposal in propose(sessions, {})}

    found = proposals["count", Check.EVERY_LINE]
    assert (found.steps, found.sessions, found.violated) == (8, 4, 0)
    assert found.bound == pytest.approx(upper_bound(0, 4))
    assert 'programs = ["count"]' in found.toml(str)
    assert "deciding = false" in found.toml(str)
