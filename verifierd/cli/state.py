"""`verifierd state`: check, repair, reset or purge what the daemon keeps."""

import fcntl
import os
import re
import shutil
import stat
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import click
import msgspec

from verifierd.cli.options import json_option
from verifierd.cli.view import counted, print_json
from verifierd.config import default_state
from verifierd.errors import StateError
from verifierd.paths import expanded
from verifierd.salvage import Examined, examine, salvage
from verifierd.sanitize import plain
from verifierd.store import DATABASE, held
from verifierd.times import iso

__all__ = ("command",)

_SECRETS = ("token", "salt", "webhook-secret", "ended-sessions")
_OURS = (*_SECRETS, "endpoint", "lock")
_SET_ASIDE = "before-"  # and a number: what a reset moved away
_VERDICTS = "verdicts.jsonl"

_state_option = click.option(
    "--state", type=click.Path(path_type=Path), metavar="DIR", help="State folder of `verifierd run`."
)
_out_option = click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Its verdict file, if that is not in the folder."
)
_yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


class _Problem(msgspec.Struct, frozen=True):
    """Something wrong, and its remedy."""

    what: str
    remedy: str


@click.group("state")
def command() -> None:
    """Check, repair, reset or purge what the daemon keeps: positions, steps, verdicts, alarms and labels."""


@command.command()
@_state_option
@_out_option
@json_option
def check(*, state: Path | None, out: Path | None, as_json: bool) -> None:
    """Say what is kept and whether it is sound. Changes nothing; exits with 1 if something is wrong."""
    where = _existing(state)
    user = _user(where)
    found = examine(where / DATABASE) if (where / DATABASE).exists() else None
    files = _files(where, out)
    sizes = {str(path.relative_to(where) if path.is_relative_to(where) else path): _size(path) for path in files}
    problems = [*_unsafe(where, files), *(_damage(found) if found is not None else ())]
    if as_json:
        database = None if found is None else msgspec.structs.asdict(found)
        print_json(
            {"directory": str(where), "in_use_by": user, "database": database, "files": sizes, "problems": problems}
        )
    else:
        click.echo(plain(f"{where}: {_bytes(sum(sizes.values()))}, {_used(user)}"))
        for name, size in sizes.items():
            click.echo(plain(f"  {_bytes(size):>10}  {name}"))
        if found is not None:
            click.echo(plain(f"{DATABASE}: schema {found.schema}, {'damaged' if found.problems else 'sound'}"))
            _list(found.rows)
            if found.since is not None and found.until is not None:
                click.echo(f"verdicts from {iso(found.since)} to {iso(found.until)}")
        else:
            click.echo(f"{DATABASE}: there is none; the next `verifierd run` makes one")
        for problem in problems:
            click.echo(plain(f"wrong: {problem.what}"))
            click.echo(plain(f"  {problem.remedy}"))
    sys.exit(1 if problems else 0)


@command.command()
@_state_option
@_out_option
@json_option
def repair(*, state: Path | None, out: Path | None, as_json: bool) -> None:
    """Save what can be read of a damaged database into a new one; the damaged one is kept beside it.

    Verdicts that the database lost are taken from the verdict file. Where steps were lost, logs are read again from
    their beginning by the next run, within what `from` says. Files that others may read are closed to them.
    """
    where = _existing(state)
    closed = _close([where])  # what everybody may write to is not even opened
    with held(where):
        closed += _close(_files(where, out))
        (where / "endpoint").unlink(missing_ok=True)  # nobody serves there
        found = examine(where / DATABASE) if (where / DATABASE).exists() else None
        done = None
        if found is not None and found.problems:
            verdicts = out or where / _VERDICTS
            done = salvage(where, [verdicts.with_name(f"{verdicts.name}.1"), verdicts])
    if as_json:
        print_json({"closed": [str(path) for path in closed], "salvaged": done})
        return
    for path in closed:
        click.echo(plain(f"closed to others: {path}"))
    if done is None:
        click.echo("nothing to repair" if found is None else f"{DATABASE}: is sound")
        return
    click.echo(plain(f"{DATABASE}: saved, the damaged one is {done.old}"))
    _list(done.rows)
    if done.verdicts_from_lines:
        click.echo(f"{counted(done.verdicts_from_lines, 'verdict')} came from the verdict file")
    click.echo(f"incomplete: {', '.join(done.lost)}" if done.lost else "nothing was lost")
    if done.positions_dropped:
        click.echo("the next run reads the logs again; what is known it does not judge twice")


@command.command()
@_state_option
@_out_option
@_yes_option
def reset(*, state: Path | None, out: Path | None, yes: bool) -> None:
    """Start anew: move database and verdict files aside, into a folder of their own. The token stays."""
    where = _existing(state)
    _ask(f"Move everything that was judged in {where} aside?", yes=yes)
    with held(where):
        moved = [path for path in _files(where, out) if path.name not in _OURS and not path.name.startswith(_SET_ASIDE)]
        if not moved:
            click.echo("nothing to move")
            return
        aside = next(path for n in count(1) if not (path := where / f"{_SET_ASIDE}{n}").exists())
        try:
            aside.mkdir(mode=0o700)
            for path in moved:
                shutil.move(path, _free(aside, path.name))  # a verdict file may be on another disk
        except OSError as error:
            raise _refusal(where, error) from error
    click.echo(plain(f"moved {counted(len(moved), 'file')} to {aside}"))


