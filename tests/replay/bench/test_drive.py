"""Runs of suites against a server: at once, after a kill, and when the server goes away."""

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.replay.bench.server import Said, Server
from verifierd.composition import Choice
from verifierd.config import ModelConfig
from verifierd.errors import ConfigError, PredictorError
from verifierd.replay.bench.asking import Outcome, Party
from verifierd.replay.bench.book import Row, read
from verifierd.replay.bench.drive import drive
from verifierd.replay.bench.figures import Results
from verifierd.replay.bench.suite import Measured, Request
from verifierd.stages import Asked, Message


class Questions:
    """An engine that asks a number of questions, and is content with every answer.

    Args:
        request: Its parameters say how many.
    """

    warning = ""

    def __init__(self, request: Request) -> None:
        self.jobs: Sequence[str] = [str(number) for number in range(request.parameters["questions"])]

    async def run(self, job: str, asked: Party) -> Sequence[Row]:
        """Ask."""
        try:
            reply = await asked.talk([Message("user", f"question {job}")], Asked(max_tokens=9))
        except PredictorError as error:
            return [Row(case=job, outcome=Outcome.FAILED, detail=error.message)]
        return [Row(case=job, outcome=Outcome.ANSWERED, said=reply.text)]

    def figures(self, rows: Sequence[Row]) -> Results:
        """How many came."""
        return {"rows": len(rows), "failed": sum(row.outcome is Outcome.FAILED for row in rows)}


def _drive(url: str | None, questions: int, *, limit: int | None = None, **more: Any) -> Measured:
    if url is None:
        choice = Choice(predictor="shell", limit=limit)
    else:
        choice = Choice(predictor="openai", model=ModelConfig(name="m", base_url=url), limit=limit)
    parameters = {"questions": questions}
    return drive(
        Request(parameters=parameters, choice=choice, runs=None, seed=0, say=lambda _line: None, **more), Questions
    )


def _answer(messages: Sequence[dict[str, str]], _times: int) -> str:
    return messages[-1]["content"].replace("question", "answer")


def test_a_server_is_asked_several_things_at_once(tmp_path: Path) -> None:
    """Eight; each answer belongs to its question, and progress is told job by job."""
    lock, now, most = threading.Lock(), [0], [0]

    def say(messages: Sequence[dict[str, str]], times: int) -> str:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.02)
        with lock:
            now[0] -= 1
        return _answer(messages, times)

    told: list[tuple[int, int]] = []
    with Server(say) as server:
        found = _drive(server.url, 40, out=tmp_path / "run.jsonl", on=lambda done, total: told.append((done, total)))

    assert 1 < most[0] <= 8
    assert server.probes == 1
    assert [(row.case, row.said) for row in found.rows] == [(str(n), f"answer {n}") for n in range(40)]
    assert told == [(0, 40)] + [(1, 40)] * 40
    assert found.results == {"rows": 40, "failed": 0}
    assert found.host["at-once"] == 8


def test_done_jobs_are_not_done_again(tmp_path: Path) -> None:
    """A longer run takes up a shorter one that --limit ended; a whole one asks nobody."""
    file = tmp_path / "run.jsonl"
    with Server(_answer) as server:
        part = _drive(server.url, 20, limit=5, out=file)
        assert part.results == {"rows": 5, "failed": 0}
        assert part.warning == "the first 5 of 20 jobs"
        whole = _drive(server.url, 20, out=file)
        assert (whole.results["rows"], whole.warning) == (20, "")
        assert len(server.asked) == 20
    again = _drive(server.url, 20, out=file)
    assert again.rows == whole.rows


def test_a_server_that_is_not_there_ends_the_run(tmp_path: Path) -> None:
    """Before its absence is taken for answers."""
    with Server(_answer, open=False) as server, pytest.raises(PredictorError, match="404"):
        _drive(server.url, 5, out=tmp_path / "run.jsonl")
    assert not server.asked
    assert not read(tmp_path / "run.jsonl")[1]


def test_a_server_that_goes_away_ends_the_run_and_loses_nothing(tmp_path: Path) -> None:
    """What it failed on last is asked again once it is back; a failure among answers is an answer."""
    file = tmp_path / "run.jsonl"
    count = itertools.count(1)

    def say(messages: Sequence[dict[str, str]], times: int) -> Said | str:
        number = next(count)
        if number == 10 or number > 30:
            return Said("unloaded", 404)
        return _answer(messages, times)

    with Server(say) as server, pytest.raises(PredictorError, match=r"last 50 jobs failed.*unloaded") as caught:
        _drive(server.url, 200, out=file)
    assert "--out" in caught.value.hint
    kept = read(file)[1]
    failed = [row.outcome for row in kept].count(Outcome.FAILED)
    assert len(kept) - failed == 29
    assert 1 <= failed < 8  # some more, where an answer came behind them

    with Server(_answer) as server:
        found = _drive(server.url, 200, out=file)
        assert len(server.asked) == 200 - len(kept)
    assert found.results == {"rows": 200, "failed": failed}


