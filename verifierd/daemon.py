"""The daemon: watches sources, keeps the pipeline fed, serves its admin endpoint, stops in order.

Order of a stop: intake ends, chunks in flight are finished within the grace time, then the predictor and the store
close. A second signal gives up waiting.

A reload builds all that judges anew and exchanges it between two steps, or leaves everything as it was and says why.
"""

import math
import os
import resource
import shutil
import signal
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import anyio
import msgspec
import structlog
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from verifierd import http, views
from verifierd.adapters import open_adapter
from verifierd.composition import Choice, asks_model, at_once, exchange, judging
from verifierd.config import Config, SourceConfig, agent_folders, duration
from verifierd.errors import ConfigError, SourceError, StateError, VerifierdError
from verifierd.labelfile import MAX_LINE_BYTES, LabelFile
from verifierd.labels import FORMAT as LABELS
from verifierd.metrics import Metrics
from verifierd.notify import Manager, mind
from verifierd.paths import expanded
from verifierd.pipeline import Pipeline, Reading, Shadow
from verifierd.sanitize import Sanitizer
from verifierd.sinks.hub import Hub
from verifierd.sinks.jsonl import JsonlSink
from verifierd.sinks.notify import open_outbox
from verifierd.sinks.outbox import Outbox
from verifierd.sinks.recent import Recent
from verifierd.sources import open_source
from verifierd.sources.base import look, refusal
from verifierd.sources.directory import Watcher, nothing_found
from verifierd.sources.file import FileSource
from verifierd.stages import Sink
from verifierd.store import DATABASE, FileState, Store

__all__ = ("Daemon", "Started")

_STDIN = Path("-")
_WORKERS = 8
_READINGS = 512
_LISTENERS = 1024
_MOST_FILES = 8192
_FILES = _READINGS + 256  # descriptors for all else: logs, the database, other connections
_SETTLE_SECONDS = 2.0
_START_SECONDS = 600.0  # that opening a large database, or one of an older version, may take
_LOAD_SECONDS = 3600.0  # that loading a model may take
_CLOSE_SECONDS = 60.0
_LABEL_SECONDS = 1.0  # between two looks at label files
_EXCHANGEABLE = frozenset({"policy", "predictor", "quotes", "grace", "model"})
"""Settings that a reload can change; the others are in use from the start to the end."""

