"""The metric series: names, labels, and what moves them."""

import math
from collections.abc import Iterator

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from verifierd.labels import Label, Outcome, Truth
from verifierd.metrics import FAULTS, FORMATS, STAGES, Metrics
from verifierd.redact import KINDS
from verifierd.replay import inject
from verifierd.types import (
    Abstain,
    Action,
    Alarm,
    ObservationKind,
    Origin,
    Record,
    Seconds,
    Signal,
    Step,
    Tokens,
    Verdict,
    VerdictKind,
)

ORIGIN = Origin(path="a.jsonl", offset=0)


def verdict(kind: VerdictKind, **changed: object) -> Verdict:
    fields: dict[str, object] = {
        "verdict_id": "v",
        "step_id": "s",
        "trajectory": "t",
        "step": 1,
        "tool": "bash",
        "domain": "terminal",
        "verdict": kind,
        "reason": "exact",
        "predictor": "shell",
        "policy": "default",
        "origin": ORIGIN,
        "time": "2026-01-01T00:00:00Z",
    }
    return Verdict(**(fields | changed))  # type: ignore[arg-type]


def samples(metrics: Metrics) -> dict[str, float]:
    """What a scrape says, as `name{value,value}` in the order of the labels' names, without the prefix."""
    found = {}
    for sample in _scrape(metrics):
        values = ",".join(value for _, value in sorted(sample.labels.items()))
        found[sample.name.removeprefix("verifierd_") + (f"{{{values}}}" if values else "")] = sample.value
    return found


def _scrape(metrics: Metrics) -> Iterator[Sample]:
    for family in text_string_to_metric_families(metrics.render()[1].decode()):
        yield from family.samples


def test_all_known_labels_are_there_from_the_start() -> None:
    """A rate over a series that nobody has moved yet is 0, not nothing."""
    found = samples(Metrics())

    for kind in VerdictKind:
        assert found[f"verdicts_total{{{kind}}}"] == 0
    for reason in Abstain:
        assert found[f"abstentions_total{{{reason}}}"] == 0
    for secret in KINDS:
        assert found[f"redactions_total{{{secret}}}"] == 0
    assert found["steps_total{claude_code,env}"] == 0
    assert found["labelled_verdicts{on_path,person,off_path}"] == 0


def test_two_in_a_process() -> None:
    """Each set of metrics has a registry of its own, or the one it is given."""
    registry = CollectorRegistry()
    one, other = Metrics(registry), Metrics()
    one.alarms_total.inc()

    assert registry.get_sample_value("verifierd_alarms_total") == 1
    assert samples(other)["alarms_total"] == 0


def test_verdict_moves_what_belongs_to_it() -> None:
    """One call counts a verdict in all series that concern it."""
    metrics = Metrics()
    metrics.verdict(
        verdict(
            VerdictKind.OFF_PATH,
            coverage=1.0,
            alarm=Alarm(statistic=1, threshold=0, raised=True, new=True),
            seconds=Seconds(predict=0.003),
            tokens=Tokens(prompt=7),
        )
    )
    metrics.verdict(verdict(VerdictKind.ABSTAIN, reason="timeout"))
    metrics.verdict(verdict(VerdictKind.ABSTAIN, reason="not_env", observation_kind=ObservationKind.POLL))
    found = samples(metrics)

    assert found["verdicts_total{off_path}"] == 1
    assert found["verdicts_total{abstain}"] == 2
    assert found["abstentions_total{timeout}"] == 1
    assert found["simulator_errors_total{timeout}"] == 1
    assert found["alarms_total"] == 1
    assert found["coverage_ratio_count"] == 2
    assert found["coverage_ratio_sum"] == 1
    assert found["prediction_seconds_bucket{0.005,shell}"] == 2
    assert found["prediction_seconds_bucket{0.002,shell}"] == 1
    assert found["prediction_tokens_total{prompt}"] == 7


def test_a_models_step_moves_what_belongs_to_it() -> None:
    """Tokens count by kind, time for who was asked last, and a failure also where others decided the step."""
    metrics = Metrics()
    metrics.verdict(
        verdict(
            VerdictKind.ON_PATH,
            coverage=0.5,
            predictor="contracts,mlx",
            model="m",
            signals=(Signal(name="role_break", value=1.0),),
            seconds=Seconds(predict=0.3),
            tokens=Tokens(prompt=90, cached=80, scored=7, generated=3, computed=16, new=15),
        )
    )
    found = samples(metrics)

    for kind, count in (("prompt", 90), ("cached", 80), ("scored", 7), ("generated", 3), ("computed", 16), ("new", 15)):
        assert found[f"prediction_tokens_total{{{kind}}}"] == count
    assert found["simulator_errors_total{role_break}"] == 1
    assert found["abstentions_total{role_break}"] == 0
    assert found["prediction_seconds_count{mlx}"] == 1
    assert found["prediction_seconds_count{contracts}"] == 0


