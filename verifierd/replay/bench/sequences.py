"""Suites in which a trajectory is simulated step by step, each answer held against what really came.

`roles` and `second-domain` give the true history at each step; `closed-loop` also lets the predictor go on from its own
answers; `random` draws its trajectories. `replay/suites/README.md` says what the figures mean.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread
import msgspec
import numpy as np

from verifierd.adapters import open_adapter
from verifierd.bundled import root
from verifierd.calibration import rate
from verifierd.errors import ConfigError, PredictorError
from verifierd.replay.bench import scenarios, service
from verifierd.replay.bench.asking import (
    Answer,
    Match,
    Outcome,
    Party,
    Sampling,
    asked_by,
    forgiven,
    matched,
    without_echo,
)
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.figures import Results, estimated, median
from verifierd.replay.bench.suite import Request, parameters_of
from verifierd.replay.statistics import Groups, Interval
from verifierd.scoring.simulator import role_break
from verifierd.stages import Asked
from verifierd.types import History, ObservationKind, Origin, Prediction, Record, Step

__all__ = (
    "FEW",
    "ClosedLoop",
    "Job",
    "Limits",
    "Random",
    "Repeated",
    "Roles",
    "SecondDomain",
    "Trajectory",
    "agreement",
    "ask",
    "costs",
    "outcomes",
    "read",
    "share",
)


FEW = 10
"""Groups below which their resampling says little: the interval is then the binomial one, of single steps."""

_BUCKETS = ((1, 5), (6, 10), (11, 20), (21, 50))
_LONGEST = _BUCKETS[-1][1]


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated.

    Attributes:
        steps: The steps with their true observations.
        asked: Of each, whether it is asked for; the others are only shown.
    """

    steps: tuple[Step, ...]
    asked: tuple[bool, ...]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One pass over a trajectory.

    Attributes:
        name: The trajectory.
        make: Makes it, in a thread.
        run: The how manieth pass.
        closed: What is answered, not what is true, becomes the history.
    """

    name: str
    make: Callable[[], Trajectory]
    run: int = 0
    closed: bool = False

    @property
    def id(self) -> str:
        """The job's name."""
        return f"{self.name}{'/closed' if self.closed else ''}/{self.run}"


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """How much is said, by the suite's document.

    Attributes:
        max_tokens: The cap of an answer.
        characters: Most of a talk with a model, for a quick look; 0 for no bound.
    """

    max_tokens: int
    characters: int = 0

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.characters < 0:
            raise ValueError("`max-tokens` must be at least 1, `characters` at least 0")

    @property
    def warning(self) -> str:
        """What a reader must know; empty where nothing is scaled down."""
        if not self.characters:
            return ""
        return (
            f"scaled down: a model is told {self.characters:,} characters, prompt and history, and its answers are cut "
            f"after {self.max_tokens:,} tokens"
        )


class _Sequences:
    """The engine that these suites share.

    Args:
        request: What is asked.
        jobs: What is to be done.
        limits: How much is said.
    """

    def __init__(self, request: Request, jobs: Iterable[Job], limits: Limits) -> None:
        self._jobs = {job.id: job for job in jobs}
        self._seed = request.seed
        self._sampling: Sampling = request.sampling
        self._limits = limits
        self.jobs: Sequence[str] = list(self._jobs)
        self.warning = limits.warning

    async def run(self, job: str, asked: Party) -> Sequence[Row]:
        """Simulate a trajectory."""
        chosen = self._jobs[job]
        trajectory = await anyio.to_thread.run_sync(chosen.make)
        how = asked_by(self._sampling, max_tokens=self._limits.max_tokens, seed=self._seed + chosen.run)
        key = ("native", f"{chosen.name}/closed" if chosen.closed else chosen.name)
        history = History(key, run=chosen.run)
        rows: list[Row] = []
        for place, (true, wanted) in enumerate(zip(trajectory.steps, trajectory.asked, strict=True)):
            step = msgspec.structs.replace(true, trajectory=key[1])
            if chosen.closed and place:
                step = msgspec.structs.replace(step, cwd=None)  # nobody tells where a loop of one's own has come to
            past = step
            if wanted:
                answer = await ask(asked, history, step, how, self._limits.characters)
                rows.append(_row(chosen, place, step, history, answer))
                if chosen.closed:
                    past = _taken(step, answer)
            history.append(past)
        return rows

    def figures(self, rows: Sequence[Row]) -> Results:
        """All that is known of all steps."""
        return outcomes(rows) | costs(rows)


