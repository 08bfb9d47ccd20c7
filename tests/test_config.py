"""Settings: one tiny file per defect in `data/config`, each with its exact message."""

import math
import sys
from pathlib import Path

import msgspec
import pytest

from verifierd.config import (
    AGENT_FOLDERS,
    Config,
    HttpConfig,
    LabelsConfig,
    LogConfig,
    ModelConfig,
    ShadowConfig,
    SourceConfig,
    StateConfig,
    convert,
    default_state,
    duration,
    load,
    names_file,
    parse,
)
from verifierd.errors import ConfigError

DEFECTS = Path(__file__).parent / "data" / "config"
NO_PATH = "Name a file, a folder or, for logs, a glob."
SEE_INIT = "Mend the value at the place that the message names; `verifierd config init` shows every key."
SOURCE_KEYS = "Known keys there: exclude, format, from, paths."
CONFIG_KEYS = (
    "Known keys there: grace, http, labels, log, max-line-bytes, model, notify, policy, predictor, quotes, shadow, "
    "sources, state."
)
MODEL_KEYS = (
    "Known keys there: api-key-env, base-url, batch, cache-bytes, chunk-tokens, context-tokens, logit-tokens, "
    "memory-override, name, prompts, revision."
)
SHADOW_KEYS = "Known keys there: kinds, seed, share."
HTTP_KEYS = "Known keys there: allow-remote, enabled, host, port."


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("bad_toml", "not TOML: Invalid value (at line 1, column 10)", "Mend the line that the message names."),
        ("key", "Object contains unknown field `polcy`", f"Did you mean `policy`? {CONFIG_KEYS}"),
        (
            "key_snake_case",
            "Object contains unknown field `max_line_bytes`",
            f"Did you mean `max-line-bytes`? {CONFIG_KEYS}",
        ),
        ("key_in_http", "Object contains unknown field `prot` - at `$.http`", f"Did you mean `port`? {HTTP_KEYS}"),
        ("key_unlike_any", "Object contains unknown field `zzzzz` - at `$.http`", HTTP_KEYS),
        (
            "key_in_state",
            "Object contains unknown field `retention` - at `$.state`",
            "Did you mean `retention-days`? Known keys there: dir, retention-bytes, retention-days.",
        ),
        (
            "key_in_log",
            "Object contains unknown field `levle` - at `$.log`",
            "Did you mean `level`? Known keys there: json, level.",
        ),
        (
            "key_in_model",
            "Object contains unknown field `context` - at `$.model`",
            f"Did you mean `context-tokens`? {MODEL_KEYS}",
        ),
        ("context_tokens_few", "`context-tokens` must be at least 2048 - at `$.model`", SEE_INIT),
        ("batch_zero", "`batch` must be at least 1 - at `$.model`", SEE_INIT),
        ("model_text", "Expected `object`, got `str` - at `$.model`", SEE_INIT),
        (
            "key_in_second_source",
            "Object contains unknown field `frm` - at `$.sources[1]`",
            f"Did you mean `from`? {SOURCE_KEYS}",
        ),
        ("paths_missing", "Object missing required field `paths` - at `$.sources[0]`", SEE_INIT),
        (
            "paths_empty",
            "`paths` is empty; name at least one file, folder or glob - at `$.sources[0]`",
            SEE_INIT,
        ),
        ("paths_text", "Expected `array`, got `str` - at `$.sources[0].paths`", SEE_INIT),
        (
            "from",
            "`yesterday` is not `beginning`, `end` or a duration such as `24h`, `90m` or `7d` - at `$.sources[0]`",
            SEE_INIT,
        ),
        (
            "from_negative",
            "`-1h` is not `beginning`, `end` or a duration such as `24h`, `90m` or `7d` - at `$.sources[0]`",
            SEE_INIT,
        ),
        ("sources_table", "Expected `array`, got `object` - at `$.sources`", SEE_INIT),
        ("port_too_large", "port 65536 is not between 0 and 65535 - at `$.http`", SEE_INIT),
        ("port_negative", "port -1 is not between 0 and 65535 - at `$.http`", SEE_INIT),
        ("port_text", "Expected `int`, got `str` - at `$.http.port`", SEE_INIT),
        ("port_boolean", "Expected `int`, got `bool` - at `$.http.port`", SEE_INIT),
        ("host_remote", "`host` can be reached from other machines; that needs `allow-remote` - at `$.http`", SEE_INIT),
        ("retention_days_zero", "`retention-days` must be above 0 - at `$.state`", SEE_INIT),
        ("retention_days_nan", "`retention-days` must be above 0 - at `$.state`", SEE_INIT),
        ("retention_bytes_small", "`retention-bytes` must be at least 1048576 - at `$.state`", SEE_INIT),
        ("labels_stdin", "`files` names standard input; name a file - at `$.labels`", SEE_INIT),
        ("labels_empty", "`files` has an empty name; name a file - at `$.labels`", SEE_INIT),
        ("quotes", "Invalid enum value 'some' - at `$.quotes`", "Known words there: off, short, full."),
        ("level", "Invalid enum value 'loud' - at `$.log.level`", "Known words there: debug, info, warning, error."),
        (
            "key_in_shadow",
            "Object contains unknown field `rate` - at `$.shadow`",
            SHADOW_KEYS,
        ),
        ("share_nan", "`share` must be from 0 to 1 - at `$.shadow`", SEE_INIT),
        ("kinds_empty", '`kinds` is empty; name at least one, or write "all" - at `$.shadow`', SEE_INIT),
        ("kinds_word", "Invalid enum value 'stale' - at `$.shadow.kinds`", "Known words there: all."),
        ("notify_both", "either `webhook` or `command` is needed, and not both - at `$.notify[0]`", SEE_INIT),
        ("notify_nothing", "either `webhook` or `command` is needed, and not both - at `$.notify[0]`", SEE_INIT),
        (
            "notify_scheme",
            "`webhook` must be an address such as `https://example.org/hook` - at `$.notify[0]`",
            SEE_INIT,
        ),
        (
            "notify_unseen",
            "`webhook` must be an address such as `https://example.org/hook` - at `$.notify[0]`",
            SEE_INIT,
        ),
        ("notify_address", "Invalid IPv6 URL - at `$.notify[0]`", SEE_INIT),
        (
            "notify_word",
            "Invalid enum value 'offpath' - at `$.notify[0].on[0]`",
            "Did you mean `off_path`? Known words there: off_path, on_path, abstain, alarm.",
        ),
        (
            "notify_on_empty",
            "`on` is empty; name at least one kind of verdict, or `alarm` - at `$.notify[0]`",
            SEE_INIT,
        ),
        ("notify_secret", "`secret-env` is for a `webhook` - at `$.notify[0]`", SEE_INIT),
        ("notify_timeout", "`timeout` must be above 0, and at most 300 - at `$.notify[0]`", SEE_INIT),
        ("notify_parallel", "`parallel` must be from 1 to 64 - at `$.notify[0]`", SEE_INIT),
        ("notify_program", "`command` must be a program and its arguments - at `$.notify[0]`", SEE_INIT),
        ("notify_twice", "two of `notify` are the same; give each a `name` of its own", SEE_INIT),
        ("paths_nul", "`sources.paths` names `a\x00b`, which is no path", NO_PATH),
        ("state_empty", "`state.dir` names ``, which is no path", NO_PATH),
        (
            "labels_home",
            "`labels.files` names `~verifierd-nobody/l.jsonl`, which is in the home of nobody who is known here",
            NO_PATH,
        ),
        ("max_line_bytes", "`max-line-bytes` must be at least 1024", SEE_INIT),
        ("grace_negative", "`grace` must not be negative", SEE_INIT),
        ("grace_nan", "`grace` must not be negative", SEE_INIT),
    ],
)
def test_defect(name: str, message: str, hint: str) -> None:
    """Each defective file is refused with file, place and remedy."""
    path = DEFECTS / f"{name}.toml"

    with pytest.raises(ConfigError) as caught:
        load(path)

    assert str(caught.value) == f"{path}: {message}"
    assert caught.value.hint == hint
    assert caught.value.exit_code == 78


