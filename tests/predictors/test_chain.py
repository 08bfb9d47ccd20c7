"""Several predictors asked in turn."""

from pathlib import Path

import msgspec
import pytest

from verifierd.config import ModelConfig
from verifierd.policy import DOMAINS, Asking, Memory, Policy, decide
from verifierd.predictors.chain import Chain
from verifierd.predictors.scripted import ScriptedPredictor
from verifierd.predictors.shell import ShellPredictor
from verifierd.scoring import open_scorers
from verifierd.stages import Predictor
from verifierd.types import (
    Abstain,
    Action,
    Check,
    Constraint,
    History,
    Likelihood,
    Origin,
    Prediction,
    Seconds,
    Step,
    Tokens,
    Verdict,
)

STEP = Step(
    format="native",
    trajectory="t",
    index=1,
    action=Action(tool="bash", input="ls", command="ls"),
    observation="",
    origin=Origin(path="t.jsonl", offset=0),
)

pytestmark = pytest.mark.anyio


class _Member(ScriptedPredictor):
    """Answers the same each time, and remembers what was done to it."""

    def __init__(self, name: str, prediction: Prediction, model: str | None = None) -> None:
        super().__init__(self._answer)
        self.name = name
        self.model = model
        self.asked = 0
        self.closed = False
        self._prediction = prediction

    def _answer(self, _history: History, _step: Step) -> Prediction:
        self.asked += 1
        return self._prediction

    async def aclose(self) -> None:
        self.closed = True


def _no(name: str, abstain: Abstain) -> _Member:
    return _Member(name, Prediction(predictor=name, abstain=abstain, detail=f"{name} cannot"))


def _yes(name: str, model: str | None = None) -> _Member:
    return _Member(name, Prediction(predictor=name, text=name), model)


async def test_the_first_that_predicts_is_the_last_asked() -> None:
    """Those that abstain are passed over; those after the first prediction are not asked."""
    members = [_no("a", Abstain.RACY), _yes("b"), _yes("c")]

    prediction = await Chain(members).predict(History(STEP.key), STEP)

    assert prediction == Prediction(predictor="b", text="b")
    assert [member.asked for member in members] == [1, 1, 0]


async def test_an_empty_text_is_a_prediction() -> None:
    """A predicted empty observation ends the asking."""
    member = _Member("a", Prediction(predictor="a", text=""))

    assert (await Chain([member, _yes("b")]).predict(History(STEP.key), STEP)).text == ""


async def test_the_first_reason_stands_if_all_abstain() -> None:
    """Where nobody predicts, the reason is that of the first asked."""
    chain = Chain([_no("a", Abstain.RACY), _no("b", Abstain.UNPREDICTABLE)])

    prediction = await chain.predict(History(STEP.key), STEP)

    assert (prediction.predictor, prediction.abstain, prediction.detail) == ("a", Abstain.RACY, "a cannot")


async def test_name_and_model() -> None:
    """A chain is called by its members' names; its model is the first that there is."""
    chain = Chain([_yes("a"), _yes("b", "model-b"), _yes("c", "model-c")])

    assert chain.name == "a,b,c"
    assert chain.model == "model-b"
    assert Chain([_yes("a")]).model is None


async def test_close_reaches_every_member() -> None:
    """Closing a chain closes all of it, also those never asked."""
    members = [_yes("a"), _yes("b")]

    await Chain(members).aclose()

    assert [member.closed for member in members] == [True, True]


def _part(name: str) -> _Member:
    constraint = Constraint(rule=f"{name}-rule", check=Check.EMPTY)
    return _Member(name, Prediction(predictor=name, certain=True, constraints=(constraint,)))


async def test_a_partial_prediction_is_joined_by_the_whole_one() -> None:
    """Constraints are kept, and the asking goes on until somebody predicts the whole."""
    members = [_no("a", Abstain.RACY), _part("b"), _yes("c"), _yes("d")]

    prediction = await Chain(members).predict(History(STEP.key), STEP)

    assert (prediction.predictor, prediction.text) == ("b,c", "c")
    assert [constraint.rule for constraint in prediction.constraints] == ["b-rule"]
    assert [member.asked for member in members] == [1, 1, 1, 0]


async def test_partial_predictions_add_up() -> None:
    """Without a whole prediction the parts are it; what the first one lacked is kept as the reason."""
    prediction = await Chain([_no("a", Abstain.RACY), _part("b"), _part("c")]).predict(History(STEP.key), STEP)

    assert [constraint.rule for constraint in prediction.constraints] == ["b-rule", "c-rule"]
    assert prediction.abstain is None
    assert prediction.detail == "a cannot"


