"""Verdicts as events of the log: each step off path, each alarm, and counts of the rest. No observations."""

import time
from collections import Counter
from collections.abc import Callable, Sequence

import structlog

from verifierd.types import Verdict, VerdictKind

__all__ = ("Events",)

_ACTION = 200  # characters
_log = structlog.get_logger(component="verdicts")


class Events:
    """Logs `step_off_path` for each such step, `alarm_raised` once a trajectory, and now and then `steps_verified`.

    Args:
        every: Seconds between two `steps_verified` while there is something to count.
        clock: Seconds that never go back.
    """

    def __init__(self, *, every: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._clock = clock
        self._last = clock()
        self._counts: Counter[VerdictKind] = Counter()

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Log what is off path and alarms, count the rest."""
        for verdict in verdicts:
            self._counts[verdict.verdict] += 1
            if verdict.verdict is VerdictKind.OFF_PATH:
                _log.warning(
                    "step_off_path",
                    trajectory=verdict.trajectory,
                    step=verdict.step,
                    tool=verdict.tool,
                    reason=verdict.reason,
                    detail=next((signal.detail for signal in verdict.signals if signal.detail), ""),
                    action=verdict.action[:_ACTION],
                    alarm=verdict.alarm is not None and verdict.alarm.raised,
                    verdict_id=verdict.verdict_id,
                    path=verdict.origin.path,
                    offset=verdict.origin.offset,
                )
            if (alarm := verdict.alarm) is not None and alarm.new:
                _log.warning(
                    "alarm_raised",
                    trajectory=verdict.trajectory,
                    step=verdict.step,
                    first_bad=alarm.first_bad,
                    statistic=alarm.statistic,
                    threshold=alarm.threshold,
                    verdict_id=verdict.verdict_id,
                    path=verdict.origin.path,
                    offset=verdict.origin.offset,
                )
        if self._clock() - self._last >= self._every:
            self._tell()

    async def aclose(self) -> None:
        """Log what was counted since."""
        self._tell()

    def _tell(self) -> None:
        self._last = self._clock()
        if self._counts:
            _log.info("steps_verified", **{kind.value: self._counts[kind] for kind in VerdictKind})
            self._counts.clear()
