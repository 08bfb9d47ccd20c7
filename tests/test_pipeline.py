"""The one-way flow, on a real store, real sources and real adapters."""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from tests.helpers import (
    Bench,
    bench,
    claude,
    counter,
    decided,
    echo,
    guess,
    jsonl,
    native,
    reading,
    wrong_once,
)
from verifierd.adapters import open_adapter
from verifierd.calibration import Scored, Trajectory, calibrate
from verifierd.errors import StateError
from verifierd.metrics import STAGES
from verifierd.pipeline import Reading
from verifierd.policy import Calibrated, Policy, load
from verifierd.predictors.scripted import ScriptedPredictor
from verifierd.sources import open_source
from verifierd.store import Commit, Store, StoredAlarm
from verifierd.types import History, Prediction, Step, Verdict, VerdictKind

pytestmark = pytest.mark.anyio

UNIQUE = "toolu_01abcdefghijklmnop{:02}"


async def test_steps_come_in_the_order_of_the_log(tmp_path: Path) -> None:
    """Interleaved trajectories are each judged in order, from histories of their own."""
    path = tmp_path / "a.jsonl"
    left, right = counter("left", 6), counter("right", 6)
    path.write_bytes(jsonl(*(line for pair in zip(left, right, strict=True) for line in pair)))
    async with bench(shell=True) as it:
        await it.drain(path)
        assert it.order == [(name, n) for n in range(1, 7) for name in ("left", "right")]
        assert it.agree
        assert [verdict.seq for verdict in it.verdicts] == list(range(1, 13))


async def test_a_model_is_asked_about_several_trajectories_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trajectories of one file wait together, so that a model takes them in one pass; the log's order stays."""
    path = tmp_path / "a.jsonl"
    names = ("left", "middle", "right")
    lines = zip(*(counter(name, 4) for name in names), strict=True)
    path.write_bytes(jsonl(*(line for together in lines for line in together)))
    waiting, most, seen = 0, 0, []

    async def predict(self: ScriptedPredictor, history: History, step: Step) -> Prediction:
        nonlocal waiting, most
        assert self.model is not None
        waiting += 1
        most = max(most, waiting)
        await anyio.lowlevel.checkpoint()
        seen.append(
            [(before.trajectory, before.index) for before in history]
            == [(step.trajectory, index) for index in range(1, step.index)]
        )
        waiting -= 1
        return guess(None)

    monkeypatch.setattr(ScriptedPredictor, "model", "m", raising=False)
    monkeypatch.setattr(ScriptedPredictor, "predict", predict)
    async with bench() as it:
        await it.drain(path)
        assert most == 3
        assert seen == [True] * 12
        assert it.order == [(name, n) for n in range(1, 5) for name in names]


