"""The rules and alerts of `deploy/prometheus`: sound, tested, about series that exist, and each with a runbook."""

import re
import shutil
import subprocess

import pytest

from tests.deploy.expressions import ALERTS, DEPLOY, PROMETHEUS, RULES, bare, strangers
from verifierd.metrics import Metrics

TESTS = ("verifierd.rules.test.yml", "verifierd.alerts.test.yml")


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "--lint-fatal", RULES.name, ALERTS.name),
        ("test", "rules", *TESTS),
    ],
)
def test_they_pass_promtool(arguments: tuple[str, ...]) -> None:
    """Case 111: they are sound, and give the figures and alerts that their unit tests expect."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([promtool, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_they_name_series_that_exist() -> None:
    """Case 111: each series, with the labels and values asked of it, is in a scrape from the start."""
    text = bare(RULES) + bare(ALERTS)

    assert len(set(re.findall(r"verifierd_\w+", text))) > 25
    assert list(strangers(text, Metrics().render()[1].decode())) == []
    assert set(re.findall(r"verifierd:[\w:]+", bare(ALERTS))) <= set(recorded())


def test_a_series_that_does_not_exist_is_noticed() -> None:
    """A wrong name, label or value is found, and what is right is not."""
    scrape = Metrics().render()[1].decode()
    text = (
        'verifierd_verdicts_total{verdict="on"} + verifierd_verdict_total + verifierd_verdicts_total{verdict="on_path"}'
    )

    assert list(strangers(text, scrape)) == ["verifierd_verdict_total", 'verifierd_verdicts_total{verdict="on"}']


def test_every_rule_and_alert_has_its_unit_test() -> None:
    """A figure or an alert that nobody checked is not shown."""
    tests = "".join((PROMETHEUS / name).read_text(encoding="utf-8") for name in TESTS)
    tested = " ".join(re.findall(r"expr: (.*)", tests))

    assert set(recorded()) == set(re.findall(r"verifierd:[\w:]+", tested))
    assert set(alerts()) == set(re.findall(r'alertname="(\w+)", alertstate="firing"', tests))


def test_every_alert_says_what_it_is_and_what_to_do() -> None:
    """How severe, since when, what in words, and a section of the runbook for it; the runbook has no other section."""
    runbook = (DEPLOY / "README.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### (Verifierd\w+)$", runbook, re.MULTILINE)

    assert sections == list(alerts())
    for name, text in alerts().items():
        (severity,) = re.findall(r"severity: (\w+)", text)
        assert severity in ("critical", "warning")
        assert re.search(r"\n +for: [0-9]+[mh]\n", text), name
        assert re.search(r"\n +summary: \w", text), name
        assert re.search(r"\n +description: ", text), name
        assert re.search(rf"\n +runbook_url: deploy/README\.md#{name.lower()}\n", text), name


def recorded() -> list[str]:
    """What the rules record."""
    names = re.findall(r"record: (\S+)", RULES.read_text(encoding="utf-8"))
    assert len(names) == len(set(names))
    return names


def alerts() -> dict[str, str]:
    """Each alert with all that stands there of it, in order."""
    _, *parts = ALERTS.read_text(encoding="utf-8").split("- alert: ")
    return {part.splitlines()[0]: f"{part.rstrip()}\n" for part in parts}
