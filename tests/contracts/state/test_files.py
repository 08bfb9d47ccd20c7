"""What is known of files: what was shown, what edits make of it, and what makes it forgotten."""

from typing import Any

import pytest

from verifierd.contracts.calls import parts, tool_call
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.state.files import Files, Hunk, patched, window
from verifierd.types import Action, ObservationKind, Origin, Step

PROGRAMS = Contracts(bundled()).programs
PATH = "/repo/src/a.py"
TEXT = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"


def _step(tool: str, given: dict[str, Any] | str, observation: str = "", **fields: Any) -> Step:
    command = given if tool == "Bash" and isinstance(given, str) else None
    return Step(
        format="native",
        trajectory="files",
        index=1,
        action=Action(tool=tool, input=given, command=command),
        observation=observation,
        exit_code=fields.pop("exit_code", 0) if command is not None else None,
        cwd="/repo",
        origin=Origin(path="-", offset=0),
        **fields,
    )


def _tell(files: Files, step: Step) -> None:
    read = parts(step, PROGRAMS)
    calls = [call for part in read for call in part.stages if call is not None]
    files.observe(step, read, calls if step.action.command is not None else [tool_call(step)])


def _read(first: int = 1, *lines: str) -> Step:
    shown = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first))
    window = {} if first == 1 else {"offset": first, "limit": len(lines)}
    return _step("Read", {"file_path": PATH, **window}, shown)


def _edit(old: str, new: str, **fields: Any) -> Step:
    given = {"file_path": PATH, "old_string": old, "new_string": new, **fields}
    return _step("Edit", given, f"The file {PATH} has been updated successfully.")


def _known(files: Files) -> dict[int, str]:
    return dict(files.known(PATH) or files.known(PATH, edited=True))


def test_lines_that_were_shown_are_known() -> None:
    """Two windows of a file are both known, and nothing else of it."""
    files = Files()

    _tell(files, _read(3, "c", "d"))
    _tell(files, _read(8, "h"))

    assert _known(files) == {3: "c", 4: "d", 8: "h"}
    assert not files.doubtful


def test_a_written_file_is_known_as_a_whole() -> None:
    """Write tells every line."""
    files = Files()

    _tell(files, _step("Write", {"file_path": PATH, "content": "x\ny\n"}, f"File created successfully at: {PATH}"))

    assert _known(files) == {1: "x", 2: "y", 3: ""}
    assert files.known(PATH) == {}, "a hook may have formatted it"


def test_an_edit_in_known_lines_shifts_those_after_it() -> None:
    """A place that is known moves what follows by as many lines as were added."""
    files = Files()

    _tell(files, _read(10, "a", "b", "c"))
    _tell(files, _read(30, "z"))
    _tell(files, _edit("b", "b1\nb2"))

    assert _known(files) == {10: "a", 11: "b1", 12: "b2", 13: "c", 31: "z"}


def test_an_edit_elsewhere_forgets_what_it_may_have_moved() -> None:
    """Of a place that is not known, only lines well before the first gap stay."""
    files = Files()

    _tell(files, _step("Read", {"file_path": PATH, "limit": 4}, "1\ta\n2\tb\n3\tc\n4\td"))
    _tell(files, _read(30, "z"))
    _tell(files, _edit("q\nr", "q\nnew\nr"))

    assert _known(files) == {1: "a", 2: "b"}


def test_an_edit_elsewhere_that_moves_nothing_keeps_what_it_cannot_touch() -> None:
    """As many lines as before: only those at the edges of what is known may have changed."""
    files = Files()

    _tell(files, _read(10, "a", "b", "c", "d", "e"))
    _tell(files, _edit("q", "r"))

    assert _known(files) == {11: "b", 12: "c", 13: "d"}


def test_an_edit_that_cannot_be_placed_in_a_whole_file_forgets_it() -> None:
    """What is not there cannot have been replaced: the file is not what it was taken for."""
    files = Files()

    _tell(files, _read(1, "a", "b"))
    _tell(files, _edit("nowhere", "x"))

    assert _known(files) == {}