async def test_a_wrong_observation_is_off_path_and_later_steps_are_not(tmp_path: Path) -> None:
    """One changed count is the one contradiction; the file that grew on is counted right again."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*wrong_once(counter("t", 12), 6, "9 notes.txt\n")))
    async with bench(shell=True) as it:
        await it.drain(path)
        off = [verdict.step for verdict in it.verdicts if verdict.verdict == "off_path"]
        assert off[0] == 6
        assert len(off) <= 2


@pytest.mark.parametrize("shell", [True, False])
async def test_parallel_files_with_one_name_keep_their_own_histories(tmp_path: Path, *, shell: bool) -> None:
    """Two files that both call their trajectory `1`, read side by side, do not meet in one history."""
    for name in ("a", "b"):
        lines = counter("1", 20)
        lines[2]["action"] = f"echo {name} > notes.txt"
        (tmp_path / f"{name}.jsonl").write_bytes(jsonl(*lines))
    pure: list[bool] = []

    def script(history: History, step: Step) -> Prediction:
        places = [(before.origin.path, before.index) for before in history]
        pure.append(places == [(step.origin.path, index) for index in range(1, step.index)])
        return guess(None)

    async with bench(shell=shell, script=script) as it:
        a, b = reading(tmp_path / "a.jsonl"), reading(tmp_path / "b.jsonl")
        for opened in (a, b):
            opened.lines = 1
        more = True
        while more:
            counts: list[int] = []

            async def one(opened: Reading, counts: list[int] = counts) -> None:
                opened.lines = 1
                counts.append(await it.pipeline.pump(opened))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one, a)
                tasks.start_soon(one, b)
            more = any(counts)
        # Steps that are alike to the byte are one step; it is judged once.
        assert len(it.verdicts) == 21
        assert it.agree if shell else {verdict.verdict.value for verdict in it.verdicts} == {"abstain"}
        assert pure == ([] if shell else [True] * 21)


async def test_a_file_that_goes_on_with_another_keeps_its_history(tmp_path: Path) -> None:
    """A trajectory that is continued in a second file is judged from what the first one holds."""
    lines = counter("t", 10)
    (tmp_path / "1.jsonl").write_bytes(jsonl(*lines[:5]))
    (tmp_path / "2.jsonl").write_bytes(jsonl(*lines[5:]))
    async with bench(shell=True) as it:
        await it.drain(tmp_path / "1.jsonl")
        await it.drain(tmp_path / "2.jsonl")
        assert it.agree
        assert it.order == [("t", n) for n in range(1, 11)]


async def test_a_step_that_comes_twice_is_judged_once(tmp_path: Path) -> None:
    """The same line again is counted as a duplicate and adds nothing to the history."""
    path = tmp_path / "a.jsonl"
    lines = counter("t", 4)
    path.write_bytes(jsonl(*lines[:3], lines[2], lines[2], lines[3]))
    async with bench(shell=True) as it:
        await it.drain(path)
        assert it.order == [("t", n) for n in range(1, 5)]
        assert it.count("source_events_total", event="duplicate") == 2
        assert it.agree


async def test_a_copied_call_is_history_and_gets_no_second_verdict(tmp_path: Path) -> None:
    """A resumed session repeats the calls of the one before: they are known, and what follows is judged from them."""
    calls = [(UNIQUE.format(n), f"echo {n} >> log", "") for n in range(1, 4)]
    (tmp_path / "1.jsonl").write_bytes(jsonl(*claude("one", calls)))
    more = [*calls, (UNIQUE.format(4), "true", "")]
    (tmp_path / "2.jsonl").write_bytes(jsonl(*claude("two", more)))
    lengths: dict[tuple[str, int], int] = {}

    def script(history: History, step: Step) -> Prediction:
        lengths[step.trajectory, step.index] = history.total
        return guess(None)

    async with bench(script=script) as it:
        await it.drain(tmp_path / "1.jsonl")
        await it.drain(tmp_path / "2.jsonl")
        assert it.order == [("one", 1), ("one", 2), ("one", 3), ("two", 4)]
        assert lengths["two", 4] == 3
        assert it.count("source_events_total", event="copied") == 3


async def test_each_verdict_is_timed_by_what_it_waited_for(tmp_path: Path) -> None:
    """A step waits from reading its line until its chunk is committed; copies, which get no verdict, wait for none."""
    calls = [(UNIQUE.format(n), f"echo {n}", f"{n}\n") for n in range(1, 6)]
    (tmp_path / "1.jsonl").write_bytes(jsonl(*claude("one", calls)))
    (tmp_path / "2.jsonl").write_bytes(jsonl(*claude("two", calls)))
    async with bench(shell=True) as it:
        opened = reading(tmp_path / "1.jsonl")
        opened.lines = 100
        await it.pipeline.pump(opened)
        await opened.source.aclose()
        assert it.count("time_to_verdict_seconds_count") == 5
        assert [it.count("stage_seconds_count", stage=stage) for stage in STAGES] == [1] * 6
        spent = [it.count("stage_seconds_sum", stage=stage) for stage in STAGES]
        assert min(spent) > 0
        assert it.count("time_to_verdict_seconds_sum") >= 5 * sum(spent)
        await it.drain(tmp_path / "2.jsonl")
        assert len(it.verdicts) == 5
        assert it.count("time_to_verdict_seconds_count") == 5
        assert it.count("stage_seconds_count", stage="commit") == 1


async def test_what_waits_for_its_siblings_is_timed_from_when_they_were_read(tmp_path: Path) -> None:
    """A step that is judged when its file is idle has waited since its line was read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*({**line, "batch": "b"} for line in echo("t", 2))))
    async with bench(shell=True) as it:
        opened = reading(path)
        await it.follow(opened)
        assert not it.verdicts
        opened.read_at -= 60
        await it.pipeline.settle(opened)
        await opened.source.aclose()
        assert len(it.verdicts) == 2
        assert it.count("time_to_verdict_seconds_sum") > 120


