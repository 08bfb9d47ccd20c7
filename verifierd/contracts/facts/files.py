"""Facts about files: which one a result must name, and what is known of its lines."""

import posixpath
from collections.abc import Iterable, Mapping

from verifierd.contracts.calls import Call, path_in
from verifierd.contracts.checks import escaped
from verifierd.contracts.facts.base import Fact, Finding
from verifierd.contracts.state.effects import Effect
from verifierd.contracts.state.files import patch_text, patched, window
from verifierd.contracts.state.session import Session

__all__ = ("FACTS",)

_MOST_FILES = 6
_MOST_KNOWN = 3_000
_LONGEST_LINE = 1_900
_LONGEST_FOUND = 200
"""Longer lines may be left out by searching tools."""
_PROSE = r"^\s*$|^\s*[^\s\d]|^\s*\d+[^\d→\t\r]"
"""What is no numbered line: a warning, a picture, what a newer version says or how it numbers instead."""
_REFUSAL = r"(?i:error|invalid|no replacement|\bnot?\b|parameter|required|must|cannot|fail|denied|timed? ?out)"
"""Where there is no flag for it, an editor may have refused in words."""
_GREP_OPTIONS = frozenset({
    "-n", "-i", "-w", "-x", "-E", "-F", "-G", "-P", "-s", "-m", "-A", "-B", "-C", "-e", "--line-number",
    "--ignore-case", "--no-heading", "--color",
})  # fmt: skip


