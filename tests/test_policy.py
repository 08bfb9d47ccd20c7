"""The policy document and the decision."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifierd.calibration import Scored, Trajectory, calibrate
from verifierd.errors import PolicyError
from verifierd.fusion import Fusion, Term
from verifierd.policy import DOMAINS, Asking, Calibrated, ContentClass, Memory, Policy, Rules, decide, load, names
from verifierd.types import (
    Abstain,
    Action,
    Alarm,
    Likelihood,
    ObservationKind,
    Origin,
    Prediction,
    Score,
    Seconds,
    Signal,
    Step,
    Tokens,
    Verdict,
    VerdictKind,
)

CERTAIN = Prediction(predictor="shell", text="file\n", certain=True)
SILENT = Prediction(predictor="shell", abstain=Abstain.RACY, detail="a sibling wrote")
MATCH = Score(name="normalised", value=0.0, coverage=1.0)
CONTRADICTION = Score(
    name="normalised",
    value=0.5,
    coverage=1.0,
    violated=True,
    signals=(Signal(name="contradiction", value=1.0, span=(0, 1)),),
)
FLIP = Score(name="error_flip", value=1.0, violated=True, signals=(Signal(name="error_flip", value=1.0),))
ROLE_BREAK = Score(name="role_break", value=1.0, abstain=Abstain.ROLE_BREAK)
TRUNCATED = Score(name="normalised", abstain=Abstain.TRUNCATED)
UNCALIBRATED = Score(name="normalised", value=0.5, abstain=Abstain.UNCALIBRATED)


def _step(index: int = 1, **changed: Any) -> Step:
    step = Step(
        format="native",
        trajectory="t",
        index=index,
        action=Action(tool="bash", input="ls", command="ls"),
        observation="file\n",
        origin=Origin(path="t.jsonl", offset=5),
    )
    return msgspec.structs.replace(step, **changed)


def _named(tool: str, domain: str = "terminal") -> Step:
    return _step(action=Action(tool=tool, input="ls", command="ls"), domain=domain)


def _decide(
    scores: Sequence[Score],
    *,
    policy: Policy = Policy(name="test"),  # noqa: B008 - frozen
    memory: Memory = Memory(),  # noqa: B008 - frozen
    step: Step = _step(),  # noqa: B008 - frozen
    prediction: Prediction = CERTAIN,
    predictor: str = "shell",
    model: str | None = None,
) -> tuple[Memory, Verdict]:
    return decide(
        policy,
        memory,
        step,
        prediction,
        scores,
        predictor=predictor,
        model=model,
        time="2026-01-02T03:04:05Z",
        seconds=Seconds(predict=0.1, total=0.2),
    )


class TestDecide:
    """Scores become a verdict."""

    def test_as_predicted(self) -> None:
        """Nothing violated and enough checked is on_path."""
        memory, verdict = _decide([MATCH])

        assert (verdict.verdict, verdict.reason) == (VerdictKind.ON_PATH, "as_predicted")
        assert memory == Memory(decided=1)
        assert verdict.alarm is None

    def test_contradicted(self) -> None:
        """Something certain violated is off_path, named after its signal."""
        memory, verdict = _decide([MATCH, CONTRADICTION], step=_step(4))

        assert (verdict.verdict, verdict.reason) == (VerdictKind.OFF_PATH, "contradiction")
        assert memory == Memory(decided=1, contradictions=1, first=4, alarmed=True)

    def test_an_error_flip_is_the_strongest_reason(self) -> None:
        """Where text and status are contradicted, the status names the reason; all signals are told in their order."""
        _, verdict = _decide([CONTRADICTION, FLIP])

        assert verdict.reason == "error_flip"
        assert [signal.name for signal in verdict.signals] == ["contradiction", "error_flip"]

    def test_a_violation_without_a_signal_is_named_after_its_score(self) -> None:
        """A scorer that gives no signal still gives the reason its name."""
        assert _decide([Score(name="shape", violated=True)])[1].reason == "shape"

    @pytest.mark.parametrize("kind", [kind for kind in ObservationKind if kind is not ObservationKind.ENV])
    @pytest.mark.parametrize("score", [MATCH, CONTRADICTION, ROLE_BREAK])
    def test_only_the_environment_is_judged(self, kind: ObservationKind, score: Score) -> None:
        """Whatever else came back is not_env, also against a contradiction."""
        memory, verdict = _decide([score], step=_step(observation_kind=kind))

        assert (verdict.verdict, verdict.reason) == (VerdictKind.ABSTAIN, Abstain.NOT_ENV)
        assert verdict.observation_kind is kind
        assert memory == Memory()

    @pytest.mark.parametrize("other", [ROLE_BREAK, TRUNCATED, UNCALIBRATED])
    def test_a_violation_outweighs_an_abstention(self, other: Score) -> None:
        """Evidence of something certain counts, though another measure could not judge."""
        assert _decide([other, FLIP])[1].verdict is VerdictKind.OFF_PATH

    @pytest.mark.parametrize("score", [ROLE_BREAK, TRUNCATED, UNCALIBRATED])
    def test_a_scorer_that_abstains_passes_for_nothing(self, score: Score) -> None:
        """The simulator's failures and uncalibrated guesses are no divergence, and cover nothing."""
        memory, verdict = _decide([score])

        assert (verdict.verdict, verdict.reason) == (VerdictKind.ABSTAIN, score.abstain)
        assert memory == Memory()
        assert verdict.alarm is None

    @pytest.mark.parametrize("score", [ROLE_BREAK, TRUNCATED, UNCALIBRATED])
    def test_a_models_failure_takes_nothing_from_what_is_certain(self, score: Score) -> None:
        """What was checked stands, whatever a model made of the rest."""
        certain = Score(name="contracts", value=0.0, coverage=0.4)

        assert _decide([score, certain])[1].verdict is VerdictKind.ON_PATH

    def test_the_first_abstention_is_the_reason(self) -> None:
        """Of several abstentions the first in the scorers' order is told."""
        assert _decide([ROLE_BREAK, TRUNCATED])[1].reason == Abstain.ROLE_BREAK

    def test_the_predictors_reason(self) -> None:
        """Where nothing was predicted the predictor's reason is the verdict's."""
        assert _decide([Score(name="normalised")], prediction=SILENT)[1].reason == Abstain.RACY

    def test_nothing_checked(self) -> None:
        """Predicted but nothing checked is unpredictable; so are no scores at all."""
        assert _decide([Score(name="normalised")])[1].reason == Abstain.UNPREDICTABLE
        assert _decide([])[1].reason == Abstain.UNPREDICTABLE

    @pytest.mark.parametrize(
        ("coverage", "verdict"),
        [(0.0, "abstain"), (0.499, "abstain"), (0.5, "on_path"), (1.0, "on_path")],
    )
    def test_coverage_threshold(self, coverage: float, verdict: str) -> None:
        """At least `min-coverage` must have been checked; the largest of the scores counts."""
        scores = [Score(name="a"), Score(name="b", value=0.0, coverage=coverage)]

        _, decided = _decide(scores, policy=Policy(name="test", min_coverage=0.5))

        assert (decided.verdict, decided.coverage) == (verdict, coverage)

    def test_the_largest_value_is_the_score(self) -> None:
        """The verdict's score is the largest distance; None if none was taken."""
        assert _decide([MATCH, FLIP])[1].score == 1.0
        assert _decide([Score(name="a")])[1].score is None

    @pytest.mark.parametrize("checked", [True, False])
    def test_status_checked(self, *, checked: bool) -> None:
        """A status counts as checked as soon as one of the scores checked it."""
        _, verdict = _decide([MATCH, Score(name="contracts", status_checked=checked)])

        assert verdict.status_checked is checked

    def test_alarm(self) -> None:
        """Each contradiction tells the count; the alarm is raised when there are more than `alarm-after`."""
        policy = Policy(name="test", alarm_after=1)
        memory = Memory()
        alarms = []
        for index, score in enumerate([CONTRADICTION, MATCH, TRUNCATED, FLIP], 1):
            memory, verdict = _decide([score], policy=policy, memory=memory, step=_step(index))
            alarms.append(verdict.alarm)

        assert alarms == [
            Alarm(statistic=1.0, threshold=1.0, raised=False),
            None,
            None,
            Alarm(statistic=2.0, threshold=1.0, raised=True, new=True, first_bad=1),
        ]
        assert memory == Memory(decided=3, contradictions=2, first=1, alarmed=True)

    def test_an_alarm_is_raised_once_whatever_policies_follow_each_other(self) -> None:
        """A policy that is exchanged in mid-trajectory neither loses an alarm nor raises it again."""
        patient, strict = Policy(name="patient", alarm_after=5), Policy(name="strict")
        memory, first = _decide([CONTRADICTION], policy=patient)
        memory, second = _decide([CONTRADICTION], policy=strict, memory=memory, step=_step(2))
        memory, third = _decide(
            [CONTRADICTION], policy=Policy(name="other", alarm_after=2), memory=memory, step=_step(3)
        )

        raised = [(alarm.raised, alarm.new) for verdict in (first, second, third) if (alarm := verdict.alarm)]
        assert raised == [(False, False), (True, True), (True, False)]

    def test_everything_is_carried(self) -> None:
        """A verdict holds who said what of which step, what it cost and where the step came from."""
        policy = Policy(name="test")
        prediction = Prediction(predictor="mlx", text="file\n", model="tiny", tokens=Tokens(prompt=3, generated=2))

        _, verdict = _decide([MATCH], policy=policy, prediction=prediction, predictor="shell,mlx", model="tiny")

        assert verdict.step_id == _step().step_id
        assert (verdict.trajectory, verdict.step, verdict.tool, verdict.domain) == ("t", 1, "bash", "terminal")
        assert (verdict.action, verdict.predicted, verdict.observed) == ("ls", "file\n", "file\n")
        assert (verdict.predictor, verdict.model, verdict.policy) == ("mlx", "tiny", policy.id)
        assert (verdict.tokens, verdict.seconds) == (prediction.tokens, Seconds(predict=0.1, total=0.2))
        assert (verdict.origin, verdict.time) == (Origin(path="t.jsonl", offset=5), "2026-01-02T03:04:05Z")
        assert verdict.seq == 0

    @given(
        scores=st.lists(
            st.sampled_from([MATCH, CONTRADICTION, FLIP, ROLE_BREAK, TRUNCATED, UNCALIBRATED, Score(name="none")])
        ),
        kind=st.sampled_from(ObservationKind),
        prediction=st.sampled_from([CERTAIN, SILENT]),
        before=st.integers(0, 3),
    )
    def test_pure_and_in_precedence(
        self, scores: list[Score], kind: ObservationKind, prediction: Prediction, before: int
    ) -> None:
        """Same arguments, same result; not_env, then violation, then coverage, then abstention decides."""
        memory = Memory(decided=before, contradictions=before, first=before)
        step = _step(9, observation_kind=kind)

        after, verdict = _decide(scores, memory=memory, step=step, prediction=prediction)

        assert _decide(scores, memory=memory, step=step, prediction=prediction) == (after, verdict)
        if kind is not ObservationKind.ENV:
            assert verdict.reason == Abstain.NOT_ENV
        elif any(score.violated for score in scores):
            assert verdict.verdict is VerdictKind.OFF_PATH
        elif MATCH in scores:
            assert verdict.verdict is VerdictKind.ON_PATH
        else:
            assert verdict.verdict is VerdictKind.ABSTAIN
            assert verdict.reason == next(
                (score.abstain for score in scores if score.abstain), prediction.abstain or Abstain.UNPREDICTABLE
            )
        off = verdict.verdict is VerdictKind.OFF_PATH
        assert after.contradictions == before + off
        assert after.decided == before + (verdict.verdict is not VerdictKind.ABSTAIN)
        assert after.first == (before or (9 if off else 0))
        assert (verdict.alarm is not None) == off


