"""The seam between a document's rule and the code that derives what it says of one call."""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from verifierd.contracts.calls import Call
from verifierd.contracts.state.session import Session

__all__ = ("Fact", "Finding")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What was derived; what is left empty is taken from the rule.

    Attributes:
        values: Values for the `{names}` in the rule's texts.
        text, texts, known, low, high: As in `Constraint`; they replace the rule's.
        tolerates: As in `Constraint`, for tools; of a command line it follows from what else runs there.
    """

    values: Mapping[str, str] = {}
    text: str | None = None
    texts: tuple[str, ...] | None = None
    known: Mapping[int, str] | None = None
    low: int | None = None
    high: int | None = None
    tolerates: str = ""


Fact = Callable[[Call, Session], Iterable[Finding]]
"""Nothing is found where nothing can be said."""
