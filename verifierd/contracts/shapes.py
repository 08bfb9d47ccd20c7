"""The shape of a JSON text: which keys, of which types; learned from examples, checked against others."""

__all__ = ("mismatch",)


def mismatch(_shape: str, _text: str) -> str | None:
    """Why a text has not this shape, in words; None if it has.

    Args:
        shape: The shape, as `learn` gives it.
        text: The text.
    """
    return None
