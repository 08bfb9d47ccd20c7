"""Log files are found wherever they are, once, and looked at no more often than they deserve."""

import os
from pathlib import Path

import anyio
import pytest

from verifierd.errors import SourceError
from verifierd.sources.directory import Watcher, expand, nothing_found


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")


def under(root: Path, paths: list[Path] | tuple[Path, ...]) -> list[str]:
    return [str(path.relative_to(root)) for path in paths]


def test_a_folder_is_searched_to_any_depth(tmp_path: Path) -> None:
    """Logs are found by their suffix, sorted; hidden entries and other files are passed over."""
    make(tmp_path, "b.jsonl", "a/x.ndjson", "a/b/c/y.jsonl.gz", "a/z.json", "notes.txt", ".git/h.jsonl", "a/.b.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert under(tmp_path, expand([str(tmp_path)])) == ["a/b/c/y.jsonl.gz", "a/x.ndjson", "b.jsonl"]


def test_a_hidden_root_that_is_named_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is expanded, and a hidden folder is searched when it is what was asked for."""
    monkeypatch.setenv("HOME", str(tmp_path))
    make(tmp_path, ".claude/projects/-home-me/1.jsonl")
    assert under(tmp_path, expand(["~/.claude/projects"])) == [".claude/projects/-home-me/1.jsonl"]


def test_globs(tmp_path: Path) -> None:
    """A glob takes what it names, `*` logs only; folders that match are searched; `**` is any depth."""
    make(tmp_path, "a/1.jsonl", "a/2.log", "b/c/3.jsonl", "b/c/read.me", "4.jsonl")
    for pattern, names in (
        ("a/*.log", ["a/2.log"]),
        ("a/*", ["a/1.jsonl"]),
        ("*", ["4.jsonl", "a/1.jsonl", "b/c/3.jsonl"]),
        ("**", ["4.jsonl", "a/1.jsonl", "b/c/3.jsonl"]),
        ("b/**", ["b/c/3.jsonl"]),
        ("**/3.*", ["b/c/3.jsonl"]),
        ("?/**/*.jsonl", ["a/1.jsonl", "b/c/3.jsonl"]),
        ("none*", []),
    ):
        assert under(tmp_path, expand([str(tmp_path / pattern)])) == names, pattern


def test_a_file_reached_twice_is_given_once(tmp_path: Path) -> None:
    """Links of both kinds and overlapping paths give one path each, the first; the order of the paths is kept."""
    make(tmp_path, "a/1.jsonl", "b/2.jsonl")
    os.link(tmp_path / "a/1.jsonl", tmp_path / "b/hard.jsonl")
    (tmp_path / "b/soft.jsonl").symlink_to(tmp_path / "a/1.jsonl")
    (tmp_path / "b/folder").symlink_to(tmp_path / "a")
    given = expand([str(tmp_path / "b/2.jsonl"), str(tmp_path / "a"), str(tmp_path), str(tmp_path / "**/*.jsonl")])
    assert under(tmp_path, given) == ["b/2.jsonl", "a/1.jsonl"]


def test_equal_files_are_two(tmp_path: Path) -> None:
    """A forked session begins with the bytes of another: both are given."""
    make(tmp_path, "a.jsonl", "b.jsonl")
    assert under(tmp_path, expand([str(tmp_path)])) == ["a.jsonl", "b.jsonl"]


def test_loops_of_links_end(tmp_path: Path) -> None:
    """A folder linked into itself is searched once; a link to itself is passed over in a folder, refused if named."""
    make(tmp_path, "a/1.jsonl")
    (tmp_path / "a/up").symlink_to(tmp_path)
    (tmp_path / "a/self.jsonl").symlink_to(tmp_path / "a/self.jsonl")
    (tmp_path / "a/broken.jsonl").symlink_to(tmp_path / "nowhere")
    assert under(tmp_path, expand([str(tmp_path)])) == ["a/1.jsonl"]
    with pytest.raises(SourceError, match="leads back to itself"):
        expand([str(tmp_path / "a/self.jsonl")])


def test_files_that_hold_no_session_are_left_out(tmp_path: Path) -> None:
    """Known bookkeeping is passed over in a folder, but given when it is named."""
    journal = "s/subagents/workflows/wf_1/journal.jsonl"
    make(tmp_path, journal, "s/subagents/workflows/wf_1/agent-1.jsonl", "journal.jsonl", ".claude/history.jsonl")
    assert under(tmp_path, expand([str(tmp_path)])) == ["journal.jsonl", "s/subagents/workflows/wf_1/agent-1.jsonl"]
    assert expand([str(tmp_path / ".claude")]) == []
    assert under(tmp_path, expand([str(tmp_path / journal)])) == [journal]


def test_exclude_wins(tmp_path: Path) -> None:
    """Names, whole paths and folders can be excluded, also where they are named."""
    make(tmp_path, "a/1.jsonl", "a/2.jsonl", "b/3.jsonl", "c/4.jsonl")
    given = expand([str(tmp_path), str(tmp_path / "b/3.jsonl")], ["2.*", str(tmp_path / "b"), "3.jsonl", "*/c/*"])
    assert under(tmp_path, given) == ["a/1.jsonl"]


def test_a_missing_path_is_an_error_and_an_empty_folder_is_nothing(tmp_path: Path) -> None:
    """A missing path is named with a remedy; for nothing at all there is an error to raise."""
    with pytest.raises(SourceError, match=r"none: does not exist") as caught:
        expand([str(tmp_path / "none")])
    assert caught.value.hint
    assert expand([str(tmp_path)]) == []
    error = nothing_found([str(tmp_path)])
    assert error.message == f"no agent logs in {tmp_path}"
    assert ".jsonl" in error.hint


def test_standard_input_stays(tmp_path: Path) -> None:
    """A dash is no path to look for."""
    make(tmp_path, "a.jsonl")
    assert expand(["-", str(tmp_path)]) == [Path("-"), tmp_path / "a.jsonl"]


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_new_and_changed_files_are_given_until_done(tmp_path: Path) -> None:
    """A file is given when it is found and when it has changed since, not while its reader has it."""
    make(tmp_path, "a.jsonl", "b.jsonl")
    clock = Clock()
    watcher = Watcher([str(tmp_path)], clock=clock)
    assert under(tmp_path, watcher.look().ready) == ["a.jsonl", "b.jsonl"]
    make(tmp_path, "sub/c.jsonl")
    (tmp_path / "a.jsonl").write_text("{}\n{}\n")
    clock.now += 10
    assert under(tmp_path, watcher.look().ready) == ["sub/c.jsonl"]
    for name in ("a.jsonl", "b.jsonl", "sub/c.jsonl"):
        watcher.done(tmp_path / name)
    assert watcher.look().ready == ()
    clock.now += 1
    assert under(tmp_path, watcher.look().ready) == ["a.jsonl"]
    watcher.touch(tmp_path / "a.jsonl")
    watcher.touch(tmp_path / "a.jsonl")
    assert under(tmp_path, watcher.look().ready) == ["a.jsonl"]
    assert watcher.look().ready == ()


@pytest.mark.parametrize(("age", "longest"), [(10, 2.0), (7200, 5.0)])
def test_idle_files_are_looked_at_ever_more_seldom(tmp_path: Path, age: float, longest: float) -> None:
    """A change is seen at once after activity, and within the longest interval after a long rest."""
    make(tmp_path, "a.jsonl")
    path = tmp_path / "a.jsonl"
    born = path.stat().st_mtime
    clock = Clock()
    watcher = Watcher([str(tmp_path)], clock=clock, wall=lambda: born + age)
    assert watcher.look().ready
    delays = []
    for rest in (0.0, 60.0, 61.0, 62.25, 63.75):
        watcher.done(path)
        watcher.look()
        for _ in range(int(rest / 0.25)):
            clock.now += 0.25
            assert not watcher.look().ready
        os.utime(path, (born, born + rest + 1))
        start = clock.now
        while not watcher.look().ready:
            clock.now += 0.25
        delays.append(clock.now - start)
    assert delays[0] == 0.25
    assert longest / 2 < max(delays) <= longest


def test_a_vanished_file_is_dropped_and_new_when_it_returns(tmp_path: Path) -> None:
    """It is said once that a file has gone, whether a look or its reader found out; its return is a new file."""
    make(tmp_path, "a.jsonl")
    path = tmp_path / "a.jsonl"
    clock = Clock()
    watcher = Watcher([str(tmp_path)], clock=clock)
    for reader_noticed in (False, True):
        assert watcher.look().ready == (path,)
        path.unlink()
        if reader_noticed:
            error = SourceError("gone")
            error.__cause__ = FileNotFoundError()
            watcher.failed(path, error)
        else:
            watcher.done(path)
        watcher.look()
        clock.now += 5
        watcher.look()
        make(tmp_path, "a.jsonl")
        clock.now += 5
    assert watcher.look().ready == (path,)


def test_vanishing_is_said(tmp_path: Path) -> None:
    """The sighting names the file that has gone, once."""
    make(tmp_path, "a.jsonl")
    clock = Clock()
    watcher = Watcher([str(tmp_path)], clock=clock)
    watcher.look()
    watcher.done(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").unlink()
    watcher.look()
    clock.now += 1
    assert watcher.look().vanished == (tmp_path / "a.jsonl",)
    clock.now += 10
    assert watcher.look().vanished == ()


def test_a_root_that_is_missing_at_first_is_picked_up(tmp_path: Path) -> None:
    """A missing root is reported once, and its recovery once; what appears in it is given."""
    root = tmp_path / "later"
    clock = Clock()
    watcher = Watcher([str(root)], clock=clock)
    ((path, error),) = watcher.look().troubles
    assert path == root
    assert error is not None
    assert "does not exist" in error.message
    clock.now += 2
    assert watcher.look().troubles == ()
    make(root, "a.jsonl")
    clock.now += 2
    sighting = watcher.look()
    assert sighting.ready == (root / "a.jsonl",)
    assert sighting.troubles == ((root, None),)


def test_a_file_that_fails_is_tried_again_and_reported_once(tmp_path: Path) -> None:
    """The reader's error is told once however often it recurs, the file is given again, and recovery is told."""
    make(tmp_path, "a.jsonl")
    path = tmp_path / "a.jsonl"
    clock = Clock()
    watcher = Watcher([str(tmp_path)], clock=clock)
    watcher.look()
    error = SourceError("a.jsonl: may not be read")
    troubles: list[tuple[Path, SourceError | None]] = []
    tries = 0
    watcher.failed(path, error)
    for _ in range(240):
        sighting = watcher.look()
        troubles += sighting.troubles
        if sighting.ready:
            tries += 1
            watcher.failed(path, error)
        clock.now += 0.25
    assert troubles == [(path, error)]
    assert 60 / 5 <= tries <= 60 / 2 + 3
    watcher.done(path)
    assert watcher.look().troubles == ((path, None),)


def test_a_link_that_is_switched_is_a_change(tmp_path: Path) -> None:
    """A symbolic link is what it leads to: another target wants reading."""
    make(tmp_path, "old/1.jsonl", "old/2.jsonl")
    link = tmp_path / "logs/now.jsonl"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "old/1.jsonl")
    clock = Clock()
    watcher = Watcher([str(link.parent)], clock=clock)
    watcher.look()
    watcher.done(link)
    watcher.look()
    link.unlink()
    link.symlink_to(tmp_path / "old/2.jsonl")
    clock.now += 1
    assert watcher.look().ready == (link,)