async def test_an_old_log_has_no_delay(tmp_path: Path) -> None:
    """What was logged before the start is history, however it is read; what is logged from then on is timed."""
    path = tmp_path / "a.jsonl"
    lines = [{**line, "timestamp": "2026-01-01T00:00:00Z"} for line in echo("t", 3)]
    path.write_bytes(jsonl(*lines))
    async with bench(shell=True) as it:
        opened = reading(path)
        await it.follow(opened)
        assert (len(it.verdicts), it.count("end_to_end_delay_seconds_count")) == (3, 0)
        now = datetime.now(UTC).isoformat()
        with path.open("ab") as file:
            file.write(
                jsonl(
                    *(
                        {**line, "timestamp": when}
                        for line, when in zip(echo("t", 3, first=4), (now, now, None), strict=True)
                    )
                )
            )
        await it.follow(opened)
        await opened.source.aclose()
        assert (len(it.verdicts), it.count("end_to_end_delay_seconds_count")) == (6, 2)
        assert 0 < it.count("end_to_end_delay_seconds_sum") < 60


async def test_copies_that_are_read_at_the_same_time_get_one_verdict(tmp_path: Path) -> None:
    """Of a call in two files that two tasks judge at once, one has the verdict."""
    calls = [(UNIQUE.format(n), f"echo {n}", f"{n}\n") for n in range(1, 30)]
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_bytes(jsonl(*claude(name, calls)))
    async with bench(shell=True) as it:
        async with anyio.create_task_group() as tasks:
            for name in ("one", "two"):
                tasks.start_soon(it.drain, tmp_path / f"{name}.jsonl")
        assert len(it.verdicts) == len(calls)
        assert len({verdict.step for verdict in it.verdicts}) == len(calls)


async def test_a_native_trajectory_that_starts_over_is_a_new_run(tmp_path: Path) -> None:
    """Step 1 again begins with nothing: files of the run before are gone, even if the first steps are alike."""
    path = tmp_path / "a.jsonl"
    first = [native("t", 1, "cd /srv", "", exit_code=0), native("t", 2, "echo old > f", "", exit_code=0)]
    second = [native("t", 1, "cd /srv", "", exit_code=0), native("t", 2, "echo new > f", "", exit_code=0)]
    path.write_bytes(jsonl(*first, *second, native("t", 3, "cat f", "new\n", exit_code=0)))
    lengths: list[tuple[int, int, int]] = []

    def script(history: History, step: Step) -> Prediction:
        lengths.append((history.run, step.index, history.total))
        return guess(None)

    async with bench(script=script) as it:
        await it.drain(path)
        # The second `cd /srv` is the same step: history of the new run, without a verdict of its own.
        assert lengths == [(0, 1, 0), (0, 2, 1), (1, 2, 1), (1, 3, 2)]
        assert it.count("source_events_total", event="copied") == 1
        state = await it.store.trajectory(("native", "t"))
        assert state is not None
        assert (state.run, state.total) == (1, 3)


async def test_the_format_is_found_late_and_no_line_is_lost(tmp_path: Path) -> None:
    """Sixty lines that say nothing do not hide the steps behind them."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"note":1}\n' * 60 + jsonl(*echo("t", 3)))
    async with bench(shell=True) as it:
        await it.drain(path)
        assert it.order == [("t", 1), ("t", 2), ("t", 3)]
        assert it.count("source_events_total", event="unknown_format") == 0


async def test_a_known_format_behind_many_unknown_lines_is_still_read(tmp_path: Path) -> None:
    """Lines that nobody understands are passed over and counted; the steps that follow are judged."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"what is this\n" * 1000 + jsonl(*echo("t", 3)))
    async with bench(shell=True) as it:
        opened = await it.drain(path)
        assert it.order == [("t", 1), ("t", 2), ("t", 3)]
        assert it.count("source_events_total", event="unknown_format") == 1
        assert opened.end == path.stat().st_size