def test_typographic_quotes_may_hide_the_place() -> None:
    """An agent's straight quotes may have met curly ones in a known line."""
    files = Files()

    _tell(files, _read(10, "say “hi”", "b", "c"))
    _tell(files, _edit('say "hi"', "say “ho”"))

    assert _known(files) == {}


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("x", "y", {1: "y", 2: "y1", 3: ""}),
        ("x", "y\ny", {1: "y", 2: "y", 3: "y", 4: "y1", 5: ""}),
    ],
)
def test_all_occurrences_are_replaced(old: str, new: str, lines: dict[int, str]) -> None:
    """In a file that is known as a whole, each place is known."""
    files = Files()

    _tell(files, _read(1, "x", "x1", ""))
    _tell(files, _edit(old, new, replace_all=True))

    assert _known(files) == lines


def test_a_deleted_text_takes_its_line_end_along() -> None:
    """As Claude Code does it where nothing replaces a text."""
    files = Files()

    _tell(files, _read(1, "a", "b", "c"))
    _tell(files, _edit("b", ""))

    assert _known(files) == {1: "a", 2: "c"}


def test_several_edits_are_applied_in_order() -> None:
    """MultiEdit, each edit upon what the one before left."""
    files = Files()
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "b", "new_string": "c\nd"}]

    _tell(files, _read(1, "a", "x"))
    _tell(files, _step("MultiEdit", {"file_path": PATH, "edits": edits}, f"Applied 2 edits to {PATH}:"))

    assert _known(files) == {1: "c", 2: "d", 3: "x"}


def test_a_failed_edit_changes_nothing() -> None:
    """What was refused leaves what is known."""
    files = Files()

    _tell(files, _read(1, "a", "b"))
    given = {"file_path": PATH, "old_string": "b", "new_string": "c"}
    _tell(files, _step("Edit", given, "String to replace not found", is_error=True))

    assert _known(files) == {1: "a", 2: "b"}


@pytest.mark.parametrize("kind", [ObservationKind.ENV, ObservationKind.HARNESS_ERROR])
def test_a_refusal_may_say_that_others_write(kind: ObservationKind) -> None:
    """A file that somebody else changed is not known any more."""
    files = Files()
    said = "File has been modified since read, either by the user or by a linter. Read it again."

    _tell(files, _read(1, "a", "b"))
    given = {"file_path": PATH, "old_string": "a", "new_string": "c"}
    _tell(files, _step("Edit", given, said, is_error=True, observation_kind=kind))

    assert _known(files) == {}


def test_a_snippet_tells_where_an_edit_went() -> None:
    """Older versions show the lines around an edit."""
    files = Files()
    said = f"The file {PATH} has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n"

    _tell(files, _step("Edit", {"file_path": PATH, "old_string": "a", "new_string": "b"}, said + "    7→x\n    8→b"))

    assert files.known(PATH, edited=True) == {7: "x", 8: "b"}  # a hook may have formatted the file since


def test_an_editor_shows_creates_and_replaces() -> None:
    """The editor of OpenHands and SWE-agent."""
    files = Files()
    made = {"command": "create", "path": PATH, "file_text": "x\ny"}
    changed = {"command": "str_replace", "path": PATH, "old_str": "y", "new_str": "z"}

    _tell(files, _step("str_replace_editor", made, f"File created successfully at: {PATH}"))
    _tell(files, _step("str_replace_editor", changed, f"The file {PATH} has been edited."))
    assert _known(files) == {1: "x", 2: "z"}

    _tell(files, _step("str_replace_editor", {"command": "undo_edit", "path": PATH}, f"Last edit to {PATH} undone."))
    assert _known(files) == {}


