"""Facts about Claude Code's own searches, `Grep` and `Glob`: what each line that they list must look like."""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from verifierd.contracts.calls import Call, path_in
from verifierd.contracts.checks import escaped
from verifierd.contracts.facts.base import Fact, Finding
from verifierd.contracts.facts.regex import Translated, translate
from verifierd.contracts.state.session import Session

__all__ = ("FACTS", "ending", "quoted")

_ANY = ".*?"
_SAID = (
    r"|^No (?:matches|files) found|^\[Showing results |^\(?Results are truncated|\[Omitted long |\[\.\.\. omitted "
    r"|[Bb]inary file |^<tool_use_error>|^Error\b|^(?:Path|Directory) does not exist"
    r"|^(?i:ripgrep|rg)\b.*(?:error|fail|time)"
)
"""Lines in which the tools speak themselves."""
_GREP = frozenset({
    "pattern", "path", "glob", "type", "output_mode", "-n", "-i", "-A", "-B", "-C", "context", "head_limit", "offset",
    "multiline",
})  # fmt: skip
"""What it is asked; a tool of the same name that is asked something else is another one."""
_AROUND = ("-A", "-B", "-C", "context")
_BEFORE = ("-B", "-C", "context")
_TYPES: Mapping[str, str] = {
    "go": "go",
    "java": "java|jsp|jspx|properties",
    "js": "js|jsx|cjs|mjs|vue",
    "py": "py|pyi",
    "python": "py|pyi",
    "rust": "rs",
    "ts": "ts|tsx|cts|mts",
    "typescript": "ts|tsx|cts|mts",
}
"""Endings of the files of a type, as `rg --type-list` has them."""
_BRACES = re.compile(r"\{([^{}]{1,300})\}")
_ODD = frozenset("[]()!\\|@+^~\0")
_LONGEST = 500
_MOST_GLOBS = 20
_MOST_SHOWN = 1_000_000


def quoted(path: str) -> str:
    """A path as a pattern of itself, with either separator between its names."""
    return r"[/\\]+".join(map(escaped, path.replace("\\", "/").split("/")))


def _below(call: Call) -> str:
    """The pattern of paths that are, or are below, the one that was searched; anything if that cannot be told.

    Paths are shown whole, or from the directory where the agent is on, which may not be the one that the log knows.
    """
    given = call.input.get("path")
    if not isinstance(given, str) or not given.isprintable() or not 0 < len(given) <= _LONGEST or call.cwd is None:
        return _ANY
    if given.startswith("~"):
        return _ANY
    full = path_in(call.cwd, given)
    here = path_in(call.cwd, ".")
    names = [name for name in full.split("/") if name]
    if (
        not names
        or not (full.startswith("/") or full[1:2] == ":")
        or (here + "/").lower().startswith(full.lower() + "/")
    ):
        return _ANY
    relative = ""
    for name in names[:-1]:
        relative = rf"(?:{relative}{quoted(name)}[/\\])?"
    # A link may lead to the directory: `/tmp` is `/private/tmp` on macOS.
    return (
        rf"(?i:(?:.*[/\\])?{quoted(posixpath.basename(full))}(?:[/\\].*?)?)"
        if len(names) < 3
        else (
            rf"(?i:(?:(?:/private)?[/\\]|\.[/\\]|(?:\.\.[/\\])+(?:.*[/\\])?)?{relative}{quoted(names[-1])}(?:[/\\].*?)?)"
        )
    )


def _component(text: str) -> str:
    """One name of a glob as a pattern."""
    return "".join(r"[^/\\]*" if letter == "*" else r"[^/\\]" if letter == "?" else quoted(letter) for letter in text)


def _glob(text: str) -> str | None:
    """The pattern of paths that end as a glob says; None where it is not certain how it is read.

    One without a `/` is looked for at every depth by some versions, so each may begin anywhere.
    """
    text = text.strip().removeprefix("./")
    if not text or len(text) > _LONGEST or not text.isprintable() or text.endswith("/"):
        return None
    outside = _BRACES.sub("", text)
    if _ODD & set(text) or set(outside) & set("{}") or ".." in text or len(text) - len(outside) > _LONGEST:
        return None
    braces = _BRACES.split(text)
    if any("/" in inner for inner in braces[1::2]) or any("," not in inner for inner in braces[1::2]):
        return None
    if text[0] == "/" or text[1:2] == ":":
        return _last(text)
    names = text.split("/")
    return _names(names)


