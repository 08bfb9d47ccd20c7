"""Turns scores into a verdict: the policy document and `decide`, a pure function.

It knows nothing of predictors or formats, only of steps, predictions and scores.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from verifierd.bundled import root
from verifierd.config import convert, names_file
from verifierd.errors import ConfigError, PolicyError
from verifierd.types import (
    Abstain,
    Alarm,
    ObservationKind,
    Prediction,
    Score,
    Seconds,
    Signal,
    Step,
    Verdict,
    VerdictKind,
    digest,
)

__all__ = ("Asking", "Memory", "Normaliser", "Policy", "decide", "load", "names")

Normaliser = Literal["ansi", "redraw", "trailing-blanks", "echoed-command", "blank-edges"]


class Asking(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """How a language model is asked.

    Attributes:
        max_tokens: Cap of a prediction, in tokens; does not depend on the observation.
        predicted_text: Decode on from the first difference, so that there is a text to show and to compare?
        deadline: Seconds that a step may wait for its prediction.
        history: `stable` keeps what was computed; `template` renders the past as the chat template does.
        wrapper: What stands around an observation: `none`, a `marker` line before it, or `tags`.
        action: Shell commands as `keystrokes` or as a `command`.
        screen: Observations of shell commands begin with the command's echo.
    """

    max_tokens: int = 1024
    predicted_text: bool = False
    deadline: float = 30.0
    history: Literal["stable", "template"] = "stable"
    wrapper: Literal["none", "marker", "tags"] = "marker"
    action: Literal["keystrokes", "command"] = "keystrokes"
    screen: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens < 256:
            raise ValueError("`max-tokens` must be at least 256: a lower cap says more of the cap than of the model")
        if not self.deadline > 0:  # so that `nan` is refused, too
            raise ValueError("`deadline` must be above 0")


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """One policy document. `policies/README.md` explains every key.

    Attributes:
        name: What verdicts call it.
        description: One sentence for people.
        predictors: The chain, asked in turn until one predicts.
        normalisers: What is taken off both sides before they are compared.
        min_coverage: Least share of the observation that must have been checked for `on_path`.
        alarm_after: Contradictions in a trajectory that are still no alarm.
        ask_below: A later predictor of the chain is asked while less than this share of the observation was checked.
        asking: How a language model is asked.
        shell_profile: What kind of shell the commands ran in; `auto` infers it.
    """

    name: str
    description: str = ""
    predictors: tuple[str, ...] = ("shell", "contracts")
    normalisers: tuple[Normaliser, ...] = ("ansi", "redraw", "trailing-blanks", "echoed-command", "blank-edges")
    min_coverage: float = 0.01
    alarm_after: int = 0
    ask_below: float = 1.0
    asking: Asking = Asking()
    shell_profile: Literal["auto", "bash", "portable"] = "auto"

    def __post_init__(self) -> None:
        if not self.predictors:
            raise ValueError("`predictors` is empty; name at least one")
        if not 0 < self.min_coverage <= 1:
            raise ValueError("`min-coverage` must be above 0 and at most 1")
        if not 0 <= self.ask_below <= 1:
            raise ValueError("`ask-below` must be from 0 to 1")
        if self.alarm_after < 0:
            raise ValueError("`alarm-after` must not be negative")

    @property
    def id(self) -> str:
        """Name and hash of the content: two policies with one id decide alike."""
        content = msgspec.json.encode(msgspec.structs.replace(self, description=""))
        return f"{self.name}@{hashlib.blake2b(content, digest_size=6).hexdigest()}"


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions remember of a trajectory.

    Attributes:
        decided: Steps decided so far.
        contradictions: Steps in which something certain was contradicted.
        first: Index of the first of them, 0 if there is none.
    """

    decided: int = 0
    contradictions: int = 0
    first: int = 0


