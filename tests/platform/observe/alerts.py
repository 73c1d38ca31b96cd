"""Alerts as the Prometheus of a twin's cluster evaluates them."""

import json
import urllib.request
from pathlib import Path
from typing import Any

from twin.cluster.monitoring.server import address_of

_SECONDS = 10


def alert(cluster: Path, name: str) -> dict[str, Any]:
    """Return the rule of an alert, with its state and its active alerts.

    Args:
        cluster: Folder of the cluster.
        name: Name of the alert.
    """
    url = f"http://{address_of(cluster)}/api/v1/rules?type=alert"
    with urllib.request.urlopen(url, timeout=_SECONDS) as answer:
        groups = json.load(answer)["data"]["groups"]
    return next(rule for group in groups for rule in group["rules"] if rule["name"] == name)
