"""What rules and dashboard ask Prometheus for, and what series there are to be asked for."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ("ALERTS", "DASHBOARD", "DEPLOY", "PROMETHEUS", "RULES", "asked", "bare", "panels", "ready", "strangers")

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
RULES = PROMETHEUS / "verifierd.rules.yml"
ALERTS = PROMETHEUS / "verifierd.alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "verifierd.json"

_FROM_PROMETHEUS = ("job", "instance", "le")
_SERIES = re.compile(r"((?:verifierd|process)_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')


def panels() -> list[dict[str, Any]]:
    """The dashboard's panels, without its rows."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_bytes())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def asked() -> list[str]:
    """The dashboard's expressions."""
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def ready(expression: str) -> str:
    """An expression with what Grafana puts in for its variables."""
    return expression.replace("$__rate_interval", "1m").replace("$job", ".+").replace("$instance", ".+")


def bare(path: Path) -> str:
    """A file of rules without its comments and texts for people."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line.partition("#")[0] for line in lines if not re.search(r"_url:|summary:|description:", line))


def strangers(text: str, scrape: str) -> Iterator[str]:
    """The series, labels and values that expressions ask for, and that a scrape does not have."""
    series: dict[str, list[str]] = {}
    for line in scrape.splitlines():
        if not line.startswith("#"):
            series.setdefault(re.split(r"[{ ]", line, maxsplit=1)[0], []).append(line)
    for name, selector in sorted(set(_SERIES.findall(text))):
        if name not in series:
            yield name
        for label, sign, value in _MATCHER.findall(selector):
            for word in value.split("|") if "~" in sign else [value]:
                known = any(f'{label}="{word}"' in line for line in series.get(name, ()))
                if not known and label not in _FROM_PROMETHEUS:
                    yield f'{name}{{{label}="{word}"}}'