def _last(text: str) -> str | None:
    """Of a whole path, what follows its fixed part: that may be cut off."""
    names = text.split("/")
    first = next((index for index, name in enumerate(names) if set(name) & set("*?{")), len(names) - 1)
    return _names(names[first:])


def _names(names: list[str]) -> str | None:
    if not any(set(name) - set("*") for name in names):
        return None  # it lets everything through
    result = ""
    for index, name in enumerate(names):
        last = index == len(names) - 1
        if name == "**":
            result += ".*" if last else r"(?:.*[/\\])?"
            continue
        for place, part in enumerate(_BRACES.split(name)):
            if place % 2:
                result += "(?:" + "|".join(_component(choice) for choice in part.split(",")) + ")"
            else:
                result += _component(part)
        result += "" if last else r"[/\\]+"
    return rf"(?i:(?:.*[/\\])?{result})"


def ending(globs: Sequence[str]) -> str | None:
    """The pattern of paths that end as one of several globs says; None if there is none, or one is not certain."""
    found = [_glob(glob) for glob in globs[:_MOST_GLOBS]]
    known = [one for one in found if one is not None]
    return "|".join(known) if known and len(known) == len(globs) else None


def _ending(call: Call) -> str | None:
    """The pattern of paths that `glob` and `type` let through; None if they let through what cannot be told."""
    found: list[str] = []
    glob = call.input.get("glob")
    if isinstance(glob, str) and glob.strip():
        pieces = [glob] if "{" in glob else re.split(r"[,\s]+", glob.strip())
        if "{" in glob and re.search(r"\s", glob.strip()):
            return None
        pattern = ending([piece for piece in pieces if piece and not piece.startswith("!")])
        found += [pattern] if pattern is not None else []
    kind = call.input.get("type")
    if not found and isinstance(kind, str) and kind in _TYPES:
        found.append(rf".*\.(?i:{_TYPES[kind]})")
    return found[0] if found else None


def _files(call: Call) -> list[str]:
    """Patterns that a listed path obeys, each of them; a file that is named itself obeys the first only."""
    below, ending = _below(call), _ending(call)
    return [pattern for pattern in (below if below != _ANY else None, ending) if pattern is not None]


def _asked(call: Call, *modes: str | None) -> bool:
    return set(call.input) <= _GREP and call.input.get("output_mode") in modes


def _pattern(call: Call) -> Translated | None:
    """What every line matches that it finds."""
    text = call.input.get("pattern")
    if not isinstance(text, str) or call.input.get("multiline"):
        return None
    found = translate(text, "rust")
    return found.folded() if found is not None and call.input.get("-i") else found


def _prefix(call: Call, mark: str = ":") -> str:
    """What stands before the text of a line."""
    below, ending = _below(call), _ending(call)
    path = ending if below == _ANY and ending is not None else below
    name = f"(?:{path}){mark}"
    if call.input.get("path"):
        name = f"(?:{name})?"  # of a single file the name is not shown
    numbers = call.input.get("-n")
    number = "" if numbers is False else rf"\d+{mark}" if numbers is True else rf"(?:\d+{mark})?"
    return name + number


def matching(call: Call, _session: Session) -> Iterable[Finding]:
    """Every line that `Grep` shows matches its pattern."""
    found = _pattern(call) if _asked(call, "content") and not _around(call) else None
    if found is not None:
        yield Finding(text=found.after(_prefix(call)) + _SAID)


def surrounded(call: Call, _session: Session) -> Iterable[Finding]:
    """Every line that `Grep` shows with a `:` after its number matches; those around have a `-` there."""
    if not _asked(call, "content") or not _around(call) or call.input.get("-n") is not True:
        return
    found = _pattern(call)
    lines = found.after(_prefix(call)) if found is not None else f"^(?:{_prefix(call)})"
    yield Finding(text=f"^--$|^(?:{_prefix(call, '-')})|{lines}{_SAID}")


