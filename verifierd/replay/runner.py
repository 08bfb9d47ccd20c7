"""Takes whole files through the pipeline, once."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from verifierd.composition import Choice, at_once, judging
from verifierd.errors import FormatError, SourceError, StateError, VerifierdError
from verifierd.metrics import Metrics
from verifierd.pipeline import Pipeline, Reading
from verifierd.replay.survey import names_in, not_understood
from verifierd.sanitize import Sanitizer
from verifierd.sinks.jsonl import JsonlSink
from verifierd.sources import open_source
from verifierd.stages import Sink
from verifierd.store import Store

__all__ = ("replay", "together")


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

    Where a model is asked, several files are read at once, so that it takes their steps in one pass. Files that have a
    trajectory or a copied step in common are read one after the other, and so are all if there is a limit: which steps
    are judged, and after which history, does not depend on what runs beside them.

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
            judging(choice, store=store, sinks=sinks, metrics=Metrics(), sanitizer=Sanitizer(b"replay"), patient=True)
        )
        done: dict[int, Reading] = {}
        groups = iter(await _apart(files, choice, format))

        async def work() -> None:
            for group in groups:
                for number in group:
                    if pipeline.exhausted:
                        return
                    try:
                        done[number] = await _read(pipeline, files[number], format, on)
                    except (SourceError, FormatError) as error:
                        tell(error)

        await together(work, at_once(choice))
        return [done[number] for number in sorted(done)]


async def together(work: Callable[[], Awaitable[None]], count: int) -> None:
    """So many workers; an error of one ends all, and is told as it is."""
    if count == 1:
        await work()
        return
    failures: list[BaseException] = []

    async def one() -> None:
        try:
            await work()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - raised below; a SystemExit must not break the loop
            failures.append(error)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
    if failures:
        raise failures[0]


async def _apart(files: Sequence[Path | None], choice: Choice, format: str) -> list[list[int]]:
    """Numbers of the files, those in one list that must be read one after the other."""
    everything = list(range(len(files)))
    # What is no file can be read only once.
    if len(files) == 1 or at_once(choice) == 1 or choice.limit is not None:
        return [everything]
    if any(path is None or (path.exists() and not path.is_file()) for path in files):
        return [everything]
    leader = everything.copy()  # of each file's group, the first file
    seen: dict[tuple[str, ...], int] = {}
    for number, path in enumerate(files):
        assert path is not None
        try:
            names = await names_in(path, format=format)
        except (SourceError, FormatError):
            continue  # told when its turn comes
        if known := {leader[seen[name]] for name in names if name in seen}:
            known.add(number)
            first = min(known)
            leader = [first if other in known else other for other in leader]
        seen.update(dict.fromkeys(names, number))
    return [[number for number in everything if leader[number] == first] for first in sorted(set(leader))]


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
