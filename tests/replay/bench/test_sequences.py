"""Suites that simulate trajectories step by step, asked of models that answer by a rule, and of the shell."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from tests.helpers import echo, jsonl
from tests.replay.bench.answerers import FAILURES, Answerer, asked_party
from verifierd.bundled import root
from verifierd.composition import Choice
from verifierd.errors import ConfigError, PredictorError
from verifierd.replay.bench.asking import Outcome
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.drive import Engine
from verifierd.replay.bench.figures import Results, value
from verifierd.replay.bench.plausible import Plausible
from verifierd.replay.bench.sequences import ClosedLoop, Random, Roles, SecondDomain, read, share
from verifierd.replay.bench.suite import Request, Size, load, measure
from verifierd.replay.record import load_script, record
from verifierd.replay.statistics import Interval
from verifierd.stages import Message

ENGINES: Mapping[str, Any] = {
    "closed-loop": ClosedLoop,
    "plausible": Plausible,
    "random": Random,
    "roles": Roles,
    "second-domain": SecondDomain,
}
SMALL: Mapping[str, Mapping[str, Any]] = {
    "plausible": {"commands": ["ls", "git"], "runs": 2},
    "random": {"scenarios": [[5, 1]]},
    "second-domain": {"calls": 3},
}
RECORDED = ("closed-loop", "roles", "second-domain")


def _request(name: str, *, size: Size = "smoke", data: Path | None = None, **more: Any) -> Request:
    suite = load(name)
    parameters = {**(suite.smoke if size == "smoke" else suite.full), "characters": 0, **SMALL.get(name, {}), **more}
    return Request(parameters=parameters, choice=Choice(), runs=None, seed=0, say=print, size=size, data=data)


def _rows(engine: Engine, answerer: Answerer) -> list[Row]:
    async def all_jobs() -> list[Row]:
        return [row for job in engine.jobs for row in await engine.run(job, asked_party(answerer))]

    return anyio.run(all_jobs)


def _knowing(name: str, form: str = "{observation}") -> Answerer:
    """A model that knows the recorded observation of each action."""
    known = [step for steps in read(None, f"{name}.jsonl").values() for step in steps]

    def rule(messages: Sequence[Message]) -> tuple[str, str, str]:
        asked = json.loads(messages[-1].content.partition("```json\n")[2].removesuffix("\n```"))
        asked = asked[0]["keystrokes"].strip() if isinstance(asked, list) else asked["arguments"]
        turn = int(messages[-1].content.split()[2])
        step = next(step for step in known if step.index == turn and asked in (step.action.command, step.action.input))
        said = form.format(observation=step.observation, command=step.action.command)
        return f"**Environment Observation:**\n{said}", "", "stop"

    return Answerer(rule)


def _values(results: Results) -> dict[str, float]:
    return {name: value(figure) for name, figure in results.items()}


@pytest.mark.parametrize("name", RECORDED)
def test_the_data_is_what_its_script_plays(name: str) -> None:
    """The recorded truths are those of a real shell, and were not edited by hand."""
    script = load_script((root("replay") / "scripts" / "suites" / f"{name}.toml").read_bytes(), name=name)
    kept = (root("replay") / "suites" / "data" / f"{name}.jsonl").read_bytes()
    assert record(script) == {f"{name}.jsonl": kept}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("outcome", FAILURES)
def test_failures_are_told_apart(name: str, outcome: str) -> None:
    """Whoever breaks its role, is cut, thinks, or says nothing is called so at every step of every suite."""
    engine = ENGINES[name](_request(name))
    rows = _rows(engine, Answerer(FAILURES[outcome]))
    figures = _values(engine.figures(rows))
    assert {row.outcome for row in rows} == {Outcome(outcome)}
    shares = {"role_break": "role_breaks"} | {kind: kind for kind in ("truncated", "thought", "empty")}
    for kind, figure in shares.items():
        assert figures[figure] == (kind == outcome)
    assert (figures["failed"], figures["abstained"]) == (0, 0)
    assert "exact_answered" not in figures


@pytest.mark.parametrize("name", ENGINES)
def test_a_failing_model_ends_nothing(name: str) -> None:
    """Where the model or its server fails a step, the step has failed, and the next is asked for."""

    def rule(_messages: Sequence[Message]) -> tuple[str, str, str]:
        raise PredictorError("the server is gone")

    engine = ENGINES[name](_request(name))
    rows = _rows(engine, Answerer(rule))
    assert {(row.outcome, row.detail) for row in rows} == {(Outcome.FAILED, "the server is gone")}
    figures = _values(engine.figures(rows))
    assert figures["failed"] == 1
    assert "answer_seconds_median" not in figures


@pytest.mark.parametrize("name", RECORDED)
def test_whoever_knows_is_exact(name: str) -> None:
    """A model that gives the true observations is exact at each step."""
    more: dict[str, Any] = {"services": 0} if name == "second-domain" else {}
    engine = ENGINES[name](_request(name, **more))
    rows = _rows(engine, _knowing(name))
    assert all((row.outcome, row.exact, row.normalised) == (Outcome.ANSWERED, True, True) for row in rows)
    figures = _values(engine.figures(rows))
    assert figures["exact"] == figures["exact_answered"] == figures["without_echo"] == 1
    assert (figures["answer_seconds_median"], figures["first_token_seconds_p95"]) == (0.25, 0.125)


def test_sizes_of_the_published_runs() -> None:
    """The full suites ask for as much as was published: 48 steps of roles, 12 of closed loops, 3 of each command."""
    for name, steps in (("roles", 48), ("closed-loop", 24)):
        engine = ENGINES[name](_request(name, size="full"))
        rows = _rows(engine, _knowing(name))
        assert len(rows) == steps
        assert _values(engine.figures(rows))["runs_agree" if name == "roles" else "divergence"] == (name == "roles")
        assert engine.warning == ""
        assert "scaled down" in ENGINES[name](_request(name, characters=load(name).smoke["characters"])).warning
    suite = load("plausible")
    assert (suite.full["runs"], suite.full["commands"][:3]) == (3, ["ls", "git", "ps"])


def test_an_echo_of_the_command() -> None:
    """Counts against an observation that has none, or for one that has; the other scoring says how it would be."""
    plain = Roles(_request("roles"))
    echoing = _knowing("roles", "$ {command}\n{observation}")
    rows = _rows(plain, echoing)
    assert all(row.without_echo and not row.exact for row in rows)
    silent = [row for row in rows if not row.expected]
    assert {row.outcome for row in rows if row.expected} == {Outcome.ANSWERED}
    assert {row.outcome for row in silent} == {Outcome.ROLE_BREAK}
    figures = _values(plain.figures(rows))
    assert figures["role_breaks"] == len(silent) / len(rows)
    assert figures["role_breaks_without_echo"] == 0

    screens = Roles(_request("roles", echo=True))
    rows = _rows(screens, echoing)
    assert all(row.expected.startswith("$ ") for row in rows)
    assert {(row.outcome, row.exact) for row in rows} == {(Outcome.ANSWERED, True)}
    bare = _rows(screens, _knowing("roles"))
    assert all(row.without_echo and not row.exact for row in bare)


def test_the_history_is_true_or_ones_own() -> None:
    """Anchored, a wrong answer leaves no trace; in a closed loop the next question holds it."""
    answerer = Answerer(lambda _: ("**Environment Observation:**\nwrong", "", "stop"))
    engine = ClosedLoop(_request("closed-loop"))
    rows = _rows(engine, answerer)
    closed, anchored = answerer.talks[: len(rows) // 2], answerer.talks[len(rows) // 2 :]
    assert [message.content for message in closed[1] if message.role == "assistant"] == [
        "**Environment Observation:**\nwrong"
    ]
    assert not any("wrong" in message.content for talk in anchored for message in talk)
    assert "start\nread 3" in anchored[2][4].content
    figures = _values(engine.figures(rows))
    assert figures["divergence"] == figures["anchored_divergence"] == figures["divergence_step_6"] == 1
    assert figures["steps"] == figures["anchored_steps"] == 6


def test_nothing_is_told_of_the_truth() -> None:
    """The question of a step holds neither its observation nor its status."""
    answerer = Answerer(FAILURES["empty"])
    rows = _rows(Roles(_request("roles")), answerer)
    for row, talk in zip(rows, answerer.talks, strict=True):
        assert talk[-1].role == "user"
        assert not row.expected.strip() or row.expected not in talk[-1].content


def test_the_right_environment_is_simulated() -> None:
    """Each domain has its own system prompt, and the form of its answers is shown before they are asked for."""
    answerer = Answerer(FAILURES["empty"])
    engine = SecondDomain(_request("second-domain"))
    rows = _rows(engine, answerer)
    opening = {row.group.partition("-")[0]: talk for row, talk in zip(rows, answerer.talks, strict=True)}
    assert opening["mcp"][0].content.startswith("You are a set of tool servers")
    assert opening["swe"][0].content.startswith("You are the working environment")
    assert min(row.depth for row in rows if row.group.startswith("swe-")) == 5
    figures = engine.figures(rows)
    assert value(figures["mcp_steps"]) == 3
    assert value(figures["mcp_steps"]) + value(figures["swe_steps"]) == value(figures["steps"])


@pytest.mark.parametrize("name", ["roles", "random", "closed-loop", "second-domain"])
def test_the_shell_is_never_wrong(name: str) -> None:
    """It never breaks its role, and whatever it decides is exact; the rest it abstains from."""
    report = measure(load(name), Choice(predictor="shell"), size="smoke", seed=3)
    figures = _values(report.results)
    for kind in ("role_breaks", "truncated", "thought", "empty", "failed"):
        assert figures[kind] == 0
    assert figures["abstained"] + figures["exact"] == pytest.approx(1)
    if name in ("roles", "random"):
        assert figures["exact_answered"] == 1
        assert figures["abstained"] < 0.9


def test_figures_by_depth() -> None:
    """Random scenarios are told apart by how deep a step lies; the same seed draws the same."""
    request = _request("random", scenarios=[[12, 1]])
    engine = Random(request)
    rows = _rows(engine, Answerer(FAILURES["empty"]))
    again = _rows(Random(request), Answerer(FAILURES["empty"]))
    other = _rows(Random(msgspec.structs.replace(request, seed=1)), Answerer(FAILURES["empty"]))
    assert [(row.case, row.expected) for row in rows] == [(row.case, row.expected) for row in again]
    assert [row.expected for row in rows] != [row.expected for row in other]
    figures = engine.figures(rows)
    buckets = [figure for name, figure in figures.items() if name.endswith("_exact") and name.startswith("depth_")]
    assert [figure.n for figure in buckets if isinstance(figure, Interval)] == [5, 5, 2]
    assert "unstable" not in figures


@pytest.mark.parametrize("name", ["closed-loop", "random", "roles", "second-domain"])
def test_data_of_ones_own(tmp_path: Path, name: str) -> None:
    """With --data all that a file in the native format holds is simulated."""
    file = tmp_path / "mine.jsonl"
    file.write_bytes(jsonl(*echo("mine", 3), *echo("other", 2)))
    engine = ENGINES[name](_request(name, data=file))
    rows = _rows(engine, Answerer(lambda _: ("**Environment Observation:**\nword-1", "", "stop")))
    assert {row.group for row in rows} == {"mine", "other"}
    assert sum(bool(row.exact) for row in rows) == (4 if name == "closed-loop" else 2)


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    """A file that is not there, holds nothing or no steps, a trajectory that is not in it, a wrong parameter."""
    file = tmp_path / "mine.jsonl"
    with pytest.raises(ConfigError, match="cannot be read"):
        Roles(_request("roles", data=file))
    file.write_bytes(b"")
    with pytest.raises(ConfigError, match="no steps"):
        Roles(_request("roles", data=file))
    file.write_bytes(jsonl(*echo("mine", 1)) + b"no json\n")
    with pytest.raises(ConfigError, match="line 2"):
        Roles(_request("roles", data=file))
    with pytest.raises(ConfigError, match="roles-z"):
        Roles(_request("roles", sequences=[{"trajectory": "roles-z"}]))
    for more, match in (
        ({"max-tokens": 0}, "max-tokens"),
        ({"chars": 1}, "chars"),
        ({"sequences": [{"trajectory": "roles-a", "runs": 0}]}, "runs"),
    ):
        with pytest.raises(ConfigError, match=match):
            Roles(_request("roles", **more))
    with pytest.raises(ConfigError, match="scenarios"):
        Random(_request("random", scenarios=[[51, 1]]))
    with pytest.raises(ConfigError, match="`lsblk`"):
        Plausible(_request("plausible", commands=["lsblk"]))


def test_whole_trajectories_are_resampled() -> None:
    """Steps of one trajectory hang together: its interval is wider than that of as many single steps."""
    rows = [
        Row(case=f"{group}/{place}", group=str(group), outcome=Outcome.ANSWERED)
        for group in range(12)
        for place in range(20)
    ]
    hits = [int(row.group) % 2 == 0 for row in rows]
    together = share(rows, hits)
    apart = share([msgspec.structs.replace(row, group="one") for row in rows], hits)
    assert (together.value, together.n) == (apart.value, apart.n) == (0.5, 240)
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_only_the_environment_is_asked_for(tmp_path: Path) -> None:
    """What is no observation of the environment is shown, and not asked for."""
    file = tmp_path / "mine.jsonl"
    lines = echo("mine", 3)
    lines[1]["observation_kind"] = "interrupted"
    file.write_bytes(jsonl(*lines))
    rows = _rows(Roles(_request("roles", data=file)), Answerer(FAILURES["empty"]))
    assert [row.depth for row in rows] == [0, 2]
