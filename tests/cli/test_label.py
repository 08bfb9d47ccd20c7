"""`verifierd label`: with a daemon and without one, and what is refused."""

import getpass
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner, Result

from tests.helpers import Live, counter, jsonl, read_verdicts, verifierd, wrong_once
from tests.test_labels import OFF, verdict
from verifierd.cli import _verifierd
from verifierd.store import Commit, Store
from verifierd.types import Verdict

WRONG = verdict(6, OFF)


def judged(state: Path, *verdicts: Verdict) -> None:
    """Have a state with these verdicts."""

    async def commit() -> None:
        async with Store(state) as store:
            await store.commit(Commit(verdicts=verdicts))

    anyio.run(commit)


def run(*arguments: str | Path) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(_verifierd, [str(argument) for argument in arguments])


def test_a_label_is_given_changed_and_undone(tmp_path: Path) -> None:
    """Without a daemon it is kept all the same; each time it says what it did and what held before."""
    judged(tmp_path, WRONG)
    told = run("label", WRONG.verdict_id[:8].upper(), "on_path", "--by", "ada", "--state", tmp_path)
    where = f"Step 6 of t (verdict {WRONG.verdict_id[:12]}: off path)"
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout == f"{where} is labelled on path; before: nobody had labelled it.\n"
    told = run("label", WRONG.step_id, "unsure", "--note", "hm\x1b", "--state", tmp_path, "--json")
    document = json.loads(told.stdout)
    assert (document["action"], document["step_id"], document["pending"]) == ("changed", WRONG.step_id, False)
    assert (document["label"]["by"], document["label"]["note"]) == (getpass.getuser(), "hm\\x1b")
    assert document["before"]["by"] == "ada"
    told = run("label", WRONG.step_id, "undo", "--state", tmp_path)
    assert told.stdout == f"{where} is labelled on path; before: unsure, as {getpass.getuser()} said.\n"
    explained = run("explain", WRONG.step_id, "--state", tmp_path).stdout
    assert "truth   on_path, says ada" in explained
    assert f"not any more: unsure, says {getpass.getuser()}" in explained
    told = run("label", WRONG.step_id, "undo", "--state", tmp_path)
    assert told.stdout == f"{where} has no label any more; before: on path, as ada said.\n"


def test_an_id_that_nobody_knows_waits(tmp_path: Path) -> None:
    """A whole id is kept until its verdict comes, which then has the label."""
    judged(tmp_path)
    told = run("label", WRONG.verdict_id, "on_path", "--state", tmp_path)
    assert told.stdout == (
        f"{WRONG.verdict_id}, which no verdict has yet, is labelled on path once one has; before: nobody had"
        " labelled it.\n"
    )
    told = run("label", WRONG.verdict_id, "undo", "--state", tmp_path)
    assert "has no label any more; before: on path" in told.stdout
    run("label", WRONG.verdict_id, "unsure", "--state", tmp_path)
    judged(tmp_path, WRONG)
    assert "unsure, says" in run("explain", WRONG.step_id, "--state", tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["01234567", "on_path"], 1, "no verdict or step has an id that begins with `01234567`"),
        (["0123456", "on_path"], 1, "too short"),
        (["../x", "on_path"], 1, "is no id"),
        (["0" * 32, "undo"], 1, "no label that could be undone"),
        (["0" * 32, "wrong"], 2, "'wrong' is not one of"),
        (["0" * 32], 2, "Missing argument"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, arguments: Sequence[str], code: int, message: str) -> None:
    """In one message, with what to do."""
    judged(tmp_path, WRONG)
    told = run("label", *arguments, "--state", tmp_path)
    assert told.exit_code == code
    assert message in told.stderr
    assert len(told.stderr.splitlines()) > 1


