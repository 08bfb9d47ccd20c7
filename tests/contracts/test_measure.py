"""Support, violations, power and exact bounds."""

import re

import msgspec
import pytest

from tests.helpers import ran
from verifierd.contracts.document import Family, Program, Rule, Support
from verifierd.contracts.engine import Contracts
from verifierd.contracts.measure import Measured, Violation, disagreement, lower_bound, measure, support, upper_bound
from verifierd.types import Check, Constraint, ObservationKind, Step

FAMILY = Family(
    about="made up",
    program=(Program(name="num", quiet=True),),
    rule=(Rule(id="num", says="numbers", programs=("num",), check=Check.EVERY_LINE, text=r"^\d+$"),),
)


def session(name: str, *steps: tuple[str, str]) -> list[Step]:
    """A session of shell steps that went well."""
    return [
        ran(command, observation, tool="bash", trajectory=name, index=index)
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


@pytest.mark.parametrize("cases", [3000, 100_000])
def test_bounds_of_many_cases(cases: int) -> None:
    """Binomials that no float holds are no obstacle; with many cases the bounds close in on the share."""
    assert lower_bound(cases // 10, cases) < 0.1 < upper_bound(cases // 10, cases) < 0.12
    assert upper_bound(0, cases) == pytest.approx(3 / cases, rel=0.01)


def test_lower_bounds() -> None:
    """They mirror the upper ones."""
    assert lower_bound(29, 29) == pytest.approx(1 - 0.0982, abs=1e-4)
    assert lower_bound(0, 10) == 0
    assert lower_bound(9, 10) == pytest.approx(1 - 0.3942, abs=1e-4)


def test_sub_agents_belong_to_their_session() -> None:
    """Five agents of one session are one session, and are never drawn for each other."""
    (found,) = measure(
        Contracts({"made-up": FAMILY}), [session(f"s/{number}", ("num", "x\n"), ("num", "1\n")) for number in range(5)]
    ).values()

    assert (found.steps, len(found.sessions), len(found.violations), found.broken) == (10, 1, 5, 1)
    assert found.power is None


def test_what_was_cut_or_never_ran_is_left_out() -> None:
    """Only whole observations of the environment are measured and drawn; all steps are history."""
    (first, *rest) = SESSIONS[1]
    cut = msgspec.structs.replace(first, observation="x\n... [90 lines truncated] ...\ny\n")
    denied = msgspec.structs.replace(first, observation_kind=ObservationKind.POLICY_DENIED, observation="no\n")
    elided = msgspec.structs.replace(first, elided="marker", observation="y\n")

    (found,) = measure(Contracts({"made-up": FAMILY}), [[cut, denied, elided, *rest], SESSIONS[2]]).values()

    assert (found.steps, len(found.violations)) == (3, 0)


def test_the_text_is_the_callers() -> None:
    """What is looked at may be without colours, as the scorer sees it."""
    coloured = [session("s0", ("num", "\x1b[1m5\x1b[m\n")), session("s1", ("num", "6\n"))]
    contracts = Contracts({"made-up": FAMILY})

    (plain,) = measure(contracts, coloured).values()
    (found,) = measure(contracts, coloured, text=lambda step: re.sub(r"\x1b\[\d*m", "", step.observation)).values()

    assert (len(plain.violations), len(found.violations)) == (1, 0)


def test_progress_is_told() -> None:
    """Each trajectory is told once, with its steps."""
    told: list[int] = []
    measure(Contracts({"made-up": FAMILY}), [*SESSIONS, []], on=told.append)

    assert told == [3, 3, 3, 3, 0]


def _measured(*, steps: int, violated: int, sessions: int, power: float) -> Measured:
    step = SESSIONS[0][0]
    broken = [
        Violation(
            rule="num",
            step=msgspec.structs.replace(step, trajectory=str(n % sessions)),
            found="",
            constraint=Constraint(rule="num", check=Check.EMPTY),
        )
        for n in range(violated)
    ]
    return Measured(
        steps=steps,
        sessions={("native", str(n)): 1 for n in range(sessions)},
        violations=broken,
        drawn=1000,
        refused=round(1000 * power),
    )


@pytest.mark.parametrize(
    ("said", "found", "problem"),
    [
        (Support(), _measured(steps=9, violated=0, sessions=5, power=0.9), "no measured support"),
        (Support(steps=50, sessions=40, power=0.9), _measured(steps=99, violated=0, sessions=60, power=0.92), ""),
        (Support(steps=50, sessions=40, power=0.9), _measured(steps=99, violated=0, sessions=60, power=0.4), "power"),
        (Support(steps=2, sessions=2, power=1.0), _measured(steps=9, violated=0, sessions=2, power=0.5), ""),
        (Support(steps=50, sessions=40, power=0.9), _measured(steps=99, violated=1, sessions=60, power=0.9), "decides"),
        (Support(steps=50, sessions=40, power=0.9), _measured(steps=100, violated=1, sessions=60, power=0.9), ""),
    ],
)
def test_where_a_document_is_contradicted(said: Support, found: Measured, problem: str) -> None:
    """Missing figures, too many violations, and a power that chance does not explain; nothing else."""
    rule = msgspec.structs.replace(FAMILY.rule[0], support=said)

    told = disagreement(rule, found)

    assert problem in told
    assert bool(problem) == bool(told)


def test_what_does_not_decide_may_fail_as_often_as_it_says() -> None:
    """Beyond that, and beyond chance, it is told."""
    rule = msgspec.structs.replace(
        FAMILY.rule[0], deciding=False, support=Support(steps=100, sessions=50, violated=10, power=0.9)
    )

    assert disagreement(rule, _measured(steps=100, violated=12, sessions=50, power=0.9)) == ""
    assert "broken in 40 of 50 sessions" in disagreement(
        rule, _measured(steps=100, violated=40, sessions=50, power=0.9)
    )
