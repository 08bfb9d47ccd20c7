"""The suite `agentworldbench`: infer, judge, score, as the official evaluation does, and what needs no judge.

What `--data` names decides what is left to do: of the official rows all; of rows with a model's answers (`gen`) judging
and scoring; of rows that a judge has seen (`failed`, `total_score`) the score alone, and nobody is asked.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path

import anyio
import msgspec

from verifierd.bundled import root
from verifierd.config import ModelConfig
from verifierd.errors import PredictorError
from verifierd.paths import expanded
from verifierd.predictors import prompt
from verifierd.replay.bench.asking import Answer, Outcome, Party, asked_by, forgiven, matched, shortened
from verifierd.replay.bench.awb.data import Case, Told, asking, cases, steps, told
from verifierd.replay.bench.awb.judge import Judge, JudgeSettings, briefing
from verifierd.replay.bench.awb.reading import Grade, extracted, unmarked
from verifierd.replay.bench.awb.scores import Judged, answers, recalled, summary
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.drive import drive
from verifierd.replay.bench.figures import Results
from verifierd.replay.bench.suite import Measured, Request, parameters_of
from verifierd.stages import Asked, Message, Reply
from verifierd.types import Step

__all__ = ("AgentWorldBench", "Parameters", "agentworldbench")

_AT_ONCE = 8
_JUDGE = ("judge-url", "judge-model", "judge-key-env")
_SILENT = "silent"
"""Marks a row without a word to judge, which the official evaluation counts as failed."""

_OWN_DATA = "our own few rows, not the official ones: no result of AgentWorldBench; name its folder with --data"
_NO_JUDGE = "no judge, so no scores; name one with --judge-url and --judge-model"
_OWN_JUDGE = "the judge is asked in our own words; --prompts names a checkout with the official ones"
_SCORED = "the scores of a file that was judged before; nobody was asked"
_GIVEN = "the answers are those of the file"


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """See `replay/suites/agentworldbench.toml`."""

    rows: int
    thinking: tuple[bool, ...]
    max_tokens: tuple[int, ...]
    context_tokens: int
    characters: int = 0
    runs: int = 1
    judge_url: str = ""
    judge_model: str = ""
    judge_key_env: str = ""
    judge_max_tokens: int
    judge_tries: int
    judge_patience: float

    def __post_init__(self) -> None:
        if not self.thinking or not self.max_tokens or min(self.max_tokens) < 1:
            raise ValueError("`thinking` and `max-tokens` name at least one each, the latter above 0")
        if min(self.runs, self.judge_max_tokens, self.judge_tries) < 1 or not self.judge_patience > 0:
            raise ValueError("`runs` and what is said of the judge must be above 0")
        if min(self.rows, self.characters) < 0:
            raise ValueError("`rows` and `characters` must be at least 0")
        if bool(self.judge_url) != bool(self.judge_model):
            raise ValueError("`judge-url` and `judge-model` go together")


class _Way(msgspec.Struct, frozen=True):
    """How a model is asked: thinking or not, and its cap. The first way's figures have plain names."""

    thinking: bool
    max_tokens: int
    first: bool

    @property
    def suffix(self) -> str:
        """What its names end in."""
        return "" if self.first else f"_{'thinking' if self.thinking else 'direct'}_{self.max_tokens}"


class _Task(msgspec.Struct, frozen=True):
    """One answer to get, or to judge."""

    case: Case
    way: _Way
    run: int

    @property
    def name(self) -> str:
        """The row's, with the way."""
        return f"{self.case.name}{self.way.suffix}"

    def job(self, stage: str) -> str:
        """What getting it, or judging it, is called; the stage of judging names the judge."""
        return f"{stage} {self.name} {self.run}"


