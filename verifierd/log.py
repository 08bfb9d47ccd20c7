"""structlog, set up once: one event a line on standard error, JSON unless a person is looking.

Events are constants; whatever comes from an agent is a value, and every value goes through the sanitiser. A log call
never raises, and an event that repeats without end is written a few times a minute and counted.
"""

import contextlib
import json as stdlib_json
import logging
import os
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, WrappedLogger

from verifierd.sanitize import Sanitizer

__all__ = ("Limiter", "setup")

_TEXT = 2000  # characters of a value
_TRACE = 20_000  # characters of a traceback
_DEPTH = 6  # of values within values; also ends circular ones
_ITEMS = 50  # of a list or a mapping
_EVENTS = 512  # event names that the limiter tells apart
_LINES = 60  # a minute, of one event
_BITS = 64  # of an integer that readers of JSON take; larger ones are written as text
_COLUMNS = ("event", "level", "logger", "timestamp")  # printed as they are for people


def setup(
    *,
    level: str = "info",
    json: bool | None = None,
    sanitizer: Sanitizer | None = None,
    stream: TextIO | None = None,
    lines_per_minute: int = _LINES,
) -> None:
    """Configure structlog, and the standard library's `logging`, to write here.

    Args:
        level: The least severe level that is written: `debug`, `info`, `warning` or `error`.
        json: JSON lines, or text for people; None decides by whether the stream is a terminal.
        sanitizer: What every value goes through; by default one of its own, with a salt that no other knows.
        stream: Where to write; standard error if None.
        lines_per_minute: Of one event; the rest is counted, and the count goes with the next line.
    """
    stream = sys.stderr if stream is None else stream
    number = logging.getLevelNamesMapping()[level.upper()]
    readable = stream.isatty() if json is None else not json
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            Limiter(lines_per_minute),
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
            _trace,
            _Clean(sanitizer or Sanitizer(os.urandom(16))),
            _Readable(colors=stream.isatty()) if readable else _json_line,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: _Lines(stream),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _Bridge):
            root.removeHandler(handler)
    root.addHandler(_Bridge())
    root.setLevel(max(number, logging.WARNING))  # less than a warning of another library is of no use here
    logging.captureWarnings(capture=True)


class Limiter:
    """Lets at most so many lines a minute of one event pass; the next one that passes says how many did not.

    Args:
        lines: A minute, of one event.
        clock: Seconds that never go back.
    """

    def __init__(self, lines: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines = lines
        self._clock = clock
        self._windows: dict[str, list[float]] = {}  # event: start of its minute, lines in it, lines suppressed

    def __call__(self, _: WrappedLogger, __: str, event_dict: EventDict) -> EventDict:
        """Count one line.

        Raises:
            structlog.DropEvent: It is one too many.
        """
        names = event_dict.get("event"), event_dict.get("logger")
        name = "/".join(name[:100] if isinstance(name, str) else type(name).__name__ for name in names)
        now = self._clock()
        if name not in self._windows and len(self._windows) >= _EVENTS:
            self._windows.clear()
        window = self._windows.setdefault(name, [now, 0, 0])
        if now - window[0] >= 60:  # seconds
            window[:2] = [now, 0]
        if window[1] >= self._lines:
            window[2] += 1
            raise structlog.DropEvent
        window[1] += 1
        if window[2]:
            event_dict["suppressed"] = int(window[2])
            window[2] = 0
        return event_dict


class _Clean:
    """Makes every key and value something that can be written, and may be."""

    def __init__(self, sanitizer: Sanitizer) -> None:
        self._sanitizer = sanitizer

    def __call__(self, _: WrappedLogger, __: str, event_dict: EventDict) -> EventDict:
        return {self._line(key): self._field(key, value) for key, value in event_dict.items()}

    def _field(self, key: object, value: object) -> Any:
        if key == "exception" and isinstance(value, str):
            return self._sanitizer.text(value, _TRACE)
        try:
            return self._line(value) if key in _COLUMNS else self._value(value, _DEPTH)
        except Exception:  # noqa: BLE001 - somebody else's value, which bears no looking at
            return f"<{type(value).__name__}>"

    def _value(self, value: object, depth: int) -> Any:
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return value if value.bit_length() < _BITS else hex(value)[:_TEXT]
        if isinstance(value, str):
            return self._sanitizer.text(value, _TEXT)
        if depth and isinstance(value, Mapping):
            return {self._line(key): self._value(item, depth - 1) for key, item in islice(value.items(), _ITEMS)}
        if depth and isinstance(value, list | tuple | set | frozenset):
            return [self._value(item, depth - 1) for item in islice(value, _ITEMS)]
        return self._sanitizer.text(_described(value), _TEXT)

    def _line(self, value: object) -> str:
        text = value if isinstance(value, str) else _described(value)
        return self._sanitizer.text(text, _TEXT).replace("\n", "\\n")


class _Lines:
    """Writes lines and bears a closed or broken stream: a log is no reason to fail."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()

    debug = info = warning = error = critical = exception = log = msg


class _Bridge(logging.Handler):
    """Takes what other libraries log to the same place, their message as a value."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - somebody else's format string
            message = str(record.msg)
        extra = {"exc_info": record.exc_info} if record.exc_info else {}
        level = max(logging.DEBUG, min(record.levelno // 10 * 10, logging.CRITICAL))  # no other levels are known
        structlog.get_logger().log(level, "library_log", logger=record.name, message=message, **extra)


class _Readable:
    """Lines for people."""

    def __init__(self, *, colors: bool) -> None:
        self._render = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)

    def __call__(self, logger: WrappedLogger, name: str, event_dict: EventDict) -> str:
        if "exception" in event_dict:  # set off, so that its text cannot pose as a line of the log
            event_dict["exception"] = textwrap.indent(event_dict["exception"], "    ")
        return self._render(logger, name, event_dict)


def _trace(_: WrappedLogger, __: str, event_dict: EventDict) -> EventDict:
    """The traceback, without the values of local variables, as one text."""
    info = event_dict.pop("exc_info", None)
    error = info if isinstance(info, BaseException) else info[1] if isinstance(info, tuple) else sys.exc_info()[1]
    if info and error is not None:
        event_dict["error"] = type(error).__name__
        try:
            event_dict["exception"] = "".join(traceback.format_exception(error)).rstrip()
        except Exception:  # noqa: BLE001 - an exception that cannot even be shown
            event_dict["exception"] = type(error).__name__
    return event_dict


def _described(value: object) -> str:
    try:
        return repr(value) if not isinstance(value, BaseException) else f"{type(value).__name__}: {value}"
    except Exception:  # noqa: BLE001 - somebody else's repr
        return f"<{type(value).__name__}>"


def _json_line(_: WrappedLogger, __: str, event_dict: EventDict) -> str:
    try:
        line = msgspec.json.encode(event_dict).decode()
    except Exception:  # noqa: BLE001 - whatever it is, the line is written
        line = stdlib_json.dumps(event_dict, default=_described)
    return line.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")
