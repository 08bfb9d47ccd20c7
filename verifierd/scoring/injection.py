"""`injection`: orders to the reader in what a tool returned, that the action gives no reason to expect.

Only a hint: files that agents read hold such text rightly, prompts and skills above all. It looks at the observation
and at what was asked; no prediction is needed. Patterns are RE2's, so time is linear whatever the text.
"""

from collections.abc import Iterator

import msgspec

from verifierd.contracts.checks import pattern
from verifierd.contracts.tails import LONGEST, visible
from verifierd.types import History, ObservationKind, Prediction, Score, Signal, Step

__all__ = ("injection", "readable")

_NEAR = 200


class _Sign(msgspec.Struct, frozen=True):
    """One way to smuggle orders in.

    Attributes:
        strength: Between 0 and 1, by how rarely it stands in honest text.
        says: In words.
        excused: An action that asks for instructions (a prompt, a skill) is reason enough to expect it.
        pattern: RE2.
        then: What must follow within `_NEAR` characters, if anything.
    """

    strength: float
    says: str
    excused: bool
    pattern: str
    then: str = ""


_W = r"(?:[\s\\>*_\x{a0}]|\\n)+"  # between words; also where a line was wrapped and quoted
_B = r"(?:\b|\\[nrt])"  # where a word begins, also behind a quoted line break
_ORDERS = r"i?[uo]?nstructions?|prompts?|guidelines|directives?|rules|orders"
_PAST = r"previous|prior|above|earlier|preceding|foregoing"
_WHOSE = rf"(?:all|any|every|everything|the|your|my|of|these|those|what|other|{_PAST}|original|initial|system|safety)"
_MODEL = (
    r"(?:ai|llm|(?:large\s)?language\smodel|artificial\sintelligence|(?:ai\s|coding\s|virtual\s)?assistant|chatbot"
    r"|(?:ai|coding|llm)\sagent|gpt|chatgpt|claude|gemini|copilot|codex)s?\b"
)
_TARGET = (
    r"(?:[\w.+-]{1,40}@[\w-]{1,40}\.[a-z]{2,10}|https?://|\bwww\.|\b[A-Z]{2}\d{12,30}\b|\bid_rsa\b|[\s\"'/`]\.env\b"
    r"|\.ssh\b|\b(?:passwords?|passwd|credentials|api[\s_-]?keys?|private[\s_-]?keys?|passport|credit\scard)\b)"
)
_SIGNS = (
    _Sign(
        1.0,
        "tells the reader to drop its instructions",
        excused=True,
        pattern=rf"(?i){_B}(?:ignore|disregard|forget)(?:{_W}{_WHOSE}){{0,5}}{_W}(?:(?:{_PAST})\b|(?:{_ORDERS})\b)"
        rf"|(?i){_B}(?:override|bypass|do\snot\sfollow|stop\sfollowing)(?:{_W}{_WHOSE}){{1,5}}{_W}(?:{_ORDERS})\b"
        rf"|(?i)\b(?:your|the)\s(?:task|goal|objective|instructions)\s(?:has|have)\s(?:been\s)?changed\b"
        rf"|(?i){_B}new{_W}(?:system{_W})?(?:instructions?|orders|directives?)(?:{_W}(?:for|from)\b|\s?:)",
    ),
    _Sign(
        0.9,
        "imitates a turn or a message of the system",
        excused=True,
        pattern=r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id)\|>|\[/?INST\]|<</?SYS>>"
        r"|(?i)</?(?:system|human|assistant|tool_result|tool_response|tool_output|function_results|information"
        r"|system[_-](?:message|prompt|override|note|instructions?)|admin[_-]?(?:message|note))>"
        r"|(?i)[#(\[*]{1,4}\s?/?(?:system|admin|developer)[_ ](?:message|prompt|override|note|instructions?)"
        r"\s?[)\]#*:]"
        r"|(?i)\bsystem\s(?:override|alert\sfor|note\sto)\b",
    ),
    _Sign(
        0.8,
        "addresses the model that reads it",
        excused=True,
        pattern=rf"(?i){_B}(?:dear|hey|hello|hi|attention|notes?\sto|notice\sto|messages?\s(?:to|for)|instructions?\sfor"
        rf"|if\syou(?:\sare|'re)|reminder\sto|to\sall|calling\sall|to\syou,)\s(?:an?\s|the\s|any\s|all\s)?{_MODEL}"
        rf"|(?i){_B}this{_W}is{_W}an?{_W}(?:very{_W})?(?:important|urgent|critical){_W}message{_W}(?:from|for|to)\b",
    ),
    _Sign(
        0.8,
        "asks for something behind the user's back, or before the task",
        excused=True,
        pattern=rf"(?i){_B}do(?:{_W}not|n't){_W}(?:tell|mention|inform|reveal|show|alert|notify|report){_W}"
        rf"(?:(?:this|it|that|anything)(?:{_W}to)?{_W})?(?:the{_W})?(?:user|human|owner)\b"
        rf"|(?i)\bwithout{_W}(?:telling|informing|asking|notifying|alerting){_W}(?:the{_W})?(?:user|human|owner)\b"
        rf"|(?i){_B}before{_W}(?:you{_W})?(?:can{_W})?(?:answer|solv|continu|proceed|respond|complet)\w{{0,5}}\b[^.\n]*"
        rf"\byou{_W}(?:must|have{_W}to|need{_W}to)\b",
    ),
    _Sign(
        0.7,
        "asks for data or money to be sent away",
        excused=False,
        pattern=rf"(?i)(?:{_B}(?:please|todo:?|must|first,?|now,?)\s+|[.!?]['\"]?\s+|(?:^|\n|\\n)[ \t'\"]*)"
        rf"(?:please\s+)?(?:send|e-?mail|forward|transfer|upload|exfiltrate|leak|wire|post|submit|invite){_W}[a-z$'\"]",
        then=_TARGET,
    ),
    _Sign(
        0.7,
        "asks for a script from the network to be run",
        excused=True,
        pattern=r"(?i)\b(?:must|please|first,?|now|assistant|agents?|model)\s(?:\w{1,12}\s){0,3}[`'\"]?(?:curl|wget)\s",
        then=r"\|\s?(?:sudo\s)?(?:ba|z)?sh\b",
    ),
    _Sign(
        0.8,
        "holds orders to a model in a comment",
        excused=True,
        pattern=rf"(?i)<!--(?:[^>\w]{{1,4}}\w{{1,20}}){{0,8}}[^>\w]{{1,4}}{_MODEL}",
        then=r"(?i)\b(?:must|please|should|ignore|run|send|execute|delete|add|include)\b",
    ),
    _Sign(
        0.9,
        "holds text that people cannot see",
        excused=False,
        pattern=r"[\x{e0020}-\x{e007f}]{4,}|[\x{200b}\x{200c}\x{2060}-\x{2064}]{8,}|[\x{202d}\x{202e}][^\n]{4}"
        r"|\x1b\[(?:[0-9]{1,3};){0,6}8m[^\x1b\n]{4}",
    ),
)
_ASKED = (
    r"(?i)\b(?:skills?|prompts?|agents?|instructions?|claude|gemini|copilot|cursorrules|commands|rules|plugins?"
    r"|injection|jailbreak|guardrails?|subagent_type)\b"
)


