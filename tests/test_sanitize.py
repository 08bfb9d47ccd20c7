"""What leaves is redacted, neutralised, cut, and still points at the right characters."""

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifierd.sanitize import SHORT, Sanitizer, plain, render
from verifierd.types import Origin, Signal, Verdict, VerdictKind

KEY = "sk-" + "ant-api03-" + "zK8mQ2vX7pL4"
CLEAN = Sanitizer(b"salt")
BIDI_AND_HIDDEN = [
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    0x200B,
    0x200D,
    0x200E,
    0x2060,
    0xFEFF,
    0xE0041,
    0xAD,
]

# Letters, marks and traps, so that chance meets them.
texts = (
    st.text(st.sampled_from('ab =:\n\t\r"\\\x1b\x07[m]\u202e\u200b\ud800\u0301e\u1112\u1161\u00e9\U0001f1e6\U0001f44d'))
    | st.text()
)


def verdict(**changed: object) -> Verdict:
    """A verdict with what a test cares about."""
    fields = {
        "verdict_id": "v",
        "step_id": "s",
        "trajectory": "t",
        "step": 1,
        "tool": "bash",
        "domain": "terminal",
        "verdict": VerdictKind.OFF_PATH,
        "reason": "contradiction",
        "predictor": "shell",
        "policy": "default",
        "origin": Origin(path="a.jsonl", offset=0),
        "time": "2026-01-01T00:00:00Z",
    } | changed
    return msgspec.convert(fields, Verdict)


def test_ordinary_text_is_itself() -> None:
    """Nothing is copied, let alone changed, where nothing is to be done."""
    text = "total 8\n\tdrwxr-xr-x größe 漢字\n"

    assert CLEAN.text(text) is text


def test_placeholder_is_salted_and_stable() -> None:
    """Equal secrets have equal placeholders within an install, and others elsewhere."""
    one, two = CLEAN.text(KEY), CLEAN.text(f"again {KEY}")

    assert one.startswith("[redacted:provider:")
    assert two == f"again {one}"
    assert Sanitizer(b"pepper").text(KEY) != one


def test_redactions_are_reported() -> None:
    """The callback hears the kind of each secret."""
    heard: list[str] = []

    Sanitizer(b"", on_redaction=heard.append).text(f"{KEY}\nPASSWORD=hunter2")

    assert heard == ["provider", "password"]


def test_controls_become_visible() -> None:
    """Whatever acts on a terminal or cannot be seen is written out; newline and tab stay."""
    assert CLEAN.text("\x1b]0;owned\x07\r\n\t\x9b31m\x7f") == "\\x1b]0;owned\\x07\\r\n\t\\x9b31m\\x7f"


@pytest.mark.parametrize("code", BIDI_AND_HIDDEN)
def test_bidi_and_hidden_characters_become_visible(code: int) -> None:
    """Text that would be shown in another order, or not at all, is written out."""
    shown = CLEAN.text(f"a{chr(code)}b")

    assert shown.isprintable()
    assert f"{code:x}" in shown


def test_lone_surrogate_becomes_visible() -> None:
    """Half a character, as programs that cut UTF-16 write it, can be encoded afterwards."""
    assert CLEAN.text("a\ud83d") == "a\\ud83d"


def test_accent_does_not_settle_on_an_escape() -> None:
    """A combining mark after a neutralised character is written out with it."""
    assert CLEAN.text("\u202e\u0301x") == "\\u202e\\u0301x"


def test_plain_is_one_line() -> None:
    """A file's name stays on its line and does nothing to the terminal."""
    assert plain("a\nb\t\x1b[2J\u202e.jsonl") == "a\\nb\\t\\x1b[2J\\u202e.jsonl"
    assert "[redacted:aws:" in plain("/backup/AKIA" + "QWERTYUIOPASDFGH" + ".jsonl")


def test_composes() -> None:
    """Names as macOS spells them compare equal to what people type."""
    assert CLEAN.text("Gro\u0308\u00dfe \u1112\u1161\u11ab") == "Gr\u00f6\u00dfe \ud55c"


@pytest.mark.parametrize("between", ["\x1b[01;31m\x1b[K", "\u200b", "\x1b[0m", "\x00", "\u202e"])
def test_secret_in_disguise(between: str) -> None:
    """Colours and invisible characters within a key do not save it from redaction."""
    shown = CLEAN.text(f"key {KEY[:10]}{between}{KEY[10:]} end")

    assert "zK8mQ" not in shown
    assert shown.startswith("key [redacted:provider:")
    assert shown.endswith("] end")


