"""The model's thread: queue, batches, cancellation, failures, and its end."""

import asyncio
import threading
from collections.abc import Callable, Sequence

import anyio
import anyio.lowlevel
import pytest

pytest.importorskip("mlx_lm")

from tests.helpers import ran
from verifierd.errors import PredictorError
from verifierd.predictors.mlx.engine import Engine, OutOfMemory, Unwanted
from verifierd.predictors.mlx.strand import Job
from verifierd.predictors.mlx.talk import Talk
from verifierd.stages import Asked, Message, Reply
from verifierd.types import Prediction

pytestmark = pytest.mark.anyio


class Slow:
    """A runner whose passes end when they are told to, or when nobody wants them."""

    def __init__(self, *, held: bool = False, errors: Sequence[Exception] = ()) -> None:
        self.batches: list[list[str]] = []
        self.forgotten: list[tuple[object, ...] | None] = []
        self.stops = 0
        self.begun = threading.Event()
        self.free = threading.Event()
        self.errors = list(errors)
        if not held:
            self.free.set()

    def run(self, jobs: Sequence[Job], stopped: Callable[[], None]) -> list[Prediction]:
        """Note the batch; wait, a chunk at a time."""
        self.batches.append([job.step.observation for job in jobs])
        self.begun.set()
        while not self.free.wait(0.002):
            try:
                stopped()
            except Unwanted:
                self.stops += 1
                raise
        if self.errors:
            raise self.errors.pop(0)
        return [Prediction(predictor="mlx", text=job.step.observation) for job in jobs]

    def reply(self, talk: Talk, stopped: Callable[[], None]) -> Reply:
        """Say the last message back, in a pass of its own."""
        self.batches.append([talk.messages[-1].content])
        stopped()
        if self.errors:
            raise self.errors.pop(0)
        return Reply(
            text=talk.messages[-1].content,
            thought="",
            finish="stop",
            prompt_tokens=1,
            generated_tokens=1,
            seconds=0.0,
            first_token_seconds=0.0,
            model="m",
        )

    def forget(self, key: tuple[object, ...] | None = None) -> None:
        """Note it."""
        self.forgotten.append(key)


def _job(trajectory: str, word: str = "", *, keep: bool = True) -> Job:
    return Job(key=("native", trajectory, 0), history=(), total=0, step=ran("x", word or trajectory), keep=keep)


def _talk(text: str) -> Talk:
    return Talk(messages=[Message("user", text)], asked=Asked(max_tokens=4))


async def _until(so: Callable[[], object]) -> None:
    with anyio.fail_after(20):
        while not so():  # noqa: ASYNC110 - a thread sets it
            await anyio.sleep(0.002)


async def test_a_step_goes_in_and_its_prediction_comes_out() -> None:
    """The runner is made and used on a thread that is not the loop's."""
    threads = []

    class Noting(Slow):
        def run(self, jobs: Sequence[Job], stopped: Callable[[], None]) -> list[Prediction]:
            threads.append(threading.current_thread())
            return super().run(jobs, stopped)

    def load() -> Slow:
        threads.append(threading.current_thread())
        return Noting()

    engine = Engine(load, batch=8)
    assert (await engine.ask(_job("a"))).text == "a"
    await engine.aclose()
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()
    assert engine._ended.is_set()


async def test_what_cannot_be_loaded_is_raised_where_it_is_asked_for() -> None:
    """The error of the thread is the caller's."""

    def load() -> Slow:
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        Engine(load, batch=8)


async def test_the_loop_goes_on_while_a_pass_runs() -> None:
    """A deadline ends the waiting of the caller, and the loop is never blocked."""
    runner = Slow(held=True)
    engine = Engine(lambda: runner, batch=8)
    turns = 0
    with anyio.move_on_after(0.2) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.ask, _job("a"))
            while True:
                turns += 1
                await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert turns > 20
    await engine.aclose()


async def test_a_cancelled_caller_ends_the_pass_at_its_next_chunk() -> None:
    """And the thread takes what comes next, also where everything that waited has gone."""
    runner = Slow(held=True)
    engine = Engine(lambda: runner, batch=8)
    for _ in range(2):
        runner.begun.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.ask, _job("a"))
            await _until(runner.begun.is_set)
            tasks.start_soon(engine.ask, _job("b"))  # waits behind it, and goes with it
            await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    await _until(lambda: runner.stops == 2)
    runner.free.set()
    with anyio.fail_after(20):
        assert (await engine.ask(_job("c"))).text == "c"
    assert runner.batches[-1] == ["c"]
    await engine.aclose()