async def ask(party: Party, history: History, step: Step, how: Asked, characters: int) -> Answer:
    """What would be observed; a model's failure is an answer, too.

    Nobody is told what really came: neither the text nor the status.

    Args:
        party: Who is asked.
        history: What came before.
        step: The action.
        how: How a model is asked.
        characters: Most of a talk with it; 0 for no bound.
    """
    unknown = msgspec.structs.replace(step, observation="", exit_code=None)
    begun = time.perf_counter()
    try:
        answer = await party.observe(history, unknown, how, characters=characters)
    except PredictorError as error:
        answer = Answer(outcome=Outcome.FAILED, detail=error.message)
    answer = forgiven(answer, step)
    if answer.seconds:
        return answer
    return msgspec.structs.replace(answer, seconds=time.perf_counter() - begun)


def read(path: Path | None, bundled: str = "") -> dict[str, list[Step]]:
    """The trajectories of a file in the native format, by name.

    Args:
        path: The file; None for one of `replay/suites/data`.
        bundled: Its name there.

    Raises:
        ConfigError: It cannot be read, or a line of it is none of the format.
    """
    place = path or root("replay") / "suites" / "data" / bundled
    try:
        data = place.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{place}: cannot be read: {error.strerror or error}", hint="Name a file in the native format after --data."
        ) from error
    adapter = open_adapter("native", path=str(place))
    steps: list[Step] = []
    for number, line in enumerate(data.splitlines(), 1):
        steps += adapter.feed(Record(origin=Origin(path=str(place), offset=number), end=number + 1, data=line))
        if problems := adapter.counts.quarantined:
            raise ConfigError(
                f"{place}: line {number} is no step: {', '.join(problems)}",
                hint="`replay/README.md` describes the native format.",
            )
    found: dict[str, list[Step]] = {}
    for step in (*steps, *adapter.finish()):
        found.setdefault(step.trajectory, []).append(step)
    if not found:
        raise ConfigError(f"{place}: holds no steps", hint="`replay/README.md` describes the native format.")
    return found


class Repeated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trajectory of the suite's data.

    Attributes:
        trajectory: Its name.
        runs: How often it is simulated.
        shown: Steps at its beginning that are only shown.
    """

    trajectory: str
    runs: int = 1
    shown: int = 0


class _Parameters(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """See `replay/suites/roles.toml` and the others."""

    data: str = ""
    sequences: tuple[Repeated, ...] = ()
    echo: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(chosen.runs < 1 or chosen.shown < 0 for chosen in self.sequences):
            raise ValueError("`runs` must be at least 1, `shown` at least 0")


class Roles(_Sequences):
    """Recorded sequences, the true history given at each step."""

    def __init__(self, request: Request) -> None:
        parameters = parameters_of(request, _Parameters)
        super().__init__(request, _recorded(request, parameters), parameters)

    def figures(self, rows: Sequence[Row]) -> Results:
        """As of all suites, and whether runs agree."""
        return super().figures(rows) | agreement(rows)


class ClosedLoop(_Sequences):
    """Recorded sequences, twice: the predictor goes on from its own answers, and from the true history."""

    def __init__(self, request: Request) -> None:
        parameters = parameters_of(request, _Parameters)
        jobs = _recorded(request, parameters)
        closed = [msgspec.structs.replace(job, closed=True) for job in jobs]
        super().__init__(request, [*closed, *jobs], parameters)

    def figures(self, rows: Sequence[Row]) -> Results:
        """Of the closed loop, of its anchored twin under names of their own, and where answers part from the truth."""
        closed = [row for row in rows if "closed" in row.scores]
        anchored = [row for row in rows if "closed" not in row.scores]
        results = outcomes(closed) | outcomes(anchored, "anchored_") | costs(rows)
        for prefix, part in (("", closed), ("anchored_", anchored)):
            decided = [row for row in part if row.outcome not in (Outcome.ABSTAINED, Outcome.FAILED)]
            if decided:
                results[f"{prefix}divergence"] = share(decided, [not row.normalised for row in decided])
            for depth in sorted({row.depth for row in decided}):
                there = [row for row in decided if row.depth == depth]
                results[f"{prefix}divergence_step_{depth + 1}"] = share(there, [not row.normalised for row in there])
        return results


class _Drawn(_Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """See `replay/suites/random.toml`."""

    scenarios: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(not 1 <= steps <= _LONGEST or count < 1 for steps, count in self.scenarios):
            raise ValueError(f"`scenarios` must be pairs of 1 to {_LONGEST} steps and how many scenarios have so many")


class Random(_Sequences):
    """Scenarios drawn by seed, run in this machine's bash when their turn comes; or those of a file."""

    def __init__(self, request: Request) -> None:
        parameters = parameters_of(request, _Drawn)
        drawn = [
            (f"random-{steps}-{number}", steps) for steps, count in parameters.scenarios for number in range(count)
        ]
        self._planned = sum(steps for _, steps in drawn) * (request.runs or 1)
        jobs = (
            Job(name=name, make=partial(_scenario, name, f"{request.seed} {name}", steps), run=run)
            for name, steps in drawn
            for run in range(request.runs or 1)
        )
        if request.data is not None:
            jobs = (job for job in _recorded(request, parameters))
            self._planned = 0
        super().__init__(request, jobs, parameters)

    def figures(self, rows: Sequence[Row]) -> Results:
        """As of all suites, and by depth."""
        results = super().figures(rows)
        for low, high in _BUCKETS:
            there = [row for row in rows if low <= row.depth + 1 <= high]
            for name, figure in outcomes(there, f"depth_{low}_{high}_").items():
                if name.removeprefix(f"depth_{low}_{high}_") in (
                    "role_breaks",
                    "exact",
                    "exact_answered",
                    "normalised",
                ):
                    results[name] = figure
        if self._planned > len(rows):
            results["unstable"] = self._planned - len(rows)
        return results