async def test_a_first_line_that_does_not_tell_waits_for_more(tmp_path: Path) -> None:
    """A file that was idle behind an unknown first line is understood once its next line comes."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"note":1}\n')
    async with bench(shell=True) as it:
        opened = await it.drain(path)
        await it.pipeline.settle(opened)
        await it.pipeline.settle(opened)
        assert it.count("source_events_total", event="unknown_format") == 1
        with path.open("ab") as file:
            file.write(jsonl(*echo("t", 2)))
        await it.follow(opened)
        assert it.order == [("t", 1), ("t", 2)]


async def test_an_unknown_format_is_read_to_its_end_and_judged_not_at_all(tmp_path: Path) -> None:
    """What nobody understands is passed over once, and its position is kept."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"plain prose\n" * 100)
    async with bench() as it:
        await it.drain(path, finish=True)
        assert it.verdicts == []
        state = await it.store.file(str(path))
        assert state is not None
        assert (state.format, state.position.offset) == ("", path.stat().st_size)


async def test_a_format_that_is_named_is_not_guessed(tmp_path: Path) -> None:
    """With a format's name every line is read as that."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*echo("t", 2)))
    async with bench() as it:
        opened = await it.drain(path, format="codex")
        assert opened.adapter is not None
        assert opened.adapter.format == "codex"
        assert it.verdicts == []


async def test_a_file_rewritten_in_place_is_read_anew(tmp_path: Path) -> None:
    """After a rewrite known steps get no second verdict, changed ones are judged from the new history alone."""
    path = tmp_path / "a.jsonl"
    before = counter("t", 8)
    path.write_bytes(jsonl(*before))
    async with bench(shell=True) as it:
        opened = await it.drain(path)
        assert len(it.verdicts) == 8
        more = {"exit_code": 0, "cwd": "/home/user/work"}
        after = [*before[:4], native("t", 5, "echo other > notes.txt", "", **more)]
        after += [native("t", 6, "cat notes.txt", "other\n", **more)]
        path.write_bytes(jsonl(*after))
        os.utime(path, ns=(0, 0))  # whatever the clock's grain, it looks changed
        await it.follow(opened)
        assert opened.generation == 1
        assert it.order[8:] == [("t", 5), ("t", 6)]
        assert it.agree
        assert it.count("source_events_total", event="restarted") == 1


async def test_a_rewritten_transcript_gives_no_verdict_twice(tmp_path: Path) -> None:
    """A Claude Code transcript that is written anew with one more call adds one verdict."""
    path = tmp_path / "a.jsonl"
    calls = [(UNIQUE.format(n), f"echo {n}", f"{n}\n") for n in range(1, 5)]
    path.write_bytes(jsonl({"type": "summary", "leafUuid": "x", "summary": "old"}, *claude("s", calls)))
    async with bench() as it:
        opened = await it.drain(path)
        calls.append((UNIQUE.format(5), "echo 5", "5\n"))
        path.write_bytes(jsonl({"type": "summary", "leafUuid": "x", "summary": "new"}, *claude("s", calls)))
        os.utime(path, ns=(0, 0))
        await it.follow(opened)
        assert it.order == [("s", n) for n in range(1, 6)]


async def test_chunks_grow_while_they_are_quick(tmp_path: Path) -> None:
    """The first chunk is one line, so that a live step waits for nobody; a backlog goes by in larger ones."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*echo("t", 600)))
    async with bench() as it:
        opened = reading(path)
        sizes = []
        while count := await it.pipeline.pump(opened):
            sizes.append(count)
        assert sizes[0] == 1
        assert max(sizes) <= 256
        assert sum(sizes) == 600
        assert len(it.verdicts) == 600


