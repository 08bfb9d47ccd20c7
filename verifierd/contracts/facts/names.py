"""Facts about names: what listings of files look like, and which names they must or cannot hold."""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from verifierd.commandline.reading import Word
from verifierd.contracts.calls import Call
from verifierd.contracts.facts.base import Fact, Finding
from verifierd.contracts.state.effects import Effect
from verifierd.contracts.state.session import Session

__all__ = ("FACTS",)

_TROUBLE = r"\x1b|^(?:ls|find|wc|du): |No such file|[Pp]ermission denied|not permitted|cannot access|os error"
"""Lines that are no names: colours, and the diagnostics of programs that pass for `ls`."""
_ENDING = r"[*/@|=%>]?"
"""What `ls -F` appends."""
_PLAIN = frozenset({
    "-1", "-A", "-B", "-F", "-G", "-H", "-L", "-N", "-S", "-U", "-X", "-a", "-c", "-f", "-h", "-p", "-q", "-r", "-t",
    "-u", "-v", "--all", "--almost-all", "--classify", "--color", "--group-directories-first", "--reverse", "--sort",
    "--time",
})  # fmt: skip
"""Options of `ls` that leave each line a name."""
_FILE = re.compile(r"\.(?:cfg|csv|gz|h|hpp|ini|json|jsonl|jsx|md|png|sql|svg|toml|tsx|txt|xml|yaml|yml|zip)$")
"""Endings of names that no directory has; projects call themselves `discord.py`, `three.js`, `acme.sh`."""
_FIND_FLAGS = frozenset({"-H", "-L", "-P", "-E", "-X", "-d", "-s", "-x", "-O1", "-O2", "-O3"})
_FIND_SILENT = frozenset({
    "-delete", "-exec", "-execdir", "-f", "-files0-from", "-fls", "-fprint", "-fprint0", "-fprintf", "-ls", "-ok",
    "-okdir", "-print0", "-printf", "-printx", "-quit",
})  # fmt: skip
"""After these `find` does not print paths, one a line, or not all of them come from where one can see."""
_FIND_VALUES = frozenset({
    "-amin", "-anewer", "-atime", "-cmin", "-cnewer", "-ctime", "-fstype", "-gid", "-group", "-ilname", "-iname",
    "-inum", "-ipath", "-iregex", "-iwholename", "-links", "-lname", "-maxdepth", "-mindepth", "-mmin", "-mtime",
    "-name", "-newer", "-path", "-perm", "-regex", "-regextype", "-samefile", "-size", "-type", "-uid", "-used",
    "-user", "-wholename", "-xtype",
})  # fmt: skip
_MOST = 20
_PATH = re.compile(r"[\w.+@/-]{4,200}")
_NAME = re.compile(r"[\w.+@-]{1,100}")
_COLOUR = r"(?:\x1b\[[\d;]*[mK])*"
_SHOWN = rf"{_COLOUR}(?P<name>[^\s/\x1b]+?){_COLOUR}[*/@|=%>]?{_COLOUR}"
_PLAIN_NAME = rf"{_SHOWN}(?:\s|$)"
"""A name by itself, or in one of several columns, as on a terminal."""
_LONG_NAME = rf"(?:^|\s){_SHOWN}(?: -> .*)?$"


def listed(call: Call, _session: Session) -> Iterable[Finding]:
    """The lines of a plain `ls`: names without a `/` within, or words of the command line."""
    if not set(call.options) <= _PLAIN:
        return
    words = _words(call)
    if not call.operands:
        yield Finding(text=rf"^[^/]*/?$|{_TROUBLE}")
    elif words and not any(word.globs for word in words):
        named = "|".join(map(_printed, words))
        yield Finding(text=rf"^[^/]*/?$|^(?:{named}){_ENDING}:?$|{_TROUBLE}")


def listed_files(call: Call, _session: Session) -> Iterable[Finding]:
    """The lines of `ls` where each word can only mean files, or itself for `-d`: each is such a word."""
    words = _words(call)
    if not words or not set(call.options) <= _PLAIN | {"-d", "--directory"}:
        return
    itself = call.given("-d", "--directory")
    if not (itself or all(_FILE.search(word.holes) for word in words)):
        return
    named = "|".join(map(_printed, words))
    shown = " ".join(word.holes.replace("\0", "*") for word in words)
    yield Finding(text=rf"^(?:{named}){_ENDING}$|{_TROUBLE}", values={"words": shown})


