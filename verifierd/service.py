"""What service managers read to run the daemon for one user: a unit of systemd's, an agent of launchd's. Pure texts."""

import plistlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from verifierd.errors import ConfigError

__all__ = ("LABEL", "UNIT", "launchd_agent", "systemd_unit")

UNIT = "verifierd.service"
"""The unit's name for systemd."""

LABEL = "io.verifierd.agent"
"""The agent's name for launchd."""

_WATCHDOG_SECONDS = 60
_STOP_SECONDS = 90
_FILES = 4096
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

_SYSTEMD = """\
# Written by `verifierd service install`; `verifierd service uninstall` removes it.
# Changes of your own belong in a drop-in: systemctl --user edit {unit}

[Unit]
Description=verifierd, which watches AI agents and says where reality departed from what was to be expected
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory=/
{environment}# Such as keys that `api-key-env` names; one NAME=value a line, mode 0600.
EnvironmentFile=-%E/verifierd/environment
WatchdogSec={watchdog}
TimeoutStartSec=120
TimeoutStopSec={stop}
KillMode=mixed
Restart=on-failure
RestartSec=10
# Wrong settings (78) and misused options (2) do not mend themselves.
RestartPreventExitStatus=2 78
LimitNOFILE={files}
OOMPolicy=stop
UMask=0077

# What a user's manager can take away without privileges; deploy/systemd has a system unit that takes more.
NoNewPrivileges=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=default.target
"""


def systemd_unit(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """A unit for a user's own manager.

    Args:
        command: What starts the daemon, its program by an absolute path.
        environ: What it must know of the user's environment.

    Raises:
        ConfigError: A word holds a character that no unit can.
    """
    if re.search(r"[\"'\\]", command[0]):
        raise ConfigError(
            f"{command[0]}: systemd starts no program with quotes or backslashes in its path",
            hint="Install verifierd in a folder of another name.",
        )
    return _SYSTEMD.format(
        unit=UNIT,
        command=" ".join([_quoted(command[0]), *(_quoted(word.replace("$", "$$")) for word in command[1:])]),
        environment="".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in environ.items()),
        watchdog=_WATCHDOG_SECONDS,
        stop=_STOP_SECONDS,
        files=_FILES,
    )


def launchd_agent(command: Sequence[str], environ: Mapping[str, str], *, errors: Path) -> bytes:
    """An agent for a user's own session.

    launchd neither looks for signs of life nor rotates what it writes, so the daemon ends itself if it hangs, and what
    goes to `errors` are its last words alone.

    Args:
        command: What starts the daemon, its program by an absolute path.
        environ: What it must know of the user's environment.
        errors: Where standard error goes, in a folder that exists.

    Raises:
        ConfigError: A word holds a character that no property list can.
    """
    for word in (*command, *environ.values(), str(errors)):
        _require_plain(word)
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(command),
            "EnvironmentVariables": {**environ, "WATCHDOG_USEC": str(_WATCHDOG_SECONDS * 1_000_000)},
            "WorkingDirectory": "/",
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ExitTimeOut": _STOP_SECONDS,
            "ProcessType": "Standard",  # in the background it would be slowed down
            "Umask": 0o077,
            "SoftResourceLimits": {"NumberOfFiles": _FILES},
            "StandardOutPath": "/dev/null",
            "StandardErrorPath": str(errors),
        },
        sort_keys=False,
    )


def _quoted(word: str) -> str:
    """A word as a unit has it, whatever it holds."""
    _require_plain(word)
    word = word.replace("%", "%%")
    if re.fullmatch(r"[A-Za-z0-9_@%+=:,./$-]+", word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _require_plain(word: str) -> None:
    if _CONTROL.search(word):
        raise ConfigError(
            f"{word!r}: holds a control character, or one that is no text",
            hint="A service's command and environment cannot; use another path.",
        )
