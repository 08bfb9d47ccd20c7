"""The one-way flow: records in, committed verdicts out. The only place that knows about concurrency of steps.

It sees protocols, never implementations, so the daemon and a replay run the very same code. What it promises:

- a chunk of records, their verdicts, the trajectories' state and the new position are one transaction;
- steps of one trajectory are judged in the order of the log, each from a history that is all reality; where files
  use one name for different trajectories, each file has its own;
- a step that was judged before, or that a resumed session copied, gets no second verdict.
"""

import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

import anyio
import anyio.lowlevel
import msgspec
import structlog

from verifierd.errors import StateError
from verifierd.labels import Label
from verifierd.metrics import Metrics
from verifierd.policy import Memory, Policy, decide
from verifierd.sanitize import render
from verifierd.stages import Adapter, Predictor, Scorer, Sink, Source
from verifierd.store import Commit, FileState, Quarantined, Raised, Store, StoredStep, TrajectoryState
from verifierd.times import iso
from verifierd.types import (
    Abstain,
    History,
    ObservationKind,
    Prediction,
    Record,
    Score,
    Seconds,
    Step,
    Verdict,
    VerdictKind,
)

__all__ = ("Judge", "Pipeline", "Reading", "Shadow", "Shadowed", "closed", "numbered", "strand_of")

_DETECT_LINES = 64
_DETECT_BYTES = 1024**2
_CHUNK_BYTES = 256 * 1024
_LIVE = 256
_SHADOWED = 64  # steps that wait to be judged again
_RUNS = 64  # how many runs of one name are searched for the one that a file goes on with
_log = structlog.get_logger(component="pipeline")


class Reading:
    """A source being read: what the pipeline knows of it between two chunks.

    Attributes:
        source: Where records come from.
        adapter: Who understands them; None until the format is known.
        format: The format asked for, or `auto`.
        end: Byte offset just past the last committed record.
        judge_from: Steps completed before this byte are history only.
        read_at: When records were last taken out, by `time.perf_counter`.
        lock: Held by whoever takes records out.
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
        self.end = end
        self.judge_from = judge_from
        self.read_at = time.perf_counter()
        self.lock = anyio.Lock()  # a file can be reached twice, and becomes idle while it is read
        self.lines = 1  # adaptive: how many records make a chunk
        self.waiting: list[Record] = []  # read, but of a format not yet known
        self.complained = False  # that its format is not known

    def begin_anew(self) -> None:
        """The source is another one than before: nothing that is held of it is true any more."""
        self.generation = self.source.generation
        self.adapter = None
        self.end = self.judge_from = 0
        self.waiting = []
        self.complained = False


_Key = tuple[str, str]
Strand = tuple[str, str, str]


class _Live:
    """A strand in memory: the steps of one trajectory, and of one file where several may hold the same name."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.revived = False
        self.history = History(("", ""))
        self.memory = Memory()


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """What judges a step; its parts belong together.

    Attributes:
        predictor: Who predicts.
        scorers: Who measure.
        policy: What decides.
        sanitise: What a verdict goes through before it leaves the pipeline in any direction.
    """

    predictor: Predictor
    scorers: Sequence[Scorer]
    policy: Policy
    sanitise: Callable[[Verdict], Verdict]


