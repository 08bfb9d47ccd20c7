"""The suite `scores`: how well token statistics tell faults from true observations.

It reads what a model found of each step's true observation and of altered ones, a JSON line a step, also in gzip:

    {"t": trajectory, "i": index, "real": [surprisals, entropies, varentropies, tops, pieces], "c": {kind: the same}}

Trajectories are dealt into folds; each fold is scored by a fusion fitted to the others, penalty included. That is
repeated with other deals, since what few trajectories find at low rates of false alarms is noisy.
"""

import random
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from verifierd.errors import ConfigError
from verifierd.fusion import DEFAULT, STATISTICS, fit_measured, measure
from verifierd.replay.bench.figures import Results, over_seeds
from verifierd.replay.bench.suite import Measured, Request, parameters_of
from verifierd.replay.bench.tables import unpacked, write
from verifierd.replay.statistics import auroc, detected
from verifierd.types import Likelihood

__all__ = ("scores",)

_GENERATED = "a generated set: these figures say that the sums are right, and nothing of a model; name one with --data"


class _Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See `replay/suites/scores.toml`."""

    seeds: int
    folds: int

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.folds < 2:
            raise ValueError("`seeds` must be at least 1, `folds` at least 2")


class _Line(msgspec.Struct, frozen=True):
    """A step of a file: what each list of lists holds is said above."""

    t: str | int
    i: int
    real: list[list[float | str]]
    c: dict[str, list[list[float | str]]]


class _Case(msgspec.Struct, frozen=True):
    """An observation.

    Attributes:
        trajectory: Whose.
        step: Which step of it.
        kind: Which fault; empty for a true one.
        statistics: What `measure` found.
        novelty: Bytes that it takes to say it to one who knows the trajectory so far; None if no text is known.
    """

    trajectory: str
    step: int
    kind: str
    statistics: dict[str, float]
    novelty: float | None = None


def scores(request: Request) -> Measured:
    """Measure it.

    Raises:
        ConfigError: The data cannot be read or is too little, a parameter is wrong, or a predictor was named.
        StateError: The rows cannot be written.
    """
    if request.choice.predictor:
        raise ConfigError("the suite `scores` asks no predictor", hint="Leave --predictor away.")
    parameters = parameters_of(request, _Parameters)
    cases = list(_generated(request.seed) if request.data is None else _read(request.data))
    trajectories = sorted({case.trajectory for case in cases})
    if len(trajectories) < parameters.folds:
        raise ConfigError(f"{len(trajectories)} trajectories cannot be dealt into {parameters.folds} folds")
    faulty = np.array([bool(case.kind) for case in cases])
    fused = []
    for seed in range(request.seed, request.seed + (request.runs or parameters.seeds)):
        request.say(f"fitting, deal {seed}")
        fused.append(_fused(cases, trajectories, parameters.folds, seed))
    if request.out is not None:
        _write(request.out, cases, fused)
    results: Results = {}
    for name, of in (("auroc", auroc), ("tpr5", _at5), ("tpr1", _at1)):
        results[f"{name}_fused"] = over_seeds([of(found, faulty) for found in fused])
    results |= _controls(cases, faulty)
    gain = [auroc(found, faulty) - float(results["auroc_first"]) for found in fused]  # type: ignore[arg-type]
    results["auroc_fused_over_first"] = over_seeds(gain)
    for kind in sorted({case.kind for case in cases} - {""}):
        chosen = np.array([case.kind in ("", kind) for case in cases])
        label = re.sub("[^a-z0-9]+", "_", kind.lower())
        results[f"auroc_fused_of_{label}"] = over_seeds([auroc(found[chosen], faulty[chosen]) for found in fused])
        results[f"faults_of_{label}"] = sum(case.kind == kind for case in cases)
    results["faults"], results["true_observations"] = int(faulty.sum()), int((~faulty).sum())
    results["trajectories"] = len(trajectories)
    return Measured(
        model=None,
        results=results,
        host={"data": "generated" if request.data is None else request.data.name},
        warning=_GENERATED if request.data is None else "",
    )


def _fused(cases: Sequence[_Case], trajectories: Sequence[str], folds: int, seed: int) -> NDArray[np.float64]:
    """The score of each case by what was fitted to the other folds."""
    dealt = list(trajectories)
    random.Random(seed).shuffle(dealt)  # noqa: S311 - a seeded draw, no secret
    fold = {trajectory: number % folds for number, trajectory in enumerate(dealt)}
    found = np.zeros(len(cases))
    for out in range(folds):
        kept = [case for case in cases if fold[case.trajectory] != out]
        true, faulty = ([case for case in kept if bool(case.kind) is side] for side in (False, True))
        try:
            fusion = fit_measured(
                [case.statistics for case in true],
                [case.statistics for case in faulty],
                [case.trajectory for case in true],
                [case.trajectory for case in faulty],
            )
        except ValueError as error:
            raise ConfigError(f"the data is too little: {error}") from error
        for place, case in enumerate(cases):
            if fold[case.trajectory] == out:
                found[place] = fusion.score_measured(case.statistics)
    return found


def _write(path: Path, cases: Sequence[_Case], fused: Sequence[NDArray[np.float64]]) -> None:
    """A row an observation: what it is, the scores without fitting, and the fused score of each deal."""
    deals = [f"fused_{number}" for number in range(len(fused))]
    rows: list[Sequence[object]] = [("trajectory", "step", "fault", "unfitted", *STATISTICS, *deals)]
    for place, case in enumerate(cases):
        unfitted, found = DEFAULT.score_measured(case.statistics), (float(scores[place]) for scores in fused)
        rows.append((case.trajectory, case.step, case.kind, unfitted, *case.statistics.values(), *found))
    write(path, rows)


def _controls(cases: Sequence[_Case], faulty: NDArray[np.bool_]) -> Results:
    """What is found without fitting: by the shipped fusion, by each statistic alone, and by compression."""
    results: Results = {}
    columns = {name: np.array([case.statistics[name] for case in cases]) for name in STATISTICS}
    columns |= {"unfitted": np.array([DEFAULT.score_measured(case.statistics) for case in cases])}
    if all(case.novelty is not None for case in cases):
        columns |= {"zlib": np.array([case.novelty for case in cases], dtype=np.float64)}
    for name, column in columns.items():
        label = name.replace("-", "_")
        results[f"auroc_{label}"] = auroc(column, faulty)
        if name in ("unfitted", "first", "zlib"):
            results[f"tpr5_{label}"], results[f"tpr1_{label}"] = _at5(column, faulty), _at1(column, faulty)
    return results


def _at5(found: NDArray[np.float64], faulty: NDArray[np.bool_]) -> float:
    return detected(found, faulty, 0.05)


def _at1(found: NDArray[np.float64], faulty: NDArray[np.bool_]) -> float:
    return detected(found, faulty, 0.01)


def _read(path: Path) -> Iterator[_Case]:
    """The cases of a file, in the order of the steps.

    Raises:
        ConfigError: It cannot be read, or is no such file.
    """
    lines = []
    for number, data in enumerate(unpacked(path).splitlines(), 1):
        try:
            lines.append((msgspec.json.decode(data, type=_Line), number))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}:{number}: {error}") from error
    past: dict[str, str] = {}
    for line, number in sorted(lines, key=lambda found: (str(found[0].t), found[0].i)):
        trajectory = str(line.t)
        before = past.setdefault(trajectory, "")
        for kind, columns in (("", line.real), *line.c.items()):
            try:
                yield _case(line, kind, columns, before)
            except ValueError as error:
                raise ConfigError(f"{path}:{number}: `{kind or 'real'}`: {error}") from error
        past[trajectory] = before + _text(line.real) + "\n"


def _case(line: _Line, kind: str, columns: Sequence[Sequence[float | str]], before: str) -> _Case:
    if len(columns) < _COLUMNS or len({len(column) for column in columns}) > 1 or not columns[0]:
        raise ValueError("expected lists of surprisal, entropy, varentropy and top, of equal length and not empty")
    surprisal, entropy, varentropy, top = (tuple(map(float, column)) for column in columns[:_COLUMNS])
    return _Case(
        trajectory=str(line.t),
        step=line.i,
        kind=kind,
        statistics=measure(Likelihood(surprisal=surprisal, entropy=entropy, varentropy=varentropy, top=top)),
        novelty=_novelty(_text(columns), before) if len(columns) > _COLUMNS else None,
    )


_COLUMNS = 4


def _text(columns: Sequence[Sequence[float | str]]) -> str:
    return "".join(map(str, columns[_COLUMNS])) if len(columns) > _COLUMNS else ""


def _novelty(text: str, before: str) -> float:
    """Bytes of the text deflated by one who knows the last 32 KiB before it."""
    known = before.encode(errors="replace")[-(1 << 15) :]
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=known)
    return float(len(deflate.compress(text.encode(errors="replace")) + deflate.flush()))


_TRAJECTORIES, _STEPS = 20, 6


def _generated(seed: int) -> Iterator[_Case]:
    """Statistics as a model might find them: it is sure of most tokens, and faults hold some that it did not expect."""
    draw = random.Random(f"scores/{seed}")  # noqa: S311 - a seeded draw, no secret
    for step in range(_TRAJECTORIES * _STEPS):
        size = draw.randrange(2, 30)
        entropy = [draw.expovariate(1.0) for _ in range(size)]
        for kind, share in (("", 0.0), ("swap", 0.6), ("number", 0.1)):
            odd = [bool(kind) and (draw.random() < share or place == size // 2) for place in range(size)]
            top = [nats * draw.uniform(0.2, 0.6) for nats in entropy]
            surprisal = [
                least + draw.expovariate(0.25 if wrong else 1.0 / (nats + 0.1))
                for least, nats, wrong in zip(top, entropy, odd, strict=True)
            ]
            found = Likelihood(
                surprisal=tuple(surprisal),
                entropy=tuple(entropy),
                varentropy=tuple(nats * draw.uniform(1.0, 3.0) for nats in entropy),
                top=tuple(top),
            )
            yield _Case(
                trajectory=str(step % _TRAJECTORIES),
                step=step // _TRAJECTORIES,
                kind=kind,
                statistics=measure(found),
            )
