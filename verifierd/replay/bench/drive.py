"""Runs the jobs of a suite: asks, keeps what comes back, goes on where a killed run ended."""

import hashlib
import os
import platform
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import anyio

from verifierd import __version__
from verifierd.errors import ConfigError, PredictorError
from verifierd.paths import expanded
from verifierd.policy import DOMAINS, load
from verifierd.predictors import prompt
from verifierd.replay.bench.asking import Outcome, Party, party
from verifierd.replay.bench.book import About, Book, Row
from verifierd.replay.bench.figures import Results
from verifierd.replay.bench.suite import Measured, Request
from verifierd.replay.runner import together
from verifierd.sanitize import Sanitizer
from verifierd.stages import Asked, Message

__all__ = ("Engine", "Staged", "drive")

_AT_ONCE = 8
"""Jobs at once where a server is asked; a model in process is asked one thing at a time."""

_LOST = 50
"""Jobs in a row that failed, after which nobody is asked on: the server has gone, or never knew how to answer."""

_MISSED = 0.05
"""Of the answers that may be missing, and the rest still stand for all."""

_DETAIL = 200

_SILENT = frozenset({Outcome.ABSTAINED, Outcome.EMPTY, Outcome.FAILED, Outcome.THOUGHT})


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
    jobs = list(engine.jobs)[: request.choice.limit]
    at_once = at_once or (_AT_ONCE if request.choice.model.base_url is not None else 1)

    async def work() -> Measured:
        async with party(request.choice) as asked:
            about = _about(request, asked, at_once)
            with Book(request.out, about) as book:
                around = (
                    engine.begun(asked, book.done)
                    if isinstance(engine, Staged)
                    else _greeted(jobs, asked, book, request)
                )
                async with around:
                    await _Work(engine, asked, book, jobs, request.on).run(at_once)
                rows = book.rows(jobs)
        return Measured(
            model=asked.model,
            results=engine.figures(rows),
            host=about.host,
            warning="; ".join(filter(None, (engine.warning, _limited(jobs, engine), _missing(rows)))),
            rows=rows,
        )

    return anyio.run(work)


def _limited(jobs: Sequence[str], engine: Engine) -> str:
    return f"the first {len(jobs):,} of {len(engine.jobs):,} jobs" if len(jobs) < len(engine.jobs) else ""


def _missing(rows: Sequence[Row]) -> str:
    """That so little came that figures seem to tell what they do not: who says nothing does not break its role."""
    failed = [row for row in rows if row.outcome is Outcome.FAILED]
    if len(failed) > _MISSED * len(rows):
        why = Sanitizer(os.urandom(16)).text(failed[0].detail or "no reason is known", _DETAIL)
        return f"{len(failed):,} of {len(rows):,} answers never came, the first as {why}"
    if rows and all(row.outcome in _SILENT for row in rows):
        return f"none of {len(rows):,} answers says anything"
    return ""


@asynccontextmanager
async def _greeted(jobs: Sequence[str], asked: Party, book: Book, request: Request) -> AsyncIterator[None]:
    """See whether a server is there, before its absence is taken for answers.

    Raises:
        PredictorError: It is not.
    """
    if asked.chat is not None and request.choice.model.base_url is not None and set(jobs) - book.done.keys():
        await asked.talk([Message("user", "Say yes.")], Asked(max_tokens=1))
    yield


class _Work:
    """Does what is left to do.

    Jobs that failed are kept once another one did not, or at the end: if the server has gone, they are still to do.

    Args:
        engine: Does each.
        asked: Who is asked.
        book: Keeps them.
        jobs: All jobs.
        on: Told how many more are done, and how many there are.
    """

    def __init__(
        self, engine: Engine, asked: Party, book: Book, jobs: Sequence[str], on: Callable[[int, int], None]
    ) -> None:
        self._engine = engine
        self._asked = asked
        self._book = book
        self._jobs = jobs
        self._on = on
        self._failed: list[tuple[str, Sequence[Row]]] = []

    async def run(self, at_once: int) -> None:
        """Do it.

        Raises:
            PredictorError: So many jobs in a row failed that nobody seems to be there.
        """
        waiting = [job for job in self._jobs if job not in self._book.done]
        self._on(len(self._jobs) - len(waiting), len(self._jobs))
        left = iter(waiting)

        async def work() -> None:
            for job in left:
                self._keep(job, await self._engine.run(job, self._asked))

        await together(work, at_once)
        self._write()

    def _keep(self, job: str, rows: Sequence[Row]) -> None:
        self._failed.append((job, rows))
        if not rows or any(row.outcome is not Outcome.FAILED for row in rows):
            self._write()
        elif len(self._failed) == _LOST:
            raise PredictorError(
                f"the last {_LOST} jobs failed: {rows[-1].detail or 'no reason is known'}",
                hint="Is the server there, and able to answer? With --out, the same command goes on with them.",
            )
        self._on(1, len(self._jobs))

    def _write(self) -> None:
        for job, rows in self._failed:
            self._book.add(job, rows)
        self._failed.clear()


def _about(request: Request, asked: Party, at_once: int) -> About:
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
        host=_versions() | {"at-once": at_once},
    )


def _prompts(folder: str | None) -> str:
    place = None if folder is None else expanded(folder)
    texts = "\0".join(prompt.system_prompt(domain, place) for domain in DOMAINS)
    return hashlib.blake2b(texts.encode(), digest_size=8).hexdigest()


def _digest(path: Path) -> str:
    """Of a file, or of all that a folder holds.

    Raises:
        ConfigError: It cannot be read.
    """
    state = hashlib.blake2b(digest_size=8)
    try:
        for file in sorted(filter(Path.is_file, path.rglob("*"))) if path.is_dir() else [path]:
            state.update(f"{file.name}\0{file.stat().st_size}\0".encode(errors="replace"))
            with file.open("rb") as content:
                while part := content.read(1 << 20):
                    state.update(part)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror or error}", hint="Name a readable file after --data."
        ) from error
    return state.hexdigest()


def _versions() -> dict[str, Any]:
    found: dict[str, Any] = {"system": platform.platform(), "python": platform.python_version()}
    for name in ("mlx", "mlx-lm", "bashkit"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
