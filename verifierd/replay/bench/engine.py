"""The suite `engine`: how fast a model answers, and how much memory that takes, as what it is told gets longer.

Who asks a server sees when the first token comes and when the last. Of a model in process its memory is known, too, and
that a second question may go on from what was computed for the first; this is how it predicts, and a talk is not.
"""

import random
import secrets
import time
from collections.abc import Sequence

import msgspec
import numpy as np

from verifierd.errors import PredictorError
from verifierd.replay.bench.asking import Answer, Outcome, Party, Sampling, asked_by
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.drive import drive
from verifierd.replay.bench.figures import Results, median
from verifierd.replay.bench.sequences import share
from verifierd.replay.bench.suite import Measured, Request, parameters_of
from verifierd.stages import Message
from verifierd.types import Abstain, Action, History, Origin, Step

__all__ = ("Speeds", "engine")

_IN_PROCESS = "mlx"
_SHORT = "short"
_PREFIX = "prefix"
_FIRST, _SECOND = "prefix-first", "prefix-second"
_COMPUTED = "computed"
_PEAK = "peak-bytes"
_COMMAND = "seq 1 2000"
"""Its output is long enough that no cap below some thousand tokens is reached by itself."""

_LINES = 12
"""Of a made-up observation."""

_SHORTEST = 8
"""Tokens of an answer below which a rate says nothing."""

_MARGIN = 1.1
"""A talk is made to measure by what a shorter one took, and may be longer than meant."""

_CHARACTERS = 3, 8
"""Of a token, where nobody says how many there are; and the most of one, or what a server says is not believed."""

_SYSTEM = (
    "You stand in for a Linux terminal. Each message of the user is a command; answer with exactly what the command "
    "would print, to its end, and nothing else."
)

_UNTOLD = "no peak memory: a server does not tell its clients"

_FAILURES = (Abstain.TIMEOUT, Abstain.PREDICTOR_ERROR, Abstain.TOO_LONG)

_COUNTED = {
    "role_breaks": Outcome.ROLE_BREAK,
    "truncated": Outcome.TRUNCATED,
    "thought": Outcome.THOUGHT,
    "empty": Outcome.EMPTY,
    "failed": Outcome.FAILED,
}


class _Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """See `replay/suites/engine.toml`."""

    runs: int
    tokens: int
    contexts: tuple[int, ...]
    prefix: int

    def __post_init__(self) -> None:
        if self.runs < 1 or self.tokens < _SHORTEST:
            raise ValueError(f"`runs` must be at least 1, `tokens` at least {_SHORTEST}")
        if len(set(self.contexts)) < 2 or min(*self.contexts, self.prefix) < 1:
            raise ValueError("`contexts` must be two lengths at least; they and `prefix` must be above 0")


def engine(request: Request) -> Measured:
    """Measure it.

    Raises:
        ConfigError: A parameter is wrong.
        PredictorError: There is no model that can be talked to, or it cannot start.
    """
    parameters = parameters_of(request, _Parameters)
    needed = int(max(*parameters.contexts, parameters.prefix) * _MARGIN) + parameters.tokens
    model = request.choice.model
    model = msgspec.structs.replace(model, context_tokens=max(needed, model.context_tokens))
    request = msgspec.structs.replace(request, choice=msgspec.structs.replace(request.choice, model=model))
    return drive(request, Speeds, at_once=1)


