"""The seams: who passes on what. `pipeline.py` knows nothing else of the stages.

    Source      bytes -> Record                     sources/     file, standard input
    Adapter     Record -> Step                      adapters/    one agent log format a file
    Predictor   history, Step -> Prediction         predictors/  shell, recorded, scripted
    Scorer      history, Step, Prediction -> Score  scoring/     pure, one measure a file
    Sink        Verdict -> outside                  sinks/       JSONL, log events, ring of recent verdicts

Scores become a Verdict in `policy.decide`, which is a pure function and so needs no seam. Beside the way of the steps
stands Chat: a model that is talked to, by evaluations and benchmarks only.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from verifierd.types import History, Position, Prediction, Record, Score, Step, Verdict

__all__ = ("Adapter", "Asked", "Chat", "Counts", "Message", "Predictor", "Reply", "Scorer", "Sink", "Source")


class Source(Protocol):
    """One readable stream of complete lines, with a position that can be resumed.

    Attributes:
        path: What it is called.
        generation: Grows when the stream turns out to be another one than before and is read from its start again.
    """

    path: str
    generation: int

    @property
    def backlog(self) -> int:
        """Bytes that are there but not yet read, as of the last read."""

    async def read(self, *, records: int, size: int) -> Sequence[Record]:
        """The next complete lines: at most `records` of them and about `size` bytes; empty when nothing is new."""

    async def tail(self) -> Record | None:
        """The unterminated rest, once all before it was read: a whole line or half of one, nobody can tell."""

    def accept(self, tail: Record) -> None:
        """Count the tail as read."""

    def position(self, end: int) -> Position:
        """What to commit once every record up to byte offset `end` (a record's `end`) is done with."""

    async def aclose(self) -> None:
        """Let go of the file."""


class Counts(msgspec.Struct, kw_only=True):
    """What an adapter met in one file; `inspect` prints it, metrics add it up.

    Attributes:
        records: Lines seen.
        calls: Distinct tool calls.
        paired: Calls whose observation arrived.
        duplicates: Records that repeat an earlier one.
        unknown: Count by unknown record type, at most 50 types (the rest under `other`).
        quarantined: Count by reason of lines that could not be read (`not_json`, `not_object`, `too_long`, ...).
        salvaged: Records recovered from damaged lines.
        version: The version the log's writer states, if any.
    """

    records: int = 0
    calls: int = 0
    paired: int = 0
    duplicates: int = 0
    unknown: dict[str, int] = msgspec.field(default_factory=dict)
    quarantined: dict[str, int] = msgspec.field(default_factory=dict)
    salvaged: int = 0
    version: str | None = None


class Adapter(Protocol):
    """Reads one file of one format. It may hold a half step; what it holds is its state."""

    format: str
    counts: Counts

    def feed(self, record: Record) -> Iterable[Step]:
        """The steps that this line completes. Never raises on bad input: what cannot be read is counted."""

    def settle(self) -> Iterable[Step]:
        """The file is idle: give up waiting for siblings of a batch; calls without a result are kept."""

    def finish(self) -> Iterable[Step]:
        """The file is over: whatever is still open becomes a step, `missing` if its observation never came."""

    def dump(self) -> bytes:
        """What must survive a restart, versioned."""

    def load(self, state: bytes) -> None:
        """Take up a dumped state."""


class Predictor(Protocol):
    """Says what the observation of a step should be. It must not look at `step.observation` to say so.

    It is a function of history and action; state kept between calls is a cache, keyed by the history's
    `(key, run)`, and is caught up from the history whenever it is behind or gone.
    """

    name: str
    model: str | None

    async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:
        """Predict; errors are an abstention, never an exception.

        Args:
            history: What came before.
            step: Whose observation is predicted; a predictor that says how likely it was does look at it for that.
            keep: False for an observation that never was: what is computed for it is thrown away, and all caches,
                of other trajectories, too, stay as if it had not been asked.
        """

    async def aclose(self) -> None:
        """End workers and free caches."""


Scorer = Callable[[History, Step, Prediction], Score]


class Sink(Protocol):
    """Takes verdicts out. Verdicts come in the order of `seq`, already committed."""

    async def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Pass on; an error of the outside world is the sink's to report and retry."""

    async def aclose(self) -> None:
        """Write out what is buffered."""


class Message(msgspec.Struct, frozen=True):
    """One turn of a talk.

    Attributes:
        role: Who speaks.
        content: The text. Whatever it spells, it is a text: no mark of a chat template.
    """

    role: Literal["system", "user", "assistant"]
    content: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How a reply is to be made.

    Attributes:
        max_tokens: Most tokens that are generated, thoughts included.
        thinking: Think before the answer, if the model can?
        temperature: 0 is greedy.
        top_p: Only the likeliest tokens that together have this probability; 1 is all.
        top_k: Only so many of the likeliest tokens; 0 is all.
        seed: The same seed gives the same reply, as far as the model's server keeps to it.
        grammar: What the answer must be, in Lark's notation as llguidance reads it (`start: "yes" | "no"`; a regular
            expression as `start: /[0-9]+/`, a JSON schema as `start: %json {...}`); None for anything. Only models in
            process can, and only without thinking.
    """

    max_tokens: int
    thinking: bool = False
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    grammar: str | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.top_k < 0 or self.seed < 0:
            raise ValueError("`max_tokens` must be at least 1, `top_k` and `seed` at least 0")
        if self.grammar is not None and self.thinking:
            raise ValueError("`grammar` must be None where `thinking` is asked for")
        if not (self.temperature >= 0 and 0 < self.top_p <= 1):  # so that `nan` is refused, too
            raise ValueError("`temperature` must be at least 0, `top_p` above 0 and at most 1")


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said.

    Attributes:
        text: The answer, without thoughts; empty where the cap cut a thought.
        thought: What it thought before, also where it should not; empty if it did not.
        finish: `stop` if it came to an end by itself, `length` if the cap cut it.
        prompt_tokens: Tokens of the prompt; None where a server does not say.
        generated_tokens: Tokens of thought and answer, the end of the turn included or not; None as above.
        seconds: From the question to the end of the reply, waiting for other work of the model not included in process.
        first_token_seconds: Of these, until the first token was there.
        model: Who said it.
    """

    text: str
    thought: str
    finish: Literal["stop", "length"]
    prompt_tokens: int | None
    generated_tokens: int | None
    seconds: float
    first_token_seconds: float
    model: str


@runtime_checkable
class Chat(Protocol):
    """A model that can be talked to. It may be a predictor, too: then its predictions are not disturbed."""

    async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:
        """The model's reply to the last message.

        Raises:
            PredictorError: The model or its server failed for good, the talk does not fit the model's context, or the
                grammar is wrong or cannot be kept to.
        """
