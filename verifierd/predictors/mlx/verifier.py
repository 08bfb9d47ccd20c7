"""Predicts steps of many trajectories with one model. Lives on the model's thread and knows nothing of time.

The observation is the draft: one pass over it says, token by token, what greedy decoding would have given, as far as
they agree, and how likely the rest was (speculative decoding's verification, Leviathan et al. 2023, with reality as
the draft and nothing to decode where it is accepted).
"""

from collections import OrderedDict
from collections.abc import Sequence

import mlx.core as mx
import msgspec

from verifierd.predictors.mlx import passes
from verifierd.predictors.mlx.passes import Cache, Network, Scored, Snapshot, Stopped
from verifierd.predictors.mlx.strand import Draft, Job, Renderer, Strand
from verifierd.types import Tokens

__all__ = ("Limits", "Outcome", "Verifier")

_REMEMBERED = 4096
"""Trajectories whose window is remembered after their cache was evicted: some integers each."""


_MERGED = 4
"""The part of the budget that the copies of a batch may take: a quarter, so that three remain for what is kept."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What predictions may use.

    Attributes:
        context: Tokens of a prompt with its answer.
        cache_bytes: Bytes of all prompt caches and snapshots together while nothing is computed.
        max_tokens: Tokens of a prediction.
        decode: Decode on from the first difference, so that there is a predicted text?
    """

    context: int
    cache_bytes: int
    max_tokens: int
    decode: bool

    @property
    def longest(self) -> int:
        """Tokens of the longest turn."""
        return self.context // 4


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the model made of a step.

    Attributes:
        draft: The real observation as an answer.
        scored: The model's statistics of the draft; None if it is too long.
        greedy: The tokens of plain greedy decoding as far as they are known: up to and with the first difference, or
            to the end if they were decoded.
        ended: The greedy answer is known to its end; False if it was not decoded, or reached the cap.
        dropped: Turns that no longer fit.
        tokens: What it cost.
    """

    draft: Draft
    scored: Scored | None
    greedy: list[int]
    ended: bool
    dropped: int
    tokens: Tokens


class Verifier:
    """See the module.

    Args:
        network: The model.
        renderer: Writes turns as tokens.
        ends: Tokens that end an answer.
        limits: What may be used.
    """

    def __init__(self, network: Network, renderer: Renderer, ends: frozenset[int], limits: Limits) -> None:
        self._network = network
        self._renderer = renderer
        self._ends = ends
        self._limits = limits
        self._strands: OrderedDict[tuple[object, ...], Strand] = OrderedDict()
        self._openings: dict[str, tuple[Cache, Snapshot, int]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all caches."""
        openings: int = sum(layer.nbytes for cache, _, _ in self._openings.values() for layer in cache)
        return openings + sum(strand.nbytes for strand in self._strands.values())

    def run(self, jobs: Sequence[Job], stopped: Stopped = lambda: None) -> list[Outcome]:
        """Predict a step of each of several trajectories, in one pass where there is more than one.

        Args:
            jobs: No two of one trajectory. One that is not to be kept comes alone.
            stopped: Raises if nobody waits any more; asked between chunks. What was computed until then is kept.
        """
        if not all(job.keep for job in jobs):
            (job,) = jobs
            return self._run_aside(job, stopped)
        try:
            return self._run(jobs, stopped)
        except BaseException:
            for job in jobs:
                if (strand := self._strands.get(job.key)) is not None:
                    strand.back()
            raise
        finally:
            self._evict()

    def forget(self, key: tuple[object, ...] | None = None) -> None:
        """Let go of what was computed for a trajectory, or for all; it is computed again when it is asked for."""
        for strand in self._strands.values() if key is None else filter(None, [self._strands.get(key)]):
            strand.drop()
        if key is None:
            self._openings.clear()
        mx.clear_cache()

    def _run(self, jobs: Sequence[Job], stopped: Stopped) -> list[Outcome]:
        # What a batch pads to the longest is no more than one chunk.
        keep = 1 if len(jobs) == 1 else self._network.chunk
        spared = [job.key for job in jobs]
        outcomes: list[Outcome] = []
        group: list[_Work] = []
        for job in jobs:
            work = self._work(job, stopped)
            self._prefill(work, keep, stopped)
            if group and not self._may_merge([*group, work]):
                outcomes += self._answer(group, spared, stopped)
                group = []
            group.append(work)
            self._evict(spared)
        return [*outcomes, *self._answer(group, spared, stopped)]

    def _run_aside(self, job: Job, stopped: Stopped) -> list[Outcome]:
        """Predict on a copy, for which nothing has to make room, and forget it."""
        openings = dict(self._openings)
        try:
            work = self._work(job, stopped)
            return self._answer([work], (), stopped)
        finally:
            self._openings = openings

    def _may_merge(self, works: "Sequence[_Work]") -> bool:
        """Are they of a kind, and is the copy that a batch makes of their caches within its share of the budget?"""
        layers = [work.strand.layers for work in works]
        return all(map(passes.mergeable, layers)) and _merged_bytes(works) <= self._limits.cache_bytes // _MERGED

    def _answer(
        self, works: "Sequence[_Work]", spared: Sequence[tuple[object, ...]], stopped: Stopped
    ) -> list[Outcome]:
        """Ask about all, together if there are several."""
        asked = [work for work in works if work.draft.whole]
        if len(asked) > 1:
            self._evict(spared, room=_merged_bytes(asked))
            self._ask_together(asked, stopped)
        else:
            for work in asked:
                self._prefill(work, 1, stopped)
                work.strand.asked(Snapshot(work.strand.layers))
                work.scored = passes.score(
                    self._network, [work.strand.ask()], [work.draft.ids], work.strand.layers, stopped=stopped
                )[0]
        self._decode([work for work in asked if self._open(work)], stopped)
        for work in asked:
            work.computed += len(work.strand.ask()) + len(work.draft.ids) - 1
            work.strand.answer(work.draft)
        return [self._outcome(work) for work in works]

    def _work(self, job: Job, stopped: Stopped) -> "_Work":
        strand = self._strands.get(job.key)
        known = len(self._openings)
        if strand is None:
            domain = (job.history[0] if job.history else job.step).domain
            room = self._limits.context - self._opening(domain, stopped)[2] - 2 * self._limits.longest
            strand = Strand(self._renderer, domain, room)
        elif not job.keep:
            strand = strand.aside()
        if job.keep:
            self._strands[job.key] = strand
            self._strands.move_to_end(job.key)
        seen = strand.seen
        computed = 0
        if not strand.follow(job):
            cache, snapshot, size = self._opening(strand.domain, stopped)
            computed = size if len(self._openings) > known else 0
            strand.begin(job, snapshot.branch(cache), size)
        return _Work(
            strand=strand,
            draft=self._renderer.draft(job.step),
            seen=seen,
            cached=strand.computed - computed,
            computed=computed,
        )

    def _opening(self, domain: str, stopped: Stopped) -> tuple[Cache, Snapshot, int]:
        """What all trajectories of a domain begin with, computed once."""
        if domain not in self._openings:
            tokens = self._renderer.opening(domain)
            cache = self._network.cache()
            passes.prefill(self._network, [tokens], cache, stopped=stopped)
            self._openings[domain] = cache, Snapshot(cache), len(tokens)
        return self._openings[domain]

    def _prefill(self, work: "_Work", keep: int, stopped: Stopped) -> None:
        """Compute what is pending but for the last tokens."""
        strand = work.strand
        if (rest := len(strand.pending) - keep) > 0:
            work.computed += rest
            passes.prefill(
                self._network, [strand.pending[:rest]], strand.layers, stopped=stopped, done=strand.computed_more
            )

    def _ask_together(self, works: "Sequence[_Work]", stopped: Stopped) -> None:
        """The same as one by one, as rows of one batch."""
        strands = [work.strand for work in works]
        rests = [strand.pending[:-1] for strand in strands]
        cache = passes.merged([strand.layers for strand in strands])
        passes.prefill(self._network, rests, cache, stopped=stopped)
        lengths = [strand.computed + len(rest) for strand, rest in zip(strands, rests, strict=True)]
        snapshots = [Snapshot.of_row(cache, row, length) for row, length in enumerate(lengths)]
        scored = passes.score(
            self._network,
            [[strand.pending[-1], *self._renderer.lead] for strand in strands],
            [work.draft.ids for work in works],
            cache,
            stopped=stopped,
        )
        # Until here nothing of the strands has changed.
        for row, (work, rest) in enumerate(zip(works, rests, strict=True)):
            work.computed += len(rest)
            work.scored = scored[row]
            work.strand.cache = passes.row(cache, row)
            work.strand.computed_more(len(rest))
            work.strand.asked(snapshots[row])

    def _open(self, work: "_Work") -> bool:
        """Is there a greedy answer beyond what is known of it, and does anybody want it?"""
        assert work.scored is not None
        known = work.known(self._limits.max_tokens)
        return self._limits.decode and len(known) < self._limits.max_tokens and known[-1] not in self._ends

    def _decode(self, works: "Sequence[_Work]", stopped: Stopped) -> None:
        """Go on from the first difference."""
        if not works:
            return
        most = self._limits.max_tokens
        known = [work.known(most) for work in works]
        prompts = [[*work.strand.ask(), *tokens] for work, tokens in zip(works, known, strict=True)]
        caches = [work.strand.branch() for work in works]
        left = [most - len(tokens) for tokens in known]
        decoded = passes.greedy(self._network, prompts, caches, most=left, ends=self._ends, stopped=stopped)
        for work, tokens in zip(works, decoded, strict=True):
            work.decoded = tokens

    def _outcome(self, work: "_Work") -> Outcome:
        strand = work.strand
        greedy = [*work.known(self._limits.max_tokens), *work.decoded] if work.scored else []
        return Outcome(
            draft=work.draft,
            scored=work.scored,
            greedy=greedy,
            ended=bool(greedy) and greedy[-1] in self._ends,
            dropped=strand.dropped,
            tokens=Tokens(
                prompt=strand.asked_at + len(self._renderer.lead),
                cached=work.cached,
                scored=len(work.draft.ids) if work.scored else 0,
                generated=len(work.decoded),
                computed=work.computed,
                new=strand.seen - work.seen,
            ),
        )

    def _evict(self, spared: Sequence[tuple[object, ...]] = (), *, room: int = 0) -> None:
        """Keep within the budget but for some room: the trajectories used last keep what was computed."""
        held = self.nbytes + room
        for key, strand in self._strands.items():
            if held <= self._limits.cache_bytes:
                break
            if key in spared:
                continue
            held -= strand.nbytes
            strand.drop()
        while len(self._strands) > _REMEMBERED:
            self._strands.popitem(last=False)


def _merged_bytes(works: "Sequence[_Work]") -> int:
    """Bytes of their caches as rows of one, each padded to the longest."""
    return len(works) * max(work.strand.nbytes for work in works)


class _Work(msgspec.Struct, kw_only=True):
    """A job on its way."""

    strand: Strand
    draft: Draft
    seen: int
    cached: int
    computed: int
    scored: Scored | None = None
    decoded: list[int] = []

    def known(self, most: int) -> list[int]:
        """The greedy tokens that the pass over the draft tells: up to and with the first difference."""
        assert self.scored is not None
        agreed = self.scored.agreed(self.draft.ids)
        return self.scored.greedy[: min(agreed + 1, most)]
