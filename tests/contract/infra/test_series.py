"""Every series that a stack reads is written by something that the stack has."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gke_inference.observability.alert_source import alerts
from gke_inference.observability.alert_source import sources as alert_sources
from gke_inference.observability.dashboard_source import dashboards
from gke_inference.observability.dashboard_source import sources as dashboard_sources
from gke_inference.observability.promql import Dialect
from infra.deploy.observability import scope
from infra.plan import resolve
from infra.reading.load import STACKS, parse, platform_of
from infra.stack import Platform
from scripts.check.series import names_in, reads_of
from tests.contract.components_gcp import observed
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.test_streams import KAFKA
from tests.contract.recorder import Registration
from tests.shipped_stacks import EXAMPLES
from twin.cluster.monitoring.kube_state_metrics import METRICS as KUBE_STATE
from twin.cluster.monitoring.system_jobs import (
    DUTY_CYCLE,
    MEMORY_TOTAL,
    MEMORY_USED,
    RESTART_COUNT,
    load_balancer_series,
)
from twin.front import uptime

PICKER = (Path(__file__).parents[1] / "components_gcp" / "picker-metrics.txt").read_text().split()
_PUBSUB = (STACKS.parent / "twin" / "tools" / "pubsub" / "server.go").read_text()
PUBSUB = [f"pubsub_googleapis_com:{name}" for name in re.findall(r'"(subscription_\w+)"', _PUBSUB)]
"""What the twin's Pub/Sub exports, as its source says it."""
_DEVICES = {RESTART_COUNT, DUTY_CYCLE, MEMORY_TOTAL, MEMORY_USED}
ALWAYS = {name for names in KUBE_STATE.values() for name in names} | _DEVICES
"""What GKE writes for every cluster: the twin's exporters declare it."""
_RENAMING = (STACKS.parent / "twin" / "tools" / "llm-d-router" / "metrics.go").read_text()
_RENAMED: dict[str, str] = dict(re.findall(r'^\t"(\w+)": +"(\w+)",$', _RENAMING, re.M))
_PREFIX = r"inference_(?:extension|objective|pool)_"
NEXT_PICKER = [
    f"llm_d_epp_{_RENAMED.get(rest, rest)}"
    for rest in (re.sub(_PREFIX, "", name) for name in PICKER)
]
"""What llm-d-router's picker exports: the metrics of the other one under new names."""
PROCESS = ("process_cpu_seconds", "process_resident_memory_bytes")
"""What client_golang's process collector exports of every program in Go."""
BY_JOB = (
    (r".+-picker", [*PICKER, *NEXT_PICKER, *PROCESS]),
    (r".+-body-router", observed.ROUTER_METRICS),
    (r"client-gate", observed.CALLOUT_METRICS),
    (r"relay(-.+)?", observed.RELAY_METRICS),
    (r"batch.*|.*-batches", observed.BATCH_METRICS),
    (r"stream.*", observed.STREAM_METRICS),
)
"""What programs without a filter export, by the name of their PodMonitoring."""
STACK_FILES = [
    file
    for file in (*sorted(STACKS.glob("Pulumi.*.yaml")), *sorted(EXAMPLES.glob("*/Pulumi.*.yaml")))
    if platform_of(file).get("layer") != "serving"
]
"""Every stack and example. A serving stack is read with its platform."""


def written(registrations: Iterable[Registration]) -> list[str]:
    """Return the names, as patterns, of the series that the parts of a stack write."""
    found = [re.escape(name) for name in ALWAYS]
    for seen in registrations:
        kind = seen.type.rpartition(":")[2]
        spec: dict[str, Any] = seen.inputs.get("spec") or {}
        if kind == "Gateway":
            found += map(re.escape, load_balancer_series(spec["gatewayClassName"]))
        if kind == "GlobalForwardingRule":
            found += map(re.escape, load_balancer_series("global"))
        if kind == "UptimeCheckConfig":
            found += [uptime.PASSED, uptime.EXPIRES]
        if kind == "Subscription":
            found += PUBSUB
        if kind in ("PodMonitoring", "ClusterPodMonitoring"):
            found += scraped(seen.inputs["metadata"]["name"], spec)
        if kind in ("Rules", "ClusterRules", "GlobalRules"):
            found += [rule["record"] for group in spec["groups"] for rule in group["rules"]]
    return found


