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


def _told(step: Step, *past: Step) -> list[str]:
    history = History(step.key)
    for other in past:
        history.append(other)
    return [signal.detail for signal in stale(history, step, PREDICTION).signals]


def _tool(index: int, tool: str, observation: str, *, failed: bool = False, **fields: str) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=index,
        action=Action(tool=tool, input=dict(fields)),
        observation=observation,
        is_error=failed,
        origin=Origin(path="t.jsonl", offset=0),
    )


def test_answers_that_tools_always_give() -> None:
    """That nothing was found, or the same file changed again, tells nothing apart; another file's name does."""
    done = "The file /w/a.py has been updated."
    first = _tool(1, "Edit", done, file_path="/w/a.py", new_string="x")

    assert not _told(_tool(2, "Glob", "No files found", pattern="b*"), _tool(1, "Glob", "No files found", pattern="a*"))
    assert not _told(_tool(2, "Edit", done, file_path="/w/a.py", new_string="y"), first)
    assert _told(_tool(2, "Edit", done, file_path="/w/b.py", new_string="y"), first)


def test_an_answer_that_another_step_got_too() -> None:
    """What was answered twice before to different questions is this tool's way of saying yes."""
    past = [_step(n, f"make part{n}", "done\n") for n in (1, 2)]

    assert not _told(_step(3, "make part3", "done\n"), *past)


def test_outdated_answers() -> None:
    """The same question gets the same answer though its file, or something that failed, was changed in between."""
    read = _tool(1, "Read", "1\tx = 1\n", file_path="/w/a.py")
    edit = _tool(2, "Edit", "updated", file_path="/w/a.py", old_string="x = 1", new_string="x = 2")
    other = _tool(2, "Edit", "updated", file_path="/w/b.py", old_string="x = 1", new_string="x = 2")
    again = _tool(3, "Read", "1\tx = 1\n", file_path="/w/a.py")
    diff, failed = _step(1, "git diff", "-x\n"), _tool(1, "run", "1 failed", failed=True, what="tests")

    assert _told(again, read, edit) == ["is what step 1 was answered, though a.py was written since"]
    assert not _told(again, read, other)
    assert not _told(again, read)
    assert _told(_step(3, "git diff", "-x\n"), diff, other)
    assert not _told(_step(3, "git diff HEAD~1", "-x\n"), _step(1, "git diff HEAD~1", "-x\n"), other)
    assert _told(_tool(3, "run", "1 failed", failed=True, what="tests"), failed, other)
    assert not _told(_tool(3, "run", "1 passed", what="tests"), failed, other)
