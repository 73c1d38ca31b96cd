"""Metrics are not sampled more often than needed."""

import re
from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, entries, is_kubernetes
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_LEAST_SECONDS = 5
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    least = int(config.get("minSeconds", _LEAST_SECONDS))
    for index, endpoint in enumerate(entries(resource.props, "spec", "endpoints")):
        interval = str(at(endpoint, "interval") or "60s")
        match = _DURATION.fullmatch(interval)
        seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
        if seconds < least:
            yield broken(
                resource,
                f"spec.endpoints[{index}].interval",
                quoted(interval),
                f"must be at least {least}s",
            )


RULE = ResourceRule(
    name="scrape-interval",
    description="Metrics are not scraped more often than autoscaling needs.",
    applies=is_kubernetes("PodMonitoring"),
    check=_check,
    reference="Managed Prometheus bills every sample",
    config={
        "minSeconds": {
            "type": "integer",
            "default": _LEAST_SECONDS,
            "description": "Minimum scrape interval, in seconds.",
        }
    },
)
