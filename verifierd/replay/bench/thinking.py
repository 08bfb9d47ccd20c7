"""The suites `thinking-tax` and `budget`: what a thought before the answer costs and gains, and how long it gets.

A case is a recorded trajectory whose last step is asked for, all steps before it being shown.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from verifierd.errors import ConfigError
from verifierd.replay.bench.asking import Outcome, Party, Sampling, asked_by, matched
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.figures import Results, estimated, median
from verifierd.replay.bench.sequences import Limits, ask, read, share
from verifierd.replay.bench.suite import Request, parameters_of
from verifierd.replay.statistics import Estimate, Groups, mcnemar
from verifierd.stages import Asked
from verifierd.types import History, Step

__all__ = ("Budget", "ThinkingTax")

_KINDS = ("known", "ambiguous", "unknowable")
_MODES = ("thinking", "direct")
_THINKING = "thinking"
_THOUGHT = "thought"
_CAP = "cap"

_CUT = (Outcome.UNANSWERED, Outcome.TRUNCATED)

_COUNTED = {
    "role_breaks": Outcome.ROLE_BREAK,
    "unanswered": Outcome.UNANSWERED,
    "truncated": Outcome.TRUNCATED,
    "thought": Outcome.THOUGHT,
    "empty": Outcome.EMPTY,
    "failed": Outcome.FAILED,
}


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked.

    Attributes:
        name: The trajectory.
        kind: Of `_KINDS`.
        shown: The steps before.
        step: The one that is asked for.
    """

    name: str
    kind: str
    shown: tuple[Step, ...]
    step: Step


