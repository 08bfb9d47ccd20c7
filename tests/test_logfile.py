"""A log file that stays small, and is its owner's alone."""

import os
import stat
from pathlib import Path

import pytest

from verifierd.errors import ConfigError
from verifierd.logfile import open_log


def test_it_is_closed_in_time_and_one_before_is_kept(tmp_path: Path) -> None:
    """Lines are never torn between files, and the last ones are always there."""
    path = tmp_path / "logs" / "v.log"
    with open_log(path, max_bytes=100) as log:
        for number in range(50):
            log.write(f"line {number}\n")

    old, new = (name.read_text().splitlines() for name in (path.with_name("v.log.1"), path))

    assert old + new == [f"line {number}" for number in range(50 - len(old + new), 50)]
    assert all(name.stat().st_size <= 100 for name in (path.with_name("v.log.1"), path))
    assert {name.name for name in path.parent.iterdir()} == {"v.log", "v.log.1"}


def test_it_goes_on_where_it_was_and_after_it_was_moved(tmp_path: Path) -> None:
    """A second start appends; who moves the file away, as logrotate does, finds the next line in a new one."""
    path = tmp_path / "v.log"
    for text in ("first\n", "second\n"):
        with open_log(path) as log:
            log.write(text)
    with open_log(path) as log:
        path.rename(tmp_path / "moved")
        log.write("third \ud800\n")

    assert (tmp_path / "moved").read_text() == "first\nsecond\n"
    assert path.read_text() == "third \\ud800\n"


def test_it_is_its_owners_alone(tmp_path: Path) -> None:
    """Whatever the mask, and whatever it was before."""
    path = tmp_path / "v.log"
    path.touch(0o644)
    before = os.umask(0)
    try:
        open_log(path).close()
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    """Nobody can have the log written elsewhere by a link."""
    path = tmp_path / "v.log"
    match kind:
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(tmp_path / "target")
        case _:
            os.mkfifo(path)

    with pytest.raises(ConfigError, match="cannot be written"):
        open_log(path)

    assert not (tmp_path / "target").exists()
