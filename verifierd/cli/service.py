"""`verifierd service`: have the daemon run whenever its user is logged in."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from verifierd import policy
from verifierd.cli.config import require_known
from verifierd.cli.options import json_option
from verifierd.cli.view import print_json
from verifierd.config import default_state, read
from verifierd.errors import ConfigError, StateError
from verifierd.paths import expanded
from verifierd.sanitize import plain
from verifierd.service import LABEL, UNIT, launchd_agent, systemd_unit

__all__ = ("command",)

_CARRIED = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_STATE_HOME", "HF_HOME")
"""What of the environment says where things are."""

_PATIENCE = 10.0  # seconds: launchd takes a while to let go of the agent before
_SHOWN = ("LoadState", "ActiveState", "SubState", "MainPID", "NRestarts", "Result", "ExecMainStatus", "StatusText")


class _Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service as its manager knows it.

    Attributes:
        path: The file that describes it.
        document: What is in it.
        folders: What must exist before it starts.
        before: Commands for before it starts anew; all commands but those of `begin` may fail, as it may not be there.
        begin: Commands that start it once the file is there.
        end: Commands that stop it.
        forget: Commands for once the file is gone.
        advice: What a person should know.
    """

    path: Path
    document: bytes
    folders: tuple[Path, ...] = ()
    before: tuple[tuple[str, ...], ...] = ()
    begin: tuple[tuple[str, ...], ...]
    end: tuple[tuple[str, ...], ...]
    forget: tuple[tuple[str, ...], ...] = ()
    advice: tuple[str, ...]


@click.group("service")
def command() -> None:
    """Have the daemon run whenever you are logged in: a systemd user unit on Linux, a launchd agent on macOS."""


@command.command()
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Its settings.")
@click.option("--state", type=click.Path(path_type=Path), metavar="DIR", help="Its state folder.")
@click.option("--dry-run", is_flag=True, help="Print what would be written and run; change nothing.")
def install(*, config: Path | None, state: Path | None, dry_run: bool) -> None:
    """Write the service's file and start it; one that is there is replaced and started anew."""
    settings = read(config)
    require_known(settings, str(config))
    policy.load(settings.policy)
    options = [("--config", config), ("--state", state)]
    given = [(name, str(expanded(path).absolute())) for name, path in options if path is not None]
    service = _service(["run", *(word for pair in given for word in pair)])
    if dry_run:
        for line in (f"# {service.path}", *service.document.decode().splitlines()):
            click.echo(plain(line))
        _show((*service.before, *service.begin))
        return
    _require_installed()
    try:
        for folder in service.folders:
            folder.mkdir(parents=True, exist_ok=True)
        service.path.parent.mkdir(parents=True, exist_ok=True)
        _write(service.path, service.document)
    except OSError as error:
        raise ConfigError(
            f"{service.path}: cannot be written: {error.strerror or error}", hint="Make its folder writable for you."
        ) from error
    click.echo(f"wrote {service.path}")
    for words in service.before:
        _run(words)
    for words in service.begin:
        _must(words, service.path)
    click.echo("started; see: verifierd service status")
    for line in service.advice:
        click.echo(plain(line))


@command.command()
@click.option("--dry-run", is_flag=True, help="Print what would be run and removed; change nothing.")
def uninstall(*, dry_run: bool) -> None:
    """Stop the service and remove its file. What it judged stays; see `verifierd state`."""
    service = _service(["run"])
    if dry_run:
        _show((*service.end, ("rm", str(service.path)), *service.forget))
        return
    for words in service.end:
        _run(words)
    try:
        service.path.unlink()
    except FileNotFoundError:
        click.echo(f"not installed: {service.path} does not exist")
        return
    except OSError as error:
        raise ConfigError(
            f"{service.path}: cannot be removed: {error.strerror or error}", hint="Remove it by hand."
        ) from error
    for words in service.forget:
        _run(words)
    click.echo(f"removed {service.path}")
    click.echo("what it judged stays; `verifierd state purge` deletes it")


@command.command()
@json_option
def status(*, as_json: bool) -> None:
    """Say whether the service is installed and runs. Exits with 1 if it does not run."""
    service = _service(["run"])
    known: dict[str, Any] = {"installed": service.path.is_file(), "file": str(service.path), "running": False}
    known |= _launchd_state() if sys.platform == "darwin" else _systemd_state()
    if as_json:
        print_json(known)
    else:
        click.echo(plain(f"{'installed' if known['installed'] else 'not installed'}: {service.path}"))
        for name in ("state", "pid", "status", "restarts", "exit_code", "trouble"):
            if known.get(name) is not None:
                click.echo(plain(f"{name.replace('_', ' ')}: {known[name]}"))
    sys.exit(0 if known["running"] else 1)


def _show(commands: Sequence[Sequence[str]]) -> None:
    for words in commands:
        click.echo(plain(f"# {shlex.join(words)}"))


