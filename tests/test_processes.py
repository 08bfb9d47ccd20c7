"""Ending processes that were started here."""

import subprocess

from verifierd.processes import kill_group


def test_a_group_is_killed_once() -> None:
    """A process and its children end; that they have ended is found without an error."""
    script = "sleep 60 & echo; wait"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        kill_group(process.pid)
        assert process.stdout.read() == b""  # the child held it open, too
        assert process.wait() == -9
    kill_group(process.pid)
