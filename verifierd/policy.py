"""Turns scores into a verdict: the policy document and `decide`, a pure function.

It knows nothing of predictors or formats, only of steps, predictions and scores.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal, get_args

import msgspec

from verifierd.bundled import root
from verifierd.calibration import Calibration, Evidence, Judged, Scored, observe
from verifierd.config import convert, names_file
from verifierd.errors import ConfigError, PolicyError
from verifierd.fusion import Fusion
from verifierd.paths import expanded
from verifierd.types import (
    Abstain,
    Alarm,
    Likelihood,
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

__all__ = (
    "DOMAINS",
    "Asking",
    "Calibrated",
    "ContentClass",
    "Memory",
    "Normaliser",
    "Policy",
    "Rules",
    "decide",
    "load",
    "names",
    "scored_step",
)

_KNOWN = 1024
_STANDS_OUT = 0.5  # nats: a token that the model gave less than three chances in five
_TOKENS = 500
_REMEDY = "Mend the value at the place that the message names; policies/README.md explains every key."

DOMAINS = ("terminal", "swe", "mcp", "search", "web", "os", "android")

ContentClass = Literal["deterministic", "pre-existing", "runtime"]
Normaliser = Literal[
    "ansi",
    "redraw",
    "trailing-blanks",
    "prompts",
    "echoed-command",
    "harness",
    "line-numbers",
    "path-roots",
    "blank-edges",
    "truncation",
    "json-order",
    "unordered-lines",
]


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


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab", omit_defaults=True):
    """What holds for a domain or a tool instead of what the policy says for all; None where nothing else holds.

    Attributes:
        normalisers: See `Policy`.
        min_coverage: See `Policy`.
        classes: See `Policy`.
        surprise: Does a model's surprise count?
    """

    normalisers: tuple[Normaliser, ...] | None = None
    min_coverage: float | None = None
    classes: tuple[ContentClass, ...] | None = None
    surprise: bool | None = None

    def __post_init__(self) -> None:
        if self.min_coverage is not None and not 0 < self.min_coverage <= 1:
            raise ValueError("`min-coverage` must be above 0 and at most 1")


class Calibrated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What `verifierd calibrate` learnt, and from what.

    Attributes:
        date: When, ISO-8601.
        predictor: The chain that scored.
        model: Its model with revision; None if there was none.
        policy: The policy that scored, with its hash.
        measure: Its `Policy.measure`.
        learnt: Thresholds and reference.
        hash: Of all the rest, so that what was damaged or changed by hand is not relied on.
    """

    date: str
    predictor: str
    model: str | None = None
    policy: str
    measure: str = ""
    learnt: Calibration
    hash: str = ""

    @property
    def digest(self) -> str:
        """What `hash` must be."""
        return _hash(msgspec.structs.replace(self, hash=""))


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab", dict=True):
    """One policy document. `policies/README.md` explains every key.

    Attributes:
        name: What verdicts call it.
        description: One sentence for people.
        predictors: The chain, asked in turn until one predicts.
        normalisers: What is taken off both sides before they are compared.
        min_coverage: Least share of the observation that must have been checked for `on_path`.
        classes: The kinds of content whose difference counts.
        domains, tools: What holds for one of them instead; a tool's rules go before its domain's.
        alarms: False for a policy that only measures.
        alarm_after: Contradictions in a trajectory that are still no alarm; before calibration.
        quotes: How much of a transcript verdicts quote: `off`, `short` (2,000 characters) or `full`.
        surprise: How a model's statistics become one score; None for the shipped one, fitted to no model.
        calibration: What clean trajectories look like; None before calibration.
        ask_below: A later predictor of the chain is asked while less than this share of the observation was checked.
        asking: How a language model is asked.
        shell_profile: What kind of shell the commands ran in; `auto` infers it.
    """

    name: str
    description: str = ""
    predictors: tuple[str, ...] = ("shell", "contracts")
    normalisers: tuple[Normaliser, ...] = get_args(Normaliser)
    min_coverage: float = 0.01
    classes: tuple[ContentClass, ...] = ("deterministic", "pre-existing")
    domains: dict[str, Rules] = {}
    tools: dict[str, Rules] = {}
    alarms: bool = True
    alarm_after: int = 0
    quotes: Literal["off", "short", "full"] = "short"
    surprise: Fusion | None = None
    calibration: Calibrated | None = None
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
        if unknown := self.domains.keys() - set(DOMAINS):
            raise ValueError(f"no domain is called `{min(unknown)}`; there are: {', '.join(DOMAINS)}")

    def rules(self, step: Step | Verdict) -> Rules:
        """What holds for a step, or held for its verdict: the tool's rules, else the domain's, else the policy's."""
        known, place = self._resolved, (step.tool, step.domain)
        if place not in known:
            rules = Rules(
                normalisers=self.normalisers, min_coverage=self.min_coverage, classes=self.classes, surprise=True
            )
            for special in (self.domains.get(step.domain), self.tools.get(step.tool)):
                rules = rules if special is None else _over(rules, special)
            if len(known) >= _KNOWN:  # names of tools come from logs
                known.clear()
            known[place] = rules
        return known[place]

    def calibrated_for(self, step: Step) -> bool:
        """Is it known how surprised a model is by what is true of such steps? Not where none was asked."""
        made = self.calibration
        return made is not None and bool(made.learnt.reference.find(step.tool, step.domain))

    @cached_property
    def _resolved(self) -> dict[tuple[str, str], Rules]:
        """Rules by tool and domain, as far as they were asked for."""
        return {}

    @cached_property
    def id(self) -> str:
        """Name and hash of the content: two policies with one id decide alike."""
        return f"{self.name}@{_hash(msgspec.structs.replace(self, description=''))}"

    @property
    def measure(self) -> str:
        """Hash of what scores depend on, but for predictors and model: a calibration holds for no other."""
        neutral = Policy(name="", description="", predictors=("none",))
        asking = msgspec.structs.replace(self.asking, deadline=neutral.asking.deadline)
        said = {name: getattr(neutral, name) for name in ("name", "predictors", "alarms", "alarm_after", "quotes")}
        return _hash(msgspec.structs.replace(self, **said, description="", asking=asking, calibration=None))

    def unlike(self, predictor: str, model: str | None) -> tuple[str, ...]:
        """How what judges differs from what the policy was calibrated with, in words; empty if it does not.

        Args:
            predictor: The chain that judges.
            model: Its model with revision; None if there is none.
        """
        made = self.calibration
        if made is None:
            return ()
        compared = (
            ("the chain of predictors", made.predictor, predictor),
            ("the model", made.model or "none", model or "none"),
            ("what else of the policy makes the scores", made.measure, self.measure),
        )
        return tuple(f"{what} was {was}, and is {now}" for what, was, now in compared if was != now)


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions remember of a trajectory.

    Attributes:
        decided: Steps decided so far.
        contradictions: Steps in which something certain was contradicted.
        first: Index of the first of them, 0 if there is none.
        evidence: What has gathered against the calibration.
        calibration: Hash of that calibration; another one gathers anew.
        alarmed: The trajectory has alarmed; it does so once, whatever policies follow each other.
    """

    decided: int = 0
    contradictions: int = 0
    first: int = 0
    evidence: Evidence = Evidence()
    calibration: str = ""
    alarmed: bool = False


def load(name: str) -> Policy:
    """A bundled policy by name, or a file: a suffix or a separator makes it a path.

    Raises:
        PolicyError: It does not exist, or has an unknown key or an impossible value.
    """
    if names_file(name):
        try:
            text = expanded(name).read_text(encoding="utf-8")
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
        found = convert(text, name, Policy, remedy=_REMEDY)
    except ConfigError as error:
        raise PolicyError(error.message, hint=error.hint) from error
    made = found.calibration
    if made is not None and made.hash != made.digest:
        raise PolicyError(
            f"{name}: the calibration is damaged or was changed by hand: its hash is {made.digest}, and "
            f"`calibration.hash` says {made.hash or 'nothing'}",
            hint="Calibrate anew with `verifierd calibrate`, or take the table [calibration] out.",
        )
    return found


def _hash(content: msgspec.Struct) -> str:
    return hashlib.blake2b(msgspec.json.encode(content), digest_size=6).hexdigest()


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
    signals = tuple(signal for score in scores for signal in score.signals)
    calibration = "" if policy.calibration is None else policy.calibration.hash
    gathered = memory.evidence if memory.calibration == calibration else Evidence()
    evidence, judged = _against_clean(policy, gathered, step, scores)
    kind, reason = _judge(policy, step, prediction, scores, judged)
    contradicted = any(score.violated for score in scores) and kind is VerdictKind.OFF_PATH
    now = Memory(
        decided=memory.decided + (kind is not VerdictKind.ABSTAIN),
        contradictions=memory.contradictions + contradicted,
        first=memory.first or (step.index if contradicted else 0),
        evidence=evidence,
        calibration=calibration,
        alarmed=memory.alarmed,
    )
    alarm = _alarm(policy, now, scored=evidence is not gathered, contradicted=contradicted)
    if alarm is not None and alarm.raised:
        now = msgspec.structs.replace(now, alarmed=True)
    step_id = step.step_id
    values = [score.value for score in scores if score.value is not None]
    surprise = _surprise(scores)
    learnt = None if policy.calibration is None else policy.calibration.learnt
    return now, Verdict(
        verdict_id=digest(step_id, policy.id, predictor, model or ""),
        step_id=step_id,
        trajectory=step.trajectory,
        step=step.index,
        tool=step.tool,
        domain=step.domain,
        verdict=kind,
        reason=reason,
        detail=prediction.detail if kind is VerdictKind.ABSTAIN else "",
        coverage=_coverage(scores),
        score=max(values, default=None) if surprise is None else surprise,
        p_value=judged.conservative,
        threshold=learnt.step_level if learnt is not None and surprise is not None else None,
        status_checked=any(score.status_checked for score in scores),
        signals=signals,
        alarm=alarm,
        action=step.action.text,
        predicted=prediction.text,
        observed=step.observation,
        surprise=msgspec.UNSET if prediction.likelihood is None else _heat(prediction.likelihood, step.observation),
        predictor=prediction.predictor,
        model=prediction.model,
        policy=policy.id,
        observation_kind=step.observation_kind,
        tokens=prediction.tokens,
        seconds=seconds,
        origin=step.origin,
        time=time,
    )


def _against_clean(policy: Policy, evidence: Evidence, step: Step, scores: Sequence[Score]) -> tuple[Evidence, Judged]:
    """The step against clean ones, as far as there is something to compare; what abstains leaves all as it is."""
    if policy.calibration is None or step.observation_kind is not ObservationKind.ENV:
        return evidence, Judged()
    scored = scored_step(policy, step, scores)
    return observe(policy.calibration.learnt, evidence, "/".join(step.key), step.index, scored)


def scored_step(policy: Policy, step: Step, scores: Sequence[Score]) -> Scored:
    """What counts of a step for calibration and alarms: a contradiction, else a model's surprise, else a match."""
    score, deterministic = None, True
    surprise = _surprise(scores) if policy.rules(step).surprise else None
    if any(found.violated for found in scores):
        score = 1.0
    elif surprise is not None:
        # Rounded, so that last bits, which differ from machine to machine, break no ties.
        score, deterministic = round(surprise, 4), False
    elif _checked(policy, step, scores):
        score = 0.0
    return Scored(tool=step.tool, domain=step.domain, score=score, deterministic=deterministic)


