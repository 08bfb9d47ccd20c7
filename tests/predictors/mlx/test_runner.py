"""From what the model's pass says to a prediction."""

from collections.abc import Sequence

import msgspec
import pytest

pytest.importorskip("mlx_lm")

from tests.helpers import ran
from verifierd.config import ModelConfig
from verifierd.policy import Asking
from verifierd.predictors.mlx.loading import Loaded, find, load
from verifierd.predictors.mlx.passes import Scored
from verifierd.predictors.mlx.runner import ModelRunner
from verifierd.predictors.mlx.strand import Draft, Job
from verifierd.predictors.mlx.verifier import Outcome
from verifierd.types import Abstain, Prediction, Step, Tokens

SETTINGS = ModelConfig(name="tiny", context_tokens=12_288, cache_bytes=10**8)


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    """The tiny model, loaded once."""
    return load(find("tiny"), SETTINGS, lambda _line: None)


def _asking(wrapper: str = "marker", *, text: bool = False, most: int = 1024) -> Asking:
    return msgspec.convert({"wrapper": wrapper, "predicted-text": text, "max-tokens": most}, Asking)


class Told:
    """A runner whose model is told what to say."""

    def __init__(self, loaded: Loaded, asking: Asking) -> None:
        self.runner = ModelRunner(loaded, SETTINGS, asking)
        self.template = self.runner._template
        self.end = self.template.end

    def tokens(self, text: str) -> list[int]:
        """Text as tokens, special ones as such."""
        return self.template._encode(text)

    def draft(self, step: Step) -> Draft:
        """The answer that agrees."""
        return self.runner._verifier._renderer.draft(step)

    def at(self, step: Step, place: int, token: int, decoded: Sequence[int] = ()) -> Prediction:
        """The prediction where the model takes another token at this place of the draft, then those."""
        draft = self.draft(step)
        greedy = list(draft.ids)
        greedy[place] = token
        return self._predict(step, draft, greedy, [*greedy[: place + 1], *decoded])

    def agreed(self, step: Step, most: int = 1024) -> Prediction:
        """The prediction where the model says just that."""
        draft = self.draft(step)
        return self._predict(step, draft, draft.ids, draft.ids[:most])

    def _predict(self, step: Step, draft: Draft, greedy: list[int], known: list[int]) -> Prediction:
        numbers = [float(place) for place in range(len(greedy))]
        outcome = Outcome(
            draft=draft,
            scored=Scored(list(greedy), numbers, numbers, numbers, numbers),
            greedy=list(known),
            ended=known[-1] in self.template.ends,
            dropped=0,
            tokens=Tokens(),
        )
        return self.runner._prediction(step, outcome)


WRAPPERS = pytest.mark.parametrize("wrapper", ["none", "marker", "tags"])


@WRAPPERS
@pytest.mark.parametrize("observation", ["", "\n", "a\n", "\n  the end \n\n", "né 🦊\nthe <|im_end|> there\n"])
def test_an_agreed_draft_is_the_observation(loaded: Loaded, wrapper: str, observation: str) -> None:
    """To the last blank, whatever stands around it; each of its tokens has its likelihood, and so has its end."""
    told = Told(loaded, _asking(wrapper))
    step = ran("x", observation)
    found = told.agreed(step)
    draft = told.draft(step)
    assert (found.text, found.truncated, found.failed, found.abstain) == (observation, False, None, None)
    assert found.likelihood is not None
    assert found.likelihood.expected is None
    assert found.likelihood.agreed == len(found.likelihood.surprisal) == draft.last - draft.first + 1
    assert found.likelihood.surprisal[0] == draft.first
    assert found.model is not None
    assert "random weights" in found.model


@WRAPPERS
def test_the_first_difference(loaded: Loaded, wrapper: str) -> None:
    """Without decoding there is no text, but what was expected is known."""
    told = Told(loaded, _asking(wrapper))
    step = ran("x", "abc def")
    draft = told.draft(step)
    found = told.at(step, draft.first + 1, told.tokens("X")[0])
    assert (found.text, found.failed) == (None, None)
    assert found.likelihood is not None
    assert (found.likelihood.agreed, found.likelihood.expected) == (1, "X")