def load(name: str) -> Policy:
    """A bundled policy by name, or a file: a suffix or a separator makes it a path.

    Raises:
        PolicyError: It does not exist, or has an unknown key or an impossible value.
    """
    if names_file(name):
        try:
            text = Path(name).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PolicyError(
                f"{name}: cannot read the policy: {getattr(error, 'strerror', None) or error}",
                hint="Name an existing TOML file, or one of: " + ", ".join(names()) + ".",
            ) from error
    else:
        document = root("policies") / f"{name}.toml"
        if name not in names():
            raise PolicyError(
                f"no policy is called `{name}`",
                hint="Bundled policies: " + ", ".join(names()) + ". A file needs a `/` or the suffix `.toml`.",
            )
        text = document.read_text(encoding="utf-8")
    try:
        return convert(text, name, Policy)
    except ConfigError as error:
        raise PolicyError(error.message, hint=error.hint) from error


def names() -> list[str]:
    """The bundled policies."""
    return sorted(p.name.removesuffix(".toml") for p in root("policies").iterdir() if p.name.endswith(".toml"))


def decide(
    policy: Policy,
    memory: Memory,
    step: Step,
    prediction: Prediction,
    scores: Sequence[Score],
    *,
    predictor: str,
    model: str | None,
    time: str,
    seconds: Seconds,
) -> tuple[Memory, Verdict]:
    """Decide one step. Pure: the same arguments give the same result.

    Args:
        policy: The thresholds.
        memory: What is remembered of the trajectory so far.
        step: What happened.
        prediction: What was expected.
        scores: The distances between the two.
        predictor: The chain as configured; part of the verdict's identity.
        model: The model as configured; likewise.
        time: When, ISO-8601; only carried.
        seconds: What it took; only carried.

    Returns:
        The new memory and the verdict.
    """
    coverage = max((score.coverage for score in scores), default=0.0)
    signals = tuple(signal for score in scores for signal in score.signals)
    kind, reason = _judge(policy, step, prediction, scores, coverage)
    contradicted = kind is VerdictKind.OFF_PATH
    memory = Memory(
        decided=memory.decided + (kind is not VerdictKind.ABSTAIN),
        contradictions=memory.contradictions + contradicted,
        first=memory.first or (step.index if contradicted else 0),
    )
    alarm = None
    if contradicted:
        alarm = Alarm(
            statistic=float(memory.contradictions),
            threshold=float(policy.alarm_after),
            raised=memory.contradictions > policy.alarm_after,
        )
    step_id = step.step_id
    values = [score.value for score in scores if score.value is not None]
    return memory, Verdict(
        verdict_id=digest(step_id, policy.id, predictor, model or ""),
        step_id=step_id,
        trajectory=step.trajectory,
        step=step.index,
        tool=step.tool,
        domain=step.domain,
        verdict=kind,
        reason=reason,
        detail=prediction.detail if kind is VerdictKind.ABSTAIN else "",
        coverage=coverage,
        score=max(values, default=None),
        status_checked=any(score.status_checked for score in scores),
        signals=signals,
        alarm=alarm,
        action=step.action.text,
        predicted=prediction.text,
        observed=step.observation,
        predictor=prediction.predictor,
        model=prediction.model,
        policy=policy.id,
        observation_kind=step.observation_kind,
        tokens=prediction.tokens,
        seconds=seconds,
        origin=step.origin,
        time=time,
    )


def _judge(
    policy: Policy, step: Step, prediction: Prediction, scores: Sequence[Score], coverage: float
) -> tuple[VerdictKind, str]:
    if step.observation_kind is not ObservationKind.ENV:
        return VerdictKind.ABSTAIN, Abstain.NOT_ENV
    if violated := [score for score in scores if score.violated]:
        return VerdictKind.OFF_PATH, _strongest(violated)
    # A model that guessed otherwise, or failed, takes nothing from what is certain.
    if coverage >= policy.min_coverage:
        return VerdictKind.ON_PATH, "as_predicted"
    if refused := next((score.abstain for score in scores if score.abstain is not None), None):
        return VerdictKind.ABSTAIN, refused
    return VerdictKind.ABSTAIN, prediction.abstain or Abstain.UNPREDICTABLE


def _strongest(violated: Sequence[Score]) -> str:
    signals: list[Signal] = [signal for score in violated for signal in score.signals]
    if any(signal.name == "error_flip" for signal in signals):
        return "error_flip"
    return signals[0].name if signals else violated[0].name
