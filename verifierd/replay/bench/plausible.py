"""The suite `plausible`: commands whose output nobody can know; an answer is judged by its form alone."""

from collections.abc import Sequence

from verifierd.replay.bench.asking import Outcome, Party, Sampling, asked_by
from verifierd.replay.bench.book import Row
from verifierd.replay.bench.figures import Results
from verifierd.replay.bench.forms import FORMS, Form
from verifierd.replay.bench.sequences import Limits, agreement, ask, costs, outcomes, share
from verifierd.replay.bench.suite import Request, parameters_of
from verifierd.types import Action, History, Origin, Step

__all__ = ("Plausible",)

_PUBLISHED = ("ls", "git", "ps")
_FORM = "form"


class _Parameters(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """See `replay/suites/plausible.toml`."""

    commands: tuple[str, ...]
    runs: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runs < 1:
            raise ValueError("`runs` must be at least 1")
        if unknown := [name for name in self.commands if name not in FORMS]:
            raise ValueError(f"`commands` has `{unknown[0]}`; known ones: {', '.join(FORMS)}")


class Plausible:
    """Asks for each command, with no more before it than shows that it can be run."""

    def __init__(self, request: Request) -> None:
        parameters = parameters_of(request, _Parameters)
        runs = request.runs or parameters.runs
        self._seed = request.seed
        self._sampling: Sampling = request.sampling
        self._limits = parameters
        self.jobs: Sequence[str] = [f"{name}/{run}" for name in parameters.commands for run in range(runs)]
        self.warning = parameters.warning

    async def run(self, job: str, asked: Party) -> Sequence[Row]:
        """Ask for one command, once."""
        name, _, number = job.partition("/")
        form, run = FORMS[name], int(number)
        how = asked_by(self._sampling, max_tokens=self._limits.max_tokens, seed=self._seed + run)
        history = History(("native", f"plausible-{name}"), run=run)
        if form.before is not None:
            history.append(_step(name, 1, *form.before))
        answer = await ask(asked, history, _step(name, history.total + 1, form.command), how, self._limits.characters)
        outcome, wrong = answer.outcome, ""
        if outcome is Outcome.ANSWERED:
            outcome, wrong = _judged(form, answer.text)
        return [
            Row(
                case=name,
                run=run,
                group=name,
                depth=history.total,
                outcome=outcome,
                scores={_FORM: float(outcome is Outcome.ANSWERED and not wrong)},
                said=answer.raw,
                detail=wrong or answer.detail,
                prompt_tokens=answer.prompt_tokens,
                generated_tokens=answer.generated_tokens,
                seconds=answer.seconds,
                first_token_seconds=answer.first_token_seconds,
            )
        ]

    def figures(self, rows: Sequence[Row]) -> Results:
        """How many answers are of the right form, in all and of each command."""
        results: Results = {}
        for name, part in (
            ("form", rows),
            ("form_published", [row for row in rows if row.case in _PUBLISHED]),
            *((f"form_{case}", [row for row in rows if row.case == case]) for case in {row.case: None for row in rows}),
        ):
            if part:
                results[name] = share(part, [row.scores.get(_FORM, 0.0) > 0 for row in part])
        return results | outcomes(rows, known=False) | agreement(rows) | costs(rows)


def _judged(form: Form, text: str) -> tuple[Outcome, str]:
    """What an answer is that is no failure so far, and what is wrong with its form."""
    if not text.strip():
        return Outcome.EMPTY, "no output"
    return Outcome.ANSWERED, form.wrong(text)


def _step(name: str, index: int, command: str, observation: str = "") -> Step:
    return Step(
        format="native",
        trajectory=f"plausible-{name}",
        index=index,
        action=Action(tool="bash", input=command, command=command),
        observation=observation,
        cwd="/home/user/proj",
        origin=Origin(path="plausible", offset=index),
    )
