"""Runs the jobs of a suite: asks, keeps what comes back, goes on where a killed run ended."""

import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import anyio

from verifierd import __version__
from verifierd.policy import DOMAINS, load
from verifierd.predictors import prompt
from verifierd.replay.bench.asking import Party, party
from verifierd.replay.bench.book import About, Book, Row
from verifierd.replay.bench.figures import Results
from verifierd.replay.bench.suite import Measured, Request
from verifierd.replay.runner import together

__all__ = ("Engine", "Staged", "drive")

_AT_ONCE = 8
"""Jobs at once where a server is asked; a model in process is asked one thing at a time."""


class Engine(Protocol):
    """What a suite does; made of a request.

    Attributes:
        jobs: Names of what is to be done, in order; a job is done whole or not at all.
        warning: What a reader must know before reading the figures.
    """

    jobs: Sequence[str]
    warning: str

    async def run(self, job: str, asked: Party) -> Sequence[Row]:
        """Do a job."""

    def figures(self, rows: Sequence[Row]) -> Results:
        """What the rows of all jobs say."""


@runtime_checkable
class Staged(Engine, Protocol):
    """An engine that asks somebody else too, or of whose jobs some build on what others found."""

    def begun(self, asked: Party, done: Mapping[str, Sequence[Row]]) -> AbstractAsyncContextManager[None]:
        """Around all jobs.

        Args:
            asked: Who is asked.
            done: The rows of each job that is done; it grows.
        """


def drive(request: Request, make: Callable[[Request], Engine], *, at_once: int | None = None) -> Measured:
    """Do all jobs of a suite that are not done yet.

    Args:
        request: What is measured.
        make: Makes the engine.
        at_once: Jobs at once, of an engine that itself asks a model in process one thing at a time; None for what the
            model takes.

    Raises:
        ConfigError: A parameter or the data is wrong, or the file holds another run.
        PredictorError: The predictor cannot start here, or failed for good.
    """
    engine = make(request)

    async def work() -> Measured:
        async with party(request.choice) as asked:
            with Book(request.out, _about(request, asked)) as book:
                async with engine.begun(asked, book.done) if isinstance(engine, Staged) else nullcontext():
                    await _run(engine, asked, book, request, at_once)
                rows = book.rows(engine.jobs)
        return Measured(
            model=asked.model, results=engine.figures(rows), host=book.about.host, warning=engine.warning, rows=rows
        )

    return anyio.run(work)


async def _run(engine: Engine, asked: Party, book: Book, request: Request, at_once: int | None) -> None:
    waiting = [job for job in engine.jobs if job not in book.done]
    total = len(engine.jobs)
    request.on(total - len(waiting), total)
    left = iter(waiting)

    async def work() -> None:
        for job in left:
            book.add(job, await engine.run(job, asked))
            request.on(1, total)

    await together(work, at_once or (_AT_ONCE if request.choice.model.base_url is not None else 1))


def _about(request: Request, asked: Party) -> About:
    policy = load(request.choice.policy)
    return About(
        suite=request.suite,
        size=request.size,
        predictor=asked.name,
        model=asked.model,
        policy=policy.id,
        prompts=_prompts(request.choice.model.prompts),
        sampling=request.sampling,
        seed=request.seed,
        runs=request.runs or 0,
        parameters=dict(request.parameters),
        data="" if request.data is None else _digest(request.data),
        verifierd=__version__,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        host=_versions(),
    )


def _prompts(folder: str | None) -> str:
    place = None if folder is None else Path(folder).expanduser()
    texts = "\0".join(prompt.system_prompt(domain, place) for domain in DOMAINS)
    return hashlib.blake2b(texts.encode(), digest_size=8).hexdigest()


def _digest(path: Path) -> str:
    """Of a file, or of the names and sizes in a folder."""
    state = hashlib.blake2b(digest_size=8)
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            state.update(f"{file.name}\0{file.stat().st_size}\0".encode())
    return state.hexdigest()


def _versions() -> dict[str, Any]:
    found: dict[str, Any] = {"system": platform.platform(), "python": platform.python_version()}
    for name in ("mlx", "mlx-lm", "bashkit"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
