"""Cases -> rows: what is predicted from what, and what is remembered."""

import math

import msgspec
import pytest

from tests.helpers import counter, echo, guess, native, wrong_once
from tests.replay.evaluation.conftest import Judge, Logged
from verifierd import predictors
from verifierd.predictors import PredictorSettings
from verifierd.replay.evaluation.cases import Cases, Injection, of_runs
from verifierd.replay.evaluation.judging import Row
from verifierd.stages import Asked, Message, Reply
from verifierd.types import Abstain, History, Likelihood, Prediction, Step, VerdictKind


class Spy:
    """A predictor that guesses the observation it is shown, and remembers what it was asked."""

    name = "scripted"

    def __init__(self, model: str | None = None, likelihood: Likelihood | None = None) -> None:
        self.model = model
        self.likelihood = likelihood
        self.asked: list[tuple[int, int, str, bool]] = []
        self.talks: list[str] = []

    async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:
        """Remember, and answer as a model if it is one."""
        self.asked.append((len(history), step.index, step.observation, keep))
        if step.index == 3:
            raise ValueError("no idea")
        if self.likelihood is not None:
            return Prediction(predictor=self.name, model=self.model, likelihood=self.likelihood)
        return msgspec.structs.replace(guess(f"word-{step.index}\n"), model=self.model)

    async def chat(self, messages: list[Message], asked: Asked) -> Reply:
        """Call everything genuine."""
        assert asked.max_tokens == 4
        self.talks.append(messages[-1].content)
        return Reply(
            text="Yes.",
            thought="",
            finish="stop",
            prompt_tokens=1,
            generated_tokens=1,
            seconds=0.0,
            first_token_seconds=0.0,
            model="",
        )

    async def aclose(self) -> None:
        """Nothing is held."""


@pytest.fixture(name="spied")
def _spied(monkeypatch: pytest.MonkeyPatch) -> "type[Spy]":
    """Makes the spy the predictor `scripted`."""

    class Set(Spy):
        def __init__(self, model: str | None = None, likelihood: Likelihood | None = None) -> None:
            super().__init__(model, likelihood)

            def opened(_settings: PredictorSettings) -> Spy:
                return self

            monkeypatch.setitem(predictors.PREDICTORS, "scripted", opened)

    return Set


def untimed(rows: list[Row]) -> list[Row]:
    """Rows without what depends on the machine."""
    return [msgspec.structs.replace(row, seconds=0.0) for row in rows]


def injected(lines: list[dict[str, object]], logged: Logged, *kinds: str) -> Cases:
    """Cases of a log with some kinds of changes in every step."""
    return of_runs(logged(*lines), [], Injection(kinds=kinds or ("empty", "white_space")))


def test_faults_leave_no_trace(logged: Logged, judge: Judge) -> None:
    """What is said of logged steps is the same with and without faults in between; a fault does not feed the next."""
    lines = [*counter("t", 10), *echo("u", 6)]
    plain = judge(of_runs(logged(*lines), [], None), "shell")
    faulty = judge(injected(lines, logged), "shell")

    assert untimed([row for row in faulty.rows if not row.altered]) == untimed(plain.rows)
    assert {row.verdict for row in plain.rows} <= {VerdictKind.ON_PATH, VerdictKind.ABSTAIN}
    seen = [row for row in faulty.rows if row.kind == "empty" and row.verdict is VerdictKind.OFF_PATH]
    assert len(seen) >= 8
    assert all(track.alarm == 0 and not track.off_path for track in faulty.tracks)


def test_a_step_is_predicted_once(logged: Logged, judge: Judge, spied: type[Spy]) -> None:
    """Without a model the prediction from the true history serves all that the step may have been."""
    spy = spied()
    found = judge(injected(echo("t", 2), logged), "scripted")

    assert spy.asked == [(0, 1, "word-1\n", True), (1, 2, "word-2\n", True)]
    assert [(row.kind, row.verdict.value) for row in found.rows if row.step == 2] == [
        ("clean", "on_path"),
        ("empty", "off_path"),
        ("white_space", "on_path"),
    ]
    assert [row.bad for row in found.rows if row.step == 2] == [False, True, False]


def test_a_model_is_asked_about_each_observation(logged: Logged, judge: Judge, spied: type[Spy]) -> None:
    """It looks at the observation for its likelihood; of one that never was nothing is kept, and history stays true."""
    spy = spied("m")
    found = judge(injected(echo("t", 2), logged, "empty"), "scripted")

    assert spy.asked == [
        (0, 1, "word-1\n", True),
        (0, 1, "", False),
        (1, 2, "word-2\n", True),
        (1, 2, "", False),
    ]
    assert len(spy.talks) == 4
    assert spy.talks[-1].count("ACTION:") == 2
    assert [row.controls[-1] for row in found.rows] == [0.0] * 4
    assert found.judge == ""


