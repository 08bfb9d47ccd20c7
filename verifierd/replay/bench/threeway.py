"""The suite `three-way`: another suite over several models, one after the other, and their differences in pairs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from verifierd.errors import ConfigError
from verifierd.replay.bench.compare import compared, named
from verifierd.replay.bench.figures import Results
from verifierd.replay.bench.suite import UNASKED, Measured, Request, begun, load, parameters_of

__all__ = ("three_way",)


class _Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Who is asked; what is left out is as the command says."""

    model: str
    predictor: str = ""
    base_url: str = ""


class _Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """See `replay/suites/three-way.toml`."""

    suite: str
    models: list[str | _Model]


def three_way(request: Request) -> Measured:
    """Measure it.

    Raises:
        ConfigError: A parameter is wrong, or the suite's, or a file holds another run.
        PredictorError: A model cannot start here; what the others said is kept in their files.
    """
    parameters = parameters_of(request, _Parameters)
    models = [_Model(model=one) if isinstance(one, str) else one for one in parameters.models]
    suite = load(parameters.suite)
    if len(models) < 2:
        raise ConfigError("`three-way` compares two models or more", hint="Name others after --against.")
    if suite.engine in (*UNASKED, "three-way"):
        raise ConfigError(
            f"the suite `{suite.name}` has no answers that could be compared",
            hint="Take one that asks a model, such as `roles`.",
        )
    for name, one in request.parameters.items():
        if name not in ("suite", "models") and not name.startswith("judge-") and not isinstance(one, dict):
            raise ConfigError(
                f"the suite `{request.suite}`, parameters of size {request.size}: `{name}` is none of `three-way`",
                hint="What is meant for the suite that it runs belongs into a table of that suite's name.",
            )
    own = dict(request.parameters.get(suite.name, {}))
    own |= {name: one for name, one in request.parameters.items() if name.startswith("judge-")}
    found = [
        begun(suite.engine, _request(request, model, number, suite.name, {**getattr(suite, request.size), **own}))
        for number, model in enumerate(models, 1)
    ]
    runs = named(
        [
            ("", model.predictor or request.choice.predictor or "", one.model, one.rows)
            for model, one in zip(models, found, strict=True)
        ]
    )
    results: Results = {
        name: figure
        for name, figure in compared([one.rows for one in found]).items()
        if "_minus_" in name or name in ("pairs", "unpaired")
    }
    for run, one in zip(runs, found, strict=True):
        results |= {f"{run.run}_{name}": figure for name, figure in one.results.items()}
    return Measured(
        model="; ".join(f"{run.run}: {run.model or run.predictor}" for run in runs),
        results=results,
        host=found[0].host | {"suite": suite.name},
        warning=_warning({run.run: one.warning for run, one in zip(runs, found, strict=True)}),
    )


def _warning(warnings: Mapping[str, str]) -> str:
    """Of all runs; each of its own where they differ."""
    if len(set(warnings.values())) == 1:
        return next(iter(warnings.values()))
    return "; ".join(f"{run}: {one}" for run, one in warnings.items() if one)


def _place(out: Path, number: int) -> Path:
    """The file of one model's rows: `run.jsonl` becomes `run-1.jsonl`."""
    return out.with_stem(f"{out.stem}-{number}")


def _request(request: Request, one: _Model, number: int, suite: str, parameters: dict[str, Any]) -> Request:
    model = msgspec.structs.replace(
        request.choice.model, name=one.model, base_url=one.base_url or request.choice.model.base_url
    )
    choice = msgspec.structs.replace(request.choice, predictor=one.predictor or request.choice.predictor, model=model)
    return msgspec.structs.replace(
        request,
        parameters=parameters,
        choice=choice,
        suite=suite,
        out=None if request.out is None else _place(request.out, number),
        on=lambda done, total: request.on(done, total * len(request.parameters["models"])),
    )
