"""Which agent logs can be read: one literal table, opened lazily; `README.md` is the reference of the formats."""

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import PurePath
from typing import Any, cast

from verifierd.adapters.parse import parse
from verifierd.errors import FormatError
from verifierd.stages import Adapter

__all__ = ("FORMATS", "detect", "open_adapter")

_ADAPTERS = {
    "native": ("verifierd.adapters.native", "Native"),
    "claude_code": ("verifierd.adapters.claude_code", "ClaudeCode"),
    "codex": ("verifierd.adapters.codex", "Codex"),
}

FORMATS = tuple(_ADAPTERS)
"""The names of the formats."""

_CODEX_LINES = frozenset({"compacted", "event_msg", "response_item", "session_meta", "turn_context", "world_state"})
_CODEX_NAME = re.compile(r"rollout-\d{4}-\d\d-\d\d")
_CLAUDE_NAME = re.compile(r"(?:agent-\w+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z")


def open_adapter(format: str, *, path: str) -> Adapter:
    """A new adapter for one file of a format.

    Raises:
        FormatError: No format is called so.
    """
    try:
        module, name = _ADAPTERS[format]
    except KeyError:
        raise FormatError(f"no format is called `{format}`", hint=f"Known formats: {', '.join(FORMATS)}.") from None
    return cast("Adapter", getattr(import_module(module), name)(path=path))


def detect(lines: Sequence[bytes], path: str) -> str | None:
    """The format that the first lines of a file are in; None if they do not tell, or not yet.

    The shape of the lines decides. A name never decides alone: it only confirms a shape that is common to a format's
    rarer lines but could be another program's.
    """
    name = PurePath(path).name.split(".", 1)[0]
    likely: str | None = None
    for line in lines:
        for value in parse(line).objects:
            found, certain = _shape(value)
            if certain:
                return found
            confirmed = (found == "codex" and _CODEX_NAME.match(name)) or (
                found == "claude_code" and _CLAUDE_NAME.match(name)
            )
            likely = likely or (found if confirmed else None)
    return likely


def _shape(value: dict[str, Any]) -> tuple[str | None, bool]:
    """The format that a record could be of, and whether it can be of no other."""
    kind = value.get("type")
    if isinstance(value.get("trajectory"), str) and not value.keys().isdisjoint({"action", "event"}):
        return "native", True
    if not isinstance(kind, str):
        return None, False
    if isinstance(value.get("payload"), dict):
        return "codex", kind in _CODEX_LINES
    if value.keys().isdisjoint({"leafUuid", "messageId", "sessionId", "uuid"}):
        return None, False
    talk = kind in {"user", "assistant"} and isinstance(value.get("message"), dict)
    book = (kind, *(key for key in ("leafUuid", "operation", "snapshot") if key in value))
    return "claude_code", talk or "parentUuid" in value or book in _CLAUDE_BOOKKEEPING


_CLAUDE_BOOKKEEPING = frozenset({
    ("file-history-snapshot", "snapshot"),
    ("queue-operation", "operation"),
    ("summary", "leafUuid"),
})  # fmt: skip
