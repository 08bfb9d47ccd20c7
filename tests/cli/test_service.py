"""`verifierd service`, where a recorder stands in for the service manager, as there is none in tests."""

import json
import os
import plistlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.helpers import verifierd
from verifierd.cli import service
from verifierd.errors import ConfigError, VerifierdError


class Machine:
    """A home, and a service manager that writes down what it is told."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.calls = folder / "calls"
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{self.tools}:/usr/bin:/bin",
            "XDG_CONFIG_HOME": "",
            "XDG_STATE_HOME": "",
            "CLAUDE_CONFIG_DIR": "/claude dir",
            "CODEX_HOME": "relative",
        }
        self.unit = self.home / ".config/systemd/user/verifierd.service"
        self.agent = self.home / "Library/LaunchAgents/io.verifierd.agent.plist"

    def manager(self, name: str, script: str = "") -> None:
        """Put one there, which does that after it wrote its arguments down."""
        tool = self.tools / name
        tool.write_text(f'#!/bin/sh\necho "$*" >> {self.calls}\n{script}\n')
        tool.chmod(0o755)

    def told(self) -> list[str]:
        """What it was told since the last time."""
        found = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return found

    def linux(self, *arguments: str | Path) -> Result:
        """Run the command as on Linux."""
        return self._run("linux", arguments)

    def macos(self, *arguments: str | Path) -> Result:
        """Run the command as on macOS."""
        return self._run("darwin", arguments)

    def _run(self, platform: str, arguments: Sequence[str | Path]) -> Result:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "platform", platform)
            done = CliRunner().invoke(service.command, [str(argument) for argument in arguments], env=self.env)
        if done.exception is not None and not isinstance(done.exception, SystemExit | VerifierdError):
            raise done.exception
        return done


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def refusal(done: Result) -> VerifierdError:
    """The error that ended it."""
    assert isinstance(done.exception, VerifierdError)
    return done.exception


def test_a_user_unit_comes_and_goes(machine: Machine, tmp_path: Path) -> None:
    """Written, enabled and started; then stopped and removed. What it judged stays."""
    machine.manager("systemctl")
    config = tmp_path / "my settings.toml"
    config.write_text('policy = "default"\n')

    done = machine.linux("install", "--config", config, "--state", tmp_path / "state")

    assert (done.exit_code, done.stderr) == (0, "")
    assert machine.told() == [
        "--user daemon-reload",
        "--user enable verifierd.service",
        "--user restart verifierd.service",
    ]
    text = machine.unit.read_text()
    start = f'ExecStart={sys.executable} -P -m verifierd run --config "{config}" --state {tmp_path}/state\n'
    assert start in text
    assert 'Environment="CLAUDE_CONFIG_DIR=/claude dir"\n' in text
    assert "CODEX_HOME" not in text, "what is relative means nothing there"
    assert "linger" in done.stdout
    assert [path.name for path in machine.unit.parent.iterdir()] == ["verifierd.service"]

    gone = machine.linux("uninstall")

    assert gone.exit_code == 0
    assert machine.told() == [
        "--user disable --now verifierd.service",
        "--user daemon-reload",
        "--user reset-failed verifierd.service",
    ]
    assert not machine.unit.exists()
    assert "not installed" in machine.linux("uninstall").stdout


def test_an_agent_comes_and_goes(machine: Machine) -> None:
    """As on macOS: one that is loaded is let go first, its log has a file of its own, and folders are made."""
    machine.manager("launchctl", 'test "$1" != bootout')
    domain = f"gui/{os.getuid()}"

    done = machine.macos("install")

    assert (done.exit_code, done.stderr) == (0, "")
    assert machine.told() == [
        f"bootout {domain}/io.verifierd.agent",
        f"enable {domain}/io.verifierd.agent",
        f"bootstrap {domain} {machine.agent}",
    ]
    agent = plistlib.loads(machine.agent.read_bytes())
    logs = machine.home / "Library/Logs/verifierd"
    program = [sys.executable, "-P", "-m", "verifierd", "run", "--log-file", f"{logs}/verifierd.log"]
    assert agent["ProgramArguments"] == program
    assert agent["EnvironmentVariables"]["CLAUDE_CONFIG_DIR"] == "/claude dir"
    assert logs.is_dir(), "launchd does not make it"
    assert f"{machine.home}/Library/Application Support/verifierd" in done.stdout

    assert machine.macos("uninstall").exit_code == 0
    assert machine.told() == [f"bootout {domain}/io.verifierd.agent"]
    assert not machine.agent.exists()


def test_a_dry_run_only_prints(machine: Machine) -> None:
    """The file, and the commands that would be run."""
    machine.manager("systemctl")
    machine.manager("launchctl")
    agent = machine.macos("install", "--dry-run")
    machine.macos("uninstall", "--dry-run")
    document = agent.stdout[agent.stdout.index("<?xml") : agent.stdout.index("</plist>")] + "</plist>"

    assert plistlib.loads(document.encode())["Label"] == "io.verifierd.agent"
    assert "# launchctl bootstrap gui/" in agent.stdout
    unit = machine.linux("install", "--dry-run")
    machine.linux("uninstall", "--dry-run")
    assert unit.stdout.startswith(f"# {machine.unit}\n")
    assert "\n[Service]\nType=notify\n" in unit.stdout
    assert unit.stdout.endswith("# systemctl --user restart verifierd.service\n")
    assert machine.told() == []
    assert list(machine.home.iterdir()) == []


def test_a_manager_that_refuses_is_quoted(machine: Machine) -> None:
    """The unit is there for the next login, and the exit code says that trying again may help."""
    machine.manager("systemctl", 'echo "Failed to connect to bus: No medium found" >&2; exit 1')

    done = machine.linux("install")

    assert refusal(done).exit_code == 75
    assert "systemctl --user daemon-reload: Failed to connect to bus" in refusal(done).message
    assert machine.unit.exists()


def test_where_there_is_no_manager_that_is_said(machine: Machine) -> None:
    """In a container, say."""
    machine.env["PATH"] = str(machine.tools)
    installed, asked = machine.linux("install"), machine.linux("status")

    assert (refusal(installed).exit_code, asked.exit_code) == (75, 1)
    assert "there is no such command here" in refusal(installed).message
    assert "there is no such command here" in asked.stdout


def test_wrong_settings_are_not_installed(machine: Machine, tmp_path: Path) -> None:
    """A service that could not start is refused before anything is written."""
    machine.manager("systemctl")
    machine.manager("launchctl")
    config = tmp_path / "v.toml"
    for text in ("polici = 1\n", 'policy = "nowhere"\n', 'predictor = "nobody"\n'):
        config.write_text(text)
        done = machine.macos("install", "--config", config)
        assert isinstance(done.exception, ConfigError), text
    assert machine.told() == []
    assert list(machine.home.iterdir()) == []


def test_status_tells_what_systemd_knows(machine: Machine) -> None:
    """In words or as JSON; exit code 0 while it runs."""
    machine.manager(
        "systemctl",
        r"printf 'LoadState=loaded\nActiveState=active\nSubState=running\nMainPID=17\nNRestarts=2\nResult=success\n"
        r"ExecMainStatus=0\nStatusText=following 3 files = fine\n'",
    )
    words, document = machine.linux("status"), machine.linux("status", "--json")

    assert (words.exit_code, document.exit_code) == (0, 0)
    assert words.stdout.splitlines() == [
        f"not installed: {machine.unit}",
        "state: active (running)",
        "pid: 17",
        "status: following 3 files = fine",
        "restarts: 2",
    ]
    assert json.loads(document.stdout) == {
        "installed": False,
        "file": str(machine.unit),
        "running": True,
        "state": "active (running)",
        "pid": 17,
        "status": "following 3 files = fine",
        "restarts": 2,
    }


def test_status_tells_why_it_failed(machine: Machine) -> None:
    """The manager's reason and the exit code."""
    machine.manager(
        "systemctl", r"printf 'ActiveState=failed\nSubState=failed\nMainPID=0\nResult=exit-code\nExecMainStatus=78\n'"
    )
    done = machine.linux("status", "--json")

    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert (found["running"], found["trouble"], found["exit_code"], found["pid"]) == (False, "exit-code", 78, None)


def test_status_tells_what_launchd_knows(machine: Machine) -> None:
    """Its own lines, not those of what stands within it."""
    report = """gui/501/io.verifierd.agent = {
\tactive count = 1
\tpath = /p
\tstate = running
\truns = 3
\tpid = 4242
\tlast exit code = 1
\tspawn type = daemon (3)
\tevent triggers = {
\t\tstate = stopped
\t}
}"""
    machine.manager("launchctl", f"cat <<'E'\n{report}\nE")
    done = machine.macos("status", "--json")

    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["state"], found["pid"], found["restarts"], found["exit_code"]) == ("running", 4242, 2, 1)

    machine.manager("launchctl", "echo 'Could not find service' >&2; exit 113")
    assert machine.macos("status").stdout == f"not installed: {machine.agent}\nstate: not loaded\n"


def test_it_is_a_command_of_verifierd(tmp_path: Path) -> None:
    """The real one, as a user starts it."""
    done = verifierd("service", "install", "--config", tmp_path / "none.toml")

    assert done.returncode == 78
    assert "cannot read the configuration" in done.stderr
