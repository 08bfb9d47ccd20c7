"""Cards, lines and tables as they look."""

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from verifierd.cli.view import (
    alarm_line,
    card,
    comparison,
    counted,
    indented,
    line,
    numbers,
    print_line,
    share,
    short,
    summary_table,
)
from verifierd.types import Alarm, Origin, Signal, Verdict, VerdictKind


def verdict(**changes: Any) -> Verdict:
    """A verdict off path."""
    values: dict[str, Any] = {
        "verdict_id": "v1",
        "step_id": "s1",
        "trajectory": "nav",
        "step": 3,
        "tool": "bash",
        "domain": "terminal",
        "verdict": VerdictKind.OFF_PATH,
        "reason": "contradiction",
        "signals": (Signal(name="contradiction", value=1.0, span=(4, 5), detail="expected “a”, observed “b”"),),
        "alarm": Alarm(statistic=1, threshold=0, raised=True),
        "action": "cat f",
        "predicted": "one\ntwo\n",
        "observed": "one\ntoo\n",
        "predictor": "shell",
        "policy": "default@1",
        "origin": Origin(path="a.jsonl", offset=7),
        "time": "2026-01-01T00:00:00Z",
    }
    return Verdict(**{**values, **changes})


def shown(*what: RenderableType, width: int = 80, colour: bool = False) -> str:
    """What a terminal of that width gets."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, color_system="standard" if colour else None, highlight=False
    )
    for each in what:
        console.print(each)
    return out.getvalue()


def test_a_card_shows_the_difference() -> None:
    """Equal lines are context; changed ones stand one above the other; then the reason and the id."""
    assert shown(card(verdict())).splitlines() == [
        "✗ off path  nav #3  bash",
        "  in a.jsonl, at byte 7",
        "  $ cat f",
        "            │ one",
        "  predicted │ two",
        "   observed │ too",
        "  contradiction: expected “a”, observed “b”  (characters 4 to 5)",
        "  verdict v1",
        "",
    ]


def test_what_changed_is_marked_on_a_terminal() -> None:
    """Red for predicted, green for observed, the changed characters in reverse."""
    text = shown(card(verdict()), colour=True)
    assert "\x1b[7;31mw\x1b[0m" in text
    assert "\x1b[7;32mo\x1b[0m" in text


def test_text_is_never_markup() -> None:
    """Brackets of an agent's text are shown as they are."""
    hostile = verdict(action="[red]x[/red]", trajectory="[bold]t", observed="[link=x]y\n", predicted="[/]\n")
    for each in (card(hostile), line(hostile)):
        text = shown(each)
        assert "[red]x[/red]" in text
        assert "[bold]t" in text


def test_line_breaks_cannot_fake_a_line() -> None:
    """A name with a line break stays on its line."""
    text = shown(card(verdict(trajectory="t\n✓ on path", tool="a\nb")), line(verdict(trajectory="t\n✓ on path")))
    assert not any(row.startswith("✓") for row in text.splitlines())


@pytest.mark.parametrize(
    ("predicted", "observed", "row"),
    [
        ("", "oops\n", "  predicted │ (nothing)"),
        ("gone\n", "", "   observed │ (nothing)"),
        ("a\n", "a", "they differ in the line ends"),
    ],
)
def test_nothing_is_shown_as_such(predicted: str, observed: str, row: str) -> None:
    """An empty side says so."""
    assert row in shown(card(verdict(predicted=predicted, observed=observed)))


def test_a_large_difference_is_cut() -> None:
    """A card stays a card: of thousands of lines a few are shown."""
    left, right = ("".join(f"{side} {n}\n" for n in range(5000)) for side in "ab")
    rows = shown(card(verdict(predicted=left, observed=right))).splitlines()
    assert len(rows) < 70


def test_a_command_of_many_lines_shows_its_first() -> None:
    """The rest is counted."""
    assert "$ cat <<X  (+2 lines)" in shown(card(verdict(action="cat <<X\nhello\nX")))


@pytest.mark.parametrize("width", [80, 140])
def test_a_line_is_one_row(width: int) -> None:
    """It is cut at the edge, whatever the command is."""
    long = verdict(verdict=VerdictKind.ABSTAIN, reason="unpredictable", action="x" * 500 + "\ny", trajectory="t")
    out = io.StringIO()
    print_line(Console(file=out, width=width, force_terminal=True, color_system=None), line(long))
    (row,) = out.getvalue().splitlines()
    assert row.startswith("· t #3  unpredictable  xxx")
    assert len(row) == width
    assert row.endswith("…")


def test_what_a_model_said_is_shown() -> None:
    """Where it answered otherwise, the line says what it expected; where it failed, how."""
    suspect = Signal(name="suspect", value=4.0, detail="the model expected “a” here")
    abstained = verdict(verdict=VerdictKind.ABSTAIN, reason="uncalibrated", signals=(suspect,), model="m")
    assert shown(line(abstained)) == "· nav #3  uncalibrated  cat f  the model expected “a” here\n"
    failed = verdict(verdict=VerdictKind.ABSTAIN, reason="timeout", detail="no answer", signals=(), model="m")
    assert shown(line(failed)) == "· nav #3  timeout  cat f  no answer\n"
    long = msgspec.structs.replace(failed, action="x" * 500)
    assert shown(line(long), width=120) == f"· nav #3  timeout  {'x' * 60}…  no answer\n"


