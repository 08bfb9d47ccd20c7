"""What is learnt from clean trajectories, and what a policy that was learnt does then."""

import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.helpers import Keep, claude, counter, echo, jsonl, native, wrong_once
from verifierd.calibration import Evidence, evaluate, evaluate_all, fit, rate, tabulate
from verifierd.composition import Choice, judging
from verifierd.errors import FormatError, PolicyError, SourceError, VerifierdError
from verifierd.metrics import Metrics
from verifierd.pipeline import Judge, Reading
from verifierd.policy import Memory, load
from verifierd.replay.calibrate import Learnt, Options, calibrated, learn, toml
from verifierd.replay.runner import replay
from verifierd.replay.runs import runs
from verifierd.sanitize import Sanitizer
from verifierd.scoring import open_scorers
from verifierd.sources import open_source
from verifierd.store import Store
from verifierd.types import History, Likelihood, Prediction, Step, Verdict, VerdictKind

pytestmark = pytest.mark.anyio

SHELL = Choice(predictor="shell")


class Guess:
    """A model of sorts: words that stand in the history surprise it little, others much; all as if at random."""

    name = "mlx"
    model = "guess@1"

    async def predict(self, history: History, step: Step) -> Prediction:
        """How likely what came was."""
        known = {word for past in history for word in (past.action.text + " " + past.observation).split()}
        known |= set(step.action.text.split())
        tokens = []
        for place, word in enumerate((*step.observation.split(), "")):
            draw = random.Random(f"{place}/{word}/{step.trajectory}")
            tokens.append((0.1 if word in known or not word else 4.0) * draw.uniform(0.5, 2.0))
        count = len(tokens)
        return Prediction(
            predictor="mlx",
            model=self.model,
            likelihood=Likelihood(
                surprisal=tuple(tokens), entropy=(1.0,) * count, varentropy=(1.0,) * count, top=(0.05,) * count
            ),
        )

    async def aclose(self) -> None:
        """Nothing is held."""


def judge(predictor: Any) -> Judge:
    """Who judges by the default policy."""
    policy = load("default")
    return Judge(predictor=predictor, scorers=open_scorers(policy), policy=policy, sanitise=lambda verdict: verdict)


def sessions(folder: Path, count: int, *, steps: int = 6) -> Path:
    """A file of clean sessions that the shell follows."""
    path = folder / "clean.jsonl"
    path.write_bytes(jsonl(*(line for n in range(count) for line in counter(f"t{n}", steps, word=f"w{n}"))))
    return path


async def from_shell(path: Path, options: Options | None = None) -> Learnt:
    """What the shell makes of a file."""
    return await calibrated(await runs([path]), SHELL, options or Options(), name="mine", date="2026-01-01")


async def guessed(folder: Path, count: int = 60, options: Options | None = None) -> Learnt:
    """What the model of sorts makes of sessions in which each step prints what is known, and something new."""
    draw = random.Random(1)
    path = folder / "guessed.jsonl"
    path.write_bytes(
        jsonl(
            *(
                native(f"g{n}", step, f"show item-{step}", f"item-{step} is {draw.randint(1, 9)} of {n}\nthe end\n")
                for n in range(count)
                for step in range(1, 5)
            )
        )
    )
    found = await runs([path])
    return await learn(found, judge(Guess()), options or Options(), name="mine", date="2026-01-01")


def saved(learnt: Learnt, folder: Path) -> str:
    """The policy as a file."""
    path = folder / "mine.toml"
    path.write_text(toml(learnt.policy))
    return str(path)


async def judged(path: Path, choice: Choice) -> list[Verdict]:
    """The verdicts on a file, without when and how fast."""
    kept = Keep()
    await replay([path], choice, sinks=[kept])
    return [plain(verdict) for verdict in kept.verdicts]


def plain(verdict: Verdict) -> Verdict:
    """Without when and how fast."""
    return msgspec.structs.replace(verdict, time="", seconds=type(verdict.seconds)())