class TestVerdictId:
    """A verdict's identity."""

    def test_is_the_same_again(self) -> None:
        """It depends on neither time nor outcome, so that a repetition is visible."""
        assert _decide([MATCH])[1].verdict_id == _decide([CONTRADICTION], memory=Memory(decided=7))[1].verdict_id

    def test_differs_with_step_policy_predictor_and_model(self) -> None:
        """Another step, policy, chain or model makes another verdict."""
        ids = [
            verdict.verdict_id
            for _, verdict in [
                _decide([MATCH]),
                _decide([MATCH], step=_step(2)),
                _decide([MATCH], policy=Policy(name="test", min_coverage=0.5)),
                _decide([MATCH], policy=Policy(name="other")),
                _decide([MATCH], predictor="shell,mlx"),
                _decide([MATCH], model="tiny"),
            ]
        ]

        assert len(set(ids)) == len(ids)


class TestPolicy:
    """The document."""

    def test_id_is_name_and_content(self) -> None:
        """Policies that decide alike share an id, whatever their description; others do not."""
        policy = Policy(name="mine")
        changes: list[dict[str, Any]] = [
            {"predictors": ("recorded",)},
            {"normalisers": ("ansi",)},
            {"normalisers": tuple(reversed(policy.normalisers))},
            {"min_coverage": 0.02},
            {"alarm_after": 1},
            {"shell_profile": "unknown"},
        ]

        assert policy.id.startswith("mine@")
        assert policy.id == msgspec.structs.replace(policy, description="words").id
        ids = {policy.id, *(msgspec.structs.replace(policy, **change).id for change in changes)}
        assert len(ids) == len(changes) + 1

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("predictors = []", "`predictors` is empty; name at least one"),
            ("min-coverage = 0", "`min-coverage` must be above 0 and at most 1"),
            ("min-coverage = 1.1", "`min-coverage` must be above 0 and at most 1"),
            ("min-coverage = nan", "`min-coverage` must be above 0 and at most 1"),
            ("alarm-after = -1", "`alarm-after` must not be negative"),
            ("alarm-after = 0.5", "Expected `int`, got `float` - at `$.alarm-after`"),
            ('normalisers = ["ansy"]', "Invalid enum value 'ansy' - at `$.normalisers[0]`"),
            ('shell-profile = "zsh"', "Invalid enum value 'zsh' - at `$.shell-profile`"),
            ("tools.Bash.min-coverage = 0", "`min-coverage` must be above 0 and at most 1 - at `$.tools.Bash`"),
            ("tools.Read = {}\ntools.Bash = 3", "Expected `object`, got `int` - at `$.tools.Bash`"),
            ('tools."a b".classes = 1', 'Expected `array | null`, got `int` - at `$.tools."a b".classes`'),
        ],
    )
    def test_impossible_values(self, tmp_path: Path, line: str, message: str) -> None:
        """A value that cannot be is refused, with file and place."""
        path = tmp_path / "mine.toml"
        path.write_text(f'name = "mine"\n{line}\n')

        with pytest.raises(PolicyError) as caught:
            load(str(path))

        assert str(caught.value) == f"{path}: {message}"

    @pytest.mark.parametrize(
        ("line", "message", "hint"),
        [
            (
                'normalisers = ["ansy"]',
                "Invalid enum value 'ansy' - at `$.normalisers[0]`",
                "`ansi`? Known words there:",
            ),
            (
                "domains.mcp = {}\ndomains.swe.min-coverge = 1",
                "Object contains unknown field `min-coverge` - at `$.domains.swe`",
                "`min-coverage`? Known keys there: classes, min-coverage, normalisers, surprise.",
            ),
            (
                "tools.Bash.suprise = true",
                "Object contains unknown field `suprise` - at `$.tools.Bash`",
                "`surprise`? Known keys there: classes, min-coverage, normalisers, surprise.",
            ),
            (
                'tools.Bash.classes = ["run-time"]',
                "Invalid enum value 'run-time' - at `$.tools.Bash.classes[0]`",
                "`runtime`? Known words there: deterministic, pre-existing, runtime.",
            ),
            (
                "domains.termnal = {}",
                f"no domain is called `termnal`; there are: {', '.join(DOMAINS)}",
                f"`terminal`? Known names: {', '.join(DOMAINS)}.",
            ),
            (
                "asking.max-token = 300",
                "Object contains unknown field `max-token` - at `$.asking`",
                "`max-tokens`? Known keys there: ",
            ),
            (
                "surprise.term.mean.weight = 1.0",
                "Object contains unknown field `term` - at `$.surprise`",
                "`terms`? Known keys there: intercept, quantiles, terms.",
            ),
            (
                "surprise.terms.first.weight = 1.0\nsurprise.terms.mean.wieght = 1.0",
                "Object contains unknown field `wieght` - at `$.surprise.terms.mean`",
                "`weight`? Known keys there: mean, scale, weight.",
            ),
            ("surprise.terms.meen.weight = 1.0", "no statistic is called `meen`; ", "`mean`? Known names: mean, max, "),
            (
                "calibration.dat = 1",
                "Object contains unknown field `dat` - at `$.calibration`",
                "`date`? Known keys there: date, ",
            ),
            (
                "calibration.learnt.levle = 1",
                "Object contains unknown field `levle` - at `$.calibration.learnt`",
                "`level`? Known keys there: alarms, alpha, ",
            ),
            (
                "calibration.learnt.reference.buckets = [{ tol = 1 }]",
                "Object contains unknown field `tol` - at `$.calibration.learnt.reference.buckets[0]`",
                "`tool`? Known keys there: deterministic, domain, scores, tool.",
            ),
        ],
    )
    def test_what_nobody_knows(self, tmp_path: Path, line: str, message: str, hint: str) -> None:
        """What is not known is refused wherever it stands, with its place and the nearest that is known."""
        path = tmp_path / "mine.toml"
        path.write_text(f'name = "mine"\n{line}\n')

        with pytest.raises(PolicyError) as caught:
            load(str(path))

        assert str(caught.value).startswith(f"{path}: {message}")
        assert caught.value.hint.startswith(f"Did you mean {hint}")

    def test_an_impossible_value_has_a_remedy(self, tmp_path: Path) -> None:
        """The error says where to read on, and that is the policy's reference."""
        path = tmp_path / "mine.toml"
        path.write_text('name = "mine"\nmin-coverage = 0\n')

        with pytest.raises(PolicyError) as caught:
            load(str(path))

        assert "policies/README.md" in caught.value.hint

    def test_a_hostile_depth_is_an_error(self, tmp_path: Path) -> None:
        """Not a crash of what reads it."""
        path = tmp_path / "deep.toml"
        path.write_text(f'name = "x"\ndeep = {"[" * 5000}{"]" * 5000}\n')

        with pytest.raises(PolicyError, match="too deeply"):
            load(str(path))

    def test_a_name_is_needed(self, tmp_path: Path) -> None:
        """A document without a name is refused."""
        path = tmp_path / "mine.toml"
        path.write_text("")

        with pytest.raises(PolicyError, match="missing required field `name`"):
            load(str(path))