def scraped(job: str, spec: dict[str, Any]) -> list[str]:
    kept = [
        rule["regex"]
        for endpoint in spec["endpoints"]
        for rule in endpoint.get("metricRelabeling", [])
        if rule["action"] == "keep" and rule["sourceLabels"] == ["__name__"]
    ]
    if kept:
        return kept
    names = [name for pattern, known in BY_JOB if re.fullmatch(pattern, job) for name in known]
    return [f"{name}(_bucket|_count|_sum|_total)?" for name in names]


@pytest.mark.parametrize("file", STACK_FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_nothing_reads_a_series_that_nothing_writes(deployed: Deployed, file: Path) -> None:
    check_series(deployed, parse(json.dumps(platform_of(file))))


def test_nothing_reads_a_series_that_nothing_writes_of_what_no_example_has(
    deployed: Deployed,
) -> None:
    check_series(deployed, with_rest())


def check_series(deployed: Deployed, platform: Platform) -> None:
    registrations = deployed(platform).registrations
    objects = [
        {**seen.inputs, "kind": seen.type.rpartition(":")[2]}
        for seen in registrations
        if seen.type.startswith("kubernetes:")
    ]
    writes = re.compile("|".join(f"(?:{each})" for each in written(registrations)))
    reads = {(read.name, read.place) for read in reads_of(resolve(platform), objects)}
    assert len({name for name, _ in reads}) > 10  # as many as a platform without models has
    assert sorted(read for read in reads if not writes.fullmatch(read[0])) == []


def with_rest() -> Platform:
    """Return a stack for what no stack or example sets: Kafka, a limit of costs, TGI, Triton."""
    platform = edited("engines/engines", [])
    platform.setdefault("monitoring", {})["cost_limit_usd_per_hour"] = 100
    platform["models"]["llama-3.1-8b"] |= {
        "canary": {"engine": "triton", "percent": 25, "version": "b", "weights": "other"},
        "engine": "tgi",
    }
    platform["streams"] = {"summaries": KAFKA}
    for region in platform["regions"].values():
        region["release_channel"] = "rapid"
    return parse(json.dumps(platform))


def alert_names(platform: Platform) -> set[str]:
    return {each.name for each in alerts(scope(resolve(platform)), Dialect.MANAGED)}


def panel_titles(platform: Platform) -> set[tuple[str, str]]:
    pages = dashboards(scope(resolve(platform)))
    return {(page.name, panel.title) for page in pages for panel in page.panels}


def test_every_alert_and_panel_is_one_of_a_stack_whose_series_are_looked_for() -> None:
    tried = [with_rest(), *(parse(json.dumps(platform_of(file))) for file in STACK_FILES)]
    rows = [(page["name"], row) for page in dashboard_sources() for row in page["rows"]]
    shown = {(name, panel["title"]) for name, row in rows for panel in row["panels"]}
    assert {each["name"] for each in alert_sources()} == set[str]().union(*map(alert_names, tried))
    assert shown == set[tuple[str, str]]().union(*map(panel_titles, tried))


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('sum by (job) (rate(a:b_total{x="c{d}"}[5m])) > 0.05 and on (job) e', {"a:b_total", "e"}),
        ('label_replace(vector(1.5), "job", "m", "", "") or absent(up{a="b"})', {"up"}),
        ("avg by (a) (m offset 5m) unless bool n > 1e3", {"m", "n"}),
        ('a{x=~"k|l"} / on (x) group_left (y) b - vector(0)', {"a", "b"}),
    ],
)
def test_the_names_of_series_are_found_in_an_expression(expression: str, names: set[str]) -> None:
    assert names_in(expression) == names