async def test_the_limit_ends_judging_and_passes_over_no_step(tmp_path: Path) -> None:
    """After a limit of 3 the next run judges the rest, each step once."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*counter("t", 10)))
    async with bench(state=tmp_path / "state", shell=True, limit=3) as it:
        opened = reading(path)
        opened.lines = 10
        while not it.pipeline.exhausted:
            await it.pipeline.pump(opened)
        assert it.order == [("t", 1), ("t", 2), ("t", 3)]
    async with bench(state=tmp_path / "state", shell=True) as it:
        assert await it.store.file(str(path)) is None
        await it.drain(path)
        assert it.order == [("t", n) for n in range(4, 11)]
        assert it.agree


async def test_a_predictor_that_raises_costs_one_step(tmp_path: Path) -> None:
    """An exception of a predictor is one abstention with the reason `predictor_error`; the stream goes on."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*echo("t", 3)))

    def script(_history: History, step: Step) -> Prediction:
        if step.index == 2:
            raise ZeroDivisionError("nobody foresaw this")
        return guess(step.observation)

    async with bench(script=script) as it:
        await it.drain(path)
        assert [(verdict.verdict.value, verdict.reason) for verdict in it.verdicts] == [
            ("on_path", "as_predicted"),
            ("abstain", "predictor_error"),
            ("on_path", "as_predicted"),
        ]
        assert it.count("simulator_errors_total", kind="predictor_error") == 1


class _Broken:
    """A sink whose outside world fails a few times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.given: list[int] = []

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        if self.failures:
            self.failures -= 1
            raise StateError("the disk is full", temporary=True)
        self.given.extend(verdict.step for verdict in verdicts)

    async def aclose(self) -> None:
        """Nothing is held."""


async def test_a_failing_sink_does_not_stop_the_others(tmp_path: Path) -> None:
    """A sink that cannot pass on is counted; verdicts stay committed, and the other sinks have them."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*echo("t", 5)))
    broken = _Broken(failures=2)
    async with bench(sinks=[broken]) as it:
        await it.drain(path)
        assert [verdict.step for verdict in it.verdicts] == [1, 2, 3, 4, 5]
        assert it.count("output_write_errors_total", reason="io") == 2
        assert broken.given
        assert broken.given[-1] == 5


async def test_a_commit_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk is full reading stops; once there is room each step has one verdict."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*echo("t", 4)))
    failures = 1
    commit = Store.commit

    async def full(store: Store, batch: Commit) -> list[Verdict]:
        nonlocal failures
        if failures:
            failures -= 1
            raise StateError("the disk is full", temporary=True)
        return await commit(store, batch)

    monkeypatch.setattr(Store, "commit", full)
    async with bench() as it:
        await it.drain(path)
        assert [verdict.step for verdict in it.verdicts] == [1, 2, 3, 4]
        assert it.count("checkpoint_commits_total", result="error") == 1


async def test_trajectories_come_back_from_the_store(tmp_path: Path) -> None:
    """With more trajectories than are held in memory the verdicts are those of each alone."""
    path = tmp_path / "a.jsonl"
    names = [f"t{number:03}" for number in range(300)]
    script: list[dict[str, Any]] = []
    for n, line in enumerate(counter("", 4), 1):
        script += [{**line, "trajectory": name, "step": n} for name in names]
    path.write_bytes(jsonl(*script))
    lengths: list[tuple[int, int]] = []

    def count(history: History, step: Step) -> Prediction:
        lengths.append((step.index, history.total))
        return guess(step.observation)

    async with bench(script=count) as it:
        await it.drain(path)
        assert len(it.verdicts) == 1200
        assert all(total == index - 1 for index, total in lengths)
        assert it.count("trajectories_live") == 256


async def test_a_restart_gives_the_verdicts_of_an_undisturbed_run(tmp_path: Path) -> None:
    """Stopped after each chunk and taken up from the store, a file gets the same verdicts and the same alarms."""
    path = tmp_path / "a.jsonl"
    lines = wrong_once(wrong_once(counter("t", 8), 4, "7 notes.txt\n"), 8, "77 notes.txt\n")
    path.write_bytes(jsonl(*lines))
    async with bench(shell=True) as it:
        await it.drain(path)
        undisturbed = decided(it.verdicts)
        alarms = [verdict.alarm for verdict in it.verdicts]
    found: list[Verdict] = []
    for _ in range(40):
        async with bench(state=tmp_path / "state", shell=True) as it:
            opened = await taken_up(it, path)
            more = await it.pipeline.pump(opened)
            found += it.verdicts
            await opened.source.aclose()
            if not more:
                break
    assert decided(found) == undisturbed
    assert [verdict.alarm for verdict in found] == alarms
    assert [verdict.seq for verdict in found] == list(range(1, 9))


