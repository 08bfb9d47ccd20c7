"""The bundled sample trajectories: what a newcomer sees in them."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from verifierd.adapters import detect, open_adapter
from verifierd.policy import Memory, decide, load
from verifierd.predictors.shell import ShellPredictor
from verifierd.replay.record import load_script
from verifierd.replay.record.script import batches
from verifierd.scoring import open_scorers
from verifierd.types import History, ObservationKind, Origin, Record, Seconds, Step, Verdict, VerdictKind

REPLAY = Path(__file__).parents[1] / "replay"
SAMPLES = sorted((REPLAY / "trajectories").rglob("*.jsonl"))
NATIVE = [path for path in SAMPLES if path.parent.name == "trajectories"]
CLEAN = [path for path in SAMPLES if path.name != "off-path.jsonl"]


def format_of(path: Path) -> str:
    """The format that a sample's place promises."""
    parts = path.relative_to(REPLAY / "trajectories").parts
    return "native" if len(parts) == 1 else parts[0]


def steps_of(path: Path) -> list[Step]:
    """The steps of a sample."""
    adapter = open_adapter(format_of(path), path=str(path))
    steps: list[Step] = []
    start = 0
    for line in path.read_bytes().splitlines(keepends=True):
        origin = Origin(path=str(path), offset=start)
        start += len(line)
        steps.extend(adapter.feed(Record(origin=origin, end=start, data=line.rstrip(b"\n"))))
    return [*steps, *adapter.finish()]


async def verdicts_of(paths: Iterable[Path]) -> list[tuple[Step, Verdict]]:
    """Each step of samples with its verdict under the default policy, judged by the shell alone."""
    policy = load("default")
    scorers = open_scorers(policy)
    predictor = ShellPredictor()
    judged: list[tuple[Step, Verdict]] = []
    try:
        for path in paths:
            histories: dict[tuple[str, str], History] = {}
            for step in steps_of(path):
                history = histories.setdefault(step.key, History(step.key))
                prediction = await predictor.predict(history, step)
                _, verdict = decide(
                    policy,
                    Memory(),
                    step,
                    prediction,
                    [scorer(history, step, prediction) for scorer in scorers],
                    predictor="shell",
                    model=None,
                    time="2026-01-12T09:00:00Z",
                    seconds=Seconds(),
                )
                judged.append((step, verdict))
                history.append(step)
    finally:
        await predictor.aclose()
    return judged


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_sample_is_small_and_anonymous(path: Path) -> None:
    """A sample is under 60 KB, its format is recognised, and it names no place but the shown home."""
    data = path.read_bytes()
    assert 0 < len(data) < 60_000
    assert detect(data.splitlines()[:64], str(path)) == format_of(path)
    text = data.decode()
    assert not any(place in text for place in (tempfile.gettempdir(), str(Path.home()), str(REPLAY.parent)))


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: path.name)
def test_native_sample_plays_its_script(path: Path) -> None:
    """The actions of a native sample are the commands of its script, in order: it was not edited by hand."""
    script = load_script((REPLAY / "scripts" / f"{path.stem}.toml").read_bytes(), name=path.stem)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for part in script.parts:
        actions = [line["action"] for line in lines if line["trajectory"] == part.name]
        assert actions == [move.run for batch in batches(part.moves) for move in batch if move.run is not None]


def test_samples_pair_every_call() -> None:
    """Every call of the samples has its observation; the kinds of observation are those that the scripts play."""
    kinds: dict[str, Counter[str]] = {}
    for path in SAMPLES:
        kinds.setdefault(format_of(path), Counter()).update(step.observation_kind for step in steps_of(path))
    assert all(ObservationKind.MISSING not in counts for counts in kinds.values())
    assert kinds["native"] == {ObservationKind.ENV: 88}
    assert kinds["claude_code"][ObservationKind.HARNESS_ERROR] == 1
    assert kinds["codex"][ObservationKind.ENV] == 18


def test_labels_tell_where_reality_departed() -> None:
    """One step of each off-path trajectory is labelled, and no other."""
    labels = {
        (step.trajectory, step.index, step.label_kind) for path in NATIVE for step in steps_of(path) if step.label
    }
    assert labels == {("config-drift", 7, "outside_change"), ("stale-count", 6, "stale")}


@pytest.mark.anyio
async def test_clean_samples_are_never_off_path() -> None:
    """No step of a sample in which nothing went wrong is off path."""
    wrong = [
        (step.trajectory, step.index, step.action.text, verdict.predicted, verdict.observed)
        for step, verdict in await verdicts_of(CLEAN)
        if verdict.verdict is VerdictKind.OFF_PATH
    ]
    assert wrong == []


@pytest.mark.anyio
async def test_most_native_steps_are_decided() -> None:
    """At least 60 % of the steps of the native samples get a verdict other than `abstain`, yet not all do."""
    judged = [verdict.verdict is not VerdictKind.ABSTAIN for _, verdict in await verdicts_of(NATIVE)]
    assert 0.6 * len(judged) <= sum(judged) < len(judged)


@pytest.mark.anyio
async def test_departures_are_found_once() -> None:
    """Exactly the labelled steps are off path: nothing cascades."""
    judged = await verdicts_of([REPLAY / "trajectories" / "off-path.jsonl"])
    found = [(step.trajectory, step.index) for step, verdict in judged if verdict.verdict is VerdictKind.OFF_PATH]
    assert found == [(step.trajectory, step.index) for step, _ in judged if step.label is VerdictKind.OFF_PATH]
    last = dict(found)
    after = Counter(verdict.verdict for step, verdict in judged if step.index > last[step.trajectory])
    assert after[VerdictKind.ON_PATH] > after[VerdictKind.ABSTAIN]


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["claude_code", "codex"])
async def test_agents_logs_hold_decided_steps(name: str) -> None:
    """Some steps of each agent's sample are decided, too, although nothing tells which shell ran them."""
    judged = await verdicts_of(path for path in SAMPLES if format_of(path) == name)
    assert sum(verdict.verdict is VerdictKind.ON_PATH for _, verdict in judged) >= 2