_log = structlog.get_logger(component="daemon")


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are, once the daemon runs.

    Attributes:
        url: The admin endpoint, or None.
        verdicts: The verdict JSONL.
        kept: How many verdicts the database has from before.
        state: The state directory.
        watched: What is watched.
    """

    url: str | None
    verdicts: Path
    kept: int
    state: Path
    watched: tuple[str, ...]


_Job = tuple["_Group", Watcher, Path]


class _Group:
    """One group of sources and what the start rule makes of its files."""

    def __init__(self, config: SourceConfig, started: float) -> None:
        self.config = config
        self.files = tuple(path for path in config.paths if path != str(_STDIN))
        self.has_stdin = str(_STDIN) in config.paths
        self._started = started
        self._span = duration(config.start)
        self.skipped: set[Path] = set()
        self.looked: float | None = None  # when it last looked for files; None while it is not expected to
        self._sizes: dict[Path, int] = {}

    def note(self, paths: Sequence[Path]) -> None:
        """These files were there at the start: with `end`, what they hold now is read for context only."""
        if self._span is None:
            for path in paths:
                stamp = look(str(path))
                self._sizes[path] = stamp[2] if stamp is not None else 0

    def begin(self, path: Path) -> int | None:
        """From which byte on a file without a known position is judged; None while it is too old to be read at all.

        Raises:
            SourceError: It has gone.
        """
        try:
            stat = path.stat()
        except OSError as error:
            raise refusal(str(path), error) from error
        if self._span is None:
            return self._sizes.get(path, 0)
        if stat.st_mtime < self._started - self._span:
            self.skipped.add(path)
            return None
        self.skipped.discard(path)
        return 0


class Daemon:
    """Runs until it is told to stop, or through what is there with `once`.

    Args:
        config: All settings.
        choice: Who judges.
        state: The state directory, which must be this daemon's alone.
        out: The verdict JSONL.
        sinks: Further sinks beside the JSONL and the ring of recent verdicts.
        on_started: Told where things are, once they are there.
        again: Reads the settings anew, for a reload; by default they stay and only the policy is read again.
        shadow: Who judges some steps once more while it watches, as of `Pipeline`.
    """

    def __init__(
        self,
        config: Config,
        choice: Choice,
        *,
        state: Path,
        out: Path,
        sinks: Sequence[Sink] = (),
        on_started: Callable[[Started], None] = lambda _started: None,
        again: Callable[[], tuple[Config, Choice]] | None = None,
        shadow: Shadow | None = None,
    ) -> None:
        self._config = config
        self._choice = choice
        self._again = again or (lambda: (config, choice))
        self._reloading = anyio.Lock()
        self._shadow = shadow
        self._state = state
        self._out = out
        self._extra = tuple(sinks)
        self._on_started = on_started
        self._metrics = Metrics()
        self._readings: OrderedDict[Path, Reading] = OrderedDict()
        self._busy: dict[Path, float] = {}  # since when nothing more has come, infinite while more may; until settled
        self._gone: list[Path] = []
        self._unknown: dict[str, Counter[str]] = {}  # in files that are closed
        self._failed = 0
        self._kept = 0
        self._groups = [_Group(source, time.time()) for source in config.sources]
        self._unscanned = len(self._groups)
        self._agents = frozenset(map(expanded, agent_folders()))
        self._label_files = tuple(dict.fromkeys(expanded(path) for path in config.labels.files))
        self._unlabelled: set[Path] = set()  # label files that cannot be read now
        self._endpoint = state / "endpoint"
        self._outboxes: list[Outbox] = []
        self._manager = Manager()
        self._scanned = anyio.Event()
        self._answered = 0.0  # when the store last did
        self._judged = 0

    async def run(self, *, once: bool = False) -> int:
        """Open everything, run, close everything.

        Returns:
            How many paths could not be read, each of them logged.

        Raises:
            StateError: The state directory cannot be used.
            ConfigError: The address is taken, a policy or a predictor is wrong.
            SourceError: With `once`, there is no log at all in what was named.
        """
        _allow_files()
        self._manager.starting(_LOAD_SECONDS if asks_model(self._choice) else _START_SECONDS)
        async with AsyncExitStack() as stack:
            store = Store(self._state)
            await store.open()
            stack.push_async_callback(store.aclose)
            self._endpoint.unlink(missing_ok=True)  # of a daemon that was killed
            stack.callback(self._endpoint.unlink, missing_ok=True)
            sanitizer = Sanitizer(
                bytes.fromhex(http.token(self._state / "salt")),
                on_redaction=lambda kind: self._metrics.redactions_total.labels(kind).inc(),
            )
            recent = Recent()
            recent.preload(await store.recent(1000))
            # Two files, this one and the one before it, are what retention allows.
            jsonl = JsonlSink(self._out, store, max_bytes=self._config.state.retention_bytes // 2)
            await jsonl.open()
            hub = Hub(store, limit=_listeners())
            sinks: tuple[Sink, ...] = (jsonl, recent, hub, *self._extra)
            for sink in sinks:
                stack.push_async_callback(sink.aclose)
            for told in self._config.notify:
                outbox = await open_outbox(told, store=store, metrics=self._metrics, secret=self._webhook_secret)
                stack.push_async_callback(outbox.aclose)
                self._outboxes.append(outbox)
            sinks = (*sinks, *self._outboxes)
            counts = await store.counts()
            self._metrics.preset(counts)
            self._metrics.truth(store.truth)
            self._metrics.alarms_open.set(await store.open_alarms())
            self._kept = sum(counts.values())
            pipeline = await stack.enter_async_context(
                judging(
                    self._choice,
                    store=store,
                    sinks=sinks,
                    metrics=self._metrics,
                    sanitizer=sanitizer,
                    shadow=None if once else self._shadow,
                )
            )
            self._metrics.reloaded(time.time())
            if once:
                await self._once(pipeline, store)
                async with anyio.create_task_group() as telling:
                    for outbox in self._outboxes:
                        telling.start_soon(outbox.finish, self._config.grace)
            else:
                await self._watch(pipeline, store, recent, hub, sanitizer)
        return self._failed

    async def _once(self, pipeline: Pipeline, store: Store) -> None:
        queue = iter(await self._find())
        self._announce(None)

        async def worker() -> None:
            for group, path in queue:
                try:
                    reading = await self._reading(group, path, store)
                    if reading is None:
                        continue
                    await self._through(pipeline, reading, path)
                    if pipeline.exhausted:
                        return
                except SourceError as error:
                    self._trouble(path, error)
                finally:
                    await self._forget(path)

        async with anyio.create_task_group() as tasks:
            for _ in range(max(_WORKERS, at_once(self._choice))):
                tasks.start_soon(worker)
        for labels in await self._open_labels(store):
            await self._take_labels(labels, last=True)
            await labels.source.aclose()
        for group in self._groups:
            if group.skipped:
                _log.info("sessions_skipped", files=len(group.skipped), older_than=group.config.start)

    async def _through(self, pipeline: Pipeline, reading: Reading, path: Path) -> None:
        """Read what is there now; what is added meanwhile is for the next run."""
        there = look(str(path)) if isinstance(reading.source, FileSource) else None
        while await pipeline.pump(reading) and not pipeline.exhausted:
            if there is not None and reading.end >= there[2]:
                break
        if not pipeline.exhausted:
            await (pipeline.finish if path == _STDIN else pipeline.settle)(reading)

    async def _find(self) -> list[tuple[_Group, Path]]:
        """All that there is to read now; newest first within a group."""
        found = [
            (group, await to_thread.run_sync(Watcher(group.files, group.config.exclude).look)) for group in self._groups
        ]
        troubles = [trouble for _, sighting in found for trouble in sighting.troubles]
        for group, sighting in found:
            group.note(sighting.ready)
        work = [(group, path) for group, sighting in found for path in _newest_first(sighting.ready)]
        work += [(group, _STDIN) for group in self._groups if group.has_stdin]
        if not work:
            errors = [error for _, error in troubles if error is not None]
            raise errors[0] if errors else nothing_found([p for g in self._groups for p in g.config.paths])
        for path, error in troubles:
            self._trouble(path, error)
        return work

    async def _watch(self, pipeline: Pipeline, store: Store, recent: Recent, hub: Hub, sanitizer: Sanitizer) -> None:
        send, receive = anyio.create_memory_object_stream[_Job](64)
        stop = anyio.Event()
        await self._measure(pipeline, store)  # the first scrape shows it
        async with anyio.create_task_group() as services:
            reload = partial(self._reload, pipeline)
            console = http.Console(
                store=store,
                events=hub,
                facts=partial(self._facts, pipeline),
                text=sanitizer.text,
                unknown=self._unknown_records,
            )
            url = await self._serve(services, recent, store, reload, console) if self._config.http.enabled else None
            services.start_soon(hub.run, partial(http.summary, console))
            services.start_soon(self._housekeeping, store)
            services.start_soon(self._measuring, pipeline, store)
            services.start_soon(self._lag)
            for outbox in self._outboxes:
                services.start_soon(outbox.run)
            services.start_soon(self._ready)
            services.start_soon(self._answering, store)
            services.start_soon(partial(mind, self._manager, stale=self._stale, status=self._status))
            services.start_soon(self._labelling, store)
            if self._shadow is not None:
                services.start_soon(pipeline.shadowing)
            services.start_soon(self._settling, pipeline)
            async with anyio.create_task_group() as work:
                services.start_soon(_signals, stop, work.cancel_scope)
                await services.start(self._hangups, stop, reload)
                for _ in range(max(_WORKERS, at_once(self._choice))):  # a model takes that many in one pass
                    work.start_soon(self._work, receive.clone(), stop, pipeline, store)
                async with anyio.create_task_group() as intake:
                    for group in self._groups:
                        intake.start_soon(self._intake, group, send.clone())
                        if group.has_stdin:
                            work.start_soon(self._pipe, group, stop, pipeline, store)
                    send.close()
                    receive.close()
                    self._announce(url)
                    await stop.wait()
                    self._manager.stopping(self._config.grace + _CLOSE_SECONDS)
                    _log.info("stopping", grace_seconds=self._config.grace)
                    intake.cancel_scope.cancel()
                work.cancel_scope.deadline = anyio.current_time() + self._config.grace
            services.cancel_scope.cancel()

    async def _serve(
        self, services: TaskGroup, recent: Recent, store: Store, reload: http.Reload, console: http.Console
    ) -> str:
        settings = self._config.http
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        app = http.app(
            metrics=self._metrics,
            recent=recent,
            readiness=self._readiness,
            token=http.token(self._state / "token"),
            ended=self._state / "ended-sessions",
            alarms=store,
            labels=store,
            reload=reload,
            console=console,
            allowed_hosts=(host,),
            private=settings.allow_remote,
        )
        serve = partial(http.serve, app, settings.host, settings.port, allow_remote=settings.allow_remote)
        port = await services.start(serve)
        url = f"http://{host}:{port}"
        http.announce(self._endpoint, url)
        return url

    async def _hangups(
        self, stop: anyio.Event, reload: http.Reload, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Reload on SIGHUP; end where it says that the terminal we were started in has gone."""
        watched = sys.stderr.isatty()
        with anyio.open_signal_receiver(signal.SIGHUP) as signals:
            task_status.started()
            async for _ in signals:
                if watched and not os.isatty(sys.stderr.fileno()):
                    stop.set()
                    continue
                with suppress(VerifierdError):  # it is in the log
                    await reload()

    async def _reload(self, pipeline: Pipeline) -> Mapping[str, object]:
        """Take up the settings and the policy as they are now, all of them or none.

        Returns:
            What is in use.

        Raises:
            VerifierdError: Why everything stayed as it was.
        """
        async with self._reloading:
            self._manager.reloading()
            try:
                config, choice = await to_thread.run_sync(self._again)
                _require_exchangeable(self._config, config)
                await exchange(pipeline, choice)
            except Exception as error:
                known = error if isinstance(error, VerifierdError) else VerifierdError(f"reload failed: {error!r}")
                self._metrics.reloaded(None)
                _log.error(
                    "reload_failed", error=known.message, hint=known.hint, exc_info=None if known is error else error
                )
                raise known from error
            finally:
                self._manager.reloaded()
            self._config, self._choice = config, choice
            self._metrics.reloaded(time.time())
            judge = pipeline.judge
            facts = {
                "policy": judge.policy.id,
                "predictor": judge.predictor.name,
                "model": judge.predictor.model,
                "quotes": choice.quotes or judge.policy.quotes,
            }
            _log.info("reloaded", **facts)
            return facts

    async def _intake(self, group: _Group, send: MemoryObjectSendStream[_Job]) -> None:
        """Wait for files that want reading, newest first."""

        def looked() -> None:
            group.looked = time.monotonic()

        watcher = Watcher(
            group.files,
            group.config.exclude,
            on_trouble=self._trouble,
            on_vanished=self._gone.append,
            on_look=looked,
        )
        async with send:
            sighting = await to_thread.run_sync(watcher.look)  # unlike `wait` it returns when there is nothing
            for path, error in sighting.troubles:
                self._trouble(path, error)
            group.note(sighting.ready)
            self._unscanned -= 1
            if not self._unscanned:
                self._scanned.set()
            ready: Sequence[Path] = sighting.ready
            while True:
                for path in _newest_first(ready):
                    await send.send((group, watcher, path))
                looked()
                try:
                    ready = await watcher.wait()
                finally:
                    group.looked = None  # while workers are busy, and at the end
                await self._let_go()

    async def _pipe(self, group: _Group, stop: anyio.Event, pipeline: Pipeline, store: Store) -> None:
        """Standard input, to its end; if it is all that is watched, its end is the daemon's."""
        reading = await self._reading(group, _STDIN, store)
        assert reading is not None, "standard input has no age"

        async def close() -> None:
            await stop.wait()
            await reading.source.aclose()  # ends the read that waits for more

        async with anyio.create_task_group() as closing:
            closing.start_soon(close)
            while await pipeline.pump(reading) and not stop.is_set():
                if pipeline.exhausted:
                    stop.set()
            closing.cancel_scope.cancel()
        await pipeline.finish(reading)
        await self._forget(_STDIN)
        if not any(other.files for other in self._groups):
            stop.set()

    async def _work(
        self, jobs: MemoryObjectReceiveStream[_Job], stop: anyio.Event, pipeline: Pipeline, store: Store
    ) -> None:
        """One chunk of one file at a time; a file with more to read queues up again, so that all get their turn."""
        async with jobs:
            async for group, watcher, path in jobs:
                if stop.is_set():
                    return
                try:
                    reading = await self._reading(group, path, store)
                    if reading is not None and await pipeline.pump(reading):
                        self._busy[path] = math.inf
                        watcher.touch(path)
                    else:
                        if path in self._busy:
                            self._busy[path] = time.monotonic()
                        watcher.done(path)
                    if pipeline.exhausted:
                        stop.set()
                except SourceError as error:
                    await self._forget(path)
                    watcher.failed(path, error)

    async def _reading(self, group: _Group, path: Path, store: Store) -> Reading | None:
        """The reading of a file, taken up where it was committed; None while the start rule leaves the file out."""
        if (reading := self._readings.get(path)) is not None:
            self._readings.move_to_end(path)
            return reading
        if self._is_out(path):
            return None
        known = await self._committed(path, store)
        begin: int | None = 0
        if known is None and path != _STDIN:
            begin = group.begin(path)
            if begin is None:
                self._metrics.source_events_total.labels("skipped_old").inc()
                return None
        source = open_source(
            path, known.position if known is not None else None, max_line_bytes=self._config.max_line_bytes
        )
        adapter = None
        if known is not None and known.format:
            adapter = open_adapter(known.format, path=str(path))
            adapter.load(known.state)
        if (other := self._readings.get(path)) is not None:  # by another worker, for another group
            return other
        reading = Reading(
            source,
            format=group.config.format,
            adapter=adapter,
            end=known.position.offset if known is not None else 0,
            judge_from=begin or 0,
        )
        self._readings[path] = reading
        for old in list(self._readings):
            if len(self._readings) <= _READINGS:
                break
            if old not in self._busy and old != path and not self._readings[old].lock.locked():
                await self._forget(old)
        return reading

    async def _committed(self, path: Path, store: Store) -> FileState | None:
        """What is kept of a file; nothing of one that was followed for labels."""
        known = await store.file(str(path)) if path != _STDIN else None
        return None if known is not None and known.format == LABELS else known

    async def _settling(self, pipeline: Pipeline) -> None:
        """Judge what waited only for more of its batch, once a file has been idle for a while."""
        while True:
            await anyio.sleep(_SETTLE_SECONDS / 2)
            now = time.monotonic()
            for path, since in list(self._busy.items()):
                if now - since < _SETTLE_SECONDS:
                    continue
                self._busy.pop(path, None)
                if (reading := self._readings.get(path)) is not None:
                    try:
                        await pipeline.settle(reading)
                    except SourceError as error:
                        if not isinstance(error.__cause__, FileNotFoundError):  # the watcher sees that it has gone
                            self._trouble(path, error)

    async def _open_labels(self, store: Store) -> list[LabelFile]:
        """The label files, each taken up where it was committed."""
        opened = []
        for path in self._label_files:
            known = await store.file(str(path))
            position = known.position if known is not None and known.format == LABELS else None
            source = open_source(path, position, max_line_bytes=MAX_LINE_BYTES)
            opened.append(LabelFile(source, store, self._metrics))
        return opened

    async def _labelling(self, store: Store) -> None:
        """Follow the label files."""
        files = await self._open_labels(store)
        while files:
            for file in files:
                await self._take_labels(file)
            await anyio.sleep(_LABEL_SECONDS)

    async def _take_labels(self, file: LabelFile, *, last: bool = False) -> None:
        """What is new in a label file; with `last` also a last line that lacks its end."""
        path = Path(file.source.path)
        try:
            await file.follow()
            if last:
                await file.settle()
        except SourceError as error:
            if path not in self._unlabelled:
                self._unlabelled.add(path)
                if isinstance(error.__cause__, FileNotFoundError):
                    _log.info("label_file_missing", path=str(path), hint="it is read once it is there")
                else:
                    self._trouble(path, error)
        except StateError as error:
            self._failed += 1
            _log.error("labels_failed", path=str(path), error=error.message, hint=error.hint)
        else:
            if path in self._unlabelled:
                self._unlabelled.remove(path)
                self._trouble(path, None)

    async def _housekeeping(self, store: Store) -> None:
        """Retention, hourly."""
        state = self._config.state
        while True:
            try:
                gone = await store.prune(
                    max_age_seconds=state.retention_days * 86400, max_bytes=state.retention_bytes, now=time.time()
                )
                self._metrics.preset(await store.counts())
                self._metrics.truth(store.truth)
                self._metrics.alarms_open.set(await store.open_alarms())
            except StateError as error:  # a full disk; what is judged waits for room, too
                _log.error("retention_failed", error=error.message, hint=error.hint)
            else:
                if gone.verdicts or gone.steps:
                    _log.info("retention_pruned", steps=gone.steps, verdicts=gone.verdicts, freed=gone.freed_bytes)
            await anyio.sleep(3600)

    async def _measuring(self, pipeline: Pipeline, store: Store) -> None:
        """What operators look at and nothing else tells, every few seconds."""
        while True:
            await anyio.sleep(5)
            await self._measure(pipeline, store)

    async def _measure(self, pipeline: Pipeline, store: Store) -> None:
        metrics = self._metrics
        metrics.source_backlog_bytes.set(sum(r.source.backlog for r in self._readings.values()))
        metrics.source_oldest_unverified_timestamp_seconds.set(pipeline.oldest or 0)
        metrics.source_files_watched.labels("open").set(len(self._readings))
        metrics.source_files_watched.labels("skipped").set(sum(len(g.skipped) for g in self._groups))
        with suppress(StateError):  # busy; the figures before stay
            metrics.alarms(*await store.look(views.budget), self._facts(pipeline).alpha)
        with suppress(OSError):
            free, size = await to_thread.run_sync(_room, self._state)
            metrics.state_free_bytes.set(free)
            metrics.state_database_bytes.set(size)

    async def _lag(self) -> None:
        while True:
            before = time.perf_counter()
            await anyio.sleep(1)
            self._metrics.event_loop_lag_seconds.set(max(0.0, time.perf_counter() - before - 1))

    async def _ready(self) -> None:
        await self._scanned.wait()
        self._manager.ready()

    async def _answering(self, store: Store) -> None:
        """Ask the store, so that one that hangs shows although there is nothing to commit."""
        self._answered = time.monotonic()
        while True:
            self._judged = await store.last_seq()
            self._answered = time.monotonic()
            await anyio.sleep(1)

    def _stale(self, seconds: float) -> list[str]:
        """The parts of this daemon that have shown no sign of life for so long.

        A full disk is no reason: commits wait for room, and starting anew would not make any.
        """
        oldest = time.monotonic() - seconds
        tailing = [group.looked for group in self._groups if group.looked is not None]
        return [
            *(["tailer"] if min(tailing, default=math.inf) < oldest else []),
            *(["store"] if self._answered < oldest else []),
        ]

    def _status(self) -> str:
        """How things are, in one line."""
        backlog = sum(reading.source.backlog for reading in self._readings.values())
        return f"following {len(self._readings)} files, {backlog:,} bytes behind; {self._judged:,} verdicts so far"

    def _readiness(self) -> tuple[bool, dict[str, object]]:
        scanned = self._unscanned == 0
        return scanned, {"scanned": scanned, "files": len(self._readings)}

    def _facts(self, pipeline: Pipeline) -> http.Facts:
        judge = pipeline.judge
        calibration = judge.policy.calibration
        learnt = None if calibration is None else calibration.learnt
        return http.Facts(
            policy=judge.policy.id,
            predictor=judge.predictor.name,
            model=judge.predictor.model,
            quotes=self._choice.quotes or judge.policy.quotes,
            alpha=None if learnt is None else learnt.alpha,
        )

    def _unknown_records(self) -> Mapping[str, Mapping[str, int]]:
        """How often each type of record was met that no adapter knows, since the start, by format."""
        found = {form: Counter(names) for form, names in self._unknown.items()}
        for reading in self._readings.values():
            if reading.adapter is not None:
                found.setdefault(reading.adapter.format, Counter()).update(reading.adapter.counts.unknown)
        return {form: dict(names.most_common()) for form, names in sorted(found.items()) if names}

    def _webhook_secret(self) -> bytes:
        return http.token(self._state / "webhook-secret").encode()

    def _announce(self, url: str | None) -> None:
        self._on_started(
            Started(
                url=url,
                verdicts=self._out,
                kept=self._kept,
                state=self._state,
                watched=tuple(path for group in self._groups for path in group.config.paths),
            )
        )

    def _trouble(self, path: Path, error: SourceError | None) -> None:
        if error is None:
            _log.info("source_recovered", path=str(path))
        elif path in self._agents and not path.exists():
            _log.info("agent_awaited", path=str(path))  # it has not been used here yet
        else:
            self._failed += 1
            self._metrics.source_read_errors_total.labels("io").inc()
            _log.warning("source_trouble", path=str(path), error=error.message, hint=error.hint)

    async def _let_go(self) -> None:
        """Close files that have vanished."""
        while self._gone:
            self._metrics.source_events_total.labels("vanished").inc()
            await self._forget(self._gone.pop())

    async def _forget(self, path: Path) -> None:
        reading = self._readings.pop(path, None)
        self._busy.pop(path, None)
        if reading is not None:
            if reading.adapter is not None:
                self._unknown.setdefault(reading.adapter.format, Counter()).update(reading.adapter.counts.unknown)
            async with reading.lock:
                await reading.source.aclose()

    def _is_out(self, path: Path) -> bool:
        """Is it what we write ourselves? Verdicts look like native steps, and must not feed on themselves.

        Nor is a label file a log.
        """
        try:
            if any(path.resolve() == labels.resolve() for labels in self._label_files):
                return True
            return path.name.startswith(self._out.name) and path.resolve().parent == self._out.resolve().parent
        except OSError:
            return False


