"""The dashboard: sound, by the conventions of Grafana's dashboards, about series that exist."""

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.expressions import DASHBOARD, RULES, asked, panels, ready, strangers
from verifierd.metrics import Metrics

SELECTION = '{job=~"$job", instance=~"$instance"'
VECTOR = re.compile(r"\b((?:verifierd|process)[_:][\w:]+|up)\b(?!\()")


def test_its_expressions_pass_promtool(tmp_path: Path) -> None:
    """Case 111: with what Grafana puts in for the variables each is a sound expression."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    rules = [{"record": f"checked:{number}", "expr": ready(text)} for number, text in enumerate(asked())]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")  # JSON is YAML
    done = subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_it_shows_what_exists() -> None:
    """Case 111: each series is in a scrape from the start, or recorded by the rules; what is recorded is shown."""
    text = "\n".join(asked())
    recorded = set(re.findall(r"record: (\S+)", RULES.read_text(encoding="utf-8")))

    assert list(strangers(text, Metrics().render()[1].decode())) == []
    assert set(re.findall(r"verifierd:[\w:]+", text)) == recorded


def test_the_two_miss_rates_have_panels_of_their_own() -> None:
    """What shadow injection misses is not shown beside what labels say was missed: they are not comparable."""
    for panel in panels():
        text = " ".join(target["expr"] for target in panel["targets"])
        assert not ("shadow" in text and ("fnr" in text.replace("shadow_fnr", "") or "label" in text)), panel["title"]


def test_every_target_is_selected_by_job_and_instance() -> None:
    """Each series of each expression is of the chosen daemons alone."""
    for text in asked():
        names = VECTOR.findall(re.sub(r"\{[^}]*\}", "", text))
        assert names, text
        assert text.count(SELECTION) == len(names), text


def test_counters_are_rates_and_gauges_are_not() -> None:
    """A counter is read by rate or increase over Grafana's own interval, and nothing else is."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", Metrics().render()[1].decode(), re.MULTILINE))
    for text in asked():
        flat = re.sub(r"\{[^}]*\}", "", text)
        rated = re.findall(r"(?:rate|increase)\(([\w:]+)\[(.*?)\]\)", flat)
        assert {span for _, span in rated} <= {"$__rate_interval"}, text
        inside = {name for name, _ in rated}
        for name in VECTOR.findall(flat):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            counts = kinds.get(name) == "counter" or kinds.get(base) == "histogram"
            assert counts == (name in inside), text


def test_every_panel_explains_itself() -> None:
    """It has a title, a description, a unit, and a legend for each series; no two have the same title in a row."""
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert target["legendFormat"], panel["title"]
            assert target["datasource"] == panel["datasource"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_lie_beside_each_other() -> None:
    """None covers another or leaves the grid, and each has a number of its own."""
    document = json.loads(DASHBOARD.read_bytes())
    cells: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        own = set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
        assert not cells & own, panel["title"]
        cells |= own
    numbers = [panel["id"] for panel in document["panels"]]
    assert len(numbers) == len(set(numbers))


def test_it_can_be_provisioned() -> None:
    """It carries no number of one Grafana, no data source of one, and is not for changing by hand."""
    document = json.loads(DASHBOARD.read_bytes())
    source, job, instance = document["templating"]["list"]

    assert (document["id"], document["uid"], document["editable"]) == (None, "verifierd", False)
    assert "__inputs" not in document
    assert (document["refresh"], document["time"]["from"]) == ("30s", "now-6h")
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    for variable in (job, instance):
        assert variable["multi"]
        assert variable["includeAll"]
        assert variable["query"]["query"].startswith("label_values(verifierd_build_info")
