"""Takes whole files through the pipeline, once."""

from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from verifierd.errors import SourceError
from verifierd.pipeline import Pipeline, Reading
from verifierd.sources.file import FileSource
from verifierd.sources.stdin import StdinSource

__all__ = ("run_files",)

_log = structlog.get_logger(component="replay")


async def run_files(
    pipeline: Pipeline,
    paths: Iterable[Path | None],
    *,
    format: str = "auto",  # noqa: A002 - the option's name
    progress: Callable[[str, int], None] = lambda _path, _end: None,
) -> list[Reading]:
    """Read each file to its end and judge all of it; None is standard input.

    A file that turns out unreadable is logged and skipped; the rest goes on.

    Args:
        pipeline: What judges.
        paths: What to read, in this order.
        format: A format's name, or `auto`.
        progress: Called with a path and how many of its bytes are done.

    Returns:
        What became of each file, in order, without those that could not be opened.
    """
    done = []
    for path in paths:
        if pipeline.exhausted:
            break
        source = StdinSource() if path is None else FileSource(path, None)
        reading = Reading(source, format=format)
        try:
            while await pipeline.pump(reading) and not pipeline.exhausted:
                progress(source.path, reading.end)
            await pipeline.finish(reading)
        except SourceError as error:
            _log.warning("file_skipped", path=source.path, error=error.message, hint=error.hint)
            continue
        finally:
            await source.aclose()
        progress(source.path, reading.end)
        done.append(reading)
    return done