class TestRules:
    """What holds for a step."""

    POLICY = Policy(
        name="test",
        min_coverage=0.1,
        domains={"mcp": Rules(min_coverage=0.2, surprise=False)},
        tools={"ask": Rules(min_coverage=0.3), "tell": Rules(classes=())},
    )

    @pytest.mark.parametrize(
        ("tool", "domain", "coverage", "surprise", "classes"),
        [
            ("bash", "terminal", 0.1, True, POLICY.classes),
            ("bash", "mcp", 0.2, False, POLICY.classes),
            ("ask", "mcp", 0.3, False, POLICY.classes),
            ("ask", "terminal", 0.3, True, POLICY.classes),
            ("tell", "mcp", 0.2, False, ()),
        ],
    )
    def test_a_tool_goes_before_its_domain(
        self, tool: str, domain: str, coverage: float, *, surprise: bool, classes: tuple[ContentClass, ...]
    ) -> None:
        """And that before the policy; what one leaves open the next says."""
        for _ in range(2):  # the second time it is remembered
            assert self.POLICY.rules(_named(tool, domain)) == Rules(
                normalisers=self.POLICY.normalisers, min_coverage=coverage, classes=classes, surprise=surprise
            )

    def test_names_of_tools_fill_no_memory(self) -> None:
        """They come from logs, and there may be any number."""
        policy = msgspec.structs.replace(self.POLICY)

        for number in range(5000):
            policy.rules(_named(f"t{number}"))

        assert policy.rules(_named("ask")).min_coverage == 0.3
        assert len(policy._resolved) <= 1024

    def test_the_least_coverage_is_the_tools(self) -> None:
        """What is enough for one tool is not for another."""
        part = Score(name="contracts", value=0.0, coverage=0.25)

        verdicts = {tool: _decide([part], step=_named(tool), policy=self.POLICY)[1].verdict for tool in ("bash", "ask")}

        assert verdicts == {"bash": VerdictKind.ON_PATH, "ask": VerdictKind.ABSTAIN}