def test_stored_verdicts_follow_the_database() -> None:
    """The gauge is set from the store and moves with what is committed."""
    metrics = Metrics()
    metrics.preset({VerdictKind.ON_PATH: 40})
    metrics.verdict(verdict(VerdictKind.ON_PATH))

    assert samples(metrics)["stored_verdicts{on_path}"] == 41


def test_truth_is_recomputed_from_the_database() -> None:
    """What was counted before is replaced, not added to."""
    metrics = Metrics()
    metrics.truth(Truth({(VerdictKind.OFF_PATH, "on_path", "data"): 1}, 7))
    metrics.truth(
        Truth({(VerdictKind.ABSTAIN, "off_path", "data"): 3, (VerdictKind.OFF_PATH, "off_path", "person"): 2}, 4)
    )
    found = samples(metrics)

    assert (found["false_positives"], found["false_negatives"]) == (0, 3)
    assert found["labelled_verdicts{on_path,data,off_path}"] == 0
    assert found["labelled_verdicts{off_path,data,abstain}"] == 3
    assert found["labelled_verdicts{off_path,person,off_path}"] == 2
    assert found["labels_pending"] == 4


def test_what_is_said_is_counted_with_its_delay() -> None:
    """Each saying counts by what it did; late ones by how late, an undo and one without a verdict not."""
    metrics = Metrics()
    said = Label(step_id="s", label="off_path", source="person", time=3650.0)
    late = Outcome(
        action="added", said=said, before=None, now=said, verdict=verdict(VerdictKind.ON_PATH), verdict_time=50.0
    )
    early = Label(step_id=None, label="off_path", source="person", time=3650.0)
    metrics.labelled(late)
    metrics.labelled(msgspec.structs.replace(late, action="undone", now=None))
    metrics.labelled(Outcome(action="changed", said=early, before=early, now=early, verdict=None))
    metrics.labelled(None)
    found = samples(metrics)

    assert [found[f"label_events_total{{{action}}}"] for action in ("added", "changed", "undone", "refused")] == [1] * 4
    assert (found["label_delay_seconds_count"], found["label_delay_seconds_sum"]) == (1, 3600)
    assert found["label_delay_seconds_bucket{3600.0}"] == 1
    assert found["label_delay_seconds_bucket{600.0}"] == 0


def test_reading_is_counted_by_result() -> None:
    """Lines count with their newline; what could not be read counts by its reason."""
    metrics = Metrics()
    whole = Record(origin=ORIGIN, end=10, data=b"123456789")
    metrics.read("codex", [whole, whole, Record(origin=ORIGIN, end=500, data=b"", problem="too_long")])
    found = samples(metrics)

    assert found["source_records_total{codex,ok}"] == 2
    assert found["source_records_total{codex,too_long}"] == 1
    assert found["source_read_bytes_total{codex}"] == 520


def test_unknown_records_are_counted_by_format() -> None:
    """Only the formats are labels, never what the records are called."""
    metrics = Metrics()
    metrics.unknown("codex", 2)
    metrics.unknown("native", 0)
    found = samples(metrics)

    assert [found[f"source_unknown_records_total{{{form}}}"] for form in FORMATS] == [0, 0, 2]


def test_the_false_alarm_budget() -> None:
    """Twice as many false alarms as the policy allows are 2; without a calibration, or a trajectory, there is none."""
    metrics = Metrics()
    assert math.isnan(samples(metrics)["false_alarm_budget_ratio"])

    metrics.alarms(4, 40, 0.05)
    found = samples(metrics)

    assert (found["false_alarms"], found["stored_trajectories"]) == (4, 40)
    assert found["false_alarm_budget_ratio"] == pytest.approx(2)
    for nothing in ((0, 0, 0.05), (4, 40, None)):
        metrics.alarms(*nothing)
        assert math.isnan(samples(metrics)["false_alarm_budget_ratio"])


def logged(when: str | None) -> Step:
    """A step whose log says when it was."""
    return Step(
        format="native",
        trajectory="t",
        index=1,
        action=Action(tool="bash"),
        observation="",
        origin=ORIGIN,
        observed_at=when,
    )


def test_step_delay_is_from_the_logs_own_time() -> None:
    """A step whose log tells no time, or none with a zone, has a time to its verdict, but no delay."""
    metrics = Metrics()
    for when in ("2020-01-01T00:00:05Z", "2020-01-01T00:00:05", "yesterday", None, "9" * 5000):
        metrics.step(logged(when))
        metrics.judged(logged(when), 0.25, since=1_577_836_800, now=1_577_836_809)
    found = samples(metrics)

    assert found["steps_total{native,env}"] == 5
    assert found["time_to_verdict_seconds_count"] == 5
    assert found["time_to_verdict_seconds_sum"] == 1.25
    assert found["end_to_end_delay_seconds_count"] == 1
    assert found["end_to_end_delay_seconds_sum"] == 4


