"""Identifiers of verdicts in words for people; the console has the same ones."""

from collections.abc import Mapping

from verifierd.types import Abstain, ObservationKind, VerdictKind

__all__ = ("KINDS", "REASONS", "SIGNALS", "VERDICTS", "spoken")

VERDICTS: Mapping[str, str] = {
    VerdictKind.OFF_PATH: "off path",
    VerdictKind.ON_PATH: "on path",
    VerdictKind.ABSTAIN: "abstained",
}

REASONS: Mapping[str, str] = {
    "as_predicted": "what was checked is as predicted",
    "contradiction": "something that follows from the history is contradicted",
    "echoed_call": "the call itself came back instead of a result",
    "error_flip": "success was certain and it failed, or the reverse",
    "status": "another exit status was certain",
    "surprise": "a model found what came less likely than all but very few steps of clean trajectories",
    Abstain.UNPREDICTABLE: "what came depends on state that nobody has shown",
    Abstain.UNCALIBRATED: "a model expected something else, and nobody has measured how often it is wrong",
    Abstain.ROLE_BREAK: "the model fell out of its role; that says nothing of the agent",
    Abstain.TRUNCATED: "the model's prediction was cut by its cap; that says nothing of the agent",
    Abstain.RACY: "a call that ran at the same time may have changed the state",
    Abstain.NOT_ENV: "the observation is not the environment's answer",
    Abstain.TOO_LONG: "the observation is too long for the model",
    Abstain.TIMEOUT: "there was no prediction in time",
    Abstain.PREDICTOR_ERROR: "the predictor failed",
}
"""Why a step was decided so, or not at all."""

KINDS: Mapping[str, str] = {
    ObservationKind.HARNESS_ERROR: "an error of the harness around the agent",
    ObservationKind.POLICY_DENIED: "a refusal, by a person or a rule",
    ObservationKind.STILL_RUNNING: "of a command that still runs",
    ObservationKind.POLL: "a look at a command that runs",
    ObservationKind.STUB: "a placeholder for what the log left out",
    ObservationKind.INTERRUPTED: "of a command that was interrupted",
    ObservationKind.MISSING: "missing from the log",
}
"""What an observation is that nobody judges."""

SIGNALS: Mapping[str, str] = {
    "contradiction": "certain, and contradicted",
    "echoed_call": "the call itself came back instead of a result",
    "error_flip": "success where failure was expected, or the reverse",
    "status": "another exit status than expected",
    "unusual": "hardly ever so on clean logs, but possible",
    "suspect": "a model expected something else; a guess",
    "surprise": "unlikely to the model",
    "stale": "repeats an earlier observation; a hint only",
    "foreign": "seems to answer another action; a hint only",
    "injection": "reads like an instruction to the agent; a hint only",
    "inexact": "equal only after harmless differences were taken off",
    "role_break": "the model did not predict an observation",
    "truncated": "the prediction was cut",
    "timeout": "no prediction in time",
    "predictor_error": "a predictor failed",
}
"""What a signal says."""


def spoken(name: str) -> str:
    """An identifier as words."""
    return name.replace("_", " ")
