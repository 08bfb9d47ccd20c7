"""The one way out: whatever leaves the state directory is redacted, neutralised and cut here first.

    text -> redact -> NFC -> visible escapes -> cut

Redaction comes before the cut, so that no half of a key survives at an edge. Character spans are carried along: a span
of the original still points at the right characters of what is shown.
"""

import hashlib
import os
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from verifierd.redact import Secret, merged, secrets
from verifierd.types import Signal, Verdict

__all__ = ("SHORT", "Quotes", "Sanitizer", "Span", "one_line", "plain", "render")

Span = tuple[int, int]
Quotes = Literal["off", "short", "full"]

SHORT = 2000
"""Characters of a short quote."""

_DETAIL = 500  # characters of one sentence for people
_NAME = 4096  # characters of a name or a path
_NAMES = ("trajectory", "tool", "domain", "reason", "predictor", "policy")
_MARGIN = 32_768  # characters looked at around what is quoted, so that a secret across its edge is seen whole


class Sanitizer:
    """Makes text fit to be shown. Doing it twice does nothing more.

    Args:
        salt: Key of the placeholders' hashes, at most 64 bytes: equal secrets get equal hashes, per install.
        on_redaction: Called with the kind (one of `redact.KINDS`) for every secret taken out.
    """

    def __init__(self, salt: bytes, *, on_redaction: Callable[[str], None] | None = None) -> None:
        self._salt = salt
        self._on_redaction = on_redaction

    def text(self, s: str, limit: int | None = None) -> str:
        """The text without secrets, and without characters that act on terminals or hide.

        At most `limit` characters are kept, and a note says how many were not.
        """
        return self.quote(s, (), limit)[0]

    def quote(
        self, s: str, spans: Sequence[Span] = (), limit: int | None = None
    ) -> tuple[str, tuple[Span | None, ...]]:
        """As `text`, cut around the first span; and where the spans (in characters of `s`) lie in what is returned.

        A span inside a redaction covers the placeholder; one that was cut away is None.
        """
        spans = [_clamp(span, len(s)) for span in spans]
        start, first, last, end = 0, 0, len(s), len(s)
        if limit is not None:  # what may be shown, and around it what is only looked at
            centre = spans[0][0] if spans else 0
            first, last = max(0, centre - 2 * limit), min(len(s), centre + 2 * limit)
            start, end = max(0, first - _MARGIN), min(len(s), last + _MARGIN)
        region = s[start:end]
        edits = self._edits(region)
        if not edits and len(s) <= (len(s) if limit is None else limit):
            return s, tuple(spans)
        shown = _Shown(region, edits)
        placed = [
            (shown.place(max(0, a - start), before=True), shown.place(min(max(0, b - start), len(region))))
            for a, b in spans
        ]
        window = shown.place(first - start, before=True), shown.place(last - start)
        lo, hi = shown.cut(window, limit, placed[0] if placed else None)
        front, back = _dropped(start + shown.origin(lo)), _dropped(len(s) - start - shown.origin(hi))
        text = "".join((front, front and "…", shown.text[lo:hi], back and "…", back))
        shift = len(front) + bool(front) - lo
        return text, tuple(
            (max(a, lo) + shift, min(b, hi) + shift) if _meet((a, b), (lo, hi)) and _meet(span, (start, end)) else None
            for span, (a, b) in zip(spans, placed, strict=True)
        )

    def verdict(self, v: Verdict, quotes: Quotes) -> Verdict:
        """A copy that may leave.

        Args:
            v: The verdict as it was decided.
            quotes: `off` drops all text of the transcript, `short` keeps `SHORT` characters each of action, prediction
                and observation, around the first signal's span where there is one, `full` keeps all.
        """
        limit = SHORT if quotes == "short" else None
        spans = [signal.span for signal in v.signals if signal.span is not None]
        action, predicted, observed = "", None, ""
        places: Sequence[Span | None] = [None] * len(spans)
        surprise = v.surprise
        if quotes == "off":
            surprise = msgspec.UNSET
        else:
            action = self.text(v.action, limit)
            # It is the signals that the quote is cut around, never a surprise.
            tokens = [] if surprise is msgspec.UNSET else [(start, end) for start, end, _ in surprise]
            observed, places = self.quote(v.observed, [*(spans or [(0, 0)]), *tokens], limit)
            if surprise is not msgspec.UNSET:
                there = zip(places[len(places) - len(tokens) :], surprise, strict=True)
                surprise = tuple((*place, nats) for place, (_, _, nats) in there if place is not None)
            if v.predicted is not None:  # shown around the same place, so that a reader can compare
                predicted = self.quote(v.predicted, spans[:1], limit)[0]
        place = iter(places)
        signals = [
            Signal(
                name=self.text(signal.name, _DETAIL),
                value=signal.value,
                span=None if signal.span is None else next(place),
                detail="" if quotes == "off" else self.text(signal.detail, _DETAIL),
            )
            for signal in v.signals
        ]
        return replace(
            v,
            **{name: self.text(getattr(v, name), _NAME) for name in _NAMES},
            detail="" if quotes == "off" else self.text(v.detail, _DETAIL),
            signals=tuple(signals),
            action=action,
            predicted=predicted,
            observed=observed,
            surprise=surprise,
            model=None if v.model is None else self.text(v.model, _NAME),
            origin=replace(v.origin, path=self.text(v.origin.path, _NAME)),
        )

    def _edits(self, s: str) -> list["_Edit"]:
        """All that is to be replaced, in order, without overlaps."""
        plain = _is_plain(s)
        found = secrets(s) if plain else merged([*secrets(s), *_hidden(s)])
        edits = [_Edit(a, b, self._placeholder(kind, s[a:b])) for a, b, kind in found]
        if not plain:
            edits += [
                _Edit(m.start(), m.end(), "".join(map(_ESCAPES.__getitem__, m[0])))
                for a, b in _gaps(edits, len(s))
                for m in _UNSAFE.finditer(s, a, b)
            ]
            edits.sort()
        if not s.isascii() and not unicodedata.is_normalized("NFC", s):
            edits += [edit for a, b in _gaps(edits, len(s)) for edit in _composed(s, a, b)]
            edits.sort()
        return edits

    def _placeholder(self, kind: str, secret: str) -> str:
        if self._on_redaction is not None:
            self._on_redaction(kind)
        state = hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=4, key=self._salt)
        return f"[redacted:{kind}:{state.hexdigest()}]"


