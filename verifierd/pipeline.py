"""The one-way flow: records in, committed verdicts out. The only place that knows about concurrency of steps.

It sees protocols, never implementations, so the daemon and a replay run the very same code. What it promises:

- a chunk of records, their verdicts, the trajectories' state and the new position are one transaction;
- steps of one trajectory are judged in the order of the log, each from a history that is all reality;
- a step that was judged before, or that a resumed session copied, gets no second verdict.
"""

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

import anyio
import msgspec
import structlog

from verifierd.errors import StateError
from verifierd.metrics import Metrics
from verifierd.policy import Memory, Policy, decide
from verifierd.sanitize import render
from verifierd.stages import Adapter, Predictor, Scorer, Sink, Source
from verifierd.store import Commit, FileState, Quarantined, Store, StoredStep, TrajectoryState
from verifierd.types import (
    Abstain,
    History,
    ObservationKind,
    Prediction,
    Record,
    Seconds,
    Step,
    Verdict,
)

__all__ = ("Pipeline", "Reading")

_DETECT_LINES = 64
_DETECT_BYTES = 1024**2
_CHUNK_BYTES = 256 * 1024
_LIVE = 256
_log = structlog.get_logger(component="pipeline")


class Reading:
    """A source being read: what the pipeline knows of it between two chunks.

    Attributes:
        source: Where records come from.
        adapter: Who understands them; None until the format is known.
        format: The format asked for, or `auto`.
        unreadable: True once `auto` gave up.
        end: Byte offset just past the last committed record.
        judge_from: Steps completed before this byte are history only.
    """

    def __init__(
        self,
        source: Source,
        *,
        format: str = "auto",
        adapter: Adapter | None = None,
        end: int = 0,
        judge_from: int = 0,
    ) -> None:
        self.source = source
        self.format = format
        self.adapter = adapter
        self.generation = source.generation
        self.unreadable = False
        self.end = end
        self.judge_from = judge_from
        self.lines = 1  # adaptive: how many records make a chunk
        self.waiting: list[Record] = []  # read, but of a format not yet known
        self.lock = anyio.Lock()  # a file can be reached twice, and becomes idle while it is read


class _Live:
    """A trajectory in memory."""

    def __init__(self, history: History, memory: Memory) -> None:
        self.history = history
        self.memory = memory
        self.lock = anyio.Lock()


