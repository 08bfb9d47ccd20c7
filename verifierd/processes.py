"""Ending processes that were started here."""

import os
import signal
from contextlib import suppress

__all__ = ("kill_group",)


def kill_group(leader: int) -> None:
    """Kill a process and all of its group, or find that they have ended, which macOS says of zombies by a refusal."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
