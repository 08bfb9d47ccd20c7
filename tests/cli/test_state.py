"""`verifierd state`: what is kept, saved, moved aside and deleted."""

import json
import os
import shutil
import signal
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.helpers import Live, agrees, counter, jsonl, read_verdicts, verifierd
from verifierd.cli import state as command
from verifierd.errors import StateError, VerifierdError
from verifierd.salvage import examine
from verifierd.store import DATABASE


def judged(folder: Path, count: int = 10) -> Path:
    """A state folder in which a log was judged."""
    (folder / "a.jsonl").write_bytes(jsonl(*counter("t", count)))
    done = verifierd("run", "--once", folder / "a.jsonl", "--state", folder / "state", "--port", "0")
    assert done.returncode == 0
    return folder / "state"


@pytest.fixture(scope="module", name="template")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return judged(tmp_path_factory.mktemp("template"))


@pytest.fixture(name="where")
def _where(template: Path, tmp_path: Path) -> Path:
    """A state folder of one's own, whose log is not there any more."""
    return shutil.copytree(template, tmp_path / "state")


def state(*arguments: str | Path) -> Result:
    """Run the command; an error that a person would be told is in `exception`."""
    done = CliRunner().invoke(command.command, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit | VerifierdError):
        raise done.exception
    return done


def refused(done: Result) -> VerifierdError:
    """The error that ended it."""
    assert isinstance(done.exception, VerifierdError)
    return done.exception


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def break_(path: Path) -> None:
    """Damage the database beyond its first pages."""
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 2, len(data)):
        data[at] ^= 0xA5
    path.write_bytes(data)


def test_a_sound_state_is_described(where: Path) -> None:
    """What is in it, how large it is, and that nothing is wrong; in words or as JSON."""
    words, document = state("check", "--state", where), state("check", "--state", where, "--json")

    assert (words.exit_code, document.exit_code) == (0, 0)
    assert "not in use" in words.stdout
    assert "sound" in words.stdout
    assert "        10  verdicts\n" in words.stdout
    found = json.loads(document.stdout)
    assert found["problems"] == []
    assert found["in_use_by"] is None
    assert (found["database"]["rows"]["steps"], found["database"]["problems"]) == (10, [])
    assert {DATABASE, "verdicts.jsonl", "lock", "salt"} <= found["files"].keys()
    assert found["files"]["verdicts.jsonl"] == (where / "verdicts.jsonl").stat().st_size


def test_what_is_wrong_has_a_remedy_that_works(tmp_path: Path) -> None:
    """Damage and open modes are found, then mended; then the next run goes on as if nothing had been."""
    where = judged(tmp_path, 60)
    before = (where / "verdicts.jsonl").read_bytes()
    break_(where / DATABASE)
    (where / "verdicts.jsonl").chmod(0o644)
    where.chmod(0o777)

    check = state("check", "--state", where)
    repair = state("repair", "--state", where)
    after = state("check", "--state", where)

    assert check.exit_code == 1
    assert f"wrong: {DATABASE}: " in check.stdout
    assert f"wrong: {where}/verdicts.jsonl: others may reach it (mode 0644)" in check.stdout
    assert "verifierd state repair" in check.stdout
    assert repair.exit_code == 0
    assert f"saved, the damaged one is {where}/{DATABASE}.damaged-1" in repair.stdout
    assert after.exit_code == 0
    assert stat.S_IMODE(where.stat().st_mode) == 0o700

    again = verifierd("run", "--once", tmp_path / "a.jsonl", "--state", where)
    assert again.returncode == 0
    assert (where / "verdicts.jsonl").read_bytes() == before
    assert sorted(v["step"] for v in read_verdicts(where / "verdicts.jsonl")) == list(range(1, 61))


def test_what_neither_database_nor_file_has_is_judged_anew(tmp_path: Path) -> None:
    """With the verdict file gone, too, the log still tells: each step has its one verdict again, and the right one."""
    where = judged(tmp_path, 60)
    break_(where / DATABASE)
    (where / "verdicts.jsonl").unlink()
    done = state("repair", "--state", where)
    lost = 60 - examine(where / DATABASE).rows["verdicts"]
    verifierd("run", "--once", tmp_path / "a.jsonl", "--state", where)
    verdicts = read_verdicts(where / "verdicts.jsonl")

    assert lost > 0
    assert "the next run reads the logs again" in done.stdout
    assert sorted(v["step"] for v in verdicts) == list(range(1, 61))
    assert agrees((v["step"], v["verdict"]) for v in verdicts)


def test_what_is_sound_is_left_alone(where: Path) -> None:
    """A repair without need changes nothing."""
    before = (where / DATABASE).read_bytes()
    done = state("repair", "--state", where)

    assert done.stdout == f"{DATABASE}: is sound\n"
    assert (where / DATABASE).read_bytes() == before
    assert json.loads(state("repair", "--state", where, "--json").stdout) == {"closed": [], "salvaged": None}


def test_a_reset_moves_aside_and_keeps_the_token(tmp_path: Path) -> None:
    """The next run judges all anew; what was there is whole, in a folder of its own, and a second one has another."""
    where = judged(tmp_path)
    (where / "token").write_text("t" * 64)
    before = (where / "verdicts.jsonl").read_bytes()
    assert state("reset", "--state", where, "--yes").exit_code == 0

    assert names(where) == ["before-1", "lock", "salt", "token"]
    assert (where / "before-1" / "verdicts.jsonl").read_bytes() == before
    assert examine(where / "before-1" / DATABASE).rows["verdicts"] == 10
    verifierd("run", "--once", tmp_path / "a.jsonl", "--state", where)
    assert len(read_verdicts(where / "verdicts.jsonl")) == 10
    state("reset", "--state", where, "--yes")
    assert names(where) == ["before-1", "before-2", "lock", "salt", "token"]
    assert state("reset", "--state", where, "--yes").stdout == "nothing to move\n"


