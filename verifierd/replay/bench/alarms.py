"""The suite `alarms`: how many clean and how many faulty trajectories alarm, by three rules on one table of scores.

It reads a table of judged steps, CSV or JSON lines, also in gzip: a row a step with its trajectory, its number, its
score, and whether the trajectory is clean. See `replay/README.md` for the names of the columns.

Clean trajectories are dealt into reference, level and the rest, on which the rules are tried; that is repeated.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from verifierd.calibration import Scored, Table, Trajectory, evaluate_all, fit, rank, required, tabulate
from verifierd.errors import ConfigError
from verifierd.replay.bench.figures import Results, over_seeds
from verifierd.replay.bench.suite import Measured, Request, parameters_of
from verifierd.replay.bench.tables import unpacked, write

__all__ = ("alarms", "read")

_GENERATED = (
    "a generated set: these figures say that the sums are right, and nothing of a verifier; name one with --data"
)
_LONG = 100

_COLUMNS = {
    "trajectory": ("trajectory", "uq_problem_idx"),
    "step": ("step", "num_steps"),
    "score": ("score", "judge_probability"),
    "clean": ("clean", "solved"),
}
"""What columns may be called; of the scores the first is high for odd steps, the second for good ones."""

_TRUE, _FALSE = ("true", "1", "1.0", "yes"), ("false", "0", "0.0", "no")


class _Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """See `replay/suites/alarms.toml`."""

    seeds: int
    reference: int
    level: int
    alpha: float
    faults: tuple[float, ...]
    fault_seeds: int
    trim: float

    def __post_init__(self) -> None:
        if min(self.seeds, self.fault_seeds, self.reference, self.level) < 1:
            raise ValueError("`seeds`, `fault-seeds`, `reference` and `level` must be at least 1")
        if not 0 < self.alpha < 1 or not 0 <= self.trim < 0.5 or not all(0 < share < 1 for share in self.faults):
            raise ValueError("`alpha` and `faults` must be above 0 and below 1, `trim` at least 0 and below 0.5")


Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]


class _Set:
    """Trajectories with the truth about them.

    Attributes:
        names: What they are called.
        table: Their scores.
        clean, faulty: Their places.
        largest: The largest score of each.
    """

    def __init__(self, trajectories: Sequence[Trajectory], clean: Sequence[bool]) -> None:
        self.names = [trajectory.id for trajectory in trajectories]
        self.table: Table = tabulate(trajectories)
        self.clean: Numbers = np.flatnonzero(np.array(clean, np.bool_))
        self.faulty: Numbers = np.flatnonzero(~np.array(clean, np.bool_))
        self.largest: Floats = np.full(len(trajectories), -np.inf)
        np.maximum.at(self.largest, self.table.row, self.table.score)

    def quarters(self) -> Numbers:
        """The quarter of the clean lengths that each trajectory falls into, from 0."""
        lengths = self.table.lengths
        return np.searchsorted(np.quantile(lengths[self.clean], (0.25, 0.5, 0.75)), lengths)


def alarms(request: Request) -> Measured:
    """Measure it.

    Raises:
        ConfigError: A parameter is wrong, or the data.
        StateError: The table cannot be written.
    """
    parameters = parameters_of(request, _Parameters)
    if request.runs is not None:
        parameters = msgspec.structs.replace(parameters, seeds=request.runs)
    data = _Set(*(_generated(request.seed) if request.data is None else read(request.data)))
    parameters, warning = _fitting(parameters, data, request.data)
    marks = {rule: np.full((len(data.names), parameters.seeds), b".") for rule in ("e_sr", "max", "per_step")}
    for seed in range(parameters.seeds):
        _try(data, parameters, request.seed, seed, marks)
    if request.out is not None:
        _write(request.out, data, marks)
    return Measured(
        model=None,
        results={**_results(data, marks), **_with_faults(data, parameters, request.seed)},
        warning=_GENERATED if request.data is None else warning,
    )


def _fitting(parameters: _Parameters, data: _Set, path: Path | None) -> tuple[_Parameters, str]:
    """Parts no larger than what the data allows, and what to say of that."""
    clean, faulty = len(data.clean), len(data.faulty)
    if clean > parameters.reference + parameters.level and faulty:
        return parameters, ""
    part, needed = clean // 3, required(parameters.alpha)
    if part < needed or not faulty:
        raise ConfigError(
            f"{path}: has {clean:,} clean trajectories and {faulty:,} others",
            hint=f"At least {3 * needed:,} clean ones and one other are needed.",
        )
    return (
        msgspec.structs.replace(parameters, reference=part, level=part),
        f"only {clean:,} clean trajectories: {part:,} are the reference, {part:,} give the level",
    )


def _try(data: _Set, parameters: _Parameters, base: int, seed: int, marks: Mapping[str, NDArray[np.bytes_]]) -> None:
    """One deal of the clean trajectories: mark who alarms by each rule, and who was learnt from."""
    order = np.random.default_rng((base, seed)).permutation(data.clean)
    reference, level = np.split(order[: parameters.reference + parameters.level], [parameters.reference])
    learnt = fit(data.table, reference, level, alpha=parameters.alpha, step_alpha=parameters.alpha, seed=seed)
    outcomes = evaluate_all(learnt, data.table)
    per_step = np.zeros(len(data.names), np.bool_)
    per_step[data.table.row[outcomes.p <= parameters.alpha]] = True
    place = rank(len(level), parameters.alpha)
    most = math.inf if place is None else np.sort(data.largest[level])[place - 1]
    for rule, alarmed in (("e_sr", outcomes.alarm > 0), ("max", data.largest > most), ("per_step", per_step)):
        marks[rule][alarmed, seed] = b"A"
        marks[rule][reference, seed] = b"r"
        marks[rule][level, seed] = b"l"


def _results(data: _Set, marks: Mapping[str, NDArray[np.bytes_]]) -> Results:
    results: Results = {}
    for rule in ("per_step", "e_sr", "max"):
        results[f"far_{rule}"] = over_seeds(_shares(marks[rule][data.clean]))
        results[f"tpr_{rule}"] = over_seeds(_shares(marks[rule][data.faulty]))
    quarters, lengths = data.quarters(), data.table.lengths
    parts = [(f"q{number + 1}", data.clean[quarters[data.clean] == number]) for number in range(4)]
    parts.append((f"over_{_LONG}", data.clean[lengths[data.clean] > _LONG]))
    worst = 0.0
    for name, part in parts:
        shares = _shares(marks["e_sr"][part])
        if len(shares):
            found = results[f"far_e_sr_{name}"] = over_seeds(shares)
            worst = max(worst, found.value if name != f"over_{_LONG}" else 0.0)
    results["far_e_sr_worst_quarter"] = worst
    results["clean"], results["faulty"] = len(data.clean), len(data.faulty)
    return results


def _shares(marks: NDArray[np.bytes_]) -> list[float]:
    """Of each seed the share that alarmed, of those that were tried."""
    alarmed, tried = (marks == b"A").sum(0), ((marks == b"A") | (marks == b".")).sum(0)
    return [float(one / all_) for one, all_ in zip(alarmed, tried, strict=True) if all_]


def _with_faults(data: _Set, parameters: _Parameters, base: int) -> Results:
    """The same where a share of what was taken to be clean is not, with and without trimming."""
    results: Results = {}
    size = parameters.reference + parameters.level
    for share in parameters.faults:
        for name, trim in (("", 0.0), ("_trimmed", parameters.trim)):
            far, tpr = [], []
            for seed in range(parameters.fault_seeds):
                draw = np.random.default_rng((base, seed))
                order = draw.permutation(data.clean)
                taken, fresh = order[:size].copy(), order[size:]
                faulty = draw.permutation(data.faulty)
                count = min(int(draw.binomial(size, share)), len(faulty) - 1)
                taken[draw.permutation(size)[:count]] = faulty[:count]
                parts = np.split(taken, [parameters.reference])
                learnt = fit(
                    data.table, *parts, alpha=parameters.alpha, step_alpha=parameters.alpha, trim=trim, seed=seed
                )
                alarmed = evaluate_all(learnt, data.table).alarm > 0
                far.append(float(alarmed[fresh].mean()))
                tpr.append(float(alarmed[faulty[count:]].mean()))
            results[f"far_e_sr_faults{100 * share:.0f}{name}"] = over_seeds(far)
            results[f"tpr_e_sr_faults{100 * share:.0f}{name}"] = over_seeds(tpr)
    return results


def _write(path: Path, data: _Set, marks: Mapping[str, NDArray[np.bytes_]]) -> None:
    """A row a trajectory; of each seed a letter: alarmed, tried (a dot), in the reference, or in the level part."""
    rows: list[Sequence[object]] = [("trajectory", "steps", "clean", "largest", *marks)]
    clean = set(data.clean.tolist())
    for place, name in enumerate(data.names):
        seen = (b"".join(marks[rule][place]).decode() for rule in marks)
        rows.append((name, data.table.lengths[place], int(place in clean), data.largest[place], *seen))
    write(path, rows)


def read(path: Path) -> tuple[list[Trajectory], list[bool]]:
    """The trajectories of a table, and whether each is clean.

    Raises:
        ConfigError: It cannot be read, or lacks a column, or a value is none.
    """
    steps: dict[str, list[tuple[float, float | None]]] = {}
    clean: dict[str, bool] = {}
    columns: dict[str, str] = {}
    for number, row in enumerate(_rows(path), 1):
        if not columns:
            columns = _named(path, row)
        values = {kind: row.get(column) for kind, column in columns.items()}
        try:
            score = _number(values["score"])
            step = (_number(values["step"]) or 0.0, score)
            good = _truth(values["clean"])
        except ValueError as error:
            raise ConfigError(f"{path}: row {number}: {error}") from error
        if score is not None and columns["score"] != "score":
            step = (step[0], -score)
        name = str(values["trajectory"])
        steps.setdefault(name, []).append(step)
        clean[name] = clean.get(name, True) and good
    found: list[Trajectory] = []
    truth: list[bool] = []
    for name, taken in steps.items():
        for part, scores in enumerate(_attempts(taken)):
            found.append(
                Trajectory(
                    f"{name}#{part}" if part else name, tuple(Scored("step", "table", score) for score in scores)
                )
            )
            truth.append(clean[name])
    return found, truth


def _attempts(steps: Sequence[tuple[float, float | None]]) -> Iterator[list[float | None]]:
    """The scores in the order of the steps' numbers; where these come twice, one name stands for several attempts."""
    if len({number for number, _ in steps}) == len(steps):
        yield [score for _, score in sorted(steps, key=lambda step: step[0])]
        return
    part: list[float | None] = []
    last = -math.inf
    for number, score in steps:
        if number <= last:
            yield part
            part = []
        part.append(score)
        last = number
    yield part


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    lines = unpacked(path).decode("utf-8-sig", errors="replace").splitlines()
    if lines and lines[0].lstrip().startswith("{"):
        for number, line in enumerate(filter(str.strip, lines), 1):
            try:
                yield msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError as error:
                raise ConfigError(f"{path}: line {number}: {error}") from error
    else:
        yield from csv.DictReader(lines)


