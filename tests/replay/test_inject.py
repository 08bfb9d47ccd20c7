"""Seeded faults and benign changes of one observation."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifierd.replay.inject import BENIGN, FAULTS, Injected, Pool, drawn, eligible, inject
from verifierd.scoring.echo import echoes
from verifierd.types import Action, Origin, Step, VerdictKind


def _step(
    index: int,
    observation: str,
    *,
    command: str | None = None,
    trajectory: str = "t",
    exit_code: int | None = 0,
    tool: str = "bash",
    **fields: str,
) -> Step:
    shell = tool == "bash"
    line = (command or f"run {index}") if shell else None
    return Step(
        format="native",
        trajectory=trajectory,
        index=index,
        action=Action(tool=tool, input=line if line is not None else dict(fields), command=line),
        observation=observation,
        exit_code=exit_code if shell else None,
        cwd="/w",
        origin=Origin(path="t.jsonl", offset=index),
    )


HISTORY = [_step(1, "one\n"), _step(2, "two\n")]
STEP = _step(3, "first 12 in src/main.py\nsecond\nthird\n")
POOL = Pool([_step(9, "elsewhere\n", trajectory="u"), _step(4, "own\n"), _step(1, "{}", trajectory="v", tool="Fetch")])


def _inject(kind: str, step: Step = STEP, *, seed: int = 1) -> Injected:
    found = inject(kind, step, HISTORY, POOL, seed=seed)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "observation"),
    [
        ("another_session", "elsewhere\n"),
        ("another_step", "one\n"),
        ("wrong_tool", "{}"),
        ("stale", "two\n"),
        ("empty", ""),
    ],
)
def test_whole_observations(kind: str, observation: str) -> None:
    """The action stays; what came back is another's, or nothing."""
    found = _inject(kind)

    assert (found.step.observation, found.step.action) == (observation, STEP.action)
    assert (found.old, found.new, found.span) == (STEP.observation, observation, (0, len(observation)))
    assert (found.kind, found.label) == (kind, VerdictKind.OFF_PATH)


@pytest.mark.parametrize("seed", range(5))
def test_small_changes(seed: int) -> None:
    """One line is missing; one digit is another; one name is another; all else stays."""
    dropped, number, name = (_inject(kind, seed=seed) for kind in ("line_dropped", "number_changed", "entity_changed"))

    assert len(dropped.step.observation.splitlines()) == 2
    assert number.old == "12"
    assert [a == b for a, b in zip(number.old, number.new, strict=True)].count(False) == 1
    assert name.old == "src/main.py"
    assert name.step.observation == f"first 12 in {name.new}\nsecond\nthird\n"


def test_a_name_is_taken_from_nearby() -> None:
    """An entity is swapped for another of its sort, if the history shows one."""
    history = [_step(1, "src/other.py\n")]

    found = inject("entity_changed", STEP, history, seed=1)

    assert found is not None
    assert (found.old, found.new) == ("src/main.py", "src/other.py")


def test_statuses() -> None:
    """A flip leaves the text alone; an error comes with its words; a false success with those of a success."""
    flipped, failed = _inject("error_flip"), _inject("explicit_error")
    hidden = _inject("false_success", _step(3, "no such thing\n", exit_code=2))

    assert (flipped.step.exit_code, flipped.step.observation, flipped.span) == (1, STEP.observation, None)
    assert failed.step.exit_code == 1
    assert failed.step.observation != STEP.observation
    assert (hidden.step.exit_code, hidden.step.observation) in ((0, "one\n"), (0, "two\n"), (0, "elsewhere\n"))


def test_json_results() -> None:
    """A key has another name; a value another type; the rest is as it was."""
    step = _step(3, '{"order_id": "A12", "count": 3}', tool="get_order")
    renamed, retyped = _inject("key_renamed", step), _inject("type_changed", step)

    assert len(set(json.loads(renamed.step.observation)) & {"order_id", "count"}) == 1
    assert set(json.loads(retyped.step.observation)) == {"order_id", "count"}
    assert json.loads(retyped.step.observation) != {"order_id": "A12", "count": 3}


def test_files() -> None:
    """A file is shown with another one's content; an edit that was told to be done does not show."""
    edit = _step(1, "done", tool="Edit", file_path="/w/a.py", old_string="x = 1\ny = 2", new_string="x = 1\ny = 3")
    read = _step(2, "import os\n", tool="Read", file_path="/w/b.py")
    step = _step(3, "1\tx = 1\n2\ty = 3\n", tool="Read", file_path="/w/a.py")

    lost = inject("write_lost", step, [edit, read], seed=1)
    wrong = inject("wrong_content", step, [edit, read], seed=1)

    assert lost is not None
    assert (lost.step.observation, lost.known) == ("1\tx = 1\n2\ty = 2\n", True)
    assert wrong is not None
    assert wrong.step.observation == "import os\n"


