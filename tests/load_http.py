"""How much people who look on delay verdicts: `python -m tests.load_http`.

A daemon judges the same work by turns alone and while a second process asks its API 50 times a second and holds 1,000
streams of events open. Each round gives a pair, so that what else the machine does falls out of the ratio:

- `live`: mean time from a line's reading to its verdict, of steps that come at an even pace (the daemon's own measure);
- `written`: median time from the writing of a line to its verdict's line in the JSONL, of the same steps;
- `backlog`: time for many steps that are there at once.
"""

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers import Live, echo, jsonl

_HELLO = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class _Stream(asyncio.Protocol):
    """Costs as little as it can: it counts."""

    def __init__(self, of: "Onlookers") -> None:
        self._of = of
        self.begun = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        if self.begun.is_set():
            self._of.bytes += len(data)
        else:
            self.begun.set()
            if b" 200 " in data[:20]:
                self._of.opened += 1
            else:
                self._of.failures.append(data[:80].decode())

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None or not self.begun.is_set():
            self._of.failures.append(f"a stream ended: {exc}")
        self.begun.set()


class Onlookers:
    """The other process: streams that are read to no end, and requests at an even pace."""

    def __init__(self, port: int, streams: int, rate: float) -> None:
        self._port, self._streams, self._rate = port, streams, rate
        self.bytes = self.answers = 0
        self.failures: list[str] = []
        self.seconds: list[float] = []
        self.opened = 0

    async def listen(self) -> None:
        stream = _Stream(self)
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: stream, "127.0.0.1", self._port)
        transport.write(_HELLO % b"/api/events")
        try:
            await asyncio.sleep(3600)
        finally:
            transport.abort()

    async def ask(self) -> None:
        paths = await self._paths()
        free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        for _ in range(8):
            free.put_nowait(await asyncio.open_connection("127.0.0.1", self._port))

        async def one(path: str) -> None:
            began = time.perf_counter()
            reader, writer = await free.get()
            writer.write(_HELLO % path.encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
            if b" 200 " not in head[:20]:
                self.failures.append(f"{path}: {head[:40]!r}")
            free.put_nowait((reader, writer))
            self.answers += 1
            self.seconds.append(time.perf_counter() - began)

        async with asyncio.TaskGroup() as tasks:
            due = time.perf_counter()
            while True:
                tasks.create_task(one(random.choice(paths)))
                due += 1 / self._rate
                await asyncio.sleep(max(0, due - time.perf_counter()))

    async def _paths(self) -> list[str]:
        def get(path: str) -> dict[str, object]:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}") as answer:
                return dict(json.load(answer))

        runs = (await asyncio.to_thread(get, "/api/trajectories?limit=5"))["trajectories"]
        assert isinstance(runs, list)
        paths = ["/api/summary", "/api/trajectories", "/api/trajectories?verdict=off_path", "/api/quarantine"]
        for run in runs:
            steps = (await asyncio.to_thread(get, f"/api/trajectories/{run['id']}/steps"))["steps"]
            assert isinstance(steps, list)
            paths += [f"/api/trajectories/{run['id']}/steps", f"/api/verdicts/{steps[0]['verdict_id']}"]
            paths += [f"/api/verdicts/{steps[-1]['verdict_id']}/record", f"/api/labels?id={steps[-1]['step_id']}"]
        return paths

    async def run(self) -> None:
        """Begin and end as standard input says."""
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            self.bytes = self.answers = self.opened = 0
            self.failures, self.seconds = [], []
            streams = [asyncio.create_task(self.listen()) for _ in range(self._streams)]
            while self.opened < self._streams and not self.failures:  # noqa: ASYNC110 - either may come first
                await asyncio.sleep(0.05)
            asking = asyncio.create_task(self.ask())
            print("on", flush=True)  # noqa: T201
            await loop.run_in_executor(None, sys.stdin.readline)
            told = {
                "bytes": self.bytes,
                "answers": self.answers,
                "opened": self.opened,
                "failures": self.failures[:5],
                "p50": statistics.median(self.seconds or [0]),
                "p99": sorted(self.seconds or [0])[int(len(self.seconds) * 0.99)] if self.seconds else 0,
            }
            for task in (*streams, asking):
                task.cancel()
            await asyncio.gather(*streams, asking, return_exceptions=True)
            print(json.dumps(told), flush=True)  # noqa: T201


