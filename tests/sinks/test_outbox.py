"""What is told to the world outside: all of it, in order, at least once, and never in the way of verdicts."""

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest

from verifierd.sinks.outbox import Due, Later, Outbox, Refused
from verifierd.store import Commit, Raised, Store
from verifierd.types import Alarm, Origin, Verdict, VerdictKind

BOTH = ("off_path", "alarm")


def verdict(number: int, kind: str = "off_path") -> Verdict:
    return Verdict(
        verdict_id=f"v{number}",
        step_id=f"s{number}",
        trajectory="t",
        step=number,
        tool="bash",
        domain="terminal",
        verdict=VerdictKind(kind),
        reason="contradiction",
        predictor="shell",
        policy="default",
        origin=Origin(path="a.jsonl", offset=number),
        time="2026-01-01T00:00:00Z",
    )


class Receiver:
    """A courier that does as it is told by the id and the number of the try."""

    kind = "webhook"
    target = "nowhere"

    def __init__(self, answer: Callable[[str, int], Exception | None] = lambda _id, _try: None) -> None:
        self.answer = answer
        self.tries: list[str] = []
        self.taken: list[str] = []
        self.lines: list[bytes] = []
        self.closed = False
        self.now = self.most = 0

    async def deliver(self, due: Due) -> None:
        self.tries.append(due.verdict_id)
        self.now += 1
        self.most = max(self.most, self.now)
        await anyio.lowlevel.checkpoint()
        self.now -= 1
        if error := self.answer(due.verdict_id, self.tries.count(due.verdict_id)):
            raise error
        self.taken.append(due.verdict_id)
        self.lines.append(due.line)

    async def aclose(self) -> None:
        self.closed = True


def outbox(store: Store, receiver: Receiver, *, on: Sequence[str] = BOTH, parallel: int = 1) -> Outbox:
    return Outbox(store, receiver, name="one", on=on, parallel=parallel, pause=0.001)


@pytest.mark.anyio
async def test_it_tells_what_comes_after_it_was_asked_for() -> None:
    """A new one begins with the next verdict, and gets whole lines in order, without their ends."""
    async with Store() as store:
        await store.commit(Commit(verdicts=[verdict(1)]))
        receiver = Receiver()
        box = outbox(store, receiver)
        await box.open()
        await store.commit(Commit(verdicts=[verdict(number) for number in range(2, 60)]))
        await box.flush()
        await box.aclose()

    assert receiver.taken == [f"v{number}" for number in range(2, 60)]
    assert msgspec.json.decode(receiver.lines[0], type=Verdict).step == 2
    assert b"\n" not in receiver.lines[0]
    assert receiver.closed


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("on", "told"),
    [
        (("off_path",), ["v2"]),
        (("alarm",), ["v3"]),
        (("off_path", "alarm"), ["v2", "v3"]),
        (("on_path", "abstain"), ["v1", "v3"]),
    ],
)
async def test_it_tells_what_was_asked_for(on: Sequence[str], told: list[str]) -> None:
    """Kinds of verdicts, and those at which a trajectory alarmed, whatever their kind."""
    async with Store() as store:
        receiver = Receiver()
        box = outbox(store, receiver, on=on)
        await box.open()
        alarm = Alarm(statistic=2, threshold=1, raised=True, new=True, first_bad=2)
        raised = Raised(key=("native", "t"), run=0, verdict_id="v3", step=3, alarm=alarm)
        kinds = ["on_path", "off_path", "abstain"]
        verdicts = [verdict(number, kind) for number, kind in enumerate(kinds, 1)]
        await store.commit(Commit(verdicts=verdicts, alarms=[raised]))
        await box.flush()

    assert receiver.taken == told


@pytest.mark.anyio
async def test_what_was_not_taken_is_tried_again_before_the_next() -> None:
    """A receiver that is away holds up its own verdicts alone, and gets them in order once it is back."""
    counted: list[str] = []
    async with Store() as store:
        receiver = Receiver(lambda name, tries: Later("away") if name == "v1" and tries < 4 else None)
        box = Outbox(store, receiver, name="one", on=BOTH, count=counted.append, pause=0.001)
        await box.open()
        await store.commit(Commit(verdicts=[verdict(1), verdict(2)]))
        await box.flush()

    assert receiver.tries == ["v1"] * 4 + ["v2"]
    assert counted == ["retried"] * 3 + ["delivered"] * 2


@pytest.mark.anyio
async def test_what_is_refused_is_passed_over() -> None:
    """One that will never be taken does not stop the others."""
    counted: list[str] = []
    async with Store() as store:
        receiver = Receiver(lambda name, _tries: Refused("no") if name == "v1" else None)
        box = Outbox(store, receiver, name="one", on=BOTH, count=counted.append)
        await box.open()
        await store.commit(Commit(verdicts=[verdict(1), verdict(2)]))
        await box.flush()

    assert receiver.tries == ["v1", "v2"]
    assert counted == ["refused", "delivered"]


@pytest.mark.anyio
async def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    """What was not taken before a stop is told after it, also what was judged in between; what was taken is not."""
    receiver = Receiver(lambda name, _tries: None if name == "v1" else Later("away"))
    async with Store(tmp_path) as store:
        box = outbox(store, receiver)
        await box.open()
        await store.commit(Commit(verdicts=[verdict(1), verdict(2)]))
        with anyio.move_on_after(0.05):
            await box.flush()
        await box.aclose()
    again = Receiver()
    async with Store(tmp_path) as store:
        await store.commit(Commit(verdicts=[verdict(3)]))
        box = outbox(store, again)
        await box.open()
        await box.flush()

    assert receiver.taken == ["v1"]
    assert again.taken == ["v2", "v3"]


@pytest.mark.anyio
async def test_verdicts_of_no_interest_cost_no_write(tmp_path: Path) -> None:
    """How far it came is written where something was told, and at the end."""
    async with Store(tmp_path) as store:
        box = outbox(store, Receiver())
        await box.open()
        await store.commit(Commit(verdicts=[verdict(number, "abstain") for number in range(1, 5)]))
        await box.flush()
        assert await store.mark("one") == 0
        await box.aclose()
        assert await store.mark("one") == 4


@pytest.mark.anyio
async def test_so_many_at_once_and_no_more() -> None:
    """Several are under way together where that is allowed."""
    async with Store() as store:
        receiver = Receiver()
        box = outbox(store, receiver, parallel=3)
        await box.open()
        await store.commit(Commit(verdicts=[verdict(number) for number in range(1, 20)]))
        await box.flush()

    assert receiver.most == 3
    assert sorted(receiver.taken) == sorted(f"v{number}" for number in range(1, 20))


@pytest.mark.anyio
async def test_a_verdict_waits_for_nobody() -> None:
    """While a receiver hangs, verdicts are committed and passed on, and all are told once it answers."""
    answers = anyio.Event()

    class Hanging(Receiver):
        async def deliver(self, due: Due) -> None:
            await answers.wait()
            await super().deliver(due)
            if len(self.taken) == 100:
                tasks.cancel_scope.cancel()

    async with Store() as store, anyio.create_task_group() as tasks:
        receiver = Hanging()
        box = outbox(store, receiver)
        await box.open()
        tasks.start_soon(box.run)
        for number in range(1, 101):
            await box.emit(await store.commit(Commit(verdicts=[verdict(number)])))
        assert receiver.taken == []
        answers.set()
        tasks.cancel_scope.deadline = anyio.current_time() + 10

    assert receiver.taken == [f"v{number}" for number in range(1, 101)]