def test_an_answer_that_is_not_true_any_more() -> None:
    """The same action gets the answer of the last time."""
    past = [_step(1, "old\n", command="git status"), _step(2, "other\n")]

    found = inject("outdated", _step(3, "new\n", command="git status"), past, seed=1)

    assert found is not None
    assert found.step.observation == "old\n"
    assert not eligible("outdated", _step(3, "new\n", command="git diff"), past)


def test_the_call_comes_back_in_many_spellings() -> None:
    """The call is the answer, in ever other spellings, all of them told by the scorer."""
    edit = _step(3, "done\n", tool="Edit", file_path="/w/a.py", old_string='x = "1"\n', new_string="x = '2'\n")
    for step in (STEP, edit):
        texts = {_inject("role_break", step, seed=seed).step.observation for seed in range(60)}

        assert len(texts) > 10
        assert all(echoes(step.action, text) for text in texts)


def test_instructions_stand_between_lines() -> None:
    """What is injected is a line of its own; taken out again, the observation is as it was."""
    found = _inject("injected_instruction")

    assert found.span is not None
    start, end = found.span
    assert found.step.observation[:start] + found.step.observation[end:] == STEP.observation


def test_instructions_stand_in_json() -> None:
    """What is injected in JSON is part of a value, and the text stays JSON."""
    step = _step(3, '{"name": "Ann", "mail": "ann@x.org", "n": 3}', tool="get_user")
    values = [json.loads(_inject("injected_instruction", step, seed=seed).step.observation) for seed in range(30)]

    assert all(value.keys() == {"name", "mail", "n"} and value["n"] == 3 for value in values)
    assert len({value["name"] for value in values}) > 5


def test_instructions_are_no_matter_of_four_patterns() -> None:
    """The well-known words stand in few of them."""
    known = re.compile(r"(?i)ignore (?:all )?previous|important message|system override|instructions")
    texts = [_inject("injected_instruction", seed=seed).new for seed in range(400)]

    assert len(set(texts)) > 150
    assert sum(known.search(text) is not None for text in texts) < 0.25 * len(texts)


@pytest.mark.parametrize("kind", [*FAULTS, *BENIGN])
def test_changes_are_seeded(kind: str) -> None:
    """The same seed alters alike, whatever was altered before."""
    first = inject(kind, STEP, HISTORY, POOL, seed=1)
    inject(kind, HISTORY[1], HISTORY[:1], POOL, seed=2)

    assert inject(kind, STEP, HISTORY, POOL, seed=1) == first
    assert eligible(kind, STEP, HISTORY, POOL) is (first is not None)


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        *((kind, STEP) for kind in (*FAULTS, *BENIGN)),
        ("timestamps", _step(3, "started at 23:58:01\n")),
        ("timestamps", _step(3, "started at 23:59:01\n")),
        ("durations", _step(3, "1 passed in 2s\n")),
        ("listing_order", _step(3, "a\nb\n", command="find .")),
        ("entity_changed", _step(3, "a.py\n")),
    ],
)
def test_eligible_is_no_matter_of_luck(kind: str, step: Step) -> None:
    """Whether a change can be made depends on the step, not on the seed."""
    made = {inject(kind, step, HISTORY, POOL, seed=seed) is not None for seed in range(12)}

    assert made == {eligible(kind, step, HISTORY, POOL)}


@pytest.mark.parametrize(
    ("kind", "step", "before"),
    [
        ("stale", _step(3, "two \n"), HISTORY),
        ("stale", _step(3, "\x1b[31mtwo\x1b[0m\n"), HISTORY),
        ("stale", _step(3, "ok 5 tests in 0.31s\n"), [_step(2, "ok 5 tests in 0.29s\n")]),
        ("stale", _step(3, '{"a": 1, "b": 2}'), [_step(2, '{"b": 2, "a": 1}')]),
        ("number_changed", _step(3, "done at 12:31:07\n"), HISTORY),
        ("number_changed", _step(3, "done\n"), HISTORY),
        ("empty", _step(3, " \n"), HISTORY),
        ("line_dropped", _step(3, "one\n\n"), HISTORY),
        ("key_renamed", _step(3, "no JSON\n"), HISTORY),
        ("false_success", _step(3, "fine\n"), HISTORY),
        ("another_session", _step(3, "elsewhere"), HISTORY),
    ],
)
def test_what_is_no_fault(kind: str, step: Step, before: list[Step]) -> None:
    """What would equal the original but for its form, or for values that change from run to run, is not eligible."""
    assert not eligible(kind, step, before, POOL)


def test_what_could_be_known() -> None:
    """A change is known where the action or the history holds what was changed."""
    shown = inject("number_changed", STEP, [_step(1, "first 12 in src/main.py")], seed=1)

    assert shown is not None
    assert shown.known
    assert not _inject("number_changed").known


def test_rates_are_drawn_for_each_kind() -> None:
    """The share drawn is about the rate, and another one for another kind."""
    steps = [_step(n, "x") for n in range(400)]
    one, other = ({step.index for step in steps if drawn(k, step, 0.25, seed=1)} for k in ("stale", "empty"))

    assert 70 < len(one) < 130
    assert one != other
    assert all(drawn("stale", step, 1.0, seed=1) for step in steps)


