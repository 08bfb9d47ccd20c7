"""What is proposed from logs, and that it can be pasted into a document."""

import tomllib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from verifierd.contracts.checks import check
from verifierd.contracts.document import Program, parse
from verifierd.contracts.engine import Contracts
from verifierd.contracts.measure import Measured, upper_bound
from verifierd.contracts.propose import Proposal, propose
from verifierd.sanitize import Sanitizer
from verifierd.types import Action, Check, History, Origin, Step

LS = ("ls", "a\nb c\n")
OTHERS = (LS, ("cat g", "one two\n"), ("cat h", "Three four\nfive\n"))


def session(name: str, *steps: tuple[str | tuple[str, dict[str, Any]], str]) -> list[Step]:
    """A session of calls that went well: a command line, or a tool with its input."""
    return [
        Step(
            format="native",
            trajectory=name,
            index=index,
            action=Action(tool="bash", command=call) if isinstance(call, str) else Action(tool=call[0], input=call[1]),
            observation=observation,
            exit_code=0 if isinstance(call, str) else None,
            cwd="/w",
            origin=Origin(path=f"{name}.jsonl", offset=index),
        )
        for index, (call, observation) in enumerate(steps, 1)
    ]


def proposed(sessions: Sequence[Sequence[Step]], **options: Any) -> dict[tuple[str, Check], Proposal]:
    """The proposals, by name and check."""
    return {(proposal.name, proposal.check): proposal for proposal in propose(sessions, {}, **options)}


def shell(command: str, output: Callable[[int], str]) -> list[list[Step]]:
    """Sessions in which a command is run twice, among others."""
    return [
        session(f"s{n}", (command, output(n)), (command, output(n + 7)), *OTHERS, ("cat f", f"text {n}\n\n- more\n"))
        for n in range(4)
    ]


def obeyed(proposal: Proposal) -> None:
    """A fragment is part of a document, says something of its example, and both observations are what they claim."""
    family = parse('about = "proposed"\n' + proposal.toml(str), "proposed")
    (rule,) = family.rule
    (example,) = rule.examples
    contracts = Contracts({"proposed": family})
    step = Step(
        format="native",
        trajectory="t",
        index=1,
        action=Action(tool=example.tool, input=example.input, command=example.command),
        observation="",
        exit_code=0,
        origin=Origin(path="-", offset=0),
    )
    (constraint,) = contracts.constraints(contracts.session(History(step.key)), step)
    assert not rule.deciding
    assert check(constraint, example.obeys, status=0, succeeded=True).applied
    assert not check(constraint, example.obeys, status=0, succeeded=True).violated
    assert check(constraint, example.breaks, status=0, succeeded=True).violated


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (lambda _n: "", Check.EMPTY),
        (lambda n: f"{n}\n{n + 1}\n", Check.EVERY_LINE),
        (lambda n: f"src/a{n}.py:{n}:x\n", Check.EVERY_LINE),
        (lambda n: f"{n:07x}ab one\n{n:07x}cd two\n", Check.EVERY_LINE),
        (lambda n: f"{n} of it\n  total {{3}}:\n- {n}\n", Check.SOME_LINE),
        (lambda n: f"made {{x}} of\n{n}\n" + "- x\n" * n, Check.FIRST_LINE),
        (lambda n: f"Resolved it: {n} of\n\n- x\n", Check.STARTS),
        (lambda n: f'{{"name": "n{n}", "size": {n}}}\n', Check.SCHEMA),
    ],
    ids=["empty", "numbers", "places", "hashes", "some line", "first line", "start", "json"],
)
def test_what_a_program_prints(output: Callable[[int], str], kind: Check) -> None:
    """Silence, shapes of lines, constants and JSON are found, and the fragment says the same."""
    proposal = proposed(shell("count it", output))["count", kind]

    assert (proposal.steps, proposal.sessions, proposal.violated, proposal.fact) == (8, 4, 0, "")
    assert proposal.bound == pytest.approx(upper_bound(0, 4))
    assert proposal.power >= 0.5
    obeyed(proposal)


def test_the_shape_that_says_most_is_proposed() -> None:
    """Numbers are single words, too; the stricter shape has the greater power."""
    sessions = [
        session(f"s{n}", ("count", f"{n}\n"), ("count", "12\n"), ("name", "abc\n"), ("name", f"x{n}\n"))
        for n in range(4)
    ]

    assert "numbers" in proposed(sessions)["count", Check.EVERY_LINE].says


def test_a_field_that_the_result_holds() -> None:
    """An input field of a tool that its result repeats, as a template and not as the text of one log."""
    sessions = [
        session(f"s{n}", *((("Make", {"path": f"/w/{n}{k}", "flags": [k, None]}), f"made /w/{n}{k}\n") for k in "ab"))
        for n in range(4)
    ]

    proposal = proposed(sessions)["Make", Check.CONTAINS]

    assert (proposal.tool, proposal.text) == (True, "{path}")
    obeyed(proposal)


def test_a_field_that_bounds_the_lines() -> None:
    """A number of the input that looks like a limit."""
    sessions = [session(f"s{n}", *((("Find", {"limit": k}), "a\n" * k) for k in range(1, 9))) for n in range(4)]

    proposal = proposed(sessions)["Find", Check.LINES]

    assert (proposal.high, proposal.text) == ("{limit}", "")
    obeyed(proposal)


