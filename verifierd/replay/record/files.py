"""The file tools of agents, done on the real files of a throw-away home."""

import difflib
import shlex
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from verifierd.errors import FormatError
from verifierd.replay.bash import RealBash

__all__ = ("Answer", "edit_file", "patch_files", "read_file", "search_files", "write_file")

_HOME = "/home/user"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool returns, as Claude Code writes it.

    Attributes:
        content: The text, or blocks, that the model reads.
        result: The fuller copy beside it.
        is_error: The error flag, None where the tool has none.
    """

    content: str | list[dict[str, Any]]
    result: Any
    is_error: bool | None = None


def read_file(bash: RealBash, given: dict[str, Any]) -> Answer:
    """`Read`: numbered lines, all or from `offset` on at most `limit`."""
    lines = _real(bash, given["file_path"]).read_text(encoding="utf-8").split("\n")
    start = given.get("offset", 1)
    shown = lines[start - 1 :][: given.get("limit", len(lines))]
    file = {
        "filePath": given["file_path"],
        "content": "\n".join(shown),
        "numLines": len(shown),
        "startLine": start,
        "totalLines": len(lines),
    }
    return Answer(
        content="\n".join(f"{number:6d}→{line}" for number, line in enumerate(shown, start)),
        result={"type": "text", "file": file},
    )


def write_file(bash: RealBash, given: dict[str, Any]) -> Answer:
    """`Write`: a new file."""
    shown, content = given["file_path"], given["content"]
    _put(bash, _real(bash, shown), content)
    result = {"type": "create", "filePath": shown, "content": content, "structuredPatch": [], "originalFile": None}
    return Answer(content=f"File created successfully at: {shown}", result=result)


def edit_file(bash: RealBash, given: dict[str, Any]) -> Answer:
    """`Edit`: one replacement; the harness refuses if the text to replace is not there."""
    shown, old, new = given["file_path"], given["old_string"], given["new_string"]
    path = _real(bash, shown)
    before = path.read_text(encoding="utf-8")
    if old not in before:
        problem = f"String to replace not found in file.\nString: {old}"
        return Answer(content=f"<tool_use_error>{problem}</tool_use_error>", result=f"Error: {problem}", is_error=True)
    after = before.replace(old, new, 1)
    _put(bash, path, after)
    result = {
        "filePath": shown,
        "oldString": old,
        "newString": new,
        "originalFile": before,
        "structuredPatch": _hunks(before, after),
        "userModified": False,
        "replaceAll": False,
    }
    return Answer(content=f"The file {shown} has been updated successfully.", result=result)


def search_files(bash: RealBash, given: dict[str, Any]) -> Answer:
    """`Grep`: the lines of one file, or the names of the files below the current directory, that match."""
    pattern = shlex.quote(given["pattern"])
    if given.get("output_mode") == "content":
        found = bash.run(f"grep -nE -e {pattern} {shlex.quote(given['path'])}").text.removesuffix("\n")
        result = {
            "mode": "content",
            "numFiles": 0,
            "filenames": [],
            "content": found,
            "numLines": len(found.splitlines()),
        }
        return Answer(content=found or "No matches found", result=result)
    found = bash.run(f"grep -rlE --exclude-dir=.git -e {pattern} . | sort").text
    names = [name.removeprefix("./") for name in found.splitlines()]
    plural = "" if len(names) == 1 else "s"
    text = "\n".join((f"Found {len(names)} file{plural}", *names)) if names else "No files found"
    return Answer(content=text, result={"mode": "files_with_matches", "filenames": names, "numFiles": len(names)})


def patch_files(bash: RealBash, patch: str, cwd: str) -> dict[str, dict[str, Any]]:
    """`apply_patch`: the changes by path as Codex reports them; a hunk must fit the file exactly.

    Raises:
        FormatError: A hunk does not fit.
    """
    changes: dict[str, dict[str, Any]] = {}
    for section in patch.removeprefix("*** Begin Patch\n").partition("*** End Patch")[0].split("*** ")[1:]:
        head, _, body = section.partition("\n")
        kind, _, name = head.partition(" File: ")
        path = _real(bash, f"{cwd}/{name}")
        if kind == "Add":
            content = "".join(line[1:] for line in body.splitlines(keepends=True))
            _put(bash, path, content)
            changes[name] = {"type": "add", "content": content}
            continue
        before = after = path.read_text(encoding="utf-8")
        for hunk in body.split("@@\n")[1:]:
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if not line.startswith("+"))
            new = "".join(line[1:] for line in lines if not line.startswith("-"))
            if old not in after:
                raise FormatError(f"a hunk of the script's patch does not fit `{name}`", hint=hunk)
            after = after.replace(old, new, 1)
        _put(bash, path, after)
        diff = "".join(
            list(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True)))[2:]
        )
        changes[name] = {"type": "update", "unified_diff": diff, "move_path": None}
    return changes


def _real(bash: RealBash, shown: str) -> Path:
    return bash.home / PurePosixPath(shown).relative_to(_HOME)


def _put(bash: RealBash, path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    bash.own(bash.home)


def _hunks(before: str, after: str) -> list[dict[str, Any]]:
    old, new = before.split("\n"), after.split("\n")
    hunks = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(3):
        lines: list[str] = []
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                lines += [" " + line for line in old[old_from:old_to]]
            else:
                lines += ["-" + line for line in old[old_from:old_to]] + ["+" + line for line in new[new_from:new_to]]
        first, last = group[0], group[-1]
        hunks.append(
            {
                "oldStart": first[1] + 1,
                "oldLines": last[2] - first[1],
                "newStart": first[3] + 1,
                "newLines": last[4] - first[3],
                "lines": lines,
            }
        )
    return hunks