def test_a_patch_replaces_whole_lines() -> None:
    """A hunk goes where its lines stand, wherever else they stand as part of one."""
    files = Files()
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n@@\n def g():\n-    return 2\n+    return 3\n+\n*** End Patch\n"
    )

    _tell(files, _step("Read", {"file_path": PATH}, "\n".join(f"{n}\t{t}" for n, t in enumerate(TEXT.split("\n"), 1))))
    _tell(files, _step("apply_patch", patch, "Success. Updated the following files:\nM src/a.py\n"))

    assert _known(files)[6] == "    return 3"
    assert _known(files)[8] == ""


def test_a_patch_is_read_by_file() -> None:
    """Added, changed, moved and deleted files, with their hunks."""
    text = (
        "*** Begin Patch\n*** Add File: n.py\n+x\n*** Update File: o.py\n*** Move to: p.py\n@@ def f\n a\n-b\n+c\n"
        "*** Delete File: d.py\n*** End Patch"
    )

    found = patched(text)

    assert found is not None
    assert [(file.kind, file.path, file.to) for file in found] == [
        ("A", "n.py", None),
        ("M", "o.py", "p.py"),
        ("D", "d.py", None),
    ]
    assert found[1].hunks == (Hunk(old=("a", "b"), new=("a", "c")),)
    assert patched("*** Begin Patch\nnonsense\n*** End Patch") is None


@pytest.mark.parametrize(
    "command",
    [
        "cat src/a.py",
        "grep -rn x . | head -3",
        "git status && git diff --stat",
        "sed -n '1,5p' src/b.py",
        "echo hi > /dev/null",
        "echo hi > out.txt",
        "rm -f src/b.py",
        "find . -name '*.py'",
    ],
)
def test_what_only_reads_or_names_another_file_forgets_nothing(command: str) -> None:
    """Readers, and writers of files that they name."""
    files = Files()

    _tell(files, _read(1, "a", "b"))
    _tell(files, _step("Bash", command, ""))

    assert _known(files) == {1: "a", 2: "b"}


@pytest.mark.parametrize(
    "command",
    [
        "make fmt",
        "git checkout main",
        "git commit -m x",
        "python fix.py",
        "sed -i 's/a/b/' src/a.py",
        "sed -i '' 's/a/b/' ./a.py",
        "sed 's/a/b/w a.py' x",
        "cat x > src/a.py",
        'cat x > "$F"',
        "echo $(make fmt)",
        "rm -rf src",
        "mv other/* .",
        "find . -name '*.py' -exec touch {} +",
        "for f in *; do cat $f; done",
        "awk '{ print > \"a.py\" }' x",
        "awk -v n=1 '{ print > \"a.py\" }' x",
        "sed --expression='w a.py' x",
        "xxd -r hex a.py",
        "tee a.py",
        "f() { rm x; }; f",
    ],
)
def test_what_may_write_is_followed_by_ignorance(command: str) -> None:
    """Whatever may have written the file makes it forgotten."""
    files = Files()

    _tell(files, _read(1, "a", "b"))
    _tell(files, _step("Bash", command, ""))

    assert _known(files) == {}


@pytest.mark.parametrize("command", ["ln -s src/a.py b.py", "ln -s src/a.py c.py; ln -f c.py b.py", 'ln "$x" b.py'])
def test_a_file_may_have_several_names(command: str) -> None:
    """What is written to a link is written to what it names."""
    files = Files()

    _tell(files, _step("Bash", command))
    _tell(files, _read(1, "a", "b"))
    _tell(files, _step("Bash", "echo c > b.py"))

    assert _known(files) == {}


def test_instructions_for_agents_are_often_one_file() -> None:
    """Who edits AGENTS.md may edit CLAUDE.md."""
    files = Files()

    _tell(files, _step("Read", {"file_path": "/repo/CLAUDE.md"}, "1\ta"))
    _tell(files, _step("Write", {"file_path": "/repo/AGENTS.md", "content": "b\n"}, "Created /repo/AGENTS.md"))

    assert files.known("/repo/CLAUDE.md") == {}


