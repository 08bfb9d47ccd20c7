"""Codex rollouts, one trap a test."""

import json
from typing import Any

import pytest

from verifierd.adapters.codex import Codex
from verifierd.types import Origin, Record, Step

Line = dict[str, Any]
UUID = "0b5c9d52-91a4-4be5-9d4e-3c9a1d0f7a11"


def _read(lines: list[Line], *, path: str = "r.jsonl", end: bool = True) -> tuple[Codex, list[Step]]:
    adapter = Codex(path=path)
    steps: list[Step] = []
    for number, line in enumerate(lines):
        data = json.dumps({"timestamp": f"T{number}"} | line).encode()
        steps.extend(adapter.feed(Record(origin=Origin(path=path, offset=number), end=number + 1, data=data)))
    if end:
        steps.extend(adapter.finish())
    return adapter, steps


def _item(kind: str, **payload: Any) -> Line:
    return {"type": "response_item", "payload": {"type": kind} | payload}


def _event(kind: str, **payload: Any) -> Line:
    return {"type": "event_msg", "payload": {"type": kind} | payload}


def _call(name: str, tool: str = "exec_command", **given: Any) -> Line:
    arguments = given or {"cmd": name}
    return _item("function_call", name=tool, call_id=name, arguments=json.dumps(arguments))


def _output(name: str, output: Any) -> Line:
    return _item("function_call_output", call_id=name, output=output)


def _exited(text: str, code: int = 0) -> str:
    head = f"Chunk ID: ab12cd\nWall time: 0.0123 seconds\nProcess exited with code {code}\n"
    return f"{head}Original token count: 3\nOutput:\n{text}"


def _runs_on(session: int, text: str = "") -> str:
    head = f"Chunk ID: ab12cd\nWall time: 1.0 seconds\nProcess running with session ID {session}\n"
    return f"{head}Original token count: 3\nOutput:\n{text}"


def _end(name: str, text: str, code: int = 0, **more: Any) -> Line:
    item = {"type": "CommandExecution", "id": name, "aggregated_output": text, "exit_code": code}
    command = {"command": ["/bin/bash", "-lc", name], "cwd": "file:///w/a%20b"}
    return _event("item_completed", item=item | command, **more)


def _old_end(name: str, text: str, code: int = 0) -> Line:
    return _event("exec_command_end", call_id=name, aggregated_output=text, exit_code=code, command=["ls"], cwd="/w")


def _texts(steps: list[Step]) -> list[tuple[str, str, int | None, str]]:
    return [(s.call_id or "", s.observation_kind.value, s.exit_code, s.observation) for s in steps]


def test_a_call_and_its_output_are_a_step() -> None:
    """The header is read off, session and directory come from the context lines."""
    lines = [
        {"type": "session_meta", "payload": {"id": "sess", "cwd": "/w", "cli_version": "0.171.0"}},
        {"type": "session_meta", "payload": {"id": "parent", "cwd": "/p", "cli_version": "0.1"}},
        {"type": "turn_context", "payload": {"cwd": "/w", "turn_id": "t1"}},
        _call("call_0123456789abcdefghijklmn", cmd="ls", workdir="tests"),
        _output("call_0123456789abcdefghijklmn", _exited("a\n", 3)),
    ]
    adapter, [step] = _read(lines)
    assert (step.trajectory, step.index, step.tool, step.action.command) == ("sess", 1, "exec_command", "ls")
    assert (step.observation, step.exit_code, step.cwd) == ("a\n", 3, "/w/tests")
    assert (step.called_at, step.observed_at, step.unique, step.origin.offset) == ("T3", "T4", True, 4)
    assert (adapter.counts.calls, adapter.counts.paired, adapter.counts.version) == (1, 1, "0.171.0")


