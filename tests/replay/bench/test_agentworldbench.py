"""The suite `agentworldbench`, from official rows to scores."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.replay.bench.server import Said, Server, verdict
from verifierd.bundled import root
from verifierd.composition import Choice
from verifierd.config import ModelConfig
from verifierd.errors import ConfigError, PredictorError
from verifierd.policy import DOMAINS, Asking
from verifierd.predictors import PredictorSettings, open_predictor
from verifierd.replay.bench.agentworldbench import AgentWorldBench, Parameters
from verifierd.replay.bench.asking import Outcome, Party
from verifierd.replay.bench.awb.data import Case, cases, told
from verifierd.replay.bench.book import Row, read
from verifierd.replay.bench.figures import value
from verifierd.replay.bench.suite import Report, Request, load, measure
from verifierd.stages import Asked, Message, Reply
from verifierd.types import Abstain, History, Prediction, Step

OWN = Path(str(root("replay"))) / "suites" / "data" / "agentworldbench"


class Speaker:
    """A model that says what a script wants: the text, or None for a failure."""

    name = "speaker"
    model: str | None = "speaker@1"

    def __init__(self, text: str | None, *, thought: str = "", finish: str = "stop") -> None:
        self.talks: list[Sequence[Message]] = []
        self._reply = (text, thought, finish)

    async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:  # noqa: ARG002
        """Nothing: it is talked to."""
        return Prediction(predictor=self.name, abstain=Abstain.UNPREDICTABLE)

    async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:  # noqa: ARG002
        """The script's reply; a first, short question is answered."""
        text, thought, finish = self._reply
        if len(messages) == 1:
            text, thought, finish = "yes", "", "stop"
        else:
            self.talks.append(messages)
        if text is None:
            raise PredictorError("the server is gone")
        return Reply(
            text=text,
            thought=thought,
            finish=finish,  # type: ignore[arg-type]
            prompt_tokens=10,
            generated_tokens=2,
            seconds=0.5,
            first_token_seconds=0.1,
            model="speaker@1",
        )

    async def aclose(self) -> None:
        """Nothing is open."""


def _request(**more: Any) -> Request:
    choice = Choice(predictor="openai", model=ModelConfig(name="m", base_url="http://127.0.0.1:9"))
    return Request(parameters={}, choice=choice, runs=None, seed=0, say=lambda _line: None, **more)


def _parameters(**more: Any) -> Parameters:
    usual: dict[str, Any] = {"rows": 1, "thinking": (False,), "max_tokens": (50,), "context_tokens": 4096}
    return Parameters(**usual | {"judge_max_tokens": 60, "judge_tries": 2, "judge_patience": 5.0} | more)


async def _all(speaker: Speaker, found: Sequence[Case], **more: Any) -> tuple[list[Row], AgentWorldBench]:
    engine = AgentWorldBench(_request(), _parameters(**more), found)
    party = Party(speaker, Asking(), None)
    done: dict[str, list[Row]] = {}
    async with engine.begun(party, done):
        for job in engine.jobs:
            done[job] = list(await engine.run(job, party))
    return [row for rows in done.values() for row in rows], engine


