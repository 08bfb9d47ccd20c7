"""Facts about files."""

from collections.abc import Mapping

from verifierd.contracts.facts.base import Fact

__all__ = ("FACTS",)

FACTS: Mapping[str, Fact] = {}
