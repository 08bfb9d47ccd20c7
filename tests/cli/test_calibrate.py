"""`verifierd calibrate`: from clean logs to a policy that is used."""

import json
from pathlib import Path

import pytest

from tests.helpers import counter, jsonl, verifierd, wrong_once


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clean sessions, one that is labelled, and one with a contradiction."""
    path = tmp_path_factory.mktemp("calibrate") / "clean.jsonl"
    lines = [line for n in range(44) for line in counter(f"t{n}", 4)]
    labelled = [{**line, "label": "off_path"} for line in counter("l", 4)]
    path.write_bytes(jsonl(*lines, *labelled, *wrong_once(counter("w", 4), 4, "9 notes.txt\n")))
    return path


def test_a_policy_is_written_and_used(clean: Path, tmp_path: Path) -> None:
    """The document says what it rests on; a replay alarms by it, and is told where another chain judges."""
    out = tmp_path / "mine.toml"

    done = verifierd("calibrate", clean, "--predictor", "shell", "--alpha", ".1", "--out", out, "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["conclusive"], found["missing"], found["alpha"], found["step_alpha"]) == (True, 0, 0.1, 0.001)
    assert (found["predictor"], found["model"], found["fusion"]) == ("shell", None, None)
    assert found["trajectories"]["read"] == 46
    assert (found["trajectories"]["labelled"], found["trajectories"]["contradicted"]) == (1, 1)
    assert found["trajectories"]["reference"] + found["trajectories"]["level"] == 44
    assert found["alarms"]["value"] == 0
    assert f'hash = "{found["hash"]}"' in out.read_text()

    replayed = verifierd("replay", clean, "--policy", out, "--json")
    assert json.loads(replayed.stdout)["verdicts"]["off_path"] == 1
    assert "its calibration is of another judge" not in replayed.stderr

    other = verifierd("replay", clean, "--policy", out, "--predictor", "shell,contracts", "--json")
    assert other.stderr.count("of another judge: the chain of predictors was shell, and is shell,contracts") == 1


def test_people_are_told(clean: Path, tmp_path: Path) -> None:
    """What was left out, what came out, and how to use it."""
    out, page = tmp_path / "mine.toml", tmp_path / "mine.html"
    done = verifierd("calibrate", clean, "--predictor", "shell", "--alpha", ".1", "--out", out, "--report", page)

    assert "46 trajectories read; left out: 1 labelled off path, 1 with something certain contradicted" in done.stdout
    assert "tried on each fifth" in done.stdout
    assert "--policy " in done.stdout
    assert done.stderr == ""
    assert "What mine was calibrated on" in page.read_text(encoding="utf-8")


def test_too_few_are_inconclusive(clean: Path, tmp_path: Path) -> None:
    """It is said with how many are missing, and the policy is written all the same."""
    out = tmp_path / "mine.toml"

    done = verifierd("calibrate", clean, "--predictor", "shell", "--limit", "40", "--out", out)

    assert done.returncode == 0
    assert "INCONCLUSIVE" in done.stderr
    assert "needs 19 clean trajectories with a score and has 5; about 28 more are missing" in done.stderr
    assert verifierd("policies", "show", out).returncode == 0


def test_a_damaged_calibration_is_an_error(clean: Path, tmp_path: Path) -> None:
    """Wherever the policy is used, with what to do."""
    out = tmp_path / "mine.toml"
    verifierd("calibrate", clean, "--predictor", "shell", "--limit", "40", "--out", out)
    out.write_text(out.read_text().replace("alpha = 0.05", "alpha = 0.9"))

    done = verifierd("replay", clean, "--policy", out)

    assert done.returncode == 78
    assert "damaged or was changed by hand" in done.stderr
    assert "[calibration]" in done.stderr


def test_a_wrong_use(clean: Path, tmp_path: Path) -> None:
    """Without a file to write, onto its own input, with an impossible share; and where there is nothing to read."""
    assert "--out" in verifierd("calibrate", clean).stderr
    assert verifierd("calibrate", clean).returncode == 2
    assert verifierd("calibrate", clean, "--out", clean).returncode == 2
    assert verifierd("calibrate", clean, "--out", tmp_path / "m.toml", "--alpha", "1").returncode == 2
    (tmp_path / "prose.jsonl").write_text("prose\n")
    done = verifierd("calibrate", tmp_path / "prose.jsonl", "--out", tmp_path / "m.toml")
    assert done.returncode == 1
    assert "no policy was written" in done.stderr
    assert not (tmp_path / "m.toml").exists()
    done = verifierd("calibrate", clean, "--limit", "4", "--out", tmp_path / "none" / "m.toml")
    assert (done.returncode, "cannot be written" in done.stderr) == (78, True)