class Pipeline:
    """Runs readings through the stages.

    Args:
        store: Where everything is committed.
        predictor: Who predicts.
        scorers: Who measure.
        policy: What decides.
        sinks: Who pass verdicts on.
        metrics: What is counted.
        open_adapter: Makes the adapter of a format for a path.
        detect: The format of the first lines of a path, or None while it is open.
        sanitise: What a verdict goes through before it leaves this place in any direction.
        clock: Seconds since the epoch.
        limit: Judge no more than this many steps; the rest is left out.
    """

    def __init__(
        self,
        *,
        store: Store,
        predictor: Predictor,
        scorers: Sequence[Scorer],
        policy: Policy,
        sinks: Sequence[Sink],
        metrics: Metrics,
        open_adapter: Callable[[str, str], Adapter],
        detect: Callable[[Sequence[bytes], str], str | None],
        sanitise: Callable[[Verdict], Verdict],
        clock: Callable[[], float] = time.time,
        limit: int | None = None,
    ) -> None:
        self._store = store
        self._predictor = predictor
        self._scorers = tuple(scorers)
        self._policy = policy
        self._sinks = tuple(sinks)
        self._metrics = metrics
        self._open_adapter = open_adapter
        self._detect = detect
        self._sanitise = sanitise
        self._clock = clock
        self._limit = limit
        self._live: OrderedDict[tuple[str, str], _Live] = OrderedDict()
        self._committing = anyio.Lock()

    @property
    def exhausted(self) -> bool:
        """True once the limit of steps is reached."""
        return self._limit == 0

    async def pump(self, reading: Reading) -> int:
        """Take the next chunk through all stages.

        Returns:
            How many records were read; 0 means that nothing is new.
        """
        async with reading.lock:
            return await self._pump(reading)

    async def _pump(self, reading: Reading) -> int:
        records = await reading.source.read(records=reading.lines, size=_CHUNK_BYTES)
        if reading.generation != reading.source.generation:
            # Another file, or a rewritten one: nothing the adapter holds is true of it.
            reading.generation = reading.source.generation
            reading.adapter = None
            reading.unreadable = False
            reading.waiting = []
            self._metrics.source_events_total.labels("restarted").inc()
        if records:
            await self._process(reading, records)
        return len(records)

    async def settle(self, reading: Reading) -> None:
        """The source is idle: take an unterminated line if it is whole, and judge what only waited for siblings."""
        async with reading.lock:
            tail = await reading.source.tail()
            records = []
            if tail is not None and _is_json(tail.data):
                reading.source.accept(tail)
                records.append(tail)
            await self._end(reading, records)
            if reading.adapter is not None:
                await self._judge_and_commit(reading, (), reading.adapter.settle())

    async def finish(self, reading: Reading) -> None:
        """The source is over for good: an unterminated half line is quarantined, what is open becomes a step."""
        async with reading.lock:
            tail = await reading.source.tail()
            records = []
            if tail is not None:
                reading.source.accept(tail)
                whole = tail.problem is not None or _is_json(tail.data)
                records.append(tail if whole else msgspec.structs.replace(tail, data=b"", problem="torn_tail"))
            await self._end(reading, records)
            if reading.adapter is not None:
                await self._judge_and_commit(reading, (), reading.adapter.finish())

    async def _end(self, reading: Reading, records: Sequence[Record]) -> None:
        """The last records there are for now; a format that is still open is settled with what there is."""
        if reading.adapter is None and not reading.unreadable:
            reading.waiting.extend(records)
            records = ()
            if not reading.waiting:
                return
            self._find_adapter(reading, last=True)
        if records or reading.waiting:
            await self._process(reading, records)

    async def _process(self, reading: Reading, records: Sequence[Record]) -> None:
        if reading.adapter is None and not reading.unreadable:
            reading.waiting.extend(records)
            if not self._find_adapter(reading):
                return
            records = ()
        if reading.waiting:
            records = [*reading.waiting, *records]
            reading.waiting = []
        started = time.perf_counter()
        steps: list[Step] = []
        if reading.adapter is not None:
            for record in records:
                steps.extend(reading.adapter.feed(record))
        await self._judge_and_commit(reading, records, steps)
        took = time.perf_counter() - started
        if took < 0.05:
            reading.lines = min(reading.lines * 2, 256)
        elif took > 0.5:
            reading.lines = max(reading.lines // 2, 1)

    def _find_adapter(self, reading: Reading, *, last: bool = False) -> bool:
        """True once it is settled how the waiting records are to be read, be it not at all."""
        path = reading.source.path
        found: str | None = reading.format
        if found == "auto":
            found = self._detect([record.data for record in reading.waiting], path)
        if found is not None:
            reading.adapter = self._open_adapter(found, path)
            return True
        size = sum(len(record.data) for record in reading.waiting)
        if last or len(reading.waiting) >= _DETECT_LINES or size >= _DETECT_BYTES:
            reading.unreadable = True
            self._metrics.source_events_total.labels("unknown_format").inc()
            if any(record.data.strip() for record in reading.waiting):
                _log.warning("format_unknown", path=path, hint="name it with --format, or leave the file out")
        return reading.unreadable

    async def _judge_and_commit(self, reading: Reading, records: Sequence[Record], steps: Iterable[Step]) -> None:
        steps = list(steps)
        if self._limit is not None:
            steps = steps[: self._limit]
            self._limit -= len(steps)
        if not steps and not records:
            return
        started = time.perf_counter()
        known = await self._store.known(steps) if steps else {}
        async with self._held(steps) as live:
            stored: list[StoredStep] = []
            verdicts: list[Verdict] = []
            begun: set[tuple[str, str]] = set()
            done: set[str] = set()
            for step in steps:
                held = live[step.key]
                if step.index == 1 and held.history.total and _begins_anew(step):
                    # The same name, a new run: nothing of the old one holds.
                    held.history = History(step.key, run=held.history.run + 1)
                    held.memory = Memory()
                step_id = step.step_id
                if step_id in done or known.get(step_id) == held.history.run:
                    self._metrics.source_events_total.labels("duplicate").inc()
                    continue
                done.add(step_id)
                if step_id not in known and step.origin.offset >= reading.judge_from:
                    verdicts.append(await self._judge(held, step))
                elif step_id in known:
                    self._metrics.source_events_total.labels("copied").inc()
                held.history.append(step)
                begun.add(step.key)
                stored.append(StoredStep(step=step, run=held.history.run, ordinal=held.history.total))
            end = records[-1].end if records else reading.end
            commit = Commit(
                file=FileState(
                    path=reading.source.path,
                    format=reading.adapter.format if reading.adapter else "",
                    position=reading.source.position(end),
                    state=reading.adapter.dump() if reading.adapter else b"",
                ),
                trajectories=tuple(
                    TrajectoryState(
                        format=key[0],
                        trajectory=key[1],
                        run=live[key].history.run,
                        total=live[key].history.total,
                        memory=msgspec.msgpack.encode(live[key].memory),
                    )
                    for key in begun
                ),
                steps=tuple(stored),
                verdicts=tuple(verdicts),
                render=render,
                quarantine=tuple(
                    Quarantined(
                        path=record.origin.path,
                        offset=record.origin.offset,
                        length=record.end - record.origin.offset,
                        reason=record.problem,
                    )
                    for record in records
                    if record.problem
                ),
            )
            await self._commit(commit)
        reading.end = end
        self._count(reading, records, steps, time.perf_counter() - started)

    async def _judge(self, live: _Live, step: Step) -> Verdict:
        started = time.perf_counter()
        scores = []
        if step.observation_kind is ObservationKind.ENV:
            try:
                prediction = await self._predictor.predict(live.history, step)
            except Exception as error:  # noqa: BLE001 - a stage's failure costs one step, never the stream
                _log.error("predictor_failed", predictor=self._predictor.name, error=repr(error))
                prediction = Prediction(
                    predictor=self._predictor.name, abstain=Abstain.PREDICTOR_ERROR, detail=repr(error)
                )
            predicted = time.perf_counter()
            scores = [scorer(live.history, step, prediction) for scorer in self._scorers]
        else:
            predicted = started
            prediction = Prediction(
                predictor=self._predictor.name, abstain=Abstain.NOT_ENV, detail=step.observation_kind.value
            )
        live.memory, verdict = decide(
            self._policy,
            live.memory,
            step,
            prediction,
            scores,
            predictor=self._predictor.name,
            model=self._predictor.model,
            time=datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            seconds=Seconds(predict=predicted - started, total=time.perf_counter() - started),
        )
        return self._sanitise(verdict)

    async def _commit(self, commit: Commit) -> None:
        """Commit and pass on, in the order of `seq`. A full disk stops reading until there is room again."""
        delay = 0.5
        async with self._committing:
            while True:
                started = time.perf_counter()
                try:
                    new = await self._store.commit(commit)
                except StateError as error:
                    self._metrics.checkpoint_commits_total.labels("error").inc()
                    _log.error("commit_failed", error=error.message, hint=error.hint, retry_seconds=delay)
                    await anyio.sleep(delay)
                    delay = min(delay * 2, 30.0)
                    continue
                break
            self._metrics.committed(time.perf_counter() - started, self._clock())
            if not new:
                return
            for sink in self._sinks:
                try:
                    await sink.emit(new)
                except StateError as error:
                    self._metrics.output_write_errors_total.labels("io").inc()
                    _log.error("sink_failed", sink=type(sink).__name__, error=error.message, hint=error.hint)
            for verdict in new:
                self._metrics.verdict(verdict)

    def _count(self, reading: Reading, records: Sequence[Record], steps: Sequence[Step], seconds: float) -> None:
        name = reading.adapter.format if reading.adapter else "unknown"
        self._metrics.read(name, records)
        for step in steps:
            self._metrics.step(step)
        if steps:
            self._metrics.time_to_verdict_seconds.observe(seconds / len(steps))

    @asynccontextmanager
    async def _held(self, steps: Sequence[Step]) -> AsyncIterator[dict[tuple[str, str], _Live]]:
        """The trajectories of the steps, locked in one order, so that two chunks cannot wait for each other."""
        held: dict[tuple[str, str], _Live] = {}
        async with AsyncExitStack() as stack:
            for key in sorted({step.key for step in steps}):
                held[key] = await self._hold(key, stack)
            yield held
        self._forget()

    async def _hold(self, key: tuple[str, str], stack: AsyncExitStack) -> _Live:
        while True:
            live = self._live.get(key)
            if live is None:
                revived = await self._revive(key)
                live = self._live.setdefault(key, revived)
            self._live.move_to_end(key)
            await live.lock.acquire()
            if self._live.get(key) is live:
                stack.callback(live.lock.release)
                return live
            live.lock.release()  # it was forgotten while we waited

    def _forget(self) -> None:
        """Keep the trajectories used last; the others come back from the store."""
        for key in list(self._live):
            if len(self._live) <= _LIVE:
                break
            if not self._live[key].lock.locked():
                del self._live[key]
        self._metrics.trajectories_live.set(len(self._live))

    async def _revive(self, key: tuple[str, str]) -> _Live:
        """A trajectory from the store, or a new one."""
        state = await self._store.trajectory(key)
        if state is None:
            return _Live(History(key), Memory())
        history = History(key, run=state.run)
        total, steps = await self._store.history(key, state.run)
        history.dropped = total - len(steps)
        for step in steps:
            history.append(step)
        return _Live(history, msgspec.msgpack.decode(state.memory, type=Memory))


def _begins_anew(step: Step) -> bool:
    """Step 1 again means a new run under the old name, for formats whose steps carry their own number."""
    return step.format == "native"


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