async def test_a_session_hangs_together(tmp_path: Path) -> None:
    """Sub-agents belong to their session, and a session that copies another's steps to that one."""
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    lines = [*claude("s1", [("toolu_01AbCdEfGhIjKl", "ls", "a\n")])]
    side = [
        {**line, "isSidechain": True, "agentId": "a1"}
        for line in claude("s1", [("toolu_01AbCdEfGhIjKm", "pwd", "/\n")])
    ]
    one.write_bytes(jsonl(*lines, *side))
    other.write_bytes(
        jsonl(*claude("s2", [("toolu_01AbCdEfGhIjKl", "ls", "a\n"), ("toolu_01AbCdEfGhIjKn", "id", "x\n")]))
    )

    found = await runs([one, other])

    assert [run.key[1] for run in found] == ["s1", "s1/a1", "s2"]
    assert len({run.group for run in found}) == 1
    assert [run.copied for run in found] == [set(), set(), {0}]


async def test_files_may_use_the_same_names(tmp_path: Path) -> None:
    """Native trajectories are their file's, and a step 1 begins another; agents of one trajectory hang together."""
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_bytes(jsonl(*echo("t", 3), *echo("t", 2), native("t", 1, "echo a", "a\n", agent="x")))
    other.write_bytes(jsonl(*counter("t", 2)))

    found = await runs([one, other])
    by_file = await runs([one, other], group="file")

    assert [len(run.steps) for run in found] == [3, 2, 1, 2]
    assert [run.copied for run in found] == [set(), {0, 1}, set(), set()]
    assert [run.group == found[0].group for run in found] == [True, True, True, False]
    assert [run.group for run in by_file] == [str(one)] * 3 + [str(other)]


async def test_trajectories_are_taken_whole(tmp_path: Path) -> None:
    """As many as fit into the limit, one at least."""
    path = sessions(tmp_path, 4)

    assert [len(run.steps) for run in await runs([path], limit=17)] == [6, 6]
    assert [len(run.steps) for run in await runs([path], limit=2)] == [6]


async def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """And the rest is taken."""
    (tmp_path / "prose.jsonl").write_text("prose\n")
    told: list[VerifierdError] = []

    found = await runs([tmp_path / "none.jsonl", tmp_path / "prose.jsonl", sessions(tmp_path, 1)], tell=told.append)

    assert [type(error) for error in told] == [SourceError, FormatError]
    assert len(found) == 1


async def test_a_policy_is_learnt_and_written(tmp_path: Path) -> None:
    """It is whole, and reads back as it was."""
    learnt = await from_shell(sessions(tmp_path, 42))
    read = load(saved(learnt, tmp_path))

    assert (read.name, read.predictors) == ("mine", ("shell",))
    assert msgspec.json.encode(read) == msgspec.json.encode(learnt.policy)
    assert learnt.made.learnt.level is not None
    assert learnt.missing == 0
    assert (learnt.trajectories, learnt.labelled, learnt.contradicted, learnt.unscored) == (42, 0, 0, 0)
    assert (learnt.made.predictor, learnt.made.model, learnt.made.date) == ("shell", None, "2026-01-01")
    assert learnt.made.learnt.sizes.trajectories == 42
    assert max(map(len, toml(learnt.policy).splitlines())) <= 120


async def test_empty_rules_are_kept(tmp_path: Path) -> None:
    """Without them the written policy would be another than the calibrated one, and judging by it would warn."""
    (tmp_path / "base.toml").write_text('name = "base"\n[domains.web]\n[tools.Bash]\n')
    choice = Choice(predictor="shell", policy=str(tmp_path / "base.toml"))

    learnt = await calibrated(await runs([sessions(tmp_path, 2)]), choice, Options(), name="mine", date="2026-01-01")

    assert load(saved(learnt, tmp_path)).unlike("shell", None) == ()


async def test_a_changed_calibration_is_refused(tmp_path: Path) -> None:
    """A number edited by hand, a hash taken out: the error names what is wrong."""
    learnt = await from_shell(sessions(tmp_path, 42))
    path = tmp_path / "mine.toml"
    text = toml(learnt.policy)
    for old, new in (("alpha = 0.05", "alpha = 0.5"), ("hash = ", "# hash = ")):
        assert text.count(old) >= 1
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(PolicyError, match=r"mine\.toml: the calibration is damaged or was changed") as caught:
            load(str(path))
        assert "verifierd calibrate" in caught.value.hint


