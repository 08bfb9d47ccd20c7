"""Content classes: what of an observation follows from the history, what only a run can tell, and what nobody showed.

- `deterministic`: it follows from the action and the history, so it must match;
- `pre-existing`: it depends on state that nobody showed, so it can only be plausible;
- `runtime`: a time, a pid, a temporary name: only its form can be known.

What looks like runtime content is described by documents, `policies/classes/*.toml`; `policies/classes/README.md` is
the reference of their format. A literal that the action or an earlier observation shows is deterministic whatever it
looks like.
"""

import difflib
import re
import tomllib
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import re2

from verifierd.bundled import root
from verifierd.errors import ConfigError
from verifierd.types import History, Likelihood, Prediction, Step

__all__ = (
    "HIGH_ENTROPY",
    "Content",
    "Document",
    "Example",
    "Rule",
    "Rules",
    "Span",
    "bundled",
    "classes",
    "masked",
    "parse",
    "runtime",
)

HIGH_ENTROPY = 1.5
"""Nats from which a model counts as not knowing what comes: about four and a half words, each as likely as another."""

_WINDOW = 1_000_000  # characters of the latest steps in which a literal counts as shown
_BEFORE, _AFTER = 200, 80  # characters of its line in which a word that a match needs may stand
_MARKS = bytes.maketrans(b"\"'`,;()[]{}<>|=", b" " * 15)
_MARK = "\ue000"  # of no alphabet, and may stand in JSON
_REMEDY = "policies/classes/README.md explains every key."


class Content(StrEnum):
    """What kind of content some characters are."""

    DETERMINISTIC = "deterministic"
    PRE_EXISTING = "pre-existing"
    RUNTIME = "runtime"


class Span(NamedTuple):
    """Characters of one kind of content, and what says so.

    Attributes:
        start, end: The characters.
        content: Their class.
        rule: The rule's id for runtime content; else `prediction`, `pinned`, `history`, `model` or `unknown`.
    """

    start: int
    end: int
    content: Content
    rule: str


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A text, and what its rule finds in it.

    Attributes:
        text: Some lines of an observation.
        finds: The literals that the rule must find, in order; empty if it must find nothing.
        command: The command line that was asked, for rules that need a program.
    """

    text: str
    finds: tuple[str, ...] = ()
    command: str = ""


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What some runtime content looks like.

    Attributes:
        id: Its name, unique among all documents.
        says: One sentence for people.
        pattern: RE2 syntax, in Latin-1: a character beyond it is seen as `?`.
        group: The group that is the content; the whole match if there is none.
        needs: One of these words must stand in the same line, near the match, whatever its case.
        programs: One of these words must stand in the command line.
        examples: At least one with and one without a find.
    """

    id: str
    says: str
    pattern: str
    group: str | None = None
    needs: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """One document.

    Attributes:
        about: One sentence for people.
        rule: The rules.
    """

    about: str
    rule: tuple[Rule, ...] = ()


_T = TypeVar("_T", Rule, Document)


