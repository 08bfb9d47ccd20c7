"""`verifierd label`: say whether a step was really on path."""

import getpass
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import anyio
import click
import msgspec

from verifierd.cli.options import json_option
from verifierd.cli.view import print_json
from verifierd.config import default_state
from verifierd.errors import LabelError, StateError
from verifierd.labels import LABELS, UNDO, Saying, answer
from verifierd.paths import expanded
from verifierd.sanitize import plain
from verifierd.store import DATABASE, Store

__all__ = ("command", "user")

_SECONDS = 30.0  # that a daemon has for its answer
_TRIES = 20
_PAUSE = 0.05  # seconds between two
_TRUTHS = {"on_path": "on path", "off_path": "off path", "unsure": "unsure"}
_VERDICTS = {"on_path": "on path", "off_path": "off path", "abstain": "not decided"}


@click.command("label")
@click.argument("identity", metavar="ID")
@click.argument("label", type=click.Choice([*LABELS, UNDO]), metavar="on_path|off_path|unsure|undo")
@click.option("--by", metavar="NAME", help="Who says it; your user's name by default.")
@click.option("--note", default="", metavar="TEXT", help="Why.")
@click.option("--state", type=click.Path(path_type=Path), metavar="DIR", help="State folder of `verifierd run`.")
@json_option
def command(*, identity: str, label: str, by: str | None, note: str, state: Path | None, as_json: bool) -> None:
    """Say what is true of a step: really on path, really off path, or unsure; `undo` takes back what was said last.

    ID is a verdict's or a step's id, or at least 8 characters of its beginning. The label belongs to the step: it holds
    for the verdicts of every policy, and the last one counts. A whole id that nobody knows yet waits for its verdict.
    """
    where = expanded(state or default_state())
    word = cast("Literal['on_path', 'off_path', 'unsure', 'undo']", label)
    name = user() if by is None else by
    # An argument may be bytes that are no text, which JSON cannot hold.
    said = Saying(id=plain(identity), label=word, by=plain(name), note=plain(note))
    done = anyio.run(_say, where, said)
    if as_json:
        print_json(done)
    else:
        click.echo(_told(done))


async def _say(where: Path, said: Saying) -> Mapping[str, Any]:
    """Have it kept by the daemon that has the state, else keep it; what came of it, as the endpoint tells it."""
    if not (where / DATABASE).is_file():
        raise StateError(
            f"{where / DATABASE}: does not exist", hint="name the state folder of `verifierd run` by --state DIR"
        )
    for _ in range(_TRIES):
        try:
            return await _once(where, said)
        except _UnheardError:  # another such command, or a daemon that begins, may have it for a moment
            await anyio.sleep(_PAUSE)
    return await _once(where, said)


class _UnheardError(StateError):
    """Somebody has the state, and does not listen."""


async def _once(where: Path, said: Saying) -> Mapping[str, Any]:
    try:
        async with Store(where) as store:
            return answer(await store.label(said))
    except StateError as error:
        if not error.temporary:
            raise
        # Only a daemon that has the state removes the address of one that was killed, so it is asked second.
        if not (where / "endpoint").exists():
            raise _UnheardError(error.message, hint=error.hint, temporary=True) from error
    return await _ask(where, said)


async def _ask(where: Path, said: Saying) -> Mapping[str, Any]:
    import httpx2  # noqa: PLC0415 - takes a while, and most labels are given while no daemon runs

    later = "Try again; if that daemon hangs, stop it: the label is then kept without it."
    try:
        url = (where / "endpoint").read_text(encoding="ascii").strip()
        headers = {
            "Authorization": f"Bearer {(where / 'token').read_text(encoding='ascii').strip()}",
            "Content-Type": "application/json",
        }
        async with httpx2.AsyncClient(trust_env=False, timeout=_SECONDS) as client:  # no proxy: it is this machine
            reply = await client.post(f"{url}/api/labels", headers=headers, content=msgspec.json.encode(said))
            document = msgspec.json.decode(reply.content, type=dict[str, Any])
    except (OSError, UnicodeError, httpx2.HTTPError, httpx2.InvalidURL, msgspec.DecodeError) as error:
        kind = _UnheardError if isinstance(error, httpx2.ConnectError) else StateError
        raise kind(f"{where}: the daemon that uses it does not answer: {error}", hint=later, temporary=True) from error
    if reply.status_code in (200, 202):
        return document
    message, hint = str(document.get("error", reply.status_code)), str(document.get("hint", ""))
    if reply.status_code in (400, 404):
        raise LabelError(message, hint=hint, missing=reply.status_code == 404)
    raise StateError(f"{where}: the daemon refuses the label: {message}", hint=hint or later, temporary=True)


def _told(done: Mapping[str, Any]) -> str:
    """What came of it, in a sentence."""
    now, before, verdict = done["label"], done["before"], done["verdict"]
    if verdict is not None:
        judged = _VERDICTS[verdict["verdict"]]
        what = f"Step {verdict['step']} of {verdict['trajectory']} (verdict {verdict['verdict_id'][:12]}: {judged})"
    else:
        what = f"{done['id']}, which no verdict has yet,"
    state = f"is labelled {_TRUTHS[now['label']]}" if now is not None else "has no label any more"
    if done["pending"] and now is not None:
        state += " once one has"
    was = "nobody had labelled it" if before is None else f"{_TRUTHS[before['label']]}, as {_who(before)} said"
    return plain(f"{what} {state}; before: {was}.")


def _who(label: Mapping[str, Any]) -> str:
    return str(label["by"]) or {"data": "the log itself", "file": "a label file"}.get(label["source"], "somebody")


def user() -> str:
    """The name of whoever runs this, or none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return ""