async def piecemeal(path: Path, state: Path, policy: Policy) -> tuple[list[Verdict], list[StoredAlarm]]:
    """The verdicts and alarms of a file for whose every record there is a new pipeline over the old state."""
    found: list[Verdict] = []
    while True:
        async with bench(state=state, script=sure, policy=policy) as it:
            opened = await taken_up(it, path)
            more = await it.pipeline.pump(opened)
            found += it.verdicts
            await opened.source.aclose()
            if not more:
                assert it.count("alarms_open") == 0  # nothing is counted twice
                return found, await it.store.alarms()


def sure(_history: History, _step: Step) -> Prediction:
    """Certain of `ok`."""
    return guess("ok\n")


def calibrated() -> Policy:
    """A policy for which one contradiction in a trajectory is common, and several are not."""
    clean, odd = (
        Scored("bash", "terminal", 0.0, deterministic=True),
        Scored("bash", "terminal", 1.0, deterministic=True),
    )
    trajectories = [
        Trajectory(str(number), (clean, odd if number % 4 == 0 else clean, *[clean] * 18)) for number in range(200)
    ]
    learnt = calibrate(trajectories)
    made = Calibrated(date="2026-01-01", predictor="scripted", policy="default@0", learnt=learnt)
    return msgspec.structs.replace(load("default"), calibration=made)


@pytest.mark.parametrize(
    "policy", [load("default"), msgspec.structs.replace(calibrated(), alarm_after=99)], ids=["default", "calibrated"]
)
async def test_an_alarm_is_raised_once_however_often_it_is_restarted(tmp_path: Path, policy: Policy) -> None:
    """Restarted after every step, a trajectory alarms at the step at which it alarms undisturbed, once, and is kept."""
    path = tmp_path / "a.jsonl"
    wrong = {4, 5, 7, 8, 11, 12}
    path.write_bytes(
        jsonl(*(native("t", n, f"run {n}", "bad\n" if n in wrong else "ok\n", exit_code=0) for n in range(1, 15)))
    )
    async with bench(script=sure, policy=policy) as it:
        await it.drain(path)
        undisturbed = it.verdicts
        (alarm,) = await it.store.alarms()
        assert it.count("alarms_total") == it.count("alarms_open") == 1
    raised = [verdict for verdict in undisturbed if verdict.alarm is not None and verdict.alarm.new]
    assert [verdict.verdict_id for verdict in raised] == [alarm.id]
    assert (alarm.trajectory, alarm.format, alarm.run, alarm.step) == ("t", "native", 0, raised[0].step)
    assert (alarm.first_bad, alarm.acknowledged) == (4, None)
    assert (alarm.step == 4) is (policy.calibration is None)
    found, alarms = await piecemeal(path, tmp_path / "state", policy)
    assert [verdict.alarm for verdict in found] == [verdict.alarm for verdict in undisturbed]
    assert [msgspec.structs.replace(kept, time=alarm.time) for kept in alarms] == [alarm]


async def test_files_that_share_a_name_alarm_once_each(tmp_path: Path) -> None:
    """Two files call their trajectory `1`; after a restart neither has forgotten that it has alarmed."""
    for name in ("a", "b"):
        lines = [native("1", n, f"run {name} {n}", "bad\n", exit_code=0) for n in range(1, 5)]
        (tmp_path / f"{name}.jsonl").write_bytes(jsonl(*lines[:2]))
    for first in (True, False):
        async with bench(state=tmp_path / "state", script=sure) as it:
            for name in ("a", "b"):
                opened = await taken_up(it, tmp_path / f"{name}.jsonl")
                await it.follow(opened)
                await opened.source.aclose()
            assert len(it.verdicts) == 4
            assert it.count("alarms_total") == (2 if first else 0)
            assert [(alarm.run, alarm.step) for alarm in await it.store.alarms()] == [(1, 1), (0, 1)]
        for name in ("a", "b"):
            lines = [native("1", n, f"run {name} {n}", "bad\n", exit_code=0) for n in range(1, 5)]
            (tmp_path / f"{name}.jsonl").write_bytes(jsonl(*lines))