def test_what_was_logged_before_the_start_has_no_delay() -> None:
    """An old log that is read now says nothing of how late verdicts come; a clock ahead of ours says no delay."""
    metrics = Metrics()
    for when in ("2019-12-31T23:59:59Z", "2020-01-01T00:00:00Z", "2020-01-01T00:01:00Z"):
        metrics.judged(logged(when), 0.0, since=1_577_836_800, now=1_577_836_809)
    found = samples(metrics)

    assert found["end_to_end_delay_seconds_count"] == 2
    assert found["end_to_end_delay_seconds_sum"] == 9


def test_stages_are_timed_together() -> None:
    """Each chunk moves every stage, so that their sums can be compared."""
    metrics = Metrics()
    metrics.stages({"parse": 0.5, "predict": 1.5})
    metrics.stages({"parse": 0.25})
    found = samples(metrics)

    assert {stage: found[f"stage_seconds_count{{{stage}}}"] for stage in STAGES} == dict.fromkeys(STAGES, 2)
    assert (found["stage_seconds_sum{parse}"], found["stage_seconds_sum{predict}"]) == (0.75, 1.5)


def test_each_kind_of_fault_has_its_series() -> None:
    """Kinds that could be injected and kinds that are counted are the same."""
    assert tuple(inject.FAULTS) == FAULTS
    found = samples(Metrics())

    assert all(found[f"shadow_verdicts_total{{{kind},{word}}}"] == 0 for kind in FAULTS for word in VerdictKind)


def test_commits() -> None:
    """A commit leaves its duration and its time."""
    metrics = Metrics()
    metrics.committed(0.002, 1_700_000_000)
    found = samples(metrics)

    assert found["checkpoint_commits_total{ok}"] == 1
    assert found["checkpoint_commit_duration_seconds_bucket{0.0025}"] == 1
    assert found["checkpoint_last_success_timestamp_seconds"] == 1_700_000_000


@pytest.mark.parametrize(
    ("kind", "label", "positives", "negatives"),
    [
        ("off_path", "on_path", 1, 0),
        ("off_path", "off_path", 0, 0),
        ("on_path", "off_path", 0, 1),
        ("abstain", "off_path", 0, 1),
        ("abstain", "on_path", 0, 0),
        ("off_path", "unsure", 0, 0),
        ("on_path", "unsure", 0, 0),
    ],
)
def test_labels(kind: str, label: str, positives: int, negatives: int) -> None:
    """A label makes a verdict a false positive, a false negative or neither, and can be taken back."""
    metrics = Metrics()
    metrics.truth(Truth({(VerdictKind(kind), label, "person"): 1}))
    found = samples(metrics)

    assert found[f"labelled_verdicts{{{label},person,{kind}}}"] == 1
    assert (found["false_positives"], found["false_negatives"]) == (positives, negatives)

    metrics.truth(Truth({}))
    found = samples(metrics)

    assert found[f"labelled_verdicts{{{label},person,{kind}}}"] == 0
    assert (found["false_positives"], found["false_negatives"]) == (0, 0)


def test_hostile_values_make_one_series() -> None:
    """Names that an agent chose, even such as cannot be encoded, count as `other` and do not break the scrape."""
    metrics = Metrics()
    before = len(samples(metrics))
    for name in ("\ud800", 'x"}\n', "", "a" * 10_000, *map(str, range(500))):
        metrics.read(name, [Record(origin=ORIGIN, end=1, data=b"", problem=name)])
        metrics.verdict(verdict(VerdictKind.ABSTAIN, reason=name, predictor=name))
        metrics.source_events_total.labels(name).inc()
        metrics.redactions_total.labels(name).inc()
        metrics.truth(Truth({(VerdictKind.ON_PATH, name, name): 1}))
    found = samples(metrics)

    assert found["source_events_total{other}"] == 504
    assert len(found) < before + 40


def test_cardinality_is_bounded() -> None:
    """All series together stay far below what a scrape should hold, and no label has many values."""
    values: dict[tuple[str, str], set[str]] = {}
    count = 0
    for family in text_string_to_metric_families(Metrics().render()[1].decode()):
        for sample in family.samples:
            count += 1
            for name, value in sample.labels.items():
                if name != "le":
                    values.setdefault((family.name, name), set()).add(value)

    assert count < 800
    assert max(map(len, values.values())) <= 25


def test_no_created_series() -> None:
    """Times of creation, which would double the scrape, are left out."""
    assert b"_created" not in Metrics().render()[1]


def test_process_series() -> None:
    """The standard names are there without the library's collector, which knows Linux only."""
    found = samples(Metrics())

    assert found["process_cpu_seconds_total"] > 0
    assert found["process_open_fds"] > 2
    assert found["process_max_fds"] >= found["process_open_fds"]
    assert found["process_start_time_seconds"] > 1_600_000_000
    assert found["process_resident_memory_bytes"] > 1_000_000


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text; version=\u00e9.x", "text/plain; version=0.0.4"),
        ("application/openmetrics-text; version=;;;,,text/plain;version=a.b", ""),
    ],
)
def test_formats(accept: str, content_type: str) -> None:
    """The scraper's Accept header chooses the format; nonsense in it chooses the plain one."""
    found, body = Metrics().render(accept)

    assert found.startswith(content_type)
    assert b"verifierd_build_info" in body