def _model(**answer: object) -> _Member:
    """A member that stands for a language model: it answers with a likelihood unless told otherwise."""
    values = {"model": "m", "tokens": Tokens(prompt=9, computed=4), **answer}
    return _Member("model", Prediction(predictor="model", **values), "m")  # type: ignore[arg-type]


def _differs() -> Likelihood:
    """A model that expected something else from the first token on."""
    return Likelihood(starts=(0,), surprisal=(7.0, 1.0), entropy=(1.0, 1.0), expected="x")


@pytest.mark.parametrize(("ask_below", "asked"), [(1.0, 1), (0.61, 1), (0.6, 0), (0.0, 0)])
async def test_the_next_is_asked_below_a_coverage(ask_below: float, asked: int) -> None:
    """What is checked to the share that the policy names is left alone."""
    model = _model(likelihood=_differs())

    await Chain([_part("a"), model], covered=lambda *_: 0.6, ask_below=ask_below).predict(History(STEP.key), STEP)

    assert model.asked == asked


async def test_coverage_is_not_measured_for_nothing() -> None:
    """Behind the last predictor, and where no part is known, nobody needs the share."""
    measured: list[Prediction] = []

    def covered(_history: History, _step: Step, prediction: Prediction) -> float:
        measured.append(prediction)
        return 0.0

    await Chain([_no("a", Abstain.RACY), _part("b")], covered=covered).predict(History(STEP.key), STEP)
    await Chain([_yes("a"), _part("b")], covered=covered).predict(History(STEP.key), STEP)

    assert measured == []


@pytest.mark.parametrize(
    ("first", "then", "reason"),
    [
        (Abstain.UNPREDICTABLE, Abstain.TOO_LONG, Abstain.TOO_LONG),
        (Abstain.UNPREDICTABLE, Abstain.TIMEOUT, Abstain.TIMEOUT),
        (Abstain.PREDICTOR_ERROR, Abstain.TOO_LONG, Abstain.PREDICTOR_ERROR),
    ],
)
async def test_what_a_model_lacked_tells_more(first: Abstain, then: Abstain, reason: Abstain) -> None:
    """A model is asked last, so its reason is why the step stays open, and its cost is told; a failure weighs most."""
    model = _model(abstain=then, detail="model cannot")

    prediction = await Chain([_no("a", first), model]).predict(History(STEP.key), STEP)

    assert prediction.abstain == reason
    assert prediction.detail == f"{prediction.predictor} cannot"
    assert (prediction.model, prediction.tokens.computed) == ("m", 4)


async def test_a_models_cost_is_told_though_it_abstained() -> None:
    """The parts stand; the model's reason and its tokens stand beside them."""
    model = _model(abstain=Abstain.TOO_LONG, detail="too long")

    prediction = await Chain([_part("a"), model]).predict(History(STEP.key), STEP)

    assert (prediction.predictor, prediction.abstain, prediction.detail) == ("a", None, "too long")
    assert (prediction.model, prediction.tokens.computed) == ("m", 4)


async def test_a_models_words_are_its_own() -> None:
    """Where a model answered or fell out of its role, what another one lacked is not given as the reason."""
    odd = _model(likelihood=_differs(), failed=Abstain.ROLE_BREAK, detail="no observation")
    for member, detail in ((odd, "no observation"), (_model(likelihood=_differs()), "")):
        prediction = await Chain([_no("a", Abstain.RACY), member]).predict(History(STEP.key), STEP)
        assert prediction.detail == detail


@pytest.mark.parametrize("backwards", [False, True])
async def test_a_likelihood_is_kept_whoever_comes_first(*, backwards: bool) -> None:
    """The order of the members loses neither constraints nor what the model measured."""
    members: list[Predictor] = [_part("a"), _model(likelihood=_differs())]

    prediction = await Chain(members[::-1] if backwards else members).predict(History(STEP.key), STEP)

    assert prediction.likelihood == _differs()
    assert [constraint.rule for constraint in prediction.constraints] == ["a-rule"]
    assert (prediction.model, prediction.tokens.computed) == ("m", 4)


async def _judged(step: Step, *members: Predictor) -> Verdict:
    prediction = await Chain(members).predict(History(step.key), step)
    policy = Policy(name="p")
    scores = [scorer(History(step.key), step, prediction) for scorer in open_scorers(policy)]
    _, verdict = decide(
        policy, Memory(), step, prediction, scores, predictor="chain", model="m", time="", seconds=Seconds()
    )
    return verdict


