"""The simulator falls out of its role: its own failure, counted as such and never as a divergence."""

import re

import msgspec

from verifierd.scoring.echo import echoes
from verifierd.types import Abstain, History, Prediction, Score, Signal, Step

__all__ = ("failure", "role_break")

_CALL_KEYS = {"tool", "name", "function", "action", "action_type", "command", "keystrokes"}
_TURN = re.compile(r"\A\s*(?:<think>|<tool_call>|<function=|<\|im_start\|>|\*{0,2}Action:\*{0,2}\s)")


def failure(_history: History, _step: Step, prediction: Prediction) -> Score:
    """Did a predictor say itself that it failed?"""
    if prediction.failed is None:
        return Score(name="failure", reason="no predictor failed")
    return Score(
        name="failure",
        value=1.0,
        abstain=prediction.failed,
        signals=(Signal(name=prediction.failed.value, value=1.0, detail=prediction.detail),),
    )


def role_break(_history: History, step: Step, prediction: Prediction) -> Score:
    """Is the predicted text no observation at all, but the agent's side of the talk?

    It is one if it repeats the action's JSON or command, opens a thought or a tool call, or is a JSON call. A
    prediction by rule cannot break the role, and what the environment really said is never one.
    """
    if prediction.certain or prediction.text is None:
        return Score(name="role_break", reason="no model's text")
    text = prediction.text.strip()
    if text == step.observation.strip():
        return Score(name="role_break", value=0.0)
    if not (_TURN.match(text) or _is_call(text) or _echoes(text, step)):
        return Score(name="role_break", value=0.0)
    return Score(
        name="role_break",
        value=1.0,
        abstain=Abstain.ROLE_BREAK,
        signals=(Signal(name="role_break", value=1.0, detail="the prediction is an action, not an observation"),),
    )


def _is_call(text: str) -> bool:
    if not text.startswith(("{", "[", "```")):
        return False
    body = text.removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    if isinstance(value, list):
        value = value[0] if value else None
    return (
        isinstance(value, dict)
        and bool(_CALL_KEYS & value.keys())
        and bool({"arguments", "input", "parameters", "keystrokes", "command", "tool", "action_type"} & value.keys())
    )


def _echoes(text: str, step: Step) -> bool:
    command = step.action.text.strip()
    return (len(command) >= 4 and text in (command, f"$ {command}")) or echoes(step.action, text)