class TestMeasure:
    """What a calibration depends on."""

    @pytest.mark.parametrize(
        ("change", "same"),
        [
            ({"name": "other", "description": "x"}, True),
            ({"alarms": False}, True),
            ({"alarm_after": 3}, True),
            ({"quotes": "off"}, True),
            ({"predictors": ("shell",)}, True),
            ({"asking": Asking(deadline=1.0)}, True),
            ({"asking": Asking(screen=True)}, False),
            ({"min_coverage": 0.5}, False),
            ({"classes": ()}, False),
            ({"normalisers": ()}, False),
            ({"tools": {"bash": Rules(surprise=False)}}, False),
        ],
    )
    def test_only_what_makes_scores_counts(self, change: dict[str, Any], *, same: bool) -> None:
        """Predictors and model are compared by themselves, alarms and quotes change no score."""
        policy = Policy(name="test")

        assert (msgspec.structs.replace(policy, **change).measure == policy.measure) is same

    def test_shadow_measures_as_default(self) -> None:
        """What is calibrated with one holds for the other."""
        assert load("shadow").measure == load("default").measure


class TestLoad:
    """Names and files."""

    def test_bundled(self) -> None:
        """The bundled policies are found by name, and `default` is what a Policy is without a document."""
        assert {"default", "strict"} <= set(names())
        assert msgspec.structs.replace(load("default"), description="") == Policy(name="default")

    def test_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A suffix or a separator makes it a path, relative to the working directory; `~` is the home."""
        (tmp_path / "mine.toml").write_text('name = "mine"')
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))

        for name in ("mine.toml", "./mine.toml", "~/mine.toml", str(tmp_path / "mine.toml")):
            assert load(name) == Policy(name="mine")

    def test_unknown_name(self) -> None:
        """An unknown name is answered with the known ones."""
        with pytest.raises(PolicyError) as caught:
            load("defualt")

        assert str(caught.value) == "no policy is called `defualt`"
        assert ", ".join(names()) in caught.value.hint

    def test_missing_file(self, tmp_path: Path) -> None:
        """A file that is not there is named, and so are the bundled policies."""
        path = tmp_path / "absent.toml"

        with pytest.raises(PolicyError) as caught:
            load(str(path))

        assert str(caught.value) == f"{path}: cannot read the policy: No such file or directory"
        assert ", ".join(names()) in caught.value.hint

    def test_not_utf8(self, tmp_path: Path) -> None:
        """A file in another encoding is refused, not misread."""
        path = tmp_path / "latin.toml"
        path.write_bytes(b'name = "caf\xe9"')

        with pytest.raises(PolicyError, match="cannot read the policy"):
            load(str(path))


def test_every_abstention_has_a_word_of_its_own() -> None:
    """Reasons, verdicts and kinds are strings in the verdict JSONL and never collide."""
    words = [str(word) for word in itertools.chain(Abstain, VerdictKind)]

    assert len(set(words)) == len(words)


def test_what_scores_depend_on_has_a_hash() -> None:
    """A name, a description, alarms and quotes change no score; normalisers, weights and the way of asking do."""
    policy = load("default")
    same = msgspec.structs.replace(
        policy, name="x", description="y", alarms=False, alarm_after=3, quotes="off", predictors=("mlx",)
    )
    others = (
        msgspec.structs.replace(policy, normalisers=("ansi",)),
        msgspec.structs.replace(policy, surprise=Fusion(terms={"mean": Term(weight=1.0)})),
        msgspec.structs.replace(policy, asking=msgspec.structs.replace(policy.asking, wrapper="none")),
    )

    assert same.measure == policy.measure
    assert len({policy.measure, *(other.measure for other in others)}) == 4


def test_a_calibration_of_another_judge_is_told() -> None:
    """Each thing that differs, in words; nothing where there is none, or no calibration."""
    policy = load("default")
    learnt = calibrate([Trajectory("t", (Scored("Bash", "terminal", 0.0),))])
    made = Calibrated(
        date="", predictor="shell,mlx", model="m@1", policy=policy.id, measure=policy.measure, learnt=learnt
    )
    calibrated = msgspec.structs.replace(policy, calibration=made)
    changed = msgspec.structs.replace(calibrated, min_coverage=0.5)

    assert policy.unlike("shell", None) == ()
    assert calibrated.unlike("shell,mlx", "m@1") == ()
    assert calibrated.unlike("shell", None) == (
        "the chain of predictors was shell,mlx, and is shell",
        "the model was m@1, and is none",
    )
    assert [text.split(" was ")[0] for text in changed.unlike("shell,mlx", "m@1")] == [
        "what else of the policy makes the scores"
    ]


def test_a_verdict_keeps_where_a_model_was_surprised() -> None:
    """Tokens that stand out are kept in their order, the most surprising ones if there are many; else nothing is."""
    found = Likelihood(starts=(0, 2, 4), surprisal=(0.1, 7.26, 0.5, 3.0))
    step = _step(observation="abcdef\n")
    guess = Prediction(predictor="mlx", likelihood=found)

    assert _decide([MATCH], step=step, prediction=guess)[1].surprise == ((2, 4, 7.3), (4, 6, 0.5))
    assert _decide([MATCH], step=step)[1].surprise is msgspec.UNSET
    unplaced = Prediction(predictor="mlx", likelihood=Likelihood(surprisal=(1.0, 2.0)))
    assert _decide([MATCH], step=step, prediction=unplaced)[1].surprise is msgspec.UNSET
    long = Likelihood(starts=tuple(range(2000)), surprisal=(*(n / 100 for n in range(2000)), 0.0))
    kept = _decide(
        [MATCH], step=_step(observation="x" * 2000), prediction=Prediction(predictor="mlx", likelihood=long)
    )[1].surprise
    assert isinstance(kept, tuple)
    assert len(kept) == 500
    assert kept[0][0] == 1500
