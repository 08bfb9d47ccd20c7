"""An agent's loop that asks verifierd about each of its steps: an example to start from.

It runs the commands it is given, writes each step to a log in the native format, and asks for the verdict before it
goes on. In a real loop the notice goes to the model, behind the observation.

    verifierd run steps.jsonl &
    python agent_loop.py steps.jsonl 'echo one' 'date'
"""

# ruff: noqa: INP001, S603, T201 - a script, which starts what it is given, and prints

import json
import shlex
import subprocess
import sys
import uuid
from pathlib import Path


def notice(session: str, step: int) -> str:
    """What verifierd has to say of a step: nothing, unless it is off path. Takes two seconds at most."""
    asked = ["verifierd", "hook", "--session", session, "--step", str(step)]
    try:
        return subprocess.run(asked, stdout=subprocess.PIPE, check=False, timeout=5, text=True).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def main(log: str, *commands: str) -> None:
    """Run commands as an agent would."""
    session = f"demo-{uuid.uuid4()}"
    with Path(log).open("a", encoding="utf-8") as file:
        for number, command in enumerate(commands, 1):
            done = subprocess.run(
                shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True
            )
            step = {"trajectory": session, "step": number, "action": command, "observation": done.stdout}
            file.write(json.dumps({**step, "exit_code": done.returncode, "cwd": str(Path.cwd())}) + "\n")
            file.flush()
            print(f"$ {command}\n{done.stdout}{notice(session, number)}", end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