class Shadowed(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was judged, with all that it was judged from.

    Attributes:
        judge: Who judged.
        memory: What was remembered before it.
        history: The steps before it, in a copy to keep.
        step: The step.
        prediction: What was expected.
    """

    judge: Judge
    memory: Memory
    history: History
    step: Step
    prediction: Prediction


class Shadow(Protocol):
    """Judges some steps once more, altered, to see what would be missed. Nothing real depends on it."""

    def picks(self, step: Step, verdict: Verdict) -> bool:
        """Is this step to be judged once more? It is shown every one, so that it can also borrow from them."""

    async def judge(self, case: Shadowed) -> tuple[str, VerdictKind] | None:
        """The kind of fault that a step was given, and the verdict on it; None if none is possible there."""


class _Chunk:
    """What else is known of some lines on their way through the stages."""

    def __init__(self, parse: float) -> None:
        self.seconds = {"parse": parse}
        self.judged: list[Step] = []
        self.picked: list[_Picked] = []

    def took(self, stage: str, seconds: float) -> None:
        """Some step took so long there."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds


class _Bench:
    """A judge at work, and how many steps it has before it."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self._steps = 0
        self._idle = anyio.Event()

    def __enter__(self) -> Judge:
        self._steps += 1
        return self.judge

    def __exit__(self, *_: object) -> None:
        self._steps -= 1
        if not self._steps:
            self._idle.set()
            self._idle = anyio.Event()

    async def idle(self) -> None:
        """Wait until no step is before it."""
        if self._steps:
            await self._idle.wait()


class _Picked(msgspec.Struct, frozen=True):
    """A step that waits to be judged once more: by whom, and the strand that it was the last of."""

    bench: _Bench
    live: _Live
    case: Shadowed


class Pipeline:
    """Runs readings through the stages.

    Args:
        store: Where everything is committed.
        judge: Who judges, until there is an `exchange`.
        sinks: Who pass verdicts on.
        metrics: What is counted.
        open_adapter: Makes the adapter of a format for a path.
        detect: The format of the first lines of a path, or None while it is open.
        clock: Seconds since the epoch.
        limit: Judge no more than this many steps; the rest is left out.
        shadow: Who judges some steps once more while `shadowing` runs; None if nobody does.
    """

    def __init__(
        self,
        *,
        store: Store,
        judge: Judge,
        sinks: Sequence[Sink],
        metrics: Metrics,
        open_adapter: Callable[[str, str], Adapter],
        detect: Callable[[Sequence[bytes], str], str | None],
        clock: Callable[[], float] = time.time,
        limit: int | None = None,
        shadow: Shadow | None = None,
    ) -> None:
        self._store = store
        self._bench = _Bench(judge)
        self._sinks = tuple(sinks)
        self._metrics = metrics
        self._open_adapter = open_adapter
        self._detect = detect
        self._clock = clock
        self._limit = limit
        self._shadow = shadow
        self._picked: deque[_Picked] = deque()
        self._some_picked = anyio.Event()
        self._since = clock()
        self._live: OrderedDict[Strand, _Live] = OrderedDict()
        self._newest: dict[_Key, int] = {}  # the last run of each trajectory that is in memory
        self._claimed: set[str] = set()  # being judged, not yet committed
        self._under_way: dict[_Chunk, float] = {}
        self._committing = anyio.Lock()

    @property
    def exhausted(self) -> bool:
        """True once the limit of steps is reached."""
        return self._limit == 0

    @property
    def judge(self) -> Judge:
        """Who judges the next step."""
        return self._bench.judge

    @property
    def oldest(self) -> float | None:
        """Since when the lines are judged that have been so for longest; None if none are."""
        return min(self._under_way.values(), default=None)

    async def exchange(self, judge: Judge) -> None:
        """Have what comes next judged by another one.

        Steps that are being judged stay with the former judge. This returns once it has none left.
        """
        former, self._bench = self._bench, _Bench(judge)
        await former.idle()

    async def pump(self, reading: Reading) -> int:
        """Take the next chunk through all stages.

        Returns:
            How many records were read; 0 means that nothing is new.

        Raises:
            SourceError: The source cannot be read.
        """
        async with reading.lock:
            records = await reading.source.read(records=reading.lines, size=_CHUNK_BYTES)
            self._follow(reading)
            if records:
                reading.read_at = time.perf_counter()
                await self._process(reading, records)
            return len(records)

    async def settle(self, reading: Reading) -> None:
        """The source is idle: take an unterminated line if it is whole, and judge what only waited for siblings.

        Raises:
            SourceError: The source cannot be read.
        """
        async with reading.lock:
            tail = await reading.source.tail()
            self._follow(reading)
            if tail is not None and _is_json(tail.data):
                reading.source.accept(tail)
                reading.read_at = time.perf_counter()
                await self._process(reading, [tail])
            if reading.adapter is not None:
                await self._judge_and_commit(reading, (), reading.adapter.settle())
            elif reading.waiting:
                self._complain(reading)  # and wait on: the next line may tell

    async def finish(self, reading: Reading) -> None:
        """The source is over for good: an unterminated half line is quarantined, what is open becomes a step.

        Raises:
            SourceError: The source cannot be read.
        """
        async with reading.lock:
            tail = await reading.source.tail()
            self._follow(reading)
            if tail is not None:
                reading.source.accept(tail)
                reading.read_at = time.perf_counter()
                await self._process(reading, [closed(tail)])
            if reading.waiting:
                await self._pass_over(reading)
            if reading.adapter is not None:
                await self._judge_and_commit(reading, (), reading.adapter.finish())

    def _follow(self, reading: Reading) -> None:
        """Notice that the source turned out to be another file, or a rewritten one."""
        if reading.generation != reading.source.generation:
            reading.begin_anew()
            self._metrics.source_events_total.labels("restarted").inc()

    async def _process(self, reading: Reading, records: Sequence[Record]) -> None:
        if reading.adapter is None:
            reading.waiting.extend(records)
            path = reading.source.path
            found: str | None = reading.format
            if found == "auto":
                found = self._detect([record.data for record in reading.waiting], path)
            if found is None:
                size = sum(len(record.data) for record in reading.waiting)
                if len(reading.waiting) >= _DETECT_LINES or size >= _DETECT_BYTES:
                    await self._pass_over(reading)
                return
            reading.adapter = self._open_adapter(found, path)
            records, reading.waiting = reading.waiting, []
        started = time.perf_counter()
        known = sum(reading.adapter.counts.unknown.values())
        records, steps = _fed(reading.adapter, records)
        self._metrics.unknown(reading.adapter.format, sum(reading.adapter.counts.unknown.values()) - known)
        await self._judge_and_commit(reading, records, steps, parse=time.perf_counter() - started)
        took = time.perf_counter() - started
        if took < 0.05:
            reading.lines = min(reading.lines * 2, 256)
        elif took > 0.5:
            reading.lines = max(reading.lines // 2, 1)

    async def _pass_over(self, reading: Reading) -> None:
        """Leave lines of no known format behind; what follows them may still tell."""
        self._complain(reading)
        records, reading.waiting = reading.waiting, []
        await self._judge_and_commit(reading, records, ())

    def _complain(self, reading: Reading) -> None:
        if not reading.complained and any(record.data.strip() for record in reading.waiting):
            reading.complained = True
            self._metrics.source_events_total.labels("unknown_format").inc()
            _log.warning(
                "format_unknown", path=reading.source.path, hint="name it with --format, or leave the file out"
            )

    async def _judge_and_commit(
        self, reading: Reading, records: Sequence[Record], steps: Iterable[Step], *, parse: float = 0.0
    ) -> None:
        steps = list(steps)
        if not steps and not records:
            return
        chunk = _Chunk(parse)
        self._under_way[chunk] = self._clock()
        started = time.perf_counter()
        end = records[-1].end if records else reading.end
        claims: set[str] = set()
        try:
            async with self._held(steps) as live:
                known = await self._store.known(steps) if steps else {}
                chunk.took("recall", time.perf_counter() - started)
                whole, planned = self._plan(reading, steps, live, claims, known)
                stored, verdicts, alarms = await self._judge_all(planned, live, chunk)
                touched = {strand_of(kept.step) for kept in stored}
                judged = {verdict.step_id for verdict in verdicts}
                began = time.perf_counter()
                await self._commit(
                    Commit(
                        # Steps beyond the limit were left out: the position must not pass over them.
                        file=self._file(reading, end) if whole else None,
                        trajectories=tuple(self._trajectory(live[strand]) for strand in sorted(touched)),
                        steps=tuple(stored),
                        verdicts=tuple(verdicts),
                        alarms=tuple(alarms),
                        render=render,
                        labels=tuple(
                            Label(step_id=step_id, label=step.label.value, source="data", note=step.label_kind or "")
                            for step in (kept.step for kept in stored)
                            if step.label is not None and (step_id := step.step_id) in judged
                        ),
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
                )
                chunk.took("commit", time.perf_counter() - began)
        finally:
            self._claimed -= claims
            del self._under_way[chunk]
        reading.end = end
        self._count(reading, records, [kept.step for kept in stored], chunk)
        if chunk.picked:
            self._picked.extend(chunk.picked)
            self._some_picked.set()

    async def _judge_all(
        self, planned: Sequence[tuple[Step, int, bool]], live: dict[Strand, _Live], chunk: _Chunk
    ) -> tuple[list[StoredStep], list[Verdict], list[Raised]]:
        """The steps to keep, the verdicts on those that nobody judged before, and alarms."""
        stored: dict[int, StoredStep] = {}
        verdicts: dict[int, Verdict] = {}

        async def follow(places: Iterable[int]) -> None:
            for place in places:
                step, run, judge = planned[place]
                held = live[strand_of(step)]
                if run != held.history.run:
                    held.history = History(step.key, run=run)
                    held.memory = Memory()
                if judge:
                    verdicts[place] = await self._judge(held, step, chunk)
                held.history.append(step)
                stored[place] = StoredStep(step=step, run=run, ordinal=held.history.total)

        strands: dict[Strand, list[int]] = {}
        for place, (step, _, _) in enumerate(planned):
            strands.setdefault(strand_of(step), []).append(place)
        if (
            len(strands) > 1 and self._bench.judge.predictor.model is not None
        ):  # a model takes several trajectories in one pass
            async with anyio.create_task_group() as tasks:
                for places in strands.values():
                    tasks.start_soon(follow, places)
        else:
            await follow(range(len(planned)))
        alarms = [
            Raised(
                key=planned[place][0].key,
                run=planned[place][1],
                verdict_id=verdict.verdict_id,
                step=verdict.step,
                alarm=verdict.alarm,
            )
            for place, verdict in sorted(verdicts.items())
            if verdict.alarm is not None and verdict.alarm.new
        ]
        return (
            [stored[place] for place in sorted(stored)],
            [verdicts[place] for place in sorted(verdicts)],
            alarms,
        )

    def _plan(
        self,
        reading: Reading,
        steps: Sequence[Step],
        live: dict[Strand, _Live],
        claims: set[str],
        known: Mapping[str, int | None],
    ) -> tuple[bool, list[tuple[Step, int, bool]]]:
        """Whether all steps are taken; each one's run and whether it is to be judged, without what was read before."""
        planned: list[tuple[Step, int, bool]] = []
        done: set[tuple[str, int]] = set()
        runs = {strand: held.history.run for strand, held in live.items()}
        begun = {strand for strand, held in live.items() if held.history.total}
        for step in steps:
            strand, step_id, copy_id = strand_of(step), step.step_id, step.copy_id
            run = runs[strand]
            if numbered(step) and step.index == 1 and strand in begun:
                run = self._newest[step.key] + 1  # the same name, a new run: nothing of the old one holds
            if (step_id, run) in done or known.get(step_id) == run:
                self._metrics.source_events_total.labels("duplicate").inc()
                continue
            ids = {step_id} if copy_id is None else {step_id, copy_id}
            if step_id in known or ids & self._claimed:
                self._metrics.source_events_total.labels("copied").inc()
                judge = False
            else:
                judge = step.origin.offset >= reading.judge_from
            if judge and self._limit is not None:
                if not self._limit:
                    return False, planned
                self._limit -= 1
            if run != runs[strand]:
                runs[strand] = self._newest[step.key] = run
            if judge:
                self._claimed |= ids
                claims |= ids
            begun.add(strand)
            done.add((step_id, run))
            planned.append((step, run, judge))
        return True, planned

    def _file(self, reading: Reading, end: int) -> FileState:
        return FileState(
            path=reading.source.path,
            format=reading.adapter.format if reading.adapter else "",
            position=reading.source.position(end),
            state=reading.adapter.dump() if reading.adapter else b"",
        )

    def _trajectory(self, live: _Live) -> TrajectoryState:
        history = live.history
        return TrajectoryState(
            format=history.key[0],
            trajectory=history.key[1],
            run=history.run,
            total=history.total,
            memory=msgspec.msgpack.encode(live.memory),
        )

    async def _judge(self, live: _Live, step: Step, chunk: _Chunk) -> Verdict:
        bench = self._bench
        with bench as judge:
            memory = live.memory
            prediction, verdict = await self._judged(judge, live, step, chunk)
            chunk.judged.append(step)
            if self._shadow is not None and self._shadow.picks(step, verdict):
                if len(self._picked) + len(chunk.picked) < _SHADOWED:
                    case = Shadowed(
                        judge=judge, memory=memory, history=live.history.copy(), step=step, prediction=prediction
                    )
                    chunk.picked.append(_Picked(bench, live, case))
                else:
                    self._metrics.shadow_skipped_total.labels("queue_full").inc()
            return judge.sanitise(verdict)

    async def _judged(self, judge: Judge, live: _Live, step: Step, chunk: _Chunk) -> tuple[Prediction, Verdict]:
        predictor = judge.predictor
        started = predicted = time.perf_counter()
        scores: list[Score] = []
        if step.observation_kind is ObservationKind.ENV:
            try:
                prediction = await predictor.predict(live.history, step)
                predicted = time.perf_counter()
                scores = [scorer(live.history, step, prediction) for scorer in judge.scorers]
            except Exception as error:  # noqa: BLE001 - a stage's failure costs one step, never the stream
                _log.error(
                    "step_failed",
                    predictor=predictor.name,
                    trajectory=step.trajectory,
                    step=step.index,
                    exc_info=error,
                )
                prediction = Prediction(predictor=predictor.name, abstain=Abstain.PREDICTOR_ERROR, detail=repr(error))
        else:
            prediction = Prediction(
                predictor=predictor.name, abstain=Abstain.NOT_ENV, detail=step.observation_kind.value
            )
        scored = time.perf_counter()
        live.memory, verdict = decide(
            judge.policy,
            live.memory,
            step,
            prediction,
            scores,
            predictor=predictor.name,
            model=predictor.model,
            time=iso(self._clock()),
            seconds=Seconds(predict=predicted - started, total=scored - started),
        )
        chunk.took("predict", predicted - started)
        chunk.took("score", scored - predicted)
        chunk.took("decide", time.perf_counter() - scored)
        return prediction, verdict

    async def shadowing(self) -> None:
        """Have the shadow judge what it picked, one step at a time and after its real verdict; never returns."""
        assert self._shadow is not None
        while True:
            while self._picked:
                await self._in_shadow(self._shadow, self._picked.popleft())
                await anyio.lowlevel.checkpoint()
            self._some_picked = anyio.Event()
            await self._some_picked.wait()

    async def _in_shadow(self, shadow: Shadow, picked: _Picked) -> None:
        case = picked.case
        live = picked.live
        moved_on = live.lock.locked() or (live.history.run, live.history.total) != (
            case.history.run,
            case.history.total + 1,
        )
        if picked.bench is not self._bench:
            skipped = "reloaded"  # its predictor may be closed
        elif moved_on and case.prediction.likelihood is not None:
            skipped = "moved_on"  # the model that must say anew how likely it is would have to begin anew, too
        else:
            try:
                with picked.bench:
                    found = await shadow.judge(case)
            except Exception as error:  # noqa: BLE001 - as where steps are judged
                _log.error("shadow_failed", trajectory=case.step.trajectory, step=case.step.index, exc_info=error)
                skipped = "failed"
            else:
                if found is not None:
                    kind, verdict = found
                    self._metrics.shadow_verdicts_total.labels(kind, verdict).inc()
                    _log.debug(
                        "shadow_judged",
                        kind=kind,
                        verdict=verdict.value,
                        trajectory=case.step.trajectory,
                        step=case.step.index,
                    )
                    return
                skipped = "not_eligible"
        self._metrics.shadow_skipped_total.labels(skipped).inc()

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
            if commit.alarms:
                self._metrics.alarms_open.set(await self._store.open_alarms())
            for verdict in new:
                self._metrics.verdict(verdict)
            self._metrics.truth(self._store.truth)

    def _count(self, reading: Reading, records: Sequence[Record], steps: Sequence[Step], chunk: _Chunk) -> None:
        name = reading.adapter.format if reading.adapter else "unknown"
        self._metrics.read(name, records)
        for record in records:
            if record.problem:
                _log.warning(
                    "line_quarantined",
                    path=record.origin.path,
                    offset=record.origin.offset,
                    reason=record.problem,
                    hint="the rest of the file goes on; mend or cut the line to have it judged",
                )
        for step in steps:
            self._metrics.step(step)
        if chunk.judged:
            self._metrics.stages(chunk.seconds)
            waited, now = time.perf_counter() - reading.read_at, self._clock()
            for step in chunk.judged:
                self._metrics.judged(step, waited, since=self._since, now=now)

    @asynccontextmanager
    async def _held(self, steps: Sequence[Step]) -> AsyncIterator[dict[Strand, _Live]]:
        """The strands of the steps, locked in one order, so that two chunks cannot wait for each other."""
        firsts: dict[Strand, Step] = {}
        for step in steps:
            firsts.setdefault(strand_of(step), step)
        async with AsyncExitStack() as stack:
            yield {strand: await self._hold(strand, firsts[strand], stack) for strand in sorted(firsts)}
        self._forget()

    async def _hold(self, strand: Strand, first: Step, stack: AsyncExitStack) -> _Live:
        while True:
            live = self._live.setdefault(strand, _Live())
            self._live.move_to_end(strand)
            await live.lock.acquire()
            if self._live.get(strand) is live:
                stack.callback(live.lock.release)
                if not live.revived:
                    await self._revive(live, first)
                return live
            live.lock.release()  # it was forgotten while we waited

    def _forget(self) -> None:
        """Keep the strands used last; the others come back from the store."""
        for strand in list(self._live):
            if len(self._live) <= _LIVE:
                break
            if not self._live[strand].lock.locked():
                del self._live[strand]
                if not any(other[:2] == strand[:2] for other in self._live):
                    self._newest.pop(strand[:2], None)
        self._metrics.trajectories_live.set(len(self._live))

    async def _revive(self, live: _Live, step: Step) -> None:
        """Make a strand what it was when its last step was committed, if there was one."""
        state = await self._store.trajectory(step.key)
        newest = max(self._newest.get(step.key, -1), -1 if state is None else state.run)
        run = await self._run(step, newest) if numbered(step) else max(newest, 0)
        # Another strand may have begun a run while the store was asked.
        run = max(self._newest.get(step.key, -1), newest) + 1 if run is None else run
        self._newest[step.key] = max(self._newest.get(step.key, -1), newest, run)
        live.history = History(step.key, run=run)
        if run <= newest:
            total, steps = await self._store.history(step.key, run)
            live.history.dropped = total - len(steps)
            for old in steps:
                live.history.append(old)
        if state is not None and state.run != run:
            state = await self._store.trajectory(step.key, run)
        live.memory = Memory() if state is None else msgspec.msgpack.decode(state.memory, type=Memory)
        live.revived = True

    async def _run(self, step: Step, newest: int) -> int | None:
        """The run that a step of a numbered trajectory goes on with: its own file's, else one that a file left off."""
        left_off = None
        for run in range(newest, max(-1, newest - _RUNS), -1):
            _, last = await self._store.history(step.key, run, 0)
            if last and last[-1].origin.path == step.origin.path:
                return run
            if last and last[-1].index + 1 == step.index and left_off is None:
                left_off = run
        return left_off


def numbered(step: Step) -> bool:
    """Do steps of this format carry their own number, under a name that any file may use again?"""
    return step.format == "native"


def strand_of(step: Step) -> Strand:
    """What a step continues. Two files that use one name, such as `1`, must not become one history."""
    return (*step.key, step.origin.path if numbered(step) else "")


def closed(tail: Record) -> Record:
    """The unterminated end of a source to which nothing will be added: a whole line, or one that is torn."""
    whole = tail.problem is not None or _is_json(tail.data)
    return tail if whole else msgspec.structs.replace(tail, data=b"", problem="torn_tail")


def _fed(adapter: Adapter, records: Sequence[Record]) -> tuple[list[Record], list[Step]]:
    """The steps that records complete; records of which the adapter lost something say so."""
    marked: list[Record] = []
    steps: list[Step] = []
    lost = dict(adapter.counts.quarantined)
    for record in records:
        steps.extend(adapter.feed(record))
        if adapter.counts.quarantined != lost:
            reason = next(key for key, count in adapter.counts.quarantined.items() if count != lost.get(key))
            lost = dict(adapter.counts.quarantined)
            marked.append(msgspec.structs.replace(record, problem=record.problem or reason))
        else:
            marked.append(record)
    return marked, steps


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