# Benign changes


def _variants(kind: str, step: Step, history: list[Step] | None = None) -> list[str]:
    found = [inject(kind, step, history or [], seed=seed) for seed in range(20)]
    assert all(item is None or item.label is VerdictKind.ON_PATH for item in found)
    return [item.step.observation for item in found if item is not None]


def test_white_space_at_the_ends() -> None:
    """Trailing blanks, the final newline and carriage returns change; indentation and inner blanks stay."""
    texts = _variants("white_space", _step(3, "  a  b\nc\n"))

    assert len(set(texts)) > 3
    assert all([line.rstrip() for line in text.rstrip().split("\n")] == ["  a  b", "c"] for text in texts)


def test_key_order() -> None:
    """Keys come in another order in the same layout; a file's content is left alone."""
    text = '{\n  "a": 1,\n  "b": {\n    "c": 2,\n    "d": 3\n  }\n}\n'
    texts = _variants("key_order", _step(3, text, tool="get"))

    assert texts
    assert all(json.loads(other) == json.loads(text) and len(other) == len(text) for other in texts)
    assert not _variants("key_order", _step(3, text, command="cat a.json"))
    assert not _variants("key_order", _step(3, text, tool="Read"))


def test_times_that_nothing_fixes() -> None:
    """All times move together within their day; not where the history, or a file, fixes one."""
    step = _step(3, "from 2026-01-02T10:00:00Z\nto 11:30:15\n")
    texts = _variants("timestamps", step)

    assert "from 2026-01-02T10:20:00Z\nto 11:50:15\n" in {*texts, "from 2026-01-02T10:20:00Z\nto 11:50:15\n"}
    assert all(text.endswith(":15\n") and ":00Z\n" in text for text in texts)
    assert not _variants("timestamps", step, [_step(1, "it is 11:30:15")])
    assert not _variants("timestamps", _step(3, "11:30:15\n", command="cat log"))


def test_values_of_the_run() -> None:
    """Process numbers, temporary names and durations become others of their form, equal ones alike."""
    numbers = _variants("pids", _step(3, "started pid 4711\nPID: 4711 done\n"))
    times = _variants("durations", _step(3, "80 passed in 2.91s\n"))
    names = _variants("temp_names", _step(3, "/tmp/tmp.aB3dE6gH8j\nrm /tmp/tmp.aB3dE6gH8j\n"))

    assert numbers
    assert all(text.split()[2] == text.split()[4] != "4711" for text in numbers)
    assert names
    assert all(text.split()[0] == text.split()[2] and len(text.split()[0]) == 19 for text in names)
    assert not _variants("pids", _step(3, "pid 4711\n", command="kill 4711"))
    assert times
    assert all(text.startswith("80 passed in ") and text.endswith("s\n") and len(text) == 19 for text in times)


@pytest.mark.parametrize(
    "command", ["find . -type f", "cd /w && find src", "grep -rn x .", "rg x", "ls -U", "grep -r x . 2>/dev/null"]
)
def test_unordered_listings(command: str) -> None:
    """What a program lists as it reads comes in another order; a folder and a file's lines stay together."""
    lines = ["./a/x.py:1:x", "./a/x.py:9:x", "./b/y.py:3:x", "./a/z/q.py:2:x"]
    texts = _variants("listing_order", _step(3, "\n".join(lines) + "\n", command=command))

    assert texts
    assert all(sorted(text.splitlines()) == sorted(lines) for text in texts)
    if "find" not in command and "ls" not in command:
        assert all(text.index("x.py:1:") < text.index("x.py:9:") for text in texts)


@pytest.mark.parametrize(
    "command",
    ["find . | sort", "find . -exec cat {} +", "ls", "grep x a b", "rg --sort path x", "grep -rA2 x ."],
)
def test_ordered_listings(command: str) -> None:
    """An order that the command fixes stays."""
    assert not _variants("listing_order", _step(3, "a/x:1\nb/y:2\n", command=command))


def test_colours() -> None:
    """A line is coloured, or all colours go."""
    assert all("\x1b[" in text for text in _variants("colours", STEP))
    assert "red\n" in _variants("colours", _step(3, "\x1b[31mred\x1b[0m\n"))


@given(st.text(max_size=200), st.sampled_from([*FAULTS, *BENIGN]), st.integers(0, 3))
def test_any_text_can_be_altered(text: str, kind: str, seed: int) -> None:
    """Whatever the observation, what is said of a change is what was done."""
    step = _step(3, text)
    found = inject(kind, step, [*HISTORY, _step(3, text[::-1])], POOL, seed=seed)

    if found is None:
        return
    new = found.step.observation
    if found.span is None:
        assert new == text
        return
    start, end = found.span
    assert new[start:end] == found.new
    assert new[:start] + found.old + new[end:] == text
