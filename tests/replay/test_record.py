"""The recorder: scripts played in a real shell, logs written in three formats."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from verifierd.errors import FormatError
from verifierd.replay.record import load_script, record

NATIVE = """
format = "native"
[[trajectory]]
name = "one"
moves = [
  "echo a > f",
  "cat f",
  { behind = "echo b > f" },
  { run = "cat f", label = "outside_change" },
  { run = "cat f", stale = true, label = "stale" },
  "cd .. && false",
  "pwd",
  ["echo x", "echo y"],
]
[[trajectory]]
name = "two"
setup = "echo ready > g"
moves = ["cat g", "word=kept", "echo $word"]
"""

CLAUDE = """
format = "claude_code"
[[trajectory]]
name = "A title"
project = "p"
setup = "printf 'one\\\\ntwo\\\\n' > f"
moves = [
  { user = "Go." },
  { say = "Two looks at once." },
  [ { run = "cat f", note = "Look" }, { tool = "Read", input = { file_path = "/home/user/p/f" } } ],
  { tool = "Task", input = { prompt = "Look around." }, moves = ["cd / && cat nowhere"], answer = "Nothing." },
  { tool = "Edit", input = { file_path = "/home/user/p/f", old_string = "three", new_string = "four" } },
  { tool = "Edit", input = { file_path = "/home/user/p/f", old_string = "two", new_string = "four" } },
  { tool = "Write", input = { file_path = "/home/user/p/d/g", content = "new\\n" } },
  { tool = "Grep", input = { pattern = "new|four" } },
  { tool = "Grep", input = { pattern = "o", path = "/home/user/p/f", output_mode = "content" } },
  { run = "cat d/g f && exit 3", note = "Look again" },
]
"""

CODEX = """
format = "codex"
[[trajectory]]
name = "x"
project = "p"
setup = "printf 'one\\\\ntwo\\\\n' > f"
moves = [
  { user = "Go." },
  ["cat f", "ls"],
  "cd / && cat nowhere",
  { patch = '''
*** Begin Patch
*** Update File: f
@@
 one
-two
+three
*** Add File: d/g
+new
*** End Patch
''' },
  "cat f d/g",
  { run = "echo done", slow = true },
  { say = "Ready." },
]
"""


def play(text: str, seed: int = 0) -> dict[str, list[Any]]:
    """The lines of each file that a script records."""
    files = record(load_script(text.encode(), name="sample"), seed=seed)
    return {path: [json.loads(line) for line in data.splitlines()] for path, data in files.items()}


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that other users may enter, empty again at the end."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.mark.parametrize("text", [NATIVE, CLAUDE, CODEX])
def test_same_seed_gives_same_bytes(text: str) -> None:
    """A script recorded twice with one seed gives the same files, with another seed other ids or order."""
    script = load_script(text.encode(), name="sample")
    assert record(script) == record(script)
    assert record(script, seed=1) != record(script)


@pytest.mark.parametrize("text", [NATIVE, CLAUDE, CODEX])
def test_nothing_is_left_behind(temporary: Path, text: str) -> None:
    """The throw-away homes are gone afterwards, and no log names them."""
    files = record(load_script(text.encode(), name="sample"))
    assert list(temporary.iterdir()) == []
    assert all(str(temporary).encode() not in data for data in files.values())


def test_native_steps_are_real() -> None:
    """Observation, status and directory are what the shell gave, and what lasts between commands lasts."""
    lines = play(NATIVE)["sample.jsonl"]
    one = [line for line in lines if line["trajectory"] == "one"]
    two = [line for line in lines if line["trajectory"] == "two"]
    assert [line["step"] for line in one] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [line["exit_code"] for line in one] == [0, 0, 0, 0, 1, 0, 0, 0]
    assert one[4]["cwd"] == "/home/user/work"
    assert one[5]["cwd"] == "/home/user"
    assert one[5]["observation"] == "/home/user\n"
    assert [line["observation"] for line in two] == ["ready\n", "", "kept\n"]
    assert [line["timestamp"] for line in lines] == sorted(line["timestamp"] for line in lines)


def test_what_happens_behind_shows_only_in_its_effect() -> None:
    """A move behind the agent's back is no step, but later observations show what it did."""
    one = [line for line in play(NATIVE)["sample.jsonl"] if line["trajectory"] == "one"]
    assert [line["observation"] for line in one if line["action"] == "cat f"] == ["a\n", "b\n", "b\n"]
    assert "echo b > f" not in [line["action"] for line in one]
    assert (one[2]["label"], one[2]["label_kind"]) == ("off_path", "outside_change")
    assert "label" not in one[1]


def test_stale_answer_repeats_the_one_before() -> None:
    """A stale move runs, but the log shows what the command printed the time before."""
    text = NATIVE.replace('{ run = "cat f", label', '{ run = "cat f", stale = true, label')
    one = [line for line in play(text)["sample.jsonl"] if line["trajectory"] == "one"]
    assert [line["observation"] for line in one if line["action"] == "cat f"] == ["a\n", "a\n", "b\n"]


