"""The suite `speed`: what a prediction costs beside what it could cost, all in one run.

Times are compared in pairs taken in turn, so a busy machine slows both sides; counts of tokens are exact.
"""

import random
from collections.abc import Sequence
from functools import partial

import msgspec

from verifierd import policy as policies
from verifierd.errors import ConfigError
from verifierd.paths import expanded
from verifierd.predictors import prompt
from verifierd.predictors.mlx import baseline, passes
from verifierd.predictors.mlx.loading import DEFAULT, find, load
from verifierd.predictors.mlx.passes import Cache, Network, Snapshot
from verifierd.predictors.mlx.strand import Job, Renderer
from verifierd.predictors.mlx.template import ChatTemplate
from verifierd.predictors.mlx.verifier import Limits, Outcome, Verifier
from verifierd.replay.bench.figures import Results, median, paired, seconds
from verifierd.replay.bench.suite import Measured, Request, parameters_of
from verifierd.types import Action, Origin, Step

__all__ = ("speed", "trajectory")

_QUARTERS = 4
_READ = 3
"""How often a history is read anew: it takes long, and hardly varies."""
_RANDOM = "random weights: these figures say what the plumbing costs here, and nothing of a real model"

_WORDS = (
    "account", "branch", "cache", "daemon", "editor", "filter", "gateway", "header", "index", "journal", "kernel",
    "ledger", "module", "network", "object", "parser", "queue", "record", "socket", "thread", "update", "vector",
)  # fmt: skip


class _Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """See `replay/suites/speed.toml`."""

    runs: int
    opening: int
    history: int
    observation: int
    long_observation: int
    steps: int
    batch: int
    batch_turns: int


class _Bench:
    """A model with the pieces that the predictor is made of."""

    def __init__(self, request: Request, opening: int) -> None:
        settings = request.choice.model
        self._opening = opening
        self._policy = policies.load(request.choice.policy)
        self._settings = settings
        found = find(settings.name or DEFAULT, revision=settings.revision)
        self.label = found.label
        self.random = bool(found.config.get("verifierd_tiny"))
        loaded = load(found, settings, request.say)
        self._template = ChatTemplate(loaded.tokenizer, found.name)
        self.network = Network(loaded.model, chunk=settings.chunk_tokens, logit_chunk=settings.logit_tokens)

    def renderer(self, history: str = "stable", form: prompt.Form | None = None) -> Renderer:
        asking = self._policy.asking
        made = _Cut(
            self._template,
            form or prompt.Form(wrapper=asking.wrapper, action=asking.action, screen=asking.screen),
            history="template" if history == "template" else "stable",
            prompts=None if self._settings.prompts is None else expanded(self._settings.prompts),
            longest=self._settings.turn_tokens,
        )
        made.most = self._opening
        return made

    def verifier(
        self, history: str = "stable", *, budget: int | None = None, form: prompt.Form | None = None
    ) -> Verifier:
        limits = Limits(
            context=self._settings.context_tokens,
            cache_bytes=self._settings.cache_bytes if budget is None else budget,
            max_tokens=self._policy.asking.max_tokens,
            decode=False,
        )
        return Verifier(self.network, self.renderer(history, form), self._template.ends, limits)

    def conversation(self, steps: Sequence[Step], length: int) -> tuple[list[int], list[int]]:
        """So many tokens of a past, as far as the steps give them, and an action with what asks for the answer."""
        renderer = self.renderer()
        past = renderer.opening("terminal")
        for number, step in enumerate(steps[:-1]):
            if len(past) >= length:
                break
            past += [*renderer.action(step, number), *renderer.answered(step)]
        return past[:length], [*renderer.action(steps[-1], len(steps) - 1), *renderer.lead]


class _Cut(Renderer):
    """A system prompt of no more tokens than the suite has time for."""

    most = 0

    def opening(self, domain: str) -> list[int]:
        return super().opening(domain)[: self.most]


