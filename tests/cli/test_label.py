"""`verifierd label`: with a daemon and without one, and what is refused."""

import getpass
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import Live, counter, jsonl, read_verdicts, verifierd, wrong_once


def judged(folder: Path) -> Path:
    """The state of a daemon that judged 8 steps, of which the sixth is off path."""
    (folder / "a.jsonl").write_bytes(jsonl(*wrong_once(counter("t", 8), 6, "9 notes.txt\n")))
    assert verifierd("run", "--once", folder / "a.jsonl", "--state", folder / "state").returncode == 0
    return folder / "state"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state that tests do not label, or take back what they say."""
    return judged(tmp_path_factory.mktemp("label"))


def off_path(state: Path) -> dict[str, Any]:
    """The verdict on the wrong step."""
    return next(verdict for verdict in read_verdicts(state / "verdicts.jsonl") if verdict["verdict"] == "off_path")


def test_a_label_is_given_changed_and_undone(tmp_path: Path) -> None:
    """Without a daemon it is kept all the same; each time it says what it did and what held before."""
    state = judged(tmp_path)
    verdict = off_path(state)
    told = verifierd("label", verdict["verdict_id"][:8].upper(), "on_path", "--by", "ada", "--state", state)
    where = f"Step 6 of t (verdict {verdict['verdict_id'][:12]}: off path)"
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == f"{where} is labelled on path; before: nobody had labelled it.\n"
    told = verifierd("label", verdict["step_id"], "unsure", "--note", "hm\x1b", "--state", state, "--json")
    document = json.loads(told.stdout)
    assert (document["action"], document["step_id"], document["pending"]) == ("changed", verdict["step_id"], False)
    assert (document["label"]["by"], document["label"]["note"]) == (getpass.getuser(), "hm\\x1b")
    assert document["before"]["by"] == "ada"
    told = verifierd("label", verdict["step_id"], "undo", "--state", state)
    assert told.stdout == f"{where} is labelled on path; before: unsure, as {getpass.getuser()} said.\n"
    explained = verifierd("explain", verdict["step_id"], "--state", state).stdout
    assert "truth   on_path, says ada" in explained
    assert f"not any more: unsure, says {getpass.getuser()}" in explained
    told = verifierd("label", verdict["step_id"], "undo", "--state", state)
    assert told.stdout == f"{where} has no label any more; before: on path, as ada said.\n"


def test_an_id_that_nobody_knows_waits(tmp_path: Path) -> None:
    """A whole id is kept until its verdict comes, which then has the label."""
    source = tmp_path / "source"
    source.mkdir()
    known = judged(source)
    verdict = off_path(known)
    state = tmp_path / "state"
    (tmp_path / "other.jsonl").write_bytes(jsonl(*counter("u", 2)))
    assert verifierd("run", "--once", tmp_path / "other.jsonl", "--state", state).returncode == 0
    told = verifierd("label", verdict["verdict_id"], "on_path", "--state", state)
    assert told.stdout == (
        f"{verdict['verdict_id']}, which no verdict has yet, is labelled on path once one has; before: nobody had"
        " labelled it.\n"
    )
    assert verifierd("run", "--once", source / "a.jsonl", "--state", state).returncode == 0
    assert "on_path, says" in verifierd("explain", verdict["step_id"], "--state", state).stdout


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
def test_what_makes_no_sense_is_refused(state: Path, arguments: Sequence[str], code: int, message: str) -> None:
    """In one message, with what to do."""
    told = verifierd("label", *arguments, "--state", state)
    assert told.returncode == code
    assert message in told.stderr
    assert len(told.stderr.splitlines()) > 1


def test_a_state_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """A typing error in --state must not leave a label where nobody looks."""
    told = verifierd("label", "0" * 32, "on_path", "--state", tmp_path / "nowhere")
    assert told.returncode == 78
    assert "does not exist" in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_with_a_daemon_it_goes_through_the_daemon(tmp_path: Path) -> None:
    """The daemon keeps the label and its next scrape shows it; refusals are told as without one."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*wrong_once(counter("t", 8), 6, "9 notes.txt\n")))
    state = tmp_path / "state"
    with Live(state, path, "--port", "0") as daemon:
        daemon.wait(lambda: len(daemon.steps) == 8)
        verdict = off_path(state)
        assert (state / "endpoint").read_text() == daemon.url + "\n"
        assert (state / "endpoint").stat().st_mode & 0o777 == 0o600
        # A proxy of the environment must not see the token.
        proxy = {"http_proxy": "http://127.0.0.1:9", "all_proxy": "http://127.0.0.1:9"}
        told = verifierd("label", verdict["step_id"], "on_path", "--state", state, env=proxy)
        assert (told.returncode, told.stderr) == (0, "")
        assert told.stdout.endswith("is labelled on path; before: nobody had labelled it.\n")
        assert "verifierd_false_positives 1.0" in daemon.get("/metrics")[1]
        refused = verifierd("label", "01234567", "on_path", "--state", state)
        assert refused.returncode == 1
        assert "begins with `01234567`" in refused.stderr
        (state / "token").rename(state / "aside")
        shutil.copy(state / "salt", state / "token")
        wrong = verifierd("label", verdict["step_id"], "unsure", "--state", state)
        assert wrong.returncode == 75
        assert "token needed" in wrong.stderr
        (state / "aside").replace(state / "token")
        address = (state / "endpoint").read_text()
        assert daemon.stop() == 0
    assert not (state / "endpoint").exists()
    # Of a daemon that was killed an address is left, which is not asked while the state is free.
    (state / "endpoint").write_text(address)
    assert verifierd("label", verdict["step_id"], "undo", "--state", state).returncode == 0


def test_a_daemon_that_does_not_answer_is_said(tmp_path: Path) -> None:
    """A daemon without an endpoint, or whose address is of nobody, is a temporary error with a remedy."""
    path, config = tmp_path / "a.jsonl", tmp_path / "verifierd.toml"
    path.write_bytes(jsonl(*counter("t", 2)))
    config.write_text("[http]\nenabled = false\n")
    state = tmp_path / "state"
    with Live(state, path, "--config", config) as daemon:
        daemon.wait(lambda: len(daemon.steps) == 2)
        told = verifierd("label", "0" * 32, "on_path", "--state", state)
        assert told.returncode == 75
        assert f"another verifierd uses it (process {daemon.process.pid})" in told.stderr
        for address in ("http://127.0.0.1:9", "nonsense", "\xff"):
            (state / "endpoint").write_text(address)
            told = verifierd("label", "0" * 32, "on_path", "--state", state)
            assert told.returncode == 75
            assert "does not answer" in told.stderr
            assert "stop it" in told.stderr
        assert daemon.stop() == 0