def test_native_batch_is_shared_by_its_members() -> None:
    """Commands listed together carry one batch id, others none."""
    one = [line for line in play(NATIVE)["sample.jsonl"] if line["trajectory"] == "one"]
    assert [line.get("batch") for line in one] == [None] * 6 + ["one-7", "one-7"]


def test_claude_code_parallel_results_come_out_of_order() -> None:
    """Parallel calls share the message, are lines of their own, and are answered last first, each under its call."""
    lines = next(iter(play(CLAUDE).values()))
    assert [line["type"] for line in lines[:8]] == [
        "summary",
        "file-history-snapshot",
        "user",
        "assistant",
        "assistant",
        "assistant",
        "user",
        "user",
    ]
    prompt, said, bash, read, read_result, bash_result = lines[2:8]
    assert prompt["parentUuid"] is None
    assert said["message"]["id"] == bash["message"]["id"] == read["message"]["id"]
    assert said["parentUuid"] == prompt["uuid"]
    assert read["parentUuid"] == bash["uuid"]
    assert (read_result["parentUuid"], bash_result["parentUuid"]) == (read["uuid"], bash["uuid"])
    assert read_result["message"]["content"][0]["content"] == "     1→one\n     2→two\n     3→"
    assert bash_result["message"]["content"][0] == {
        "tool_use_id": bash["message"]["content"][0]["id"],
        "type": "tool_result",
        "content": "one\ntwo",
        "is_error": False,
    }
    assert bash_result["toolUseResult"]["stdout"] == "one\ntwo"


def test_claude_code_tools_work_on_the_files() -> None:
    """Edit, Write and Grep act on the same files as the shell; an edit that does not fit is refused."""
    lines = next(iter(play(CLAUDE).values()))
    results = [line for line in lines if "toolUseResult" in line]
    texts = [line["message"]["content"][0]["content"] for line in results]
    assert texts[3] == "<tool_use_error>String to replace not found in file.\nString: three</tool_use_error>"
    assert texts[4] == "The file /home/user/p/f has been updated successfully."
    assert results[4]["toolUseResult"]["structuredPatch"] == [
        {"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3, "lines": [" one", "-two", "+four", " "]}
    ]
    assert texts[5] == "File created successfully at: /home/user/p/d/g"
    assert texts[6] == "Found 2 files\nd/g\nf"
    assert texts[7] == "1:one\n2:four"
    assert texts[8] == "Exit code 3\nnew\none\nfour"
    assert results[8]["message"]["content"][0]["is_error"] is True
    assert results[8]["toolUseResult"] == "Error: Exit code 3\nnew\none\nfour"


def test_claude_code_sub_agent_has_a_file() -> None:
    """A sub-agent's lines are a side chain of the session, and its directory does not become the parent's."""
    files = play(CLAUDE)
    (main, lines), (path, agent) = files.items()
    assert path.startswith(main.removesuffix(".jsonl") + "/subagents/agent-")
    assert main.startswith("sample/-home-user-p/")
    assert {line["sessionId"] for line in agent} == {lines[2]["sessionId"]}
    assert all(line["isSidechain"] and line["agentId"] in path for line in agent)
    assert all("toolUseResult" not in line for line in agent)
    error = "Exit code 1\ncat: nowhere: No such file or directory"
    assert agent[2]["message"]["content"][0]["content"] == error
    assert agent[-1]["message"]["content"] == [{"type": "text", "text": "Nothing."}]
    assert lines[-1]["cwd"] == "/home/user/p"


def test_codex_answers_carry_header_and_status() -> None:
    """A batch is all calls, their ends, then all answers in call order; each answer has a header with the status."""
    ((path, lines),) = play(CODEX).items()
    assert path.startswith("sample/rollout-2026-01-12T09-")
    calls = [line["payload"] for line in lines if line["payload"].get("type") == "function_call"]
    outputs = [line["payload"] for line in lines if line["payload"].get("type") == "function_call_output"]
    ends = [line["payload"] for line in lines if line["payload"].get("type") == "exec_command_end"]
    assert [json.loads(call["arguments"]).get("cmd") for call in calls] == [
        "cat f",
        "ls",
        "cd / && cat nowhere",
        "cat f d/g",
        "echo done",
        None,
    ]
    assert all(json.loads(call["arguments"]).get("workdir", "/home/user/p") == "/home/user/p" for call in calls)
    assert [output["call_id"] for output in outputs] == [call["call_id"] for call in calls]
    assert [end["call_id"] for end in ends[:2]] == [calls[1]["call_id"], calls[0]["call_id"]]
    assert outputs[0]["output"].endswith(
        "seconds\nProcess exited with code 0\nOriginal token count: 2\nOutput:\none\ntwo\n"
    )
    assert "\nProcess exited with code 1\n" in outputs[2]["output"]
    assert ends[2]["aggregated_output"] == "cat: nowhere: No such file or directory\n"
    assert ends[3]["aggregated_output"] == "one\nthree\nnew\n"


def test_codex_slow_command_is_polled() -> None:
    """A slow command answers at first with its session's number, then a poll of that session gets the text."""
    ((_, lines),) = play(CODEX).items()
    payloads = [line["payload"] for line in lines]
    calls = [payload for payload in payloads if payload.get("type") == "function_call"]
    outputs = [payload["output"] for payload in payloads if payload.get("type") == "function_call_output"]
    session = json.loads(calls[-1]["arguments"])["session_id"]
    assert calls[-1]["name"] == "write_stdin"
    assert f"\nProcess running with session ID {session}\n" in outputs[-2]
    assert outputs[-2].endswith("Output:\n")
    assert outputs[-1].endswith("Output:\ndone\n")
    (end,) = [p for p in payloads if p.get("type") == "exec_command_end" and p["process_id"] == str(session)]
    assert end["call_id"] == calls[-2]["call_id"]


def test_codex_patch_is_applied() -> None:
    """A patch changes the files and is reported with its changes."""
    ((_, lines),) = play(CODEX).items()
    payloads = {line["payload"].get("type"): line["payload"] for line in lines}
    assert json.loads(payloads["custom_tool_call_output"]["output"]) == {
        "output": "Success. Updated the following files:\nM f\nA d/g\n",
        "metadata": {"exit_code": 0, "duration_seconds": 0.0},
    }
    assert payloads["patch_apply_end"]["changes"]["/home/user/p/d/g"] == {"type": "add", "content": "new\n"}
    assert payloads["patch_apply_end"]["changes"]["/home/user/p/f"]["unified_diff"].startswith("@@ -1,2 +1,2 @@\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('format = "native"\n[[trajectory]]\nname = "a"\nmoves = [{ user = "Hi." }]', "a move of `user` in `a`"),
        ('format = "codex"\n[[trajectory]]\nname = "a"\nmoves = [{ note = "?" }]', "a move of `nothing` in `a`"),
        ('format = "native"\n[[trajectory]]\nname = "a"\nmovs = []', "movs"),
        ('format = "diary"\ntrajectory = []', "diary"),
        ("format = ", "cannot be read"),
    ],
)
def test_wrong_script_is_refused(text: str, message: str) -> None:
    """A script with an unknown key, format or move is refused with its place."""
    with pytest.raises(FormatError) as caught:
        load_script(text.encode(), name="wrong")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NATIVE.replace('"cat f",', '{ run = "cat f", stale = true },', 1), "did not run before"),
        (CODEX.replace(" one\n-two", " one\n-six"), "does not fit `f`"),
    ],
)
def test_impossible_move_is_refused(text: str, message: str) -> None:
    """A stale answer to a command that never ran, or a patch that does not fit, is an error of the script."""
    with pytest.raises(FormatError) as caught:
        play(text)
    assert message in caught.value.message


