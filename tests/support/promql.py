"""What the alerts and the board in `deploy/` ask Prometheus for: metrics, their labels, and values of these."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS_OWN = {"instance", "job", "le"}


@dataclass(frozen=True, slots=True)
class Use:
    """One metric in one expression."""

    where: str
    metric: str
    labels: frozenset[str]
    """Those that are chosen by, grouped by or shown."""
    values: frozenset[tuple[str, str]]
    """Of labels that are chosen by."""


def expressions() -> list[tuple[str, str, str]]:
    """(alert or panel, expression, text that shows its labels) of both files."""
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    found = [
        (f"panel {panel['title']}", target["expr"], target["legendFormat"])
        for panel in board["panels"] for target in panel.get("targets", ())
    ]  # fmt: skip
    rules = (DEPLOY / "prometheus-alerts.yml").read_text()
    for rule in rules.split("- alert: ")[1:]:
        expression = re.search(r"^ *expr: (.*)$", rule, re.MULTILINE)
        assert expression is not None, rule
        found.append((f"alert {rule.split()[0]}", expression[1], re.sub(r"\$labels\.(\w+)", r"{{\1}}", rule)))
    return found


def uses() -> Iterator[Use]:
    for where, expression, shown in expressions():
        grouped = ",".join(re.findall(r"\bby \(([^)]*)\)", expression)).replace(" ", "").split(",")
        legends = re.findall(r"\{\{ *(\w+) *\}\}", shown)
        for selector in re.finditer(r"\b(etcron_\w+)(?:\{([^}]*)\})?", expression):
            matchers = re.findall(r'(\w+)(?:=~|=|!=|!~)"([^"]*)"', selector[2] or "")
            labels = {*grouped, *legends, *(label for label, _ in matchers)} - PROMETHEUS_OWN - {"", "value"}
            values = {(label, value) for label, texts in matchers for value in texts.split("|")}
            yield Use(where, selector[1], frozenset(labels), frozenset(values))
