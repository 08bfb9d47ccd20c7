"""What flows through verifierd. Read this page and `stages.py` first.

    Source -> Record -> Adapter -> Step -> Predictor -> Prediction -> Scorer -> Score -> Policy -> Verdict -> Sinks

Every value is frozen and says where it came from. This page imports nothing of the package.
"""

import hashlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Literal, overload

import msgspec

__all__ = (
    "FAILURES",
    "Abstain",
    "Action",
    "Alarm",
    "Check",
    "Constraint",
    "History",
    "Likelihood",
    "ObservationKind",
    "Origin",
    "Position",
    "Prediction",
    "Record",
    "Score",
    "Seconds",
    "Signal",
    "Step",
    "Tokens",
    "Verdict",
    "VerdictKind",
    "digest",
)


class ObservationKind(StrEnum):
    """What an observation is. Only `ENV` is predicted and scored; the others are recorded and counted."""

    ENV = "env"
    HARNESS_ERROR = "harness_error"
    POLICY_DENIED = "policy_denied"
    STILL_RUNNING = "still_running"
    POLL = "poll"
    STUB = "stub"
    INTERRUPTED = "interrupted"
    MISSING = "missing"


class VerdictKind(StrEnum):
    """The three answers. Abstaining is a first-class one and never looks like a pass."""

    ON_PATH = "on_path"
    OFF_PATH = "off_path"
    ABSTAIN = "abstain"


class Abstain(StrEnum):
    """Why a step was not decided."""

    UNPREDICTABLE = "unpredictable"
    UNCALIBRATED = "uncalibrated"
    ROLE_BREAK = "role_break"
    TRUNCATED = "truncated"
    RACY = "racy"
    NOT_ENV = "not_env"
    TOO_LONG = "too_long"
    TIMEOUT = "timeout"
    PREDICTOR_ERROR = "predictor_error"


FAILURES = (Abstain.ROLE_BREAK, Abstain.TRUNCATED, Abstain.TIMEOUT, Abstain.PREDICTOR_ERROR)
"""The reasons that are the simulator's own failures: counted as such, and never as a divergence."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where bytes came from.

    Attributes:
        path: The file as the source named it, or `-` for standard input.
        offset: Byte offset of the first byte of the line (in the decompressed stream for `.gz`).
    """

    path: str
    offset: int


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """How far a source has been read for good, and what lets us see whether it is still the same source.

    Attributes:
        offset: Byte offset just past the last committed record.
        dev, ino: Device and inode.
        head_size, head_hash: Length (at most 1024 bytes) and digest of the first bytes, growing with the file.
        anchor_hash: Digest of the (at most 256) bytes just before `offset`; sees a rewrite in place.
        size, mtime_ns: Size in bytes and modification time when last looked at.
        generation: How often the file was found to be another one, or rewritten, under the same path.
    """

    offset: int = 0
    dev: int = 0
    ino: int = 0
    head_size: int = 0
    head_hash: str = ""
    anchor_hash: str = ""
    size: int = 0
    mtime_ns: int = 0
    generation: int = 0


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One complete line of a source, not yet understood.

    Attributes:
        origin: Where the line starts.
        end: Byte offset just past the line's newline: the only place a position may be committed.
        data: The line without its newline; empty when `problem` is set.
        problem: Why `data` is absent (`too_long`), else None. Such a line is counted and quarantined, never parsed.
    """

    origin: Origin
    end: int
    data: bytes
    problem: str | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the agent asked of its environment.

    Attributes:
        tool: The tool's name as the log has it (`bash`, `Bash`, `Read`, `exec_command`, `mcp__server__tool`).
        input: The tool's input as the log has it: a text or a JSON object.
        command: The shell command line, for tools that run one; else None.
    """

    tool: str
    input: str | dict[str, Any] = ""
    command: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The input as an object; empty if it is a text."""
        return self.input if isinstance(self.input, dict) else {}

    @property
    def text(self) -> str:
        """The action as one readable text: the command line, the raw input, or its JSON."""
        if self.command is not None:
            return self.command
        return self.input if isinstance(self.input, str) else msgspec.json.encode(self.input).decode()


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action and the observation that the environment returned.

    Attributes:
        format: Name of the adapter that read it (`native`, `claude_code`, `codex`).
        trajectory: Session, with `/agent` appended for a sub-agent. (format, trajectory) is the trajectory's key.
        index: 1-based position in the trajectory, in the order of the calls.
        action: What was asked.
        observation: What came back, whole as far as the log holds it; without the harness's own header.
        observation_kind: What the observation is; only `env` is judged.
        domain: `terminal`, `swe`, `mcp`, `search`, `web`, `os` or `android`.
        exit_code: The exit status if the log is certain of it.
        is_error: The harness's own error flag, if it has one.
        cwd: The directory the action ran in, if the log says so.
        turn: Changes whenever a person spoke: between turns anybody may have changed anything.
        batch: Shared by actions that were issued in parallel; None for an action issued alone.
        siblings: The other actions of the batch; None while they are not all known.
        call_id: The log's id of the call, unique within the trajectory.
        unique: True if `call_id` is unique among all logs, so that the same call in another file is a copy.
        called_at, observed_at: ISO-8601 times of the log.
        elided: How the log cut the observation (a marker's name), None if it is whole.
        label, label_kind: The truth, where the log carries it.
        origin: The line that completed the step.
    """

    format: str
    trajectory: str
    index: int
    action: Action
    observation: str
    origin: Origin
    observation_kind: ObservationKind = ObservationKind.ENV
    domain: str = "terminal"
    exit_code: int | None = None
    is_error: bool | None = None
    cwd: str | None = None
    turn: str | None = None
    batch: str | None = None
    siblings: tuple[Action, ...] | None = ()
    call_id: str | None = None
    unique: bool = False
    called_at: str | None = None
    observed_at: str | None = None
    elided: str | None = None
    label: VerdictKind | None = None
    label_kind: str | None = None

    @property
    def tool(self) -> str:
        """The action's tool."""
        return self.action.tool

    @property
    def key(self) -> tuple[str, str]:
        """The trajectory's key."""
        return self.format, self.trajectory

    @property
    def succeeded(self) -> bool | None:
        """Did the action go well? By exit status, for tools that run no command by the log's flag; None if unknown."""
        if self.exit_code is not None:
            return self.exit_code == 0
        if self.action.command is None:
            return not self.is_error
        return False if self.is_error else None

    @property
    def step_id(self) -> str:
        """Deterministic identity: the same step read twice, or by another process, has the same id."""
        return digest(self.format, self.trajectory, str(self.index), self.tool, self.action.text, self.observation)

    @property
    def copy_id(self) -> str | None:
        """Identity across trajectories: equal for a call that a resumed session copied; None if unknowable."""
        if not self.unique or self.call_id is None:
            return None
        return digest(self.format, self.call_id, self.tool, self.action.text, self.observation)


