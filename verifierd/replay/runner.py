"""Takes whole files through the pipeline, once."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from verifierd.composition import Choice, judging
from verifierd.errors import FormatError, SourceError, StateError, VerifierdError
from verifierd.metrics import Metrics
from verifierd.pipeline import Pipeline, Reading
from verifierd.replay.survey import not_understood
from verifierd.sanitize import Sanitizer
from verifierd.sinks.jsonl import JsonlSink
from verifierd.sources import open_source
from verifierd.stages import Sink
from verifierd.store import Store

__all__ = ("replay",)


async def replay(
    files: Sequence[Path | None],
    choice: Choice,
    *,
    sinks: Sequence[Sink],
    out: Path | None = None,
    format: str = "auto",
    on: Callable[[str, int], None] = lambda _path, _end: None,
    tell: Callable[[VerifierdError], None] = lambda _error: None,
) -> list[Reading]:
    """Read each file to its end and judge all of it, with a private state that is thrown away.

    A file that turns out unreadable, or in no known format, is told and skipped; the rest goes on.

    Args:
        files: What to read, in this order; None is standard input.
        choice: Who judges.
        sinks: Where verdicts go.
        out: A verdict JSONL to write beside them; an existing file is replaced.
        format: A format's name, or `auto`.
        on: Told a path and how many of its bytes are done.
        tell: Told why a file is skipped.

    Returns:
        The files that were read, in order.

    Raises:
        ConfigError: A policy or a predictor is wrong.
        StateError: `out` cannot be written.
    """
    async with AsyncExitStack() as stack:
        store = Store(None)
        await store.open()
        stack.push_async_callback(store.aclose)
        if out is not None:
            _remove(out)
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
            try:
                done.append(await _read(pipeline, path, format, on))
            except (SourceError, FormatError) as error:
                tell(error)
        return done


async def _read(
    pipeline: Pipeline,
    path: Path | None,
    format: str,
    on: Callable[[str, int], None],
) -> Reading:
    source = open_source("-" if path is None else path)
    try:
        reading = Reading(source, format=format)
        while await pipeline.pump(reading) and not pipeline.exhausted:
            on(source.path, reading.end)
        await pipeline.finish(reading)
    finally:
        await source.aclose()
    on(source.path, reading.end)
    if reading.adapter is None and not pipeline.exhausted:
        raise not_understood(source.path, empty=not reading.complained)
    return reading


def _remove(out: Path) -> None:
    try:
        out.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(
            f"{out}: cannot be replaced: {error.strerror or error}", hint="Name another file after --out."
        ) from error