def test_secret_after_a_carriage_return() -> None:
    """A control character before a key does not glue it to the word before."""
    assert "zK8mQ" not in CLEAN.text(f"progress\r{KEY}")


@given(texts)
def test_text_is_safe_and_twice_is_once(text: str) -> None:
    """Whatever comes in, what goes out can be encoded, moves nothing, and stays as it is the second time."""
    shown = CLEAN.text(text)

    shown.encode()
    assert not any(c in shown for c in "\x1b\x07\r\x9b\u202e\u200b")
    assert CLEAN.text(shown) == shown


@given(st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs"))))
def test_text_is_normal(text: str) -> None:
    """Composing piece by piece gives what composing the whole gives."""
    assert CLEAN.text(text) == unicodedata.normalize("NFC", text)


def test_cut_says_how_much_is_gone() -> None:
    """The first characters stay, the number of the others is told."""
    assert CLEAN.text("0123456789", 4) == "0123…[6 characters dropped]"
    assert CLEAN.text("0123456789", 10) == "0123456789"


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("ae\u0316b", 2, "a"),  # a mark that does not compose stays with its letter
        ("a\U0001f44d\U0001f3fdb", 2, "a"),  # a thumb and its skin tone
        ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", 3, "\U0001f1e9\U0001f1ea"),  # two flags
        ("ab\x1bcd", 4, "ab"),  # an escape is shown whole or not at all
        (f"ab {KEY} c", 12, "ab "),
    ],
)
def test_cut_tears_nothing(text: str, limit: int, kept: str) -> None:
    """Graphemes, escapes and placeholders are kept whole or dropped."""
    assert CLEAN.text(text, limit).partition("…")[0] == kept


def test_redaction_precedes_the_cut() -> None:
    """A key that the cut would halve is gone as a whole."""
    shown = CLEAN.text("x" * 90 + f" {KEY}", 100)

    assert "sk-" not in shown
    assert "…" in shown


def test_secret_far_before_the_quote() -> None:
    """A private key that begins before what is quoted is still seen as one."""
    text = (
        "-----BEGIN PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA1234567890abcdef\n" * 200 + "-----END PRIVATE KEY-----\nend"
    )
    shown, (span,) = CLEAN.quote(text, [(3000, 3010)], 100)

    assert "MIIE" not in shown
    assert span is not None
    assert shown[slice(*span)].startswith("[redacted:pem:")


def test_spans_follow() -> None:
    """A span before, on, in and after replaced text covers the same characters, or the placeholder."""
    text = f"a\x1bb {KEY} c\x07d"
    at = text.index(KEY)
    shown, spans = CLEAN.quote(
        text, [(0, 1), (1, 2), (2, 3), (at, at + len(KEY)), (at + 5, at + 8), (len(text) - 1, len(text))]
    )

    assert [shown[slice(*span)] if span else None for span in spans[:3]] == ["a", "\\x1b", "b"]
    assert spans[3] == spans[4]
    assert spans[3] is not None
    assert shown[slice(*spans[3])].startswith("[redacted:")
    assert shown[slice(*spans[3])].endswith("]")
    assert spans[5] is not None
    assert shown[slice(*spans[5])] == "d"


def test_quote_is_centred_on_the_first_span() -> None:
    """The deciding text is in the middle, with what was dropped told on both sides."""
    text = "a" * 5000 + "NEEDLE" + "b" * 5000
    shown, spans = CLEAN.quote(text, [(5000, 5006), (0, 3)], 100)

    assert spans[0] is not None
    assert shown[slice(*spans[0])] == "NEEDLE"
    assert spans[1] is None
    assert shown == f"[4953 characters dropped]…{'a' * 47}NEEDLE{'b' * 47}…[4953 characters dropped]"


def test_long_span_is_shown_from_its_start() -> None:
    """Of a span longer than the quote, the beginning is shown, and the span ends with the quote."""
    shown, (span,) = CLEAN.quote("a" * 50 + "b" * 500, [(50, 550)], 100)

    assert span is not None
    assert shown[slice(*span)] == "b" * 100


@given(texts, st.tuples(st.integers(-3, 40), st.integers(-3, 40)), st.none() | st.integers(0, 30))
def test_quote_keeps_its_limit_and_its_spans(text: str, span: tuple[int, int], limit: int | None) -> None:
    """Spans lie within what is returned, whatever they were, and the kept text within the limit."""
    shown, (placed,) = CLEAN.quote(text, [span], limit)

    assert placed is None or 0 <= placed[0] <= placed[1] <= len(shown)
    assert limit is None or len(shown) <= limit + 2 * len("[1000 characters dropped]…")