def test_a_reset_keeps_a_verdict_file_that_a_link_leads_to(tmp_path: Path) -> None:
    """Both have the same name, and neither takes the other's place."""
    where, elsewhere = judged(tmp_path), tmp_path / "elsewhere" / "verdicts.jsonl"
    elsewhere.parent.mkdir()
    before = (where / "verdicts.jsonl").read_bytes()
    (where / "verdicts.jsonl").rename(elsewhere)
    (where / "verdicts.jsonl").symlink_to(elsewhere)
    assert state("reset", "--state", where, "--yes").exit_code == 0

    moved = [path for path in (where / "before-1").iterdir() if path.name.startswith("verdicts.jsonl")]
    assert len(moved) == 2
    assert [path.read_bytes() for path in moved if not path.is_symlink()] == [before]


def test_a_purge_leaves_nothing(template: Path, where: Path, tmp_path: Path) -> None:
    """Also what was rotated, set aside or repaired, and verdicts kept elsewhere; nothing else in these folders."""
    out = tmp_path / "logs" / "verdicts"
    out.parent.mkdir()
    ours = ["verdicts", "verdicts.1", "verdicts.2.gz", "verdicts.old-1"]
    for name in (*ours, "verdicts.py", "verdicts.notes.txt"):
        (out.parent / name).write_text("text")
    secrets = ("token", "webhook-secret", "ended-sessions", "endpoint", ".token.12ab", ".ended-sessions.12ab")
    for name in ("verdicts.jsonl.1", f"{DATABASE}.damaged-1", *secrets):
        (where / name).touch(0o600)
    (where / "before-1").mkdir()
    (where / "before-1" / DATABASE).touch()

    done = state("purge", "--state", where, "--yes")
    assert done.exit_code == 0
    assert not where.exists()
    assert len(names(out.parent)) == 6

    shutil.copytree(template, where)
    (where / "mine").touch()
    done = state("purge", "--state", where, "--out", out, "--yes")
    assert names(out.parent) == ["verdicts.notes.txt", "verdicts.py"]
    assert names(where) == ["mine"]
    assert "left, as they are not verifierd's: mine" in done.stdout


def test_a_purge_follows_a_link_to_the_verdicts(where: Path, tmp_path: Path) -> None:
    """Transcripts on the larger disk go, too."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (where / "verdicts.jsonl").rename(disk / "v")
    (where / "verdicts.jsonl").symlink_to(disk / "v")

    assert state("check", "--state", where).exit_code == 0
    state("purge", "--state", where, "--yes")

    assert (where.exists(), names(disk)) == (False, [])


@pytest.mark.parametrize("action", ["reset", "purge"])
def test_nothing_goes_unasked(where: Path, action: str) -> None:
    """Where nobody can be asked `--yes` is needed."""
    before = names(where)
    done = state(action, "--state", where)

    assert done.exit_code == 2
    assert "--yes" in done.stderr
    assert names(where) == before


@pytest.mark.parametrize("action", ["check", "repair", "reset", "purge"])
def test_a_folder_of_something_else_is_refused(tmp_path: Path, action: str) -> None:
    """Nobody's home is purged by a slip."""
    (tmp_path / "precious").touch()
    yes = ["--yes"] if action in ("reset", "purge") else []

    assert "is no state folder" in refused(state(action, "--state", tmp_path, *yes)).message
    assert "does not exist" in refused(state(action, "--state", tmp_path / "none", *yes)).message
    assert names(tmp_path) == ["precious"]


def test_a_daemon_at_work_is_not_disturbed(tmp_path: Path) -> None:
    """It can be checked; all else waits until it is stopped."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(*counter("t", 4)))
    where = tmp_path / "state"
    with Live(where, tmp_path / "a.jsonl", "--port", "0") as live:
        live.wait(lambda: len(live.steps) == 4)
        found = json.loads(state("check", "--state", where, "--json").stdout)
        assert (found["in_use_by"], found["problems"]) == (str(live.process.pid), [])
        for action in (["repair"], ["reset", "--yes"], ["purge", "--yes"]):
            error = refused(state(*action, "--state", where))
            assert isinstance(error, StateError)
            assert error.exit_code == 75
            assert f"process {live.process.pid}" in error.message
        live.process.send_signal(signal.SIGKILL)
        live.process.wait()
    found = json.loads(state("check", "--state", where, "--json").stdout)
    assert (found["in_use_by"], found["database"]["rows"]["verdicts"]) == (None, 4)
    assert (where / "endpoint").exists()
    state("repair", "--state", where)
    assert not (where / "endpoint").exists(), "nobody serves there"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may delete everything")
def test_what_cannot_be_deleted_is_said(where: Path) -> None:
    """With the file and the reason."""
    (where / "before-1").mkdir()
    (where / "before-1" / "file").touch()
    (where / "before-1").chmod(0o500)

    assert "Permission denied" in refused(state("purge", "--state", where, "--yes")).message
    (where / "before-1").chmod(0o700)


def test_it_is_a_command_of_verifierd(tmp_path: Path) -> None:
    """The real one, as a user starts it."""
    done = verifierd("state", "check", "--state", tmp_path / "none")

    assert done.returncode == 78
    assert "does not exist" in done.stderr
