"""The suite `constrained`: does a model keep to its role if a grammar holds it to it, and at which price?

Each sequence of `roles` is simulated twice, freely and held to `grammar.observation`, and the answers are compared step
by step.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import numpy as np

from verifierd.errors import ConfigError
from verifierd.replay.bench.asking import Outcome, Party
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.figures import Results, estimated, median
from verifierd.replay.bench.grammar import observation
from verifierd.replay.bench.sequences import FEW, Roles, costs, outcomes
from verifierd.replay.bench.suite import Request
from verifierd.replay.statistics import Groups, mcnemar
from verifierd.stages import Asked, Message

__all__ = ("Constrained",)

_MOST = "characters-of-observation"
_FREE, _HELD = "free", "constrained"


class Constrained:
    """Simulates each sequence freely, and held to the grammar, in turn."""

    def __init__(self, request: Request) -> None:
        parameters = dict(request.parameters)
        most = parameters.pop(_MOST, None)
        if not isinstance(most, int) or most < 1:
            raise ConfigError(
                f"the suite `{request.suite}`, parameters of size {request.size}: `{_MOST}` must be 1 or more"
            )
        self._roles = Roles(msgspec.structs.replace(request, parameters=parameters))
        self._grammar = partial(observation, most=most)
        ways = (_FREE, _HELD), (_HELD, _FREE)  # in turn, so that neither is always the first to ask
        self.jobs: Sequence[str] = [
            f"{kind}/{job}" for number, job in enumerate(self._roles.jobs) for kind in ways[number % 2]
        ]
        self.warning = self._roles.warning

    @asynccontextmanager
    async def begun(self, asked: Party, done: Mapping[str, Sequence[Row]]) -> AsyncIterator[None]:
        """See whether replies can be held to a grammar here, before it is taken for the model's failure.

        Raises:
            PredictorError: They cannot.
        """
        if set(self.jobs) - done.keys():
            await asked.talk([Message("user", "Say yes.")], Asked(max_tokens=1, grammar='start: "yes"'))
        yield

    async def run(self, job: str, asked: Party) -> Sequence[Row]:
        """Simulate a sequence in one of the two ways."""
        kind, _, name = job.partition("/")
        rows = await self._roles.run(name, asked.held(self._grammar) if kind == _HELD else asked)
        return [msgspec.structs.replace(row, case=f"{row.case}/{kind}", scores=row.scores | _cost(row)) for row in rows]

    def figures(self, rows: Sequence[Row]) -> Results:
        """Of each way under its name, and what the one does better than the other on the same steps."""
        results: Results = {}
        ways = {kind: {_step(row): row for row in rows if row.case.endswith(f"/{kind}")} for kind in (_FREE, _HELD)}
        for kind, of in ways.items():
            part = list(of.values())
            found = outcomes(part) | costs(part)
            if each := [row.scores[_EACH] for row in part if _EACH in row.scores]:
                found |= {"token_seconds_median": median(each), "token_seconds_p95": float(np.quantile(each, 0.95))}
            results |= {f"{kind}_{name}": figure for name, figure in found.items()}
        both = [(row, ways[_HELD][step]) for step, row in ways[_FREE].items() if step in ways[_HELD]]
        return results | _compared(both)


_EACH = "token-seconds"


def _cost(row: Row) -> dict[str, float]:
    """Seconds of each token but the first, which waits for the prompt and for the grammar."""
    if row.first_token_seconds is None or row.generated_tokens is None or row.generated_tokens < 2:
        return {}
    return {_EACH: (row.seconds - row.first_token_seconds) / (row.generated_tokens - 1)}


def _step(row: Row) -> tuple[str, int]:
    return row.case.rpartition("/")[0], row.run


def _compared(both: Sequence[tuple[Row, Row]]) -> Results:
    """The difference of the shares, constrained minus free, with its interval; and the odds that it is chance."""
    results: Results = {}
    names = [free.group for free, _ in both]
    groups = Groups(names if len(set(names)) >= FEW else [free.case for free, _ in both])
    for name, pairs in (
        (
            "role_breaks",
            [(free.outcome is Outcome.ROLE_BREAK, held.outcome is Outcome.ROLE_BREAK) for free, held in both],
        ),
        ("exact", [(bool(free.exact), bool(held.exact)) for free, held in both]),
    ):
        if not pairs:
            continue
        free, held = np.array(pairs, dtype=np.bool_).T
        if (difference := estimated(groups.difference(held, free))) is not None:
            results[f"{name}_difference"] = difference
        first = np.array([row.run == 0 for row, _ in both])  # further runs of a step repeat it, and are no evidence
        results[f"{name}_mcnemar_p"] = mcnemar(free[first], held[first])
    ratios = [
        held.scores[_EACH] / free.scores[_EACH]
        for free, held in both
        if held.scores.get(_EACH) and free.scores.get(_EACH)
    ]
    return results | ({"token_seconds_ratio": median(ratios)} if ratios else {})