def test_every_defect_is_in_the_table() -> None:
    """No file of `data/config` lies there untested."""
    table = next(mark for mark in test_defect.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]

    assert {path.stem for path in DEFECTS.glob("*.toml")} == {case[0] for case in table.args[1]}


class TestLoad:
    """A settings file, or none."""

    def test_everything(self, tmp_path: Path) -> None:
        """Every key can be set, and all is taken up."""
        path = tmp_path / "verifierd.toml"
        path.write_text(
            """
            policy = "strict"
            predictor = "shell"
            quotes = "off"
            max-line-bytes = 2048
            grace = 0

            [[sources]]
            paths = ["/logs/*.jsonl"]
            exclude = ["*.bak"]
            format = "codex"
            from = "7d"

            [model]
            name = "tiny"
            revision = "main"
            prompts = "/prompts"
            context-tokens = 8192
            cache-bytes = 0
            chunk-tokens = 256
            logit-tokens = 16
            batch = 2
            memory-override = true

            [http]
            enabled = false
            host = "::1"
            port = 0
            allow-remote = true

            [state]
            dir = "/var/lib/verifierd"
            retention-days = inf
            retention-bytes = 1048576

            [labels]
            files = ["/labels.jsonl"]

            [shadow]
            share = 0.01
            kinds = ["stale", "truncated"]
            seed = 7

            [log]
            level = "debug"
            json = true
            """
        )

        assert load(path) == Config(
            sources=(SourceConfig(paths=("/logs/*.jsonl",), exclude=("*.bak",), format="codex", start="7d"),),
            policy="strict",
            predictor="shell",
            quotes="off",
            max_line_bytes=2048,
            grace=0.0,
            model=ModelConfig(
                name="tiny",
                revision="main",
                prompts="/prompts",
                context_tokens=8192,
                cache_bytes=0,
                chunk_tokens=256,
                logit_tokens=16,
                batch=2,
                memory_override=True,
            ),
            http=HttpConfig(enabled=False, host="::1", port=0, allow_remote=True),
            state=StateConfig(dir="/var/lib/verifierd", retention_days=math.inf, retention_bytes=1024**2),
            labels=LabelsConfig(files=("/labels.jsonl",)),
            shadow=ShadowConfig(share=0.01, kinds=("stale", "truncated"), seed=7),
            log=LogConfig(level="debug", json=True),
        )

    def test_relative_paths_start_at_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sources, policy, prompts, state and label files lie beside the settings, wherever the daemon was started."""
        (tmp_path / "verifierd.toml").write_text(
            'policy = "mine.toml"\n'
            '[[sources]]\npaths = ["logs", "../*.jsonl", "/abs/x.jsonl", "~/y.jsonl", "-"]\n'
            '[model]\nname = "models/mine"\nprompts = "../prompts"\n'
            '[state]\ndir = "state"\n'
            '[labels]\nfiles = ["labels.jsonl", "~/labels.jsonl"]\n'
        )
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")

        config = load(Path("../verifierd.toml"))

        assert config.sources[0].paths == (
            f"{tmp_path}/logs",
            f"{tmp_path.parent}/*.jsonl",
            "/abs/x.jsonl",
            "~/y.jsonl",
            "-",
        )
        assert config.policy == f"{tmp_path}/mine.toml"
        assert config.state.dir == f"{tmp_path}/state"
        assert config.labels.files == (f"{tmp_path}/labels.jsonl", "~/labels.jsonl")
        assert config.model.prompts == f"{tmp_path.parent}/prompts"
        assert config.model.name == "models/mine"  # it may as well be the hub's

    @pytest.mark.parametrize(("key", "value"), [("policy", "strict"), ("policy", "~/mine.toml"), ("policy", "/p.toml")])
    def test_what_is_not_relative_stays(self, tmp_path: Path, key: str, value: str) -> None:
        """A bundled policy's name, a home path and an absolute one are not anchored."""
        path = tmp_path / "verifierd.toml"
        path.write_text(f'{key} = "{value}"\n')

        assert load(path).policy == value

    def test_the_agents_folders_are_watched_by_default(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without sources, those agents' folders that exist are watched, with or without a file."""
        monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
        monkeypatch.delenv("CODEX_HOME", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        empty = tmp_path / "verifierd.toml"
        empty.write_text("")

        assert load(None).sources == ()

        (tmp_path / ".codex" / "sessions").mkdir(parents=True)
        assert load(None).sources == (SourceConfig(paths=("~/.codex/sessions",)),)

        (tmp_path / ".claude" / "projects").mkdir(parents=True)
        assert load(empty).sources == (SourceConfig(paths=AGENT_FOLDERS),)

    def test_the_agents_own_variables_move_their_folders(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """`CLAUDE_CONFIG_DIR` and `CODEX_HOME` say where the agents write."""
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
        monkeypatch.setenv("CODEX_HOME", "~/codex")
        (tmp_path / "claude" / "projects").mkdir(parents=True)
        (tmp_path / "codex" / "sessions").mkdir(parents=True)

        assert load(None).sources == (SourceConfig(paths=(f"{tmp_path}/claude/projects", "~/codex/sessions")),)

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        """A file that is not there is an error, never silently the defaults."""
        path = tmp_path / "absent.toml"

        with pytest.raises(ConfigError) as caught:
            load(path)

        assert str(caught.value) == f"{path}: cannot read the configuration: No such file or directory"
        assert caught.value.hint.startswith("Name an existing file after --config")

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        """A folder in place of the file is named as such."""
        with pytest.raises(ConfigError, match="Is a directory"):
            load(tmp_path)

    def test_another_encoding(self, tmp_path: Path) -> None:
        """A file that is not UTF-8 is refused with the place of the first bad byte."""
        path = tmp_path / "latin.toml"
        path.write_bytes(b'policy = "caf\xe9"\n')

        with pytest.raises(ConfigError) as caught:
            load(path)

        assert str(caught.value) == f"{path}: not UTF-8 at byte 13"


def test_parse_reads_no_file() -> None:
    """A text gives a configuration as it stands: nothing is anchored, no folder is looked for."""
    assert parse('[[sources]]\npaths = ["logs"]\n', "example") == Config(sources=(SourceConfig(paths=("logs",)),))
    with pytest.raises(ConfigError, match=r"^example: "):
        parse("x = 1", "example")


def test_convert_takes_any_struct() -> None:
    """Other documents are read by the same rules, nested keys in optional parts too."""

    class Inner(msgspec.Struct, forbid_unknown_fields=True):
        depth: int = 0

    class Outer(msgspec.Struct, forbid_unknown_fields=True):
        inner: Inner | None = None
        table: dict[str, Inner] = {}

    with pytest.raises(ConfigError) as caught:
        convert("[inner]\ndept = 1\n", "example", Outer)
    assert caught.value.hint == "Did you mean `depth`? Known keys there: depth."

    with pytest.raises(ConfigError, match="unknown field `dept`"):
        convert("[table.any]\ndept = 1\n", "example", Outer)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("15m", 900.0),
        ("24h", 86_400.0),
        ("1.5 h", 5_400.0),
        ("7d", 604_800.0),
        ("0s", 0.0),
        ("beginning", math.inf),
        ("end", None),
    ],
)
def test_duration(text: str, seconds: float | None) -> None:
    """Durations are seconds; from the beginning is for ever, from the end is none."""
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "24", "h", "-1h", "1w", "1h30m", "1.h", "24H", "\u0662h", "24h\n", "1e3s", "inf", "End"]
)
def test_no_duration(text: str) -> None:
    """Anything else is refused, and the message shows what would do."""
    with pytest.raises(ValueError, match=r"is not `beginning`, `end` or a duration such as `24h`, `90m` or `7d`$"):
        duration(text)