def test_our_own_rows_are_whole() -> None:
    """Three of each domain, in the official layout."""
    found = cases(OWN)
    assert Counter(case.domain for case in found) == dict.fromkeys(DOMAINS, 3)
    for case in found:
        row = told(case)
        assert row.system
        assert row.truth.startswith("**Environment Observation:**\n")
        assert row.asked.startswith(row.action)
        assert len(row.turns) == case.depth


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("speaker", "outcome"),
    [
        (Speaker("<predicted_observation>\nall is well\n</predicted_observation>"), Outcome.ANSWERED),
        (Speaker('{"name": "get_ticket", "arguments": {"id": "T-1"}}'), Outcome.ROLE_BREAK),
        (Speaker("all is", finish="length"), Outcome.TRUNCATED),
        (Speaker("", finish="length"), Outcome.TRUNCATED),
        (Speaker("all is well", thought="hm"), Outcome.THOUGHT),
        (Speaker(""), Outcome.EMPTY),
        (Speaker(None), Outcome.FAILED),
    ],
)
async def test_answers_are_told_apart(speaker: Speaker, outcome: Outcome) -> None:
    """Whatever a model does is an outcome, none is right by chance, and what has words is judged."""
    with Server(lambda _messages, _times: verdict(3, 3, 3, 3, 3)) as judge:
        rows, engine = await _all(speaker, cases(OWN, most=1), judge_url=judge.url, judge_model="j")
    answered = [row for row in rows if not row.case.startswith("judge:")]
    figures = engine.figures(rows)
    assert {row.outcome for row in answered} == {outcome}
    assert len(answered) == figures["rows"] == 7
    assert not any(row.exact or row.normalised for row in answered)
    silent = not any(row.said for row in answered)
    assert value(figures["judge_failed"]) == (1.0 if silent else 0.0)
    assert len(judge.asked) == (0 if silent else 7)
    assert ("score_macro" in figures) is not silent
    assert all("the server is gone" in row.detail for row in answered if outcome is Outcome.FAILED)


@pytest.mark.anyio
async def test_a_right_answer_is_exact() -> None:
    """The truth in tags, its marker aside."""
    case = next(case for case in cases(OWN) if case.name == "mcp/702/3")
    truth = told(case).truth
    rows, engine = await _all(Speaker(f"<predicted_observation>{truth}</predicted_observation>"), [case])
    assert (rows[0].exact, rows[0].without_echo, rows[0].normalised) == (True, True, True)
    assert value(engine.figures(rows)["recalled_deterministic"]) == 1.0


@pytest.mark.anyio
async def test_a_thought_that_the_cap_cut_is_no_answer() -> None:
    """It is told from an answer that was cut."""
    found = [case for case in cases(OWN) if case.name == "os/706/2"]
    for text, name in (("", "unanswered"), ("all is", "truncated")):
        rows, engine = await _all(Speaker(text, thought="hm", finish="length"), found, thinking=(True,))
        assert rows[0].outcome.value == name
        assert value(engine.figures(rows)[name]) == 1.0


@pytest.mark.anyio
async def test_the_truth_is_no_role_break(tmp_path: Path) -> None:
    """Even where it spells a call."""
    row = json.loads((OWN / "mcp_test.jsonl").read_text("utf-8").splitlines()[0])
    call = '{"name": "get_ticket", "arguments": {"id": "T-1"}}'
    row["response"][row["turn_idx"] - 1] = f"**Environment Observation:**\n{call}"
    file = tmp_path / "mcp_test.jsonl"
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    rows, _ = await _all(Speaker(call), cases(file))
    assert (rows[0].outcome, rows[0].exact) == (Outcome.ANSWERED, True)


@pytest.mark.anyio
async def test_ways_and_runs() -> None:
    """Thinking, caps and runs multiply; the first way has plain names."""
    speaker = Speaker("x", thought="hm")
    found = [case for case in cases(OWN) if case.name == "os/706/2"]
    rows, engine = await _all(speaker, found, thinking=(True, False), max_tokens=(20, 40), runs=2)
    assert Counter(row.case for row in rows) == {
        "os/706/2": 2,
        "os/706/2_thinking_40": 2,
        "os/706/2_direct_20": 2,
        "os/706/2_direct_40": 2,
    }
    figures = engine.figures(rows)
    assert (value(figures["answered"]), value(figures["answered_thinking_40"])) == (1.0, 1.0)
    assert (value(figures["thought"]), value(figures["thought_direct_20"])) == (0.0, 1.0)
    assert [message.role for message in speaker.talks[0]] == ["system", "user", "assistant", "user"]


