"""Where values stand that change from run to run, and names and numbers that a fault may change."""

import re

__all__ = ("ENTITIES", "NUMBER", "PIDS", "TEMPORARY", "masked", "shifted", "timestamps")

NUMBER = re.compile(r"(?<![\w.])\d{1,18}(?:\.\d{1,18})?(?![\w])|(?<=[A-Za-z#_:-])\d{1,18}(?!\w)")
ENTITIES = (
    re.compile(r"(?<![\w./-])(?:[\w.-]{1,60}/){0,12}[\w-]{2,60}\.[a-z][a-z0-9]{0,4}(?![\w/])"),  # a file
    re.compile(r"(?<![\w.])[\w.+-]{2,40}@[\w-]{2,40}(?:\.[\w-]{2,20}){1,4}"),  # an address
    re.compile(r"(?<!\w)[a-z]{2,20}(?:_[a-z0-9]{2,20}){1,5}(?!\w)"),  # an identifier
    re.compile(r"(?<!\w)[a-z]{2,20}(?:[A-Z][a-z0-9]{1,20}){1,5}(?!\w)"),
    re.compile(r"(?<![\w#])#?[A-Z]{1,4}[0-9]{3,12}(?!\w)"),  # an order, a flight
)
PIDS = re.compile(r"(?i:\bpid[ =:]{1,3}|\bprocess(?: id)?[ =:]{1,3}|(?<=\n)\[\d{1,3}\] )(?P<value>\d{2,7})(?!\w)")
TEMPORARY = re.compile(
    r"/tmp/(?:tmp\.|tmp|[a-z]{2,20}[-._])(?P<value>(?=[A-Za-z_]{0,16}[0-9A-Z])[A-Za-z0-9_]{6,16})(?![A-Za-z0-9_])"  # noqa: S108 - a pattern
)

_CLOCK = re.compile(
    r"(?:(?<=\dT)|(?<![\w:.+-]))(?P<h>[01]\d|2[0-3]):(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d))(?![\d:])"
    r"|(?<=[A-Z][a-z]{2} [ \d]\d )(?P<H>[01]\d|2[0-3]):(?P<M>[0-5]\d)(?![\w:])"  # a listing's
)
_DURATION = re.compile(
    r"(?<![\w.])\d{1,6}(?:\.\d{1,6})? ?(?:[mµn]?s|sec(?:ond)?s?|min(?:ute)?s?)(?!\w)|\d{1,3}m\d{1,2}(?:\.\d{1,3})?s"
)


def timestamps(text: str) -> list[tuple[int, int]]:
    """The times of day, in order."""
    return [match.span() for match in _CLOCK.finditer(text)]


def shifted(text: str, minutes: int) -> str | None:
    """The text with all times of day later by so much; None if one would be of the next day."""
    passed = False

    def later(match: re.Match[str]) -> str:
        nonlocal passed
        hour, minute = divmod(int(match["h"] or match["H"]) * 60 + int(match["m"] or match["M"]) + minutes, 60)
        passed = passed or hour > 23
        return f"{hour:02}:{minute:02}" + (f":{match['s']}" if match["s"] else "")

    new = _CLOCK.sub(later, text)
    return None if passed else new


def masked(text: str) -> str:
    """The text with times, durations, process numbers and temporary names blotted out, each by as many marks."""
    spans = timestamps(text)
    spans += [match.span("value") for pattern in (PIDS, TEMPORARY) for match in pattern.finditer(text)]
    spans += [match.span() for match in _DURATION.finditer(text)]
    if not spans:
        return text
    pieces: list[str] = []
    last = 0
    for start, end in sorted(spans):
        if start >= last:
            pieces += [text[last:start], "\x00" * (end - start)]
            last = end
    return "".join([*pieces, text[last:]])
