"""Finds the documents of `policies/` and `replay/`, in a wheel or in a checkout."""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

__all__ = ("root",)


def root(kind: str) -> Traversable:
    """The folder of documents of a kind (`policies` or `replay`).

    A checkout wins over the copy that an editable install leaves in the package.
    """
    checkout = Path(__file__).parents[1] / kind
    if (checkout / "README.md").is_file() and (checkout.parent / "pyproject.toml").is_file():
        return checkout
    return resources.files("verifierd") / "_bundled" / kind
