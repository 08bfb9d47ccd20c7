"""Facts about literal output, lines, silence and certain statuses."""

import re
from collections.abc import Iterable, Mapping

from verifierd.contracts.calls import Call
from verifierd.contracts.facts.base import Fact, Finding
from verifierd.contracts.state.session import Session

__all__ = ("FACTS",)

_DEFAULT_LINES = 10
_MOST_COUNTED = 2_000
_DIRECTIVE = re.compile(r"%(.)|\\(.)|([^%\\]+)")
_RANGE = re.compile(r"([1-9]\d{0,6})(?:,([1-9]\d{0,6}))?p")
_INDENT = re.compile(r"s([/|#,])\^?[A-Za-z0-9 _.:@=-]+\1[A-Za-z0-9 _.:@=-]*\1g?|s/\^/ *[A-Za-z0-9>-]* */")
_PLAIN_OPTIONS = {
    "sort": frozenset({"-u", "-n", "-r", "-f"}),
    "uniq": frozenset({"-c", "-d", "-u", "-i"}),
    "wc": frozenset({"-l", "-w", "-c", "-m"}),
    "cat": frozenset[str](),
}


def _words(call: Call) -> list[str] | None:
    """The words, where every shell reads them alike or refuses them; None otherwise.

    Claude Code puts a backslash before `!`.
    """
    command = call.command
    if command is None or call.globs:
        return None
    words: list[str] = []
    for word in command.args:
        if word.text is None or "!" in word.text:
            return None
        words.append(word.text)
    return words


def _to_errors(call: Call) -> bool:
    """Does its output go where errors go, which some harnesses show apart?"""
    return call.command is not None and any(
        redirect.fd == 1 and redirect.op == ">&" for redirect in call.command.redirects
    )


def echoed(call: Call, _session: Session) -> Iterable[Finding]:
    """What `echo` prints: its words joined by blanks, where no shell could read them otherwise."""
    words = _words(call)
    if words is None or _to_errors(call) or any("\\" in word for word in words):
        return
    if words and words[0].startswith("-") and words[0].strip("-neE") == "" and words[0].strip("-"):
        return  # options, which not every shell knows
    text = " ".join(words).strip()
    if text:
        yield Finding(text=text)


def printed(call: Call, _session: Session) -> Iterable[Finding]:
    """What `printf` prints of a literal format and literal words, if that ends its line."""
    words = _words(call)
    if not words or _to_errors(call) or words[0].startswith("-"):
        return
    rest = words[1:]
    result = ""
    while True:
        before = len(rest)
        for directive, escape, plain in _DIRECTIVE.findall(words[0]):
            if plain:
                result += plain
            elif escape in {"n", "t", "\\"}:
                result += {"n": "\n", "t": "\t"}.get(escape, escape)
            elif directive == "%":
                result += "%"
            elif directive == "s" or (directive == "d" and rest and re.fullmatch(r"0|-?[1-9]\d{0,14}", rest[0])):
                result += rest.pop(0) if rest else ""
            else:
                return
        if not rest or len(rest) == before or len(result) > _MOST_COUNTED * 10:
            break
    if result.endswith("\n") and result.strip() and not rest:
        yield Finding(text=result.strip())


def counted(call: Call, _session: Session) -> Iterable[Finding]:
    """The numbers that `seq` prints; the systems differ where it would count down."""
    words = call.operands
    if call.options or not 1 <= len(words) <= 3 or any(not (word or "x").isdigit() for word in words):
        return
    numbers = [int(word or 0) for word in words]
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) > 2 else 1
    last = numbers[-1]
    if step and first <= last and (last - first) // step < _MOST_COUNTED:
        yield Finding(text="\n".join(map(str, range(first, last + 1, step))))


def line_limit(call: Call, _session: Session) -> Iterable[Finding]:
    """The number of lines that `head` or `tail` was asked for; 10 if nothing is said.

    Of several files it prints as many of each, and their names: a wildcard, too, may stand for several.
    """
    if call.globs or (call.command is not None and any(word.splits for word in call.command.args)):
        return
    if call.given("-c", "--bytes", "-f", "-F", "--follow", "-q", "-v", "-r", "-b", "-z") or len(call.operands) > 1:
        return
    wanted = call.value("-n", "--lines")
    if wanted is None:
        wanted = next(iter(call.numbers), str(_DEFAULT_LINES))
        if call.given("-n", "--lines"):
            return
    if wanted.isdigit() and len(wanted) < 8:
        yield Finding(high=int(wanted), values={"count": wanted})


