"""`verifierd explain`: one verdict in plain words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.helpers import Live, counter, jsonl, native, read_verdicts, verifierd, wrong_once
from verifierd import policy
from verifierd.calibration import Scored, Trajectory, calibrate
from verifierd.policy import Calibrated
from verifierd.replay.calibrate import toml

WRONG = "9 notes.txt\n"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state of a daemon that judged 8 steps, of which the sixth is off path, and one that nobody can know."""
    folder = tmp_path_factory.mktemp("explain")
    lines = [*wrong_once(counter("t", 8), 6, WRONG), native("u", 1, "cat unknown", "text\n", cwd="/home/user")]
    (folder / "a.jsonl").write_bytes(jsonl(*lines))
    assert verifierd("run", "--once", folder / "a.jsonl", "--state", folder / "state").returncode == 0
    return folder / "state"


def one(state: Path, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first verdict that is as wanted."""
    return next(verdict for verdict in read_verdicts(state / "verdicts.jsonl") if wanted(verdict))


def off_path(verdict: dict[str, Any]) -> bool:
    """Is it the wrong step?"""
    return bool(verdict["verdict"] == "off_path")


def test_an_off_path_step_is_explained(state: Path) -> None:
    """It says where, what was expected and came, which signals fired, what was checked, and against which limits."""
    verdict = one(state, off_path)
    told = verifierd("explain", verdict["verdict_id"], "--state", state)
    assert told.returncode == 0
    assert told.stderr == ""
    for part in (
        "Step 6 of t is off path",
        "(contradiction)",
        "a.jsonl, at byte",
        "$ wc -l notes.txt",
        "predicted │ 2 notes.txt",
        "observed │ 9 notes.txt",
        "contradiction at characters 0 to 1",
        "expected “2”, observed “9”",
        "all of the observation's text was pinned",
        "min-coverage 1 % for on path: reached",
        "not calibrated",
        "raised at this step: contradictions so far, 1, above the level 0",
        "the suspected first bad step is 6",
        "nobody has acknowledged it",
        "nobody has labelled this step",
        f"by policy {verdict['policy']}",
        verdict["step_id"],
    ):
        assert part in told.stdout


def test_an_abstention_is_explained(state: Path) -> None:
    """It says why nobody can know, and that nothing was checked."""
    verdict = one(state, lambda verdict: bool(verdict["trajectory"] == "u"))
    told = verifierd("explain", verdict["step_id"], "--state", state).stdout
    assert "Step 1 of u is not decided" in told
    assert "depends on state that nobody has shown (unpredictable)" in told
    assert "nobody could predict it" in told
    assert "none of the observation's text was pinned" in told
    assert "observed │ text" in told


def test_the_beginning_of_an_id_is_enough(state: Path) -> None:
    """Of a verdict's id or of a step's, in the database or in a verdict file, in any case of the letters."""
    verdict = one(state, off_path)
    heads = {verifierd("explain", verdict[key][:12], "--state", state).stdout for key in ("verdict_id", "step_id")}
    assert len(heads) == 1
    out = state / "verdicts.jsonl"
    told = verifierd("explain", verdict["verdict_id"][:12].upper(), "--verdicts", out).stdout
    assert told.splitlines()[:10] == heads.pop().splitlines()[:10]
    assert "labelled" not in told  # a verdict file does not say


def test_a_step_with_several_verdicts_is_explained_by_the_last(tmp_path: Path, state: Path) -> None:
    """Two policies judged one step: its id means the later verdict, the verdicts' ids each its own."""
    first = one(state, off_path)
    second = {**first, "verdict_id": "f" * 32, "policy": "mine@0", "seq": 99}
    (tmp_path / "v.jsonl").write_bytes(jsonl(first, second))
    told = {
        name: verifierd("explain", name, "--verdicts", tmp_path / "v.jsonl").stdout
        for name in (first["verdict_id"], second["verdict_id"], first["step_id"])
    }
    assert told[first["step_id"]] == told[second["verdict_id"]]
    assert told[first["step_id"]] != told[first["verdict_id"]]
    assert "min-coverage is unknown: mine@0 is not at hand" in told[first["step_id"]]


@pytest.mark.parametrize("place", ["--state", "--verdicts"])
def test_an_id_that_fits_nothing_or_too_much_is_said(state: Path, place: str) -> None:
    """What is unknown is told with where ids stand, what is ambiguous with whom it may mean."""
    where = state if place == "--state" else state / "verdicts.jsonl"
    none = verifierd("explain", "xyz", place, where)
    assert none.returncode == 1
    assert "no verdict or step" in none.stderr
    assert "`xyz`" in none.stderr
    ids = [verdict["verdict_id"] for verdict in read_verdicts(state / "verdicts.jsonl")]
    shared = next(digit for digit in "0123456789abcdef" if sum(name.startswith(digit) for name in ids) > 1)
    many = verifierd("explain", shared, place, where)
    assert many.returncode == 1
    assert "several steps" in many.stderr
    assert sum(name in many.stderr for name in ids) > 1


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    """No database, no file, a file of something else, and both at once are one message each."""
    for arguments, code, message in (
        (("--state", tmp_path), 78, "verifierd.db: does not exist"),
        (("--verdicts", tmp_path / "none.jsonl"), 1, "none.jsonl: cannot be read"),
        (("--state", tmp_path, "--verdicts", tmp_path / "none.jsonl"), 2, "not both"),
    ):
        done = verifierd("explain", "abc", *arguments)
        assert (done.returncode, message in done.stderr) == (code, True)
    (tmp_path / "other.jsonl").write_bytes(jsonl({"verdict_id": "abc"}))
    assert "other.jsonl:1: is no verdict" in verifierd("explain", "abc", "--verdicts", tmp_path / "other.jsonl").stderr
    assert not (tmp_path / "verifierd.db").exists()


def test_a_torn_last_line_is_passed_over(tmp_path: Path, state: Path) -> None:
    """A file that is being written may end in half a verdict."""
    verdict = one(state, off_path)
    data = jsonl(verdict)
    (tmp_path / "v.jsonl").write_bytes(data + data[: len(data) // 2])
    assert "Step 6 of t" in verifierd("explain", verdict["verdict_id"], "--verdicts", tmp_path / "v.jsonl").stdout


def test_the_policy_that_decided_is_recognised(tmp_path: Path) -> None:
    """One's own policy is explained if it is named and is still the same, tools' rules included."""
    own = tmp_path / "mine.toml"
    own.write_text('name = "mine"\nmin-coverage = 0.5\n[tools.bash]\nmin-coverage = 0.25\n')
    (tmp_path / "a.jsonl").write_bytes(jsonl(*counter("t", 4)))
    verifierd("run", "--once", tmp_path / "a.jsonl", "--state", tmp_path / "state", "--policy", own)
    verdict = one(tmp_path / "state", lambda verdict: bool(verdict["step"] == 4))
    arguments = ("explain", verdict["verdict_id"], "--state", tmp_path / "state")
    assert "name its file by --policy" in verifierd(*arguments).stdout
    assert "min-coverage 25 % for on path: reached" in verifierd(*arguments, "--policy", own).stdout
    own.write_text('name = "mine"\n')
    changed = verifierd(*arguments, "--policy", own)
    assert changed.returncode == 78
    assert f"decided by {verdict['policy']}; the policy given is now {policy.load(str(own)).id}" in changed.stderr


def test_thresholds_are_told(tmp_path: Path, state: Path) -> None:
    """Score against threshold, p-value, and the trajectory's evidence against its level are told in words."""
    verdict = {
        **one(state, off_path),
        "score": 7.25,
        "threshold": 4.5,
        "p_value": 0.0004,
        "alarm": {"statistic": 31.0, "threshold": 20.0, "raised": True, "new": False, "first_bad": 3},
        "policy": "gone@0",
    }
    (tmp_path / "v.jsonl").write_bytes(jsonl(verdict))
    told = verifierd("explain", verdict["verdict_id"], "--verdicts", tmp_path / "v.jsonl").stdout
    assert "score 7.25 (0 is as predicted), above 4.5, which few clean steps" in told
    assert "p-value 0.0004: so odd or odder are 0.04 % of clean steps" in told
    assert "raised before: evidence 31, above the level 20" in told
    assert "the suspected first bad step is 3" in told


def test_hostile_text_stays_text(tmp_path: Path, state: Path) -> None:
    """Names and details with control characters, markup and many lines are shown, not obeyed."""
    verdict = {**one(state, off_path), "trajectory": "[red]t\x1b[31m", "detail": "a\nb", "observed": "\x1b]0;\x07"}
    (tmp_path / "v.jsonl").write_bytes(jsonl(verdict))
    told = verifierd("explain", verdict["verdict_id"], "--verdicts", tmp_path / "v.jsonl").stdout
    assert "\x1b" not in told
    assert "\x07" not in told
    assert "[red]t" in told
    assert "a\\nb" in told


def test_a_running_daemon_is_asked_beside_its_work(tmp_path: Path) -> None:
    """The database of a daemon at work is read, and the daemon goes on."""
    path = tmp_path / "a.jsonl"
    lines = wrong_once(counter("t", 8), 6, WRONG)
    path.write_bytes(jsonl(*lines[:7]))
    with Live(tmp_path / "state", path, "--port", "0") as daemon:
        daemon.wait(lambda: len(daemon.steps) == 7)
        verdict = one(tmp_path / "state", off_path)
        told = verifierd("explain", verdict["verdict_id"][:16], "--state", tmp_path / "state")
        assert "Step 6 of t is off path" in told.stdout
        with path.open("ab") as file:
            file.write(jsonl(lines[7]))
        daemon.wait(lambda: len(daemon.steps) == 8)
        assert daemon.stop() == 0


def test_an_acknowledged_alarm_is_told_of_every_step_of_its_trajectory(tmp_path: Path) -> None:
    """Who knows of the alarm is told, at the step that raised it and at the others."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*wrong_once(counter("t", 8), 6, WRONG)))
    with Live(tmp_path / "state", path, "--port", "0") as daemon:
        daemon.wait(lambda: len(daemon.steps) == 8)
        alarm = one(tmp_path / "state", off_path)["verdict_id"]
        code, answer = daemon.post(f"/api/alarms/{alarm}/ack", b'{"by": "ada", "note": "looking"}')
        assert (code, json.loads(answer)["id"]) == (200, alarm)
        other = one(tmp_path / "state", lambda verdict: bool(verdict["step"] == 8))["verdict_id"]
        for identity, where in ((alarm, "raised at this step"), (other, "the trajectory alarmed at step 6")):
            told = verifierd("explain", identity, "--state", tmp_path / "state").stdout
            assert where in told
            assert "by ada: looking" in told
        assert daemon.stop() == 0


def test_a_calibrated_policy_is_told_with_what_it_learnt(tmp_path: Path) -> None:
    """p-value against step-alpha, evidence against the alarm's level; one that only measures says so."""
    clean, odd = (
        Scored("bash", "terminal", 0.0, deterministic=True),
        Scored("bash", "terminal", 1.0, deterministic=True),
    )
    learnt = calibrate([Trajectory(str(n), (clean, odd if n % 4 == 0 else clean, *[clean] * 8)) for n in range(200)])
    made = Calibrated(date="2026-01-01", predictor="shell", policy="default@0", learnt=learnt)
    mine = policy.load("default")
    for name, alarms in (("loud", True), ("quiet", False)):
        whole = msgspec.structs.replace(made, hash=made.digest)
        document = msgspec.structs.replace(mine, name=name, alarms=alarms, calibration=whole)
        own = tmp_path / f"{name}.toml"
        own.write_text(toml(document))
        (tmp_path / "a.jsonl").write_bytes(jsonl(*wrong_once(counter("t", 6), 6, WRONG)))
        state = tmp_path / name
        verifierd("run", "--once", tmp_path / "a.jsonl", "--state", state, "--policy", own)
        verdict = one(state, off_path)
        told = verifierd("explain", verdict["verdict_id"], "--state", state, "--policy", own).stdout
        assert f"p-value {verdict['p_value']:.4g}: so odd or odder are" in told
        assert "by that alone a step is off path up to 1 %" in told
        assert f"evidence {verdict['alarm']['statistic']:.4g}, " in told
        assert f"the level {learnt.level:.4g}" in told
        assert ("never alarms" in told) is not alarms
        assert ("alarms whatever the evidence is" in told) is (alarms and "not above the level" in told)
        assert "not calibrated" not in told
