"""An observation that repeats the one before."""

from verifierd.scoring.repeat import stale
from verifierd.types import Action, History, ObservationKind, Origin, Prediction, Score, Step

PREDICTION = Prediction(predictor="x", text="anything", certain=True)


def _step(index: int, command: str, observation: str, kind: ObservationKind = ObservationKind.ENV) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=index,
        action=Action(tool="bash", input=command, command=command),
        observation=observation,
        origin=Origin(path="t.jsonl", offset=0),
        observation_kind=kind,
    )


def _score(before: Step | None, step: Step) -> Score:
    history = History(step.key)
    if before is not None:
        history.append(before)
    return stale(history, step, PREDICTION)


def test_repeated_observation() -> None:
    """The same text in answer to another action is a hint over the whole observation, and decides nothing."""
    score = _score(_step(4, "ls a", "file\n"), _step(5, "ls b", "file\n"))

    assert [(signal.name, signal.span) for signal in score.signals] == [("stale", (0, 5))]
    assert score.signals[0].detail == "repeats the observation of step 4, which asked something else"
    assert not score.violated
    assert score.abstain is None
    assert score.value is None
    assert score.coverage == 0.0


def test_same_action_twice() -> None:
    """Asked the same again, the same answer is no sign of anything."""
    assert _score(_step(1, "ls", "file\n"), _step(2, "ls", "file\n")).signals == ()


def test_blank_observations() -> None:
    """Many commands answer nothing; that is no repetition."""
    assert _score(_step(1, "cd a", "\n"), _step(2, "cd b", "\n")).signals == ()


def test_another_observation() -> None:
    """Another text repeats nothing."""
    assert _score(_step(1, "ls a", "one\n"), _step(2, "ls b", "two\n")).signals == ()


def test_only_the_environment_repeats_itself() -> None:
    """An error of the harness may well read the same twice, on either side."""
    error = ObservationKind.HARNESS_ERROR

    assert _score(_step(1, "ls a", "no\n", error), _step(2, "ls b", "no\n")).signals == ()
    assert _score(_step(1, "ls a", "no\n"), _step(2, "ls b", "no\n", error)).signals == ()


def test_first_step() -> None:
    """The first step has nothing before it."""
    assert _score(None, _step(1, "ls", "file\n")) == Score(name="stale", reason="nothing before it")