def test_what_needs_a_fact_is_commented_out() -> None:
    """An option that bounds the lines, and the same output again: a document alone cannot say so."""
    programs = {"list": Program(name="list", values=("--limit",))}
    sessions = [
        session(f"s{n}", ("list --limit 1", f"{n}\n"), ("list --limit 1", f"{n}\n"), ("cat f", "a\nb\nc\n"),
                ("cat g", "a\nb\n"))
        for n in range(6)
    ]  # fmt: skip

    found = {proposal.check: proposal for proposal in propose(sessions, programs) if proposal.name == "list"}

    assert (found[Check.LINES].needs, found[Check.LINES].fact) == (("--limit",), "{count}, the number given to --limit")
    assert "last output" in found[Check.EQUALS].fact
    for kind in (Check.LINES, Check.EQUALS):
        assert tomllib.loads(found[kind].toml(str)) == {}
        assert "needs a fact" in found[kind].toml(str)


def test_little_support_proposes_nothing() -> None:
    """Two sessions are not enough, however many steps they have; nor what fails in one of eight steps."""
    few = [session(f"s{n}", *[("count", f"{n}\n")] * 9, LS) for n in range(2)]
    wrong = shell("count", lambda n: "x y\n" if n == 3 else f"{n}\n")

    assert proposed(few) == {}
    assert ("count", Check.EVERY_LINE) not in proposed(wrong)


def test_sub_agents_are_no_sessions_of_their_own() -> None:
    """What five agents of one session have in common is the session's."""
    sessions = [session(f"s/{n}", ("count", f"{n}\n"), ("count", "1\n"), LS) for n in range(5)]

    assert proposed(sessions) == {}


def test_a_few_broken_sessions_count() -> None:
    """One failure among sixty is kept, and the bound is that of sessions."""
    sessions = [
        session(f"s{n}", *[("count", "x y\n" if (n, k) == (3, 0) else f"{n}\n") for k in range(15)], *OTHERS * 9)
        for n in range(4)
    ]

    proposal = proposed(sessions)["count", Check.EVERY_LINE]

    assert (proposal.steps, proposal.violated, proposal.broken) == (60, 1, 1)
    assert proposal.bound == pytest.approx(upper_bound(1, 4))


def test_what_is_known_is_not_proposed_again() -> None:
    """Where a rule with this check is in force on most steps, there is nothing new."""
    sessions = shell("count", lambda n: f"{n}\n")
    on = [step for steps in sessions for step in steps if step.action.command == "count"]

    assert ("count", Check.EVERY_LINE) in proposed(sessions)
    assert ("count", Check.EVERY_LINE) not in proposed(sessions, known={("count", Check.EVERY_LINE): Measured(on=on)})
    assert ("count", Check.EVERY_LINE) in proposed(sessions, known={("count", Check.EVERY_LINE): Measured(on=on[:2])})


def test_a_call_among_others_is_left_out() -> None:
    """Whose output it is cannot be told; failures say nothing of success; a `cd` before it is passed over."""
    mixed = [session(f"s{n}", ("count; ls", f"{n}\n"), ("count | cat", f"{n}\n"), LS) for n in range(5)]
    failed = [
        [msgspec.structs.replace(step, exit_code=1) for step in steps] for steps in shell("count", lambda n: f"{n}\n")
    ]
    moved = shell("cd /tmp && count", lambda n: f"{n}\n")

    assert not any(name == "count" for name, _ in proposed([*mixed, *failed]))
    assert ("count", Check.EVERY_LINE) in proposed(moved)


def test_secrets_are_no_constants() -> None:
    """A line with a secret is never a rule's text, and what an example quotes goes through the sanitiser."""
    secret = "ghp_" + "a1B2" * 9
    sessions = shell("login", lambda n: f"token {secret}\n{n} x\n")

    found = [proposal for proposal in propose(sessions, {}) if proposal.name == "login"]

    assert found
    assert not any(secret in proposal.says + proposal.text for proposal in found)
    assert not any(secret in proposal.toml(lambda text: text.replace(secret, "x")) for proposal in found)


def test_names_that_look_alike_are_told_apart() -> None:
    """All fragments together are one document, also if names differ by what an id cannot hold."""
    sessions = [
        session(f"s{n}", *((call, f"{n}\n") for call in ("a.b", "a.b", "a_b", "a_b")), *OTHERS, *OTHERS)
        for n in range(4)
    ]

    found = list(propose(sessions, {}))
    family = parse("\n\n".join(['about = "all"', *(proposal.toml(str) for proposal in found)]), "all")

    assert {"proposed-a-b-every-line", "proposed-a-b-every-line-2"} <= {rule.id for rule in family.rule}
    assert Contracts({"all": family})


def test_hostile_text_stays_in_its_string() -> None:
    """Quotes, line breaks and controls of a log end no string and no comment."""
    evil = 'x"\n[[rule]]\nid = "evil"\x00\x1b\u202e'
    sessions = [
        session(f"s{n}", *((("Make", {"path": f"/w/{n}{k}", evil: [evil]}), f"made /w/{n}{k}\n{evil}") for k in "ab"))
        for n in range(4)
    ]

    text = "\n\n".join(proposal.toml(Sanitizer(b"test").text) for proposal in propose(sessions, {}))

    assert "evil" not in [rule.get("id") for rule in tomllib.loads(text.encode().decode())["rule"]]


def test_the_same_seed_proposes_the_same() -> None:
    """A proposal can be had again."""
    sessions = shell("count", lambda n: f"{n}\n")

    assert list(propose(sessions, {}, seed=5)) == list(propose(sessions, {}, seed=5))
