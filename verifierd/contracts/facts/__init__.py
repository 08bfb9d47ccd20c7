"""What a rule says of one call: the named derivations that documents refer to by `fact`."""

from collections.abc import Mapping

from verifierd.contracts.facts import files, names, repository, search, text, tools
from verifierd.contracts.facts.base import Fact, Finding

__all__ = ("FACTS", "Fact", "Finding")

FACTS: Mapping[str, Fact] = {
    **text.FACTS,
    **search.FACTS,
    **files.FACTS,
    **names.FACTS,
    **repository.FACTS,
    **tools.FACTS,
}