def parse(text: str, name: str) -> Document:
    """Read one document.

    Raises:
        ConfigError: It is no TOML, has an unknown key, an impossible value or a pattern that RE2 does not know; the
            message names file and rule, the hint says what to do.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: not TOML: {error}", hint="Mend the line that the message names.") from error
    held = raw.pop("rule", [])
    if not isinstance(held, list):
        raise ConfigError(f"{name}: `rule` is no list", hint="Begin each rule with a line `[[rule]]`.")
    document = _convert(raw, name, Document)
    rules: list[Rule] = []
    for number, item in enumerate(held, 1):
        named = item.get("id") if isinstance(item, dict) else None
        where = f"{name}: rule `{named}`" if isinstance(named, str) else f"{name}: rule {number}"
        rule = _convert(item, where, Rule)
        _check(rule, where)
        if any(rule.id == other.id for other in rules):
            raise ConfigError(f"{where}: the id is used twice", hint="Give each rule an id of its own.")
        rules.append(rule)
    return msgspec.structs.replace(document, rule=tuple(rules))


@cache
def bundled() -> "Rules":
    """The rules of the documents that come with the product."""
    folder = root("policies") / "classes"
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=lambda path: path.name)
    documents = [parse(path.read_text(encoding="utf-8"), f"policies/classes/{path.name}") for path in paths]
    return Rules([rule for document in documents for rule in document.rule])


class Rules:
    """Finds runtime content, in time linear in the text.

    Args:
        rules: What it looks like; among matches at one place the longest wins, then the first rule.

    Raises:
        ConfigError: Two rules have one id.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        names = [rule.id for rule in rules]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(f"rule `{twice}` is in two documents", hint="Give each rule an id of its own.")
        self.rules = tuple(rules)
        self._patterns = [_compile(rule.pattern) for rule in rules]
        self._needs = [_words(rule.needs) if rule.needs else None for rule in rules]
        self._programs = [{_bytes(name) for name in rule.programs} for rule in rules]
        self._groups = [_group(pattern, rule.group) or 0 for pattern, rule in zip(self._patterns, rules, strict=True)]
        self._any = re2.Set.SearchSet(_options())
        for rule in rules:
            self._any.Add(rule.pattern.encode("latin-1"))
        self._any.Compile()

    def find(self, text: str, command: str | None) -> list[tuple[int, int, str]]:
        """Start, end and rule of what looks like runtime content, in order, none overlapping another.

        Args:
            text: Where to look.
            command: The command line that it answers, if it does.
        """
        data = text.encode("latin-1", "replace")  # as many bytes as there are characters, so that places stay
        words: set[bytes] | None = None
        found: list[tuple[int, int, int]] = []
        for number in self._any.Match(data) or ():
            rule = self.rules[number]
            if rule.programs:
                words = set(_split(command or "")) if words is None else words
                if words.isdisjoint(self._programs[number]):
                    continue
            group, needs = self._groups[number], self._needs[number]
            spans = [match.span(group) for match in self._patterns[number].finditer(data)]
            if needs is not None and spans:
                near = _Near(text, data, needs)
                spans = [span for span in spans if near(*span)]
            found += [(start, -end, number) for start, end in spans if start < end]
        found.sort()
        kept: list[tuple[int, int, str]] = []
        last = 0
        for start, negative, number in found:
            if start >= last:
                last = -negative
                kept.append((start, last, self.rules[number].id))
        return kept


def runtime(
    text: str, step: Step, history: Sequence[Step] = (), rules: Rules | None = None
) -> tuple[list[tuple[int, int, str]], list[tuple[int, int, str]]]:
    """What looks like runtime content in a text: first what is, then what the action or the history fixes.

    Args:
        text: The observation, or what was predicted instead.
        step: Whom it answers.
        history: The steps before it.
        rules: What runtime content looks like; None for the bundled documents.
    """
    rules = rules or bundled()
    shown = _shown(history, rules)  # also if nothing is found here: a little each time
    found = _found(rules, text, step.action.command)
    if not found:
        return [], []
    asked = _asked(rules, step.action.text)
    free: list[tuple[int, int, str]] = []
    fixed: list[tuple[int, int, str]] = []
    for item in found:
        literal = _bytes(text[item[0] : item[1]])
        (fixed if literal in asked or shown(literal) else free).append(item)
    return free, fixed


def classes(
    text: str,
    step: Step,
    history: Sequence[Step] = (),
    prediction: Prediction | None = None,
    *,
    pinned: Sequence[tuple[int, int]] = (),
) -> list[Span]:
    """The whole text in spans, each of one class; a pure function.

    Args:
        text: The observation.
        step: Whose it is.
        history: The steps before it.
        prediction: What was predicted; where it is certain of the whole text, all is deterministic, and where a model
            was asked, its entropy tells what it could not know.
        pinned: Characters that a predictor pinned to an exact value, as contracts do.
    """
    if not text:
        return []
    if prediction is not None and prediction.certain and prediction.text is not None:
        return [Span(0, len(text), Content.DETERMINISTIC, "prediction")]
    free, fixed = runtime(text, step, history)
    marks = [Span(start, end, Content.DETERMINISTIC, "pinned") for start, end in _merged(pinned, len(text))]
    known = [Span(start, end, Content.DETERMINISTIC, "history") for start, end, _ in fixed]
    loose = [Span(start, end, Content.RUNTIME, rule) for start, end, rule in free]
    for layer in (sorted([*known, *loose]), _rest(text, prediction.likelihood if prediction else None)):
        marks = list(_under(marks, layer))
    return _joined(marks)