async def test_steps_in_flight_stay_with_the_judge_that_began_them(tmp_path: Path) -> None:
    """An exchange takes effect at the next step, and is over once the former judge has no step left."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*(native("t", n, f"run {n}", "ok\n", exit_code=0) for n in range(1, 5))))
    reached, go_on = anyio.Event(), anyio.Event()

    class Held(ScriptedPredictor):
        """Waits at the second step."""

        async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:
            if step.index == 2:
                reached.set()
                await go_on.wait()
            return await super().predict(history, step, keep=keep)

    async with bench(script=sure) as it:
        usual = it.pipeline.judge
        await it.pipeline.exchange(msgspec.structs.replace(usual, predictor=Held(sure)))
        strict = msgspec.structs.replace(usual, policy=load("strict"))
        order: list[str] = []

        async def exchange() -> None:
            await reached.wait()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(finished)
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
                assert it.pipeline.judge is strict
                order.append("released")
                go_on.set()

        async def finished() -> None:
            await it.pipeline.exchange(strict)
            order.append("exchanged")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(exchange)
            await it.drain(path)
    assert order == ["released", "exchanged"]
    assert [verdict.policy.split("@")[0] for verdict in it.verdicts] == ["default", "default", "strict", "strict"]


async def taken_up(it: Bench, path: Path) -> Reading:
    """A reading of a file from where the store says that it was committed, with its adapter as it was then."""
    known = await it.store.file(str(path))
    opened = Reading(open_source(path, known.position if known else None), end=0)
    if known is not None and known.format:
        opened.adapter = open_adapter(known.format, path=str(path))
        opened.adapter.load(known.state)
    return opened


async def test_steps_before_the_start_are_history_only(tmp_path: Path) -> None:
    """With `judge_from` earlier steps get no verdict, but later ones are predicted from them."""
    path = tmp_path / "a.jsonl"
    lines = counter("t", 6)
    path.write_bytes(jsonl(*lines[:4]))
    start = path.stat().st_size
    with path.open("ab") as file:
        file.write(jsonl(*lines[4:]))
    async with bench(shell=True) as it:
        await it.drain(path, judge_from=start)
        assert it.order == [("t", 5), ("t", 6)]
        assert it.verdicts[1].verdict == "on_path"


async def test_a_rewritten_file_is_judged_from_its_start(tmp_path: Path) -> None:
    """What was there at the start is history only; what replaces it is new."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*echo("old", 6)))
    async with bench() as it:
        opened = await it.drain(path, judge_from=path.stat().st_size)
        assert it.verdicts == []
        path.write_bytes(jsonl(*echo("new", 2)))
        await it.follow(opened)
        assert it.order == [("new", 1), ("new", 2)]


async def test_half_a_line_waits_and_is_quarantined_at_the_end(tmp_path: Path) -> None:
    """An idle file's half line is left; a finished one's is counted as torn; a whole one without line end is taken."""
    path = tmp_path / "a.jsonl"
    whole = jsonl(*echo("t", 3)).rstrip(b"\n")
    path.write_bytes(whole[:-5])
    async with bench() as it:
        opened = await it.drain(path)
        await it.pipeline.settle(opened)
        assert [verdict.step for verdict in it.verdicts] == [1, 2]
        path.write_bytes(whole)
        await it.follow(opened)
        await it.pipeline.settle(opened)
        assert [verdict.step for verdict in it.verdicts] == [1, 2, 3]
        with path.open("ab") as file:
            file.write(b'\n{"trajectory": "t", "st')
        await it.follow(opened)
        await it.pipeline.finish(opened)
        assert len(it.verdicts) == 3
        assert it.count("source_records_total", format="native", result="torn_tail") == 1


async def test_a_batch_is_judged_once_the_file_is_idle(tmp_path: Path) -> None:
    """Parallel steps at the end of a file wait for their siblings, and for no longer than the file is alive."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*(native("t", n, f"echo {n}", f"{n}\n", batch="b") for n in (1, 2))))
    async with bench() as it:
        opened = await it.drain(path)
        assert it.verdicts == []
        await it.pipeline.settle(opened)
        assert [verdict.step for verdict in it.verdicts] == [1, 2]
        await it.pipeline.settle(opened)
        assert len(it.verdicts) == 2


async def test_settling_and_reading_at_once_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """A file that is settled whenever it is read, by two tasks, has one verdict a step."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*counter("t", 200)))
    async with bench() as it:
        opened = reading(path)

        async def settle() -> None:
            for _ in range(50):
                await it.pipeline.settle(opened)
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(settle)
            tasks.start_soon(it.follow, opened)
        assert it.order == [("t", n) for n in range(1, 201)]