def _ranges(call: Call) -> list[tuple[int, int]] | None:
    """The ranges that `sed -n 'a,bp;cp'` prints."""
    if set(call.options) - {"-n", "-e"} or not call.given("-n"):
        return None
    given = [*call.options.get("-e", ())] or [*call.operands[:1]]
    ranges: list[tuple[int, int]] = []
    for script in given:
        for piece in (script or "?").split(";"):
            match = _RANGE.fullmatch(piece.strip())
            if match is None:
                return None
            first = int(match[1])
            ranges.append((first, max(first, int(match[2] or first))))
    return ranges or None


def printed_limit(call: Call, _session: Session) -> Iterable[Finding]:
    """How many lines `sed -n` was asked for."""
    ranges = _ranges(call)
    if ranges is not None:
        count = sum(last - first + 1 for first, last in ranges)
        yield Finding(high=count, values={"count": str(count)})


def numbered(call: Call, _session: Session) -> Iterable[Finding]:
    """Where the numbers of `nl -ba f` begin, cut by `sed -n 'a,bp'` or `head` or not."""
    if call.name in {"nl", "cat"}:
        wanted = {"-b"} if call.name == "nl" else {"-n"}
        if set(call.options) == wanted and call.value("-b") in {"a", None} and len(call.operands) == 1:
            yield Finding(low=1)
        return
    before = call.command.before if call.command is not None else None
    if before is None or before.before is not None or before.name is None or not call.piped:
        return
    words = [word.text for word in before.args]
    if before.name.text == "nl" and words[:1] == ["-ba"] and len(words) == 2:
        if call.name == "sed":
            ranges = _ranges(call)
            if ranges is not None and len(ranges) == 1 and len(call.operands) == 1:
                yield Finding(low=ranges[0][0])
        elif not call.operands and not call.given("-c", "--bytes"):
            yield Finding(low=1)


def one_count(call: Call, _session: Session) -> Iterable[Finding]:
    """`wc` was asked for one of its counts."""
    if len(call.options) == 1 and call.given("-l", "-w", "-c", "-m"):
        yield Finding()


def silent(call: Call, _session: Session) -> Iterable[Finding]:
    """Nothing in its words runs another program, and it is not a form that prints."""
    command = call.command
    if command is None or any(word.substitutes for word in (*command.args, *command.assigned.values())):
        return
    if call.name == "cd" and (call.options or len(call.operands) > 1 or "-" in call.operands):
        return
    if call.name == "export" and (call.options or not (call.operands or command.assigned)):
        return
    yield Finding()


def cannot_fail(call: Call, _session: Session) -> Iterable[Finding]:
    """It reads a pipe, and its options are ones that every system knows."""
    if call.globs or call.command is None:
        return
    if call.name == "sed":
        script = call.operands[0] if len(call.operands) == 1 else None
        plain = not call.options and script is not None and _INDENT.fullmatch(script)
        if plain or (len(call.operands) == 1 and not call.given("-e") and _ranges(call) is not None):
            yield Finding()
        return
    if call.operands:
        return
    if call.name in _PLAIN_OPTIONS:
        if not set(call.options) - _PLAIN_OPTIONS[call.name]:
            yield Finding()
        return
    # macOS refuses `head -n 0` and `head -n -5`
    value = call.value("-n", "-c") if call.given("-n", "-c") else next((name[1:] for name in call.options), "10")
    digits = (value or "").removeprefix("+") if call.name == "tail" else value or ""
    if len(call.options) <= 1 and digits.isdigit() and int(digits[:9]) > 0:
        yield Finding()


def plain_words(call: Call, _session: Session) -> Iterable[Finding]:
    """No word of it may be read as a pattern or a lookup that fails: zsh looks up `=name`."""
    words = _words(call)
    if words is not None and not call.targets and not any(word.startswith("=") for word in words):
        yield Finding()


def exit_code(call: Call, _session: Session) -> Iterable[Finding]:
    """The status that `exit` names."""
    word = call.operands[0] if len(call.operands) == 1 else None
    if word is not None and word.isdigit() and len(word) < 4 and int(word) < 124:
        yield Finding(low=int(word), high=int(word))


FACTS: Mapping[str, Fact] = {
    "cannot-fail": cannot_fail,
    "counted": counted,
    "echoed": echoed,
    "exit-code": exit_code,
    "line-limit": line_limit,
    "numbered": numbered,
    "one-count": one_count,
    "plain-words": plain_words,
    "printed": printed,
    "printed-limit": printed_limit,
    "silent": silent,
}