@WRAPPERS
def test_an_end_where_more_came(loaded: Loaded, wrapper: str) -> None:
    """The end of the answer is an expectation like another, and makes the text whole."""
    told = Told(loaded, _asking(wrapper))
    step = ran("x", "abc")
    found = told.at(step, told.draft(step).first + 1, told.end)
    assert found.text == "a"
    assert found.likelihood is not None
    assert found.likelihood.expected == ""


@WRAPPERS
def test_more_where_the_end_came(loaded: Loaded, wrapper: str) -> None:
    """A token after the last one is a difference, white space is none."""
    told = Told(loaded, _asking(wrapper))
    step = ran("x", "abc\n")
    last = told.draft(step).last
    for word, expected in (("X", "X"), ("\n", None), (" ", None)):
        found = told.at(step, last, told.tokens(word)[0])
        assert found.likelihood is not None
        assert (found.failed, found.likelihood.expected) == (None, expected)


def test_a_closing_tag_that_is_left_out(loaded: Loaded) -> None:
    """A matter of form: the observation is the one that came."""
    told = Told(loaded, _asking("tags"))
    step = ran("x", "abc\n")
    found = told.at(step, told.draft(step).last, told.end)
    assert (found.text, found.failed) == ("abc", None)
    assert found.likelihood is not None
    assert found.likelihood.expected is None


def test_a_closing_tag_that_does_not_go_on(loaded: Loaded) -> None:
    """After its first token more may be expected: the place is the end, and the surprisal that of where it parted."""
    told = Told(loaded, _asking("tags"))
    step = ran("x", "abc\n")
    place = told.draft(step).last + 1
    for word, expected in (("X", "X"), (" ", None), ("<", None)):
        found = told.at(step, place, told.tokens(word)[0])
        assert found.likelihood is not None
        assert (found.failed, found.likelihood.expected) == (None, expected)
        if expected is not None:
            assert (found.likelihood.agreed, found.likelihood.surprisal[3:]) == (3, (float(place),))


@pytest.mark.parametrize(
    ("observation", "place", "token"),
    [
        ("a the end", 1, "Ġ"),  # " " where " the" came
        ("a the end", 1, "Ġt"),
        ("xin", 1, "i"),  # "i" where "in" came
    ],
)
def test_other_tokens_may_spell_the_same(loaded: Loaded, observation: str, place: int, token: str) -> None:
    """A token that spells the beginning of what came is no difference that one could show."""
    told = Told(loaded, _asking())
    number = loaded.tokenizer.convert_tokens_to_ids(token)
    step = ran("x", observation)
    draft = told.draft(step)
    assert draft.ids[draft.first + place] != number
    found = told.at(step, draft.first + place, number)
    assert found.likelihood is not None
    assert (found.failed, found.likelihood.expected) == (None, None)


@pytest.mark.parametrize("wrapper", ["marker", "tags"])
def test_leaving_the_wrapper_is_a_broken_role(loaded: Loaded, wrapper: str) -> None:
    """The model does not speak as the environment: no text, and no difference of the environment."""
    told = Told(loaded, _asking(wrapper))
    step = ran("x", "abc")
    for place in (0, told.draft(step).first - 2):
        for token in (told.tokens("I")[0], told.end):
            found = told.at(step, place, token)
            assert (found.text, found.failed) == (None, Abstain.ROLE_BREAK)
            assert "no observation" in found.detail
            assert found.likelihood is not None
            assert (found.likelihood.agreed, found.likelihood.expected) == (0, None)


def test_an_end_after_the_marker(loaded: Loaded) -> None:
    """The model expects nothing to come: a difference if something came."""
    told = Told(loaded, _asking())
    step = ran("x", "abc")
    found = told.at(step, told.draft(step).first - 1, told.end)  # in place of the marker's line end
    assert (found.text, found.failed) == ("", None)
    assert found.likelihood is not None
    assert found.likelihood.expected == ""


def test_something_after_the_marker_where_nothing_came(loaded: Loaded) -> None:
    """A line end alone may yet be followed by nothing; a word is a difference."""
    told = Told(loaded, _asking())
    step = ran("x", "")
    draft = told.draft(step)
    for word, expected in (("\n", None), ("X", "X")):
        found = told.at(step, draft.last, told.tokens(word)[0])
        assert found.likelihood is not None
        assert (found.failed, found.likelihood.expected) == (None, expected)


