"""Faults: what an environment that lies, breaks or is tampered with would answer."""

import json
import random
import re
from collections.abc import Iterator, Mapping

from verifierd.contracts.measure import tool_of
from verifierd.replay.edits import Case, Edit, Kind, decoded, lines, reads, shuffled, whole
from verifierd.replay.lost import lost_writes
from verifierd.replay.spoken import an_order, calls

__all__ = ("FAULTS",)

_NUMBER = re.compile(r"(?<![\w.])\d{1,18}(?:\.\d{1,18})?(?![\w])|(?<=[A-Za-z#_:-])\d{1,18}(?!\w)")
_ENTITIES = (
    re.compile(r"(?<![\w./-])(?:[\w.-]{1,60}/){0,12}[\w-]{2,60}\.[a-z][a-z0-9]{0,4}(?![\w/])"),  # a file
    re.compile(r"(?<![\w.])[\w.+-]{2,40}@[\w-]{2,40}(?:\.[\w-]{2,20}){1,4}"),  # an address
    re.compile(r"(?<!\w)[a-z]{2,20}(?:_[a-z0-9]{2,20}){1,5}(?!\w)"),  # an identifier
    re.compile(r"(?<!\w)[a-z]{2,20}(?:[A-Z][a-z0-9]{1,20}){1,5}(?!\w)"),
    re.compile(r"(?<![\w#])#?[A-Z]{1,4}[0-9]{3,12}(?!\w)"),  # an order, a flight
    re.compile(r"(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])"),
    re.compile(r"(?:(?<=/home/)|(?<=/Users/)|(?<=[ (]@)|(?<=Author: ))[A-Za-z][\w-]{1,38}(?!\w)"),  # a user
)


def _another_session(case: Case, draw: random.Random) -> Iterator[Edit]:
    """The observation of the same tool in another trajectory."""
    return (whole(case, other.observation) for other in case.pool.same_tool(case.step, draw))


def _another_step(case: Case, draw: random.Random) -> Iterator[Edit]:
    """The observation of another step of the same trajectory, not the one before."""
    return (whole(case, past.observation) for past in shuffled(case.history[:-1], draw))


def _wrong_tool(case: Case, draw: random.Random) -> Iterator[Edit]:
    """The observation of another tool: of this trajectory if there is one, else of another."""
    tool = tool_of(case.step)
    for past in shuffled(case.history, draw):
        if tool_of(past) != tool:
            yield whole(case, past.observation)
    for other in case.pool.other_tool(case.step, draw):
        yield whole(case, other.observation)


def _stale(case: Case, _draw: random.Random) -> Iterator[Edit]:
    """The observation of the step before, again."""
    if case.history:
        yield whole(case, case.history[-1].observation)


def _outdated(case: Case, _draw: random.Random) -> Iterator[Edit]:
    """The same action gets the answer that it got the last time, which is not true any more."""
    for past in reversed(case.history):
        if past.action == case.step.action and past.cwd == case.step.cwd:
            yield whole(case, past.observation)
            return


def _line_dropped(case: Case, draw: random.Random) -> Iterator[Edit]:
    """One line that is not blank is missing."""
    inked = [place for place in lines(case.text) if case.text[slice(*place)].strip()]
    if len(inked) > 1:
        for start, end in shuffled(inked, draw):
            yield Edit(start, end, "")


def _number_changed(case: Case, draw: random.Random) -> Iterator[Edit]:
    """One digit of one number is another one; values that change from run to run are left alone."""
    free = case.lasting
    for match in shuffled(list(_NUMBER.finditer(free)), draw):
        start, end = match.span()
        at = draw.randrange(start, end)
        old = case.text[at]
        if not old.isascii() or not old.isdigit():
            continue
        digit = draw.choice([letter for letter in "0123456789" if letter != old])
        yield Edit(start, end, case.text[start:at] + digit + case.text[at + 1 : end])


def _entity_changed(case: Case, draw: random.Random) -> Iterator[Edit]:
    """One name (a file, an identifier, an address) is another one of its sort, where there is one, or is misspelt."""
    free = case.lasting
    found = [(pattern, match) for pattern in _ENTITIES for match in pattern.finditer(free)]
    nearby = [case.text, *(past.observation for past in case.history[-8:])]
    for pattern, match in shuffled(found, draw):
        start, end = match.span()
        old = case.text[start:end]
        others = sorted({other.group() for text in nearby for other in pattern.finditer(text[:20_000])} - {old})
        yield Edit(start, end, draw.choice(others) if others else _misspelt(old, draw))


def _misspelt(name: str, draw: random.Random) -> str:
    letters = [index for index, letter in enumerate(name) if letter.isascii() and letter.isalnum()]
    at = draw.choice(letters)
    sort = "0123456789" if name[at].isdigit() else "abcdefghijklmnopqrstuvwxyz"
    letter = draw.choice([other for other in sort if other != name[at].lower()])
    return name[:at] + (letter.upper() if name[at].isupper() else letter) + name[at + 1 :]


def _empty(case: Case, _draw: random.Random) -> Iterator[Edit]:
    """Nothing came back."""
    if case.text.strip():
        yield whole(case, "")


