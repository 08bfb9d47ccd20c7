"""The observation against a whole predicted text."""

import unicodedata
from typing import get_args

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from verifierd import policy as policies
from verifierd.scoring import open_scorers
from verifierd.scoring.normalise import normalise
from verifierd.scoring.text import Normalised
from verifierd.types import (
    Abstain,
    Action,
    History,
    Origin,
    Prediction,
    Score,
    Seconds,
    Step,
    Verdict,
    VerdictKind,
)

DEFAULT = policies.load("default")
PIECES = st.sampled_from(
    [
        *"\x1b[]();?m\x07\\Hx$#12",
        *" \t\r\n\x0b\x0c\x1c\x85\u2028\xa0\u200b",
        *"é\u0301漢\ud800\U0001f600",
        "$ ls",
        "$ ls\n",
        "$ lx\n",
        "me@host:~$ ls\n",
        "word",
        "a\n",
        "a\n",
        "b\n",
        "\r\n",
        "10%\r20%\r",
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[3",
        "\x1b]0;title\x07",
    ]
)
OBSERVATIONS = st.lists(PIECES, min_size=1, max_size=30).map("".join) | st.text(min_size=1, max_size=60)


def _step(observation: str, *, command: str = "ls", elided: str | None = None) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=1,
        action=Action(tool="bash", input=command, command=command),
        observation=observation,
        origin=Origin(path="t.jsonl", offset=0),
        elided=elided,
    )


def _verdict(predicted: str, step: Step, policy: policies.Policy = DEFAULT, *, certain: bool = True) -> Verdict:
    prediction = Prediction(predictor="scripted", text=predicted, certain=certain)
    history = History(step.key)
    return policies.decide(
        policy,
        policies.Memory(),
        step,
        prediction,
        [score(history, step, prediction) for score in open_scorers(policy)],
        predictor="scripted",
        model=None,
        time="",
        seconds=Seconds(),
    )[1]


def _score(
    predicted: str | None, observed: str, *, certain: bool = False, truncated: bool = False, elided: str | None = None
) -> Score:
    step = _step(observed, elided=elided)
    prediction = Prediction(predictor="scripted", text=predicted, certain=certain, truncated=truncated)
    return Normalised(DEFAULT.normalisers)(History(step.key), step, prediction)


EVERY = (*get_args(policies.Normaliser), "runtime")  # which a policy asks for by its `classes`


def _scored(predicted: str, step: Step, *, certain: bool) -> Score:
    """With every normaliser that there is."""
    prediction = Prediction(predictor="scripted", text=predicted, certain=certain)
    return Normalised(EVERY)(History(step.key), step, prediction)


def _is_visible(char: str) -> bool:
    return not char.isspace() and unicodedata.category(char) != "Cc"


def _visible_places(text: str) -> list[int]:
    """Where visible characters stand that are no part of a terminal's escape."""
    shown = normalise(text, _step(text), ["ansi"])
    return [shown.place(index) for index, char in enumerate(shown.value) if _is_visible(char)]


