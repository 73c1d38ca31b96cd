"""Alerts as data, from which policies or rule files are generated."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.data_file import read_table

from .promql import Dialect, Scope, fill

_FILE = Path(__file__).parent / "data" / "alerts.yaml"
RUNBOOKS = "docs/runbooks"
"""Location of the runbooks in the project's repository."""


def runbook_name(alert: str) -> str:
    """Return the name of an alert's runbook: that of the alert in kebab case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", alert).lower()


@dataclass(frozen=True)
class Alert:
    """A condition that needs human attention."""

    name: str
    severity: str
    lasting: str
    """How long the condition must hold, such as `5m`."""
    summary: str
    expr: str
    was: str | None = None
    """Its former name, which is still that of its policy in the state of a deployed stack."""

    @property
    def runbook(self) -> str:
        """Name of its runbook, such as `no-ready-replica`."""
        return runbook_name(self.name)

    @property
    def lasting_seconds(self) -> int:
        """`lasting` in seconds."""
        unit = {"h": 3600, "m": 60, "s": 1}[self.lasting[-1]]
        return int(self.lasting[:-1]) * unit


@cache
def sources() -> tuple[dict[str, Any], ...]:
    """Return the content of data/alerts.yaml."""
    return tuple(read_table(_FILE)["alerts"])


def alerts(scope: Scope, dialect: Dialect) -> tuple[Alert, ...]:
    """Return the alerts of a platform that this Prometheus supports and the stack enables."""
    return tuple(
        Alert(
            expr=fill(source["expr"], scope, "5m"),
            lasting=source["lasting"],
            name=source["name"],
            severity=source["severity"],
            summary=source["summary"],
            was=source.get("was"),
        )
        for source in sources()
        if source.get("only", dialect) == dialect and scope.has_one(source.get("needs"))
    )


def rule_group(found: tuple[Alert, ...], name: str = "gke-inference") -> dict[str, Any]:
    """Return the alerts as one group of a Prometheus rule file."""
    return {
        "name": name,
        "rules": [
            {
                "alert": alert.name,
                "annotations": {
                    "runbook": f"{RUNBOOKS}/{alert.runbook}.md",
                    "summary": alert.summary,
                },
                "expr": alert.expr,
                "for": alert.lasting,
                "labels": {"severity": alert.severity},
            }
            for alert in found
        ],
    }