def speed(request: Request) -> Measured:
    """Measure it.

    Raises:
        ConfigError: Another predictor than `mlx` or a file was asked for, or a parameter is wrong.
        PredictorError: The model cannot be loaded.
    """
    if request.choice.predictor != "mlx":
        raise ConfigError(
            f"the suite `speed` measures the predictor `mlx`, not `{request.choice.predictor}`",
            hint="Leave --predictor away, or name mlx.",
        )
    if request.data is not None:
        raise ConfigError("the suite `speed` reads no data", hint="Leave --data away.")
    parameters = parameters_of(request, _Parameters)
    runs = request.runs or parameters.runs
    bench = _Bench(request, parameters.opening)
    baseline.forget_peak()
    results: Results = {}
    for says, part in (
        ("one observation: decoded, verified, and the bare pass", _observation),
        ("tokens computed along a trajectory", _computed),
        ("several trajectories in one pass, and their caches", _batch),
    ):
        request.say(f"measuring {says}")
        results |= part(bench, parameters, runs, request.seed)
    results["peak_memory_bytes"] = baseline.peak_bytes()
    return Measured(
        model=bench.label,
        results=results,
        host=dict(baseline.engine()),
        warning=_RANDOM if bench.random else "",
    )


def trajectory(name: str, count: int, seed: int, *, most: int = 5) -> list[Step]:
    """Steps of an agent at a terminal, made up; each observation differs, from one name to `most`."""
    draw = random.Random(f"{seed}/{name}")  # noqa: S311 - a seeded draw, no secret
    steps = []
    for index in range(1, count + 1):
        words = [f"{draw.choice(_WORDS)}-{draw.randrange(1000)}" for _ in range(draw.randint(1, most))]
        command = f"ls {draw.choice(_WORDS)}"
        steps.append(
            Step(
                format="native",
                trajectory=name,
                index=index,
                action=Action(tool="bash", input=command, command=command),
                observation="".join(f"{word}\n" for word in words),
                exit_code=0,
                cwd="/home/user/work",
                origin=Origin(path=name, offset=index),
            )
        )
    return steps


def _never() -> None:
    """Nobody stops a benchmark's pass."""


def _observation(bench: _Bench, parameters: _Parameters, runs: int, seed: int) -> Results:
    """One observation after one history, by every way there is; and what reading that history costs."""
    network = bench.network
    past, ask = bench.conversation(trajectory("one", parameters.history, seed), parameters.history)
    read, first = [], []
    for _ in range(_READ):
        cache = network.cache()
        read.append(seconds(partial(passes.prefill, network, [past], cache, stopped=_never)))
        snapshot = Snapshot(cache)
        first.append(seconds(partial(_first, network, ask, snapshot.branch(cache))))
    warm = [seconds(partial(_first, network, ask, snapshot.branch(cache))) for _ in range(runs)]
    before = snapshot.branch(cache)
    passes.prefill(network, [ask[:-1]], before, stopped=_never)
    asked = _Asked(network, before, ask[-1])
    short = asked.decode(parameters.observation)
    long = asked.decode(parameters.long_observation)
    decode, verify = paired(lambda: asked.decode(len(short)), lambda: asked.verify(short), runs)
    again, bare = paired(lambda: asked.verify(short), lambda: asked.forward(short), 4 * runs)
    verify_long, bare_long = paired(lambda: asked.verify(long), lambda: asked.forward(long), runs)
    return {
        "decode_over_verify": median(_ratios(decode, verify)),
        "verify_over_forward": median(_ratios(again, bare)),
        "verify_over_forward_long": median(_ratios(verify_long, bare_long)),
        "verify_seconds": median(again),
        "decode_rate": median([len(short) / taken for taken in decode]),
        "verify_rate": median([len(long) / taken for taken in verify_long]),
        "prefill_rate": median([len(past) / taken for taken in read]),
        "first_token_seconds": median(warm),
        "first_token_cold_seconds": median([one + other for one, other in zip(read, first, strict=True)]),
        "history_tokens": len(past),
    }


class _Asked:
    """A cache that holds everything but the last token before an answer; each call begins there."""

    def __init__(self, network: Network, cache: Cache, last: int) -> None:
        self._network = network
        self._cache = cache
        self._snapshot = Snapshot(cache)
        self._last = last

    def _branch(self) -> Cache:
        return self._snapshot.branch(self._cache)

    def decode(self, count: int) -> list[int]:
        """So many tokens by mlx-lm, one after the other, whatever they are."""
        return passes.greedy(
            self._network, [[self._last]], [self._branch()], most=[count], ends=frozenset(), stopped=_never
        )[0]

    def verify(self, draft: list[int]) -> None:
        passes.score(self._network, [[self._last]], [draft], self._branch(), stopped=_never)

    def forward(self, draft: list[int]) -> None:
        baseline.forward(self._network, [self._last, *draft[:-1]], self._branch())


