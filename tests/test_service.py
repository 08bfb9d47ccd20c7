"""The files that service managers read."""

import os
import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest

from verifierd.errors import ConfigError
from verifierd.service import LABEL, UNIT, launchd_agent, systemd_unit

HOSTILE = '/tmp/a b/"q"\\100% $HOME'


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    """`systemd-analyze verify` finds nothing to complain about, whatever paths hold."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "a b 100% $HOME" / "python"
    program.parent.mkdir()
    program.touch(0o755)
    unit = tmp_path / UNIT
    unit.write_text(systemd_unit([str(program), "run", "--config", HOSTILE], {"CODEX_HOME": HOSTILE}))

    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    verify = [analyze, "--user", "verify", str(unit)]
    done = subprocess.run(verify, env=environ, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_words_of_the_unit_are_taken_as_they_are() -> None:
    """Specifiers, variables, quotes and blanks in a path are only characters."""
    lines = systemd_unit(["/a b/python", "-P", HOSTILE], {"CODEX_HOME": HOSTILE}).splitlines()

    assert r'ExecStart="/a b/python" -P "/tmp/a b/\"q\"\\100%% $$HOME"' in lines
    assert r'Environment="CODEX_HOME=/tmp/a b/\"q\"\\100%% $HOME"' in lines


def test_the_agent_is_one_that_launchd_takes() -> None:
    """Absolute paths, restarted unless it ended well, unhindered, its mask, its files, and a watchdog of its own."""
    found = plistlib.loads(launchd_agent(["/a b/python", HOSTILE], {"CODEX_HOME": "/c"}, errors=Path("/l/e.log")))

    assert found == {
        "Label": LABEL,
        "ProgramArguments": ["/a b/python", HOSTILE],
        "EnvironmentVariables": {"CODEX_HOME": "/c", "WATCHDOG_USEC": "60000000"},
        "WorkingDirectory": "/",
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": 90,
        "ProcessType": "Standard",
        "Umask": 63,
        "SoftResourceLimits": {"NumberOfFiles": 4096},
        "StandardOutPath": "/dev/null",
        "StandardErrorPath": "/l/e.log",
    }


@pytest.mark.parametrize("path", ["/a\nExecStartPre=/bin/evil", "/a\x1b[0m", "/a\udcff"])
def test_a_path_that_no_file_can_hold_is_refused(path: str) -> None:
    """A path cannot add lines to a unit."""
    with pytest.raises(ConfigError, match="control character"):
        systemd_unit(["/python", path], {})
    with pytest.raises(ConfigError, match="control character"):
        systemd_unit(["/python"], {"CODEX_HOME": path})
    with pytest.raises(ConfigError, match="control character"):
        launchd_agent(["/python", path], {}, errors=Path("/e"))


def test_a_program_that_systemd_would_not_start_is_refused() -> None:
    """Where it lies is said before a unit is written that cannot start."""
    with pytest.raises(ConfigError, match="no program with quotes"):
        systemd_unit(["/it's/python"], {})