def test_failures_at_the_end_are_kept(tmp_path: Path) -> None:
    """A server that answers nothing is a result of a short run, which says so, and why."""
    with Server(lambda _messages, _times: Said("no, password=hunter2hunter2", 404)) as server:
        found = _drive(server.url, 7, out=tmp_path / "run.jsonl")
    assert found.results == {"rows": 7, "failed": 7}
    assert found.warning.startswith("7 of 7 answers never came, the first as http")
    assert "404: no" in found.warning
    assert "hunter2" not in found.warning
    assert len(read(tmp_path / "run.jsonl")[1]) == 7


@pytest.mark.parametrize(
    ("outcomes", "warning"),
    [
        ([Outcome.EMPTY, Outcome.ABSTAINED, Outcome.THOUGHT], "none of 3 answers says anything"),
        ([Outcome.EMPTY, Outcome.TRUNCATED], ""),
        ([Outcome.FAILED, *[Outcome.ANSWERED] * 19], ""),
        ([Outcome.FAILED, *[Outcome.ANSWERED] * 18], "1 of 19 answers never came, the first as no reason is known"),
    ],
)
def test_little_that_came(outcomes: Sequence[Outcome], warning: str) -> None:
    """Is told, so that what did not come is not taken for what went well."""

    class Ready(Questions):
        async def run(self, job: str, asked: Party) -> Sequence[Row]:  # noqa: ARG002 - as an engine has it
            return [Row(case=job, outcome=outcomes[int(job)])]

    choice = Choice(predictor="shell")
    parameters = {"questions": len(outcomes)}
    request = Request(parameters=parameters, choice=choice, runs=None, seed=0, say=lambda _line: None)
    assert drive(request, Ready).warning == warning


def test_other_data_is_another_run(tmp_path: Path) -> None:
    """Also where names and sizes are the same; in a folder, too."""
    data, file = tmp_path / "data", tmp_path / "run.jsonl"
    data.mkdir()
    (data / "a.jsonl").write_text("one")
    with Server(_answer) as server:
        _drive(server.url, 2, data=data, out=file)
        _drive(server.url, 2, data=data, out=file)
        (data / "a.jsonl").write_text("two")
        with pytest.raises(ConfigError, match="differs in data"):
            _drive(server.url, 2, data=data, out=file)
        with pytest.raises(ConfigError, match="cannot be read"):
            _drive(server.url, 2, data=tmp_path / "missing")


def test_who_cannot_be_talked_to_fails_each_job() -> None:
    """And is not greeted."""
    assert _drive(None, 3).results == {"rows": 3, "failed": 3}


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """After kill -9 with answers under way: what was kept is not asked again, the figures are those of a whole run."""
    file = tmp_path / "run.jsonl"
    command = [sys.executable, "-m", "verifierd", "bench", "plausible", "--size", "smoke", "--runs", "15", "--json"]
    command += ["--predictor", "openai", "--model", "m", "--out", str(file)]
    count = itertools.count(1)

    def say(_messages: Sequence[dict[str, str]], _times: int) -> Said:
        return Said("**Environment Observation:**\ntotal 0", hold=0 if next(count) <= 20 else 30)

    with Server(say) as server:
        process = subprocess.Popen(
            [*command, "--base-url", server.url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _until(lambda: len(server.asked) == 28)
        finally:
            process.kill()
            process.wait()
    assert len(read(file)[1]) == 20
    with file.open("ab") as cut:
        cut.write(b'{"job":"ls/14","rows":[{"case":"ls","ru')

    count = itertools.count(-1000)
    with Server(say) as server:
        done = subprocess.run([*command, "--base-url", server.url], check=True, capture_output=True, text=True)
        assert len(server.asked) == 25
        whole = subprocess.run(
            [*command[:-1], str(tmp_path / "whole.jsonl"), "--base-url", server.url],
            check=True,
            capture_output=True,
            text=True,
        )
    assert sorted((row.case, row.run) for row in read(file)[1]) == sorted(
        (name, run) for name in ("ls", "git", "ps") for run in range(15)
    )
    assert _figures(done.stdout) == _figures(whole.stdout)


def _figures(document: str) -> dict[str, Any]:
    """All but the times."""
    return {name: figure for name, figure in json.loads(document)["results"].items() if "seconds" not in name}
