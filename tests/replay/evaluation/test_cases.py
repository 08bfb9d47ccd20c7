"""Which observations are judged, and what is true of them."""

from pathlib import Path
from typing import Any

import anyio

from tests.helpers import echo, jsonl, native
from verifierd.replay.evaluation.cases import CLEAN, LABELLED, Altered, Cases, Injection, Subject, of_runs, of_sets
from verifierd.replay.inject import BENIGN, FAULTS
from verifierd.replay.labelled import Labelled, Marked, Overlay, StepLabel, Truth, marked
from verifierd.replay.runs import Run, runs
from verifierd.types import History


def logged(path: Path, *lines: object) -> list[Run]:
    """The trajectories of a log of these lines."""
    path.write_bytes(jsonl(*lines))
    return anyio.run(runs, [path])


def labelled(found: list[Run], *said: dict[str, Any]) -> list[Marked]:
    """What these labels say of the trajectories."""
    judged, unmatched = marked(found, [StepLabel(**one) for one in said])
    assert unmatched == []
    return judged


def about(step: int, label: str, **more: Any) -> dict[str, Any]:
    """A label of a step of `t`."""
    return {"trajectory": "t", "step": step, "label": label, **more}


def altered(cases: Cases, subject: Subject, place: int) -> list[Altered]:
    """What a step gets instead."""
    history = History(subject.run.key)
    for step in subject.run.steps[:place]:
        history.append(step)
    return list(cases.altered(subject, place, history))


def test_what_nobody_doubts_is_clean(tmp_path: Path) -> None:
    """Without labels each answer of the environment counts as true; what is no answer does not count at all."""
    waiting = native("t", 4, "sleep 9", "", observation_kind="still_running")
    cases = of_runs(logged(tmp_path / "a.jsonl", *echo("t", 3), waiting), [], None)

    (subject,) = cases.subjects
    assert subject.environment == {0: False, 1: False, 2: False}
    assert (subject.agent, subject.clean, cases.steps) == ({}, True, 4)


def test_labels_leave_the_other_steps_unjudged(tmp_path: Path) -> None:
    """Of a trajectory with labels only the labelled steps count, each for its own truth; an unsure one never does."""
    found = logged(tmp_path / "a.jsonl", *echo("t", 4), *echo("u", 2), *echo("v", 2))
    cases = of_runs(
        found,
        labelled(
            found,
            about(1, "on_path"),
            about(2, "off_path", kind="typo"),
            about(3, "off_path", truth=Truth.AGENT),
            {"trajectory": "u", "step": 1, "label": "unsure"},
        ),
        None,
    )

    one, unsure, other = cases.subjects
    assert (one.environment, one.agent, one.clean) == ({0: False, 1: True}, {2: True}, False)
    assert [one.kind(place) for place in range(3)] == [CLEAN, "typo", CLEAN]
    assert unsure.environment == {}
    assert other.environment == {0: False, 1: False}


def test_a_label_without_a_kind_has_one(tmp_path: Path) -> None:
    """What is off path without a word how is a kind of its own."""
    found = logged(tmp_path / "a.jsonl", *echo("t", 2))
    (subject,) = of_runs(found, labelled(found, about(2, "off_path")), None).subjects

    assert subject.kind(1) == LABELLED


def test_the_logs_own_labels_can_be_overruled(tmp_path: Path) -> None:
    """A file's label goes before the log's; another step's label of the log stays; an undo does not reach the log's."""
    lines = [*echo("t", 4)]
    for place in (0, 1, 2):
        lines[place] |= {"label": "off_path", "label_kind": "drift"}
    found = logged(tmp_path / "a.jsonl", *lines)

    said = labelled(found, about(2, "on_path"), about(3, "undo"), about(4, "on_path"))
    (subject,) = of_runs(found, said, None).subjects

    assert subject.environment == {0: True, 1: False, 2: True, 3: False}
    assert subject.kinds == {0: "drift", 2: "drift"}


def test_runs_of_one_name_keep_their_own_labels(tmp_path: Path) -> None:
    """A label by id reaches the run that has the step, and not its namesake in another file."""
    one, two = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    one.write_bytes(jsonl(*echo("t", 2)))
    two.write_bytes(jsonl(native("t", 1, "echo other", "other\n"), native("t", 2, "echo more", "more\n")))
    found = anyio.run(runs, [one, two])

    said = labelled(found, {"id": found[1].steps[1].step_id, "label": "off_path"})
    first, second = of_runs(found, said, None).subjects

    assert (first.clean, second.clean) == (True, False)
    assert second.environment == {1: True}


def test_copied_steps_are_no_cases(tmp_path: Path) -> None:
    """What two files hold counts once, and is altered once."""
    one, two = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for file in (one, two):
        file.write_bytes(jsonl(*echo("t", 3)))
    cases = of_runs(anyio.run(runs, [one, two]), [], Injection(kinds=("empty",)))

    assert [len(subject.environment) for subject in cases.subjects] == [3, 0]
    assert [len(altered(cases, subject, 1)) for subject in cases.subjects] == [1, 0]