def _named(path: Path, row: Mapping[str, Any]) -> dict[str, str]:
    found = {kind: next((name for name in names if name in row), "") for kind, names in _COLUMNS.items()}
    if missing := [kind for kind, name in found.items() if not name]:
        raise ConfigError(
            f"{path}: no column says the {', '.join(missing)} of a step",
            hint="; ".join(f"{kind}: {' or '.join(names)}" for kind, names in _COLUMNS.items()) + ".",
        )
    return found


def _number(value: Any) -> float | None:
    if value is None or value == "":
        return None
    number = float(value)
    return None if math.isnan(number) else number


def _truth(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in (*_TRUE, *_FALSE):
        raise ValueError(f"`{value}` is neither true nor false")
    return text in _TRUE


def _generated(seed: int) -> tuple[list[Trajectory], list[bool]]:
    """Trajectories some of which are odd throughout, with rounded scores; faulty ones get worse at some step."""
    draw = np.random.default_rng(seed)
    found: list[Trajectory] = []
    truth = [number < 900 for number in range(1300)]
    for number, clean in enumerate(truth):
        length = int(draw.integers(1, 13))
        scores = draw.normal(draw.normal(0, 0.5), 1, length)
        if not clean:
            scores[int(draw.integers(length)) :] += 1.5
        steps: Iterable[float] = np.round(scores, 1).tolist()
        found.append(Trajectory(f"generated-{number}", tuple(Scored("step", "table", score) for score in steps)))
    return found, truth