def test_long_names_are_shortened_part_by_part() -> None:
    """A session's UUID is its first characters; an agent's short name stays."""
    assert short("c244206d-46cb-47de-947e-1672ccc51d25/agent-1") == "c244206d…/agent-1"
    assert short("nav-01") == "nav-01"


def document(tools: int) -> dict[str, Any]:
    """A summary with that many tools."""
    names = [f"tool-{n}" for n in range(tools)]
    return {
        "steps": 10 * tools,
        "trajectories": 1,
        "verdicts": {"on_path": 6 * tools, "off_path": 0, "abstain": 4 * tools},
        "reasons": {"unpredictable": 3 * tools, "not_env": tools},
        "by_tool": {name: {"steps": 10, "on_path": 6, "off_path": 0, "abstain": 4} for name in names},
        "coverage": {"by_tool": {name: {"steps": 9, "above_zero": 6} for name in names}},
        "model": None,
        "seconds": {"wall": 1.234},
    }


@pytest.mark.parametrize("width", [80, 140])
def test_the_summary_is_aligned_at_any_width(width: int) -> None:
    """Counts stand below each other, and no row is broken."""
    rows = shown(summary_table(document(2)), width=width).splitlines()
    assert [row.rstrip() for row in rows] == [
        "20 steps of 1 trajectory in 1.2 s",
        "✓ on path       12   60 %",
        "✗ off path       0    0 %",
        "· abstain        8   40 %  unpredictable 6, not_env 2",
        "",
        "tool    steps  on path  off path  abstain  checked",
        "tool-0     10        6         0        4     67 %",
        "tool-1     10        6         0        4     67 %",
    ]


@pytest.mark.parametrize(("computed", "cost"), [(16_000, ", 16,000 tokens computed"), (0, "")])
def test_the_model_is_named(computed: int, cost: str) -> None:
    """As its verdicts call it, so that a random one says so, with what it cost, if anything."""
    summary = {**document(1), "model": "tiny@1 (random weights)", "asked": 7, "tokens": {"computed": computed}}
    rows = shown(summary_table(summary)).splitlines()
    assert rows[4] == f"asked tiny@1 (random weights) about 7 steps{cost}"


def test_many_tools_are_added_up() -> None:
    """Beyond a dozen the rest is one row."""
    rows = shown(summary_table(document(15))).splitlines()
    assert rows[-1].split() == ["and", "3", "others", "30", "18", "0", "12"]


def test_an_empty_summary_is_shown() -> None:
    """Nothing judged is no error."""
    assert "0 steps of 1 trajectory" in shown(summary_table(document(0)))


def test_words_agree_with_their_counts() -> None:
    """One step, two steps, three trajectories; nothing of nothing is no share."""
    assert [counted(1, "step"), counted(2, "step"), counted(3000, "trajectory")] == [
        "1 step", "2 steps", "3,000 trajectories",
    ]  # fmt: skip
    assert [share(1, 2), share(0, 0)] == ["50 %", "-"]


def test_few_are_not_none_and_most_are_not_all() -> None:
    """A share that rounds to nothing, or to all, says so."""
    assert [share(0, 900), share(1, 900), share(899, 900), share(900, 900)] == ["0 %", "<1 %", ">99 %", "100 %"]


def test_step_numbers_are_in_order() -> None:
    """Parallel steps end in any order; gaps show."""
    assert numbers([3, 1]) == "#1, #3"
    assert numbers([7, 5, 6, 2]) == "#2, #5 to #7"


def test_a_long_tool_name_leaves_the_counts_room() -> None:
    """Whatever a log calls its tools, the table keeps its columns."""
    summary = document(1)
    for counts in (summary["by_tool"], summary["coverage"]["by_tool"]):
        counts["long" * 1000] = counts.pop("tool-0")
    rows = shown(summary_table(summary)).splitlines()
    assert rows[-2].split() == ["tool", "steps", "on", "path", "off", "path", "abstain", "checked"]
    assert rows[-1].split()[1:] == ["10", "6", "0", "4", "67", "%"]


def test_further_rows_begin_below_the_first() -> None:
    """What is too long for the screen stays beside its lead."""
    out = io.StringIO()
    indented(Console(file=out, width=24), "one two three four five six", Text("ok  "))
    assert out.getvalue().splitlines() == ["ok  one two three four ", "    five six"]


def test_an_alarm_is_a_line_that_says_where_to_look() -> None:
    """With its evidence, the suspected first bad step, and how to learn more."""
    alarm = Alarm(statistic=31.25, threshold=20, raised=True, new=True, first_bad=2)
    (row,) = shown(alarm_line(verdict(), alarm), width=200).split("\n")[:-2]
    assert row == ("! alarm  nav #3  evidence 31.25 is above 20; it seems to go wrong at #2  (verifierd explain v1)")


def test_what_came_is_shown_around_what_decided() -> None:
    """Without a predicted text the observation begins shortly before the first place that a signal names."""
    observed = "".join(f"line {n}\n" for n in range(1, 10))
    start = observed.index("line 8")
    signal = Signal(name="contradiction", value=1.0, span=(start, start + 6))
    whole = verdict(predicted=None, observed=observed, signals=())
    near = msgspec.structs.replace(whole, signals=(signal,))
    assert shown(*comparison(whole)).splitlines()[0] == " observed │ line 1"
    assert shown(*comparison(near)).splitlines() == [
        "          │ …",
        " observed │ line 6",
        "          │ line 7",
        "          │ line 8",
        "          │ line 9",
    ]
    assert "\x1b[7;39mline 8" in shown(*comparison(near), colour=True)