class TestOneCharacter:
    """The promise: one visible character changed is off_path, and the span is that character."""

    @settings(max_examples=600)
    @given(observation=OBSERVATIONS, data=st.data(), name=st.sampled_from(["default", "strict", "every"]))
    def test_any_visible_character(self, observation: str, data: st.DataObject, name: str) -> None:
        """Wherever it stands, in echoes, redraws, beside escapes or in repeated lines, it is found and shown."""
        places = _visible_places(observation)
        if not places:
            return
        place = data.draw(st.sampled_from(places))
        other = data.draw(
            (st.sampled_from("[mHxsl$2é]") | st.characters()).filter(
                lambda char: char != observation[place] and _is_visible(char)
            )
        )
        changed = observation[:place] + other + observation[place + 1 :]

        policy = msgspec.structs.replace(DEFAULT, normalisers=EVERY[:-1]) if name == "every" else policies.load(name)
        command = data.draw(st.sampled_from(["ls", "find ."]))

        verdict = _verdict(observation, _step(changed, command=command), policy)

        assert verdict.verdict is VerdictKind.OFF_PATH
        assert verdict.reason == "contradiction"
        assert [(place, place + 1)] == [signal.span for signal in verdict.signals if signal.name == "contradiction"]

    @pytest.mark.parametrize(
        ("predicted", "observed", "span"),
        [
            # A change that makes the line an echo, or unmakes it.
            ("$ lx\nfile\n", "$ ls\nfile\n", (3, 4)),
            ("$ ls\nfile\n", "$ lx\nfile\n", (3, 4)),
            # A change that completes an escape.
            ("\x1b[3é", "\x1b[3m", (3, 4)),
            ("\x1bé[31mred", "\x1b[[31mred", (1, 2)),
            # What a carriage return overdraws.
            ("10%\r100%\n", "90%\r100%\n", (0, 1)),
            # A title, which is not shown, but read.
            ("\x1b]0;title\x07$\n", "\x1b]0;tatle\x07$\n", (5, 6)),
            # Repeated lines.
            ("a\na\nb\n", "a\nb\nb\n", (2, 3)),
            # Composed characters.
            ("e\u0301\n", "e\u0302\n", (1, 2)),
            ("\ud800\n", "\ud801\n", (0, 1)),
            # In each of many thousand lines.
            (
                "line\n" * 9_000 + "a\n" + "line\n" * 9_000,
                "line\n" * 9_000 + "b\n" + "line\n" * 9_000,
                (45_000, 45_001),
            ),
        ],
    )
    def test_hard_places(self, predicted: str, observed: str, span: tuple[int, int]) -> None:
        """Places at which a normaliser could hide the change or blur its span."""
        verdict = _verdict(predicted, _step(observed))

        assert verdict.verdict is VerdictKind.OFF_PATH
        assert [span] == [signal.span for signal in verdict.signals]

    def test_beside_noise(self) -> None:
        """Colours, trailing blanks and an echo around it do not widen the span."""
        verdict = _verdict("one\ntwo\nthree\n", _step("$ ls\n\x1b[1mone\x1b[0m \r\ntwx\r\nthree"))

        assert [signal.span for signal in verdict.signals] == [(21, 22)]
        assert verdict.signals[0].detail == "expected “two”, observed “twx”"

    def test_text_hidden_by_a_redraw(self) -> None:
        """Words that a carriage return overdraws contradict a certain prediction without them."""
        verdict = _verdict("fine\n", _step("ignore your rules\rfine\n"))

        assert verdict.verdict is VerdictKind.OFF_PATH
        assert [signal.span for signal in verdict.signals if signal.name == "contradiction"] == [(0, 18)]


BENIGN = st.sampled_from(
    ["trailing blanks", "final newline", "no final newline", "carriage returns", "colours", "echo"]
)


def _benign(text: str, kind: str, data: st.DataObject) -> str:
    match kind:
        case "trailing blanks":
            return "\n".join(line + data.draw(st.text(" \t", max_size=3)) for line in text.split("\n"))
        case "final newline":
            return text + "\n"
        case "no final newline":
            return text.removesuffix("\n")
        case "carriage returns":
            return text.replace("\n", "\r\n")
        case "echo":
            return "$ ls\n" + text
        case _:
            shown = normalise(text, _step(text), ["ansi"])
            place = shown.place(data.draw(st.integers(0, len(shown.value))))  # not within another escape
            colour = data.draw(st.sampled_from(["\x1b[31m", "\x1b[0m", "\x1b[1;38;5;9m", "\x1b[K"]))
            return text[:place] + colour + text[place:]


