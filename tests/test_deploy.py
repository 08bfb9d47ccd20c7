"""What `deploy/` holds for machines around verifierd fits what verifierd is."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from verifierd.metrics import Metrics

PROMETHEUS = Path(__file__).parents[1] / "deploy" / "prometheus"
RULES = PROMETHEUS / "verifierd.rules.yml"


@pytest.mark.parametrize("arguments", [("check", "rules", RULES.name), ("test", "rules", "verifierd.rules.test.yml")])
def test_the_recording_rules_pass_promtool(arguments: tuple[str, ...]) -> None:
    """They are sound, and give the rates that their unit tests expect."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([promtool, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_recording_rules_name_series_that_exist() -> None:
    """Each series, with the labels and values asked of it, is in a scrape from the start."""
    scrape = Metrics().render()[1].decode()
    text = "\n".join(line for line in RULES.read_text(encoding="utf-8").splitlines() if "#" not in line)
    wanted = set(re.findall(r"(verifierd_\w+)(\{[^}]*\})?", text))

    assert len(wanted) > 5
    for name, selector in wanted:
        series = [line for line in scrape.splitlines() if re.match(rf"{name}[{{ ]", line)]
        assert series, name
        for label, value in re.findall(r'(\w+)!?="([^"]*)"', selector):
            assert any(f'{label}="{value}"' in line for line in series), (name, label, value)


def test_every_rule_has_its_unit_test() -> None:
    """A rate that nobody checked is not shown."""
    recorded = re.findall(r"record: (\S+)", RULES.read_text(encoding="utf-8"))
    tested = re.findall(r"expr: (verifierd:\S+)", (PROMETHEUS / "verifierd.rules.test.yml").read_text(encoding="utf-8"))

    assert set(recorded) == set(tested)
