"""The alerts as data, before a policy or a rule file is made of them."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.data_file import read_table

from .promql import Dialect, Scope, fill

_FILE = Path(__file__).parent / "data" / "alerts.yaml"
SEVERITIES = ("warning", "critical")
"""From the lesser to the greater."""
RUNBOOKS = "docs/runbooks"
"""Where the runbooks are in the project's repository."""


@dataclass(frozen=True)
class Alert:
    """One thing that somebody has to look at."""

    name: str
    severity: str
    lasting: str
    """For how long it must be so, such as `5m`."""
    summary: str
    expr: str

    @property
    def runbook(self) -> str:
        """Name of its runbook, such as `no-ready-replica`."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", self.name).lower()

    @property
    def lasting_seconds(self) -> int:
        """`lasting` as seconds."""
        unit = {"h": 3600, "m": 60, "s": 1}[self.lasting[-1]]
        return int(self.lasting[:-1]) * unit


@cache
def sources() -> tuple[dict[str, Any], ...]:
    """Returns data/alerts.yaml as it is."""
    return tuple(read_table(_FILE)["alerts"])


def alerts(scope: Scope, dialect: Dialect) -> tuple[Alert, ...]:
    """Returns the alerts of a platform that this Prometheus can know and the stack asks for."""
    return tuple(
        Alert(
            expr=fill(source["expr"], scope, "5m"),
            lasting=source["lasting"],
            name=source["name"],
            severity=source["severity"],
            summary=source["summary"],
        )
        for source in sources()
        if source.get("only", dialect) == dialect
        and ("needs" not in source or source["needs"] in scope.says)
    )


def rule_group(found: tuple[Alert, ...], name: str = "gke-inference") -> dict[str, Any]:
    """Returns the alerts as one group of a Prometheus rule file."""
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