def among(call: Call, _session: Session) -> Iterable[Finding]:
    """Among the lines that `Grep` shows is one that matches, unless only lines before it were asked for."""
    if not _asked(call, "content") or not _around(call) or call.input.get("offset"):
        return
    limit = _number(call.input.get("head_limit")) or 250
    before = max(_number(call.input.get(name)) or 0 for name in _BEFORE)
    found = _pattern(call)
    if found is not None and before < limit and before <= 50:
        bound = any(bound for bound, _ in found.branches)
        yield Finding(text=(found.after(_prefix(call)) if bound else found.somewhere()) + _SAID)


def _around(call: Call) -> bool:
    return any(call.input.get(name) for name in _AROUND)


def _number(value: object) -> int | None:
    """A number of the input, which some models write as a text."""
    if isinstance(value, str) and value.isdigit() and len(value) < 8:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_SHOWN else None


def headed(call: Call, _session: Session) -> Iterable[Finding]:
    """A list of files is headed by their number."""
    if _asked(call, None, "files_with_matches"):
        yield Finding()


def totalled(call: Call, _session: Session) -> Iterable[Finding]:
    """Files are listed or counted, all of them."""
    if _asked(call, None, "files_with_matches", "count") and not call.input.get("offset"):
        yield Finding()


def listed(call: Call, _session: Session) -> Iterable[Finding]:
    """Each path that `Grep` lists is where it searched, and of the kind that it was told."""
    if not _asked(call, None, "files_with_matches"):
        return
    for path in _files(call):
        below = _below(call)
        # The file that was named itself need not be of that kind.
        itself = rf"|^(?:{quoted_end(call)})$" if path != below else ""
        yield Finding(text=rf"^(?:{path})$|^Found \d+ files?\b{itself}{_SAID}")


def quoted_end(call: Call) -> str:
    """The pattern of the path that was searched itself, however it is shown."""
    given = call.input.get("path")
    name = posixpath.basename(given.replace("\\", "/").rstrip("/")) if isinstance(given, str) else ""
    return rf"(?:.*[/\\])?{quoted(name[:_LONGEST])}" if name and name.isprintable() else r"\x{0}"


def counted(call: Call, _session: Session) -> Iterable[Finding]:
    """In `count` mode each line is a path with a number."""
    if _asked(call, "count"):
        yield Finding(text=rf"^(?:(?:{_below(call)}):)?\d+$|^Found \d+ total occurrences?\b{_SAID}")


def limited(call: Call, _session: Session) -> Iterable[Finding]:
    """No more lines than `head_limit` asks for, but for a heading and a remark."""
    limit = _number(call.input.get("head_limit"))
    if limit and set(call.input) <= _GREP:
        yield Finding(high=limit + 3, values={"count": str(limit)})


def globbed(call: Call, _session: Session) -> Iterable[Finding]:
    """Each path that `Glob` lists ends as its pattern says."""
    text = call.input.get("pattern")
    path = _glob(text) if isinstance(text, str) and set(call.input) <= {"pattern", "path"} else None
    if path is not None:
        yield Finding(text=f"^(?:{path})${_SAID}")


def placed(call: Call, _session: Session) -> Iterable[Finding]:
    """Each path that `Glob` lists is below the one that it was told."""
    text = call.input.get("pattern")
    below = _below(call)
    if isinstance(text, str) and text[:1] not in {"/", "~"} and ".." not in text and text[1:2] != ":" and below != _ANY:
        yield Finding(text=f"^(?:{below})${_SAID}")


FACTS: Mapping[str, Fact] = {
    "grep-tool-matching": matching,
    "grep-tool-surrounded": surrounded,
    "grep-tool-among": among,
    "grep-tool-headed": headed,
    "grep-tool-listed": listed,
    "grep-tool-counted": counted,
    "grep-tool-limited": limited,
    "grep-tool-total": totalled,
    "glob-tool-matching": globbed,
    "glob-tool-placed": placed,
}