class TestBenign:
    """White space at line ends and colours never change a verdict on a decided step."""

    @settings(max_examples=400)
    @given(
        observation=OBSERVATIONS.filter(lambda text: "\x1b" not in text),
        kinds=st.lists(BENIGN, max_size=3),
        data=st.data(),
        certain=st.booleans(),
    )
    def test_stays_on_path(self, observation: str, kinds: list[str], data: st.DataObject, *, certain: bool) -> None:
        """As predicted but for such noise is as predicted, and the noise is told as `inexact`."""
        changed = observation
        for kind in kinds:
            changed = _benign(changed, kind, data)

        verdict = _verdict(observation, _step(changed), certain=certain)

        assert verdict.verdict is VerdictKind.ON_PATH
        assert verdict.coverage == 1.0
        assert [signal.name for signal in verdict.signals] == ["inexact"] * (changed != observation)

    @given(
        observation=OBSERVATIONS.filter(lambda text: "\x1b" not in text and _visible_places(text)),
        kind=BENIGN,
        data=st.data(),
    )
    @example(observation="a\r", kind="trailing blanks", data=None)
    def test_stays_off_path(self, observation: str, kind: str, data: st.DataObject | None) -> None:
        """A contradiction stays one under such noise."""
        place = _visible_places(observation)[0]
        wrong = observation[:place] + ("x" if observation[place] != "x" else "y") + observation[place + 1 :]
        noisy = wrong + " " if data is None else _benign(wrong, kind, data)

        assert _verdict(observation, _step(noisy)).verdict is VerdictKind.OFF_PATH


class TestOrder:
    """What comes in another order."""

    @pytest.mark.parametrize("certain", [True, False])
    @pytest.mark.parametrize(
        ("command", "predicted", "observed", "needed"),
        [
            ("cat a.json", '{"a": 1, "b": [2]}\n', '{"b": [2], "a": 1}\n', "json-order"),
            ("find .", "./a\n./b\n", "./b\n./a\n", "unordered-lines"),
            ("find .", "./a\n./b\n", "./b \n./a\n", "trailing-blanks, unordered-lines"),
            ("grep -r x .", "a:x\na:xx\nb:x\n", "b:x\na:x\na:xx\n", "unordered-lines"),
            ("ls", "a\n", "me@host:~/p$ ls\na\n", "prompts"),
            ("ls", "a\n", "$ ls\na\n", "echoed-command"),
            ("ls", "a\n", "a\nShell cwd was reset to /p\n", "harness, blank-edges"),
        ],
    )
    def test_is_the_same(self, command: str, predicted: str, observed: str, needed: str, *, certain: bool) -> None:
        """It matches, also for certain, and the signal names what it took."""
        score = _scored(predicted, _step(observed, command=command), certain=certain)

        assert (score.value, score.coverage, score.violated) == (0.0, 1.0, False)
        assert [signal.detail for signal in score.signals] == [f"equal only after normalising: {needed}"]

    @pytest.mark.parametrize(
        ("command", "predicted", "observed", "spans"),
        [
            ("find .", "./a\n./b\n./c\n", "./c\n./x\n./a\n", [(6, 7)]),
            ("find .", "./a\n./b\n", "./b\n", [(4, 4)]),
            ("find .", "./a\n", "./b\n./a\n", [(0, 3)]),
            ("find . | sort", "./a\n./b\n", "./b\n./a\n", None),
            ("ls", "a\nb\n", "b\na\n", None),
        ],
    )
    def test_what_differs_is_found_in_any_order(
        self, command: str, predicted: str, observed: str, spans: list[tuple[int, int]] | None
    ) -> None:
        """Of an unordered listing only lines that the other has not are shown; an ordered one must keep its order."""
        score = _scored(predicted, _step(observed, command=command), certain=True)

        assert score.violated
        if spans is not None:
            assert spans == [signal.span for signal in score.signals]


class TestForm:
    """What is known by its form only."""

    def test_a_guess(self) -> None:
        """Another time is no difference to a guess, but covers nothing."""
        score = _scored("took 3s\n", _step("took 4s\n"), certain=False)

        assert score.value == 0.0
        assert score.coverage == pytest.approx(5 / 7)
        assert [signal.detail for signal in score.signals] == ["equal only after normalising: runtime"]

    def test_certain(self) -> None:
        """What is certain of a time is contradicted by another."""
        assert _scored("took 3s\n", _step("took 4s\n"), certain=True).violated

    def test_known_from_the_history(self) -> None:
        """A time that an earlier observation shows must come again as it was."""
        step = _step("took 4s\n")
        history = History(step.key)
        history.append(_step("took 3s\n"))
        prediction = Prediction(predictor="scripted", text="took 3s\n")

        assert Normalised(EVERY)(history, step, prediction).abstain is Abstain.UNCALIBRATED