def _must_contain(text: str) -> _Member:
    """A member that is certain of a line, a rule of full power."""
    constraint = Constraint(rule="r", check=Check.CONTAINS, text=text, deciding=True, power=1.0)
    return _Member("rules", Prediction(predictor="rules", certain=True, constraints=(constraint,)))


@pytest.mark.parametrize(
    "model",
    [
        _model(likelihood=_differs()),
        _model(likelihood=_differs(), failed=Abstain.ROLE_BREAK, detail="no observation"),
        _model(text="another\n"),
        _model(text="one\ntw", truncated=True),
        _model(abstain=Abstain.TOO_LONG),
        _model(abstain=Abstain.TIMEOUT),
    ],
    ids=["differs", "role break", "another text", "cut", "too long", "timeout"],
)
async def test_what_a_rule_pinned_stands(model: _Member) -> None:
    """A step of which a part was checked stays on path, whatever the model makes of the rest."""
    verdict = await _judged(msgspec.structs.replace(STEP, observation="one\ntwo\n"), _must_contain("one"), model)

    assert model.asked
    assert (verdict.verdict, verdict.reason) == ("on_path", "as_predicted")
    assert verdict.coverage == pytest.approx(3 / 7)


async def test_a_contradiction_stands() -> None:
    """What a rule contradicts is off path, though the model had given the very text."""
    step = msgspec.structs.replace(STEP, observation="two\n")
    for model in (_model(text="two\n"), _model(likelihood=Likelihood(starts=(0,), surprisal=(0.1, 0.1), agreed=2))):
        verdict = await _judged(step, _must_contain("one"), model)
        assert (verdict.verdict, verdict.reason) == ("off_path", "contradiction")


async def test_a_surprise_alone_is_suspect() -> None:
    """Nobody has measured yet how often a model is surprised by what is true: the step abstains, and shows where."""
    verdict = await _judged(
        msgspec.structs.replace(STEP, observation="two\n"),
        _no("a", Abstain.UNPREDICTABLE),
        _model(likelihood=_differs()),
    )

    assert (verdict.verdict, verdict.reason, verdict.alarm) == ("abstain", "uncalibrated", None)
    assert [(signal.name, signal.span) for signal in verdict.signals] == [("suspect", (0, 3))]


def _step(number: int, command: str, observation: str) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=number,
        action=Action(tool="bash", input=command, command=command),
        observation=observation,
        exit_code=0,
        cwd="/home/user",
        origin=Origin(path="t.jsonl", offset=number),
    )


async def _tokens(steps: list[Step], prompts: Path) -> list[Tokens]:
    """What the steps of a trajectory cost a tiny model behind the shell."""
    pytest.importorskip("mlx_lm")
    from verifierd.predictors.mlx import MlxPredictor  # noqa: PLC0415 - absent on some platforms

    for domain in DOMAINS:
        (prompts / domain).mkdir()
        (prompts / domain / "system_prompt.txt").write_text("You are a terminal.\n")
    settings = ModelConfig(name="tiny", prompts=str(prompts), context_tokens=4096, cache_bytes=0)
    chain = Chain([ShellPredictor(), MlxPredictor(settings, Asking(deadline=300.0))])
    history = History(("native", "t"))
    found = []
    try:
        for step in steps:
            found.append((await chain.predict(history, step)).tokens)
            history.append(step)
    finally:
        await chain.aclose()
    return found


async def test_a_model_reads_what_it_was_not_asked_about(tmp_path: Path) -> None:
    """Steps that the shell decided cost nothing then, and are in the prompt of the next open one."""
    known = [_step(n, f"echo {n * 111}", f"{n * 111}\n") for n in (2, 3, 4)]
    steps = [_step(1, "frobnicate", "a\n"), *known, _step(5, "frobnicate", "b\n")]
    first, *skipped, last = await _tokens(steps, tmp_path)

    assert skipped == [Tokens()] * 3
    assert first.scored
    assert last.scored
    assert last.prompt > first.prompt + first.scored + sum(len(step.action.text) for step in known)


async def test_what_the_shell_decides_costs_no_token(tmp_path: Path) -> None:
    """A trajectory that is known in full computes nothing, not even the system prompt."""
    steps = [_step(n, f"echo {n}", f"{n}\n") for n in range(1, 5)]

    assert await _tokens(steps, tmp_path) == [Tokens()] * 4


@pytest.mark.parametrize("keep", [True, False])
async def test_whether_it_is_kept_is_handed_on(keep: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """To each that is asked."""
    told: list[bool] = []

    class Told(ScriptedPredictor):
        async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:
            told.append(keep)
            return await super().predict(history, step, keep=keep)

    await Chain([Told(), Told()]).predict(History(STEP.key), STEP, keep=keep)

    assert told == [keep, keep]