@pytest.mark.parametrize(
    ("path", "trajectory"),
    [(f"a/rollout-2026-01-02T03-04-05-{UUID}.jsonl.gz", UUID), ("a/copy.jsonl", "copy")],
)
def test_the_file_names_a_session_that_no_line_names(path: str, trajectory: str) -> None:
    """The uuid of the name, else its stem."""
    _, [step] = _read([_call("a"), _output("a", _exited(""))], path=path)
    assert step.trajectory == trajectory


@pytest.mark.parametrize(
    ("output", "text", "code"),
    [
        (_exited("x\n"), "x\n", 0),
        (_exited("x\n", -1), "x\n", -1),
        ('Command: /bin/zsh -lc "a\nb"\n' + _exited("x"), "x", 0),
        ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nx", "x", 2),
        ("Exit code: 2\nWall time: 0.1 seconds\nTotal output lines: 9\nOutput:\nx", "x", 2),
        ('{"output":"x\\n","metadata":{"exit_code":1,"duration_seconds":0.1}}', "x\n", 1),
        ('{"output":"x"}', "x", None),
        ({"content": "x", "success": True}, "x", None),
        ({"content": [{"type": "input_text", "text": "x"}]}, "x", None),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:"}], "a\n[image]", None),
        ('{"answer": 42}', "", None),
        ("Process exited with code 0, it said", "Process exited with code 0, it said", None),
        (None, "", None),
    ],
)
def test_outputs_of_all_encodings(output: Any, text: str, code: int | None) -> None:
    """Text and status are found in every encoding that Codex has used."""
    _, [step] = _read([_call("a"), _output("a", output)])
    assert (step.observation, step.exit_code) == (text, code)


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({"cmd": "ls -l"}, "ls -l"),
        ({"command": "ls -l"}, "ls -l"),
        ({"command": ["bash", "-lc", "ls | wc"]}, "ls | wc"),
        ({"command": ["/bin/zsh", "-c", "ls"]}, "ls"),
        ({"command": ["powershell.exe", "-NoProfile", "-Command", "dir"]}, "dir"),
        ({"command": ["git", "commit", "-m", "a b"]}, "git commit -m 'a b'"),
        ({"command": ["bash", "-lc", "ls", "arg0"]}, "bash -lc ls arg0"),
        ({"command": []}, None),
        ({"command": ["ls", 3]}, None),
        ({"workdir": "/"}, None),
    ],
)
def test_the_command_is_what_a_person_would_type(given: Any, command: str | None) -> None:
    """A shell that only runs the line is left away."""
    _, [step] = _read([_call("a", "shell", **given), _output("a", _exited(""))])
    assert step.action.command == command