def test_enormous_text_is_not_read_whole() -> None:
    """A short quote of a long observation is taken from its neighbourhood."""
    text = "x" * 5_000_000 + "NEEDLE" + "\x1b" * 5_000_000
    shown, (span,) = CLEAN.quote(text, [(5_000_000, 5_000_006)], 200)

    assert span is not None
    assert shown[slice(*span)] == "NEEDLE"


def test_verdict_quotes_short() -> None:
    """Every text of a verdict is sanitised, and signals point into the quotes."""
    observed = "x" * 4000 + f"\x1b[31m{KEY}\x1b[0m NEEDLE"
    at = observed.index("NEEDLE")
    v = CLEAN.verdict(
        verdict(
            action=f"echo {KEY}",
            predicted="x" * 4000 + KEY,
            observed=observed,
            tool="ba\u202esh",
            reason="\x07",
            trajectory=KEY,
            signals=[
                Signal(name="a", value=1.0, detail=f"saw {KEY}"),
                Signal(name="b", value=1.0, span=(at, at + 6)),
            ],
            origin=Origin(path="/logs/\x1b.jsonl", offset=7),
        ),
        "short",
    )

    line = render(v)
    assert b"zK8mQ" not in line
    assert b"\x1b" not in line
    assert b"u001b" not in line
    assert v.tool == "ba\\u202esh"
    assert v.origin == Origin(path="/logs/\\x1b.jsonl", offset=7)
    assert v.signals[1].span is not None
    assert v.observed[slice(*v.signals[1].span)] == "NEEDLE"
    assert len(v.observed) < SHORT + 100
    assert v.predicted is not None
    assert v.predicted.endswith("]")


@pytest.mark.parametrize("name", [f.name for f in msgspec.structs.fields(Verdict) if f.type in (str, str | None)])
def test_no_text_of_a_verdict_is_forgotten(name: str) -> None:
    """Whatever text a verdict has or will have, a secret in it does not leave; but ids and times are our own."""
    v = msgspec.structs.replace(verdict(), **{name: f"{KEY} \x1b"})
    shown = getattr(CLEAN.verdict(v, "full"), name)

    assert name in ("verdict_id", "step_id", "time") or ("zK8mQ" not in shown and "\x1b" not in shown)


def test_verdict_quotes_off() -> None:
    """With quotes off, no text of the transcript leaves."""
    signal = Signal(name="a", value=1.0, span=(0, 3), detail="saw foo")
    v = CLEAN.verdict(verdict(action="cat x", predicted="foo", observed="foo", signals=[signal]), "off")

    assert (v.action, v.predicted, v.observed) == ("", None, "")
    assert v.signals == (Signal(name="a", value=1.0),)


def test_verdict_quotes_full() -> None:
    """With full quotes nothing is cut, and secrets are redacted all the same."""
    v = CLEAN.verdict(verdict(observed="x" * 10_000 + f" {KEY}"), "full")

    assert len(v.observed) > 10_000
    assert "zK8mQ" not in v.observed


@pytest.mark.parametrize("quotes", ["short", "full"])
def test_verdict_twice_is_once(quotes: str) -> None:
    """A verdict that was sanitised before is not changed again, unless it is cut again."""
    v = verdict(observed=f"a\x1b {KEY}", signals=[Signal(name="a", value=1.0, span=(0, 1))])
    once = CLEAN.verdict(v, "short" if quotes == "short" else "full")

    assert CLEAN.verdict(once, "full") == once


def test_rendered_line_is_one_line() -> None:
    """A reader that splits at every Unicode line end gets one line, and the same verdict back."""
    v = verdict(observed="a\u2028b\u2029c\u0085d\x0be\x1cf\ng")
    text = render(v).decode()

    assert text.endswith("\n")
    assert len(text.splitlines()) == 1
    assert msgspec.json.decode(text, type=Verdict) == v


def test_surprise_points_at_what_is_shown() -> None:
    """Places where a model was surprised follow their characters, and those cut away are gone; they move no quote."""
    observed = f"{KEY} then " + "x" * 5000
    at = observed.index("then")
    found = verdict(observed=observed, surprise=((at, at + 4, 7.5), (4500, 4510, 9.0)))
    short = CLEAN.verdict(found, "short")
    assert short.observed.startswith("[redacted:")
    assert isinstance(short.surprise, tuple)
    assert [(short.observed[start:end], nats) for start, end, nats in short.surprise] == [("then", 7.5)]
    assert b"surprise" not in render(CLEAN.verdict(found, "off"))
    assert b"surprise" not in render(CLEAN.verdict(verdict(observed=observed), "full"))
