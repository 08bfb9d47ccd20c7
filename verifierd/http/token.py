"""Secrets of the state directory that only its owner may read, and where the endpoint is served."""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

from verifierd.errors import StateError

__all__ = ("announce", "keep", "kept", "token")

_TOKEN = re.compile(r"[0-9a-f]{64}")
_KEPT = 1024**2  # characters of lines that are kept
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe in its place must not hold us up


def token(path: Path) -> str:
    """The secret of a file; made on the first call: 32 random bytes in hexadecimal, readable by its owner alone.

    Raises:
        StateError: The file cannot be made or read, others may read it, or it holds no token.
    """
    try:
        try:
            text = _read(path, 128)
        except FileNotFoundError:
            _create(path, secrets.token_hex(32))
            text = _read(path, 128)
    except OSError as error:
        raise _refusal(path, "a token", error) from error
    if not _TOKEN.fullmatch(text):
        raise StateError(f"{path}: holds no token", hint=f"Remove {path}; a new one is made at the next start.")
    return text


def announce(path: Path, url: str) -> None:
    """Keep where we serve in a file, for commands of the same user.

    Raises:
        StateError: The file cannot be made.
    """
    try:
        _create(path, url, replace=True)
    except OSError as error:
        raise _refusal(path, "the endpoint's address", error) from error


def kept(path: Path) -> list[str]:
    """The lines that `keep` wrote there; none if there is no such file.

    Raises:
        StateError: It cannot be read, or others may read it.
    """
    try:
        return _read(path, _KEPT).splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _refusal(path, "ended sessions", error) from error


def keep(path: Path, lines: Iterable[str]) -> None:
    """Write lines in place of those that were there, all of them or none.

    Raises:
        StateError: They cannot be written.
    """
    try:
        _create(path, "\n".join(lines), replace=True)
    except OSError as error:
        raise _refusal(path, "ended sessions", error) from error


def _read(path: Path, size: int) -> str:
    """The file's text, without what is blank around it.

    Raises:
        StateError: Others may read it, or it is no plain file.
        OSError: It is not there, or cannot be read.
    """
    with os.fdopen(os.open(path, _READ), encoding="ascii", errors="replace") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid() or status.st_mode & 0o077 or not stat.S_ISREG(status.st_mode):
            raise StateError(
                f"{path}: may be read by others (mode {stat.S_IMODE(status.st_mode):04o})",
                hint=f"Remove {path}; a new one is made at the next start. To keep it: chmod 600 {path}",
            )
        return file.read(size).strip()


def _refusal(path: Path, what: str, error: OSError) -> StateError:
    return StateError(
        f"{path}: cannot keep {what}: {error.strerror or error}",
        hint="Make the state directory writable for this user, or remove what is in the file's place.",
    )


def _create(path: Path, text: str, *, replace: bool = False) -> None:
    """Write beside the place and put it there, whole; where nothing is to be replaced the first one's file stays."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(descriptor)
        if replace:
            draft.replace(path)
        else:
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
