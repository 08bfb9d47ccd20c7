"""Suites: documents that say what is measured, how much of it, and what others published."""

import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import msgspec

from verifierd import __version__
from verifierd.bundled import root
from verifierd.composition import Choice
from verifierd.config import convert, names_file
from verifierd.errors import ConfigError
from verifierd.paths import expanded
from verifierd.replay.bench.claims import claim
from verifierd.replay.bench.figures import Results, holds

__all__ = (
    "ENGINES",
    "UNASKED",
    "Known",
    "Measured",
    "Report",
    "Request",
    "Size",
    "Suite",
    "begun",
    "load",
    "measure",
    "names",
    "parameters_of",
)

P = TypeVar("P", bound=msgspec.Struct)

Size = Literal["smoke", "full"]

_README = "`replay/suites/README.md` says what stands in a suite's document, and those that are bundled show it."


class Known(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a suite's document knows of a figure.

    Attributes:
        says: What it means, and which way is better.
        unit: What it is counted in; empty for ratios.
        wanted: A condition such as `>= 4` that it should meet.
        published: What others, or an earlier measurement, found.
        source: Where that stands, and under which conditions it was found.
    """

    says: str
    unit: str = ""
    wanted: str = ""
    published: float | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if self.wanted:
            try:
                holds(f"it {self.wanted}", {"it": 0.0})
            except ConfigError as error:
                raise ValueError(f"`wanted` is `{self.wanted}`, no condition such as `>= 4`") from error


class Suite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One document of `replay/suites`.

    Attributes:
        name: What it is called by, also in the names of files.
        description: One sentence.
        engine: Which function measures, of `ENGINES`.
        predictor: Who is measured, unless an option says another; empty where nobody predicts.
        model: Its model, unless an option names another; None for the predictor's own default.
        smoke, full: The engine's parameters: a quick look, and the real thing.
        figures: What is known of each figure.
    """

    name: str
    description: str
    engine: str
    smoke: dict[str, Any]
    full: dict[str, Any]
    predictor: str = "mlx"
    model: str | None = None
    figures: dict[str, Known] = {}

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise ValueError(f"`name` is `{self.name}`; letters, digits, `_`, `.` and `-` make one")
        if self.engine not in ENGINES:
            raise ValueError(f"`engine` is `{self.engine}`; known ones: {', '.join(ENGINES)}")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is asked.

    Attributes:
        parameters: The document's, for the size.
        choice: Predictor, model and policy.
        runs: How often a comparison is repeated; None for what the parameters say.
        seed: Of whatever is random.
        say: Told what happens.
        data: The file to measure on, for engines that read one; None for what they bring along.
        out: A file for the rows behind the figures, for engines that write one.
        suite, size: What is measured.
        sampling: How a model's tokens are drawn.
        on: Told how many more jobs are done, and how many there are.
    """

    parameters: Mapping[str, Any]
    choice: Choice
    runs: int | None
    seed: int
    say: Callable[[str], None]
    data: Path | None = None
    out: Path | None = None
    suite: str = ""
    size: Size = "full"
    sampling: Literal["greedy", "card"] = "greedy"
    on: Callable[[int, int], None] = lambda _done, _total: None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine found.

    Attributes:
        model: The model with its revision; a random one says so. None if there was none.
        results: The figures by name.
        host: What the engine knows of the machine.
        warning: What a reader must know before reading the figures.
        rows: The answers behind the figures, of suites that ask for some.
    """

    model: str | None
    results: Results
    host: dict[str, Any] = {}
    warning: str = ""
    rows: Sequence[Any] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `bench --json` prints, but for the rows.

    Attributes:
        claims: Of each published figure, whether it holds, by the rule of `claims.RULE`.
        rows: The answers behind the figures, of suites that ask for some.
    """

    suite: str
    predictor: str
    model: str | None
    size: Size
    seed: int
    results: Results
    published: dict[str, float]
    host: dict[str, Any]
    warning: str
    claims: dict[str, str] = {}
    rows: Sequence[Any] = ()


def _speed(request: Request) -> Measured:
    try:
        from verifierd.replay.bench.speed import speed  # noqa: PLC0415 - loads the engine
    except ImportError as error:
        raise ConfigError(
            f"the suite `speed` cannot run here: {error}",
            hint="mlx-lm needs Apple silicon or Linux: pip install mlx-lm, on Linux with mlx[cpu] or mlx[cuda12].",
        ) from error
    return speed(request)


def _scores(request: Request) -> Measured:
    from verifierd.replay.bench.scores import scores  # noqa: PLC0415 - it imports this module

    return scores(request)


def _alarms(request: Request) -> Measured:
    from verifierd.replay.bench.alarms import alarms  # noqa: PLC0415 - it imports this module

    return alarms(request)


def _agentworldbench(request: Request) -> Measured:
    from verifierd.replay.bench.agentworldbench import agentworldbench  # noqa: PLC0415 - it imports this module

    return agentworldbench(request)


def _generalist(request: Request) -> Measured:
    from verifierd.replay.bench.generalist import generalist  # noqa: PLC0415 - it imports this module

    return generalist(request)


def _engine(request: Request) -> Measured:
    from verifierd.replay.bench.engine import engine  # noqa: PLC0415 - it imports this module

    return engine(request)


def _three_way(request: Request) -> Measured:
    from verifierd.replay.bench.threeway import three_way  # noqa: PLC0415 - it imports this module

    return three_way(request)


def _driven(module: str, engine: str, *, at_once: int | None = None) -> Callable[[Request], Measured]:
    """Asks step by step; the module, which imports this one, is loaded when its turn comes.

    Args:
        module: Where it is.
        engine: The class.
        at_once: Jobs at once, where they take time that is measured; None for what the model takes.
    """

    def measured(request: Request) -> Measured:
        from verifierd.replay.bench.drive import drive  # noqa: PLC0415 - it imports this module

        return drive(request, getattr(import_module(f"verifierd.replay.bench.{module}"), engine), at_once=at_once)

    return measured


ENGINES: dict[str, Callable[[Request], Measured]] = {
    "agentworldbench": _agentworldbench,
    "alarms": _alarms,
    "budget": _driven("thinking", "Budget"),
    "closed-loop": _driven("sequences", "ClosedLoop"),
    "constrained": _driven("constrained", "Constrained"),
    "engine": _engine,
    "generalist": _generalist,
    "plausible": _driven("plausible", "Plausible"),
    "random": _driven("sequences", "Random"),
    "roles": _driven("sequences", "Roles"),
    "scores": _scores,
    "second-domain": _driven("sequences", "SecondDomain"),
    "speed": _speed,
    "thinking-tax": _driven("thinking", "ThinkingTax", at_once=1),
    "three-way": _three_way,
}
"""Who measures: a suite's document names one."""

UNASKED = frozenset({"alarms", "scores", "speed"})
"""Those that ask for no answers: there is nothing to sample, to limit, to go on with, or to compare in pairs."""

_DATALESS = frozenset({"engine", "generalist", "plausible", "speed"})


def names() -> list[str]:
    """The bundled suites."""
    folder = root("replay") / "suites"
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def load(name: str) -> Suite:
    """A bundled suite by name, or a file: a suffix or a separator makes it a path.

    Raises:
        ConfigError: It does not exist, or has an unknown key or an impossible value.
    """
    if not names_file(name):
        if name not in names():
            raise ConfigError(f"no suite is called `{name}`", hint=f"Known suites: {', '.join(names())}.")
        return convert(
            (root("replay") / "suites" / f"{name}.toml").read_text(encoding="utf-8"), name, Suite, remedy=_README
        )
    try:
        text = expanded(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{name}: cannot read the suite: {getattr(error, 'strerror', None) or error}",
            hint=f"Name an existing TOML file, or one of: {', '.join(names())}.",
        ) from error
    return convert(text, name, Suite, remedy=_README)


def parameters_of(request: Request, kind: type[P]) -> P:
    """The parameters that an engine is asked to measure by.

    Raises:
        ConfigError: One is unknown, missing or impossible.
    """
    try:
        return msgspec.convert(dict(request.parameters), kind)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"the suite `{request.suite}`, parameters of size {request.size}: {error}", hint=_README
        ) from error


