"""`verifierd doctor`: what works here."""

from importlib.util import find_spec
from pathlib import Path

import pytest

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


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mlx_lm") is None, reason="mlx-lm is not here")
def test_a_model_is_looked_at(tmp_path: Path) -> None:
    """Where it lies, what memory it takes, its template's switch, its caches, and how it begins in each wrapper."""
    done = verifierd("doctor", "--model", "tiny", "--load", env={"HOME": str(tmp_path)}, timeout=180)
    assert done.returncode == 0
    assert done.stderr == ""
    for words in (
        "mlx-lm ",
        " computes on ",
        "a tiny random model predicts",
        "(random weights) is here: ",
        "GB at 65,536 tokens of context",
        "attention scores ",
        "ends in an empty think block",
        "4 ArraysCache, 4 KVCache; cannot be trimmed",
    ):
        assert words in done.stdout
    beginnings = [line.split()[0] for line in done.stdout.splitlines() if line.endswith(("'", '"'))]
    assert beginnings == ["none", "marker", "tags"]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mlx_lm") is None, reason="mlx-lm is not here")
@pytest.mark.parametrize(("named", "code"), [([], 0), (["--model", "nobody/nothing"], 1)])
def test_a_model_that_is_not_here(tmp_path: Path, named: list[str], code: int) -> None:
    """It is not downloaded; the command that does is named. Only who asked for a model misses it."""
    done = verifierd("doctor", *named, env={"HOME": str(tmp_path), "HF_HOME": str(tmp_path)}, timeout=180)
    name = named[-1] if named else "jedisct1/Qwen-AgentWorld-35B-A3B-oQ4-MLX"
    assert done.returncode == code
    assert f"{name}: is not on this machine\n       Fetch it: hf download {name}" in done.stdout
    assert ("about 27 GB" in done.stdout) is not bool(named)