def test_other_kinds_of_calls() -> None:
    """Patches, plans, MCP tools and local shells are calls; searches at the model's side have no result in the log."""
    lines = [
        _item("custom_tool_call", name="apply_patch", call_id="a", input="*** Begin Patch"),
        _item("custom_tool_call_output", call_id="a", output='{"output":"Success.","metadata":{"exit_code":0}}'),
        _item("local_shell_call", call_id="b", action={"type": "exec", "command": ["pwd"], "working_directory": "/q"}),
        _output("b", _exited("/q\n")),
        _item("function_call", name="find", namespace="mcp__docs__", call_id="c", arguments="{}"),
        _output("c", "Wall time: 0.1 seconds\nOutput:\nhit"),
        _item("web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "q"}),
        _item("web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "q"}),
        _item("web_search_call"),
    ]
    adapter, steps = _read(lines)
    seen = [(s.tool, s.domain, s.observation_kind.value, s.observation) for s in steps]
    assert seen == [
        ("apply_patch", "swe", "env", "Success."),
        ("local_shell", "terminal", "env", "/q\n"),
        ("mcp__docs__find", "mcp", "env", "hit"),
        ("web_search", "search", "missing", ""),
        ("web_search", "search", "missing", ""),
    ]
    assert (steps[0].action.input, steps[1].cwd, steps[1].action.command) == ("*** Begin Patch", "/q", "pwd")
    assert (adapter.counts.calls, adapter.counts.paired, adapter.counts.duplicates) == (5, 3, 1)


@pytest.mark.parametrize(
    ("tool", "output", "kind"),
    [
        ("exec_command", "failed to parse function arguments: EOF while parsing", "harness_error"),
        ("no_such", "unsupported call: no_such", "harness_error"),
        ("apply_patch", "unsupported custom tool call: apply_patch", "harness_error"),
        ("exec_command", 'exec_command failed for `x`: CreateProcess { message: "No such file" }', "harness_error"),
        ("exec_command", 'exec_command failed for `x`: Rejected("rejected by user")', "policy_denied"),
        ("apply_patch", "patch rejected by user", "policy_denied"),
        ("apply_patch", "Success. Updated the following files:\nA rejected.txt", "env"),
        ("exec_command", "aborted by user after 3.2s", "interrupted"),
        (
            "shell",
            '{"output":"command timed out after 10 milliseconds\\n","metadata":{"exit_code":124}}',
            "interrupted",
        ),
        ("write_stdin", "write_stdin failed: Unknown process id 7", "harness_error"),
        ("write_stdin", _exited("x"), "poll"),
        ("exec_command", _exited("exec_command failed: says the program"), "env"),
        ("mcp__a__b", "the request was rejected by the remote side", "env"),
        ("update_plan", "Plan updated", "env"),
    ],
)
def test_kinds(tool: str, output: str, kind: str) -> None:
    """Only the harness speaks without a header; a program's words are its own."""
    _, [step] = _read([_call("a", tool), _output("a", output)])
    assert step.observation_kind == kind


def test_a_parallel_batch_knows_all_its_members() -> None:
    """Calls, then ends in order of completion, then outputs in order of the calls."""
    lines = [
        *(_call(name) for name in "abc"),
        *(_end(name, name) for name in "bca"),
        *(_output(name, _exited(name)) for name in "abc"),
        _call("d"),
        _output("d", _exited("d")),
    ]
    adapter, steps = _read(lines)
    assert [(s.call_id, s.index, s.batch) for s in steps] == [
        ("a", 1, "a"),
        ("b", 2, "a"),
        ("c", 3, "a"),
        ("d", 4, None),
    ]
    assert [[a.command for a in s.siblings or ()] for s in steps] == [["b", "c"], ["a", "c"], ["a", "b"], []]
    assert (adapter.counts.calls, adapter.counts.paired) == (4, 4)


def test_broken_arguments_are_kept_as_text() -> None:
    """Arguments that are no JSON object have no command."""
    line = _item("function_call", name="exec_command", call_id="a", arguments='{"cmd": "not json')
    _, [step] = _read([line, _output("a", "failed to parse function arguments: x")])
    assert (step.action.input, step.action.command) == ('{"cmd": "not json', None)


def test_repeated_calls_and_outputs_make_no_second_step() -> None:
    """A call id that was open or answered before counts as a copy; an output without a call is counted too."""
    lines = [
        _call("a"),
        _call("a", cmd="other"),
        *(_output("a", text) for text in ("one", "two")),
        _call("a"),
        _output("ghost", "x"),
    ]
    adapter, [step] = _read(lines)
    assert step.observation == "one"
    counts = adapter.counts
    assert (counts.calls, counts.paired, counts.duplicates, counts.unknown) == (1, 1, 3, {"orphan_output": 1})


@pytest.mark.parametrize("end", [_end, _old_end])
def test_a_long_running_command_ends_with_its_end_item(end: Any) -> None:
    """Its polls are steps of kind `poll`; its own step shows the whole output."""
    lines = [_call("a"), _output("a", _runs_on(7, "x")), _call("p", "write_stdin", session_id=7, chars="")]
    lines += [_output("p", _runs_on(7, "y")), end("a", "xyz", 4), _event("task_complete")]
    adapter, steps = _read(lines)
    assert _texts(steps) == [("p", "poll", None, "y"), ("a", "env", 4, "xyz")]
    assert [(s.index, s.siblings, s.observed_at) for s in steps] == [(2, (), "T3"), (1, (), "T4")]
    assert (adapter.counts.calls, adapter.counts.paired) == (2, 2)


def test_a_long_running_command_ends_with_the_poll_that_says_so() -> None:
    """Without end items the texts of all outputs are joined; an end item that follows adds nothing."""
    lines = [
        _call("a"),
        _output("a", _runs_on(7, "x")),
        _call("p", "write_stdin", session_id=7),
        _output("p", _runs_on(7, "y")),
        _call("q", "write_stdin", session_id=7),
        _output("q", _exited("z", 1)),
        _old_end("a", "xyz", 1),
    ]
    _, steps = _read(lines)
    assert _texts(steps) == [("p", "poll", None, "y"), ("a", "env", 1, "xyz"), ("q", "poll", 1, "z")]


CUT = "head…9 chars truncated…tail"


@pytest.mark.parametrize(
    ("first", "second"),
    [(_old_end("a", CUT), _output("p", _exited("whole"))), (_output("p", _exited(CUT)), _old_end("a", "whole"))],
)
def test_a_whole_copy_of_a_long_output_is_waited_for(first: Line, second: Line) -> None:
    """If the end item is cut the polls decide, and the reverse."""
    before = [_call("z"), _old_end("z", ""), _output("z", _exited(""))]
    lines = [*before, _call("a"), _output("a", _runs_on(7)), _call("p", "write_stdin", session_id=7), first]
    _, steps = _read(lines, end=False)
    assert "a" not in [s.call_id for s in steps]
    _, steps = _read([*lines, second], end=False)
    [step] = [s for s in steps if s.call_id == "a"]
    assert (step.observation, step.elided, step.exit_code) == ("whole", None, 0)


def test_a_copy_that_stays_cut_is_marked() -> None:
    """If no whole copy comes, the step says so at the next turn."""
    lines = [_call("a"), _output("a", _runs_on(7)), _old_end("a", CUT), _event("task_started", turn_id="t2")]
    _, [step] = _read(lines, end=False)
    assert (step.observation, step.elided, step.observation_kind.value) == (CUT, "truncated output", "env")


def test_a_command_that_never_ended_is_still_running() -> None:
    """It keeps what it had said, and survives turns until the file is over."""
    _, [step] = _read([_call("a"), _output("a", _runs_on(7, "up\n")), _event("task_started", turn_id="t2")])
    assert _texts([step]) == [("a", "still_running", None, "up\n")]


def test_what_ran_beside_a_long_command_is_told() -> None:
    """Calls that began meanwhile name it; it cannot name all of them, nor what was typed into it."""
    lines = [_call("a"), _output("a", _runs_on(7)), _call("b"), _output("b", _exited("")), _end("a", "")]
    _, steps = _read(lines)
    assert [(s.call_id, s.siblings and [x.command for x in s.siblings]) for s in steps] == [("b", ["a"]), ("a", None)]
    typed = [_call("a"), _output("a", _runs_on(7)), _call("p", "write_stdin", session_id=7, chars="y\n")]
    _, steps = _read([*typed, _output("p", _exited("")), _end("a", "")])
    assert [(s.call_id, s.siblings) for s in steps] == [("a", None), ("p", ())]
    _, steps = _read([*typed, _output("p", "write_stdin failed: stdin is closed"), _end("a", "")])
    assert [(s.call_id, s.siblings) for s in steps] == [("p", ()), ("a", ())]


def test_the_end_item_completes_what_the_model_saw() -> None:
    """It gives a status that the output lacks, and the whole text of one that was cut; else the output is shown."""
    cut = "Warning: truncated output (original token count: 9)\nTotal output lines: 5\n\n1\n5\n"
    lines = [
        _call("a"),
        _end("a", "1\n2\n3\n4\n5\n", 0),
        _output("a", _exited(cut)),
        _call("b"),
        _end("b", "item", 6),
        _output("b", "seen"),
        _call("c"),
        _output("c", _exited(cut)),
        _call("d"),
        _end("d", "x" * 65_536),
        _output("d", _exited(cut)),
    ]
    _, steps = _read(lines)
    assert [(s.observation, s.exit_code, s.elided) for s in steps] == [
        ("1\n2\n3\n4\n5\n", 0, None),
        ("seen", 6, None),
        ("1\n5\n", 0, "truncated output"),
        ("1\n5\n", 0, "truncated output"),
    ]


def test_an_end_item_alone_is_an_answer() -> None:
    """A killed agent's command becomes a step at the end of the file; the call counts as not paired."""
    adapter, steps = _read([_call("a"), _call("b"), _end("b", "done\n", 2)])
    assert _texts(steps) == [("b", "env", 2, "done\n"), ("a", "missing", None, "")]
    assert [s.siblings and s.siblings[0].command for s in steps] == ["a", "b"]
    assert (adapter.counts.calls, adapter.counts.paired) == (2, 0)


def test_an_idle_file_shows_ended_commands_at_once() -> None:
    """While a slow neighbour runs, the others' steps come; their outputs later make no second one."""
    adapter, steps = _read([_call("a"), _call("b"), _end("b", "done\n")], end=False)
    assert steps == []
    assert [s.call_id for s in adapter.settle()] == ["b"]
    assert list(adapter.settle()) == []
    other, _ = _read([], end=False)
    other.load(adapter.dump())
    for line in (_output("a", _exited("")), _output("b", _exited("done\n"))):
        data = json.dumps(line).encode()
        steps.extend(other.feed(Record(origin=Origin(path="r", offset=9), end=10, data=data)))
    assert [s.call_id for s in steps] == ["a"]
    assert (other.counts.paired, other.counts.duplicates) == (2, 0)


def test_a_new_turn_gives_up_what_was_left_unanswered() -> None:
    """A turn that was aborted leaves its calls interrupted, one that was lost leaves them missing."""
    _, steps = _read([_call("a"), _event("turn_aborted"), _event("task_started", turn_id="t2"), _call("b")], end=False)
    assert _texts(steps) == [("a", "interrupted", None, "")]
    _, steps = _read([_call("a"), {"type": "turn_context", "payload": {"turn_id": "t2"}}], end=False)
    assert _texts(steps) == [("a", "missing", None, "")]


def test_the_turn_changes_when_a_person_speaks() -> None:
    """Messages of the user and new turn ids are turns; context lines of the same turn are not."""
    context = {"type": "turn_context", "payload": {"cwd": "/", "turn_id": "t1"}}
    pairs = [[_call(name), _output(name, _exited(""))] for name in "abcdef"]
    lines = [
        *pairs[0],
        context,
        *pairs[1],
        context,
        *pairs[2],
        _event("user_message", message="hi"),
        *pairs[3],
        _event("item_completed", item={"type": "UserMessage"}),
        *pairs[4],
        _item("message", role="user", content=[]),
        _item("message", role="assistant", content=[]),
        *pairs[5],
    ]
    _, steps = _read(lines)
    assert [s.turn for s in steps] == ["0", "1", "1", "2", "3", "4"]


def _script(name: str) -> Line:
    return _item("custom_tool_call", name="exec", call_id=name, input="await tools.exec_command({})")


def _script_output(name: str, *texts: str) -> Line:
    head = "Script completed\nWall time 0.1 seconds\nOutput:\n"
    return _item(
        "custom_tool_call_output", call_id=name, output=[{"type": "input_text", "text": t} for t in (head, *texts)]
    )


def test_commands_of_code_mode_are_steps_of_their_own() -> None:
    """They are held until the script is over and are siblings unless their times say otherwise."""
    lines = [
        _script("call_m"),
        _end("exec-1", "one", 0, started_at_ms=10, completed_at_ms=20),
        _end("exec-2", "two", 1, started_at_ms=15, completed_at_ms=30),
        _end("exec-3", "three", 0, started_at_ms=40, completed_at_ms=50),
        _end("exec-3", "again"),
        _script_output("call_m", "one\n", "two"),
    ]
    adapter, steps = _read(lines)
    assert _texts(steps) == [
        ("exec-1", "env", 0, "one"),
        ("exec-2", "env", 1, "two"),
        ("exec-3", "env", 0, "three"),
        ("call_m", "env", None, "one\ntwo"),
    ]
    assert [(s.tool, s.index, s.batch) for s in steps[2:]] == [("exec_command", 4, "call_m"), ("exec", 1, None)]
    assert [s.siblings and [a.command for a in s.siblings] for s in steps] == [["exec-2"], ["exec-1"], (), ()]
    assert (steps[0].action.command, steps[0].cwd) == ("exec-1", "/w/a b")
    assert (adapter.counts.calls, adapter.counts.paired) == (1, 1)


def test_commands_of_a_script_that_is_not_over_do_not_wait_for_ever() -> None:
    """An idle file lets them go, their siblings unknown; one that outlived its script comes at once."""
    adapter, steps = _read([_script("m"), _end("exec-1", "one")], end=False)
    assert steps == []
    assert [(s.call_id, s.siblings) for s in adapter.settle()] == [("exec-1", None)]
    _, [outer, late] = _read([_script("m"), _script_output("m"), _end("exec-1", "one")])
    assert (outer.call_id, late.call_id, late.batch, late.siblings) == ("m", "exec-1", None, ())


def test_a_failed_script_is_an_observation() -> None:
    """The error of a script is what its environment said."""
    parts = ["Script failed\nWall time 0.0 seconds\nOutput:\n", "Script error:\nError: boom"]
    output = _item("custom_tool_call_output", call_id="m", output=[{"type": "input_text", "text": t} for t in parts])
    _, [step] = _read([_script("m"), output])
    assert _texts([step]) == [("m", "env", None, "Script error:\nError: boom")]


def test_other_lines_are_no_steps() -> None:
    """Compacted history is not read again; unknown types are counted; commands a person ran are not the agent's."""
    history = [_call("z")["payload"], _output("z", "x")["payload"]]
    lines: list[Line] = [
        {"type": "compacted", "payload": {"message": "", "replacement_history": history}},
        {"type": "world_state", "payload": {}},
        {"type": "brand_new", "payload": {}},
        _item("brand_new"),
        _event("token_count"),
        _old_end("user-shell-1", "x"),
    ]
    adapter, steps = _read(lines)
    assert steps == []
    assert adapter.counts.unknown == {"brand_new": 1, "response_item/brand_new": 1}


def test_odd_shapes_are_survived() -> None:
    """Wrong types cost the line at most."""
    lines: list[Line] = [
        {"type": "response_item", "payload": "text"},
        {"type": 5, "payload": []},
        _item("function_call", name=7, call_id=["x"], arguments=9),
        _output(3, "x"),  # type: ignore[arg-type]
        _event("item_completed", item="x"),
        _event("exec_command_end", call_id=None),
        {"type": "session_meta", "payload": {"id": 3, "cwd": {}}},
        {"type": "turn_context", "payload": {"cwd": 3, "turn_id": 4}},
        _call("a", cmd=["x", 1], workdir=5),
        _end("a", None, True),  # type: ignore[arg-type]
        _output("a", {"output": [None, 3], "metadata": {"exit_code": 1 << 70}}),
    ]
    adapter, steps = _read(lines)
    assert _texts(steps) == [("unnamed-1", "missing", None, ""), ("a", "env", None, "")]
    assert adapter.counts.quarantined == {"bad_shape": 2}