def test_command_writes_files(tmp_path: Path) -> None:
    """The command writes the recorded files below the folder, and ends with a message if a script is wrong."""
    script = tmp_path / "mine.toml"
    script.write_text(NATIVE, encoding="utf-8")
    command = [sys.executable, "-m", "verifierd.replay.record", str(script), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert len((tmp_path / "out" / "mine.jsonl").read_bytes().splitlines()) == 11
    script.write_text("format = 3", encoding="utf-8")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the script `mine` cannot be read" in done.stderr


def test_native_file_tools() -> None:
    """The native format logs the tools that read and change files, really, and the domain that the script names."""
    text = (
        NATIVE.partition("[[trajectory]]")[0]
        + """
[[trajectory]]
name = "edits"
project = "p"
domain = "swe"
moves = [
  { tool = "Write", input = { file_path = "/home/user/p/f", content = "a\\nb\\n" } },
  { tool = "Edit", input = { file_path = "/home/user/p/f", old_string = "b", new_string = "c" } },
  "cat f",
]
"""
    )
    (data,) = record(load_script(text.encode(), name="n")).values()
    write, edit, cat = [json.loads(line) for line in data.splitlines()]
    assert write["action"] == {"tool": "Write", "input": {"file_path": "/home/user/p/f", "content": "a\nb\n"}}
    assert edit["observation"] == "The file /home/user/p/f has been updated successfully."
    assert (cat["observation"], cat["exit_code"]) == ("a\nc\n", 0)
    assert {line["domain"] for line in (write, edit, cat)} == {"swe"}
    task = text.replace('tool = "Edit"', 'tool = "Task"')
    with pytest.raises(FormatError, match="`Task`"):
        record(load_script(task.encode(), name="n"))
