"""All settings on one page. `load` is the only place that reads a settings file or the environment for settings."""

import difflib
import functools
import hashlib
import ipaddress
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin
from urllib.parse import urlsplit

import msgspec

from verifierd.errors import ConfigError
from verifierd.paths import expanded

__all__ = (
    "AGENT_FOLDERS",
    "Config",
    "HttpConfig",
    "LabelsConfig",
    "LogConfig",
    "ModelConfig",
    "NotifyConfig",
    "ShadowConfig",
    "SourceConfig",
    "StateConfig",
    "agent_folders",
    "api_key",
    "convert",
    "default_state",
    "duration",
    "load",
    "names_file",
    "parse",
    "read",
    "with_sources",
)

AGENT_FOLDERS = ("~/.claude/projects", "~/.codex/sessions")
"""Where agents keep their logs; `$CLAUDE_CONFIG_DIR` and `$CODEX_HOME` move them."""

T = TypeVar("T")
_SEE_INIT = "Mend the value at the place that the message names; `verifierd config init` shows every key."
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class SourceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """One group of watched logs.

    Attributes:
        paths: Files, folders and globs; `~` is the home; relative ones start at the settings file.
        exclude: Globs of files to leave out.
        format: `auto` or an adapter's name.
        start: TOML key `from`: `beginning`, `end`, or a duration such as `24h`: sessions changed within it are read
            first to last, older ones are counted as skipped until they change.
    """

    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    format: str = "auto"
    start: str = msgspec.field(default="24h", name="from")

    def __post_init__(self) -> None:
        if not self.paths:
            raise ValueError("`paths` is empty; name at least one file, folder or glob")
        duration(self.start)


class HttpConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The admin endpoint: metrics, health, recent verdicts.

    Attributes:
        enabled: Serve at all.
        host: Address to bind; others than loopback need `allow-remote`.
        port: TCP port; 0 takes a free one.
        allow_remote: Permit a bind that other machines can reach; every request then needs the token.
    """

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 9847
    allow_remote: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port {self.port} is not between 0 and 65535")
        try:
            remote = not ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:  # a name, which is looked up when it is bound
            remote = False
        if remote and not self.allow_remote:
            raise ValueError("`host` can be reached from other machines; that needs `allow-remote`")


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The language world model, and what it may use.

    Attributes:
        name: A model of the hub, a folder, or `tiny`, a random one for tests; None for Qwen-AgentWorld. Of a server,
            the name that it knows the model by.
        revision: The hub's branch, tag or commit; None for its newest.
        base_url: A server that speaks OpenAI's protocol, such as `http://127.0.0.1:8080/v1`: then it is asked, by the
            predictor `openai`, and no model is loaded here.
        api_key_env: The environment variable that holds the server's key.
        prompts: A checkout of Qwen-AgentWorld whose system prompts are used; None for the bundled ones.
        context_tokens: Tokens of a prompt with its answer; older turns are dropped beyond it.
        cache_bytes: Bytes that the caches of all trajectories may keep between predictions.
        chunk_tokens: Tokens of one pass, over all trajectories in it.
        logit_tokens: Positions whose logits are held at once.
        batch: Most trajectories in one pass.
        memory_override: Load the model even if it seems not to fit.
    """

    name: str | None = None
    revision: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    prompts: str | None = None
    context_tokens: int = 65_536
    cache_bytes: int = 4 * 1024**3
    chunk_tokens: int = 1024
    logit_tokens: int = 128
    batch: int = 8
    memory_override: bool = False

    @property
    def turn_tokens(self) -> int:
        """Tokens of the longest turn, and of the longest system prompt."""
        return self.context_tokens // 4

    def __post_init__(self) -> None:
        for name, least in (
            ("context_tokens", 2048),
            ("cache_bytes", 0),
            ("chunk_tokens", 16),
            ("logit_tokens", 1),
            ("batch", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"`{name.replace('_', '-')}` must be at least {least}")


class StateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What the daemon remembers, transcripts included.

    Attributes:
        dir: Database, lock and token; None is the system's usual place.
        retention_days: Steps and verdicts older than this are deleted, but for labelled ones.
        retention_bytes: Size of the database beyond which the oldest are deleted.
    """

    dir: str | None = None
    retention_days: float = 30.0
    retention_bytes: int = 2 * 1024**3

    def __post_init__(self) -> None:
        if not self.retention_days > 0:  # so that `nan` is refused, too
            raise ValueError("`retention-days` must be above 0")
        if self.retention_bytes < 1024**2:
            raise ValueError("`retention-bytes` must be at least 1048576")


class LabelsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Where else labels come from, beside people.

    Attributes:
        files: Files that are followed for labels, one JSON document a line; `~` is the home, relative ones start at the
            settings file. One that is missing is waited for.
    """

    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if "-" in self.files:
            raise ValueError("`files` names standard input; name a file")
        if "" in self.files:
            raise ValueError("`files` has an empty name; name a file")


class ShadowConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Shadow injection: how often would a fault be missed, estimated on what is judged.

    Attributes:
        share: Of the steps found on path, those that are judged once more with a fault in a copy; 0 for none.
        kinds: The kinds of faults, or `all`; each step gets one that is possible there, all alike likely.
        seed: What is drawn, together with the step.
    """

    share: float = 0.0
    kinds: Literal["all"] | tuple[str, ...] = "all"
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:  # so that `nan` is refused, too
            raise ValueError("`share` must be from 0 to 1")
        if not self.kinds:
            raise ValueError('`kinds` is empty; name at least one, or write "all"')


class NotifyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Who is told of verdicts as they come: an address or a program.

    Attributes:
        webhook: An address that gets each verdict by HTTP, signed, until it takes it.
        command: A program and its arguments; it gets each verdict on its standard input. One with a separator in its
            name starts at the settings file, `~` is the home.
        on: What is told: kinds of verdicts, and `alarm` for those at which a trajectory alarmed.
        name: Under which is kept how far it was told; by default what it is made of. Renamed, it begins anew.
        secret_env: The environment variable that holds the webhook's secret; None for the state folder's
            `webhook-secret`.
        timeout: Seconds that one request, or one run of the program, may take.
        parallel: How many programs may run at once. Requests go one after the other.
    """

    webhook: str | None = None
    command: tuple[str, ...] = ()
    on: tuple[Literal["off_path", "on_path", "abstain", "alarm"], ...] = ("off_path", "alarm")
    name: str | None = None
    secret_env: str | None = None
    timeout: float = 10.0
    parallel: int = 4

    @property
    def key(self) -> str:
        """What tells it from the others."""
        made = self.command if self.webhook is None else (self.webhook,)
        return self.name or hashlib.blake2b("\0".join(made).encode(), digest_size=8).hexdigest()

    @property
    def is_open(self) -> bool:
        """Does it send through a network what others could read there?"""
        address = urlsplit(self.webhook or "")
        return address.scheme == "http" and address.hostname not in ("localhost", "127.0.0.1", "::1")

    def __post_init__(self) -> None:
        if (self.webhook is None) == (not self.command):
            raise ValueError("either `webhook` or `command` is needed, and not both")
        if self.webhook is not None:
            address = urlsplit(self.webhook)
            known = address.scheme in ("http", "https") and address.hostname and address.port != 0
            if not known or not self.webhook.isprintable():
                raise ValueError("`webhook` must be an address such as `https://example.org/hook`")
        elif self.secret_env is not None:
            raise ValueError("`secret-env` is for a `webhook`")
        elif not self.command[0] or any("\0" in word for word in self.command):
            raise ValueError("`command` must be a program and its arguments")
        if not self.on:
            raise ValueError("`on` is empty; name at least one kind of verdict, or `alarm`")
        if not 0 < self.timeout <= 300:
            raise ValueError("`timeout` must be above 0, and at most 300")
        if not 1 <= self.parallel <= 64:
            raise ValueError("`parallel` must be from 1 to 64")


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The daemon's own log, on standard error.

    Attributes:
        level: Least severe level that is written.
        json: JSON lines or a text for people; None decides by whether standard error is a terminal.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    json: bool | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Everything that `verifierd run` can be told.

    Attributes:
        sources: What to watch; empty means the agents' own folders that exist.
        policy: A bundled policy's name or a file.
        predictor: A chain such as `shell` that replaces the policy's; None keeps it.
        quotes: How much of a transcript verdicts quote: `off`, `short` (2,000 characters) or `full`; None for what the
            policy says.
        max_line_bytes: Longer lines are skipped and counted.
        grace: Seconds that steps in flight have at shutdown.
        notify: Who is told.
        model, http, state, labels, shadow, log: See there.
    """

    sources: tuple[SourceConfig, ...] = ()
    policy: str = "default"
    predictor: str | None = None
    quotes: Literal["off", "short", "full"] | None = None
    max_line_bytes: int = 16 * 1024**2
    grace: float = 10.0
    model: ModelConfig = ModelConfig()
    http: HttpConfig = HttpConfig()
    state: StateConfig = StateConfig()
    labels: LabelsConfig = LabelsConfig()
    shadow: ShadowConfig = ShadowConfig()
    notify: tuple[NotifyConfig, ...] = ()
    log: LogConfig = LogConfig()

    def __post_init__(self) -> None:
        keys = [told.key for told in self.notify]
        for told in self.notify:
            if keys.count(told.key) > 1:
                raise ValueError("two of `notify` are the same; give each a `name` of its own")
        if self.max_line_bytes < 1024:
            raise ValueError("`max-line-bytes` must be at least 1024")
        if not self.grace >= 0:  # so that `nan` is refused, too
            raise ValueError("`grace` must not be negative")


def load(path: Path | None) -> Config:
    """Read a settings file, or the defaults if there is none; where it names no source, the agents' own folders.

    Raises:
        ConfigError: As `read`.
    """
    return with_sources(read(path))


def read(path: Path | None) -> Config:
    """Read a settings file, or the defaults if there is none, as it is.

    Relative paths in it (of sources, policy, state and labels) are taken from the file's folder.

    Raises:
        ConfigError: If it cannot be read, is no TOML, has an unknown key, a wrong type or an impossible value.
    """
    if path is None:
        return Config()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot read the configuration: {error.strerror or error}",
            hint="Name an existing file after --config, or write one with `verifierd config init`.",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}", hint="Save the file as UTF-8.") from error
    return _anchored(parse(text, str(path)), path)


def with_sources(config: Config) -> Config:
    """The same, but where it names no source it watches the agents' own folders that exist."""
    folders = tuple(folder for folder in agent_folders() if expanded(folder).is_dir())
    if config.sources or not folders:
        return config
    return msgspec.structs.replace(config, sources=(SourceConfig(paths=folders),))


def parse(text: str, where: str) -> Config:
    """A configuration from TOML text; `where` names it in errors."""
    return convert(text, where, Config)


def convert(text: str, where: str, kind: type[T], *, remedy: str = _SEE_INIT) -> T:
    """Any settings Struct from TOML text, with errors that name the place and the nearest known key.

    Args:
        text: The TOML.
        where: Names it in errors.
        kind: The Struct.
        remedy: What to do about a value that no known word is near to.

    Raises:
        ConfigError: The text is no TOML or does not fit.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not TOML: {error}", hint="Mend the line that the message names.") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: lists stand in one another too deeply", hint="No setting needs that.") from error
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        message = _named(str(error), document, kind)
        raise ConfigError(f"{where}: {message}", hint=_hint(str(error), kind) or remedy) from error


def duration(text: str) -> float | None:
    """Seconds of `90s`, `15m`, `24h` or `7d`; infinity for `beginning`; None for `end`.

    Raises:
        ValueError: It is none of these.
    """
    if text == "beginning":
        return float("inf")
    if text == "end":
        return None
    if match := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([smhd])", text):
        return float(match[1]) * {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[match[2]]
    raise ValueError(f"`{text}` is not `beginning`, `end` or a duration such as `24h`, `90m` or `7d`")


def names_file(text: str) -> bool:
    """Does this name a file, not a bundled document? A separator or the suffix `.toml` makes it one."""
    return "/" in text or "\\" in text or text.endswith(".toml")


def default_state() -> Path:
    """Where state is kept if nobody says otherwise: systemd's directory, else the system's usual place."""
    if given := os.environ.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "verifierd"
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The standard says that a relative one is to be ignored.
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "verifierd"


def agent_folders() -> tuple[str, ...]:
    """Where the agents of this machine keep their sessions, whether the folders exist or not."""
    claude = os.environ.get("CLAUDE_CONFIG_DIR")
    codex = os.environ.get("CODEX_HOME")
    return (
        f"{claude}/projects" if claude else AGENT_FOLDERS[0],
        f"{codex}/sessions" if codex else AGENT_FOLDERS[1],
    )


def api_key(model: ModelConfig) -> str | None:
    """The key of the model's server, if it has one.

    Raises:
        ConfigError: The variable that should hold it is not set.
    """
    if model.api_key_env is None:
        return None
    if not (key := os.environ.get(model.api_key_env)):
        raise ConfigError(
            f"the environment variable {model.api_key_env} is not set",
            hint="`api-key-env` in the configuration's table [model] names the variable that holds the server's key.",
        )
    return key


def _anchored(config: Config, file: Path) -> Config:
    """The same with all of its paths taken from the file's folder.

    Raises:
        ConfigError: One of them is no path.
    """
    folder = file.resolve().parent

    def anchor(key: str, path: str) -> str:
        if trouble := _trouble(path):
            raise ConfigError(
                f"{file}: `{key}` names `{path}`, which {trouble}", hint="Name a file, a folder or, for logs, a glob."
            )
        return path if path == "-" or path.startswith("~") else os.path.normpath(folder / path)

    state, model = config.state, config.model
    return msgspec.structs.replace(
        config,
        sources=tuple(
            msgspec.structs.replace(source, paths=tuple(anchor("sources.paths", path) for path in source.paths))
            for source in config.sources
        ),
        policy=anchor("policy", config.policy) if names_file(config.policy) else config.policy,
        model=model
        if model.prompts is None
        else msgspec.structs.replace(model, prompts=anchor("model.prompts", model.prompts)),
        state=state if state.dir is None else msgspec.structs.replace(state, dir=anchor("state.dir", state.dir)),
        labels=msgspec.structs.replace(
            config.labels, files=tuple(anchor("labels.files", path) for path in config.labels.files)
        ),
        notify=tuple(
            msgspec.structs.replace(told, command=(anchor("notify.command", told.command[0]), *told.command[1:]))
            if told.command and ("/" in told.command[0] or told.command[0].startswith("~"))
            else told
            for told in config.notify
        ),
    )


def _trouble(path: str) -> str:
    """What is wrong with a path, whatever is there; empty if nothing is."""
    if not path or "\0" in path:
        return "is no path"
    if path.startswith("~") and expanded(path) == Path(path):
        return "is in the home of nobody who is known here"
    return ""


def _named(message: str, document: Mapping[str, Any], kind: type) -> str:
    """The message with a table's name where msgspec writes `[...]` for any key."""
    match = re.search(r"\$\.([\w.-]+)\[\.\.\.\]", message)
    if match is None:
        return message
    parts = match[1].split(".")
    tables = functools.reduce(lambda table, part: table[part], parts, document)
    for name in tables:
        try:
            msgspec.convert(_only(document, parts, name), kind)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return message.replace("[...]", f".{name}" if _BARE.fullmatch(name) else f'."{name}"', 1)
    return message


def _only(document: Mapping[str, Any], parts: Sequence[str], name: str) -> Mapping[str, Any]:
    """The document without what stands beside one key of the table at a place."""
    if not parts:
        return {name: document[name]}
    return {**document, parts[0]: _only(document[parts[0]], parts[1:], name)}


def _hint(message: str, kind: type) -> str:
    """What is known where something is not; empty if the message is of something else."""
    place = re.search(r"`\$([^`]*)`", message)
    annotation = _annotation(kind, (place[1] if place else "").strip("."))
    if match := re.search(r"unknown field `([^`]+)`", message):
        return _nearest(match[1], "keys there", _keys(annotation))
    if (match := re.search(r"Invalid enum value '([^']*)'", message)) and (words := _words(annotation)):
        return _nearest(match[1], "words there", words)
    if match := re.search(r"no \w+ is called `([^`]*)`; there are: ([^`]*?)(?: - at |$)", message):
        return _nearest(match[1], "names", match[2].split(", "))
    return ""


def _nearest(wrong: str, what: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(wrong, known, n=1)
    guess = f"Did you mean `{near[0]}`? " if near else ""
    return f"{guess}Known {what}: {', '.join(known)}."


def _annotation(kind: Any, place: str) -> Any:
    """What may stand at a place such as `sources[0]` or `http`; None if nothing may."""
    for part in filter(None, re.sub(r"\[[^\]]*\]", "", place).split(".")):
        struct = _struct(kind)
        fields = () if struct is None else msgspec.structs.fields(struct)
        kind = next((field.type for field in fields if field.encode_name == part), None)
    return kind


def _keys(annotation: Any) -> list[str]:
    struct = _struct(annotation)
    return [] if struct is None else sorted(field.encode_name for field in msgspec.structs.fields(struct))


def _words(annotation: Any) -> list[str]:
    """The words of a Literal, also one inside an annotation such as `tuple[Literal["a", "b"], ...]`."""
    if get_origin(annotation) is Literal:
        return [word for word in get_args(annotation) if isinstance(word, str)]
    return [word for inner in get_args(annotation) for word in _words(inner)]


def _struct(annotation: Any) -> Any:
    """The Struct inside an annotation such as `tuple[SourceConfig, ...]`, or None."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _struct(inner))), None)
