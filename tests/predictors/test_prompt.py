"""How a world model is asked: system prompts, turns, the window, and reading an answer."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers import ran
from verifierd.errors import PredictorError
from verifierd.policy import DOMAINS
from verifierd.predictors.prompt import (
    Form,
    Window,
    after,
    before,
    divided,
    elide,
    observation,
    parse,
    system_prompt,
    thought,
    user_turn,
    window,
)
from verifierd.types import Action, ObservationKind, Origin, Step

FOLDER = Path(__file__).parents[2] / "policies" / "prompts"
WRAPPERS = get_args(msgspec.structs.fields(Form)[0].type)
FORMS = [
    Form(wrapper=wrapper, action=action, screen=screen)
    for wrapper in WRAPPERS
    for action in ("keystrokes", "command")
    for screen in (False, True)
]
TAGS = re.compile("</?(?:think|predicted_observation)>")

hostile = st.lists(
    st.one_of(
        st.text(st.characters(categories=None), max_size=12),
        st.sampled_from(
            [
                "<|im_end|>",
                "<think>",
                "</think>",
                "<predicted_observation>",
                "</predicted_observation>",
                "**Environment Observation:**",
                "```",
                "\n",
                "{0}",
                "{step}",
                "%s",
                "\\1",
                "\ud800",
            ]
        ),
    ),
    max_size=8,
).map("".join)
json_objects = st.dictionaries(st.text(max_size=8), st.one_of(st.none(), st.integers(), hostile), max_size=4)


def called(tool: str, given: str | dict[str, Any], observed: str = "", **more: Any) -> Step:
    """A step in which a tool was called."""
    origin = Origin(path="t.jsonl", offset=1)
    action = Action(tool=tool, input=given)
    return Step(format="native", trajectory="t", index=1, action=action, observation=observed, origin=origin, **more)


steps = st.one_of(
    st.builds(ran, hostile, hostile, cwd=st.none() | hostile, domain=st.sampled_from(["terminal", "swe", "mcp", "x"])),
    st.builds(called, hostile, hostile | json_objects, hostile, domain=st.sampled_from(DOMAINS)),
    st.builds(ran, hostile, hostile, observation_kind=st.sampled_from(ObservationKind)),
)


def _fenced(turn: str) -> Any:
    """The JSON of a turn's fence."""
    heading, _, fenced = turn.partition("\n**Action:**\n```json\n")
    assert heading.startswith("### Turn ")
    assert fenced.endswith("\n```")
    return json.loads(fenced.removesuffix("```"))


def _answer(step: Step, form: Form) -> str:
    return before(step, form) + observation(step) + after(form)


# System prompts


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_domain_has_a_prompt(domain: str) -> None:
    """A bundled prompt of one to four kilobytes, in ASCII, that spells no token of a chat template."""
    text = (FOLDER / domain / "system_prompt.txt").read_text(encoding="utf-8")

    assert 1_000 < len(text) < 4_096
    assert text.isascii()
    assert "<" not in text
    assert system_prompt(domain, None).startswith(text.strip())


def test_there_are_no_prompts_for_other_domains() -> None:
    """Each folder of prompts is a domain, and the reference has a row for it."""
    reference = (FOLDER / "README.md").read_text(encoding="utf-8")

    assert sorted(path.name for path in FOLDER.iterdir() if path.is_dir()) == sorted(DOMAINS)
    assert [domain for domain in DOMAINS if f"\n| `{domain}` |" not in reference] == []


def test_the_reference_describes_each_form() -> None:
    """Every setting and each of its values is explained, with the true default."""
    reference = (FOLDER / "README.md").read_text(encoding="utf-8")

    for field in msgspec.structs.fields(Form):
        default = str(field.default).lower()
        assert f"\n| `{field.name}` | `{default}` (default) |" in reference
        for value in get_args(field.type):
            assert f"| `{value}` " in reference