def begun(engine: str, request: Request) -> Measured:
    """Have an engine measure.

    Raises:
        ConfigError: A parameter or the data is wrong, or it reads none.
        PredictorError: The predictor cannot start here.
    """
    if request.data is not None and engine in _DATALESS:
        raise ConfigError(f"the suite `{request.suite}` reads no data", hint="Leave --data away.")
    return ENGINES[engine](request)


def measure(
    suite: Suite,
    choice: Choice,
    *,
    size: Size = "full",
    runs: int | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda _line: None,
    data: Path | None = None,
    out: Path | None = None,
    sampling: Literal["greedy", "card"] = "greedy",
    given: Mapping[str, Any] = MappingProxyType({}),
    on: Callable[[int, int], None] = lambda _done, _total: None,
) -> Report:
    """Run a suite.

    Args:
        suite: The suite.
        choice: Predictor and model; where it names none, the suite's are taken.
        size: How much is done.
        runs: How often a comparison is repeated; None for what the suite says.
        seed: Of whatever is random.
        say: Told what happens.
        data: The file to measure on.
        out: A file for the rows behind the figures; a run that was killed goes on in it.
        sampling: How a model's tokens are drawn.
        given: Parameters that replace those of the document.
        on: Told how many more jobs are done, and how many there are.

    Raises:
        ConfigError: A parameter, the seed or the data is wrong, or the predictor is none that this suite measures.
        PredictorError: The predictor cannot start here.
    """
    if seed < 0:
        raise ConfigError(f"the seed is {seed}", hint="Name a number of at least 0 after --seed.")
    predictor = choice.predictor or suite.predictor
    model = msgspec.structs.replace(choice.model, name=choice.model.name or suite.model)
    measured = begun(
        suite.engine,
        Request(
            parameters={**(suite.smoke if size == "smoke" else suite.full), **given},
            choice=msgspec.structs.replace(choice, predictor=predictor, model=model),
            runs=runs,
            seed=seed,
            say=say,
            data=data,
            out=out,
            suite=suite.name,
            size=size,
            sampling=sampling,
            on=on,
        ),
    )
    comparable = size == "full" and not measured.warning and "random weights" not in (measured.model or "")
    return Report(
        suite=suite.name,
        predictor=predictor,
        model=measured.model,
        size=size,
        seed=seed,
        results=measured.results,
        published={name: known.published for name, known in suite.figures.items() if known.published is not None},
        host=_host() | measured.host,
        warning=measured.warning,
        claims={
            name: claim(
                known.published,
                measured.results.get(name),
                wanted=known.wanted,
                unit=known.unit,
                comparable=comparable,
            )
            for name, known in suite.figures.items()
            if known.published is not None
        },
        rows=measured.rows,
    )


def _host() -> dict[str, Any]:
    load_average = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "verifierd": __version__,
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_average": load_average,
    }
