"""`verifierd config`: write a configuration to start from, or check one."""

from pathlib import Path
from urllib.parse import urlsplit

import click

from verifierd import policy
from verifierd.adapters import FORMATS
from verifierd.composition import Choice, chain_of
from verifierd.config import Config, api_key, load
from verifierd.errors import ConfigError, PolicyError
from verifierd.predictors import PREDICTORS
from verifierd.replay.inject import FAULTS
from verifierd.sanitize import plain
from verifierd.sinks.notify import named_secret

__all__ = ("TEMPLATE", "command", "require_known")

TEMPLATE = """\
# verifierd's configuration. Every key is here with its default; those after `#` are not set.

policy = "default"          # a bundled policy's name (`verifierd policies`) or a TOML file
# predictor = "shell"       # replaces the policy's predictors; several are joined by commas
# quotes = "off"            # replaces the policy's: "off", "short" (2,000 characters), "full"
max-line-bytes = 16777216   # longer lines are skipped and counted
grace = 10.0                # seconds that steps in flight have when the daemon stops

# One block for each group of logs; without any, the agents' own folders that exist.
[[sources]]
paths = ["~/.claude/projects", "~/.codex/sessions"]   # files, folders, globs; relative to this file
exclude = []
format = "auto"             # or a format's name
from = "24h"                # "beginning", "end", or: sessions changed within this time are read first to last

# The language model of the predictor `mlx`, or of `openai` where a base-url stands. Naming one has it asked about
# what the policy's predictors leave open.
[model]
# name = "jedisct1/Qwen-AgentWorld-35B-A3B-oQ4-MLX"   # of the hub, a folder, or "tiny", a random one for tests
# revision = "main"         # the hub's branch, tag or commit; default: its newest
# base-url = "http://127.0.0.1:8080/v1"   # a server that speaks OpenAI's protocol, and calls its model `name`
# api-key-env = "NAME"      # the environment variable that holds its key
# prompts = "/path"         # a checkout of Qwen-AgentWorld whose system prompts are used; default: the bundled ones
context-tokens = 65536      # of a prompt with its answer; older turns are dropped beyond it
cache-bytes = 4294967296    # that the caches of all trajectories may keep between predictions
chunk-tokens = 1024         # of one pass
logit-tokens = 128          # positions whose logits are held at once
batch = 8                   # most trajectories in one pass
memory-override = false     # load the model even if it seems not to fit

[http]
enabled = true
host = "127.0.0.1"
port = 9847                 # 0 takes a free one
allow-remote = false        # needed to bind an address that other machines can reach; requests then need the token

[state]
# dir = "/path"             # database, lock, token and verdicts; default: the system's usual place
retention-days = 30.0
retention-bytes = 2147483648

[labels]
files = []                  # JSONL files that are followed for labels (deploy/README.md); relative to this file

# Steps found on path that are judged again, in a copy, with a fault: how many would be missed? See the metric
# verifierd_shadow_verdicts_total. Verdicts and alarms do not depend on it. Each costs a few milliseconds, with a model
# one pass over the altered observation; not with --once.
[shadow]
share = 0.0                 # of steps on path, from 0 (none) to 1
kinds = "all"               # or a list of kinds of faults
seed = 0

# Who is told of verdicts as they come (deploy/README.md): one block each, with a `webhook` or a `command`.
# [[notify]]
# webhook = "https://example.org/hook"   # gets each by HTTP, signed, until it takes it
# on = ["off_path", "alarm"]   # and "on_path", "abstain"
# secret-env = "NAME"       # the environment variable that holds its secret; default: the state's `webhook-secret`
# timeout = 10.0            # seconds that a request, or a run of the command, may take
# [[notify]]
# command = ["/path", "argument"]   # is started for each, without a shell, with the verdict on its standard input
# parallel = 4              # of it at once
# name = "mine"             # under which is kept how far it was told; default: what it is made of

[log]
level = "info"              # "debug", "info", "warning", "error"
# json = true               # default: JSON unless standard error is a terminal
"""


@click.group("config")
def command() -> None:
    """Write a configuration to start from, or check one."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("verifierd.toml"))
def init(file: Path) -> None:
    """Write FILE (verifierd.toml) with every key explained; an existing file is left alone."""
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(TEMPLATE)
    except FileExistsError as error:
        raise ConfigError(f"{file}: exists already", hint="Name another file, or move this one away.") from error
    except OSError as error:
        raise ConfigError(f"{file}: cannot write: {error.strerror or error}", hint="Name a writable place.") from error
    click.echo(f"wrote {file}; check it with: verifierd config check {file}")


@command.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("verifierd.toml"))
def check(file: Path) -> None:
    """Say whether FILE (verifierd.toml) is a valid configuration, and what it would do."""
    config = load(file)
    require_known(config, str(file))
    chosen = policy.load(config.policy)
    chain = chain_of(Choice(predictor=config.predictor, model=config.model), chosen)
    for name in [] if config.predictor else chosen.predictors:
        if name not in PREDICTORS:
            raise PolicyError(
                f"{config.policy}: `predictors` names `{name}`, which is not known",
                hint=f"Known: {', '.join(PREDICTORS)}.",
            )
    _require_environment(config, chain)
    click.echo(f"{file}: fine")
    for source in config.sources:
        click.echo(f"  watches {', '.join(source.paths)} from {source.start}")
    if config.labels.files:
        click.echo(f"  takes labels from {', '.join(config.labels.files)}")
    for told in config.notify:
        who = (
            told.command[0] if told.webhook is None else urlsplit(told.webhook).hostname or ""
        )  # the rest may be secret
        click.echo(f"  tells {plain(who)} of {', '.join(told.on)}")
    if not config.sources:
        click.echo("  watches nothing: it names no sources, and no agent's folder exists here")
    state = "calibrated" if chosen.calibration is not None else "not calibrated"
    click.echo(f"  policy {chosen.id} ({state}), predictors {chain}, quotes {config.quotes or chosen.quotes}")
    if config.http.enabled:
        click.echo(f"  serves http://{config.http.host}:{config.http.port}")


def _require_environment(config: Config, chain: str) -> None:
    """Make sure of the environment variables that a configuration names; they must be set here as where it is run.

    Raises:
        ConfigError: One is not set, or holds no secret.
    """
    if "openai" in map(str.strip, chain.split(",")):
        api_key(config.model)
    for told in config.notify:
        if told.secret_env is not None:
            named_secret(told.secret_env)


def require_known(config: Config, where: str) -> None:
    """Make sure of the names in a configuration that only other parts of the program know.

    Raises:
        ConfigError: A format, a predictor or a kind of fault is not known.
    """
    named = [("sources.format", source.format, ("auto", *FORMATS)) for source in config.sources]
    named += [("predictor", name.strip(), tuple(PREDICTORS)) for name in (config.predictor or "shell").split(",")]
    if config.shadow.kinds != "all":
        named += [("shadow.kinds", kind, ("all", *FAULTS)) for kind in config.shadow.kinds]
    for key, name, known in named:
        if name not in known:
            raise ConfigError(f"{where}: `{key}` is `{name}`, which is not known", hint=f"Known: {', '.join(known)}.")