@pytest.mark.parametrize("domain", ["kitchen", "", "../terminal", "/etc", "terminal/../mcp"])
def test_an_unknown_domain_is_asked_about_as_a_terminal(tmp_path: Path, domain: str) -> None:
    """A name from a log is never a path."""
    (tmp_path / "terminal").mkdir()
    (tmp_path / "terminal" / "system_prompt.txt").write_text("mine")

    assert system_prompt(domain, None) == system_prompt("terminal", None)
    assert system_prompt(domain, tmp_path).startswith("mine\n")


@pytest.mark.parametrize("inside", [".", "prompts"])
def test_prompts_of_a_checkout_win(tmp_path: Path, inside: str) -> None:
    """A checkout, or its folder of prompts, may be named; its text is trimmed and taken as it is."""
    file = tmp_path / inside / "mcp" / "system_prompt.txt"
    file.parent.mkdir(parents=True)
    file.write_text("\n  Act {as} a %s server. \n\n", encoding="utf-8")

    assert system_prompt("mcp", tmp_path, Form(wrapper="none")).split("\n\n") == [
        "Act {as} a %s server.",
        "Answer with the observation alone.",
    ]


def test_what_a_prompt_leaves_open_is_filled(tmp_path: Path) -> None:
    """The official prompts have places for tools and examples, which no log holds."""
    (tmp_path / "swe").mkdir()
    (tmp_path / "swe" / "system_prompt.txt").write_text(
        "Tools:\n{tool_definitions}\n{demonstrations}", encoding="utf-8"
    )

    text = system_prompt("swe", tmp_path)

    assert text.startswith("Tools:\nThe tools are those that the actions name; ")
    assert "{" not in text


@pytest.mark.parametrize("content", [None, b"", b" \n\t", b"\xff\xfe"])
def test_an_unusable_prompt_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    """It names the file and the remedy; the bundled prompt does not step in."""
    file = tmp_path / "swe" / "system_prompt.txt"
    file.parent.mkdir()
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(PredictorError) as caught:
        system_prompt("swe", tmp_path)

    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)
    assert "--prompts" in caught.value.hint


def test_a_folder_in_the_place_of_a_prompt_is_an_error(tmp_path: Path) -> None:
    """What is there but no file is refused, too."""
    (tmp_path / "web" / "system_prompt.txt").mkdir(parents=True)

    with pytest.raises(PredictorError, match=r"system_prompt\.txt: cannot read the system prompt: "):
        system_prompt("web", tmp_path)


def test_the_prompt_asks_for_the_form() -> None:
    """Each form is asked for in other words; the screen only where there are shell commands."""
    asked = {system_prompt("terminal", None, form) for form in FORMS}

    assert len(asked) == len(WRAPPERS) * 2
    assert system_prompt("mcp", None, Form(screen=True)) == system_prompt("mcp", None, Form())
    assert "**Environment Observation:**" in system_prompt("os", None)
    assert "</predicted_observation>" in system_prompt("os", None, Form(wrapper="tags"))


# User turns


def test_a_command_is_keystrokes() -> None:
    """As in the terminal sessions of the benchmark; the first turn says where it is."""
    step = ran('echo "a\tb" > \u00e9 <<E\nx\nE', cwd="/home/user/a b")

    assert user_turn(step, 1, Form()) == (
        "### Turn 1\n**Current State:**\nCurrent working directory: /home/user/a b\n\n**Action:**\n```json\n"
        '[\n  {\n    "keystrokes": "echo \\"a\\tb\\" > \u00e9 <<E\\nx\\nE\\n",\n    "duration": 60.0\n  }\n]\n```'
    )
    assert user_turn(step, 2, Form()).startswith("### Turn 2\n**Action:**\n")


def test_a_command_may_be_a_tool_call_in_two_lines() -> None:
    """As on the model's card."""
    step = ran("ls -la /tmp \n", cwd="/w")
    form = Form(action="command")

    assert user_turn(step, 7, form) == "Action: execute_bash\nCommand: ls -la /tmp"
    assert user_turn(step, 1, form) == (
        "**Current State:**\nCurrent working directory: /w\n\nAction: execute_bash\nCommand: ls -la /tmp"
    )


