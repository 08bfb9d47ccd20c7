"""Every metric series of verifierd, declared here and nowhere else.

Names carry their unit. Label values come from enumerations only, and every known one exists from the start; a value
that nobody foresaw is counted under `other`. So no log, however hostile, makes a series or breaks a scrape.
"""

import ctypes
import math
import os
import platform
import resource
import sqlite3
import struct
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from verifierd import __version__
from verifierd.labels import FORMAT, LABELS, SOURCES, Outcome, Truth
from verifierd.redact import KINDS
from verifierd.types import FAILURES, Abstain, ObservationKind, Record, Step, Tokens, Verdict, VerdictKind

__all__ = ("FAULTS", "FORMATS", "OTHER", "PREDICTORS", "SHADOW_SKIPS", "STAGES", "Labelled", "Metrics")

M = TypeVar("M", bound=MetricWrapperBase)

OTHER = "other"
FORMATS = ("native", "claude_code", "codex")
PREDICTORS = ("shell", "contracts", "mlx", "openai", "recorded", "scripted")
FAULTS = (
    "another_session",
    "another_step",
    "wrong_tool",
    "stale",
    "outdated",
    "line_dropped",
    "truncated",
    "empty",
    "number_changed",
    "entity_changed",
    "key_renamed",
    "type_changed",
    "error_flip",
    "explicit_error",
    "false_success",
    "wrong_content",
    "write_lost",
    "role_break",
    "injected_instruction",
)
STAGES = ("parse", "recall", "predict", "score", "decide", "commit")
SHADOW_SKIPS = ("queue_full", "not_eligible", "moved_on", "reloaded", "failed")

_RESULTS = ("ok", "too_long", "torn_tail", "damaged_archive", "not_json", "not_object", "bad_shape", "cut")
_EVENTS = ("copied", "duplicate", "restarted", "skipped_old", "unknown_format", "vanished")
_LABEL_ACTIONS = ("added", "changed", "undone", "refused")

_PREDICTION_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_COMMIT_BUCKETS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
_DELAY_BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 1800, 3600)
_LABEL_BUCKETS = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 2 * 86400, 7 * 86400, 30 * 86400)
_SHARE_BUCKETS = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)

_TASK_FLAVOR, _TASK_SIZE = 4, 96  # macOS: PROC_PIDTASKINFO, whose first two fields are the memory's size


class Labelled(Generic[M]):
    """A metric with labels, whose values are known beforehand."""

    def __init__(self, metric: M, *allowed: Iterable[str]) -> None:
        self._metric = metric
        self._allowed = tuple(frozenset(values) for values in allowed)
        self._known = {values: metric.labels(*values) for values in product(*allowed)}

    def labels(self, *values: str | None) -> M:
        """The series of these values; what is not among the known ones is `other`."""
        known = self._known.get(values)  # type: ignore[arg-type]  # None is not among them
        if known is not None:
            return known
        return self._metric.labels(
            *(value if value in known else OTHER for value, known in zip(values, self._allowed, strict=True))
        )


