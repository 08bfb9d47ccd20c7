"""The report of an evaluation: all sections, in plain words, of real runs and of hostile texts."""

import re
from html.parser import HTMLParser
from typing import Any

import anyio
import msgspec
import pytest

from tests.helpers import ran
from verifierd.composition import Choice
from verifierd.replay.evaluation.cases import Injection, of_runs
from verifierd.replay.evaluation.judging import Evaluated, Mistake, evaluated
from verifierd.replay.evaluation.report import report, worst
from verifierd.replay.evaluation.table import compared, document
from verifierd.replay.runs import Run
from verifierd.types import VerdictKind

KINDS = ("number_changed", "empty", "role_break", "white_space")
HOSTILE = "</script><script>alert(1)</script>\x1b[2J\u202e\ud800<b>"

Judged = tuple[dict[str, Any], Evaluated]


class Text(HTMLParser):
    """What a reader sees of a page, in one line."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._hidden = False
        self.feed(page)

    def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self._hidden = tag in {"script", "style"}

    def handle_endtag(self, _tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data)

    def __str__(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self._parts))


def _run(name: str) -> Run:
    """Counts what was written; its words differ from those of other runs."""
    steps = [
        ran(f"echo {name}-{n}{n} and more", f"{name}-{n}{n} and more\n", trajectory=name, index=n) for n in range(1, 9)
    ]
    return Run(key=("native", name), group=name, steps=steps)


def _judged(predictor: str) -> Judged:
    injection = Injection(kinds=KINDS, seed=1)
    found = anyio.run(
        evaluated, of_runs(map(_run, ("red", "green", "blue")), (), injection), Choice(predictor=predictor)
    )
    return document(found, injection=msgspec.to_builtins(injection)), found


@pytest.fixture(name="shell", scope="module")
def _shell() -> Judged:
    """What the shell makes of three trajectories: it predicts all."""
    return _judged("shell")


@pytest.fixture(name="silent", scope="module")
def _silent() -> Judged:
    """What a predictor makes of them that predicts nothing at all."""
    return _judged("scripted")


def _made(*judges: Judged) -> str:
    return report(judges, compared([found for _, found in judges]), command="verifierd eval x", date="2026-01-02")


def _mistake(found: Evaluated, kind: str, cost: float, *, bad: bool, text: str = "text") -> Mistake:
    row = msgspec.structs.replace(found.rows[0], kind=kind, bad=bad, case=f"{kind}{cost}", trajectory=text, tool=text)
    return Mistake(
        row=row,
        cost=cost,
        action=text,
        predicted=text,
        observed=text,
        spans=((0, 3),),
        altered=(2, 4),
        reasons=(text,),
        verdict="0123456789abcdef0123456789abcdef",
    )


def test_it_says_all(shell: Judged) -> None:
    """Figures of every section stand in the text, each section begins with words, and ids are not taken for secrets."""
    text = str(Text(_made(shell)))

    for words in (
        "verifierd judged 24 steps of 3 trajectories as logged; 24 of them are held to be clean.",
        "4 kinds of change into 100 % of eligible steps, seed 1",
        "Faults found 100 %",
        "Environment: did the observation come as it should?",
        "ROC: faults found against false alarms",
        "DET: faults missed against false alarms",
        "Suspicion: share of clean and of faulty observations",
        "Not calibrated",
        "Clean trajectories that alarmed",
        "number changed",
        "Harmless changes: none of them should alarm",
        "By tool",
        "By domain",
        "By length",
        "By content",
        "no model in the chain can be asked",
        "Nobody labelled these actions.",
        "No model was asked: no tokens.",
        "There is none: no clean or harmlessly changed observation was called off path",
        "2026-01-02",
    ):
        assert words in text
    assert "redacted" not in text
    assert "nothing to say" not in text


def test_silence_is_called_silence(silent: Judged) -> None:
    """Where all abstains no rate is shown without saying so, and none is praised."""
    text = str(Text(_made(silent)))

    assert "These predictors have nothing to say about these steps: everything abstains. Coverage is 0" in text
    assert "nothing is predicted here: every clean step abstains" in text


def test_judges_are_compared(shell: Judged, silent: Judged) -> None:
    """Several judges stand side by side first, with paired differences, then each on its own."""
    text = str(Text(_made(shell, silent)))

    assert (
        text.index("Judges side by side")
        < text.index("Judge: shell verifierd")
        < text.index("Judge: scripted verifierd")
    )
    assert "scripted minus shell, on the same" in text
    assert "\N{MINUS SIGN}100 points" in text


def test_the_same_judge_twice_is_told_apart(shell: Judged) -> None:
    """Equal names get numbers."""
    text = str(Text(_made(shell, shell)))

    assert "Judge: shell #1" in text
    assert "shell #2 minus shell #1" in text


def test_labels_and_calibration_are_shown(shell: Judged) -> None:
    """What only labelled sets and calibrated policies have: tolerance, delay, nominal against realised."""
    figures, found = shell
    share = {"value": 0.25, "low": 0.125, "high": 0.5, "n": 16}
    ranks = {"auroc": share, "tpr_at_fpr_1": share, "tpr_at_fpr_5": share}
    matrix = {"off_path": 1, "on_path": 2, "abstain": 3}
    tolerances = ("0", "1", "3", "5")
    agent = {
        "steps": 16,
        "errors": 4,
        "unplaced": 1,
        "confusion": {"off_path": matrix, "on_path": matrix},
        **dict.fromkeys(("step_fpr", "recall", "precision", "abstention"), share),
        **ranks,
        "controls": {
            "error_regex": {**ranks, "fpr": share, "recall": share},
            "judge": {"value": None, "reason": "none"},
        },
        "tolerance": {
            "trajectories": 4,
            "found": dict.fromkeys(tolerances, share),
            "at_random": dict.fromkeys(tolerances, 0.0625),
            "second_labels": dict.fromkeys(tolerances, share),
        },
        "judge_of_its_size": {"recall": 0.2, "fpr": 0.02, "source": "somebody"},
    }
    calibration = [{"nominal": 0.01, "realised": share}, {"nominal": 0.1, "realised": share}]
    reached = {"n": 2, "median": 1.5, "max": 3}
    delay = {"trajectories": 3, "alarm": reached, "off_path": reached}
    text = str(Text(_made(({**figures, "agent": agent, "calibration": calibration, "delay": delay}, found))))

    assert "the very step 25 % 12.5 to 50 % N 16 6.2 % 25 %" in text
    assert "Nominal rate Realised on clean steps 1 % 25 % 12.5 to 50 % N 16 10 % 25 %" in text
    assert "Until trajectories that got there median longest the first off-path step 2 1.5 3" in text
    assert "somebody finds 20 % of such errors at a false-positive rate of 2 %" in text


def test_mistakes_are_chosen_by_cost(silent: Judged) -> None:
    """False alarms come first, then the dearest, at most two of a kind and ten in all."""
    _, found = silent
    kinds = [f"kind{number}" for number in range(9)]
    given = [_mistake(found, kind, cost, bad=True) for kind in kinds for cost in (1.0, 2.0, 3.0)]
    given.append(_mistake(found, "clean", 0.5, bad=False))
    chosen = [(one.row.kind, one.cost) for one in worst(given)]

    assert chosen[0] == ("clean", 0.5)
    assert chosen[1:] == [(kind, 3.0) for kind in kinds]
    assert [one.cost for one in worst(given[:3])] == [3.0, 2.0]


def test_a_mistake_is_shown_side_by_side(shell: Judged) -> None:
    """What decided and what was altered are marked apart, where they overlap as both."""
    figures, found = shell
    page = _made(
        (figures, msgspec.structs.replace(found, mistakes=[_mistake(found, "stale", 1.0, bad=True, text="abcdef")]))
    )
    marks = [
        (" ".join(kinds.split()), text)
        for kinds, text in re.findall(r'<mark class="([a-z ]*)"[^>]*>([^<]*)</mark>', page)
    ]

    assert marks == [("decided", "ab"), ("decided altered", "c"), ("altered", "d")]
    assert "1. Missed fault: stale" in page


def test_hostile_texts_do_nothing(shell: Judged) -> None:
    """Of names and texts of transcripts no tag, escape or lone surrogate arrives as such."""
    figures, found = shell
    changed = {
        **figures,
        **dict.fromkeys(("predictor", "model", "policy"), HOSTILE),
        **{
            name: {HOSTILE: next(iter(figures[name].values()))}
            for name in ("by_tool", "by_domain", "by_kind", "by_benign")
        },
        "reasons": {HOSTILE: 1},
    }
    mistakes = [_mistake(found, HOSTILE, 1.0, bad=bad, text=HOSTILE) for bad in (False, True)]
    hostile = msgspec.structs.replace(found, mistakes=mistakes)
    page = report([(changed, hostile)] * 2, compared([hostile] * 2), command=HOSTILE, date=HOSTILE)
    before = page[: page.index("plotly.js v")]

    page.encode()
    assert page.count("<script>") == 2
    assert not any(mark in before for mark in ("\x1b", "\u202e", "\ud800", "<b>"))


def test_rows_know_their_verdicts(shell: Judged) -> None:
    """The run that these tests look at is a real one: all clean steps are on path, all faults are off path."""
    _, found = shell

    assert {row.verdict for row in found.rows if not row.bad} == {VerdictKind.ON_PATH}
    assert {row.verdict for row in found.rows if row.bad} == {VerdictKind.OFF_PATH}
