"""What is said of the results of file tools, and where nothing is said."""

from typing import Any

import pytest

from verifierd.contracts.calls import Call
from verifierd.contracts.checks import pattern
from verifierd.contracts.facts.files import FACTS
from verifierd.contracts.state.session import Session

PATH = "/repo/src/a.py"


def _session(lines: dict[int, str], path: str = PATH) -> Session:
    session = Session()
    session.files.learn(path, lines.items())
    return session


def _call(tool: str, cwd: str = "/repo", **fields: Any) -> Call:
    return Call(name=tool, tool=True, input=fields, cwd=cwd)


def _grep(**fields: Any) -> Call:
    given = {"pattern": "x", "path": "/repo", "output_mode": "content", "-n": True} | fields
    return Call(name="Grep", tool=True, input=given, cwd="/repo")


@pytest.mark.parametrize(
    ("path", "cwd", "named"),
    [
        ("/repo/a.py", "/repo", "/repo/a.py"),
        ("src/a.py", "/repo", "a.py"),
        ("/repo/../x/a.py", "/repo", "a.py"),
        ("D:\\x\\a.py", "D:\\x", "a.py"),
        ("/d/x/a.py", "D:\\x", "a.py"),
        ("~/a.py", "/repo", "a.py"),
    ],
)
def test_a_path_is_named_in_full_only_in_its_plain_spelling(path: str, cwd: str, named: str) -> None:
    """Other spellings may be changed on the way; the last name stays."""
    (finding,) = FACTS["named-path"](_call("Edit", cwd, file_path=path), Session())

    assert finding.values == {"path": named}


@pytest.mark.parametrize("offset", [None, 0, 1, True, "x", -4])
def test_no_window_is_said_for_a_read_from_the_start(offset: object) -> None:
    """Only a line after the first makes a window."""
    assert list(FACTS["read-window"](_call("Read", file_path=PATH, offset=offset), Session())) == []


def test_numbers_may_come_as_texts() -> None:
    """Models write `"40"` where a number is wanted, and tools take it."""
    (finding,) = FACTS["read-window"](_call("Read", file_path=PATH, offset="40"), Session())

    assert finding.low == 40


def test_known_lines_are_cut_to_the_window() -> None:
    """Only lines that were asked for are said."""
    session = _session({1: "a", 5: "b", 9: "c"})

    (finding,) = FACTS["read-known"](_call("Read", file_path=PATH, offset=4, limit=3), session)

    assert finding.known == {5: "b"}


def test_nothing_is_known_after_a_person_spoke_or_beside_a_writer() -> None:
    """Others may have written."""
    session = _session({1: "a"})
    session.turn = "2"
    assert list(FACTS["read-known"](_call("Read", file_path=PATH), session)) == []

    session = _session({1: "a"})
    session.siblings = None
    assert list(FACTS["read-known"](_call("Read", file_path=PATH), session)) == []


def test_lines_that_tools_cut_are_not_said() -> None:
    """Long lines, and what is no text."""
    session = _session({1: "a"})
    session.files.write("/repo/b.py", "x" * 5_000 + "\n\ufffd\nlast")

    (finding,) = FACTS["read-edited"](_call("Read", file_path="/repo/b.py"), session)

    assert finding.known == {3: "last"}


def test_the_anchor_is_the_first_line_that_says_something() -> None:
    """A pattern that only this line with its number matches, whatever it holds."""
    session = _session({4: "}", 7: "if (a[0] == '\\d+') {"})

    (finding,) = FACTS["read-anchor"](_call("Read", file_path=PATH), session)

    compiled = pattern(finding.text or "")
    assert compiled is not None
    assert compiled.search("     7→if (a[0] == '\\d+') {")
    assert compiled.search("7\tif (a[0] == '\\d+') {  ")
    assert not compiled.search("17\tif (a[0] == '\\d+') {")


def test_an_edit_says_what_its_snippet_shows() -> None:
    """The new text at its place, with its neighbours; nothing where every occurrence goes."""
    session = _session({4: "a", 5: "b", 6: "c"})
    given = {"file_path": PATH, "old_string": "b", "new_string": "b1\nb2"}

    (finding,) = FACTS["snippet-known"](Call(name="Edit", tool=True, input=given, cwd="/repo"), session)

    assert finding.known == {4: "a", 5: "b1", 6: "b2", 7: "c"}
    everywhere = Call(name="Edit", tool=True, input=given | {"replace_all": True}, cwd="/repo")
    assert list(FACTS["snippet-known"](everywhere, session)) == []
    assert session.files.known(PATH) == {4: "a", 5: "b", 6: "c"}, "asking changes nothing"


def test_found_lines_are_matched_by_file() -> None:
    """Grep over a directory names each file, from where it ran or in full."""
    session = _session({3: "x = 1"})

    (finding,) = FACTS["found-known"](_grep(), session)

    compiled = pattern(finding.text or "")
    assert compiled is not None
    assert compiled.search("src/a.py:3:x = 1")
    assert compiled.search("/repo/src/a.py:3:x = 1")
    assert not compiled.search("src/b.py:3:x = 1")


@pytest.mark.parametrize("given", [{"output_mode": "files_with_matches"}, {"-n": False}, {"-o": True}])
def test_grep_without_whole_numbered_lines_says_nothing(given: dict[str, Any]) -> None:
    """Names only, no numbers, or parts of lines."""
    assert list(FACTS["found-known"](_grep(path=PATH, **given), _session({3: "x"}))) == []


def test_moved_files_are_not_asked_for_by_name() -> None:
    """Versions differ in which of its names they report."""
    text = "*** Begin Patch\n*** Update File: o.py\n*** Move to: p.py\n@@\n-b\n+c\n*** End Patch"

    assert list(FACTS["patched-names"](_call("apply_patch", text=text), Session())) == []
    (finding,) = FACTS["patched-lines"](_call("apply_patch", text=text), Session())
    compiled = pattern(finding.text or "")
    assert compiled is not None
    assert compiled.search("M p.py")
    assert compiled.search("Done!")
    assert not compiled.search("M q.py")
