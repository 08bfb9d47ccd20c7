"""`verifierd config`: the template is complete, valid and the defaults."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tests.helpers import verifierd
from verifierd.cli.config import TEMPLATE, command
from verifierd.config import AGENT_FOLDERS, Config, SourceConfig, parse


def keys(kind: type[msgspec.Struct], place: str = "") -> Iterator[str]:
    """Every key of a settings Struct, those of the Structs inside it included."""
    for field in msgspec.structs.fields(kind):
        name = f"{place}{field.encode_name}"
        inner = next((t for t in (field.type, *getattr(field.type, "__args__", ())) if is_struct(t)), None)
        if inner is None:
            yield name
        else:
            yield from keys(inner, f"{name}.")


def is_struct(kind: Any) -> bool:
    """Is it a settings Struct?"""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def named(document: Any, place: str = "") -> Iterator[str]:
    """Every key of a TOML document."""
    for name, value in document.items():
        inner = value if isinstance(value, list) and value else [value]
        for table in inner:
            if isinstance(table, dict):
                yield from named(table, f"{place}{name}.")
        if not isinstance(inner[0], dict):
            yield f"{place}{name}"


def test_the_template_names_every_key() -> None:
    """With its commented keys switched on, the template has all keys of the configuration and no other."""
    switched_on = "\n".join(
        line.removeprefix("# ") if line.startswith("# ") and (" = " in line or "[[" in line) else line
        for line in TEMPLATE.splitlines()
    )
    document = tomllib.loads(switched_on)
    assert sorted(named(document)) == sorted(keys(Config))
    parse(switched_on, "template")


def test_the_template_is_the_defaults() -> None:
    """As written it says what is so without it, but for the agents' folders, which it names."""
    assert parse(TEMPLATE, "template") == Config(sources=(SourceConfig(paths=AGENT_FOLDERS),))


def test_check_says_who_is_told(tmp_path: Path) -> None:
    """A command or a webhook's host, and of what; what follows the host may be a secret."""
    path = tmp_path / "verifierd.toml"
    told = '[[notify]]\nwebhook = "https://example.org/T0/key"\n[[notify]]\ncommand = ["page"]\non = ["alarm"]\n'
    path.write_text(told)
    done = verifierd("config", "check", path)

    assert "  tells example.org of off_path, alarm\n  tells page of alarm\n" in done.stdout
    assert "key" not in done.stdout


def test_init_writes_and_check_accepts(tmp_path: Path) -> None:
    """`init` writes the template once; `check` says what it would do; an existing file is left alone."""
    path = tmp_path / "verifierd.toml"
    wrote = verifierd("config", "init", path)
    assert (wrote.returncode, path.read_text()) == (0, TEMPLATE)
    assert f"verifierd config check {path}" in wrote.stdout
    checked = verifierd("config", "check", path)
    assert checked.returncode == 0
    assert checked.stdout.splitlines()[0] == f"{path}: fine"
    assert "  serves http://127.0.0.1:9847" in checked.stdout
    path.write_text("policy = 'strict'\n")
    again = verifierd("config", "init", path)
    assert again.returncode == 78
    assert f"{path}: exists already" in again.stderr
    assert path.read_text() == "policy = 'strict'\n"


def test_check_refuses_what_run_would(tmp_path: Path) -> None:
    """A name that only the running daemon would look up is checked, too."""
    path = tmp_path / "c.toml"
    for text, message in (
        ("predictor = 'shell,nonsense'\n", "`predictor` is `nonsense`"),
        ("[[sources]]\npaths = ['x']\nformat = 'nonsense'\n", "`sources.format` is `nonsense`"),
    ):
        path.write_text(text)
        done = verifierd("config", "check", path)
        assert (done.returncode, done.stdout) == (78, "")
        assert message in done.stderr


def test_check_sees_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that a configuration names must be set, and hold what is needed, where they are used at all."""
    path = tmp_path / "c.toml"
    model = "[model]\nbase-url = 'http://127.0.0.1:1/v1'\nname = 'x'\napi-key-env = 'VERIFIERD_TEST_KEY'\n"
    told = "[[notify]]\nwebhook = 'https://example.org/hook'\nsecret-env = 'VERIFIERD_TEST_SECRET'\n"
    path.write_text(model + told)

    def check() -> tuple[int, str]:
        done = CliRunner().invoke(command, ["check", str(path)])
        return done.exit_code, done.stdout if done.exit_code == 0 else str(done.exception)

    assert check() == (1, "the environment variable VERIFIERD_TEST_KEY is not set")
    monkeypatch.setenv("VERIFIERD_TEST_KEY", "key")
    assert check() == (1, "the environment variable VERIFIERD_TEST_SECRET is not set")
    monkeypatch.setenv("VERIFIERD_TEST_SECRET", "whsec_?")
    assert "is no Base64" in check()[1]
    monkeypatch.setenv("VERIFIERD_TEST_SECRET", "secret")
    status, said = check()
    assert (status, "predictors shell,contracts,openai, " in said) == (0, True)
    monkeypatch.delenv("VERIFIERD_TEST_KEY")
    path.write_text("predictor = 'shell'\n" + model + told)
    assert check()[0] == 0


def test_check_reads_the_policy(tmp_path: Path) -> None:
    """The policy is told with what it quotes; one with an unknown key or predictor is refused, with its place."""
    path, mine = tmp_path / "c.toml", tmp_path / "mine.toml"
    path.write_text("policy = 'mine.toml'\n")
    mine.write_text("name = 'mine'\nquotes = 'off'\n")
    fine = verifierd("config", "check", path).stdout
    assert "(not calibrated), predictors shell,contracts, quotes off" in fine
    for text, message in (
        ("tools.Bash.min-coverge = 1", "unknown field `min-coverge` - at `$.tools.Bash`"),
        ("predictors = ['shell', 'oracle']", "`predictors` names `oracle`"),
    ):
        mine.write_text(f"name = 'mine'\n{text}\n")
        done = verifierd("config", "check", path)
        assert (done.returncode, done.stdout) == (78, "")
        assert f"{mine}: " in done.stderr
        assert message in done.stderr
    path.write_text("policy = 'mine.toml'\npredictor = 'shell'\n")
    assert "predictors shell, quotes short" in verifierd("config", "check", path).stdout


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """`init` into a folder that does not exist is one message."""
    done = verifierd("config", "init", tmp_path / "nowhere" / "c.toml")
    assert done.returncode == 78
    assert "cannot write" in done.stderr