async def test_what_is_not_clean_is_left_out(tmp_path: Path) -> None:
    """Labelled trajectories and those with a certain contradiction, each counted."""
    path = tmp_path / "some.jsonl"
    labelled = [{**line, "label": "off_path"} for line in echo("l", 2)]
    path.write_bytes(jsonl(*echo("a", 3), *wrong_once(echo("b", 3), 2, "9\n"), *labelled))
    done: list[int] = []

    found = await runs([path])
    learnt = await calibrated(found, SHELL, Options(), name="mine", date="", on=done.append)

    assert (learnt.trajectories, learnt.labelled, learnt.contradicted, learnt.steps) == (3, 1, 1, 3)
    assert sum(done) == 6


async def test_too_few_are_inconclusive(tmp_path: Path) -> None:
    """It says how many are missing; steps are calibrated, and what is certain alarms as before."""
    learnt = await from_shell(sessions(tmp_path, 10))
    name = saved(learnt, tmp_path)
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_bytes(jsonl(*wrong_once(echo("w", 4), 3, "9\n")))

    verdicts = await judged(wrong, Choice(predictor="shell", policy=name))

    assert learnt.made.learnt.level is None
    assert learnt.missing == 28  # 19 for the level with 5 there, and as many for the reference
    assert [verdict.p_value is not None for verdict in verdicts] == [True] * 4
    assert [verdict.alarm is not None and verdict.alarm.new for verdict in verdicts] == [False, False, True, False]