def test_a_second_path_takes_over(tmp_path: Path) -> None:
    """Of two hard links one is watched; when it goes, the other is found."""
    make(tmp_path, "a.jsonl")
    os.link(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    clock = Clock()
    watcher = Watcher([str(tmp_path / "a.jsonl"), str(tmp_path)], clock=clock)
    assert under(tmp_path, watcher.look().ready) == ["a.jsonl"]
    watcher.done(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").unlink()
    watcher.look()
    clock.now += 1
    watcher.look()
    clock.now += 2
    assert under(tmp_path, watcher.look().ready) == ["b.jsonl"]


def test_a_new_file_in_a_settled_folder_is_found(tmp_path: Path) -> None:
    """A folder that has long been quiet is not listed again until a name appears in it."""
    make(tmp_path, "a/1.jsonl")
    for folder in (tmp_path, tmp_path / "a"):
        os.utime(folder, (1_000_000, 1_000_000))
    clock = Clock()
    watcher = Watcher([str(tmp_path)], clock=clock)
    assert under(tmp_path, watcher.look().ready) == ["a/1.jsonl"]
    clock.now += 2
    assert watcher.look().ready == ()
    make(tmp_path, "a/2.jsonl", "a/b/3.jsonl")
    clock.now += 2
    assert under(tmp_path, watcher.look().ready) == ["a/2.jsonl", "a/b/3.jsonl"]


@pytest.mark.anyio
async def test_waiting_ends_with_the_first_file(tmp_path: Path) -> None:
    """`wait` gives what is there, then sleeps until a file is touched; callbacks are told in the loop."""
    make(tmp_path, "a.jsonl")
    troubles: list[Path] = []
    gone: list[Path] = []
    watcher = Watcher(
        [str(tmp_path), str(tmp_path / "none")],
        on_trouble=lambda path, _error: troubles.append(path),
        on_vanished=gone.append,
        scan_seconds=0.05,
    )
    path = tmp_path / "a.jsonl"
    assert await watcher.wait() == [path]
    assert troubles == [tmp_path / "none"]
    async with anyio.create_task_group() as group:

        async def act() -> None:
            await anyio.sleep(0.05)
            watcher.touch(path)

        group.start_soon(act)
        assert await watcher.wait() == [path]
    path.unlink()
    watcher.done(path)
    make(tmp_path, "b.jsonl")
    assert await watcher.wait() == [tmp_path / "b.jsonl"]
    watcher.done(tmp_path / "b.jsonl")
    with anyio.move_on_after(1):
        await watcher.wait()
    assert gone == [path]