def render(verdict: Verdict) -> bytes:
    """The line of a verdict that went through `Sanitizer.verdict`."""
    return one_line(verdict) + b"\n"


def one_line(document: object) -> bytes:
    """JSON that no reader's `splitlines` takes apart."""
    line = msgspec.json.encode(document)
    if not line.isascii():
        for char in "\u2028\u2029\x85":
            line = line.replace(char.encode(), b"\\u%04x" % ord(char))
    return line


def plain(s: str) -> str:
    """One line that may be shown, of a name, a path or a message: for commands that have no install's salt at hand."""
    return _SALTLESS.text(s).replace("\n", "\\n").replace("\t", "\\t")


_SALTLESS = Sanitizer(os.urandom(16))


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


class _Shown:
    """A text with its edits made, and the way between positions before and after."""

    def __init__(self, s: str, edits: list[_Edit]) -> None:
        self._edits = edits
        self._starts = [edit.start for edit in edits]
        self._placed: list[int] = []  # where each edit starts in the new text
        parts, at, size = [], 0, 0
        for edit in edits:
            size += edit.start - at
            self._placed.append(size)
            parts += [s[at : edit.start], edit.text]
            size += len(edit.text)
            at = edit.end
        self.text = "".join([*parts, s[at:]]) if edits else s

    def place(self, at: int, *, before: bool = False) -> int:
        """The new position of an old one; inside an edit, the edit's start or end."""
        i = bisect_right(self._starts, at) - 1
        if i < 0:
            return at
        edit, placed = self._edits[i], self._placed[i]
        if at == edit.start or (before and at < edit.end):
            return placed
        return placed + len(edit.text) + max(0, at - edit.end)

    def origin(self, at: int) -> int:
        """The old position of a new one that is not inside an edit."""
        i = bisect_right(self._placed, at) - 1
        if i < 0:
            return at
        edit, placed = self._edits[i], self._placed[i]
        return edit.start if at == placed else edit.end + at - placed - len(edit.text)

    def cut(self, window: Span, limit: int | None, focus: Span | None) -> Span:
        """At most `limit` characters of the window, around the focus, that split neither an edit nor a grapheme."""
        lo, hi = window
        if limit is not None and hi - lo > limit:
            if focus is not None:
                start, end = focus
                lo = min(max(lo, start - max(0, limit - (end - start)) // 2), hi - limit)
            hi = lo + limit
        lo = self._whole(lo, 1)
        return lo, max(lo, self._whole(hi, -1))

    def _whole(self, at: int, way: int) -> int:
        """The nearest place, right (1) or left (-1), where the text may be cut."""
        i = bisect_right(self._placed, at) - 1
        if i >= 0 and self._placed[i] < at < (end := self._placed[i] + len(self._edits[i].text)):
            return end if way > 0 else self._placed[i]
        while _joined(self.text, at):
            at += way
        return at


def _joined(s: str, at: int) -> bool:
    """True if a cut here would tear a character from its marks, or a flag in two."""
    if not 0 < at < len(s) or s[at].isascii():
        return False
    if s[at] in _FLAG:
        run = at
        while run > max(0, at - _FLAGS) and s[run - 1] in _FLAG:
            run -= 1
        return (at - run) % 2 == 1
    return unicodedata.category(s[at])[0] == "M" or "\U0001f3fb" <= s[at] <= "\U0001f3ff"


def _clamp(span: Span, size: int) -> Span:
    start = min(max(0, span[0]), size)
    return start, min(max(start, span[1]), size)


def _meet(a: Span, b: Span) -> bool:
    """True if a lies at least in part in b."""
    return max(a[0], b[0]) < min(a[1], b[1]) or (a[0] == a[1] and b[0] <= a[0] <= b[1])


def _dropped(count: int) -> str:
    return f"[{count} characters dropped]" if count else ""


def _gaps(edits: Sequence[_Edit], size: int) -> list[Span]:
    """What lies between the edits."""
    return [(a.end, b.start) for a, b in pairwise([_Edit(0, 0, ""), *edits, _Edit(size, size, "")])]


_FLAG = frozenset(map(chr, range(0x1F1E6, 0x1F200)))  # regional indicators: two of them make one flag
_FLAGS = 64  # of them looked back over; in a longer row a flag may be torn

_CONTROLS = bytes((c < 0x20 and c not in b"\t\n") or c == 0x7F for c in range(256))

# Controls but tab and newline, soft hyphen, bidi controls, zero-width and tag characters, lone surrogates; with the
# accents after one, which would otherwise settle on the last letter of its escape.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff][\u0300-\u036f]*"
)
# Escape sequences as terminals read them, and whatever else cannot be seen.
_UNSEEN = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)|[@-Z\\^_])|" + _UNSAFE.pattern
)
_CLUSTERS = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")  # nothing composes with an ASCII character before it