@pytest.mark.parametrize(
    ("command", "shown", "lines"),
    [
        ("sed -n '3,4p' src/a.py", "c\nd\n", {3: "c", 4: "d"}),
        ("cd src && sed -n 3,4p a.py", "c\nd\n", {3: "c", 4: "d"}),
        ("nl -ba src/a.py | sed -n '3,4p'", "     3\tc\n     4\td\n", {3: "c", 4: "d"}),
        ("cat -n src/a.py", "     1\ta\n     2\t\n", {1: "a", 2: ""}),
        ("head -n 2 src/a.py", "a\nb\n", {1: "a", 2: "b"}),
        ("cat > src/a.py <<'EOF'\na\nb\nEOF", "", {1: "a", 2: "b", 3: ""}),
        ("sed -n '3,9p' src/a.py", "c\nd\n", {}),
        ("sed -n '3,4p' src/a.py; ls", "c\nd\n", {}),
    ],
)
def test_the_shell_shows_and_writes_lines(command: str, shown: str, lines: dict[int, str]) -> None:
    """Windows that are shown alone and in full, and here-documents."""
    files = Files()

    _tell(files, _step("Bash", command, shown))

    assert _known(files) == lines


def test_found_lines_are_known() -> None:
    """Grep shows lines with their numbers."""
    files = Files()
    given = {"pattern": "x", "path": "/repo", "output_mode": "content", "-n": True}

    _tell(files, _step("Grep", given, "src/a.py:3:x = 1\nsrc/b.py:4:x = 2"))

    assert _known(files) == {3: "x = 1"}
    assert [path for path, _ in files.under("/repo", 5)] == ["/repo/src/b.py", PATH]


def test_a_contradiction_makes_doubtful() -> None:
    """A line that changed with no writer known: others write, and nothing is said any more."""
    files = Files()

    _tell(files, _read(1, "a", "b"))
    _tell(files, _read(2, "other"))

    assert files.doubtful
    assert _known(files) == {}


def test_a_person_or_an_unknown_tool_may_write() -> None:
    """A new turn, a tool nobody knows and an agent make everything forgotten."""
    for step in (
        _step("Read", {"file_path": "/x"}, "", turn="2"),
        _step("mcp__fs__write", {"path": "x"}, "ok"),
        _step("Task", {"prompt": "fix"}, "done"),
        _step("Read", {"file_path": "/x"}, "", siblings=(Action(tool="mcp__x"),)),
    ):
        files = Files()
        _tell(files, _read(1, "a", "b"))
        _tell(files, step)
        assert _known(files) == {}


def test_an_agent_that_runs_on_may_write_at_any_time() -> None:
    """After one was started in the background nothing is sure any more."""
    files = Files()

    _tell(files, _step("Task", {"prompt": "fix", "run_in_background": True}, "Async agent launched"))
    _tell(files, _read(1, "a", "b"))

    assert _known(files) == {}


def test_the_number_of_files_is_bounded() -> None:
    """A listing of no end is not kept."""
    files = Files()
    for number in range(3_000):
        files.learn(f"/repo/f{number}.py", [(1, "x")])

    assert len(list(files.under("/repo", 10_000))) == 1_000


def test_memory_is_bounded() -> None:
    """The files met longest ago go first."""
    files = Files()
    line = "x" * 1_000
    for number in range(60):
        files.learn(f"/repo/f{number}.py", [(index, line) for index in range(1, 101)])

    assert files.known("/repo/f0.py") == {}
    assert files.known("/repo/f59.py")


def test_windows_paths_are_one_file_in_either_spelling() -> None:
    """Drive letters and slashes do not matter."""
    files = Files()
    files.learn("D:\\repo\\a.py", [(1, "x")])

    assert files.known("d:/repo/a.py") == {1: "x"}


def test_only_plain_windows_are_read() -> None:
    """Options that change lines, several files and wildcards are no windows."""
    for command in ("cat -A a.py", "cat a.py b.py", "cat *.py", "sed -n '1,5p;9p' a.py", "head -c 5 a.py", "nl a.py"):
        call = parts(_step("Bash", command), PROGRAMS)[0].stages[0]
        assert call is not None
        assert window(call) is None