def _room(state: Path) -> tuple[int, int]:
    """Bytes that are free for the state, and that its database takes."""
    return shutil.disk_usage(state).free, sum(path.stat().st_size for path in state.glob(f"{DATABASE}*"))


def _require_exchangeable(now: Config, then: Config) -> None:
    """Make sure that only such settings differ as a reload can change.

    Raises:
        ConfigError: Others do.
    """
    if fixed := _fixed(now, then):
        raise ConfigError(
            f"cannot be changed while verifierd runs: {', '.join(fixed)}",
            hint="Restart it, or undo that change; until then everything stays as it was.",
        )


def _fixed(now: msgspec.Struct, then: msgspec.Struct, place: str = "") -> list[str]:
    """The settings that differ, as a configuration spells them, and cannot change."""
    found = []
    for field in msgspec.structs.fields(type(now)):
        one, other = getattr(now, field.name), getattr(then, field.name)
        key = f"{place}{field.encode_name}"
        if one == other or key in _EXCHANGEABLE:
            continue
        found += _fixed(one, other, f"{key}.") if isinstance(one, msgspec.Struct) else [key]
    return found


def _allow_files() -> None:
    """Let this process open as many files as it may, within reason: macOS begins with 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # some systems promise more than they give
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _listeners() -> int:
    """How many may listen to events, so that there are always files left to open."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _LISTENERS if most == resource.RLIM_INFINITY else max(8, min(_LISTENERS, most - _FILES, most // 2))


def _newest_first(paths: Sequence[Path]) -> list[Path]:
    """By modification time; what cannot be looked at comes last and fails where it is opened."""

    def age(path: Path) -> float:
        try:
            return -path.stat().st_mtime
        except OSError:
            return 0.0

    return sorted(paths, key=age)


async def _signals(stop: anyio.Event, give_up: anyio.CancelScope) -> None:
    """The first signal asks to stop, the second not to wait."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if stop.is_set():
                give_up.cancel()
            stop.set()
