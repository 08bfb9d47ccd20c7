"""Tells options from operands, and puts options into a normal form.

In it, `N` is a number, `C` one character, `F` a file, `P` a pattern, `S` a script; keys and lists keep their shape.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from verifierd.commandline.words import Unread, Word

__all__ = ("options",)

_KEY = re.compile(r"\d+(?:\.\d+)?[bdfhnrV]*(?:,\d+(?:\.\d+)?[bdfhnrV]*)?")
_LIST = re.compile(r"\d+(?:-\d*)?|-\d+")
_SHORT_NUMBER = re.compile(r"-\d+")


def options(name: str, args: Sequence[Word]) -> tuple[list[str], list[Word]]:
    """The options of a command in their normal form, and its operands.

    Raises:
        Unread: An option depends on expansion, is given twice, or has a value of no known class.
    """
    flags: list[str] = []
    operands: list[Word] = []
    rest = list(args)
    late = False
    while rest:
        word = rest.pop(0)
        text = word.text or ""
        if word.text is None and word.head.startswith("-"):
            raise Unread(f"option of {name} by expansion")
        if not text.startswith("-"):
            operands.append(word)
        elif text == "-":
            flags.append("-")
            operands.append(word)
        elif text == "--":
            late = late or bool(operands)
            flags.append("--")
            operands += rest
            break
        else:
            late = late or any(operand.text != "-" for operand in operands)
            flags += _option(name, text, rest)
            if len({flag for flag in flags if " " not in flag}) < sum(" " not in flag for flag in flags):
                raise Unread(f"option of {name} given twice")
    return flags + (["late"] if late else []), operands


def _option(name: str, text: str, rest: list[Word]) -> list[str]:
    """The options in one word; a value that is a word of its own is taken from `rest`."""
    if text.startswith("--"):
        option, has, value = text.partition("=")
        return [f"{option}={_value(name, option, value)}" if has else option]
    if name in {"head", "tail", "diff"} and _SHORT_NUMBER.fullmatch(text):
        return ["-N"]
    flags: list[str] = []
    for at, letter in enumerate(text[1:], 1):
        if letter not in _VALUES.get(name, {}):
            flags.append(f"-{letter}")
            continue
        value = text[at + 1 :]
        if not value:
            if not rest or rest[0].text is None:
                raise Unread(f"value of {name} -{letter}")
            value = str(rest.pop(0).text)
        return [*flags, f"-{letter} {_value(name, letter, value)}"]
    return flags


def _value(name: str, option: str, text: str) -> str:
    shown = _VALUES.get(name, {}).get(option, _number)(text)
    if shown is None:
        raise Unread(f"value of {name} {option}")
    return shown


def _number(text: str) -> str | None:
    return None if not re.fullmatch(r"\d{1,6}", text) else "N" if text.strip("0") else "0"


def _count(text: str) -> str | None:
    return f"{text[0]}N" if re.fullmatch(r"[+-]\d{1,6}", text) else _number(text)


def _character(text: str) -> str | None:
    return "C" if len(text) == 1 and text in ",:;|/ =-_.\t+@#" else None


def _separator(text: str) -> str | None:
    return "C" if text == "\\t" else _character(text)


def _key(text: str) -> str | None:
    return re.sub(r"\d+", "N", text) if _KEY.fullmatch(text) else None


def _list(text: str) -> str | None:
    items = text.split(",")
    if not all(_LIST.fullmatch(item) for item in items):
        return None
    starts = [int(item.strip("-").split("-")[0]) for item in items]
    return ",".join(sorted({re.sub(r"\d+", "N", item) for item in items})) if starts == sorted(starts) else None


def _file(text: str) -> str | None:
    return "F" if text and not text.startswith(("/", "-")) else None


def _setting(text: str) -> str | None:
    return "x=v" if re.fullmatch(r"[a-z]\w*=[A-Za-z0-9_.,:/-]*", text) else None


def _stat_format(text: str) -> str | None:
    return text if re.fullmatch(r"(?:%[anFs]| |:)+", text) else None


def _constant(shown: str, *texts: str) -> Callable[[str], str | None]:
    """A value that is always shown as the same; if texts are given, it must be one of them."""
    return lambda text: shown if not texts or text in texts else None


# The options that take a value, and how the value is classified; None refuses it.
_VALUES: Mapping[str, Mapping[str, Callable[[str], str | None]]] = {
    "awk": {"F": _separator, "v": _setting},
    "base64": {"w": _number},
    "basename": {"s": _constant("S")},
    "cp": {"t": _file},
    "cut": {"b": _list, "c": _list, "d": _character, "f": _list},
    "diff": {"U": _number},
    "expand": {"t": _number},
    "fold": {"w": _number},
    "grep": {"e": _constant("P"), **dict.fromkeys("ABCm", _number)},
    "head": {"n": _count, "c": _count},
    "join": {"t": _character, **dict.fromkeys("12aj", _number)},
    "ln": {"t": _file},
    "mv": {"t": _file},
    "nl": {"b": _constant("a", "a"), "n": _constant("ln", "ln"), "s": _character, "w": _number},
    "od": {"A": _constant("n", "n"), "t": _constant("x1", "x1")},
    "paste": {"d": _character},
    "sed": {"e": _constant("S")},
    "seq": {"s": _character},
    "sort": {"k": _key, "t": _character},
    "split": {"b": _number, "l": _number},
    "stat": {"c": _stat_format},
    "tail": {"n": _count, "c": _count},
    "tar": {"C": _file, "f": _file},
    "uniq": dict.fromkeys("fsw", _number),
    "xargs": {"I": _constant("{}", "{}"), "L": _number, "n": _number},
}
