"""What simple means make of observations."""

import math
from collections.abc import Sequence

import pytest

from tests.helpers import ran
from verifierd.errors import PredictorError
from verifierd.replay.evaluation.controls import Judge, Past, Support, error_words
from verifierd.replay.runs import Run
from verifierd.stages import Asked, Message, Reply
from verifierd.types import History, Step

pytestmark = pytest.mark.anyio


def run(group: str, *commands: str) -> Run:
    """A trajectory of these commands."""
    steps = [ran(command, trajectory=group, index=index) for index, command in enumerate(commands, 1)]
    return Run(key=("native", group), group=group, steps=steps)


@pytest.mark.parametrize(
    ("observation", "said"),
    [
        ("cat: x: No such file or directory", 1.0),
        ("FAILED (1)", 1.0),
        ("all went well", 0.0),
        ("terrors", 0.0),
        ("", 0.0),
    ],
)
def test_words_of_errors(observation: str, said: float) -> None:
    """Whole words, in any case."""
    assert error_words(ran("x", observation)) == said


def test_what_came_before() -> None:
    """The same text but for outer blanks; an empty one, too; and not what is only part of another."""
    past = Past()
    past.append(ran("a", "one\ntwo\n"))
    past.append(ran("b", ""))

    assert [past.seen(ran("c", text)) for text in ("one\ntwo", "one", " \n")] == [1.0, 0.0, 1.0]


def test_what_is_new() -> None:
    """What was there before costs little, what was not costs more; huge and broken texts are no trouble."""
    words = " ".join(f"{number * 7919 % 10007}" for number in range(2000))
    past = Past()
    empty = past.novelty(ran("c", words))
    past.append(ran("cat numbers", words))

    assert past.novelty(ran("c", words)) < 0.05 < empty
    assert 0 < past.novelty(ran("c", "\ud800" * 10)) < 10
    assert past.novelty(ran("c", "")) > 0
    past.append(ran("c", "x" * 5_000_000))
    assert 0 < past.novelty(ran("c", "y" * 5_000_000)) < 0.01


def test_the_own_group_does_not_support() -> None:
    """What only this session does is as rare as can be, however often it does it."""
    runs = [run("a", "git add", "git commit", "git add", "git commit"), run("b", "git add", "git commit", "ls")]
    support = Support(runs)

    def surprisal(group: str, before: Step | None, step: Step) -> float:
        return support.surprisal(group, before, step)

    add, commit = runs[0].steps[:2]
    # Three names: git, ls, and nothing else, as options and subcommands do not count.
    assert surprisal("a", None, add) == pytest.approx(-math.log((1 + 1) / (1 + 2)))
    assert surprisal("a", add, commit) == pytest.approx(-math.log((1 + 1) / (2 + 2)))
    assert surprisal("b", commit, runs[1].steps[2]) == pytest.approx(-math.log((0 + 1) / (3 + 2)))
    alone = Support([run("a", "ls")])
    assert alone.surprisal("a", None, ran("ls")) == 0.0


class Talker:
    """Answers all alike; fails where it is to answer nothing."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer
        self.heard: list[Sequence[Message]] = []

    async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:
        """The answer."""
        assert not asked.thinking
        self.heard.append(messages)
        if self.answer is None:
            raise PredictorError("too long")
        return Reply(
            text=self.answer,
            thought="",
            finish="stop",
            prompt_tokens=1,
            generated_tokens=1,
            seconds=0.0,
            first_token_seconds=0.0,
            model="m",
        )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("no", 1.0),
        ("No, no.", 1.0),
        ("**Yes**", 0.0),
        ("nobody knows", 0.5),
        ("", 0.5),
        ("?!", 0.5),
        (None, None),
    ],
)
async def test_the_judge_says_yes_or_no(answer: str | None, said: float | None) -> None:
    """Its first word counts; anything else is no answer, and a failure costs one case."""
    judge = Judge(Talker(answer), 1, 0)

    assert await judge("case", History(("native", "t")), ran("x", "y")) == said


async def test_the_judge_is_asked_about_a_seeded_share() -> None:
    """Of many cases about 300, the same ones for the same seed."""
    asked = []
    for seed in (1, 1, 2):
        talker = Talker("no")
        judge = Judge(talker, 3000, seed)
        asked.append([await judge(f"c{number}", History(("n", "t")), ran("x")) for number in range(3000)])

    assert asked[0] == asked[1] != asked[2]
    assert 240 < sum(one is not None for one in asked[0]) < 360


async def test_the_judge_sees_a_few_short_steps() -> None:
    """Huge texts are cut, and of a long history only the end is shown."""
    history = History(("native", "t"))
    for index in range(1, 30):
        history.append(ran(f"step-{index}", "o" * 100_000, index=index))
    talker = Talker("yes")

    await Judge(talker, 1, 0)("case", history, ran("last", "n" * 100_000))

    shown = talker.heard[0][-1].content
    assert len(shown) < 10_000
    assert [f"step-{index}" in shown for index in (25, 26, 29)] == [False, True, True]
    assert shown.endswith("yes or no")
