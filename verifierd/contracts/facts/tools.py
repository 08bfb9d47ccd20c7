"""Facts about agents' own tools and about tools that answer in JSON."""

import re
from collections.abc import Iterable, Iterator, Mapping

from verifierd.contracts.calls import Call
from verifierd.contracts.facts.base import Fact, Finding
from verifierd.contracts.shapes import Shape, encode
from verifierd.contracts.state.results import texts
from verifierd.contracts.state.session import Session

__all__ = ("FACTS",)

_ECHOES: Mapping[str, tuple[str, ...]] = {
    "TaskCreate": ("subject",),
    "Skill": ("skill", "command"),
    "WebSearch": ("query",),
}
"""Fields that a tool's result repeats."""
_OWN_WORDS = (
    "Agent AskUserQuestion Bash BashOutput Edit ExitPlanMode Glob Grep KillShell LS MultiEdit NotebookEdit "
    "NotebookRead PowerShell Read Skill Task TaskCreate TaskGet TaskList TaskOutput TaskUpdate TodoRead TodoWrite "
    "ToolSearch WebFetch WebSearch Write apply_patch execute_bash str_replace_editor str_replace_based_edit_tool "
    "update_plan view_image think finish shell exec exec_command write_stdin computer python bash"
)
_OWN = frozenset(_OWN_WORDS.split())
"""Tools that others' rules are about, or whose results have no form of their own."""
_OPEN = re.compile(
    r"(?i)sql|code|script|expr|statement|^jq|field|select|column|function|program|pipeline|path|file|url|uri|endpoint"
    r"|resource|document|xpath|folder|^dir|directory|^key$|template|schema|include|expand|verbose|detail"
)
"""Input fields on which the form of a result hangs."""
_CODE = re.compile(r"(?i)[{};]|=>|://|^\s*select\s|^/|\.[a-z]{1,5}$")
_WORD = re.compile(r"[^\s\"'\\]{3,80}")
_TASK = re.compile(r"Task #(\d{1,6}) created")
_SENTENCE = 40


def repeated(call: Call, session: Session) -> Iterable[Finding]:
    """The input field that a tool's result repeats; nothing if most results of this session did not."""
    for name in _ECHOES.get(call.name, ()):
        text = call.input.get(name)
        if not isinstance(text, str) or not text.strip():
            continue
        text = text.strip()
        if call.name == "Skill":
            text = text.lstrip("/")
        earlier = session.results.recent(call.name)
        kept = sum(past.input.get(name, "").strip().lstrip("/") in past.text for past in earlier)
        if 2 * kept >= len(earlier):
            yield Finding(text=text, values={"repeated": text})
        return


def next_task(call: Call, session: Session) -> Iterable[Finding]:
    """The number of the next task: one more than the last, where nobody else can have made one since."""
    earlier = session.results.recent(call.name)
    match = _TASK.search(earlier[-1].text) if earlier else None
    if match is None or earlier[-1].turn != session.turn or earlier[-1].others != session.results.others:
        return
    number = int(match[1]) + 1
    yield Finding(values={"number": str(number)})


def acknowledged(call: Call, session: Session) -> Iterable[Finding]:
    """How the last results of a tool all began that says the same each time."""
    earlier = session.results.recent(call.name)
    starts = {past.text.strip()[:_SENTENCE] for past in earlier}
    if len(earlier) > 1 and len(starts) == 1 and (start := starts.pop()):
        yield Finding(text=start, values={"start": start})


def shaped(call: Call, session: Session) -> Iterable[Finding]:
    """The shape that all earlier results of such calls had."""
    if call.name in _OWN or _is_open(call):
        return
    lesson = session.results.lesson(call.name, call.input)
    shape = lesson.shaped if lesson is not None else None
    if shape is not None and shape.kinds:
        yield Finding(text=encode(shape))


def identified(call: Call, session: Session) -> Iterable[Finding]:
    """Identifiers of the input that all earlier results of such calls held in the same place."""
    if call.name in _OWN or (lesson := session.results.lesson(call.name, call.input)) is None:
        return
    for name, text in _words(call):
        for path in lesson.echo(name)[:1]:
            values = {"place": ".".join(path), "value": text}
            yield Finding(text=encode(Shape(at=path, value=text)), values=values)


def quoted(call: Call, session: Session) -> Iterable[Finding]:
    """Input that all earlier results of such calls quoted after the same words."""
    if call.name in _OWN or (lesson := session.results.lesson(call.name, call.input)) is None:
        return
    for name, text in texts(call.input):
        left = lesson.before(name)
        if left is not None and len(text) >= 3 and "\n" not in text:
            yield Finding(text=encode(Shape(says=left + text)), values={"quoted": left + text})


def _words(call: Call) -> Iterator[tuple[str, str]]:
    return ((name, text) for name, text in texts(call.input) if _WORD.fullmatch(text))


def _is_open(call: Call) -> bool:
    """Does the form of the result hang on what was asked?"""
    return any(_OPEN.search(name) for name in call.input) or any(
        isinstance(value, dict) or (isinstance(value, str) and _CODE.search(value[:400]))
        for value in call.input.values()
    )


FACTS: Mapping[str, Fact] = {
    "repeated-input": repeated,
    "next-task": next_task,
    "acknowledged": acknowledged,
    "result-shape": shaped,
    "result-identifier": identified,
    "result-quote": quoted,
}