@command.command()
@_state_option
@_out_option
@_yes_option
def purge(*, state: Path | None, out: Path | None, yes: bool) -> None:
    """Delete everything that is kept, transcripts, labels, token and what a reset or a repair set aside included."""
    where = _existing(state)
    _ask(f"Delete everything that is kept in {where}, for good?", yes=yes)
    with held(where):
        files = _files(where, out)
        try:
            for path in files:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            (where / "lock").unlink(missing_ok=True)
            left = sorted(path.name for path in where.iterdir())
            if not left:
                where.rmdir()
        except OSError as error:
            raise _refusal(where, error) from error
    click.echo(plain(f"deleted {counted(len(files), 'file')} of {where}"))
    if left:
        click.echo(plain(f"left, as they are not verifierd's: {', '.join(left)}"))


def _existing(state: Path | None) -> Path:
    """The state folder.

    Raises:
        StateError: There is none, or it is a folder of something else.
    """
    where = expanded(state or default_state()).absolute()
    if not where.is_dir():
        raise StateError(f"{where}: does not exist", hint="name the state folder of `verifierd run` by --state DIR")
    if not any((where / name).exists() for name in (DATABASE, "lock")):
        raise StateError(f"{where}: is no state folder", hint="name the state folder of `verifierd run` by --state DIR")
    return where


def _files(where: Path, out: Path | None) -> list[Path]:
    """What is verifierd's there: of the verdict file also what it leads to, and older ones, whoever rotated them."""
    found = {path for path in where.iterdir() if _is_ours(path.name)}
    named = {where / _VERDICTS, *([] if out is None else [expanded(out).absolute()])}
    for file in named | {path.resolve() for path in named}:
        if file.parent.is_dir():
            older = re.compile(re.escape(file.name) + r"(\.([0-9]+(\.(gz|bz2|xz|zst))?|old-[0-9]+))?")
            found |= {path for path in file.parent.iterdir() if older.fullmatch(path.name)}
    return sorted(found)


def _free(folder: Path, name: str) -> Path:
    """A place there of that name, or of one like it: a link and the file it leads to often have the same."""
    names = (name, *(f"{name}-{n}" for n in range(2, len(os.listdir(folder)) + 3)))  # noqa: PTH208 - only their number
    return next(path for one in names if not os.path.lexists(path := folder / one))


def _is_ours(name: str) -> bool:
    drafts = tuple(f".{secret}." for secret in (*_SECRETS, "endpoint"))
    return name in _OURS or name.startswith((DATABASE, _SET_ASIDE, *drafts))


def _unsafe(where: Path, files: Sequence[Path]) -> list[_Problem]:
    """What others may reach."""
    problems = []
    for path in (where, *files):
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid != os.geteuid():
            problems.append(_Problem(f"{path}: is another user's", "take it away, or run as that user"))
        elif mode & 0o077 and not path.is_symlink():
            problems.append(_Problem(f"{path}: others may reach it (mode {mode:04o})", "verifierd state repair"))
    return problems


def _damage(found: Examined) -> list[_Problem]:
    remedy = "stop the daemon, then: verifierd state repair"
    return [_Problem(f"{DATABASE}: {message}", remedy) for message in found.problems]


def _close(files: Sequence[Path]) -> list[Path]:
    """Take from others what they may; from which files it was taken."""
    closed = []
    for path in files:
        mode = stat.S_IMODE(path.lstat().st_mode)
        if not path.is_symlink() and mode & 0o077:
            path.chmod(mode & 0o700)
            closed.append(path)
    return closed


def _user(where: Path) -> str | None:
    """The process that has the folder, as it says; None if none has."""
    try:
        descriptor = os.open(where / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(descriptor, 20).decode("ascii", "replace").strip() or "?"
    else:
        return None
    finally:
        os.close(descriptor)


def _used(user: str | None) -> str:
    return "not in use" if user is None else f"in use by process {user}"


def _size(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(inner.lstat().st_size for inner in path.rglob("*"))
    return path.lstat().st_size


def _bytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB"


def _list(rows: Any) -> None:
    for name, number in rows.items():
        click.echo(f"  {number:>10,}  {name}")


def _ask(question: str, *, yes: bool) -> None:
    """Go on only if a person, or an option, says so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is here to ask; add --yes")
    click.confirm(plain(question), abort=True)


def _refusal(where: Path, error: OSError) -> StateError:
    place = error.filename or where
    return StateError(f"{place}: {error.strerror or error}", hint="check its owner and mode", temporary=True)