class _Domains(_Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """See `replay/suites/second-domain.toml`."""

    services: int
    calls: int


class SecondDomain(_Sequences):
    """Calls to a service drawn by seed, and recorded cycles of edits and tests."""

    def __init__(self, request: Request) -> None:
        parameters = parameters_of(request, _Domains)
        jobs = _recorded(request, parameters)
        if request.data is None:
            jobs += [
                Job(name=name, make=partial(_service, name, f"{request.seed} {name}", parameters.calls), run=run)
                for name in (f"mcp-{number}" for number in range(parameters.services))
                for run in range(request.runs or 1)
            ]
        super().__init__(request, jobs, parameters)

    def figures(self, rows: Sequence[Row]) -> Results:
        """Of both together, and of each."""
        results = super().figures(rows)
        for domain in ("mcp", "swe"):
            results |= outcomes([row for row in rows if row.group.startswith(f"{domain}-")], f"{domain}_")
        return results


def outcomes(rows: Sequence[Row], prefix: str = "", *, known: bool = True) -> Results:
    """How many steps there are, what the answers are, and how many are right: of all, and of those answered.

    Args:
        rows: The answers.
        prefix: Of the figures' names.
        known: The truth is known.
    """
    if not rows:
        return {}
    found: Results = {"steps": len(rows)}
    for name, outcome in _COUNTED.items():
        found[name] = share(rows, [row.outcome is outcome for row in rows])
    found["role_breaks_without_echo"] = share(rows, [row.scores.get(_STRICT, 0.0) > 0 for row in rows])
    answered = [row for row in rows if row.outcome is Outcome.ANSWERED]
    for name in ("exact", "without_echo", "normalised") if known else ():
        found[name] = share(rows, [bool(getattr(row, name)) for row in rows])
        if answered:
            found[f"{name}_answered"] = share(answered, [bool(getattr(row, name)) for row in answered])
    return {f"{prefix}{name}": figure for name, figure in found.items()}


_COUNTED = {
    "role_breaks": Outcome.ROLE_BREAK,
    "truncated": Outcome.TRUNCATED,
    "thought": Outcome.THOUGHT,
    "empty": Outcome.EMPTY,
    "failed": Outcome.FAILED,
    "abstained": Outcome.ABSTAINED,
}
_STRICT = "role-break-without-echo"


def agreement(rows: Sequence[Row]) -> Results:
    """To how many of the cases that were asked for more than once each run gave the same answer."""
    said: dict[str, list[Row]] = {}
    for row in rows:
        said.setdefault(row.case, []).append(row)
    often = [same for same in said.values() if len(same) > 1]
    if not often:
        return {}
    agree = [len({(row.outcome, row.said) for row in same}) == 1 for same in often]
    return {"runs_agree": share([same[0] for same in often], agree)}


def costs(rows: Sequence[Row]) -> Results:
    """Seconds and tokens of what was not a failure of the machinery."""
    found: Results = {}
    for name, what in (("answer_seconds", "seconds"), ("first_token_seconds", "first_token_seconds")):
        values = [getattr(row, what) for row in rows if row.outcome is not Outcome.FAILED]
        if values := [value for value in values if value is not None]:
            found[f"{name}_median"] = median(values)
            found[f"{name}_p95"] = float(np.quantile(values, 0.95))
    for what in ("prompt_tokens", "generated_tokens"):
        if values := [value for row in rows if (value := getattr(row, what)) is not None]:
            found[f"{what}_median"] = median(values)
    return found


def share(rows: Sequence[Row], hits: Sequence[bool]) -> Interval:
    """How many of some rows are hits; whole trajectories are resampled for its interval where there are enough."""
    groups = [row.group or row.case for row in rows]
    if len(set(groups)) >= FEW:
        found = estimated(Groups(groups).share(np.array(hits, dtype=np.bool_)))
        if isinstance(found, Interval):
            return found
    exact = rate(sum(hits), len(rows))
    return Interval(sum(hits) / len(rows), exact.low, exact.high, len(rows))


def _recorded(request: Request, parameters: _Parameters) -> list[Job]:
    """The passes over the suite's own data, or over all that `--data` holds."""
    found = read(request.data, parameters.data) if request.data is not None or parameters.data else {}
    chosen = parameters.sequences
    if request.data is not None:
        chosen = tuple(Repeated(trajectory=name) for name in found)
    if missing := [one.trajectory for one in chosen if one.trajectory not in found]:
        raise ConfigError(
            f"the suite's data has no trajectory `{missing[0]}`", hint=f"It has {', '.join(found) or 'none'}."
        )
    return [
        Job(
            name=one.trajectory,
            make=partial(_whole, found[one.trajectory], shown=one.shown, echo=parameters.echo),
            run=run,
        )
        for one in chosen
        for run in range(request.runs or one.runs)
    ]


def _whole(steps: Sequence[Step], *, shown: int, echo: bool) -> Trajectory:
    return Trajectory(
        steps=tuple(map(_echoed, steps)) if echo else tuple(steps),
        asked=tuple(
            place >= shown and step.observation_kind is ObservationKind.ENV for place, step in enumerate(steps)
        ),
    )


def _echoed(step: Step) -> Step:
    """The step as a terminal shows it: the line that was typed, and what came."""
    if step.action.command is None:
        return step
    return msgspec.structs.replace(step, observation=f"$ {step.action.command.strip()}\n{step.observation}")


def _scenario(name: str, seed: str, steps: int) -> Trajectory:
    played = scenarios.play(name, seed, steps)
    return Trajectory(steps=played.steps, asked=played.stable)


def _service(name: str, seed: str, calls: int) -> Trajectory:
    steps = service.steps(name, seed, calls)
    return Trajectory(steps=tuple(steps), asked=tuple(place >= service.shown() for place in range(len(steps))))


def _row(job: Job, place: int, step: Step, history: History, answer: Answer) -> Row:
    outcome = answer.outcome
    match = None
    if outcome is not Outcome.ABSTAINED:
        whole = outcome not in (Outcome.TRUNCATED, Outcome.FAILED)
        match = matched(answer.text, step, history) if whole else _NO_MATCH
    scores = {"closed": 1.0} if job.closed else {}
    if outcome is Outcome.ROLE_BREAK:
        scores[_STRICT] = float(_breaks(without_echo(answer.text, step), step))
    return Row(
        case=f"{job.name}{'/closed' if job.closed else ''}/{place + 1}",
        run=job.run,
        group=job.name,
        depth=place,
        outcome=outcome,
        exact=None if match is None else match.exact,
        without_echo=None if match is None else match.without_echo,
        normalised=None if match is None else match.normalised,
        scores=scores,
        expected=step.observation,
        said=answer.raw,
        detail=answer.detail,
        prompt_tokens=answer.prompt_tokens,
        generated_tokens=answer.generated_tokens,
        seconds=answer.seconds,
        first_token_seconds=answer.first_token_seconds,
    )


_NO_MATCH = Match(exact=False, without_echo=False, normalised=False)


def _breaks(text: str, step: Step) -> bool:
    return role_break(History(step.key), step, Prediction(predictor="bench", text=text)).abstain is not None


def _taken(step: Step, answer: Answer) -> Step:
    """What the predictor goes on from: its own answer, as a status that nobody told; the truth where it gave none."""
    if answer.outcome in (Outcome.ABSTAINED, Outcome.FAILED):
        return step
    return msgspec.structs.replace(step, observation=answer.text, exit_code=None)
