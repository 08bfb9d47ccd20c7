"""The suite `generalist`: can a world model still answer puzzles and write functions, asked as an assistant?"""

import copy
import json
import time
from collections.abc import Sequence

import anyio.to_thread
import msgspec

from verifierd.errors import PredictorError
from verifierd.replay.bench import sandbox
from verifierd.replay.bench.asking import Answer, Outcome, Party, Sampling, asked_by
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.drive import drive
from verifierd.replay.bench.exercises import FUNCTIONS, PUZZLES, answered, program
from verifierd.replay.bench.figures import Results
from verifierd.replay.bench.sequences import agreement, costs, outcomes, share
from verifierd.replay.bench.suite import Measured, Request, parameters_of
from verifierd.stages import Asked, Message
from verifierd.types import Action, Origin, Step

__all__ = ("Generalist", "generalist")

_SYSTEM = "You are a helpful assistant. Answer what you are asked, in the form that is asked for."
_PUZZLE = "{}\n\nExplain briefly if you like; end with a line that reads `Answer: ` and the answer, nothing else."
_FUNCTION = (
    "Write a Python function `{}`. It {}\n\nUse nothing but the standard library. Answer with the function alone, in "
    "one block of code."
)
_UNTESTED = "no sandbox here"
_OBSERVATION = ("**Environment Observation:**", "<predicted_observation>")


class _Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """See `replay/suites/generalist.toml`."""

    max_tokens: int
    puzzles: tuple[str, ...]
    functions: tuple[str, ...]
    runs: int
    seconds: int

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.runs < 1 or self.seconds < 1:
            raise ValueError("`max-tokens`, `runs` and `seconds` must be at least 1")
        for field, chosen, known in (
            ("puzzles", self.puzzles, list(PUZZLES)),
            ("functions", self.functions, list(FUNCTIONS)),
        ):
            if unknown := [name for name in chosen if name not in known]:
                raise ValueError(f"`{field}` has `{unknown[0]}`; known ones: {', '.join(known)}")


def generalist(request: Request) -> Measured:
    """Ask for all of it; the host says what kept the code in.

    Raises:
        ConfigError: A parameter is wrong, or the file holds another run.
        PredictorError: The predictor cannot start here or cannot be talked to.
    """
    measured = drive(request, Generalist)
    kind, refused = sandbox.lock()
    return msgspec.structs.replace(measured, host=measured.host | {"sandbox": kind or f"none: {refused}"})


class Generalist:
    """Asks for each puzzle and function, in a talk of its own."""

    def __init__(self, request: Request) -> None:
        parameters = parameters_of(request, _Parameters)
        self._seed = request.seed
        self._sampling: Sampling = request.sampling
        self._max_tokens = parameters.max_tokens
        self._seconds = parameters.seconds
        self.jobs: Sequence[str] = [
            f"{kind}/{name}/{run}"
            for kind, names in (("puzzle", parameters.puzzles), ("function", parameters.functions))
            for name in names
            for run in range(request.runs or parameters.runs)
        ]
        self.warning = ""
        if request.size == "smoke":
            self.warning = f"scaled down: an answer is cut after {parameters.max_tokens:,} tokens"

    async def run(self, job: str, asked: Party) -> Sequence[Row]:
        """Ask for one, once.

        Raises:
            PredictorError: Who is asked cannot be talked to.
        """
        kind, name, number = job.split("/")
        how = asked_by(self._sampling, max_tokens=self._max_tokens, seed=self._seed + int(number))
        if kind == "puzzle":
            question = _PUZZLE.format(PUZZLES[name].question)
        else:
            question = _FUNCTION.format(FUNCTIONS[name].name, FUNCTIONS[name].task)
        answer = await _ask(asked, question, how)
        outcome, wrong = answer.outcome, answer.detail
        if outcome is Outcome.ANSWERED:
            if kind == "puzzle":
                wrong = _wrong(name, answer.raw)
            else:
                outcome, wrong = await anyio.to_thread.run_sync(_tested, name, answer.raw, self._seconds)
        return [
            Row(
                case=f"{kind}/{name}",
                run=int(number),
                group=f"{kind}/{name}",
                outcome=outcome,
                exact=None if wrong.startswith(_UNTESTED) else outcome is Outcome.ANSWERED and not wrong,
                said=answer.raw,
                detail=wrong,
                prompt_tokens=answer.prompt_tokens,
                generated_tokens=answer.generated_tokens,
                seconds=answer.seconds,
                first_token_seconds=answer.first_token_seconds,
            )
        ]

    def figures(self, rows: Sequence[Row]) -> Results:
        """How many are right: of the puzzles, of the functions, and of each; code that could not be run is left out."""
        results: Results = {}
        for kind in ("puzzle", "function"):
            part = [row for row in rows if row.case.startswith(f"{kind}/") and row.exact is not None]
            for name, some in (
                (f"{kind}s", part),
                *(
                    (case.replace("/", "_"), [row for row in part if row.case == case])
                    for case in {row.case: None for row in part}
                ),
            ):
                if some:
                    results[name] = share(some, [bool(row.exact) for row in some])
        found = outcomes(rows, known=False)
        for name in ("role_breaks_without_echo", "abstained"):  # of simulators only
            found.pop(name, None)
        return results | found | agreement(rows) | costs(rows)


async def _ask(party: Party, question: str, how: Asked) -> Answer:
    """What a model answers; its failure is an answer, too, but that there is no model is not."""
    speaker = party.speaker()
    step = Step(
        format="native",
        trajectory="generalist",
        index=1,
        action=Action(tool="question", input=question),
        observation="",
        origin=Origin(path="generalist", offset=1),
    )
    begun = time.perf_counter()
    try:
        answer = party.read(await speaker.chat([Message("system", _SYSTEM), Message("user", question)], how), step, how)
    except PredictorError as error:
        return Answer(outcome=Outcome.FAILED, detail=error.message, seconds=time.perf_counter() - begun)
    if answer.outcome is Outcome.ANSWERED and any(mark in answer.raw for mark in _OBSERVATION):
        return msgspec.structs.replace(answer, outcome=Outcome.ROLE_BREAK, detail="an observation, not an answer")
    return answer


def _wrong(name: str, reply: str) -> str:
    """What is wrong with the answer to a puzzle; empty if it is right."""
    said = answered(reply)
    if said is None:
        return "no line `Answer: ...`"
    return "" if PUZZLES[name].right(said) else "not the answer"


def _tested(name: str, reply: str, seconds: int) -> tuple[Outcome, str]:
    """What becomes of a function that a model wrote, and what is wrong with it."""
    code = program(reply, name)
    if code is None:
        return Outcome.ANSWERED, f"no function `{name}`"
    function = FUNCTIONS[name]
    ran = sandbox.run(code, name, function.cases, seconds=seconds)
    if ran.refused:
        return Outcome.FAILED, f"{_UNTESTED}: {ran.refused}"
    for arguments, case in zip(function.cases, ran.cases, strict=False):
        if case.error:
            return Outcome.ANSWERED, f"{_call(name, arguments)}: {case.error}"
        if json.dumps(case.value) != json.dumps(function.solution(*copy.deepcopy(arguments))):
            return Outcome.ANSWERED, f"{_call(name, arguments)}: not the answer"
    return Outcome.ANSWERED, ran.problem


def _call(name: str, arguments: Sequence[object]) -> str:
    return f"{name}({', '.join(map(repr, arguments))})"