def _service(words: Sequence[str]) -> _Service:
    """This user's service, which runs the daemon by these words.

    Raises:
        ConfigError: No service manager is known for this system.
    """
    environ = {name: value for name in _CARRIED if os.path.isabs(value := os.environ.get(name, ""))}  # noqa: PTH117
    # Without -P a module in the folder where it starts could stand in for one of ours.
    program = [sys.executable, "-P", "-m", "verifierd", *words]
    if sys.platform == "darwin":
        return _launchd(program, environ)
    if sys.platform == "linux":
        return _systemd(program, environ)
    raise ConfigError(
        f"no service manager is known for {sys.platform}", hint="Have `verifierd run` started by what starts services."
    )


def _systemd(program: Sequence[str], environ: Mapping[str, str]) -> _Service:
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    folder = (base if base.is_absolute() else Path.home() / ".config") / "systemd" / "user"
    manager = ("systemctl", "--user")
    advice = ["its log: journalctl --user -u verifierd"]
    if not (Path("/var/lib/systemd/linger") / _user()).exists():
        advice.append("it ends when you log out; to keep it running: loginctl enable-linger")
    return _Service(
        path=folder / UNIT,
        document=systemd_unit(program, environ).encode(),
        begin=((*manager, "daemon-reload"), (*manager, "enable", UNIT), (*manager, "restart", UNIT)),
        end=((*manager, "disable", "--now", UNIT),),
        forget=((*manager, "daemon-reload"), (*manager, "reset-failed", UNIT)),
        advice=tuple(advice),
    )


def _launchd(program: Sequence[str], environ: Mapping[str, str]) -> _Service:
    path = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    logs = Path.home() / "Library" / "Logs" / "verifierd"
    errors, log = logs / "stderr.log", logs / "verifierd.log"
    domain = f"gui/{os.getuid()}"
    stop = ("launchctl", "bootout", f"{domain}/{LABEL}")
    return _Service(
        path=path,
        document=launchd_agent([*program, "--log-file", str(log)], environ, errors=errors),
        folders=(logs,),
        before=(stop,),
        begin=(("launchctl", "enable", f"{domain}/{LABEL}"), ("launchctl", "bootstrap", domain, str(path))),
        end=(stop,),
        advice=(f"its log: {log}", f"its state: {default_state()}"),
    )


def _systemd_state() -> dict[str, Any]:
    done = _run(("systemctl", "--user", "show", UNIT, f"--property={','.join(_SHOWN)}"))
    if done.returncode:
        return {"trouble": _last(done)}
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    pid = int(found.get("MainPID") or 0)
    state = {
        "running": found.get("ActiveState") in ("active", "reloading"),
        "state": f"{found.get('ActiveState')} ({found.get('SubState')})",
        "pid": pid or None,
        "status": found.get("StatusText") or None,
        "restarts": int(found.get("NRestarts") or 0),
    }
    if found.get("Result", "success") != "success":
        state |= {"trouble": found["Result"], "exit_code": int(found.get("ExecMainStatus") or 0)}
    return state


def _launchd_state() -> dict[str, Any]:
    done = _run(("launchctl", "print", f"gui/{os.getuid()}/{LABEL}"))
    if done.returncode:
        return {"state": "not loaded"}
    # What stands one tab deep is the agent's own.
    found = dict(re.findall(r"^\t(\S[^=\n]*?) = (.*)$", done.stdout, re.MULTILINE))
    exit_code = found.get("last exit code", "")
    return {
        "running": found.get("state") == "running",
        "state": found.get("state"),
        "pid": int(found["pid"]) if found.get("pid", "").isdecimal() else None,
        "restarts": max(0, int(runs) - 1) if (runs := found.get("runs", "")).isdecimal() else None,
        "exit_code": int(exit_code) if exit_code.isdecimal() else None,
    }


def _require_installed() -> None:
    """Make sure that Python finds us from everywhere, not only from a checkout's folder."""
    done = _run((sys.executable, "-P", "-c", "import verifierd.cli"), cwd="/")
    if done.returncode:
        raise ConfigError(
            f"{sys.executable}: verifierd is not installed for this Python",
            hint="Install it, as with `pip install .`, and run that one's `verifierd service install`.",
        )


def _write(path: Path, document: bytes) -> None:
    """All of it, or what was there before."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(document)
        draft.chmod(0o644)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _must(words: Sequence[str], path: Path) -> None:
    """Run a command that may not fail.

    Raises:
        StateError: It fails.
    """
    until = time.monotonic() + _PATIENCE
    while (done := _run(words)).returncode:
        if "bootstrap" not in words or time.monotonic() > until:
            raise StateError(
                f"{shlex.join(words)}: {_last(done)}",
                hint=f"{path} is there and will be used at your next login; `verifierd service status` says more.",
                temporary=True,
            )
        time.sleep(0.5)


def _run(words: Sequence[str], cwd: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a command and take what it says; where there is no such command, that is what it says."""
    if shutil.which(words[0]) is None:
        return subprocess.CompletedProcess(words, 127, "", f"{words[0]}: there is no such command here")
    return subprocess.run(  # noqa: S603 - its words are our own
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False, cwd=cwd
    )


def _last(done: "subprocess.CompletedProcess[str]") -> str:
    """What a command said last."""
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"ended with {done.returncode}"


def _user() -> str:
    return os.environ.get("USER") or str(os.getuid())