def test_a_failure_costs_one_step(logged: Logged, judge: Judge, spied: type[Spy]) -> None:
    """It is the simulator's, an abstention, and the rest goes on."""
    spied()
    found = judge(injected(echo("t", 4), logged, "empty"), "scripted")

    failed = {(row.step, row.kind): row.failed for row in found.rows}
    assert failed[3, "clean"] == failed[3, "empty"] == Abstain.PREDICTOR_ERROR
    assert [place for place, failure in failed.items() if failure is None] == [
        (step, kind) for step in (1, 2, 4) for kind in ("clean", "empty")
    ]


@pytest.mark.parametrize("odd", [math.inf, math.nan, -math.inf])
def test_a_score_that_is_no_number_ranks_still(logged: Logged, judge: Judge, spied: type[Spy], odd: float) -> None:
    """Whatever a model finds, suspicion is from 0 to 2."""
    spied("m", Likelihood(surprisal=(odd, 1.0), entropy=(1.0, odd), varentropy=(odd, odd), top=(0.1, 0.1)))
    found = judge(of_runs(logged(*echo("t", 2)), [], None), "scripted")

    assert all(0 <= row.suspicion <= 2 for row in found.rows)


def test_every_judge_gets_the_same_cases(logged: Logged, judge: Judge) -> None:
    """The faults depend on seed and log alone, down to the altered text."""
    cases = of_runs(logged(*counter("t", 8), *echo("u", 4)), [], Injection(seed=3))

    one, other = judge(cases, "shell"), judge(cases, "contracts")
    assert [row.case for row in one.rows] == [row.case for row in other.rows]
    assert len({row.case for row in one.rows}) == len(one.rows) > 12


def test_an_alarm_is_remembered(logged: Logged, judge: Judge) -> None:
    """Steps after an alarm know of it, as far as they are as logged; the track says where it was."""
    lines = wrong_once(counter("t", 10), 6, "9 notes.txt\n")
    found = judge(of_runs(logged(*lines), [], None), "shell")

    assert [row.alarmed for row in found.rows] == [False] * 5 + [True] * 5
    (track,) = found.tracks
    assert (track.alarm, track.off_path, track.steps) == (6, (6,), 10)


def test_mistakes_can_be_shown(logged: Logged, judge: Judge) -> None:
    """A false alarm is kept with what was expected and where it deviates, whatever the log holds."""
    key = "sk-ant-api03-" + "a1B2" * 24
    lines = [
        native("t\ud800", 1, "echo one", "two\x1b[2J" + key, exit_code=0),
        *[native("t\ud800", n, "echo same", "other\n" * 900, exit_code=0) for n in range(2, 60)],
    ]
    cases = of_runs(logged(*lines), [], None)
    found = judge(cases, "shell")

    alarms = [one for one in found.mistakes if one.row.bad is False]
    assert len(alarms) == 40
    assert [one.row.case for one in found.mistakes] == [one.row.case for one in judge(cases, "shell").mistakes]
    whole = msgspec.json.encode([found.rows, found.mistakes]).decode()
    assert key not in whole
    assert "\\u001b" not in whole
    for one in alarms:
        assert one.predicted in {"one\n", "same\n"}
        assert one.reasons
        assert all(0 <= start < end <= len(one.observed) for start, end in one.spans)
        assert len(one.observed) < 2200


def test_strata_are_of_the_logged_step(logged: Logged, judge: Judge) -> None:
    """Shells are one tool, lengths and ids those of the log, for altered observations, too."""
    (run,) = logged(*echo("t", 2))
    found = judge(of_runs([run], [], Injection(kinds=("empty",))))

    assert {(row.tool, row.domain, row.length) for row in found.rows} == {("shell", "terminal", 7)}
    assert [row.step_id for row in found.rows if row.step == 2] == [run.steps[1].step_id] * 2
    assert {row.content for row in found.rows if row.altered} <= {"deterministic", "pre-existing"}


def test_content_is_told_by_the_texts(logged: Logged, judge: Judge) -> None:
    """What most of an observation is made of does not depend on who predicts."""
    lines = [
        native("t", 1, "cat a.txt", "some words\n"),
        native("t", 2, "cat b.txt", "some words\nx\n"),
        native("t", 3, "date +%T", "12:34:56\n"),
        native("t", 4, "true", "\n"),
    ]
    cases = of_runs(logged(*lines), [], None)

    for predictor in ("shell", "contracts"):
        content = [row.content for row in judge(cases, predictor).rows]
        assert content == ["pre-existing", "deterministic", "runtime", "empty"]


def test_no_step_is_no_row(logged: Logged, judge: Judge) -> None:
    """Where the environment answered nothing there is nothing to judge."""
    found = judge(of_runs(logged(native("t", 1, "sleep 9", "", observation_kind="interrupted")), [], Injection()))

    assert not found.rows
    assert not found.mistakes
    assert [track.steps for track in found.tracks] == [0]