def test_arguments_that_are_no_text_are_escaped(tmp_path: Path) -> None:
    """Bytes of no encoding, and characters that act on terminals, are kept as they can be shown."""
    judged(tmp_path, WRONG)
    said = run(
        "label", WRONG.step_id, "on_path", "--by", "\udcff", "--note", "a\nb\x1b[2J", "--state", tmp_path, "--json"
    )
    label = json.loads(said.stdout)["label"]
    assert (label["by"], label["note"]) == ("\\udcff", "a\\nb\\x1b[2J")
    refused = run("label", "\udcff" * 8, "on_path", "--state", tmp_path)
    assert refused.exit_code == 1
    assert "is no id" in refused.stderr


def test_a_state_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """A typing error in --state must not leave a label where nobody looks."""
    told = run("label", "0" * 32, "on_path", "--state", tmp_path / "nowhere")
    assert told.exit_code == 78
    assert "does not exist" in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_with_a_daemon_it_goes_through_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon keeps the label and its next scrape shows it; refusals are told as without one."""
    for name in ("http_proxy", "all_proxy"):  # which must not see the token
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    path, state = tmp_path / "a.jsonl", tmp_path / "state"
    path.write_bytes(jsonl(*wrong_once(counter("t", 6), 6, "9 notes.txt\n")))
    with Live(state, path, "--port", "0") as daemon:
        daemon.wait(lambda: len(daemon.steps) == 6)
        (wrong,) = [v["step_id"] for v in read_verdicts(daemon.out) if v["verdict"] == "off_path"]
        assert (state / "endpoint").read_text() == daemon.url + "\n"
        assert (state / "endpoint").stat().st_mode & 0o777 == 0o600
        told = verifierd("label", wrong, "on_path", "--state", state)
        assert (told.returncode, told.stderr) == (0, "")
        assert told.stdout.endswith("is labelled on path; before: nobody had labelled it.\n")
        monkeypatch.undo()
        assert "verifierd_false_positives 1.0" in daemon.get("/metrics")[1]
        refused = run("label", "01234567", "on_path", "--state", state)
        assert refused.exit_code == 1
        assert "begins with `01234567`" in refused.stderr
        (state / "token").rename(state / "aside")
        shutil.copy(state / "salt", state / "token")
        forbidden = run("label", wrong, "unsure", "--state", state)
        assert forbidden.exit_code == 75
        assert "token needed" in forbidden.stderr
        (state / "aside").replace(state / "token")
        address = (state / "endpoint").read_text()
        assert daemon.stop() == 0
    assert not (state / "endpoint").exists()
    # Of a daemon that was killed an address is left, which is not asked while the state is free.
    (state / "endpoint").write_text(address)
    assert run("label", wrong, "undo", "--state", state).exit_code == 0


def test_a_state_that_is_used_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """As by another such command: what a script says of many steps at once is all kept."""
    judged(tmp_path, WRONG)

    async def beside() -> None:
        async with anyio.create_task_group() as group, Store(tmp_path):
            group.start_soon(anyio.to_thread.run_sync, given)
            await anyio.sleep(0.1)

    def given() -> None:
        told.append(run("label", WRONG.step_id, "on_path", "--state", tmp_path))

    told: list[Result] = []
    anyio.run(beside)
    assert [one.exit_code for one in told] == [0]


def test_a_daemon_that_does_not_answer_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon without an endpoint, or whose address is of nobody, is a temporary error with a remedy."""
    monkeypatch.setattr("verifierd.cli.label._TRIES", 1)

    async def beside() -> None:
        async with Store(tmp_path):  # as a daemon holds it
            told = await anyio.to_thread.run_sync(run, "label", "0" * 32, "on_path", "--state", tmp_path)
            assert told.exit_code == 75
            assert "another verifierd uses it" in told.stderr
            (tmp_path / "token").write_text("0" * 64)
            for address in ("http://127.0.0.1:9", "nonsense", "\xff"):
                (tmp_path / "endpoint").write_text(address)
                told = await anyio.to_thread.run_sync(run, "label", "0" * 32, "on_path", "--state", tmp_path)
                assert told.exit_code == 75
                assert "does not answer" in told.stderr
                assert "stop it" in told.stderr

    anyio.run(beside)