@WRAPPERS
def test_a_thought_is_a_broken_role(loaded: Loaded, wrapper: str) -> None:
    """Thinking is off: a model that thinks all the same has predicted nothing."""
    told = Told(loaded, _asking(wrapper))
    think = loaded.tokenizer.convert_tokens_to_ids("<think>")
    found = told.at(ran("x", "abc"), 0, think, told.tokens("hm"))
    assert (found.text, found.failed) == (None, Abstain.ROLE_BREAK)


@WRAPPERS
def test_a_thought_that_only_begins(loaded: Loaded, wrapper: str) -> None:
    """Without decoding its first token is all that is known; it is no expectation of the environment."""
    told = Told(loaded, _asking(wrapper))
    step = ran("x", "abc")
    first = told.draft(step).first
    for word in ("<think>", "</think>"):
        for place in (first, first + 1):
            found = told.at(step, place, loaded.tokenizer.convert_tokens_to_ids(word))
            assert (found.text, found.failed) == (None, Abstain.ROLE_BREAK)
            assert found.likelihood is not None
            assert found.likelihood.expected is None


@WRAPPERS
def test_the_environment_may_spell_a_thought(loaded: Loaded, wrapper: str) -> None:
    """A template or a transcript that is printed, and foreseen, is no thought of the model."""
    told = Told(loaded, _asking(wrapper))
    step = ran("x", "a <think>b</think> c\n")
    found = told.agreed(step)
    assert (found.text, found.failed) == (step.observation, None)
    found = told.at(step, told.draft(step).last - 1, told.tokens("X")[0])
    assert found.failed is None


def test_a_text_decoded_from_the_difference(loaded: Loaded) -> None:
    """Is parsed out of its wrapper; one that the cap cut says so."""
    told = Told(loaded, _asking("tags", text=True))
    step = ran("x", "abc\n")
    place = told.draft(step).first + 1
    ended = told.at(step, place, told.tokens("X")[0], [*told.tokens("YZ\n</predicted_observation>"), told.end])
    cut = told.at(step, place, told.tokens("X")[0], told.tokens("YZ"))
    assert (ended.text, ended.truncated) == ("aXYZ", False)
    assert (cut.text, cut.truncated) == ("aXYZ", True)


def test_agreement_up_to_the_cap_is_truncated(loaded: Loaded) -> None:
    """The prediction is known as far as the cap, and that it goes on."""
    told = Told(loaded, _asking(most=256))
    step = ran("x", "\n  " + "q" * 400 + "\n")
    found = told.agreed(step, most=256)
    cut = 256 - told.draft(step).first
    assert (found.text, found.truncated) == (("\n  " + "q" * 400)[: 3 + cut], True)


def test_an_answer_that_just_fills_the_cap_is_whole(loaded: Loaded) -> None:
    """Its end is its last token."""
    told = Told(loaded, _asking("none", most=256))
    for count, truncated in ((255, False), (256, True)):
        step = ran("x", "q" * count)
        assert len(told.draft(step).ids) == count + 1
        found = told.agreed(step, most=256)
        assert (found.text == step.observation, found.truncated) == (True, truncated)


def test_a_difference_before_the_cap_is_none_of_it(loaded: Loaded) -> None:
    """What was seen to differ stands, however long the rest."""
    told = Told(loaded, _asking(most=256))
    step = ran("x", "q" * 400)
    found = told.at(step, 100, told.tokens("X")[0])
    assert (found.text, found.truncated) == (None, False)
    assert found.likelihood is not None
    assert found.likelihood.expected == "X"


@pytest.mark.slow
def test_an_observation_that_is_too_long(loaded: Loaded) -> None:
    """Nothing is predicted of one that fills a quarter of the context."""
    runner = ModelRunner(loaded, SETTINGS, _asking())
    step = ran("x", "q" * 20_000)
    (found,) = runner.run([Job(key=("t",), history=(), total=0, step=step)], lambda: None)
    assert (found.abstain, found.text, found.likelihood) == (Abstain.TOO_LONG, None, None)
