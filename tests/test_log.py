"""The log: one line an event, whatever is in it, and never an exception."""

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from verifierd import log
from verifierd.sanitize import Sanitizer

KEY = "sk-" + "ant-api03-" + "zK8mQ2vX7pL4"


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """What a test sets up is taken down: it is the process's."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def log_failure(error: Exception, **values: object) -> None:
    """Log an exception from where it was caught."""
    try:
        _fail(error)
    except Exception:  # noqa: BLE001 - any that a test wants
        structlog.get_logger().exception("failed", **values)


def _fail(error: Exception) -> None:
    raise error


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_where_nobody_looks() -> None:
    """Not on a terminal, each event is a JSON object with the time, the level and what was bound."""
    stream = io.StringIO()
    log.setup(stream=stream)
    structlog.get_logger(component="daemon").info("file_rotated", offset=7, path="a.jsonl")

    (line,) = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("timestamp"))
    assert line == {"component": "daemon", "event": "file_rotated", "level": "info", "offset": 7, "path": "a.jsonl"}


def test_text_where_a_person_looks() -> None:
    """On a terminal, a line is for people; the choice can be forced either way."""
    stream = Terminal()
    log.setup(stream=stream)
    structlog.get_logger().info("file_rotated", path="a.jsonl")

    assert "file_rotated" in stream.getvalue()
    assert not stream.getvalue().startswith("{")

    stream = Terminal()
    log.setup(stream=stream, json=True)
    structlog.get_logger().info("file_rotated")

    assert lines(stream)[0]["event"] == "file_rotated"


def test_level() -> None:
    """What is less severe than the level is not written."""
    stream = io.StringIO()
    log.setup(level="warning", stream=stream)
    structlog.get_logger().info("unseen")
    structlog.get_logger().warning("seen")

    assert [line["event"] for line in lines(stream)] == ["seen"]


class Hostile:
    """An object that bears no looking at."""

    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __repr__


def _circular() -> list[Any]:
    circle: list[Any] = []
    circle.append({"again": circle})
    return circle


@pytest.mark.parametrize("json", [True, False])
@pytest.mark.parametrize(
    "value",
    [
        "\ud800 a\u2028b\u2029c\x85d\r\n",
        b"\xff",
        2**70,
        2**20_000,
        -(2**63),
        float("nan"),
        _circular(),
        {1: {2: "\ud800"}, Hostile(): None},
        Hostile(),
        [Hostile()] * 100,
        ValueError(Hostile()),
        "x" * 1_000_000,
        {"\n": "\n"},
        object,
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_value(value: object, json: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Whatever is logged, a call does not raise and writes exactly one line."""
    stream = io.StringIO()
    log.setup(stream=stream, json=json)
    structlog.get_logger().info("step_scored", value=value)

    text = stream.getvalue()
    assert len(text.splitlines()) == 1
    assert len(text) < 50_000
    text.encode()


def test_event_that_is_no_text() -> None:
    """Even the event may be anything, and stays on its line."""
    stream = io.StringIO()
    log.setup(stream=stream, json=False)
    structlog.get_logger().info(Hostile())
    structlog.get_logger().info("a\n\x1b[31mb")

    assert len(stream.getvalue().splitlines()) == 2
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("json", [True, False])
def test_secrets_and_escapes(json: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Values, keys and exceptions go through the sanitiser."""
    stream = io.StringIO()
    log.setup(stream=stream, json=json, sanitizer=Sanitizer(b"salt"))
    values: dict[str, object] = {f"k\x1b{KEY}": f"PASSWORD=hunter2 {KEY}", "deep": [{"a": KEY}]}
    log_failure(ValueError(f"bad {KEY} \x1b]0;owned\x07"), **values)

    text = stream.getvalue()
    assert "zK8mQ" not in text
    assert "hunter2" not in text
    assert "\x1b" not in text
    assert "\\u001b" not in text
    assert "[redacted:provider:" in text


def test_traceback_has_no_locals() -> None:
    """A traceback shows where, not what was in the variables."""
    stream = io.StringIO()
    log.setup(stream=stream)

    def fail() -> None:
        password = "hunter" + str(2)
        raise ValueError(len(password))

    try:
        fail()
    except ValueError:
        structlog.get_logger().exception("failed")

    (line,) = lines(stream)
    assert line["error"] == "ValueError"
    assert "in fail" in line["exception"]
    assert "hunter2" not in line["exception"]


def test_traceback_cannot_pose_as_a_line() -> None:
    """For people, an exception's text is set off from the log's own lines."""
    stream = io.StringIO()
    log.setup(stream=stream, json=False)
    log_failure(ValueError("x\n2026-01-01T00:00:00Z [info] all is well"))

    assert all(line.startswith("    ") for line in stream.getvalue().splitlines()[1:])


def test_other_libraries_speak_here_too() -> None:
    """What comes by `logging`, and warnings, are lines like any other, their message a value."""
    stream = io.StringIO()
    logging.getLogger().handlers.clear()  # the test runner's own would trip over the broken format
    log.setup(stream=stream)
    other = logging.getLogger("someone.else")  # no real one: how much those say may have been set before
    other.warning("cannot read %s \x1b", KEY)
    other.info("unseen")
    other.warning("%d", "no number")
    other.error("went wrong", exc_info=KeyError("x"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        log.setup(stream=stream)
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    first, second, third, fourth = lines(stream)
    assert (first["event"], first["logger"], first["level"]) == ("library_log", "someone.else", "warning")
    assert "zK8mQ" not in first["message"]
    assert second["message"] == "%d"
    assert third["error"] == "KeyError"
    assert "DeprecationWarning: old" in fourth["message"]


def test_storm_is_limited() -> None:
    """An event that repeats is written so many times a minute, and the next line says how many were not."""
    now = 0.0
    limiter = log.Limiter(2, clock=lambda: now)

    def passes(event: str) -> dict[str, Any] | None:
        try:
            return dict(limiter(None, "info", {"event": event}))
        except structlog.DropEvent:
            return None

    assert [passes("a") for _ in range(5)] == [{"event": "a"}, {"event": "a"}, None, None, None]
    assert passes("b") == {"event": "b"}

    now = 60.0

    assert passes("a") == {"event": "a", "suppressed": 3}
    assert passes("a") == {"event": "a"}


def test_limiter_forgets() -> None:
    """Event names without end do not fill memory, and lines of them still pass."""
    limiter = log.Limiter(1)

    assert all(limiter(None, "info", {"event": f"e{n}"}) for n in range(5000))
    assert len(limiter._windows) <= 512


def test_broken_stream() -> None:
    """A log that nobody can read any more is no reason to fail."""
    stream = io.StringIO()
    log.setup(stream=stream)
    stream.close()

    structlog.get_logger().info("into_the_void")