async def test_it_says_since_when_lines_are_judged(tmp_path: Path) -> None:
    """While a step is judged the pipeline knows since when, and forgets it."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*echo("t", 1)))
    seen = []

    def script(_: History, __: Step) -> Prediction:
        seen.append(it.pipeline.oldest)
        return guess(None)

    before = time.time()
    async with bench(script=script) as it:
        assert it.pipeline.oldest is None
        await it.drain(path)
        assert it.pipeline.oldest is None
    assert seen[0] is not None
    assert before <= seen[0] <= time.time()


async def test_records_of_unknown_types_are_counted_once(tmp_path: Path) -> None:
    """What no adapter knows moves a counter, chunk by chunk, and nothing is lost beside it."""
    path = tmp_path / "a.jsonl"
    session = claude("s", [("toolu_1", "true", ""), ("toolu_2", "true", "")])
    path.write_bytes(jsonl(session[0], {"type": "hologram", "sessionId": "s"}, *session[1:]))
    async with bench() as it:
        opened = await it.drain(path)
        with path.open("ab") as file:
            file.write(jsonl({"type": "hologram", "sessionId": "s"}, {"type": "tea", "sessionId": "s"}))
        await it.follow(opened)
        assert it.count("source_unknown_records_total", format="claude_code") == 3
        assert len(it.verdicts) == 2


async def test_a_damaged_line_is_noted_where_it_stands(tmp_path: Path) -> None:
    """A line that is too long is quarantined with its place; the lines around it are judged."""
    path = tmp_path / "a.jsonl"
    lines = [jsonl(line) for line in echo("t", 2)]
    path.write_bytes(lines[0] + b"x" * 5000 + b"\n" + lines[1])
    async with bench() as it:
        opened = Reading(open_source(path, max_line_bytes=2000))
        await it.follow(opened)
        assert [verdict.step for verdict in it.verdicts] == [1, 2]
        assert it.count("source_records_total", format="native", result="too_long") == 1


async def test_what_the_adapter_cannot_read_is_quarantined(tmp_path: Path) -> None:
    """Broken JSON, and JSON of a wrong shape, are counted and kept with their place and reason."""
    path = tmp_path / "a.jsonl"
    lines = [jsonl(line) for line in echo("t", 2)]
    path.write_bytes(lines[0] + b"{broken\n" + jsonl({"trajectory": "t", "step": "two"}) + lines[1])
    async with bench() as it:
        await it.drain(path)
        assert [verdict.step for verdict in it.verdicts] == [1, 2]
        noted = [(one.offset, one.length, one.reason) for one in await it.store.quarantined()]
        assert noted[0] == (len(lines[0]), 8, "not_json")
        assert [reason for _, _, reason in noted] == ["not_json", "bad_shape"]
        assert it.count("source_records_total", format="native", result="not_json") == 1
        assert it.count("source_records_total", format="native", result="ok") == 2


async def test_labels_in_the_log_become_the_truth(tmp_path: Path) -> None:
    """They are kept with the verdict, once however often the log is read, and move the gauges."""
    path = tmp_path / "a.jsonl"
    wrong, right = wrong_once(echo("t", 2), 2, "other\n")
    path.write_bytes(jsonl({**wrong, "label": "off_path", "label_kind": "missed"}, {**right, "label": "on_path"}))
    async with bench(shell=True) as it:
        await it.drain(path)
        await it.drain(path)
        kinds = [verdict.verdict for verdict in it.verdicts]
        assert kinds == [VerdictKind.ON_PATH, VerdictKind.OFF_PATH]
        assert await it.store.truths() == {
            (VerdictKind.ON_PATH, "off_path", "data"): 1,
            (VerdictKind.OFF_PATH, "on_path", "data"): 1,
        }
        assert (it.count("false_positives"), it.count("false_negatives")) == (1, 1)
        assert [label.note for label in await it.store.labels(it.verdicts[0].step_id)] == ["missed"]