def _coverage(scores: Sequence[Score]) -> float:
    return max((score.coverage for score in scores), default=0.0)


def _checked(policy: Policy, step: Step, scores: Sequence[Score]) -> bool:
    return _coverage(scores) >= (policy.rules(step).min_coverage or policy.min_coverage)


def _surprise(scores: Sequence[Score]) -> float | None:
    return next((score.value for score in scores if score.name == "surprise"), None)


def _judge(
    policy: Policy, step: Step, prediction: Prediction, scores: Sequence[Score], judged: Judged
) -> tuple[VerdictKind, str]:
    if step.observation_kind is not ObservationKind.ENV:
        return VerdictKind.ABSTAIN, Abstain.NOT_ENV
    if violated := [score for score in scores if score.violated]:
        return VerdictKind.OFF_PATH, _strongest(violated)
    if judged.suspect:
        return VerdictKind.OFF_PATH, "surprise"
    # A model that guessed otherwise, or failed, takes nothing from what is certain.
    if _checked(policy, step, scores):
        return VerdictKind.ON_PATH, "as_predicted"
    refused = [score.abstain for score in scores if score.abstain is not None]
    if judged.p is not None:  # what a model found is calibrated
        refused = [reason for reason in refused if reason is not Abstain.UNCALIBRATED]
    return VerdictKind.ABSTAIN, next(iter(refused), prediction.abstain or Abstain.UNPREDICTABLE)