class _Escapes(dict[str, str]):
    """Character to visible escape, filled as they come: no more than `_UNSAFE` has."""

    def __missing__(self, char: str) -> str:
        code = ord(char)
        shown = f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
        self[char] = shown
        return shown


_ESCAPES = _Escapes({"\r": "\\r"})


def _is_plain(s: str) -> bool:
    """True if there is surely nothing to neutralise; a cheap look at every character."""
    if s.isascii():
        return b"\x01" not in s.encode().translate(_CONTROLS)
    return s.replace("\n", "").replace("\t", "").isprintable()  # neither control, format, surrogate nor unassigned


def _hidden(s: str) -> Iterator[Secret]:
    """Secrets that colours or invisible characters interrupt, found in the text as a reader sees it."""
    parts, seen, real, at, size = [], [0], [0], 0, 0
    for m in _UNSEEN.finditer(s):
        parts.append(s[at : m.start()])
        size += m.start() - at
        at = m.end()
        seen.append(size)
        real.append(at)

    def back(position: int) -> int:
        i = bisect_right(seen, position) - 1
        return real[i] + position - seen[i]

    for start, end, kind in secrets("".join([*parts, s[at:]])):
        yield back(start), back(end - 1) + 1, kind


def _composed(s: str, start: int, end: int) -> Iterator[_Edit]:
    """NFC as edits of one character and its marks each."""
    for m in _CLUSTERS.finditer(s, start, end):
        if unicodedata.is_normalized("NFC", m[0]):
            continue
        starts = [i for i in range(m.start() + 1, m.end()) if _is_starter(s[i])]
        for a, b in pairwise([m.start(), *starts, m.end()]):
            if (text := unicodedata.normalize("NFC", s[a:b])) != s[a:b]:
                yield _Edit(a, b, text)


def _is_starter(char: str) -> bool:
    """True if a character never composes with the one before it: neither a mark nor the rest of a Hangul syllable."""
    return unicodedata.category(char)[0] != "M" and not "\u1160" <= char <= "\u11ff"