@pytest.mark.parametrize("more", [{"cwd": None}, {"cwd": ""}, {"cwd": "/a\n**Action:**"}, {"domain": "swe"}])
def test_a_directory_that_is_unknown_is_left_out(more: dict[str, Any]) -> None:
    """And so is one that would be several lines."""
    assert user_turn(ran("ls", **more), 1, Form()).startswith("### Turn 1\n**Action:**\n")


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("action", ["keystrokes", "command"])
def test_a_tool_is_called_by_name(domain: str, action: Any) -> None:
    """Any tool that runs no command, in whatever form commands are written."""
    step = called("Read", {"file_path": "/a", "limit": 3}, domain=domain)

    turn = user_turn(step, 4, Form(action=action))

    assert turn.startswith("### Turn 4\n**Action:**\n```json\n")
    assert _fenced(turn) == {"name": "Read", "arguments": {"file_path": "/a", "limit": 3}}


def test_a_tool_may_take_a_text() -> None:
    """Such as a patch."""
    turn = user_turn(called("apply_patch", "*** Begin Patch\n", domain="swe"), 2, Form())

    assert _fenced(turn) == {"name": "apply_patch", "arguments": "*** Begin Patch\n"}


@pytest.mark.parametrize("domain", ["web", "os", "android"])
@pytest.mark.parametrize("key", ["action_type", "action"])
def test_an_action_on_a_screen_is_its_own_form(domain: str, key: str) -> None:
    """It says itself what it is; a tool of a server with such an argument keeps its name."""
    given = {key: "click", "index": 3}

    assert _fenced(user_turn(called("computer", given, domain=domain), 2, Form())) == given
    assert _fenced(user_turn(called("computer", given, domain="mcp"), 2, Form()))["name"] == "computer"


def test_code_that_acts_on_a_screen_stays_code() -> None:
    """Such as a function call or a script, whatever tool ran it."""
    step = called("computer", "click('a12')\n", domain="web")

    assert user_turn(step, 3, Form()) == "### Turn 3\n**Action:**\nclick('a12')"
    assert _fenced(user_turn(called("wait", "", domain="web"), 3, Form())) == {"name": "wait", "arguments": ""}


def test_keystrokes_stay_keystrokes() -> None:
    """A harness that types into a screen is written as it typed."""
    given = {"keystrokes": "vim a\n", "duration": 0.5}

    assert _fenced(user_turn(called("bash_command", given), 2, Form())) == [given]


def test_a_command_in_other_domains_is_a_tool_call() -> None:
    """Only shells in a terminal and a repository have keystrokes; so has a domain that nobody knows."""
    step = called("bash", {"cmd": "ls"})
    step = msgspec.structs.replace(step, action=msgspec.structs.replace(step.action, command="ls"))

    def turn(domain: str) -> Any:
        return _fenced(user_turn(msgspec.structs.replace(step, domain=domain), 2, Form()))

    assert turn("os") == {"name": "bash", "arguments": {"cmd": "ls"}}
    assert turn("swe") == turn("terminal") == turn("kitchen") == [{"keystrokes": "ls\n", "duration": 60.0}]


# Answers


@pytest.mark.parametrize(
    ("form", "full", "empty"),
    [
        (Form(wrapper="none"), "a\n b", ""),
        (Form(), "**Environment Observation:**\na\n b", "**Environment Observation:**"),
        (
            Form(wrapper="tags"),
            "<predicted_observation>\na\n b\n</predicted_observation>",
            "<predicted_observation>\n</predicted_observation>",
        ),
        (Form(wrapper="none", screen=True), "$ ls\na\n b", "$ ls"),
        (Form(screen=True), "**Environment Observation:**\n$ ls\na\n b", "**Environment Observation:**\n$ ls"),
        (
            Form(wrapper="tags", screen=True),
            "<predicted_observation>\n$ ls\na\n b\n</predicted_observation>",
            "<predicted_observation>\n$ ls\n</predicted_observation>",
        ),
    ],
)
def test_an_answer_is_the_observation_in_its_wrapper(form: Form, full: str, empty: str) -> None:
    """White space at the ends is no part of it, and an empty observation leaves none behind."""
    assert _answer(ran("ls\n", " \na\n b \n\n"), form) == full
    assert _answer(ran("ls\n", " \n"), form) == empty