def masked(text: str, step: Step, history: Sequence[Step] = ()) -> tuple[str, int]:
    """A text with the name of its rule in place of each piece of runtime content, and how many characters that took.

    Blanks around a piece become one, as columns are as wide as what they hold.
    """
    free, _ = runtime(text, step, history)
    if not free:
        return text, 0
    pieces: list[str] = []
    last = 0
    for start, end, rule in free:
        before = text[last:start]
        pieces += [f"{before.rstrip(' ')} " if before.endswith(" ") else before, f"{_MARK}{rule}{_MARK}"]
        last = end
        while text.startswith("  ", last):
            last += 1
    pieces.append(text[last:])
    return "".join(pieces), sum(end - start for start, end, _ in free)


# --- documents


def _convert(value: Any, where: str, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        known = [field.encode_name for held in (Document, Rule, Example) for field in msgspec.structs.fields(held)]
        unknown = re.search(r"unknown field `([^`]*)`", str(error))
        near = difflib.get_close_matches(unknown[1], known, 1, 0.5) if unknown else []
        hint = f"Did you mean `{near[0]}`? {_REMEDY}" if near else _REMEDY
        raise ConfigError(f"{where}: {error}", hint=hint) from error


def _check(rule: Rule, where: str) -> None:
    try:
        pattern = _compile(rule.pattern)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise ConfigError(
            f"{where}: RE2 cannot read the pattern: {said}",
            hint="RE2 has no look-around and no back-references; mark what counts with a group and name it in `group`.",
        ) from error
    if rule.group is not None and _group(pattern, rule.group) is None:
        raise ConfigError(
            f"{where}: the pattern has no group called `{rule.group}`",
            hint=f"Write it as (?P<{rule.group}>...).",
        )
    if pattern.search(b"") is not None:
        raise ConfigError(f"{where}: the pattern matches nothing at all", hint="Let it need at least one character.")


def _compile(pattern: str) -> Any:
    return re2.compile(pattern.encode("latin-1"), _options())


def _group(pattern: Any, name: str | None) -> int | None:
    """The number of a named group; the pattern is in bytes, and so are its names."""
    return None if name is None else pattern.groupindex.get(name.encode())


def _options() -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = 64 << 20
    return options


def _words(words: Sequence[str]) -> Any:
    return _compile(f"(?i)(?:^|[^a-z])({'|'.join(map(re.escape, words))})")


class _Near:
    """Does one of some words stand in the same line, near a match? They are looked for once in a text."""

    def __init__(self, text: str, data: bytes, words: Any) -> None:
        self._text = text
        self._spans = [match.span(1) for match in words.finditer(data)]
        self._starts = [start for start, _ in self._spans]

    def __call__(self, start: int, end: int) -> bool:
        if not self._spans:
            return False
        text = self._text
        first = max(text.rfind("\n", max(0, start - _BEFORE), start) + 1, start - _BEFORE, 0)
        last = text.find("\n", end, end + _AFTER)
        at = bisect_left(self._starts, first)
        return at < len(self._spans) and self._spans[at][1] <= (last if last >= 0 else end + _AFTER)


# --- what the history fixes


class _Shown:
    """The literals of the latest steps of one history, kept up to date as it grows."""

    def __init__(self) -> None:
        self.total = 0
        self.first = 0  # the first step of the window
        self.sizes: deque[int] = deque()
        self.size = 0
        self.last: dict[bytes, int] = {}  # literal -> the latest step that showed it
        self.pruned = 0

    def follow(self, history: History, rules: Rules) -> None:
        """Take in the steps that are new."""
        for step in history.since(self.total):
            for text, command in ((step.action.text, None), (step.observation, step.action.command)):
                self.last.update(dict.fromkeys(_literals(text, command, rules), self.total))
            self.sizes.append(len(step.action.text) + len(step.observation))
            self.size += self.sizes[-1]
            self.total += 1
            while self.size > _WINDOW and len(self.sizes) > 1:
                self.size -= self.sizes.popleft()
                self.first = self.total - len(self.sizes)
        self.total = history.total
        self.first = self.total - len(self.sizes)
        if len(self.last) > 2 * self.pruned + 10_000:
            self.last = {literal: step for literal, step in self.last.items() if step >= self.first}
            self.pruned = len(self.last)

    def __call__(self, literal: bytes) -> bool:
        """Did a step of the window show this?"""
        return self.last.get(literal, -1) >= self.first


_memory: WeakKeyDictionary[History, tuple[Rules, _Shown]] = WeakKeyDictionary()


def _shown(history: Sequence[Step], rules: Rules) -> Callable[[bytes], bool]:
    """Tells whether the history shows a literal. What was read of a history is remembered as long as it lives."""
    if not isinstance(history, History):
        steps, history = history, History(("", ""))
        for step in steps:
            history.append(step)
    kept = _memory.get(history)
    if kept is None or kept[0] is not rules or kept[1].total > history.total:
        kept = _memory[history] = (rules, _Shown())
    kept[1].follow(history, rules)
    return kept[1]


def _literals(text: str, command: str | None, rules: Rules) -> set[bytes]:
    """What a text shows: its words, with and without the stops around them, and what looks like runtime content."""
    found = {word for word in set(_split(text)) if not word.isalpha()}
    found.update([word.strip(b".:") for word in found if word[0] in b".:" or word[-1] in b".:"])
    found.update([_bytes(text[start:end]) for start, end, _ in _found(rules, text, command)])
    return found


def _split(text: str) -> list[bytes]:
    return _bytes(text).translate(_MARKS).split()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=64)
