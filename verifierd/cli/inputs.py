"""From the paths of a command line to files."""

from collections.abc import Sequence
from pathlib import Path

from verifierd.errors import SourceError
from verifierd.sources.directory import expand

__all__ = ("expand_inputs",)


def expand_inputs(paths: Sequence[str]) -> list[Path | None]:
    """The files that paths, folders and globs stand for; None for `-`, standard input.

    Raises:
        SourceError: A path does not exist, or there is no log in any of them.
    """
    files: list[Path | None] = [None] if "-" in paths else []
    named = [path for path in paths if path != "-"]
    if named:
        files += expand(named, ())
    if not files:
        raise SourceError(
            f"no agent logs in {', '.join(named)}",
            hint="verifierd looks for *.jsonl, *.jsonl.gz and *.ndjson; name another file itself to read it anyway.",
        )
    return files
