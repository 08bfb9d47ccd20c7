"""Contract documents: `policies/contracts/*.toml`, one per tool or family of commands.

`policies/contracts/README.md` is the reference of the format.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import msgspec

from verifierd.bundled import root
from verifierd.errors import ContractError
from verifierd.types import Check

__all__ = ("LEAST_POWER", "Asked", "Example", "Family", "Past", "Program", "Rule", "Support", "bundled", "parse")

LEAST_POWER = 0.5
"""A rule of less power adds nothing to coverage."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What an example asks for.

    Attributes:
        tool: The tool; `Bash` runs a command line.
        command: The command line, for a shell.
        input: The tool's input.
        exit_code: The exit status; for other tools than a shell not 0 marks an error.
        cwd: The directory it ran in.
    """

    tool: str = "Bash"
    command: str | None = None
    input: dict[str, Any] = {}
    exit_code: int = 0
    cwd: str = "/home/user/project"


class Past(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """One step of an example's history.

    Attributes:
        observation: What came back.
    """

    observation: str


class Example(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """One action with an observation that obeys its rule and one that breaks it.

    Attributes:
        history: The steps before it.
        obeys: What may come back.
        breaks: What may not, with `breaks_exit_code` as its status if that differs.
    """

    history: tuple[Past, ...] = ()
    obeys: str
    breaks: str
    breaks_exit_code: int | None = None


class Support(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What was measured on clean sessions: `verifierd contracts mine` prints it.

    Attributes:
        steps: Steps on which the rule was in force.
        sessions: Sessions that these come from.
        violated: Steps that violated it.
        power: Share of observations of the same tool from other sessions that violate it; None where not measured.
    """

    steps: int = 0
    sessions: int = 0
    violated: int = 0
    power: float | None = None


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """One contract: whom it concerns, what it says, and what is known of how well it holds.

    Attributes:
        id: Its name, unique among all documents.
        says: One sentence for people; `{name}` is filled in as in `text`.
        tools: Tools of agents that it concerns (`Read`); a trailing `*` matches any ending.
        programs: Programs of the shell that it concerns, with their subcommand if they have them (`git log`).
        needs: Options that must be given; `-a|-b` is either.
        without: Options that must not be given.
        operands: Least and largest number of words that are no options.
        inputs: Input fields of a tool and the value that they must have; `null` for "not given".
        fact: Derives what the rule says of this call from command, input and history; see `verifierd/contracts/facts`.
        check: What is checked.
        text, texts, low, high: As in `Constraint`; `{name}` stands for an input field or a value of the fact. In a
            pattern such a value stands for itself, literally.
        whole, given: As in `Constraint`.
        piped: True if it holds only where standard input comes from a pipe, False only where it does not.
        deciding: A violation contradicts; only for what held in at least 99 % of its supporting steps.
        support: What was measured.
        examples: At least one.
    """

    id: str
    says: str
    tools: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    operands: tuple[int, int] | None = None
    inputs: dict[str, Any] = {}
    fact: str | None = None
    check: Check
    text: str = ""
    texts: tuple[str, ...] = ()
    low: int | str | None = None
    high: int | str | None = None
    whole: bool = False
    given: Literal["any", "success", "failure"] = "any"
    piped: bool | None = None
    deciding: bool = True
    support: Support = Support()
    examples: tuple[Example, ...] = ()


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """How a program of the shell is read.

    Attributes:
        name: Its name.
        aliases: Other names of the same program.
        subcommands: True if its first word that is no option is a subcommand (`git log`).
        values: Options that take a value, with their dashes.
        filter: What it does with the lines of its standard input: `same` passes all on, `subset` some in their order,
            `last` the last of them, `reorder` some in another order, `each` a part of each; None for anything else.
        unless: Options with which it is no such filter, as they change the lines (`uniq -c`).
        words: With more operands than this it reads files instead of its standard input.
        quiet: It writes nothing to standard error if it succeeds, and else only diagnostics that begin with its name.
        runs: It runs another program: how many operands come before that (`timeout 5 make`: 1), or the option that is
            given it (`python -m pytest`), or what stands before it (`mise exec -- make`).
        summary: What its rules say of lines that must stand somewhere also holds where another program runs it, which
            may print lines of its own.
    """

    name: str
    aliases: tuple[str, ...] = ()
    subcommands: bool = False
    values: tuple[str, ...] = ()
    filter: Literal["same", "subset", "last", "reorder", "each"] | None = None
    unless: tuple[str, ...] = ()
    words: int = 0
    quiet: bool = False
    runs: int | str | None = None
    summary: bool = False


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """One document.

    Attributes:
        about: One sentence for people.
        program: The programs that it describes.
        rule: The contracts.
    """

    about: str
    program: tuple[Program, ...] = ()
    rule: tuple[Rule, ...] = ()


def parse(text: str | bytes, name: str) -> Family:
    """Read one document.

    Raises:
        ContractError: It is not UTF-8 or not TOML, or has an unknown key or an impossible value.
    """
    try:
        return msgspec.convert(tomllib.loads(text if isinstance(text, str) else text.decode()), Family)
    except UnicodeDecodeError as error:
        raise ContractError(f"{name}: it is not UTF-8: {error}", hint="Save it as UTF-8.") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ContractError(f"{name}: {error}", hint="policies/contracts/README.md explains every key.") from error


@cache
def bundled() -> Mapping[str, Family]:
    """The documents that come with the product, by name."""
    folder = root("policies") / "contracts"
    return {
        path.name.removesuffix(".toml"): parse(path.read_bytes(), f"policies/contracts/{path.name}")
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
        if path.name.endswith(".toml")
    }