def _asked(rules: Rules, text: str) -> set[bytes]:
    """Several texts are compared for one action."""
    return _literals(text, None, rules)


@lru_cache(maxsize=256)
def _found(rules: Rules, text: str, command: str | None) -> tuple[tuple[int, int, str], ...]:
    """What was just found in an observation is asked for again when it has become history."""
    return tuple(rules.find(text, command))


# --- spans


def _merged(spans: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted((max(0, start), min(end, length)) for start, end in spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _rest(text: str, found: Likelihood | None) -> list[Span]:
    """What each character is if nothing else is known of it: by the model's tokens, if their places are known."""
    starts = found.starts if found is not None else ()
    if found is None or not starts or len(starts) > len(found.entropy):
        return [Span(0, len(text), Content.PRE_EXISTING, "unknown")]
    spans = [Span(0, starts[0], Content.PRE_EXISTING, "unknown")] if starts[0] > 0 else []
    for index, start in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else len(text)
        unsure = found.entropy[index] >= HIGH_ENTROPY
        spans.append(Span(start, end, Content.PRE_EXISTING if unsure else Content.DETERMINISTIC, "model"))
    return spans


def _under(top: Sequence[Span], below: Sequence[Span]) -> Iterator[Span]:
    """Two layers of disjoint, ascending spans: the upper ones, and of the lower ones what they leave."""
    lower = iter(below)
    item = next(lower, None)
    for upper in top:
        while item is not None and item.start < upper.start:
            yield item._replace(end=min(item.end, upper.start))
            if item.end > upper.start:
                break
            item = next(lower, None)
        yield upper
        while item is not None and item.end <= upper.end:
            item = next(lower, None)
        if item is not None and item.start < upper.end:
            item = item._replace(start=upper.end)
    while item is not None:
        yield item
        item = next(lower, None)


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for span in spans:
        if span.start >= span.end:
            continue
        if joined and joined[-1].end == span.start and joined[-1][2:] == span[2:] and span.content != Content.RUNTIME:
            joined[-1] = joined[-1]._replace(end=span.end)
        else:
            joined.append(span)
    return joined
