"""Adds verdicts up: a sink whose result is what `replay` prints."""

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any

from verifierd.types import Abstain, ObservationKind, Tokens, Verdict, VerdictKind

__all__ = ("Summary",)

_MOST_MODELS = 100  # a file of recorded predictions may name any
_MOST_TOOLS = 1_000
_MOST_TIMES = 100_000


class _Tool:
    """Counts of one tool."""

    def __init__(self) -> None:
        self.verdicts: Counter[VerdictKind] = Counter()
        self.env = 0
        self.above_zero = 0
        self.coverage = 0.0
        self.status_checked = 0


class Summary:
    """Implements `Sink`; `document()` is the JSON of the contract.

    Coverage is taken over `env` steps only, since the others are not predicted.
    """

    def __init__(self) -> None:
        self._trajectories: set[str] = set()
        self._kinds: Counter[ObservationKind] = Counter()
        self._reasons: Counter[str] = Counter()
        self._tools: dict[str, _Tool] = {}
        self._models: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._seconds = array("d")
        self._every = 1  # of the steps' times, how many one of those kept stands for

    @property
    def steps(self) -> int:
        """How many verdicts came in."""
        return sum(self._kinds.values())

    def verdicts(self, kind: VerdictKind) -> int:
        """How many were of this kind."""
        return sum(tool.verdicts[kind] for tool in self._tools.values())

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Count them."""
        for verdict in verdicts:
            self._trajectories.add(verdict.trajectory)
            self._kinds[verdict.observation_kind] += 1
            self._time(verdict.seconds.total)
            known = verdict.tool in self._tools or len(self._tools) < _MOST_TOOLS
            tool = self._tools.setdefault(verdict.tool if known else "other", _Tool())
            tool.verdicts[verdict.verdict] += 1
            if verdict.verdict is VerdictKind.ABSTAIN:
                self._reasons[verdict.reason] += 1
            if verdict.observation_kind is ObservationKind.ENV:
                tool.env += 1
                tool.above_zero += verdict.coverage > 0
                tool.coverage += verdict.coverage
                tool.status_checked += verdict.status_checked
            if verdict.model is not None and (verdict.model in self._models or len(self._models) < _MOST_MODELS):
                self._models[verdict.model] += 1
            for name in Tokens.__struct_fields__:
                self._tokens[name] += getattr(verdict.tokens, name)

    def _time(self, seconds: float) -> None:
        """Keep the time of every so-many-th step, ever fewer, so that a daemon may run for years."""
        if (self.steps - 1) % self._every:
            return
        self._seconds.append(seconds)
        if len(self._seconds) >= _MOST_TIMES:
            del self._seconds[1::2]
            self._every *= 2

    async def aclose(self) -> None:
        """Nothing is held."""

    def document(self, *, wall: float) -> dict[str, Any]:
        """The summary; `wall` is the whole run in seconds."""
        env = sum(tool.env for tool in self._tools.values())
        tools = sorted(self._tools.items())
        return {
            "trajectories": len(self._trajectories),
            "steps": self.steps,
            "by_kind": {kind.value: count for kind, count in self._kinds.most_common()},
            "verdicts": {kind.value: self.verdicts(kind) for kind in VerdictKind},
            "coverage": {
                "steps_above_zero": sum(tool.above_zero for _, tool in tools),
                "mean": _ratio(sum(tool.coverage for _, tool in tools), env),
                "by_tool": {
                    name: {
                        "steps": tool.env,
                        "above_zero": tool.above_zero,
                        "mean": _ratio(tool.coverage, tool.env),
                        "status_checked": tool.status_checked,
                    }
                    for name, tool in tools
                },
            },
            "reasons": {
                reason: self._reasons[reason] for reason in (a.value for a in Abstain) if self._reasons[reason]
            },
            "by_tool": {
                name: {
                    "steps": tool.verdicts.total(),
                    **{kind.value: tool.verdicts[kind] for kind in VerdictKind},
                }
                for name, tool in tools
            },
            "model": ", ".join(sorted(self._models)) or None,
            "asked": self._models.total(),
            "tokens": dict(self._tokens) or dict.fromkeys(Tokens.__struct_fields__, 0),
            "seconds": {"wall": wall, **self._percentiles()},
        }

    def _percentiles(self) -> dict[str, float]:
        ordered = sorted(self._seconds)
        last = len(ordered) - 1
        return {
            name: ordered[min(last, int(share * len(ordered)))] if ordered else 0.0
            for name, share in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))
        }


def _ratio(part: float, whole: int) -> float:
    return part / whole if whole else 0.0