class TestDefaultState:
    """Where state lies if nobody says."""

    def test_systemds_directory_comes_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A unit gets its state directories from systemd; the first of them is taken."""
        monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/verifierd:/var/lib/more")

        assert default_state() == Path("/var/lib/verifierd")

    @pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has its own place")
    @pytest.mark.parametrize(
        ("base", "expected"),
        [
            (None, "/home/me/.local/state/verifierd"),
            ("", "/home/me/.local/state/verifierd"),
            ("/state", "/state/verifierd"),
            ("relative", "/home/me/.local/state/verifierd"),
        ],
    )
    def test_elsewhere_by_the_standard(self, monkeypatch: pytest.MonkeyPatch, base: str | None, expected: str) -> None:
        """`XDG_STATE_HOME` if it is absolute, as its standard wants, else below the home."""
        monkeypatch.delenv("STATE_DIRECTORY", raising=False)
        monkeypatch.setenv("HOME", "/home/me")
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        if base is not None:
            monkeypatch.setenv("XDG_STATE_HOME", base)

        assert default_state() == Path(expected)

    def test_a_mac_has_its_own_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On macOS it is the application support folder."""
        monkeypatch.delenv("STATE_DIRECTORY", raising=False)
        monkeypatch.setenv("HOME", "/Users/me")
        monkeypatch.setattr(sys, "platform", "darwin")

        assert default_state() == Path("/Users/me/Library/Application Support/verifierd")


@pytest.mark.parametrize(
    ("text", "answer"), [("default", False), ("mine.toml", True), ("./mine", True), ("a\\b", True), ("toml", False)]
)
def test_names_file(text: str, *, answer: bool) -> None:
    """A separator or the suffix makes a path of a name."""
    assert names_file(text) is answer