class History(Sequence[Step]):
    """The steps of one run of a trajectory so far, all of them real, oldest first.

    Memory is bounded: steps beyond `limit` characters are dropped from the front, and `dropped` counts them, so
    `total` never shrinks. A predictor that keeps state per trajectory keys it by `(key, run)` and catches up from the
    `total` it last saw.

    Args:
        key: (format, trajectory).
        run: Counts how often a trajectory started over under the same name.
        limit: Characters of actions and observations kept.
    """

    def __init__(self, key: tuple[str, str], *, run: int = 0, limit: int = 8_000_000) -> None:
        self.key = key
        self.run = run
        self.dropped = 0
        self._limit = limit
        self._size = 0
        self._steps: list[Step] = []

    @property
    def total(self) -> int:
        """How many steps the run has had, dropped ones included."""
        return self.dropped + len(self._steps)

    def append(self, step: Step) -> None:
        """Add what really happened."""
        self._steps.append(step)
        self._size += _weight(step)
        if self._size > self._limit:
            drop = 0
            while self._size > self._limit * 3 // 4 and drop < len(self._steps) - 1:
                self._size -= _weight(self._steps[drop])
                drop += 1
            del self._steps[:drop]
            self.dropped += drop

    def copy(self) -> "History":
        """As it is now; what is appended to one of the two is not in the other."""
        other = History(self.key, run=self.run, limit=self._limit)
        other.dropped, other._size, other._steps = self.dropped, self._size, self._steps.copy()
        return other

    def since(self, total: int) -> Sequence[Step]:
        """The steps after the first `total` ones, as far as they are still held."""
        return self._steps[max(0, total - self.dropped) :]

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        return self._steps[index]

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Model tokens of one prediction; all zero where no model was asked.

    Attributes:
        prompt: Tokens of the prompt.
        cached: Those of them that had been computed before.
        scored: Tokens of the real observation that the model was asked about.
        generated: Tokens decoded.
        computed: Tokens that passed through the model, decoded ones aside.
        new: Tokens of the trajectory that came up for the first time: what `computed` would be at best.
    """

    prompt: int = 0
    cached: int = 0
    scored: int = 0
    generated: int = 0
    computed: int = 0
    new: int = 0


class Likelihood(msgspec.Struct, frozen=True, kw_only=True):
    """How likely a model found the real observation, token by token; all in nats.

    The last entry of each list is what follows the observation: the end of the answer.

    Attributes:
        starts: Where each token begins, in characters of the observation; empty if that is not known.
        surprisal: -log p of the real token.
        entropy: Mean of -log p over the model's distribution there.
        varentropy: Variance of -log p over it.
        top: -log p of the token that the model found likeliest.
        agreed: How many leading tokens are the likeliest ones, what stands before the observation included in the
            condition: 0 if the model would have begun in another way.
        expected: The likeliest token at the first difference, as text, empty for the end of the answer; None if there
            is no difference, or none that shows in one token: other tokens may spell the same text.
    """

    starts: tuple[int, ...] = ()
    surprisal: tuple[float, ...] = ()
    entropy: tuple[float, ...] = ()
    varentropy: tuple[float, ...] = ()
    top: tuple[float, ...] = ()
    agreed: int = 0
    expected: str | None = None


class Check(StrEnum):
    """What a constraint says of the text in its scope; `verifierd/contracts/checks.py` carries each out.

    `policies/contracts/README.md` describes them for those who write contracts.
    """

    EQUALS = "equals"  # the scope is `text`, or one of `texts`
    EMPTY = "empty"  # the scope is blank
    CONTAINS = "contains"  # `text` stands in it, on lines of its own if `whole`
    STARTS = "starts"  # it begins with `text`, or one of `texts`
    ENDS = "ends"  # it ends with `text`, or one of `texts`
    ABSENT = "absent"  # no line matches `text`
    EVERY_LINE = "every-line"  # every line that is not blank matches `text`
    SOME_LINE = "some-line"  # at least one line matches `text`
    FIRST_LINE = "first-line"  # the first line that is not blank matches `text`
    LINES = "lines"  # the number of lines is in `low` to `high`
    NUMBER = "number"  # the scope is one number in `low` to `high`
    NUMBERED = "numbered"  # line numbers, group `line` of `text`, grow by one from `low`
    KNOWN_LINES = "known-lines"  # the lines whose number is in `known` read so
    SORTED = "sorted"  # lines ascend; descend if `text` is "reverse"
    UNIQUE = "unique"  # no line twice; not twice in a row if `text` is "adjacent"
    NAMES = "names"  # among the lines, cut down to group `name` of `text`, are all `texts`
    NOT_NAMES = "not-names"  # among them is none of `texts`
    SCHEMA = "schema"  # the scope is JSON of the shape `text`, itself JSON
    AGREES = "agrees"  # what a summary says agrees with the exit status and with itself; `text` names the tool
    STATUS = "status"  # the exit status is in `low` to `high`


class Constraint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must, may or cannot stand in an observation: a prediction of a part.

    Attributes:
        rule: The contract that says so.
        check: What is checked.
        detail: One sentence for people: what the contract says here.
        text: The literal text, or the pattern (RE2 syntax), that the check is about.
        texts: Alternatives, or names.
        known: Line number -> text without its end.
        whole: A literal text must fill whole lines. For `agrees`: nothing else speaks in the scope, so what is listed
            is all there is.
        low, high: Bounds, inclusive; None for none. For `agrees`: `high` is 0 where a step that went well tells that
            the program did, `low` is 1 where one that failed tells that it did if it ran at all. For `some-line`:
            `high` is how many of the last lines the line is among. Both are set where a command line is composed.
        given: Applies only if the step succeeded, or only if it failed.
        after, before: Scope: only what stands between these two marker lines; None for the text's edge. A marker that
            does not stand there exactly once puts the constraint out of force.
        tolerates: Lines matching this pattern are passed over, as diagnostics of other programs.
        deciding: A violation contradicts; else it only lowers the score.
        power: Share of observations of the same tool from other sessions that violate it, measured.
    """

    rule: str
    check: Check
    detail: str = ""
    text: str = ""
    texts: tuple[str, ...] = ()
    known: dict[int, str] = {}
    whole: bool = False
    low: int | None = None
    high: int | None = None
    given: Literal["any", "success", "failure"] = "any"
    after: str | None = None
    before: str | None = None
    tolerates: str = ""
    deciding: bool = True
    power: float = 0.0


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What a predictor expects the observation to be: whole (a text), partial (constraints), or absent with a reason.

    Attributes:
        predictor: Who predicts.
        text: The whole observation, or None.
        exit_code: The exit status, or None if not known.
        certain: True if text and status follow from the history by rule, so that a difference is a contradiction;
            False for a model's guess, whose difference is only a likelihood matter.
        truncated: The text was cut by the token cap.
        constraints: What must, may or cannot stand in it, where the whole is not known.
        likelihood: How likely a model found what really came. It is no part of what was predicted, but how that was
            measured.
        failed: How the simulator itself failed (`role_break`, `truncated`, `timeout`, `predictor_error`), though
            there may be a prediction.
        abstain: Why there is no prediction; None if there is one, be it partial.
        detail: The reason in words, for people.
        model: The model's name, where there is one.
        tokens: What it cost.
    """

    predictor: str
    text: str | None = None
    exit_code: int | None = None
    certain: bool = False
    truncated: bool = False
    constraints: tuple[Constraint, ...] = ()
    likelihood: Likelihood | None = None
    failed: Abstain | None = None
    abstain: Abstain | None = None
    detail: str = ""
    model: str | None = None
    tokens: Tokens = Tokens()


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """One named piece of evidence.

    Attributes:
        name: `contradiction`, `error_flip`, `stale`, `role_break`, ...
        value: Its strength; 1.0 for a plain yes.
        span: Start and end, in characters of the observation, of the text that decided; None if it is not in the text.
        detail: One sentence for people.
    """

    name: str
    value: float
    span: tuple[int, int] | None = None
    detail: str = ""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How far the real observation is from the prediction, by one measure.

    Attributes:
        name: The measure.
        value: 0.0 is "as predicted"; larger is further; None if it could not be taken.
        reason: Why the value is absent.
        coverage: Share of the trimmed observation's characters that this measure pinned and checked, 0 to 1.
        violated: True if something certain was contradicted.
        status_checked: True if the exit status was certain and was compared.
        abstain: Set if this measure found that the step cannot be judged.
        signals: The evidence.
    """

    name: str
    value: float | None = None
    reason: str = ""
    coverage: float = 0.0
    violated: bool = False
    status_checked: bool = False
    abstain: Abstain | None = None
    signals: tuple[Signal, ...] = ()


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """Wall-clock seconds spent on one step."""

    predict: float = 0.0
    total: float = 0.0


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """The trajectory-level decision at this step.

    Attributes:
        statistic: The evidence gathered so far.
        threshold: An alarm is evidence above it.
        raised: The trajectory has alarmed, at this step or before.
        new: At this step: each trajectory alarms once.
        first_bad: Index of the step where things went wrong, as far as the evidence tells; 0 if they did not.
    """

    statistic: float
    threshold: float
    raised: bool
    new: bool = False
    first_bad: int = 0


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the verdict JSONL. `seq` is given by the store when the verdict is committed.

    `detail` says in words why a step was not decided. `surprise` says where in what is observed a model was surprised:
    start, end and nats of each token that stands out; it is absent where no model said, or nothing is quoted.

    `verdict_id` is the digest of step, policy, predictors and model, so a duplicate is visible.
    """

    schema: int = 1
    seq: int = 0
    verdict_id: str
    step_id: str
    trajectory: str
    step: int
    tool: str
    domain: str
    verdict: VerdictKind
    reason: str
    detail: str = ""
    coverage: float = 0.0
    score: float | None = None
    p_value: float | None = None
    threshold: float | None = None
    status_checked: bool = False
    signals: tuple[Signal, ...] = ()
    alarm: Alarm | None = None
    action: str = ""
    predicted: str | None = None
    observed: str = ""
    surprise: tuple[tuple[int, int, float], ...] | msgspec.UnsetType = msgspec.UNSET
    predictor: str
    model: str | None = None
    policy: str
    observation_kind: ObservationKind = ObservationKind.ENV
    tokens: Tokens = Tokens()
    seconds: Seconds = Seconds()
    origin: Origin
    time: str


def digest(*parts: str) -> str:
    """A stable 128-bit hex id of the parts; lone surrogates are allowed in them."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


def _weight(step: Step) -> int:
    return len(step.observation) + len(step.action.text) + 200