async def test_a_pass_goes_on_while_one_of_its_steps_is_wanted() -> None:
    """One caller who gives up costs the others nothing."""
    runner = Slow(held=True)
    engine = Engine(lambda: runner, batch=8)
    texts: list[str | None] = []

    async def ask(trajectory: str) -> None:
        texts.append((await engine.ask(_job(trajectory))).text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "first")
        await _until(runner.begun.is_set)
        async with anyio.create_task_group() as some:
            some.start_soon(ask, "a")
            tasks.start_soon(ask, "b")
            await anyio.sleep(0.01)
            runner.begun.clear()
            runner.free.set()
            await _until(runner.begun.is_set)
            some.cancel_scope.cancel()
    assert set(texts) >= {"first", "b"}
    assert runner.stops == 0
    await engine.aclose()


async def test_batches_form_from_what_waits() -> None:
    """At most one step of each trajectory and as many as allowed; each trajectory's steps in their order."""
    runner = Slow(held=True)
    engine = Engine(lambda: runner, batch=3)
    jobs = [_job("a", "a1"), _job("a", "a2"), _job("b", "b1"), _job("a", "a3"), _job("c", "c1"), _job("d", "d1")]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.ask, _job("z"))
        await _until(runner.begun.is_set)
        for job in jobs:
            tasks.start_soon(engine.ask, job)
        await anyio.sleep(0.05)
        runner.free.set()
    assert runner.batches == [["z"], ["a1", "b1", "c1"], ["a2", "d1"], ["a3"]]
    await engine.aclose()


async def test_what_leaves_no_trace_waits_and_goes_alone() -> None:
    """Until no other step waits; where it fails no cache is let go of."""
    runner = Slow(held=True)
    engine = Engine(lambda: runner, batch=3)
    failures: list[str] = []

    async def aside(trajectory: str) -> None:
        try:
            await engine.ask(_job(trajectory, keep=False))
        except (ValueError, OutOfMemory) as error:
            failures.append(f"{type(error).__name__} {error}")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.ask, _job("z"))
        await _until(runner.begun.is_set)
        tasks.start_soon(aside, "shadow")
        for trajectory in "ab":
            tasks.start_soon(engine.ask, _job(trajectory))
        tasks.start_soon(aside, "b")
        await anyio.sleep(0.05)
        runner.free.set()
    assert runner.batches == [["z"], ["a", "b"], ["shadow"], ["b"]]
    runner.errors = [ValueError("odd"), MemoryError("all")]
    await aside("a")
    await aside("a")
    assert failures == ["ValueError odd", "OutOfMemory all"]
    assert runner.forgotten == []
    await engine.aclose()


async def test_a_talk_waits_for_steps() -> None:
    """It comes alone once no step waits, and its failure is the talker's alone."""
    runner = Slow(held=True)
    engine = Engine(lambda: runner, batch=3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.ask, _job("z"))
        await _until(runner.begun.is_set)
        tasks.start_soon(engine.talk, _talk("hello"))
        for trajectory in "ab":
            tasks.start_soon(engine.ask, _job(trajectory))
        await anyio.sleep(0.05)
        runner.free.set()
    assert runner.batches == [["z"], ["a", "b"], ["hello"]]
    assert (await engine.talk(_talk("again"))).text == "again"
    runner.errors = [PredictorError("too long"), ValueError("odd")]
    with pytest.raises(PredictorError, match="too long"):
        await engine.talk(_talk("x"))
    with pytest.raises(ValueError, match="odd"):
        await engine.talk(_talk("x"))
    assert runner.forgotten == []
    await engine.aclose()
    with pytest.raises(Unwanted):
        await engine.talk(_talk("x"))


async def test_a_failing_pass_costs_its_steps_only() -> None:
    """What it computed is let go of, its steps are tried one by one, and the thread lives on."""
    runner = Slow(held=True)
    engine = Engine(lambda: runner, batch=8)
    outcomes: dict[str, object] = {}

    async def ask(trajectory: str) -> None:
        try:
            outcomes[trajectory] = (await engine.ask(_job(trajectory))).text
        except ValueError as error:
            outcomes[trajectory] = str(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "z")
        await _until(runner.begun.is_set)
        for trajectory in "ab":
            tasks.start_soon(ask, trajectory)
        await anyio.sleep(0.05)
        runner.errors = [ValueError("first"), ValueError("batch"), ValueError("a alone")]
        runner.free.set()
    assert outcomes == {"z": "first", "a": "a alone", "b": "b"}
    assert runner.batches == [["z"], ["a", "b"], ["a"], ["b"]]
    assert None not in runner.forgotten
    assert ("native", "b", 0) in runner.forgotten
    assert (await engine.ask(_job("c"))).text == "c"
    await engine.aclose()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("std::bad_alloc"),
        RuntimeError("[malloc] Unable to allocate 1073741824 bytes."),
        RuntimeError(
            "[metal::malloc] Attempting to allocate 48736917632 bytes which is greater than the maximum allowed buffer "
            "size of 30150672384 bytes."
        ),
        RuntimeError("[metal::malloc] Resource limit (499000) exceeded."),
        RuntimeError(
            "[METAL] Command buffer execution failed: Insufficient Memory "
            "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"
        ),
        RuntimeError("cudaMallocAsync(&data, size, stream) failed: out of memory"),
    ],
    ids=str,
)
async def test_out_of_memory(error: Exception) -> None:
    """In whatever words: every cache is let go of, and the next step is predicted."""
    runner = Slow(errors=[error])
    engine = Engine(lambda: runner, batch=8)
    with pytest.raises(OutOfMemory):
        await engine.ask(_job("a"))
    assert None in runner.forgotten
    assert (await engine.ask(_job("a"))).text == "a"
    await engine.aclose()