def test_an_echo_is_written_once() -> None:
    """A log that keeps the echoed command gets no second one."""
    form = Form(wrapper="none", screen=True)

    assert _answer(ran("ls", "$ ls\na"), form) == _answer(ran("ls", "a"), form)
    assert _answer(ran("ls", "$ lsof"), form) == "$ ls\n$ lsof"


def test_a_tool_has_no_screen() -> None:
    """Only shell commands are echoed, and only by the environment."""
    form = Form(wrapper="none", screen=True)

    assert _answer(called("Read", {}, "a", domain="swe"), form) == "a"
    assert _answer(ran("ls", "denied", observation_kind=ObservationKind.POLICY_DENIED), form) == "denied"


def test_what_is_no_answer_stands_in_the_history() -> None:
    """As it came, or as a note where nothing came; an empty answer of the environment stays empty."""
    assert observation(ran("ls", " Denied.\n", observation_kind=ObservationKind.POLICY_DENIED)) == "Denied."
    assert observation(ran("ls", observation_kind=ObservationKind.STILL_RUNNING)) == "[no output: still running]"
    assert observation(ran("ls", " \n")) == ""


@settings(deadline=None)
@given(steps, st.integers(1, 99), st.sampled_from(FORMS))
def test_no_log_is_too_hostile_to_be_written(step: Step, number: int, form: Form) -> None:
    """Whatever it holds: nothing is left to be trimmed, a tokenizer can encode it, and JSON stays JSON."""
    turn, answer = user_turn(step, number, form), _answer(step, form)

    for text in (turn, answer):
        assert text == text.strip()
        text.encode()
    if turn.endswith("\n```") and step.domain not in {"web", "os", "android"} and not turn.startswith(("Act", "**Cur")):
        _fenced(turn)


@settings(deadline=None)
@given(hostile)
def test_an_observation_keeps_its_places(text: str) -> None:
    """Only half characters change, so a place in what is written is a place in the trimmed observation."""
    written, trimmed = observation(ran("ls", text)), text.strip()

    assert len(written) == len(trimmed)
    assert all(new == old or "\ud800" <= old <= "\udfff" for new, old in zip(written, trimmed, strict=True))


# Reading an answer


@pytest.mark.parametrize(
    ("output", "expected", "thinks"),
    [
        ("a\nb\n", "a\nb", False),
        ("", "", False),
        ("<think>\n\n</think>\n\na", "a", False),
        ("<think>hm</think>a", "a", True),
        ("hm</think>\n\na", "a", True),
        ("\n</think>a", "a", False),
        ("<think>hm", "", True),
        ("a<think>", "a", False),
        ("<think>hm<predicted_observation>a</predicted_observation>", "a", True),
        ("a<think>hm</think>b", "ab", True),
        ("**Environment Observation:**\na", "a", False),
        ("**Environment Observation:**", "", False),
        ("<think></think>**Environment Observation:**\n  a", "a", False),
        ("<predicted_observation>\na\n</predicted_observation>", "a", False),
        ("<predicted_observation>\n**Environment Observation:**\na\n</predicted_observation>", "a", False),
        ("**Environment Observation:**\n<predicted_observation>a</predicted_observation>", "a", False),
        (
            "<predicted_observation>a</predicted_observation> or <predicted_observation>b</predicted_observation>.",
            "b",
            False,
        ),
        ("<predicted_observation>a</predicted_observation> in <predicted_observation>", "a", False),
        ("<predicted_observation>\na\nb", "a\nb", False),
        ("a\n</predicted_observation>", "a", False),
        ("<think><predicted_observation>x</predicted_observation></think>a", "a", True),
        ("see **Environment Observation:**", "see **Environment Observation:**", False),
    ],
)
def test_an_answer_is_read(output: str, expected: str, thinks: bool) -> None:  # noqa: FBT001 - a column of the table
    """Thoughts and wrappers are taken off, also half ones."""
    assert parse(output) == expected
    assert thought(output) == thinks


