"""Takes whole files through the pipeline, once."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

from verifierd.composition import Choice, judging
from verifierd.errors import SourceError
from verifierd.metrics import Metrics
from verifierd.pipeline import Pipeline, Reading
from verifierd.sanitize import Sanitizer
from verifierd.sinks.jsonl import JsonlSink
from verifierd.sources import open_source
from verifierd.stages import Sink
from verifierd.store import Store

__all__ = ("replay",)

_log = structlog.get_logger(component="replay")


async def replay(
    files: Sequence[Path | None],
    choice: Choice,
    *,
    sinks: Sequence[Sink],
    out: Path | None = None,
    format: str = "auto",
    on: Callable[[str, int], None] = lambda _path, _end: None,
) -> list[Reading]:
    """Read each file to its end and judge all of it, with a private state that is thrown away.

    A file that turns out unreadable is logged and skipped; the rest goes on.

    Args:
        files: What to read, in this order; None is standard input.
        choice: Who judges.
        sinks: Where verdicts go.
        out: A verdict JSONL to write beside them; an existing file is replaced.
        format: A format's name, or `auto`.
        on: Told a path and how many of its bytes are done.

    Returns:
        What became of each file, in order, without those that could not be read.

    Raises:
        ConfigError: A policy or a predictor is wrong.
        StateError: `out` cannot be written.
    """
    async with AsyncExitStack() as stack:
        store = Store(None)
        await store.open()
        stack.push_async_callback(store.aclose)
        if out is not None:
            out.unlink(missing_ok=True)
            jsonl = JsonlSink(out, store)
            await jsonl.open()
            sinks = (jsonl, *sinks)
        for sink in sinks:
            stack.push_async_callback(sink.aclose)
        pipeline = await stack.enter_async_context(
            judging(choice, store=store, sinks=sinks, metrics=Metrics(), sanitizer=Sanitizer(b"replay"))
        )
        done = []
        for path in files:
            if pipeline.exhausted:
                break
            reading = await _read(pipeline, path, format, on)
            if reading is not None:
                done.append(reading)
        return done


async def _read(
    pipeline: Pipeline,
    path: Path | None,
    format: str,
    on: Callable[[str, int], None],
) -> Reading | None:
    try:
        source = open_source("-" if path is None else path)
        try:
            reading = Reading(source, format=format)
            while await pipeline.pump(reading) and not pipeline.exhausted:
                on(source.path, reading.end)
            await pipeline.finish(reading)
        finally:
            await source.aclose()
    except SourceError as error:
        _log.warning("file_skipped", path=str(path), error=error.message, hint=error.hint)
        return None
    on(source.path, reading.end)
    return reading
