"""The ring of recent verdicts."""

import msgspec
import pytest

from verifierd.sinks.recent import Recent
from verifierd.store import StoredVerdict
from verifierd.types import Origin, Verdict, VerdictKind


def verdict(seq: int, kind: str = "on_path", observed: str = "") -> Verdict:
    return Verdict(
        seq=seq,
        verdict_id=f"v{seq}",
        step_id=f"s{seq}",
        trajectory="t",
        step=seq,
        tool="bash",
        domain="terminal",
        verdict=VerdictKind(kind),
        reason="exact",
        observed=observed,
        predictor="shell",
        policy="default",
        origin=Origin(path="a.jsonl", offset=0),
        time="2026-01-01T00:00:00Z",
    )


def seqs(recent: Recent, limit: int = 100, **wanted: object) -> list[int]:
    return [v.seq for v in recent.list(limit, **wanted)]  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_newest_first() -> None:
    """The last verdict comes first, whatever its kind."""
    recent = Recent()
    await recent.emit([verdict(1), verdict(2, "off_path"), verdict(3, "abstain")])

    assert seqs(recent) == [3, 2, 1]
    assert seqs(recent, 2) == [3, 2]


@pytest.mark.anyio
async def test_filters() -> None:
    """One kind only, and only what came after a number."""
    recent = Recent()
    await recent.emit([verdict(n, "off_path" if n % 2 else "on_path") for n in range(1, 7)])

    assert seqs(recent, verdict=VerdictKind.OFF_PATH) == [5, 3, 1]
    assert seqs(recent, after=4) == [6, 5]
    assert seqs(recent, 1, verdict=VerdictKind.ON_PATH, after=2) == [6]


@pytest.mark.anyio
async def test_flagged_outlive_the_many() -> None:
    """A step off path is still there when thousands of others have come and gone."""
    recent = Recent(size=3, flagged=2)
    await recent.emit([verdict(1, "off_path"), *(verdict(n) for n in range(2, 5000))])

    assert seqs(recent) == [4999, 4998, 4997, 1]

    await recent.emit([verdict(5000, "off_path"), verdict(5001, "off_path")])

    assert seqs(recent, verdict=VerdictKind.OFF_PATH) == [5001, 5000]


@pytest.mark.anyio
async def test_memory_is_bounded() -> None:
    """Enormous quotes push out the oldest, those off path last."""
    recent = Recent(max_bytes=100)
    await recent.emit([verdict(1, "off_path", "x" * 40), verdict(2, observed="x" * 40), verdict(3, observed="x" * 40)])

    assert seqs(recent) == [3, 1]

    await recent.emit([verdict(4, "off_path", "x" * 90)])

    assert seqs(recent) == [4]


@pytest.mark.anyio
async def test_preload() -> None:
    """After a restart the ring holds what the store kept, but for lines that nobody can read any more."""

    def stored(seq: int, line: bytes | None = None) -> StoredVerdict:
        v = verdict(seq)
        return StoredVerdict(
            seq=seq,
            verdict_id=v.verdict_id,
            step_id=v.step_id,
            trajectory=v.trajectory,
            verdict=v.verdict,
            time=0.0,
            line=line or msgspec.json.encode(v) + b"\n",
        )

    recent = Recent()
    recent.preload([stored(3), stored(2, b'{"schema": 99}\n'), stored(1)])
    await recent.emit([verdict(4)])

    assert seqs(recent) == [4, 3, 1]
    assert recent.list(1) == (verdict(4),)
