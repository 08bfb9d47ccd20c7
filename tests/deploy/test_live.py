"""A real Prometheus scrapes a real daemon, with the files of `deploy/`."""

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.expressions import ALERTS, PROMETHEUS, RULES, asked, bare, ready, strangers
from tests.helpers import Live, counter, echo, jsonl, native, read_verdicts, verifierd, wrong_once

pytestmark = pytest.mark.xdist_group("prometheus")  # one daemon and one Prometheus for all

SILENT = {
    "verifierd_source_oldest_unverified_timestamp_seconds": "nothing is under way",
    "verifierd:false_alarm_budget:ratio": "the policy was not calibrated",
    "verifierd:simulator_errors:ratio": "no model is asked",
}
"""Figures that this daemon has none of, and why."""


class Scraper:
    """Prometheus over a daemon.

    Args:
        folder: Where it keeps what it scraped.
        target: The daemon's address.
    """

    def __init__(self, folder: Path, target: str) -> None:
        text = (PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8")
        for shipped, here in (
            ("127.0.0.1:9847", target),
            ("15s", "1s"),
            ("verifierd.rules.yml", str(PROMETHEUS / "verifierd.rules.yml")),
            ("verifierd.alerts.yml", str(PROMETHEUS / "verifierd.alerts.yml")),
        ):
            assert shipped in text
            text = text.replace(shipped, here)
        (folder / "prometheus.yml").write_text(text, encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self._url = f"http://{address}/api/v1/"
        self._log = folder / "prometheus.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={address}",
                ],
                stdout=log,
                stderr=log,
            )

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(30)

    def get(self, path: str, **query: str) -> Any:
        """What its API answers; None while it does not."""
        url = f"{self._url}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                found = json.load(answer)
        except OSError:
            return None
        assert found["status"] == "success"
        return found["data"]

    def query(self, expression: str) -> list[float]:
        """The values of an expression, now."""
        data = self.get("query", query=expression)
        return [] if data is None else [float(sample["value"][1]) for sample in data["result"]]

    def wait(self, expression: str, seconds: float = 30) -> float:
        """The one value of an expression, once it has one."""
        end = time.monotonic() + seconds
        while not (found := self.query(expression)):
            assert self._process.poll() is None, self._log.read_text(encoding="utf-8")
            assert time.monotonic() < end, f"{expression} has no value"
            time.sleep(0.1)
        (value,) = found
        return value


class Watched:
    """What a test sees: the daemon, who scrapes it, its log, and the labels that it follows."""

    def __init__(self, daemon: Live, scraper: Scraper, log: Path, labels: Path) -> None:
        self.daemon = daemon
        self.scraper = scraper
        self.log = log
        self.labels = labels


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A daemon that judged steps of every kind, before and while it was scraped, and knows the truth of some."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    log, labels, settings = folder / "a.jsonl", folder / "labels.jsonl", folder / "verifierd.toml"
    log.write_bytes(
        jsonl(*wrong_once(counter("count", 12), 6, "9 notes.txt\n"), *wrong_once(echo("say", 8), 5, "no\n"))
    )
    settings.write_text('[labels]\nfiles = ["labels.jsonl"]\n\n[shadow]\nshare = 1.0\n', encoding="utf-8")
    with Live(folder / "state", log, "--port", "0", "--config", settings) as daemon:
        daemon.wait(lambda: len(daemon.steps) == 20)
        scraper = Scraper(folder, daemon.url.removeprefix("http://"))
        try:
            scraper.wait("verifierd_build_info")
            now = datetime.now(UTC).isoformat()
            unknown = [native("ask", n, "cat /etc/motd", f"{n}\n", exit_code=0, timestamp=now) for n in (1, 2)]
            with log.open("ab") as file:
                file.write(jsonl(*unknown, *(line | {"timestamp": now} for line in echo("more", 12))))
            daemon.wait(lambda: len(daemon.steps) == 34)
            ids = {(one["trajectory"], one["step"]): one["step_id"] for one in read_verdicts(daemon.out)}
            labels.write_bytes(jsonl(*({"id": ids[step], "label": label} for step, label in SAID)))
            scraper.wait("verifierd_label_events_total{action='changed'} == 1")
            scraper.wait("verifierd:step_fnr:ratio")
            scraper.wait("verifierd:shadow_fnr:ratio")
            scraper.wait("verifierd:end_to_end_delay_seconds:p99")
            yield Watched(daemon, scraper, log, labels)
        finally:
            scraper.stop()


