"""Records sample trajectories: plays a script in a real shell and writes the log that an agent would have written.

    python -m verifierd.replay.record --out replay/trajectories

Commands and file edits really happen, in a throw-away home. Times, ids and names of models are invented from a seed,
so that the same script on the same machine gives the same bytes. `replay/README.md` says how to write a script.
"""

import msgspec

from verifierd.replay.record import claude_code, codex, native
from verifierd.replay.record.invention import Invention
from verifierd.replay.record.script import Script, load_script

__all__ = ("Script", "load_script", "record")

_RECORDERS = {"native": native.record, "claude_code": claude_code.record, "codex": codex.record}


def record(script: Script, *, seed: int = 0) -> dict[str, bytes]:
    """Play a script: the JSONL of each file that results, by its path below the folder of trajectories."""
    files = _RECORDERS[script.format](script, Invention(f"{seed} {script.name}"))
    return {path: b"".join(msgspec.json.encode(line) + b"\n" for line in lines) for path, lines in files.items()}
