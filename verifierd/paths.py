"""Paths as people write them."""

import os
from pathlib import Path

__all__ = ("expanded",)


def expanded(path: str | Path) -> Path:
    """With the home for `~` and `~NAME`; of a name that nobody has it stays as it is, as in a shell."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - that of pathlib raises where there is no such name
