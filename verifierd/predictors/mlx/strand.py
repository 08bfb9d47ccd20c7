"""One trajectory's conversation with the model: what its cache holds, and what is to come.

A strand knows tokens only as counts and as what is pending, so a step costs its own tokens and no more.
"""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from verifierd.predictors import prompt
from verifierd.predictors.mlx.passes import Cache, Snapshot
from verifierd.predictors.mlx.template import ChatTemplate
from verifierd.types import Step

__all__ = ("Draft", "Job", "Renderer", "Strand")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A step to be predicted.

    Attributes:
        key: Names the trajectory and its run.
        history: The steps that are still held, oldest first.
        total: How many steps there were, those no longer held included.
        step: The step.
        keep: Keep what is computed for it?
    """

    key: tuple[object, ...]
    history: Sequence[Step]
    total: int
    step: Step
    keep: bool = True

    def at(self, number: int) -> Step:
        """The step with this number in the history, from 0."""
        return self.history[number - self.oldest]

    @property
    def oldest(self) -> int:
        """Number of the oldest step that is still held."""
        return self.total - len(self.history)


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A real observation as the answer that the model would have to give.

    Attributes:
        ids: Wrapper, observation, wrapper, end of turn.
        first, last: The tokens of the observation are `ids[first:last]`; `ids[last]` follows it.
        starts: Where each of these begins, in characters of the step's observation; empty if the tokenizer cannot say.
        whole: False if the observation was too long and lost its middle.
    """

    ids: list[int]
    first: int
    last: int
    starts: list[int]
    whole: bool