def counted(call: Call, _session: Session) -> Iterable[Finding]:
    """The lines of `wc` or `du` with files: numbers and a name."""
    words = _words(call)
    if not words:
        return
    named = "|".join(map(_printed, words))
    total = len(words) > 1 or any(word.globs for word in words) or call.given("-c", "--total")
    if call.name == "du":
        inner = "" if call.given("-s", "--summarize") else "(?:/.*)?"
        last = r"|^\s*[\d.,]+[BKMGTPEi]*\s+\S+$" if total else ""
        yield Finding(text=rf"^\s*[\d.,]+[BKMGTPEi]*\s+(?:{named}){inner}$|{_TROUBLE}{last}")
    else:
        last = r"|^\s*(?:\d+\s+){1,5}\pL{3,12}$" if total else ""
        yield Finding(text=rf"^\s*(?:\d+\s+){{1,5}}(?:{named})$|{_TROUBLE}{last}")


class _Search(msgspec.Struct):
    """What a `find` looks for.

    Attributes:
        starts: Its starting points, as patterns.
        depth: How far below one it goes at most; None for any.
        names: Patterns of the base names, one of which each result has; empty if it may have any.
    """

    starts: list[str]
    depth: int | None = None
    names: list[str] = msgspec.field(default_factory=list)


def found_below(call: Call, _session: Session) -> Iterable[Finding]:
    """The lines of `find`: paths that begin with a starting point, no deeper than asked for."""
    search = _search(call)
    if search is not None:
        below = r"(?:/.*)?" if search.depth is None else rf"(?:/+[^/]+){{0,{search.depth}}}/*"
        yield Finding(text=rf"^(?:{'|'.join(search.starts)}){below}$|{_TROUBLE}")


def found_names(call: Call, _session: Session) -> Iterable[Finding]:
    """The lines of `find -name`: paths whose last name is as asked for."""
    search = _search(call)
    if search is not None and search.names:
        yield Finding(text=rf"(?:^|/)(?:{'|'.join(search.names)})/*$|{_TROUBLE}")


def located(call: Call, _session: Session) -> Iterable[Finding]:
    """The name that `which` or `command -v` was asked for stands in what it prints."""
    word = call.operands[0] if len(call.operands) == 1 else None
    if word is None or call.globs or (call.name == "command" and not call.given("-v", "-V")):
        return
    name = word.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".exe")
    if re.fullmatch(r"[\w.+-]{2,60}", name):
        yield Finding(values={"name": name})


def stated(call: Call, _session: Session) -> Iterable[Finding]:
    """`stat` names each file that it was asked about, on every system, unless it was told a form."""
    if set(call.options) <= {"-L", "-x"} and call.cwd is not None and not call.globs:
        for word in call.operands[:_MOST]:
            if word is not None and _PATH.fullmatch(word):
                yield Finding(values={"word": word})


def gone(call: Call, session: Session) -> Iterable[Finding]:
    """A file that the session removed cannot be read."""
    word = call.operands[0] if len(call.operands) == 1 else None
    if word is None or call.globs or call.cwd is None or call.given("--help", "--version"):
        return
    if _is_settled(session) and session.paths.exists(call.path(word)) is False:
        yield Finding(values={"word": word})


def names_there(call: Call, session: Session) -> Iterable[Finding]:
    """Names that the session made in a directory, and that `ls` must list."""
    names = tuple(name for name, exists in _within(call, session) if exists)
    if names:
        yield Finding(text=_LONG_NAME if call.given("-l") else _PLAIN_NAME, texts=names, values={"name": names[0]})


def names_gone(call: Call, session: Session) -> Iterable[Finding]:
    """Names that the session removed from a directory, and that `ls` cannot list."""
    names = tuple(name for name, exists in _within(call, session) if not exists)
    if names:
        yield Finding(text=_LONG_NAME if call.given("-l") else _PLAIN_NAME, texts=names, values={"name": names[0]})


def _within(call: Call, session: Session) -> list[tuple[str, bool]]:
    """What is known of the names in the one directory that `ls` lists; nothing if it may print them otherwise."""
    if call.cwd is None or call.globs or len(call.operands) > 1 or not set(call.options) <= (_PLAIN | {"-l"}) - {"-B"}:
        return []
    word = call.operands[0] if call.operands else "."
    if word is None or not _is_settled(session):
        return []
    hidden = call.given("-a", "-A", "-f", "--all", "--almost-all")
    found = session.paths.within(call.path(word))
    return [(name, exists) for name, exists in found if _NAME.fullmatch(name) and (hidden or name[0] != ".")][-_MOST:]


def _is_settled(session: Session) -> bool:
    return session.keeps(Effect.NAMES)