SAID = (
    (("count", 6), "on_path"),  # a false positive
    (("say", 5), "off_path"),  # found
    (("ask", 1), "off_path"),  # missed, for want of knowledge
    (("say", 7), "off_path"),  # missed
    (("ask", 2), "on_path"),
    (("say", 1), "off_path"),
    (("say", 1), "on_path"),  # it was changed
    (("say", 2), "on_path"),
    (("say", 3), "unsure"),
    (("more", 1), "on_path"),  # eval takes trajectories of which nothing is said to be clean
)
"""What is said of steps. Of five on path one is found off path, of three off path two are missed."""


def test_the_rates_are_those_of_eval(watched: Watched) -> None:
    """The recording rules over the labels' gauges give what `eval` finds with the same labels, which is known here."""
    done = verifierd("eval", watched.log, "--labels", watched.labels, "--json")
    found: Mapping[str, Any] = json.loads(done.stdout)

    assert watched.scraper.query("verifierd:step_fpr:ratio") == [0.2]
    assert watched.scraper.query("verifierd:step_fnr:ratio") == [pytest.approx(2 / 3)]
    for name in ("step_fpr", "step_fnr", "step_fpr_decided", "step_fnr_decided"):
        assert watched.scraper.query(f"verifierd:{name}:ratio") == [pytest.approx(found[name]["value"])], name


def test_the_shadows_rate_is_that_of_its_counters(watched: Watched) -> None:
    """Of the faults put in while it was scraped the rule gives the share that was not found, in all and by kind."""
    found = watched.scraper.query("verifierd:shadow_fnr:ratio")
    kinds = watched.scraper.query("verifierd:shadow_fnr_by_kind:ratio")

    assert len(kinds) > 3
    assert 0 <= min(kinds) <= found[0] <= max(kinds) <= 1


def test_every_rule_and_alert_works_on_it(watched: Watched) -> None:
    """Each was evaluated without an error, and nothing alerts but what is so."""
    scraper = watched.scraper
    groups = scraper.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]

    assert len(rules) > 40
    assert {rule["health"] for rule in rules} == {"ok"}, [rule["lastError"] for rule in rules if rule.get("lastError")]
    assert {target["health"] for target in scraper.get("targets")["activeTargets"]} == {"up"}
    waiting = {rule["name"] for rule in rules if rule["type"] == "alerting" and rule["state"] != "inactive"}
    assert waiting <= {"VerifierdAlarmOpen", "VerifierdDiskFull", "VerifierdDiskFilling"}


def test_every_panel_shows_something(watched: Watched) -> None:
    """Case 111: each expression of the dashboard has values on a live scrape, but those that this daemon lacks."""
    texts = [ready(text) for text in asked()]
    silent = [text for text in texts if not watched.scraper.query(text)]

    assert [text for text in silent if not any(name in text for name in SILENT)] == []


def test_what_is_asked_for_is_scraped(watched: Watched) -> None:
    """Case 111: series, labels and values of rules, alerts and dashboard are all there."""
    text = "\n".join([bare(RULES), bare(ALERTS), *asked()])

    assert list(strangers(text, watched.daemon.get("/metrics")[1])) == []


def test_a_scrape_passes_promtool(watched: Watched) -> None:
    """Case 109: after a run the scrape has no name or type that promtool objects to."""
    scrape = watched.daemon.get("/metrics")[1]
    done = subprocess.run(["promtool", "check", "metrics"], input=scrape, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