class Speeds:
    """One question alone, after contexts of growing length, and twice after the same one; in turn, several times."""

    def __init__(self, request: Request) -> None:
        parameters = parameters_of(request, _Parameters)
        self._contexts = sorted(set(parameters.contexts))
        self._tokens = parameters.tokens
        self._prefix = parameters.prefix
        self._seed = request.seed
        self._sampling: Sampling = request.sampling
        self._talks: tuple[float, float] | None = None
        self._predictions: tuple[float, float] | None = None
        runs = range(request.runs or parameters.runs)
        kinds = (_SHORT, *map(str, self._contexts))
        # What is kept after a prediction would count as memory of the talks that follow.
        self.jobs: Sequence[str] = [f"{kind}/{run}" for run in runs for kind in kinds] + [
            f"{_PREFIX}/{run}" for run in runs
        ]
        self.warning = (
            f"scaled down: contexts of {', '.join(f'{length:,}' for length in self._contexts)} tokens, a prefix of "
            f"{self._prefix:,}, answers of {self._tokens:,}"
            if request.size == "smoke"
            else ""
        )

    async def run(self, job: str, asked: Party) -> Sequence[Row]:
        """Ask once, or twice after the same prefix."""
        asked.speaker()
        kind, _, number = job.partition("/")
        if kind == _PREFIX:
            return await self._twice(asked, int(number))
        steps = [] if kind == _SHORT else await self._steps(asked, int(kind))
        step = _step(len(steps), _COMMAND)
        return [await self._told(asked, kind, int(number), steps, step=step, tokens=self._tokens)]

    def figures(self, rows: Sequence[Row]) -> Results:
        """Times and rates, by context; what is left of the rate and what the memory grows by, of pairs of one run."""
        results: Results = {}
        short = [row for row in rows if row.case == _SHORT and row.outcome is not Outcome.FAILED]
        if first := [row.first_token_seconds for row in short if row.first_token_seconds is not None]:
            results["first_token_seconds_median"] = median(first)
            results["first_token_seconds_p95"] = float(np.quantile(first, 0.95))
        if found := list(_rates(short).values()):
            results["decode_rate"] = median(found)
        rates, peaks = {}, {}
        for length in self._contexts:
            there = [row for row in rows if row.case == str(length) and row.outcome is not Outcome.FAILED]
            rates[length] = _rates(there)
            peaks[length] = {row.run: row.scores[_PEAK] for row in there if _PEAK in row.scores}
            for name, values in (
                ("context_tokens", [row.prompt_tokens for row in there if row.prompt_tokens is not None]),
                ("decode_rate", list(rates[length].values())),
                (
                    "first_token_seconds_median",
                    [row.first_token_seconds for row in there if row.first_token_seconds is not None],
                ),
                ("peak_memory_bytes", list(peaks[length].values())),
            ):
                if values:
                    results[f"{name}_{length}"] = median(values)
        least, most = self._contexts[0], self._contexts[-1]
        if both := sorted(rates[least].keys() & rates[most].keys()):
            results["decode_kept"] = median([rates[most][run] / rates[least][run] for run in both])
        if both := sorted(peaks[least].keys() & peaks[most].keys()):
            results["peak_memory_growth_bytes"] = median([peaks[most][run] - peaks[least][run] for run in both])
        results |= _reused([row for row in rows if row.group == _PREFIX])
        if rows:
            results |= {name: share(rows, [row.outcome is sort for row in rows]) for name, sort in _COUNTED.items()}
        return results

    async def _steps(self, asked: Party, length: int, *, predicted: bool = False) -> list[Step]:
        """Steps that take about so many tokens, together with what stands around them; the last one is cut to fit.

        They are new each time, or a server may know them from another run.
        """
        if predicted:
            alone, each = self._predictions = self._predictions or await _sizes(asked, predicted=True)
        else:
            alone, each = self._talks = self._talks or await _sizes(asked, predicted=False)
        seed = secrets.token_hex(8)
        count, rest = divmod(max(0.0, length - alone) / each, 1)
        steps = [_made(index, seed) for index in range(int(count))]
        last = _made(len(steps), seed)
        if cut := int(rest * len(last.observation)):
            steps.append(msgspec.structs.replace(last, observation=last.observation[:cut]))
        return steps

    async def _told(self, asked: Party, case: str, run: int, steps: Sequence[Step], *, step: Step, tokens: int) -> Row:
        """A question in a talk."""
        how = asked_by(self._sampling, max_tokens=tokens, seed=self._seed + run)
        if asked.name == _IN_PROCESS:
            from verifierd.predictors.mlx import baseline  # noqa: PLC0415 - only where the model is in process

            baseline.forget_peak()
        try:
            answer = asked.read(await asked.talk(_talk(steps, step), how), step, how)
        except PredictorError as error:
            answer = Answer(outcome=Outcome.FAILED, detail=error.message)
        return Row(
            case=case,
            run=run,
            group=_PREFIX if case in (_FIRST, _SECOND) else case,
            depth=len(steps),
            outcome=answer.outcome,
            scores={_PEAK: float(baseline.peak_bytes())} if asked.name == _IN_PROCESS else {},
            said=answer.raw,
            detail=answer.detail if asked.name == _IN_PROCESS else f"{answer.detail}; {_UNTOLD}".removeprefix("; "),
            prompt_tokens=answer.prompt_tokens,
            generated_tokens=answer.generated_tokens,
            seconds=answer.seconds,
            first_token_seconds=answer.first_token_seconds,
        )

    async def _twice(self, asked: Party, run: int) -> list[Row]:
        """Two questions, one after the other, after the same steps."""
        steps = await self._steps(asked, self._prefix, predicted=asked.name == _IN_PROCESS)
        first = msgspec.structs.replace(_made(len(steps), "first"), observation="ready\n")
        second = msgspec.structs.replace(_made(len(steps) + 1, "second"), observation="ready\n")
        if asked.name != _IN_PROCESS:
            return [
                await self._told(asked, _FIRST, run, steps, step=first, tokens=_SHORTEST),
                await self._told(asked, _SECOND, run, [*steps, first], step=second, tokens=_SHORTEST),
            ]
        history = History(("native", _PREFIX), run=run)
        for step in steps:
            history.append(step)
        rows = [await _predicted(asked, _FIRST, run, history, first)]
        history.append(first)
        return [*rows, await _predicted(asked, _SECOND, run, history, second)]


