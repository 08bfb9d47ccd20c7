"""Which injected faults are seen, and which benign changes alarm: `python -m verifierd.replay.recall PATH...`.

Each change is a case of its own: the clean history, one altered observation, nothing after it. A step is predicted once
for all its changes.
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
from verifierd.replay.inject import BENIGN, FAULTS, Pool, drawn, inject
from verifierd.replay.mining import trajectories
from verifierd.scoring import open_scorers
from verifierd.sources.directory import Watcher
from verifierd.stages import Scorer
from verifierd.types import History, ObservationKind, Prediction, Seconds, Step, Verdict, VerdictKind

__all__ = ("Cases", "Rate", "measured", "table")

_RESAMPLES = 1000
_ERROR = re.compile(
    r"\b(?:error|failed|failure|fatal|exception|traceback|not found|no such file|denied|cannot|unable)\b", re.IGNORECASE
)
_CLEAN = "clean"
_HINTS = frozenset({"stale", "foreign", "injection"})


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


async def measured(
    steps: Sequence[Sequence[Step]],
    *,
    chain: str = "shell,contracts",
    kinds: Sequence[str] = (*FAULTS, *BENIGN),
    rate: float = 1.0,
    seed: int = 1,
) -> Cases:
    """Judge each clean step, and each of its changes.

    Args:
        steps: Trajectories that are taken to be clean, each one's steps in order.
        chain: The predictors.
        kinds: Which changes.
        rate: The share of eligible steps that is changed, drawn for each kind.
        seed: Draws the changes.
    """
    policy = policies.load("default")
    scorers = open_scorers(policy)
    pool = Pool(step for trajectory in steps for step in trajectory)
    cases = Cases()
    predictor = open_predictor(chain, PredictorSettings(shell_profile=policy.shell_profile))
    try:
        for trajectory in steps:
            history = History(trajectory[0].key)
            seen: set[str] = set()
            for step in trajectory:
                if step.observation_kind is ObservationKind.ENV:
                    prediction = await predictor.predict(history, step)
                    clean = _judged(step, history, prediction, policy, scorers)
                    chosen = [kind for kind in kinds if drawn(kind, step, rate, seed=seed)]
                    for kind, known, altered in _variants(step, history, pool, chosen, seed):
                        verdict = _judged(altered, history, prediction, policy, scorers)
                        flags = {
                            "verifierd": verdict.verdict is VerdictKind.OFF_PATH,
                            "hint": any(signal.name in _HINTS for signal in verdict.signals),
                            "verdict changed": verdict.verdict is not clean.verdict,
                            "error regex": bool(_ERROR.search(altered.observation)),
                            "seen before": altered.observation.strip() in seen,
                        }
                        if known:
                            flags["verifierd, if known"] = flags["verifierd"]
                        cases.add(kind, tool_of(step), f"{step.origin.path}/{step.trajectory}", flags)
                    seen.add(step.observation.strip())
                history.append(step)
    finally:
        await predictor.aclose()
    return cases


def _variants(
    step: Step, history: History, pool: Pool, kinds: Sequence[str], seed: int
) -> Iterator[tuple[str, bool, Step]]:
    """The step as it is and with its changes: the kind, whether the history holds what was changed, the step."""
    yield _CLEAN, False, step
    for kind in kinds:
        if (found := inject(kind, step, history, pool, seed=seed)) is not None:
            yield kind, found.known, found.step


def _judged(step: Step, history: History, prediction: Prediction, policy: Policy, scorers: Sequence[Scorer]) -> Verdict:
    scores = [scorer(history, step, prediction) for scorer in scorers]
    return decide(policy, Memory(), step, prediction, scores, predictor="", model=None, time="", seconds=Seconds())[1]


def table(cases: Cases, *, tools: int = 8) -> str:
    """The result as Markdown: recall by kind and detector, benign changes, then recall by kind and tool."""
    detectors = ("verifierd", "verifierd, if known", "hint", "error regex", "seen before")
    lines = _rows(cases, (_CLEAN, *FAULTS), detectors)
    lines += ["", *_rows(cases, tuple(BENIGN), ("verifierd", "verdict changed", "hint"))]
    names = [tool for tool in cases.tools() if tool != "all"][:tools]
    lines += ["", f"| kind | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for kind in (_CLEAN, *FAULTS):
        lines.append(f"| {kind} | {' | '.join(_shown(cases.rate('verifierd', kind, tool)) for tool in names)} |")
    return "\n".join(lines)


def _rows(cases: Cases, kinds: Sequence[str], detectors: Sequence[str]) -> list[str]:
    lines = [f"| kind | cases | {' | '.join(detectors)} |", "|---" * (len(detectors) + 2) + "|"]
    for kind in kinds:
        rates = [cases.rate(detector, kind) for detector in detectors]
        lines.append(f"| {kind} | {rates[0].cases} | {' | '.join(map(_shown, rates))} |")
    return lines


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
    parser.add_argument(
        "--inject", default="all", metavar="KINDS", help="kinds of changes, with commas between (default: %(default)s)"
    )
    parser.add_argument("--rate", type=float, default=1.0, help="share of eligible steps (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="draws the changes (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    kinds = (*FAULTS, *BENIGN) if chosen.inject == "all" else tuple(chosen.inject.split(","))
    if unknown := [kind for kind in kinds if kind not in (*FAULTS, *BENIGN)]:
        parser.error(f"there is no kind {', '.join(unknown)}; there are {', '.join((*FAULTS, *BENIGN))}")
    if not 0 < chosen.rate <= 1:
        parser.error("--rate must be above 0 and at most 1")

    def tell(error: VerifierdError) -> None:
        sys.stderr.write(f"{error.message}\n")

    async def run() -> Cases:
        files = Watcher([str(path) for path in chosen.paths]).look().ready
        steps = await trajectories(files, tell=tell)
        return await measured(steps, chain=chosen.predictor, kinds=kinds, rate=chosen.rate, seed=chosen.seed)

    sys.stdout.write(table(anyio.run(run)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