class Work:
    """Feeds a daemon and takes the time."""

    def __init__(self, daemon: Live, log: Path, verdicts: Path) -> None:
        self._daemon, self._log, self._verdicts = daemon, log, verdicts
        self._count = self._written = 0

    def _add(self, steps: int) -> None:
        self._count += 1
        with self._log.open("ab") as file:
            file.write(jsonl(*echo(f"t{self._count}", steps)))
        self._written += steps

    def _wait(self, seen: int) -> int:
        """Until all that was written has its verdict's line."""
        end = time.monotonic() + 120
        with self._verdicts.open("rb") as file:
            file.seek(seen)
            lines = 0
            while True:
                lines += file.read().count(b"\n")
                if lines >= self._written:
                    return file.tell()
                assert time.monotonic() < end, f"{lines} of {self._written}"
                time.sleep(0.002)

    def live(self, seconds: float, pace: float) -> tuple[float, float]:
        """Mean time from reading to verdict, and median time from writing to the verdict's line."""
        before, waits = self._measure(), []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            seen = self._verdicts.stat().st_size
            self._written = 0
            began = time.perf_counter()
            self._add(5)
            self._wait(seen)
            waits.append(time.perf_counter() - began)
            time.sleep(max(0, 5 / pace - waits[-1]))
        after = self._measure()
        return (after[0] - before[0]) / (after[1] - before[1]), statistics.median(waits)

    def backlog(self, steps: int) -> float:
        """Seconds for so many steps."""
        seen = self._verdicts.stat().st_size
        self._written = 0
        began = time.perf_counter()
        for _ in range(steps // 50):
            self._add(50)
        self._wait(seen)
        return time.perf_counter() - began

    def _measure(self) -> tuple[float, float]:
        with urllib.request.urlopen(f"{self._daemon.url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        name = "verifierd_time_to_verdict_seconds"
        found = {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith(name)}
        return found[f"{name}_sum"], found[f"{name}_count"]


@contextmanager
def onlookers(port: int, streams: int, rate: float) -> Iterator[Callable[[str], str]]:
    """Says `on` or `off` to the other process, and gives what it answers."""
    command = [sys.executable, "-m", "tests.load_http", "--look", str(port), f"--streams={streams}", f"--rate={rate}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        to, back = process.stdin, process.stdout

        def say(word: str) -> str:
            assert to is not None
            assert back is not None
            to.write(word + "\n")
            to.flush()
            return back.readline()

        try:
            yield say
        finally:
            assert to is not None
            to.close()


def measure(rounds: int, streams: int, rate: float, seconds: float, steps: int) -> dict[str, object]:
    """The pairs and their ratios."""
    kinds = ("live", "written", "backlog")
    pairs: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    looked: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        log, state = Path(folder, "log.jsonl"), Path(folder, "state")
        log.write_bytes(jsonl(*echo("first", 200)))
        with Live(state, log, "--port", "0") as daemon:
            work = Work(daemon, log, state / "verdicts.jsonl")
            time.sleep(2)
            work.live(seconds, 20)
            port = int(str(daemon.url).rsplit(":", 1)[1])
            with onlookers(port, streams, rate) as say:
                for number in range(rounds):
                    taken: dict[bool, tuple[float, float, float]] = {}
                    for watched in (False, True) if number % 2 else (True, False):
                        if watched:
                            assert say("on") == "on\n"
                        taken[watched] = (*work.live(seconds, 20), work.backlog(steps))
                        if watched:
                            looked.append(json.loads(say("off")))
                        time.sleep(1)
                    for kind, alone, seen in zip(kinds, taken[False], taken[True], strict=True):
                        pairs[kind].append((alone, seen))
    return {
        "ratio": {kind: statistics.median(seen / alone for alone, seen in pairs[kind]) for kind in kinds},
        "pairs": pairs,
        "looked": looked,
    }


def main() -> None:
    """Measure, or look on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--look", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--steps", type=int, default=1000)
    given = parser.parse_args()
    if given.look is not None:
        asyncio.run(Onlookers(given.look, given.streams, given.rate).run())
        return
    found = measure(given.rounds, given.streams, given.rate, given.seconds, given.steps)
    print(json.dumps(found, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