def _first(network: Network, tokens: list[int], cache: Cache) -> None:
    """The first token after these."""
    passes.prefill(network, [tokens[:-1]], cache, stopped=_never)
    passes.greedy(network, [tokens[-1:]], [cache], most=[1], ends=frozenset(), stopped=_never)


def _computed(bench: _Bench, parameters: _Parameters, runs: int, seed: int) -> Results:  # noqa: ARG001 - as the others
    """Tokens that went through the model for each that is new, from step 2 on, whole and by quarters."""
    results: Results = {}
    steps = trajectory("long", parameters.steps, seed, most=1)
    # Counts do not depend on how turns are written, and short ones keep a CPU from attending to 30,000 tokens.
    form = prompt.Form(wrapper="none", action="command")
    for history in ("stable", "template"):
        verifier = bench.verifier(history, form=form)
        counts: list[tuple[int, int]] = []
        taken: list[float] = []
        for job in _jobs(steps):
            outcomes: list[Outcome] = []
            taken.append(seconds(lambda job=job, run=verifier.run, out=outcomes: out.extend(run([job]))))  # type: ignore[misc] # mypy infers no lambda with defaults
            counts.append((outcomes[0].tokens.computed, outcomes[0].tokens.new))
        counts = counts[1:]
        name = f"computed_over_new_{history}"
        results[name] = _share(counts)
        for quarter in range(_QUARTERS):
            begin, end = (len(counts) * place // _QUARTERS for place in (quarter, quarter + 1))
            if begin < end:
                results[f"{name}_q{quarter + 1}"] = _share(counts[begin:end])
        results[f"{name}_worst"] = max(_share([count]) for count in counts)
        results[f"step_seconds_{history}"] = median(taken[1:])
    return results


def _batch(bench: _Bench, parameters: _Parameters, runs: int, seed: int) -> Results:
    """The next step of several trajectories in one pass, against each in a pass of its own; then half their memory."""
    size = parameters.batch
    rounds_wanted = parameters.batch_turns + runs + 2  # two to warm up
    rows = [list(_jobs(trajectory(f"row-{row}", rounds_wanted, seed)))[parameters.batch_turns :] for row in range(size)]
    rounds = [list(jobs) for jobs in zip(*rows, strict=True)]
    together, single = bench.verifier(), bench.verifier()
    ahead, behind = iter(rounds), iter(rounds)

    def batched() -> None:
        together.run(next(ahead))

    def singly() -> None:
        for job in next(behind):
            single.run([job])

    one, other = paired(singly, batched, runs, warm=2)
    whole = single.nbytes
    # Half of what the trajectories take, beside what all of them share.
    budget = whole - (whole - _opening_bytes(bench, rounds[0][0])) // 2
    scarce = bench.verifier(budget=budget)
    held = []
    for job in rounds[0]:
        scarce.run([job])
        held.append(scarce.nbytes)
    return {
        f"batch{size}_over_singles": median(_ratios(one, other)),
        "cache_bytes": max(held),
        "cache_budget_bytes": budget,
        "cache_bytes_unbounded": whole,
    }


def _opening_bytes(bench: _Bench, job: Job) -> int:
    """Bytes of the cache that the trajectories share."""
    cache = bench.network.cache()
    passes.prefill(bench.network, [bench.renderer().opening(job.step.domain)], cache, stopped=_never)
    return sum(int(layer.nbytes) for layer in cache)


def _jobs(steps: Sequence[Step]) -> "Sequence[Job]":
    return [
        Job(key=steps[0].key, history=tuple(steps[:number]), total=number, step=step)
        for number, step in enumerate(steps)
    ]


def _share(counts: Sequence[tuple[int, int]]) -> float:
    return sum(computed for computed, _ in counts) / sum(new for _, new in counts)


def _ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(over, under, strict=True)]
