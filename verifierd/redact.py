"""Finds secrets in text: keys, tokens and passwords, by their own shape or by the word beside them.

It knows patterns, not meanings: a password with no word beside it that says so is text to it. It changes nothing;
`sanitize.py` does.

Every rule finds a literal first, at the speed of memory, and looks closer only there; what it then reads is bounded, or
is skipped once it is taken. So the time is linear, whatever the text.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest

__all__ = ("KINDS", "Secret", "merged", "secrets")

Secret = tuple[int, int, str]
"""Start and end in characters, and the kind."""

KINDS = ("provider", "aws", "jwt", "pem", "url", "header", "password", "assignment", "entropy")
"""What a secret may be called."""


_PLACEHOLDER = re.compile(r"\[redacted:(?:" + "|".join(KINDS) + r"):[0-9a-f]{8}\]")


def secrets(s: str) -> list[Secret]:
    """The secrets of a text, in order, without overlaps."""
    found: list[Secret] = [*_keys(s), *_assigned(s)]
    if "-----" in s:
        found += _private_keys(s)
    if "://" in s:
        found += _addresses(s)
    if "curl" in s:
        found += _logins(s)
    if found and "[redacted:" in s:  # what was taken out before is no secret
        gone = [(0, 0), *(m.span() for m in _PLACEHOLDER.finditer(s))]
        found = [secret for secret in found if secret[1] > gone[bisect_right(gone, (secret[0], len(s))) - 1][1]]
    return merged(found) if found else found


def merged(found: Iterable[Secret]) -> list[Secret]:
    """In order, without overlaps: of two, the one that starts first (and is longer) gives the kind."""
    result: list[Secret] = []
    for start, end, kind in sorted(found, key=lambda secret: (secret[0], -secret[1])):
        if result and start < result[-1][1]:
            a, b, first = result[-1]
            result[-1] = (a, max(b, end), first)
        else:
            result.append((start, end, kind))
    return result


# By their own shape

_LONG = 16  # every key below has a run of at least so many token letters
_RUN = b"\x01" * _LONG
_TOKEN_LETTERS = bytes(c < 0x80 and (chr(c).isalnum() or chr(c) in "-_") for c in range(256))

# Not within a word, though behind what a letter ends: an escape of JSON or of an address, or a colour as text.
_EDGE = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrtv])|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=[\[;0-9]m))"
)
_PROVIDER = re.compile(
    r"sk-ant-[\w-]{9,}+|gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+|gl(?:pat|ptt|dt|rt|cbt|ft|soat)-[\w-]{16,}+"
    r"|AIza[\w-]{30,}+|GOCSPX-[\w-]{20,}+|xox[a-z]-[\w-]{10,}+|xapp-[\w-]{16,}+"  # Google, Slack
    r"|dckr_pat_[\w-]{20,}+|whsec_[A-Za-z0-9]{20,}+|dop_v1_[a-f0-9]{30,}+|lin_api_[A-Za-z0-9]{20,}+"
    rf"|(?=[rshnpgx]){_EDGE}(?:"  # and what words may end in
    r"sk-(?:proj|svcacct|admin|or)-[\w-]{9,}+|sk-(?=[A-Za-z_-]{0,64}+[0-9])[\w-]{20,}+"  # OpenAI and who copied them
    r"|[rsp]k_(?:live|test)_[A-Za-z0-9]{10,}+"  # Stripe
    r"|hf_[A-Za-z0-9]{20,}+|npm_[A-Za-z0-9]{30,}+|pypi-[\w-]{30,}+|gsk_[A-Za-z0-9]{30,}+|xai-[A-Za-z0-9]{30,}+)",
    re.ASCII,
)
_AWS = re.compile(rf"A(?<={_EDGE}A)(?:KI|SI|RO|ID)A[A-Z2-7]{{16}}(?![A-Za-z0-9])")  # a letter first: faster
_AWS_SECRET = re.compile(r"[\s,;:|\"']{1,8}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])")  # as the console exports the pair
_JWT = re.compile(r"(?<![_-])" + _EDGE + r"eyJ[\w-]{10,}+\.[\w-]{10,}+(?:\.[\w-]*+){0,3}", re.ASCII)


def _keys(s: str) -> Iterator[Secret]:
    # One byte a character, 1 for a letter of tokens: a run of them is found by skipping, far faster than by a pattern.
    mask = s.encode("latin-1", "replace").translate(_TOKEN_LETTERS)
    start = mask.find(_RUN)
    while start >= 0:
        end = mask.find(b"\x00", start + _LONG)
        if end < 0:
            end = len(s)
        if any(s.find(mark, start, end) >= 0 for mark in ("-", "_", "AIza")):  # so that Base64 is passed over quickly
            for m in _PROVIDER.finditer(s, start, end):
                yield *m.span(), "provider"
        for m in _AWS.finditer(s, start, end):
            yield *m.span(), "aws"
            if secret := _AWS_SECRET.match(s, m.end()):
                yield *secret.span(1), "aws"
        start = mask.find(_RUN, end)
    at = s.find("eyJ")
    while at >= 0:
        if token := _JWT.match(s, at):
            yield *token.span(), "jwt"
        at = s.find("eyJ", token.end() if token else at + 3)


_PEM = re.compile(r"-----(?P<mark>BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# Headers, then lines of Base64 with whatever a viewer put before them (line numbers, diff signs), as far as they go.
_PEM_BODY = re.compile(
    r"(?:(?:\s|\\[nr]){1,4}[A-Z][A-Za-z-]{2,20}: [^\n\\]{0,80}){0,4}"
    r"(?:(?:[^A-Za-z0-9+/=]|\\[nr]){0,24}(?:\d{1,6}[^A-Za-z0-9+/=]{1,4})?[A-Za-z0-9+/=]{16,}+)*"
    r"(?:(?:\s|\\[nr]){0,8}(?:\d{1,6}[^A-Za-z0-9+/=]{1,4})?[A-Za-z0-9+/]{1,15}={0,2}(?=[\r\n\\\"']|\Z))?"
)
_PEM_TAIL = re.compile(  # the same backwards: the last line is the short one
    r"(?:(?:[^A-Za-z0-9+/=]|[nr]\\){0,4}[A-Za-z0-9+/=]++)?(?:[^A-Za-z0-9+/=]{0,24}[A-Za-z0-9+/=]{16,}+)*"
)
_PEM_SIZE = 16_384  # characters of the largest private key that we look for


def _private_keys(s: str) -> Iterator[Secret]:
    """Private key blocks, whole or cut at either end."""
    done = 0
    marks = list(_PEM.finditer(s))
    for m, following in zip_longest(marks, marks[1:]):
        if m.start() < done:
            continue
        if m["mark"] == "END":  # its beginning is lost: what stands before it, read backwards
            before = _found(_PEM_TAIL.match(s[max(done, m.start() - _PEM_SIZE) : m.start()][::-1])).end()
            done = m.end()
            yield m.start() - before, done, "pem"
            continue
        if following and following["mark"] == "END" and following.start() - m.end() <= _PEM_SIZE:
            done = following.end()
        else:
            done = _found(_PEM_BODY.match(s, m.end(), m.end() + _PEM_SIZE)).end()
        yield m.start(), done, "pem"


_URL_PASSWORD = re.compile(r"://[^\s/:@?#\"'<>\\]{0,256}+:([^\s/\"'<>\\]{1,512})@")
_URL_TOKEN = re.compile(r"://([A-Za-z0-9_-]{20,256}+)@")
_WEBHOOK = re.compile(r"://hooks\.slack\.com/(?:services|workflows|triggers)/([\w/+-]{8,}+)", re.ASCII)


def _addresses(s: str) -> Iterator[Secret]:
    """Passwords and tokens before a host, and addresses that are secrets themselves."""
    at = s.find("://")
    while at >= 0:
        m = _URL_PASSWORD.match(s, at) or _URL_TOKEN.match(s, at) or _WEBHOOK.match(s, at)
        if m and not _REFERENCE.fullmatch(m[1]):
            yield *m.span(1), "url"
        at = s.find("://", at + 3)


_LOGIN = re.compile(r"(?:-u|--user)(?:[ \t]{1,4}|=)?[\"']?[^\s:\"'@]{1,128}:([^\s\"'@]{1,256})")


def _logins(s: str) -> Iterator[Secret]:
    """`curl -u user:password`; other programs mean something else by it."""
    for option in ("-u", "--user"):
        at = s.find(option)
        while at >= 0:
            if "curl" in s[max(0, at - 400) : at] and (m := _LOGIN.match(s, at)) and not _REFERENCE.fullmatch(m[1]):
                yield *m.span(1), "password"
            at = s.find(option, at + len(option))


# By the word beside them

_WORDS = ("pass", "pwd", "secret", "token", "key", "credential", "signature", "authorization", "cookie", "bearer")
_WORD = re.compile(
    r"(?P<word>pass(?:w(?:or)?d|phrase)|pwd|secret|token|key|credentials?|signature|(?P<line>authorization|cookie)"
    r"|(?P<bearer>bearer))\d{0,2}"
    r"(?:[\"'\]\\]{0,5}(?P<sign>[ \t]{0,8}(?:=>|:=|={1,2}|:)[ \t]{0,8})|[\"'`,]{0,3}[ \t]{1,4})"
    r"(?:(?:is|was)[ \t]{1,4})?(?P<quote>[rbf]?\\{0,3}[\"'`])?",
    re.IGNORECASE,
)
_NAME = re.compile(r"[\w.-]*", re.ASCII)
_SURE = re.compile(  # names whose value is a secret whatever it looks like
    r"secret|credentials?"
    r"|(?:api|app|access|secret|private|auth|account|encryption|signing|master|service|storage|shared|webhook)[_.-]?key"
    r"|(?:access|auth|api|session|refresh|id|bearer|bot|csrf|xsrf|registry|deploy|personal|security|user|github|gitlab)"
    r"[_.-]?token",
    re.IGNORECASE,
)
_SHOUTED = re.compile(r"[A-Z0-9_.-]*[A-Z]\Z")  # as environment variables are named
_REFERENCE = re.compile(  # what stands for a secret and is none: a variable, a type, a mask, our own placeholder
    r"\$[A-Z_][A-Z0-9_]*|\$[a-z_]+|\$\d|[$%]?\{[^{}]*\}|\{\{[^{}]*\}\}|\$\([^()]*\)?|%[A-Z_]+%|%(?:\(\w+\))?[sdr]"
    r"|<[^<>]*>|\[[A-Z]+\]|[*.#_xX\u2022\u2026-]{3,}"
    r"|(?i:none|null|nil|true|false|undefined|optional|required|str|string|text|bytes|int|number|bool|boolean|any|object"
    r"|secretstr|varchar|char|function|lambda|async|await|self|prompt|stdin|env|yes|no)"
    r"|(?:self|this|os|process|config|cfg|conf|settings|args|opts|options|env|ctx|context|request|req|params|secrets|vars"
    r"|props|state|user|data|cls|app|github|inputs)\.[\w.]*"
)
_SCHEME = re.compile(r"(?:Bearer|Basic|Digest|Negotiate|Token|ApiKey|AWS4-HMAC-SHA256)[ \t]+", re.IGNORECASE)

# Where values end. A backslash belongs to them unless it escapes a line's end or a quote, as in JSON within JSON.
_BARE = re.compile(r"[^\s\"'`\\<>(){}\[\],;&|]*+(?:\\(?![nrt\"'`])[^\s\"'`\\<>(){}\[\],;&|]*+)*")
_SHELL = re.compile(r"[^\s\"'`\\]*+(?:\\(?![nrt\"'`])[^\s\"'`\\]*+)*")  # after NAME=, up to white space
_LINE = re.compile(r"[^\r\n\\]*+(?:\\(?![nr])[^\r\n\\]*+)*")
_TOKEN = re.compile(r"[A-Za-z0-9+/=_.~-]*+")

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]+", re.IGNORECASE)

_JUDGED = 256  # characters of a value by which it is judged
_KEY = 6  # a value shorter than this is no key
_PASSWORD = 3  # nor is one shorter than this a password, unless it is quoted
_TOKEN_SIZE = 8  # nor this, with letters and digits, a token
_RANDOM = 16  # characters that can show randomness
_DISTINCT = 8  # and how many different ones a random string has


def _assigned(s: str) -> Iterator[Secret]:
    low = s.lower()
    if len(low) != len(s):  # the one letter that grows in lower case
        low = s.replace("\u0130", "i").lower()
    for word in _WORDS:
        at = low.find(word)
        while at >= 0:
            end = at + len(word)
            if (m := _WORD.match(s, at)) and (secret := _value(s, m)):
                yield secret
                end = secret[1]
            at = low.find(word, end)


_End = Callable[[str, re.Match[str], int, int], int]
_Kind = Callable[[re.Match[str], str, str], str | None]


def _value(s: str, m: re.Match[str]) -> Secret | None:
    """The secret after a word, if there is one: judged by its first characters, then followed to its end."""
    start, name = m.end(), _name(s, m)
    end: _End
    kind: _Kind
    if m["line"] and m["sign"] and (m["quote"] or ":" in m["sign"]):
        end, kind = _header_end, _header_kind
        if scheme := _SCHEME.match(s, start, start + _JUDGED):
            start = scheme.end()
    elif m["sign"] or name.startswith("--"):
        end, kind = _value_end, _value_kind
    else:
        end, kind = _token_end, _token_kind
    stop = min(start + _JUDGED, len(s))
    last = end(s, m, start, stop)
    value = s[start:last]
    if not value or _REFERENCE.fullmatch(value) or (not m["quote"] and s[last : last + 1] in ("(", "[")):
        return None
    if not (found := kind(m, name, value)):
        return None
    return start, last if last < stop else end(s, m, start, len(s)), found


def _name(s: str, m: re.Match[str]) -> str:
    """The whole name whose last part is the word."""
    return _found(_NAME.match(s[max(0, m.start() - 48) : m.start()][::-1]))[0][::-1] + m["word"]


def _found(m: re.Match[str] | None) -> re.Match[str]:
    """The match of a pattern that matches everywhere."""
    assert m is not None
    return m


def _header_end(s: str, m: re.Match[str], start: int, stop: int) -> int:
    """To the closing quote where the value, or the whole header, is quoted, else to the line's end."""
    end = _found(_LINE.match(s, start, stop)).end()
    before = s[max(0, m.start() - 12) : m.start()].lower().removesuffix("proxy-").removesuffix("set-")
    quote = (m["quote"] or before)[-1:]
    close = s.find(quote, start, end) if quote and quote in "\"'`" else -1
    return end if close < 0 else close - (s[close - 1] == "\\")