def agentworldbench(request: Request) -> Measured:
    """Measure it.

    Raises:
        ConfigError: A parameter is wrong, or the data, or the file holds another run.
        PredictorError: The predictor, or the judge, cannot start here.
    """
    parameters = parameters_of(request, Parameters)
    own = Path(str(root("replay") / "suites" / "data" / "agentworldbench"))
    found = cases(request.data or own, most=parameters.rows, seed=request.seed)
    if found[0].failed is not None:
        judged = [_judged(case) for case in found]
        return Measured(model=None, results=summary(judged) | {"rows": len(judged)}, warning=_SCORED)
    model = msgspec.structs.replace(
        request.choice.model, context_tokens=max(parameters.context_tokens, request.choice.model.context_tokens)
    )
    choice = msgspec.structs.replace(request.choice, model=model)
    if _answered(found):  # nobody else is asked, so no model is loaded
        choice = msgspec.structs.replace(choice, predictor="scripted")
    # What was answered stays if it is judged later, or by another one.
    kept = {name: given for name, given in request.parameters.items() if name not in _JUDGE}
    request = msgspec.structs.replace(request, choice=choice, parameters=kept)
    return drive(request, lambda asked: AgentWorldBench(asked, parameters, found), at_once=_AT_ONCE)


class AgentWorldBench:
    """The engine: a job gets an answer, another one has it judged.

    Args:
        request: What is measured.
        parameters: How.
        found: The rows.
    """

    def __init__(self, request: Request, parameters: Parameters, found: Sequence[Case]) -> None:
        self._request = request
        self._parameters = parameters
        self._given = _answered(found)
        ways = [(thinking, most) for thinking in parameters.thinking for most in parameters.max_tokens]
        self._ways = [_Way(*way, number == 0) for number, way in enumerate(ways[:1] if self._given else ways)]
        runs = 1 if self._given else request.runs or parameters.runs
        self._tasks = [_Task(case, way, run) for case in found for way in self._ways for run in range(runs)]
        self._verdict = f"judge:{parameters.judge_model}" if parameters.judge_url else ""
        stages = ("infer", self._verdict) if self._verdict else ("infer",)
        # An answer is judged soon after it was given, but not before those asked for meanwhile.
        ordered = sorted(
            (number + (0 if stage == "infer" else _AT_ONCE), stage, number)
            for number in range(len(self._tasks))
            for stage in stages
        )
        self._todo = {self._tasks[number].job(stage): (stage, self._tasks[number]) for _, stage, number in ordered}
        self.jobs: Sequence[str] = list(self._todo)
        self.warning = "; ".join(self._warnings())
        self._prompts = None if request.choice.model.prompts is None else expanded(request.choice.model.prompts)
        self._one = anyio.Lock() if request.choice.model.base_url is None else None
        self._done: Mapping[str, Sequence[Row]] = {}
        self._answers: dict[str, Row] = {}
        self._ready: dict[str, anyio.Event] = {}
        self._judge: Judge | None = None

    @asynccontextmanager
    async def begun(self, asked: Party, done: Mapping[str, Sequence[Row]]) -> AsyncIterator[None]:
        """See whether those who will be asked are there.

        Raises:
            PredictorError: One is not.
            ConfigError: The judge's prompts cannot be read.
        """
        self._done = done
        left = {self._todo[job][0] for job in self.jobs if job not in done}
        self._ready = {task.job("infer"): anyio.Event() for task in self._tasks}
        async with AsyncExitStack() as stack:
            if "infer" in left and not self._given:
                await asked.talk([Message("user", "Say yes.")], Asked(max_tokens=1))
            if self._verdict in left:
                for domain in {task.case.domain for task in self._tasks}:
                    briefing(domain, self._prompts)
                self._judge = await stack.enter_async_context(Judge(self._settings()))
            yield

    async def run(self, job: str, asked: Party) -> Sequence[Row]:
        """Get an answer, or have one judged."""
        stage, task = self._todo[job]
        if stage != "infer":
            return [await self._graded(task)]
        row = await self._inferred(task, asked)
        self._answers[job] = row
        self._ready[job].set()
        return [row]

    def figures(self, rows: Sequence[Row]) -> Results:
        """What the rows of all jobs say, of each way."""
        results: Results = {}
        for way in self._ways:
            tasks = {task.name: task for task in self._tasks if task.way == way}
            verdicts = {f"{self._verdict}:{name}": task for name, task in tasks.items()}
            given = [row for row in rows if row.case in tasks]
            judged = [
                Judged(
                    domain=task.case.domain,
                    group=task.case.group,
                    failed=row.outcome is not Outcome.ANSWERED,
                    scores=row.scores,
                )
                for row in rows
                if (task := verdicts.get(row.case)) is not None
            ]
            found: Results = summary(judged) | answers(given) | {"rows": len(given)}
            results |= {f"{name}{way.suffix}": figure for name, figure in found.items()}
        return results

    async def _inferred(self, task: _Task, asked: Party) -> Row:
        row = told(task.case)
        way = asked_by(
            self._request.sampling,
            max_tokens=task.way.max_tokens,
            thinking=task.way.thinking,
            seed=self._request.seed + task.run,
        )
        history, step = steps(task.case, row)
        if self._given:
            raw = task.case.generated or ""
            answer = asked.read(_recorded(raw), step, msgspec.structs.replace(way, thinking=True))
        else:
            answer = await self._answer(row, asked, way, step)
            raw = answer.raw
        answer = forgiven(answer, step)
        text = extracted(raw) if raw else ""
        right = unmarked(text) if answer.outcome is Outcome.ANSWERED else None
        match = None if right is None else matched(right, step, history)
        return Row(
            case=task.name,
            run=task.run,
            group=task.case.group,
            depth=task.case.depth,
            outcome=answer.outcome,
            exact=match is not None and match.exact,
            without_echo=match is not None and match.without_echo,
            normalised=match is not None and match.normalised,
            scores=recalled(right or "", step, history) | ({} if raw else {_SILENT: 1.0}),
            expected=step.observation,
            said=text,
            detail=answer.detail,
            prompt_tokens=answer.prompt_tokens,
            generated_tokens=answer.generated_tokens,
            seconds=answer.seconds,
            first_token_seconds=answer.first_token_seconds,
        )

    async def _answer(self, row: Told, asked: Party, way: Asked, step: Step) -> Answer:
        messages = asking(row)
        if self._parameters.characters:
            messages = shortened(messages, self._parameters.characters)
        try:
            async with self._one or nullcontext():
                reply = await asked.talk(messages, way)
        except PredictorError as error:
            return Answer(outcome=Outcome.FAILED, detail=error.message)
        return asked.read(reply, step, way)

    async def _graded(self, task: _Task) -> Row:
        job = task.job("infer")
        if job not in self._done:
            await self._ready[job].wait()
        row = self._answers[job] if job in self._answers else self._done[job][0]
        if _SILENT in row.scores:
            grade, said = Grade(problem="there is nothing to judge"), ""
        else:
            assert self._judge is not None
            grade, said = await self._judge.grade(task.case.domain, told(task.case), row.said)
        return Row(
            case=f"{self._verdict}:{task.name}",
            run=task.run,
            group=task.case.group,
            depth=task.case.depth,
            outcome=Outcome.FAILED if grade.problem else Outcome.ANSWERED,
            scores={} if grade.problem else {**grade.scores, "total_score": grade.total},
            said=said,
            detail=grade.problem,
        )

    def _settings(self) -> JudgeSettings:
        parameters = self._parameters
        return JudgeSettings(
            server=ModelConfig(
                name=parameters.judge_model,
                base_url=parameters.judge_url,
                api_key_env=parameters.judge_key_env or None,
            ),
            prompts=self._prompts,
            max_tokens=parameters.judge_max_tokens,
            tries=parameters.judge_tries,
            patience=parameters.judge_patience,
            seed=self._request.seed,
            characters=parameters.characters,
        )

    def _warnings(self) -> Iterator[str]:
        parameters = self._parameters
        if self._request.data is None:
            yield _OWN_DATA
        if self._given:
            yield _GIVEN
        if parameters.characters:
            most = max(parameters.max_tokens)
            yield f"scaled down: talks of {parameters.characters:,} characters, answers of {most:,} tokens at most"
        if parameters.rows:
            yield f"at most {parameters.rows:,} rows of each domain"
        if not self._verdict:
            yield _NO_JUDGE
        elif self._request.choice.model.prompts is None:
            yield _OWN_JUDGE


def _answered(found: Sequence[Case]) -> bool:
    return any(case.generated is not None for case in found)


def _judged(case: Case) -> Judged:
    return Judged(domain=case.domain, group=case.group, failed=case.failed != 0, scores=case.scores)


def _recorded(said: str) -> Reply:
    """A reply that somebody wrote down."""
    thought, text = prompt.divided(said)
    return Reply(
        text=text,
        thought=thought,
        finish="stop",
        prompt_tokens=None,
        generated_tokens=None,
        seconds=0.0,
        first_token_seconds=0.0,
        model="",
    )
