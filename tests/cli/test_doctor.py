"""`verifierd doctor`: what works here."""

from pathlib import Path

from tests.helpers import echo, jsonl, verifierd


def test_it_says_what_works_and_how_to_mend_the_rest(tmp_path: Path) -> None:
    """Each finding has a level; the shell really predicts; logs are counted where the agent keeps them."""
    folder = tmp_path / "claude" / "projects"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_bytes(jsonl(*echo("t", 1)))
    (folder / "loop").symlink_to("loop")
    home = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "CODEX_HOME": str(tmp_path / "none")}
    done = verifierd("doctor", env={**home, "XDG_STATE_HOME": str(tmp_path / "state")})
    assert done.returncode == 0
    levels = [line.split()[0] for line in done.stdout.splitlines() if not line.startswith("       ")]
    assert set(levels) <= {"ok", "note", "bad"}
    assert "bad" not in levels
    assert "the virtual shell predicts" in done.stdout
    assert f"{folder}: 1 log\n" in done.stdout
    assert f" note  {tmp_path}/none/sessions: no such folder" in done.stdout
    assert not (tmp_path / "state").exists(), "it only looks"


def test_a_state_that_cannot_be_written_is_bad(tmp_path: Path) -> None:
    """Where the main job cannot work the exit code is 1, with a remedy."""
    (tmp_path / "file").touch()
    done = verifierd("doctor", env={"STATE_DIRECTORY": str(tmp_path / "file" / "state")})
    assert done.returncode == 1
    assert "--state DIR" in done.stdout