def _alarm(policy: Policy, now: Memory, *, scored: bool, contradicted: bool) -> Alarm | None:
    """The trajectory's alarm: by what was certain, and by the calibrated evidence.

    Calibration leaves trajectories with a contradiction out, as not clean, so its level says nothing of these: they
    alarm as before calibration.

    Args:
        policy: The thresholds.
        now: What is remembered, this step included, but for its alarm.
        scored: The step counted as evidence.
        contradicted: It contradicted something certain.
    """
    learnt = None if policy.calibration is None else policy.calibration.learnt
    level = None if learnt is None else learnt.level
    if not contradicted and (level is None or not scored):
        return None
    certain = now.contradictions > policy.alarm_after
    raised = policy.alarms and (certain or (level is not None and now.evidence.alarm > 0))
    suspected = [place for place in (now.first if certain else 0, now.evidence.first_bad) if place]
    return Alarm(
        statistic=float(now.contradictions) if level is None else now.evidence.statistic,
        threshold=float(policy.alarm_after) if level is None else level,
        raised=raised,
        new=raised and not now.alarmed,
        first_bad=min(suspected, default=0) if raised else 0,
    )


def _over(general: Rules, special: Rules) -> Rules:
    """The general rules with what the special ones say instead."""
    said = {name: value for name in Rules.__struct_fields__ if (value := getattr(special, name)) is not None}
    return msgspec.structs.replace(general, **said)


def _heat(found: Likelihood, observation: str) -> tuple[tuple[int, int, float], ...] | msgspec.UnsetType:
    """The tokens that a verdict keeps the surprise of: those that stand out, in their order, and not too many."""
    bounds = (*found.starts, len(observation.rstrip()))
    if len(bounds) != len(found.surprisal):  # the last of which is that of the end
        return msgspec.UNSET
    tokens = [
        (start, end, nats)
        for (start, end), nats in zip(pairwise(bounds), found.surprisal, strict=False)
        if nats >= _STANDS_OUT and end > start
    ]
    kept = sorted(sorted(tokens, key=lambda token: -token[2])[:_TOKENS])
    return tuple((start, end, round(nats, 1)) for start, end, nats in kept)


def _strongest(violated: Sequence[Score]) -> str:
    signals: list[Signal] = [signal for score in violated for signal in score.signals]
    if any(signal.name == "error_flip" for signal in signals):
        return "error_flip"
    return signals[0].name if signals else violated[0].name