def test_faults_go_where_all_is_clean(tmp_path: Path) -> None:
    """A trajectory with a bad step gets none, in a clean one an unsure step gets none, and neither is borrowed from."""
    found = logged(tmp_path / "a.jsonl", *echo("t", 3), *echo("u", 3), *echo("v", 3))
    said = labelled(
        found,
        about(2, "off_path"),
        {"trajectory": "u", "label": "clean"},
        {"trajectory": "u", "step": 2, "label": "unsure"},
    )
    cases = of_runs(found, said, Injection(kinds=("empty",)))

    counts = [[len(altered(cases, subject, place)) for place in range(3)] for subject in cases.subjects]
    assert counts == [[0, 0, 0], [1, 0, 1], [1, 1, 1]]


def test_the_seed_fixes_the_faults(tmp_path: Path) -> None:
    """The same seed gives the same faults; a rate takes about its share of them, each kind for itself."""
    found = logged(tmp_path / "a.jsonl", *echo("t", 40), *echo("u", 40))

    def drawn(**injection: Any) -> list[tuple[int, str, str]]:
        cases = of_runs(found, [], Injection(**injection))
        return [
            (place, one.kind, one.step.observation)
            for subject in cases.subjects
            for place in range(40)
            for one in altered(cases, subject, place)
        ]

    every = drawn(seed=1)
    assert {kind for _, kind, _ in every} <= {*FAULTS, *BENIGN}
    assert drawn(seed=1) == every
    assert drawn(seed=2) != every
    some = drawn(seed=1, rate=0.3)
    assert set(some) < set(every)
    assert 0.2 < len(some) / len(every) < 0.4
    alone = drawn(seed=1, rate=0.3, kinds=("empty",))
    assert alone == [one for one in some if one[1] == "empty"]


def test_overlays_say_where_and_whether_it_shows(tmp_path: Path) -> None:
    """What another set puts into a case is a case there, with the place that differs, and whether the history tells."""
    (run,) = logged(tmp_path / "a.jsonl", *echo("t", 2), native("t", 3, "cat notes", "word-1\nnew\n"))
    base = mark(run)
    overlays = [
        Overlay(marked=base, step=3, kind="wrong", benign=False, observation="word-7\nnew\n"),
        Overlay(marked=base, step=3, kind="wrong", benign=False, observation="word-1\nold\n"),
        Overlay(marked=base, step=3, kind="blank", benign=True, observation="word-1\nnew"),
    ]
    cases = of_sets([Labelled(name="o", marked=[base], overlays=overlays)], None)

    (subject,) = cases.subjects
    found = altered(cases, subject, 2)
    assert [(one.kind, one.benign, one.known, one.span) for one in found] == [
        ("wrong", False, True, (5, 6)),
        ("wrong", False, False, (7, 10)),
        ("blank", True, False, (10, 10)),
    ]
    assert cases.expected == 6


def test_a_set_and_its_overlays_share_their_cases(tmp_path: Path) -> None:
    """A trajectory that several sets hold counts once, with the labels of each truth and all overlays, each once."""
    lines = echo("t", 2)
    one, two, three = [(logged(tmp_path / name, *lines))[0] for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    (other,) = logged(tmp_path / "d.jsonl", native("t", 1, "echo x", "x\n"))
    overlay = Overlay(marked=mark(two), step=1, kind="wrong", benign=False, observation="no\n")
    sets = [
        Labelled(name="a", marked=[mark(one), mark(other)]),
        Labelled(name="o", marked=[overlay.marked], overlays=[overlay]),
        Labelled(name="o", marked=[overlay.marked], overlays=[overlay]),
        Labelled(name="e", marked=[mark(three, truth=Truth.AGENT, bad=frozenset({2}))]),
    ]
    both, namesake = of_sets(sets, None).subjects

    assert {place: len(found) for place, found in both.overlays.items()} == {0: 1}
    assert (both.environment, both.agent) == ({0: False, 1: False}, {0: False, 1: True})
    assert (namesake.run, namesake.overlays) == (other, {})


def test_a_limit_takes_whole_trajectories(tmp_path: Path) -> None:
    """Of sets as of logs, in their order, and at least one."""
    found = logged(tmp_path / "a.jsonl", *echo("t", 3), *echo("u", 3))
    sets = [Labelled(name="a", marked=[mark(run) for run in found])]

    assert [len(of_sets(sets, None, limit=limit).subjects) for limit in (1, 5, 6, None)] == [1, 1, 2, 2]


def test_of_failed_runs_nobody_knows_the_good_steps(tmp_path: Path) -> None:
    """Where only the outcome is known to be bad no action counts as right."""
    (run,) = logged(tmp_path / "a.jsonl", *echo("t", 2))
    failed = mark(run, truth=Truth.AGENT, outcome="failed_outcome")
    (subject,) = of_sets([Labelled(name="a", marked=[failed])], None).subjects

    assert subject.agent == {}
    assert subject.environment == {0: False, 1: False}


def mark(run: Run, **more: Any) -> Marked:
    """A label that says of each step that it is right, if nothing else is said."""
    places = {step.index: place for place, step in enumerate(run.steps)}
    given: dict[str, Any] = {"truth": Truth.ENVIRONMENT, "outcome": "clean"} | more
    return Marked(run=run, positions=places, observed=places, length=len(run.steps), **given)