def _truncated(case: Case, draw: random.Random) -> Iterator[Edit]:
    """The end is missing: all after a place in the second or third quarter."""
    ink = len(case.text.rstrip())
    if ink >= 20:
        yield Edit(draw.randrange(ink // 4, ink * 3 // 4), len(case.text), "")


def _error_flip(case: Case, _draw: random.Random) -> Iterator[Edit]:
    """Success is reported as failure, or the reverse; the text stays."""
    if case.step.exit_code is not None:
        yield Edit(0, 0, "", failed=case.step.exit_code == 0, status_only=True)
    elif case.step.action.command is None:
        yield Edit(0, 0, "", failed=not case.step.is_error, status_only=True)


_ERRORS = (
    "Error: operation failed",
    "Error: connection timed out after 30000 ms",
    "Permission denied",
    "Internal server error (500)",
    '{"error": {"code": "internal", "message": "unexpected failure"}}',
    "Segmentation fault (core dumped)",
)
_SHELL_ERRORS = ("{0}: command not found", "{0}: No such file or directory", "{0}: Permission denied", "{0}: Killed")


def _explicit_error(case: Case, draw: random.Random) -> Iterator[Edit]:
    """What went well is told to have failed, in words and status."""
    if case.step.succeeded is False:
        return
    command = case.step.action.command
    words = (command or "").split()
    errors = [*_ERRORS, *(text.format(words[0]) for text in _SHELL_ERRORS if words)]
    yield whole(case, draw.choice(errors) + ("\n" if command else ""), failed=True)


def _false_success(case: Case, draw: random.Random) -> Iterator[Edit]:
    """What failed is told to have gone well, with what the same tool says then."""
    if case.step.succeeded is not False:
        return
    for other in (*shuffled(case.history, draw), *case.pool.same_tool(case.step, draw)):
        if tool_of(other) == tool_of(case.step) and other.succeeded:
            yield whole(case, other.observation, failed=False)


def _role_break(case: Case, draw: random.Random) -> Iterator[Edit]:
    """The call comes back instead of its result, in one of the ways in which models spell calls."""
    for call in calls(case.step.action, draw):
        yield whole(case, call + draw.choice(("", "\n")))


def _injected_instruction(case: Case, draw: random.Random) -> Iterator[Edit]:
    """Orders to the reader stand in the result: in a value of JSON, else on a line of their own."""
    order = an_order(draw)
    if decoded(case.text) is not None:
        for match in shuffled([found for found in _VALUE.finditer(case.text) if found["value"][0] == '"'], draw):
            at = match.end("value") - 1
            yield Edit(at, at, f" {json.dumps(order, ensure_ascii=False)[1:-1]}")
    places = [0, *(end for _, end in lines(case.text))]
    at = draw.choice(places)
    before = "" if at == 0 or case.text[at - 1] == "\n" else "\n"
    yield Edit(at, at, f"{before}{order}\n")


def _key_renamed(case: Case, draw: random.Random) -> Iterator[Edit]:
    """One key of a JSON result has another name."""
    if decoded(case.text) is None:
        return
    for match in shuffled(list(_KEY.finditer(case.text)), draw):
        name = match["key"]
        new = f"{name}_id" if "_" in name else f"{name}Value" if name[:1].islower() else f"new_{name}"
        yield Edit(match.start("key"), match.end("key"), new)


def _type_changed(case: Case, draw: random.Random) -> Iterator[Edit]:
    """One value of a JSON result is of another type: a number is a text, a text is null."""
    if decoded(case.text) is None:
        return
    for match in shuffled(list(_VALUE.finditer(case.text)), draw):
        value = match["value"]
        new = "null" if value.startswith('"') else f'"{value}"' if value != "null" else '""'
        yield Edit(match.start("value"), match.end("value"), new)


_KEY = re.compile(r'"(?P<key>[A-Za-z_][A-Za-z0-9_]{1,40})"\s{0,4}:')
_VALUE = re.compile(
    r'"[A-Za-z_][A-Za-z0-9_]{1,40}"\s{0,4}:\s{0,4}(?P<value>"[^"\\\n]{0,200}"|-?\d{1,18}(?:\.\d{1,18})?|true|false|null)'
    r"(?=\s{0,40}[,}\]])"
)


def _wrong_content(case: Case, draw: random.Random) -> Iterator[Edit]:
    """A file is shown with what stands in another one."""
    if not reads(case.step):
        return
    donors = [*shuffled(case.history, draw), *case.pool.same_tool(case.step, draw)]
    for other in donors:
        if reads(other) and other.action.text != case.step.action.text and other.observation.strip():
            yield whole(case, other.observation)


def _write_lost(case: Case, draw: random.Random) -> Iterator[Edit]:
    """A write that was reported as done does not show: files and folders are as they were before."""
    yield from lost_writes(case, draw)
    asked = case.step.action.text
    for past in shuffled(case.history, draw):
        fields = past.action.fields
        path, old, new = (fields.get(name) for name in ("file_path", "old_string", "new_string"))
        if not (isinstance(path, str) and isinstance(old, str) and isinstance(new, str)) or past.succeeded is False:
            continue
        before, after = old.split("\n"), new.split("\n")
        if len(before) != len(after) or re.split(r"[/\\]", path)[-1] not in asked:
            continue
        for was, now in zip(before, after, strict=True):
            if was.strip() and len(now.strip()) >= 4 and was.strip() != now.strip() and case.text.count(now) == 1:
                at = case.text.index(now)
                yield Edit(at, at + len(now), was)


FAULTS: Mapping[str, Kind] = {
    "another_session": _another_session,
    "another_step": _another_step,
    "wrong_tool": _wrong_tool,
    "stale": _stale,
    "outdated": _outdated,
    "line_dropped": _line_dropped,
    "truncated": _truncated,
    "empty": _empty,
    "number_changed": _number_changed,
    "entity_changed": _entity_changed,
    "key_renamed": _key_renamed,
    "type_changed": _type_changed,
    "error_flip": _error_flip,
    "explicit_error": _explicit_error,
    "false_success": _false_success,
    "wrong_content": _wrong_content,
    "write_lost": _write_lost,
    "role_break": _role_break,
    "injected_instruction": _injected_instruction,
}
"""What must be seen: by name, in the order in which it is reported."""
