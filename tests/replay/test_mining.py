"""Logs read whole, rules measured on them, and what is told of them."""

import json
from pathlib import Path

import pytest

from tests.helpers import claude, echo, jsonl, native
from verifierd.contracts.document import Family, Rule, Support, bundled
from verifierd.contracts.measure import Measured, Violation, upper_bound
from verifierd.errors import FormatError, SourceError, VerifierdError
from verifierd.replay.mining import fragment, mine, proposal_row, rule_row, rules, trajectories
from verifierd.types import Action, Check, Constraint, Origin, Step

SECRET = "ghp_" + "a1B2" * 9


def step(name: str, observation: str = "x\n") -> Step:
    """A shell step of a session."""
    return Step(
        format="native",
        trajectory=name,
        index=1,
        action=Action(tool="bash", command=f"curl -H 'Authorization: token {SECRET}' x"),
        observation=observation,
        exit_code=0,
        origin=Origin(path=f"{name}\n.jsonl", offset=1),
    )


def sessions(count: int) -> list[list[dict[str, object]]]:
    """Native lines: an `echo` that the first session breaks, and a program that no rule knows."""
    return [
        [
            native(f"t{n}", 1, "echo hello", "hello\n" if n else "goodbye\n", exit_code=0),
            native(f"t{n}", 2, "count", f"{n}\n", exit_code=0),
            native(f"t{n}", 3, "count", "12\n", exit_code=0),
            native(f"t{n}", 4, "cat f", "a\nb c\n", exit_code=0),
            native(f"t{n}", 5, "cat g", "one two\n", exit_code=0),
        ]
        for n in range(count)
    ]


@pytest.mark.anyio
async def test_trajectories_of_files(tmp_path: Path) -> None:
    """Each file's trajectories apart, in any format; each file is told when it is done."""
    one, two = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    one.write_bytes(jsonl(*echo("t", 2), *echo("u", 3)))
    two.write_bytes(jsonl(*claude("s", [("toolu_01", "ls", "a\n")])))
    done: list[Path | None] = []

    found = await trajectories([one, two], on=done.append)

    assert [(steps[0].key, len(steps)) for steps in found] == [
        (("native", "t"), 2), (("native", "u"), 3), (("claude_code", "s"), 1),
    ]  # fmt: skip
    assert done == [one, two]


@pytest.mark.anyio
async def test_what_cannot_be_read_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    """A missing file and one of no known format are told."""
    log, prose = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    log.write_bytes(jsonl(*echo("t", 2)))
    prose.write_bytes(b"prose\n")
    told: list[VerifierdError] = []

    found = await trajectories([tmp_path / "none.jsonl", prose, log], tell=told.append)

    assert [len(steps) for steps in found] == [2]
    assert [type(error) for error in told] == [SourceError, FormatError]


