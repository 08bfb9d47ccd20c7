"""What `deploy/` holds for systemd, launchd, Docker and logrotate fits what verifierd is."""

import gzip
import os
import plistlib
import re
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers import Live, counter, jsonl, read_verdicts
from verifierd.cli.config import require_known
from verifierd.config import load
from verifierd.service import LABEL, launchd_agent, systemd_unit

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PROGRAM = "/opt/verifierd/bin/verifierd"
EXPOSURE = 2.0


def tool(name: str) -> str:
    """A program of the system; the test is skipped where it is not installed."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def ran(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a program and take what it says."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


def installed(folder: Path, *drop_ins: str) -> Path:
    """The system unit, as if its program were there."""
    unit = folder / "verifierd.service"
    unit.write_text((DEPLOY / "systemd" / unit.name).read_text().replace(PROGRAM, "/bin/true"))
    (folder / f"{unit.name}.d").mkdir()
    for name in drop_ins:
        shutil.copy(DEPLOY / "systemd" / name, folder / f"{unit.name}.d")
    return unit


@pytest.mark.parametrize("drop_ins", [(), ("local-model.conf",)])
def test_the_system_unit_is_one_that_systemd_takes(tmp_path: Path, drop_ins: Sequence[str]) -> None:
    """With the drop-in and without, there is nothing to complain about."""
    done = ran(tool("systemd-analyze"), "verify", installed(tmp_path, *drop_ins))

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_system_unit_exposes_little(tmp_path: Path) -> None:
    """By the measure of `systemd-analyze security`."""
    done = ran(tool("systemd-analyze"), "security", "--offline=true", "--no-pager", installed(tmp_path))
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)

    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) <= EXPOSURE


def test_both_units_agree() -> None:
    """On how the daemon is watched, started again and stopped."""
    system = (DEPLOY / "systemd" / "verifierd.service").read_text().splitlines()
    user = systemd_unit([PROGRAM], {}).splitlines()

    for key in ("Type", "NotifyAccess", "WatchdogSec", "TimeoutStopSec", "KillMode", "Restart", "UMask"):
        assert [line for line in system if line.startswith(f"{key}=")] == [
            line for line in user if line.startswith(f"{key}=")
        ], key
    assert "RestartPreventExitStatus=2 78" in system
    assert "RestartPreventExitStatus=2 78" in user


def test_the_sample_agent_is_what_install_writes() -> None:
    """For a user called `you`."""
    home = Path("/Users/you")
    logs = home / "Library" / "Logs" / "verifierd"
    program = [f"{home}/.local/share/verifierd/bin/python", "-P", "-m", "verifierd", "run"]
    written = launchd_agent([*program, "--log-file", f"{logs}/verifierd.log"], {}, errors=logs / "stderr.log")
    sample = DEPLOY / "launchd" / f"{LABEL}.plist"

    assert sample.read_bytes() == written
    assert plistlib.loads(written)["Label"] == sample.stem


def test_the_image_is_made_of_files_that_are_there() -> None:
    """What the Dockerfile copies exists and is not ignored, and it names settings that are known."""
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    ignore = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    bundled = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].keys()

    assert ignore[0] == "*"
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignore
    assert {"verifierd", "pyproject.toml", project["project"]["readme"], *bundled} <= set(copied)
    assert set(project["project"]["license-files"]) <= set(copied)
    config = DEPLOY / "docker" / "verifierd.toml"
    require_known(load(config), str(config))
    assert "/etc/verifierd/verifierd.toml" in text


def test_the_compose_file_fits_the_rest() -> None:
    """It parses, mounts what exists, keeps everything on loopback and gives no container more than it needs."""
    yaml = pytest.importorskip("yaml")
    compose = yaml.safe_load((DEPLOY / "docker" / "compose.yml").read_text())
    services = compose["services"]

    assert services.keys() == {"verifierd", "prometheus", "grafana"}
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["network_mode"] == "host", name
        assert "ports" not in service, name
        for mount in service["volumes"]:
            source, target, *mode = re.sub(r"\$\{\w+:-(.*?)\}(?=:/)", r"\1", mount).split(":")
            assert target.startswith("/")
            if source.startswith("."):
                assert (DEPLOY / "docker" / source).exists(), source
            assert source in compose["volumes"] or mode == ["ro"], mount
    assert "--web.listen-address=127.0.0.1:9090" in services["prometheus"]["command"]
    assert services["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
    assert load(DEPLOY / "docker" / "verifierd.toml").http.host == "127.0.0.1"
    logs = [mount.split(":/")[1].removesuffix(":ro") for mount in services["verifierd"]["volumes"][1:]]
    assert [f"/{log}" for log in logs] == list(load(DEPLOY / "docker" / "verifierd.toml").sources[0].paths)
    build = services["verifierd"]["build"]
    assert (DEPLOY / "docker" / build["context"] / build["dockerfile"]).is_file()


def test_logrotate_loses_and_doubles_no_verdict(tmp_path: Path) -> None:
    """Rotated twice while the daemon runs and once while it does not: every verdict is in one file, once."""
    logrotate = tool("logrotate")
    log, out = tmp_path / "a.jsonl", tmp_path / "logs" / "verdicts.jsonl"
    out.parent.mkdir()
    lines = counter("t", 40)
    text = (DEPLOY / "logrotate.conf").read_text()
    config = tmp_path / "logrotate.conf"
    config.write_text(
        re.sub(r"^ *su .*\n", "", text, flags=re.MULTILINE).replace("/var/log/verifierd/verdicts.jsonl", str(out))
    )
    config.chmod(0o644)

    def rotate() -> None:
        done = ran(logrotate, "--force", "--state", tmp_path / "rotated", config)
        assert (done.returncode, done.stderr) == (0, "")

    def committed() -> int:
        return sum(len(plain(path).splitlines()) for path in out.parent.iterdir())

    def append(until: int) -> None:
        with log.open("ab") as file:
            file.write(jsonl(*lines[until - 10 : until]))

    for number in (1, 3):  # two starts
        with Live(tmp_path / "state", log, "--out", out, "--port", "0") as live:
            for until in (10 * number, 10 * number + 10):
                append(until)
                live.wait(lambda until=until: committed() == until)  # type: ignore[misc]  # bound in the loop
                rotate()
            assert live.stop() == 0

    assert sorted(path.name for path in out.parent.iterdir() if path.stat().st_size) == [
        "verdicts.jsonl.1",
        "verdicts.jsonl.2.gz",
        "verdicts.jsonl.3.gz",
        "verdicts.jsonl.4.gz",
    ]
    steps = []
    for path in sorted(out.parent.iterdir(), reverse=True):
        whole = tmp_path / "whole"
        whole.write_bytes(plain(path))
        steps += [verdict["step"] for verdict in read_verdicts(whole)]
    assert steps == list(range(1, 41))


def plain(path: Path) -> bytes:
    """A file's content, unpacked; nothing where it was rotated meanwhile."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return b""
    return gzip.decompress(data) if path.suffix == ".gz" else data
