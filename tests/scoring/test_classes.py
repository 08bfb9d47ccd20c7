"""Content classes: what the documents find, what the history fixes, and that all of a text is classified."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifierd.errors import ConfigError
from verifierd.scoring.classes import Content, Example, Rule, Rules, Span, bundled, classes, masked, parse, runtime
from verifierd.types import Action, History, Likelihood, Origin, Prediction, Step

FOLDER = Path(__file__).parents[2] / "policies" / "classes"
DOCUMENTS = sorted(FOLDER.glob("*.toml"))
RULES = bundled().rules
EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.id}-{number}")
    for rule in RULES
    for number, example in enumerate(rule.examples)
]


def _step(observation: str = "", command: str = "make", index: int = 1) -> Step:
    return Step(
        format="native",
        trajectory="t",
        index=index,
        action=Action(tool="bash", input=command, command=command),
        observation=observation,
        origin=Origin(path="t.jsonl", offset=0),
    )


def _history(*observations: str) -> History:
    history = History(("native", "t"))
    for index, text in enumerate(observations, 1):
        history.append(_step(text, index=index))
    return history


def _kinds(spans: Sequence[Span], text: str) -> list[tuple[str, str]]:
    return [(text[span.start : span.end], span.rule) for span in spans]


class TestDocuments:
    """`policies/classes/*.toml`."""

    @pytest.mark.parametrize(("rule", "example"), EXAMPLES)
    def test_a_rule_finds_what_its_example_says(self, rule: Rule, example: Example) -> None:
        """Alone it finds exactly these literals; among all rules none of them is lost."""
        alone = Rules([rule]).find(example.text, example.command or None)
        together = bundled().find(example.text, example.command or None)

        assert [example.text[start:end] for start, end, _ in alone] == list(example.finds)
        for start, end, _ in alone:
            assert any(first <= start and end <= last for first, last, _ in together)

    @pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
    def test_a_rule_has_examples_of_both_kinds(self, rule: Rule) -> None:
        """One that it finds something in, and one that only looks alike."""
        assert {bool(example.finds) for example in rule.examples} == {True, False}

    @pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
    def test_ids_are_names(self, path: Path) -> None:
        """Ids are lower-case words, as signals and reports show them."""
        for rule in parse(path.read_text(encoding="utf-8"), path.name).rule:
            assert re.fullmatch(r"[a-z]+(?:-[a-z]+)*", rule.id)

    def test_the_reference_names_every_key(self) -> None:
        """`README.md` has a row for each key of a document, a rule and an example, and names each document."""
        text = (FOLDER / "README.md").read_text(encoding="utf-8")

        for kind in (Rule, Example):
            for key in kind.__struct_encode_fields__:
                assert f"| `{key}` |" in text
        for path in DOCUMENTS:
            assert f"`{path.name}`" in text

    @pytest.mark.parametrize(
        ("text", "message", "hint"),
        [
            ("about = ", "d.toml: not TOML: ", "Mend the line"),
            ("about = 1", "d.toml: Expected `str`, got `int`", "README"),
            ("rule = 1\nabout = 'x'", "d.toml: `rule` is no list", "[[rule]]"),
            ("abuot = 'x'", "d.toml: Object", "README"),
            (
                "about='x'\n[[rule]]\nid='a'\nsays='x'\npatern='x'",
                "d.toml: rule `a`: Object contains unknown field `patern`",
                "Did you mean `pattern`?",
            ),
            (
                "about='x'\n[[rule]]\nsays='x'\npattern='x'",
                "d.toml: rule 1: Object missing required field `id`",
                "README",
            ),
            (
                "about='x'\n[[rule]]\nid='a'\nsays='x'\npattern='(?=x)'",
                "d.toml: rule `a`: RE2 cannot read the pattern: ",
                "no look-around",
            ),
            (
                "about='x'\n[[rule]]\nid='a'\nsays='x'\npattern='x'\ngroup='y'",
                "d.toml: rule `a`: the pattern has no group called `y`",
                "(?P<y>...)",
            ),
            (
                "about='x'\n[[rule]]\nid='a'\nsays='x'\npattern='x*'",
                "d.toml: rule `a`: the pattern matches nothing at all",
                "at least one character",
            ),
            (
                "about='x'" + "\n[[rule]]\nid='a'\nsays='x'\npattern='x'" * 2,
                "d.toml: rule `a`: the id is used twice",
                "an id of its own",
            ),
        ],
    )
    def test_errors_name_file_rule_and_remedy(self, text: str, message: str, hint: str) -> None:
        """Whatever is wrong, the message says where and the hint what to do."""
        with pytest.raises(ConfigError) as caught:
            parse(text, "d.toml")

        assert str(caught.value).startswith(message)
        assert hint in caught.value.hint

    def test_one_id_in_two_documents(self) -> None:
        """Ids are unique among all documents."""
        rule = Rule(id="a", says="x", pattern="x")

        with pytest.raises(ConfigError, match="rule `a` is in two documents"):
            Rules([rule, rule])


class TestRuntime:
    """What is runtime content here, and what the history fixes."""

    def test_free(self) -> None:
        """A duration that nobody saw before is runtime content."""
        free, fixed = runtime("80 passed in 2.91s\n", _step())

        assert free == [(13, 18, "duration-after-word")]
        assert fixed == []

    @pytest.mark.parametrize(
        ("step", "history"),
        [
            (_step(command="grep 2.91s log"), _history()),
            (_step(), _history("80 passed in 2.91s\n")),
            (_step(), _history("took 2.91s.", "x")),
        ],
    )
    def test_fixed_by_the_history(self, step: Step, history: History) -> None:
        """A literal that the action or an earlier observation shows is fixed, though it looks like a duration."""
        free, fixed = runtime("80 passed in 2.91s\n", step, history)

        assert free == []
        assert fixed == [(13, 18, "duration-after-word")]

    def test_whole_words_only(self) -> None:
        """A longer number that holds the literal fixes nothing."""
        free, _ = runtime("[1] 4242\n", _step(), _history("842424 rows\n"))

        assert free == [(4, 8, "job")]

    def test_a_growing_history_is_followed(self) -> None:
        """What is remembered of a history grows with it, and equals what a new one would tell."""
        history = _history("a")
        assert runtime("took 3s", _step(), history)[0]
        history.append(_step("took 3s"))

        assert not runtime("took 3s", _step(), history)[0]
        assert runtime("took 3s", _step(), history) == runtime("took 3s", _step(), list(history))

    def test_only_the_latest_steps_fix(self) -> None:
        """What was shown more than a million characters ago fixes nothing, whether it was followed or read anew."""
        history = _history("took 3s", "took 4s")
        assert not runtime("took 3s", _step(), history)[0]
        history.append(_step("x" * 999_980))

        assert runtime("took 3s", _step(), history)[0]
        assert not runtime("took 4s", _step(), history)[0]
        assert runtime("took 3s", _step(), list(history))[0]
        assert not runtime("took 4s", _step(), list(history))[0]

    def test_characters_beyond_latin_keep_their_places(self) -> None:
        """Places are in characters, whatever stands before them."""
        text = "漢\U0001f600\ud800é took 3s"

        assert [text[start:end] for start, end, _ in runtime(text, _step())[0]] == ["3s"]

    @pytest.mark.parametrize(
        "unit",
        ["0", "a", "/tmp/", "1:", "12:34:56 ", "0x", "a-", "  ", "[", "|#", "9%", "2026-", "in ", "inet 1.1.1.1 "],
    )
    def test_hostile_text(self, unit: str) -> None:
        """A third of a megabyte of beginnings of matches is read in time linear in it; else this takes minutes."""
        found = bundled().find(unit * (300_000 // len(unit)) + " took 3s", "ls ps df du git date docker")

        assert found


TEXTS = st.lists(
    st.sampled_from(["took 3s", "12:34:56", " ", "\n", "abc", "漢", "[1] 42\n", "0x7ff6d4e670a8", "\ud800", "(0.1s)"]),
    max_size=20,
).map("".join)


class TestClasses:
    """All of a text, each character in one class."""

    @given(text=TEXTS, data=st.data())
    def test_every_character_is_in_one_class(self, text: str, data: st.DataObject) -> None:
        """The spans are a partition of the text, whatever is pinned or likely."""
        places = st.integers(0, len(text) + 3)
        pinned = data.draw(st.lists(st.tuples(places, places), max_size=5))
        starts = sorted(data.draw(st.sets(st.integers(0, max(0, len(text) - 1)), max_size=6)))
        likelihood = Likelihood(
            starts=tuple(starts), entropy=tuple(data.draw(st.floats(0, 5)) for _ in range(len(starts) + 1))
        )
        prediction = data.draw(
            st.sampled_from([None, Prediction(predictor="p"), Prediction(predictor="p", likelihood=likelihood)])
        )

        spans = classes(text, _step(text), _history("took 3s"), prediction, pinned=pinned)

        edges = [0, *(edge for span in spans for edge in (span.start, span.end)), len(text)]
        assert edges[::2] == edges[1::2]
        assert all(span.start < span.end for span in spans)
        for start, end in pinned:
            for span in spans:
                if max(start, span.start) < min(end, span.end):
                    assert span.content is Content.DETERMINISTIC

    def test_certain_prediction(self) -> None:
        """What is certain in full is deterministic in full."""
        prediction = Prediction(predictor="shell", text="took 3s", certain=True)

        assert classes("took 3s", _step(), (), prediction) == [Span(0, 7, Content.DETERMINISTIC, "prediction")]

    def test_nobody_knows(self) -> None:
        """Without a model what no rule finds is pre-existing."""
        text = "file took 3s\n"

        spans = classes(text, _step())

        assert _kinds(spans, text) == [("file took ", "unknown"), ("3s", "duration-after-word"), ("\n", "unknown")]
        assert [span.content for span in spans] == [Content.PRE_EXISTING, Content.RUNTIME, Content.PRE_EXISTING]

    def test_entropy(self) -> None:
        """Where the model knew what comes it is deterministic, where it did not pre-existing; a rule goes before it."""
        text = "name took 3s"
        likelihood = Likelihood(starts=(0, 5, 9), entropy=(3.0, 0.1, 0.2, 0.0))
        prediction = Prediction(predictor="mlx", likelihood=likelihood)

        spans = classes(text, _step(), (), prediction, pinned=[(0, 2)])

        assert [(text[span.start : span.end], span.content.value, span.rule) for span in spans] == [
            ("na", "deterministic", "pinned"),
            ("me ", "pre-existing", "model"),
            ("took ", "deterministic", "model"),
            ("3s", "runtime", "duration-after-word"),
        ]


class TestMasked:
    """The form of a text, without what only a run can tell."""

    def test_columns(self) -> None:
        """Columns as wide as what they hold do not differ."""
        one = masked("-rw-r--r--  1 dev staff     1611 Jan  8 19:36 a\n", _step(command="ls -l"))
        two = masked("-rw-r--r--  1 dev staff   123924 Jan 10 19:39 a\n", _step(command="ls -l"))

        assert one[0] == two[0]
        assert one[1] == len("1611Jan  8 19:36")

    def test_form_counts(self) -> None:
        """Another form is another text."""
        assert masked("took 3s", _step())[0] != masked("took 3 parsecs", _step())[0]