@pytest.mark.anyio
async def test_rules_are_measured_and_new_ones_proposed(tmp_path: Path) -> None:
    """Each rule has a row, in force or not; where one failed is named; what held for others is proposed."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*(line for lines in sessions(5) for line in lines)))
    steps = await trajectories([path])
    told: list[int] = []

    rows, proposals = mine(steps, on=told.append)

    found = {row["rule"]: row for row in rows}
    assert found.keys() >= {rule.id for family in bundled().values() for rule in family.rule}
    row = found["echo-text"]
    assert (row["family"], row["steps"], row["sessions"], row["violated"], row["sessions_violated"]) == (
        "text", 5, 5, 1, 1,
    )  # fmt: skip
    assert row["session_bound"] == pytest.approx(upper_bound(1, 5))
    assert row["agrees"] is False
    assert "held in 4 of 5" in row["disagreement"]
    (broken,) = row["violations"]
    assert (broken["path"], broken["trajectory"], broken["step"]) == (str(path), "t0", 1)
    assert "goodbye" in broken["found"]
    assert (found["pwd-path"]["steps"], found["pwd-path"]["bound"], found["pwd-path"]["agrees"]) == (0, None, None)
    assert [(proposal.name, proposal.check) for proposal in proposals if proposal.name != "cat"] == [
        ("count", Check.EVERY_LINE)
    ]
    assert told == [5] * 5


@pytest.mark.anyio
async def test_what_a_rule_says_already_is_not_proposed(tmp_path: Path) -> None:
    """`mkdir` prints nothing: there is a rule for that."""
    path = tmp_path / "a.jsonl"
    lines = [
        native(f"t{n}", k, command, text, exit_code=0)
        for n in range(5)
        for k, (command, text) in enumerate([("mkdir d", ""), ("mkdir e", ""), ("cat f", "a\n"), ("cat g", "b\n")], 1)
    ]
    path.write_bytes(jsonl(*lines))

    rows, proposals = mine(await trajectories([path]))

    assert {row["rule"]: row["steps"] for row in rows}["silent"] == 10
    assert not any(proposal.name == "mkdir" for proposal in proposals)


@pytest.mark.anyio
async def test_colours_are_no_violations(tmp_path: Path) -> None:
    """Rules look at what the scorer looks at."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(native("t", 1, "echo hello", "\x1b[32mhello\x1b[m\n", exit_code=0)))

    rows, _ = mine(await trajectories([path]))

    (row,) = (row for row in rows if row["rule"] == "echo-text")
    assert (row["steps"], row["violated"]) == (1, 0)


def test_what_is_quoted_is_redacted() -> None:
    """No secret of a log, and no line break of a name, is shown."""
    constraint = Constraint(rule="r", check=Check.EMPTY, detail=f"says {SECRET}")
    violation = Violation(rule="r", step=step("t"), found=f"observed {SECRET}\x1b[31m", constraint=constraint)
    found = Measured(steps=1, sessions={("native", "t"): 1}, violations=[violation])

    (shown,) = rule_row("r", found)["violations"]

    assert SECRET not in json.dumps(shown)
    assert not any("\n" in str(value) or "\x1b" in str(value) for value in shown.values())


def test_several_rules_together_have_no_document() -> None:
    """What was checked under the names of two rules is neither's support."""
    row = rule_row("a+b", Measured(steps=2, sessions={("native", "t"): 2}))

    assert (row["family"], row["deciding"], row["document"], row["agrees"]) == (None, None, None, None)


def test_the_list_has_bounds() -> None:
    """They follow from the document's figures, each violation taken for another session's; none without figures."""
    rule = Rule(id="a", says="b", programs=("x",), check=Check.EMPTY)
    measured = Rule(
        id="c", says="d", tools=("Y",), check=Check.EMPTY, support=Support(steps=90, sessions=30, violated=2, power=0.5)
    )

    first, second = rules({"made-up": Family(about="x", rule=(rule, measured))})

    assert (first["bound"], first["session_bound"], first["power"], first["covers"]) == (None, None, None, False)
    assert second["bound"] == pytest.approx(upper_bound(2, 90))
    assert second["session_bound"] == pytest.approx(upper_bound(2, 30))
    assert (second["concerns"], second["covers"]) == (["Y"], True)


@pytest.mark.anyio
async def test_a_proposal_as_json(tmp_path: Path) -> None:
    """Figures and the fragment; secrets of the log are not in it."""
    path = tmp_path / "a.jsonl"
    lines = [
        native(f"t{n}", k, command, text, exit_code=0)
        for n in range(5)
        for k, (command, text) in enumerate(
            [(f"count {SECRET}", f"{n}\n"), ("count", "7\n"), ("cat f", "a b\n"), ("cat g", f"x {SECRET}\n")], 1
        )
    ]
    path.write_bytes(jsonl(*lines))

    _, proposals = mine(await trajectories([path]))
    (proposal,) = (proposal for proposal in proposals if proposal.name == "count")
    row = proposal_row(proposal)

    assert (row["steps"], row["sessions"], row["violated"], row["sessions_violated"]) == (10, 5, 0, 0)
    assert row["toml"] == fragment(proposal)
    assert SECRET not in json.dumps(row)


@pytest.mark.shared
@pytest.mark.anyio
async def test_the_rules_hold_on_the_shared_sessions(shared: Path) -> None:
    """What decides is broken in at most 1 in 1,000 steps, all rules together."""
    files: list[Path | None] = [*sorted((shared / "trajectories" / "codex").glob("*.jsonl"))]
    steps = await trajectories(files)

    rows, _ = mine(steps)

    broken = sum(row["violated"] for row in rows if row["deciding"])
    assert broken <= sum(map(len, steps)) / 1000
