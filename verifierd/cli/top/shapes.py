"""What of the daemon's documents is shown, in the shapes of `verifierd.http`; what has another shape is refused."""

from typing import NotRequired, TypedDict

__all__ = (
    "Acknowledged",
    "Alarm",
    "Document",
    "Estimate",
    "Labelled",
    "Row",
    "Said",
    "Steps",
    "Summary",
    "Trajectories",
    "Trajectory",
)


class Estimate(TypedDict):
    """A share with its interval; None where there is nothing to share."""

    value: float | None
    low: float | None
    high: float | None
    n: int


class _Kinds(TypedDict):
    on_path: int
    off_path: int
    abstain: int


class _Rates(TypedDict):
    fpr: Estimate
    fnr: Estimate
    abstention: Estimate


class _Budget(TypedDict):
    alpha: float | None
    realised: Estimate
    ratio: float | None


class Summary(TypedDict):
    """All figures at once."""

    verdicts: _Kinds
    rates: _Rates
    budget: _Budget
    trajectories: int
    alarms_open: int
    quarantined: int
    seq: int
    version: str
    policy: str
    predictor: str
    model: str | None


class Acknowledged(TypedDict):
    """Who knows of an alarm."""

    time: str
    by: str
    note: str


class Alarm(TypedDict):
    """The alarm of a trajectory."""

    id: str
    step: int
    first_bad: int
    statistic: float
    threshold: float
    time: str
    acknowledged: Acknowledged | None


class Trajectory(TypedDict):
    """A run of a trajectory."""

    id: str
    format: str
    trajectory: str
    steps: int
    verdicts: _Kinds
    coverage: float
    last: str
    alarm: Alarm | None
    labels: int


class Row(TypedDict):
    """A step in a list."""

    seq: int
    verdict_id: str
    step_id: str
    step: int
    tool: str
    verdict: str
    reason: str
    action: str
    signals: list[str]
    alarm: bool
    label: str | None
    trajectory_id: NotRequired[str]


class Trajectories(TypedDict):
    """A page of trajectories."""

    trajectories: list[Trajectory]


class Steps(TypedDict):
    """A page of a trajectory's steps."""

    trajectory: Trajectory
    steps: list[Row]
    next: int | None


class Said(TypedDict):
    """A label of a step."""

    label: str
    source: str
    by: str
    note: str
    time: str
    undone: str | None


class Labelled(TypedDict):
    """What came of a label."""

    step_id: str | None
    label: Said | None


class _Neighbours(TypedDict):
    before: str | None
    after: str | None


class Document(TypedDict):
    """What stands beside a whole verdict."""

    trajectory_id: str | None
    labels: list[Said]
    neighbours: _Neighbours