def _base(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def named_path(call: Call, _session: Session) -> Iterable[Finding]:
    """How the result names the file: in full where it was given in the one spelling that nobody would change."""
    path = call.input.get("file_path", call.input.get("path"))
    if not isinstance(path, str) or not 1 < len(path) < 1_000 or "\n" in path:
        return
    windows = (call.cwd or "")[1:2] == ":" or "\\" in (call.cwd or "")
    full = path.startswith("/") and not windows and posixpath.normpath(path) == path
    if not full and _base(path) in {"", ".", ".."}:
        return
    editor = call.name not in {"Edit", "MultiEdit", "Write"}
    yield Finding(values={"path": path if full else _base(path)}, tolerates=_REFUSAL if editor else "")


def _whole_number(value: object) -> int | None:
    """A number as tools take it: also as a text of digits."""
    if isinstance(value, str) and value.isdigit() and len(value) < 8:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_window(call: Call, _session: Session) -> Iterable[Finding]:
    """Read from a line on: its number, and how many lines there may be."""
    offset = _whole_number(call.input.get("offset"))
    if offset is not None and offset > 1 and not call.input.get("pages"):
        yield Finding(low=offset, values={"first": str(offset)}, tolerates=_PROSE)


def read_start(call: Call, _session: Session) -> Iterable[Finding]:
    """Read from the start."""
    if call.input.get("offset") in {None, 1, "1"} and not call.input.get("pages"):
        yield Finding(low=1, values={"first": "1"}, tolerates=_PROSE)


def read_limit(call: Call, _session: Session) -> Iterable[Finding]:
    """Read: how many lines were asked for."""
    limit = _whole_number(call.input.get("limit"))
    if limit is not None and limit > 0:
        yield Finding(high=limit, values={"count": str(limit)}, tolerates=_PROSE)


def _cut(known: Mapping[int, str], first: int, last: int | None) -> dict[int, str]:
    """The known lines of a window."""
    if len(known) > _MOST_KNOWN and last is not None and last - first < _MOST_KNOWN:
        return {number: known[number] for number in range(first, last + 1) if number in known}
    return {number: text for number, text in known.items() if number >= first and (last is None or number <= last)}


def _known(session: Session, path: str, *, edited: bool = False) -> Mapping[int, str]:
    """The lines of a file that read so; none where somebody else may have written."""
    if not session.keeps(Effect.TEXTS):
        return {}
    lines = session.files.known(path, edited=edited)
    # Long lines are cut, and what is no text is shown in more than one way.
    lines = {number: text for number, text in lines.items() if len(text) < _LONGEST_LINE and "\ufffd" not in text}
    return lines if any(map(str.strip, lines.values())) else {}


def _read_lines(call: Call, session: Session, *, edited: bool) -> dict[int, str]:
    path = call.input.get("file_path")
    if not isinstance(path, str):
        return {}
    first = _whole_number(call.input.get("offset")) or 1
    limit = _whole_number(call.input.get("limit"))
    known = _known(session, path_in(call.cwd, path), edited=edited)
    return _cut(known, first, first + limit - 1 if limit else None)


def read_known(call: Call, session: Session) -> Iterable[Finding]:
    """Read: the lines that read so, of a file that the agent did not write."""
    if known := _read_lines(call, session, edited=False):
        yield Finding(known=known)


def read_edited(call: Call, session: Session) -> Iterable[Finding]:
    """Read: the lines that read so, of a file that the agent wrote itself."""
    if known := _read_lines(call, session, edited=True):
        yield Finding(known=known)


def _anchor(known: Mapping[int, str]) -> Iterable[Finding]:
    """The first known line that says something: a text that is cut is cut after it."""
    number = min((number for number, text in known.items() if len(text.strip()) > 3), default=None)
    if number is not None and len(known[number]) < _LONGEST_FOUND * 5:
        text = rf"^\s*{number}(?:→|\t){escaped(known[number].rstrip())}\s*$"
        yield Finding(text=text, values={"number": str(number), "line": known[number].strip()}, tolerates=_PROSE)


def read_anchor(call: Call, session: Session) -> Iterable[Finding]:
    """Read: a line that must be among those shown, of a file that the agent did not write."""
    yield from _anchor(_read_lines(call, session, edited=False))


def edited_anchor(call: Call, session: Session) -> Iterable[Finding]:
    """Read: a line that must be among those shown, of a file that the agent wrote itself."""
    yield from _anchor(_read_lines(call, session, edited=True))


def viewed_known(call: Call, session: Session) -> Iterable[Finding]:
    """The view of an editor: the lines that read so."""
    path = call.input.get("path")
    if call.input.get("command") == "view" and isinstance(path, str):
        where = path_in(call.cwd, path)
        if known := _known(session, where) or _known(session, where, edited=True):
            yield Finding(known=known)


def snippet_known(call: Call, session: Session) -> Iterable[Finding]:
    """The lines around an edit, for the versions that show them."""
    path = call.input.get("file_path", call.input.get("path"))
    old = call.input.get("old_string", call.input.get("old_str"))
    new = call.input.get("new_string", call.input.get("new_str", ""))
    if not isinstance(path, str) or not isinstance(old, str) or not isinstance(new, str):
        return
    if call.input.get("replace_all") or not session.keeps(Effect.TEXTS):
        return
    known = session.files.after(path_in(call.cwd, path), old, new, drops_line="old_string" in call.input)
    known = {number: text for number, text in known.items() if len(text) < _LONGEST_LINE and "\ufffd" not in text}
    if any(map(str.strip, known.values())):
        yield Finding(known=known)


def printed_known(call: Call, session: Session) -> Iterable[Finding]:
    """Lines of one file that the shell prints without numbers.

    Blank lines at the start may be trimmed, so the first one must be known not to be blank.
    """
    found = window(call)
    if found is not None and not found.numbered:
        known = _cut(_known(session, found.path), found.first, found.last)
        if known.get(found.first, "").strip():
            yield Finding(known=known, low=found.first)


def numbered_known(call: Call, session: Session) -> Iterable[Finding]:
    """Lines of one file that the shell prints with their numbers."""
    found = window(call)
    if found is not None and found.numbered and (known := _known(session, found.path)):
        yield Finding(known=known)


def found_known(call: Call, session: Session) -> Iterable[Finding]:
    """Grep over files of which lines are known."""
    if call.input.get("output_mode") != "content" or not call.input.get("-n") or call.input.get("multiline"):
        return
    where = call.input.get("path")
    if call.input.get("-o") or call.cwd is None or not (where is None or isinstance(where, str)):
        return
    folder = path_in(call.cwd, where or ".")
    if known := _short(_known(session, folder)):
        yield Finding(known=known, text=r"^(?P<line>\d+)[:-](?P<text>.*)$")
        return
    if not session.keeps(Effect.TEXTS):
        return
    cwd = path_in(None, call.cwd)
    for path, lines in session.files.under(folder, _MOST_FILES):
        spellings = [path]
        if path.lower().startswith(cwd.rstrip("/").lower() + "/"):
            spellings.append(path[len(cwd.rstrip("/")) + 1 :])
        if known := _short(lines):
            spelt = "|".join(r"[\\/]".join(map(escaped, spelling.split("/"))) for spelling in spellings)
            yield Finding(known=known, text=rf"^(?:{spelt}):(?P<line>\d+):(?P<text>.*)$")


def grepped_known(call: Call, session: Session) -> Iterable[Finding]:
    """`grep -n` over one file of which lines are known."""
    if set(call.options) - _GREP_OPTIONS or call.globs or len(call.operands) != (1 if call.given("-e") else 2):
        return
    path = call.operands[-1]
    if path and (known := _short(_known(session, call.path(path)))):
        yield Finding(known=known)


def _short(known: Mapping[int, str]) -> dict[int, str]:
    return {number: text for number, text in known.items() if len(text) < _LONGEST_FOUND}


def patched_names(call: Call, _session: Session) -> Iterable[Finding]:
    """The names of the files that a patch changes."""
    text = patch_text(call.input) if call.tool else call.document or (call.operands or (None,))[-1]
    files = patched(text) if text is not None else None
    if not files or len(files) > 100:
        return
    names = tuple(dict.fromkeys(_base(file.path) for file in files if file.to is None))
    if names:
        yield Finding(texts=names, values={"names": ", ".join(names)}, tolerates=_REFUSAL)


def patched_lines(call: Call, _session: Session) -> Iterable[Finding]:
    """The lines that the report of a patch may have."""
    text = patch_text(call.input) if call.tool else call.document or (call.operands or (None,))[-1]
    files = patched(text) if text is not None else None
    if not files or len(files) > 100:
        return
    names = {escaped(_base(name)) for file in files for name in (file.path, file.to) if name is not None}
    one = "|".join(sorted(names))
    yield Finding(text=rf"^[AMD] (?:.*[/\\])?(?:{one})\s*$|^[^AMD]|^.[^ ]|^.$", tolerates=_REFUSAL)


FACTS: Mapping[str, Fact] = {
    "named-path": named_path,
    "read-window": read_window,
    "read-start": read_start,
    "read-limit": read_limit,
    "read-known": read_known,
    "read-edited": read_edited,
    "read-anchor": read_anchor,
    "edited-anchor": edited_anchor,
    "snippet-known": snippet_known,
    "viewed-known": viewed_known,
    "printed-known": printed_known,
    "numbered-known": numbered_known,
    "found-known": found_known,
    "grepped-known": grepped_known,
    "patched-names": patched_names,
    "patched-lines": patched_lines,
}
