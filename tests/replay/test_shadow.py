"""Shadow injection: what it finds, and that nothing real depends on it."""

import importlib.util
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.helpers import Bench, Live, bench, counter, echo, guess, jsonl, native, ran, reading, wrong_once
from verifierd.config import ModelConfig, ShadowConfig
from verifierd.pipeline import Judge, Shadowed
from verifierd.policy import DOMAINS, Asking, Memory, decide, load
from verifierd.predictors import PredictorSettings, open_predictor
from verifierd.predictors.chain import Chain
from verifierd.predictors.contracts import ContractsPredictor
from verifierd.predictors.scripted import ScriptedPredictor
from verifierd.predictors.shell import ShellPredictor
from verifierd.replay.shadow import Injector
from verifierd.scoring import open_scorers
from verifierd.scoring.contracts import contracts
from verifierd.sinks.jsonl import JsonlSink
from verifierd.store import Store
from verifierd.types import (
    History,
    Likelihood,
    ObservationKind,
    Prediction,
    Seconds,
    Step,
    Verdict,
    VerdictKind,
)

pytestmark = pytest.mark.anyio

ON, OFF = VerdictKind.ON_PATH, VerdictKind.OFF_PATH
EVERY = ShadowConfig(share=1.0)


def judge(predictor: Any = None) -> Judge:
    policy = load("default")
    return Judge(
        predictor=predictor or ScriptedPredictor(),
        scorers=open_scorers(policy),
        policy=policy,
        sanitise=lambda verdict: verdict,
    )


def verdict(step: Step, text: str | None) -> Verdict:
    """What is made of a step of which a text was expected."""
    prediction, history = guess(text, exit_code=0), History(step.key)
    policy = load("default")
    scores = [scorer(history, step, prediction) for scorer in open_scorers(policy)]
    fields: dict[str, Any] = {"predictor": "scripted", "model": None, "time": "", "seconds": Seconds()}
    return decide(policy, Memory(), step, prediction, scores, **fields)[1]


def case(
    step: Step, past: Sequence[Step] = (), prediction: Prediction | None = None, by: Judge | None = None
) -> Shadowed:
    """A step that was predicted in full."""
    history = History(step.key)
    for one in past:
        history.append(one)
    return Shadowed(
        judge=by or judge(),
        memory=Memory(),
        history=history,
        step=step,
        prediction=prediction or guess(step.observation, exit_code=step.exit_code),
    )


def counted(it: Bench, name: str) -> dict[tuple[str, ...], float]:
    """The counts of a metric that are not 0, by the values of its labels."""
    found = it.metrics.registry.restricted_registry([f"verifierd_{name}"]).collect()
    return {tuple(sample.labels.values()): sample.value for one in found for sample in one.samples if sample.value}


def shadowed(it: Bench) -> dict[tuple[str, ...], float]:
    """Kinds and verdicts of what was judged in the shadow."""
    return counted(it, "shadow_verdicts_total")


def skipped(it: Bench, reason: str) -> float:
    return counted(it, "shadow_skipped_total").get((reason,), 0)


def knowing(_history: History, step: Step) -> Prediction:
    """Predicts what came, however slow the machine is."""
    return guess(step.observation, exit_code=step.exit_code)


class Told(Injector):
    """One that knows how many it picked."""

    taken = 0

    def picks(self, step: Step, verdict: Verdict) -> bool:
        picked = super().picks(step, verdict)
        self.taken += picked
        return picked