class Metrics:
    """The series, one attribute each, and what moves several of them at once.

    Args:
        registry: Where they are registered; by default a registry of their own, so that two daemons in a process, and
            tests, do not meet.
        revision: What the build was made from.
    """

    def __init__(  # noqa: PLR0915 - a statement for each series
        self, registry: CollectorRegistry | None = None, *, revision: str = ""
    ) -> None:
        self.registry = registry = CollectorRegistry() if registry is None else registry

        def counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
            return Counter(f"verifierd_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
            return Gauge(f"verifierd_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> Histogram:
            return Histogram(f"verifierd_{name}", text, labels, buckets=buckets, registry=registry)

        _Process(registry)
        gauge(
            "build_info",
            "What runs; always 1. The revision is empty where nobody named one.",
            ("version", "revision", "python", "sqlite"),
        ).labels(
            __version__,
            revision,
            platform.python_version(),
            sqlite3.sqlite_version,
        ).set(1)

        # Reading
        self.source_read_bytes_total = Labelled(
            counter("source_read_bytes_total", "Bytes of lines read, of logs and of label files.", ["format"]),
            (*FORMATS, FORMAT),
        )
        self.source_records_total = Labelled(
            counter("source_records_total", "Lines read, by what became of them.", ["format", "result"]),
            (*FORMATS, FORMAT),
            _RESULTS,
        )
        self.source_events_total = Labelled(
            counter("source_events_total", "What happened to sources and what they held.", ["event"]), _EVENTS
        )
        self.source_files_watched = Labelled(
            gauge("source_files_watched", "Log files, by whether they are read.", ["state"]), ("open", "skipped")
        )
        self.source_backlog_bytes = gauge("source_backlog_bytes", "Bytes of open log files not yet read.")
        self.source_oldest_unverified_timestamp_seconds = gauge(
            "source_oldest_unverified_timestamp_seconds",
            "Since when the lines are judged that have been so for longest; 0 where none are.",
        )
        self.source_unknown_records_total = Labelled(
            counter("source_unknown_records_total", "Records of a type that no adapter knows.", ["format"]), FORMATS
        )
        self.source_read_errors_total = Labelled(
            counter("source_read_errors_total", "Log files that began to fail.", ["reason"]), ("io",)
        )

        # Committing
        self.checkpoint_commits_total = Labelled(
            counter("checkpoint_commits_total", "Transactions of verdicts and positions.", ["result"]), ("ok", "error")
        )
        self.checkpoint_commit_duration_seconds = histogram(
            "checkpoint_commit_duration_seconds", "Time that a transaction took.", _COMMIT_BUCKETS
        )
        self.checkpoint_last_success_timestamp_seconds = gauge(
            "checkpoint_last_success_timestamp_seconds", "When a transaction last succeeded; 0 before the first."
        )
        self.stored_verdicts = Labelled(gauge("stored_verdicts", "Verdicts in the database.", ["verdict"]), VerdictKind)

        # Judging
        self.steps_total = Labelled(
            counter("steps_total", "Steps of trajectories, by what their observation is.", ["format", "kind"]),
            FORMATS,
            ObservationKind,
        )
        self.verdicts_total = Labelled(counter("verdicts_total", "Verdicts given.", ["verdict"]), VerdictKind)
        self.abstentions_total = Labelled(
            counter("abstentions_total", "Steps not decided, by reason.", ["reason"]), Abstain
        )
        self.simulator_errors_total = Labelled(
            counter("simulator_errors_total", "Predictions that failed as predictions.", ["kind"]), FAILURES
        )
        self.alarms_total = counter("alarms_total", "Trajectories that alarmed.")
        self.alarms_open = gauge("alarms_open", "Alarms that nobody has acknowledged.")
        self.coverage_ratio = histogram(
            "coverage_ratio", "Share of an environment's observation that was pinned and checked.", _SHARE_BUCKETS
        )
        self.prediction_seconds = Labelled(
            histogram("prediction_seconds", "Time that a prediction took.", _PREDICTION_BUCKETS, ["predictor"]),
            PREDICTORS,
        )
        self.prediction_tokens_total = Labelled(
            counter("prediction_tokens_total", "Model tokens of predictions.", ["kind"]),
            Tokens.__struct_fields__,
        )
        self.time_to_verdict_seconds = histogram(
            "time_to_verdict_seconds",
            "Time from reading the line that completed a step, or its parallel batch, until its verdict was committed "
            "and passed on; one for each verdict.",
            _PREDICTION_BUCKETS,
        )
        self.end_to_end_delay_seconds = histogram(
            "end_to_end_delay_seconds",
            "Time from the log's own time of an observation until its verdict was committed and passed on; only for "
            "steps logged since the start, as older ones did not wait for verifierd.",
            _DELAY_BUCKETS,
        )
        self.stage_seconds = Labelled(
            histogram(
                "stage_seconds",
                "Time that all steps of a chunk of lines took in a stage together, for each chunk with a verdict: "
                "parse, recall (state and turn of their trajectories), predict, score, decide, commit (and pass on).",
                _PREDICTION_BUCKETS,
                ["stage"],
            ),
            STAGES,
        )
        self.shadow_verdicts_total = Labelled(
            counter(
                "shadow_verdicts_total",
                "Verdicts on copies of steps on path into which a fault was put; all but off_path missed it.",
                ["kind", "verdict"],
            ),
            FAULTS,
            VerdictKind,
        )
        self.shadow_skipped_total = Labelled(
            counter("shadow_skipped_total", "Steps picked for a fault that got none, by reason.", ["reason"]),
            SHADOW_SKIPS,
        )
        self.trajectories_live = gauge("trajectories_live", "Trajectories held in memory.")

        # Truth
        self.labelled_verdicts = Labelled(
            gauge(
                "labelled_verdicts",
                "Verdicts by the label that holds for their step, and who said it.",
                ["verdict", "label", "source"],
            ),
            VerdictKind,
            LABELS,
            SOURCES,
        )
        self.false_positives = gauge("false_positives", "Verdicts off_path on steps labelled on_path.")
        self.false_negatives = gauge("false_negatives", "Verdicts on_path or abstain on steps labelled off_path.")
        self.labels_pending = gauge("labels_pending", "Labels that wait for the verdict on their step.")
        self.false_alarms = gauge("false_alarms", "Alarms raised at steps labelled on_path.")
        self.stored_trajectories = gauge("stored_trajectories", "Runs of trajectories in the database.")
        self.false_alarm_budget_ratio = gauge(
            "false_alarm_budget_ratio",
            "Alarms labelled false for each trajectory, over the share of clean trajectories that the policy lets "
            "alarm; NaN where it was not calibrated, or nothing was judged.",
        )
        self.false_alarm_budget_ratio.set(math.nan)
        self.label_events_total = Labelled(
            counter("label_events_total", "What was said of steps, by what it did to their truth.", ["action"]),
            _LABEL_ACTIONS,
        )
        self.label_delay_seconds = histogram(
            "label_delay_seconds", "Time from a verdict to a label of its step.", _LABEL_BUCKETS
        )
        self._truth = Truth({})

        # Settings
        self.config_last_reload_successful = gauge(
            "config_last_reload_successful", "Did the last attempt to read the settings succeed? 1 or 0."
        )
        self.config_last_reload_success_timestamp_seconds = gauge(
            "config_last_reload_success_timestamp_seconds", "When the settings in use were read; 0 before that."
        )

        # Leaving
        self.output_write_errors_total = Labelled(
            counter("output_write_errors_total", "Verdicts that a sink could not pass on.", ["reason"]), ("io",)
        )
        self.notifications_total = Labelled(
            counter("notifications_total", "Verdicts told to others, by what became of it.", ["kind", "result"]),
            ("webhook", "command"),
            ("delivered", "retried", "refused"),
        )
        self.redactions_total = Labelled(counter("redactions_total", "Secrets taken out of quotes.", ["kind"]), KINDS)
        self.event_loop_lag_seconds = gauge("event_loop_lag_seconds", "How late the event loop last woke up.")
        self.state_free_bytes = gauge("state_free_bytes", "Bytes that the disk of the state directory has left for us.")
        self.state_database_bytes = gauge("state_database_bytes", "Bytes of the database and its journal.")

    def read(self, format: str, records: Sequence[Record]) -> None:
        """Lines of a log were read; `format` is an adapter's name."""
        results: dict[str, int] = {}
        for record in records:
            result = record.problem or "ok"
            results[result] = results.get(result, 0) + 1
        for result, count in results.items():
            self.source_records_total.labels(format, result).inc(count)
        if records:
            size = sum(record.end - record.origin.offset for record in records)
            self.source_read_bytes_total.labels(format).inc(size)

    def unknown(self, format: str, count: int) -> None:
        """So many records of a log were of types that its adapter does not know."""
        if count:
            self.source_unknown_records_total.labels(format).inc(count)

    def step(self, step: Step) -> None:
        """A step is done with, its verdict, if any, committed."""
        self.steps_total.labels(step.format, step.observation_kind).inc()

    def judged(self, step: Step, waited: float, *, since: float, now: float) -> None:
        """A step's verdict was committed and passed on.

        Args:
            step: The step.
            waited: Seconds since the line was read that completed it, or its batch.
            since: When judging began. What was logged before says how old a log is, not how late a verdict.
            now: The time, like `since` in seconds since the epoch.
        """
        self.time_to_verdict_seconds.observe(waited)
        if (observed := _seconds(step.observed_at)) is not None and observed >= since:
            self.end_to_end_delay_seconds.observe(max(0.0, now - observed))  # clocks differ

    def stages(self, seconds: Mapping[str, float]) -> None:
        """A chunk with at least one verdict went through the stages, named as in `STAGES`."""
        for stage in STAGES:
            self.stage_seconds.labels(stage).observe(seconds.get(stage, 0.0))

    def verdict(self, verdict: Verdict) -> None:
        """A verdict was committed."""
        self.verdicts_total.labels(verdict.verdict).inc()
        self.stored_verdicts.labels(verdict.verdict).inc()
        if verdict.verdict is VerdictKind.ABSTAIN:
            self.abstentions_total.labels(verdict.reason).inc()
        names = {signal.name for signal in verdict.signals}
        for failure in FAILURES:  # what others know may have decided the step all the same
            if failure == verdict.reason or failure in names:
                self.simulator_errors_total.labels(failure).inc()
        if verdict.alarm is not None and verdict.alarm.new:
            self.alarms_total.inc()
        if verdict.observation_kind is ObservationKind.ENV:
            self.coverage_ratio.observe(verdict.coverage)
            # The one asked last takes longest.
            self.prediction_seconds.labels(verdict.predictor.rpartition(",")[2]).observe(verdict.seconds.predict)
        for kind in Tokens.__struct_fields__:
            if count := getattr(verdict.tokens, kind):
                self.prediction_tokens_total.labels(kind).inc(count)

    def reloaded(self, now: float | None) -> None:
        """The settings were read at this time since the epoch; None: they could not be used."""
        self.config_last_reload_successful.set(now is not None)
        if now is not None:
            self.config_last_reload_success_timestamp_seconds.set(now)

    def committed(self, seconds: float, now: float) -> None:
        """A transaction succeeded, after so many seconds, at this time since the epoch."""
        self.checkpoint_commits_total.labels("ok").inc()
        self.checkpoint_commit_duration_seconds.observe(seconds)
        self.checkpoint_last_success_timestamp_seconds.set(now)

    def preset(self, counts: Mapping[VerdictKind, int]) -> None:
        """How many verdicts of each kind the database holds, at the start and after it was pruned."""
        for kind, count in counts.items():
            self.stored_verdicts.labels(kind).set(count)

    def truth(self, truth: Truth) -> None:
        """What is known of the truth of the verdicts in the database; cheap if it is what was known before."""
        if truth is self._truth:
            return
        self._truth = truth
        for values in product(VerdictKind, LABELS, SOURCES):
            self.labelled_verdicts.labels(*values).set(truth.tally.get(values, 0))
        flagged = VerdictKind.OFF_PATH
        counts = [(kind is flagged, label, count) for (kind, label, _), count in truth.tally.items()]
        self.false_positives.set(sum(count for off, label, count in counts if off and label == "on_path"))
        self.false_negatives.set(sum(count for off, label, count in counts if not off and label == "off_path"))
        self.labels_pending.set(truth.pending)

    def alarms(self, false: int, trajectories: int, alpha: float | None) -> None:
        """How many alarms were false, of how many trajectories, and the share of them that may be; None if any may."""
        self.false_alarms.set(false)
        self.stored_trajectories.set(trajectories)
        self.false_alarm_budget_ratio.set(false / trajectories / alpha if trajectories and alpha else math.nan)

    def labelled(self, done: Outcome | None) -> None:
        """Something was said of a step, and this came of it; None: it was refused."""
        self.label_events_total.labels("refused" if done is None else done.action).inc()
        if done is not None and done.action != "undone" and done.verdict is not None:
            self.label_delay_seconds.observe(max(0.0, done.said.time - done.verdict_time))

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """A scrape: content type and body. It takes milliseconds, so run it in a thread.

        Args:
            accept: The request's Accept header.
        """
        try:
            encode, content_type = choose_encoder(accept)
            return content_type, encode(_Lean(self.registry))
        except (TypeError, ValueError):  # a version in the header that is none
            return choose_encoder("")[1], generate_latest(_Lean(self.registry))


class _Lean(Collector):
    """A registry without the `_created` series, which double the scrape; switching them off elsewhere is global."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class _Process(Collector):
    """The standard `process_*` series. The library's own collector knows Linux only."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._started = time.time()
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        times = os.times()
        yield CounterMetricFamily(
            "process_cpu_seconds", "Total user and system CPU time spent in seconds.", value=times.user + times.system
        )
        yield GaugeMetricFamily(
            "process_start_time_seconds", "Start time of the process since unix epoch in seconds.", value=self._started
        )
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        yield GaugeMetricFamily("process_max_fds", "Maximum number of open file descriptors.", value=limit)
        with suppress(OSError):
            count = sum(1 for _ in Path("/dev/fd").iterdir()) - 1  # without the one that lists
            yield GaugeMetricFamily("process_open_fds", "Number of open file descriptors.", value=count)
        if (memory := _memory()) is not None:
            virtual, resident = memory
            yield GaugeMetricFamily("process_virtual_memory_bytes", "Virtual memory size in bytes.", value=virtual)
            yield GaugeMetricFamily("process_resident_memory_bytes", "Resident memory size in bytes.", value=resident)


def _memory() -> tuple[int, int] | None:
    """Virtual and resident bytes of this process, where the system tells."""
    try:
        if sys.platform == "darwin":
            task = ctypes.create_string_buffer(_TASK_SIZE)
            read = ctypes.CDLL("/usr/lib/libproc.dylib").proc_pidinfo(
                os.getpid(), _TASK_FLAVOR, ctypes.c_uint64(0), task, _TASK_SIZE
            )
            virtual, resident = struct.unpack_from("=QQ", task.raw)
            return (virtual, resident) if read == _TASK_SIZE else None
        virtual, resident = map(int, Path("/proc/self/statm").read_bytes().split()[:2])
        page = os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None
    return virtual * page, resident * page


def _seconds(when: str | None) -> float | None:
    """An ISO-8601 time since the epoch; None for what is none, or says no zone."""
    if when is None:
        return None
    try:
        parsed = datetime.fromisoformat(when)
        return parsed.timestamp() if parsed.tzinfo is not None else None
    except (ValueError, OverflowError, OSError):
        return None