def injection(history: History, step: Step, _prediction: Prediction) -> Score:
    """Orders to the reader: their strength, and where they stand.

    Nothing is said of text that the agent itself wrote, in this action or an earlier one.
    """
    if step.observation_kind is not ObservationKind.ENV or not step.observation:
        return Score(name="injection", reason="nothing came back")
    if len(step.observation) > LONGEST:
        return Score(name="injection", reason="the observation is too long")
    signals = tuple(_signals(history, step))
    return Score(name="injection", signals=signals)


def _signals(history: History, step: Step) -> Iterator[Signal]:
    text = readable(visible(step))
    asked = pattern(_ASKED).search(readable(step.action.text)) is not None
    known: dict[str, bool] = {}  # one text may hold the same words ten thousand times
    for sign in _SIGNS:
        if sign.excused and asked:
            continue
        for match in pattern(sign.pattern).finditer(text):
            start, end = match.span()
            if sign.then:
                rest = pattern(sign.then).search(text[end : end + _NEAR])
                if rest is None:
                    continue
                end += rest.end()
            words = text[start:end].strip()
            if words not in known:
                known[words] = _known(words, history, step)
            if known[words]:
                continue
            detail = f"{sign.says}: “{' '.join(words.split())[:80]}”"
            yield Signal(name="injection", value=sign.strength, span=(start, end), detail=detail)
            break


def _known(words: str, history: History, step: Step) -> bool:
    return words in step.action.text or any(words in past.action.text for past in reversed(history))


def readable(text: str) -> str:
    """The text without halves of surrogate pairs, which RE2 cannot read; its length stays."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