@asynccontextmanager
async def shadowing(it: Bench, shadow: Told) -> AsyncIterator[None]:
    """The shadow at work; in the end all that is left is judged."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(it.pipeline.shadowing)
        yield
        await idle(it, shadow)
        tasks.cancel_scope.cancel()


async def idle(it: Bench, shadow: Told) -> None:
    """Wait until every picked step was judged or skipped."""

    def done() -> float:
        return sum((*shadowed(it).values(), *counted(it, "shadow_skipped_total").values()))

    with anyio.fail_after(60):
        while done() < shadow.taken:  # noqa: ASYNC110 - nothing tells of it but the metrics
            await anyio.sleep(0.005)


def test_a_share_of_what_is_on_path_is_picked() -> None:
    """About that share, the same ones each time, others with another seed; nothing that is off path or abstained."""
    steps = [ran(f"echo {n}", f"{n}\n", index=n) for n in range(1, 401)]

    def picked(seed: int) -> list[int]:
        injector = Injector(ShadowConfig(share=0.25, seed=seed))
        return [step.index for step in steps if injector.picks(step, verdict(step, step.observation))]

    assert 70 < len(picked(1)) < 130
    assert picked(1) == picked(1) != picked(2)
    injector = Injector(EVERY)
    assert not any(injector.picks(step, verdict(step, text)) for step in steps[:20] for text in ("other\n", None))
    wrong = ran("echo 1", "1\n", label=OFF)
    assert not injector.picks(wrong, verdict(wrong, "1\n"))
    poll = ran("echo 1", "1\n", observation_kind=ObservationKind.POLL)
    assert not injector.picks(poll, verdict(poll, "1\n"))


async def test_a_fault_in_what_is_certain_is_seen() -> None:
    """Where all was predicted, every kind of fault that is possible is off path, and all of them are drawn."""
    injector = Injector(EVERY)
    past = [ran("cat a.txt", "alpha 1\nbeta 2\n"), ran("ls", "a.txt\nb.txt\n", index=2)]
    found = [
        await injector.judge(case(ran("cat b.txt", f"gamma {n}\ndelta b.txt\nepsilon 5\n", index=3), past))
        for n in range(200)
    ]
    kinds = {kind for kind, _ in filter(None, found)}
    assert {word for _, word in filter(None, found)} == {OFF}
    assert {"line_dropped", "number_changed", "stale", "error_flip", "role_break", "empty", "another_step"} <= kinds


async def test_a_fault_that_nobody_could_know_is_missed() -> None:
    """Where only the status was checked, a changed number is not seen; the verdict is that of the real step."""
    injector = Injector(ShadowConfig(share=1.0, kinds=("number_changed",)))
    step = ran("wc -l a.txt", "17 a.txt\n")
    found = await injector.judge(case(step, prediction=guess(None)))
    assert found == ("number_changed", VerdictKind.ABSTAIN)


async def test_nothing_happens_where_no_fault_is_possible() -> None:
    """A step without a number has none to change."""
    injector = Injector(ShadowConfig(share=1.0, kinds=("number_changed", "key_renamed")))
    assert await injector.judge(case(ran("echo hi", "hi\n"))) is None


async def test_it_borrows_from_other_trajectories() -> None:
    """Clean steps of others are kept to borrow from, not too many and not the longest; own and wrong ones never."""
    injector = Injector(ShadowConfig(share=1.0, kinds=("another_session",)))
    step = ran("cat a.txt", "mine\n", trajectory="me")

    async def borrowed() -> bool:
        return await injector.judge(case(step)) == ("another_session", OFF)

    for other, text in (
        (ran("cat a.txt", "mine too\n", trajectory="me"), "mine too\n"),
        (ran("cat a.txt", "wrong\n", trajectory="wrong"), "right\n"),
        (ran("cat a.txt", "x" * 50_000, trajectory="long"), "x" * 50_000),
    ):
        injector.picks(other, verdict(other, text))
    assert not await borrowed()
    for n in range(1000):
        other = ran("cat a.txt", f"other {n}\n", trajectory=f"t{n}")
        injector.picks(other, verdict(other, None))
    assert await borrowed()
    assert len(injector._clean) == 256
    assert len({int(one.trajectory[1:]) // 250 for one in injector._clean if one.trajectory != "me"}) == 4


async def test_the_history_is_what_it_was() -> None:
    """A case that waited is judged after the steps before it, whatever came since, also where old ones are gone."""
    seen: list[list[int]] = []
    plain = judge()

    def scorer(history: History, step: Step, prediction: Prediction) -> Any:
        seen.append([history.dropped, *(one.index for one in history)])
        return plain.scorers[0](history, step, prediction)

    by = Judge(predictor=plain.predictor, scorers=(scorer,), policy=plain.policy, sanitise=plain.sanitise)
    live = History(("native", "t"), limit=3000)
    cases = []
    for n in range(1, 21):
        step = ran(f"echo {n}", f"{n}\n" + "x" * 300, index=n)
        if n in (3, 4, 9, 20):
            fields: dict[str, Any] = {"memory": Memory(), "prediction": guess(step.observation, exit_code=0)}
            cases.append(Shadowed(judge=by, history=live.copy(), step=step, **fields))
        live.append(step)
    was = [[one.history.dropped, *(step.index for step in one.history)] for one in cases]
    injector = Injector(EVERY)
    for one in cases:
        await injector.judge(one)
    assert seen == was
    assert seen[1] == [0, 1, 2, 3]
    assert seen[3][0] > 0
    assert seen[3][-1] == 19


async def test_a_model_is_asked_about_what_is_altered() -> None:
    """What it said of the real observation does not hold for another; it is asked without a trace, the rest stays."""
    asked: list[tuple[str, bool]] = []

    class Model(ScriptedPredictor):
        model = "m"

        async def predict(self, _history: History, step: Step, *, keep: bool = True) -> Prediction:
            asked.append((step.observation, keep))
            return Prediction(predictor="scripted", text="hello 1\n", model="m", likelihood=Likelihood())

    step = ran("echo hello 1", "hello 1\n")
    said = Prediction(predictor="scripted", text="hello 1\n", model="m", likelihood=Likelihood())
    injector = Injector(ShadowConfig(share=1.0, kinds=("number_changed",)))
    assert await injector.judge(case(step, prediction=said, by=judge(Model()))) is not None
    assert [keep for _, keep in asked] == [False]
    assert asked[0][0] != step.observation
    assert await injector.judge(case(step, by=judge(Model()))) == ("number_changed", OFF)
    assert len(asked) == 1, "it had not been asked about the real one"


def without_times(path: Path) -> list[dict[str, Any]]:
    """The verdicts of a file, but for when they were given and how long that took."""
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [{key: value for key, value in line.items() if key not in {"time", "seconds"}} for line in found]


async def run(log: Path, out: Path, open_one: Callable[[], Any], shadow: Told | None) -> Bench:
    """Judge a log, a few lines at a time, with the shadow working in between."""
    async with Store(None) as empty:
        sink = JsonlSink(out, empty)
        await sink.open()
        async with bench(predictor=open_one(), sinks=[sink], shadow=shadow) as it:
            opened = reading(log)
            async with shadowing(it, shadow) if shadow is not None else nullcontext():
                for number in itertools.count():
                    opened.lines = 1 + number % 3
                    if not await it.pipeline.pump(opened):
                        break
                    if shadow is not None:
                        await idle(it, shadow)
                await it.pipeline.finish(opened)
            await opened.source.aclose()
        await sink.aclose()
    return it


def covered(history: History, step: Step, prediction: Prediction) -> float:
    return contracts(history, step, prediction).coverage


def embedded() -> Chain:
    """As by default, but patient: a slow machine must not make a difference."""
    return Chain([ShellPredictor(deadline=60), ContractsPredictor()], covered=covered)


async def test_nothing_real_depends_on_it(tmp_path: Path) -> None:
    """With a share of 1 the verdicts, alarms included, are to the byte what they are without."""
    log = tmp_path / "log.jsonl"
    left, right = wrong_once(counter("left", 30), 14, "9 notes.txt\n"), echo("right", 30)
    log.write_bytes(jsonl(*(line for pair in zip(left, right, strict=True) for line in pair)))
    plain = await run(log, tmp_path / "plain.jsonl", embedded, None)
    both = await run(log, tmp_path / "both.jsonl", embedded, Told(EVERY))
    assert sum(shadowed(both).values()) > 30
    assert not shadowed(plain)
    assert without_times(tmp_path / "both.jsonl") == without_times(tmp_path / "plain.jsonl")
    assert any(one.alarm is not None and one.alarm.new for one in both.verdicts)
    names = ("alarms_total", "alarms_open")
    assert [both.count(name) for name in names] == [plain.count(name) for name in names] == [1, 1]
    words = [{"verdict": word.value} for word in VerdictKind]
    assert [both.count("verdicts_total", **word) for word in words] == [
        plain.count("verdicts_total", **word) for word in words
    ]


@pytest.mark.skipif(importlib.util.find_spec("mlx_lm") is None, reason="mlx-lm is not here")
async def test_a_models_caches_are_untouched(tmp_path: Path) -> None:
    """With a model, too: later steps find their caches, and cost the tokens that they cost without a shadow."""
    log = tmp_path / "log.jsonl"
    lines = [
        native("t", n, f"cat part-{n}.txt", f"part {n} of 9\nsize {n * 7}\n", exit_code=0, cwd="/w")
        for n in range(1, 9)
    ]
    log.write_bytes(jsonl(*lines))
    for domain in DOMAINS:
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "system_prompt.txt").write_text(f"You are a {domain}.")
    settings = PredictorSettings(
        covered=covered, model=ModelConfig(name="tiny", prompts=str(tmp_path)), asking=Asking(deadline=60.0)
    )

    class Bold(Told):
        """One that also picks what was not decided: a random model finds nothing on path."""

        def picks(self, step: Step, verdict: Verdict) -> bool:
            if not super().picks(step, verdict):
                self.taken += 1
            return True

    plain = await run(log, tmp_path / "plain.jsonl", lambda: open_predictor("contracts,mlx", settings), None)
    both = await run(log, tmp_path / "both.jsonl", lambda: open_predictor("contracts,mlx", settings), Bold(EVERY))
    assert sum(shadowed(both).values()) + skipped(both, "moved_on") == 8
    assert sum(shadowed(both).values()) >= 4
    assert without_times(tmp_path / "both.jsonl") == without_times(tmp_path / "plain.jsonl")
    assert [one.tokens for one in both.verdicts] == [one.tokens for one in plain.verdicts]
    assert both.verdicts[-1].tokens.computed > 0


async def test_a_queue_that_is_full_drops(tmp_path: Path) -> None:
    """Steps that nobody came to judge again are counted, and cost the real ones nothing."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(jsonl(*echo("t", 100)))
    async with bench(script=knowing, shadow=(shadow := Told(EVERY))) as it:
        await it.drain(log)
        assert skipped(it, "queue_full") == 36
        async with shadowing(it, shadow):
            pass
        assert sum(shadowed(it).values()) + skipped(it, "not_eligible") == 64
        assert {word for _, word in shadowed(it)} == {"off_path"}