async def _sizes(asked: Party, *, predicted: bool) -> tuple[float, float]:
    """Tokens of a question without steps before it, and of each of these. The model gets warm meanwhile."""
    counts, characters = [], []
    for count in (0, 2):
        steps, step = [_made(index, "size") for index in range(count)], _step(count, "true")
        characters.append(sum(len(message.content) for message in _talk(steps, step)))
        if predicted:
            history = History(("native", "size"), run=count)
            for past in steps:
                history.append(past)
            tokens: int | None = (await asked.predict(history, step)).tokens.prompt
        else:
            tokens = (await asked.talk(_talk(steps, step), asked_by("greedy", max_tokens=2))).prompt_tokens
        counts.append(characters[-1] / _CHARACTERS[0] if tokens is None else tokens)
    return counts[0], max(counts[1] - counts[0], (characters[1] - characters[0]) / _CHARACTERS[1]) / 2


async def _predicted(asked: Party, case: str, run: int, history: History, step: Step) -> Row:
    """A question to a model in process, as the daemon asks; the time ends when the answer is judged."""
    begun = time.perf_counter()
    prediction = await asked.predict(history, step)
    seconds = time.perf_counter() - begun
    outcome = Outcome.ROLE_BREAK if prediction.failed is not None else Outcome.ANSWERED
    return Row(
        case=case,
        run=run,
        group=_PREFIX,
        depth=history.total,
        outcome=Outcome.FAILED if prediction.abstain in _FAILURES else outcome,
        scores={_COMPUTED: float(prediction.tokens.computed)},
        detail=prediction.detail,
        prompt_tokens=prediction.tokens.prompt,
        generated_tokens=prediction.tokens.generated,
        seconds=seconds,
    )


def _rates(rows: Sequence[Row]) -> dict[int, float]:
    """Tokens a second after the first, by run."""
    return {
        row.run: (row.generated_tokens - 1) / (row.seconds - row.first_token_seconds)
        for row in rows
        if row.generated_tokens is not None
        and row.generated_tokens >= _SHORTEST
        and row.first_token_seconds is not None
        and row.seconds > row.first_token_seconds
    }


def _reused(rows: Sequence[Row]) -> Results:
    """How much sooner a second question is answered than the first."""
    done = {(row.case, row.run): row for row in rows if row.outcome is not Outcome.FAILED}
    runs = sorted(run for case, run in done if case == _FIRST and (_SECOND, run) in done)
    if not runs:
        return {}
    first, second = ([done[case, run] for run in runs] for case in (_FIRST, _SECOND))
    before, after = ([_waited(row) for row in part] for part in (first, second))
    results: Results = {
        "prefix_reuse": median([one / other for one, other in zip(before, after, strict=True)]),
        "prefix_first_seconds_median": median(before),
        "prefix_second_seconds_median": median(after),
    }
    if tokens := [row.prompt_tokens for row in first if row.prompt_tokens is not None]:
        results["prefix_tokens"] = median(tokens)
    if all(_COMPUTED in row.scores for row in (*first, *second)):
        computed = [median([row.scores[_COMPUTED] for row in part]).value for part in (first, second)]
        results["prefix_first_computed_tokens"], results["prefix_second_computed_tokens"] = computed
    return results


def _waited(row: Row) -> float:
    """Seconds to the first token; to the answer, where it has none."""
    return row.seconds if row.first_token_seconds is None else row.first_token_seconds


def _talk(steps: Sequence[Step], step: Step) -> list[Message]:
    messages = [Message("system", _SYSTEM)]
    for past in steps:
        messages += [Message("user", past.action.text), Message("assistant", past.observation)]
    return [*messages, Message("user", step.action.text)]


def _made(index: int, seed: str) -> Step:
    """A step of a made-up trajectory."""
    draw = random.Random(f"{seed}/{index}")  # noqa: S311 - a seeded draw, no secret
    lines = (f"{draw.randrange(10**6):06}  worker-{draw.randrange(100):02}  ready" for _ in range(_LINES))
    return _step(index, f"show {draw.randrange(10**6):06}", "".join(f"{line}\n" for line in lines))


def _step(index: int, command: str, observation: str = "") -> Step:
    return Step(
        format="native",
        trajectory=_PREFIX,
        index=index + 1,
        action=Action(tool="bash", input=command, command=command),
        observation=observation,
        cwd="/home/user/proj",
        origin=Origin(path="engine", offset=index),
    )