def _value_end(s: str, m: re.Match[str], start: int, stop: int) -> int:
    """To the quote that closes what the opening one began, else to where a word of the language ends."""
    if quote := m["quote"]:
        end = _found(_LINE.match(s, start, stop)).end()
        close = s.find(quote.lstrip("rbfRBF"), start, end)
        return end if close < 0 else close
    shell = s[start - 1] == "=" and _SHOUTED.match(_name(s, m))
    value = _found((_SHELL if shell else _BARE).match(s, start, stop))
    return start + len(value[0].rstrip(";,)]}")) if shell and value.end() < stop else value.end()


def _token_end(s: str, _: re.Match[str], start: int, stop: int) -> int:
    return _found(_TOKEN.match(s, start, stop)).end()


def _header_kind(_: re.Match[str], __: str, value: str) -> str | None:
    return None if value.isspace() else "header"


def _token_kind(m: re.Match[str], _: str, value: str) -> str | None:
    """Only a space lies between: nothing but a random string counts, and after "bearer" whatever is no word."""
    if m["bearer"]:
        return "header" if len(value) >= _KEY and not value.isalpha() else None
    return "entropy" if _is_random(value) and (m["word"].lower() != "key" or not _HEX.fullmatch(value)) else None


def _value_kind(m: re.Match[str], name: str, value: str) -> str | None:
    word, bare = m["word"].lower(), not m["quote"]
    if m["sign"] is None and value.startswith("-"):  # a list of options
        return None
    path = value.startswith(("/", "./", "../", "~/"))
    if word.startswith(("pass", "pwd")):
        return None if path or (bare and len(value) < _PASSWORD) else "password"  # PWD holds a path
    if word in ("key", "token", "secret") and len(name) > len("key") and _SHOUTED.match(name):
        return None if path or len(value) < _KEY else "assignment"
    if _SURE.search(name[-len("private_key") - len(word) :]) and name.lower().endswith(word):
        return None if len(value) < _KEY or (bare and _is_code(m, name, value)) else "assignment"
    if word == "token" and len(value) >= _TOKEN_SIZE and _has_both(value) and not path and " " not in value:
        return "assignment"
    return "entropy" if _is_random(value) and not (word == "key" and _UUID.fullmatch(value)) else None


def _is_code(m: re.Match[str], name: str, value: str) -> bool:
    """True if an unquoted value is rather a name of a program: `secret = load`, `apiKey: apiKey`, `secret: Buffer`."""
    if not value.isidentifier() or len(value) >= _RANDOM:
        return value.isdecimal()
    mixed = value != value.lower() and not value.isupper()
    flat, shown = (text.lower().replace("_", "").replace("-", "") for text in (name, value))
    return m["sign"] == " = " or flat == shown or (mixed and (flat in shown or value.isalpha()))


def _has_both(value: str) -> bool:
    """True if there are letters and digits."""
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _is_random(value: str) -> bool:
    """True if a value looks drawn by lot."""
    return (
        len(value) >= _RANDOM
        and _has_both(value)
        and len(set(value)) >= _DISTINCT
        and not value.startswith(("/", "./", "../", "~/"))
        and not any(map(str.isspace, value))
    )
