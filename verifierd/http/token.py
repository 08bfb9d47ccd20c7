"""Secrets of the state directory that only its owner may read, and where the endpoint is served."""

import contextlib
import os
import re
import secrets
import stat
from pathlib import Path

from verifierd.errors import StateError

__all__ = ("announce", "token")

_TOKEN = re.compile(r"[0-9a-f]{64}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe in its place must not hold us up


def token(path: Path) -> str:
    """The secret of a file; made on the first call: 32 random bytes in hexadecimal, readable by its owner alone.

    Raises:
        StateError: The file cannot be made or read, others may read it, or it holds no token.
    """
    try:
        try:
            descriptor = os.open(path, _READ)
        except FileNotFoundError:
            _create(path, secrets.token_hex(32))
            descriptor = os.open(path, _READ)
        with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
            status = os.fstat(descriptor)
            text = file.read(128).strip()
    except OSError as error:
        raise StateError(
            f"{path}: cannot keep a token: {error.strerror or error}",
            hint="Make the state directory writable for this user, or remove what is in the file's place.",
        ) from error
    if status.st_uid != os.geteuid() or status.st_mode & 0o077 or not stat.S_ISREG(status.st_mode):
        raise StateError(
            f"{path}: the token may be read by others (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"Remove {path}; a new token is made at the next start. To keep it: chmod 600 {path}",
        )
    if not _TOKEN.fullmatch(text):
        raise StateError(f"{path}: holds no token", hint=f"Remove {path}; a new one is made at the next start.")
    return text


def announce(path: Path, url: str) -> None:
    """Keep where we serve in a file, for commands of the same user.

    Raises:
        StateError: The file cannot be made.
    """
    try:
        path.unlink(missing_ok=True)
        _create(path, url)
    except OSError as error:
        raise StateError(
            f"{path}: cannot keep the endpoint's address: {error.strerror or error}",
            hint="Make the state directory writable for this user, or remove what is in the file's place.",
        ) from error


def _create(path: Path, text: str) -> None:
    """Write beside the place and link it there: whoever comes second finds the first one's file, and it is whole."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