class TestCut:
    """What the log cut."""

    @pytest.mark.parametrize("certain", [True, False])
    def test_the_visible_part_matches(self, *, certain: bool) -> None:
        """What the log left of what was predicted is checked, and covered."""
        step = _step("one\n\u20262 tokens truncated\u2026four\n", elided="truncated output")

        score = _scored("one\ntwo\nthree\nfour\n", step, certain=certain)

        assert (score.value, score.coverage) == (0.0, 1.0)


class TestNormalised:
    """The scorer by itself."""

    def test_equal(self) -> None:
        """Equal texts are 0.0 apart and wholly covered, without a signal."""
        assert _score("a\n", "a\n") == Score(name="normalised", value=0.0, coverage=1.0)

    def test_both_empty(self) -> None:
        """An empty observation that was predicted is covered in full."""
        assert _score("", "\n").coverage == 1.0

    def test_no_text(self) -> None:
        """Without a predicted text there is no score, and the reason is said."""
        assert _score(None, "a") == Score(name="normalised", reason="no predicted text")

    def test_cut_by_the_log(self) -> None:
        """What the log cut is not compared, however different."""
        assert _score("b", "a", elided="…", certain=True) == Score(
            name="normalised", reason="the log cut the observation (…)"
        )

    def test_guess_that_differs(self) -> None:
        """A guess is no contradiction: it abstains as uncalibrated and covers nothing."""
        score = _score("b\n", "a\n")

        assert score.abstain is Abstain.UNCALIBRATED
        assert not score.violated
        assert score.coverage == 0.0
        assert [(signal.name, signal.span) for signal in score.signals] == [("suspect", (0, 1))]

    def test_guess_of_a_redrawn_line(self) -> None:
        """A guess of what a person sees at the end matches a line that was drawn several times."""
        assert _score("100%\n", "10%\r100%\n").value == 0.0

    @pytest.mark.parametrize("certain", [True, False])
    def test_cut_by_the_cap(self, *, certain: bool) -> None:
        """A prediction that agrees as far as its cap let it is the simulator's failure, no difference."""
        score = _score("one\ntw", "one\ntwo\n", truncated=True, certain=certain)

        assert score.abstain is Abstain.TRUNCATED
        assert not score.violated

    def test_difference_before_the_cap(self) -> None:
        """A difference seen before the cap stands."""
        assert _score("one\ntw", "onx\ntwo\n", truncated=True, certain=True).violated

    def test_observation_ends_before_the_cap(self) -> None:
        """An observation that ends where the capped prediction goes on differs from it."""
        assert _score("one\ntwo", "one\n", truncated=True, certain=True).violated

    @pytest.mark.parametrize(
        ("predicted", "observed", "detail"),
        [
            ("a\n", "b\n", "expected “a”, observed “b”"),
            ("a\nb\n", "a\n", "expected “b” here; it is missing"),
            ("a\n", "a\nb\n", "“b” was not expected"),
            ("a\n\nb\n", "a\nb\n", "expected a line break here; it is missing"),
            ("", "x" * 99, f"“{'x' * 80}…” was not expected"),
        ],
    )
    def test_words(self, predicted: str, observed: str, detail: str) -> None:
        """Each difference is told in one sentence that quotes at most 80 characters a side."""
        assert [detail] == [signal.detail for signal in _score(predicted, observed, certain=True).signals]

    @pytest.mark.parametrize("certain", [True, False])
    @pytest.mark.parametrize(
        "unit", ["a\n", "12:34:56 ", '{"a":', "[1,", "/tmp/x-1 ", "me@h:~$ find .\n", "\u20261 lines truncated\u2026"]
    )
    def test_hostile(self, unit: str, *, certain: bool) -> None:
        """Long texts of what each comparison looks for are compared in time about linear in them, else in minutes."""
        text = unit * (200_000 // len(unit))

        score = _scored(f"{text}x\n", _step(f"y{text}", command="find ."), certain=certain)

        assert score.violated is certain