@pytest.mark.anyio
async def test_who_cannot_be_talked_to_is_refused() -> None:
    """Rules do not know these environments."""
    engine = AgentWorldBench(_request(), _parameters(), cases(OWN, most=1))
    with pytest.raises(PredictorError, match="cannot be talked to"):
        async with engine.begun(Party(open_predictor("scripted", PredictorSettings()), Asking(), None), {}):
            pass


def _measured(data: Path | None, out: Path | None = None, **more: Any) -> Report:
    choice = more.pop("choice", Choice())
    return measure(load("agentworldbench"), choice, size="smoke", data=data, out=out, **more)


def test_a_judged_file_is_scored(tmp_path: Path) -> None:
    """Its official scores, by hand; nobody is asked. What failed, or has no verdict at all, is left out and counted."""
    file = tmp_path / "judged.jsonl"
    rows = [
        {"task": "x/terminal", "id": 1, "total_score": 4.2, "format": 5, "failed": 0.0},
        {"task": "terminal", "id": 2, "total_score": 3.0, "format": 0, "failed": 0.0},
        {"task": "mcp", "id": 3, "total_score": 1.2, "format": 2, "failed": 0.0},
        {"task": "mcp", "id": 4, "total_score": 0, "failed": 1.0, "error_message": "Judge scoring failed"},
        {"task": "mcp", "id": 5, "failed": 1.0, "error_message": "No model generation"},
        {"id": 6, "gen": ""},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    results = _measured(file).results
    found = {name: round(value(figure), 4) for name, figure in results.items()}
    assert found == {
        "score_micro": 45.0,  # (4.2 + 3.0 + 1.2) / 3 = 2.8
        "score_macro": 35.0,  # 3.6 and 1.2: 65 and 5
        "score_micro_all": 22.5,
        "score_terminal": 65.0,
        "format_terminal": 100.0,
        "score_mcp": 5.0,
        "format_mcp": 25.0,
        "judge_failed": 0.5,
        "judge_failed_terminal": 0.0,
        "judge_failed_mcp": 0.75,
        "rows": 6,
    }


def _with_answers(path: Path, answer: str = "all is well") -> Path:
    """Our own rows, each with a model's answer."""
    lines = [line for file in sorted(OWN.glob("*_test.jsonl")) for line in file.read_text("utf-8").splitlines()]
    rows = [{**json.loads(line), "gen": f"<think>hm</think>{answer} {number}"} for number, line in enumerate(lines)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_model_and_a_judge_of_servers(tmp_path: Path) -> None:
    """Official rows from end to end, the model and the judge behind one server; a finished run asks nobody again."""

    def say(messages: Sequence[dict[str, str]], _times: int) -> Said | str:
        if messages[0]["content"].startswith("You judge a simulator"):
            return Said("no") if "`web`" in messages[0]["content"] else verdict(5, 4, 3, 2, 1)
        return "<predicted_observation>x</predicted_observation>"

    with Server(say) as server:
        choice = Choice(predictor="openai", model=ModelConfig(name="m", base_url=server.url))
        given = {"judge-url": server.url, "judge-model": "j", "judge-tries": 2}
        report = _measured(None, tmp_path / "run.jsonl", choice=choice, given=given)
        asked, probes = len(server.asked), server.probes
        again = _measured(None, tmp_path / "run.jsonl", choice=choice, given=given)
        assert (len(server.asked), server.probes) == (asked, probes)
    assert asked == 7 + 6 + 2
    assert probes == 2
    assert again.results == report.results
    assert value(report.results["score_macro"]) == value(report.results["score_micro"]) == 50.0
    assert value(report.results["judge_failed"]) == pytest.approx(1 / 7)
    assert "score_web" not in report.results
    assert report.published["score_macro"] == 56.39
    assert "our own few rows" in report.warning
    assert "our own words" in report.warning


def test_a_run_is_judged_later(tmp_path: Path) -> None:
    """In its file, and by another judge again, whose verdicts are kept apart; the model is asked once."""

    def say(messages: Sequence[dict[str, str]], _times: int) -> str:
        return verdict(4, 4, 4, 4, 4) if messages[0]["content"].startswith("You judge") else "x"

    with Server(say) as server, Server(lambda _messages, _times: verdict(2, 2, 2, 2, 2)) as other:
        choice = Choice(predictor="openai", model=ModelConfig(name="m", base_url=server.url))
        out = tmp_path / "run.jsonl"
        first = _measured(None, out, choice=choice)
        asked = len(server.asked)
        judged = _measured(None, out, choice=choice, given={"judge-url": server.url, "judge-model": "a/b"})
        again = _measured(None, out, choice=choice, given={"judge-url": other.url, "judge-model": "c"})
    assert "no judge" in first.warning
    assert "score_micro" not in first.results
    assert (asked, len(server.asked), len(other.asked)) == (7, 14, 7)
    assert (value(judged.results["score_micro"]), value(again.results["score_micro"])) == (75.0, 25.0)
    assert value(judged.results["answered"]) == value(first.results["answered"])


def test_answers_of_a_file_are_judged(tmp_path: Path) -> None:
    """Nobody else is asked, and thoughts are not shown to the judge."""
    with Server(lambda _messages, _times: verdict(2, 2, 2, 2, 2)) as judge:
        given = {"judge-url": judge.url, "judge-model": "j", "rows": 0}
        report = _measured(_with_answers(tmp_path / "predictions.jsonl"), given=given)
    assert len(judge.asked) == 21
    assert not any("hm" in message["content"].split() for asked in judge.asked for message in asked["messages"])
    assert value(report.results["score_micro"]) == 25.0
    assert report.model is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"judge-url": "http://127.0.0.1:9"}, "go together"),
        ({"warp": 9}, "warp"),
        ({"max-tokens": []}, "at least one"),
        ({"judge-tries": 0}, "above 0"),
        ({"rows": -1}, "at least 0"),
    ],
)
def test_wrong_parameters_are_told(given: dict[str, Any], message: str) -> None:
    """Before anything is loaded."""
    with pytest.raises(ConfigError, match=message):
        _measured(None, given=given)


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """Killed while it judges, it goes on where it was: no finished row is judged again, and the scores are the same."""
    data, out = _with_answers(tmp_path / "predictions.jsonl"), tmp_path / "run.jsonl"
    stalled = False

    def say(messages: Sequence[dict[str, str]], _times: int) -> Said:
        answer = messages[1]["content"]
        score = 1 + len(answer) % 5
        return Said(verdict(score, 3, 3, 3, 3), hold=60.0 if stalled and len(server.asked) > 12 else 0.0)

    with Server(say) as server:
        command = [
            sys.executable,
            "-m",
            "verifierd",
            "bench",
            "agentworldbench",
            "--data",
            str(data),
            "--out",
            str(out),
        ]
        command += ["--judge-url", server.url, "--judge-model", "j", "--json"]
        stalled = True
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 60
            while len(server.asked) < 16 and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            os.kill(process.pid, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        stalled = False
        judged = [row for row in read(out)[1] if row.case.startswith("judge:")]
        before = Counter(asked["messages"][1]["content"] for asked in server.asked)
        done = subprocess.run(command, capture_output=True, check=True)
        after = Counter(asked["messages"][1]["content"] for asked in server.asked)

        whole = _measured(data, given={"judge-url": server.url, "judge-model": "j", "rows": 0, "characters": 0})

    assert 0 < len(judged) < 21
    assert len(after) == 21
    again = after - before
    assert sum(again.values()) == 21 - len(judged)
    results = json.loads(done.stdout)["results"]
    names = [name for name in whole.results if name.startswith(("score", "judge"))]
    assert names
    for name in names:
        assert results[name] == pytest.approx(_plain(whole.results[name]))


def _plain(figure: Any) -> Any:
    fields = getattr(figure, "__struct_fields__", None)
    return figure if fields is None else {name: getattr(figure, name) for name in fields}
