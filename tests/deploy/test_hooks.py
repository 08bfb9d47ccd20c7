"""What `deploy/hooks` holds, used as it stands."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.helpers import Live, jsonl, native

HOOKS = Path(__file__).parents[2] / "deploy" / "hooks"


def test_the_settings_name_a_command_that_is_there() -> None:
    """Each hook runs beside the agent, is bounded, and calls `verifierd hook` with options that it has."""
    events = json.loads((HOOKS / "claude-code.json").read_text())["hooks"]
    assert sorted(events) == ["PostToolUse", "PostToolUseFailure"]
    for (group,) in events.values():
        (hook,) = group["hooks"]
        assert hook["async"] is True
        assert hook["timeout"] <= 30
        program, *words = shlex.split(hook["command"])
        assert program == "verifierd"
        done = subprocess.run([sys.executable, "-m", program, *words], input=b"{}", capture_output=True, check=True)
        assert done.stdout + done.stderr == b""


def test_the_examples_loop_hears_what_is_off_path(tmp_path: Path) -> None:
    """The loop gets the notice behind the answer that is off path, and goes on without a daemon."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("verifierd", f'exec {sys.executable} -m verifierd "$@"'), ("seq", "echo 1; echo 3")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    log = tmp_path / "steps.jsonl"
    log.write_bytes(jsonl(native("before", 1, "pwd", "/\n", cwd="/", exit_code=0)))
    base = tmp_path / "share"
    state = base / "verifierd"
    base.mkdir()
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "STATE_DIRECTORY": str(state)}
    loop = [sys.executable, str(HOOKS / "agent_loop.py"), str(log), "echo one", "seq 2"]
    (tmp_path / "verifierd.toml").write_text("[http]\nport = 0\n")
    with Live(state, log, "--config", tmp_path / "verifierd.toml") as live:
        live.wait(lambda: len(live.steps) == 1)
        for _ in range(5):  # a busy machine may be slower than the loop's patience
            done = subprocess.run(loop, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
            if "off path" in done.stdout:
                break
    alone = subprocess.run(loop, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("$ echo one\none\n$ seq 2\n1\n3\nverifierd, ")
    assert alone.stdout == "$ echo one\none\n$ seq 2\n1\n3\n"
