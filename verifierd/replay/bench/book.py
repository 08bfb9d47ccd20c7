"""What a run found, as JSON lines that a killed run goes on with.

The first line says all that is needed to repeat the run. Each further one is a job with its rows, written at once: a
line that a kill cut is dropped, and its job done again. Texts stand there as they came, to be read and judged again.
"""

import fcntl
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from verifierd.errors import ConfigError, StateError
from verifierd.replay.bench.asking import Outcome, Sampling

__all__ = ("About", "Book", "Row", "read")


class About(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a run is; runs of which only `date` and `host` differ can be continued by each other.

    Attributes:
        suite, size: What was measured.
        predictor, model: Who was asked; the model with its revision.
        policy: How, with the policy's hash.
        prompts: Digest of the system prompts.
        sampling, seed, runs: How often, and what was drawn.
        parameters: The suite's, for the size.
        data: Digest of the file that was measured on; empty if there was none.
        verifierd: The version.
        date: When it began.
        host: The machine, and versions of what did the work.
    """

    suite: str
    size: str
    predictor: str
    model: str | None
    policy: str
    prompts: str
    sampling: Sampling
    seed: int
    runs: int
    parameters: dict[str, Any]
    data: str = ""
    verifierd: str
    date: str
    host: dict[str, Any]


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="kebab"):
    """One answer.

    Attributes:
        case: What was asked, the same for every run and model.
        run: The how manieth time.
        group: Cases of one group hang together.
        depth: How many steps came before.
        outcome: What the answer is.
        exact, without_echo, normalised: How it compares with the truth; None where that is not asked.
        scores: What else was measured.
        expected, said: The truth and the answer.
        detail: More of the outcome.
        prompt_tokens, generated_tokens, seconds, first_token_seconds: What it cost.
    """

    case: str
    run: int = 0
    group: str = ""
    depth: int = 0
    outcome: Outcome
    exact: bool | None = None
    without_echo: bool | None = None
    normalised: bool | None = None
    scores: dict[str, float] = {}
    expected: str = ""
    said: str = ""
    detail: str = ""
    prompt_tokens: int | None = None
    generated_tokens: int | None = None
    seconds: float = 0.0
    first_token_seconds: float | None = None


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    rows: list[Row]


class Book:
    """The rows of a run, kept in a file if there is one.

    Args:
        path: The file; None keeps them in memory only.
        about: What the run is.

    Raises:
        ConfigError: The file holds another run, or none.
        StateError: It cannot be read or written, or another run writes it.
    """

    def __init__(self, path: Path | None, about: About) -> None:
        self.about = about
        self.done: dict[str, list[Row]] = {}
        self._file = None if path is None else _opened(path)
        if path is not None and self._file is not None:
            try:
                self._take_up(path)
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> Self:
        """Write."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def add(self, job: str, rows: Sequence[Row]) -> None:
        """Keep what a job found, on disk before this returns."""
        self.done[job] = list(rows)
        self._write(_Entry(job=job, rows=list(rows)))

    def rows(self, jobs: Sequence[str]) -> list[Row]:
        """The rows of these jobs, in their order, as far as they are done."""
        return [row for job in jobs for row in self.done.get(job, ())]

    def _write(self, line: object) -> None:
        if self._file is None:
            return
        try:
            left = _encoded(line) + b"\n"
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StateError(f"{self._file.name}: {error.strerror or error}", hint="Make room, then go on.") from error

    def _take_up(self, path: Path) -> None:
        assert self._file is not None
        end = 0
        found: About | None = None
        for found, entry, end in _lines(path):  # noqa: B007 - what the last one left is used
            if entry is not None:
                self.done[entry.job] = entry.rows
        if found is None:
            self._file.truncate(0)  # of a line that a kill cut
            self._write(self.about)
            return
        if unlike := _unlike(found, self.about):
            raise ConfigError(
                f"{path}: holds another run; it differs in {', '.join(unlike)}",
                hint="Name another file after --out, or give the same options to go on with it.",
            )
        self._file.truncate(end)


def read(path: Path) -> tuple[About, list[Row]]:
    """A run as it was written.

    Raises:
        ConfigError: The file holds no run.
        StateError: It cannot be read.
    """
    about: About | None = None
    rows: list[Row] = []
    for about, entry, _ in _lines(path):  # noqa: B007 - as above
        rows += [] if entry is None else entry.rows
    if about is None:
        raise ConfigError(f"{path}: holds no run", hint="Name a file that `verifierd bench SUITE --out FILE` wrote.")
    return about, rows


def _opened(path: Path) -> io.FileIO:
    another = "Name another file after --out."
    if path.exists() and not path.is_file():
        raise StateError(f"{path}: is no regular file", hint=another)
    try:
        file = io.FileIO(path, "a", opener=lambda name, flags: os.open(name, flags, 0o600))
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}", hint=another) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StateError(f"{path}: another run writes it", hint=f"Wait for it. {another}") from error
    return file


def _lines(path: Path) -> Iterator[tuple[About, _Entry | None, int]]:
    """What the run is, with each entry and where its line ends; a cut last line is left out."""
    hint = "Name a file that `verifierd bench SUITE --out FILE` wrote."
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}", hint="Name a file that can be read.") from error
    about: About | None = None
    end = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            if about is None and line[: len(_BEGINNING)] != _BEGINNING[: len(line)]:
                raise ConfigError(f"{path}: holds no run", hint=hint)
            return
        try:
            if about is None:
                about = msgspec.json.decode(line, type=About)
                entry = None
            else:
                entry = msgspec.json.decode(line, type=_Entry)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}:{number}: {error}", hint=hint) from error
        end += len(line)
        yield about, entry, end


_BEGINNING = b'{"suite":'
"""Of the first line of every run; a file whose only line begins otherwise is not ours to write."""


def _encoded(line: object) -> bytes:
    try:
        return msgspec.json.encode(line)
    except UnicodeEncodeError:  # half of a pair of surrogates, as a model's server may send it
        return msgspec.json.encode(_whole(msgspec.to_builtins(line)))


def _whole(value: Any) -> Any:
    """The value, with `?` for what is no character."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_whole(key): _whole(one) for key, one in value.items()}
        case list():
            return [_whole(one) for one in value]
        case _:
            return value


def _unlike(one: About, other: About) -> list[str]:
    told = msgspec.json.decode(_encoded(other), type=About)  # as the one was: a tuple is a list in a file
    names = (name for name in About.__struct_fields__ if name not in ("date", "host"))
    return [name for name in names if getattr(one, name) != getattr(told, name)]
