"""Whether a word may be taken for the name of a file: no option in disguise, not empty, not the system's."""

import re
from collections.abc import Mapping

from verifierd.commandline.reading import Command, Script
from verifierd.commandline.words import Unread, Word

__all__ = ("Operands", "check_path")

# The root's own entries, which belong to the system, and so does what lies below the usual ones.
_SYSTEM = re.compile(
    r"/+(?:bin|boot|dev|etc|lib\w*|media|mnt|opt|proc|root|run|sbin|srv|sys|usr|var)?(?:/|$)|/+[^/]+/*$"
)
# The virtual shell takes `x/..` away without asking whether x is there.
_BACK = re.compile(r"(?:^|/)(?!\.\.?/)[^/]+/+\.\.(?:/|$)")
# Commands whose output is numbers or paths, and so never an option.
_HARMLESS_SOURCES = frozenset({"seq", "find", "pwd"})
_ALWAYS_SET = frozenset({"HOME", "PWD", "OLDPWD"})


def check_path(text: str) -> None:
    """Refuse a literal path that is empty or odd, or that belongs to the system.

    Raises:
        Unread: It is one.
    """
    if text == "/dev/null":
        return
    of_system = text.startswith("/") and not re.match(r"/(?:tmp|home)/", text) and _SYSTEM.match(text)
    if not text or "\n" in text or of_system or _BACK.search(text):
        raise Unread(f"path {text!r}")


class Operands:
    """Judges words in a script.

    Args:
        script: The script.
        values: Variables that have a value before it.
    """

    def __init__(self, script: Script, values: Mapping[str, str]) -> None:
        self._script = script
        self._values = values

    def check(self, word: Word, command: Command) -> None:
        """Refuse a word that might be an option, be empty, or name what belongs to the system.

        Raises:
            Unread: It might.
        """
        if word.text is not None:
            check_path(word.text)
        elif word.head.startswith("-"):
            raise Unread("option by expansion")
        elif word.head.startswith("/"):
            check_path(f"{word.head}x/x")
        elif not word.head and not (word.globs and not word.names and not word.substitutes):
            self._check_expansion(word, command)

    def _check_expansion(self, word: Word, command: Command) -> None:
        if word.substitutes and word.source not in _HARMLESS_SOURCES:
            raise Unread("operand by substitution")
        for name in word.names[:1]:
            if not self._is_sure(name, command, frozenset()) or (name.isdigit() and word.splits):
                raise Unread(f"operand ${name}")

    def _is_sure(self, name: str, command: Command, seen: frozenset[str]) -> bool:
        """Whether a parameter surely has a value that is not empty and no option."""
        if name in _ALWAYS_SET:
            return True
        if name == "((" or name in seen:
            return False
        if name in {"@", "*"} or name.isdigit():
            return command.function is not None  # what a function is called with was checked at its call
        words = self._script.bound.get(name)
        if not words:
            value = self._values.get(name, "")
            return value != "" and not value.startswith("-")
        return all(self._is_sure_word(word, command, seen | {name}) for word in words)

    def _is_sure_word(self, word: Word | None, command: Command, seen: frozenset[str]) -> bool:
        if word is None or word.text == "":
            return False
        if word.text is not None or word.head:
            return not (word.text or word.head).startswith("-")
        if word.substitutes:
            return word.source in _HARMLESS_SOURCES
        if word.names:
            return self._is_sure(word.names[0], command, seen)
        return word.globs