@settings(deadline=None)
@given(hostile, st.sampled_from(FORMS))
def test_what_was_written_is_read_back(text: str, form: Form) -> None:
    """An answer in any form is read as its observation."""
    step = called("Read", {}, text, domain="swe")
    expected = observation(step)
    assume(not TAGS.search(expected))
    if form.wrapper != "marker":
        expected = expected.removeprefix("**Environment Observation:**").strip()

    assert parse(_answer(step, form)) == expected
    assert parse(f"<think>\n\n</think>\n\n{_answer(step, form)}") == expected
    assert not thought(_answer(step, form))


@settings(deadline=None)
@given(hostile)
def test_any_answer_can_be_read(output: str) -> None:
    """Whatever a model writes."""
    text = parse(output)

    assert text == text.strip()
    assert not re.search("</?think>", text)


# Long observations


def test_the_middle_of_a_long_text_is_left_out() -> None:
    """Head and tail stay, and the line between says how much is missing."""
    text = "".join(f"line {number}\n" for number in range(1000))

    short = elide(text, 200)

    assert short.startswith("line 0\nline 1\n")
    assert short.endswith("line 998\nline 999\n")
    assert re.search(r"\n\[\.\.\. \d+ characters left out \.\.\.\]\n", short)
    assert elide(text, len(text)) == text


@settings(deadline=None)
@given(st.text(max_size=400), st.integers(0, 500))
def test_what_is_left_out_is_counted(text: str, limit: int) -> None:
    """The result holds to its limit, and its figure is true."""
    short = elide(text, limit)

    if len(text) <= limit:
        assert short == text
    else:
        assert len(short) <= max(limit, 45)
        note = re.search(r"\n\[\.\.\. (\d+) characters left out \.\.\.\]\n", short)
        assert note is not None
        kept = len(short) - len(note.group())
        assert kept + int(note[1]) == len(text)
        assert text.startswith(short[: note.start()])
        assert text.endswith(short[note.end() :])


@pytest.mark.parametrize(
    ("output", "opened", "expected"),
    [
        ("yes", False, ("", "yes")),
        ("<think>\nhm\n</think>\n\nyes", False, ("hm", "yes")),
        ("hm\n</think>\n\nyes", False, ("hm", "yes")),
        ("hm\n</think>\n\nyes", True, ("hm", "yes")),
        ("hm", True, ("hm", "")),
        ("\n<think>hm", False, ("hm", "")),
        ("<think>\n\n</think>\n\nyes", False, ("", "yes")),
        ("say <think> here", False, ("", "say <think> here")),
        ("", True, ("", "")),
    ],
)
def test_thought_and_answer(output: str, *, opened: bool, expected: tuple[str, str]) -> None:
    """Are told apart, wherever the thought began; without an end it is all thought."""
    assert divided(output, opened=opened) == expected


# The window


def test_the_oldest_turns_are_dropped_many_at_once() -> None:
    """Down to half of the budget, so that the next turns drop none."""
    sizes = [10] * 30

    assert [window(sizes[:count], 100) for count in (0, 1, 10, 11, 15, 16, 17)] == [0, 0, 0, 6, 6, 6, 12]


def test_the_newest_turn_is_held() -> None:
    """Even if it alone is beyond the budget."""
    assert window([10, 10, 500], 100) == 2
    assert window([500], 100) == 0
    assert window([500, 1], 100) == 1
    assert window([3, 2], 0) == 1


@settings(deadline=None)
@given(st.lists(st.integers(0, 60)), st.integers(0, 200))
def test_the_window_only_moves_on(sizes: list[int], budget: int) -> None:
    """It holds to the budget, never takes a turn back, and is the same whether replayed or kept."""
    kept = Window(budget)
    assert kept.first == window([], budget)
    for count, size in enumerate(sizes, 1):
        last = kept.first
        kept.add(size)

        assert kept.first == window(sizes[:count], budget)
        assert last <= kept.first < count
        assert kept.dropped_tokens == sum(sizes[: kept.first])
        held = sum(sizes[kept.first : count])
        assert held <= budget or kept.first == count - 1
        if kept.first != last:
            assert held <= budget // 2 or kept.first == count - 1