class _Tax(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """See `replay/suites/thinking-tax.toml`."""

    runs: int
    data: str
    known: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()
    unknowable: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runs < 1:
            raise ValueError("`runs` must be at least 1")


class ThinkingTax:
    """Asks for each case with thinking and without, in changing order, so that what slows the machine slows both."""

    def __init__(self, request: Request) -> None:
        parameters = parameters_of(request, _Tax)
        chosen = {kind: getattr(parameters, kind) for kind in _KINDS}
        self._cases = _cases(request, parameters.data, chosen)
        self._limits = parameters
        self._seed = request.seed
        self._sampling: Sampling = request.sampling
        runs = request.runs or parameters.runs
        self.jobs: Sequence[str] = [f"{name}/{run}" for run in range(runs) for name in self._cases]
        self.warning = parameters.warning

    async def run(self, job: str, asked: Party) -> Sequence[Row]:
        """Ask for one case, in both ways."""
        name, _, number = job.rpartition("/")
        case, run = self._cases[name], int(number)
        rows = []
        for mode in _MODES if run % 2 else reversed(_MODES):
            how = asked_by(
                self._sampling,
                max_tokens=self._limits.max_tokens,
                thinking=mode == _THINKING,
                seed=self._seed + run,
            )
            row = await _asked(asked, case, how, run, self._limits.characters)
            rows.append(msgspec.structs.replace(row, case=f"{name}/{mode}"))
        return rows

    def figures(self, rows: Sequence[Row]) -> Results:
        """Costs and hits of both ways and of their pairs, by kind; of the known cases under plain names."""
        results: Results = {}
        for kind in _KINDS:
            part = [row for row in rows if self._cases[row.group].kind == kind]
            prefix = "" if kind == "known" else f"{kind}_"
            for mode, these in _by_mode(part).items():
                results |= {f"{prefix}{mode}_{name}": figure for name, figure in _measured(these).items()}
            results |= {f"{prefix}{name}": figure for name, figure in _compared(part).items()}
        for mode, these in _by_mode(rows).items():
            results |= {f"{mode}_{name}": figure for name, figure in _counted(these).items()}
        return results


class _Sweep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """See `replay/suites/budget.toml`."""

    caps: tuple[int, ...]
    runs: int
    data: str
    cases: tuple[str, ...]
    characters: int = 0

    def __post_init__(self) -> None:
        if not self.caps or min(self.caps) < 1 or self.runs < 1 or self.characters < 0:
            raise ValueError("`caps` and `runs` must be at least 1, `characters` at least 0")


class Budget:
    """Asks for each case with thinking, under one cap after the other."""

    def __init__(self, request: Request) -> None:
        parameters = parameters_of(request, _Sweep)
        self._caps = sorted(set(parameters.caps))
        self._cases = _cases(request, parameters.data, {"known": parameters.cases})
        self._characters = parameters.characters
        self._seed = request.seed
        self._sampling: Sampling = request.sampling
        runs = request.runs or parameters.runs
        self.jobs: Sequence[str] = [
            f"{name}/{cap}/{run}" for run in range(runs) for name in self._cases for cap in self._caps
        ]
        self.warning = (
            f"scaled down: a model is told {parameters.characters:,} characters, prompt and history, and its answers "
            f"are cut after at most {self._caps[-1]:,} tokens"
            if parameters.characters
            else ""
        )

    async def run(self, job: str, asked: Party) -> Sequence[Row]:
        """Ask for one case under one cap."""
        name, cap, number = job.rsplit("/", 2)
        run = int(number)
        how = asked_by(self._sampling, max_tokens=int(cap), thinking=True, seed=self._seed + run)
        row = await _asked(asked, self._cases[name], how, run, self._characters)
        return [msgspec.structs.replace(row, case=f"{name}/{cap}", scores=row.scores | {_CAP: float(cap)})]

    def figures(self, rows: Sequence[Row]) -> Results:
        """What becomes of the answers under each cap, and how many tokens those took that came to an end."""
        results: Results = {}
        for cap in self._caps:
            under = [row for row in rows if row.scores[_CAP] == cap]
            if not under:
                continue
            results[f"answered_{cap}"] = share(under, [row.outcome is Outcome.ANSWERED for row in under])
            for name in ("unanswered", "truncated"):
                results[f"{name}_{cap}"] = share(under, [row.outcome is _COUNTED[name] for row in under])
            results[f"exact_{cap}"] = share(under, [bool(row.exact) for row in under])
            if "seconds_median" in (taken := _costs(under)):
                results[f"seconds_median_{cap}"] = taken["seconds_median"]
        largest = [row for row in rows if row.scores[_CAP] == self._caps[-1] and row.outcome not in _CUT]
        results |= {f"needed_{name}": figure for name, figure in _costs(largest).items() if name.startswith("tokens")}
        return results | _counted(rows)


def _cases(request: Request, data: str, chosen: Mapping[str, Sequence[str]]) -> dict[str, _Case]:
    """The cases by name: those that were chosen of the suite's own, or all that `--data` holds, as known ones."""
    found = read(request.data, data)
    if request.data is not None:
        chosen = {"known": tuple(found)}
    if missing := [name for names in chosen.values() for name in names if name not in found]:
        raise ConfigError(f"the suite's data has no trajectory `{missing[0]}`", hint=f"It has {', '.join(found)}.")
    return {
        name: _Case(name=name, kind=kind, shown=tuple(found[name][:-1]), step=found[name][-1])
        for kind, names in chosen.items()
        for name in names
    }


async def _asked(asked: Party, case: _Case, how: Asked, run: int, characters: int) -> Row:
    """What comes back for a case.

    Raises:
        PredictorError: There is no model: who only predicts does not think.
    """
    asked.speaker()
    history = History(case.step.key, run=run)
    for step in case.shown:
        history.append(step)
    answer = await ask(asked, history, case.step, how, characters)
    match = None if answer.outcome in (*_CUT, Outcome.FAILED) else matched(answer.text, case.step, history)
    return Row(
        case=case.name,
        run=run,
        group=case.name,
        depth=len(case.shown),
        outcome=answer.outcome,
        exact=match is not None and match.exact,
        without_echo=match is not None and match.without_echo,
        normalised=match is not None and match.normalised,
        scores={_THINKING: float(how.thinking)} | ({_THOUGHT: 1.0} if answer.thought else {}),
        expected=case.step.observation,
        said=answer.raw,
        detail=answer.detail,
        prompt_tokens=answer.prompt_tokens,
        generated_tokens=answer.generated_tokens,
        seconds=answer.seconds,
        first_token_seconds=answer.first_token_seconds,
    )


def _by_mode(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return {mode: [row for row in rows if (row.scores[_THINKING] > 0) == (mode == _THINKING)] for mode in _MODES}


def _counted(rows: Sequence[Row]) -> Results:
    """How many answers are failures, of each sort that can be; and how many have the thought that was asked for."""
    if not rows:
        return {}
    thinking = rows[0].scores[_THINKING] > 0
    sorts = {name: sort for name, sort in _COUNTED.items() if name != ("thought" if thinking else "unanswered")}
    results: Results = {name: share(rows, [row.outcome is sort for row in rows]) for name, sort in sorts.items()}
    if thinking and (told := [row for row in rows if row.outcome is not Outcome.FAILED]):
        results["thoughts"] = share(told, [_THOUGHT in row.scores for row in told])
    return results


def _measured(rows: Sequence[Row]) -> Results:
    """How many are right, and what they cost."""
    if not rows:
        return {}
    right = {name: share(rows, [bool(getattr(row, name)) for row in rows]) for name in ("exact", "normalised")}
    return {**right, **_costs(rows)}


def _costs(rows: Sequence[Row]) -> Results:
    """Tokens and seconds of what was no failure; a median's interval counts cases, as the runs of one hardly differ."""
    results: Results = {}
    rows = [row for row in rows if row.outcome is not Outcome.FAILED]
    for name, what in (("tokens", "generated_tokens"), ("seconds", "seconds")):
        by_case: dict[str, list[float]] = {}
        for row in rows:
            if (found := getattr(row, what)) is not None:
                by_case.setdefault(row.group, []).append(found)
        if not by_case:
            continue
        every = [value for values in by_case.values() for value in values]
        results[f"{name}_median"] = median([float(np.mean(values)) for values in by_case.values()])
        results[f"{name}_p95"] = float(np.quantile(every, 0.95))
        results[f"{name}_max"] = max(every)
    return results


def _compared(rows: Sequence[Row]) -> Results:
    """Thinking against answering at once, case by case."""
    by_mode = {mode: {(row.group, row.run): row for row in these} for mode, these in _by_mode(rows).items()}
    thinking, direct = by_mode["thinking"], by_mode["direct"]
    both = sorted(thinking.keys() & direct.keys())
    if not both:
        return {}
    right = [np.array([bool(mode[key].exact) for key in both]) for mode in (thinking, direct)]
    groups = Groups([group for group, _ in both])
    results = _given("exact_gain", groups.difference(right[0], right[1]))
    first = np.array([run == min(other for name, other in both if name == group) for group, run in both])
    results["exact_mcnemar_p"] = mcnemar(right[0][first], right[1][first])
    for name, what in (("tokens", "generated_tokens"), ("seconds", "seconds")):
        pairs = [
            (key[0], getattr(thinking[key], what), getattr(direct[key], what))
            for key in both
            if Outcome.FAILED not in (thinking[key].outcome, direct[key].outcome)
        ]
        pairs = [pair for pair in pairs if pair[1] is not None and pair[2]]
        if not pairs:
            continue
        ratios: dict[str, list[float]] = {}
        for group, one, other in pairs:
            ratios.setdefault(group, []).append(one / other)
        results[f"{name}_ratio"] = median([float(np.mean(values)) for values in ratios.values()])
        more = np.array([one - other for _, one, other in pairs], dtype=np.float64)
        every = np.ones(len(pairs), dtype=np.bool_)
        these = Groups([group for group, _, _ in pairs])
        results |= _given(
            f"{name}_more", these.of([these.sums(more), these.sums(every)], lambda total, count: total / count, every)
        )
    return results


def _given(name: str, found: Estimate) -> Results:
    figure = estimated(found)
    return {} if figure is None else {name: figure}
