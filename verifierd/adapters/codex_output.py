"""What the output of a Codex tool says once the harness's header is read off. Three encodings, many versions."""

import ntpath
import posixpath
import re
import shlex
from pathlib import PurePath, PureWindowsPath
from typing import Any, NamedTuple
from urllib.parse import unquote

from verifierd.adapters.base import join_blocks
from verifierd.adapters.parse import arguments
from verifierd.types import ObservationKind

__all__ = ("Output", "command_line", "directory", "elision", "local_path", "output_kind", "read_output", "status")

_HEADER = re.compile(
    r"(?:Command: .*?\n)?(?:Chunk ID: \w*\n|Exit code: (?P<exit>-?\d{1,10})\n)?Wall time: [\d.]+ seconds\n"
    r"(?:Process exited with code (?P<code>-?\d{1,10})\n|Process running with session ID (?P<session>\d+)\n)?"
    r"(?:Original token count: \d+\n)?(?:(?P<cut>Total output lines: \d+)\n)?Output:(?:\n|\Z)",
    re.DOTALL,
)
_SCRIPT = re.compile(r"Script (?P<state>completed|failed|running)[^\n]*\nWall time:? [\d.]+ seconds\nOutput:(?:\n|\Z)")
_CUT = re.compile(
    r"Warning: truncated output \(original token count: \d+\)\n(?:Total output lines: \d+\n)?\n?"
    r"|Total output lines: \d+\n\n"
)
_OMISSION = re.compile(r"…\d+ (?:chars|tokens|lines) truncated…|\[\.\.\. omitted \d+ of \d+ lines \.\.\.\]")
_SANE = 1 << 53
_ITEM_LIMIT = 65_536  # bytes of `aggregated_output`; what stood in the middle of more is gone without a mark
_ERRORS = (
    "apply_patch verification failed",
    "exec_command failed",
    "failed to parse function arguments",
    "unsupported call",
    "unsupported custom tool call",
    "write_stdin failed",
)
_REJECTED = re.compile(
    r"rejected (?:by|:)|(?:command|patch) rejected|rejected\(|denied by |approval policy", re.IGNORECASE
)
_SHELL_NAME = re.compile(r"(?:ba|da|fi|k|z)?sh|powershell|pwsh|cmd", re.IGNORECASE)
_SHELL_FLAG = re.compile(r"-[a-z]*c|-command|/c", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:|\\\\")


class Output(NamedTuple):
    """A tool's output.

    Attributes:
        text: What came back, without the header.
        exit_code: The exit status that the header states.
        session: The number of the process that is still running.
        headed: True if there was a header, so the tool did run.
        running: True if it has not finished.
        elided: How the text was cut, None if it is whole.
    """

    text: str
    exit_code: int | None = None
    session: str | None = None
    headed: bool = False
    running: bool = False
    elided: str | None = None


def read_output(output: object) -> Output:
    """Read an `output` field: a text with or without header, JSON in a text, or a list of parts."""
    if isinstance(output, list):
        output = join_blocks(output)
    elif isinstance(output, str) and output.startswith('{"'):
        output = arguments(output) or output
    if isinstance(output, dict):
        inner = output.get("output", output.get("content"))
        text = inner if isinstance(inner, str) else join_blocks(inner) if isinstance(inner, list) else ""
        detail = output.get("metadata")
        if not isinstance(detail, dict):
            return _body(text, headed=False)
        return _body(text, exit_code=status(detail.get("exit_code")))
    if not isinstance(output, str):
        return Output("")
    header = _HEADER.match(output)
    if header is not None:
        code = header["code"] or header["exit"]
        return _body(
            output[header.end() :],
            exit_code=None if code is None else int(code),
            session=header["session"],
            cut=header["cut"] is not None,
        )
    script = _SCRIPT.match(output)
    if script is not None:
        return _body(output[script.end() :])._replace(running=script["state"] == "running")
    return Output(output)


def output_kind(tool: str, output: Output, *, runs_programs: bool) -> ObservationKind:
    """What an output is, apart from polls.

    Args:
        tool: The tool's name.
        output: Its output.
        runs_programs: True for tools whose unheaded output can only be the harness speaking.
    """
    text = output.text
    if text.startswith("aborted by user"):
        return ObservationKind.INTERRUPTED
    if not output.headed and runs_programs and _REJECTED.search(text, 0, 400):
        return ObservationKind.POLICY_DENIED
    if not output.headed and text.startswith(_ERRORS):
        return ObservationKind.HARNESS_ERROR
    if output.running:
        return ObservationKind.STILL_RUNNING
    if output.exit_code and text.startswith("command timed out after") and tool != "apply_patch":
        return ObservationKind.INTERRUPTED
    return ObservationKind.ENV


def elision(text: str, *, item: bool = False) -> str | None:
    """How a text of the log was cut, None if it is whole.

    Args:
        text: The text.
        item: True for the `aggregated_output` of an end item, of which long ones lose their middle without a mark.
    """
    if "truncated…" in text or "[... omitted" in text:
        return "truncated output" if _OMISSION.search(text) else None
    if item and len(text) * 4 >= _ITEM_LIMIT and len(text.encode()) >= _ITEM_LIMIT:
        return "aggregated output"
    return None


def status(value: object) -> int | None:
    """A whole number of sane size, such as an exit status; -1 is one, `true` is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _SANE else None


def command_line(value: object) -> str | None:
    """The command line that an argument vector, or a text, asks for; the inner one where a shell is only the runner."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        return None
    words = [word for word in value if isinstance(word, str)]
    if len(words) != len(value):
        return None
    runner = PureWindowsPath(words[0]).name.removesuffix(".exe")
    if len(words) > 2 and _SHELL_NAME.fullmatch(runner) and _SHELL_FLAG.fullmatch(words[-2]):
        return words[-1]
    return shlex.join(words)


def directory(workdir: object, base: str | None) -> str | None:
    """The directory that a command ran in: absolute, or relative to the turn's."""
    if not isinstance(workdir, str) or not workdir:
        return base
    if base is None or _DRIVE.match(workdir) or workdir.startswith("/"):
        return workdir
    flavour: Any = ntpath if _DRIVE.match(base) else posixpath
    return str(flavour.normpath(flavour.join(base, workdir)))


def local_path(value: object) -> str | None:
    """A path of an item: plain, or as a `file:` URL."""
    if not isinstance(value, str):
        return None
    if not value.startswith("file://"):
        return value
    path = unquote(value.removeprefix("file://"))
    return path[1:] if _DRIVE.match(path[1:]) else path


def file_session(path: str) -> str:
    """The session that a rollout's name states, else its stem."""
    stem = PurePath(path).name.split(".jsonl", 1)[0]
    found = re.search(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", stem)
    return found[0] if found else stem or "session"


def _body(
    text: str, *, exit_code: int | None = None, session: str | None = None, headed: bool = True, cut: bool = False
) -> Output:
    mark = _CUT.match(text) if headed else None
    if mark is not None:
        text = text[mark.end() :]
    elided = "truncated output" if cut or mark is not None else elision(text)
    return Output(text, exit_code, session, headed, session is not None, elided)
