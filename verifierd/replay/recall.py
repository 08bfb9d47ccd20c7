"""Which injected faults are seen, by kind and tool: `python -m verifierd.replay.recall PATH...`.

Each fault is a case of its own: the clean history, one altered observation, nothing after it. A step is predicted once
for all its faults.
"""

import argparse
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import anyio
import msgspec

from verifierd import policy as policies
from verifierd.contracts.measure import tool_of
from verifierd.errors import VerifierdError
from verifierd.policy import Memory, Policy, decide
from verifierd.predictors import PredictorSettings, open_predictor
from verifierd.replay.inject import FAULTS, inject
from verifierd.replay.mining import trajectories
from verifierd.scoring import open_scorers
from verifierd.sources.directory import Watcher
from verifierd.stages import Scorer
from verifierd.types import History, ObservationKind, Prediction, Seconds, Step, VerdictKind

__all__ = ("Cases", "Rate", "measured", "table")

_RESAMPLES = 1000
_ERROR = re.compile(
    r"\b(?:error|failed|failure|fatal|exception|traceback|not found|no such file|denied|cannot|unable)\b", re.IGNORECASE
)
_CLEAN = "clean"


class Rate(msgspec.Struct, frozen=True):
    """A share with its 95 % interval, resampled by trajectory; all None if there is no case."""

    value: float | None
    low: float | None
    high: float | None
    cases: int


class Cases(msgspec.Struct, kw_only=True):
    """Cases and how many of them were flagged, by (detector, kind, tool) and trajectory."""

    counts: dict[tuple[str, str, str], dict[str, list[int]]] = msgspec.field(default_factory=dict)

    def add(self, kind: str, tool: str, trajectory: str, flags: Mapping[str, bool]) -> None:
        """Count one case, for its tool and for all; `flags` says which detectors flagged it."""
        for detector, flagged in flags.items():
            for name in (tool, "all"):
                found = self.counts.setdefault((detector, kind, name), {}).setdefault(trajectory, [0, 0])
                found[0] += flagged
                found[1] += 1

    def rate(self, detector: str, kind: str, tool: str = "all", *, seed: int = 0) -> Rate:
        """The share flagged; its interval by resampling trajectories (cluster bootstrap, percentiles)."""
        clusters = list(self.counts.get((detector, kind, tool), {}).values())
        cases = sum(total for _, total in clusters)
        if not cases:
            return Rate(None, None, None, 0)
        draw = random.Random(seed)  # noqa: S311 - resampling
        shares = []
        for _ in range(_RESAMPLES):
            sample = draw.choices(clusters, k=len(clusters))
            shares.append(sum(hit for hit, _ in sample) / sum(total for _, total in sample))
        shares.sort()
        low, high = shares[int(0.025 * _RESAMPLES)], shares[int(0.975 * _RESAMPLES)]
        return Rate(sum(hit for hit, _ in clusters) / cases, low, high, cases)

    def tools(self) -> list[str]:
        """Tools by number of clean cases."""
        sizes = {
            tool: sum(total for _, total in clusters.values())
            for (detector, kind, tool), clusters in self.counts.items()
            if (detector, kind) == ("verifierd", _CLEAN)
        }
        return sorted(sizes, key=lambda tool: -sizes[tool])


async def measured(steps: Sequence[Sequence[Step]], *, chain: str = "shell,contracts", seed: int = 1) -> Cases:
    """Judge each clean step, and each of its faults.

    Args:
        steps: Trajectories that are taken to be clean, each one's steps in order.
        chain: The predictors.
        seed: Draws the faults.
    """
    policy = policies.load("default")
    scorers = open_scorers(policy)
    pool: dict[str, list[Step]] = {}
    for step in _judged(steps):
        pool.setdefault(tool_of(step), []).append(step)
    cases = Cases()
    predictor = open_predictor(chain, PredictorSettings(shell_profile=policy.shell_profile))
    try:
        for trajectory in steps:
            history = History(trajectory[0].key)
            seen: set[str] = set()
            for step in trajectory:
                if step.observation_kind is ObservationKind.ENV:
                    prediction = await predictor.predict(history, step)
                    others = [other for other in pool[tool_of(step)] if other.key != step.key]
                    for kind, altered in _variants(step, history, others, seed):
                        flags = {
                            "verifierd": _off_path(altered, history, prediction, policy, scorers),
                            "error regex": bool(_ERROR.search(altered.observation)),
                            "seen before": altered.observation.strip() in seen,
                        }
                        cases.add(kind, tool_of(step), f"{step.origin.path}/{step.trajectory}", flags)
                    seen.add(step.observation.strip())
                history.append(step)
    finally:
        await predictor.aclose()
    return cases


def _judged(steps: Sequence[Sequence[Step]]) -> Iterator[Step]:
    return (step for trajectory in steps for step in trajectory if step.observation_kind is ObservationKind.ENV)


def _variants(step: Step, history: History, others: Sequence[Step], seed: int) -> Iterator[tuple[str, Step]]:
    yield _CLEAN, step
    for kind in FAULTS:
        altered = inject(kind, step, history, others, seed=seed)
        if altered is not None:
            yield kind, altered


def _off_path(step: Step, history: History, prediction: Prediction, policy: Policy, scorers: Sequence[Scorer]) -> bool:
    scores = [scorer(history, step, prediction) for scorer in scorers]
    _, verdict = decide(
        policy, Memory(), step, prediction, scores, predictor="", model=None, time="", seconds=Seconds()
    )
    return verdict.verdict is VerdictKind.OFF_PATH


def table(cases: Cases, *, tools: int = 8) -> str:
    """The result as Markdown: recall by kind and detector, then by kind and tool."""
    kinds = [_CLEAN, *FAULTS]
    detectors = ("verifierd", "error regex", "seen before")
    lines = [f"| kind | cases | {' | '.join(detectors)} |", "|---" * (len(detectors) + 2) + "|"]
    for kind in kinds:
        rates = [cases.rate(detector, kind) for detector in detectors]
        lines.append(f"| {kind} | {rates[0].cases} | {' | '.join(map(_shown, rates))} |")
    names = [tool for tool in cases.tools() if tool != "all"][:tools]
    lines += ["", f"| tool | {' | '.join(kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    for tool in names:
        lines.append(f"| {tool} | {' | '.join(_shown(cases.rate('verifierd', kind, tool)) for kind in kinds)} |")
    return "\n".join(lines)


def _shown(rate: Rate) -> str:
    if rate.value is None or rate.low is None or rate.high is None:
        return "-"
    digits = 2 if rate.high < 0.01 else 1 if rate.high < 0.1 else 0
    return f"{rate.value:.{digits}%} ({rate.low:.{digits}%} to {rate.high:.{digits}%})"


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m verifierd.replay.recall", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="logs of clean sessions")
    parser.add_argument("--predictor", default="shell,contracts", help="the chain (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="draws the faults (default: %(default)s)")
    chosen = parser.parse_args(arguments)

    def tell(error: VerifierdError) -> None:
        sys.stderr.write(f"{error.message}\n")

    async def run() -> Cases:
        files = Watcher([str(path) for path in chosen.paths]).look().ready
        steps = await trajectories(files, tell=tell)
        return await measured(steps, chain=chosen.predictor, seed=chosen.seed)

    sys.stdout.write(table(anyio.run(run)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