def _search(call: Call) -> _Search | None:
    """What a `find` looks for; None if that cannot be told."""
    words = _args(call)
    if len(words) > 200 or call.piped:
        return None
    index = 0
    while index < len(words) and (words[index].text or "") in _FIND_FLAGS:
        index += 1
    starts: list[Word] = []
    while index < len(words) and not (words[index].holes or "!").startswith(("-", "(", "!")):
        starts.append(words[index])
        index += 1
    rest = words[index:]
    if len(starts) > _MOST or not all(map(_is_told, starts)):
        return None
    if any(word.text in _FIND_SILENT for word in rest):
        return None
    result = _Search(starts=[_printed(word).removesuffix("/") for word in starts] or [r"\."])
    tokens = _tokens(rest)
    if tokens is None:
        return None
    for name, value in tokens:
        if name == "-maxdepth" and value is not None and (value.text or "").isdigit() and len(value.text or "") < 4:
            result.depth = int(value.text or "")
    if result.depth is None and any(name == "-maxdepth" for name, _ in tokens):
        return None
    result.names = _named(tokens) or []
    return result


def _tokens(words: Sequence[Word]) -> list[tuple[str, Word | None]] | None:
    """An expression of `find` as tests with their values; None if one is not spelt out."""
    result: list[tuple[str, Word | None]] = []
    index = 0
    while index < len(words):
        text = words[index].text
        if text is None or words[index].globs or not text.startswith(("-", "(", ")", "!", ",")):
            return None
        value = None
        if text in _FIND_VALUES or text.startswith("-newer"):
            index += 1
            if index == len(words):
                return None
            value = words[index]
        result.append((text, value))
        index += 1
    return result


def _named(tokens: Sequence[tuple[str, Word | None]]) -> list[str] | None:
    """Patterns of the base names that an expression lets through; None for any.

    Understood where every alternative asks for a name, be it at the top or in one pair of parentheses.
    """
    names = [name for name, _ in tokens]
    if "," in names or names.count("(") != names.count(")") or names.count("(") > 1:
        return None
    inner: list[str] | None = None
    if "(" in names:
        start, end = names.index("("), names.index(")")
        if end < start or (start and names[start - 1] in {"!", "-not"}):
            return None
        inner = _named(tokens[start + 1 : end])
        tokens = [*tokens[:start], ("(", None), *tokens[end + 1 :]]
    result: list[str] = []
    here: list[str] | None = None
    for (before, _), (name, value) in zip([("", None), *tokens], [*tokens, ("-o", None)], strict=True):
        if name in {"-o", "-or"}:
            if here is None:
                return None
            result += here
            here = None
        elif name == "(":
            here = here or inner
        elif name in {"-name", "-iname"} and before not in {"!", "-not"}:
            pattern = _pattern(value) if value is not None else None
            if pattern is not None:
                here = here or [f"(?i:{pattern})" if name == "-iname" else pattern]
    return result


def _pattern(word: Word) -> str | None:
    """A `-name` as a pattern; None if it is not spelt out, or of a form that is not known."""
    if word.text is None or word.globs or "[" in word.text or "\\" in word.text or "/" in word.text:
        return None
    return "".join(
        "[^/]*" if letter == "*" else "[^/]" if letter == "?" else re.escape(letter) for letter in word.text[:200]
    )


def _args(call: Call) -> list[Word]:
    """The words after a program's name."""
    if call.command is None or call.command.name is None:
        return []
    words = [call.command.name, *call.command.args]
    for index, word in enumerate(words):
        if word.text is not None and word.text.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".exe") == call.name:
            return words[index + 1 :]
    return []


def _words(call: Call) -> list[Word]:
    """The words that are no options, in order; empty if there are too many or one cannot be told."""
    words = [word for word in _args(call) if not word.holes.startswith("-")]
    if len(words) != len(call.operands) or len(words) > _MOST or not all(map(_is_told, words)):
        return []
    return words


def _is_told(word: Word) -> bool:
    """Is a word spelt out, but for the home directory, or a single wildcard with some text around it?

    What the text before a brace expansion is cannot be told, and of several holes one may be such an expansion.
    """
    if word.text is not None:
        return bool(word.text)
    one = word.globs if not word.names else word.names == ("HOME",)
    return one and not word.substitutes and word.holes.count("\0") == 1 and len(word.holes) > 1


def _printed(word: Word) -> str:
    """A path as it is printed, as a pattern: as it is spelt, with anything for what it expands."""
    return ".*".join(map(re.escape, word.holes.split("\0")))


FACTS: Mapping[str, Fact] = {
    "listed-names": listed,
    "listed-words": listed_files,
    "counted-files": counted,
    "found-below": found_below,
    "found-names": found_names,
    "located-name": located,
    "removed-path": gone,
    "stated-path": stated,
    "made-names": names_there,
    "removed-names": names_gone,
}
