"""Options that several commands share."""

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from verifierd.adapters import FORMATS
from verifierd.composition import Choice
from verifierd.config import ModelConfig, names_file
from verifierd.predictors import PREDICTORS
from verifierd.predictors.memory import OVERRIDE
from verifierd.sanitize import Quotes

__all__ = ("Judging", "Share", "format_option", "json_option", "judging_options", "report_option", "reworded")

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Share(click.FloatRange):
    """A number within bounds; "nan", which no bound holds back, is none."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        share = float(super().convert(value, param, ctx))
        if math.isnan(share):
            self.fail(f"{value} is no number", param, ctx)
        return share


def _known(kind: str, known: Sequence[str]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A callback that refuses names, joined by commas, that are not known."""

    def check(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
        names = [] if value is None else [name.strip() for name in value.split(",")]
        for name in names:
            if name not in known:
                raise click.BadParameter(f"no {kind} is called `{name}`; known ones: {', '.join(known)}")
        return value

    return check


format_option: _Decorator = click.option(
    "--format",
    "format_name",
    default=None,
    metavar="auto|NAME",
    callback=_known("format", ("auto", *FORMATS)),
    help=f"Read the logs as this format ({', '.join(FORMATS)}); `auto` decides on their shape.",
)

json_option: _Decorator = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on standard output, everything else on standard error."
)

report_option: _Decorator = click.option(
    "--report", "page", type=click.Path(path_type=Path), metavar="FILE.html", help="Write a report with pictures."
)

_JUDGING: tuple[_Decorator, ...] = (
    click.option(
        "--predictor",
        metavar="NAME[,NAME...]",
        callback=_known("predictor", tuple(PREDICTORS)),
        help=f"Who predicts ({', '.join(PREDICTORS)}); several are asked in turn.",
    ),
    click.option(
        "--predictions",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The JSONL file that the predictor `recorded` answers from.",
    ),
    click.option(
        "--model",
        metavar="NAME|DIR",
        help="The model: of the hub, a folder, or `tiny` for tests; with --base-url, one that the server knows.",
    ),
    click.option(
        "--base-url",
        metavar="URL",
        help="Ask the model of a server that speaks OpenAI's protocol, such as http://127.0.0.1:8080/v1.",
    ),
    click.option("--prompts", metavar="DIR", help="A checkout of Qwen-AgentWorld whose system prompts are used."),
    click.option(OVERRIDE, "memory_override", is_flag=True, help="Load the model even if it seems not to fit."),
    click.option("--policy", metavar="NAME|FILE", help="A bundled policy or a TOML file."),
    click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write verdicts to this JSONL file."),
    format_option,
    click.option("--limit", type=click.IntRange(1), metavar="N", help="Judge no more than N steps."),
    click.option("--seed", type=int, default=0, metavar="N", help="Seed of whatever is random."),
)


_NO_MODEL = ModelConfig()


class Judging(msgspec.Struct, frozen=True, kw_only=True):
    """What the options of `judging_options` said; None where one was not given."""

    predictor: str | None
    predictions: Path | None
    model: str | None
    base_url: str | None
    prompts: str | None
    memory_override: bool
    policy: str | None
    out: Path | None
    format_name: str | None
    limit: int | None
    seed: int

    @property
    def inputs(self) -> list[Path]:
        """The files named that are only read."""
        policy = [] if self.policy is None or not names_file(self.policy) else [Path(self.policy)]
        return [*policy, *([] if self.predictions is None else [self.predictions])]

    def choice(
        self,
        *,
        policy: str = "default",
        predictor: str | None = None,
        model: ModelConfig = _NO_MODEL,
        quotes: Quotes | None = None,
    ) -> Choice:
        """Who judges: what was said here, else what the arguments say."""
        return Choice(
            policy=self.policy or policy,
            predictor=self.predictor or predictor,
            model=msgspec.structs.replace(
                model,
                name=self.model or model.name,
                base_url=self.base_url or model.base_url,
                prompts=self.prompts or model.prompts,
                memory_override=self.memory_override or model.memory_override,
            ),
            say=lambda line: click.echo(line, err=True),
            predictions=self.predictions,
            quotes=quotes,
            limit=self.limit,
        )


def judging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that judges steps; the command gets them as `judging`."""

    @functools.wraps(command)
    def judged(**options: Any) -> Any:
        judging = Judging(**{name: options.pop(name) for name in Judging.__struct_fields__})
        return command(judging=judging, **options)

    decorated: Callable[..., Any] = judged
    for option in reversed(_JUDGING):
        decorated = option(decorated)
    return decorated


def reworded(command: click.Command, **helps: str) -> None:
    """Say of shared options what they mean for one command."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name in helps:
            parameter.help = helps[parameter.name]
