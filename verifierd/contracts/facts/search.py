"""Facts about searches: what the lines that `grep`, `git grep` and `rg` print must look like."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from verifierd.commandline.reading import Word
from verifierd.contracts.calls import Call
from verifierd.contracts.facts import search_tools
from verifierd.contracts.facts.base import Fact, Finding
from verifierd.contracts.facts.regex import Dialect, Translated, literal, translate, union
from verifierd.contracts.facts.search_tools import ending, quoted
from verifierd.contracts.state.session import Session

__all__ = ("FACTS",)

_TROUBLE = (
    r"|^(?:\S*/)?(?:[efu]?grep|rg|git)(?:\.exe)?: |^Binary file .* matches|binary file matches"
    r"|stopped searching binary file|\[Omitted long |\[\.\.\. (?:omitted|\d+ more) |\(os error \d+\)$"
    r"|^(?:rg: )?No files were searched|^Running with --debug|^(?:fatal|warning|error): "
)
"""Lines that a search prints besides what it found: it leaves out what is binary or very long."""
_COMMON = frozenset({
    "-E", "-F", "-P", "-e", "-f", "-i", "-w", "-x", "-v", "-n", "-o", "-c", "-l", "-q", "-s", "-a", "-m", "-A", "-B",
    "-C", "--ignore-case", "--word-regexp", "--line-regexp", "--invert-match", "--line-number", "--only-matching",
    "--count", "--files-with-matches", "--quiet", "--no-messages", "--text", "--max-count", "--after-context",
    "--before-context", "--context", "--regexp", "--file", "--fixed-strings", "--color", "--line-buffered",
    "--with-filename", "-H", "--no-filename",
})  # fmt: skip
_OWN = {
    "grep": frozenset({
        "-G", "-y", "-h", "-r", "-R", "-I", "-U", "--recursive", "--dereference-recursive", "--extended-regexp",
        "--basic-regexp", "--perl-regexp", "--include", "--exclude", "--exclude-dir", "--exclude-from", "--colour",
        "--silent", "--binary-files", "--binary", "--no-group-separator", "-d", "-D",
    }),
    "git grep": frozenset({
        "-G", "-h", "-I", "--extended-regexp", "--basic-regexp", "--perl-regexp", "--name-only", "--cached",
        "--untracked", "--no-color", "--no-index", "--exclude-standard", "--recurse-submodules", "--threads",
    }),
    "rg": frozenset({
        "-N", "-S", "-g", "-t", "-T", "-I", "-u", "-.", "-L", "-M", "-j", "-d", "--smart-case", "--case-sensitive",
        "--glob", "--iglob", "--type", "--type-not", "--hidden", "--no-ignore", "--no-ignore-vcs", "--no-heading",
        "--sort", "--sortr", "--max-depth", "--follow", "--max-columns", "--no-config", "--no-line-number",
        "--max-filesize", "--unrestricted", "--ignore-file", "--threads", "--files",
    }),
}  # fmt: skip
"""Options that change nothing in the form of a line but what is read here; with any other one nothing is said."""
_DIALECTS = (
    ("-E", "--extended-regexp"),
    ("-F", "--fixed-strings"),
    ("-G", "--basic-regexp"),
    ("-P", "--perl-regexp"),
)
_CONTEXT = ("-A", "-B", "-C", "--after-context", "--before-context", "--context")
_BEFORE = ("-B", "-C", "--before-context", "--context")
_LISTING = ("-l", "--files-with-matches", "--name-only", "--files")
_SPECIAL = frozenset("*?[{")
_MOST = 20


class _Search(msgspec.Struct, frozen=True, kw_only=True):
    """What a search was asked for.

    Attributes:
        found: What every line that it found matches; None if that cannot be told.
        names: Do names of files stand before what it found? None where that hangs on what the words name.
        path: The pattern of such a name.
        numbers: Do line numbers?
        context: Does it print lines around those that it found?
        only: Does it print nothing of a line but what matches?
        headed: May names stand above their lines, as `rg` has it on a terminal?
    """

    found: Translated | None
    names: bool | None
    path: str
    numbers: bool
    context: bool
    only: bool
    headed: bool

    @property
    def others(self) -> str:
        """Lines besides those that it found: diagnostics and, on a terminal, the name of the file above its lines."""
        heading = self.path if self.path != ".*?" else r"[^\s:]+"
        return rf"|^(?:{heading})$" + _TROUBLE if self.headed else _TROUBLE

    def prefix(self, mark: str = ":", *, numbers: str = r"\d+") -> str:
        """What stands before the text of a line."""
        mark = "[:+]" if mark == ":" and self.only else mark  # `ugrep` marks a line's other matches so
        name = f"(?:{self.path}){mark}"
        if self.names is None:
            name = f"(?:{name})?"
        return (name if self.names is not False else "") + (f"{numbers}{mark}" if self.numbers else "")


def _family(call: Call) -> str:
    return "grep" if call.name in {"egrep", "fgrep"} else call.name


def _words(call: Call, patterns: Sequence[str | None]) -> list[Word] | None:
    """The words of its operands that name files; None if they cannot be told apart."""
    if call.command is None:
        return None
    texts = list(call.operands)
    words = [word for word in call.command.args if word.text is None or word.text in texts]
    found: list[Word] = []
    for word in reversed(words):
        if texts and word.text == texts[-1]:
            found.append(word)
            texts.pop()
    found.reverse()
    if texts:
        return None
    return found if _option_patterns(call) else found[len(patterns) :]


def _option_patterns(call: Call) -> bool:
    return call.given("-e", "-f", "--regexp", "--file", "--files")


def _patterns(call: Call) -> list[str | None]:
    """The patterns as they were given; None for one that is not spelt out."""
    if call.given("-f", "--file", "--files"):
        return [None]
    given = [*call.options.get("-e", ()), *call.options.get("--regexp", ())]
    if not given:
        given = list(call.operands[:1])
    # Claude Code puts a backslash before `!`; lines of one word are patterns of their own.
    return [part for text in given for part in (text.split("\n") if text and "!" not in text else [None])]


def _translated(call: Call) -> Translated | None:
    """What the lines match that it looks for."""
    patterns = _patterns(call)
    if len(patterns) > _MOST:
        return None
    kind = _family(call)
    if sum(call.given(*names) for names in _DIALECTS) > 1:
        return None  # some take the last, some refuse
    fixed = call.given("-F", "--fixed-strings") or call.name == "fgrep"
    dialect: Dialect = "basic"
    if kind == "rg":
        dialect = "rust"
        if call.given("-P", "--pcre2"):
            return None
    elif call.given("-E", "--extended-regexp") or call.name == "egrep":
        dialect = "extended"
    elif call.given("-P", "--perl-regexp"):
        dialect = "rust"
    found = union([None if text is None else literal(text) if fixed else translate(text, dialect) for text in patterns])
    if found is None:
        return None
    if kind == "git grep" and not call.given(*(name for names in _DIALECTS for name in names)) and not found.plain:
        return None  # the configuration says how it reads patterns
    folds = call.given("-i", "-y", "--ignore-case")
    if kind == "rg" and not call.given("-s", "--case-sensitive"):
        # Its configuration may ask for `--smart-case`.
        folds = folds or all(text is not None and text == text.lower() for text in patterns)
    return found.folded() if folds else found


def _path(call: Call, words: Sequence[Word], session: Session) -> str:
    """The pattern of the names that stand before lines: what was named, or what is below it."""
    kind = _family(call)
    if kind == "git grep":
        return ".*?"
    if all(word.text in {".", "./"} for word in words):
        return _kind(call) or ".*?"
    alternatives: list[str] = []
    for word in words:
        whole = word.text is not None and not word.globs
        text = (word.text if word.text is not None else word.head).replace("\\", "/")
        cut = next((index for index, letter in enumerate(text) if letter in _SPECIAL), None)
        if cut is not None:
            text, whole = text[:cut], False
        start = text.rstrip("/") if whole else text
        while start.startswith("./"):
            start = start[2:]
        if start in {"", ".", "-"} or start.startswith("~"):
            return ".*?"
        if start.startswith("/") and (session.profile.windows or start[2:3] == "/"):
            return ".*?"  # a Windows program is told another path
        alternatives.append(rf"(?:\./)*{quoted(start)}(?:[/\\]+.*?)?" if whole else rf"(?:\./)*{quoted(start)}.*?")
        if len(alternatives) > _MOST:
            return ".*?"
    return "|".join(alternatives)


def _kind(call: Call) -> str | None:
    """The pattern of the names of files that it was told to look into; None if these are all."""
    rg = _family(call) == "rg"
    globs = [*call.options.get("-g", ()), *call.options.get("--glob", ())] if rg else call.options.get("--include", ())
    if not globs or any(glob is None or ("/" in glob and not rg) for glob in globs):
        return None
    return ending([glob for glob in globs if glob is not None and not glob.startswith("!")])


def _named(call: Call, words: Sequence[Word]) -> bool | None:
    """Do names of files stand before what it found?

    `ugrep`, which passes for `grep` in some harnesses, looks into a directory unasked and names no file if all others
    are missing.
    """
    kind = _family(call)
    if call.given("-h" if kind != "rg" else "-I", "--no-filename"):
        return False
    if kind == "git grep" or call.given("-H", "--with-filename"):
        return True
    if kind == "rg" or call.given("-r", "-R", "--recursive", "--dereference-recursive"):
        if not words and call.piped and kind == "rg":
            return False
        several = len(words) > 1 and kind == "rg" and all(word.text is not None for word in words)
        return True if several or any((word.text or "").endswith("/") for word in words) else None
    return None if words else False


def _understood(call: Call) -> bool:
    """Does it have no option of unknown meaning?"""
    kind = _family(call)
    own = _OWN.get(kind)
    coloured = call.value("--color", "--colour") not in {None, "never", "auto"}
    return (
        own is not None
        and not coloured
        and all(name in _COMMON or name in own or name[1:].isdigit() for name in call.options)
    )


def _search(call: Call, session: Session) -> _Search | None:
    if not _understood(call) or call.given("-q", "--quiet", "--silent"):
        return None
    patterns = _patterns(call)
    words = _words(call, list(call.operands[:1]))
    if words is None or not patterns:
        return None
    numbered = call.given("-n", "--line-number")
    if _family(call) == "rg" and call.given("-N", "--no-line-number"):
        return None
    context = call.given(*_CONTEXT) or bool(call.numbers)
    named = _named(call, words)
    into_pipe = call.command is not None and call.command.into_pipe
    headed = _family(call) == "rg" and named is not False and not into_pipe and not call.given("--no-heading")
    return _Search(
        found=None if call.given("-v", "--invert-match") else _translated(call),
        names=None if headed and named else named,
        path=_path(call, words, session),
        numbers=numbered,
        context=context,
        only=_only(call),
        headed=headed,
    )


def _lists(call: Call) -> bool:
    return call.given("-c", "--count", *_LISTING)


def _only(call: Call) -> bool:
    return call.given("-o", "--only-matching")


def _lines(call: Call, search: _Search) -> str | None:
    """The pattern of the lines that it found."""
    if search.found is None:
        return None
    prefix = search.prefix()
    if _family(call) in {"rg", "git grep"}:
        prefix += r"(?:\d+:){0,2}"  # the configuration may ask for numbers of lines and columns
    return search.found.whole(prefix) if search.only else search.found.after(prefix)


def matching(call: Call, session: Session) -> Iterable[Finding]:
    """Every line that a search prints is one that it looked for."""
    search = _search(call, session)
    if search is None or search.context or _lists(call):
        return
    lines = _lines(call, search)
    if lines is not None:
        yield Finding(text=lines + search.others)


def surrounded(call: Call, session: Session) -> Iterable[Finding]:
    """Lines around those found have their number before a `-`; groups are divided by `--`."""
    search = _search(call, session)
    if search is None or not search.context or not search.numbers or _lists(call) or _only(call):
        return
    lines = _lines(call, search) or f"^(?:{search.prefix()})"
    yield Finding(text=f"^--$|^(?:{search.prefix('-')})|{lines}{search.others}")


def begun(call: Call, session: Session) -> Iterable[Finding]:
    """With lines after those found, but none before, the first is one that was looked for."""
    search = _shown_around(call, session)
    if search is not None and not call.given(*_BEFORE) and not call.numbers:
        yield Finding(text=f"{_lines(call, search)}{search.others}")


def among(call: Call, session: Session) -> Iterable[Finding]:
    """With lines before those found, some line is one that was looked for."""
    search = _shown_around(call, session)
    if search is not None:
        yield Finding(text=f"{_lines(call, search)}{search.others}")


def _shown_around(call: Call, session: Session) -> _Search | None:
    """A search that prints other lines beside those it found, without anything that tells them apart."""
    search = _search(call, session)
    if search is None or not search.context or search.numbers or search.found is None or _lists(call) or _only(call):
        return None
    return None if search.found.accepts("") else search


def numbered(call: Call, session: Session) -> Iterable[Finding]:
    """What was looked for cannot be told, but each line begins with its number."""
    search = _search(call, session)
    if search is not None and search.found is None and search.numbers and not search.context and not _lists(call):
        yield Finding(text=f"^(?:{search.prefix()}){search.others}")


def counted(call: Call, session: Session) -> Iterable[Finding]:
    """`-c` prints numbers, after the name of the file if there are several."""
    search = _search(call, session)
    if search is None or not call.given("-c", "--count") or call.given("-l", "--files-with-matches", "-o"):
        return
    prefix = msgspec.structs.replace(search, numbers=False).prefix()
    yield Finding(text=rf"^(?:{prefix})\d+$" + search.others)


def listed(call: Call, session: Session) -> Iterable[Finding]:
    """`-l` prints paths that begin with what it was told to search."""
    search = _search(call, session)
    if search is None or not call.given(*_LISTING) or call.given("-c", "--count"):
        return
    if search.path != ".*?":
        yield Finding(text=f"^(?:{search.path})$" + search.others)


def excluded(call: Call, session: Session) -> Iterable[Finding]:
    """No line of `grep -v` is one that it was told to leave out."""
    search = _search(call, session)
    if search is None or not call.given("-v", "--invert-match") or search.context or search.numbers or _lists(call):
        return
    left_out = _translated(call)
    if left_out is not None and left_out.exact and search.names is False and not call.given(*_NARROW):
        yield Finding(text=left_out.somewhere(), values={"pattern": str(call.operands[0] if call.operands else "")})


_NARROW = ("-w", "-x", "-o", "-P", "--word-regexp", "--line-regexp", "--only-matching", "--perl-regexp")


def found_nothing(call: Call, session: Session) -> Iterable[Finding]:
    """A search that fails found nothing, unless it could not read something and says so elsewhere."""
    if session.profile.windows or call.piped or not _understood(call) or _hides(call):
        return  # with `pipefail` it may be another program of the pipe that failed
    if not call.given("-s", "--no-messages", "-c", "--count", "-q", "--quiet", "--silent"):
        yield Finding()


def _hides(call: Call) -> bool:
    return call.command is None or any(redirect.fd != 0 for redirect in call.command.redirects)


def found_something(call: Call, session: Session) -> Iterable[Finding]:
    """A search that succeeds prints a line, and not only blank ones."""
    search = _search(call, session)
    if search is None or call.targets or _hides(call):
        return
    blank = search.found is None or search.found.accepts("") or search.found.accepts(" ")
    if _lists(call) or not blank or ((search.numbers or search.names) and not _only(call)):
        yield Finding()


FACTS: Mapping[str, Fact] = {
    "search-matching": matching,
    "search-surrounded": surrounded,
    "search-begun": begun,
    "search-among": among,
    "search-numbered": numbered,
    "search-counted": counted,
    "search-listed": listed,
    "search-excluded": excluded,
    "search-nothing": found_nothing,
    "search-something": found_something,
    **search_tools.FACTS,
}