class Renderer:
    """Writes turns as tokens.

    A turn of the past is `action, shared, past, answer, closing`; the one asked about `action, shared, lead, answer`.
    With the history `stable` a past answer begins like one that is asked for, so that what was computed stays as it
    is; with `template` it begins as the chat template writes the past, and is computed again.

    Args:
        template: The model's chat template.
        form: How actions and observations are written.
        history: See above.
        prompts: A folder of system prompts; None for the bundled ones.
        longest: Tokens of the longest action and of the longest answer; of longer ones the middle is left out.
    """

    def __init__(
        self,
        template: ChatTemplate,
        form: prompt.Form,
        *,
        history: Literal["stable", "template"],
        prompts: Path | None,
        longest: int,
    ) -> None:
        self._template = template
        self._form = form
        self._prompts = prompts
        self._longest = longest
        past = template.answer if history == "stable" else template.past_answer
        shared = next(
            (place for place, pair in enumerate(zip(past, template.answer, strict=False)) if pair[0] != pair[1]),
            min(len(past), len(template.answer)),
        )
        self._shared = past[:shared]
        self._past = past[shared:]
        self.lead = template.answer[shared:]
        self.closing = template.closing[1:]  # the end of turn belongs to the answer

    def opening(self, domain: str) -> list[int]:
        """The tokens before the first action."""
        return self._template.opening(prompt.system_prompt(domain, self._prompts, self._form))

    def action(self, step: Step, number: int) -> list[int]:
        """An action with what follows it in any case; `number` counts from 0."""
        text = prompt.user_turn(step, number + 1, self._form)
        # No tokenizer makes so few tokens of a text; four is the most that a character becomes.
        longest = self._longest - len(self._shared) - len(self.lead)
        ids = None if len(text) > 8 * longest else self._template.encode(text).ids
        if ids is None or len(ids) > longest:
            ids = self._template.encode(prompt.elide(text, longest // 4)).ids
        return [*ids, *self._shared]

    def answered(self, step: Step) -> list[int]:
        """What follows the action of the past, up to the next action."""
        return [*self._past, *self.draft(step).ids, *self.closing]

    def draft(self, step: Step) -> Draft:
        """The answer that the model would have to give."""
        text = prompt.observation(step)
        draft = None if len(text) > 8 * self._longest else self._draft(step, text)
        if draft is None or len(draft.ids) > self._longest:
            draft = self._draft(step, prompt.elide(text, self._longest // 4))
            return msgspec.structs.replace(draft, whole=False)
        return draft

    def _draft(self, step: Step, text: str) -> Draft:
        before, after = prompt.before(step, self._form), prompt.after(self._form)
        encoded = self._template.encode(before + text + after)
        begin, end = len(before), len(before) + len(text)
        if encoded.starts:
            first = sum(start < begin for start in encoded.starts)
            last = sum(start < end for start in encoded.starts)
        else:
            first = len(self._template.encode(before).ids)
            last = len(encoded.ids) - len(self._template.encode(after).ids)
        trimmed = len(step.observation) - len(step.observation.lstrip()) - begin
        return Draft(
            ids=[*encoded.ids, self._template.end],
            first=first,
            last=last,
            starts=[start + trimmed for start in encoded.starts[first:last]],
            whole=True,
        )


class Strand:
    """What is known of one trajectory.

    Args:
        renderer: Writes turns as tokens.
        domain: Whose opening the conversation has.
        budget: Tokens of the turns of the past.

    Attributes:
        cache: The prompt cache, None while nothing is computed.
        computed: Tokens that it holds.
        pending: Tokens that come next and are not computed. Whenever an action is open, there is at least one.
        seen: Tokens of the trajectory that are in the conversation, computed once or not.
        total: Steps of the past that are in the conversation.
        first: The first of them that is still in it; the older ones were dropped.
    """

    def __init__(self, renderer: Renderer, domain: str, budget: int) -> None:
        self.domain = domain
        self.cache: Cache | None = None
        self.computed = 0
        self.pending: list[int] = []
        self.seen = 0
        self.total = 0
        self.first = 0
        self._renderer = renderer
        self._budget = budget
        self._window = prompt.Window(budget)
        self._base = 0  # number of the first step that the window was told of
        self._open: Step | None = None  # its action is the last thing in the conversation
        self._drafted: Step | None = None  # and the cache holds its answer, too
        self._snapshot: Snapshot | None = None  # of the moment before that answer
        self._action = 0  # tokens of the action that follows the past, if it was seen
        self._counted = False  # and an answer to it was seen, too
        self._before = 0  # tokens computed by then
        self._held: list[int] = []  # and pending by then

    @property
    def layers(self) -> Cache:
        """The cache, where something is computed."""
        assert self.cache is not None
        return self.cache

    @property
    def dropped(self) -> int:
        """Turns of the past that are no longer in the conversation."""
        return self.first

    @property
    def asked_at(self) -> int:
        """Tokens of the conversation up to the open action."""
        return self._before + len(self._held) if self._snapshot is not None else self.computed + len(self.pending)

    @property
    def nbytes(self) -> int:
        """Bytes of the cache and of the snapshot."""
        if self.cache is None:
            return 0
        held: int = sum(layer.nbytes for layer in self.cache)
        return held + (self._snapshot.nbytes if self._snapshot else 0)

    def drop(self) -> None:
        """Let go of what was computed; the window is remembered, so that the same prompt comes again."""
        self.cache = self._snapshot = self._open = self._drafted = None
        self.pending = []
        self.computed = 0

    def aside(self) -> "Strand":
        """A strand that goes on from here by itself, and leaves this one as it is."""
        other = copy.copy(self)
        other.pending = list(self.pending)
        other._window = copy.deepcopy(self._window)  # noqa: SLF001 - of its own kind
        if self.cache is not None:
            other.cache = Snapshot(self.cache).branch(self.cache)
        return other

    def follow(self, job: Job) -> bool:
        """Take in the history up to a step, and the step's action.

        Returns:
            False if what was computed is no beginning of it; then `begin` anew.
        """
        if self._follow(job):
            return True
        self.drop()
        return False

    def _follow(self, job: Job) -> bool:
        if self.cache is None or not job.oldest <= self.total <= job.total:
            return False
        first = self._window.first
        if self._open is not None:
            past = self.total < job.total
            step = job.at(self.total) if past else job.step
            if not _same_action(step, self._open):
                return False
            if past:
                self._close(step)
            else:
                self.back()
        for number in range(self.total, job.total):
            step = job.at(number)
            tokens = [*self._renderer.action(step, number), *self._renderer.answered(step)]
            self.pending += tokens
            self.seen += len(tokens)
            self._window.add(len(tokens))
            self.total += 1
        if self._window.first != first:
            return False
        self._open_action(job)
        return True

    def begin(self, job: Job, cache: Cache, computed: int) -> None:
        """Begin the conversation anew, after an opening that is computed.

        Args:
            job: What is asked.
            cache: Holds the opening; is taken over.
            computed: Tokens of the opening.
        """
        assert self.cache is None
        told = self.total  # how far the window was told
        if not job.oldest <= self._base + self._window.first <= self.total <= job.total:
            # Another past than we knew, or one that is no longer held.
            self._window = prompt.Window(self._budget)
            self._base = told = job.oldest
            if self.total > job.total:
                self.total = job.oldest
                self._action, self._counted = 0, False
        self.cache = cache
        self.computed = computed
        self.seen = self.seen or computed
        turns = {}
        for number in range(self._base + self._window.first, job.total):
            step = job.at(number)
            turns[number] = [*self._renderer.action(step, number), *self._renderer.answered(step)]
            if number >= told:
                self._window.add(len(turns[number]))
            if number == self.total and self._action:
                self.seen += len(self._renderer.closing) if self._counted else len(turns[number]) - self._action
            elif number >= self.total:
                self.seen += len(turns[number])
        if self.total < job.total:
            self._action, self._counted = 0, False
        self.total = job.total
        self.first = self._base + self._window.first
        for number in range(self.first, job.total):
            self.pending += turns[number]
        self._open_action(job)

    def ask(self) -> list[int]:
        """What the answer is to follow, once all but the last pending token is computed."""
        return [*self.pending, *self._renderer.lead]

    def asked(self, snapshot: Snapshot) -> None:
        """All but the last pending token is computed; the snapshot is of this moment."""
        assert self._open is not None
        assert len(self.pending) == 1
        self._snapshot = snapshot
        self._before = self.computed
        self._held = list(self.pending)

    def answer(self, draft: Draft) -> None:
        """The cache holds the lead and the draft but its last token."""
        self.computed += len(self.ask()) + len(draft.ids) - 1
        self.seen += len(self._renderer.lead) + len(draft.ids)
        self._counted = True
        if self._renderer.lead:
            self.back()  # the past is written in another way
        else:
            self.pending = draft.ids[-1:]
            self._drafted = self._open

    def back(self) -> None:
        """Undo an answer, be it whole or half done."""
        if self._snapshot is not None and self.cache is not None:
            self._snapshot.restore(self.cache)
            self.computed = self._before
            self.pending = list(self._held)
        self._drafted = None

    def branch(self) -> Cache:
        """A cache as of the moment before the answer."""
        assert self._snapshot is not None
        assert self.cache is not None
        return self._snapshot.branch(self.cache)

    def computed_more(self, count: int) -> None:
        """The first pending tokens are computed."""
        self.computed += count
        del self.pending[:count]

    def _close(self, step: Step) -> None:
        """The open action has been answered, in reality."""
        if self._drafted is not None and _same_answer(step, self._drafted):
            tokens = self._renderer.closing
            size = self.computed - self._before + len(tokens)
        else:
            self.back()
            tokens = self._renderer.answered(step)
            size = len(tokens)
        self.pending += tokens
        self.seen += len(self._renderer.closing) if self._counted else len(tokens)
        self._window.add(self._action + size)
        self.total += 1
        self._open = self._drafted = self._snapshot = None
        self._action, self._counted = 0, False

    def _open_action(self, job: Job) -> None:
        if self._open is None:
            tokens = self._renderer.action(job.step, job.total)
            self.pending += tokens
            self.seen += max(0, len(tokens) - self._action)
            self._open = job.step
            self._action = len(tokens)


def _same_action(step: Step, other: Step) -> bool:
    return (step.action, step.cwd, step.domain) == (other.action, other.cwd, other.domain)


def _same_answer(step: Step, other: Step) -> bool:
    return (step.observation, step.observation_kind) == (other.observation, other.observation_kind)
