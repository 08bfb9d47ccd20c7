"""Facts about literal output and about how many lines there may be."""

from collections.abc import Iterable, Mapping

from verifierd.contracts.calls import Call
from verifierd.contracts.facts.base import Fact, Finding
from verifierd.contracts.state.session import Session

__all__ = ("FACTS",)

_DEFAULT_LINES = 10


def echoed(call: Call, _session: Session) -> Iterable[Finding]:
    """What `echo` prints: its words joined by blanks, where no shell could read them otherwise."""
    command = call.command
    if command is None or call.globs:
        return
    words = [word.text for word in command.args]
    if any(text is None or "\\" in text for text in words) or (words and (words[0] or "").startswith("-")):
        return
    text = " ".join(text for text in words if text is not None)
    if text.strip():
        yield Finding(text=text)


def line_limit(call: Call, _session: Session) -> Iterable[Finding]:
    """The number of lines that `head` or `tail` was asked for; 10 if nothing is said."""
    if call.given("-c", "--bytes", "-f", "-F", "--follow", "-q", "-v") or len(call.operands) > 1:
        return
    wanted = call.value("-n", "--lines")
    if wanted is None:
        numbers = [name[1:] for name in call.options if name[1:].isdigit()]
        wanted = numbers[0] if numbers else str(_DEFAULT_LINES)
        if call.given("-n", "--lines"):
            return
    if wanted.isdigit() and len(wanted) < 8:
        yield Finding(high=int(wanted), values={"count": wanted})


FACTS: Mapping[str, Fact] = {"echoed": echoed, "line-limit": line_limit}