async def test_a_failed_pass_holds_no_arrays_while_its_steps_are_tried_again() -> None:
    """The locals of the frames that an error came through are let go of first."""
    held: list[bool] = []

    class Array:
        alive = 0

        def __init__(self) -> None:
            Array.alive += 1

        def __del__(self) -> None:
            Array.alive -= 1

    class Large(Slow):
        def run(self, jobs: Sequence[Job], stopped: Callable[[], None]) -> list[Prediction]:
            held.append(Array.alive > 0)
            array = Array()
            done = super().run(jobs, stopped)
            del array
            return done

        def forget(self, key: tuple[object, ...] | None = None) -> None:
            held.append(Array.alive > 0)
            super().forget(key)

    engine = Engine(lambda: Large(errors=[RuntimeError("[malloc] Unable to allocate 1 bytes.")]), batch=8)
    with pytest.raises(OutOfMemory):
        await engine.ask(_job("a"))
    assert (await engine.ask(_job("a"))).text == "a"
    assert not any(held)
    await engine.aclose()


async def test_closing_ends_a_pass_at_its_next_chunk() -> None:
    """Whoever waits is told so, in the pass or in the queue, and later callers too; closing again does nothing."""
    runner = Slow(held=True)
    engine = Engine(lambda: runner, batch=1)
    refused = []

    async def ask(trajectory: str) -> None:
        try:
            await engine.ask(_job(trajectory))
        except Unwanted:
            refused.append(trajectory)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for trajectory in "abc":
                tasks.start_soon(ask, trajectory)
            await _until(runner.begun.is_set)
            await engine.aclose()
        await ask("d")
        await engine.aclose()
    assert sorted(refused) == list("abcd")
    assert runner.stops == 1


async def test_closing_ends_the_thread_where_the_caller_is_cancelled() -> None:
    """An interpreter must not end under a running pass."""
    runner = Slow(held=True)
    engine = Engine(lambda: runner, batch=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.ask, _job("a"))
        await _until(runner.begun.is_set)
        tasks.cancel_scope.cancel()
        await engine.aclose()
    assert engine._ended.is_set()


async def test_the_first_interrupt_ends_loading() -> None:
    """The loop stands still while a model is loaded, so the cancellation is looked for."""
    free = threading.Event()

    async def make() -> Engine:
        task = asyncio.current_task()
        assert task is not None
        threading.Timer(0.1, task.cancel).start()  # as a signal's handler does, while the task runs

        def load() -> Slow:
            free.wait(20)
            return Slow()

        return Engine(load, batch=1)

    task = asyncio.create_task(make())
    with pytest.raises(asyncio.CancelledError):
        await task
    free.set()


def test_a_loop_that_ends_before_delivery_holds_nothing_up() -> None:
    """The thread does not wait for whoever waited, and serves the next loop."""
    runner = Slow(held=True)
    engine = Engine(lambda: runner, batch=8)

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(engine.ask(_job("a")))
        await _until(runner.begun.is_set)
        loop.call_soon(loop.stop)
        await task

    loop = asyncio.new_event_loop()
    task = loop.create_task(leave())
    with pytest.raises(RuntimeError, match="stopped before"):
        loop.run_until_complete(task)
    runner.free.set()

    async def next_one() -> str | None:
        with anyio.fail_after(20):
            text = (await engine.ask(_job("b"))).text
        await engine.aclose()
        return text

    assert asyncio.run(next_one()) == "b"
    for left in asyncio.all_tasks(loop):
        left.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()


async def test_a_thread_that_cannot_go_on_keeps_nobody_waiting() -> None:
    """Where a device is lost, letting go of what was computed fails, too."""

    class Lost(Slow):
        def forget(self, key: tuple[object, ...] | None = None) -> None:
            super().forget(key)
            raise RuntimeError("the device is lost")

    runner = Lost(held=True, errors=[RuntimeError("the device is lost")])
    engine = Engine(lambda: runner, batch=1)
    async with anyio.create_task_group() as group:
        group.start_soon(engine.ask, _job("a"))
        await _until(runner.begun.is_set)
        runner.free.set()
        with anyio.fail_after(20), pytest.raises(Unwanted):
            await engine.ask(_job("b"))
        group.cancel_scope.cancel()
    with pytest.raises(Unwanted):
        await engine.ask(_job("c"))
    with anyio.fail_after(10):
        await engine.aclose()
