"""The command line: the only layer that prints and exits. One command a file, loaded only when it is called."""

import contextlib
import importlib
import io
import os
import sys
from typing import Any, NoReturn

import click

from verifierd import __version__
from verifierd.errors import VerifierdError

__all__ = ("main", "tell")

_COMMANDS = {
    "run": "Watch agents' logs and judge each step as it happens.",
    "replay": "Judge recorded trajectories and sum up.",
    "eval": "Measure false positives and negatives against labels and injected faults.",
    "calibrate": "Learn thresholds from clean trajectories and write a policy.",
    "bench": "Run benchmarks: what predictors cost and can do.",
    "label": "Say whether a step was really on path: the truth that the error rates are measured by.",
    "top": "Watch the daemon in this terminal: trajectories, verdicts, figures; label steps.",
    "hook": "For an agent's own hook: tell it if what a tool just answered is off path.",
    "explain": "Say in plain words what a verdict rests on.",
    "inspect": "Say what is in logs: formats, trajectories, steps, kinds. Predicts nothing.",
    "doctor": "Say what works on this machine, what does not, and how to mend it.",
    "config": "Write a configuration to start from, or check one.",
    "policies": "List the bundled policies, or explain one.",
    "service": "Have the daemon run whenever you are logged in.",
    "state": "Check, repair, reset or purge what the daemon keeps.",
    "contracts": "List what every real step must obey, or measure it on clean logs.",
}


class _Commands(click.Group):
    """Loads a command's module when it is called; the list of commands needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"verifierd.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            if error.message:  # which repeats an argument, such as a file's name that a shell found
                error.message = _fit(error.message)  # type: ignore[misc] # as above
            raise
        except VerifierdError as error:
            raise _Failure(error) from error
        except BaseExceptionGroup as group:
            # Task groups wrap what ended them; a person needs the first cause.
            expected = group.subgroup(VerifierdError)
            if expected is None:
                raise
            raise _Failure(_first(expected)) from group


def _first(group: BaseExceptionGroup[VerifierdError]) -> VerifierdError:
    error: VerifierdError | BaseExceptionGroup[VerifierdError] = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _fit(message: str) -> str:
    from verifierd.sanitize import Sanitizer  # noqa: PLC0415 - only where there is something to say

    return Sanitizer(os.urandom(16)).text(message)


def _described(error: OSError) -> str:
    """What the system refused; usually that output be written where there is no room."""
    place = error.filename if error.filename is not None else "output"
    return f"{place}: {error.strerror or error}"


class _Failure(click.ClickException):
    """Prints the error and what can be done about it."""

    def __init__(self, error: VerifierdError) -> None:
        super().__init__(error.message)
        self.hint = error.hint
        self.exit_code = error.exit_code  # type: ignore[misc] # click means it as a constant

    def show(self, file: Any = None) -> None:
        _say(self.message, self.hint, file)


def tell(error: VerifierdError) -> None:
    """Print an error and its remedy on standard error, where the command goes on."""
    _say(error.message, error.hint)


def _say(message: str, hint: str, file: Any = None) -> None:
    from verifierd.sanitize import plain  # noqa: PLC0415 - only where there is something to say

    click.echo(f"verifierd: {plain(message)}", file=file or sys.stderr)
    if hint:
        click.echo(f"  {plain(hint)}", file=file or sys.stderr)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="verifierd")
def _verifierd() -> None:
    """Watch AI agents: predict each next observation and say where reality departed from it."""


def main() -> NoReturn:
    """Run the command line and exit: 0 fine, 1 failed, 2 usage, 75 temporary, 78 bad configuration."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started us; the next file must not take its number
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character is no reason to fail
    try:
        _verifierd.main(prog_name="verifierd")
    except OSError as error:  # also of a help text; that a reader left ends it quietly within
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered would fail at the very end, again
        with contextlib.suppress(OSError):
            _say(_described(error), "")
        sys.exit(1)
    sys.exit(0)
