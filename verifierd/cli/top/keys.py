"""Keys of a terminal, one name each."""

import contextlib
import os
import re
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio

__all__ = ("names", "pressed", "raw")

_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]{0,16}[ -/]{0,4}[@-~]|O[@-~])")
_BEGUN = re.compile(rb"\x1b(?:\[[0-?]{0,16}[ -/]{0,4}|O)?\Z")
_SEQUENCES = {
    b"A": "up",
    b"B": "down",
    b"C": "right",
    b"D": "left",
    b"H": "home",
    b"F": "end",
    b"1~": "home",
    b"4~": "end",
    b"5~": "page up",
    b"6~": "page down",
    b"7~": "home",
    b"8~": "end",
}
_CONTROLS = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "erase", "\x08": "erase", "\x03": "q"}
_PATIENCE = 0.05  # seconds in which the rest of a sequence follows its beginning, over a slow line too


@contextlib.contextmanager
def raw(terminal: int) -> Iterator[None]:
    """Give keys as they are pressed and do not print them, until the end.

    Ctrl-Z does nothing meanwhile: it would leave the terminal as it is now to the shell.
    """
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        mode: list[Any] = termios.tcgetattr(terminal)
        mode[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(terminal, termios.TCSANOW, mode)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


async def pressed(terminal: int) -> AsyncIterator[str]:
    """The keys that are pressed, until the terminal has gone."""
    rest = b""
    while True:
        with anyio.move_on_after(_PATIENCE if rest else None) as waiting:
            await anyio.wait_readable(terminal)
        data = b""
        if not waiting.cancelled_caught:
            try:
                data = os.read(terminal, 4096)
            except OSError:  # it hung up
                return
            if not data:
                return
        found, rest = names(rest + data, whole=waiting.cancelled_caught)
        for key in found:
            yield key


def names(data: bytes, *, whole: bool = False) -> tuple[list[str], bytes]:
    """The keys that bytes stand for, and the bytes at their end that may be the beginning of another.

    Args:
        data: What a terminal sent.
        whole: Nothing more will follow, so a lone ESC is the key of that name.
    """
    found: list[str] = []
    while data:
        if sequence := _SEQUENCE.match(data):
            if name := _SEQUENCES.get(sequence[0][2:]):
                found.append(name)
            data = data[sequence.end() :]
        elif data[:1] == b"\x1b":
            if not whole and _BEGUN.match(data):
                return found, data
            found.append("escape")
            data = data[1:]
        else:
            end = data.find(b"\x1b")
            text, data = (data, b"") if end < 0 else (data[:end], data[end:])
            chars = text.decode("utf-8", "ignore")
            found += [_CONTROLS.get(char, char) for char in chars if char.isprintable() or char in _CONTROLS]
    return found, b""