async def test_nothing_scored_is_inconclusive(tmp_path: Path) -> None:
    """Where every step abstains the file is written all the same."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(native("t", 1, "cat unknown", "x\n")))

    learnt = await from_shell(path)

    assert (learnt.unscored, learnt.scored, learnt.missing) == (1, 0, 38)
    assert load(saved(learnt, tmp_path)).calibration == learnt.made


async def test_a_fusion_is_fitted_to_faults(tmp_path: Path) -> None:
    """A third of the groups is for it, the weights are readable, and faults score higher than what is true."""
    learnt = await guessed(tmp_path)
    text = toml(learnt.policy)

    assert learnt.policy.surprise is not None
    assert learnt.policy.surprise.fitted
    assert (learnt.fitting, learnt.trajectories) == (20, 60)
    assert learnt.clean == 80
    assert learnt.faulty >= 80
    assert learnt.made.learnt.sizes.trajectories == 40
    assert "[surprise.terms]\nmean = { weight = " in text
    read = load(saved(learnt, tmp_path))
    assert msgspec.json.encode(read) == msgspec.json.encode(learnt.policy)
    assert toml((await guessed(tmp_path)).policy) == text


async def test_a_model_asked_for_too_little_is_not_fitted(tmp_path: Path) -> None:
    """The shipped fusion serves, and all trajectories give thresholds."""
    learnt = await guessed(tmp_path, 8)

    assert learnt.policy.surprise is None
    assert (learnt.fitting, learnt.clean, learnt.made.learnt.sizes.trajectories) == (0, 0, 8)
    assert learnt.scored == 32


async def test_a_replay_gathers_what_was_calibrated(tmp_path: Path) -> None:
    """The p-values of a replay are those of `evaluate`; twice the same input gives the same verdicts, bit for bit."""
    path = sessions(tmp_path, 42)
    learnt = await from_shell(path)
    choice = Choice(predictor="shell", policy=saved(learnt, tmp_path))

    first, second = [await judged(path, choice) for _ in range(2)]

    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    wanted = evaluate(learnt.made.learnt, learnt.judged[0])
    found = [verdict.alarm for verdict in first if verdict.trajectory == "t0" and verdict.alarm is not None]
    assert found[-1].statistic == wanted.statistic
    assert not any(verdict.alarm is not None and verdict.alarm.raised for verdict in first)


async def evidence(path: Path, choice: Choice, *, state: Path) -> Evidence:
    """What has gathered in the trajectory once the rest of the file is read."""
    async with (
        Store(state) as store,
        judging(choice, store=store, sinks=[], metrics=Metrics(), sanitizer=Sanitizer(b"x")) as pipeline,
    ):
        known = await store.file(str(path))
        opened = Reading(
            open_source(path, known.position if known else None), end=known.position.offset if known else 0
        )
        while await pipeline.pump(opened):
            pass
        await pipeline.finish(opened)
        kept = await store.trajectory(("native", "t"))
    assert kept is not None
    return msgspec.msgpack.decode(kept.memory, type=Memory).evidence


async def test_evidence_survives_a_restart(tmp_path: Path) -> None:
    """A daemon that stops after each few steps ends with the evidence of one that does not."""
    learnt = await from_shell(sessions(tmp_path, 60), Options(alpha=0.05))
    choice = Choice(predictor="shell", policy=saved(learnt, tmp_path))
    lines = wrong_once(counter("t", 12), 6, "9 notes.txt\n")
    path = tmp_path / "t.jsonl"

    path.write_bytes(jsonl(*lines))
    whole = await evidence(path, choice, state=tmp_path / "one")
    for count in (3, 5, 7, 12):
        path.write_bytes(jsonl(*lines[:count]))
        parted = await evidence(path, choice, state=tmp_path / "other")

    assert msgspec.json.encode(parted) == msgspec.json.encode(whole)
    assert whole.alarm == 6


@pytest.mark.slow
async def test_long_ones_do_not_alarm(tmp_path: Path) -> None:
    """Neither 500 steps that match nor 500 that abstain, whatever was learnt from short ones."""
    learnt = await from_shell(sessions(tmp_path, 42))
    choice = Choice(predictor="shell", policy=saved(learnt, tmp_path))
    path = tmp_path / "long.jsonl"
    path.write_bytes(jsonl(*echo("match", 500), *(native("open", n, "cat unknown", f"{n}\n") for n in range(1, 501))))

    verdicts = await judged(path, choice)

    kinds = {verdict.trajectory: verdict.verdict for verdict in verdicts}
    assert kinds == {"match": VerdictKind.ON_PATH, "open": VerdictKind.ABSTAIN}
    assert not any(verdict.alarm is not None and verdict.alarm.raised for verdict in verdicts)


def far(learnt: Learnt, alpha: float) -> float:
    """The false-alarm rate: over 40 deals by trajectory a third each for reference, level, and trying it out."""
    table, shares = tabulate(learnt.judged), []
    third = len(learnt.judged) // 3
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(len(learnt.judged))
        found = fit(table, order[:third], order[third : 2 * third], alpha=alpha, step_alpha=0.001, seed=seed)
        assert found.level is not None
        shares.append((evaluate_all(found, table.take(order[2 * third :])).alarm > 0).mean())
    return float(np.mean(shares))


def within(share: float, alpha: float, count: int) -> bool:
    """Does the interval of so many false alarms among so many trajectories reach down to alpha?"""
    return rate(round(share * count), count).low <= alpha


@pytest.mark.shared
async def test_the_budget_holds_for_the_shell(shared: Path) -> None:
    """On clean recordings, dealt by trajectory."""
    learnt = await from_shell(shared / "recorded" / "terminal.jsonl")

    assert learnt.contradicted == 0
    assert all(within(far(learnt, alpha), alpha, len(learnt.judged)) for alpha in (0.05, 0.1))


@pytest.mark.shared
async def test_the_budget_holds_for_a_model_that_knows_nothing(shared: Path, tmp_path: Path) -> None:
    """A model with the very mechanics of `mlx`, of which nobody could say that it predicts."""
    pytest.importorskip("mlx_lm")
    from tests.predictors.mlx import small  # noqa: PLC0415 - where there is mlx-lm
    from verifierd.predictors.mlx import runner  # noqa: PLC0415 - as above

    (tmp_path / "terminal").mkdir()
    (tmp_path / "terminal" / "system_prompt.txt").write_text("You are a terminal.")
    verifier = small.verifier(small.Ledger(), tmp_path, chunk=256, context=8000)

    class Small:
        name = "mlx"
        model = "small"

        async def predict(self, history: History, step: Step) -> Prediction:
            key = (*history.key, history.run)
            (outcome,) = verifier.run([small.job(tuple(history), step, key=key)])
            assert outcome.scored is not None
            agreed = outcome.scored.agreed(outcome.draft.ids)
            found = runner._likelihood(outcome.draft, outcome.scored, agreed, None)
            return Prediction(predictor="mlx", model="small", likelihood=found)

        async def aclose(self) -> None:
            """Nothing is held."""

    found = await runs([shared / "recorded" / "terminal.jsonl"])
    for run in found:
        del run.steps[4:]  # the longer the past, the longer it takes
    learnt = await learn(found, judge(Small()), Options(), name="mine", date="")

    assert learnt.fitting == 34
    assert learnt.policy.surprise is not None
    assert len(learnt.judged) == 68
    assert far(learnt, 0.1) > 0.0
    assert all(within(far(learnt, alpha), alpha, len(learnt.judged)) for alpha in (0.05, 0.1))