async def test_a_former_judges_steps_are_dropped(tmp_path: Path) -> None:
    """What waits when the judge is exchanged is not judged again: its predictors may be closed."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(jsonl(*echo("t", 10)))
    async with bench(script=knowing, shadow=(shadow := Told(EVERY))) as it:
        await it.drain(log)
        await it.pipeline.exchange(judge())
        async with shadowing(it, shadow):
            pass
        assert (skipped(it, "reloaded"), shadowed(it)) == (10, {})


async def test_a_model_is_not_asked_about_what_is_long_ago(tmp_path: Path) -> None:
    """What a model has computed of a trajectory goes further by then; only the newest step is worth its time."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(jsonl(*echo("t", 10)))
    predictor = ScriptedPredictor(
        lambda _, step: Prediction(
            predictor="scripted", text=step.observation, certain=True, exit_code=0, model="m", likelihood=Likelihood()
        )
    )
    predictor.model = "m"
    async with bench(predictor=predictor, shadow=(shadow := Told(EVERY))) as it:
        opened = reading(log)
        opened.lines = 10
        await it.follow(opened)
        async with shadowing(it, shadow):
            pass
        await opened.source.aclose()
        assert (skipped(it, "moved_on"), sum(shadowed(it).values())) == (9, 1)


async def test_a_failure_costs_one_case(tmp_path: Path) -> None:
    """What fails in the shadow is counted and logged, and the next one gets its turn."""

    class Frail(Told):
        async def judge(self, case: Shadowed) -> tuple[str, VerdictKind] | None:
            if case.step.index == 2:
                raise ValueError("no")
            return await super().judge(case)

    log = tmp_path / "log.jsonl"
    log.write_bytes(jsonl(*echo("t", 5)))
    async with bench(script=knowing, shadow=(shadow := Frail(EVERY))) as it, shadowing(it, shadow):
        await it.drain(log)
    assert (skipped(it, "failed"), sum(shadowed(it).values())) == (1, 4)


def test_the_daemon_has_a_shadow(tmp_path: Path) -> None:
    """Switched on in the configuration, its figures are in the scrape and nothing of it in the verdicts."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("t", 20)))
    settings = tmp_path / "verifierd.toml"
    settings.write_text('[shadow]\nshare = 1.0\nkinds = ["role_break"]\n')
    with Live(tmp_path / "state", tmp_path / "a.jsonl", "--port", "0", "--config", settings) as daemon:
        wanted = 'verifierd_shadow_verdicts_total{kind="role_break",verdict="off_path"} 20.0'
        daemon.wait(lambda: wanted in daemon.get("/metrics")[1])
        assert daemon.stop() == 0
    assert {line["verdict"] for line in without_times(daemon.out)} == {"on_path"}
    assert len(daemon.steps) == 20
